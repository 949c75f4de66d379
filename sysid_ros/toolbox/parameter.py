# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Parameters of an identification as users write them, with the names of MuJoCo's toolbox.

A :class:`Parameter` is mutable and may have any shape; the solver works on the scalars that it is
made of (``sysid_ros.model.unknown``). What it writes is a ``target``, a path in the model, or a
``modifier``, a function that edits a spec. A :class:`ParameterDict` is the vector that a solver
moves, a table for people, and a YAML file that MuJoCo's toolbox writes and reads too.
"""

from __future__ import annotations

import copy
import enum
import math
import os
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import mujoco
import numpy as np
import yaml
from numpy.typing import ArrayLike, NDArray

from sysid_ros.config.calibration import Scale
from sysid_ros.errors import ParameterError, SysidError, nearest
from sysid_ros.files import replace_file
from sysid_ros.yaml_text import parse_yaml

Array = NDArray[np.float64]


#: Edits a spec so that it has the parameter's value; what it returns is not used.
ModifierFn: TypeAlias = Callable[[mujoco.MjSpec, 'Parameter'], object]

__all__ = ['InertiaType', 'ModifierFn', 'Parameter', 'ParameterDict', 'component_names']
_SCALES = ('linear', 'log')
#: Attributes that are polynomials since MuJoCo 3.7: an array of three instead of a number.
_POLYNOMIALS = ('damping', 'stiffness')
#: A value is on a bound within this share of the range between the bounds.
_AT_BOUND = 1e-3
_NEEDED = ('name', 'nominal', 'min_value', 'max_value', 'value', 'frozen')


class InertiaType(enum.Enum):
    """Which numbers of a body's inertia a parameter holds.

    Attributes:
        Mass: The mass.
        MassIpos: The mass and the centre of mass.
        Pseudo: Ten numbers that are mass, centre of mass and rotational inertia together; see
            ``sysid_ros.model.inertia``.
    """

    Mass = 0
    MassIpos = 1
    Pseudo = 2


class _Value(np.ndarray[Any, np.dtype[np.float64]]):
    """An array that, where it has one element, converts to a number.

    NumPy 2.4 took that from arrays with axes, and with it modifiers such as
    ``spec.joint('elbow').armature = parameter.value``.
    """

    def __float__(self) -> float:
        return float(self.item())


class Parameter:
    """A quantity to identify: a number or an array of them, with bounds.

    Attributes:
        frozen: Whether the fit leaves the value alone; it is still written to the model.
        modifier: Writes the value to a spec; None where there is none. Where there is a target
            too, the modifier must do what the target says: the fit may use either.
        target: What the value is written to: a path such as ``joint/elbow/armature``, with
            wildcards for several elements that share the value, or a sequence with one path for
            each component. None where only the modifier knows.
        unit: Unit of the value, for tables; empty where unknown.
        prior: Mean and standard deviation, each of the value's shape, of what is known before
            the fit; None where only the bounds are known.
        scale: ``'log'`` where the value, positive, may be wrong by a factor: the fit then moves
            its logarithm.
        inertia_type: Set by ``body_inertia_param``.
        scale_rot_inertia: Set by ``body_inertia_param``.
    """

    inertia_type: InertiaType | None
    scale_rot_inertia: bool

    def __init__(  # noqa: PLR0913 (the toolbox's signature)
        self,
        name: str,
        nominal: ArrayLike,
        min_value: ArrayLike,
        max_value: ArrayLike,
        frozen: bool = False,  # noqa: FBT002 (the toolbox's signature)
        modifier: ModifierFn | None = None,
        *,
        target: str | Sequence[str] | None = None,
        unit: str = '',
        prior: tuple[ArrayLike, ArrayLike] | None = None,
        scale: Scale = 'linear',
    ) -> None:
        """Describe a parameter; the attributes say what the arguments are.

        The start value ``nominal`` is finite; a number is stored as an array of one element.
        Bounds and prior are numbers for all components, or arrays of the nominal's shape; bounds
        may be infinite.

        Raises:
            ParameterError: A shape, bound, prior or scale is not valid.
        """
        self.name = name
        self._nominal = np.atleast_1d(self._numbers(nominal, 'nominal value', finite=True))
        self._min_value = self._shaped(min_value, 'lower bound')
        self._max_value = self._shaped(max_value, 'upper bound')
        self._value: Array = self._nominal.copy().view(_Value)
        self.frozen = frozen
        self.modifier = modifier
        self.target = target if target is None or isinstance(target, str) else tuple(target)
        self.unit = unit
        self.prior = None if prior is None else self._checked_prior(prior)
        self.scale = scale
        self.inertia_type = None
        self.scale_rot_inertia = False
        if scale not in _SCALES:
            raise ParameterError(
                f'Unknown scale {scale!r} of parameter {name!r}; {nearest(scale, _SCALES)}.'
            )
        if isinstance(self.target, tuple) and len(self.target) != self.size:
            raise ParameterError(
                f'Parameter {name!r} has {self.size} components, '
                f'expected as many targets, found {len(self.target)}.'
            )
        self.get_bounds()
        if scale == 'log' and np.any(self._nominal <= 0):
            raise ParameterError(
                f'Parameter {name!r} has a log scale, expected a nominal value above 0.'
            )

    @property
    def nominal(self) -> Array:
        """Start value, float, of the parameter's shape; assigning keeps the shape."""
        return self._nominal

    @nominal.setter
    def nominal(self, values: ArrayLike) -> None:
        self._nominal = self._shaped(values, 'nominal value', finite=True)

    @property
    def min_value(self) -> Array:
        """Lower bound of each component."""
        return self._min_value

    @min_value.setter
    def min_value(self, values: ArrayLike) -> None:
        self._min_value = self._shaped(values, 'lower bound')

    @property
    def max_value(self) -> Array:
        """Upper bound of each component."""
        return self._max_value

    @max_value.setter
    def max_value(self, values: ArrayLike) -> None:
        self._max_value = self._shaped(values, 'upper bound')

    @property
    def value(self) -> Array:
        """Current value, float, of the parameter's shape.

        A number or flat array may be assigned; it is copied and takes the parameter's shape. With
        one component it converts to a number wherever MuJoCo expects one.
        """
        return self._value

    @value.setter
    def value(self, values: ArrayLike) -> None:
        array = self._numbers(values, 'value', finite=True)
        if array.size != self.size:
            raise ParameterError(
                f'Parameter {self.name!r} has {self.size} component(s), '
                f'expected a value with as many, found {array.size}.'
            )
        self._value = array.reshape(self.shape).view(_Value)

    @property
    def size(self) -> int:
        """Number of components."""
        return self._nominal.size

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the value; ``(1,)`` for a number."""
        return self._nominal.shape

    def apply_modifier(self, spec: mujoco.MjSpec) -> None:
        """Write the value to a spec with the modifier, if there is one.

        Raises:
            ParameterError: The modifier failed; the message says on what and, where it is one of
                the usual slips, what to write instead.
        """
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
        return np.array(self._nominal).reshape(-1)

    def update_from_vector(self, vector: ArrayLike) -> None:
        """Set the value from a flat, finite vector (size,), which is copied."""
        self.value = vector

    def get_bounds(self) -> tuple[Array, Array]:
        """Return copies of the lower and upper bounds, each flat (size,).

        Raises:
            ParameterError: They are reversed, or not positive with a log scale.
        """
        low = np.array(self._min_value).reshape(-1)
        high = np.array(self._max_value).reshape(-1)
        for position in np.flatnonzero(~(low <= high)):
            raise ParameterError(
                f'The bounds of parameter {self.component_names()[position]!r} are reversed: '
                f'expected lower <= upper, found [{low[position]:g}, {high[position]:g}].'
            )
        if self.scale == 'log' and np.any(low <= 0):
            raise ParameterError(
                f'Parameter {self.name!r} has a log scale, '
                f'expected lower bounds above 0, found {low.min():g}.'
            )
        return low, high

    def component_names(self) -> list[str]:
        """Return a name for each component: ``name``, or ``name[0]``, or ``name[0,1]``."""
        return component_names(self.name, self.shape)

    def reset(self) -> None:
        """Set the value to the nominal one."""
        self.value = self._nominal

    def sample(self, rng: np.random.Generator | None = None) -> Array:
        """Draw a value (size,) from within the bounds, evenly on the parameter's scale.

        Raises:
            ParameterError: A bound is infinite.
        """
        rng = np.random.default_rng() if rng is None else rng
        low, high = self.get_bounds()
        if not np.all(np.isfinite(low) & np.isfinite(high)):
            raise ParameterError(
                f'Parameter {self.name!r} cannot be sampled, expected finite bounds.'
            )
        if self.scale == 'log':
            drawn = np.exp(rng.uniform(np.log(low), np.log(high)))
            return np.clip(drawn, low, high)
        return rng.uniform(low, high)

    def move_off_bound(self, fraction: float = 0.05, at_bound_tol: float = 1e-3) -> None:
        """Move the components that are on a bound into the interior.

        A gradient that points out of the bounds holds a component that starts there.

        Args:
            fraction: How far in, as a share of the range between the bounds on the parameter's
                scale.
            at_bound_tol: A component within this share of the range from a bound, or beyond the
                bound, is on it. Components without two finite bounds have no range and stay.
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
        if self.size == 1:
            low, value, high = self._min_value.item(), self._value.item(), self._max_value.item()
            text = f'{self.name}: {value:.4g} ∈ [{low:.4g}, {high:.4g}]'
        else:
            low, high = self._min_value.min(), self._max_value.max()
            text = f'{self.name}: array of shape {self.shape} ∈ [{low:.4g}, {high:.4g}]'
        return text + (f' {self.unit}' if self.unit else '') + (' (frozen)' if self.frozen else '')

    def __deepcopy__(self, memo: dict[int, Any]) -> Parameter:
        """Copy everything but the modifier, which stays the same object: it may hold models."""
        other = type(self).__new__(type(self))
        memo[id(self)] = other
        for key, entry in self.__dict__.items():
            other.__dict__[key] = entry if key == 'modifier' else copy.deepcopy(entry, memo)
        return other

    def _numbers(self, values: ArrayLike, what: str, *, finite: bool = False) -> Array:
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
        return array

    def _shaped(self, values: ArrayLike, what: str, *, finite: bool = False) -> Array:
        array = self._numbers(values, what, finite=finite)
        if array.size == 1:
            return np.full(self.shape, array.item())
        if array.shape != self.shape:
            raise ParameterError(
                f'Parameter {self.name!r} has shape {self.shape}, '
                f'expected a {what} of this shape or a number, found shape {array.shape}.'
            )
        return array

    def _checked_prior(self, prior: tuple[ArrayLike, ArrayLike]) -> tuple[Array, Array]:
        if not isinstance(prior, (tuple, list)) or len(prior) != 2:  # noqa: PLR2004 (a pair)
            raise ParameterError(
                f'Expected (mean, standard deviation) as prior of {self.name!r}, found {prior!r}.'
            )
        mean, std = prior
        checked = (
            self._shaped(mean, 'mean of the prior', finite=True),
            self._shaped(std, 'standard deviation of the prior', finite=True),
        )
        if np.any(checked[1] <= 0):
            raise ParameterError(
                f'The prior of parameter {self.name!r} needs a standard deviation above 0, '
                f'found {checked[1].min():g}.'
            )
        return checked


