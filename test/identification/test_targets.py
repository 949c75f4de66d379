# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What a parameter writes."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

from sysid_ros.errors import ParameterError
from sysid_ros.identification.models import differing_fields
from sysid_ros.identification.targets import element_names, object_id, resolve

ARM = """
<mujoco>
  <option gravity="0 0 {gravity}"/>
  <worldbody>
    <geom size="1"/>
    <body name="base">
      <freejoint name="root"/>
      <geom size=".1" mass="1"/>
      <body name="upper" pos=".1 0 0">
        <inertial pos="0 0 .1" mass="{mass}" diaginertia="1 1 1"/>
        <joint name="elbow" axis="0 1 0" armature="{armature}" damping="{damping} 2 3"
               frictionloss="{frictionloss}" stiffness="{stiffness} 1 2" springref="{springref}"/>
        <geom name="foot" size=".1" friction="1 {friction} .01"/>
        <body name="lower" pos=".1 0 0">
          <joint name="slider[2]" type="slide"/>
          <geom size=".1" mass="1"/>
        </body>
      </body>
    </body>
  </worldbody>
  <actuator>
    <pid name="two_controls" joint="elbow" kp="1" kv="2"/>
    <position name="servo" joint="elbow" kp="{kp}" kv="{kv}" gear="{gear}"/>
    <velocity name="spin" joint="elbow" kv="{spin}"/>
    <general name="free" joint="elbow" dyntype="filter" biastype="affine"
             gainprm="1 {gainprm}" biasprm="0 {biasprm}" dynprm="{dynprm}"/>
    <motor name="late" joint="elbow" delay="{delay}" nsample="3"/>
  </actuator>
</mujoco>
"""
DEFAULTS = {
    'gravity': -9.81,
    'mass': 1,
    'armature': 0.1,
    'damping': 0.2,
    'frictionloss': 0.3,
    'stiffness': 0.4,
    'springref': 0,
    'friction': 0.5,
    'kp': 5,
    'kv': 1,
    'gear': 2,
    'spin': 3,
    'gainprm': 0.5,
    'biasprm': 1,
    'dynprm': 0.1,
    'delay': 0,
}
#: Target, keyword in the text, and the text's unit for one SI unit.
WRITTEN = [
    ('option/gravity[2]', 'gravity', 1.0),
    ('body/upper/mass', 'mass', 1.0),
    ('joint/elbow/armature', 'armature', 1.0),
    ('joint/elbow/damping', 'damping', 1.0),
    ('joint/elbow/frictionloss', 'frictionloss', 1.0),
    ('joint/elbow/stiffness', 'stiffness', 1.0),
    ('joint/elbow/springref', 'springref', 180 / np.pi),
    ('geom/foot/friction[1]', 'friction', 1.0),
    ('actuator/servo/kp', 'kp', 1.0),
    ('actuator/servo/kv', 'kv', 1.0),
    ('actuator/servo/gear', 'gear', 1.0),
    ('actuator/spin/kv', 'spin', 1.0),
    ('actuator/free/gainprm[1]', 'gainprm', 1.0),
    ('actuator/free/biasprm[1]', 'biasprm', 1.0),
    ('actuator/free/dynprm', 'dynprm', 1.0),
]
#: What ``mj_setConst`` leaves to whoever compiles: see ``models.fitted_model``.
STATISTICS = {'stat.meanmass', 'stat.meaninertia'}


def compiled(**values: float) -> mujoco.MjModel:
    return mujoco.MjModel.from_xml_string(ARM.format(**{**DEFAULTS, **values}))


@pytest.mark.parametrize(('path', 'keyword', 'unit'), WRITTEN)
def test_writing_equals_recompiling(path: str, keyword: str, unit: float) -> None:
    model = compiled()
    (target,) = resolve(path, model)
    target.write(model, 0.625)
    mujoco.mj_setConst(model, mujoco.MjData(model))
    expected = compiled(**{keyword: 0.625 * unit})
    assert set(differing_fields(model, expected, 1e-12)) <= STATISTICS
    assert differing_fields(model, compiled(), 1e-12) != ()


