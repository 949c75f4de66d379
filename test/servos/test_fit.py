# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Fits of servos to logs."""

from __future__ import annotations

import dataclasses
import threading
from pathlib import Path

import numpy as np
import pytest

from builders.recordings import M1, record
from sysid_ros.errors import CancelledError, FitError
from sysid_ros.servos.fit import LogResiduals, fit_servo
from sysid_ros.servos.logs import ServoLog, read_logs
from sysid_ros.servos.pendulum import errors_by_log, stack_logs
from sysid_ros.simulation.servo import Servo
from sysid_ros.uncertainty.inference import Identification

SERVO = Servo.named('xl330', 'm1')


@pytest.fixture(scope='module')
def logs() -> list[ServoLog]:
    return record(SERVO, M1)


@pytest.mark.slow
def test_intervals_hold_the_truth_and_are_narrow(usual: Identification) -> None:
    for unknown, value, interval in zip(
        usual.parameters, usual.solution.x, usual.intervals, strict=True
    ):
        truth = M1[unknown.name]
        assert interval.verdict == 'identified', unknown.name
        # Six intervals of 95 %: all of them hold with 1.5 times the width.
        assert abs(value - truth) < 1.5 * (interval.high - interval.low) / 2, unknown.name
        assert interval.high - interval.low < 0.1 * truth, unknown.name


@pytest.fixture(scope='module')
def usual(logs: list[ServoLog]) -> Identification:
    return fit_servo(SERVO, logs, starts=4)


@pytest.mark.slow
@pytest.mark.parametrize('seed', range(3))
def test_starts_anywhere_lead_to_the_same_optimum_and_equal_seeds_to_the_same_numbers(
    logs: list[ServoLog], usual: Identification, seed: int
) -> None:
    other = fit_servo(SERVO, logs, starts=4, seed=seed)
    if seed == 0:
        assert np.array_equal(other.solution.x, usual.solution.x)
        assert other.intervals == usual.intervals
    assert other.solution.x == pytest.approx(usual.solution.x, rel=0.002)


@pytest.mark.slow
def test_what_is_fixed_stays_and_is_no_parameter(logs: list[ServoLog]) -> None:
    with pytest.raises(FitError, match='6 coefficients fixed'):
        fit_servo(SERVO, logs, fixed=M1)
    found = fit_servo(SERVO, logs, starts=2, fixed={'R': 4.0}, reset_period=0.5)
    assert [unknown.name for unknown in found.parameters] == [n for n in M1 if n != 'R']
    values = dict(zip((u.name for u in found.parameters), found.solution.x, strict=True))
    assert values['kt'] == pytest.approx(M1['kt'], rel=0.01)


@pytest.mark.slow
def test_a_coefficient_without_any_effect_is_not_excited_and_ends_no_fit():
    servo = Servo.named('sts3215', 'm1')
    usual = {name: coefficient.initial for name, coefficient in servo.coefficients.items()}
    truth = {**usual, 'armature': 0.004, 'max_velocity': 30.0}  # which no goal is as fast as
    logs = record(servo, truth, motions=('sin_sin',), runs=((0.3, 0.15, 16.0),), seconds=2.0)
    found = fit_servo(servo, logs, starts=1, first=truth)
    verdicts = dict(zip((u.name for u in found.parameters), found.intervals, strict=True))
    assert verdicts['max_velocity'].verdict == 'not excited'
    assert verdicts['friction_viscous'].verdict != 'not excited'


def test_a_fit_ends_when_it_is_cancelled(logs: list[ServoLog]) -> None:
    cancel = threading.Event()
    cancel.set()
    with pytest.raises(CancelledError):
        fit_servo(SERVO, logs, cancel=cancel)


@pytest.mark.slow
def test_steps_of_all_unknowns_in_one_batch_equal_those_one_by_one(logs: list[ServoLog]) -> None:
    names = [log.name for log in logs]
    residuals = LogResiduals(SERVO, stack_logs(SERVO, logs), names, 1e-3, starts=True)
    x = np.array([M1.get(u.name, u.nominal) for u in residuals.unknowns])
    steps = np.full(len(x), 1e-4)
    around = residuals.step_changes(x, steps)
    single = residuals(np.vstack([x, x + np.diag(steps)]))
    assert np.array_equal(around.residual, single[:, 0])
    assert around.changes == pytest.approx(single[:, 1:] - single[:, [0]], abs=1e-9)
    # A start moves its own log only.
    for column, unknown in enumerate(residuals.unknowns[len(M1) :], start=len(M1)):
        moved = np.unique(residuals.samples.sequence[around.changes[:, column] != 0])
        assert [names[log] for log in moved] == [unknown.targets[0].name]


def test_logs_of_different_lengths_count_their_own_samples(logs: list[ServoLog]) -> None:
    signals = ('position', 'goal', 'enabled', 'speed')
    begin = {name: getattr(logs[0], name)[:200] for name in signals}
    short = dataclasses.replace(logs[0], **begin)
    both = LogResiduals(SERVO, stack_logs(SERVO, [short, logs[1]]), ['a', 'b'], 1e-3)
    x = np.array([[M1[u.name] for u in both.unknowns]])
    alone = [LogResiduals(SERVO, stack_logs(SERVO, [log]), ['a'], 1e-3) for log in (short, logs[1])]
    assert np.array_equal(both(x), np.concatenate([one(x) for one in alone]))
    assert len(both.samples.time) == sum(len(one.samples.time) for one in alone) < 600


@pytest.mark.slow
@pytest.mark.shared
def test_the_noise_floor_of_simulated_recordings_is_reached(shared_data: Path) -> None:
    logs = read_logs(shared_data / 'bam_xl330' / 'm1')
    found = fit_servo(SERVO, logs)
    values = dict(zip((u.name for u in found.parameters), found.solution.x, strict=True))
    assert np.mean(list(errors_by_log(SERVO, values, logs).values())) < 0.36e-3
    truth = (0.38670, 4.01713, 0.00181417, 0.030871, 0.0128327, 0.00366167)
    assert values == pytest.approx(dict(zip(M1, truth, strict=True)), rel=0.02)
