# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Which time messages get when processes stall, networks burst and clocks differ.

Joint states with a header and commands without are recorded again and again. Per case: the largest
error of the stamps among the seeds, as the median over a recording or a part of it, how many were
used and how many refused, and what was said. A case is met where each seed is right within a
millisecond or said to be refused or doubtful. The latencies of ``--latency tuned`` are those that
the limits were chosen with; ``other`` has other distributions.
"""

from __future__ import annotations

import argparse
import collections
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sysid_ros.alignment.stamps import stamp_topics
from sysid_ros.bags import BagColumns, TopicColumns

Floats = NDArray[np.float64]

SEEDS = 20
CLOSE_S = 1e-3
START_NS = 1_700_000_000_000_000_000
STATES, COMMANDS = '/joint_states', '/commands'
JOINT_STATE, ARRAY = 'sensor_msgs/msg/JointState', 'std_msgs/msg/Float64MultiArray'


class Recorded(NamedTuple):
    """What a recorder got.

    Attributes:
        truth: (n,) when each state was measured, or what simulated time it was, s.
        header: (n,) stamps of the states, s.
        receive: (n,) when they came, s.
        sent: (m,) when the commands were sent, as ``truth``, s.
        commands: (m,) when they came, s.
        simulated: The truth and the header stamps are simulated time.
        epoch: Where receive times begin, ns.
    """

    truth: Floats
    header: Floats
    receive: Floats
    sent: Floats
    commands: Floats
    simulated: bool = False
    epoch: int = START_NS


class Verdict(NamedTuple):
    """The error of the stamps, s, whether they were refused or doubted, and what was said."""

    error: float
    refused: bool
    said: frozenset[str]


def tuned(rng: np.random.Generator, count: int) -> Floats:
    """Return latencies of a quiet network, s."""
    return rng.uniform(5e-5, 3e-4) + rng.exponential(rng.uniform(5e-5, 1e-3), count)


def other(rng: np.random.Generator, count: int) -> Floats:
    """Return latencies of other networks: skewed, with long tails, or in two modes, s."""
    least = rng.uniform(5e-5, 6e-4)
    kind = rng.integers(4)
    if kind == 0:
        return least + rng.gamma(3.0, 2e-4, count)
    if kind == 1:
        return least + 2e-4 * rng.pareto(1.5, count).clip(0, 500)
    if kind == 2:  # noqa: PLR2004 (the third)
        return least + rng.lognormal(np.log(4e-4), 1.2, count)
    # An executor that looks every few milliseconds.
    return least + rng.uniform(0, 4e-3, count)


def wifi(rng: np.random.Generator, count: int) -> Floats:
    """Return latencies that are small or large for a while, s."""
    busy = np.repeat(rng.random(count // 20 + 1) < rng.uniform(0.1, 0.5), 20)[:count]
    return rng.uniform(2e-4, 9e-4) + rng.exponential(np.where(busy, rng.uniform(0.01, 0.05), 2e-3))


class Draw:
    """One recording, before its clocks differ."""

    def __init__(self, seed: int, latency: Callable[[np.random.Generator, int], Floats]) -> None:
        """Draw rate, length and latencies."""
        self.rng = np.random.default_rng(seed)
        self.seconds = self.rng.uniform(20, 90)
        self.truth = self._times(self.rng.uniform(40, 500))
        self.sent = self._times(self.rng.uniform(20, 200))
        self.late = latency(self.rng, len(self.truth))
        self.commands_late = latency(self.rng, len(self.sent))

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


def quiet(draw: Draw) -> Recorded:
    """One clock, and nothing else."""
    return draw.record()


def stall(draw: Draw) -> Recorded:
    """The recorder stands still once."""
    begin = draw.rng.uniform(1, draw.seconds - 1)
    return draw.record(np.array([[begin, begin + 0.35]]))


def backlogs(draw: Draw) -> Recorded:
    """The recorder stands still again and again, up to 1.5 s."""
    begin = np.sort(draw.rng.uniform(0, draw.seconds, draw.rng.integers(3, 40)))
    return draw.record(np.column_stack([begin, begin + draw.rng.uniform(0.03, 1.5, len(begin))]))


def drift(draw: Draw) -> Recorded:
    """The robot has a clock of its own, up to 5 s off."""
    gain = 1e-6 * draw.rng.uniform(20, 200) * draw.rng.choice([-1, 1])
    return draw.record(header=draw.truth * (1 + gain) + draw.rng.uniform(-5, 5))


def drift_and_backlogs(draw: Draw) -> Recorded:
    """Both."""
    return backlogs(draw)._replace(header=drift(draw).header)


def offset(draw: Draw) -> Recorded:
    """Another clock that runs as fast, 1 ms to 3 s off."""
    return draw.record(
        header=draw.truth + 10 ** draw.rng.uniform(-3, 0.5) * draw.rng.choice([-1, 1])
    )


def step(draw: Draw) -> Recorded:
    """Another clock that is set by 5 ms to 2 s."""
    at = draw.rng.uniform(0.2, 0.8) * draw.seconds
    size = 10 ** draw.rng.uniform(-2.3, 0.3) * draw.rng.choice([-1, 1])
    header = draw.truth + draw.rng.uniform(-3, 3) + size * (draw.truth >= at)
    return draw.record(header=header)


def slew(draw: Draw) -> Recorded:
    """A clock that is corrected by 500 millionths for a while, as ntpd does."""
    begin, length = draw.rng.uniform(0.2, 0.5) * draw.seconds, draw.rng.uniform(5, 30)
    moved = 5e-4 * np.clip(draw.truth - begin, 0, length)
    return draw.record(header=draw.truth + draw.rng.uniform(-3, 3) + moved)


def header_set_back(draw: Draw) -> Recorded:
    """The robot is set back by .2 to 10 s."""
    at = draw.rng.uniform(0.2, 0.8) * draw.seconds
    back = 10 ** draw.rng.uniform(-0.7, 1) * (draw.truth >= at)
    return draw.record(header=draw.truth - back)


def simulated(draw: Draw) -> Recorded:
    """Simulated time of another pace, on the stamps only."""
    pace = draw.rng.choice([1.0, draw.rng.uniform(0.2, 1.5)])
    wobble = draw.rng.choice([0.0, 0.1]) * pace

    def at(times: Floats) -> Floats:
        return 3.0 + pace * times + wobble * np.sin(0.5 * times)

    found = draw.record(header=at(draw.truth))
    # What messages without a stamp get is when they came.
    return found._replace(truth=at(draw.truth), sent=at(found.commands), simulated=True)


CASES = {
    'quiet, one clock': (quiet, False),
    'one stall of 350 ms': (stall, False),
    'repeated backlogs': (backlogs, False),
    'bursty Wi-Fi': (quiet, True),
    'two clocks, 20 to 200 ppm': (drift, False),
    'the same and backlogs': (drift_and_backlogs, False),
    'the same and Wi-Fi': (drift, True),
    'two clocks, no drift': (offset, False),
    'the other clock is set': (step, False),
    'the same and Wi-Fi ': (step, True),
    'the other clock is slewed': (slew, False),
    'header stamps set back': (header_set_back, False),
    'simulated stamps': (simulated, False),
}


def columns(found: Recorded) -> BagColumns:
    """Return a recording as columns, with the truth as the position."""

    def ns(seconds: Floats, start: int) -> NDArray[np.int64]:
        return start + np.round(1e9 * seconds).astype(np.int64)

    header = ns(found.header, 0 if found.simulated else found.epoch)
    states = TopicColumns(STATES, JOINT_STATE, ns(found.receive, found.epoch), header, ())
    commands = TopicColumns(COMMANDS, ARRAY, ns(found.commands, found.epoch), None, ())
    return BagColumns(Path('recording'), (commands, states), ())


def judge(found: Recorded) -> Verdict:
    """Compare the times that messages get with the truth."""
    times, said = stamp_topics(columns(found), {STATES, COMMANDS}, 'auto')
    errors = []
    refused = False
    for topic, stamped in times.items():
        said += stamped.findings
        of_states = topic == STATES
        truth = found.truth if of_states else found.sent
        start = 0 if found.simulated else found.epoch
        error = ((stamped.times_ns - start) / 1e9 - truth)[stamped.usable]
        if of_states or found.simulated:
            errors.append(abs(float(np.median(error))))
        refused |= of_states and stamped.source == 'receive'
    refused |= any('as they are' in item.detail for item in said)
    return Verdict(max(errors), refused, frozenset(str(item.kind) for item in said))


def report(name: str, verdicts: list[Verdict]) -> bool:
    """Print a case; return whether it is met."""
    used = [item for item in verdicts if not item.refused]
    worst = max((item.error for item in used), default=0.0)
    said = collections.Counter(kind for item in verdicts for kind in item.said)
    words = ', '.join(f'{kind} {count}' for kind, count in said.most_common()) or 'nothing'
    met = worst <= CLOSE_S
    print(f'{name:28s} {len(used):3d} of {len(verdicts)}  {1e3 * worst:8.3f}  {words}', end='')
    print('' if met else '  <')
    return met


def main() -> int:
    """Run all cases."""
    parser = argparse.ArgumentParser(description=(__doc__ or '').partition('\n')[0])
    parser.add_argument('--seeds', type=int, default=SEEDS)
    parser.add_argument('--first', type=int, default=0)
    parser.add_argument('--latency', choices=('tuned', 'other'), default='other')
    parser.add_argument('--case', help='a part of the name')
    arguments = parser.parse_args()
    latency = {'tuned': tuned, 'other': other}[arguments.latency]
    print(f'{"case":28s} {"used":>9s}  {"worst/ms":>8s}  said')
    passed = True
    seeds = range(arguments.first, arguments.first + arguments.seeds)
    for name, (case, over_wifi) in CASES.items():
        if arguments.case and arguments.case not in name:
            continue
        draws = [Draw(seed, wifi if over_wifi else latency) for seed in seeds]
        passed &= report(name, [judge(case(draw)) for draw in draws])
    print('PASS' if passed else 'MISS', f'({1e3 * CLOSE_S:g} ms, or refused with a reason)')
    return 0 if passed else 1


if __name__ == '__main__':
    sys.exit(main())
