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
    field_validator,
    model_validator,
)

from sysid_ros.config.section import Section

_MESSAGE_TYPE = re.compile(r'[a-z]\w*/msg/[A-Z]\w*')

Storage = Literal['mcap', 'sqlite3']


def _without_empty(values: object) -> object:
    # A launch file cannot pass an empty list; it passes an empty string.
    return (
        [value for value in values if value != ''] if isinstance(values, list | tuple) else values
    )


def _is_an_expression(expression: str, info: ValidationInfo) -> str:
    try:
        re.compile(expression)
    except re.error as err:
        msg = f'Expected a regular expression for {info.field_name!r}, found {expression!r} ({err})'
        raise ValueError(msg) from err
    return expression


Expression = Annotated[str, AfterValidator(_is_an_expression)]
Numbers = Annotated[tuple[float, ...], BeforeValidator(_without_empty)]
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
    types: Names = Field(
        default=(), description='record topics of these message types, as sensor_msgs/msg/Imu'
    )
    all: bool = Field(default=False, description='record every topic')
    exclude: Expression = Field(
        default='', description='but none in whose name this regular expression is found'
    )
    wait_for: Names = Field(
        default=(),
        description='topics that must have sent a message; default those in topics, published',
    )
    start_paused: bool = Field(default=False, description='wait for ~/start or ~/resume')
    max_duration: Annotated[float, Field(ge=0, le=1e6)] = Field(
        default=0.0, description='stop after so many seconds of recording; 0 means never'
    )
    storage: Storage = Field(default='mcap', description='mcap or sqlite3')
    compression: Literal['none', 'zstd'] = Field(
        default='none', description='none, or zstd for the chunks of mcap'
    )
    max_bag_size: Annotated[int, Field(ge=0, le=10**15)] = Field(
        default=0, description='bytes after which the next file of the bag begins; 0 means never'
    )
    max_bag_duration: Annotated[float, Field(ge=0, le=1e6)] = Field(
        default=0.0, description='seconds after which the next file begins; 0 means never'
    )
    snapshot_seconds: Annotated[float, Field(ge=0, le=3600)] = Field(
        default=0.0,
        description='write nothing, but keep so many seconds in memory for ~/snapshot; 0 means off',
    )
    queue_seconds: Annotated[float, Field(ge=0.1, le=3600)] = Field(
        default=30.0, description='how long messages wait for a slow disk before they are dropped'
    )
    sync_seconds: Annotated[float, Field(ge=0, le=3600)] = Field(
        default=5.0, description='how often the disk is waited for (fsync); 0 means never'
    )
    qos_overrides: str = Field(
        default='', description='YAML file of topics and QoS, as ros2 bag record takes it'
    )
    notes: str = Field(default='', description='free text that goes into the bag')
    quality: bool = Field(
        default=True, description='inspect the last seconds while recording, for /diagnostics'
    )
    model: str = Field(
        default='',
        description='MJCF, URDF or xacro file, for the joints and their ranges in the quality',
    )
    panel: bool = Field(default=False, description='show the quality as a table in the terminal')

    @model_validator(mode='after')
    def _is_one_of_both(self) -> RecorderConfig:
        if self.snapshot_seconds and self.start_paused:
            msg = "Expected 'start_paused' or 'snapshot_seconds', found both"
            raise ValueError(msg)
        return self

    @field_validator('types')
    @classmethod
    def _are_types(cls, types: tuple[str, ...]) -> tuple[str, ...]:
        for name in types:
            if not _MESSAGE_TYPE.fullmatch(name):
                msg = (
                    "Expected names of message types in 'types', as sensor_msgs/msg/JointState, "
                    f'found {name!r}'
                )
                raise ValueError(msg)
        return types


class QosDuration(Section):
    """A duration as rosbag2 writes it."""

    sec: Annotated[int, Field(ge=0, le=2**31 - 1)] = 0
    nsec: Annotated[int, Field(ge=0, lt=10**9)] = 0


