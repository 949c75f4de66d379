# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A servo on a pendulum that exists only here, with coefficients that it hides."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sysid_ros.errors import ConfigError
from sysid_ros.servos.bench.pendulum import PendulumState, PendulumStepper, stack_logs
from sysid_ros.servos.formats.logs import ServoLog
from sysid_ros.virtual_robot.commands import CommandQueue
from sysid_ros.virtual_robot.plant import Sample

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from sysid_ros.servos.laws.servo import Servo
    from sysid_ros.virtual_robot.commands import TrajectoryCommand


class Pendulum:
    """A servo that turns a pendulum, stepped at its own time step from time 0.

    It starts on, hanging at rest where gravity leaves it, with that as its goal.

    Attributes:
        joints: Name of its joint.
        timestep: Seconds.
    """

    def __init__(
        self,
        servo: Servo,
        values: Mapping[str, float],
        *,
        joint: str = 'servo',
        rate: float = 200.0,
        timestep: float = 0.001,
        encoder_bits: int = 12,
    ) -> None:
        """Hang a servo up; `mount` says what it carries.

        Args:
            servo: Its laws.
            values: Of ``servo.coefficients``.
            joint: Name of its joint.
            rate: Samples per second.
            timestep: Seconds.
            encoder_bits: The encoder has 2^bits counts per turn; 0 means exact.

        Raises:
            ConfigError: The rate is above one sample per time step.
        """
        if rate * timestep > 1.0 + 1e-9:
            msg = (
                f'Expected a rate of at most {1 / timestep:g} Hz, one sample per time step, found '
                f'{rate:g} Hz.'
            )
            raise ConfigError(msg)
        self.joints = (joint,)
        self.timestep = timestep
        self._servo = servo
        self._values = dict(values)
        self._rate = rate
        self._count = 2 * np.pi / 2**encoder_bits if encoder_bits else 0.0
        self._offset = values.get('q_offset', servo.type.constants.get('q_offset', 0.0))
        hanging = np.array([-self._offset])
        self._state = PendulumState(hanging, np.zeros(1), hanging)
        self._queue = CommandQueue(np.array([-self._offset, 1.0]), np.zeros(2))
        self._step = 0
        self._samples = 0
        self.mount(1.0, 0.0, 0.1, {})

    @property
    def time(self) -> float:
        """Seconds that were simulated so far."""
        return self._step * self.timestep

    @property
    def late(self) -> int:
        """Commands so far that came when their time to take effect had passed."""
        return self._queue.late

    def mount(
        self, mass: float, arm_mass: float, length: float, constants: Mapping[str, float]
    ) -> None:
        """Change what the servo carries, its gains and its supply, whatever it does.

        Args:
            mass: At the end of the arm, kg.
            arm_mass: Of the arm, kg.
            length: Of the arm, m.
            constants: Gains and supply by name; those that are missing are the usual ones.
        """
        none = np.zeros(1)
        log = ServoLog(
            '', '', '', mass, arm_mass, length, constants, self.timestep, none, none, none
        )
        mounted = stack_logs(self._servo, (log,))
        values = {name: np.full(1, value) for name, value in self._values.items()}
        numbers = {**mounted.constants, **values}
        numbers['q_offset'] = np.full(1, self._offset)
        # One assignment: another thread may be stepping.
        self._stepper = PendulumStepper(
            self._servo, numbers, mounted.inertia, mounted.weight, self.timestep
        )

    def command(self, time: float, values: NDArray[np.float64] | TrajectoryCommand) -> float:
        """Tell the servo where to go, or switch it.

        Args:
            time: When the command arrived, seconds since the start.
            values: The goal in rad, and 1 for on or 0 for off; NaN leaves one as it is.

        Returns:
            By how many seconds it came too late to take effect at its arrival; 0 in time.
        """
        return self._queue.put(time, values)

    def advance(self, until: float) -> Iterator[Sample]:
        """Simulate all whole steps up to a time, yielding the samples on the way.

        Sample k is of time k / rate, or of the nearest step. Its effort is the motor's torque.

        Args:
            until: Seconds since the start. Commands that arrive by then must have been given.
        """
        # The small part keeps a step whose end is this very time, which floating point puts after.
        last = int(np.floor(until / self.timestep + 1e-6))
        while self._step < last:
            start, (q, dq, *_) = self.time, self._state
            goal, enabled = self._queue.mean(start, start + self.timestep)
            self._state = self._stepper.step(self._state, np.array([goal]), enabled)
            due = round(self._samples / (self._rate * self.timestep)) == self._step
            self._step += 1
            if due:
                self._samples += 1
                seen = np.round(q / self._count) * self._count if self._count else q
                yield Sample(start, seen, dq, np.asarray(self._state.torque))
