# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Identification of MuJoCo models, under the names of MuJoCo's sysid toolbox.

``from sysid_ros import identification as sysid`` runs code written for ``mujoco.sysid``; where that
is wrong, the docstrings here say what is done instead.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sysid_ros.identification.callbacks import (
        BuildModelFn,
        CustomRolloutFn,
        ModifyResidualFn,
    )
    from sysid_ros.identification.confidence import calculate_intervals
    from sysid_ros.identification.inertia_parameter import apply_body_inertia, body_inertia_param
    from sysid_ros.identification.modifiers import (
        apply_dgain,
        apply_param_modifiers,
        apply_param_modifiers_spec,
        apply_pdgain,
        apply_pgain,
        remove_visuals,
    )
    from sysid_ros.identification.optimization import StampWarning, optimize
    from sysid_ros.identification.parameter import InertiaType, Parameter, ParameterDict
    from sysid_ros.identification.rendering import render_rollout
    from sysid_ros.identification.residual_fn import build_residual_fn, residual
    from sysid_ros.identification.save import save_results
    from sysid_ros.identification.signal_modifier import (
        apply_bias,
        apply_delay,
        apply_delayed_ts_window,
        apply_gain,
        apply_resample_and_delay,
        get_sensor_indices,
        normalize_residual,
        weighted_diff,
    )
    from sysid_ros.identification.signal_transform import SignalTransform
    from sysid_ros.identification.toolbox_report import default_report
    from sysid_ros.identification.trajectory import (
        ModelSequences,
        SystemTrajectory,
        create_initial_state,
        sysid_rollout,
    )
    from sysid_ros.signals import SignalType, TimeSeries

#: Where each public name is; modules are imported when a name of theirs is asked for, so that the
#: command line, which needs a few of them, starts fast.
_PLACES = {
    name: module
    for module, names in {
        'callbacks': ('BuildModelFn', 'CustomRolloutFn', 'ModifyResidualFn'),
        'confidence': ('calculate_intervals',),
        'inertia_parameter': ('apply_body_inertia', 'body_inertia_param'),
        'modifiers': (
            'apply_dgain',
            'apply_param_modifiers',
            'apply_param_modifiers_spec',
            'apply_pdgain',
            'apply_pgain',
            'remove_visuals',
        ),
        'optimization': ('StampWarning', 'optimize'),
        'parameter': ('InertiaType', 'Parameter', 'ParameterDict'),
        'rendering': ('render_rollout',),
        'residual_fn': ('build_residual_fn', 'residual'),
        'save': ('save_results',),
        'signal_modifier': (
            'apply_bias',
            'apply_delay',
            'apply_delayed_ts_window',
            'apply_gain',
            'apply_resample_and_delay',
            'get_sensor_indices',
            'normalize_residual',
            'weighted_diff',
        ),
        'signal_transform': ('SignalTransform',),
        'toolbox_report': ('default_report',),
        'trajectory': (
            'ModelSequences',
            'SystemTrajectory',
            'create_initial_state',
            'sysid_rollout',
        ),
        '.signals': ('SignalType', 'TimeSeries'),
    }.items()
    for name in names
}
#: Modules that the toolbox offers under names of its own.
_MODULES = {
    'model_modifier': 'modifiers',
    'parameter': 'parameter',
    'signal_modifier': 'signal_modifier',
}

__all__ = [  # noqa: PLE0604 (a list of names, from the table above)
    *sorted(_PLACES),
]


def __getattr__(name: str) -> Any:
    if name in _PLACES:
        value = getattr(import_module(f'.{_PLACES[name]}', __name__), name)
        globals()[name] = value  # a submodule of the same name does not take its place
        return value
    if name in _MODULES:
        return import_module(f'.{_MODULES[name]}', __name__)
    msg = f'module {__name__!r} has no attribute {name!r}'
    raise AttributeError(msg)


def __dir__() -> list[str]:
    return sorted([*globals(), *_PLACES, *_MODULES])
