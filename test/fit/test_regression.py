# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The equations of motion find what made a recording, without any simulation."""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import Any

import mujoco
import numpy as np
import pytest

from builders.fine_robot import KP, PERIOD, recorded, spec, unsampled
from builders.trajectories import measure, sweep
from sysid_ros.fit.context import FitContext
from sysid_ros.fit.regression import Regression, aimed, regress
from sysid_ros.fit.solver import FitLog, SolverSettings
from sysid_ros.model.targets import Unknown, make_unknowns
from sysid_ros.signals import TimeSeries, Trajectory
from sysid_ros.simulation.prediction import make_simulator

MOTORS = '<motor name="a" joint="j"/><motor name="b" joint="k"/>'
SERVOS = (
    '<position name="a" joint="j" kp="20" kv="1"/><position name="b" joint="k" kp="10" kv=".5"/>'
)
TORQUES = (
    '<jointactuatorfrc name="j_torque" joint="j"/><jointactuatorfrc name="k_torque" joint="k"/>'
)
#: What the recordings are made with; the model says otherwise.
TRUTH = {
    'joint/j/armature': 0.12,
    'joint/k/armature': 0.05,
    'joint/j/damping': 0.6,
    'joint/k/damping': 0.25,
    'joint/k/frictionloss': 0.15,
    'body/tip/mass': 0.8,
}
#: Step of an encoder with twelve bits, rad.
ENCODER = 2 * np.pi / 4096
NOISE = {'j_position': 1e-5, 'k_position': 1e-5}


def make(
    actuators: str = MOTORS, sensors: str = '', integrator: str = 'implicitfast', more: str = ''
) -> mujoco.MjModel:
    return mujoco.MjModel.from_xml_string(
        f"""<mujoco><option timestep=".002" integrator="{integrator}"/><worldbody>
        <body name="link"><inertial mass="1" pos=".1 0 -.2" diaginertia=".02 .02 .02"/>
          <joint name="j" axis="0 1 0" armature=".3" damping=".1"/>
          <body name="tip" pos="0 0 -.4">
            <inertial mass=".3" pos=".1 .02 -.1" diaginertia=".004 .003 .002"/>
            <joint name="k" axis="0 1 0" armature=".2" damping=".6"/></body></body>{more}
        </worldbody><actuator>{actuators}</actuator><sensor>
        <jointpos name="j_position" joint="j"/><jointpos name="k_position" joint="k"/>{sensors}
        </sensor></mujoco>"""
    )


def twice(
    model: mujoco.MjModel,
    truth: dict[str, float] | None = None,
    *,
    commands: TimeSeries | None = None,
    times: np.ndarray | None = None,
    start: Any = None,
) -> list[Trajectory]:
    """Return two runs: what all sequences share may be spoilt by the first."""
    found = []
    for seed, factor in enumerate((1.0, -0.8)):
        told = commands and dataclasses.replace(commands, data=factor * commands.data)
        begin = start and tuple(factor * np.array(part) for part in start)
        options: dict[str, Any] = {'commands': told, 'times': times, 'start': begin}
        name = f'run {seed}'
        found.append(measure(model, truth, name=name, noise=NOISE, seed=seed, **options))
    return found


def found(model: mujoco.MjModel, paths: Any, runs: list[Trajectory], **options: Any) -> Any:
    unknowns = [p for path in paths for p in make_unknowns(path, model, **options)]
    return solved(model, unknowns, runs)


def solved(model: mujoco.MjModel, unknowns: Any, runs: list[Trajectory]) -> Any:
    context = FitContext(partial(make_simulator, model, threads=1), SolverSettings(), FitLog(None))
    with context.opened:
        return regress(context, context.simulator(unknowns, runs))


def relative(result: Regression, truth: dict[str, float]) -> np.ndarray:
    assert isinstance(result, Regression), result
    values = np.array(list(truth.values()))
    error: np.ndarray = np.abs(result.x - values) / values
    return error


