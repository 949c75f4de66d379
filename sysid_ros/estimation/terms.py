# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What a model may lack, and what each such term would do to the residuals."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import mujoco
import numpy as np
from mujoco.rollout import Rollout
from numpy.typing import NDArray

from sysid_ros.estimation.residuals import Record, Residuals
from sysid_ros.model.joints import SCALAR_JOINTS
from sysid_ros.rollout.measurement import SENSORS
from sysid_ros.rollout.pool import unlogged

Array = NDArray[np.float64]

_PHYSICS = mujoco.mjtState.mjSTATE_FULLPHYSICS.value
_INPUTS = mujoco.mjtState.mjSTATE_CTRL.value | mujoco.mjtState.mjSTATE_QFRC_APPLIED.value
#: Friction is larger near rest up to about these parts of the joint's fastest speed.
_NEAR_REST = (0.03, 0.1, 0.3)
#: The sign of a speed or of a force changes over this part of the largest.
_SIGN = 0.02
#: Terms are tried in this part of the forces, gains, masses and gravity that are there: far above
#: rounding, and so small that what they do is in proportion.
_SMALL = 1e-3
#: What is between an encoder and its link is tried in that part of this, rad or m.
_TURNED = 0.01
#: Links do not follow faster changes of what they carry than over this time, s; rows as far apart
#: as this part of it tell them, so many at least.
_SLUGGISH, _EACH, _FEWEST_ROWS = 0.01, 0.6, 4
#: What nobody would have noticed: a part of a force or mass, s, rad.
_PERCENT, _MILLISECOND, _DEGREE = 0.01, 1e-3, np.pi / 180
#: So many numbers are recorded at once, at most.
_LARGEST_RECORD = 4e6


class TermKind(enum.StrEnum):
    """What a model may lack."""

    STRIBECK = 'friction that is larger near rest (Stribeck)'
    DRAG = 'friction that grows with the square of the speed'
    ASYMMETRY = 'asymmetric friction or another constant force'
    LOAD = 'friction that grows with the load'
    SPRING = 'a spring'
    ELASTICITY = 'elasticity'
    BACKLASH = 'backlash'
    GAIN = 'another gain'
    DELAY = 'another delay of the commands'
    PAYLOAD = 'another mass'
    TILT = 'another direction of gravity'
    OFFSET = 'a clock offset'
    DRIFT = 'a clock drift'

    @property
    def remedy(self) -> str:
        """What to do where it moves parameters, for people."""
        if self in (TermKind.OFFSET, TermKind.DRIFT):
            return 'stamp states and commands by one clock, or synchronise their clocks'
        return 'add that to the model, or record motion on which it has no effect'

    def measured(self, amount: float, error: float) -> str:
        """Say how much of a clock's there is, with its standard error; empty of other kinds."""
        if self is TermKind.OFFSET:
            way = 'are late' if amount > 0 else 'are early'
            return f'{way} by {1e3 * abs(amount):.3g} ± {1e3 * error:.2g} ms'
        if self is TermKind.DRIFT:
            way = 'run fast' if amount > 0 else 'run slow'
            return f'{way} by {1e6 * abs(amount):.3g} ± {1e6 * error:.2g} ppm'
        return ''


class Term(NamedTuple):
    """Something that a model may lack.

    Attributes:
        lack: What it is.
        where: Name of the joint, actuator, body or recording that it is of; empty where of all.
        change: (n,) change of the residuals by one unit of it.
        amount: So much of it that nobody would have noticed; 0 where that cannot be said.
        assumed: That amount, for people.
    """

    lack: TermKind
    where: str
    change: Array
    amount: float = 0.0
    assumed: str = ''

    @property
    def title(self) -> str:
        """What it is and where, for people."""
        return f'{self.lack} of {self.where!r}' if self.where else str(self.lack)


class _Try(NamedTuple):
    """A simulation with a term.

    Attributes:
        lack: What it is.
        where: Of what.
        force: (steps, nv) generalised forces that are added, if any.
        control: (steps, nu) controls in place of the sequence's, if others.
        model: In place of the nominal one, if another.
        amount: Of the term.
        assumed: Of the term.
    """

    lack: TermKind
    where: str
    force: Array | None = None
    control: Array | None = None
    model: mujoco.MjModel | None = None
    amount: float = 0.0
    assumed: str = ''


