# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Parts of trajectories, and fits that begin on short ones, which grow.

The shorter the simulations, the smoother the cost, whatever the motion (A. H. Ribeiro et al., "On
the smoothness of nonlinear system identification", Automatica 121, 2020), and far from the optimum
most data say the same. Where motion can be predicted, a fit begins on the beginnings of the
trajectories. Where it is chaotic or unstable, they are cut into windows, with an unknown state at
the start of each (multiple shooting). As each start acts on its own window only, all of them are
differenced together: 2 nv simulations of each window, however many there are.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sysid_ros.alignment.segments import initial_state
from sysid_ros.errors import FitError
from sysid_ros.fit.context import FitContext
from sysid_ros.fit.differences import STEP, scales
from sysid_ros.fit.motion import measured_joints, smoothed
from sysid_ros.fit.noise import FEWEST_SAMPLES, SMALLEST, estimate_noise, measured
from sysid_ros.fit.nuisances import start_reach, states_at_start
from sysid_ros.fit.residuals import MOST_NUMBERS, Residuals
from sysid_ros.fit.solver import (
    LIMITS,
    PROMISED,
    ROUGH_TOLERANCE,
    FitLog,
    Iteration,
    Solution,
    SolverSettings,
    attempt,
    cost,
    interrupt,
    solve,
)
from sysid_ros.model.elements import SCALAR_JOINTS
from sysid_ros.model.kinds import Role
from sysid_ros.model.targets import Target, Unknown
from sysid_ros.signals import PrescribedMotion, TimeSeries, Trajectory
from sysid_ros.simulation.runs import Run

Array = NDArray[np.float64]

#: Commands are kept from so long before a window to so long after it: longer than any delay, s.
_BESIDE = 2.0


def cut(
    trajectory: Trajectory, begin: float, end: float, state: tuple[Array, Array] | None = None
) -> Trajectory:
    """Return a part of a trajectory, stamped from its own begin.

    Args:
        trajectory: The whole.
        begin: First moment, s from the start of the whole.
        end: Last moment; a sample at it is in the next part, unless the whole ends there.
        state: (nq,) positions and (nv,) velocities at the begin; the whole's own unless given.
    """
    measurements = []
    for series in trajectory.measurements:
        inside = _inside(series.times, trajectory, begin, end)
        if inside.any():
            measurements.append(_rows(series, inside, begin))
    commands = []
    for series in trajectory.commands:
        first = int(np.searchsorted(series.times, begin - _BESIDE, side='right')) - 1
        # What is interpolated goes on to the sample after the last one.
        last = int(np.searchsorted(series.times, end + _BESIDE, side='right')) + 1
        commands.append(_rows(series, slice(max(first, 0), last), begin))
    qpos, qvel = state or (trajectory.initial_qpos, trajectory.initial_qvel)
    return dataclasses.replace(
        trajectory,
        name=f'{trajectory.name} from {begin:g} s' if begin else trajectory.name,
        origin_ns=trajectory.origin_ns + round(1e9 * begin),
        initial_qpos=qpos,
        initial_qvel=qvel,
        initial_act=None if begin else trajectory.initial_act,
        commands=tuple(commands),
        measurements=tuple(measurements),
        replaced=trajectory.replaced - begin,
        base=None if trajectory.base is None else _rows(trajectory.base, slice(None), begin),
    )


def _inside(times: Array, whole: Trajectory, begin: float, end: float) -> NDArray[np.bool_]:
    return np.asarray((times >= begin) & ((times < end) | (end >= whole.duration)))


def _rows(series: TimeSeries, kept: slice | NDArray[np.bool_], begin: float) -> TimeSeries:
    return TimeSeries(series.times[kept] - begin, series.data[kept], series.signal_mapping)


#: What counts is the last part of each trajectory, where errors have grown.
_LATE = 0.75
#: Ground is rough where a start that is a tenth off predicts nothing. Values that fit parts of the
#: data have smaller errors: they are lost where a thousandth counts.
ROUGH, LOST = 10.0, 1000.0


def roughness_at(residuals: Residuals, x: Array, count: int) -> float:
    """Return how far the end of the motion moves by a relative change of the parameters.

    The cost is smooth where a small change of the parameters changes the motion a little. In
    chaotic and unstable motion the change grows exponentially with the length of the simulation,
    and so does the number of false minima.

    Args:
        residuals: The residual function.
        x: (p,) candidate.
        count: Number of unknowns, the first ones, that are moved.

    Returns:
        The median over the sensors of the change in the last quarter of the trajectories, in the
        sensor's range; infinite where a simulation becomes unstable.
    """
    values = _beside(residuals, x, count)
    if residuals.unstable.any() or not np.isfinite(values).all():
        return math.inf
    return _roughness(residuals, values[:, 1] - values[:, 0], np.ones(len(values), dtype=bool))


class Judged(NamedTuple):
    """A candidate on (number of sequences,) sequences, each by itself."""

    residual: Array  # (n,) residuals of all
    rough: NDArray[np.bool_]  # where full-length simulations from there say nothing
    follows: NDArray[np.bool_]  # where simulations follow the measured motion


def judged(residuals: Residuals, x: Array, farthest: float = ROUGH) -> Judged:
    """Judge each sequence by `roughness_at` a candidate, and by what that leaves unexplained."""
    values = _beside(residuals, x, len(x))
    at, change = values[:, 0], values[:, 1] - values[:, 0]
    rough = np.any(residuals.unstable_in, axis=1)
    follows = ~rough
    motion = _motion(residuals)
    for index in np.flatnonzero(~rough).tolist():
        own = residuals.samples.sequence == index
        rough[index] = not _roughness(residuals, change, own) <= farthest
        follows[index] = _unexplained(residuals, at, own, motion) <= UNEXPLAINED
    return Judged(at, rough, follows)


def _beside(residuals: Residuals, x: Array, count: int) -> Array:
    """Return the (n, 2) residuals of a candidate and of one that differs by little."""
    low, high = np.array([(u.min_value, u.max_value) for u in residuals.unknowns[:count]]).T
    step = STEP * np.where(x[:count] != 0, np.abs(x[:count]), scales(residuals.unknowns[:count]))
    step *= np.random.default_rng(0).choice([-1.0, 1.0], count)
    outside = (x[:count] + step > high) | (x[:count] + step < low)
    moved = x.copy()
    moved[:count] += np.where(outside, -step, step)
    return residuals(np.stack([x, moved]))


def _roughness(residuals: Residuals, change: Array, rows: NDArray[np.bool_]) -> float:
    """Return the roughness that the (n,) changes of some residuals show."""
    samples = residuals.samples
    ends = np.zeros(len(residuals.runs))
    np.maximum.at(ends, samples.sequence, samples.time)
    late = rows & (samples.time >= _LATE * ends[samples.sequence])
    extents: dict[str, float] = {}
    for sensor, own in measured(residuals.runs):
        extents[sensor] = max(extents.get(sensor, 0.0), float(np.ptp(own)))
    found = []
    for index, sensor in enumerate(samples.sensors):
        moved = change[late & (samples.sensor == index)]
        if len(moved) and extents[sensor] > 0:
            size = float(np.sqrt(np.mean(moved**2))) * residuals.noise[sensor]
            found.append(size / extents[sensor])
    return float(np.median(found)) / STEP if found else 0.0


#: Simulations that leave more of the variance of the motion than this do not follow it.
UNEXPLAINED = 0.5
#: A sensor moves when what it reads spreads by so many times its noise.
_MOVES = 10.0


def unexplained(residuals: Residuals, x: Array) -> float:
    """Return the share of the variance of the motion that a (p,) candidate leaves.

    It is the median over the sensors that move. Errors are counted up to some ranges of each
    sensor, whatever a simulation does beyond.
    """
    values = residuals(x[None])[:, 0]
    every = np.ones(len(values), dtype=bool)
    return _unexplained(residuals, values, every, _motion(residuals))


def _motion(residuals: Residuals) -> dict[str, float]:
    """Return the variance of the motion by each sensor that moves."""
    noise = estimate_noise(residuals.runs)
    variance: dict[str, float] = {}
    for sensor, own in measured(residuals.runs):
        variance[sensor] = max(variance.get(sensor, 0.0), float(np.var(own)))
    return {s: v for s, v in variance.items() if v > (_MOVES * noise.get(s, math.inf)) ** 2}


def _unexplained(
    residuals: Residuals, values: Array, rows: NDArray[np.bool_], motion: Mapping[str, float]
) -> float:
    """Return what some of (n,) residuals leave of the variance of the motion by each sensor."""
    left = []
    for place, sensor in enumerate(residuals.samples.sensors):
        squares = values[rows & (residuals.samples.sensor == place)] ** 2
        if len(squares) and sensor in motion:
            left.append(float(np.mean(squares)) * residuals.noise[sensor] ** 2 / motion[sensor])
    return float(np.median(left)) if left else 0.0


#: The stages before the last take the beginnings of so many trajectories, or a few more, these
#: shares of their lengths.
_SHARES, _FEW = (0.1, 0.2, 0.4), 4
#: A stage ends when the next step would be shorter than this, in standard errors of its own.
_ROUGH = 4.0
#: A fit whose end is doubtful is made again in more and finer stages, which take longer.
_PATIENT_SHARES = (0.1, 0.2, 0.4, 0.6, 0.8)
#: An end is doubtful where its residuals are so many times the noise in the mean square, unless
#: those of the shortest beginning have this part of what is above the noise: the model lacks
#: something then, as it will at every end. One that no step improves is doubtful, too, unless its
#: residuals are below that part of the noise, as those of exact data are.
_DOUBTFUL, _FROM_THE_FIRST = 1.15, 0.25
#: Kind of the Jacobian in the trace's first entry: the step from there was found on parts.
PARTS = 'parts'


def solve_in_stages(
    residuals: Residuals,
    start: Array,
    *,
    settings: SolverSettings | None = None,
    tolerance: float | None = None,
    noise_known: bool = False,
    cancel: threading.Event | None = None,
    observe: Callable[[Iteration], None] | None = None,
) -> Solution:
    """Find the least cost, first on beginnings of the trajectories, from there on all data.

    The beginnings only find a start, which serves where it costs less than the one given. Should
    all data then end above the cost of that one, they are fitted from it, too, and the better
    solution counts. An end that is doubtful is compared with that of more stages.

    Args:
        residuals: The residual function.
        start: (p,) start values.
        settings: Which loss and limits, of all stages together.
        tolerance: Largest predicted step at the end, in standard errors; the settings' accuracy
            unless given.
        noise_known: Whether residuals that are larger than the noise cast doubt on the end.
        cancel: Ends the solve when it is set.
        observe: Called after every iteration on all data.

    Returns:
        The solution for all data. The trace's first entry is the start given, with the cost of
        all data; the next is where the parts led to. Totals are those of all stages.

    Raises:
        CancelledError: ``cancel`` was set.
        FitError: The solve cannot begin; see `solve`.
    """
    settings = settings or SolverSettings()
    now, log = time.monotonic(), FitLog(observe)
    # Of the time that there is, all data have half.
    early = dataclasses.replace(settings, deadline=now + 0.5 * (settings.deadline - now))

    def whole(x: Array, begun: Solution | None) -> Solution:
        left = max(settings.max_iterations - len(log.trace), 1)
        limited = dataclasses.replace(settings, max_iterations=left)
        return solve(
            residuals,
            x,
            settings=limited,
            tolerance=tolerance,
            begun=begun,
            cancel=cancel,
            observe=log,
        )

    def cost_of(x: Array) -> float:
        return cost(residuals(x[None])[:, 0], settings.loss)

    def through(parts: Sequence[Residuals], rough: float) -> Solution:
        last: Solution | None = None
        for part in parts:
            residuals.also(part)
            x = start if last is None else last.x
            last = solve_part(part, x, early, rough, cancel, last) or last
        if last is None or cost_of(last.x) > at_start:  # what parts say is not so of all
            return whole(start, None)
        return whole(last.x, last)

    parts = parts_of(residuals)
    if not parts:
        return whole(start, None)
    interrupt(cancel)
    before = residuals.evaluations
    at_start = cost_of(start)
    taken, x = residuals.evaluations - before, tuple(start.tolist())
    log(Iteration(0, at_start, 0.0, taken, residuals.diverged, 0.0, jacobian=PARTS, x=x))
    ends = [through(parts, _ROUGH)]
    if _doubtful(ends[0], parts[0], settings, noise_known):
        ends.append(through(parts_of(residuals, _PATIENT_SHARES), ROUGH_TOLERANCE))
    if min(each.cost for each in ends) > at_start:
        ends.append(whole(start, None))
    trace = tuple(log.trace)
    return dataclasses.replace(
        min(ends, key=lambda each: each.cost),
        trace=trace,
        iterations=len(trace) - 1,
        evaluations=residuals.evaluations - before,
    )


def solve_part(
    part: Residuals,
    x: Array,
    settings: SolverSettings,
    tolerance: float,
    cancel: threading.Event | None,
    begun: Solution | None = None,
) -> Solution | None:
    """Return a rough solution for a part of the data; None where it cannot begin."""
    rough = dataclasses.replace(settings, rough=True)
    found = attempt(part, x, settings=rough, tolerance=tolerance, begun=begun, cancel=cancel)
    return None if isinstance(found, FitError) else found


def _doubtful(
    solution: Solution, beginning: Residuals, settings: SolverSettings, noise_known: bool
) -> bool:
    """Return whether finer stages may end elsewhere."""
    whole = 2 * solution.cost / len(solution.residual)
    large = whole > _DOUBTFUL
    ridge = solution.status in {'cost', 'stalled'} and whole > _FROM_THE_FIRST
    if not (is_stuck(solution) or (noise_known and (large or ridge))) or solution.status == 'time':
        return False
    begun = beginning(solution.x[None])[:, 0]
    first = 2 * cost(begun, settings.loss) / len(begun)
    return not (large and first - 1 > _FROM_THE_FIRST * (whole - 1))


def is_stuck(solution: Solution) -> bool:
    """Return whether a solve ended where it should not; a cost that jumps holds any solve up.

    Slopes there promise far less cost: no step has it, or bounds are in the way, which no true
    value is beyond. Where they promise little, the solve has arrived.
    """
    if solution.jumps or solution.status in LIMITS:
        return False
    sizes = np.linalg.norm(solution.jacobian, axis=0)
    unit = solution.jacobian / np.where(sizes > 0, sizes, 1.0)
    pull = solution.gradient / np.where(sizes > 0, sizes, 1.0)
    promised = 0.5 * float(pull @ np.linalg.pinv(unit.T @ unit, hermitian=True) @ pull)
    return promised > PROMISED * solution.cost


def parts_of(residuals: Residuals, shares: tuple[float, ...] = _SHARES) -> list[Residuals]:
    """Return the residuals of growing beginnings of the data, none where all together are few."""
    if residuals.exact.all() or any(simulator.prescribed for simulator in residuals.simulators):
        return []
    stride = max(len(residuals.runs) // _FEW, 1)
    chosen = [
        [run.sequence for run in simulator.runs[::stride]] for simulator in residuals.simulators
    ]
    needed = FEWEST_SAMPLES * len(residuals.unknowns)
    parts = []
    for share in shares:
        # With the sample at the end.
        begun = [
            [cut(each, 0.0, float(np.nextafter(share * each.duration, math.inf))) for each in own]
            for own in chosen
        ]
        count = sum(
            np.isfinite(series.data).sum()
            for own in begun
            for trajectory in own
            for series in trajectory.measurements
        )
        if count >= needed:
            with contextlib.suppress(FitError):  # nothing moves so early
                parts.append(residuals.of(begun))
    return parts


#: Starts are sought within this share of the range that the joint moves in.
_REACH = 0.5
#: The first windows are so long, s; each stage doubles that.
SHORTEST = 0.1
#: What a model lacks makes errors that grow with the square of time, and their mean square by this
#: factor with windows of twice the length; noise does not grow, but for this part. More comes of
#: motion that cannot be predicted over the longer ones.
_GROWTH, _SLACK = 16.0, 0.25
#: While windows grow, they have at most so many unknown starts for each other unknown, unless they
#: are fewer than this.
_MOST_STARTS, _FEWEST_WINDOWS = 10, 20


class Windows(NamedTuple):
    """A problem cut into windows."""

    sequences: tuple[Trajectory, ...]  # the windows
    # The problem's own unknowns, then positions and velocities at the windows' starts.
    unknowns: tuple[Unknown, ...]
    taken: float  # share of the data that is in these windows


class Window(NamedTuple):
    """A part of a trajectory."""

    whole: Trajectory  # the trajectory that it is cut from
    begin: float  # its first moment, s from the start of the whole
    end: float  # its last, which belongs to the next window unless the whole ends there
    sequence: Trajectory  # the part, a trajectory of its own
    starts: tuple[Unknown, ...]  # where each joint is at its start, and how fast

    def holds(self, times: Array) -> NDArray[np.bool_]:
        """Return which moments of the whole, s, are in the window."""
        return _inside(times, self.whole, self.begin, self.end)


class Cutter:
    """Cuts the trajectories of a problem into windows of any length."""

    def __init__(self, residuals: Residuals) -> None:
        """Smooth the measured motion of a whole problem, from which the windows start."""
        (simulator,) = residuals.simulators
        self._model = simulator.model
        self._unknowns = residuals.unknowns
        self._rows = len(residuals.samples.time)
        self._noise = residuals.noise
        scalar = np.isin(self._model.jnt_type, SCALAR_JOINTS)
        self._scalar = np.flatnonzero(scalar[self._model.dof_jntid]).tolist()
        self._runs = [(run, self._motion(run)) for run in simulator.runs]
        self.longest = max((run.sequence.duration for run, _ in self._runs), default=0.0)

    def cut(self, seconds: float, *, few: bool = False) -> Windows | None:
        """Return windows of one length, or a few of them; None where nothing is measured in any."""
        every = self.every(seconds)
        states = sum(len(window.starts) for window in every)
        columns = len(self._unknowns) + states
        stride = max(int(np.ceil(np.sqrt(self._rows * columns / MOST_NUMBERS))), 1)
        if few:
            enough = max(len(every) // _FEWEST_WINDOWS, 1)
            stride = max(stride, min(states // (_MOST_STARTS * len(self._unknowns)), enough))
        kept = every[::stride]
        if not kept:
            return None
        starts = tuple(start for window in kept for start in window.starts)
        taken = sum(window.end - window.begin for window in kept)
        whole = sum(run.sequence.duration for run, _ in self._runs)
        sequences = tuple(window.sequence for window in kept)
        return Windows(sequences, (*self.carried(kept), *starts), taken / whole)

    def every(self, seconds: float) -> list[Window]:
        """Return all windows of one length with something measured in them, in their order.

        A shorter rest belongs to the window before it.
        """
        found = []
        for run, motion in self._runs:
            duration = run.sequence.duration
            whole = motion is None and bool(self._scalar)
            count = 1 if whole else max(int(duration / seconds + 1e-9), 1)
            edges = [*(seconds * np.arange(count)).tolist(), duration]
            for begin, end in itertools.pairwise(edges):
                state = self._state(run, motion, begin) if begin else None
                part = cut(run.sequence, begin, end, state)
                if part.measurements:
                    starts = () if whole else self._starts(run, part, motion, begin)
                    found.append(Window(run.sequence, begin, end, part, starts))
        return found

    def carried(self, windows: Sequence[Window]) -> tuple[Unknown, ...]:
        """Return the problem's own unknowns as they act on windows.

        What shifts the commands of a trajectory shifts those of all of its windows; where it
        starts is where its first window starts, whose state is then not unknown besides.
        """
        names: dict[str, list[str]] = {}
        for window in windows:
            names.setdefault(window.whole.name, []).append(window.sequence.name)
        found = []
        for unknown in self._unknowns:
            targets: list[Target] = []
            for target in unknown.targets:
                own = [target.name]
                if target.role is Role.SEQUENCE:
                    first = target.attribute.startswith('initial_')
                    own = names.get(target.name, [])[: 1 if first else None]
                targets.extend(dataclasses.replace(target, name=name) for name in own)
            found.append(dataclasses.replace(unknown, targets=tuple(targets)))
        return tuple(found)

    def _motion(self, run: Run) -> PrescribedMotion | None:
        """Return how the joints of one axis moved; None where that is not to be had."""
        positions = measured_joints(self._model, run).position
        return smoothed(self._model, positions, run.qpos) if positions else None

    def _state(self, run: Run, motion: PrescribedMotion | None, time: float) -> tuple[Array, Array]:
        """Return (nq,) positions and (nv,) velocities as measured."""
        qpos, qvel, _ = initial_state(self._model, run.sequence.measurements, time)
        if motion is not None:
            dofs = self._scalar
            place = self._model.jnt_qposadr[self._model.dof_jntid[dofs]]
            qpos[place] = [np.interp(time, motion.times, column) for column in motion.qpos.T[dofs]]
            qvel[dofs] = [np.interp(time, motion.times, column) for column in motion.qvel.T[dofs]]
        return qpos, qvel

    def _starts(
        self, run: Run, window: Trajectory, motion: PrescribedMotion | None, begin: float
    ) -> tuple[Unknown, ...]:
        """Return the unknown position and velocity of each joint at the start of a window."""
        reach = start_reach(self._model, run, self._noise)
        if motion is not None:
            moved = (np.ptp(values, axis=0) for values in (motion.qpos, motion.qvel))
            qpos, qvel = (np.maximum(_REACH * each, SMALLEST).tolist() for each in moved)
            reach |= {dof: (qpos[dof], qvel[dof]) for dof in self._scalar}
        state = window.initial_qpos, window.initial_qvel
        known = () if begin else self._unknowns
        return states_at_start(self._model, window.name, state, reach, known)


class GrownWindows(NamedTuple):
    """What growing windows led to."""

    residuals: Residuals  # those of the longest windows whose ends still say something
    solution: Solution  # the rough solution for them
    seconds: float  # their length
    taken: float  # share of the data that is in them
    leads: bool = False  # whether whole trajectories can be fitted from there


def solve_in_windows(
    context: FitContext, residuals: Residuals, start: Array
) -> GrownWindows | None:
    """Fit windows that grow until they are whole trajectories, or until motion becomes chaotic.

    Each length has all iterations; none longer are tried once half of the time that there is has
    passed.

    Returns:
        The last stage from whose end motion could still be predicted; None where there is none.
    """
    cutter = Cutter(residuals)
    now = time.monotonic()
    deadline = now + 0.5 * (context.settings.deadline - now)
    early = dataclasses.replace(context.settings, promised=PROMISED, deadline=deadline)
    best: GrownWindows | None = None
    seconds = SHORTEST
    while seconds <= cutter.longest and (best is None or time.monotonic() < deadline):
        windows = cutter.cut(seconds, few=True)
        if windows is not None:
            context.log.stage(f'starting in windows of {seconds:g} s')
            grown = _grown(context, residuals, windows, seconds, start, best, early)
            if grown is None or (best is not None and _is_lost(grown.solution, best.solution)):
                break
            best = grown
        seconds *= 2
    if best is None:
        return None
    count = len(start)
    leads = roughness_at(residuals, best.solution.x[:count], count) <= LOST
    return best._replace(leads=leads)


def with_every_window(
    context: FitContext, residuals: Residuals, start: Array, grown: GrownWindows
) -> GrownWindows:
    """Return what windows of the same length say where they are as many as there are."""
    windows = Cutter(residuals).cut(grown.seconds)
    if windows is None or len(windows.sequences) == len(grown.residuals.runs):
        return grown
    settings = dataclasses.replace(context.settings, promised=PROMISED)
    return _grown(context, residuals, windows, grown.seconds, start, grown, settings) or grown


def _is_lost(longer: Solution, shorter: Solution) -> bool:
    """Whether windows of twice the length are fitted so much worse that they mislead."""
    after, before = (2 * each.cost / len(each.residual) for each in (longer, shorter))
    return after > (1 + _SLACK) * max(before, 1.0) + _GROWTH * max(before - 1.0, 0.0)


def _grown(
    context: FitContext,
    residuals: Residuals,
    windows: Windows,
    seconds: float,
    start: Array,
    last: GrownWindows | None,
    settings: SolverSettings,
) -> GrownWindows | None:
    """Return the rough solution for windows; None where motion cannot be predicted over them."""
    count = len(start)
    with ExitStack() as opened:
        simulator = context.simulator(windows.unknowns, windows.sequences, opened)
        part = Residuals(simulator, residuals.noise, memory=context.memory)
        residuals.also(part)
        begin = np.array([unknown.nominal for unknown in windows.unknowns])
        begin[:count] = start if last is None else last.solution.x[:count]
        # Values that fit shorter windows are near: what is rough around them stays so.
        if last is not None and roughness_at(part, begin, count) > ROUGH:
            return None
        begun = None if last is None else last.solution
        solution = solve_part(part, begin, settings, ROUGH_TOLERANCE, context.cancel, begun)
        if solution is None or roughness_at(part, solution.x, count) > ROUGH:
            return None
        context.opened.enter_context(opened.pop_all())
    return GrownWindows(part, solution, seconds, windows.taken)
