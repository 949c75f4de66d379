# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""``sysid compare``."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from rich.markup import escape

from sysid_ros.cli.parser import parse_overrides
from sysid_ros.config import load_calibration

if TYPE_CHECKING:
    import argparse

    from rich.console import Console

    from sysid_ros.pipeline.models import Candidate, ModelComparison


def run(args: argparse.Namespace) -> int:
    """Compare models on the same bags and recommend one."""
    overrides = parse_overrides(args.overrides)
    configs = [load_calibration(path, overrides) for path in args.configs]
    # Imported late, so that a wrong configuration is told at once.
    from sysid_ros.cli.console import Progress, make_console  # noqa: PLC0415
    from sysid_ros.identification.observer import Nobody  # noqa: PLC0415
    from sysid_ros.json_text import to_json  # noqa: PLC0415
    from sysid_ros.pipeline.models import Candidate, compare_models  # noqa: PLC0415

    candidates: list[Candidate] = []
    stems = [path.stem for path in args.configs]
    unique = len(set(stems)) == len(stems)
    names = stems if unique else [str(path) for path in args.configs]
    for name, config in zip(names, configs, strict=True):
        candidates.append(Candidate(name, config))
        for patterns in args.drop:
            drop = tuple(pattern.strip() for pattern in patterns.split(','))
            candidates.append(Candidate(f'{name} without {", ".join(drop)}', config, drop))
    progress = None if args.json else Progress()
    found = compare_models(candidates, progress or Nobody())
    if progress is None:
        print(to_json(found, indent=2))
        return 0
    progress.finish()
    print_models(make_console(), found)
    return 0


def print_models(console: Console, found: ModelComparison) -> None:
    """Print how well each model predicts, and which one is recommended."""
    from sysid_ros.cli.console import make_table  # noqa: PLC0415

    numbers = ('parameters', 'training', 'held out', 'worse by', 'std error', 'AIC', 'BIC')
    table = make_table(
        'Models (errors in units of the noise)', 'model', *(f'>{name}' for name in numbers)
    )
    for model in found.models:
        table.add_row(
            escape(model.name),
            str(model.parameters),
            *(_number(x) for x in (model.training, model.held_out)),
            *(_number(x, '.2g') for x in (model.difference, model.standard_error)),
            *(_number(x, '.1f') for x in (model.aic, model.bic)),
        )
    console.print(table)
    console.print()
    names = (f'>{escape(model.name)}' for model in found.models)
    parts = make_table('Held out (error in units of the noise)', 'bag', *names)
    for rows in zip(*(model.parts for model in found.models), strict=True):
        parts.add_row(escape(rows[0].bag), *(_number(part.error) for part in rows))
    if parts.row_count:
        console.print(parts)
        console.print()
    console.print(
        f'AIC and BIC are above the least, for {found.effective:.3g} effective samples.',
        markup=False,
    )
    console.print(f'recommended: {found.recommended}, as {found.reason}', markup=False)


def _number(value: float, form: str = '.4g') -> str:
    return format(value, form) if math.isfinite(value) else '-'
