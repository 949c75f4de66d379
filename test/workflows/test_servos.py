# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Servos of a configuration: from a robot's bag to the coefficients of every joint."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest
import yaml
from numpy.typing import NDArray

from builders.plant_bags import record
from sysid_ros.api import Result
from sysid_ros.config.files import load_calibration, load_servos
from sysid_ros.config.schema import CalibrationConfig
from sysid_ros.errors import ConfigError, ParameterError, SysidError
from sysid_ros.model.loading import load_spec
from sysid_ros.model.targets import Unknown
from sysid_ros.plant import Noise, Plant
from sysid_ros.simulation.servo import Servo, read_parameters, write_parameters
from sysid_ros.workflows.calibrate import calibrate
from sysid_ros.workflows.problem import joints_of, parameters_of

pytestmark = pytest.mark.usefixtures('undrawn')

ARM = """
<mujoco>
  <compiler angle="radian" autolimits="true"/>
  <option timestep=".002" integrator="implicitfast"><flag contact="disable"/></option>
  <default><joint axis="0 1 0" damping=".1" armature=".01" frictionloss=".1"/></default>
  <worldbody>
    <body>
      <inertial pos="0 0 -.1" mass=".4" diaginertia=".002 .002 .0005"/>
      <joint name="shoulder" range="-2 2"/>
      <body pos="0 0 -.2">
        <inertial pos="0 0 -.08" mass=".3" diaginertia=".001 .001 .0003"/>
        <joint name="elbow" range="-2 2"/>
      </body>
    </body>
  </worldbody>
  <actuator>
    <position name="shoulder" joint="shoulder" kp="20" kv=".5" ctrlrange="-2 2"/>
    <position name="elbow" joint="elbow" kp="10" kv=".3" ctrlrange="-2 2"/>
  </actuator>
  <sensor>
    <jointpos name="shoulder_position" joint="shoulder"/>
    <jointpos name="elbow_position" joint="elbow"/>
    <jointvel name="shoulder_velocity" joint="shoulder"/>
    <jointvel name="elbow_velocity" joint="elbow"/>
  </sensor>
</mujoco>
"""
#: Where friction is most of what moves a joint slowly, and depends on the load.
TRUTH = {
    'kt': 1.65,
    'R': 3.2,
    'armature': 0.011,
    'friction_base': 0.05,
    'load_friction_base': 0.2,
    'friction_viscous': 0.02,
}
SERVOS = [{'actuators': ['*'], 'type': 'mx64', 'model': 'm3', 'constants': {'kp': 8.0}}]


