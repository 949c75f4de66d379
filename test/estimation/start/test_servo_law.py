# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The delay of commands as measured forces show it."""

from __future__ import annotations

import dataclasses

import pytest

from builders.fine_robot import KP, PERIOD, recorded, spec, unsampled
from sysid_ros.estimation.regression import aimed
from sysid_ros.model.unknown import Unknown, make_unknowns


def _delay(bounds: tuple[float, float] = (0.0, 0.06)) -> Unknown:
    (unknown,) = make_unknowns(
        'actuator/*/delay', spec().compile(), shared=True, bounds=bounds, initial=bounds[0]
    )
    return unknown


@pytest.mark.parametrize('delay', [0.00325, 0.01225, 0.0275, 0.04175])
def test_the_period_of_the_delay_is_found_whatever_the_model_believes(delay: float) -> None:
    wrong = spec()
    for joint in wrong.joints:
        joint.armature *= 3
        joint.damping *= 0.2
    (found,) = aimed(wrong.compile(), [_delay()], [recorded(seed=1, delay=delay)])
    assert found.min_value <= delay <= found.max_value
    assert found.max_value - found.min_value < PERIOD + 3 * 2e-3
    assert found.min_value < found.nominal < found.max_value


def test_a_delay_at_the_wall_is_not_shut_out() -> None:
    (found,) = aimed(spec().compile(), [_delay()], [recorded(delay=2 * PERIOD)])
    assert found.min_value < 2 * PERIOD < found.max_value


def test_gains_begin_where_forces_show_them() -> None:
    wrong = spec()
    for actuator in wrong.actuators:
        actuator.gainprm[0] *= 1.7
        actuator.biasprm[1] *= 1.7
        actuator.biasprm[2] *= 0.4
    model = wrong.compile()
    gains = [u for what in ('kp', 'kv') for u in make_unknowns(f'actuator/*/{what}', model)]
    found = aimed(model, [*gains, _delay()], [recorded(seed=1)])
    assert [u.nominal for u in found[:2]] == pytest.approx(KP, rel=0.02)
    assert [u.nominal for u in found[2:4]] == pytest.approx([15.0, 6.0], rel=0.1)
    assert [u.min_value for u in found[:4]] == [u.min_value for u in gains]


def test_bounds_of_the_user_hold() -> None:
    (found,) = aimed(spec().compile(), [_delay((0.011, 0.02))], [recorded(delay=0.01225)])
    assert found.min_value == 0.011
    assert found.max_value == 0.02


def test_without_forces_or_when_commands_came_nothing_is_aimed() -> None:
    model, unknown = spec().compile(), _delay()
    trajectory = recorded()
    assert aimed(model, [unknown], [unsampled(trajectory)]) == (unknown,)
    (series,) = trajectory.measurements
    motion = {k: v for k, v in series.signal_mapping.items() if not k.endswith('effort')}
    blind = dataclasses.replace(
        trajectory, measurements=(dataclasses.replace(series, signal_mapping=motion),)
    )
    assert aimed(model, [unknown], [blind]) == (unknown,)
