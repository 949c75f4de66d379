# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Forces along prescribed motions are those of MuJoCo's own inverse dynamics."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest
from scipy.signal import butter, sosfiltfilt

from builders.models import write_value
from sysid_ros.model.candidates import set_all_apart
from sysid_ros.model.targets import Unknown, make_unknowns
from sysid_ros.signals import PrescribedMotion, SignalType, TimeSeries, Trajectory
from sysid_ros.simulation.inverse import (
    ACTUATION,
    driven_otherwise,
    driving_lead,
    exerted,
    force_weights,
    kept_regressor,
)
from sysid_ros.simulation.prediction import predict

#: A hinge beside its body's origin, a slide, a spring, and a body that gravity hardly pulls.
ARM = """
<mujoco><option integrator="{}" density="{}"/><worldbody><body pos="0 0 1">
  <joint name="a" axis="0 0 1" armature=".1" damping=".3" frictionloss=".2"/>
  <geom type="capsule" fromto="0 0 0 .3 .1 .05" size=".04"/>
  <body name="arm" pos=".3 .1 .05" quat=".9 .1 .2 .3">
    <joint name="b" axis="0 1 .2" pos=".02 0 .01" stiffness="2" springref=".3" damping=".1"/>
    <geom type="box" size=".1 .05 .02" pos=".1 0 0"/>
    <body pos=".1 .1 0" gravcomp=".7"><geom size=".05" pos="0 .1 .02"/>
      <body name="hand" pos="0 .1 .1"><joint name="c" type="slide" axis="1 0 .3"/>
        <geom type="ellipsoid" size=".1 .03 .05" pos="0 .05 .1" euler="10 20 30"/>
  </body></body></body></body></worldbody>
  <actuator><position joint="a" kp="10" kv="3"/><motor name="m" joint="b" gear="2"/>
    <motor joint="c"/></actuator>
  <sensor><jointactuatorfrc name="fa" joint="a"/><actuatorfrc name="fb" actuator="m"/>
    <jointactuatorfrc name="fc" joint="c"/></sensor></mujoco>
"""
GEARS = np.array([1.0, 2.0, 1.0])


def prescribed(count: int, cutoff: float | None = None, seed: int = 1) -> Trajectory:
    """Return a trajectory of random or, with a low-pass, of smooth motion."""
    rng = np.random.default_rng(seed)
    interval = 0.01
    if cutoff is None:
        qpos, qvel, qacc = rng.normal(size=(3, count, 3)) * np.array([0.5, 1, 2])[:, None, None]
        kernel = np.array([[1.0, 0, 0, 1, 0, 0]])
    else:
        phase = seed + np.arange(count)[:, None] * interval * np.array([3.0, 4.0, 5.0])
        rate = np.array([3.0, 4.0, 5.0])
        qpos, qvel, qacc = np.sin(phase), rate * np.cos(phase), -(rate**2) * np.sin(phase)
        kernel = butter(2, cutoff, fs=1 / interval, output='sos')
    motion = PrescribedMotion(interval, 0, qpos, qvel, qacc, np.zeros(3), kernel, 50.0, 1)
    names = ('fa', 'fb', 'fc')
    mapping = {name: (SignalType.MjSensor, np.array([i])) for i, name in enumerate(names)}
    forces = TimeSeries(np.arange(count) * interval, np.zeros((count, 3)), mapping)
    return Trajectory(f'run {seed}', 0, np.zeros(3), np.zeros(3), (), (forces,), motion=motion)


def two(count: int, cutoff: float | None = None) -> list[tuple[Trajectory, PrescribedMotion]]:
    """Return two trajectories, and their motions."""
    runs = [prescribed(count, cutoff, seed) for seed in (1, 2)]
    return [(run, run.motion) for run in runs if run.motion is not None]


def told(
    model: mujoco.MjModel,
    runs: list[tuple[Trajectory, PrescribedMotion]],
    unknown: Unknown | None = None,
    value: float = 0.0,
) -> list[np.ndarray]:
    """Return the (n, 3) forces of each sequence that are predicted of all together."""
    unknowns, x = ([unknown], np.array([value])) if unknown else ((), None)
    return [each.channels[0][0] for each in predict(model, [run for run, _ in runs], unknowns, x)]


def needed(model: mujoco.MjModel, motion: PrescribedMotion) -> np.ndarray:
    """Return the (n, nv) forces that MuJoCo says."""
    model = model.__copy__()
    friction = model.dof_frictionloss * np.sign(motion.qvel)
    model.dof_frictionloss[:] = 0
    model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONTACT.value
    # A step begins half a step before the derivative of the positions, and damps at its end.
    half = 0.0 if model.opt.integrator == mujoco.mjtIntegrator.mjINT_RK4 else 0.5
    step = half * model.opt.timestep * motion.qacc
    data = mujoco.MjData(model)
    found = np.empty_like(motion.qvel)
    for row, forces in enumerate(found):
        data.qpos[:], data.qacc[:] = motion.qpos[row], motion.qacc[row]
        data.qvel[:] = (motion.qvel - step)[row]
        mujoco.mj_inverse(model, data)
        forces[:] = data.qfrc_inverse
    return found + friction + 2 * model.dof_damping * step


