# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A bench plays every motion with every gain and load, and asks for what has to be changed."""

from __future__ import annotations

from typing import Any

import pytest

from sysid_ros.errors import ConfigError, ParameterError, SysidError
from sysid_ros.servos.bench.motions import STANDARD, instruction, plan_runs

LOADS: dict[str, Any] = {'masses': (0.3, 0.5), 'lengths': (0.13,), 'arm_masses': (0.01, 0.02)}


def test_loads_change_least_often_then_gains():
    runs = plan_runs('xl330', kps=(100, 400), trajectories=('steps', 'nothing'), **LOADS)

    assert [run.motion.name for run in runs] == ['steps', 'nothing'] * 4
    assert [run.settings['kp'] for run in runs] == [100, 100, 400, 400] * 2
    assert [run.settings['mass'] for run in runs] == [0.3] * 4 + [0.5] * 4
    assert [run.settings['arm_mass'] for run in runs] == [0.01] * 4 + [0.02] * 4
    assert {run.settings['length'] for run in runs} == {0.13}


def test_a_servo_has_its_usual_gains_motions_and_supply():
    runs = plan_runs('xl330', masses=(0.3,), lengths=(0.13,))

    assert len(runs) == 5 * 4
    assert tuple(run.motion.name for run in runs[:4]) == STANDARD
    assert runs[0].settings == {
        'mass': 0.3,
        'length': 0.13,
        'arm_mass': 0.0,
        'kp': 50.0,
        'vin': 7.5,
    }
    assert 'vin' not in plan_runs('unitree_go1', masses=(1,), lengths=(0.3,))[0].settings


def test_a_person_is_asked_for_what_changes():
    first, *_, last = (run.settings for run in plan_runs('xl330', kps=(50, 400), **LOADS))

    load = 'mount {:g} kg at the end, 0.13 m from the axis, an arm of {:g} kg'
    asked = f'{load.format(0.3, 0.01)}; set kp to 50; supply 7.5 V'
    assert instruction(first, {}) == asked
    assert instruction(first, first) == ''
    assert instruction(last, first) == f'{load.format(0.5, 0.02)}; set kp to 400'
    assert instruction(last, first, others=('mass', 'arm_mass', 'length')) == 'set kp to 400'
    assert instruction(last, {}, others=last) == ''


@pytest.mark.parametrize(
    ('changes', 'kind', 'sentence'),
    [
        ({'masses': ()}, ConfigError, "at least one value in 'masses', found none"),
        ({'lengths': (0.0,)}, ConfigError, "'lengths' that are greater than 0, found 0"),
        ({'arm_masses': (-1.0,)}, ConfigError, "'arm_masses' that are not negative, found -1"),
        ({'lengths': (0.1, 0.2, 0.3)}, ConfigError, "1 or 3 values in 'masses'.*, found 2"),
        ({'trajectories': ('step',)}, ParameterError, "no trajectory 'step'; nearest: steps"),
    ],
)
def test_loads_that_do_not_belong_together_are_refused(
    changes: dict[str, Any], kind: type[SysidError], sentence: str
):
    with pytest.raises(kind, match=sentence):
        plan_runs('xl330', **{**LOADS, **changes})
