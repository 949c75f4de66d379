# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Whether each kind of command comes back: a robot with a known delay, its bag, and the fit of it.

A two-joint arm with hidden parameters is moved, recorded as a bag and calibrated with automatic
mapping. First without a controller in between, once for each type that we send or read: the delay
must be found within .2 ms. Then with a joint_trajectory_controller, written here from its
documentation, between sparse points with velocities and the arm: with its ``controller_state`` and
without, 9 of 10 intervals must hold the truth, and draws of which all four do must be no fewer than
the covariances promise. (For independent ones that is 81 %: 95 % is said of each by itself.)
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from rosbags.typesys import Stores, get_types_from_msg, get_typestore
from scipy.interpolate import BPoly
from scipy.stats import binom

import sysid_ros
from sysid_ros.alignment import PairRole
from sysid_ros.bags import BagWriter
from sysid_ros.excitation import sum_of_sines
from sysid_ros.identification.fit import fit
from sysid_ros.model.loading import load_model
from sysid_ros.model.unknown import make_unknowns
from sysid_ros.virtual_robot import Noise, Plant
from sysid_ros.virtual_robot.commands import TrajectoryCommand

ARM = """<mujoco><compiler angle="radian"/>
<option timestep=".002" integrator="implicitfast"><flag contact="disable"/></option>
<worldbody><body><joint name="shoulder" axis="0 1 0" range="-2 2" armature=".2" damping="2"/>
<inertial mass="1" pos=".15 0 0" diaginertia=".001 .01 .01"/>
<body pos=".3 0 0"><joint name="elbow" axis="0 1 0" range="-2 2" armature=".1" damping="1"/>
<inertial mass=".8" pos=".15 0 0" diaginertia=".001 .008 .008"/></body></body></worldbody>
<actuator><position name="drive_s" joint="shoulder" kp="120" ctrlrange="-2 2"/>
<position name="drive_e" joint="elbow" kp="60" ctrlrange="-2 2"/></actuator></mujoco>"""
JOINTS = ('shoulder', 'elbow')
#: Target, one value for all, to the ends of what the truth is drawn from.
TRUTH = {
    'joint/*/armature': (0.05, 0.3),
    'joint/*/damping': (0.5, 3.0),
    'joint/*/frictionloss': (0.05, 0.3),
    'actuator/*/delay': (0.003, 0.015),
}
SECONDS, RATE = 5.0, 100.0
#: What the clock says when a bag begins, ns; and its first command, s after the first state.
ORIGIN, FIRST = 1_700_000_000 * 10**9, 0.2
#: Points of the controller's trajectories a second.
SPARSE = 10.0
NOISE = {'position': 1e-4, 'velocity': 5e-3, 'encoder_bits': 14}
#: Largest error of a delay, s, smallest share of intervals that hold the truth, and smallest
#: probability that chance is to blame for the number of draws of which all do.
DELAY_LIMIT, SHARE, CHANCE = 2e-4, 0.9, 0.01
STATE = 'sensor_msgs/msg/JointState'
ARRAY = 'std_msgs/msg/Float64MultiArray'
TRAJECTORY = 'trajectory_msgs/msg/JointTrajectory'
CONTROLLER = 'control_msgs/msg/JointTrajectoryControllerState'
CONTROLLER_TEXT = '\n'.join(
    [
        'std_msgs/Header header',
        'string[] joint_names',
        *(
            f'trajectory_msgs/JointTrajectoryPoint {part}'
            for part in ('reference', 'feedback', 'error', 'output')
        ),
        *(
            f'{80 * "="}\nMSG: {name}\n{text}'
            for name, text in {
                'std_msgs/Header': 'builtin_interfaces/Time stamp\nstring frame_id',
                'builtin_interfaces/Time': 'int32 sec\nuint32 nanosec',
                'builtin_interfaces/Duration': 'int32 sec\nuint32 nanosec',
                'trajectory_msgs/JointTrajectoryPoint': 'float64[] positions\n'
                'float64[] velocities\nfloat64[] accelerations\nfloat64[] effort\n'
                'builtin_interfaces/Duration time_from_start',
            }.items()
        ),
    ]
)
_STORE = get_typestore(Stores.ROS2_JAZZY)
_STORE.register(
    {
        name: types
        for name, types in get_types_from_msg(CONTROLLER_TEXT, CONTROLLER).items()
        if name == CONTROLLER
    }
)


