# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Models as they are shipped, mapped and calibrated: the MJCFs of two wheels, and URDFs.

No file is edited. A robot with the model's masses and other gains, armatures and damping moves; its
joint states and commands become bags: positions for a model without actuators, and torques, which a
controller chose, for one with motors. The mapping that is proposed is used as it is, the fit starts
at the model, and what was written is simulated again: a URDF as MuJoCo itself reads it.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import mujoco
import numpy as np
from numpy.typing import NDArray
from rosbags.typesys import Stores, get_typestore

from sysid_ros.alignment.mapping.proposal import propose_with_actuators, to_yaml
from sysid_ros.alignment.pairs import PairRole
from sysid_ros.bags import read_bag
from sysid_ros.bags.writer import BagWriter
from sysid_ros.config import CalibrationConfig, validate
from sysid_ros.errors import SysidError
from sysid_ros.model.implied import (
    ActuatorKind,
    add_actuators,
    free_joints,
)
from sysid_ros.model.loading import load_spec
from sysid_ros.model.mjcf.write import write_model
from sysid_ros.pipeline.calibration import identify

STATE, COMMAND = '/joint_states', '/joint_commands'
JOINT_STATE = 'sensor_msgs/msg/JointState'
ORIGIN_NS = 1_700_000_000_000_000_000
SECONDS, RATE = 3.0, 100
#: A URDF that is written and the MJCF beside it move alike up to this, rad or m.
SAME = 1e-6
#: Torques are commanded more often than positions.
COMMAND_RATES = {ActuatorKind.POSITION: 50, ActuatorKind.EFFORT: 100}
#: Only so many joints of a robot are unlike their model: more take long, and tell no more.
UNLIKE = 3
#: Motors have at least about this inertia at their joint, kg·m² or kg.
ROTOR = 0.01
#: The controller that chooses torques follows so fast, rad/s.
FOLLOWING = 2 * np.pi * 3.0
URDFS = Path(__file__).parents[1] / 'test' / 'data' / 'urdf'
WHEELS = {
    name: ('robosuite', f'models/assets/robots/{name}/robot.xml')
    for name in (
        *('baxter', 'gr1', 'iiwa', 'jaco', 'kinova3', 'panda', 'sawyer', 'spot', 'spot_arm'),
        *('tiago', 'ur5e', 'xarm7'),
    )
} | {
    name: ('mjlab', f'asset_zoo/robots/{inside}.xml')
    for name, inside in (
        ('yam', 'i2rt_yam/xmls/yam'),
        ('go1', 'unitree_go1/xmls/go1'),
        ('g1', 'unitree_g1/xmls/g1'),
    )
}
_TYPES = get_typestore(Stores.ROS2_JAZZY)


class Robot(NamedTuple):
    """A robot that is unlike its model.

    Attributes:
        model: What moves, compiled; its actuators are in the order of the joints.
        joints: Names of those that are driven.
        kind: What they are told.
        truth: Target to the value that is to be found.
    """

    model: mujoco.MjModel
    joints: list[str]
    kind: ActuatorKind
    truth: dict[str, float]


class Row(NamedTuple):
    """What became of a model: pairs, parameters, held-out errors, and what went wrong."""

    name: str
    right: int
    pairs: int
    inside: int
    parameters: int
    before: float
    after: float
    seconds: float
    trouble: str

    def __str__(self) -> str:
        """Return a line of the table."""
        return (
            f'{self.name:12} {self.right:3}/{self.pairs:<3} {self.inside:3}/{self.parameters:<3} '
            f'{self.before:9.3g} {self.after:9.3g} {self.seconds:6.1f}  {self.trouble}'
        )


def path_of(name: str) -> Path:
    """Return the file of a model in a wheel."""
    package, inside = WHEELS[name]
    found = importlib.util.find_spec(package)
    if found is None or found.origin is None:
        sys.exit('pip install --no-deps robosuite mjlab')
    return Path(found.origin).parent / inside


