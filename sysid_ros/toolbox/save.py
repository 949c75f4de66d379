# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What `optimize` found, on disk: parameters, numbers and identified models; nothing pickled."""

from __future__ import annotations

import io
import numbers
import os
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.optimize
from numpy.typing import NDArray

from sysid_ros.errors import ModelError
from sysid_ros.files import check_writable, replace_file
from sysid_ros.json_text import to_json
from sysid_ros.toolbox.modifiers import apply_param_modifiers_spec
from sysid_ros.toolbox.optimization import calculate_intervals
from sysid_ros.toolbox.parameter import ParameterDict
from sysid_ros.toolbox.result import estimates
from sysid_ros.toolbox.trajectory import ModelSequences

INITIAL = 'params_x_0.yaml'
IDENTIFIED = 'params_x_hat.yaml'
SUMMARY = 'results.json'
ARRAYS = 'results.npz'
#: Arrays of the solver's result that are kept, beside those of the statistics.
_SOLVER_ARRAYS = ('x', 'fun', 'jac', 'grad', 'active_mask')
_UNSAFE = re.compile(r'[^A-Za-z0-9._ -]+')


def save_results(
    experiment_results_folder: str | os.PathLike[str],
    models_sequences: Sequence[ModelSequences],
    initial_params: ParameterDict,
    opt_params: ParameterDict,
    opt_result: scipy.optimize.OptimizeResult,
    residual_fn: Callable[..., Any],
) -> None:
    """Write a fit into a folder.

    The folder gets ``params_x_0.yaml`` and ``params_x_hat.yaml``, the parameters before and after;
    ``results.json``, the outcome with the interval and the verdict of each parameter;
    ``results.npz``, the solver's arrays with covariance and half-widths, for
    ``numpy.load(allow_pickle=False)``; and ``NAME.xml`` for each model, with the identified values.
    Each file is there whole or not at all, and none unless all could be made; others stay.

    The specs that are passed are not changed. ``mujoco.sysid`` writes the spec in whatever state
    the last evaluation left it, and pickles the rest.

    The arguments are those of `default_report`; the folder is made if it is not there.

    Raises:
        ResultError: The folder cannot be written.
        ModelError: A model cannot be written as XML.
    """
    folder = Path(experiment_results_folder)
    residuals, _, _ = residual_fn(opt_params.as_vector(), opt_params)
    covariance, half_widths = calculate_intervals(residuals, np.asarray(opt_result['jac']))
    arrays: dict[str, Any] = {
        name: np.asarray(opt_result[name], dtype=np.float64)
        for name in _SOLVER_ARRAYS
        if opt_result.get(name) is not None
    }
    packed = io.BytesIO()
    np.savez(packed, **arrays, covariance=covariance, intervals=half_widths)
    files = {
        SUMMARY: _summary(initial_params, opt_params, residuals, opt_result).encode(),
        ARRAYS: packed.getvalue(),
        **dict(_models(models_sequences, opt_params)),
    }
    check_writable(folder)
    initial_params.save_to_disk(folder / INITIAL)
    opt_params.save_to_disk(folder / IDENTIFIED)
    for name, content in files.items():
        replace_file(folder / name, content)


def _summary(
    initial_params: ParameterDict,
    opt_params: ParameterDict,
    residuals: Sequence[NDArray[np.float64]],
    opt_result: scipy.optimize.OptimizeResult,
) -> str:
    shift = opt_result.get('shift')
    document = {
        'solver': {
            name: value
            for name, value in opt_result.items()
            if isinstance(value, (str, numbers.Number, np.bool_))
        },
        'stamp_shift': None
        if shift is None
        else {
            'seconds': shift.seconds,
            'error': shift.error,
            'gain': shift.gain,
            'significant': shift.significant,
        },
        'interval_level': 0.95,
        'parameters': [
            {
                **estimate._asdict(),
                'verdict': estimate.verdict.among(estimate.confounded_with),
            }
            for estimate in estimates(initial_params, opt_params, residuals, opt_result)
        ],
    }
    return to_json(document, indent=1) + '\n'


def _models(
    models_sequences: Sequence[ModelSequences], params: ParameterDict
) -> Iterator[tuple[str, bytes]]:
    """Write every model with the identified parameters, as file name and content."""
    taken: set[str] = set()
    for group in models_sequences:
        stem = _UNSAFE.sub('_', group.name).strip('. ') or 'model'
        name, count = f'{stem}.xml', 1
        while name in taken:
            count += 1
            name = f'{stem}_{count}.xml'
        taken.add(name)
        spec = apply_param_modifiers_spec(params, group.spec.copy())
        try:
            spec.compile()
            text = spec.to_xml()
        except (ValueError, RuntimeError) as err:
            raise ModelError(
                f'Cannot write model {group.name!r} with the identified values: {err}'
            ) from err
        yield name, text.encode()
