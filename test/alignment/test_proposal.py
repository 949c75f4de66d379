# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Mappings that are proposed from names and motion."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import mapping as bench
import mujoco
import numpy as np
import pytest

from builders.described_robots import make_robot, record
from sysid_ros.alignment import PairRole
from sysid_ros.alignment.pairing import imply_actuators, lacking_quantity, map_columns
from sysid_ros.alignment.pairs import EXACT, SAME_CORE, SAME_LETTERS, similarities
from sysid_ros.alignment.proposal import (
    CONFIDENCE,
    ProposedPair,
    propose,
    propose_with_actuators,
    summary,
    to_yaml,
)
from sysid_ros.bags import BagColumns, Field
from sysid_ros.bags.reader import read_bag
from sysid_ros.bags.writer import BagWriter
from sysid_ros.config.files import load_mapping
from sysid_ros.config.schema import ChannelMapping, MappingConfig
from sysid_ros.errors import AlignmentError
from sysid_ros.model.loading import implied_actuators, implied_sentence, load_model, load_spec
from sysid_ros.text import to_json
from sysid_ros.vocabulary import Quantity

TIMES = np.arange(0, 2, 0.01)


@pytest.fixture(scope='module')
def run() -> Any:
    """Return one motion of the arm."""
    return bench.simulate(0)


def _found(bag: BagColumns, model: mujoco.MjModel) -> dict[str, ProposedPair]:
    return {pair.name: pair for pair in propose(bag, model).pairs}


def _with(bag: BagColumns, kind: str, change: Any) -> BagColumns:
    """Return a bag in which a field of the states has other values."""
    commands, state = bag.topics
    fields = tuple(
        replace(field, values=change(field.values.copy())) if field.name == kind else field
        for field in state.fields
    )
    return replace(bag, topics=(commands, replace(state, fields=fields)))


@pytest.fixture
def plain(run: Any) -> BagColumns:
    """Return a bag of a run in which nothing is wrong."""
    spoilt, _ = bench.spoil(run, 0)
    commands, state = spoilt.topics
    told = replace(commands.fields[0], values=run.told)
    fields = tuple(Field(kind, run.joints, values) for kind, values in run.states.items())
    topics = replace(commands, fields=(told,)), replace(state, fields=fields)
    return replace(spoilt, topics=topics)  # type: ignore[no-any-return]


@pytest.mark.slow
# Of benchmarks/mapping.py, which draws more.
@pytest.mark.parametrize('seed', [0, 7])
def test_signs_degrees_offsets_swapped_names_and_orders_are_found(run: Any, seed: int):
    bag, right = bench.spoil(run, seed)
    assert bench.mistakes(propose(bag, bench.model()), right) == []


@pytest.mark.slow
def test_a_bag_in_which_nothing_is_wrong_is_left_as_it_is(run: Any, plain: BagColumns):
    found = propose(plain, bench.model())
    assert len(found.pairs) == 24
    assert all(pair.confident for pair in found.pairs)
    assert {(pair.scale, pair.offset) for pair in found.pairs} == {(1.0, 0.0)}
    for pair in found.pairs:
        joint = pair.name.rpartition('_')[0] if pair.role.value == 'sensor' else pair.name
        expected = joint if pair.role.value == 'sensor' else str(run.joints.index(joint))
        assert pair.labels == (expected,)


@pytest.mark.slow
def test_counts_are_found_and_what_is_in_no_unit_is_asked(run: Any, plain: BagColumns):
    wrist, pan = run.joints.index('wrist_3'), run.joints.index('shoulder_pan')

    def position(values: Any) -> Any:
        values[:, wrist] = np.round((values[:, wrist] + math.pi) * 4096 / (2 * math.pi))
        # Before a gear, which looks like degrees.
        values[:, pan] *= 50
        return values

    found = _found(_with(plain, 'position', position), bench.model())
    counts = found['wrist_3_position']
    assert counts.scale == pytest.approx(2 * math.pi / 4096)
    assert counts.offset == pytest.approx(-math.pi, abs=0.01)
    assert 'counts of 2^12 per turn' in counts.reason
    assert found['wrist_3_velocity'].scale == 1.0
    for name in ('shoulder_pan_position', 'shoulder_pan_velocity', 'shoulder_pan'):
        assert not found[name].confident
        assert 'is there a gear? Give its scale' in found[name].reason
    assert found['elbow_position'].confident


