# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Fit the parameters of a model to trajectories by weighted nonlinear least squares."""

from __future__ import annotations

import dataclasses
import math
import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

import mujoco
import numpy as np
from numpy.typing import NDArray

from sysid_ros.config.schema import Loss, StartChoice
from sysid_ros.errors import CancelledError, FitError
from sysid_ros.fit.arrivals import Arrivals, locate, settle
from sysid_ros.fit.context import FitContext
from sysid_ros.fit.differences import Samples
from sysid_ros.fit.linear import Linear, linearised, sharpened, unevenness
from sysid_ros.fit.noise import (
    JointPrior,
    arrival_jitter,
    encoder_steps,
    estimate_noise,
    smallest_noise,
)
from sysid_ros.fit.nuisances import (
    FORCE_DELAY,
    Unknowns,
    command_timings,
    initial_states,
    torque_delay,
)
from sysid_ros.fit.observer import Nobody, Observer
from sysid_ros.fit.regression import aimed
from sysid_ros.fit.residuals import MOST_NUMBERS, Residuals
from sysid_ros.fit.solver import (
    LIMITS,
    RESERVED,
    ROUGH_TOLERANCE,
    FitLog,
    Solution,
    SolverSettings,
    no_effect,
    stopped,
    with_own_columns,
)
from sysid_ros.fit.start import (
    Attempt,
    FirstSolution,
    Start,
    check_choice,
    initialize,
    initialize_from,
    resume,
)
from sysid_ros.fit.start import starts as spread_starts
from sysid_ros.fit.terms import Term, terms
from sysid_ros.model.kinds import Role
from sysid_ros.model.targets import Unknown, check_distinct
from sysid_ros.signals import Trajectory
from sysid_ros.simulation.prediction import InverseSimulator, make_simulator
from sysid_ros.simulation.simulator import Drives, Simulator

#: Starts are unknown as long as the Jacobian, which they make wide, has at most so many numbers:
#: most of them are zeros, and no step of the fit takes more than three times as much memory.
_MOST_NUMBERS = 3e7
#: The noise of each sensor is estimated anew from the residuals at most so often, …
_WEIGHTINGS = 4
#: … and not again once no estimate moved by more than this fraction. In chaotic motion the cost has
#: no more digits either.
_ROUGHLY = 0.02
_Found = TypeVar('_Found', bound='Fit')
_NOT_SHARP = (
    'The limit of time was reached before slopes along what the data hardly tell were measured '
    'anew: intervals may be too narrow.'
)
_NOT_LOOKED = 'The limit of time was reached before what the model may lack was looked for.'
_STARTS_FIXED = (
    'The recordings are too many for the limits, or what they leave jumps too much, for their '
    'starts to be unknown: errors of the states measured there are not in the intervals.'
)

