# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Pairing columns with sensors and actuators."""

from __future__ import annotations

import dataclasses
from contextlib import nullcontext
from typing import Any

import mujoco
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.signal import lfilter

from sysid_ros.alignment import Mapping, PairRole, align
from sysid_ros.alignment.axes import find_arms, find_axes, find_leaders, in_namespace
from sysid_ros.alignment.pairing import map_columns
from sysid_ros.alignment.proposal import propose
from sysid_ros.bags import BagColumns, UnreadTopic
from sysid_ros.config.files import validate
from sysid_ros.config.schema import ChannelMapping, MappingConfig
from sysid_ros.errors import AlignmentError, ConfigError

TIMES = np.arange(0, 2, 0.01)
TRAJECTORY = 'trajectory_msgs/msg/JointTrajectory'
#: Efforts that no motion contradicts.
NOISE = np.random.default_rng(0).normal(size=len(TIMES))


def _pairs(mapping: Mapping, role: PairRole) -> dict[str, tuple[str, str, str]]:
    return {
        pair.name: (pair.topic, pair.field, pair.label)
        for pair in mapping.pairs
        if pair.role is role
    }


def _auto(columns: Any, model: Any, *topics: Any) -> Mapping:
    return map_columns(columns.bag(*topics), model, 'auto')


def _reasons(mapping: Mapping) -> dict[str, str]:
    return {item.name: item.reason for item in mapping.unmapped}


def test_sensors_are_found_by_what_they_refer_to(arm: Any, columns: Any):
    state = columns.topic(
        '/joint_states',
        TIMES,
        {
            'position': {'wrist': TIMES, 'elbow': TIMES, 'shoulder': TIMES},
            'velocity': {'wrist': TIMES, 'elbow': TIMES, 'shoulder': TIMES},
            'effort': {'wrist': NOISE, 'elbow': -NOISE, 'shoulder': NOISE},
        },
    )
    mapping = _auto(columns, arm, state)
    assert _pairs(mapping, PairRole.SENSOR) == {
        's3': ('/joint_states', 'velocity', 'elbow'),
        's1': ('/joint_states', 'position', 'elbow'),
        's0': ('/joint_states', 'position', 'shoulder'),
        's5': ('/joint_states', 'effort', 'shoulder'),
        's2': ('/joint_states', 'position', 'wrist'),
    }
    reasons = _reasons(mapping)
    assert 's6' in reasons
    assert 'no sensor' in reasons['/joint_states.velocity[wrist]']
    idle = {item.subject for item in mapping.health if item.kind == 'unmapped'}
    assert idle == {'drive_e', 'drive_w', 'drive_s'}


def test_commands_by_name_follow_the_kind_of_actuator(arm: Any, columns: Any):
    joints = {'wrist': TIMES, 'shoulder': TIMES, 'elbow': TIMES, 'gripper': TIMES}
    fields = {'position': joints, 'velocity': joints}
    commands = columns.topic('/jtc/joint_trajectory', TIMES, fields, msgtype=TRAJECTORY)
    mapping = _auto(columns, arm, columns.state(TIMES), commands, columns.array(TIMES))
    assert _pairs(mapping, PairRole.ACTUATOR) == {
        'drive_e': ('/jtc/joint_trajectory', 'position', 'elbow'),
        'drive_w': ('/jtc/joint_trajectory', 'velocity', 'wrist'),
        'drive_s': ('/jtc/joint_trajectory', 'position', 'shoulder'),
    }
    assert 'carries no names' in _reasons(mapping)['/controller/commands']


def test_an_array_is_taken_in_model_order_and_says_so(arm: Any, columns: Any):
    mapping = _auto(columns, arm, columns.state(TIMES), columns.array(TIMES))
    labels = {name: pair[2] for name, pair in _pairs(mapping, PairRole.ACTUATOR).items()}
    assert labels == {'drive_e': '0', 'drive_w': '1', 'drive_s': '2'}
    (finding,) = [item for item in mapping.health if item.kind == 'assumed order']
    assert finding.subject == '/controller/commands'
    assert 'drive_e, drive_w, drive_s' in finding.detail


