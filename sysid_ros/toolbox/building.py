# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Candidates of callbacks on the spec: the parameters that they get, and the model they make."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sysid_ros.toolbox.modifiers import apply_param_modifiers

if TYPE_CHECKING:
    import mujoco
    import numpy as np
    from numpy.typing import NDArray

    from sysid_ros.toolbox.callbacks import BuildModelFn
    from sysid_ros.toolbox.parameter import ParameterDict


class ParameterBuilder:
    """A ``build_model`` callback with parameters of its own, as `model.rebuild.Builder`.

    Parameters with a target are written elsewhere: a factor on what the model has,
    ``subtree_mass``, would count twice.
    """

    def __init__(self, build: BuildModelFn, params: ParameterDict) -> None:
        """Copy the parameters; the first values of a candidate are theirs."""
        self._build = build
        self._params = params.copy()
        for parameter in self._params.values():
            if parameter.target is not None:
                parameter.target = parameter.modifier = None

    @property
    def copies(self) -> bool:
        """Whether the callback leaves the spec that it gets as it is."""
        return self._build is apply_param_modifiers

    def build(self, values: NDArray[np.float64], spec: mujoco.MjSpec) -> mujoco.MjModel:
        """Compile the (p,) values of a candidate on a spec."""
        self._params.update_from_vector(values[: self._params.size])
        return self._build(self._params, spec)

    def describe(self, values: NDArray[np.float64]) -> str:
        """Return the (p,) values with their names."""
        self._params.update_from_vector(values[: self._params.size])
        names = self._params.get_non_frozen_parameter_names()
        given = zip(names, self._params.as_vector(), strict=True)
        return ', '.join(f'{name} = {value:.6g}' for name, value in given)
