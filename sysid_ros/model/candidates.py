# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The models of candidates: values written into compiled models, or models compiled with them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple, Protocol, Self, TypeAlias

import mujoco
import numpy as np
from numpy.typing import NDArray

from sysid_ros.errors import FitError, ModelError, SysidError, one_sentence
from sysid_ros.model.elements import ROUNDING, SAME, subtree
from sysid_ros.model.inertia import INERTIAL_FIELDS, Inertial, body_from_theta, theta_from_body
from sysid_ros.model.kinds import Coupling, Role, read_field, write_field
from sysid_ros.model.targets import Target, Unknown, write_spec

Array: TypeAlias = NDArray[np.float64]
Places: TypeAlias = NDArray[np.int64]

#: What marks a frame as one that is computed.
APART = mujoco.mjtSameFrame.mjSAMEFRAME_NONE.value
#: Targets whose components after the first move a centre of mass.
_MASS_IPOS = frozenset({'mass_ipos', 'mass_ipos_scaled'})
#: Targets that may couple degrees of freedom of any body: through a tendon, or through a class.
_COUPLING = frozenset({('joint', 'pos'), ('tendon', 'armature'), ('actuator', 'armature')})
#: What compilers and callbacks raise where they refuse values.
_REFUSALS = (ValueError, ArithmeticError, mujoco.FatalError)
#: So many compiled models are kept: a candidate and its neighbours, and some before them.
_MOST_KEPT = 64
#: Fields that ``mj_setConst`` derives.
_DERIVED = frozenset(mujoco.MjModel._setconst_outputs)  # noqa: SLF001 (named nowhere else)
#: What acts through commands or measurements, and not in the simulation alone.
_NOT_LEARNT = frozenset({'actuator_delay', 'sensor_delay'})
#: The field that holds rest lengths: shortest and longest, per tendon.
_LENGTH = 'tendon_lengthspring'
#: Fields on which the length of a tendon in the reference pose depends.
_POSE = frozenset(
    {'qpos0', 'qpos_spring', 'body_pos', 'body_quat', 'jnt_pos', 'site_pos', 'site_quat'}
)


