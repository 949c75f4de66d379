# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What ``sysid map`` makes of bags whose names, units, signs and orders are not the model's.

First the demo's arm, with parameters that its model does not know, in bags that are spoilt: one
joint has the wrong sign (in the states, or in states and commands), two are in degrees, one has an
offset, two have each other's names, and the commands are an array in any order. All of it is found
when every sensor and actuator has the right column, sign, unit and offset and no pair is in doubt.

Then arms from the wheels of robosuite and mjlab, which follow position commands with armatures,
friction and gains that their MJCF does not know. Their bags are renamed, permuted, given in
degrees, with currents for torques, without efforts, beside a second arm, or led by a leader. A pair
is wrong when its column, sign or unit is; a pair with a score above the confidence that is wrong is
the mistake that must not happen.
"""

from __future__ import annotations

import dataclasses
import math
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import mujoco
import numpy as np
from shared import common
from shared.arms import add_servos, in_wheel
from shared.common import DEMO, JOINT_STATE, ORIGIN_NS, AnyOf, Floats

from sysid_ros.alignment.axes import in_namespace
from sysid_ros.alignment.proposal import Proposal, propose
from sysid_ros.bags import BagColumns, Field, TopicColumns
from sysid_ros.model.loading import load_model
from sysid_ros.plant import Noise, Plant, load_truth
from sysid_ros.workflows.excitation.drives import compile_driven, load_driven
from sysid_ros.workflows.excitation.motion import sum_of_sines

STATE, COMMANDS = '/joint_states', '/arm_controller/commands'
DEGREES = 180 / math.pi
SECONDS = 10.0
#: States and commands per second.
RATE, COMMAND_RATE = 200.0, 50.0
NOISE = Noise(position=1e-4, velocity=5e-3, effort=5e-2, encoder_bits=14)
OFFSETS = (0.1, 0.6)
#: Different runs of the robot.
MOTIONS = 4
#: An offset is found when it is within this, rad.
TOLERANCE = 0.03


class Run(NamedTuple):
    """What a simulated robot did: (m,) and (m, k) commands, (n,) and (n, k) states, SI units."""

    joints: tuple[str, ...]
    told_at: Floats
    told: Floats
    times: Floats
    states: dict[str, Floats]


class Expected(NamedTuple):
    """The right column, scale and offset of a sensor or actuator."""

    label: str
    scale: float
    offset: float


def simulate(seed: int) -> Run:
    """Move the demo's arm with its hidden parameters."""
    path = DEMO / 'arm.xml'
    plant = Plant(
        path,
        load_truth(DEMO / 'truth.yaml'),
        rate=RATE,
        noise=dataclasses.replace(NOISE, seed=seed),
    )
    motion = sum_of_sines(
        compile_driven(load_driven(path), path), duration=SECONDS, seed=seed, rate=COMMAND_RATE
    )
    for moment, values in zip(motion.times, motion.commands, strict=True):
        plant.command(float(moment), values)
    samples = list(plant.advance(SECONDS))
    states = {
        kind: np.array([getattr(sample, kind) for sample in samples])
        for kind in ('position', 'velocity', 'effort')
    }
    times = np.array([sample.time for sample in samples])
    return Run(plant.joints, motion.times, motion.commands, times, states)


