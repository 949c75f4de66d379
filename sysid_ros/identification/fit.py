# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Identify the parameters of a model from sequences."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

import mujoco
import numpy as np
from numpy.typing import NDArray

from sysid_ros.config.calibration import StartChoice
from sysid_ros.errors import FitError
from sysid_ros.estimation.arrivals import Arrivals, locate, settle
from sysid_ros.estimation.context import FitContext
from sysid_ros.estimation.noise import (
    JointPrior,
    arrival_jitter,
    encoder_steps,
    estimate_noise,
    smallest_noise,
)
from sysid_ros.estimation.nuisances import (
    FORCE_DELAY,
    Unknowns,
    command_timings,
    initial_states,
    torque_delay,
)
from sysid_ros.estimation.regression import aimed
from sysid_ros.estimation.residuals import Residuals, Samples
from sysid_ros.estimation.solver import (
    LIMITS,
    ROUGH_TOLERANCE,
    FitLog,
    Solution,
    SolverSettings,
    no_effect,
    stopped,
    with_steady_slopes,
)
from sysid_ros.estimation.start import (
    Attempt,
    FirstSolution,
    Start,
    check_choice,
    initialize,
    initialize_from,
    resume,
)
from sysid_ros.estimation.start import starts as spread_starts
from sysid_ros.identification.observer import Nobody, Observer
from sysid_ros.inference import Inference, Interval, infer, sharpened
from sysid_ros.inference.inference import DataOnly, data_only
from sysid_ros.inference.model_errors import terms
from sysid_ros.model.targets import Role
from sysid_ros.model.unknown import Unknown, check_distinct
from sysid_ros.rollout.drives import Drives
from sysid_ros.rollout.inverse import InverseSimulator
from sysid_ros.rollout.simulation import Simulator
from sysid_ros.signals.trajectory import Trajectory

#: Samples are left out evenly where the Jacobian by the parameters would have more numbers: a fit
#: takes some ten times its size, 1 GB.
_LARGEST_JACOBIAN = 1e7
#: Starts are unknown as long as the Jacobian, which they make wide, has at most so many numbers.
_MOST_NUMBERS = 1e8
#: The noise of each sensor is estimated anew from the residuals at most so often, and not again
#: once no estimate moved by more than this fraction.
_WEIGHTINGS, _WEIGHT_TOLERANCE = 4, 0.02
#: In chaotic motion the cost has no more digits than this.
_WINDOW_TOLERANCE = 0.01
_NOT_LOOKED = 'The limit of time was reached before what the model may lack was looked for.'
_STARTS_FIXED = (
    'The recordings are too many, or what they leave jumps too much, for their starts to be '
    'unknown: errors of the states measured there are not in the intervals.'
)


