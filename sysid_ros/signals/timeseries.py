# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Channels that share their stamps."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from sysid_ros.errors import SignalError, nearest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import ArrayLike, NDArray

    SignalMapping = Mapping[str, tuple['SignalType', NDArray[np.int64]]]


class SignalType(enum.Enum):
    """What a channel is in the model, named as in MuJoCo's sysid toolbox."""

    MjSensor = 0
    CustomObs = 1
    MjStateQPos = 2
    MjStateQVel = 3
    MjStateAct = 4
    MjCtrl = 5


@dataclass(frozen=True)
class TimeSeries:
    """Named channels sampled at common instants; immutable.

    Attributes:
        times: (n,) float64, seconds, strictly increasing.
        data: (n, k) float64, in the unit of each channel.
        signal_mapping: Name of each signal to its type and its columns in ``data``.
    """

    times: NDArray[np.float64]
    data: NDArray[np.float64]
    signal_mapping: SignalMapping = field(default_factory=dict)

    def __post_init__(self) -> None:
        times = np.array(self.times, dtype=np.float64)
        data = np.array(self.data, dtype=np.float64)
        if data.ndim == 1:
            data = data[:, None]
        if times.ndim != 1 or data.ndim != times.ndim + 1 or len(times) != len(data):
            msg = (
                'A time series needs times of shape (n,) and data of shape (n, k), '
                f'got {times.shape} and {data.shape}.'
            )
            raise SignalError(msg)
        if not np.all(np.isfinite(times)) or np.any(np.diff(times) <= 0):
            msg = 'The times of a time series must be finite and strictly increasing.'
            raise SignalError(msg)
        for name, (_, indices) in self.signal_mapping.items():
            if np.any(np.asarray(indices) >= data.shape[1]) or np.any(np.asarray(indices) < 0):
                msg = f'Signal {name!r} names columns {indices}, but there are {data.shape[1]}.'
                raise SignalError(msg)
        times.setflags(write=False)
        data.setflags(write=False)
        object.__setattr__(self, 'times', times)
        object.__setattr__(self, 'data', data)

    @classmethod
    def from_columns(
        cls,
        times: ArrayLike,
        data: ArrayLike,
        names: Sequence[str],
        kind: SignalType = SignalType.MjSensor,
    ) -> TimeSeries:
        """Build a series of scalar channels, one name per column.

        Args:
            times: (n,) seconds.
            data: (n, k) values.
            names: k names, in column order.
            kind: What all of them are.
        """
        mapping = {name: (kind, np.array([column])) for column, name in enumerate(names)}
        return cls(np.asarray(times), np.asarray(data), mapping)

    def __len__(self) -> int:
        return len(self.times)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the signals, in mapping order."""
        return tuple(self.signal_mapping)

    @property
    def duration(self) -> float:
        """Seconds between the first and the last sample."""
        return float(self.times[-1] - self.times[0]) if len(self.times) else 0.0

    def get(self, name: str) -> NDArray[np.float64]:
        """Return the (n, d) samples of one signal.

        Raises:
            SignalError: There is no signal of that name.
        """
        if name not in self.signal_mapping:
            msg = f'There is no signal {name!r} here; {nearest(name, self.signal_mapping)}.'
            raise SignalError(msg)
        return self.data[:, self.signal_mapping[name][1]]
