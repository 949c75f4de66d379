# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""When each command message reached the robot, estimated between two plain fits.

By how much later than its stamp a message acts, δ, is unknown: it is near zero, N(0, s²). Near some
δ₀ the residuals are r + G (δ - δ₀). A fit to commands that are retimed by the δ of the joint least
squares of δ and the parameters has its optimum there; its residuals have the covariance I + G S Gᵀ
of noise and errors together (Björck, Numerical Methods for Least Squares Problems, 1996, section
4.3), and are whitened by one linear transformation before anything is inferred from them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import scipy.linalg
import scipy.sparse
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from scipy.linalg.lapack import dtbtrs

from sysid_ros.fit.differences import CLEARLY, NEGLIGIBLE
from sysid_ros.fit.noise import FEWEST_SAMPLES
from sysid_ros.fit.nuisances import FARTHEST
from sysid_ros.fit.residuals import MOST_NUMBERS, Residuals
from sysid_ros.fit.solver import Solution
from sysid_ros.simulation.runs import Run, in_order, retimed

Array = NDArray[np.float64]

#: Responses are differenced by moves of this part of a time step, inside of which they are linear.
_PART = 0.25
#: The response to a message is watched for so long, s, and followed until it holds the first part
#: of its squares. Where less than the second came within half of that time, the effect of one
#: message cannot be told from that of others.
_WATCHED, _FOLLOWED, _SOON = 0.5, 0.99, 0.9
#: At most so many messages are felt at a time, as each needs a simulation of its own.
_MOST_FELT = 64
#: A sender is even where half of its intervals are within this part of their median. The earliest
#: of some neighbours came without delay; what comes later by that part was held up.
_EVEN = 0.1
#: Degrees of freedom of the errors' distribution, and the rounds in which its scale is found.
_FREEDOM, _ROUNDS = 4.0, 10
#: Variances of the errors are estimated from so many draws (Hutchinson, 1990).
_DRAWS = 32
#: Messages are moved by the best of these parts of the way, as long as that clearly lowers the sum
#: of squares. Errors whose scale is clearly above the jitter of the stamps are not what explains
#: the residuals.
_SHARES = (1.0, 0.5, 0.0)


def whitened(responses: scipy.sparse.csr_array, values: Array) -> Array:
    """Return (n, m) values white, whose covariance is I + G Gᵀ for (n, k) responses G.

    With I + Gᵀ G = Rᵀ R, the root of the inverse covariance is I - G (R + I)⁻¹ R⁻ᵀ Gᵀ (A. Andrews,
    A square root formulation of the Kalman covariance equations, AIAA Journal 6, 1968).
    """
    answer = responses.T @ values
    if not answer.size:
        return values
    root = scipy.linalg.cholesky_banded(_plus_one(_bands(responses)))
    answer = dtbtrs(root, answer, trans='T')[0]
    answer = dtbtrs(_plus_one(root), answer)[0]
    found: Array = values - responses @ answer
    return found


def _bands(matrix: scipy.sparse.csr_array) -> Array:
    """Return the upper bands of the products of columns as rows, the diagonal last."""
    products = (matrix.T @ matrix).tocoo()
    upper = products.col >= products.row
    row, column = products.row[upper], products.col[upper]
    reach = int(np.max(column - row, initial=0))
    bands = np.zeros((reach + 1, matrix.shape[1]))
    bands[reach + row - column, column] = products.data[upper]
    return bands


def _plus_one(bands: Array) -> Array:
    """Return the bands of a matrix plus the identity."""
    found = bands.copy()
    found[-1] += 1.0
    return found