def make_robot(path: Path, rng: np.random.Generator) -> Robot:
    """Make a robot of a model's file whose first joints differ from it."""
    spec = load_spec(path)
    kind = ActuatorKind.EFFORT if spec.actuators else ActuatorKind.POSITION
    add_actuators(spec, [f'{joint}_{kind}' for joint in free_joints(spec)])
    driven = {a.target: a for a in spec.actuators if a.trntype == mujoco.mjtTrn.mjTRN_JOINT}
    joints = [joint for joint in free_joints(spec) if joint in driven]
    own = inertias(spec.copy().compile(), joints)
    truth = {}
    for joint, inertia in list(zip(joints, own, strict=True))[:UNLIKE]:
        entry, actuator = spec.joint(joint), driven[joint]
        entry.armature = float(entry.armature + max(inertia, ROTOR) * rng.uniform(0.1, 0.5))
        truth[f'joint/{joint}/armature'] = entry.armature
        if kind is ActuatorKind.POSITION:
            stiffness = float(-actuator.biasprm[1] * rng.uniform(0.6, 1.6))
            damping = float(-actuator.biasprm[2] * rng.uniform(0.7, 1.4))
            actuator.set_to_position(kp=stiffness, kv=damping)
            truth[f'actuator/{actuator.name}/kp'] = stiffness
            truth[f'actuator/{actuator.name}/kv'] = damping
        else:
            damping = float(entry.damping[0] + inertia * rng.uniform(1.0, 4.0))
            entry.damping = [damping, *entry.damping[1:]]
            truth[f'joint/{joint}/damping'] = damping
    return Robot(spec.compile(), joints, kind, truth)


def inertias(model: mujoco.MjModel, joints: list[str]) -> NDArray[np.float64]:
    """Return what moves at each joint when nothing else is held, kg·m² or kg."""
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    inverse = np.eye(model.nv)
    mujoco.mj_solveM(model, data, inverse, inverse.copy())
    dofs = [model.joint(joint).dofadr[0] for joint in joints]
    return 1 / inverse[dofs, dofs]


def record(robot: Robot, folder: Path, rng: np.random.Generator) -> None:
    """Move a robot and write the bag."""
    model, joints = robot.model, robot.joints
    data = mujoco.MjData(model)
    rows = [model.joint(joint) for joint in joints]
    qpos, dofs = ([int(getattr(r, field)[0]) for r in rows] for field in ('qposadr', 'dofadr'))
    ids = [int(np.flatnonzero(model.actuator_trnid[:, 0] == row.id)[0]) for row in rows]
    ranges = np.array([r.range if model.jnt_limited[r.id] else (-3.0, 3.0) for r in rows])
    start = np.clip(data.qpos[qpos], ranges[:, 0], ranges[:, 1])
    middle, reach = start.copy(), 0.25 * np.minimum(np.ptp(ranges, axis=1), 3.0)
    middle = np.clip(middle, ranges[:, 0] + reach, ranges[:, 1] - reach)
    data.qpos[qpos] = middle
    phases = rng.uniform(0, 2 * np.pi, (len(joints), 3))
    rates = 2 * np.pi * rng.uniform(0.2, 1.2, (len(joints), 3))
    stiffness = inertias(model, joints) * FOLLOWING**2
    # Slides are read finer than hinges.
    fine = np.where(
        model.jnt_type[[row.id for row in rows]] == mujoco.mjtJoint.mjJNT_SLIDE, 0.05, 1
    )
    noise = 2e-4 * fine, 5e-3 * fine, 2e-3 * stiffness * fine
    command_rate, step = COMMAND_RATES[robot.kind], model.opt.timestep
    with BagWriter(folder) as bag:
        for topic in (STATE, COMMAND):
            bag.add_topic(topic, JOINT_STATE)
        for tick in range(round(SECONDS / step)):
            at = tick * step
            if tick % max(1, round(1 / (command_rate * step))) == 0:
                swing = np.sin(rates * at + phases) - np.sin(phases)
                wanted = middle + 0.5 * reach * swing.mean(axis=1)
                if robot.kind is ActuatorKind.EFFORT:
                    away = wanted - data.qpos[qpos]
                    wanted = stiffness * away - 2 * stiffness / FOLLOWING * data.qvel[dofs]
                    wanted += data.qfrc_bias[dofs]
                    free = ~model.actuator_ctrllimited[ids].astype(bool)
                    limits = np.where(
                        free[:, None], (-np.inf, np.inf), model.actuator_ctrlrange[ids]
                    )
                    wanted = np.clip(wanted, *limits.T)
                data.ctrl[ids] = wanted
                empty = np.zeros(0)
                positions = robot.kind is ActuatorKind.POSITION
                told = (wanted, empty, empty) if positions else (empty, empty, wanted)
                send(bag, COMMAND, at, joints, told)
            if tick % max(1, round(1 / (RATE * step))) == 0:
                mujoco.mj_forward(model, data)
                told = data.qpos[qpos], data.qvel[dofs], data.qfrc_actuator[dofs]
                noisy = [v + s * rng.normal(size=len(v)) for v, s in zip(told, noise, strict=True)]
                send(bag, STATE, at, joints, noisy)
            mujoco.mj_step(model, data)


