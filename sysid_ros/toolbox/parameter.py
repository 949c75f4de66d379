# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Parameters of an identification as users write them, with the names of MuJoCo's toolbox.

A :class:`Parameter` is mutable and may have any shape; the solver works on the scalars that it is
made of (:func:`unknowns_of`).
"""

from __future__ import annotations

import copy
import enum
import os
from collections import UserDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import mujoco
import numpy as np
import yaml
from numpy.typing import ArrayLike, NDArray

from sysid_ros.config.schema import Scale
from sysid_ros.errors import ParameterError, SysidError, nearest, one_sentence
from sysid_ros.files import beside, read_text, replace_file
from sysid_ros.model.targets import Target, Unknown, resolve
from sysid_ros.text import parse_yaml

Array = NDArray[np.float64]
#: Edits a spec so that it has the parameter's value; what it returns is not used.
ModifierFn: TypeAlias = Callable[[mujoco.MjSpec, 'Parameter'], object]

_SCALES = ('linear', 'log')
#: A value within this part of the range between the bounds is on a bound, as in MuJoCo's toolbox.
AT_BOUND = 1e-3
_NEEDED = ('name', 'nominal', 'min_value', 'max_value', 'value', 'frozen')


class InertiaType(enum.Enum):
    """Whether a parameter is a mass, also the centre of mass, or all ten numbers of an inertia."""

    Mass = 0
    MassIpos = 1
    Pseudo = 2


class _Value(np.ndarray[Any, np.dtype[np.float64]]):
    """An array that, where it has one element, converts to a number, as before NumPy 2.4."""

    def __float__(self) -> float:
        return float(self.item())


class Parameter:
    """A quantity to identify: a number or an array of them, with bounds, which may be infinite.

    Attributes:
        nominal: What the value is taken to be beforehand; ``reset`` goes back to it.
        frozen: Whether the fit leaves the value alone; it is still written to the model.
        modifier: Writes the value to a spec; None where there is none. Where there is a target
            too, the modifier must do what the target says: the fit may use either.
        target: Path of what the value is written to, such as ``joint/elbow/armature``, with
            wildcards for several elements that share it.
        unit: Unit of the value, for tables.
        prior: Mean and standard deviation of what is known before the fit.
        scale: ``'log'`` where the value, positive, may be wrong by a factor.
        inertia_type: Set by ``body_inertia_param``, as is ``scale_rot_inertia``.
    """

    def __init__(
        self,
        name: str,
        nominal: ArrayLike,
        min_value: ArrayLike,
        max_value: ArrayLike,
        frozen: bool = False,
        modifier: ModifierFn | None = None,
        *,
        target: str | None = None,
        unit: str = '',
        prior: tuple[ArrayLike, ArrayLike] | None = None,
        scale: Scale = 'linear',
    ) -> None:
        """Describe a parameter, whose value starts at ``nominal``."""
        self.name, self.frozen, self.modifier = name, frozen, modifier
        self.unit, self.scale = unit, scale
        self._shape: tuple[int, ...] = ()
        self.nominal = self._numbers(nominal, 'nominal value')
        self._shape = self.nominal.shape
        self.min_value = self._numbers(min_value, 'lower bound', finite=False)
        self.max_value = self._numbers(max_value, 'upper bound', finite=False)
        self.reset()
        self.target = target
        self.prior: tuple[Array, Array] | None = None
        if prior is not None:
            words = ('mean of the prior', 'standard deviation of the prior')
            mean, deviation = (self._numbers(p, w) for p, w in zip(prior, words, strict=True))
            if np.any(deviation <= 0):
                raise ParameterError(
                    f'The prior of parameter {name!r} needs a standard deviation above 0, '
                    f'found {deviation.min():g}.'
                )
            self.prior = mean, deviation
        self.inertia_type: InertiaType | None = None
        self.scale_rot_inertia = False
        if scale not in _SCALES:
            raise ParameterError(
                f'Unknown scale {scale!r} of parameter {name!r}; {nearest(scale, _SCALES)}.'
            )
        self.get_bounds()

    @property
    def value(self) -> Array:
        """Current value, float, of the parameter's shape.

        A number or flat array may be assigned; it is copied and takes the parameter's shape. With
        one component it converts to a number wherever MuJoCo expects one.
        """
        return self._value

    @value.setter
    def value(self, values: ArrayLike) -> None:
        self._value: Array = self._numbers(values, 'value').view(_Value)

    @property
    def size(self) -> int:
        """Number of components."""
        return int(np.prod(self._shape))

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the value; ``(1,)`` for a number."""
        return self._shape

    def apply_modifier(self, spec: mujoco.MjSpec) -> None:
        """Write the value to a spec with the modifier, if there is one."""
        if self.modifier is None:
            return
        try:
            self.modifier(spec, self)
        except SysidError:
            raise
        except Exception as err:
            raise ParameterError(
                f'The modifier of parameter {self.name!r} failed: {_explained(err)}.'
            ) from err

    def as_vector(self) -> Array:
        """Return a copy of the value, flat (size,)."""
        return np.array(self._value).reshape(-1)

    def as_nominal_vector(self) -> Array:
        """Return a copy of the nominal value, flat (size,)."""
        return self._numbers(self.nominal, 'nominal value').reshape(-1)

    def update_from_vector(self, vector: ArrayLike) -> None:
        """Set the value from a flat, finite vector (size,), which is copied."""
        self.value = vector

    def get_bounds(self) -> tuple[Array, Array]:
        """Return copies of the lower and upper bounds, each flat (size,)."""
        bounds = (self.min_value, 'lower bound'), (self.max_value, 'upper bound')
        low, high = (self._numbers(b, what, finite=False).reshape(-1) for b, what in bounds)
        for position in np.flatnonzero(~(low <= high)):
            raise ParameterError(
                f'The bounds of parameter {self.component_names()[position]!r} are reversed: '
                f'expected lower <= upper, found [{low[position]:g}, {high[position]:g}].'
            )
        least = min(low.min(), self.nominal.min()) if self.scale == 'log' else 1.0
        if least <= 0:
            raise ParameterError(
                f'Parameter {self.name!r} has a log scale, expected lower bounds and a nominal '
                f'value above 0, found {least:g}.'
            )
        return low, high

    def component_names(self, name: str | None = None) -> list[str]:
        """Return a name for each component: ``name``, or ``name[0]``, or ``name[0,1]``."""
        name = self.name if name is None else name
        if self.size == 1:
            return [name]
        return [f'{name}[{",".join(map(str, index))}]' for index in np.ndindex(self.shape)]

    def reset(self) -> None:
        """Set the value to the nominal one."""
        self.value = self.nominal

    def sample(self, rng: np.random.Generator | None = None) -> Array:
        """Draw a value (size,) from within the bounds, evenly on the parameter's scale."""
        rng = np.random.default_rng() if rng is None else rng
        low, high = self.get_bounds()
        if not np.all(np.isfinite(low) & np.isfinite(high)):
            raise ParameterError(
                f'Parameter {self.name!r} cannot be sampled, expected finite bounds.'
            )
        if self.scale == 'log':
            return np.clip(np.exp(rng.uniform(np.log(low), np.log(high))), low, high)
        return rng.uniform(low, high)

    def move_off_bound(self, fraction: float = 0.05, at_bound_tol: float = AT_BOUND) -> None:
        """Move components on a bound, or beyond, inside by a fraction of the range of the scale.

        A component within ``at_bound_tol`` of the range is on a bound; one without two finite
        bounds has no range and stays.
        """
        low, high = self.get_bounds()
        bounded = np.isfinite(low) & np.isfinite(high)
        low, high, value = low[bounded], high[bounded], self.as_vector()
        inside = np.clip(value[bounded], low, high)
        if self.scale == 'log':
            low, high, inside = np.log(low), np.log(high), np.log(inside)
        span = high - low
        at_low, at_high = inside - low <= at_bound_tol * span, high - inside <= at_bound_tol * span
        moved = np.where(at_high, high - fraction * span, low + fraction * span)
        moved = np.exp(moved) if self.scale == 'log' else moved
        value[bounded] = np.where(at_low | at_high, moved, value[bounded])
        self.value = value

    def __repr__(self) -> str:
        low, high = np.min(self.min_value), np.max(self.max_value)
        value = ', '.join(f'{number:.4g}' for number in self.as_vector())
        text = f'{self.name}: {value if self.size == 1 else f"[{value}]"} ∈ [{low:.4g}, {high:.4g}]'
        return text + (f' {self.unit}' if self.unit else '') + (' (frozen)' if self.frozen else '')

    def __deepcopy__(self, memo: dict[int, Any]) -> Parameter:
        """Copy everything but the modifier, which stays the same object: it may hold models."""
        other = type(self).__new__(type(self))
        memo[id(self)] = other
        for key, entry in self.__dict__.items():
            other.__dict__[key] = entry if key == 'modifier' else copy.deepcopy(entry, memo)
        return other

    def _numbers(self, values: ArrayLike, what: str, *, finite: bool = True) -> Array:
        """Return values in the parameter's shape, which one number may stand for."""
        try:
            array = np.array(values, dtype=np.float64)
        except (TypeError, ValueError) as err:
            raise ParameterError(
                f'The {what} of parameter {self.name!r} must be numbers, found {values!r}.'
            ) from err
        if np.any(np.isnan(array)) or (finite and not np.all(np.isfinite(array))):
            raise ParameterError(
                f'The {what} of parameter {self.name!r} must be finite, found {array.tolist()}.'
            )
        if not self._shape:  # of the nominal value, which gives the shape
            return np.atleast_1d(array)
        if array.size not in {1, self.size}:
            raise ParameterError(
                f'Parameter {self.name!r} has {self.size} component(s), expected a {what} with as '
                f'many, found shape {array.shape}.'
            )
        return np.full(self._shape, array.reshape(self._shape if array.size > 1 else ()))


