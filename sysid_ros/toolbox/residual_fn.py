# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The toolbox's residual function: measured minus predicted for models and their sequences."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, get_args

import mujoco
import numpy as np

from sysid_ros.errors import FitError, SysidError, nearest
from sysid_ros.estimation.noise import estimate_noise
from sysid_ros.estimation.residuals import Residuals
from sysid_ros.model.loading import writable_model
from sysid_ros.model.rebuild import Rebuild
from sysid_ros.model.targets import Role
from sysid_ros.rollout.measurement import MeasurementModel
from sysid_ros.rollout.simulation import Simulator
from sysid_ros.signals import SignalType
from sysid_ros.toolbox.callbacks import CustomResiduals, MeasuredTrajectory, Options
from sysid_ros.toolbox.learning import learn
from sysid_ros.toolbox.modifiers import apply_param_modifiers, remove_visuals
from sysid_ros.toolbox.recorded import (
    Recorded,
    SensorStamps,
    check_selection,
    described,
    has_rollout_times,
    observed,
    record,
    weights_of,
)
from sysid_ros.toolbox.signal_transform import SignalTransform
from sysid_ros.toolbox.timeseries import STATES, TimeSeries
from sysid_ros.toolbox.trajectory import ModelSequences, SystemTrajectory, sequence_labels
from sysid_ros.toolbox.unknowns import check_targets, unknowns_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from numpy.typing import NDArray

    from sysid_ros.rollout.measurement import Signal
    from sysid_ros.toolbox.callbacks import BuildModelFn, CustomRolloutFn, ModifyResidualFn
    from sysid_ros.toolbox.parameter import ModifierFn, Parameter, ParameterDict

    Outcome = tuple[list[NDArray[np.float64]], list[list[TimeSeries]], list[list[TimeSeries]]]


class Prepared(NamedTuple):
    """Residuals for the parameters of one dictionary, and what they compare."""

    residuals: Residuals | CustomResiduals
    recorded: tuple[Recorded, ...]
    structure: tuple[Any, ...]
    modifiers: tuple[ModifierFn | None, ...]

    def serves(self, params: ParameterDict) -> bool:
        """Whether it is for parameters like these, whatever their values."""
        # Callables are the same only as objects: some have an equality that is no truth value.
        same = zip(self.modifiers, (p.modifier for p in params.values()), strict=False)
        return self.structure == _structure(params) and all(mine is theirs for mine, theirs in same)


class ResidualFunction:
    """A residual function for `optimize`, made by `build_residual_fn`.

    Attributes:
        options: How residuals are made.
    """

    def __init__(self, options: Options) -> None:
        """Keep the options; models are compiled when parameters are known."""
        self.options = options
        self._prepared: Prepared | None = None

    def __call__(self, x: NDArray[np.float64], params: ParameterDict, **overrides: Any) -> Outcome:
        """Evaluate candidates with other options for this call, if any; see `residual`."""
        if overrides:
            options = _checked({**self.options._asdict(), **overrides})
            return ResidualFunction(options)(x, params)
        x = np.asarray(x, dtype=np.float64)
        if x.ndim not in (1, 2):
            raise FitError(f'Expected x of shape (p,) or (p, m), got {x.shape}.')
        candidates = x[None] if x.ndim == 1 else x.T
        if candidates.shape[1] != params.size:
            raise FitError(
                f'Expected {params.size} values, one for each component of the parameters that '
                f'are not frozen, got x of shape {x.shape}.'
            )
        prepared = self.prepared(params)
        residuals = prepared.residuals
        if isinstance(residuals, CustomResiduals):
            found, predicted, measured = residuals.compare(candidates)
        else:
            found, predicted, measured = _compare(residuals, prepared.recorded, candidates)
        return [part[:, 0] for part in found] if x.ndim == 1 else found, predicted, measured

    def prepared(self, params: ParameterDict) -> Prepared:
        """Return the residuals for some parameters, made anew when their structure changes."""
        if self._prepared is None or not self._prepared.serves(params):
            self._prepared = _prepare(self.options, params)
        return self._prepared

    def one_step_earlier(self) -> ResidualFunction | None:
        """Return the same function for the times of a rollout; None unless they may be such.

        They may with ``sensor_stamps='auto'`` and all measurements stamped like its states.
        """
        groups = self.options.models_sequences
        if self.options.sensor_stamps != 'auto' or not all(
            has_rollout_times(trajectory)
            for group in groups
            for trajectory in group.measured_rollout
        ):
            return None
        return ResidualFunction(self.options._replace(sensor_stamps='rollout'))

    def become(self, other: ResidualFunction) -> None:
        """Take the options of another residual function for all calls to come."""
        self.options, self._prepared = other.options, other._prepared

    @property
    def excluded(self) -> int:
        """Samples of the last call outside of their sequence, which are not compared."""
        return sum(entry.excluded for entry in self._prepared.recorded) if self._prepared else 0


