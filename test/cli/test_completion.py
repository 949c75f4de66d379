# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""``sysid completion``, as bash asks for it."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from builders.cli_project import REPOSITORY
from sysid_ros.cli.main import main

if TYPE_CHECKING:
    from pathlib import Path

#: What bash does when Tab is pressed at the end of $1, whose last word has the index $2.
TAB = """
eval "$(sysid completion bash)"
COMP_LINE=$1 COMP_POINT=${#1} COMP_WORDS=($1) COMP_CWORD=$2 COMP_TYPE=9
_python_argcomplete sysid
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture
def tab(tmp_path: Path) -> object:
    """Return a function that presses Tab in bash."""
    script = tmp_path / 'sysid'
    script.write_text(
        f'#!{sys.executable}\nimport sys\nfrom sysid_ros.cli import main\nsys.exit(main())\n'
    )
    script.chmod(0o755)
    env = {
        **os.environ,
        'PATH': f'{tmp_path}{os.pathsep}{os.environ["PATH"]}',
        'PYTHONPATH': str(REPOSITORY),
    }

    def press(line: str) -> list[str]:
        word = len(line.split(' ')) - 1
        done = subprocess.run(
            ['bash', '-c', TAB, 'bash', line, str(word)],
            capture_output=True,
            text=True,
            env=env,
            check=True,
        )
        return [choice.strip() for choice in done.stdout.splitlines()]

    return press


@pytest.mark.slow
@pytest.mark.parametrize(
    ('line', 'choices'),
    [
        ('sysid cal', ['calibrate']),
        ('sysid calibrate --q', ['--quiet']),
        ('sysid export out --format a', ['actuators']),
    ],
)
def test_tab_in_bash_completes(tab: object, line: str, choices: list[str]):
    assert callable(tab)
    assert tab(line) == choices


@pytest.mark.parametrize(('shell', 'word'), [('zsh', 'compdef'), ('fish', 'complete --command')])
def test_other_shells_get_their_own_lines(
    shell: str, word: str, capsys: pytest.CaptureFixture[str]
):
    assert main(['completion', shell]) == 0
    assert word in capsys.readouterr().out


def test_the_entry_point_is_marked_for_global_completion():
    text = (REPOSITORY / 'sysid_ros' / 'cli' / '__init__.py').read_text('utf-8')
    assert 'PYTHON_ARGCOMPLETE_OK' in text[:1024]
