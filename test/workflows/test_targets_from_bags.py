# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""From bags of simulated robots to gravity, tendons, gears, contacts and what sensors err by."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

from builders.bag_columns import Columns
from builders.known_truth import (
    Array,
    assert_told,
    bag,
    identified,
    imu,
    noisy,
    record,
)
from sysid_ros.alignment.pairing import map_columns
from sysid_ros.config.schema import MappingConfig
from sysid_ros.errors import FitError

TILTED = """
<mujoco>
  <compiler angle="radian"/><option integrator="implicitfast" gravity="{gravity}"/>
  <default><joint damping=".5" armature="1"/></default>
  <worldbody><site name="base"/>
    <body><joint name="pan" axis="0 0 1"/><geom size=".05" mass="1" pos=".08 0 0"/>
      <body pos=".3 0 0"><joint name="lift" axis="0 1 0"/>
        <geom size=".04" mass=".6" pos=".2 0 .03"/><site name="hand" pos=".2 0 0" euler=".4 .2 0"/>
      </body>
    </body></worldbody>
  <actuator><position joint="pan" name="pan" kp="8" kv="4"/>
    <position joint="lift" name="lift" kp="8" kv="4"/></actuator>
  <sensor><jointpos name="pan_pos" joint="pan"/><jointpos name="lift_pos" joint="lift"/>
    {sensors}</sensor>
</mujoco>
"""
EFFORTS = '<jointactuatorfrc name="{0}_effort" joint="{0}"/>'
IMU = '<gyro name="gyro" site="{0}"/><accelerometer name="acc" site="{0}"/>'
NOISE = {
    'pan_pos': 3e-4,
    'lift_pos': 3e-4,
    'pan_effort': 0.05,
    'lift_effort': 0.05,
    'gyro': 2e-3,
    'acc': 0.03,
}


@pytest.mark.parametrize(
    'sensors',
    [
        pytest.param('', id='positions'),
        pytest.param(EFFORTS.format('pan') + EFFORTS.format('lift'), id='efforts'),
        pytest.param(IMU.format('hand'), id='IMU-of-a-link'),
        pytest.param(IMU.format('base'), id='IMU-of-the-base'),
    ],
)
def test_gravity_says_how_a_base_is_tilted(columns: Columns, sensors: str) -> None:
    tilted = np.array([1.4, -0.9, -9.66])
    truth, nominal = (
        mujoco.MjModel.from_xml_string(TILTED.format(gravity=gravity, sensors=sensors))
        for gravity in (' '.join(map(str, tilted)), '0 0 -9.81')
    )
    seen = record(truth, 6, lambda t: (1.2 * np.sin(1.3 * t), 0.8 * np.sin(2.9 * t)))
    seen = noisy(seen, 3, **{name: size for name, size in NOISE.items() if name in seen})
    more = [imu(columns, seen)] if 'acc' in seen else []
    recorded = bag(columns, nominal, seen, *more)
    mapped = {pair.name for pair in map_columns(recorded, nominal, 'auto').pairs}
    assert mapped == {'pan', 'lift', *seen} - {'times', 'commands'}
    found = identified(recorded, nominal, ['option/gravity'])
    assert_told(found, {f'option/gravity[{k}]': g for k, g in enumerate(tilted)}, half=0.02)


def test_gravity_along_the_only_axis_is_not_excited(columns: Columns) -> None:
    hinge = mujoco.MjModel.from_xml_string(
        """<mujoco><option integrator="implicitfast"/><worldbody>
        <body><joint name="lift" axis="0 1 0" armature=".1" damping="2"/>
        <geom size=".04" pos=".2 0 0"/></body>
        </worldbody><actuator><position name="lift" joint="lift" kp="8"/></actuator>
        <sensor><jointpos name="lift_pos" joint="lift"/></sensor></mujoco>"""
    )
    seen = record(hinge, 6, lambda t: (0.8 * np.sin(2.9 * t),))
    recorded = bag(columns, hinge, noisy(seen, 3, lift_pos=3e-4))
    found = identified(recorded, hinge, ['option/gravity'])
    assert [interval.verdict for interval in found.intervals] == [
        'identified',
        'not excited',
        'identified',
    ]


