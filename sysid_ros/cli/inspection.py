# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What ``sysid inspect`` shows of a bag: tables, and a picture per joint."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from sysid_ros.alignment.health import FindingKind
from sysid_ros.alignment.pairs import UnmappedKind
from sysid_ros.errors import listed
from sysid_ros.files import replace_file
from sysid_ros.inspection.inspection import Inspection, Joint
from sysid_ros.report.numbers import significant
from sysid_ros.report.tables import LiteralConsole, print_findings, print_table
from sysid_ros.text import file_stems, short

#: More topics than this are not listed when nothing is wrong with them.
_MANY_TOPICS = 12
_TOPIC_COLUMNS = (
    'topic',
    '>count',
    '>rate/Hz',
    '>jitter/ms',
    '>gap/s',
    'stamps',
    '>clock/ms',
    '>drift/ppm',
    'type',
)
_SIZES = {'GB': 1e9, 'MB': 1e6, 'kB': 1e3}


def print_inspection(console: LiteralConsole, found: Inspection) -> None:
    """Say what is in a bag."""
    for line in _head(found):
        console.print(line)
    console.print()
    _print_topics(console, found)
    _print_joints(console, found)
    # What is unmapped is said below.
    findings = [item for item in found.findings if item.kind is not FindingKind.UNMAPPED]
    if not findings:
        console.print('Findings: none')
        console.print()
    print_findings(console, findings, bags=False)
    _print_mapping(console, found)


def draw_joints(joints: Sequence[Joint], bag: str, folder: Path) -> list[Path]:
    """Write one picture per joint into a folder, and return their paths."""
    from sysid_ros.inspection.inspection import draw_joint  # Matplotlib is slow to import.

    paths = []
    for joint, stem in zip(joints, file_stems([joint.name for joint in joints]), strict=True):
        paths.append(folder / f'{stem}.png')
        replace_file(paths[-1], draw_joint(joint, f'{short(joint.name)} in {bag}'))
    return paths


def _head(found: Inspection) -> list[str]:
    bag = found.bag
    start = datetime.fromtimestamp(bag.start_ns / 1e9, tz=UTC)
    large = next((name for name in _SIZES if bag.size >= _SIZES[name]), 'kB')
    size = f'{bag.size / _SIZES[large]:.1f} {large}'
    parts = [
        str(bag.path),
        f'{start:%Y-%m-%d %H:%M:%S} UTC' if bag.messages else 'no numbers',
        f'{bag.duration:.1f} s',
        f'{bag.storage} {size}' if bag.storage else '',
    ]
    lines = [', '.join(part for part in parts if part)]
    facts = bag.facts
    if facts:
        version = f'sysid_ros {facts["version"]}' if 'version' in facts else 'a recorder'
        host = f' on {facts["host"]}' if 'host' in facts else ''
        dropped, lost = (
            ', '.join(f'{count} of {topic}' for topic, count in counts.items()) or '0'
            for counts in (bag.dropped, bag.lost)
        )
        lines.append(f'recorded by {version}{host}; dropped {dropped}; lost {lost}')
        if facts.get('notes'):
            lines.append(f'notes: {" ".join(facts["notes"].split())}')
    return lines


def _print_topics(console: LiteralConsole, found: Inspection) -> None:
    named = {item.subject for item in found.findings}
    of_joints = {
        channel
        for joint in found.joints
        for channel in (joint.position, joint.velocity, joint.effort, joint.command)
    }
    named |= {channel.topic for channel in found.channels if channel.channel in of_joints}
    shown = [
        item for item in found.topics if len(found.topics) <= _MANY_TOPICS or item.topic in named
    ]
    rows = [
        (
            item.topic,
            str(item.messages),
            _number(item.rate, 1),
            _number(1e3 * item.jitter, 2),
            _number(item.longest_gap, 3),
            item.stamps,
            _number(1e3 * item.clock, 2),
            _number(item.drift, 1),
            item.msgtype,
        )
        for item in shown
    ]
    if rows:
        print_table(console, 'Topics', _TOPIC_COLUMNS, rows)
    others = (
        ([item.topic for item in found.topics if item not in shown], 'without findings'),
        ([item.topic for item in found.unread if item.count], 'not read'),
        ([item.topic for item in found.unread if not item.count], 'no messages'),
    )
    for names, what in others:
        if names:
            console.print(f'{len(names)} more, {what}: {listed(names)}')
    if any(names for names, _ in others):
        console.print()


def _print_joints(console: LiteralConsole, found: Inspection) -> None:
    if not found.joints:
        return
    lags = ('>lag/ms',) if any(joint.lag is not None for joint in found.joints) else ()
    covers = ('>of range',) if found.mapping is not None else ()
    rows = []
    for joint in found.joints:
        low, high, step = (significant(x, 3) for x in (joint.low, joint.high, joint.step))
        row = [
            joint.name,
            '-' if math.isnan(joint.low) else f'{low}…{high}',
            '-' if math.isnan(joint.step) else step,
        ]
        if lags:
            row.append(
                '-'
                if joint.lag is None
                else f'{1e3 * joint.lag.seconds:.1f} ± {1.96e3 * joint.lag.deviation:.1f}'
            )
        if covers:
            row.append('-' if math.isnan(joint.of_range) else f'{joint.of_range:.0%}')
        rows.append(row)
    headers = ('joint', '>position', '>step', *lags, *covers)
    print_table(console, 'Joints', headers, rows)


def _print_mapping(console: LiteralConsole, found: Inspection) -> None:
    report = found.mapping
    if report is None:
        return
    if report.problem:
        console.print(f'Mapping: {report.problem}')
        return
    roles = [pair.role.value for pair in report.pairs]
    console.print(
        f'Mapping: {roles.count("sensor")} columns are sensors of the model, '
        f'{roles.count("actuator")} its actuators',
    )
    reasons: dict[tuple[str, str], list[str]] = {}
    for item in report.unmapped:
        if item.kind is not UnmappedKind.COLUMN:
            reasons.setdefault((item.kind.value, item.reason), []).append(item.name)
    for (kind, reason), names in reasons.items():
        console.print(f'{kind} {listed(names)}: {reason}')


def _number(value: float, digits: int) -> str:
    return '-' if math.isnan(value) else f'{value:.{digits}f}'
