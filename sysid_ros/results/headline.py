# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What is said first of a result: whether it may be used, and how far its predictions are off.

Errors come in physical units, nominal and fitted, before anything in units of the noise: a scale
that is estimated from the residuals makes every model look as good as its noise on training data.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from sysid_ros.config.schema import Role
from sysid_ros.errors import how_many
from sysid_ros.results.result import CalibrationResult, Check

#: What sensors of a unit measure, the unit in which it is said, and by what factor.
_PHYSICAL = (
    ('rad', 'positions', 'mrad', 1e3),
    ('m', 'slides', 'mm', 1e3),
    ('rad/s', 'velocities', 'rad/s', 1.0),
    ('m/s', 'velocities', 'm/s', 1.0),
    ('N·m', 'torques', 'N·m', 1.0),
    ('N', 'forces', 'N', 1.0),
)
#: `NoiseScale.source` of a scale that the residuals gave.
FROM_RESIDUALS = 'estimated from residuals'
_CIRCULAR = 'estimated from these residuals, so training is 1 by construction'


def short(value: float) -> str:
    """Write a number with three digits."""
    return np.format_float_positional(value, precision=3, fractional=False, trim='-')


class PhysicalError(NamedTuple):
    """Root mean square error of all sensors of a kind, or at the tool, nominal and fitted."""

    what: str
    before: float
    after: float
    unit: str

    @property
    def ratio(self) -> float:
        """Fitted over nominal; NaN where the nominal model errs by nothing."""
        return self.after / self.before if self.before else math.nan

    def __str__(self) -> str:
        """Return it as a clause."""
        return f'{self.what} {short(self.before)} → {short(self.after)} {self.unit}'


class Headline(NamedTuple):
    """How far the predictions of a result are off.

    ``role`` is held-out data, or training data where nothing is held out; ``over`` a clause on over
    what errors are where that is not whole recordings. ``errors`` are in physical units, of each
    kind of sensor and at the tool; ``before`` and ``after`` in units of the noise, which are from
    ``scale``. ``growth`` is held-out over training error.
    """

    role: Role
    over: str
    errors: tuple[PhysicalError, ...]
    growth: float
    before: float
    after: float
    scale: str

    @property
    def name(self) -> str:
        """Whose errors these are, in words."""
        held_out = self.role == 'validate'
        return (
            'Held-out error' if held_out else 'Training error (nothing is held out)'
        ) + self.over

    @property
    def sentence(self) -> str:
        """How much of the nominal model's error is left, of what comes first."""
        of, before, after = '', self.before, self.after
        if self.errors:
            what, before, after, _ = self.errors[0]
            of = f' of {what}'
        if not before > 0:
            return f'{self.name}{of}: {self.figures}.'
        return f"{self.name}{of}: {100 * after / before:.2g} % of the nominal model's."

    @property
    def figures(self) -> str:
        """The errors in one clause; in units of the noise only where no other unit is known."""
        return ', '.join(map(str, self.errors)) or self.in_noise

    @property
    def in_noise(self) -> str:
        """The error in units of the noise, with where these are from."""
        source = f' ({self.scale})' if self.scale else ''
        return f'{short(self.before)} → {short(self.after)} times the noise{source}'

    @property
    def lines(self) -> tuple[str, ...]:
        """What follows the standing, a line each."""
        found = [f'{self.name}, nominal → fitted: {self.figures}.']
        if math.isfinite(self.growth):
            found.append(f'Held-out over training error: {self.growth:.2f}.')
        if self.errors:
            found.append(f'Beside the noise: {self.in_noise}.')
        return tuple(found)


def headline(result: CalibrationResult) -> Headline:
    """Return how far the predictions of a result are off."""
    role = result.judged_role
    before, after = result.training_before, result.training_after
    if role == 'validate':
        before, after = result.held_out_before, result.held_out_after
    sources = dict.fromkeys(scale.source for scale in result.noise)
    scale = [_CIRCULAR if source == FROM_RESIDUALS else f'from {source}' for source in sources]
    return Headline(
        role,
        result.solver.over_windows,
        tuple(_physical_errors(result, role)),
        result.growth,
        before,
        after,
        '; others '.join(scale),
    )


def _physical_errors(result: CalibrationResult, role: Role) -> Iterator[PhysicalError]:
    """Yield the errors of each kind of sensor that was compared, and at the tool."""
    for unit, what, shown, factor in _PHYSICAL:
        own = [e for e in result.errors if e.role == role and e.unit == unit]
        own = [e for e in own if e.samples and math.isfinite(e.before + e.after)]
        if own:
            squares = [(e.before**2, e.after**2) for e in own]
            usual = np.sqrt(np.average(squares, axis=0, weights=[e.samples for e in own]))
            before, after = (factor * usual).tolist()
            yield PhysicalError(what, before, after, shown)
    for error in result.tool:
        if error.role == role:
            name = error.point.partition('/')[2]
            yield PhysicalError(f'at {name}', 1e3 * error.before, 1e3 * error.after, 'mm')


def counted(result: CalibrationResult) -> str:
    """Say how many parameters are identified."""
    found = sum(own.identified for own in result.parameters)
    return f'{found} of {how_many(result.parameters, "parameter")} identified.'


def verdict_line(result: CalibrationResult) -> str:
    """Return whether a result may be used, which is the last line that commands print."""
    word = str(result.standing).upper()
    return f'{word}: {counted(result)}' if result.accepted else f'{word}: no model is written.'


def headline_lines(result: CalibrationResult) -> tuple[str, ...]:
    """Return what a reader has to know first, a line each.

    How many parameters are identified, standing, errors, and the reasons for the standing.
    """
    word = str(result.standing).upper()
    end = '' if result.accepted else ': the identified model is not written.'
    said = [f'  {check.text}' for check in result.reservations]
    if not result.accepted:
        wrong = [check for check in result.gate if not check.passed]
        said = [f'  {check.name}: {check.text}{figures(check)}' for check in wrong]
    return (counted(result), f'{word}{end}', *headline(result).lines, *said)


def figures(check: Check) -> str:
    """Return what was measured beside its limit, in brackets; what is counted is in the text."""
    if math.isnan(check.measured) or not check.limit:
        return ''
    unit = f' {check.unit}'.rstrip()
    return f' ({short(check.measured)}{unit}, at most {short(check.limit)}{unit})'
