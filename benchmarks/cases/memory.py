# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Memory that a fit needs beyond the model and the data, in a process of its own (Linux)."""

from __future__ import annotations

import ctypes
import gc
import os
import re
import subprocess
import sys
from pathlib import Path

_PROGRAM = """
import sys
sys.path.insert(0, {folder!r})
from cases.memory import report
report({name!r}, {key!r})
"""
_MEGABYTE = 1e6
_KILOBYTE = 1024
_STATUS = Path('/proc/self/status')
_RESET_PEAK = '5'


def extra_memory(name: str, key: str) -> float | None:
    """Return the MB by which a fit raises the peak; None where the system does not tell.

    Args:
        name: The contender.
        key: The case.
    """
    if not _STATUS.exists():
        return None
    folder = str(Path(__file__).parents[1])
    run = subprocess.run(
        [sys.executable, '-c', _PROGRAM.format(folder=folder, name=name, key=key)],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ},
    )
    return float(run.stdout.split()[-1])


def report(name: str, key: str) -> None:
    """Fit once in this process and print the MB between peak and what was there before."""
    from cases import cases  # noqa: PLC0415 (it imports what the parent does not need)
    from cases.contenders import load, prepare, solve  # noqa: PLC0415

    case = cases.make(key)
    sysid = load(name)
    problem = prepare(sysid, case, 0, callbacks=True)
    settle()
    before = resident()
    Path('/proc/self/clear_refs').write_text(_RESET_PEAK)
    solve(problem)
    print((peak() - before) / _MEGABYTE)


def settle() -> None:
    """Give memory that nobody uses back to the system, so that its reuse is not overlooked."""
    gc.collect()
    trim = getattr(ctypes.CDLL(None), 'malloc_trim', None)  # glibc only
    if trim is not None:
        trim(0)


def resident() -> float:
    """Return the bytes of this process in memory."""
    return _read('VmRSS')


def peak() -> float:
    """Return the most bytes that this process had in memory since the peak was reset."""
    return _read('VmHWM')


def _read(name: str) -> float:
    found = re.search(rf'^{name}:\s+(\d+) kB$', _STATUS.read_text(), re.MULTILINE)
    return float(found[1]) * _KILOBYTE if found else float('nan')
