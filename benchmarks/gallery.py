# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Real robots by the README's way: ``sysid init``, then ``sysid calibrate``, both unedited.

``prepare`` writes for each robot what a newcomer has: the model as it was published, and the
recordings with the names and units of their source. Only what every user has to do is done: times
for a log that has none, the gears between motor and joint, half turns to radians. ``calibrations``
then runs both commands in each folder and keeps the result beside the recordings.

Recordings and models are no part of the project. --data is a folder with ``servo_sysid`` (github
mauicv/servo-sysid), ``go2_iit`` (iit-DLSLab/sim2real-robot-identification) and ``so101``
(isaac-sim2real/sage, with the model of TheRobotStudio/SO-ARM100); --clones one with clones of
thanhndv212/figaroh-examples, Zeyu1-oss/dynamics_calibration_airbot, isaac-sim2real/sage,
dfki-ric-underactuated-lab/double_pendulum and torque_limited_simple_pendulum. What is not there is
left out.
"""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from shared.common import DATA, ROOT, AnyOf, Floats, Table, run

from sysid_ros.results.result import CalibrationResult
from sysid_ros.results.store import find

#: Motions of the hobby arm that are held out: the fastest, and one from pose to pose.
_HELD_OUT = ('chirp_sweep', 'random_waypoints')
#: Of servo's runs every so many is held out.
_EVERY = 4
#: A command is ended after this time, s.
_LONGEST_S = 1800.0


def _table(path: Path, times: ArrayLike, columns: Mapping[str, ArrayLike]) -> None:
    """Write a table that stands for a bag."""
    rows = np.column_stack([np.asarray(times), *map(np.asarray, columns.values())])
    head = ','.join(('time', *columns))
    np.savetxt(path, rows, '%.10g', ',', header=head, comments='')


def _thirds(folder: Path, times: Floats, columns: Mapping[str, Floats]) -> None:
    """Write two thirds of a log to train, and one to validate."""
    split = 2 * len(times) // 3
    for name, rows in (('train', slice(split)), ('validate', slice(split, None))):
        own = {key: column[rows] for key, column in columns.items()}
        _table(folder / f'{name}.csv', times[rows] - times[rows][0], own)


def _columns(names: Sequence[str], suffix: str, values: Floats) -> dict[str, Floats]:
    return {f'{name}{suffix}': values[:, place] for place, name in enumerate(names)}


def _read(path: Path, skip: int = 1) -> Floats:
    return np.loadtxt(path, delimiter=',', skiprows=skip)


def tx40(source: Path, folder: Path) -> str:
    """Prepare 9 s of a Stäubli TX40; currents are in N·m of the motors, motor 6 turns q5 + q6."""
    source = source / 'figaroh-examples/examples/staubli_TX40'
    shutil.copy(source / 'urdf/tx40_mdh_modified.urdf', folder / 'tx40.urdf')
    joints = [f'joint_{number}' for number in range(1, 7)]
    # Positions and currents are those of motors: the source's program has what leads to joints.
    ratios = np.diag([32.0, 32.0, 45.0, -48.0, 45.0, 32.0])
    ratios[5, 4] = 32.0
    zeros = np.pi / 2 * np.array([0, -1, 1, 0, 0, 0])
    positions = _read(source / 'data/pos_read_data.csv') @ np.linalg.inv(ratios).T + zeros
    efforts = _read(source / 'data/curr_data.csv') @ ratios
    columns = _columns(joints, '_position', positions) | _columns(joints, '_effort', efforts)
    _thirds(folder, 0.0002 * np.arange(len(positions)), columns)
    return 'URDF as published; motor positions and currents through the gears of the source.'


def _tiago(source: Path, folder: Path, effort: str, scale: ArrayLike) -> None:
    """Prepare 60 s of torso and arm of a TIAGo, with efforts times a scale."""
    source = source / 'figaroh-examples/examples/tiago'
    shutil.copy(source / 'urdf/tiago_48_schunk.urdf', folder / 'tiago.urdf')
    joints = ('torso_lift_joint', *(f'arm_{number}_joint' for number in range(1, 8)))
    logs = source / 'data/identification/dynamic'
    read = [_read(logs / f'tiago_{name}.csv') for name in ('position', 'velocity', 'effort')]
    # The source's program takes these rows: before and after them the robot stands.
    position, velocity, current = (part[921:6791, 1:] for part in read)
    columns = (
        _columns(joints, '_position', position)
        | _columns(joints, '_velocity', velocity)
        | _columns(joints, effort, current * scale)
    )
    _thirds(folder, read[0][921:6791, 0], columns)


def tiago(source: Path, folder: Path) -> str:
    """Prepare TIAGo with efforts in N·m, by the gears and motor constants of the source."""
    _tiago(source, folder, '_effort', [1, 13.6, 13.6, -8.7, -8.7, *3 * [336 * -0.0613]])
    return 'URDF as published; efforts in N·m (N) by the gears and constants of the source.'


def tiago_current(source: Path, folder: Path) -> str:
    """Prepare TIAGo with currents that are called so."""
    _tiago(source, folder, '_current', 1.0)
    return 'URDF as published; efforts of the source are currents, and are called so.'


def tiago_effort(source: Path, folder: Path) -> str:
    """Prepare TIAGo as its topic has it: currents that are called efforts."""
    _tiago(source, folder, '_effort', 1.0)
    return 'URDF and log as published: efforts are currents, which no name says.'


def airbot(source: Path, folder: Path) -> str:
    """Prepare recordings of an AIRBOT Play, 25 s each."""
    source = source / 'dynamics_calibration_airbot'
    model = source / 'models/mjcf/manipulator/airbot_play_force/_play_force.xml'
    text = model.read_text('utf-8').replace('../../../meshes/', 'meshes/')
    (folder / 'airbot.xml').write_text(text, 'utf-8')
    meshes = 'meshes/airbot_play_force'
    shutil.copytree(source / 'models' / meshes, folder / meshes)
    # The files have no header; the program that writes them does.
    names = ('q', 'qv', 'tau', 'q_des', 'qv_des')
    head = ','.join(['time', *(f'{name}{number}' for name in names for number in range(1, 7))])
    for role, motion in (
        ('train', 'opt'),
        ('train', 'ga_N12T25'),
        ('train', 'ptrnSrch_N8T25QR'),
        ('validate', 'ptrnSrch_N7T25QR-5'),
    ):
        log = (source / f'state_machine_demo/real_data/vali_{motion}.csv').read_text('utf-8')
        (folder / f'{role}_{motion}.csv').write_text(f'{head}\n{log}', 'utf-8')
    return 'MJCF with its meshes; four recordings, with the header that their program writes.'


def dp(source: Path, folder: Path) -> str:
    """Prepare recordings of a double pendulum, 10 s each: driven, swinging, and swung up."""
    source = source / 'double_pendulum/data'
    shutil.copy(source / 'urdfs/design_A.0/model_1.0/double_pendulum.urdf', folder)
    logs = source / 'experiment_records/design_A.0/20220815/sys_id'
    for place, log in enumerate(sorted(logs.glob('*.csv'))):
        role = 'validate' if place % 3 == 2 else 'train'  # noqa: PLR2004 (every third)
        shutil.copy(log, folder / f'{role}_{log.name.removeprefix("trajectory_")}')
    return 'URDF and CSV as published; every third recording is held out.'


def sp(source: Path, folder: Path) -> str:
    """Prepare recordings of a simple pendulum: identification, and two ways to swing up."""
    source = source / 'torque_limited_simple_pendulum'
    shutil.copy(source / 'data/urdf/dfki_simple_pendulum.urdf', folder)
    for role, motion in (
        ('train', 'pd/system_identification'),
        ('train', 'ddp'),
        ('validate', 'direct_collocation'),
    ):
        log = source / f'results/control_method_{motion}/data_measured.csv'
        shutil.copy(log, folder / f'{role}_{motion.rpartition("/")[2]}.csv')
    return 'URDF and CSV as published; one swing-up is held out.'


def so101(data: Path, folder: Path) -> str:
    """Prepare ten motions of an SO-101, and more of the same robot that ``init`` is not told of."""
    shutil.copy(data / 'so101/so101.xml', folder)
    for bag in sorted((data / 'so101/bags').iterdir()):
        role = 'validate' if bag.name in _HELD_OUT else 'train'
        shutil.copytree(bag, folder / f'{role}_{bag.name}')
    return 'MJCF and bags as they are; the fastest motion and one from pose to pose are held out.'


def _more_so101(clones: Path, folder: Path, known: Path) -> None:
    """Write the motions of the source that are no bags, for a test after the fit."""
    names = {bag.name for bag in known.iterdir()}
    folder.mkdir()
    for motion in sorted((clones / 'sage/output/real/so101/custom').iterdir()):
        if motion.name in names:
            continue
        joints = (motion / 'joint_list.txt').read_text('utf-8').split()
        read = {}
        for file in ('control', 'state_motor'):
            with (motion / f'{file}.csv').open(encoding='utf-8') as lines:
                rows = [(row['timestamp'], row['positions']) for row in csv.DictReader(lines)]
            read[file] = np.array([[1e-6 * float(t), *json.loads(p)] for t, p in rows])
        told, seen = read['control'], read['state_motor']
        count = min(len(told), len(seen))
        columns = _columns(joints, '_position', seen[:count, 1:])
        columns |= _columns(joints, '_position_cmd', told[:count, 1:])
        _table(folder / f'{motion.name}.csv', seen[:count, 0], columns)


def go2(data: Path, folder: Path) -> str:
    """Prepare 23 s of a chirp on twelve joints of a Go2 that hangs in the air, 200 Hz."""
    text = (data / 'go2_iit/go2.xml').read_text('utf-8')
    # It hangs: the trunk does not move.
    (folder / 'go2.xml').write_text(re.sub(r'<freejoint ?/>', '', text), 'utf-8')
    joints = re.findall(r'<motor [^>]*joint="(\w+)"', text)
    log = np.load(data / 'go2_iit/traj_0.npz')
    columns = {
        f'{joint}_{key}': np.asarray(log[key], dtype=np.float64)[:, place]
        for key in ('dof_pos', 'des_dof_pos')
        for place, joint in enumerate(joints)
    }
    _thirds(folder, np.asarray(log['time'], dtype=np.float64), columns)
    return 'MJCF with its trunk held in the air; the log with names of the joints.'


def servo(data: Path, folder: Path) -> str:
    """Prepare 96 short runs of a hobby servo that swings a weight: six kinds of motion, 50 Hz."""
    shutil.copytree(data / 'servo_sysid/desc', folder, dirs_exist_ok=True)
    log = json.loads((data / 'servo_sysid/dataset/response.json').read_text('utf-8'))
    for number, own in enumerate(log['data']):
        role = 'validate' if number % _EVERY == _EVERY - 1 else 'train'
        # Readings and commands are in half turns.
        goals, angles = (np.pi * np.array(own[key]) for key in ('actions', 'sensor_data'))
        times = np.arange(len(goals)) / log['config']['action_hz']
        columns = {'servo_pos': angles, 'cmd_servo_pos': goals}
        _table(folder / f'{role}_{number:02}_{own["type"]}.csv', times, columns)
    return 'MJCF as published; half turns to radians; every fourth run is held out.'


#: Robots of --clones, and those of --data.
CLONES: dict[str, Callable[[Path, Path], str]] = {
    'tx40': tx40,
    'tiago': tiago,
    'tiago_current': tiago_current,
    'tiago_effort': tiago_effort,
    'airbot': airbot,
    'dp': dp,
    'sp': sp,
}
OWN: dict[str, Callable[[Path, Path], str]] = {'so101': so101, 'go2': go2, 'servo': servo}
ROBOTS = AnyOf((*CLONES, *OWN))


def prepare(
    *,
    data: Path = DATA,
    clones: Path = ROOT.parent / 'real',
    scratch: Path = Path('gallery'),
    robots: AnyOf = ROBOTS,
) -> None:
    """Write a folder for each robot whose recordings are there: its model, and recordings."""
    for name in robots:
        folder = scratch / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        try:
            text = CLONES[name](clones, folder) if name in CLONES else OWN[name](data, folder)
            if name == 'so101':
                _more_so101(clones, folder / 'more', data / 'so101/bags')
        except FileNotFoundError as err:
            print(f'{name}: left out, {err.filename} is not there.')
            shutil.rmtree(folder)
            continue
        (folder / 'README.md').write_text(f'{text}\n', 'utf-8')
        print(f'{name}: {text}')


class Spent(NamedTuple):
    """What a command came to.

    Attributes:
        code: Of its exit; negative where it was ended because it took too long.
        processor: Seconds of all its processes.
        wall: Seconds.
        said: Its last line.
    """

    code: int
    processor: float
    wall: float
    said: str


def _spent(folder: Path, *words: str) -> Spent:
    """Run ``sysid`` in a folder, for some time at most."""
    log, begun = folder / f'{words[0]}.log', time.monotonic()
    with log.open('wb') as out:
        child = subprocess.Popen(
            ['sysid', *words], cwd=folder, stdout=out, stderr=out, start_new_session=True
        )
        timer = threading.Timer(_LONGEST_S, os.killpg, (child.pid, signal.SIGKILL))
        timer.start()
        _, status, usage = os.wait4(child.pid, 0)
        timer.cancel()
    child.returncode = os.waitstatus_to_exitcode(status)
    said = log.read_text('utf-8').strip().rpartition('\n')[2]
    spent = usage.ru_utime + usage.ru_stime
    return Spent(child.returncode, spent, time.monotonic() - begun, said)


def calibrations(*, scratch: Path = Path('gallery'), robots: AnyOf = ROBOTS) -> None:
    """Run both commands of the README in each robot's folder, as they are."""
    table = Table('robot:13s', 'init:4d', 's:5.0f', 'calibrate:4d', 's:5.0f', 'standing:s')
    for name in robots:
        folder = scratch / name
        if not folder.is_dir():
            continue
        for made in ('calibration.yaml', 'mapping.yaml', 'out', 'run.json'):
            path = folder / made
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        bags = [path.name for role in ('train', 'validate') for path in folder.glob(f'{role}*')]
        (model,) = (*folder.glob('*.xml'), *folder.glob('*.urdf'))
        init = _spent(folder, 'init', *sorted(bags), model.name)
        fit = Spent(-1, 0.0, 0.0, '')
        if init.code == 0:
            fit = _spent(folder, 'calibrate', 'calibration.yaml')
        (folder / 'run.json').write_text(json.dumps({'init': init, 'calibrate': fit}), 'utf-8')
        found = _result(folder)
        text = found.standing.value if found else (fit if init.code == 0 else init).said
        table.row(name, init.code, init.processor, fit.code, fit.processor, text)


def _result(folder: Path) -> CalibrationResult | None:
    """Return the result of a calibration, accepted or not."""
    for kind in ('current', 'rejected'):
        if (folder / 'out' / kind).exists():
            return CalibrationResult.load(find(folder / 'out' / kind))
    return None


if __name__ == '__main__':
    run(__doc__, prepare, calibrations)
