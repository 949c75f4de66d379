# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Logs in BAM's format are read and written, and what is wrong in them is said."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sysid_ros.errors import LogError
from sysid_ros.servos.logs import (
    ServoLog,
    check_motor,
    read_log,
    read_logs,
    split,
    write_log,
)

STAMPS = (0.0, 0.005, 0.01)


def _document(**changes: Any) -> dict[str, Any]:
    """Return a log as BAM's tools write it; keys that are None are left out."""
    entries = [
        {
            'position': 0.1 * number,
            'speed': 1.0 + number,
            'load': 2.0,
            'goal_position': 0.5,
            'torque_enable': number != 1,
            'timestamp': stamp,
        }
        for number, stamp in enumerate(STAMPS)
    ]
    whole = {
        'mass': 0.5,
        'arm_mass': 0.04,
        'length': 0.15,
        'kp': 400,
        'vin': 7.5,
        'motor': 'xl330',
        'trajectory': 'sin_sin',
        'dt': 0.005,
        'entries': entries,
        **changes,
    }
    return {key: value for key, value in whole.items() if value is not None}


def _file(folder: Path, document: object, name: str = 'log.json') -> Path:
    path = folder / name
    path.write_text(json.dumps(document))
    return path


def _with_stamps(*stamps: object, **changes: Any) -> dict[str, Any]:
    entry = _document()['entries'][0]
    return _document(entries=[{**entry, 'timestamp': stamp} for stamp in stamps], **changes)


def _with_entry(number: int, **changes: Any) -> dict[str, Any]:
    document = _document()
    document['entries'][number].update(changes)
    return document


def _without(document: dict[str, Any], key: str, numbers: tuple[int, ...] = (0, 1, 2)) -> Any:
    for number in numbers:
        del document['entries'][number][key]
    return document


def _raw(given: object = None, **changes: Any) -> dict[str, Any]:
    """Return a raw log whose commands have stamps of their own."""
    usual = {'timestamp': [0.001, 0.002], 'goal_position': [0.5, 0.6], 'torque_enable': [1, 0]}
    document = _with_stamps(0.0, 0.004, 0.008, dt=None)
    return {**document, 'commands': {**usual, **changes} if given is None else given}


def _log(kp: float | None = 400.0, motor: str = 'xl330', name: str = 'log') -> ServoLog:
    constants = {} if kp is None else {'kp': kp}
    zeros = np.zeros(2)
    return ServoLog(name, motor, '', 1.0, 0.0, 1.0, constants, 0.005, zeros, zeros, zeros)


# Reading


def test_everything_that_a_log_says_is_read(tmp_path: Path):
    path = _file(tmp_path, _document(damping=2.0))
    log = read_log(path)
    assert (log.name, log.motor, log.trajectory, log.path) == ('log', 'xl330', 'sin_sin', path)
    assert (log.mass, log.arm_mass, log.length, log.dt) == (0.5, 0.04, 0.15, 0.005)
    assert log.constants == {'kp': 400.0, 'vin': 7.5, 'damping': 2.0}
    np.testing.assert_array_equal(log.position, [0.0, 0.1, 0.2])
    np.testing.assert_array_equal(log.goal, [0.5, 0.5, 0.5])
    np.testing.assert_array_equal(log.enabled, [1.0, 0.0, 1.0])
    np.testing.assert_array_equal(log.speed, [1.0, 2.0, 3.0])


def test_the_arm_is_spelt_as_the_recorders_of_dynamixels_do_or_weighs_nothing(tmp_path: Path):
    spelt = {**_document(arm_mass=None), 'arm-mass': 0.03}
    assert read_log(_file(tmp_path, spelt)).arm_mass == 0.03
    assert read_log(_file(tmp_path, _document(arm_mass=None))).arm_mass == 0.0


def test_uneven_stamps_make_a_raw_log(tmp_path: Path):
    log = read_log(_file(tmp_path, _with_stamps(7.0, 7.008, 7.017, dt=None)))
    assert log.stamps is not None
    np.testing.assert_allclose(log.times, [0.0, 0.008, 0.017], atol=1e-12)
    assert log.commands is None


