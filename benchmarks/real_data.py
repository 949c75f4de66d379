# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Real robots, fitted and predicted on motion that was held out.

The data are not part of the project: --data is a folder that holds them, and what is not there is
left out. Predictions are open loop over the whole length of each run.

``folds``: a servo on a pendulum (``servo_sysid``, github mauicv/servo-sysid, BSD-3-Clause) and a
quadruped in the air (``go2_iit``, github iit-DLSLab/sim2real-robot-identification, BSD-3-Clause,
its recording as npz), fitted without one kind of motion at a time and judged on that one.

``hobby_arm``: seventeen minutes of an arm of six servos (``so101``, with ``so101.xml``, the model
as it is shipped, and ``bags``, ten motions at 50 Hz). Nothing is said of the robot but which
numbers of its servos are unknown; sensors are implied and ``sysid map`` finds what is what. Printed
are mean absolute errors of the motion that was left out, mrad, and, with --halves, by how many
standard errors the parameters of two halves of the motions differ.

``torques``: three arms, two thirds of each log fitted and the last third predicted; from clones of
github.com/thanhndv212/figaroh-examples (Stäubli TX40, TIAGo) and
github.com/Zeyu1-oss/dynamics_calibration_airbot (AIRBOT Play). Compared are the model as it comes,
the calibration, and weighted least squares with the same terms: free, and with armatures and
frictions that are not negative; inertias are free in both. Motor 6 of the TX40 turns joints 5 and
6: its rotor and its friction are those of a tendon.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import resource
import tempfile
import time
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import mujoco
import numpy as np
import scipy.optimize
from numpy.typing import NDArray
from shared.common import DATA, ROOT, AnyOf, Floats, Table, ends, names_of, run, verdict

from sysid_ros.cli.main import main as sysid
from sysid_ros.config.files import validate
from sysid_ros.config.schema import CalibrationConfig, SolverConfig
from sysid_ros.fit.fit import FitOptions
from sysid_ros.fit.observer import Nobody
from sysid_ros.fit.solver import SolverSettings
from sysid_ros.model.loading import compile_spec
from sysid_ros.model.targets import Unknown, make_unknowns
from sysid_ros.results.result import CalibrationResult
from sysid_ros.signals import SignalType, TimeSeries, Trajectory
from sysid_ros.simulation.prediction import make_simulator, predict
from sysid_ros.uncertainty.inference import Identification, identify
from sysid_ros.workflows.calibrate import calibrate
from sysid_ros.workflows.calibrate import identify as identify_robot
from sysid_ros.workflows.estimators import estimated
from sysid_ros.workflows.problem import Problem, load
from sysid_ros.workflows.validation import leave_out

_FOLDED = AnyOf(('servo_sysid', 'go2_iit'))
#: Positions of the servo's log are in half turns.
_HALF_TURN = np.pi
#: The chirp of the quadruped is cut into so many pieces.
_PIECES = 8
#: Gain of the quadruped's position loop in the nominal model, N·m/rad.
_GAIN = 25.0


class Robot(NamedTuple):
    """A robot with its recordings.

    Attributes:
        spec: The nominal model.
        unknowns: What is identified.
        families: Name of what is held out together to its sequences.
    """

    spec: mujoco.MjSpec
    unknowns: tuple[Unknown, ...]
    families: Mapping[str, tuple[Trajectory, ...]]


