# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Commands that look at recordings: ``inspect``, ``convert``, ``map``, ``model``."""

from __future__ import annotations

import math
import sys
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from sysid_ros.cli.app import (
    LOOK,
    Bag,
    Json,
    MaybeModel,
    Model,
    Namespace,
    Packages,
    Quiet,
    command,
    written,
)
from sysid_ros.errors import AlignmentError, ConfigError, listed, nearest
from sysid_ros.report.numbers import significant

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sysid_ros.alignment.inspection import Inspection, Joint
    from sysid_ros.config.schema import MappingConfig
    from sysid_ros.report.tables import LiteralConsole


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


class _SeriesFormat(StrEnum):
    NPZ = 'npz'
    CSV = 'csv'


_MappingFile = Annotated[str, typer.Option(metavar='FILE', help='auto, or a mapping file')]
_Stamps = Annotated[
    Literal['auto', 'header', 'receive'],
    typer.Option(help='time of a message: its header stamp unless zero (auto), or as told'),
]


@command(
    'inspect',
    LOOK,
    'inspect bags/train_1 arm.xml',
    'inspect bags/train_1 --json | jq .findings',
    'inspect bags/train_1 arm.xml --plots pictures',
)
def inspect_bag(
    *,
    bag: Bag,
    model: MaybeModel = None,
    packages: Packages,
    mapping: _MappingFile = 'auto',
    namespace: Namespace = '',
    stamps: _Stamps = 'auto',
    plots: Annotated[
        Path | None,
        typer.Option(metavar='DIR', help='also draw what was measured and commanded, by joint'),
    ] = None,
    json: Json = False,
) -> int:
    """Say what is in a bag, what is wrong with it, what it can identify.

    Shows topics, joints and clocks of a bag, and how it fits a model.
    """
    if model is None and mapping != 'auto':
        raise ConfigError(f'Expected MODEL beside --mapping {mapping}, found none.')

    from sysid_ros.config.files import load_mapping

    mapped: Literal['auto'] | MappingConfig = 'auto'
    if mapping != 'auto':
        mapped = load_mapping(Path(mapping))

    from sysid_ros.alignment.inspection import bag_joints, inspect
    from sysid_ros.alignment.pairing import imply_actuators
    from sysid_ros.alignment.turns import read_columns
    from sysid_ros.cli.console import make_console, print_json, say
    from sysid_ros.model.loading import compile_spec, load_spec

    columns = read_columns(bag, namespace)
    compiled = None
    if model is not None:
        spec = load_spec(model, packages)
        if mapped != 'auto':
            imply_actuators(spec, model, columns, mapped)
        compiled = compile_spec(spec, model)
    found = inspect(columns, compiled, mapping=mapped, stamps=stamps)
    drawn: list[Path] = []
    if plots is not None:
        joints = bag_joints(columns, compiled, mapped, stamps).joints
        if not joints:
            topics = [topic.topic for topic in columns.topics]
            raise AlignmentError(
                'Expected a topic that names joints, such as sensor_msgs/msg/JointState, in '
                f'{str(bag)!r}, {nearest("", topics)}.'
            )
        drawn = _draw_joints(joints, bag.name, plots)
    if json:
        print_json(found)
        return 0
    _print_inspection(make_console(), found)
    for path in drawn:
        say(f'wrote {path}')
    return 0


def _print_inspection(console: LiteralConsole, found: Inspection) -> None:
    """Say what is in a bag."""
    from sysid_ros.alignment.health import FindingKind
    from sysid_ros.report.tables import print_findings

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


def _draw_joints(joints: Sequence[Joint], bag: str, folder: Path) -> list[Path]:
    """Write one picture per joint into a folder, and return their paths."""
    from sysid_ros.alignment.inspection import draw_joint
    from sysid_ros.errors import short
    from sysid_ros.files import replace_file
    from sysid_ros.text import file_stems

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
    from sysid_ros.alignment.pairs import not_read
    from sysid_ros.report.tables import print_table

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
        ([item.topic for item in found.unread if not item.count], 'no messages'),
    )
    lines = [f'{len(names)} more, {what}: {listed(names)}' for names, what in others if names]
    lines += not_read(found.unread)
    for line in lines:
        console.print(line)
    if lines:
        console.print()


