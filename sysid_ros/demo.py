# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The whole loop on a simulated robot: record, calibrate, compare with the truth, refit.

The robot, the exciter and the recorder run as processes of their own, as they would on a robot.
Only the last table knows the true values.
"""

from __future__ import annotations

import argparse
import contextlib
import fnmatch
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.special

from sysid_ros.cli.console import Progress, make_console, print_paths
from sysid_ros.config.files import load_calibration, read_yaml
from sysid_ros.errors import ConfigError, RosError, SysidError, one_line
from sysid_ros.report.tables import print_result
from sysid_ros.results.result import CalibrationResult
from sysid_ros.workflows.calibrate import identify
from sysid_ros.workflows.writing import write

RECORDINGS = ('train_1', 'train_2', 'validate_1')
_COPIED = ('arm.xml', 'calibration.yaml')
TRUTH = 'truth.yaml'
#: Where it is there: what drives the robot's joints in place of the model's actuators.
_SERVOS = 'servos.yaml'
#: The refit is asked for so often, s.
_REQUEST_SECONDS = 5.0
#: How often it looks whether all processes still run, s.
_LOOK_SECONDS = 0.5
#: ROS domains that leave the ephemeral ports alone.
_DOMAINS = range(51, 101)


class Driver(NamedTuple):
    """What is wrong between robot and recorder.

    Attributes:
        stamp_jitter: Standard deviation of the stamps, s.
        loss: Part of the joint states that never leave.
        command_rate: Commands per second.
        max_tracking_error: Farther from its command than this, rad, a joint ends the motion; 0 for
            never.
    """

    stamp_jitter: float = 0.0
    loss: float = 0.0
    command_rate: float = 100.0
    max_tracking_error: float = 0.5


class _Node:
    """A node in a process of its own; its lines are shown with its name in front."""

    def __init__(self, name: str, environment: Mapping[str, str], **parameters: object) -> None:
        self.name = name
        arguments = [sys.executable, '-m', 'sysid_ros.nodes', name, '--ros-args']
        for key, value in parameters.items():
            arguments += ['-p', f'{key}:={value}']
        self.ended_well = False
        self._lines: list[str] = []
        self._ended = False
        self._changed = threading.Condition()
        self._process = subprocess.Popen(
            arguments,
            env=dict(environment),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None  # noqa: S101 (Popen was given a pipe)
        for line in self._process.stdout:
            print(f'  [{self.name}] {line.rstrip()}', flush=True)
            with self._changed:
                self._lines.append(line)
                self._changed.notify_all()
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def wait_for(self, text: str, timeout: float | None = None) -> bool:
        """Wait for a line that contains a text, as long as the process lives; say if it came.

        Raises:
            RosError: The process ended before.
        """

        def said() -> bool:
            return any(text in line for line in self._lines)

        with self._changed:
            self._changed.wait_for(lambda: said() or self._ended, timeout)
            if self._ended and not said():
                raise RosError(f'The {self.name} ended without {text!r}; its lines say why.')
            return said()

    def wait(self, needed: Sequence[_Node]) -> None:
        """Wait for the process to end by itself, with success, as long as others are needed.

        Raises:
            RosError: It ends with an error, or one of the others ends.
        """
        while self._process.poll() is None:
            for other in needed:
                if other.has_ended:
                    raise RosError(
                        f'The {other.name} ended before the {self.name}; its lines say why.'
                    )
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_LOOK_SECONDS)
        self._reader.join()
        if self._process.returncode:
            raise RosError(f'The {self.name} ended with exit code {self._process.returncode}.')

    @property
    def has_ended(self) -> bool:
        """Whether the process is over, for whatever reason."""
        return self._process.poll() is not None

    def interrupt(self) -> None:
        """Ask the process to end, as Ctrl-C does."""
        self._process.send_signal(signal.SIGINT)

    def end(self) -> None:
        """Wait for the process to end, and keep whether it did so with success."""
        self._process.wait()
        self._reader.join()
        self.ended_well = self._process.returncode == 0


def run(
    assets: Path, folder: Path, seed: int, duration: float, driver: Driver | None = None
) -> None:
    """Record, calibrate, show the result beside the truth, and refit over the service."""
    shared = record(assets, folder, seed, duration, driver)
    _calibrate(assets, folder)
    _refit(folder, shared)


def record(
    assets: Path, folder: Path, seed: int, duration: float, driver: Driver | None = None
) -> dict[str, str]:
    """Record the motions of the simulated robot into bags; return the processes' environment.

    Args:
        assets: Folder with arm.xml, truth.yaml, calibration.yaml and perhaps servos.yaml.
        folder: Where everything goes; bags and results of an earlier demo are replaced.
        seed: Of the motions and of the noise.
        duration: Seconds of each recording's motion.
        driver: What is wrong between robot and recorder; the default is nothing.
    """
    for name in (*_COPIED, TRUTH):
        if not (assets / name).is_file():
            raise ConfigError(
                f'Expected {name} in the folder {str(assets)!r} of --assets, found none.'
            )
    for old in ('bags', 'out', 'refit'):
        shutil.rmtree(folder / old, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    for name in _COPIED:
        shutil.copy(assets / name, folder / name)
    shared, driver = environment(), driver or Driver()
    for number, name in enumerate(RECORDINGS):
        bag = folder / 'bags' / name
        print(f'\nRecording {bag}', flush=True)
        record_one(assets, bag, shared, 10 * seed + number, duration, driver)
    return shared


def environment() -> dict[str, str]:
    """Return the environment of processes that talk to each other and to nobody else."""
    return {
        **os.environ,
        'ROS_AUTOMATIC_DISCOVERY_RANGE': 'LOCALHOST',
        'ROS_DOMAIN_ID': str(_DOMAINS[os.getpid() % len(_DOMAINS)]),
        'PYTHONUNBUFFERED': '1',
    }


def record_one(
    assets: Path,
    bag: Path,
    environment: Mapping[str, str],
    seed: int,
    duration: float,
    driver: Driver,
) -> None:
    """Record one motion, in simulated time: it waits for all processes.

    Raises:
        RosError: A process failed.
    """
    model = bag.parent.parent / 'arm.xml'
    servos = assets / _SERVOS
    nodes: list[_Node] = []
    try:
        robot = _Node(
            'simulated_robot',
            environment,
            model=model,
            truth=assets / TRUTH,
            seed=seed,
            stamp_jitter=driver.stamp_jitter,
            loss=driver.loss,
            command_rate=driver.command_rate,
            **({'servos': servos} if servos.is_file() else {}),
        )
        nodes.append(robot)
        recorder = _Node('recorder', environment, output=bag, use_sim_time=True)
        nodes.append(recorder)
        robot.wait_for('simulated robot ready')
        recorder.wait_for('recording /clock, ')
        exciter = _Node(
            'exciter',
            environment,
            model=model,
            seed=seed,
            duration=duration,
            rate=driver.command_rate,
            max_tracking_error=driver.max_tracking_error,
            use_sim_time=True,
        )
        nodes.append(exciter)
        exciter.wait(needed=(robot, recorder))
    finally:
        for node in reversed(nodes):
            node.interrupt()
        for node in nodes:
            node.end()
    failed = [node.name for node in nodes if not node.ended_well]
    if failed:
        raise RosError(f'These processes ended with an error: {", ".join(failed)}.')


def _calibrate(assets: Path, folder: Path) -> None:
    print('\nCalibrating', flush=True)
    path = folder / 'calibration.yaml'
    config = load_calibration(path)
    # Among the lines of the nodes, in their order.
    with Progress(sys.stdout) as progress:
        found = identify(config, command=f'sysid calibrate {path}', observer=progress)
    truth = true_values(assets / TRUTH, found.result)
    done = write(found, config.output, truth)
    console = make_console()
    console.print()
    print_result(console, done.result, truth)
    console.print(_judged(done.result, truth))
    console.print()
    print_paths(console, {**done.paths, 'bags': folder / 'bags'})


def _judged(result: CalibrationResult, truth: Mapping[str, float]) -> str:
    """Say whether the values are off the truth by as much as their covariance says.

    Values that are correlated, as damping and dry friction of a joint, lie outside together: how
    many are inside says less than χ², the squares of all errors in units of their covariance.
    """
    rows = [row for row in result.parameters if row.name in truth]
    inside = sum(row.low <= truth[row.name] <= row.high for row in rows)
    found = f'{inside} of {len(rows)} true values lie inside their 95 % interval.'
    squares = chi_squared(result, truth)
    if not np.isfinite(squares):
        return found
    chance = float(scipy.special.chdtrc(len(rows), squares))
    return (
        f'{found} All errors together: χ² = {squares:.3g} for {len(rows)}, which right intervals '
        f'exceed in {100 * chance:.2g} % of recordings.'
    )


def chi_squared(result: CalibrationResult, truth: Mapping[str, float]) -> float:
    """Return the squares of all errors in units of their covariance, NaN where that is not known.

    Parameters whose true value is not given do not count.
    """
    assert result.inference is not None  # noqa: S101 (a result that was just found)
    known = [k for k, p in enumerate(result.parameters) if p.name in truth]
    covariance = np.array(result.inference.covariance)[np.ix_(known, known)]
    if not np.isfinite(covariance).all():
        return np.nan
    off = np.array([result.parameters[k].value - truth[result.parameters[k].name] for k in known])
    return float(off @ np.linalg.solve(covariance, off))


def true_values(path: Path, result: CalibrationResult) -> dict[str, float]:
    """Return parameter name to true value."""
    hidden = read_yaml(path)
    return {
        parameter.name: float(value)
        for parameter in result.parameters
        for pattern, value in hidden.items()
        if fnmatch.fnmatchcase(parameter.targets[0], pattern)
    }


def _refit(folder: Path, environment: Mapping[str, str]) -> None:
    import rclpy  # noqa: PLC0415 (what comes before needs no ROS in this process)
    from diagnostic_msgs.msg import DiagnosticArray  # noqa: PLC0415
    from std_srvs.srv import Trigger  # noqa: PLC0415

    from sysid_ros.nodes.runtime import latched  # noqa: PLC0415

    print('\nThe same over the service: calibrator node, ~/refit, topics', flush=True)
    # A folder of its own: the report beside the bags keeps the column with the truth.
    calibrator = _Node(
        'calibrator',
        environment,
        config=folder / 'calibration.yaml',
        output=folder / 'refit',
    )
    os.environ.update(environment)
    rclpy.init(signal_handler_options=rclpy.signals.SignalHandlerOptions.NO)
    try:
        calibrator.wait_for('ready')
        node = rclpy.create_node('demo')
        client = node.create_client(Trigger, '/calibrator/refit')
        # Fast DDS may lose the first request to a service that has just been discovered
        # (github.com/ros2/rmw_fastrtps/issues/842). The calibrator takes one at a time.
        asked = False
        while not asked:
            client.wait_for_service(_REQUEST_SECONDS)
            client.call_async(Trigger.Request())
            asked = calibrator.wait_for('refitting', _REQUEST_SECONDS)
        calibrator.wait_for('idle: the last refit')
        found: list[Any] = []
        topic = '/calibrator/parameters'
        node.create_subscription(DiagnosticArray, topic, found.append, latched())
        while not found:
            if calibrator.has_ended:
                raise RosError(f'The calibrator ended without {topic}; its lines say why.')
            rclpy.spin_once(node, timeout_sec=_LOOK_SECONDS)
        for status in found[0].status:
            values = {pair.key: pair.value for pair in status.values}
            print(
                f'  {topic} {one_line(status.name)}: {float(values["value"]):.5g} '
                f'{one_line(values["unit"])}, {status.message}'
            )
    finally:
        rclpy.try_shutdown()
        calibrator.interrupt()
        calibrator.end()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demo from the command line."""
    parser = argparse.ArgumentParser(prog='python -m sysid_ros.demo', description=__doc__)
    parser.add_argument('--assets', type=Path, default=Path('config/demo'))
    parser.add_argument('--folder', type=Path, default=Path('demo'))
    parser.add_argument('--seed', type=int, default=1)
    parser.add_argument('--duration', type=float, default=8.0)
    usual = Driver()
    parser.add_argument('--stamp-jitter', type=float, default=usual.stamp_jitter, help='s')
    parser.add_argument('--loss', type=float, default=usual.loss, help='part of the messages')
    parser.add_argument('--command-rate', type=float, default=usual.command_rate, help='Hz')
    args = parser.parse_args(arguments)
    driver = Driver(args.stamp_jitter, args.loss, args.command_rate)
    try:
        run(args.assets, args.folder, args.seed, args.duration, driver)
    except SysidError as error:
        print(f'demo: {error}', file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 128 + signal.SIGINT  # as shells expect it
    return 0


if __name__ == '__main__':
    sys.exit(main())
