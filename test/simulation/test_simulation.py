# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Simulating sequences with candidates."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest
from numpy.typing import NDArray

from builders.trajectories import measure, sweep
from sysid_ros.errors import FitError
from sysid_ros.model.loading import differing_fields, native_delay
from sysid_ros.model.targets import Unknown, make_unknowns
from sysid_ros.signals import SignalType, TimeSeries, Trajectory
from sysid_ros.simulation.prediction import predict, predict_each
from sysid_ros.simulation.runs import HeldCommand, SmoothLookup, lookup
from sysid_ros.simulation.simulator import Simulator, unlogged

TIMESTEP = 0.002
ARM = """
<mujoco>
  <option timestep="0.002"/>
  <worldbody>
    <body name="upper"><joint name="j" axis="0 1 0" damping=".1"/>
      <geom type="capsule" fromto="0 0 0 .3 0 0" size=".02" mass="1" contype="0"/>
      <body name="lower" pos=".3 0 0"><joint name="k" axis="0 1 0" damping=".1" armature=".01"/>
        <geom type="capsule" fromto="0 0 0 .2 0 0" size=".02" mass=".5" contype="0"/></body></body>
  </worldbody>
  <actuator>
    <motor name="a" joint="j" gear="3" {delay}/>
    <position name="b" joint="k" kp="8" kv=".4"/>
  </actuator>
  <sensor>
    <jointpos name="q" joint="j"/><jointvel name="v" joint="j"/><jointpos name="p" joint="k"/>
  </sensor>
</mujoco>
"""


def arm(delay: str = '') -> mujoco.MjModel:
    return mujoco.MjModel.from_xml_string(ARM.format(delay=delay))


def step_by_step(
    model: mujoco.MjModel, sequence: Trajectory, steps: int, delays: dict[str, float] | None = None
) -> NDArray[np.float64]:
    """Step a model in a plain loop; row k is what the sensors say at ``k * timestep``."""
    data = mujoco.MjData(model)
    data.qpos[:], data.qvel[:] = sequence.initial_qpos, sequence.initial_qvel
    edges = np.arange(steps + 1) * model.opt.timestep
    controls = {
        name: HeldCommand(series.times, series.get(name)[:, 0]).means(
            edges, (delays or {}).get(name, 0.0)
        )
        for series in sequence.commands
        for name in series.names
    }
    rows = []
    for step in range(steps):
        for name, values in controls.items():
            data.actuator(name).ctrl[:] = values[step]
        mujoco.mj_step(model, data)  # evaluates the sensors before it integrates
        rows.append(data.sensordata.copy())
    return np.array(rows)


def predicted(model: mujoco.MjModel, *sequences: Trajectory) -> list[NDArray[np.float64]]:
    return [found.channels[0][0] for found in predict(model, sequences, threads=1)]


def by_candidate(
    model: mujoco.MjModel,
    parameters: Sequence[Unknown],
    runs: Sequence[Trajectory],
    candidates: NDArray[np.float64],
) -> dict[tuple[int, int], tuple[NDArray[np.float64], bool]]:
    """Return run and candidate to what the first series reads, and whether it diverged."""
    each = predict_each(model, runs, parameters, candidates, threads=2)
    return {(run, number): (series[0], wild) for run, number, series, wild in each}


@pytest.mark.parametrize(
    'stamps',
    [np.arange(0, 300, 5) * TIMESTEP, np.sort(np.random.default_rng(3).uniform(0, 0.6, 200))],
    ids=['on the grid', 'off it'],
)
def test_samples_lie_on_the_line_between_two_plain_steps(stamps: NDArray[np.float64]) -> None:
    model = arm()
    run = measure(model, times=stamps, commands=sweep('a', 'b'), start=([0.3, -0.2], [1, -1]))
    rows = step_by_step(model, run, 302)
    grid = np.arange(302) * TIMESTEP
    expected = np.stack([np.interp(stamps, grid, column) for column in rows.T], axis=1)
    np.testing.assert_allclose(predicted(model, run)[0], expected, rtol=0, atol=1e-11)


