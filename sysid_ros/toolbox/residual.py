# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The toolbox's residual function: measured minus predicted for models and their sequences."""

from __future__ import annotations

import fnmatch
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import mujoco
import numpy as np
from numpy.typing import NDArray

from sysid_ros.errors import FitError, ParameterError, SignalError, SysidError, nearest
from sysid_ros.fit.noise import estimate_noise
from sysid_ros.fit.residuals import Residuals
from sysid_ros.model.candidates import Rebuild, learn, writable_model
from sysid_ros.model.kinds import Role
from sysid_ros.report.rendering import FULLPHYSICS
from sysid_ros.signals import SignalType, Trajectory
from sysid_ros.simulation.runs import ON_STEP, MeasurementModel
from sysid_ros.simulation.simulator import Simulator
from sysid_ros.toolbox.modifiers import apply_param_modifiers, remove_visuals
from sysid_ros.toolbox.parameter import Parameter, ParameterDict, check_targets, unknowns_of
from sysid_ros.toolbox.timeseries import (
    STATES,
    TimeSeries,
    apply_delayed_ts_window,
    apply_resample_and_delay,
    control_mapping,
    corrected,
    normalize_residual,
    sensor_mapping,
    since,
    state_mapping,
    weighted_diff,
)
from sysid_ros.toolbox.trajectory import (
    SAME_STEP,
    ModelSequences,
    SystemTrajectory,
    commands,
    sequence_labels,
    stepped,
    sysid_rollout,
)

Array = NDArray[np.float64]
Outcome = tuple[list[Array], list[list[TimeSeries]], list[list[TimeSeries]]]
SensorStamps = Literal['auto', 'measured', 'rollout']
Side = Literal['predicted', 'measured', 'both']

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


class _Rule(NamedTuple):
    """A parameter for the sensors that a pattern matches."""

    kind: Literal['delay', 'gain', 'bias']
    pattern: str
    parameter: str
    side: Side