def build_residual_fn(**options: Any) -> ResidualFunction:
    """Make a residual function with its options bound.

    A residual is measured minus predicted, divided by the noise of the signal and times its
    weight. A sample is compared with the model at the time of its stamp: row k of a rollout's
    sensors describes the state before step k. Commands hold until the next one. Signals are paired
    by name.

    Args:
        **options: ``models_sequences``: the models with their measurements.
            ``build_model(params, spec)``: compiles a candidate on a copy of the spec; by default
            the parameters' targets and modifiers do. ``modify_residual`` and ``custom_rollout``:
            replace the comparison and the simulation, see `ModifyResidualFn` and
            `CustomRolloutFn`. ``signal_transform``: gains, biases and delays of sensors;
            ``modify_residual=transform.apply`` is the same. ``sensor_weights``: signal name to a
            factor, or model name to such a mapping. ``enabled_observations``: names or ``(name,
            SignalType)`` pairs, or model name to those; empty for all. ``n_threads``: 0 for one per
            core. ``resample_true=False``: controls and measurements are one per step, whatever
            their stamps say. ``return_pred_all``: also series of sensors that do not count.
            ``sensor_stamps``: ``'measured'`` where a stamp is the time that its sample describes;
            ``'rollout'`` for data that carry ``mujoco.rollout``'s state times, which are one step
            late; ``'auto'``, the default, is the former unless `optimize` finds that times are
            those of a rollout and one step earlier explains nearly all of what is left: then the
            function takes them so from there on, and a `StampWarning` says it. ``noise``: signal
            name to standard deviation in its unit; estimated from the measurements where not given.

    Returns:
        A function ``fn(x, params, **overrides) -> (residuals, predictions, records)``.

    Raises:
        FitError: An option is unknown or not valid.
    """
    return ResidualFunction(_checked(options))


def _checked(options: dict[str, Any]) -> Options:
    for name in options:
        if name not in Options._fields:
            raise FitError(
                f'Unknown option {name!r} of build_residual_fn; {nearest(name, Options._fields)}.'
            )
    if not options.get('models_sequences'):
        raise FitError(
            'Expected models_sequences, a list of at least one ModelSequences, found none.'
        )
    stamps = options.get('sensor_stamps', 'auto')
    if stamps not in get_args(SensorStamps):
        raise FitError(f"Expected sensor_stamps 'auto', 'measured' or 'rollout', found {stamps!r}.")
    found = Options(**options)
    bound_to = getattr(found.modify_residual, '__self__', None)
    if isinstance(bound_to, SignalTransform) and found.custom_rollout is None:
        found = found._replace(modify_residual=None, signal_transform=bound_to)
    return found


def _structure(params: ParameterDict) -> tuple[Any, ...]:
    """Return what residuals depend on, beside modifiers and the values of what is not frozen."""
    return tuple(
        (
            name,
            p.size,
            p.frozen,
            p.target,
            p.scale,
            p.as_vector().tobytes() if p.frozen else p.as_nominal_vector().tobytes(),
            tuple(bound.tobytes() for bound in p.get_bounds()),
        )
        for name, p in params.items()
    )