@pytest.mark.slow
def test_what_is_in_doubt_is_commented_out_and_the_rest_can_be_loaded(
    arm: Any, columns: Any, tmp_path: Path
) -> None:
    # The name says elbow, the order says wrist.
    labels = {'shoulder': TIMES, 'yes': 2 * TIMES, 'elbo': 3 * TIMES}
    bag = columns.bag(columns.topic('/js', TIMES, {'position': labels}))
    proposal = propose(bag, arm)
    score = {pair.name: pair.score for pair in proposal.pairs}
    assert score['s0'] >= CONFIDENCE > max(score['s1'], score['s2'])
    path = tmp_path / 'mapping.yaml'
    path.write_text(to_yaml(proposal, 'arm.xml'))
    assert '# s1: {topic: /js, field: position, label: elbo}' in path.read_text()
    assert 'label: "yes"' in path.read_text()
    mapping = map_columns(bag, arm, load_mapping(path))
    assert [pair.name for pair in mapping.pairs] == ['s0']
    # Without the marks in front all of it is valid.
    lines = [line.replace('  # s', '  s', 1) for line in path.read_text().splitlines()]
    path.write_text('\n'.join(lines))
    assert set(load_mapping(path).sensors) == set(score)
    document = json.loads(to_json(summary(proposal)))
    assert [pair['used'] for pair in document['pairs']] == [
        pair.confident for pair in proposal.pairs
    ]


@pytest.mark.slow
def test_currents_neither_outvote_names_nor_pass_for_torques(run: Any, plain: BagColumns) -> None:
    per_newton_metre = np.array([30.0, -0.5, 0.02, 80.0, -20.0, 200.0])
    bag = _with(plain, 'effort', lambda values: values * per_newton_metre)
    found = _found(bag, bench.model())
    for joint in run.joints:
        assert found[f'{joint}_position'].labels == (joint,)
        assert found[f'{joint}_position'].confident
        assert not found[f'{joint}_effort'].confident
    told = [joint for joint in run.joints if 'a current' in found[f'{joint}_effort'].reason]
    assert told == ['shoulder_pan', 'shoulder_lift', 'elbow', 'wrist_1', 'wrist_2']
    # Of the last one friction takes nearly all.
    assert 'others of its message are no torques' in found['wrist_3_effort'].reason
    # Gravity tells the scale of the joints that carry the arm; the model lacks some of the masses.
    assert found['shoulder_lift_effort'].scale == pytest.approx(-2.0, rel=0.3)


@pytest.mark.parametrize(('labels', 'taken'), [('ABC', True), ('BAC', True), ('ABCD', False)])
def test_names_that_tell_nothing_are_taken_in_order_where_there_are_as_many_as_joints(
    hinges: Any, columns: Any, labels: str, taken: bool
) -> None:
    joints = ['shoulder', 'elbow', 'wrist']
    times = np.arange(0, 8, 0.01)
    names = [f'qx_{label}' for label in labels]
    swing = {name: np.sin((3 + row) * times + row) for row, name in enumerate(names)}
    state = columns.topic('/joint_states', times, {'position': swing})
    found = _found(columns.bag(state), hinges(joints))
    positions = [found[f'p_{joint}'] for joint in joints if f'p_{joint}' in found]
    assert all(pair.confident for pair in positions) == taken
    if taken:
        assert [pair.labels for pair in positions] == [(name,) for name in names]


@pytest.mark.slow
@pytest.mark.parametrize('kind', ['current', 'pwm'])
def test_efforts_are_what_their_name_says(run: Any, plain: BagColumns, kind: str):
    commands, state = plain.topics
    fields = tuple(replace(f, name=kind) if f.name == 'effort' else f for f in state.fields)
    proposal = propose(
        replace(plain, topics=(commands, replace(state, fields=fields))), bench.model()
    )
    found = {pair.name: pair for pair in proposal.pairs}
    for joint in run.joints:
        effort = found[f'{joint}_effort']
        assert (effort.kind, effort.field, effort.confident) == (kind, kind, False)
        assert found[f'{joint}_position'].confident
    assert found['shoulder_lift_effort'].scale == pytest.approx(1.0, rel=0.3)
    assert f'# shoulder_lift_effort: {{topic: {state.topic}, field: {kind}' in to_yaml(proposal, '')
    assert f'kind: {kind}}}' in to_yaml(proposal, '')


