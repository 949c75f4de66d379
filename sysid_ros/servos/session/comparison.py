# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""How friction laws compare on logs that they were not fitted to, and which one to use."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sysid_ros.files import replace_file
from sysid_ros.inference.drift import paired
from sysid_ros.servos.bench.residuals import POSITION

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from sysid_ros.identification.fit import Fit
    from sysid_ros.servos.bench.coverage import By

    Array = NDArray[np.float64]

#: Mean squares below this, rad², are rounding: their logarithm would decide everything.
_TINY = 1e-24
#: Errors that differ by less than this part are the same, however surely they differ: laws that
#: contain each other end so near that a hundredth of a percent is many standard errors.
_SAME = 0.01
#: A simpler law that errs so many times as much is named as one that lacks something.
_FAR = 1.5
_MILLI = 1e3
#: Logs that were not fitted, for people.
_OTHERS: dict[By, str] = {'load': 'loads', 'kp': 'gains', 'trajectory': 'motions'}


@dataclass(frozen=True)
class GroupError:
    """Mean absolute error on logs that were not fitted, rad.

    Attributes:
        group: Name of the logs.
        logs: How many they are.
        error: The mean of theirs.
    """

    group: str
    logs: int
    error: float


@dataclass(frozen=True)
class ServoScore:
    """How well one friction law predicts.

    Errors are from the first sample of a log, as measured, in rad.

    Attributes:
        name: Of the law.
        values: Its coefficients, fitted to all logs.
        fitted: How many of them were found.
        training: Mean absolute error on the logs that it was fitted to.
        groups: Errors on logs that were not fitted.
        held_out: Mean absolute error on all of those logs.
        held_out_rms: Root mean square error on them.
        difference: By how much ``held_out`` is larger than that of the best law.
        standard_error: Of the difference, from the differences on each log.
        aic: Akaike's information criterion above that of the law with the least, from the
            effective number of samples.
        bic: The same for Schwarz's.
        adequate: Whether it predicts as well as the best, up to a standard error or one percent.
        seconds: What all its fits took.
    """

    name: str
    values: Mapping[str, float]
    fitted: int
    training: float
    groups: tuple[GroupError, ...]
    held_out: float
    held_out_rms: float
    difference: float
    standard_error: float
    aic: float
    bic: float
    adequate: bool
    seconds: float


@dataclass(frozen=True)
class ServoComparison:
    """Several friction laws on the same logs.

    Attributes:
        actuator: The kind of servo.
        by: What logs that were left out together have in common.
        why: Why they were grouped by that, in a clause.
        models: In the order given.
        recommended: Name of the simplest adequate one.
        reason: Why, in a clause.
        effective: Number of independent samples that say as much as all that were fitted.
        warnings: What limits the comparison, a sentence each.
    """

    actuator: str
    by: By
    why: str
    models: tuple[ServoScore, ...]
    recommended: str
    reason: str
    effective: float
    warnings: tuple[str, ...]

    @property
    def chosen(self) -> ServoScore:
        """The recommended law."""
        return next(model for model in self.models if model.name == self.recommended)

    def to_json(self) -> str:
        """Return everything as JSON."""
        return json.dumps(dataclasses.asdict(self), indent=2, ensure_ascii=False)

    def save(self, path: Path) -> None:
        """Write the same to a file.

        Raises:
            ResultError: The folder cannot be written.
        """
        replace_file(path, f'{self.to_json()}\n'.encode())


class Judged(NamedTuple):
    """A friction law, its fit, and its errors on logs that were not fitted.

    Attributes:
        name: Of the law.
        values: Its coefficients, fitted to all logs.
        fit: To all logs.
        training: Mean absolute error on these, rad.
        absolute: (L,) mean absolute errors on logs that were not fitted, rad.
        square: (L,) mean square errors on the same, rad².
        seconds: What all its fits took.
    """

    name: str
    values: Mapping[str, float]
    fit: Fit
    training: float
    absolute: Array
    square: Array
    seconds: float


