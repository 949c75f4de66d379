# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Torques of three real arms, two thirds of each log fitted and the last third predicted.

The logs are not part of the project. ``--data DIR`` is a folder with clones of
github.com/thanhndv212/figaroh-examples (Stäubli TX40, TIAGo) and
github.com/Zeyu1-oss/dynamics_calibration_airbot (AIRBOT Play); what is not there is skipped.
Compared are the model as it comes, the calibration, and weighted least squares with the same terms:
free, and with armatures and frictions that are not negative; inertias are free in both. Motor 6 of
the TX40 turns joints 5 and 6: its rotor and its friction are those of a tendon.
"""

from __future__ import annotations

import argparse
import os
import resource
import tempfile
import time
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import mujoco
import numpy as np
import scipy.optimize
from numpy.typing import NDArray

from sysid_ros.config import CalibrationConfig, validate
from sysid_ros.identification.observer import Nobody
from sysid_ros.pipeline.calibration import calibrate
from sysid_ros.pipeline.estimators import estimated
from sysid_ros.pipeline.loading import load
from sysid_ros.rollout.prediction import make_simulator

DATA = Path(os.environ.get('SYSID_REAL_DATA', Path(__file__).parents[3] / 'real'))
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
    time: NDArray[np.float64]
    values: NDArray[np.float64]
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

    def equations(role: str) -> list[tuple[str, NDArray[np.float64], NDArray[np.float64]]]:
        with make_simulator(spec, (), list(seen.sequences(role)), 1) as simulator:
            return [
                (n, e.matrix[:, :-joints], e.measured) for n, e in simulator.equations().items()
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


def run(name: str, log: Log) -> None:
    """Print what is left of the held-out torques."""
    with tempfile.TemporaryDirectory() as folder:
        config = written(log, Path(folder))
        begun, wall = time.process_time(), time.perf_counter()
        result = calibrate(config).result
        seconds, wall = time.process_time() - begun, time.perf_counter() - wall
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        free, best = (regression(config, brakes=brakes) for brakes in (False, True))
    errors = {e.sensor: e for e in result.errors if e.role == 'validate'}
    names = [f'{joint}_effort' for joint in log.joints]
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
            print(f'  {check.name}: {check.detail}')


def main() -> None:
    """Run what is there."""
    parser = argparse.ArgumentParser(description=(__doc__ or '').partition('\n')[0])
    parser.add_argument('robots', nargs='*', default=list(ROBOTS), help=', '.join(ROBOTS))
    parser.add_argument('--data', type=Path, default=DATA)
    asked = parser.parse_args()
    for name in asked.robots:
        try:
            log = ROBOTS[name](asked.data)
        except FileNotFoundError as err:
            print(f'{name}: skipped, {err.filename} is not there; see --help for --data.')
            continue
        run(name, log)


if __name__ == '__main__':
    main()
