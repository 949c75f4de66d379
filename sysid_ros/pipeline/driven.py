# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Whether a bag says what drove the robot.

A model whose actuators get no commands still moves, by gravity and from where it started, and its
parameters bend until that looks like the recording. So a bag is refused before any simulation when
an actuator has no commands although its joint moves, or when no joint follows its position
commands, as with motors that are off.
"""

from __future__ import annotations

from collections.abc import Mapping as MappingOf
from collections.abc import Sequence
from fnmatch import fnmatchcase

import mujoco
import numpy as np
from numpy.typing import NDArray
from scipy.special import fdtrc

from sysid_ros.alignment.health import FindingKind
from sysid_ros.alignment.pairs import (
    SENSOR_FIELDS,
    Mapping,
    Pair,
    PairRole,
    UnmappedKind,
    actuator_names,
    command_quantity,
    raw_values,
    scalar_joints,
    sensor_names,
    topic_columns,
)
from sysid_ros.alignment.search import Mechanism
from sysid_ros.bags import BagColumns
from sysid_ros.errors import ConfigError, FitError, listed, nearest
from sysid_ros.model.elements import driven_joint
from sysid_ros.vocabulary import SECOND_NS, Quantity, is_command

#: A joint moves from these ranges on, rad (2°) and m: brakes and servos give.
_MOVES_RAD, _MOVES_M = 0.035, 0.005
#: Range of a signal, in percentiles: single wrong values are no motion.
_RANGE = (0.1, 99.9)
#: A joint that moves by less than this part of its command's range does not follow it.
_FOLLOWS = 0.1
#: A joint's next step of this length, s, is predicted from so many of its own steps and so many of
#: its command; fewer instants than the last decide nothing.
_STEP_S, _OWN, _COMMANDED, _FEWEST = 0.1, 4, 10, 60
#: Level of the test whether commands help in that: of 55 motions of joints of a real arm the least
#: sure one has 4e-25.
_LEVEL = 1e-5
#: Groups of actuators that a model can switch off.
_GROUPS = 31


class NotToldError(FitError):
    """A bag holds no commands for an actuator, so that no simulation can explain it."""


def switched_off(
    spec: mujoco.MjSpec,
    model: mujoco.MjModel,
    patterns: Sequence[str],
    servos: Sequence[str] = (),
) -> mujoco.MjSpec:
    """Return a copy of a model in which actuators are in a group that is off: they exert nothing.

    Args:
        spec: The nominal model, which is not changed.
        model: The same, compiled.
        patterns: Names or patterns of actuators, or of joints without one.
        servos: Names of those that laws of servos drive.

    Raises:
        ConfigError: A pattern matches no actuator or one that a servo drives.
    """
    names = [*actuator_names(model), *scalar_joints(model)]
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in names):
            hint = nearest(pattern, filter(None, names))
            raise ConfigError(
                f'Expected an actuator of the model in undriven, found {pattern!r}; {hint}.'
            )
        driven = next((name for name in servos if fnmatchcase(name, pattern)), None)
        if driven is not None:
            raise ConfigError(f'Actuator {driven!r} is in servos and in undriven; choose one.')
    off = max(set(range(_GROUPS)) - set(model.actuator_group.tolist()))
    copy = spec.copy()
    copy.option.disableactuator |= 1 << off
    for actuator in copy.actuators:
        if any(fnmatchcase(actuator.name, pattern) for pattern in patterns):
            actuator.group = off
    return copy


def without_undriven(mapping: Mapping, model: mujoco.MjModel) -> Mapping:
    """Return a mapping without commands for actuators that are off, and without complaints."""
    off = {name for actuator, name in enumerate(actuator_names(model)) if _off(model, actuator)}
    return Mapping(
        tuple(p for p in mapping.pairs if p.role is not PairRole.ACTUATOR or p.name not in off),
        mapping.unmapped,
        tuple(
            h for h in mapping.health if h.kind is not FindingKind.UNMAPPED or h.subject not in off
        ),
    )


def _off(model: mujoco.MjModel, actuator: int) -> bool:
    group = int(model.actuator_group[actuator])
    return bool(0 <= group < _GROUPS and int(model.opt.disableactuator) >> group & 1)


def check_driven(
    bag: BagColumns, model: mujoco.MjModel, mapping: Mapping, undriven: Sequence[str] = ('*',)
) -> None:
    """Refuse a bag that does not say what drove the robot.

    Args:
        bag: Columns of the bag.
        model: The compiled model; its actuators that are off need no commands.
        mapping: Which column is what.
        undriven: Names or patterns of joints that are known to have no actuator; `*` where the
            model says so itself, which a URDF cannot.

    Raises:
        NotToldError: An actuator has no commands although its joint moves, or none has any and no
            other joint is known to swing alone.
        FitError: No joint follows its commands.
    """
    positions: dict[int, Pair] = {}
    sensors = sensor_names(model)
    for pair in mapping.pairs:
        if pair.role is PairRole.SENSOR:
            sensor = sensors.index(pair.name)
            kind = mujoco.mjtSensor(model.sensor_type[sensor])
            if SENSOR_FIELDS.get(kind) is Quantity.POSITION:
                positions[int(model.sensor_objid[sensor])] = pair
    motions = {joint: _range(_values(bag, pair)) for joint, pair in positions.items()}
    commands = {pair.name: pair for pair in mapping.pairs if pair.role is PairRole.ACTUATOR}
    names = actuator_names(model)
    joints = [driven_joint(model, actuator) for actuator in range(model.nactuator)]
    driven = {joint for joint, name in zip(joints, names, strict=True) if name in commands} - {-1}
    silent = {
        name or f'(unnamed {actuator})': joints[actuator]
        for actuator, name in enumerate(names)
        if name not in commands and joints[actuator] not in driven and not _off(model, actuator)
    }
    silent |= {
        name: joint
        for name, joint in scalar_joints(model).items()
        if joint in motions
        and joint not in joints
        and not any(fnmatchcase(name, pattern) for pattern in undriven)
    }
    refused = {name: joint for name, joint in silent.items() if _moves(model, joint, motions)}
    if not commands:
        # Other joints may swing by themselves, while those with an actuator are known to rest.
        known = set(silent.values()) <= motions.keys()
        swings = known and any(_moves(model, joint, motions) for joint in motions)
        refused = silent if refused or not swings else {}
    if refused:
        raise NotToldError(_no_commands(bag, model, mapping, refused, motions))
    _check_followed(bag, model, commands, positions)


def _values(bag: BagColumns, pair: Pair) -> NDArray[np.float64]:
    """Return the (n,) values of a column in units of the model."""
    values: NDArray[np.float64] = pair.scale * raw_values(bag, pair) + pair.offset
    return values


def _range(values: NDArray[np.float64]) -> float:
    """Return how far values are apart; 0 where there are none."""
    known = values[np.isfinite(values)]
    return float(np.subtract(*np.percentile(known, _RANGE[::-1]))) if len(known) else 0.0


def _moves(model: mujoco.MjModel, joint: int, motions: MappingOf[int, float]) -> bool:
    """Whether a joint moves, by its motion in rad or m; one of unknown motion does not."""
    least = _MOVES_RAD if _unit(model, joint) == 'rad' else _MOVES_M
    return motions.get(joint, 0.0) > least


def _unit(model: mujoco.MjModel, joint: int) -> str:
    hinge = joint >= 0 and model.jnt_type[joint] == mujoco.mjtJoint.mjJNT_HINGE
    return 'rad' if hinge else 'm'


def _no_commands(
    bag: BagColumns,
    model: mujoco.MjModel,
    mapping: Mapping,
    silent: MappingOf[str, int],
    motions: MappingOf[int, float],
) -> str:
    """Say which actuators have no commands, and what to do."""
    most = max(silent.values(), key=lambda joint: motions.get(joint, 0.0))
    moves = ''
    if motions.get(most, 0.0) > 0:
        whose = 'whose joint moves by' if len(silent) == 1 else 'whose joints move by up to'
        moves = f', {whose} {motions[most]:.2g} {_unit(model, most)}'
    # Another column of a joint that has commands is no command of a joint that has none.
    known = tuple(f'[{pair.label}]' for pair in mapping.pairs if pair.role is PairRole.ACTUATOR)
    unused = (
        f' ({item.name} is not used: {item.reason})'
        for item in mapping.unmapped
        if is_command(item.name)
        and item.kind in (UnmappedKind.TOPIC, UnmappedKind.COLUMN)
        and not (item.kind is UnmappedKind.COLUMN and item.name.endswith(known))
    )
    motors = any(command_quantity(model, a) is Quantity.EFFORT for a in range(model.nactuator))
    by_efforts = ', or let measured efforts drive the motors by the mapping' if motors else ''
    off = "'*'" if len(silent) >= model.nactuator else ', '.join(silent)
    return (
        f'Expected commands for every actuator in bag {bag.path.name!r}, found none for '
        f'{listed(silent)}{moves}{next(unused, "")}: record them or map them, as '
        f'`sysid map BAG MODEL` proposes{by_efforts}; if the motors were off, say '
        f'undriven: [{off}] in the configuration.'
    )


def _check_followed(
    bag: BagColumns,
    model: mujoco.MjModel,
    commands: MappingOf[str, Pair],
    positions: MappingOf[int, Pair],
) -> None:
    """Refuse a bag with position commands that no joint follows."""
    still = []
    for joint in Mechanism(model).joints:
        drive, position = joint.drive, positions.get(joint.id)
        if drive is None or not drive.known or drive.commanded is not Quantity.POSITION:
            continue
        command = commands.get(drive.name)
        if command is None or position is None:
            continue
        asked = _range(_values(bag, command)) / abs(drive.slope)
        if not _moves(model, joint.id, {joint.id: asked}):
            continue
        moved = _range(_values(bag, position))
        if moved > _FOLLOWS * asked and follows(bag, command, position):
            return
        unit = _unit(model, joint.id)
        still.append(
            f'{joint.name} is told to move by {asked:.2g} {unit}, and moves by {moved:.2g}'
        )
    if still:
        raise FitError(
            f'No joint follows its commands in bag {bag.path.name!r}, {"; ".join(still[:2])}: '
            'record with the motors on, correct the mapping as `sysid map BAG MODEL` proposes, or '
            "say undriven: ['*'] in the configuration if the motors were off."
        )


def follows(bag: BagColumns, command: Pair, position: Pair) -> bool:
    """Return whether commands help to predict where a joint goes next, from where it was.

    Whatever moves slowly is like any other slow motion at some lag, so that correlations say
    little. The F-test of the commands' part in a linear prediction decides (Granger, Econometrica
    37(3), 1969); of recordings that are too short for it joints follow.
    """
    sides = []
    for pair in (command, position):
        values = _values(bag, pair)
        known = np.isfinite(values)
        sides.append((topic_columns(bag, pair.topic).receive_ns[known], values[known]))
    start = max(times[0] for times, _ in sides)
    grid = np.arange(start, min(times[-1] for times, _ in sides), int(_STEP_S * SECOND_NS))
    places = [np.maximum(np.searchsorted(times, grid, side='right') - 1, 0) for times, _ in sides]
    # Between runs of one recording a joint may be anywhere.
    stamps = sides[1][0]
    longest = max(_STEP_S * SECOND_NS, 4 * float(np.median(np.diff(stamps))))
    away = grid - stamps[places[1]] > longest
    told, went = (values[place] for (_, values), place in zip(sides, places, strict=True))
    reach = max(_OWN + 1, _COMMANDED)
    rows = np.arange(reach, len(grid))
    rows = rows[[not away[row - reach : row + 1].any() for row in rows]]
    if len(rows) < _FEWEST or not np.ptp(told) or not np.ptp(went):
        return True
    told, went = ((side - side.mean()) / side.std() for side in (told, went))
    moved = np.diff(went, prepend=went[0])
    own = [np.ones(len(rows)), went[rows - 1], *(moved[rows - k] for k in range(1, _OWN + 1))]
    asked = [told[rows - k] for k in range(_COMMANDED)]
    left = []
    for columns in (own, own + asked):
        table = np.column_stack(columns)
        rest = moved[rows] - table @ np.linalg.lstsq(table, moved[rows])[0]
        left.append(float(rest @ rest))
    freedom = len(rows) - len(own) - len(asked)
    if not left[1] > 0:
        return True
    return bool(fdtrc(len(asked), freedom, (left[0] / left[1] - 1) * freedom / len(asked)) < _LEVEL)
