# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Pendulums that servos turn: all logs simulated with all candidates at once, and the errors."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import scipy.constants
from numpy.typing import NDArray

from sysid_ros.errors import FitError
from sysid_ros.fit.noise import encoder_step
from sysid_ros.servos.logs import PERIOD, Commands, ServoLog
from sysid_ros.simulation.servo import COMMAND_DELAY, Scheme, Servo, limited_goal, within

Array = NDArray[np.float64]

#: Leapfrog steps in each of BAM's sampling periods: with 3, a swinging xl330 is off by less than
#: .1 mrad, a third of what its encoder leaves.
RAW_STEPS = 3
#: A joint whose encoder says the same for so long is at rest, s.
REST = 0.05
#: So many readings at least tell rest from motion, and what forces do in a window.
FEWEST = 4
#: Numbers that differ by less than this part of their scale are the same, but for rounding in logs.
ROUNDING = 1e-6
#: No joint turns faster, rad/s: what a candidate far off makes stays finite.
_FASTEST = 100.0


@dataclass(frozen=True)
class Readings:
    """When the encoders of L logs were read, up to R times, and what they said, rad.

    ``lengths`` (L,) readings of each log; ``row`` (R, L) is the sample before each, or at it, and
    ``part`` of the way to the next.
    """

    lengths: NDArray[np.int64]
    row: NDArray[np.int64]
    part: Array
    position: Array

    @property
    def counted(self) -> NDArray[np.bool_]:
        """(R, L) whether a reading is of the log, not a repetition of its last."""
        found: NDArray[np.bool_] = np.arange(len(self.position))[:, None] < self.lengths
        return found

    @property
    def period(self) -> int:
        """Samples from reading to reading, rounded up, where they are as far apart as usual."""
        at = (self.row + self.part)[:, self.lengths > 1]
        apart = np.diff(at, axis=0)[self.counted[1:, self.lengths > 1]]
        return max(math.ceil(np.median(apart) - ROUNDING), 1) if len(apart) else 1


