# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What is said of parameters, on linear problems whose answer is known."""

from __future__ import annotations

from typing import Any

import mujoco
import numpy as np
import pytest
from numpy.typing import NDArray

from builders.problems import problem
from sysid_ros.fit.differences import PRIOR, Samples
from sysid_ros.model.targets import Unknown, make_unknowns
from sysid_ros.uncertainty.inference import Inference, infer
from sysid_ros.uncertainty.verdicts import separating, widest

COUNT = 1000
TIMES = np.arange(COUNT) / 100
MODEL = mujoco.MjModel.from_xml_string(
    """
    <mujoco><worldbody><body name="cart"><geom size=".1" mass="2"/><joint name="x" type="slide"/>
    <body name="load"><geom size=".1" mass="2"/></body></body></worldbody>
    <actuator><general name="m" joint="x" gear="3" dyntype="filter" dynprm=".03"/></actuator>
    <sensor><jointpos name="q" joint="x"/></sensor></mujoco>
    """
)


def waves(*frequencies: float) -> NDArray[np.float64]:
    """Return (COUNT, k) columns that have hardly anything in common."""
    return np.stack([np.sin(f * TIMES + f) for f in frequencies], axis=1)


def unknown(target: str, name: str, low: float = 0.0, high: float = 10.0, **more: Any) -> Unknown:
    (made,) = make_unknowns(target, MODEL, name=name, bounds=(low, high), **more)
    return made


GEAR, MASS = unknown('actuator/m/gear', 'gear'), unknown('body/cart/mass', 'mass', 0.1)
LOAD, GAIN = unknown('body/load/mass', 'load', 0.1), unknown('actuator/m/gain', 'gain')
LOSS, DAMPING = unknown('joint/x/frictionloss', 'loss'), unknown('joint/x/damping', 'damping')


def found(
    jacobian: NDArray[np.float64],
    unknowns: list[Unknown],
    x: list[float],
    noise: float = 0.1,
    priors: int = 0,
    tilt: float = 0.0,
) -> Inference:
    """Infer from white residuals that are orthogonal to what can be fitted.

    So many of the last rows are priors, and so much of the first column is in the residuals: the
    data push it downwards.
    """
    rows = len(jacobian)
    drawn = noise * np.random.default_rng(4).standard_normal(rows)
    drawn -= jacobian @ np.linalg.lstsq(jacobian, drawn, rcond=1e-9)[0]
    residual = drawn + tilt * jacobian[:, 0]
    sensor = np.zeros(rows, dtype=np.int64)
    sensor[rows - priors :] = PRIOR
    time = np.append(TIMES, np.zeros(priors))
    samples = Samples(np.zeros(rows, dtype=np.int64), time, sensor, ('q',))
    return infer(problem(np.array(x), residual, jacobian, unknowns, samples))


def texts(inference: Inference) -> list[str]:
    return [interval.verdict for interval in inference.intervals]


def proportional(x: list[float], powers: list[int]) -> NDArray[np.float64]:
    """Return the columns of residuals that see only a product of powers."""
    columns: NDArray[np.float64] = waves(2.0) * (np.array(powers) / np.array(x))
    return columns


@pytest.mark.parametrize('turned', [False, True])
def test_of_a_cart_only_gear_over_mass_is_determined(turned: bool) -> None:
    order = slice(None, None, -1 if turned else 1)
    x, chosen = [3.0, 2.0][order], [GEAR, MASS][order]
    inference = found(proportional(x, [1, -1][order]), chosen, x)
    (ratio,) = inference.combinations
    assert ratio.expression == 'gear/mass'
    assert ratio.value == pytest.approx(1.5)
    # One column of 1000 sines, of which half the sum of squares is the information.
    deviation = 1.5 * 0.1 / np.sqrt(np.sum(waves(2.0) ** 2))
    assert (ratio.high - ratio.low) / 2 == pytest.approx(1.96 * deviation, rel=0.2)
    sentence = inference.intervals[0].explanation
    assert sentence.startswith('Only gear/mass: 1.50')
    assert sentence.endswith('is determined; a known payload would separate them.')


def test_measuring_a_torque_is_advised_only_where_none_is_measured() -> None:
    said = [separating([GEAR, DAMPING], forces=forces) for forces in (False, True)]
    assert said == [
        'a known payload or a measured torque would separate them',
        'a known payload would separate them',
    ]


def test_forces_tell_sums_of_what_links_and_rotors_have() -> None:
    rotor, link = unknown('joint/x/armature', 'rotor'), unknown('body/cart/inertia[0]', 'link')
    assert 'base parameters' in separating([rotor, link], forces=True)
    assert separating([rotor, link], forces=False).startswith('other poses')
    assert 'base parameters' not in separating([rotor, link, DAMPING], forces=True)


