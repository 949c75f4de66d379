# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What real joints do, as changes of a model."""

from __future__ import annotations

import dataclasses

import mujoco
import numpy as np
import pytest

from sysid_ros.model.targets import write_value
from sysid_ros.model.unknown import make_unknowns
from sysid_ros.model.variants import (
    Lack,
    Variant,
    as_stiff,
    extra_unknowns,
    moved,
    started,
    variants,
)
from sysid_ros.rollout.prediction import predict
from sysid_ros.signals import SignalType, TimeSeries
from sysid_ros.signals.trajectory import Trajectory

ARM = """
<mujoco>
  <compiler angle="{angle}"/>
  <option timestep=".002" integrator="{integrator}"/>
  <default><joint damping=".7" stiffness="3"/></default>
  <worldbody><body>
    <joint name="a" axis="0 1 0" armature=".02" damping=".3" frictionloss=".1" ref="{ref}"
           stiffness="0"/>
    <geom type="capsule" fromto="0 0 0 .3 0 0" size=".02" mass=".6"/>
    <body pos=".3 0 0">
      <joint name="b" axis="0 1 0" armature=".01" damping=".15" stiffness="0"/>
      <geom type="capsule" fromto="0 0 0 .25 0 0" size=".02" mass=".4"/>
    </body>
  </body></worldbody>
  <actuator>
    <position name="sa" joint="a" kp="40" kv="1"/>
    <motor name="mb" joint="b"/>
  </actuator>
  <sensor>
    <jointpos name="pa" joint="a"/><jointpos name="pb" joint="b"/>
    <jointactuatorfrc name="fa" joint="a"/>
  </sensor>
</mujoco>
"""
#: How little of what it has makes a variant the model again, for each kind.
LITTLE = {Lack.ASYMMETRY: 0.0, Lack.PLAY: 1e-5, Lack.DEAD_BAND: 1e-5, Lack.ELASTICITY: 3e3}


def _spec(
    angle: str = 'radian', ref: float = 0.2, integrator: str = 'implicitfast'
) -> mujoco.MjSpec:
    return mujoco.MjSpec.from_string(ARM.format(angle=angle, ref=ref, integrator=integrator))


def _all(spec: mujoco.MjSpec) -> list[Variant]:
    return list(variants(spec, spec.copy().compile()))


def _moved(model: mujoco.MjModel, start: Trajectory) -> np.ndarray:
    """Return what the encoders read while the servo is told to swing."""
    data = mujoco.MjData(model)
    data.qpos[:], data.qvel[:] = start.initial_qpos, start.initial_qvel
    read = []
    while data.time < 1.5:
        data.ctrl[0] = 0.2 + 0.3 * np.sin(5 * data.time)
        mujoco.mj_step(model, data)
        read.append(data.sensordata[:2].copy())
    return np.array(read)


def _start(model: mujoco.MjModel) -> Trajectory:
    return Trajectory('run', 0, np.array(model.qpos0), np.zeros(model.nv), (), ())


def test_only_joints_of_position_servos_have_variants():
    assert {variant.joint for variant in _all(_spec())} == {'a'}
    assert {variant.lack for variant in _all(_spec())} == set(Lack)
    assert len({variant.title for variant in _all(_spec())}) == len(_all(_spec()))


def test_the_user_s_model_is_not_changed():
    spec = _spec()
    before = spec.to_xml()
    _all(spec)
    assert spec.to_xml() == before


@pytest.mark.parametrize(('angle', 'ref'), [('radian', 0.2), ('degree', 0.2 * 180 / np.pi)])
@pytest.mark.parametrize('place', range(6))
def test_a_variant_with_nearly_nothing_moves_as_the_model_does(place: int, angle: str, ref: float):
    spec = _spec(angle, ref)
    model = spec.copy().compile()
    variant = _all(spec)[place]
    if variant.lack is Lack.ELASTICITY:
        variant.spec.option.timestep = 1e-4  # a stiff spring needs short steps
        model.opt.timestep = 1e-4
    made = variant.spec.compile()
    (unknown, *_) = extra_unknowns(variant, made, 1.0)
    write_value(made, unknown.targets[0], LITTLE[variant.lack])
    mujoco.mj_setConst(made, mujoco.MjData(made))
    read = _moved(made, started(variant, model, _start(model)))
    nominal = _moved(model, _start(model))
    assert np.abs(read - nominal).max() < 0.03 * np.ptp(nominal, axis=0).max()


