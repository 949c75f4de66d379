# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Drives in the words of controllers and simulators: what they exert is what the model exerts."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import mujoco
import numpy as np
import pytest
import yaml

from builders.stored_results import store
from sysid_ros.errors import ResultError
from sysid_ros.export.drives import drives_of
from sysid_ros.export.export import Exported, ExportFormat, ExportRequest, export
from sysid_ros.export.stored import load_stored

if TYPE_CHECKING:
    from pathlib import Path

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


def exported(result: Path, format_: ExportFormat) -> tuple[Exported, str]:
    """Export a result; return also the text."""
    output = result.parent / 'exported.py'
    done = export(result, ExportRequest(format_, output))
    return done, output.read_text('utf-8')


def identified(done: Exported) -> dict[str, float | None]:
    """Return what was identified and is lost."""
    return {entry.name: entry.value for entry in done.lost if entry.identified}


def test_drives_exert_what_mujoco_computes(result: Path) -> None:
    stored = load_stored(result)
    model, data = stored.fitted, mujoco.MjData(stored.fitted)
    rng = np.random.default_rng(0)
    drives = {drive.joint: drive for drive in drives_of(stored, frozenset()).joints}
    model.actuator_delay[:] = 0

    for _ in range(50):
        data.qpos[:], data.qvel[:] = rng.normal(0, 0.3, 3), rng.normal(0, 1, 3)
        # What joints are told: a position, a velocity, an effort.
        told = rng.normal(0, 0.5, 3)
        data.ctrl[:] = told * (2, 1, 1 / 3)
        mujoco.mj_forward(model, data)
        for row, (joint, target) in enumerate(
            zip(('turn', 'slide.2', '3_spin'), told, strict=True)
        ):
            drive = drives[joint]
            q, v = data.joint(joint).qpos[0], data.joint(joint).qvel[0]
            expected = {
                'position': drive.stiffness * (target - q) - drive.damping * v,
                'velocity': drive.damping * (target - v),
                'effort': target,
            }[drive.law]
            expected = np.clip(expected, *drive.effort)
            assert data.qfrc_actuator[row] == pytest.approx(expected)

    assert drives['turn'].armature == 0.15
    assert drives['turn'].viscous == 0.3
    assert drives['turn'].frictionloss == 0.25
    assert drives['turn'].delay == 0.006
    assert drives['turn'].limit == 12
    assert drives['3_spin'].limit == 3
    assert drives['slide.2'].limit == 60


def test_ros2_control_gets_gains_under_keys_that_its_controllers_have(result: Path) -> None:
    done, text = exported(result, ExportFormat.ROS2_CONTROL)

    document = yaml.safe_load(text)
    trajectory = document['joint_trajectory_controller']['ros__parameters']
    assert trajectory == {
        'joints': ['turn'],
        'command_interfaces': ['effort'],
        'state_interfaces': ['position', 'velocity'],
        'gains': {'turn': {'p': 88.0, 'i': 0.0, 'd': 6.0}},
    }
    assert document['pid_controller']['ros__parameters'] == {
        'dof_names': ['slide.2'],
        'command_interface': 'effort',
        'reference_and_state_interfaces': ['velocity'],
        'gains': {'slide.2': {'p': 40.0, 'i': 0.0, 'd': 0.0}},
    }
    assert identified(done) == {
        name: value for name, value in FOUND.items() if name != 'actuator/servo/kp'
    }
    for name in identified(done):
        assert f'#   {name} ' in text
    assert '# Commands act 0.006 s late' in text
    assert '# u_clamp_max: 12.0' in text
    assert 'actuator/motor' in [entry.name for entry in done.lost]


#: Fields of ImplicitActuatorCfg in IsaacLab 2.3 and 3.0.
ISAACLAB = {
    'joint_names_expr',
    'effort_limit_sim',
    'stiffness',
    'damping',
    'armature',
    'friction',
    'dynamic_friction',
    'viscous_friction',
}
#: Runs a file as IsaacLab would, with a class of the same fields: there is no wheel of it.
_STAND_IN = """
import sys, types, dataclasses, runpy, json
package, actuators = types.ModuleType('isaaclab'), types.ModuleType('isaaclab.actuators')
actuators.ImplicitActuatorCfg = dataclasses.make_dataclass('ImplicitActuatorCfg', sys.argv[2:])
sys.modules |= {'isaaclab': package, 'isaaclab.actuators': actuators}
found = runpy.run_path(sys.argv[1])['ACTUATORS']
print(json.dumps({name: dataclasses.asdict(value) for name, value in found.items()}))
"""


