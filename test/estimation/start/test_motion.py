# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Position, velocity and acceleration of joints from what was measured of them."""

from __future__ import annotations

import mujoco
import numpy as np
from numpy.typing import NDArray

from sysid_ros.estimation.motion import disturbed, measured_joints, smoothed
from sysid_ros.rollout.prediction import make_simulator
from sysid_ros.signals import TimeSeries
from sysid_ros.signals.trajectory import PrescribedMotion, Trajectory

MODEL = mujoco.MjModel.from_xml_string(
    """<mujoco><option timestep=".001" integrator="RK4"/><worldbody><body>
    <inertial mass="1" pos="0 0 -.2" diaginertia=".02 .02 .02"/><joint name="j" axis="0 1 0"/>
    </body></worldbody><sensor><jointpos name="position" joint="j"/>
    </sensor></mujoco>"""
)
#: rad and rad/s.
AMPLITUDE, FREQUENCY = 0.5, 2 * np.pi


def moved(
    times: NDArray[np.float64], sigma: float = 0.0
) -> tuple[PrescribedMotion, NDArray[np.bool_]]:
    noise = sigma * np.random.default_rng(0).normal(size=len(times))
    measured = AMPLITUDE * np.sin(FREQUENCY * times) + noise
    series = TimeSeries.from_columns(times, measured[:, None], ['position'])
    run = Trajectory('run', 0, np.zeros(1), np.zeros(1), (), (series,))
    with make_simulator(MODEL, [], [run], 1) as simulator:
        positions = measured_joints(simulator.model, simulator.runs[0]).position
        found = smoothed(simulator.model, positions, np.zeros(1))
    assert found is not None
    return found, ~disturbed(MODEL, found, positions.values())


def wrong(motion: PrescribedMotion, sound: NDArray[np.bool_]) -> tuple[float, float, float]:
    """Return root mean square errors of position, velocity, acceleration, in amplitudes."""
    phase = FREQUENCY * motion.times
    truth = (np.sin(phase), FREQUENCY * np.cos(phase), -(FREQUENCY**2) * np.sin(phase))
    values = (motion.qpos, motion.qvel, motion.qacc)
    position, velocity, acceleration = (
        float(np.std((v[:, 0] / AMPLITUDE - t)[sound]) / FREQUENCY**order)
        for order, (v, t) in enumerate(zip(values, truth, strict=True))
    )
    return position, velocity, acceleration


def test_a_sine_is_differentiated_between_irregular_samples() -> None:
    times = np.cumsum(np.random.default_rng(1).uniform(0.006, 0.014, 500))
    assert max(wrong(*moved(times))) < 0.01


def test_noise_is_kept_out_of_the_accelerations() -> None:
    motion, sound = moved(np.arange(0, 10, 0.005), sigma=1e-3)
    assert motion.cutoff < 8.0
    assert max(wrong(motion, sound)) < 0.05
    raw = np.gradient(np.gradient(np.random.default_rng(0).normal(size=2000), 0.005), 0.005)
    assert np.std(raw) * 1e-3 > AMPLITUDE * FREQUENCY**2  # what would be left of it otherwise


def test_what_is_beside_a_gap_or_an_end_does_not_count() -> None:
    times = np.arange(0, 6, 0.01)
    times = times[(times < 2) | (times > 3)]
    motion, kept = moved(times)
    sound = motion.times[kept]
    assert not np.any((sound > 1.99) & (sound < 3.01))
    assert sound[0] > 0.01
    assert sound[-1] < 5.98
    assert len(sound) > 300
