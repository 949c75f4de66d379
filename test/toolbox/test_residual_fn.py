# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The toolbox's residual function."""

from __future__ import annotations

from typing import Any

import mujoco
import numpy as np
import pytest

from builders.toolbox_arm import ARM, record, sequences, spec_of
from sysid_ros import toolbox as sysid
from sysid_ros.signals import SignalType
from sysid_ros.toolbox.timeseries import TimeSeries

EPOCH = 1.7e9


def damping(value: float = 0.3, **more: Any) -> sysid.ParameterDict:
    params = sysid.ParameterDict()
    params.add(sysid.Parameter('d', value, 0.01, 2.0, target='joint/j/damping', **more))
    return params


def truth(spec: mujoco.MjSpec) -> None:
    spec.joint('j').damping[0] = 0.7


@pytest.mark.parametrize('start', [0.0, 0.3, EPOCH])
def test_residuals_vanish_at_the_truth_at_any_start_time(start: float) -> None:
    fn = sysid.build_residual_fn(models_sequences=sequences(*record(start=start, change=truth)))
    found, predicted, measured = fn(np.array([0.7]), damping())
    assert len(found) == 1
    assert found[0].shape == (400 * 6,)
    assert np.max(np.abs(found[0])) < 1e-6
    assert np.max(np.abs(fn(np.array([0.3]), damping())[0][0])) > 10
    np.testing.assert_array_equal(predicted[0][0].times, measured[0][0].times)
    np.testing.assert_allclose(predicted[0][0].data, measured[0][0].data, atol=1e-9)
    assert measured[0][0].times[0] == start


def test_frozen_parameters_are_written_and_not_moved() -> None:
    def change(spec: mujoco.MjSpec) -> None:
        truth(spec)
        spec.body('lower').gravcomp = 0.5
        spec.joint('k').armature = 0.05

    groups = sequences(*record(change=change))
    params = damping()
    params.add(sysid.Parameter('k', 0.05, 0, 1, frozen=True, target='joint/k/armature'))

    def lift(spec: mujoco.MjSpec, parameter: sysid.Parameter) -> None:
        spec.body('lower').gravcomp = parameter.value[0]

    params.add(sysid.Parameter('g', 0.5, 0, 1, frozen=True, modifier=lift))
    fn = sysid.build_residual_fn(models_sequences=groups)
    assert np.max(np.abs(fn(np.array([0.7]), params)[0][0])) < 1e-6


@pytest.mark.parametrize('frozen', [False, True])
def test_a_model_builder_of_the_users_own_compiles_each_candidate(frozen: bool) -> None:
    seen = []

    def build(params: sysid.ParameterDict, spec: mujoco.MjSpec) -> mujoco.MjModel:
        seen.append(params['d'].value[0])
        truth(spec)
        return spec.compile()

    params = sysid.ParameterDict({'d': sysid.Parameter('d', 0.3, 0.01, 2.0, frozen=frozen)})
    groups = sequences(*record(change=truth))
    fn = sysid.build_residual_fn(models_sequences=groups, build_model=build)
    x = np.array([] if frozen else [0.7])
    assert np.max(np.abs(fn(x, params)[0][0])) < 1e-6
    assert (0.3 if frozen else 0.7) in seen


def test_weights_scale_residuals_and_observations_choose_them() -> None:
    groups = sequences(*record())
    plain = sysid.build_residual_fn(models_sequences=groups)
    one = np.array([0.9])
    whole = plain(one, damping())[0][0].reshape(400, 6)
    heavy = plain(one, damping(), sensor_weights={'q': 3.0})[0][0].reshape(400, 6)
    np.testing.assert_allclose(heavy[:, 0], 3 * whole[:, 0])
    np.testing.assert_array_equal(heavy[:, 1:], whole[:, 1:])
    some = plain(one, damping(), enabled_observations=[('w', SignalType.MjSensor), 'q'])
    assert some[0][0].shape == (400 * 4,)
    assert set(some[2][0][0].signal_mapping) == {'w', 'q'}


