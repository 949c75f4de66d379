# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The toolbox's published five-joint arm, the same with seven joints, and its sensors' faults."""

from __future__ import annotations

from typing import Any

import mujoco
import numpy as np
from numpy.typing import NDArray

from cases.case import Case, Free, Recording, Signals, initial_state, record, scalars

SECONDS = 2.0
TIMESTEP = 0.002
START, BOUNDS = 0.01, (0.01, 0.6)
NOISE = 0.6  # rad, as in the toolbox's published tutorial: motions here are many turns
SEQUENCES = 20
JOINTS = 5

_AXES = ('0 0 1', '0 1 0', '0 1 0', '0 0 1', '0 1 0', '0 0 1', '0 1 0')
_LENGTHS = (0.1, 0.1, 0.1, 0.08, 0.06, 0.05, 0.04)
_MASSES = (1.0, 0.8, 0.6, 0.4, 0.2, 0.15, 0.1)
_INERTIAS = (0.01, 0.008, 0.006, 0.004, 0.002, 0.0015, 0.001)
_DAMPINGS = (1.0, 0.8, 0.6, 0.4, 0.2, 0.15, 0.1)
_ARMATURES = (0.5, 0.4, 0.3, 0.2, 0.1, 0.08, 0.06)
_TORQUES = (5.0, 4.0, 3.0, 2.0, 1.0, 0.8, 0.6)
_FREQUENCIES = (0.5, 0.7, 0.4, 0.9, 0.6, 0.8, 1.1)
_PHASES = (0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0)

_GAIN, _BIAS, _DELAY = (0.5, 2.0), (-1.0, 1.0), (0.0, 0.05)


def make_spec(joints: int = JOINTS, *, velocities: bool = False) -> mujoco.MjSpec:
    """Return the arm with every armature at the start value."""
    opening, closing, above = '', '', 0.0
    for k in range(joints):
        inertia = _INERTIAS[k]
        opening += (
            f'<body pos="0 0 {above}"><inertial mass="{_MASSES[k]}" pos="0 0 {_LENGTHS[k] / 2}" '
            f'diaginertia="{inertia} {inertia} {inertia / 2}"/>'
            f'<joint name="joint{k}" axis="{_AXES[k]}" damping="{_DAMPINGS[k]}" '
            f'armature="{START}"/>'
        )
        closing += '</body>'
        above = _LENGTHS[k]
    motors = ''.join(f'<motor name="motor{k}" joint="joint{k}"/>' for k in range(joints))
    kinds = ('jointpos', 'jointvel') if velocities else ('jointpos',)
    sensors = ''.join(
        f'<{kind} name="{kind}{k}" joint="joint{k}"/>' for kind in kinds for k in range(joints)
    )
    return mujoco.MjSpec.from_string(
        f'<mujoco><option timestep="{TIMESTEP}" integrator="implicitfast"/>'
        f'<worldbody>{opening}{closing}</worldbody>'
        f'<actuator>{motors}</actuator><sensor>{sensors}</sensor></mujoco>'
    )


def torques(joints: int, seconds: float, *, phase: float = 0.0) -> NDArray[np.float64]:
    """Return the tutorial's (n, joints) torques at 500 Hz, N·m, in another phase if told so."""
    times = np.arange(round(seconds / TIMESTEP) + 1)[:, None] * TIMESTEP
    waves = 2 * np.pi * np.array(_FREQUENCIES[:joints]) * times + np.array(_PHASES[:joints])
    made: NDArray[np.float64] = np.array(_TORQUES[:joints]) * np.sin(waves + phase)
    return made


def armatures(joints: int = JOINTS) -> tuple[Free, ...]:
    """Return the unknowns of the tutorial: armatures that start on their bound."""
    names = [f'joint{k}' for k in range(joints)]
    return scalars(names, _ARMATURES[:joints], np.full(joints, START), BOUNDS, attribute='armature')


def recordings(
    count: int, *, joints: int = JOINTS, seconds: float = SECONDS
) -> tuple[Recording, ...]:
    """Return recordings that differ in the phase of the torques."""
    spec = make_spec(joints)
    for k in range(joints):
        spec.joint(f'joint{k}').armature = _ARMATURES[k]
    model = spec.compile()
    state = initial_state(model)
    return tuple(
        record(model, state, torques(joints, seconds, phase=2 * np.pi * k / count))
        for k in range(count)
    )


def armature_case(
    key: str,
    title: str,
    required: float,
    *,
    count: int = 1,
    seconds: float = SECONDS,
) -> Case:
    """Return the five armatures from a number of sequences."""
    return Case(
        key,
        title,
        required,
        make_spec,
        armatures(),
        recordings(count, seconds=seconds),
        np.full(JOINTS, NOISE),
    )


def signal_case() -> Case:
    """Return gain, bias and delay of each of ten sensors; the model itself is known."""
    free: list[Free] = []
    sensors = [f'{kind}{k}' for kind in ('jointpos', 'jointvel') for k in range(JOINTS)]
    random = np.random.default_rng(7)
    for sensor in sensors:
        free += [
            _scalar(f'{sensor}/gain', 1.0, _GAIN, random.uniform(0.8, 1.25)),
            _scalar(f'{sensor}/bias', 0.0, _BIAS, random.uniform(-0.3, 0.3)),
            _scalar(f'{sensor}/delay', 0.01, _DELAY, random.uniform(0.004, 0.03)),
        ]

    def make() -> mujoco.MjSpec:
        spec = make_spec(velocities=True)
        for k in range(JOINTS):
            spec.joint(f'joint{k}').armature = _ARMATURES[k]
        return spec

    def signals(values: NDArray[np.float64]) -> Signals:
        return Signals(*values.reshape(-1, 3).T)

    def transform(sysid: Any, parameters: Any) -> Any:
        made = sysid.SignalTransform()
        for sensor in sensors:
            made.gain(sensor, parameters[f'{sensor}/gain'], target='predicted')
            made.bias(sensor, parameters[f'{sensor}/bias'], target='predicted')
            made.delay(sensor, parameters[f'{sensor}/delay'])
        return made

    truth = np.concatenate([parameter.truth for parameter in free])
    noise = np.repeat([0.02, 0.05], JOINTS)
    model = make().compile()
    recording = record(model, initial_state(model), torques(JOINTS, SECONDS), signals(truth))
    return Case(
        'e',
        'gain, bias, delay of 10 sensors',
        4.0,
        make,
        tuple(free),
        (recording,),
        noise,
        signals=signals,
        transform=transform,
    )


def _scalar(name: str, start: float, bounds: tuple[float, float], truth: float) -> Free:
    low, high = bounds
    return Free(name, np.array([start]), np.array([low]), np.array([high]), np.array([truth]))
