# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Model errors: what a model may lack, and whether residuals follow it.

Each entry of the catalogue is a column beside the parameters: what so much of it does to the
residuals. A score test says whether residuals follow it, and how far parameters would then move.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import mujoco
import numpy as np
import scipy
from mujoco.rollout import Rollout
from numpy.typing import NDArray

from sysid_ros.errors import listed
from sysid_ros.estimation.residuals import Record, Residuals
from sysid_ros.inference.covariance import (
    CHANCE,
    QUANTILE,
    Linear,
    channel_noises,
    longest_memory,
    smoothed,
    student,
    within,
)
from sysid_ros.model.elements import SCALAR_JOINTS
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
#: Links do not follow faster changes of what they carry than over this time, s.
_SLUGGISH = 0.01
#: So often a term is found at most, or those of all joints at once.
_MOST = 4
#: A term of which less than this part is left once parameters follow is theirs.
_OWN = 1e-3
#: Terms that are by themselves this part as many standard errors from zero as the most certain one
#: explain the residuals nearly as well.
_NEARLY = 0.5
#: Noise is taken to be alike over this part of a recording at most.
_LONGEST_MEMORY = 0.1
#: A term is a parameter, and not taken for granted, where their changes have this cosine; what is
#: left of it once parameters follow is seen if it is so many standard errors.
_SAME, _SEEN = 0.99, 4.0


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
        return _title([self])


def _title(terms: Sequence[Term]) -> str:
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
        way = np.tanh(moves / _SIGN)
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
        for lack, shape in (
            (TermKind.ELASTICITY, load),
            (TermKind.BACKLASH, np.tanh(load / _SIGN)),
        ):
            turned = -_SMALL * _TURNED * sluggish(shape, apart)
            rate = np.gradient(turned, apart)
            moved = qpos.copy(), qvel.copy(), qacc.copy()
            moved[0][:, place] += turned
            moved[1][:, dof] += rate
            moved[2][:, dof] += np.gradient(rate, apart)
            felt = make_interp_spline(rows, plain - needed(*moved), k=1)
            yield _Trial(lack, name, force=felt(np.arange(steps)))


class Lacking(NamedTuple):
    """A term that the residuals follow."""

    lack: TermKind
    title: str  # what it is and where
    sigmas: float  # how many standard errors its amount is from none
    share: float  # part of the remaining cost that it removes, after those before it
    own: Array  # (p,) by how much parameters change with it, more than with those before it


class Lacks(NamedTuple):
    """What the model lacks."""

    terms: tuple[Lacking, ...]  # the most certain kind first; none where residuals are noise
    instead: tuple[str, ...]  # titles of what explains residuals nearly as well as the first
    shift: Array  # (p,) the most that parameters change, with all terms or what there is instead
    why: tuple[str, ...]  # (p,) what would change each so, and what to do about it
    notes: tuple[str, ...]  # what a reader of the intervals has to know, a sentence each


def lacking(linear: Linear, terms: Sequence[Term], half: Array) -> Lacks:
    """Find the terms that residuals follow, and how far parameters would move with them.

    A term is one more parameter that is zero: its amount is what one Gauss-Newton step makes of it,
    its standard error that which the noise inside of recordings gives it, as with a right model
    nothing else makes it differ from zero. Noise is what is left beside the term (a Wald test; A.
    Wald, Transactions of the American Mathematical Society 54, 1943). The most significant is taken
    into the model, or those that all joints have at once, and the others are tried again. What a
    model lacks is seldom just one of the terms, and several may explain the residuals about as
    well: the parameters may have to move as any of them would move them. What none of that shows is
    said where it would move a parameter by more than its half-width, of (p,).
    """
    count = len(linear.x)
    search = _Search(linear, terms) if terms else None
    chosen, instead = search.selected() if search else ([], [])
    granted = _granted(search, half) if search else ()
    if search is None or not chosen:
        return Lacks((), (), np.zeros(count), ('',) * count, granted)
    sigmas = dict(zip(chosen, search.sigmas(chosen).tolist(), strict=True))
    kinds: dict[TermKind, float] = {}
    for place, own_sigmas in sigmas.items():
        kinds[terms[place].lack] = max(kinds.get(terms[place].lack, 0.0), own_sigmas)
    chosen.sort(key=lambda place: (-kinds[terms[place].lack], -sigmas[place]))
    named = [terms[place] for place in chosen]
    problems = [search.beside(chosen[:number]) for number in range(len(chosen) + 1)]
    costs = np.array([float(problem.left @ problem.left) for problem in problems])
    # Steps are how far what is there is above the optimum.
    steps = np.zeros((len(problems), count + len(terms)))
    for row, problem in zip(steps, problems, strict=True):
        row[problem.free] = problem.step
    ways, shares = steps[:, :count], (costs[:-1] - costs[1:]) / costs[0]
    found = tuple(
        Lacking(term.lack, term.title, sigmas[place], float(share), own)
        for place, term, share, own in zip(chosen, named, shares, ways[:-1] - ways[1:], strict=True)
    )
    told = {_title([named[k] for k in each]) for each in _together(named)}
    others = [(each, own) for each, own in instead if _title(each) not in told]
    titles = tuple(_title(each) for each, _ in others)
    shifts = np.array([ways[0] - ways[-1], *(own for _, own in others)])
    most = np.argmax(np.abs(shifts), axis=0)
    mainly = np.argmax(np.abs([each.own for each in found]), axis=0)
    causes = [others[m - 1][0] if m else [named[k]] for m, k in zip(most, mainly, strict=True)]
    shift = shifts[most, np.arange(count)]
    why = tuple(
        f'With {_title(each)} it would be about {x + by:.3g} ({by:+.2g}): {each[0].lack.remedy}.'
        for each, x, by in zip(causes, linear.x, shift, strict=True)
    )
    follow = '; '.join(f'{each.title} ({each.sigmas:.2g} standard errors)' for each in found)
    also = f' Instead of the first, it may be {listed(titles)}.' if titles else ''
    note = (
        f'The model lacks something; residuals follow {follow}.{also} Intervals allow for what '
        'any of that would change.'
    )
    clocks = (_clock(terms[k], -steps[-1, count + k], sigmas[k]) for k in chosen)
    return Lacks(found, titles, shift, why, (note, *filter(None, clocks), *granted))