@dataclass(frozen=True)
class Messages:
    """The messages that change a command while it is simulated, by sequence and time of effect."""

    runs: tuple[Run, ...]  # the sequences as they were recorded
    run: NDArray[np.int64]  # (k,) which sequence each is in, …
    series: NDArray[np.int64]  # … which of its series of commands, …
    place: NDArray[np.int64]  # … and which sample of that
    effect: Array  # (k,) when it acts by its stamp, s

    @classmethod
    def of(cls, residuals: Residuals, x: Array) -> Messages:
        """Find the messages of residuals, which act by the delays of a (p,) candidate."""
        parts = [np.zeros((4, 0))]
        for index, run in enumerate(residuals.runs):
            # A command acts in the whole of its time step. One that does so after the end by its
            # stamp may have acted before.
            reach = run.timestep + FARTHEST
            for series, effect in _effects(residuals, index, x, run).items():
                held = [command.held for command in run.commands if command.series == series]
                inside = (effect > -reach) & (effect < run.sequence.duration + reach)
                place = np.flatnonzero(np.any([each.changes for each in held], axis=0) & inside)
                ones = np.ones(len(place))
                parts.append(np.stack([index * ones, series * ones, place, effect[place]]))
        every = np.concatenate(parts, axis=1)
        every = every[:, np.lexsort((every[3], every[0]))]
        run_of, series_of, place_of = every[:3].astype(np.int64)
        return cls(residuals.runs, run_of, series_of, place_of, every[3])

    def each(self) -> Iterator[tuple[int, int, Array, NDArray[np.int64]]]:
        """Yield sequence, series, its stamps, and which messages are in it."""
        for index, run in enumerate(self.runs):
            for series, recorded in enumerate(run.sequence.commands):
                own = np.flatnonzero((self.run == index) & (self.series == series))
                yield index, series, recorded.times, own

    def at(self, residuals: Residuals, x: Array) -> Messages:
        """Return the same with the delays of another (p,) candidate."""
        effect = self.effect.copy()
        acting = [_effects(residuals, index, x, run) for index, run in enumerate(self.runs)]
        for index, series, _, own in self.each():
            if len(own):
                effect[own] = acting[index][series][self.place[own]]
        return dataclasses.replace(self, effect=effect)

    def held_up(self) -> Array:
        """Return (k,) by how much stamps are late among those of an even sender, s; 0 of others.

        A recorder that was held up stamps late what the robot has received in time.
        """
        found = np.zeros(len(self.effect))
        neighbours = 2 * FEWEST_SAMPLES + 1
        for _, _, stamps, own in self.each():
            if len(stamps) <= neighbours:
                continue
            quarter, period, three_quarters = np.percentile(np.diff(stamps), [25, 50, 75])
            if three_quarters - quarter < _EVEN * period:
                late = stamps - period * np.arange(len(stamps))
                padded = np.pad(late, FEWEST_SAMPLES, mode='edge')
                late -= sliding_window_view(padded, neighbours).min(axis=1)
                late -= np.median(late)
                found[own] = np.where(late > _EVEN * period, late, 0.0)[self.place[own]]
        return found

    def times(self, errors: Array) -> list[list[Array]]:
        """Return for each sequence the stamps of its series, moved by (k,) errors, in order."""
        found: list[list[Array]] = [[] for _ in self.runs]
        for index, _, stamps, own in self.each():
            times = stamps.copy()
            times[self.place[own]] += errors[own]
            found[index].append(in_order(times))
        return found

    def possible(self, errors: Array) -> Array:
        """Return (k,) errors as far as the limit and the order of the messages allow."""
        found = np.clip(errors, -FARTHEST, FARTHEST)
        times = self.times(found)
        for index, series, stamps, own in self.each():
            found[own] = (times[index][series] - stamps)[self.place[own]]
        return found

    def apart(self, errors: Array, length: float, chosen: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Return (k,) groups of the chosen messages that act farther apart, s; -1 for others."""
        groups = np.full(len(errors), -1)
        acting = self.effect + errors
        for index in range(len(self.runs)):
            own = np.flatnonzero((self.run == index) & chosen)
            last: list[float] = []
            for message in own[np.argsort(acting[own], kind='stable')].tolist():
                free = (g for g, time in enumerate(last) if time + length <= acting[message])
                group = next(free, len(last))
                last[group : group + 1] = [acting[message]]
                groups[message] = group
        return groups


def _effects(residuals: Residuals, index: int, x: Array, run: Run) -> dict[int, Array]:
    """Return when the samples of each series of commands of a run act by their stamps, s."""
    found: dict[int, Array] = {}
    for command, delay in zip(run.commands, residuals.delays(index, x), strict=True):
        times = run.sequence.commands[command.series].times + delay
        found[command.series] = np.minimum(found.get(command.series, times), times)
    return found


@dataclass(frozen=True)
class Arrivals:
    """Errors of arrival, and what residuals leave open about them."""

    messages: Messages  # whose errors
    errors: Array  # (k,) by how much later than by its stamp each acts, s
    deviation: Array  # (k,) standard deviation that each is taken to have, s
    scale: float  # of the distribution of the errors, s
    border: Array  # (k,) the border between two time steps that is next to where each acts, s
    # (n, k) change of the residuals by errors of messages that act before it, in the sensors'
    # units, 1/s.
    earlier: scipy.sparse.csr_array
    # The same for those that act after it: they change another sample.
    later: scipy.sparse.csr_array
    length: float  # how long a message is felt, s

    @property
    def beyond(self) -> Array:
        """(k,) by how much later than the border each acts, s."""
        return self.messages.effect + self.errors - self.border

    def responses(self, beyond: Array) -> scipy.sparse.csr_array:
        """Return the (n, k) responses where messages act so much later than the borders, s."""
        share = np.clip(0.5 + beyond / (2 * self.scale), 0.0, 1.0)
        return scipy.sparse.csr_array(self.earlier * (1 - share) + self.later * share)

    def whitened(self, residuals: Residuals, residual: Array) -> Array:
        """Return (n,) white residuals from those with the commands as they arrived."""
        responses = self._scaled(residuals)
        found = residual - responses @ (self.errors / self.deviation)
        return whitened(responses, found[:, None])[:, 0]

    def whitened_changes(self, residuals: Residuals, changes: Array) -> Array:
        """Return (n, m) changes of the white residuals from those of the residuals."""
        return whitened(self._scaled(residuals), changes)

    def whitened_jacobian(self, residuals: Residuals, jacobian: Array) -> Array:
        """Return the (n, p) derivative of the white residuals from that of the residuals."""
        responses = self._scaled(residuals)
        each = responses * (1 / self.deviation)
        return whitened(responses, _as_errors(residuals, jacobian, each, self.messages))

    def _scaled(self, residuals: Residuals) -> scipy.sparse.csr_array:
        """Return the responses by errors in units of their deviations."""
        found = self.responses(self.beyond) * self.deviation / _sigma(residuals)[:, None]
        return scipy.sparse.csr_array(found)

    def by_sequence(self) -> dict[str, tuple[Array, ...]]:
        """Return sequence name to the (n,) errors of each of its series of commands, s."""
        times = self.messages.times(self.errors)
        return {
            run.sequence.name: tuple(
                moved - recorded.times
                for moved, recorded in zip(own, run.sequence.commands, strict=True)
            )
            for run, own in zip(self.messages.runs, times, strict=True)
        }


def _sigma(residuals: Residuals) -> Array:
    """Return (n,) what the residuals are divided by, 1 for those of priors."""
    samples = residuals.samples
    noise = np.array([*(residuals.noise[sensor] for sensor in samples.sensors), 1.0])
    return noise[np.maximum(samples.sensor, -1)]


def locate(
    residuals: Residuals, solution: Solution, jitter: float, known: Arrivals | None = None
) -> tuple[Arrivals, Residuals, Solution] | None:
    """Estimate the errors of arrival at a solution.

    Args:
        residuals: What was fitted, with the commands where they are known to have arrived.
        solution: Where that ended.
        jitter: Standard deviation of the stamps' jitter, s.
        known: The errors found before.

    Returns:
        What `settle` does; None where errors of arrival are not what explains the residuals, or no
        message can be told.
    """
    x, jacobian, residual = solution.x, solution.jacobian, solution.residual
    if known is None:
        messages = Messages.of(residuals, x)
        length = _length(residuals, solution, messages)
        if not length:
            return None
        zero = np.zeros(len(messages.effect))
        nothing = scipy.sparse.csr_array((len(residual), len(zero)))
        never = np.full(len(zero), -np.inf)
        found = Arrivals(messages, zero, zero + jitter, jitter, never, nothing, nothing, length)
        held_up = messages.held_up()
        if held_up.any():
            errors, residual = _move(found, residuals, x, -held_up)
            found = dataclasses.replace(found, errors=errors)
    else:
        found = dataclasses.replace(known, messages=known.messages.at(residuals, x))
    begun = float(residual @ residual)
    for _ in range(_ROUNDS):
        found = _measured(found, residuals, x, residual)
        beyond = np.zeros(len(found.errors))
        for _ in range(3):  # at first with the mean of both sides of the borders
            goal, step, found = _estimate(found, beyond, residuals, residual, jacobian, x)
            beyond = found.beyond + goal - found.errors
        if known is None and found.scale > CLEARLY * jitter:
            return None
        before, x = float(residual @ residual), x + step
        found = _kept(found, residuals, x)
        errors, residual = _move(found, residuals, x, goal)
        found = dataclasses.replace(found, errors=errors)
        if before - float(residual @ residual) < CLEARLY:
            break
    if known is None and begun - float(residual @ residual) < CLEARLY:
        return None
    found = _measured(found, residuals, x, residual)
    return settle(found, residuals, dataclasses.replace(solution, x=x, residual=residual))


def settle(
    found: Arrivals, residuals: Residuals, solution: Solution
) -> tuple[Arrivals, Residuals, Solution]:
    """Bring the parameters to their optimum with the errors, while messages act when they did.

    Returns:
        The errors, the residuals with commands retimed by them, and the solution there.
    """
    x = solution.x
    found = dataclasses.replace(found, messages=found.messages.at(residuals, x))
    _, step, found = _estimate(
        found, found.beyond, residuals, solution.residual, solution.jacobian, x
    )
    x = x + step
    found = _kept(found, residuals, x)
    residual = _simulated(found.messages, residuals, x, [found.errors])[:, 0]
    sequences = []
    for run, times in zip(found.messages.runs, found.messages.times(found.errors), strict=True):
        commands = zip(run.sequence.commands, times, strict=True)
        stamped = tuple(dataclasses.replace(series, times=own) for series, own in commands)
        sequences.append(dataclasses.replace(run.sequence, commands=stamped))
    arrived = residuals.of([sequences])
    arrived.also(residuals)
    return found, arrived, dataclasses.replace(solution, x=x, residual=residual)


def _kept(found: Arrivals, residuals: Residuals, x: Array) -> Arrivals:
    """Return errors of messages that act when they did, whatever a (p,) candidate's delays are."""
    messages = found.messages.at(residuals, x)
    errors = found.errors + found.messages.effect - messages.effect
    return dataclasses.replace(found, messages=messages, errors=errors)


def _simulated(
    messages: Messages, residuals: Residuals, x: Array, errors: Sequence[Array]
) -> Array:
    """Return (n, m) residuals with messages that are off by m times (k,) seconds."""
    ways = [messages.times(own) for own in errors]
    return residuals.with_variants(
        x,
        [[retimed(run, times[index]) for times in ways] for index, run in enumerate(messages.runs)],
    )


def _follows(
    messages: Messages, residuals: Residuals, acting: Array, chosen: NDArray[np.int64]
) -> Iterator[tuple[slice, NDArray[np.int64], Array]]:
    """Yield rows of a sequence, the chosen message that acted last before each, and since when, s.

    A command acts in the whole of its time step, and on what is measured at its begin.
    """
    for index, run in enumerate(messages.runs):
        own = chosen[messages.run[chosen] == index]
        if len(own):
            rows = residuals.rows(index)
            own = own[np.argsort(acting[own], kind='stable')]
            begin, time = acting[own] - run.timestep, residuals.samples.time[rows]
            last = np.searchsorted(begin, time, side='right') - 1
            since = np.where(last >= 0, time - begin[np.maximum(last, 0)], -1.0)
            yield rows, own[np.maximum(last, 0)], since


def _length(residuals: Residuals, solution: Solution, messages: Messages) -> float:
    """Return how long residuals show that a message came later, s; 0 if that is of no use."""
    zero = np.zeros(len(messages.effect))
    chosen = np.flatnonzero(messages.apart(zero, _WATCHED, messages.effect >= 0) == 0)
    if not len(chosen):
        return 0.0
    timestep = max(run.timestep for run in messages.runs)
    later = zero.copy()
    later[chosen] = _PART * timestep
    change = _simulated(messages, residuals, solution.x, [later])[:, 0] - solution.residual
    lags, squares = [np.zeros(1)], [np.zeros(1)]
    for rows, _, since in _follows(messages, residuals, messages.effect, chosen):
        seen = (since >= 0) & (since < _WATCHED)
        lags.append(since[seen])
        squares.append(change[rows][seen] ** 2)
    lag, square = np.concatenate(lags), np.concatenate(squares)
    order = np.argsort(lag)
    total = np.cumsum(square[order])
    if not total[-1]:
        return 0.0
    mostly, length = lag[order][np.searchsorted(total, np.array([_SOON, _FOLLOWED]) * total[-1])]
    if mostly > _WATCHED / 2:
        return 0.0
    spacing = np.median(np.diff(messages.effect)[np.diff(messages.run) == 0])
    return float(min(length + timestep, _WATCHED / 2, _MOST_FELT * spacing))


def _measured(found: Arrivals, residuals: Residuals, x: Array, residual: Array) -> Arrivals:
    """Measure the responses to the messages that are at another border between time steps.

    Those to messages that are far apart are differenced together (Curtis, Powell and Reid, Journal
    of the Institute of Mathematics and its Applications 13, 1974).
    """
    messages, errors = found.messages, found.errors
    timestep = np.array([run.timestep for run in messages.runs])[messages.run]
    border = timestep * np.round((messages.effect + errors) / timestep)
    anew = np.abs(border - found.border) > 0.5 * timestep
    found = dataclasses.replace(found, border=np.where(anew, border, found.border))
    step, gap, before = _PART * timestep, np.abs(found.beyond), found.beyond <= 0
    # One way stays on the side of the border where a message is, the other goes to the other.
    earlier = -step - np.where(before, 0.0, gap)
    later = step + np.where(before, gap, 0.0)
    acting = messages.effect + errors + earlier
    groups = messages.apart(errors, found.length, anew)
    numbers = range(groups.max(initial=-1) + 1)
    sigma = _sigma(residuals)
    parts = [np.zeros((4, 0))]
    most = max(int(MOST_NUMBERS / len(residual)), 1)
    for first in range(0, len(numbers), most):
        some = numbers[first : first + most]
        ways = [errors + way * (groups == n) for n in some for way in (earlier, later)]
        changes = _simulated(messages, residuals, x, ways) - residual[:, None]
        for place, number in enumerate(some):
            chosen = np.flatnonzero(groups == number)
            for rows, message, since in _follows(messages, residuals, acting, chosen):
                felt = np.flatnonzero((since >= 0) & (since < found.length))
                row, column = rows.start + felt, message[felt]
                fall, rise = -changes[row, 2 * place], changes[row, 2 * place + 1]
                here = np.where(before[column], fall, rise) / step[column]
                there = np.where(before[column], rise, fall) - here * gap[column]
                there /= step[column]
                values = np.stack([here, there]) * sigma[row]
                values = np.where(before[column], values, values[::-1])
                parts.append(np.concatenate([[row, column], values]))
    row, column, *values = np.concatenate(parts, axis=1)
    places = (row.astype(np.int64), column.astype(np.int64))
    earlier, later = (
        scipy.sparse.csr_array(old * ~anew + scipy.sparse.csr_array((new, places), old.shape))
        for old, new in zip((found.earlier, found.later), values, strict=True)
    )
    return dataclasses.replace(found, earlier=earlier, later=later)


def _estimate(
    found: Arrivals, beyond: Array, residuals: Residuals, residual: Array, jacobian: Array, x: Array
) -> tuple[Array, Array, Arrivals]:
    """Estimate errors and parameters together, linearly, and the scale of the errors.

    Now and then a message is late by many times what is usual. So each error has a deviation of its
    own, and the errors have a t distribution, whose scale and weights are found in turns by
    expectation-maximisation (Lange, Little and Taylor, J. Am. Stat. Assoc. 84, 1989).
    """
    rng = np.random.default_rng(0)
    sigma = _sigma(residuals)[:, None]
    responses = scipy.sparse.csr_array(found.responses(beyond) / sigma)
    jacobian = _as_errors(residuals, jacobian, responses, found.messages)
    # Messages come to the border by the responses on their side of it, and go on by these.
    here = scipy.sparse.csr_array(found.responses(found.beyond) / sigma)
    stamped = residual - (here - responses) @ found.beyond - responses @ found.errors
    bands = _bands(responses)
    count = bands.shape[1]
    columns = np.concatenate([jacobian, stamped[:, None]], axis=1)
    size = np.linalg.norm(columns, axis=0)
    columns = columns / np.where(size > 0, size, 1.0)
    products, cross = columns.T @ columns, responses.T @ columns
    low = np.array([unknown.min_value for unknown in residuals.unknowns])
    high = np.array([unknown.max_value for unknown in residuals.unknowns])
    scale, deviation = found.scale, found.deviation
    for _ in range(_ROUNDS):
        banded = bands * deviation
        for band in range(len(bands)):
            banded[-1 - band, band:] *= deviation[: count - band]
        root = scipy.linalg.cholesky_banded(_plus_one(banded))
        scaled = deviation[:, None] * cross
        answer = scipy.linalg.cho_solve_banded((root, False), scaled)
        information = products - scaled.T @ answer
        live = size[:-1] > 0
        step = np.zeros(len(x))
        step[live] = -np.linalg.lstsq(
            information[:-1, :-1][np.ix_(live, live)], information[:-1, -1][live], rcond=NEGLIGIBLE
        )[0]
        step[live] *= size[-1] / size[:-1][live]
        step = np.clip(x + step, low, high) - x
        standard = -answer @ (np.append(step, 1.0) * size)
        drawn = dtbtrs(root, rng.standard_normal((count, _DRAWS)))[0]
        squares = deviation**2 * (standard**2 + np.mean(drawn**2, axis=1))
        errors = deviation * standard
        weights = (_FREEDOM + 1.0) / (_FREEDOM + squares / scale**2)
        scale = float(np.sqrt(np.mean(weights * squares)))
        deviation = scale / np.sqrt(weights)
    return errors, step, dataclasses.replace(found, scale=scale, deviation=deviation)


def _as_errors(
    residuals: Residuals, jacobian: Array, responses: scipy.sparse.csr_array, messages: Messages
) -> Array:
    """Return the (n, p) Jacobian in which delays do what the same errors of all messages do.

    Else the difference of both, which comes of commands that cross the border of a time step, would
    pass for information about the delays.
    """
    found = jacobian.copy()
    common = residuals.common_delays()
    for index, run in enumerate(messages.runs):
        for column, unknown in enumerate(residuals.unknowns):
            targets = {(target.name, target.attribute) for target in unknown.targets}
            if (run.sequence.name, 'arrival_offset') in targets:
                rows = residuals.rows(index)
                every = responses[rows] @ (messages.run == index).astype(np.float64)
                found[rows] -= np.outer(jacobian[rows, column] - every, common[index])
    return found


def _move(found: Arrivals, residuals: Residuals, x: Array, goal: Array) -> tuple[Array, Array]:
    """Move messages towards (k,) errors as far as what follows each becomes likelier.

    Responses are linear only nearby, and messages that come at once hide each other.
    """
    messages, begun = found.messages, found.errors
    ways = [messages.possible(begun + share * (goal - begun)) for share in _SHARES]
    values = _simulated(messages, residuals, x, ways)
    acting = messages.effect + np.stack([begun, *ways])
    first, last = acting.min(axis=0), acting.max(axis=0) + found.length
    costs = np.zeros((len(ways), len(begun)))
    for index, run in enumerate(messages.runs):
        own, rows = np.flatnonzero(messages.run == index), residuals.rows(index)
        order = np.argsort(residuals.samples.time[rows], kind='stable')
        time = residuals.samples.time[rows][order]
        squares = np.cumsum(values[rows][order] ** 2, axis=0)
        squares = np.concatenate([np.zeros((1, len(ways))), squares])
        ends = np.searchsorted(time, last[own])
        begins = np.searchsorted(time, first[own] - run.timestep)
        costs[:, own] = (squares[ends] - squares[begins]).T
    # Minus twice the logarithm of how likely errors are by their distribution.
    likely = np.log1p((np.stack(ways) / found.scale) ** 2 / _FREEDOM)
    best = np.argmin(costs + (_FREEDOM + 1) * likely, axis=0)
    errors = messages.possible(np.stack(ways)[best, np.arange(len(begun))])
    if not best.any():
        return ways[0], values[:, 0]
    mixed = _simulated(messages, residuals, x, [errors])[:, 0]
    if mixed @ mixed > np.min(np.sum(values**2, axis=0)):
        whole = int(np.argmin(np.sum(values**2, axis=0)))
        return ways[whole], values[:, whole]
    return errors, mixed
