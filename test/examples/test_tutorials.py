# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What a stranger types after the README and the tutorials, from a fresh copy."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from sysid_ros.cli import main
from sysid_ros.results.result import CalibrationResult, Standing

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures('undrawn')]

ROOT = Path(__file__).resolve().parents[2]
TUTORIALS = ROOT / 'docs' / 'tutorials'
PENDULUM = ROOT / 'test' / 'data' / 'pendulum'


def shell_blocks(page: Path) -> list[tuple[str, str]]:
    """Return what is said above each shell block of a page, in ``<!-- checked: … -->``, and it."""
    pattern = r'(?:<!-- checked: ([\w ]+) -->\n)?```sh\n(.*?)```'
    return re.findall(pattern, page.read_text('utf-8'), re.DOTALL)


@pytest.fixture
def type_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Return a function that runs commands, those of sysid in this process, which has loaded it."""
    monkeypatch.chdir(tmp_path)

    def run(commands: str) -> None:
        for line in filter(None, commands.splitlines()):
            program, *arguments = shlex.split(line, comments=True)
            if program == 'cd':
                monkeypatch.chdir(*arguments)
            elif program == 'sysid':
                assert main(arguments) == 0, line
            else:
                program = sys.executable if program == 'python' else program
                subprocess.run([program, *arguments], check=True)

    return run


@pytest.mark.parametrize(
    ('page', 'model'), [('urdf-arm', 'arm.xml'), ('hobby-arm', 'so_arm.xml')], ids=str
)
def test_the_commands_of_a_tutorial_lead_to_accepted(
    page: str, model: str, tmp_path: Path, type_in: Callable[[str], None]
):
    shutil.copytree(ROOT / 'examples', tmp_path / 'examples')
    blocks = shell_blocks(TUTORIALS / f'{page}.md')

    type_in('\n'.join(text for checked, text in blocks if checked != 'on the robot'))

    out = tmp_path / 'my_arm' / 'out' / 'current'
    result = CalibrationResult.load(out / 'result.json')
    assert result.standing is Standing.ACCEPTED
    assert result.held_out_after < result.held_out_before / 10
    assert (out / 'mjcf' / model).is_file()
    assert (out / 'report.html').is_file()


def test_the_commands_of_the_tutorial_on_loads_find_what_the_arm_holds(
    tmp_path: Path, type_in: Callable[[str], None]
):
    shutil.copytree(ROOT / 'examples', tmp_path / 'examples')
    page = TUTORIALS / 'payload.md'
    text = page.read_text('utf-8').replace('\N{MINUS SIGN}', '-')

    commands = (block for checked, block in shell_blocks(page) if checked != 'on the robot')
    type_in('\n'.join(commands))

    result = CalibrationResult.load(tmp_path / 'my_arm' / 'load' / 'current' / 'result.json')
    assert result.drift is not None
    assert not result.drift.changed
    (tool,) = result.links
    # The last column of the table is what the script hides.
    hidden = re.findall(r'^\| (mass|centre .|moment .) \|.*\| (\S+) \|$', text, re.MULTILINE)
    assert [name for name, _ in hidden] == [number.name for number in tool.numbers]
    for (name, truth), number in zip(hidden, tool.numbers, strict=True):
        off = float(truth) * (1e-3 if number.unit == 'm' else 1.0) - number.value
        assert abs(off) < 1.6 * number.half_width, name
    (shown,) = re.findall(r'```yaml\n(.*?)```', text, re.DOTALL)
    written = (ROOT / 'examples' / 'tutorials' / 'load.yaml').read_text('utf-8')
    assert yaml.safe_load(shown) == yaml.safe_load(written)


@pytest.mark.parametrize('page', ['urdf-arm', 'hobby-arm'])
def test_what_a_tutorial_records_on_the_robot_is_what_its_script_writes(page: str):
    text = '\n'.join(block for _, block in shell_blocks(TUTORIALS / f'{page}.md'))
    recorded = re.findall(r'output:=(\S+)', text)

    assert re.findall(r'sysid init (.*) \S+\n', text) == [' '.join(recorded)]


def test_the_commands_of_the_readme_run_on_bags_with_the_names_that_it_records(
    tmp_path: Path, type_in: Callable[[str], None]
):
    (block,) = (t for checked, t in shell_blocks(ROOT / 'README.md') if checked == 'your robot')
    robot, elsewhere = (
        [line for line in block.splitlines() if line.startswith('ros2') is on_robot]
        for on_robot in (True, False)
    )
    recorded = [found for line in robot for found in re.findall(r'output:=(\S+)', line)]
    assert len(recorded) == 2
    for bag, made in zip(recorded, ('train', 'validate'), strict=True):
        shutil.copytree(PENDULUM / made, tmp_path / bag)
    shutil.copy(PENDULUM / 'arm.xml', tmp_path)

    type_in('\n'.join(elsewhere))

    result = CalibrationResult.load(tmp_path / 'out' / 'current' / 'result.json')
    assert result.accepted
