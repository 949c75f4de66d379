# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What a model may lack: a catalogue of terms, and what so much of each does to the residuals."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import mujoco
import numpy as np
from mujoco.rollout import Rollout
from numpy.typing import NDArray

from sysid_ros.errors import listed
from sysid_ros.fit.residuals import Record, Residuals
from sysid_ros.model.elements import SCALAR_JOINTS
from sysid_ros.simulation.inverse import SLOW
from sysid_ros.simulation.runs import SENSORS
from sysid_ros.simulation.simulator import unlogged

Array = NDArray[np.float64]

_PHYSICS = mujoco.mjtState.mjSTATE_FULLPHYSICS.value
_INPUTS = mujoco.mjtState.mjSTATE_CTRL.value | mujoco.mjtState.mjSTATE_QFRC_APPLIED.value
#: Friction is larger near rest up to about these parts of the joint's fastest speed.
_NEAR_REST = (0.03, 0.1, 0.3)
#: Terms are tried in this part of the forces, gains, masses and gravity that are there: far above
#: rounding, and so small that what they do is in proportion.
_SMALL = 1e-3
#: What is between an encoder and its link is tried in that part of this, rad or m.
_TURNED = 0.01
#: Links do not follow faster changes of what they carry than over this time, s.
_SLUGGISH = 0.01


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
        """What to do where it moves parameters."""
        if self in (TermKind.OFFSET, TermKind.DRIFT):
            return 'stamp states and commands by one clock, or synchronise their clocks'
        return 'add that to the model, or record motion on which it has no effect'


class Term(NamedTuple):
    """Something that a model may lack."""

    lack: TermKind
    where: str  # joint, actuator, body or recording that it is of; empty where of all
    change: Array  # (n,) change of the residuals by one unit of it
    amount: float = 0.0  # so much that nobody would have noticed; 0 where that cannot be said
    assumed: str = ''  # that amount in words

    @property
    def title(self) -> str:
        """What it is and where."""
        return title([self])


def title(terms: Sequence[Term]) -> str:
    """Say what terms of a kind are."""
    places = [repr(term.where) for term in terms if term.where]
    return f'{terms[0].lack} of {listed(places)}' if places else str(terms[0].lack)


class _Trial(NamedTuple):
    """A simulation with a term: forces (steps, nv) added, other controls, or another model."""

    lack: TermKind = TermKind.GAIN
    where: str = ''
    amount: float = 0.0
    assumed: str = ''
    force: Array | None = None
    control: Array | None = None
    model: mujoco.MjModel | None = None


@dataclass
class _Motion:
    """The simulation of a sequence: its (steps, nu) controls, and its start by field."""

    model: mujoco.MjModel
    control: Array
    start: Mapping[str, Array]
    threads: int

    def __post_init__(self) -> None:
        (self.record,) = self.simulate([_Trial()])
        self.forces = self._forces()

    def simulate(self, trials: Sequence[_Trial]) -> Iterator[Record]:
        """Yield what each simulation records, a row per state, the first being the start."""
        model, steps = self.model, len(self.control)
        data = [mujoco.MjData(model) for _ in range(self.threads)]
        physics = np.empty(mujoco.mj_stateSize(model, _PHYSICS))
        places = {'qpos': 1, 'qvel': 1 + model.nq, 'act': 1 + model.nq + model.nv}
        for field, values in self.start.items():
            if field in places:
                getattr(data[0], field)[:] = values
        mujoco.mj_getState(model, data[0], physics, _PHYSICS)
        with Rollout(nthread=self.threads) as pool:
            for first in range(0, len(trials), self.threads):
                batch = trials[first : first + self.threads]
                inputs = np.zeros((len(batch), steps, model.nu + model.nv))
                for row, trial in zip(inputs, batch, strict=True):
                    row[:, : model.nu] = self.control if trial.control is None else trial.control
                    row[:, model.nu :] = 0.0 if trial.force is None else trial.force
                with unlogged():
                    states, sensors = pool.rollout(
                        [trial.model or model for trial in batch],
                        data,
                        np.tile(physics, (len(batch), 1)),
                        inputs,
                        control_spec=_INPUTS,
                        nstep=steps,
                    )
                for state, read in zip(states, sensors, strict=True):
                    after = np.concatenate([physics[None], state[:-1]])
                    record = {
                        field: after[:, place : place + len(self.start[field])]
                        for field, place in places.items()
                    }
                    yield {SENSORS: read, **record}

    def _forces(self) -> Array:
        """Return the (steps, nv) forces of the actuators on the joints."""
        model = _unconstrained(self.model)
        data, found = mujoco.MjData(model), np.empty((len(self.control), model.nv))
        for row, control in enumerate(self.control):
            data.ctrl[:] = control
            for field in ('qpos', 'qvel', 'act'):
                getattr(data, field)[:] = self.record[field][row]
            mujoco.mj_forward(model, data)
            found[row] = data.qfrc_actuator
        return found


