# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What a recorder says of itself: its status topic, diagnostics, live quality, a panel."""

from __future__ import annotations

import enum
import io
import json
import math
import shlex
import sys
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from diagnostic_msgs.msg import DiagnosticStatus, KeyValue
from rich.live import Live
from rich.text import Text

from sysid_ros.alignment.health import aggregated
from sysid_ros.bags.recording import summary
from sysid_ros.inspection.live import WINDOW_S, LiveQuality
from sysid_ros.report.tables import LiteralConsole, print_table

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    import mujoco

    from sysid_ros.bags.recording import Summary, TopicCount
    from sysid_ros.inspection.inspection import JointReport
    from sysid_ros.inspection.live import Coverage, LiveReport
    from sysid_ros.inspection.reports import TopicReport
    from sysid_ros.nodes.ros.recorder.subscriptions import TopicTraffic
    from sysid_ros.nodes.ros.recorder.topic_watch import Awaited

#: Shortest time over which a rate is said, seconds.
_LEAST_SECONDS = 0.5
#: The last seconds are inspected this often, s.
_PERIOD_S = 1.0
#: Inspecting them takes no more than this part of one core, and else happens less often.
_PART = 0.1
_TOPIC_COLUMNS = ('topic', '>rate/Hz', '>jitter/ms', 'findings')
_JOINT_COLUMNS = ('joint', 'position', 'of range', 'speed', 'lag/ms', 'of command', 'findings')
#: Characters of a bar in the panel.
_BAR = 12


class RecorderState(enum.Enum):
    """What the recorder is doing, as in its status topic."""

    WAITING = 'waiting'
    PAUSED = 'paused'
    RECORDING = 'recording'
    KEEPING = 'keeping'
    STOPPED = 'stopped'


@dataclass(frozen=True)
class Situation:
    """What a recorder knows at one moment.

    Attributes:
        state: What it is doing.
        output: Folder of the bag.
        counts: Messages of the bag by topic.
        heard: Messages that came by topic, recorded or not.
        waiting_for: What recording waits for, if it does.
        missing: Topics that are expected and have no publisher.
        refused: Topics that cannot be recorded, and why.
        error: Why the recorder ended, if it had to.
    """

    state: RecorderState
    output: Path
    counts: tuple[TopicCount, ...]
    heard: tuple[TopicTraffic, ...]
    waiting_for: Awaited | None
    missing: tuple[str, ...]
    refused: Mapping[str, str]
    error: str

    def to_json(self) -> str:
        """Return the text of the status topic."""
        return json.dumps(
            {
                'state': self.state.value,
                'output': str(self.output),
                'waiting_for': list(self.waiting_for.topics) if self.waiting_for else [],
                'counts': {
                    count.topic: {
                        'messages': count.messages,
                        'rate': round(count.rate, 3),
                        'lost': count.lost,
                        'dropped': count.dropped,
                    }
                    for count in self.counts
                },
                'refused': dict(self.refused),
                'error': self.error,
            }
        )


def farewell(done: Summary, missed: Iterable[str]) -> str:
    """Return what a recorder says of a bag that it has ended.

    Args:
        done: What became of the recording.
        missed: Sentences on what was asked for and is not in the bag.
    """
    end = 'failed' if done.failure else 'closed'
    files = f'{len(done.files)} file{"s" if len(done.files) != 1 else ""}'
    lines = [
        f'{end} {str(done.path)!r}: {files}, {done.size / 1e6:.1f} MB, {done.seconds:.1f} s',
        summary(done.counts),
        *(f'not recorded: {sentence}' for sentence in missed),
    ]
    if not done.failure:
        lines.append(f'next: {shlex.join(["sysid", "inspect", str(done.path)])}')
    return '\n'.join(lines)