def test_an_array_of_another_width_or_a_second_one_is_not_guessed(arm: Any, columns: Any):
    for arrays in (
        (columns.array(TIMES, 4),),
        (columns.array(TIMES), columns.array(TIMES, name='/other/commands')),
    ):
        mapping = _auto(columns, arm, columns.state(TIMES), *arrays)
        assert not _pairs(mapping, PairRole.ACTUATOR)
        assert '/controller/commands' in _reasons(mapping)


def test_a_command_topic_of_joint_states_is_no_measurement(arm: Any, columns: Any):
    command = columns.state(np.arange(0, 2, 0.001), '/arm/joint_command')
    mapping = _auto(columns, arm, columns.state(TIMES), command)
    assert {pair[0] for pair in _pairs(mapping, PairRole.SENSOR).values()} == {'/joint_states'}
    assert _pairs(mapping, PairRole.ACTUATOR)['drive_s'][0] == '/arm/joint_command'
    with pytest.raises(AlignmentError, match='only command topics'):
        _auto(columns, arm, command)


@pytest.mark.parametrize(
    ('labels', 'message'),
    [
        (['Sholder', 'q7'], 'the bag has Sholder, q7, .*nearest: Sholder and shoulder; `sysid map'),
        (['0'], 'its messages carry no names'),
        ([], 'there is none; topics: /controller/commands'),
    ],
)
def test_no_common_name_is_an_error(arm: Any, columns: Any, labels: list[str], message: str):
    topic = columns.array(TIMES)
    if labels:
        topic = columns.topic('/js', TIMES, {'position': dict.fromkeys(labels, TIMES)})
    with pytest.raises(AlignmentError, match=message):
        _auto(columns, arm, topic)


def test_a_model_without_sensors_is_an_error(columns: Any):
    body = '<body><joint name="elbow"/><geom size=".1"/></body>'
    model = mujoco.MjModel.from_xml_string(f'<mujoco><worldbody>{body}</worldbody></mujoco>')
    with pytest.raises(AlignmentError, match=r'no jointpos.*joints elbow\.'):
        _auto(columns, model, columns.state(TIMES))


def test_channels_without_values_or_life_are_left_out_and_named(arm: Any, columns: Any):
    position = {'shoulder': TIMES, 'elbow': np.nan, 'wrist': 0.3}
    fields = {'position': position, 'effort': dict.fromkeys(position, 0.0)}
    mapping = _auto(columns, arm, columns.topic('/js', TIMES, fields))
    assert list(_pairs(mapping, PairRole.SENSOR)) == ['s0']
    kinds = {item.subject: item.kind for item in mapping.health if item.kind != 'unmapped'}
    assert kinds == {
        '/js.position[elbow]': 'missing values',
        '/js.position[wrist]': 'dead channel',
        '/js.effort[shoulder]': 'dead channel',
    }


def _channel(topic: str, field: str, label: str | None, **numbers: float) -> ChannelMapping:
    return ChannelMapping(topic=topic, field=field, label=label, **numbers)


def test_an_explicit_mapping_pairs_what_it_names_and_nothing_else(arm: Any, columns: Any):
    bag = columns.bag(columns.state(TIMES), columns.array(TIMES))
    config = MappingConfig(
        sensors={'s2': _channel('/joint_states', 'position', 'elbow', scale=-1.0, offset=0.5)},
        actuators={'drive_s': _channel('/controller/commands', 'data', '2')},
    )
    mapping = map_columns(bag, arm, config)
    assert [(pair.name, pair.label, pair.scale, pair.offset) for pair in mapping.pairs] == [
        ('s2', 'elbow', -1.0, 0.5),
        ('drive_s', '2', 1.0, 0.0),
    ]
    assert _reasons(mapping)['s0'] == 'not in the mapping'


