# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Every command on a bag whose names, notes and topics want to do something."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from builders.cli_project import REPOSITORY, Outcome, Sysid
from builders.hostile import NAMES, model_spec, record, unseen

pytestmark = pytest.mark.slow

#: XML has no ESC, and no name in it.
NAMES_OF_MODEL = [name for name in NAMES if '\x1b' not in name]
SENSORS = {f'{name}_{end}' for name in NAMES_OF_MODEL for end in ('pos', 'vel')}


@pytest.fixture(scope='module')
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a bag and a model of the same names."""
    folder = tmp_path_factory.mktemp('hostile')
    record(folder / 'bag')
    spec = model_spec(NAMES_OF_MODEL)
    spec.compile()
    (folder / 'arm.xml').write_text(spec.to_xml())
    return folder


@pytest.fixture
def folder(recorded: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return that folder as the working directory."""
    monkeypatch.chdir(recorded)
    return recorded


def _harmless(done: Outcome) -> str:
    assert done.code == 0, done.err
    assert not unseen(done.out + done.err)
    return done.out


@pytest.mark.usefixtures('folder')
def test_what_inspect_says_stays_in_its_lines(sysid: Sysid):
    text = _harmless(sysid('inspect', 'bag', 'arm.xml'))
    joints = text.partition('\nJoints')[2].splitlines()
    assert [line for line in joints if line.startswith('[red]x[/red] ')]
    assert [line for line in joints if line.startswith(':smile: $\\foo$ ')]
    assert not [line for line in text.splitlines() if line.startswith('evil')]
    found = json.loads(_harmless(sysid('inspect', 'bag', '--json')))
    assert {joint['name'] for joint in found['joints']} == {*NAMES}


def test_a_proposed_mapping_names_what_is_there_and_is_used(folder: Path, sysid: Sysid):
    text = _harmless(sysid('map', 'bag', 'arm.xml'))
    assert set(yaml.safe_load(text)['sensors']) == SENSORS
    (folder / 'mapping.yaml').write_text(text)
    done = sysid('convert', 'bag', 'arm.xml', '--mapping', 'mapping.yaml')
    assert 'a\\nevil: {topic: /x}\\n#_pos' in _harmless(done)


def test_pictures_and_what_is_saved_lie_in_their_folders(folder: Path, sysid: Sysid):
    _harmless(sysid('inspect', 'bag', '--plots', 'pictures'))
    files = list((folder / 'pictures').iterdir())
    assert len(files) == len(NAMES)
    assert not [path for path in files if path.name.startswith(('-', '.'))]


@pytest.mark.usefixtures('folder')
def test_a_bag_that_is_not_there_is_a_sentence(sysid: Sysid):
    for name in ('\x1b[31mrod', 'long' * 1249):
        done = sysid('inspect', name)
        assert (done.code, done.out, done.err.count('\n')) == (2, '', 1)
        assert not unseen(done.err)
        assert len(done.err) <= 1010


def _process(folder: Path, *arguments: str, **options: Any) -> subprocess.Popen[bytes]:
    environment = {name: text for name, text in os.environ.items() if name != 'PYTHONUNBUFFERED'}
    environment['PYTHONPATH'] = str(REPOSITORY)
    command = [sys.executable, '-m', 'sysid_ros.cli', *arguments]
    return subprocess.Popen(command, cwd=folder, env=environment, **options)


def test_a_terminal_gets_colours_of_ours_alone(folder: Path):
    ours, theirs = pty.openpty()
    with _process(folder, 'inspect', 'bag', stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        parts = []
        try:
            while part := os.read(ours, 65536):
                parts.append(part)
        except OSError:  # so ends a terminal whose other side is closed
            os.close(ours)
    text = b''.join(parts).decode()
    assert process.returncode == 0
    assert '\x1b[' in text
    assert not unseen(re.sub('\x1b\\[[0-9;]*m|\r\n', '', text))
    # The red of a name would be 31.
    assert '\x1b[31m' not in text


@pytest.mark.parametrize('arguments', [('inspect', 'bag'), ('--help',)], ids=' '.join)
def test_a_reader_that_went_away_is_no_traceback(folder: Path, arguments: tuple[str, ...]):
    read, write = os.pipe()
    os.close(read)
    with _process(folder, *arguments, stdout=write, stderr=subprocess.PIPE) as process:
        os.close(write)
        assert process.communicate()[1] == b''
    assert process.returncode == 141


def test_a_full_disk_is_a_sentence_and_closed_streams_are_as_if_nobody_read(folder: Path):
    with open('/dev/full', 'wb') as full:  # noqa: PTH123 (a device)
        with _process(folder, '--help', stdout=full, stderr=subprocess.PIPE) as process:
            complaint = process.communicate()[1].decode()
        assert complaint == 'sysid: Cannot write standard output: No space left on device.\n'
        assert process.returncode == 2
        assert _process(folder, 'bogus', stdout=full, stderr=full).wait() == 2

    def close() -> None:
        os.close(1)
        os.close(2)

    for arguments, code in (('--help', 0), ('bogus', 2)):
        assert _process(folder, arguments, preexec_fn=close).wait() == code
