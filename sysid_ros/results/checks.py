# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""One table of all checks of a result, what to do where one is not passed, and what is said first.

A check that fails rejects the result, one that reserves is said with an accepted one, and a note is
said in any case.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.special import stdtrit

from sysid_ros.alignment.health import FindingKind, Grade
from sysid_ros.config.schema import GateConfig, Role, VerdictKind
from sysid_ros.errors import how_many, listed
from sysid_ros.fit.noise import MAD_OF_NORMAL
from sysid_ros.fit.terms import TermKind
from sysid_ros.results.result import (
    CURRENT,
    FROM_RESIDUALS,
    MORE,
    MOST,
    MOTION,
    MUCH,
    RESULT,
    SHORT_HORIZON,
    SOME,
    Action,
    CalibrationResult,
    Check,
    EstimatorKind,
    Level,
    NextStep,
    ParameterResult,
    SensorError,
    SequenceError,
    SolverStatus,
    moving,
)

# What is said first

#: What sensors of a unit measure, the unit in which it is said, and by what factor.
_PHYSICAL = (
    ('rad', 'positions', 'mrad', 1e3),
    ('m', 'slides', 'mm', 1e3),
    ('rad/s', 'velocities', 'rad/s', 1.0),
    ('m/s', 'velocities', 'm/s', 1.0),
    ('N·m', 'torques', 'N·m', 1.0),
    ('N', 'forces', 'N', 1.0),
)


def short(value: float) -> str:
    """Write a number with three digits."""
    return np.format_float_positional(value, precision=3, fractional=False, trim='-')


class PhysicalError(NamedTuple):
    """Root mean square error of all sensors of a kind, nominal and fitted."""

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
    """How far the predictions of a result are off, nominal and fitted.

    Physical units come first: noise that is estimated from the residuals makes every model look as
    good as its noise on training data.
    """

    role: Role  # held-out data, or training data where nothing is held out
    over: str  # A clause on over what errors are where that is not whole recordings
    errors: tuple[PhysicalError, ...]  # of each kind of sensor
    growth: float  # held-out over training error
    before: float  # error of the nominal model in units of the noise
    after: float  # of the fitted model
    scale: str  # where the noise is known from

    @property
    def name(self) -> str:
        """Whose errors these are, in words."""
        held_out = self.role == 'validate'
        data = 'Held-out error' if held_out else 'Training error (nothing is held out)'
        return data + self.over

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
    scale = '; others '.join(
        'estimated from these residuals, so training is 1 by construction'
        if source == FROM_RESIDUALS
        else f'from {source}'
        for source in dict.fromkeys(scale.source for scale in result.noise)
    )
    errors = []
    for unit, what, shown, factor in _PHYSICAL:
        own = [e for e in result.errors if e.role == role and e.unit == unit]
        own = [e for e in own if e.samples and math.isfinite(e.before + e.after)]
        if own:
            squares = [(e.before**2, e.after**2) for e in own]
            usual = np.sqrt(np.average(squares, axis=0, weights=[e.samples for e in own]))
            nominal, fitted = (factor * usual).tolist()
            errors.append(PhysicalError(what, nominal, fitted, shown))
    over = result.solver.over_windows
    return Headline(role, over, tuple(errors), result.growth, before, after, scale)


def counted(result: CalibrationResult) -> str:
    """Say how many parameters are identified."""
    found = sum(own.identified for own in result.parameters)
    return f'{found} of {how_many(result.parameters, "parameter")} identified.'


def verdict_line(result: CalibrationResult) -> str:
    """Return whether a result may be used, which is the last line that commands print."""
    word = str(result.standing).upper()
    return f'{word}: {counted(result)}' if result.accepted else f'{word}: no model is written.'


def headline_lines(result: CalibrationResult) -> tuple[str, ...]:
    """Return the parameters identified, standing, errors, and the reasons, a line each."""
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


# The table

