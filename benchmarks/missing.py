# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What `sysid compare --missing` names where an arm has something that its model lacks.

Arms of two to five joints with position servos, whose values are up to 30 % off the
model's. One joint has backlash, is elastic, has a servo with a dead band, or friction that is not
the same both ways; in clean draws none has. The truth is computed here, at a sixteenth of the
model's time step and without the elements that the variants are made of: forces of gears and servos
are applied as such. Encoders have 14 bits and .1 mrad of noise. Two recordings are fitted, and one
is held out.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import mujoco
import numpy as np

from sysid_ros.alignment import Alignment
from sysid_ros.config import BagSelection, CalibrationConfig, ParameterConfig, SolverConfig
from sysid_ros.identification.observer import Nobody
from sysid_ros.model.description import Description
from sysid_ros.model.loading import RobotModel
from sysid_ros.model.unknown import Scope, make_unknowns
from sysid_ros.pipeline.loading import CalibrationBag, Problem
from sysid_ros.pipeline.missing import missing_in
from sysid_ros.signals import SignalType, TimeSeries
from sysid_ros.signals.trajectory import Trajectory

CLEAN = 'nothing'
#: Kind to its size: N·m, N·m/rad, rad, rad; forces times the arm's strength.
SIZES = {
    'asymmetric friction': 0.06,
    'elastic joint': 60.0,
    'backlash': 0.01,
    'dead band': 0.02,
    CLEAN: 0.0,
}
TARGETS = (
    'joint/*/armature',
    'joint/*/damping',
    'joint/*/frictionloss',
    'actuator/*/kp',
    'body/*/mass',
)
STEP, FINER, RATE = 0.002, 16, 100
SECONDS, SETTLING = 6.0, 1.5
OFF = (0.75, 1.3)
NOISE, BITS = 1e-4, 14
#: What a gear's teeth are as stiff as, N·m/rad, and lose, N·m·s/rad.
TEETH, TEETH_DAMPING = 1500.0, 1.0
SPRING_LOSS = 0.002
#: Links swing on their springs at so many Hz at most.
FASTEST = 12.0
#: A motion that reverses often: rad, and from and to so many Hz.
REVERSING = ((0.6, 0.2, 0.5), (0.3, 0.5, 1.0), (0.12, 1.0, 1.8))


class Arm(NamedTuple):
    """An arm.

    Attributes:
        text: Its MJCF.
        joints: Their names.
        waves: Of its motion: size, lowest and highest frequency.
        strength: How much larger the forces are that are missing than in the first arms.
    """

    text: str
    joints: tuple[str, ...]
    waves: tuple[tuple[float, float, float], ...]
    strength: float


def _arm(
    *links: tuple[str, str, float, float, float, float],
    waves: tuple[tuple[float, float, float], ...] = REVERSING,
    strength: float = 1.0,
) -> Arm:
    """Return an arm of links: joint, axis, length, mass, gain, armature."""
    opening, closing, actuators, sensors, above = '', '', '', '', '0 0 .1'
    for joint, axis, length, mass, gain, armature in links:
        opening += (
            f'<body name="{joint}_link" pos="{above}"><joint name="{joint}" axis="{axis}" '
            f'armature="{armature}" damping="{gain / 130:.4f}" frictionloss="{gain / 400:.4f}"/>'
            f'<geom type="capsule" fromto="0 0 0 {length} 0 0" size=".02" mass="{mass}"/>'
        )
        closing += '</body>'
        above = f'{length} 0 0'
        actuators += f'<position name="{joint}" joint="{joint}" kp="{gain}" kv="{gain / 40}"/>'
        sensors += f'<jointpos name="{joint}_pos" joint="{joint}"/>'
    return Arm(
        f'<mujoco><option timestep="{STEP}" integrator="implicitfast"/><worldbody>{opening}'
        f'{closing}</worldbody><actuator>{actuators}</actuator><sensor>{sensors}</sensor></mujoco>',
        tuple(link[0] for link in links),
        waves,
        strength,
    )