def send(bag: BagWriter, topic: str, at: float, joints: list[str], told: Any) -> None:
    """Write a JointState."""
    stamp = ORIGIN_NS + round(1e9 * at)
    types = _TYPES.types
    seconds, rest = divmod(stamp, 1_000_000_000)
    time_of = types['builtin_interfaces/msg/Time'](sec=seconds, nanosec=rest)
    header = types['std_msgs/msg/Header'](stamp=time_of, frame_id='')
    message = types[JOINT_STATE](header, joints, *(np.asarray(part, float) for part in told))
    bag.write(topic, stamp + 200_000, bytes(_TYPES.serialize_cdr(message, JOINT_STATE)))


def try_model(name: str, path: Path, folder: Path, seed: int, packages: list[Path]) -> Row:
    """Record, map, calibrate, and simulate what was written."""
    rng = np.random.default_rng(seed)
    robot = make_robot(path, rng)
    begun = time.perf_counter()
    for bag in ('train', 'validate'):
        record(robot, folder / bag, rng)
    spec = load_spec(path, packages)
    proposal = propose_with_actuators(spec, path, read_bag(folder / 'train'))
    certain = {
        (pair.role, pair.name)
        for pair in proposal.pairs
        if pair.confident
        and pair.labels == (_joint_of(spec, pair.role, pair.name),)
        and (pair.scale, pair.offset) == (1.0, 0.0)
    }
    driven = {name for role, name in certain if role is PairRole.ACTUATOR}
    sensors = [name for role, name in certain if role is PairRole.SENSOR]
    right = len(driven) + sum(spec.sensor(name).objname in robot.joints for name in sensors)
    truth = {
        target: value
        for target, value in robot.truth.items()
        if target.startswith('joint/') or target.split('/')[1] in driven
    }
    mapping = folder / 'mapping.yaml'
    mapping.write_text(to_yaml(proposal, path.name))
    values = {
        'model': path,
        'package_path': packages,
        'bags': [
            {'path': str(folder / 'train')},
            {'path': str(folder / 'validate'), 'role': 'validate'},
        ],
        'mapping': mapping,
        'parameters': [
            {'target': target, 'scale': 'linear' if target.endswith('armature') else 'log'}
            if not target.endswith('damping')
            else {'target': target}
            for target in truth
        ],
        'output': folder / 'out',
    }
    done = identify(validate(CalibrationConfig, values, name))
    result, trouble = done.result, []
    inside = sum(
        found.low <= robot.truth[found.targets[0]] <= found.high for found in result.parameters
    )
    if not result.accepted:
        trouble.append(f'rejected: {result.acceptance}')
    mjcf = write_model(done.model or path, done.values, folder / 'mjcf').path
    if (urdf := mjcf.with_suffix('.urdf')).is_file():
        try:
            away = reread(urdf, mjcf)
            trouble += [f'the URDF moves otherwise: {away:.2g}'] if away > SAME else []
        except ValueError as err:
            trouble.append(f'MuJoCo refuses the URDF: {str(err).partition(chr(10))[0]}')
    pairs = 3 * len(robot.joints) + len(robot.joints)
    before, after = result.held_out_before, result.held_out_after
    spent = time.perf_counter() - begun
    return Row(
        name, right, pairs, inside, len(robot.truth), before, after, spent, '; '.join(trouble)
    )


