# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What the documentation names exists, and what it shows works."""

from __future__ import annotations

import ast
import contextlib
import functools
import importlib
import importlib.util
import io
import itertools
import re
import shlex
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, get_args
from xml.etree import ElementTree as ET

import pytest
import typer
import yaml

from builders.commands import SYSID, commands, options, parse
from sysid_ros import demo
from sysid_ros.alignment.health import FindingKind
from sysid_ros.cli.app import overrides_of
from sysid_ros.cli.main import BROKEN_PIPE, INTERRUPTED
from sysid_ros.config import nodes, schema
from sysid_ros.config.files import validate
from sysid_ros.config.schema import (
    CalibrationConfig,
    DataConfig,
    FleetConfig,
    MappingConfig,
    Section,
    ThresholdsConfig,
)
from sysid_ros.config.servos import ServoBagConfig
from sysid_ros.model.kinds import KINDS, Kind
from sysid_ros.simulation.servo import FRICTION_LAWS, actuator_type
from sysid_ros.workflows.excitation import read_waypoints

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted(
    [ROOT / 'README.md', ROOT / 'CONTRIBUTING.md', *(ROOT / 'docs').rglob('*.md')],
    key=lambda page: page.relative_to(ROOT).as_posix(),
)
IMAGES = sorted((ROOT / 'docs' / 'images').iterdir())
LARGEST_IMAGE = 200_000

#: Node to the schema of its parameters.
SCHEMAS: dict[str, type[Section]] = {
    'recorder': nodes.RecorderConfig,
    'exciter': nodes.ExciterConfig,
    'simulated_robot': nodes.SimulatedRobotConfig,
    'calibrator': nodes.CalibratorConfig,
}
#: Files that examples show with every key.
WHOLE: dict[str, type[Section]] = {'calibration': CalibrationConfig, 'fleet': FleetConfig}
#: Calls of rclpy that make a name, and what they make.
CREATORS = {'create_service': 'service', 'create_publisher': 'topic'}
#: Package of each interface that the nodes use.
PACKAGES = {
    'Trigger': 'std_srvs/srv',
    'JointState': 'sensor_msgs/msg',
    'String': 'std_msgs/msg',
    'DiagnosticArray': 'diagnostic_msgs/msg',
}

#: Files and folders in the text that are the user's.
USER_FILES = {'config/NODE.yaml'} | {f'{name}/' for name in ('bags', 'demo', 'mjcf', 'servos')}
FILE = r'[\w.-]+(?:/[\w.-]+)*\.(?:py|yaml|j2|xml|md|rst|toml|cfg|ipynb)'
FOLDER = r'[\w.-]+/(?:[\w.-]+/)*'

by_page = pytest.mark.parametrize('page', PAGES, ids=lambda page: str(page.relative_to(ROOT)))


class Block(NamedTuple):
    """A fenced block: its page, its language, the word after ``checked:`` above it, its text."""

    page: str
    language: str
    checked: str
    text: str


def _name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def _text(page: Path) -> str:
    return page.read_text('utf-8')


def _blocks(page: Path) -> list[Block]:
    pattern = r'(?:<!-- checked: ([\w ]+) -->\n)?```(\w*)\n(.*?)```'
    found = re.findall(pattern, _text(page), re.DOTALL)
    return [Block(_name(page), language, checked, text) for checked, language, text in found]


def _prose(page: Path) -> str:
    return re.sub(r'```.*?```', '', _text(page), flags=re.DOTALL)


def _commands() -> list[tuple[str, list[str]]]:
    """Return the page and the words of every command in a shell block."""
    found = []
    for page in PAGES:
        lines = [line for b in _blocks(page) if b.language == 'sh' for line in b.text.splitlines()]
        for block in (b for b in _blocks(page) if b.checked == 'workflow'):
            lines += re.findall(r'run: (.*)', block.text)
        for line in lines:
            words: list[str] = []
            for word in [*shlex.split(line, comments=True), '&&']:
                if word == '&&':
                    if words:
                        found.append((_name(page), words))
                    words = []
                else:
                    words.append(word)
    return found


