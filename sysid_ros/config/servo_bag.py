# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""``servo_bag.yaml``: what of a bag is a servo on a pendulum."""

from __future__ import annotations

import math
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, ValidationError, ValidationInfo, model_validator

from sysid_ros.config.calibration import StampChoice  # noqa: TC001 (pydantic reads it)
from sysid_ros.config.recordings import ChannelMapping, SegmentsConfig
from sysid_ros.config.section import Section, explain


def _number_or_channel(value: object, info: ValidationInfo) -> object:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if number and math.isfinite(value):  # type: ignore[arg-type]
        return value
    return _channel(value, info, 'a number or a channel such as /battery.voltage')


def _switch_or_channel(value: object, info: ValidationInfo) -> object:
    if isinstance(value, bool) or value == 'commanded':
        return value
    return _channel(value, info, 'true, false, commanded or a channel such as /torque_enable.data')


def _channel(value: object, info: ValidationInfo, expected: str) -> ChannelMapping:
    name = info.field_name
    if not isinstance(value, (dict, ChannelMapping)) and not str(value).startswith('/'):
        msg = f'Expected {expected} for {name!r}, found {value!r}'
        raise ValueError(msg)
    try:
        return ChannelMapping.model_validate(value)
    except ValidationError as err:
        # Pydantic would tell of each member of the union that it is not.
        raise ValueError(explain(err, ChannelMapping, str(name)).rstrip('.')) from err


#: A constant, or a channel whose median during a log counts.
Number = Annotated[float | ChannelMapping, BeforeValidator(_number_or_channel)]
Switch = Annotated[
    bool | Literal['commanded'] | ChannelMapping, BeforeValidator(_switch_or_channel)
]


class ServoBagConfig(Section):
    """A servo in a bag: its channels, and what it carried.

    The pendulum's angle is ``sign * (joint - zero)``, 0 hanging down; commands are converted alike.
    """

    motor: str = Field(description='the servo, as xl330; only a name here')
    joint: str = Field(default='', description='its name in the joint states')
    joint_states: str = Field(default='/joint_states', description='their topic')
    position: ChannelMapping | None = Field(
        default=None, description='instead of joint: its position, rad'
    )
    velocity: ChannelMapping | None = Field(default=None, description='its velocity, rad/s')
    load: ChannelMapping | None = Field(default=None, description='its load, in any unit')
    control: ChannelMapping | None = Field(
        default=None, description='voltage, current or torque that its firmware decided on'
    )
    command: ChannelMapping | None = Field(default=None, description='its goal positions, rad')
    torque_enable: Switch = Field(
        default=True,
        description='whether the motor is on: true, false, a channel, or commanded, which is on '
        'while there are commands that are numbers',
    )
    sign: Literal[1, -1] = Field(default=1, description='-1 where the joint turns the other way')
    zero: float = Field(default=0.0, description='position of the joint that hangs down, rad')
    mass: Number = Field(description='at the end of the arm, kg')
    arm_mass: Number = Field(default=0.0, description='of the arm, kg')
    length: Number = Field(description='of the arm, m')
    kp: Number = Field(description="gain of the servo's firmware")
    vin: Number | None = Field(default=None, description='supply, V')
    constants: dict[str, Number] = Field(
        default_factory=dict, description='other gains and limits by name, as damping'
    )
    trajectory: str = Field(default='', description='name of the motion, or a topic of texts')
    dt: Annotated[float, Field(gt=0, le=1)] = Field(
        default=0.005, description='time between the samples of logs, s'
    )
    stamps: StampChoice = Field(default='auto', description='which time of a message counts')
    segments: SegmentsConfig = Field(
        default=SegmentsConfig(), description='what becomes logs, and where the bag is cut'
    )

    @model_validator(mode='after')
    def _has_what_it_needs(self) -> ServoBagConfig:
        if bool(self.joint) == (self.position is not None):
            msg = f'Expected either joint or position, found {"both" if self.joint else "neither"}'
            raise ValueError(msg)
        if self.command is None and self.torque_enable is not False:
            msg = (
                'Expected the channel of the goal positions as command, found none; a servo that '
                'is off needs none: torque_enable: false'
            )
            raise ValueError(msg)
        return self
