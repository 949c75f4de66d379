# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""``sysid check``: predictions against limits, and a new fit against an earlier one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from sysid_ros.cli.parser import parse_overrides
from sysid_ros.config import load_thresholds, make_thresholds, read_yaml
from sysid_ros.errors import ConfigError

if TYPE_CHECKING:
    import argparse

    from sysid_ros.config import ThresholdsConfig


def run(args: argparse.Namespace) -> int:
    """Predict, fit and compare; return 1 when something is not as it has to be."""
    overrides = parse_overrides(args.overrides)
    alone = not args.bags and not _is_thresholds(args.file)
    thresholds = _thresholds(args, overrides, alone=alone)
    # Imported late, so that a wrong file is told at once.
    from sysid_ros.cli.console import progress_for  # noqa: PLC0415
    from sysid_ros.cli.outcome import check_outputs, show_outcome  # noqa: PLC0415
    from sysid_ros.pipeline.baseline import find_parameters, find_predictions  # noqa: PLC0415

    check_outputs(args, thresholds.baseline if args.update else None)
    found = []
    with progress_for(args) as progress:
        if thresholds.model is not None:
            found.append(find_predictions(thresholds, update=args.update, observer=progress))
        if thresholds.calibration and thresholds.baseline and not args.no_fit:
            found.append(
                find_parameters(
                    thresholds.calibration,
                    thresholds.baseline,
                    overrides if alone else {},
                    update=args.update,
                    output=args.output,
                    command=args.command_line,
                    observer=progress,
                )
            )
    written = [part.write() for part in found] if args.update else []
    cases = [case for part in found for case in part.cases]
    notes = [note for part in found for note in part.notes]
    return show_outcome(args, f'Check of {args.file}', cases, notes, written)


def _is_thresholds(file: Path) -> bool:
    return file.suffix in ('.yaml', '.yml') and 'parameters' not in read_yaml(file)


def _thresholds(
    args: argparse.Namespace, overrides: dict[str, Any], *, alone: bool
) -> ThresholdsConfig:
    """Return what is to be checked.

    Args:
        args: Of the command line.
        overrides: Values of the file that are replaced.
        alone: Whether the file is a calibration without bags to predict.

    Raises:
        ConfigError: The file is not valid, or says too little.
    """
    where = str(args.file)
    given = {} if args.baseline is None else {'baseline': str(args.baseline)}
    if args.bags:
        values = {'model': where, 'bags': args.bags, **given}
        thresholds = make_thresholds(values, Path(), overrides, where)
    elif alone:
        thresholds = make_thresholds({'calibration': where, **given}, Path(), {}, where)
    else:
        thresholds = load_thresholds(args.file, {**overrides, **given})
    if bool(thresholds.model) != bool(thresholds.bags):
        lacking = 'bags, as bags/validate_*,' if thresholds.model else 'a model, as arm.xml,'
        raise ConfigError(f'Expected {lacking} in {where!r}, found none.')
    if thresholds.model is None and (thresholds.calibration is None or args.no_fit):
        raise ConfigError(
            f'Expected a model and bags to predict, or a calibration to fit, in {where!r}, found '
            'neither.'
        )
    fitted = thresholds.calibration is not None and not args.no_fit
    if thresholds.baseline is None and (args.update or fitted):
        raise ConfigError(
            f'Expected a baseline, the folder of what was found before, in {where!r} or as '
            '--baseline, found none.'
        )
    return thresholds
