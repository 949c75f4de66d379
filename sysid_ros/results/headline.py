# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What is said first of a result: whether it may be used, and how far its predictions are off.

Errors come in physical units, nominal and fitted, before anything in units of the noise: a scale
that is estimated from the residuals makes every model look as good as its noise on training data.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from sysid_ros.config.calibration import Role
from sysid_ros.errors import how_many
from sysid_ros.results.result import CalibrationResult, GateCheck, SensorError, UnjudgedResult

#: What sensors of a unit measure, the unit in which it is said, and by what factor.
_PHYSICAL = (
    ('rad', 'positions', 'mrad', 1e3),
    ('m', 'slides', 'mm', 1e3),
    ('rad/s', 'velocities', 'rad/s', 1.0),
    ('m/s', 'velocities', 'm/s', 1.0),
    ('N·m', 'torques', 'N·m', 1.0),
    ('N', 'forces', 'N', 1.0),
)
_MM = 1e3
#: `NoiseScale.source` of a scale that the residuals gave.
FROM_RESIDUALS = 'estimated from residuals'
_CIRCULAR = 'estimated from these residuals, so training is 1 by construction'


#: From here on all digits before the point are written, and none after it.
_WHOLE = 1000.0


def short(value: float) -> str:
    """Write a number with three digits, or whole where it is large."""
    return f'{value:.0f}' if abs(value) >= _WHOLE else f'{value:.3g}'


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

    Attributes:
        role: Whose errors these are: held-out data, or training data where nothing is held out.
        over: A clause on over what they are where that is not whole recordings.
        errors: In physical units, of each kind of sensor that was compared, and at the tool.
        growth: Held-out over training error; NaN where nothing is held out.
        before: The nominal model's error in units of the noise, …
        after: … and the fitted one's.
        scale: Where those units are from.
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
        data = 'Held-out' if self.role == 'validate' else 'Training'
        unseen = '' if self.role == 'validate' else ' (nothing is held out)'
        return f'{data} error{unseen}{self.over}'

    @property
    def sentence(self) -> str:
        """How much of the nominal model's error is left, of what comes first."""
        if self.errors:
            first = self.errors[0]
            of, before, after = f' of {first.what}', first.before, first.after
        else:
            of, before, after = '', self.before, self.after
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


def headline(result: UnjudgedResult) -> Headline:
    """Return how far the predictions of a result are off."""
    role = result.judged_role
    on_held_out = role == 'validate'
    return Headline(
        role,
        result.solver.over_windows,
        (*physical_errors([e for e in result.errors if e.role == role]), *_tool(result, role)),
        result.growth,
        result.held_out_before if on_held_out else result.training_before,
        result.held_out_after if on_held_out else result.training_after,
        _scale(result),
    )


def counted(result: UnjudgedResult) -> str:
    """Say how many parameters are identified."""
    found = sum(own.identified for own in result.parameters)
    return f'{found} of {how_many(result.parameters, "parameter")} identified.'


def in_one_line(result: CalibrationResult) -> str:
    """Return what `headline_lines` begins with, for what judges more than one result."""
    standing = f'This fit is {result.standing}.'
    return ' '.join((counted(result), standing, *headline(result).lines))


def verdict_line(result: CalibrationResult) -> str:
    """Return whether a result may be used, which is the last line that commands print."""
    word = str(result.standing).upper()
    return f'{word}: {counted(result)}' if result.accepted else f'{word}: no model is written.'


def headline_lines(result: CalibrationResult) -> tuple[str, ...]:
    """Return what a reader has to know first, a line each.

    How many parameters are identified, standing, errors, and what is wrong.

    Conditions that are not met come with their numbers.
    """
    word = str(result.standing).upper()
    end = '' if result.accepted else ': the identified model is not written.'
    wrong = [check for check in result.gate if not check.passed]
    said = [f'  {check.name}: {check.detail}{figures(check)}' for check in wrong]
    if result.accepted:
        said = [f'  {check.detail}' for check in result.reservations]
    elif not wrong:
        said = [f'  {result.acceptance}']
    return (counted(result), f'{word}{end}', *headline(result).lines, *said)


def figures(check: GateCheck) -> str:
    """Return what was measured for a condition beside its limit, in brackets after its sentence.

    Things of which there may be none are counted in the sentence.
    """
    if math.isnan(check.measured) or not check.limit:
        return ''
    unit = f' {check.unit}'.rstrip()
    most = 'at least' if check.at_least else 'at most'
    return f' ({short(check.measured)}{unit}, {most} {short(check.limit)}{unit})'


def physical_errors(errors: Sequence[SensorError]) -> Iterator[PhysicalError]:
    """Yield the errors of each kind of sensor that was compared, in units that people think in."""
    for unit, what, shown, factor in _PHYSICAL:
        own = [e for e in errors if e.unit == unit and math.isfinite(e.before + e.after)]
        count = sum(e.samples for e in own)
        if count:
            before, after = (
                factor * math.sqrt(sum(e.samples * value**2 for e, value in pairs) / count)
                for pairs in ([(e, e.before) for e in own], [(e, e.after) for e in own])
            )
            yield PhysicalError(what, before, after, shown)


def _tool(result: UnjudgedResult, role: Role) -> Iterator[PhysicalError]:
    for error in result.tool:
        if error.role == role:
            name = error.point.partition('/')[2]
            yield PhysicalError(f'at {name}', _MM * error.before, _MM * error.after, 'mm')


def _scale(result: UnjudgedResult) -> str:
    """Return a clause on where the scales of the noise are from."""
    sources = dict.fromkeys(scale.source for scale in result.noise)
    said = [_CIRCULAR if source == FROM_RESIDUALS else f'from {source}' for source in sources]
    return '; others '.join(said)
