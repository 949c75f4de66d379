# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Recorded and simulated runs in the toolbox's terms."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest
from mujoco import rollout
from numpy.typing import NDArray

from sysid_ros.errors import FitError, SignalError
from sysid_ros.signals import SignalType
from sysid_ros.toolbox.timeseries import TimeSeries
from sysid_ros.toolbox.trajectory import (
    ModelSequences,
    SystemTrajectory,
    create_initial_state,
    sysid_rollout,
)

DT = 0.002
ARM = """
<mujoco>
  <option timestep="0.002"/>
  <worldbody>
    <body><joint name="a" damping=".1"/><geom size=".1" pos=".2 0 0"/>
      <body pos=".3 0 0"><joint name="b" damping=".2"/><geom size=".1" pos=".2 0 0"/></body>
    </body>
  </worldbody>
  <actuator>
    <motor name="m1" joint="a" gear="3"/>
    <general name="m2" joint="b" dyntype="filter" dynprm=".05" gainprm="2"/>
  </actuator>
  <sensor>
    <jointpos name="qa" joint="a"/><jointvel name="va" joint="a"/><jointpos name="qb" joint="b"/>
  </sensor>
</mujoco>
"""
DELAYED = ARM.replace('gear="3"', 'gear="3" delay="0.01" nsample="6"')
#: A spring that pushes: the state grows by a factor of thousands per step.
UNSTABLE = """
<mujoco>
  <option timestep="0.01"/>
  <worldbody>
    <body><joint name="j" type="slide" stiffness="-1e7"/><geom size=".1" mass="1"/></body>
  </worldbody>
  <sensor><jointpos name="q" joint="j"/></sensor>
</mujoco>
"""
STARTS = [0.0, 0.3, -2.0, 1.7e9]
MODEL = mujoco.MjModel.from_xml_string(ARM)


def make_control(start: float = 0.0, count: int = 200) -> TimeSeries:
    values = np.random.default_rng(0).normal(size=(count, MODEL.nu))
    return TimeSeries.from_control_names(start + np.arange(count) * DT, values, MODEL)


def make_start() -> NDArray[np.float64]:
    return create_initial_state(MODEL, [0.3, -0.2], [1.0, 0.5])


def simulate(
    control: TimeSeries, state: Any = None, model: mujoco.MjModel = MODEL
) -> SystemTrajectory:
    state = make_start() if state is None else state
    return sysid_rollout(model, mujoco.MjData(model), control, state)[0]


@pytest.mark.parametrize('start', STARTS)
def test_a_sensor_row_carries_the_time_that_it_describes(start: float):
    control = make_control(start)
    run = simulate(control)
    assert run.state is not None
    states, sensors = rollout.rollout(MODEL, mujoco.MjData(MODEL), make_start(), control.data[:-1])
    np.testing.assert_array_equal(run.sensordata.data, sensors[0])
    np.testing.assert_array_equal(run.state.data[:, 1:], states[0][:, 1:])
    steps = np.arange(len(run))
    np.testing.assert_array_equal(run.sensordata.times, start + steps * DT)
    np.testing.assert_array_equal(run.control.times, start + steps * DT)
    np.testing.assert_array_equal(run.state.times, start + (steps + 1) * DT)
    np.testing.assert_array_equal(run.state.data[:, 0], run.state.times)
    # At the same time, the sensor and the state say the same.
    shared = np.isin(run.sensordata.times, run.state.times)
    assert shared.sum() == len(run) - 1
    np.testing.assert_array_equal(run.sensordata.get('qa')[shared], run.state.get('a_qpos')[:-1])
    assert run.sensordata.get('qa')[0, 0] == 0.3


def test_a_state_with_a_time_of_its_own_begins_there():
    control = make_control(5.0)
    state = make_start()
    state[0] = 5.1
    late = simulate(control, state)
    cut = TimeSeries(control.times[50:], control.data[50:], control.signal_mapping)
    state[0] = 0.0
    np.testing.assert_allclose(late.sensordata.times[0], 5.1)
    np.testing.assert_array_equal(late.sensordata.data, simulate(cut, state).sensordata.data)


def test_rows_of_an_unstable_simulation_are_missing_not_repeated():
    model = mujoco.MjModel.from_xml_string(UNSTABLE)
    control = TimeSeries(np.arange(20) * 0.01, np.zeros((20, 0)))
    run = simulate(control, create_initial_state(model, [0.1]), model=model)
    assert run.state is not None
    assert np.isfinite(run.sensordata.data[:2]).all()
    assert np.isnan(run.sensordata.data[3:]).all()
    assert np.isnan(run.state.data[3:, 1:]).all()
    np.testing.assert_allclose(run.sensordata.times, np.arange(19) * 0.01)