def _moved_frames(model: mujoco.MjModel, written: Mapping[str, Places]) -> dict[str, Places]:
    """Find the marks of the frames that candidates move.

    ``mj_setConst`` marks an inertial frame, geom or site within about 1e-6 of another frame as
    lying on it, and kinematics then copies that frame (MuJoCo 4.0). So the smallest moves, of which
    derivatives are made, would move nothing; unmarked, each frame is computed from its own numbers.
    Both are flat indices by field. Geoms and sites are found also where the inertial frame moves on
    which they may lie.
    """

    def rows(element: str, pos: str, quat: str) -> Places:
        nothing = np.empty(0, dtype=np.int64)
        moved = written.get(f'{element}_{pos}', nothing) // 3
        return np.union1d(moved, written.get(f'{element}_{quat}', nothing) // 4)

    bodies = rows('body', 'ipos', 'iquat')
    beside = np.flatnonzero(np.isin(model.site_bodyid, bodies))
    found = {
        'body_sameframe': bodies,
        'geom_sameframe': np.flatnonzero(np.isin(model.geom_bodyid, bodies)),
        'site_sameframe': np.union1d(rows('site', 'pos', 'quat'), beside),
    }
    return {field: marks for field, marks in found.items() if len(marks)}


def set_all_apart(model: mujoco.MjModel) -> None:
    """Let all frames of a model be computed: which of them a callback moves is not known."""
    for field in ('body_sameframe', 'geom_sameframe', 'site_sameframe'):
        getattr(model, field)[:] = APART


class _SpringLengths:
    """Rest lengths of tendons, which the compiler takes from the pose in which springs rest.

    ``mj_setConst`` leaves them as they are (MuJoCo 4.0), so they are computed where a candidate
    changes that pose or the geometry.
    """

    def __init__(self, model: mujoco.MjModel, tendons: Sequence[int]) -> None:
        self._model = model.__copy__()
        self._data = mujoco.MjData(self._model)
        self._tendons = list(tendons)
        self.indices = tuple(2 * tendon + side for tendon in tendons for side in range(2))

    @classmethod
    def following(
        cls,
        model: mujoco.MjModel,
        written: Mapping[str, Collection[int]],
        spec: mujoco.MjSpec | None,
    ) -> Self | None:
        """Find the rest lengths that change with what is written; None where there are none."""
        if not model.ntendon or _POSE.isdisjoint(written):
            return None
        every = cls(model, range(model.ntendon))
        rest = np.array(getattr(model, _LENGTH))
        if spec is None:
            lengths = every.lengths((), 1).reshape(rest.shape)
            follows = np.all(np.isclose(lengths, rest, rtol=ROUNDING, atol=ROUNDING), axis=1)
        else:
            given = [np.asarray(tendon.springlength) for tendon in spec.tendons]
            follows = np.array([bool(np.all(length == -1)) for length in given])
        for place in written.get(_LENGTH, ()):  # a target sets them
            follows[place // 2] = False
        return cls(model, np.flatnonzero(follows).tolist()) if np.any(follows) else None

    def lengths(self, assignments: Sequence[Assignment], count: int) -> Array:
        """Return the (count, 2 k) rest lengths of candidates, in the order of ``indices``."""
        made = np.empty((count, 2 * len(self._tendons)))
        for candidate in range(count):
            for field, index, data in assignments:
                write_field(self._model, field, index, data[candidate])
            # Frames that coincided in the nominal model need not do so in a candidate.
            mujoco.mj_setConst(self._model, self._data)
            self._data.qpos[:] = self._model.qpos_spring
            mujoco.mj_fwdPosition(self._model, self._data)
            made[candidate] = np.repeat(self._data.ten_length[self._tendons], 2)
        return made


class Assignment(NamedTuple):
    """Numbers (m, k) that m candidates put into k flat indices of one field of a model."""

    field: str
    index: NDArray[np.int64]  # type: ignore[assignment]  # hides tuple.index
    data: NDArray[np.float64]


class Linear(NamedTuple):
    """Numbers (k,) of one field that follow one value each: ``factor * value + offset``."""

    field: str
    places: Places  # flat indices in the field; in a `Writer`, places in the assignment of it
    columns: Places  # of the values
    factors: Array
    offsets: Array


#: Which numbers of each field are written, in the order in which they were first needed.
_Written: TypeAlias = dict[str, dict[int, int]]


def _add(places: _Written, field: str, indices: Iterable[int]) -> Places:
    """Return the places of flat indices in the assignment of a field, added where they are new."""
    inside = places.setdefault(field, {})
    return np.array([inside.setdefault(int(index), len(inside)) for index in indices], np.int64)


class Writer:
    """Turns candidates' values into numbers of compiled models.

    Numbers that follow one value each come first, then those of inertias and orientations that
    follow several; then factors are applied to masses, and rest lengths of tendons updated.

    Attributes:
        fields: The fields that are written.
        frames: Field of marks to flat indices: those of frames that move.
    """

    def __init__(
        self,
        model: mujoco.MjModel,
        targets: Sequence[tuple[Target, int]],
        *,
        spec: mujoco.MjSpec | None = None,
        learnt: Sequence[Linear] = (),
    ) -> None:
        """Find the numbers that values are written to: targets, each with the column of its value.

        Of two targets that write one number, the later wins. The spec knows which tendons rest at
        the length of the reference pose; without it, those do that have that length.
        """
        found = [(target, column) for target, column in targets if target.role is Role.FIELD]
        places: _Written = {}
        self._linear = tuple(
            each._replace(places=_add(places, each.field, each.places))
            for each in (*learnt, *_linear(model, found))
        )
        self._rules = list(_coupled_rules(model, found, places))
        self._springs = _SpringLengths.following(model, places, spec)
        if self._springs:
            _add(places, _LENGTH, self._springs.indices)
        self._index = {field: np.array(list(inside), np.int64) for field, inside in places.items()}
        self._nominal = {
            field: read_field(model, field)[index] for field, index in self._index.items()
        }
        self.fields = frozenset(self._index)
        self.frames = _moved_frames(model, self._index)

    @property
    def places(self) -> dict[str, set[int]]:
        """The flat indices that are written, by field."""
        return {field: set(index.tolist()) for field, index in self._index.items()}

    @property
    def constant(self) -> bool:
        """Whether nothing that ``mj_setConst`` derives depends on what is written.

        It reads no option that targets write.
        """
        return self.fields.isdisjoint(mujoco.MjModel._setconst_inputs)  # noqa: SLF001

    def assignments(self, values: Array) -> list[Assignment]:
        """Return what to write for (m, columns) values of candidates, in the targets' units."""
        count = len(values)
        data = {
            field: np.broadcast_to(nominal, (count, len(nominal))).copy()
            for field, nominal in self._nominal.items()
        }
        for field, places, columns, factors, offsets in self._linear:
            data[field][:, places] = values[:, columns] * factors + offsets
        for rule in self._rules:
            rule(values, data)
        made = [Assignment(field, self._index[field], data[field]) for field in data]
        if self._springs:
            inside = {index: place for place, index in enumerate(self._index[_LENGTH].tolist())}
            where = [inside[index] for index in self._springs.indices]
            data[_LENGTH][:, where] = self._springs.lengths(made, count)
        return made

    def write(self, model: mujoco.MjModel, values: Array) -> None:
        """Write one candidate's (columns,) values into a model; the caller runs ``mj_setConst``."""
        for field, index, data in self.assignments(np.asarray(values, dtype=np.float64)[None, :]):
            write_field(model, field, index, data[0])


def _linear(model: mujoco.MjModel, targets: list[tuple[Target, int]]) -> Iterator[Linear]:
    latest: dict[str, dict[int, tuple[int, float]]] = {}
    for target, column in targets:
        for slot in target.slots(model):
            latest.setdefault(slot.field, {})[slot.place] = (column, slot.factor)
    for field, inside in latest.items():
        columns, factors = map(np.array, zip(*inside.values(), strict=True))
        yield Linear(
            field, np.array(list(inside), np.int64), columns, factors, np.zeros(len(factors))
        )


def _coupled_rules(
    model: mujoco.MjModel, targets: list[tuple[Target, int]], places: _Written
) -> Iterator[Callable[[Array, dict[str, Array]], None]]:
    """Yield what puts (m, columns) values into (m, k) numbers that follow several of them."""
    bodies: dict[int, dict[int, int]] = {}
    for target, column in targets:
        if target.kind.coupling is Coupling.THETA:
            bodies.setdefault(target.row, {})[target.index or 0] = column
    for body, components in bodies.items():
        where = {
            field: _add(places, field, range(width * body, width * (body + 1)))
            for field, width in INERTIAL_FIELDS.items()
        }
        nominal = theta_from_body(*Inertial.of_body(model, body))
        yield partial(_put_inertia, where, nominal, components)
    turns: dict[tuple[str, int], dict[int, int]] = {}
    for target, column in targets:
        if target.kind.coupling is Coupling.TURN:
            own = turns.setdefault((f'{target.element}_quat', target.row), {})
            own[target.index or 0] = column
    for (field, row), components in turns.items():
        quat = np.array(getattr(model, field)[row], dtype=np.float64)
        own_places = _add(places, field, range(4 * row, 4 * (row + 1)))
        yield partial(_put_turn, field, own_places, quat, components)
    for target, column in targets:
        if target.kind.coupling is Coupling.SCALE:
            for body in subtree(model, target.row):
                yield partial(_scale, 'body_mass', _add(places, 'body_mass', [body]), column)
                moments = _add(places, 'body_inertia', range(3 * body, 3 * body + 3))
                yield partial(_scale, 'body_inertia', moments, column)


def _put_inertia(
    where: dict[str, Places],
    nominal: Array,
    components: dict[int, int],
    values: Array,
    data: dict[str, Array],
) -> None:
    """Put inertias that follow log-Cholesky parameters, of which values give some components."""
    theta = np.broadcast_to(nominal, (len(values), len(nominal))).copy()
    theta[:, list(components)] = values[:, list(components.values())]
    for (field, places), numbers in zip(where.items(), body_from_theta(theta), strict=True):
        data[field][:, places] = numbers.reshape(len(values), -1)


def _put_turn(
    field: str,
    where: Places,
    nominal: Array,
    components: dict[int, int],
    values: Array,
    data: dict[str, Array],
) -> None:
    """Put the (4,) orientation turned about its own axes, by vectors with some components."""
    for row, own in enumerate(values):
        turn, quat = np.zeros(3), nominal.copy()
        turn[list(components)] = own[list(components.values())]
        mujoco.mju_quatIntegrate(quat, turn, 1.0)
        data[field][row, where] = quat


def _scale(field: str, where: Places, column: int, values: Array, data: dict[str, Array]) -> None:
    data[field][:, where] *= values[:, column, None]


class CandidateError(ModelError):
    """No model can be built with the values of a candidate, though there may be with others."""


class Builder(Protocol):
    """What turns the values of a candidate into a model, beside targets."""

    @property
    def copies(self) -> bool:
        """Whether it leaves the spec that it gets as it is."""

    def build(self, values: NDArray[np.float64], spec: mujoco.MjSpec) -> mujoco.MjModel:
        """Compile the (p,) values of a candidate on a spec."""

    def describe(self, values: NDArray[np.float64]) -> str:
        """Return the (p,) values with their names, for an error."""


class Rebuild:
    """Compiles a model for a candidate.

    The user's spec is copied for each of them and never changed. Candidates that agree in what is
    compiled share a model, which the caller gets as a copy.

    Attributes:
        columns: Columns of a candidate that act through the compiler.
        learnt: What follows these columns in the compiled model, where that is all they do.
    """

    def __init__(
        self,
        spec: mujoco.MjSpec,
        unknowns: Sequence[Unknown],
        builder: Builder | None = None,
        columns: Sequence[int] = (),
    ) -> None:
        """Keep what a candidate is made of, with the columns that the builder reads."""
        self._unknowns = tuple(unknowns)
        targets = [target for unknown in unknowns for target in unknown.targets]
        self._spec = writable_spec(spec, targets)
        for target in targets:
            if target.role is Role.COMMAND and target.attribute == 'delay':
                # It is applied to the commands, not by the model as well.
                self._spec.actuator(target.name).delay = 0.0
        self._builder = builder
        self._written = [
            (target, column)
            for column, unknown in enumerate(unknowns)
            for target in unknown.targets
            if target.role is Role.SPEC
        ]
        self.columns = sorted({*columns, *(column for _, column in self._written)})
        self.learnt: tuple[Linear, ...] | None = None
        self._kept: dict[bytes, mujoco.MjModel] = {}
        self._built = False

    def __call__(self, values: NDArray[np.float64]) -> mujoco.MjModel:
        """Return a model of its own for the (p,) values of a candidate; see `shared`."""
        return self.shared(values).__copy__()

    def shared(self, values: NDArray[np.float64]) -> mujoco.MjModel:
        """Return the model for the (p,) values of a candidate, which must not be changed.

        Raises:
            CandidateError: The compiler or the builder refuses the values; the first candidate's
                error is what they raised themselves.
            FitError: The builder does not return a model.
        """
        key = np.ascontiguousarray(values[self.columns]).tobytes()
        if key not in self._kept:
            if len(self._kept) >= _MOST_KEPT:
                self._kept.clear()
            model = self._compile(values)
            set_all_apart(model)
            self._kept[key] = model
            self._built = True
        return self._kept[key]

    def _compile(self, values: NDArray[np.float64]) -> mujoco.MjModel:
        builder = self._builder
        copied = builder is not None and builder.copies and not self._written
        spec = self._spec if copied else self._spec.copy()
        for target, column in self._written:
            write_spec(spec, target, float(values[column]))
        if builder is None:
            try:
                return spec.compile()
            except (ValueError, mujoco.FatalError) as err:
                given = ', '.join(f'{target.path} = {values[c]:.6g}' for target, c in self._written)
                raise CandidateError(
                    f'Cannot compile the model with {given}: {one_sentence(err)}.'
                ) from err
        try:
            model = builder.build(values, spec)
        except _REFUSALS as err:
            # A mistake in the code of a callback is no refusal of values.
            refused = isinstance(err.__cause__ or err, _REFUSALS)
            if not self._built or not refused:
                raise
            text = str(err) if isinstance(err, SysidError) else f'{one_sentence(err)}.'
            raise CandidateError(
                f'No model can be built with {builder.describe(values)}: {text}'
            ) from err
        if not isinstance(model, mujoco.MjModel):
            raise FitError(
                f'Expected build_model to return an MjModel, found {type(model).__name__}.'
            )
        return model


def writable_spec(spec: mujoco.MjSpec, targets: Sequence[Target]) -> mujoco.MjSpec:
    """Copy a spec so that what targets write can be written after it was compiled.

    Bodies whose inertial frame or joints move are not compiled as "simple" (MuJoCo 4.0:
    ``mj_setConst`` refuses to end that). Where the model will be compiled again with values, gains
    that the compiler takes from a damping ratio become gains: see :func:`fitted_model`.
    """
    copy = spec.copy()
    for body in _made_general(copy, targets):
        body.simple = False
    if any(target.role is Role.SPEC for target in targets):
        _hold_gains(copy)
    return copy


def _made_general(spec: mujoco.MjSpec, targets: Sequence[Target]) -> Iterator[mujoco.MjsBody]:
    """Yield the bodies that must not be compiled as "simple"."""
    for target in targets:
        element, attribute = target.element_and_attribute
        first = target.index or 0
        if target.element == 'joint' and attribute == 'pos':
            yield spec.joint(target.name).parent
        elif target.element == 'actuator' and attribute == 'armature':
            if spec.actuator(target.name).trntype == mujoco.mjtTrn.mjTRN_TENDON:
                yield from spec.bodies
        elif (element, attribute) in _COUPLING:
            yield from spec.bodies
        elif element == 'body' and (
            attribute in {'ipos', 'inertia'} or (attribute in _MASS_IPOS and first > 0)
        ):
            yield spec.body(target.name)


def writable_model(spec: mujoco.MjSpec, targets: Sequence[Target]) -> mujoco.MjModel:
    """Compile a copy of a spec once, so that targets can be written into the model."""
    try:
        return writable_spec(spec, targets).compile()
    except (ValueError, mujoco.FatalError) as err:
        raise ModelError(f'Cannot compile the model: {one_sentence(err)}.') from err


def _hold_gains(spec: mujoco.MjSpec) -> None:
    """Replace damping ratios by the velocity gains that they compile to."""
    if not any(actuator.biasprm[2] > 0 for actuator in spec.actuators):  # a gain is negative there
        return
    compiled = spec.copy()
    model = compiled.compile()
    for actuator, copied in zip(spec.actuators, compiled.actuators, strict=True):
        if actuator.biasprm[2] > 0:
            actuator.biasprm[2] = model.actuator_biasprm[copied.id, 2]


def learn(rebuild: Rebuild, unknowns: Sequence[Unknown]) -> tuple[Linear, ...] | None:
    """Find which numbers of the compiled model follow values, each one value in a line.

    A callback that sets an armature changes one number so: candidates are then written as those of
    targets are, and need no compiler.

    All values are moved together, twice and by different ratios, so that the ratio of its two
    changes says which value a number follows. What was learnt is compared with the compiled model
    at both ends of the bounds.

    Returns:
        What follows the values; None where more than that does, or where the compiler or a
        callback refuses values within the bounds.
    """
    start, low, high = np.array([(u.nominal, u.min_value, u.max_value) for u in unknowns]).T
    reach = np.maximum(np.abs(start), 1.0)
    low = np.where(np.isfinite(low), low, start - reach)
    high = np.where(np.isfinite(high), high, start + reach)
    room = np.where(high - start >= start - low, high - start, low - start)
    moves = room * np.random.default_rng(0).uniform(0.1, 0.4, (2, len(start)))
    own = np.isin(np.arange(len(start)), rebuild.columns)
    try:
        base = rebuild.shared(start)
        moved = [rebuild.shared(np.where(own, start + move, start)) for move in moves]
        ends = [rebuild.shared(np.where(own, end, start)) for end in (low, high)]
    except CandidateError:  # each candidate that is refused is to say so
        return None
    learnt = _lines(base, moved, start, moves, np.flatnonzero(own))
    if learnt is None:
        return None
    targets = [(t, column) for column, each in enumerate(unknowns) for t in each.targets]
    written = Writer(base, targets).places
    for line in learnt:
        if line.field in _NOT_LEARNT or not written.get(line.field, set()).isdisjoint(line.places):
            return None
    writer, model = Writer(base, [], learnt=learnt), base.__copy__()
    for end, compiled in zip((low, high), ends, strict=True):
        writer.write(model, np.where(own, end, start))
        mujoco.mj_setConst(model, mujoco.MjData(model))
        set_all_apart(model)
        if not _equal(model, compiled, base):
            return None
    return learnt


def _arrays(model: mujoco.MjModel) -> dict[str, Array]:
    """Return the fields of a model that nothing derives, and its options, flat."""
    fields = {field: getattr(model, field) for field in mujoco.MjModel._all_fields}  # noqa: SLF001
    found = {k: v for k, v in fields.items() if k not in _DERIVED and isinstance(v, np.ndarray)}
    names = [name for name in dir(model.opt) if not name.startswith('_')]
    options = {f'opt.{name}': getattr(model.opt, name) for name in names}
    found.update({k: np.asarray(v) for k, v in options.items() if not callable(v)})
    return {field: np.ravel(value) for field, value in found.items()}


def _lines(
    base: mujoco.MjModel,
    moved: Sequence[mujoco.MjModel],
    start: Array,
    moves: Array,
    columns: NDArray[np.int64],
) -> tuple[Linear, ...] | None:
    """Return what two (2, p) moves of the values change; None where that follows no single one."""
    first, second = map(_arrays, moved)
    found = []
    for field, own in _arrays(base).items():
        if not own.shape == first[field].shape == second[field].shape:
            return None
        places = np.flatnonzero((own != first[field]) | (own != second[field]))
        if not len(places):
            continue
        if own.dtype.kind != 'f' or field.startswith('opt.'):
            return None
        changes = np.stack([first[field][places], second[field][places]]) - own[places]
        crossed = np.outer(changes[0], moves[1, columns]), np.outer(changes[1], moves[0, columns])
        size = np.abs(crossed[0]) + np.abs(crossed[1])
        apart = np.where(size > 0, np.abs(crossed[0] - crossed[1]) / np.maximum(size, 1e-300), 1.0)
        if np.any(apart.min(axis=1) > SAME):
            return None
        which = columns[np.argmin(apart, axis=1)]
        slopes = changes[0] / moves[0, which]
        short = np.round(slopes, 9)
        factors = np.where(np.abs(slopes - short) <= ROUNDING * np.abs(slopes), short, slopes)
        made = factors * start[which]
        offsets = own[places] - made
        offsets[np.abs(offsets) <= ROUNDING * np.maximum(np.abs(own[places]), np.abs(made))] = 0.0
        found.append(Linear(field, places, which, factors, offsets))
    return tuple(found)


def _equal(model: mujoco.MjModel, other: mujoco.MjModel, base: mujoco.MjModel) -> bool:
    """Whether two models are the same but for rounding where both come from the same one."""
    theirs, before = _arrays(other), _arrays(base)
    for field, own in _arrays(model).items():
        compared = theirs[field]
        if np.array_equal(own, compared):
            continue
        if compared.shape != own.shape or own.dtype.kind != 'f':
            return False
        size = max(np.abs(own).max(), np.abs(before[field]).max())
        if not np.all(np.abs(own - compared) <= SAME * size):
            return False
    return True
