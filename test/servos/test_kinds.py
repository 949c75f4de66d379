# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Kinds of servos: those of BAM by name, and those that a YAML file defines."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from numpy.typing import NDArray

from builders.recordings import M1
from sysid_ros.errors import ConfigError, ParameterError
from sysid_ros.servos.logs import ServoLog
from sysid_ros.servos.pendulum import simulate, stack_logs
from sysid_ros.simulation.servo import (
    ACTUATORS,
    CONSTANT_UNITS,
    FRICTION_COEFFICIENTS,
    FRICTION_LAWS,
    UNITS,
    Coefficient,
    Scheme,
    Servo,
    read_parameters,
    write_parameters,
)

STRIBECK = ('dtheta_stribeck', 'alpha', 'friction_viscous')
LOADS = (
    *('friction_base', 'friction_stribeck', 'load_friction_motor', 'load_friction_external'),
    *('load_friction_motor_stribeck', 'load_friction_external_stribeck'),
)
#: Names and order in BAM's parameter files, after those of the motor.
FRICTION_NAMES = {
    'm1': ('friction_base', 'friction_viscous'),
    'm2': ('friction_base', 'friction_stribeck', *STRIBECK),
    'm3': ('friction_base', 'load_friction_base', 'friction_viscous'),
    'm4': (
        *('friction_base', 'friction_stribeck', 'load_friction_base', 'load_friction_stribeck'),
        *STRIBECK,
    ),
    'm5': (*LOADS, *STRIBECK),
    'm6': (*LOADS, 'load_friction_motor_quad', 'load_friction_external_quad', *STRIBECK),
}
MX = {'kt': (1.6, 1, 3), 'R': (2, 1, 5), 'armature': (0.005, 0.001, 0.05)}
XL330 = {'kt': (1.6, 0.1, 3), 'R': (2.6, 2, 5), 'armature': (0.005, 0.0001, 0.05)}
EROB = {'kt': (1.6, 1, 15), 'R': (2, 0.1, 3.5), 'armature': (0.005, 0.001, 2)}
COUNTS = 4096 / (2 * math.pi)
#: Start, lower and upper bound.
MOTORS = {
    'mx64': MX,
    'mx106': MX,
    'xl320': {'kt': (0.7, 0.25, 1.5), 'R': (5, 3, 40), 'armature': (0.0005, 0.0001, 0.01)},
    'xl330': XL330,
    'xl330i': {**XL330, 'current_limit': (1.5, 1, 3)},
    'erob80_50': EROB,
    'erob80_100': EROB,
    'sts3215': {
        'kt': (0.784532, 0.05, 2.5),
        'error_gain_ratio': (1, 0.1, 10),
        'R': (2, 0.1, 10),
        'armature': (0.0001, 0.00001, 0.04),
        'q_offset': (0, -0.2, 0.2),
        'max_velocity': (3400 / COUNTS, 340 / COUNTS, 34000 / COUNTS),
    },
    'unitree_go1': {
        'ratio': (1, 0.5, 2),
        'max_torque': (23.7, 20, 30),
        'armature': (0.005, 0.00001, 2),
    },
}
MX_CONSTANTS = {'vin': 15, 'kp': 32, 'error_gain': 0.158, 'max_pwm': 0.9625}
CONSTANTS = {
    'mx64': MX_CONSTANTS,
    'mx106': MX_CONSTANTS,
    'xl320': {'vin': 7.5, 'kp': 32, 'error_gain': 0.05048199, 'max_pwm': 1},
    'xl330': {'vin': 7.5, 'kp': 400, 'error_gain': COUNTS / 256 / 885, 'max_pwm': 1},
    'xl330i': {'vin': 7.5, 'kp': 400, 'error_gain': 0.01},
    'sts3215': {'vin': 7.4, 'kp': 32, 'error_gain': 0.166, 'max_pwm': 0.97},
    'erob80_50': {'kp': 100, 'damping': 1, 'max_amps': 12, 'max_volts': 48},
    'erob80_100': {'kp': 100, 'damping': 2, 'max_amps': 12, 'max_volts': 48},
    'unitree_go1': {'kp': 20, 'damping': 0.3},
}
#: Largest dry friction, part of the load, and viscous friction, where not .2, .5 and 1.
MOST = {
    'xl320': (0.2, 1, 1),
    'erob80_50': (10, 1, 30),
    'erob80_100': (10, 1, 30),
    'unitree_go1': (5, 2, 1),
}
SET_BY_THE_SERVO = {
    'friction_base': 0,
    'friction_stribeck': 0,
    'load_friction_base': 1,
    'load_friction_motor': 1,
    'load_friction_external': 1,
    'friction_viscous': 2,
}