@pytest.mark.parametrize('error', [0.0, 1e-9, 1e-7, 1e-5])
def test_errors_of_differences_do_not_pass_for_information(error: float) -> None:
    x = [3.0, 2.0]
    jacobian = proportional(x, [1, -1])
    rough = np.random.default_rng(1).standard_normal(jacobian.shape)
    jacobian += error * rough / np.linalg.norm(rough, axis=0) * np.linalg.norm(jacobian, axis=0)
    inference = found(jacobian, [GEAR, MASS], x, noise=1e-9)
    assert texts(inference) == ['confounded with mass', 'confounded with gear']
    assert np.isnan(inference.intervals[0].low)
    assert inference.combinations[0].expression == 'gear/mass'


def test_a_pair_and_an_unrelated_triple_are_not_mixed() -> None:
    x = [3.0, 2.0, 0.8, 1.5, 0.5]
    triple = proportional([3.0, 2.0, 0.8], [1, -1, 1])
    pair = waves(5.3) * np.array([1.0, 2.5])
    jacobian = np.concatenate([triple, pair], axis=1)[:, [0, 3, 1, 4, 2]]
    names = [GEAR, LOSS, MASS, DAMPING, GAIN]
    inference = found(jacobian, names, [x[i] for i in (0, 3, 1, 4, 2)])
    assert texts(inference) == [
        'confounded with mass, gain',
        'confounded with damping',
        'confounded with gear, gain',
        'confounded with loss',
        'confounded with gear, mass',
    ]
    assert {c.expression: pytest.approx(c.value) for c in inference.combinations} == {
        'gear·gain/mass': 1.2,
        'loss + 2.5·damping': 2.75,
    }


def test_a_triple_with_two_determined_directions_gives_two_combinations() -> None:
    x = [3.0, 2.0, 0.8]
    first, second = waves(2.0, 5.3).T
    # Residuals see gear/mass and gain/mass.
    jacobian = np.stack([first / x[0], -(first + second) / x[1], second / x[2]], axis=1)
    inference = found(jacobian, [GEAR, MASS, GAIN], x)
    assert len(inference.combinations) == 2
    assert all('confounded' in text for text in texts(inference))
    for combination in inference.combinations:
        values = {'gear': 3.0, 'mass': 2.0, 'gain': 0.8}
        assert eval(combination.expression, {}, values) == pytest.approx(combination.value)  # noqa: S307
        assert combination.high - combination.low < 0.1 * combination.value


def test_a_near_triple_without_any_near_pair_names_all_three() -> None:
    a, b, rest = waves(2.0, 5.3, 9.1).T
    jacobian = np.stack([a, b, a + b + 3e-3 * rest], axis=1)
    assert np.max(np.abs(np.corrcoef(jacobian.T) - np.eye(3))) < 0.8
    unknowns = [LOSS, DAMPING, GEAR]
    inference = found(jacobian, unknowns, [1.0, 1.0, 1.0], noise=0.2)
    assert texts(inference) == [
        'confounded with damping, gear',
        'confounded with loss, gear',
        'confounded with loss, damping',
    ]
    assert np.isfinite(inference.intervals[0].low)


def test_delays_masses_and_resistances_add_up_rather_than_multiply() -> None:
    delay = unknown('actuator/m/delay', 'delay', 0, 0.1)
    lag = unknown('actuator/m/dynprm[0]', 'lag', 0.001, 0.1)
    for chosen, factors, x, expression, value in (
        ([MASS, LOAD], [1.0, 1.0], [2.0, 2.0], 'mass + load', 4.0),
        ([LOSS, DAMPING], [1.0, 1.5], [1e-3, 2.666], 'loss + 1.5·damping', 4.0),
        ([delay, lag], [50.0, 50.0], [0.03, 0.03], 'delay + lag', 0.06),
    ):
        (total,) = found(waves(2.0) * np.array(factors), chosen, x).combinations
        assert total.expression == expression
        assert total.value == pytest.approx(value)


def test_what_would_be_faint_even_alone_is_not_excited_and_not_confounded() -> None:
    jacobian = waves(2.0, 5.3)[:, [0, 1, 1, 1]] * [1.0, 1e-3, 1e-3, 0.0]
    inference = found(jacobian, [GEAR, LOSS, DAMPING, MASS], [3.0, 1.0, 1.0, 2.0], noise=1.0)
    assert texts(inference) == ['identified', *['not excited'] * 3]
    assert 'slow motion of joint x, both ways' in inference.intervals[1].explanation
    assert 'held at 2' in inference.intervals[3].explanation