def _commands_that_start_with(*start: str) -> Iterator[tuple[str, list[str]]]:
    for page, words in _commands():
        if words[: len(start)] == list(start):
            yield page, words[len(start) :]


def _tables(checked: str) -> Iterator[list[list[str]]]:
    """Yield the cells of tables below ``<!-- checked: … -->``, without their headers."""
    for page in PAGES:
        _, *found = _text(page).split(f'<!-- checked: {checked} -->\n|')
        for rest in found:
            lines = rest.partition('\n\n')[0].splitlines()[2:]
            yield [[cell.strip() for cell in line.strip('|').split('|')] for line in lines]


def _table(checked: str) -> list[list[str]]:
    for table in _tables(checked):
        return table
    pytest.fail(f'no page has a table that is checked as {checked}')


def _interface() -> dict[tuple[str, str], str]:
    """Return kind and name (``~/refit``) of what nodes offer, with the type's full name."""
    found = {}
    for path in (ROOT / 'sysid_ros' / 'nodes').rglob('*.py'):
        for call in ast.walk(ast.parse(path.read_text('utf-8'))):
            if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
                continue
            if call.func.attr not in CREATORS or len(call.args) < 2:
                continue
            kind, name = call.args[:2]
            if isinstance(kind, ast.Name) and isinstance(name, ast.Constant):
                full = f'{PACKAGES[kind.id]}/{kind.id}'
                found[CREATORS[call.func.attr], str(name.value)] = full
    return found


def _node_names() -> set[str]:
    launched = {
        node.attrib['name']
        for path in (ROOT / 'launch').glob('*.xml')
        for node in ET.parse(path).getroot().iter('node')  # noqa: S314 (our own files)
    }
    return {*SCHEMAS, *launched}


def _anchors(page: Path) -> set[str]:
    headings = re.findall(r'^#+ (.*)$', _prose(page), re.MULTILINE)
    return {re.sub(r'[^\w\- ]', '', h.lower()).replace(' ', '-') for h in headings}


@by_page
def test_relative_links_and_images_lead_somewhere(page: Path):
    targets = re.findall(r'\]\(([^)\s]+)\)', _prose(page))

    for target in targets:
        if '://' in target:
            continue
        path, _, anchor = target.partition('#')
        place = (page.parent / path).resolve() if path else page
        assert place.exists(), target
        if anchor:
            assert anchor in _anchors(place), target


@pytest.mark.parametrize('image', IMAGES, ids=lambda image: image.name)
def test_images_are_used_and_small(image: Path):
    used = ' '.join(_text(page) for page in PAGES)

    assert f'images/{image.name})' in used
    assert image.stat().st_size < LARGEST_IMAGE


@pytest.mark.parametrize(('page', 'words'), list(_commands_that_start_with('sysid')), ids=str)
def test_sysid_commands_are_understood(page: str, words: list[str]):
    redirected = [place for place, word in enumerate(words) if word in {'>', '2>/dev/null'}]
    words = words[: min(redirected, default=None)]
    try:
        command, given = parse(words)
    except typer.BadParameter.__base__ as error:
        pytest.fail(f'{page}: sysid {shlex.join(words)}: {error}')
    assert {word for word in words if word.startswith('--')} <= options(command), page
    for key in overrides_of(given.get('settings', [])):
        schema: object = CalibrationConfig
        for part in key.split('.'):
            fields = getattr(schema, 'model_fields', {})
            assert part in fields, key
            schema = fields[part].annotation


@by_page
def test_sysid_commands_in_the_text_exist(page: Path):
    said = re.findall(r'`sysid ((?:servo )?[a-z][\w-]*)', _prose(page))

    assert set(said) <= {*dict(commands()), 'servo'}


