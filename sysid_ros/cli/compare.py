# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""``sysid compare``."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from sysid_ros.cli.parser import parse_overrides
from sysid_ros.config import load_calibration
from sysid_ros.errors import ConfigError

if TYPE_CHECKING:
    import argparse

    from sysid_ros.pipeline.models import Candidate, ModelComparison
    from sysid_ros.report.tables import LiteralConsole


def run(args: argparse.Namespace) -> int:
    """Compare results as they are, or models on the same bags."""
    results = [place for place in args.places if place.is_dir() or place.suffix == '.json']
    if len(results) == len(args.places):
        return _run_results(args)
    if results:
        msg = (
            f'Expected only results or only configurations, found the result {str(results[0])!r} '
            f'among {len(args.places)} paths.'
        )
        raise ConfigError(msg)
    overrides = parse_overrides(args.overrides)
    configs = [load_calibration(path, overrides) for path in args.places]
    # Imported late, so that a wrong configuration is told at once.
    from sysid_ros.cli.console import make_console, print_document, progress_for  # noqa: PLC0415
    from sysid_ros.pipeline.models import Candidate, compare_models  # noqa: PLC0415

    candidates: list[Candidate] = []
    stems = [path.stem for path in args.places]
    unique = len(set(stems)) == len(stems)
    names = stems if unique else [str(path) for path in args.places]
    for name, config in zip(names, configs, strict=True):
        candidates.append(Candidate(name, config))
        for patterns in args.drop:
            drop = tuple(pattern.strip() for pattern in patterns.split(','))
            candidates.append(Candidate(f'{name} without {", ".join(drop)}', config, drop))
    with progress_for(args) as progress:
        found = compare_models(candidates, progress)
    if args.json:
        print_document(found)
    elif args.quiet:
        make_console().print(_recommended(found))
    else:
        print_models(make_console(), found)
    return 0


def _run_results(args: argparse.Namespace) -> int:
    """Put results beside each other.

    Raises:
        ConfigError: There is one only, or an option is for configurations.
        ResultError: One cannot be read.
    """
    if args.drop or args.overrides:
        msg = '--drop and --set are for configurations, found results.'
        raise ConfigError(msg)
    if len(args.places) == 1:
        msg = f'Expected two results or more to compare, found {str(args.places[0])!r} alone.'
        raise ConfigError(msg)
    from sysid_ros.cli.console import make_console, print_document  # noqa: PLC0415
    from sysid_ros.report.side_by_side import print_side_by_side  # noqa: PLC0415
    from sysid_ros.results.side_by_side import read_side_by_side  # noqa: PLC0415

    found = read_side_by_side(args.places)
    if args.json:
        print_document(found)
        return 0
    console = make_console()
    if args.quiet:
        for sentence in found.sentences:
            console.print(sentence)
    else:
        print_side_by_side(console, found)
    return 0


def print_models(console: LiteralConsole, found: ModelComparison) -> None:
    """Print how well each model predicts, and which one is recommended."""
    from sysid_ros.cli.console import print_table  # noqa: PLC0415

    numbers = ('parameters', 'training', 'held out', 'worse by', 'std error', 'AIC', 'BIC')
    rows = [
        (
            model.name,
            str(model.parameters),
            *(_number(x) for x in (model.training, model.held_out)),
            *(_number(x, '.2g') for x in (model.difference, model.standard_error)),
            *(_number(x, '.1f') for x in (model.aic, model.bic)),
        )
        for model in found.models
    ]
    headers = ('model', *(f'>{name}' for name in numbers))
    title = 'Models (errors in units of the noise)'
    print_table(console, title, headers, rows)
    parts = [
        (bags[0].bag, *(_number(part.error) for part in bags))
        for bags in zip(*(model.parts for model in found.models), strict=True)
    ]
    if parts:
        headers = ('bag', *(f'>{model.name}' for model in found.models))
        print_table(console, 'Held out (error in units of the noise)', headers, parts)
    console.print(
        f'AIC and BIC are above the least, for {found.effective:.3g} effective samples.',
    )
    console.print(_recommended(found))


def _recommended(found: ModelComparison) -> str:
    return f'recommended: {found.recommended}, as {found.reason}'


def _number(value: float, form: str = '.4g') -> str:
    return format(value, form) if math.isfinite(value) else '-'
