# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What a model and its parameters predict for sequences, compiled again only where it has to be."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import mujoco
import numpy as np
from numpy.typing import NDArray

from sysid_ros.errors import FitError
from sysid_ros.model.candidates import Rebuild, writable_model
from sysid_ros.model.kinds import Role
from sysid_ros.model.targets import Unknown
from sysid_ros.rollout.drives import Drives
from sysid_ros.rollout.inverse import InverseSimulator
from sysid_ros.rollout.measurement import measurement_models
from sysid_ros.rollout.simulation import Prediction, Simulator
from sysid_ros.signals import Trajectory


def make_simulator(
    model: mujoco.MjModel | mujoco.MjSpec,
    unknowns: Sequence[Unknown],
    sequences: Sequence[Trajectory],
    threads: int = 0,
    *,
    drives: Drives | None = None,
) -> Simulator:
    """Return what simulates candidates or, where all motions are prescribed, the forces along them.

    Args:
        model: A spec, or what it compiled to if no unknown needs another compilation.
        unknowns: What a candidate's values are.
        sequences: What is simulated.
        threads: Size of the pool; 0 means one per core.
        drives: Which actuators are driven by laws that MuJoCo lacks; their commands are goals.

    Raises:
        FitError: An unknown needs the spec, or a sequence does not fit the model.
        ModelError: The spec does not compile.
        ParameterError: An unknown is a number of a law that is not there, or one of the model that
            a law decides.
    """
    prescribed = bool(sequences) and all(sequence.motion is not None for sequence in sequences)
    kind = InverseSimulator if prescribed else Simulator
    # A negative delay of a sensor looks beyond the last sample.
    lead = 0.0
    for unknown in unknowns:
        if any(t.role is Role.SENSOR and t.attribute == 'delay' for t in unknown.targets):
            lead = max(lead, -unknown.min_value)
    if isinstance(model, mujoco.MjModel):
        for unknown in unknowns:
            if any(target.role is Role.SPEC for target in unknown.targets):
                raise FitError(
                    f'Parameter {unknown.name!r} is read by the compiler: expected the spec of the '
                    'model, found a compiled model.'
                )
        return kind(model, unknowns, sequences, threads, lead=lead, drives=drives)
    rebuild = Rebuild(model, unknowns)
    build = rebuild if rebuild.columns else None
    compiled = (
        rebuild(np.array([unknown.nominal for unknown in unknowns]))
        if build
        else writable_model(model, [target for u in unknowns for target in u.targets])
    )
    return kind(compiled, unknowns, sequences, threads, build=build, lead=lead, drives=drives)


def predict(
    model: mujoco.MjModel | mujoco.MjSpec,
    sequences: Sequence[Trajectory],
    parameters: Sequence[Unknown] = (),
    values: NDArray[np.float64] | None = None,
    threads: int = 0,
    *,
    drives: Drives | None = None,
) -> tuple[Prediction, ...]:
    """Simulate sequences with a model as it is, or with parameters set to (p,) values.

    What belongs to sequences that are not among these is ignored; other arguments are those of
    `make_simulator`.

    Returns:
        One prediction per sequence, of a single candidate: what sensors with their gains, biases
        and delays say; NaN at instants when they would describe a time before the start.

    Raises:
        FitError: A parameter needs the spec, or a sequence does not fit the model.
    """
    x = np.zeros(0) if values is None else values
    each = predict_each(model, sequences, parameters, x[None], threads, drives=drives)
    found = {
        run: Prediction(tuple(channel[None] for channel in channels), np.array([diverged]))
        for run, _, channels, diverged in each
    }
    return tuple(found[index] for index in range(len(found)))


def predict_each(
    model: mujoco.MjModel | mujoco.MjSpec,
    sequences: Sequence[Trajectory],
    parameters: Sequence[Unknown],
    candidates: NDArray[np.float64],
    threads: int = 0,
    *,
    drives: Drives | None = None,
) -> Iterator[tuple[int, int, tuple[NDArray[np.float64], ...], bool]]:
    """Simulate sequences with (m, p) candidates, as `predict` does with one.

    Yields:
        Index of the sequence and of the candidate, the (n, width) predictions of each of its series
        of measurements, and whether the simulation became unstable; those of a sequence in the
        order of the candidates.
    """
    laws = measurement_models(parameters)
    with make_simulator(model, parameters, sequences, threads, drives=drives) as simulator:
        every = np.arange(len(candidates))
        for block in simulator.simulate(candidates, [every] * len(simulator.runs)):
            for place, candidate in enumerate(block.candidates.tolist()):
                rows = {field: values[place] for field, values in block.rows.items()}
                x, channels = candidates[candidate], []
                for bare in simulator.runs[block.run].readings:
                    readings = bare.under(laws)
                    delays = np.array(
                        [0.0 if law.delay is None else x[law.delay] for law in readings.laws]
                    )
                    early = (readings.times[:, None] - delays < 0) & (delays > 0)
                    channels.append(np.where(early, np.nan, readings.predicted(rows, x)))
                yield block.run, candidate, tuple(channels), bool(block.diverged[place])
