# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Real robots by the README's way: ``sysid init``, then ``sysid calibrate``, both unedited.

``prepare`` writes what a newcomer has: the model as it was published, and recordings with names and
units of their source, changed only as every user must. ``calibrations`` runs both commands in each
folder, ``table`` compares the results with what needs nothing of the package, and draws them.

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
import xml.etree.ElementTree as ET
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import yaml
from numpy.typing import ArrayLike
from shared.common import DATA, ROOT, AnyOf, Floats, Table, run
from shared.drawing import draw, worst
from shared.linear import Log, cut_offs, follow, joined, regression, smooth, torques

from sysid_ros.bags.reader import read_bag
from sysid_ros.config.files import load_calibration
from sysid_ros.fit.observer import Nobody
from sysid_ros.model.loading import compile_spec, fitted_model, read_model
from sysid_ros.model.targets import resolve
from sysid_ros.results.result import CalibrationResult
from sysid_ros.results.store import find
from sysid_ros.simulation.prediction import predict
from sysid_ros.workflows.problem import load

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


def _tiago(source: Path, folder: Path, effort: str, scale: ArrayLike = 1.0) -> None:
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
    if np.ndim(scale):
        # The source's program adds the weight of all that the torso lifts to its effort.
        columns[f'{joints[0]}{effort}'] += _weight(folder / 'tiago.urdf', 'torso_lift_link')
    _thirds(folder, read[0][921:6791, 0], columns)


def _weight(urdf: Path, link: str) -> float:
    """Return the weight of a link and all that it carries, N."""
    robot = ET.parse(urdf).getroot()  # noqa: S314 (a file of the user's)
    masses = {
        body.get('name'): float(mass.get('value', 0))
        for body in robot.iter('link')
        for mass in body.findall('inertial/mass')
    }
    below = [
        [joint.find(end).get('link') for end in ('parent', 'child')]  # type: ignore[union-attr]
        for joint in robot.findall('joint')
    ]

    def mass(name: str | None) -> float:
        return masses.get(name, 0.0) + sum(mass(child) for parent, child in below if parent == name)

    return 9.81 * mass(link)


def tiago(source: Path, folder: Path) -> str:
    """Prepare TIAGo with efforts in N·m, by the gears and motor constants of the source."""
    _tiago(source, folder, '_effort', [1, 13.6, 13.6, -8.7, -8.7, *3 * [336 * -0.0613]])
    return 'URDF as published; efforts in N·m (N) by the gears and constants of the source.'


def tiago_current(source: Path, folder: Path) -> str:
    """Prepare TIAGo with currents that are called so."""
    _tiago(source, folder, '_current')
    return 'URDF as published; efforts of the source are currents, and are called so.'


def tiago_effort(source: Path, folder: Path) -> str:
    """Prepare TIAGo as its topic has it: currents that are called efforts."""
    _tiago(source, folder, '_effort')
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
        rates = np.gradient(seen[:count, 1:], seen[:count, 0], axis=0)
        columns = _columns(joints, '_position', seen[:count, 1:])
        columns |= _columns(joints, '_velocity', rates)  # the mapping pairs them
        columns |= _columns(joints, '_position_cmd', told[:count, 1:])
        _table(folder / f'{motion.name}.csv', seen[:count, 0], columns)


def go2(data: Path, folder: Path) -> str:
    """Prepare 23 s of a chirp on twelve joints of a Go2 that hangs in the air, 200 Hz."""
    text = (data / 'go2_iit/go2.xml').read_text('utf-8')
    # It hangs: the trunk does not move, which poses say no more, and which the hips would touch.
    held = re.sub(r'<freejoint ?/>|<keyframe>.*?</keyframe>', '', text, flags=re.DOTALL)
    option = '<option><flag contact="disable"/></option>'
    (folder / 'go2.xml').write_text(held.replace('<worldbody>', option + '<worldbody>'), 'utf-8')
    joints = re.findall(r'<motor [^>]*joint="(\w+)"', text)
    log = np.load(data / 'go2_iit/traj_0.npz')
    columns = {
        f'{joint}_{key}': np.asarray(log[key], dtype=np.float64)[:, place]
        for key in ('dof_pos', 'des_dof_pos')
        for place, joint in enumerate(joints)
    }
    _thirds(folder, np.asarray(log['time'], dtype=np.float64), columns)
    return 'MJCF with its trunk held, without contacts; the log with names of the joints.'


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


class Robot(NamedTuple):
    """A robot of the gallery.

    Attributes:
        prepare: Writes its folder from the one with all clones or data, and says how.
        joints: Of the model, where efforts were measured, …
        positions: … their columns, …
        efforts: … and those of their efforts.
        currents: Whether efforts are currents.
        own: Whether its data are in --data.
    """

    prepare: Callable[[Path, Path], str]
    joints: tuple[str, ...] = ()
    positions: tuple[str, ...] = ()
    efforts: tuple[str, ...] = ()
    currents: bool = False
    own: bool = False