@pytest.mark.parametrize(
    ('role', 'name', 'channel', 'message'),
    [
        ('sensors', 's9', ('/joint_states', 'position', 'elbow'), "sensor 's9'.*nearest: s"),
        ('sensors', 's6', ('/joint_states', 'position', 'elbow'), "Expected 3 values for .* 's6'"),
        ('sensors', 's1', ('/joint_states', 'position', None), 'wrist, shoulder, elbow'),
        ('sensors', 's1', ('/joint_state', 'position', 'elbow'), 'nearest: /joint_states'),
        ('sensors', 's1', ('/image', 'position', 'elbow'), 'type sensor_msgs/msg/Image: not read'),
        ('sensors', 's1', ('/joint_states', 'positions', 'elbow'), 'nearest: position'),
        ('sensors', 's1', ('/joint_states', 'position', 'ellbow'), 'nearest: elbow'),
        ('sensors', 's1', ('/empty', 'position', 'elbow'), 'no finite value'),
        ('actuators', 'drive', ('/joint_states', 'position', 'elbow'), "actuator 'drive'"),
    ],
)
def test_a_mapping_that_names_what_is_not_there_is_an_error(
    arm: Any, columns: Any, role: str, name: str, channel: tuple[str, str, str | None], message: str
):
    empty = columns.topic('/empty', TIMES, {'position': {'elbow': np.nan}})
    made = columns.bag(columns.state(TIMES), empty)
    unread = (UnreadTopic('/image', 'sensor_msgs/msg/Image', 3, 'not read'),)
    bag = BagColumns(made.path, made.topics, unread)
    channels = {'sensors': {'s0': _channel('/joint_states', 'position', 'shoulder')}}
    channels.setdefault(role, {})[name] = _channel(*channel)
    with pytest.raises(AlignmentError, match=message):
        map_columns(bag, arm, MappingConfig(**channels))


def test_a_sensor_with_several_values_takes_its_columns_in_order(arm: Any, columns: Any):
    labels = {'x': TIMES, 'y': 2 * TIMES, 'z': np.where(TIMES < 1, np.nan, 3 * TIMES)}
    pose = columns.topic('/base', TIMES, {'pose.position': labels}, msgtype='any/msg/Type')
    bag = columns.bag(columns.state(TIMES), pose)
    for given, order in (({}, 'xyz'), ({'labels': ['z', 'x', 'y']}, 'zxy')):
        config = validate(
            MappingConfig,
            {'sensors': {'s6': {'topic': '/base', 'field': 'pose.position', 'scale': 2, **given}}},
            'a test',
        )
        mapping = map_columns(bag, arm, config)
        assert [(pair.label, pair.component) for pair in mapping.pairs] == list(
            zip(order, range(3), strict=True)
        )
        (series,) = align(bag, arm, mapping, 'auto').sequences[0].measurements
        assert series.names == ('s6',)
        np.testing.assert_allclose(series.data[-1], [2 * labels[axis][-1] for axis in order])
        # Rows in which one of the values is missing have none of them.
        assert len(series) == np.count_nonzero(TIMES >= 1)


def test_a_channel_may_be_one_string(arm: Any, columns: Any):
    bag = columns.bag(columns.state(TIMES), columns.array(TIMES))
    values = {
        'sensors': {'s1': '/joint_states.position[elbow]'},
        'actuators': {'drive_s': '/controller/commands.data[2]'},
    }
    mapping = map_columns(bag, arm, validate(MappingConfig, values, 'a test'))
    assert [pair[:5] for pair in mapping.pairs] == [
        (PairRole.SENSOR, 's1', '/joint_states', 'position', 'elbow'),
        (PairRole.ACTUATOR, 'drive_s', '/controller/commands', 'data', '2'),
    ]
    with pytest.raises(ConfigError, match=r'as /topic\.field\[label\], found .joint_states'):
        validate(MappingConfig, {'sensors': {'s1': 'joint_states'}}, 'a test')


def test_names_that_differ_in_writing_only_are_the_same_and_it_is_said(arm: Any, columns: Any):
    labels = {'Shoulder': TIMES, 'elbow_joint': 2 * TIMES, 'WRIST': 3 * TIMES}
    mapping = _auto(columns, arm, columns.topic('/js', TIMES, {'position': labels}))
    found = {name: pair[2] for name, pair in _pairs(mapping, PairRole.SENSOR).items()}
    assert found == {'s0': 'Shoulder', 's1': 'elbow_joint', 's2': 'WRIST'}
    said = [item.subject for item in mapping.health if item.kind == 'assumed order']
    assert said == ['/js Shoulder', '/js elbow_joint', '/js WRIST']