@pytest.mark.parametrize(
    ('times', 'names', 'values', 'message'),
    [
        ([0.0], ['m1', 'm2'], [[0, 0]], r'at least one step of 0.002 s'),
        ([0.0, 1.0], ['m1'], [[0], [0]], r'missing: m2_ctrl'),
        ([0.0, 1.0], ['m1', 'm3'], [[0, 0], [0, 0]], r"control 'm3'; nearest: "),
        ([0.0, 1.0], ['m1', 'm2'], [[0, 0], [0, np.nan]], r'in m2_ctrl first at 1 s'),
    ],
)
def test_commands_that_cannot_be_simulated_are_told(
    times: Any, names: Any, values: Any, message: str
):
    control = TimeSeries.from_columns(times, values, names, SignalType.MjCtrl)
    with pytest.raises(FitError, match=message):
        simulate(control)


@pytest.mark.parametrize(('xml', 'start'), [*((ARM, start) for start in STARTS), (DELAYED, 0.0)])
def test_chunks_go_on_exactly_as_the_whole(xml: str, start: float):
    model = mujoco.MjModel.from_xml_string(xml)
    begin = create_initial_state(model, [0.3, -0.2], [1.0, 0.5])
    whole = simulate(make_control(start, 211), begin, model)
    chunks = whole.split(50)
    assert [len(chunk) for chunk in chunks] == [50] * 4
    for chunk in chunks:
        assert chunk.start == chunk.control.times[0] == chunk.sensordata.times[0]
        assert chunk.state is not None
        assert len(chunk.state) == len(chunk.control) == 50
        chunk.check_compatible()
        again = simulate(chunk.control, chunk.initial_state, model)
        np.testing.assert_allclose(
            again.sensordata.data, chunk.sensordata.data[:-1], rtol=0, atol=1e-12
        )


def test_sensors_are_compatible_by_name():
    run = simulate(make_control())
    times, data = run.sensordata.times, run.sensordata.data
    run.replace(
        sensordata=TimeSeries.from_columns(times, data, ['qb', 'va', 'qa'])
    ).check_compatible()
    part = run.replace(sensordata=TimeSeries.from_columns(times, data[:, :2], ['qb', 'qa']))
    part.check_compatible(allow_missing_sensors=True)
    with pytest.raises(FitError, match=r'all 3 sensors .* missing: va; pass allow_missing'):
        part.check_compatible()
    wrong = run.replace(sensordata=TimeSeries.from_columns(times, data, ['qa', 'va', 'qc']))
    with pytest.raises(FitError, match=r"'qc', which the model does not have.*nearest: q"):
        wrong.check_compatible(allow_missing_sensors=True)
    wide = TimeSeries.create(times, data, {'qa': (SignalType.MjSensor, [0, 1])})
    with pytest.raises(FitError, match=r"'qa' dimension 2 does not match the 1"):
        run.replace(sensordata=wide).check_compatible()
    with pytest.raises(FitError, match=r'Sensor data dimension 2 does not match the 3'):
        run.replace(sensordata=TimeSeries(times, data[:, :2])).check_compatible()
    late = TimeSeries(times + 1.7e9, data, run.sensordata.signal_mapping)
    with pytest.raises(FitError, match=r'from 0 to 0.396 s and measurements from 1.7e\+09 to'):
        run.replace(sensordata=late).check_compatible()


def assert_same_series(a: Any, b: Any) -> None:
    np.testing.assert_array_equal(a.times, b.times)
    np.testing.assert_array_equal(a.data, b.data)
    plain = [{n: (k.name, at.tolist()) for n, (k, at) in s.signal_mapping.items()} for s in (a, b)]
    assert plain[0] == plain[1]


def test_trajectory_files_are_those_of_the_sysid_toolbox(tmp_path: Path):
    toolbox = pytest.importorskip('mujoco.sysid._src.trajectory')
    series = pytest.importorskip('mujoco.sysid._src.timeseries')
    run = simulate(make_control())
    run.save_to_disk(tmp_path / 'ours.npz')
    read = toolbox.SystemTrajectory.load_from_disk(tmp_path / 'ours.npz', MODEL)
    for name in ('control', 'sensordata', 'state'):
        assert_same_series(getattr(read, name), getattr(run, name))

    theirs = toolbox.sysid_rollout(
        MODEL,
        mujoco.MjData(MODEL),
        series.TimeSeries.from_control_names(run.control.times, run.control.data, MODEL),
        make_start(),
    )[0]
    theirs.save_to_disk(tmp_path / 'theirs.npz')
    loaded = SystemTrajectory.load_from_disk(tmp_path / 'theirs.npz', MODEL)
    assert_same_series(loaded.sensordata, theirs.sensordata)
    # Its columns of states do not count the time, which is the first.
    assert loaded.state is not None
    np.testing.assert_array_equal(loaded.state.get('a_qpos')[:, 0], theirs.state.data[:, 1])