def _numbered(text: str, count: int = 6) -> tuple[str, ...]:
    return tuple(f'{text}{number}' for number in range(1, count + 1))


def _of(joints: Sequence[str], kind: str) -> tuple[str, ...]:
    return tuple(f'{joint}_{kind}' for joint in joints)


_TX40 = _numbered('joint_')
_TIAGO = ('torso_lift_joint', *(f'arm_{number}_joint' for number in range(1, 8)))
_BY_NAME = _TIAGO, _of(_TIAGO, 'position')
ROBOTS: dict[str, Robot] = {
    'tx40': Robot(tx40, _TX40, _of(_TX40, 'position'), _of(_TX40, 'effort')),
    'tiago': Robot(tiago, *_BY_NAME, _of(_TIAGO, 'effort')),
    'tiago_current': Robot(tiago_current, *_BY_NAME, _of(_TIAGO, 'current'), currents=True),
    'tiago_effort': Robot(tiago_effort, *_BY_NAME, _of(_TIAGO, 'effort'), currents=True),
    'airbot': Robot(airbot, _numbered('joint'), _numbered('q'), _numbered('tau')),
    'dp': Robot(dp, _numbered('Joint', 2), _numbered('pos_meas', 2), _numbered('tau_meas', 2)),
    'sp': Robot(sp, ('Joint_1',), ('position',), ('torque',)),
    'so101': Robot(so101, own=True),
    'go2': Robot(go2, own=True),
    'servo': Robot(servo, own=True),
}
NAMES = AnyOf(ROBOTS)


def prepare(
    *,
    data: Path = DATA,
    clones: Path = ROOT.parent / 'real',
    scratch: Path = Path('gallery'),
    robots: AnyOf = NAMES,
) -> None:
    """Write a folder for each robot whose recordings are there: its model, and recordings."""
    for name in robots:
        folder = scratch / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        try:
            robot = ROBOTS[name]
            text = robot.prepare(data if robot.own else clones, folder)
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


def calibrations(*, scratch: Path = Path('gallery'), robots: AnyOf = NAMES) -> None:
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


class Score(NamedTuple):
    """Held-out errors of (k,) joints; not a number where there is none."""

    unit: str
    nominal: Floats
    baseline: Floats
    ours: Floats


def _model_of(folder: Path) -> Path:
    return next(iter((*folder.glob('*.xml'), *folder.glob('*.urdf'))))


def _rms(apart: Floats) -> Floats:
    return np.asarray(np.sqrt(np.nanmean(apart**2, axis=0)))


def _by_torques(robot: Robot, folder: Path, result: CalibrationResult | None) -> Score:
    """Compare torques along the smoothed motion, without any code of the package for it."""

    def logs(role: str) -> list[Log]:
        tables = [
            np.genfromtxt(path, delimiter=',', names=True)
            for path in sorted(folder.glob(f'{role}*.csv'))
        ]
        return [
            Log(
                table['time'],
                *(
                    np.column_stack([table[c] for c in columns])
                    for columns in (robot.positions, robot.efforts)
                ),
            )
            for table in tables
        ]

    path = _model_of(folder)
    model = compile_spec(read_model(path).spec, path)
    tried = []
    for frequency in cut_offs(logs('train')):
        train, unseen = (
            joined([smooth(log, frequency) for log in logs(role)]) for role in ('train', 'validate')
        )
        found = regression(model, robot.joints, train, unseen, currents=robot.currents)
        left = _rms(found[0] - train.effort) / train.effort.std(axis=0)
        tried.append((left.mean(), frequency, unseen, found[1]))
    # That which leaves least of what was fitted.
    _, frequency, unseen, linear = min(tried, key=lambda one: one[0])
    mapping = folder / 'mapping.yaml'
    pairs = yaml.safe_load(mapping.read_text('utf-8'))['sensors'] if mapping.exists() else {}
    told, values = {}, []
    if result is not None:
        told = {
            text: parameter.value for parameter in result.parameters for text in parameter.targets
        }
        values = [
            (target, value)
            for text, value in told.items()
            if not text.startswith(('actuator/', 'sensor/', 'sequence/'))
            for target in resolve(text, model)
        ]

    def read(found: Floats, told: Mapping[str, float]) -> Floats:
        """Return what efforts are read as."""
        parts = []
        for joint, own in zip(robot.joints, found.T, strict=True):
            names = [f'{joint}_effort', f'{joint}_torque']
            missing = np.nan if pairs else 1.0
            scale = next((pairs[n].get('scale', 1.0) for n in names if n in pairs), missing)
            gain, bias = (
                next((told[t] for n in names if (t := f'sensor/{n}/{kind}') in told), usual)
                for kind, usual in (('gain', 1.0), ('bias', 0.0))
            )
            parts.append((gain * own + bias) / scale)
        return np.column_stack(parts)

    nominal = read(torques(model, robot.joints, unseen), {})
    ours = np.full_like(nominal, np.nan)
    if result is not None:
        ours = read(torques(fitted_model(path, values), robot.joints, unseen), told)
    unit = 'A' if robot.currents else 'N·m'
    return Score(unit, *(_rms(found - unseen.effort) for found in (nominal, linear, ours)))


