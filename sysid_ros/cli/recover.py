# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""``sysid recover``."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from sysid_ros.bags.recovery.recover import examine, recover
from sysid_ros.cli.console import make_console, print_document, print_table, say

if TYPE_CHECKING:
    import argparse

    from sysid_ros.bags.recovery.parts import Skipped
    from sysid_ros.bags.recovery.recover import Recovered
    from sysid_ros.report.tables import LiteralConsole

#: Of more parts that were skipped, the rest is counted.
_MOST_LINES = 20


def run(args: argparse.Namespace) -> int:
    """Save what can be saved of a bag into a new one, and say what that was."""
    if args.output is None:
        found = examine(args.bag)
        if found.whole and args.json:
            print_document(found)
            return 0
        if found.whole:
            say(f'{args.bag} is whole: {found.saved} messages; nothing to recover')
            return 0
    found = recover(args.bag, args.output or _default_target(args.bag))
    if args.json:
        print_document(found)
        return 0
    print_recovered(make_console(), found)
    return 0


def _default_target(bag: Path) -> Path:
    """Return the name of the new bag beside the old one."""
    path = bag.resolve() if bag.name in {'', '..'} else bag
    name = Path(path.name.removesuffix('.zstd')).stem if path.is_file() else path.name
    return path.with_name(f'{name}_recovered')


def print_recovered(console: LiteralConsole, found: Recovered) -> None:
    """Print what was saved and what not."""
    firsts = [topic.first_ns for topic in found.topics if topic.saved]
    start = min(firsts, default=0)
    began = datetime.fromtimestamp(start * 1e-9, UTC).isoformat(' ', 'milliseconds')
    rows = []
    for topic in found.topics:
        span = [(stamp - start) * 1e-9 for stamp in (topic.first_ns, topic.last_ns)]
        times = [f'{seconds:.3f}' if topic.saved else '' for seconds in span]
        rows.append((topic.topic, str(topic.saved), str(topic.lost), *times))
    rows.append(('total', str(found.saved), str(found.lost), '', ''))
    columns = ('topic', '>saved', '>lost', '>from/s', '>to/s')
    print_table(console, f'Messages; times are since {began}', columns, rows)
    for part in found.skipped[:_MOST_LINES]:
        console.print(_line(part, start))
    if len(found.skipped) > _MOST_LINES:
        console.print(f'… and {len(found.skipped) - _MOST_LINES} parts more')
    if found.unchecked:
        console.print(
            f'{found.unchecked} of the messages have no checksum: '
            'a byte that was changed inside of them is not noticed'
        )
    console.print(f'wrote {found.target}', soft_wrap=True)


def _line(part: Skipped, start: int) -> str:
    """Describe a part of a file that was not saved."""
    where = f'{part.file}, byte {part.offset}' if part.size or part.offset else part.file
    size = f', {part.size} bytes' if part.size else ''
    lost = sum(part.lost.values())
    count = f', {lost} messages' if lost else ''
    stamps = [(stamp - start) * 1e-9 for stamp in (part.start_ns, part.end_ns) if stamp]
    times = ', ' + ' to '.join(f'{seconds:.3f} s' for seconds in stamps) if stamps else ''
    return f'skipped: {where}{size}{count}{times}: {part.reason}'
