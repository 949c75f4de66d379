# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""``sysid excite`` refuses what no motion can be designed for, in one line, before it searches."""

from __future__ import annotations

from pathlib import Path

import pytest

from sysid_ros.cli.main import main

ARM = Path(__file__).resolve().parents[2] / 'config' / 'demo' / 'arm.xml'


@pytest.mark.parametrize(
    ('arguments', 'sentence'),
    [
        (['--for', 'joint/elbo/armature'], 'nearest: elbow'),
        (['--for', 'joint/*/armature', '--margin', '2'], 'Expected --margin between 0.05 and 1'),
        (['--for', 'joint/*/armature', '--duration', '2.2'], 'Expected a duration of at least'),
        (['--for', 'joint/*/armature', '-o', 'motion.txt'], 'Expected an output file ending in'),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(
    arguments: list[str],
    sentence: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    code = main(['excite', str(ARM), '-o', 'motion.csv', *arguments])
    error = capsys.readouterr().err
    assert code == 2
    assert sentence in error
    assert len(error.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []
