# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Code written for MuJoCo's sysid toolbox runs with one changed import."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import mujoco
import numpy as np
import pytest
from numpy.typing import NDArray

from sysid_ros import identification as sysid
from sysid_ros.errors import FitError, ModelError, ParameterError
from sysid_ros.model.rebuild import CandidateError
from sysid_ros.toolbox.optimization import CandidateWarning

Array = NDArray[np.float64]
Modifier = Callable[[mujoco.MjSpec, sysid.Parameter], object]

DT = 0.002
STEPS = 300
ARM = """
<mujoco>
  <option timestep="0.002" integrator="implicitfast"/>
  <worldbody>
    <body name="upper"><joint name="j" axis="0 1 0" damping=".3" armature=".05"/>
      <geom type="capsule" fromto="0 0 0 .3 0 0" size=".02" mass="1" contype="0"/>
      <body name="lower" pos=".3 0 0"><joint name="k" axis="0 1 0" damping=".2" armature=".02"/>
        <geom type="capsule" fromto="0 0 0 .2 0 0" size=".02" mass=".5" contype="0"/></body></body>
  </worldbody>
  <actuator><motor name="a" joint="j"/><position name="b" joint="k" kp="8" kv=".4"/></actuator>
  <sensor><jointpos name="q" joint="j"/><jointvel name="v" joint="j"/>
    <jointpos name="p" joint="k"/></sensor>
</mujoco>
"""
#: Names and defaults of the parameters in mujoco 4.0.0, in order; ``…`` is a default that is not
#: compared: a function, or a number of cores.
SIGNATURES = {
    'Parameter': 'name, nominal, min_value, max_value, frozen=False, modifier=None',
    'Parameter.apply_modifier': 'spec',
    'Parameter.update_from_vector': 'vector',
    'Parameter.sample': 'rng=None',
    'Parameter.move_off_bound': 'fraction=0.05, at_bound_tol=0.001',
    'ParameterDict': 'parameters=None',
    'ParameterDict.add': 'param',
    'ParameterDict.update': 'pdict',
    'ParameterDict.as_vector': 'include_frozen=False',
    'ParameterDict.as_nominal_vector': 'include_frozen=False',
    'ParameterDict.update_from_vector': 'vector',
    'ParameterDict.move_off_bounds': 'fraction=0.05, at_bound_tol=0.001',
    'ParameterDict.save_to_disk': 'path',
    'ParameterDict.load_from_disk': 'path',
    'ParameterDict.sample': 'rng=None',
    'ParameterDict.randomize': 'rng=None',
    'ParameterDict.compare_parameters': (
        'init_params, predicted_params, measured_params=None, sig_digits=4'
    ),
    'ParameterDict.get_non_frozen_parameter_names': '',
    'ParameterDict.get_parameter_info': '',
    'TimeSeries': 'times, data, signal_mapping=…',
    'TimeSeries.compute_all_sensor_mapping': 'model',
    'TimeSeries.compute_all_control_mapping': 'model',
    'TimeSeries.compute_all_state_mappings': 'model',
    'TimeSeries.from_custom_map': 'times, data, signals',
    'TimeSeries.from_names': 'times, data, model, names=None',
    'TimeSeries.from_control_names': 'times, data, model, names=None',
    'TimeSeries.get_indices': 'obs_name',
    'TimeSeries.create': 'times, data, signal_mapping',
    'TimeSeries.save_to_disk': 'path',
    'TimeSeries.save_to_csv': 'path',
    'TimeSeries.load_from_disk': 'path',
    'TimeSeries.interpolate': "t, method='linear'",
    'TimeSeries.get': "t, method='linear'",
    'TimeSeries.resample': "new_times=None, target_dt=None, method='linear'",
    'TimeSeries.remove_from_beginning': 'time_to_remove_s',
    'TimeSeries.dt_statistics': '',
    'ModelSequences': (
        'name, spec, sequence_name, initial_state, control, sensordata, allow_missing_sensors=False'
    ),
    'SystemTrajectory': 'model, control, sensordata, initial_state, state=…',
    'SystemTrajectory.get_sensordata_slice': "sensor='joint_pos'",
    'SystemTrajectory.save_to_disk': 'path',
    'SystemTrajectory.load_from_disk': 'path, model, allow_missing_sensors=False',
    'SystemTrajectory.check_compatible': 'allow_missing_sensors=False',
    'SystemTrajectory.split': 'chunk_size',
    'SystemTrajectory.render': 'height=240, width=320, camera=-1, fps=30',
    'SignalTransform': 'normalize=True',
    'SignalTransform.delay': 'pattern, param',
    'SignalTransform.gain': "pattern, param, target='both'",
    'SignalTransform.bias': "pattern, param, target='both'",
    'SignalTransform.enable_sensors': 'sensor_names',
    'SignalTransform.set_sensor_weights': 'weights',
    'SignalTransform.apply': (
        'params, sensordata_predicted, sensordata_measured, model, return_pred_all=…, state=None, '
        'sensor_weights=None'
    ),
    'apply_bias': 'ts, sensor_name, bias',
    'apply_body_inertia': 'spec, name, param',
    'apply_delay': 'ts, sensor_name, delay',
    'apply_delayed_ts_window': 'ts, ts_delayed, min_delay, max_delay',
    'apply_dgain': 'spec, actuator_name, value',
    'apply_gain': 'ts, sensor_name, gain',
    'apply_param_modifiers': 'params, spec',
    'apply_param_modifiers_spec': 'params, spec',
    'apply_pdgain': 'spec, actuator_name, value',
    'apply_pgain': 'spec, actuator_name, value',
    'apply_resample_and_delay': (
        'ts, times, default_delay, sensor_delays=None, predicted_data=True'
    ),
    'body_inertia_param': (
        'spec, model, body_name, inertia_type=<InertiaType.MassIpos: 1>, scale_rot_inertia=False, '
        'mass_bound_mult=None, ipos_bound_off=None, stretch_bound_mult=None, '
        'shear_bound_off=None, param_name=None, modifier=None'
    ),
    'build_residual_fn': '',
    'calculate_intervals': (
        'residuals_star, J, alpha=0.05, lambda_zero_thresh=1e-15, v_zero_thresh=1e-08'
    ),
    'construct_ts_from_defaults': (
        'state_ts, pred_sensordata, measured_sensordata, enabled_observations=None'
    ),
    'create_initial_state': (
        'model, qpos, qvel=None, act=None, qpos_names=None, qvel_names=None, act_names=None'
    ),
    'default_report': (
        'models_sequences, initial_params, opt_params, residual_fn, opt_result, '
        "title='SysID', save_path=None, build_model=…, generate_videos=True"
    ),
    'get_sensor_indices': 'model, sensor_name, sort=False',
    'model_residual': (
        'x, params, build_model, traj_measured, modify_residual=None, custom_rollout=None, '
        'n_threads=…, return_pred_all=False, resample_true=True, sensor_weights=None, '
        'enabled_observations=()'
    ),
    'normalize_residual': 'residual, measured_data',
    'optimize': (
        "initial_params, residual_fn, optimizer='mujoco', verbose=True, check_conditioning=False"
    ),
    'remove_visuals': 'in_spec',
    'render_rollout': (
        'model, data, state, framerate, camera=-1, width=640, height=480, light_pos=None'
    ),
    'residual': (
        'x, params, models_sequences, build_model=…, modify_residual=None, custom_rollout=None, '
        'n_threads=…, return_pred_all=False, resample_true=True, sensor_weights=None, '
        'enabled_observations=()'
    ),
    'save_results': (
        'experiment_results_folder, models_sequences, initial_params, opt_params, opt_result, '
        'residual_fn'
    ),
    'sysid_rollout': (
        'models, datas, control_signal, initial_states, rollout_signal_mapping=None, '
        'rollout_state_mapping=None, ctrl_mapping=None'
    ),
    'weighted_diff': 'predicted_data, measured_data, model=None, sensor_weights=None',
}
OTHER_NAMES = (
    'BuildModelFn',
    'CustomRolloutFn',
    'InertiaType',
    'ModifyResidualFn',
    'SignalType',
    'model_modifier',
    'parameter',
    'signal_modifier',
)


