# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Bags as a robot's recorder would leave them, from robots that are simulated and hide a truth.

``python make_bags.py arm`` and ``python make_bags.py so_arm`` stand in for the part of a tutorial
that needs a robot. Each writes three bags: two for training, one fast and one slow, and a third
with a motion of another kind, from pose to pose, to be held out. ``python make_bags.py loaded_arm``
writes one bag of the first arm, whose tool holds something.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rosbags.typesys import Stores, get_typestore

from sysid_ros.bags.writer import BagWriter
from sysid_ros.model.inertia import Inertial, theta_from_body
from sysid_ros.plant import Noise, Plant
from sysid_ros.workflows.excitation.motion import Motion, quintic, sample_times, sum_of_sines

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from sysid_ros.plant import Sample

HERE = Path(__file__).resolve().parent
STORE = get_typestore(Stores.ROS2_JAZZY)
#: When the first bag begins, ns since 1970.
START = 1_700_000_000_000_000_000
#: From a pose to the next, s, and how long each is held.
MOVE, HOLD = 0.7, 0.3


@dataclass(frozen=True)
class Robot:
    """One of the robots.

    Attributes:
        model: What its user has.
        truth: What the model is wrong about: target to true value.
        states: Joint states per second.
        commands: Commands per second.
        topic: Of the commands.
        kind: Message type of the commands.
        names: Joint of the model to its name in the bag.
        noise: Of its sensors.
        measures: Fields of joint_states that are filled.
        jitter: Standard deviation of the stamps, s.
        seconds: Of each recording.
        recordings: Names of the bags.
    """

    model: str
    truth: Mapping[str, float]
    states: float
    commands: float
    topic: str
    kind: str
    noise: Noise
    names: Mapping[str, str]
    measures: tuple[str, ...]
    jitter: float
    seconds: float
    recordings: tuple[str, ...] = ('train_1', 'train_2', 'validate_1')


ROBOTS = {
    'arm': Robot(
        model='arm.urdf',
        truth={
            'joint/shoulder_pan/armature': 0.25,
            'joint/shoulder_lift/armature': 0.3,
            'joint/elbow/armature': 0.12,
            'joint/shoulder_pan/damping': 4.0,
            'joint/shoulder_lift/damping': 5.0,
            'joint/elbow/damping': 2.0,
            'joint/shoulder_pan/frictionloss': 1.5,
            'joint/shoulder_lift/frictionloss': 2.0,
            'joint/elbow/frictionloss': 0.8,
            'actuator/shoulder_pan_servo/kp': 500.0,
            'actuator/shoulder_lift_servo/kp': 700.0,
            'actuator/elbow_servo/kp': 250.0,
            'actuator/shoulder_pan_servo/kv': 25.0,
            'actuator/shoulder_lift_servo/kv': 35.0,
            'actuator/elbow_servo/kv': 10.0,
            'actuator/*/delay': 0.006,
            'body/tool/mass': 0.8,
        },
        states=125.0,
        commands=100.0,
        topic='/joint_trajectory_controller/joint_trajectory',
        kind='trajectory_msgs/msg/JointTrajectory',
        noise=Noise(position=1e-4, velocity=5e-3, effort=0.05, encoder_bits=16),
        names={},
        measures=('position', 'velocity', 'effort'),
        jitter=0.0,
        seconds=5.0,
    ),
    'so_arm': Robot(
        model='so_arm.xml',
        truth={
            'joint/*/damping': 0.35,
            'joint/*/frictionloss': 0.06,
            'joint/*/armature': 0.02,
            'actuator/*/kp': 13.0,
            'actuator/*/kv': 0.3,
            'actuator/*/delay': 0.13,
        },
        states=50.0,
        commands=50.0,
        topic='/joint_commands',
        kind='sensor_msgs/msg/JointState',
        noise=Noise(position=3e-4, encoder_bits=12),
        names={
            'shoulder_pan': 'Rotation',
            'shoulder_lift': 'Pitch',
            'elbow_flex': 'Elbow',
            'wrist_flex': 'Wrist_Pitch',
            'wrist_roll': 'Wrist_Roll',
        },
        measures=('position',),
        jitter=2e-4,
        seconds=5.0,
    ),
}
#: The tool with what it holds: 1.6 kg, whose centre is at (0.03, -0.02, 0.09) m.
LOADED = Inertial(
    mass=np.array(1.6),
    ipos=np.array([0.03, -0.02, 0.09]),
    iquat=np.array([1.0, 0.0, 0.0, 0.0]),
    inertia=np.array([0.008, 0.007, 0.005]),
)
ROBOTS['loaded_arm'] = replace(
    ROBOTS['arm'],
    truth={
        **{path: value for path, value in ROBOTS['arm'].truth.items() if 'tool' not in path},
        **{f'body/tool/inertia[{k}]': v for k, v in enumerate(theta_from_body(*LOADED).tolist())},
    },
    seconds=10.0,
    recordings=('load_1',),
)


