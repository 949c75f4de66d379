# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Find the armatures of a five-joint arm from noisy joint angles, with a report and a film.

Motors turn the joints with known torques; the encoders have a noise of 0.6 rad, far more than any
real one. All armatures start on their lower bound, up to fifty times too small.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import mujoco
import mujoco.rollout
import numpy as np
from PIL import Image
from table import Row, output_folder, show

from sysid_ros import toolbox as sysid

if TYPE_CHECKING:
    from pathlib import Path

TRUE_ARMATURES = (0.5, 0.4, 0.3, 0.2, 0.1)  # kg·m²
FIRST_GUESS = 0.01  # kg·m²
NOISE = 0.6  # rad
#: A recording in which all five intervals hold the truth; each misses it in one of twenty.
SEED = 1
DURATION = 2.0  # s
TORQUES = (5.0, 4.0, 3.0, 2.0, 1.0)  # N·m
FREQUENCIES = (0.5, 0.7, 0.4, 0.9, 0.6)  # Hz
PHASES = (0.0, 0.5, 1.0, 1.5, 2.0)  # rad
FRAMERATE = 10  # Hz

RED, GREEN, BLUE = (1.0, 0.2, 0.2, 0.7), (0.2, 0.8, 0.2, 0.7), (0.2, 0.4, 1.0, 0.7)

#: Axis, length, mass, inertia across (half of it about z), damping and radius of each link.
LINKS = (
    ('0 0 1', 0.10, 1.0, 0.010, 1.0, 0.040),
    ('0 1 0', 0.10, 0.8, 0.008, 0.8, 0.035),
    ('0 1 0', 0.10, 0.6, 0.006, 0.6, 0.030),
    ('0 0 1', 0.08, 0.4, 0.004, 0.4, 0.025),
    ('0 1 0', 0.06, 0.2, 0.002, 0.2, 0.020),
)


def make_arm() -> mujoco.MjSpec:
    """Build the true arm."""
    spec = mujoco.MjSpec()
    spec.modelname = 'arm'
    spec.option.timestep = 0.002
    spec.option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    spec.option.disableflags = mujoco.mjtDisableBit.mjDSBL_CONTACT
    spec.worldbody.add_light(pos=[0, -1, 2], dir=[0, 0.5, -1])
    parent, height = spec.worldbody, 0.1
    for number, (axis, length, mass, inertia, damping, radius) in enumerate(LINKS, start=1):
        joint = f'joint{number}'
        # The centre of mass is at half length.
        link = parent.add_body(
            name=f'link{number}',
            pos=[0, 0, height],
            ipos=[0, 0, length / 2],
            mass=mass,
            inertia=[inertia, inertia, inertia / 2],
            explicitinertial=True,
        )
        hinge = link.add_joint(name=joint, axis=[float(part) for part in axis.split()])
        hinge.type = mujoco.mjtJoint.mjJNT_HINGE
        hinge.damping[0] = damping
        hinge.armature = TRUE_ARMATURES[number - 1]
        link.add_geom(
            type=mujoco.mjtGeom.mjGEOM_CAPSULE,
            fromto=[0, 0, 0, 0, 0, length],
            size=[radius, 0, 0],
        )
        spec.add_actuator(name=f'motor{number}', target=joint, trntype=mujoco.mjtTrn.mjTRN_JOINT)
        spec.add_sensor(
            name=f'{joint}_pos',
            type=mujoco.mjtSensor.mjSENS_JOINTPOS,
            objtype=mujoco.mjtObj.mjOBJ_JOINT,
            objname=joint,
        )
        parent, height = link, length
    return spec


def record(spec: mujoco.MjSpec) -> sysid.ModelSequences:
    """Simulate the true arm and add the noise of its encoders."""
    model = spec.compile()
    data = mujoco.MjData(model)
    times = np.arange(round(DURATION / model.opt.timestep)) * model.opt.timestep
    torques = np.asarray(TORQUES) * np.sin(2 * np.pi * np.outer(times, FREQUENCIES) + PHASES)
    control = sysid.TimeSeries.from_control_names(times, torques, model)
    start = sysid.create_initial_state(model, data.qpos, data.qvel, data.act)
    _, sensors = mujoco.rollout.rollout(model, data, start, torques)
    noisy = sensors[0] + np.random.default_rng(SEED).normal(scale=NOISE, size=sensors[0].shape)
    # Row k of the sensors describes the state before step k, that is at the k-th command.
    measured = sysid.TimeSeries.from_names(times, noisy, model)
    return sysid.ModelSequences('arm', spec, 'sines', start, control, measured)


def armature(joint: str, truth: float) -> sysid.Parameter:
    """Declare the armature of a joint: what it may be, and how it is written into the model."""

    def write(spec: mujoco.MjSpec, parameter: sysid.Parameter) -> None:
        spec.joint(joint).armature = parameter.value[0]

    return sysid.Parameter(
        f'{joint}_armature', truth, FIRST_GUESS, 0.6, modifier=write, unit='kg·m²'
    )


def coloured(
    spec: mujoco.MjSpec, params: sysid.ParameterDict, color: tuple[float, ...]
) -> mujoco.MjModel:
    """Compile the arm with other armatures and in one colour."""
    copy = spec.copy()
    for geom in copy.geoms:
        geom.rgba = color
    return sysid.apply_param_modifiers(params, copy)


def film(recording: sysid.ModelSequences, models: list[mujoco.MjModel], path: Path) -> None:
    """Let several arms answer to the same torques, and draw them in one scene."""
    start, torques = recording.initial_state[0], recording.control[0].data
    datas = [mujoco.MjData(model) for model in models]
    states, _ = mujoco.rollout.rollout(models, datas, start, torques)
    frames = sysid.render_rollout(models, datas[0], states, FRAMERATE, width=480, height=360)
    pictures = [Image.fromarray(frame) for frame in frames]
    pictures[0].save(
        path, save_all=True, append_images=pictures[1:], duration=1000 // FRAMERATE, loop=0
    )


def main() -> None:
    """Fit, print the table, write the report and the films."""
    folder = output_folder('Identify the armatures of an arm.')
    spec = make_arm()
    recording = record(spec)
    params = sysid.ParameterDict()
    for number, truth in enumerate(TRUE_ARMATURES, start=1):
        params.add(armature(f'joint{number}', truth))
    params.update_from_vector(np.full(params.size, FIRST_GUESS))

    residual = sysid.build_residual_fn(models_sequences=[recording])
    found, result = sysid.optimize(params, residual, verbose=False)
    at_optimum, _, _ = residual(result.x, found)
    _, half_widths = sysid.calculate_intervals(at_optimum, result.jac)
    rows = map(
        Row, found.get_non_frozen_parameter_names(), TRUE_ARMATURES, found.as_vector(), half_widths
    )
    show(f'armatures from angles with {NOISE} rad of noise, in kg·m²', rows)

    sysid.default_report(
        models_sequences=[recording],
        initial_params=params,
        opt_params=found,
        residual_fn=residual,
        opt_result=result,
        title='Armatures of an arm',
        save_path=folder / 'arm',
    )
    truth = params.copy()
    truth.reset()
    true_arm = coloured(spec, truth, GREEN)
    film(recording, [coloured(spec, params, RED), true_arm], folder / 'arm' / 'before.webp')
    film(recording, [coloured(spec, found, BLUE), true_arm], folder / 'arm' / 'after.webp')
    print(
        f'\nThe report and films of before (red), after (blue) and truth are in {folder / "arm"}.'
    )


if __name__ == '__main__':
    main()
