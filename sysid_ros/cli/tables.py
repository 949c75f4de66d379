# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What commands print of what they found, where that is not in the report as well."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from sysid_ros.cli.console import say
from sysid_ros.errors import how_many, listed
from sysid_ros.excitation.design import Design
from sysid_ros.pipeline.compare import ModelComparison
from sysid_ros.pipeline.fleet import FleetResult
from sysid_ros.pipeline.init import CalibrationProposal
from sysid_ros.pipeline.predicting import NOMINAL, PREDICTED, RESIDUAL, JointPrediction
from sysid_ros.report.numbers import interval, padded, rounded, significant
from sysid_ros.report.tables import LiteralConsole, print_table
from sysid_ros.results.comparison import Entry
from sysid_ros.servos.bench.calibration import LawComparison
from sysid_ros.servos.pictures import Predictions

#: Parts of limits are shown from here on; the others are far away.
_SHOWN_LIMITS = 12


def print_proposal(found: CalibrationProposal, mapping: str) -> None:
    """Say what was chosen; ``mapping`` is the name of the mapping file."""
    say(f'model     {found.model}')
    for note in found.model_notes:
        say(f'          {note}')
    for bag in found.bags:
        if bag.role is None:
            say(f'unusable  {bag.path}: {bag.why}')
        else:
            say(f'{bag.role:9} {bag.path}: {bag.summary}')
            for finding in bag.findings:
                say(f'            {finding}')
    _print_mapping(found, mapping)
    _print_targets(found)


def _print_mapping(found: CalibrationProposal, file: str) -> None:
    if found.mapping is None:
        say('mapping   auto: the names of recordings and model agree')
    else:
        pairs = found.mapping.pairs
        doubtful = [pair for pair in pairs if not pair.confident]
        certain = len(pairs) - len(doubtful)
        say(f'mapping   {file}: {certain} of {len(pairs)} pairs are certain')
        for pair in doubtful:
            say(f'            look at {pair.role.value} {pair.name}: {pair.reason}')
    for question in found.questions:
        say(f'            {question}')


def _print_targets(found: CalibrationProposal) -> None:
    say(f'identify  {how_many(found.chosen, "parameter")} of {len(found.targets)}')
    for reason in dict.fromkeys(item.left_out for item in found.targets if item.left_out):
        own = [item.target for item in found.targets if item.left_out == reason]
        say(f'            left out {listed(own)}: {reason}')
    for note in found.notes:
        say(note)
    if found.problem:
        say(f'The first steps of a fit could not be taken: {found.problem}')


def print_next_commands(found: CalibrationProposal, output: Path) -> None:
    """Say what to type next."""
    trained = found.of_role('train')
    if not found.chosen:
        _print_record(found, trained[0].path)
        return
    if not found.of_role('validate'):
        say('Nothing is held out: record another motion, and repeat sysid init with both:')
        say(f'  {_record(str(trained[0].path.with_name("validate_1")))}')
    file = shlex.quote(str(output))
    say('Correct that in the file, then:' if found.problem else 'Next:')
    say(f'  sysid preflight {file}')
    say(f'  sysid calibrate {file}')


def _print_record(found: CalibrationProposal, bag: Path) -> None:
    """Say how to record what tells more."""
    joints = [item.attribute for item in found.targets if item.target.startswith('joint/')]
    asked = ' '.join(f"--for 'joint/*/{name}'" for name in dict.fromkeys(joints or ['armature']))
    model = shlex.quote(str(found.model))
    say('These recordings tell nothing of this model. Name the right model, or record a motion')
    say('that tells more, of 10 s or longer, and repeat sysid init with it:')
    say(f'  sysid excite {model} {asked} -o motion.csv')
    say(f'  {_record(str(bag.with_name("train_2")))}')
    say(f'  ros2 launch sysid_ros excite.launch.xml model:={model} motion:=motion.csv')


def _record(bag: str) -> str:
    return f'ros2 launch sysid_ros record.launch.xml output:={shlex.quote(bag)}'


def print_design(console: LiteralConsole, found: Design, *, collide: bool) -> None:
    """Print what a motion tells, and how near it comes to limits."""
    rows = [
        (
            parameter.name,
            significant(parameter.nominal),
            f'± {significant(float(half))}',
            parameter.unit,
        )
        for parameter, half in zip(found.parameters, found.half, strict=True)
    ]
    columns = ('parameter', '>nominal', '>95 % interval', 'unit')
    print_table(console, 'Predicted intervals', columns, rows)
    for item in found.unexcited:
        console.print(f'cannot be told by any motion: {item.parameter.name} ({item.reason})')
    order = sorted(found.usage, key=lambda use: -use.part)
    limits = [
        (
            f'{use.what} of {use.name}',
            *(significant(end) for end in (use.low, use.high)),
            *(f'{100 * part:.0f} %' for part in (use.part, use.allowed)),
        )
        for use in order[:_SHOWN_LIMITS]
    ]
    title = f'Limits, the worst of {found.models} models with parameters 20 % off'
    print_table(console, title, ('limit', '>from', '>to', '>used', '>allowed'), limits)
    if len(order) > _SHOWN_LIMITS:
        rest = 100 * order[_SHOWN_LIMITS].part
        console.print(f'… and {len(order) - _SHOWN_LIMITS} limits used to at most {rest:.0f} %')
    if not collide:
        console.print('collisions: not checked, the geoms of the moving bodies cannot collide')
    elif found.distance < float('inf'):
        console.print(f'collisions: bodies come as near as {1e3 * found.distance:.0f} mm')
    else:
        console.print('collisions: none, nothing comes near')


