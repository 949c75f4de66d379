# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Five armatures of a five-joint arm: our fit and MuJoCo's own sysid toolbox, taking turns.

Both get the same model, start, bounds, commands and noisy positions, and all cores. They do not do
the same work. Ours estimates the noise of each sensor and repeats the fit with it, ends with
intervals, writes candidates into compiled models, holds commands between samples, and stamps a
prediction with the time of the state that it describes. The toolbox fits once, each signal's
residuals divided by its norm, recompiles the model for each candidate, interpolates commands
linearly, and stamps predictions one timestep later. The time is that of the call that a user makes,
without imports and reading files.
"""

from __future__ import annotations

import contextlib
import io
import logging
import os
import platform
import statistics
import time
from typing import TYPE_CHECKING, NamedTuple

import mujoco
import numpy as np
from mujoco import rollout

from sysid_ros.identification.fit import fit
from sysid_ros.identification.sequence import Sequence
from sysid_ros.identification.unknown import make_unknowns
from sysid_ros.signals import SignalType, TimeSeries

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

RUNS = 7
SECONDS = 2.0
TRUTH = np.array([0.5, 0.4, 0.3, 0.2, 0.1])
START, BOUNDS = 0.01, (0.01, 0.6)
NOISE = 0.6  # rad, as in the toolbox's published tutorial: motions here are many turns

_AXES = ('0 0 1', '0 1 0', '0 1 0', '0 0 1', '0 1 0')
_LENGTHS = (0.1, 0.1, 0.1, 0.08, 0.06)
_MASSES = (1.0, 0.8, 0.6, 0.4, 0.2)
_INERTIAS = (0.01, 0.008, 0.006, 0.004, 0.002)
_DAMPINGS = (1.0, 0.8, 0.6, 0.4, 0.2)
_TORQUES = (5.0, 4.0, 3.0, 2.0, 1.0)
_FREQUENCIES = (0.5, 0.7, 0.4, 0.9, 0.6)
_PHASES = (0.0, 0.5, 1.0, 1.5, 2.0)


class Recording(NamedTuple):
    """(n,) times in s, (n, 5) torques in N·m and noisy positions in rad."""

    times: NDArray[np.float64]
    torques: NDArray[np.float64]
    positions: NDArray[np.float64]


class Outcome(NamedTuple):
    """Wall time in s and the (5,) armatures in kg·m²."""

    seconds: float
    values: NDArray[np.float64]


def arm(armatures: NDArray[np.float64]) -> str:
    """Return the arm as MJCF."""
    opening, closing, above = '', '', 0.0
    for k, armature in enumerate(armatures):
        inertia = _INERTIAS[k]
        opening += (
            f'<body pos="0 0 {above}"><inertial mass="{_MASSES[k]}" pos="0 0 {_LENGTHS[k] / 2}" '
            f'diaginertia="{inertia} {inertia} {inertia / 2}"/>'
            f'<joint name="joint{k}" axis="{_AXES[k]}" damping="{_DAMPINGS[k]}" '
            f'armature="{armature}"/>'
        )
        closing += '</body>'
        above = _LENGTHS[k]
    motors = ''.join(f'<motor name="motor{k}" joint="joint{k}"/>' for k in range(len(armatures)))
    sensors = ''.join(
        f'<jointpos name="position{k}" joint="joint{k}"/>' for k in range(len(armatures))
    )
    return (
        '<mujoco><option timestep="0.002" integrator="implicitfast"/>'
        f'<worldbody>{opening}{closing}</worldbody>'
        f'<actuator>{motors}</actuator><sensor>{sensors}</sensor></mujoco>'
    )


def record(seed: int) -> Recording:
    """Simulate the true arm; a sample's stamp is the time of the state that it describes."""
    model = mujoco.MjModel.from_xml_string(arm(TRUTH))
    steps = round(SECONDS / model.opt.timestep) + 1
    times = np.arange(steps) * model.opt.timestep
    torques = np.array(_TORQUES) * np.sin(
        2 * np.pi * np.array(_FREQUENCIES) * times[:, None] + np.array(_PHASES)
    )
    data = mujoco.MjData(model)
    state = np.empty(mujoco.mj_stateSize(model, mujoco.mjtState.mjSTATE_FULLPHYSICS.value))
    mujoco.mj_getState(model, data, state, mujoco.mjtState.mjSTATE_FULLPHYSICS.value)
    _, measured = rollout.rollout(model, data, state[None], torques[None])
    noise = np.random.default_rng(seed).normal(0.0, NOISE, measured[0].shape)
    return Recording(times, torques, measured[0] + noise)


