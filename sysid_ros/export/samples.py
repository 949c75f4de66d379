# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Models drawn from what the data leave open, as MJCF files beside the identified one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import yaml
from numpy.typing import NDArray

from sysid_ros.errors import ModelError, ParameterError, ResultError
from sysid_ros.export.posterior import Posterior, targets_of
from sysid_ros.export.stored import Stored
from sysid_ros.model.mjcf.write import write_variant
from sysid_ros.pipeline.calibration import with_biases

Array = NDArray[np.float64]

#: Draws until bounds are said to leave nothing.
_MOST_DRAWS = 2_000_000
#: Drawn models that MuJoCo refuses, for each one that is wanted, until there is an error.
_MOST_REFUSED = 10
#: A parameter is named when bounds refuse more than this part of its draws.
_MUCH = 0.01


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

    files: tuple[str, ...]
    values: Array
    beyond_bounds: int
    refused: int
    by_parameter: dict[str, int]
    notes: tuple[str, ...]


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
            for parameter, value in zip(posterior.parameters, own, strict=True)
            for target in targets_of(parameter, stored)
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
    by_parameter = {
        parameter.name: int(times)
        for parameter, times in zip(posterior.parameters, often, strict=True)
        if times
    }
    return Drawn(
        tuple(files),
        np.array(values),
        beyond,
        refused,
        by_parameter,
        tuple(_notes(posterior, drawn, beyond, refused, by_parameter)),
    )


def _notes(
    posterior: Posterior, drawn: int, beyond: int, refused: int, by_parameter: dict[str, int]
) -> Iterator[str]:
    """Say how draws went."""
    if beyond or refused:
        yield (
            f'{drawn} draws: {beyond} refused and redrawn with values out of bounds, {refused} '
            'that MuJoCo accepts as no model.'
        )
    much = [name for name, times in by_parameter.items() if times > _MUCH * drawn]
    if much:
        yield (
            f'Bounds cut the ranges of {", ".join(much)}, so that samples spread less than the '
            'covariance says, and their means are off the values.'
        )
    fixed = set(range(len(posterior.parameters))) - set(posterior.columns.tolist())
    if fixed:
        names = ', '.join(posterior.parameters[i].name for i in sorted(fixed))
        yield f'Without an interval, and in all samples at their values: {names}.'


_HEAD = """\
# What the data leave open of each parameter, and the models that were drawn from it. In SI units.
# mean and std are those of the estimate, interval holds the truth with 95 %, and all of them vary
# together as correlation says: rows and columns are the parameters of its order. drawn says how:
# normal, or lognormal with the same mean and covariances; fixed ones have no interval and stay.
"""


def ranges_text(stored: Stored, posterior: Posterior, drawn: Drawn, main: str, seed: int) -> str:
    """Return the YAML that goes with samples.

    Args:
        stored: The result.
        posterior: What it leaves open.
        drawn: The samples.
        main: The file of the identified model.
        seed: Of the draws.
    """
    deviation = dict(
        zip(posterior.columns.tolist(), np.sqrt(np.diag(posterior.covariance)), strict=True)
    )
    log = dict(zip(posterior.columns.tolist(), posterior.log.tolist(), strict=True))
    absent = {target.path for target, _ in stored.values if not target.in_mjcf}
    parameters = {}
    for i, parameter in enumerate(posterior.parameters):
        entry: dict[str, object] = {
            'targets': list(parameter.targets),
            'unit': parameter.unit,
            'mean': parameter.value,
        }
        if i in deviation:
            entry['std'] = _short(deviation[i])
            entry['interval'] = [_short(parameter.low, 9), _short(parameter.high, 9)]
            entry['bounds'] = [float(end) for end in posterior.bounds[i]]
            entry['drawn'] = 'lognormal' if log[i] else 'normal'
        else:
            entry['drawn'] = 'fixed'
        entry['verdict'] = parameter.verdict
        if {target.path for target in targets_of(parameter, stored)} <= absent:
            entry['in_mjcf'] = False
        parameters[parameter.name] = entry
    order = [posterior.parameters[i].name for i in posterior.columns]
    document = {
        'result': str(stored.path),
        'model': main,
        'seed': seed,
        'refused': {'out_of_bounds': drawn.beyond_bounds, 'no_model': drawn.refused},
        'parameters': parameters,
        'correlation': {
            'order': order,
            'matrix': [[_short(value) for value in row] for row in posterior.correlation],
        },
        'samples': {
            file: {
                parameter.name: float(value)
                for parameter, value in zip(posterior.parameters, values, strict=True)
            }
            for file, values in zip(drawn.files, drawn.values, strict=True)
        },
    }
    if posterior.without:
        document['of_recordings'] = list(posterior.without)
    text = yaml.safe_dump(
        document, sort_keys=False, allow_unicode=True, default_flow_style=None, width=10_000
    )
    return _HEAD + text


def _short(value: float, digits: int = 6) -> float:
    return float(f'{value:.{digits}g}')