@pytest.mark.slow
def test_isaaclab_gets_fields_that_its_class_has(result: Path) -> None:
    done, _ = exported(result, ExportFormat.ISAACLAB)

    run = subprocess.run(
        [sys.executable, '-c', _STAND_IN, done.files[0], *sorted(ISAACLAB)],
        capture_output=True,
        text=True,
        check=True,
    )
    groups: dict[str, dict[str, Any]] = yaml.safe_load(run.stdout)
    assert groups['position'] == {
        'joint_names_expr': ['turn'],
        'effort_limit_sim': {'turn': 12.0},
        'stiffness': {'turn': 88.0},
        'damping': {'turn': 6.0},
        'armature': {'turn': 0.15},
        'friction': {'turn': 0.25},
        'dynamic_friction': {'turn': 0.25},
        'viscous_friction': {'turn': 0.3},
    }
    # Names are expressions there.
    assert groups['velocity']['joint_names_expr'] == ['slide\\.2']
    assert groups['velocity']['viscous_friction'] == {'slide\\.2': 2.5}
    assert groups['effort']['stiffness'] == groups['effort']['damping'] == {'3_spin': 0.0}
    assert identified(done) == {'body/b/mass': 1.2, 'actuator/servo/delay': 0.006}


#: Loads the classes that mjlab has for actuators, of which these parts need neither its tensors nor
#: its engine, and lets them build the drives of a file into a model without actuators.
_IN_MJLAB = """
import importlib.util, runpy, sys, types
from unittest.mock import MagicMock
import mujoco
package = types.ModuleType('mjlab')
package.__path__ = list(importlib.util.find_spec('mjlab').submodule_search_locations)
sys.modules['mjlab'] = package
for name in ('torch', 'mujoco_warp'):
    if importlib.util.find_spec(name) is None:
        sys.modules[name] = MagicMock()
spec = mujoco.MjSpec.from_file(sys.argv[2])
for actuator in list(spec.actuators):
    spec.delete(actuator)
for joint in spec.joints:
    joint.armature = joint.frictionloss = 9.0
    joint.actfrclimited = False
for config in runpy.run_path(sys.argv[1])['ACTUATORS']:
    (expression,) = config.target_names_expr
    import re
    names = [joint.name for joint in spec.joints if re.fullmatch(expression, joint.name)]
    config.build(None, [0], names).edit_spec(spec, names)
    print(config.delay_min_lag, config.delay_max_lag)
open(sys.argv[3], 'w').write(spec.to_xml())
"""


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec('mjlab') is None, reason='mjlab is absent')
def test_mjlab_builds_drives_that_move_the_robot_like_the_identified_model(
    result: Path, tmp_path: Path
) -> None:
    done, _ = exported(result, ExportFormat.MJLAB)
    export(result, ExportRequest(ExportFormat.MJCF, tmp_path / 'mjcf'))

    built = tmp_path / 'built.xml'
    run = subprocess.run(
        [sys.executable, '-c', _IN_MJLAB, done.files[0], tmp_path / 'mjcf' / 'robot.xml', built],
        capture_output=True,
        text=True,
        check=True,
    )

    assert run.stdout.split() == ['3', '3', '0', '0', '0', '0']
    ours, theirs = load_stored(result).fitted, mujoco.MjModel.from_xml_path(str(built))
    ours.actuator_delay[:] = 0
    one, other = mujoco.MjData(ours), mujoco.MjData(theirs)
    for step in range(500):
        told = (0.4 * np.sin(0.01 * step), 0.2, 0.05)
        one.ctrl[:] = np.multiply(told, (2, 1, 1 / 3))
        other.ctrl[:] = told
        mujoco.mj_step(ours, one)
        mujoco.mj_step(theirs, other)
    assert np.abs(one.qpos).max() > 0.1
    assert other.qpos == pytest.approx(one.qpos, abs=1e-6)
    assert identified(done) == {'body/b/mass': 1.2}