#: What is there or is not: the optimum may be none of it.
_MAY_BE_ABSENT = frozenset({'armature', 'damping', 'frictionloss', 'stiffness', 'delay', 'kv'})
#: What parameters of times write, and what the model lacks that all values make up for.
_TIMES = frozenset({'delay', 'arrival_offset', 'trajectory_offset'})
_WRONG_TIMES = frozenset({TermKind.DELAY, TermKind.OFFSET, TermKind.DRIFT})
#: Motion and errors below this, in SI units or as part of what a sensor moves by, do not matter.
_TINY = 1e-3
#: A sensor that never changes should, where it is predicted to by so many times its like's noise.
_STILL_NOISE = 5.0
#: Sequences from which on their errors say how far those of sequences of one robot are apart.
_FEWEST_SEQUENCES = 10
#: Neither spread nor a hard motion excuses an error of more than so many times the others'.
_LARGEST_SPREAD = 20.0
#: What raises the limits at which a fit stops before it converges.
_LIMITED: dict[str, str] = {SolverStatus.ITERATIONS: 'max_iterations', SolverStatus.TIME: 'time'}
#: Of right models of a simulated arm residuals are 1.7 times what the sensor itself errs by at
#: most, of wrong ones 12 times at least, of real ones 3 to 35 times: beyond this, they refute a
#: result.
_FAR_MORE = 50.0
#: White noise after a low-pass that passes two thirds of the frequencies looks so many times
#: smaller by its third differences: √20 / √(3/2π ∫₀^⅔π (2 sin ½ω)⁶ dω).
_PASSED = 1.98
#: So many actions are enough.
_MOST_STEPS = 3


class _Seen(NamedTuple):
    """A sentence on what is wrong, if anything, one if nothing is, and what was measured."""

    wrong: str = ''
    right: str = ''
    measured: float = math.nan
    limit: float = math.nan  # so much may be measured at most, in ``unit``
    unit: str = ''
    level: Level | None = None  # where it is another than the rule's
    of: str = ''  # what of several this is


class _Rule(NamedTuple):
    """A check: what it looks at, what helps if it is not passed, and what becomes of the result."""

    name: str
    look: Callable[[CalibrationResult, GateConfig], Iterator[_Seen]]
    action: Action | None = Action.SEARCH
    level: Level = Level.FAIL

    def checks(self, result: CalibrationResult, config: GateConfig) -> Iterator[Check]:
        """Yield what was seen, with what helps where a configuration can be changed."""
        for seen in self.look(result, config):
            remedy = None
            if seen.wrong and self.action and 'bags' in result.provenance.config:
                remedy = _Steps(result, config).step(self.action)
            yield Check(
                name=self.name,
                level=seen.level or self.level,
                passed=not seen.wrong,
                text=seen.wrong or seen.right,
                measured=seen.measured,
                limit=seen.limit,
                unit=seen.unit,
                remedy=remedy,
            )


def judge(result: CalibrationResult, config: GateConfig) -> CalibrationResult:
    """Return the result with its checks.

    Where one of the fit itself is not passed, no parameter is identified.
    """
    warnings = [check for check in result.checks if check.name == 'warning']
    refuting = [check for rule in _REFUTING for check in rule.checks(result, config)]
    against = [check.text for check in refuting if not check.passed]
    if against:
        limited = {
            'verdict_kind': VerdictKind.MODEL_LIMITED,
            'explanation': f'The tests of this fit refute it: {against[0]}',
        }
        parameters = tuple(
            own.model_copy(update=limited) if own.identified else own for own in result.parameters
        )
        result = result.model_copy(update={'parameters': parameters})
    others = [check for rule in _OTHERS for check in rule.checks(result, config)]
    return result.model_copy(update={'checks': (*others, *refuting, *warnings)})


def _judged(result: CalibrationResult) -> list[SensorError]:
    """Return the errors that count."""
    return [error for error in result.errors if error.role == result.judged_role]


def _worst(measured: Iterable[_Seen], right: str) -> _Seen:
    """Return what is nearest to its limit or farthest beyond, with the names of others beyond."""
    found = [each for each in measured if not math.isnan(each.limit)]
    if not found:
        return _Seen('', right)
    used = [each.measured / each.limit if each.limit else each.measured for each in found]
    found = [found[place] for place in np.argsort(used)]  # NaN is the worst
    *others, worst = found
    wrong = ''
    if not worst.measured <= worst.limit:
        same = listed(dict.fromkeys(o.of for o in others[::-1] if not o.measured <= o.limit))
        wrong = f'{worst.wrong}; the same of {same}.' if same else f'{worst.wrong}.'
    return worst._replace(wrong=wrong, right=right)


# Conditions on the fit