def test_an_array_is_taken_in_the_order_that_its_controller_told(arm: Any, columns: Any):
    made = columns.bag(columns.state(TIMES), columns.array(TIMES))
    facts = {'controllers': '{"controller": {"joints": ["shoulder", "elbow", "wrist"]}}'}
    mapping = map_columns(dataclasses.replace(made, facts=facts), arm, 'auto')
    labels = {name: pair[2] for name, pair in _pairs(mapping, PairRole.ACTUATOR).items()}
    assert labels == {'drive_e': '1', 'drive_w': '2', 'drive_s': '0'}
    assert not [item for item in mapping.health if item.kind == 'assumed order']


LONG = np.arange(0, 8, 0.01)
SWING = {'shoulder': np.sin(3 * LONG), 'elbow': np.sin(4 * LONG + 1), 'wrist': np.sin(5 * LONG)}
SPEED = {joint: np.gradient(values, LONG) for joint, values in SWING.items()}


@pytest.mark.slow
@pytest.mark.parametrize(
    ('speed', 'commands', 'complaint'),
    [
        ({**SPEED, 'elbow': -SPEED['elbow']}, SWING, r'velocity\[elbow\] runs against'),
        ({**SPEED, 'wrist': 57 * SPEED['wrist']}, SWING, r'velocity\[wrist\] is 57 times'),
        (SPEED, {**SWING, 'elbow': -SWING['elbow']}, "'elbow' moves against its command"),
        (
            SPEED,
            {**SWING, 'elbow': SWING['shoulder'], 'shoulder': SWING['elbow']},
            "'elbow' follows the command .*not 'shoulder'",
        ),
    ],
)
def test_auto_refuses_what_the_motion_contradicts(
    hinges: Any, columns: Any, speed: dict[str, Any], commands: dict[str, Any], complaint: str
):
    model = hinges(list(SWING))

    def mapped(speed: dict[str, Any], commands: dict[str, Any]) -> Mapping:
        fields = {'position': SWING, 'velocity': speed}
        data = {'data': {str(row): commands[joint] for row, joint in enumerate(SWING)}}
        kind = 'std_msgs/msg/Float64MultiArray'
        told = columns.topic('/c/commands', LONG, data, msgtype=kind, header=False)
        return _auto(columns, model, columns.topic('/js', LONG, fields), told)

    assert len(mapped(SPEED, SWING).pairs) == 9
    with pytest.raises(AlignmentError, match=f'{complaint}.*`sysid map'):
        mapped(speed, commands)


LOADED = """
<mujoco>
  <worldbody>
    <body>
      <joint name="shoulder" axis="0 1 0" armature=".01"/><geom size=".05" pos=".1 0 0"/>
      <body pos=".2 0 0">
        <joint name="elbow" axis="0 1 0" armature=".01"/><geom size=".05" pos=".1 0 0"/>
      </body>
    </body>
  </worldbody>
  <sensor>
    <jointpos joint="shoulder" name="q1"/><jointactuatorfrc joint="shoulder" name="e1"/>
    <jointpos joint="elbow" name="q2"/><jointactuatorfrc joint="elbow" name="e2"/>
  </sensor>
</mujoco>
"""


def _swung(columns: Any, text: str, per_unit: tuple[float, float]) -> Any:
    """Return what is mapped of two joints whose efforts are so many times what they need."""
    joints = ['shoulder', 'elbow']
    model = mujoco.MjModel.from_xml_string(text)
    data = mujoco.MjData(model)
    swing = np.column_stack([SWING[joint] for joint in joints])
    torque = np.empty_like(swing)
    for row, position in enumerate(swing):
        data.qpos[:] = position
        data.qvel[:] = [SPEED[joint][row] for joint in joints]
        data.qacc[:] = -np.array([9, 16]) * position
        mujoco.mj_inverse(model, data)
        torque[row] = data.qfrc_inverse
    torque += 0.05 * np.abs(torque).max() * np.random.default_rng(0).normal(size=torque.shape)
    values = dict(zip(joints, (torque * per_unit).T, strict=True))
    fields = {'position': {joint: SWING[joint] for joint in joints}, 'effort': values}
    return _auto(columns, model, columns.topic('/js', LONG, fields))


