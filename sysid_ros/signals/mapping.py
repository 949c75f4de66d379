# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What the columns of a series are: names, kinds, and the columns that a model gives them.

The names are those of MuJoCo's sysid toolbox: a sensor by its own name, a control as
``NAME_ctrl``, states as ``NAME_qpos``, ``NAME_qvel`` and ``NAME_act``. A free joint is named after
its body. An element without a name is called ``sensor[2]``, ``actuator[0]``, ``joint[1]``, with
its index, so that models with unnamed elements can be used.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import mujoco
import numpy as np
from numpy.typing import NDArray

from sysid_ros.errors import SignalError, nearest

#: Coordinates of a free joint: position and quaternion.
_FREE_QPOS = 7


class SignalType(enum.Enum):
    """What a channel is in the model, named as in MuJoCo's sysid toolbox."""

    MjSensor = 0
    CustomObs = 1
    MjStateQPos = 2
    MjStateQVel = 3
    MjStateAct = 4
    MjCtrl = 5


#: Name of each signal to its kind and its columns in the data.
SignalMapping = Mapping[str, tuple[SignalType, NDArray[np.int64]]]
SignalDict = dict[str, tuple[SignalType, NDArray[np.int64]]]

#: What a model's observations can be, in the order in which a bare name is tried.
OBSERVATIONS = (
    SignalType.MjSensor,
    SignalType.MjStateQPos,
    SignalType.MjStateQVel,
    SignalType.MjStateAct,
)
STATES = OBSERVATIONS[1:]
CONTROLS = (SignalType.MjCtrl,)

_SUFFIXES = {
    SignalType.MjSensor: '',
    SignalType.MjStateQPos: '_qpos',
    SignalType.MjStateQVel: '_qvel',
    SignalType.MjStateAct: '_act',
    SignalType.MjCtrl: '_ctrl',
}


class Signal(NamedTuple):
    """One signal of a model.

    Attributes:
        name: Its full name.
        kind: What it is.
        columns: (d,) columns: of ``sensordata`` for a sensor, of ``ctrl`` for a control, of the
            full physics state without its first number, the time, for a state.
    """

    name: str
    kind: SignalType
    columns: NDArray[np.int64]


def sensor_mapping(model: mujoco.MjModel) -> SignalDict:
    """Map every sensor of a model to its columns in ``sensordata``."""
    names = _names(model, 'sensor', model.nsensor)
    return _spans(names, SignalType.MjSensor, model.sensor_adr, model.sensor_dim)


def control_mapping(model: mujoco.MjModel) -> SignalDict:
    """Map every actuator of a model, as ``NAME_ctrl``, to its columns in ``ctrl``.

    An actuator may have several controls (MuJoCo 4.0, ``orientation``).
    """
    names = _names(model, 'actuator', model.nactuator)
    return _spans(names, SignalType.MjCtrl, model.actuator_ctrladr, model.actuator_ctrlnum)


def state_mappings(model: mujoco.MjModel) -> tuple[SignalDict, SignalDict, SignalDict]:
    """Map positions, velocities and activations to columns of the full physics state.

    The columns count from the number after the time, as the toolbox has it: of a (n,) state
    vector ``s`` of kind ``mjSTATE_FULLPHYSICS``, they index ``s[1:]``.

    Returns:
        The mappings of ``qpos``, ``qvel`` and ``act``; together they cover every coordinate once.
    """
    nq, nv = model.nq, model.nv
    widths = np.diff(np.append(model.jnt_qposadr, nq)), np.diff(np.append(model.jnt_dofadr, nv))
    names = _joint_signal_names(model)
    actuators = _names(model, 'actuator', model.nactuator)
    stateful = np.flatnonzero(model.actuator_actnum > 0)
    return (
        _spans(names, SignalType.MjStateQPos, model.jnt_qposadr, widths[0]),
        _spans(names, SignalType.MjStateQVel, model.jnt_dofadr + nq, widths[1]),
        _spans(
            [actuators[index] for index in stateful],
            SignalType.MjStateAct,
            model.actuator_actadr[stateful] + nq + nv,
            model.actuator_actnum[stateful],
        ),
    )


