# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Which joint of a model each joint of a bag is, in which unit and sign.

A hypothesis says so for all joints at once. It is scored by a sum of logarithms of odds:

- names that are alike, and SI units, positive signs and no offsets (what drivers mostly do);
- positions inside the joint's range;
- the servo's law: a measured effort against that of the model's gains, command and position;
- the laws of motion: the effort (measured, or the servo's) against the torque that rigid bodies
  take for this motion, with whatever armature, viscous and dry friction explain best.

The last two count ``-weight log(unexplained fraction of the variance)``; the weight grows with the
length of the recording and stays small: models are wrong in ways that more data do not mend.

The search begins from an assignment and changes one or two joints at a time until nothing is
better. How much worse the best rival is tells how certain a choice is.
"""

from __future__ import annotations

import copy
import dataclasses
import enum
import itertools
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import mujoco
import numpy as np
import scipy  # its parts are loaded when they are used
from numpy.typing import NDArray

from sysid_ros.alignment.axes import LEAST_GAIN, RecordedJoint, SmoothSignal, Unit, units
from sysid_ros.alignment.health import FACTOR, LITTLE, MOST
from sysid_ros.alignment.pairs import (
    EVEN,
    EXACT,
    SAME_CORE,
    actuator_names,
    command_quantity,
    scalar_joints,
    similarities,
)
from sysid_ros.model.elements import driven_joint
from sysid_ros.vocabulary import Quantity

#: What a model may have and a motion does not tell; each is fitted to the motion where needed.
_UNKNOWN = ('dof_armature', 'dof_frictionloss', 'tendon_armature', 'actuator_armature')
#: A smaller offset, rad or m per unit of stiffness, is none: backlash, sag and friction hold a
#: joint so far away.
_LEAST_SHIFT = 0.05
#: The torques of rigid bodies are at most so many times the model's, or so many times smaller.
_MASSES = 1.7
#: An effort that is so many times what the model needs, or one so many times smaller, is no torque.
_TENFOLD = 10.0
#: Bounds of factors of `motion_bases`: any that are not negative.
_ANY = (np.zeros(4), np.full(4, np.inf))
#: Weight of a second of motion, and of the longest recording.
_WEIGHT_PER_S, _MOST_WEIGHT = 0.5, 5.0
#: Costs, as logarithms of odds: of what is unusual (a sign, an offset, another order), of what is
#: rare (another unit than the rest of a message, an effort that is no torque, a joint left out, a
#: motion over a small part of the range), of what hardly happens (positions outside of the range,
#: efforts of several units in a message), and of what the bag says is not so.
_UNUSUAL, _RARE, _HARDLY, _NEVER = 3.0, 4.0, 10.0, 1000.0
#: Values are the same that differ by less than this part of the largest.
_ROUNDED = 1e-6
#: With more joints than this, joints are not turned while they are exchanged.
_MANY = 12
#: So many motions' torques are kept.
_CACHED = 3000


class JointActuator(NamedTuple):
    """What drives a joint, in the joint's coordinates.

    The torque is ``stiffness (x − q) − damping q̇`` for a position command x, ``damping (x − q̇)``
    for a velocity and x itself for an effort, in SI units; the control is ``slope x + intercept``.
    It is known where the gain is fixed and the bias affine.
    """

    actuator: int
    name: str
    commanded: Quantity
    stiffness: float
    damping: float
    slope: float
    intercept: float
    known: bool

    @property
    def takes_positions(self) -> bool:
        """Whether controls are positions of the joint, but for a positive factor."""
        return self.known and self.slope > 0 and self.commanded is Quantity.POSITION


class ModelJoint(NamedTuple):
    """A hinge or slide joint, in SI units.

    Positions are infinite where it has no limit, the armature is that of its actuators as well, and
    the drive is the first servo on it, else its first actuator.
    """

    name: str
    id: int
    hinge: bool
    low: float
    high: float
    armature: float
    damping: float
    friction: float
    drive: JointActuator | None


class Follower(NamedTuple):
    """A joint whose position is ``offset + ratio × leader`` by an equality constraint."""

    joint: int
    leader: int
    offset: float
    ratio: float

    def is_computed(
        self, quantity: Quantity, own: NDArray[np.float64], leading: NDArray[np.float64]
    ) -> bool:
        """Whether (n,) values of the joint are those of its leader, as a mimic joint's are."""
        if own.shape != leading.shape:
            return False
        expected = self.ratio * leading + self.offset * (quantity is Quantity.POSITION)
        off = np.abs(own - expected)
        known = np.isfinite(off)
        # Drivers may compute in 32 bits.
        return bool(known.any() and off[known].max() <= _ROUNDED * np.abs(expected[known]).max())


class Mechanism:
    """A model's joints, and the torques that a motion takes.

    Joints are hinges and slides with a name that follow no other, followers those that do; it is
    ``fixed`` where none of them stands on a free or ball joint.
    """

    def __init__(self, model: mujoco.MjModel, guessed: frozenset[str] = frozenset()) -> None:
        """Look at a model as the user has it; gains of guessed actuators say nothing."""
        self.model = model
        named = scalar_joints(model)
        self.followers = _followers(model, set(named.values()))
        following = {follower.joint for follower in self.followers}
        self.joints = tuple(
            _joint(model, name, joint, guessed)
            for name, joint in named.items()
            if joint not in following
        )
        self.fixed = all(_stands_fast(model, joint.id) for joint in self.joints)
        self._bare = copy.copy(model)
        for name in _UNKNOWN:
            getattr(self._bare, name)[:] = 0.0
        # Left are rigid bodies, gravity and springs.
        self._bare.opt.disableflags |= int(
            mujoco.mjtDisableBit.mjDSBL_DAMPER
            | mujoco.mjtDisableBit.mjDSBL_CONSTRAINT
            | mujoco.mjtDisableBit.mjDSBL_SENSOR
        )
        self._data = mujoco.MjData(self._bare)
        self._home = np.array(model.key_qpos[0] if model.nkey else model.qpos0)

    @property
    def driven(self) -> dict[int, ModelJoint]:
        """Actuator to its joint."""
        return {joint.drive.actuator: joint for joint in self.joints if joint.drive is not None}

    def needed(self, moved: Mapping[int, SmoothSignal], count: int) -> NDArray[np.float64]:
        """Return the (count, k) torques that joints take as they moved, by index.

        Without friction and armature; those that nothing is known of stay at home.
        """
        model, data, dofs = self._bare, self._data, self._bare.jnt_dofadr
        qpos, qvel, qacc = self.states(moved, count)
        force = np.zeros((count, model.nv))
        for row in range(count):
            data.qpos[:], data.qvel[:], data.qacc[:] = qpos[row], qvel[row], qacc[row]
            mujoco.mj_inverse(model, data)
            force[row] = data.qfrc_inverse
        for joint, leader, _, ratio in self.followers:
            force[:, dofs[leader]] += ratio * force[:, dofs[joint]]
        found: NDArray[np.float64] = force[:, dofs[[joint.id for joint in self.joints]]]
        return found

    def states(
        self, moved: Mapping[int, SmoothSignal], count: int
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """Return (count, …) positions, velocities and accelerations of joints as they moved."""
        model = self.model
        qpos = np.tile(self._home, (count, 1))
        qvel, qacc = np.zeros((2, count, model.nv))
        address, dofs = model.jnt_qposadr, model.jnt_dofadr
        for index, signal in moved.items():
            joint = self.joints[index].id
            qpos[:, address[joint]] = signal.values
            qvel[:, dofs[joint]] = signal.rate
            qacc[:, dofs[joint]] = signal.acceleration
        for joint, leader, offset, ratio in self.followers:
            qpos[:, address[joint]] = offset + ratio * qpos[:, address[leader]]
            for values in (qvel, qacc):
                values[:, dofs[joint]] = ratio * values[:, dofs[leader]]
        return qpos, qvel, qacc


def _joint(model: mujoco.MjModel, name: str, joint: int, guessed: frozenset[str]) -> ModelJoint:
    low, high = -np.inf, np.inf
    if model.jnt_limited[joint]:
        low, high = (float(value) for value in model.jnt_range[joint])
    dof = int(model.jnt_dofadr[joint])
    armature = float(model.dof_armature[dof])
    drive = None
    for actuator, actuator_name in enumerate(actuator_names(model)):
        if driven_joint(model, actuator) == joint:
            gear = float(model.actuator_gear[actuator, 0])
            armature += gear**2 * float(model.actuator_armature[actuator])
            if actuator_name and (drive is None or drive.commanded is Quantity.EFFORT):
                own = _actuator(model, actuator, guessed)
                drive = own if drive is None or own.commanded is not Quantity.EFFORT else drive
    hinge = bool(model.jnt_type[joint] == mujoco.mjtJoint.mjJNT_HINGE)
    resists = float(model.dof_damping[dof]), float(model.dof_frictionloss[dof])
    return ModelJoint(name, joint, hinge, low, high, armature, *resists, drive)


def _actuator(model: mujoco.MjModel, actuator: int, guessed: frozenset[str]) -> JointActuator:
    gear, name = float(model.actuator_gear[actuator, 0]), actuator_names(model)[actuator]
    commanded = command_quantity(model, actuator)
    gain = float(model.actuator_gainprm[actuator, 0])
    bias = [float(value) for value in model.actuator_biasprm[actuator, :3]]
    affine = model.actuator_biastype[actuator] == mujoco.mjtBias.mjBIAS_AFFINE
    linear = affine or model.actuator_biastype[actuator] == mujoco.mjtBias.mjBIAS_NONE
    fixed = model.actuator_gaintype[actuator] == mujoco.mjtGain.mjGAIN_FIXED
    known = bool(linear and fixed and gain and gear)
    stiffness, damping = -(gear**2) * bias[1], -(gear**2) * bias[2]
    slope, intercept = 1.0, 0.0
    if known and commanded is Quantity.POSITION:
        slope, intercept = -bias[1] * gear / gain, -bias[0] / gain
    elif known and commanded is Quantity.VELOCITY:
        slope = -bias[2] * gear / gain
    elif known:
        slope = 1.0 / (gear * gain)
    known = known and name not in guessed
    return JointActuator(actuator, name, commanded, stiffness, damping, slope, intercept, known)


def _followers(model: mujoco.MjModel, scalar: set[int]) -> tuple[Follower, ...]:
    found: dict[int, Follower] = {}
    for row in range(model.neq):
        kinds = mujoco.mjtEq.mjEQ_JOINT, mujoco.mjtObj.mjOBJ_JOINT
        if model.eq_type[row] != kinds[0] or not model.eq_active0[row]:
            continue
        joint, leader = int(model.eq_obj1id[row]), int(model.eq_obj2id[row])
        coefficients = model.eq_data[row, :5]
        if joint in scalar and leader in scalar and not coefficients[2:].any():
            # The polynomial is in distances from qpos0.
            ratio = float(coefficients[1])
            rest = [float(model.qpos0[model.jnt_qposadr[item]]) for item in (joint, leader)]
            offset = rest[0] + float(coefficients[0]) - ratio * rest[1]
            found[joint] = Follower(joint, leader, offset, ratio)
    return tuple(item for item in found.values() if item.leader not in found)


def _stands_fast(model: mujoco.MjModel, joint: int) -> bool:
    floating = (int(mujoco.mjtJoint.mjJNT_FREE), int(mujoco.mjtJoint.mjJNT_BALL))
    body = int(model.jnt_bodyid[joint])
    while body:
        first, count = int(model.body_jntadr[body]), int(model.body_jntnum[body])
        if any(int(model.jnt_type[first + index]) in floating for index in range(count)):
            return False
        body = int(model.body_parentid[body])
    return True


def servo_torque(
    joint: ModelJoint,
    commanded: Quantity,
    command: NDArray[np.float64] | None,
    moved: SmoothSignal,
) -> NDArray[np.float64] | None:
    """Return the (n,) torques of the actuator by the model's gains."""
    drive = joint.drive
    if drive is None or not drive.known or command is None or drive.commanded is not commanded:
        return None
    if commanded is Quantity.POSITION:
        return drive.stiffness * (command - moved.values) - drive.damping * moved.rate
    return drive.damping * (command - moved.rate) if commanded is Quantity.VELOCITY else command


def law_part(
    joint: ModelJoint,
    effort: NDArray[np.float64],
    servo: NDArray[np.float64],
    moved: SmoothSignal,
) -> tuple[float, float]:
    """Return the part of an effort that a servo's law leaves unexplained, and the gain's cost."""
    gain, late = _law_fit(effort, servo, moved)
    gain = min(max(gain, 1 / FACTOR), FACTOR)
    left = effort - gain * servo - late * moved.rate
    stiffness = joint.drive.stiffness if joint.drive else 0.0
    slack = _LEAST_SHIFT * gain * stiffness
    left -= min(max(float(left.mean()), -slack), slack)
    return _part(left, effort), (2 * math.log(gain) / math.log(FACTOR)) ** 2


def scaled_law_part(
    effort: NDArray[np.float64], servo: NDArray[np.float64], moved: SmoothSignal
) -> float:
    """Return the part of an effort of unknown scale that a servo's law leaves unexplained."""
    gain, late = _law_fit(effort, servo, moved)
    left = effort - gain * servo - late * moved.rate
    return float(np.var(left) / np.var(effort)) if gain > 0 and np.ptp(effort) > 0 else 1.0


def _law_fit(
    effort: NDArray[np.float64], servo: NDArray[np.float64], moved: SmoothSignal
) -> tuple[float, float]:
    """Return by what a servo's torque and the speed explain an effort best, but for a constant.

    Commands act late: a servo is behind by its stiffness times the delay and the speed.
    """
    columns = np.column_stack([servo, moved.rate])
    found = np.linalg.lstsq(columns - columns.mean(axis=0), effort - effort.mean())[0]
    return float(found[0]), float(found[1])


def motion_bases(torque: NDArray[np.float64], moved: SmoothSignal) -> NDArray[np.float64]:
    """Return the (n, 4) torques of bodies, armature, viscous and dry friction, up to factors."""
    slow = LITTLE * float(np.sqrt(np.mean(moved.rate**2))) or 1.0
    return np.column_stack([torque, moved.acceleration, moved.rate, np.tanh(moved.rate / slow)])


def motion_part(
    joint: ModelJoint, driving: NDArray[np.float64], bases: NDArray[np.float64]
) -> float:
    """Return the part of a torque that rigid bodies, armature and friction leave unexplained."""
    least = np.array([1 / _MASSES, joint.armature / FACTOR, 0.0, 0.0])
    most = np.array([_MASSES, joint.armature * FACTOR or np.inf, np.inf, np.inf])
    return _part(driving - bases @ _bounded(bases, driving, least, most), driving)


def contradiction(
    joint: ModelJoint, effort: NDArray[np.float64], bases: NDArray[np.float64]
) -> float | None:
    """Return how many times what the model needs an (n,) effort is, if that says it is no torque.

    The model needs what its bodies, armature, damping and dry friction take for the motion; of what
    it has none of, there may be any. None where the effort may be a torque: where it agrees but for
    a modest factor, and where the motion does not tell.
    """
    known = np.array([1.0, joint.armature, joint.damping, joint.friction])
    columns = np.column_stack([bases @ known, bases[:, known == 0.0]])
    most = np.full(columns.shape[1], np.inf)
    least = np.zeros_like(most)
    fits = {sign: sign * _bounded(columns, sign * effort, least, most) for sign in (1.0, -1.0)}
    left = {sign: _part(effort - columns @ factors, effort) for sign, factors in fits.items()}
    best = min(left, key=lambda sign: left[sign])
    times = float(fits[best][0])
    least[0], most[0] = 1 / FACTOR, FACTOR
    usual = _part(effort - columns @ _bounded(columns, effort, least, most), effort)
    if not times or 1 / _TENFOLD < times < _TENFOLD or not left[best] < MOST < usual:
        return None
    return times


def _bounded(
    bases: NDArray[np.float64],
    values: NDArray[np.float64],
    least: NDArray[np.float64],
    most: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Return the (k,) factors of (n, k) bases that fit (n,) values, near the best within bounds."""
    sizes = np.sqrt((bases**2).sum(axis=0))
    sizes[sizes == 0] = 1.0
    factors: NDArray[np.float64] = least.copy()
    free = np.ones(len(least), dtype=bool)
    while free.any():
        factors[free] = least[free]
        found, _ = scipy.optimize.nnls(bases[:, free] / sizes[free], values - bases @ factors)
        factors[free] += found / sizes[free]
        beyond = factors > most
        if not beyond.any():
            break
        factors[beyond] = most[beyond]
        free &= ~beyond
    return factors


def _part(left: NDArray[np.float64], whole: NDArray[np.float64]) -> float:
    size = float(np.var(whole) + (LITTLE * np.mean(whole)) ** 2)
    return float(np.mean(left**2)) / size if size > 0 else math.nan


class Choice(enum.Enum):
    """What a hypothesis decides about a joint of the bag."""

    JOINT = enum.auto()
    SIGN = enum.auto()
    UNIT = enum.auto()
    OFFSET = enum.auto()
    EFFORT = enum.auto()


@dataclass(frozen=True)
class Guess:
    """What one joint of the bag is: the model's joint or −1, unit and sign of the position.

    It is ``shifted`` where the position has another zero than the command. The effort is a
    ``torque`` with a sign against the position, or in units of its own, as a current.
    """

    unit: Unit
    joint: int = -1
    sign: int = 1
    shifted: bool = False
    torque: bool = True
    effort_sign: int = 1

    def given(self, joint: int, sign: int) -> Guess:
        """Return it for another joint, turned by a sign."""
        return dataclasses.replace(self, joint=joint, sign=sign * self.sign)


class HypothesisScore(NamedTuple):
    """How a hypothesis fares.

    The total is the logarithm of its odds, up to a constant; evidence is what of it the values say.
    Offsets of the positions are in joint units. The parts are the fractions of the variance that
    the servo's law and the motion leave unexplained, NaN where they are not known.
    """

    total: float
    offsets: tuple[float, ...]
    parts: tuple[tuple[float, float], ...]
    evidence: float


class Scorer:
    """Scores hypotheses on one bag and one model.

    ``alike`` is (recorded, joints) how alike their names are, and ``strange`` where a joint of a
    part of the robot is another one's by name.
    """

    def __init__(
        self, recorded: tuple[RecordedJoint, ...], mechanism: Mechanism, seconds: float
    ) -> None:
        """Compare the names; the longer joints moved, the more their motion says."""
        self.recorded = recorded
        self.joints = mechanism.joints
        self._mechanism = mechanism
        self._weight = min(_WEIGHT_PER_S * seconds, _MOST_WEIGHT)
        names = [joint.name for joint in self.joints]
        measured = similarities([item.axis.name for item in recorded], names)
        commanded = similarities(
            [item.command.name if item.command else '' for item in recorded], names
        )
        self.alike = np.maximum(measured, commanded)
        # Names that are like none of the model's are no more than places in a message.
        nameless = not self.alike.any() and len(recorded) == len(names)
        self._in_order = _in_message_order(recorded, nameless=nameless)
        self._least_disorder = _UNUSUAL if nameless else 0.0
        self._names = sum(
            scipy.special.logit(np.clip(found, EVEN, EXACT)) for found in (measured, commanded)
        )
        named = self.alike >= SAME_CORE
        # A part of a robot moves by what the rest of it does, too, which such a model lacks.
        partial = len(names) <= MOST * len(recorded)
        self.strange = named.any(axis=0) & ~named & partial
        self._local: dict[tuple[int, int], Guess] = {}
        self._torques: dict[tuple[object, ...], NDArray[np.float64]] = {}
        # Most hypotheses change one joint: what the others explain stays as it is.
        self._explained: dict[tuple[object, ...], tuple[float, float, float]] = {}
        self._count = max(
            (len(item.position.values) for item in recorded if item.position), default=0
        )

    def score(self, guesses: Sequence[Guess]) -> HypothesisScore:
        """Return how a hypothesis fares."""
        placed = [row for row, guess in enumerate(guesses) if guess.joint >= 0]
        usual = sum(self._prior(row, guesses[row]) for row in placed)
        usual -= _RARE * (min(len(guesses), len(self.joints)) - len(placed))
        usual -= _NEVER * any(self.strange[row, guesses[row].joint] for row in placed)
        usual -= self._disorder(guesses) + self._mixture(guesses)
        evidence = 0.0
        offsets, torques = self._offsets_and_torques(guesses)
        parts = [(math.nan, math.nan)] * len(guesses)
        motion = _motion_key(guesses, offsets)
        for row in placed:
            guess, offset = guesses[row], offsets[row]
            evidence -= _HARDLY * (guess.shifted and abs(offset) < _LEAST_SHIFT)
            key = (row, guess, offset, motion)
            if key not in self._explained:
                torque = None if torques is None else torques[:, guess.joint]
                self._explained[key] = self._parts(row, guess, offset, torque)
            servo, moved, gain = self._explained[key]
            parts[row] = servo, moved
            evidence += gain
        return HypothesisScore(usual + evidence, tuple(offsets), tuple(parts), evidence)

    def _prior(self, row: int, guess: Guess) -> float:
        recorded, hinge = self.recorded[row], self.joints[guess.joint].hinge
        # Where a velocity runs against its position, one of them is reversed.
        negative = guess.sign < 0 or recorded.speeding.correlation < -MOST
        against = recorded.command is not None and guess.sign * recorded.command_sign < 0
        unusual = (negative or against) + (guess.effort_sign < 0) + guess.shifted
        cost = _UNUSUAL * unusual
        cost += guess.unit.cost + (0.0 if guess.torque else _RARE)
        cost += _NEVER * (guess.torque and recorded.own_efforts)
        if recorded.command is not None:
            cost += 0.5 * recorded.command_unit(guess.unit, hinge=hinge).cost
        if recorded.speeding.correlation:
            cost += 0.5 * recorded.velocity_unit(guess.unit, hinge=hinge).cost
        return float(self._names[row, guess.joint]) - cost

    def _mixture(self, guesses: Sequence[Guess]) -> float:
        """Return the cost of units that differ in a message; a unit of positions costs once."""
        cost = 0.0
        topics = {recorded.axis.topic for recorded in self.recorded}
        for topic in topics:
            own = [
                (recorded, guess)
                for recorded, guess in zip(self.recorded, guesses, strict=True)
                if recorded.axis.topic == topic and guess.joint >= 0
            ]
            positions = Counter(guess.unit for _, guess in own)
            efforts = Counter(
                guess.torque for recorded, guess in own if recorded.effort is not None
            )
            for found, price in ((positions, _RARE), (efforts, _HARDLY)):
                cost += price * (found.total() - max(found.values(), default=0))
            cost -= sum(unit.cost * (count - 1) for unit, count in positions.items())
        return cost

    def _disorder(self, guesses: Sequence[Guess]) -> float:
        """Return the cost of an order of joints that is not the model's."""
        swapped = sum(guesses[a].joint > guesses[b].joint >= 0 for a, b in self._in_order)
        return max(min(_UNUSUAL / 2 * swapped, _RARE), self._least_disorder) if swapped else 0.0

    def _offsets_and_torques(
        self, guesses: Sequence[Guess]
    ) -> tuple[list[float], NDArray[np.float64] | None]:
        """Return the offset of each position, and the (n, k) torques of the motion with them."""
        offsets = [self._offset(row, guess, None) for row, guess in enumerate(guesses)]
        torques = self._all_torques(guesses, offsets)
        shifted = [
            row
            for row, guess in enumerate(guesses)
            if guess.shifted and guess.joint >= 0 and self._torque(row, guess) is None
        ]
        if torques is None or not shifted:
            return offsets, torques
        for row in shifted:
            # Without a measured effort, what gravity takes is not an offset.
            offsets[row] = self._offset(row, guesses[row], torques[:, guesses[row].joint])
        return offsets, self._all_torques(guesses, offsets)

    def scaling(
        self, row: int, guess: Guess, *, command: bool = False, parts: bool = False
    ) -> tuple[float, float, str]:
        """Return scale and offset of a position or its command, in joint units, and its unit.

        Parts of a range are those of the model's, or of a turn; doubtful ones only if wanted.
        """
        recorded, joint = self.recorded[row], self.joints[guess.joint]
        sign = guess.sign * (recorded.command_sign if command else 1)
        span = recorded.span
        if span is None or not (span.certain or parts):
            unit = recorded.command_unit(guess.unit, hinge=joint.hinge) if command else guess.unit
            return sign * unit.factor, 0.0, unit.name
        low, high = joint.low, joint.high
        low, high = (low, high) if math.isfinite(high - low) else (-math.pi, math.pi)
        scale = sign * (high - low) / (span.high - span.low)
        offset = round((low + high - scale * (span.low + span.high)) / 2, 6)
        return scale, offset, "parts of the joint's range, taken from the model"

    def _command(self, row: int, guess: Guess) -> NDArray[np.float64] | None:
        """Return the (n,) commands in joint units."""
        values = self.recorded[row].command_values
        scale, offset, _ = self.scaling(row, guess, command=True)
        return None if values is None else scale * values + offset

    def _torque(self, row: int, guess: Guess) -> NDArray[np.float64] | None:
        """Return the (n,) measured efforts, N·m or N."""
        effort = self.recorded[row].effort
        return (
            guess.sign * guess.effort_sign * effort if effort is not None and guess.torque else None
        )

    def _moved(self, row: int, guess: Guess, offset: float = 0.0) -> SmoothSignal | None:
        """Return how the joint moved, in its own units."""
        signal = self.recorded[row].position
        scale, own, _ = self.scaling(row, guess)
        return None if signal is None else signal.scaled(scale, own + offset)

    def _gain(self, part: float) -> float:
        """Return what an unexplained fraction of a variance adds to the odds; 0 if it is NaN."""
        return 0.0 if math.isnan(part) else -self._weight * math.log(min(part + LITTLE, 1.0))

    def _offset(self, row: int, guess: Guess, torque: NDArray[np.float64] | None) -> float:
        """Return the offset of a position that makes the servo's law hold on average."""
        moved = self._moved(row, guess)
        if not guess.shifted or guess.joint < 0 or moved is None:
            return 0.0
        actuator, command = self.joints[guess.joint].drive, self._command(row, guess)
        if actuator is None or not actuator.known or actuator.commanded is not Quantity.POSITION:
            return 0.0
        if command is None:
            return 0.0
        effort = self._torque(row, guess)
        effort = torque if effort is None else effort
        load = 0.0 if effort is None else float(np.mean(effort + actuator.damping * moved.rate))
        return float(np.mean(command - moved.values)) - load / actuator.stiffness

    def _outside(self, guess: Guess, moved: SmoothSignal) -> float:
        """Return the cost of positions beyond the joint's range."""
        joint = self.joints[guess.joint]
        low, high = joint.low, joint.high
        if not math.isfinite(high - low):
            # Joints without a limit seldom turn more than a few times.
            low, high = (-4 * math.pi, 4 * math.pi) if joint.hinge else (-10.0, 10.0)
        margin, values = LITTLE * (high - low), moved.values
        part = float(np.mean((values < low - margin) | (values > high + margin)))
        hardly_moves = 0.0 < float(np.ptp(values)) < LITTLE * (high - low)
        return _HARDLY * min(1.0, 3.0 * part) + _RARE * hardly_moves

    def _all_torques(
        self, guesses: Sequence[Guess], offsets: Sequence[float]
    ) -> NDArray[np.float64] | None:
        if not self._count or not self._mechanism.fixed:
            return None
        key = _motion_key(guesses, offsets)
        if key not in self._torques:
            if len(self._torques) > _CACHED:
                self._torques.clear()
                self._explained.clear()
            moved = {
                guess.joint: signal
                for row, (guess, offset) in enumerate(zip(guesses, offsets, strict=True))
                if guess.joint >= 0 and (signal := self._moved(row, guess, offset)) is not None
            }
            self._torques[key] = self._mechanism.needed(moved, self._count)
        return self._torques[key]

    def _parts(
        self, row: int, guess: Guess, offset: float, torque: NDArray[np.float64] | None
    ) -> tuple[float, float, float]:
        """Return the unexplained fractions of servo and motion, and what the values say in all."""
        recorded, joint = self.recorded[row], self.joints[guess.joint]
        moved = self._moved(row, guess, offset)
        if moved is None:
            return math.nan, math.nan, 0.0
        cost = self._outside(guess, moved)
        servo = servo_torque(joint, recorded.commanded, self._command(row, guess), moved)
        bases = None if torque is None else motion_bases(torque, moved)
        law = motion = math.nan
        effort = self._torque(row, guess)
        if recorded.effort is not None and effort is None:
            sign, motion = _own_sign(guess.sign * recorded.effort, bases)
            raw = sign * guess.sign * recorded.effort
            law = math.nan if servo is None else scaled_law_part(raw, servo, moved)
        elif effort is not None:
            if servo is not None:
                law, of_gain = law_part(joint, effort, servo, moved)
                cost += of_gain
            motion = math.nan if bases is None else motion_part(joint, effort, bases)
        elif servo is not None and bases is not None:
            motion = motion_part(joint, servo, bases)
        return law, motion, self._gain(law) + self._gain(motion) - cost

    def _bases(self, row: int, found: BestHypothesis) -> NDArray[np.float64] | None:
        """Return the (n, 4) torques that a joint takes, None where that is not known."""
        torques = self._all_torques(found.guesses, found.verdict.offsets)
        moved = self._moved(row, found.guesses[row])
        if moved is None or torques is None:
            return None
        return motion_bases(torques[:, found.guesses[row].joint], moved)

    def torque_per_unit(self, row: int, found: BestHypothesis) -> float:
        """Return what an effort in units of its own is by the model's masses, N·m or N per unit.

        NaN where the motion does not tell: friction and armature take more than half of it.
        """
        bases, effort = self._bases(row, found), self.recorded[row].effort
        if bases is None or effort is None:
            return math.nan
        sign, _ = _own_sign(effort, bases)
        factor = sign * _bounded(bases, sign * effort, *_ANY)[0]
        carried = float(np.sqrt(np.mean((factor * bases[:, 0]) ** 2) / np.mean(effort**2)))
        return 1.0 / float(factor) if carried > MOST else math.nan

    def contradiction(self, row: int, found: BestHypothesis, scale: float) -> float | None:
        """Return how many times what the model needs a scaled effort is; None if it may be one."""
        bases, effort = self._bases(row, found), self.recorded[row].effort
        if bases is None or effort is None:
            return None
        return contradiction(self.joints[found.guesses[row].joint], scale * effort, bases)

    def alone(self, row: int, joint: int) -> Guess:
        """Return how a joint of the bag fits one of the model best by itself."""
        if (row, joint) not in self._local:
            recorded = self.recorded[row]
            options = itertools.product(
                recorded.position_units(hinge=self.joints[joint].hinge),
                (1, -1),
                (False, True),
                (True,) if recorded.effort is None else (True, False),
            )
            rivals = [
                Guess(unit, joint, sign, shifted, torque) for unit, sign, shifted, torque in options
            ]
            self._local[row, joint] = max(rivals, key=lambda rival: self.merit(row, rival))
        return self._local[row, joint]

    def merit(self, row: int, guess: Guess) -> float:
        """Return how well a guess fares by itself, without the torques that the motion takes."""
        offset = self._offset(row, guess, None)
        return self._prior(row, guess) + self._parts(row, guess, offset, None)[2]


def _own_sign(effort: NDArray[np.float64], bases: NDArray[np.float64] | None) -> tuple[int, float]:
    """Return the sign of an effort of unknown scale, and what the motion leaves unexplained."""
    if bases is None:
        return 1, math.nan
    left = {
        sign: _part(effort - sign * bases @ _bounded(bases, sign * effort, *_ANY), effort)
        for sign in (1, -1)
    }
    sign = min(left, key=lambda sign: left[sign])
    return sign, left[sign]


def _in_message_order(
    recorded: tuple[RecordedJoint, ...], *, nameless: bool
) -> list[tuple[int, int]]:
    """Return the pairs of joints of one topic, the earlier first.

    Drivers list joints along the arm or by the alphabet; the alphabet says nothing of the arm,
    unless the names do not either.
    """
    pairs: list[tuple[int, int]] = []
    for topic in dict.fromkeys(item.axis.topic for item in recorded):
        rows = [row for row, item in enumerate(recorded) if item.axis.topic == topic]
        names = [recorded[row].axis.name for row in rows]
        # An index says as much as an order of names does.
        if nameless or names != sorted(names) or all(name.isdigit() for name in names):
            pairs += itertools.combinations(rows, 2)
    return pairs


def _motion_key(guesses: Sequence[Guess], offsets: Sequence[float]) -> tuple[object, ...]:
    """Return what the torques of all joints depend on."""
    return tuple(
        (guess.joint, guess.sign, guess.unit.factor, round(offset, 6))
        for guess, offset in zip(guesses, offsets, strict=True)
        if guess.joint >= 0
    )


class BestHypothesis(NamedTuple):
    """A guess per joint of the bag, and by joint and choice how much worse the best rival is."""

    guesses: tuple[Guess, ...]
    verdict: HypothesisScore
    margins: dict[tuple[int, Choice], float]


def search(scorer: Scorer) -> BestHypothesis:
    """Find the hypothesis that nothing near it is better than."""
    starts = [_assigned(scorer), *_in_order(scorer)]
    current = max(starts[1:], key=lambda start: scorer.score(start).total)
    ends = [_climb(scorer, start) for start in (starts[0], current)]
    best = max(ends, key=lambda end: end.verdict.total)
    _doubt_units(scorer, best)
    return best


def _assigned(scorer: Scorer) -> list[Guess]:
    """Choose for each joint of the bag the one that suits it best by itself, each once."""
    guesses = [Guess(recorded.position_units(hinge=True)[0]) for recorded in scorer.recorded]
    shape = len(scorer.recorded), len(scorer.joints)
    merit = np.zeros(shape)
    for row, joint in np.ndindex(shape):
        merit[row, joint] = scorer.merit(row, scorer.alone(row, joint))
    for row, joint in zip(*scipy.optimize.linear_sum_assignment(-merit), strict=True):
        guesses[row] = scorer.alone(int(row), int(joint))
    return guesses


def _in_order(scorer: Scorer) -> Iterator[list[Guess]]:
    """Place the joints in order, in each unit of angles and of efforts."""
    metres = units(Quantity.POSITION, hinge=False)[0]
    for angle, torque in itertools.product(units(Quantity.POSITION, hinge=True), (True, False)):
        joints = [*range(len(scorer.joints))][: len(scorer.recorded)]
        joints += [-1] * (len(scorer.recorded) - len(joints))
        yield [
            Guess(
                angle if joint < 0 or scorer.joints[joint].hinge else metres, joint, torque=torque
            )
            for joint in joints
        ]


def _climb(scorer: Scorer, start: list[Guess]) -> BestHypothesis:
    """Change guesses until no move is better."""
    current, verdict = list(start), scorer.score(start)
    margins: dict[tuple[int, Choice], float] = {}
    better = True
    while better:
        margins, better = {}, False
        for choice, changed in _moves(scorer, current):
            rival = [changed.get(row, guess) for row, guess in enumerate(current)]
            if rival == current:
                continue
            found = scorer.score(rival)
            if found.total > verdict.total + LEAST_GAIN:
                current[:], verdict, better = rival, found, True
            for row in changed:
                # Backlash and sag make an offset, too.
                same = dataclasses.replace(rival[row], shifted=current[row].shifted) == current[row]
                if same and abs(verdict.offsets[row] - found.offsets[row]) < _LEAST_SHIFT:
                    continue
                worse = max(verdict.total - found.total, 0.0)
                margins[row, choice] = min(margins.get((row, choice), math.inf), worse)
    return BestHypothesis(tuple(current), verdict, margins)


def _moves(scorer: Scorer, current: list[Guess]) -> Iterator[tuple[Choice, dict[int, Guess]]]:
    """Yield all hypotheses that differ in one choice; ``current`` may change on the way."""
    for row in range(len(scorer.recorded)):
        for choice, changes in _changes(scorer, row, current[row]):
            yield choice, {row: dataclasses.replace(current[row], **changes)}
    yield from _common_moves(scorer, current)
    signs = (1, -1) if len(scorer.recorded) <= _MANY else (1,)
    for a, b in itertools.combinations(range(len(scorer.recorded)), 2):
        for pair in _exchanges(scorer, current, (a, b), signs):
            yield Choice.JOINT, dict(zip((a, b), pair, strict=True))
    for row in range(len(scorer.recorded)):
        for joint in set(range(len(scorer.joints))) - {guess.joint for guess in current}:
            yield Choice.JOINT, {row: scorer.alone(row, joint)}
            for sign in signs:
                yield Choice.JOINT, {row: current[row].given(joint, sign)}
        yield Choice.JOINT, {row: dataclasses.replace(current[row], joint=-1)}


def _changes(scorer: Scorer, row: int, guess: Guess) -> Iterator[tuple[Choice, dict[str, Any]]]:
    """Yield what changes a guess and leaves its joint."""
    if guess.joint < 0:
        return
    for sign, shifted in itertools.product((1, -1), (False, True)):
        choice = Choice.SIGN if sign != guess.sign else Choice.OFFSET
        yield choice, {'sign': sign, 'shifted': shifted}
    recorded = scorer.recorded[row]
    for unit in recorded.position_units(hinge=scorer.joints[guess.joint].hinge):
        yield Choice.UNIT, {'unit': unit}
    if recorded.effort is not None:
        for torque, sign in ((True, 1), (True, -1), (False, 1)):
            yield Choice.EFFORT, {'torque': torque, 'effort_sign': sign}


def _exchanges(
    scorer: Scorer, current: list[Guess], rows: tuple[int, int], signs: tuple[int, ...]
) -> Iterator[tuple[Guess, Guess]]:
    """Yield the ways in which two joints of the bag exchange what they are."""
    first, second = (current[row] for row in rows)
    # Of a joint that turns and one that slides, the units are not the same.
    hinges = {scorer.joints[guess.joint].hinge for guess in (first, second) if guess.joint >= 0}
    for turns in itertools.product(signs, signs) if len(hinges) == 1 else ():
        yield first.given(second.joint, turns[0]), second.given(first.joint, turns[1])


def _common_moves(
    scorer: Scorer, current: list[Guess]
) -> Iterator[tuple[Choice, dict[int, Guess]]]:
    """Yield the ways in which all hinges of a message change unit, sign or kind of effort."""
    for topic in dict.fromkeys(recorded.axis.topic for recorded in scorer.recorded):
        rows = [
            row
            for row, recorded in enumerate(scorer.recorded)
            if recorded.axis.topic == topic
            if current[row].joint >= 0 and scorer.joints[current[row].joint].hinge
        ]
        measured = [row for row in rows if scorer.recorded[row].effort is not None]
        choices: list[tuple[Choice, list[int], dict[str, Any]]] = [
            # A mirrored arm moves as the arm does.
            (Choice.SIGN, rows, {'sign': 1}),
            (Choice.EFFORT, measured, {'torque': True}),
            (Choice.EFFORT, measured, {'torque': False, 'effort_sign': 1}),
        ]
        angles = units(Quantity.POSITION, hinge=True)
        choices += [(Choice.UNIT, rows, {'unit': unit}) for unit in angles]
        for choice, own, changes in choices:
            yield choice, {row: dataclasses.replace(current[row], **changes) for row in own}


def _doubt_units(scorer: Scorer, best: BestHypothesis) -> None:
    """Let an unknown unit of a message's positions be a rival of degrees and the like, in place.

    Positions of motors before their gears, or in parts of a range, lie within the range in degrees,
    too: what joints carry has to tell.
    """
    topics: dict[tuple[str, Unit], list[int]] = {}
    for row, (recorded, guess) in enumerate(zip(scorer.recorded, best.guesses, strict=True)):
        if guess.joint >= 0 and guess.unit.cost > 0 and not recorded.whole:
            topics.setdefault((recorded.axis.topic, guess.unit), []).append(row)
    for (_, unit), rows in topics.items():
        for factor in (1 / _MASSES, _MASSES):
            other = Unit('an unknown unit', factor * unit.factor, unit.cost)
            rival = list(best.guesses)
            for row in rows:
                rival[row] = dataclasses.replace(rival[row], unit=other)
            worse = best.verdict.evidence - scorer.score(rival).evidence
            for row in rows:
                known = best.margins.get((row, Choice.UNIT), math.inf)
                best.margins[row, Choice.UNIT] = min(known, max(worse, 0.0))
