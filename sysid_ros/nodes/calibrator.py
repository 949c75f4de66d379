# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What the ``calibrator`` node does: fit on request or by itself, and publish what is current.

Services ``~/refit`` and ``~/cancel`` (std_srvs/Trigger). Topics, all latched: ``~/parameters``
(diagnostic_msgs/DiagnosticArray, one status per parameter), ``~/mjcf`` (std_msgs/String, the
identified MJCF), ``~/result`` (std_msgs/String, the result as JSON). ``/diagnostics`` says every
second what the node is doing.

All refits run in a process of their own; what it wrote is read and published here. Whatever becomes
of that process, results in use are whole (`sysid_ros.results.store`): it may be killed at any
moment, and the node that waits for it stays as quick as it is.
"""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable
from enum import Enum
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any, NamedTuple

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.clock import Clock, ClockType
from rclpy.node import Node
from std_msgs.msg import String
from std_srvs.srv import Trigger

from sysid_ros.config.files import load_calibration
from sysid_ros.config.nodes import CalibratorConfig
from sysid_ros.config.schema import CalibrationConfig
from sysid_ros.errors import ConfigError, SysidError, complaint, one_line
from sysid_ros.files import check_writable, read_text
from sysid_ros.nodes.parameters import declare
from sysid_ros.nodes.runtime import (
    EXIT_ERROR,
    FAREWELL_SECONDS,
    PATIENCE_SECONDS,
    STATUS_SECONDS,
    WORK_SECONDS,
    Stop,
    latched,
)
from sysid_ros.results.checks import headline_lines, next_steps
from sysid_ros.results.result import CalibrationResult, ParameterResult, Standing
from sysid_ros.results.store import linked, prune
from sysid_ros.workflows.problem import bags_of
from sysid_ros.workflows.writing import Calibration

#: Everything else on the robot goes first.
NICEST = 19
#: What the line of an error begins with.
_COMPLAINT = 'sysid: '
#: ``sysid``, which ends when its standard input does: with the process that started it, whatever
#: becomes of that.
_WATCHED = f"""
import os, signal, sys, threading, time
def watch():
    os.read(0, 1)
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep({WORK_SECONDS})
    os._exit(1)
