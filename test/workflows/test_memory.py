# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Refits that continue an earlier result, as library calls."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from builders.bare_results import rejected
from sysid_ros.config.files import load_calibration
from sysid_ros.config.schema import BagSelection, CalibrationConfig, MemoryConfig, SolverConfig
from sysid_ros.errors import ConfigError, ResultError
from sysid_ros.results.result import CalibrationResult
from sysid_ros.results.store import Memory
from sysid_ros.workflows.calibrate import calibrate
from sysid_ros.workflows.fitting import recall
from sysid_ros.workflows.problem import bags_of

pytestmark = pytest.mark.usefixtures('undrawn')

PENDULUM = Path(__file__).parents[1] / 'data' / 'pendulum'


def config_of(output: Path, *bags: str, **changes: Any) -> CalibrationConfig:
    config = load_calibration(PENDULUM / 'calibration.yaml')
    selected = tuple(BagSelection(path=str(PENDULUM / bag)) for bag in bags)
    update = {'output': output, 'bags': selected, **changes}
    return config.model_copy(update={'solver': SolverConfig(threads=1), **update})


@pytest.fixture(scope='module')
def earlier(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, CalibrationResult]:
    """Return the result of the first bag."""
    done = calibrate(config_of(tmp_path_factory.mktemp('earlier'), 'train'))
    return done.result_path, done.result


@pytest.mark.slow
def test_a_refit_continues_the_result_that_is_named(
    earlier: tuple[Path, CalibrationResult], tmp_path: Path
) -> None:
    path, before = earlier
    memory = MemoryConfig(previous=path, forgetting=1.0, wander=0.01)
    result = calibrate(config_of(tmp_path, 'validate', memory=memory)).result
    assert result.drift is not None
    assert result.drift.previous == str(path.parent)
    assert [row.name for row in result.drift.parameters] == [p.name for p in before.parameters]
    assert not result.drift.changed
    roles = [file.role for file in result.provenance.files]
    assert roles == ['model', 'train', 'train', 'previous', 'memory', 'memory']
    initial = [parameter.initial for parameter in result.parameters]
    assert initial == [parameter.initial for parameter in before.parameters]
    assert {parameter.verdict for parameter in result.parameters} == {'identified'}


@pytest.mark.slow
def test_no_bag_is_learned_twice(earlier: tuple[Path, CalibrationResult], tmp_path: Path) -> None:
    known = {'memory': MemoryConfig(previous=earlier[0])}
    memory, config, (sentence,) = recall(config_of(tmp_path, 'train', 'validate', **known))
    assert memory is not None
    assert [bag.name for bag, _ in bags_of(config)] == ['validate']
    assert sentence == 'Known from the earlier result and not read again: train.'
    with pytest.raises(ConfigError, match='found only train; record another'):
        recall(config_of(tmp_path, 'train', **known))
    held_out = BagSelection(path=str(PENDULUM / 'train'), role='validate')
    contaminated = config_of(tmp_path, 'validate', **known)
    update = {'bags': (*contaminated.bags, held_out)}
    with pytest.raises(ConfigError, match='was fitted to it; choose another bag'):
        recall(contaminated.model_copy(update=update))


@pytest.mark.slow
def test_the_bags_of_the_earlier_result_stay_known(
    earlier: tuple[Path, CalibrationResult],
) -> None:
    memory = Memory(*earlier)
    empty = memory.result.provenance.model_copy(update={'files': ()})
    told = memory.provenance(empty)
    later = Memory(memory.path, memory.result.model_copy(update={'provenance': told}))
    before, after = ({file.sha256 for file in each.trained} for each in (memory, later))
    assert before
    assert before == after


@pytest.mark.slow
def test_a_rejected_result_is_not_continued(
    earlier: tuple[Path, CalibrationResult], tmp_path: Path
) -> None:
    path = tmp_path / 'out' / 'result.json'
    path.parent.mkdir()
    rejected(earlier[1]).save(path)
    with pytest.raises(ConfigError, match=r'result.json.* was rejected: It is worse\.$'):
        recall(config_of(tmp_path, 'validate', memory=MemoryConfig(previous=path)))
    config = config_of(path.parent, 'validate', memory=MemoryConfig(previous='auto'))
    memory, _, (warning,) = recall(config)
    assert memory is None
    assert warning.startswith('Memory begins anew: Expected an accepted result')


def test_a_result_that_is_not_there_is_an_error_unless_it_would_be_the_first(
    tmp_path: Path,
) -> None:
    missing = MemoryConfig(previous=tmp_path / 'result.json')
    with pytest.raises(ResultError, match='There is no result'):
        recall(config_of(tmp_path, 'train', memory=missing))
    for memory in (MemoryConfig(previous='auto'), MemoryConfig()):
        assert recall(config_of(tmp_path, 'train', memory=memory))[::2] == (None, ())