ARMS = {
    'two': _arm(('shoulder', '0 1 0', 0.3, 0.6, 40, 0.02), ('elbow', '0 1 0', 0.25, 0.4, 20, 0.01)),
    'three': _arm(
        ('pan', '0 0 1', 0.05, 0.5, 30, 0.015),
        ('lift', '0 1 0', 0.22, 0.4, 45, 0.02),
        ('bend', '0 1 0', 0.2, 0.3, 25, 0.012),
    ),
    # No load on two joints, a heavy hand; served to find what was wrong.
    'scara': _arm(
        ('base', '0 0 1', 0.25, 0.9, 70, 0.03),
        ('elbow', '0 0 1', 0.2, 0.6, 45, 0.02),
        ('pitch', '0 1 0', 0.08, 0.3, 25, 0.008),
        ('roll', '1 0 0', 0.06, 0.7, 15, 0.006),
        waves=((0.5, 0.15, 0.35), (0.25, 0.4, 0.9)),
    ),
    # Ten times as strong; a single draw of it (seed 0) was looked at while the method was made.
    'large': _arm(
        ('pan', '0 0 1', 0.1, 4.0, 500, 0.6),
        ('shoulder', '0 1 0', 0.4, 6.0, 800, 0.7),
        ('elbow', '0 1 0', 0.35, 3.0, 400, 0.3),
        ('pitch', '0 1 0', 0.12, 1.2, 120, 0.06),
        ('roll', '0 0 1', 0.1, 1.0, 80, 0.04),
        waves=((0.7, 0.1, 0.3), (0.3, 0.3, 0.7), (0.08, 0.8, 1.5)),
        strength=10.0,
    ),
}


class Truth:
    """An arm whose model is wrong in its values, and lacks one thing."""

    def __init__(self, arm: Arm, kind: str, joint: str, rng: np.random.Generator) -> None:
        spec = mujoco.MjSpec.from_string(arm.text)
        spec.option.timestep = STEP / FINER
        for each in spec.joints:
            each.armature *= rng.uniform(*OFF)
            each.damping[0] *= rng.uniform(*OFF)
            each.frictionloss *= rng.uniform(*OFF)
        for servo in spec.actuators:
            factor = rng.uniform(*OFF)
            servo.gainprm[0] *= factor
            servo.biasprm[1] *= factor
        self.kind, self.size = kind, SIZES[kind]
        if kind in ('asymmetric friction', 'elastic joint'):
            self.size *= arm.strength
        self.count, self.waves = len(arm.joints), arm.waves
        self.place = arm.joints.index(joint) if joint else -1
        if kind in ('elastic joint', 'backlash'):
            link = spec.joint(joint)
            body = spec.worldbody.add_body(name='wheel')
            body.explicitinertial, body.mass, body.inertia = True, 1e-6, [1e-6] * 3
            wheel = body.add_joint(name='wheel', axis=[0, 0, 1])
            wheel.armature, wheel.frictionloss = link.armature, link.frictionloss
            wheel.damping[:] = link.damping
            link.armature, link.frictionloss, link.damping[:] = 0.0, 0.0, 0.0
            spec.actuator(joint).target = 'wheel'
        self.model = spec.compile()
        self.data = mujoco.MjData(self.model)

    def step(self, goals: np.ndarray) -> None:
        """Make one step."""
        data, k = self.data, self.place
        data.ctrl[:] = goals
        data.qfrc_applied[:] = 0.0
        if self.kind == 'asymmetric friction':
            data.qfrc_applied[k] = -self.size
        elif self.kind == 'dead band':
            error = goals[k] - data.qpos[k]
            data.ctrl[k] = data.qpos[k] + _beyond(error, self.size / 2)
        elif self.kind != CLEAN:
            twist = data.qpos[self.count] - data.qpos[k]
            speed = data.qvel[self.count] - data.qvel[k]
            if self.kind == 'elastic joint':
                torque = self.size * (twist + SPRING_LOSS * speed)
            else:
                pressed = _beyond(twist, self.size / 2)
                torque = TEETH * pressed + TEETH_DAMPING * speed * (pressed != 0)
            data.qfrc_applied[k], data.qfrc_applied[self.count] = torque, -torque
        mujoco.mj_step(self.model, data)

    def record(self, name: str, joints: tuple[str, ...], rng: np.random.Generator) -> Trajectory:
        """Record a motion of waves, from rest; encoders are on the links."""
        waves = [
            (size, rng.uniform(low, high, self.count), rng.uniform(0, 2 * np.pi, self.count))
            for size, low, high in self.waves
        ]
        mujoco.mj_resetData(self.model, self.data)
        substeps = round(FINER / (RATE * STEP))
        for _ in range(round(SETTLING * RATE * substeps)):
            self.step(np.zeros(self.count))
        times = np.arange(round(SECONDS * RATE)) / RATE
        ramp = np.clip(times, 0.0, 1.0)
        goals = sum(s * np.sin(2 * np.pi * f * times[:, None] + p) for s, f, p in waves)
        goals = goals * (ramp**2 * (3 - 2 * ramp))[:, None]
        positions = np.empty_like(goals)
        for row, goal in enumerate(goals):
            positions[row] = self.data.qpos[: self.count]
            for _ in range(substeps):
                self.step(goal)
        count = 2 * np.pi / 2**BITS
        positions += NOISE * rng.standard_normal(positions.shape)
        positions = np.round(positions / count) * count
        measured = {f'{j}_pos': (SignalType.MjSensor, np.array([i])) for i, j in enumerate(joints)}
        told = {j: (SignalType.MjCtrl, np.array([i])) for i, j in enumerate(joints)}
        return Trajectory(
            name,
            0,
            positions[:3].mean(axis=0),
            np.zeros(self.count),
            (TimeSeries(times, goals, told),),
            (TimeSeries(times, positions, measured),),
        )


