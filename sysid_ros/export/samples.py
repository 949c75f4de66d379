# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Models drawn from what the data leave open, as MJCF files beside the identified one.

Estimates are normal with the covariance of the result. A draw is one that physics and the bounds
of the calibration allow; others are refused and drawn anew.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sysid_ros.errors import ModelError, ParameterError, ResultError
from sysid_ros.export.stored import Stored
from sysid_ros.model.mjcf.write import write_variant
from sysid_ros.model.targets import Target, of_sequence
from sysid_ros.pipeline.estimators import with_biases
from sysid_ros.results.result import ParameterResult

Array = NDArray[np.float64]

#: Of a covariance, eigenvalues below zero by more than this part of the largest are no rounding.
_ROUNDING = 1e-6
#: So many are drawn at once.
_BLOCK = 1024
#: Draws until bounds are said to leave nothing.
_MOST_DRAWS = 2_000_000
#: Drawn models that MuJoCo refuses, for each one that is wanted, until there is an error.
_MOST_REFUSED = 10
#: A parameter is named when bounds refuse more than this part of its draws.
_MUCH = 0.01


@dataclass(frozen=True)
class Posterior:
    """Parameters of a model and what the data leave open.

    Attributes:
        parameters: All that are no starts of recordings, p of them.
        targets: What each of them writes; nothing for what is of recordings.
        columns: (k,) places of those with an interval.
        covariance: (k, k) in their units.
        bounds: (p, 2) what physics and the calibration allow.
    """

    parameters: tuple[ParameterResult, ...]
    targets: tuple[tuple[Target, ...], ...]
    columns: NDArray[np.int64]
    covariance: Array
    bounds: Array

    @classmethod
    def of(cls, stored: Stored) -> Posterior:
        """Return what a result says.

        Raises:
            ResultError: It says nothing of how sure it is.
        """
        record = stored.record
        if record.inference is None:
            raise ResultError(
                f'Expected a result with a covariance, found none in {str(stored.path)!r}.'
            )
        whole = np.array(record.inference.covariance, dtype=np.float64)
        whole = whole.reshape(len(record.parameters), len(record.parameters))
        own = [i for i, p in enumerate(record.parameters) if not any(map(of_sequence, p.targets))]
        parameters = tuple(record.parameters[i] for i in own)
        variance = np.diag(whole)[own]
        ends = np.array([(p.low, p.high) for p in parameters]).reshape(-1, 2)
        known = np.isfinite(ends).all(axis=1) & np.isfinite(variance) & (variance > 0)
        columns = np.flatnonzero(known)
        if not len(columns):
            raise ResultError(f'No parameter of {str(stored.path)!r} has an interval to draw from.')
        rows = np.array(own)[columns]
        targets = tuple(
            tuple(target for path in p.targets for target in stored.targets.get(path, ()))
            for p in parameters
        )
        allowed = [
            np.array([p.bounds, *(target.bounds for target in of)])
            for p, of in zip(parameters, targets, strict=True)
        ]
        bounds = np.array([(ends[:, 0].max(), ends[:, 1].min()) for ends in allowed])
        return cls(parameters, targets, columns, whole[np.ix_(rows, rows)], bounds)

    def draws(self, seed: int) -> Iterator[tuple[Array, NDArray[np.bool_]]]:
        """Yield (p,) values without end, and (p,) which of them are out of their bounds."""
        rng = np.random.default_rng(seed)
        root = _root(self.covariance)
        known = np.zeros(len(self.parameters), bool)
        known[self.columns] = True
        while True:
            values = np.tile([p.value for p in self.parameters], (_BLOCK, 1))
            values[:, self.columns] += rng.standard_normal((_BLOCK, len(root))) @ root.T
            out = known & ((values < self.bounds[:, 0]) | (values > self.bounds[:, 1]))
            yield from zip(values, out, strict=True)