class SignalTransform:
    """Delays, gains and biases of sensors, for ``build_residual_fn(signal_transform=…)``.

    Patterns are those of ``fnmatch``, in which upper and lower case differ. Of the delays that
    match a sensor the last one counts; gains multiply and biases add up, gains before biases. The
    residual of a sample y at time t is ``(g_m·y + b_m) − (g_p·p(t − d) + b_p)``, in units of its
    noise, which g_m multiplies too.

    Attributes:
        normalize: Whether ``apply`` divides residuals as ``normalize_residual`` does.
        enabled: Names of the sensors that count; None for all.
        weights: Name of a sensor to the factor of its residuals, 1 for the others.
    """

    def __init__(self, normalize: bool = True) -> None:
        """Start without any rule."""
        self.normalize = normalize
        self._rules: list[_Rule] = []
        self.enabled: tuple[str, ...] | None = None
        self.weights: dict[str, float] = {}

    def delay(self, pattern: str, param: Parameter) -> None:
        """Delay sensors: a sample describes the state of the model ``param.value`` seconds before.

        The parameter's bounds decide which samples are compared.
        """
        if param.size != 1:
            raise ParameterError(
                f'Expected a delay of 1 component, found {param.size} in {param.name!r}.'
            )
        self._add(_Rule('delay', pattern, param.name, 'predicted'))

    def gain(self, pattern: str, param: Parameter, target: Side = 'both') -> None:
        """Multiply sensors by a parameter, one factor for all columns of a sensor or one for each.

        ``target`` is whether what is ``'predicted'``, what was ``'measured'``, or ``'both'``, which
        without a bias of one of them changes nothing.
        """
        self._add(_Rule('gain', pattern, param.name, target))

    def bias(self, pattern: str, param: Parameter, target: Side = 'both') -> None:
        """Add a parameter to sensors, one value in their unit for all columns or one for each."""
        self._add(_Rule('bias', pattern, param.name, target))

    def enable_sensors(self, sensor_names: Iterable[str]) -> None:
        """Let only some sensors count, in the order of the residual's columns."""
        names = [sensor_names] if isinstance(sensor_names, str) else sensor_names
        self.enabled = tuple(dict.fromkeys(names))
        if not self.enabled:
            raise SignalError('Expected the name of at least one sensor to enable, found none.')

    def set_sensor_weights(self, weights: Mapping[str, float]) -> None:
        """Set the factors of residuals: name of a sensor to 0 or more, 1 for the others."""
        self.weights = dict(weights)
        _check_weights(weights, weights)

    def _add(self, rule: _Rule) -> None:
        if rule.side not in get_args(Side):
            raise SignalError(
                "target must be 'predicted', 'measured' or 'both', "
                f'found {rule.side!r}; {nearest(str(rule.side), get_args(Side))}.'
            )
        self._rules.append(rule)

    def check(self, sensor_names: Sequence[str]) -> None:
        """Check that every pattern and name means a sensor of those of all models."""
        for rule in self._rules:
            if not fnmatch.filter(sensor_names, rule.pattern):
                raise SignalError(
                    f'Pattern {rule.pattern!r} of parameter {rule.parameter!r} matches no sensor; '
                    f'{nearest(rule.pattern, sensor_names)}.'
                )
        for name in self.enabled or ():
            if name not in sensor_names:
                raise SignalError(
                    f'There is no sensor {name!r} to enable; {nearest(name, sensor_names)}.'
                )
        _check_weights(self.weights, sensor_names)

    def acting(self, sensor: str, kind: str, side: str = 'predicted') -> tuple[str, ...]:
        """Return the names of the parameters of one kind that act on a sensor."""
        return tuple(
            rule.parameter
            for rule in self._rules
            if rule.kind == kind
            and rule.side in {side, 'both'}
            and fnmatch.fnmatchcase(sensor, rule.pattern)
        )

    def _factors(self, sensor: str) -> list[tuple[str, ...]]:
        """Return what names gains of the predicted and the measured side, and biases of both."""
        pairs = itertools.product(('gain', 'bias'), ('predicted', 'measured'))
        return [self.acting(sensor, kind, side) for kind, side in pairs]

    def laws(
        self, params: ParameterDict, sensors: Iterable[str]
    ) -> dict[Any, MeasurementModel] | None:
        """Return what is done to each sensor, in terms of a candidate's columns.

        None where the engine's formulas do not have it: measurements are multiplied, or axes of a
        sensor differ.
        """
        if any(params[rule.parameter].size > 1 for rule in self._rules):
            return None
        # A candidate's columns are those of the free parameters, then those of the frozen ones.
        order = sorted(params, key=lambda name: params[name].frozen)
        ends = np.cumsum([0, *(params[name].size for name in order)]).tolist()
        places = dict(zip(order, ends, strict=False))
        found: dict[Any, MeasurementModel] = {}
        for sensor in sensors:
            gains, measured_gains, biases, measured_biases = (
                tuple(places[name] for name in names) for names in self._factors(sensor)
            )
            if biases == measured_biases:  # they cancel out, and gains may then, too
                biases = measured_biases = ()
                if gains == measured_gains:
                    gains = measured_gains = ()
            if measured_gains:
                return None
            delays = [places[name] for name in self.acting(sensor, 'delay')]
            found[sensor] = MeasurementModel(
                gains=gains,
                biases=biases,
                measured_biases=measured_biases,
                delay=delays[-1] if delays else None,
            )
        return found

    def delay_bounds(self, params: ParameterDict, sensors: Iterable[str]) -> tuple[float, float]:
        """Return the smallest and the largest delay that any of the sensors may have, seconds."""
        limits: list[float] = []
        for sensor in sensors:
            delays = [params[name] for name in self.acting(sensor, 'delay')]
            if not delays:
                limits.append(0.0)
            elif delays[-1].frozen:
                limits.append(float(delays[-1].as_vector()[0]))
            else:
                limits.extend(np.ravel(delays[-1].get_bounds()))
        return float(min(limits)), float(max(limits))

    def apply(
        self,
        params: ParameterDict,
        sensordata_predicted: TimeSeries,
        sensordata_measured: TimeSeries,
        model: mujoco.MjModel,
        return_pred_all: bool = False,
        state: Array | None = None,
        sensor_weights: Mapping[str, float] | None = None,
    ) -> tuple[Array, TimeSeries, TimeSeries]:
        """Compare one rollout with its measurements, as ``modify_residual`` callbacks do.

        Measurements are compared at their own times, where every delay within the bounds is
        predicted. Samples that were not measured (NaN) have residual zero. ``return_pred_all``
        keeps sensors that are not enabled, ``sensor_weights`` replace ``set_sensor_weights``.

        Returns:
            (m, k) residuals, and the two series with m samples of the k columns.
        """
        del state
        mapping = sensordata_predicted.signal_mapping or sensor_mapping(model)
        predicted, measured = (
            TimeSeries(series.times, series.data, series.signal_mapping or mapping)
            for series in (sensordata_predicted, sensordata_measured)
        )
        self.check(predicted.names)
        names = measured.names
        if not return_pred_all and self.enabled is not None:
            names = tuple(name for name in self.enabled if name in names)
        if not names:
            raise SignalError(
                f'None of the enabled sensors was measured; {nearest(" ", measured.names)}.'
            )
        window = self.delay_bounds(params, names)
        measured = apply_delayed_ts_window(_only(measured, names), predicted, *window)
        delays = {
            sensor: float(params[delay].value.item())
            for sensor in names
            for delay in self.acting(sensor, 'delay')
        }
        predicted = apply_resample_and_delay(_only(predicted, names), measured.times, 0.0, delays)
        for sensor in names:
            gains, measured_gains, biases, measured_biases = (
                [params[name] for name in names] for names in self._factors(sensor)
            )
            predicted = corrected(predicted, sensor, gains, biases)
            measured = corrected(measured, sensor, measured_gains, measured_biases)
        residual = weighted_diff(predicted, measured, model, sensor_weights or self.weights)
        if self.normalize:
            residual = normalize_residual(residual, measured.data)
        return np.where(np.isfinite(measured.data), residual, 0.0), predicted, measured


