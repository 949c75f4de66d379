# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""``sysid convert``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sysid_ros.alignment import describe
from sysid_ros.pipeline import convert

if TYPE_CHECKING:
    import argparse


def run(args: argparse.Namespace) -> int:
    """Align a bag with a model, print what was found, write the series."""
    alignment, written = convert(
        args.bag, args.model, args.output, mapping=args.mapping, stamps=args.stamps
    )
    print(describe(alignment))
    for path in written:
        print(f'wrote {path}')
    return 0
