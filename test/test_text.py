# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Whatever a name holds, it gets nowhere through: to a terminal, a file, a page, a folder."""

from __future__ import annotations

import csv
import io
import json
import re
import sys
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import lxml.etree
import lxml.html
import numpy as np
import pytest
import yaml

from builders.bag_columns import Columns
from builders.hostile import DANGEROUS, EVERY, HARMLESS, NAMES, model_spec, poisoned, unseen
from sysid_ros.alignment import Format, align, write_series
from sysid_ros.alignment.pairing import map_columns
from sysid_ros.alignment.pairs import PairRole, Unmapped, UnmappedKind
from sysid_ros.alignment.proposal import Proposal, ProposedPair, to_yaml
from sysid_ros.config.files import load_mapping, read_yaml
from sysid_ros.config.schema import MappingConfig
from sysid_ros.errors import UNSEEN, AlignmentError, ConfigError, listed, nearest, one_line, short
from sysid_ros.report.tables import (
    LiteralConsole,
    alignment_text,
    junit,
    markdown,
    print_result,
    print_table,
    workflow_commands,
)
from sysid_ros.results.comparison import Case, CaseKind
from sysid_ros.results.result import CalibrationResult
from sysid_ros.text import block_entry, file_stems, parse_yaml, scalar, to_json
from sysid_ros.workflows.excitation.motion import Motion, format_waypoints, read_waypoints
from sysid_ros.workflows.export import actuators_text, drives_of, parameters_text

RESULT = Path(__file__).parent / 'data' / 'pendulum' / 'baseline.json'


def test_what_is_unseen_is_what_unicode_says():
    doing = re.compile(f'[{UNSEEN}]')
    letters = list(map(chr, range(sys.maxunicode + 1)))
    assert all(doing.match(a) for a in letters if unicodedata.category(a) in DANGEROUS)
    # Versions of Unicode differ in what is not assigned yet.
    others = {unicodedata.category(letter) for letter in letters if doing.match(letter)}
    assert others <= {*DANGEROUS, 'Cn', 'Mn'}


def test_a_line_shows_what_it_cannot_hold():
    assert one_line('a\x1b[31m\nb\u202e\ud800') == r'a\x1b[31m\nb\u202e\ud800'
    assert one_line('Gelenk é 上 {} [red] 😀') == 'Gelenk é 上 {} [red] 😀'
    assert short('x' * 5000) == 'x' * 170 + '…' + 'x' * 85


def _printed(*names: str, width: int = 1000) -> str:
    stream = io.StringIO()
    console = LiteralConsole(stream, width)
    rows = [(name, '1', name, name) for name in names]
    print_table(console, names[0], ('name', '>value', 'unit', 'verdict'), rows)
    for name in names:
        console.print(f'warning: {name}', soft_wrap=True)
    return stream.getvalue()


@pytest.mark.parametrize('width', [40, 1000])
def test_no_name_moves_the_cursor_or_begins_a_line(width: int):
    shown = _printed(*EVERY, width=width)
    assert not unseen(shown)
    brief = [name for name in EVERY if len(name) < 100]
    if width == 1000:
        lines = _printed(*brief).split('\n')
        assert len(lines) == len(_printed(*[HARMLESS] * len(brief)).split('\n'))
        # Without markup and codes of emoji.
        warned = [line for line in lines if line.startswith('warning: ')]
        assert warned == [f'warning: {one_line(name)}' for name in brief]


def test_no_name_makes_more_of_an_error_than_a_sentence():
    for name in EVERY:
        error = AlignmentError(f'Joint {name} is not in {listed(NAMES)}; {nearest(name, NAMES)}.')
        assert not unseen(str(error))
        assert '\n' not in str(error)
        assert len(str(error)) <= 1000


