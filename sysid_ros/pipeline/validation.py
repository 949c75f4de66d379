# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Put a fit to the test: other bags, longer predictions, shorter windows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sysid_ros.errors import CancelledError, ConfigError, FitError
from sysid_ros.pipeline.folds import disagreements, families_of, leave_out, training_bags
from sysid_ros.pipeline.horizon import horizon_errors
from sysid_ros.pipeline.window_lengths import drifts, fit_windows
from sysid_ros.results.summary import Validation

if TYPE_CHECKING:
    import threading
    from collections.abc import Sequence

    from sysid_ros.config import CalibrationConfig
    from sysid_ros.identification.fit import Fit
    from sysid_ros.identification.observer import Observer
    from sysid_ros.pipeline.folds import Families
    from sysid_ros.pipeline.loading import Problem
    from sysid_ros.results.result import Fold, HorizonPoint, Role, WindowFit


def validate(
    config: CalibrationConfig,
    problem: Problem,
    fit: Fit,
    observer: Observer,
    cancel: threading.Event | None = None,
) -> Validation:
    """Put a fit to the test as the section ``validation`` says.

    What cannot be done costs nobody the fit: it becomes a warning.

    In chaotic motion, where the fit rests on windows, whole bags cannot be predicted: nothing is
    left out then, and no other windows are tried.

    Args:
        config: The configuration.
        problem: The model and the data.
        fit: The fit to all training data.
        observer: Is told of stages.
        cancel: Ends it when it is set.

    Raises:
        CancelledError: ``cancel`` was set.
    """
    chosen, threads = config.validation, config.solver.threads
    training = problem.sequences('train')
    whole = fit.window is None
    warnings: list[str] = []
    families: Families = {}
    if whole:
        try:
            families = families_of(chosen.leave_out, training_bags(problem))
        except ConfigError as err:
            warnings.append(str(err))
    folds: tuple[Fold, ...] = ()
    if families:
        observer.stage(f'fitting without each of {len(families)} parts of the data')
        folds = leave_out(
            problem.spec,
            training,
            families,
            fit,
            loss=config.solver.loss,
            threads=threads,
            cancel=cancel,
        )
    horizon: tuple[HorizonPoint, ...] = ()
    if chosen.horizon:
        roles: tuple[Role, ...] = ('train', 'validate')
        horizon = horizon_errors(
            problem.spec,
            problem.model,
            {role: problem.sequences(role) for role in roles},
            fit.parameters,
            fit.solution.x,
            noise=fit.noise,
            seconds=chosen.horizon,
            threads=threads,
            drives=fit.drives,
        )
    windows: tuple[WindowFit, ...] = ()
    if chosen.windows and whole:
        observer.stage('fitting windows')
        try:
            windows = fit_windows(
                problem.spec,
                training,
                fit,
                chosen.windows,
                loss=config.solver.loss,
                threads=threads,
                cancel=cancel,
            )
        except CancelledError:
            raise
        except FitError as err:
            warnings.append(str(err))
    return Validation(folds, horizon, windows, (*warnings, *_warnings(fit, folds, windows)))


def check_families(config: CalibrationConfig, problem: Problem) -> None:
    """Check, before any work, that what is to be left out fits the bags.

    Raises:
        ConfigError: It does not.
    """
    families_of(config.validation.leave_out, training_bags(problem))


def _warnings(fit: Fit, folds: Sequence[Fold], windows: Sequence[WindowFit]) -> list[str]:
    found = list(disagreements(fit, folds)) if folds else []
    return [*found, *(drifts(fit, windows) if windows else ())]
