# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The parameters of the nodes of the pendulum bench."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, Field

from sysid_ros.config.section import Section


def _without_empty(values: object) -> object:
    # A launch file cannot pass an empty list; it passes an empty string.
    return (
        [value for value in values if value != ''] if isinstance(values, list | tuple) else values
    )


Numbers = Annotated[tuple[float, ...], BeforeValidator(_without_empty)]
Names = Annotated[tuple[str, ...], BeforeValidator(_without_empty)]


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
    joint_states_topic: str = Field(default='/joint_states', description='topic of the state')
    commands_topic: str = Field(
        default='/forward_position_controller/commands',
        description='Float64MultiArray of one goal position, rad',
    )
    torque_topic: str = Field(
        default='/torque_enable', description='Bool that switches the motor; it starts on'
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
        default='/recorder', description='recorder node, stopped at the end; empty means none'
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
    joint_states_topic: str = Field(default='/joint_states', description='topic of the state')
    commands_topic: str = Field(
        default='/forward_position_controller/commands',
        description='Float64MultiArray of one goal position, rad',
    )
    torque_topic: str = Field(
        default='/torque_enable',
        description='Bool that switches the motor; empty where it cannot be switched',
    )
    torque_service: str = Field(
        default='', description='SetBool that switches it, where the driver has that instead'
    )