@pytest.mark.slow
@pytest.mark.parametrize(
    ('actuators', 'sensors', 'integrator', 'source'),
    [
        (MOTORS, '', 'implicitfast', 'actuators exert'),
        (MOTORS, '', 'Euler', 'actuators exert'),
        (MOTORS, '', 'RK4', 'actuators exert'),
        (MOTORS, TORQUES, 'implicitfast', 'measured torques'),
        (SERVOS, '', 'implicitfast', 'actuators exert'),
        (SERVOS, TORQUES, 'implicitfast', 'measured torques'),
    ],
)
def test_what_a_model_made_is_found_to_a_tenth(
    actuators: str, sensors: str, integrator: str, source: str
) -> None:
    model = make(actuators, sensors, integrator)
    commands = sweep('a', 'b', amplitude=2.0, duration=4.0)
    runs = twice(model, TRUTH, times=np.arange(0, 4, 0.01), commands=commands)
    result = found(model, TRUTH, runs)
    assert source in result.sentence
    assert np.all(relative(result, TRUTH) < 0.1)


@pytest.mark.slow
def test_gains_and_delays_of_servos_come_with_it() -> None:
    model = make(SERVOS)
    truth = {'actuator/a/kp': 35.0, 'actuator/b/kp': 6.0, 'actuator/a/delay': 0.02}
    commands = sweep('a', 'b', duration=4.0)
    runs = twice(model, truth, times=np.arange(0, 4, 0.004), commands=commands)
    assert np.all(relative(found(model, truth, runs), truth) < 0.1)


def test_measured_torque_tells_the_gain_of_its_servo() -> None:
    model = make(SERVOS, TORQUES)
    truth = {'actuator/a/kp': 35.0, 'joint/j/armature': 0.1}
    runs = twice(model, truth, commands=sweep('a', 'b'))
    assert np.all(relative(found(model, truth, runs), truth) < 0.1)


def test_a_joint_without_actuator_has_no_torque() -> None:
    model = make('')
    truth = {'joint/j/damping': 0.05, 'joint/k/damping': 0.08, 'body/tip/mass': 0.6}
    runs = twice(model, truth, start=([1.5, 0.5], [0, 0]))
    assert np.all(relative(found(model, truth, runs), truth) < 0.1)


@pytest.mark.slow
def test_an_inertia_is_found_and_physical() -> None:
    model = make()
    true = make()
    tip = true.body('tip').id
    true.body_mass[tip], true.body_ipos[tip] = 0.9, (0.05, 0.02, -0.2)
    mujoco.mj_setConst(true, mujoco.MjData(true))
    runs = twice(true, commands=sweep('a', 'b', amplitude=2.0))
    unknowns = make_unknowns('body/tip/inertia', model)
    result = solved(model, unknowns, runs)
    assert isinstance(result, Regression)
    with make_simulator(model, unknowns, runs, 1) as simulator:
        moved = simulator.compiled(result.x)
    assert np.all(moved.body_inertia[tip] > 0)
    # In the plane only these three are determined, with the moment about the joint.
    for axis in (0, 2):
        first = moved.body_mass[tip] * moved.body_ipos[tip, axis]
        assert first == pytest.approx(0.9 * true.body_ipos[tip, axis], rel=0.1)


def test_what_the_motion_does_not_tell_stays_or_follows_its_prior() -> None:
    model = make()
    runs = twice(model, commands=sweep('a', 'b', amplitude=2.0))
    beside = ['joint/j/armature', 'body/tip/ipos[1]']  # along the axis of both joints
    unknowns = [p for path in beside for p in make_unknowns(path, model)]
    for prior, expected in ((None, 0.02), ((0.3, 0.1), 0.3)):
        chosen = [unknowns[0], dataclasses.replace(unknowns[1], prior=prior)]
        result = solved(model, chosen, runs)
        assert isinstance(result, Regression)
        assert result.x[1] == pytest.approx(expected, abs=1e-3)


