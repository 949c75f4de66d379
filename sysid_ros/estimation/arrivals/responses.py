# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What residuals answer to a message that comes later, measured for many in one simulation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import scipy.linalg
import scipy.sparse
from numpy.typing import NDArray

from sysid_ros.estimation.residuals import Residuals

if TYPE_CHECKING:
    from sysid_ros.estimation.arrivals.messages import Messages
    from sysid_ros.estimation.arrivals.pulses import Trial


#: What is known of errors after the fit is estimated from so many draws (Hutchinson, 1990).
_DRAWS = 32


class System:
    """How the residuals of one sequence answer to k errors, in units of their deviations.

    Attributes:
        responses: (n, k) change of the residuals.
    """

    def __init__(
        self, responses: scipy.sparse.csr_array, gram: NDArray[np.float64] | None = None
    ) -> None:
        self.responses = responses
        self._gram = _banded(responses) if gram is None else gram
        banded = self._gram.copy()
        banded[-1] += 1.0
        self._factor = scipy.linalg.cholesky_banded(banded) if banded.size else banded

    def times(self, ratio: NDArray[np.float64]) -> System:
        """Return the same for deviations that are (k,) times as large."""
        gram = self._gram * ratio
        for band in range(1, len(gram)):
            gram[-1 - band, band:] *= ratio[:-band]
        gram[-1] *= ratio
        return System(_with_data(self.responses, ratio[self.responses.indices]), gram)

    def with_columns(self, other: System, columns: NDArray[np.bool_]) -> System:
        """Return the same with (k,) columns of another."""
        ours, theirs = (
            _with_data(own, chosen[own.indices])
            for own, chosen in ((self.responses, ~columns), (other.responses, columns))
        )
        return System(scipy.sparse.csr_array(ours + theirs))

    def scaled(self, factor: NDArray[np.float64]) -> System:
        """Return the same for residuals that are multiplied by (n,) factors."""
        return System(_with_data(self.responses, np.repeat(factor, np.diff(self.responses.indptr))))

    def best(
        self, residual: NDArray[np.float64], known: NDArray[np.float64] | float = 0.0
    ) -> NDArray[np.float64]:
        """Return the (k, m) changes of errors that lower the sum of all squares most.

        Args:
            residual: (n, m) residuals at the errors that are known so far.
            known: (k, 1) those errors.
        """
        right: NDArray[np.float64] = self.responses.T @ residual + known
        if not right.size:
            return right
        found: NDArray[np.float64] = scipy.linalg.cho_solve_banded((self._factor, False), right)
        return np.asarray(-found)

    def draws(self, rng: np.random.Generator) -> NDArray[np.float64]:
        """Return (k, draws) of what the residuals leave open about the errors."""
        reach, count = len(self._factor) - 1, self._factor.shape[1]
        normal = rng.standard_normal((count, _DRAWS))
        if not count:
            return normal
        found: NDArray[np.float64] = scipy.linalg.solve_banded((0, reach), self._factor, normal)
        return found


def _with_data(
    matrix: scipy.sparse.csr_array, factors: NDArray[np.float64] | NDArray[np.bool_]
) -> scipy.sparse.csr_array:
    """Return a matrix with each of its numbers multiplied by a factor."""
    parts = (matrix.data * factors, matrix.indices, matrix.indptr)
    return scipy.sparse.csr_array(parts, shape=matrix.shape)


def _banded(responses: scipy.sparse.csr_array) -> NDArray[np.float64]:
    """Return the products of the columns, the upper bands of (k, k) as rows, the diagonal last."""
    products = (responses.T @ responses).tocoo()
    upper = products.col >= products.row
    row, column = products.row[upper], products.col[upper]
    reach = int(np.max(column - row, initial=0))
    bands = np.zeros((reach + 1, responses.shape[1]))
    bands[reach + row - column, column] = products.data[upper]
    return bands