def spoil(run: Run, seed: int, *, effort: bool = True) -> tuple[BagColumns, dict[str, Expected]]:
    """Make a bag of a run in which much is wrong, and say what the right mapping is."""
    rng = np.random.default_rng(seed)
    count = len(run.joints)
    kinds = ('position', 'velocity', 'effort') if effort else ('position', 'velocity')
    scale = {kind: np.ones(count) for kind in (*kinds, 'told')}
    offset = np.zeros(count)
    offset[rng.integers(count)] = rng.uniform(*OFFSETS) * rng.choice((-1, 1))
    reversed_joint = rng.integers(count)
    for kind in (*kinds, 'told') if rng.random() < 0.5 else kinds:  # noqa: PLR2004 (a coin)
        scale[kind][reversed_joint] = -1.0
    for joint in rng.choice(count, 2, replace=False):
        scale['position'][joint] *= DEGREES
        scale['velocity'][joint] *= DEGREES
    labels = list(run.joints)
    first, second = rng.choice(count, 2, replace=False)
    labels[first], labels[second] = labels[second], labels[first]
    order = rng.permutation(count)
    added = {'position': offset}
    fields = tuple(
        Field(kind, tuple(labels), scale[kind] * (run.states[kind] + added.get(kind, 0.0)))
        for kind in kinds
    )
    told = Field('data', tuple(map(str, range(count))), (scale['told'] * run.told)[:, order])
    stamps, told_at = (
        ORIGIN_NS + np.round(1e9 * at).astype(int) for at in (run.times, run.told_at)
    )
    bag = BagColumns(
        Path(f'draw_{seed}'),
        (
            TopicColumns(COMMANDS, 'std_msgs/msg/Float64MultiArray', told_at, None, (told,)),
            TopicColumns(STATE, JOINT_STATE, stamps, stamps, fields),
        ),
        (),
    )
    right = {
        f'{joint}_{kind}': Expected(
            labels[row], 1 / scale[kind][row], -float(added.get(kind, np.zeros(count))[row])
        )
        for row, joint in enumerate(run.joints)
        for kind in kinds
    }
    for row, joint in enumerate(run.joints):
        column = str(int(np.flatnonzero(order == row)[0]))
        right[joint] = Expected(column, 1 / scale['told'][row], 0.0)
    return bag, right


def mistakes(proposal: Proposal, right: dict[str, Expected]) -> list[str]:
    """Say what a proposal has not found."""
    found = {pair.name: pair for pair in proposal.pairs}
    wrong = [f'{name} is missing' for name in right if name not in found]
    for name, pair in found.items():
        expected = right[name]
        same = pair.labels == (expected.label,)
        same &= math.isclose(pair.scale, expected.scale, rel_tol=1e-6)
        same &= abs(pair.offset - expected.offset) < TOLERANCE
        if not same:
            wrong.append(f'{name}: expected {expected}, found {pair}')
        elif not pair.confident:
            wrong.append(f'{name} is in doubt: {pair.score:.2f} {pair.reason}')
    return wrong


def model() -> mujoco.MjModel:
    """Return the model without the hidden parameters."""
    return compile_driven(load_driven(DEMO / 'arm.xml'), DEMO / 'arm.xml')


COMMAND = '/joint_commands'
ROBOT_SECONDS, STEP, ROBOT_RATE, ROBOT_COMMAND_RATE = 12.0, 0.002, 100, 50
ROBOTS = {
    name: ('robosuite', f'models/assets/robots/{name}/robot.xml')
    for name in ('ur5e', 'panda', 'iiwa', 'sawyer', 'jaco', 'kinova3', 'xarm7')
} | {'yam': ('mjlab', 'asset_zoo/robots/i2rt_yam/xmls/yam.xml')}
#: Names that no model has.
NAMES = ('Base', 'Arm_A', 'Arm_B', 'Forearm', 'Hand_1', 'Hand_2', 'Hand_3', 'Claw', 'Claw_2')
ROBOT_NOISE = {'position': 3e-4, 'velocity': 0.01, 'effort': 0.02}


class Variant(NamedTuple):
    """How a bag differs from its model.

    Attributes:
        named: Joints have the model's names.
        permuted: They are listed in another order.
        effort: ``torque``, ``current`` (another scale and sign for each joint) or ``none``.
        degrees: Positions, velocities and commands are in degrees.
        servos: The model has position servos, of 0.6 times the true gains, else its own motors.
        second: Where a second arm of the same kind is: in other ``topics``, as ``names`` with a
            side in the same topic, or nowhere.
        led: Commands come from a leader: its states, with no word for a command.
    """

    named: bool = False
    permuted: bool = False
    effort: str = 'torque'
    degrees: bool = False
    servos: bool = True
    second: str = ''
    led: bool = False


VARIANTS = {
    'renamed': Variant(),
    'permuted': Variant(permuted=True),
    'currents': Variant(named=True, permuted=True, effort='current'),
    'mixed': Variant(effort='current', degrees=True),
    'silent': Variant(effort='none', servos=False),
    'two topics': Variant(permuted=True, second='topics'),
    'two sides': Variant(permuted=True, effort='current', second='names'),
    'led': Variant(named=True, permuted=True, second='topics', led=True),
}
_ROBOTS, _VARIANTS = AnyOf(ROBOTS), AnyOf(VARIANTS)
#: The arm of a bag with two that is mapped.
CHOSEN = 'left'


