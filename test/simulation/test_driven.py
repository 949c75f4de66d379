# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Robots whose joints are driven by servos: laws between steps, and their numbers as unknowns."""

from __future__ import annotations

import dataclasses

import mujoco
import numpy as np
import pytest
from numpy.typing import NDArray

from sysid_ros.errors import ParameterError
from sysid_ros.fit.fit import FitOptions
from sysid_ros.fit.residuals import Residuals
from sysid_ros.fit.solver import SolverSettings
from sysid_ros.model.targets import Unknown, make_unknowns
from sysid_ros.signals import SignalType, TimeSeries, Trajectory
from sysid_ros.simulation.prediction import make_simulator, predict, predict_each
from sysid_ros.simulation.servo import Servo
from sysid_ros.simulation.servo_joints import ServoController, ServoDrive, ServoJoints
from sysid_ros.uncertainty.inference import identify
from sysid_ros.workflows.problem import servo_unknowns

STEP = 0.004
MODEL = mujoco.MjModel.from_xml_string(f"""
<mujoco>
  <option timestep="{STEP}"/>
  <default><joint axis="0 -1 0"/></default>
  <worldbody>
    <body>
      <inertial pos="0 0 -.1" mass=".3" diaginertia=".001 .001 .001"/>
      <joint name="shoulder"/>
      <body pos="0 0 -.15">
        <inertial pos="0 0 -.1" mass=".25" diaginertia=".001 .001 .001"/>
        <joint name="elbow"/>
        <body pos="0 0 -.12">
          <inertial pos="0 0 -.02" mass=".02" diaginertia=".00005 .00005 .00005"/>
          <joint name="tip" damping=".0005" frictionloss=".0002"/>
        </body>
      </body>
    </body>
  </worldbody>
  <actuator>
    <position name="s" joint="shoulder" kp="3"/>
    <position name="e" joint="elbow" kp="3" delay=".008" nsample="4"/>
    <motor name="t" joint="tip"/>
  </actuator>
  <sensor>
    <jointpos name="ps" joint="shoulder"/>
    <jointpos name="pe" joint="elbow"/>
    <jointpos name="pt" joint="tip"/>
    <jointactuatorfrc name="fe" joint="elbow"/>
    <jointvel name="vt" joint="tip"/>
  </sensor>
</mujoco>
""")
POSITIONS = ['ps', 'pe', 'pt']
SENSORS = [*POSITIONS, 'fe', 'vt']
SERVO = Servo.named('xl330', 'm4')
TRUTH = {
    'kt': 0.9,
    'R': 3.0,
    'armature': 0.006,
    'friction_base': 0.03,
    'friction_stribeck': 0.02,
    'load_friction_base': 0.12,
    'load_friction_stribeck': 0.15,
    'dtheta_stribeck': 0.3,
    'alpha': 1.5,
    'friction_viscous': 0.02,
}


def joints(model: mujoco.MjModel = MODEL, **numbers: float) -> ServoJoints:
    return ServoJoints(model, [ServoDrive(('s', 'e'), SERVO, {**TRUTH, **numbers})])


def goals(duration: float, phase: float) -> TimeSeries:
    times = np.arange(-0.1, duration, 0.02)
    angles = 2 * np.pi * np.outer(times, [0.5, 0.7]) + phase
    swing = 0.9 * np.sin(angles) + 0.3 * np.sin(2.9 * angles)
    return TimeSeries.from_columns(times, swing, ['s', 'e'], SignalType.MjCtrl)


def blank(duration: float = 1.0, phase: float = 0.0, name: str = 'run') -> Trajectory:
    """Return a sequence without measurements worth the name."""
    stamps = np.arange(0.0, duration, 2 * STEP)
    nothing = TimeSeries.from_columns(stamps, np.zeros((len(stamps), len(SENSORS))), SENSORS)
    return Trajectory(
        name=name,
        origin_ns=0,
        initial_qpos=np.array([0.1, 0.2, 0.0]),
        initial_qvel=np.zeros(3),
        commands=(goals(duration, phase),),
        measurements=(nothing,),
    )


