# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A robot that simulations run away from is identified, and judged, over windows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest

from sysid_ros.config.files import validate
from sysid_ros.config.schema import CalibrationConfig
from sysid_ros.results.result import EstimatorKind
from sysid_ros.workflows.calibrate import identify

#: A cart that balances a pole; the gain of its motor is unknown, so that forces do not tell.
CART = """<mujoco><option timestep=".005" integrator="implicitfast"/><worldbody>
  <body name="cart"><joint name="slide" type="slide" axis="1 0 0" damping="{}"/>
    <inertial mass="1.5" pos="0 0 0" diaginertia=".01 .01 .01"/>
    <body name="pole"><joint name="hinge" axis="0 1 0" damping=".02"/>
      <inertial mass="{}" pos="0 0 .3" diaginertia=".012 .012 .0005"/></body></body>
  </worldbody><actuator><motor name="push" joint="slide" gear="{}"/></actuator></mujoco>"""
NOMINAL = 2.0, 0.4, 1.0
TRUTH = {'joint/slide/damping': 1.4, 'body/pole/mass': 0.55, 'actuator/push/gear[0]': 1.12}
HEAVY = 1.4, 0.9, 1.12


def record(path: Path, seed: int, values: tuple[float, ...]) -> None:
    """Write a table of the cart under a controller that moves it about."""
    rng = np.random.default_rng(seed)
    model = mujoco.MjModel.from_xml_string(CART.format(*values))
    data = mujoco.MjData(model)
    rates, phases = 2 * np.pi * rng.uniform(0.2, 0.8, 3), rng.uniform(0, 6, 3)
    lines = ['t,slide_pos,hinge_pos,slide_vel,hinge_vel,cmd_slide_effort']
    for step in range(1200):
        now = 0.005 * step
        wanted = 0.1 * min(now, 1.0) * np.sin(rates * now + phases).sum()
        mujoco.mj_forward(model, data)
        (x, angle), (speed, turn) = data.qpos - [wanted, 0.0], data.qvel
        data.ctrl[:] = 2.5 * x + 40 * angle + 5 * speed + 7 * turn
        told = np.concatenate([data.qpos, data.qvel])
        told += np.repeat([1e-4, 2e-3], 2) * rng.standard_normal(4)
        lines.append(','.join(f'{value:.9g}' for value in (now, *told, *data.ctrl)))
        mujoco.mj_step(model, data)
    path.write_text('\n'.join(lines) + '\n', encoding='utf-8')


@pytest.fixture(scope='module')
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp('cart')
    for seed, name in enumerate(('one', 'two', 'held_out')):
        record(folder / f'{name}.csv', seed, tuple(TRUTH.values()))
    record(folder / 'heavy.csv', 7, HEAVY)
    (folder / 'cart.xml').write_text(CART.format(*NOMINAL), encoding='utf-8')
    return folder


def config(folder: Path, held_out: str = 'held_out', **changes: Any) -> CalibrationConfig:
    values = {
        'model': folder / 'cart.xml',
        'bags': [
            {'path': str(folder / 'one.csv')},
            {'path': str(folder / 'two.csv')},
            {'path': str(folder / f'{held_out}.csv'), 'role': 'validate'},
        ],
        'parameters': [{'target': target} for target in TRUTH],
        'output': folder / 'out',
        'solver': {'threads': 1},
        'estimator': 'windows',
        **changes,
    }
    return validate(CalibrationConfig, values, 'the test')


@pytest.mark.slow
@pytest.mark.parametrize(
    ('estimator', 'sensors'), [('windows', None), ('auto', None), ('windows', ['*_position'])]
)
def test_a_balancing_robot_is_identified_over_windows(
    folder: Path, estimator: str, sensors: list[str] | None
) -> None:
    result = identify(config(folder, estimator=estimator, sensors=sensors)).result
    assert result.accepted, result.acceptance
    assert not result.reservations
    assert result.solver.estimator is EstimatorKind.WINDOWS
    assert result.solver.window is not None
    over = f'over windows of {result.solver.window:g} s'
    assert over in result.acceptance
    assert over in result.solver.estimator_sentence
    for parameter in result.parameters:
        (target,) = parameter.targets
        assert abs(parameter.value - TRUTH[target]) < 0.75 * (parameter.high - parameter.low)
    # Nothing is left but noise, held out as in training.
    assert result.held_out_after == pytest.approx(1.0, abs=0.1)
    assert result.training_after == pytest.approx(1.0, abs=0.1)
    # Shown next to it is what the nominal model predicts, and who keeps the velocity.
    assert {point.role for point in result.horizon} == {'train', 'validate'}
    assert all(joint.coasting > 0 for point in result.horizon for joint in point.joints)


@pytest.mark.slow
def test_another_robot_is_no_more_accepted_over_windows(folder: Path) -> None:
    result = identify(config(folder, 'heavy')).result
    assert not result.accepted
    assert 'generalises' in {reservation.name for reservation in result.reservations}