def _friction(name: str, most: tuple[float, float, float]) -> tuple[float, float, float]:
    if name == 'dtheta_stribeck':
        return 0.2, 0.1, 3.0
    if name == 'alpha':
        return 1.35, 1.0, 10.0
    if name.endswith('_quad'):
        return 0.0, 0.0, 0.01
    high = most[SET_BY_THE_SERVO[name]] if name in SET_BY_THE_SERVO else 1.0
    return 0.1 if name == 'friction_viscous' else 0.05, 0.0, high


@pytest.mark.parametrize('name', MOTORS)
def test_coefficients_of_every_servo_are_those_of_bam_in_the_order_of_its_files(name: str):
    for model in FRICTION_LAWS:
        names = FRICTION_NAMES[model]
        expected = {'q_offset': (0.0, -0.1, 0.1), **MOTORS[name]}
        order = [*MOTORS[name], *(() if 'q_offset' in MOTORS[name] else ('q_offset',)), *names]
        expected |= {key: _friction(key, MOST.get(name, (0.2, 0.5, 1))) for key in names}
        found = Servo.named(name, model).coefficients
        assert list(found) == order
        for key, numbers in found.items():
            assert tuple(numbers) == pytest.approx(expected[key], rel=1e-15, abs=0), key


def test_constants_of_every_servo_are_those_of_bam():
    assert set(ACTUATORS) == set(CONSTANTS) == set(MOTORS)
    for name, kind in ACTUATORS.items():
        assert kind.name == name
        assert dict(kind.constants) == pytest.approx(CONSTANTS[name], rel=1e-15, abs=0)


def test_every_number_has_a_unit_and_is_either_set_or_fitted():
    assert set(CONSTANT_UNITS).isdisjoint(UNITS)
    for kind in ACTUATORS.values():
        assert set(kind.constants) <= set(CONSTANT_UNITS)
        assert set(kind.coefficients) <= set(UNITS)
    assert set(FRICTION_COEFFICIENTS) <= set(UNITS)


@pytest.mark.parametrize(
    ('actuator', 'model', 'nearest'),
    [('xl33', 'm1', 'xl330'), ('maxon', 'm1', 'mx64'), ('xl330', 'M6', 'm6')],
)
def test_an_unknown_name_is_answered_with_the_nearest(actuator: str, model: str, nearest: str):
    with pytest.raises(ParameterError, match=nearest):
        Servo.named(actuator, model)


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
    """Return a function that writes the servo, changed by ``section__name=value``."""
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


# Files of parameters


NAMES = {'model': 'm1', 'actuator': 'xl330'}
CUSTOM = """
name: my_servo
law: voltage
constants: {vin: 12, kp: 10, error_gain: 0.1, max_pwm: 1}
coefficients:
  kt: [0.5, 0.1, 1]
  R: [2, 1, 5]
  armature: [0.01, 0.001, 0.1]
"""


def _file(folder: Path, document: object, name: str = 'params.json') -> Path:
    path = folder / name
    path.write_text(json.dumps(document))
    return path


def _values(servo: Servo) -> dict[str, float]:
    """Return a value for every coefficient, each another one."""
    return {name: 0.125 + number for number, name in enumerate(servo.coefficients)}