def _better(result: CalibrationResult, config: GateConfig) -> Iterator[_Seen]:
    """Compare with the nominal model, on stretches of time that are paired."""
    head = headline(result)
    found = head.figures
    if math.isfinite(head.growth):
        found += f'; held-out over training error {head.growth:.2f}'
    ratio = head.after / head.before if head.before else math.nan
    numbers = ratio, 1 - config.margin, 'of nominal'
    chance = {test.role: test.p_value for test in result.diagnostics.improvements}
    p_value = chance.get(head.role, 0.0)
    wrong = ''
    if not head.after < head.before:
        wrong = f'{head.name} did not fall: {found}.'
    elif ratio > 1 - config.margin:
        wrong = f'{head.name} fell by less than {100 * config.margin:g} %: {found}.'
    elif p_value > config.significance:
        wrong = f'{head.name} fell, but no more than by chance (p = {p_value:.2g}): {found}.'
        numbers = p_value, config.significance, 'probability'
    yield _Seen(wrong, f'{head.name} fell: {found}.', *numbers)


def _converged(result: CalibrationResult, config: GateConfig) -> Iterator[_Seen]:
    """Look whether the fit ended at its optimum, or within a standard error of it at a limit.

    Dry friction and held commands make real costs rough on the smallest scale, where a solver goes
    on in vain until it stalls.
    """
    solver, left = result.solver, math.nan
    ended = solver.success or solver.status is SolverStatus.STALLED
    if solver.status in _LIMITED:
        ended, left = solver.left <= 1, solver.left
    wrong = '' if ended else f'The solver did not converge: {solver.message}'
    level = Level.FAIL if config.converged else Level.NOTE
    yield _Seen(wrong, solver.message, left, 1.0, 'standard errors', level)


def _times(result: CalibrationResult, _: GateConfig) -> Iterator[_Seen]:
    """Look for unmodelled delays or clocks; they reject a result with fitted delays.

    A delay whose interval contains zero makes up for none of them.
    """
    title, share = _lacking_times(result)
    delays = [own.name for own in _delays(result) if own.low > 0 or own.high < 0]
    wrong = f'Residuals follow {title}: {100 * share:.2g} % of the remaining cost.'
    if delays:
        wrong += f' Beside that, {listed(delays)} cannot be right: make it a parameter, too.'
    yield _Seen(
        wrong if share > SOME else '',
        'No other delay or clock explains what is left.',
        100 * share,
        100 * SOME,
        '% of the remaining cost',
        Level.FAIL if delays else Level.NOTE,
    )


def _delays(result: CalibrationResult) -> list[ParameterResult]:
    """Return the parameters that are delays or clocks."""
    return [
        own
        for own in result.parameters
        if any(target.rsplit('/', 1)[-1] in _TIMES for target in own.targets)
    ]


def _lacking_times(result: CalibrationResult) -> tuple[str, float]:
    """Return what clocks or delays the model lacks, and the part of the remaining cost they are."""
    lacking = () if result.inference is None else result.inference.lacking
    found = [term for term in lacking if term.lack in _WRONG_TIMES]
    return listed(term.title for term in found), sum(term.share for term in found)


def _stable(result: CalibrationResult, _: GateConfig) -> Iterator[_Seen]:
    unstable = result.diverged
    wrong = f'The fitted model becomes unstable in {", ".join(unstable)}.' if unstable else ''
    right = 'The fitted model is stable in all sequences.'
    yield _Seen(wrong, right, len(unstable), 0, 'sequences')


def _live(result: CalibrationResult, _: GateConfig) -> Iterator[_Seen]:
    """Look at sensors that never change although the model says that they should."""
    found = [
        f'{item.detail} in {item.bag}' for item in result.health if item.kind is FindingKind.STUCK
    ]
    for error in _judged(result):
        alike = [scale.sigma for scale in result.noise if scale.unit == error.unit]
        still = error.measured_deviation == 0 and error.unit in MOTION
        if still and error.predicted_deviation > max(_TINY, _STILL_NOISE * max(alike, default=0)):
            found.append(
                f'{error.sensor} never changes, and should by '
                f'{error.predicted_deviation:.2g} {error.unit}'
            )
    wrong = f'{"; ".join(found)}: a stuck encoder, a locked joint or a wrong channel.'
    right = 'All positions and velocities that should change do.'
    yield _Seen(wrong if found else '', right, len(found), 0, 'sensors')


def _moving(result: CalibrationResult, config: GateConfig) -> Iterator[_Seen]:
    """Look for positions that stand still for a while in which they should move."""
    found = (
        _Seen(
            f'{still.sensor} stands still for {still.seconds:.2g} s in {still.sequence} while it '
            f'should move by {still.predicted_movement:.2g} {still.unit}: a stuck encoder or joint',
            measured=still.predicted_movement,
            limit=still.least_movement(config.stuck_share),
            unit=still.unit,
            of=still.sensor,
        )
        for still in result.diagnostics.standstills
    )
    yield _worst(found, 'No position stands still while it should move.')


