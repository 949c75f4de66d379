# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A LeRobot dataset becomes a calibration in the right unit, or with a question for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest
from numpy.typing import NDArray

from builders.lerobot_sets import Episode, write_dataset
from sysid_ros.alignment.pairing import map_columns
from sysid_ros.bags.reader import read_bag
from sysid_ros.errors import AlignmentError
from sysid_ros.fit.observer import Nobody
from sysid_ros.workflows import init
from sysid_ros.workflows.init import CalibrationProposal, find_bags, propose_calibration, to_yaml

JOINTS = ('shoulder_pan', 'elbow_flex', 'gripper')
LOW, HIGH = np.array([-1.9, -1.2, -0.2]), np.array([2.1, 2.4, 1.7])
ARM = """<mujoco><compiler angle="radian"/>
  <option timestep=".004" integrator="implicitfast"><flag contact="disable"/></option>
  <default><joint damping=".3" armature=".02"/><position kp="30" kv="1"/></default>
  <worldbody><body><joint name="shoulder_pan" axis="0 1 0" range="-1.9 2.1"/>
    <geom size=".05" pos=".1 0 0" mass=".3"/><body pos=".2 0 0">
    <joint name="elbow_flex" axis="0 1 0" range="-1.2 2.4"/>
    <geom size=".05" pos=".1 0 0" mass=".2"/><body pos=".2 0 0">
    <joint name="gripper" axis="1 0 0" range="-.2 1.7"/><geom size=".02" pos="0 .05 0" mass=".1"/>
    </body></body></body></worldbody>
  <actuator><position name="shoulder_pan" joint="shoulder_pan"/>
    <position name="elbow_flex" joint="elbow_flex"/><position name="gripper" joint="gripper"/>
  </actuator>
  <sensor><jointpos name="shoulder_pan_position" joint="shoulder_pan"/>
    <jointpos name="elbow_flex_position" joint="elbow_flex"/>
    <jointpos name="gripper_position" joint="gripper"/></sensor></mujoco>"""


def motion(seed: int, reach: float) -> Episode:
    """Return (n, joints) positions and commands, rad, over so much of the ranges."""
    model = mujoco.MjModel.from_xml_string(ARM)
    data = mujoco.MjData(model)
    rng = np.random.default_rng(seed)
    rates, phases = rng.uniform(1.0, 3.0, 3), rng.uniform(0, 6, 3)
    rows = []
    for step in range(1500):
        wanted = (LOW + HIGH) / 2 + reach * (HIGH - LOW) / 2 * np.sin(rates * data.time + phases)
        if step % 8 == 0:
            rows.append((data.qpos.copy(), wanted))
            data.ctrl[:] = wanted
        mujoco.mj_step(model, data)
    positions, commands = np.array(rows).transpose(1, 0, 2)
    return positions, commands


def told(unit: str, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return positions as a driver of such an arm has them; its gripper is in parts but in rad."""
    parts = 100 * (2 * (values - LOW) / (HIGH - LOW) - 1)
    found = {'rad': values, 'degrees': np.rad2deg(values), 'parts': np.clip(parts, -100, 100)}[unit]
    gripper = values[:, 2:] if unit == 'rad' else np.clip(50 + parts[:, 2:] / 2, 0, 100)
    return np.concatenate([found[:, :2], gripper], axis=1)


def proposed(folder: Path, unit: str, reach: float, version: str) -> CalibrationProposal:
    """Return what init proposes for six episodes."""
    episodes = [motion(seed, reach) for seed in range(6)]
    written = [(told(unit, state), told(unit, action)) for state, action in episodes]
    names = [f'{joint}.pos' for joint in JOINTS]
    dataset = write_dataset(folder / 'set', names, written, version=version, fps=31.25)
    (folder / 'arm.xml').write_text(ARM)
    return propose_calibration(find_bags(str(dataset)), folder / 'arm.xml', Nobody())


@pytest.mark.parametrize('version', ['v2.1', 'v3.0'])
@pytest.mark.parametrize(
    ('unit', 'reach', 'asked'),
    [
        ('rad', 0.8, False),
        ('parts', 1.02, False),  # driven to the ends of the ranges
        ('parts', 0.8, True),
        ('degrees', 0.8, False),  # the elbow goes beyond 100
        ('degrees', 0.5, True),
    ],
)
def test_the_unit_of_a_dataset_is_right_or_asked_and_a_third_is_held_out(
    tmp_path: Path, monkeypatch: Any, unit: str, reach: float, asked: bool, version: str
) -> None:
    monkeypatch.setattr(init, '_tried', lambda proposal, _: proposal)
    found = proposed(tmp_path, unit, reach, version)
    roles = [bag.role for bag in found.bags]
    assert (roles.count('train'), roles.count('validate')) == (4, 2)
    assert not any('gap' in finding for bag in found.bags for finding in bag.findings)
    question = 'In which unit are shoulder_pan_position, elbow_flex_position?'
    assert found.problem.startswith(question) == asked
    text = to_yaml(found, tmp_path, 'mapping.yaml')
    assert '{path: set/episode_000000, role: train}' in text
    if unit == 'rad':
        assert found.mapping is None
        return
    assert found.mapping is not None
    # One raw value, and the angle that it is.
    angle = np.array([[0.3, 0.4, 0.5]])
    (raw,) = told(unit, angle)
    for pair in found.mapping.pairs:
        joint = JOINTS.index(pair.labels[0])
        assert pair.confident == (not asked or pair.labels[0] == 'gripper')
        if pair.confident or unit == 'degrees':
            assert pair.scale * raw[joint] + pair.offset == pytest.approx(angle[0, joint], rel=1e-3)
        if asked and joint < 2:
            half = (HIGH - LOW)[joint] / 200
            assert f'scale: {half:.5g}, offset: {(LOW + HIGH)[joint] / 2:.5g}' in pair.reason


def test_names_alone_do_not_pair_what_is_in_parts_of_a_range(tmp_path: Path) -> None:
    episodes = [tuple(told('parts', each) for each in motion(0, 0.5))]
    names = [f'{joint}.pos' for joint in JOINTS]
    dataset: Any = write_dataset(tmp_path / 'set', names, episodes)  # type: ignore[arg-type]
    bag = read_bag(dataset / 'episode_000000')
    with pytest.raises(AlignmentError, match='in parts of its range or in degrees'):
        map_columns(bag, mujoco.MjModel.from_xml_string(ARM), 'auto')