class _Motion:
    """What a sequence's simulation does without any term.

    Attributes:
        model: The model.
        control: (steps, nu) when it acts.
        record: What is recorded, a row per state.
    """

    def __init__(
        self, model: mujoco.MjModel, control: Array, start: dict[str, Array], threads: int
    ) -> None:
        self.model, self.control = model, control
        self._start, self._threads = start, threads
        data = mujoco.MjData(model)
        data.qpos[:], data.qvel[:], data.act[:] = start['qpos'], start['qvel'], start['act']
        self._physics = np.empty(mujoco.mj_stateSize(model, _PHYSICS))
        mujoco.mj_getState(model, data, self._physics, _PHYSICS)
        self._places = {'qpos': 1, 'qvel': 1 + model.nq, 'act': 1 + model.nq + model.nv}
        (record,) = self.simulate([_Try(TermKind.GAIN, '')])
        self.record = record

    def simulate(self, tries: Sequence[_Try]) -> Iterator[Record]:
        """Yield what each simulation records, a row per state, the first being the start."""
        model, steps = self.model, len(self.control)
        width = len(self._physics) + model.nsensordata + model.nu + model.nv
        most = max(int(_LARGEST_RECORD / (steps * width)), 1)
        with Rollout(nthread=self._threads) as pool:
            data = [mujoco.MjData(model) for _ in range(self._threads)]
            for first in range(0, len(tries), most):
                some = tries[first : first + most]
                inputs = np.zeros((len(some), steps, model.nu + model.nv))
                for place, each in enumerate(some):
                    control = self.control if each.control is None else each.control
                    inputs[place, :, : model.nu] = control
                    if each.force is not None:
                        inputs[place, :, model.nu :] = each.force
                with unlogged():
                    states, sensors = pool.rollout(
                        [each.model or model for each in some],
                        data,
                        np.tile(self._physics, (len(some), 1)),
                        inputs,
                        control_spec=_INPUTS,
                        nstep=steps,
                    )
                for state, read in zip(states, sensors, strict=True):
                    found = {SENSORS: read}
                    for source, place in self._places.items():
                        start = self._start[source]
                        after = state[:-1, place : place + len(start)]
                        found[source] = np.concatenate([start[None], after])
                    yield found

    def forces(self) -> Array:
        """Return the (steps, nv) forces of actuators on single joints."""
        model, found = self.model, np.zeros((len(self.control), self.model.nv))
        for actuator in range(model.nactuator):
            joint = int(model.actuator_trnid[actuator, 0])
            if (
                model.actuator_trntype[actuator] != mujoco.mjtTrn.mjTRN_JOINT
                or model.actuator_gaintype[actuator] != mujoco.mjtGain.mjGAIN_FIXED
                or model.actuator_dyntype[actuator] != mujoco.mjtDyn.mjDYN_NONE
                or int(model.jnt_type[joint]) not in SCALAR_JOINTS
                or model.actuator_ctrlnum[actuator] != 1
            ):
                continue
            gear = model.actuator_gear[actuator, 0]
            dof, place = int(model.jnt_dofadr[joint]), int(model.jnt_qposadr[joint])
            column = int(model.actuator_ctrladr[actuator])
            control = self.control[:, column]
            if model.actuator_ctrllimited[column]:
                control = np.clip(control, *model.actuator_ctrlrange[column])
            force = model.actuator_gainprm[actuator, 0] * control
            if model.actuator_biastype[actuator] == mujoco.mjtBias.mjBIAS_AFFINE:
                bias = model.actuator_biasprm[actuator]
                force = force + bias[0] + bias[1] * gear * self.record['qpos'][:, place]
                force = force + bias[2] * gear * self.record['qvel'][:, dof]
            if model.actuator_forcelimited[actuator]:
                force = np.clip(force, *model.actuator_forcerange[actuator])
            found[:, dof] += gear * force
        return found


