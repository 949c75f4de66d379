# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The same program with either import: MuJoCo's toolbox and sysid_ros.identification."""

from __future__ import annotations

import contextlib
import importlib
import io
import logging
import re
import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cases.case import Case
from cases.meter import Meter

#: Name in the table to the module that is imported as ``sysid``.
MODULES = {'mujoco.sysid': 'mujoco.sysid', 'sysid_ros': 'sysid_ros.identification'}

_TERMINATED = re.compile(r'Terminated after (\d+) iterations: (.*?)\. y:')


class Outcome(NamedTuple):
    """One fit.

    Attributes:
        seconds: Wall time of building the residual function and fitting.
        cpu: CPU time of all threads meanwhile, s.
        values: (p,) what was found; NaN where the fit raised.
        iterations: Of the solver; -1 where it does not say.
        message: How the fit ended.
        meter: What was simulated.
    """

    seconds: float
    cpu: float
    values: NDArray[np.float64]
    iterations: int
    message: str
    meter: Meter


class Problem(NamedTuple):
    """A case in the words of one module, ready to be fitted once."""

    sysid: Any
    parameters: Any
    options: dict[str, Any]


def load(name: str) -> Any:
    """Import a contender; None where it is not there or without what the benchmark needs."""
    try:
        module = importlib.import_module(MODULES[name])
    except ImportError:
        return None
    needed = ('Parameter', 'ParameterDict', 'ModelSequences', 'build_residual_fn', 'optimize')
    return module if all(hasattr(module, attribute) for attribute in needed) else None


def prepare(sysid: Any, case: Case, seed: int, *, callbacks: bool, late: float = 0.0) -> Problem:
    """State a case in the words of a module; outside of the measured time, as reading files is.

    Args:
        sysid: ``mujoco.sysid`` or ``sysid_ros.identification``.
        case: The case.
        seed: Of the noise.
        callbacks: Give parameters callbacks on the spec instead of targets.
        late: Stamp samples so much later than the state that they describe, s. The toolbox stamps
            its predictions one timestep late, and is right where the measurements are, too.
    """
    spec = case.make_spec()
    model = spec.compile()
    recordings = case.recordings(seed)
    parameters = sysid.ParameterDict()
    for free in case.free:
        options: dict[str, Any] = {}
        if free.target is not None and not callbacks:
            options['target'] = free.target
        elif free.modify is not None:
            options['modifier'] = _modifier(free.modify)
        scalar = len(free.start) == 1
        numbers = [v[0] if scalar else v for v in (free.start, free.low, free.high)]
        parameters.add(sysid.Parameter(free.name, *numbers, **options))
    sequences = sysid.ModelSequences(
        case.key,
        spec,
        [f'recording{k}' for k in range(len(recordings))],
        [recording.state for recording in recordings],
        [
            sysid.TimeSeries.from_control_names(recording.times, recording.controls, model)
            for recording in recordings
        ],
        [
            sysid.TimeSeries.from_names(recording.times + late, recording.measured, model)
            for recording in recordings
        ],
    )
    options = {'models_sequences': [sequences]}
    if case.transform is not None:
        options['modify_residual'] = case.transform(sysid, parameters).apply
    return Problem(sysid, parameters, options)


def _modifier(modify: Callable[..., None]) -> Callable[..., None]:
    def modifier(spec: Any, parameter: Any) -> None:
        modify(spec, parameter.value)

    return modifier


def solve(problem: Problem, **options: Any) -> Outcome:
    """Fit; the toolbox prints every iteration, whatever it is told, and is kept quiet.

    Args:
        problem: What :func:`prepare` returned; the toolbox leaves it changed.
        options: For ``optimize``.
    """
    printed = io.StringIO()
    logging.disable(logging.WARNING)
    with (
        Meter() as meter,
        contextlib.redirect_stdout(printed),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter('ignore')
        wall, cpu = time.perf_counter(), time.process_time()
        try:
            residual = problem.sysid.build_residual_fn(**problem.options)
            found, result = problem.sysid.optimize(
                problem.parameters, residual, optimizer='mujoco', verbose=False, **options
            )
            values = found.as_vector()
        except (ValueError, RuntimeError, ArithmeticError) as err:  # how the toolbox diverges
            values = np.full(problem.parameters.size, np.nan)
            result = {'message': f'{type(err).__name__}: {err}'}
        seconds, used = time.perf_counter() - wall, time.process_time() - cpu
    logging.disable(logging.NOTSET)
    said = _TERMINATED.search(printed.getvalue())
    iterations = int(said[1]) if said else int(result.get('nit', -1))
    message = said[2] if said else str(result.get('message', ''))
    return Outcome(seconds, used, values, iterations, message, meter)


def fit(
    name: str, case: Case, seed: int = 0, *, late: float = 0.0, targets: bool = False
) -> Outcome:
    """State and fit a case with a contender, sysid_ros with targets if told so; see `prepare`."""
    callbacks = not targets or name == 'mujoco.sysid'
    return solve(prepare(load(name), case, seed, callbacks=callbacks, late=late))
