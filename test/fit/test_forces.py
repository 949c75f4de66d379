# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Forces along prescribed motions are fitted on triangles that say the same as their samples."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import mujoco
import numpy as np
import pytest
from scipy.signal import butter

from builders.jacobians import linearise
from sysid_ros.fit.fit import fit
from sysid_ros.fit.forces import ReducedForces
from sysid_ros.fit.motion import with_inertial_priors
from sysid_ros.fit.residuals import Residuals
from sysid_ros.model.targets import Scope, Unknown, make_unknowns
from sysid_ros.signals import PrescribedMotion, SignalType, TimeSeries, Trajectory
from sysid_ros.simulation.prediction import InverseSimulator, make_simulator, predict

ARM = """
<mujoco><option integrator="implicitfast"/><worldbody>
  <body name="upper"><joint name="a" axis="0 0 1" armature=".1" damping=".3" frictionloss=".2"/>
    <inertial mass="{0}" pos=".1 .02 .1" fullinertia=".02 .03 .02 .002 .001 -.001"/>
    <body name="lower" pos=".3 .1 .05" quat=".9 .1 .2 .3">
      <joint name="b" axis="0 1 .2" armature=".05" damping=".1"/>
      <inertial mass="1" pos=".1 0 .02" fullinertia=".003 .005 .005 .0005 0 .0003"/>
      <body name="hand" pos="0 .1 .2"><joint name="c" axis="1 0 .3" damping="{1}"/>
        <inertial mass="{2}" pos="0 .05 .1" diaginertia=".002 .002 .001"/>
  </body></body></body></worldbody>
  <actuator><motor joint="a"/><motor joint="b"/><motor joint="c"/></actuator>
  <sensor><jointactuatorfrc name="fa" joint="a"/><jointactuatorfrc name="fb" joint="b"/>
    <jointactuatorfrc name="fc" joint="c"/></sensor></mujoco>
"""
NAMES = ('fa', 'fb', 'fc')
MODEL = ARM.format(2, 0.1, 0.3)
NOISE = 0.02
TARGETS = (
    *(f'body/{name}/inertia' for name in ('upper', 'lower', 'hand')),
    *(f'joint/{name}/{what}' for name in 'abc' for what in ('armature', 'damping')),
    'joint/a/frictionloss',
)


def recorded(
    text: str = MODEL, seed: int = 0, count: int = 1500, noise: float = NOISE
) -> Trajectory:
    """Return a smooth motion and the noisy forces that a model needs along it."""
    rng, interval = np.random.default_rng(seed), 0.005
    times = interval * np.arange(count)[:, None]
    rates, phases = rng.uniform(1, 6, (4, 3)), rng.uniform(0, 6, (4, 3))
    angles = times[..., None].swapaxes(1, 2) * rates + phases
    qpos, qvel = 0.4 * np.sin(angles).sum(axis=1), 0.4 * (rates * np.cos(angles)).sum(axis=1)
    qacc = -0.4 * (rates**2 * np.sin(angles)).sum(axis=1)
    kernel = butter(2, 20.0, fs=1 / interval, output='sos')
    motion = PrescribedMotion(interval, 0, qpos, qvel, qacc, np.zeros(3), kernel, 20.0, 1)
    mapping = {name: (SignalType.MjSensor, np.array([k])) for k, name in enumerate(NAMES)}
    forces = TimeSeries(times[10:-10:4, 0], np.zeros((len(times[10:-10:4]), 3)), mapping)
    run = Trajectory('run', 0, np.zeros(3), np.zeros(3), (), (forces,), motion=motion)
    (told,) = predict(mujoco.MjModel.from_xml_string(text), [run])
    data = told.channels[0][0] + noise * rng.standard_normal(forces.data.shape)
    return dataclasses.replace(run, measurements=(dataclasses.replace(forces, data=data),))


def unknowns(targets: tuple[str, ...] = TARGETS) -> list[Unknown]:
    spec = mujoco.MjSpec.from_string(MODEL)
    scope = Scope(spec.compile(), spec, ())
    return list(with_inertial_priors([u for t in targets for u in make_unknowns(t, scope)]))


def of_sensors() -> list[Unknown]:
    spec = mujoco.MjSpec.from_string(MODEL)
    scope = Scope(spec.compile(), spec, ())
    targets = ('sensor/fa/bias', 'sensor/fb/gain', 'sensor/fb/delay')
    return [
        dataclasses.replace(u, min_value=-0.02, max_value=0.02) if 'delay' in target else u
        for target in targets
        for u in make_unknowns(target, scope)
    ]


