# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A YAML file that defines a servo, and what may be wrong with it."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from sysid_ros.config.section import explain
from sysid_ros.errors import ConfigError, nearest
from sysid_ros.servos.laws.coefficients import UNITS
from sysid_ros.servos.laws.friction import FRICTION_COEFFICIENTS
from sysid_ros.servos.laws.motors import MOTOR_LAWS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sysid_ros.servos.laws.motors import MotorLaw

#: Numbers that every law of a motor may have beside its own.
_OF_EVERY_LAW = ('armature', 'q_offset')
#: Numbers that the laws divide by.
_DIVISORS = ('R', 'vin', 'dtheta_stribeck')
#: The only number that may be negative.
_SIGNED = ('q_offset',)


class Definition(BaseModel):
    """What the file holds.

    Attributes:
        name: Of the servo, as in logs and parameter files.
        law: Name of the motor's law.
        constants: What is set and not fitted.
        coefficients: Start, lower and upper bound of what a fit may find of the motor.
        friction: The same of friction coefficients where they differ from the usual.
    """

    model_config = ConfigDict(extra='forbid', allow_inf_nan=False)

    name: str
    law: str
    constants: dict[str, float] = Field(default_factory=dict)
    coefficients: dict[str, tuple[float, float, float]]
    friction: dict[str, tuple[float, float, float]] = Field(default_factory=dict)

    @model_validator(mode='after')
    def _is_complete(self) -> Definition:
        law = MOTOR_LAWS.get(self.law)
        if law is None:
            msg = f'There is no motor law {self.law!r}; {nearest(self.law, MOTOR_LAWS, 5)}'
            raise ValueError(msg)
        for complaint in chain(self._about_names(law), self._about_bounds(), self._about_signs()):
            raise ValueError(complaint)
        return self

    def _about_names(self, law: MotorLaw) -> Iterator[str]:
        given = {**self.constants, **self.coefficients}
        known = (*law.needs, *law.may_have, *_OF_EVERY_LAW)
        for name in given:
            if name not in known:
                yield f'The motor law {law.name!r} has no {name!r}; {nearest(name, known)}'
        missing = [name for name in (*law.needs, 'armature') if name not in given]
        if missing:
            found = ', '.join(given) or 'none'
            yield f'The motor law {law.name!r} needs {", ".join(missing)}, found {found}'
        for name in self.coefficients:
            if name in self.constants:
                yield f'{name!r} is either set or fitted: found it in constants and coefficients'
            if name not in UNITS:
                yield f'{name!r} is set and not fitted: expected it in constants'
        for name in self.friction:
            if name not in FRICTION_COEFFICIENTS:
                hint = nearest(name, FRICTION_COEFFICIENTS)
                yield f'There is no friction coefficient {name!r}; {hint}'

    def _about_bounds(self) -> Iterator[str]:
        for name, (initial, low, high) in {**self.coefficients, **self.friction}.items():
            if not (low <= initial <= high and low < high):
                yield (
                    f'Expected lower bound ≤ start ≤ upper bound for {name!r}, as [start, lower, '
                    f'upper], found [{initial:g}, {low:g}, {high:g}]'
                )

    def _about_signs(self) -> Iterator[str]:
        bounded = {**self.coefficients, **self.friction}
        lowest = {**self.constants, **{name: low for name, (_, low, _) in bounded.items()}}
        for name, value in lowest.items():
            if value <= 0 and name in _DIVISORS:
                yield f'Expected {name!r} to be more than 0 throughout, found {value:g}'
            if value < 0 and name not in _SIGNED:
                yield f'Expected {name!r} to be at least 0 throughout, found {value:g}'


def read_definition(path: Path) -> Definition:
    """Read a file that defines a servo.

    Raises:
        ConfigError: It cannot be read or is not valid.
    """
    try:
        document = yaml.safe_load(path.read_text('utf-8'))
    except OSError as err:
        msg = f'Cannot read the actuator file {str(path)!r}: {err.strerror}.'
        raise ConfigError(msg) from err
    except (yaml.YAMLError, UnicodeDecodeError) as err:
        msg = f'The actuator file {str(path)!r} is not YAML: {" ".join(str(err).split())}.'
        raise ConfigError(msg) from err
    try:
        return Definition.model_validate(document)
    except ValidationError as err:
        raise ConfigError(explain(err, Definition, str(path))) from err
