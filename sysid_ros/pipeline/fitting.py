# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The fit that a configuration asks for."""

from __future__ import annotations

import math
import threading
import time
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from sysid_ros.config import CalibrationConfig
from sysid_ros.errors import CancelledError, ConfigError, FitError, nearest
from sysid_ros.estimation.priors import JointPrior
from sysid_ros.estimation.solver.solver import SolverSettings
from sysid_ros.identification.fit import Fit, fit
from sysid_ros.identification.observer import Observer

if TYPE_CHECKING:
    from sysid_ros.pipeline.loading import Problem

#: A fit that another one follows ends this near its optimum, in standard errors.
_UNJUDGED = 0.3


def fit_training(
    config: CalibrationConfig,
    problem: Problem,
    observer: Observer,
    cancel: threading.Event | None = None,
    *,
    memory: JointPrior | None = None,
    deadline: float | None = None,
    begun: Fit | None = None,
    judged: bool = True,
) -> Fit:
    """Fit the parameters of a problem to its training sequences.

    Args:
        config: The solver, its loss, starts and limits.
        problem: What is to be identified, from what.
        observer: Is told of iterations.
        cancel: Ends the fit when it is set.
        memory: What is known of some parameters together.
        deadline: When it is to be done, in ``time.monotonic()``; ``solver.time`` from now unless
            given.
        begun: A fit to the same data, from which this one goes on.
        judged: Whether to look for what the model lacks.

    Raises:
        ConfigError: ``statistics.noise`` names no sensor that is compared.
        FitError: There is nothing to fit, or no parameter has an effect.
        CancelledError: ``cancel`` was set.
    """
    if deadline is None:
        deadline = deadline_of(config)
    try:
        return fit(
            problem.spec,
            problem.parameters,
            problem.sequences('train'),
            settings=SolverSettings(
                config.solver.loss,
                config.solver.max_iterations,
                config.solver.accuracy if judged else max(config.solver.accuracy, _UNJUDGED),
                deadline=deadline,
            ),
            start=config.solver.start,
            windowed=config.estimator == 'windows',
            starts=config.solver.starts,
            seed=config.solver.seed,
            threads=config.solver.threads,
            memory=memory,
            noise=known_noise(config.statistics.noise, problem),
            cancel=cancel,
            observe=observer.iteration,
            stage=observer.stage,
            drives=problem.servos,
            begun=begun,
            judged=judged,
        )
    except CancelledError:
        raise
    except FitError as err:
        # Without commands little moves: that is then what the user has to know.
        idle = next(filter(None, (bag.idle_actuators for bag in problem.recordings)), '')
        if not idle:
            raise
        raise FitError(f'{str(err).rstrip(".")}; bag {idle}.') from err


def deadline_of(config: CalibrationConfig) -> float:
    """Return when a fit that begins now is to be done, in ``time.monotonic()``."""
    return math.inf if config.solver.time is None else time.monotonic() + config.solver.time


def known_noise(given: dict[str, float], problem: Problem) -> dict[str, float]:
    """Return the noise of each sensor that a name or pattern is of; later ones override."""
    sensors = sorted(
        {
            sensor
            for sequence in problem.sequences('train')
            for series in sequence.measurements
            for sensor in series.signal_mapping
        }
    )
    found: dict[str, float] = {}
    for pattern, sigma in given.items():
        matching = [sensor for sensor in sensors if fnmatchcase(sensor, pattern)]
        if not matching:
            hint = nearest(pattern, sensors)
            raise ConfigError(
                f'Expected a compared sensor in statistics.noise, found {pattern!r}; {hint}.'
            )
        found.update(dict.fromkeys(matching, sigma))
    return found