class ParameterDict(UserDict[str, Parameter]):
    """Parameters by name, in the order in which they were added.

    Frozen parameters are left out of vectors, bounds and names; they are still written to the
    model, at the value that they have.
    """

    def __init__(self, parameters: Mapping[str, Parameter] | None = None) -> None:
        """Collect parameters; the names here count, should the parameters' differ."""
        self.data: dict[str, Parameter] = {}
        for name, parameter in (parameters or {}).items():
            self[name] = parameter

    @property
    def parameters(self) -> dict[str, Parameter]:
        """The parameters by name."""
        return self.data

    def __missing__(self, key: str) -> Parameter:
        raise ParameterError(f'No parameter {key!r}; {nearest(str(key), self.data)}.')

    def __setitem__(self, key: str, value: Parameter) -> None:
        if not isinstance(value, Parameter):
            raise ParameterError(
                f'Expected a Parameter under {key!r}, found {type(value).__name__}.'
            )
        self.data[key] = value

    def copy(self) -> ParameterDict:
        """Return a deep copy; modifiers are shared with it."""
        return copy.deepcopy(self)

    def add(self, param: Parameter) -> None:
        """Add a parameter under its own name, which must be new."""
        self.update({param.name: param})

    def update(self, pdict: Mapping[str, Parameter]) -> None:  # type: ignore[override]
        """Add parameters of new names, which are shared with the other collection."""
        for name in pdict:
            if name in self.data:
                raise ParameterError(
                    f'There is a parameter {name!r} already; give one of them another name.'
                )
        self.data.update(ParameterDict(pdict))

    @property
    def size(self) -> int:
        """Number of components of the parameters that are not frozen."""
        return sum(parameter.size for parameter in self._free().values())

    def as_vector(self, include_frozen: bool = False) -> Array:
        """Return the values, flat; those of frozen parameters only on demand."""
        chosen = self.data if include_frozen else self._free()
        return _joined(parameter.as_vector() for parameter in chosen.values())

    def as_nominal_vector(self, include_frozen: bool = False) -> Array:
        """Return the nominal values, flat; those of frozen ones only on demand."""
        chosen = self.data if include_frozen else self._free()
        return _joined(parameter.as_nominal_vector() for parameter in chosen.values())

    def update_from_vector(self, vector: ArrayLike) -> None:
        """Set what is not frozen to (size,) values, in the order of :meth:`as_vector`."""
        values = self._checked(vector, 'values')
        for name, value in zip(self.get_non_frozen_parameter_names(), values, strict=True):
            if not np.isfinite(value):
                raise ParameterError(f'The value of parameter {name!r} must be finite.')
        start = 0
        for parameter in self._free().values():
            parameter.update_from_vector(values[start : start + parameter.size])
            start += parameter.size

    def get_bounds(self) -> tuple[Array, Array]:
        """Return the lower and upper bounds (size,) of the parameters that are not frozen."""
        bounds = [parameter.get_bounds() for parameter in self._free().values()]
        return _joined(low for low, _ in bounds), _joined(high for _, high in bounds)

    def get_non_frozen_parameter_names(self) -> list[str]:
        """Return a name for each entry of the vector: ``mass``, ``gains[0]``, ``map[0,1]``."""
        free = self._free().items()
        return [component for name, p in free for component in p.component_names(name)]

    def reset(self) -> None:
        """Set every parameter, frozen ones too, to its nominal value."""
        for parameter in self.data.values():
            parameter.reset()

    def sample(self, rng: np.random.Generator | None = None) -> Array:
        """Draw a vector (size,) from within the bounds, evenly on each parameter's scale."""
        rng = np.random.default_rng() if rng is None else rng
        return _joined(parameter.sample(rng) for parameter in self._free().values())

    def randomize(self, rng: np.random.Generator | None = None) -> None:
        """Set the parameters that are not frozen to a :meth:`sample`."""
        self.update_from_vector(self.sample(rng))

    def move_off_bounds(
        self, fraction: float = 0.05, at_bound_tol: float = AT_BOUND
    ) -> ParameterDict:
        """Call :meth:`Parameter.move_off_bound` on what is not frozen; return itself."""
        for parameter in self._free().values():
            parameter.move_off_bound(fraction=fraction, at_bound_tol=at_bound_tol)
        return self

    def on_bounds(self) -> Array:
        """Return (size,) -1 where a value is on its lower bound, 1 on its upper one, else 0."""
        low, high = self.get_bounds()
        slack = np.nan_to_num(AT_BOUND * (high - low), posinf=0.0)
        x = self.as_vector()
        return np.where(x - low <= slack, -1.0, np.where(high - x <= slack, 1.0, 0.0))

    def compare_parameters(
        self,
        init_params: ArrayLike,
        predicted_params: ArrayLike,
        measured_params: ArrayLike | None = None,
        sig_digits: int = 4,
    ) -> str:
        """Lay out (size,) values before and after a fit side by side, in plain text.

        ``measured_params`` are nominal or true values to compare with. Values on a bound are
        marked. The last lines have the root mean square of the relative errors and changes.
        """
        if not self.size:
            return 'No non-frozen parameters to compare.'
        found = self.copy()
        found.update_from_vector(predicted_params)
        low, high = self.get_bounds()
        given = {'Initial': init_params, 'Nominal': measured_params}
        given |= {'Identified': found.as_vector(), 'Lower': low, 'Upper': high}
        values = {
            title: self._checked(vector, f'{title.lower()} values')
            for title, vector in given.items()
            if vector is not None
        }
        columns = {'Parameter': self.get_non_frozen_parameter_names()}
        for title, vector in values.items():
            columns[title] = [f'{value:.{sig_digits}g}' for value in vector]
        summary = []
        for title, word in (('Nominal', 'Err'), ('Initial', 'Del')):
            if title in values:
                change, size = np.abs(values['Identified'] - values[title]), np.abs(values[title])
                share = np.divide(change, size, out=np.full_like(size, np.nan), where=size > 0)
                columns[f'Abs {word}'] = [f'{value:.{sig_digits}g}' for value in change]
                columns[f'Rel {word}'] = [f'{100 * value:.3g}%' for value in share]
                rms = np.sqrt(np.mean(share[size > 0] ** 2)) if np.any(size > 0) else np.nan
                summary.append(f'RMS Rel {word}: {100 * rms:.3g}%')
        columns['Unit'] = [p.unit for p in self._free().values() for _ in range(p.size)]
        notes = {-1.0: 'at lower bound', 0.0: '', 1.0: 'at upper bound'}
        columns[''] = [notes[side] for side in found.on_bounds()]
        rows = []
        for title, column in columns.items():
            if any(column):
                width = max(map(len, (title, *column)))
                align = str.ljust if title in {'Parameter', 'Unit', ''} else str.rjust
                rows.append([align(cell, width) for cell in (title, '-' * width, *column)])
        lines = ['  '.join(row).rstrip() for row in zip(*rows, strict=True)]
        return '\n'.join([*lines, *summary])

    def save_to_disk(self, path: str | os.PathLike[str]) -> None:
        """Write the parameters to a YAML file that MuJoCo's toolbox reads too.

        Modifiers are functions and not stored; targets, scales, priors and units are.
        """
        content = {name: _entry(parameter) for name, parameter in self.data.items()}
        text = yaml.safe_dump(
            content, default_flow_style=False, allow_unicode=True, sort_keys=False
        )
        replace_file(Path(path), text.encode())

    @classmethod
    def load_from_disk(cls, path: str | os.PathLike[str]) -> ParameterDict:
        """Read what :meth:`save_to_disk`, here or in MuJoCo's toolbox, wrote; without modifiers."""
        path = Path(path)
        if not path.is_file():
            raise ParameterError(f'No parameter file {str(path)!r}; {beside(path)}.')
        try:
            content = parse_yaml(read_text(path))
        except (yaml.YAMLError, UnicodeDecodeError) as err:
            raise ParameterError(
                f'The parameter file {str(path)!r} is not YAML: {" ".join(str(err).split())}.'
            ) from err
        if not isinstance(content, dict):
            found = type(content).__name__
            raise ParameterError(
                f'Expected a mapping of names to parameters in {str(path)!r}, found {found}.'
            )
        return cls({str(n): _parameter(str(n), entry, path) for n, entry in content.items()})

    def __repr__(self) -> str:
        return '\n'.join(['ParameterDict(', *(f'  {p!r}' for p in self.data.values()), ')'])

    def _free(self) -> dict[str, Parameter]:
        return {name: entry for name, entry in self.data.items() if not entry.frozen}

    def _checked(self, vector: ArrayLike, what: str) -> Array:
        array = np.atleast_1d(np.asarray(vector, dtype=np.float64))
        if array.shape != (self.size,):
            raise ParameterError(
                f'Expected {self.size} {what}, one per component that is not frozen, '
                f'found shape {array.shape}.'
            )
        return array


