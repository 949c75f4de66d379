# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""How often ``sysid map`` finds all that is wrong with the names, units and signs of a bag.

The demo's arm, with parameters that its model does not know, is simulated; then its bag is spoilt:
one joint has the wrong sign (in the states, or in states and commands), two are in degrees, one has
an offset, two have each other's names, and the commands are an array in any order. All of it is
found when every sensor and actuator has the right column, sign, unit and offset and no pair is in
doubt.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sysid_ros.alignment.mapping.proposal import propose
from sysid_ros.bags import BagColumns, Field, TopicColumns
from sysid_ros.excitation.drives import compile_file
from sysid_ros.excitation.motion import sum_of_sines
from sysid_ros.virtual_robot import Noise, Plant, load_truth

if TYPE_CHECKING:
    import mujoco
    from numpy.typing import NDArray

    from sysid_ros.alignment.mapping.proposal import Proposal

DEMO = Path(__file__).resolve().parents[1] / 'config' / 'demo'
STATE, COMMANDS = '/joint_states', '/arm_controller/commands'
DEGREES = 180 / math.pi
ORIGIN_NS = 1_700_000_000_000_000_000
SECONDS = 10.0
#: States and commands per second.
RATE, COMMAND_RATE = 200.0, 50.0
NOISE = Noise(position=1e-4, velocity=5e-3, effort=5e-2, encoder_bits=14)
OFFSETS = (0.1, 0.6)
#: An offset is found when it is within this, rad.
TOLERANCE = 0.03


class Run(NamedTuple):
    """What a simulated robot did: (m,) and (m, k) commands, (n,) and (n, k) states, SI units."""

    joints: tuple[str, ...]
    told_at: NDArray[np.float64]
    told: NDArray[np.float64]
    times: NDArray[np.float64]
    states: dict[str, NDArray[np.float64]]


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
    motion = sum_of_sines(compile_file(path), duration=SECONDS, seed=seed, rate=COMMAND_RATE)
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
            TopicColumns(STATE, 'sensor_msgs/msg/JointState', stamps, stamps, fields),
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
    return compile_file(DEMO / 'arm.xml')


def main() -> None:
    """Print in how many draws everything was found."""
    parser = argparse.ArgumentParser(description=(__doc__ or '').partition('\n')[0])
    parser.add_argument('--draws', type=int, default=20)
    parser.add_argument('--motions', type=int, default=4, help='different runs of the robot')
    parser.add_argument('--seed', type=int, default=0, help='of the first draw and motion')
    parser.add_argument('--without-effort', action='store_true')
    arguments = parser.parse_args()
    runs = [simulate(arguments.seed + number) for number in range(arguments.motions)]
    whole, seconds = 0, []
    for draw in range(arguments.seed, arguments.seed + arguments.draws):
        bag, right = spoil(runs[draw % len(runs)], draw, effort=not arguments.without_effort)
        start = time.perf_counter()
        wrong = mistakes(propose(bag, model()), right)
        seconds.append(time.perf_counter() - start)
        whole += not wrong
        print(f'draw {draw}: {"all found" if not wrong else ""}')
        for line in wrong:
            print(f'    {line}')
    print(
        f'{whole} of {arguments.draws} draws: all found; '
        f'{np.median(seconds):.2f} s each, at most {max(seconds):.2f} s'
    )


if __name__ == '__main__':
    main()
