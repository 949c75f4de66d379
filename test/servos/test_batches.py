# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Many simulations at once are what they are one at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import mujoco
import numpy as np
import pytest

from builders.servo_robots import arm, drive, driven_arm
from sysid_ros.errors import ParameterError
from sysid_ros.servos.laws.batches import ServoBatch
from sysid_ros.servos.laws.controller import ServoController
from sysid_ros.servos.laws.forces import Supply
from sysid_ros.servos.laws.joints import ServoJoints

if TYPE_CHECKING:
    from numpy.typing import NDArray

STEPS = 400


def goals(amplitude: float = 1.4) -> NDArray[np.float64]:
    times = 0.002 * np.arange(STEPS)
    return amplitude * np.sin(6.0 * times[:, None] + np.array([0.5, 0.0]))


def one_by_one(
    joints: ServoJoints,
    wanted: NDArray[np.float64],
    on: NDArray[np.float64],
    control: NDArray[np.float64],
    supply: Supply | None = None,
) -> dict[str, NDArray[np.float64]]:
    """Step a simulation by hand."""
    data = mujoco.MjData(joints.model)
    data.qpos[:], data.qvel[:] = (0.1, 0.2, 0.3), (1.0, 0.0, -1.0)
    controller = ServoController(joints, data, supply=supply)
    found: dict[str, list[NDArray[np.float64]]] = {
        'qpos': [],
        'sensordata': [],
        'qfrc_actuator': [],
    }
    limited = 0
    for row in range(STEPS):
        data.ctrl[:] = control[row]
        controller.goal[:], controller.enabled[:] = wanted[row], on[row]
        controller.update()
        mujoco.mj_step(joints.model, data)
        limited += int(data.nefc > data.nf)
        for name, rows in found.items():
            rows.append(getattr(data, name).copy())
    assert limited > 10  # limits are loads, too
    return {name: np.array(rows) for name, rows in found.items()}


@pytest.mark.slow
@pytest.mark.parametrize('supply', [None, Supply(0.8, lowest=4.0)])
def test_a_batch_is_as_many_single_simulations(supply: Supply | None):
    bases, quads = np.array([0.0, 0.02, 0.1]), np.array([0.0, 0.5, 2.0])
    wanted = np.stack([goals(), -goals(), goals(2.0)])
    on = np.ones((3, STEPS, 2))
    on[1, 200:, 0] = 0.0
    control = np.zeros((STEPS, 3))
    control[:, 1] = 0.05 * np.sin(0.1 * np.arange(STEPS))
    batch = ServoBatch(
        driven_arm(),
        3,
        threads=2,
        values={'friction_base': bases, 'b/load_friction_motor_quad': quads},
        supply=supply,
    )
    found = batch.rollout(
        wanted,
        qpos=[0.1, 0.2, 0.3],
        qvel=[1.0, 0.0, -1.0],
        enabled=on,
        control=control,
        record=('qpos', 'sensordata', 'qfrc_actuator'),
    )

    for index in range(3):
        drives = [
            drive(
                'b',
                model='m6',
                friction_base=bases[index],
                load_friction_motor_quad=quads[index],
            ),
            drive('a', model='m2', friction_base=bases[index]),
        ]
        joints = ServoJoints(arm(), drives)
        expected = one_by_one(joints, wanted[index], on[index], control, supply)
        for name, values in expected.items():
            assert found[name][index] == pytest.approx(values, abs=1e-12, rel=1e-11), name


def test_a_second_rollout_starts_anew():
    batch = ServoBatch(driven_arm(), 2, threads=1)

    first, second = (batch.rollout(goals())['qpos'] for _ in range(2))

    assert np.array_equal(first, second)


def test_armatures_may_differ():
    batch = ServoBatch(
        driven_arm(), 2, threads=1, values={'armature': [[0.01, 0.02], [0.03, 0.04]]}
    )
    found = batch.rollout(goals())['qpos'][1]

    drives = [drive('b', model='m6', armature=0.03), drive('a', model='m2', armature=0.04)]
    alone = ServoBatch(ServoJoints(arm(), drives), 1).rollout(goals())['qpos'][0]
    assert found == pytest.approx(alone, abs=1e-12)


def test_a_simulation_that_diverges_stops_and_the_others_go_on():
    wanted = np.stack([goals(), goals(), goals()])
    wanted[1, 50:] = np.nan
    batch = ServoBatch(driven_arm(), 3, threads=2)
    found = batch.rollout(wanted, record=('time', 'qpos'))

    alone = ServoBatch(driven_arm(), 1).rollout(goals())['qpos'][0]
    assert np.array_equal(found['qpos'][0], alone)
    assert np.array_equal(found['qpos'][2], alone)
    assert found['time'][1, -1] == found['time'][1, 50]
    assert found['time'][0, -1] == pytest.approx(0.002 * STEPS)
    assert np.isfinite(found['qpos']).all()


def test_records_end_where_all_simulations_do():
    wanted = goals()
    wanted[50:] = np.nan

    found = ServoBatch(driven_arm(), 2).rollout(wanted, record=('time', 'qpos', 'sensordata'))

    assert np.all(found['time'][:, 50:] == found['time'][:, [50]])
    assert np.isfinite(found['sensordata']).all()


def test_what_no_servo_has_or_nothing_records_is_named():
    joints = driven_arm()
    with pytest.raises(ParameterError, match="No servo here has the number 'ktt'; nearest: kt"):
        ServoBatch(joints, 2, values={'ktt': [1.0, 2.0]})
    with pytest.raises(ParameterError, match="number 'a/load_friction_motor'"):
        ServoBatch(joints, 2, values={'a/load_friction_motor': [1.0, 2.0]})
    with pytest.raises(ParameterError, match=r"'kt' of shape \(2,\) or \(2, 2\), found \(3,\)"):
        ServoBatch(joints, 2, values={'kt': [1.0, 2.0, 3.0]})
    with pytest.raises(ParameterError, match="Cannot record 'qpoz'; nearest: qpos"):
        ServoBatch(joints, 2).rollout(goals(), record=('qpoz',))