def terms(residuals: Residuals, x: Array) -> list[Term]:
    """Return what terms that the model may lack would do to the residuals at a (p,) candidate.

    Each is simulated in an amount so small that what it does is in proportion; what is between an
    encoder and its link is added to what the encoder reads, and clocks move what was simulated.
    There are none where motions are prescribed or driven by laws that MuJoCo lacks, and none that
    do nothing.
    """
    if any(s.prescribed or s.drives is not None for s in residuals.simulators):
        return []
    motions = [
        _Motion(model, simulator.applied(index, x), simulator.start(index, x), simulator.threads)
        for simulator in residuals.simulators
        for model in [simulator.compiled(x)]
        for index in range(len(simulator.runs))
    ]
    sizes = _sizes(motions)
    changes: dict[tuple[TermKind, str, int], Array] = {}
    amounts: dict[int, tuple[float, str]] = {}
    slopes = np.zeros(len(residuals.samples.time))
    for index, motion in enumerate(motions):
        rows, at = residuals.rows(index), residuals.of_record(index, x, motion.record)
        tries = [*_tries(motion, sizes), *_behind(motion)]
        amounts = {number: (each.amount, each.assumed) for number, each in enumerate(tries)}
        for number, (each, record) in enumerate(zip(tries, motion.simulate(tries), strict=True)):
            change = changes.setdefault(
                (each.lack, each.where, number), np.zeros(len(residuals.samples.time))
            )
            change[rows] = (residuals.of_record(index, x, record) - at) / _SMALL
        ahead = {field: row + np.gradient(row, axis=0) for field, row in motion.record.items()}
        slopes[rows] = at - residuals.of_record(index, x, ahead)
        slopes[rows] /= motion.model.opt.timestep
    found = [
        Term(lack, where, change, *amounts.get(number, ()))
        for (lack, where, number), change in changes.items()
    ]
    found += _clocks(residuals, slopes)
    return [term for term in found if np.all(np.isfinite(term.change)) and np.any(term.change)]


def _clocks(residuals: Residuals, slopes: Array) -> Iterator[Term]:
    """Yield what another clock of states than of commands does in each recording.

    Stamps that are late by s belong to what is predicted for t - s.

    Args:
        residuals: What was fitted.
        slopes: (n,) derivative of what is predicted by time, in units of the noise, 1/s.
    """
    samples = residuals.samples
    origins = np.array([run.sequence.origin_ns for run in residuals.runs])
    time = 1e-9 * (origins - origins.min())[samples.sequence] + samples.time
    bags = np.array(samples.bags)[samples.sequence]
    every = tuple(dict.fromkeys(samples.bags))
    for bag in every:
        own = (bags == bag) & (samples.sensor >= 0)
        if own.any():
            late = np.where(own, slopes, 0.0)
            # Of all there is, it is what a delay of the commands is.
            if len(every) > 1:
                yield Term(TermKind.OFFSET, bag, late)
            middle = (time[own].min() + time[own].max()) / 2
            yield Term(TermKind.DRIFT, bag, late * (time - middle))


class _Size(NamedTuple):
    """How far and fast a joint moves in all sequences, and how strong its drive is.

    Attributes:
        reach: From its least to its greatest position.
        fastest: Its greatest speed.
        strongest: The greatest force of its actuators; 0 where that is not known.
        usual: Their root mean square, 1 where that is not known.
    """

    reach: float
    fastest: float
    strongest: float
    usual: float


def _joints(model: mujoco.MjModel) -> Iterator[tuple[str, int, int]]:
    """Yield name, degree of freedom and place in ``qpos`` of each hinge and slide."""
    for joint in range(model.njnt):
        if int(model.jnt_type[joint]) in SCALAR_JOINTS:
            dof, place = int(model.jnt_dofadr[joint]), int(model.jnt_qposadr[joint])
            yield model.joint(joint).name or f'joint {joint}', dof, place


def _sizes(motions: Sequence[_Motion]) -> dict[str, _Size]:
    """Return the size of each joint's motion: a term is as large in one sequence as in others."""
    found: dict[str, list[tuple[Array, Array, Array]]] = {}
    for motion in motions:
        forces = motion.forces()
        for name, dof, place in _joints(motion.model):
            record = motion.record
            rows = record['qpos'][:, place], record['qvel'][:, dof], forces[:, dof]
            found.setdefault(name, []).append(rows)
    sizes = {}
    for name, parts in found.items():
        angle, speed, force = (np.concatenate(rows) for rows in zip(*parts, strict=True))
        sizes[name] = _Size(
            float(np.ptp(angle)) or 1.0,
            float(np.abs(speed).max()) or 1.0,
            float(np.abs(force).max()),
            float(np.sqrt(np.mean(force**2))) or 1.0,
        )
    return sizes


