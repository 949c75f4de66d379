# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Raw logs are simulated on a grid of their own and compared where the encoder was read."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING

import numpy as np
import pytest

from sysid_ros.cli import main
from sysid_ros.errors import FitError, ParameterError
from sysid_ros.servos.bench.coverage import gaps
from sysid_ros.servos.bench.fit import ServoFitSettings, fit_servo, values_of
from sysid_ros.servos.bench.pendulum import (
    candidate,
    errors_by_log,
    predict,
    samples_of,
    servo_for,
    simulate,
    stack_logs,
)
from sysid_ros.servos.formats.logs import PERIOD, Commands, ServoLog, process, read_logs, write_log
from sysid_ros.servos.formats.parameter_file import read_parameters, write_parameters
from sysid_ros.servos.laws.servo import Scheme, Servo
from test.builders.recordings import M1, record, record_raw

if TYPE_CHECKING:
    from pathlib import Path

SERVO = Servo.named('xl330', 'm1')
OTHER = ((0.22, 0.12, 300.0),)


def _leaping(substeps: int) -> Servo:
    return dataclasses.replace(SERVO, substeps=substeps, scheme=Scheme.LEAPFROG)


def _raw(times: np.ndarray, goal: np.ndarray, commands: Commands | None = None) -> ServoLog:
    none, on = np.zeros(len(times)), np.ones(len(times))
    about = {'kp': 400.0, 'vin': 7.5}
    return ServoLog(
        'raw', 'xl330', '', 0.2, 0.0, 0.1, about, PERIOD, none, goal, on, none, stamps=times,
        commands=commands,
    )  # fmt: skip


# The grid


def test_a_processed_log_is_a_raw_one_whose_stamps_lie_on_the_grid():
    even = record(SERVO, M1, dt=PERIOD, seconds=2.0)
    raw = [dataclasses.replace(log, stamps=log.times) for log in even]
    for reset in (None, 0.5):
        for one, other in zip(
            predict(SERVO, M1, even, reset), predict(SERVO, M1, raw, reset), strict=True
        ):
            np.testing.assert_allclose(one, other, rtol=0, atol=1e-12)


def test_commands_within_a_step_act_for_their_part_of_it():
    rng = np.random.default_rng(0)
    times = np.cumsum(rng.uniform(0.001, 0.02, 60))
    told = Commands(times - times[0], rng.normal(size=60), (rng.uniform(size=60) > 0.5) * 1.0)
    log = _raw(told.times, told.goal, told)
    dt = 0.00125
    fine = np.arange(-50, 200) / 100 * dt
    for scheme, begin in ((Scheme.BAM, 0), (Scheme.LEAPFROG, -50)):
        found = samples_of(log, dt, scheme)
        for row in (0, 7, 100, len(found.goal) - 5):
            at = row * dt + fine[begin + 50 : begin + 150] + dt / 200
            entry = np.maximum(np.searchsorted(told.times, at, side='right') - 1, 0)
            assert found.goal[row] == pytest.approx(told.goal[entry].mean(), abs=0.05)
            assert found.enabled[row] == pytest.approx(told.enabled[entry].mean(), abs=0.02)


def test_a_delay_moves_commands_as_if_they_had_been_told_later():
    times = np.arange(0, 1.5, 0.008)
    goal = np.sin(2 * times)
    servo, late = _leaping(4), 0.0065
    values = {**M1, 'command_delay': late}
    moved = _raw(times, goal, Commands(times + late, goal, np.ones(len(times))))
    delayed = predict(servo, values, [_raw(times, goal)])[0]
    assert np.ptp(delayed) > 0.3
    np.testing.assert_allclose(delayed, predict(servo, M1, [moved])[0], rtol=0, atol=2e-4)
    bench = stack_logs(servo, [_raw(times, goal)])
    own = simulate(servo, bench.timed(values), candidate(servo, values)).position
    np.testing.assert_allclose(bench.read(own)[:, 0, 0], delayed, rtol=0, atol=1e-12)