class _CallbackBuilder:
    """A ``build_model`` callback with parameters of its own, as `model.rebuild.Builder`.

    Parameters with a target are written elsewhere: a factor on what the model has,
    ``subtree_mass``, would count twice.
    """

    def __init__(self, build: BuildModelFn, params: ParameterDict) -> None:
        """Copy the parameters; the first values of a candidate are theirs."""
        self._build = build
        self._params = params.copy()
        for parameter in self._params.values():
            if parameter.target is not None:
                parameter.target = parameter.modifier = None

    @property
    def copies(self) -> bool:
        """Whether the callback leaves the spec that it gets as it is."""
        return self._build is apply_param_modifiers

    def build(self, values: NDArray[np.float64], spec: mujoco.MjSpec) -> mujoco.MjModel:
        """Compile the (p,) values of a candidate on a spec."""
        self._params.update_from_vector(values[: self._params.size])
        return self._build(self._params, spec)

    def describe(self, values: NDArray[np.float64]) -> str:
        """Return the (p,) values with their names."""
        self._params.update_from_vector(values[: self._params.size])
        names = self._params.get_non_frozen_parameter_names()
        given = zip(names, self._params.as_vector(), strict=True)
        return ', '.join(f'{name} = {value:.6g}' for name, value in given)


def _prepare(options: Options, params: ParameterDict) -> Prepared:
    groups = list(options.models_sequences)
    check_selection(groups, options.enabled_observations, options.sensor_weights)
    labels = sequence_labels(groups)
    check_targets(
        params,
        [(group.gt_model, own, group.spec) for group, own in zip(groups, labels, strict=True)],
    )
    transform = options.signal_transform
    if transform is not None and transform.weights and not options.sensor_weights:
        options = options._replace(sensor_weights=transform.weights)
    if transform is not None and any(params[name].size > 1 for name in transform.parameter_names):
        # One number for each axis of a sensor: the transform itself knows how.
        options = options._replace(modify_residual=transform.apply, signal_transform=None)
        transform = None
    lead = 0.0 if transform is None else max(-transform.delay_bounds(params)[0], 0.0)
    made = [
        _group(options, group, own, params, lead) for group, own in zip(groups, labels, strict=True)
    ]
    simulators = [simulator for simulator, _ in made]
    recorded = tuple(entry for _, own in made for entry in own)
    unknowns = unknowns_of(params)
    noise = estimate_noise(run for simulator in simulators for run in simulator.runs)
    noise.update(options.noise or {})
    residuals: Residuals | CustomResiduals
    if options.modify_residual is None and options.custom_rollout is None:
        residuals = Residuals(
            simulators,
            noise,
            unknowns=unknowns,
            laws=None if transform is None else _laws(transform, params, simulators),
            weights=[weights_of(options.sensor_weights, group.name) for group in groups],
            enabled=[_enabled(options, group.name) for group in groups],
        )
    else:
        shift = -1.0 if options.sensor_stamps == 'rollout' else 0.0
        measured = [
            MeasuredTrajectory(
                simulator,
                trajectory.replace(
                    sensordata=described(
                        trajectory.sensordata, shift * float(group.gt_model.opt.timestep)
                    )
                ),
                entry,
                weights_of(options.sensor_weights, group.name),
                observed(options.enabled_observations, group.name),
            )
            for group, (simulator, own) in zip(groups, made, strict=True)
            for trajectory, entry in zip(group.measured_rollout, own, strict=True)
        ]
        residuals = CustomResiduals(options, params, unknowns, measured, noise)
    modifiers = tuple(parameter.modifier for parameter in params.values())
    return Prepared(residuals, recorded, _structure(params), modifiers)


