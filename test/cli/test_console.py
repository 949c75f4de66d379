# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What the command line shows, on wide and narrow terminals and in logs."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pytest

from builders.cli_project import Project
from sysid_ros.cli.console import Progress
from sysid_ros.fit.observer import counted
from sysid_ros.fit.solver import Iteration
from sysid_ros.report.tables import LiteralConsole, print_result, print_table
from sysid_ros.results.result import (
    BaseParameter,
    CalibrationResult,
    Fold,
    InferenceSummary,
    LinkResult,
)
from sysid_ros.uncertainty.verdicts import Combination


@pytest.fixture
def baseline(project: Project) -> CalibrationResult:
    return CalibrationResult.load(project.folder / 'baseline.json')


def show(printer: Callable[..., None], *arguments: Any, width: int) -> list[str]:
    """Return the lines that are printed to a console of some width."""
    stream = io.StringIO()
    printer(LiteralConsole(stream, width), *arguments)
    return [line.rstrip() for line in stream.getvalue().splitlines()]


def test_a_parameter_is_a_row_on_wide_and_a_paragraph_on_narrow_terminals(
    baseline: CalibrationResult,
):
    wide, narrow = (show(print_result, baseline, width=width) for width in (120, 60))
    assert max(map(len, narrow)) <= 60
    for parameter in baseline.parameters:
        (row,) = [line for line in wide if line.startswith(f'{parameter.name} ')]
        assert parameter.unit in row
        assert row.endswith(parameter.verdict)
        assert narrow[narrow.index(parameter.name) + 1].startswith('    value ')


@pytest.mark.parametrize('width', [20, 50, 80, 120])
def test_no_word_of_a_table_is_lost_at_any_width(width: int):
    headers = ('bag', '>value', 'what it says')
    rows = [('11-26_[bold]x[0]', '12.345', 'the velocity lags the derivative of the position')] * 3
    lines = show(print_table, 'Title', headers, rows, width=width)
    assert max(map(len, lines)) <= width
    words = [word.rstrip(',') for word in ' '.join(lines).split()]
    for word in ' '.join(rows[0]).split():
        assert words.count(word) >= 3
    assert ('bag' in words) is (width > 20)


def test_what_the_data_cannot_say_and_what_they_say_instead_are_printed(
    baseline: CalibrationResult,
):
    first, *rest = baseline.parameters
    ratio = Combination(('a', 'b'), 'a/b', value=1.50004, low=1.499, high=1.501)
    inference = InferenceSummary(
        method='cluster-robust over 8 bags',
        samples=5000,
        effective_samples=123.0,
        covariance=(),
        correlation=(),
        notes=('Few bags.',),
    )
    update = {
        'parameters': (first.model_copy(update={'explanation': 'Record two loads.'}), *rest),
        'combinations': (ratio,),
        'inference': inference,
        'folds': (Fold(name='train_2', before=10.0, after=1.0, values=()),),
    }
    told = baseline.model_copy(update=update)
    lines = show(print_result, told, width=200)
    assert f'{first.name}: Record two loads.' in lines
    assert 'determined is a/b: 1.5000 [1.4990, 1.5010]' in lines
    (method,) = [line for line in lines if line.startswith('Intervals: cluster-robust over 8')]
    assert '5000 residuals say as much as 123' in method
    assert 'Few bags.' in lines
    (row,) = [line for line in lines if line.startswith('train_2')]
    assert row.split()[1:3] == ['10.0', '1.00']


def _iteration(number: int, cost: float, diverged: int = 0) -> Iteration:
    return Iteration(number, cost, 0.1, 10 * number, diverged, 2.0 * number)


def test_progress_in_a_log_is_a_line_per_iteration():
    stream = io.StringIO()
    progress = Progress(stream, limit=60.0)
    progress.stage('fitting')
    progress.iteration(_iteration(0, 200.0))
    progress.iteration(_iteration(1, 100.0, diverged=3))
    progress.iteration(_iteration(2, 150.0))
    progress.finish()
    assert stream.getvalue().splitlines() == [
        'fitting',
        'iteration 0: cost 200, 0 rollouts, 0 s of at most 60',
        'iteration 1: cost 100, 10 rollouts, 3 diverged, 2 s of at most 60',
        'iteration 2: cost 150 (new noise estimate), 20 rollouts, 4 s of at most 60',
    ]


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        """Return that it is one."""
        return True


def test_parts_of_a_stage_are_counted_on_a_terminal_and_said_once_in_a_log():
    for stream, lines in ((Terminal(), 3), (io.StringIO(), 2)):
        progress = Progress(stream)
        progress.stage('fitting without each of 3 bags')
        assert list(counted(progress, 'abc', 3)) == ['a', 'b', 'c']
        progress.stage('writing')
        assert stream.getvalue().count('\n') == lines
        assert ('2 of 3' in stream.getvalue()) is stream.isatty()


def test_progress_on_a_terminal_is_one_line_that_is_never_folded(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv('COLUMNS', '80')
    stream = Terminal()
    progress = Progress(stream)
    progress.iteration(_iteration(1, 1.23456e-7))
    progress.iteration(_iteration(2, 1.23456e7, diverged=20))
    shown = stream.getvalue().rpartition('\x1b[K')[2]
    assert len(shown) < 80
    assert shown.startswith('iteration 2: cost 1.23456e+07 (new noise estimate), ')
    assert shown.endswith(', 4 s')
    progress.stage('writing')
    assert (stream.getvalue().count('\n'), stream.getvalue().count('\r')) == (2, 2)


def test_base_parameters_stand_for_combinations_of_numbers_of_links(baseline: CalibrationResult):
    base = BaseParameter(
        parameters=('a',),
        terms=('Izz(tip)', '+ m·cx(tip)', '- Ixx(tip)', '+ 0.25·m(tip)'),
        unit='kg·m²',
        value=0.5,
        low=0.49,
        high=0.51,
        largest=0.5,
    )
    vague = base.model_copy(update={'terms': ('Ixy(tip)',), 'low': 0.0, 'high': 1.0})
    of_links = Combination(parameters=('a', 'b'), expression='a/b', value=1, low=0, high=2)
    told = {
        'bases': (base, vague),
        'links': (LinkResult(body='tip', parameters=('a', 'b'), numbers=()),),
        'combinations': (of_links,),
    }
    lines = show(print_result, baseline.model_copy(update=told), width=80)
    assert 'Base parameters: 1 of the 2 sums' in ' '.join(lines)
    assert not any('Ixy(tip)' in line or 'a/b' in line for line in lines)