def record(*, steps: int = STEPS, late: bool = False) -> sysid.SystemTrajectory:
    """Simulate the arm; stamps are those that sensors describe, or of MuJoCo's states."""
    model = mujoco.MjModel.from_xml_string(ARM)
    times = DT * np.arange(steps + 1)
    control = sysid.TimeSeries(times, np.stack([2 * np.sin(7 * times), np.sin(5 * times)], axis=1))
    state = sysid.create_initial_state(model, [0.2, -0.1], [0.3, 0.1])
    run = sysid.sysid_rollout(model, mujoco.MjData(model), control, state)[0]
    sensors, data = run.sensordata, run.sensordata.data
    noise = 1e-3 * np.random.default_rng(1).standard_normal(data.shape)
    stamps = sensors.times + (DT if late else 0.0)
    measured = sysid.TimeSeries(stamps, data + noise, sensors.signal_mapping)
    return sysid.SystemTrajectory(model, control, measured, state)


def sequences(run: sysid.SystemTrajectory | None = None) -> sysid.ModelSequences:
    run = record() if run is None else run
    spec = mujoco.MjSpec.from_string(ARM)
    return sysid.ModelSequences('arm', spec, 'run', run.initial_state, run.control, run.sensordata)


def armature(spec: mujoco.MjSpec, parameter: sysid.Parameter) -> None:
    spec.joint('j').armature = parameter.value[0]