def predicted(
    parameters: list[Unknown] | None = None,
    values: list[float] | None = None,
    drives: ServoJoints | None = None,
    model: mujoco.MjModel = MODEL,
    run: Trajectory | None = None,
) -> NDArray[np.float64]:
    (found,) = predict(
        model,
        [run or blank()],
        parameters or [],
        np.array(values or []),
        threads=1,
        drives=drives or joints(),
    )
    assert not found.diverged.any()
    return found.channels[0][0]


def unknown(path: str, initial: float = 0.1) -> Unknown:
    (made,) = make_unknowns(path, MODEL, initial=initial, bounds=(0.0001, 50.0))
    return made


def recorded(duration: float, phase: float, name: str, noise: float) -> Trajectory:
    """Return a run of the true robot, with noise on the positions of its joints."""
    run = blank(duration, phase, name)
    clean = predicted(run=run)[:, :3]
    noisy = clean + noise * np.random.default_rng(round(100 * phase)).standard_normal(clean.shape)
    series = TimeSeries.from_columns(run.measurements[0].times, noisy, POSITIONS)
    return dataclasses.replace(run, measurements=(series,))


def test_a_sequence_is_simulated_as_by_hand():
    run = blank()
    own = joints()
    data = mujoco.MjData(own.model)
    data.qpos[:] = run.initial_qpos
    controller = ServoController(own, data)
    # Commands change every five steps, on a step; those of the elbow act two steps later.
    commands = run.commands[0]
    expected = []
    for step in range(int(1.0 / STEP)):
        for name, delay in (('s', 0.0), ('e', 2 * STEP)):
            held = np.searchsorted(commands.times, step * STEP - delay + 1e-9, side='right') - 1
            controller.command({name: commands.get(name)[held, 0]})
        controller.update()
        mujoco.mj_step(own.model, data)
        if step % 2 == 0:
            expected.append(data.sensordata.copy())
    assert predicted() == pytest.approx(np.array(expected), abs=1e-9)