@pytest.mark.parametrize(
    ('per_newton_metre', 'told'),
    [
        ((1.0, 1.0), ()),
        ((3.0, 0.4), ()),
        ((1.0, float('nan')), ()),
        ((1000.0, 1000.0), ('times the torque', 'times the torque')),
        ((1.0, 0.02), ('0.02 times', 'others of its message')),
        ((-1.0, 1.0), ('against', 'others of its message')),
    ],
)
def test_auto_leaves_out_efforts_that_are_no_torques(
    columns: Any, per_newton_metre: tuple[float, float], told: tuple[str, ...]
):
    found = _swung(columns, LOADED, per_newton_metre)
    findings = [item for item in found.health if item.kind == 'no torque']
    assert len(findings) == len(told)
    assert all(text in item.detail for item, text in zip(findings, told, strict=True))
    joints = ['shoulder', 'elbow']
    efforts = [pair.label for pair in found.pairs if pair.field == 'effort']
    absent = [joint for joint, of in zip(joints, per_newton_metre, strict=True) if np.isnan(of)]
    assert efforts == ([] if told else [joint for joint in joints if joint not in absent])


def test_forces_of_slides_say_nothing_of_the_torques_of_hinges(columns: Any) -> None:
    lift = LOADED.replace('name="elbow" axis', 'name="elbow" type="slide" axis')
    found = _swung(columns, lift, (1.0, 0.02))
    assert [item.left_out for item in found.health if item.kind == 'no torque'] == ['e2']
    assert [pair.label for pair in found.pairs if pair.field == 'effort'] == ['shoulder']


def test_auto_refuses_positions_that_no_joint_can_have(columns: Any):
    model = mujoco.MjModel.from_xml_string(
        '<mujoco><worldbody><body><joint name="j" range="-90 90"/><geom size=".1"/></body>'
        '</worldbody><sensor><jointpos name="p" joint="j"/></sensor></mujoco>'
    )
    state = columns.topic('/js', TIMES, {'position': {'j': 50 + 20 * np.sin(TIMES)}})
    with pytest.raises(AlignmentError, match=r'runs from 50 to 70.*-1.571 to 1.571 rad.*sysid map'):
        _auto(columns, model, state)


def test_what_a_controller_sent_comes_before_what_it_was_told(arm: Any, columns: Any):
    joints = {'shoulder': TIMES, 'elbow': TIMES}
    told = columns.topic('/jtc/joint_trajectory', TIMES, {'position': joints}, msgtype=TRAJECTORY)
    asked = {'reference_positions': joints, 'feedback_positions': joints}
    nothing = dict.fromkeys(joints, np.full(len(TIMES), np.nan))
    for sent, field in (
        ({'output_positions': joints}, 'output.positions'),
        ({'output_positions': nothing}, 'reference.positions'),
        # A type with these is that of a controller which publishes less often than it sends.
        ({'output_positions': joints, 'desired_positions': joints}, 'reference.positions'),
    ):
        fields = {name.replace('_', '.'): values for name, values in (asked | sent).items()}
        kind = 'control_msgs/msg/JointTrajectoryControllerState'
        state = columns.topic('/jtc/controller_state', TIMES, fields, msgtype=kind)
        mapping = _auto(columns, arm, columns.state(TIMES), state, told)
        pairs = _pairs(mapping, PairRole.ACTUATOR)
        assert set(pairs) == {'drive_e', 'drive_s'}
        assert {pair[:2] for pair in pairs.values()} == {('/jtc/controller_state', field)}
        assert 'controller_state is taken' in _reasons(mapping)['/jtc/joint_trajectory']


def test_an_array_of_efforts_is_not_given_to_position_servos(arm: Any, columns: Any):
    efforts = columns.array(TIMES, name='/effort_controller/commands')
    mapping = _auto(columns, arm, columns.state(TIMES), efforts)
    assert not _pairs(mapping, PairRole.ACTUATOR)
    reason = _reasons(mapping)['/effort_controller/commands']
    assert 'carries effort, the actuators of the model take position and velocity' in reason
    motors = mujoco.MjModel.from_xml_string(
        '<mujoco><worldbody><body><joint name="shoulder"/><geom size=".1"/></body></worldbody>'
        '<actuator><motor name="m" joint="shoulder"/></actuator>'
        '<sensor><jointpos name="s" joint="shoulder"/></sensor></mujoco>'
    )
    efforts = columns.array(TIMES, 1, name='/arm_effort_controller/commands')
    positions = columns.array(TIMES, 1, name='/other/commands')
    facts = {'controllers': '{"/other": {"joints": ["shoulder"], "interface": "position"}}'}
    bag = dataclasses.replace(columns.bag(columns.state(TIMES), efforts, positions), facts=facts)
    mapping = map_columns(bag, motors, 'auto')
    assert _pairs(mapping, PairRole.ACTUATOR)['m'][0] == '/arm_effort_controller/commands'
    assert 'it carries position' in _reasons(mapping)['/other/commands']