def _group(
    options: Options,
    group: ModelSequences,
    labels: list[str],
    params: ParameterDict,
    lead: float,
) -> tuple[Simulator, list[Recorded]]:
    """Return what simulates the sequences of one model, and the sequences."""
    every = options.return_pred_all or options.modify_residual is not None
    signals = {} if every else observed(options.enabled_observations, group.name)
    recorded = [
        record(
            group.gt_model,
            label,
            trajectory,
            stamps=options.sensor_stamps,
            resample=options.resample_true,
            signals=signals,
        )
        for label, trajectory in zip(labels, group.measured_rollout, strict=True)
    ]
    spec, called = _called(options, group, params)
    own_builder = options.build_model is not apply_param_modifiers
    model = group.gt_model
    if called and not own_builder:
        spec, model = _lean(spec, model, params, labels)
    unknowns = unknowns_of(params, model, labels, frozen=True, spec=spec)
    targets = [target for unknown in unknowns for target in unknown.targets]
    rebuild = None
    if called or own_builder or any(target.role is Role.SPEC for target in targets):
        built = called or own_builder
        builder = _CallbackBuilder(options.build_model, params) if built else None
        rebuild = Rebuild(spec, unknowns, builder, called)
        model = rebuild(np.array([unknown.nominal for unknown in unknowns]))
        if not own_builder:  # a user's own may do anything
            rebuild.learnt = learn(rebuild, unknowns)
    else:
        model = writable_model(spec, targets)
    simulator = Simulator(
        model,
        unknowns,
        [entry.sequence for entry in recorded],
        options.n_threads,
        build=rebuild,
        lead=lead,
    )
    return simulator, recorded


def _lean(
    spec: mujoco.MjSpec, model: mujoco.MjModel, params: ParameterDict, labels: list[str]
) -> tuple[mujoco.MjSpec, mujoco.MjModel]:
    """Leave visuals out of a spec that is compiled for each candidate, if nothing needs them."""
    try:
        lean = remove_visuals(spec)
        tried = lean.copy()
        for parameter in params.values():
            if parameter.target is None:
                parameter.apply_modifier(tried)
        compiled = lean.copy().compile()  # a compiled spec ignores masses given without a centre
    except (SysidError, ValueError, mujoco.FatalError):
        return spec, model  # a modifier looks for what is only there to be seen
    same = unknowns_of(params, compiled, labels, frozen=True, spec=lean)
    whole = unknowns_of(params, model, labels, frozen=True, spec=spec)
    if [len(unknown.targets) for unknown in same] != [len(u.targets) for u in whole]:
        return spec, model
    return lean, compiled


def _called(
    options: Options, group: ModelSequences, params: ParameterDict
) -> tuple[mujoco.MjSpec, list[int]]:
    """Return the spec that candidates start from, and the columns that callbacks read."""
    custom = options.build_model is not apply_param_modifiers
    frozen: list[Parameter] = []
    columns: list[int] = []
    place = 0
    for parameter in params.values():
        if parameter.frozen:
            if not custom and parameter.target is None and parameter.modifier is not None:
                frozen.append(parameter)
            continue
        own = range(place, place + parameter.size)
        place += parameter.size
        if parameter.target is None and (custom or parameter.modifier is not None):
            columns.extend(own)
    if not frozen and not columns:
        return group.spec, columns
    spec = group.spec.copy()
    for parameter in frozen:
        parameter.apply_modifier(spec)
    if columns:
        # What a callback moves may end that a body is "simple"; one batch needs one layout.
        for body in spec.bodies:
            body.simple = False
    return spec, columns


def _enabled(options: Options, model: str) -> Callable[[str], bool]:
    """Tell which sensors count: those that are enabled, by the transform as well."""
    chosen: list[Collection[str]] = [observed(options.enabled_observations, model)]
    if options.signal_transform is not None:
        chosen.append(options.signal_transform.enabled or ())
    return lambda sensor: all(not names or sensor in names for names in chosen)


