# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Candidates that have to be compiled: callbacks on the spec, and attributes the compiler reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

import mujoco
import numpy as np

from sysid_ros.errors import FitError, ModelError, SysidError
from sysid_ros.identification.models import one_sentence, writable_spec
from sysid_ros.identification.targets import Role
from sysid_ros.identification.targets.frames import APART, all_frames
from sysid_ros.identification.toolbox.modifiers import apply_param_modifiers

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from sysid_ros.identification.toolbox.parameter import ParameterDict
    from sysid_ros.identification.unknown import Unknown

#: So many compiled models are kept: a candidate and its neighbours, and some before them.
_MOST_KEPT = 64


class CandidateError(ModelError):
    """No model can be built with the values of a candidate, though there may be with others."""


class Rebuild:
    """Compiles a model for a candidate.

    The user's spec is copied for each of them and never changed. Candidates that agree in what is
    compiled share a model, which the caller gets as a copy.

    Attributes:
        columns: Columns of a candidate that act through the compiler.
    """

    def __init__(
        self,
        spec: mujoco.MjSpec,
        unknowns: Sequence[Unknown],
        build: Callable[[ParameterDict, mujoco.MjSpec], mujoco.MjModel] | None = None,
        params: ParameterDict | None = None,
        columns: Sequence[int] = (),
    ) -> None:
        """Keep what a candidate is made of.

        Args:
            spec: The user's spec.
            unknowns: What a candidate's values are.
            build: Compiles the parameters on a copy of the spec; only ``compile`` by default.
            params: The parameters that ``build`` gets, a copy of them, with their values set.
            columns: Columns that ``build`` reads.
        """
        targets = [target for unknown in unknowns for target in unknown.targets]
        self._spec = writable_spec(spec, targets)
        for target in targets:
            if target.role is Role.COMMAND and target.attribute == 'delay':
                # It is applied to the commands, not by the model as well.
                self._spec.actuator(target.name).delay = 0.0
        self._build = build
        self._params = None if params is None else _without_targets(params)
        self._written = [
            (target, column)
            for column, unknown in enumerate(unknowns)
            for target in unknown.targets
            if target.role is Role.SPEC
        ]
        self.columns = sorted({*columns, *(column for _, column in self._written)})
        self._kept: dict[bytes, mujoco.MjModel] = {}
        self._built = False

    def __call__(self, values: NDArray[np.float64]) -> mujoco.MjModel:
        """Return a model of its own for the (p,) values of a candidate; see `shared`."""
        return self.shared(values).__copy__()

    def shared(self, values: NDArray[np.float64]) -> mujoco.MjModel:
        """Return the model for the (p,) values of a candidate, which must not be changed.

        Raises:
            CandidateError: The compiler, a modifier or ``build`` refuses the values; the first
                candidate's error is what they raised themselves.
            FitError: ``build`` does not return a model.
        """
        key = np.ascontiguousarray(values[self.columns]).tobytes()
        if key not in self._kept:
            if len(self._kept) >= _MOST_KEPT:
                self._kept.clear()
            model = self._compile(values)
            for field, rows in all_frames(model).items():
                getattr(model, field)[rows] = APART
            self._kept[key] = model
            self._built = True
        return self._kept[key]

    def _compile(self, values: NDArray[np.float64]) -> mujoco.MjModel:
        if self._build is apply_param_modifiers and not self._written:
            spec = self._spec  # it compiles a copy
        else:
            spec = self._spec.copy()
        for target, column in self._written:
            target.write_spec(spec, float(values[column]))
        if self._build is None or self._params is None:
            return self._compiled(spec, values)
        self._params.update_from_vector(values[: self._params.size])
        try:
            model = self._build(self._params, spec)
        except (ValueError, ArithmeticError, mujoco.FatalError) as err:
            if not self._built or not _of_the_values(err):
                raise
            text = str(err) if isinstance(err, SysidError) else f'{one_sentence(err)}.'
            names = self._params.get_non_frozen_parameter_names()
            given = zip(names, self._params.as_vector(), strict=True)
            where = ', '.join(f'{name} = {value:.6g}' for name, value in given)
            msg = f'No model can be built with {where}: {text}'
            raise CandidateError(msg) from err
        if not isinstance(model, mujoco.MjModel):
            msg = f'Expected build_model to return an MjModel, found {type(model).__name__}.'
            raise FitError(msg)
        return model

    def _compiled(self, spec: mujoco.MjSpec, values: NDArray[np.float64]) -> mujoco.MjModel:
        try:
            return spec.compile()
        except (ValueError, mujoco.FatalError) as err:
            given = ', '.join(f'{target.path} = {values[c]:.6g}' for target, c in self._written)
            msg = f'Cannot compile the model with {given}: {one_sentence(err)}.'
            raise CandidateError(msg) from err


def _of_the_values(error: Exception) -> bool:
    """Whether an error refuses values, rather than being a mistake in the code of a callback."""
    cause = error.__cause__ or error
    return isinstance(cause, (ValueError, ArithmeticError, mujoco.FatalError))


def _without_targets(params: ParameterDict) -> ParameterDict:
    """Copy parameters so that those with a target, written elsewhere, are not written twice.

    A factor on what the model has, ``subtree_mass``, would count twice.
    """
    copy = params.copy()
    for parameter in copy.values():
        if parameter.target is not None:
            parameter.target = parameter.modifier = None
    return copy
