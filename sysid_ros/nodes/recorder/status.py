# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""How a recorder says what it does: JSON on its status topic, and diagnostics."""

from __future__ import annotations

import json
import shlex
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from diagnostic_msgs.msg import DiagnosticStatus, KeyValue

from sysid_ros.bags.recording import summary

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from sysid_ros.bags.recording import Summary, TopicCount
    from sysid_ros.nodes.recorder.subscriptions import Heard
    from sysid_ros.nodes.recorder.topic_watch import Waiting

#: Shortest time over which a rate is said, seconds.
_LEAST_SECONDS = 0.5


@dataclass(frozen=True)
class Situation:
    """What a recorder knows at one moment.

    Attributes:
        state: ``waiting``, ``paused``, ``recording`` or ``stopped``.
        output: Folder of the bag.
        counts: Messages of the bag by topic.
        heard: Messages that came by topic, recorded or not.
        waiting_for: What recording waits for, if it does.
        missing: Topics that are expected and have no publisher.
        refused: Topics that cannot be recorded, and why.
        error: Why the recorder ended, if it had to.
    """

    state: str
    output: Path
    counts: tuple[TopicCount, ...]
    heard: tuple[Heard, ...]
    waiting_for: Waiting | None
    missing: tuple[str, ...]
    refused: Mapping[str, str]
    error: str

    def to_json(self) -> str:
        """Return the text of the status topic."""
        return json.dumps(
            {
                'state': self.state,
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


class _Verdict(NamedTuple):
    level: bytes
    message: str


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

    def _measure(self, heard: Iterable[Heard]) -> None:
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
        message = f'{now.state} to {str(now.output)!r}' if now.state == 'recording' else now.state
        if now.waiting_for:
            message = f'{now.state} for {now.waiting_for}'
        if bad:
            message += f'; {bad} of {len(topics)} topics need attention'
        if now.error:
            worst, message = DiagnosticStatus.ERROR, now.error
        totals = {
            'messages': sum(count.messages for count in now.counts),
            'lost': sum(count.lost for count in now.counts),
            'dropped': sum(count.dropped for count in now.counts),
        }
        values = {'state': now.state, 'output': now.output, **totals}
        return self._status('recorder', _Verdict(worst, message), values)

    def _topic(
        self, topic: str, heard: Heard | None, count: TopicCount | None, now: Situation
    ) -> DiagnosticStatus:
        values: dict[str, object] = {}
        if heard is not None:
            values['rate'] = f'{self._rates.get(topic, 0.0):.1f}'
            values['publishers'] = heard.publishers
        if count is not None:
            values['messages'] = count.messages
            values['dropped'] = count.dropped
            values['lost'] = count.lost
        return self._status(topic, _judge(topic, heard, count, now), values)

    def _status(
        self, what: str, verdict: _Verdict, values: Mapping[str, object]
    ) -> DiagnosticStatus:
        return DiagnosticStatus(
            level=verdict.level,
            name=f'{self._name}: {what}',
            message=verdict.message,
            values=[KeyValue(key=key, value=str(value)) for key, value in values.items()],
        )


def _judge(topic: str, heard: Heard | None, count: TopicCount | None, now: Situation) -> _Verdict:
    """Return how a topic does: the worst that can be said of it."""
    error, warn = DiagnosticStatus.ERROR, DiagnosticStatus.WARN
    messages, publishers = (heard.messages, heard.publishers) if heard else (0, 0)
    dropped, lost = (count.dropped, count.lost) if count else (0, 0)
    offers_less = 'a publisher offers less than the subscription asks for: nothing comes from it'
    complaints = (
        (topic in now.refused, error, now.refused.get(topic, '')),
        (heard is not None and heard.mismatched, error, offers_less),
        (dropped > 0, error, f'{dropped} messages dropped: the disk was too slow'),
        (lost > 0, warn, f'{lost} messages lost by the middleware'),
        (topic in now.missing, warn, 'no publisher'),
        (messages > 0 and not publishers, warn, 'the publisher has gone'),
        (messages == 0, DiagnosticStatus.OK, 'nothing yet'),
    )
    said = (_Verdict(level, text) for holds, level, text in complaints if holds)
    return next(said, _Verdict(DiagnosticStatus.OK, 'ok'))
