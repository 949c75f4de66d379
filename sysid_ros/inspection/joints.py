# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What a bag says about each joint: what was measured and commanded, and whether that agrees."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import mujoco
import numpy as np
import scipy  # its parts are loaded when they are used
from numpy.typing import NDArray

from sysid_ros.alignment.health import (
    CLEAR,
    ERRORS,
    MANY,
    MOST,
    RESPONSE_S,
    FindingKind,
    HealthFinding,
    gaps,
)
from sysid_ros.alignment.mapping.names import meaning_of
from sysid_ros.alignment.pairs import (
    SENSOR_FIELDS,
    PairRole,
    column_name,
    command_quantity,
    drives_joint,
    names_of,
    pair_columns,
    raw_values,
)
from sysid_ros.alignment.pairs import Mapping as Pairing
from sysid_ros.alignment.stamps import longest_increasing
from sysid_ros.bags import BagColumns, TopicColumns
from sysid_ros.inspection.lag import MOST_SAMPLES, usual, velocity_lag
from sysid_ros.vocabulary import SECOND_NS, Quantity

#: Times that are not looked up yet.
_NO_TIMES = np.empty(0)
#: What is less than so many times as usual, in a row, or in steps of an encoder, may be chance.
SEVERAL = 3
#: Velocities that are off by a larger factor are not the slope of the positions.
_SCALE = 1.3
#: A spike is a change of so many times the median change, and of those around it.
_SPIKE = 20


@dataclass(frozen=True)
class Trace:
    """One quantity of one joint, measured or commanded, over time.

    The values, (n,) and finite, are of a channel of a topic, in a unit that is empty where nobody
    says; the times are (n,) strictly increasing, s from the origin. A command that is
    ``interpolated`` changes linearly from sample to sample, others hold.
    """

    quantity: Quantity
    command: bool
    topic: str
    channel: str
    unit: str
    times: NDArray[np.float64]
    values: NDArray[np.float64]
    interpolated: bool = False


@dataclass(frozen=True)
class Joint:
    """A joint, by its name in the model or the bag; a trace per quantity measured or commanded."""

    name: str
    traces: tuple[Trace, ...]

    def find(self, quantity: Quantity, *, command: bool = False) -> Trace | None:
        """Return what was measured, or commanded, of a quantity."""
        key = (quantity, command)
        return next((item for item in self.traces if (item.quantity, item.command) == key), None)

    def command(self) -> Trace | None:
        """Return the first quantity that was commanded."""
        return next((item for item in self.traces if item.command), None)


def joints_by_name(bag: BagColumns, times_ns: Mapping[str, NDArray[np.int64]]) -> tuple[Joint, ...]:
    """Collect the joints that messages name.

    Where several topics measure a joint, the one that measures it most often counts. The (n,) times
    of a topic's rows are in ns.
    """
    sources = [
        (
            label,
            Trace(
                quantity,
                command,
                topic.topic,
                column_name(topic.topic, field.name, label),
                '',
                _NO_TIMES,
                field.values[:, column],
                field.interpolated,
            ),
        )
        for topic in sorted(bag.topics, key=lambda item: -len(item.receive_ns))
        for field in topic.fields
        if is_of_joints(topic) and (meaning := meaning_of(topic, field)) is not None
        for quantity, command in [meaning]
        if quantity is not None
        for column, label in enumerate(field.labels)
    ]
    return _collect(sources, times_ns)


def joints_of_model(
    bag: BagColumns,
    model: mujoco.MjModel,
    pairing: Pairing,
    times_ns: Mapping[str, NDArray[np.int64]],
) -> tuple[Joint, ...]:
    """Collect the joints of a model that a bag is paired with, in units of the model.

    The (n,) times of a topic's rows are in ns.
    """
    names = names_of(model, mujoco.mjtObj.mjOBJ_JOINT, model.njnt)
    joints = [name or f'joint[{index}]' for index, name in enumerate(names)]
    sources = []
    for pair in pairing.pairs:
        if pair.role is PairRole.SENSOR:
            sensor = model.sensor(pair.name)
            quantity = SENSOR_FIELDS.get(mujoco.mjtSensor(int(sensor.type[0])))
            joint = int(sensor.objid[0])
        else:
            actuator = model.actuator(pair.name)
            on_joint = drives_joint(model, actuator.id)
            quantity = command_quantity(model, actuator.id) if on_joint else None
            joint = int(actuator.trnid[0])
        if quantity is None:
            continue
        slide = model.jnt_type[joint] == mujoco.mjtJoint.mjJNT_SLIDE
        trace = Trace(
            quantity,
            pair.role is PairRole.ACTUATOR,
            pair.topic,
            column_name(pair.topic, pair.field, pair.label),
            quantity.unit(slide=bool(slide)),
            _NO_TIMES,
            pair.scale * raw_values(bag, pair) + pair.offset,
            pair_columns(bag, pair).interpolated,
        )
        sources.append((joints[joint], trace))
    found = _collect(sources, times_ns)
    return tuple(sorted(found, key=lambda item: joints.index(item.name)))


def is_of_joints(topic: TopicColumns) -> bool:
    """Tell whether the labels of a topic's fields are names of joints."""
    return 'Joint' in topic.msgtype.rpartition('/')[2]


