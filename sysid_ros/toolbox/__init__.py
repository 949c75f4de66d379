# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The names of MuJoCo's sysid toolbox, on this engine.

``from sysid_ros import toolbox as sysid`` runs code written for ``mujoco.sysid``; where that is
wrong, the docstrings here say what is done instead.
"""

from __future__ import annotations

from sysid_ros.report.rendering import render_rollout
from sysid_ros.signals import SignalType
from sysid_ros.toolbox import modifiers as model_modifier
from sysid_ros.toolbox import parameter, report
from sysid_ros.toolbox import timeseries as signal_modifier
from sysid_ros.toolbox.modifiers import (
    apply_body_inertia,
    apply_dgain,
    apply_param_modifiers,
    apply_param_modifiers_spec,
    apply_pdgain,
    apply_pgain,
    body_inertia_param,
    remove_visuals,
)
from sysid_ros.toolbox.optimize import StampWarning, calculate_intervals, optimize
from sysid_ros.toolbox.parameter import InertiaType, Parameter, ParameterDict
from sysid_ros.toolbox.report import default_report, save_results
from sysid_ros.toolbox.residual import (
    BuildModelFn,
    CustomRolloutFn,
    ModifyResidualFn,
    SignalTransform,
    build_residual_fn,
    residual,
)
from sysid_ros.toolbox.timeseries import (
    TimeSeries,
    apply_bias,
    apply_delay,
    apply_delayed_ts_window,
    apply_gain,
    apply_resample_and_delay,
    get_sensor_indices,
    normalize_residual,
    weighted_diff,
)
from sysid_ros.toolbox.trajectory import (
    ModelSequences,
    SystemTrajectory,
    create_initial_state,
    sysid_rollout,
)

__all__ = [
    'BuildModelFn',
    'CustomRolloutFn',
    'InertiaType',
    'ModelSequences',
    'ModifyResidualFn',
    'Parameter',
    'ParameterDict',
    'SignalTransform',
    'SignalType',
    'StampWarning',
    'SystemTrajectory',
    'TimeSeries',
    'apply_bias',
    'apply_body_inertia',
    'apply_delay',
    'apply_delayed_ts_window',
    'apply_dgain',
    'apply_gain',
    'apply_param_modifiers',
    'apply_param_modifiers_spec',
    'apply_pdgain',
    'apply_pgain',
    'apply_resample_and_delay',
    'body_inertia_param',
    'build_residual_fn',
    'calculate_intervals',
    'create_initial_state',
    'default_report',
    'get_sensor_indices',
    'model_modifier',
    'normalize_residual',
    'optimize',
    'parameter',
    'remove_visuals',
    'render_rollout',
    'report',
    'residual',
    'save_results',
    'signal_modifier',
    'sysid_rollout',
    'weighted_diff',
]
