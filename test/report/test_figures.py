# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Figures are PNG files with something in them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import matplotlib.image as mpimg
import pytest

from sysid_ros.errors import ResultError
from sysid_ros.report import write_figures

if TYPE_CHECKING:
    from pathlib import Path

    from sysid_ros.results.result import CalibrationResult, SignalPlot

pytestmark = pytest.mark.slow


def _with_plots(result: CalibrationResult, *plots: SignalPlot) -> CalibrationResult:
    return result.model_copy(update={'plots': plots})


def _first(result: CalibrationResult, **fields: object) -> SignalPlot:
    return result.plots[0].model_copy(update=fields)


def test_there_is_one_figure_per_sequence_held_out_first(
    rich_result: CalibrationResult, tmp_path: Path
) -> None:
    two_of_each = [p for p in rich_result.plots if p.sensor.startswith('elbow')]
    files = write_figures(_with_plots(rich_result, *two_of_each), tmp_path / 'new')
    assert [file.name for file in files] == [
        'parameters.png',
        'sequence_bags_held.png',
        'sequence_bags_train_slow.png',
        'sequence_bags_train_fast.png',
        'solver_trace.png',
    ]
    for file in files:
        image = mpimg.imread(file)
        assert min(image.shape[:2]) > 200
        assert image[..., :3].std() > 0.02


def test_a_sequence_looks_as_if_it_were_the_only_one(
    rich_result: CalibrationResult, tmp_path: Path
) -> None:
    large = _first(rich_result, sequence='a', before=(1e3,) * len(rich_result.plots[0].times))
    small = _first(rich_result, sequence='b')
    together = write_figures(_with_plots(rich_result, large, small), tmp_path / 'together')
    alone = write_figures(_with_plots(rich_result, small), tmp_path / 'alone')
    names = [file.name for file in together]
    assert names[1:3] == ['sequence_a.png', 'sequence_b.png']
    assert together[2].read_bytes() == alone[1].read_bytes()


def test_pyplot_is_not_imported(rich_result: CalibrationResult, tmp_path: Path) -> None:
    assert 'matplotlib.pyplot' not in sys.modules
    write_figures(_with_plots(rich_result), tmp_path)
    assert 'matplotlib.pyplot' not in sys.modules


def test_names_that_would_be_formulas_or_paths_are_harmless(
    rich_result: CalibrationResult, tmp_path: Path
) -> None:
    plots = [_first(rich_result, sequence=name, sensor='$\\frac$') for name in ('../a', '_a', '$')]
    parameter = rich_result.parameters[0].model_copy(update={'name': '$\\alpha_{$'})
    result = _with_plots(rich_result, *plots).model_copy(update={'parameters': (parameter,)})
    files = write_figures(result, tmp_path)
    names = ['sequence_a.png', 'sequence_a_2.png', 'sequence_unnamed.png']
    assert [file.name for file in files[1:-1]] == names
    assert {file.parent for file in files} == {tmp_path}


def test_a_result_without_data_has_no_figures(
    bare_result: CalibrationResult, tmp_path: Path
) -> None:
    assert write_figures(bare_result, tmp_path) == ()


def test_an_unwritable_folder_is_a_sentence(rich_result: CalibrationResult, tmp_path: Path) -> None:
    (tmp_path / 'file').write_text('')
    with pytest.raises(ResultError, match='Cannot write'):
        write_figures(_with_plots(rich_result), tmp_path / 'file' / 'figures')
