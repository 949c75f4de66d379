# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Fits of several laws to the same logs, and to some of them."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from builders.recordings import M1, record
from sysid_ros.servos.bench import law_fits
from sysid_ros.servos.bench.fit import ServoFitSettings, fit_servo, values_of
from sysid_ros.servos.bench.law_fits import (
    FitJob,
    FoldJob,
    fit_all,
    refit_all,
    without,
)
from sysid_ros.servos.bench.pendulum import errors_by_log
from sysid_ros.servos.bench.processes import FitProcesses
from sysid_ros.servos.laws.servo import Servo

if TYPE_CHECKING:
    from sysid_ros.identification.fit import Fit

pytestmark = pytest.mark.slow


FIXED = {'R': M1['R'], 'q_offset': M1['q_offset']}
SETTINGS = ServoFitSettings(starts=1, fixed=FIXED)
LOGS = tuple(record(Servo.named('xl330', 'm1'), M1, motions=('sin_sin',), seconds=1.5))
SMALL, LARGE = (FitJob(Servo.named('xl330', name), LOGS, SETTINGS) for name in ('m1', 'm3'))


class Script:
    """Workers whose fits are told beforehand.

    Attributes:
        asked: The jobs of each call.
    """

    def __init__(self, *answers: list[Fit]) -> None:
        self._answers = iter(answers)
        self.asked: list[Any] = []

    def do(self, function: Any, jobs: Any, **how: Any) -> list[Fit]:
        """Return the next answer."""
        assert function is not None
        assert set(how) == {'size', 'tell', 'cancel'}
        self.asked.append(list(jobs))
        return list(next(self._answers))


def _fit(job: FitJob) -> Fit:
    return fit_servo(job.servo, job.logs, settings=job.settings)


def _with_noise(fit: Fit, noise: float) -> Fit:
    return dataclasses.replace(fit, noise={'position': noise})


def test_a_law_that_is_worse_than_one_inside_is_fitted_again_from_there():
    small, large = (_fit(job) for job in (SMALL, LARGE))
    bad, good = _with_noise(large, 2.0), _with_noise(large, 0.9)
    script = Script([bad, _with_noise(small, 1.0)], [good])
    found: list[Fit] = fit_all([LARGE, SMALL], script, lambda _: None)  # type: ignore[arg-type]
    ((again,),) = script.asked[1:]
    inner = values_of(SMALL.servo, small, FIXED)
    assert again.servo == LARGE.servo
    assert again.settings.first == {
        **{name: value for name, value in inner.items() if name not in FIXED},
        'load_friction_base': 0.0,
    }
    assert found[0].noise == good.noise
    assert found[0].start_sentence == 'the optimum of m1, which the law contains'
    assert found[1].noise == {'position': 1.0}


def test_laws_that_are_as_good_as_those_inside_are_left_alone():
    fit = _fit(SMALL)
    script = Script([_with_noise(fit, 1.0), _with_noise(fit, 1.001)])
    fit_all([SMALL, LARGE], script, lambda _: None)  # type: ignore[arg-type]
    assert len(script.asked) == 1


def test_what_is_left_out_does_not_count():
    fit = _fit(SMALL)
    job = without(SMALL, fit, 'the heavy one', LOGS[1:])
    assert job.job.logs == LOGS[:1]
    assert job.job.settings.first is None
    told: list[str] = []
    with FitProcesses(1) as workers:
        (found,) = refit_all([job], workers, told.append)
    alone = _fit(dataclasses.replace(SMALL, logs=LOGS[:1]))
    assert found.values == pytest.approx(values_of(SMALL.servo, alone, FIXED))
    assert told[0].startswith('fitted m1 without the heavy one in ')


def test_a_refit_that_loses_its_way_begins_at_the_values_for_all_logs(
    monkeypatch: pytest.MonkeyPatch,
):
    values = values_of(SMALL.servo, _fit(SMALL), FIXED)
    solve = law_fits.solve_servo
    starts: list[Any] = []

    def astray(servo: Servo, logs: Any, *, settings: ServoFitSettings, cancel: Any) -> Any:
        starts.append(settings.first)
        solved = solve(servo, logs, settings=settings, cancel=cancel)
        if settings.first is None:
            far = dataclasses.replace(solved.solution, x=1.5 * solved.solution.x)
            solved = dataclasses.replace(solved, solution=far)
        return solved

    monkeypatch.setattr(law_fits, 'solve_servo', astray)
    with FitProcesses(1) as workers:
        (found,) = refit_all([FoldJob(SMALL, 'none', values)], workers, lambda _: None)
    assert starts == [None, {name: v for name, v in values.items() if name not in FIXED}]
    errors = errors_by_log(SMALL.servo, found.values, LOGS)
    assert np.mean(list(errors.values())) < 5e-4