def test_sequences_in_one_batch_are_what_each_is_alone() -> None:
    model = arm()
    runs = [
        measure(
            model,
            name=str(end),
            times=np.arange(0, end, 0.0031),
            commands=sweep('a', 'b', amplitude=end),
            start=([end, 0], [0, 0]),
        )
        for end in (0.5, 0.9, 0.45, 0.05, 0.88)
    ]
    together = predicted(model, *runs)
    for run, values in zip(runs, together, strict=True):
        np.testing.assert_array_equal(values, predicted(model, run)[0])


def test_candidates_in_one_batch_are_what_each_is_alone() -> None:
    model = arm()
    run = measure(model, times=np.arange(0, 0.5, 0.01), commands=sweep('a', 'b'))
    parameters = [
        *make_unknowns('joint/*/armature', model),
        *make_unknowns('actuator/a/delay', model, bounds=(0, 0.1)),
    ]
    candidates = np.array([[0.1, 0.2, 0.0], [0.0, 0.0, 0.013], [0.1, 0.0, 0.02]])
    with Simulator(model, parameters, [run], threads=2) as simulator:

        def read(some: NDArray[np.float64]) -> NDArray[np.float64]:
            (block,) = simulator.simulate(some, [np.arange(len(some))])
            return block.rows['sensordata'].copy()

        together = read(candidates)
        # In another order and after other values: nothing is left behind in the copies.
        for place in (2, 0, 1):
            np.testing.assert_array_equal(together[place], read(candidates[[place]])[0])
        assert simulator.rollouts == 6
    assert not np.allclose(together[0], together[1])


def test_the_model_of_the_caller_never_changes() -> None:
    model, untouched = arm('delay=".004" nsample="4"'), arm('delay=".004" nsample="4"')
    run = measure(model, times=np.arange(0, 0.2, 0.01), commands=sweep('a', 'b'))
    parameters = [
        *make_unknowns('body/*/mass', model),
        *make_unknowns('actuator/b/kp', model),
        *make_unknowns('actuator/a/delay', model, bounds=(0, 0.1)),
        *make_unknowns('option/gravity[2]', model),
    ]
    predict(model, [run], parameters, np.array([2.0, 3.0, 40.0, 0.02, -3.0]), threads=1)
    assert differing_fields(model, untouched, 0.0) == ()


@pytest.mark.parametrize('delay', [TIMESTEP, 0.0045, 0.01])
def test_a_delay_in_the_file_delays_the_commands_as_mujoco_does(delay: float) -> None:
    native = native_delay(delay, TIMESTEP)
    model = arm(f'delay="{native.delay}" nsample="{native.nsample}" interp="linear"')
    # On the grid of the simulation, and from zero: MuJoCo's history begins with zeros.
    commands = sweep('a', 'b')
    stamps = 7 * TIMESTEP * np.arange(len(commands))
    values = commands.data * (stamps > 0)[:, None]
    run = measure(
        model,
        times=np.arange(0, 300, 3) * TIMESTEP,
        commands=TimeSeries(stamps, values, commands.signal_mapping),
    )
    rows = step_by_step(model, run, 300)
    np.testing.assert_allclose(predicted(model, run)[0], rows[::3], rtol=0, atol=1e-10)
    undelayed = step_by_step(arm(), run, 300)
    assert np.max(np.abs(undelayed - rows)) > 1e-4


def test_a_delay_parameter_replaces_the_delay_in_the_file() -> None:
    model = arm('delay=".004" nsample="4"')
    run = measure(model, times=np.arange(0, 200) * TIMESTEP, commands=sweep('a', 'b'))
    (parameter,) = make_unknowns('actuator/a/delay', model, bounds=(0, 0.1))
    (found,) = predict(model, [run], [parameter], np.array([0.0153]), threads=1)
    expected = step_by_step(arm(), run, 200, {'a': 0.0153})
    np.testing.assert_allclose(found.channels[0][0], expected, rtol=0, atol=1e-12)


