# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The toolbox's residual function: measured minus predicted for models and their sequences."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import mujoco
import numpy as np

from sysid_ros.errors import FitError, SysidError, nearest
from sysid_ros.estimation.noise import estimate_noise
from sysid_ros.estimation.residuals import Residuals
from sysid_ros.model.loading import is_writable, writable_model
from sysid_ros.model.rebuild import Rebuild
from sysid_ros.model.targets import Role
from sysid_ros.rollout.measurement import MeasurementModel
from sysid_ros.rollout.simulation import Simulator
from sysid_ros.toolbox.building import ParameterBuilder
from sysid_ros.toolbox.custom import Callbacks, CustomResiduals, Measured
from sysid_ros.toolbox.modifiers import apply_param_modifiers
from sysid_ros.toolbox.recorded import Recorded, described, record
from sysid_ros.toolbox.selection import check_selection, observed, weights_of
from sysid_ros.toolbox.signal_transform import SignalTransform
from sysid_ros.toolbox.unknowns_of import check_targets, unknowns_of
from sysid_ros.toolbox.visuals import remove_visuals

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from sysid_ros.rollout.measurement import Signal
    from sysid_ros.signals import TimeSeries
    from sysid_ros.toolbox.callbacks import BuildModelFn, CustomRolloutFn, ModifyResidualFn
    from sysid_ros.toolbox.parameter import ParameterDict
    from sysid_ros.toolbox.recorded import SensorStamps
    from sysid_ros.toolbox.single_parameter import Parameter
    from sysid_ros.toolbox.trajectory import ModelSequences

    Outcome = tuple[list[NDArray[np.float64]], list[list[TimeSeries]], list[list[TimeSeries]]]


class Options(NamedTuple):
    """How residuals are made; see `build_residual_fn`."""

    models_sequences: Sequence[ModelSequences]
    build_model: BuildModelFn = apply_param_modifiers
    modify_residual: ModifyResidualFn | None = None
    custom_rollout: CustomRolloutFn | None = None
    n_threads: int = 0
    return_pred_all: bool = False
    resample_true: bool = True
    sensor_weights: Mapping[str, Any] | None = None
    enabled_observations: Any = ()
    signal_transform: SignalTransform | None = None
    sensor_stamps: SensorStamps = 'measured'
    noise: Mapping[str, float] | None = None


