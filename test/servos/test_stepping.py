# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Simulations that are stepped together move as each does by hand."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest
from mujoco.batch import Batch
from numpy.typing import NDArray

from builders.servo_robots import arm, drive, driven_arm
from sysid_ros.servos.joints import ServoController, ServoJoints, ServoStepper

STEPS = 400


def goals(amplitude: float = 1.4) -> NDArray[np.float64]:
    times = 0.002 * np.arange(STEPS)
    return amplitude * np.sin(6.0 * times[:, None] + np.array([0.5, 0.0]))


def one_by_one(
    joints: ServoJoints,
    wanted: NDArray[np.float64],
    control: NDArray[np.float64],
) -> dict[str, NDArray[np.float64]]:
    """Step a simulation by hand."""
    data = mujoco.MjData(joints.model)
    data.qpos[:], data.qvel[:] = (0.1, 0.2, 0.3), (1.0, 0.0, -1.0)
    controller = ServoController(joints, data)
    found: dict[str, list[NDArray[np.float64]]] = {
        'qpos': [],
        'sensordata': [],
        'qfrc_actuator': [],
    }
    limited = 0
    for row in range(STEPS):
        data.ctrl[:] = control[row]
        controller.goal[:] = wanted[row]
        controller.update()
        mujoco.mj_step(joints.model, data)
        limited += int(data.nefc > data.nf)
        for name, rows in found.items():
            rows.append(getattr(data, name).copy())
    assert limited > 10  # limits are loads, too
    return {name: np.array(rows) for name, rows in found.items()}


START = (0.1, 0.2, 0.3), (1.0, 0.0, -1.0)
BASES, QUADS = np.array([0.0, 0.02, 0.1]), np.array([0.0, 0.5, 2.0])


def stepped(
    wanted: NDArray[np.float64], control: NDArray[np.float64], count: int
) -> dict[str, NDArray[np.float64]]:
    """Step the first simulations of a batch of three, each with its own friction."""
    joints = driven_arm()
    columns = {(0, 'friction_base'): 0, (1, 'friction_base'): 0, (0, 'load_friction_motor_quad'): 1}
    batch = Batch(joints.model, len(BASES), 2)
    batch.reset(stage=0)
    batch.bind('qpos')[:], batch.bind('qvel')[:] = START
    told = np.tile(control, (count, 1, 1))
    told[:, :, joints.controls] = wanted[:count]
    sizes = {'qpos': 3, 'sensordata': 4, 'qfrc_actuator': 3}
    found = {name: np.empty((count, STEPS, size)) for name, size in sizes.items()}
    stepper = ServoStepper(joints, joints.model, columns)
    stepper.roll(batch, told, np.column_stack([BASES, QUADS])[:count], found)
    return found


@pytest.mark.slow
@pytest.mark.parametrize('count', [3, 2])
def test_simulations_in_a_batch_move_as_each_does_by_hand(count: int):
    wanted = np.stack([goals(), -goals(), goals(2.0)])
    control = np.zeros((STEPS, 3))
    control[:, 1] = 0.05 * np.sin(0.1 * np.arange(STEPS))
    found = stepped(wanted, control, count)

    for index in range(count):
        base = BASES[index]
        drives = [
            drive('b', model='m6', friction_base=base, load_friction_motor_quad=QUADS[index]),
            drive('a', model='m2', friction_base=base),
        ]
        expected = one_by_one(ServoJoints(arm(), drives), wanted[index], control)
        for name, values in expected.items():
            assert found[name][index] == pytest.approx(values, abs=1e-12, rel=1e-11), name


@pytest.mark.slow
def test_a_simulation_that_diverges_repeats_its_record_and_the_others_go_on():
    wanted = np.stack([goals(), goals(), goals()])
    good = stepped(wanted, np.zeros((STEPS, 3)), 3)
    wanted[1, 50:] = np.nan
    found = stepped(wanted, np.zeros((STEPS, 3)), 3)

    assert np.array_equal(found['qpos'][[0, 2]], good['qpos'][[0, 2]])
    assert np.all(found['qpos'][1, 50:] == found['qpos'][1, 50])