@pytest.mark.parametrize('actuator', ACTUATORS)
def test_what_is_written_is_read(tmp_path: Path, actuator: str):
    for model in FRICTION_LAWS:
        servo = Servo.named(actuator, model)
        write_parameters(tmp_path / 'params.json', servo, _values(servo))
        assert read_parameters(tmp_path / 'params.json') == (servo, _values(servo))
        written = json.loads((tmp_path / 'params.json').read_text())
        assert list(written) == [*servo.coefficients, 'model', 'actuator']


# The keys of the files that were published with BAM: kt first, then what its laws had by then.
@pytest.mark.parametrize(
    ('actuator', 'model', 'lacking', 'initial'),
    [
        ('erob80_100', 'm6', ('R', 'q_offset'), (2.0, 0.0)),
        ('mx106', 'm3', ('q_offset',), (0.0,)),
        ('sts3215', 'm1', ('error_gain_ratio', 'max_velocity'), (1.0, 5.2155)),
    ],
)
def test_coefficients_that_older_files_lack_have_their_initial_values(
    tmp_path: Path,
    actuator: str,
    model: str,
    lacking: tuple[str, ...],
    initial: tuple[float, ...],
):
    values = _values(Servo.named(actuator, model))
    kept = {name: value for name, value in values.items() if name not in lacking}
    path = _file(tmp_path, {**kept, 'model': model, 'actuator': actuator})
    _, found = read_parameters(path)
    assert list(found) == list(values)
    assert [found.pop(name) for name in lacking] == pytest.approx(initial, abs=1e-4)
    assert found == kept


def test_a_servo_of_ones_own_is_read_with_the_file_that_defines_it(tmp_path: Path):
    own = tmp_path / 'servo.yaml'
    own.write_text(CUSTOM)
    servo = Servo.named(str(own), 'm2')
    path = tmp_path / 'params.json'
    write_parameters(path, servo, _values(servo))
    assert json.loads(path.read_text())['actuator'] == 'my_servo'
    assert read_parameters(path, str(own)) == (servo, _values(servo))
    with pytest.raises(ParameterError, match=r"no actuator 'my_servo'.*give a YAML file"):
        read_parameters(path)


@pytest.mark.parametrize(
    ('document', 'said'),
    [
        ([1], 'Expected keys and values'),
        ({}, 'no model, actuator'),
        ({**M1, 'model': 'm1', 'actuater': 'xl330'}, 'nearest: actuater'),
        ({**M1, **NAMES, 'model': 'm7'}, 'no friction model'),
        ({**M1, **NAMES, 'fricton_base': 1}, 'nearest: friction_base'),
        ({**M1, **NAMES, 'kt': float('nan')}, "NaN for 'kt'"),
        ({**M1, **NAMES, 'R': '4'}, '"4" for \'R\''),
        ({**M1, **NAMES, 'scheme': 'euler'}, 'expected bam or leapfrog'),
    ],
)
def test_a_file_that_cannot_be_used_costs_a_sentence(tmp_path: Path, document: object, said: str):
    with pytest.raises(ParameterError, match=said):
        read_parameters(_file(tmp_path, document))


@pytest.mark.parametrize('changes', [{'kt': None}, {'alpha': 1.0}, {'R': float('nan')}])
def test_values_that_do_not_belong_are_not_written(tmp_path: Path, changes: dict[str, Any]):
    values = {key: value for key, value in {**M1, **changes}.items() if value is not None}
    with pytest.raises(ParameterError):
        write_parameters(tmp_path / 'params.json', Servo.named('xl330', 'm1'), values)
    assert not list(tmp_path.iterdir())


def test_a_file_from_raw_logs_says_so(tmp_path: Path):
    servo = dataclasses.replace(Servo.named('xl330', 'm1'), scheme=Scheme.LEAPFROG)
    values = {**M1, 'command_delay': -0.002}
    write_parameters(tmp_path / 'params.json', servo, values)
    assert json.loads((tmp_path / 'params.json').read_text())['scheme'] == 'leapfrog'
    assert read_parameters(tmp_path / 'params.json') == (servo, values)