def _joined(vectors: Iterable[Array]) -> Array:
    return np.concatenate([np.empty(0), *vectors])


def _explained(error: Exception) -> str:
    """Say in one clause what happened in a modifier, and how to mend it where that is known."""
    text = f'{type(error).__name__}: {one_sentence(error) or "no message"}'
    if isinstance(error, TypeError) and 'incompatible function arguments' in text:
        return (
            'TypeError: MuJoCo does not take the number or array; write parameter.value[0] for a '
            'number, and damping[0] = parameter.value[0] for damping and stiffness, polynomials of '
            'three coefficients since MuJoCo 3.7'
        )
    if isinstance(error, AttributeError) and "'NoneType'" in text:
        return f'{text}; the spec has no element of that name'
    return text


def _entry(parameter: Parameter) -> dict[str, Any]:
    low, high = parameter.get_bounds()
    vectors = (parameter.as_nominal_vector(), low, high, parameter.as_vector())
    arrays = {
        name: vector.reshape(parameter.shape).tolist()
        for name, vector in zip(_NEEDED[1:5], vectors, strict=True)
    }
    kind = parameter.inertia_type
    more = {
        'target': parameter.target,
        'unit': parameter.unit or None,
        'prior': parameter.prior and [part.tolist() for part in parameter.prior],
        'scale': None if parameter.scale == 'linear' else parameter.scale,
        'inertia_type': kind and kind.name,
        'scale_rot_inertia': None if kind is None else parameter.scale_rot_inertia,
    }
    told = {key: value for key, value in more.items() if value is not None}
    return {'name': parameter.name, **arrays, 'frozen': bool(parameter.frozen), **told}


