# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Recordings of forces are compared as forces, those of servos by simulation."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest

from sysid_ros.config.files import validate
from sysid_ros.config.schema import CalibrationConfig
from sysid_ros.errors import ConfigError, FitError
from sysid_ros.fit.observer import Nobody
from sysid_ros.results.result import CalibrationResult, EstimatorKind
from sysid_ros.workflows.calibrate import calibrate
from sysid_ros.workflows.estimators import Estimated, driven, estimated
from sysid_ros.workflows.preflight import preflight
from sysid_ros.workflows.problem import load

#: No sensors, as robots' models come; the robot has another mass, damping and friction.
ARM = """
<mujoco><option timestep=".002"/><worldbody>
  <body name="upper"><joint name="lift" axis="0 1 0" damping="{}" armature=".1"/>
    <inertial mass="2" pos=".15 0 0" diaginertia=".01 .02 .02"/>
    <body name="lower" pos=".3 0 0">
      <joint name="bend" axis="0 1 0" damping=".2" frictionloss="{}"/>
      <inertial mass="{}" pos=".1 0 .02" diaginertia=".003 .005 .005"/>
  </body></body></worldbody>
  <actuator>{}</actuator></mujoco>
"""
MOTORS = '<motor name="m1" joint="lift"/><motor name="m2" joint="bend" gear="2"/>'
SERVOS = '<position name="m1" joint="lift" kp="80"/><position name="m2" joint="bend" kp="40"/>'
TRUTH = {'joint/lift/damping': 0.9, 'joint/bend/frictionloss': 0.3, 'body/lower/mass': 1.6}
MOTION = ('position', 'velocity')
NOMINAL, REAL = (0.3, 0.1, 1.0), tuple(TRUTH.values())


def record(path: Path, seed: int, *, commands: bool) -> None:
    """Write a table of the arm under a controller that pushes both joints along waves."""
    rng = np.random.default_rng(seed)
    model = mujoco.MjModel.from_xml_string(ARM.format(*REAL, MOTORS))
    data = mujoco.MjData(model)
    rates, phases = 2 * np.pi * rng.uniform(0.3, 1.5, (2, 3)), rng.uniform(0, 6, (2, 3))
    head = 't,lift_pos,bend_pos,lift_vel,bend_vel,lift_effort,bend_effort'
    lines = [head + (',cmd_lift_effort,cmd_bend_effort' if commands else '')]
    noise = np.repeat([2e-5, 1e-3, 5e-3], 2)
    for step in range(4000):
        now = 0.002 * step
        wanted = 0.4 * np.sin(rates * now + phases).sum(axis=1) - 0.4 * np.sin(phases).sum(axis=1)
        away = wanted - data.qpos
        push = np.array([60, 20]) * away - np.array([6, 2]) * data.qvel + data.qfrc_bias
        data.ctrl[:] = push / model.actuator_gear[:, 0]
        mujoco.mj_forward(model, data)
        told = np.concatenate([data.qpos, data.qvel, data.qfrc_actuator])
        told += noise * rng.standard_normal(6)
        values = [now, *told, *(data.ctrl if commands else ())]
        lines.append(','.join(f'{value:.9g}' for value in values))
        mujoco.mj_step(model, data)
    path.write_text('\n'.join(lines) + '\n', encoding='utf-8')