Array = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Fit:
    """What was found by a fit."""

    parameters: tuple[Unknown, ...]
    unknowns: tuple[Unknown, ...]  # the parameters, then what else was unknown
    values: Array  # (number of unknowns,) what was found for all of them
    solution: Solution  # values of the parameters, residuals, Jacobian of all unknowns, trace
    samples: Samples  # what each residual is
    loss: Loss = 'linear'
    terms: tuple[Term, ...] = ()  # that the model may lack, until it is known whether it does
    notes: tuple[str, ...] = ()  # what a reader of the values has to know, a sentence each
    noise: dict[str, float]  # sensor to the standard deviation its residuals were divided by
    rollouts: int  # number of simulations that were run
    diverged: int  # how many of them became unstable
    seconds: float  # wall time
    sequences: tuple[str, ...]  # their names
    #: Sequence to the seconds by which its commands were found to act later than their stamps and
    #: the delay say; empty where stamps are regular.
    offsets: dict[str, float] = field(default_factory=dict)
    dead: tuple[str, ...] = ()  # sensors that never move in any sequence; they were left out
    #: Sequence to the number of its measured samples that were not compared, because a delay that
    #: the bounds allow would place them outside of the simulation.
    left_out: dict[str, int] = field(default_factory=dict)
    attempts: tuple[Attempt, ...] = ()  # what became of each start, where there were several
    start: str = 'nominal'  # or ``regression``, ``windows``, ``spread``
    start_sentence: str = ''  # where those values are from, for people
    #: Length of the windows that the values rest on, s, where that was asked for or the motion
    #: cannot be predicted over whole sequences; else None.
    window: float | None = None
    memory: JointPrior | None = None  # what was known of some parameters together
    known_noise: frozenset[str] = frozenset()  # sensors whose noise was not estimated
    #: Of each series of a sequence, every how many samples were fitted; empty where all were.
    strides: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    #: Sequence to the (n,) seconds by which the messages of each of its series of commands were
    #: found to act later than their stamps, offset and delay say; empty where stamps are regular.
    arrival_errors: Mapping[str, tuple[Array, ...]] = field(default_factory=dict)
    drives: Drives | None = None  # which actuators are driven by laws that MuJoCo lacks
    #: (number of unknowns,) how much of what nearby values change is not what slopes say, where
    #: anything touches.
    uneven: Array = field(default_factory=lambda: np.zeros(0))

    def linearised(self) -> Linear:
        """Return the problem as it is at the values that were found."""
        solution = dataclasses.replace(self.solution, x=self.values)
        return linearised(solution, self.unknowns, self.samples, self.loss)

    @property
    def force_delay(self) -> float:
        """Seconds by which measured forces were found to be later than the motion."""
        rows = zip(self.unknowns, self.values, strict=True)
        return next((float(value) for unknown, value in rows if unknown.name == FORCE_DELAY), 0.0)

    def predicting(self, sequences: Sequence[Trajectory]) -> tuple[tuple[Unknown, ...], Array]:
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

        Each sequence's offset may be added to the errors of its messages, and forces timed as the
        motion is, where these are not unknowns again. Those of other names come back as they are.
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
    """How a fit is made."""

    settings: SolverSettings = field(default_factory=SolverSettings)
    start: StartChoice = 'auto'  # what is of use; see `estimation.start`
    #: Whether the values rest on windows also where whole sequences can be predicted: on the
    #: longest that can, with unknown states at their starts (multiple shooting).
    windowed: bool = False
    #: Number of starts, spread over the bounds; the first is the nominal one. What belongs to one
    #: sequence always starts where it was measured.
    starts: int = 1
    seed: int = 0  # of the other starts
    threads: int = 0  # of the simulation; 0 means one per core
    #: Sensor to the standard deviation of its noise, in its unit, where that is known.
    noise: Mapping[str, float] = field(default_factory=dict)
    drives: Drives | None = None  # which actuators are driven by laws; their commands are goals
    led: bool = False  # whether nominal values are where part of the data led to
    judged: bool = True  # whether to look for what the model lacks, as no other fit follows

    def __post_init__(self) -> None:
        """Check the choices; a `FitError` says that there is no such start."""
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
            partial(make_simulator, model, threads=options.threads, drives=options.drives),
            options.settings,
            log,
            known_noise=options.noise,
            memory=prior,
            led=options.led,
            cancel=cancel,
            opened=opened,
        )
        unknowns = _all_unknowns(model, parameters, sequences, begun)
        simulator = context.simulator(unknowns.every, sequences)
        whole = Residuals(simulator, _first_noise(simulator, options.noise, begun), memory=prior)
        first = _resumed(context, whole, begun)
        if first is None and options.starts > 1:
            spread = _spread(unknowns.every, options.starts, options.seed)
            first = initialize_from(context, whole, options.start, spread)
        first = first or initialize(context, whole, options.start, windowed=options.windowed)
        if not unknowns.of_parameters(first.solution.jacobian.T).any():
            # Beside them, delays and arrivals may be unknown.
            raise no_effect(parameters)
        starts_fixed = False
        # A fit that is not judged only says where another one starts.
        if first.window is None and context.may_go_on and options.judged:
            freed = _with_free_starts(context, first, unknowns, sequences)
            starts_fixed = freed is None
            first = freed or first
        solution, residuals, arrivals = _solve_weighted(context, first, once=not options.judged)
        # What a fit did not get to would pass for what its model lacks.
        arrived = solution.status not in LIMITS and not context.settings.rough
        complete = options.judged and first.window is None and arrived
        late = complete and context.is_late
        if options.judged:
            context.log.stage('intervals and verdicts')
        sharp = not context.is_late
        if sharp and options.judged:
            solution = with_own_columns(residuals, solution, options.settings.loss)
            solution = sharpened(residuals, solution)
        touching = any(simulator.touches(solution.x) for simulator in residuals.simulators)
        judged = touching and sharp and options.judged
        uneven = unevenness(residuals, solution) if judged else np.zeros(len(solution.x))
        lacking = terms(residuals, solution.x) if complete and not late else []
        if arrivals is not None:
            solution, lacking = _whitened(arrivals, residuals, solution, lacking)
        # Residuals with free starts count the simulations of the whole as their own.
        parts = [residuals] if first.window is None or residuals is whole else [whole, residuals]
        x = solution.x
        return Fit(
            parameters=tuple(parameters),
            unknowns=residuals.unknowns,
            values=x,
            solution=dataclasses.replace(
                solution, x=unknowns.of_parameters(x), trace=tuple(log.trace)
            ),
            samples=_samples(residuals),
            loss=options.settings.loss,
            terms=tuple(lacking),
            notes=(
                *(_NOT_SHARP,) * (not sharp),
                *(_NOT_LOOKED,) * late,
                *(_STARTS_FIXED,) * starts_fixed,
            ),
            offsets=unknowns.offsets(x),
            noise=residuals.noise,
            rollouts=sum(part.evaluations for part in parts) + (begun.rollouts if begun else 0),
            diverged=sum(part.diverged for part in parts) + (begun.diverged if begun else 0),
            seconds=log.seconds,
            sequences=tuple(sequence.name for sequence in sequences),
            dead=whole.dead,
            left_out=_left_out(whole),
            attempts=begun.attempts if begun else first.attempts,
            start=first.start.name,
            start_sentence=first.start.sentence,
            window=first.window,
            memory=prior,
            known_noise=frozenset(options.noise) & frozenset(residuals.noise),
            strides={
                s.name: own
                for s, own in zip(sequences, strides, strict=True)
                if max(own, default=1) > 1
            },
            arrival_errors={} if arrivals is None else arrivals.by_sequence(),
            drives=options.drives,
            uneven=uneven,
        )


