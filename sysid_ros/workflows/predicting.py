# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What a model, as it is or with a result's values, says that joints do along a bag."""

from __future__ import annotations

import glob
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import mujoco
import numpy as np
from numpy.typing import NDArray

from sysid_ros.alignment import Alignment
from sysid_ros.alignment.pairs import SENSOR_FIELDS, PairRole
from sysid_ros.alignment.stamps import longest_increasing
from sysid_ros.bags import BagColumns, TopicColumns
from sysid_ros.bags.cdr import known_types
from sysid_ros.bags.message_types import JOINT_STATE
from sysid_ros.bags.writer import BagWriter, copy_bag, new_bag
from sysid_ros.config.files import load_calibration, validate
from sysid_ros.config.schema import BagSelection, CalibrationConfig, Role, SegmentsConfig
from sysid_ros.errors import AlignmentError, BagError, ResultError
from sysid_ros.fit.observer import Nobody, Observer
from sysid_ros.model.loading import add_actuators, read_model
from sysid_ros.model.targets import Unknown, of_sequence, resolve
from sysid_ros.results.result import CalibrationResult
from sysid_ros.results.store import find
from sysid_ros.vocabulary import SECOND_NS, Quantity
from sysid_ros.workflows.estimators import Estimated, estimated
from sysid_ros.workflows.fitting import stepped
from sysid_ros.workflows.predictions import Predictions, Predictor, Signal, simulate
from sysid_ros.workflows.problem import Problem, Subject, load

#: What the topics of a prediction are called, behind a prefix.
MEASURED, NOMINAL, PREDICTED, RESIDUAL = 'measured', 'nominal', 'predicted', 'residual'
_QUANTITIES = tuple(Quantity)