class Prepared(NamedTuple):
    """Residuals for the parameters of one dictionary, and what they compare."""

    residuals: Residuals | CustomResiduals
    recorded: tuple[Recorded, ...]
    key: tuple[Any, ...]


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
        """Evaluate candidates.

        Args:
            x: (p,) values of the parameters that are not frozen, or (p, m) candidates.
            params: The parameters; they are not changed.
            **overrides: Other options for this call.

        Returns:
            For each sequence of each model, in order: the (n,) or (n, m) residuals, the predicted
            series of each candidate, and the measured series for each of them.

        Raises:
            FitError: ``x`` has another length than the parameters have.
        """
        if overrides:
            options = _checked({**self.options._asdict(), **overrides})
            return ResidualFunction(options)(x, params)
        x = np.asarray(x, dtype=np.float64)
        if x.ndim not in (1, 2):
            msg = f'Expected x of shape (p,) or (p, m), got {x.shape}.'
            raise FitError(msg)
        candidates = x[None] if x.ndim == 1 else x.T
        if candidates.shape[1] != params.size:
            msg = (
                f'Expected {params.size} values, one for each component of the parameters that '
                f'are not frozen, got x of shape {x.shape}.'
            )
            raise FitError(msg)
        prepared = self.prepared(params)
        residuals = prepared.residuals
        if isinstance(residuals, CustomResiduals):
            found, predicted, measured = residuals.compare(candidates)
        else:
            found, predicted, measured = _compare(residuals, prepared.recorded, candidates)
        return [part[:, 0] for part in found] if x.ndim == 1 else found, predicted, measured

    def prepared(self, params: ParameterDict) -> Prepared:
        """Return the residuals for some parameters, made anew when their structure changes."""
        key = _structure(params)
        if self._prepared is None or self._prepared.key != key:
            self._prepared = _prepare(self.options, params, key)
        return self._prepared

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
            ``sensor_stamps``: ``'measured'``, or ``'rollout'`` for data that carry
            ``mujoco.rollout``'s state times, which are one step late. ``noise``: signal name to
            standard deviation in its unit; estimated from the measurements where not given.

    Returns:
        A function ``fn(x, params, **overrides) -> (residuals, predictions, records)``.

    Raises:
        FitError: An option is unknown or not valid.
    """
    return ResidualFunction(_checked(options))


def _checked(options: dict[str, Any]) -> Options:
    for name in options:
        if name not in Options._fields:
            msg = f'Unknown option {name!r} of build_residual_fn; {nearest(name, Options._fields)}.'
            raise FitError(msg)
    if not options.get('models_sequences'):
        msg = 'Expected models_sequences, a list of at least one ModelSequences, found none.'
        raise FitError(msg)
    stamps = options.get('sensor_stamps', 'measured')
    if stamps not in ('measured', 'rollout'):
        msg = f"Expected sensor_stamps 'measured' or 'rollout', found {stamps!r}."
        raise FitError(msg)
    found = Options(**options)
    bound_to = getattr(found.modify_residual, '__self__', None)
    if isinstance(bound_to, SignalTransform) and found.custom_rollout is None:
        found = found._replace(modify_residual=None, signal_transform=bound_to)
    return found


def _structure(params: ParameterDict) -> tuple[Any, ...]:
    """Return what residuals depend on, beside the values of what is not frozen."""
    return tuple(
        (
            name,
            p.size,
            p.frozen,
            p.target,
            p.modifier,  # itself, as an id may be given again to another function
            p.scale,
            p.as_vector().tobytes() if p.frozen else p.as_nominal_vector().tobytes(),
            tuple(bound.tobytes() for bound in p.get_bounds()),
        )
        for name, p in params.items()
    )


def _prepare(options: Options, params: ParameterDict, key: tuple[Any, ...]) -> Prepared:
    groups = list(options.models_sequences)
    check_selection(groups, options.enabled_observations, options.sensor_weights)
    check_targets(
        params, [(group.gt_model, _labels(groups, group), group.spec) for group in groups]
    )
    transform = options.signal_transform
    if transform is not None and any(params[name].size > 1 for name in transform.parameter_names):
        # One number for each axis of a sensor: the transform itself knows how.
        options = options._replace(modify_residual=transform.apply, signal_transform=None)
        transform = None
    lead = 0.0 if transform is None else max(-transform.delay_bounds(params)[0], 0.0)
    made = [_group(options, groups, group, params, lead) for group in groups]
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
            weights=[_weights(options, group.name) for group in groups],
            enabled=[_enabled(options, group.name) for group in groups],
        )
    else:
        shift = -1.0 if options.sensor_stamps == 'rollout' else 0.0
        measured = [
            Measured(
                simulator,
                trajectory.replace(
                    sensordata=described(
                        trajectory.sensordata, shift * float(group.gt_model.opt.timestep)
                    )
                ),
                entry,
                _weights(options, group.name),
                observed(options.enabled_observations, group.name),
            )
            for group, (simulator, own) in zip(groups, made, strict=True)
            for trajectory, entry in zip(group.measured_rollout, own, strict=True)
        ]
        callbacks = Callbacks(
            options.modify_residual, options.custom_rollout, options.return_pred_all
        )
        residuals = CustomResiduals(callbacks, params, unknowns, measured, noise)
    return Prepared(residuals, recorded, key)


def _labels(groups: list[ModelSequences], group: ModelSequences) -> list[str]:
    """Return the names of a model's sequences, unique among all models."""
    if len(groups) == 1:
        return list(group.sequence_name)
    return [f'{group.name}/{name}' for name in group.sequence_name]


