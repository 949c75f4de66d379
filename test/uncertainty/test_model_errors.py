# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What a model may lack: on linear problems whose answer is known, and on simulated arms."""

from __future__ import annotations

import dataclasses
import re

import mujoco
import numpy as np
import pytest
from numpy.typing import NDArray

from builders.models import Drive, rod
from builders.problems import solution
from builders.trajectories import measure, sweep
from sysid_ros.config.schema import VerdictKind
from sysid_ros.fit.differences import Samples
from sysid_ros.fit.linear import linearised
from sysid_ros.fit.residuals import Residuals
from sysid_ros.fit.solver import Solution
from sysid_ros.fit.terms import Term, TermKind, terms
from sysid_ros.model.targets import Unknown, make_unknowns
from sysid_ros.signals import SignalType, TimeSeries
from sysid_ros.simulation.simulator import Simulator
from sysid_ros.uncertainty.inference import Inference, identify, infer
from sysid_ros.uncertainty.model_errors import Lacks, lacking

Array = NDArray[np.float64]

COUNT = 2000
TIMES = np.arange(COUNT) / 100
TRUTH = np.array([3.0, 5.0])
UNKNOWNS = tuple(Unknown(name, (), 4.0, 0.0, 10.0) for name in ('first', 'second'))
HALF = np.array([0.1, 0.1])


def waves(*frequencies: float) -> Array:
    """Return (COUNT, k) columns that have hardly anything in common."""
    return np.stack([np.sin(f * TIMES + f) for f in frequencies], axis=1)


JACOBIAN = waves(3.1, 7.3)
#: Mostly something of its own, and partly what the first parameter does.
SPRING = Term(TermKind.SPRING, 'elbow', waves(11.7)[:, 0] + 0.7 * JACOBIAN[:, 0])
#: Nothing but what both parameters do.
HIDDEN = Term(TermKind.GAIN, 'elbow', JACOBIAN @ [1.0, 2.0])
OTHERS = [
    Term(TermKind.DRAG, str(k), waves(13.0 + 1.37 * k)[:, 0] + 0.2 * JACOBIAN[:, 1])
    for k in range(20)
]