@dataclass(frozen=True)
class Fit:
    """What an identification found.

    Attributes:
        parameters: The unknowns.
        solution: Values, residuals, Jacobian and trace.
        inference: Intervals, verdicts and covariance of the parameters, and then of the offsets.
        offsets: Sequence name to the seconds by which its commands were found to act later than
            their stamps and the delay say; empty where stamps are regular.
        noise: Sensor name to the standard deviation that its residuals were divided by.
        rollouts: Number of simulations that were run.
        diverged: How many of them became unstable.
        seconds: Wall time.
        sequences: Names of the sequences, in their order.
        dead: Sensors that never move in any sequence; they were left out.
        left_out: Sequence name to the number of its measured samples that were not compared,
            because a delay that the bounds allow would place them outside of the simulation.
        attempts: What became of each start, where there were several.
        start: Where the fit started: ``nominal``, ``regression``, ``windows``, ``spread`` or
            ``sampled``.
        start_sentence: Where those values are from, for people.
        window: Length of the windows that the values rest on, s, where that was asked for or the
            motion cannot be predicted over whole sequences; else None.
        data_only: With a memory, what the data say of all unknowns without it; else None.
        memory: What was known of some parameters together.
        unknowns: The parameters, then what else was unknown; a column of the Jacobian each.
        values: (number of unknowns,) what was found for all of them.
        samples: What each residual is; None where this was not kept.
        known_noise: Sensors whose noise was known and not estimated.
        strides: Of each series of a training sequence, every how many samples were fitted; empty
            where all were.
        arrival_errors: Sequence name to the (n,) seconds by which the messages of each of its
            series of commands were found to act later than their stamps, offset and delay say;
            empty where stamps are regular.
        drives: Which actuators are driven by laws that MuJoCo lacks, if any.
    """

    parameters: tuple[Unknown, ...]
    solution: Solution
    inference: Inference
    offsets: dict[str, float]
    noise: dict[str, float]
    rollouts: int
    diverged: int
    seconds: float
    sequences: tuple[str, ...]
    dead: tuple[str, ...] = ()
    left_out: dict[str, int] = field(default_factory=dict)
    attempts: tuple[Attempt, ...] = ()
    start: str = 'nominal'
    start_sentence: str = ''
    window: float | None = None
    data_only: DataOnly | None = None
    memory: JointPrior | None = None
    unknowns: tuple[Unknown, ...] = ()
    values: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    samples: Samples | None = None
    known_noise: frozenset[str] = frozenset()
    strides: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    arrival_errors: Mapping[str, tuple[NDArray[np.float64], ...]] = field(default_factory=dict)
    drives: Drives | None = None

    @property
    def intervals(self) -> tuple[Interval, ...]:
        """Interval and verdict of each parameter."""
        return self.inference.intervals[: len(self.parameters)]

    @property
    def force_delay(self) -> float:
        """Seconds by which measured forces were found to be later than the motion."""
        rows = zip(self.unknowns, self.values, strict=False)
        return next((float(value) for unknown, value in rows if unknown.name == FORCE_DELAY), 0.0)

    def predicting(
        self, sequences: Sequence[Trajectory]
    ) -> tuple[tuple[Unknown, ...], NDArray[np.float64]]:
        """Return the parameters, with the delay of forces that are simulated, and their values."""
        timed = any(sequence.motion is not None for sequence in sequences)
        count = len(self.parameters)
        own = [
            place
            for place, unknown in enumerate(self.unknowns)
            if place < count or (unknown.name == FORCE_DELAY and not timed)
        ]
        return tuple(self.unknowns[place] for place in own), self.values[own]

    def as_timed(self, sequences: Sequence[Trajectory]) -> list[Trajectory]:
        """Return sequences whose forces are stamped as the motion is, where it is prescribed."""
        delay = self.force_delay
        return [
            sequence
            if sequence.motion is None or not delay
            else dataclasses.replace(
                sequence,
                measurements=tuple(
                    dataclasses.replace(series, times=series.times - delay)
                    for series in sequence.measurements
                ),
            )
            for sequence in sequences
        ]

    def as_fitted(self, sequences: Sequence[Trajectory]) -> list[Trajectory]:
        """Return training sequences as they were fitted: commands as arrived, samples as kept."""
        return [_thinned(s, self.strides.get(s.name, (1,))) for s in self.as_arrived(sequences)]

    def as_arrived(
        self, sequences: Sequence[Trajectory], *, offsets: bool = False
    ) -> list[Trajectory]:
        """Return sequences whose commands are stamped as they are taken to have arrived.

        Args:
            sequences: Those of other names come back as they are.
            offsets: Whether to add each sequence's offset to the errors of its messages, and to
                time forces as the motion is, where these are not unknowns again.
        """
        found = []
        for sequence in self.as_timed(sequences) if offsets else sequences:
            errors = self.arrival_errors.get(sequence.name)
            if errors is not None:
                offset = self.offsets.get(sequence.name, 0.0) if offsets else 0.0
                commands = [
                    dataclasses.replace(series, times=series.times + own + offset)
                    for series, own in zip(sequence.commands, errors, strict=True)
                ]
                sequence = dataclasses.replace(sequence, commands=tuple(commands))  # noqa: PLW2901
            found.append(sequence)
        return found


