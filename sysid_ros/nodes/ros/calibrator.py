# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What the ``calibrator`` node does: fit on request and publish what was found.

Services ``~/refit`` and ``~/cancel`` (std_srvs/Trigger). Topics, all latched: ``~/parameters``
(diagnostic_msgs/DiagnosticArray, one status per parameter), ``~/mjcf`` (std_msgs/String, the
identified MJCF), ``~/result`` (std_msgs/String, the result as JSON). ``/diagnostics`` says every
second what the node is doing.
"""

from __future__ import annotations

import math
import threading
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.clock import Clock, ClockType
from std_msgs.msg import String
from std_srvs.srv import Trigger

from sysid_ros.config import CalibratorConfig, load_calibration
from sysid_ros.errors import CancelledError, ConfigError, SysidError
from sysid_ros.nodes.ros.parameters import declare
from sysid_ros.nodes.ros.runtime import latched
from sysid_ros.pipeline import calibrate
from sysid_ros.results.result import Standing

if TYPE_CHECKING:
    from collections.abc import Callable

    from rclpy.node import Node

    from sysid_ros.config import CalibrationConfig
    from sysid_ros.estimation.solver.problem import Iteration
    from sysid_ros.nodes.ros.runtime import Stop
    from sysid_ros.pipeline import Calibration
    from sysid_ros.results.result import CalibrationResult, ParameterResult

_DIAGNOSTICS_SECONDS = 1.0
#: How long an answer is given to arrive: a service that is destroyed takes back what its caller has
#: not yet acknowledged, s.
_DELIVERY_SECONDS = 1.0
#: How long a refit is given at the end of the process to be cancelled and answered, s.
_END_SECONDS = 30.0


class Calibrator:
    """Services and topics around ``pipeline.calibrate``."""

    def __init__(self, node: Node, stop: Stop) -> None:
        """Declare parameters, read the configuration once to see that it is valid, and offer.

        Raises:
            SysidError: The configuration is not valid.
        """
        self._node = node
        self._log = node.get_logger()
        self._stop = stop
        self._config = declare(
            node,
            CalibratorConfig,
            changeable=('config', 'output'),
            check=_check,
            on_change=self._set_config,
        )
        self._lock = threading.Lock()
        self._running: _Cancel | None = None
        self._level = DiagnosticStatus.OK
        self._progress = 'idle: no refit yet'
        self._parameters = node.create_publisher(DiagnosticArray, '~/parameters', latched())
        self._mjcf = node.create_publisher(String, '~/mjcf', latched())
        self._result = node.create_publisher(String, '~/result', latched())
        self._diagnostics = node.create_publisher(DiagnosticArray, '/diagnostics', 10)
        self._calls = _Calls()
        node.create_service(Trigger, '~/refit', self._on_refit, callback_group=self._calls)
        node.create_service(Trigger, '~/cancel', self._on_cancel, callback_group=self._calls)
        # Not the node's clock: with use_sim_time a paused simulation would silence it.
        steady = Clock(clock_type=ClockType.STEADY_TIME)
        node.create_timer(_DIAGNOSTICS_SECONDS, self._diagnose, clock=steady)
        self._log.info(f'ready: call {self._name}/refit (std_srvs/srv/Trigger)')

    def close(self) -> None:
        """Cancel a fit that is running, and wait until its caller has the answer."""
        with self._lock:
            if self._running is not None:
                self._running.set()
        if not self._calls.wait(_END_SECONDS):
            self._log.warning(f'the fit did not end within {_END_SECONDS:g} s')
        time.sleep(max(0.0, self._calls.ended + _DELIVERY_SECONDS - time.monotonic()))

    @property
    def _name(self) -> str:
        return str(self._node.get_fully_qualified_name())

    def _set_config(self, config: CalibratorConfig) -> None:
        self._config = config

    # Services

    def _on_refit(self, _: Any, response: Any) -> Any:
        cancel = _Cancel(self._stop)
        with self._lock:
            running = self._running
            self._running = running or cancel
        if running is not None:
            response.message = f'A refit is running already ({self._progress}); wait or cancel it.'
            return response
        try:
            response.success, response.message = self._refit(cancel)
        finally:
            self._running = None
        return response

    def _on_cancel(self, _: Any, response: Any) -> Any:
        with self._lock:
            response.success = self._running is not None
            if self._running is not None:
                self._running.set()
        response.message = 'Cancelling the refit.' if response.success else 'No refit is running.'
        return response

    def _refit(self, cancel: _Cancel) -> tuple[bool, str]:
        """Fit, publish, and return success and a sentence about it."""
        try:
            done = calibrate(
                _load(self._config),
                command=f'{self._name}/refit',
                observer=_Observer(self._say, cancel),
                cancel=cancel,
            )
            self._publish(done)
        except CancelledError as err:
            self._say(f'idle: the last refit was cancelled: {err}')
            return False, str(err)
        except SysidError as err:
            self._level = DiagnosticStatus.WARN
            self._say(f'idle: the last refit failed: {err}')
            return False, str(err)
        except Exception as err:  # noqa: BLE001 (told in full; the next refit may have better input)
            self._log.error(traceback.format_exc())
            self._level = DiagnosticStatus.ERROR
            sentence = f'The fit failed unexpectedly ({err!r}); the traceback is in the log.'
            self._say(f'idle: {sentence}')
            return False, sentence
        good = done.result.standing is Standing.ACCEPTED
        self._level = DiagnosticStatus.OK if good else DiagnosticStatus.WARN
        sentence = _summary(done)
        self._say(f'idle: the last refit was {sentence}')
        return done.result.accepted, sentence

    # Topics

    def _say(self, text: str) -> None:
        self._progress = text
        self._log.info(text)

    def _publish(self, done: Calibration) -> None:
        """Publish; the result comes last, so that who hears of it finds the rest."""
        result = done.result
        message = DiagnosticArray(status=[_status(p, result) for p in result.parameters])
        message.header.stamp = self._node.get_clock().now().to_msg()
        self._parameters.publish(message)
        if done.mjcf_path is not None:
            text = done.mjcf_path.read_text(encoding='utf-8', errors='replace')
            self._mjcf.publish(String(data=text))
        self._result.publish(String(data=result.to_json()))

    def _diagnose(self) -> None:
        fitting = str(self._running is not None).lower()
        status = DiagnosticStatus(
            level=self._level,
            name=f'{self._name}: calibration',
            message=self._progress,
            values=[
                KeyValue(key='fitting', value=fitting),
                KeyValue(key='config', value=self._config.config),
            ],
        )
        message = DiagnosticArray(status=[status])
        message.header.stamp = self._node.get_clock().now().to_msg()
        self._diagnostics.publish(message)


class _Cancel(threading.Event):
    """Set when somebody cancels the fit, and when the process is to end."""

    def __init__(self, stop: Stop) -> None:
        super().__init__()
        self._stop = stop

    def is_set(self) -> bool:
        return self._stop.requested or super().is_set()


class _Observer:
    """Says what a fit does, and ends it between two stages when it is cancelled."""

    def __init__(self, say: Callable[[str], None], cancel: _Cancel) -> None:
        self._say = say
        self._cancel = cancel

    def stage(self, text: str) -> None:
        """Say which stage begins."""
        if self._cancel.is_set():
            msg = 'The calibration was cancelled.'
            raise CancelledError(msg)
        self._say(text)

    def iteration(self, iteration: Iteration) -> None:
        """Say how far the solver is."""
        self._say(
            f'iteration {iteration.number}: cost {iteration.cost:.6g}, '
            f'{iteration.rollouts} rollouts'
        )


class _Calls(ReentrantCallbackGroup):  # type: ignore[misc]
    """Callbacks that may overlap, and whose end can be awaited.

    rclpy 7.1's MultiThreadedExecutor does not wait for them when it is shut down.

    Attributes:
        ended: When the last one ended, in ``time.monotonic()``.
    """

    def __init__(self) -> None:
        super().__init__()
        self.ended = -math.inf
        self._count = 0
        self._changed = threading.Condition()

    def beginning_execution(self, entity: Any) -> bool:
        """Count a callback that begins."""
        with self._changed:
            self._count += 1
        return bool(super().beginning_execution(entity))

    def ending_execution(self, entity: Any) -> None:
        """Count a callback that has ended; the response of a service is sent by then."""
        super().ending_execution(entity)
        with self._changed:
            self._count -= 1
            self.ended = time.monotonic()
            self._changed.notify_all()

    def wait(self, timeout: float) -> bool:
        """Wait until no callback is running; return whether that is so."""
        with self._changed:
            return self._changed.wait_for(lambda: self._count == 0, timeout)


def _load(config: CalibratorConfig) -> CalibrationConfig:
    if not config.config:
        msg = "Expected a calibration.yaml in parameter 'config' (-p config:=FILE), found none."
        raise ConfigError(msg)
    overrides = {'output': config.output} if config.output else {}
    return load_calibration(Path(config.config), overrides)


def _check(config: CalibratorConfig) -> None:
    """Check that a configuration can be read and its results be put somewhere.

    Raises:
        ConfigError: It cannot, or they cannot.
    """
    output = _load(config).output
    existing = next(path for path in (output, *output.absolute().parents) if path.exists())
    if not existing.is_dir():
        msg = f'Expected a folder for the output {str(output)!r}, found a file {str(existing)!r}.'
        raise ConfigError(msg)


def _summary(done: Calibration) -> str:
    result = done.result
    identified = sum(parameter.identified for parameter in result.parameters)
    drift = '' if result.drift is None else f'. {result.drift.sentence}'
    word = result.standing if result.accepted else result.standing.upper()
    said = [check.detail for check in result.reservations if result.accepted]
    return (
        f'{word}: {" ".join((result.acceptance, *said))} '
        f'{identified} of {len(result.parameters)} parameters identified; '
        f'report {done.report_path}{drift}'
    )


def _status(parameter: ParameterResult, result: CalibrationResult) -> Any:
    """Return a parameter as a DiagnosticStatus.

    The level is OK for what was identified and WARN for what was not; all of a rejected result is
    ERROR.
    """
    level = DiagnosticStatus.OK if parameter.identified else DiagnosticStatus.WARN
    pairs = {
        'value': repr(parameter.value),
        'low': repr(parameter.low),
        'high': repr(parameter.high),
        'unit': parameter.unit,
        'verdict': parameter.verdict,
        'targets': ', '.join(parameter.targets),
        'accepted': str(result.accepted).lower(),
        'standing': str(result.standing),
    }
    return DiagnosticStatus(
        level=level if result.accepted else DiagnosticStatus.ERROR,
        name=parameter.name,
        message=parameter.verdict if result.accepted else f'rejected: {parameter.verdict}',
        hardware_id=Path(result.model).name,
        values=[KeyValue(key=key, value=value) for key, value in pairs.items()],
    )