#: Answers are watched for so long, s, and followed until they hold this part of their squares, but
#: not for longer than this, s. If less than the last part came by then, the push lasts: one message
#: cannot be told from others.
_WATCHED = 1.0
_FADED = 0.99
_LONGEST = 0.25
_MOST = 0.9
#: What pulses do is followed until it holds this part.
_GONE = 0.99999
#: They are followed for so many messages at a time at most, and until all of them have so many
#: numbers. Shorter ones than so many steps are of no use.
_MOST_AT_A_TIME = 64
_MOST_NUMBERS = 3e7
_FEWEST_STEPS = 3


class _Answer(NamedTuple):
    """What moving some messages of a sequence has changed.

    Attributes:
        run: Index of the sequence.
        message: (n,) for each residual, the message that may have changed it.
        since: (n,) seconds since that acts; negative before the first.
        change: (n,) by how much, if the message were moved by its deviation.
    """

    run: int
    message: NDArray[np.int64]
    since: NDArray[np.float64]
    change: NDArray[np.float64]


class Responses:
    """Measures answers at one candidate, with all messages where they are taken to be."""

    def __init__(
        self, bare: Residuals, messages: Sequence[Messages], trial: Trial, step: float
    ) -> None:
        """Keep what answers are measured with.

        Args:
            bare: The residuals.
            messages: Of each sequence.
            trial: What the residuals are with messages at other moments.
            step: How much earlier and later messages are let come, s.
        """
        self._bare, self._messages = bare, messages
        self._trial, self._step = trial, step

    def lengths(self) -> tuple[float, float]:
        """Return how long residuals show that a message came later, s; 0 if that is of no use.

        Returns:
            Until what is left is little, and until it is next to nothing.
        """
        lags, squares = [], []
        chosen = [(own.apart(_WATCHED, own.acting >= 0) or [_NONE])[0] for own in self._messages]
        for answer in self._move(chosen):
            seen = (answer.since >= 0) & (answer.since < _WATCHED)
            lags.append(answer.since[seen])
            squares.append(answer.change[seen] ** 2)
        lag, square = np.concatenate([[0.0], *lags]), np.concatenate([[0.0], *squares])
        order = np.argsort(lag)
        total = np.cumsum(square[order])
        if not total[-1]:
            return 0.0, 0.0
        parts = np.array([_MOST, _FADED, _GONE]) * total[-1]
        mostly, answered, gone = lag[order][np.searchsorted(total, parts)].tolist()
        if mostly > _LONGEST:
            return 0.0, 0.0
        answered = min(answered, _LONGEST)
        runs = self._bare.runs
        timestep = max(run.timestep for run in runs)
        gaps = [np.median(np.diff(own.effect)) for own in self._messages if len(own.effect) > 1]
        spacing = float(min(gaps, default=np.inf))
        density = 0.0
        for index, (run, own) in enumerate(zip(runs, self._messages, strict=True)):
            rows = self._bare.rows(index)
            density += len(own.effect) * (rows.stop - rows.start) / max(run.sequence.duration, 1e-9)
        most = min(_MOST_AT_A_TIME * spacing, _MOST_NUMBERS / density)
        length = min(answered + timestep, most)
        if length < _FEWEST_STEPS * timestep:
            return 0.0, 0.0
        return length, min(gone + timestep, _LONGEST, _MOST_AT_A_TIME * spacing)

    def measure(
        self, length: float, moved: Sequence[NDArray[np.bool_]] | None = None
    ) -> list[System]:
        """Return how the residuals of each sequence answer, each for so many seconds.

        Of messages that are not asked for, nothing is known. Columns that share no row are
        differenced together (Curtis, Powell and Reid, Journal of the Institute of Mathematics and
        its Applications 13, 1974).
        """
        chosen_ones = moved or [np.ones(len(own.effect), dtype=bool) for own in self._messages]
        groups = [
            own.apart(length, some) for own, some in zip(self._messages, chosen_ones, strict=True)
        ]
        found: list[list[NDArray[np.float64]]] = [[] for _ in groups]
        for number in range(max(map(len, groups))):
            chosen = [own[number] if number < len(own) else _NONE for own in groups]
            for answer in self._move(chosen):
                inside = (answer.since >= 0) & (answer.since < length) & (answer.change != 0)
                row = np.flatnonzero(inside)
                found[answer.run].append(np.stack([row, answer.message[row], answer.change[row]]))
        systems = []
        for run, own in enumerate(self._messages):
            rows = self._bare.rows(run)
            row, column, change = np.concatenate([np.zeros((3, 0)), *found[run]], axis=1)
            places = (row.astype(np.int64), column.astype(np.int64))
            shape = (rows.stop - rows.start, len(own.effect))
            systems.append(System(scipy.sparse.csr_array((change, places), shape=shape)))
        return systems

    def _move(self, chosen: Sequence[NDArray[np.int64]]) -> Iterator[_Answer]:
        """Let some messages of each sequence come earlier and later, and say what that changes.

        Both, because a message that crosses the border of a time step changes another sample.
        """
        ends = []
        for step in (-self._step, self._step):
            moves = [np.zeros(len(own.effect)) for own in self._messages]
            for move, some in zip(moves, chosen, strict=True):
                move[some] = step
            ends.append(self._trial.at(moves))
        change = ends[1] - ends[0]
        for run, (own, some) in enumerate(zip(self._messages, chosen, strict=True)):
            if not len(some):
                continue
            rows = self._bare.rows(run)
            # A command acts in the whole of its time step, and on what is measured at its begin.
            begin = own.acting[some] - self._step - self._bare.runs[run].timestep
            time = self._bare.samples.time[rows]
            which = np.searchsorted(begin, time, side='right') - 1
            message = some[np.maximum(which, 0)]
            since = np.where(which >= 0, time - begin[np.maximum(which, 0)], -1.0)
            ratio = own.deviation[message] / (2 * self._step)
            yield _Answer(run, message, since, change[rows] * ratio)