def _print_joints(console: LiteralConsole, found: Inspection) -> None:
    from sysid_ros.report.tables import print_table

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
    from sysid_ros.alignment.pairs import UnmappedKind

    report = found.mapping
    if report is None:
        return
    if report.problem:
        console.print(f'Mapping: {report.problem}')
        return
    roles = [pair.role.value for pair in report.pairs]
    console.print(
        f'Mapping: {roles.count("sensor")} columns are sensors of the model, '
        f'{roles.count("actuator")} its actuators'
    )
    reasons: dict[tuple[str, str], list[str]] = {}
    for item in report.unmapped:
        if item.kind is not UnmappedKind.COLUMN:
            reasons.setdefault((item.kind.value, item.reason), []).append(item.name)
    for (kind, reason), names in reasons.items():
        console.print(f'{kind} {listed(names)}: {reason}')


def _number(value: float, digits: int) -> str:
    return '-' if math.isnan(value) else f'{value:.{digits}f}'


@command(
    'convert',
    LOOK,
    'convert bags/train_1 arm.xml -o series --format csv',
    'convert bags/train_1 arm.xml --mapping arm.mapping.yaml',
)
def convert_bag(
    *,
    bag: Bag,
    model: Model,
    packages: Packages,
    output: Annotated[Path | None, written('DIR', 'folder for the series; default none')] = None,
    formats: Annotated[
        list[_SeriesFormat],
        typer.Option(
            '--format',
            default_factory=list,
            show_default=False,
            help='how they are written, may be repeated; default npz and csv',
        ),
    ],
    mapping: _MappingFile = 'auto',
    namespace: Namespace = '',
    stamps: _Stamps = 'auto',
    segments: Annotated[
        Path | None,
        typer.Option(
            metavar='FILE', help='cut and choose as the section segments of this file; default all'
        ),
    ] = None,
    json: Json = False,
) -> int:
    """Turn a bag into time series aligned with a model.

    Pairs the columns of a bag with sensors and actuators of the model.
    """
    if formats and output is None:
        raise ConfigError(f'Expected --output DIR for the {formats[0]} files, found none.')

    from sysid_ros.config.files import load_segments

    cut = None if segments is None else load_segments(segments)

    from sysid_ros.alignment import Format, write_series
    from sysid_ros.cli.console import make_console, print_json, say
    from sysid_ros.files import check_writable
    from sysid_ros.report.tables import print_alignment
    from sysid_ros.workflows.problem import read_aligned

    if output is not None:
        check_writable(output)
    alignment, compiled = read_aligned(
        bag,
        model,
        mapping=mapping,
        stamps=stamps,
        segments=cut,
        namespace=namespace,
        packages=packages,
    )
    written: tuple[Path, ...] = ()
    if output is not None:
        chosen = [Format(name) for name in formats or _SeriesFormat]
        written = write_series(output, alignment, compiled, chosen)
    if json:
        print_json(
            {
                'bag': alignment.bag,
                'pairs': alignment.pairs,
                'unmapped': alignment.unmapped,
                'topics': alignment.topics,
                'health': alignment.health,
                'files': written,
            }
        )
        return 0
    print_alignment(make_console(), alignment)
    for path in written:
        say(f'wrote {path}')
    return 0


