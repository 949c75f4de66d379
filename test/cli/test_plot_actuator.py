# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""``sysid plot-actuator`` and ``sysid export-actuator`` on small logs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

import mujoco
import numpy as np
import pytest
from PIL import Image

from sysid_ros.servos.bench.pendulum import simulate, stack_logs
from sysid_ros.servos.formats.logs import ServoLog, write_log
from sysid_ros.servos.formats.parameter_file import write_parameters
from sysid_ros.servos.laws.servo import Servo

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.slow


DT = 0.005
MOTOR = {'kt': 0.37, 'R': 2.8, 'armature': 0.0018, 'q_offset': 0.03}
M1 = {**MOTOR, 'friction_base': 0.012, 'friction_viscous': 0.004}
M3 = {**MOTOR, 'friction_base': 0.012, 'load_friction_base': 0.2, 'friction_viscous': 0.004}
BLUE, ORANGE, SHADE = (11, 92, 173), (194, 87, 12), (236, 238, 241)


class Bench(NamedTuple):
    """A folder with logs of a servo that m1 describes, and with parameter files."""

    folder: Path
    logs: Path
    m1: Path
    m3: Path


def _log(name: str, motor: str, dt: float, enabled: np.ndarray) -> ServoLog:
    times = np.arange(len(enabled)) * dt
    goal, nothing = np.sin(6 * times), np.zeros(len(enabled))
    constants = {'kp': 400.0, 'vin': 7.5}
    blank = ServoLog(name, motor, 'sine', 0.2, 0.01, 0.1, constants, dt, nothing, goal, enabled)
    servo = Servo.named('xl330', 'm1')
    candidate = np.array([[M1[key] for key in servo.coefficients]])
    moved = simulate(servo, stack_logs(servo, [blank]), candidate).position[:, 0, 0]
    return ServoLog(name, motor, 'sine', 0.2, 0.01, 0.1, constants, dt, moved, goal, enabled)


@pytest.fixture
def servo_bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """Return logs of two sampling periods, in the first of which the motor is on throughout."""
    monkeypatch.chdir(tmp_path)
    logs = tmp_path / 'logs'
    drop = np.where(np.arange(200) < 120, 1.0, 0.0)
    write_log(logs / 'steady.json', _log('steady', 'xl330', DT, np.ones(300)))
    write_log(logs / 'drop.json', _log('drop', 'xl330', 0.004, drop))
    write_parameters(tmp_path / 'm1.json', Servo.named('xl330', 'm1'), M1)
    write_parameters(tmp_path / 'm3.json', Servo.named('xl330', 'm3'), M3)
    return Bench(tmp_path, logs, tmp_path / 'm1.json', tmp_path / 'm3.json')


def _colours_of(folder: str, name: str) -> set[tuple[int, int, int]]:
    with Image.open(f'{folder}/{name}.png') as image:
        assert image.format == 'PNG'
        found = image.convert('RGB').getcolors(1 << 24)
    return {colour for _, colour in found}


def _files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob('*') if path.is_file()}


@pytest.mark.usefixtures('servo_bench')
def test_without_parameters_logs_are_drawn(sysid: Callable[..., Any]):
    done = sysid('plot-actuator', '--logdir', 'logs')
    assert (done.code, done.err) == (0, '')
    assert done.out == 'wrote logs_plots/drop.png\nwrote logs_plots/steady.png\n'


def test_predictions_are_drawn_over_the_logs_and_their_errors_told(
    servo_bench: Bench, sysid: Callable[..., Any]
):
    done = sysid(
        'plot-actuator', '--logdir', 'logs', '--sim', '--params', 'm1.json', 'm3.json', '-o', 'new'
    )
    assert (done.code, done.err) == (0, '')
    names = {'drop.png', 'steady.png', 'friction.png', 'drive_backdrive.png', 'mae.png'}
    assert _files(servo_bench.folder / 'new') == names
    for picture in ('steady', 'friction', 'mae'):
        assert {BLUE, ORANGE} <= _colours_of('new', picture)
    rows = {line.split()[0]: line.split()[1:] for line in done.out.splitlines() if line.strip()}
    assert rows['log'] == ['m1', 'm3']
    errors = {name: [float(cell) for cell in rows[name]] for name in ('drop', 'steady', 'mean')}
    # The logs are m1's own, and every sample is measured without noise.
    assert errors['drop'][0] == errors['steady'][0] == 0.0
    assert errors['steady'][1] > 1.0
    assert errors['mean'][1] == pytest.approx(
        (errors['drop'][1] + errors['steady'][1]) / 2, rel=5e-3
    )


