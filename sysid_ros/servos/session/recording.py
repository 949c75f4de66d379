# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What becomes of a session on the pendulum bench: logs, and a fit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import yaml

from sysid_ros.config import ServoFitConfig, load_servo_bag
from sysid_ros.files import replace_file
from sysid_ros.servos.formats.from_bag import convert_servo
from sysid_ros.servos.session.calibration import calibrate_servo

if TYPE_CHECKING:
    import threading
    from collections.abc import Collection
    from pathlib import Path

    from sysid_ros.identification.observer import Observer
    from sysid_ros.servos.session.calibration import ServoCalibration


@dataclass(frozen=True)
class SessionTopics:
    """Names in full of what a bench publishes or listens to.

    Attributes:
        states: Joint states.
        joint: Name of the servo's joint in them.
        command: Float64MultiArray of the goal.
        torque: Bool that says whether the motor is on; empty where it always is.
        run: Text with the name of the motion while one is played, else empty.
        settings: Name of a number to its Float64.
    """

    states: str
    joint: str
    command: str
    torque: str
    run: str
    settings: dict[str, str]

    @property
    def all(self) -> tuple[str, ...]:
        """What has to be recorded."""
        named = (self.states, self.command, self.torque, self.run, *self.settings.values())
        return tuple(filter(None, named))


def describe_session(
    bag: Path, motor: str, topics: SessionTopics, settings: Collection[str], dt: float
) -> Path:
    """Write beside the bag of a session what it will be, ``BAG_servo.yaml``.

    Args:
        bag: The bag's folder; it need not be there yet.
        motor: Name of the servo.
        topics: What is recorded.
        settings: Names of the numbers that are published.
        dt: Time between the samples of logs, s.

    Raises:
        ResultError: The file cannot be written.
    """
    path = beside(bag, 'servo.yaml')
    description = {
        'motor': motor,
        'joint': topics.joint,
        'joint_states': topics.states,
        'command': f'{topics.command}.data[0]',
        'torque_enable': f'{topics.torque}.data' if topics.torque else True,
        **{name: f'{topics.settings[name]}.data' for name in settings},
        'trajectory': topics.run,
        'dt': dt,
        'segments': {'marker': topics.run},
    }
    replace_file(path, yaml.safe_dump(description, sort_keys=False).encode())
    return path


def convert_session(bag: Path) -> tuple[Path, ...]:
    """Write the logs of a session beside its bag, ``BAG_logs/*.json``, as its description says.

    Raises:
        SysidError: In one sentence, what is wrong with the bag or its description.
    """
    config = load_servo_bag(beside(bag, 'servo.yaml'))
    _, _, logs = convert_servo(bag, config, beside(bag, 'logs'))
    return logs


def fit_session(
    bag: Path,
    actuator: str,
    model: str,
    *,
    observer: Observer | None = None,
    cancel: threading.Event | None = None,
) -> ServoCalibration:
    """Fit a servo to the logs beside a bag; the coefficients are ``BAG_params.json``.

    Args:
        bag: The bag's folder.
        actuator: The servo; its name in the catalogue or a file.
        model: Its friction law.
        observer: Is told of stages and iterations.
        cancel: Ends the fit when it is set.

    Raises:
        SysidError: In one sentence, what is wrong.
    """
    config = ServoFitConfig(
        actuator=actuator,
        model=model,
        logdir=beside(bag, 'logs'),
        output=beside(bag, 'params.json'),
    )
    command = f'sysid fit-actuator --actuator {actuator} --model {model} --logdir {config.logdir}'
    return calibrate_servo(config, command=command, observer=observer, cancel=cancel)


def beside(bag: Path, what: str) -> Path:
    """Return the place of something that is made of a bag."""
    return bag.with_name(f'{bag.name}_{what}')
