# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Fleets: how much faster are two workers than one, and does the summary tell the truth?

``python benchmarks/fleet.py [--robots N] [--seconds S] [--seed S] [--keep FOLDER]``

Robots of one kind are drawn from a known population, one of them with twice the damping in its
elbow. Each plays three bags, two to fit to and one to be judged on, offline. They are calibrated on
one worker and on two, each from nothing.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import yaml
from rosbags.typesys import Stores, get_typestore

from sysid_ros.bags import BagWriter
from sysid_ros.config import load_fleet
from sysid_ros.pipeline.fleet import calibrate_fleet
from sysid_ros.virtual_robot import Noise, Plant

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sysid_ros.results.fleet import FleetResult

ARM = """
<mujoco>
  <option timestep="0.002" integrator="implicitfast"/>
  <worldbody>
    <body>
      <joint name="shoulder" axis="0 1 0" armature=".05" damping="1.0" frictionloss=".3"/>
      <geom type="capsule" fromto="0 0 0 0 0 -.3" size=".03" mass="1.2"/>
      <body pos="0 0 -.3">
        <joint name="elbow" axis="0 1 0" armature=".02" damping=".4" frictionloss=".15"/>
        <geom type="capsule" fromto="0 0 0 0 0 -.25" size=".025" mass=".6"/>
      </body>
    </body>
  </worldbody>
  <actuator>
    <position name="shoulder" joint="shoulder" kp="60"/>
    <position name="elbow" joint="elbow" kp="25"/>
  </actuator>
  <sensor>
    <jointpos name="shoulder_position" joint="shoulder"/>
    <jointpos name="elbow_position" joint="elbow"/>
    <jointvel name="shoulder_velocity" joint="shoulder"/>
    <jointvel name="elbow_velocity" joint="elbow"/>
  </sensor>
</mujoco>
"""
#: Mean of each parameter and standard deviation between robots; armatures are of one make.
POPULATION = {
    'joint/shoulder/armature': (0.08, 0.0),
    'joint/elbow/armature': (0.03, 0.0),
    'joint/shoulder/damping': (1.3, 0.1),
    'joint/elbow/damping': (0.5, 0.04),
    'joint/shoulder/frictionloss': (0.45, 0.05),
    'joint/elbow/frictionloss': (0.2, 0.02),
}
ODD, FACTOR = 'joint/elbow/damping', 2.0
BAGS = ('train_1', 'train_2', 'validate_1')
RATE = 100
START = 1_700_000_000_000_000_000
STORE = get_typestore(Stores.ROS2_JAZZY)


def record(path: Path, plant: Plant, seed: int, seconds: float) -> None:
    """Let a plant play a random motion, and write its states and goals into a bag."""
    state, header, stamp, layout, goals = (
        STORE.types[name]
        for name in (
            'sensor_msgs/msg/JointState',
            'std_msgs/msg/Header',
            'builtin_interfaces/msg/Time',
            'std_msgs/msg/MultiArrayLayout',
            'std_msgs/msg/Float64MultiArray',
        )
    )
    rng = np.random.default_rng(seed)
    speeds, phases = rng.uniform(2.0, 10.0, (3, 2)), rng.uniform(0.0, 6.3, (3, 2))

    def wanted(now: float) -> NDArray[np.float64]:
        waves: NDArray[np.float64] = 0.3 * np.sin(speeds * now + phases).sum(axis=0)
        return min(2 * now, 1.0) * waves

    said: list[tuple[str, int, Any]] = []
    for tick in range(round(seconds * RATE)):
        now = tick / RATE
        plant.command(now, wanted(now))
        said.append(
            ('/goals', round(now * 1e9), goals(layout(dim=[], data_offset=0), data=wanted(now)))
        )
        for sample in plant.advance(now + 1 / RATE):
            at = round(sample.time * 1e9)
            seconds_, rest = divmod(START + at, 10**9)
            joints = state(
                header(stamp(sec=seconds_, nanosec=rest), frame_id=''),
                list(plant.joints),
                sample.position,
                sample.velocity,
                sample.effort,
            )
            said.append(('/joint_states', at, joints))
    kinds = {'/joint_states': state.__msgtype__, '/goals': goals.__msgtype__}
    with BagWriter(path) as bag:
        for topic, kind in kinds.items():
            bag.add_topic(topic, kind)
        for topic, at, message in sorted(said, key=lambda item: item[1]):
            bag.write(topic, START + at, bytes(STORE.serialize_cdr(message, kinds[topic])))


