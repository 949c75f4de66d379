# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The toolbox's residual function: measured minus predicted for models and their sequences."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import mujoco
import numpy as np
from numpy.typing import NDArray

from sysid_ros.errors import FitError, SysidError, nearest
from sysid_ros.estimation.noise import estimate_noise
from sysid_ros.estimation.residuals import Residuals
from sysid_ros.model.learning import learn
from sysid_ros.model.loading import writable_model
from sysid_ros.model.rebuild import Rebuild
from sysid_ros.model.targets import Role
from sysid_ros.report.rendering import FULLPHYSICS
from sysid_ros.rollout.runs import MeasurementModel
from sysid_ros.rollout.simulation import Simulator
from sysid_ros.signals import SignalType
from sysid_ros.signals.trajectory import Trajectory
from sysid_ros.toolbox.modifiers import apply_param_modifiers, remove_visuals
from sysid_ros.toolbox.parameter import (
    ModifierFn,
    Parameter,
    ParameterDict,
    check_targets,
    unknowns_of,
)
from sysid_ros.toolbox.signals import SignalTransform, apply_delayed_ts_window
from sysid_ros.toolbox.timeseries import STATES, TimeSeries, control_mapping, sensor_mapping
from sysid_ros.toolbox.trajectory import (
    SAME_STEP,
    ModelSequences,
    SystemTrajectory,
    sequence_labels,
    stepped,
    sysid_rollout,
)

Array = NDArray[np.float64]
Outcome = tuple[list[Array], list[list[TimeSeries]], list[list[TimeSeries]]]
SensorStamps = Literal['auto', 'measured', 'rollout']

#: Compiles a candidate: ``build_model(params, spec)``, with a copy of the spec that it may change.
BuildModelFn: TypeAlias = Callable[[ParameterDict, mujoco.MjSpec], mujoco.MjModel]

#: Replaces `sysid_rollout`; called with the keyword arguments ``models``, ``datas``,
#: ``control_signal``, ``initial_states``, ``param_dicts``, ``rollout_signal_mapping``,
#: ``rollout_state_mapping`` and ``ctrl_mapping``; returns one trajectory per model.
CustomRolloutFn: TypeAlias = Callable[..., Sequence[SystemTrajectory]]

#: Replaces the comparison; called as ``modify_residual(params, sensordata_predicted,
#: sensordata_measured, model, return_pred_all, state=…)``, where the state has a row after each
#: step; returns the residuals, and the predicted and the measured series.
ModifyResidualFn: TypeAlias = Callable[..., tuple[Array, TimeSeries, TimeSeries]]


class Options(NamedTuple):
    """How residuals are made.

    Attributes:
        models_sequences: The models with their measurements.
        build_model: Compiles a candidate on a copy of the spec; by default the parameters' targets
            and modifiers do.
        modify_residual: Replaces the comparison, see `ModifyResidualFn`.
        custom_rollout: Replaces the simulation, see `CustomRolloutFn`.
        n_threads: 0 for one per core.
        return_pred_all: Whether to return also series of sensors that do not count.
        resample_true: False where controls and measurements are one per step, whatever their
            stamps say.
        sensor_weights: Signal name to a factor.
        enabled_observations: Signals that count, as names or with their type; empty for all.
        signal_transform: Gains, biases and delays of sensors; its ``apply`` as ``modify_residual``
            is the same.
        sensor_stamps: ``'measured'`` where a stamp is the time that its sample describes;
            ``'rollout'`` for data that carry ``mujoco.rollout``'s state times, which are one step
            late; with ``'auto'``, `optimize` takes what leaves the lower cost where the stamps may
            be those of a rollout, and the function keeps to it.
        noise: Signal name to standard deviation in its unit; estimated where not given.
    """

    models_sequences: Sequence[ModelSequences]
    build_model: BuildModelFn = apply_param_modifiers
    modify_residual: ModifyResidualFn | None = None
    custom_rollout: CustomRolloutFn | None = None
    n_threads: int = 0
    return_pred_all: bool = False
    resample_true: bool = True
    sensor_weights: Mapping[str, float] | None = None
    enabled_observations: Sequence[str | tuple[str, SignalType]] = ()
    signal_transform: SignalTransform | None = None
    sensor_stamps: SensorStamps = 'auto'
    noise: Mapping[str, float] | None = None

    @property
    def observed(self) -> dict[str, SignalType | None]:
        """Names and, where given, types of the signals that count; none for all."""
        pairs = ((o, None) if isinstance(o, str) else o for o in self.enabled_observations or ())
        return dict(pairs)


