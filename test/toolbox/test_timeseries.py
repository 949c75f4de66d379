# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Series: named after a model, taken apart, resampled and stored."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import ArrayLike

from sysid_ros.errors import SignalError
from sysid_ros.signals import SignalType
from sysid_ros.toolbox.timeseries import TimeSeries, stored_series

MODEL = mujoco.MjModel.from_xml_string("""
<mujoco>
  <worldbody>
    <body><joint name="a"/><geom size=".1" pos=".1 0 0"/><site name="s"/>
      <body><joint name="b"/><geom size=".1" pos=".1 0 0"/></body>
    </body>
  </worldbody>
  <actuator><motor name="m1" joint="a"/><motor name="m2" joint="b"/></actuator>
  <sensor><gyro name="gyro" site="s"/><jointpos name="pos" joint="a"/></sensor>
</mujoco>
""")


def test_one_channel_given_flat_stays_flat(tmp_path: Path) -> None:
    mapping = {'q': (SignalType.MjSensor, np.array([0]))}
    flat = TimeSeries([0.0, 1.0, 2.0], [0.0, 1.0, 4.0], mapping)
    flat.save_to_disk(tmp_path / 'flat.npz')
    assert flat.data.shape == (3,)
    assert TimeSeries.load_from_disk(tmp_path / 'flat.npz').data.shape == (3,)
    assert flat.interpolate([0.5, 1.5]).tolist() == [0.5, 2.5]
    assert flat.get(1.5)[1] == 2.5
    assert flat.resample(target_dt=0.5).data.tolist() == [0.0, 0.5, 1.0, 2.5, 4.0]
    assert flat.get('q').tolist() == flat.matrix.tolist() == [[0.0], [1.0], [4.0]]
    assert repr(flat) == 'TimeSeries(3 x 1, 0 to 2 s: q)'


@pytest.mark.parametrize(
    ('times', 'data', 'complaint'),
    [
        ([0.0, 1.0], [1.0], r'Length of times \(2\) and data \(1\) must match'),
        ([[0.0]], [[1.0]], r'times to be a 1D array, found one of shape \(1, 1\)'),
        (0.0, [1.0], r'times to be a 1D array, found one of shape \(\)'),
        ([0.0], np.zeros((1, 1, 1)), r'data of shape \(n, k\) or \(n,\), found \(1, 1, 1\)'),
        ([0.0], 1.0, r'data of shape \(n, k\) or \(n,\), found \(\)'),
    ],
)
def test_shapes_that_do_not_fit_are_named(
    times: ArrayLike, data: ArrayLike, complaint: str
) -> None:
    with pytest.raises(SignalError, match=complaint):
        TimeSeries(times, data)


@pytest.mark.slow
@pytest.mark.parametrize(
    'signals',
    [['a'], ['a', 'a', 'c'], [('a', 0, SignalType.CustomObs), 'b', 'c', 'd']],
)
def test_custom_signals_have_to_fit_the_columns(signals: Any):
    with pytest.raises(SignalError, match=r'Expected data of shape|positive width'):
        TimeSeries.from_custom_map([0.0], [[1, 2, 3]], signals)


def test_a_slice_is_that_of_the_sysid_toolbox():
    reference = pytest.importorskip('mujoco.sysid._src.timeseries')
    data = np.random.default_rng(1).normal(size=(3, 5))
    ours = TimeSeries.from_names(np.arange(3.0), data, MODEL, ['pos', 'gyro', 'b_qvel'])
    theirs = reference.TimeSeries.from_names(np.arange(3.0), data, MODEL, ['pos', 'gyro', 'b_qvel'])
    for names in (['gyro'], ['b_qvel', 'pos'], ['pos', 'gyro', 'b_qvel']):
        mine = TimeSeries.slice_by_name(ours, names)
        other = reference.TimeSeries.slice_by_name(theirs, names)
        np.testing.assert_array_equal(mine.data, other.data)
        for name in names:
            np.testing.assert_array_equal(mine.get_indices(name)[1], other.get_indices(name)[1])


def test_resampling_keeps_the_names_and_takes_either_form():
    series = TimeSeries.from_columns([0.0, 1.0], [0.0, 2.0], ['a'])
    assert series.resample([0.25, 0.5]).get('a')[:, 0].tolist() == [0.5, 1.0]
    assert series.resample(target_dt=0.4).times.tolist() == [0.0, 0.4, 0.8]
    for wrong in ({}, {'target_dt': -0.5}, {'target_dt': np.nan}, {'new_times': [[0.0]]}):
        with pytest.raises(SignalError, match='Expected'):
            series.resample(**wrong)  # type: ignore[arg-type]
    with pytest.raises(SignalError, match='strictly increasing'):
        series.resample([0.5, 0.2])


