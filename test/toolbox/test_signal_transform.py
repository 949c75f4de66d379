# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A transform says by patterns what acts on which sensor, and applies it."""

from __future__ import annotations

from typing import Any

import mujoco
import numpy as np
import pytest

from sysid_ros.errors import ParameterError, SignalError
from sysid_ros.signals import SignalType
from sysid_ros.toolbox.parameter import Parameter, ParameterDict
from sysid_ros.toolbox.signals import SensorParameters, SignalTransform
from sysid_ros.toolbox.timeseries import TimeSeries

NAMES = ['j1_pos', 'j2_pos', 'j1_vel', 'j2_vel', 'j1_torque']
MODEL = mujoco.MjModel.from_xml_string("""
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
    law = transform.acting_on(sensor)
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


def test_applying_a_transform_gives_the_residual_of_its_laws() -> None:
    transform, params = full()
    transform.normalize = False
    residual, predicted, measured = transform.apply(
        params, predicted_series(), measured_series(), MODEL, return_pred_all=False
    )
    assert predicted.names == measured.names == tuple(NAMES)
    for column, name in enumerate(NAMES):
        expected = by_formula(transform, params, name, measured.times)
        np.testing.assert_allclose(residual[:, column], expected, atol=1e-12)


def test_what_is_compared_is_predicted_for_every_delay_in_the_bounds() -> None:
    transform, params = full()
    _, predicted, measured = transform.apply(params, predicted_series(), measured_series(), MODEL)
    source = predicted_series()
    assert measured.times[0] >= source.times[0] + 0.05
    assert measured.times[0] - 0.05 < 0.0137
    assert measured.times[-1] <= source.times[-1] - 0.01
    np.testing.assert_array_equal(predicted.times, measured.times)
    lengths = set()
    for delay in (-0.01, 0.0, 0.03):
        params['d'].value[:] = delay
        residual = transform.apply(params, source, measured_series(), MODEL)[0]
        lengths.add(len(residual))
    assert len(lengths) == 1


def test_the_law_of_each_sensor_names_what_acts_on_it() -> None:
    transform, _ = full()
    everything = SensorParameters(('g', 'g_all'), ('g_all',), (), (), 'd')
    assert transform.acting_on('j1_pos') == everything
    assert transform.acting_on('j2_vel').measured_biases == ('b', 'b_measured')
    assert transform.acting_on('j1_torque').delay == 'd_torque'


def test_bounds_and_values_come_from_the_dictionary_that_is_passed() -> None:
    params = parameters(a=(0.02, 0.0, 0.05))
    transform = SignalTransform()
    transform.delay('*', params['a'])
    wider = parameters(a=(0.02, -0.1, 0.3))
    assert transform.delay_bounds(wider) == (-0.1, 0.3)
    with pytest.raises(ParameterError, match=r"'a'.*nearest: aa"):
        transform.delay_bounds(parameters(aa=(0.0, -1.0, 1.0)))


@pytest.mark.parametrize('kind', ['delay', 'gain', 'bias'])
def test_a_pattern_that_matches_nothing_is_an_error(kind: str) -> None:
    # The reference ignores it.
    params = parameters(p=(0.02, 0.0, 0.05))
    transform = SignalTransform()
    getattr(transform, kind)('j1_poss', params['p'])
    with pytest.raises(SignalError, match=r"'j1_poss' of parameter 'p'.*nearest: j1_pos"):
        transform.check(NAMES)
    with pytest.raises(SignalError, match='matches no sensor'):
        transform.apply(params, predicted_series(), measured_series(), MODEL)


def test_enabled_sensors_keep_their_names_and_order() -> None:
    # The reference drops the names of what it keeps.
    transform, params = full()
    chosen = ['j2_vel', 'j1_pos']
    transform.enable_sensors(chosen)
    chosen.append('j2_pos')
    assert transform.enabled == ('j2_vel', 'j1_pos')
    residual, predicted, measured = transform.apply(
        params, predicted_series(), measured_series(), MODEL, return_pred_all=False
    )
    assert residual.shape == measured.data.shape == predicted.data.shape
    assert predicted.names == measured.names == ('j2_vel', 'j1_pos')
    assert measured.get_indices('j1_pos')[0] is SignalType.MjSensor
    everything, _, whole = transform.apply(
        params, predicted_series(), measured_series(), MODEL, return_pred_all=True
    )
    assert everything.shape[1] == 5
    assert whole.names == tuple(NAMES)


@pytest.mark.parametrize(
    ('use', 'message'),
    [
        (lambda t, _: t.enable_sensors(['j1_poss']), 'to enable; nearest: j1_pos'),
        (lambda t, _: t.set_sensor_weights({'j1_poss': 2.0}), 'to weight; nearest: j1_pos'),
        (lambda t, _: t.set_sensor_weights({'j1_pos': -2.0}), 'at least 0'),
        (lambda t, _: t.enable_sensors([]), 'at least one sensor'),
        (lambda t, p: t.gain('J1_*', p), 'matches no sensor'),
        (lambda t, p: t.gain('*', p, target='predict'), 'target must be.*nearest: predicted'),
        (lambda t, p: t.bias('*', p, target='neither'), 'target must be'),
    ],
)
def test_rules_that_make_no_sense_are_refused(use: Any, message: str) -> None:
    def checked(transform: SignalTransform) -> None:
        use(transform, Parameter('g', 1.0, 0.5, 2.0))
        transform.check(NAMES)

    with pytest.raises(SignalError, match=message):
        checked(SignalTransform())


def test_permuted_and_missing_sensors_are_paired_by_name() -> None:
    # The reference compares them in the order of the model.
    transform, params = full()
    everything, _, _ = transform.apply(params, predicted_series(), measured_series(), MODEL)
    names = ['j1_torque', 'j2_vel', 'j1_pos', 'j1_vel']
    part, predicted, _ = transform.apply(params, predicted_series(), measured_series(names), MODEL)
    assert predicted.names == tuple(names)
    np.testing.assert_allclose(part, everything[:, [NAMES.index(name) for name in names]])


def test_samples_that_were_not_measured_have_no_residual() -> None:
    # The reference passes one NaN on to the whole fit.
    transform, params = full()
    source = measured_series()
    data = np.array(source.data)
    data[40, 1] = np.nan
    holed = TimeSeries(source.times, data, source.signal_mapping)
    residual, _, measured = transform.apply(params, predicted_series(), holed, MODEL)
    assert np.isfinite(residual).all()
    assert residual[np.isnan(measured.data[:, 1]), 1] == [0.0]


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