class Recorded(NamedTuple):
    """A measured trajectory of the user, and the same for the engine."""

    given: SystemTrajectory  # its sensors' stamps being the time that they describe
    sequence: Trajectory  # in seconds from the start
    measured: TimeSeries  # the samples that are compared, on the user's clock
    excluded: int  # samples before the start or after the controls


class ResidualFunction:
    """A residual function for `optimize`; models are compiled when parameters are known."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self._made_for: tuple[tuple[Any, ...], tuple[ModifierFn | None, ...]] | None = None
        self._residuals: Residuals | CustomComparison | None = None
        self._recorded: list[Recorded] = []

    def __call__(self, x: Array, params: ParameterDict, **overrides: Any) -> Outcome:
        """Evaluate candidates with other options for this call, if any; see `residual`."""
        if overrides:
            return build_residual_fn(**{**self.options._asdict(), **overrides})(x, params)
        x = np.asarray(x, dtype=np.float64)
        if x.ndim not in (1, 2):
            raise FitError(f'Expected x of shape (p,) or (p, m), got {x.shape}.')
        candidates = x[None] if x.ndim == 1 else x.T
        if candidates.shape[1] != params.size:
            raise FitError(
                f'Expected {params.size} values, one for each component of the parameters that '
                f'are not frozen, got x of shape {x.shape}.'
            )
        residuals = self.residuals(params)
        if isinstance(residuals, CustomComparison):
            found, predicted, measured = residuals.compare(candidates)
        else:
            found, predicted, measured = self._compare(residuals, candidates)
        return [part[:, 0] for part in found] if x.ndim == 1 else found, predicted, measured

    def _compare(self, residuals: Residuals, candidates: Array) -> Outcome:
        values, simulated = residuals.compare(candidates)
        found: Outcome = ([], [], [])
        for index, entry in enumerate(self._recorded):
            found[0].append(values[residuals.rows(index)])
            series = []
            for own in simulated[index]:
                data = np.full_like(entry.measured.matrix, np.nan)
                for each, columns in zip(residuals.runs[index].readings, own, strict=True):
                    data[:, each.own] = columns
                times, mapping = entry.measured.times, entry.measured.signal_mapping
                series.append(TimeSeries(times, data, mapping))
            found[1].append(series)
            found[2].append([entry.measured] * len(candidates))
        return found

    def residuals(self, params: ParameterDict) -> Residuals | CustomComparison:
        """Return the residuals for some parameters, made anew when their structure changes."""
        # Callables are the same only as objects: some have an equality that is no truth value.
        structure, modifiers = _structure(params), tuple(p.modifier for p in params.values())
        if self._made_for is None or not (
            self._made_for[0] == structure
            and all(a is b for a, b in zip(self._made_for[1], modifiers, strict=True))
        ):
            self._residuals, self._recorded = _prepare(self.options, params)
            self._made_for = structure, modifiers
        assert self._residuals is not None  # noqa: S101
        return self._residuals

    def one_step_earlier(self) -> ResidualFunction | None:
        """Return the same function for the times of a rollout; None unless they may be such.

        They may with ``sensor_stamps='auto'`` and row k of all measurements stamped k + 1 steps
        after the start: so are the states that ``mujoco.rollout`` returns, and what a loop notes
        down after each step.
        """
        if self.options.sensor_stamps != 'auto' or not self.options.resample_true:
            return None
        for group in self.options.models_sequences:
            step = float(group.gt_model.opt.timestep)
            for run in group.measured_rollout:
                times = run.sensordata.times
                expected = run.start + step * np.arange(1, len(times) + 1)
                slack = SAME_STEP * step + 4 * np.spacing(abs(times[-1]))
                if np.any(np.abs(times - expected) > slack):
                    return None
        return ResidualFunction(self.options._replace(sensor_stamps='rollout'))

    def become(self, other: ResidualFunction) -> None:
        """Take the options of another residual function for all calls to come."""
        self.__dict__.update(other.__dict__)

    @property
    def excluded(self) -> int:
        """Samples of the last call outside of their sequence, which are not compared."""
        return sum(entry.excluded for entry in self._recorded)


def build_residual_fn(**options: Any) -> ResidualFunction:
    """Make a residual function with its options bound.

    A residual is measured minus predicted, divided by the noise of the signal and times its
    weight. A sample is compared with the model at the time of its stamp: row k of a rollout's
    sensors describes the state before step k. Commands hold until the next one. Signals are paired
    by name.

    Returns ``fn(x, params, **overrides) -> (residuals, predictions, records)``.

    Args:
        **options: See `Options`.
    """
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
    return ResidualFunction(found)


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


def _prepare(
    options: Options, params: ParameterDict
) -> tuple[Residuals | CustomComparison, list[Recorded]]:
    groups = list(options.models_sequences)
    _check_selection(groups, options)
    labels = sequence_labels(groups)
    models = [(g.gt_model, own, g.named_spec) for g, own in zip(groups, labels, strict=True)]
    check_targets(params, models)
    transform, laws = options.signal_transform, None
    if transform is not None:
        sensors = [n for g in groups for run in g.measured_rollout for n in run.sensordata.names]
        transform.check(sensors)
        laws = _laws(transform, params, dict.fromkeys(sensors))
        if transform.weights and not options.sensor_weights:
            options = options._replace(sensor_weights=transform.weights)
        if laws is None or options.custom_rollout is not None:
            own = options.modify_residual or transform.apply
            options = options._replace(modify_residual=own)
    lead = 0.0 if transform is None else max(-transform.delay_bounds(params)[0], 0.0)
    made = [_group(options, g, own, params, lead) for g, own in zip(groups, labels, strict=True)]
    simulators = [simulator for simulator, _ in made]
    recorded = [entry for _, own in made for entry in own]
    noise = estimate_noise(run for simulator in simulators for run in simulator.runs)
    noise.update(options.noise or {})
    if options.modify_residual is not None or options.custom_rollout is not None:
        pairs = [(simulator, entry) for simulator, own in made for entry in own]
        return CustomComparison(options, params, pairs, noise), recorded
    chosen = [set(options.observed), set((transform and transform.enabled) or ())]
    residuals = Residuals(
        simulators,
        noise,
        unknowns=unknowns_of(params),
        laws=laws,
        weights=[options.sensor_weights or {}] * len(groups),
        enabled=[lambda sensor: all(not c or sensor in c for c in chosen)] * len(groups),
    )
    return residuals, recorded


def _check_selection(groups: Sequence[ModelSequences], options: Options) -> None:
    """Check that what was chosen is what was measured."""
    runs = [run for group in groups for run in group.measured_rollout]
    measured = {n: kind for run in runs for n, (kind, _) in run.sensordata.signal_mapping.items()}
    for name, kind in options.observed.items():
        if name not in measured:
            raise FitError(f'There is no signal {name!r} to observe; {nearest(name, measured)}.')
        if kind is not None and measured[name] is not kind:
            raise FitError(
                f'Signal {name!r} is of type {measured[name].name}, but enabled_observations has '
                f'it as {kind.name}.'
            )
    known = {*measured, *(name for group in groups for name in sensor_mapping(group.gt_model))}
    for name, weight in (options.sensor_weights or {}).items():
        if name not in known:
            raise FitError(f'There is no signal {name!r} to weight; {nearest(name, known)}.')
        if not (np.ndim(weight) == 0 and 0 <= weight < np.inf):
            raise FitError(f'Expected a weight of signal {name!r} of 0 or more, found {weight!r}.')


def _laws(
    transform: SignalTransform, params: ParameterDict, sensors: Iterable[str]
) -> dict[Any, MeasurementModel] | None:
    """Return what a transform does to each sensor, in terms of a candidate's columns.

    None where formulas do not have it: measurements are multiplied, or axes of a sensor differ.
    """
    if any(params[name].size > 1 for name in transform.parameter_names):
        return None
    # A candidate's columns are those of the free parameters, then those of the frozen ones.
    order = sorted(params, key=lambda name: params[name].frozen)
    ends = np.cumsum([0, *(params[name].size for name in order)]).tolist()
    places = dict(zip(order, ends, strict=False))
    found: dict[Any, MeasurementModel] = {}
    for sensor in sensors:
        law = transform.linear_law(sensor)
        if law is None:
            return None
        found[sensor] = MeasurementModel(
            gains=tuple(places[name] for name in law.predicted_gains),
            biases=tuple(places[name] for name in law.predicted_biases),
            measured_biases=tuple(places[name] for name in law.measured_biases),
            delay=None if law.delay is None else places[law.delay],
        )
    return found


def _group(
    options: Options,
    group: ModelSequences,
    labels: list[str],
    params: ParameterDict,
    lead: float,
) -> tuple[Simulator, list[Recorded]]:
    """Return what simulates the sequences of one model, and the sequences."""
    recorded = [
        _record(group.gt_model, label, trajectory, options)
        for label, trajectory in zip(labels, group.measured_rollout, strict=True)
    ]
    own_builder = options.build_model is not apply_param_modifiers
    spec, called = _called(group.named_spec, params, own_builder=own_builder)
    model = group.gt_model
    if called and not own_builder:
        spec, model = _lean(spec, model, params, labels)
    unknowns = unknowns_of(params, model, labels, frozen=True, spec=spec)
    targets = [target for unknown in unknowns for target in unknown.targets]
    rebuild = None
    if called or own_builder or any(target.role is Role.SPEC for target in targets):
        builder = _CallbackBuilder(options.build_model, params) if called or own_builder else None
        rebuild = Rebuild(spec, unknowns, builder, called)
        model = rebuild(np.array([unknown.nominal for unknown in unknowns]))
        if not own_builder:  # a user's own may do anything
            rebuild.learnt = learn(rebuild, unknowns)
    else:
        model = writable_model(spec, targets)
    sequences = [entry.sequence for entry in recorded]
    simulator = Simulator(model, unknowns, sequences, options.n_threads, build=rebuild, lead=lead)
    return simulator, recorded


class _CallbackBuilder:
    """A ``build_model`` callback with parameters of its own; those with a target are written."""

    def __init__(self, build: BuildModelFn, params: ParameterDict) -> None:
        self._build = build
        self._params = params.copy()
        for parameter in self._params.values():
            if parameter.target is not None:
                parameter.target = parameter.modifier = None

    @property
    def copies(self) -> bool:
        """Whether the callback leaves the spec that it gets as it is."""
        return self._build is apply_param_modifiers

    def build(self, values: Array, spec: mujoco.MjSpec) -> mujoco.MjModel:
        """Compile the (p,) values of a candidate on a spec."""
        self._params.update_from_vector(values[: self._params.size])
        return self._build(self._params, spec)

    def describe(self, values: Array) -> str:
        """Return the (p,) values with their names."""
        names = self._params.get_non_frozen_parameter_names()
        return ', '.join(f'{n} = {v:.6g}' for n, v in zip(names, values, strict=False))


def _called(
    given: mujoco.MjSpec, params: ParameterDict, *, own_builder: bool
) -> tuple[mujoco.MjSpec, list[int]]:
    """Return the spec that candidates start from, and the columns that callbacks read."""
    frozen: list[Parameter] = []
    columns: list[int] = []
    place = 0
    for parameter in params.values():
        calls = parameter.target is None and (own_builder or parameter.modifier is not None)
        if parameter.frozen:
            if calls and not own_builder:
                frozen.append(parameter)
            continue
        columns.extend(range(place, place + parameter.size) if calls else ())
        place += parameter.size
    if not frozen and not columns:
        return given, columns
    spec = given.copy()
    for parameter in frozen:
        parameter.apply_modifier(spec)
    if columns:
        # What a callback moves may end that a body is "simple"; one batch needs one layout.
        for body in spec.bodies:
            body.simple = False
    return spec, columns


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


def _record(
    model: mujoco.MjModel, name: str, trajectory: SystemTrajectory, options: Options
) -> Recorded:
    """Turn a measured trajectory into a sequence in seconds from its start."""
    timestep = float(model.opt.timestep)
    control, sensordata = trajectory.control, trajectory.sensordata
    own_comparison = options.modify_residual is not None
    if options.observed and not (options.return_pred_all or own_comparison):
        names = [signal for signal in options.observed if signal in sensordata.signal_mapping]
        sensordata = sensordata.slice_by_name(names)
    origin, tolerance = float(control.times[0]), 1e-9
    if options.resample_true:
        origin = trajectory.start
        tolerance = max(tolerance, 4 * float(np.spacing(abs(origin))))
        control_times = _snapped(control.times - origin, timestep, tolerance)
        times = _snapped(sensordata.times - origin, timestep, tolerance)
    else:
        control_times = timestep * np.arange(len(control), dtype=np.float64)
        times = timestep * np.arange(len(sensordata), dtype=np.float64)
    rollout = options.resample_true and options.sensor_stamps == 'rollout'
    kinds = {kind for kind, _ in sensordata.signal_mapping.values()}
    late = timestep if rollout and not kinds.issubset(STATES) else 0.0
    kept = (times - late >= -tolerance) & (times - late <= control_times[-1] + tolerance)
    if not kept.any():
        raise FitError(
            f'Sequence {name!r} has controls from {control.times[0]:.9g} to '
            f'{control.times[-1]:.9g} s and starts at {origin:.9g} s, but its measurements, from '
            f'{sensordata.times[0]:.9g} to {sensordata.times[-1]:.9g} s, lie outside.'
        )
    measured = sensordata.rows(kept)
    groups: list[TimeSeries] = []
    for shift, states in ((late, False), (0.0, True)):
        mapping = {
            signal: (kind, columns)
            for signal, (kind, columns) in measured.signal_mapping.items()
            if (kind in STATES) is states and not (own_comparison and kind is SignalType.CustomObs)
        }
        if mapping:
            stamps = np.maximum(times[kept] - shift, 0.0)
            groups.append(TimeSeries(stamps, measured.data, mapping))
    data = mujoco.MjData(model)
    mujoco.mj_setState(model, data, trajectory.initial_state, FULLPHYSICS)
    actuators = {model.actuator(i).name for i in range(model.nactuator)}
    commands = {
        signal if signal in actuators else signal.removesuffix('_ctrl'): entry
        for signal, entry in (control.signal_mapping or control_mapping(model)).items()
    }
    sequence = Trajectory(
        name=name,
        origin_ns=round(origin * 1e9),
        initial_qpos=data.qpos.copy(),
        initial_qvel=data.qvel.copy(),
        commands=(TimeSeries(control_times, control.matrix, commands),),
        measurements=tuple(groups),
        initial_act=data.act.copy(),
    )
    given = trajectory.replace(sensordata=_earlier(trajectory.sensordata, late))
    return Recorded(given, sequence, measured, int(np.count_nonzero(~kept)))


def _snapped(times: Array, timestep: float, tolerance: float) -> Array:
    """Put stamps on the step that they are meant to be on: far from zero they are rounded."""
    steps = np.rint(times / timestep) * timestep
    return np.where(np.abs(times - steps) <= tolerance, steps, times)


def _earlier(series: TimeSeries, late: float) -> TimeSeries:
    """Move sensors' samples in time, so that a stamp is the time that they describe."""
    states = [columns for kind, columns in series.signal_mapping.values() if kind in STATES]
    if not late or not states:
        return TimeSeries(series.times - late, series.data, series.signal_mapping)
    data = series.interpolate(series.times + late)
    data[series.times + late > series.times[-1]] = np.nan
    for columns in states:
        data[:, columns] = series.matrix[:, columns]
    return TimeSeries(series.times, data, series.signal_mapping)