def _unconstrained(model: mujoco.MjModel) -> mujoco.MjModel:
    """Return a copy without contacts, limits and dry friction."""
    free = model.__copy__()
    free.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_CONSTRAINT)
    return free


def terms(residuals: Residuals, x: Array) -> list[Term]:
    """Return what terms that the model may lack would do to the residuals at a (p,) candidate.

    Each is simulated in an amount so small that what it does is in proportion; what is between an
    encoder and its link is added to what the encoder reads, and clocks move what was simulated.
    Where motions are prescribed, only what reads the forces may be wrong. There are none where laws
    that MuJoCo lacks drive, and none that do nothing.
    """
    if len(residuals.simulators) == 1 and residuals.simulators[0].prescribed:
        return [term for term in _readings(residuals, x) if np.any(term.change)]
    if any(s.prescribed or s.drives is not None for s in residuals.simulators):
        return []
    motions = [
        _Motion(model, simulator.applied(index, x), simulator.start(index, x), simulator.threads)
        for simulator in residuals.simulators
        for model in [simulator.compiled(x)]
        for index in range(len(simulator.runs))
    ]
    # A term is as large in one sequence as in others.
    sizes: dict[str, Array] = {}
    for motion in motions:
        for name, _, *signals in _joints(motion):
            largest = np.abs(signals).max(axis=1)
            sizes[name] = np.maximum(sizes.get(name, 0.0), largest)
    found: dict[tuple[TermKind, str, int], Term] = {}
    count = len(residuals.samples.time)
    slopes = np.zeros(count)
    for index, motion in enumerate(motions):
        rows, at = residuals.rows(index), residuals.of_record(index, x, motion.record)
        trials = [*_trials(motion, sizes), *_behind(motion)]
        for number, (trial, record) in enumerate(zip(trials, motion.simulate(trials), strict=True)):
            lack, where, amount, assumed = trial[:4]
            new = Term(lack, where, np.zeros(count), amount, assumed)
            term = found.setdefault((lack, where, number), new)
            term.change[rows] = (residuals.of_record(index, x, record) - at) / _SMALL
        ahead = {field: row + np.gradient(row, axis=0) for field, row in motion.record.items()}
        slopes[rows] = at - residuals.of_record(index, x, ahead)
        slopes[rows] /= motion.model.opt.timestep
    every = [*found.values(), *_clocks(residuals, slopes)]
    return [term for term in every if np.all(np.isfinite(term.change)) and np.any(term.change)]


def _readings(residuals: Residuals, x: Array) -> Iterator[Term]:
    """Yield another gain of each sensor of forces: constants of motors are seldom known well.

    Masses of links take a scale of all of them up; what is left is how they differ.
    """
    changes: dict[int, Array] = {}
    (simulator,), count = residuals.simulators, len(residuals.samples.time)
    model = simulator.model
    for block in simulator.simulate(x[None], [np.zeros(1, dtype=np.int64)] * len(simulator.runs)):
        rows, record = residuals.rows(block.run), {key: v[0] for key, v in block.rows.items()}
        at = residuals.of_record(block.run, x, record)
        for column in np.flatnonzero(np.any(record[SENSORS], axis=0)).tolist():
            larger = record[SENSORS].copy()
            larger[:, column] *= 1 + _SMALL
            changed = residuals.of_record(block.run, x, {**record, SENSORS: larger})
            own = changes.setdefault(column, np.zeros(count))
            own[rows] = (changed - at) / _SMALL
    for column, change in changes.items():
        sensor = int(np.searchsorted(model.sensor_adr, column, side='right')) - 1
        yield Term(TermKind.GAIN, model.sensor(sensor).name, change)