@dataclass(frozen=True)
class FitOptions:
    """How a fit is made.

    Attributes:
        settings: Solver, loss and the limit of iterations over all weightings together.
        start: Where to start: ``nominal`` values, ``regression`` on the equations of motion,
            ``windows`` that grow to whole sequences, or ``auto``, which takes what is of use.
        windowed: Whether the values rest on windows also where whole sequences can be predicted:
            on the longest that can, with unknown states at their starts (multiple shooting).
        starts: Number of starts, spread over the bounds; the first is the nominal one. What
            belongs to one sequence always starts where it was measured.
        seed: Of the other starts.
        threads: Simulation threads; 0 means one per core.
        noise: Sensor name to the standard deviation of its noise, in its unit, where that is known;
            it is then not estimated.
        drives: Which actuators are driven by laws that MuJoCo lacks; their commands are goals.
        judged: Whether to look for what the model lacks; not worth it where another fit follows.
    """

    settings: SolverSettings = field(default_factory=SolverSettings)
    start: StartChoice = 'auto'
    windowed: bool = False
    starts: int = 1
    seed: int = 0
    threads: int = 0
    noise: Mapping[str, float] = field(default_factory=dict)
    drives: Drives | None = None
    judged: bool = True

    def __post_init__(self) -> None:
        """Check the choices.

        Raises:
            FitError: There is no such start, or windows have several.
        """
        check_choice(self.start)
        if self.windowed and self.starts > 1:
            raise FitError(
                f'Windows lead from one start: expected starts of 1 with them, found {self.starts}.'
            )


def fit(
    model: mujoco.MjModel | mujoco.MjSpec,
    parameters: Sequence[Unknown],
    trajectories: Sequence[Trajectory],
    *,
    options: FitOptions | None = None,
    prior: JointPrior | None = None,
    begun: Fit | None = None,
    observer: Observer | None = None,
    cancel: threading.Event | None = None,
) -> Fit:
    """Fit parameters by weighted nonlinear least squares.

    The first weights come from the roughness of the measurements. Then each sensor's noise is
    estimated from its own residuals and the fit repeated from where it was, until the weights
    stand still: iterated maximum likelihood for normal noise of unknown size per sensor (Aitken's
    feasible generalised least squares). With several starts, the best of them goes on so.

    Args:
        model: The nominal model, which is not changed: a spec, or what it compiled to if no
            parameter needs another compilation.
        parameters: The unknowns.
        trajectories: The training data.
        options: How; by the defaults unless given.
        prior: What is known of some parameters together, beside each one's own prior.
        begun: A fit to the same data with a model that hardly differs, of these parameters or
            others: this one goes on from there.
        observer: Is told of stages and iterations.
        cancel: Ends the fit when it is set.

    Raises:
        FitError: There is nothing to fit, no parameter has an effect, one needs the spec, or
            windows are asked for and not possible.
        ModelError: The model does not compile with a candidate's values.
        CancelledError: ``cancel`` was set.
    """
    options = options or FitOptions()
    check_distinct(parameters)
    if not trajectories or not parameters:
        raise FitError(
            f'Nothing to fit: {len(trajectories)} sequences and {len(parameters)} parameters.'
        )
    strides = _strides(trajectories, len(parameters))
    sequences = [_thinned(*each) for each in zip(trajectories, strides, strict=True)]
    observer = observer or Nobody()
    log = FitLog(observer.iteration, observer.stage)
    with ExitStack() as opened:
        context = FitContext(
            model,
            options.settings,
            log,
            known_noise=options.noise,
            memory=prior,
            drives=options.drives,
            threads=options.threads,
            cancel=cancel,
            opened=opened,
        )
        unknowns = _all_unknowns(context, parameters, sequences, begun)
        simulator = context.simulator(unknowns.every, sequences)
        whole = context.residuals(simulator, _first_noise(simulator, options.noise, begun))
        first = _resumed(context, whole, begun)
        if first is None and options.starts > 1:
            spread = _spread(unknowns.every, options.starts, options.seed)
            first = initialize_from(context, whole, options.start, spread)
        first = first or initialize(context, whole, options.start, windowed=options.windowed)
        if not unknowns.of_parameters(first.solution.jacobian.T).any():
            # Beside them, delays and arrivals may be unknown.
            raise no_effect(parameters)
        starts_fixed = False
        if first.window is None and context.may_go_on:
            freed = _with_free_starts(context, first, unknowns, sequences)
            starts_fixed = freed is None
            first = freed or first
        solution, residuals, arrivals = solve_weighted(context, first, once=not options.judged)
        x = solution.x
        if solution.status in LIMITS and not (solution.status == 'time' and solution.jumps):
            # It may not have arrived for jumps; where they are known, time goes into steps instead.
            solution = with_steady_slopes(residuals, solution, options.settings.loss)
        found, solution = _inferred(
            context, residuals, solution, arrivals, judged=options.judged, window=first.window
        )
        notes = (*found.notes, _STARTS_FIXED) if starts_fixed else found.notes
        found = dataclasses.replace(found, notes=notes)
        # Residuals with free starts count the simulations of the whole as their own.
        counted = [residuals] if first.window is None or residuals is whole else [whole, residuals]
        return Fit(
            parameters=tuple(parameters),
            solution=dataclasses.replace(
                solution, x=unknowns.of_parameters(x), trace=tuple(log.trace)
            ),
            inference=found,
            offsets=unknowns.offsets(x),
            noise=residuals.noise,
            rollouts=sum(part.evaluations for part in counted) + (begun.rollouts if begun else 0),
            diverged=sum(part.diverged for part in counted) + (begun.diverged if begun else 0),
            seconds=log.seconds,
            sequences=tuple(sequence.name for sequence in sequences),
            dead=whole.dead,
            left_out=_left_out(whole),
            attempts=begun.attempts if begun else first.attempts,
            start=first.start.name,
            start_sentence=first.start.sentence,
            window=first.window,
            data_only=None
            if prior is None
            else data_only(solution, residuals.unknowns, residuals.samples, options.settings.loss),
            memory=prior,
            unknowns=residuals.unknowns,
            values=x,
            samples=residuals.samples,
            known_noise=frozenset(options.noise) & frozenset(residuals.noise),
            strides={
                s.name: own
                for s, own in zip(sequences, strides, strict=True)
                if max(own, default=1) > 1
            },
            arrival_errors={} if arrivals is None else arrivals.by_sequence(),
            drives=options.drives,
        )