def parameters(modifier: Modifier = armature, start: float = 0.03) -> sysid.ParameterDict:
    params = sysid.ParameterDict()
    params.add(sysid.Parameter('armature', 0.05, 0.001, 1.0, modifier=modifier))
    params['armature'].value[:] = start
    return params


def fit(
    params: sysid.ParameterDict, residual_fn: Callable[..., Any], **more: Any
) -> tuple[sysid.ParameterDict, Any]:
    return sysid.optimize(params, residual_fn, verbose=False, **more)


@pytest.mark.parametrize('name', SIGNATURES)
def test_functions_take_the_parameters_of_the_toolbox(name: str) -> None:
    found: Any = sysid
    for part in name.split('.'):
        found = getattr(found, part)
    ours = [
        (given.name, repr(given.default))
        for given in inspect.signature(found).parameters.values()
        if given.kind is given.POSITIONAL_OR_KEYWORD and given.name != 'self'
    ]
    for place, text in enumerate(filter(None, SIGNATURES[name].split(', '))):
        expected, _, default = text.partition('=')
        assert ours[place][0] == expected
        if default != '…':
            assert ours[place][1] == (default or repr(inspect.Parameter.empty))


def test_all_other_names_of_the_toolbox_are_there() -> None:
    for name in (*OTHER_NAMES, *{name.partition('.')[0] for name in SIGNATURES}):
        assert name in sysid.__all__
        assert hasattr(sysid, name)
    assert sysid.model_modifier.apply_pgain is sysid.apply_pgain
    assert sysid.signal_modifier.weighted_diff is sysid.weighted_diff
    assert sysid.parameter.Parameter is sysid.Parameter


@pytest.mark.slow
def test_the_report_is_a_module_that_is_loaded_when_it_is_asked_for() -> None:
    program = """
import sys
import sysid_ros.identification
assert not [name for name in sys.modules if name.startswith(('jinja2', 'sysid_ros.toolbox'))]
from sysid_ros.toolbox import optimize
heavy = {'jinja2', 'sysid_ros.report.html', 'sysid_ros.toolbox.report'}
assert not heavy.intersection(sys.modules)
from sysid_ros.identification import report, default_report
assert report.default_report is default_report
"""
    subprocess.run([sys.executable, '-c', program], check=True)


@dataclasses.dataclass
class Setter:
    """A modifier that cannot be hashed, and whose equality has no truth value."""

    places: NDArray[np.int64]

    def __call__(self, spec: mujoco.MjSpec, parameter: sysid.Parameter) -> None:
        """Write the value."""
        spec.joints[int(self.places[0])].armature = parameter.value[0]

    def write(self, *given: Any, **_: Any) -> None:
        """Write the value."""
        self(*given)


