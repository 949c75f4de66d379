# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""One recording of a servo on a pendulum."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Log:
    """What a servo was told and where it was, evenly sampled.

    Attributes:
        name: Of the file, without folder and suffix.
        motor: The servo, as the log says.
        trajectory: Name of the motion.
        mass: At the end of the arm, kg.
        arm_mass: Of the arm, evenly distributed, kg.
        length: Of the arm, m.
        constants: Gains and supply during this log by name, as ``kp`` and ``vin`` (V).
        dt: Time between samples, s.
        position: (n,) rad; 0 hangs down.
        goal: (n,) commanded position, rad.
        enabled: (n,) 1 where the motor is powered, else 0.
        speed: (n,) rad/s, where it was recorded.
        load: (n,) in the servo's own unit, where it was recorded.
        control: (n,) in the unit of the motor law, where it was recorded.
        path: Of the file, where there is one.
    """

    name: str
    motor: str
    trajectory: str
    mass: float
    arm_mass: float
    length: float
    constants: Mapping[str, float]
    dt: float
    position: NDArray[np.float64]
    goal: NDArray[np.float64]
    enabled: NDArray[np.float64]
    speed: NDArray[np.float64] | None = None
    load: NDArray[np.float64] | None = field(default=None)
    control: NDArray[np.float64] | None = None
    path: Path | None = None

    def __len__(self) -> int:
        """Return the number of samples."""
        return len(self.position)