class CustomComparison:
    """A user's own comparison or simulation, as a function of the candidates."""

    def __init__(
        self,
        options: Options,
        params: ParameterDict,
        recorded: Sequence[tuple[Simulator, Recorded]],
        noise: Mapping[str, float],
    ) -> None:
        self._options = options
        self._params = params.copy()
        self._recorded = recorded
        self._noise = noise

    def compare(self, candidates: Array) -> Outcome:
        """Return residuals (n, m), predicted and measured series for every trajectory."""
        outcome: Outcome = ([], [], [])
        for simulator, entry in self._recorded:
            models = [simulator.compiled(x) for x in candidates]
            rollouts = self._rollouts(simulator.threads, entry.given, models, candidates)
            parts = [
                self._compared(entry.given, model, rollout, x)
                for model, rollout, x in zip(models, rollouts, candidates, strict=True)
            ]
            columns = [np.ravel(np.asarray(part[0], dtype=np.float64)) for part in parts]
            if len({len(column) for column in columns}) > 1:
                raise FitError(
                    'Expected modify_residual to return as many residuals for each candidate, '
                    f'found {", ".join(str(len(c)) for c in columns)} for sequence '
                    f'{entry.sequence.name!r}.'
                )
            outcome[0].append(np.stack(columns, axis=1))
            outcome[1].append([part[1] for part in parts])
            outcome[2].append([part[2] for part in parts])
        return outcome

    def _rollouts(
        self,
        threads: int,
        given: SystemTrajectory,
        models: list[mujoco.MjModel],
        candidates: Array,
    ) -> Sequence[SystemTrajectory]:
        """Simulate one trajectory with every candidate, on the user's clock."""
        count, model = len(candidates), models[0]
        qpos, qvel, act, ctrl = TimeSeries.compute_all_state_mappings(model)
        control = given.control
        if not self._options.resample_true:
            times = control.times[0] + float(model.opt.timestep) * np.arange(len(control))
            control = TimeSeries(times, control.data, control.signal_mapping)
        common: dict[str, Any] = {
            'models': models,
            'datas': [mujoco.MjData(model) for _ in range(threads)],
            'control_signal': [control] * count,
            'initial_states': [given.initial_state] * count,
            'rollout_signal_mapping': sensor_mapping(model),
            'rollout_state_mapping': {**qpos, **qvel, **act},
            'ctrl_mapping': ctrl,
        }
        if self._options.custom_rollout is None:
            return sysid_rollout(**common)
        common['control_signal'] = [stepped(model, control, given.start)] * count
        param_dicts = [self._with(x) for x in candidates]
        made = self._options.custom_rollout(**common, param_dicts=param_dicts)
        rollouts: list[SystemTrajectory] = [] if made is None else list(made)
        if len(rollouts) != count:
            raise FitError(
                f'Expected custom_rollout to return {count} trajectories, one per model, '
                f'found {len(rollouts)}.'
            )
        return rollouts

    def _with(self, x: Array) -> ParameterDict:
        self._params.update_from_vector(x)
        return self._params.copy()

    def _compared(
        self, given: SystemTrajectory, model: mujoco.MjModel, rollout: SystemTrajectory, x: Array
    ) -> tuple[Array, TimeSeries, TimeSeries]:
        options, state = self._options, rollout.state
        if options.modify_residual is not None:
            made = options.modify_residual(
                self._with(x),
                rollout.sensordata,
                given.sensordata,
                model,
                options.return_pred_all,
                state=None if state is None else state.matrix,
            )
            if not isinstance(made, (tuple, list)) or len(made) != 3:  # noqa: PLR2004
                raise FitError(
                    'Expected modify_residual to return residuals, predicted and measured series, '
                    f'found {type(made).__name__}.'
                )
            return made[0], made[1], made[2]
        series = given.sensordata
        if options.observed:
            series = series.slice_by_name([n for n in options.observed if n in series.names])
        measured = apply_delayed_ts_window(series, rollout.sensordata, 0.0, 0.0)
        predicted = _paired(measured, state, rollout.sensordata, measured.times)
        weights, scale = options.sensor_weights or {}, np.ones(measured.matrix.shape[1])
        for name, (_, columns) in measured.signal_mapping.items():
            scale[columns] = weights.get(name, 1.0) / self._noise.get(name, 1.0)
        residual = (measured.matrix - predicted.matrix) * scale
        return residual[np.isfinite(measured.matrix)], predicted, measured


