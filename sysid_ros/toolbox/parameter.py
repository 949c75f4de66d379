# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The parameters of an identification together, and as the vector that a solver moves."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sysid_ros.errors import ParameterError, nearest
from sysid_ros.toolbox import parameter_io, parameter_table
from sysid_ros.toolbox.single_parameter import InertiaType, ModifierFn, Parameter, component_names

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Mapping

    from numpy.typing import ArrayLike, NDArray

    Array = NDArray[np.float64]

__all__ = ['InertiaType', 'ModifierFn', 'Parameter', 'ParameterDict', 'component_names']


class ParameterDict:
    """Parameters by name, in the order in which they were added.

    Frozen parameters are left out of vectors, bounds and names; they are still written to the
    model, at the value that they have.
    """

    def __init__(self, parameters: Mapping[str, Parameter] | None = None) -> None:
        """Collect parameters.

        Args:
            parameters: Name to parameter; the names here count, should the parameters' differ.
        """
        self.parameters: dict[str, Parameter] = {}
        for name, parameter in (parameters or {}).items():
            self[name] = parameter

    def __getitem__(self, key: str) -> Parameter:
        """Return a parameter.

        Raises:
            ParameterError: There is none of that name.
        """
        try:
            return self.parameters[key]
        except KeyError as err:
            msg = f'No parameter {key!r}; {nearest(str(key), self.parameters)}.'
            raise ParameterError(msg) from err

    def __setitem__(self, key: str, value: Parameter) -> None:
        """Add a parameter, or put one in the place of another.

        Raises:
            ParameterError: The value is not a parameter.
        """
        if not isinstance(value, Parameter):
            msg = f'Expected a Parameter under {key!r}, found {type(value).__name__}.'
            raise ParameterError(msg)
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
        if param.name in self.parameters:
            msg = f'There is a parameter {param.name!r} already; give one of them another name.'
            raise ParameterError(msg)
        self[param.name] = param

    def update(self, pdict: ParameterDict) -> None:
        """Add the parameters of another collection; the parameters themselves are shared.

        Raises:
            ParameterError: A name is in both; then nothing is added.
        """
        for name in pdict:
            if name in self.parameters:
                msg = f'There is a parameter {name!r} already; give one of them another name.'
                raise ParameterError(msg)
        self.parameters.update(pdict.items())

    @property
    def size(self) -> int:
        """Number of components of the parameters that are not frozen."""
        return sum(parameter.size for _, parameter in self._free())

    def as_vector(self, include_frozen: bool = False) -> Array:  # noqa: FBT002 (the toolbox's)
        """Return the values, flat; those of frozen parameters only where asked for."""
        chosen = self.values() if include_frozen else [parameter for _, parameter in self._free()]
        return _joined([parameter.as_vector() for parameter in chosen])

    def as_nominal_vector(self, include_frozen: bool = False) -> Array:  # noqa: FBT002
        """Return the nominal values, flat; those of frozen ones only where asked for."""
        chosen = self.values() if include_frozen else [parameter for _, parameter in self._free()]
        return _joined([parameter.as_nominal_vector() for parameter in chosen])

    def update_from_vector(self, vector: ArrayLike) -> None:
        """Set the values of the parameters that are not frozen.

        Args:
            vector: (size,) in the order of :meth:`as_vector`; copied.

        Raises:
            ParameterError: It has another length, or is not finite; then nothing is changed.
        """
        values = self._checked(vector, 'values')
        if not np.all(np.isfinite(values)):
            name = self.get_non_frozen_parameter_names()[int(np.argmin(np.isfinite(values)))]
            msg = f'The value of parameter {name!r} must be finite.'
            raise ParameterError(msg)
        start = 0
        for _, parameter in self._free():
            parameter.update_from_vector(values[start : start + parameter.size])
            start += parameter.size

    def get_bounds(self) -> tuple[Array, Array]:
        """Return the lower and upper bounds (size,) of the parameters that are not frozen.

        Raises:
            ParameterError: Bounds are reversed.
        """
        bounds = [parameter.get_bounds() for _, parameter in self._free()]
        return _joined([low for low, _ in bounds]), _joined([high for _, high in bounds])

    def get_non_frozen_parameter_names(self) -> list[str]:
        """Return a name for each entry of the vector: ``mass``, ``gains[0]``, ``map[0,1]``."""
        return [
            component
            for name, parameter in self._free()
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
        return _joined([parameter.sample(rng) for _, parameter in self._free()])

    def randomize(self, rng: np.random.Generator | None = None) -> None:
        """Set the parameters that are not frozen to a sample.

        Raises:
            ParameterError: A bound is infinite.
        """
        self.update_from_vector(self.sample(rng))

    def move_off_bounds(self, fraction: float = 0.05, at_bound_tol: float = 1e-3) -> ParameterDict:
        """Call :meth:`Parameter.move_off_bound` on the parameters that are not frozen.

        Returns:
            Itself, for chaining.
        """
        for _, parameter in self._free():
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
        return parameter_table.comparison(
            parameter_table.Compared(
                names=self.get_non_frozen_parameter_names(),
                units=[
                    parameter.unit for _, parameter in self._free() for _ in parameter.as_vector()
                ],
                initial=self._checked(init_params, 'initial values'),
                identified=self._checked(predicted_params, 'identified values'),
                true=None
                if measured_params is None
                else self._checked(measured_params, 'true values'),
                low=low,
                high=high,
            ),
            sig_digits,
        )

    def get_parameter_info(self) -> str:
        """Return a table of names, shapes and units, and of which are frozen."""
        if not self.parameters:
            return 'No parameters in dictionary.'
        return parameter_table.overview(self.parameters)

    def save_to_disk(self, path: str | os.PathLike[str]) -> None:
        """Write the parameters to a YAML file that MuJoCo's toolbox reads too.

        Modifiers are functions and not stored; targets, scales, priors and units are. The file
        is there whole or not at all.

        Raises:
            ResultError: The file cannot be written.
        """
        parameter_io.write(Path(path), self.parameters)

    @classmethod
    def load_from_disk(cls, path: str | os.PathLike[str]) -> ParameterDict:
        """Read what :meth:`save_to_disk`, here or in MuJoCo's toolbox, wrote.

        The parameters have no modifiers: to go on with a fit, build the parameters as before and
        give them the values with ``update_from_vector(loaded.as_vector())``.

        Raises:
            ParameterError: There is no such file, or it does not hold parameters.
        """
        return cls(parameter_io.read(Path(path)))

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

    def _free(self) -> list[tuple[str, Parameter]]:
        return [(name, entry) for name, entry in self.parameters.items() if not entry.frozen]

    def _checked(self, vector: ArrayLike, what: str) -> Array:
        array = np.atleast_1d(np.asarray(vector, dtype=np.float64))
        if array.shape != (self.size,):
            msg = (
                f'Expected {self.size} {what}, one per component that is not frozen, '
                f'found shape {array.shape}.'
            )
            raise ParameterError(msg)
        return array


def _joined(vectors: list[Array]) -> Array:
    return np.concatenate(vectors) if vectors else np.empty(0)
