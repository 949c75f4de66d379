# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Velocities that a driver filters are told from those that it measures."""

from __future__ import annotations

from typing import Any, Literal

import mujoco
import numpy as np
import pytest
from numpy.typing import NDArray

from sysid_ros.alignment import Alignment, align
from sysid_ros.alignment.lag import lag, late_velocities, only, velocity_lag, without_late
from sysid_ros.alignment.pairing import map_columns
from sysid_ros.signals import SignalType, TimeSeries

JOINTS = ('shoulder', 'elbow', 'wrist')
LOW_PASS = 0.02
NOISE = 0.004

Kind = Literal['measured', 'differenced', 'filtered', 'still']


def _joint(
    times: NDArray[np.float64], bits: int, kind: Kind, rng: np.random.Generator
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return positions as an encoder counts them, and velocities as a driver tells them."""
    turns, phases = 2 * np.pi * rng.uniform(0.1, 1.6, 5), rng.uniform(0, 2 * np.pi, 5)
    sizes = (3e-4 if kind == 'still' else rng.uniform(0.1, 0.6)) / np.arange(1, 6)
    waves = sizes * np.exp(1j * (np.outer(times, turns) + phases))
    count = 2 * np.pi / 2**bits
    positions = np.round(waves.imag.sum(axis=1) / count) * count
    if kind == 'differenced':
        return positions, np.diff(positions, prepend=positions[0]) / np.diff(times).mean()
    late = 1 + 1j * turns * LOW_PASS if kind == 'filtered' else 1.0
    velocities = (turns * waves / late).real.sum(axis=1)
    return positions, velocities + (kind != 'filtered') * NOISE * rng.standard_normal(len(times))


def _aligned(
    columns: Any, model: mujoco.MjModel, kinds: list[Kind], rate: int, bits: int, jitter: float
) -> Alignment:
    rng = np.random.default_rng([rate, bits, round(1e4 * jitter)])
    times = np.arange(0, 15, 1 / rate)
    told = [_joint(times, bits, kind, rng) for kind in kinds]
    fields = {
        field: {joint: pair[place] for joint, pair in zip(JOINTS, told, strict=False)}
        for place, field in enumerate(('position', 'velocity'))
    }
    stamps = np.sort(times + np.abs(jitter * rng.standard_normal(len(times))))
    bag = columns.bag(columns.topic('/joint_states', stamps, fields))
    return align(bag, model, map_columns(bag, model, 'auto'), 'auto')


@pytest.mark.parametrize('jitter', [0.0, 2e-4, 1e-3])
@pytest.mark.parametrize('bits', [12, 14, 17])
@pytest.mark.parametrize('rate', [50, 100, 200, 500, 1000])
def test_those_that_are_filtered_are_found_and_no_others(
    columns: Any, hinges: Any, rate: int, bits: int, jitter: float
) -> None:
    model = hinges(JOINTS[:2])
    for kind in ('measured', 'differenced'):
        assert not late_velocities(
            model, [_aligned(columns, model, [kind, kind], rate, bits, jitter)]
        )
    filtered = _aligned(columns, model, ['filtered', 'filtered'], rate, bits, jitter)
    (found,) = late_velocities(model, [filtered])
    assert found.topic == '/joint_states'
    assert found.sensors == {'v_shoulder': 'p_shoulder', 'v_elbow': 'p_elbow'}
    # Above 1.2 Hz, a quarter of what a filter of 8 Hz lets through, it lags by a few percent less.
    assert found.seconds == pytest.approx(LOW_PASS, rel=0.05)


def test_a_joint_that_hardly_moves_goes_with_its_topic_but_one_that_is_not_late_does_not(
    columns: Any, hinges: Any
) -> None:
    model = hinges(JOINTS)
    for kinds, late in (
        (['filtered', 'filtered', 'still'], {'v_shoulder', 'v_elbow', 'v_wrist'}),
        (['filtered', 'measured', 'filtered'], {'v_shoulder', 'v_wrist'}),
        (['filtered', 'measured', 'measured'], {'v_shoulder'}),
    ):
        (found,) = late_velocities(model, [_aligned(columns, model, kinds, 200, 14, 0.0)])
        assert found.sensors.keys() == late, kinds


def test_all_bags_speak_together_and_what_is_spared_is_not_looked_at(columns: Any, hinges: Any):
    model = hinges(JOINTS[:2])
    moves = _aligned(columns, model, ['filtered', 'filtered'], 100, 14, 0.0)
    rests = _aligned(columns, model, ['still', 'still'], 100, 14, 0.0)
    assert not late_velocities(model, [rests])
    (found,) = late_velocities(model, [rests, moves], {'v_elbow'})
    assert found.sensors.keys() == {'v_shoulder'}
    (sequence,) = without_late(rests, model, [found]).sequences
    assert {n for series in sequence.measurements for n in series.names} == {
        'p_shoulder',
        'p_elbow',
        'v_elbow',
    }


def test_what_is_late_is_left_out_with_a_word_and_says_nothing_of_the_start(
    columns: Any, hinges: Any
) -> None:
    model = hinges(JOINTS[:2])
    given = _aligned(columns, model, ['filtered', 'measured'], 200, 14, 0.0)
    left = without_late(given, model, late_velocities(model, [given]))
    (before,), (after,) = given.sequences, left.sequences
    (finding,) = set(left.health) - set(given.health)
    assert (finding.subject, finding.kind, finding.count) == ('/joint_states', 'velocity lag', 1)
    assert finding.detail.startswith('v_shoulder lag the derivative of the positions by ')
    (series,) = after.measurements
    assert set(series.names) == {'p_shoulder', 'p_elbow', 'v_elbow'}
    times, positions = series.times[:6], series.get('p_shoulder')[:6, 0]
    parabola = np.polynomial.Polynomial.fit(times, positions, 2)
    assert after.initial_qvel[0] == pytest.approx(parabola.deriv()(0.0))
    assert after.initial_qvel[0] != before.initial_qvel[0]
    assert after.initial_qvel[1] == before.initial_qvel[1]


def commands(
    generator: np.random.Generator, period: float = 0.02
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return 20 s of commands, a sum of six sines, sent with a jitter of 1 ms."""
    count = round(20 / period)
    times = np.sort(np.arange(count) * period + generator.normal(0, 1e-3, count))
    frequencies, phases = generator.uniform(0.2, 2.5, 6), generator.uniform(0, 2 * np.pi, 6)
    return times, np.sin(2 * np.pi * np.outer(times, frequencies) + phases).mean(axis=1)


def held(
    times: NDArray[np.float64], values: NDArray[np.float64], at: NDArray[np.float64]
) -> NDArray[np.float64]:
    places = np.clip(np.searchsorted(times, at, side='right') - 1, 0, None)
    return np.asarray(values[places])


@pytest.mark.parametrize('seed', range(10))
def test_a_lag_comes_back_within_a_millisecond_from_jittered_lossy_coarse_samples(seed: int):
    generator = np.random.default_rng(seed)
    true = generator.uniform(0, 0.15)
    sent, values = commands(generator)
    instants = np.arange(0.0, 20.0, 0.002)
    step = 2 * np.pi / 2**14
    position = np.round(held(sent, values, instants - true) / step) * step
    stamps = np.maximum.accumulate(instants + generator.normal(0, 1e-3, len(instants)))
    kept = (generator.random(len(stamps)) > 0.02) & (np.diff(stamps, prepend=-1) > 0)
    found = lag(sent, values, stamps[kept], position[kept])
    assert found is not None
    assert abs(found.seconds - true) < 1e-3
    assert abs(found.seconds - true) < 5 * found.deviation
    assert found.gain == pytest.approx(1, abs=0.01)


def test_the_time_that_a_first_order_servo_needs_is_in_the_lag():
    generator = np.random.default_rng(5)
    sent, values = commands(generator)
    instants = np.arange(0.0, 20.0, 0.001)
    target, position = held(sent, values, instants - 0.01), np.zeros(len(instants))
    for k in range(1, len(instants)):
        position[k] = position[k - 1] + (target[k - 1] - position[k - 1]) * 0.001 / 0.02
    found = lag(sent, values, instants, position)
    assert found is not None
    assert found.seconds == pytest.approx(0.03, abs=3e-3)


def test_a_response_that_does_not_follow_has_no_lag():
    generator = np.random.default_rng(6)
    sent, values = commands(generator)
    instants = np.arange(0.0, 20.0, 0.002)
    other = commands(generator)
    assert lag(sent, values, instants, held(*other, instants)) is None
    assert lag(sent, values, instants, np.zeros(len(instants))) is None


def test_sensors_that_are_left_out_are_no_columns_either() -> None:
    data = np.arange(12.0).reshape(3, 4)
    mapping = {
        name: (SignalType.MjSensor, np.array(at))
        for name, at in (('a', [0]), ('b', [3, 1]), ('c', [2]))
    }
    series = TimeSeries(np.arange(3.0), data, mapping)
    (kept,) = only([series], 'cb'.__contains__)
    assert kept.data.shape == (3, 3)
    assert [kept.get(name).tolist() for name in kept.names] == [
        series.get(name).tolist() for name in ('b', 'c')
    ]
    assert only([series], 'd'.__contains__) == ()


def test_a_gap_of_days_tells_no_lag_and_breaks_nothing():
    times = np.arange(0.0, 10.0, 0.01)
    times[500:] += 1e6
    assert velocity_lag(times, np.sin(times), times, np.cos(times)) is None