@pytest.mark.slow
def test_a_unit_that_only_the_range_tells_is_in_doubt(run: Any, plain: BagColumns):
    """Motor angles before a gear of 40 lie within the ranges in degrees, too."""
    _, state = plain.topics
    geared = replace(state.fields[0], values=40.0 * state.fields[0].values)
    motors = replace(plain, topics=(replace(state, fields=(geared,)),))
    found = _found(motors, bench.model())
    assert not any(pair.confident for pair in found.values() if pair.scale != 1.0)
    degrees = _with(plain, 'position', np.degrees)
    found = _found(_with(degrees, 'velocity', np.degrees), bench.model())
    for joint in run.joints:
        assert found[f'{joint}_position'].confident
        assert found[f'{joint}_position'].scale == pytest.approx(math.pi / 180)


@pytest.mark.slow
def test_efforts_that_are_never_negative_stay_out(run: Any, plain: BagColumns) -> None:
    bag = _with(plain, 'effort', np.abs)
    proposal = propose(bag, bench.model())
    assert {pair.field for pair in proposal.pairs} == {'position', 'velocity', 'data'}
    assert all(pair.confident for pair in proposal.pairs)
    reasons = [item.reason for item in proposal.unmapped if '.effort[' in item.name]
    assert len(reasons) == len(run.joints)
    assert all(reason.startswith('never negative') for reason in reasons)


@pytest.mark.slow
@pytest.mark.parametrize('effort', [True, False])
def test_names_that_no_model_has_are_no_hindrance(run: Any, plain: BagColumns, *, effort: bool):
    labels = ('Base', 'Arm_A', 'Arm_B', 'Hand_1', 'Hand_2', 'Hand_3')
    names = dict(zip(run.joints, labels, strict=True))
    commands, state = plain.topics
    fields = tuple(replace(field, labels=labels) for field in state.fields)
    told = replace(commands, msgtype=state.msgtype, fields=(replace(fields[0], values=run.told),))
    fields = fields if effort else fields[:2]
    bag = replace(plain, topics=(told, replace(state, fields=fields)))
    found = _found(bag, bench.model())
    for joint, name in names.items():
        assert found[f'{joint}_position'].labels == (name,)
        assert found[f'{joint}_position'].confident
        assert found[joint].labels == (name,)


@pytest.mark.slow
@pytest.mark.shared
@pytest.mark.parametrize('motion', ['multisine', 'pick_place', 'prbs_excitation'])
def test_a_hobby_arm_as_it_is_shipped_is_mapped(shared_data: Path, motion: str) -> None:
    model = load_model(shared_data / 'so101' / 'so101.xml')
    found = _found(read_bag(shared_data / 'so101' / 'bags' / motion), model)
    joints = ('shoulder_pan', 'shoulder_lift', 'elbow_flex', 'wrist_flex', 'wrist_roll', 'gripper')
    names = ('Rotation', 'Pitch', 'Elbow', 'Wrist_Pitch', 'Wrist_Roll', 'Jaw')
    for joint, name in zip(joints, names, strict=True):
        for pair in (found[f'{joint}_position'], found[joint]):
            assert (pair.labels, pair.scale, pair.offset, pair.confident) == ((name,), 1, 0, True)


@pytest.mark.slow
@pytest.mark.shared
def test_a_quadruped_of_motors_without_meshes_and_names_is_mapped(
    shared_data: Path, tmp_path: Path
) -> None:
    path = shared_data / 'go2_iit' / 'go2.xml'
    spec = load_spec(path)
    with np.load(path.with_name('traj_0.npz')) as log:
        columns = {'time': log['time']} | {
            f'{name}.{joint}': log[name][:, joint]
            for name in ('dof_pos', 'des_dof_pos')
            for joint in range(12)
        }
    table = tmp_path / 'traj.csv'
    rows = np.column_stack(list(columns.values()))
    np.savetxt(table, rows, delimiter=',', header=','.join(columns), comments='')
    pairs = propose_with_actuators(spec, path, read_bag(table)).pairs
    joints = [joint.name for joint in spec.joints[1:]]
    assert [(pair.name, pair.labels) for pair in pairs if pair.confident] == [
        (f'{joint}_{end}', (str(place),))
        for end in ('position', 'servo')
        for place, joint in enumerate(joints)
    ]