@pytest.mark.parametrize('integrator', ['Euler', 'implicitfast', 'RK4'])
@pytest.mark.parametrize('density', [0.0, 1000.0])
def test_forces_are_those_of_inverse_dynamics(integrator: str, density: float) -> None:
    model = mujoco.MjModel.from_xml_string(ARM.format(integrator, density))
    runs = two(20)
    for (_, motion), found in zip(runs, told(model, runs), strict=True):
        np.testing.assert_allclose(found * GEARS, needed(model, motion), atol=1e-12)


def test_what_is_kept_of_a_motion_is_of_models_that_move_alike() -> None:
    text, runs = ARM.format('implicitfast', 0), two(20)
    model, heavy, far = (mujoco.MjModel.from_xml_string(text) for _ in range(3))
    heavy.body_mass[:] *= 2
    far.body_pos[:] *= 2
    for other in (model, heavy, far, model):
        for (_, motion), found in zip(runs, told(other, runs), strict=True):
            np.testing.assert_allclose(found * GEARS, needed(other, motion), atol=1e-12)
    first, second = (kept_regressor(other, runs[0][1]) for other in (model, heavy))
    assert first.matrices[0] is second.matrices[0]


@pytest.mark.parametrize(
    ('part', 'other'),
    [
        ('damping=".1"', 'damping=".1 .3 .2"'),
        ('stiffness="2"', 'stiffness="2 1 .5"'),
        (
            '</actuator>',
            """</actuator><tendon><fixed stiffness="5" damping=".3" springlength=".1">
            <joint joint="a" coef="1"/><joint joint="b" coef="2"/></fixed></tendon>""",
        ),
    ],
)
def test_forces_of_springs_and_dampers_are_in_it(part: str, other: str) -> None:
    model = mujoco.MjModel.from_xml_string(ARM.format('RK4', 0).replace(part, other))
    runs = two(20)
    for (_, motion), found in zip(runs, told(model, runs), strict=True):
        np.testing.assert_allclose(found * GEARS, needed(model, motion), atol=1e-12)


@pytest.mark.parametrize(
    ('path', 'value'),
    [
        ('body/hand/mass', 4.0),
        ('body/arm/inertia[8]', 0.1),
        ('joint/c/armature', 0.7),
        ('joint/b/damping', 2.0),
        ('joint/a/frictionloss', 0.9),
        ('joint/b/stiffness', 5.0),
        ('joint/b/springref', -0.5),
        ('body/arm/pos[1]', 0.4),
        ('body/hand/gravcomp', 0.5),
        ('option/gravity[0]', 3.0),
    ],
)
def test_a_candidate_needs_the_forces_of_its_own_model(path: str, value: float) -> None:
    model = mujoco.MjModel.from_xml_string(ARM.format('Euler', 0))
    other = model.__copy__()
    (unknown,) = make_unknowns(path, model)
    write_value(other, unknown.targets[0], value)
    set_all_apart(other)  # an inertial frame that was the body's own is no longer
    runs = two(20)
    for (_, motion), found in zip(runs, told(model, runs, unknown, value), strict=True):
        changed = needed(other, motion)
        assert np.abs(changed - needed(model, motion)).max() > 1e-3
        np.testing.assert_allclose(found * GEARS, changed, atol=1e-9)


COUPLED = """
<mujoco><option integrator="{}"/><worldbody><body>
  <joint name="a" axis="0 0 1" armature=".1" damping=".3"/>
  <geom type="capsule" fromto="0 0 0 .3 .1 .05" size=".04"/>
  <body pos=".3 .1 .05"><joint name="b" axis="0 1 .2" frictionloss=".1"/>
    <geom type="box" size=".1 .05 .02" pos=".1 0 0"/>
    <body pos=".1 .1 0"><joint name="c" axis="1 0 0"/><geom size=".05" pos="0 .1 .02"/></body>
  </body></body></worldbody>
  <tendon><fixed name="t" armature=".3" damping=".2" frictionloss=".5">
      <joint joint="b" coef="1"/><joint joint="c" coef="1.5"/></fixed>
    </tendon>
  <actuator><motor name="m" tendon="t" gear="5" armature=".01" damping=".02"/>
    <motor name="n" joint="b" gear="-3" armature=".02"/><motor name="o" joint="a"/></actuator>
  <sensor><actuatorfrc name="fa" actuator="o"/><actuatorfrc name="fb" actuator="n"/>
    <actuatorfrc name="fc" actuator="m"/></sensor></mujoco>
"""


