# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""``sysid evaluate``: how well a model as it is predicts recordings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sysid_ros.config import ThresholdsConfig, load_thresholds
from sysid_ros.errors import ConfigError, ResultError

if TYPE_CHECKING:
    import argparse


def run(args: argparse.Namespace) -> int:
    """Predict the recordings; return 1 when an error is above its limit."""
    thresholds = load_thresholds(args.thresholds) if args.thresholds else ThresholdsConfig()
    thresholds = _overridden(thresholds, args)
    # Imported late, so that a wrong file is told at once.
    from sysid_ros.cli.console import progress_for  # noqa: PLC0415
    from sysid_ros.cli.outcome import check_outputs, show_outcome  # noqa: PLC0415
    from sysid_ros.pipeline.baseline import find_predictions  # noqa: PLC0415

    check_outputs(args)
    with progress_for(args) as progress:
        done = find_predictions(thresholds, observer=progress)
    if done.path is not None and not done.known:
        raise ResultError(' '.join(done.notes))
    failed = sum(not case.passed for case in done.cases)
    last = f'{failed} of {len(done.cases)} failed' if failed else f'all {len(done.cases)} passed'
    limited = thresholds.limits or thresholds.horizon or thresholds.baseline
    last = f'{last}.' if limited else 'No limits were given, so nothing failed.'
    notes = (*(f'warning: {warning}' for warning in done.made.warnings), *done.notes)
    return show_outcome(args, f'Predictions of {thresholds.model}', done.cases, notes, last)


def _overridden(thresholds: ThresholdsConfig, args: argparse.Namespace) -> ThresholdsConfig:
    """Return the thresholds with what the command line says in place of the file's."""
    from pathlib import Path  # noqa: PLC0415

    given: dict[str, object] = {
        'model': args.model,
        'bags': tuple(map(str, args.bags)) or None,
        'package_path': tuple(args.package_path) or None,
        'namespace': args.namespace or None,
        'stamps': None if args.stamps == 'auto' else args.stamps,
        'mapping': None if args.mapping == 'auto' else Path(args.mapping),
    }
    found = thresholds.model_copy(update={k: v for k, v in given.items() if v is not None})
    for name, example in (('model', 'arm.xml'), ('bags', 'bags/validate_*')):
        if not getattr(found, name):
            file = args.thresholds or 'a thresholds file'
            msg = f'Expected {name}, as {example}, on the command line or in {file}, found none.'
            raise ConfigError(msg)
    return found