def _explained(result: CalibrationResult, config: GateConfig) -> Iterator[_Seen]:
    """Ask every position and velocity that moves to be predicted better than by its mean."""
    found, right = [], 'No position or velocity moves.'
    for error in sorted(moving(_judged(result)), key=lambda error: -error.explained):
        part, of = 100 * error.explained, f'of the variance of {error.sensor} is predicted'
        only = f'Only {part:.3g} %' if part > 0 else 'None'
        limit = 100 * (1 - config.least_explained)
        wrong = f'{only} {of}{_doubt(error)}'
        found.append(_Seen(wrong, '', 100 - part, limit, '% not explained', of=error.sensor))
        right = f'At least {part:.3g} % {of}.'
    yield _worst(found, right)


def _doubt(error: SensorError) -> str:
    """Return a clause on what may be wrong with the mapping of a sensor, or nothing.

    What the nominal model predicts for it may be measured with the other sign, or elsewhere.
    """
    like = error.likeness
    if like is None:
        return ''
    if like.own < -MOST:
        return ': it runs against the model, as with a wrong sign'
    if like.best != error.sensor and abs(like.correlation) > max(MOST, like.own):
        return f': {like.best} moves as it should, as with swapped joints'
    return ''


def _consistent(result: CalibrationResult, config: GateConfig) -> Iterator[_Seen]:
    """Look for recordings that are not of the robot that the others are of.

    A motion is hard, and not another robot's, where the fit lowered the nominal model's error about
    as much as usual.
    """
    yield _worst(
        (seen for _, seen in _alike(result, config)),
        'All sequences are predicted about equally well.',
    )


def unlike_others(result: CalibrationResult, config: GateConfig) -> frozenset[str]:
    """Return the training sequences that are not of the robot that the others are of."""
    return frozenset(
        item.sequence
        for item, seen in _alike(result, config)
        if item.role == 'train' and seen.measured > seen.limit
    )


def _alike(result: CalibrationResult, config: GateConfig) -> Iterator[tuple[SequenceError, _Seen]]:
    """Compare the error of each sequence with that of training sequences."""
    sequences = result.diagnostics.sequences
    trained = [item for item in sequences if item.role == 'train']
    errors = [item.error for item in trained]
    usual = float(np.median(errors)) if errors else math.inf
    growth = max(config.sequence_growth, _by_chance(errors, len(sequences), config))
    shares = [item.error / item.before for item in trained if item.before > 0]
    share = min(MUCH, MORE * float(np.median(shares)) if shares else 0.0)
    for item in sequences:
        hard = item.error <= share * item.before and item.error <= _LARGEST_SPREAD * usual
        if item.error <= growth * usual or not hard:
            yield (
                item,
                _Seen(
                    f'The error in {item.sequence} is {item.error / usual:.3g} times that of '
                    'training sequences: another robot, load or mapping, or motion that training '
                    'does not cover',
                    measured=item.error / usual,
                    limit=growth,
                    unit='times the usual',
                    of=item.sequence,
                ),
            )


def _by_chance(trained: Sequence[float], count: int, config: GateConfig) -> float:
    """Return how many times their median the worst of many errors is by chance alone.

    The spread of their logarithms is the median distance from the median, which a few sequences of
    another robot hardly change; the level is divided by the number of sequences (Bonferroni).
    """
    if len(trained) < _FEWEST_SEQUENCES:
        return 0.0
    logs = np.log(np.maximum(trained, np.finfo(float).tiny))
    spread = float(np.median(np.abs(logs - np.median(logs)))) / MAD_OF_NORMAL
    quantile = float(stdtrit(len(trained) - 1, 1 - config.significance / count))
    return math.exp(min(spread * quantile, math.log(_LARGEST_SPREAD)))


def _no_sensor_worse(result: CalibrationResult, config: GateConfig) -> Iterator[_Seen]:
    noise = {scale.sensor: scale.sigma for scale in result.noise}
    found = (
        _Seen(
            f'The error of {error.sensor} grew, {error.before:.3g} to {error.after:.3g} '
            f'{error.unit}, although that of all together fell',
            measured=error.after,
            limit=max((1 + config.sensor_growth) * error.before, error.before + sigma),
            unit=error.unit,
            of=error.sensor,
        )
        for error in _judged(result)
        if (sigma := noise.get(error.sensor.split('[')[0])) is not None
    )
    yield _worst(found, "No sensor's error grew beyond its noise.")


