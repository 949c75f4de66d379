# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""An arm that was calibrated picks something up: its ten numbers, by efforts or by the wrench."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from builders.carrying_arm import ARM, BIAS, DELAY, LOAD_THETA, record
from sysid_ros.config.files import load_calibration
from sysid_ros.results.result import CalibrationResult
from sysid_ros.workflows.calibrate import calibrate, identify

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures('undrawn')]

SECONDS = 4.0
#: Sensors beside positions in the recordings of the load.
MEASURED = {
    'effort': {'pan_effort', 'lift_effort', 'elbow_effort'},
    'wrench': {'force', 'torque'},
}
EMPTY = """
model: arm.xml
bags: [{path: empty_*}]
parameters:
  - {target: joint/*/armature}
  - {target: joint/*/damping}
  - {target: joint/*/frictionloss}
  - {name: command_delay, target: actuator/*/delay, shared: true, bounds: [0, 0.1]}
  - {target: sensor/force/bias}
  - {target: sensor/torque/bias}
  - {target: body/tool/mass}
solver: {threads: 1, accuracy: 0.1}
"""
LOADED = """
memory: {{previous: out, carry: true}}
bags: [{{path: {bag}}}]
parameters: [{{target: body/tool/inertia}}]
output: {bag}_out
"""


@pytest.fixture(scope='module')
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder in which the arm was calibrated, and recorded after it picked something up.

    Of the load there are two recordings: one of efforts, one of the wrench.
    """
    folder = tmp_path_factory.mktemp('cell')
    (folder / 'arm.xml').write_text(ARM)
    (folder / 'calibration.yaml').write_text(EMPTY)
    for seed in (1, 2):
        record(folder / f'empty_{seed}', seed, SECONDS, 'effort', 'wrench', loaded=False)
    assert calibrate(load_calibration(folder / 'calibration.yaml')).result.accepted
    for bag in ('effort', 'wrench'):
        record(folder / bag, 3, SECONDS, bag, loaded=True)
        (folder / f'{bag}.yaml').write_text(LOADED.format(bag=bag))
    return folder


def picked_up(folder: Path, bag: str) -> CalibrationResult:
    result = identify(load_calibration(folder / f'{bag}.yaml')).result
    compared = {error.sensor.partition('[')[0] for error in result.errors}
    others = {name for name in compared if not name.endswith('_position')}
    assert others == MEASURED[bag.partition('_')[0]]
    return result


@pytest.fixture(scope='module')
def by_efforts(folder: Path) -> CalibrationResult:
    return picked_up(folder, 'effort')


@pytest.fixture(scope='module')
def by_wrench(folder: Path) -> CalibrationResult:
    return picked_up(folder, 'wrench')


def intervals(result: CalibrationResult) -> tuple[np.ndarray, np.ndarray]:
    """Return the middles and half widths of the intervals of the load's ten numbers."""
    own = result.parameters[:10]
    assert [p.name for p in own] == [f'body/tool/inertia[{index}]' for index in range(10)]
    ends = np.array([(p.low, p.high) for p in own])
    return ends.mean(axis=1), np.diff(ends, axis=1)[:, 0] / 2


def check(result: CalibrationResult) -> None:
    """Check that the load's numbers are in their intervals, of which one may miss by a little."""
    middle, half = intervals(result)
    off = np.abs(middle - LOAD_THETA) / half
    assert (off < 1.6).all()
    assert np.sum(off > 1.0) <= 1
    # The first is half of the mass' logarithm, the last three are the centre in m.
    assert half[0] < 1e-3
    assert (half[7:] < 1e-3).all()
    # Between them are the logarithms of sizes, and what turns their axes, in m.
    assert (half[1:4] < 0.2).all()
    assert (half[4:7] < 0.02).all()


@pytest.mark.parametrize('by', ['by_efforts', 'by_wrench'])
def test_the_ten_numbers_of_a_load_are_in_their_intervals(
    by: str, request: pytest.FixtureRequest
) -> None:
    result = request.getfixturevalue(by)
    check(result)
    (tool,) = result.links
    mass = tool.numbers[0]
    assert (tool.body, mass.name) == ('tool', 'mass')
    assert mass.value == pytest.approx(np.exp(2 * LOAD_THETA[0]), rel=1e-3)


def test_efforts_and_the_wrench_agree_about_a_load(
    by_efforts: CalibrationResult, by_wrench: CalibrationResult
) -> None:
    (first, one), (second, other) = intervals(by_efforts), intervals(by_wrench)
    off = np.abs(first - second) / np.hypot(one, other)
    assert (off < 1.6).all()
    assert np.sum(off > 1.0) <= 1


def test_what_was_known_of_an_empty_arm_is_where_a_load_begins(
    folder: Path, by_wrench: CalibrationResult
) -> None:
    earlier = CalibrationResult.load(folder / 'out' / 'current' / 'result.json')
    known = {p.name: p for p in earlier.parameters}
    # The mass of the empty tool is none of the load's, and no parameter beside its inertia.
    known.pop('body/tool/mass')
    carried = {p.name: p for p in by_wrench.parameters[10:]}
    assert carried.keys() == known.keys()
    for name, p in carried.items():
        assert p.initial == known[name].value
        assert p.high - p.low < 1.1 * (known[name].high - known[name].low)
    assert carried['command_delay'].value == pytest.approx(DELAY, abs=5e-5)
    biases = [carried[f'sensor/{name}/bias[{k}]'] for name in ('force', 'torque') for k in range(3)]
    np.testing.assert_allclose([p.value for p in biases], BIAS, atol=0.02)
    assert by_wrench.drift is not None
    assert not by_wrench.drift.changed
    assert not any('No longer identified' in warning for warning in by_wrench.warnings)


def test_a_joint_that_changed_meanwhile_is_named_and_does_not_bend_the_load(folder: Path) -> None:
    record(folder / 'effort_dry', 3, SECONDS, 'effort', loaded=True, friction=(0.5, 0.4, 0.27))
    (folder / 'effort_dry.yaml').write_text(LOADED.format(bag='effort_dry'))
    result = picked_up(folder, 'effort_dry')
    assert result.drift is not None
    changed = [row.name for row in result.drift.parameters if row.changed]
    assert changed == ['joint/elbow/frictionloss']
    check(result)
