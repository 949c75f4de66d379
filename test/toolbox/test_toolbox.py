# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Code written for MuJoCo's sysid toolbox runs with one changed import."""

from __future__ import annotations

import dataclasses
import enum
import functools
import inspect
import threading
import warnings
from collections.abc import Callable
from operator import attrgetter
from pathlib import Path
from typing import Any
from unittest import mock

import mujoco
import mujoco.sysid as reference
import numpy as np
import pytest
from numpy.typing import NDArray

from builders.toolbox_arm import ARM, DT, Recorded, record, sequences, spec_of
from sysid_ros import toolbox as sysid
from sysid_ros.errors import CancelledError, FitError, ModelError
from sysid_ros.model.candidates import CandidateError

Array = NDArray[np.float64]
Modifier = Callable[[mujoco.MjSpec, sysid.Parameter], object]

STEPS = 300
#: What nobody calls is not offered.
GONE = {
    'construct_ts_from_defaults',
    'model_residual',
    'ParameterDict.get_parameter_info',
    'SystemTrajectory.get_sensordata_slice',
    'TimeSeries.dt_statistics',
    'TimeSeries.remove_from_beginning',
    'model_modifier.apply_body_theta_inertia',
    'model_modifier.cholesky_decompose_upper',
    'model_modifier.inertia_to_fullinertia',
    'model_modifier.is_position_actuator',
    'model_modifier.pi_from_body',
    'model_modifier.pi_from_theta',
    'model_modifier.pseudoinertia_from_pi',
    'model_modifier.scale_body_inertia',
    'model_modifier.skew',
    'model_modifier.theta_from_pseudoinertia',
    'model_modifier.theta_inertia_from_body',
    'signal_modifier.prepare_sensor_weights',
}
NAMES = [name for name in dir(reference) if not name.startswith('_') and name not in GONE]
#: Functions, those of modules, and methods of classes.
CALLABLES = (
    [name for name in NAMES if inspect.isfunction(getattr(reference, name))]
    + [
        f'{name}.{member}'
        for name in NAMES
        if inspect.isclass(kind := getattr(reference, name)) and not issubclass(kind, enum.Enum)
        for member in ('__init__', *vars(kind))
        if member == '__init__' or (member[0] != '_' and callable(getattr(kind, member)))
    ]
    + [
        f'{name}.{member}'
        for name in ('model_modifier', 'signal_modifier')
        for member, value in vars(getattr(reference, name)).items()
        if inspect.isfunction(value) and member[0] != '_'
    ]
)


def recorded() -> Recorded:
    return record(steps=STEPS, noise=1e-3)


def arm_fn(**options: Any) -> Any:
    return sysid.build_residual_fn(models_sequences=sequences(*recorded()), **options)


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


def taken(function: Callable[..., Any]) -> list[inspect.Parameter]:
    return [
        given
        for given in inspect.signature(function).parameters.values()
        if given.kind is given.POSITIONAL_OR_KEYWORD and given.name != 'self'
    ]


@pytest.mark.parametrize('name', [name for name in CALLABLES if name not in GONE])
def test_functions_take_the_parameters_of_the_toolbox(name: str) -> None:
    theirs, ours = (taken(attrgetter(name)(module)) for module in (reference, sysid))
    for expected, given in zip(theirs, ours, strict=False):
        assert given.name == expected.name
        if isinstance(expected.default, bool | str | float | enum.Enum):
            assert repr(given.default) == repr(expected.default)
        elif expected.default is not inspect.Parameter.empty and given.name != 'n_threads':
            assert given.default is not inspect.Parameter.empty
    assert len(ours) >= len(theirs)


def test_all_names_of_the_toolbox_are_there() -> None:
    assert set(NAMES) <= set(sysid.__all__)
    assert all(hasattr(sysid, name) for name in NAMES)
    assert sysid.model_modifier.apply_pgain is sysid.apply_pgain
    assert sysid.signal_modifier.weighted_diff is sysid.weighted_diff
    assert sysid.parameter.Parameter is sysid.Parameter
    assert sysid.report.default_report is sysid.default_report


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
    residual = arm_fn()
    values = []
    for _ in range(2):  # with a modifier of its own, each time
        both, _, _ = residual(np.array([[0.1, 0.4]]), parameters(make()))
        assert np.abs(both[0][:, 0] - both[0][:, 1]).max() > 1e-6
        values.append(both[0])
    np.testing.assert_array_equal(*values)


