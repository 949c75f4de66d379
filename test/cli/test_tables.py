# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The tables of all commands on terminals of 60, 80 and 120 columns: no word is broken."""

from __future__ import annotations

import math
import re
import tempfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from builders.fleet_results import robot_result
from builders.histories import keep, make_result
from builders.recorded_pendulum import FOLDER
from sysid_ros.alignment import align, map_columns
from sysid_ros.alignment.health import FindingKind, HealthFinding
from sysid_ros.bags import read_bag
from sysid_ros.cli import (
    compare,
    console,
    excite,
    export_actuator,
    fit_actuator,
    fleet,
    history,
    inspect,
    outcome,
    plot_actuator,
    predict,
    preflight,
    profile,
)
from sysid_ros.config.calibration import VerdictKind
from sysid_ros.excitation.design import Design
from sysid_ros.excitation.limits import Usage
from sysid_ros.inspection.inspection import inspect as look_into
from sysid_ros.inspection.lag import Lag
from sysid_ros.model.loading import compile_spec, load_spec
from sysid_ros.model.unknown import Scope, make_unknowns
from sysid_ros.pipeline.missing import Missing, Trial, Value
from sysid_ros.pipeline.models import HeldOut, ModelComparison, ModelScore
from sysid_ros.pipeline.predicting import JointPrediction
from sysid_ros.pipeline.preflight import JointMotion, PredictedParameter, Preflight
from sysid_ros.report.alignment import print_alignment
from sysid_ros.report.tables import WIDE, print_findings, print_table
from sysid_ros.results.case import Case, CaseKind
from sysid_ros.results.fleet import summarise_fleet
from sysid_ros.results.history import Entry, read_history
from sysid_ros.results.result import CalibrationResult
from sysid_ros.servos.formats.mjcf import Nearness
from sysid_ros.servos.pictures import Predictions
from sysid_ros.servos.session.choice import GroupError, ServoComparison, ServoScore

if TYPE_CHECKING:
    from collections.abc import Callable

JOINTS = ('shoulder_pan_joint', 'shoulder_lift_joint', 'elbow_joint')
BAGS = ('2026-11-25_slow_sines', '2026-11-26_fast_sines')
LOGS = ('lift_and_drop_m0.15_l0.1_kp400', 'sin_time_square_m0.3_l0.13_kp200')
NAN = math.nan


def _calibrate() -> None:
    result = CalibrationResult.load(FOLDER / 'baseline.json')
    console.print_result(console.make_console(), result)


def _findings() -> None:
    kinds = (FindingKind.DERIVED_VELOCITY, FindingKind.CLOCK_JUMP, FindingKind.UNMAPPED)
    found = [
        HealthFinding(bag, joint, kind, 3, 'no velocity is measured; a slope takes its place')
        for bag in BAGS
        for joint in JOINTS
        for kind in kinds
    ]
    print_findings(console.make_console(), found)


def _preflight() -> None:
    parameters = tuple(
        PredictedParameter(
            f'joint/{joint}/{kind}',
            'N·m·s/rad',
            12.25,
            0.0625,
            'identified',
            '',
            VerdictKind.IDENTIFIED,
        )
        for joint in JOINTS
        for kind in ('damping', 'frictionloss')
    )
    found = Preflight(
        parameters=parameters,
        combinations=(),
        sources=(),
        noise={},
        joints=tuple(
            JointMotion(bag, joint, Lag(0.05, 0.001, 0.9, 1.0), None)
            for bag in BAGS
            for joint in JOINTS
        ),
        saturations=(),
        health=(),
        diverged=(),
        dead=(),
        samples=1234,
        rollouts=9,
        seconds=0.5,
    )
    preflight.print_preflight(console.make_console(), found)


def _inspect() -> None:
    model = compile_spec(load_spec(FOLDER / 'arm.xml'), FOLDER / 'arm.xml')
    found = look_into(read_bag(FOLDER / 'train'), model)
    shown = console.make_console()
    inspect._print_topics(shown, found)
    inspect._print_joints(shown, found)


def _convert() -> None:
    model = compile_spec(load_spec(FOLDER / 'arm.xml'), FOLDER / 'arm.xml')
    bag = read_bag(FOLDER / 'train')
    print_alignment(
        console.make_console(), align(bag, model, map_columns(bag, model, 'auto'), 'auto')
    )


def _check() -> None:
    cases = [
        Case(CaseKind.ERROR, f'{joint}_position, whole recording', bag, 0.0123456, 'rad', 0.01, 0.1)
        for joint in JOINTS
        for bag in BAGS
    ]
    failed = {'passed': False, 'sentence': 'is above its limit, and above the baseline'}
    cases.append(cases[0]._replace(limit=0.001, **failed))
    outcome._print_cases(console.make_console(), 'Check of arm.xml', cases)