def _laws(
    transform: SignalTransform, params: ParameterDict, simulators: list[Simulator]
) -> dict[Signal, MeasurementModel]:
    """Return what a transform does to each sensor, in terms of a candidate's columns."""
    # A candidate's columns are those of the free parameters, then those of the frozen ones.
    order = sorted(params, key=lambda name: params[name].frozen)
    sizes = [params[name].size for name in order]
    places = dict(zip(order, np.cumsum([0, *sizes]).tolist(), strict=False))

    def columns(names: Sequence[str]) -> tuple[int, ...]:
        return tuple(places[name] for name in names)

    runs = (run for simulator in simulators for run in simulator.runs)
    sensors = [sensor for run in runs for readings in run.readings for sensor in readings.sensors]
    return {
        acting.sensor: MeasurementModel(
            columns(acting.predicted_gains),
            columns(acting.predicted_biases),
            columns(acting.measured_gains),
            columns(acting.measured_biases),
            None if acting.delay is None else places[acting.delay],
        )
        for acting in transform.sensor_parameters(list(dict.fromkeys(sensors)))
    }


def _compare(
    residuals: Residuals, recorded: tuple[Recorded, ...], candidates: NDArray[np.float64]
) -> Outcome:
    values, simulated = residuals.compare(candidates)
    found: list[NDArray[np.float64]] = []
    predicted: list[list[TimeSeries]] = []
    measured: list[list[TimeSeries]] = []
    for index, entry in enumerate(recorded):
        found.append(values[residuals.rows(index)])
        readings = residuals.runs[index].readings
        predicted.append([entry.predicted(readings, own) for own in simulated[index]])
        measured.append([entry.measured] * len(candidates))
    return found, predicted, measured


def residual(  # noqa: PLR0913, PLR0917 (the toolbox's signature)
    x: NDArray[np.float64],
    params: ParameterDict,
    models_sequences: Sequence[ModelSequences],
    build_model: BuildModelFn = apply_param_modifiers,
    modify_residual: ModifyResidualFn | None = None,
    custom_rollout: CustomRolloutFn | None = None,
    n_threads: int = 0,
    return_pred_all: bool = False,  # noqa: FBT002
    resample_true: bool = True,  # noqa: FBT002
    sensor_weights: Mapping[str, Any] | None = None,
    enabled_observations: Sequence[tuple[str, SignalType]] = (),
    **options: Any,
) -> Outcome:
    """Evaluate candidates once.

    Models are compiled and recordings prepared for this call only; a function made by
    `build_residual_fn` keeps them. That says what the options are. ``x`` is (p,) values of the
    parameters that are not frozen, or (p, m) candidates; the parameters are not changed.

    Returns:
        For each sequence of each model, in order: the (n,) or (n, m) residuals, the predicted
        series of each candidate, and the measured series for each of them.

    Raises:
        FitError: An option or the shape of ``x`` is not valid.
        CandidateError: No model can be built for a candidate.
    """
    return build_residual_fn(
        models_sequences=models_sequences,
        build_model=build_model,
        modify_residual=modify_residual,
        custom_rollout=custom_rollout,
        n_threads=n_threads,
        return_pred_all=return_pred_all,
        resample_true=resample_true,
        sensor_weights=sensor_weights,
        enabled_observations=enabled_observations,
        **options,
    )(x, params)


