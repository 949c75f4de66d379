# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""CSV files and LeRobot datasets are read as bags are."""

from __future__ import annotations

import importlib.util
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from builders.lerobot_sets import write_dataset
from sysid_ros.bags import BagColumns
from sysid_ros.bags.reader import read_bag
from sysid_ros.bags.tables import recordings
from sysid_ros.errors import BagError


def _field(bag: BagColumns, topic: str, name: str) -> dict[str, NDArray[np.float64]]:
    (found,) = [item for item in bag.topics if item.topic == topic]
    (field,) = [item for item in found.fields if item.name == name]
    return dict(zip(field.labels, field.values.T, strict=True))


def _csv(path: Path, text: str) -> Path:
    path.write_text(text, 'utf8')
    return path


def test_names_say_what_a_column_is(tmp_path: Path) -> None:
    path = _csv(
        tmp_path / 'log.csv',
        't,- arm_1_joint_position,dq_elbow,tau1,elbow.current,q_des_elbow [deg],battery,note\n'
        '0.00,0.5,1.0,2.0,0.1,90,24,ok\n'
        '0.01,0.6,1.1,,0.2,180,24,ok\n',
    )
    bag = read_bag(path)
    state = '/joint_states'
    assert _field(bag, state, 'position')['arm_1_joint'].tolist() == [0.5, 0.6]
    assert _field(bag, state, 'velocity')['elbow'].tolist() == [1.0, 1.1]
    assert math.isnan(_field(bag, state, 'effort')['1'][1])
    assert _field(bag, state, 'current')['elbow'].tolist() == [0.1, 0.2]
    assert _field(bag, '/joint_commands', 'position')['elbow'] == pytest.approx(
        [math.pi / 2, math.pi]
    )
    assert _field(bag, '/log', 'battery')[''].tolist() == [24.0, 24.0]
    assert [(item.topic, item.reason) for item in bag.unread] == [
        ('/log/note', "'ok' is no number")
    ]
    assert bag.topics[0].receive_ns.tolist() == [0, 10_000_000]


@pytest.mark.parametrize(
    ('name', 'first', 'step', 'begin', 'period'),
    [
        ('time', 0.0, 0.02, 0, 0.02),
        ('time_ms', 0.0, 20.0, 0, 0.02),
        ('timestamp', 5.0, 20_000.0, None, 0.02),
        ('timestamp', 1.7e18, 2e7, 1_700_000_000, 0.02),
        ('ros_time_us', 1.7e15, 2e4, 1_700_000_000, 0.02),
        ('t', 1.7e9, 0.02, 1_700_000_000, 0.02),
    ],
)
def test_times_are_told_by_their_name_or_size(
    tmp_path: Path, name: str, first: float, step: float, begin: int | None, period: float
) -> None:
    rows = ''.join(f'{first + k * step!r},{k}\n' for k in range(5))
    stamps = read_bag(_csv(tmp_path / 'a.csv', f'{name},q\n{rows}')).topics[0].receive_ns
    assert np.diff(stamps) / 1e9 == pytest.approx(np.full(4, period), rel=1e-4)
    assert begin is None or stamps[0] // 1_000_000_000 == begin


def test_files_with_the_same_times_are_one_table_and_others_keep_their_name(tmp_path: Path) -> None:
    _csv(tmp_path / 'arm_position.csv', 't,a_position\n0,1\n1,2\n')
    _csv(tmp_path / 'arm_effort.csv', 't,a_effort\n0,3\n1,4\n')
    _csv(tmp_path / 'control.csv', 'time,positions\n0.5,"[7, 8]"\n1.5,"[9, 10]"\n')
    bag = read_bag(tmp_path)
    assert [topic.topic for topic in bag.topics] == [
        '/arm_effort/joint_states',
        '/control/joint_commands',
    ]
    assert _field(bag, '/arm_effort/joint_states', 'position')['a'].tolist() == [1, 2]
    assert _field(bag, '/control/joint_commands', 'position')['1'].tolist() == [8, 10]


@pytest.mark.parametrize(
    ('text', 'complaint'),
    [
        ('a,b\n1,2\n', 'Expected a column of times'),
        ('0.0,1.0\n0.1,2.0\n', 'Expected the names of the columns in the first line'),
        ('t,q\n0,1\n1\n', 'found 1 in line 3'),
        ('t,q,q\n0,1,2\n', "found 'q' twice"),
        ('t,q\n', 'found no line with any'),
        ('t,q\n3,1\n2,1\n', 'Expected times that run on'),
    ],
)
def test_what_is_no_table_is_one_sentence(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(BagError, match=complaint):
        read_bag(_csv(tmp_path / 'log.csv', text))


@pytest.fixture(params=['v2.1', 'v3.0'])
def dataset(tmp_path: Path, request: Any) -> Path:
    """Return a dataset of two episodes as LeRobot writes them."""
    names = [['shoulder_pan.pos', 'gripper.pos']]
    if request.param == 'v3.0':
        names = {'motors': ['shoulder_pan', 'gripper']}
    ones = np.ones(3)
    episodes = [
        (np.column_stack([np.arange(3) + 10.0 * k, ones]), np.column_stack([ones, 2 * ones]))
        for k in range(2)
    ]
    return write_dataset(tmp_path / 'set', names, episodes, version=request.param)


def test_an_episode_of_a_dataset_is_a_recording_with_states_and_actions(dataset: Path) -> None:
    first, second = recordings(str(dataset))
    assert (first.name, second.name) == ('episode_000000', 'episode_000001')
    assert recordings(f'{dataset}/*1') == [second]
    assert recordings(str(first)) == [first]
    bag = read_bag(second)
    assert _field(bag, '/joint_states', 'position')['shoulder_pan'].tolist() == [10, 11, 12]
    assert _field(bag, '/joint_commands', 'position')['gripper'].tolist() == [2.0] * 3
    assert np.diff(bag.topics[0].receive_ns) / 1e9 == pytest.approx([1 / 30] * 2, abs=1e-6)
    assert bag.topics[0].receive_ns[0] == 0
    assert [item.topic.rpartition('/')[2] for item in bag.unread] == ['next.done']
    with pytest.raises(BagError, match='available: DATASET/episode_000000'):
        read_bag(dataset)
    with pytest.raises(BagError, match='nearest: DATASET/episode_000001'):
        read_bag(dataset / 'episode_000011')


def test_a_file_of_one_episode_is_read_by_itself(dataset: Path) -> None:
    (first, *more) = sorted((dataset / 'data' / 'chunk-000').iterdir())
    if not more:
        pytest.skip('all episodes are in one file')
    found = _field(read_bag(first), '/joint_states', 'position')
    assert found['shoulder_pan'].tolist() == [0, 1, 2]


def test_parquet_without_its_package_is_one_sentence(
    dataset: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, 'find_spec', lambda name: None if name == 'pyarrow' else find(name)
    )
    with pytest.raises(BagError, match=r"pip install 'sysid_ros\[parquet\]'"):
        read_bag(dataset)
