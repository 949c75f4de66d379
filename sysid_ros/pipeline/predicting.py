# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What a model says that the joints do along a bag, before and after a fit, as messages."""

from __future__ import annotations

import glob
from collections.abc import Iterator, Sequence
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
from sysid_ros.bags.copying import copy_bag, new_bag
from sysid_ros.bags.message_types import JOINT_STATE
from sysid_ros.bags.writer import BagWriter
from sysid_ros.config import SegmentsConfig
from sysid_ros.config.calibration import BagSelection, Role
from sysid_ros.errors import AlignmentError, BagError
from sysid_ros.identification.observer import Nobody, Observer
from sysid_ros.pipeline.forecast import Forecaster, known_problem
from sysid_ros.pipeline.windowed import predict_in_windows
from sysid_ros.rollout.simulation import Prediction
from sysid_ros.signals.trajectory import Trajectory
from sysid_ros.vocabulary import Quantity

#: What the topics of a prediction are called, behind a prefix.
MEASURED, NOMINAL, PREDICTED, RESIDUAL = 'measured', 'nominal', 'predicted', 'residual'
_QUANTITIES = tuple(Quantity)
_SECOND_NS = 10**9


@dataclass(frozen=True)
class JointPrediction:
    """What joints do by measurements and by a model, at n instants.

    Every array of values is (n, 3, k): position, velocity and effort of k joints in units of the
    model, NaN where nothing is measured or predicted.

    Attributes:
        joints: k names, in the model's order.
        slides: k, whether a joint slides; else it turns.
        stamps_ns: (n,) int64, what the measurements are stamped, ns.
        due_ns: (n,) int64, when they were received, ns.
        measured: What was measured.
        predicted: What the model predicts, after the fit where there was one.
        nominal: What it predicts before the fit; None without one.
        unstable: Names of the sequences in which a simulation became unstable.
    """

    joints: tuple[str, ...]
    slides: tuple[bool, ...]
    stamps_ns: NDArray[np.int64]
    due_ns: NDArray[np.int64]
    measured: NDArray[np.float64]
    predicted: NDArray[np.float64]
    nominal: NDArray[np.float64] | None
    unstable: tuple[str, ...]

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
            mean: NDArray[np.float64] = np.sqrt(
                np.where(known, squares, 0.0).sum(axis=0) / known.sum(axis=0)
            )
        return mean

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
        joint_state = kinds[JOINT_STATE]
        places = [_QUANTITIES.index(quantity) for quantity in self.quantities]
        empty = {quantity.value: np.zeros(0) for quantity in _QUANTITIES}
        for row in rows:
            fields = {_QUANTITIES[place].value: values[row, place] for place in places}
            when = stamp(*divmod(int(self.stamps_ns[row]), _SECOND_NS))
            message = joint_state(
                header=header(stamp=when, frame_id=''),
                name=list(self.joints),
                **{**empty, **fields},
            )
            yield bytes(types.serialize_cdr(message, JOINT_STATE))


class WrittenPrediction(NamedTuple):
    """A bag that was written with a prediction beside it.

    Attributes:
        prediction: What was predicted.
        messages: So many messages are in the new bag, those of the old one and of the prediction.
    """

    prediction: JointPrediction
    messages: int


def write_prediction(
    bag: Path, forecast: Forecaster, output: Path, observer: Observer | None = None
) -> WrittenPrediction:
    """Write the messages of a bag and what is predicted along it into a new bag.

    Beside the topics of the bag it has ``/measured``, ``/predicted``, ``/residual`` and, after a
    fit, ``/nominal``.

    Args:
        bag: The recording.
        forecast: What predicts.
        output: Folder of the new bag.
        observer: Is told of stages.

    Raises:
        BagError: The bag cannot be read, has a topic of one of these names, or nothing can be
            written.
        SysidError: In one sentence, what is wrong with the bag, the model or the result.
    """
    with new_bag(output) as writer:
        copy_bag(bag, writer)
        prediction = predict_bag(bag, forecast, observer)
        prediction.write(writer)
    return WrittenPrediction(prediction, writer.counts.total())