def setter() -> Setter:
    return Setter(np.array([0, 1]))


@pytest.mark.parametrize(
    'make',
    [
        setter,
        lambda: setter().write,
        lambda: functools.partial(Setter.write, setter(), unused=1),
        lambda: mock.Mock(side_effect=setter()),
    ],
    ids=['object', 'method', 'partial', 'mock'],
)
def test_a_modifier_may_be_any_callable(make: Callable[[], Callable[..., Any]]) -> None:
    spec = mujoco.MjSpec.from_string(ARM)
    model = spec.copy().compile()
    times = model.opt.timestep * np.arange(20)
    run = sysid.ModelSequences(
        'arm',
        spec,
        'run',
        sysid.create_initial_state(model, np.full(model.nq, 0.3)),
        sysid.TimeSeries.from_control_names(times, np.zeros((20, model.nu)), model),
        sysid.TimeSeries.from_names(times, np.sin(9 * times)[:, None] * [1, 2, 3], model),
    )
    residual = sysid.build_residual_fn(models_sequences=[run])
    values = []
    for _ in range(2):  # with a modifier of its own, each time
        params = sysid.ParameterDict()
        params.add(sysid.Parameter('armature', 0.1, 0.0, 1.0, modifier=make()))
        both, _, _ = residual(np.array([[0.1, 0.4]]), params)
        assert np.abs(both[0][:, 0] - both[0][:, 1]).max() > 1e-6
        values.append(both[0])
    np.testing.assert_array_equal(*values)


def test_inertial_parameters_go_round_by_the_names_of_the_toolbox() -> None:
    spec = mujoco.MjSpec.from_string(ARM)
    module = sysid.model_modifier
    theta = module.theta_inertia_from_body(spec, 'lower')
    pseudo = module.pseudoinertia_from_pi(module.pi_from_theta(theta))
    np.testing.assert_allclose(module.theta_from_pseudoinertia(pseudo), theta, rtol=1e-9)
    np.testing.assert_allclose(module.pi_from_theta(theta), module.pi_from_body(spec, 'lower'))


def test_the_usual_program_runs(tmp_path: Path) -> None:
    run = record()
    spec = mujoco.MjSpec.from_string(ARM)
    model = spec.compile()  # as programs do, before the spec is used
    params = sysid.ParameterDict()
    params.add(sysid.Parameter('armature', 0.02, 0.001, 1.0, modifier=armature))
    params.add(
        sysid.Parameter(
            'gains',
            [5.0, 0.3],
            [1.0, 0.0],
            [20.0, 2.0],
            modifier=lambda s, p: sysid.apply_pdgain(s, 'b', p.value),
        )
    )
    control = sysid.TimeSeries.from_control_names(run.control.times, run.control.data, model)
    data = sysid.TimeSeries.from_names(run.sensordata.times, run.sensordata.data, model)
    state = sysid.create_initial_state(model, [0.2, -0.1], [0.3, 0.1])
    ms = sysid.ModelSequences('arm', spec, 'traj_1', state, control, data)
    residual_fn = sysid.build_residual_fn(models_sequences=[ms])
    found, result = fit(params, residual_fn)
    np.testing.assert_allclose(found.as_vector(), [0.05, 8.0, 0.4], rtol=1e-2)
    sysid.save_results(tmp_path, [ms], params, found, result, residual_fn)
    assert (tmp_path / 'params_x_hat.yaml').exists()
    assert (tmp_path / 'arm.xml').exists()
    np.testing.assert_array_equal(params.as_vector(), [0.02, 5.0, 0.3])


def test_a_result_has_what_programs_read() -> None:
    _, result = fit(parameters(), sysid.build_residual_fn(models_sequences=[sequences()]))
    count = 3 * STEPS
    assert result.x.shape == (1,)
    assert result.jac.shape == (count, 1)
    assert result.fun.shape == (count,)
    np.testing.assert_allclose(result.grad, result.jac.T @ result.fun)
    assert result.cost == pytest.approx(0.5 * result.fun @ result.fun)
    assert len(result.extras['objective']) == len(result.extras['candidate'])
    np.testing.assert_array_equal(result.extras['candidate'][-1], result.x)
    assert result.success
    assert result.status > 0
    assert result.message
    assert result.refused == 0
    assert str(result)