_NONE = np.zeros(0, dtype=np.int64)


#: Degrees of freedom of the distribution of the errors.
_FREEDOM = 4.0
#: Their scale is found in so many rounds at most, until it changes by less than this part.
_ROUNDS = 20
_SETTLED = 0.01


def less_likely(errors: NDArray[np.float64], scale: float) -> NDArray[np.float64]:
    """Return minus twice the logarithm of how likely errors of some scale are, but a constant."""
    found: NDArray[np.float64] = (_FREEDOM + 1) * np.log1p((errors / scale) ** 2 / _FREEDOM)
    return found


def estimate(
    messages: Sequence[Messages],
    systems: Sequence[System],
    residuals: Sequence[NDArray[np.float64]],
    scale: float,
) -> tuple[list[System], float, list[NDArray[np.float64]]]:
    """Find the errors of all messages, and their deviations, which are changed in place.

    Now and then a message is late by many times what is usual. So each error has a deviation of its
    own, and the errors have a t distribution, whose scale and weights are found in turns by
    expectation-maximisation (Lange, Little and Taylor, J. Am. Stat. Assoc. 84, 1989).

    Args:
        messages: Of each sequence.
        systems: How the residuals answer to the errors, in units of their deviations.
        residuals: (n, 1) of each sequence, the errors being as they are taken to be.
        scale: Scale of the errors so far, s.

    Returns:
        The systems in units of the new deviations, the scale, and the (k,) errors.
    """
    rng = np.random.default_rng(0)
    begun = [own.deviation for own in messages]
    current = list(systems)
    errors = [own.error for own in messages]
    for _ in range(_ROUNDS):
        squares, weights = [], []
        for index, (own, system) in enumerate(zip(messages, current, strict=True)):
            known = own.known
            found = known + system.best(residuals[index], known[:, None])[:, 0]
            left = np.mean(system.draws(rng) ** 2, axis=1)
            errors[index] = own.deviation * found
            squares.append(own.deviation**2 * (found**2 + left))
            weights.append((_FREEDOM + 1.0) / (_FREEDOM + squares[-1] / scale**2))
        before, count = scale, sum(map(len, weights))
        mean = float(np.concatenate(weights) @ np.concatenate(squares)) / max(count, 1)
        scale = float(np.sqrt(mean))
        for index, (own, weight) in enumerate(zip(messages, weights, strict=True)):
            own.deviation = scale / np.sqrt(weight)
            current[index] = systems[index].times(own.deviation / begun[index])
        if abs(scale / before - 1.0) < _SETTLED:
            break
    return current, scale, errors