def _whitened(
    arrivals: Arrivals, residuals: Residuals, solution: Solution, lacking: Sequence[Term]
) -> tuple[Solution, list[Term]]:
    """Return a solution and terms as they are beside errors of the commands' arrival."""
    changes = (arrivals.whitened_changes(residuals, t.change[:, None])[:, 0] for t in lacking)
    solution = dataclasses.replace(
        solution,
        residual=arrivals.whitened(residuals, solution.residual),
        jacobian=arrivals.whitened_jacobian(residuals, solution.jacobian),
    )
    return solution, [t._replace(change=own) for t, own in zip(lacking, changes, strict=True)]


def _samples(residuals: Residuals) -> Samples:
    """Return what each residual is, with the steps of encoders in units of the noise."""
    steps = {
        sensor: step / residuals.noise[sensor]
        for sensor, step in encoder_steps(residuals.runs).items()
        if sensor in residuals.noise
    }
    return dataclasses.replace(residuals.samples, encoder_steps=steps)


def _solve_weighted(
    context: FitContext, first: FirstSolution, *, once: bool = False
) -> tuple[Solution, Residuals, Arrivals | None]:
    """Solve and estimate the noise in turns, until the estimates stand still.

    Errors of the commands' arrival are told from the noise before it is estimated. One estimate is
    enough for a fit that another one follows.
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
        last = max(last, _ROUGHLY)
    robust = context.settings.loss != 'linear'
    for weighting in range(1, _WEIGHTINGS + 1):
        if not context.may_go_on:
            at_limit = solution.status in LIMITS or not context.is_limited
            return solution if at_limit else stopped(solution), residuals, arrivals
        if jitter:
            located = locate(residuals, solution, jitter, arrivals)
            if located is None:
                jitter = 0.0
            else:
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
        settled = once or weighting == _WEIGHTINGS or moved < _ROUGHLY
        known = residuals.rescaled(solution, noise)
        # Weights that are to change again are not worth the last digits.
        solution = context.solve(residuals, known.x, last if settled else None, known)
        if settled:
            break
    if arrivals is not None:
        # The last solve left the errors where they were: both together are at their optimum after.
        arrivals, residuals, solution = settle(arrivals, residuals, solution)
    return solution, residuals, arrivals


def with_arrivals_in(
    found: _Found,
    model: mujoco.MjModel | mujoco.MjSpec,
    sequences: Sequence[Trajectory],
    *,
    threads: int = 0,
    cancel: threading.Event | None = None,
    deadline: float = math.inf,
) -> _Found:
    """Return a fit that knows when the commands of sequences held out acted, too.

    A command that came late bends the motion in any recording, and says nothing about the model.
    Where a fit found errors of its commands' arrival, they are found in other recordings by the
    same probabilities, with all values as they were found. The noise is that which these residuals
    have, falling from round to round: with what the fit found, a message that is far too late
    would not come to its place. The model is that of the fit, and ``deadline`` is in
    ``time.monotonic()``.

    Returns:
        The fit itself where it found no such errors, or where these tell nothing.

    Raises:
        CancelledError: ``cancel`` was set.
    """
    timings = command_timings(sequences, found.parameters)
    if not timings or not found.arrival_errors:
        return found
    fixed = [
        dataclasses.replace(unknown, nominal=float(value))
        for unknown, value in zip(found.unknowns, found.values, strict=True)
        if not unknown.of_single_runs
    ]
    settings = SolverSettings(deadline=deadline)
    known = {sensor: found.noise[sensor] for sensor in found.known_noise}
    with ExitStack() as opened:
        log = FitLog(None)
        context = FitContext(
            partial(make_simulator, model, threads=threads, drives=found.drives),
            settings,
            log,
            known_noise=known,
            cancel=cancel,
            opened=opened,
        )
        simulator = context.simulator((*timings, *fixed), sequences)
        try:
            residuals = Residuals(simulator, found.noise, unknowns=timings)
            start = np.array([unknown.nominal for unknown in timings])
            solution = context.solve(residuals, start, ROUGH_TOLERANCE)
            first = FirstSolution(residuals, solution, Start('nominal', start, ''))
            solution, _, arrivals = _solve_weighted(context, first)
        except CancelledError:
            raise
        except FitError:  # nothing that was fitted is measured here, or simulations diverge
            return found
        return dataclasses.replace(
            found,
            offsets={**found.offsets, **Unknowns((), timings).offsets(solution.x)},
            arrival_errors={**found.arrival_errors, **(arrivals.by_sequence() if arrivals else {})},
        )


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
        while size(at(rate)) > MOST_NUMBERS and rate * longest > 1.0:
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


def _all_unknowns(
    model: mujoco.MjModel | mujoco.MjSpec,
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
    compiled = model.compile() if isinstance(model, mujoco.MjSpec) else model
    delays = torque_delay(compiled, sequences, parameters)
    every = aimed(compiled, (*parameters, *timings, *delays), sequences)
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
    context: FitContext, first: FirstSolution, unknowns: Unknowns, sequences: Sequence[Trajectory]
) -> FirstSolution | None:
    """Go on with the states at the starts unknown as well; None where they are not to be had.

    They are too many for memory or time, or residuals jump: slopes by starts would then have to be
    sought over standard errors, too, while what a joint that sticks does soon forgets them.
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
    # Their columns, of which those of different runs are one, are needed several times.
    columns = len(whole.unknowns) + len(states) / len(whole.runs)
    if not context.has_time(RESERVED * columns * whole.seconds):
        return None
    simulator = context.simulator(every, sequences)
    residuals = Residuals(simulator, whole.noise, memory=context.memory)
    residuals.also(whole)
    known = residuals.extended(first.solution, whole)
    solution = context.solve(residuals, known.x, known=known)
    return dataclasses.replace(first, residuals=residuals, solution=solution)


def _spread(unknowns: Sequence[Unknown], count: int, seed: int) -> Array:
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
