# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Numbers of actuators for other programs: what they exert is what the model exerts."""

from __future__ import annotations

import csv
import importlib.util
import re
from pathlib import Path

import mujoco
import numpy as np
import pytest
import yaml

from builders.stored_results import Found, store
from sysid_ros.errors import ResultError
from sysid_ros.vocabulary import Quantity
from sysid_ros.workflows.export import KEYS, ExportFormat, drives_of, export
from sysid_ros.workflows.stored import load_stored

DRIVES = """
<mujoco>
  <option timestep=".002" integrator="implicitfast"/>
  <worldbody>
    <body name="a">
      <joint name="turn" axis="0 1 0" armature=".1" damping=".3" frictionloss=".2"
             actuatorfrcrange="-12 14"/>
      <geom size=".1" pos=".2 0 0"/>
      <body name="b" pos=".4 0 0">
        <joint name="slide.2" type="slide" axis="1 0 0" damping="2"/>
        <geom size=".05"/>
        <body name="c" pos=".2 0 0">
          <joint name="3_spin" axis="1 0 0" armature=".01"/>
          <geom type="box" size=".05 .1 .02"/>
        </body>
      </body>
    </body>
  </worldbody>
  <actuator>
    <position name="servo" joint="turn" kp="20" kv="1.5" gear="2" ctrlrange="-3 3"/>
    <velocity name="cart" joint="slide.2" kv="40" forcerange="-60 60"/>
    <motor name="motor" joint="3_spin" gear="3" ctrlrange="-1 1"/>
  </actuator>
</mujoco>
"""
FOUND = {
    'joint/turn/armature': 0.15,
    'joint/turn/frictionloss': 0.25,
    'joint/slide.2/damping': 2.5,
    'actuator/servo/kp': 22.0,
    'actuator/servo/delay': 0.006,
    'body/b/mass': 1.2,
}


@pytest.fixture
def result(tmp_path: Path) -> Path:
    """Return a stored result of a robot with a servo, a velocity servo and a motor."""
    (tmp_path / 'robot.xml').write_text(DRIVES)
    return store(tmp_path, tmp_path / 'robot.xml', FOUND)


def test_drives_exert_what_mujoco_computes(result: Path) -> None:
    model = load_stored(result).fitted
    data, rng = mujoco.MjData(model), np.random.default_rng(0)
    found, notes = drives_of(model)
    drives = {drive.joint: drive for drive in found}
    model.actuator_delay[:] = 0

    for _ in range(50):
        data.qpos[:], data.qvel[:] = rng.normal(0, 0.1, 3), rng.normal(0, 0.3, 3)
        # What joints are told: a position, a velocity, an effort.
        told = rng.normal(0, 0.1, 3)
        data.ctrl[:] = told * (2, 1, 1 / 3)
        mujoco.mj_forward(model, data)
        for row, (drive, target) in enumerate(zip(found, told, strict=True)):
            q, v = data.joint(drive.joint).qpos[0], data.joint(drive.joint).qvel[0]
            expected = {
                Quantity.POSITION: drive.stiffness * (target - q) - drive.damping * v,
                Quantity.VELOCITY: drive.damping * (target - v),
                Quantity.EFFORT: target,
            }[drive.law]
            limited = np.clip(expected, -drive.effort, 14 if row == 0 else drive.effort)
            assert data.qfrc_actuator[row] == pytest.approx(limited)

    assert notes == []
    assert drives['turn'][5:] == (12, 0.006, 0.15, 0.25, 0.3)
    assert (drives['3_spin'].effort, drives['slide.2'].effort) == (3, 60)


def test_each_program_gets_the_numbers_under_its_own_keys(result: Path) -> None:
    output = result.parent / 'actuators.yaml'

    done = export(result, ExportFormat.ACTUATORS, output)

    document = yaml.safe_load(output.read_text('utf-8'))
    assert document['ros2_control'] == {
        'turn': {'law': 'position', 'p': 88.0, 'd': 6.0, 'u_clamp_max': 12.0},
        'slide.2': {'law': 'velocity', 'p': 40.0, 'd': 0.0, 'u_clamp_max': 60.0},
    }
    assert document['isaaclab']['turn'] == {
        'law': 'position',
        'stiffness': 88.0,
        'damping': 6.0,
        'effort_limit_sim': 12.0,
        'armature': 0.15,
        'friction': 0.25,
        'dynamic_friction': 0.25,
        'viscous_friction': 0.3,
    }
    assert document['mjlab']['slide.2']['viscous_damping'] == 2.5
    assert document['mjlab']['turn']['delay'] == 0.006
    assert document['mjlab']['3_spin']['law'] == 'effort'
    assert done.lost == ('body/b/mass 1.2 kg',)


def test_the_keys_of_mjlab_are_those_of_its_actuators() -> None:
    found = importlib.util.find_spec('mjlab')
    if found is None:
        pytest.skip('mjlab is not installed')
    module = Path(str(found.origin)).parent / 'actuator'
    source = ''.join(path.read_text('utf-8') for path in module.glob('*.py'))
    keys = set(KEYS['mjlab']) - {'delay'}
    assert {key for key in keys if not re.search(rf'^  {key}\b.*:', source, re.MULTILINE)} == set()


def test_an_actuator_that_is_no_servo_of_one_joint_is_named(tmp_path: Path) -> None:
    text = DRIVES.replace('joint="turn" kp="20"', 'joint="turn" timeconst=".1" kp="20"')
    (tmp_path / 'robot.xml').write_text(text)
    result = store(tmp_path, tmp_path / 'robot.xml', {'body/b/mass': 1.2})

    done = export(result, ExportFormat.ACTUATORS, tmp_path / 'actuators.yaml')

    assert any("'servo' is left out: it is neither" in note for note in done.notes)


def test_a_robot_without_drives_is_refused(tmp_path: Path) -> None:
    text = DRIVES[: DRIVES.index('  <actuator>')] + '</mujoco>'
    (tmp_path / 'robot.xml').write_text(text)
    result = store(tmp_path, tmp_path / 'robot.xml', {'body/b/mass': 1.2})

    with pytest.raises(ResultError, match='found none'):
        export(result, ExportFormat.ACTUATORS, tmp_path / 'actuators.yaml')


def test_the_table_has_values_intervals_and_units(tmp_path: Path) -> None:
    (tmp_path / 'robot.xml').write_text(DRIVES)
    found = {'joint/turn/armature': Found(0.15, 0.01), 'actuator/servo/kp': 22.0}
    result = store(tmp_path, tmp_path / 'robot.xml', found)

    done = export(result, ExportFormat.CSV, tmp_path / 'parameters.csv')

    first, second = csv.DictReader((tmp_path / 'parameters.csv').open(encoding='utf-8'))
    assert (first['name'], first['unit'], float(first['value'])) == (
        'joint/turn/armature',
        'kg·m²',
        0.15,
    )
    assert float(first['high_95']) == pytest.approx(0.15 + 1.96 * 0.01)
    assert (second['low_95'], second['high_95']) == ('', '')
    assert done.lost == ()