@pytest.mark.slow
def test_numbers_of_laws_are_those_of_each_candidate():
    paths = ['actuator/s/friction_base', 'actuator/e/load_friction_base', 'actuator/e/kt']
    parameters = [unknown(path) for path in paths]
    candidates = np.array([[0.01, 0.1, 0.8], [0.1, 0.3, 1.1], [0.04, 0.0, 0.9]])
    found = predict_each(MODEL, [blank()], parameters, candidates, 2, drives=joints())
    for (base, load, kt), (*_, channels, _) in zip(candidates, found, strict=True):
        own = {**TRUTH, 'friction_base': base}, {**TRUTH, 'load_friction_base': load, 'kt': kt}
        drives = [ServoDrive((name,), SERVO, v) for name, v in zip('se', own, strict=True)]
        expected = predicted(drives=ServoJoints(MODEL, drives))
        assert channels[0] == pytest.approx(expected, abs=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize(
    ('path', 'value'),
    [
        ('joint/elbow/armature', 0.02),
        ('joint/tip/damping', 0.004),
        ('joint/tip/frictionloss', 0.003),
        ('joint/tip/armature', 0.0004),
    ],
)
def test_what_no_law_decides_is_written_as_ever(path: str, value: float):
    model = MODEL.__copy__()
    _, name, attribute = path.split('/')
    getattr(model, f'dof_{attribute}')[model.joint(name).dofadr[0]] = value
    mujoco.mj_setConst(model, mujoco.MjData(model))
    drives = joints(model)
    if name == 'elbow':
        bare = {name: number for name, number in TRUTH.items() if name != 'armature'}
        own = {'s': TRUTH, 'e': {**bare, 'armature': value}}
        drives = ServoJoints(model, [ServoDrive((k,), SERVO, v) for k, v in own.items()])
    expected = predicted(drives=drives, model=model)
    found = predicted([unknown(path)], [value])
    assert found == pytest.approx(expected, abs=1e-12)
    assert np.abs(found - predicted()).max() > 1e-4


def test_goals_are_delayed_and_shifted_as_commands():
    found = predicted([unknown('actuator/s/delay'), unknown('actuator/s/bias')], [0.02, 0.1])
    run = blank()
    commands = run.commands[0]
    moved = TimeSeries.from_columns(
        commands.times + 0.02, commands.get('s') + 0.1, ['s'], SignalType.MjCtrl
    )
    kept = TimeSeries.from_columns(commands.times, commands.get('e'), ['e'], SignalType.MjCtrl)
    run = dataclasses.replace(run, commands=(moved, kept))
    assert found == pytest.approx(predicted(run=run), abs=1e-9)


def test_a_candidate_that_becomes_unstable_is_finite_and_counted():
    parameters = [Unknown('kt', unknown('actuator/e/kt').targets, 1.0, 0.1, 1e4)]
    run = recorded(0.5, 0.0, 'run', 1e-4)
    with make_simulator(MODEL, parameters, [run], 1, drives=joints()) as simulator:
        residuals = Residuals(simulator, dict.fromkeys(POSITIONS, 1e-4))
        found = residuals(np.array([[0.9], [5e3]]))

        assert np.isfinite(found).all()
        assert residuals.unstable.tolist() == [False, True]
        assert residuals.diverged == 1
        assert np.abs(found[:, 0]).max() < 6.0


def test_a_number_of_a_servo_needs_a_servo():
    with pytest.raises(ParameterError, match="no servo drives actuator 's': expected the actuator"):
        make_simulator(MODEL, [unknown('actuator/s/kt')], [blank()], 1)
    with pytest.raises(ParameterError, match="no servo drives actuator 't': expected the actuator"):
        make_simulator(MODEL, [unknown('actuator/t/kt')], [blank()], 1, drives=joints())
    with pytest.raises(ParameterError, match="'xl330 m4' of actuator 's' has no 'max_velocity'"):
        make_simulator(MODEL, [unknown('actuator/s/max_velocity')], [blank()], 1, drives=joints())


@pytest.mark.parametrize(
    'path',
    ['joint/shoulder/frictionloss', 'joint/shoulder/damping', 'joint/shoulder/solreffriction']
    + [f'actuator/s/{name}' for name in ('kp', 'gear', 'biasprm[2]')],
)
def test_what_a_law_decides_is_no_parameter(path: str):
    with pytest.raises(ParameterError, match=f'{path[:8]}.* is decided by the servo .*friction_ba'):
        make_simulator(MODEL, [unknown(path)], [blank()], 1, drives=joints())


@pytest.mark.slow
def test_a_fit_finds_the_friction_of_every_joint():
    runs = [recorded(1.6, phase, f'run {phase}', 3e-4) for phase in (0.0, 2.0)]
    start = {**TRUTH, 'friction_base': 0.06, 'load_friction_base': 0.05, 'friction_stribeck': 0.05}
    names = ('friction_base', 'load_friction_base', 'friction_stribeck')
    drives = joints(**{name: start[name] for name in names})
    found = identify(
        MODEL, servo_unknowns(drives, names), runs, options=FitOptions(drives=drives, threads=2)
    )
    assert found.start == 'nominal'
    assert found.solution.success
    assert found.noise['ps'] == pytest.approx(3e-4, rel=0.15)
    for parameter, value, interval in zip(
        found.parameters, found.solution.x, found.intervals, strict=True
    ):
        truth = TRUTH[parameter.targets[0].attribute]
        assert interval.low <= truth <= interval.high, parameter.name
        assert interval.verdict == 'identified', parameter.name
        assert value == pytest.approx(truth, rel=0.1), parameter.name


@pytest.mark.slow
def test_windows_are_driven_by_servos_too():
    own = joints(kt=1.2)
    (gain,) = servo_unknowns(own, ['kt'], shared=True)
    found = identify(
        MODEL,
        [gain],
        [recorded(1.0, 0.0, 'run', 3e-4)],
        options=FitOptions(
            start='windows', drives=own, threads=1, settings=SolverSettings(max_iterations=20)
        ),
    )
    assert found.start == 'windows'
    assert found.solution.x[0] == pytest.approx(TRUTH['kt'], rel=3e-3)
