# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A servo in a bag becomes the logs that its recorder would have written."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from builders.bag_columns import START, Columns
from builders.recorded_pendulum import FOLDER
from sysid_ros.bags import BagColumns, TextColumn
from sysid_ros.bags.reader import read_bag
from sysid_ros.cli import main
from sysid_ros.config.files import validate
from sysid_ros.config.servos import ServoBagConfig, load_servo_bag
from sysid_ros.errors import AlignmentError, ConfigError, SysidError
from sysid_ros.servos.from_bag import align_servo, logs_of
from sysid_ros.servos.logs import ServoLog, read_logs

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


def _bag(*, still: bool = False) -> BagColumns:
    """Return a bag of a pendulum whose position is its time."""
    times = np.cumsum(np.random.default_rng(0).uniform(0.004, 0.012, 900))
    position = np.zeros_like(times) if still else times
    told = 0.1 * np.arange(70)
    columns = Columns()
    values = {'position': position, 'velocity': 2 * position}
    states = {field: {'tilt': 0.0, 'pan': signal} for field, signal in values.items()}
    on = {'data': {'': np.array([1.0, 0.0, 1.0])}}
    array, switch = 'std_msgs/msg/Float64MultiArray', 'std_msgs/msg/Bool'
    made = columns.bag(
        columns.topic('/joint_states', times, states),
        columns.topic('/goal', told, {'data': {'0': told + 10.0}}, msgtype=array, header=False),
        columns.topic('/torque', [0.0, 4.5, 6.5], on, msgtype=switch, header=False),
    )
    begins = START + np.array([round(1e9 * time) for time, _ in RUNS])
    runs = TextColumn('/run', begins, tuple(text for _, text in RUNS))
    return dataclasses.replace(made, path=Path('bench'), text_columns=(runs,))


def _logs(bag: BagColumns, **changes: Any) -> tuple[ServoLog, ...]:
    config = validate(ServoBagConfig, {**CONFIG, **changes}, 'the test')
    return logs_of(align_servo(bag, config), config)


@pytest.mark.slow
def test_each_run_is_a_log_with_its_numbers():
    first, second = _logs(_bag())
    assert [first.name, second.name] == ['bench_00_lift_kp100', 'bench_01_lift_kp100']
    assert first.trajectory == 'lift'
    assert first.constants == {'kp': 100.0, 'vin': 7.1}
    assert [first.motor, first.mass, first.arm_mass, first.length] == ['xl330', 0.3, 0.013, 0.13]
    assert first.dt == 0.005


def test_readings_and_commands_keep_their_times():
    log, off = _logs(_bag())

    # The position is its time.
    np.testing.assert_allclose(log.times, log.position - log.position[0], rtol=0, atol=2e-9)
    assert len(set(np.diff(log.times).round(6))) > 100
    assert log.commands is not None
    told = log.commands.times + log.position[0]
    np.testing.assert_allclose(told[1:], np.arange(11, 30) / 10, rtol=0, atol=2e-9)
    np.testing.assert_allclose(log.commands.goal, np.arange(10, 30) / 10 + 10, rtol=0, atol=1e-9)
    np.testing.assert_array_equal(off.enabled, off.position < 4.5)
    assert off.commands is not None
    switched = off.commands.times[off.commands.enabled == 0][0] + off.position[0]
    assert switched == pytest.approx(4.5, abs=2e-9)
    assert (log.goal[:5] == 11.0).all()


def test_positions_are_linear_and_goals_are_held_where_samples_shall_be_even():
    for log, begin in zip(_logs(_bag(), dt=0.005), (1.0, 4.0), strict=True):
        times = log.position[0] + log.dt * np.arange(len(log))
        assert begin <= times[0] < begin + 0.013
        assert begin + 2.0 - 0.013 < times[-1] + log.dt
        np.testing.assert_allclose(log.position, times, rtol=0, atol=2e-9)
        np.testing.assert_allclose(log.speed, 2 * times, rtol=0, atol=4e-9)
        held = np.floor(np.round(times / 0.1, 5)) * 0.1 + 10.0
        np.testing.assert_allclose(log.goal, held, rtol=0, atol=1e-9)


@pytest.mark.slow
def test_sign_and_zero_of_the_joint_count_for_commands_as_well():
    plain, *_ = _logs(_bag())
    turned, *_ = _logs(_bag(), sign=-1, zero=0.5)

    np.testing.assert_allclose(turned.position, -(plain.position - 0.5), atol=1e-12)
    np.testing.assert_allclose(turned.goal, -(plain.goal - 0.5), atol=1e-12)
    assert plain.speed is not None
    np.testing.assert_allclose(turned.speed, -plain.speed, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize(
    ('changes', 'kind', 'sentence'),
    [
        ({'joint': 'pam'}, AlignmentError, 'nearest: pan'),
        ({'command': '/gaol.data[0]'}, AlignmentError, '/goal'),
        ({'constants': {'dampin': 1}}, AlignmentError, 'nearest: damping'),
        ({'segments': {'marker': '/ran'}}, AlignmentError, 'nearest: /run'),
        ({'segments': {'times': [[80.0, 90.0]]}}, AlignmentError, 'found none'),
        ({'command': None}, ConfigError, 'goal positions as command'),
        ({'torque_enable': 'on'}, ConfigError, "channel .* for 'torque_enable'"),
    ],
)
def test_what_a_bag_has_not_is_said_in_a_sentence(
    changes: dict[str, Any], kind: type[SysidError], sentence: str
):
    with pytest.raises(kind, match=sentence) as raised:
        _logs(_bag(), **changes)
    assert str(raised.value).endswith('.')


def test_a_pendulum_that_never_moves_is_refused():
    with pytest.raises(AlignmentError, match="Nothing moves in bag 'bench': expected 'pan'"):
        _logs(_bag(still=True))


@pytest.mark.slow
def test_the_command_writes_logs_that_fits_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    given = {'joint': 'elbow', 'command': '/forward_position_controller/commands.data[1]'}
    own = {key: value for key, value in CONFIG.items() if key not in ('torque_enable', 'segments')}
    config, folder = tmp_path / 'servo_bag.yaml', tmp_path / 'logs'
    config.write_text(yaml.safe_dump({**own, **given}))

    arguments = [str(FOLDER / 'train'), str(config), '-o', str(folder), '--json']
    assert main(['servo', 'logs', *arguments]) == 0
    (said,) = json.loads(capsys.readouterr().out)['logs']
    (read,) = read_logs(folder)
    assert said['file'].endswith('train_lift_kp100.json')
    assert said['samples'] == len(read) > 200
    loaded = load_servo_bag(config)
    (log,) = logs_of(align_servo(read_bag(FOLDER / 'train'), loaded), loaded)
    assert (read.name, read.constants) == (log.name, dict(log.constants))
    for name in ('position', 'times', 'commands', 'enabled'):
        np.testing.assert_array_equal(getattr(read, name), getattr(log, name))
