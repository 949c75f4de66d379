# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Fits to all bags but some, judged on those: does the model hold for what it has not seen?"""

from __future__ import annotations

import fnmatch
from typing import TYPE_CHECKING

import numpy as np
import scipy.stats

from sysid_ros.config.calibration import VerdictKind
from sysid_ros.errors import CancelledError, ConfigError, FitError, nearest
from sysid_ros.estimation.residuals import Residuals
from sysid_ros.estimation.solver.least_squares import SolverSettings, solve
from sysid_ros.estimation.solver.losses import rho
from sysid_ros.model.targets import Role as Acting
from sysid_ros.pipeline.scores import residuals_of, rms
from sysid_ros.results.result import Fold
from sysid_ros.rollout.prediction import make_simulator

if TYPE_CHECKING:
    import threading
    from collections.abc import Iterator, Mapping, Sequence

    import mujoco
    from numpy.typing import NDArray

    from sysid_ros.estimation.solver.least_squares import Solution
    from sysid_ros.estimation.solver.losses import Loss
    from sysid_ros.identification.fit import Fit
    from sysid_ros.pipeline.loading import Problem
    from sysid_ros.pipeline.scores import Wanted
    from sysid_ros.signals.trajectory import Trajectory

    Families = dict[str, tuple[Trajectory, ...]]

#: From so many training bags on, each of them is left out in turn unless told otherwise.
FEWEST_BAGS = 3
#: Of more bags, neighbours in the list are left out together: so many fits are made at most.
MOST_FOLDS = 8
#: A fit without some bags starts near its end, and ends when the next step would be shorter than
#: this, in standard errors, …
_TOLERANCE = 0.1
#: … or after so many iterations.
_MOST_ITERATIONS = 5
#: Directions that the data left hardly determine stay where they are: relative singular value.
_BLIND = 1e-6
#: Probability to complain about bags that agree, over all parameters together.
_FALSE_ALARM = 0.01
#: So many parameters are named in a warning.
_NAMED = 3


def training_bags(problem: Problem) -> dict[str, tuple[Trajectory, ...]]:
    """Return each training bag's sequences, by a name that is the bag's own."""
    training = [recording for recording in problem.recordings if recording.role == 'train']
    names = [recording.path.name for recording in training]
    return {
        name if names.count(name) == 1 else str(recording.path): recording.alignment.sequences
        for name, recording in zip(names, training, strict=True)
    }


def families_of(
    leave_out: str | Mapping[str, Sequence[str]], bags: Mapping[str, tuple[Trajectory, ...]]
) -> Families:
    """Return what is left out in turn, by name; nothing where there is nothing to leave out.

    Args:
        leave_out: ``auto``, ``none``, ``bag``, or name to patterns of names of bags.
        bags: Name of each training bag to its sequences.

    Raises:
        ConfigError: A pattern matches no training bag, a bag is in two families, one family holds
            all bags, or there is only one bag.
    """
    filled = {name: sequences for name, sequences in bags.items() if sequences}
    if leave_out == 'none' or (leave_out == 'auto' and len(filled) < FEWEST_BAGS):
        return {}
    if isinstance(leave_out, str):
        if len(filled) < 2:  # noqa: PLR2004 (one to fit, one to judge)
            msg = f'Expected two training bags or more for leave_out: bag, found {len(filled)}.'
            raise ConfigError(msg)
        names = list(filled)
        groups = np.array_split(np.arange(len(names)), min(len(names), MOST_FOLDS))
        return {
            _title([names[i] for i in group]): tuple(s for i in group for s in filled[names[i]])
            for group in groups
        }
    return _named_families(leave_out, filled)


