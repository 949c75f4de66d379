# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A robot that floats in the model and hung while it was recorded."""

from __future__ import annotations

from pathlib import Path

import mujoco
import numpy as np
import pytest

from sysid_ros.config.schema import CalibrationConfig
from sysid_ros.fit.observer import Nobody
from sysid_ros.workflows.calibrate import calibrate
from sysid_ros.workflows.init import propose_calibration, to_yaml
from sysid_ros.workflows.problem import on_fixed_base

LEGS = """
<mujoco>
  <compiler angle="radian"/>
  <worldbody>
    <body name="trunk" pos="0 0 .5" quat=".8 .6 0 0"><freejoint name="float"/>
      <geom size=".12" mass="4"/>
      <body name="thigh" pos="0 .1 0"><joint name="hip" axis="0 1 0" damping="{}"/>
        <geom type="capsule" size=".03" fromto="0 0 0 0 0 -.2" mass=".5"/>
        <body name="calf" pos="0 0 -.2"><joint name="knee" axis="0 1 0" damping="{}"/>
          <geom type="capsule" size=".02" fromto="0 0 0 0 0 -.2" mass=".3"/></body></body></body>
    <body name="ball" pos="3 0 0"><freejoint/><geom size=".1"/></body>
  </worldbody>
  <actuator><position name="hip" joint="hip" kp="20" kv=".5"/>
    <position name="knee" joint="knee" kp="15" kv=".3"/></actuator>
  <keyframe><key name="home" qpos="0 0 .5 1 0 0 0 .3 -.6 3 0 0 1 0 0 0"/></keyframe>
</mujoco>
"""
NOMINAL, TRUTH = LEGS.format(0.1, 0.1), (0.4, 0.25)


def record(path: Path, seed: int) -> None:
    """Write a table of a motion in which the trunk is held."""
    held = LEGS.format(*TRUTH).replace('<freejoint name="float"/>', '')
    model = mujoco.MjModel.from_xml_string(held[: held.index('<keyframe>')] + '</mujoco>')
    model.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_CONTACT)
    data, rng, rows = mujoco.MjData(model), np.random.default_rng(seed), []
    mujoco.mj_step(model, data, 2000)
    for time in np.arange(0, 8, 0.01):
        data.ctrl[:] = 0.5 * np.sin(2 * np.pi * (0.7 + 0.1 * seed) * time * np.array([1, 1.6]))
        mujoco.mj_forward(model, data)
        positions = data.qpos[:2] + rng.normal(0, 2e-4, 2)
        rows.append([time, *positions, *data.ctrl])
        mujoco.mj_step(model, data, 5)
    head = 'time,hip_pos,knee_pos,cmd_hip_pos,cmd_knee_pos'
    np.savetxt(path, rows, delimiter=',', header=head, comments='', fmt='%.9g')


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / 'legs.xml').write_text(NOMINAL)
    for number, name in enumerate(('train_1', 'train_2', 'validate')):
        record(tmp_path / f'{name}.csv', number)
    return tmp_path


def test_a_base_that_is_fixed_stands_where_the_model_has_it() -> None:
    spec = mujoco.MjSpec.from_string(NOMINAL)
    model = on_fixed_base(spec, spec.compile()).compile()
    assert [model.joint(row).name for row in range(model.njnt)] == ['hip', 'knee', '']
    np.testing.assert_array_equal(model.body('trunk').pos, [0, 0, 0.5])
    np.testing.assert_array_equal(model.key_qpos[0], [0.3, -0.6, 3, 0, 0, 1, 0, 0, 0])
    data = mujoco.MjData(model)
    mujoco.mj_resetDataKeyframe(model, data, 0)
    mujoco.mj_forward(model, data)
    # The thigh is in the trunk, which it did not touch before.
    assert data.ncon == 0
    assert spec.compile().nq == 7 + 2 + 7


@pytest.mark.slow
def test_a_robot_that_hung_is_identified_and_written_as_it_floats(folder: Path) -> None:
    values = {
        'model': folder / 'legs.xml',
        'bags': [
            {'path': str(folder / 'train_?.csv')},
            {'path': str(folder / 'validate.csv'), 'role': 'validate'},
        ],
        'base': 'fixed',
        'parameters': [{'target': 'joint/[hk]*/damping', 'bounds': [0, 2]}],
        'output': folder / 'out',
    }
    done = calibrate(CalibrationConfig.model_validate(values))
    assert done.result.accepted
    for parameter, truth in zip(done.result.parameters, TRUTH, strict=True):
        assert parameter.verdict == 'identified'
        half = (parameter.high - parameter.low) / 2
        assert abs(parameter.value - truth) < 1.6 * half
        assert half < 0.01
    written = mujoco.MjModel.from_xml_path(str(folder / 'out/current/mjcf/legs.xml'))
    assert written.nq == 7 + 2 + 7
    found = [float(written.dof_damping[written.joint(name).dofadr[0]]) for name in ('hip', 'knee')]
    assert found == [parameter.value for parameter in done.result.parameters]


@pytest.mark.slow
def test_init_takes_a_base_that_nothing_measures_to_be_fixed_and_says_so(folder: Path) -> None:
    paths = [folder / 'train_1.csv', folder / 'validate.csv']
    proposal = propose_calibration(paths, folder / 'legs.xml', Nobody())
    assert proposal.base == 'trunk'
    text = to_yaml(proposal, folder, 'mapping.yaml')
    assert 'Nothing recorded says where trunk is' in text
    assert '\nbase: fixed\n' in text
    targets = {item.target for item in proposal.targets}
    assert targets >= {'joint/hip/armature', 'joint/knee/armature'}
    assert not any('ball' in target for target in targets)
