# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Which results are accepted: one honest result, and what may be wrong with it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from sysid_ros.config import GateConfig
from sysid_ros.results.gate import judge
from sysid_ros.results.parts import Fold, HealthFinding, NoiseScale, SignalPlot, TraceEntry
from sysid_ros.results.result import CalibrationResult

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Array = NDArray[np.float64]
    Change = Callable[[SignalPlot, Array], dict[str, Any]]

BASELINE = Path(__file__).parents[1] / 'data' / 'pendulum' / 'baseline.json'
JOINTS = ('pan', 'lift', 'elbow')
SIGMA = 1e-3
TIMES = np.arange(0.0, 6.0, 0.01)
#: What does not matter here, of a real calibration.
BARE = CalibrationResult.load(BASELINE)


def curve(sequence: str, role: Any, number: int, seed: int) -> SignalPlot:
    """Return a joint that moves by sines of its own, a poor nominal model and an honest fit."""
    rng = np.random.default_rng([seed, number])
    true = np.sin((2 + number) * TIMES + seed) + 0.3 * np.sin((5 + number) * TIMES)
    return SignalPlot(
        sequence=sequence,
        role=role,
        sensor=f'{JOINTS[number]}_position',
        unit='rad',
        times=tuple(TIMES),
        measured=tuple(true + SIGMA * rng.standard_normal(len(TIMES))),
        before=tuple(0.9 * true),
        after=tuple(true),
    )


def made(**changes: Any) -> CalibrationResult:
    """Return an honest result of three joints, two training sequences and a held-out one."""
    plots = [
        curve(sequence, role, number, seed)
        for seed, (sequence, role) in enumerate(
            [('train_1', 'train'), ('train_2', 'train'), ('held', 'validate')]
        )
        for number in range(len(JOINTS))
    ]
    noise = [
        NoiseScale(sensor=f'{joint}_position', unit='rad', sigma=SIGMA, source='told')
        for joint in JOINTS
    ]
    return BARE.model_copy(
        update={
            'plots': tuple(plots),
            'noise': tuple(noise),
            'errors': (),
            'held_out_before': 70.0,
            'held_out_after': 1.0,
            'training_before': 70.0,
            'training_after': 1.0,
            **changes,
        }
    )


def changed(result: CalibrationResult, sensor: str, role: str, change: Change) -> CalibrationResult:
    """Return a result whose curves of a sensor are others in sequences of a role."""
    plots = [
        plot.model_copy(update=change(plot, np.array(plot.measured)))
        if plot.sensor == sensor and plot.role == role
        else plot
        for plot in result.plots
    ]
    return result.model_copy(update={'plots': tuple(plots)})


def failed(result: CalibrationResult, **gate: Any) -> dict[str, str]:
    """Return the conditions that are not met, and what they say."""
    judged = judge(result, GateConfig(**gate))
    found = {check.name: check.detail for check in judged.gate if not check.passed}
    assert judged.accepted == (not found)
    assert not found or judged.acceptance in found.values()
    return found


def test_an_honest_result_is_accepted_and_says_by_how_much_the_error_fell() -> None:
    judged = judge(made(), GateConfig())
    assert judged.accepted
    assert judged.acceptance == 'Held-out error fell: 70 to 1 times the noise.'


def test_a_judged_result_is_judged_the_same_after_it_was_stored(tmp_path: Path) -> None:
    judged = judge(made(), GateConfig())
    judged.save(tmp_path / 'result.json')
    again = judge(CalibrationResult.load(tmp_path / 'result.json'), GateConfig())
    assert again.gate == judged.gate


def test_an_error_that_did_not_fall_or_hardly_is_a_reason() -> None:
    assert 'did not fall' in failed(made(held_out_after=70.0))['better than nominal']
    assert 'less than 2 %' in failed(made(held_out_after=69.0))['better than nominal']
    assert not failed(made(held_out_after=69.0), margin=0.01)


def test_an_error_that_fell_on_as_many_stretches_as_it_rose_is_chance() -> None:
    result = made()
    rng = np.random.default_rng(1)
    plots = []
    for plot in result.plots:
        noise = 0.02 * rng.standard_normal((2, len(TIMES)))
        both = np.array(plot.measured) + noise
        plots.append(plot.model_copy(update={'before': tuple(both[0]), 'after': tuple(both[1])}))
    found = failed(result.model_copy(update={'plots': tuple(plots)}))
    assert 'no more than by chance' in found['better than nominal']


def test_a_solver_that_did_not_converge_is_a_reason() -> None:
    result = made()
    falling = tuple(_iteration(number, 100.0 * 0.9**number) for number in range(8))
    solver = result.solver.model_copy(
        update={
            'success': False,
            'status': 'iterations',
            'message': 'The limit is reached.',
            'trace': falling,
        }
    )
    result = result.model_copy(update={'solver': solver})
    assert failed(result) == {'converged': 'The solver did not converge: The limit is reached.'}
    assert not failed(result, converged=False)
    settled = tuple(_iteration(number, 100.0 - 1e-3 * number) for number in range(8))
    for change in ({'trace': settled}, {'status': 'stalled'}):
        calm = result.model_copy(update={'solver': solver.model_copy(update=change)})
        assert not failed(calm)


def _iteration(number: int, cost: float) -> TraceEntry:
    return TraceEntry(iteration=number, cost=cost, step=0.1, rollouts=9 * number, diverged=0)


def test_a_model_that_becomes_unstable_is_a_reason() -> None:
    assert failed(made(diverged=('held',))) == {
        'stable': 'The fitted model becomes unstable in held.'
    }


