# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What moved messages do, put together from pulses, is what simulations say."""

from __future__ import annotations

from typing import Any

import mujoco
import numpy as np
import pytest
from numpy.typing import NDArray

from builders.trajectories import Measure
from sysid_ros.estimation.arrivals import pulses
from sysid_ros.estimation.arrivals.messages import Messages, messages_of
from sysid_ros.estimation.arrivals.pulses import Pulses, Simulated, trial_of
from sysid_ros.estimation.nuisances import command_timings
from sysid_ros.estimation.residuals import Residuals
from sysid_ros.model.unknown import make_unknowns
from sysid_ros.rollout.prediction import make_simulator
from sysid_ros.signals.timeseries import SignalType, TimeSeries

#: Two servos, one with a gear, dry friction in both joints and in one a limit of the force.
ARM = """
<mujoco>
  <option timestep="0.002" integrator="implicitfast"/>
  <worldbody>
    <body><joint name="j" axis="0 1 0" damping="1" armature=".1" frictionloss=".4"/>
      <geom type="capsule" fromto="0 0 0 .3 0 0" size=".02" mass="1" contype="0"/>
      <body pos=".3 0 0"><joint name="k" axis="0 1 0" damping=".5" armature=".05"
          frictionloss=".1"/>
        <geom type="capsule" fromto="0 0 0 .2 0 0" size=".02" mass=".5" contype="0"/></body></body>
  </worldbody>
  <actuator>
    <position name="a" joint="j" kp="2000" kv="80"/>
    <position name="b" joint="k" kp="200" kv="7" gear="2" forcerange="-30 30"/>
  </actuator>
  <sensor>
    <jointpos name="q" joint="j"/><jointvel name="v" joint="j"/><actuatorfrc name="e" actuator="a"/>
    <jointpos name="p" joint="k"/><jointvel name="u" joint="k"/><actuatorfrc name="f" actuator="b"/>
  </sensor>
</mujoco>
"""
NOISE = {'q': 2e-4, 'v': 5e-3, 'e': 0.05, 'p': 2e-4, 'u': 5e-3, 'f': 0.05}
#: How long a pulse is felt here, s.
LENGTH = 0.25


@pytest.fixture(scope='module')
def arm() -> mujoco.MjModel:
    return mujoco.MjModel.from_xml_string(ARM)


class Case:
    """Residuals of two recordings with a common delay, and their messages."""

    def __init__(
        self, arm: mujoco.MjModel, measure: Measure, *paths: str, ends: tuple[float, ...] = (1, 1)
    ) -> None:
        rng = np.random.default_rng(7)
        runs = []
        for name, end in zip(('one', 'two'), ends, strict=True):
            sent = np.arange(-0.05, 1.0, 0.01) + rng.uniform(0.0, 2e-3, 105)
            phase = rng.uniform(0.0, 2 * np.pi, (2, 1))
            values = np.sin(2 * np.pi * np.array([[1.1], [1.9]]) * sent + phase).T * [0.5, 0.4]
            runs.append(
                measure(
                    arm,
                    {},
                    name=name,
                    times=np.arange(0.0, end, 0.002),
                    commands=TimeSeries.from_columns(sent, values, ['a', 'b'], SignalType.MjCtrl),
                    start=(values[0], np.zeros(2)),
                    noise=NOISE,
                    seed=len(runs),
                )
            )
        self.unknowns = [
            *make_unknowns('joint/*/damping', arm, bounds=(0.1, 3)),
            *(
                unknown
                for path in paths
                for unknown in make_unknowns(
                    path, arm, name=path, shared=path.count('*') > 0, bounds=(0, 0.02)
                )
            ),
            *command_timings(runs),
        ]
        self.bare = Residuals(make_simulator(arm, self.unknowns, runs, 1), NOISE)
        known = {'joint/j/damping': 1.0, 'joint/k/damping': 0.5}
        delays = dict(zip(paths, (0.0073, 0.0041), strict=False))
        self.x = np.array([{**known, **delays}.get(u.name, 0.0) for u in self.unknowns])
        self.messages: list[Messages] = [
            messages_of(run, self.bare.delays(index, self.x), 4e-5)
            for index, run in enumerate(self.bare.runs)
        ]

    def moves(self, size: float) -> list[NDArray[np.float64]]:
        """Return random moves of all messages, s."""
        rng = np.random.default_rng(3)
        return [rng.normal(0.0, size, len(own.effect)) for own in self.messages]