@pytest.fixture
def both() -> Iterator[tuple[Residuals, ReducedForces, np.ndarray]]:
    """Yield residuals, what they are reduced to, and values off the nominal ones."""
    late = of_sensors()
    model = mujoco.MjModel.from_xml_string(MODEL)
    with make_simulator(model, [*unknowns(), *late], [recorded()], 1) as simulator:
        assert isinstance(simulator, InverseSimulator)
        residuals = Residuals(simulator, dict.fromkeys(NAMES, NOISE))
        x = np.array([u.nominal for u in residuals.unknowns])
        x = x + 0.02 * np.random.default_rng(3).standard_normal(len(x))
        x[-1] = 0.0021
        yield residuals, ReducedForces(residuals, simulator, x), x


def test_triangles_have_the_squares_and_slopes_of_all_samples(
    both: tuple[Residuals, ReducedForces, np.ndarray],
) -> None:
    residuals, reduced, x = both
    full, few = residuals(x[None])[:, 0], reduced(x[None])[:, 0]
    assert len(few) < 0.5 * len(full)
    assert len(few) + reduced.more == len(full)
    assert few @ few == pytest.approx(full @ full, rel=1e-9)
    told, slopes = linearise(residuals, x), reduced.step_changes(x, np.ones(len(x))).changes
    size = np.linalg.norm(told, axis=0)
    one, other = (part / size for part in (told, slopes))
    np.testing.assert_allclose(other.T @ other, one.T @ one, atol=2e-4)
    noise = reduced.noise(few)
    assert noise == pytest.approx({s: NOISE * v for s, v in residuals.spread(full).items()})


def test_curvature_is_that_of_the_residuals(
    both: tuple[Residuals, ReducedForces, np.ndarray],
) -> None:
    _, reduced, x = both
    ones, residual = np.ones(len(x)), reduced(x[None])[:, 0]
    found = reduced.bending(x, residual)
    step = 1e-5
    for j in range(0, len(x), 3):
        move = step * (np.arange(len(x)) == j)
        ahead, behind = (reduced.step_changes(x + s * move, ones).changes for s in (1, -1))
        np.testing.assert_allclose(
            found[j], (ahead - behind).T @ residual / (2 * step), atol=1e-4 * np.abs(found).max()
        )


def test_a_move_is_followed_to_what_it_would_leave(
    both: tuple[Residuals, ReducedForces, np.ndarray],
) -> None:
    _, reduced, x = both
    before, slopes = reduced(x[None])[:, 0], reduced.step_changes(x, np.ones(len(x))).changes
    size = np.linalg.norm(slopes, axis=0)
    # Along what hardly changes the forces, where these are near what was measured.
    x = x - np.linalg.lstsq(slopes / size, before, rcond=1e-4)[0] / size
    before, slopes = reduced(x[None])[:, 0], reduced.step_changes(x, np.ones(len(x))).changes
    weak = np.linalg.svd(slopes / size)[2][-1] / size
    move = 0.1 * weak / np.abs(weak).max()
    aim = before + slopes @ move
    straight, there = x + move, reduced.followed(x, move, np.ones(len(x), dtype=bool))
    missed, left = (np.linalg.norm(reduced(z[None])[:, 0] - aim) for z in (straight, there))
    assert left < 0.05 * missed


def test_links_that_are_lighter_than_physical_take_few_rounds() -> None:
    # A hand of hardly any mass: forces fit an impossible one better, and others make up for it.
    run = recorded(ARM.format(2.5, 0.05, 0.02), seed=2)
    found = fit(mujoco.MjModel.from_xml_string(MODEL), unknowns(), [run])
    assert found.solution.success
    assert len(found.solution.trace) < 50
    assert found.rollouts < 300
    values = dict(zip((u.name for u in found.parameters), found.solution.x, strict=True))
    assert values['joint/c/damping'] == pytest.approx(0.05, abs=0.01)


def test_offset_and_masses_that_a_lift_hardly_tells_apart_take_few_rounds() -> None:
    def lift(text: str) -> str:
        return text.replace('name="a" axis', 'name="a" type="slide" axis')

    spec = mujoco.MjSpec.from_string(lift(MODEL))
    scope = Scope(spec.compile(), spec, ())
    targets = (*TARGETS, 'sensor/fa/bias')
    every = with_inertial_priors([u for t in targets for u in make_unknowns(t, scope)])
    run = recorded(lift(ARM.format(4, 0.1, 1.5)), seed=2, noise=5e-4)
    (forces,) = run.measurements
    forces = dataclasses.replace(forces, data=forces.data + np.array([5.0, 0, 0]))
    found = fit(spec.compile(), every, [dataclasses.replace(run, measurements=(forces,))])
    assert found.solution.success
    assert len(found.solution.trace) < 50