def predict_bag(
    bag: Path, forecast: Forecaster, observer: Observer | None = None
) -> JointPrediction:
    """Predict what joints do along a bag, as the estimator of the fit compares it.

    Whole runs are simulated from where they begin, from the recorded commands alone; where the fit
    rests on windows, these; where it compares forces, the efforts that the measured motion needs.

    Args:
        bag: The recording.
        forecast: What predicts.
        observer: Is told of stages.

    Raises:
        SysidError: In one sentence, what is wrong with the bag, the model or the result.
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
    models = [known.nominal] if result is None else [known.predictor, known.nominal]
    window = None if result is None else result.solver.window
    noise = {} if result is None else {scale.sensor: scale.sigma for scale in result.noise}
    predictions = [
        each.predict(sequences)
        if window is None
        else predict_in_windows(each, sequences, window, noise)
        for each in models
    ]
    return _gathered(problem.model, columns, replace(alignment, sequences=sequences), predictions)


class _Places(NamedTuple):
    """Where in a message what is measured of joints stands.

    Attributes:
        topics: Name of a sensor to its topic.
        joints: Ids of the joints, in the order of the message.
        of: Name of a sensor that measures a joint to the places of quantity and joint.
    """

    topics: dict[str, str]
    joints: list[int]
    of: dict[str, tuple[int, int]]


class _Part(NamedTuple):
    """What is known of joints at the stamps of one topic in one sequence.

    Attributes:
        topic: The topic.
        times: (n,) seconds from the sequence's origin.
        tables: (m, n, 3, k) measured, then predicted by each model; NaN where it is not known.
    """

    topic: str
    times: NDArray[np.float64]
    tables: NDArray[np.float64]


def _gathered(
    model: mujoco.MjModel,
    columns: BagColumns,
    alignment: Alignment,
    predictions: Sequence[Sequence[Prediction]],
) -> JointPrediction:
    """Put predictions of single series side by side, the series of a topic in common rows.

    Args:
        model: The compiled model.
        columns: The bag.
        alignment: The same, aligned, with the sequences that were predicted.
        predictions: Of the fitted model, and of the nominal one where there was a fit.
    """
    places = _places(model, alignment)
    topics = {topic.topic: topic for topic in columns.topics}
    sources = dict(alignment.stamps)
    stamps, due, tables = [], [], []
    for sequence, *own in zip(alignment.sequences, *predictions, strict=True):
        for part in _parts(sequence, own, places):
            after_ns = np.round(part.times * _SECOND_NS).astype(np.int64)
            stamps.append(sequence.origin_ns + after_ns)
            due.append(_received(stamps[-1], topics[part.topic], sources[part.topic]))
            tables.append(part.tables)
    if not tables:
        raise AlignmentError(
            'Expected a run in which positions, velocities or efforts of joints are measured in '
            f'bag {alignment.bag!r}, found none; `sysid convert` says what is in it.'
        )
    measured, predicted, *nominal = np.concatenate(tables, axis=1)
    return JointPrediction(
        tuple(model.joint(joint).name for joint in places.joints),
        tuple(model.jnt_type[joint] == mujoco.mjtJoint.mjJNT_SLIDE for joint in places.joints),
        np.concatenate(stamps),
        np.concatenate(due),
        measured,
        predicted,
        nominal[0] if nominal else None,
        tuple(
            sequence.name
            for sequence, prediction in zip(alignment.sequences, predictions[0], strict=True)
            if prediction.diverged[0]
        ),
    )


def _places(model: mujoco.MjModel, alignment: Alignment) -> _Places:
    topics = {p.name: p.topic for p in alignment.pairs if p.role is PairRole.SENSOR}
    measured = {}
    for name in topics:
        sensor = model.sensor(name).id
        quantity = SENSOR_FIELDS.get(mujoco.mjtSensor(int(model.sensor_type[sensor])))
        if quantity is not None:
            measured[name] = _QUANTITIES.index(quantity), int(model.sensor_objid[sensor])
    joints = sorted({joint for _, joint in measured.values()})
    return _Places(
        topics,
        joints,
        {name: (row, joints.index(joint)) for name, (row, joint) in measured.items()},
    )


def _parts(
    sequence: Trajectory, predictions: Sequence[Prediction], places: _Places
) -> Iterator[_Part]:
    by_topic: dict[str, list[int]] = {}
    for number, series in enumerate(sequence.measurements):
        if any(name in places.of for name in series.names):
            by_topic.setdefault(places.topics[series.names[0]], []).append(number)
    shape = len(_QUANTITIES), len(places.joints)
    for topic, numbers in by_topic.items():
        own = [sequence.measurements[number] for number in numbers]
        times = np.unique(np.concatenate([series.times for series in own]))
        tables = np.full((1 + len(predictions), len(times), *shape), np.nan)
        for number, series in zip(numbers, own, strict=True):
            rows = np.searchsorted(times, series.times)
            # Predictions have a column for each of the signals, in their order.
            column = 0
            for name, (_, at) in series.signal_mapping.items():
                if name in places.of:
                    row, joint = places.of[name]
                    tables[0, rows, row, joint] = series.data[:, at[0]]
                    for table, each in zip(tables[1:], predictions, strict=True):
                        table[rows, row, joint] = each.channels[number][0][:, column]
                column += len(at)
        yield _Part(topic, times, tables)


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
