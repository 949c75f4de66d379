# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What the command understands, and how it says that it does not."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys

import pytest
import yaml

import sysid_ros
from builders.cli_project import Sysid, run_process
from builders.commands import commands, options, parse
from sysid_ros.cli.app import overrides_of
from sysid_ros.config.files import validate
from sysid_ros.config.schema import CalibrationConfig

#: What no help waits for; typer itself loads pydantic for some.
HEAVY = ('numpy', 'mujoco', 'scipy', 'yaml', 'rosbags', 'matplotlib', 'jinja2', 'rclpy')


@pytest.mark.parametrize('command', [[], ['calibrate'], ['inspect'], ['check'], ['servo', 'fit']])
def test_help_imports_nothing_heavy(command: list[str]):
    script = (
        'import sys\n'
        'from sysid_ros.cli import main\n'
        f'assert main([*{command!r}, "--help"]) == 0\n'
        f'print(",".join(name for name in {HEAVY!r} if name in sys.modules), file=sys.stderr)\n'
    )
    done = subprocess.run(
        [sys.executable, '-c', script], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith(f'Usage: {" ".join(["sysid", *command])}')
    assert done.stderr.strip() == ''


def test_the_example_is_a_valid_configuration(sysid: Sysid):
    done = sysid('calibrate', '--example')
    assert done.code == 0
    config = validate(CalibrationConfig, yaml.safe_load(done.out), 'the example')
    assert config.model.name == 'arm.xml'
    assert len(config.parameters) > 1


@pytest.mark.parametrize('command', ['calibrate', 'preflight', 'check'])
def test_a_namespace_is_a_value_of_the_configuration(command: str):
    _, given = parse([command, 'a.yaml', '--set', 'stamps=header', '--namespace', 'no'])
    assert overrides_of(given['settings'], given['namespace']) == {
        'stamps': 'header',
        'namespace': 'no',
    }


def test_every_command_is_listed_once(sysid: Sysid):
    text = sysid('--help').out + sysid('servo', '--help').out
    listed = re.findall(r'^  ([a-z]+)  ', text, re.MULTILINE)
    assert sorted(listed) == sorted(['servo', *(path.split()[-1] for path, _ in commands())])


@pytest.mark.parametrize('path', ['', 'servo', *(path for path, _ in commands())])
def test_help_fits_80_columns_and_ends_with_examples_that_are_understood(
    sysid: Sysid, monkeypatch: pytest.MonkeyPatch, path: str
):
    monkeypatch.setenv('COLUMNS', '80')
    text = sysid(*path.split(), '--help').out
    assert max(map(len, text.splitlines())) <= 80
    examples = text.partition('examples:\n')[2].splitlines()
    assert (1 <= len(examples) <= 3) is (path not in ('', 'servo'))
    for line in examples:
        program, *words = shlex.split(re.split(' [|>]', line)[0])
        assert program == 'sysid'
        assert parse(words)[0] is dict(commands())[path]


def test_every_command_says_what_it_found_as_json_and_output_has_one_name():
    for path, command in commands():
        assert '--json' in options(command), path
        assert ('-o' in options(command)) is ('--output' in options(command)), path


def test_the_version_is_the_one_of_the_package(sysid: Sysid):
    assert sysid('--version').out == f'sysid_ros {sysid_ros.__version__}\n'


def test_a_shell_completes_commands():
    asked = {'_SYSID_COMPLETE': 'complete_bash', 'COMP_WORDS': 'sysid cal', 'COMP_CWORD': '1'}
    assert run_process(env=asked).out.split() == ['calibrate']


@pytest.mark.parametrize(
    ('arguments', 'complaint'),
    [
        ([], 'Missing command. See `sysid --help`'),
        (['calibrat', 'x.yaml'], "Did you mean 'calibrate'?"),
        (['calibrate'], 'Expected either CONFIG or --example, found neither'),
        (['convert', 'a'], "Missing argument 'MODEL'. See `sysid convert --help`"),
        (['convert', 'a', 'b', '--stamps', 'recieve'], "'recieve' is not one of 'auto', 'header'"),
        (['convert', 'a', 'b', '--stmps', 'auto'], '--stamps'),
        (['calibrate', 'a', '--set'], "Option '--set' requires an argument"),
        (['calibrate', 'a', 'b'], '(b). See `sysid calibrate --help`'),
        (['servo', 'fot'], "Did you mean 'fit'? See `sysid servo --help`"),
        (['doctor', '--seconds', 'soon'], "found 'soon'"),
    ],
)
def test_a_wrong_command_line_is_one_line(sysid: Sysid, arguments: list[str], complaint: str):
    done = sysid(*arguments)
    assert (done.code, done.out) == (2, '')
    assert complaint in done.err
    assert done.err.startswith('sysid: ')
    assert done.err.count('\n') == 1
