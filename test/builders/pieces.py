# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Pieces of work that other processes find by their names."""

from __future__ import annotations

import os
import threading

from sysid_ros.errors import CancelledError, FitError

#: How long a piece waits for the end of the work, s. Reached only when a test fails.
_LONG = 60.0


def where(job: int, cancel: threading.Event) -> tuple[int, int, str]:
    """Return the job, in which process that was, and how many threads NumPy may use there."""
    assert not cancel.is_set()
    return job, os.getpid(), os.environ.get('OPENBLAS_NUM_THREADS', '')


def refuse_odd(job: int, cancel: threading.Event) -> int:
    """Return an even number."""
    assert not cancel.is_set()
    if job % 2:
        raise FitError(f'{job} is odd.')
    return job


def wait(job: int, cancel: threading.Event) -> int:
    """Return 0 at once, and otherwise wait for the end of the work."""
    if job and cancel.wait(_LONG):
        raise CancelledError('cancelled')
    return job


def die(job: int, cancel: threading.Event) -> int:
    """End the process."""
    del cancel
    os._exit(job)
