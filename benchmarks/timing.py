# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What fits know of times: stamps, arrivals of commands, and stalls of the machine.

``clocks``: joint states with a header and commands without are recorded again and again while
processes stall, networks burst and clocks differ. Per case: the largest error of the stamps among
the seeds, as the median over a recording or a part of it, how many were used, and what was said. A
case is met where each seed is right within a millisecond or said to be refused or doubtful. The
latencies of --latency tuned are those that the limits were chosen with; other has other
distributions.

``arrivals``: an arm of two joints with stiff position servos and effort sensors. Robot and recorder
receive each command some tens of µs apart, every fiftieth by up to milliseconds, as two processes
do over ROS. Beside the coverage of the intervals: the standard deviation over that of fits to
commands which are stamped as the robot received them.

``stalls``: the demo's robot, exciter and recorder run as processes. In every other set of
recordings robot, recorder or both stand still for .1 to .5 s every two seconds or so, or the
exciter for a tenth of that. Each set is fitted with what the robot says that it applied, and with
commands as the recorder saw them. Per set: χ² of the errors of both fits for so many parameters,
the median width of the intervals without over that with, the estimate of a sensor's noise that is
farthest from the truth, what the gate says, and the held-out error over that of training. Sets are
kept in --folder and not recorded again.
"""

from __future__ import annotations

import collections
import contextlib
import io
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import mujoco
import numpy as np
import scipy.special
import yaml
from shared.arms import JOINTS, Link, capsule, chain, joint_sensors
from shared.common import (
    CORES,
    DEMO,
    ORIGIN_NS,
    Floats,
    OneOf,
    Table,
    coverage,
    ends,
    in_processes,
    kept,
    measuring,
    names_of,
    run,
    simulated,
    trajectory,
    verdict,
)

from sysid_ros import demo
from sysid_ros.alignment.stamps import stamp_topics
from sysid_ros.bags import BagColumns, TopicColumns
from sysid_ros.config.files import load_calibration
from sysid_ros.config.nodes import SimulatedRobotConfig
from sysid_ros.errors import SysidError
from sysid_ros.fit.fit import FitOptions
from sysid_ros.model.targets import Unknown, make_unknowns
from sysid_ros.results.result import CalibrationResult
from sysid_ros.signals import Trajectory
from sysid_ros.uncertainty.inference import identify
from sysid_ros.workflows.calibrate import calibrate

_CLOSE_S = 1e-3
_STATES, _COMMANDS = '/joint_states', '/commands'
_LATENCIES = OneOf(('other', 'tuned'))


class Recorded(NamedTuple):
    """What a recorder got.

    Attributes:
        truth: (n,) when each state was measured, or what simulated time it was, s.
        header: (n,) stamps of the states, s.
        receive: (n,) when they came, s.
        sent: (m,) when the commands were sent, as ``truth``, s.
        commands: (m,) when they came, s.
        simulated: The truth and the header stamps are simulated time.
    """

    truth: Floats
    header: Floats
    receive: Floats
    sent: Floats
    commands: Floats
    simulated: bool = False


def _latency(kind: str, rng: np.random.Generator, count: int) -> Floats:
    """Return latencies of a quiet network, of a busy one, or of some other, s."""
    if kind == 'tuned':
        return rng.uniform(5e-5, 3e-4) + rng.exponential(rng.uniform(5e-5, 1e-3), count)
    if kind == 'wifi':  # small or large for a while
        busy = np.repeat(rng.random(count // 20 + 1) < rng.uniform(0.1, 0.5), 20)[:count]
        least = rng.uniform(2e-4, 9e-4)
        return least + rng.exponential(np.where(busy, rng.uniform(0.01, 0.05), 2e-3))
    least = rng.uniform(5e-5, 6e-4)
    others = (
        lambda: rng.gamma(3.0, 2e-4, count),
        lambda: 2e-4 * rng.pareto(1.5, count).clip(0, 500),
        lambda: rng.lognormal(np.log(4e-4), 1.2, count),
        # An executor that looks every few milliseconds.
        lambda: rng.uniform(0, 4e-3, count),
    )
    return np.asarray(least + others[rng.integers(4)]())


class Recording:
    """One recording, before its clocks differ."""

    def __init__(self, seed: int, latency: str) -> None:
        """Draw rate, length and latencies."""
        self.rng = np.random.default_rng(seed)
        self.seconds = self.rng.uniform(20, 90)
        self.truth = self._times(self.rng.uniform(40, 500))
        self.sent = self._times(self.rng.uniform(20, 200))
        self.late = _latency(latency, self.rng, len(self.truth))
        self.commands_late = _latency(latency, self.rng, len(self.sent))

    def _times(self, rate: float) -> Floats:
        every = np.arange(self.rng.uniform(0, 0.1), self.seconds, 1 / rate)
        return every[self.rng.random(len(every)) > 0.01]  # noqa: PLR2004 (lost)

    def record(self, stalls: Floats | None = None, header: Floats | None = None) -> Recorded:
        """Return what arrives at a recorder that stands still during (k, 2) times."""
        found = []
        for sent, late in ((self.truth, self.late), (self.sent, self.commands_late)):
            times = np.maximum.accumulate(sent + late)
            for begin, end in stalls if stalls is not None else ():
                held = (times >= begin) & (times < end)
                times[held] = end + 2e-5 * np.arange(np.count_nonzero(held))
            found.append(np.maximum.accumulate(times))
        stamps = self.truth if header is None else header
        return Recorded(self.truth, stamps, found[0], self.sent, found[1])


def _stall(draw: Recording) -> Recorded:
    """The recorder stands still once."""
    begin = draw.rng.uniform(1, draw.seconds - 1)
    return draw.record(np.array([[begin, begin + 0.35]]))


def _backlogs(draw: Recording) -> Recorded:
    """The recorder stands still again and again, up to 1.5 s."""
    begin = np.sort(draw.rng.uniform(0, draw.seconds, draw.rng.integers(3, 40)))
    return draw.record(np.column_stack([begin, begin + draw.rng.uniform(0.03, 1.5, len(begin))]))


def _drift(draw: Recording) -> Recorded:
    """The robot has a clock of its own, up to 5 s off."""
    gain = 1e-6 * draw.rng.uniform(20, 200) * draw.rng.choice([-1, 1])
    return draw.record(header=draw.truth * (1 + gain) + draw.rng.uniform(-5, 5))


def _offset(draw: Recording) -> Recorded:
    """Another clock that runs as fast, 1 ms to 3 s off."""
    off = 10 ** draw.rng.uniform(-3, 0.5) * draw.rng.choice([-1, 1])
    return draw.record(header=draw.truth + off)


def _step(draw: Recording) -> Recorded:
    """Another clock that is set by 5 ms to 2 s."""
    at = draw.rng.uniform(0.2, 0.8) * draw.seconds
    size = 10 ** draw.rng.uniform(-2.3, 0.3) * draw.rng.choice([-1, 1])
    return draw.record(header=draw.truth + draw.rng.uniform(-3, 3) + size * (draw.truth >= at))


def _slew(draw: Recording) -> Recorded:
    """A clock that is corrected by 500 millionths for a while, as ntpd does."""
    begin, length = draw.rng.uniform(0.2, 0.5) * draw.seconds, draw.rng.uniform(5, 30)
    moved = 5e-4 * np.clip(draw.truth - begin, 0, length)
    return draw.record(header=draw.truth + draw.rng.uniform(-3, 3) + moved)


def _set_back(draw: Recording) -> Recorded:
    """The robot is set back by .2 to 10 s."""
    at = draw.rng.uniform(0.2, 0.8) * draw.seconds
    back = 10 ** draw.rng.uniform(-0.7, 1) * (draw.truth >= at)
    return draw.record(header=draw.truth - back)


def _simulated(draw: Recording) -> Recorded:
    """Simulated time of another pace, on the stamps only."""
    pace = draw.rng.choice([1.0, draw.rng.uniform(0.2, 1.5)])
    wobble = draw.rng.choice([0.0, 0.1]) * pace

    def at(times: Floats) -> Floats:
        return np.asarray(3.0 + pace * times + wobble * np.sin(0.5 * times))

    found = draw.record(header=at(draw.truth))
    # What messages without a stamp get is when they came.
    return found._replace(truth=at(draw.truth), sent=at(found.commands), simulated=True)


#: What happens, and whether it does over Wi-Fi.
_CLOCKS: dict[str, tuple[Callable[[Recording], Recorded], bool]] = {
    'quiet, one clock': (Recording.record, False),
    'one stall of 350 ms': (_stall, False),
    'repeated backlogs': (_backlogs, False),
    'bursty Wi-Fi': (Recording.record, True),
    'two clocks, 20 to 200 ppm': (_drift, False),
    'the same and backlogs': (lambda d: _backlogs(d)._replace(header=_drift(d).header), False),
    'the same and Wi-Fi': (_drift, True),
    'two clocks, no drift': (_offset, False),
    'the other clock is set': (_step, False),
    'the other is set and Wi-Fi': (_step, True),
    'the other clock is slewed': (_slew, False),
    'header stamps set back': (_set_back, False),
    'simulated stamps': (_simulated, False),
}


def _judge_stamps(found: Recorded) -> tuple[float, bool, set[str]]:
    """Compare the times that messages get with the truth, in the part of a bag that is used.

    Returns:
        The error of the stamps, s, whether they were refused or doubted, and what was said.
    """

    def ns(seconds: Floats, start: int) -> Any:
        return start + np.round(1e9 * seconds).astype(np.int64)

    own = 0 if found.simulated else ORIGIN_NS
    receive = {_STATES: ns(found.receive, ORIGIN_NS), _COMMANDS: ns(found.commands, ORIGIN_NS)}
    stamps = {_STATES: ns(found.header, own), _COMMANDS: None}
    kinds = {_STATES: 'sensor_msgs/msg/JointState', _COMMANDS: 'std_msgs/msg/Float64MultiArray'}
    topics = tuple(TopicColumns(t, kinds[t], receive[t], stamps[t], ()) for t in sorted(kinds))
    columns = BagColumns(Path('recording'), topics, ())
    times, said = stamp_topics(columns, {_STATES, _COMMANDS}, 'auto')
    errors, refused = [], False
    for topic, stamped in times.items():
        said += stamped.findings
        of_states = topic == _STATES
        truth = found.truth if of_states else found.sent
        if of_states or found.simulated:
            error = ((stamped.times_ns - own) / 1e9 - truth)[stamped.usable]
            errors.append(abs(float(np.median(error))))
        refused |= of_states and stamped.source == 'receive'
    refused |= any('as they are' in item.detail for item in said)
    return max(errors), refused, {str(item.kind) for item in said}


def clocks(*, seeds: int = 20, first: int = 0, latency: OneOf = _LATENCIES, case: str = '') -> bool:
    """Stamp recordings of the cases whose names contain a text."""
    table = Table('case:28s', 'used:9s', 'worst/ms:8.3f', 'said:s')
    passed = True
    for name, (happens, over_wifi) in _CLOCKS.items():
        if case not in name:
            continue
        chosen = 'wifi' if over_wifi else str(latency)
        found = [
            _judge_stamps(happens(Recording(seed, chosen))) for seed in range(first, first + seeds)
        ]
        used = [error for error, refused, _ in found if not refused]
        said = collections.Counter(kind for _, _, kinds in found for kind in kinds)
        words = ', '.join(f'{kind} {count}' for kind, count in said.most_common()) or 'nothing'
        worst = max(used, default=0.0)
        met = worst <= _CLOSE_S
        passed &= met
        shown = f'{len(used)} of {seeds}'
        table.row(name, shown, 1e3 * worst, words, mark='' if met else '<')
    return verdict(passed, f'({1e3 * _CLOSE_S:g} ms, or refused with a reason)')


_STIFF_TRUTH = {
    'joint/shoulder/armature': 0.25,
    'joint/elbow/armature': 0.13,
    'joint/shoulder/damping': 2.6,
    'joint/elbow/damping': 1.3,
    'joint/shoulder/frictionloss': 0.7,
    'joint/elbow/frictionloss': 0.4,
    'delay': 0.008,
}
#: Of positions, velocities and forces.
_STIFF_NOISE = np.repeat([1.5e-4, 5e-3, 0.05], 2)
_BAGS, _DURATION = 2, 3.0
#: Delay of each arrival: half-normal, s; part of the messages that are held up, and for how long.
_JITTER, _HELD_UP, _LONG = 3e-5, 0.02, 1e-3
#: How much farther the robot is from the sender than the recorder, in a recording: normal, s.
_FARTHER = 2e-5
_INSIDE, _WIDE = (0.91, 0.98), (0.9, 1.3)


def _stiff_arm() -> mujoco.MjModel:
    links = (
        Link(
            '',
            'name="shoulder" axis="0 1 0" damping="2" armature=".2" frictionloss=".5"',
            capsule(0.4, 0.03, 1.6),
        ),
        Link(
            'pos=".4 0 0"',
            'name="elbow" axis="0 1 0" damping="1" armature=".1" frictionloss=".3"',
            capsule(0.3, 0.025, 0.8),
        ),
    )
    servos = (
        '<position name="a" joint="shoulder" kp="2000" kv="80"/>'
        '<position name="b" joint="elbow" kp="800" kv="30"/>'
    )
    forces = '<actuatorfrc name="e" actuator="a"/><actuatorfrc name="f" actuator="b"/>'
    return mujoco.MjModel.from_xml_string(chain(links, servos, joint_sensors(JOINTS) + forces))


def _stiff_unknowns(model: mujoco.MjModel) -> tuple[Unknown, ...]:
    """Return what is identified, from a start that is off by 20 %."""
    constants = [
        unknown
        for target, value in _STIFF_TRUTH.items()
        if '/' in target
        for unknown in make_unknowns(target, model, initial=1.2 * value)
    ]
    delay = make_unknowns('actuator/*/delay', model, name='delay', shared=True, bounds=(0, 0.02))
    return (*constants, *delay)


def _arrive(sent: Floats, rng: np.random.Generator) -> Floats:
    late = np.abs(rng.normal(0.0, _JITTER, len(sent)))
    held_up = rng.uniform(size=len(sent)) < _HELD_UP
    return np.asarray(sent + np.where(held_up, late + rng.exponential(_LONG, len(sent)), late))


def _record_arrivals(
    model: mujoco.MjModel, rng: np.random.Generator, phases: np.random.Generator, name: str
) -> tuple[Trajectory, Trajectory]:
    """Return a recording, and the same with the stamps of the robot."""
    sent = np.arange(-0.1, _DURATION, 0.01)
    values = np.zeros((len(sent), 2))
    for joint in range(2):
        for frequency in phases.uniform(0.2, 1.5, 4):
            wave = np.sin(2 * np.pi * frequency * sent + phases.uniform(0, 2 * np.pi))
            values[:, joint] += phases.uniform(0.1, 0.25) * wave
    times = np.arange(0.0, _DURATION, model.opt.timestep)
    robot, recorder = _arrive(sent, rng) + rng.normal(0.0, _FARTHER), _arrive(sent, rng)
    by_robot, seen = (
        trajectory(
            model, times, commands=(stamps, values), start=(values[0], np.zeros(2)), name=name
        )
        for stamps in (robot, recorder)
    )
    clean = simulated(model, by_robot, _stiff_unknowns(model), list(_STIFF_TRUTH.values()))
    measured = clean + _STIFF_NOISE * rng.standard_normal(clean.shape)
    return measuring(model, seen, times, measured), measuring(model, by_robot, times, measured)


def _fit_arrivals(seed: int, draw: int) -> tuple[Floats, Floats, Floats, Floats, float]:
    """Return (p,) estimates, ends of intervals, estimates with known arrivals, and seconds."""
    model = _stiff_arm()
    rng, phases = np.random.default_rng([seed, draw]), np.random.default_rng([seed, 10**6])
    pairs = [_record_arrivals(model, rng, phases, f'bag_{k}') for k in range(_BAGS)]
    began = time.perf_counter()
    found = identify(
        model, _stiff_unknowns(model), [seen for seen, _ in pairs], options=FitOptions(threads=1)
    )
    seconds = time.perf_counter() - began
    known = identify(
        model, _stiff_unknowns(model), [true for _, true in pairs], options=FitOptions(threads=1)
    )
    return found.solution.x, *ends(found.intervals), known.solution.x, seconds


def arrivals(*, draws: int = 100, seed: int = 0, processes: int = CORES) -> bool:
    """Fit to commands that robot and recorder received at different moments."""
    found = in_processes(_fit_arrivals, [(seed, draw) for draw in range(draws)], processes)
    *parts, seconds = (np.array(part) for part in zip(*found, strict=True))
    values, low, high, known = parts
    half = (high - low) / 2
    own = coverage(np.array(list(_STIFF_TRUTH.values())), values, values - half, values + half)
    wider = own.deviation / known.std(axis=0, ddof=1)
    good = (_INSIDE[0] <= own.held) & (own.held <= _INSIDE[1])
    good &= (_WIDE[0] <= own.width) & (own.width <= _WIDE[1])
    print(f'{draws} data sets, {np.median(seconds):.1f} s each')
    table = Table(
        'parameter:28s', 'truth:8.4f', 'sd:9.2g', 'held:7.1%', 'width:6.2f', 'sd/known:8.2f'
    )
    for place, (label, true) in enumerate(_STIFF_TRUTH.items()):
        columns = (own.deviation, own.held, own.width, wider)
        mark = '' if good[place] else '<'
        table.row(label, true, *(column[place] for column in columns), mark=mark)
    text = f'({_INSIDE[0]:.0%} to {_INSIDE[1]:.0%}, width {_WIDE[0]} to {_WIDE[1]})'
    return verdict(bool(good.all()), text)


#: What stands still together, and so many times as long.
_HELD = (('simulated', 1.0), ('recorder', 1.0), ('simulated|recorder', 1.0), ('exciter', 0.1))
_BAND = 0.99
_COMMANDED = '/forward_position_controller/commands'
_APPLIED = '/simulated_robot/applied_commands'


@contextlib.contextmanager
def _stalled(seed: int) -> Iterator[None]:
    """Let some of the nodes that this process has started stand still now and then."""
    rng, over = np.random.default_rng(seed), threading.Event()

    def hold_up() -> None:
        while not over.wait(rng.uniform(1.0, 3.0)):
            who, times = _HELD[rng.integers(len(_HELD))]
            own = ['-P', str(os.getpid()), '-f', rf'nodes\.({who})']
            subprocess.run(['pkill', '-STOP', *own], check=False)
            time.sleep(times * rng.uniform(0.1, 0.5))
            subprocess.run(['pkill', '-CONT', *own], check=False)

    thread = threading.Thread(target=hold_up)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _start(node: str, environment: dict[str, str], **parameters: object) -> subprocess.Popen[str]:
    values = [word for item in parameters.items() for word in ('-p', '{}:={}'.format(*item))]
    command = [sys.executable, '-m', 'sysid_ros.nodes', node, '--ros-args', *values]
    pipe, both = subprocess.PIPE, subprocess.STDOUT
    return subprocess.Popen(command, env=environment, text=True, stdout=pipe, stderr=both)


def _record(bag: Path, environment: dict[str, str], seed: int) -> int:
    """Record a motion in real time; return how many commands the exciter skipped."""
    model, topics = DEMO / 'arm.xml', f"['/joint_states', '{_COMMANDED}', '{_APPLIED}']"
    start = partial(_start, environment=environment)
    robot = start('simulated_robot', model=model, truth=DEMO / demo.TRUTH, seed=seed)
    recorder = start('recorder', output=bag, topics=topics)
    # After a stall of the exciter the motion goes on where it would be without.
    free = {'max_tracking_error': 0.0, 'state_timeout': 30.0}
    exciter = start('exciter', model=model, seed=seed, duration=10.0, **free)
    said, _ = exciter.communicate()
    for process in (recorder, robot):
        process.send_signal(signal.SIGINT)
        process.communicate()
    skipped = re.search(r'(\d+) commands were skipped', said)
    return int(skipped[1]) if skipped else 0


def _record_set(folder: Path, seed: int, *, stalled: bool) -> int:
    """Record all bags of a set, and count the commands that the exciter skipped."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in ('arm.xml', 'calibration.yaml'):
        shutil.copy(DEMO / name, folder / name)
    environment, skipped = demo.environment(), 0
    for own, name in enumerate(demo.RECORDINGS, 10 * seed):
        bag = folder / 'bags' / name
        shutil.rmtree(bag, ignore_errors=True)
        with _stalled(own) if stalled else contextlib.nullcontext():
            skipped += _record(bag, environment, own)
    return skipped