@pytest.fixture(scope='module')
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the recordings of a robot of two servos, and its configuration."""
    folder = tmp_path_factory.mktemp('robot')
    (folder / 'arm.xml').write_text(ARM)
    hidden = {'servos': [{**SERVOS[0], 'values': TRUTH}]}
    (folder / 'hidden.yaml').write_text(yaml.safe_dump(hidden))
    entries = load_servos(folder / 'hidden.yaml')
    for name, phase in (('train', 0.0), ('validate', 2.0)):
        noise = Noise(position=2e-4, velocity=5e-3, seed=len(name))
        servos = partial(joints_of, entries)
        plant = Plant(folder / 'arm.xml', rate=100.0, noise=noise, servos=servos)

        def goals(t: float, phase: float = phase) -> NDArray[np.float64]:
            shoulder = 0.9 * np.sin(2.1 * t + phase) - 0.9 * np.sin(phase)
            return np.array([shoulder, 0.7 * np.sin(2.9 * t)])

        record(folder / name, plant, goals, 3.0)
    config = {
        'model': 'arm.xml',
        'bags': [{'path': 'train'}, {'path': 'validate', 'role': 'validate'}],
        'mapping': 'auto',
        'servos': SERVOS,
        'solver': {'threads': 1, 'start': 'nominal'},
        'validation': {'leave_out': 'none', 'horizon': []},
        'output': 'out',
    }
    (folder / 'calibration.yaml').write_text(yaml.safe_dump(config))
    return folder


def _parameters(folder: Path, **changes: Any) -> dict[str, Unknown]:
    config = load_calibration(folder / 'calibration.yaml', changes)
    spec = load_spec(config.model)
    return {unknown.name: unknown for unknown in parameters_of(config, spec.compile(), spec)}


@pytest.fixture(scope='module')
def found(folder: Path) -> tuple[CalibrationConfig, Any]:
    """Return the configuration and the calibration of the robot."""
    config = load_calibration(folder / 'calibration.yaml')
    return config, calibrate(config)


@pytest.mark.slow
def test_every_joint_has_the_coefficients_of_its_servo(found: tuple[CalibrationConfig, Any]):
    _, done = found
    assert done.result.accepted, done.result.acceptance
    for joint in ('shoulder', 'elbow'):
        for name, truth in TRUTH.items():
            owner = 'joint' if name == 'armature' else 'actuator'
            parameter = done.result.parameter(f'{owner}/{joint}/{name}')
            if parameter.verdict == 'identified':
                error = abs(parameter.value - truth)
                assert error < max(2 * parameter.half_width, 0.02 * truth), parameter.name
    told = {p.name for p in done.result.parameters if p.verdict == 'identified'}
    assert 'actuator/shoulder/load_friction_base' in told


@pytest.mark.slow
def test_coefficients_and_armatures_are_written(found: tuple[CalibrationConfig, Any]):
    config, done = found
    written = sorted(path.name for path in (config.output / 'current' / 'servos').iterdir())
    assert written == ['elbow.json', 'shoulder.json']
    servo, values = read_parameters(config.output / 'current' / 'servos' / 'elbow.json')
    assert servo == Servo.named('mx64', 'm3')
    armature = done.result.parameter('joint/elbow/armature').value
    assert values['kt'] == done.result.parameter('actuator/elbow/kt').value
    assert (values['armature'], values['q_offset']) == (armature, 0)
    model = mujoco.MjModel.from_xml_path(str(done.mjcf_path))
    assert model.dof_armature[model.joint('elbow').dofadr[0]] == armature
    assert any("numbers of servos' laws" in warning for warning in done.result.warnings)


@pytest.mark.slow
def test_a_stored_result_writes_the_same_coefficients(
    found: tuple[CalibrationConfig, Any], tmp_path: Path
):
    config, done = found

    written = Result.load(config.output).save(tmp_path)

    assert written.mjcf_path is not None
    assert written.result_path.read_bytes() == done.result_path.read_bytes()
    for name in ('elbow.json', 'shoulder.json'):
        first = config.output / 'current' / 'servos' / name
        assert (written.folder / 'servos' / name).read_bytes() == first.read_bytes()


def test_parameters_start_and_end_where_the_kind_of_servo_says(folder: Path):
    found = _parameters(folder)
    assert len(found) == 2 * len(TRUTH)
    usual = Servo.named('mx64', 'm3').coefficients
    for name, unknown in found.items():
        bounds = (unknown.nominal, unknown.min_value, unknown.max_value)
        assert bounds == tuple(usual[name.rpartition('/')[2]]), name


def test_an_entry_of_parameters_wins(folder: Path):
    own = {'target': 'actuator/*/kt', 'shared': True, 'initial': 1.5, 'bounds': [1.0, 2.0]}
    found = _parameters(folder, parameters=[own])
    assert len(found) == 2 * len(TRUTH) - 1
    kt = found['actuator/*/kt']
    assert (kt.nominal, kt.min_value, kt.max_value) == (1.5, 1.0, 2.0)
    assert [target.name for target in kt.targets] == ['shoulder', 'elbow']


def test_entries_say_what_is_to_be_found(folder: Path):
    some = {**SERVOS[0], 'identify': ['kt', 'friction_base'], 'shared': True}
    shared = _parameters(folder, servos=[some]).values()
    assert [len(unknown.targets) for unknown in shared] == [2, 2]
    none = {**SERVOS[0], 'identify': 'none'}
    only = _parameters(folder, servos=[none], parameters=[{'target': 'actuator/elbow/R'}])
    assert list(only) == ['actuator/elbow/R']


def test_files_of_coefficients_are_starts(folder: Path, tmp_path: Path):
    servo = Servo.named('mx64', 'm3')
    write_parameters(tmp_path / 'known.json', servo, {**TRUTH, 'q_offset': 0.02})
    entry = {'actuators': ['elbow'], 'params': str(tmp_path / 'known.json'), 'values': {'R': 3.5}}
    found = _parameters(folder, servos=[entry])
    assert found['actuator/elbow/kt'].nominal == TRUTH['kt']
    assert found['actuator/elbow/R'].nominal == 3.5
    assert found['joint/elbow/armature'].nominal == TRUTH['armature']


@pytest.mark.parametrize(
    ('entry', 'text'),
    [
        ({'actuators': ['elbov']}, "No actuator matches 'elbov' in servos; nearest: elbow"),
        ({'type': 'mx65'}, "no actuator 'mx65'; nearest: mx64"),
        ({'model': 'm9'}, "no friction model 'm9'"),
        ({'identify': ['kT']}, "coefficient 'kT'; nearest: kt"),
        ({'values': {'kt': float('nan')}}, "finite 'kt'"),
        ({'constants': {'volts': 3.0}}, "no 'volts'"),
    ],
)
def test_bad_entries_are_told(folder: Path, entry: dict[str, Any], text: str):
    with pytest.raises(SysidError, match=text):
        _parameters(folder, servos=[{**SERVOS[0], **entry}])


def test_an_entry_needs_a_kind_and_a_law_and_a_number_a_servo(folder: Path):
    with pytest.raises(ConfigError, match='Expected type and model, or params, in servos'):
        _parameters(folder, servos=[{'actuators': ['elbow'], 'type': 'mx64'}])
    with pytest.raises(ParameterError, match="no servo drives actuator 'elbow'"):
        _parameters(folder, servos=[], parameters=[{'target': 'actuator/elbow/kt'}])
    with pytest.raises(ParameterError, match="'elbow' has no 'friction_stribeck'; nearest: fri"):
        _parameters(folder, parameters=[{'target': 'actuator/elbow/friction_stribeck'}])


def test_a_file_of_servos_needs_the_section(tmp_path: Path):
    path = tmp_path / 'servos.yaml'
    path.write_text(json.dumps({'servo': []}))
    with pytest.raises(ConfigError, match=r'Expected the section servos in .*; nearest: servo'):
        load_servos(path)