class QosOverride(Section):
    """What a user sets for one topic; what is not set follows the publishers.

    The format is that of the file for ``ros2 bag record --qos-profile-overrides-path``: topics, and
    below each what is set. https://github.com/ros2/rosbag2#overriding-qos-profiles
    """

    history: Literal['keep_last', 'keep_all', 'system_default'] | None = None
    depth: Annotated[int, Field(ge=0, le=2**31 - 1)] | None = None
    reliability: Literal['reliable', 'best_effort', 'system_default'] | None = None
    durability: Literal['transient_local', 'volatile', 'system_default'] | None = None
    deadline: QosDuration | None = None
    lifespan: QosDuration | None = None
    liveliness: Literal['automatic', 'manual_by_topic', 'system_default'] | None = None
    liveliness_lease_duration: QosDuration | None = None
    avoid_ros_namespace_conventions: bool | None = None


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
    joint_states_topic: str = Field(default='joint_states', description='topic of the state')
    commands_topic: str = Field(
        default='forward_position_controller/commands',
        description='Float64MultiArray, one value per actuator in model order',
    )
    trajectory_topic: str = Field(
        default='joint_trajectory_controller/joint_trajectory',
        description='JointTrajectory, joints by name',
    )
    applied_commands_topic: str = Field(
        default='~/applied_commands',
        description='JointState, what arrays of commands asked of each joint, and since when',
    )


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
    refit_every: Annotated[float, Field(ge=0, le=1e8)] = Field(
        default=0.0,
        description='refit by itself so often, s, if a training bag was finished since; 0 is never',
    )
    budget: Annotated[float, Field(ge=0, le=1e6)] = Field(
        default=0.0,
        description='a refit is ended after so many seconds, its fit after half, and no result '
        'that is on its way; 0 is never',
    )
    keep: Annotated[int, Field(ge=0, le=1_000_000)] = Field(
        default=100,
        description='results that stay after a refit, the newest and those in use; 0 is all',
    )


class RefitConfig(Section):
    """Parameters of the ``refit`` node."""

    calibrator: str = Field(default='/calibrator', description='full name of the calibrator node')
    timeout: Annotated[float, Field(gt=0, le=3600)] = Field(
        default=10.0, description='seconds to wait for the service to appear'
    )


class ReplayerConfig(Section):
    """Parameters of the ``replayer`` node."""

    bag: str = Field(default='', description='bag folder or file; required')
    topics: Names = Field(
        default=(), description='topics to replay, names or patterns such as /left/*; default all'
    )
    exclude: Expression = Field(
        default='', description='but none in whose name this regular expression is found'
    )
    rate: Annotated[float, Field(ge=0.001, le=1000)] = Field(
        default=1.0, description='seconds of the bag per second; may change'
    )
    loop: bool = Field(default=False, description='begin again after the end; may change')
    start_paused: bool = Field(default=False, description='wait for ~/resume')
    clock: Annotated[float, Field(ge=0, le=1000)] = Field(
        default=0.0, description='messages per second on /clock, the time in the bag; 0 means none'
    )
    config: str = Field(
        default='',
        description='calibration.yaml whose model predicts, with the result in its output if any',
    )
    result: str = Field(
        default='',
        description='result.json, or its folder, whose values the model predicts with',
    )