def _parameter(name: str, entry: Any, path: Path) -> Parameter:
    missing = [key for key in _NEEDED if not isinstance(entry, dict) or key not in entry]
    if missing:
        raise ParameterError(
            f'Parameter {name!r} in {str(path)!r} lacks {missing[0]!r}; '
            f'expected {", ".join(_NEEDED)}.'
        )
    ours = {key: entry[key] for key in ('target', 'unit', 'prior', 'scale') if key in entry}
    given = [entry[key] for key in ('nominal', 'min_value', 'max_value', 'frozen')]
    parameter = Parameter(str(entry['name']), *given, **ours)
    parameter.value = entry['value']
    kind = entry.get('inertia_type')
    if kind is not None:
        if kind not in InertiaType.__members__:
            choices = nearest(str(kind), InertiaType.__members__)
            raise ParameterError(f'Unknown inertia type {kind!r} of parameter {name!r}; {choices}.')
        parameter.inertia_type = InertiaType[kind]
        parameter.scale_rot_inertia = bool(entry.get('scale_rot_inertia', False))
    return parameter


def unknowns_of(
    params: ParameterDict,
    model: mujoco.MjModel | None = None,
    sequences: Sequence[str] = (),
    *,
    frozen: bool = False,
    spec: mujoco.MjSpec | None = None,
) -> tuple[Unknown, ...]:
    """Return an unknown per component of every parameter that is not frozen.

    On demand, those that are follow, with their value as bounds. Without a model there are no
    targets.
    """
    found = []
    for parameter in sorted(params.values(), key=lambda parameter: parameter.frozen):
        if parameter.frozen and not frozen:
            continue
        values = parameter.as_vector()
        low, high = (values, values) if parameter.frozen else parameter.get_bounds()
        targets: list[tuple[Target, ...]] = [()] * parameter.size
        if model is not None:
            targets = component_targets(parameter, model, sequences, spec)
        mean, deviation = (part.reshape(-1) for part in parameter.prior or (values, values))
        for k, name in enumerate(parameter.component_names()):
            prior = (float(mean[k]), float(deviation[k])) if parameter.prior else None
            limits = float(low[k]), float(high[k])
            start = float(values[k])
            found.append(Unknown(name, targets[k], start, *limits, parameter.scale, prior))
    return tuple(found)


