# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A servo on a pendulum: ``servo_bag.yaml``, and what is asked of a fit to logs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, ValidationError, model_validator

from sysid_ros.config.files import read_yaml, validate
from sysid_ros.config.schema import (
    ChannelMapping,
    GateConfig,
    Section,
    SegmentsConfig,
    StampChoice,
    explain,
)


def _switch_or_channel(value: object) -> object:
    if isinstance(value, bool):
        return value
    if not isinstance(value, (dict, ChannelMapping)) and not str(value).startswith('/'):
        raise ValueError(
            f"Expected true, false or a channel such as /torque_enable.data for 'torque_enable', "
            f'found {value!r}'
        )
    try:
        return ChannelMapping.model_validate(value)
    except ValidationError as err:
        # Pydantic would tell of each member of the union that it is not.
        raise ValueError(explain(err, ChannelMapping, 'torque_enable').rstrip('.')) from err


Switch = Annotated[bool | ChannelMapping, BeforeValidator(_switch_or_channel)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]


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
    command: ChannelMapping | None = Field(default=None, description='its goal positions, rad')
    torque_enable: Switch = Field(
        default=True, description='whether the motor is on: true, false or a channel'
    )
    sign: Literal[1, -1] = Field(default=1, description='-1 where the joint turns the other way')
    zero: float = Field(default=0.0, description='position of the joint that hangs down, rad')
    mass: Positive = Field(description='at the end of the arm, kg')
    arm_mass: NotNegative = Field(default=0.0, description='of the arm, kg')
    length: Positive = Field(description='of the arm, m')
    kp: NotNegative = Field(description="gain of the servo's firmware")
    vin: Positive | None = Field(default=None, description='supply, V')
    constants: dict[str, float] = Field(
        default_factory=dict, description='other gains and limits by name, as damping'
    )
    trajectory: str = Field(default='', description='name of the motion')
    dt: Annotated[float, Field(gt=0, le=1)] | None = Field(
        default=None,
        description='time between the samples of processed logs, s; raw ones unless given',
    )
    stamps: StampChoice = Field(default='auto', description='which time of a message counts')
    segments: SegmentsConfig = Field(
        default=SegmentsConfig(), description='what becomes logs, and where the bag is cut'
    )

    @model_validator(mode='after')
    def _has_what_it_needs(self) -> ServoBagConfig:
        if bool(self.joint) == (self.position is not None):
            raise ValueError(
                f'Expected either joint or position, found {"both" if self.joint else "neither"}'
            )
        if self.command is None and self.torque_enable is not False:
            raise ValueError(
                'Expected the channel of the goal positions as command, found none; a servo that '
                'is off needs none: torque_enable: false'
            )
        return self


#: A simple law may be far better for some loads than for others: a comparison of laws shows that.
_GATE = GateConfig(sequence_growth=30.0)


class ServoFitConfig(Section):
    """From logs of a pendulum to the coefficients of its servo."""

    actuator: str = Field(description='kind of servo, as xl330, or a YAML file that defines one')
    model: str = Field(default='m6', description='friction law: m1 to m6')
    logdir: Path = Field(description='folder of logs, raw or processed')
    output: Path = Field(default=Path('params.json'), description='file for the coefficients')
    validation_kp: float | None = Field(
        default=None, description='logs with this gain are held out'
    )
    fixed: dict[str, float] = Field(
        default_factory=dict, description='coefficients that are known, by name'
    )
    method: Literal['least-squares', 'cmaes', 'random', 'nsgaii'] = Field(
        default='least-squares', description='least squares, or trials of a sampler before them'
    )
    trials: Annotated[int, Field(ge=1)] | None = Field(
        default=None,
        description='number of trials in all, those of a loaded study counted; 5000 unless given',
    )
    workers: Annotated[int, Field(ge=1, le=1000)] = Field(
        default=1, description='number of processes that try together'
    )
    load_study: str | None = Field(
        default=None, description='study to go on with: its name, or a file of studies'
    )
    wandb: bool = Field(default=False, description='log to Weights & Biases')
    starts: Annotated[int, Field(ge=1, le=1000)] = Field(
        default=8, description='number of starts, spread over the bounds'
    )
    seed: Annotated[int, Field(ge=0, le=2**31 - 1)] = Field(
        default=0, description='of the starts and trials'
    )
    reset_period: Annotated[float, Field(gt=0)] | None = Field(
        default=None, description='s after which predictions go on from the measured state'
    )
    gate: GateConfig = _GATE

    @model_validator(mode='after')
    def _is_of_its_method(self) -> ServoFitConfig:
        tried = {'trials': self.trials, 'load_study': self.load_study}
        given = [name for name, value in tried.items() if value is not None]
        given += ['workers'] if self.workers > 1 else []
        if self.method == 'least-squares' and given:
            raise ValueError(
                f'Expected method cmaes, random or nsgaii with {given[0]}, found least-squares'
            )
        return self


def load_servo_bag(path: Path) -> ServoBagConfig:
    """Read a file that says what of a bag is a servo on a pendulum.

    Raises:
        ConfigError: The file cannot be read or is not valid.
    """
    return validate(ServoBagConfig, read_yaml(path), str(path))
