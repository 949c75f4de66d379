# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A transform says by patterns what acts on which sensor, and applies it."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest
from mujoco.sysid._src import parameter as reference_parameter
from mujoco.sysid._src import signal_transform as reference
from mujoco.sysid._src import timeseries as reference_series

from sysid_ros.errors import ParameterError, SignalError
from sysid_ros.signals import SignalType
from sysid_ros.toolbox.parameter import Parameter, ParameterDict
from sysid_ros.toolbox.signal_modifier import normalize_residual
from sysid_ros.toolbox.signal_transform import SensorParameters, SignalTransform
from sysid_ros.toolbox.timeseries import TimeSeries

NAMES = ['j1_pos', 'j2_pos', 'j1_vel', 'j2_vel', 'j1_torque']


@pytest.fixture
def model() -> mujoco.MjModel:
    return mujoco.MjModel.from_xml_string("""
    <mujoco>
      <worldbody>
        <body>
          <joint name="j1"/><geom size=".1"/>
          <body pos="0 0 1"><joint name="j2"/><geom size=".1"/></body>
        </body>
      </worldbody>
      <actuator><motor name="m" joint="j1"/></actuator>
      <sensor>
        <jointpos name="j1_pos" joint="j1"/><jointpos name="j2_pos" joint="j2"/>
        <jointvel name="j1_vel" joint="j1"/><jointvel name="j2_vel" joint="j2"/>
        <actuatorfrc name="j1_torque" actuator="m"/>
      </sensor>
    </mujoco>""")


def parameters(**values: tuple[float, float, float]) -> ParameterDict:
    """Value, lower and upper bound by name."""
    found = ParameterDict()
    for name, (value, low, high) in values.items():
        found.add(Parameter(name, value, low, high))
    return found


def wave(at: np.ndarray, column: int) -> np.ndarray:
    return np.sin(3 * at + column) + 0.2 * column * np.cos(7 * at)


def predicted_series(count: int = 400) -> TimeSeries:
    times = 0.005 * np.arange(count)
    data = np.column_stack([wave(times, k) for k in range(len(NAMES))])
    return TimeSeries.from_columns(times, data, NAMES)


def measured_series(names: list[str] = NAMES) -> TimeSeries:
    times = 0.0137 * np.arange(140)
    data = [1.1 * wave(times - 0.01, NAMES.index(name)) + 0.3 for name in names]
    return TimeSeries.from_columns(times, np.column_stack(data), names)


def full() -> tuple[SignalTransform, ParameterDict]:
    """A transform in which everything acts."""
    params = parameters(
        d=(0.012, -0.01, 0.03),
        d_torque=(0.021, 0.0, 0.05),
        g=(1.3, 0.5, 2.0),
        g_all=(0.9, 0.5, 2.0),
        b=(0.2, -1.0, 1.0),
        b_measured=(-0.4, -1.0, 1.0),
    )
    transform = SignalTransform()
    transform.delay('*', params['d'])
    transform.delay('*_torque', params['d_torque'])
    transform.gain('j1_*', params['g'], target='predicted')
    transform.gain('*', params['g_all'])
    transform.bias('*_vel', params['b'])
    transform.bias('j2_*', params['b_measured'], target='measured')
    transform.set_sensor_weights({'j2_vel': 3.0, 'j1_torque': 0.0})
    return transform, params


def by_formula(
    transform: SignalTransform, params: ParameterDict, sensor: str, times: np.ndarray
) -> np.ndarray:
    """Return w·((g_m·y + b_m) − (g_p·p(t − d) + b_p)) from the declared law."""
    law = {law.sensor: law for law in transform.sensor_parameters(NAMES)}[sensor]
    value = {name: float(params[name].value[0]) for name in params}
    predicted, measured = predicted_series(), measured_series()
    y = np.interp(times, measured.times, measured.get(sensor)[:, 0])
    delay = value[law.delay] if law.delay else 0.0
    p = np.interp(times - delay, predicted.times, predicted.get(sensor)[:, 0])
    left = y * np.prod([value[n] for n in law.measured_gains])
    right = p * np.prod([value[n] for n in law.predicted_gains])
    left = left + sum(value[n] for n in law.measured_biases)
    right = right + sum(value[n] for n in law.predicted_biases)
    return (transform.weights or {}).get(sensor, 1.0) * (left - right)


def test_applying_a_transform_gives_the_residual_of_its_laws(model: mujoco.MjModel) -> None:
    transform, params = full()
    transform.normalize = False
    residual, predicted, measured = transform.apply(
        params, predicted_series(), measured_series(), model, return_pred_all=False
    )
    assert predicted.names == measured.names == tuple(NAMES)
    for column, name in enumerate(NAMES):
        expected = by_formula(transform, params, name, measured.times)
        np.testing.assert_allclose(residual[:, column], expected, atol=1e-12)


