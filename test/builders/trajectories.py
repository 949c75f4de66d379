# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Sequences made by a model itself, so that the truth is known."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import mujoco
import numpy as np
from numpy.typing import ArrayLike, NDArray

from sysid_ros.model.targets import make_unknowns
from sysid_ros.signals import SignalType, TimeSeries, Trajectory
from sysid_ros.simulation.prediction import predict


def measure(  # noqa: PLR0913 (what a run is made of)
    model: mujoco.MjModel,
    truth: Mapping[str, float] | None = None,
    *,
    name: str = 'run',
    times: NDArray[np.float64] | None = None,
    commands: TimeSeries | None = None,
    start: tuple[ArrayLike, ArrayLike] | None = None,
    noise: Mapping[str, float] | None = None,
    seed: int | np.random.Generator = 0,
    sampled: bool = False,
) -> Trajectory:
    """Return a run of a model whose targets have their true values.

    Args:
        model: The nominal model; it is not changed.
        truth: Target path to true value, in the target's unit.
        name: Name of the sequence.
        times: (n,) stamps of the measurements, s; 0 to 2 s at 100 Hz unless given.
        commands: Commands of the actuators.
        start: (nq,) initial configuration and (nv,) velocity; ``qpos0`` at rest unless given.
        noise: Sensor name to the standard deviation of added white noise, in its unit.
        seed: Of the noise.
        sampled: Whether forces are read under the command in force.
    """
    stamps = np.arange(0.0, 2.0, 0.01) if times is None else times
    sensors = [model.sensor(index).name for index in range(model.nsensor)]
    empty = np.zeros((len(stamps), len(sensors)))
    qpos, qvel = (model.qpos0, np.zeros(model.nv)) if start is None else start
    run = Trajectory(
        name=name,
        origin_ns=0,
        initial_qpos=np.array(qpos, dtype=np.float64),
        initial_qvel=np.array(qvel, dtype=np.float64),
        commands=() if commands is None else (commands,),
        measurements=(TimeSeries.from_columns(stamps, empty, sensors),),
        sampled=sampled,
    )
    unknowns = [p for path in truth or {} for p in make_unknowns(path, model)]
    values = np.array(list((truth or {}).values()))
    clean = predict(model, [run], unknowns, values, threads=1)[0].channels[0][0]
    sigma = np.array([(noise or {}).get(sensor, 0.0) for sensor in sensors])
    noisy = clean + sigma * np.random.default_rng(seed).standard_normal(clean.shape)
    measured = TimeSeries.from_columns(stamps, noisy, sensors)
    return dataclasses.replace(run, measurements=(measured,))


def sweep(
    *names: str, amplitude: float = 1.0, duration: float = 2.0, offset: float = 0.0
) -> TimeSeries:
    """Return a command of two sines, held between irregular samples."""
    times = np.arange(-0.1, duration, 0.0137)
    phases = np.arange(len(names))
    values = amplitude * (
        np.sin(7.3 * times[:, None] + phases) + 0.6 * np.sin(17.1 * times[:, None] + 2 * phases)
    )
    return TimeSeries.from_columns(times, values + offset, names, SignalType.MjCtrl)