def _paired(
    measured: TimeSeries, state: TimeSeries | None, sensordata: TimeSeries, times: Array
) -> TimeSeries:
    """Return what was simulated of measured signals, by name, at (n,) stamps; NaN where unknown."""
    data = np.empty((len(times), measured.matrix.shape[1]))
    for name, (kind, columns) in measured.signal_mapping.items():
        if kind is SignalType.CustomObs:
            raise FitError(
                f'Observation {name!r} is a CustomObs, which the model does not predict; pass a '
                'modify_residual that compares it.'
            )
        source = state if kind in STATES and state is not None else sensordata
        if name not in source.signal_mapping:
            raise FitError(
                f'Observation {name!r} was not simulated; {nearest(name, source.names)}.'
            )
        data[:, columns] = TimeSeries(source.times, source.get(name)).interpolate(times)
        data[np.ix_((times < source.times[0]) | (times > source.times[-1]), columns)] = np.nan
    return TimeSeries(times, data, measured.signal_mapping)


def residual(  # noqa: PLR0913, PLR0917 (the toolbox's signature)
    x: Array,
    params: ParameterDict,
    models_sequences: Sequence[ModelSequences],
    build_model: BuildModelFn = apply_param_modifiers,
    modify_residual: ModifyResidualFn | None = None,
    custom_rollout: CustomRolloutFn | None = None,
    n_threads: int = 0,
    return_pred_all: bool = False,  # noqa: FBT002
    resample_true: bool = True,  # noqa: FBT002
    sensor_weights: Mapping[str, float] | None = None,
    enabled_observations: Sequence[tuple[str, SignalType]] = (),
    **options: Any,
) -> Outcome:
    """Evaluate candidates once; a function made by `build_residual_fn` keeps what it prepared.

    ``x`` is (p,) values of the parameters that are not frozen, or (p, m) candidates; the parameters
    are not changed. The options are those of `Options`.

    Returns:
        For each sequence of each model, in order: the (n,) or (n, m) residuals, the predicted
        series of each candidate, and the measured series for each of them.
    """
    given = {name: value for name, value in locals().items() if name in Options._fields}
    return build_residual_fn(**given, **options)(x, params)


