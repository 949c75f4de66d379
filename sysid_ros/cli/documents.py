# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What ``--json`` prints where that is not what some room of the package returns anyway.

Their fields are keys of JSON documents, whose schema follows from them (`sysid_ros.cli.schema`):
one that is renamed breaks somebody's script. Numbers are in SI units and radians unless a unit
stands beside them; NaN, for what is not known, is null.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from sysid_ros.alignment.health import HealthFinding, TopicRate
    from sysid_ros.alignment.mapping.proposal import ProposalSummary
    from sysid_ros.alignment.pairs import Pair, Unmapped
    from sysid_ros.cli.profile import Spent
    from sysid_ros.excitation.limits import Usage
    from sysid_ros.export.export import ExportFormat
    from sysid_ros.nodes.doctor import Check
    from sysid_ros.pipeline.proposal import ProposedBag, ProposedTarget
    from sysid_ros.results.case import Case
    from sysid_ros.results.result import CalibrationResult, Standing
    from sysid_ros.results.side_by_side import ParameterSides
    from sysid_ros.servos.formats.mjcf import PlainActuator


class CalibrationDocument(NamedTuple):
    """A calibration, without its curves, and where it was written.

    Attributes:
        standing: Whether it may be used, and relied on.
        mjcf: The identified model; None where there is none.
        result_file: All of the result, with curves.
        report: The page.
        folder: What these were written to; nothing in it ever changes.
        spent: With ``--profile``, phase to where its time went.
        result: What was found.
    """

    standing: Standing
    mjcf: Path | None
    result_file: Path
    report: Path
    folder: Path
    spent: Mapping[str, Spent] | None
    result: CalibrationResult


class DoctorDocument(NamedTuple):
    """All that was looked at."""

    checks: Sequence[Check]


class InitDocument(NamedTuple):
    """What was chosen, and the files that were written; mapping is None where names agree."""

    written: Sequence[Path]
    model: Path
    model_notes: Sequence[str]
    bags: Sequence[ProposedBag]
    mapping: ProposalSummary | None
    estimator: str
    parameters: Sequence[ProposedTarget]
    notes: Sequence[str]
    problem: str
    question: str


class ConversionDocument(NamedTuple):
    """A bag as a model sees it, and the series that were written."""

    bag: str
    pairs: Sequence[Pair]
    unmapped: Sequence[Unmapped]
    topics: Sequence[TopicRate]
    health: Sequence[HealthFinding]
    files: Sequence[Path]


class FilesDocument(NamedTuple):
    """What was written."""

    files: Sequence[Path]


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


class PredictionDocument(NamedTuple):
    """A bag that was written with predictions beside it.

    Attributes:
        bag: The new bag.
        messages: So many are in it.
        topics: Those of the predictions.
        unstable: Sequences in which the simulation became unstable.
        errors: How far predictions are off.
    """

    bag: Path
    messages: int
    topics: Sequence[str]
    unstable: Sequence[str]
    errors: Sequence[PredictionError]


class ModelDocument(NamedTuple):
    """A model as it is simulated.

    Attributes:
        mjcf: Its text.
        file: Where that was written; None where it was not.
        bodies: Their number, without the world.
        joints: Their number.
        actuators: Their number.
        mass: Of all bodies, kg.
        notes: What was left out or assumed.
    """

    mjcf: str
    file: Path | None
    bodies: int
    joints: int
    actuators: int
    mass: float
    notes: Sequence[str]


class OutcomeDocument(NamedTuple):
    """What was checked.

    Attributes:
        title: What was checked.
        passed: Whether every case is as it has to be.
        notes: What is to be known beside, a sentence each.
        cases: Each thing that was checked.
        files: The new baseline; empty without ``--update``.
    """

    title: str
    passed: bool
    notes: Sequence[str]
    cases: Sequence[Case]
    files: Sequence[Path]


class RollbackDocument(NamedTuple):
    """Which result of the folder ``output`` is current now, which one was, and values of both."""

    output: Path
    current: str
    before: str
    parameters: Sequence[ParameterSides]


class SamplesDocument(NamedTuple):
    """Models that were drawn: the files, and how many draws were refused and why."""

    files: Sequence[str]
    out_of_bounds: int
    no_model: int
    by_parameter: Mapping[str, int]


class ExportDocument(NamedTuple):
    """What was written for another program, and what its format does not hold."""

    format: ExportFormat
    files: Sequence[Path]
    lost: Sequence[str]
    notes: Sequence[str]
    samples: SamplesDocument | None


class ExcitedParameter(NamedTuple):
    """What recording a motion would tell of a parameter.

    Attributes:
        name: Of the parameter.
        unit: Of all numbers.
        nominal: Its value in the model.
        half_width: Half the width of its 95 % interval.
    """

    name: str
    unit: str
    nominal: float
    half_width: float


class UnexcitedParameter(NamedTuple):
    """A parameter that no motion tells, and why."""

    name: str
    reason: str


class ExcitationDocument(NamedTuple):
    """A motion to record.

    Attributes:
        file: The motion.
        parameters: What it tells.
        unexcited: What no motion tells.
        limits: How much of each is used.
        models: So many models with parameters 20 % off keep all limits.
        collisions_checked: Whether any bodies can collide.
        distance: Between those that may, at least, m; NaN where none comes near.
        implied_actuators: So many servos with guessed gains move a model without actuators.
    """

    file: Path
    parameters: Sequence[ExcitedParameter]
    unexcited: Sequence[UnexcitedParameter]
    limits: Sequence[Usage]
    models: int
    collisions_checked: bool
    distance: float
    implied_actuators: int


class WrittenLog(NamedTuple):
    """A log of a servo that was written: its file, its samples, how long it is, s."""

    file: Path
    samples: int
    seconds: float


class LogsDocument(NamedTuple):
    """Logs that were written, and what was found in the bag that they are from, if any."""

    logs: Sequence[WrittenLog]
    health: Sequence[HealthFinding]


class ServoDocument(NamedTuple):
    """A servo that was fitted.

    Attributes:
        standing: Whether it may be used, and relied on.
        parameters_file: Its coefficients.
        result_file: All of the result, with curves.
        report: The page.
        values: The coefficients.
        errors: Log to mean absolute error, rad.
        result: What was found, without curves.
    """

    standing: Standing
    parameters_file: Path
    result_file: Path
    report: Path
    values: Mapping[str, float]
    errors: Mapping[str, float]
    result: CalibrationResult


class ServoErrorsDocument(NamedTuple):
    """How well a parameter file predicts logs: mean absolute errors, rad, by log and over all."""

    errors: Mapping[str, float]
    mean: float


class PlotsDocument(NamedTuple):
    """Pictures of logs, and parameter file to log to mean absolute error, rad."""

    files: Sequence[Path]
    errors: Mapping[str, Mapping[str, float]]


class PlainServoDocument(NamedTuple):
    """A servo as plain MJCF: the file, its joint and actuator."""

    file: Path
    mjcf: str
    actuator: PlainActuator
