# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Servos with their numbers, and the actuators of a model that they stand for."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sysid_ros.errors import ParameterError, nearest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sysid_ros.servos.laws.servo import Servo

#: What a servo has beside the numbers of its laws.
_APART = frozenset({'armature', 'q_offset'})


@dataclass(frozen=True)
class ServoDrive:
    """Servos of one kind with the same numbers, and the actuators of a model that they stand for.

    Attributes:
        actuators: Names of the actuators.
        servo: The laws.
        values: Of ``servo.coefficients``, without ``q_offset``, which is of a pendulum; without
            ``armature`` joints keep the model's.
        constants: What differs from ``servo.type.constants``, as ``kp`` and ``vin``.
    """

    actuators: tuple[str, ...]
    servo: Servo
    values: Mapping[str, float]
    constants: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for complaint in self._complaints():
            raise ParameterError(complaint)

    @property
    def numbers(self) -> dict[str, float]:
        """What the laws read, by name."""
        given = {**self.servo.type.constants, **self.constants, **self.values}
        return {name: float(given[name]) for name in self._read if name in given}

    @property
    def _read(self) -> tuple[str, ...]:
        law = self.servo.type.law
        return (*law.needs, *law.may_have, *self.servo.friction.coefficients)

    def _complaints(self) -> Iterator[str]:
        whose = f'the servo {self.servo.name!r} of {", ".join(map(repr, self.actuators))}'
        if not self.actuators:
            yield f'Expected the actuators that {self.servo.name!r} drives, found none.'
        known = {*self._read, *_APART}
        for name, value in {**self.constants, **self.values}.items():
            if name not in known:
                yield f'There is no {name!r} of {whose}; {nearest(name, sorted(known))}.'
            if not math.isfinite(value):
                yield f'Expected a finite {name!r} of {whose}, found {value}.'
        needed = (*self.servo.type.law.needs, *self.servo.friction.coefficients)
        missing = [name for name in needed if name not in self.numbers]
        if missing:
            given = ', '.join(self.values) or 'none'
            yield f'Expected a value of {", ".join(missing)} for {whose}, found values of {given}.'


def starting_values(servo: Servo) -> dict[str, float]:
    """Return where a fit of a servo starts: values for a `ServoDrive` of which nothing is known."""
    return {name: usual.initial for name, usual in servo.coefficients.items()}