class Diagnosis:
    """Turns situations into diagnostics; rates are those since the one before."""

    def __init__(self, name: str) -> None:
        """Begin.

        Args:
            name: Name of the recorder, before the topics' names.
        """
        self._name = name
        self._before: dict[str, int] = {}
        self._rates: dict[str, float] = {}
        self._at = time.monotonic()

    def statuses(self, now: Situation) -> list[DiagnosticStatus]:
        """Return a status of the recorder, and one for each topic."""
        self._measure(now.heard)
        counts = {count.topic: count for count in now.counts}
        heard = {item.topic: item for item in now.heard}
        topics = dict.fromkeys((*heard, *now.missing, *now.refused))
        each = [self._topic(t, heard.get(t), counts.get(t), now) for t in topics]
        return [self._recorder(now, each), *each]

    def _measure(self, heard: Iterable[TopicTraffic]) -> None:
        elapsed = time.monotonic() - self._at
        if elapsed < _LEAST_SECONDS:
            return
        self._at += elapsed
        messages = {item.topic: item.messages for item in heard}
        before, self._before = self._before, messages
        self._rates = {t: (n - before.get(t, n)) / elapsed for t, n in messages.items()}

    def _recorder(self, now: Situation, topics: Sequence[DiagnosticStatus]) -> DiagnosticStatus:
        worst = max((status.level for status in topics), default=DiagnosticStatus.OK)
        bad = sum(status.level != DiagnosticStatus.OK for status in topics)
        message = now.state.value
        if now.state is RecorderState.RECORDING:
            message += f' to {str(now.output)!r}'
        if now.waiting_for:
            message = f'{now.state.value} for {now.waiting_for}'
        if bad:
            message += f'; {bad} of {len(topics)} topics need attention'
        if now.error:
            worst, message = DiagnosticStatus.ERROR, now.error
        totals = {
            'messages': sum(count.messages for count in now.counts),
            'lost': sum(count.lost for count in now.counts),
            'dropped': sum(count.dropped for count in now.counts),
        }
        values = {'state': now.state.value, 'output': now.output, **totals}
        return _diagnostic(f'{self._name}: recorder', worst, message, values)

    def _topic(
        self, topic: str, heard: TopicTraffic | None, count: TopicCount | None, now: Situation
    ) -> DiagnosticStatus:
        values: dict[str, object] = {}
        if heard is not None:
            values['rate'] = f'{self._rates.get(topic, 0.0):.1f}'
            values['publishers'] = heard.publishers
        if count is not None:
            values['messages'] = count.messages
            values['dropped'] = count.dropped
            values['lost'] = count.lost
        level, message = _judge(topic, heard, count, now)
        return _diagnostic(f'{self._name}: {topic}', level, message, values)


def _diagnostic(
    name: str, level: bytes, message: str, values: Mapping[str, object]
) -> DiagnosticStatus:
    pairs = [KeyValue(key=key, value=str(value)) for key, value in values.items()]
    return DiagnosticStatus(name=name, level=level, message=message, values=pairs)


def _judge(
    topic: str, heard: TopicTraffic | None, count: TopicCount | None, now: Situation
) -> tuple[bytes, str]:
    """Return the level and the message of the worst that can be said of a topic."""
    error, warn = DiagnosticStatus.ERROR, DiagnosticStatus.WARN
    messages, publishers = (heard.messages, heard.publishers) if heard else (0, 0)
    dropped, lost = (count.dropped, count.lost) if count else (0, 0)
    offers_less = 'a publisher offers less than the subscription asks for: nothing comes from it'
    faults = (
        (topic in now.refused, error, now.refused.get(topic, '')),
        (heard is not None and heard.mismatched, error, offers_less),
        (dropped > 0, error, f'{dropped} messages dropped: the disk was too slow'),
        (lost > 0, warn, f'{lost} messages lost by the middleware'),
        (topic in now.missing, warn, 'no publisher'),
        (messages > 0 and not publishers, warn, 'the publisher has gone'),
        (messages == 0, DiagnosticStatus.OK, 'nothing yet'),
    )
    found = ((level, text) for holds, level, text in faults if holds)
    return next(found, (DiagnosticStatus.OK, 'ok'))