def servo(folder: Path) -> Robot:
    """Return the servo pendulum: 96 runs of six kinds of motion, at 50 Hz."""
    path = folder / 'desc' / 'robot.xml'
    spec = mujoco.MjSpec.from_file(str(path))
    model = compile_spec(spec, path)
    log = json.loads((folder / 'dataset' / 'response.json').read_text())
    period = 1.0 / log['config']['action_hz']
    families: dict[str, list[Trajectory]] = {}
    for number, one in enumerate(log['data']):
        commands = _HALF_TURN * np.array(one['actions'])
        measured = _HALF_TURN * np.array(one['sensor_data'])
        times = period * np.arange(len(commands))
        sequence = Trajectory(
            f'{one["type"]}_{number}',
            0,
            measured[:1],
            np.zeros(1),
            (TimeSeries.from_columns(times, commands, ['servo'], SignalType.MjCtrl),),
            (TimeSeries.from_columns(times, measured, ['servo-pos']),),
            # Every run starts at rest: the filter holds where the arm is.
            initial_act=measured[:1],
        )
        families.setdefault(one['type'], []).append(sequence)
    bounds = {
        'joint/servo/armature': (0.0, 0.5),
        'joint/servo/damping': (0.0, 5.0),
        'joint/servo/frictionloss': (0.0, 1.0),
        'actuator/servo/kp': (1.0, 300.0),
        'actuator/servo/kv': (0.0, 20.0),
        'actuator/servo/dynprm[0]': (1e-3, 0.5),
        'actuator/servo/delay': (0.0, 0.1),
    }
    unknowns = [u for path, own in bounds.items() for u in make_unknowns(path, model, bounds=own)]
    return Robot(spec, tuple(unknowns), {name: tuple(runs) for name, runs in families.items()})


def quadruped(folder: Path) -> Robot:
    """Return the quadruped: one chirp of 23 s at 200 Hz on twelve joints, cut into pieces."""
    # Hangs in the air: the trunk does not move, and nothing is touched. Meshes are not included.
    text = (folder / 'go2.xml').read_text()
    text = re.sub(r'<freejoint/>', '', text)
    text = re.sub(r'<mesh [^>]*/>|<geom [^>]*mesh=[^>]*/>', '', text)
    text = re.sub(r'<(keyframe|sensor)>.*?</\1>', '', text, flags=re.DOTALL)
    spec = mujoco.MjSpec.from_string(text)
    spec.option.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONTACT
    for actuator in spec.actuators:
        actuator.set_to_position(kp=_GAIN)
        actuator.ctrllimited = 0
        sensor = spec.add_sensor()
        sensor.name = actuator.name
        sensor.type = mujoco.mjtSensor.mjSENS_JOINTPOS
        sensor.objtype = mujoco.mjtObj.mjOBJ_JOINT
        sensor.objname = actuator.target
    spec.option.timestep = 0.0025
    spec.option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    model = spec.compile()
    log = np.load(folder / 'traj_0.npz')
    times = np.asarray(log['time'], dtype=np.float64)
    names = names_of(model, 'actuator')
    pieces = np.array_split(np.arange(len(times)), _PIECES)
    families = {
        f'piece {number + 1}': (_piece(log, times, rows, names, model, number),)
        for number, rows in enumerate(pieces)
    }
    unknowns = [
        unknown
        for pattern, bounds in (
            ('joint/*/armature', (0.0, 0.2)),
            ('joint/*/damping', (0.0, 10.0)),
            ('joint/*/frictionloss', (0.0, 5.0)),
            ('actuator/*/kp', (5.0, 100.0)),
        )
        for unknown in make_unknowns(pattern, model, bounds=bounds)
    ]
    delay = make_unknowns('actuator/*/delay', model, name='delay', shared=True, bounds=(0.0, 0.05))
    return Robot(spec, (*unknowns, *delay), families)


def _piece(
    log: dict[str, NDArray[np.float32]],
    times: Floats,
    rows: NDArray[np.int64],
    names: list[str],
    model: mujoco.MjModel,
    number: int,
) -> Trajectory:
    positions = np.asarray(log['dof_pos'], dtype=np.float64)
    commands = np.asarray(log['des_dof_pos'], dtype=np.float64)
    velocities = np.gradient(positions, times, axis=0)
    first = rows[0]
    start = times[first]
    qpos, qvel = np.zeros(model.nq), np.zeros(model.nv)
    for column, name in enumerate(names):
        joint = model.actuator(name).trnid[0]
        near = slice(max(first - 2, 0), first + 3)
        qpos[model.jnt_qposadr[joint]] = positions[first, column]
        qvel[model.jnt_dofadr[joint]] = velocities[near, column].mean()
    # Commands from before the start are known, which delays need.
    told = np.arange(max(first - 40, 0), rows[-1] + 1)
    return Trajectory(
        f'piece_{number + 1}',
        0,
        qpos,
        qvel,
        (TimeSeries.from_columns(times[told] - start, commands[told], names, SignalType.MjCtrl),),
        (TimeSeries.from_columns(times[rows] - start, positions[rows], names),),
    )


