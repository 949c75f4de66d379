# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""One parameter of an identification as users write it, with the names of MuJoCo's toolbox.

A :class:`Parameter` is mutable and may have any shape; the solver works on the scalars that it is
made of (``sysid_ros.model.unknown``). What it writes is a ``target``, a path in the
model, or a ``modifier``, a function that edits a spec.
"""

from __future__ import annotations

import copy
import enum
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import mujoco
import numpy as np

from sysid_ros.errors import ParameterError, SysidError, nearest
from sysid_ros.toolbox.modifier_errors import explained

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

    from sysid_ros.model.unknown import Scale

    Array = NDArray[np.float64]

#: Edits a spec so that it has the parameter's value; what it returns is not used.
ModifierFn: TypeAlias = Callable[[mujoco.MjSpec, 'Parameter'], object]

_SCALES = ('linear', 'log')


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
        """Describe a parameter.

        Args:
            name: Unique name.
            nominal: Start value, finite; a number is stored as an array of one element.
            min_value: Lower bound: a number for all components, or one for each; may be -inf.
            max_value: Upper bound, likewise.
            frozen: See the attribute, as for all that follow.
            modifier: Called as ``modifier(spec, parameter)``.
            target: One path, or one for each component.
            unit: For tables.
            prior: ``(mean, standard deviation)``, numbers or arrays of the nominal's shape.
            scale: ``'linear'`` or ``'log'``.

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
            msg = f'Unknown scale {scale!r} of parameter {name!r}; {nearest(scale, _SCALES)}.'
            raise ParameterError(msg)
        if isinstance(self.target, tuple) and len(self.target) != self.size:
            msg = (
                f'Parameter {name!r} has {self.size} components, '
                f'expected as many targets, found {len(self.target)}.'
            )
            raise ParameterError(msg)
        self.get_bounds()
        if scale == 'log' and np.any(self._nominal <= 0):
            msg = f'Parameter {name!r} has a log scale, expected a nominal value above 0.'
            raise ParameterError(msg)

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
            msg = (
                f'Parameter {self.name!r} has {self.size} component(s), '
                f'expected a value with as many, found {array.size}.'
            )
            raise ParameterError(msg)
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
            msg = f'The modifier of parameter {self.name!r} failed: {explained(err)}.'
            raise ParameterError(msg) from err

    def as_vector(self) -> Array:
        """Return a copy of the value, flat (size,)."""
        return np.array(self._value).reshape(-1)

    def as_nominal_vector(self) -> Array:
        """Return a copy of the nominal value, flat (size,)."""
        return np.array(self._nominal).reshape(-1)

    def update_from_vector(self, vector: ArrayLike) -> None:
        """Set the value from a flat vector (size,), which is copied.

        Raises:
            ParameterError: It has another length, or is not finite.
        """
        self.value = vector

    def get_bounds(self) -> tuple[Array, Array]:
        """Return copies of the lower and upper bounds, each flat (size,).

        Raises:
            ParameterError: They are reversed, or not positive with a log scale.
        """
        low = np.array(self._min_value).reshape(-1)
        high = np.array(self._max_value).reshape(-1)
        for position in np.flatnonzero(~(low <= high)):
            msg = (
                f'The bounds of parameter {self.component_names()[position]!r} are reversed: '
                f'expected lower <= upper, found [{low[position]:g}, {high[position]:g}].'
            )
            raise ParameterError(msg)
        if self.scale == 'log' and np.any(low <= 0):
            msg = (
                f'Parameter {self.name!r} has a log scale, '
                f'expected lower bounds above 0, found {low.min():g}.'
            )
            raise ParameterError(msg)
        return low, high

    def component_names(self) -> list[str]:
        """Return a name for each component: ``name``, or ``name[0]``, or ``name[0,1]``."""
        return component_names(self.name, self.shape)

    def reset(self) -> None:
        """Set the value to the nominal one."""
        self.value = self._nominal

    def sample(self, rng: np.random.Generator | None = None) -> Array:
        """Draw a value from within the bounds, evenly on the parameter's scale.

        Args:
            rng: Source of randomness; the default is a new, unseeded one.

        Returns:
            (size,); the parameter itself is left as it is.

        Raises:
            ParameterError: A bound is infinite.
        """
        rng = np.random.default_rng() if rng is None else rng
        low, high = self.get_bounds()
        if not np.all(np.isfinite(low) & np.isfinite(high)):
            msg = f'Parameter {self.name!r} cannot be sampled, expected finite bounds.'
            raise ParameterError(msg)
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
            msg = f'The {what} of parameter {self.name!r} must be numbers, found {values!r}.'
            raise ParameterError(msg) from err
        if np.any(np.isnan(array)) or (finite and not np.all(np.isfinite(array))):
            msg = f'The {what} of parameter {self.name!r} must be finite, found {array.tolist()}.'
            raise ParameterError(msg)
        return array

    def _shaped(self, values: ArrayLike, what: str, *, finite: bool = False) -> Array:
        array = self._numbers(values, what, finite=finite)
        if array.size == 1:
            return np.full(self.shape, array.item())
        if array.shape != self.shape:
            msg = (
                f'Parameter {self.name!r} has shape {self.shape}, '
                f'expected a {what} of this shape or a number, found shape {array.shape}.'
            )
            raise ParameterError(msg)
        return array

    def _checked_prior(self, prior: tuple[ArrayLike, ArrayLike]) -> tuple[Array, Array]:
        mean, std = prior
        checked = (
            self._shaped(mean, 'mean of the prior', finite=True),
            self._shaped(std, 'standard deviation of the prior', finite=True),
        )
        if np.any(checked[1] <= 0):
            msg = (
                f'The prior of parameter {self.name!r} needs a standard deviation above 0, '
                f'found {checked[1].min():g}.'
            )
            raise ParameterError(msg)
        return checked


def component_names(name: str, shape: tuple[int, ...]) -> list[str]:
    """Return a name for each component of an array, in the order of its flat vector."""
    if math.prod(shape) == 1:
        return [name]
    return [f'{name}[{",".join(map(str, index))}]' for index in np.ndindex(shape)]