def _left_out(result: CalibrationResult, config: GateConfig) -> Iterator[_Seen]:
    found = [
        _Seen(
            f'A fit to the other bags predicts {fold.name} worse than the nominal model does',
            measured=fold.after / fold.before,
            limit=1 + config.sensor_growth,
            unit='of nominal',
            of=fold.name,
        )
        for fold in result.folds
    ]
    if found:
        yield _worst(found, 'Each part of the training data is predicted by a fit to the others.')


def _motion(result: CalibrationResult, config: GateConfig) -> Iterator[_Seen]:
    """Ask the motion from measured states to be predicted no worse than by the nominal model."""
    if result.solver.estimator is EstimatorKind.TORQUE:
        found = (
            _Seen(
                f'The motion within {point.seconds:g} s after measured states is predicted worse '
                f'than by the nominal model, {point.before:.3g} to {point.after:.3g} times the '
                'noise, although forces are explained better',
                measured=point.after / point.before,
                limit=1 + config.sensor_growth,
                unit='of nominal',
                of=f'{point.seconds:g} s',
            )
            for point in result.horizon
            if point.role == result.judged_role and point.seconds <= SHORT_HORIZON
        )
        yield _worst(found, 'Nothing says that the motion from measured states is predicted worse.')


# Conditions on values, and reservations


def _bounds(result: CalibrationResult, _: GateConfig) -> Iterator[_Seen]:
    outer = [
        f'{parameter.name} ({parameter.value:.3g} {parameter.unit}'.rstrip() + ')'
        for parameter in result.parameters
        if parameter.verdict_kind is VerdictKind.AT_BOUND and not _is_absent(parameter)
    ]
    wrong = (
        f'The data push against the bounds of {", ".join(outer)}: widen them if physics allows, '
        'else the model lacks something.'
    )
    right = 'The data push against no bound but natural zeros.'
    yield _Seen(wrong if outer else '', right, len(outer), 0, 'parameters')


def _is_absent(parameter: ParameterResult) -> bool:
    attributes = {target.rsplit('/', 1)[-1].split('[')[0] for target in parameter.targets}
    return parameter.value == 0.0 == parameter.bounds[0] and attributes <= _MAY_BE_ABSENT


def _asked(result: CalibrationResult, _: GateConfig) -> Iterator[_Seen]:
    """Look for values that the data would have beyond bounds: others are wrong for them."""
    for parameter in result.parameters:
        if parameter.asked is not None:
            yield _Seen(
                f'The data ask for {parameter.name} = {parameter.asked:.3g}, beyond its bound '
                f'{parameter.value:g}, and other values make up for that.'
            )


def _excited(result: CalibrationResult, _: GateConfig) -> Iterator[_Seen]:
    kind = VerdictKind.NOT_EXCITED
    blind = [own.name for own in result.parameters if own.verdict_kind is kind]
    wrong = (
        f'The recordings hardly tell {listed(blind)}: record motion that does, leave that out of '
        'parameters, or give it a prior.'
    )
    right = 'The recordings tell all parameters, or what they are confounded with.'
    yield _Seen(wrong if blind else '', right, len(blind), 0, 'parameters')


def _held_out(result: CalibrationResult, _: GateConfig) -> Iterator[_Seen]:
    if math.isnan(result.held_out_after) and not result.folds:
        yield _Seen(
            'Nothing was held out: that the model predicts other motion is not shown; record some '
            'for validation.'
        )


def _generalises(result: CalibrationResult, _: GateConfig) -> Iterator[_Seen]:
    if result.growth > MORE:
        wrong = (
            f'The held-out error is {result.growth:.3g} times that of training: training motion '
            'does not cover it, or the model lacks something.'
        )
        yield _Seen(wrong, '', result.growth, MORE, 'times training')


def _ahead(result: CalibrationResult, config: GateConfig) -> Iterator[_Seen]:
    """Compare positions shortly after measured states with those of two who know less."""
    allowed = 1 + config.sensor_growth
    noise = {scale.sensor: scale.sigma for scale in result.noise}
    for baseline, said in (('before', 'the nominal model'), ('coasting', 'keeping its velocity')):
        worse = {}
        for seconds, joint in result.positions_ahead:
            other = getattr(joint, baseline)
            if joint.after > max(allowed * other, other + noise.get(joint.sensor, 0.0)):
                shown = f'{other:.3g} to {joint.after:.3g} {joint.unit} at {seconds:g} s'
                worse[joint.sensor] = f'{joint.sensor} ({shown})'
        if worse:
            found = listed(worse.values())
            yield _Seen(f'Shortly after measured states, {said} predicts better: {found}.')