def test_the_usual_program_runs(tmp_path: Path) -> None:
    commands, sensors, state = recorded()
    spec = spec_of()
    model = spec.compile()  # as programs do, before the spec is used
    params = parameters(start=0.02)
    params.add(
        sysid.Parameter(
            'gains',
            [5.0, 0.3],
            [1.0, 0.0],
            [20.0, 2.0],
            modifier=lambda s, p: sysid.apply_pdgain(s, 'b', p.value),
        )
    )
    control = sysid.TimeSeries.from_control_names(commands.times, commands.data, model)
    data = sysid.TimeSeries.from_names(sensors.times, sensors.data, model)
    ms = sysid.ModelSequences('arm', spec, 'traj_1', state, control, data)
    residual_fn = sysid.build_residual_fn(models_sequences=[ms])
    found, result = fit(params, residual_fn)
    np.testing.assert_allclose(found.as_vector(), [0.05, 8.0, 0.4], rtol=1e-2)
    sysid.save_results(tmp_path, [ms], params, found, result, residual_fn)
    assert (tmp_path / 'params_x_hat.yaml').exists()
    assert (tmp_path / 'arm.xml').exists()
    np.testing.assert_array_equal(params.as_vector(), [0.02, 5.0, 0.3])


def test_a_result_has_what_programs_read() -> None:
    _, result = fit(parameters(), arm_fn())
    count = 6 * STEPS
    assert (result.x.shape, result.jac.shape, result.fun.shape) == ((1,), (count, 1), (count,))
    np.testing.assert_allclose(result.grad, result.jac.T @ result.fun)
    assert result.cost == pytest.approx(0.5 * result.fun @ result.fun)
    assert len(result.extras['objective']) == len(result.extras['candidate'])
    np.testing.assert_array_equal(result.extras['candidate'][-1], result.x)
    assert result.success
    assert result.status > 0


@pytest.mark.parametrize(
    'settings',
    [
        {'optimizer': 'scipy'},
        {'optimizer': 'scipy_parallel_fd', 'diff_step': 1e-6},
        {'optimizer': 'scipy', 'loss': 'huber', 'f_scale': 0.1},
        {'loss': 'soft_l1'},
        {'check_conditioning': True, 'max_iters': 50},
    ],
)
def test_settings_of_the_toolbox_are_taken(settings: dict[str, Any]) -> None:
    residual_fn = arm_fn()
    found, _ = fit(parameters(), residual_fn, **settings)
    assert found['armature'].value[0] == pytest.approx(0.05, rel=1e-2)


@pytest.mark.parametrize(
    ('settings', 'complaint'),
    [
        ({'optimizer': 'scipi'}, 'nearest: scipy'),
        ({'loss': 'hubr'}, 'nearest: huber'),
        ({'xscale': 1.0}, 'nearest: x_scale'),
        ({'optimizer': 'scipy', 'starts': 4}, 'several starts'),
        ({'optimizer': 'scipy', 'method': 'dogbx'}, 'SciPy cannot fit'),
    ],
)
def test_a_wrong_setting_is_named(settings: dict[str, Any], complaint: str) -> None:
    residual_fn = arm_fn()
    with pytest.raises(FitError, match=complaint):
        fit(parameters(), residual_fn, **settings)


def test_one_call_gives_the_residuals_of_a_function_that_is_kept() -> None:
    candidates = np.array([[0.03, 0.07]])
    found, predicted, measured = sysid.residual(candidates, parameters(), sequences(*recorded()))
    kept = arm_fn()(candidates, parameters())
    np.testing.assert_array_equal(found[0], kept[0][0])
    assert [len(series) for series in measured[0]] == [STEPS, STEPS]
    np.testing.assert_array_equal(predicted[0][1].data, kept[1][0][1].data)


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
    residual_fn = arm_fn(**options)
    found, result = fit(params, residual_fn)
    assert found['armature'].value[0] == pytest.approx(0.05, rel=1e-2)
    assert result.success
    assert result.diverged > 0