def _errors(robot: Robot, runs: Sequence[Trajectory], x: Floats | None) -> list[Floats]:
    """Return (n, k) measured minus predicted of every sequence, in rad."""
    found = predict(robot.spec, runs, () if x is None else robot.unknowns, x)
    return [
        own.measurements[0].data - prediction.channels[0][0]
        for own, prediction in zip(runs, found, strict=True)
    ]


def _rms(parts: Sequence[Floats]) -> float:
    """Return the root mean square of what is finite."""
    values = np.concatenate([part.ravel() for part in parts])
    return float(np.sqrt(np.nanmean(values**2)))


def folds(*, data: Path = DATA, only: AnyOf = _FOLDED, every: int = 1) -> bool:
    """Leave out one kind of motion after the other; take every n-th run of each."""
    passed = True
    for name in only:
        if not (data / name).is_dir():
            print(f'Expected {name} in {str(data)!r}, found none.')
            continue
        robot = {'servo_sysid': servo, 'go2_iit': quadruped}[name](data / name)
        thinned = {key: runs[::every] for key, runs in robot.families.items()}
        passed &= _report_folds(name, robot._replace(families=thinned))
    return passed


def _report_folds(name: str, robot: Robot) -> bool:
    """Print what a robot's data say; return whether held-out error is below the nominal one."""
    runs = [own for family in robot.families.values() for own in family]
    seconds = sum(own.duration for own in runs)
    print(f'\n{name}: {len(runs)} runs, {seconds:.0f} s, {len(robot.unknowns)} unknowns')
    began = time.monotonic()
    # What no model of this kind follows, as backlash, counts less.
    settings = SolverSettings(max_iterations=30, loss='huber')
    full: Identification = identify(
        robot.spec, robot.unknowns, runs, options=FitOptions(settings=settings)
    )
    parts = _errors(robot, runs, full.solution.x)
    before = np.concatenate([part[:-1].ravel() for part in parts])
    after = np.concatenate([part[1:].ravel() for part in parts])
    known = np.isfinite(before) & np.isfinite(after)
    print(
        f'all: nominal {_rms(_errors(robot, runs, None)):.4f} rad, fitted {_rms(parts):.4f}; '
        f'neighbouring residuals correlate by '
        f'{np.corrcoef(before[known], after[known])[0, 1]:.2f}; '
        f'{time.monotonic() - began:.0f} s, {full.solution.status}'
    )
    table = Table('left out:12s', 'nominal:8.4f', 'in all:8.4f', 'fit to others:8.4f')
    below, values = [], []
    for family, own in robot.families.items():
        # From near the fit to all.
        ((_, found),) = leave_out(robot.spec, runs, {family: own}, full, SolverConfig())
        values.append(found)
        scores = [_rms(_errors(robot, own, x)) for x in (None, full.solution.x, values[-1])]
        table.row(family, *scores)
        below.append(scores[2] < scores[0])
    spread = np.std(values, axis=0, ddof=1)
    table = Table('parameter:32s', 'value:9.4g', '+-:9.2g', 'over folds:9.2g', 'verdict:s')
    low, high = ends(full.intervals)
    for place, interval in enumerate(full.intervals):
        row = (full.solution.x[place], (high - low)[place] / 2, spread[place])
        said = f'{interval.verdict} {interval.explanation}'
        table.row(robot.unknowns[place].name, *row, said)
    text = f'held-out error below the nominal one on {sum(below)} of {len(below)}'
    return verdict(all(below), text)


PARAMETERS = [
    {'target': 'actuator/*/kp', 'shared': True, 'initial': 15, 'bounds': [1, 2000], 'scale': 'log'},
    {'target': 'actuator/*/kv', 'initial': 0.5},
    {'target': 'joint/*/frictionloss'},
    {
        'target': 'joint/*/solimpfriction',
        'shared': True,
        'initial': 0.999,
        'prior': {'std': 1e-4},
    },
]


