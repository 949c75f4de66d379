# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Parameters of servos are read and written in BAM's format."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from sysid_ros.errors import ParameterError
from sysid_ros.simulation.servo import (
    ACTUATORS,
    FRICTION_LAWS,
    Scheme,
    Servo,
    read_parameters,
    write_parameters,
)

M1 = {
    'kt': 0.4,
    'R': 4.0,
    'armature': 0.002,
    'q_offset': 0.03,
    'friction_base': 0.01,
    'friction_viscous': 0.004,
}
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
        ({**M1, **NAMES, 'actuator': 'xl33'}, 'nearest: xl330'),
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