def test_a_proposed_mapping_holds_the_names_and_nothing_else():
    pairs = [
        ProposedPair(role, name, name, name, labels, 2.0, 0.0, score, f'for {name}')
        for role, score in ((PairRole.SENSOR, 0.99), (PairRole.ACTUATOR, 0.1))
        for name in NAMES
        for labels in [(name,) if role is PairRole.ACTUATOR else (name, 'x', name)]
    ]
    unmapped = tuple(Unmapped(UnmappedKind.COLUMN, name, name) for name in NAMES)
    text = to_yaml(Proposal(NAMES[0], 1.0, tuple(pairs), unmapped), NAMES[-1], NAMES)
    assert not unseen(text)
    sensors = {n: {'topic': n, 'field': n, 'labels': [n, 'x', n], 'scale': 2} for n in NAMES}
    assert yaml.safe_load(text) == {'sensors': sensors, 'actuators': {}}
    # As somebody confirms the others: behind the line that says so.
    before, title, after = text.partition('\nactuators: {}')
    kept = [
        line.replace('  # ', '  ', 1)
        for line in after.split('\n# Without')[0].split('\n')
        if not line.startswith(('  # 0.10 for ', '# '))
    ]
    confirmed = before + title.replace(' {}', '') + '\n'.join(kept)
    actuators = {n: {'topic': n, 'field': n, 'label': n, 'scale': 2} for n in NAMES}
    assert yaml.safe_load(confirmed) == {'sensors': sensors, 'actuators': actuators}


def test_json_holds_the_names_and_shows_them():
    document = {name: [name, {'x': name}] for name in EVERY}
    text = to_json(document, indent=1)
    assert not unseen(text)
    text.encode()
    assert json.loads(text) == json.loads(json.dumps(document))


def test_csv_files_hold_the_names_and_the_description_of_them_their_lines(
    columns: Columns, tmp_path: Path
):
    def aligned(names: Sequence[str]) -> Any:
        model = model_spec(names).compile()
        times = np.arange(0, 0.6, 0.1)
        bag = columns.bag(columns.topic('/js', times, {'position': dict.fromkeys(names, times)}))
        channels = {
            f'{name}_pos': {'topic': '/js', 'field': 'position', 'label': name} for name in names
        }
        mapping = MappingConfig.model_validate({'sensors': channels})
        return align(bag, model, map_columns(bag, model, mapping), 'header'), model

    alignment, model = aligned(NAMES)
    written = write_series(tmp_path, alignment, model, [Format.CSV])
    table = next(path for path in written if path.name.endswith('measurements_0.csv'))
    with table.open(newline='', encoding='utf-8') as stream:
        header, *rows = csv.reader(stream)
    assert header == ['time', *(f'{name}_pos' for name in NAMES)]
    assert [len(row) for row in rows] == [len(header)] * 6
    text = alignment_text(alignment)
    assert not unseen(text)
    harmless, _ = aligned([f'{HARMLESS}{place}' for place in range(len(NAMES))])
    assert text.count('\n') == alignment_text(harmless).count('\n')


def test_waypoints_come_back_whatever_is_said_above_them(tmp_path: Path):
    motion = Motion(np.array([0.0, 1.0]), np.zeros((2, len(NAMES))), NAMES)
    path = tmp_path / 'motion.csv'
    path.write_text(format_waypoints(model_spec(NAMES).compile(), motion, NAMES), newline='')
    assert list(read_waypoints(path).names) == [name.strip() for name in NAMES]


@pytest.fixture(scope='module')
def stored() -> CalibrationResult:
    result = CalibrationResult.load(RESULT)
    return result.model_copy(update={'plots': result.plots[:1]})


def _with_name(stored: CalibrationResult, name: str) -> CalibrationResult:
    return CalibrationResult.model_validate(poisoned(stored.model_dump(), name))


def test_no_name_of_a_result_does_anything_to_a_terminal(stored: CalibrationResult):
    for width in (60, 1000):
        stream = io.StringIO()
        print_result(LiteralConsole(stream, width), _with_name(stored, ''.join(EVERY)))
        assert not unseen(stream.getvalue())


def test_no_name_of_a_case_makes_another_one_in_continuous_integration():
    cases = [Case(CaseKind.ERROR, name, name, passed=False, sentence=name) for name in EVERY]
    suite = lxml.etree.fromstring(junit(NAMES[0], cases))
    assert len(suite.findall('.//testcase')) == len(suite.findall('.//failure')) == len(EVERY)
    commands = list(workflow_commands(cases))
    assert all(line.startswith('::error ') and '\n' not in line for line in commands)
    page = markdown(NAMES[0], cases, NAMES)
    assert not unseen(''.join(commands) + page)
    plain = [Case(CaseKind.ERROR, HARMLESS, passed=False)] * len(EVERY)
    assert page.count('\n') == markdown(HARMLESS, plain, [HARMLESS] * len(NAMES)).count('\n')
    assert not re.search('<[a-z/!]', page)