@pytest.mark.parametrize(
    ('page', 'words'), list(_commands_that_start_with('python', '-m')), ids=str
)
def test_modules_that_are_started_exist_with_their_parameters(page: str, words: list[str]):
    module, *arguments = words
    if not module.startswith('sysid_ros.'):
        assert module == 'colcon', page
        return
    assert importlib.util.find_spec(module) is not None, page
    if module == 'sysid_ros.demo':
        with contextlib.redirect_stdout(io.StringIO()) as out, pytest.raises(SystemExit):
            demo.main(['--help'])
        assert all(flag in out.getvalue() for flag in arguments if flag.startswith('--'))
        return
    name, *arguments = arguments
    flags = ('--ros-args', '-p', '-r')
    pairs = [w for w in arguments if w not in flags and not w.startswith('__ns:=')]
    values = dict(pair.split(':=') for pair in pairs)
    validate(SCHEMAS[name], {key: yaml.safe_load(v) for key, v in values.items()}, page)


@pytest.mark.parametrize(
    ('page', 'words'),
    list(_commands_that_start_with('ros2', 'launch', 'sysid_ros')),
    ids=str,
)
def test_launch_files_and_their_arguments_exist(page: str, words: list[str]):
    name, *arguments = words
    path = ROOT / 'launch' / name

    assert path.is_file(), page
    known = {arg.attrib['name'] for arg in ET.parse(path).getroot().iter('arg')}  # noqa: S314
    assert {argument.partition(':=')[0] for argument in arguments} <= known


@pytest.mark.slow
def test_services_and_topics_that_are_named_exist_with_their_types():
    interface = _interface()
    calls = [words for _, words in _commands_that_start_with('ros2', 'service', 'call')]
    echoed = [words[-1] for _, words in _commands_that_start_with('ros2', 'topic', 'echo')]
    table = r'^\| `(~?/\w+)` \| `([\w/]+)` \|'
    rows = re.findall(table, _text(ROOT / 'docs/refit.md'), re.MULTILINE)

    assert calls
    assert echoed
    for name in (*(name for name, _ in calls), *echoed):
        assert name.split('/')[1] in _node_names(), name
    for name, kind in calls:
        assert interface['service', f'~/{name.split("/")[2]}'] == kind
    assert {('topic', f'~/{name.split("/")[2]}') for name in echoed} <= set(interface)
    kinds = {name: kind for (_, name), kind in interface.items()}
    names = ('~/refit', '~/cancel', '~/parameters', '~/mjcf', '~/result', '/diagnostics')
    assert dict(rows) == {name: kinds[name] for name in names}


@pytest.mark.parametrize('schema', SCHEMAS.values(), ids=lambda s: s.__name__)
def test_parameter_tables_equal_the_schemas(schema: type[Section]):
    rows = _table(schema.__name__)

    assert sorted(row[0].strip('`') for row in rows) == sorted(schema.model_fields)
    for name, default, *_ in rows:
        if default.startswith('`'):
            expected = schema.model_fields[name.strip('`')].default
            number = isinstance(expected, float)
            shown = default.strip('`')
            assert (float(shown) if number else yaml.safe_load(shown)) == expected, name


def test_the_table_of_calibration_yaml_equals_the_schema():
    rows = _table('CalibrationConfig')

    assert {row[0].strip('`') for row in rows} == set(CalibrationConfig.model_fields)
    parameters = _text(ROOT / 'docs/calibration.md').partition('### Parameters')[2]
    assert all(
        re.search(rf'`{name}\b', parameters.partition('###')[0])
        for name in schema.ParameterConfig.model_fields
    )


def _choices(annotation: object) -> Iterator[str]:
    for choice in get_args(annotation):
        if isinstance(choice, str):
            yield choice
        else:
            yield from _choices(choice)


def test_the_table_of_solvers_equals_the_schema():
    rows = {name.strip('`'): (default, text) for name, default, text in _table('SolverConfig')}
    fields = schema.SolverConfig.model_fields

    assert list(rows) == list(fields)
    for name, field in fields.items():
        default, text = rows[name]
        assert yaml.safe_load(default.strip('`')) == field.default, name
        for choice in _choices(field.annotation):
            assert f'`{choice}`' in default + text, choice


