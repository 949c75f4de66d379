# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What a fit says about its recordings, and what a reader of the result must know."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import mujoco
import numpy as np

from sysid_ros.config.calibration import VerdictKind
from sysid_ros.results.result import HealthFinding, Role

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sysid_ros.alignment import Alignment
    from sysid_ros.identification.fit import Fit

#: What to do when the measurements fit better at other times.
_SHIFTED = (
    'check stamps and clocks, or identify the delay of the sensors, target sensor/*/delay, '
    'or that of the commands, target actuator/*/delay'
)
#: Ends of several starts whose costs differ by more than this part are different optima.
_SAME_COST = 1e-3


@dataclass(frozen=True)
class Recording:
    """One bag, what it is for, and its sequences."""

    path: Path
    role: Role
    alignment: Alignment


def findings(fit: Fit, recordings: list[Recording]) -> Iterator[HealthFinding]:
    """Yield what was found, before what was found when the bags were read.

    Args:
        fit: What was found by the fit.
        recordings: All bags.
    """
    yield from _offsets(fit)
    yield from _shifts(fit)
    yield from _left_out(fit, recordings)
    for recording in recordings:
        yield from (HealthFinding(**vars(finding)) for finding in recording.alignment.health)


def stuck(model: mujoco.MjModel, recordings: list[Recording]) -> Iterator[HealthFinding]:
    """Yield positions that were left out as dead although their joint is told to move.

    Args:
        model: The compiled nominal model.
        recordings: All bags.
    """
    for recording in recordings:
        told = _commanded(model, recording)
        for sensor in np.flatnonzero(model.sensor_type == mujoco.mjtSensor.mjSENS_JOINTPOS):
            name = model.sensor(sensor).name
            for item in recording.alignment.health:
                dead = item.kind == 'dead channel' and item.detail.endswith(f'{name!r} left out')
                if dead and int(model.sensor_objid[sensor]) in told:
                    yield HealthFinding(
                        bag=item.bag,
                        subject=item.subject,
                        kind='stuck',
                        count=item.count,
                        detail=f'{name!r} never changes although its joint is told to move',
                    )


def _commanded(model: mujoco.MjModel, recording: Recording) -> set[int]:
    """Return the joints whose commands change."""
    found = set()
    for sequence in recording.alignment.sequences:
        for series in sequence.commands:
            for name, (_, columns) in series.signal_mapping.items():
                actuator = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_ACTUATOR, name)
                if (
                    actuator >= 0
                    and model.actuator_trntype[actuator] == mujoco.mjtTrn.mjTRN_JOINT
                    and np.ptp(series.data[:, columns], axis=0).any()
                ):
                    found.add(int(model.actuator_trnid[actuator, 0]))
    return found


def _offsets(fit: Fit) -> Iterator[HealthFinding]:
    """Say by how much the commands of each sequence were shifted against their stamps."""
    for sequence, offset in fit.offsets.items():
        detail = f'taken to act {round(1e6 * offset):+d} µs from their stamps and the delay'
        errors = np.abs(np.concatenate(fit.arrival_errors.get(sequence) or [np.zeros(0)]))
        if errors.any():
            half, largest = np.median(errors), np.max(errors)
            detail += (
                f', half of them within {1e6 * half:.2g} µs of that and all within '
                f'{1e3 * largest:.2g} ms, each as the data say'
            )
        yield HealthFinding(
            bag=sequence, subject='commands', kind='arrival offset', count=1, detail=detail
        )


def _shifts(fit: Fit) -> Iterator[HealthFinding]:
    """Say which sequences' measurements fit better at other times."""
    if fit.shift is None:
        return
    for sequence, report in zip(fit.sequences, fit.shift.per_sequence, strict=False):
        if report.significant:
            yield HealthFinding(
                bag=sequence,
                subject='measurements',
                kind='shift',
                count=1,
                detail=f'moved by {1e3 * report.shift:+.3g} ms, standard error '
                f'{1e3 * report.error:.2g} ms, they are explained better; that removes '
                f'{100 * report.gain:.3g} % of the remaining cost',
            )


def _left_out(fit: Fit, recordings: list[Recording]) -> Iterator[HealthFinding]:
    """Say what was measured and not compared."""
    for recording in recordings:
        series = [m for s in recording.alignment.sequences for m in s.measurements]
        for sensor in fit.dead:
            count = sum(len(entry) for entry in series if sensor in entry.names)
            if recording.role == 'train' and count:
                yield HealthFinding(
                    bag=recording.alignment.bag,
                    subject=sensor,
                    kind='dead channel',
                    count=count,
                    detail='never changes in any training sequence; left out of the fit',
                )
    for sequence, count in fit.left_out.items():
        yield HealthFinding(
            bag=sequence,
            subject='measurements',
            kind='masked',
            count=count,
            detail='samples so near to the ends that a delay within the bounds would place them '
            'outside of the sequence; left out of the fit',
        )


def warnings(
    model: mujoco.MjModel, fit: Fit, recordings: list[Recording], held_out: tuple[float, float]
) -> Iterator[str]:
    """Yield what a reader of the result must know first, a sentence each.

    Args:
        model: The compiled nominal model.
        fit: What was found.
        recordings: All bags.
        held_out: Error before and after on held-out data; NaN where there are none.
    """
    if not fit.solution.success:
        yield fit.solution.message
    if fit.window is not None:
        yield (
            'Whole sequences cannot be predicted, the smallest errors grow until they decide where '
            f'the motion ends; the values rest on windows of {fit.window:g} s that start where the '
            'robot was measured, and errors over whole sequences say nothing about them.'
        )
    if fit.shift is not None and fit.shift.alarming:
        yield fit.shift.sentence(model.opt.timestep, fit.sequences, _SHIFTED)
    yield from _other_optima(fit)
    if math.isnan(held_out[0]):
        yield 'Nothing is held out: record a bag for validation to see whether the fit generalises.'
    doubtful = [
        parameter.name
        for parameter, interval in zip(fit.parameters, fit.intervals, strict=True)
        if interval.verdict_kind is not VerdictKind.IDENTIFIED
    ]
    if doubtful:
        yield f'Not identified: {", ".join(doubtful)}.'
    for recording in recordings:
        if not recording.alignment.sequences:
            yield f'Bag {recording.path.name!r} holds no usable sequence.'
        for idle in idle_actuators(recording):
            yield f'Bag {idle}.'


def _other_optima(fit: Fit) -> Iterator[str]:
    """Say when starts ended in different optima."""
    ends = [attempt.cost for attempt in fit.attempts if math.isfinite(attempt.cost)]
    worse = sum(end > (1 + _SAME_COST) * min(ends) for end in ends)
    if worse:
        yield (
            f'{worse} of {len(ends)} starts that were solved ended at a higher cost than the best: '
            'there is more than one optimum, and more starts may find a better one.'
        )


def idle_actuators(recording: Recording) -> list[str]:
    """Say of which actuators a bag holds no commands, in one clause or none."""
    names = [item.subject for item in recording.alignment.health if item.kind == 'unmapped']
    if not names:
        return []
    return [f'{recording.path.name!r} holds no commands for {", ".join(names)}; they stay 0']