def _clock(term: Term, amount: float, sigmas: float) -> str:
    """Say what is wrong with the stamps of a recording; nothing of terms that are no clock's."""
    if term.lack is TermKind.OFFSET:
        way, size, unit = 'are late' if amount > 0 else 'are early', 1e3 * abs(amount), 'ms'
    elif term.lack is TermKind.DRIFT:
        way, size, unit = 'run fast' if amount > 0 else 'run slow', 1e6 * abs(amount), 'ppm'
    else:
        return ''
    return (
        f'Stamps of {term.where!r} {way} by {size:.3g} ± {size / sigmas:.2g} {unit} against its '
        f'commands: {term.lack.remedy}.'
    )


class _Search:
    """The terms as columns beside the parameters."""

    def __init__(self, linear: Linear, terms: Sequence[Term]) -> None:
        self.terms = terms
        self.held = linear.beside([term.change for term in terms])
        self.columns = len(linear.x) + np.arange(len(terms))

    def beside(self, chosen: Sequence[int]) -> Linear:
        """Return the problem with some terms as parameters."""
        return self.held.freed(self.columns[list(chosen)])

    def selected(self) -> tuple[list[int], list[tuple[list[Term], Array]]]:
        """Return the terms that residuals follow.

        And what explains them nearly as well as the first, with the (p,) changes of the parameters.
        """
        chosen: list[int] = []
        instead: list[tuple[list[Term], Array]] = []
        left = _together(self.terms)
        for _ in range(_MOST):
            sigmas, shifts = self._screened(chosen, left)
            best = int(np.argmax(sigmas))
            if self._by_chance(sigmas[best]):
                break
            if not chosen:
                near = np.argsort(-sigmas)[: int(np.sum(sigmas >= _NEARLY * sigmas[best]))]
                named = [([self.terms[place] for place in left[k]], shifts[k]) for k in near]
                # Of a kind, the fewest.
                alone = {own[0].lack for own, _ in named if len(own) == 1}
                instead = [e for e in named if len(e[0]) == 1 or e[0][0].lack not in alone]
            more = [place for place in left[best] if place not in chosen]
            left = [each for each in left if not set(each) <= set(more)]
            # What stood in for the new ones goes, unless they go themselves.
            found = self._certain([*chosen, *more])
            if set(more) & set(found):
                chosen = found
            if not left:
                break
        return chosen, instead

    def sigmas(self, chosen: Sequence[int]) -> Array:
        """Return by how many standard errors terms are not zero; what they explain is no noise."""
        problem = self.beside(chosen)
        noises = channel_noises(problem, problem.left)
        covariance, freedom = within(problem, problem.left, noises)
        deviation = np.sqrt(np.diag(covariance)) / problem.scale[problem.free]
        with np.errstate(invalid='ignore', divide='ignore'):
            sigmas = np.abs(problem.step) / deviation * (QUANTILE / student(freedom))
        own = np.searchsorted(problem.free, self.columns[list(chosen)])
        return np.nan_to_num(sigmas, nan=0.0, posinf=0.0)[own]

    def _by_chance(self, sigmas: float) -> bool:
        return bool(2 * scipy.special.ndtr(-sigmas) * len(self.terms) > CHANCE)

    def _certain(self, tried: list[int]) -> list[int]:
        """Leave out what may be zero: what is alike in two terms is certain of neither."""
        while tried:
            sigmas = self.sigmas(tried)
            least = int(np.argmin(sigmas))
            if not self._by_chance(sigmas[least]):
                break
            tried = [*tried[:least], *tried[least + 1 :]]
        return tried

    def _screened(
        self, chosen: Sequence[int], choices: Sequence[Sequence[int]]
    ) -> tuple[Array, Array]:
        """Return (k,) by how many standard errors terms are not zero, beside those there are.

        And (k, p) by how much parameters would change with them. Several terms at once count as
        many standard errors as are as improbable.

        What those and the terms explain is no noise: a term that explains most of the residuals
        would else make them look like noise with a long memory, in which nothing is certain.
        """
        problem, held = self.beside(chosen), self.held
        alike = longest_memory(channel_noises(problem, problem.left))
        found, shifts = np.zeros(len(choices)), np.zeros((len(choices), len(held.scale)))
        for number, own in enumerate(choices):
            columns = self.columns[list(own)]
            follows = problem.inverse @ held.gram[np.ix_(problem.free, columns)]
            rest = held.unit[:, columns] - problem.scaled @ follows
            products, score = rest.T @ rest, rest.T @ problem.left
            amount = -np.linalg.pinv(products, hermitian=True) @ score
            shifts[number, problem.free] = -(follows @ amount)
            if np.linalg.eigvalsh(products)[0] > _OWN:
                noise = rest * (problem.left + rest @ amount)[:, None]
                variance = sum(_summed(instants @ noise, alike) for instants in held.instants)
                size = np.sqrt(np.maximum(np.diag(variance), 1e-300))
                whitened = np.linalg.pinv(variance / np.outer(size, size), hermitian=True)
                squares = float((score / size) @ whitened @ (score / size))
                found[number] = _as_sigmas(max(squares, 0.0), len(own))
        return found, (shifts / held.scale)[:, : len(held.x)]