def check_targets(
    params: ParameterDict, models: Sequence[tuple[mujoco.MjModel, Sequence[str], mujoco.MjSpec]]
) -> None:
    """Check that every target is found in some model."""
    for path in (parameter.target for parameter in params.values() if parameter.target):
        if not any(_resolved(path, *known) for known in models):
            resolve(path, *models[0])  # raises, and says why


def component_targets(
    parameter: Parameter,
    model: mujoco.MjModel,
    sequences: Sequence[str] = (),
    spec: mujoco.MjSpec | None = None,
) -> list[tuple[Target, ...]]:
    """Return the targets that each component of a parameter writes in one model.

    A model that has nothing of what a path names is not affected; `check_targets` has all models.
    """
    if parameter.target is None:
        return [()] * parameter.size
    targets = _resolved(parameter.target, model, sequences, spec)
    if parameter.size == 1 or not targets:
        return [targets] * parameter.size
    if len(targets) % parameter.size:
        raise ParameterError(
            f'Parameter {parameter.name!r} has {parameter.size} components, but target '
            f'{parameter.target!r} names {len(targets)} values; expected one for each component.'
        )
    # Element by element, each with all of its components.
    return [tuple(targets[k :: parameter.size]) for k in range(parameter.size)]


def _resolved(
    path: str, model: mujoco.MjModel, sequences: Sequence[str], spec: mujoco.MjSpec | None
) -> tuple[Target, ...]:
    try:
        return resolve(path, model, sequences, spec)
    except ParameterError:
        return ()
