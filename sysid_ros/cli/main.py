# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Entry point of the ``sysid`` command: parse, run, turn errors into one line."""

from __future__ import annotations

import importlib
import io
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from sysid_ros.cli.parser import BAD_INPUT, make_parser
from sysid_ros.errors import SysidError
from sysid_ros.text import sentence

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Exit codes of Ctrl-C, and of a reader of our output that went away (`sysid … | head`).
INTERRUPTED = 130
BROKEN_PIPE = 141
#: Commands that share a file with another one, and their functions there; of all others it is the
#: function ``run`` in the file of their name.
_BESIDE = {
    'compare-actuators': 'servo.compare',
    'export-actuator': 'servo.export',
    'fit-actuator': 'servo.fit',
    'map': 'convert.propose_mapping',
    'plot': 'inspect.plot',
    'plot-actuator': 'servo.plot',
    'rollback': 'history.rollback',
    'servo-logs': 'servo.logs',
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the ``sysid`` command.

    Args:
        arguments: What follows the command's name; default the process's own.

    Returns:
        0 when all is well, 1 when a check found a difference, 2 on bad input, and where standard
        output takes no more, 130 on Ctrl-C.
    """
    _prepare_streams()
    # Products here are tall and narrow: threads of OpenBLAS gain nothing, and where other processes
    # want the cores, they wait for each other a hundred times longer than they work.
    os.environ.setdefault('OPENBLAS_NUM_THREADS', '1')
    try:
        try:
            return _run(arguments)
        finally:
            # Also where argparse leaves, after --help.
            sys.stdout.flush()
            sys.stderr.flush()
    except SysidError as error:
        _complain(str(error))
        return BAD_INPUT
    except KeyboardInterrupt:
        _complain('interrupted; what was not finished is not written.')
        return INTERRUPTED
    except BrokenPipeError:
        _let_go()
        return BROKEN_PIPE
    except OSError as error:
        # Files are named; what is not is standard output, as on a full disk.
        if error.filename is None:
            _complain(f'Cannot write standard output: {error.strerror}.')
            _let_go()
        else:
            _complain(sentence(f'Cannot use {str(error.filename)!r}: {error.strerror}.'))
        return BAD_INPUT


def _prepare_streams() -> None:
    """Make standard output and error such that they take any text."""
    # Python has none where they are closed, and would print errors among the output.
    sys.stdout = sys.stdout or Path(os.devnull).open('w')  # noqa: SIM115 (until the end)
    sys.stderr = sys.stderr or Path(os.devnull).open('w')  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A locale without × must not end a fit that took minutes.
            stream.reconfigure(errors='backslashreplace')


def _run(arguments: Sequence[str] | None) -> int:
    parser = make_parser()
    if '_ARGCOMPLETE' in os.environ:
        import argcomplete  # noqa: PLC0415 (for a shell that asks what may come next)

        argcomplete.autocomplete(parser)
    args = parser.parse_args(arguments)
    args.command_line = ' '.join(['sysid', *(sys.argv[1:] if arguments is None else arguments)])
    # Imported here, so that --help does not wait for numpy and MuJoCo.
    place = _BESIDE.get(args.command, f'{args.command.replace("-", "_")}.run')
    file, function = place.split('.')
    runner = importlib.import_module(f'sysid_ros.cli.{file}')
    return int(getattr(runner, function)(args))


def _complain(text: str) -> None:
    try:
        print(f'sysid: {text}', file=sys.stderr, flush=True)  # noqa: T201 (one line of ours)
    except OSError:
        _let_go()


def _let_go() -> None:
    """Let nothing more be written: Python would complain when it flushes streams at its end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        os.dup2(nowhere, stream.fileno())