def _mapping(data: Path) -> str:
    """Return what ``sysid map`` writes for the motion in which joints move one by one most."""
    path = str(Path(tempfile.mkdtemp()) / 'mapping.yaml')
    bag, model = str(data / 'bags' / 'multisine'), str(data / 'so101.xml')
    with contextlib.redirect_stdout(io.StringIO()):
        sysid(['map', bag, model, '-o', path])
    return path


def _calibrated(
    data: Path, train: Iterable[str], test: str | None = None, limit: float = 0.0
) -> CalibrationResult:
    """Calibrate with some motions, holding one out, in so many seconds."""
    config = _config(data, train, test, limit)
    began = time.monotonic(), time.process_time()
    result = identify_robot(config).result
    spent = time.monotonic() - began[0], time.process_time() - began[1]
    print(
        f'{result.standing.value}; {result.solver.message} {result.solver.rollouts} rollouts; '
        f'{spent[0]:.0f} s, {spent[1]:.0f} processor s',
        flush=True,
    )
    for check in result.gate:
        if not check.passed:
            print(f'  {check.name}: {check.text}')
    return result


def _config(
    data: Path, train: Iterable[str], test: str | None, limit: float = 0.0
) -> CalibrationConfig:
    bags: list[dict[str, Any]] = [
        {'path': str(data / 'bags' / name), 'role': 'train'} for name in train
    ]
    if test is not None:
        bags.append({'path': str(data / 'bags' / test), 'role': 'validate'})
    content = {
        'model': str(data / 'so101.xml'),
        'mapping': _mapping(data),
        'bags': bags,
        'parameters': PARAMETERS,
        'sensors': ['*_position'],
        'solver': {'loss': 'soft_l1', 'timestep': 'auto', 'time': limit or None},
        'validation': {'leave_out': 'none', 'horizon': []},
        'output': tempfile.mkdtemp(),
    }
    return validate(CalibrationConfig, content, 'benchmark')


def _joint_errors(problem: Problem, values: dict[str, float]) -> dict[str, Floats]:
    """Return the (joints,) mean absolute errors of each held-out sequence, mrad."""
    sequences = problem.sequences('validate')
    x = np.array([values.get(unknown.name, unknown.nominal) for unknown in problem.parameters])
    found = {}
    for sequence, simulated in zip(
        sequences, predict(problem.spec, sequences, problem.parameters, x), strict=True
    ):
        joints = []
        for series, channels in zip(sequence.measurements, simulated.channels, strict=True):
            place = 0
            for _, columns in series.signal_mapping.values():
                for column in columns:
                    apart = channels[0][:, place] - series.data[:, column]
                    joints.append(1e3 * float(np.nanmean(np.abs(apart))))
                    place += 1
        found[sequence.name] = np.array(joints)
    return found


def _leave_each_out(data: Path, names: list[str], only: list[str], limit: float) -> None:
    """Predict motions by the others, and print the errors."""
    every = []
    for test in only or names:
        problem = load(_config(data, [n for n in names if n != test], test), Nobody())
        print(f'{test}: ', end='', flush=True)
        result = _calibrated(data, [name for name in names if name != test], test, limit)
        values = {parameter.name: parameter.value for parameter in result.parameters}
        for found in _joint_errors(problem, values).values():
            print(f'  {"  ".join(f"{e:5.1f}" for e in found)}   mean {found.mean():5.2f}')
            every.append(found.mean())
    print(f'mean {np.mean(every):.2f}, worst {np.max(every):.2f} mrad')


def _compare_halves(data: Path, names: list[str], limit: float) -> None:
    """Compare the parameters of two halves of the motions."""
    first, second = (_calibrated(data, names[k::2], limit=limit) for k in (0, 1))
    for one, other in zip(first.parameters, second.parameters, strict=True):
        error = np.hypot(one.high - one.low, other.high - other.low) / (2 * 1.96)
        print(
            f'{one.name:32} {one.value:9.4g} [{one.low:9.4g}, {one.high:9.4g}]  '
            f'{other.value:9.4g} [{other.low:9.4g}, {other.high:9.4g}]  '
            f'{abs(one.value - other.value) / error:6.1f}'
        )


