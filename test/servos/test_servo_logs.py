# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A servo in a bag becomes the logs that its recorder would have written."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from numpy.typing import NDArray
from rosbags.typesys import Stores, get_typestore

from sysid_ros.bags.reader import read_bag
from sysid_ros.bags.writer import BagWriter
from sysid_ros.cli import main
from sysid_ros.config.files import validate
from sysid_ros.config.servos import ServoBagConfig, load_servo_bag
from sysid_ros.errors import AlignmentError, ConfigError, SysidError
from sysid_ros.servos.formats.from_bag import align_servo, logs_of
from sysid_ros.servos.formats.logs import ServoLog, read_logs

STORE = get_typestore(Stores.ROS2_JAZZY)
START = 1_700_000_000_000_000_000
CONFIG: dict[str, Any] = {
    'motor': 'xl330',
    'joint': 'pan',
    'command': '/goal.data[0]',
    'torque_enable': '/torque.data',
    'mass': 0.3,
    'arm_mass': 0.013,
    'length': 0.13,
    'kp': 100.0,
    'vin': 7.1,
    'trajectory': 'lift',
    'segments': {'marker': '/run'},
}
#: When two runs begin and end, s, and what is said then.
RUNS = ((1.0, 'sin_sin'), (3.0, ''), (4.0, 'lift_and_drop'), (6.0, ''))


def _ns(time: float) -> int:
    return START + round(time * 1e9)


