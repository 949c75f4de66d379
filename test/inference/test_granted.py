# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What a fit takes for granted, on a linear problem and on a pendulum that is not as it is said."""

from __future__ import annotations

import re

import mujoco
import numpy as np

from builders.models import Drive, rod
from builders.trajectories import Measure, Sweep
from sysid_ros.estimation.layout import Samples
from sysid_ros.estimation.solver.solver import Solution
from sysid_ros.estimation.terms import Term, TermKind
from sysid_ros.identification.fit import fit
from sysid_ros.inference.granted import Granted, granted
from sysid_ros.inference.linear import linearised
from sysid_ros.model.unknown import Unknown, make_unknowns

COUNT = 1000
TIMES = np.arange(COUNT) / 100
JACOBIAN = np.stack([np.sin(f * TIMES + f) for f in (3.1, 7.3)], axis=1)
UNKNOWNS = tuple(Unknown(name, (), 4.0, 0.0, 10.0) for name in ('first', 'second'))
HALF = np.array([0.1, 0.1])
STRONGER = Term(TermKind.GAIN, 'j', JACOBIAN @ [1.0, 2.0], 0.2, '20 % more')


def told(term: Term, half: np.ndarray = HALF) -> tuple[Granted, ...]:
    x, residual = np.full(2, 4.0), np.random.default_rng(0).normal(size=COUNT)
    solution = Solution(x, residual, 1.0, 'gradient', '', success=True, trace=())
    zeros = np.zeros(COUNT, dtype=np.int64)
    samples = Samples(zeros, TIMES, zeros, ('q',))
    return granted(linearised(solution, JACOBIAN, UNKNOWNS, samples), [term], half)


def test_what_parameters_follow_is_told_by_the_one_that_leaves_its_interval_farthest() -> None:
    (found,) = told(STRONGER)
    assert (found.assumed, found.column) == ('20 % more', 1)
    np.testing.assert_allclose((found.shift, found.widths), (-0.4, 4.0), rtol=1e-6)
    (other,) = told(STRONGER, np.array([0.1, np.nan]))
    assert other.column == 0


def test_what_stays_inside_of_intervals_or_is_a_parameter_itself_is_not_told() -> None:
    assert not told(STRONGER._replace(amount=0.04))
    assert not told(STRONGER._replace(amount=0.0))
    assert not told(STRONGER._replace(change=3.0 * JACOBIAN[:, 0]))


def test_what_residuals_would_show_is_not_taken_for_granted() -> None:
    wave = np.sin(23.0 * TIMES)
    assert told(STRONGER._replace(change=STRONGER.change + 0.3 * wave))
    assert not told(STRONGER._replace(change=STRONGER.change + 3.0 * wave))


def test_a_pendulum_with_a_stronger_drive_is_where_the_sentence_has_it(
    measure: Measure, sweep: Sweep
) -> None:
    said = mujoco.MjModel.from_xml_string(
        rod(timestep=0.002, damping=0.3, armature=0.05, drive=Drive.MOTOR)
    )
    said.opt.gravity[:] = 0
    made = said.__copy__()
    made.actuator_gear[0, 0] *= 1.01
    run = measure(made, commands=sweep('a', amplitude=2.0), noise={'q': 1e-4, 'v': 1e-3})
    unknowns = [
        own
        for path in ('joint/j/armature', 'joint/j/damping')
        for own in make_unknowns(path, said, initial=0.2)
    ]
    found = fit(said, unknowns, [run]).inference
    (note,) = (note for note in found.notes if note.startswith('Taken for granted'))
    found_in = re.search(r"1 % more force of the drive of 'j', (\S+) would be about (\S+) ", note)
    assert found_in is not None
    name, value = found_in.groups()
    truth = {'joint/j/armature': 0.05, 'joint/j/damping': 0.3}[name]
    place = [unknown.name for unknown in unknowns].index(name)
    interval = found.intervals[place]
    assert not interval.low < truth < interval.high
    half = (interval.high - interval.low) / 2
    # The sentence has three digits.
    assert abs(float(value) - truth) < 2 * half + 5e-3 * truth
    assert abs(float(value) - truth) < 0.7 * abs(interval.low + half - truth)