def ours(recording: Recording) -> Outcome:
    """Fit with sysid_ros."""
    model = mujoco.MjModel.from_xml_string(arm(np.full(5, START)))
    names = range(len(TRUTH))
    sequence = Sequence(
        'arm',
        0,
        np.zeros(model.nq),
        np.zeros(model.nv),
        (
            TimeSeries.from_columns(
                recording.times,
                recording.torques,
                [f'motor{k}' for k in names],
                SignalType.MjCtrl,
            ),
        ),
        (
            TimeSeries.from_columns(
                recording.times, recording.positions, [f'position{k}' for k in names]
            ),
        ),
    )
    began = time.perf_counter()
    parameters = make_unknowns('joint/*/armature', model, bounds=BOUNDS)
    found = fit(model, parameters, [sequence])
    return Outcome(time.perf_counter() - began, found.solution.x)


def toolbox(recording: Recording) -> Outcome:
    """Fit with mujoco.sysid."""
    from mujoco import sysid  # noqa: PLC0415 (its names are there only with its dependencies)

    spec = mujoco.MjSpec.from_string(arm(np.full(5, START)))
    model = spec.compile()
    parameters = sysid.ParameterDict()
    for k in range(len(TRUTH)):
        parameters.add(
            sysid.Parameter(f'joint{k}', START, *BOUNDS, modifier=_armature_modifier(f'joint{k}'))
        )
    sequences = sysid.ModelSequences(
        'arm',
        spec,
        'recording',
        sysid.create_initial_state(model, np.zeros(model.nq), np.zeros(model.nv)),
        sysid.TimeSeries.from_control_names(recording.times, recording.torques, model),
        sysid.TimeSeries.from_names(recording.times, recording.positions, model),
    )
    began = time.perf_counter()
    residual = sysid.build_residual_fn(models_sequences=[sequences])
    with contextlib.redirect_stdout(io.StringIO()):  # it prints every iteration
        found, _ = sysid.optimize(parameters, residual, optimizer='mujoco', verbose=False)
    return Outcome(time.perf_counter() - began, found.as_vector())


def _armature_modifier(joint: str) -> Callable[..., None]:
    def modify(spec: mujoco.MjSpec, parameter: object) -> None:
        spec.joint(joint).armature = parameter.value[0]  # type: ignore[attr-defined]

    return modify


def main() -> None:
    """Run both in turns and print medians, their ratio, and both errors."""
    from mujoco import sysid  # noqa: PLC0415 (see above)

    print(
        f'{os.cpu_count()} cores, Python {platform.python_version()}, MuJoCo {mujoco.__version__}, '
        f'NumPy {np.__version__}'
    )
    print(f'5 armatures, {SECONDS:g} s at 2 ms, positions with {NOISE:g} rad of noise, {RUNS} runs')
    logging.disable(logging.WARNING)
    contenders = {'sysid_ros': ours}
    if hasattr(sysid, 'optimize'):
        contenders['mujoco.sysid'] = toolbox
    else:
        print("mujoco.sysid is left out: pip install 'mujoco[sysid]'")
    outcomes: dict[str, list[Outcome]] = {name: [] for name in contenders}
    for run in range(-1, RUNS):  # the first warms up
        recording = record(max(run, 0))
        for name, contender in contenders.items():
            outcome = contender(recording)
            if run >= 0:
                outcomes[name].append(outcome)
    print(f'{"":14s}{"median/s":>9s}{"fastest":>9s}{"slowest":>9s}   error of the values')
    for name, found in outcomes.items():
        seconds = [outcome.seconds for outcome in found]
        errors = np.array([outcome.values for outcome in found]) - TRUTH
        rms = np.sqrt(np.mean(errors**2, axis=0))
        bias = np.mean(errors / TRUTH)
        print(
            f'{name:14s}{statistics.median(seconds):9.3f}{min(seconds):9.3f}{max(seconds):9.3f}   '
            f'rms {" ".join(f"{value:.4f}" for value in rms)} kg·m², mean {bias:+.2%}'
        )
    if len(outcomes) > 1:
        first, second = (
            statistics.median(outcome.seconds for outcome in found) for found in outcomes.values()
        )
        print(f'ratio of the medians: {second / first:.2f}')
    example = {name: found[0].values for name, found in outcomes.items()}
    print(f'\n{"first run":14s}' + ''.join(f'{f"joint{k}":>9s}' for k in range(len(TRUTH))))
    for name, values in {'truth': TRUTH, **example}.items():
        print(f'{name:14s}' + ''.join(f'{value:9.4f}' for value in values))
    print('\n' + (__doc__ or '').split('\n\n')[1])


if __name__ == '__main__':
    main()