FILTERED = """
<mujoco>
  <worldbody><body><joint name="j"/><geom size=".1" mass="1"/></body></worldbody>
  <actuator>
    <general name="a" joint="j" dyntype="{dyntype}" dynprm=".1" gainprm="2" {limit}/>
  </actuator>
  <sensor><actuatorfrc name="f" actuator="a"/></sensor>
</mujoco>
"""


@pytest.mark.parametrize(
    ('dyntype', 'limit', 'commands', 'expected'),
    [
        ('filter', '', {-1.0: 0.5}, 1.0),
        ('filterexact', '', {-1.0: 0.5}, 1.0),
        ('filter', '', {-1.0: 0.5, 1e-3: 9.0}, 1.0),
        ('filter', 'ctrlrange="-.25 .25" ctrllimited="true"', {0.0: 0.5}, 0.5),
    ],
    ids=['held', 'exact', 'unaware of commands to come', 'within the range'],
)
def test_filters_start_at_rest(
    dyntype: str, limit: str, commands: dict[float, float], expected: float
) -> None:
    model = mujoco.MjModel.from_xml_string(FILTERED.format(dyntype=dyntype, limit=limit))
    command = TimeSeries.from_columns(
        list(commands), [[value] for value in commands.values()], ['a'], SignalType.MjCtrl
    )
    force = predicted(model, measure(model, times=np.arange(0, 0.5, 0.1), commands=command))[0]
    assert force[0, 0] == pytest.approx(expected, rel=1e-12)
    assert force[-1, 0] > 10 if len(commands) > 1 else force[-1, 0] == pytest.approx(expected)


def test_commands_reach_actuators_behind_one_with_several_controls() -> None:
    model = mujoco.MjModel.from_xml_string(
        '<mujoco><worldbody><body><joint name="j"/><geom size=".1" mass="1"/></body></worldbody>'
        '<actuator><pid name="two" joint="j" kp="1" kv="2"/><motor name="m" joint="j"/></actuator>'
        '<sensor><actuatorfrc name="f" actuator="m"/></sensor></mujoco>'
    )
    command = TimeSeries.from_columns([0.0], [[0.75]], ['m'], SignalType.MjCtrl)
    force = predicted(model, measure(model, times=np.arange(0, 0.1, 0.01), commands=command))[0]
    np.testing.assert_array_equal(force, 0.75)


def test_series_keep_their_own_stamps() -> None:
    model = arm()
    run = measure(model, times=np.arange(0, 0.4, 0.01), commands=sweep('a', 'b'))
    fast = TimeSeries.from_columns(np.arange(0, 0.2, 0.004), np.zeros(50), ['p'])
    slow = TimeSeries.from_columns([0.1, 0.3], np.zeros((2, 2)), ['v', 'q'])
    split = dataclasses.replace(run, measurements=(fast, slow))
    (prediction,) = predict(model, [split], threads=1)
    rows = step_by_step(model, run, 200)
    np.testing.assert_allclose(prediction.channels[0][0, :, 0], rows[:100:2, 2], atol=1e-12)
    np.testing.assert_allclose(prediction.channels[1][0], rows[[50, 150]][:, [1, 0]], atol=1e-12)


def test_a_candidate_that_diverges_is_told_from_those_that_do_not() -> None:
    model = arm()
    runs = [
        measure(model, name=str(end), times=np.arange(0, end, 0.01), commands=sweep('a', 'b'))
        for end in (0.6, 0.62)
    ]
    parameters = make_unknowns('actuator/b/kp', model, bounds=(0, 1e12))
    found = by_candidate(model, parameters, runs, np.array([[8.0], [1e11], [9.0]]))
    again = by_candidate(model, parameters, runs, np.array([[9.0], [8.0]]))
    assert {key for key, (_, wild) in found.items() if wild} == {(0, 1), (1, 1)}
    for run in (0, 1):
        np.testing.assert_array_equal(found[run, 2][0], again[run, 0][0])