class RobotRun(NamedTuple):
    """What a robot did: joints, (m, k) commands and (n, k) states in SI units."""

    joints: list[str]
    commands: Floats
    states: dict[str, Floats]


def scalar_joints(spec: mujoco.MjSpec) -> list[mujoco.MjsJoint]:
    """Return the hinges and slides that no equality couples."""
    coupled = {equality.name1 for equality in spec.equalities}
    kinds = mujoco.mjtJoint.mjJNT_HINGE, mujoco.mjtJoint.mjJNT_SLIDE
    return [joint for joint in spec.joints if joint.type in kinds and joint.name not in coupled]


def bare(robot: str) -> mujoco.MjSpec:
    """Return a robot's model without what is to look at or to touch."""
    spec = mujoco.MjSpec.from_file(str(in_wheel(*ROBOTS[robot])))
    for geom in list(spec.geoms):
        if geom.type == mujoco.mjtGeom.mjGEOM_MESH and _has_inertia(spec):
            spec.delete(geom)
        else:
            geom.contype = geom.conaffinity = 0
    return spec


def _has_inertia(spec: mujoco.MjSpec) -> bool:
    return all(body.explicitinertial for body in spec.bodies[1:] if body.geoms)


def with_servos(spec: mujoco.MjSpec, gains: Floats) -> mujoco.MjSpec:
    """Return a model with a position servo of (k, 2) gains on each joint, and no other actuator."""
    spec = spec.copy()
    add_servos(spec, [joint.name for joint in scalar_joints(spec)], *gains.T)
    return spec


def usual_gains(spec: mujoco.MjSpec) -> Floats:
    """Return the (k, 2) gains at which each joint follows with 4 Hz and no overshoot."""
    model = spec.compile()
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    inertia = np.zeros((model.nv, model.nv))
    mujoco.mj_fullM(model, data, inertia)
    dofs = [model.joint(joint.name).dofadr[0] for joint in scalar_joints(spec)]
    own = np.maximum(np.diag(inertia)[dofs], 0.02)
    rate = 2 * np.pi * 4.0
    return np.column_stack([own * rate**2, 2 * own * rate])


def move(robot: str, seed: int) -> RobotRun:
    """Move a robot whose armature, damping, friction and masses differ from its file's."""
    rng = np.random.default_rng(seed)
    spec = bare(robot)
    joints = scalar_joints(spec)
    gains = usual_gains(spec)
    own = gains[:, 0] / (2 * np.pi * 4.0) ** 2
    for body in spec.bodies[1:]:
        body.mass *= rng.uniform(0.9, 1.1)
    for joint, inertia in zip(joints, own, strict=True):
        joint.armature = inertia * rng.uniform(0.05, 0.5)
        joint.damping = [inertia * rng.uniform(0.5, 4.0), 0.0, 0.0]
        joint.frictionloss = inertia * rng.uniform(0.5, 4.0)
    spec.option.timestep = STEP
    model = with_servos(spec, gains).compile()
    data = mujoco.MjData(model)
    rows = [model.joint(joint.name) for joint in joints]
    qpos = [row.qposadr[0] for row in rows]
    dofs = [row.dofadr[0] for row in rows]
    middle, reach = _room(rows)
    phases = rng.uniform(0, 2 * np.pi, (len(joints), 4))
    rates = 2 * np.pi * rng.uniform(0.08, 0.7, (len(joints), 4))
    data.qpos[qpos] = middle
    states: dict[str, list[Floats]] = {kind: [] for kind in ROBOT_NOISE}
    commands = []
    for step in range(round(ROBOT_SECONDS / STEP)):
        at = step * STEP
        if step % round(1 / (ROBOT_COMMAND_RATE * STEP)) == 0:
            shape = np.sin(rates * at + phases).mean(axis=1) * min(at, 1.0)
            data.ctrl[:] = middle + reach * shape
            commands.append(data.ctrl.copy())
        if step % round(1 / (ROBOT_RATE * STEP)) == 0:
            states['position'].append(data.qpos[qpos].copy())
            states['velocity'].append(data.qvel[dofs].copy())
            states['effort'].append(data.qfrc_actuator[dofs].copy())
        mujoco.mj_step(model, data)
    noisy = {}
    for kind, rows_of in states.items():
        values = np.array(rows_of)
        scale = np.std(values, axis=0) if kind == 'effort' else 1.0
        noisy[kind] = values + ROBOT_NOISE[kind] * scale * rng.normal(size=values.shape)
    return RobotRun([joint.name for joint in joints], np.array(commands), noisy)