@pytest.mark.usefixtures('servo_bench')
def test_only_where_the_motor_is_off_the_ground_is_shaded(sysid: Callable[..., Any]):
    done = sysid('plot-actuator', '--logdir', 'logs', '-o', 'new', '--json')
    assert set(json.loads(done.out)['files']) >= {'new/drop.png', 'new/steady.png'}
    shaded = {name: SHADE in _colours_of('new', name) for name in ('drop', 'steady')}
    assert shaded == {'drop': True, 'steady': False}


@pytest.mark.parametrize(
    ('arguments', 'complaint'),
    [
        (['--sim'], 'Expected parameter files to predict with'),
        (['--sim', '--params', 'm1.json', '--reset-period', '0'], 'a positive --reset-period'),
        (['--params', 'empty'], "parameter files *.json in 'empty', found none"),
        (['--params', 'm7.json'], "'m7.json'"),
    ],
)
def test_what_cannot_be_drawn_is_one_line_and_nothing_is_written(
    servo_bench: Bench, sysid: Callable[..., Any], arguments: list[str], complaint: str
):
    (servo_bench.folder / 'empty').mkdir()
    before = _files(servo_bench.folder)
    done = sysid('plot-actuator', '--logdir', 'logs', *arguments)
    assert (done.code, done.out) == (2, '')
    assert complaint in done.err
    assert done.err.count('\n') == 1
    assert _files(servo_bench.folder) == before


@pytest.mark.parametrize('command', ['plot-actuator', 'export-actuator'])
def test_logs_of_another_servo_are_refused(
    servo_bench: Bench, sysid: Callable[..., Any], command: str
):
    write_log(servo_bench.logs / 'other.json', _log('other', 'mx106', DT, np.ones(50)))
    rest = {
        'plot-actuator': ('--sim', '--logdir', 'logs'),
        'export-actuator': ('--logs', 'logs', '-o', 'new.xml'),
    }[command]
    before = _files(servo_bench.folder)
    done = sysid(command, '--params', 'm1.json', *rest)
    assert (done.code, done.out) == (2, '')
    assert "Expected logs of the servo xl330, found mx106 in 'other'" in done.err
    assert _files(servo_bench.folder) == before


def test_a_servo_is_exported_with_what_is_lost_and_how_near_it_is(
    servo_bench: Bench, sysid: Callable[..., Any]
):
    (servo_bench.logs / 'drop.json').unlink()
    arguments = ('export-actuator', '--params', 'm3.json', '--logs', 'logs', '-o', 'servo.xml')
    done = sysid(*arguments)
    assert (done.code, done.err) == (0, '')
    joint, drive, note, *_, last = done.out.splitlines()
    text = (servo_bench.folder / 'servo.xml').read_text()
    assert drive.removesuffix('/>') in text
    assert joint.startswith('<joint name="servo" armature="0.0018" ')
    assert drive.startswith('<dcmotor name="servo" joint="servo" motorconst="0.37 0.37" ')
    assert note.startswith('note: Plain friction stands for the friction of xl330 m3: ')
    assert 'steady' in done.out
    assert last == 'wrote servo.xml'
    assert mujoco.MjModel.from_xml_string(text).dof_armature[0] == 0.0018


def test_gain_supply_and_element_are_taken(servo_bench: Bench, sysid: Callable[..., Any]):
    done = sysid(
        *('export-actuator', '--params', 'm1.json', '--element', 'position'),
        *('--kp', '200', '--vin', '5', '-o', 'servo.xml', '--json'),
    )
    assert (done.code, done.err) == (0, '')
    found = json.loads(done.out)
    assert (found['file'], found['nearness']) == ('servo.xml', [])
    assert found['actuator']['element'] == 'position'
    model = mujoco.MjModel.from_xml_path(str(servo_bench.folder / 'servo.xml'))
    gain = Servo.named('xl330', 'm1').type.constants['error_gain']
    assert model.actuator_gainprm[0, 0] == pytest.approx(200 * 5 * gain * 0.37 / 2.8)
    assert model.actuator_forcerange[0] == pytest.approx([-5 * 0.37 / 2.8, 5 * 0.37 / 2.8])


def test_what_cannot_be_exported_is_one_line(servo_bench: Bench, sysid: Callable[..., Any]):
    before = _files(servo_bench.folder)
    for more, complaint in (
        (('--kp', '-1'), "a positive number for 'kp', found -1"),
        (('--element', 'dcmoter'), "'dcmoter'; nearest: dcmotor"),
    ):
        done = sysid('export-actuator', '--params', 'm1.json', *more, '-o', 'servo.xml')
        assert (done.code, done.out) == (2, '')
        assert complaint in done.err
    assert _files(servo_bench.folder) == before
