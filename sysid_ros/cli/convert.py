# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""``sysid convert``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sysid_ros.alignment import Format, describe
from sysid_ros.config import load_segments
from sysid_ros.errors import ConfigError
from sysid_ros.pipeline import convert

if TYPE_CHECKING:
    import argparse

#: What is written when no format is given.
DEFAULT_FORMATS = ('npz', 'csv')


def run(args: argparse.Namespace) -> int:
    """Align a bag with a model, print what was found, write the series.

    Raises:
        ConfigError: A format is given and no folder to write into.
    """
    if args.formats and args.output is None:
        msg = f'Expected --output DIR for the {args.formats[0]} files, found none.'
        raise ConfigError(msg)
    alignment, written = convert(
        args.bag,
        args.model,
        args.output,
        mapping=args.mapping,
        stamps=args.stamps,
        segments=None if args.segments is None else load_segments(args.segments),
        formats=[Format(name) for name in args.formats or DEFAULT_FORMATS],
    )
    print(describe(alignment))
    for path in written:
        print(f'wrote {path}')
    return 0