def test_measured_parts_of_the_state_are_compared_at_their_own_times() -> None:
    control, _, state = record(change=truth)
    spec = spec_of()
    truth(spec)
    model = spec.compile()
    (rollout,) = sysid.sysid_rollout(model, mujoco.MjData(model), [control], [state])
    assert rollout.state is not None
    series = rollout.state.slice_by_name(['k_qpos', 'j_qvel'])
    fn = sysid.build_residual_fn(
        models_sequences=sequences(control, series, state, allow_missing_sensors=True)
    )
    found = fn(np.array([0.7]), damping())[0][0]
    assert found.shape == (2 * len(series),)
    assert np.max(np.abs(found)) < 1e-6
    assert np.max(np.abs(fn(np.array([0.3]), damping())[0][0])) > 10


def test_models_and_sequences_are_stacked_in_order() -> None:
    first, second = record(change=truth), record(steps=150, start=5.0, change=truth)
    twice = sysid.ModelSequences(
        'twice',
        spec_of(),
        ['x', 'y'],
        [first[2], second[2]],
        [first[0], second[0]],
        [first[1], second[1]],
    )
    heavy = ARM.replace('mass="1"', 'mass="2"')
    third = record(steps=90, change=truth, xml=heavy)
    other = sysid.ModelSequences('heavy', spec_of(heavy), 'z', third[2], third[0], third[1])
    fn = sysid.build_residual_fn(models_sequences=[twice, other])
    found, predicted, measured = fn(np.array([0.7]), damping())
    assert [len(part) for part in found] == [2400, 900, 540]
    assert max(np.max(np.abs(part)) for part in found) < 1e-6
    assert len(predicted) == len(measured) == 3


def test_a_simulation_of_the_users_own_is_compared_by_name() -> None:
    control, sensors, state = record(change=truth)
    calls = []

    def simulate(**given: Any) -> Any:
        calls.append((len(given['models']), [p['d'].value[0] for p in given['param_dicts']]))
        given.pop('param_dicts')
        return sysid.sysid_rollout(**given)

    fn = sysid.build_residual_fn(
        models_sequences=sequences(control, sensors, state), custom_rollout=simulate
    )
    found = fn(np.array([[0.7, 0.2]]), damping())[0][0]
    assert calls == [(2, [0.7, 0.2])]
    assert np.max(np.abs(found[:, 0])) < 1e-5
    assert np.max(np.abs(found[:, 1])) > 10


def test_samples_outside_of_the_controls_are_counted_and_not_compared() -> None:
    control, sensors, state = record(change=truth)
    short = control.rows(slice(300))
    fn = sysid.build_residual_fn(models_sequences=sequences(short, sensors, state))
    assert fn(np.array([0.7]), damping())[0][0].shape == (300 * 6,)
    assert fn.excluded == 100


def test_sample_by_sample_takes_no_notice_of_stamps() -> None:
    control, sensors, state = record(change=truth)
    stretched = TimeSeries(1.5 * control.times, control.data, control.signal_mapping)
    wrong = TimeSeries(1.5 * sensors.times, sensors.data, sensors.signal_mapping)
    fn = sysid.build_residual_fn(
        models_sequences=sequences(stretched, wrong, state), resample_true=False
    )
    assert np.max(np.abs(fn(np.array([0.7]), damping())[0][0])) < 1e-6


