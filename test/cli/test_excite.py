# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""``sysid excite``: what it refuses before it searches, and the document that it prints."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from builders.cli_project import Sysid
from sysid_ros.cli.main import main

PENDULUM = """
<mujoco>
  <worldbody>
    <body>
      <joint name="pivot" axis="0 1 0" range="-90 90"/>
      <geom type="capsule" size=".02" fromto="0 0 0 0 0 -.3" mass=".5"/>
    </body>
  </worldbody>
  <actuator>
    <position name="pivot" joint="pivot" kp="20" kv="2" ctrlrange="-1 1" forcerange="-9 9"/>
  </actuator>
  <sensor><jointpos name="position" joint="pivot"/></sensor>
</mujoco>
"""
ARM = Path(__file__).resolve().parents[2] / 'config' / 'demo' / 'arm.xml'


@pytest.mark.parametrize(
    ('arguments', 'sentence'),
    [
        (['--for', 'joint/elbo/armature'], 'nearest: elbow'),
        (
            ['--for', 'joint/*/armature', '--margin', '2'],
            "'--margin': expected less than or equal to 1, found '2'",
        ),
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


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Search a little only."""
    for name, value in (('_RANDOM', 3), ('_CHANGED', 1), ('_CHECKED', 2)):
        monkeypatch.setattr(f'sysid_ros.workflows.excitation.design.{name}', value)


@pytest.mark.slow
@pytest.mark.usefixtures('hasty')
def test_quiet_and_json_leave_a_document_alone(sysid: Sysid, tmp_path: Path) -> None:
    arm = tmp_path / 'pendulum.xml'
    arm.write_text(PENDULUM)
    motion = tmp_path / 'motion.csv'
    asked = ('--for', 'joint/pivot/armature', '--duration', '3', '--rate', '20')
    done = sysid('excite', arm, *asked, '-o', motion, '--quiet', '--json')
    assert (done.code, done.err) == (0, '')
    found = json.loads(done.out)
    assert found['file'] == str(motion)
    assert motion.is_file()
    (told,) = found['parameters']
    assert (told['name'], told['unit']) == ('joint/pivot/armature', 'kg·m²')
    assert told['half_width'] > 0
    assert found['distance'] is None
    assert {limit['name'] for limit in found['limits']} == {'pivot'}