@pytest.mark.parametrize('role', ['train', 'validate'])
def test_an_encoder_that_freezes_for_a_while_is_named(role: str) -> None:
    def freeze(_: SignalPlot, measured: Array) -> dict[str, Any]:
        measured[200:350] = measured[200]
        return {'measured': tuple(measured)}

    found = failed(changed(made(), 'elbow_position', role, freeze))
    assert 'elbow_position stands still for 1.5 s' in found['no stuck position']


def test_a_coarse_encoder_of_a_joint_that_hardly_moves_is_not_stuck() -> None:
    def coarse(*_: object) -> dict[str, Any]:
        slow = 0.1 * np.sin(TIMES) + 0.25
        return {'measured': tuple(np.round(slow / 0.1) * 0.1), 'after': tuple(slow)}

    found = failed(changed(made(), 'elbow_position', 'validate', coarse))
    assert 'no stuck position' not in found


def test_a_position_that_never_changes_though_it_should_is_named() -> None:
    def stop(_: SignalPlot, measured: Array) -> dict[str, Any]:
        return {'measured': (0.5,) * len(measured)}

    result = made()
    for role in ('train', 'validate'):
        result = changed(result, 'lift_position', role, stop)
    assert 'lift_position never changes' in failed(result)['live sensors']
    finding = HealthFinding(
        bag='train_1', subject='/joint_states', kind='stuck', count=9, detail="'x' never changes"
    )
    said = failed(made(health=(finding,)))['live sensors']
    assert said.startswith("'x' never changes in train_1")


def test_a_wrong_sign_and_swapped_joints_are_told_apart() -> None:
    def turn(_: SignalPlot, measured: Array) -> dict[str, Any]:
        return {'measured': tuple(-measured)}

    found = failed(changed(made(), 'lift_position', 'validate', turn))
    assert 'lift_position is predicted: it runs against the model' in found['explained']
    result = made()
    held = {plot.sensor: plot.measured for plot in result.plots if plot.role == 'validate'}
    for one, other in (('lift_position', 'elbow_position'), ('elbow_position', 'lift_position')):
        swap = {'measured': held[other]}
        result = changed(result, one, 'validate', lambda *_, swap=swap: swap)
    assert 'moves as it should, as with swapped joints' in failed(result)['explained']


def test_a_bag_of_another_robot_is_named() -> None:
    def other(_: SignalPlot, measured: Array) -> dict[str, Any]:
        return {'measured': tuple(1.05 * measured)}

    result = made()
    for joint in JOINTS:
        result = changed(result, f'{joint}_position', 'validate', other)
    found = failed(result)
    assert list(found) == ['consistent']
    assert found['consistent'].startswith('The error in held is')
    assert not failed(result, sequence_growth=1000.0)


def test_jolts_that_do_not_last_are_no_other_robot() -> None:
    def jolted(_: SignalPlot, measured: Array) -> dict[str, Any]:
        late = measured.copy()
        late[50::60] += 100 * SIGMA
        return {'measured': tuple(late)}

    result = made()
    for joint in JOINTS:
        result = changed(result, f'{joint}_position', 'validate', jolted)
    plots = [plot for plot in result.plots if plot.role == 'validate']
    errors = np.array([np.subtract(plot.measured, plot.after) for plot in plots]) / SIGMA
    assert np.sqrt(np.mean(errors**2)) > 4 * np.sqrt(2)
    assert not failed(result)


def test_a_sensor_that_is_predicted_worse_than_before_is_named() -> None:
    result = made()
    errors = BARE.errors
    worse = errors[-1].model_copy(
        update={'sensor': 'pan_position', 'role': 'validate', 'before': 0.01, 'after': 0.02}
    )
    found = failed(result.model_copy(update={'errors': (worse,)}))
    assert found['no sensor worse'].startswith('The error of pan_position grew, 0.01 to 0.02')
    slightly = worse.model_copy(update={'after': 0.0105})
    assert not failed(result.model_copy(update={'errors': (slightly,)}))


def test_a_part_that_the_others_do_not_predict_is_named() -> None:
    folds = (
        Fold(name='train_1', before=70.0, after=1.0, values=()),
        Fold(name='train_2', before=70.0, after=90.0, values=()),
    )
    found = failed(made(folds=folds))
    assert 'train_2 worse' in found['left out in turn']


def test_zero_friction_is_a_value_and_other_bounds_are_a_reason() -> None:
    result = made()
    friction = result.parameters[0].model_copy(
        update={
            'targets': ('joint/elbow/frictionloss',),
            'value': 0.0,
            'bounds': (0.0, 2.0),
            'verdict': 'at bound',
        }
    )
    rest = result.parameters[1:]
    assert not failed(result.model_copy(update={'parameters': (friction, *rest)}))
    wide = friction.model_copy(update={'value': 2.0})
    outer = result.model_copy(update={'parameters': (wide, *rest)})
    assert friction.name in failed(outer)['inside bounds']
    assert not failed(outer, outer_bounds=True)


def test_verdicts_that_are_not_allowed_are_a_reason() -> None:
    result = made()
    first = result.parameters[0]
    blind = first.model_copy(update={'verdict': 'not excited'})
    result = result.model_copy(update={'parameters': (blind, *result.parameters[1:])})
    assert f'{first.name} is not excited' in failed(result)['verdicts']
    assert not failed(result, allowed_verdicts=('identified', 'not excited'))


def test_in_chaotic_motion_errors_over_whole_sequences_do_not_judge() -> None:
    def lost(_: SignalPlot, measured: Array) -> dict[str, Any]:
        return {'after': tuple(-measured)}

    result = made()
    solver = result.solver.model_copy(update={'window': 0.5})
    result = changed(result, 'pan_position', 'validate', lost)
    assert failed(result)
    assert not failed(result.model_copy(update={'solver': solver}))
