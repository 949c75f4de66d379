# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Whether each kind of command comes back: a robot with a known delay, its bag, and the fit of it.

A two-joint arm with a known delay is moved, recorded as a bag and calibrated with
automatic mapping. First without a controller in between, once for each type that we send or read:
the delay must be found within .2 ms. Then with a joint_trajectory_controller, written here from its
documentation, between sparse points with velocities and the arm: with its ``controller_state`` and
without, 9 of 10 intervals must hold the truth, and draws of which all four do must be no fewer than
the covariances promise. (For independent ones that is 81 %: 95 % is said of each by itself.)
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rosbags.typesys import get_types_from_msg
from scipy.interpolate import BPoly
from scipy.stats import binom
from shared.arms import JOINTS, Link, chain
from shared.common import (
    ORIGIN_NS,
    STORE,
    Floats,
    Table,
    array,
    ends,
    header,
    joint_state,
    message,
    run,
    verdict,
    write_bag,
)

import sysid_ros
from sysid_ros.alignment import PairRole
from sysid_ros.fit.fit import FitOptions
from sysid_ros.model.loading import load_model
from sysid_ros.model.targets import make_unknowns
from sysid_ros.plant import Noise, Plant, TrajectoryCommand
from sysid_ros.uncertainty.inference import identify
from sysid_ros.workflows.excitation import sum_of_sines

