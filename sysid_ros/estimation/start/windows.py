# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Sequences cut into windows, which grow until motion cannot be predicted any more.

Multiple shooting: the shorter the simulations, the smoother the cost, whatever the motion (A. H.
Ribeiro et al., "On the smoothness of nonlinear system identification", Automatica 121, 2020). The
start of each window is unknown besides the parameters. As each start acts on its own window only,
all of them are differenced together: 2 nv simulations of each window, however many there are.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import NamedTuple

import mujoco
import numpy as np
from numpy.typing import NDArray

from sysid_ros.errors import FitError
from sysid_ros.estimation.context import FitContext
from sysid_ros.estimation.noise import measured
from sysid_ros.estimation.residuals import Residuals
from sysid_ros.estimation.solver.differences import scales
from sysid_ros.estimation.solver.solver import Solution, attempt
from sysid_ros.estimation.start.motion import measured_joints, smoothed
from sysid_ros.model.targets import Role, Target
from sysid_ros.model.unknown import Unknown
from sysid_ros.rollout.runs import Run
from sysid_ros.signals import TimeSeries
from sysid_ros.signals.trajectory import PrescribedMotion, Trajectory

#: The parameters are moved by the first part of their magnitudes, far above rounding errors, and
#: the effect is scaled to the second: parameters are seldom known better at a start.
_PROBE, _SMALL = 1e-6, 1e-3
#: What counts is the last part of each sequence, where errors have grown.
_LATE = 0.75
_SEED = 0
#: Ground is rough where a start that is a tenth off predicts nothing.
ROUGH = 0.01
#: Values that fit parts of the data have smaller errors: they are lost where a thousandth counts.
LOST = 1.0


def neighbour(residuals: Residuals, x: NDArray[np.float64], count: int) -> NDArray[np.float64]:
    """Return (p,) values beside a candidate's, the first ones moved a little in one direction.

    Args:
        residuals: What the values are for.
        x: (p,) candidate.
        count: Number of unknowns that are moved.
    """
    signs = np.random.default_rng(_SEED).choice([-1.0, 1.0], count)
    unknowns = residuals.unknowns[:count]
    size = np.abs(x[:count])
    step = _PROBE * np.where(size > 0, size, scales(unknowns))
    high = np.array([unknown.max_value for unknown in unknowns])
    low = np.array([unknown.min_value for unknown in unknowns])
    signs = np.where(x[:count] + step > high, -1.0, np.where(x[:count] - step < low, 1.0, signs))
    moved: NDArray[np.float64] = x.copy()
    moved[:count] += signs * step
    return moved


def roughness(residuals: Residuals, at: NDArray[np.float64], beside: NDArray[np.float64]) -> float:
    """Return how far a change of the parameters by a thousandth moves the end of the motion.

    The cost is smooth where a small change of the parameters changes the motion a little. In
    chaotic and unstable motion the change grows exponentially with the length of the simulation,
    and so does the number of false minima (A. H. Ribeiro et al., "On the smoothness of nonlinear
    system identification", Automatica 121, 2020): from about 1 on, a start that is a thousandth
    off predicts nothing.

    Args:
        residuals: The residual function.
        at: (n,) residuals of a candidate.
        beside: (n,) those of its neighbour.

    Returns:
        The median over the sensors of the change in the last quarter of the sequences, in the
        sensor's range.
    """
    samples = residuals.samples
    ends = np.zeros(len(residuals.runs))
    np.maximum.at(ends, samples.sequence, samples.time)
    late = samples.time >= _LATE * ends[samples.sequence]
    extents: dict[str, float] = {}
    for sensor, values in measured(residuals.runs):
        extents[sensor] = max(extents.get(sensor, 0.0), float(np.ptp(values)))
    change = beside - at
    found = []
    for index, sensor in enumerate(samples.sensors):
        own = change[late & (samples.sensor == index)]
        if len(own) and extents[sensor] > 0:
            moved = float(np.sqrt(np.mean(own**2))) * residuals.noise[sensor]
            found.append(moved / extents[sensor])
    return float(np.median(found)) * _SMALL / _PROBE if found else 0.0


