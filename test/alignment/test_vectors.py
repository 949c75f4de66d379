# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""IMUs, wrenches, orientations and contacts: which sensors they are, their units and axes."""

from __future__ import annotations

import dataclasses
from typing import Any

import mujoco
import numpy as np
import pytest

from builders.bag_columns import Columns
from builders.sensor_arm import JOINTS, TIMES, Array, arm, bag, record
from sysid_ros.alignment.health import FindingKind
from sysid_ros.alignment.inspection import column_faults, inspect
from sysid_ros.alignment.pairing import map_columns
from sysid_ros.alignment.proposal import propose
from sysid_ros.alignment.trajectories import align
from sysid_ros.alignment.vectors import VectorPair, vector_pairs
from sysid_ros.config.schema import MappingConfig
from sysid_ros.errors import AlignmentError


def found_in(recorded: Any, model: mujoco.MjModel) -> dict[str, VectorPair]:
    pairs = [
        pair
        for pair in map_columns(recorded, model, 'auto').pairs
        if pair.name in dict(JOINTS) or pair.field == 'position'
    ]
    return {pair.name: pair for pair in vector_pairs(recorded, model, pairs)}


def test_what_a_motion_makes_them_read_names_sensors(columns: Columns) -> None:
    found = found_in(bag(columns, record(arm())), arm())
    assert {name: pair.field for name, pair in found.items()} == {
        'gyro': 'angular_velocity',
        'acc': 'linear_acceleration',
        'force': 'wrench.force',
        'torque': 'wrench.torque',
        'tilt': 'orientation',
    }
    assert all(found[name].score > 0.95 for name in ('gyro', 'acc', 'force', 'tilt'))
    assert all('100%' in found[name].reason for name in ('gyro', 'acc', 'tilt'))


def test_units_and_signs_are_told_by_the_motion(columns: Columns) -> None:
    recorded = bag(columns, record(arm()), gyro=180 / np.pi, acc=-1 / 9.80665, force=-1.3)
    found = found_in(recorded, arm())
    assert found['gyro'].scale == pytest.approx(np.pi / 180)
    assert found['acc'].scale == pytest.approx(-9.80665)
    assert found['force'].scale == -1
    assert 'deg/s' in found['gyro'].reason
    assert 'in g, with the other sign' in found['acc'].reason
    mapped = map_columns(recorded, arm(), 'auto')
    assert {pair.name: pair.scale for pair in mapped.pairs}['gyro'] == found['gyro'].scale
    # The torque has the sign of its force.
    assert [item.kind for item in mapped.health].count(FindingKind.ASSUMED_UNIT) == 4


def test_axes_that_are_turned_are_said(columns: Columns) -> None:
    recorded = bag(columns, record(arm('euler=".2 0 1.5"')))
    found = found_in(recorded, arm())
    for name in ('gyro', 'acc', 'tilt'):
        assert 'turned by 87°' in found[name].reason or 'turned by 86°' in found[name].reason
        assert found[name].score > 0.95


def test_an_orientation_of_another_reference_is_left_out(columns: Columns) -> None:
    seen, turned = record(arm()), np.zeros((len(TIMES), 4))
    about_z = np.array([np.cos(0.35), 0.0, 0.0, np.sin(0.35)])
    for into, quat in zip(turned, seen['tilt'], strict=True):
        mujoco.mju_mulQuat(into, about_z, quat)
    found = found_in(bag(columns, {**seen, 'tilt': turned}), arm())['tilt']
    assert found.score < 0.5
    assert 'its reference is turned by 40° against the world' in found.reason


def test_what_moves_otherwise_is_not_taken(columns: Columns) -> None:
    seen = record(arm())
    other = {**seen, 'gyro': np.roll(seen['gyro'], 137, axis=0)}
    found = found_in(bag(columns, other), arm())['gyro']
    assert found.score < 0.5
    assert 'but the motion explains' in found.reason