def test_exports_hold_the_names(stored: CalibrationResult):
    drives, _ = drives_of(model_spec(NAMES).compile())
    document = yaml.safe_load(actuators_text(drives, NAMES[0]))
    assert all(list(joints) == [*NAMES] for joints in document.values())
    first = stored.parameters[0]
    named = tuple(first.model_copy(update={'name': name, 'unit': name}) for name in NAMES)
    rows = csv.DictReader(
        io.StringIO(parameters_text(stored.model_copy(update={'parameters': named})), newline='')
    )
    assert [(row['name'], row['unit']) for row in rows] == [(name, name) for name in NAMES]


def test_files_of_any_names_lie_in_their_folder_side_by_side(tmp_path: Path):
    names = [*EVERY, 'E\u0301', 'É', '', '.', '..', 'con', '*', 'a/b', 'a_b']
    stems = file_stems(names)
    assert len({unicodedata.normalize('NFKC', stem).casefold() for stem in stems}) == len(names)
    for stem in stems:
        path = tmp_path / f'sequence_{stem}.png'
        path.write_text(stem)
        assert path.resolve().parent == tmp_path
    assert len(list(tmp_path.iterdir())) == len(names)
    assert not any(stem.startswith(('.', '-')) or unseen(stem) for stem in stems)


def test_a_mapping_of_names_that_yaml_would_cut_is_read(tmp_path: Path):
    pair = ProposedPair(PairRole.SENSOR, 'x' * 2000, '/js', 'position', ('x',), 1.0, 0.0, 1.0, '')
    path = tmp_path / 'mapping.yaml'
    path.write_text(to_yaml(Proposal('bag', 1.0, (pair,), ()), 'model.xml'))
    assert list(load_mapping(path).sensors) == ['x' * 2000]


# YAML of others


def _each_of_the_last(start: str, form: str) -> str:
    """Return ten anchors, each of ten times what the one before it stands for."""
    lines = [f'a0: &a0 {start}']
    for place in range(1, 10):
        aliases = ', '.join([f'*a{place - 1}'] * 10)
        lines.append(f'a{place}: &a{place} {form.format(aliases)}')
    return '\n'.join(lines)


ENDLESS = {
    'deep in brackets': ('[' * 60 + ']' * 60, 'nested more than 50 deep'),
    'deep in lines': ('- ' * 60 + 'x', 'nested more than 50 deep'),
    'deeper than the parser goes': ('[' * 100_000, 'maximum nesting depth'),
    'laughs': (_each_of_the_last('[x]', '[{}]'), 'stand for more than 1000000 values'),
    'merged laughs': (_each_of_the_last('{x: 1}', '{{<<: [{}]}}'), 'for more than 1000000 values'),
    'long laughs': (f'a: &a {"x" * 100_000}\nb: [{"*a, " * 200}]', 'for more than 1000000 values'),
    'itself': ('a: &a [1, *a]', "alias 'a' contains itself"),
    'a 13th month': ('a: 2001-13-13', 'a value is not what it looks like: month must be in 1..12'),
    'digits': (f'a: {"9" * 5000}', 'a value is not what it looks like: Exceeds the limit'),
}


@pytest.mark.parametrize(('text', 'complaint'), ENDLESS.values(), ids=ENDLESS)
def test_what_has_no_end_is_a_sentence(tmp_path: Path, text: str, complaint: str):
    path = tmp_path / 'file.yaml'
    path.write_text(text)
    with pytest.raises(ConfigError, match='is not valid YAML: ') as raised:
        read_yaml(path)
    assert complaint in str(raised.value)


def test_what_is_used_again_a_few_times_is_read():
    assert parse_yaml('a: &a {x: [1, 2]}\nb: *a\nc: {<<: *a, y: 3}') == {
        'a': {'x': [1, 2]},
        'b': {'x': [1, 2]},
        'c': {'x': [1, 2], 'y': 3},
    }


def test_texts_come_back_and_stay_on_a_line():
    for text in ('elbow', '/joint_states', 'yes', '1e3', '', ' a', 'é 上', 'a: b\n#', '\u2028\x85'):
        assert yaml.safe_load(f'{{a: {scalar(text)}, {scalar(text)}: 1}}') == {'a': text, text: 1}
        assert len(scalar(text).splitlines()) == 1
    assert scalar('é 上') == '"é 上"'


def test_a_key_longer_than_yaml_allows_is_announced():
    for key in ('a', 'x' * 2000):
        text = '\n'.join(['b: 1', *block_entry(key, '{c: 1}')])
        assert yaml.safe_load(text) == {'b': 1, key: {'c': 1}}