def test_candidates_have_delays_of_their_own():
    times = np.arange(0, 1.0, 0.008)
    log = _raw(times, np.sin(3 * times))
    servo = _leaping(2)
    delays = (0.0, 0.01, 0.0, -0.004)
    rows = np.concatenate([candidate(servo, {**M1, 'command_delay': d}) for d in delays])
    together = simulate(servo, stack_logs(servo, [log]), rows).position
    for place, row in enumerate(rows):
        alone = simulate(servo, stack_logs(servo, [log]), row[None]).position
        np.testing.assert_allclose(together[:, place], alone[:, 0], rtol=0, atol=1e-12)


def test_windows_hold_each_reading_once_where_it_was_made():
    logs, _ = record_raw(SERVO, M1, motions=('sin_time_square',), seconds=2.0)
    bench = stack_logs(_leaping(2), logs)
    windows = bench.windows(40)
    per_log = len(windows.lengths) // len(logs)
    assert windows.readings.lengths.sum() >= 0.9 * bench.readings.lengths.sum()
    for window in range(len(windows.lengths)):
        log, first = divmod(window, per_log)
        at = (windows.readings.row + windows.readings.part)[:, window] + 40 * first
        count = windows.readings.lengths[window]
        whole = (bench.readings.row + bench.readings.part)[:, log]
        inside = (whole >= 40 * first) & (whole <= 40 * first + 39)
        np.testing.assert_allclose(at[:count], whole[inside])
        np.testing.assert_array_equal(
            windows.readings.position[:count, window], bench.readings.position[inside, log]
        )


def test_the_error_of_short_steps_falls_with_their_square():
    times = np.arange(0, 2.0, 0.008)
    log = _raw(times, np.sin(2 * times) ** 2)
    smooth = {**M1, 'friction_base': 0.0}
    exact = predict(_leaping(64), smooth, [log])[0]
    errors = [np.abs(predict(_leaping(n), smooth, [log])[0] - exact).max() for n in (2, 4, 8)]
    assert errors[0] / errors[1] > 3
    assert errors[1] / errors[2] > 3


def test_short_steps_turn_where_friction_changes_its_sign():
    times = np.arange(0, 3.0, 0.008)
    swung = _raw(times, np.zeros(len(times)))
    log = dataclasses.replace(swung, position=swung.position + 1.2, enabled=swung.enabled * 0)
    exact = predict(_leaping(64), M1, [log])[0]
    velocity = np.diff(exact[exact != exact[-1]])
    assert (velocity[1:] * velocity[:-1] < 0).sum() > 3
    assert np.abs(predict(_leaping(3), M1, [log])[0] - exact).mean() < 1e-4


def test_raw_and_processed_logs_are_not_mixed_in_steps_of_one_of_them():
    even = record(SERVO, M1, dt=PERIOD, seconds=1.0)[:1]
    logs, _ = record_raw(SERVO, M1, seconds=1.0)
    with pytest.raises(FitError, match='Expected either raw or processed logs, found'):
        stack_logs(SERVO, [*even, *logs])
    both = servo_for(SERVO, [*even, *logs])
    assert len(predict(both, M1, [*even, *logs])) == 1 + len(logs)


def test_steps_of_the_law_are_told_from_the_steps_of_the_simulation():
    times = np.arange(0, 2.0, 0.008)
    log = _raw(times, np.sin(2 * times) ** 2)
    smooth = {**M1, 'friction_base': 0.0}
    stepped = predict(dataclasses.replace(SERVO, substeps=5), smooth, [log])[0]  # of BAM's, 1 ms
    own = predict(_leaping(4), {**smooth, 'law_step': 0.001}, [log])[0]
    without = predict(_leaping(4), smooth, [log])[0]
    assert np.abs(own - stepped).max() < 0.1 * np.abs(without - stepped).max()


# The fit


@pytest.mark.slow
@pytest.mark.parametrize('lead', [0.0, 0.0025])
def test_raw_logs_leave_no_more_than_the_truth_on_other_loads(lead: float):
    logs, _ = record_raw(SERVO, M1, lead=lead)
    other, floors = record_raw(SERVO, M1, runs=OTHER, lead=lead, seed=1)
    servo = servo_for(SERVO, logs)
    assert servo.scheme is Scheme.LEAPFROG
    fit = fit_servo(servo, logs, settings=ServoFitSettings(starts=2))
    values = values_of(servo, fit, {})
    errors = errors_by_log(servo, values, other)
    assert np.mean(list(errors.values())) < 1.2 * np.mean(floors)
    assert values['command_delay'] == pytest.approx(-lead, abs=1e-4)
    for name, value in M1.items():
        assert values[name] == pytest.approx(value, rel=0.03)