threading.Thread(target=watch, daemon=True).start()
from sysid_ros.cli import main
sys.exit(main())
"""


class End(Enum):
    """How a refit ended."""

    DONE = 'done'
    CANCELLED = 'cancelled'
    REFUSED = 'refused'
    CRASHED = 'crashed'


class Outcome(NamedTuple):
    """What a refit came to: the folder of its result or why there is none, and its messages."""

    end: End
    folder: Path | None = None
    sentence: str = ''
    log: str = ''


class Child:
    """``sysid calibrate`` in a process of its own.

    Attributes:
        stage: What it said last that it is doing.
        outcome: What came of it, once it has ended.
    """

    def __init__(self, config: Path, settings: CalibrationConfig) -> None:
        """Take note of the configuration file and of what it says; nothing is started yet."""
        self.stage = 'starting'
        self.outcome = Outcome(End.CANCELLED)
        self._output = settings.output
        self._command = [sys.executable, '-c', _WATCHED, 'calibrate', str(config)]
        # A robot has other things to do than to draw.
        self._command += ['--output', str(settings.output), '--set', 'report.film=false', '--json']
        self._process: subprocess.Popen[str] | None = None
        self._lock = threading.Lock()
        self._cancelled = False
        self._ended = threading.Event()

    def run(self, say: Callable[[str], None]) -> Outcome:
        """Fit, and wait for the end; stages and iterations are told meanwhile."""
        try:
            current = linked(self._output)
            with TemporaryFile('w+') as printed:
                code, log = self._wait(say, printed)
                printed.seek(0)
                self.outcome = self._judge(current, code, log, printed.read())
        finally:
            self._ended.set()
        return self.outcome

    def _judge(self, current: Path | None, code: int, log: str, printed: str) -> Outcome:
        """Tell how it ended by its exit code, its messages, and the result that it printed.

        Others may write into the output meanwhile, or roll back from what was ``current``.
        """
        if code in (0, 1) and printed:
            return Outcome(End.DONE, Path(json.loads(printed)['folder']), log=log)
        last = log.rstrip().rpartition('\n')[2]
        if self._cancelled:
            stays = '; what was current still is' if linked(self._output) == current else ''
            stage = f'The refit was cancelled while it was at "{self.stage}"{stays}.'
            return Outcome(End.CANCELLED, sentence=stage, log=log)
        if code == EXIT_ERROR:
            return Outcome(End.REFUSED, sentence=last.removeprefix(_COMPLAINT), log=log)
        # One that was killed said only how far it was.
        why = last if last and code > 0 else f'exit code {code}'
        return Outcome(End.CRASHED, sentence=f'The fit failed unexpectedly ({why}).', log=log)

    def cancel(self) -> None:
        """End it; return at once."""
        self._end(signal.SIGINT)
        kill = threading.Timer(FAREWELL_SECONDS, self._end, (signal.SIGKILL,))
        kill.daemon = True
        kill.start()

    def wait(self, timeout: float) -> bool:
        """Wait until it has ended; return whether that is so."""
        return self._ended.wait(timeout)

    def _wait(self, say: Callable[[str], None], printed: IO[str]) -> tuple[int, str]:
        """Run the command, pass on what it says, and return exit code and standard error."""
        with self._lock:
            if self._cancelled:
                return 0, ''
            # In a session of its own: Ctrl-C in a terminal is for the node, which ends it.
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=printed,
                stderr=subprocess.PIPE,
                text=True,
                errors='replace',
                start_new_session=True,
                env={**os.environ, 'PYTHONUNBUFFERED': '1'},
            )
            os.setpriority(os.PRIO_PROCESS, self._process.pid, NICEST)
        said = []
        for line in self._process.stderr or ():
            said.append(line)
            # An error ends what was told before: it is no stage.
            if not line.startswith(_COMPLAINT):
                with self._lock:
                    if not self._cancelled:
                        self.stage = line.rstrip()
                say(line.rstrip())
        code = self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()
        return code, ''.join(said)

    def _end(self, number: int) -> None:
        with self._lock:
            self._cancelled = True
            if self._process is not None and self._process.poll() is None:
                self._process.send_signal(number)


class NewBags:
    """The training bags of a configuration that were finished since they were last learned."""

    def __init__(self) -> None:
        self._known: set[Path] | None = None

    def look(self, settings: CalibrationConfig, now: float) -> tuple[Path, ...]:
        """Return those that are finished and not known; all that is finished at first is known.

        A bag is finished when it has a ``metadata.yaml`` and nothing in it changed for a while.
        ``now`` is in s since the epoch.
        """
        try:
            bags = [path for path, role in bags_of(settings) if role == 'train']
        except SysidError:
            # A pattern matches nothing yet.
            bags = []
        whole = [path for path in bags if (path / 'metadata.yaml').is_file()]
        if self._known is None:
            self._known = set(whole)
        new = (path for path in whole if path not in self._known)
        # Not the times of modification, which copies may keep.
        return tuple(
            path
            for path in new
            if now - max(entry.stat().st_ctime for entry in os.scandir(path)) >= PATIENCE_SECONDS
        )

    def learn(self, bags: Iterable[Path]) -> None:
        """Take note of bags that are being learned."""
        self._known = {*(self._known or ()), *bags}


class Calibrator:
    """Services and topics around a child that calibrates."""

    def __init__(self, node: Node, stop: Stop) -> None:
        """Declare parameters, read the configuration once to see that it is valid, and offer."""
        self._node = node
        self._log = node.get_logger()
        self._stop = stop
        self._config = declare(
            node,
            CalibratorConfig,
            changeable=tuple(CalibratorConfig.model_fields),
            check=_check,
            on_change=self._set_config,
        )
        self._lock = threading.Lock()
        self._running: Child | None = None
        # Of the last refit; empty before the first one, and where that failed.
        self._standing = ''
        self._level = DiagnosticStatus.OK
        self._progress = 'idle: no refit yet'
        #: What is current, as far as it was published.
        self._shown: Path | None = None
        self._bags = NewBags()
        self._parameters = node.create_publisher(DiagnosticArray, '~/parameters', latched())
        self._mjcf = node.create_publisher(String, '~/mjcf', latched())
        self._result = node.create_publisher(String, '~/result', latched())
        self._diagnostics = node.create_publisher(DiagnosticArray, '/diagnostics', 10)
        self._calls = _Calls()
        node.create_service(Trigger, '~/refit', self._on_refit, callback_group=self._calls)
        node.create_service(Trigger, '~/cancel', self._on_cancel, callback_group=self._calls)
        # Not the node's clock: with use_sim_time a paused simulation would silence it.
        steady = Clock(clock_type=ClockType.STEADY_TIME)
        node.create_timer(STATUS_SECONDS, self._diagnose, clock=steady)
        # A refit by itself keeps its thread; the group's next callbacks see that it is running.
        alone = ReentrantCallbackGroup()
        node.create_timer(STATUS_SECONDS, self._keep, clock=steady, callback_group=alone)
        self._log.info(f'ready: call {self._name}/refit (std_srvs/srv/Trigger)')

    def close(self) -> None:
        """Cancel a fit that is running, and wait until its caller has the answer."""
        with self._lock:
            running = self._running
        if running is not None:
            running.cancel()
        ended = running is None or running.wait(WORK_SECONDS)
        if not (ended and self._calls.wait(WORK_SECONDS)):
            self._log.warning(f'the fit did not end within {WORK_SECONDS:g} s')
        # A service that is destroyed takes back what its caller has not yet acknowledged.
        time.sleep(max(0.0, self._calls.ended + FAREWELL_SECONDS - time.monotonic()))

    @property
    def _name(self) -> str:
        return str(self._node.get_fully_qualified_name())

    def _set_config(self, config: CalibratorConfig) -> None:
        if config.config != self._config.config:
            self._bags = NewBags()
        self._config = config

    # Services

    def _on_refit(self, _: Any, response: Any) -> Any:
        response.success, response.message = self._refit()
        return response

    def _on_cancel(self, _: Any, response: Any) -> Any:
        with self._lock:
            running = self._running
        if running is None:
            response.message = 'No refit is running.'
            return response
        running.cancel()
        ended = running.wait(WORK_SECONDS)
        response.success = ended and running.outcome.end is End.CANCELLED
        if response.success:
            response.message = running.outcome.sentence
        elif ended:
            response.message = 'The refit ended before it was cancelled.'
        else:
            response.message = f'The refit has not ended yet, at "{running.stage}".'
        return response

    # Refits

    def _keep(self) -> None:
        """Publish what somebody else made current, and refit where it is time to."""
        if self._running is not None or self._stop.requested:
            return
        try:
            settings = _load(self._config)
            # Nothing was published at the start, and somebody may have rolled back.
            current = linked(settings.output)
            if current is not None and current != self._shown:
                self._shown = current
                self._publish(Calibration.load(current))
                self._log.info(f'current is {current}')
            new = self._bags.look(settings, time.time())
        except Exception as err:  # noqa: BLE001 (whatever is in the files, the node stays)
            # A file that is being edited, perhaps; a refit would say so.
            self._log.debug(str(err))
            return
        if new and self._config.refit_on_bag:
            self._log.info(f'{", ".join(bag.name for bag in new)} is new')
            self._refit()

    def _refit(self) -> tuple[bool, str]:
        """Fit in a child, publish, and return success and a sentence about it."""
        config = self._config
        with self._lock:
            if (running := self._running) is not None:
                return False, f'A refit is running already ({running.stage}); wait or cancel it.'
            try:
                settings = _load(config)
            except SysidError as err:
                return self._failed(str(err))
            child = self._running = Child(Path(config.config), settings)
        self._say('refitting')
        try:
            self._bags.learn(self._bags.look(settings, time.time()))
            if self._stop.requested:
                child.cancel()
            return self._ended(child.run(self._say))
        except SysidError as err:
            return self._failed(str(err))
        except Exception as err:  # noqa: BLE001 (told in full; the next refit may have better input)
            self._log.error(traceback.format_exc())
            return self._failed(f'The refit failed unexpectedly ({err!r}).', unexpected=True)
        finally:
            self._running = None

    def _ended(self, outcome: Outcome) -> tuple[bool, str]:
        if outcome.end is End.CANCELLED:
            self._say(f'idle: {outcome.sentence}')
            return False, outcome.sentence
        if outcome.folder is None:
            if outcome.end is End.CRASHED:
                self._log.error(outcome.log)
            return self._failed(outcome.sentence, unexpected=outcome.end is End.CRASHED)
        done = Calibration.load(outcome.folder)
        result = done.result
        if result.accepted:
            self._shown = done.folder
        self._publish(done)
        self._standing = str(result.standing)
        changed = result.drift is not None and result.drift.changed
        good = result.standing is Standing.ACCEPTED and not changed
        self._level = DiagnosticStatus.OK if good else DiagnosticStatus.WARN
        sentence = _summary(done)
        self._say(f'idle: the last refit: {sentence}')
        try:
            removed = prune(done.folder.parent, self._config.keep) if self._config.keep else ()
        except SysidError as err:
            # The refit was good, whatever becomes of old ones.
            self._log.warning(str(err))
            removed = ()
        for name in removed:
            self._log.info(f'removed {done.folder.parent / name}, as `keep` is {self._config.keep}')
        return result.accepted, sentence

    def _failed(self, sentence: str, *, unexpected: bool = False) -> tuple[bool, str]:
        self._level = DiagnosticStatus.ERROR if unexpected else DiagnosticStatus.WARN
        self._standing = ''
        self._say(f'idle: the last refit failed: {sentence}')
        return False, sentence

    # Topics

    def _say(self, text: str) -> None:
        self._progress = one_line(text)
        self._log.info(text)

    def _publish(self, done: Calibration) -> None:
        """Publish; the result comes last, so that who hears of it finds the rest."""
        result = done.result
        self._parameters.publish(self._stamped(*(_status(p, result) for p in result.parameters)))
        if done.mjcf_path is not None:
            text = read_text(done.mjcf_path, errors='replace')
            self._mjcf.publish(String(data=text))
        self._result.publish(String(data=result.to_json()))

    def _stamped(self, *statuses: Any) -> Any:
        message = DiagnosticArray(status=list(statuses))
        message.header.stamp = self._node.get_clock().now().to_msg()
        return message

    def _diagnose(self) -> None:
        values = {
            'fitting': str(self._running is not None).lower(),
            'config': self._config.config,
            'standing': self._standing,
        }
        status = DiagnosticStatus(
            level=self._level,
            name=f'{self._name}: calibration',
            message=self._progress,
            values=[KeyValue(key=key, value=value) for key, value in values.items()],
        )
        self._diagnostics.publish(self._stamped(status))


class _Calls(ReentrantCallbackGroup):  # type: ignore[misc]
    """Callbacks that may overlap, and whose end can be awaited.

    rclpy 7.1's MultiThreadedExecutor does not wait for them when it is shut down. The last one
    ``ended`` at that moment of ``time.monotonic()``.
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
        raise ConfigError(
            "Expected a calibration.yaml in parameter 'config' (-p config:=FILE), found none."
        )
    overrides = {'output': config.output} if config.output else {}
    try:
        return load_calibration(Path(config.config), overrides)
    except OSError as err:
        raise ConfigError(complaint(err)) from err


def _check(config: CalibratorConfig) -> None:
    """Refuse a configuration that cannot be read, or whose results cannot be put anywhere."""
    check_writable(_load(config).output)


def _summary(done: Calibration) -> str:
    result = done.result
    count, word, *said = headline_lines(result)
    parts = [count, f'{result.standing}:' if result.accepted else word]
    parts += [line.strip() for line in said]
    parts += [f'Next: {step}' for step in next_steps(result)]
    changed = '' if result.drift is None else f'. {result.drift.sentence}'
    return ' '.join((*parts, f'report {done.report_path}{changed}'))


def _status(parameter: ParameterResult, result: CalibrationResult) -> Any:
    """Return OK for what was identified and WARN for what was not, ERROR for a rejected result."""
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