def test_what_diverges_is_counted_and_writes_no_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    model = arm()
    run = measure(model, times=np.arange(0, 0.6, 0.01), commands=sweep('a', 'b'))
    parameters = make_unknowns('actuator/b/kp', model, bounds=(0, 1e12))
    found = by_candidate(model, parameters, [run], np.array([[1e11], [1e11]]))
    assert all(wild for _, wild in found.values())
    assert capfd.readouterr() == ('', '')
    assert not list(tmp_path.iterdir())
    with unlogged(), unlogged():
        assert not mujoco.MjLogConfig.get().logto_file
    assert mujoco.MjLogConfig.get().logto_file
    assert mujoco.MjLogConfig.get().logto_console


@pytest.mark.parametrize(
    ('change', 'complaint'),
    [
        ({'measurements': 'elbw'}, r"Sequence 'run' measures 'elbw'; available: q, v, p\.$"),
        ({'measurements': 'qq'}, r"Sequence 'run' measures 'qq'; nearest: q\.$"),
        ({'commands': 'aa'}, r"Sequence 'run' commands 'aa'; nearest: a\.$"),
    ],
)
def test_a_name_that_the_model_does_not_have_is_an_error(
    change: dict[str, str], complaint: str
) -> None:
    model = arm()
    run = measure(model)
    ((what, name),) = change.items()
    series: Any = (TimeSeries.from_columns([0.0, 1.0], np.zeros(2), [name]),)
    with pytest.raises(FitError, match=complaint):
        Simulator(model, (), [dataclasses.replace(run, **{what: series})], threads=1)


#: A force that jumps where a controller updates its command, and a smooth position.
ROWS = np.column_stack([np.repeat([0.0, 3.0, 1.0, 4.0], 5), np.sin(np.arange(20) / 5)])


@pytest.mark.parametrize('apart', [False, True])
def test_the_slope_of_what_jumps_is_that_of_what_is_compared(*, apart: bool) -> None:
    times = np.linspace(0.0007, 0.0367, 31)
    times = times[:, None] + np.array([0.0, 0.0004]) if apart else times
    step = 1e-9
    later, earlier = (lookup(times + move, TIMESTEP)(ROWS) for move in (step, -step))
    slopes = lookup(times, TIMESTEP).slopes(ROWS) / TIMESTEP
    np.testing.assert_allclose(slopes, (later - earlier) / (2 * step), atol=1e-4)


def test_on_a_row_the_slope_is_the_mean_of_both_sides() -> None:
    slopes = lookup(TIMESTEP * np.arange(1, 19), TIMESTEP).slopes(ROWS)
    np.testing.assert_allclose(slopes, np.gradient(ROWS, axis=0)[1:19])


def test_what_is_smooth_is_as_large_between_rows_as_on_them() -> None:
    rows = np.arange(200) * TIMESTEP
    rate = 0.4 / TIMESTEP
    waves = np.sin(np.outer(rows, rate) + np.array([0.0, 1.0]))
    times = rows[20:-20] + 0.5 * TIMESTEP
    true = np.sin(np.outer(times, rate) + np.array([0.0, 1.0]))
    smooth = lookup(times, TIMESTEP, SmoothLookup)
    assert np.abs(smooth(waves) - true).max() < 1e-3
    assert np.abs(lookup(times, TIMESTEP)(waves) - true).max() > 1e-2
    apart = lookup(np.stack([times, times], axis=1), TIMESTEP, SmoothLookup)
    np.testing.assert_allclose(apart(waves), smooth(waves))
    step = 1e-4 * TIMESTEP
    ahead, behind = (lookup(times + s, TIMESTEP, SmoothLookup)(waves) for s in (step, -step))
    slopes = (ahead - behind) / (2 * step) * TIMESTEP
    np.testing.assert_allclose(smooth.slopes(waves), slopes, atol=1e-6)