SQUARES = TimeSeries([0.0, 1.0, 2.0, 3.0, 4.0], [0.0, 1.0, 4.0, 9.0, 16.0])
STARTS = st.one_of(st.just(0.0), st.just(0.3), st.floats(-1e3, 1e3), st.floats(1.6e9, 1.8e9))


@pytest.mark.slow
@given(start=STARTS, period=st.sampled_from([1e-3, 2e-3, 1 / 300, 0.01, 0.02]), count=st.data())
@settings(max_examples=100, deadline=None)
def test_an_exact_grid_is_resampled_to_itself_at_any_start_time(
    start: float, period: float, count: Any
):
    n = count.draw(st.integers(1, 3000))
    times = start + np.arange(n) * period
    data = np.arange(n, dtype=float)

    for method in ('linear', 'zoh'):
        resampled = TimeSeries(times, data).resample(target_dt=period, method=method)
        np.testing.assert_array_equal(resampled.times, start + np.arange(n) * period)
        np.testing.assert_array_equal(resampled.data, data)


@pytest.mark.slow
@pytest.mark.parametrize('method', ['linear', 'quadratic', 'cubic', 'zoh'])
def test_values_are_those_of_the_sysid_toolbox(method: Any):
    reference = pytest.importorskip('mujoco.sysid._src.timeseries')
    rng = np.random.default_rng(3)
    times = np.cumsum(rng.uniform(0.01, 0.1, 40))
    data = rng.normal(size=(40, 3))
    at = np.linspace(times[0] - 0.1, times[-1] + 0.1, 333)
    np.testing.assert_allclose(
        TimeSeries(times, data).interpolate(at, method),
        reference.TimeSeries(times, data).interpolate(at, method),
        atol=1e-10,
    )


@pytest.mark.parametrize('method', ['linear', 'quadratic', 'cubic', 'quintic', 'zoh'])
def test_a_missing_sample_spoils_only_its_neighbourhood(method: Any):
    times = np.arange(12.0)
    data = np.column_stack([np.sin(times), np.cos(times)])
    data[5, 0] = np.nan
    values = TimeSeries(times, data).interpolate(np.arange(0, 11.25, 0.25), method)
    spoiled = np.flatnonzero(np.isnan(values[:, 0])) / 4

    assert not np.isnan(values[:, 1]).any()
    assert spoiled.min() >= 4.25
    assert spoiled.max() <= 5.75
    assert 5.0 in spoiled
    assert values[16, 0] == pytest.approx(np.sin(4.0))


@pytest.mark.parametrize(
    ('at', 'method', 'message'),
    [
        ([np.nan], 'linear', 'finite instants'),
        ([0.5], 'cubik', 'nearest: cubic'),
        ([0.5], 'quintic', 'needs 6 samples, found 5'),
    ],
)
def test_what_cannot_be_interpolated_is_said(at: Any, method: Any, message: str):
    with pytest.raises(SignalError, match=message):
        SQUARES.interpolate(at, method)


@pytest.fixture
def series() -> TimeSeries:
    """Return a series whose columns are not in the order of its names."""
    mapping = {
        'gyro': (SignalType.MjSensor, np.array([2, 0])),
        'push_ctrl': (SignalType.MjCtrl, np.array([1])),
    }
    data = np.random.default_rng(0).normal(size=(4, 3))
    return TimeSeries(1.7e9 + np.arange(4) * 0.1, data, mapping)


def assert_same(a: Any, b: Any) -> None:
    np.testing.assert_array_equal(a.times, b.times)
    np.testing.assert_array_equal(a.data, b.data)
    plain = [
        {name: (kind.name, at.tolist()) for name, (kind, at) in s.signal_mapping.items()}
        for s in (a, b)
    ]
    assert plain[0] == plain[1]


def test_a_series_comes_back_exactly(series: TimeSeries, tmp_path: Path):
    series.save_to_disk(tmp_path / 'a.npz')
    assert_same(TimeSeries.load_from_disk(tmp_path / 'a.npz'), series)


def test_a_missing_file_names_its_neighbours(series: TimeSeries, tmp_path: Path):
    series.save_to_disk(tmp_path / 'run_1.npz')
    with pytest.raises(SignalError, match=r'No file .*run_2.npz.*nearest: run_1.npz'):
        TimeSeries.load_from_disk(tmp_path / 'run_2')


@pytest.mark.parametrize('content', [b'', b'not a file of arrays', b'PK\x03\x04broken'])
def test_a_file_of_another_kind_is_told(content: bytes, tmp_path: Path):
    path = tmp_path / 'a.npz'
    path.write_bytes(content)
    if not content:  # and one that would have to be unpickled
        np.savez(path, times=np.array([{}], dtype=object), data=np.zeros(1))
    with pytest.raises(SignalError, match=r'Expected a .npz file of numeric arrays'):
        TimeSeries.load_from_disk(path)


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