def hobby_arm(
    *,
    data: Path = DATA,
    limit: float = 0.0,
    only: list[str] = [],  # noqa: B006 (is only read)
    halves: bool = False,
) -> None:
    """Predict motions by the others, or compare two halves.

    A fit takes --limit seconds at most; --only names the motions to leave out.
    """
    data = data / 'so101'
    if not (data / 'bags').is_dir():
        print(f'There are no recordings in {data}.')
        return
    names = sorted(path.name for path in (data / 'bags').iterdir())
    print('busy:', os.getloadavg())
    if halves:
        _compare_halves(data, names, limit)
    else:
        _leave_each_out(data, names, only, limit)


TERMS = ('joint/*/armature', 'joint/*/damping', 'joint/*/frictionloss', 'sensor/*_effort/bias')
TINY, RIDGE = 1e-9, 1e-6
WINDOWS = (0.1, 0.5)


class Log(NamedTuple):
    """A robot and what it recorded.

    Attributes:
        model: MJCF.
        joints: Names, k of them, …
        bodies: … and patterns of the links that they move.
        time: (n,) s.
        values: (n, 2 k) or (n, 3 k) positions, then velocities where they were recorded, torques.
        more: Other parameters.
    """

    model: str
    joints: tuple[str, ...]
    bodies: tuple[str, ...]
    time: Floats
    values: Floats
    more: tuple[str, ...] = ()


def bare(path: Path) -> mujoco.MjSpec:
    """Return a URDF without shapes, whose files are often elsewhere."""
    root = ET.parse(path).getroot()  # noqa: S314 (a file of the user's)
    for link in root.iter('link'):
        for shape in (*link.findall('visual'), *link.findall('collision')):
            link.remove(shape)
    for numbers in root.findall('link/inertial/inertia'):
        entries = [
            [float(numbers.get(f'i{min(a, b)}{max(a, b)}', 0)) for a in 'xyz'] for b in 'xyz'
        ]
        if np.linalg.eigvalsh(entries)[0] < TINY:
            numbers.attrib.update({'ixx': '1e-4', 'iyy': '1e-4', 'izz': '1e-4'})
            numbers.attrib.update({'ixy': '0', 'ixz': '0', 'iyz': '0'})
    options = ET.SubElement(ET.SubElement(root, 'mujoco'), 'compiler')
    options.set('boundinertia', '1e-4')
    options.set('balanceinertia', 'true')
    spec = mujoco.MjSpec.from_string(ET.tostring(root, encoding='unicode'))
    spec.option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    return spec


def text_of(spec: mujoco.MjSpec) -> str:
    """Return a model with the inertias that its file's compile to, by no rule any more."""
    model = spec.compile()
    for body in spec.bodies[1:]:
        row = body.id
        body.explicitinertial = True
        body.mass, body.ipos = model.body_mass[row], model.body_ipos[row]
        body.iquat, body.inertia = model.body_iquat[row], model.body_inertia[row]
        body.fullinertia = np.full(6, np.nan)
    spec.compiler.boundinertia, spec.compiler.balanceinertia = 0.0, False
    return spec.to_xml()


def add_motor(spec: mujoco.MjSpec, joint: str) -> None:
    """Add a motor."""
    spec.add_actuator(
        name=f'{joint}_motor', target=joint, trntype=mujoco.mjtTrn.mjTRN_JOINT
    ).set_to_motor()


def tx40(data: Path) -> Log:
    """Return 9 s of a Stäubli TX40; currents are in N·m of the motors."""
    folder = data / 'figaroh-examples' / 'examples' / 'staubli_TX40'
    spec = bare(folder / 'urdf' / 'tx40_mdh_modified.urdf')
    spec.option.timestep = 0.0002
    joints = tuple(f'joint_{number}' for number in range(1, 7))
    tendon = spec.add_tendon(name='motor_6')
    for joint in joints[4:]:
        tendon.wrap_joint(joint, 1.0)
    for joint in joints[:5]:
        add_motor(spec, joint)
    spec.add_actuator(
        name='joint_6_motor', target='motor_6', trntype=mujoco.mjtTrn.mjTRN_TENDON
    ).set_to_motor()
    read = {
        name: np.loadtxt(folder / 'data' / f'{name}_data.csv', delimiter=',', skiprows=1)
        for name in ('pos_read', 'curr')
    }
    ratios = np.diag([32.0, 32.0, 45.0, -48.0, 45.0, 32.0])
    ratios[5, 4] = 32.0
    positions = read['pos_read'] @ np.linalg.inv(ratios).T
    positions += np.pi / 2 * np.array([0, -1, 1, 0, 0, 0])
    values = np.concatenate([positions, read['curr'] @ ratios], axis=1)
    time_ = 0.0002 * np.arange(len(values))
    more = tuple(f'tendon/motor_6/{name}' for name in ('armature', 'damping', 'frictionloss'))
    return Log(text_of(spec), joints, ('link_*',), time_, values, more)