def test_sensors_with_several_values_are_found_by_their_quantity(columns: Any) -> None:
    model = mujoco.MjModel.from_xml_string("""
    <mujoco><worldbody><body><freejoint/><geom size=".1"/><site name="imu"/></body></worldbody>
    <sensor><gyro name="imu_gyro" site="imu"/><framequat name="tilt" objtype="site" objname="imu"/>
    <force name="grip" site="imu"/></sensor></mujoco>
    """)
    vector = dict.fromkeys('xyz', TIMES)
    imu = columns.topic(
        '/imu', TIMES, {'angular_velocity': vector, 'orientation': {**vector, 'w': TIMES}}
    )
    wrenches = [columns.topic(name, TIMES, {'wrench.force': vector}) for name in ('/a', '/b')]
    found = _found(columns.bag(imu, *wrenches), model)
    assert found['imu_gyro'][2:5] == ('/imu', 'angular_velocity', ('x', 'y', 'z'))
    assert found['imu_gyro'].confident
    assert found['tilt'].labels == ('w', 'x', 'y', 'z')
    assert found['tilt'].confident
    assert not found['grip'].confident


def test_a_bag_without_anything_for_the_model_is_an_error(arm: Any, columns: Any) -> None:
    image = columns.topic('/image', TIMES, {'brightness': {'': TIMES}}, msgtype='any/msg/Type')
    with pytest.raises(AlignmentError, match=r'Nothing in .* can be a sensor.*topics: /image'):
        propose(columns.bag(image), arm)


@pytest.mark.parametrize(
    ('bag', 'model', 'score'),
    [
        ('elbow', 'elbow', EXACT),
        ('Left-Elbow', 'left_elbow', SAME_LETTERS),
        ('leftElbow', 'left_elbow', SAME_LETTERS),
        ('elbow_joint', 'elbow', SAME_CORE),
        ('joint_2', 'j2', SAME_CORE),
        ('joint_2', 'joint_3', 0.0),
        ('7', 'elbow', 0.0),
        ('wheel', 'elbow', 0.0),
    ],
)
def test_names_are_compared_word_by_word(bag: str, model: str, score: float) -> None:
    assert similarities([bag], [model])[0, 0] == score


@pytest.mark.parametrize(
    ('bag', 'model', 'like'),
    [
        (['pitch', 'wrist_pitch', 'elbow'], 'arm_wrist_pitch', 1),
        (['shoulder_joint', 'elbow_joint', 'wrist_1_joint'], 'ur5e_elbow_joint', 1),
        (['left_elbow', 'right_elbow'], 'elbow', None),
        (['wrist_1', 'wrist_2'], 'wrist', None),
        (['hand'], 'hand_2', None),
    ],
)
def test_a_name_inside_of_another_is_the_same_where_it_can_be_no_other(
    bag: list[str], model: str, like: int | None
) -> None:
    found = [row for row, score in enumerate(similarities(bag, [model])) if score >= SAME_CORE]
    assert found == ([] if like is None else [like])


@pytest.mark.slow
@pytest.mark.parametrize('prefix', ['', 'robot/'])
def test_a_part_of_a_robot_takes_the_columns_of_its_name(run: Any, plain: BagColumns, prefix: str):
    bag, rng = plain, np.random.default_rng(1)
    for name in bag.topics[-1].fields[0].labels:
        x, mass = rng.uniform(0.1, 0.5), rng.uniform(0.3, 5.0)
        model = mujoco.MjModel.from_xml_string(
            f"""<mujoco><worldbody><body>
            <joint name="{prefix}{name}" axis="{' '.join(map(str, rng.normal(size=3)))}"/>
            <geom size=".05" pos="{x} 0 0" mass="{mass}"/></body></worldbody>
            <actuator><position name="servo" joint="{prefix}{name}" kp="30" kv="3"/></actuator>
            <sensor><jointpos name="q" joint="{prefix}{name}"/></sensor></mujoco>"""
        )
        found = _found(bag, model)
        told = str(run.joints.index(name))
        assert (found['q'].labels, found['servo'].labels) == ((name,), (told,))


ROOT = Path(__file__).parents[2]
FIXED = ROOT / 'test' / 'data' / 'urdf' / 'fixed.urdf'
SERVOS = ['lift_servo', 'roll_servo']


@pytest.fixture(scope='module')
def bag(tmp_path_factory: pytest.TempPathFactory) -> BagColumns:
    """Return what a robot of the URDF with position servos does."""
    rng = np.random.default_rng(1)
    folder = tmp_path_factory.mktemp('robot') / 'bag'
    robot = make_robot(FIXED, rng)
    with BagWriter(folder) as writer:
        record(robot, writer, rng)
    return read_bag(folder)


