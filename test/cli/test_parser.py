# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What the command understands, and how it says that it does not."""

from __future__ import annotations

import argparse
import re
import shlex
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from sysid_ros.cli.parser import GROUPS, make_parser, parse_overrides
from sysid_ros.cli.schema import DOCUMENTS
from sysid_ros.config import CalibrationConfig, validate

if TYPE_CHECKING:
    from collections.abc import Callable

HEAVY = (
    'numpy',
    'mujoco',
    'scipy',
    'pydantic',
    'rosbags',
    'matplotlib',
    'jinja2',
    'rclpy',
    'argcomplete',
)


@pytest.mark.parametrize(
    'command', [[], ['calibrate'], ['convert'], ['inspect'], ['plot'], ['check']]
)
def test_help_imports_nothing_heavy(command: list[str]):
    script = (
        'import sys\n'
        'from sysid_ros.cli import main\n'
        'try:\n'
        f'    main([*{command!r}, "--help"])\n'
        'except SystemExit as done:\n'
        '    assert not done.code\n'
        f'print(",".join(name for name in {HEAVY!r} if name in sys.modules), file=sys.stderr)\n'
    )
    done = subprocess.run(
        [sys.executable, '-c', script], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith(f'usage: {" ".join(["sysid", *command])}')
    assert done.stderr.strip() == ''


def test_the_example_is_a_valid_configuration(sysid: Callable[..., Any]):
    done = sysid('calibrate', '--example')
    assert done.code == 0
    config = validate(CalibrationConfig, yaml.safe_load(done.out), 'the example')
    assert config.model.name == 'arm.xml'
    assert len(config.parameters) > 1


@pytest.mark.parametrize('command', ['calibrate', 'preflight', 'check'])
def test_a_namespace_is_a_value_of_the_configuration(command: str):
    given = [command, 'a.yaml', '--set', 'stamps=header', '--namespace', 'no']
    assert parse_overrides(make_parser().parse_args(given).overrides) == {
        'stamps': 'header',
        'namespace': 'no',
    }


def _commands() -> dict[str, argparse.ArgumentParser]:
    return next(
        action.choices
        for action in make_parser()._actions
        if isinstance(action, argparse._SubParsersAction)
    )


def test_the_help_lists_every_command_once_within_80_columns(
    sysid: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv('COLUMNS', '80')
    lines = sysid('--help').out.splitlines()
    assert max(map(len, lines)) <= 80
    listed = [line.split()[0] for line in lines if re.match(r'  [a-z][\w-]* ', line)]
    assert sorted(listed) == sorted(_commands())
    assert sorted(listed) == sorted(name for names in GROUPS.values() for name in names)


def test_every_command_ends_its_help_with_examples_that_it_understands(
    sysid: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv('COLUMNS', '80')
    for name in _commands():
        examples = sysid(name, '--help').out.partition('\nexamples:\n')[2].splitlines()
        assert 1 <= len(examples) <= 3, name
        for line in examples:
            assert len(line) <= 80
            program, *words = shlex.split(re.split(' [|>]', line)[0])
            assert program == 'sysid'
            assert make_parser().parse_args(words).command == name


def test_every_command_that_finds_something_says_it_as_json_too():
    takes = {name for name, own in _commands().items() if '--json' in own._option_string_actions}
    assert takes == set(DOCUMENTS) == set(_commands()) - {'completion', 'schema'}


def test_the_version_is_the_one_of_the_package(sysid: Callable[..., Any]):
    from sysid_ros import __version__  # noqa: PLC0415 (compared, not used)

    assert sysid('--version').out == f'sysid_ros {__version__}\n'


@pytest.mark.parametrize(
    ('arguments', 'complaint'),
    [
        ([], 'required: COMMAND; see `sysid --help`'),
        (['calibrat', 'x.yaml'], "'calibrat'; nearest: calibrate"),
        (['calibrate'], 'config --example is required; see `sysid calibrate --help`'),
        (['convert'], 'required: bag, model; see `sysid convert --help`'),
        (['check'], 'required: FILE; see `sysid check --help`'),
        (['convert', 'a', 'b', '--stamps', 'recieve'], "'recieve'; nearest: receive"),
        (['calibrate', 'a', '--set'], 'Argument --set: expected one argument'),
        (['calibrate', 'a', 'b'], 'Unrecognized arguments: b'),
    ],
)
def test_a_wrong_command_line_is_one_line(
    sysid: Callable[..., Any], arguments: list[str], complaint: str
):
    done = sysid(*arguments)
    assert done.code == 2
    assert done.out == ''
    assert complaint in done.err
    assert done.err.startswith('sysid: ')
    assert done.err.count('\n') == 1