def test_the_table_of_conditions_names_every_key_of_the_gate_with_its_default():
    text = _text(ROOT / 'docs' / 'gate.md')

    for name, field in schema.GateConfig.model_fields.items():
        rows = re.findall(rf'^\|.*`{name}`(?: \(([^)]*)\))?', text, re.MULTILINE)
        assert rows, name
        assert all(yaml.safe_load(row) == field.default for row in rows if row), name


def test_the_table_of_friction_laws_names_all():
    rows = re.findall(r'^\| (`\w+`[^|]*) \|', _text(ROOT / 'docs' / 'servos.md'), re.MULTILINE)
    named = {name for row in rows for name in re.findall(r'`(\w+)`', row)}

    assert set(FRICTION_LAWS) <= named


def _span(bounds: tuple[float, float]) -> str:
    low, high = bounds
    if high < float('inf'):
        return f'{low:g} to {high:g}'
    return 'any' if low == -float('inf') else f'≥ {low:g}'


def _row(element: str, attribute: str, kind: Kind) -> list[str]:
    name = '' if element == 'option' else '/NAME'
    components = range(max(kind.size, 1))
    counted = f'{kind.size or "*"}' + (f' ({kind.bare})' if kind.bare != 'first' else '')
    slides = [kind.component_unit(i, slide=True) if kind.slide_unit else '' for i in components]
    return [
        f'`{element}{name}/{attribute}`',
        counted,
        ', '.join(dict.fromkeys(kind.component_unit(i) for i in components)),
        ', '.join(dict.fromkeys(slides)),
        ', '.join(dict.fromkeys(_span(kind.component_bounds(i)) for i in components)),
        kind.role.value,
    ]


def test_the_table_of_targets_equals_the_kinds():
    expected = [_row(element, attribute, kind) for (element, attribute), kind in KINDS.items()]

    assert _table('targets') == expected


def test_the_example_of_the_command_line_names_every_target():
    text = (ROOT / 'sysid_ros' / 'cli' / 'example.yaml').read_text('utf-8')

    for element, attribute in KINDS:
        line = re.search(rf'{element} \(([^)]*)\)', text.replace('\n#', ''))
        assert line, element
        assert attribute in re.findall(r'\w+', line[1]), (element, attribute)


def _checked_blocks() -> list[Block]:
    """Return the blocks that a schema checks; commands are run elsewhere."""
    blocks = [block for page in PAGES for block in _blocks(page)]
    return [block for block in blocks if block.checked and block.language != 'sh']


def test_every_yaml_block_is_checked():
    unchecked = [b for page in PAGES for b in _blocks(page) if b.language == 'yaml']

    assert all(block.checked for block in unchecked)


@pytest.mark.parametrize('block', _checked_blocks(), ids=lambda b: f'{b.page}: {b.checked}')
def test_configurations_that_are_shown_are_valid(block: Block, tmp_path: Path):
    document = yaml.safe_load(block.text)
    if block.checked in WHOLE:
        shown = validate(WHOLE[block.checked], document, block.page)
        assert set(document) == set(type(shown).model_fields), 'the example shows every key'
    elif block.checked == 'part of a calibration':
        needed = {'model': 'm.xml', 'bags': [{'path': 'b'}], 'parameters': [{'target': 't'}]}
        validate(CalibrationConfig, {**needed, **document}, block.page)
    elif block.checked == 'mapping':
        validate(MappingConfig, document, block.page)
    elif block.checked == 'actuator':
        path = tmp_path / 'actuator.yaml'
        path.write_text(block.text)
        assert actuator_type(str(path)).coefficients
    elif block.checked == 'servo bag':
        shown_bag = validate(ServoBagConfig, document, block.page)
        left_out = set(ServoBagConfig.model_fields) - set(document)
        assert shown_bag.joint
        assert left_out == {'position'}, 'the example shows every key'
    elif block.checked == 'thresholds':
        thresholds = validate(ThresholdsConfig, document, block.page)
        assert thresholds.model_fields_set == set(ThresholdsConfig.model_fields) - set(
            DataConfig.model_fields
        ), 'the example shows every key of its own'
    else:
        assert block.checked == 'workflow'
        assert 'sysid check' in str(document['jobs']['check']['steps'])