def _title(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f'{names[0]} … {names[-1]}'


def _named_families(chosen: Mapping[str, Sequence[str]], bags: Families) -> Families:
    owner: dict[str, str] = {}
    for family, patterns in chosen.items():
        for pattern in patterns:
            matches = fnmatch.filter(bags, pattern)
            if not matches:
                hint = nearest(pattern, list(bags))
                msg = f'No training bag matches {pattern!r} in leave_out of validation; {hint}.'
                raise ConfigError(msg)
            for bag in matches:
                if owner.setdefault(bag, family) != family:
                    msg = (
                        f'Bag {bag!r} is in two families of leave_out, {owner[bag]!r} and '
                        f'{family!r}; expected one.'
                    )
                    raise ConfigError(msg)
    found = {
        family: tuple(s for bag in bags if owner.get(bag) == family for s in bags[bag])
        for family in chosen
    }
    for family in chosen:
        if all(owner.get(bag) == family for bag in bags):
            msg = f'Family {family!r} of leave_out holds all training bags: none is left to fit.'
            raise ConfigError(msg)
    return found


def leave_out(  # noqa: PLR0913 (a fit, its data, and how it is judged)
    spec: mujoco.MjSpec,
    sequences: Sequence[Trajectory],
    families: Families,
    fit: Fit,
    *,
    loss: Loss = 'linear',
    noise: Mapping[str, float] | None = None,
    wanted: Wanted | None = None,
    threads: int = 0,
    cancel: threading.Event | None = None,
) -> tuple[Fold, ...]:
    """Fit to all sequences but those of one family at a time, and judge each fit on that family.

    Each fit has the weights of the full one and starts one Gauss-Newton step from its end: that
    step is known from its Jacobian without any simulation. What nothing but the family says
    something about has no value in that fold, and is predicted with at its nominal value.

    Args:
        spec: The nominal model.
        sequences: The training data, in the order of the fit.
        families: Name to the sequences that are held out together.
        fit: The fit to all of them.
        loss: That of the fit.
        noise: In which units the errors are; the fit's own unless given.
        wanted: Which samples count for the errors; by default all.
        threads: Simulation threads.
        cancel: Ends it when it is set.

    Raises:
        CancelledError: ``cancel`` was set.
    """
    if not families:
        return ()
    noise = fit.noise if noise is None else noise
    held_out = [s for own in families.values() for s in own]
    before = iter(
        residuals_of(spec, held_out, noise=noise, wanted=wanted, threads=threads, drives=fit.drives)
    )
    arrived = fit.as_arrived(sequences)
    nearby = _Nearby(spec, arrived, fit, loss, threads)
    nominal = np.array([parameter.nominal for parameter in fit.parameters])
    folds = []
    for name, own in families.items():
        gone = {sequence.name for sequence in own}
        rest = [sequence for sequence in arrived if sequence.name not in gone]
        values = nearby.refit(rest, gone, cancel)
        after = residuals_of(
            spec,
            own,
            fit.parameters,
            np.where(np.isnan(values), nominal, values),
            noise=noise,
            wanted=wanted,
            threads=threads,
            drives=fit.drives,
        )
        folds.append(
            Fold(
                name=name,
                before=rms([next(before) for _ in own]),
                after=rms(after),
                values=tuple(values.tolist()),
            )
        )
    return tuple(folds)


class _Nearby:
    """Fits to parts of the data of a fit."""

    def __init__(
        self,
        spec: mujoco.MjSpec,
        sequences: Sequence[Trajectory],
        fit: Fit,
        loss: Loss,
        threads: int,
    ) -> None:
        self._spec, self._fit, self._loss, self._threads = spec, fit, loss, threads
        self._jacobian = fit.solution.jacobian
        with make_simulator(spec, fit.unknowns, sequences, 1, drives=fit.drives) as simulator:
            whole = Residuals(simulator, fit.noise, memory=fit.memory)
        self._rows = {s.name: whole.rows(i) for i, s in enumerate(sequences)}

    def refit(
        self, rest: list[Trajectory], gone: set[str], cancel: threading.Event | None
    ) -> NDArray[np.float64]:
        """Return the (p,) values for some of the sequences; NaN where they say nothing."""
        fit = self._fit
        kept = self._excited(gone)
        start = np.clip(
            fit.values + self._step(kept, gone),
            [unknown.min_value for unknown in fit.unknowns],
            [unknown.max_value for unknown in fit.unknowns],
        )
        unknowns = [u for u, keep in zip(fit.unknowns, kept, strict=True) if keep]
        memory = fit.memory
        if memory is not None and not set(memory.names) <= {u.name for u in unknowns}:
            memory = None
        found = np.full(len(fit.values), np.nan)
        if unknowns:
            with make_simulator(
                self._spec, unknowns, rest, self._threads, drives=fit.drives
            ) as simulator:
                residuals = Residuals(simulator, fit.noise, memory=memory)
                try:
                    solution = self._solved(residuals, start[kept], cancel)
                except CancelledError:
                    raise
                except FitError:  # the step leads to where every simulation is unstable
                    solution = self._solved(residuals, fit.values[kept], cancel)
                found[kept] = solution.x
        return found[: len(fit.parameters)]

    def _solved(
        self,
        residuals: Residuals,
        start: NDArray[np.float64],
        cancel: threading.Event | None,
    ) -> Solution:
        return solve(
            residuals,
            start,
            settings=SolverSettings('mujoco', self._loss, _MOST_ITERATIONS, rough=True),
            tolerance=_TOLERANCE,
            cancel=cancel,
        )

    def _excited(self, gone: set[str]) -> NDArray[np.bool_]:
        """Return (p,) whether what is left says anything about an unknown."""
        left = np.ones(len(self._jacobian), dtype=bool)
        for name in gone:
            left[self._rows[name]] = False
        lost = [
            all(t.role is Acting.SEQUENCE and t.name in gone for t in unknown.targets)
            for unknown in self._fit.unknowns
        ]
        return np.asarray(np.any(self._jacobian[left] != 0, axis=0) & ~np.array(lost, dtype=bool))

    def _step(self, kept: NDArray[np.bool_], gone: set[str]) -> NDArray[np.float64]:
        """Return the (p,) Gauss-Newton step of the data that are left, from the full fit.

        The gradient of all data is zero, so that of the data left is minus that of those gone.
        """
        weight = np.sqrt(rho(self._fit.solution.residual, self._loss)[1])
        jacobian = self._jacobian[:, kept] * weight[:, None]
        scale = np.linalg.norm(jacobian, axis=0)
        jacobian = jacobian / scale
        rows = np.concatenate([np.arange(*self._rows[name].indices(len(weight))) for name in gone])
        residual = (weight * self._fit.solution.residual)[rows]
        curvature = jacobian.T @ jacobian - jacobian[rows].T @ jacobian[rows]
        inverse = np.linalg.pinv(curvature, rcond=_BLIND, hermitian=True)
        step = np.zeros(len(kept))
        step[kept] = inverse @ (jacobian[rows].T @ residual) / scale
        return step


def disagreements(fit: Fit, folds: Sequence[Fold]) -> Iterator[str]:
    """Say where bags contradict each other or the intervals, a sentence each.

    If all bags came from the model and the intervals were right, the jackknife variance (K - 1)/K
    Σ (θ_k - mean)² of K folds (Tukey 1958) would have the interval's variance as its mean, and
    K - 1 times their ratio a chi-squared distribution with K - 1 degrees of freedom.

    Args:
        fit: The fit to all bags.
        folds: The fits without some of them.
    """
    worse = [fold.name for fold in folds if not fold.after < fold.before]
    if worse:
        yield (
            f'Fitted to the other bags, the model predicts {", ".join(map(repr, worse))} no better '
            'than the nominal one.'
        )
    count = len(folds)
    if count < FEWEST_BAGS:
        return
    ratios = jackknife_ratios(fit, folds)
    limit = scipy.stats.chi2.isf(_FALSE_ALARM / max(len(ratios), 1), count - 1) / (count - 1)
    far = [j for j in np.argsort(-np.nan_to_num(ratios)) if ratios[j] ** 2 > limit]
    if far:
        named = ', '.join(
            f'{fit.parameters[j].name} {ratios[j]:.2g} times, most without '
            f'{_most_moved(fit, folds, int(j))!r}'
            for j in far[:_NAMED]
        )
        more = f' (and {len(far) - _NAMED} more)' if len(far) > _NAMED else ''
        yield (
            'Between fits without some of the bags parameters move by much more than their '
            f'intervals say: {named}{more}; the bags do not agree on one value, so the model '
            'lacks something or the intervals are too narrow.'
        )


def jackknife_ratios(fit: Fit, folds: Sequence[Fold]) -> NDArray[np.float64]:
    """Return (p,) jackknife standard errors over those of the intervals.

    NaN where there is no interval, a value is at its bound, or a fold does not determine it.
    """
    count, size = len(folds), len(fit.parameters)
    values = np.array([fold.values for fold in folds])
    spread = np.sqrt((count - 1) * np.var(values, axis=0))
    error = np.sqrt(np.diag(fit.inference.covariance)[:size])
    for j, interval in enumerate(fit.intervals):
        if interval.verdict_kind is VerdictKind.AT_BOUND:
            error[j] = np.nan
    with np.errstate(divide='ignore', invalid='ignore'):
        return np.asarray(np.where(error > 0, spread / error, np.nan))


def _most_moved(fit: Fit, folds: Sequence[Fold], parameter: int) -> str:
    moved = [abs(fold.values[parameter] - fit.solution.x[parameter]) for fold in folds]
    return folds[int(np.argmax(moved))].name
