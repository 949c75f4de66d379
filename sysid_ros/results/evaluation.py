# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""How well a model as it is predicts recordings, and whether that is as well as it has to."""

from __future__ import annotations

import fnmatch
import math
from collections.abc import Iterator, Mapping
from pathlib import Path

from pydantic import ValidationError

from sysid_ros.config import ThresholdsConfig
from sysid_ros.config.section import explain
from sysid_ros.errors import ConfigError, ResultError, nearest, some
from sysid_ros.json_text import read_object
from sysid_ros.model.stated import changes
from sysid_ros.results.case import Case, CaseKind, Place
from sysid_ros.results.comparison import ROUNDING, code_changed
from sysid_ros.results.result import Document, Frozen, MaybeFloat

#: Changes when files of before cannot be read any more as what they say.
SCHEMA_VERSION = 1
#: So many changes of a model are named in one sentence.
_NAMED = 3


class EvaluatedBag(Frozen):
    """A recording by its name, and a SHA-256 of its files; whether its simulation ran away."""

    name: str
    sha256: str
    diverged: bool = False


class PredictionError(Frozen):
    """Root mean square error of one sensor in one recording, in the sensor's unit.

    Over the whole recording where ``seconds`` is None, else so many seconds after measured states,
    where ``coasting`` is that of a joint that keeps its velocity. ``subject`` is what the sensor
    measures, as ``joint/elbow``; NaN is an error of a simulation that ran away.
    """

    bag: str
    sensor: str
    unit: str
    subject: str
    error: MaybeFloat
    seconds: float | None = None
    coasting: MaybeFloat = float('nan')

    @property
    def over(self) -> str:
        """Over what it is."""
        return 'whole recording' if self.seconds is None else f'{self.seconds:g} s ahead'


class ModelValue(Frozen):
    """What the model says of one attribute or parameter, and where: see `sysid_ros.model.stated`.

    ``line`` is 0 where no line of the file holds it.
    """

    key: str
    value: str
    file: str
    line: int


class Evaluation(Document):
    """How well a model as it is predicts recordings; nothing was fitted.

    ``versions`` are those of the software, ``warnings`` what to know of model and recordings, a
    sentence each.
    """

    schema_version: int = SCHEMA_VERSION
    model: str
    values: tuple[ModelValue, ...]
    bags: tuple[EvaluatedBag, ...]
    errors: tuple[PredictionError, ...]
    versions: dict[str, str]
    warnings: tuple[str, ...] = ()

    @classmethod
    def load(cls, path: Path) -> Evaluation:
        """Read what `save` wrote.

        Raises:
            ResultError: There is no such file, or it is not an evaluation of this version.
        """
        document = read_object(path, ResultError, 'evaluation')
        found = document.get('schema_version')
        if found != SCHEMA_VERSION:
            raise ResultError(
                f'Expected an evaluation of schema_version {SCHEMA_VERSION} in {str(path)!r}, '
                f'found {found!r}.'
            )
        try:
            return cls.model_validate(document)
        except ValidationError as err:
            raise ResultError(f'The evaluation is damaged: {explain(err, cls, str(path))}') from err


def judge_evaluation(
    found: Evaluation, thresholds: ThresholdsConfig, baseline: Evaluation | None = None
) -> tuple[Case, ...]:
    """Compare the errors of a model with limits, and with what they were.

    An error is right when it is below the least of its limits: those whose pattern its sensor
    matches, and ``growth`` times what it was for the same recording. A model is right when it
    states what it did.

    Args:
        found: The errors now.
        thresholds: The limits.
        baseline: The errors and the model then, if known.

    Returns:
        A case for each error, one for each simulation that ran away, and with a baseline one for
        each number of the model that is another, or one for all.

    Raises:
        ConfigError: A limit is for no sensor, or for an error that no recording has.
    """
    _check_limits(found, thresholds)
    changed = () if baseline is None else tuple(_changed(found, baseline))
    before = {} if baseline is None else {_key(entry): entry.error for entry in baseline.errors}
    blame = f'; the model has another {some([c.name for c in changed], _NAMED)}'
    cases = list(changed)
    if baseline is not None and not changed:
        file = Place(found.model, 0)
        cases.append(Case(CaseKind.MODEL, 'all numbers', passed=True, place=file))
    for bag in found.bags:
        if bag.diverged:
            sentence = f'the simulation becomes unstable{blame if changed else ""}'
            cases.append(
                Case(CaseKind.ERROR, 'simulation', bag.name, passed=False, sentence=sentence)
            )
    places = _places(found)
    for entry in found.errors:
        old = before.get(_key(entry), math.nan)
        given = [
            limit
            for pattern, limit in _limits(thresholds, entry.seconds).items()
            if fnmatch.fnmatchcase(entry.sensor, pattern)
        ]
        grown = [] if math.isnan(old) else [thresholds.growth * old * (1 + ROUNDING)]
        limit = min([*given, *grown], default=math.inf)
        passed = not entry.error > limit and not (math.isnan(entry.error) and limit < math.inf)
        place = changed[0].place if changed else places.get(entry.subject, Place(found.model, 0))
        cases.append(
            Case(
                CaseKind.ERROR,
                f'{entry.sensor}, {entry.over}',
                entry.bag,
                value=entry.error,
                unit=entry.unit,
                baseline=old,
                limit=limit,
                passed=passed,
                sentence='' if passed else f'error above its limit{blame if changed else ""}',
                place=place,
            )
        )
    return tuple(cases)


