# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Raw logs are interpolated as BAM's script does it, or refused before anything is written."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from sysid_ros.errors import LogError, ResultError
from sysid_ros.servos.formats.logs import process, read_log

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

#: Same to the last digits of numbers near 1.
EXACT = 1e-12


def _entry(stamp: object, **values: Any) -> dict[str, Any]:
    usual = {'position': 0.0, 'goal_position': 0.0, 'torque_enable': True}
    return {**usual, **values, 'timestamp': stamp}


def _raw(entries: Iterable[dict[str, Any]], **changes: Any) -> dict[str, Any]:
    header = {'mass': 0.5, 'arm-mass': 0.04, 'length': 0.15, 'kp': 32, 'vin': 15.0}
    return {**header, 'motor': 'mx64', 'trajectory': 'sin_sin', **changes, 'entries': list(entries)}


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    """Return an empty folder."""
    folder = tmp_path / 'raw'
    folder.mkdir()
    return folder


def _write(folder: Path, document: object, name: str = 'log.json') -> None:
    (folder / name).write_text(json.dumps(document))


def _processed(raw: Path, dt: float) -> dict[str, Any]:
    """Return the only log of a folder after processing."""
    (path,) = process(raw, raw.parent / 'logs', dt)
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def _column(document: dict[str, Any], key: str) -> list[Any]:
    return [entry[key] for entry in document['entries']]


def test_samples_are_on_the_lines_between_entries(raw: Path):
    _write(raw, _raw([_entry(0.0, position=1.0), _entry(1.0, position=3.0), _entry(1.5)]))
    made = _processed(raw, 0.25)
    assert _column(made, 'timestamp') == [0.0, 0.25, 0.5, 0.75, 1.0, 1.25]
    assert _column(made, 'position') == [1.0, 1.5, 2.0, 2.5, 3.0, 1.5]


def test_before_the_first_entry_the_line_through_the_first_two_goes_on(raw: Path):
    entries = [_entry(0.5, position=1.0), _entry(1.0, position=2.0), _entry(1.5)]
    _write(raw, _raw(entries))
    assert _column(_processed(raw, 0.25), 'position') == [0.0, 0.5, 1.0, 1.5, 2.0, 1.0]


def test_the_motor_is_on_where_more_than_half_of_it_is(raw: Path):
    on = [_entry(0.0, torque_enable=False), _entry(1.0), _entry(2.0, torque_enable=0)]
    _write(raw, _raw(on))
    states = _column(_processed(raw, 0.25), 'torque_enable')
    assert states == [False, False, False, True, True, True, False, False]
    assert {type(state) for state in states} == {bool}


def test_irregular_entries_are_interpolated_as_numpy_does(raw: Path):
    rng = np.random.default_rng(0)
    stamps = np.cumsum(rng.uniform(0.001, 0.02, 500))
    columns = {key: rng.normal(size=500) for key in ('position', 'speed', 'load', 'goal_position')}
    states = np.repeat(rng.integers(2, size=50), 10)
    _write(
        raw,
        _raw(
            _entry(
                float(stamp),
                torque_enable=bool(states[row]),
                **{key: float(column[row]) for key, column in columns.items()},
            )
            for row, stamp in enumerate(stamps)
        ),
    )
    made = _processed(raw, 0.005)
    times = np.array(_column(made, 'timestamp'))
    np.testing.assert_allclose(times, 0.005 * np.arange(np.ceil(stamps[-1] / 0.005)), atol=EXACT)
    inside = times >= stamps[0]
    assert inside.sum() > 900
    for key, column in columns.items():
        expected = np.interp(times, stamps, column)[inside]
        np.testing.assert_allclose(np.array(_column(made, key))[inside], expected, atol=EXACT)
    expected = np.interp(times, stamps, states)[inside]
    np.testing.assert_array_equal(np.array(_column(made, 'torque_enable'))[inside], expected > 0.5)


def test_other_keys_are_kept(raw: Path):
    _write(raw, _raw([_entry(0.0, temp=30), _entry(1.0, temp=32)], operator='me', dt=9.0))
    made = _processed(raw, 0.5)
    assert {key: value for key, value in made.items() if key != 'entries'} == {
        'mass': 0.5,
        'arm-mass': 0.04,
        'length': 0.15,
        'kp': 32,
        'vin': 15.0,
        'motor': 'mx64',
        'trajectory': 'sin_sin',
        'operator': 'me',
        'dt': 0.5,
    }
    assert _column(made, 'temp') == [30.0, 31.0]


