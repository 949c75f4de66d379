# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Candidates that have to be compiled: callbacks on the spec, and attributes the compiler reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import mujoco
import numpy as np
from numpy.typing import NDArray

from sysid_ros.errors import FitError, ModelError, SysidError
from sysid_ros.model.loading import writable_spec
from sysid_ros.model.targets import Role, write_spec
from sysid_ros.model.targets.writer import Linear, set_all_apart
from sysid_ros.model.unknown import Unknown
from sysid_ros.text import one_sentence

#: What compilers and callbacks raise where they refuse values.
_REFUSALS = (ValueError, ArithmeticError, mujoco.FatalError)
#: So many compiled models are kept: a candidate and its neighbours, and some before them.
_MOST_KEPT = 64


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
