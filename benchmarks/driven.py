# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What friction laws between the steps cost: 64 candidates of the demo's arm, plain and driven.

"plain" is ``mujoco.batch``'s rollout, which steps in C without a look from Python: of the arm as
its MJCF has it, without dry friction, and of the same with dry friction at every joint, for which
MuJoCo has to solve for its forces as it has with the laws. Driven arms have a servo at every joint
and another friction coefficient in every simulation, and torque, load and friction are evaluated
in NumPy before each step: that is the engine's simulator, from commands to predictions of every
sensor. All record the sensors. They take turns, and medians are compared.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import mujoco
import numpy as np
from mujoco.batch import Batch
from numpy.typing import NDArray

from sysid_ros.model.targets import element_names
from sysid_ros.pipeline.servos import servo_unknowns
from sysid_ros.rollout.prediction import make_simulator
from sysid_ros.servos.laws.joints import ServoDrive, ServoJoints, starting_values
from sysid_ros.servos.laws.servo import Servo
from sysid_ros.signals.timeseries import SignalType, TimeSeries
from sysid_ros.signals.trajectory import Trajectory

ARM = Path(__file__).parents[1] / 'config' / 'demo' / 'arm.xml'
CANDIDATES = 64
#: Where the arm is, away from its limits, rad; and how far it swings, at .7 Hz.
POSE = np.array([0.0, -1.0, 1.2, 0.0, 0.0, 0.0])
SWING, FREQUENCY = 0.2, 0.7
#: Dry friction of the plain arm and of the driven ones, N·m.
FRICTION = 2.0
#: A servo for the joints of such an arm, and its inertia at the joint, kg·m².
SERVO, ARMATURE = 'erob80_100', 0.5
LAWS = ('m1', 'm4', 'm6')
#: More than this many times the plain rollouts is too slow.
LIMIT = 6.0


def goals(steps: int, timestep: float) -> NDArray[np.float64]:
    """Return (steps, 6) commanded positions, rad."""
    phases = 2 * np.pi * FREQUENCY * timestep * np.arange(steps)[:, None] + np.arange(len(POSE))
    return POSE + SWING * np.sin(phases)


def plain(model: mujoco.MjModel, wanted: NDArray[np.float64], threads: int) -> Callable[[], None]:
    """Return a function that simulates the model's own actuators."""
    batch = Batch(model, CANDIDATES, threads)
    control = np.tile(wanted, (CANDIDATES, 1, 1))

    def run() -> None:
        batch.reset(stage=0)
        batch.bind('qpos')[:] = POSE
        batch.rollout(len(wanted), control, record=('sensordata',))

    return run


def driven(
    model: mujoco.MjModel, law: str, wanted: NDArray[np.float64], threads: int
) -> Callable[[], None]:
    """Return a function that simulates a servo at every joint."""
    servo = Servo.named(SERVO, law)
    values = {**starting_values(servo), 'armature': ARMATURE}
    drive = ServoDrive(tuple(element_names(model, 'actuator')), servo, values)
    joints = ServoJoints(model, [drive])
    times = model.opt.timestep * np.arange(len(wanted))
    sensors = list(element_names(model, 'sensor'))
    blank = np.zeros((len(times), model.nsensordata))
    run_of_arm = Trajectory(
        name='swing',
        origin_ns=0,
        initial_qpos=POSE,
        initial_qvel=np.zeros(model.nv),
        commands=(TimeSeries.from_columns(times, wanted, drive.actuators, SignalType.MjCtrl),),
        measurements=(TimeSeries.from_columns(times, blank, sensors),),
    )
    unknowns = servo_unknowns(joints, ['friction_base'], shared=True)
    simulator = make_simulator(model, unknowns, [run_of_arm], threads, drives=joints)
    bases = np.linspace(0.5 * FRICTION, 1.5 * FRICTION, CANDIDATES)[:, None]

    def run() -> None:
        simulator.predict(bases)

    return run


def main() -> None:
    """Print the times and their ratios."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--steps', type=int, default=500, help='of each simulation')
    parser.add_argument('--runs', type=int, default=15, help='that the medians are of')
    parser.add_argument('--threads', type=int, default=os.cpu_count() or 1)
    args = parser.parse_args()
    model = mujoco.MjModel.from_xml_path(str(ARM))
    rubbing = model.__copy__()
    rubbing.dof_frictionloss[:] = FRICTION
    wanted = goals(args.steps, model.opt.timestep)
    runs = {
        'plain, no dry friction': plain(model, wanted, args.threads),
        'plain, dry friction': plain(rubbing, wanted, args.threads),
        **{f'{law} at every joint': driven(model, law, wanted, args.threads) for law in LAWS},
    }
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for turn in range(args.runs + 1):
        for name, run in runs.items():
            begin = time.perf_counter()
            run()
            if turn:  # the first one makes buffers
                seconds[name].append(time.perf_counter() - begin)
    medians = {name: statistics.median(some) for name, some in seconds.items()}
    bare, dry = list(medians.values())[:2]
    print(
        f'{CANDIDATES} candidates, {args.steps} steps, {model.nv} joints, {args.threads} threads, '
        f'MuJoCo {mujoco.__version__}, Python {platform.python_version()}'
    )
    print(f'{"":26s}{"µs per step of all":>20s}{"to no friction":>16s}{"to dry friction":>17s}')
    for name, median in medians.items():
        each = 1e6 * median / args.steps
        print(f'{name:26s}{each:20.0f}{median / bare:16.2f}{median / dry:17.2f}')
    worst = max(medians[f'{law} at every joint'] for law in LAWS) / bare
    verdict = 'within' if worst <= LIMIT else 'ABOVE'
    print(f'The dearest law costs {worst:.2f} times the plain rollouts: {verdict} {LIMIT:g}.')


if __name__ == '__main__':
    main()