CABLE = """
<mujoco>
  <compiler angle="radian"/><option integrator="implicitfast"/>
  <default><joint axis="0 1 0" damping=".1" armature=".01"/></default>
  <worldbody><body><joint name="one"/><geom size=".04" mass=".5" pos=".15 0 0"/>
    <body pos=".3 0 0"><joint name="two"/><geom size=".03" mass=".3" pos=".15 0 0"/></body>
  </body></worldbody>
  <tendon><fixed name="cable" stiffness="{0}" damping="{1}" frictionloss="{2}" springlength="0">
    <joint joint="one" coef=".05"/><joint joint="two" coef="-.04"/></fixed></tendon>
  <actuator><position joint="one" name="one" kp="10" kv=".5"/>
    <position joint="two" name="two" kp="10" kv=".5"/></actuator>
  <sensor><jointpos name="one_pos" joint="one"/><jointpos name="two_pos" joint="two"/>
    <tendonpos name="length" tendon="cable"/></sensor>
</mujoco>
"""
TENDON = {
    'tendon/cable/stiffness': 400.0,
    'tendon/cable/damping': 60.0,
    'tendon/cable/frictionloss': 6.0,
}


def channel(topic: str, field: str, label: str) -> dict[str, str]:
    return {'topic': topic, 'field': field, 'label': label}


@pytest.mark.parametrize('measured', ['joints', 'joint and tendon', 'one joint'])
def test_a_cable_between_joints_has_spring_damper_and_friction(
    columns: Columns, measured: str
) -> None:
    truth = mujoco.MjModel.from_xml_string(CABLE.format(*TENDON.values()))
    nominal = mujoco.MjModel.from_xml_string(CABLE.format(200, 20, 1))
    seen = record(truth, 6, lambda t: (np.sin(2.3 * t), 0.9 * np.sin(3.1 * t)))
    seen = noisy(seen, 5, one_pos=3e-4, two_pos=3e-4, length=2e-5)
    length = {'data': {'': seen['length'][:, 0]}}
    kind = 'std_msgs/msg/Float64'
    cable = columns.topic('/cable', seen['times'], length, msgtype=kind, header=False)
    recorded = bag(columns, nominal, seen, cable)
    names = {'joints': ('one', 'two'), 'joint and tendon': ('one',), 'one joint': ('one',)}
    sensors = {
        f'{joint}_pos': channel('/joint_states', 'position', joint) for joint in names[measured]
    }
    if measured == 'joint and tendon':
        sensors['length'] = channel('/cable', 'data', '')
    commands = {joint: channel('/joint_commands', 'position', joint) for joint in ('one', 'two')}
    mapping = MappingConfig.model_validate({'sensors': sensors, 'actuators': commands})
    found = identified(recorded, nominal, list(TENDON), mapping)
    assert_told(found, TENDON, half=0.05 * np.array([*TENDON.values()]))


COUPLED = """
<mujoco>
  <compiler angle="radian"/><option integrator="implicitfast"/>
  <default><joint axis="0 0 1" damping=".2" armature=".02"/></default>
  <worldbody><body><joint name="lead"/><geom size=".04" mass=".5" pos=".15 0 0"/></body>
    <body pos="0 .5 0"><joint name="follow"/><geom size=".03" mass=".3" pos=".1 0 0"/></body>
  </worldbody>
  <equality><joint name="gear" joint1="follow" joint2="lead" polycoef="0 {0}" solref="{1} {2}"/>
  </equality>
  <actuator><position joint="lead" name="lead" kp="10" kv=".5"/></actuator>
  <sensor><jointpos name="lead_pos" joint="lead"/><jointpos name="follow_pos" joint="follow"/>
  </sensor>
</mujoco>
"""
GEAR = {
    'equality/gear/data[1]': -0.83,
    'equality/gear/solref[0]': 0.04,
    'equality/gear/solref[1]': 0.6,
}


