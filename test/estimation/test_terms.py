# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What terms that a model may lack do to residuals, against parameters that do the same."""

from __future__ import annotations

import dataclasses

import mujoco
import numpy as np
import pytest

from builders.models import rod
from builders.trajectories import measure, sweep
from sysid_ros.estimation.residuals import Residuals
from sysid_ros.inference.model_errors import Term, TermKind, terms
from sysid_ros.model.unknown import make_unknowns
from sysid_ros.rollout.simulation import Simulator
from sysid_ros.signals.timeseries import SignalType, TimeSeries

ARM = rod(timestep=0.002, damping=0.3, armature=0.01)
NOISE = {'q': 0.01, 'v': 0.1}


@pytest.fixture(scope='module')
def made() -> tuple[Residuals, np.ndarray, list[Term]]:
    """Residuals of two runs of a servo, one of them wider, by five parameters, and all terms."""
    model = mujoco.MjModel.from_xml_string(ARM)
    unknowns = [
        u
        for path in (
            'option/gravity[0]',
            'actuator/a/biasprm[0]',
            'body/upper/mass',
            'actuator/*/delay',
            'joint/j/stiffness',
        )
        for u in make_unknowns(path, model, bounds=(-100, 100) if 'gravity' in path else None)
    ]
    runs = [
        measure(model, name=str(k), commands=sweep('a', amplitude=1.0 + k), noise=NOISE, seed=k)
        for k in range(2)
    ]
    residuals = Residuals(Simulator(model, unknowns, runs, threads=1), NOISE)
    x = np.array([unknown.nominal for unknown in unknowns])
    return residuals, x, terms(residuals, x)


@pytest.mark.parametrize(
    ('lack', 'parameter'),
    [
        (TermKind.TILT, 'option/gravity[0]'),
        (TermKind.ASYMMETRY, 'actuator/a/biasprm[0]'),
        (TermKind.PAYLOAD, 'body/upper/mass'),
        (TermKind.DELAY, 'actuator/a/delay'),
        (TermKind.SPRING, 'joint/j/stiffness'),
    ],
)
def test_a_term_does_what_the_parameter_does(
    made: tuple[Residuals, np.ndarray, list[Term]], lack: TermKind, parameter: str
) -> None:
    residuals, x, every = made
    names = [unknown.name for unknown in residuals.unknowns]
    steps = np.full(len(x), 1e-5)
    change = residuals.step_changes(x, steps).changes[:, names.index(parameter)]
    alike = [
        abs(float(change @ term.change))
        / float(np.linalg.norm(change) * np.linalg.norm(term.change))
        for term in every
        if term.lack is lack
    ]
    # Between samples on the grid, a command that comes later is not quite a mean of two.
    assert max(alike) > (0.99 if lack is TermKind.DELAY else 0.999)


def test_each_joint_has_each_term_and_all_change_something(
    made: tuple[Residuals, np.ndarray, list[Term]],
) -> None:
    residuals, _, every = made
    assert {term.lack for term in every} == set(TermKind)
    assert {term.where for term in every if term.lack is TermKind.STRIBECK} == {'j'}
    for term in every:
        assert term.change.shape == residuals.samples.time.shape
        assert np.any(term.change != 0)


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
    # Nobody knows of the link.
    elastic = dataclasses.replace(stiff, measurements=elastic.measurements)
    residuals = Residuals(Simulator(model, unknowns, [elastic], threads=1), NOISE)
    x = np.array([unknown.nominal for unknown in unknowns])
    other = Residuals(Simulator(model, unknowns, [stiff], threads=1), NOISE)
    # Residuals of a model that lacks nothing, less those of one that lacks this.
    found = (other(x[None]) - residuals(x[None]))[:, 0]
    alike = {}
    for term in terms(residuals, x):
        length = np.linalg.norm(found) * np.linalg.norm(term.change)
        alike[term.lack] = float(found @ term.change) / length
    assert alike[TermKind.ELASTICITY] > 0.9
    assert max(alike, key=lambda lack: abs(alike[lack])) is TermKind.ELASTICITY