def _group(
    options: Options,
    groups: list[ModelSequences],
    group: ModelSequences,
    params: ParameterDict,
    lead: float,
) -> tuple[Simulator, list[Recorded]]:
    """Return what simulates the sequences of one model, and the sequences."""
    labels = _labels(groups, group)
    signals = None
    if not options.return_pred_all and options.modify_residual is None:
        signals = observed(options.enabled_observations, group.name)
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
    model = group.gt_model
    if called and options.build_model is apply_param_modifiers:
        spec, model = _lean(spec, model, params, labels)
    unknowns = unknowns_of(params, model, labels, frozen=True, spec=spec)
    targets = [target for unknown in unknowns for target in unknown.targets]
    rebuild = None
    if called or any(target.role is Role.SPEC for target in targets):
        builder = ParameterBuilder(options.build_model, params) if called else None
        rebuild = Rebuild(spec, unknowns, builder, called)
        model = rebuild(np.array([unknown.nominal for unknown in unknowns]))
    elif spec is not group.spec or group.changed or not is_writable(spec, targets):
        model = writable_model(spec, targets)
    simulator = Simulator(
        model,
        unknowns,
        [entry.sequence for entry in recorded],
        options.n_threads,
        build=rebuild,
        rebuilt=rebuild.columns if rebuild else (),
        lead=lead,
    )
    return simulator, recorded


def _lean(
    spec: mujoco.MjSpec, model: mujoco.MjModel, params: ParameterDict, labels: list[str]
) -> tuple[mujoco.MjSpec, mujoco.MjModel]:
    """Leave visuals out of a spec that is compiled for each candidate, if nothing needs them."""
    try:
        lean = remove_visuals(spec)
        for parameter in params.values():
            if parameter.target is None:
                parameter.apply_modifier(lean.copy())
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


def _weights(options: Options, model: str) -> dict[str, float]:
    transform = options.signal_transform
    if not options.sensor_weights and transform is not None:
        return dict(transform.weights or {})
    return weights_of(options.sensor_weights, model)


def _enabled(options: Options, model: str) -> Callable[[str], bool]:
    signals = observed(options.enabled_observations, model)
    if options.signal_transform is not None and options.signal_transform.enabled is not None:
        chosen = set(options.signal_transform.enabled)
        signals = [s for s in chosen if signals is None or s in signals]
    return (lambda _: True) if signals is None else set(signals).__contains__


def _laws(
    transform: SignalTransform, params: ParameterDict, simulators: list[Simulator]
) -> dict[Signal, MeasurementModel]:
    """Return what a transform does to each sensor, in terms of a candidate's columns."""
    places: dict[str, int] = {}
    for frozen in (False, True):
        for name, parameter in params.items():
            if parameter.frozen is frozen:
                places[name] = sum(params[other].size for other in places)
    sensors = dict.fromkeys(
        sensor
        for simulator in simulators
        for run in simulator.runs
        for channels in run.channels
        for sensor in channels.sensors
    )
    return {
        law.sensor: MeasurementModel(
            tuple(places[name] for name in law.predicted_gains),
            tuple(places[name] for name in law.predicted_biases),
            tuple(places[name] for name in law.measured_gains),
            tuple(places[name] for name in law.measured_biases),
            None if law.delay is None else places[law.delay],
        )
        for law in transform.channel_laws(list(sensors))
    }


def _compare(
    residuals: Residuals, recorded: tuple[Recorded, ...], candidates: NDArray[np.float64]
) -> Outcome:
    values, readings = residuals.compare(candidates)
    found: list[NDArray[np.float64]] = []
    predicted: list[list[TimeSeries]] = []
    measured: list[list[TimeSeries]] = []
    for index, entry in enumerate(recorded):
        found.append(values[residuals.rows(index)])
        channels = residuals.runs[index].channels
        predicted.append([entry.predicted(channels, own) for own in readings[index]])
        measured.append([entry.measured] * len(candidates))
    return found, predicted, measured
