# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What is wrong with a recording while it is made: the last seconds, inspected like a bag."""

from __future__ import annotations

import dataclasses
import math
import threading
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sysid_ros.alignment.clocks import SET_BACK_S
from sysid_ros.alignment.health import SECOND_NS, FindingKind, HealthFinding
from sysid_ros.alignment.pairs import column_name, scalar_joints
from sysid_ros.bags.cdr import CdrError
from sysid_ros.bags.columns import BagColumns
from sysid_ros.bags.messages import decode
from sysid_ros.inspection.inspection import inspect

if TYPE_CHECKING:
    import mujoco

    from sysid_ros.bags.columns import TopicColumns
    from sysid_ros.inspection.inspection import Inspection, JointReport

#: So many of the last seconds are inspected.
WINDOW_S = 10.0
#: Of each topic at most so many messages are inspected.
_MOST_MESSAGES = 5_000
#: Of all topics together at most so many bytes are inspected; the oldest are left out.
_MOST_BYTES = 16_000_000
#: Findings that are about the beginning and end of a bag, not about its middle.
_OF_ENDS = frozenset({FindingKind.STARTS_LATE, FindingKind.UNMAPPED, FindingKind.ASSUMED_ORDER})


class _Message(NamedTuple):
    receive_ns: int
    cdr: bytes


@dataclass(frozen=True)
class Coverage:
    """How much of a joint's range was covered since the recording began.

    Attributes:
        joint: Its name.
        low: Least position, in units of the bag, or of the model with one.
        high: Greatest position.
        of_range: Part of the range in the model; NaN without a model or without limits.
        speed: Greatest measured speed; NaN where no velocity is measured.
    """

    joint: str
    low: float
    high: float
    of_range: float
    speed: float


@dataclass(frozen=True)
class LiveReport:
    """The state of a recording.

    Attributes:
        inspection: Of the last seconds.
        coverage: Of each joint, since the beginning.
    """

    inspection: Inspection
    coverage: tuple[Coverage, ...]

    def findings(self, subject: str) -> list[HealthFinding]:
        """Return what is wrong with a joint, or with a topic and its columns."""
        columns = {item.channel for item in self.inspection.channels if item.topic == subject}
        return [
            item
            for item in self.inspection.findings
            if item.kind not in _OF_ENDS and (item.subject == subject or item.subject in columns)
        ]


class LiveQuality:
    """Takes messages in one thread and reports in another."""

    def __init__(self, model: mujoco.MjModel | None = None) -> None:
        """Begin; with a compiled nominal model, ranges are known."""
        self._model = model
        self._joints = {} if model is None else scalar_joints(model)
        self._lock = threading.Lock()
        self._inbox: deque[tuple[str, str, _Message]] = deque()
        self._bytes = 0
        self._kept: dict[tuple[str, str], deque[_Message]] = {}
        self._unreadable: set[str] = set()
        self._covered: dict[str, Coverage] = {}
        self._backwards: dict[str, HealthFinding] = {}

    def take(self, topic: str, msgtype: str, receive_ns: int, cdr: bytes) -> None:
        """Take a message."""
        with self._lock:
            self._inbox.append((topic, msgtype, _Message(receive_ns, cdr)))
            self._bytes += len(cdr)
            while self._bytes > _MOST_BYTES:
                self._bytes -= len(self._inbox.popleft()[2].cdr)

    def report(self) -> LiveReport:
        """Inspect what came last."""
        self._sort()
        topics = tuple(
            columns
            for (topic, msgtype), messages in sorted(self._kept.items())
            if messages and (columns := self._decoded(topic, msgtype, messages)) is not None
        )
        found = inspect(BagColumns(Path('the recording'), topics, ()), self._model)
        for item in found.findings:
            if item.kind is FindingKind.TIME_BACKWARDS:
                self._backwards[item.subject] = item
        # What splits the bag is said to the end, also when it is no longer in the window.
        rest = (item for item in found.findings if item.kind is not FindingKind.TIME_BACKWARDS)
        found = dataclasses.replace(found, findings=(*self._backwards.values(), *rest))
        for joint in found.joints:
            self._cover(joint, topics)
        return LiveReport(found, tuple(self._covered.values()))

    def _sort(self) -> None:
        """Move what came into the windows of its topics."""
        with self._lock:
            inbox, self._inbox, self._bytes = self._inbox, deque(), 0
        for topic, msgtype, message in inbox:
            if msgtype in self._unreadable:
                continue
            window = self._kept.setdefault((topic, msgtype), deque(maxlen=_MOST_MESSAGES))
            back = window[-1].receive_ns - message.receive_ns if window else 0
            if back > SET_BACK_S * SECOND_NS:
                self._note(topic, back / SECOND_NS)
                for older in self._kept.values():
                    older.clear()
            window.append(message)
        newest = max((window[-1].receive_ns for window in self._kept.values() if window), default=0)
        for window in self._kept.values():
            while window and window[0].receive_ns < newest - WINDOW_S * SECOND_NS:
                window.popleft()
        size = sum(len(message.cdr) for window in self._kept.values() for message in window)
        while size > _MOST_BYTES:
            longest = max(self._kept.values(), key=lambda window: sum(len(m.cdr) for m in window))
            size -= sum(len(longest.popleft().cdr) for _ in range((len(longest) + 1) // 2))

    def _note(self, topic: str, seconds: float) -> None:
        """Take note that the recorder's clock was set back, as with ``use_sim_time``."""
        before = self._backwards.get(topic)
        count = 1 if before is None else before.count + 1
        detail = f"the recorder's clock was set back by {seconds:.3f} s: bags are split there"
        self._backwards[topic] = HealthFinding(
            'the recording', topic, FindingKind.TIME_BACKWARDS, count, detail
        )

    def _decoded(self, topic: str, msgtype: str, messages: deque[_Message]) -> TopicColumns | None:
        stamps = [message.receive_ns for message in messages]
        try:
            columns = decode(topic, msgtype, stamps, [message.cdr for message in messages])
        except CdrError:  # a type without numbers, or one that only the bag's reader knows
            columns = None
        if columns is None or not columns.fields:
            self._unreadable.add(msgtype)
            del self._kept[topic, msgtype]
            return None
        return columns

    def _cover(self, joint: JointReport, topics: tuple[TopicColumns, ...]) -> None:
        if math.isnan(joint.low):
            return
        before = self._covered.get(joint.name)
        low, high = joint.low, joint.high
        speed = _fastest(joint.velocity, topics)
        if before is not None:
            low, high = min(low, before.low), max(high, before.high)
            speed = float(np.fmax(speed, before.speed))
        of_range = math.nan
        index = self._joints.get(joint.name)
        if self._model is not None and index is not None and self._model.jnt_limited[index]:
            of_range = (high - low) / float(np.ptp(self._model.jnt_range[index]))
        self._covered[joint.name] = Coverage(joint.name, low, high, of_range, speed)


def _fastest(channel: str, topics: tuple[TopicColumns, ...]) -> float:
    """Return the greatest absolute value of a column; NaN where there is none."""
    for topic in topics:
        for field in topic.fields:
            for column, label in enumerate(field.labels):
                if column_name(topic.topic, field.name, label) == channel:
                    values = np.abs(field.values[:, column])
                    return float(np.nanmax(values)) if np.isfinite(values).any() else math.nan
    return math.nan
