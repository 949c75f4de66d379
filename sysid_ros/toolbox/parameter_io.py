# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Parameters in YAML files that MuJoCo's toolbox writes and reads too.

A file maps names to ``name``, ``nominal``, ``min_value``, ``max_value``, ``value`` and ``frozen``,
as there. What only this package knows is added where it is not the default: ``target``, ``unit``,
``prior``, ``scale``, ``inertia_type``, ``scale_rot_inertia``. The toolbox passes over those.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import yaml

from sysid_ros.errors import ParameterError, nearest
from sysid_ros.files import replace_file
from sysid_ros.toolbox.single_parameter import InertiaType, Parameter

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_NEEDED = ('name', 'nominal', 'min_value', 'max_value', 'value', 'frozen')


def write(path: Path, parameters: Mapping[str, Parameter]) -> None:
    """Write parameters.

    Raises:
        ResultError: The file cannot be written.
    """
    content = {name: _entry(parameter) for name, parameter in parameters.items()}
    text = yaml.safe_dump(content, default_flow_style=False, allow_unicode=True, sort_keys=False)
    replace_file(path, text.encode())


def read(path: Path) -> dict[str, Parameter]:
    """Read parameters; they have no modifiers.

    Raises:
        ParameterError: There is no such file, or it does not hold parameters.
    """
    if not path.is_file():
        siblings = [entry.name for entry in path.parent.glob('*.y*ml')]
        msg = f'No parameter file {str(path)!r}; {nearest(path.name, sorted(siblings))}.'
        raise ParameterError(msg)
    try:
        content = yaml.safe_load(path.read_text('utf-8'))
    except (yaml.YAMLError, UnicodeDecodeError) as err:
        clause = ' '.join(str(err).split())
        msg = f'The parameter file {str(path)!r} is not YAML: {clause}.'
        raise ParameterError(msg) from err
    if not isinstance(content, dict):
        found = type(content).__name__
        msg = f'Expected a mapping of names to parameters in {str(path)!r}, found {found}.'
        raise ParameterError(msg)
    return {str(name): _parameter(str(name), entry, path) for name, entry in content.items()}


def _entry(parameter: Parameter) -> dict[str, Any]:
    entry: dict[str, Any] = {
        'name': parameter.name,
        'nominal': parameter.nominal.tolist(),
        'min_value': parameter.min_value.tolist(),
        'max_value': parameter.max_value.tolist(),
        'value': parameter.value.tolist(),
        'frozen': bool(parameter.frozen),
    }
    if parameter.target is not None:
        target = parameter.target
        entry['target'] = target if isinstance(target, str) else list(target)
    if parameter.unit:
        entry['unit'] = parameter.unit
    if parameter.prior is not None:
        entry['prior'] = [np.asarray(part).tolist() for part in parameter.prior]
    if parameter.scale != 'linear':
        entry['scale'] = parameter.scale
    if parameter.inertia_type is not None:
        entry['inertia_type'] = parameter.inertia_type.name
        entry['scale_rot_inertia'] = bool(parameter.scale_rot_inertia)
    return entry


def _parameter(name: str, entry: Any, path: Path) -> Parameter:
    missing = [key for key in _NEEDED if not isinstance(entry, dict) or key not in entry]
    if missing:
        msg = (
            f'Parameter {name!r} in {str(path)!r} lacks {missing[0]!r}; '
            f'expected {", ".join(_NEEDED)}.'
        )
        raise ParameterError(msg)
    parameter = Parameter(
        str(entry['name']),
        entry['nominal'],
        entry['min_value'],
        entry['max_value'],
        bool(entry['frozen']),
        target=entry.get('target'),
        unit=str(entry.get('unit', '')),
        prior=_prior(name, entry.get('prior')),
        scale=entry.get('scale', 'linear'),
    )
    parameter.value = entry['value']
    kind = entry.get('inertia_type')
    if kind is not None:
        if kind not in InertiaType.__members__:
            choices = nearest(str(kind), InertiaType.__members__)
            msg = f'Unknown inertia type {kind!r} of parameter {name!r}; {choices}.'
            raise ParameterError(msg)
        parameter.inertia_type = InertiaType[kind]
        parameter.scale_rot_inertia = bool(entry.get('scale_rot_inertia', False))
    return parameter


def _prior(name: str, prior: Any) -> tuple[Any, Any] | None:
    if prior is None:
        return None
    if not isinstance(prior, list) or len(prior) != 2:  # noqa: PLR2004 (mean and deviation)
        msg = f'Expected [mean, standard deviation] as prior of {name!r}, found {prior!r}.'
        raise ParameterError(msg)
    return prior[0], prior[1]