def _states(times: NDArray[np.float64], positions: NDArray[np.float64]) -> Iterable[Any]:
    kind, header, stamp = (
        STORE.types[name]
        for name in (
            'sensor_msgs/msg/JointState',
            'std_msgs/msg/Header',
            'builtin_interfaces/msg/Time',
        )
    )
    for time, position in zip(times, positions, strict=True):
        at = stamp(sec=_ns(time) // 10**9, nanosec=_ns(time) % 10**9)
        values = np.array([0.0, position])
        yield (
            time,
            kind(
                header=header(stamp=at, frame_id=''),
                name=['tilt', 'pan'],
                position=values,
                velocity=2 * values,
                effort=-values,
            ),
        )


def _array(value: float) -> Any:
    layout = STORE.types['std_msgs/msg/MultiArrayLayout'](dim=[], data_offset=0)
    return STORE.types['std_msgs/msg/Float64MultiArray'](layout=layout, data=np.array([value]))


@pytest.fixture
def record(tmp_path: Path) -> Callable[..., Path]:
    """Return a function that writes a bag of a pendulum whose position is its time."""

    def write(*, still: bool = False) -> Path:
        times = np.cumsum(np.random.default_rng(0).uniform(0.004, 0.012, 900))
        positions = np.zeros_like(times) if still else times
        goals = {0.1 * step: 0.1 * step + 10.0 for step in range(70)}
        singles = {
            '/torque': ('Bool', {0.0: True, 4.5: False, 6.5: True}),
            '/run': ('String', dict(RUNS)),
        }
        content = {'/joint_states': ('sensor_msgs/msg/JointState', list(_states(times, positions)))}
        content['/goal'] = (
            'std_msgs/msg/Float64MultiArray',
            [(time, _array(value)) for time, value in goals.items()],
        )
        for topic, (kind, values) in singles.items():
            made = STORE.types[f'std_msgs/msg/{kind}']
            content[topic] = f'std_msgs/msg/{kind}', [(t, made(data=v)) for t, v in values.items()]
        path = tmp_path / 'bench'
        with BagWriter(path) as bag:
            for topic, (kind, messages) in content.items():
                bag.add_topic(topic, kind)
                for time, message in messages:
                    bag.write(topic, _ns(time), bytes(STORE.serialize_cdr(message, kind)))
        return path

    return write


def _logs(path: Path, **changes: Any) -> tuple[ServoLog, ...]:
    return _logs_as_told(path, validate(ServoBagConfig, {**CONFIG, **changes}, 'the test'))


def _logs_as_told(path: Path, config: ServoBagConfig) -> tuple[ServoLog, ...]:
    return logs_of(align_servo(read_bag(path), config), config)


@pytest.mark.slow
def test_each_run_is_a_log_with_its_numbers(record: Callable[..., Path]):
    first, second = _logs(record())

    assert [first.name, second.name] == ['bench_00_lift_kp100', 'bench_01_lift_kp100']
    assert first.trajectory == 'lift'
    assert first.constants == {'kp': 100.0, 'vin': 7.1}
    assert [first.motor, first.mass, first.arm_mass, first.length] == ['xl330', 0.3, 0.013, 0.13]
    assert first.dt == 0.005


def test_readings_and_commands_keep_their_times(record: Callable[..., Path]):
    log, off = _logs(record())

    # The position is its time.
    np.testing.assert_allclose(log.times, log.position - log.position[0], rtol=0, atol=2e-9)
    assert len(set(np.diff(log.times).round(6))) > 100
    assert log.commands is not None
    told = log.commands.times + log.position[0]
    np.testing.assert_allclose(told[1:], np.arange(11, 30) / 10, rtol=0, atol=2e-9)
    np.testing.assert_allclose(log.commands.goal, np.arange(10, 30) / 10 + 10, rtol=0, atol=1e-9)
    assert off.commands is not None
    switched = off.commands.times[off.commands.enabled == 0][0] + off.position[0]
    assert switched == pytest.approx(4.5, abs=2e-9)
    assert (log.goal[:5] == 11.0).all()


def test_positions_are_linear_and_goals_are_held_where_samples_shall_be_even(
    record: Callable[..., Path],
):
    for log, begin in zip(_logs(record(), dt=0.005), (1.0, 4.0), strict=True):
        times = log.position[0] + log.dt * np.arange(len(log))
        assert begin <= times[0] < begin + 0.013
        assert begin + 2.0 - 0.013 < times[-1] + log.dt
        np.testing.assert_allclose(log.position, times, rtol=0, atol=2e-9)
        np.testing.assert_allclose(log.speed, 2 * times, rtol=0, atol=4e-9)
        np.testing.assert_allclose(log.load, -times, rtol=0, atol=2e-9)
        held = np.floor(np.round(times / 0.1, 5)) * 0.1 + 10.0
        np.testing.assert_allclose(log.goal, held, rtol=0, atol=1e-9)


def test_the_motor_is_off_from_when_its_topic_says_so(record: Callable[..., Path]):
    first, second = _logs(record())

    assert np.all(first.enabled == 1.0)
    np.testing.assert_array_equal(second.enabled, second.position < 4.5)


@pytest.mark.slow
def test_sign_and_zero_of_the_joint_count_for_commands_as_well(record: Callable[..., Path]):
    path = record()
    plain, *_ = _logs(path)
    turned, *_ = _logs(path, sign=-1, zero=0.5)

    np.testing.assert_allclose(turned.position, -(plain.position - 0.5), atol=1e-12)
    np.testing.assert_allclose(turned.goal, -(plain.goal - 0.5), atol=1e-12)
    assert plain.speed is not None
    assert plain.load is not None
    np.testing.assert_allclose(turned.speed, -plain.speed, atol=1e-12)
    np.testing.assert_allclose(turned.load, -plain.load, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize(
    ('changes', 'kind', 'sentence'),
    [
        ({'joint': 'pam'}, AlignmentError, 'nearest: pan'),
        ({'command': '/goal.data[3]'}, AlignmentError, "label '3'"),
        ({'command': '/gaol.data[0]'}, AlignmentError, '/goal'),
        ({'constants': {'dampin': 1}}, AlignmentError, 'nearest: damping'),
        ({'segments': {'marker': '/ran'}}, AlignmentError, 'nearest: /run'),
        ({'segments': {'times': [[80.0, 90.0]]}}, AlignmentError, 'found none'),
        ({'command': None}, ConfigError, 'goal positions as command'),
        ({'mass': 0}, ConfigError, "0 for 'mass'"),
        ({'torque_enable': 'on'}, ConfigError, "channel .* for 'torque_enable'"),
    ],
)
def test_what_a_bag_has_not_is_said_in_a_sentence(
    record: Callable[..., Path], changes: dict[str, Any], kind: type[SysidError], sentence: str
):
    with pytest.raises(kind, match=sentence) as raised:
        _logs(record(), **changes)
    assert str(raised.value).endswith('.')


def test_a_pendulum_that_never_moves_is_refused(record: Callable[..., Path]):
    with pytest.raises(AlignmentError, match="Nothing moves in bag 'bench': expected 'pan'"):
        _logs(record(still=True))


@pytest.mark.slow
def test_the_command_writes_logs_that_fits_read(
    record: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    config = tmp_path / 'servo_bag.yaml'
    config.write_text(yaml.safe_dump(CONFIG))
    folder = tmp_path / 'logs'

    assert main(['servo', 'logs', str(record()), str(config), '-o', str(folder), '--json']) == 0
    document = json.loads(capsys.readouterr().out)
    first = document['logs'][0]
    assert first['file'].endswith('bench_00_lift_kp100.json')
    assert 200 <= first['samples'] < 300
    made = _logs_as_told(tmp_path / 'bench', load_servo_bag(config))
    for log, read in zip(made, read_logs(folder), strict=True):
        assert (read.name, read.trajectory) == (log.name, log.trajectory)
        assert read.constants == dict(log.constants)
        np.testing.assert_array_equal(read.position, log.position)
        np.testing.assert_array_equal(read.times, log.times)
        np.testing.assert_array_equal(read.commands, log.commands)
        np.testing.assert_array_equal(read.enabled, log.enabled)