def test_a_fit_of_nothing_has_a_result_that_can_be_printed() -> None:
    params = parameters()
    params['armature'].frozen = True
    with pytest.warns(UserWarning, match='frozen'):
        _, result = fit(params, sysid.build_residual_fn(models_sequences=[sequences()]))
    assert result.x.shape == (0,)
    assert str(result)


@pytest.mark.parametrize(
    'settings',
    [
        {'optimizer': 'scipy'},
        {'optimizer': 'scipy_parallel_fd', 'diff_step': 1e-6},
        {'optimizer': 'scipy', 'method': 'dogbox', 'ftol': 1e-9},
        {'optimizer': 'scipy', 'loss': 'huber', 'f_scale': 0.1},
        {'loss': 'soft_l1', 'x_scale': 'jac'},
        {'check_conditioning': True, 'max_iters': 50},
    ],
)
def test_settings_of_the_toolbox_are_taken(settings: dict[str, Any]) -> None:
    residual_fn = sysid.build_residual_fn(models_sequences=[sequences()])
    found, _ = fit(parameters(), residual_fn, **settings)
    assert found['armature'].value[0] == pytest.approx(0.05, rel=1e-2)


@pytest.mark.parametrize(
    ('settings', 'complaint'),
    [
        ({'optimizer': 'scipi'}, 'nearest: scipy'),
        ({'loss': 'hubr'}, 'nearest: huber'),
        ({'xscale': 1.0}, 'nearest: x_scale'),
        ({'iter_callback': print}, 'observe'),
        ({'optimizer': 'scipy', 'method': 'dogbx'}, 'nearest: dogbox'),
    ],
)
def test_a_wrong_setting_is_named(settings: dict[str, Any], complaint: str) -> None:
    residual_fn = sysid.build_residual_fn(models_sequences=[sequences()])
    with pytest.raises(FitError, match=complaint):
        fit(parameters(), residual_fn, **settings)


def test_a_residual_is_the_weighted_difference_of_what_is_returned_row_by_row() -> None:
    ms = sequences()
    params = parameters()
    fn = sysid.build_residual_fn(
        models_sequences=[ms], sensor_weights={'v': 3.0}, noise={'q': 0.1, 'v': 0.2, 'p': 0.4}
    )
    found, predicted, records = fn(params.as_vector(), params)
    difference = (records[0][0].data - predicted[0][0].data) * [10.0, 15.0, 2.5]
    np.testing.assert_allclose(found[0], difference.ravel(), rtol=1e-9, atol=1e-9)


def test_one_model_gives_the_residuals_that_all_of_them_do() -> None:
    run, params = record(), parameters()
    spec = mujoco.MjSpec.from_string(ARM)
    candidates = np.array([[0.03, 0.07]])

    def build(given: sysid.ParameterDict) -> mujoco.MjModel:
        return sysid.apply_param_modifiers(given, spec)

    all_found, all_predicted, _ = sysid.residual(candidates, params, [sequences(run)])
    found, predicted, measured = sysid.model_residual(candidates, params, build, run)
    np.testing.assert_array_equal(found, all_found[0])
    assert [len(series) for series in measured] == [STEPS, STEPS]
    np.testing.assert_array_equal(predicted[1].data, all_predicted[0][1].data)
    flat, _, _ = sysid.model_residual(candidates[:, 0], params, build, [run, run])
    np.testing.assert_array_equal(flat, np.tile(found[:, 0], 2))
    np.testing.assert_array_equal(params.as_vector(), [0.03])


def test_one_model_may_have_targets_that_its_builder_applies() -> None:
    run = record()
    params = sysid.ParameterDict()
    params.add(sysid.Parameter('d', 0.3, 0.01, 1.0, target='joint/j/armature'))
    spec = mujoco.MjSpec.from_string(ARM)
    found, _, _ = sysid.model_residual(
        np.array([0.4]), params, lambda p: sysid.apply_param_modifiers(p, spec), run
    )
    expected, _, _ = sysid.residual(np.array([0.4]), params, [sequences(run)])
    np.testing.assert_array_equal(found, expected[0])