def _joint_of(spec: mujoco.MjSpec, role: PairRole, name: str) -> str:
    if role is PairRole.SENSOR:
        return str(spec.sensor(name).objname)
    return str(spec.actuator(name).target)


def reread(urdf: Path, mjcf: Path) -> float:
    """Return how far a URDF, as MuJoCo reads it, moves away from the MJCF beside it, rad or m.

    What only the MJCF has, armatures and actuators, is added; both are pushed at each joint.
    """
    full = mujoco.MjSpec.from_file(str(mjcf))
    text = urdf.read_text()
    top = '<mujoco>' if '<mujoco>' in text else '<robot'
    inside = text.index('>', text.index(top)) + 1
    kept = '<compiler fusestatic="false" balanceinertia="true"/>'
    kept = kept if top == '<mujoco>' else f'<mujoco>{kept}</mujoco>'
    own = mujoco.MjSpec.from_string(text[:inside] + kept + text[inside:])
    for shape in [*own.geoms, *own.meshes]:
        own.delete(shape)
    own.option.timestep = full.option.timestep
    for joint in own.joints:
        joint.armature = full.joint(joint.name).armature
    moved = []
    for model in (full.compile(), own.compile()):
        data = mujoco.MjData(model)
        for tick in range(500):
            data.qfrc_applied[:] = 0.5 * np.sin(0.01 * tick + np.arange(model.nv))
            data.ctrl[:] = 0
            model.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_ACTUATION)
            mujoco.mj_step(model, data)
        moved.append(data.qpos.copy())
    return float(np.abs(moved[0] - moved[1]).max())


def main() -> None:
    """Print a row for each model, and the worst."""
    parser = argparse.ArgumentParser(description=(__doc__ or '').partition('\n')[0])
    parser.add_argument('--models', nargs='*', help='names in the wheels, or files')
    parser.add_argument('--package-path', nargs='*', type=Path, default=[])
    parser.add_argument('--seed', type=int, default=0)
    asked = parser.parse_args()
    small = {path.stem: path for path in sorted(URDFS.glob('*.urdf'))}
    known = {name: path_of(name) for name in WHEELS} | small
    chosen = asked.models or list(known)
    print(f'{"model":12} {"pairs":7} {"inside":7} {"before":>9} {"after":>9} {"s":>6}')
    rows = []
    for name in chosen:
        path = known.get(name, Path(name))
        with tempfile.TemporaryDirectory() as folder:
            try:
                row = try_model(
                    path.stem if name not in known else name,
                    path,
                    Path(folder),
                    asked.seed,
                    asked.package_path,
                )
            except SysidError as err:  # a row of the table, and the others go on
                row = Row(name, 0, 1, 0, 1, np.nan, np.nan, np.nan, str(err))
        rows.append(row)
        print(row, flush=True)
    worst = min(rows, key=lambda row: (row.right / row.pairs, row.inside / max(row.parameters, 1)))
    print(f'worst: {worst}')


if __name__ == '__main__':
    main()