@dataclass(frozen=True)
class PendulumLogs:
    """L logs of up to T samples; shorter ones repeat their last sample.

    Samples are where a simulation stops: those of processed logs, a fine grid for raw ones. There,
    commands that change between two samples are the mean over the time, and what was measured is
    interpolated. Only predictions that start from a measured state use the latter: what they are
    compared with are the readings.

    Attributes:
        dt: Time between samples, s.
        lengths: (L,) samples of each log.
        inertia: (L,) of the pendulum about its axis, without the servo's armature, kg·m².
        weight: (L,) torque of gravity where the pendulum is level, N·m.
        constants: Gains and supply, (L,) each.
        position: (T, L) measured, rad.
        speed: (T, L) measured, rad/s, or the slope of the positions where it was not.
        goal: (margin + T + margin, L) rad.
        enabled: (margin + T + margin, L) 1 where the motor is powered.
        margin: Further samples on both sides, so that commands may act sooner or later.
        last_goal: (L,) commanded before the first sample, rad; 0 at the start of a log.
        readings: What predictions are compared with.
    """

    dt: float
    lengths: NDArray[np.int64]
    inertia: Array
    weight: Array
    constants: Mapping[str, Array]
    position: Array
    speed: Array
    goal: Array
    enabled: Array
    margin: int
    last_goal: Array
    readings: Readings

    def commands(self, delays: Array) -> tuple[Array, Array]:
        """Return the (T, k, L) goals and motor states that act (k,) s after their stamps."""
        if not self.margin:
            return self.goal[:, None], self.enabled[:, None]
        rows = delays / self.dt
        whole = np.floor(np.clip(rows, 1 - self.margin, self.margin - 1)).astype(np.int64)
        part = (rows - whole)[:, None]
        at = np.arange(self.margin, len(self.goal) - self.margin)[:, None] - whole
        goal, enabled = (
            (1 - part) * series[at] + part * series[at - 1] for series in (self.goal, self.enabled)
        )
        return goal, enabled

    def read(self, positions: Array) -> Array:
        """Return what encoders would have read, (R, …, L), of (T, …, L) positions, rad."""
        readings = self.readings
        middle = tuple(range(1, positions.ndim - 1))
        row, part = np.expand_dims(readings.row, middle), np.expand_dims(readings.part, middle)
        found: Array = np.take_along_axis(positions, row, axis=0)
        if part.any():
            after = np.minimum(row + 1, len(positions) - 1)
            found = found + part * (np.take_along_axis(positions, after, axis=0) - found)
        return found

    @property
    def resting(self) -> int:
        """So many equal readings in a row mean that a joint is at rest."""
        return max(round(REST / (self.dt * self.readings.period)), FEWEST)

    @property
    def repeated(self) -> NDArray[np.bool_]:
        """(R, L) whether a reading of an encoder at rest says no more than another one.

        However often a joint at rest is read, the error is the same: all readings of a stretch are
        one. The middle one of each counts. Without an encoder, none is a repetition.
        """
        readings = self.readings
        found = np.zeros(readings.position.shape, dtype=bool)
        if encoder_step(readings.position[readings.counted]) is None:
            return found
        shortest = self.resting
        for log, count in enumerate(readings.lengths.tolist()):
            changes = np.flatnonzero(np.diff(readings.position[:count, log]) != 0) + 1
            for start, stop in pairwise([0, *changes.tolist(), count]):
                if stop - start >= shortest:
                    found[start:stop, log] = True
                    found[(start + stop) // 2, log] = False
        return found

    def windows(self, length: int) -> PendulumLogs:
        """Return windows of so many samples, each a log of its own; a rest is dropped."""
        places = [
            (log, first)
            for log, count in enumerate(self.lengths.tolist())
            for first in range(0, count - length + 1, length)
        ]
        if not places:
            raise FitError(
                f'Expected a log of at least {length} samples ({length * self.dt:g} s), found at '
                f'most {int(self.lengths.max())}.'
            )
        logs, first = np.array(places).T
        rows = first + np.arange(length)[:, None]
        told = first + np.arange(length + 2 * self.margin)[:, None]
        before = self.goal[np.maximum(first + self.margin - 1, 0), logs]
        return dataclasses.replace(
            self,
            lengths=np.full(len(places), length),
            inertia=self.inertia[logs],
            weight=self.weight[logs],
            constants={name: values[logs] for name, values in self.constants.items()},
            position=self.position[rows, logs],
            speed=self.speed[rows, logs],
            goal=self.goal[told, logs],
            enabled=self.enabled[told, logs],
            last_goal=np.where(first > 0, before, self.last_goal[logs]),
            readings=self._readings_of(logs, first, length),
        )

    def _readings_of(
        self, logs: NDArray[np.int64], first: NDArray[np.int64], length: int
    ) -> Readings:
        """Return the readings from so many samples on, up to the last of ``length`` samples."""
        own = self.readings
        at = np.where(own.counted, own.row + own.part, np.inf)[:, logs]
        begin = np.sum(at < first, axis=0)
        end = np.sum(at <= first + length - 1, axis=0)
        lengths = end - begin
        places = begin + np.arange(max(int(lengths.max()), 1))[:, None]
        places = np.minimum(places, np.maximum(end - 1, begin))
        places = np.minimum(places, len(own.position) - 1)
        row = np.clip(own.row[places, logs] - first, 0, length - 1)
        return Readings(lengths, row, own.part[places, logs], own.position[places, logs])


class _Samples(NamedTuple):
    """A log where its simulation stops: as of `PendulumLogs`, and ``at`` as readings are."""

    position: Array
    speed: Array
    goal: Array
    enabled: Array
    at: Array


def servo_for(servo: Servo, logs: Sequence[ServoLog]) -> Servo:
    """Return a servo with the steps that suit logs: short ones for raw logs, else BAM's."""
    raw = any(log.stamps is not None for log in logs)
    return dataclasses.replace(servo, scheme=Scheme.LEAPFROG if raw else Scheme.BAM)


def stack_logs(servo: Servo, logs: Sequence[ServoLog], steps: int = RAW_STEPS) -> PendulumLogs:
    """Put logs side by side; the servo's gains and supply hold where a log says nothing.

    Processed logs keep their samples in BAM's steps. Other samples are as far apart as the steps of
    the law: of leapfrog so many ``steps`` in each `PERIOD`, else BAM's one.

    Raises:
        FitError: There are no logs, or their sampling periods differ.
    """
    if not logs:
        raise FitError('Nothing to fit: there are no logs.')
    leaps = servo.scheme is Scheme.LEAPFROG
    for log in () if leaps else logs:
        if abs(log.dt - logs[0].dt) > ROUNDING * logs[0].dt:
            raise FitError(
                f'Expected logs of one sampling period, found {logs[0].dt:g} s in {logs[0].name!r} '
                f'and {log.dt:g} s in {log.name!r}: process them with one dt, or fit the raw logs.'
            )
        if (log.stamps is None) != (logs[0].stamps is None):
            raise FitError(
                f'Expected either raw or processed logs, found both in {logs[0].name!r} and '
                f'{log.name!r}: parameters whose scheme is not {Scheme.LEAPFROG.value} are for one '
                'of them.'
            )
    dt = PERIOD / steps if leaps else logs[0].dt
    margin = math.ceil(max(map(abs, COMMAND_DELAY)) / dt) + 1 if leaps else 0
    samples = [_samples_of(log, dt, margin) for log in logs]
    row = [np.floor(own.at).astype(np.int64) for own in samples]
    mass = np.array([log.mass for log in logs])
    arm = np.array([log.arm_mass for log in logs])
    length = np.array([log.length for log in logs])
    return PendulumLogs(
        dt=dt,
        lengths=np.array([len(own.position) for own in samples]),
        inertia=mass * length**2 + arm / 3 * length**2,
        weight=(mass + arm / 2) * scipy.constants.g * length,
        constants={
            name: np.array([log.constants.get(name, usual) for log in logs], dtype=np.float64)
            for name, usual in servo.type.constants.items()
        },
        position=_stacked([own.position for own in samples]),
        speed=_stacked([own.speed for own in samples]),
        goal=_stacked([own.goal for own in samples]),
        enabled=_stacked([own.enabled for own in samples]),
        margin=margin,
        last_goal=np.zeros(len(logs)),
        readings=Readings(
            np.array([len(log) for log in logs]),
            _stacked(row),
            _stacked([own.at - whole for own, whole in zip(samples, row, strict=True)]),
            _stacked([log.position for log in logs]),
        ),
    )


def _samples_of(log: ServoLog, dt: float, margin: int) -> _Samples:
    """Return a log at times that are dt apart, from its first reading to its last or a bit later.

    A processed log is returned as it is, if steps are BAM's: without a margin for its commands.
    """
    speed = log.speed
    if speed is None:  # the slope of the positions, which starts at rest
        speed = np.zeros(len(log))
        speed[1:] = np.gradient(log.position, log.times)[1:] if len(log) > 1 else 0.0
    if log.stamps is None and not margin:
        at = np.arange(len(log), dtype=np.float64)
        return _Samples(log.position, speed, log.goal, log.enabled, at)
    at = log.times / dt
    whole = np.round(at)
    at = np.where(np.abs(at - whole) < ROUNDING, whole, at)
    rows = np.arange(math.ceil(at[-1]) + 1)
    # Forces act from half a leap before a sample to half a leap after it; of BAM's, to the next.
    acting = np.arange(-margin, len(rows) + margin) - (0.5 if margin else 0.0)
    commands = log.commands or Commands(log.times, log.goal, log.enabled)
    return _Samples(
        np.interp(rows, at, log.position),
        np.interp(rows, at, speed),
        _held(commands.times / dt, commands.goal, acting),
        _held(commands.times / dt, commands.enabled, acting),
        at,
    )


def _held(times: Array, values: Array, rows: NDArray[np.floating]) -> Array:
    """Return the (k,) means over the steps that begin at rows, of what is held from its time on.

    A change within a step acts for its part of it: to first order, that is what the joint feels.
    Before the first time, the first value holds.
    """
    ends = rows + 1.0
    starts = np.append(min(rows[0], times[0]), times[1:])
    stop = max(ends[-1], times[-1])
    sums = np.concatenate([[0.0], np.cumsum(values * np.diff(np.append(starts, stop)))])
    total = np.interp([rows, ends], np.append(starts, stop), sums)
    # Where nothing changes, the value is exactly what was told.
    first = np.searchsorted(starts, rows, side='right') - 1
    last = np.searchsorted(starts, ends, side='left') - 1
    return np.where(first == last, values[first], total[1] - total[0])


def _stacked(series: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Return (T, L) values; shorter series repeat their last."""
    most = max(map(len, series))
    padded = [np.pad(values, (0, most - len(values)), mode='edge') for values in series]
    return np.stack(padded, axis=1)


class PredictedMotion(NamedTuple):
    """The (T, m, L) positions and velocities at the samples that candidates predict, SI."""

    position: Array
    velocity: Array | None


def _turned(momentum: Array, net: Array, most: Array) -> Array | float:
    """Return the torque that a step lacks in which the joint turns, N·m.

    Friction is against the velocity before and after. A single force for the whole step errs by up
    to twice what friction does in a step, whatever the scheme. ``momentum`` is that of the joint
    over the step, ``net`` the torque without friction, ``most`` the most friction, N·m.
    """
    size = np.abs(net)
    turns = (size > most) & (momentum * net < 0) & (np.abs(momentum) < size + most)
    if not turns.any():
        return 0.0
    return np.where(turns, -2.0 * most / (size + most) * momentum, 0.0)


def simulate(
    servo: Servo,
    bench: PendulumLogs,
    candidates: Array,
    *,
    position: Array | None = None,
    velocity: Array | None = None,
    reset_period: float | None = None,
    velocities: bool = False,
) -> PredictedMotion:
    """Simulate every log with every candidate; goals are held from sample to sample.

    In each step of length dt, the motor's torque τm and that of gravity τe = -weight sin(q +
    q_offset) are those of the state before it. With τ = J dq / dt + τm + τe the torque that keeps
    the joint from moving is -τ; friction is as much of it as its law allows. Then, with the
    acceleration a, dq += a dt and q += dq dt + ½ a dt². That is BAM's, whose error grows with dt.

    That of `Scheme.LEAPFROG` grows with dt². There, velocities are those between the steps, forces
    see that at the step, dq + ½ a dt with the acceleration a of the step before, and q += dq dt.
    Where the joint turns within a step, friction does, too.

    Args:
        servo: The laws.
        bench: The logs.
        candidates: (m, p) values of ``servo.coefficients``, in their order.
        position: (m, L) where each starts; as measured unless given.
        velocity: (m, L) the same for the velocity.
        reset_period: Every so many seconds the state is set to the measured one.
        velocities: Whether velocities are wanted as well.
    """
    shape = (len(candidates), bench.position.shape[1])
    named = {name: candidates[:, [j]] for j, name in enumerate(servo.coefficients)}
    p = {name: _full(values, shape) for name, values in {**bench.constants, **named}.items()}
    dt, leaps = bench.dt, servo.scheme is Scheme.LEAPFROG
    inertia = _full(bench.inertia, shape) + p['armature']
    to_stop, mobility, half_square = inertia / dt, 1 / inertia, 0.5 * dt**2
    gravity = -_full(bench.weight, shape)
    q = np.broadcast_to(bench.position[0] if position is None else position, shape)
    # Of a leapfrog, after a step, the velocity of half a step ago.
    dq = np.broadcast_to(bench.speed[0] if velocity is None else velocity, shape)
    acceleration: Array | None = None  # of the last step, rad/s²
    aim = bench.last_goal
    positions = np.empty((len(bench.position), *shape))
    speeds = np.empty_like(positions) if velocities else None
    since = 0.0
    late = named.get('command_delay', np.zeros((len(candidates), 1)))
    delays, own = np.unique(late[:, 0], return_inverse=True)
    every = slice(None) if len(delays) == 1 else own
    for row, (goal, enabled) in enumerate(zip(*bench.commands(delays), strict=True)):
        since += dt
        if reset_period is not None and since > reset_period:  # counted as BAM does
            since = 0.0
            # What the firmware remembers stays.
            q = np.broadcast_to(bench.position[row], shape)
            dq, acceleration = np.broadcast_to(bench.speed[row], shape), None
        # The first leap is from the start to half a step after it.
        starts = leaps and acceleration is None
        speed = dq if acceleration is None or not leaps else dq + acceleration * (0.5 * dt)
        positions[row] = q
        if speeds is not None:
            speeds[row] = speed
        aim = limited_goal(p, goal[every], aim, dt)
        external = gravity * np.sin(q + p['q_offset'])
        motor, dry = servo.forces(p, aim, enabled[every], q, speed, external)
        most = dry + p['friction_viscous'] * np.abs(speed)
        net = motor + external
        kick = 0.5 if starts else 1.0
        momentum = (to_stop / kick) * dq
        turned = _turned(momentum, net, most) if leaps else 0.0
        stop = momentum + turned + net
        acceleration = (net + turned - within(stop, -most, most)) * mobility
        dq = within(dq + acceleration * (kick * dt), -_FASTEST, _FASTEST)
        q = q + dq * dt if leaps else q + dq * dt + acceleration * half_square
    return PredictedMotion(positions, speeds)


def _full(values: Array, shape: tuple[int, int]) -> Array:
    """Repeat values: on small arrays, NumPy takes twice as long where it must broadcast."""
    found: Array = np.broadcast_to(values, shape).copy()
    return found


def predict(
    servo: Servo,
    values: Mapping[str, float],
    logs: Sequence[ServoLog],
    reset_period: float | None = None,
) -> list[Array]:
    """Return the (n,) positions that are predicted for the readings of each log, rad.

    Coefficients that are missing are the usual ones.
    """
    bench = stack_logs(servo, logs)
    motion = simulate(servo, bench, candidate(servo, values), reset_period=reset_period)
    found = bench.read(motion.position)
    return [found[: len(log), 0, index] for index, log in enumerate(logs)]


def errors_by_log(
    servo: Servo,
    values: Mapping[str, float],
    logs: Sequence[ServoLog],
    reset_period: float | None = None,
) -> dict[str, float]:
    """Return log name to the mean absolute error, rad, of what `predict` returns for it."""
    predicted = predict(servo, values, logs, reset_period)
    return {
        log.name: float(np.mean(np.abs(positions - log.position)))
        for log, positions in zip(logs, predicted, strict=True)
    }


def mean_error(errors: Mapping[str, float]) -> float:
    """Return the mean over logs of their mean absolute errors, rad: what BAM minimises."""
    return sum(errors.values()) / len(errors)


def candidate(servo: Servo, values: Mapping[str, float]) -> Array:
    """Return the (1, p) values of ``servo.coefficients``; the usual ones where one is missing."""
    row = [values.get(name, usual.initial) for name, usual in servo.coefficients.items()]
    return np.array([row], dtype=np.float64)
