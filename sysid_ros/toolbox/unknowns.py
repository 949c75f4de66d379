# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Parameters of the toolbox as scalars of the solver, for one model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import mujoco

from sysid_ros.errors import ParameterError
from sysid_ros.model.targets import Target, resolve
from sysid_ros.model.unknown import Unknown

if TYPE_CHECKING:
    from sysid_ros.toolbox.parameter import Parameter, ParameterDict


def unknowns_of(
    params: ParameterDict,
    model: mujoco.MjModel | None = None,
    sequences: Sequence[str] = (),
    *,
    frozen: bool = False,
    spec: mujoco.MjSpec | None = None,
) -> tuple[Unknown, ...]:
    """Return an unknown per component of every parameter that is not frozen.

    Those that are follow where they are asked for, with their value as bounds. Without a model
    there are no targets; default classes are found in the spec that it was compiled from.
    """
    found = []
    for parameter in sorted(params.values(), key=lambda parameter: parameter.frozen):
        if parameter.frozen and not frozen:
            continue
        values = parameter.as_vector()
        low, high = (values, values) if parameter.frozen else parameter.get_bounds()
        targets: list[tuple[Target, ...]] = [()] * parameter.size
        if model is not None:
            targets = component_targets(parameter, model, sequences, spec)
        mean, deviation = (part.reshape(-1) for part in parameter.prior or (values, values))
        for k, name in enumerate(parameter.component_names()):
            prior = (float(mean[k]), float(deviation[k])) if parameter.prior else None
            limits = float(low[k]), float(high[k])
            start = float(values[k])
            found.append(Unknown(name, targets[k], start, *limits, parameter.scale, prior))
    return tuple(found)


def check_targets(
    params: ParameterDict, models: Sequence[tuple[mujoco.MjModel, Sequence[str], mujoco.MjSpec]]
) -> None:
    """Check that every target is found in some model."""
    for parameter in params.values():
        paths = parameter.target or ()
        for path in (paths,) if isinstance(paths, str) else paths:
            if not any(_resolved(path, *known) for known in models):
                resolve(path, *models[0])  # raises, and says why


def component_targets(
    parameter: Parameter,
    model: mujoco.MjModel,
    sequences: Sequence[str] = (),
    spec: mujoco.MjSpec | None = None,
) -> list[tuple[Target, ...]]:
    """Return the targets that each component of a parameter writes in one model.

    A model that has nothing of what a path names is not affected; that some model has is checked
    where all of them are known.
    """
    if parameter.target is None:
        return [()] * parameter.size
    if not isinstance(parameter.target, str):
        return [_resolved(path, model, sequences, spec) for path in parameter.target]
    targets = _resolved(parameter.target, model, sequences, spec)
    if parameter.size == 1 or not targets:
        return [targets] * parameter.size
    if len(targets) % parameter.size:
        raise ParameterError(
            f'Parameter {parameter.name!r} has {parameter.size} components, but target '
            f'{parameter.target!r} names {len(targets)} values; expected one for each component.'
        )
    # Element by element, each with all of its components.
    return [tuple(targets[k :: parameter.size]) for k in range(parameter.size)]


def _resolved(
    path: str, model: mujoco.MjModel, sequences: Sequence[str], spec: mujoco.MjSpec | None
) -> tuple[Target, ...]:
    try:
        return resolve(path, model, sequences, spec)
    except ParameterError:
        return ()