class Setting(NamedTuple):
    """What a draw is recorded with.

    Attributes:
        updates: Of the controller, a second.
        states: Joint states a second.
        effort: Noise of the efforts, N·m.
    """

    updates: float = 500.0
    states: float = 250.0
    effort: float = 0.2


DEFAULT = Setting()


class Sent(NamedTuple):
    """One message: when the recorder has it, s, its topic, its type and itself."""

    time: float
    topic: str
    msgtype: str
    message: Any


def make(msgtype: str, **fields: Any) -> Any:
    """Return a message; arrays that are not given are empty."""
    return _STORE.types[msgtype](**fields)


def header(at: float | None) -> Any:
    """Return a header with a stamp, or with none."""
    ns = 0 if at is None else ORIGIN + round(at * 1e9)
    stamp = make('builtin_interfaces/msg/Time', sec=ns // 10**9, nanosec=ns % 10**9)
    return make('std_msgs/msg/Header', stamp=stamp, frame_id='')


def point(after: float, *values: NDArray[np.float64]) -> Any:
    """Return a trajectory point: positions, and derivatives as far as they are given."""
    names = ('positions', 'velocities', 'accelerations', 'effort')
    none = [np.zeros(0)] * (len(names) - len(values))
    ns = round(after * 1e9)
    span = make('builtin_interfaces/msg/Duration', sec=ns // 10**9, nanosec=ns % 10**9)
    return make(
        'trajectory_msgs/msg/JointTrajectoryPoint',
        **dict(zip(names, [*values, *none], strict=True)),
        time_from_start=span,
    )


def trajectory(at: float, points: list[Any]) -> Sent:
    """Return a trajectory that starts when it arrives."""
    message = make(TRAJECTORY, header=header(None), joint_names=list(JOINTS), points=points)
    return Sent(at, '/arm_controller/joint_trajectory', TRAJECTORY, message)


def joint_state(topic: str, at: float, *values: NDArray[np.float64]) -> Sent:
    """Return joint states, stamped."""
    none = [np.zeros(0)] * (3 - len(values))
    fields = dict(zip(('position', 'velocity', 'effort'), [*values, *none], strict=True))
    return Sent(at, topic, STATE, make(STATE, header=header(at), name=list(JOINTS), **fields))


def array(at: float, command: NDArray[np.float64]) -> Sent:
    """Return commands as an array."""
    layout = make('std_msgs/msg/MultiArrayLayout', dim=[], data_offset=0)
    message = make(ARRAY, layout=layout, data=command)
    return Sent(at, '/forward_position_controller/commands', ARRAY, message)


def at_once(at: float, command: NDArray[np.float64]) -> Sent:
    """Return a trajectory as the exciter sends it."""
    return trajectory(at, [point(0.0, command)])


def a_period_later(at: float, command: NDArray[np.float64]) -> Sent:
    """Return a trajectory that takes until the next command comes."""
    return trajectory(at, [point(1 / RATE, command)])


def stamped_state(at: float, command: NDArray[np.float64]) -> Sent:
    """Return joint states that are commands."""
    return joint_state('/joint_commands', at, command)


#: Name of a kind of command to what makes its messages.
DIRECT: dict[str, Callable[[float, NDArray[np.float64]], Sent]] = {
    'Float64MultiArray': array,
    'JointTrajectory, at once': at_once,
    'JointTrajectory, a period later': a_period_later,
    'JointState': stamped_state,
}


#: Name of a way through a controller to what is sent (a trajectory at once, one each second that
#: replaces the rest of the one before, or single points as the exciter sends them), and whether
#: the controller's state is recorded.
CONTROLLED = {
    f'controller, {sent}{", its state" if recorded else ""}': (sent, recorded)
    for recorded in (True, False)
    for sent in ('one trajectory', 'pieces', 'points')
}


def plant_and_truth(folder: Path, seed: int, setting: Setting) -> tuple[Plant, dict[str, float]]:
    """Return an arm and what it hides."""
    rng = np.random.default_rng(seed)
    truth = {target: float(rng.uniform(*ends)) for target, ends in TRUTH.items()}
    path = folder / 'arm.xml'
    path.write_text(ARM)
    noise = Noise(**NOISE, effort=setting.effort, seed=seed)
    return Plant(path, truth, rate=setting.states, noise=noise), truth


def directly(
    folder: Path, seed: int, kind: str, setting: Setting
) -> tuple[list[Sent], dict[str, float]]:
    """Send commands to the arm; return what a recorder gets, and the truth."""
    plant, truth = plant_and_truth(folder, seed, setting)
    # Arrivals are as even as the sender: what uneven ones do is the arrivals benchmark's subject.
    offset = np.random.default_rng((seed, 1)).uniform(0, 0.01)
    motion = sum_of_sines(
        load_model(folder / 'arm.xml'), duration=SECONDS, max_frequency=4.0, seed=seed, rate=RATE
    )
    sent = []
    for at, command in zip(FIRST + motion.times, motion.commands, strict=True):
        arrival = at + offset
        sent.append(DIRECT[kind](arrival, command))
        values: NDArray[np.float64] | TrajectoryCommand = command
        if kind == 'JointTrajectory, a period later':
            points = np.full((1, 3, 2), np.nan)
            points[0, 0] = command
            values = TrajectoryCommand(np.array([1 / RATE]), points)
        plant.command(arrival, values)
    return [*sent, *states(plant, FIRST + SECONDS)], truth


def states(plant: Plant, until: float) -> Iterator[Sent]:
    """Let the arm move; yield its joint states."""
    for s in plant.advance(until):
        yield joint_state('/joint_states', s.time, s.position, s.velocity, s.effort)


class TrajectoryController:
    """A joint_trajectory_controller, from its documentation, with its defaults of Jazzy.

    At each update it takes the trajectory that came last, from where the robot is, or from where
    it last asked it to be; what is asked for one update later goes to the drives.
    """

    def __init__(self, home: NDArray[np.float64], updates: float, *, from_desired: bool) -> None:
        self._period = 1 / updates
        self._from_desired = from_desired
        self._splines = [BPoly.from_derivatives([0, 1], [[q], [q]]) for q in home]
        self._pending: list[tuple[float, list[tuple[float, Any]]]] = []
        self._end = 1.0

    def send(self, at: float, points: list[tuple[float, NDArray[np.float64]]]) -> None:
        """Take a trajectory: seconds from the start and (2, n) positions and velocities."""
        self._pending.append((at, points))

    def update(self, now: float, measured: NDArray[np.float64]) -> tuple[Any, Any]:
        """Return the (2, n) reference of now and what goes to the drives."""
        while self._pending and self._pending[0][0] <= now:
            _, points = self._pending.pop(0)
            start = self._at(now) if self._from_desired else measured
            times = [now, *(now + after for after, _ in points)]
            through = np.array([start, *(values for _, values in points)])
            if times[-1] == now:
                through[0, 0], through[:, 1], times[-1] = through[1, 0], 0.0, now + 1.0
            self._splines = [
                BPoly.from_derivatives(times, through[:, :, joint]) for joint in range(len(JOINTS))
            ]
            self._end = times[-1]
        return self._at(now), self._at(now + self._period)[0]

    def _at(self, time: float) -> NDArray[np.float64]:
        moment = min(time, self._end)
        rows = [[s(moment) for s in self._splines], [s(moment, 1) for s in self._splines]]
        return np.array(rows) * [[1], [time < self._end]]


def controlled(
    folder: Path, seed: int, setting: Setting, *, kind: str, recorded: bool
) -> tuple[list[Sent], dict[str, float]]:
    """Move the arm through a controller; return what a recorder gets, and the truth."""
    plant, truth = plant_and_truth(folder, seed, setting)
    updates = setting.updates
    rng = np.random.default_rng((seed, 2))
    motion = sum_of_sines(load_model(folder / 'arm.xml'), duration=SECONDS, seed=seed, rate=1000)
    every = round(1000 / (RATE if kind == 'points' else SPARSE))
    times = motion.times[::every]
    slopes = np.gradient(motion.commands, motion.times, axis=0)[::every]
    slopes[[0, -1]] = 0.0
    through = [np.array(pair) for pair in zip(motion.commands[::every], slopes, strict=True)]
    reach = {'one trajectory': SECONDS, 'pieces': 2.0, 'points': 0.0}[kind]
    starts = {'one trajectory': [0.0], 'pieces': np.arange(0, SECONDS - 1), 'points': times}[kind]
    controller = TrajectoryController(np.zeros(2), updates, from_desired=kind == 'pieces')
    sent, waits = [], []
    for first in starts:
        arrival = FIRST + first + (rng.uniform(0, 0.01) if reach else 0.0003)
        chosen = [n for n, at in enumerate(times) if at == first or first < at <= first + reach]
        chosen = chosen[1:] if reach else chosen
        points = [(float(times[n] - first), through[n]) for n in chosen]
        controller.send(arrival, points)
        waits.append(-arrival % (1 / updates))
        received = arrival + (rng.uniform(0, 5e-4) if reach else 0.0)
        named = [point(after, *(values if reach else values[:1])) for after, values in points]
        sent.append(trajectory(received, named))
    if kind == 'points' and not recorded:
        # What the controller's updates add is a part of the way from the message to the servo.
        truth['actuator/*/delay'] += float(np.mean(waits))
    measured = np.zeros((2, 2))
    for now in (round(k / updates, 9) for k in range(round(updates * (FIRST + SECONDS)))):
        # A sample is taken in the step that begins with it; no command acts within that step.
        for s in plant.advance(now + plant.timestep):
            measured = np.array([s.position, s.velocity])
            sent.append(joint_state('/joint_states', s.time, s.position, s.velocity, s.effort))
        reference, output = controller.update(now, measured)
        plant.command(now, output)
        if recorded:
            sent.append(controller_state(now, reference, measured, output))
    return sent, truth


def controller_state(
    now: float,
    reference: NDArray[np.float64],
    measured: NDArray[np.float64],
    output: NDArray[np.float64],
) -> Sent:
    """Return what the controller says of an update: (2, n) positions and velocities, (n,) sent."""
    parts = {
        'reference': point(0.0, *reference),
        'feedback': point(0.0, *measured),
        'error': point(0.0, *(reference - measured)),
        'output': point(0.0, output),
    }
    message = make(CONTROLLER, header=header(now), joint_names=list(JOINTS), **parts)
    return Sent(now, '/arm_controller/controller_state', CONTROLLER, message)


def write_bag(path: Path, messages: list[Sent]) -> None:
    """Write a bag as a recorder does."""
    with BagWriter(path) as bag:
        for topic, msgtype in {(item.topic, item.msgtype): None for item in messages}:
            own = CONTROLLER_TEXT if msgtype == CONTROLLER else ''
            bag.add_topic(topic, msgtype, definition=own)
        for item in sorted(messages, key=lambda item: item.time):
            data = bytes(_STORE.serialize_cdr(item.message, item.msgtype))
            bag.write(item.topic, ORIGIN + round(item.time * 1e9), data)


class Found(NamedTuple):
    """What a fit says of one draw.

    Attributes:
        delay: Estimate less truth, s.
        missed: Parameters whose interval does not hold the truth.
        worst: How far the farthest parameter is off, in its standard errors.
        together: Whether the intervals of all parameters at once hold the truth.
        promised: Probability that all intervals hold the truth if the covariance is right.
        topic: Where the commands were read from.
    """

    delay: float
    missed: tuple[str, ...]
    worst: float
    together: bool
    promised: float
    topic: str


def promised(covariance: NDArray[np.float64]) -> float:
    """Return the probability that all 95 % intervals hold, at the correlations of a covariance."""
    said = np.isfinite(np.diag(covariance))
    own = covariance[np.ix_(said, said)]
    errors = np.random.default_rng(0).multivariate_normal(np.zeros(len(own)), own, 20_000)
    return float(np.mean(np.all(np.abs(errors) < 1.96 * np.sqrt(np.diag(own)), axis=1)))


def identify(folder: Path, messages: list[Sent], truth: dict[str, float]) -> Found:
    """Record, read with automatic mapping, fit and compare."""
    write_bag(folder / 'bag', messages)
    model = load_model(folder / 'arm.xml')
    alignment = sysid_ros.read(folder / 'bag', model).alignment
    unknowns = [item for target in truth for item in make_unknowns(target, model, shared=True)]
    found = fit(model, unknowns, alignment.sequences, threads=1)
    missed, delay = [], 0.0
    covariance = found.inference.covariance[: len(unknowns), : len(unknowns)]
    off = np.abs(found.solution.x - [truth[unknown.name] for unknown in unknowns])
    worst = float(np.nanmax(off / np.sqrt(np.diag(covariance))))
    for unknown, value, interval in zip(unknowns, found.solution.x, found.intervals, strict=True):
        true = truth[unknown.name]
        if unknown.name.endswith('/delay'):
            delay = max(delay, float(value) - true, key=abs)
        if not interval.low <= true <= interval.high:
            missed.append(unknown.name)
    halves = [(interval.high - interval.low) / 2 for interval in found.intervals]
    together = bool(np.all(off <= found.inference.all_at_once * np.array(halves)))
    (topic,) = {pair.topic for pair in alignment.pairs if pair.role is PairRole.ACTUATOR}
    return Found(delay, tuple(missed), worst, together, promised(covariance), topic)


def draw(case: str, seed: int, setting: Setting = DEFAULT) -> Found:
    """Record and fit one draw of a case."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if case in DIRECT:
            messages, truth = directly(folder, seed, case, setting)
        else:
            kind, recorded = CONTROLLED[case]
            messages, truth = controlled(folder, seed, setting, kind=kind, recorded=recorded)
        return identify(folder, messages, truth)


def main() -> int:
    """Print a row per case; return 1 where a limit is broken."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--seeds', type=int, default=20)
    parser.add_argument('--first', type=int, default=0, help='the first seed')
    parser.add_argument('--cases', default='', help='part of the name of the cases to run')
    for name, value, text in (
        ('updates', DEFAULT.updates, 'of the controller, a second'),
        ('states', DEFAULT.states, 'joint states a second'),
        ('effort', DEFAULT.effort, 'noise of the efforts, N·m'),
    ):
        parser.add_argument(f'--{name}', type=float, default=value, help=text)
    args = parser.parse_args()
    setting = Setting(args.updates, args.states, args.effort)
    failed = False
    titles = (
        'worst delay error  intervals  whole draws (promised)  at once  worst off  commands from'
    )
    print(f'{"case":42} {titles}')
    for case in (*DIRECT, *CONTROLLED):
        if args.cases not in case:
            continue
        begin = time.perf_counter()
        found = [draw(case, seed, setting) for seed in range(args.first, args.first + args.seeds)]
        whole = sum(not item.missed for item in found)
        error = max((item.delay for item in found), key=abs)
        held = 1 - sum(len(item.missed) for item in found) / len(TRUTH) / len(found)
        chance = float(np.mean([item.promised for item in found]))
        if case in DIRECT:
            failed |= abs(error) > DELAY_LIMIT
        else:
            failed |= held < SHARE or binom.cdf(whole, len(found), chance) < CHANCE
        print(
            f'{case:42} {1e3 * error:+13.3f} ms {held:10.1%}'
            f' {whole:10} of {len(found):2} ({chance:.0%})'
            f' {sum(item.together for item in found):11} of {len(found):2}'
            f' {max(item.worst for item in found):9.2f} s.e.  {found[0].topic}'
            f'  ({time.perf_counter() - begin:.0f} s)',
            flush=True,
        )
        for seed, item in enumerate(found, args.first):
            if item.missed:
                print(f'  seed {seed}: {1e3 * item.delay:+.3f} ms, missed {", ".join(item.missed)}')
    return int(failed)


if __name__ == '__main__':
    sys.exit(main())