def _beyond(value: float, half: float) -> float:
    return float(np.sign(value) * max(abs(value) - half, 0.0))


def planted_in(arm: Arm, kind: str) -> tuple[str, ...]:
    """Return the joints that may have something: springs on which the link swings slowly enough.

    Where it swings much faster than the arm moves, a lower gain of the servo does the same.
    """
    model = mujoco.MjModel.from_xml_string(arm.text)
    size = SIZES[kind] * arm.strength
    swings = [np.sqrt(size * model.dof_invweight0[model.joint(j).dofadr[0]]) for j in arm.joints]
    slow = [j for j, swing in zip(arm.joints, swings, strict=True) if swing < 2 * np.pi * FASTEST]
    return tuple(slow) if kind == 'elastic joint' else arm.joints


def problem_of(arm: Arm, kind: str, joint: str, seed: int) -> Problem:
    """Return two recordings to fit and one that is held out, of an arm that lacks something."""
    rng = np.random.default_rng([seed, list(SIZES).index(kind)])
    truth = Truth(arm, kind, joint, rng)
    runs = [truth.record(f'run{place}', arm.joints, rng) for place in range(3)]
    spec = mujoco.MjSpec.from_string(arm.text)
    model = spec.compile()
    scope = Scope(model, spec, runs[:2])
    return Problem(
        spec,
        model,
        tuple(
            CalibrationBag(
                Path(run.name),
                'train' if place < 2 else 'validate',  # noqa: PLR2004 (the first two)
                Alignment(run.name, (run,), (), (), (), ()),
            )
            for place, run in enumerate(runs)
        ),
        tuple(unknown for target in TARGETS for unknown in make_unknowns(target, scope)),
        RobotModel(Description(Path('arm.xml')), spec),
    )


def main() -> None:
    """Print what was named in each draw, and the confusion matrix."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--seeds', default='0:10', help='FIRST:END; default 0:10')
    parser.add_argument('--arm', choices=list(ARMS), default='two')
    parser.add_argument('--kinds', nargs='+', choices=list(SIZES), default=list(SIZES))
    args = parser.parse_args()
    config = CalibrationConfig(
        model=Path('arm.xml'),
        bags=(BagSelection(path='bag'),),
        parameters=tuple(ParameterConfig(target=target) for target in TARGETS),
        solver=SolverConfig(threads=1),
    )
    arm = ARMS[args.arm]
    first, end = map(int, args.seeds.split(':'))
    matrix: Counter[tuple[str, str]] = Counter()
    right: Counter[str] = Counter()
    slowest = 0.0
    for kind in args.kinds:
        for seed in range(first, end):
            joints = planted_in(arm, kind)
            joint = '' if kind == CLEAN else joints[seed % len(joints)]
            problem = problem_of(arm, kind, joint, seed)
            begun = time.process_time()
            found = missing_in(config, problem, Nobody()).missing
            spent = time.process_time() - begun
            slowest = max(slowest, spent)
            named = found.named
            matrix[kind, named.lack if named else CLEAN] += 1
            right[kind] += (named.lack, named.joint) == (kind, joint) if named else kind == CLEAN
            best = found.trials[0] if found.trials else None
            said = named.title if named else CLEAN
            close = '' if named or best is None else f' (best: {best.title}, p {best.p_value:.2g})'
            if found.as_good:
                close = f' (or {", ".join(found.as_good)})'
            values = ' '.join(f'{value.value:.4g}' for value in named.values) if named else ''
            print(
                f'{kind:20} {joint:9} seed {seed:3}  '
                f'{said} {values}{close}  '
                f'held out {found.held_out:.3g} -> {best.held_out if best else np.nan:.3g}, '
                f'{spent:.0f} s',
                flush=True,
            )
    columns = list(SIZES)
    print(f'\n{"planted":20} right  ' + ' '.join(f'{column:>20}' for column in columns))
    for kind in args.kinds:
        row = ' '.join(f'{matrix[kind, column]:20}' for column in columns)
        print(f'{kind:20} {right[kind]:2}/{end - first:<3} {row}')
    print(f'\nmost processor seconds of one command: {slowest:.0f}')


if __name__ == '__main__':
    main()
