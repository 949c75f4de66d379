# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Forces along prescribed motions are those of MuJoCo's own inverse dynamics."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest
from scipy.signal import butter, sosfiltfilt

from sysid_ros.model.targets.writer import set_all_apart, write_value
from sysid_ros.model.unknown import make_unknowns
from sysid_ros.rollout.prediction import predict
from sysid_ros.signals import SignalType, TimeSeries
from sysid_ros.signals.trajectory import PrescribedMotion, Trajectory

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


def prescribed(count: int, cutoff: float | None = None) -> Trajectory:
    """Return a trajectory of random or, with a low-pass, of smooth motion."""
    rng = np.random.default_rng(1)
    interval = 0.01
    if cutoff is None:
        qpos, qvel, qacc = rng.normal(size=(3, count, 3)) * np.array([0.5, 1, 2])[:, None, None]
        kernel = np.array([[1.0, 0, 0, 1, 0, 0]])
    else:
        phase = np.arange(count)[:, None] * interval * np.array([3.0, 4.0, 5.0])
        rate = np.array([3.0, 4.0, 5.0])
        qpos, qvel, qacc = np.sin(phase), rate * np.cos(phase), -(rate**2) * np.sin(phase)
        kernel = butter(2, cutoff, fs=1 / interval, output='sos')
    motion = PrescribedMotion(interval, 0, qpos, qvel, qacc, np.zeros(3), kernel, 50.0, 1)
    names = ('fa', 'fb', 'fc')
    mapping = {name: (SignalType.MjSensor, np.array([i])) for i, name in enumerate(names)}
    forces = TimeSeries(np.arange(count) * interval, np.zeros((count, 3)), mapping)
    return Trajectory('run', 0, np.zeros(3), np.zeros(3), (), (forces,), motion=motion)


def needed(model: mujoco.MjModel, motion: PrescribedMotion) -> np.ndarray:
    """Return the (n, nv) forces that MuJoCo says."""
    model = model.__copy__()
    friction = model.dof_frictionloss * np.sign(motion.qvel)
    model.dof_frictionloss[:] = 0
    model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONTACT.value
    data = mujoco.MjData(model)
    found = np.empty_like(motion.qvel)
    for row, forces in enumerate(found):
        data.qpos[:], data.qvel[:], data.qacc[:] = (
            part[row] for part in (motion.qpos, motion.qvel, motion.qacc)
        )
        mujoco.mj_inverse(model, data)
        forces[:] = data.qfrc_inverse
    # In MuJoCo's steps damping is that of the velocity half a step later.
    late = 0.0 if model.opt.integrator == mujoco.mjtIntegrator.mjINT_RK4 else 0.5
    return found + friction + late * model.opt.timestep * model.dof_damping * motion.qacc


@pytest.mark.parametrize('integrator', ['Euler', 'implicitfast', 'RK4'])
@pytest.mark.parametrize('density', [0.0, 1000.0])
def test_forces_are_those_of_inverse_dynamics(integrator: str, density: float) -> None:
    model = mujoco.MjModel.from_xml_string(ARM.format(integrator, density))
    run = prescribed(20)
    assert run.motion is not None
    found = predict(model, [run])[0].channels[0][0]
    np.testing.assert_allclose(found * GEARS, needed(model, run.motion), atol=1e-12)


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
    run = prescribed(20)
    assert run.motion is not None
    found = predict(model, [run], [unknown], np.array([value]))[0].channels[0][0]
    changed = needed(other, run.motion)
    assert np.abs(changed - needed(model, run.motion)).max() > 1e-3
    np.testing.assert_allclose(found * GEARS, changed, atol=1e-9)


def test_what_is_predicted_has_passed_the_low_pass() -> None:
    model = mujoco.MjModel.from_xml_string(ARM.format('Euler', 0))
    run = prescribed(600, cutoff=1.0)
    assert run.motion is not None
    found = predict(model, [run])[0].channels[0][0]
    raw = needed(model, run.motion) / GEARS
    assert np.abs(found - raw).max() > 1.0
    np.testing.assert_allclose(found, sosfiltfilt(run.motion.low_pass, raw, axis=0), atol=1e-9)