def _compare() -> None:
    models = tuple(
        ModelScore(
            f'calibration.yaml without {pattern}',
            12,
            1.2345,
            parts,
            1.23456,
            0.5,
            0.25,
            1e3,
            1e3,
            adequate=True,
        )
        for pattern in ('joint/*/frictionloss', 'joint/*/armature')
        for parts in [tuple(HeldOut(bag, 1.23456) for bag in BAGS)]
    )
    found = ModelComparison(models, models[0].name, 'it has the least held-out error', 5e3)
    compare.print_models(console.make_console(), found)


def _missing() -> None:
    value = Value('tendon/elbow_play/play', 0.02, (1e-5, 0.5), log=False)
    title = "backlash of 'shoulder_lift_joint', encoder on the link"
    trial = Trial(title, 'backlash', JOINTS[1], 'link', (value,), 0.9, 0.8, 0.5, 0.1, 1e-5)
    compare.print_missing(
        console.make_console(), Missing(None, (trial,), 6, 1.0, 1.2, 'none helps', (), {})
    )


def _fleet() -> None:
    outcomes = {
        f'robot_{n}': robot_result({f'joint/{joint}/damping': (value, 0.02) for joint in JOINTS})
        for n, value in enumerate((1.0, 1.1, 0.9, 1.05, 0.95, 9.0))
    }
    fleet.print_fleet(console.make_console(), summarise_fleet(outcomes, 'sysid fleet', {}))


def _compare_actuators() -> None:
    groups = tuple(GroupError(log, 4, 0.0123456) for log in LOGS)
    models = tuple(
        ServoScore(
            name,
            {},
            9,
            0.012,
            groups,
            0.0123,
            0.01,
            0.001,
            2e-4,
            123.4,
            234.5,
            adequate=True,
            seconds=12.3,
        )
        for name in ('m1', 'm2', 'm3', 'm4', 'm5', 'm6')
    )
    found = ServoComparison('xl330', 'load', 'of which there are several', models, 'm4', 'x', 9, ())
    fit_actuator.print_servos(console.make_console(), found)


def _export_actuator() -> None:
    export_actuator._print_nearness([Nearness(log, 0.01, NAN, 0.0123, 0.0234) for log in LOGS])


def _plot_actuator() -> None:
    names = ('params_m1', 'params_m4', 'params_m6')
    plot_actuator._print_errors(Predictions(names, LOGS, (), np.full((3, 2), 0.0123)))


def _predict() -> None:
    values = np.ones((4, 3, 3))
    stamps = np.arange(4)
    slides = (False,) * 3
    found = JointPrediction(JOINTS, slides, stamps, stamps, values, 1.1 * values, 1.2 * values, ())
    predict._print_errors(found, predict._errors(found))


def _excite() -> None:
    spec = load_spec(FOLDER / 'arm.xml')
    scope = Scope(compile_spec(spec, FOLDER / 'arm.xml'), spec)
    unknowns = tuple(make_unknowns('joint/*/damping', scope))
    half = np.full(len(unknowns), 0.0123)
    usage = tuple(Usage('velocity', joint, -2.0, 2.0, 0.5, 0.9) for joint in JOINTS)
    motion: Any = None
    found = Design(motion, unknowns, half, usage, math.inf, (), 7)
    excite._print(console.make_console(), found, collide=True)


@cache
def _entries() -> tuple[Entry, ...]:
    with tempfile.TemporaryDirectory() as folder:
        for values in ((), (0.05, 0.7, 4.2)):
            keep(Path(folder), make_result(*values))
        return read_history(Path(folder))


def _history() -> None:
    history.print_history(console.make_console(), Path('out'), _entries())


def _rollback() -> None:
    before, now = make_result(), make_result(0.05, 0.7, 4.2)
    print_table(console.make_console(), 'Parameters', history._COLUMNS, history._rows(before, now))


def _profile() -> None:
    seen = profile.Profile()
    seen._seconds.update(dict.fromkeys(profile._PHASES, 12.3))
    seen.show(console.make_console())


TABLES = [
    _calibrate,
    _compare,
    _compare_actuators,
    _convert,
    _check,
    _excite,
    _export_actuator,
    _findings,
    _fleet,
    _history,
    _inspect,
    _missing,
    _plot_actuator,
    _predict,
    _preflight,
    _profile,
    _rollback,
]


@pytest.mark.slow
@pytest.mark.parametrize('show', TABLES)
def test_no_word_of_a_table_is_broken_or_beyond_the_edge(
    show: Callable[[], None], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    def words(text: str) -> list[str]:
        return re.split(r'[\s,:]+', text)

    def printed(width: int) -> str:
        monkeypatch.setattr('sysid_ros.cli.console.WIDE', width)
        show()
        return capsys.readouterr().out

    whole = {part for word in words(printed(WIDE)) for part in (word, *word.split('/'))}
    for width in (60, 80, 120):
        text = printed(width)
        assert max(len(line.rstrip()) for line in text.splitlines()) <= width
        told = re.sub(r'\([^()]*(\([^()]*\))?[^()]*: from\s\d+\scolumns\son\)', '', text)
        assert {word for word in words(told) if '/*/' not in word} <= whole
