# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A servo with a friction law: everything that its pendulum or joint needs to be simulated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sysid_ros.servos.laws.catalogue import actuator_type
from sysid_ros.servos.laws.coefficients import Coefficient
from sysid_ros.servos.laws.friction import friction_law

if TYPE_CHECKING:
    from sysid_ros.servos.laws.catalogue import ActuatorType
    from sysid_ros.servos.laws.friction import FrictionLaw

_OFFSET = Coefficient(0.0, -0.1, 0.1)


@dataclass(frozen=True)
class Servo:
    """A kind of servo with one of the friction laws.

    Attributes:
        type: The kind of servo.
        friction: Its friction law.
        substeps: Steps of the pendulum's simulation from one sample to the next. Coefficients hold
            for the step that they were found with; 1 is BAM's.
    """

    type: ActuatorType
    friction: FrictionLaw
    substeps: int = 1

    @classmethod
    def named(cls, actuator: str, model: str, substeps: int = 1) -> Servo:
        """Return a servo by the names of its kind (or a file that defines it) and friction law.

        Raises:
            ParameterError: There is no such kind or law.
            ConfigError: The file that defines the kind is not valid.
        """
        return cls(actuator_type(actuator), friction_law(model), substeps)

    @property
    def coefficients(self) -> dict[str, Coefficient]:
        """All that a fit may find, in the order of a parameter file, with starts and bounds.

        ``q_offset`` is the angle of the pendulum from hanging down when the servo reads 0.
        """
        usual = self.friction.coefficients
        own = {name: self.type.friction.get(name, usual[name]) for name in usual}
        known = 'q_offset' in self.type.coefficients or 'q_offset' in self.type.constants
        offset = {} if known else {'q_offset': _OFFSET}
        return {**self.type.coefficients, **offset, **own}

    @property
    def name(self) -> str:
        """The kind and the friction law, as ``xl330 m6``."""
        return f'{self.type.name} {self.friction.name}'