def print_models(console: LiteralConsole, found: ModelComparison) -> None:
    """Print how well each model predicts, and which one is recommended."""
    numbers = ('parameters', 'training', 'held out', 'worse by', 'std error', 'BIC')
    rows = [
        (
            model.name,
            str(model.parameters),
            *(_number(x) for x in (model.training, model.held_out)),
            *(_number(x, '.2g') for x in (model.difference, model.standard_error)),
            _number(model.bic, '.1f'),
        )
        for model in found.models
    ]
    headers = ('model', *(f'>{name}' for name in numbers))
    title = 'Models (errors in units of the noise)'
    print_table(console, title, headers, rows)
    parts = [
        (bags[0].bag, *(_number(part.error) for part in bags))
        for bags in zip(*(model.parts for model in found.models), strict=True)
    ]
    if parts:
        headers = ('bag', *(f'>{model.name}' for model in found.models))
        print_table(console, 'Held out (error in units of the noise)', headers, parts)
    console.print(
        f'BIC is above the least, for {found.effective:.3g} effective samples.',
    )
    console.print(recommendation(found))


def recommendation(found: ModelComparison) -> str:
    """Say which model to take, and why."""
    return f'recommended: {found.recommended}, as {found.reason}'


def _number(value: float, form: str = '.4g') -> str:
    return format(value, form) if math.isfinite(value) else '-'


def print_history(console: LiteralConsole, output: Path, entries: Iterable[Entry]) -> None:
    """Print a row per result."""
    columns = ('folder', 'standing', 'error', '>identified', 'changed since', '')
    rows = [
        (
            entry.name,
            entry.standing,
            entry.error,
            f'{entry.identified} of {len(entry.parameters)}',
            entry.sentence,
            'current' if entry.current else '',
        )
        for entry in entries
    ]
    print_table(console, f'Results in {output}', columns, rows)


class PredictionError(NamedTuple):
    """Root mean square differences of predictions from what was measured.

    Attributes:
        joint: Its name.
        quantity: position, velocity or effort.
        unit: Of both.
        nominal: Of the nominal model; NaN where there was no fit.
        predicted: Of the model that was asked for.
    """

    joint: str
    quantity: str
    unit: str
    nominal: float
    predicted: float


def joint_errors(prediction: JointPrediction) -> list[PredictionError]:
    """Return how far predictions are off, joint by joint."""
    predicted = prediction.errors(prediction.predicted)
    nominal = np.full_like(predicted, np.nan)
    if prediction.nominal is not None:
        nominal = prediction.errors(prediction.nominal)
    return [
        PredictionError(
            joint,
            quantity.value,
            quantity.unit(slide=slide),
            float(nominal[place, column]),
            float(predicted[place, column]),
        )
        for column, (joint, slide) in enumerate(
            zip(prediction.joints, prediction.slides, strict=True)
        )
        for place, quantity in enumerate(type(prediction.quantities[0]))
        if quantity in prediction.quantities
    ]


def print_joint_errors(
    console: LiteralConsole, prediction: JointPrediction, errors: Sequence[PredictionError]
) -> None:
    """Print a row per joint and quantity."""
    names = [name for name in (NOMINAL, PREDICTED) if name in prediction.series()]
    rows = [
        [error.joint, error.quantity, error.unit]
        + [padded(value) for value in (error.nominal, error.predicted)[-len(names) :]]
        for error in errors
    ]
    headers = ['joint', 'quantity', 'unit', *(f'>{name}' for name in names)]
    print_table(console, f'Root mean square {RESIDUAL}', headers, rows)


def print_fleet(console: LiteralConsole, result: FleetResult) -> None:
    """Print the population, robots that are odd, and those without a result to use."""
    rows = [
        (
            p.name,
            rounded(p.mean, (p.high - p.low) / 2),
            interval(p.low, p.high),
            significant(p.tau, 2),
            p.unit,
            significant(p.p_value, 2),
            str(len(p.values)),
            ', '.join(value.robot for value in p.odd) or '-',
        )
        for p in result.parameters
    ]
    columns = ('parameter', '>mean', '>95 % interval', '>between robots', 'unit', '>p if alike')
    print_table(console, 'Population', (*columns, '>robots', 'odd'), rows)
    for p in result.parameters:
        for odd in p.odd:
            side = 'above' if odd.deviation > 0 else 'below'
            console.print(
                f'odd: {odd.robot}: {p.name} is {rounded(odd.value, odd.error)}, '
                f'{significant(abs(odd.deviation), 3)} standard deviations {side} the others'
            )
    for robot in result.robots:
        if not robot.usable:
            console.print(f'{robot.standing}: {robot.name}: {robot.sentence}')


def print_laws(console: LiteralConsole, found: LawComparison) -> None:
    """Print how well each friction law predicts."""
    rows = [
        (
            law.name,
            str(law.fitted),
            f'{1e3 * law.training:.4g}',
            '-' if math.isnan(law.held_out) else f'{1e3 * law.held_out:.4g}',
            f'{law.seconds:.1f}',
        )
        for law in found.models
    ]
    headers = ('model', '>coefficients', '>training', '>held out', '>seconds')
    print_table(console, 'Friction models (mean absolute error in mrad)', headers, rows)
    for warning in found.warnings:
        console.print(f'warning: {warning}')


def print_log_errors(console: LiteralConsole, found: Predictions) -> None:
    """Print by how much each parameter file misses each log."""
    milli = 1e3 * found.errors
    rows = [(log, *map(padded, column)) for log, column in zip(found.logs, milli.T, strict=True)]
    rows.append(('mean', *map(padded, milli.mean(axis=1))))
    headers = ('log', *(f'>{name}' for name in found.names))
    print_table(console, 'Mean absolute error (mrad)', headers, rows)