def differences(found: Evaluation, baseline: Evaluation) -> Iterator[str]:
    """Say, a sentence each, what is another than when a baseline was made.

    Where neither the model nor a recording is, and errors are, it is the software.
    """
    changed = list(_changed(found, baseline))
    if changed:
        said = some([f'{case.name} {case.sentence}' for case in changed], _NAMED)
        yield f'Model changed: {said}.'
    bags = {bag.name: bag.sha256 for bag in baseline.bags}
    other = [bag.name for bag in found.bags if bags.get(bag.name, bag.sha256) != bag.sha256]
    if other:
        yield f'Recordings changed: {some(other)}.'
    new = [bag.name for bag in found.bags if bag.name not in bags]
    if new:
        yield f'New recordings: {some(new)}.'
    gone = [name for name in bags if name not in {bag.name for bag in found.bags}]
    if gone:
        yield f'Recordings that are gone: {some(gone)}.'
    if not changed and found.values:
        same = {bag.name for bag in found.bags if bags.get(bag.name) == bag.sha256}
        before = {_key(entry): entry.error for entry in baseline.errors if entry.bag in same}
        moved = [
            f'{entry.sensor} in {entry.bag}'
            for entry in found.errors
            if (old := before.get(_key(entry))) is not None and not _same(entry.error, old)
        ]
        if moved:
            yield f'{code_changed(found.versions, baseline.versions)}: errors of {some(moved)}.'


def _changed(found: Evaluation, baseline: Evaluation) -> Iterator[Case]:
    """Yield a failed case for each attribute that a model states otherwise than before."""
    before = {entry.key: entry for entry in baseline.values}
    now = {entry.key: entry for entry in found.values}
    for key, old, new in changes(
        {key: entry.value for key, entry in before.items()},
        {key: entry.value for key, entry in now.items()},
    ):
        at = now.get(key)
        place = Place(found.model, 0) if at is None else Place(at.file, at.line)
        if old and new:
            sentence = f'is {new}, was {old}{_ratio(old, new)}'
        else:
            sentence = f'is {new}, was not there' if new else f'was {old}, is gone'
        yield Case(CaseKind.MODEL, key, passed=False, sentence=sentence, place=place)


def _ratio(old: str, new: str) -> str:
    try:
        change = 100 * (float(new) / float(old) - 1)
    except (ValueError, ZeroDivisionError):
        return ''
    return f' ({change:+.3g} %)'


def _same(now: float, before: float) -> bool:
    if math.isnan(now) or math.isnan(before):
        return math.isnan(now) and math.isnan(before)
    return math.isclose(now, before, rel_tol=ROUNDING)


def _key(entry: PredictionError) -> tuple[str, str, float | None]:
    return entry.bag, entry.sensor, entry.seconds


def _limits(thresholds: ThresholdsConfig, seconds: float | None) -> Mapping[str, float]:
    return thresholds.limits if seconds is None else thresholds.horizon.get(seconds, {})


def _check_limits(found: Evaluation, thresholds: ThresholdsConfig) -> None:
    """Check that every limit is for something.

    Raises:
        ConfigError: One is not.
    """
    for seconds, limits in ((None, thresholds.limits), *thresholds.horizon.items()):
        sensors = sorted({entry.sensor for entry in found.errors if entry.seconds == seconds})
        where = 'limits' if seconds is None else f'horizon {seconds:g}'
        for pattern in limits:
            if not fnmatch.filter(sensors, pattern):
                raise ConfigError(
                    f'The limit for {pattern!r} in {where} is for no error; '
                    f'{nearest(pattern, sensors)}.'
                )


def _places(found: Evaluation) -> dict[str, Place]:
    """Return where the model has each element, by its key without the attribute."""
    places: dict[str, Place] = {}
    for entry in found.values:
        places.setdefault(entry.key.rpartition('/')[0], Place(entry.file, entry.line))
    return places