BODIES = mujoco.MjModel.from_xml_string("""
<mujoco>
  <worldbody>
    <body name="box" pos="0 0 1"><freejoint/><geom size=".1"/></body>
    <body><joint name="ball" type="ball"/><geom size=".1" pos=".1 0 0"/>
      <body><joint name="h"/><geom size=".1" pos=".1 0 0"/></body>
    </body>
  </worldbody>
  <actuator>
    <general name="u" joint="h" dyntype="user" actdim="2"/>
    <general name="f" joint="h" dyntype="filter"/>
  </actuator>
</mujoco>
""")


def unpack(state: NDArray[np.float64]) -> mujoco.MjData:
    data = mujoco.MjData(BODIES)
    mujoco.mj_setState(BODIES, data, state, mujoco.mjtState.mjSTATE_FULLPHYSICS.value)
    return data


def test_named_parts_go_to_their_joints_of_any_width():
    state = create_initial_state(
        BODIES,
        [0.5, 0, 1, 0, 0],
        [7, 1, 2, 3, 4, 5, 6],
        [9, 1, 2],
        qpos_names=['h_qpos', 'ball'],
        qvel_names=['h', 'box_qvel'],
        act_names=['f', 'u_act'],
    )
    data = unpack(state)
    np.testing.assert_array_equal(data.qpos, [0, 0, 1, 1, 0, 0, 0, 0, 1, 0, 0, 0.5])
    np.testing.assert_array_equal(data.qvel, [1, 2, 3, 4, 5, 6, 0, 0, 0, 7])
    np.testing.assert_array_equal(data.act, [1, 2, 9])


@pytest.mark.parametrize(
    ('parts', 'error', 'message'),
    [
        ({'qpos': [0.0]}, FitError, r'qpos to have shape \(12,\), found \(1,\)'),
        ({'qpos': [0.0], 'qpos_names': ['ball']}, FitError, r'shape \(4,\), found \(1,\)'),
        ({'qpos': [0.0], 'qpos_names': ['hh']}, SignalError, "'hh' as MjStateQPos.*nearest: h"),
        ({'qpos': [np.nan], 'qpos_names': ['h']}, FitError, 'finite numbers in qpos'),
        ({'qpos': [0.0], 'qpos_names': ['h'], 'act_names': ['f']}, FitError, 'act not to be None'),
    ],
)
def test_parts_that_do_not_fit_are_told(parts: Any, error: Any, message: str):
    with pytest.raises(error, match=message):
        create_initial_state(BODIES, **parts)


@pytest.fixture
def spec() -> mujoco.MjSpec:
    """Return the arm as a user has it."""
    return mujoco.MjSpec.from_string(ARM)


def test_sequences_are_chosen_by_index_and_slice(spec: mujoco.MjSpec):
    control = make_control()
    measured = simulate(control).sensordata
    names = ['a', 'b', 'c']
    states = np.stack([make_start()] * 3)
    model = ModelSequences('arm', spec, names, states, [control] * 3, [measured] * 3)
    assert len(model) == 3
    assert model[-1].sequence_name == ['c']
    assert model[:2].sequence_name == ['a', 'b']
    assert model[1].spec is model.spec
    with pytest.raises(IndexError):
        model[3]
    assert [part.sequence_name for part in model] == [['a'], ['b'], ['c']]


def test_a_sequence_that_does_not_fit_is_named(spec: mujoco.MjSpec):
    control = make_control()
    measured = simulate(control).sensordata
    part = measured.slice_by_name(['qa'])
    start = make_start()
    with pytest.raises(FitError, match=r"Sequence 'two' of model 'arm': .* missing: va, qb"):
        ModelSequences('arm', spec, ['one', 'two'], [start] * 2, [control] * 2, [measured, part])
    kept = ModelSequences('arm', spec, 'two', start, control, part, allow_missing_sensors=True)
    assert kept.allow_missing_sensors
    with pytest.raises(FitError, match='found 1, 1, 2 and 1'):
        ModelSequences('arm', spec, 'one', start, [control] * 2, measured)