def _coloured(result: CalibrationResult) -> list[SensorError]:
    """Return the sensors whose residuals are not their noise, worst first, with what they err by.

    Of training data, where starts are fitted; noise that residuals themselves told cannot say it.
    Forces along prescribed motions have passed a low-pass, and are compared three times a period.
    """
    passed = _PASSED if result.solver.estimator is EstimatorKind.TORQUE else 1.0
    found = [
        error
        for error in (e.model_copy(update={'scatter': passed * e.scatter}) for e in result.errors)
        if error.role == 'train'
        and error.usual > max(MORE * error.scatter, _TINY * error.measured_deviation)
        and error.autocorrelation > MUCH
    ]
    return sorted(found, key=lambda error: error.usual / error.scatter, reverse=True)


def _far_off(result: CalibrationResult, _: GateConfig) -> Iterator[_Seen]:
    """Look for residuals that no lack of a model of a real robot has left so far."""
    for error in _coloured(result):
        if error.usual > _FAR_MORE * error.scatter or 0 < error.measured_deviation < error.usual:
            yield _Seen(
                f'Residuals of {error.sensor} are {error.usual / error.scatter:.2g} times what the '
                f'sensor errs by, which moves by {error.measured_deviation:.2g} {error.unit}.'
            )


def _residuals(result: CalibrationResult, _: GateConfig) -> Iterator[_Seen]:
    if found := _coloured(result):
        worst, moved = found[0], found[0].measured_deviation
        others = f', and {how_many(found[1:], "other sensor")} err so' if found[1:] else ''
        part = f'{100 * worst.usual / moved:.2g} % of how it moves and ' if moved else ''
        yield _Seen(
            f'Residuals are not noise: those of {worst.sensor} are usually {worst.usual:.3g} '
            f'{worst.unit}, {part}{worst.usual / worst.scatter:.3g} times what the sensor itself '
            f'errs by, and neighbours are alike (correlation {worst.autocorrelation:.2f}){others}: '
            'the model lacks something.'
        )


def _agreement(result: CalibrationResult, _: GateConfig) -> Iterator[_Seen]:
    apart = None if result.inference is None else result.inference.disagreement
    if apart is not None:
        yield _Seen(
            f'The {apart.recordings} recordings disagree by {apart.times:.2g} times what noise '
            f'explains, most of all about {apart.most}: the model lacks something, or the robot '
            'changed between them.'
        )


def _optimum(result: CalibrationResult, _: GateConfig) -> Iterator[_Seen]:
    limit = _LIMITED.get(str(result.solver.status))
    if limit is not None:
        yield _Seen(
            f'The fit stopped at its limit, about {result.solver.left:.1g} standard errors from '
            f'the optimum: give it more by solver.{limit}.'
        )


def _identified(result: CalibrationResult, _: GateConfig) -> Iterator[_Seen]:
    # Of what the model limits, the next one says more.
    known = {VerdictKind.IDENTIFIED, VerdictKind.MODEL_LIMITED}
    kinds = {parameter.verdict_kind for parameter in result.parameters}
    if kinds and not kinds & known:
        yield _Seen(
            'No parameter is identified: values rest on each other, on priors or on bounds.'
        )


def _model(result: CalibrationResult, _: GateConfig) -> Iterator[_Seen]:
    kind = VerdictKind.MODEL_LIMITED
    limited = [own.name for own in result.parameters if own.verdict_kind is kind]
    if limited:
        yield _Seen(f'The model lacks something that moves {listed(limited)}: see their verdicts.')


def _time_step(result: CalibrationResult, _: GateConfig) -> Iterator[_Seen]:
    """Compare the step of the written model with that of the predictions."""
    solver, change = result.solver, result.solver.timestep_change
    what = f'changes them by {change:.2g} times what they leave unexplained'
    if solver.timestep is not None and not change <= MUCH:
        yield _Seen(
            f'All predictions are with a time step of {solver.timestep:g} s, which the recordings '
            "follow. The model's own, with which it is written, "
            f'{what if math.isfinite(change) else "becomes unstable"}: set option/timestep to the '
            'shorter one where that matters.'
        )


def _mapping(result: CalibrationResult, _: GateConfig) -> Iterator[_Seen]:
    """Look for pairs that nobody named and another pairing explains about as well."""
    kinds = {finding.kind for finding in result.health}
    unsure = [
        error.sensor
        for error in result.errors
        if error.role == 'train'
        and (like := error.likeness) is not None
        and like.second > (1 - SOME) * abs(like.own)
    ]
    if unsure and FindingKind.ASSUMED_ORDER in kinds:
        yield _Seen(
            'Which command is which joint was assumed, and other sensors move about as the model '
            f'predicts for {listed(unsure)}: the second-best mapping is near.'
        )


