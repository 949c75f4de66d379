# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What stands for friction laws in plain MJCF."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from sysid_ros.errors import FitError
from sysid_ros.servos.formats.logs import ServoLog
from sysid_ros.servos.formats.mjcf import plain_friction
from sysid_ros.servos.laws.servo import Servo

DT = 0.005
MOTOR = {'kt': 0.37, 'R': 2.8, 'armature': 0.0018, 'q_offset': 0.03}
M1 = {**MOTOR, 'friction_base': 0.012, 'friction_viscous': 0.004}


def _log(mass: float, count: int = 400) -> ServoLog:
    times = np.arange(count) * DT
    nothing = np.zeros(count)
    goal = np.sin(2 * np.pi * times) + 0.4 * np.sin(11 * times)
    return ServoLog(
        f'{mass:g}',
        'xl330',
        'sines',
        mass,
        0.01,
        0.12,
        {'kp': 400.0, 'vin': 7.5},
        DT,
        nothing,
        goal,
        np.ones(count),
        nothing,
    )


LOGS = (_log(0.1), _log(0.3))


@pytest.mark.parametrize('logs', [(), LOGS])
def test_coulomb_and_viscous_friction_are_kept(logs: tuple[ServoLog, ...]):
    found = plain_friction(Servo.named('xl330', 'm1'), M1, logs)
    assert (found.frictionloss, found.damping, found.motor) == (0.012, 0.004, 1.0)
    assert (found.error, found.note) == (0.0, '')


def test_laws_without_a_part_have_none_of_it():
    viscous = plain_friction(Servo.named('xl330', 'viscous'), {**MOTOR, 'friction_viscous': 0.004})
    coulomb = plain_friction(Servo.named('xl330', 'coulomb'), {**MOTOR, 'friction_base': 0.012})
    assert viscous[:2] == (0.0, 0.004)
    assert coulomb[:2] == (0.012, 0.0)


def test_a_law_whose_further_parts_are_zero_is_found_as_what_it_is():
    values = {**M1, 'load_friction_base': 0.0}
    found = plain_friction(Servo.named('xl330', 'm3'), values, LOGS)
    assert found[:3] == pytest.approx((0.012, 0.004, 1.0), rel=1e-5)
    assert found.error < 1e-6


def test_friction_that_grows_with_load_is_replaced_by_the_least_wrong():
    servo = Servo.named('xl330', 'm3')
    values = {**M1, 'load_friction_base': 0.15}
    found = plain_friction(servo, values, LOGS)
    kept = plain_friction(servo, values)
    assert kept[:3] == (0.012, 0.004, 1.0)
    assert 'give logs' in kept.note
    assert found.frictionloss > 0.02
    assert 0 < found.error < 0.5 * found.usual
    assert f'{found.error:.3g} N·m' in found.note
    # Of heavy loads there is more to replace.
    light, heavy = (plain_friction(servo, values, [log]).frictionloss for log in LOGS)
    assert heavy > 1.5 * light


def test_only_samples_with_a_powered_motor_count():
    servo = Servo.named('xl330', 'm3')
    values = {**M1, 'load_friction_base': 0.15}
    log = LOGS[0]
    off = np.arange(len(log)) >= 200
    half = dataclasses.replace(log, enabled=np.where(off, 0.0, 1.0))
    first = dataclasses.replace(
        log,
        position=log.position[:200],
        goal=log.goal[:200],
        enabled=log.enabled[:200],
        speed=np.zeros(200),
    )
    assert plain_friction(servo, values, [half]) == plain_friction(servo, values, [first])
    never = dataclasses.replace(log, enabled=np.zeros(len(log)))
    with pytest.raises(FitError, match='a powered motor, found none'):
        plain_friction(servo, values, [never])
