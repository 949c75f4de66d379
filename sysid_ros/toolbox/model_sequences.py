# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A model and what was measured on the system that it describes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import mujoco
import numpy as np

from sysid_ros.errors import FitError, ModelError, SysidError
from sysid_ros.signals import TimeSeries
from sysid_ros.toolbox.fingerprint import fingerprint
from sysid_ros.toolbox.system_trajectory import SystemTrajectory

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


class ModelSequences:
    """A model to be identified, with one or more measured sequences.

    The spec is compiled as a copy; it is never changed.

    Attributes:
        name: Of the model, in files and messages.
        spec: The model as it was given.
        gt_model: The compiled nominal model.
        sequence_name: One name per sequence.
        initial_state: One (nstate,) state per sequence.
        control: One series per sequence.
        sensordata: One series per sequence.
        measured_rollout: The sequences as trajectories.
        allow_missing_sensors: Whether sensors of the model need not be measured.
    """

    def __init__(
        self,
        name: str,
        spec: mujoco.MjSpec,
        sequence_name: str | Sequence[str],
        initial_state: NDArray[np.float64] | Sequence[NDArray[np.float64]],
        control: TimeSeries | Sequence[TimeSeries],
        sensordata: TimeSeries | Sequence[TimeSeries],
        allow_missing_sensors: bool = False,  # noqa: FBT002
    ) -> None:
        """Pair a model with its sequences.

        Args:
            name: Of the model.
            spec: The model; candidates are written into copies of it.
            sequence_name: Name of the sequence, or one per sequence.
            initial_state: State of kind ``mjSTATE_FULLPHYSICS`` at the first command, or one per
                sequence (``create_initial_state``).
            control: Commands, or one series per sequence.
            sensordata: Measurements, or one series per sequence.
            allow_missing_sensors: Do not expect that all sensors of the model were measured.

        Raises:
            ModelError: The model does not compile.
            FitError: The numbers of names, states and series differ, or a sequence does not
                belong to the model (``SystemTrajectory.check_compatible``).
        """
        try:
            compiled = spec.copy().compile()
        except (ValueError, mujoco.FatalError) as err:
            reason = ' '.join(str(err).split()).rstrip('.')
            msg = f'Cannot compile the model {name!r}: {reason}.'
            raise ModelError(msg) from err
        names = [sequence_name] if isinstance(sequence_name, str) else list(sequence_name)
        self._set(
            (name, spec, compiled, allow_missing_sensors),
            names,
            _states(initial_state),
            _several(control),
            _several(sensordata),
        )

    @classmethod
    def of_trajectories(cls, name: str, trajectories: Sequence[SystemTrajectory]) -> ModelSequences:
        """Pair the model of trajectories, of which there is no spec, with them.

        Args:
            name: Of the model.
            trajectories: At least one, all of the same model; sensors may be missing.

        Raises:
            FitError: A trajectory does not belong to the model.
        """
        found = object.__new__(cls)
        found._set(
            (name, mujoco.MjSpec(), trajectories[0].model, True),
            [f'trajectory {index}' for index in range(len(trajectories))],
            [trajectory.initial_state for trajectory in trajectories],
            [trajectory.control for trajectory in trajectories],
            [trajectory.sensordata for trajectory in trajectories],
        )
        return found

    def __getitem__(self, key: int | slice) -> ModelSequences:
        """Return the same model with one sequence, or those of a slice."""
        chosen = range(len(self))[key]
        places = chosen if isinstance(chosen, range) else (chosen,)
        part = object.__new__(ModelSequences)
        part._set(
            (self.name, self.spec, self.gt_model, self.allow_missing_sensors),
            [self.sequence_name[place] for place in places],
            [self.initial_state[place] for place in places],
            [self.control[place] for place in places],
            [self.sensordata[place] for place in places],
        )
        return part

    @property
    def changed(self) -> bool:
        """Whether the spec is another one than `gt_model` was compiled from."""
        return fingerprint(self.spec) != self._fingerprint

    def __len__(self) -> int:
        return len(self.measured_rollout)

    def _set(
        self,
        model: tuple[str, mujoco.MjSpec, mujoco.MjModel, bool],
        names: list[str],
        states: list[NDArray[np.float64]],
        controls: list[TimeSeries],
        sensordata: list[TimeSeries],
    ) -> None:
        self.name, self.spec, self.gt_model, self.allow_missing_sensors = model
        self._fingerprint = fingerprint(self.spec)
        self.sequence_name = names
        self.initial_state = states
        self.control = controls
        self.sensordata = sensordata
        counts = len(names), len(states), len(controls), len(sensordata)
        if len(set(counts)) > 1:
            msg = (
                f'Expected as many names, initial states, controls and sensor series for model '
                f'{self.name!r}, found {counts[0]}, {counts[1]}, {counts[2]} and {counts[3]}.'
            )
            raise FitError(msg)
        self.measured_rollout = [
            SystemTrajectory(self.gt_model, control, measured, state, None)
            for control, measured, state in zip(controls, sensordata, states, strict=True)
        ]
        for sequence, trajectory in zip(names, self.measured_rollout, strict=True):
            self._check(sequence, trajectory)

    def _check(self, sequence: str, trajectory: SystemTrajectory) -> None:
        try:
            trajectory.check_compatible(self.allow_missing_sensors)
        except SysidError as err:
            msg = f'Sequence {sequence!r} of model {self.name!r}: {err}'
            raise FitError(msg) from err


def _states(
    given: NDArray[np.float64] | Sequence[NDArray[np.float64]],
) -> list[NDArray[np.float64]]:
    if isinstance(given, np.ndarray) and given.ndim == 1:
        given = [given]
    return [np.array(state, dtype=np.float64) for state in given]


def _several(given: TimeSeries | Sequence[TimeSeries]) -> list[TimeSeries]:
    return [given] if isinstance(given, TimeSeries) else list(given)