def test_it_says_why_it_is_not_possible() -> None:
    commands = sweep('a', 'b')
    free = make(more='<body name="ball"><freejoint name="f"/><geom size=".1"/></body>')
    told = twice(free, commands=commands)
    assert "joint 'f' turns or moves about more than one axis" in found(free, TRUTH, told)
    model = make()
    first, run = twice(model, commands=commands)
    (series,) = run.measurements
    kept = {'k_position': series.signal_mapping['k_position']}
    blind = dataclasses.replace(series, signal_mapping=kept)
    run = dataclasses.replace(run, measurements=(blind,))
    said = found(model, TRUTH, [first, run])
    assert "the position of joint 'j' is not measured in 'run 1'" in said
    still = twice(model, commands=commands, times=np.arange(0, 0.2, 0.01))
    assert 'not measured' in found(model, TRUTH, still)


def _delay(bounds: tuple[float, float] = (0.0, 0.06)) -> Unknown:
    (unknown,) = make_unknowns(
        'actuator/*/delay', spec().compile(), shared=True, bounds=bounds, initial=bounds[0]
    )
    return unknown


@pytest.mark.parametrize('delay', [0.00325, 0.01225, 0.0275, 0.04175])
def test_the_period_of_the_delay_is_found_whatever_the_model_believes(delay: float) -> None:
    wrong = spec()
    for joint in wrong.joints:
        joint.armature *= 3
        joint.damping *= 0.2
    (found,) = aimed(wrong.compile(), [_delay()], [recorded(seed=1, delay=delay)])
    assert found.min_value <= delay <= found.max_value
    assert found.max_value - found.min_value < PERIOD + 3 * 2e-3
    assert found.min_value < found.nominal < found.max_value


def test_the_steps_of_an_encoder_are_no_velocity() -> None:
    run = recorded(seed=3, delay=0.0275, interval=1e-3)
    (series,) = run.measurements
    kept = {k: v for k, v in series.signal_mapping.items() if not k.endswith('velocity')}
    data = series.data.copy()
    for name, (_, columns) in kept.items():
        if name.endswith('position'):
            data[:, columns] = ENCODER * np.round(data[:, columns] / ENCODER)
    coarse = dataclasses.replace(series, data=data, signal_mapping=kept)
    run = dataclasses.replace(run, measurements=(coarse,))
    (found,) = aimed(spec().compile(), [_delay()], [run])
    assert found.min_value <= 0.0275 <= found.max_value
    assert found.max_value - found.min_value < PERIOD + 3 * 2e-3


def test_a_delay_at_the_wall_is_not_shut_out() -> None:
    (found,) = aimed(spec().compile(), [_delay()], [recorded(delay=2 * PERIOD)])
    assert found.min_value < 2 * PERIOD < found.max_value


def test_gains_begin_where_forces_show_them() -> None:
    wrong = spec()
    for actuator in wrong.actuators:
        actuator.gainprm[0] *= 1.7
        actuator.biasprm[1] *= 1.7
        actuator.biasprm[2] *= 0.4
    model = wrong.compile()
    gains = [u for what in ('kp', 'kv') for u in make_unknowns(f'actuator/*/{what}', model)]
    found = aimed(model, [*gains, _delay()], [recorded(seed=1)])
    assert [u.nominal for u in found[:2]] == pytest.approx(KP, rel=0.02)
    assert [u.nominal for u in found[2:4]] == pytest.approx([15.0, 6.0], rel=0.1)
    assert [u.min_value for u in found[:4]] == [u.min_value for u in gains]


def test_bounds_of_the_user_hold() -> None:
    (found,) = aimed(spec().compile(), [_delay((0.011, 0.02))], [recorded(delay=0.01225)])
    assert found.min_value == 0.011
    assert found.max_value == 0.02


def test_without_forces_or_when_commands_came_nothing_is_aimed() -> None:
    model, unknown = spec().compile(), _delay()
    trajectory = recorded()
    assert aimed(model, [unknown], [unsampled(trajectory)]) == (unknown,)
    (series,) = trajectory.measurements
    motion = {k: v for k, v in series.signal_mapping.items() if not k.endswith('effort')}
    blind = dataclasses.replace(
        trajectory, measurements=(dataclasses.replace(series, signal_mapping=motion),)
    )
    assert aimed(model, [unknown], [blind]) == (unknown,)