def test_models_of_one_sequence_each_add_up_to_all() -> None:
    run, params = record(), parameters()
    spec = mujoco.MjSpec.from_string(ARM)
    both = sysid.ModelSequences(
        'arm',
        spec,
        ['one', 'two'],
        [run.initial_state] * 2,
        [run.control] * 2,
        [run.sensordata] * 2,
    )
    x = params.as_vector()
    every, _, _ = sysid.residual(x, params, [both])
    parts = [sysid.residual(x, params, [both[k]])[0][0] for k in range(2)]
    assert len(every) == 2
    np.testing.assert_array_equal(np.concatenate(every), np.concatenate(parts))


def test_simulated_signals_are_paired_with_measured_ones_by_name() -> None:
    times = np.arange(4.0)
    kind = sysid.SignalType
    state = sysid.TimeSeries(
        times + 1, np.arange(4.0)[:, None], {'j_qpos': (kind.MjStateQPos, np.array([0]))}
    )
    simulated = sysid.TimeSeries(
        times,
        np.stack([times, 10 * times], axis=1),
        {'a': (kind.MjSensor, np.array([0])), 'b': (kind.MjSensor, np.array([1]))},
    )
    measured = sysid.TimeSeries(
        times,
        np.ones((4, 2)),
        {'b': (kind.MjSensor, np.array([0])), 'j_qpos': (kind.MjStateQPos, np.array([1]))},
    )
    _, predicted = sysid.construct_ts_from_defaults(state, simulated, measured)
    np.testing.assert_array_equal(predicted.get('b')[:, 0], 10 * times)
    np.testing.assert_array_equal(predicted.get('j_qpos')[:, 0], [np.nan, 0, 1, 2])
    kept, predicted = sysid.construct_ts_from_defaults(
        state, simulated, measured, [('b', kind.MjSensor)]
    )
    assert list(kept.signal_mapping) == list(predicted.signal_mapping) == ['b']
    with pytest.raises(FitError, match='declared as MjCtrl'):
        sysid.construct_ts_from_defaults(state, simulated, measured, [('b', kind.MjCtrl)])
    with pytest.raises(FitError, match='nearest: j_qpos'):
        sysid.construct_ts_from_defaults(state, simulated, measured, [('j_qos', kind.MjStateQPos)])


def test_an_observation_of_the_users_own_needs_a_comparison_of_theirs() -> None:
    series = sysid.TimeSeries.from_custom_map([0.0, 1.0], np.zeros((2, 1)), ['mood'])
    with pytest.raises(FitError, match='modify_residual'):
        sysid.construct_ts_from_defaults(series, series, series)


@pytest.mark.parametrize(
    ('options', 'complaint'),
    [
        ({'sensor_weights': {'velocity': 2.0}}, "no signal 'velocity' to weight"),
        ({'sensor_weights': {'v': np.nan}}, 'Expected a weight'),
        ({'sensor_weights': {'amr': {'v': 2.0}}}, 'nearest: arm'),
        ({'enabled_observations': [('v', sysid.SignalType.MjStateQVel)]}, 'of type MjSensor'),
        ({'enabled_observations': [('x', sysid.SignalType.MjSensor)]}, "no signal 'x'"),
    ],
)
def test_a_choice_of_signals_that_are_not_there_is_an_error(
    options: dict[str, Any], complaint: str
) -> None:
    fn = sysid.build_residual_fn(models_sequences=[sequences()], **options)
    params = parameters()
    with pytest.raises(FitError, match=complaint):
        fn(params.as_vector(), params)


@pytest.mark.parametrize('shape', [(), (2,), (2, 3), (1, 1, 1)])
def test_candidates_of_another_shape_are_an_error(shape: tuple[int, ...]) -> None:
    fn = sysid.build_residual_fn(models_sequences=[sequences()])
    with pytest.raises(FitError, match='Expected'):
        fn(np.full(shape, 0.1), parameters())


