# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What a fit and its curves say, as a result that is not judged yet."""

from __future__ import annotations

import datetime as dt
import importlib.metadata
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import mujoco
import numpy as np
from numpy.typing import NDArray

from sysid_ros.config.calibration import Role, VerdictKind
from sysid_ros.inference.inference import Identification
from sysid_ros.results.diagnostics import SignalCurve, diagnose, memory, rms, sensor_errors
from sysid_ros.results.headline import FROM_RESIDUALS
from sysid_ros.results.links import links
from sysid_ros.results.result import (
    ROLES,
    CalibrationResult,
    FileHash,
    Fold,
    HorizonPoint,
    InferenceSummary,
    NoiseScale,
    ParameterResult,
    Provenance,
    SignalPlot,
    SolverSummary,
    StartKind,
    ToolError,
)
from sysid_ros.version import __version__

Values = NDArray[np.float64]

#: Points that a report can show in all; and of one curve, or poses that are compared.
_PLOT_POINTS, _POINTS = 100_000, 1000
_LIBRARIES = ('numpy', 'scipy', 'rosbags')
#: Words in the name of a site that is where a robot works.
_TOOL = re.compile(
    r'tool|tcp|ee$|ee_|eef|end_?effector|attachment|gripper|flange|tip|pinch', re.IGNORECASE
)
_WITH_POSITION = (int(mujoco.mjtJoint.mjJNT_HINGE), int(mujoco.mjtJoint.mjJNT_SLIDE))


class Validation(NamedTuple):
    """What a fit is worth on data that it did not see, and what to know of that, in sentences."""

    folds: tuple[Fold, ...] = ()
    horizon: tuple[HorizonPoint, ...] = ()
    warnings: tuple[str, ...] = ()


