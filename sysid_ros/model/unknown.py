# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The unknowns of an identification."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import mujoco

from sysid_ros.config.calibration import Scale
from sysid_ros.errors import ParameterError
from sysid_ros.model.targets import Role, Target, resolve
from sysid_ros.signals.trajectory import Trajectory

#: Where neither user nor physics bounds a parameter, it may reach this multiple of its start.
_OPEN_BOUND_FACTOR = 100.0


@dataclass(frozen=True)
class Unknown:
    """One scalar unknown: a value, its bounds and what it writes, all in the targets' unit."""

    name: str  # unique
    targets: tuple[Target, ...]  # at least one, all of the same unit
    nominal: float  # start value
    min_value: float  # finite
    max_value: float  # finite
    #: Whether the solver moves the value itself or, for positive values that may be wrong by a
    #: factor, its logarithm.
    scale: Scale = 'linear'
    prior: tuple[float, float] | None = None  # mean and standard deviation known before the fit
    #: Of a delay, between which delays the command acts that forces are read under; None where the
    #: delay itself says which.
    in_force: tuple[float, float] | None = None

    @property
    def unit(self) -> str:
        """SI unit of the value."""
        return self.targets[0].unit

    @property
    def of_single_runs(self) -> bool:
        """Whether it describes single runs, as where they start, rather than the robot."""
        return bool(self.targets) and all(t.role is Role.SEQUENCE for t in self.targets)


@dataclass(frozen=True)
class Scope:
    """Where the targets of a pattern are looked for."""

    model: mujoco.MjModel  # nominal
    spec: mujoco.MjSpec | None = None  # what it was compiled from, for what the compiler reads
    sequences: Sequence[str | Trajectory] = ()  # runs whose starts can be named
    #: Start and bounds of targets that no model holds; None for others.
    usual: Callable[[Target], tuple[float, float, float] | None] = lambda _: None


def make_unknowns(
    pattern: str,
    scope: Scope | mujoco.MjModel,
    *,
    name: str | None = None,
    initial: float | None = None,
    bounds: tuple[float, float] | None = None,
    shared: bool = False,
    scale: Scale = 'linear',
    prior: tuple[float | None, float] | None = None,
) -> tuple[Unknown, ...]:
    """Turn a target or a pattern of targets into parameters.

    Args:
        pattern: Target path, with wildcards for several.
        scope: Where it is looked for; a compiled model is enough for its own numbers.
        name: Name of the parameter; with several elements, a prefix of their names, and with
            several components of each, followed by the index. The default is the target's path.
        initial: Start value; the default is the model's.
        bounds: Lower and upper bound; the default is what physics allows.
        shared: One parameter for all matching elements instead of one for each; components of a
            vector stay apart.
        scale: Whether the solver moves the value or its logarithm.
        prior: Mean and standard deviation of what is known before the fit; a mean of None is the
            start value.

    Raises:
        ParameterError: Nothing matches, matches of different units are shared, bounds are
            reversed, the start is outside of them, a value on a log scale can be zero, or the
            standard deviation of a prior is not positive.
    """
    where = scope if isinstance(scope, Scope) else Scope(scope)
    targets = resolve(pattern, where.model, where.sequences, where.spec)
    elements = list(dict.fromkeys(target.name for target in targets))
    vector = len(targets) > len(elements)
    groups: dict[str, list[Target]] = {}
    for target in targets:
        index = f'[{target.index or 0}]' if vector else ''
        label = target.path
        if shared:
            stem = pattern[: pattern.rindex('[')] if vector and pattern.endswith(']') else pattern
            label = f'{name or stem}{index}'
        elif name is not None:
            label = f'{name}{index}' if len(elements) == 1 else f'{name}/{target.name}{index}'
        groups.setdefault(label, []).append(target)
    found = []
    for label, group in groups.items():
        units = list(dict.fromkeys(target.unit for target in group))
        if len(units) > 1:
            raise ParameterError(
                f'The matches of {pattern!r} cannot share a value of different units: '
                f'{", ".join(units)}.'
            )
        start, limits, usual = initial, bounds, where.usual(group[0])
        if usual is not None:
            start = usual[0] if start is None else start
            limits = limits or (min(usual[1], start), max(usual[2], start))
        if start is None:
            nominal = float(sum(target.read(where.model) for target in group) / len(group))
        else:
            nominal = float(start)
        low, high = limits or _default_bounds(group[0], nominal, scale)
        known = None if prior is None else (nominal if prior[0] is None else prior[0], prior[1])
        unknown = Unknown(label, tuple(group), nominal, low, high, scale, known)
        _check_values(unknown, "the model's value" if start is None else 'initial')
        found.append(unknown)
    return tuple(found)


def _check_values(unknown: Unknown, origin: str) -> None:
    """Check start, bounds and prior of an unknown; ``origin`` says where its start is from."""
    name, nominal = unknown.name, unknown.nominal
    low, high = unknown.min_value, unknown.max_value
    least, most = unknown.targets[0].bounds
    mean, deviation = unknown.prior or (0.0, 1.0)
    if not (math.isfinite(low) and math.isfinite(high) and math.isfinite(nominal)):
        wrong = (
            f'Parameter {name!r} needs finite bounds and start, got [{low:g}, {high:g}] and '
            f'{nominal}.'
        )
    elif low >= high:
        wrong = (
            f'The bounds of parameter {name!r} are reversed: expected lower < upper, got '
            f'[{low:g}, {high:g}].'
        )
    elif low < least or high > most:
        wrong = (
            f'The bounds [{low:g}, {high:g}] of parameter {name!r} leave what is physical: '
            f'[{least:g}, {most:g}].'
        )
    elif not low <= nominal <= high:
        wrong = (
            f'Parameter {name!r} starts at {nominal:g} ({origin}), outside its bounds '
            f'[{low:g}, {high:g}].'
        )
    elif unknown.scale == 'log' and low <= 0:
        wrong = (
            f'Parameter {name!r} has a log scale: expected bounds above 0, got [{low:g}, {high:g}].'
        )
    elif not (math.isfinite(mean) and 0 < deviation < math.inf):
        wrong = (
            f'The prior of parameter {name!r} needs a finite mean and a standard deviation above '
            f'0, got {mean:g} and {deviation:g}.'
        )
    else:
        return
    raise ParameterError(wrong)


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

    With a compiled model, targets of different kinds that write the same number are found, too:
    ``actuator/a/kp`` and ``actuator/a/gainprm``.
    """
    names: set[str] = set()
    paths: dict[str, str] = {}
    taken: dict[tuple[str, int], tuple[str, str, str]] = {}
    for parameter in parameters:
        if parameter.name in names:
            raise ParameterError(
                f'Two parameters are named {parameter.name!r}; give one of them another name.'
            )
        names.add(parameter.name)
        for target in parameter.targets:
            if paths.setdefault(target.path, parameter.name) != parameter.name:
                raise ParameterError(
                    f'Target {target.path!r} is written by two parameters, '
                    f'{paths[target.path]!r} and {parameter.name!r}.'
                )
            for place, claim in (target.claims(model) if model else {}).items():
                other, path, owner = taken.setdefault(place, (claim, target.path, parameter.name))
                if other != claim:
                    raise ParameterError(
                        f'Parameters {owner!r} and {parameter.name!r} write the same number '
                        f'of the model, as {path!r} and as {target.path!r}.'
                    )