def solve_weighted(
    context: FitContext, first: FirstSolution, *, once: bool = False
) -> tuple[Solution, Residuals, Arrivals | None]:
    """Solve and estimate the noise in turns, until the estimates stand still.

    Errors of the commands' arrival are told from the noise before it is estimated.

    Args:
        context: What all stages of the fit share.
        first: Where from.
        once: Whether one estimate is enough, as of a fit that another one follows.
    """
    residuals, solution, arrivals = first.residuals, first.solution, None
    jitter = arrival_jitter([run.sequence for run in residuals.runs])
    if first.window is not None or context.settings.loss != 'linear':
        # Windows are too short to tell errors of messages; a robust loss takes what a late command
        # does for outliers, and as errors those would spread.
        jitter = 0.0
    floors = smallest_noise(residuals.runs)
    last = context.settings.accuracy
    if first.window is not None:
        last = max(last, _WINDOW_TOLERANCE)
    robust = context.settings.loss != 'linear'
    for weighting in range(1, _WEIGHTINGS + 1):
        if not context.may_go_on:
            at_limit = solution.status in LIMITS or not context.is_limited
            return solution if at_limit else stopped(solution), residuals, arrivals
        if jitter:
            located = locate(residuals, solution, jitter, arrivals)
            if located is not None:
                arrivals, residuals, solution = located
                last = ROUGH_TOLERANCE  # the errors are settled together with the values
        white = solution.residual
        if arrivals is not None:
            white = arrivals.whitened(residuals, white)
        ratio = residuals.spread(white, robust=robust)
        estimated = [s for s in ratio if s not in context.known_noise]
        moved = max((abs(ratio[s] - 1.0) for s in estimated), default=0.0)
        noise = dict(residuals.noise)
        noise.update({s: max(noise[s] * ratio[s], floors[s]) for s in estimated})
        settled = once or weighting == _WEIGHTINGS or moved < _WEIGHT_TOLERANCE
        known = residuals.rescaled(solution, noise)
        # Weights that are to change again are not worth the last digits.
        solution = context.solve(residuals, known.x, last if settled else ROUGH_TOLERANCE, known)
        if settled:
            break
    if arrivals is not None:
        # The last solve left the errors where they were: both together are at their optimum after.
        arrivals, residuals, solution = settle(arrivals, residuals, solution)
    return solution, residuals, arrivals