def _tries(motion: _Motion, sizes: Mapping[str, _Size]) -> Iterator[_Try]:
    """Yield the simulations with terms of a sequence, the same ones for each."""
    model, forces = motion.model, motion.forces()
    for name, dof, place in _joints(model):
        size, force = sizes[name], forces[:, dof]
        angle, speed = motion.record['qpos'][:, place], motion.record['qvel'][:, dof]
        moves = speed / size.fastest
        way = np.tanh(moves / _SIGN)
        shapes = [
            *((TermKind.STRIBECK, -way * np.exp(-((moves / part) ** 2))) for part in _NEAR_REST),
            (TermKind.DRAG, -way * moves**2),
            (TermKind.ASYMMETRY, np.ones_like(speed)),
            (TermKind.SPRING, -angle / size.reach),
        ]
        if size.strongest:
            load = force / size.strongest
            shapes += [(TermKind.LOAD, -way * np.abs(load)), (TermKind.GAIN, load)]
        for lack, shape in shapes:
            added = np.zeros((len(speed), model.nv))
            added[:, dof] = _SMALL * size.usual * shape
            percent = _PERCENT * size.strongest / size.usual if lack is TermKind.GAIN else 0.0
            more = f'1 % more force of the drive of {name!r}'
            yield _Try(lack, name, force=added, amount=percent, assumed=more)
    before = np.concatenate([motion.control[:1], motion.control[:-1]])
    late = (1.0 - _SMALL) * motion.control + _SMALL * before
    steps = _MILLISECOND / model.opt.timestep
    yield _Try(TermKind.DELAY, '', control=late, amount=steps, assumed='commands 1 ms later')
    gravity = model.opt.gravity
    for axis, name in enumerate('xyz'):
        other = model.__copy__()
        other.opt.gravity[axis] += _SMALL * (float(np.linalg.norm(gravity)) or 1.0)
        across = abs(gravity[axis]) < _SMALL * float(np.linalg.norm(gravity))
        degree = f'gravity turned by 1° toward {name}'
        yield _Try(
            TermKind.TILT, '', model=other, amount=_DEGREE if across else 0.0, assumed=degree
        )
    for body in range(1, model.nbody):
        if model.body_mass[body] > 0:
            other = model.__copy__()
            other.body_mass[body] *= 1.0 + _SMALL
            mujoco.mj_setConst(other, mujoco.MjData(other))
            name = model.body(body).name or f'body {body}'
            more = f'1 % more mass of {name!r}'
            yield _Try(TermKind.PAYLOAD, name, model=other, amount=_PERCENT, assumed=more)


def _behind(motion: _Motion) -> Iterator[_Try]:
    """Yield the simulations with something between the motor and encoder of a joint and its link.

    The motor goes where it went; its link is elsewhere by a small δ, and needs other forces there,
    which the motor feels: f(q + δ) - f(q), f being the inverse dynamics of the links alone.
    """
    from scipy.interpolate import interp1d  # noqa: PLC0415 (slow to import)
    from scipy.ndimage import gaussian_filter1d  # noqa: PLC0415

    links = motion.model.__copy__()
    links.dof_armature[:] = links.dof_damping[:] = links.dof_frictionloss[:] = 0.0
    links.jnt_stiffness[:] = 0.0
    links.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_CONSTRAINT)
    timestep, steps = links.opt.timestep, len(motion.control)
    # What is as sluggish needs no row for each step.
    rows = np.arange(0, steps, max(int(_EACH * _SLUGGISH / timestep), 1))
    if len(rows) < _FEWEST_ROWS:
        return
    apart = timestep * (rows[1] - rows[0])

    def sluggish(values: Array) -> Array:
        width = _SLUGGISH / timestep
        return np.asarray(gaussian_filter1d(values, width, axis=0, mode='nearest'))[rows]

    qpos, qvel = motion.record['qpos'][rows], sluggish(motion.record['qvel'])
    qacc = sluggish(np.gradient(motion.record['qvel'], timestep, axis=0))
    data = mujoco.MjData(links)

    def needed(at: Array, speeds: Array, accelerations: Array) -> Array:
        found = np.empty_like(speeds)
        for row in range(len(at)):
            data.qpos[:], data.qvel[:], data.qacc[:] = at[row], speeds[row], accelerations[row]
            mujoco.mj_inverse(links, data)
            found[row] = data.qfrc_inverse
        return found

    plain = needed(qpos, qvel, qacc)
    for name, dof, place in _joints(motion.model):
        carried = plain[:, dof]
        strongest = float(np.abs(carried).max())
        if not strongest:
            continue
        load = carried / strongest
        for lack, shape in (
            (TermKind.ELASTICITY, load),
            (TermKind.BACKLASH, np.tanh(load / _SIGN)),
        ):
            turned = -_SMALL * _TURNED * gaussian_filter1d(shape, _SLUGGISH / apart, mode='nearest')
            moved = qpos.copy(), qvel.copy(), qacc.copy()
            moved[0][:, place] += turned
            moved[1][:, dof] += (rate := np.gradient(turned, apart))
            moved[2][:, dof] += np.gradient(rate, apart)
            felt = interp1d(rows, plain - needed(*moved), axis=0, fill_value='extrapolate')
            yield _Try(lack, name, force=felt(np.arange(steps)))
