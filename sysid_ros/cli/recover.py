# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""``sysid recover``."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from sysid_ros.bags.recovery.recover import examine, recover
from sysid_ros.cli.console import print_document, say
from sysid_ros.text import one_line, short

if TYPE_CHECKING:
    import argparse

    from sysid_ros.bags.recovery.parts import Skipped
    from sysid_ros.bags.recovery.recover import Recovered

#: Of more parts that were skipped, the rest is counted.
_MOST_LINES = 20


def run(args: argparse.Namespace) -> int:
    """Save what can be saved of a bag into a new one, and say what that was."""
    if args.output is None:
        found = examine(args.bag)
        if found.whole and args.json:
            print_document(found)
            return 0
        if found.whole:
            say(f'{args.bag} is whole: {found.saved} messages; nothing to recover')
            return 0
    found = recover(args.bag, args.output or _default_target(args.bag))
    if args.json:
        print_document(found)
        return 0
    for line in describe(found):
        say(line)
    return 0


def _default_target(bag: Path) -> Path:
    """Return the name of the new bag beside the old one."""
    path = bag.resolve() if bag.name in {'', '..'} else bag
    name = Path(path.name.removesuffix('.zstd')).stem if path.is_file() else path.name
    return path.with_name(f'{name}_recovered')


def describe(found: Recovered) -> list[str]:
    """Return what was saved and what not, line by line."""
    firsts = [topic.first_ns for topic in found.topics if topic.saved]
    start = min(firsts, default=0)
    began = datetime.fromtimestamp(start * 1e-9, UTC).isoformat(' ', 'milliseconds')
    rows: list[tuple[str, ...]] = [('topic', 'saved', 'lost', 'from/s', 'to/s')]
    for topic in found.topics:
        span = [(stamp - start) * 1e-9 for stamp in (topic.first_ns, topic.last_ns)]
        times = [f'{seconds:.3f}' if topic.saved else '' for seconds in span]
        rows.append((one_line(short(topic.topic)), str(topic.saved), str(topic.lost), *times))
    rows.append(('total', str(found.saved), str(found.lost), '', ''))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [
        '  '.join(
            cell.rjust(width) if column else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
    lines.append(f'times are since {began}')
    lines += [_line(part, start) for part in found.skipped[:_MOST_LINES]]
    if len(found.skipped) > _MOST_LINES:
        lines.append(f'… and {len(found.skipped) - _MOST_LINES} parts more')
    if found.unchecked:
        lines.append(
            f'{found.unchecked} of the messages have no checksum: '
            'a byte that was changed inside of them is not noticed'
        )
    lines.append(f'wrote {found.target}')
    return lines


def _line(part: Skipped, start: int) -> str:
    """Describe a part of a file that was not saved."""
    where = f'{part.file}, byte {part.offset}' if part.size or part.offset else part.file
    size = f', {part.size} bytes' if part.size else ''
    lost = sum(part.lost.values())
    count = f', {lost} messages' if lost else ''
    stamps = [(stamp - start) * 1e-9 for stamp in (part.start_ns, part.end_ns) if stamp]
    times = ', ' + ' to '.join(f'{seconds:.3f} s' for seconds in stamps) if stamps else ''
    return f'skipped: {where}{size}{count}{times}: {part.reason}'
