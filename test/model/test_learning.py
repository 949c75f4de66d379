# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What callbacks write is learnt where each number follows one value in a line, and only there."""

from __future__ import annotations

from collections.abc import Callable

import mujoco
import numpy as np
import pytest
from numpy.typing import NDArray

from sysid_ros.model.candidates import Rebuild, Writer, learn, set_all_apart
from sysid_ros.model.targets import Unknown

SPEC = mujoco.MjSpec.from_string(
    """<mujoco><worldbody><body name="upper"><joint name="j" axis="0 1 0" armature=".1"/>
    <geom name="g" type="capsule" size=".05 .2"/><body name="lower" pos="0 0 .4">
    <joint name="k" axis="0 1 0" damping=".3"/><inertial mass="1" pos="0 0 .1"
    diaginertia=".01 .01 .01"/></body></body></worldbody>
    <actuator><position name="a" joint="j" kp="50" kv="2"/></actuator></mujoco>"""
)
UNKNOWNS = [Unknown('first', (), 0.2, 0.0, 1.0), Unknown('second', (), 1.5, 0.5, 4.0)]


class Callback:
    """Compiles a spec after a function has written two values to it, and counts how often."""

    copies = False

    def __init__(self, write: Callable[[mujoco.MjSpec, float, float], None]) -> None:
        self._write = write
        self.calls = 0

    def build(self, values: NDArray[np.float64], spec: mujoco.MjSpec) -> mujoco.MjModel:
        """Compile."""
        self.calls += 1
        self._write(spec, float(values[0]), float(values[1]))
        return spec.compile()

    def describe(self, values: NDArray[np.float64]) -> str:
        """Say the values."""
        return str(values)


def rebuilt(write: Callable[[mujoco.MjSpec, float, float], None]) -> tuple[Rebuild, Callback]:
    callback = Callback(write)
    rebuild = Rebuild(SPEC, UNKNOWNS, callback, [0, 1])
    rebuild.learnt = learn(rebuild, UNKNOWNS)
    return rebuild, callback


def servo(spec: mujoco.MjSpec, first: float, second: float) -> None:
    spec.joint('j').armature = 0.05 + 2 * first
    spec.joint('k').frictionloss = first
    spec.actuator('a').gainprm[0] = 40 * second
    spec.actuator('a').biasprm[1] = -40 * second
    spec.body('lower').mass = second


def test_what_is_learnt_is_what_the_compiler_makes_from_a_handful_of_models() -> None:
    rebuild, callback = rebuilt(servo)
    assert rebuild.learnt is not None
    assert callback.calls <= 6
    start = np.array([0.2, 1.5])
    writer = Writer(rebuild(start), [], learnt=rebuild.learnt)
    for point in np.random.default_rng(1).uniform([0.0, 0.5], [1.0, 4.0], (5, 2)):
        model = rebuild(start)
        writer.write(model, point)
        mujoco.mj_setConst(model, mujoco.MjData(model))
        compiled = rebuild(point)
        set_all_apart(model)
        for field in ('dof_armature', 'dof_frictionloss', 'actuator_gainprm', 'actuator_biasprm'):
            np.testing.assert_allclose(getattr(model, field), getattr(compiled, field), rtol=1e-12)
        for field in ('body_mass', 'body_subtreemass', 'dof_invweight0', 'actuator_acc0'):
            np.testing.assert_allclose(getattr(model, field), getattr(compiled, field), rtol=1e-12)


def squared(spec: mujoco.MjSpec, first: float, _: float) -> None:
    spec.joint('j').armature = first**2


def product(spec: mujoco.MjSpec, first: float, second: float) -> None:
    spec.joint('j').armature = first * second


def total(spec: mujoco.MjSpec, first: float, second: float) -> None:
    spec.joint('j').armature = first + second


def branched(spec: mujoco.MjSpec, first: float, _: float) -> None:
    spec.joint('j').armature = first if first < 0.8 else 2 * first


def shaped(spec: mujoco.MjSpec, first: float, _: float) -> None:
    spec.geom('g').size[1] = 0.1 + first


def stepped(spec: mujoco.MjSpec, first: float, _: float) -> None:
    spec.option.timestep = 1e-3 * (1 + first)


def grown(spec: mujoco.MjSpec, first: float, _: float) -> None:
    spec.joint('j').armature = first
    if first > 0.5:
        spec.worldbody.add_geom(size=[0.1, 0.1, 0.1])


def refused(spec: mujoco.MjSpec, first: float, _: float) -> None:
    spec.body('lower').mass = first - 0.1


@pytest.mark.parametrize(
    'write', [squared, product, total, branched, shaped, stepped, grown, refused]
)
def test_what_is_more_than_a_line_is_left_to_the_compiler(
    write: Callable[[mujoco.MjSpec, float, float], None],
) -> None:
    rebuild, _ = rebuilt(write)
    assert rebuild.learnt is None