def _only(series: TimeSeries, names: Sequence[str]) -> TimeSeries:
    """Return some signals of a series, their columns in the order of the names."""
    found = [(name, series.get(name).shape[1], series.get_indices(name)[0]) for name in names]
    data = np.hstack([series.get(name) for name in names])
    return TimeSeries.from_custom_map(series.times, data, found)


def _check_weights(weights: Mapping[str, float], known: Iterable[str]) -> None:
    for name, weight in weights.items():
        if name not in known:
            raise SignalError(f'There is no signal {name!r} to weight; {nearest(name, known)}.')
        if not (np.ndim(weight) == 0 and 0 <= weight < np.inf):
            raise SignalError(
                f'Expected a finite weight of signal {name!r} of at least 0, found {weight!r}.'
            )


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
            late. With ``'auto'``, stamps as a rollout has them are taken for such, until `optimize`
            finds that the data speak against it, and the function keeps to that; with a
            ``custom_rollout`` it is the other way round.
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
        #: Whether the stamps may be those of a rollout, and nobody has said whether they are.
        self.undecided = options.sensor_stamps == 'auto' and _like_those_of_a_rollout(options)
        if options.sensor_stamps == 'auto':
            simulated = self.undecided and options.custom_rollout is None
            options = options._replace(sensor_stamps='rollout' if simulated else 'measured')
        self.options = options
        self._structure: tuple[Any, ...] = ()
        self._made_for: ParameterDict | None = None
        self._residuals: Residuals | CustomComparison | None = None
        self._recorded: list[Recorded] = []

    def __call__(self, x: Array, params: ParameterDict, **overrides: Any) -> Outcome:
        """Evaluate candidates with other options for this call, if any; see `residual`."""
        if overrides:
            return build_residual_fn(**{**self.options._asdict(), **overrides})(x, params)
        x = np.asarray(x, dtype=np.float64)
        if x.ndim not in (1, 2) or len(x) != params.size:
            raise FitError(
                f'Expected {params.size} values, one for each component of the parameters that '
                f'are not frozen, or (p, m) of them, found x of shape {x.shape}.'
            )
        candidates = x[None] if x.ndim == 1 else x.T
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
        structure = _structure(params)
        if self._residuals is None or self._structure != structure:
            self._residuals, self._recorded = _prepare(self.options, params)
            # The copy keeps the modifiers, so that no other takes the id of one.
            self._structure, self._made_for = structure, params.copy()
        return self._residuals

    def rival(self) -> ResidualFunction:
        """Return the same function with the other times that its stamps may have.

        It has the noise of this one, so that their costs can be compared.
        """
        stamps: SensorStamps = 'measured' if self.options.sensor_stamps == 'rollout' else 'rollout'
        noise = self.options.noise if self._residuals is None else self._residuals.noise
        return ResidualFunction(self.options._replace(sensor_stamps=stamps, noise=noise))

    def become(self, other: ResidualFunction) -> None:
        """Take the options of another residual function for all calls to come."""
        self.__dict__.update(other.__dict__)

    @property
    def excluded(self) -> int:
        """Samples of the last call outside of their sequence, which are not compared."""
        return sum(entry.excluded for entry in self._recorded)


