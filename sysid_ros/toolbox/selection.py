# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Which signals of a model's sequences count, and by how much."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sysid_ros.errors import FitError, nearest
from sysid_ros.signals import SignalType, TimeSeries

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sysid_ros.toolbox.trajectory import ModelSequences

#: Names of signals, or ``(name, type)`` pairs; for several models also by the model's name.
Observations = Any
#: Signal name to a factor; for several models also by the model's name.
Weights = Any


def observed(observations: Observations, model: str) -> list[str] | None:
    """Return the names of the signals that count for a model; None for all.

    Args:
        observations: Names or ``(name, SignalType)`` pairs, or name of a model to those.
        model: The model's name.
    """
    return [name for name, _ in _pairs(observations, model)] or None


def weights_of(weights: Weights, model: str) -> dict[str, float]:
    """Return the factor on each signal of a model that has one.

    Args:
        weights: Signal name to a factor, or name of a model to such a mapping.
        model: The model's name.
    """
    given = dict(weights or {})
    if any(hasattr(value, 'keys') for value in given.values()):
        return dict(given.get(model, {}))
    return given


def check_selection(
    groups: Sequence[ModelSequences], observations: Observations, weights: Weights
) -> None:
    """Check that what was chosen is what was measured.

    Args:
        groups: The models and their sequences.
        observations: See `observed`.
        weights: See `weights_of`.

    Raises:
        FitError: None of the models or no such signal is here, a signal is of another type, or a
            weight is not a finite number of 0 or more.
    """
    names = [group.name for group in groups]
    per_model = any(hasattr(value, 'keys') for value in dict(weights or {}).values())
    if per_model:
        _check_names('sensor_weights', dict(weights), names)
    if hasattr(observations, 'keys'):
        _check_names('enabled_observations', observations, names)
    signals = {group.name: _signals(group) for group in groups}
    every = [signal for some in signals.values() for signal in some]
    for group in groups:
        for name, kind in _pairs(observations, group.name):
            found = signals[group.name].get(name)
            if kind is not None and found is not None and found is not kind:
                msg = (
                    f'Signal {name!r} is of type {found.name}, but enabled_observations has it '
                    f'as {kind.name}.'
                )
                raise FitError(msg)
        for name, weight in weights_of(weights, group.name).items():
            known = list(signals[group.name]) if per_model else every
            if name not in known:
                msg = f'There is no signal {name!r} to weight; {nearest(name, known)}.'
                raise FitError(msg)
            if not (np.ndim(weight) == 0 and np.isfinite(weight) and weight >= 0):
                msg = f'Expected a weight of signal {name!r} of 0 or more, found {weight!r}.'
                raise FitError(msg)


def _pairs(observations: Observations, model: str) -> list[tuple[str, SignalType | None]]:
    chosen: Any = observations or ()
    if hasattr(chosen, 'keys'):
        chosen = chosen.get(model, ())
    return [(entry, None) if isinstance(entry, str) else (entry[0], entry[1]) for entry in chosen]


def _signals(group: ModelSequences) -> Mapping[str, SignalType]:
    """Return the sensors of a model, and what else was measured of it."""
    found = {
        name: kind
        for name, (kind, _) in TimeSeries.compute_all_sensor_mapping(group.gt_model).items()
    }
    for trajectory in group.measured_rollout:
        found |= {name: kind for name, (kind, _) in trajectory.sensordata.signal_mapping.items()}
    return found


def _check_names(option: str, given: Mapping[str, object], models: list[str]) -> None:
    if given and not any(name in models for name in given):
        name = next(iter(given))
        msg = f'{option} names the model {name!r}, which is not here; {nearest(name, models)}.'
        raise FitError(msg)