def knocks(times: Array) -> tuple[Array]:
    return (np.where(np.sin(2.1 * times - 0.5) > 0, 0.6, -0.3),)


def test_a_gear_between_joints_has_a_ratio_and_is_soft(columns: Columns) -> None:
    truth = mujoco.MjModel.from_xml_string(COUPLED.format(*GEAR.values()))
    nominal = mujoco.MjModel.from_xml_string(COUPLED.format(-0.7, 0.02, 1.0))
    seen = noisy(record(truth, 6, knocks), 5, lead_pos=2e-4, follow_pos=2e-4)
    recorded = bag(columns, nominal, seen)
    found = identified(recorded, nominal, list(GEAR))
    assert_told(found, GEAR, half=np.array([1e-3, 5e-3, 0.1]))


PUSHED = """
<mujoco>
  <compiler angle="radian"/><option integrator="implicitfast" cone="elliptic"/>
  <worldbody><geom name="floor" type="plane" size="1 1 .1" friction=".1"/>
    <body pos="0 0 .05"><joint name="x" type="slide" axis="1 0 0"/>
      <joint name="z" type="slide" axis="0 0 1"/>
      <geom name="block" type="box" size=".05 .05 .05" mass="2" friction="{mu}"/></body></worldbody>
  <contact>{pair}</contact>
  <actuator><position joint="x" name="x" kp="2000" kv="100"/></actuator>
  <sensor><jointpos name="x_pos" joint="x"/></sensor>
</mujoco>
"""
PAIR = '<pair name="under" geom1="block" geom2="floor" friction="1 {mu} .005 1e-4 1e-4"/>'
#: The first direction of sliding is across the motion, as MuJoCo lays the frame of this contact.
ALONG = 'pair/under/friction[1]'


@pytest.mark.parametrize(('pair', 'path'), [('', 'geom/block/friction[0]'), (PAIR, ALONG)])
def test_a_pushed_block_has_friction(columns: Columns, pair: str, path: str) -> None:
    truth, nominal = (
        mujoco.MjModel.from_xml_string(PUSHED.format(mu=mu, pair=pair.format(mu=mu)))
        for mu in (0.45, 0.8)
    )
    # Where it slides fast, the contact opens and closes, which makes the motion rough.
    seen = record(truth, 6, lambda t: (0.02 * (1 - np.cos(2 * t)),))
    recorded = bag(columns, nominal, noisy(seen, 5, x_pos=1e-4))
    found = identified(recorded, nominal, [path])
    (own,) = found.intervals
    if not pair:
        assert_told(found, {path: 0.45}, half=0.005)
    # A pair's contact is rough even so, and the value, which is right, is not called identified.
    assert own.verdict == ('model-limited' if pair else 'identified')
    assert abs(0.45 - (own.low + own.high) / 2) < 0.8 * (own.high - own.low)


@pytest.mark.slow
def test_floor_and_block_of_one_friction_share_it(columns: Columns) -> None:
    # MuJoCo takes the larger of the two: one alone cannot be lowered.
    alike = PUSHED.replace('size="1 1 .1" friction=".1"', 'size="1 1 .1" friction="{mu}"')
    truth, nominal = (
        mujoco.MjModel.from_xml_string(alike.format(mu=mu, pair='')) for mu in (0.45, 0.8)
    )
    seen = record(truth, 6, lambda t: (0.02 * (1 - np.cos(2 * t)),))
    recorded = bag(columns, nominal, noisy(seen, 5, x_pos=1e-4))
    found = identified(recorded, nominal, ['geom/*/friction'], shared=True)
    assert_told(found, {'geom/*/friction': 0.45}, half=0.005)
    (alone,) = identified(recorded, nominal, ['geom/block/friction']).intervals
    assert alone.verdict != 'identified'