@pytest.mark.parametrize(
    'document', [_document(damping=2.0), _with_stamps(0.0, 0.008, 0.017, dt=None), _raw()]
)
def test_a_log_that_was_written_reads_the_same(tmp_path: Path, document: dict[str, Any]):
    log = read_log(_file(tmp_path, document))
    write_log(tmp_path / 'copy' / 'log.json', log)
    again = read_log(tmp_path / 'copy' / 'log.json')
    for field in dataclasses.fields(ServoLog):
        if field.name != 'path':
            np.testing.assert_array_equal(getattr(log, field.name), getattr(again, field.name))
    written = json.loads((tmp_path / 'copy' / 'log.json').read_text())
    assert written.keys() == document.keys()
    assert [type(entry['torque_enable']) for entry in written['entries']] == [bool] * 3


def test_logs_of_a_folder_come_by_name_and_nothing_else_does(tmp_path: Path):
    for name in ('b.json', 'a.json', '.c.json', 'd.txt'):
        _file(tmp_path, _document(), name)
    (tmp_path / 'e.json').mkdir()
    assert [log.name for log in read_logs(tmp_path)] == ['a', 'b']


# Choosing


def test_logs_of_one_gain_are_held_out():
    logs = [_log(100.0), _log(200.0), _log(None), _log(100.0)]
    training, held_out = split(logs, 100)
    assert held_out == (logs[0], logs[3])
    assert training == (logs[1], logs[2])


@pytest.mark.parametrize('kps', [(200.0, 100.0), (None,), (32.0, 32.0)])
def test_no_side_of_a_split_may_be_empty(kps: tuple[float | None, ...]):
    with pytest.raises(LogError, match='Expected logs of'):
        split([_log(kp) for kp in kps], 32)


@pytest.mark.parametrize('motor', ['mx64', 'MX-64', 'erob80_50'])
def test_logs_of_another_servo_are_refused(motor: str):
    with pytest.raises(LogError, match=r"servo xl330, found \w+ in 'bad', and 1 of 2 logs"):
        check_motor([_log(), _log(motor=motor, name='bad')], 'xl330')


@pytest.mark.parametrize(
    ('motor', 'asked'),
    [
        ('xl330', 'xl330'),
        ('XL-330', 'xl330i'),
        ('', 'xl330'),
        ('left knee', 'xl330'),
        ('mx64', 'servos/my_servo.yaml'),
    ],
)
def test_names_that_do_not_contradict_each_other_are_accepted(motor: str, asked: str):
    check_motor([_log(motor=motor)], asked)


# Bad input


@pytest.mark.parametrize(
    ('document', 'said'),
    [
        (3, 'Expected keys and values'),
        (_document(entries={}), "'entries'.*expected a list"),
        (_document(mass=0), "0 for 'mass'.*more than 0"),
        (_with_entry(1, position=float('nan')), "nan for 'entries.1.position'"),
        (_without(_document(), 'position', (2,)), "'entries.2.position'"),
        (_with_stamps(0.0, 0.01, 0.005, dt=None), 'found 0.005 s in entry 2 after 0.01 s'),
        (_with_stamps(0.0, 4.0, 10.0, dt=None), 'in seconds .* found 5 s'),
        (_raw(goal_position=[0.0]), 'found 2, 1 and 2'),
        (_raw(timestamp=[0.002, 0.001]), 'found 0.001 s in command 1 after 0.002 s'),
        (_without(_document(dt=None), 'timestamp', (1,)), 'Expected dt, or two entries'),
    ],
)
def test_a_log_that_cannot_be_used_costs_a_sentence(tmp_path: Path, document: object, said: str):
    with pytest.raises(LogError, match=said) as raised:
        read_log(_file(tmp_path, document))
    assert 'log.json' in str(raised.value)
    assert str(raised.value).endswith('.')


def test_a_folder_that_is_missing_or_without_logs_is_told_with_what_is_there(tmp_path: Path):
    (tmp_path / 'logs').mkdir()
    with pytest.raises(LogError, match=r'found nothing; nearest: logs\.$'):
        read_logs(tmp_path / 'losg')
    with pytest.raises(LogError, match=r'found nothing\.$'):
        read_logs(tmp_path / 'logs')
    (tmp_path / 'logs' / 'notes.txt').touch()
    with pytest.raises(LogError, match=r'found notes\.txt\.$'):
        read_logs(tmp_path / 'logs')
    with pytest.raises(LogError, match='found a file'):
        read_logs(tmp_path / 'logs' / 'notes.txt')