def find_signal(
    model: mujoco.MjModel, name: str, kinds: Iterable[SignalType] = OBSERVATIONS
) -> Signal:
    """Find a signal of a model by its name, with or without its suffix.

    A free joint is found by its own name too.

    Args:
        model: The model.
        name: Such as ``elbow_pos`` (a sensor), ``elbow``, ``elbow_qpos``, ``motor_ctrl``.
        kinds: What it may be; of several the first that has the name.

    Raises:
        SignalError: The model has no such signal.
    """
    kinds = tuple(kinds)
    tables = {kind: _table(model, kind) for kind in kinds}
    for kind, table in tables.items():
        for full in (name, name + _SUFFIXES[kind]):
            if full in table:
                return Signal(full, kind, table[full][1])
    # Suggest what looks like what was written: with its suffix or without.
    known = [
        full if name.endswith(_SUFFIXES[kind]) else full.removesuffix(_SUFFIXES[kind])
        for kind, table in tables.items()
        for full in table
    ]
    wanted = ' or '.join(kind.name for kind in kinds)
    raise SignalError(
        f'Could not resolve signal {name!r} as {wanted} of the model; {nearest(name, known)}.'
    )


def find_signals(
    model: mujoco.MjModel,
    names: Iterable[str | tuple[str, SignalType]],
    kinds: tuple[SignalType, ...],
) -> SignalDict:
    """Lay out named signals side by side, in the order given.

    Args:
        model: The model.
        names: Each a name, or a name and its kind.
        kinds: The kinds that are allowed.

    Returns:
        Full name to kind and consecutive columns.

    Raises:
        SignalError: A name is not in the model, comes twice, or its kind is not allowed.
    """
    found: SignalDict = {}
    begin = 0
    for item in names:
        name, hint = (item, None) if isinstance(item, str) else item
        if hint is not None and hint not in kinds:
            allowed = ', '.join(kind.name for kind in kinds)
            raise SignalError(
                f'Signal {name!r} has type {hint.name} which is not allowed here; use {allowed}.'
            )
        signal = find_signal(model, name, kinds if hint is None else (hint,))
        if signal.name in found:
            raise SignalError(f'Expected each signal once, found {signal.name!r} twice.')
        end = begin + len(signal.columns)
        found[signal.name] = (signal.kind, np.arange(begin, end))
        begin = end
    return found


def encode_signal_mapping(mapping: SignalMapping) -> str:
    """Write a mapping as JSON, name to [number of the kind, columns]."""
    return json.dumps(
        {
            name: [kind.value, np.atleast_1d(columns).tolist()]
            for name, (kind, columns) in mapping.items()
        }
    )


def decode_signal_mapping(encoded: str) -> SignalDict:
    """Read what ``encode_signal_mapping`` wrote.

    Raises:
        SignalError: It is something else.
    """
    try:
        return {
            name: (SignalType(kind), np.asarray(columns, dtype=np.int64))
            for name, (kind, columns) in json.loads(encoded).items()
        }
    except (ValueError, TypeError, AttributeError) as err:
        raise SignalError(
            f'Expected a signal mapping as JSON, name to [type, columns], found {encoded[:60]!r}.'
        ) from err


def _table(model: mujoco.MjModel, kind: SignalType) -> SignalDict:
    """Return the signals of one kind, free joints also under their own names."""
    if kind is SignalType.MjSensor:
        return sensor_mapping(model)
    if kind is SignalType.MjCtrl:
        return control_mapping(model)
    if kind not in STATES:
        return {}
    table = state_mappings(model)[STATES.index(kind)]
    if kind is not SignalType.MjStateAct:
        suffix = _SUFFIXES[kind]
        for index, name in enumerate(_joint_signal_names(model)):
            table.setdefault(model.joint(index).name + suffix, table[name + suffix])
    return table


def _names(model: mujoco.MjModel, element: str, count: int) -> list[str]:
    accessor = getattr(model, element)
    return [accessor(index).name or f'{element}[{index}]' for index in range(count)]


def _joint_signal_names(model: mujoco.MjModel) -> list[str]:
    """Name each joint's signals: after the joint, for a free one after its body.

    Where another joint has the body's name, or the body has none, the free joint's own is taken.
    """
    names = _names(model, 'joint', model.njnt)
    widths = np.diff(np.append(model.jnt_qposadr, model.nq))
    for index in np.flatnonzero(widths == _FREE_QPOS):
        body = model.body(int(model.jnt_bodyid[index])).name
        if body and body not in names:
            names[index] = body
    return names


def _spans(
    names: Iterable[str], kind: SignalType, begins: Iterable[int], widths: Iterable[int]
) -> SignalDict:
    return {
        name + _SUFFIXES[kind]: (kind, np.arange(begin, begin + width, dtype=np.int64))
        for name, begin, width in zip(names, begins, widths, strict=True)
    }