def _strides(sequences: Sequence[Trajectory], unknowns: int) -> list[tuple[int, ...]]:
    """Return every how many samples of each sequence's series fit in memory.

    Series that are sampled more often than others lose samples first.
    """
    rates = [
        tuple(len(series) / max(sequence.duration, 1e-9) for series in sequence.measurements)
        for sequence in sequences
    ]

    def at(rate: float) -> list[tuple[int, ...]]:
        return [tuple(max(int(each / rate), 1) for each in own) for own in rates]

    def size(strides: Sequence[Sequence[int]]) -> int:
        return sum(
            -(-len(series) // stride) * series.matrix.shape[1] * unknowns
            for sequence, own in zip(sequences, strides, strict=True)
            for series, stride in zip(sequence.measurements, own, strict=True)
        )

    longest = max(sequence.duration for sequence in sequences)
    rate = max((each for own in rates for each in own), default=1.0)
    # What forces need along a motion is compared as often as it says something.
    if all(sequence.motion is None for sequence in sequences):
        while size(at(rate)) > _LARGEST_JACOBIAN and rate * longest > 1.0:
            rate *= 0.9
    return at(rate)


def _thinned(sequence: Trajectory, strides: Sequence[int]) -> Trajectory:
    """Return a sequence with every so many samples of each of its series."""
    if all(stride == 1 for stride in strides):
        return sequence
    measurements = tuple(
        dataclasses.replace(series, times=series.times[::stride], data=series.data[::stride])
        for series, stride in zip(sequence.measurements, strides, strict=True)
    )
    return dataclasses.replace(sequence, measurements=measurements)


def _inferred(
    context: FitContext,
    residuals: Residuals,
    solution: Solution,
    arrivals: Arrivals | None,
    *,
    judged: bool,
    window: float | None,
) -> tuple[Inference, Solution]:
    """Return intervals and verdicts, and what the model lacks where there is time for that."""
    steps = {
        sensor: step / residuals.noise[sensor]
        for sensor, step in encoder_steps(residuals.runs).items()
        if sensor in residuals.noise
    }
    if judged:
        context.log.stage('intervals and verdicts')
    # What a fit did not get to would pass for what its model lacks.
    arrived = solution.status not in LIMITS and not context.settings.rough
    complete = judged and window is None and arrived
    late = complete and context.is_late
    jacobian = sharpened(residuals, solution)
    lacking = terms(residuals, solution.x) if complete and not late else []
    if arrivals is not None:
        jacobian = arrivals.whitened_jacobian(residuals, jacobian)
        lacking = [
            term._replace(change=arrivals.whitened_changes(residuals, term.change[:, None])[:, 0])
            for term in lacking
        ]
        solution = dataclasses.replace(
            solution,
            residual=arrivals.whitened(residuals, solution.residual),
            jacobian=arrivals.whitened_jacobian(residuals, solution.jacobian),
        )
    found = infer(
        solution,
        jacobian,
        residuals.unknowns,
        dataclasses.replace(residuals.samples, encoder_steps=steps),
        loss=context.settings.loss,
        terms=lacking,
    )
    return dataclasses.replace(found, notes=(*found.notes, *(_NOT_LOOKED,) * late)), solution


def _all_unknowns(
    context: FitContext,
    parameters: Sequence[Unknown],
    sequences: Sequence[Trajectory],
    begun: Fit | None,
) -> Unknowns:
    """Return the parameters and what else is unknown: of a fit that goes on, what was."""
    if begun is not None and begun.window is None:
        own = {unknown.name: unknown for unknown in begun.unknowns}
        same = [dataclasses.replace(own.get(p.name, p), prior=p.prior) for p in parameters]
        return Unknowns.of(same, begun.unknowns[len(begun.parameters) :])
    timings = command_timings(sequences, parameters)
    delays = torque_delay(context.compiled, sequences, parameters)
    every = aimed(context.compiled, (*parameters, *timings, *delays), sequences)
    return Unknowns.of(every[: len(parameters)], every[len(parameters) :])


def _first_noise(
    simulator: Simulator, known: Mapping[str, float], begun: Fit | None
) -> dict[str, float]:
    """Return the noise by which residuals are divided first, by sensor."""
    if begun is not None:
        return {**begun.noise, **known}
    if isinstance(simulator, InverseSimulator):
        return {**simulator.unexplained(), **known}
    return {**estimate_noise(simulator.runs), **known}


def _resumed(context: FitContext, whole: Residuals, begun: Fit | None) -> FirstSolution | None:
    """Go on from a fit to the same data, if there is one, and it is to whole sequences."""
    if begun is None:
        return None
    context.log.go_on(begun.solution.trace, begun.seconds)
    if begun.window is not None:
        return None
    ended = {own.name: x for own, x in zip(begun.unknowns, begun.values, strict=True)}
    values = np.array([ended.get(unknown.name, unknown.nominal) for unknown in whole.unknowns])
    start = Start(begun.start, values, begun.start_sentence)
    same = whole.unknowns == begun.unknowns
    solution = dataclasses.replace(begun.solution, x=values) if same else None
    return resume(context, whole, start, solution)


def _with_free_starts(
    context: FitContext,
    first: FirstSolution,
    unknowns: Unknowns,
    sequences: Sequence[Trajectory],
) -> FirstSolution | None:
    """Go on with the states at the starts unknown as well; None where they are not to be had.

    They are too many, or residuals jump: slopes by starts would then have to be sought over
    standard errors, too, while what a joint that sticks does soon forgets them.
    """
    whole = first.residuals
    if first.solution.jumps:
        return None
    (simulator,) = whole.simulators
    states = initial_states(simulator.model, simulator.runs, whole.noise, whole.unknowns)
    if not states:
        return first
    every = dataclasses.replace(unknowns, starts=(*unknowns.starts, *states)).every
    if len(every) * len(whole.samples.time) > _MOST_NUMBERS:
        return None
    residuals = context.residuals(context.simulator(every, sequences), whole.noise)
    residuals.also(whole)
    known = residuals.extended(first.solution, whole)
    solution = context.solve(residuals, known.x, ROUGH_TOLERANCE, known)
    return dataclasses.replace(first, residuals=residuals, solution=solution)


def _spread(unknowns: Sequence[Unknown], count: int, seed: int) -> NDArray[np.float64]:
    """Return (count, p) starts, the first at the nominal values."""
    columns = [
        column
        for column, unknown in enumerate(unknowns)
        if any(target.role is not Role.SEQUENCE for target in unknown.targets)
    ]
    candidates = np.tile([unknown.nominal for unknown in unknowns], (count, 1))
    if columns:
        candidates[:, columns] = spread_starts(
            [unknowns[column] for column in columns], count, seed=seed
        )
    return candidates


def _left_out(residuals: Residuals) -> dict[str, int]:
    """Count the samples of sensors that move, but are not compared, by sequence."""
    samples = residuals.samples
    compared = np.bincount(samples.sequence[samples.sensor >= 0], minlength=len(residuals.runs))
    found = {}
    for run, count in zip(residuals.runs, compared, strict=True):
        measured = sum(
            int(np.isfinite(values).sum())
            for readings in run.readings
            for sensor, values in zip(readings.sensors, readings.measured.T, strict=True)
            if sensor not in residuals.dead
        )
        if measured > count:
            found[run.sequence.name] = measured - int(count)
    return found