def _root(covariance: Array) -> Array:
    """Return R with R Rᵀ = covariance, or raise where it is none."""
    deviation = np.sqrt(np.abs(np.diag(covariance)))
    scaled = covariance / np.outer(deviation, deviation)
    whole = np.isfinite(scaled).all()
    values, vectors = np.linalg.eigh(scaled) if whole else (np.full(1, -1.0), np.eye(1))
    if values[0] < -_ROUNDING * max(values[-1], 1.0):
        raise ResultError(
            'Expected a covariance of which no direction has a negative variance, found '
            f'{float(values[0]):.3g} of the correlations.'
        )
    return np.asarray(deviation[:, None] * vectors * np.sqrt(np.maximum(values, 0.0)))


class Drawn(NamedTuple):
    """Models that were drawn.

    Attributes:
        files: Names of the files, beside the main one.
        values: (n, p) of the parameters.
        beyond_bounds: Draws that were refused as some value was out of its bounds.
        refused: Draws that were refused as they are no model that MuJoCo accepts.
        by_parameter: Of parameters with values out of their bounds, in how many draws.
        notes: What to know of them.
    """

    files: list[str]
    values: Array
    beyond_bounds: int
    refused: int
    by_parameter: dict[str, int]
    notes: list[str]


def write_samples(stored: Stored, posterior: Posterior, main: Path, count: int, seed: int) -> Drawn:
    """Draw models and write each beside the identified one.

    Args:
        stored: The result.
        posterior: What it leaves open.
        main: The main file of the identified model, as written.
        count: How many.
        seed: Of the draws.

    Raises:
        ResultError: Hardly any draw is a model.
    """
    files: list[str] = []
    values: list[Array] = []
    beyond, refused, drawn = 0, 0, 0
    often = np.zeros(len(posterior.parameters), int)
    reason = ''
    for own, out in posterior.draws(seed):
        if len(files) == count:
            break
        drawn += 1
        if drawn > _MOST_DRAWS or refused > _MOST_REFUSED * count:
            worst = posterior.parameters[int(often.argmax())].name
            why = reason.rstrip('.') or f'values of {worst} are hardly ever inside of their bounds'
            raise ResultError(
                f'Expected {count} samples, found {len(files)} in {drawn} draws, as {why}.'
            )
        if out.any():
            beyond += 1
            often += out
            continue
        given = [
            (target, float(value))
            for targets, value in zip(posterior.targets, own, strict=True)
            for target in targets
        ]
        held, biases = with_biases(stored.record, stored.robot, given)
        name = f'sample_{len(files):0{max(3, len(str(count - 1)))}}'
        try:
            path = write_variant(stored.robot, held, main, name, biases)
        except (ModelError, ParameterError) as err:
            refused, reason = refused + 1, str(err)
            continue
        files.append(path.name)
        values.append(own)
    names = [parameter.name for parameter in posterior.parameters]
    by_parameter = {name: int(times) for name, times in zip(names, often, strict=True) if times}
    notes = []
    if beyond or refused:
        notes.append(
            f'{drawn} draws: {beyond} refused and redrawn with values out of bounds, {refused} '
            'that MuJoCo accepts as no model.'
        )
    much = [name for name, times in by_parameter.items() if times > _MUCH * drawn]
    if much:
        notes.append(
            f'Bounds cut the ranges of {", ".join(much)}, so that samples spread less than the '
            'covariance says, and their means are off the values.'
        )
    fixed = [name for i, name in enumerate(names) if i not in posterior.columns]
    if fixed:
        notes.append(
            f'Without an interval, and in all samples at their values: {", ".join(fixed)}.'
        )
    return Drawn(files, np.array(values), beyond, refused, by_parameter, notes)


def samples_text(posterior: Posterior, drawn: Drawn) -> str:
    """Return CSV with the values of each parameter in each drawn model, in SI units."""
    text = io.StringIO()
    table = csv.writer(text, lineterminator='\n')
    table.writerow(('file', *(parameter.name for parameter in posterior.parameters)))
    for file, values in zip(drawn.files, drawn.values, strict=True):
        table.writerow((file, *map(repr, values.tolist())))
    return text.getvalue()
