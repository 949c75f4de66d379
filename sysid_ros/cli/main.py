# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Entry point of the ``sysid`` command: parse, run, turn errors into one line."""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING

from sysid_ros.cli.parser import make_parser
from sysid_ros.errors import SysidError

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Exit codes beside 0: a check that found a difference, input that is not valid, Ctrl-C.
DIFFERENT = 1
BAD_INPUT = 2
INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the ``sysid`` command.

    Args:
        arguments: What follows the command's name; default the process's own.

    Returns:
        0 when all is well, 1 when a check found a difference, 2 on bad input.
    """
    args = make_parser().parse_args(arguments)
    args.command_line = ' '.join(['sysid', *(sys.argv[1:] if arguments is None else arguments)])
    try:
        # Imported here, so that --help does not wait for numpy and MuJoCo.
        runner = importlib.import_module(f'sysid_ros.cli.{args.command}')
        return int(runner.run(args))
    except SysidError as error:
        print(f'sysid: {error}', file=sys.stderr)
        return BAD_INPUT
    except KeyboardInterrupt:
        print('sysid: interrupted; nothing was written.', file=sys.stderr)
        return INTERRUPTED
