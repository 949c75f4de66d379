# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The unknowns of an identification."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from sysid_ros.errors import ParameterError
from sysid_ros.model.targets import Role, resolve

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import mujoco

    from sysid_ros.model.targets import Target
    from sysid_ros.signals.trajectory import Trajectory

#: Where neither user nor physics bounds a parameter, it may reach this multiple of its start.
_OPEN_BOUND_FACTOR = 100.0


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

    @property
    def of_single_runs(self) -> bool:
        """Whether it describes single runs, as where they start, rather than the robot."""
        return bool(self.targets) and all(t.role is Role.SEQUENCE for t in self.targets)


def make_unknowns(  # noqa: PLR0913 (one per entry of a calibration file)
    pattern: str,
    model: mujoco.MjModel,
    *,
    name: str | None = None,
    initial: float | None = None,
    bounds: tuple[float, float] | None = None,
    shared: bool = False,
    scale: Scale = 'linear',
    prior: tuple[float, float] | None = None,
    sequences: Iterable[str | Trajectory] = (),
    spec: mujoco.MjSpec | None = None,
    usual: Callable[[Target], tuple[float, float, float] | None] = lambda _: None,
) -> tuple[Unknown, ...]:
    """Turn a target or a pattern of targets into parameters.

    Args:
        pattern: Target path, with wildcards for several.
        model: The compiled nominal model.
        name: Name of the parameter; with several elements, a prefix of their names, and with
            several components of each, followed by the index. The default is the target's path.
        initial: Start value; the default is the model's.
        bounds: Lower and upper bound; the default is what physics allows.
        shared: One parameter for all matching elements instead of one for each; components of a
            vector stay apart.
        scale: Whether the solver moves the value or its logarithm.
        prior: Mean and standard deviation of what is known before the fit.
        sequences: Runs whose starts can be named.
        spec: What the model was compiled from, for default classes and what the compiler reads.
        usual: Start and bounds of targets that no model holds; None for others.

    Raises:
        ParameterError: Nothing matches, matches of different units are shared, bounds are
            reversed, the start is outside of them, a value on a log scale can be zero, or the
            standard deviation of a prior is not positive.
    """
    targets = resolve(pattern, model, sequences, spec)
    elements = list(dict.fromkeys(target.name for target in targets))
    vector = len(targets) > len(elements)
    groups: dict[str, list[Target]] = {}
    for target in targets:
        groups.setdefault(_name(target, pattern, name, shared, len(elements), vector), []).append(
            target
        )
    if shared:
        for group in groups.values():
            units = list(dict.fromkeys(target.unit for target in group))
            if len(units) > 1:
                found = ', '.join(units)
                msg = (
                    f'The matches of {pattern!r} cannot share a value of different units: {found}.'
                )
                raise ParameterError(msg)
    return tuple(
        _parameter(label, tuple(group), model, initial, bounds, scale, prior, usual)
        for label, group in groups.items()
    )


def _name(
    target: Target, pattern: str, name: str | None, shared: bool, elements: int, vector: bool
) -> str:
    index = '' if not vector else f'[{target.index or 0}]'
    if shared:
        stem = pattern[: pattern.rindex('[')] if vector and pattern.endswith(']') else pattern
        return f'{name or stem}{index}'
    if name is None:
        return target.path
    return f'{name}{index}' if elements == 1 else f'{name}/{target.name}{index}'


def _parameter(
    name: str,
    targets: tuple[Target, ...],
    model: mujoco.MjModel,
    initial: float | None,
    bounds: tuple[float, float] | None,
    scale: Scale,
    prior: tuple[float, float] | None,
    usual: Callable[[Target], tuple[float, float, float] | None],
) -> Unknown:
    known = usual(targets[0])
    if known is not None:
        initial = known[0] if initial is None else initial
        bounds = bounds or (min(known[1], initial), max(known[2], initial))
    if initial is None:
        values = [target.read(model) for target in targets]
        nominal = float(sum(values) / len(values))
    else:
        nominal = float(initial)
    physical_low, physical_high = targets[0].bounds
    low, high = bounds or _default_bounds(targets[0], nominal, scale)
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
    if scale == 'log' and low <= 0:
        msg = (
            f'Parameter {name!r} has a log scale: expected bounds above 0, got [{low:g}, {high:g}].'
        )
        raise ParameterError(msg)
    if prior is not None and not (math.isfinite(prior[0]) and 0 < prior[1] < math.inf):
        msg = (
            f'The prior of parameter {name!r} needs a finite mean and a standard deviation above '
            f'0, got {prior[0]:g} and {prior[1]:g}.'
        )
        raise ParameterError(msg)
    return Unknown(name, targets, nominal, low, high, scale, prior)


def _default_bounds(target: Target, nominal: float, scale: Scale) -> tuple[float, float]:
    """Return bounds for a parameter that has none: what physics allows, made finite."""
    physical_low, physical_high = target.bounds
    if scale == 'log' and nominal > 0:
        low, high = nominal / _OPEN_BOUND_FACTOR, nominal * _OPEN_BOUND_FACTOR
    elif target.kind.reach is not None:
        low, high = target.kind.reach(nominal, target.index or 0)
    else:
        high = _OPEN_BOUND_FACTOR * max(abs(nominal), 1.0)
        low = -high
    return max(physical_low, low), min(physical_high, high)


def check_distinct(parameters: Iterable[Unknown], model: mujoco.MjModel | None = None) -> None:
    """Check that names are unique and that nothing is written twice.

    Args:
        parameters: The unknowns.
        model: The compiled model, with which also targets of different kinds that write the same
            number are found: ``actuator/a/kp`` and ``actuator/a/gainprm``.

    Raises:
        ParameterError: Two parameters share a name, a target or a number of the model.
    """
    names: set[str] = set()
    paths: dict[str, str] = {}
    taken: dict[tuple[str, int], tuple[str, str, str]] = {}
    for parameter in parameters:
        if parameter.name in names:
            msg = f'Two parameters are named {parameter.name!r}; give one of them another name.'
            raise ParameterError(msg)
        names.add(parameter.name)
        for target in parameter.targets:
            if paths.setdefault(target.path, parameter.name) != parameter.name:
                msg = (
                    f'Target {target.path!r} is written by two parameters, '
                    f'{paths[target.path]!r} and {parameter.name!r}.'
                )
                raise ParameterError(msg)
            for place, claim in (target.claims(model) if model else {}).items():
                other, path, owner = taken.setdefault(place, (claim, target.path, parameter.name))
                if other != claim:
                    msg = (
                        f'Parameters {owner!r} and {parameter.name!r} write the same number '
                        f'of the model, as {path!r} and as {target.path!r}.'
                    )
                    raise ParameterError(msg)