def make_fleet(folder: Path, robots: int, seconds: float, seed: int) -> str:
    """Write the model, the bags of all robots and fleet.yaml; return the name of the odd one."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / 'arm.xml').write_text(ARM)
    rng = np.random.default_rng(seed)
    names = [f'r{number:02d}' for number in range(1, robots + 1)]
    odd = names[int(rng.integers(robots))]
    for number, name in enumerate(names):
        own = {path: float(rng.normal(*drawn)) for path, drawn in POPULATION.items()}
        if name == odd:
            own[ODD] *= FACTOR
        for count, bag in enumerate(BAGS):
            mine = 1000 * seed + 10 * number + count
            noise = Noise(position=2e-3, velocity=3e-2, effort=0.05, seed=mine)
            plant = Plant(folder / 'arm.xml', own, rate=float(RATE), noise=noise)
            record(folder / 'bags' / name / bag, plant, mine, seconds)
    fleet = {
        'base': {'model': 'arm.xml', 'parameters': [{'target': path} for path in POPULATION]},
        'robots': [
            {'name': n, 'train': f'bags/{n}/train_*', 'validate': f'bags/{n}/validate_*'}
            for n in names
        ],
    }
    (folder / 'fleet.yaml').write_text(yaml.safe_dump(fleet, sort_keys=False))
    return odd


def show(result: FleetResult, odd: str) -> None:
    """Print the population beside the truth, and who is odd."""
    print(f'{"parameter":28s} {"true":>7s} {"mean":>8s}  95 % interval{"":6s} {"spread":>14s}')
    for p in result.parameters:
        mean, spread = POPULATION[p.name]
        inside = (p.low <= mean <= p.high), (p.tau_low <= spread <= p.tau_high)
        print(
            f'{p.name:28s} {mean:7.3f} {p.mean:8.4f} [{p.low:7.4f}, {p.high:7.4f}] '
            f'{"inside" if inside[0] else "OUTSIDE"}; true {spread:.3f}, {p.tau:.4f} '
            f'[{p.tau_low:.4f}, {p.tau_high:.4f}] {"inside" if inside[1] else "OUTSIDE"}, '
            f'{p.spread}, {p.robots} robots'
        )
    named = {robot.name: robot.odd for robot in result.robots if robot.odd}
    print(f'odd is {odd} in {ODD}; named: {named or "nobody"}')
    print(
        'without a result:', [robot.name for robot in result.robots if not robot.counts] or 'none'
    )


def main() -> None:
    """Make a fleet, and calibrate it on one worker and on two."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--robots', type=int, default=12)
    parser.add_argument('--seconds', type=float, default=8.0)
    parser.add_argument('--seed', type=int, default=1)
    parser.add_argument('--keep', type=Path, help='folder for the fleet and its results')
    args = parser.parse_args()
    # As `sysid` does it.
    os.environ.setdefault('OPENBLAS_NUM_THREADS', '1')
    with tempfile.TemporaryDirectory() as temporary:
        folder = args.keep or Path(temporary)
        odd = make_fleet(folder, args.robots, args.seconds, args.seed)
        took = {}
        for workers in (1, 2):
            fleet = load_fleet(folder / 'fleet.yaml', folder / f'out_{workers}')
            load = os.getloadavg()[0]
            begun = time.perf_counter()
            done = calibrate_fleet(fleet, workers=workers)
            took[workers] = time.perf_counter() - begun
            print(f'{workers} workers: {took[workers]:.1f} s (load {load:.1f} before)', flush=True)
        print(f'ratio {took[1] / took[2]:.2f}')
        show(done.result, odd)


if __name__ == '__main__':
    main()