def test_a_function_around_a_residual_function_steps_back_as_well() -> None:
    inner = arm_fn()

    def regularised(x: Array, params: sysid.ParameterDict) -> Any:
        found, predicted, records = inner(x, params)
        return [*found, 1e-3 * x], predicted, records

    found, result = fit(parameters(bounded, start=0.4), regularised)
    assert found['armature'].value[0] == pytest.approx(0.05, rel=1e-2)
    assert result.diverged > 0


def test_values_without_a_model_are_an_error_where_they_are_asked_for() -> None:
    params = parameters(bounded)
    residual_fn = arm_fn()
    residual_fn(np.array([0.04]), params)
    with pytest.raises(CandidateError, match=r'armature = 0.01: .*too light'):
        residual_fn(np.array([[0.04, 0.01]]), params)
    with pytest.raises(ModelError, match='too light'):
        fit(parameters(bounded, start=0.01), residual_fn)


def test_a_mass_without_a_centre_is_taken() -> None:
    def mass(spec: mujoco.MjSpec, parameter: sysid.Parameter) -> None:
        body = spec.body('lower')
        body.mass, body.inertia, body.explicitinertial = parameter.value[0], [1e-3] * 3, True

    params = parameters(mass)
    fn = arm_fn()
    light, heavy = (fn(np.array([value]), params)[0][0] for value in (0.1, 0.9))
    assert np.abs(light - heavy).max() > 1.0


@pytest.mark.slow
def test_an_interrupt_ends_a_fit_and_leaves_the_function_as_it_was() -> None:
    residual_fn = arm_fn()
    params = parameters()
    before = residual_fn(params.as_vector(), params)[0][0]

    def interrupt(iteration: Any) -> None:
        if iteration.number == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit(params, residual_fn, observe=interrupt)
    cancel = threading.Event()
    cancel.set()
    for optimizer in ('mujoco', 'scipy'):
        with pytest.raises(CancelledError):
            fit(params, residual_fn, optimizer=optimizer, cancel=cancel)
    np.testing.assert_array_equal(params.as_vector(), [0.03])
    np.testing.assert_array_equal(residual_fn(params.as_vector(), params)[0][0], before)


def test_a_function_of_one_candidate_is_enough_for_scipy() -> None:
    def line(x: Array, _: sysid.ParameterDict) -> Any:
        return [np.array([float(x[0]) - 0.2, 3 * float(x[0]) - 0.6])], None, None

    found, _ = fit(parameters(), line, optimizer='scipy')
    assert found['armature'].value[0] == pytest.approx(0.2)


def test_elements_without_names_are_taken_by_their_place() -> None:
    unnamed = ARM
    for name in ('a', 'b', 'q', 'v', 'p'):
        unnamed = unnamed.replace(f' name="{name}"', '')
    (commands, sensors, state), spec = recorded(), spec_of(unnamed)
    model = spec.compile()
    control = sysid.TimeSeries.from_control_names(commands.times, commands.data, model)
    data = sysid.TimeSeries.from_names(sensors.times, sensors.data, model)
    group = sysid.ModelSequences('arm', spec, 'run', state, control, data)
    found, _ = fit(parameters(), sysid.build_residual_fn(models_sequences=[group]))
    assert found['armature'].value[0] == pytest.approx(0.05, rel=1e-2)
    assert spec.sensors[0].name == ''