def test_waypoints_in_csv_are_valid(tmp_path: Path):
    blocks = [b.text for b in _blocks(ROOT / 'docs/recording.md') if b.text.startswith('time,')]
    path = tmp_path / 'waypoints.csv'

    assert len(blocks) == 1
    path.write_text(blocks[0])
    assert len(read_waypoints(path).times) > 1


def test_exit_codes_are_those_of_the_command_line():
    rows = re.findall(r'^\| (\d+) \|', _text(ROOT / 'docs/ci.md'), re.MULTILINE)
    told = re.findall(r'\b\d+\b', SYSID.epilog or '')

    assert rows[: len(told)] == told
    assert [int(row) for row in rows[len(told) :]] == [INTERRUPTED, BROKEN_PIPE]


@by_page
def test_make_targets_exist(page: Path):
    known = set(re.findall(r'^([a-z]+):', (ROOT / 'Makefile').read_text('utf-8'), re.MULTILINE))
    named = set(re.findall(r'(?:^|`)make ([a-z]+)', _text(page), re.MULTILINE))

    assert named <= known


def _spans(page: Path) -> list[str]:
    return re.findall(r'`([^`\n]+)`', _prose(page))


@functools.cache
def _named_in_python() -> tuple[set[str], set[str]]:
    """Return the names that Python files define or import, and the words of their strings.

    Docstrings and comments are left out: they may mention what is gone.
    """
    names: set[str] = set()
    words: set[str] = set()
    for path in itertools.chain(*((ROOT / f).rglob('*.py') for f in ('sysid_ros', 'test'))):
        if path == Path(__file__):
            continue
        # Compiled like this, no docstring is left.
        pending: list[Any] = [compile(path.read_text('utf-8'), path, 'exec', optimize=2)]
        while pending:
            value = pending.pop()
            if isinstance(value, str):
                words.update(re.findall(r'\w+', value))
            elif isinstance(value, (tuple, frozenset)):
                pending.extend(value)
            elif isinstance(value, types.CodeType):
                used = (value.co_names, value.co_varnames, value.co_cellvars, value.co_freevars)
                names.update({value.co_name}, *used)
                pending.extend(value.co_consts)
    return names, words


#: Words that stand for what a user puts there, and names of a user's own.
PLACEHOLDERS = {'DIR', 'FILE', 'NAME', 'NODE', 'SEED', 'TOPIC', 'left_elbow_joint', 'servo_params'}
#: What looks like a name in Python: a constant, a class, words joined by underscores.
LOOKS = re.compile(r'[A-Z][A-Z_]{3,}|[A-Z][a-z]+\w*[A-Z]\w*|[a-z]+(?:_[a-z]+)+')


def _unknown(span: str) -> list[str]:
    """Return the names of Python in a span of code that nothing defines."""
    if re.fullmatch(FILE, span) or not re.fullmatch(r'[\w.]+(\(.*\))?', span):
        return []
    dotted, call, _ = span.strip('.').partition('(')
    if dotted.startswith('sysid_ros.'):
        return [] if _resolves(dotted) else [span]
    names, words = _named_in_python()
    known = names if call else names | words | PLACEHOLDERS
    return [p for p in dotted.split('.') if (call or LOOKS.fullmatch(p)) and p not in known]