def test_normalising_only_scales_the_channels(model: mujoco.MjModel) -> None:
    transform, params = full()
    scaled, _, measured = transform.apply(params, predicted_series(), measured_series(), model)
    transform.normalize = False
    plain, _, _ = transform.apply(params, predicted_series(), measured_series(), model)
    np.testing.assert_allclose(scaled, normalize_residual(plain, measured.data))


def test_what_is_compared_is_predicted_for_every_delay_in_the_bounds(
    model: mujoco.MjModel,
) -> None:
    transform, params = full()
    _, predicted, measured = transform.apply(params, predicted_series(), measured_series(), model)
    source = predicted_series()
    assert measured.times[0] >= source.times[0] + 0.05
    assert measured.times[0] - 0.05 < 0.0137
    assert measured.times[-1] <= source.times[-1] - 0.01
    np.testing.assert_array_equal(predicted.times, measured.times)
    lengths = set()
    for delay in (-0.01, 0.0, 0.03):
        params['d'].value[:] = delay
        residual = transform.apply(params, source, measured_series(), model)[0]
        lengths.add(len(residual))
    assert len(lengths) == 1


def test_the_true_delay_has_the_smallest_residual(model: mujoco.MjModel) -> None:
    # The reference's window has the wrong sign: it compares what was not simulated.
    params = parameters(d=(0.0, 0.0, 0.1))
    transform = SignalTransform(normalize=False)
    transform.delay('*', params['d'])
    times = 0.005 * np.arange(100, 300)
    late = TimeSeries.from_columns(
        times, np.column_stack([wave(times - 0.04, k) for k in range(5)]), NAMES
    )
    costs = {}
    for delay in (0.0, 0.02, 0.04, 0.06):
        params['d'].value[:] = delay
        costs[delay] = np.sum(transform.apply(params, predicted_series(), late, model)[0] ** 2)
    assert min(costs, key=costs.__getitem__) == 0.04
    assert costs[0.04] < 1e-20


def test_the_law_of_each_sensor_names_what_acts_on_it() -> None:
    transform, _ = full()
    laws = {law.sensor: law for law in transform.sensor_parameters(NAMES)}
    assert laws['j1_pos'] == SensorParameters('j1_pos', ('g', 'g_all'), ('g_all',), (), (), 'd')
    assert laws['j2_vel'] == SensorParameters(
        'j2_vel', ('g_all',), ('g_all',), ('b',), ('b', 'b_measured'), 'd'
    )
    assert laws['j1_torque'].delay == 'd_torque'


def test_without_rules_nothing_acts(model: mujoco.MjModel) -> None:
    transform = SignalTransform(normalize=False)
    assert transform.sensor_parameters(['a']) == (SensorParameters('a'),)
    assert transform.delay_bounds(ParameterDict()) == (0.0, 0.0)
    assert transform.enabled is None
    assert transform.weights is None
    source = predicted_series()
    residual, _, measured = transform.apply(ParameterDict(), source, source, model)
    np.testing.assert_array_equal(residual, np.zeros((400, 5)))
    assert len(measured) == 400


def test_of_several_delays_the_last_one_counts() -> None:
    params = parameters(a=(0.01, 0.0, 0.05), b=(0.05, 0.0, 0.1))
    transform = SignalTransform()
    transform.delay('*_torque', params['a'])
    transform.delay('j5_*', params['b'])
    first, second = transform.sensor_parameters(['j1_torque', 'j5_torque'])
    assert (first.delay, second.delay) == ('a', 'b')


def test_the_bounds_of_delays_count_undelayed_sensors_and_frozen_values() -> None:
    params = parameters(a=(0.02, 0.01, 0.05), b=(0.07, 0.06, 0.2))
    transform = SignalTransform()
    transform.delay('*_pos', params['a'])
    transform.delay('*_torque', params['b'])
    assert transform.delay_bounds(params) == (0.0, 0.2)
    assert transform.delay_bounds(params, ['j1_pos']) == (0.01, 0.05)
    assert transform.delay_bounds(params, ['j1_pos', 'j1_vel']) == (0.0, 0.05)
    params['b'].frozen = True
    assert transform.delay_bounds(params) == (0.0, 0.07)


def test_bounds_and_values_come_from_the_dictionary_that_is_passed() -> None:
    params = parameters(a=(0.02, 0.0, 0.05))
    transform = SignalTransform()
    transform.delay('*', params['a'])
    wider = parameters(a=(0.02, -0.1, 0.3))
    assert transform.delay_bounds(wider) == (-0.1, 0.3)
    with pytest.raises(ParameterError, match=r"'a'.*nearest: aa"):
        transform.delay_bounds(parameters(aa=(0.0, -1.0, 1.0)))