def _collect(
    sources: Iterable[tuple[str, Trace]], times_ns: Mapping[str, NDArray[np.int64]]
) -> tuple[Joint, ...]:
    """Give traces with a value for each row of their topics their times, and drop absent values."""
    known = list(sources)
    used = {item.topic for _, item in known}
    origin = min((int(times_ns[own].min()) for own in used if len(times_ns[own])), default=0)
    increasing = {topic: bool(longest_increasing(times_ns[topic]).all()) for topic in used}
    found: dict[str, dict[tuple[bool, int], Trace]] = {}
    for name, item in known:
        traces = found.setdefault(name, {})
        key = item.command, list(Quantity).index(item.quantity)
        stamps, rows = times_ns[item.topic], np.flatnonzero(np.isfinite(item.values))
        if key in traces or not len(rows):
            continue
        if len(rows) < len(stamps) or not increasing[item.topic]:
            rows = rows[longest_increasing(stamps[rows])]
        times = (stamps[rows] - origin) / SECOND_NS
        traces[key] = dataclasses.replace(item, times=times, values=item.values[rows])
    return tuple(
        Joint(name, tuple(traces[key] for key in sorted(traces)))
        for name, traces in found.items()
        if traces
    )


def joint_findings(bag: str, joints: Iterable[Joint]) -> Iterator[HealthFinding]:
    """Find velocities that are not the slope of the positions, held positions, and spikes.

    The integral of the velocity is compared with the change of the position over half a second,
    which needs no derivative of noise.
    """
    for joint in joints:
        position, velocity = joint.find(Quantity.POSITION), joint.find(Quantity.VELOCITY)
        if position is None or len(position.times) <= MANY:
            continue
        # Damaged values may be as large as numbers get.
        with np.errstate(over='ignore', invalid='ignore'):
            found = [*_held(bag, position), *_spikes(bag, position)]
            if velocity is not None and len(velocity.times) > MANY:
                found += _compared(bag, position, velocity)
        yield from found


def _compared(bag: str, position: Trace, velocity: Trace) -> Iterator[HealthFinding]:
    integral = np.interp(
        position.times,
        velocity.times,
        scipy.integrate.cumulative_trapezoid(velocity.values, velocity.times, initial=0),
    )
    begin, end = _windows(position.times)
    moved = position.values[end] - position.values[begin]
    integrated = integral[end] - integral[begin]
    if len(moved) <= MANY or not _moves(position.values, moved) or not integrated.any():
        return
    product = float(moved @ integrated)
    size = float(np.sqrt((moved @ moved) * (integrated @ integrated)))
    correlation, factor = product / size, product / float(integrated @ integrated)
    if correlation < -MOST:
        detail = f'runs against the positions, correlation {correlation:.2f}'
    elif correlation < MOST:
        detail = f'does not follow from the positions, correlation {correlation:.2f}'
    elif correlation > CLEAR and not 1 / _SCALE < factor < _SCALE:
        detail = f'positions change {factor:.3g} times as much as it says'
    else:
        yield from _late(bag, position, velocity)
        return
    kind = FindingKind.VELOCITY_DIFFERS
    yield HealthFinding(bag, velocity.channel, kind, len(velocity.times), detail)


def _late(bag: str, position: Trace, velocity: Trace) -> Iterator[HealthFinding]:
    """Find velocities that come from a filter, and are late against the positions beside them."""
    found = velocity_lag(position.times, position.values, velocity.times, velocity.values)
    interval = float(np.median(np.diff(velocity.times)))
    if found is not None and found.seconds > usual(interval) + ERRORS * found.deviation:
        detail = (
            f'lags the position by {1e3 * found.seconds:.0f} ± {1.96e3 * found.deviation:.0f} ms, '
            'as after a filter'
        )
        late = round(found.seconds / interval)
        yield HealthFinding(bag, velocity.channel, FindingKind.VELOCITY_LAG, late, detail)


def _windows(times: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return first and last sample of windows that have no gap in them."""
    first = np.arange(0, len(times), max(len(times) // MOST_SAMPLES, 1))
    starts = times[first]
    last = np.maximum(np.searchsorted(times, starts + RESPONSE_S), first + MANY)
    inside = last < len(times)
    for begin, end in gaps(times):
        inside &= (starts >= end) | (times[np.minimum(last, len(times) - 1)] <= begin)
    return first[inside], last[inside]


def _moves(values: NDArray[np.float64], moved: NDArray[np.float64]) -> bool:
    """Tell a motion from noise and from an encoder that flickers."""
    steps = np.diff(values)
    sizes = np.abs(steps[steps != 0])
    if not len(sizes) or np.ptp(values) < MANY * sizes.min():
        return False
    return float(np.sqrt(np.mean(moved**2))) > SEVERAL * float(np.std(steps))


def _held(bag: str, position: Trace) -> Iterator[HealthFinding]:
    steps = np.abs(np.diff(position.values))
    changes = np.flatnonzero(steps)
    if len(changes) < MANY:
        return
    messages = float(np.median(np.diff(changes)))
    jump = float(np.median(steps[changes]))
    if messages < SEVERAL or jump < SEVERAL * float(steps[changes].min()):
        return
    rate = 1 / (messages * float(np.median(np.diff(position.times))))
    detail = f'while it moves it changes every {messages:.0f} messages only, at {rate:.3g} Hz'
    yield HealthFinding(bag, position.channel, FindingKind.STALE, len(changes), detail)


def _spikes(bag: str, position: Trace) -> Iterator[HealthFinding]:
    """Find jumps to a value and back, which nothing with a mass makes; decoding errors do."""
    steps = np.diff(position.values)
    changes = steps[np.flatnonzero(steps)]
    if len(changes) <= MANY:
        return
    sizes = np.abs(changes)
    there = sizes[1:-2]
    rest = there / _SPIKE
    spikes = (
        (there > _SPIKE * np.median(sizes))
        & (np.abs(changes[1:-2] + changes[2:-1]) < rest)
        & (sizes[:-3] < rest)
        & (sizes[3:] < rest)
    )
    if spikes.any():
        detail = f'jumps by up to {there[spikes].max():.3g} and back'
        yield HealthFinding(bag, position.channel, FindingKind.SPIKES, int(spikes.sum()), detail)