def model_residual(  # noqa: PLR0913, PLR0917 (the toolbox's signature)
    x: NDArray[np.float64],
    params: ParameterDict,
    build_model: Callable[[ParameterDict], mujoco.MjModel],
    traj_measured: Sequence[SystemTrajectory] | SystemTrajectory,
    modify_residual: ModifyResidualFn | None = None,
    custom_rollout: CustomRolloutFn | None = None,
    n_threads: int = 0,
    return_pred_all: bool = False,  # noqa: FBT002
    resample_true: bool = True,  # noqa: FBT002
    sensor_weights: Mapping[str, float] | None = None,
    enabled_observations: Sequence[tuple[str, SignalType]] = (),
    **options: Any,
) -> tuple[NDArray[np.float64], list[TimeSeries], list[TimeSeries]]:
    """Evaluate candidates of one model on measured trajectories once.

    The trajectories need not cover all sensors of the model. ``build_model(params)`` compiles it;
    what targets of the parameters name is its business, too. All else is as of `residual`.

    Returns:
        The (n,) or (n, m) residuals of all trajectories, and the predicted and measured series: of
        every trajectory with the first candidate, then with the next.

    Raises:
        FitError: There is no trajectory, or an option or the shape of ``x`` is not valid.
        CandidateError: No model can be built for a candidate.
    """
    if isinstance(traj_measured, SystemTrajectory):
        traj_measured = [traj_measured]
    trajectories = list(traj_measured)
    if not trajectories:
        raise FitError('Expected a measured trajectory, found none.')
    given = params.copy()

    def build(candidate: ParameterDict, _: mujoco.MjSpec) -> mujoco.MjModel:
        given.update_from_vector(candidate.as_vector())
        return build_model(given)

    untargeted = params.copy()
    for parameter in untargeted.values():
        parameter.target = None
    found, predicted, measured = residual(
        x,
        untargeted,
        [ModelSequences.of_trajectories('model', trajectories)],
        build,
        modify_residual,
        custom_rollout,
        n_threads,
        return_pred_all,
        resample_true,
        sensor_weights,
        enabled_observations,
        **options,
    )
    return (
        np.concatenate(found),
        [series for candidate in zip(*predicted, strict=True) for series in candidate],
        [series for candidate in zip(*measured, strict=True) for series in candidate],
    )


def construct_ts_from_defaults(
    state_ts: TimeSeries,
    pred_sensordata: TimeSeries,
    measured_sensordata: TimeSeries,
    enabled_observations: Sequence[tuple[str, SignalType]] | None = None,
) -> tuple[TimeSeries, TimeSeries]:
    """Pair what was simulated with what was measured, by name.

    States and measurements have names; sensors that were simulated without have the columns of the
    measured ones. ``enabled_observations`` are names and types of signals that count; all by
    default.

    Returns:
        The measured series with its stamps, and the predicted one with those of
        ``pred_sensordata``, both with the signals that count; a state is NaN at stamps where
        ``state_ts`` has none.

    Raises:
        FitError: A signal is not measured, is of another type, was not simulated, or is a
            ``CustomObs``, which only a ``modify_residual`` of the user's own can compare.
    """
    kinds = dict(enabled_observations or ())
    for name, kind in kinds.items():
        if name not in measured_sensordata.signal_mapping:
            hint = nearest(name, measured_sensordata.signal_mapping)
            raise FitError(f'Observation {name!r} was not measured; {hint}.')
        found = measured_sensordata.signal_mapping[name][0]
        if found is not kind:
            raise FitError(
                f'Observation {name!r} is of type {found.name}, but declared as {kind.name}.'
            )
    measured = measured_sensordata
    if kinds:
        measured = measured.slice_by_name(list(kinds))
    data = np.full((len(pred_sensordata), measured.matrix.shape[1]), np.nan)
    for name, (kind, columns) in measured.signal_mapping.items():
        if kind is SignalType.CustomObs:
            raise FitError(
                f'Observation {name!r} is a CustomObs, which the model does not predict; pass a '
                'modify_residual that compares it.'
            )
        if kind in STATES:
            own = _of(state_ts, name).slice_by_name([name])
            times = pred_sensordata.times
            if np.array_equal(own.times, times):
                data[:, columns] = own.data
            else:
                outside = (times < own.times[0]) | (times > own.times[-1])
                data[:, columns] = np.where(outside[:, None], np.nan, own.interpolate(times))
        elif pred_sensordata.signal_mapping:
            data[:, columns] = _of(pred_sensordata, name).get(name)
        else:
            data[:, columns] = pred_sensordata.matrix[:, measured_sensordata.get_indices(name)[1]]
    return measured, TimeSeries(pred_sensordata.times, data, measured.signal_mapping)


def _of(series: TimeSeries, name: str) -> TimeSeries:
    if name not in series.signal_mapping:
        raise FitError(
            f'Observation {name!r} was not simulated; {nearest(name, series.signal_mapping)}.'
        )
    return series
