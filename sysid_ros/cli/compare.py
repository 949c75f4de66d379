# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""``sysid compare``."""

from __future__ import annotations

import dataclasses
import json
import math
from typing import TYPE_CHECKING

from rich.markup import escape
from rich.table import Table

from sysid_ros.cli.overrides import parse_overrides
from sysid_ros.config import load_calibration

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

    from rich.console import Console

    from sysid_ros.pipeline.models import Candidate, ModelComparison


def run(args: argparse.Namespace) -> int:
    """Compare models on the same bags and recommend one."""
    overrides = parse_overrides(args.overrides)
    configs = [load_calibration(path, overrides) for path in args.configs]
    # Imported late, so that a wrong configuration is told at once.
    from sysid_ros.cli.console import Progress, make_console  # noqa: PLC0415
    from sysid_ros.identification.observer import Nobody  # noqa: PLC0415
    from sysid_ros.pipeline.models import Candidate, compare_models  # noqa: PLC0415

    candidates: list[Candidate] = []
    for name, config in zip(_names(args.configs), configs, strict=True):
        candidates.append(Candidate(name, config))
        for patterns in args.drop:
            drop = tuple(pattern.strip() for pattern in patterns.split(','))
            candidates.append(Candidate(f'{name} without {", ".join(drop)}', config, drop))
    progress = None if args.json else Progress()
    found = compare_models(candidates, progress or Nobody())
    if progress is None:
        print(to_json(found))
        return 0
    progress.finish()
    print_models(make_console(), found)
    return 0


def _names(paths: list[Path]) -> list[str]:
    """Return the files' names without suffix, or their paths where names are not unique."""
    stems = [path.stem for path in paths]
    unique = len(set(stems)) == len(stems)
    return stems if unique else [str(path) for path in paths]


def to_json(found: ModelComparison) -> str:
    """Return a comparison as JSON; what is not known is null."""
    return json.dumps(_plain(dataclasses.asdict(found)), indent=2, ensure_ascii=False)


def _plain(value: object) -> object:
    """Replace what JSON does not have: named tuples by objects, NaN by null."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, tuple) and hasattr(value, '_asdict'):
        return _plain(value._asdict())
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value


def print_models(console: Console, found: ModelComparison) -> None:
    """Print how well each model predicts, and which one is recommended."""
    table = _table('Models (errors in units of the noise)')
    table.add_column('model', no_wrap=True)
    for column in ('parameters', 'training', 'held out', 'worse by', 'std error', 'AIC', 'BIC'):
        table.add_column(column, justify='right', no_wrap=True)
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
    parts = _table('Held out (error in units of the noise)')
    parts.add_column('bag', no_wrap=True)
    for model in found.models:
        parts.add_column(escape(model.name), justify='right', no_wrap=True)
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


def _table(title: str) -> Table:
    return Table(title=title, title_justify='left', box=None, pad_edge=False)


def _number(value: float, form: str = '.4g') -> str:
    return format(value, form) if math.isfinite(value) else '-'