def test_what_is_no_number_is_that_of_the_entry_before(raw: Path):
    _write(
        raw,
        _raw(
            [
                _entry(0.0, mode='up', temp=1.0),
                _entry(1.0, mode='down', temp=None),
                _entry(2.0, mode='up', temp=3.0),
                _entry(3.0, mode='up', temp=5.0),
            ]
        ),
    )
    made = _processed(raw, 0.5)
    assert _column(made, 'mode') == ['up', 'up', 'up', 'down', 'down', 'up']
    assert _column(made, 'temp') == [1.0, 1.0, 1.0, None, None, 4.0]


def test_a_sample_has_the_keys_of_the_entry_before(raw: Path):
    _write(raw, _raw([_entry(0.0), _entry(1.0, load=2.0), _entry(2.0, load=4.0), _entry(3.0)]))
    made = _processed(raw, 0.5)
    loads = [entry.get('load') for entry in made['entries']]
    assert loads == [None, None, None, 3.0, 4.0, 4.0]
    assert 'load' not in made['entries'][0]


def test_all_logs_of_a_folder_are_processed_and_can_be_read(raw: Path, tmp_path: Path):
    for name in ('b.json', 'a.json'):
        _write(raw, _raw([_entry(0.002), _entry(0.009), _entry(0.0201)]), name)
    written = process(raw, tmp_path / 'new' / 'logs')
    assert written == (tmp_path / 'new' / 'logs' / 'a.json', tmp_path / 'new' / 'logs' / 'b.json')
    assert [(len(log), log.dt, log.arm_mass) for log in map(read_log, written)] == [
        (5, 0.005, 0.04)
    ] * 2


@pytest.mark.parametrize(
    ('document', 'complaint'),
    [
        ({'kt': 1.0}, 'it has no mass'),
        (_raw([_entry(0.0), _entry(1.0)], mass=-1), "Bad value -1 for 'mass'"),
        (_raw([]), 'found none: its entries are empty.'),
        (_raw([_entry(0.0)]), 'at least two entries'),
        (_raw([_entry(0.0), _entry(1.0), _entry(1.0)]), 'found 1 s in entry 2 after 1 s.'),
        (_raw([_entry(0.0), _entry(None)]), "null for 'entries.1.timestamp'"),
        (_raw([_entry(0.0), _entry(1.0, position=None)]), "null for 'entries.1.position'"),
        (_raw([_entry(0.0), _entry(1.0, torque_enable='on')]), "'entries.1.torque_enable'"),
        (_raw([_entry(s, speed=float('nan')) for s in (0, 1)]), "NaN for 'entries.0.speed'"),
        (_raw([_entry(1.7e9), _entry(1.7e9 + 1)]), 'found 1700000000 in the first entry.'),
        (_raw([_entry(0.0), _entry(500.0)]), 'are stamps and dt in seconds?'),
        (_raw([_entry(-2.0), _entry(-1.0)]), 'are stamps and dt in seconds?'),
    ],
)
def test_nothing_is_written_where_one_log_cannot_be_used(
    raw: Path, tmp_path: Path, document: object, complaint: str
):
    _write(raw, _raw([_entry(0.0), _entry(1.0)]), 'a.json')
    _write(raw, document, 'b.json')
    with pytest.raises(LogError) as raised:
        process(raw, tmp_path / 'logs', 0.5)
    assert complaint in str(raised.value)
    assert 'b.json' in str(raised.value)
    assert not (tmp_path / 'logs').exists()


@pytest.mark.parametrize('dt', [0.0, -0.005, float('nan'), float('inf'), 1.0, 1e-9])
def test_a_period_that_makes_no_sense_is_refused(raw: Path, tmp_path: Path, dt: float):
    _write(raw, _raw([_entry(0.0), _entry(1.0)]))
    with pytest.raises(LogError, match=r'seconds\?$|more than 0 s, found'):
        process(raw, tmp_path / 'logs', dt)
    assert not (tmp_path / 'logs').exists()


def test_raw_logs_are_not_overwritten(raw: Path):
    _write(raw, _raw([_entry(0.0), _entry(1.0)]))
    before = (raw / 'log.json').read_bytes()
    with pytest.raises(LogError, match='raw ones are kept'):
        process(raw, raw.parent / 'raw' / '..' / 'raw', 0.5)
    assert (raw / 'log.json').read_bytes() == before


def test_an_output_that_cannot_be_written_is_said(raw: Path):
    _write(raw, _raw([_entry(0.0), _entry(1.0)]))
    with pytest.raises(ResultError, match='Cannot write'):
        process(raw, raw / 'log.json' / 'logs', 0.5)