def test_the_goal_of_a_servo_with_a_dead_band_is_not_late():
    spec = _spec()
    model = spec.copy().compile()
    (band,) = [variant for variant in _all(spec) if variant.lack is Lack.DEAD_BAND]
    band.spec.tendon('a_servo').springlength[:] = -1e-7, 1e-7
    times = np.arange(0.0, 1.5, 0.01)
    goals = np.stack([0.2 + 0.3 * np.sin(9 * times), 0.2 * np.sin(4 * times)], axis=1)
    told = {name: (SignalType.MjCtrl, np.array([k])) for k, name in enumerate(('sa', 'mb'))}
    read = {name: (SignalType.MjSensor, np.array([k])) for k, name in enumerate(('pa', 'pb'))}
    run = Trajectory(
        'run',
        0,
        np.array(model.qpos0),
        np.zeros(model.nv),
        (TimeSeries(times, goals, told),),
        (TimeSeries(times, np.zeros_like(goals), read),),
    )
    with_band = started(band, model, run)
    late = dataclasses.replace(with_band, commands=run.commands)
    nominal, near, later = (
        predict(each, [moves])[0].channels[0][0]
        for each, moves in ((spec, run), (band.spec, with_band), (band.spec, late))
    )
    assert np.abs(near - nominal).max() < 1e-4
    assert np.abs(later - nominal).max() > 1e-3


def test_a_servo_before_a_spring_holds_as_before():
    spec = _spec()
    unknowns = make_unknowns('actuator/sa/kp', spec.copy().compile())
    values = np.array([40.0])
    for variant in _all(spec):
        (gain,) = as_stiff(variant, unknowns, values, 60.0)
        series = variant.lack is Lack.ELASTICITY and variant.reads == 'link'
        assert 1.0 / gain == pytest.approx(1.0 / 40 - (1.0 / 60 if series else 0.0))


def test_what_the_rotor_has_is_found_there():
    spec = _spec()
    model = spec.copy().compile()
    unknowns = make_unknowns('joint/a/armature', model) + make_unknowns('actuator/sa/kp', model)
    paths = {
        (variant.lack, variant.reads): [
            unknown.targets[0].path
            for unknown in moved(variant, model, variant.spec.compile(), unknowns, [0.02, 40.0])
        ]
        for variant in _all(spec)
    }
    assert paths[Lack.PLAY, 'link'] == ['joint/a_rotor/armature', 'actuator/sa/kp']
    assert paths[Lack.PLAY, 'rotor'] == ['joint/a/armature', 'actuator/sa/kp']
    assert paths[Lack.DEAD_BAND, ''] == ['joint/a/armature', 'tendon/a_servo/stiffness']


@pytest.mark.parametrize('reads', ['link', 'rotor'])
def test_the_encoder_reads_what_it_is_on(reads: str):
    spec = _spec()
    (variant,) = [v for v in _all(spec) if v.lack is Lack.PLAY and v.reads == reads]
    made = variant.spec.compile()
    data = mujoco.MjData(made)
    data.qpos[:] = 0.5, 0.0, 0.7  # the link, the other joint, the rotor
    mujoco.mj_forward(made, data)
    assert data.sensordata[0] == {'link': 0.5, 'rotor': 0.7}[reads]
    # The servo turns the rotor, and that is what is felt, too.
    assert data.qfrc_actuator[2] == pytest.approx(40 * (0.0 - 0.7))
    assert data.sensordata[2] == data.qfrc_actuator[2]


def test_no_servo_with_a_dead_band_where_the_integrator_cannot_follow():
    lacks = {variant.lack for variant in _all(_spec(integrator='RK4'))}
    assert lacks == set(Lack) - {Lack.DEAD_BAND}


def test_a_model_that_has_such_names_gets_no_second_rotor():
    spec = _spec()
    (variant,) = [v for v in _all(spec) if v.lack is Lack.PLAY and v.reads == 'rotor']
    assert {v.lack for v in _all(variant.spec)} == {Lack.ASYMMETRY}
    variant.spec.compile()
