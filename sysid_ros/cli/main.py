# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Entry point of the ``sysid`` command: parse, run, turn errors into one line."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer

from sysid_ros.cli import (  # noqa: F401 (commands)
    calibrate,
    prepare,
    recordings,
    results,
    servo,
)
from sysid_ros.cli.app import app
from sysid_ros.errors import SysidError, complaint, sentence

#: Exit codes of bad input, of Ctrl-C, and of a reader that went away (`sysid … | head`).
BAD_INPUT = 2
INTERRUPTED = 130
BROKEN_PIPE = 141
#: What is wrong with a command line; typer has no name for the root of these exceptions.
_UsageError: Any = typer.BadParameter.__base__


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the ``sysid`` command with arguments, by default the process's own.

    It returns 0 when all is well, 1 when a check found a difference, 2 on bad input, and where
    standard output takes no more, 130 on Ctrl-C.
    """
    _prepare_streams()
    # Products here are tall and narrow: threads of OpenBLAS gain nothing, and where other processes
    # want the cores, they wait for each other a hundred times longer than they work.
    os.environ.setdefault('OPENBLAS_NUM_THREADS', '1')
    if '_SYSID_COMPLETE' in os.environ:
        app(prog_name='sysid')
    try:
        try:
            return _run(list(sys.argv[1:] if arguments is None else arguments))
        finally:
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
            _complain(complaint(error))
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


def _run(arguments: list[str]) -> int:
    # Not by typer's own entry point, whose exit codes of Ctrl-C and broken pipes are others.
    command: Any = typer.main.get_command(app)
    try:
        line = ' '.join(['sysid', *arguments])
        with command.make_context('sysid', arguments, obj=line) as context:
            return int(command.invoke(context) or 0)
    except typer.Exit as done:
        return done.exit_code
    except _UsageError as error:
        path = error.ctx.command_path if error.ctx else 'sysid'
        _complain(f'{sentence(_wrong(error))} See `{path} --help`.')
        return BAD_INPUT


def _wrong(error: Any) -> str:
    """Return what is wrong with a command line, with what was found where pydantic checked it."""
    said = ' '.join(error.format_message().split()).replace('Value error, ', '')
    if 'Input should be' in said:
        said = said.replace('Input should be', 'expected')
        said += f', found {error.__cause__.errors()[0]["input"]!r}'
    return said if said.endswith(('.', '?')) else f'{said}.'


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