def _like_those_of_a_rollout(options: Options) -> bool:
    """Return whether all measurements are stamped whole steps after the start, the first one step.

    So are the states that ``mujoco.rollout`` returns, or every fifth of them, and what a loop notes
    down after each step. Measured states have these times by right.
    """
    kinds: set[SignalType] = set()
    for group in options.models_sequences:
        step = float(group.gt_model.opt.timestep)
        for run in group.measured_rollout:
            times = run.sensordata.times
            steps = (times - run.start) / step
            slack = SAME_STEP + 4 * np.spacing(abs(times[-1])) / step
            if abs(steps[0] - 1) > slack or np.any(np.abs(steps - np.rint(steps)) > slack):
                return False
            kinds.update(kind for kind, _ in run.sensordata.signal_mapping.values())
    return options.resample_true and not kinds.issubset(STATES)


def build_residual_fn(**options: Any) -> ResidualFunction:
    """Make a residual function with its options bound, see `Options`.

    A residual is measured minus predicted, divided by the noise of the signal and times its
    weight. A sample is compared with the model at the time of its stamp: row k of a rollout's
    sensors describes the state before step k. Commands hold until the next one. Signals are paired
    by name.

    Returns ``fn(x, params, **overrides) -> (residuals, predictions, records)``.
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
    found = Options(**options)
    if found.sensor_stamps not in get_args(SensorStamps):
        known = "'auto', 'measured' or 'rollout'"
        raise FitError(f'Expected sensor_stamps {known}, found {found.sensor_stamps!r}.')
    bound_to = getattr(found.modify_residual, '__self__', None)
    if isinstance(bound_to, SignalTransform) and found.custom_rollout is None:
        found = found._replace(modify_residual=None, signal_transform=bound_to)
    return ResidualFunction(found)


def _structure(params: ParameterDict) -> tuple[Any, ...]:
    """Return what residuals depend on, beside the values of what is not frozen.

    Modifiers are the same only as objects: some have an equality that is no truth value.
    """
    return tuple(
        (name, p.frozen, p.target, p.scale, id(p.modifier), *(a.tobytes() for a in arrays))
        for name, p in params.items()
        for arrays in [(p.as_vector() if p.frozen else p.as_nominal_vector(), *p.get_bounds())]
    )


def _prepare(
    options: Options, params: ParameterDict
) -> tuple[Residuals | CustomComparison, list[Recorded]]:
    groups = list(options.models_sequences)
    _check_selection(groups, options)
    labels = sequence_labels(groups)
    models = [(g.gt_model, own, g.named_spec) for g, own in zip(groups, labels, strict=True)]
    check_targets(params, models)
    transform, laws, lead = options.signal_transform, None, 0.0
    if transform is not None:
        sensors = [n for g in groups for run in g.measured_rollout for n in run.sensordata.names]
        transform.check(sensors)
        laws = transform.laws(params, dict.fromkeys(sensors))
        lead = max(-transform.delay_bounds(params, sensors)[0], 0.0)
        options = options._replace(sensor_weights=options.sensor_weights or transform.weights)
        if laws is None or options.custom_rollout is not None:
            own = options.modify_residual or transform.apply
            options = options._replace(modify_residual=own)
    made = [_group(options, g, own, params, lead) for g, own in zip(groups, labels, strict=True)]
    simulators = [simulator for simulator, _ in made]
    recorded = [entry for _, own in made for entry in own]
    noise = estimate_noise(run for simulator in simulators for run in simulator.runs)
    noise.update(options.noise or {})
    if options.modify_residual is not None or options.custom_rollout is not None:
        pairs = [(simulator, entry) for simulator, own in made for entry in own]
        return CustomComparison(options, params.copy(), pairs, noise), recorded
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
    sensors = [name for group in groups for name in sensor_mapping(group.gt_model)]
    _check_weights(options.sensor_weights or {}, {*measured, *sensors})


def _group(
    options: Options, group: ModelSequences, labels: list[str], params: ParameterDict, lead: float
) -> tuple[Simulator, list[Recorded]]:
    """Return what simulates the sequences of one model, and the sequences."""
    recorded = [
        _record(group.gt_model, label, trajectory, options)
        for label, trajectory in zip(labels, group.measured_rollout, strict=True)
    ]
    own_builder = options.build_model is not apply_param_modifiers
    spec, model = group.named_spec, group.gt_model
    calling = [
        p for p in params.values() if p.target is None and (own_builder or p.modifier is not None)
    ]
    free = [p for p in params.values() if not p.frozen for _ in range(p.size)]
    called = [place for place, p in enumerate(free) if p in calling]
    if called or (calling and not own_builder):
        spec = spec.copy()
    if called:
        # What a callback moves may end that a body is "simple"; one batch needs one layout.
        for body in spec.bodies:
            body.simple = False
    elif not own_builder:
        for parameter in calling:
            parameter.apply_modifier(spec)
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
    origin = float(control.times[0])
    if options.resample_true:
        origin = trajectory.start
        control_times, times = (since(s.times, origin, timestep) for s in (control, sensordata))
    else:
        control_times, times = (
            timestep * np.arange(len(series), dtype=np.float64) for series in (control, sensordata)
        )
    rollout = options.resample_true and options.sensor_stamps == 'rollout'
    kinds = {kind for kind, _ in sensordata.signal_mapping.values()}
    late = timestep if rollout and not kinds.issubset(STATES) else 0.0
    kept = (times - late >= -ON_STEP) & (times - late <= control_times[-1] + ON_STEP)
    if not kept.any():
        raise FitError(
            f'Sequence {name!r} has controls from {control.times[0]:.9g} to '
            f'{control.times[-1]:.9g} s and starts at {origin:.9g} s, but its measurements, from '
            f'{sensordata.times[0]:.9g} to {sensordata.times[-1]:.9g} s, lie outside.'
        )
    measured = sensordata.rows(kept)
    groups: list[TimeSeries] = []
    known = {**sensor_mapping(model), **state_mapping(model)}
    for shift, states in ((late, False), (0.0, True)):
        mapping = {
            signal: (kind, columns)
            for signal, (kind, columns) in measured.signal_mapping.items()
            if (kind in STATES) is states and (signal in known or not own_comparison)
        }
        if mapping:
            stamps = np.maximum(times[kept] - shift, 0.0)
            groups.append(TimeSeries(stamps, measured.data, mapping))
    data = mujoco.MjData(model)
    mujoco.mj_setState(model, data, trajectory.initial_state, FULLPHYSICS)
    actuators = {n.removesuffix('_ctrl'): entry for n, entry in control_mapping(model).items()}
    sequence = Trajectory(
        name=name,
        origin_ns=round(origin * 1e9),
        initial_qpos=data.qpos.copy(),
        initial_qvel=data.qvel.copy(),
        commands=(TimeSeries(control_times, commands(model, control), actuators),),
        measurements=tuple(groups),
        initial_act=data.act.copy(),
    )
    given = trajectory.replace(sensordata=_earlier(trajectory.sensordata, late))
    return Recorded(given, sequence, measured, int(np.count_nonzero(~kept)))


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


class CustomComparison(NamedTuple):
    """A user's own comparison or simulation, as a function of the candidates."""

    options: Options
    params: ParameterDict
    recorded: Sequence[tuple[Simulator, Recorded]]
    noise: Mapping[str, float]

    def compare(self, candidates: Array) -> Outcome:
        """Return residuals (n, m), predicted and measured series for every trajectory."""
        outcome: Outcome = ([], [], [])
        param_dicts = [self.params.copy() for _ in candidates]
        for params, x in zip(param_dicts, candidates, strict=True):
            params.update_from_vector(x)
        for simulator, entry in self.recorded:
            models = [simulator.compiled(x) for x in candidates]
            rollouts = self._rollouts(simulator.threads, entry.given, models, param_dicts)
            parts = [
                self._compared(entry.given, model, rollout, params)
                for model, rollout, params in zip(models, rollouts, param_dicts, strict=True)
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
        param_dicts: list[ParameterDict],
    ) -> Sequence[SystemTrajectory]:
        """Simulate one trajectory with every candidate, on the user's clock."""
        count, model, control = len(models), models[0], given.control
        if not self.options.resample_true:
            times = control.times[0] + float(model.opt.timestep) * np.arange(len(control))
            control = TimeSeries(times, control.data, control.signal_mapping)
        common: dict[str, Any] = {
            'models': models,
            'datas': [mujoco.MjData(model) for _ in range(threads)],
            'control_signal': [stepped(model, control, given.start)] * count,
            'initial_states': [given.initial_state] * count,
            'rollout_signal_mapping': sensor_mapping(model),
            'rollout_state_mapping': state_mapping(model),
            'ctrl_mapping': control_mapping(model),
        }
        if self.options.custom_rollout is None:
            return sysid_rollout(**common)
        made = self.options.custom_rollout(**common, param_dicts=param_dicts)
        rollouts: list[SystemTrajectory] = [] if made is None else list(made)
        if len(rollouts) != count:
            raise FitError(
                f'Expected custom_rollout to return {count} trajectories, one per model, '
                f'found {len(rollouts)}.'
            )
        return rollouts

    def _compared(
        self,
        given: SystemTrajectory,
        model: mujoco.MjModel,
        rollout: SystemTrajectory,
        params: ParameterDict,
    ) -> tuple[Array, TimeSeries, TimeSeries]:
        options, state, series = self.options, rollout.state, given.sensordata
        if options.modify_residual is not None:
            made = options.modify_residual(
                params,
                rollout.sensordata,
                series,
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
        if options.observed:
            series = series.slice_by_name([n for n in options.observed if n in series.names])
        measured = apply_delayed_ts_window(series, rollout.sensordata, 0.0, 0.0)
        predicted = _paired(measured, state, rollout.sensordata)
        weights = options.sensor_weights or {}
        scales = {n: weights.get(n, 1.0) / self.noise.get(n, 1.0) for n in measured.names}
        residual = weighted_diff(predicted, measured, model, scales)
        return residual[np.isfinite(measured.matrix)], predicted, measured


def _paired(measured: TimeSeries, state: TimeSeries | None, sensordata: TimeSeries) -> TimeSeries:
    """Return what was simulated of measured signals, at their stamps; NaN where unknown."""
    times, data = measured.times, np.empty((len(measured), measured.matrix.shape[1]))
    for name, (kind, columns) in measured.signal_mapping.items():
        source = state if kind in STATES and state is not None else sensordata
        if name not in source.signal_mapping:
            why = 'a modify_residual compares what the model does not predict'
            raise FitError(
                f'Observation {name!r} was not simulated; {nearest(name, source.names)}; {why}.'
            )
        data[:, columns] = TimeSeries(source.times, source.get(name)).interpolate(times)
        data[np.ix_((times < source.times[0]) | (times > source.times[-1]), columns)] = np.nan
    return TimeSeries(times, data, measured.signal_mapping)


def residual(
    x: Array,
    params: ParameterDict,
    models_sequences: Sequence[ModelSequences],
    build_model: BuildModelFn = apply_param_modifiers,
    modify_residual: ModifyResidualFn | None = None,
    custom_rollout: CustomRolloutFn | None = None,
    n_threads: int = 0,
    return_pred_all: bool = False,
    resample_true: bool = True,
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
