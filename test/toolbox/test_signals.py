# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Which columns of a model its signals are."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

from sysid_ros.errors import SignalError
from sysid_ros.signals import SignalType
from sysid_ros.toolbox.timeseries import TimeSeries, stored_series

ZOO = """
<mujoco>
  <worldbody>
    <body name="box"><freejoint name="float"/><geom size=".1"/></body>
    <body name="arm">
      <joint name="elbow"/><geom size=".1" pos=".1 0 0"/><site name="tip"/>
      <body name="wrist"><joint name="ball" type="ball"/><geom size=".1" pos=".1 0 0"/></body>
    </body>
    <body name="elbow"><freejoint name="second"/><geom size=".1"/></body>
    <body name="six">
      <joint name="x" type="slide"/><joint name="y" type="slide"/><joint type="slide" name="z"/>
      <joint name="a"/><joint name="b"/><joint/><geom size=".1"/>
    </body>
    <body><freejoint/><geom size=".1"/></body>
  </worldbody>
  <actuator>
    <motor joint="elbow"/>
    <orientation name="turn" joint="ball"/>
    <general name="slow" joint="elbow" dyntype="filter" dynprm=".1"/>
    <general name="user" joint="elbow" dyntype="user" actdim="3"/>
    <motor name="left_ctrl" joint="elbow"/>
  </actuator>
  <sensor>
    <jointpos joint="elbow"/><gyro name="gyro" site="tip"/><jointvel joint="elbow"/>
  </sensor>
</mujoco>
"""


@pytest.fixture(scope='module')
def zoo() -> mujoco.MjModel:
    """Return a model with every kind of joint, actuator and name."""
    return mujoco.MjModel.from_xml_string(ZOO)


def test_state_mappings_find_the_coordinates_by_name(zoo: mujoco.MjModel):
    data = mujoco.MjData(zoo)
    data.qpos[:] = 100 + np.arange(zoo.nq)
    data.qvel[:] = 200 + np.arange(zoo.nv)
    data.act[:] = 300 + np.arange(zoo.na)
    full = mujoco.mjtState.mjSTATE_FULLPHYSICS.value
    state = np.empty(mujoco.mj_stateSize(zoo, full))
    mujoco.mj_getState(zoo, data, state, full)
    qpos, qvel, act, _ = TimeSeries.compute_all_state_mappings(zoo)

    for name in ('elbow', 'ball', 'z'):
        np.testing.assert_array_equal(state[1:][qpos[f'{name}_qpos'][1]], data.joint(name).qpos)
        np.testing.assert_array_equal(state[1:][qvel[f'{name}_qvel'][1]], data.joint(name).qvel)
    np.testing.assert_array_equal(state[1:][qpos['box_qpos'][1]], data.joint('float').qpos)
    np.testing.assert_array_equal(state[1:][act['user_act'][1]], [301, 302, 303])


def test_an_actuator_may_have_several_controls(zoo: mujoco.MjModel):
    assert zoo.nu > zoo.nactuator
    controls = TimeSeries.compute_all_control_mapping(zoo)
    assert controls['turn_ctrl'][1].tolist() == [1, 2, 3]
    assert controls['slow_ctrl'][1].tolist() == [4]
    series = TimeSeries.from_control_names([0.0], [[9, 1, 2, 3]], zoo, ['slow', 'turn'])
    assert series.get('turn_ctrl').tolist() == [[1, 2, 3]]


def test_unnamed_elements_go_by_their_index(zoo: mujoco.MjModel):
    sensors = TimeSeries.compute_all_sensor_mapping(zoo)
    assert list(sensors) == ['sensor[0]', 'gyro', 'sensor[2]']
    assert sensors['sensor[2]'][1].tolist() == [4]
    assert next(iter(TimeSeries.compute_all_control_mapping(zoo))) == 'actuator[0]_ctrl'
    series = TimeSeries.from_names([0.0], [[1.0, 2.0]], zoo, ['sensor[2]', 'sensor[0]'])
    assert series.get('sensor[0]').tolist() == [[2.0]]


@pytest.mark.parametrize(
    ('name', 'message'),
    [
        ('gyr', "'gyr'.*nearest: gyro"),
        (('turn', SignalType.MjCtrl), "'turn' has type MjCtrl which is not allowed"),
        ('turn', 'turn'),
    ],
)
def test_a_name_that_is_no_observation_is_an_error(zoo: mujoco.MjModel, name: str, message: str):
    with pytest.raises(SignalError, match=message):
        TimeSeries.from_names([0.0], [[0.0]], zoo, [name])


@pytest.mark.parametrize('text', ['[]', '{"a": 3}', 'no', '{"a": [9, [0]]}', '{"a": [0, ["x"]]}'])
def test_what_is_no_mapping_is_told(text: str):
    with pytest.raises(SignalError, match='Expected a signal mapping as JSON'):
        stored_series({'signal_mapping': np.array(text)})


def test_names_are_those_of_the_sysid_toolbox():
    reference = pytest.importorskip('mujoco.sysid._src.timeseries').TimeSeries
    model = mujoco.MjModel.from_xml_string(
        '<mujoco><worldbody><body name="box"><freejoint/><geom size=".1"/></body>'
        '<body><joint name="ball" type="ball"/><geom name="g" size=".1" pos=".1 0 0"/>'
        '<body><joint name="h"/><geom size=".1"/></body></body></worldbody>'
        '<actuator><motor name="m" joint="h"/><intvelocity name="i" joint="h" actrange="-1 1"/>'
        '</actuator><sensor><ballquat name="q" joint="ball"/><jointpos name="p" joint="h"/>'
        '</sensor></mujoco>'
    )
    ours = (
        *TimeSeries.compute_all_state_mappings(model),
        TimeSeries.compute_all_sensor_mapping(model),
    )
    theirs = (
        *reference.compute_all_state_mappings(model),
        reference.compute_all_sensor_mapping(model),
    )
    for mine, other in zip(ours, theirs, strict=True):
        assert {name: (kind.name, at.tolist()) for name, (kind, at) in mine.items()} == {
            name: (kind.name, at.tolist()) for name, (kind, at) in other.items()
        }