def _clocks(residuals: Residuals, slopes: Array) -> Iterator[Term]:
    """Yield what another clock of states than of commands does in each recording.

    Stamps that are late by s belong to what is predicted for t - s, whose slopes are given.
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


def _joints(motion: _Motion) -> Iterator[tuple[str, tuple[int, int], Array, Array, Array]]:
    """Yield name, degree of freedom and place in ``qpos``, angle, speed and force of each joint."""
    model = motion.model
    for joint in range(model.njnt):
        if int(model.jnt_type[joint]) in SCALAR_JOINTS:
            dof, place = int(model.jnt_dofadr[joint]), int(model.jnt_qposadr[joint])
            angle, speed = motion.record['qpos'][:, place], motion.record['qvel'][:, dof]
            name = model.joint(joint).name or f'joint {joint}'
            yield name, (dof, place), angle, speed, motion.forces[:, dof]


def _trials(motion: _Motion, sizes: Mapping[str, Array]) -> Iterator[_Trial]:
    """Yield the simulations with terms of a sequence, the same ones for each."""
    model = motion.model
    for name, (dof, _), angle, speed, force in _joints(motion):
        reach, fastest, strongest = np.where(sizes[name] > 0, sizes[name], 1.0)
        moves, load = speed / fastest, force / strongest
        way = np.tanh(moves / SLOW)
        shapes = [
            *((TermKind.STRIBECK, -way * np.exp(-((moves / part) ** 2))) for part in _NEAR_REST),
            (TermKind.DRAG, -way * moves**2),
            (TermKind.ASYMMETRY, np.ones_like(speed)),
            (TermKind.SPRING, -angle / reach),
        ]
        if sizes[name][2] > 0:
            shapes += [(TermKind.LOAD, -way * np.abs(load)), (TermKind.GAIN, load)]
        for lack, shape in shapes:
            added = np.zeros((len(speed), model.nv))
            added[:, dof] = _SMALL * strongest * shape
            amount = 0.01 if lack is TermKind.GAIN else 0.0
            yield _Trial(lack, name, amount, f'1 % more force of the drive of {name!r}', added)
    before = np.concatenate([motion.control[:1], motion.control[:-1]])
    late = (1.0 - _SMALL) * motion.control + _SMALL * before
    steps = 1e-3 / model.opt.timestep
    yield _Trial(TermKind.DELAY, '', steps, 'commands 1 ms later', control=late)
    gravity = model.opt.gravity
    for axis, name in enumerate('xyz'):
        other = model.__copy__()
        other.opt.gravity[axis] += _SMALL * (float(np.linalg.norm(gravity)) or 1.0)
        across = abs(gravity[axis]) < _SMALL * float(np.linalg.norm(gravity))
        degree = np.pi / 180 if across else 0.0
        yield _Trial(TermKind.TILT, '', degree, f'gravity turned by 1° toward {name}', model=other)
    for body in range(1, model.nbody):
        if model.body_mass[body] > 0:
            other = model.__copy__()
            other.body_mass[body] *= 1.0 + _SMALL
            mujoco.mj_setConst(other, mujoco.MjData(other))
            name = model.body(body).name or f'body {body}'
            more = f'1 % more mass of {name!r}'
            yield _Trial(TermKind.PAYLOAD, name, 0.01, more, model=other)


def _behind(motion: _Motion) -> Iterator[_Trial]:
    """Yield the simulations with something between the motor and encoder of a joint and its link.

    The motor goes where it went; its link is elsewhere by a small δ, and needs other forces there,
    which the motor feels: f(q + δ) - f(q), f being the inverse dynamics of the links alone.
    """
    from scipy.interpolate import make_interp_spline  # noqa: PLC0415 (slow to import)
    from scipy.ndimage import gaussian_filter1d  # noqa: PLC0415

    links = _unconstrained(motion.model)
    links.dof_armature[:] = links.dof_damping[:] = 0.0
    links.jnt_stiffness[:] = 0.0
    timestep, steps = links.opt.timestep, len(motion.control)
    # What is as sluggish needs no row for each step.
    rows = np.arange(0, steps, max(int(_SLUGGISH / timestep / 2), 1))
    if len(rows) < 4:  # noqa: PLR2004 (no second derivative)
        return
    apart = timestep * (rows[1] - rows[0])

    def sluggish(values: Array, each: float = timestep) -> Array:
        width = _SLUGGISH / each
        return np.asarray(gaussian_filter1d(values, width, axis=0, mode='nearest'))

    qpos, qvel = motion.record['qpos'][rows], sluggish(motion.record['qvel'])[rows]
    qacc = sluggish(np.gradient(motion.record['qvel'], timestep, axis=0))[rows]
    data = mujoco.MjData(links)

    def needed(at: Array, speeds: Array, accelerations: Array) -> Array:
        found = np.empty_like(speeds)
        for row in range(len(at)):
            data.qpos[:], data.qvel[:], data.qacc[:] = at[row], speeds[row], accelerations[row]
            mujoco.mj_inverse(links, data)
            found[row] = data.qfrc_inverse
        return found

    plain = needed(qpos, qvel, qacc)
    for name, (dof, place), *_ in _joints(motion):
        strongest = float(np.abs(plain[:, dof]).max())
        if not strongest:
            continue
        load = plain[:, dof] / strongest
        for lack, shape in ((TermKind.ELASTICITY, load), (TermKind.BACKLASH, np.tanh(load / SLOW))):
            turned = -_SMALL * _TURNED * sluggish(shape, apart)
            rate = np.gradient(turned, apart)
            moved = qpos.copy(), qvel.copy(), qacc.copy()
            moved[0][:, place] += turned
            moved[1][:, dof] += rate
            moved[2][:, dof] += np.gradient(rate, apart)
            felt = make_interp_spline(rows, plain - needed(*moved), k=1)
            yield _Trial(lack, name, force=felt(np.arange(steps)))