def tiago(data: Path) -> Log:
    """Return 60 s of torso and arm of a TIAGo; efforts are currents."""
    folder = data / 'figaroh-examples' / 'examples' / 'tiago'
    spec = bare(folder / 'urdf' / 'tiago_48_schunk.urdf')
    joints = ('torso_lift_joint', *(f'arm_{number}_joint' for number in range(1, 8)))
    for joint in joints:
        add_motor(spec, joint)
    read = [
        np.loadtxt(
            folder / 'data' / 'identification' / 'dynamic' / f'tiago_{name}.csv',
            delimiter=',',
            skiprows=1,
        )[921:6791]
        for name in ('position', 'velocity', 'effort')
    ]
    constants = [1, *100 * np.array([0.136, 0.136, -0.087, -0.087]), *3 * [336 * -0.0613]]
    read[2][:, 1:] *= constants
    values = np.concatenate([part[:, 1:] for part in read], axis=1)
    bodies = ('torso_lift_link', 'arm_*_link')
    return Log(text_of(spec), joints, bodies, read[0][:, 0], values)


def airbot(data: Path) -> Log:
    """Return 25 s of an AIRBOT Play."""
    folder = data / 'dynamics_calibration_airbot'
    path = folder / 'models' / 'mjcf' / 'manipulator' / 'airbot_play_force' / '_play_force.xml'
    root = ET.parse(path).getroot()  # noqa: S314 (a file of the user's)
    for tag in ('asset', 'sensor'):
        for section in root.findall(tag):
            root.remove(section)
    for around in root.iter():
        for shape in around.findall('geom'):
            if around.tag != 'default':
                around.remove(shape)
    text = ET.tostring(root, encoding='unicode')
    read = np.loadtxt(folder / 'state_machine_demo' / 'real_data' / 'vali_opt.csv', delimiter=',')
    joints = tuple(f'joint{number}' for number in range(1, 7))
    return Log(text, joints, ('link*',), read[:, 0], read[:, 1:19])


ROBOTS: dict[str, Callable[[Path], Log]] = {'tx40': tx40, 'tiago': tiago, 'airbot': airbot}


def written(log: Log, folder: Path) -> CalibrationConfig:
    """Write a log as a user would have it, two thirds to train and one to validate."""
    kinds = ('pos', 'vel', 'effort') if log.values.shape[1] == 3 * len(log.joints) else None
    names = [f'{joint}_{kind}' for kind in kinds or ('pos', 'effort') for joint in log.joints]
    rows = np.column_stack([log.time - log.time[0], log.values])
    split = 2 * len(rows) // 3
    for name, part in (('train', rows[:split]), ('validate', rows[split:])):
        head = ','.join(['t', *names])
        np.savetxt(folder / f'{name}.csv', part, '%.10g', ',', header=head, comments='')
    (folder / 'arm.xml').write_text(log.model, encoding='utf-8')
    values: dict[str, Any] = {
        'model': folder / 'arm.xml',
        'bags': [
            {'path': str(folder / 'train.csv')},
            {'path': str(folder / 'validate.csv'), 'role': 'validate'},
        ],
        'parameters': [
            {'target': target}
            for target in (*terms(log), *(f'body/{body}/inertia' for body in log.bodies))
        ],
        'estimator': 'torque',
        'output': folder / 'out',
        'solver': {'threads': 1},
    }
    return validate(CalibrationConfig, values, 'the benchmark')


def terms(log: Log) -> tuple[str, ...]:
    """Return the parameters of joints that are in the log, and others."""
    own = (t.replace('*', joint, 1) for t in TERMS for joint in log.joints)
    return (*own, *log.more)