def test_an_orientation_becomes_a_rotation_vector_and_zeros_are_none(columns: Columns) -> None:
    seen = record(arm())
    seen['tilt'][100:150] = 0.0
    seen['tilt'][200:] *= -1.0  # the same orientation
    recorded = bag(columns, seen)
    aligned = align(recorded, arm(), map_columns(recorded, arm(), 'auto'), 'auto')
    (run,) = aligned.sequences
    missing = [item for item in aligned.health if item.kind is FindingKind.MISSING]
    assert [(item.subject, item.count) for item in missing] == [('/data_1.orientation', 50)]
    (series,) = [each for each in run.measurements if 'tilt' in each.names]
    assert series.data.shape == (len(TIMES) - 50, 3)
    steady = np.diff(series.times) < 0.02
    assert np.abs(np.diff(series.data, axis=0))[steady].max() < 0.1
    quat, first = np.array([1.0, 0, 0, 0]), np.zeros(4)
    mujoco.mju_quatIntegrate(quat, series.data[-1], 1.0)
    first[:] = -seen['tilt'][-1]
    np.testing.assert_allclose(quat * np.sign(quat @ first), first, atol=1e-12)


def test_a_torque_has_the_sign_of_its_force(columns: Columns) -> None:
    seen = record(arm())
    for force, other in ((-1.0, 1.0), (1.0, -1.0), (-1.0, -1.0)):
        recorded = bag(columns, seen, force=force, torque=other)
        found = found_in(recorded, arm())
        assert found['torque'].scale == force
        assert ("as its force 'force'" in found['torque'].reason) == (force < 0)
        mapped = {pair.name: pair.scale for pair in map_columns(recorded, arm(), 'auto').pairs}
        assert (mapped['force'], mapped['torque']) == (force, force)


def test_a_torque_of_another_message_keeps_its_sign(columns: Columns) -> None:
    recorded = bag(columns, record(arm()), force=-1)
    (wrench,) = (topic for topic in recorded.topics if topic.topic == '/data_2')
    force, torque = wrench.fields
    apart = [
        dataclasses.replace(wrench, topic='/force', fields=(force,)),
        dataclasses.replace(wrench, topic='/torque', fields=(torque,)),
    ]
    others = [topic for topic in recorded.topics if topic is not wrench]
    found = found_in(columns.bag(*others, *apart), arm())
    assert (found['force'].scale, found['torque'].scale) == (-1, 1)


def test_an_orientation_without_a_number_is_missing(columns: Columns) -> None:
    seen = record(arm())
    seen['tilt'][100:130] = np.nan
    seen['tilt'][300:320, 2] = np.nan
    recorded = bag(columns, seen)
    aligned = align(recorded, arm(), map_columns(recorded, arm(), 'auto'), 'auto')
    missing = [item for item in aligned.health if item.kind is FindingKind.MISSING]
    assert [(item.subject, item.count) for item in missing] == [('/data_1.orientation', 50)]
    (series,) = [each for each in aligned.sequences[0].measurements if 'tilt' in each.names]
    assert series.data.shape == (len(TIMES) - 50, 3)
    assert np.isfinite(series.data).all()


def jumps(recorded: Any) -> list[tuple[str, int, str]]:
    kind = FindingKind.REFERENCE_JUMP
    return [
        (item.subject, item.count, item.detail)
        for item in inspect(recorded, arm()).findings
        if item.kind is kind
    ]


def turned(quaternions: Array, rows: slice, degrees: float) -> Array:
    half, found = np.radians(degrees) / 2, quaternions.copy()
    about_z = np.array([np.cos(half), 0.0, 0.0, np.sin(half)])
    for row in range(len(found))[rows]:
        mujoco.mju_mulQuat(found[row], about_z, quaternions[row])
    return found


def test_a_reference_that_changes_is_a_finding(columns: Columns) -> None:
    seen = record(arm())
    tilt = seen['tilt'] + np.random.default_rng(0).normal(0, 2e-4, seen['tilt'].shape)
    recorded = bag(columns, {**seen, 'tilt': turned(tilt, slice(600, None), 25)})
    ((subject, count, detail),) = jumps(recorded)
    assert (subject, count) == ('/data_1.orientation', 1)
    assert 'turns by 2' in detail
    assert 'at 6.000 s' in detail
    pairing = map_columns(recorded, arm(), 'auto')
    faults = column_faults(recorded, arm(), pairing, 'auto')
    assert [item.kind for item in faults] == [FindingKind.REFERENCE_JUMP]