@pytest.mark.parametrize(('path', 'keyword', 'unit'), WRITTEN)
def test_reading_gives_what_the_file_says(path: str, keyword: str, unit: float) -> None:
    model = compiled(**{keyword: 0.625 * unit})
    (target,) = resolve(path, model)
    assert target.read(model) == pytest.approx(0.625, rel=1e-14)


def test_a_delay_is_read_but_not_written_into_the_model() -> None:
    model, nominal = compiled(delay=0.004), compiled(delay=0.004)
    (target,) = resolve('actuator/late/delay', model)
    assert target.read(model) == 0.004
    assert not target.in_model
    target.write(model, 0.006)
    assert differing_fields(model, nominal) == ()


def test_a_ball_joint_gets_the_same_value_in_its_three_degrees_of_freedom() -> None:
    model = mujoco.MjModel.from_xml_string(
        '<mujoco><worldbody><body><joint name="j" type="ball"/><geom size="1"/>'
        '<body><joint name="k"/><geom size="1"/></body></body></worldbody></mujoco>'
    )
    (target,) = resolve('joint/j/damping', model)
    target.write(model, 0.5)
    assert model.dof_damping.tolist() == [0.5, 0.5, 0.5, 0.0]


def test_wildcards_find_names_in_model_order() -> None:
    paths = [target.path for target in resolve('joint/*/armature', compiled())]
    assert paths == ['joint/elbow/armature', 'joint/slider[2]/armature']


def test_wildcards_leave_out_elements_that_the_target_does_not_fit() -> None:
    assert [target.name for target in resolve('actuator/*/kp', compiled())] == [
        'two_controls',
        'servo',
    ]
    assert [target.name for target in resolve('joint/*/springref', compiled())] == [
        'elbow',
        'slider[2]',
    ]


def test_actuators_are_found_behind_one_with_several_controls() -> None:
    names = element_names(compiled(), 'actuator')
    assert names == ['two_controls', 'servo', 'spin', 'free', 'late']


def test_the_world_is_no_body_to_identify() -> None:
    names = [target.name for target in resolve('body/*/mass', compiled())]
    assert names == ['base', 'upper', 'lower']


def test_a_vector_without_an_index_means_its_first_component() -> None:
    (target,) = resolve('geom/foot/friction', compiled())
    assert target.path == 'geom/foot/friction[0]'


def test_units_follow_the_type_of_the_joint() -> None:
    model = compiled()
    units = [target.unit for target in resolve('joint/*/damping', model)]
    assert units == ['N·m·s/rad', 'N·s/m']


def test_the_row_of_an_unknown_name_is_negative() -> None:
    assert object_id(compiled(), 'joint', 'nowhere') == -1


@pytest.mark.parametrize(
    ('path', 'complaint'),
    [
        ('elbow', "Expected a target such as joint/elbow/armature .* got 'elbow'"),
        ('joint/armature', 'Expected a target such as'),
        ('option/x/gravity', 'Expected a target such as'),
        ('joint/elbow/Armature', 'Expected a target such as'),
        ('joints/elbow/armature', "Unknown element 'joints' .* nearest: joint"),
        ('joint/elbow/armatur', "Unknown attribute 'armatur' .* nearest: armature"),
        ('joint/elbw/armature', "No joint matches 'elbw' .* nearest: elbow"),
        ('joint/x*/armature', r"No joint matches 'x\*'"),
        ('geom/foot/friction[3]', 'index 3, expected 0 to 2'),
        ('joint/elbow/armature[1]', 'index 1, expected 0 to 0'),
        ('actuator/late/kp', "actuator 'late' is not a position actuator"),
        ('actuator/late/kv', "actuator 'late' is not an actuator with an affine bias"),
        ('joint/root/damping', "joint 'root' is not a hinge, slide or ball joint"),
        ('joint/root/springref', "joint 'root' is not a hinge or slide joint"),
    ],
)
def test_a_target_that_does_not_fit_is_one_sentence(path: str, complaint: str) -> None:
    with pytest.raises(ParameterError, match=complaint) as caught:
        resolve(path, compiled())
    message = str(caught.value)
    assert message.endswith('.')
    assert '\n' not in message
