# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The calibrator: fits on request and publishes what it found.

Services ``~/refit`` and ``~/cancel`` (std_srvs/Trigger). Topics, all latched: ``~/parameters``
(diagnostic_msgs/DiagnosticArray, one status per parameter), ``~/mjcf`` (std_msgs/String, the
identified MJCF), ``~/result`` (std_msgs/String, the result as JSON). ``/diagnostics`` says every
second what the node is doing.
"""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sysid_ros.config import CalibratorConfig, load_calibration
from sysid_ros.errors import CancelledError, ConfigError, SysidError
from sysid_ros.nodes.parameters import declare
from sysid_ros.nodes.runtime import run

if TYPE_CHECKING:
    from rclpy.node import Node

    from sysid_ros.config import CalibrationConfig
    from sysid_ros.identification.least_squares import Iteration
    from sysid_ros.nodes.runtime import Stop
    from sysid_ros.pipeline import Calibration
    from sysid_ros.results.result import ParameterResult

#: A refit waits for its fit in one thread; others answer meanwhile.
_THREADS = 4
#: How often a waiting refit looks whether the process is to end, s.
_POLL_SECONDS = 0.2
_DIAGNOSTICS_SECONDS = 1.0


class Calibrator:
    """Services and topics around ``pipeline.calibrate``."""

    def __init__(self, node: Node, stop: Stop) -> None:
        """Declare parameters, read the configuration once to see that it is valid, and offer.

        Raises:
            SysidError: The configuration is not valid.
        """
        from diagnostic_msgs.msg import DiagnosticArray  # noqa: PLC0415 (needs ROS)
        from rclpy.callback_groups import ReentrantCallbackGroup  # noqa: PLC0415
        from rclpy.qos import DurabilityPolicy, QoSProfile  # noqa: PLC0415
        from std_msgs.msg import String  # noqa: PLC0415
        from std_srvs.srv import Trigger  # noqa: PLC0415

        self._node = node
        self._stop = stop
        self._config = declare(
            node, CalibratorConfig, changeable=('config', 'output'), on_change=self._reconfigure
        )
        self._load()
        self._busy = threading.Lock()
        self._cancel = threading.Event()
        self._progress = 'idle: no refit yet'
        self._failed = False
        latched = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
        group = ReentrantCallbackGroup()
        self._parameters = node.create_publisher(DiagnosticArray, '~/parameters', latched)
        self._mjcf = node.create_publisher(String, '~/mjcf', latched)
        self._result = node.create_publisher(String, '~/result', latched)
        self._diagnostics = node.create_publisher(DiagnosticArray, '/diagnostics', 10)
        node.create_service(Trigger, '~/refit', self._on_refit, callback_group=group)
        node.create_service(Trigger, '~/cancel', self._on_cancel, callback_group=group)
        node.create_timer(_DIAGNOSTICS_SECONDS, self._diagnose, callback_group=group)
        name = node.get_fully_qualified_name()
        node.get_logger().info(f'ready: call {name}/refit (std_srvs/srv/Trigger)')

    def close(self) -> None:
        """End a fit that is running."""
        self._cancel.set()

    def _reconfigure(self, config: CalibratorConfig) -> None:
        self._config = config

    def _load(self) -> CalibrationConfig:
        if not self._config.config:
            msg = 'Expected the parameter config to name a calibration.yaml, found an empty string.'
            raise ConfigError(msg)
        overrides = {'output': self._config.output} if self._config.output else {}
        return load_calibration(Path(self._config.config), overrides)

    def _on_refit(self, _: Any, response: Any) -> Any:
        if not self._busy.acquire(blocking=False):
            response.success = False
            response.message = f'A refit is running already ({self._progress}); wait or cancel it.'
            return response
        try:
            self._cancel.clear()
            response.success, response.message = self._refit()
        finally:
            self._busy.release()
        return response

    def _refit(self) -> tuple[bool, str]:
        """Fit in a thread of its own, publish, and return success and a sentence about it."""
        outcome: list[Calibration | SysidError] = []
        worker = threading.Thread(target=self._work, args=(outcome,), name='fit')
        worker.start()
        while worker.is_alive():
            worker.join(_POLL_SECONDS)
            if self._stop.requested:
                self._cancel.set()
        done = outcome[0]
        if isinstance(done, SysidError):
            self._failed = not isinstance(done, CancelledError)
            self._say(f'the last refit ended without a result: {done}')
            return False, str(done)
        self._failed = not done.result.accepted
        if not self._stop.requested:
            self._publish(done)
        identified = sum(p.verdict == 'identified' for p in done.result.parameters)
        sentence = (
            f'{"accepted" if done.result.accepted else "REJECTED"}: {done.result.acceptance} '
            f'{identified} of {len(done.result.parameters)} parameters identified; '
            f'report {done.report_path}'
        )
        self._say(sentence)
        return done.result.accepted, sentence

    def _work(self, outcome: list[Calibration | SysidError]) -> None:
        # Here and not at the top: a node without ROS must say so before MuJoCo is looked for.
        from sysid_ros.pipeline import calibrate  # noqa: PLC0415

        try:
            config = self._load()
            command = f'{self._node.get_fully_qualified_name()}/refit'
            outcome.append(calibrate(config, command=command, observer=self, cancel=self._cancel))
        except SysidError as error:
            outcome.append(error)
        except Exception as error:
            outcome.append(SysidError(f'The fit failed: {error!r}.'))
            self._stop.request(error)
            raise

    def stage(self, text: str) -> None:
        """Log a new stage of the fit."""
        self._say(text)

    def iteration(self, iteration: Iteration) -> None:
        """Log an iteration of the fit."""
        self._say(
            f'iteration {iteration.number}: cost {iteration.cost:.6g}, '
            f'{iteration.rollouts} rollouts'
        )

    def _say(self, text: str) -> None:
        self._progress = text
        self._node.get_logger().info(text)

    def _on_cancel(self, _: Any, response: Any) -> Any:
        response.success = self._busy.locked()
        response.message = 'cancelling the refit' if response.success else 'no refit is running'
        if response.success:
            self._cancel.set()
        return response

    def _publish(self, done: Calibration) -> None:
        from diagnostic_msgs.msg import DiagnosticArray  # noqa: PLC0415 (needs ROS)
        from std_msgs.msg import String  # noqa: PLC0415

        message = DiagnosticArray()
        message.header.stamp = self._node.get_clock().now().to_msg()
        message.status = [_status(parameter) for parameter in done.result.parameters]
        self._parameters.publish(message)
        self._result.publish(String(data=done.result.to_json()))
        if done.mjcf_path is not None:
            self._mjcf.publish(String(data=done.mjcf_path.read_text(encoding='utf-8')))

    def _diagnose(self) -> None:
        from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus  # noqa: PLC0415

        status = DiagnosticStatus()
        status.level = DiagnosticStatus.WARN if self._failed else DiagnosticStatus.OK
        status.name = f'{self._node.get_fully_qualified_name()}: calibration'
        status.message = self._progress
        status.values = [_pair('fitting', str(self._busy.locked()).lower())]
        message = DiagnosticArray(status=[status])
        message.header.stamp = self._node.get_clock().now().to_msg()
        self._diagnostics.publish(message)


def _status(parameter: ParameterResult) -> Any:
    """Return one parameter as a DiagnosticStatus; WARN when it is not identified."""
    from diagnostic_msgs.msg import DiagnosticStatus  # noqa: PLC0415 (needs ROS)

    status = DiagnosticStatus()
    identified = parameter.verdict == 'identified'
    status.level = DiagnosticStatus.OK if identified else DiagnosticStatus.WARN
    status.name = parameter.name
    status.message = parameter.verdict
    status.values = [
        _pair('value', repr(parameter.value)),
        _pair('low', repr(parameter.low)),
        _pair('high', repr(parameter.high)),
        _pair('unit', parameter.unit),
        _pair('verdict', parameter.verdict),
        _pair('targets', ', '.join(parameter.targets)),
    ]
    return status


def _pair(key: str, value: str) -> Any:
    from diagnostic_msgs.msg import KeyValue  # noqa: PLC0415 (needs ROS)

    return KeyValue(key=key, value=value)


def main() -> int:
    """Run the node ``calibrator``."""
    return run('calibrator', Calibrator, threads=_THREADS)


if __name__ == '__main__':
    sys.exit(main())
