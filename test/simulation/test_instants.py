# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Forces that are read under the command in force."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from builders.fine_robot import DELAY, KP, PERIOD, recorded, spec, unsampled
from sysid_ros.model.targets import make_unknowns
from sysid_ros.signals import Trajectory
from sysid_ros.simulation.prediction import predict


def _error(
    trajectory: Trajectory, step: float = 2e-3, delay: float = DELAY, most: float = 500.0
) -> NDArray[np.float64]:
    """Return the (6,) root mean square errors of what the arm with a time step predicts."""
    model = spec(step, most)
    unknowns = make_unknowns('actuator/*/delay', model.compile(), shared=True, bounds=(0.0, 0.05))
    (found,) = predict(model, [trajectory], unknowns, np.array([delay]))
    missed = found.channels[0][0] - trajectory.measurements[0].data
    error: NDArray[np.float64] = np.sqrt(np.mean(missed**2, axis=0))
    return error


def test_forces_of_a_synchronous_driver_are_predicted_to_what_the_step_changes() -> None:
    trajectory = recorded(noise=0.0)
    forces = [2, 5]
    fine, coarse = (_error(trajectory, step)[forces] for step in (2.5e-4, 2e-3))
    assert np.all(fine < 1e-6)
    # What is left is the error of the integration, which is of first order in the step.
    shorter = _error(trajectory, 1e-3)[forces]
    assert shorter == pytest.approx(coarse * (1.0 - 0.25) / (2.0 - 0.25), rel=0.05)
    # Between the walls of a period, the delay moves the motion only.
    near = _error(trajectory, delay=DELAY + 1e-4)[forces]
    beyond = _error(trajectory, delay=DELAY - 0.3 * PERIOD)[forces]
    assert np.all(near < 1.2 * coarse)
    assert np.all(beyond > 5 * coarse)


def test_means_over_time_steps_are_no_readings() -> None:
    # A command comes to act within the step in which forces are read.
    trajectory = recorded(noise=0.0, delay=PERIOD + 2.5e-4)
    sampled, means = (
        _error(each, delay=PERIOD + 2.5e-4)[[2, 5]] for each in (trajectory, unsampled(trajectory))
    )
    assert np.all(3 * sampled < means)


def test_a_force_at_its_limit_stays_there() -> None:
    trajectory = recorded(noise=0.0, most=6.0)
    (column,) = trajectory.measurements[0].data[:, [2]].T
    assert np.mean(np.abs(column) > 6 - 1e-9) > 0.05
    assert _error(trajectory, 2.5e-4, most=6.0)[2] < 1e-5
    model = spec(most=6.0)
    (found,) = predict(model, [trajectory])
    assert np.abs(found.channels[0][0][:, 2]).max() < 6.0 + 2 * KP[0] * 1e-3


def test_gains_that_are_unknown_act_on_the_command_in_force() -> None:
    trajectory = recorded(noise=0.0)
    model = spec(2.5e-4)
    unknowns = make_unknowns('actuator/*/kp', model.compile(), shared=False)
    delay = make_unknowns('actuator/*/delay', model.compile(), shared=True, bounds=(0.0, 0.05))
    stiff = spec(2.5e-4)
    for actuator, factor in zip(stiff.actuators, (1.2, 0.7), strict=True):
        actuator.gainprm[0] *= factor
        actuator.biasprm[1] *= factor
    values = np.array([1.2 * KP[0], 0.7 * KP[1], DELAY])
    (one,) = predict(model, [trajectory], (*unknowns, *delay), values)
    (other,) = predict(stiff, [trajectory], delay, values[2:])
    assert one.channels[0] == pytest.approx(other.channels[0], abs=1e-9)