def _told_positions(path: Path) -> Log:
    """Read positions and their commands; of these the ones at the times of positions."""
    topics = {topic.topic: topic for topic in read_bag(path).topics}
    parts = []
    for name in ('/joint_states', '/joint_commands'):
        position = next(field for field in topics[name].fields if field.name == 'position')
        parts.append((1e-9 * np.array(topics[name].header_ns, dtype=float), position))
    (times, seen), (told_at, told) = parts
    order = [told.labels.index(label) for label in seen.labels]
    rows = np.maximum(np.searchsorted(told_at, times, side='right') - 1, 0)
    return Log(times, seen.values, told.values[rows][:, order])


def _by_motion(folder: Path, result: CalibrationResult | None) -> Score:
    """Compare positions of whole recordings with joints that follow their commands late."""
    train, unseen = (
        [_told_positions(path) for path in sorted(folder.glob(f'{role}*'))]
        for role in ('train', 'validate')
    )
    baseline = follow(train, unseen)
    nominal, ours = np.full((2, len(baseline)), np.nan)
    if result is not None:
        errors = [e for e in result.errors if e.role == 'validate' and e.unit == 'rad']
        nominal, ours = np.array([[e.before, e.after] for e in errors]).T
    return Score('mrad', 1e3 * nominal, 1e3 * baseline, 1e3 * ours)


def _of_more(folder: Path, result: CalibrationResult) -> Score:
    """Predict recordings that neither command was told of, as `_by_motion`."""
    train, unseen = (
        [_told_positions(path) for path in sorted(folder.glob(pattern))]
        for pattern in ('train*', 'more/*.csv')
    )
    patterns = (('validate', 'more/*.csv'), ('train', 'train*'))
    bags = [{'path': str(folder / pattern), 'role': role} for role, pattern in patterns]
    problem = load(load_calibration(folder / 'calibration.yaml', {'bags': bags}), Nobody())
    values = {parameter.name: parameter.value for parameter in result.parameters}
    sequences = problem.sequences('validate')
    found = []
    for known in ({}, values):
        x = np.array([known.get(u.name, u.nominal) for u in problem.parameters])
        runs = predict(problem.spec, sequences, problem.parameters, x)
        apart = [
            run.channels[0][0] - own.measurements[0].data
            for own, run in zip(sequences, runs, strict=True)
        ]
        found.append(1e3 * _rms(np.concatenate(apart)))
    return Score('mrad', found[0], 1e3 * follow(train, unseen), found[1])


def table(
    *, scratch: Path = Path('gallery'), robots: AnyOf = NAMES, draw_all: bool = False
) -> None:
    """Print what the runs in the robots' folders came to, and draw the worst held-out signals."""
    print('| robot | s | standing | ours / nominal | baseline / nominal | failed checks |')
    print('|---|---|---|---|---|---|')
    scores = {}
    for name in robots:
        folder = scratch / name
        if not (folder / 'run.json').exists():
            continue
        ran = [Spent(*one) for one in json.loads((folder / 'run.json').read_text()).values()]
        result = _result(folder)
        by = partial(_by_torques, ROBOTS[name]) if ROBOTS[name].joints else _by_motion
        score = scores[name] = by(folder, result)
        shares = [_share(part / score.nominal) for part in (score.ours, score.baseline)]
        failed, standing = [], 'none'
        if result is not None:
            checks = (*result.gate, *result.reservations)
            failed = [check.name for check in checks if not check.passed]
            standing = result.standing.value
            if (folder / 'more').is_dir():
                scores[f'{name}, more'] = _of_more(folder, result)
            if draw_all:
                units = {'rad'} if score.unit == 'mrad' else {plot.unit for plot in result.plots}
                draw(worst(result, units), ROOT / 'docs' / 'images' / f'gallery-{name}.webp')
        seconds = ' + '.join(f'{spent.processor:.0f}' for spent in ran)
        print(f'| {name} | {seconds} | {standing} | {" | ".join(shares)} | {", ".join(failed)} |')
    for name, score in scores.items():
        print(f'\n| {name}, {score.unit} | {" | ".join("" for _ in score.nominal)} |')
        print(f'|---|{"---|" * len(score.nominal)}')
        for title in ('nominal', 'baseline', 'ours'):
            values = getattr(score, title)
            cells = ['\N{EN DASH}' if np.isnan(value) else f'{value:.3g}' for value in values]
            print(f'| {title} | {" | ".join(cells)} |')


def _share(ratios: Floats) -> str:
    """Return the geometric mean of ratios, %."""
    return f'{100 * np.exp(np.nanmean(np.log(ratios))):.0f} %'


if __name__ == '__main__':
    run(__doc__, prepare, calibrations, table)
