# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Forces along prescribed motions, fitted in as few residuals as say the same.

Forces are linear in the numbers of a `Regressor`, in their sensors' biases and, nearly, in how much
later they are. An orthogonal transformation of the equations of a sensor leaves a
triangle whose residuals have the same sum of squares for all values (Å. Björck, Numerical Methods
for Least Squares Problems, 1996, section 2.4), however many samples there are. All that curves
residuals then is how the numbers follow the values, of which any derivative is cheap.

It curves them much: the masses and centres of neighbouring links, which hardly change any force
together, are a valley that is straight in the numbers and bent in the values, as narrow as forces
are well known; and where a light body would fit better than a physical one, the effect of θ on
forces falls with the exponential. Gauss and Newton's steps take hundreds of rounds there.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sysid_ros.errors import FitError
from sysid_ros.fit.context import FitContext
from sysid_ros.fit.differences import SMALL, Sharing, StepChanges, column_norms, scales
from sysid_ros.fit.noise import SMALLEST, smallest_noise
from sysid_ros.fit.residuals import Residuals
from sysid_ros.fit.solver import PROMISED, attempt
from sysid_ros.simulation.prediction import InverseSimulator
from sysid_ros.simulation.runs import MeasurementModel

Array = NDArray[np.float64]

#: The step of differences of second order, in units of scales, at which rounding is least.
_STEP = float(np.finfo(np.float64).eps) ** 0.25
#: Moves are made to follow a curve by so many of Gauss and Newton's steps at most.
_CORRECTIONS = 5
#: Delays and noise are found anew at most so often; three to seven times settled them on nine arms.
_ROUNDS = 20


class _Block(NamedTuple):
    """What is left of the equations of one sensor."""

    sensor: str
    law: MeasurementModel
    delay: float  # at which its equations are linear, s
    used: NDArray[np.int64]  # (k,) which numbers act on it, of all and a constant
    #: (r, c) what coefficients are multiplied by: the numbers, these times what the delay differs
    #: by if it is unknown, biases, and the gain of what was measured.
    triangle: Array
    samples: int  # number of them