def read_by_motors(model: mujoco.MjModel, motion: PrescribedMotion) -> np.ndarray:
    """Return (n, 3) what the sensors read of a coupled arm, along MuJoCo's inverse dynamics."""
    bare = model.__copy__()
    bare.tendon_frictionloss[:] = bare.dof_frictionloss[:] = 0
    forces = needed(bare, motion) + model.dof_frictionloss * np.sign(motion.qvel)
    together = motion.qvel @ [0, 1, 1.5]
    forces += np.outer(model.tendon_frictionloss[0] * np.sign(together), [0, 1, 1.5])
    gears = model.actuator_gear[:, 0]
    coupling = np.array([[0, gears[1], gears[0]], [0, 0, 1.5 * gears[0]], [gears[2], 0, 0]])
    of_joints = np.stack([forces[:, 1], forces[:, 2], forces[:, 0]])
    return np.linalg.solve(coupling, of_joints).T


@pytest.mark.parametrize(
    ('path', 'value'),
    [
        ('tendon/t/armature', 0.8),
        ('tendon/t/damping', 0.6),
        ('tendon/t/frictionloss', 0.1),
        ('actuator/m/armature', 0.05),
        ('actuator/m/damping', 0.05),
        ('actuator/m/gear[0]', 7.0),
        ('actuator/n/gear[0]', 4.0),
    ],
)
def test_motors_that_share_joints_are_told_apart(path: str, value: float) -> None:
    model = mujoco.MjModel.from_xml_string(COUPLED.format('RK4'))
    other = model.__copy__()
    (unknown,) = make_unknowns(path, model)
    write_value(other, unknown.targets[0], value)
    runs = two(400, cutoff=1.0)
    for (_, motion), found in zip(runs, told(model, runs, unknown, value), strict=True):
        changed, before = (
            sosfiltfilt(motion.low_pass, read_by_motors(each, motion), axis=0)
            for each in (other, model)
        )
        assert np.abs(changed - before).max() > 1e-3
        np.testing.assert_allclose(found, changed, atol=1e-9)


def test_sensors_of_motors_that_cannot_be_told_apart_say_nothing() -> None:
    text = COUPLED.format('Euler').replace('</actuator>', '<motor joint="c"/></actuator>')
    # The column of the one that alone drives its joint.
    assert set(force_weights(mujoco.MjModel.from_xml_string(text))) == {0}


def test_what_is_predicted_has_passed_the_low_pass() -> None:
    model = mujoco.MjModel.from_xml_string(ARM.format('Euler', 0))
    runs = two(600, cutoff=1.0)
    for (_, motion), found in zip(runs, told(model, runs), strict=True):
        raw = needed(model, motion) / GEARS
        assert np.abs(found - raw).max() > 1.0
        np.testing.assert_allclose(found, sosfiltfilt(motion.low_pass, raw, axis=0), atol=1e-9)


DRIVEN = """
<mujoco><option integrator="{}"/><worldbody><body><joint name="a"/><geom size=".1"/>
  <body pos=".3 0 0"><joint name="b" axis="0 1 0" actuatorfrcrange="-5 4"/>
    <geom size=".1" pos=".1 0 0"/>
    <body pos=".3 0 0"><joint name="c" axis="1 0 0"/><geom size=".1" pos="0 .1 0"/>
  </body></body></body></worldbody>
  <tendon><fixed name="t"><joint joint="a" coef=".5"/><joint joint="b" coef="-2"/></fixed></tendon>
  <actuator><position name="p" joint="a" kp="10" kv="3" ctrlrange="-.5 .4" gear="2"/>
    <velocity name="v" tendon="t" kv="4" forcerange="-3 2"/><motor name="m" joint="b"/>
    <general name="g" joint="b" gaintype="affine" gainprm="3 .5 -.2" biastype="affine"
     biasprm=".3 -1 .4"/>
    <general name="s" joint="c" dyntype="integrator"/></actuator></mujoco>
"""


@pytest.mark.parametrize('integrator', ['implicitfast', 'Euler', 'RK4'])
def test_actuators_exert_what_mujoco_says_along_a_motion(integrator: str) -> None:
    model = mujoco.MjModel.from_xml_string(DRIVEN.format(integrator))
    motion, data = prescribed(50).motion, mujoco.MjData(model)
    assert motion is not None
    gains = np.stack([model.actuator_gainprm, 1.5 * model.actuator_gainprm])
    fields = {name: np.stack([getattr(model, name)] * 2) for name in ACTUATION}
    controls = np.random.default_rng(2).normal(size=(2, 50, model.nu))
    found = exerted(model, {**fields, 'actuator_gainprm': gains}, motion, controls)
    assert driven_otherwise(model).tolist() == [False, False, True]
    for candidate, row in np.ndindex(found.shape[:2]):
        model.actuator_gainprm[:] = gains[candidate]
        data.qpos[:], data.ctrl[:] = motion.qpos[row], controls[candidate, row]
        data.qvel[:] = motion.qvel[row] + driving_lead(model) * motion.qacc[row]
        mujoco.mj_fwdPosition(model, data)
        mujoco.mj_fwdVelocity(model, data)
        mujoco.mj_fwdActuation(model, data)
        np.testing.assert_allclose(found[candidate, row, :2], data.qfrc_actuator[:2], atol=1e-12)