def component_names(name: str, shape: tuple[int, ...]) -> list[str]:
    """Return a name for each component of an array, in the order of its flat vector."""
    if math.prod(shape) == 1:
        return [name]
    return [f'{name}[{",".join(map(str, index))}]' for index in np.ndindex(shape)]


class ParameterDict:
    """Parameters by name, in the order in which they were added.

    Frozen parameters are left out of vectors, bounds and names; they are still written to the
    model, at the value that they have.
    """

    def __init__(self, parameters: Mapping[str, Parameter] | None = None) -> None:
        """Collect parameters; the names here count, should the parameters' differ."""
        self.parameters: dict[str, Parameter] = {}
        for name, parameter in (parameters or {}).items():
            self[name] = parameter

    def __getitem__(self, key: str) -> Parameter:
        if key not in self.parameters:
            raise ParameterError(f'No parameter {key!r}; {nearest(str(key), self.parameters)}.')
        return self.parameters[key]

    def __setitem__(self, key: str, value: Parameter) -> None:
        if not isinstance(value, Parameter):
            raise ParameterError(
                f'Expected a Parameter under {key!r}, found {type(value).__name__}.'
            )
        self.parameters[key] = value

    def __contains__(self, key: object) -> bool:
        return key in self.parameters

    def __iter__(self) -> Iterator[str]:
        return iter(self.parameters)

    def __len__(self) -> int:
        return len(self.parameters)

    def keys(self) -> list[str]:
        """Return the names."""
        return list(self.parameters)

    def values(self) -> list[Parameter]:
        """Return the parameters."""
        return list(self.parameters.values())

    def items(self) -> list[tuple[str, Parameter]]:
        """Return names and parameters."""
        return list(self.parameters.items())

    def copy(self) -> ParameterDict:
        """Return a deep copy; modifiers are shared with it."""
        return copy.deepcopy(self)

    def add(self, param: Parameter) -> None:
        """Add a parameter under its own name.

        Raises:
            ParameterError: There is one of that name.
        """
        self.update(ParameterDict({param.name: param}))

    def update(self, pdict: ParameterDict) -> None:
        """Add the parameters of another collection; the parameters themselves are shared.

        Raises:
            ParameterError: A name is in both; then nothing is added.
        """
        for name in pdict:
            if name in self.parameters:
                raise ParameterError(
                    f'There is a parameter {name!r} already; give one of them another name.'
                )
        self.parameters.update(pdict.items())

    @property
    def size(self) -> int:
        """Number of components of the parameters that are not frozen."""
        return sum(parameter.size for parameter in self._free().values())

    def as_vector(self, include_frozen: bool = False) -> Array:  # noqa: FBT002 (the toolbox's)
        """Return the values, flat; those of frozen parameters only where asked for."""
        chosen = self.parameters if include_frozen else self._free()
        return _joined(parameter.as_vector() for parameter in chosen.values())

    def as_nominal_vector(self, include_frozen: bool = False) -> Array:  # noqa: FBT002
        """Return the nominal values, flat; those of frozen ones only where asked for."""
        chosen = self.parameters if include_frozen else self._free()
        return _joined(parameter.as_nominal_vector() for parameter in chosen.values())

    def update_from_vector(self, vector: ArrayLike) -> None:
        """Set the parameters that are not frozen to (size,) values, in :meth:`as_vector`'s order.

        Raises:
            ParameterError: It has another length, or is not finite; then nothing is changed.
        """
        values = self._checked(vector, 'values')
        if not np.all(np.isfinite(values)):
            name = self.get_non_frozen_parameter_names()[int(np.argmin(np.isfinite(values)))]
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
        return [
            component
            for name, parameter in self._free().items()
            for component in component_names(name, parameter.shape)
        ]

    def reset(self) -> None:
        """Set every parameter, frozen ones too, to its nominal value."""
        for parameter in self.parameters.values():
            parameter.reset()

    def sample(self, rng: np.random.Generator | None = None) -> Array:
        """Draw a vector (size,) from within the bounds, evenly on each parameter's scale.

        Raises:
            ParameterError: A bound is infinite.
        """
        rng = np.random.default_rng() if rng is None else rng
        return _joined(parameter.sample(rng) for parameter in self._free().values())

    def randomize(self, rng: np.random.Generator | None = None) -> None:
        """Set the parameters that are not frozen to a :meth:`sample`."""
        self.update_from_vector(self.sample(rng))

    def move_off_bounds(self, fraction: float = 0.05, at_bound_tol: float = 1e-3) -> ParameterDict:
        """Call :meth:`Parameter.move_off_bound` on what is not frozen; return itself."""
        for parameter in self._free().values():
            parameter.move_off_bound(fraction=fraction, at_bound_tol=at_bound_tol)
        return self

    def compare_parameters(
        self,
        init_params: ArrayLike,
        predicted_params: ArrayLike,
        measured_params: ArrayLike | None = None,
        sig_digits: int = 4,
    ) -> str:
        """Lay out values before and after a fit side by side.

        Args:
            init_params: (size,) values before.
            predicted_params: (size,) values after.
            measured_params: (size,) true values, where known.
            sig_digits: Significant digits.

        Returns:
            A table in plain text, one line per component, with the bounds that a value lies on
            marked, and a last line with the root mean square of the relative changes and errors:
            quantities of different units are not added.

        Raises:
            ParameterError: A vector has another length.
        """
        if not self.size:
            return 'No non-frozen parameters to compare.'
        low, high = self.get_bounds()
        units = [entry.unit for entry in self._free().values() for _ in range(entry.size)]
        initial = self._checked(init_params, 'initial values')
        identified = self._checked(predicted_params, 'identified values')
        change = identified - initial
        relative_change = _relative(change, initial)
        header = ['Parameter', 'Initial', 'Identified', 'Lower', 'Upper', 'Abs Del', 'Rel Del']
        columns = [
            self.get_non_frozen_parameter_names(),
            _numbers(initial, sig_digits),
            _numbers(identified, sig_digits),
            _numbers(low, sig_digits),
            _numbers(high, sig_digits),
            _numbers(np.abs(change), sig_digits),
            _percents(relative_change),
        ]
        summary = f'RMS Rel Del: {_rms(relative_change)}'
        if measured_params is not None:
            true = self._checked(measured_params, 'true values')
            error = identified - true
            relative_error = _relative(error, true)
            header[2:2] = ['True']
            columns[2:2] = [_numbers(true, sig_digits)]
            header += ['Abs Err', 'Rel Err']
            columns += [_numbers(np.abs(error), sig_digits), _percents(relative_error)]
            summary = f'RMS Rel Err: {_rms(relative_error)}\n{summary}'
        notes = _notes(identified, low, high)
        for title, texts in (('Unit', units), ('', notes)):
            if any(texts):
                header.append(title)
                columns.append(texts)
        return f'{_table(header, columns)}\n{summary}'

    def get_parameter_info(self) -> str:
        """Return a table of names, shapes and units, and of which are frozen."""
        if not self.parameters:
            return 'No parameters in dictionary.'
        rows = [
            (name, str(p.size), str(p.shape), 'yes' if p.frozen else 'no', p.unit)
            for name, p in self.parameters.items()
        ]
        return _table(['Name', 'Size', 'Shape', 'Frozen', 'Unit'], list(zip(*rows, strict=True)))

    def save_to_disk(self, path: str | os.PathLike[str]) -> None:
        """Write the parameters to a YAML file that MuJoCo's toolbox reads too.

        Modifiers are functions and not stored; targets, scales, priors and units are. The file
        is there whole or not at all.

        Raises:
            ResultError: The file cannot be written.
        """
        content = {name: _entry(parameter) for name, parameter in self.parameters.items()}
        text = yaml.safe_dump(
            content, default_flow_style=False, allow_unicode=True, sort_keys=False
        )
        replace_file(Path(path), text.encode())

    @classmethod
    def load_from_disk(cls, path: str | os.PathLike[str]) -> ParameterDict:
        """Read what :meth:`save_to_disk`, here or in MuJoCo's toolbox, wrote.

        The parameters have no modifiers: to go on with a fit, build the parameters as before and
        give them the values with ``update_from_vector(loaded.as_vector())``.

        Raises:
            ParameterError: There is no such file, or it does not hold parameters.
        """
        path = Path(path)
        if not path.is_file():
            siblings = [entry.name for entry in path.parent.glob('*.y*ml')]
            raise ParameterError(
                f'No parameter file {str(path)!r}; {nearest(path.name, sorted(siblings))}.'
            )
        try:
            content = parse_yaml(path.read_text('utf-8'))
        except (yaml.YAMLError, UnicodeDecodeError) as err:
            clause = ' '.join(str(err).split())
            raise ParameterError(
                f'The parameter file {str(path)!r} is not YAML: {clause}.'
            ) from err
        if not isinstance(content, dict):
            found = type(content).__name__
            raise ParameterError(
                f'Expected a mapping of names to parameters in {str(path)!r}, found {found}.'
            )
        return cls(
            {str(name): _parameter(str(name), entry, path) for name, entry in content.items()}
        )

    def __repr__(self) -> str:
        if not self.parameters:
            return 'ParameterDict(empty)'
        lines: list[str] = []
        for name, parameter in self.parameters.items():
            if parameter.size == 1:
                lines.append(f'  {parameter!r}')
                continue
            lines.append(f'  {name}:' + (' (frozen)' if parameter.frozen else ''))
            low, high = parameter.min_value.flat, parameter.max_value.flat
            for position, component in enumerate(component_names('', parameter.shape)):
                value = parameter.value.flat[position]
                lines.append(
                    f'    {component}: {value:.4g} ∈ [{low[position]:.4g}, {high[position]:.4g}]'
                )
        return 'ParameterDict(\n' + '\n'.join(lines) + '\n)'

    def _free(self) -> dict[str, Parameter]:
        return {name: entry for name, entry in self.parameters.items() if not entry.frozen}

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
    """Say in one clause what happened, and how to mend it where that is known."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = f'{type(error).__name__}: {lines[0].rstrip(".") if lines else "no message"}'
    frames = traceback.extract_tb(error.__traceback__)
    code = (frames[-1].line or '') if frames else ''
    if isinstance(error, TypeError) and 'incompatible function arguments' in str(error):
        given = str(error).rpartition(', ')[2].splitlines()[0]
        text = f'TypeError: MuJoCo does not take {given} in {code!r}'
        for attribute in _POLYNOMIALS:
            if attribute in code:
                return (
                    f'{text}; {attribute} is a polynomial of three coefficients since MuJoCo 3.7, '
                    f'write {attribute}[0] = parameter.value[0]'
                )
        return f'{text}; where a number is expected, write parameter.value[0]'
    if isinstance(error, ValueError) and 'setting an array element' in str(error):
        return f'{text} in {code!r}; where a number is expected, write parameter.value[0]'
    if isinstance(error, AttributeError) and "'NoneType'" in str(error):
        return f'{text} in {code!r}; the spec has no element of that name'
    return text


def _notes(values: Array, lows: Array, highs: Array) -> list[str]:
    """Return which bound each value lies on; empty where on none."""
    span = highs - lows
    slack = np.where(np.isfinite(span), _AT_BOUND * span, 0.0)
    upper = np.where(highs - values <= slack, 'at upper bound', '')
    return [str(note) for note in np.where(values - lows <= slack, 'at lower bound', upper)]


def _relative(difference: Array, base: Array) -> Array:
    """Divide by the size of the base; NaN where that is zero."""
    size = np.abs(base)
    return np.divide(np.abs(difference), size, out=np.full_like(size, np.nan), where=size > 0)


def _rms(relative: Array) -> str:
    known = relative[np.isfinite(relative)]
    return f'{100 * float(np.sqrt(np.mean(known**2))):.3g}%' if known.size else '-'


def _numbers(values: Array, digits: int) -> list[str]:
    return [f'{value:.{digits}g}' for value in values]


def _percents(relative: Array) -> list[str]:
    return ['-' if np.isnan(share) else f'{100 * share:.3g}%' for share in relative]


def _table(header: Sequence[str], columns: Sequence[Sequence[str]]) -> str:
    """Align columns: text, the first and those after the numbers, to the left."""
    widths = [
        max(len(title), *map(len, column)) for title, column in zip(header, columns, strict=True)
    ]
    left = [title in {'Parameter', 'Name', 'Shape', 'Frozen', 'Unit', ''} for title in header]

    def line(cells: Sequence[str]) -> str:
        padded = [
            cell.ljust(width) if is_text else cell.rjust(width)
            for cell, width, is_text in zip(cells, widths, left, strict=True)
        ]
        return '  '.join(padded).rstrip()

    rule = '  '.join('-' * width for width in widths)
    return '\n'.join([line(header), rule, *(line(row) for row in zip(*columns, strict=True))])


def _entry(parameter: Parameter) -> dict[str, Any]:
    entry: dict[str, Any] = {
        'name': parameter.name,
        'nominal': parameter.nominal.tolist(),
        'min_value': parameter.min_value.tolist(),
        'max_value': parameter.max_value.tolist(),
        'value': parameter.value.tolist(),
        'frozen': bool(parameter.frozen),
    }
    if parameter.target is not None:
        target = parameter.target
        entry['target'] = target if isinstance(target, str) else list(target)
    if parameter.unit:
        entry['unit'] = parameter.unit
    if parameter.prior is not None:
        entry['prior'] = [np.asarray(part).tolist() for part in parameter.prior]
    if parameter.scale != 'linear':
        entry['scale'] = parameter.scale
    if parameter.inertia_type is not None:
        entry['inertia_type'] = parameter.inertia_type.name
        entry['scale_rot_inertia'] = bool(parameter.scale_rot_inertia)
    return entry


def _parameter(name: str, entry: Any, path: Path) -> Parameter:
    missing = [key for key in _NEEDED if not isinstance(entry, dict) or key not in entry]
    if missing:
        raise ParameterError(
            f'Parameter {name!r} in {str(path)!r} lacks {missing[0]!r}; '
            f'expected {", ".join(_NEEDED)}.'
        )
    parameter = Parameter(
        str(entry['name']),
        entry['nominal'],
        entry['min_value'],
        entry['max_value'],
        bool(entry['frozen']),
        target=entry.get('target'),
        unit=str(entry.get('unit', '')),
        prior=entry.get('prior'),
        scale=entry.get('scale', 'linear'),
    )
    parameter.value = entry['value']
    kind = entry.get('inertia_type')
    if kind is not None:
        if kind not in InertiaType.__members__:
            choices = nearest(str(kind), InertiaType.__members__)
            raise ParameterError(f'Unknown inertia type {kind!r} of parameter {name!r}; {choices}.')
        parameter.inertia_type = InertiaType[kind]
        parameter.scale_rot_inertia = bool(entry.get('scale_rot_inertia', False))
    return parameter