def _resolves(dotted: str) -> bool:
    """Tell whether a dotted name can be imported, or is an attribute of what can be."""
    parts = dotted.split('.')
    for end in range(len(parts), 0, -1):
        try:
            found: object = importlib.import_module('.'.join(parts[:end]))
        except ModuleNotFoundError:
            continue
        for name in parts[end:]:
            if not hasattr(found, name):
                return False
            found = getattr(found, name)
        return True
    return False


@pytest.mark.slow
@by_page
def test_names_of_python_in_the_text_exist(page: Path):
    unknown = [(span, name) for span in _spans(page) for name in _unknown(span)]

    assert unknown == []


@pytest.mark.slow
def test_a_name_that_is_gone_is_found():
    names = 'DECODERS', 'no_such_name', 'CalibratedResult', 'sysid_ros.nothing'
    dotted = 'sysid_ros.report.Parameters', 'fit_everything(model)', 'so.calibrates(model)'
    assert all(map(_unknown, (*names, *dotted)))


def test_the_table_of_packages_equals_their_order():
    tree = ast.parse((ROOT / 'test' / 'package' / 'test_imports.py').read_text('utf-8'))
    (order,) = (
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == 'PACKAGES'
    )
    rows = [row[0].strip('`') for row in _table('packages')]

    assert [Path(row).stem for row in rows] == [part for part in order if part != '__init__']
    assert all((ROOT / 'sysid_ros' / row).exists() for row in rows)


@by_page
def test_source_files_that_are_named_exist(page: Path):
    folders = ('sysid_ros', 'test', 'examples', 'benchmarks')
    modules = {path.name for folder in folders for path in (ROOT / folder).rglob('*.py')}
    for name in (word for span in _spans(page) for word in span.split()):
        bare = re.fullmatch(r'[\w-]+\.py', name)
        slashed = '/' in name and re.fullmatch(f'{FILE}|{FOLDER}', name)
        if bare:
            assert name in {*modules, 'setup.py'}, name
        elif slashed and name not in USER_FILES:
            places = (ROOT / name, ROOT / 'sysid_ros' / name, page.parent / name)
            assert any(place.exists() for place in places), name


def test_pytest_commands_name_existing_files_and_markers():
    markers = re.findall(
        r'^    "(\w+): ', (ROOT / 'pyproject.toml').read_text('utf-8'), re.MULTILINE
    )
    for page, words in _commands():
        if 'pytest' not in words:
            continue
        arguments = words[words.index('pytest') + 1 :]
        expressions = [b for a, b in itertools.pairwise(arguments) if a == '-m']
        paths = [word for word in arguments if word not in expressions and word[0] != '-']
        assert all((ROOT / path).exists() for path in paths), page
        for expression in expressions:
            assert set(re.findall(r'\w+', expression)) - {'not', 'and'} <= set(markers), page


@functools.cache
def _code() -> str:
    """Return the code of the package, texts that go on in further lines in one."""
    files = sorted((ROOT / 'sysid_ros').rglob('*.py'))
    code = '\n'.join(path.read_text('utf-8') for path in files)
    return re.sub(r"""['"]\n *[fr]?['"]""", '', code)


def _says(pattern: str) -> bool:
    """Tell whether some text of the code has the parts of a pattern between its `…`, in order."""
    parts = [re.escape(part.strip()) for part in pattern.split('…') if part.strip(' .:;,')]
    return re.search('.*'.join(parts), _code()) is not None


@pytest.mark.slow
def test_sentences_that_troubleshooting_explains_are_said():
    patterns = [row[0].strip('`') for table in _tables('sentences') for row in table]

    assert len(patterns) > 30
    assert [pattern for pattern in patterns if not _says(pattern)] == []
    for gone in ('There is no such bag …', 'No joint name in common: … found'):
        assert not _says(gone)


def test_findings_that_troubleshooting_explains_exist():
    (rows,) = _tables('findings')

    assert {row[0].strip('`') for row in rows} <= set(FindingKind)


@by_page
def test_outputs_that_are_shown_were_filled_in(page: Path):
    assert not re.search(r'…[A-Z]+…', _text(page))