class ReducedForces:
    """Residuals of forces in as few rows as have the same sum of squares; see `CurvedResiduals`.

    Delays act linearly around those at which the equations were reduced.

    Attributes:
        unknowns: What a candidate's values are.
        more: How many samples the rows stand for beyond their own number.
    """

    diverged = 0

    def __init__(self, residuals: Residuals, simulator: InverseSimulator, x: Array) -> None:
        """Reduce the equations of residuals, at the delays of a (p,) candidate."""
        self._residuals, self._simulator = residuals, simulator
        self.unknowns = residuals.unknowns
        self.exact = np.ones(len(x), dtype=bool)
        self.unstable = np.zeros(0, dtype=bool)
        self._blocks = list(_blocks(residuals, simulator, x))
        self._rows = _slices([len(block.triangle) for block in self._blocks])
        self._parts = _slices([block.triangle.shape[1] for block in self._blocks])
        self.more = sum(block.samples - len(block.triangle) for block in self._blocks)
        self._steps = _STEP * scales(self.unknowns)
        self._acts = self._effects(x)
        self._groups = _apart(self._acts)

    @property
    def evaluations(self) -> int:
        """Number of simulations so far: this needs none."""
        return self._residuals.evaluations

    def noise(self, residual: Array) -> dict[str, float]:
        """Return the noise of each sensor that (n,) residuals speak for."""
        return {
            block.sensor: self._residuals.noise[block.sensor]
            * float(np.linalg.norm(residual[rows]) / np.sqrt(block.samples))
            for rows, block in zip(self._rows, self._blocks, strict=True)
        }

    def __call__(self, candidates: Array) -> Array:
        """Return the (n, m) residuals of (m, p) candidates."""
        self.unstable = np.zeros(len(candidates), dtype=bool)
        prior = self._residuals.priors.residual(candidates)
        return np.concatenate([self._reduced(self._coefficients(candidates)), prior.T])

    def step_changes(
        self,
        x: Array,
        steps: Array,
        columns: NDArray[np.bool_] | None = None,
        base: Array | None = None,
        sharing: Sharing | None = None,  # noqa: ARG002 (derivatives cost nothing)
    ) -> StepChanges:
        """Return residuals and the steps times their derivatives; see `ResidualLike`."""
        residual = self(x[None])[:, 0] if base is None else base
        wanted = np.ones(len(x), dtype=bool) if columns is None else columns
        changes = self._jacobian(x) * np.where(wanted, steps, 0.0)
        return StepChanges(residual, changes, np.zeros(len(x), dtype=bool), unstable=False)

    @np.errstate(over='ignore', invalid='ignore')  # a step too far leads nowhere, and says so
    def followed(self, x: Array, move: Array, free: NDArray[np.bool_]) -> Array:
        """Return (p,) values whose residuals are what a move would leave; see `CurvedResiduals`."""
        before = self(x[None])[:, 0]
        aim, there = before + self._jacobian(x) @ move, x + move
        least = aim @ aim
        for _ in range(_CORRECTIONS):
            here, jacobian = self(there[None])[:, 0], self._jacobian(there)[:, free]
            if not (np.isfinite(here).all() and np.isfinite(jacobian).all()):
                return x + move
            if here @ here - least < SMALL * (before @ before - least):
                break
            norms = np.maximum(column_norms(jacobian), SMALLEST)
            there[free] += np.linalg.lstsq(jacobian / norms, aim - here)[0] / norms
        return there

    def bending(self, x: Array, residual: Array) -> Array:
        """Return the (p, p) sum of (n,) residuals times second derivatives at (p,) values."""
        pairs = [(a, b) for a in range(len(self._groups)) for b in range(a + 1)]
        moves = self._steps * np.array(self._groups)
        sides = ((1, 1), (1, -1), (-1, 1), (-1, -1))
        candidates = [x + s * moves[a] + t * moves[b] for a, b in pairs for s, t in sides]
        values = self._coefficients(np.array(candidates)).reshape(len(pairs), len(sides), -1)
        pull = np.concatenate(
            [
                residual[rows] @ block.triangle
                for rows, block in zip(self._rows, self._blocks, strict=True)
            ]
        )
        found = np.zeros((len(x), len(x)))
        for (a, b), change in zip(pairs, np.array((1, -1, -1, 1)) @ values, strict=True):
            one, other = np.flatnonzero(self._groups[a]), np.flatnonzero(self._groups[b])
            bent = (self._acts[one] * (pull * change)) @ self._acts[other].T
            bent /= 4 * np.outer(self._steps[one], self._steps[other])
            found[np.ix_(one, other)], found[np.ix_(other, one)] = bent, bent.T
        return found

    def _jacobian(self, x: Array) -> Array:
        moves = self._steps * np.array(self._groups)
        values = self._coefficients(np.concatenate([x + moves, x - moves]))
        slopes = np.zeros(self._acts.shape)
        for group, change in zip(self._groups, np.subtract(*np.split(values, 2)), strict=True):
            slopes[group] = self._acts[group] * change / (2 * self._steps[group, None])
        return np.concatenate([self._reduced(slopes), -self._residuals.priors.matrix])

    def _effects(self, x: Array) -> NDArray[np.bool_]:
        """Return (p, c) on which coefficients each unknown acts."""
        # Where none of them is at a value at which its effect vanishes.
        x = x + self._steps * np.random.default_rng(0).uniform(1, 2, len(x))
        values = self._coefficients(np.concatenate([x[None], x + np.diag(self._steps)]))
        return np.asarray(values[1:] != values[0])

    def _coefficients(self, candidates: Array) -> Array:
        """Return the (m, c) coefficients that the triangles are multiplied by."""
        numbers = self._simulator.numbers_of(candidates)
        numbers = np.column_stack([numbers, np.ones(len(numbers))])
        found = []
        for block in self._blocks:
            law = block.law
            gain, measured_gain = (
                np.prod(candidates[:, list(columns)], axis=1)
                for columns in (law.gains, law.measured_gains)
            )
            bias, measured_bias = (
                np.sum(candidates[:, list(columns)], axis=1)
                for columns in (law.biases, law.measured_biases)
            )
            own = -gain[:, None] * numbers[:, block.used]
            found.append(own)
            if law.delay is not None:
                found.append((candidates[:, law.delay, None] - block.delay) * own)
            found.append(np.stack([measured_bias - bias, measured_gain], axis=1))
        return np.concatenate(found, axis=1)

    def _reduced(self, coefficients: Array) -> Array:
        """Return the (n, m) residuals of (m, c) coefficients, linear in these."""
        return np.concatenate(
            [
                block.triangle @ coefficients[:, part].T
                for part, block in zip(self._parts, self._blocks, strict=True)
            ]
        )