def bounded(spec: mujoco.MjSpec, parameter: sysid.Parameter) -> None:
    if parameter.value[0] < 0.02:
        raise ValueError('too light')
    spec.joint('j').armature = parameter.value[0]


def compiled(params: sysid.ParameterDict, spec: mujoco.MjSpec) -> mujoco.MjModel:
    bounded(spec, params['armature'])
    return spec.compile()


def rollout(**given: Any) -> list[sysid.SystemTrajectory]:
    given.pop('param_dicts')
    return sysid.sysid_rollout(**given)


@pytest.mark.slow
@pytest.mark.parametrize(
    'options',
    [{}, {'build_model': compiled}, {'custom_rollout': rollout}],
    ids=['plain', 'build_model', 'custom_rollout'],
)
def test_a_fit_steps_back_from_values_that_no_model_has(options: dict[str, Any]) -> None:
    params = parameters(bounded, start=0.4)
    residual_fn = sysid.build_residual_fn(models_sequences=[sequences()], **options)
    with pytest.warns(CandidateWarning, match='No model could be built for'):
        found, result = fit(params, residual_fn)
    assert found['armature'].value[0] == pytest.approx(0.05, rel=1e-2)
    assert result.success
    assert 0 < result.refused <= result.diverged


def test_a_function_around_a_residual_function_steps_back_as_well() -> None:
    inner = sysid.build_residual_fn(models_sequences=[sequences()])

    def regularised(x: Array, params: sysid.ParameterDict) -> Any:
        found, predicted, records = inner(x, params)
        return [*found, 1e-3 * x], predicted, records

    found, result = fit(parameters(bounded, start=0.4), regularised)
    assert found['armature'].value[0] == pytest.approx(0.05, rel=1e-2)
    assert result.diverged > 0


def test_values_without_a_model_are_an_error_where_they_are_asked_for() -> None:
    params = parameters(bounded)
    residual_fn = sysid.build_residual_fn(models_sequences=[sequences()])
    residual_fn(np.array([0.04]), params)
    with pytest.raises(CandidateError, match=r'armature = 0.01: .*too light'):
        residual_fn(np.array([[0.04, 0.01]]), params)
    with pytest.raises(ModelError, match='too light'):
        fit(parameters(bounded, start=0.01), residual_fn)


def test_a_mistake_in_a_callback_ends_the_fit_whenever_it_happens() -> None:
    calls = iter(range(100))

    def late(spec: mujoco.MjSpec, parameter: sysid.Parameter) -> None:
        if next(calls) > 4:
            raise RuntimeError('a mistake')
        armature(spec, parameter)

    with pytest.raises(ParameterError, match=r"modifier of parameter 'armature'.*a mistake"):
        fit(parameters(late), sysid.build_residual_fn(models_sequences=[sequences()]))


def test_a_mass_without_a_centre_is_taken() -> None:
    def mass(spec: mujoco.MjSpec, parameter: sysid.Parameter) -> None:
        body = spec.body('lower')
        body.mass, body.inertia, body.explicitinertial = parameter.value[0], [1e-3] * 3, True

    params = parameters(mass)
    fn = sysid.build_residual_fn(models_sequences=[sequences()])
    light, heavy = (fn(np.array([value]), params)[0][0] for value in (0.1, 0.9))
    assert np.abs(light - heavy).max() > 1.0


@pytest.mark.slow
def test_an_interrupt_ends_a_fit_and_leaves_the_function_as_it_was() -> None:
    residual_fn = sysid.build_residual_fn(models_sequences=[sequences()])
    params = parameters()
    before = residual_fn(params.as_vector(), params)[0][0]

    def interrupt(iteration: Any) -> None:
        if iteration.number == 1:
            raise KeyboardInterrupt

    for optimizer in ('mujoco', 'scipy', 'scipy-dogbox', 'scipy-lm'):
        with pytest.raises(KeyboardInterrupt):
            fit(params, residual_fn, optimizer=optimizer, observe=interrupt)
    np.testing.assert_array_equal(params.as_vector(), [0.03])
    np.testing.assert_array_equal(residual_fn(params.as_vector(), params)[0][0], before)