def _as_seen(folder: Path) -> dict[str, Any]:
    """Return the mapping of the demo's arm to what the recorder saw, in the order of the model."""
    model = mujoco.MjModel.from_xml_path(str(folder / 'arm.xml'))
    sensors = {}
    for name in names_of(model, 'sensor'):
        joint, _, field = name.rpartition('_')
        sensors[name] = f'/joint_states.{field}[{joint}]'
    actuators = enumerate(names_of(model, 'actuator'))
    return {
        'sensors': sensors,
        'actuators': {name: f'{_COMMANDED}.data[{index}]' for index, name in actuators},
    }


def _fit_set(folder: Path, name: str) -> dict[str, Any]:
    """Calibrate from the bags of a set with what was applied or seen; return what is judged."""
    config = yaml.safe_load((folder / 'calibration.yaml').read_text('utf-8'))
    config['output'] = name
    if name == 'seen':
        config['mapping'] = _as_seen(folder)
    path = folder / f'{name}.yaml'
    path.write_text(yaml.safe_dump(config), 'utf-8')
    try:
        result: CalibrationResult = calibrate(load_calibration(path)).result
    except SysidError as err:
        return {'refused': str(err)}
    robot = SimulatedRobotConfig()
    count = 2 * np.pi / 2**robot.encoder_bits
    noise = {
        'position': np.hypot(robot.position_noise, count / np.sqrt(12)),
        'velocity': robot.velocity_noise,
        'effort': robot.effort_noise,
    }
    off = {each.sensor: each.sigma / noise[each.sensor.rpartition('_')[2]] for each in result.noise}
    worst = max(off, key=lambda sensor: abs(np.log(off[sensor])))
    return {
        'squares': demo.chi_squared(result, demo.true_values(DEMO / demo.TRUTH, result)),
        'half': [parameter.half_width for parameter in result.parameters],
        'identified': sum(parameter.identified for parameter in result.parameters),
        'worst': [worst, off[worst]],
        'standing': str(result.standing),
        'held_out': result.held_out_after / result.training_after,
        'seconds': result.solver.seconds,
    }