@pytest.mark.parametrize('kind', ['delay', 'gain', 'bias'])
def test_a_pattern_that_matches_nothing_is_an_error(kind: str, model: mujoco.MjModel) -> None:
    # The reference ignores it.
    params = parameters(p=(0.02, 0.0, 0.05))
    transform = SignalTransform()
    getattr(transform, kind)('j1_poss', params['p'])
    with pytest.raises(SignalError, match=r"'j1_poss' of parameter 'p'.*nearest: j1_pos"):
        transform.sensor_parameters(NAMES)
    with pytest.raises(SignalError, match='matches no sensor'):
        transform.apply(params, predicted_series(), measured_series(), model)


def test_a_model_may_lack_sensors_that_another_one_has(model: mujoco.MjModel) -> None:
    params = parameters(p=(1.5, 1.0, 2.0))
    transform = SignalTransform()
    transform.gain('gripper_*', params['p'])
    transform.check([*NAMES, 'gripper_pos'])
    residual, _, _ = transform.apply(params, predicted_series(), measured_series(), model)
    assert residual.shape[1] == 5


def test_upper_and_lower_case_differ() -> None:
    transform = SignalTransform()
    transform.gain('J1_*', Parameter('g', 1.0, 0.5, 2.0))
    with pytest.raises(SignalError, match='matches no sensor'):
        transform.check(NAMES)


def test_enabled_sensors_keep_their_names_and_order(model: mujoco.MjModel) -> None:
    # The reference drops the names of what it keeps.
    transform, params = full()
    chosen = ['j2_vel', 'j1_pos']
    transform.enable_sensors(chosen)
    chosen.append('j2_pos')
    assert transform.enabled == ('j2_vel', 'j1_pos')
    residual, predicted, measured = transform.apply(
        params, predicted_series(), measured_series(), model, return_pred_all=False
    )
    assert residual.shape == measured.data.shape == predicted.data.shape
    assert predicted.names == measured.names == ('j2_vel', 'j1_pos')
    assert measured.get_indices('j1_pos')[0] is SignalType.MjSensor
    everything, _, whole = transform.apply(
        params, predicted_series(), measured_series(), model, return_pred_all=True
    )
    assert everything.shape[1] == 5
    assert whole.names == tuple(NAMES)


def test_enabled_or_weighted_sensors_must_exist() -> None:
    transform = SignalTransform()
    transform.enable_sensors(['j1_poss'])
    with pytest.raises(SignalError, match='to enable; nearest: j1_pos'):
        transform.check(NAMES)
    transform = SignalTransform()
    transform.set_sensor_weights({'j1_poss': 2.0})
    with pytest.raises(SignalError, match='to weight; nearest: j1_pos'):
        transform.check(NAMES)
    with pytest.raises(SignalError, match='at least 0'):
        transform.set_sensor_weights({'j1_pos': -2.0})
    with pytest.raises(SignalError, match='at least one sensor'):
        transform.enable_sensors([])


def test_weights_of_the_call_replace_those_of_the_transform(model: mujoco.MjModel) -> None:
    transform = SignalTransform(normalize=False)
    transform.set_sensor_weights({'j1_pos': 5.0})
    args = (ParameterDict(), predicted_series(), measured_series(), model)
    own = transform.apply(*args)[0]
    called = transform.apply(*args, sensor_weights={'j2_pos': 2.0})[0]
    np.testing.assert_allclose(own[:, 0], 5 * called[:, 0])
    np.testing.assert_allclose(2 * own[:, 1], called[:, 1])


def test_permuted_and_missing_sensors_are_paired_by_name(model: mujoco.MjModel) -> None:
    # The reference compares them in the order of the model.
    transform, params = full()
    everything, _, _ = transform.apply(params, predicted_series(), measured_series(), model)
    names = ['j1_torque', 'j2_vel', 'j1_pos', 'j1_vel']
    part, predicted, _ = transform.apply(params, predicted_series(), measured_series(names), model)
    assert predicted.names == tuple(names)
    np.testing.assert_allclose(part, everything[:, [NAMES.index(name) for name in names]])


def test_a_measured_signal_that_no_sensor_predicts_is_named(model: mujoco.MjModel) -> None:
    measured = TimeSeries.from_columns([0.1, 0.2], np.ones((2, 1)), ['j3_pos'])
    with pytest.raises(SignalError, match="'j3_pos'"):
        SignalTransform().apply(ParameterDict(), predicted_series(), measured, model)