@dataclass(frozen=True)
class JointPrediction:
    """What k joints do by measurements and by a model, at n instants.

    Values are (n, 3, k): position, velocity and effort in units of the model, NaN where nothing is
    measured or predicted.
    """

    joints: tuple[str, ...]  # in the model's order
    slides: tuple[bool, ...]  # whether a joint slides; else it turns
    stamps_ns: NDArray[np.int64]  # (n,) stamps of the measurements
    due_ns: NDArray[np.int64]  # (n,) when they were received
    measured: NDArray[np.float64]
    predicted: NDArray[np.float64]  # after the fit where there was one
    nominal: NDArray[np.float64] | None  # before the fit; None without one
    unstable: tuple[str, ...]  # sequences in which a simulation became unstable

    @property
    def quantities(self) -> tuple[Quantity, ...]:
        """What is measured of any joint."""
        known = np.isfinite(self.measured).any(axis=(0, 2))
        return tuple(_QUANTITIES[place] for place in np.flatnonzero(known))

    def errors(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the (3, k) root mean square differences to what was measured, NaN where none."""
        squares = (self.measured - values) ** 2
        known = np.isfinite(squares)
        with np.errstate(invalid='ignore'):
            mean = np.where(known, squares, 0.0).sum(axis=0) / known.sum(axis=0)
        return np.asarray(np.sqrt(mean))

    def series(self) -> dict[str, NDArray[np.float64]]:
        """Return the values by name of the topic; residuals are measured less predicted."""
        nominal = {} if self.nominal is None else {NOMINAL: self.nominal}
        residual = self.measured - self.predicted
        return {MEASURED: self.measured, **nominal, PREDICTED: self.predicted, RESIDUAL: residual}

    def write(self, writer: BagWriter) -> None:
        """Write joint states on ``/measured``, ``/predicted`` and the like.

        Each is due when the measurement was received whose stamp it has.

        Raises:
            BagError: The bag has one of these topics already, or the disk refuses.
        """
        for name, values in self.series().items():
            topic = f'/{name}'
            writer.add_topic(topic, JOINT_STATE)
            rows = np.flatnonzero(np.isfinite(values).any(axis=(1, 2)))
            for row, message in zip(rows, self._states(values, rows), strict=True):
                writer.write(topic, int(self.due_ns[row]), message)

    def _states(self, values: NDArray[np.float64], rows: NDArray[np.int64]) -> Iterator[bytes]:
        types = known_types()
        kinds = types.types
        stamp, header = kinds['builtin_interfaces/msg/Time'], kinds['std_msgs/msg/Header']
        fields = {quantity.value: np.zeros(0) for quantity in _QUANTITIES}
        for row in rows:
            fields |= {q.value: values[row, _QUANTITIES.index(q)] for q in self.quantities}
            when = stamp(*divmod(int(self.stamps_ns[row]), SECOND_NS))
            message = kinds[JOINT_STATE](
                header=header(stamp=when, frame_id=''), name=list(self.joints), **fields
            )
            yield bytes(types.serialize_cdr(message, JOINT_STATE))


class Forecaster(NamedTuple):
    """Which model predicts, and how bags are read for it; no result for a model as it is."""

    config: CalibrationConfig
    result: CalibrationResult | None = None


def forecaster(path: Path) -> Forecaster:
    """Return what predicts by the name of a file.

    That is a result.json or its folder; a calibration.yaml, with the result in its output where
    there is one; or an MJCF, URDF or xacro file, which predicts as it is.
    """
    if path.suffix in {'.yaml', '.yml'}:
        config = load_calibration(path)
        place = find(config.output)
        return Forecaster(config, CalibrationResult.load(place) if place.is_file() else None)
    if not path.is_dir() and path.suffix != '.json':
        # A model alone has nothing to identify, which a configuration must.
        return Forecaster(CalibrationConfig.model_construct(model=path, bags=()))
    place = find(path)
    result = CalibrationResult.load(place)
    config = validate(CalibrationConfig, result.provenance.config, f'config in {place}')
    if not config.model.exists():
        raise ResultError(
            f'The model {str(config.model)!r} of the result {str(place)!r} is not there: '
            'expected to be called where the calibration was, or its calibration.yaml.'
        )
    return Forecaster(config, result)


class Known(NamedTuple):
    """Recordings, the same as the estimator compares them, and what predicts them."""

    recorded: Problem
    seen: Estimated
    predictor: Predictor


def known_problem(
    forecast: Forecaster,
    observer: Observer,
    look: Callable[[BagColumns, Role, mujoco.MjModel], None] | None = None,
) -> Known:
    """Read the bags of a configuration, all for training; ``look`` is shown their columns."""
    config, result = forecast
    config = config.model_copy(update={'parameters': ()})
    subject = None
    if result is not None:
        config = config.model_copy(update={'estimator': result.solver.estimator.value})
        model = read_model(config.model, config.package_path)
        add_actuators(model.spec, result.implied_actuators)
        subject = Subject(model, {})
    problem = load(config, observer, look, subject)
    found = [] if result is None else result.parameters
    known = tuple(
        Unknown(target.path, (target,), parameter.value, parameter.value, parameter.value)
        for parameter in found
        for path in parameter.targets
        if not of_sequence(path)
        for target in resolve(path, problem.model, spec=problem.spec)
    )
    recorded = replace(problem, parameters=known)
    if result is not None and result.solver.timestep is not None:
        recorded = stepped(recorded, result.solver.timestep)
    seen = estimated(config, recorded)
    predictor = Predictor(seen.problem.spec, threads=config.solver.threads, drives=problem.servos)
    if known:
        values = np.array([unknown.nominal for unknown in known])
        predictor = predictor._replace(parameters=known, values=values)
    return Known(recorded, seen, predictor)


def write_prediction(
    bag: Path, forecast: Forecaster, output: Path, observer: Observer | None = None
) -> tuple[JointPrediction, int]:
    """Write the messages of a bag and what is predicted along it into a new bag.

    Beside the topics of the bag it has ``/measured``, ``/predicted``, ``/residual`` and, after a
    fit, ``/nominal``. Returns the prediction, and the number of messages in the new bag.

    Raises:
        BagError: The bag cannot be read, has a topic of one of these names, or nothing can be
            written.
    """
    with new_bag(output) as writer:
        copy_bag(bag, writer)
        prediction = predict_bag(bag, forecast, observer)
        prediction.write(writer)
    return prediction, writer.counts.total()


def predict_bag(
    bag: Path, forecast: Forecaster, observer: Observer | None = None
) -> JointPrediction:
    """Predict what joints do along a bag, as the estimator of the fit compares it.

    Whole runs are simulated from where they begin, from the recorded commands alone; where the fit
    rests on windows, these; where it compares forces, the efforts that the measured motion needs.
    """
    config, result = forecast
    # Cuts were made for other bags, and what is not compared may be looked at.
    update = {
        'bags': (BagSelection(path=glob.escape(str(bag)), role='train'),),
        'segments': SegmentsConfig(gap=config.segments.gap),
        'sensors': None,
    }
    forecast = forecast._replace(config=config.model_copy(update=update))
    kept: list[BagColumns] = []

    def look(columns: BagColumns, _role: Role, _model: mujoco.MjModel) -> None:
        kept.append(columns)

    known = known_problem(forecast, observer or Nobody(), look)
    (columns,) = kept
    if columns.set_back:
        raise BagError(
            f"Expected a bag in which time goes on, found that the recorder's clock was set back "
            f'in {str(bag)!r}: what was measured has no place of its own in it.'
        )
    problem = known.seen.problem
    alignment, sequences = problem.recordings[0].alignment, problem.sequences('train')
    window = None if result is None else result.solver.window
    noise = {} if result is None else {scale.sensor: scale.sigma for scale in result.noise}
    table = simulate(known.predictor, sequences, window=window, noise=noise)
    gathered = _gathered(problem.model, columns, replace(alignment, sequences=sequences), table)
    return gathered if result is not None else replace(gathered, nominal=None)


def _gathered(
    model: mujoco.MjModel, columns: BagColumns, alignment: Alignment, table: Predictions
) -> JointPrediction:
    """Put predictions of single series side by side, the series of a topic in common rows."""
    topics = {p.name: p.topic for p in alignment.pairs if p.role is PairRole.SENSOR}
    of_joints: dict[str, tuple[int, int]] = {}  # sensor: row of the quantity and joint
    for name in topics:
        sensor = model.sensor(name).id
        quantity = SENSOR_FIELDS.get(mujoco.mjtSensor(int(model.sensor_type[sensor])))
        if quantity is not None:
            of_joints[name] = _QUANTITIES.index(quantity), int(model.sensor_objid[sensor])
    joints = sorted({joint for _, joint in of_joints.values()})
    parts: dict[tuple[int, str], list[Signal]] = {}
    for signal in table.signals():
        if signal.sensor in of_joints:
            parts.setdefault((signal.place, topics[signal.sensor]), []).append(signal)
    if not parts:
        raise AlignmentError(
            'Expected a run in which positions, velocities or efforts of joints are measured in '
            f'bag {alignment.bag!r}, found none; `sysid convert` says what is in it.'
        )
    by_topic = {topic.topic: topic for topic in columns.topics}
    sources = dict(alignment.stamps)
    stamps, due, tables = [], [], []
    for (_, topic), own in parts.items():
        times = np.unique(np.concatenate([signal.series.times for signal in own]))
        values = np.full((3, len(times), len(_QUANTITIES), len(joints)), np.nan)
        for signal in own:
            row, joint = of_joints[signal.sensor]
            at = np.searchsorted(times, signal.series.times)
            three = signal.measured, signal.fitted, signal.nominal
            values[:, at, row, joints.index(joint)] = three
        after_ns = np.round(times * SECOND_NS).astype(np.int64)
        stamps.append(own[0].trajectory.origin_ns + after_ns)
        due.append(_received(stamps[-1], by_topic[topic], sources[topic]))
        tables.append(values)
    measured, predicted, nominal = np.concatenate(tables, axis=1)
    return JointPrediction(
        tuple(model.joint(joint).name for joint in joints),
        tuple(model.jnt_type[joint] == mujoco.mjtJoint.mjJNT_SLIDE for joint in joints),
        np.concatenate(stamps),
        np.concatenate(due),
        measured,
        predicted,
        nominal,
        tuple(
            trajectory.name
            for trajectory, prediction in zip(table.trajectories, table.fitted, strict=True)
            if prediction.diverged[0]
        ),
    )


def _received(stamps_ns: NDArray[np.int64], topic: TopicColumns, source: str) -> NDArray[np.int64]:
    """Return when messages with (n,) stamps were received, ns; between messages, between them."""
    if topic.header_ns is None or source not in {'header', 'simulated'}:
        return stamps_ns  # they are of the recorder's clock
    stamped = np.flatnonzero(topic.header_ns)
    header, received = topic.header_ns[stamped], topic.receive_ns[stamped]
    rows = longest_increasing(header)
    header, received = header[rows], received[rows]
    after = np.interp(stamps_ns - header[0], header - header[0], received - received[0])
    due: NDArray[np.int64] = received[0] + np.round(after).astype(np.int64)
    return due
