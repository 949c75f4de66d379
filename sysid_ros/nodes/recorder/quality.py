# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Live quality of a recording, as diagnostics and as a panel in the terminal."""

from __future__ import annotations

import math
import sys
import threading
import time
from typing import TYPE_CHECKING

from diagnostic_msgs.msg import DiagnosticStatus, KeyValue
from rich.console import Console
from rich.live import Live
from rich.table import Table

from sysid_ros.inspection.live import WINDOW_S, LiveQuality, findings

if TYPE_CHECKING:
    from collections.abc import Mapping

    import mujoco

    from sysid_ros.inspection.inspection import JointReport
    from sysid_ros.inspection.live import Coverage, LiveReport
    from sysid_ros.inspection.reports import TopicReport

#: The last seconds are inspected this often, s, …
_PERIOD_S = 1.0
#: … or less often, so that it takes no more than this part of one core.
_PART = 0.1
#: Characters of a bar in the panel.
_BAR = 12


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
            return [self._status('quality', DiagnosticStatus.WARN, message, {})]
        report = self._report
        if report is None:
            return []
        wrong = findings(report)
        covered = {item.joint: item for item in report.coverage}
        return [
            *(self._topic(topic, wrong) for topic in report.inspection.topics),
            *(
                self._joint(joint, covered.get(joint.name), wrong)
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
                with Live(console=Console(), auto_refresh=False) as live:
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
                live.update(panel(self._report), refresh=True)
            pause = max(_PERIOD_S, (time.thread_time() - began) / _PART)

    def _topic(self, topic: TopicReport, wrong: Mapping[str, list[str]]) -> DiagnosticStatus:
        of_columns = [
            f'{subject}: {text}'
            for subject, texts in wrong.items()
            if subject.startswith(f'{topic.topic}.')
            for text in texts
        ]
        said = [*wrong.get(topic.topic, []), *of_columns]
        values = {
            'rate (Hz)': _text(topic.rate, 1),
            'jitter (ms)': _text(1e3 * topic.jitter, 2),
            'longest gap (s)': _text(topic.longest_gap, 3),
            'gaps': topic.gaps,
            'stamps': topic.stamps,
            'receive minus header (ms)': _text(1e3 * topic.clock, 2),
            'drift (ppm)': _text(topic.drift, 1),
        }
        return self._judged(f'quality of {topic.topic}', said, values)

    def _joint(
        self, joint: JointReport, covered: Coverage | None, wrong: Mapping[str, list[str]]
    ) -> DiagnosticStatus:
        values: dict[str, object] = {'encoder step': _text(joint.step, 6)}
        if covered is not None:
            values['position'] = f'{covered.low:.4g} to {covered.high:.4g}'
            values['of range (%)'] = _text(100 * covered.of_range, 0)
            values['speed'] = _text(covered.speed, 3)
        if joint.lag is not None:
            values['lag (ms)'] = _text(1e3 * joint.lag.seconds, 1)
            values['of command (%)'] = _text(100 * joint.lag.gain, 0)
        return self._judged(f'quality of joint {joint.name}', wrong.get(joint.name, []), values)

    def _judged(self, what: str, said: list[str], values: Mapping[str, object]) -> DiagnosticStatus:
        level = DiagnosticStatus.WARN if said else DiagnosticStatus.OK
        return self._status(what, level, '; '.join(said) or 'ok', values)

    def _status(
        self, what: str, level: bytes, message: str, values: Mapping[str, object]
    ) -> DiagnosticStatus:
        return DiagnosticStatus(
            level=level,
            name=f'{self._name}: {what}',
            message=message,
            values=[KeyValue(key=key, value=str(value)) for key, value in values.items()],
        )


def panel(report: LiveReport) -> Table:
    """Draw a report as a table."""
    table = Table(
        title=f'Quality of the last {WINDOW_S:g} s; ranges since the beginning',
        title_justify='left',
        box=None,
        pad_edge=False,
    )
    for header in ('', 'position', 'of range', 'speed', 'lag/ms', 'of command', 'findings'):
        table.add_column(header)
    wrong = findings(report)
    for topic in report.inspection.topics:
        timing = f'{_text(topic.rate, 1)} Hz, jitter {_text(1e3 * topic.jitter, 2)} ms'
        said = [
            text
            for subject, texts in wrong.items()
            if subject == topic.topic or subject.startswith(f'{topic.topic}.')
            for text in texts
        ]
        table.add_row(topic.topic, timing, '', '', '', '', _findings(said))
    reports = {joint.name: joint for joint in report.inspection.joints}
    for covered in report.coverage:
        joint = reports.get(covered.joint)
        lag = None if joint is None else joint.lag
        table.add_row(
            covered.joint,
            f'{covered.low:.3g} to {covered.high:.3g}',
            _bar(covered.of_range),
            _text(covered.speed, 2),
            '-' if lag is None else _text(1e3 * lag.seconds, 1),
            '-' if lag is None else f'{lag.gain:.0%}',
            _findings(wrong.get(covered.joint, [])),
        )
    return table


def _bar(part: float) -> str:
    if math.isnan(part):
        return '-'
    full = min(max(round(part * _BAR), 0), _BAR)
    return f'{"█" * full}{"░" * (_BAR - full)} {part:4.0%}'


def _findings(said: list[str]) -> str:
    return '; '.join(text.partition(':')[0] for text in said) or 'ok'


def _text(value: float, digits: int) -> str:
    return '-' if math.isnan(value) else f'{value:.{digits}f}'
