# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Results to render: a rich one as a real calibration gives it, and one with nothing in it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Browser

from builders.bare_results import bare_result as bare
from builders.bare_results import parameter, sensor_error, verdict
from builders.browser import headless
from sysid_ros.alignment.health import FindingKind, HealthFinding, TopicRate
from sysid_ros.config.schema import Role, VerdictKind
from sysid_ros.results.result import (
    CalibrationResult,
    Check,
    Compared,
    Drift,
    FileHash,
    Fold,
    HorizonPoint,
    InferenceSummary,
    Level,
    ModelChange,
    NoiseScale,
    ParameterResult,
    Provenance,
    RecordedBag,
    RecordedSequence,
    SensorError,
    SignalPlot,
    TraceEntry,
)
from sysid_ros.uncertainty.verdicts import Combination

JOINTS = ('shoulder_pan', 'shoulder_lift', 'elbow', 'wrist_1', 'wrist_2', 'wrist_3')
KINDS = (('pos', 'rad', 1.0), ('vel', 'rad/s', 2.5), ('torque', 'N·m', 12.0))
SEQUENCES: tuple[tuple[str, Role], ...] = (
    ('bags/train_slow', 'train'),
    ('bags/train_fast', 'train'),
    ('bags/held', 'validate'),
)
SAMPLES = 1500
NAN = math.nan


def _signal(
    sequence: str, role: Role, joint: int, kind: tuple[str, str, float], seed: int
) -> SignalPlot:
    name, unit, size = kind
    rng = np.random.default_rng(seed)
    times = np.linspace(0, 15, SAMPLES) + 0.001 * rng.random()
    rates = rng.uniform(0.2, 1.4, 4)
    phases = rng.uniform(0, 6, 4)
    clean = size * sum(np.sin(6.28 * r * times + p) for r, p in zip(rates, phases, strict=True)) / 3
    measured = clean + rng.normal(0, 0.01 * size, SAMPLES)
    before = 0.85 * np.interp(times - 0.06, times, clean) + 0.05 * size
    after = clean + 0.004 * size * np.sin(times)
    measured[400:420] = NAN
    lags = np.unique(np.geomspace(1, 300, 20).astype(int))
    return SignalPlot(
        sequence=sequence,
        role=role,
        sensor=f'{JOINTS[joint]}_{name}',
        unit=unit,
        times=tuple(times),
        measured=tuple(measured),
        before=tuple(before),
        after=tuple(after),
        band=tuple(np.full(SAMPLES, 0.03 * size)) if role == 'validate' else (),
        # The same for all sensors of a joint, in the unit of its position.
        command=tuple(np.round(1.1 * np.sin(np.linspace(0, 15, SAMPLES) + joint), 2)),
        command_unit='rad',
        lags=tuple(0.01 * lags),
        autocorrelation=tuple(np.exp(-lags / 40)),
        samples=7500,
    )


def _parameters() -> Iterator[ParameterResult]:
    def made(name: str, unit: str, initial: float, *given: float, **more: Any) -> ParameterResult:
        own = {'unit': unit, 'initial': initial, 'bounds': (0, math.inf), **more}
        return parameter(name, *given, **own)

    values = np.random.default_rng(3).uniform(0.4, 2.4, (len(JOINTS), 3))
    for joint, (armature, damping, friction) in zip(JOINTS, values, strict=True):
        yield made(f'joint/{joint}/armature', 'kg·m²', 0.05, 0.05 * armature, 0.002 * armature)
        yield made(f'joint/{joint}/damping', 'N·m·s/rad', 1.0, damping, 0.034)
        yield made(f'joint/{joint}/frictionloss', 'N·m', 0.0, friction, 0.11 * damping)
    why = 'The data ask for more than the upper bound of 1.2 kg.'
    pushed = {'verdict_kind': VerdictKind.AT_BOUND, 'bounds': (0.2, 1.2), 'explanation': why}
    yield made('body/tool/mass', 'kg', 0.8, 1.2, low=1.131, high=1.2, **pushed)
    why = 'Nothing that was recorded touches the ground; record contacts.'
    blind = {'verdict_kind': VerdictKind.NOT_EXCITED, 'bounds': (0.2, 2), 'explanation': why}
    yield made('geom/foot/friction[0]', '1', 1.0, 1.0, NAN, **blind)
    names = ('actuator/elbow/kp', 'joint/elbow/stiffness')
    mixed = {'verdict_kind': VerdictKind.CONFOUNDED, 'confounded_with': names}
    yield made(names[0], 'N·m/rad', 400, 512.3, 2900.0, **mixed)
    yield made('actuator/elbow/delay', 's', 0.002, 0.011834, 0.00041, bounds=(0, 0.1))


