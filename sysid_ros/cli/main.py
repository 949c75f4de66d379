# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Entry point of the ``sysid`` command: parse, run, turn errors into one line."""

from __future__ import annotations

import importlib
import io
import os
import sys
from typing import TYPE_CHECKING

from sysid_ros.cli.parser import BAD_INPUT, make_parser
from sysid_ros.errors import SysidError

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Exit codes of Ctrl-C, and of a reader of our output that went away (`sysid … | head`).
INTERRUPTED = 130
BROKEN_PIPE = 141
#: Commands that share a file with another one, and their functions there; of all others it is the
#: function ``run`` in the file of their name.
_BESIDE = {
    'check': 'calibrate.check',
    'compare-actuators': 'fit_actuator.compare',
    'map': 'convert.propose_mapping',
    'plot': 'inspect.plot',
    'process': 'servo_logs.process_raw',
    'rollback': 'history.rollback',
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the ``sysid`` command.

    Args:
        arguments: What follows the command's name; default the process's own.

    Returns:
        0 when all is well, 1 when a check found a difference, 2 on bad input, 130 on Ctrl-C.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A locale without × must not end a fit that took minutes.
            stream.reconfigure(errors='backslashreplace')
    args = make_parser().parse_args(arguments)
    args.command_line = ' '.join(['sysid', *(sys.argv[1:] if arguments is None else arguments)])
    # Products here are tall and narrow: threads of OpenBLAS gain nothing, and where other processes
    # want the cores, they wait for each other a hundred times longer than they work.
    os.environ.setdefault('OPENBLAS_NUM_THREADS', '1')
    try:
        # Imported here, so that --help does not wait for numpy and MuJoCo.
        place = _BESIDE.get(args.command, f'{args.command.replace("-", "_")}.run')
        file, function = place.split('.')
        runner = importlib.import_module(f'sysid_ros.cli.{file}')
        code = int(getattr(runner, function)(args))
        sys.stdout.flush()
    except SysidError as error:
        print(f'sysid: {error}', file=sys.stderr)
        return BAD_INPUT
    except KeyboardInterrupt:
        print('sysid: interrupted; what was not finished is not written.', file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # Python would complain when it flushes standard output at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    return code