def roughness_at(residuals: Residuals, x: NDArray[np.float64], count: int) -> float:
    """Return the same for a candidate; infinite where its simulation becomes unstable."""
    values = residuals(np.stack([x, neighbour(residuals, x, count)]))
    if residuals.unstable.any():
        return float('inf')
    return roughness(residuals, values[:, 0], values[:, 1])


#: Numbers of a Jacobian at most; of more windows, every second or third … is taken.
_MOST_NUMBERS = 8e6
#: Commands are kept from so long before a window: longer than any delay, s.
_BEFORE = 2.0
#: Starts are sought within this share of the range that the joint moves in.
_REACH = 0.5


@dataclass(frozen=True)
class Windows:
    """A problem cut into windows.

    Attributes:
        seconds: Length of a window.
        sequences: The windows.
        unknowns: The problem's own unknowns, then positions and velocities at the windows' starts.
        taken: Share of the data that is in these windows.
    """

    seconds: float
    sequences: tuple[Trajectory, ...]
    unknowns: tuple[Unknown, ...]
    taken: float


class Window(NamedTuple):
    """A part of a sequence.

    Attributes:
        whole: The sequence that it is cut from.
        begin: Its first moment, s from the start of the whole.
        end: Its last, which belongs to the next window unless the whole ends there.
        sequence: The part, a sequence of its own.
        starts: Where each joint is at its start, and how fast.
    """

    whole: Trajectory
    begin: float
    end: float
    sequence: Trajectory
    starts: tuple[Unknown, ...]

    def holds(self, times: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Return which moments of the whole, s, are in the window."""
        return _inside(times, self.whole, self.begin, self.end)


def _inside(
    times: NDArray[np.float64], whole: Trajectory, begin: float, end: float
) -> NDArray[np.bool_]:
    inside = (times >= begin) & ((times < end) | (end >= whole.duration))
    return np.asarray(inside)


class Cutter:
    """Cuts the sequences of a problem into windows of any length."""

    def __init__(self, residuals: Residuals) -> None:
        """Smooth the measured motion, from which the windows start.

        Args:
            residuals: The whole problem; the position of each joint is measured.
        """
        (simulator,) = residuals.simulators
        self._model = simulator.model
        self._unknowns = residuals.unknowns
        self._rows = len(residuals.samples.time)
        self._runs = [
            (run, smoothed(self._model, measured_joints(self._model, run), run.qpos))
            for run in simulator.runs
        ]
        self.longest = max((run.sequence.duration for run, _ in self._runs), default=0.0)

    def cut(self, seconds: float) -> Windows | None:
        """Return the windows of one length; None where no sequence has room for one.

        Args:
            seconds: Length of a window; a shorter rest belongs to the window before it.
        """
        total = sum(max(int(run.sequence.duration / seconds), 1) for run, _ in self._runs)
        columns = len(self._unknowns) + 2 * self._model.nv * total
        stride = max(int(np.ceil(np.sqrt(self._rows * columns / _MOST_NUMBERS))), 1)
        kept = [
            window
            for run, motion in self._runs
            for window in [*self._cut(run, motion, seconds)][::stride]
            if window.sequence.measurements
        ]
        if not kept:
            return None
        starts = tuple(start for window in kept for start in window.starts)
        taken = sum(window.end - window.begin for window in kept)
        whole = sum(run.sequence.duration for run, _ in self._runs)
        sequences = tuple(window.sequence for window in kept)
        return Windows(seconds, sequences, (*self.carried(kept), *starts), taken / whole)

    def every(self, seconds: float) -> list[Window]:
        """Return all windows of one length with something measured in them, in their order."""
        found = (window for own in self._runs for window in self._cut(*own, seconds))
        return [window for window in found if window.sequence.measurements]

    def carried(self, windows: Sequence[Window]) -> tuple[Unknown, ...]:
        """Return the problem's own unknowns as they act on windows."""
        names: dict[str, list[str]] = {run.sequence.name: [] for run, _ in self._runs}
        for window in windows:
            names[window.whole.name].append(window.sequence.name)
        return tuple(_carried(unknown, names) for unknown in self._unknowns)

    def spread(self, seconds: float, every: int) -> list[Trajectory]:
        """Return windows of one length from all over the sequences, which start as measured.

        Args:
            seconds: Length of a window.
            every: Of so many windows one is taken.
        """
        found = [window.sequence for own in self._runs for window in self._cut(*own, seconds)]
        return [sequence for sequence in found[::every] if sequence.measurements]

    def _cut(self, run: Run, motion: PrescribedMotion | None, seconds: float) -> Iterator[Window]:
        """Yield all windows of a sequence."""
        for begin, end in _edges(run, motion, seconds):
            yield self._window(run, motion, begin, end)

    def _window(
        self, run: Run, motion: PrescribedMotion | None, begin: float, end: float
    ) -> Window:
        sequence = run.sequence
        measurements = []
        for series in sequence.measurements:
            inside = _inside(series.times, sequence, begin, end)
            if inside.any():
                measurements.append(_cut(series, inside, begin))
        commands = []
        for series in sequence.commands:
            first = int(np.searchsorted(series.times, begin - _BEFORE, side='right')) - 1
            commands.append(_cut(series, slice(max(first, 0), None), begin))
        if motion is None or begin == 0.0:
            qpos, qvel = run.qpos, run.qvel
        else:
            qpos, qvel = self._state(run, motion, begin)
        window = dataclasses.replace(
            sequence,
            name=f'{sequence.name} from {begin:g} s',
            origin_ns=sequence.origin_ns + round(1e9 * begin),
            initial_qpos=qpos,
            initial_qvel=qvel,
            initial_act=sequence.initial_act if begin == 0.0 else None,
            commands=tuple(commands),
            measurements=tuple(measurements),
            replaced=sequence.replaced - begin,
        )
        starts = () if motion is None else self._starts(run, window, motion, begin)
        return Window(sequence, begin, end, window, starts)

    def _state(
        self, run: Run, motion: PrescribedMotion, time: float
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return (nq,) positions and (nv,) velocities as measured."""
        qpos = run.qpos.copy()
        place = self._model.jnt_qposadr[self._model.dof_jntid]
        qpos[place] = [np.interp(time, motion.times, column) for column in motion.qpos.T]
        qvel = np.array([np.interp(time, motion.times, column) for column in motion.qvel.T])
        return qpos, qvel

    def _starts(
        self, run: Run, window: Trajectory, motion: PrescribedMotion, begin: float
    ) -> tuple[Unknown, ...]:
        """Return the unknown position and velocity of each joint at the start of a window."""
        model, found = self._model, []
        asked = {
            (target.name, target.attribute, target.index or 0)
            for unknown in self._unknowns
            for target in unknown.targets
            if begin == 0.0
        }
        for dof in range(model.nv):
            joint = model.joint(int(model.dof_jntid[dof]))
            slide = joint.type[0] == mujoco.mjtJoint.mjJNT_SLIDE.value
            for what, index, value, values, unit in (
                (
                    'qpos',
                    int(joint.qposadr[0]),
                    window.initial_qpos,
                    motion.qpos,
                    'm' if slide else 'rad',
                ),
                ('qvel', dof, window.initial_qvel, motion.qvel, 'm/s' if slide else 'rad/s'),
            ):
                if (run.sequence.name, f'initial_{what}', index) in asked:
                    continue
                reach = max(_REACH * float(np.ptp(values[:, dof])), 1e-6)
                center = float(value[index])
                found.append(
                    Unknown(
                        f'{what} of {joint.name} in {window.name}',
                        (Target('sequence', window.name, f'initial_{what}', index, 0, unit),),
                        center,
                        center - reach,
                        center + reach,
                    )
                )
        return tuple(found)


#: Of recordings with so many windows of that length, s, one in so many says where to go first.
_MANY, _SPREAD_LENGTH, _SPREAD = 100, 4.0, (12, 4)


def spread_parts(residuals: Residuals) -> list[Residuals]:
    """Return residuals of growing parts of long recordings, from all over them; none of short ones.

    Args:
        residuals: The whole problem; the position of each joint is measured.
    """
    total = sum(run.sequence.duration for run in residuals.runs)
    if total < _MANY * _SPREAD_LENGTH:
        return []
    cutter = Cutter(residuals)
    parts: list[Residuals] = []
    for every in _SPREAD:
        with suppress(FitError):  # nothing moves there
            parts.append(residuals.of([cutter.spread(_SPREAD_LENGTH, every)]))
    return parts


def _edges(run: Run, motion: PrescribedMotion | None, seconds: float) -> list[tuple[float, float]]:
    """Return where windows begin and end, the whole sequence where it has no room for two."""
    duration = run.sequence.duration
    count = 1 if motion is None else max(int(duration / seconds + 1e-9), 1)
    begins = seconds * np.arange(count)
    ends = np.append(begins[1:], duration)
    return [(float(begin), float(end)) for begin, end in zip(begins, ends, strict=True)]


def _cut(series: TimeSeries, kept: slice | NDArray[np.bool_], begin: float) -> TimeSeries:
    """Return some samples of a series, their stamps from the begin of a window."""
    return TimeSeries(series.times[kept] - begin, series.data[kept], series.signal_mapping)


def _carried(unknown: Unknown, names: dict[str, list[str]]) -> Unknown:
    """Return an unknown that acts on windows as it did on their sequence.

    What shifts the commands of a sequence shifts those of all of its windows; where it starts is
    where its first window starts, whose state is then not unknown besides.
    """
    targets: list[Target] = []
    for target in unknown.targets:
        if target.role is not Role.SEQUENCE:
            targets.append(target)
            continue
        own = names.get(target.name, [])
        if target.attribute.startswith('initial_'):
            own = own[:1]
        targets.extend(dataclasses.replace(target, name=name) for name in own)
    return dataclasses.replace(unknown, targets=tuple(targets))


#: The first windows are so long, s; each stage doubles that.
SHORTEST = 0.25
#: A stage ends when the next step would be shorter than this, in standard errors of its own.
_STAGE_TOLERANCE = 1.0


@dataclass(frozen=True)
class GrownWindows:
    """What growing windows led to.

    Attributes:
        residuals: Those of the longest windows whose ends still say something.
        solution: The rough solution for them.
        seconds: Their length.
        taken: Share of the data that is in them.
        leads: Whether whole sequences can be fitted from there.
    """

    residuals: Residuals
    solution: Solution
    seconds: float
    taken: float
    leads: bool = False


def solve_in_windows(
    context: FitContext, residuals: Residuals, start: NDArray[np.float64]
) -> GrownWindows | None:
    """Fit windows that grow until they are the whole sequences, or until motion becomes chaotic.

    Args:
        context: What all stages of the fit share; each length of windows has all iterations. None
            longer are tried at the limit of time.
        residuals: The whole problem.
        start: (p,) values.

    Returns:
        The last stage from whose end motion could still be predicted; None where there is none.

    Raises:
        CancelledError: ``cancel`` was set.
    """
    cutter = Cutter(residuals)
    count = len(start)
    x, best = start, None
    for seconds in _lengths(cutter.longest):
        if best is not None and context.is_late:
            return best
        windows = cutter.cut(seconds)
        if windows is None:
            continue
        context.log.stage(f'starting in windows of {seconds:g} s')
        with ExitStack() as opened:
            simulator = context.simulator(windows.unknowns, windows.sequences, opened)
            part = context.residuals(simulator, residuals.noise)
            residuals.also(part)
            begin = np.array([unknown.nominal for unknown in windows.unknowns])
            begin[:count] = x
            # Values that fit shorter windows are near: what is rough around them stays so.
            if best is not None and roughness_at(part, begin, count) > ROUGH:
                break
            solution = attempt(
                part,
                begin,
                settings=dataclasses.replace(context.settings, rough=True),
                tolerance=_STAGE_TOLERANCE,
                cancel=context.cancel,
            )
            if isinstance(solution, FitError):
                break
            if roughness_at(part, solution.x, count) > ROUGH:
                break
            x = solution.x[:count]
            best = GrownWindows(part, solution, seconds, windows.taken)
            context.opened.enter_context(opened.pop_all())
    return best and dataclasses.replace(best, leads=roughness_at(residuals, x, count) <= LOST)


def _lengths(longest: float) -> Iterator[float]:
    """Yield the lengths of windows, s: doubled as long as a sequence has room for two."""
    seconds = SHORTEST
    while 2 * seconds <= longest:
        yield seconds
        seconds *= 2