def scores(
    judged: Sequence[Judged], groups: Mapping[str, int]
) -> tuple[tuple[ServoScore, ...], float]:
    """Return how well each law predicts, and the effective number of samples.

    Args:
        judged: The laws.
        groups: Name of each group of logs that were not fitted to their number, in their order.
    """
    errors = np.array([one.absolute for one in judged])
    held_out = errors.mean(axis=1)
    difference, standard_error = paired(errors, int(np.argmin(held_out)))
    allowed = np.maximum(standard_error, _SAME * held_out.min())
    aic, bic, effective = _criteria([one.fit for one in judged])
    ends = np.cumsum(list(groups.values()))[:-1]
    found = tuple(
        ServoScore(
            name=one.name,
            values=one.values,
            fitted=len(one.fit.parameters),
            training=one.training,
            groups=tuple(
                GroupError(name, len(own), float(own.mean()))
                for name, own in zip(groups, np.split(one.absolute, ends), strict=True)
            ),
            held_out=float(held_out[place]),
            held_out_rms=float(np.sqrt(one.square.mean())),
            difference=float(difference[place]),
            standard_error=float(standard_error[place]),
            aic=float(aic[place]),
            bic=float(bic[place]),
            adequate=bool(difference[place] <= allowed[place]),
            seconds=one.seconds,
        )
        for place, one in enumerate(judged)
    )
    return found, effective


def recommend(models: Sequence[ServoScore], by: By) -> tuple[str, str]:
    """Return the simplest law that is adequate, and why, in a clause.

    Args:
        models: All of them.
        by: What logs that were left out together have in common.
    """
    chosen = min(
        (model for model in models if model.adequate),
        key=lambda model: (model.fitted, model.held_out),
    )
    best = min(models, key=lambda model: model.held_out)
    simpler = [model for model in models if model.fitted < chosen.fitted]
    count = sum(part.logs for part in chosen.groups)
    on = f'{count} logs of other {_OTHERS[by]}'
    if chosen is best and not simpler:
        return chosen.name, f'it has the least held-out error on {on}, and none is simpler'
    nearest_simpler: ServoScore | None = None
    if chosen is best:
        nearest_simpler = min(simpler, key=lambda model: model.difference)
        reason = (
            'it has the least held-out error, and no simpler law is within one standard error or '
            f'1 % of it: {nearest_simpler.name} errs {_times(nearest_simpler, chosen)} '
            f'({_more(nearest_simpler)}) on {on}'
        )
    else:
        reason = (
            'it is the simplest whose held-out error is within one standard error or 1 % of that '
            f'of {best.name}: {_MILLI * chosen.held_out:.4g} against {_MILLI * best.held_out:.4g} '
            f'mrad ({_more(chosen)}) on {on}'
        )
    far = [model for model in simpler if model.held_out > _FAR * chosen.held_out]
    lacking = min(far, key=lambda model: model.held_out) if far else None
    if lacking is not None and lacking is not nearest_simpler:
        reason = f'{reason}; {lacking.name} errs {_times(lacking, chosen)}'
    return chosen.name, reason


def _times(model: ServoScore, other: ServoScore) -> str:
    return f'{model.held_out / other.held_out:.3g} times as much'


def _more(model: ServoScore) -> str:
    difference, error = _MILLI * model.difference, _MILLI * model.standard_error
    return f'{difference:.2g} ± {error:.2g} mrad more'


def _criteria(fits: Sequence[Fit]) -> tuple[Array, Array, float]:
    """Return AIC and BIC above the least, and the effective number of samples.

    How many of the samples are independent is told by the law that leaves the least: its residuals
    are most nearly noise.
    """
    squares = np.array([max(fit.noise[POSITION] ** 2, _TINY) for fit in fits])
    least = fits[int(np.argmin(squares))]
    effective = least.inference.effective
    sizes = np.array([len(fit.parameters) for fit in fits])
    deviance = effective * np.log(squares)
    aic = deviance + 2 * sizes
    bic = deviance + np.log(max(effective, 2.0)) * sizes
    return aic - aic.min(), bic - bic.min(), effective