@pytest.mark.parametrize('stamp', [0.0, DT])
def test_observations_of_the_users_own_are_compared_by_the_users_own_function(
    stamp: float,
) -> None:
    """Only the distance of the tip is measured, which no sensor has."""
    control, sensors, state = recorded()
    seen = []

    def distance(series: sysid.TimeSeries) -> Array:
        return np.abs(series.get('q') + series.get('p'))

    def compare(
        params: sysid.ParameterDict,
        predicted: sysid.TimeSeries,
        measured: sysid.TimeSeries,
        model: mujoco.MjModel,
        return_pred_all: bool,
        state: Array | None = None,
    ) -> tuple[Array, sysid.TimeSeries, sysid.TimeSeries]:
        seen.append((params['armature'].value[0], model.dof_armature[0], return_pred_all))
        assert state is not None
        assert len(state) == len(predicted)
        window = sysid.apply_delayed_ts_window(measured, predicted, 0.0, 0.0)
        made = distance(predicted.resample(window.times))
        own = sysid.TimeSeries(window.times, made, window.signal_mapping)
        return 1e3 * (window.data - made), own, window

    observed = sysid.TimeSeries.from_custom_map(sensors.times + stamp, distance(sensors), ['tip'])
    groups = sequences(control, observed, state, allow_missing_sensors=True)
    fn = sysid.build_residual_fn(models_sequences=groups, modify_residual=compare)
    with warnings.catch_warnings():
        warnings.simplefilter('ignore', sysid.StampWarning)
        found, result = fit(parameters(), fn)
    assert found['armature'].value[0] == pytest.approx(0.05, rel=2e-2)
    assert result.sensor_stamps == ('rollout' if stamp else 'measured')
    assert all(value == armature and not every for value, armature, every in seen)
    with pytest.raises(FitError, match="'tip'"):
        sysid.build_residual_fn(models_sequences=groups)(np.array([0.1]), parameters())


def test_blocks_of_columns_with_names_of_the_users_own_are_taken() -> None:
    """Commands in the model's order, and states for a comparison that finds them itself."""
    control, _, start = recorded()
    kind, pair = sysid.SignalType, np.arange(2)
    commands = sysid.TimeSeries(control.times, control.data, {'ctrl': (kind.MjCtrl, pair)})
    (run,) = sysid.sysid_rollout(
        spec_of().compile(), mujoco.MjData(spec_of().compile()), control, [start]
    )
    assert run.state is not None
    block = {'qpos': (kind.MjStateQPos, pair), 'qvel': (kind.MjStateQVel, pair + 2)}
    states = sysid.TimeSeries(run.state.times, run.state.data[:, 1:5], block)

    def compare(_params: Any, _predicted: Any, measured: Any, *_: Any, state: Any) -> Any:
        predicted = sysid.TimeSeries(state[:, 0], state[:, 1:5], block).resample(measured.times)
        return 1e3 * (measured.data - predicted.data), predicted, measured

    groups = sequences(commands, states, start, allow_missing_sensors=True)
    params = sysid.ParameterDict()
    params.update(dict(parameters()))
    found, _ = fit(
        params, sysid.build_residual_fn(models_sequences=groups, modify_residual=compare)
    )
    assert found['armature'].value[0] == pytest.approx(0.05, rel=1e-6)
    with pytest.raises(FitError, match="the qpos of 'qpos'"):
        sysid.build_residual_fn(models_sequences=groups)(np.array([0.1]), parameters())


def test_settings_that_are_not_used_are_named() -> None:
    fn = arm_fn()
    with pytest.warns(UserWarning, match='does not use x_scale, mu_min'):
        fit(parameters(), fn, x_scale='jac', mu_min=1e-6, max_iters=1)


def test_what_the_toolbox_logs_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """A start on a bound, columns of very different size, and nothing to fit."""

    def flat(x: Array, _: sysid.ParameterDict) -> Any:
        return [np.stack([x[0] - 1.0, 1e-7 * x[1]])], None, None

    params = sysid.ParameterDict()
    params.add(sysid.Parameter('a', 0.0, 0.0, 2.0))
    params.add(sysid.Parameter('b', 1.0, 0.0, 2.0))
    fit(params, flat, check_conditioning=True)
    assert 'start of a is on a bound' in caplog.text
    assert 'cond(J^T J)' in caplog.text
    params['a'].frozen = params['b'].frozen = True
    assert str(fit(params, flat)[1])
    assert 'all parameters are frozen' in caplog.text


def test_the_table_has_the_start_and_the_nominal_value(capsys: pytest.CaptureFixture[str]) -> None:
    params = parameters(start=0.03)
    params['armature'].nominal[:] = 0.07
    sysid.optimize(params, arm_fn())
    lines = capsys.readouterr().out.splitlines()
    row = next(line for line in lines if line.startswith('armature'))
    assert row.split()[1:3] == ['0.03', '0.07']
    assert "Sensors are taken to be stamped as 'measured'." in lines