@pytest.mark.parametrize(
    ('options', 'complaint'),
    [
        ({'build_model': lambda _params, _spec: None}, 'return an MjModel, found NoneType'),
        ({'custom_rollout': lambda **_: None}, 'return 1 trajectories, one per model, found 0'),
        (
            {'modify_residual': lambda _params, predicted, *_, **__: predicted.data},
            'residuals, predicted and measured series, found ndarray',
        ),
    ],
)
def test_a_callback_that_returns_something_else_is_named(
    options: dict[str, Any], complaint: str
) -> None:
    fn = sysid.build_residual_fn(models_sequences=[sequences()], **options)
    params = parameters()
    with pytest.raises(FitError, match=complaint):
        fn(params.as_vector(), params)


def test_residuals_of_differing_length_are_named() -> None:
    lengths = iter(range(10, 100))

    def compare(_: Any, predicted: Any, measured: Any, *__: Any, **___: Any) -> Any:
        return measured.data[: next(lengths)], predicted, measured

    fn = sysid.build_residual_fn(models_sequences=[sequences()], modify_residual=compare)
    with pytest.raises(FitError, match="found 30 to 33 for sequence 'run'"):
        fn(np.array([[0.03, 0.04]]), parameters())


def test_stamps_of_a_rollout_are_taken_as_such_by_callbacks_too() -> None:
    run, params = record(late=True), parameters()
    x = params.as_vector()
    options: dict[str, Any] = {'models_sequences': [sequences(run)], 'sensor_stamps': 'rollout'}
    plain, _, _ = sysid.build_residual_fn(**options)(x, params)
    own, _, _ = sysid.build_residual_fn(**options, custom_rollout=rollout)(x, params)
    np.testing.assert_allclose(own[0], plain[0], atol=1e-6)


def test_a_measured_state_is_compared_with_the_initial_one_first() -> None:
    run, params = record(), parameters(start=0.05)
    position = run.sensordata.get('q')[:, 0] - 0.02
    series = sysid.TimeSeries.from_names(
        run.sensordata.times, position, run.model, [('j', sysid.SignalType.MjStateQPos)]
    )
    spec = mujoco.MjSpec.from_string(ARM)
    ms = sysid.ModelSequences(
        'arm', spec, 'run', run.initial_state, run.control, series, allow_missing_sensors=True
    )
    found = [
        sysid.residual(params.as_vector(), params, [ms], **options)[0][0]
        for options in ({}, {'custom_rollout': rollout})
    ]
    np.testing.assert_allclose(found[1], found[0], atol=1e-6)


def test_a_function_of_one_candidate_is_enough_for_scipy() -> None:
    def line(x: Array, _: sysid.ParameterDict) -> Any:
        return [np.array([float(x[0]) - 0.2, 3 * float(x[0]) - 0.6])], None, None

    found, _ = fit(parameters(), line, optimizer='scipy')
    assert found['armature'].value[0] == pytest.approx(0.2)


def test_a_function_that_returns_another_shape_is_an_error() -> None:
    def flat(x: Array, _: sysid.ParameterDict) -> Any:
        return [np.zeros(4) + x.sum()], None, None

    with pytest.raises(FitError, match=r'Expected residuals of shape \(n, 2\)'):
        fit(parameters(), flat)


def test_modifiers_that_are_made_anew_are_noticed() -> None:
    fn = sysid.build_residual_fn(models_sequences=[sequences()])
    x = np.array([0.1])
    found = [
        fn(
            x,
            parameters(
                lambda spec, p, factor=factor: setattr(
                    spec.joint('j'), 'armature', factor * p.value[0]
                )
            ),
        )[0][0]
        for factor in (1.0, 2.0, 3.0)
    ]
    assert np.abs(found[1] - found[0]).max() > 1.0
    assert np.abs(found[2] - found[1]).max() > 1.0


def test_a_good_fit_warns_of_nothing() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter('error')
        fit(parameters(), sysid.build_residual_fn(models_sequences=[sequences()]))
