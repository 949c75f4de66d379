# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Fits to what a joint_trajectory_controller asked for, whose updates nobody recorded."""

from __future__ import annotations

import dataclasses

import mujoco
import numpy as np
import pytest
from numpy.typing import NDArray

from builders.trajectories import measure
from sysid_ros.fit.fit import FitOptions
from sysid_ros.fit.nuisances import command_timings
from sysid_ros.fit.residuals import Residuals
from sysid_ros.fit.windows import Cutter
from sysid_ros.model.targets import Scope, make_unknowns
from sysid_ros.signals import SignalType, TimeSeries, Trajectory
from sysid_ros.simulation.prediction import make_simulator
from sysid_ros.uncertainty.inference import identify

ARM = """
<mujoco>
  <option timestep=".002" integrator="implicitfast"/>
  <worldbody><body>
    <joint name="j" axis="0 1 0" damping="1" armature=".1"/>
    <inertial mass="1" pos=".15 0 0" diaginertia=".01 .01 .01"/>
  </body></worldbody>
  <actuator><position name="a" joint="j" kp="120"/></actuator>
  <sensor>
    <jointpos name="q" joint="j"/><jointvel name="v" joint="j"/><actuatorfrc name="e" actuator="a"/>
  </sensor>
</mujoco>
"""
TRUTH = {'joint/j/armature': 0.14, 'joint/j/damping': 1.6}
UPDATES = ('update phase', 'update ripple', 'update blur')
NOISE = {'q': 1e-4, 'v': 5e-3, 'e': 0.05}


def asked(times: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return what the trajectory says at (n,) times, rad."""
    return np.asarray(0.5 * np.sin(2 * np.pi * times) + 0.2 * np.sin(5 * np.pi * times))


def recorded(model: mujoco.MjModel, period: float, late: float, seed: int) -> Trajectory:
    """Return a run whose servo has a new command so late after each update, in the bag the path."""
    updates = np.arange(-10, round(2.0 / period) + 1) * period + late
    held = TimeSeries.from_columns(
        updates, asked(updates + period / 2)[:, None], ['a'], SignalType.MjCtrl
    )
    speed = float(np.diff(asked(np.array([-1e-6, 1e-6])))[0] / 2e-6)
    run = measure(
        model,
        TRUTH,
        times=np.arange(0.0, 2.0, 0.004),
        commands=held,
        start=([0.0], [speed]),
        noise=NOISE,
        seed=seed,
    )
    times = np.arange(-0.1, 2.1, 0.002)
    path = TimeSeries.from_columns(times, asked(times)[:, None], ['a'], SignalType.MjCtrl)
    return dataclasses.replace(run, commands=(path,), interpolated=frozenset({'a'}))


@pytest.mark.slow
@pytest.mark.parametrize('late', [0.0, 0.0021])
@pytest.mark.parametrize('period', [0.001, 0.002, 0.004, 0.01])
def test_when_a_controller_updates_bends_no_parameter(period: float, late: float) -> None:
    model = mujoco.MjModel.from_xml_string(ARM)
    parameters = [item for path in TRUTH for item in make_unknowns(path, model, bounds=(0, 5))]
    run = recorded(model, period, late, seed=round(1e6 * (period + late)))
    found = identify(model, parameters, [run], options=FitOptions(threads=1))
    errors = np.sqrt(np.diag(found.inference.covariance))[:2]
    off = (found.solution.x - list(TRUTH.values())) / errors
    assert np.abs(off).max() < 3.0
    # Not because nothing is known any more.
    assert np.all(errors < 1e-3 * np.array(list(TRUTH.values())))
    # What is slower than the measurements is noise of the effort to them.
    if period <= 0.004:
        assert found.noise['e'] == pytest.approx(NOISE['e'], rel=0.1)


@pytest.mark.slow
def test_what_the_user_says_of_a_controller_has_no_second_unknown() -> None:
    model = mujoco.MjModel.from_xml_string(ARM)
    run = recorded(model, 0.004, 0.001, seed=0)
    damping = make_unknowns('joint/j/damping', model, bounds=(0, 5))
    unsaid = [f'{what} in run' for what in ('arrival offset', *UPDATES)]
    assert [unknown.name for unknown in command_timings([run])] == unsaid
    said = make_unknowns('sequence/run/update_phase', Scope(model, sequences=[run]))
    found = identify(model, [*damping, *said], [run], options=FitOptions(threads=1))
    unsaid.remove('update phase in run')
    assert [unknown.name for unknown in found.unknowns[2:5]] == unsaid
    assert list(found.offsets) == ['run']


@pytest.mark.parametrize(
    ('measured', 'updates'),
    [
        ([0.0, 0.004, 0.008, 0.016], [-0.004, 0.0, 0.004, 0.008, 0.012, 0.016]),
        ([0.0, 0.02, 0.04], [-0.01, 0.0, 0.01, 0.02, 0.03, 0.04]),
        ([0.5], [0.49, 0.5, 0.51]),
    ],
    ids=['one is missing', 'every second', 'only one'],
)
def test_updates_are_taken_to_come_at_measurements(
    measured: list[float], updates: list[float]
) -> None:
    run = measure(mujoco.MjModel.from_xml_string(ARM), times=np.array(measured))
    np.testing.assert_allclose(run.updates, updates, atol=1e-12)


def test_windows_of_a_run_keep_where_messages_were_replaced() -> None:
    model = mujoco.MjModel.from_xml_string(ARM)
    run = recorded(model, 0.004, 0.001, seed=0)
    run = dataclasses.replace(run, replaced=np.array([[0.8, 0.9]]))
    unknowns = (*make_unknowns('joint/j/damping', model), *command_timings([run]))
    with make_simulator(model, unknowns, [run], 1) as simulator:
        windows = Cutter(Residuals(simulator, NOISE)).cut(0.5)
    assert windows is not None
    begins = [(window.origin_ns - run.origin_ns) / 1e9 for window in windows.sequences]
    assert len(begins) == 3
    for begin, window in zip(begins, windows.sequences, strict=True):
        np.testing.assert_allclose(window.replaced, [[0.8 - begin, 0.9 - begin]])
