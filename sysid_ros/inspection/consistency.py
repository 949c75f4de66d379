# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Whether what is measured at a joint agrees with itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.integrate import cumulative_trapezoid

from sysid_ros.alignment.health import FindingKind, HealthFinding
from sysid_ros.inspection.joints import gaps

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from sysid_ros.inspection.joints import Joint, Trace

#: Changes of position are compared over this time, s, and at least so many samples.
WINDOW_S = 0.5
WINDOW_SAMPLES = 10
#: About so many windows are enough, however long the recording.
MOST_WINDOWS = 20_000
#: A correlation above this is agreement, one below its negative agreement with the wrong sign.
AGREEMENT = 0.5
#: Where they agree as well as this, a factor between them that is off by more is told.
CLOSE = 0.9
FACTOR = 1.3
#: A motion counts when it is so many steps of the encoder, …
MOTION_STEPS = 20
#: … and over a window so many times what one sample differs from the next: noise would be one.
MOTION_NOISE = 2.0
#: Values that stay for so many messages and then jump by so many steps are held.
HELD_MESSAGES = 3
HELD_STEPS = 3
#: A spike is a change of so many times the median change, …
SPIKE = 20.0
#: … followed by its opposite, with changes of less than this part of it before and after.
SPIKE_REST = 0.1


def joint_findings(bag: str, joints: Iterable[Joint]) -> Iterator[HealthFinding]:
    """Find velocities that are not the slope of the positions, held positions, and spikes.

    The integral of the velocity is compared with the change of the position over half a second,
    which needs no derivative of noise.

    Args:
        bag: Name of the bag.
        joints: What was measured.
    """
    for joint in joints:
        position, velocity = joint.find('position'), joint.find('velocity')
        if position is None or len(position.times) <= WINDOW_SAMPLES:
            continue
        # Damaged values may be as large as numbers get.
        with np.errstate(over='ignore', invalid='ignore'):
            found = [*_held(bag, position), *_spikes(bag, position)]
            if velocity is not None and len(velocity.times) > WINDOW_SAMPLES:
                found += _compared(bag, position, velocity)
        yield from found


def _compared(bag: str, position: Trace, velocity: Trace) -> Iterator[HealthFinding]:
    integral = np.interp(
        position.times,
        velocity.times,
        cumulative_trapezoid(velocity.values, velocity.times, initial=0),
    )
    begin, end = _windows(position.times)
    moved = position.values[end] - position.values[begin]
    told = integral[end] - integral[begin]
    if len(moved) <= WINDOW_SAMPLES or not _moves(position.values, moved) or not told.any():
        return
    product = float(moved @ told)
    size = float(np.sqrt((moved @ moved) * (told @ told)))
    correlation, factor = product / size, product / float(told @ told)
    if correlation < -AGREEMENT:
        kind = FindingKind.VELOCITY_SIGN
        detail = f'runs against the positions, correlation {correlation:.2f}'
    elif correlation < AGREEMENT:
        kind = FindingKind.VELOCITY_DIFFERS
        detail = f'does not follow from the positions, correlation {correlation:.2f}'
    elif correlation > CLOSE and not 1 / FACTOR < factor < FACTOR:
        kind = FindingKind.VELOCITY_FACTOR
        detail = f'positions change {factor:.3g} times as much as it says'
    else:
        return
    yield HealthFinding(bag, velocity.channel, kind, len(velocity.times), detail)


def _windows(times: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return first and last sample of windows that have no gap in them."""
    first = np.arange(0, len(times), max(len(times) // MOST_WINDOWS, 1))
    starts = times[first]
    last = np.maximum(np.searchsorted(times, starts + WINDOW_S), first + WINDOW_SAMPLES)
    inside = last < len(times)
    for begin, end in gaps(times):
        inside &= (starts >= end) | (times[np.minimum(last, len(times) - 1)] <= begin)
    return first[inside], last[inside]


def _moves(values: NDArray[np.float64], moved: NDArray[np.float64]) -> bool:
    """Tell a motion from noise and from an encoder that flickers."""
    steps = np.abs(np.diff(values))
    if not steps.any() or np.ptp(values) < MOTION_STEPS * steps[steps > 0].min():
        return False
    size = float(np.sqrt(np.mean(moved**2)))
    return size > MOTION_NOISE * float(np.std(np.diff(values)))


def _held(bag: str, position: Trace) -> Iterator[HealthFinding]:
    steps = np.abs(np.diff(position.values))
    changes = np.flatnonzero(steps)
    if len(changes) < MOTION_STEPS:
        return
    messages = float(np.median(np.diff(changes)))
    jump = float(np.median(steps[changes]))
    if messages < HELD_MESSAGES or jump < HELD_STEPS * float(steps[changes].min()):
        return
    rate = 1 / (messages * float(np.median(np.diff(position.times))))
    detail = f'while it moves it changes every {messages:.0f} messages only, at {rate:.3g} Hz'
    yield HealthFinding(bag, position.channel, FindingKind.HELD_VALUES, len(changes), detail)


def _spikes(bag: str, position: Trace) -> Iterator[HealthFinding]:
    """Find jumps to a value and back, which nothing with a mass makes; decoding errors do."""
    steps = np.diff(position.values)
    changes = steps[np.flatnonzero(steps)]
    if len(changes) <= MOTION_STEPS:
        return
    sizes = np.abs(changes)
    there = sizes[1:-2]
    rest = SPIKE_REST * there
    spikes = (
        (there > SPIKE * np.median(sizes))
        & (np.abs(changes[1:-2] + changes[2:-1]) < rest)
        & (sizes[:-3] < rest)
        & (sizes[3:] < rest)
    )
    if spikes.any():
        detail = f'jumps by up to {there[spikes].max():.3g} and back'
        yield HealthFinding(bag, position.channel, FindingKind.SPIKES, int(spikes.sum()), detail)
