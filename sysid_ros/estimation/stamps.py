# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Does a shift in time of the measurements explain them significantly better?

Stamps that are late by one time step bend every parameter a little and leave hardly any trace in
the residual, because the parameters absorb most of the shift. What they cannot absorb is visible:
the residual with the measurements moved, projected on what the Jacobian does not span.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import scipy.special

from sysid_ros.errors import FitError
from sysid_ros.estimation.shift_search import (
    MovedResiduals,
    Sums,
    best_common,
    best_separate,
    shifts_to_try,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

    from sysid_ros.estimation.arrivals import WithArrivals
    from sysid_ros.estimation.residuals import Residuals
    from sysid_ros.estimation.shift_search import ResidualAt
    from sysid_ros.estimation.solver.least_squares import Solution

#: Shifts up to this are looked at, s.
LIMIT = 0.05
#: Shifts are searched up to this part of the shortest sequence, where that is less than the limit.
_PART_OF_SEQUENCE = 0.25
#: Probability of a false alarm, after the correction for having searched.
_LEVEL = 1e-3
#: How many independent directions the search tries at most: a signal of frequency f turns its
#: residual by 2π·f·(2·LIMIT) rad over the range, half a turn being one direction; 50 Hz give 10.
_DIRECTIONS = 10
#: Shifts below this fraction of the time step are below what any stamp promises.
_SMALLEST_SHIFT = 0.01
#: The variance of a score is estimated from at least so many stretches of time.
_FEWEST_BLOCKS = 4
#: The autoregression that whitens the residuals is kept stationary by this limit.
_LARGEST_AR = 0.99
#: A shift is taken for one time step that is one within this fraction of it or within so many
#: standard errors, and that is never farther off than the largest fraction.
_STEP_TOLERANCE, _ERRORS, _LARGEST_TOLERANCE = 0.1, 2.0, 0.4
#: What to do about it.
_ONE_STEP_LATE = (
    'this is one time step late, as if stamped by the state times of mujoco.rollout: '
    "pass sensor_stamps='rollout'"
)
_ANY_SHIFT = 'check the clock or add a delay target sensor/*/delay'


class ShiftReport(NamedTuple):
    """How much better moved measurements are explained.

    Attributes:
        shift: Seconds to add to the stamps of the measurements; negative when they are late.
        error: Standard error of the shift, s; infinite when nothing depends on it.
        gain: Fraction of the cost that the shift removes, the parameters being readjusted to it.
        p_value: Probability of such a gain if the stamps were right, corrected for the search
            over the range and over the sequences.
        significant: Whether the shift is no accident.
        per_sequence: The same for each sequence, the others being at their best; empty there.
    """

    shift: float
    error: float
    gain: float
    p_value: float
    significant: bool
    per_sequence: tuple[ShiftReport, ...] = ()

    @property
    def alarming(self) -> bool:
        """Whether the common shift or that of any sequence is significant."""
        return self.significant or any(report.significant for report in self.per_sequence)

    def sentence(self, timestep: float, names: Sequence[str] = (), advice: str = '') -> str:
        """Return the warning: the shift, what it gains, and what to do; empty without alarm.

        Args:
            timestep: The model's, s.
            names: Names of the sequences; their numbers from 0 otherwise.
            advice: What to do, in place of what helps users of the toolbox.
        """
        if not self.alarming:
            return ''
        apart = _apart(self, timestep)
        if apart:
            labels = [names[index] if names else f'sequence {index}' for index in apart]
            reports = [self.per_sequence[index] for index in apart]
            shifts = ', '.join(
                f'{1e3 * report.shift:+.3g} ms in {label}'
                for report, label in zip(reports, labels, strict=True)
            )
            removed = f'up to {100 * max(report.gain for report in reports):.3g} %'
        else:
            reports = [self]
            shifts = f'{1e3 * self.shift:+.3g} ms'
            removed = f'{100 * self.gain:.3g} %'
        late = True
        for report in reports:
            tolerance = max(_STEP_TOLERANCE * timestep, _ERRORS * report.error)
            tolerance = min(tolerance, _LARGEST_TOLERANCE * timestep)
            late &= abs(report.shift + timestep) <= tolerance
        advice = advice or (_ONE_STEP_LATE if late else _ANY_SHIFT)
        return (
            f'Measurements moved by {shifts} are explained significantly better, which removes '
            f'{removed} of the remaining cost: {advice}.'
        )


def _apart(report: ShiftReport, timestep: float) -> list[int]:
    """Return the sequences to name one by one; none if the common shift says it all."""
    moved = [index for index, own in enumerate(report.per_sequence) if own.significant]
    if not report.significant:
        return moved
    tolerance = _STEP_TOLERANCE * timestep
    differ = any(
        abs(own.shift - report.shift) > max(_ERRORS * own.error, tolerance)
        for own in report.per_sequence
    )
    return moved if differ else []


def examine_stamps(residuals: Residuals | WithArrivals, solution: Solution) -> ShiftReport | None:
    """Look for a shift of the measurements in time that explains them better.

    Args:
        residuals: What was fitted.
        solution: Where the fit ended.

    Returns:
        What was found; None where the sequences are too short to tell.
    """
    duration = min(run.sequence.duration for run in residuals.runs)
    timestep = max(run.timestep for run in residuals.runs)
    limit = min(LIMIT, _PART_OF_SEQUENCE * duration)
    if limit < timestep:
        return None
    low = np.array([unknown.min_value for unknown in residuals.unknowns])
    high = np.array([unknown.max_value for unknown in residuals.unknowns])
    free = (solution.x > low) & (solution.x < high)
    return find_shift(
        residuals.shifted(solution.x, limit),
        solution.jacobian if free.all() else solution.jacobian[:, free],
        residuals.samples.sequence,
        timestep=timestep,
        limit=limit,
        times=residuals.samples.time,
        channels=residuals.samples.sensor,
    )


def find_shift(
    residual_at: ResidualAt,
    jacobian: NDArray[np.float64],
    groups: ArrayLike,
    *,
    timestep: float,
    limit: float = LIMIT,
    times: ArrayLike | None = None,
    channels: ArrayLike | None = None,
) -> ShiftReport:
    """Look for the shift in time of the measurements that explains them best, and test it.

    To first order the parameters' answer to a shift s is a least-squares step, so what they leave
    is r⊥(s) = r(s) - J J⁺ r(s). The sum of its squares is minimised over one shift common to all
    sequences, then over the shift of each. The part that a shift explains, g = r⊥(0) - r⊥(s), is
    tested like a regressor of r⊥(0): both are whitened by the AR(1) of r⊥(s) (Cochrane & Orcutt,
    J. Am. Stat. Assoc. 44, 1949), and the variance of the score comes from its sums over stretches
    of time (Ibragimov & Müller, J. Bus. Econ. Stat. 28, 2010) with the white one as lower limit.
    A shift that bends the parameters a lot is measured to about a tenth; one step, far better.

    Args:
        residual_at: Maps the (S,) shifts of the sequences in s to the (n,) residuals, measured
            minus predicted in units of the noise, with the stamps of sequence s's measurements
            moved by shifts[s]: the prediction is evaluated at t + shift, parameters fixed.
            Residuals that are not finite at either end of the range are left out.
        jacobian: (n, p) derivative of the residuals by the free parameters; may be rank deficient.
        groups: (n,) number of each residual's sequence, 0 to S - 1.
        timestep: The model's, s: the scan's spacing, and what the smallest shift is measured by.
        limit: Largest shift, s.
        times: (n,) instants of the residuals, s; else they are taken in their order.
        channels: (n,) number of each residual's sensor; else those of a sequence are one series.

    Raises:
        FitError: The shapes do not match, or the time step or the limit is not positive.
    """
    index = np.asarray(groups, dtype=np.int64)
    if not (timestep > 0 and limit > 0):
        msg = f'Time step and limit of a shift must be positive, got {timestep:g} and {limit:g} s.'
        raise FitError(msg)
    if jacobian.ndim != index.ndim + 1 or len(jacobian) != len(index):
        msg = (
            'A Jacobian of shape (n, p) and groups of shape (n,) are needed, got '
            f'{jacobian.shape} and {index.shape}.'
        )
        raise FitError(msg)
    if not len(index):
        return _NOTHING
    moved = MovedResiduals(residual_at, jacobian, index, limit, timestep, times, channels)
    if not len(moved.rows):
        return _NOTHING._replace(per_sequence=(_NOTHING,) * moved.sequences)
    if not moved.hint():
        return _NOTHING._replace(per_sequence=(_NOTHING,) * moved.sequences)
    grid = shifts_to_try(timestep, limit)
    scan = [moved.sums(np.full(moved.sequences, shift)) for shift in grid]
    table = Sums(np.array([sums.square for sums in scan]), np.array([s.along for s in scan]))
    common, place = best_common(moved, table, grid)
    report = _common_report(moved, common, timestep)
    if moved.sequences == 1:
        return report._replace(per_sequence=(report,))
    best = best_separate(moved, table, grid, place)
    return report._replace(per_sequence=_separate_reports(moved, best, timestep))


#: The report where there is nothing to shift.
_NOTHING = ShiftReport(0.0, np.inf, 0.0, 1.0, significant=False)


def _common_report(moved: MovedResiduals, shift: float, timestep: float) -> ShiftReport:
    """Test one shift common to all sequences."""
    best = np.full(moved.sequences, shift)
    late = moved.at(best)
    return _judge(
        shift,
        moved.projected(moved.at(np.zeros(moved.sequences))),
        moved.projected(late),
        moved.projected(moved.slopes(best, late)),
        _Part(moved, slice(None), timestep, tests=1),
    )


def _separate_reports(
    moved: MovedResiduals, best: NDArray[np.float64], timestep: float
) -> tuple[ShiftReport, ...]:
    """Test each sequence's shift on its own residuals, the others being at their best."""
    late = moved.at(best)
    changes = moved.at(np.zeros(moved.sequences)) - late
    slopes = moved.slopes(best, late)
    left = moved.projected(late)
    reports = []
    for sequence, shift in enumerate(best):
        part = moved.part(sequence)
        basis, change, slope = moved.basis[part], changes[part], slopes[part]
        reports.append(
            _judge(
                float(shift),
                left[part] + change - basis @ (change @ basis),
                left[part],
                slope - basis @ (slope @ basis),
                _Part(moved, part, timestep, tests=moved.sequences),
            )
        )
    return tuple(reports)


class _Part(NamedTuple):
    """Which residuals a test is about, and how many tests there are."""

    moved: MovedResiduals
    rows: slice
    timestep: float
    tests: int


def _judge(
    shift: float,
    before: NDArray[np.float64],
    after: NDArray[np.float64],
    slope: NDArray[np.float64],
    part: _Part,
) -> ShiftReport:
    """Report what a shift explains of a part.

    Args:
        shift: The shift, s.
        before: (m,) residuals of the part with the stamps as they are.
        after: (m,) the same with moved ones.
        slope: (m,) derivative of the latter by the shift, 1/s.
        part: What these are.
    """
    cost = float(before @ before)
    gain = float(np.clip(1 - after @ after / cost, 0.0, 1.0)) if cost > 0 else 0.0
    share, share_error, freedom = _regression(before, before - after, after, part)
    p_value = 1.0
    if share > 0 and freedom:
        t_value = share / share_error if share_error > 0 else np.inf
        tail = 2 * float(scipy.special.stdtr(freedom, -t_value))
        p_value = min(tail * _DIRECTIONS * part.tests, 1.0)
    visible = abs(shift) >= _SMALLEST_SHIFT * part.timestep
    significant = visible and gain > 0 and p_value < _LEVEL
    return ShiftReport(shift, _regression(after, slope, after, part)[1], gain, p_value, significant)


def _regression(
    target: NDArray[np.float64],
    regressor: NDArray[np.float64],
    noise: NDArray[np.float64],
    part: _Part,
) -> tuple[float, float, int]:
    """Return coefficient, standard error and degrees of freedom; 0, ∞ and 0 where there is none.

    Args:
        target: (m,) what is explained.
        regressor: (m,) by what.
        noise: (m,) residuals whose AR(1) whitens both.
        part: What these are.
    """
    blocks = part.moved.blocks(part.rows)
    count = int(blocks.max(initial=-1)) + 1
    if count < _FEWEST_BLOCKS:
        return 0.0, np.inf, 0
    later = np.flatnonzero(part.moved.follows(part.rows))
    power = float(noise[later - 1] @ noise[later - 1])
    ratio = float(noise[later] @ noise[later - 1]) / power if power > 0 else 0.0
    ratio = float(np.clip(ratio, -_LARGEST_AR, _LARGEST_AR))

    def whitened(values: NDArray[np.float64]) -> NDArray[np.float64]:
        innovation: NDArray[np.float64] = values * np.sqrt(1 - ratio**2)
        innovation[later] = values[later] - ratio * values[later - 1]
        return innovation

    target, regressor = whitened(target), whitened(regressor)
    power = float(regressor @ regressor)
    if power == 0:
        return 0.0, np.inf, 0
    coefficient = float(regressor @ target) / power
    rest = target - coefficient * regressor
    scores = np.bincount(blocks, regressor * rest, minlength=count)
    freedom = max(len(rest) - part.moved.basis.shape[1] - 1, 1)
    white = float(rest @ rest) / freedom * power
    variance = max(float(scores @ scores) * count / (count - 1), white)
    return coefficient, float(np.sqrt(variance)) / power, count - 1