def samples(bags: int = 1) -> Samples:
    return Samples(np.arange(COUNT) * bags // COUNT, TIMES, np.zeros(COUNT, dtype=np.int64), ('q',))


def fitted(*amounts: tuple[float, Term], seed: int = 0, memory: float = 0.0) -> Solution:
    """Fit the parameters alone where the truth has amounts of terms, too."""
    noise = np.random.default_rng(seed).normal(size=COUNT)
    for row in range(1, COUNT):
        noise[row] = memory * noise[row - 1] + np.sqrt(1 - memory**2) * noise[row]
    data = noise - JACOBIAN @ TRUTH - sum(amount * term.change for amount, term in amounts)
    x = -np.linalg.lstsq(JACOBIAN, data, rcond=None)[0]
    return solution(x, data + JACOBIAN @ x, JACOBIAN)


def told(found: Solution, candidates: list[Term], bags: int = 1, half: Array = HALF) -> Lacks:
    return lacking(linearised(found, UNKNOWNS, samples(bags)), candidates, half)


@pytest.mark.parametrize('bags', [1, 8])
def test_the_term_that_is_there_is_named_and_says_how_far_parameters_are_off(bags: int) -> None:
    end = fitted((0.5, SPRING))
    found = told(end, [*OTHERS, SPRING], bags)
    assert [each.title for each in found.terms] == ["a spring of 'elbow'"]
    assert not found.instead
    whole = np.concatenate([JACOBIAN, SPRING.change[:, None]], axis=1)
    data = end.residual - JACOBIAN @ end.x
    x = -np.linalg.lstsq(whole, data, rcond=None)[0]
    left = np.sum((data + whole @ x) ** 2) / np.sum(end.residual**2)
    assert found.terms[0].share == pytest.approx(1 - left)
    np.testing.assert_allclose(end.x + found.shift, x[:2], atol=1e-9)
    assert abs(end.x[0] - TRUTH[0]) > 0.3
    assert abs(x[0] - TRUTH[0]) < 0.12


@pytest.mark.parametrize('memory', [0.0, 0.9])
def test_noise_alone_is_hardly_ever_taken_for_a_term(memory: float) -> None:
    draws = [told(fitted(seed=s, memory=memory), [*OTHERS, SPRING]) for s in range(150)]
    assert sum(bool(found.terms) for found in draws) <= 4


def test_what_parameters_take_up_is_not_seen() -> None:
    assert not told(fitted((0.5, SPRING)), [HIDDEN]).terms


def test_two_terms_are_found_one_after_the_other() -> None:
    found = told(fitted((0.5, SPRING), (0.3, OTHERS[3])), [*OTHERS, SPRING])
    assert [each.title for each in found.terms] == [SPRING.title, OTHERS[3].title]
    np.testing.assert_allclose(found.terms[0].own + found.terms[1].own, found.shift)
    assert not found.instead


def test_parameters_may_have_to_move_as_any_term_that_explains_nearly_as_well() -> None:
    """What nearly does what the spring does would move the second parameter, not the first."""
    like = Term(TermKind.DRAG, 'wrist', waves(11.7, 7.3) @ [0.95, 0.9] + 0.3 * waves(17.9)[:, 0])
    found = told(fitted((0.5, SPRING)), [*OTHERS, like, SPRING])
    assert found.terms[0].title == SPRING.title
    assert found.instead == (like.title,)
    assert SPRING.title in found.why[0]
    assert like.title in found.why[1]
    assert abs(found.shift[1]) > 5 * abs(found.terms[0].own[1])


@pytest.mark.parametrize('seed', range(3))
def test_a_term_that_is_most_of_the_residuals_is_no_noise_with_a_long_memory(seed: int) -> None:
    # Half a turn in all: beside all that is left, not one term would be certain.
    slow = Term(TermKind.GAIN, 'elbow', np.sin(0.15 * TIMES) + 0.7 * JACOBIAN[:, 0])
    found = told(fitted((6.0, slow), seed=seed), [*OTHERS, slow])
    assert found.terms[0].title == "another gain of 'elbow'"
    assert found.terms[0].sigmas > 10


def inferred(amount: float, candidates: list[Term]) -> Inference:
    return infer(linearised(fitted((amount, SPRING)), UNKNOWNS, samples()), candidates)


def test_what_a_term_would_move_far_is_limited_by_the_model() -> None:
    first, second = inferred(1.0, [SPRING]).intervals
    assert first.verdict_kind is VerdictKind.MODEL_LIMITED
    assert 'a spring' in first.explanation
    assert second.verdict_kind is VerdictKind.IDENTIFIED


def test_the_interval_of_what_a_term_would_move_holds_the_truth_and_identifies_while_narrow() -> (
    None
):
    without, found = inferred(0.5, []), inferred(0.5, [SPRING])
    (before, other), (first, second) = without.intervals, found.intervals
    assert first.verdict_kind is before.verdict_kind is VerdictKind.IDENTIFIED
    assert first.low < TRUTH[0] < first.high
    assert not before.low < TRUTH[0] < before.high
    assert (first.noise_low, first.noise_high) == pytest.approx((before.low, before.high))
    assert second.high - second.low == pytest.approx(other.high - other.low, rel=0.1)
    assert found.covariance[0, 0] > 4 * without.covariance[0, 0]
    assert found.notes[0].startswith('The model lacks something; residuals follow a spring')


def test_a_right_model_is_left_as_it_is() -> None:
    without, found = inferred(0.0, []), inferred(0.0, [SPRING, *OTHERS])
    assert found.intervals == without.intervals
    assert found.lacking == ()


STRONGER = HIDDEN._replace(amount=0.2, assumed='20 % more')


def test_what_parameters_follow_is_told_by_the_one_that_leaves_its_interval_farthest() -> None:
    end = dataclasses.replace(fitted(), x=np.full(2, 4.0))
    (note,) = told(end, [STRONGER]).notes
    assert 'with 20 % more, second would be about 3.6 (4 half-widths off)' in note
    (note,) = told(end, [STRONGER], half=np.array([0.1, np.nan])).notes
    assert 'with 20 % more, first would be' in note


def test_what_is_small_a_parameter_itself_or_seen_is_not_taken_for_granted() -> None:
    wave = np.sin(23.0 * TIMES)
    changes = {'amount': 0.04}, {'amount': 0.0}, {'change': 3.0 * JACOBIAN[:, 0]}
    seen = STRONGER._replace(change=STRONGER.change + 3.0 * wave)
    for term in (*(STRONGER._replace(**change) for change in changes), seen):
        assert not told(fitted(), [term]).notes
    assert told(fitted(), [STRONGER._replace(change=STRONGER.change + 0.3 * wave)]).notes


def test_a_pendulum_with_a_stronger_drive_is_where_the_sentence_has_it() -> None:
    said = mujoco.MjModel.from_xml_string(
        rod(timestep=0.002, damping=0.3, armature=0.05, drive=Drive.MOTOR)
    )
    said.opt.gravity[:] = 0
    made = said.__copy__()
    made.actuator_gear[0, 0] *= 1.01
    run = measure(made, commands=sweep('a', amplitude=2.0), noise={'q': 1e-4, 'v': 1e-3})
    truth = {'joint/j/armature': 0.05, 'joint/j/damping': 0.3}
    unknowns = [own for path in truth for own in make_unknowns(path, said, initial=0.2)]
    found = identify(said, unknowns, [run]).inference
    (note,) = (note for note in found.notes if note.startswith('Taken for granted'))
    found_in = re.search(r"1 % more force of the drive of 'j', (\S+) would be about (\S+) ", note)
    assert found_in is not None
    name, value = found_in.groups()
    interval = found.intervals[list(truth).index(name)]
    assert not interval.low < truth[name] < interval.high
    half = (interval.high - interval.low) / 2
    # The sentence has three digits.
    assert abs(float(value) - truth[name]) < 2 * half + 5e-3 * truth[name]
    assert abs(float(value) - truth[name]) < 0.7 * abs(interval.low + half - truth[name])


ARM = rod(timestep=0.002, damping=0.3, armature=0.01)
NOISE = {'q': 0.01, 'v': 0.1}
#: A term to the parameter that does the same.
SAME = {
    TermKind.TILT: 'option/gravity[0]',
    TermKind.ASYMMETRY: 'actuator/a/biasprm[0]',
    TermKind.PAYLOAD: 'body/upper/mass',
    TermKind.DELAY: 'actuator/a/delay',
    TermKind.SPRING: 'joint/j/stiffness',
}


@pytest.fixture(scope='module')
def made() -> tuple[Residuals, Array, list[Term]]:
    """Residuals of two runs of a servo, one of them wider, by five parameters, and all terms."""
    model = mujoco.MjModel.from_xml_string(ARM)
    unknowns = [
        own
        for path in SAME.values()
        for own in make_unknowns(path, model, bounds=(-100, 100) if 'gravity' in path else None)
    ]
    runs = [
        measure(model, name=str(k), commands=sweep('a', amplitude=1.0 + k), noise=NOISE, seed=k)
        for k in range(2)
    ]
    residuals = Residuals(Simulator(model, unknowns, runs, threads=1), NOISE)
    x = np.array([unknown.nominal for unknown in unknowns])
    return residuals, x, terms(residuals, x)


def alike(one: Array, other: Array) -> float:
    return float(one @ other) / float(np.linalg.norm(one) * np.linalg.norm(other))


@pytest.mark.parametrize(('lack', 'parameter'), SAME.items())
def test_a_term_does_what_the_parameter_does(
    made: tuple[Residuals, Array, list[Term]], lack: TermKind, parameter: str
) -> None:
    residuals, x, every = made
    column = [unknown.name for unknown in residuals.unknowns].index(parameter)
    change = residuals.step_changes(x, np.full(len(x), 1e-5)).changes[:, column]
    most = max(abs(alike(change, term.change)) for term in every if term.lack is lack)
    # Between samples on the grid, a command that comes later is not quite a mean of two.
    assert most > (0.99 if lack is TermKind.DELAY else 0.999)


def test_each_joint_has_each_term_and_all_change_something(
    made: tuple[Residuals, Array, list[Term]],
) -> None:
    residuals, _, every = made
    assert {term.lack for term in every} == set(TermKind)
    assert {term.where for term in every if term.lack is TermKind.STRIBECK} == {'j'}
    assert all(term.change.shape == residuals.samples.time.shape for term in every)
    assert all(np.any(term.change != 0) for term in every)


def test_an_elastic_joint_does_what_its_term_says() -> None:
    """A motor and its encoder before a spring, and behind it the link, as a model of two joints."""
    line = '<joint name="j" axis="0 1 0" damping="0.3" armature="0.01"/>'
    assert line in ARM
    motor = (
        f'{line}<inertial pos="0 0 0" mass="1e-3" diaginertia="1e-6 1e-6 1e-6"/>'
        '<body><joint name="link" axis="0 1 0" stiffness="2000" damping="2"/>'
    )
    soft = ARM.replace(line, motor).replace('</worldbody>', '</body></worldbody>')
    times = np.arange(0.0, 3.0, 0.002)
    # From rest, hanging down: what rings at the start is no matter of a first order.
    sines = np.minimum(times, 1.0) * (np.sin(7 * times) + 0.5 * np.sin(17 * times))
    values = (np.pi / 2 + sines)[:, None]
    commands = TimeSeries.from_columns(times, values, ['a'], SignalType.MjCtrl)
    stiff, elastic = (
        measure(
            mujoco.MjModel.from_xml_string(mjcf),
            commands=commands,
            start=([np.pi / 2] + joints * [0.0], [0.0] + joints * [0.0]),
            times=np.arange(0.0, 2.9, 0.01),
        )
        for joints, mjcf in enumerate((ARM, soft))
    )
    model = mujoco.MjModel.from_xml_string(ARM)
    unknowns = make_unknowns('body/upper/mass', model)
    x = np.array([unknown.nominal for unknown in unknowns])
    # Nobody knows of the link.
    elastic = dataclasses.replace(stiff, measurements=elastic.measurements)
    residuals, other = (
        Residuals(Simulator(model, unknowns, [run], threads=1), NOISE) for run in (elastic, stiff)
    )
    # Residuals of a model that lacks nothing, less those of one that lacks this.
    found = (other(x[None]) - residuals(x[None]))[:, 0]
    shares = {term.lack: alike(found, term.change) for term in terms(residuals, x)}
    assert shares[TermKind.ELASTICITY] > 0.9
    assert max(shares, key=lambda lack: abs(shares[lack])) is TermKind.ELASTICITY
