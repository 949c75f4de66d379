# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Making series: which columns of an array are which signals of a model."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sysid_ros.errors import SignalError
from sysid_ros.signals.mapping import (
    CONTROLS,
    OBSERVATIONS,
    SignalType,
    control_mapping,
    find_signals,
    sensor_mapping,
    state_mappings,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Self

    import mujoco
    from numpy.typing import ArrayLike, NDArray

    from sysid_ros.signals.mapping import SignalDict, SignalMapping


class Construction:
    """Constructors of ``TimeSeries``, under the names of MuJoCo's sysid toolbox.

    In all of them ``times`` is (n,) in seconds and ``data`` (n, k), or (n,) for one column.
    """

    if TYPE_CHECKING:

        def __init__(
            self,
            times: NDArray[np.float64],
            data: NDArray[np.float64],
            signal_mapping: SignalMapping | None = None,
        ) -> None: ...

    @classmethod
    def create(
        cls,
        times: ArrayLike,
        data: ArrayLike,
        signal_mapping: Mapping[str, tuple[SignalType, ArrayLike]],
    ) -> Self:
        """Build a series whose columns may be given as an index, a list or an array."""
        mapping = {name: (kind, np.atleast_1d(at)) for name, (kind, at) in signal_mapping.items()}
        return cls(np.asarray(times), np.asarray(data), mapping)

    @classmethod
    def from_columns(
        cls,
        times: ArrayLike,
        data: ArrayLike,
        names: Sequence[str],
        kind: SignalType = SignalType.MjSensor,
    ) -> Self:
        """Build a series of scalar channels, one name per column.

        Args:
            times: (n,) seconds.
            data: (n, k) values.
            names: k names, in column order.
            kind: What all of them are.
        """
        mapping = {name: (kind, np.array([column])) for column, name in enumerate(names)}
        return cls(np.asarray(times), np.asarray(data), mapping)

    @classmethod
    def from_custom_map(
        cls,
        times: ArrayLike,
        data: ArrayLike,
        signals: Sequence[str | tuple[str, int, SignalType]],
    ) -> Self:
        """Build a series of signals that the model need not have.

        Args:
            times: (n,) seconds.
            data: (n, k) values.
            signals: What the columns are, in order: a name (one column, ``CustomObs``), or name,
                number of columns and kind.

        Raises:
            SignalError: A width is not positive, a name comes twice, or the widths do not add up
                to the columns.
        """
        mapping: SignalDict = {}
        begin = 0
        for item in signals:
            name, width, kind = (item, 1, SignalType.CustomObs) if isinstance(item, str) else item
            if width <= 0 or name in mapping:
                msg = f'Signal {name!r} must come once and have positive width, got {width}.'
                raise SignalError(msg)
            mapping[name] = (kind, np.arange(begin, begin + width))
            begin += width
        return cls._of_width(times, data, mapping, begin)

    @classmethod
    def from_names(
        cls,
        times: ArrayLike,
        data: ArrayLike,
        model: mujoco.MjModel,
        names: Sequence[str | tuple[str, SignalType]] | None = None,
    ) -> Self:
        """Build a series of sensors and states of a model.

        Args:
            times: (n,) seconds.
            data: (n, k) values.
            model: The model that has the signals.
            names: What the columns are, in order: names of sensors, or of joints, free bodies and
                actuators with activation, with or without ``_qpos``, ``_qvel``, ``_act``; a pair
                of name and kind where the name alone is ambiguous. All sensors in the model's
                order by default.

        Raises:
            SignalError: The model has no such signal, it comes twice or is a control (see
                ``from_control_names``), or their widths do not add up to the columns.
        """
        if names is None:
            return cls._of_width(times, data, sensor_mapping(model), model.nsensordata)
        return cls._of_found(times, data, find_signals(model, names, OBSERVATIONS))

    @classmethod
    def from_control_names(
        cls,
        times: ArrayLike,
        data: ArrayLike,
        model: mujoco.MjModel,
        names: Sequence[str | tuple[str, SignalType]] | None = None,
    ) -> Self:
        """Build a series of controls of a model.

        Args:
            times: (n,) seconds.
            data: (n, k) values.
            model: The model that has the actuators.
            names: What the columns are, in order: names of actuators, with or without ``_ctrl``.
                All actuators in the model's order by default.

        Raises:
            SignalError: The model has no such actuator, it comes twice, or the number of controls
                is not that of the columns.
        """
        if names is None:
            return cls._of_width(times, data, control_mapping(model), model.nu)
        return cls._of_found(times, data, find_signals(model, names, CONTROLS))

    @staticmethod
    def compute_all_sensor_mapping(model: mujoco.MjModel) -> SignalDict:
        """Map every sensor of the model to its columns in ``sensordata``."""
        return sensor_mapping(model)

    @staticmethod
    def compute_all_control_mapping(model: mujoco.MjModel) -> SignalDict:
        """Map every actuator of the model, as ``NAME_ctrl``, to its columns in ``ctrl``."""
        return control_mapping(model)

    @staticmethod
    def compute_all_state_mappings(
        model: mujoco.MjModel,
    ) -> tuple[SignalDict, SignalDict, SignalDict, SignalDict]:
        """Map ``qpos``, ``qvel``, ``act`` and ``ctrl`` of the model.

        The columns of the first three count in the full physics state without its first number,
        the time; those of the last in ``ctrl``.
        """
        return *state_mappings(model), control_mapping(model)

    @classmethod
    def _of_found(cls, times: ArrayLike, data: ArrayLike, mapping: SignalMapping) -> Self:
        width = sum(len(columns) for _, columns in mapping.values())
        return cls._of_width(times, data, mapping, width)

    @classmethod
    def _of_width(
        cls, times: ArrayLike, data: ArrayLike, mapping: SignalMapping, width: int
    ) -> Self:
        values = np.asarray(data, dtype=np.float64)
        if values.ndim == 1:
            values = values[:, None]
        if values.ndim != 2 or values.shape[1] != width:  # noqa: PLR2004 (rows and columns)
            msg = (
                f'Expected data of shape (n, {width}) for the signals {", ".join(mapping)}, '
                f'found {np.shape(data)}.'
            )
            raise SignalError(msg)
        return cls(np.asarray(times), values, mapping)