@pytest.mark.slow
def test_processed_logs_leave_far_more(tmp_path: Path):
    logs, _ = record_raw(SERVO, M1)
    other, floors = record_raw(SERVO, M1, runs=OTHER, seed=1)
    even = []
    for name, own in (('train', logs), ('other', other)):
        for log in own:
            write_log(tmp_path / name / f'{log.name}.json', log)
        process(tmp_path / name, tmp_path / f'even_{name}')
        even.append(read_logs(tmp_path / f'even_{name}'))
    fit = fit_servo(SERVO, even[0], settings=ServoFitSettings(starts=2))
    errors = errors_by_log(SERVO, values_of(SERVO, fit, {}), even[1])
    assert np.mean(list(errors.values())) > 3 * np.mean(floors)


def test_a_pause_of_the_recorder_is_told():
    times = np.delete(np.arange(0, 3.0, 0.008), slice(100, 140))
    log = _raw(times, np.sin(times))
    assert not [line for line in gaps(SERVO, [_raw(times[:100], times[:100])]) if 'read' in line]
    (told,) = [line for line in gaps(SERVO, [log]) if 'not read' in line]
    assert 'In 1 of 1 logs' in told
    assert '0.33 s (raw at 0.79 s)' in told


# Files and commands


def test_a_parameter_file_says_how_its_steps_were_made(tmp_path: Path):
    servo, path = _leaping(4), tmp_path / 'params.json'
    values = {**M1, 'command_delay': -0.002, 'law_step': 0.001}
    write_parameters(path, servo, values)
    written = json.loads(path.read_text())
    assert (written['scheme'], written['substeps']) == ('leapfrog', 4)
    found, read = read_parameters(path)
    assert (found.scheme, found.substeps, read) == (Scheme.LEAPFROG, 4, values)
    path.write_text(json.dumps({**written, 'scheme': 'euler'}))
    with pytest.raises(ParameterError, match=r'"euler" for \'scheme\'.*expected bam or leapfrog'):
        read_parameters(path)


@pytest.mark.slow
def test_a_servo_that_was_simulated_in_long_steps_is_fitted_in_them(tmp_path: Path):
    logs, floors = record_raw(SERVO, M1, plant=SERVO)
    for log in logs:
        write_log(tmp_path / 'raw' / f'{log.name}.json', log)
    params = tmp_path / 'm1.json'
    usual = ['--actuator', 'xl330', '--logdir', str(tmp_path / 'raw'), '--model', 'm1']
    assert main(['fit-actuator', *usual, '--starts', '2', '-o', str(params)]) == 0
    servo, values = read_parameters(params)
    assert (servo.scheme, servo.substeps) == (Scheme.BAM, 1)
    assert np.mean(list(errors_by_log(servo, values, logs).values())) < 1.05 * np.mean(floors)


@pytest.mark.slow
def test_every_command_takes_raw_logs(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    logs, floors = record_raw(SERVO, M1, motions=('sin_time_square', 'lift_and_drop'), seconds=3.0)
    for log in logs:
        write_log(tmp_path / 'raw' / f'{log.name}.json', log)
    params, raw = tmp_path / 'm1.json', str(tmp_path / 'raw')
    usual = ['--actuator', 'xl330', '--logdir', raw]
    fit = ['fit-actuator', *usual, '--model', 'm1', '--starts', '1', '-o', str(params)]
    assert main(fit) == 0
    capsys.readouterr()
    assert main([*fit, '--eval']) == 0
    mean = float(capsys.readouterr().out.split()[-2])
    assert mean < 1.2e3 * np.mean(floors)
    pictures = ['-o', str(tmp_path / 'pictures')]
    assert (
        main(['plot-actuator', '--logdir', raw, '--sim', '--params', str(params), *pictures]) == 0
    )
    xml = str(tmp_path / 'servo.xml')
    assert main(['export-actuator', '--params', str(params), '--logs', raw, '-o', xml]) == 0