def _recordings(result: CalibrationResult, _: GateConfig) -> Iterator[_Seen]:
    found = dict.fromkeys(
        f'{finding.kind} in {finding.bag}'
        for finding in result.health
        if finding.kind.grade is Grade.FAULT
    )
    if found:
        yield _Seen(f'Recordings have faults: {listed(found)}.')


#: Checks of the fit itself: where one is not passed, no value is the robot's.
_REFUTING = (
    _Rule('converged', _converged, Action.GO_ON),
    _Rule('times', _times, Action.FREE),
    _Rule('stable', _stable),
    _Rule('live sensors', _live, Action.LOOK),
    _Rule('no stuck position', _moving, Action.LOOK),
    _Rule('explained', _explained),
    _Rule('consistent', _consistent, Action.LOOK),
    _Rule('no sensor worse', _no_sensor_worse),
    _Rule('left out in turn', _left_out),
    _Rule('motion', _motion),
    _Rule('residuals', _far_off, level=Level.NOTE),
    _Rule('asked', _asked, Action.WIDEN, Level.NOTE),
)
#: The others, which look at what the former leave of verdicts.
_OTHERS = (
    _Rule('better than nominal', _better),
    _Rule('inside bounds', _bounds, Action.WIDEN, Level.RESERVE),
    _Rule('excited', _excited, Action.EXCITE, Level.RESERVE),
    _Rule('held out', _held_out, Action.RECORD, Level.RESERVE),
    _Rule('generalises', _generalises, level=Level.RESERVE),
    _Rule('motion ahead', _ahead, level=Level.RESERVE),
    _Rule('identified', _identified, Action.EXCITE, Level.RESERVE),
    _Rule('model', _model, level=Level.RESERVE),
    _Rule('residuals', _residuals, level=Level.RESERVE),
    _Rule('agreement', _agreement, level=Level.RESERVE),
    _Rule('optimum', _optimum, Action.GO_ON, Level.RESERVE),
    _Rule('time step', _time_step, None, Level.RESERVE),
    _Rule('mapping', _mapping, Action.MAP, Level.RESERVE),
    _Rule('recordings', _recordings, Action.LOOK, Level.RESERVE),
)


# What to do next


def next_steps(result: CalibrationResult) -> tuple[NextStep, ...]:
    """Return what to do next, what helps most first; nothing for what was not made from bags."""
    found = {
        check.remedy.action: check.remedy
        for check in result.checks
        if check.remedy is not None and not check.passed
    }
    steps = sorted(found.values(), key=lambda step: list(Action).index(step.action))
    useful = result.mjcf and any(own.identified for own in result.parameters)
    if result.accepted and useful and 'bags' in result.provenance.config:
        steps = [*steps[: _MOST_STEPS - 1], _Steps(result, GateConfig()).step(Action.USE)]
    return tuple(steps[:_MOST_STEPS])