@pytest.mark.parametrize(
    ('actuators', 'why'),
    [
        (
            '<position name="one" joint="j" kp="3"/><motor name="two" joint="j"/>',
            "actuator/one ('two' drives the same joint), actuator/two ('one' drives the same",
        ),
        ('<position name="one" joint="j" kp="3" timeconst=".1"/>', 'neither a plain servo nor a'),
        (
            '<general name="one" joint="j" gainprm="3" biastype="affine" biasprm="0 -2 0"/>',
            'neither a plain servo nor a',
        ),
        ('', r'joint/j (no actuator of its own drives it)'),
    ],
)
def test_what_is_no_plain_drive_is_refused_with_the_reason(
    tmp_path: Path, actuators: str, why: str
) -> None:
    model = tmp_path / 'robot.xml'
    model.write_text(
        '<mujoco><worldbody><body><joint name="j"/><geom size=".1" pos=".1 0 0"/></body>'
        f'</worldbody><actuator>{actuators}</actuator></mujoco>'
    )
    result = store(tmp_path, model, {'joint/j/damping': 0.3})

    for format_ in (ExportFormat.ROS2_CONTROL, ExportFormat.ISAACLAB, ExportFormat.MJLAB):
        with pytest.raises(ResultError) as refused:
            exported(result, format_)
        assert why in str(refused.value)
    assert not (tmp_path / 'exported.py').exists()


@pytest.mark.parametrize(
    ('joint', 'actuator', 'name'),
    [
        ('stiffness="3"', '', 'joint/j/stiffness'),
        ('damping="1 .2"', '', 'joint/j/damping'),
        ('', 'gear="5"', 'actuator/a/gear'),
        ('', 'forcerange="-1 2"', 'actuator/a/forcerange'),
        ('', 'ctrlrange="-1 2"', 'actuator/a/ctrlrange'),
    ],
)
def test_what_a_drive_does_not_say_of_a_model_is_told(
    tmp_path: Path, joint: str, actuator: str, name: str
) -> None:
    model = tmp_path / 'robot.xml'
    model.write_text(
        f'<mujoco><worldbody><body><joint name="j" {joint}/><geom size=".1" pos=".1 0 0"/></body>'
        f'</worldbody><actuator><position name="a" joint="j" kp="3" kv="1" {actuator}/></actuator>'
        '</mujoco>'
    )
    result = store(tmp_path, model, {'actuator/a/kp': 3.5})

    done, text = exported(result, ExportFormat.MJLAB)

    assert [entry.name for entry in done.lost] == [name]
    assert f'#   {name} ' in text


def test_a_constant_force_of_a_motor_is_told(tmp_path: Path) -> None:
    model = tmp_path / 'robot.xml'
    model.write_text(
        '<mujoco><worldbody><body><joint name="j"/><geom size=".1" pos=".1 0 0"/></body>'
        '</worldbody><actuator><general name="a" joint="j" gainprm="1" biastype="affine" '
        'biasprm=".2 0 0" ctrlrange="-3 3"/></actuator></mujoco>'
    )

    done, text = exported(store(tmp_path, model, {'joint/j/damping': 0.3}), ExportFormat.MJLAB)

    assert [(entry.name, entry.value) for entry in done.lost] == [('actuator/a', 0.2)]
    assert 'BuiltinMotorActuatorCfg(' in text


def test_a_motor_without_a_limit_gets_one_for_mjlab_and_it_is_told(tmp_path: Path) -> None:
    model = tmp_path / 'robot.xml'
    model.write_text(
        '<mujoco><worldbody><body><joint name="j"/><geom size=".1" pos=".1 0 0"/></body>'
        '</worldbody><actuator><motor name="a" joint="j"/></actuator></mujoco>'
    )

    done, text = exported(store(tmp_path, model, {'joint/j/damping': 0.3}), ExportFormat.MJLAB)

    assert "the model has none for 'a', so 1e+06 was written." in done.notes[0]
    assert 'effort_limit=1000000.0' in text


def test_laws_of_servos_and_what_mjcf_lacks_are_told_once(tmp_path: Path) -> None:
    (tmp_path / 'robot.xml').write_text(DRIVES)
    path = store(tmp_path, tmp_path / 'robot.xml', {**FOUND, 'actuator/motor/gain': 1.1})
    document = json.loads(path.read_text('utf-8'))
    document['provenance']['config']['servos'] = [{'actuators': ['motor'], 'type': 'xl330'}]
    path.write_text(json.dumps(document))

    done = export(path, ExportRequest(ExportFormat.MJCF, tmp_path / 'mjcf'))

    assert identified(done) == {'actuator/motor/gain': 1.1}
    assert done.notes[0].startswith('Laws of servos drive motor in the fit')
    assert not any('does not hold' in note for note in done.notes)
