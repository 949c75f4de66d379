# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The simulated servo obeys the laws that are fitted, and commands at their times."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from sysid_ros.errors import ConfigError
from sysid_ros.servos.bench.motions import trajectory
from sysid_ros.servos.bench.pendulum import simulate, stack_logs
from sysid_ros.servos.formats.logs import ServoLog
from sysid_ros.servos.laws.servo import Servo
from sysid_ros.virtual_robot import Pendulum

DT = 0.001
VALUES = {'kt': 0.4, 'R': 4.0, 'armature': 0.002, 'q_offset': 0.03, 'friction_viscous': 0.004}
NUMBERS = {'kp': 200.0, 'vin': 7.0}


def _values(servo: Servo) -> dict[str, float]:
    usual = {name: item.initial for name, item in servo.coefficients.items()}
    return {**usual, 'friction_base': 0.01, **VALUES}


def _log(samples: int, name: str) -> ServoLog:
    times = DT * np.arange(samples)
    motion = trajectory(name)
    goal, enabled = motion.goal(times), motion.enabled(times).astype(float)
    start = np.full(samples, -VALUES['q_offset'])
    return ServoLog('', 'xl330', name, 0.3, 0.013, 0.13, NUMBERS, DT, start, goal, enabled)


@pytest.mark.slow
@pytest.mark.parametrize(
    ('kind', 'name'),
    [
        (('xl330', 'm1'), 'sin_sin'),
        (('xl330', 'm6'), 'lift_and_drop'),
        (('sts3215', 'm4'), 'sin_sin'),
    ],
)
def test_it_moves_as_fits_simulate_it(kind: tuple[str, str], name: str):
    servo = Servo.named(*kind)
    values = _values(servo)
    log = _log(3000, name)
    pendulum = Pendulum(servo, values, rate=1 / DT, timestep=DT, encoder_bits=0)
    pendulum.mount(log.mass, log.arm_mass, log.length, log.constants)
    for step, (goal, enabled) in enumerate(zip(log.goal, log.enabled, strict=True)):
        assert pendulum.command(step * DT, np.array([goal, enabled])) == 0
    samples = list(pendulum.advance(3.0))

    candidate = np.array([[values[name] for name in servo.coefficients]])
    # What the firmware remembers at the start is where it hangs.
    begun = dataclasses.replace(stack_logs(servo, (log,)), last_goal=log.position[:1])
    expected = simulate(servo, begun, candidate, velocities=True)
    assert expected.velocity is not None
    assert np.ptp([sample.position[0] for sample in samples]) > 0.5
    np.testing.assert_allclose([s.time for s in samples], DT * np.arange(3000), atol=1e-12)
    positions = [sample.position[0] for sample in samples]
    np.testing.assert_allclose(positions, expected.position[:, 0, 0], rtol=0, atol=1e-9)
    velocities = [sample.velocity[0] for sample in samples]
    np.testing.assert_allclose(velocities, expected.velocity[:, 0, 0], rtol=0, atol=1e-7)


def test_it_hangs_still_until_it_is_told_something():
    servo = Servo.named('xl330', 'm1')
    pendulum = Pendulum(servo, _values(servo), encoder_bits=0)
    samples = list(pendulum.advance(1.0))

    assert len(samples) == 200
    assert all(sample.position == -VALUES['q_offset'] for sample in samples)
    assert all(sample.effort == 0.0 for sample in samples)


@pytest.mark.slow
def test_without_power_it_falls_and_its_effort_is_zero():
    servo = Servo.named('xl330', 'm1')
    pendulum = Pendulum(servo, _values(servo))
    pendulum.mount(0.3, 0.013, 0.13, {'kp': 400.0})
    pendulum.command(0.0, np.array([1.5, np.nan]))
    *_, lifted = pendulum.advance(2.0)
    pendulum.command(2.0, np.array([np.nan, 0.0]))
    *_, fallen = pendulum.advance(6.0)

    assert lifted.position[0] > 1.0
    assert lifted.effort[0] > 0.1
    assert abs(fallen.position[0]) < 0.1
    assert fallen.effort[0] == 0.0


def test_positions_are_whole_counts_of_the_encoder():
    servo = Servo.named('xl330', 'm1')
    pendulum = Pendulum(servo, _values(servo), encoder_bits=12)
    pendulum.command(0.0, np.array([1.0, np.nan]))
    counts = np.array([sample.position[0] for sample in pendulum.advance(1.0)]) * 4096 / (2 * np.pi)

    assert len(np.unique(counts)) > 50
    np.testing.assert_allclose(counts, np.round(counts), atol=1e-9)


def test_more_samples_than_steps_are_refused():
    servo = Servo.named('xl330', 'm1')
    with pytest.raises(ConfigError, match='a rate of at most 1000 Hz'):
        Pendulum(servo, _values(servo), rate=2000.0)
