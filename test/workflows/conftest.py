# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A simulated pendulum whose recordings are there without a bag."""

from __future__ import annotations

from pathlib import Path

import mujoco
import numpy as np
import pytest

from builders.trajectories import measure
from sysid_ros.alignment import Alignment
from sysid_ros.config.schema import BagSelection, CalibrationConfig, ParameterConfig, SolverConfig
from sysid_ros.model.description import Description
from sysid_ros.model.loading import RobotModel
from sysid_ros.model.targets import Scope, make_unknowns
from sysid_ros.signals import SignalType, TimeSeries, Trajectory
from sysid_ros.workflows.problem import CalibrationBag, Problem

PENDULUM = """
<mujoco>
  <option timestep=".005" integrator="implicitfast"/>
  <worldbody><body name="bob">
    <joint name="j" axis="0 1 0" damping="{damping}" frictionloss="{friction}"/>
    <geom size=".05" pos="0 0 -.3" mass="{mass}"/></body></worldbody>
  <actuator>{actuator}</actuator>
  <sensor><jointpos name="q" joint="j"/><jointvel name="v" joint="j"/></sensor>
</mujoco>
"""
MOTOR = '<motor name="m" joint="j"/>'
NOISE = {'q': 1e-3, 'v': 1e-2}


class Workshop:
    """Makes recordings of pendulums, and problems from them."""

    config = CalibrationConfig(
        model=Path('pendulum.xml'),
        bags=(BagSelection(path='bag'),),
        parameters=(ParameterConfig(target='joint/j/damping'),),
        solver=SolverConfig(threads=1),
    )

    def spec(
        self,
        damping: float = 0.1,
        mass: float = 1.0,
        friction: float = 0.0,
        actuator: str = MOTOR,
    ) -> mujoco.MjSpec:
        """Return a pendulum."""
        text = PENDULUM.format(damping=damping, mass=mass, friction=friction, actuator=actuator)
        return mujoco.MjSpec.from_string(text)

    def sequence(
        self,
        spec: mujoco.MjSpec,
        name: str,
        seed: int,
        *,
        noise: float = 1.0,
        seconds: float = 3.0,
        start: float = 0.3,
    ) -> Trajectory:
        """Record a pendulum that a smooth random torque drives."""
        rng = np.random.default_rng(seed)
        told = np.arange(0, seconds, 0.01)
        torque = np.zeros(len(told))
        for frequency in (0.5, 0.9, 1.7):
            size, phase = rng.uniform(0.3, 0.9), rng.uniform(0, 2 * np.pi)
            torque += size * np.sin(2 * np.pi * frequency * told + phase)
        return measure(
            spec.compile(),
            name=name,
            times=np.arange(0, seconds, 0.02),
            commands=TimeSeries.from_columns(told, torque[:, None], ['m'], SignalType.MjCtrl),
            start=([start], [0.0]),
            noise={sensor: noise * sigma for sensor, sigma in NOISE.items()},
            seed=rng,
        )

    def problem(
        self,
        spec: mujoco.MjSpec,
        targets: tuple[str, ...],
        *sequences: Trajectory,
        held_out: int = 0,
    ) -> Problem:
        """Return a problem with a bag per sequence, the last ones for validation."""
        model = spec.compile()
        training = len(sequences) - held_out
        recordings = tuple(
            CalibrationBag(
                Path(sequence.name),
                'train' if place < training else 'validate',
                Alignment(sequence.name, (sequence,), (), (), (), ()),
            )
            for place, sequence in enumerate(sequences)
        )
        parameters = tuple(
            unknown
            for target in targets
            for unknown in make_unknowns(target, Scope(model, spec, sequences))
        )
        source = RobotModel(Description(Path('bob.xml')), spec)
        return Problem(spec, model, recordings, parameters, source)


@pytest.fixture
def workshop() -> Workshop:
    """Return what makes recordings of pendulums."""
    return Workshop()