def poses(plant: Plant, seconds: float, rate: float, seed: int) -> Motion:
    """Go from pose to pose, and stay at each for a moment."""
    rng = np.random.default_rng(seed)
    home = np.array([drive.home for drive in plant.drives])
    reach = np.array([min(d.upper - d.home, d.home - d.lower) for d in plant.drives])
    reach = np.maximum(reach, 0.1)
    times = sample_times(seconds, rate)
    commands = np.tile(home, (len(times), 1))
    last = home
    for start in np.arange(0.5, seconds - 2 * (MOVE + HOLD), MOVE + HOLD):
        goal = home + rng.uniform(-0.35, 0.35, len(home)) * reach
        commands += quintic((times - start) / MOVE)[:, None] * (goal - last)
        last = goal
    start = times[-1] - MOVE - HOLD
    commands += quintic((times - start) / MOVE)[:, None] * (home - last)
    return Motion(times, commands, tuple(drive.actuator for drive in plant.drives))


def motions(robot: Robot, plant: Plant, seed: int) -> dict[str, Motion]:
    """Return the motion of each recording by its name."""

    def sines(seed: int, amplitude: float, fastest: float) -> Motion:
        return sum_of_sines(
            plant.model,
            duration=robot.seconds,
            amplitude=amplitude,
            max_frequency=fastest,
            seed=seed,
            rate=robot.commands,
        )

    return {
        'train_1': sines(10 * seed, 0.35, 1.5),
        'train_2': sines(10 * seed + 1, 0.5, 0.4),
        'validate_1': poses(plant, robot.seconds, robot.commands, 10 * seed + 2),
        'load_1': sines(10 * seed + 3, 0.35, 1.5),
    }


def message(kind: str, **fields: Any) -> bytes:
    """Return a message as it is in a bag."""
    return bytes(STORE.serialize_cdr(STORE.types[kind](**fields), kind))


def header(at: int) -> Any:
    """Return a header with a stamp, ns."""
    stamp = STORE.types['builtin_interfaces/msg/Time'](sec=at // 10**9, nanosec=at % 10**9)
    return STORE.types['std_msgs/msg/Header'](stamp=stamp, frame_id='')


def joint_state(at: int, names: list[str], values: Mapping[str, NDArray[np.float64]]) -> bytes:
    """Return joint states, or commands that are told as such; what is not known stays empty."""
    none = np.zeros(0)
    fields = {field: values.get(field, none) for field in ('position', 'velocity', 'effort')}
    return message('sensor_msgs/msg/JointState', header=header(at), name=names, **fields)


def joint_trajectory(at: int, names: list[str], goals: NDArray[np.float64]) -> bytes:
    """Return a trajectory of one point that acts at once."""
    none = np.zeros(0)
    at_once = STORE.types['builtin_interfaces/msg/Duration'](sec=0, nanosec=0)
    point = STORE.types['trajectory_msgs/msg/JointTrajectoryPoint'](
        positions=goals, velocities=none, accelerations=none, effort=none, time_from_start=at_once
    )
    kind = 'trajectory_msgs/msg/JointTrajectory'
    return message(kind, header=header(at), joint_names=names, points=[point])


def record(robot: Robot, folder: Path, seed: int) -> None:
    """Let a robot do its motions, and write a bag of each."""
    path = HERE / robot.model
    for number, name in enumerate(robot.recordings):
        noise = Noise(**{**robot.noise.__dict__, 'seed': 100 * seed + number})
        plant = Plant(path, robot.truth, rate=robot.states, noise=noise)
        motion = motions(robot, plant, seed)[name]
        write(robot, plant, motion, folder / name, START + number * 60 * 10**9, seed)


def write(robot: Robot, plant: Plant, motion: Motion, path: Path, start: int, seed: int) -> None:
    """Let a plant follow a motion, and write what it was told and what it measured."""
    rng = np.random.default_rng(seed)
    names = [robot.names.get(joint, joint) for joint in plant.joints]
    written: list[tuple[int, str, bytes]] = []

    def measured(sample: Sample) -> None:
        at = start + round((sample.time + robot.jitter * rng.standard_normal()) * 1e9)
        values = {field: getattr(sample, field) for field in robot.measures}
        written.append((at, '/joint_states', joint_state(at, names, values)))

    for time, goals in zip(motion.times.tolist(), motion.commands, strict=True):
        at = start + round(time * 1e9)
        plant.command(time, goals)
        if robot.kind.endswith('JointTrajectory'):
            written.append((at, robot.topic, joint_trajectory(at, names, goals)))
        else:
            written.append((at, robot.topic, joint_state(at, names, {'position': goals})))
        for sample in plant.advance(time + 1 / robot.commands):
            measured(sample)
    with BagWriter(path) as bag:
        bag.add_topic('/joint_states', 'sensor_msgs/msg/JointState')
        bag.add_topic(robot.topic, robot.kind)
        for at, topic, cdr in sorted(written):
            bag.write(topic, at, cdr)


def main() -> None:
    """Write the bags of one robot."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('robot', choices=ROBOTS)
    parser.add_argument('--out', type=Path, default=Path('bags'), help='folder of the bags')
    parser.add_argument('--seed', type=int, default=1)
    args = parser.parse_args()
    record(ROBOTS[args.robot], args.out, args.seed)
    print(f'Recorded {", ".join(ROBOTS[args.robot].recordings)} into {args.out}.')


if __name__ == '__main__':
    main()
