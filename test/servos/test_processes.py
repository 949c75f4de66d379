# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Work in several processes."""

from __future__ import annotations

import os
import threading

import pytest

from builders import pieces
from sysid_ros.errors import CancelledError, FitError
from sysid_ros.servos.bench.processes import FitProcesses


@pytest.mark.slow
def test_results_are_in_the_order_of_the_jobs_from_several_processes():
    told: list[int] = []
    before = os.environ.get('OPENBLAS_NUM_THREADS')
    with FitProcesses(2) as workers:
        found = workers.do(pieces.where, range(6), size=float, tell=lambda job, _: told.append(job))
        again = workers.do(pieces.where, range(2), size=float, tell=lambda *_: None)
    assert [job for job, _, _ in found] == list(range(6))
    assert sorted(told) == list(range(6))
    processes = {process for _, process, _ in found}
    assert os.getpid() not in processes
    assert len(processes | {process for _, process, _ in again}) <= 2
    assert {threads for _, _, threads in found} == {before or '1'}
    assert os.environ.get('OPENBLAS_NUM_THREADS') == before


def test_one_worker_is_this_process():
    with FitProcesses(1) as workers:
        found = workers.do(pieces.where, [3], size=float, tell=lambda *_: None)
    assert found[0][:2] == (3, os.getpid())


@pytest.mark.slow
@pytest.mark.parametrize('count', [1, 2])
def test_the_error_of_a_job_is_that_of_the_work(count: int):
    with pytest.raises(FitError, match='3 is odd'), FitProcesses(count) as workers:
        workers.do(pieces.refuse_odd, [2, 3, 4], size=float, tell=lambda *_: None)


@pytest.mark.slow
def test_work_that_is_cancelled_ends():
    cancel = threading.Event()

    def begin_to_cancel(job: int, _: int) -> None:
        assert job == 0
        cancel.set()

    with pytest.raises(CancelledError), FitProcesses(2) as workers:
        # The first job is done while the second one waits.
        workers.do(pieces.wait, [0, 1], size=float, tell=begin_to_cancel, cancel=cancel)


def test_a_process_that_ends_is_told():
    with pytest.raises(FitError, match='ended unexpectedly'), FitProcesses(2) as workers:
        workers.do(pieces.die, [1], size=float, tell=lambda *_: None)
