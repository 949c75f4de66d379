# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""``sysid plot-actuator``."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

from sysid_ros.errors import ConfigError

if TYPE_CHECKING:
    import argparse

    from sysid_ros.servos.pictures import Predictions


def run(args: argparse.Namespace) -> int:
    """Draw logs and what parameter files say about them.

    Raises:
        ConfigError: Predictions are asked for without parameters, or a period is not positive.
        LogError: A log cannot be read, or is of another servo.
        ParameterError: A parameter file cannot be used.
    """
    if args.sim and not args.params:
        msg = 'Expected parameter files to predict with, as --sim --params FILE …; found none.'
        raise ConfigError(msg)
    if args.reset_period is not None and not (
        math.isfinite(args.reset_period) and args.reset_period > 0
    ):
        msg = f'Expected a positive --reset-period in seconds, found {args.reset_period:g}.'
        raise ConfigError(msg)
    from sysid_ros.cli.console import print_document, say  # noqa: PLC0415 (heavy)
    from sysid_ros.cli.documents import PlotsDocument  # noqa: PLC0415
    from sysid_ros.servos.formats.logs import read_logs  # noqa: PLC0415 (heavy)
    from sysid_ros.servos.pictures import (  # noqa: PLC0415
        predict_logs,
        read_candidates,
        write_pictures,
    )

    candidates = read_candidates(args.params, args.actuator)
    logs = read_logs(args.logdir)
    predictions = predict_logs(candidates, logs, args.reset_period) if args.sim else None
    if predictions is not None and not args.json:
        _print_errors(predictions)
    folder = args.output or Path(f'{args.logdir.resolve().name}_plots')

    def observe(path: Path) -> None:
        if not args.json:
            say(f'wrote {path}')

    paths = write_pictures(folder, logs, candidates, predictions, observe=observe)
    if args.json:
        print_document(PlotsDocument(paths, predictions and _errors(predictions)))
    return 0


def _errors(predictions: Predictions) -> dict[str, dict[str, float]]:
    return {
        name: dict(zip(predictions.logs, row.tolist(), strict=True))
        for name, row in zip(predictions.names, predictions.errors, strict=True)
    }


def _print_errors(predictions: Predictions) -> None:
    from sysid_ros.cli.console import make_console, print_table  # noqa: PLC0415
    from sysid_ros.report.numbers import padded  # noqa: PLC0415

    milli = 1e3 * predictions.errors
    rows = [
        (log, *(padded(float(value)) for value in column))
        for log, column in zip(predictions.logs, milli.T, strict=True)
    ]
    rows.append(('mean', *(padded(float(value)) for value in milli.mean(axis=1))))
    headers = ('log', *(f'>{name}' for name in predictions.names))
    print_table(make_console(), 'Mean absolute error (mrad)', headers, rows)