def _inference(parameters: tuple[ParameterResult, ...]) -> InferenceSummary:
    rng = np.random.default_rng(8)
    root = rng.normal(size=(len(parameters), len(parameters) + 4))
    root[3] = root[2] + 0.1 * root[3]
    covariance = root @ root.T
    covariance[-3] = covariance[:, -3] = NAN
    deviation = np.sqrt(np.diag(covariance))
    return InferenceSummary(
        method='cluster-robust over 8 bags',
        samples=270_000,
        effective_samples=1840.0,
        covariance=covariance.tolist(),
        correlation=(covariance / np.outer(deviation, deviation)).tolist(),
        notes=('Residuals are alike over 0.08 s.',),
    )


def _folds(parameters: tuple[ParameterResult, ...]) -> Iterator[Fold]:
    rng = np.random.default_rng(9)
    for sequence, _ in SEQUENCES:
        values = [p.value + np.nan_to_num(p.half_width) * rng.normal() for p in parameters]
        yield Fold(name=sequence, before=17.4, after=1.1, values=tuple(values))


def _horizon() -> Iterator[HorizonPoint]:
    roles: dict[Role, float] = {'train': 1.0, 'validate': 1.1}
    for role, size in roles.items():
        for seconds in (0.1, 0.2, 0.5, 1.0, 2.0, 5.0):
            errors = {'before': size * (1 + 6 * seconds**0.7), 'after': size * (1 + 0.1 * seconds)}
            yield HorizonPoint(seconds=seconds, role=role, **errors)


def _drift() -> Drift:
    friction = {'name': 'joint/elbow/frictionloss', 'before': 3.5, 'after': 5.1, 'deviations': 9.1}
    damping = {'name': 'joint/elbow/damping', 'before': 7.0, 'after': 7.05, 'deviations': 0.6}
    return Drift(
        previous='out/result.json of 2026-01-05',
        statistic=92.4,
        freedom=22,
        p_value=1.3e-10,
        changed=True,
        sentence='joint/elbow/frictionloss changed: 3.5 to 5.1 N·m (+46 %), 9 standard errors.',
        parameters=(Compared(unit='', changed=True, **friction), Compared(unit='', **damping)),
    )


def _errors() -> Iterator[SensorError]:
    for role, factor in (('train', 1.0), ('validate', 1.13)):
        for joint in JOINTS:
            for name, unit, size in KINDS:
                worse = 22 if (joint, name) == ('wrist_3', 'vel') else 1
                before, after = 0.21 * size * factor, 0.012 * size * factor * worse
                inside = 0.947 if role == 'validate' else NAN
                yield sensor_error(f'{joint}_{name}', unit, role, before, after, inside=inside)


def _bag_contents() -> Iterator[TopicRate]:
    for bag, _ in SEQUENCES:
        yield TopicRate(bag, '/joint_states', 7501, 500.04, 0.0113)
        yield TopicRate(bag, '/forward_position_controller/commands', 1500, 100.0, 0.0104)
    yield TopicRate(SEQUENCES[0][0], '/robot_description', 1, NAN, NAN)


