# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The functions that users of the toolbox write themselves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import mujoco
import numpy as np
from numpy.typing import NDArray

from sysid_ros.signals import TimeSeries
from sysid_ros.toolbox.parameter import ParameterDict
from sysid_ros.toolbox.trajectory import SystemTrajectory

#: Compiles a candidate: ``build_model(params, spec)``, with a copy of the spec that it may change.
BuildModelFn: TypeAlias = Callable[[ParameterDict, mujoco.MjSpec], mujoco.MjModel]

#: Replaces `sysid_rollout`; called with the keyword arguments ``models``, ``datas``,
#: ``control_signal``, ``initial_states``, ``param_dicts``, ``rollout_signal_mapping``,
#: ``rollout_state_mapping`` and ``ctrl_mapping``; returns one trajectory per model.
CustomRolloutFn: TypeAlias = Callable[..., Sequence[SystemTrajectory]]

#: Replaces the comparison; called as ``modify_residual(params, sensordata_predicted,
#: sensordata_measured, model, return_pred_all, state=…)``, where the state has a row after each
#: step; returns the residuals, and the predicted and the measured series.
ModifyResidualFn: TypeAlias = Callable[..., tuple[NDArray[np.float64], TimeSeries, TimeSeries]]
