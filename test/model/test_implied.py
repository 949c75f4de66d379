# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Models as they are shipped: without sensors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sysid_ros.model.implied import drop_implied, implied_sensors
from sysid_ros.model.loading import load_model, load_spec
from sysid_ros.model.mjcf.write import write_model
from sysid_ros.model.targets import resolve

if TYPE_CHECKING:
    from pathlib import Path

    import mujoco

BODIES = """<mujoco>
  <worldbody>
    <body name="base"><freejoint name="root"/><geom size=".1"/><site name="imu"/>
      <body><joint name="hip"/><geom size=".1"/>
        <body><joint name="knee" type="slide"/><geom size=".1"/></body>
      </body>
      <body><joint/><geom size=".1"/></body>
    </body>
  </worldbody>
  {}
</mujoco>
"""
IMPLIED = [
    f'{joint}_{quantity}'
    for joint in ('hip', 'knee')
    for quantity in ('position', 'velocity', 'effort')
]


def _file(folder: Path, sensors: str) -> Path:
    path = folder / 'robot.xml'
    path.write_text(BODIES.format(sensors))
    return path


def _sensors(model: mujoco.MjModel) -> list[str]:
    return [model.sensor(index).name for index in range(model.nsensor)]


def test_hinges_and_slides_with_names_are_measured_behind_what_the_model_has(tmp_path: Path):
    path = _file(tmp_path, '<sensor><gyro name="gyro" site="imu"/></sensor>')
    assert _sensors(load_model(path)) == ['gyro', *IMPLIED]
    assert implied_sensors(load_spec(path)) == IMPLIED


def test_a_model_with_a_sensor_of_a_joint_stays_as_it_is(tmp_path: Path):
    path = _file(tmp_path, '<sensor><jointvel name="v" joint="hip"/></sensor>')
    assert _sensors(load_model(path)) == ['v']


def test_a_name_that_is_taken_is_not_given_twice(tmp_path: Path):
    path = _file(tmp_path, '<sensor><gyro name="hip_effort" site="imu"/></sensor>')
    found = _sensors(load_model(path))
    assert found == ['hip_effort', *(name for name in IMPLIED if name != 'hip_effort')]


def test_implied_sensors_are_known_again_in_a_copy(tmp_path: Path):
    spec = load_spec(_file(tmp_path, '')).copy()
    assert implied_sensors(spec) == IMPLIED
    drop_implied(spec)
    assert spec.compile().nsensor == 0


def test_the_model_that_is_written_has_none(tmp_path: Path):
    path = _file(tmp_path, '')
    (target,) = resolve('joint/hip/damping', load_model(path), spec=load_spec(path))
    written = write_model(path, [(target, 0.5)], tmp_path / 'identified').path
    text = written.read_text().replace(' damping="0.5"', '')
    assert text == path.read_text()
