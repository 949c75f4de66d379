# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What is said to be missing in a model, and what is not."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import mujoco
import numpy as np
import pytest

from sysid_ros.errors import ConfigError, FitError
from sysid_ros.identification.observer import Nobody
from sysid_ros.model.loading import load_model
from sysid_ros.model.mjcf.write import write_model
from sysid_ros.model.variants import Lack, variants
from sysid_ros.pipeline.missing import missing_in

if TYPE_CHECKING:
    from pathlib import Path

    from sysid_ros.pipeline.loading import Problem
    from sysid_ros.pipeline.missing import Found

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures('undrawn')]

SERVO = '<position name="m" joint="j" kp="8" kv=".2"/>'
TARGETS = ('joint/j/damping', 'joint/j/frictionloss', 'actuator/m/kp')
FRICTION = 0.02
WIDTH = 0.04


def _problem(
    workshop: Any,
    truth: mujoco.MjSpec,
    held_out: int = 1,
    servo: str = SERVO,
    targets: tuple[str, ...] = TARGETS,
) -> Problem:
    model = workshop.spec(damping=0.08, friction=FRICTION, actuator=servo)
    runs = [workshop.sequence(truth, f'b{i}', 10 + i, noise=0.3, seconds=5.0) for i in range(3)]
    if servo != SERVO:
        targets = TARGETS[:2]
    return workshop.problem(model, targets, *runs, held_out=held_out)  # type: ignore[no-any-return]


def _spec(workshop: Any) -> mujoco.MjSpec:
    return workshop.spec(damping=0.1, friction=FRICTION, actuator=SERVO)  # type: ignore[no-any-return]


def _found(workshop: Any, truth: mujoco.MjSpec) -> Found:
    return missing_in(workshop.config, _problem(workshop, truth), Nobody())


def test_a_constant_force_is_named_with_its_size(workshop: Any):
    truth = _spec(workshop)
    truth.actuator('m').biasprm[0] = 0.1
    missing, changed = _found(workshop, truth)
    assert missing.named is not None
    assert (missing.named.lack, missing.named.joint) == (Lack.ASYMMETRY, 'j')
    (value,) = missing.named.values
    assert value.target == 'actuator/m/biasprm[0]'
    assert value.value == pytest.approx(0.1, abs=0.01)
    assert missing.named.held_out < missing.held_out
    assert changed is not None


def test_the_model_that_has_it_is_written_with_all_values(workshop: Any, tmp_path: Path):
    spec = _spec(workshop)
    (band,) = [v for v in variants(spec, spec.copy().compile()) if v.lack is Lack.DEAD_BAND]
    band.spec.tendon('j_servo').springlength[:] = -WIDTH / 2, WIDTH / 2
    made = band.spec.compile()
    truth = _Recorder(workshop, made, early=1)  # its goal follows a step later
    found = missing_in(workshop.config, _problem(truth, spec), Nobody())
    assert found.missing.named is not None
    assert found.missing.named.lack == Lack.DEAD_BAND
    assert found.missing.replaced == {'actuator/m/kp': 'tendon/j_servo/stiffness'}
    assert found.changed is not None
    written = load_model(write_model(*found.changed, tmp_path / 'out').path)
    low, high = written.tendon_lengthspring[0]
    assert low == -high
    assert high - low == pytest.approx(WIDTH, rel=0.1)
    assert written.tendon_stiffness[0] == pytest.approx(8.0, rel=0.05)


class _Recorder:
    """A workshop whose recordings are of another model, which may have one joint more.

    ``early`` is how many steps before their time it is told commands.
    """

    def __init__(self, workshop: Any, model: mujoco.MjModel, early: int = 0) -> None:
        self._workshop, self._model, self._early = workshop, model, early

    def __getattr__(self, name: str) -> Any:
        return getattr(self._workshop, name)

    def sequence(self, spec: mujoco.MjSpec, name: str, seed: int, **options: Any) -> Any:
        """Record the other model with the commands that the workshop would give."""
        nominal = self._workshop.sequence(spec, name, seed, **options)
        (told,), (measured,) = nominal.commands, nominal.measurements
        data = mujoco.MjData(self._model)
        data.qpos[:] = nominal.initial_qpos[0]
        steps = round(0.02 / self._model.opt.timestep)
        values = np.empty_like(measured.data)
        for row, time in enumerate(measured.times):
            mujoco.mj_forward(self._model, data)
            values[row] = data.sensordata[:2]
            for step in range(steps):
                now = time + (step + self._early) * self._model.opt.timestep + 1e-9
                data.ctrl[0] = told.data[np.searchsorted(told.times, now, 'right') - 1, 0]
                mujoco.mj_step(self._model, data)
        values += np.array([3e-4, 3e-3]) * np.random.default_rng(seed).normal(size=values.shape)
        series = dataclasses.replace(measured, data=values)
        return dataclasses.replace(nominal, measurements=(series,))


def test_a_joint_as_soft_as_its_servo_is_elastic_whatever_all_forces_are_multiples_of(
    workshop: Any,
):
    spec = _spec(workshop)
    (elastic,) = [
        variant
        for variant in variants(spec, spec.copy().compile())
        if variant.lack is Lack.ELASTICITY and variant.reads == 'link'
    ]
    spring = elastic.spec.tendon('j_spring')
    spring.stiffness[0], spring.damping[0] = 12.0, 0.02
    elastic.spec.joint('j_rotor').armature = 0.02
    truth = _Recorder(workshop, elastic.spec.compile())
    problem = _problem(truth, spec, targets=(*TARGETS, 'joint/j/armature', 'body/bob/mass'))
    missing = missing_in(workshop.config, problem, Nobody()).missing
    assert missing.named is not None
    assert (missing.named.lack, missing.named.reads) == (Lack.ELASTICITY, 'link')
    stiffness, _ = missing.named.values
    assert stiffness.value == pytest.approx(12.0, rel=0.3)


def test_a_long_time_step_is_not_taken_for_what_is_missing(workshop: Any):
    truth = _spec(workshop)
    truth.option.timestep /= 20
    truth.joint('j').damping[0] = 0.3
    problem = _problem(_Recorder(workshop, truth.compile()), _spec(workshop))
    missing = missing_in(workshop.config, problem, Nobody()).missing
    assert missing.named is None
    assert 'With half of the time step of the model, 0.005 s' in missing.note
    assert problem.model.opt.timestep == 0.005


def test_nothing_is_missing_in_a_model_that_only_has_other_values(workshop: Any):
    missing, changed = _found(workshop, _spec(workshop))
    assert missing.named is None
    assert changed is None
    assert missing.reason


def test_something_has_to_be_held_out(workshop: Any):
    problem = _problem(workshop, _spec(workshop), held_out=0)
    with pytest.raises(ConfigError, match='role validate'):
        missing_in(workshop.config, problem, Nobody())


def test_something_has_to_be_a_position_servo(workshop: Any):
    motor = '<motor name="m" joint="j"/>'
    problem = _problem(workshop, _spec(workshop), servo=motor)
    with pytest.raises(FitError, match='that a position servo drives'):
        missing_in(workshop.config, problem, Nobody())