def _room(rows: list[Any]) -> tuple[Floats, Floats]:
    """Return the middle of each joint's range, and how far from it the motion goes."""
    ranges = np.array([row.range if row.range[1] > row.range[0] else (-3.0, 3.0) for row in rows])
    return ranges.mean(axis=1), 0.4 * np.minimum(np.ptp(ranges, axis=1), 4.0)


class Truth(NamedTuple):
    """The right column of a sensor, and its scale; NaN where no scale is right."""

    label: str
    field: str
    scale: float


def bag_of(
    run: RobotRun, variant: Variant, seed: int
) -> tuple[BagColumns, dict[tuple[str, str], Truth]]:
    """Write a run down as one of the variants; return the truth by joint and kind as well."""
    rng = np.random.default_rng(1000 + seed)
    count = len(run.joints)
    names = list(run.joints if variant.named else NAMES[:count])
    order = rng.permutation(count) if variant.permuted else np.arange(count)
    factor = DEGREES if variant.degrees else 1.0
    scales = {'position': np.full(count, factor), 'velocity': np.full(count, factor)}
    if variant.effort == 'torque':
        scales['effort'] = np.ones(count)
    if variant.effort == 'current':
        scales['effort'] = np.exp(rng.uniform(-3, 3, count)) * rng.choice((-1, 1), count)
    labels = tuple(names[joint] for joint in order)
    fields = tuple(
        Field(kind, labels, (scale * run.states[kind])[:, order]) for kind, scale in scales.items()
    )
    asked = (Field('position', labels, (factor * run.commands)[:, order]),)

    def stamps(rows: int, rate: float) -> Any:
        return ORIGIN_NS + np.round(1e9 * np.arange(rows) / rate).astype(np.int64)

    at = stamps(len(run.states['position']), ROBOT_RATE)
    command_at = stamps(len(run.commands), ROBOT_COMMAND_RATE)
    kind = JOINT_STATE
    bag = BagColumns(
        Path('bag'),
        (
            TopicColumns(COMMAND, kind, command_at, command_at, asked),
            TopicColumns(STATE, kind, at, at, fields),
        ),
        (),
    )
    truth = {
        (joint, kind): Truth(
            names[row],
            kind,
            math.nan if variant.effort == 'current' and kind == 'effort' else 1 / scale[row],
        )
        for row, joint in enumerate(run.joints)
        for kind, scale in scales.items()
    }
    return bag, truth


def two_arms(run: RobotRun, other: RobotRun, variant: Variant, seed: int) -> tuple[BagColumns, Any]:
    """Write the runs of two arms of one kind into one bag; return the truth of the chosen one."""
    bags, truths = zip(
        *(bag_of(item, variant, seed + k) for k, item in enumerate((run, other))), strict=True
    )
    sides = (CHOSEN, 'right')
    if variant.second == 'topics':
        names = {COMMAND: 'lead/joint_states' if variant.led else 'joint_commands'}
        topics = [
            replace(topic, topic=f'/{side}_{names.get(topic.topic, "follow/joint_states")}')
            for side, bag in zip(sides, bags, strict=True)
            for topic in bag.topics
        ]
        return BagColumns(Path('bag'), tuple(topics), ()), truths[0]
    topics = []
    for first, second in zip(bags[0].topics, bags[1].topics, strict=True):
        fields = [
            Field(
                a.name,
                tuple(
                    f'{side}_{label}'
                    for side, f in zip(sides, (a, b), strict=True)
                    for label in f.labels
                ),
                np.hstack([a.values, b.values]),
            )
            for a, b in zip(first.fields, second.fields, strict=True)
        ]
        topics.append(replace(first, fields=tuple(fields)))
    truth = {key: item._replace(label=f'{CHOSEN}_{item.label}') for key, item in truths[0].items()}
    return BagColumns(Path('bag'), tuple(topics), ()), truth