def _summed(series: Array, alike: float) -> Array:
    """Return the (k, k) covariance of the sums of (m, k) series."""
    # Over longer times, what terms have explained adds up to nothing.
    variance = series.T @ smoothed(series, min(alike, _LONGEST_MEMORY * len(series)))
    least, size = np.sum(series**2, axis=0), np.maximum(np.diag(variance), 1e-300)
    growth = np.sqrt(np.maximum(least / size, 1.0))
    return np.asarray(variance * np.outer(growth, growth))


def _together(terms: Sequence[Term]) -> list[list[int]]:
    """Return places of each term by itself, and of those of all joints, or all axes, at once.

    What a robot has in one joint, as elasticity, it often has in all.
    """
    kinds: dict[tuple[TermKind, int], list[int]] = {}
    seen: dict[tuple[TermKind, str], int] = {}
    for place, term in enumerate(terms):
        # Of those of a kind and a joint, the first of one joint belongs to the first of another.
        number = seen[term.lack, term.where] = seen.get((term.lack, term.where), -1) + 1
        if term.lack is not TermKind.PAYLOAD:
            kinds.setdefault((term.lack, number if term.where else 0), []).append(place)
    return [[place] for place in range(len(terms))] + [k for k in kinds.values() if len(k) > 1]


def _as_sigmas(squares: float, freedom: int) -> float:
    """Return by how many standard errors one number is off that is as improbable as χ² is.

    By the leading terms of both tails (M. Abramowitz and I. A. Stegun, Handbook of Mathematical
    Functions, 1964, 6.5.32 and 26.2.12), as probabilities are too small to be written.
    """
    if freedom == 1:
        return float(np.sqrt(squares))
    same = squares - (freedom - 1) * np.log(max(squares, 2.0) / 2)
    same += 2 * scipy.special.gammaln(freedom / 2) - np.log(np.pi)
    return float(np.sqrt(max(min(same, squares), 0.0)))


def _granted(search: _Search, half: Array) -> tuple[str, ...]:
    """Say which small errors of the model would move a parameter out of its interval unseen.

    The parameters stand in for them: they are where the residuals with the term are least, one
    Gauss-Newton step away. What is then left of it is seen if it is large beside the noise.
    """
    problem, found = search.held, []
    alike = longest_memory(channel_noises(problem, problem.residual))
    for term, column in zip(search.terms, search.columns, strict=True):
        along, amount = problem.gram[problem.free, column], term.amount * problem.scale[column]
        step = problem.inverse @ along
        left = amount * np.sqrt(max(1.0 - along @ step, 0.0))
        if np.any(np.abs(along) > _SAME) or left > _SEEN * np.sqrt(alike):
            continue
        shift = np.zeros(len(half))
        shift[problem.free] = -amount * step / problem.scale[problem.free]
        with np.errstate(invalid='ignore', divide='ignore'):
            widths = np.nan_to_num(np.abs(shift) / half, nan=0.0, posinf=0.0) * problem.lasting
        most = int(np.argmax(widths))
        if widths[most] > 1.0:
            value = problem.x[most] + shift[most]
            text = f'with {term.assumed}, {problem.unknowns[most].name} would be about {value:.3g}'
            found.append((widths[most], f'{text} ({widths[most]:.3g} half-widths off)'))
    if not found:
        return ()
    told = '; '.join(text for _, text in sorted(found, reverse=True)[:3])
    return (f'Taken for granted, as parameters would follow and residuals not tell: {told}.',)