def regression(config: CalibrationConfig, *, brakes: bool) -> dict[str, float]:
    """Return the held-out errors of weighted least squares with the same terms, by sensor.

    Args:
        config: Of the calibration.
        brakes: Whether armatures and frictions of joints and tendons are held above zero.
    """
    seen = estimated(config, load(config, Nobody())).problem
    spec = seen.spec
    joints = len(seen.model.dof_armature)

    def equations(role: str) -> list[tuple[str, Floats, Floats]]:
        with make_simulator(spec, (), list(seen.sequences(role)), 1) as simulator:
            return [
                (n, lines[:, :-joints], force)
                for n, (lines, force) in simulator.equations().items()
            ]

    train, unseen = equations('train'), equations('validate')
    sigma = np.ones(len(train))
    for _ in range(3):
        rows = []
        for place, (_, matrix, measured) in enumerate(train):
            offset = np.tile(np.eye(len(train))[place], (len(measured), 1))
            rows.append(np.column_stack([matrix, offset, measured]) / sigma[place])
        both = np.concatenate(rows)
        size = np.linalg.norm(both[:, :-1], axis=0) + TINY
        count = len(size) - len(train)
        low = np.full(len(size), -np.inf)
        if brakes:
            low[seen.model.nbody * 10 : count] = 0.0
        bounds = low, np.full(len(size), np.inf)
        # A little of a ridge decides what motion does not.
        ridge = np.column_stack([RIDGE * np.eye(len(size)), np.zeros(len(size))])
        scaled = np.concatenate([both / np.append(size, 1.0), ridge])
        x = scipy.optimize.lsq_linear(scaled[:, :-1], scaled[:, -1], bounds).x / size
        sigma = np.array(
            [np.std(m @ x[:count] + x[count + k] - f) for k, (_, m, f) in enumerate(train)]
        )
    offsets = {name: x[count + k] for k, (name, _, _) in enumerate(train)}
    return {
        name: float(np.sqrt(np.mean((matrix @ x[:count] + offsets[name] - measured) ** 2)))
        for name, matrix, measured in unseen
    }


def _report_torques(name: str, log: Log) -> None:
    """Print what is left of the held-out torques."""
    with tempfile.TemporaryDirectory() as folder:
        config = written(log, Path(folder))
        begun, wall = time.process_time(), time.perf_counter()
        result = calibrate(config).result
        seconds, wall = time.process_time() - begun, time.perf_counter() - wall
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        free, best = (regression(config, brakes=brakes) for brakes in (False, True))
    errors = {e.sensor: e for e in result.errors if e.role == 'validate'}
    # Forces that say nothing are not compared.
    names = [f'{joint}_effort' for joint in log.joints if f'{joint}_effort' in errors]
    verdict = 'accepted' if result.accepted else 'rejected'
    print(f'{name}: {verdict}, {seconds:.0f} processor s ({wall:.0f} s), at most {memory:.2f} GB')
    for title, values in (
        ('nominal', [errors[n].before for n in names]),
        ('free', [free[n] for n in names]),
        ('regression', [best[n] for n in names]),
        ('calibrated', [errors[n].after for n in names]),
        ('ratio', [errors[n].after / best[n] for n in names]),
    ):
        print(f'  {title:12}', ' '.join(f'{value:7.3f}' for value in values))
    for point in result.horizon:
        if point.role == 'validate' and point.seconds in WINDOWS:
            share = point.after / point.before
            print(f'  motion after {point.seconds} s: {share:.2f} of the nominal error')
    for check in result.gate:
        if not check.passed:
            print(f'  {check.name}: {check.text}')


def torques(*, data: Path = ROOT.parent / 'real', robots: AnyOf = AnyOf(ROBOTS)) -> None:  # noqa: B008
    """Fit and predict torques of the arms whose logs are there."""
    for name in robots:
        try:
            log = ROBOTS[name](data)
        except FileNotFoundError as err:
            print(f'{name}: skipped, {err.filename} is not there; see --help for --data.')
            continue
        _report_torques(name, log)


if __name__ == '__main__':
    run(__doc__, folds, hobby_arm, torques)
