# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The parameters of the nodes."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    ValidationInfo,
)

from sysid_ros.config.schema import Section


def _without_empty(values: object) -> object:
    # A launch file cannot pass an empty list; it passes an empty string.
    return (
        [value for value in values if value != ''] if isinstance(values, list | tuple) else values
    )


def _is_an_expression(expression: str, info: ValidationInfo) -> str:
    try:
        re.compile(expression)
    except re.error as err:
        raise ValueError(
            f'Expected a regular expression for {info.field_name!r}, found {expression!r} ({err})'
        ) from err
    return expression


Expression = Annotated[str, AfterValidator(_is_an_expression)]
Names = Annotated[tuple[str, ...], BeforeValidator(_without_empty)]


class RecorderConfig(Section):
    """Parameters of the ``recorder`` node."""

    output: str = Field(default='', description='folder of the new bag; required')
    topics: Names = Field(
        default=(),
        description='topics to record; default joint_states and the command topics in the graph',
    )
    regex: Expression = Field(
        default='', description='record topics in whose name this regular expression is found'
    )
    all: bool = Field(default=False, description='record every topic')
    exclude: Expression = Field(
        default='', description='but none in whose name this regular expression is found'
    )
    start_paused: bool = Field(default=False, description='wait for ~/start')
    max_duration: Annotated[float, Field(ge=0, le=1e6)] = Field(
        default=0.0, description='stop after so many seconds of recording; 0 means never'
    )
    compression: Literal['none', 'zstd'] = Field(
        default='none', description='none, or zstd for the chunks of the file'
    )
    notes: str = Field(default='', description='free text that goes into the bag')


class SimulatedRobotConfig(Section):
    """Parameters of the ``simulated_robot`` node."""

    model: str = Field(default='', description='MJCF, URDF or xacro file; required')
    truth: str = Field(default='', description='YAML file of target: value that the robot hides')
    servos: str = Field(
        default='', description='YAML file with a section servos: what drives the joints'
    )
    rate: Annotated[float, Field(ge=1, le=10_000)] = Field(
        default=500.0, description='joint state messages per second'
    )
    command_rate: Annotated[float, Field(ge=0, le=5_000)] = Field(
        default=0.0,
        description='commands per second of simulated time, which waits for each; 0 is real time',
    )
    encoder_bits: Annotated[int, Field(ge=0, le=32)] = Field(
        default=14, description='encoder counts per turn are 2^bits; 0 means exact'
    )
    position_noise: Annotated[float, Field(ge=0, le=1e3)] = Field(
        default=1e-4, description='standard deviation before the encoder, rad or m'
    )
    velocity_noise: Annotated[float, Field(ge=0, le=1e3)] = Field(
        default=5e-3, description='standard deviation, rad/s or m/s'
    )
    effort_noise: Annotated[float, Field(ge=0, le=1e6)] = Field(
        default=5e-2, description='standard deviation, N·m or N'
    )
    stamp_jitter: Annotated[float, Field(ge=0, le=1)] = Field(
        default=0.0, description='standard deviation of the stamps, s; they stay in order'
    )
    loss: Annotated[float, Field(ge=0, le=1)] = Field(
        default=0.0, description='part of the joint state messages that never leave'
    )
    seed: Annotated[int, Field(ge=0, le=2**31 - 1)] = Field(default=0, description='of the noise')


class ExciterConfig(Section):
    """Parameters of the ``exciter`` node."""

    model: str = Field(default='', description='MJCF, URDF or xacro file; required')
    motion: str = Field(default='', description='CSV file of waypoints; default a sum of sines')
    duration: Annotated[float, Field(ge=0.1, le=86_400)] = Field(
        default=15.0, description='seconds, ramps included'
    )
    ramp: Annotated[float, Field(ge=0, le=600)] = Field(
        default=1.0, description='seconds over which the motion fades in and out'
    )
    amplitude: Annotated[float, Field(gt=0, le=1)] = Field(
        default=0.4, description="peak as a fraction of half of each actuator's range"
    )
    max_frequency: Annotated[float, Field(gt=0, le=100)] = Field(
        default=1.5, description='highest frequency of the sines, Hz'
    )
    seed: Annotated[int, Field(ge=0, le=2**31 - 1)] = Field(
        default=0, description='of phases and frequencies'
    )
    rate: Annotated[float, Field(ge=1, le=5_000)] = Field(
        default=100.0, description='commands per second'
    )
    message: Literal['Float64MultiArray', 'JointTrajectory'] = Field(
        default='Float64MultiArray', description='type of the command messages'
    )
    commands_topic: str = Field(
        default='', description="where commands go; default ros2_control's topic for the type"
    )
    wait_for: str = Field(
        default='joint_states',
        description='JointState topic that must have a publisher before it starts, and is watched',
    )
    position_tolerance: Annotated[float, Field(ge=0, le=1e3)] = Field(
        default=0.05, description='it stops when a joint is so far beyond its range, rad or m'
    )
    max_velocity: Annotated[float, Field(ge=0, le=1e3)] = Field(
        default=8.0, description='it stops when a joint is faster, rad/s or m/s; 0 means never'
    )
    max_tracking_error: Annotated[float, Field(ge=0, le=1e3)] = Field(
        default=0.5,
        description='it stops when a joint is so far from its command, rad or m; 0 means never',
    )
    state_timeout: Annotated[float, Field(ge=0, le=60)] = Field(
        default=0.5, description='it stops after so many seconds without state; 0 means never'
    )


class CalibratorConfig(Section):
    """Parameters of the ``calibrator`` node."""

    config: str = Field(default='', description='calibration.yaml; required')
    output: str = Field(default='', description="folder for results; default the file's")
    refit_on_bag: bool = Field(
        default=False, description='refit by itself when a new training bag is finished'
    )
    keep: Annotated[int, Field(ge=0, le=1_000_000)] = Field(
        default=100,
        description='results that stay after a refit, the newest and those in use; 0 is all',
    )