@pytest.mark.parametrize(
    ('tilt', 'words'), [(0.0, 'within the noise'), (0.5, 'the data ask for about -0.5')]
)
def test_at_a_bound_it_is_told_whether_the_data_push_outwards(tilt: float, words: str) -> None:
    inference = found(waves(2.0, 5.3), [LOSS, GEAR], [0.0, 3.0], tilt=tilt)
    assert texts(inference) == ['at bound', 'identified']
    assert words in inference.intervals[0].explanation
    assert ('not physical' in inference.intervals[0].explanation) == (tilt > 0)
    assert (inference.intervals[0].asked is not None) == (tilt > 0)


def test_what_only_noise_put_at_a_bound_does_not_identify_its_partner() -> None:
    """Held where noise put the other, the partner would look certain to 0.4 %."""
    a, b = waves(2.0, 5.3).T
    jacobian = np.stack([a, a + 2e-3 * b], axis=1)
    inference = found(jacobian, [LOSS, DAMPING], [0.0, 2.0])
    assert texts(inference) == ['confounded with damping', 'confounded with loss']
    assert inference.intervals[1].low < 1.0
    assert inference.intervals[0].high > 1.0


def test_an_exact_pair_is_confounded_wherever_a_bound_stopped_it() -> None:
    x = [10.0, 5.0]
    inference = found(proportional(x, [1, -1]), [GEAR, MASS], x)
    assert texts(inference) == ['confounded with mass', 'confounded with gear']
    assert [c.expression for c in inference.combinations] == ['gear/mass']


@pytest.mark.parametrize('size', [10.0, 1e6])
def test_a_prior_that_decides_between_two_dominates_both(size: float) -> None:
    x = [3.0, 2.0]
    mass = unknown('body/cart/mass', 'mass', 0.1, prior=(2.0, 0.02))
    jacobian = np.concatenate([size * proportional(x, [1, -1]), [[0.0, 1 / 0.02]]])
    inference = found(jacobian, [GEAR, mass], x, noise=1.0, priors=1)
    assert texts(inference) == ['prior-dominated', 'prior-dominated']
    assert inference.intervals[1].low == pytest.approx(1.96, abs=0.01)
    assert 'cannot tell it from gear' in inference.intervals[1].explanation


def test_the_covariance_of_what_has_no_interval_is_not_a_number() -> None:
    x = [3.0, 2.0, 1.0]
    jacobian = np.concatenate([proportional(x[:2], [1, -1]), waves(5.3)], axis=1)
    covariance = found(jacobian, [GEAR, MASS, LOSS], x).covariance
    assert np.array_equal(np.isnan(np.diag(covariance)), [True, True, False])


@pytest.mark.parametrize(('tilt', 'notes'), [(0.0, 0), (0.5, 1)])
def test_a_fit_that_ended_off_its_optimum_says_so(tilt: float, notes: int) -> None:
    inference = found(waves(2.0, 5.3), [LOSS, GEAR], [1.0, 3.0], tilt=tilt)
    assert sum('from the optimum' in note for note in inference.notes) == notes


@pytest.mark.parametrize('prior', [None, (2.0, 1.0)])
def test_what_is_wide_in_spite_of_its_prior_is_not_called_unknown(
    prior: tuple[float, float] | None,
) -> None:
    mass = unknown('body/cart/mass', 'mass', 0.1, prior=prior)
    # The data alone know it to .4, so that most of the information is theirs.
    column = waves(2.0) / np.sqrt(np.sum(waves(2.0) ** 2)) / 0.4
    jacobian = column if prior is None else np.concatenate([column, [[1 / prior[1]]]])
    inference = found(jacobian, [mass], [2.0], noise=1.0, priors=0 if prior is None else 1)
    (verdict,) = texts(inference)
    assert verdict == ('not excited' if prior is None else 'prior-dominated')
    assert inference.intervals[0].high - inference.intervals[0].low > 1.0


def test_a_value_near_zero_is_identified_within_a_quarter_of_where_it_began() -> None:
    friction = Unknown('friction', (), nominal=0.04, min_value=0.0, max_value=10.0)
    assert widest(0.001, friction) == pytest.approx(0.01)
    assert widest(0.4, friction) == pytest.approx(0.1)
    # What begins at zero says nothing of its size.
    assert widest(0.001, Unknown('friction', (), 0.0, 0.0, 10.0)) == pytest.approx(0.2)