def _slices(sizes: Sequence[int]) -> list[slice]:
    """Return where parts of some sizes are, one after the other."""
    return [slice(*ends) for ends in pairwise(np.cumsum([0, *sizes]).tolist())]


def _apart(acts: NDArray[np.bool_]) -> list[NDArray[np.bool_]]:
    """Group unknowns that act on different of (p, c) coefficients, which may move together."""
    groups: list[NDArray[np.bool_]] = []
    for one in np.eye(len(acts), dtype=bool):
        free = (group for group in groups if not np.any(acts[group] & acts[one]))
        if (group := next(free, None)) is None:
            groups.append(one)
        else:
            group |= one
    return groups


def _blocks(residuals: Residuals, simulator: InverseSimulator, x: Array) -> Iterator[_Block]:
    """Yield the reduced equations of each sensor, at the delays of a (p,) candidate."""
    parts: dict[str, list[Array]] = {}
    laws: dict[str, MeasurementModel] = {}
    for run, readings, k, known, scale in residuals.channels():
        if not known.any():
            continue
        sensor, law = readings.sensors[k], readings.laws[k]
        lines = simulator.lines(run, int(readings.columns[k]))
        late = 0.0 if law.delay is None else x[law.delay]
        last = (len(lines) - 2) * readings.timestep
        at = readings.at(np.minimum(readings.times - late, last))
        ones = np.ones(len(known))
        columns = [at(lines), ones, readings.measured[:, k]]
        if law.delay is not None:
            columns.insert(1, -at.slopes(lines) / readings.timestep)
        parts.setdefault(sensor, []).append(scale * np.column_stack(columns)[known])
        laws[sensor] = law
    for sensor, own in parts.items():
        matrix, law = np.concatenate(own), laws[sensor]
        both = 1 if law.delay is None else 2
        used = np.any(matrix[:, : (matrix.shape[1] - 2) // both], axis=0)
        kept = np.concatenate([np.tile(used, both), (True, True)])
        triangle = np.asarray(np.linalg.qr(matrix[:, kept], mode='r'))
        late = 0.0 if law.delay is None else float(x[law.delay])
        yield _Block(sensor, law, late, np.flatnonzero(used), triangle, len(matrix))


def reduced(residuals: Residuals, x: Array) -> ReducedForces | None:
    """Return residuals in as few rows as say the same; None where forces are not all linear.

    Delays act linearly around those of (p,) values.
    """
    simulator = residuals.simulators[0]
    alone = len(residuals.simulators) == 1 and residuals.unknowns == simulator.parameters
    if not (alone and isinstance(simulator, InverseSimulator) and simulator.linear):
        return None
    return ReducedForces(residuals, simulator, x)


def regress_forces(context: FitContext, residuals: Residuals, x: Array) -> Array:
    """Return the (p,) values of least cost, from others, and weight residuals by their noise.

    Values come back as they are where forces are not all linear in what the unknowns decide.
    """
    floors, promised = smallest_noise(residuals.runs), PROMISED
    for _ in range(_ROUNDS):
        rows = reduced(residuals, x)
        if rows is None:
            break
        found = attempt(
            rows,
            x,
            settings=dataclasses.replace(context.settings_left, loss='linear', promised=promised),
            tolerance=context.settings.accuracy,
            cancel=context.cancel,
            observe=context.log,
        )
        if isinstance(found, FitError):  # samples say why, if they do not make up for it
            break
        x = found.x
        noise = {s: max(size, floors[s]) for s, size in rows.noise(found.residual).items()}
        residuals.set_noise({**residuals.noise, **noise, **context.known_noise})
        if not context.may_go_on or not (found.iterations or promised):
            break
        # Weights that are to change again are not worth the last digits.
        promised = PROMISED if found.iterations and promised else 0.0
    return x