def _set(folder: Path, number: int) -> dict[str, Any]:
    """Record and fit a set; the second of two is stalled."""
    own, stalled = folder / str(number), bool(number % 2)
    with contextlib.redirect_stdout(io.StringIO()):
        skipped = _record_set(own, 1000 + number, stalled=stalled)
        fits = {name: _fit_set(own, name) for name in ('applied', 'seen')}
    return {'stalled': stalled, 'skipped': skipped, **fits}


def stalls(*, sets: int = 20, folder: Path = Path('stalls')) -> None:
    """Record through real nodes on a machine that stalls, and fit."""
    folder.mkdir(parents=True, exist_ok=True)
    squares: dict[str, list[float]] = {'applied': [], 'seen': []}
    count = 0
    for number in range(sets):
        each = kept(folder / f'{number}.json', lambda number=number: _set(folder, number))
        widths = [each[name].get('half') for name in squares]
        width = np.nan
        if all(widths):
            width = float(np.nanmedian(np.array(widths[1], float) / np.array(widths[0], float)))
        kind = 'stalled' if each['stalled'] else 'idle'
        print(f'{number:3} {kind:8} skipped {each["skipped"]:4}, widths {width:5.2f}', flush=True)
        for name, accepted in squares.items():
            found = each[name]
            if 'refused' in found:
                print(f'      {name}: refused, {found["refused"]}')
                continue
            sensor, off = found['worst']
            count = len(found['half'])
            print(
                f'      {name}: χ² {found["squares"]:5.1f}, noise {off:4.2f} ({sensor}), held out '
                f'{found["held_out"]:4.2f}, {found["identified"]}/{count} identified, '
                f'{found["seconds"]:.0f} s, {found["standing"]}'
            )
            if found['standing'] != 'rejected':
                accepted.append(found['squares'])
    for name, accepted in squares.items():
        total = count * len(accepted)
        low, high = scipy.special.chdtri(total, [(1 + _BAND) / 2, (1 - _BAND) / 2])
        print(
            f'{name}: {len(accepted)} of {sets} accepted, χ² {np.sum(accepted):.0f} for {total} '
            f'in all ({_BAND:.0%} band {low:.0f} to {high:.0f})'
        )


if __name__ == '__main__':
    run(__doc__, clocks, arrivals, stalls)