def test_covariances_and_accelerations_of_an_imu_are_no_joints(columns: Any):
    nine = {str(place): TIMES for place in range(9)}
    fields = {
        'angular_velocity': dict.fromkeys('xyz', TIMES),
        'angular_velocity_covariance': nine,
        'linear_acceleration_covariance': nine,
        'orientation_covariance': nine,
    }
    imu = columns.topic('/imu', TIMES, fields, msgtype='sensor_msgs/msg/Imu')
    assert {axis.topic for axis in find_axes(columns.bag(columns.state(TIMES), imu))} == {
        '/joint_states'
    }


CLOCK = np.arange(0, 12, 0.02)
#: A follower lags its leader by so many samples, and by the time constant of its servo.
LATE = 4
ARM_JOINTS = ('shoulder', 'elbow')


def _wander(seed: int) -> dict[str, NDArray[np.float64]]:
    """Return positions of two joints that a hand moves."""
    rng = np.random.default_rng(seed)
    rates, phases = rng.uniform(0.6, 4.0, (2, 2, 3)), rng.uniform(0, 6, (2, 2, 3))
    path = 0.2 * np.sin(CLOCK[:, None, None] * rates[0] + phases[0]).sum(axis=2)
    return dict(zip(ARM_JOINTS, path.T, strict=True))


def _followed(leader: dict[str, NDArray[np.float64]]) -> Any:
    return {
        name: lfilter([0.3], [1, -0.7], np.r_[np.full(LATE, values[0]), values[:-LATE]]) - 0.02
        for name, values in leader.items()
    }


@pytest.fixture
def teleoperated(columns: Any) -> BagColumns:
    """Return a bag of two leaders and their followers, all with the same joint names."""
    topics = []
    for seed, side in enumerate(('left', 'right')):
        lead = _wander(seed)
        topics += [
            columns.topic(f'/robot/arm_{side}_lead/joint_states', CLOCK, {'position': lead}),
            columns.topic(
                f'/robot/arm_{side}_follow/joint_states', CLOCK, {'position': _followed(lead)}
            ),
        ]
    return columns.bag(*topics)  # type: ignore[no-any-return]


@pytest.mark.slow
def test_a_leader_is_the_command_of_its_follower(teleoperated: BagColumns, arm: Any) -> None:
    leaders = find_leaders(teleoperated)
    assert leaders == {
        f'/robot/arm_{side}_lead/joint_states': f'/robot/arm_{side}_follow/joint_states'
        for side in ('left', 'right')
    }
    left = in_namespace(teleoperated, 'left')
    for found in (propose(left, arm), map_columns(left, arm, 'auto')):
        pairs = {(pair.role, pair.topic) for pair in found.pairs}
        assert pairs == {
            (PairRole.SENSOR, '/robot/arm_left_follow/joint_states'),
            (PairRole.ACTUATOR, '/robot/arm_left_lead/joint_states'),
        }
        assert any('arm_right_follow' in item.name for item in found.unmapped)


@pytest.mark.parametrize(
    ('leader', 'follower', 'leads'),
    [
        ('/master/joint_states', '/puppet/joint_states', True),
        ('/leader/joint_states', '/joint_states', True),
        ('/a/joint_states', '/b/joint_states', False),
        ('/left_lead/joint_states', '/right_follow/joint_states', False),
    ],
)
def test_a_leader_says_so_by_its_name(columns: Any, leader: str, follower: str, leads: bool):
    moved = {'position': _wander(3)}
    bag = columns.bag(*(columns.topic(name, CLOCK, moved) for name in (leader, follower)))
    assert find_leaders(bag) == ({leader: follower} if leads else {})