@pytest.fixture(scope='module')
def case(arm: mujoco.MjModel, measure: Measure) -> Case:
    return Case(arm, measure, 'actuator/*/delay')


@pytest.mark.parametrize('size', [2e-5, 2e-4, 2e-3, 5e-3])
def test_moved_messages_do_what_simulations_say(case: Case, size: float) -> None:
    moves = case.moves(size)
    simulated = Simulated(case.bare, case.messages, case.x)
    before, after = simulated.at(), simulated.at(moves)
    trial = Pulses(case.bare, case.messages, case.x, LENGTH)
    rollouts = case.bare.evaluations
    np.testing.assert_allclose(trial.at(), before, atol=1e-9)
    apart = np.linalg.norm(trial.at(moves) - after) / np.linalg.norm(after - before)
    assert apart < 0.02
    assert case.bare.evaluations == rollouts
    # The way back leads to where it began.
    np.testing.assert_allclose(trial.at(), before, atol=1e-9)


def test_commands_may_go_on_after_the_shorter_of_two_recordings(
    arm: mujoco.MjModel, measure: Measure
) -> None:
    case = Case(arm, measure, 'actuator/*/delay', ends=(1.0, 0.9))
    moves = case.moves(1e-3)
    simulated = Simulated(case.bare, case.messages, case.x)
    before, after = simulated.at(), simulated.at(moves)
    found = Pulses(case.bare, case.messages, case.x, LENGTH).at(moves)
    assert np.linalg.norm(found - after) / np.linalg.norm(after - before) < 0.02


def test_messages_stay_where_they_were_moved_until_the_next_simulation(case: Case) -> None:
    moves = case.moves(1e-3)
    trial = Pulses(case.bare, case.messages, case.x, LENGTH)
    expected = trial.at(moves)
    try:
        for own, run, move in zip(case.messages, case.bare.runs, moves, strict=True):
            own.move(run, move)
        np.testing.assert_allclose(trial.at(), expected, atol=1e-9)
        other = 1.1 * case.x
        exact = trial.begin(other)
        np.testing.assert_array_equal(
            exact, Simulated(case.bare, case.messages, other).begin(other)
        )
        np.testing.assert_array_equal(trial.at(), exact)
    finally:
        for own, run in zip(case.messages, case.bare.runs, strict=True):
            own.move(run, np.zeros(len(own.effect)))
        case.bare.retime([[s.times for s in run.sequence.commands] for run in case.bare.runs])


def test_pulses_are_the_same_one_by_one(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    at_once, before = Pulses(case.bare, case.messages, case.x, LENGTH), case.bare.evaluations
    monkeypatch.setattr(pulses, '_MOST_AT_ONCE', 1.0)
    one_by_one = Pulses(case.bare, case.messages, case.x, LENGTH)
    assert case.bare.evaluations - before > 10
    moves = case.moves(1e-3)
    np.testing.assert_array_equal(at_once.at(moves), one_by_one.at(moves))


def test_pulses_leave_the_commands_as_they_were(case: Case) -> None:
    before = case.bare(case.x[None])
    Pulses(case.bare, case.messages, case.x, LENGTH)
    np.testing.assert_array_equal(case.bare(case.x[None]), before)


def test_pulses_are_for_messages_whose_commands_act_at_once(
    arm: mujoco.MjModel, measure: Measure, case: Case
) -> None:
    assert isinstance(trial_of(case.bare, case.messages, case.x, LENGTH), Pulses)
    apart = Case(arm, measure, 'actuator/a/delay', 'actuator/b/delay')
    assert isinstance(trial_of(apart.bare, apart.messages, apart.x, LENGTH), Simulated)


def test_what_does_not_fit_into_memory_is_simulated(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pulses, '_MOST_NUMBERS', 1e5)
    assert isinstance(trial_of(case.bare, case.messages, case.x, LENGTH), Simulated)


def test_pulses_that_diverge_are_not_used(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    pushed = case.bare.pushed

    def diverging(*arguments: Any) -> list[dict[str, NDArray[np.float64]]]:
        found = pushed(*arguments)
        next(iter(found[1].values()))[0, 300:] = np.nan
        return found

    monkeypatch.setattr(case.bare, 'pushed', diverging)
    assert isinstance(trial_of(case.bare, case.messages, case.x, LENGTH), Simulated)