@command('map', LOOK, 'map bags/train_1 arm.xml', 'map bags/train_1 arm.xml -o arm.mapping.yaml')
def propose_mapping(
    *,
    bag: Bag,
    model: Annotated[
        Path | None,
        typer.Argument(
            metavar='MODEL',
            help='MJCF, URDF or xacro file; default the robot_description in the bag',
        ),
    ] = None,
    packages: Packages,
    namespace: Namespace = '',
    output: Annotated[Path | None, written('FILE', 'new mapping file; default prints it')] = None,
    quiet: Quiet = False,
    json: Json = False,
) -> int:
    """Propose which column is which sensor, unit and sign.

    The proposal is a commented mapping file to edit.
    """
    from sysid_ros.files import check_new, replace_file

    check_new(output)

    from sysid_ros.alignment.proposal import (
        CONFIDENCE,
        propose_with_actuators,
        summary,
        to_yaml,
    )
    from sysid_ros.alignment.turns import read_columns
    from sysid_ros.cli.console import print_json, say
    from sysid_ros.model.loading import implied_sentence, read_model

    path = model or bag
    described, spec = read_model(path, packages)
    proposal = propose_with_actuators(spec, path, read_columns(bag, namespace))
    notes = [note for note in (*described.notes, implied_sentence(spec)) if note]
    text = to_yaml(proposal, path.name, notes)
    if output is not None:
        replace_file(output, text.encode())
    if (json or output is not None) and not quiet:
        for note in notes:
            say(note, sys.stderr)
    if json:
        print_json(summary(proposal))
    elif output is None:
        print(text, end='')  # noqa: T201 (escaped as YAML)
    else:
        doubtful = [pair for pair in proposal.pairs if not pair.confident]
        say(f'{len(proposal.pairs) - len(doubtful)} of {len(proposal.pairs)} pairs are certain')
        for pair in doubtful:
            say(f'  look at {pair.role.value} {pair.name}: {pair.score:.2f} {pair.reason}')
        if doubtful:
            say(f'Pairs below {CONFIDENCE:g} are commented out.')
        say(f'wrote {output}')
    return 0


@command(
    'model', LOOK, 'model arm.urdf.xacro', 'model arm.urdf --package-path ~/ros/src -o arm.xml'
)
def show_model(
    *,
    model: Model,
    packages: Packages,
    output: Annotated[Path | None, written('FILE', 'new MJCF file; default prints it')] = None,
    quiet: Quiet = False,
    json: Json = False,
) -> int:
    """Show a URDF as the MJCF that is simulated, or write it.

    Prints the MJCF that a URDF, a xacro file or the robot_description in a bag means, and what was
    left out or assumed.
    """
    from sysid_ros.files import check_new, read_bytes, replace_file

    check_new(output)

    from sysid_ros.cli.console import print_json, say
    from sysid_ros.model.loading import compile_spec, implied_sensors, read_model
    from sysid_ros.model.xml_text import decode, encode

    found, spec = read_model(model, packages)
    compiled = compile_spec(spec, model)
    text = decode(read_bytes(model)) if found.mjcf is None else found.mjcf
    if output is not None:
        replace_file(output, encode(text))
    notes = list(found.notes)
    sensors = len(implied_sensors(spec))
    if sensors:
        notes.append(f'Nothing measures its joints: {sensors} sensors of them are implied.')
    if not spec.actuators:
        notes.append(
            'Nothing drives it: servos or motors are implied for what a bag has commands for.'
        )
    bodies, joints, actuators = compiled.nbody - 1, compiled.njnt, compiled.nactuator
    mass = float(compiled.body_mass.sum())
    if json:
        print_json(
            {
                'mjcf': text,
                'file': output,
                'bodies': bodies,
                'joints': joints,
                'actuators': actuators,
                'mass': mass,
                'notes': notes,
            }
        )
        return 0
    if output is None:
        _print_file(text)
    if not quiet:
        counts = f'{bodies} bodies, {joints} joints, {actuators} actuators, {mass:.4g} kg'
        for line in (counts, *notes):
            say(line, sys.stderr)
    if output is not None:
        say(f'wrote {output}')
    return 0


def _print_file(text: str) -> None:
    """Print a file as it is, and to a terminal such that everything in it is seen."""
    from sysid_ros.errors import one_line

    if sys.stdout.isatty():
        text = ''.join(f'{one_line(line.expandtabs())}\n' for line in text.splitlines())
    print(text, end='')  # noqa: T201
