# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What the gate lets through: honest fits from many recordings, and what must be rejected.

    python benchmarks/gate.py [--honest 10] [--seeds 1]

Bags of a simulated three-joint arm are calibrated with the default conditions. After an honest fit,
each bad one is run into the same output; the accepted files must stay byte by byte as they were.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rosbags.typesys import Stores, get_typestore

from sysid_ros.bags import BagWriter
from sysid_ros.config import CalibrationConfig
from sysid_ros.pipeline import Calibration, calibrate
from sysid_ros.virtual_robot import Noise, Plant

Fault = Callable[
    [float, NDArray[np.float64], NDArray[np.float64]],
    tuple[NDArray[np.float64], NDArray[np.float64]],
]

ARM = """
<mujoco>
  <option timestep="0.002" integrator="implicitfast"><flag contact="disable"/></option>
  <worldbody>
    <body name="column">
      <joint name="pan" axis="0 0 1" armature=".1" damping=".5"/>
      <geom type="capsule" size=".05" fromto="0 0 0 0 0 .3" mass="2"/>
      <body name="upper" pos="0 0 .3">
        <joint name="lift" axis="0 1 0" armature=".1" damping=".5"/>
        <geom type="capsule" size=".04" fromto="0 0 0 .3 0 0" mass="1.5"/>
        <body name="fore" pos=".3 0 0">
          <joint name="elbow" axis="0 1 0" armature=".02" damping=".1"/>
          <geom type="capsule" size=".03" fromto="0 0 0 .25 .05 0" mass="{mass}"/>
        </body>
      </body>
    </body>
  </worldbody>
  <actuator>
    <position name="pan" joint="pan" kp="40" kv="2"/>
    <position name="lift" joint="lift" kp="60" kv="3"/>
    <position name="elbow" joint="elbow" kp="15" kv=".6"/>
  </actuator>
  <sensor>
    <jointpos name="pan_position" joint="pan"/><jointpos name="lift_position" joint="lift"/>
    <jointpos name="elbow_position" joint="elbow"/><jointvel name="pan_velocity" joint="pan"/>
    <jointvel name="lift_velocity" joint="lift"/><jointvel name="elbow_velocity" joint="elbow"/>
  </sensor>
</mujoco>
"""
JOINTS = ('pan', 'lift', 'elbow')
TRUTH = {
    'joint/pan/armature': 0.25,
    'joint/lift/armature': 0.2,
    'joint/elbow/armature': 0.05,
    'joint/*/damping': 1.0,
    'joint/*/frictionloss': 0.3,
}
#: Another arm with the same names: light drives that hardly rub, and a load.
OTHER = {
    'joint/*/armature': 0.02,
    'joint/*/damping': 0.1,
    'joint/*/frictionloss': 0.05,
    'body/fore/mass': 2.0,
}
PARAMETERS = [
    {'target': 'joint/*/armature', 'bounds': [0.0, 1.0]},
    {'target': 'joint/*/damping', 'bounds': [0.0, 5.0]},
    {'target': 'joint/*/frictionloss', 'bounds': [0.0, 2.0]},
    {'target': 'body/fore/mass', 'bounds': [0.1, 4.0]},
]
SECONDS = 6.0
RATE = 100
START_NS = 1_700_000_000_000_000_000
STATES, COMMANDS = '/joint_states', '/forward_position_controller/commands'


def whole(_: float, position: Any, velocity: Any) -> Any:
    """Say what is."""
    return position, velocity


def stuck(first: float, last: float) -> Fault:
    """Return the fault of an elbow whose encoder freezes for a while; its speed is still told."""
    held: list[float] = []

    def fault(time: float, position: Any, velocity: Any) -> Any:
        if first <= time <= last:
            held.append(float(position[2]))
            position = np.array([*position[:2], held[0]])
        return position, velocity

    return fault


def frozen(_: float, position: Any, velocity: Any) -> Any:
    """Say all the time that the elbow stands at 0."""
    return np.array([*position[:2], 0.0]), np.array([*velocity[:2], 0.0])


def reversed_sign(_: float, position: Any, velocity: Any) -> Any:
    """Turn the lift's sign."""
    sign = np.array([1.0, -1.0, 1.0])
    return position * sign, velocity * sign


def record(bag: Path, model: Path, truth: dict[str, float], seed: int, fault: Fault) -> None:
    """Record a simulated arm that follows three sines per joint."""
    store = get_typestore(Stores.ROS2_JAZZY)
    types = store.types
    noise = Noise(position=2e-4, velocity=3e-3, seed=seed, encoder_bits=16)
    plant = Plant(model, truth, rate=float(RATE), noise=noise)
    rng = np.random.default_rng(seed)
    frequency = rng.uniform(0.2, 1.8, (3, 3))
    phase = rng.uniform(0.0, 2 * np.pi, (3, 3))
    with BagWriter(bag) as writer:
        writer.add_topic(STATES, 'sensor_msgs/msg/JointState')
        writer.add_topic(COMMANDS, 'std_msgs/msg/Float64MultiArray')
        for step in itertools.count():
            time = step / RATE
            if time > SECONDS:
                return
            now = START_NS + step * 1_000_000_000 // RATE
            values = 0.35 * np.sin(2 * np.pi * frequency * time + phase).sum(axis=0)
            layout = types['std_msgs/msg/MultiArrayLayout'](dim=[], data_offset=0)
            array = types['std_msgs/msg/Float64MultiArray'](layout=layout, data=values)
            writer.write(COMMANDS, now, bytes(store.serialize_cdr(array, array.__msgtype__)))
            plant.command(time, values)
            for sample in plant.advance(time + 1 / RATE):
                position, velocity = fault(sample.time, sample.position, sample.velocity)
                stamp = types['builtin_interfaces/msg/Time'](*divmod(now, 1_000_000_000))
                message = types['sensor_msgs/msg/JointState'](
                    header=types['std_msgs/msg/Header'](stamp=stamp, frame_id=''),
                    name=list(plant.joints),
                    position=position,
                    velocity=velocity,
                    effort=np.zeros(0),
                )
                data = bytes(store.serialize_cdr(message, message.__msgtype__))
                writer.write(STATES, now, data)


