# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""How well the sensors of a model are assumed to measure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import mujoco
import numpy as np

from sysid_ros.errors import ModelError

if TYPE_CHECKING:
    from collections.abc import Mapping

_POSITIONS = (
    mujoco.mjtSensor.mjSENS_JOINTPOS,
    mujoco.mjtSensor.mjSENS_ACTUATORPOS,
    mujoco.mjtSensor.mjSENS_TENDONPOS,
)
_VELOCITIES = (
    mujoco.mjtSensor.mjSENS_JOINTVEL,
    mujoco.mjtSensor.mjSENS_ACTUATORVEL,
    mujoco.mjtSensor.mjSENS_TENDONVEL,
)
_EFFORTS = (
    mujoco.mjtSensor.mjSENS_JOINTACTFRC,
    mujoco.mjtSensor.mjSENS_ACTUATORFRC,
    mujoco.mjtSensor.mjSENS_TENDONACTFRC,
)
#: Standard deviations of what else a robot measures, in SI units: of the size that data sheets of
#: industrial sensors promise at 100 Hz.
_OTHERS = {
    mujoco.mjtSensor.mjSENS_GYRO: 5e-3,
    mujoco.mjtSensor.mjSENS_ACCELEROMETER: 5e-2,
    mujoco.mjtSensor.mjSENS_FORCE: 0.5,
    mujoco.mjtSensor.mjSENS_TORQUE: 2e-2,
    mujoco.mjtSensor.mjSENS_FRAMEPOS: 1e-3,
    mujoco.mjtSensor.mjSENS_FRAMEQUAT: 1e-3,
    mujoco.mjtSensor.mjSENS_MAGNETOMETER: 1e-3,
}


@dataclass(frozen=True)
class SensorNoise:
    """Standard deviations of the sensors, those of the ``simulated_robot`` node by default.

    Attributes:
        position: Of positions before the encoder, rad or m.
        velocity: Of velocities, rad/s or m/s.
        effort: Of forces and torques of actuators, N or N·m.
        encoder_bits: Encoders of hinges have 2^bits counts per turn; 0 means exact.
    """

    position: float = 1e-4
    velocity: float = 5e-3
    effort: float = 5e-2
    encoder_bits: int = 14

    @property
    def encoder(self) -> float:
        """Standard deviation of an encoded angle, rad: noise and a uniform rounding error."""
        count = 2 * np.pi / 2.0**self.encoder_bits if self.encoder_bits else 0.0
        return float(np.hypot(self.position, count / np.sqrt(12.0)))


def sensor_noise(
    model: mujoco.MjModel, noise: SensorNoise, known: Mapping[str, float] | None = None
) -> dict[str, float]:
    """Return the standard deviation of each sensor that can be assumed to be recorded.

    What is known of a sensor wins, then the attribute ``noise`` of the sensor in the MJCF file,
    then what sensors of its kind usually have. Sensors of which nothing is known are left out.

    Args:
        model: The compiled model.
        noise: Of positions, velocities and efforts.
        known: Sensor name to standard deviation.

    Raises:
        ModelError: No sensor has a name and a noise.
    """
    found: dict[str, float] = {}
    for row in range(model.nsensor):
        name = model.sensor(row).name
        sigma = (known or {}).get(name, 0.0) or float(model.sensor_noise[row])
        sigma = sigma or _usual(model, row, noise)
        if name and sigma:
            found[name] = sigma
    if not found:
        msg = (
            'Expected named sensors such as <jointpos name="q" joint="j"/> in the model, found '
            'none; without them nothing can be learnt from a motion.'
        )
        raise ModelError(msg)
    return found


def _usual(model: mujoco.MjModel, row: int, noise: SensorNoise) -> float:
    kind = mujoco.mjtSensor(int(model.sensor_type[row]))
    if kind in _POSITIONS:
        joint = int(model.sensor_objid[row])
        encoded = (
            kind == mujoco.mjtSensor.mjSENS_JOINTPOS
            and model.jnt_type[joint] == mujoco.mjtJoint.mjJNT_HINGE
        )
        return noise.encoder if encoded else noise.position
    if kind in _VELOCITIES:
        return noise.velocity
    if kind in _EFFORTS:
        return noise.effort
    return _OTHERS.get(kind, 0.0)
