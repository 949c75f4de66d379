# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""How near a servo in plain MJCF is to its law, over the motions of logs."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, NamedTuple

import mujoco
import numpy as np

from sysid_ros.servos.bench.pendulum import candidate, simulate, stack_logs
from sysid_ros.servos.formats.mjcf import (
    TIMESTEP,
    PendulumLoad,
    compiled,
    pendulum_mjcf,
    plain_actuator,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from sysid_ros.servos.bench.pendulum import PendulumLogs
    from sysid_ros.servos.formats.logs import ServoLog
    from sysid_ros.servos.formats.mjcf import Element, PlainActuator, PlainFriction
    from sysid_ros.servos.laws.servo import Servo

    Array = NDArray[np.float64]


#: The law's steps are so many times shorter than MuJoCo's: what is left is not of its steps.
_FINER = 4


class Nearness(NamedTuple):
    """How far MuJoCo's motion of one log is from the law's.

    Attributes:
        log: Its name.
        powered: Root mean square of the difference while the motor is powered, rad; NaN if never.
        off: The same while it is not.
        error: Mean absolute difference of MuJoCo's motion from the measured one, rad.
        law_error: The same of the law's, with the sampling period as step, as a fit has it.
    """

    log: str
    powered: float
    off: float
    error: float
    law_error: float


def nearness(
    servo: Servo,
    values: Mapping[str, float],
    logs: Sequence[ServoLog],
    friction: PlainFriction,
    element: Element | None = None,
    timestep: float = TIMESTEP,
) -> tuple[Nearness, ...]:
    """Compare MuJoCo's motions with the law's, which takes shorter steps.

    Each log has its own gain, supply and load.

    Args:
        servo: The laws.
        values: Of ``servo.coefficients``.
        logs: At least one, of one sampling period.
        friction: What stands for the friction law.
        element: The actuator; the better one unless given.
        timestep: Of MuJoCo, s; rounded so that it fits into the sampling period.

    Raises:
        FitError: The sampling periods of the logs differ.
    """
    bench = stack_logs(servo, logs)
    steps = max(round(bench.dt / timestep), 1)
    own = candidate(servo, values)
    fine_steps = _FINER * steps
    exact = simulate(servo, finer(bench, fine_steps), own).position[::fine_steps, 0]
    usual = simulate(servo, bench, own).position[:, 0]
    found = []
    for place, log in enumerate(logs):
        actuator = plain_actuator(
            servo,
            values,
            kp=log.constants.get('kp'),
            vin=log.constants.get('vin') if 'vin' in servo.type.constants else None,
            friction=friction,
            element=element,
        )
        offset = float({**servo.type.constants, **values}['q_offset'])
        motion = rollout(actuator, log, offset, steps)
        missed = motion - exact[: len(log), place]
        on = log.enabled > 0
        found.append(
            Nearness(
                log.name,
                powered=_rms(missed[on]),
                off=_rms(missed[~on]),
                error=float(np.mean(np.abs(motion - log.position))),
                law_error=float(np.mean(np.abs(usual[: len(log), place] - log.position))),
            )
        )
    return tuple(found)


def rollout(actuator: PlainActuator, log: ServoLog, offset: float, steps: int) -> Array:
    """Simulate a log in MuJoCo, from its measured start.

    Args:
        actuator: The servo.
        log: Commands and load; where its motor is off, the actuator is disabled.
        offset: Angle of the pendulum from hanging down when the servo reads 0, rad.
        steps: Of MuJoCo between two samples.

    Returns:
        (n,) positions at the samples, rad.
    """
    model = compiled(pendulum_mjcf(actuator, PendulumLoad.of(log, offset)))
    model.opt.timestep = log.dt / steps
    # Commands are the log's, whatever the slider's ends.
    model.actuator_ctrllimited[:] = False
    data = mujoco.MjData(model)
    data.qpos[0] = log.position[0]
    data.qvel[0] = 0.0 if log.speed is None else log.speed[0]
    found = np.empty(len(log))
    for row, (goal, enabled) in enumerate(zip(log.goal, log.enabled, strict=True)):
        found[row] = data.qpos[0]
        data.ctrl[0] = goal
        model.opt.disableactuator = 0 if enabled else 1
        mujoco.mj_step(model, data, nstep=steps)
    return found


def finer(bench: PendulumLogs, steps: int) -> PendulumLogs:
    """Return logs with so many samples in place of each; commands are held between the old ones."""

    def held(series: Array) -> Array:
        found: Array = np.repeat(series, steps, axis=0)
        return found

    return dataclasses.replace(
        bench,
        dt=bench.dt / steps,
        lengths=bench.lengths * steps,
        position=held(bench.position),
        goal=held(bench.goal),
        enabled=held(bench.enabled),
        speed=held(bench.speed),
    )


def _rms(values: Array) -> float:
    return float(np.sqrt(np.mean(values**2))) if len(values) else float('nan')