class SimulatedServoConfig(Section):
    """Parameters of the ``simulated_servo`` node."""

    truth: str = Field(
        default='', description='JSON file of coefficients that the servo hides; required'
    )
    actuator: str = Field(
        default='', description="YAML file that defines the servo, where the file's name does not"
    )
    mass: Annotated[float, Field(gt=0, le=1e3)] = Field(
        default=0.3, description='at the end of the arm, kg'
    )
    arm_mass: Annotated[float, Field(ge=0, le=1e3)] = Field(
        default=0.0, description='of the arm, kg'
    )
    length: Annotated[float, Field(gt=0, le=100)] = Field(default=0.13, description='of the arm, m')
    kp: Annotated[float, Field(ge=0, le=1e6)] = Field(
        default=0.0, description="gain of the firmware; 0 means the servo's usual one"
    )
    vin: Annotated[float, Field(ge=0, le=1e3)] = Field(
        default=0.0, description="supply, V; 0 means the servo's usual one"
    )
    rate: Annotated[float, Field(ge=1, le=10_000)] = Field(
        default=200.0, description='joint state messages per second'
    )
    timestep: Annotated[float, Field(ge=1e-4, le=0.02)] = Field(
        default=0.001, description='of the simulation, s'
    )
    encoder_bits: Annotated[int, Field(ge=0, le=32)] = Field(
        default=12, description='encoder counts per turn are 2^bits; 0 means exact'
    )
    joint: str = Field(default='servo', description='name of its joint')
    joint_states_topic: str = Field(default='joint_states', description='topic of the state')
    commands_topic: str = Field(
        default='forward_position_controller/commands',
        description='Float64MultiArray of one goal position, rad',
    )
    torque_topic: str = Field(
        default='torque_enable', description='Bool that switches the motor; it starts on'
    )


class PendulumBenchConfig(Section):
    """Parameters of the ``pendulum_bench`` node."""

    output: str = Field(
        default='', description="the recorder's bag; logs and fit come beside it; required"
    )
    motor: str = Field(
        default='xl330', description='kind of servo, or a YAML file that defines one'
    )
    masses: Numbers = Field(
        default=(), description='at the end of the arm, kg, one for each load; required'
    )
    lengths: Numbers = Field(
        default=(), description='of the arm, m, one for each load or one for all; required'
    )
    arm_masses: Numbers = Field(
        default=(), description='of the arm, kg, one for each load or one for all; default 0'
    )
    kps: Numbers = Field(
        default=(), description="gains of the firmware; default BAM's for the servo"
    )
    trajectories: Names = Field(
        default=(),
        description='motions; default sin_sin, lift_and_drop, up_and_down, sin_time_square',
    )
    vin: Annotated[float, Field(ge=0, le=1e3)] = Field(
        default=0.0, description="supply, V; 0 means the servo's usual one"
    )
    dt: Annotated[float, Field(ge=1e-4, le=0.02)] = Field(
        default=0.005, description='time between the samples of the logs, s'
    )
    model: str = Field(
        default='m6', description='friction law that is fitted at the end; empty means none'
    )
    prompt: bool = Field(
        default=True, description='wait for ~/continue where a person has to change something'
    )
    servo: str = Field(
        default='',
        description='node whose parameters kp, mass, … are set; default the publisher of the state',
    )
    recorder: str = Field(
        default='recorder', description='recorder node, stopped at the end; empty means none'
    )
    rate: Annotated[float, Field(ge=1, le=5_000)] = Field(
        default=200.0, description='commands per second'
    )
    speed: Annotated[float, Field(gt=0, le=100)] = Field(
        default=1.0, description='of the way to where a motion begins, rad/s'
    )
    settle: Annotated[float, Field(ge=0, le=600)] = Field(
        default=1.0, description='pause before each motion, s'
    )
    max_angle: Annotated[float, Field(gt=0, le=1e3)] = Field(
        default=3.0, description='it stops when the pendulum is farther from hanging down, rad'
    )
    state_timeout: Annotated[float, Field(ge=0, le=60)] = Field(
        default=0.5, description='it stops after so many seconds without state; 0 means never'
    )
    joint: str = Field(default='servo', description='name in the joint states')
    joint_states_topic: str = Field(default='joint_states', description='topic of the state')
    commands_topic: str = Field(
        default='forward_position_controller/commands',
        description='Float64MultiArray of one goal position, rad',
    )
    torque_topic: str = Field(
        default='torque_enable',
        description='Bool that switches the motor; empty where it cannot be switched',
    )
    torque_service: str = Field(
        default='', description='SetBool that switches it, where the driver has that instead'
    )