def test_columns_without_names_are_the_model_s_sensors(model: mujoco.MjModel) -> None:
    transform, params = full()
    named, _, _ = transform.apply(params, predicted_series(), measured_series(), model)
    source, measured = predicted_series(), measured_series()
    bare, found, _ = transform.apply(
        params,
        TimeSeries(source.times, source.data),
        TimeSeries(measured.times, measured.data),
        model,
    )
    np.testing.assert_array_equal(bare, named)
    assert found.names == tuple(NAMES)
    with pytest.raises(SignalError, match='Expected 5 columns'):
        transform.apply(params, source, TimeSeries([0.1, 0.2], np.ones((2, 3))), model)


def test_samples_that_were_not_measured_have_no_residual(model: mujoco.MjModel) -> None:
    # The reference passes one NaN on to the whole fit.
    transform, params = full()
    source = measured_series()
    data = np.array(source.data)
    data[40, 1] = np.nan
    data[:, 2] = 7.0
    holed = TimeSeries(source.times, data, source.signal_mapping)
    residual, _, measured = transform.apply(params, predicted_series(), holed, model)
    assert np.isfinite(residual).all()
    assert residual[np.isnan(measured.data[:, 1]), 1] == [0.0]
    np.testing.assert_array_equal(residual[:, 2], np.zeros(len(residual)))


def test_a_rollout_that_ends_before_the_measurements_begin_is_an_error(
    model: mujoco.MjModel,
) -> None:
    source = measured_series()
    later = TimeSeries(source.times + 1.7e9, source.data, source.signal_mapping)
    with pytest.raises(SignalError, match='Expected samples between'):
        SignalTransform().apply(ParameterDict(), predicted_series(), later, model)


def test_nothing_that_is_passed_changes(model: mujoco.MjModel) -> None:
    transform, params = full()
    source, measured = predicted_series(), measured_series()
    copies = source.data.copy(), measured.data.copy(), params.as_vector().copy()
    first = transform.apply(params, source, measured, model)[0]
    again = transform.apply(params, source, measured, model)[0]
    np.testing.assert_array_equal(first, again)
    np.testing.assert_array_equal(source.data, copies[0])
    np.testing.assert_array_equal(measured.data, copies[1])
    np.testing.assert_array_equal(params.as_vector(), copies[2])


def test_a_side_that_does_not_exist_is_refused() -> None:
    transform, param = SignalTransform(), Parameter('g', 1.0, 0.5, 2.0)
    with pytest.raises(SignalError, match=r'target must be.*nearest: predicted'):
        transform.gain('*', param, target='predict')
    with pytest.raises(SignalError, match='target must be'):
        transform.bias('*', param, target='neither')
    with pytest.raises(ParameterError, match='1 component, found 2'):
        transform.delay('*', Parameter('d', [0.0, 0.1], 0.0, 1.0))


def test_a_gain_may_have_one_value_for_each_axis() -> None:
    times = np.linspace(0, 1, 20)
    mapping = {'gyro': (SignalType.MjSensor, np.arange(3))}
    source = TimeSeries(times, np.random.default_rng(0).standard_normal((20, 3)), mapping)
    params = ParameterDict()
    params.add(Parameter('g', [1.0, 2.0, 3.0], 0.1, 5.0))
    transform = SignalTransform(normalize=False)
    transform.gain('gyro', params['g'], target='predicted')
    residual, predicted, _ = transform.apply(params, source, source, None)
    np.testing.assert_allclose(predicted.data, source.data * [1.0, 2.0, 3.0])
    np.testing.assert_allclose(residual, source.data * [0.0, -1.0, -2.0])


def test_gains_and_biases_alone_agree_with_the_reference(model: mujoco.MjModel) -> None:
    source = predicted_series()
    measured = TimeSeries(source.times, source.data**2, source.signal_mapping)
    residuals = []
    for package, parameter in ((reference, reference_parameter), (None, None)):
        make = parameter.Parameter if parameter else Parameter
        params = parameter.ParameterDict() if parameter else ParameterDict()
        params.add(make('g', 1.4, 0.5, 2.0))
        params.add(make('b', 0.3, -1.0, 1.0))
        transform = package.SignalTransform(False) if package else SignalTransform(False)  # noqa: FBT003
        transform.gain('*_vel', params['g'], target='predicted')
        transform.bias('j1_*', params['b'], target='measured')
        transform.set_sensor_weights({'j1_pos': 0.5})
        series = [
            reference_series.TimeSeries(
                ts.times,
                ts.data,
                {
                    name: (reference_series.SignalType(kind.value), columns)
                    for name, (kind, columns) in ts.signal_mapping.items()
                },
            )
            if package
            else ts
            for ts in (source, measured)
        ]
        residuals.append(transform.apply(params, *series, model, return_pred_all=True)[0])
    np.testing.assert_allclose(residuals[1], residuals[0], atol=1e-12)
