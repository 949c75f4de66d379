# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The unknowns of an identification."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from sysid_ros.errors import ParameterError
from sysid_ros.identification.targets import resolve

if TYPE_CHECKING:
    from collections.abc import Iterable

    import mujoco

    from sysid_ros.identification.targets import Target

#: Where neither user nor physics bounds a parameter, it may reach this multiple of its start.
_OPEN_BOUND_FACTOR = 100.0
#: … but a delay is not longer than this unless told otherwise, s.
_LONGEST_DELAY = 0.1


Scale = Literal['linear', 'log']


@dataclass(frozen=True)
class Unknown:
    """One scalar unknown: a value, its bounds and what it writes.

    Attributes:
        name: Unique name.
        targets: What the value is written to, at least one, all of the same unit.
        nominal: Start value, in the targets' unit.
        min_value: Lower bound, finite.
        max_value: Upper bound, finite.
        scale: Whether the solver moves the value itself or, for positive values that may be wrong
            by a factor, its logarithm.
        prior: Mean and standard deviation of what is known before the fit, in the value's unit;
            None where only the bounds are known.
    """

    name: str
    targets: tuple[Target, ...]
    nominal: float
    min_value: float
    max_value: float
    scale: Scale = 'linear'
    prior: tuple[float, float] | None = None

    @property
    def unit(self) -> str:
        """SI unit of the value."""
        return self.targets[0].unit


def make_unknowns(
    pattern: str,
    model: mujoco.MjModel,
    *,
    name: str | None = None,
    initial: float | None = None,
    bounds: tuple[float, float] | None = None,
    shared: bool = False,
) -> tuple[Unknown, ...]:
    """Turn a target or a pattern of targets into parameters.

    Args:
        pattern: Target path, with wildcards for several.
        model: The compiled nominal model.
        name: Name of the parameter; with several, a prefix of the elements' names. The default
            is the target's path.
        initial: Start value; the default is the model's.
        bounds: Lower and upper bound; the default is what physics allows.
        shared: One parameter for all matches instead of one for each.

    Raises:
        ParameterError: Nothing matches, matches of different units are shared, bounds are
            reversed, or the start is outside of them.
    """
    targets = resolve(pattern, model)
    if shared:
        units = list(dict.fromkeys(target.unit for target in targets))
        if len(units) > 1:
            found = ', '.join(units)
            msg = f'The matches of {pattern!r} cannot share a value of different units: {found}.'
            raise ParameterError(msg)
        groups = [(name or pattern, targets)]
    elif len(targets) == 1:
        groups = [(name or targets[0].path, targets)]
    else:
        groups = [(f'{name}/{t.name}' if name else t.path, (t,)) for t in targets]
    return tuple(_parameter(name, group, model, initial, bounds) for name, group in groups)


def _parameter(
    name: str,
    targets: tuple[Target, ...],
    model: mujoco.MjModel,
    initial: float | None,
    bounds: tuple[float, float] | None,
) -> Unknown:
    values = [target.read(model) for target in targets]
    nominal = float(sum(values) / len(values)) if initial is None else float(initial)
    physical_low, physical_high = targets[0].kind.bounds
    span = _OPEN_BOUND_FACTOR * max(abs(nominal), 1.0)
    if not targets[0].in_model:
        span = max(_LONGEST_DELAY, 2 * nominal)
    low, high = bounds or (max(physical_low, -span), min(physical_high, span))
    if not (math.isfinite(low) and math.isfinite(high) and math.isfinite(nominal)):
        msg = (
            f'Parameter {name!r} needs finite bounds and start, got [{low}, {high}] and {nominal}.'
        )
        raise ParameterError(msg)
    if low >= high:
        msg = (
            f'The bounds of parameter {name!r} are reversed: '
            f'expected lower < upper, got [{low:g}, {high:g}].'
        )
        raise ParameterError(msg)
    if low < physical_low or high > physical_high:
        msg = (
            f'The bounds [{low:g}, {high:g}] of parameter {name!r} leave what is physical: '
            f'[{physical_low:g}, {physical_high:g}].'
        )
        raise ParameterError(msg)
    if not low <= nominal <= high:
        origin = "the model's value" if initial is None else 'initial'
        msg = (
            f'Parameter {name!r} starts at {nominal:g} ({origin}), '
            f'outside its bounds [{low:g}, {high:g}].'
        )
        raise ParameterError(msg)
    return Unknown(name, targets, nominal, low, high)


def check_distinct(parameters: Iterable[Unknown]) -> None:
    """Check that names are unique and that no target is written twice.

    Raises:
        ParameterError: Two parameters share a name or a target.
    """
    names: set[str] = set()
    writers: dict[str, str] = {}
    for parameter in parameters:
        if parameter.name in names:
            msg = f'Two parameters are named {parameter.name!r}; give one of them another name.'
            raise ParameterError(msg)
        names.add(parameter.name)
        for target in parameter.targets:
            if target.path in writers:
                msg = (
                    f'Target {target.path!r} is written by two parameters, '
                    f'{writers[target.path]!r} and {parameter.name!r}.'
                )
                raise ParameterError(msg)
            writers[target.path] = parameter.name
