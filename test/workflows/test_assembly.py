# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What a result says of a fit whose data do not come from a bag."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import mujoco
import numpy as np
import pytest
from numpy.typing import NDArray

from sysid_ros.alignment import Alignment
from sysid_ros.config.schema import BagSelection, CalibrationConfig, ParameterConfig
from sysid_ros.fit.fit import FitOptions
from sysid_ros.fit.nuisances import FARTHEST
from sysid_ros.model.description import Description
from sysid_ros.model.loading import RobotModel
from sysid_ros.model.targets import Scope, make_unknowns
from sysid_ros.results.result import CalibrationResult, EstimatorKind
from sysid_ros.signals import SignalType, TimeSeries, Trajectory
from sysid_ros.signals.rotations import rotation_vectors
from sysid_ros.uncertainty.inference import identify
from sysid_ros.workflows.estimators import Estimated
from sysid_ros.workflows.predictions import Fitted, simulate
from sysid_ros.workflows.problem import CalibrationBag, Problem
from sysid_ros.workflows.writing import assemble

#: A pendulum on a ball joint with a motor about x, seen by an inertial unit and a camera.
MODEL = """
<mujoco>
  <option timestep="0.002"/>
  <worldbody>
    <body name="bob"><joint name="ball" type="ball" damping=".05"/>
      <geom type="capsule" fromto="0 0 0 .1 .05 -.3" size=".02" mass=".5"/>
      <site name="unit" pos="0 0 -.3"/></body>
  </worldbody>
  <actuator><motor name="a" joint="ball" gear="1 0 0"/></actuator>
  <sensor>
    <gyro name="gyro" site="unit"/>
    <framequat name="camera" objtype="body" objname="bob"/>
    <framepos name="place" objtype="site" objname="unit"/>
    <clock name="clock"/>
  </sensor>
</mujoco>
"""
#: The last is an orientation, which is a series of its own.
SENSORS = {'gyro': 3, 'place': 3, 'camera': 3}
NOISE = {'gyro': 0.02, 'place': 1e-4, 'camera': 1e-3}
TRUTH = {'joint/ball/damping': 0.08}
PARAMETERS = ('joint/ball/damping',)