def test_a_block_that_nobody_pushes_has_none(columns: Columns) -> None:
    nominal = mujoco.MjModel.from_xml_string(PUSHED.format(mu=0.8, pair=''))
    seen = record(nominal, 6, lambda t: (0 * t,))
    recorded = bag(columns, nominal, noisy(seen, 5, x_pos=1e-4))
    with pytest.raises(FitError, match=r'Nothing .* changes with .*geom/block/friction'):
        identified(recorded, nominal, ['geom/block/friction'])


DROPPED = """
<mujoco>
  <compiler angle="radian"/><option integrator="implicitfast" timestep=".001"/>
  <worldbody><geom name="floor" type="plane" size="1 1 .1" {floor}/>
    <body pos="0 0 .3"><joint name="hinge" axis="0 1 0" damping=".01"/>
      <geom name="bar" type="capsule" fromto="0 0 0 .35 0 0" size=".02" mass=".4"/></body>
  </worldbody>
  <contact>{pair}</contact>
  <actuator><position joint="hinge" name="hinge" kp="2" kv=".05"/></actuator>
  <sensor><jointpos name="hinge_pos" joint="hinge"/></sensor>
</mujoco>
"""


@pytest.mark.parametrize(
    ('floor', 'pair', 'element'),
    [
        ('priority="1" solref="{0} {1}"', '', 'geom/floor'),
        ('', '<pair name="hit" geom1="bar" geom2="floor" solref="{0} {1}"/>', 'pair/hit'),
    ],
)
def test_a_bar_that_bounces_off_the_floor_has_a_solref(
    columns: Columns, floor: str, pair: str, element: str
) -> None:
    wanted = {f'{element}/solref[0]': 0.05, f'{element}/solref[1]': 0.3}
    truth, nominal = (
        mujoco.MjModel.from_xml_string(
            DROPPED.format(floor=floor.format(*values), pair=pair.format(*values))
        )
        for values in (wanted.values(), (0.04, 0.25))
    )
    seen = record(truth, 2, lambda t: (np.where(t < 0.8, -0.7, 0.5),))
    recorded = bag(columns, nominal, noisy(seen, 5, hinge_pos=2e-4))
    found = identified(recorded, nominal, list(wanted))
    assert_told(found, wanted, half=np.array([1e-4, 1e-3]))


def test_of_two_geoms_that_meet_only_the_mean_solref_is_told(columns: Columns) -> None:
    solref = 'solref="{0} .15"'
    truth, nominal = (
        mujoco.MjModel.from_xml_string(DROPPED.format(floor=solref.format(value), pair=''))
        for value in (0.06, 0.04)
    )
    seen = record(truth, 2, lambda t: (np.where(t < 0.8, -0.7, 0.5),))
    recorded = bag(columns, nominal, noisy(seen, 5, hinge_pos=2e-4))
    found = identified(recorded, nominal, ['geom/*/solref'])
    assert [interval.confounded_with for interval in found.intervals] == [
        ('geom/bar/solref[0]',),
        ('geom/floor/solref[0]',),
    ]


def test_what_an_imu_errs_by_is_told_by_axis(columns: Columns) -> None:
    wanted = {
        'sensor/gyro/bias[1]': 0.02,
        'sensor/acc/gain': 1.03,
        'sensor/gyro/delay': 0.013,
        'sensor/acc/delay': 0.013,
    }
    model = mujoco.MjModel.from_xml_string(
        TILTED.format(gravity='0 0 -9.81', sensors=IMU.format('hand'))
    )
    seen = record(model, 8, lambda t: (1.2 * np.sin(1.3 * t), 0.8 * np.sin(2.9 * t)))
    seen = noisy(seen, 7, **{name: size for name, size in NOISE.items() if name in seen})
    seen['gyro'] = seen['gyro'] + [0, wanted['sensor/gyro/bias[1]'], 0]
    seen['acc'] = wanted['sensor/acc/gain'] * seen['acc']
    late = imu(columns, seen | {'times': seen['times'] + wanted['sensor/gyro/delay']})
    found = identified(bag(columns, model, seen, late), model, list(wanted))
    assert_told(found, wanted, half=np.array([3e-4, 3e-4, 1e-3, 1e-3]))
