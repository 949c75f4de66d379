# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The table that every example prints, and the arguments that it takes."""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable


class Row(NamedTuple):
    """One parameter: its true value, its estimate and the half-width of its 95 % interval."""

    name: str
    truth: float
    estimate: float
    half_width: float

    @property
    def interval(self) -> str:
        """The interval in words; none where the data do not determine the parameter."""
        if not math.isfinite(self.half_width) or self.half_width > abs(self.estimate):
            return 'none: not determined'
        return f'± {self.half_width:.2g}'


def show(title: str, rows: Iterable[Row]) -> None:
    """Print truth, estimate and interval."""
    print(f'\n{title}')
    print(f'{"parameter":<18}{"truth":>9}{"estimate":>10}  95 % interval')
    for row in rows:
        print(f'{row.name:<18}{row.truth:>9.4f}{row.estimate:>10.4f}  {row.interval}')


def output_folder(description: str) -> Path:
    """Read ``--out`` from the command line and make the folder."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument('--out', type=Path, default=Path('out'), help='folder for the files')
    folder: Path = parser.parse_args().out
    folder.mkdir(parents=True, exist_ok=True)
    return folder