def _sequence(name: str, seed: int) -> Trajectory:
    """Step a model with the true values; all sensors in one series at 100 Hz."""
    model = mujoco.MjModel.from_xml_string(MODEL)
    model.dof_damping[:] = TRUTH['joint/ball/damping']
    data = mujoco.MjData(model)
    data.qvel[:] = [1.0, 2.0, 0.5]
    start = data.qpos.copy(), data.qvel.copy()
    rng = np.random.default_rng(seed)
    times = np.arange(0.0, 2.0, 0.05)
    commands = 0.3 * np.sin(3 * times + seed)
    rows = []
    for step in range(1000):
        data.ctrl[0] = commands[step // 25]
        mujoco.mj_step(model, data)  # sensors of the state before the step
        if step % 5 == 0:
            rows.append([data.sensor(sensor).data.copy() for sensor in SENSORS])
    columns = [np.array([row[k] for row in rows]) for k in range(len(SENSORS))]
    columns[-1] = rotation_vectors(columns[-1])
    noisy = [
        values + sigma * rng.standard_normal(values.shape)
        for values, sigma in zip(columns, NOISE.values(), strict=True)
    ]
    stamps = 0.01 * np.arange(len(rows))
    kind = SignalType.MjSensor
    first = {'gyro': (kind, np.arange(3)), 'place': (kind, np.arange(3, 6))}
    measured = (
        TimeSeries(stamps, np.concatenate(noisy[:2], axis=1), first),
        TimeSeries(stamps, noisy[2], {'camera': (kind, np.arange(3))}),
    )
    return Trajectory(
        name,
        0,
        *start,
        (TimeSeries.from_columns(times, commands[:, None], ['a'], SignalType.MjCtrl),),
        measured,
    )


@pytest.fixture
def result_of(tmp_path: Path) -> Callable[..., CalibrationResult]:
    """Return a function that fits sequences, the last of them held out, and builds the result."""
    path = tmp_path / 'bob.xml'
    path.write_text(MODEL)

    def run(
        *sequences: Trajectory, errors: dict[str, tuple[NDArray[np.float64], ...]] | None = None
    ) -> CalibrationResult:
        spec = mujoco.MjSpec.from_file(str(path))
        model = spec.compile()
        recordings = tuple(
            CalibrationBag(
                path,
                'validate' if sequence is sequences[-1] else 'train',
                Alignment(sequence.name, (sequence,), (), (), (), (), places=place, seconds=2.5),
            )
            for sequence in sequences
            for place in [((sequence.name, (0.5, 2.5)),)]
        )
        parameters = tuple(u for p in PARAMETERS for u in make_unknowns(p, Scope(model, spec)))
        found = identify(spec, parameters, sequences[:-1], options=FitOptions(threads=1))
        found = dataclasses.replace(found, arrival_errors=errors or {})
        config = CalibrationConfig(
            model=path,
            bags=(BagSelection(path='b'),),
            parameters=tuple(ParameterConfig(target=target) for target in PARAMETERS),
        )
        source = RobotModel(Description(path), spec)
        problem = Problem(spec, model, recordings, parameters, source)
        fitted = Fitted(found, problem, problem)
        table = simulate(fitted.predictor(1), found.as_arrived(sequences, offsets=True))
        seen = Estimated(problem, EstimatorKind.SIMULATION)
        return assemble(config, '', seen, fitted, table)

    return run


@pytest.mark.slow
def test_sensors_with_several_values_are_shown_by_component(
    result_of: Callable[..., CalibrationResult],
) -> None:
    result = result_of(_sequence('train', 1), _sequence('held', 2))
    assert {p.name: pytest.approx(p.value, rel=0.02) for p in result.parameters} == TRUTH
    labels = [f'{sensor}[{place}]' for sensor, width in SENSORS.items() for place in range(width)]
    assert [error.sensor for error in result.errors] == labels * 2
    assert [plot.sensor for plot in result.plots] == labels * 2
    units = dict.fromkeys(labels[:3], 'rad/s') | dict.fromkeys(labels[3:6], 'm')
    units |= dict.fromkeys(labels[6:], 'rad')
    assert {error.sensor: error.unit for error in result.errors} == units
    assert {plot.sensor: plot.unit for plot in result.plots} == units
    assert {s.sensor: s.sigma for s in result.noise} == pytest.approx(NOISE, rel=0.1)
    for error in result.errors:
        assert error.after == pytest.approx(NOISE[error.sensor[:-3]], rel=0.2)
    assert result.held_out_after == pytest.approx(1.0, rel=0.1)
    measured = _sequence('held', 2).measurements[1].data
    (plot,) = (p for p in result.plots if (p.sequence, p.sensor) == ('held', 'camera[2]'))
    np.testing.assert_allclose(plot.measured, measured[:, 2], rtol=1e-5)
    assert not any(finding.kind == 'missing values' for finding in result.health)


@pytest.mark.slow
def test_commands_as_late_as_a_fit_lets_them_be_are_named_and_reserved(
    result_of: Callable[..., CalibrationResult],
) -> None:
    errors = np.zeros(40)
    errors[[7, 20, 30]] = FARTHEST, -FARTHEST, 0.9 * FARTHEST
    sequences = _sequence('train', 1), _sequence('held', 2)
    result = result_of(*sequences, errors={'train': (errors,)})
    (finding,) = (f for f in result.health if f.kind == 'late commands')
    assert (finding.bag, finding.count) == ('train', 2)
    assert finding.detail.startswith('at 0.35 s, 1.00 s from the start: 25 ms')
    # Of the bag, in which the sequence began half a second late.
    assert finding.spans == ((0.85, 0.85), (1.5, 1.5))
    assert [(bag.bag, bag.role) for bag in result.recordings] == [
        ('train', 'train'),
        ('held', 'validate'),
    ]
    (place,) = result.recordings[0].sequences
    assert (place.name, place.begin, place.end) == ('train', 0.5, 2.5)
    assert [r.name for r in result.reservations if 'late commands' in r.text] == ['recordings']


@pytest.mark.slow
def test_a_sensor_that_never_moves_is_a_finding(
    result_of: Callable[..., CalibrationResult],
) -> None:
    sequences = []
    for name in ('train', 'held'):
        sequence = _sequence(name, 1)
        series, camera = sequence.measurements
        data = np.concatenate([series.data, np.full((len(series), 1), 3.0)], axis=1)
        mapping = {**series.signal_mapping, 'clock': (SignalType.MjSensor, np.array([6]))}
        stuck = TimeSeries(series.times, data, mapping)
        sequences.append(dataclasses.replace(sequence, measurements=(stuck, camera)))
    result = result_of(*sequences)
    (finding,) = (f for f in result.health if f.kind == 'dead channel')
    assert (finding.bag, finding.subject, finding.count) == ('train', 'clock', 200)
    assert 'clock' not in {scale.sensor for scale in result.noise}
    assert result.training_after == pytest.approx(1.0, rel=0.1)