@pytest.fixture(scope='module')
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with recordings of efforts alone."""
    folder = tmp_path_factory.mktemp('forces')
    for seed, name in enumerate(('train', 'validate')):
        record(folder / f'{name}.csv', seed, commands=False)
    record(folder / 'told.csv', 5, commands=True)
    (folder / 'arm.xml').write_text(ARM.format(*NOMINAL, MOTORS), encoding='utf-8')
    (folder / 'servos.xml').write_text(ARM.format(*NOMINAL, SERVOS), encoding='utf-8')
    return folder


def config(folder: Path, **changes: Any) -> CalibrationConfig:
    values = {
        'model': folder / 'arm.xml',
        'bags': [
            {'path': str(folder / 'train.csv')},
            {'path': str(folder / 'validate.csv'), 'role': 'validate'},
        ],
        'parameters': [{'target': target} for target in TRUTH],
        'output': folder / 'out',
        'solver': {'threads': 1},
        **changes,
    }
    return validate(CalibrationConfig, values, 'the test')


def changed(folder: Path, new: Path, change: Callable[[float], float]) -> None:
    """Write the recordings with other efforts of one joint."""
    for name in ('train', 'validate'):
        head, *lines = (folder / f'{name}.csv').read_text(encoding='utf-8').splitlines()
        rows = [line.split(',') for line in lines]
        place = head.split(',').index('bend_effort')
        for row in rows:
            row[place] = repr(change(float(row[place])))
        text = '\n'.join([head, *map(','.join, rows)])
        (new / f'{name}.csv').write_text(text + '\n', encoding='utf-8')


def improved(result: CalibrationResult) -> float:
    """Return the largest part that is left of held-out errors up to .5 s ahead."""
    near = (p for p in result.horizon if p.role == 'validate' and p.seconds <= 0.5)
    return max(point.after / point.before for point in near)


def seen(chosen: CalibrationConfig) -> Estimated:
    return estimated(chosen, load(chosen, Nobody()))


@pytest.mark.slow
@pytest.mark.usefixtures('undrawn')
def test_efforts_alone_tell_what_a_model_is_like(folder: Path) -> None:
    done = calibrate(config(folder))
    result = done.result
    assert result.accepted, result.acceptance
    assert result.solver.estimator is EstimatorKind.TORQUE
    assert 'nothing else says' in result.solver.estimator_sentence
    for parameter in result.parameters:
        (target,) = parameter.targets
        assert parameter.low < TRUTH[target] < parameter.high
        assert parameter.value == pytest.approx(TRUTH[target], rel=0.03)
    # Forces are compared; motion is predicted from measured states, better than before.
    assert {error.unit for error in result.errors} == {'N·m'}
    assert improved(result) < 0.5
    assert 'motion' in {check.name for check in result.gate}
    assert not any('commands' in warning for warning in result.warnings)
    assert done.mjcf_path is not None
    written = mujoco.MjModel.from_xml_path(str(done.mjcf_path))
    assert written.body('lower').mass[0] == pytest.approx(1.6, rel=0.03)
    again = CalibrationResult.load(done.result_path)
    assert again.solver.estimator is EstimatorKind.TORQUE


@pytest.mark.slow
@pytest.mark.usefixtures('undrawn')
def test_offsets_of_efforts_become_constant_forces_of_the_motors(
    folder: Path, tmp_path: Path
) -> None:
    offset = 0.25
    changed(folder, tmp_path, lambda effort: effort + offset)
    (tmp_path / 'arm.xml').write_text(ARM.format(*NOMINAL, MOTORS), encoding='utf-8')
    targets = (*TRUTH, 'sensor/bend_effort/bias')
    chosen = config(tmp_path, parameters=[{'target': target} for target in targets])
    done = calibrate(chosen)
    assert done.mjcf_path is not None
    text = done.mjcf_path.read_text(encoding='utf-8')
    assert '<motor name="m1"' in text  # whose efforts have no offset stays as it was
    written = mujoco.MjModel.from_xml_path(str(done.mjcf_path))
    # The gear of m2 is 2: its own force is half of the joint's.
    assert written.actuator_biasprm[1, 0] == pytest.approx(-offset / 2, abs=0.01)
    assert any('constant forces of the motors' in warning for warning in done.result.warnings)
    assert not any('does not hold' in warning for warning in done.result.warnings)
    # Motion is predicted by what drove the joint, not by what its sensor reads.
    assert improved(done.result) < 0.05
    # It is driven by forces still, and told what was measured it exerts as much.
    again = config(tmp_path, model=done.mjcf_path, parameters=chosen.model_dump()['parameters'])
    problem = load(again, Nobody())
    assert estimated(again, problem).kind is EstimatorKind.TORQUE
    (run,) = driven(problem).sequences('train')
    told = next(series for series in run.commands if 'm2' in series.names)
    measured = next(s for s in run.measurements if 'bend_effort' in s.names).get('bend_effort')
    both = 2 * (np.ravel(told.get('m2')) + written.actuator_biasprm[1, 0])
    np.testing.assert_allclose(both, np.ravel(measured), atol=1e-9)


@pytest.mark.slow
@pytest.mark.usefixtures('undrawn')
def test_a_wrong_constant_of_one_motor_is_told_and_allowed_for(
    folder: Path, tmp_path: Path
) -> None:
    changed(folder, tmp_path, lambda effort: 1.1 * effort)
    (tmp_path / 'arm.xml').write_text(ARM.format(*NOMINAL, MOTORS), encoding='utf-8')
    result = calibrate(config(tmp_path)).result
    assert result.inference is not None
    assert any("another gain of 'bend_effort'" in note for note in result.inference.notes)
    for parameter in result.parameters:
        assert parameter.low < TRUTH[parameter.targets[0]] < parameter.high
    right = calibrate(config(folder, output=tmp_path / 'right')).result
    assert right.inference is not None
    assert not any('another gain' in note for note in right.inference.notes)


@pytest.mark.slow
@pytest.mark.usefixtures('undrawn')
def test_a_model_without_actuators_is_driven_by_what_was_measured(folder: Path) -> None:
    bare = ARM.format(*NOMINAL, '').replace('<actuator></actuator>', '')
    (folder / 'bare.xml').write_text(bare, encoding='utf-8')
    done = calibrate(config(folder, model=folder / 'bare.xml', output=folder / 'bare'))
    assert done.result.solver.estimator is EstimatorKind.TORQUE
    assert improved(done.result) < 0.05
    assert done.mjcf_path is not None
    assert not mujoco.MjModel.from_xml_path(str(done.mjcf_path)).nactuator


def test_preflight_recommends_forces_where_simulations_diverge(folder: Path) -> None:
    # Driven by recorded torques, an arm that hardly loses energy tumbles.
    (folder / 'loose.xml').write_text(ARM.format(0.01, 0.001, 1.0, MOTORS), encoding='utf-8')
    told = [{'path': str(folder / 'told.csv')}]
    loose = config(
        folder,
        model=folder / 'loose.xml',
        bags=told,
        estimator='simulation',
        # Windows would find what whole simulations do not tell.
        solver={'start': 'nominal', 'threads': 1},
    )
    found = preflight(loose, Nobody())
    assert 'estimator: torque' in found.diverging
    assert found.instead == 'torque'
    assert len(found.doubtful) == len(TRUTH)


def test_forces_are_compared_where_nothing_but_them_drives(folder: Path) -> None:
    told = config(folder, bags=[{'path': str(folder / 'told.csv')}])
    assert seen(told).kind is EstimatorKind.TORQUE
    simulated = told.model_copy(update={'estimator': 'simulation'})
    assert seen(simulated).kind is EstimatorKind.SIMULATION
    # Commands of motors are the forces where no efforts are mapped.
    problem = load(told, Nobody())
    motion = tuple(f'{joint}_{what}' for joint in ('lift', 'bend') for what in MOTION)
    blind = load(told.model_copy(update={'sensors': motion}), Nobody())
    by_commands, by_efforts = estimated(told, blind), estimated(told, problem)
    (one,) = by_commands.problem.sequences('train')
    (other,) = by_efforts.problem.sequences('train')
    assert one.motion is not None
    for name in ('lift_effort', 'bend_effort'):
        first, second = (each.measurements[0].get(name) for each in (one, other))
        known = np.isfinite(first) & np.isfinite(second)
        assert np.std(first[known] - second[known]) < 0.01


def test_motors_may_drive_joints_by_tendons(folder: Path) -> None:
    tendons = """<motor name="m1" tendon="one"/><motor name="m2" tendon="both"/></actuator><tendon>
      <fixed name="one"><joint joint="lift" coef="2"/></fixed><fixed name="both">
      <joint joint="lift" coef="1"/><joint joint="bend" coef="1"/></fixed></tendon><actuator>"""
    (folder / 'tendons.xml').write_text(ARM.format(*NOMINAL, tendons), encoding='utf-8')
    chosen = config(folder, model=folder / 'tendons.xml')
    assert seen(chosen).kind is EstimatorKind.TORQUE
    # Told what was measured, both exert it together.
    problem = load(chosen, Nobody())
    (run,) = driven(problem).sequences('train')
    told = {name: np.ravel(s.get(name)) for s in run.commands for name in s.names}
    efforts = {name: s for s in run.measurements for name in s.names if 'effort' in name}
    for name, exerted in (
        ('lift_effort', 2 * told['m1'] + told['m2']),
        ('bend_effort', told['m2']),
    ):
        np.testing.assert_allclose(exerted, np.ravel(efforts[name].get(name)), atol=1e-9)


def test_servos_are_simulated_unless_asked_for(folder: Path) -> None:
    with pytest.raises(FitError, match='found none for m1, m2'):
        seen(config(folder, model=folder / 'servos.xml', estimator='simulation'))
    asked = config(folder, model=folder / 'servos.xml', estimator='torque')
    assert seen(asked).kind is EstimatorKind.TORQUE


@pytest.mark.parametrize(
    ('changes', 'sentence'),
    [
        ({'sensors': ['bend_position', 'bend_effort']}, "motion: the position of joint 'lift' is"),
        ({'parameters': [{'target': 'actuator/m2/gear[0]'}]}, 'does not act on the forces'),
        ({'estimator': 'simulation'}, ''),
    ],
)
def test_it_says_why_whole_simulations_are_compared(
    folder: Path, changes: dict[str, Any], sentence: str
) -> None:
    chosen = seen(config(folder, bags=[{'path': str(folder / 'told.csv')}], **changes))
    assert chosen.kind is EstimatorKind.SIMULATION
    assert sentence in chosen.sentence
    assert bool(chosen.sentence) == bool(sentence)


def test_it_says_how_to_compare_forces_under_feedback(folder: Path) -> None:
    chosen = config(folder, bags=[{'path': str(folder / 'told.csv')}])
    problem = load(chosen, Nobody())
    problem.model.actuator_biastype[1] = mujoco.mjtBias.mjBIAS_AFFINE
    problem.model.actuator_biasprm[1, 1] = -5.0
    found = estimated(chosen, problem)
    assert found.kind is EstimatorKind.SIMULATION
    assert found.sentence.endswith(
        'more than forces drives the joints; '
        'estimator: torque compares the forces, which simulates nothing'
    )


@pytest.mark.parametrize(
    ('changes', 'sentence'),
    [
        (
            {'parameters': [{'target': 'actuator/m2/gear[0]'}]},
            "parameter 'actuator/m2/gear\\[0\\]' does not act on the forces of a given motion",
        ),
        ({'sensors': ['lift_position', 'bend_position']}, 'no force or torque of a joint is meas'),
    ],
)
def test_it_says_why_forces_cannot_be_compared(
    folder: Path, changes: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(ConfigError, match=f'Estimator torque is not possible: {sentence}'):
        seen(config(folder, estimator='torque', **changes))