class Count(NamedTuple):
    """How many pairs of sensors there are, and what became of them."""

    pairs: int = 0
    right: int = 0
    certain_and_right: int = 0
    certain_and_wrong: int = 0

    def __str__(self) -> str:
        """Return one line."""
        counted = self._asdict().items()
        return ', '.join(f'{value} {name.replace("_", " ")}' for name, value in counted)


def judge(proposal: Proposal, truth: dict[tuple[str, str], Truth]) -> tuple[Count, list[str]]:
    """Count the pairs of joint sensors, and say which are wrong and called certain.

    No scale of a current is right: such a pair is wrong when it is called certain.
    """
    right = certain = 0
    wrong = []
    for pair in proposal.pairs:
        joint, _, kind = pair.name.rpartition('_')
        expected = truth.get((joint, kind))
        if expected is None:
            continue
        fits = (pair.labels, pair.field) == ((expected.label,), expected.field)
        fits &= math.isclose(pair.scale, expected.scale, rel_tol=1e-6)
        right += fits
        certain += fits and pair.confident
        if pair.confident and not fits:
            wrong.append(f'{pair.name}: found {pair}, expected {expected}')
    scaled = sum(not math.isnan(item.scale) for item in truth.values())
    return Count(scaled, right, certain, len(wrong)), wrong


def _users_model(robot: str, variant: Variant) -> mujoco.MjModel:
    """Compile the model that the user has: with servos of other gains, or as in the wheel."""
    spec = bare(robot)
    if variant.servos:
        spec = with_servos(spec, 0.6 * usual_gains(spec))
    spec.compile()
    with tempfile.NamedTemporaryFile(
        'w', suffix='.xml', dir=in_wheel(*ROBOTS[robot]).parent
    ) as file:
        file.write(spec.to_xml())
        file.flush()
        return load_model(Path(file.name))


def map_spoilt(draws: range, *, effort: bool) -> None:
    """Print in how many draws of the demo's arm everything was found."""
    runs = [simulate(draws.start + number) for number in range(MOTIONS)]
    whole, seconds = 0, []
    for draw in draws:
        bag, right = spoil(runs[draw % len(runs)], draw, effort=effort)
        start = time.perf_counter()
        wrong = mistakes(propose(bag, model()), right)
        seconds.append(time.perf_counter() - start)
        whole += not wrong
        print(f'draw {draw}: {"all found" if not wrong else ""}', flush=True)
        for line in wrong:
            print(f'    {line}')
    if seconds:
        print(f'{whole} of {len(draws)} draws: all found; {np.median(seconds):.2f} s each')


def map_robots(robots: list[str], variants: list[str], seed: int) -> None:
    """Print for each bag of the robots how many pairs are right, and wrong though certain."""
    total = Count()
    for robot in robots:
        run, other = move(robot, seed), move(robot, seed + 50)
        for name in variants:
            variant = VARIANTS[name]
            bag, truth = bag_of(run, variant, seed)
            if variant.second:
                bag, truth = two_arms(run, other, variant, seed)
                bag = in_namespace(bag, CHOSEN)
            users = _users_model(robot, variant)
            start = time.perf_counter()
            count, wrong = judge(propose(bag, users), truth)
            print(f'{robot} {name}: {count}; {time.perf_counter() - start:.1f} s', flush=True)
            for line in wrong:
                print(f'    {line}')
            total = Count(*(sum(values) for values in zip(total, count, strict=True)))
    print(f'all: {total}')


def compare(
    *,
    draws: int = 20,
    without_effort: bool = False,
    robots: AnyOf = _ROBOTS,
    variants: AnyOf = _VARIANTS,
    seed: int = 0,
) -> None:
    """Map the spoilt arm in so many draws, and each robot in each variant."""
    map_spoilt(range(seed, seed + draws), effort=not without_effort)
    map_robots(list(robots), list(variants), seed)


if __name__ == '__main__':
    common.run(__doc__, compare)