class Quality:
    """A recorder's monitor: what comes is inspected in a thread of its own.

    Attributes:
        error: Why it ended, if it did.
    """

    def __init__(self, name: str, model: mujoco.MjModel | None, *, panel: bool = False) -> None:
        """Begin.

        Args:
            name: Name of the recorder, before the subjects' names.
            model: The compiled nominal model, where there is one.
            panel: Draw a table in the terminal, where there is one.
        """
        self._name = name
        self._live = LiveQuality(model)
        self._report: LiveReport | None = None
        self.error: Exception | None = None
        self._closing = threading.Event()
        self._panel = panel and sys.stdout.isatty()
        self._thread = threading.Thread(target=self._run, name='quality', daemon=True)
        self._thread.start()

    def take(self, topic: str, msgtype: str, receive_ns: int, cdr: bytes) -> None:
        """Take a message."""
        self._live.take(topic, msgtype, receive_ns, cdr)

    def statuses(self) -> list[DiagnosticStatus]:
        """Return a status for each topic with numbers and each joint."""
        if self.error is not None:
            message = f'the quality is not watched any more: {self.error}'
            return [_diagnostic(f'{self._name}: quality', DiagnosticStatus.WARN, message, {})]
        report = self._report
        if report is None:
            return []
        covered = {item.joint: item for item in report.coverage}
        return [
            *(self._topic(topic, report) for topic in report.inspection.topics),
            *(
                self._joint(joint, covered.get(joint.name), report)
                for joint in report.inspection.joints
            ),
        ]

    def close(self) -> None:
        """End the thread."""
        self._closing.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            if self._panel:
                with Live(console=LiteralConsole(), auto_refresh=False) as live:
                    self._watch(live)
            else:
                self._watch(None)
        except Exception as err:  # noqa: BLE001 (a recording goes on without it; statuses say so)
            self.error = err

    def _watch(self, live: Live | None) -> None:
        pause = _PERIOD_S
        while not self._closing.wait(pause):
            began = time.thread_time()
            self._report = self._live.report()
            if live is not None:
                live.update(panel(self._report, live.console.width), refresh=True)
            pause = max(_PERIOD_S, (time.thread_time() - began) / _PART)

    def _topic(self, topic: TopicReport, report: LiveReport) -> DiagnosticStatus:
        values = {
            'rate (Hz)': _text(topic.rate, 1),
            'jitter (ms)': _text(1e3 * topic.jitter, 2),
            'longest gap (s)': _text(topic.longest_gap, 3),
            'gaps': topic.gaps,
            'stamps': topic.stamps,
            'receive minus header (ms)': _text(1e3 * topic.clock, 2),
            'drift (ppm)': _text(topic.drift, 1),
        }
        return self._status(topic.topic, topic.topic, report, values)

    def _joint(
        self, joint: JointReport, covered: Coverage | None, report: LiveReport
    ) -> DiagnosticStatus:
        values: dict[str, object] = {'encoder step': _text(joint.step, 6)}
        if covered is not None:
            values['position'] = f'{covered.low:.4g} to {covered.high:.4g}'
            values['of range (%)'] = _text(100 * covered.of_range, 0)
            values['speed'] = _text(covered.speed, 3)
        if joint.lag is not None:
            values['lag (ms)'] = _text(1e3 * joint.lag.seconds, 1)
            values['of command (%)'] = _text(100 * joint.lag.gain, 0)
        return self._status(f'joint {joint.name}', joint.name, report, values)

    def _status(
        self, what: str, subject: str, report: LiveReport, values: Mapping[str, object]
    ) -> DiagnosticStatus:
        faults = [
            f'{found.kind}: {found.text(bags=False)}'
            for found in aggregated(report.findings(subject))
        ]
        level = DiagnosticStatus.WARN if faults else DiagnosticStatus.OK
        name = f'{self._name}: quality of {what}'
        return _diagnostic(name, level, '; '.join(faults) or 'ok', values)


def panel(report: LiveReport, width: int) -> Text:
    """Draw a report as tables for a terminal of so many columns."""
    stream = io.StringIO()
    console = LiteralConsole(stream, width)

    def findings(subject: str) -> str:
        found = aggregated(report.findings(subject))
        return '; '.join(f'{item.kind} ({item.count})' for item in found) or 'ok'

    topics = [
        (item.topic, _text(item.rate, 1), _text(1e3 * item.jitter, 2), findings(item.topic))
        for item in report.inspection.topics
    ]
    print_table(console, f'The last {WINDOW_S:g} s', _TOPIC_COLUMNS, topics)
    reports = {joint.name: joint for joint in report.inspection.joints}
    joints = []
    for covered in report.coverage:
        joint = reports.get(covered.joint)
        lag = None if joint is None else joint.lag
        joints.append(
            (
                covered.joint,
                f'{covered.low:.3g} to {covered.high:.3g}',
                _bar(covered.of_range),
                _text(covered.speed, 2),
                '-' if lag is None else _text(1e3 * lag.seconds, 1),
                '-' if lag is None else f'{lag.gain:.0%}',
                findings(covered.joint),
            )
        )
    print_table(console, 'Ranges since the beginning', _JOINT_COLUMNS, joints)
    return Text(stream.getvalue().rstrip())


def _bar(part: float) -> str:
    if math.isnan(part):
        return '-'
    full = min(max(round(part * _BAR), 0), _BAR)
    return f'{"█" * full}{"░" * (_BAR - full)} {part:4.0%}'


def _text(value: float, digits: int) -> str:
    return '-' if math.isnan(value) else f'{value:.{digits}f}'
