# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Servos that a YAML file defines."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from numpy.typing import NDArray

from sysid_ros.errors import ConfigError
from sysid_ros.servos.logs import ServoLog
from sysid_ros.servos.pendulum import simulate, stack_logs
from sysid_ros.servos.servo import Coefficient, Servo

SERVO = """
name: xm430
law: voltage
constants:
  kp: 400
  vin: 7.5
  error_gain: 0.00287746
  max_pwm: 1
coefficients:             # start, lower and upper bound
  kt: [1.6, 0.1, 3]
  R: [2.6, 2, 5]
  armature: [0.005, 0.0001, 0.05]
friction:
  friction_viscous: [0.2, 0, 2]
"""


@pytest.fixture
def define(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Return a function that writes the servo, changed by ``section__name=value`` (None: without).

    The name of the file has no folder, so that sentences can be compared.
    """
    monkeypatch.chdir(tmp_path)

    def write(**changes: Any) -> str:
        document = yaml.safe_load(SERVO)
        for place, value in changes.items():
            *sections, name = place.split('__')
            section = document[sections[0]] if sections else document
            if value is None:
                del section[name]
            else:
                section[name] = value
        Path('servo.yaml').write_text(yaml.safe_dump(document, sort_keys=False), 'utf-8')
        return 'servo.yaml'

    return write


def _moved(servo: Servo, **values: float) -> NDArray[np.float64]:
    t = np.arange(200) * 0.005
    log = ServoLog(
        'a', 'b', 'c', 0.2, 0.02, 0.1, {}, 0.005, t, np.sin(9 * t), np.ones(200), np.ones(200)
    )
    chosen = {**{name: c.initial for name, c in servo.coefficients.items()}, **values}
    candidate = np.array([[chosen[name] for name in servo.coefficients]])
    return simulate(servo, stack_logs(servo, [log]), candidate).position


def test_a_defined_servo_moves_like_the_one_of_the_catalogue_that_it_describes(
    define: Callable[..., str],
):
    known = Servo.named('xl330', 'm4')
    gain = known.type.constants['error_gain']
    servo = Servo.named(define(constants__error_gain=gain), 'm4')
    assert servo.name == 'xm430 m4'
    assert servo.coefficients['friction_viscous'] == Coefficient(0.2, 0.0, 2.0)
    changed = dict(servo.coefficients, friction_viscous=known.coefficients['friction_viscous'])
    assert changed == known.coefficients
    np.testing.assert_array_equal(
        _moved(servo, friction_viscous=0.01), _moved(known, friction_viscous=0.01)
    )


def test_coefficients_may_be_set_and_what_is_optional_left_out(define: Callable[..., str]):
    changes = {'coefficients__R': None, 'constants__R': 0.7, 'constants__q_offset': -0.3}
    servo = Servo.named(define(friction=None, **changes), 'm1')
    assert list(servo.coefficients) == ['kt', 'armature', 'friction_base', 'friction_viscous']
    usual = Servo.named(define(), 'm1')
    expected = _moved(usual, R=0.7, q_offset=-0.3, friction_viscous=0.1)
    np.testing.assert_array_equal(_moved(servo), expected)


@pytest.mark.parametrize(
    ('changes', 'said'),
    [
        ({'law': 'volts'}, 'nearest: voltage'),
        ({'coeficients': {}}, 'nearest: coefficients'),
        ({'constants__max_pwm': None, 'coefficients__kt': None}, 'needs kt, max_pwm, found'),
        ({'coefficients__k_t': [1, 0, 2]}, 'nearest: kt'),
        ({'constants__kp': None, 'coefficients__kp': [1, 0, 2]}, "'kp' is set and not fitted"),
        ({'constants__R': 1.0}, "'R' is either set or fitted"),
        ({'friction__friction_vicsous': [1, 0, 2]}, 'nearest: friction_viscous'),
        ({'coefficients__R': [2.6, 5, 2]}, r"'R', as .* found \[2.6, 5, 2\]"),
        ({'coefficients__R': [2, 0, 4]}, "'R' to be more than 0"),
        ({'coefficients__armature': [0, -0.1, 0.1]}, "'armature' to be at least 0"),
    ],
)
def test_a_bad_number_or_name_costs_one_sentence(
    define: Callable[..., str], changes: dict[str, Any], said: str
):
    with pytest.raises(ConfigError, match=said):
        Servo.named(define(**changes), 'm1')