def summarise(
    model: str,
    fit: Identification,
    curves: Sequence[SignalCurve],
    units: Mapping[str, str],
    provenance: Provenance,
    *,
    backend: str,
    loss: str,
    advice: Callable[[str], str] | None = None,
) -> CalibrationResult:
    """Return what a fit found; what its recordings, tests and memory say is not in it yet.

    ``curves`` are of all sequences. ``advice`` says what to record for a parameter that is not
    identified, by its name.
    """
    held_out = _whitened(curves, fit.noise, 'validate')
    training = _whitened(curves, fit.noise, 'train')
    points = min(_PLOT_POINTS // max(len(curves), 1), _POINTS)
    solution, found = fit.solution, fit.inference
    parameters, inference = tuple(_parameters(fit, advice)), _inference(fit)
    noises = {noise.sensor: noise for noise in found.noises}
    return CalibrationResult(
        model=model,
        parameters=parameters,
        held_out_before=held_out[0],
        held_out_after=held_out[1],
        training_before=training[0],
        training_after=training[1],
        errors=sensor_errors(curves, units),
        noise=tuple(
            NoiseScale(
                sensor=sensor,
                unit=units[sensor],
                sigma=sigma,
                source='configuration' if sensor in fit.known_noise else FROM_RESIDUALS,
                **{
                    key: getattr(noises[sensor], key)
                    for key in ('samples', 'effective', 'autocorrelation')
                    if sensor in noises
                },
            )
            for sensor, sigma in sorted(fit.noise.items())
        ),
        plots=tuple(thinned_plots(curves, units, points)),
        topics=(),
        health=(),
        solver=SolverSummary(
            backend=backend,
            loss=loss,
            status=solution.status,
            message=solution.message,
            success=solution.success,
            iterations=len(solution.trace),
            rollouts=fit.rollouts,
            diverged=fit.diverged,
            initial_cost=solution.trace[0].cost if solution.trace else math.nan,
            final_cost=solution.cost,
            seconds=fit.seconds,
            trace=solution.trace,
            central=solution.trace[-1].central if solution.trace else (),
            starts=fit.attempts,
            start=StartKind(fit.start),
            start_sentence=fit.start_sentence,
            window=fit.window,
            left=found.left,
        ),
        provenance=provenance,
        inference=inference,
        links=links(parameters, inference),
        combinations=found.combinations,
        diverged=tuple(dict.fromkeys(curve.sequence for curve in curves if curve.diverged)),
        diagnostics=diagnose(curves, units, fit.noise),
    )


def versions_now() -> dict[str, str]:
    """Return the versions of this software and of what it computes with."""
    # MuJoCo comes in distributions of several names.
    libraries = {name: importlib.metadata.version(name) for name in _LIBRARIES}
    return {'sysid_ros': __version__, 'mujoco': mujoco.__version__, **libraries}


def provenance_now(
    command: str,
    config: dict[str, object],
    files: tuple[FileHash, ...],
    input_mode: str,
    versions: Mapping[str, str] | None = None,
) -> Provenance:
    """Return the provenance of a result that is made now, with this software.

    ``versions`` are those of libraries beside the ones that every fit uses.
    """
    return Provenance(
        created=dt.datetime.now(dt.UTC).isoformat(timespec='seconds'),
        versions={**versions_now(), **(versions or {})},
        files=files,
        command=command,
        config=config,
        input_mode=input_mode,
    )


def _whitened(
    curves: Sequence[SignalCurve], noise: Mapping[str, float], role: Role
) -> tuple[float, float]:
    """Return the root mean square residual before and after, in units of the noise."""
    chosen = [curve for curve in curves if curve.role == role and curve.sensor in noise]
    if not chosen:
        return math.nan, math.nan
    before = np.concatenate([(c.before - c.measured) / noise[c.sensor] for c in chosen])
    after = np.concatenate([(c.after - c.measured) / noise[c.sensor] for c in chosen])
    return rms(before), rms(after)


def _parameters(
    fit: Identification, advice: Callable[[str], str] | None
) -> Iterator[ParameterResult]:
    rows = zip(fit.parameters, fit.solution.x, fit.intervals, strict=True)
    for parameter, value, interval in rows:
        explanation = interval.explanation
        if advice is not None and interval.verdict_kind is not VerdictKind.IDENTIFIED:
            explanation = f'{explanation} {advice(parameter.name)}'.strip()
        yield ParameterResult(
            name=parameter.name,
            targets=tuple(target.path for target in parameter.targets),
            unit=parameter.unit,
            initial=parameter.nominal,
            value=float(value),
            bounds=(parameter.min_value, parameter.max_value),
            **{**vars(interval), 'explanation': explanation},
        )


def _inference(fit: Identification) -> InferenceSummary:
    count, found = len(fit.parameters), fit.inference
    covariance = found.covariance[:count, :count]
    deviation = np.sqrt(np.diag(covariance))
    with np.errstate(invalid='ignore'):
        correlation = covariance / np.outer(deviation, deviation)
    return InferenceSummary(
        method=found.method,
        samples=sum(noise.samples for noise in found.noises),
        effective_samples=found.effective,
        covariance=covariance.tolist(),
        correlation=correlation.tolist(),
        notes=found.notes,
        all_at_once=found.all_at_once,
        disagreement=found.disagreement,
        lacking=found.lacking,
    )


def thinned_plots(
    curves: Sequence[SignalCurve], units: Mapping[str, str], points: int
) -> Iterator[SignalPlot]:
    """Yield curves with about so many points at most, and as many digits as a plot can show."""
    for curve in curves:
        stride = math.ceil(len(curve.times) / max(points, 1)) or 1
        remembered = memory(curve)
        shown = {
            name: _written(getattr(curve, name)[::stride])
            for name in ('times', 'measured', 'before', 'after', 'band', 'command')
            if getattr(curve, name) is not None
        }
        yield SignalPlot(
            sequence=curve.sequence,
            role=curve.role,
            sensor=curve.name,
            unit=units[curve.sensor],
            command_unit=curve.command_unit,
            lags=_written(remembered.lags),
            autocorrelation=_written(remembered.autocorrelation),
            samples=remembered.samples,
            **shown,
        )


def _written(values: Values) -> tuple[float, ...]:
    """Return values with six digits, which is what a plot can show."""
    return tuple(float(f'{value:g}') for value in values.tolist())


def tool_errors(model: mujoco.MjModel, curves: Sequence[SignalCurve]) -> tuple[ToolError, ...]:
    """Return how far errors of joint positions move the end of the longest chain of joints.

    That is a site that is named as a tool is, else the centre of mass of the last body, by the
    kinematics of the nominal model. Nothing where a joint on the way was not measured.
    """
    chains = [_joints(model, body) for body in range(model.nbody)]
    longest = max(map(len, chains))
    ends = [body for body, chain in enumerate(chains) if len(chain) == longest]
    sites = [site for site in range(model.nsite) if model.site_bodyid[site] in ends]
    site = next((site for site in sites if _TOOL.search(model.site(site).name)), -1)
    # The last of them: bodies come after their parents.
    body = ends[-1] if site < 0 else int(model.site_bodyid[site])
    sensors = _sensors(model, chains[body])
    if not sensors:
        return ()
    name = f'body/{model.body(body).name}' if site < 0 else f'site/{model.site(site).name}'
    data, found = mujoco.MjData(model), []
    for role in ROLES:
        poses = list(_poses([c for c in curves if c.role == role], sensors))
        off = []
        for pose in poses:
            places = []
            for values in pose:
                data.qpos[list(sensors.values())] = values
                mujoco.mj_kinematics(model, data)
                places.append(np.copy(data.xipos[body] if site < 0 else data.site_xpos[site]))
            off.append([np.linalg.norm(place - places[0]) for place in places[1:]])
        if off:
            before, after = np.sqrt(np.mean(np.square(off), axis=0)).tolist()
            found.append(
                ToolError(point=name, role=role, before=before, after=after, poses=len(poses))
            )
    return tuple(found)


def _joints(model: mujoco.MjModel, body: int) -> list[int]:
    """Return the joints between the world and a body."""
    found: list[int] = []
    while body:
        first = int(model.body_jntadr[body])
        found += range(first, first + int(model.body_jntnum[body]))
        body = int(model.body_parentid[body])
    return found


def _sensors(model: mujoco.MjModel, joints: Sequence[int]) -> dict[str, int] | None:
    """Return the position sensor of each joint and where its value goes; None if one has none."""
    by_joint = {
        int(model.sensor_objid[sensor]): model.sensor(sensor).name
        for sensor in np.flatnonzero(model.sensor_type == mujoco.mjtSensor.mjSENS_JOINTPOS)
    }
    if any(j not in by_joint or model.jnt_type[j] not in _WITH_POSITION for j in joints):
        return None
    return {by_joint[joint]: int(model.jnt_qposadr[joint]) for joint in joints}


def _poses(curves: Sequence[SignalCurve], sensors: Mapping[str, int]) -> Iterator[Values]:
    """Yield (3, n) positions: measured, predicted by the nominal model and by the fitted one.

    At stamps of the first sensor, where others are interpolated if they have stamps of their own.
    """
    sequences: dict[str, dict[str, SignalCurve]] = {}
    for curve in curves:
        if curve.sensor in sensors:
            sequences.setdefault(curve.sequence, {})[curve.sensor] = curve
    for own in sequences.values():
        if own.keys() != sensors.keys():
            continue
        times = own[next(iter(sensors))].times
        stride = max(math.ceil(len(times) * len(sequences) / _POINTS), 1)
        rows = np.stack([_at(times[::stride], own[sensor]) for sensor in sensors], axis=-1)
        yield from np.moveaxis(rows, 0, 1)[np.isfinite(rows).all(axis=(0, 2))]


def _at(times: Values, curve: SignalCurve) -> Values:
    """Return (3, n) values of a curve at (n,) times."""
    return np.array(
        [np.interp(times, curve.times, v) for v in (curve.measured, curve.before, curve.after)]
    )