@pytest.mark.slow
def test_several_arms_need_a_choice_that_is_named(teleoperated: BagColumns, arm: Any) -> None:
    for attempt in (propose, lambda bag, model: map_columns(bag, model, 'auto')):
        with pytest.raises(AlignmentError, match=r'arm_left_follow, arm_right_follow.*--namespace'):
            attempt(teleoperated, arm)
    with pytest.raises(AlignmentError, match=r"namespace 'middle'; .*arm_left_follow"):
        in_namespace(teleoperated, 'middle')
    assert in_namespace(teleoperated, '') is teleoperated
    for name in ('/robot/arm_right_follow', 'right'):
        topics = {topic.topic for topic in in_namespace(teleoperated, name).topics}
        assert topics == {f'/robot/arm_right_{role}/joint_states' for role in ('lead', 'follow')}


@pytest.mark.slow
def test_sides_in_names_are_arms_and_what_has_none_stays(columns: Any, arm: Any) -> None:
    both = {f'{side}_{name}': v for s, side in enumerate('lr') for name, v in _wander(s).items()}
    state = columns.topic('/joint_states', CLOCK, {'position': both | {'torso': CLOCK}})
    bag = columns.bag(state, columns.topic('/imu', CLOCK, {'angular_velocity': {'x': CLOCK}}))
    assert [arm.name for arm in find_arms(bag, {})] == ['left', 'right']
    with pytest.raises(AlignmentError, match='left, right'):
        propose(bag, arm)
    right = in_namespace(bag, 'right')
    assert [topic.topic for topic in right.topics] == [topic.topic for topic in bag.topics]
    found = {label for topic in right.topics for field in topic.fields for label in field.labels}
    assert {'r_shoulder', 'r_elbow', 'torso', 'x'} == found
    assert any('l_shoulder, l_elbow' in item.reason for item in right.unread)
    pairs = {pair.name: pair.labels[0] for pair in propose(right, arm).pairs}
    assert set(pairs.values()) <= {'r_shoulder', 'r_elbow', 'torso', 'x'}


def test_a_copy_of_a_topic_is_no_second_arm(columns: Any, arm: Any) -> None:
    position = _wander(5)
    slow = {name: values[::5] for name, values in position.items()}
    bag = columns.bag(
        columns.topic('/joint_states', CLOCK, {'position': position}),
        columns.topic('/relay/joint_states', CLOCK[::5], {'position': slow}),
    )
    assert [item.topic for item in find_arms(bag, {})] == ['/joint_states']
    found = map_columns(bag, arm, 'auto')
    assert {pair.topic for pair in found.pairs} == {'/joint_states'}


MOTORS = """
<mujoco>
  <worldbody>
    <body><joint name="shoulder"/><geom size=".1"/></body>
    <body><joint name="elbow"/><geom size=".1"/></body>
  </worldbody>
  <actuator><motor name="m1" joint="shoulder"/><motor name="m2" joint="elbow"/></actuator>
  <sensor><jointpos name="q1" joint="shoulder"/><jointpos name="q2" joint="elbow"/></sensor>
</mujoco>
"""


@pytest.mark.parametrize(
    ('topic', 'more', 'refused'),
    [
        ('/current_controller/commands', None, True),
        ('/effort_controller/commands', None, False),
        ('/current_controller/commands', {}, True),
        ('/effort_controller/commands', {'kind': 'pwm'}, True),
        ('/current_controller/commands', {'scale': 1.0}, False),
        ('/effort_controller/commands', {'kind': 'current', 'scale': 0.8}, False),
    ],
)
def test_a_current_drives_no_motor_before_somebody_says_what_its_unit_is(
    columns: Any, topic: str, more: dict[str, Any] | None, refused: bool
) -> None:
    bag = columns.bag(columns.state(TIMES), columns.array(TIMES, 2, name=topic))
    mapping: Any = 'auto'
    if more is not None:
        channel = {'topic': topic, 'field': 'data', 'label': '0', **more}
        document = {'sensors': {'q1': '/joint_states.position[shoulder]'}}
        mapping = validate(MappingConfig, {**document, 'actuators': {'m1': channel}}, 'the test')
    with nullcontext() if not refused else pytest.raises(AlignmentError) as raised:
        map_columns(bag, mujoco.MjModel.from_xml_string(MOTORS), mapping)
    if refused:
        assert f'{topic}.data[0] is, a ' in str(raised.value)
        assert 'give it a scale' in str(raised.value)
