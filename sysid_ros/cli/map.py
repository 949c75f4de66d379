# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""``sysid map``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sysid_ros.alignment.mapping.proposal import CONFIDENCE, propose, to_json, to_yaml
from sysid_ros.bags import read_bag
from sysid_ros.errors import ConfigError
from sysid_ros.files import replace_file
from sysid_ros.model.loading import load_model

if TYPE_CHECKING:
    import argparse


def run(args: argparse.Namespace) -> int:
    """Propose a mapping; print it, or write it and say what to look at."""
    if args.output is not None and args.output.exists():
        msg = f'{str(args.output)!r} exists already and may be edited; choose another name.'
        raise ConfigError(msg)
    model = load_model(args.model)
    proposal = propose(read_bag(args.bag), model)
    text = to_yaml(proposal, args.model.name)
    if args.output is not None:
        replace_file(args.output, text.encode())
    if args.json:
        print(to_json(proposal))
    elif args.output is None:
        print(text, end='')
    else:
        doubtful = [pair for pair in proposal.pairs if not pair.confident]
        print(f'{len(proposal.pairs) - len(doubtful)} of {len(proposal.pairs)} pairs are certain')
        for pair in doubtful:
            print(f'  look at {pair.role.value} {pair.name}: {pair.score:.2f} {pair.reason}')
        if doubtful:
            print(f'Pairs below {CONFIDENCE:g} are commented out.')
        print(f'wrote {args.output}')
    return 0