@pytest.mark.parametrize('as_callback', [True, False])
def test_a_signal_transform_is_fitted_without_simulating(as_callback: bool) -> None:
    control, sensors, state = record()
    data = sensors.data.copy()
    data[:, 0] = 1.2 * data[:, 0] + 0.3
    late = np.interp(sensors.times - 0.013, sensors.times, data[:, 2])
    data[:, 2] = np.where(sensors.times < 0.013, np.nan, late)
    params = sysid.ParameterDict()
    params.add(sysid.Parameter('gain', 1.0, 0.1, 3.0))
    params.add(sysid.Parameter('bias', 0.0, -1.0, 1.0))
    params.add(sysid.Parameter('delay', 0.0, 0.0, 0.05))
    params.add(sysid.Parameter('fixed', 1.0, 0.5, 2.0, frozen=True))
    transform = sysid.SignalTransform()
    transform.gain('q', params['gain'], target='predicted')
    transform.gain('v', params['fixed'], target='predicted')
    transform.bias('q', params['bias'], target='predicted')
    transform.delay('p', params['delay'])
    option = (
        {'modify_residual': transform.apply} if as_callback else {'signal_transform': transform}
    )
    groups = sequences(control, TimeSeries(sensors.times, data, sensors.signal_mapping), state)
    fn = sysid.build_residual_fn(models_sequences=groups, **option)
    fitted, result = sysid.optimize(params, fn, verbose=False)
    np.testing.assert_allclose(fitted.as_vector(), [1.2, 0.3, 0.013], rtol=1e-6)
    assert result.nfev <= 2


@pytest.mark.slow
def test_initial_states_are_unknowns_of_their_sequences() -> None:
    first, second = record(change=truth), record(change=truth, qvel=(1.0, 0.5))
    wrong = [entry.copy() for entry in (first[2], second[2])]
    for state in wrong:
        state[3:5] += 0.2  # time, two positions, two velocities
    group = sysid.ModelSequences(
        'arm', spec_of(), ['x', 'y'], wrong, [first[0], second[0]], [first[1], second[1]]
    )
    params = damping()
    params.add(sysid.Parameter('vx', wrong[0][3:5], -5, 5, target='sequence/x/initial_qvel'))
    params.add(sysid.Parameter('vy', wrong[1][3:5], -5, 5, target='sequence/y/initial_qvel'))
    fn = sysid.build_residual_fn(models_sequences=[group])
    fitted, _ = sysid.optimize(params, fn, verbose=False)
    np.testing.assert_allclose(fitted.as_vector(), [0.7, 0.3, -0.2, 1.0, 0.5], rtol=1e-6)


@pytest.mark.parametrize(
    ('options', 'x', 'complaint'),
    [
        ({'model_sequences': []}, 0.3, "Unknown option 'model_sequences'.*nearest: models_seq"),
        ({'models_sequences': []}, 0.3, 'at least one ModelSequences'),
        ({'sensor_stamps': 'late'}, 0.3, "'auto', 'measured' or 'rollout', found 'late'"),
        ({'enabled_observations': ['qq']}, 0.3, "no signal 'qq' to observe; nearest: q"),
        ({'enabled_observations': [('v', SignalType.MjStateQVel)]}, 0.3, 'of type MjSensor'),
        ({'sensor_weights': {'velocity': 2.0}}, 0.3, "no signal 'velocity' to weight"),
        ({'sensor_weights': {'v': np.nan}}, 0.3, 'Expected a finite weight'),
        ({}, [0.3, 0.4], 'Expected 1 values'),
        ({}, [[[0.3]]], 'Expected'),
        ({'build_model': lambda _params, _spec: None}, 0.3, 'an MjModel, found NoneType'),
        ({'custom_rollout': lambda **_: None}, 0.3, '1 trajectories, one per model, found 0'),
        ({'modify_residual': lambda _, found, *__, **___: found.data}, 0.3, 'found ndarray'),
    ],
)
def test_a_wrong_option_is_an_error(options: dict[str, Any], x: Any, complaint: str) -> None:
    groups = sequences(*record(steps=20))
    with pytest.raises(ValueError, match=complaint):
        sysid.build_residual_fn(**{'models_sequences': groups, **options})(
            np.array(x if isinstance(x, list) else [x]), damping()
        )