#: Target, one value for all, to the ends of what the truth is drawn from.
_HIDDEN = {
    'joint/*/armature': (0.05, 0.3),
    'joint/*/damping': (0.5, 3.0),
    'joint/*/frictionloss': (0.05, 0.3),
    'actuator/*/delay': (0.003, 0.015),
}
#: Of a recording, s, and commands a second.
_SECONDS, _RATE = 5.0, 100.0
#: The first command, s after the first state.
_FIRST = 0.2
#: Points of the controller's trajectories a second.
_SPARSE = 10.0
#: Largest error of a delay, s, smallest share of intervals that hold the truth, and smallest
#: probability that chance is to blame for the number of draws of which all do.
_DELAY_LIMIT, _SHARE, _CHANCE = 2e-4, 0.9, 0.01
_TRAJECTORY = 'trajectory_msgs/msg/JointTrajectory'
_CONTROLLER = 'control_msgs/msg/JointTrajectoryControllerState'
_CONTROLLER_TEXT = '\n'.join(
    [
        'std_msgs/Header header\nstring[] joint_names',
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
STORE.register(
    {
        name: types
        for name, types in get_types_from_msg(_CONTROLLER_TEXT, _CONTROLLER).items()
        if name == _CONTROLLER
    }
)
#: A message: when the recorder has it, s, its topic, and itself.
Sent = tuple[float, str, Any]


def _commanded_arm() -> str:
    links = [
        Link(
            f'pos="{place} 0 0"',
            f'name="{joint}" axis="0 1 0" range="-2 2" {own}',
            f'<inertial mass="{mass}" pos=".15 0 0" diaginertia=".001 {moment} {moment}"/>',
        )
        for place, joint, own, mass, moment in (
            (0, 'shoulder', 'armature=".2" damping="2"', 1, 0.01),
            (0.3, 'elbow', 'armature=".1" damping="1"', 0.8, 0.008),
        )
    ]
    servos = (
        '<position name="drive_s" joint="shoulder" kp="120" ctrlrange="-2 2"/>'
        '<position name="drive_e" joint="elbow" kp="60" ctrlrange="-2 2"/>'
    )
    flag = '<option><flag contact="disable"/></option>'
    return chain(links, servos, more=flag)


class Setting(NamedTuple):
    """Updates of the controller and joint states a second, and noise of the efforts, N·m."""

    updates: float = 500.0
    states: float = 250.0
    effort: float = 0.2


DEFAULT = Setting()


def _point(after: float, *values: Floats) -> Any:
    """Return a trajectory point: positions, and derivatives as far as they are given."""
    names = ('positions', 'velocities', 'accelerations', 'effort')
    none = [np.zeros(0)] * (len(names) - len(values))
    ns = round(after * 1e9)
    span = message('builtin_interfaces/msg/Duration', sec=ns // 10**9, nanosec=ns % 10**9)
    fields = dict(zip(names, [*values, *none], strict=True))
    return message('trajectory_msgs/msg/JointTrajectoryPoint', **fields, time_from_start=span)


def _trajectory(at: float, *points: Any) -> Sent:
    """Return a trajectory that starts when it arrives."""
    own = message(_TRAJECTORY, header=header(0), joint_names=list(JOINTS), points=list(points))
    return at, '/arm_controller/joint_trajectory', own


def _joint_states(topic: str, at: float, *values: Floats) -> Sent:
    return at, topic, joint_state(ORIGIN_NS + round(at * 1e9), JOINTS, *values)


#: Name of a kind of command to what makes its messages.
_DIRECT: dict[str, Callable[[float, Floats], Sent]] = {
    'Float64MultiArray': lambda at, q: (at, '/forward_position_controller/commands', array(q)),
    'JointTrajectory, at once': lambda at, q: _trajectory(at, _point(0.0, q)),
    'JointTrajectory, a period later': lambda at, q: _trajectory(at, _point(1 / _RATE, q)),
    'JointState': lambda at, q: _joint_states('/joint_commands', at, q),
}
#: Name of a way through a controller to what is sent (a trajectory at once, one each second that
#: replaces the rest of the one before, or single points as the exciter sends them), and whether
#: the controller's state is recorded.
_CONTROLLED = {
    f'controller, {sent}{", its state" if recorded else ""}': (sent, recorded)
    for recorded in (True, False)
    for sent in ('one trajectory', 'pieces', 'points')
}


def _moved_states(plant: Plant, until: float) -> Iterator[Sent]:
    """Let the arm move; yield its joint states."""
    for s in plant.advance(until):
        yield _joint_states('/joint_states', s.time, s.position, s.velocity, s.effort)


def _directly(folder: Path, plant: Plant, seed: int, kind: str) -> list[Sent]:
    """Send commands to the arm; return what a recorder gets."""
    # Arrivals are as even as the sender: what uneven ones do is the subject of `arrivals`.
    offset = np.random.default_rng((seed, 1)).uniform(0, 0.01)
    motion = sum_of_sines(
        load_model(folder / 'arm.xml'), duration=_SECONDS, max_frequency=4.0, seed=seed, rate=_RATE
    )
    sent = []
    for at, command in zip(_FIRST + motion.times, motion.commands, strict=True):
        arrival = at + offset
        sent.append(_DIRECT[kind](arrival, command))
        values: Floats | TrajectoryCommand = command
        if kind == 'JointTrajectory, a period later':
            points = np.full((1, 3, 2), np.nan)
            points[0, 0] = command
            values = TrajectoryCommand(np.array([1 / _RATE]), points)
        plant.command(arrival, values)
    return [*sent, *_moved_states(plant, _FIRST + _SECONDS)]


class TrajectoryController:
    """A joint_trajectory_controller, from its documentation, with its defaults of Jazzy.

    At each update it takes the trajectory that came last, from where the robot is, or from where
    it last asked it to be; what is asked for one update later goes to the drives.
    """

    def __init__(self, home: Floats, updates: float, *, from_desired: bool) -> None:
        self._period = 1 / updates
        self._from_desired = from_desired
        self._splines = [BPoly.from_derivatives([0, 1], [[q], [q]]) for q in home]
        self._pending: list[tuple[float, list[tuple[float, Any]]]] = []
        self._end = 1.0

    def send(self, at: float, points: list[tuple[float, Floats]]) -> None:
        """Take a trajectory: seconds from the start and (2, n) positions and velocities."""
        self._pending.append((at, points))

    def update(self, now: float, measured: Floats) -> tuple[Floats, Floats]:
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

    def _at(self, time: float) -> Floats:
        moment = min(time, self._end)
        rows = [[s(moment) for s in self._splines], [s(moment, 1) for s in self._splines]]
        return np.array(rows) * [[1], [time < self._end]]


def _controlled(
    folder: Path, plant: Plant, seed: int, updates: float, *, kind: str, recorded: bool
) -> tuple[list[Sent], float]:
    """Move the arm through a controller; return what a recorder gets, and the mean wait, s.

    The wait is that from an arrival to the controller's next update.
    """
    rng = np.random.default_rng((seed, 2))
    motion = sum_of_sines(load_model(folder / 'arm.xml'), duration=_SECONDS, seed=seed, rate=1000)
    every = round(1000 / (_RATE if kind == 'points' else _SPARSE))
    times = motion.times[::every]
    slopes = np.gradient(motion.commands, motion.times, axis=0)[::every]
    slopes[[0, -1]] = 0.0
    through = [np.array(pair) for pair in zip(motion.commands[::every], slopes, strict=True)]
    reach = {'one trajectory': _SECONDS, 'pieces': 2.0, 'points': 0.0}[kind]
    starts = {'one trajectory': [0.0], 'pieces': np.arange(0, _SECONDS - 1), 'points': times}[kind]
    controller = TrajectoryController(np.zeros(2), updates, from_desired=kind == 'pieces')
    sent: list[Sent] = []
    waits = []
    for first in starts:
        arrival = _FIRST + first + (rng.uniform(0, 0.01) if reach else 0.0003)
        chosen = [n for n, at in enumerate(times) if at == first or first < at <= first + reach]
        chosen = chosen[1:] if reach else chosen
        points = [(float(times[n] - first), through[n]) for n in chosen]
        controller.send(arrival, points)
        waits.append(-arrival % (1 / updates))
        received = arrival + (rng.uniform(0, 5e-4) if reach else 0.0)
        named = [_point(after, *(values if reach else values[:1])) for after, values in points]
        sent.append(_trajectory(received, *named))
    measured = np.zeros((2, 2))
    for now in (round(k / updates, 9) for k in range(round(updates * (_FIRST + _SECONDS)))):
        # A sample is taken in the step that begins with it; no command acts within that step.
        for own in _moved_states(plant, now + plant.timestep):
            measured = np.array([own[2].position, own[2].velocity])
            sent.append(own)
        reference, output = controller.update(now, measured)
        plant.command(now, output)
        if recorded:
            parts = {'reference': reference, 'feedback': measured, 'error': reference - measured}
            said = message(
                _CONTROLLER,
                header=header(ORIGIN_NS + round(now * 1e9)),
                joint_names=list(JOINTS),
                output=_point(0.0, output),
                **{name: _point(0.0, *values) for name, values in parts.items()},
            )
            sent.append((now, '/arm_controller/controller_state', said))
    return sent, float(np.mean(waits))


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


def _promised(covariance: Floats) -> float:
    """Return the probability that all 95 % intervals hold, at the correlations of a covariance."""
    said = np.isfinite(np.diag(covariance))
    own = covariance[np.ix_(said, said)]
    errors = np.random.default_rng(0).multivariate_normal(np.zeros(len(own)), own, 20_000)
    return float(np.mean(np.all(np.abs(errors) < 1.96 * np.sqrt(np.diag(own)), axis=1)))


def draw(case: str, seed: int, setting: Setting = DEFAULT) -> Found:
    """Record one draw of a case, read it with automatic mapping, fit and compare."""
    rng = np.random.default_rng(seed)
    truth = {target: float(rng.uniform(*limits)) for target, limits in _HIDDEN.items()}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = folder / 'arm.xml'
        path.write_text(_commanded_arm())
        noise = Noise(
            position=1e-4, velocity=5e-3, encoder_bits=14, effort=setting.effort, seed=seed
        )
        plant = Plant(path, truth, rate=setting.states, noise=noise)
        if case in _DIRECT:
            sent = _directly(folder, plant, seed, case)
        else:
            kind, recorded = _CONTROLLED[case]
            sent, wait = _controlled(
                folder, plant, seed, setting.updates, kind=kind, recorded=recorded
            )
            if kind == 'points' and not recorded:
                # What the updates add is a part of the way from the message to the servo.
                truth['actuator/*/delay'] += wait
        definitions = {_CONTROLLER: _CONTROLLER_TEXT}
        rows = [(ORIGIN_NS + round(at * 1e9), topic, own) for at, topic, own in sent]
        write_bag(folder / 'bag', rows, definitions)
        model = load_model(path)
        alignment = sysid_ros.read(folder / 'bag', model).alignment
    unknowns = [item for target in truth for item in make_unknowns(target, model, shared=True)]
    found = identify(model, unknowns, alignment.sequences, options=FitOptions(threads=1))
    true = np.array([truth[unknown.name] for unknown in unknowns])
    off = found.solution.x - true
    covariance = found.inference.covariance[: len(unknowns), : len(unknowns)]
    low, high = ends(found.intervals)
    # An interval that is not said, NaN, holds nothing.
    missed = ~((low <= true) & (true <= high))
    delays = [o for o, unknown in zip(off, unknowns, strict=True) if 'delay' in unknown.name]
    (topic,) = {pair.topic for pair in alignment.pairs if pair.role is PairRole.ACTUATOR}
    return Found(
        float(max(delays, key=abs)),
        tuple(u.name for u, is_missed in zip(unknowns, missed, strict=True) if is_missed),
        float(np.nanmax(np.abs(off) / np.sqrt(np.diag(covariance)))),
        bool(np.all(np.abs(off) <= found.inference.all_at_once * (high - low) / 2)),
        _promised(covariance),
        topic,
    )


def commands(
    *,
    seeds: int = 20,
    first: int = 0,
    cases: str = '',
    updates: float = DEFAULT.updates,
    states: float = DEFAULT.states,
    effort: float = DEFAULT.effort,
) -> bool:
    """Fit the bags of the cases whose names contain a text."""
    setting, passed = Setting(updates, states, effort), True
    table = Table(
        'case:42s', 'delay off/ms:12.3f', 'intervals:9.1%', 'all four:8s', 'promised:8.0%',
        'at once:8s', 'worst/s.e.:10.2f', 's:4.0f', 'commands from:s',
    )  # fmt: skip
    for case in (name for name in (*_DIRECT, *_CONTROLLED) if cases in name):
        began = time.perf_counter()
        found = [draw(case, seed, setting) for seed in range(first, first + seeds)]
        whole = sum(not item.missed for item in found)
        error = max((item.delay for item in found), key=abs)
        held = 1 - sum(len(item.missed) for item in found) / len(_HIDDEN) / seeds
        chance = float(np.mean([item.promised for item in found]))
        met = abs(error) <= _DELAY_LIMIT
        if case in _CONTROLLED:
            met = held >= _SHARE and binom.cdf(whole, seeds, chance) >= _CHANCE
        passed &= bool(met)
        table.row(
            case,
            1e3 * error,
            held,
            f'{whole} of {seeds}',
            chance,
            f'{sum(item.together for item in found)} of {seeds}',
            max(item.worst for item in found),
            time.perf_counter() - began,
            found[0].topic,
            mark='' if met else '<',
        )
        for seed, item in enumerate(found, first):
            if item.missed:
                print(f'  seed {seed}: {1e3 * item.delay:+.3f} ms, missed {", ".join(item.missed)}')
    return verdict(passed, '(see --help)')


if __name__ == '__main__':
    run(__doc__, commands)