def model_residual(  # noqa: PLR0913, PLR0917 (the toolbox's signature)
    x: Array,
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
) -> tuple[Array, list[TimeSeries], list[TimeSeries]]:
    """Evaluate candidates of one model, compiled by ``build_model(params)``, on trajectories once.

    The trajectories need not cover all sensors of the model. All else is as of `residual`.

    Returns:
        The (n,) or (n, m) residuals of all trajectories, and the predicted and measured series: of
        every trajectory with the first candidate, then with the next.
    """
    own = {name: value for name, value in locals().items() if name in Options._fields}
    several = [traj_measured] if isinstance(traj_measured, SystemTrajectory) else traj_measured
    if not several:
        raise FitError('Expected a measured trajectory, found none.')
    given, untargeted = params.copy(), params.copy()
    for parameter in untargeted.values():
        parameter.target = None

    def build(candidate: ParameterDict, _: mujoco.MjSpec) -> mujoco.MjModel:
        given.update_from_vector(candidate.as_vector())
        return build_model(given)

    group = ModelSequences.of_trajectories('model', several)
    own |= {'models_sequences': [group], 'build_model': build}
    found, *series = build_residual_fn(**own, **options)(x, untargeted)
    predicted, measured = ([s for c in zip(*some, strict=True) for s in c] for some in series)
    return np.concatenate(found), predicted, measured


def construct_ts_from_defaults(
    state_ts: TimeSeries,
    pred_sensordata: TimeSeries,
    measured_sensordata: TimeSeries,
    enabled_observations: Sequence[tuple[str, SignalType]] | None = None,
) -> tuple[TimeSeries, TimeSeries]:
    """Pair what was simulated with what was measured, by name.

    Sensors that were simulated without names have the columns of the measured ones.
    ``enabled_observations`` are names and types of signals that count; all by default.

    Returns:
        The measured series with its stamps, and the predicted one with those of
        ``pred_sensordata``; a state is NaN at stamps where ``state_ts`` has none.
    """
    measured = measured_sensordata
    for name, kind in enabled_observations or ():
        found, _ = measured.get_indices(name)
        if found is not kind:
            raise FitError(
                f'Observation {name!r} is of type {found.name}, but declared as {kind.name}.'
            )
    if enabled_observations:
        measured = measured.slice_by_name([name for name, _ in enabled_observations])
    if not pred_sensordata.signal_mapping:
        mapping = measured_sensordata.signal_mapping
        pred_sensordata = TimeSeries(pred_sensordata.times, pred_sensordata.data, mapping)
    return measured, _paired(measured, state_ts, pred_sensordata, pred_sensordata.times)
