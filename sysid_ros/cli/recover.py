# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""``sysid recover``."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

from sysid_ros.bags.copying import copy_bag, new_bag
from sysid_ros.cli.console import make_console, print_document, print_table, say


@dataclass(frozen=True)
class Recovered:
    """What was read of a bag and written into a whole one.

    Attributes:
        bag: The bag.
        target: The new bag.
        unfinished: Names of its files that their recorder had not closed.
        counts: Messages by topic.
    """

    bag: Path
    target: Path
    unfinished: tuple[str, ...]
    counts: dict[str, int]


def run(args: argparse.Namespace) -> int:
    """Write what a bag holds into a whole one beside it, and say what that is."""
    path: Path = args.bag.resolve()
    name = Path(path.name.removesuffix('.zstd')).stem if path.is_file() else path.name
    target: Path = args.output or path.with_name(f'{name}_recovered')
    with new_bag(target) as writer:
        bag = copy_bag(args.bag, writer)
    found = Recovered(args.bag, target, tuple(bag.unfinished), writer.counts())
    if args.json:
        print_document(found)
        return 0
    rows = [(topic, str(count)) for topic, count in sorted(found.counts.items())]
    rows.append(('total', str(sum(found.counts.values()))))
    print_table(make_console(), 'Messages', ('topic', '>messages'), rows)
    for file in found.unfinished:
        say(f'{file} was not finished: what its recorder had in memory is lost')
    say(f'wrote {target}')
    return 0