def mapping(**swapped: str) -> dict[str, Any]:
    """Return a mapping by hand that takes some joints for others; nothing checks its signs."""
    takes = {joint: swapped.get(joint, joint) for joint in JOINTS}
    return {
        'sensors': {
            f'{joint}_{field}': {'topic': STATES, 'field': field, 'label': takes[joint]}
            for joint in JOINTS
            for field in ('position', 'velocity')
        },
        'actuators': {
            joint: {'topic': COMMANDS, 'field': 'data', 'label': str(number)}
            for number, joint in enumerate(JOINTS)
        },
    }


@dataclass(frozen=True)
class Case:
    """Bags, what is wrong with each, and what is wrong with the configuration."""

    name: str
    train: tuple[dict[str, float], Fault] = (TRUTH, whole)
    validate: tuple[dict[str, float], Fault] = (TRUTH, whole)
    changes: dict[str, Any] = field(default_factory=dict)
    #: What the model says the forearm weighs; the robot's is 1.
    mass: float = 1.0


def cases() -> list[Case]:
    """Return what must be rejected."""
    fixed = [{'target': 'joint/*/armature', 'initial': 0.9, 'bounds': [0.85, 1.0]}]
    by_hand = {'mapping': mapping()}
    return [
        Case('one iteration', changes={'solver': {'max_iterations': 1, 'start': 'nominal'}}),
        Case('far too large armatures', changes={'parameters': fixed}),
        Case('no friction, heavy forearm', changes={'parameters': PARAMETERS[:1]}, mass=3.5),
        Case('train: another robot', train=(OTHER, whole)),
        Case('validate: another robot', validate=(OTHER, whole)),
        Case('swapped joints', changes={'mapping': mapping(lift='elbow', elbow='lift')}),
        Case('encoder stuck, 1.5 s', train=(TRUTH, stuck(2.0, 3.5))),
        Case('encoder stuck, 1.5 s, validate', validate=(TRUTH, stuck(2.0, 3.5))),
        Case('encoder stuck, always', train=(TRUTH, stuck(-1.0, 99))),
        Case('encoder stuck, both', (TRUTH, stuck(-1.0, 99)), (TRUTH, stuck(-1.0, 99))),
        Case('encoder dead, speed too', (TRUTH, frozen), (TRUTH, frozen)),
        Case('sign reversed', (TRUTH, reversed_sign), (TRUTH, reversed_sign), by_hand),
        Case('sign reversed, train only', train=(TRUTH, reversed_sign), changes=by_hand),
    ]


def run(case: Case, folder: Path, output: Path, seed: int) -> Calibration:
    """Record and calibrate a case; bags are made anew in the folder."""
    folder.mkdir()
    robot, model = folder / 'robot.xml', folder / 'arm.xml'
    robot.write_text(ARM.format(mass=1.0))
    model.write_text(ARM.format(mass=case.mass))
    record(folder / 'train', robot, case.train[0], 2 * seed, case.train[1])
    record(folder / 'validate', robot, case.validate[0], 2 * seed + 1, case.validate[1])
    document = {
        'model': model,
        'bags': [
            {'path': str(folder / 'train')},
            {'path': str(folder / 'validate'), 'role': 'validate'},
        ],
        'mapping': mapping(),
        'parameters': PARAMETERS,
        'solver': {'threads': 1},
        'output': output,
        **case.changes,
    }
    return calibrate(CalibrationConfig.model_validate(document))


def hashes(folder: Path) -> dict[str, str]:
    """Return the hash of every file in use."""
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted((folder / 'current').resolve().rglob('*'))
        if path.is_file()
    }


def show(name: str, done: Calibration, *, expected: bool) -> bool:
    """Print what was expected, what was found, and why; return whether it is right."""
    found = done.result.accepted
    words = {True: 'accepted', False: 'rejected'}
    mark = 'ok   ' if found == expected else 'WRONG'
    print(f'{mark} {name:32s} {words[expected]} / {words[found]}: {done.result.acceptance}')
    failed = [check.name for check in done.result.gate if not check.passed]
    if failed:
        print(f'{"":39s}failed: {", ".join(failed)}', flush=True)
    return found == expected


def main() -> int:
    """Run all cases."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--honest', type=int, default=10, help='number of honest recordings')
    parser.add_argument('--seeds', type=int, default=1, help='recordings of each bad case')
    parser.add_argument('--only', default='', help='part of the names of cases')
    args = parser.parse_args()
    wrong = touched = 0
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        for seed in range(args.honest):
            done = run(Case('honest'), root / f'honest_{seed}', root / 'out', seed)
            wrong += not show(f'honest, seed {seed}', done, expected=True)
        before = hashes(root / 'out') if args.honest else {}
        for seed in range(100, 100 + args.seeds):
            for number, case in enumerate(cases()):
                if args.only not in case.name:
                    continue
                done = run(case, root / f'bad_{seed}_{number}', root / 'out', seed)
                wrong += not show(f'{case.name}, seed {seed}', done, expected=False)
                if args.honest:
                    after = hashes(root / 'out')
                    touched += after != before
                    before = after
    print(f'{wrong} wrong, {touched} times files in use were changed')
    return int(bool(wrong or touched))


if __name__ == '__main__':
    sys.exit(main())
