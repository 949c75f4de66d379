# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The whole way from bags to a result: configuration in, result out."""

from __future__ import annotations

import threading
from functools import partial

from sysid_ros.config import CalibrationConfig
from sysid_ros.errors import how_many
from sysid_ros.files import check_writable
from sysid_ros.identification.fit import with_arrivals_in
from sysid_ros.identification.observer import Nobody, Observer
from sysid_ros.pipeline.assembly import assemble
from sysid_ros.pipeline.estimators import estimated
from sysid_ros.pipeline.film import frames, motion_of
from sysid_ros.pipeline.fitting import (
    Fitted,
    deadline_of,
    fit_and_correct,
    timestep_change,
    timestep_note,
    with_timestep,
)
from sysid_ros.pipeline.memory import Remembered, fit_with_memory, recall, without_known_bags
from sysid_ros.pipeline.predictions import simulate
from sysid_ros.pipeline.problem import Subject, load, subject_of
from sysid_ros.pipeline.validation import families_of, training_bags, validate
from sysid_ros.pipeline.writing import Calibration, Identified, check_written_back, write
from sysid_ros.results.result import EstimatorKind
from sysid_ros.results.store import find


def calibrate(
    config: CalibrationConfig,
    *,
    command: str = '',
    observer: Observer | None = None,
    cancel: threading.Event | None = None,
) -> Calibration:
    """Identify the parameters of a configuration and write result, report and MJCF.

    Nothing is written before the fit has succeeded. Every result has a folder of its own, and a
    rejected one never becomes the current one.

    Args:
        config: The validated configuration.
        command: How the user asked for it, for the provenance.
        observer: Is told of stages and iterations.
        cancel: Ends the fit when it is set.

    Raises:
        SysidError: In one sentence, what is wrong; nothing was written.
    """
    observer = observer or Nobody()
    check_writable(config.output)
    subject = subject_of(config)
    check_written_back(config, subject.model)
    identified = identify(
        config, command=command, observer=observer, cancel=cancel, subject=subject
    )
    observer.stage('writing result, report and model')
    return write(identified, config.output)


def identify(
    config: CalibrationConfig,
    *,
    command: str = '',
    observer: Observer | None = None,
    cancel: threading.Event | None = None,
    subject: Subject | None = None,
) -> Identified:
    """Identify the parameters of a configuration; reads files and writes none.

    Args:
        config: The validated configuration.
        command: How the user asked for it, for the provenance.
        observer: Is told of stages and iterations.
        cancel: Ends the fit when it is set.
        subject: What was read of the model already; read here unless given.

    Raises:
        SysidError: In one sentence, what is wrong.
    """
    observer, deadline, threads = observer or Nobody(), deadline_of(config), config.solver.threads
    memory, warnings = recall(config.memory, find(config.output))
    if memory is not None:
        config, warnings = without_known_bags(config, memory)
    recorded = load(config, observer, subject=subject)
    seen = estimated(config, recorded)
    training, held_out = (seen.problem.sequences(role) for role in ('train', 'validate'))
    count = how_many(seen.problem.parameters, 'parameter')
    observer.stage(f'fitting {count} to {how_many(training, "sequence")}')
    if memory is None:
        # Before any work, whether what is to be left out fits the bags.
        families_of(config.validation.leave_out, training_bags(seen.problem))
        fitted = fit_and_correct(config, seen.problem, observer, cancel, deadline)
        remembered = Remembered()
    else:
        stepped = with_timestep(seen.problem, config.solver)
        fit, remembered = fit_with_memory(config, stepped, memory, observer, cancel, deadline)
        fitted = Fitted(fit, seen.problem, stepped)
    if fitted.fit.arrival_errors and held_out:
        observer.stage('finding when commands of held-out recordings acted')
        fit = with_arrivals_in(
            fitted.fit,
            fitted.refit.spec,
            held_out,
            threads=threads,
            cancel=cancel,
            deadline=deadline,
        )
        fitted = fitted._replace(fit=fit)
    observer.stage('predicting all recordings, nominal and fitted')
    trajectories = [s for each in seen.problem.recordings for s in each.alignment.sequences]
    film = config.report.film and seen.kind is not EstimatorKind.TORQUE
    table = simulate(
        fitted.predictor(threads),
        # Commands act when they were found to.
        fitted.fit.as_arrived(trajectories, offsets=True),
        window=fitted.fit.window,
        noise=fitted.fit.noise,
        beside=partial(frames, seen.problem.model) if film else None,
    )
    change = timestep_change(seen.problem, fitted, table, threads)
    tested = validate(config, recorded, fitted, table, observer, cancel, deadline)
    result = assemble(
        config,
        command,
        seen,
        fitted,
        table,
        timestep_change=change,
        validation=tested,
        remembered=remembered,
        warnings=(
            *warnings,
            *remembered.warnings,
            *recorded.notes,
            *timestep_note(seen.problem, fitted, change),
        ),
    )
    motion = motion_of(fitted, table, result.diagnostics) if config.report.film else None
    return Identified(result, fitted.values, recorded.source, recorded.servos, motion)