@pytest.fixture(scope='session')
def rich_result() -> CalibrationResult:
    """A six-joint arm with 18 sensors in three sequences, one of them held out."""
    plots = [
        _signal(sequence, role, joint, kind, seed=100 * number + 10 * joint + len(kind[0]))
        for number, (sequence, role) in enumerate(SEQUENCES)
        for joint in range(len(JOINTS))
        for kind in KINDS
    ]
    costs = [81234.0 * 0.32**count + 950 for count in range(9)]
    trace = [
        TraceEntry(number=k, cost=cost, step=0.8**k, rollouts=66 * (k + 1), diverged=int(k == 2))
        for k, cost in enumerate(costs)
    ]
    parameters = tuple(_parameters())
    ends = {'initial_cost': costs[0], 'final_cost': costs[-1]}
    counts = {'iterations': 8, 'rollouts': 594, 'seconds': 74.318, 'trace': tuple(trace)}
    changed = {'file': 'models/six_axis_arm.xml', 'line': 12, 'element': f'joint/{JOINTS[0]}'}
    return bare(
        model='models/six_axis_arm.xml',
        parameters=parameters,
        checks=(
            Check(name='held-out error', level=Level.FAIL, passed=True, text='17.4 to 1.07.'),
            Check(
                name='times', level=Level.FAIL, passed=True, text='No other delay explains more.'
            ),
            Check(name='warning', level=Level.NOTE, passed=False, text='Two are confounded.'),
        ),
        held_out_before=17.42,
        held_out_after=1.0694,
        training_before=16.91,
        training_after=1.0122,
        errors=tuple(_errors()),
        noise=tuple(
            NoiseScale(
                sensor=f'{joint}_{name}',
                unit=unit,
                sigma=0.01 * size,
                source='differences of the measured signal' if name != 'torque' else 'mapping file',
                samples=15_000,
                effective=640.0,
                autocorrelation=0.91,
            )
            for joint in JOINTS
            for name, unit, size in KINDS
        ),
        plots=tuple(plots),
        topics=tuple(_bag_contents()),
        health=(
            HealthFinding(
                'bags/train_fast',
                '/joint_states',
                FindingKind.GAP,
                2,
                'longest 0.011 s at 4.0 s, expected 0.002 s between messages',
                spans=((4.0, 4.011), (9.0, 9.0105)),
            ),
            HealthFinding('bags/held', 'effort', FindingKind.DEAD_CHANNEL, 1, 'every sample is 0'),
        ),
        solver=bare().solver.model_copy(update={**ends, **counts}),
        provenance=Provenance(
            created='2026-02-03T14:05:06+00:00',
            versions={'sysid_ros': '0.1.0', 'mujoco': '4.0.0', 'numpy': '2.3.1', 'python': '3.11'},
            files=(
                FileHash(path='models/six_axis_arm.xml', role='model', sha256='ab12' * 16),
                *(
                    FileHash(path=f'{bag}/{bag[5:]}_0.mcap', role=role, sha256=f'{n}9ef' * 16)
                    for n, (bag, role) in enumerate(SEQUENCES)
                ),
            ),
            command='sysid calibrate calibration.yaml --solver.loss linear',
            config={
                'model': 'models/six_axis_arm.xml',
                'bags': [{'path': bag, 'role': role} for bag, role in SEQUENCES],
                'solver': {'loss': 'linear', 'max_iterations': 200},
            },
            input_mode='position commands of 6 actuators, zero-order held',
        ),
        inference=_inference(parameters),
        combinations=(
            Combination(parameters[-2].confounded_with, 'kp + stiffness', 531.2, 529.9, 532.5),
        ),
        folds=tuple(_folds(parameters)),
        horizon=tuple(_horizon()),
        drift=_drift(),
        recordings=tuple(
            RecordedBag(bag=bag, role=role, seconds=15.0, sequences=(whole,))
            for bag, role in SEQUENCES
            for whole in (RecordedSequence(name=bag, begin=0.5, end=15.0),)
        ),
        mjcf='mjcf/six_axis_arm.xml',
        changes=(ModelChange(**changed, attribute='armature', old='0.05', new='0.0712'),),
    )


@pytest.fixture
def bare_result(rich_result: CalibrationResult) -> CalibrationResult:
    """A result with nothing in it that could be left out."""
    provenance = rich_result.provenance.model_copy(
        update={'versions': {}, 'files': (), 'config': {}, 'command': ''}
    )
    unknown = ('held_out_before', 'held_out_after', 'training_before', 'training_after')
    return bare(
        model=rich_result.model,
        checks=verdict('Nothing was identified.', accepted=False),
        solver=rich_result.solver.model_copy(update={'trace': (), 'final_cost': NAN}),
        provenance=provenance,
        **dict.fromkeys(unknown, NAN),
    )


@pytest.fixture(scope='package')
def browser() -> Iterator[Browser]:
    """A headless Chromium without a network; see ``builders.browser`` for what to do with it."""
    with headless() as running:
        yield running