class _Steps:
    """What to do about one result, with the files that it was made from.

    Where it was not made by a command with a configuration, as in a notebook, there are no commands
    to type.
    """

    def __init__(self, result: CalibrationResult, gate: GateConfig) -> None:
        made = result.provenance
        files = [Path(file.path) for file in made.files if file.role != 'model']
        folders = {file.parent for file in files if file.name == 'metadata.yaml'}
        words = made.command.split()
        self.result, self.gate = result, gate
        self.config = next((word for word in words if word.endswith(('.yaml', '.yml'))), '')
        self.model = Path(result.model)
        self.output = Path(str(made.config.get('output', 'out')))
        self.bags = [file.parent if file.parent in folders else file for file in files]
        self.bags = self.bags or [Path('bags/train_1')]
        self.doubtful = [error.sensor for error in result.errors if _doubt(error)]
        self.calibrate = ('sysid', 'calibrate', self.config)

    def step(self, action: Action) -> NextStep:
        """Return what to do; instead of a search, a mapping that is doubtful is looked at."""
        if action is Action.SEARCH and self.doubtful:
            action = Action.MAP
        sentence, *commands = getattr(self, f'_{action.name.lower()}')()
        typed = tuple(shlex.join(map(str, words)) for words in commands if self.config)
        return NextStep(action=action, sentence=sentence, commands=typed)

    def _map(self) -> tuple[Any, ...]:
        of = f' of {listed(dict.fromkeys(self.doubtful))}' if self.doubtful else ''
        say = f'Check the mapping{of}: propose it from the motion, look, and calibrate with it.'
        propose = ('sysid', 'map', self.bags[0], self.model, '-o', 'mapping.yaml')
        return say, propose, (*self.calibrate, '--set', 'mapping=mapping.yaml')

    def _look(self) -> tuple[Any, ...]:
        """Look into the recording that is at fault, else that of the largest error."""
        faults = [item for item in self.result.health if item.kind.grade is Grade.FAULT]
        sequences = sorted(self.result.diagnostics.sequences, key=lambda item: -item.error)
        names = [item.bag for item in faults] + [item.sequence for item in sequences]
        known = (bag for name in names for bag in self.bags if bag.name == Path(name).name)
        bag = next(known, self.bags[0])
        found, remedy = 'what is wrong', 'Leave that time out by segments.times, or record again.'
        if faults:
            found, remedy = str(faults[0].kind), faults[0].kind.remedy
        say = f'Look at {found} in {bag.name}. {remedy}'.strip()
        return say, ('sysid', 'inspect', bag, self.model)

    def _go_on(self) -> tuple[Any, ...]:
        solver = self.result.solver
        key = f'solver.max_iterations={2 * max(solver.iterations, 1)}'
        if solver.status is SolverStatus.TIME:
            key = f'solver.time={math.ceil(2 * solver.seconds)}'
        say = 'Let the solver go on until the cost falls no more.'
        return say, (*self.calibrate, '--set', key)

    def _free(self) -> tuple[Any, ...]:
        title, _ = _lacking_times(self.result)
        clock, delay = 'stamp commands and states by one clock', 'make delays parameters'
        delay += ', as by {target: actuator/*/delay, shared: true, bounds: [0.0, 0.1]}'
        way = clock if _delays(self.result) else f'{delay}, or {clock}'
        say = f'{way[0].upper()}{way[1:]}{title and f": residuals follow {title}"}.'
        return say, self.calibrate

    def _widen(self) -> tuple[Any, ...]:
        names = [
            f'{own.name} ({own.bounds[0]:g} to {own.bounds[1]:g} {own.unit}'.rstrip() + ')'
            for own in self.result.parameters
            if own.verdict_kind is VerdictKind.AT_BOUND and (own.value or own.asked)
        ]
        say = f'Widen the bounds of {listed(names)} if physics allows it, and calibrate again.'
        return say, self.calibrate

    def _record(self) -> tuple[Any, ...]:
        taken = {bag.name for bag in self.bags}
        names = (f'validate_{number}' for number in range(1, len(taken) + 2))
        bag = self.bags[0].parent / next(name for name in names if name not in taken)
        say = f'Record another motion, and calibrate again with {{path: {bag}, role: validate}}.'
        record = ('ros2', 'launch', 'sysid_ros', 'record.launch.xml', f'output:={bag}')
        return say, record, self.calibrate

    def _excite(self) -> tuple[Any, ...]:
        blind = (VerdictKind.NOT_EXCITED, VerdictKind.CONFOUNDED)
        names = [own.name for own in self.result.parameters if own.verdict_kind in blind]
        of = f' that tells of {listed(names)}' if names else ''
        launch = ('ros2', 'launch', 'sysid_ros', 'excite.launch.xml', f'model:={self.model}')
        return (
            f'Record a motion{of}, or leave that out of parameters: design it, run it, record it.',
            ('sysid', 'excite', self.model, '--config', self.config, '-o', 'motion.csv'),
            (*launch, 'motion:=motion.csv'),
        )

    def _search(self) -> tuple[Any, ...]:
        say = (
            'Find what the robot does and the model does not: friction that depends on direction, '
            'play, an elastic joint; or a mass, length, gain or unit of efforts that is wrong.'
        )
        growth = 1 + self.gate.sensor_growth
        worse = {e.sensor for e in _judged(self.result) if e.after > growth * e.before}
        if worse:
            say += f' Or leave {listed(sorted(worse))} out of sensors.'
        return say, ('sysid', 'inspect', self.bags[0], self.model)

    def _use(self) -> tuple[Any, ...]:
        # The folder, as what was fitted may be in a file that the main one includes.
        current = self.output / CURRENT
        fitted = current / Path(self.result.mjcf).parts[0]
        doubt = ' where that is good enough' if self.result.reservations else ''
        return (
            f'Take the fitted model into use{doubt}, and let CI fit again and compare.',
            ('cp', '-r', fitted, self.model.with_name(f'{self.model.stem}_fitted')),
            ('sysid', 'check', self.config, '--baseline', current / RESULT),
        )