def _with_commands(bag: BagColumns, topic: str, kind: str, *fields: Field) -> BagColumns:
    """Return the bag with other commands at the same times."""
    command, state = bag.topics
    changed = replace(command, topic=topic, msgtype=kind, header_ns=None, fields=fields)
    return replace(bag, topics=tuple(sorted((changed, state), key=lambda item: item.topic)))


def _values(bag: BagColumns) -> np.ndarray[Any, np.dtype[np.float64]]:
    (field,) = (field for field in bag.topics[0].fields if field.name == 'position')
    return field.values


@pytest.mark.slow
def test_positions_make_servos_and_all_pairs_are_right(bag: BagColumns) -> None:
    spec = load_spec(FIXED)
    found = propose_with_actuators(spec, FIXED, bag)
    assert implied_actuators(spec) == SERVOS
    assert all(pair.confident and (pair.scale, pair.offset) == (1, 0) for pair in found.pairs)
    assert [(p.name, p.labels) for p in found.pairs if p.role is PairRole.ACTUATOR] == [
        ('lift_servo', ('lift',)),
        ('roll_servo', ('roll',)),
    ]
    by_names = load_spec(FIXED)
    imply_actuators(by_names, FIXED, bag)
    assert implied_actuators(by_names) == SERVOS


@pytest.mark.slow
def test_an_array_without_names_is_what_the_joints_follow(bag: BagColumns) -> None:
    data = Field('data', ('0', '1'), _values(bag))
    array = _with_commands(bag, '/arm/commands', 'std_msgs/msg/Float64MultiArray', data)
    assert lacking_quantity(load_spec(FIXED), array) is Quantity.POSITION
    spec = load_spec(FIXED)
    propose_with_actuators(spec, FIXED, array)
    assert implied_actuators(spec) == SERVOS


def test_without_commands_efforts_are_compared(bag: BagColumns) -> None:
    silent = replace(bag, topics=bag.topics[1:])
    assert lacking_quantity(load_spec(FIXED), silent) is None
    spec = load_spec(FIXED)
    found = propose_with_actuators(spec, FIXED, silent)
    assert implied_actuators(spec) == []
    assert {pair.role for pair in found.pairs} == {PairRole.SENSOR}
    assert [pair.name for pair in found.pairs if pair.field == 'effort'] == [
        'lift_effort',
        'roll_effort',
    ]


def test_a_mapping_makes_the_actuators_that_it_names(bag: BagColumns) -> None:
    spec = load_spec(FIXED)
    channel = ChannelMapping(topic='/joint_states', field='effort', label='roll')
    imply_actuators(spec, FIXED, bag, MappingConfig(actuators={'roll_motor': channel}))
    assert implied_actuators(spec) == ['roll_motor']


@pytest.mark.slow
@pytest.mark.parametrize(
    ('kind', 'quantity', 'efforts', 'expected'),
    [
        ('motor', Quantity.POSITION, False, ['own', *SERVOS]),
        # What motors exerted was measured.
        ('motor', Quantity.POSITION, True, ['own']),
        ('motor', Quantity.EFFORT, True, ['own']),
        ('servo', Quantity.POSITION, True, ['own']),
        ('servo', Quantity.EFFORT, True, ['own']),
    ],
)
def test_servos_stand_beside_motors_that_positions_are_no_commands_for(
    bag: BagColumns, kind: str, quantity: Quantity, efforts: bool, expected: list[str]
) -> None:
    field = Field(quantity.value, ('lift', 'roll'), _values(bag))
    told = _with_commands(bag, '/joint_commands', 'sensor_msgs/msg/JointState', field)
    if not efforts:
        commands, state = told.topics
        kept = tuple(field for field in state.fields if field.name != 'effort')
        told = replace(told, topics=(commands, replace(state, fields=kept)))
    for imply in (imply_actuators, propose_with_actuators):
        spec = load_spec(FIXED)
        own = spec.add_actuator(name='own', target='lift', trntype=mujoco.mjtTrn.mjTRN_JOINT)
        own.set_to_motor() if kind == 'motor' else own.set_to_position(kp=30.0)
        found = imply(spec, FIXED, told)
        assert [actuator.name for actuator in spec.actuators] == expected
    paired = [pair.name for pair in found.pairs if pair.role is PairRole.ACTUATOR]
    taken = (kind, quantity) in {('motor', Quantity.EFFORT), ('servo', Quantity.POSITION)}
    assert paired == (expected[1:] or ['own'] * taken)
    assert 'motors only, which stay 0' in implied_sentence(spec) or len(expected) == 1