@pytest.mark.parametrize(
    'what', ['motion', 'spike', 'rest', 'repeats', 'lost messages', 'opposite']
)
def test_no_motion_changes_a_reference(columns: Columns, what: str) -> None:
    seen = record(arm())
    tilt = seen['tilt'] + np.random.default_rng(0).normal(0, 2e-4, seen['tilt'].shape)
    kept = np.arange(len(TIMES))
    if what == 'spike':
        tilt = turned(tilt, slice(600, 601), 25)
    elif what == 'rest':
        tilt = tilt[np.maximum(kept - 600, 0)]
    elif what == 'repeats':
        tilt = tilt[kept // 10 * 10]
    elif what == 'opposite':
        tilt[600:] *= -1
    elif what == 'lost messages':
        kept = np.delete(kept, slice(600, 640))
    recorded = bag(columns, {**seen, 'tilt': tilt})
    topics = [
        dataclasses.replace(
            topic,
            receive_ns=topic.receive_ns[kept],
            header_ns=None if topic.header_ns is None else topic.header_ns[kept],
            fields=tuple(dataclasses.replace(f, values=f.values[kept]) for f in topic.fields),
        )
        for topic in recorded.topics
    ]
    assert jumps(columns.bag(*topics)) == []


FOOT = """
<mujoco>
  <worldbody><geom type="plane" size="1 1 .1"/>
    <body pos="0 0 .2"><joint name="knee" axis="0 1 0"/>
      <geom type="capsule" fromto="0 0 0 .2 0 -.2" size=".02"/>
      <site name="sole" pos=".2 0 -.2" size=".04"/></body></worldbody>
  <sensor><jointpos name="knee_pos" joint="knee"/><touch name="foot_contact" site="sole"/></sensor>
</mujoco>
"""


def foot(columns: Columns, contact: Array) -> Any:
    knee = {'position': {'knee': 0.3 * np.sin(3 * TIMES)}}
    return columns.bag(
        columns.topic('/joint_states', TIMES, knee),
        columns.topic('/foot_contact', TIMES, {'data': {'': contact}}, msgtype='std_msgs/msg/Bool'),
    )


def mapped_to_touch(**more: float) -> MappingConfig:
    contact = {'topic': '/foot_contact', 'field': 'data', **more}
    return MappingConfig.model_validate(
        {'sensors': {'knee_pos': '/joint_states.position[knee]', 'foot_contact': contact}}
    )


def test_a_boolean_is_no_force_of_a_touch_sensor(columns: Columns) -> None:
    model = mujoco.MjModel.from_xml_string(FOOT)
    touched = (np.sin(3 * TIMES) > 0.5).astype(float)
    recorded = foot(columns, touched)
    for found in (map_columns(recorded, model, 'auto'), propose(recorded, model)):
        assert {pair.name for pair in found.pairs} == {'knee_pos'}
        (reason,) = (item.reason for item in found.unmapped if item.name == 'foot_contact')
        assert 'the sensor reads a force in N, a boolean only tells' in reason
        assert reason.endswith(': /foot_contact.data')
    with pytest.raises(AlignmentError, match=r"'foot_contact' with /foot_contact.data, which is 0"):
        map_columns(recorded, model, mapped_to_touch())


@pytest.mark.parametrize(
    ('contact', 'more'),
    [
        pytest.param(12.5 * (np.sin(3 * TIMES) > 0.5), {}, id='in-N'),
        pytest.param(1.0 * (np.sin(3 * TIMES) > 0.5), {'scale': 12.5}, id='with-a-scale'),
    ],
)
def test_a_force_that_a_mapping_names_is_one(
    columns: Columns, contact: Array, more: dict[str, float]
) -> None:
    model = mujoco.MjModel.from_xml_string(FOOT)
    found = map_columns(foot(columns, contact), model, mapped_to_touch(**more))
    assert {pair.name for pair in found.pairs} == {'knee_pos', 'foot_contact'}
    if not more:
        unmapped = map_columns(foot(columns, contact), model, 'auto').unmapped
        (reason,) = (item.reason for item in unmapped if item.name == 'foot_contact')
        assert 'boolean' not in reason
