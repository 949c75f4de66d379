# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The whole way from bags to a result: configuration in, result out."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from functools import partial
from types import MappingProxyType

from sysid_ros.config.schema import CalibrationConfig
from sysid_ros.errors import CancelledError, SysidError, how_many
from sysid_ros.files import check_writable
from sysid_ros.fit.observer import Nobody, Observer
from sysid_ros.results.checks import unlike_others
from sysid_ros.results.result import EstimatorKind
from sysid_ros.results.store import Memory
from sysid_ros.workflows.estimators import estimated
from sysid_ros.workflows.film import film_of, frames
from sysid_ros.workflows.fitting import Job, begun_at, fit_problem, recall, timestep_change
from sysid_ros.workflows.predictions import simulate
from sysid_ros.workflows.problem import Problem, Subject, carried_on, load, subject_of
from sysid_ros.workflows.resuming import Iterates
from sysid_ros.workflows.validation import families_of, training_bags, validate
from sysid_ros.workflows.writing import Calibration, Identified, assemble, check_written_back, write


def calibrate(
    config: CalibrationConfig,
    *,
    command: str = '',
    observer: Observer | None = None,
    cancel: threading.Event | None = None,
    resume: bool = False,
) -> Calibration:
    """Identify the parameters of a configuration and write result, report and MJCF.

    No result is written before the fit has succeeded. Every result has a folder of its own, and a
    rejected one never becomes the current one. A hidden file in the output keeps the fit's last
    values until it has come to its end.

    Args:
        config: The validated configuration.
        command: How the user asked for it, for the provenance.
        observer: Is told of stages and iterations.
        cancel: Ends the fit when it is set.
        resume: Go on from the last values of a fit that was interrupted.

    Raises:
        SysidError: In one sentence, what is wrong; no result was written.
    """
    observer = observer or Nobody()
    check_writable(config.output)
    subject = subject_of(config)
    check_written_back(config, subject.model)
    iterates = Iterates(config, subject.model.description.sha256)
    resumed = iterates.read() if resume else {}
    try:
        found = identify(
            config,
            command=command,
            observer=observer,
            cancel=cancel,
            subject=subject,
            iterates=iterates,
            resumed=resumed,
        )
    except CancelledError:
        raise
    except SysidError:
        # What cannot be fitted leaves nothing to go on with.
        iterates.remove()
        raise
    observer.stage('writing result, report and model')
    done = write(found, config.output)
    iterates.ended(done.result)
    return done


def identify(
    config: CalibrationConfig,
    *,
    command: str = '',
    observer: Observer | None = None,
    cancel: threading.Event | None = None,
    subject: Subject | None = None,
    iterates: Iterates | None = None,
    resumed: Mapping[str, float] = MappingProxyType({}),
) -> Identified:
    """Identify the parameters of a configuration as `calibrate` does; no result is written.

    What was read of the model already is the ``subject``; it is read here unless given. The fit
    goes on from values that are ``resumed``, and its own are kept by ``iterates``.
    """
    observer = observer or Nobody()
    job = Job.begin(config, observer, cancel)
    memory, config, warnings = recall(config)
    job = job._replace(config=config, iterates=iterates, resumed=resumed)
    recorded = load(config, observer, subject=subject)
    if memory is not None and config.memory.carry:
        # What the new recordings are compared with is the robot as it was known.
        known = {p.name: p.value for p in memory.result.parameters if carried_on(p.targets, config)}
        recorded = begun_at(recorded, known)
    found = _identified(job, recorded, command, memory, warnings)
    rest = recorded.without(unlike_others(found.result, config.gate))
    if rest is recorded:
        return found
    observer.stage('fitting again without what disagrees with the others')
    return _identified(job, rest, command, memory, warnings)


def _identified(
    job: Job,
    recorded: Problem,
    command: str,
    memory: Memory | None,
    warnings: Sequence[str],
) -> Identified:
    """Identify the parameters of a problem, predict its recordings and judge the result."""
    config, observer, threads = job.config, job.observer, job.config.solver.threads
    seen = estimated(config, recorded)
    problem = seen.problem
    # Before any work, whether what is to be left out fits the bags.
    families = families_of(config.validation.leave_out, training_bags(problem))
    count = how_many(problem.parameters, 'parameter')
    observer.stage(f'fitting {count} to {how_many(problem.sequences("train"), "sequence")}')
    fitted = fit_problem(job, problem, memory)
    observer.stage('predicting all recordings, nominal and fitted')
    trajectories = [s for each in problem.recordings for s in each.alignment.sequences]
    filmed = config.report.film and seen.kind is not EstimatorKind.TORQUE
    table = simulate(
        fitted.predictor(threads),
        # Commands act when they were found to.
        fitted.fit.as_arrived(trajectories, offsets=True),
        window=fitted.fit.window,
        noise=fitted.fit.noise,
        beside=partial(frames, problem.model) if filmed else None,
    )
    tested = validate(config, recorded, fitted, families, table, observer, job.cancel, job.deadline)
    result = assemble(
        config,
        command,
        seen,
        fitted,
        table,
        memory=memory,
        change=timestep_change(problem, fitted, table, threads),
        validation=tested,
        warnings=(*warnings, *recorded.notes),
    )
    drawn = None
    if config.report.film:
        drawn = partial(film_of, fitted, table, result.diagnostics)
    return Identified(result, fitted.values, recorded.source, recorded.servos, drawn)
