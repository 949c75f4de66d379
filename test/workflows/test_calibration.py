# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""From bags to a result, as a library call."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from builders.recorded_pendulum import ALL, FEW, FOLDER, TIMES, calibration
from sysid_ros.config.schema import (
    BagSelection,
    CalibrationConfig,
    ParameterConfig,
    PriorConfig,
    SegmentsConfig,
    SolverConfig,
)
from sysid_ros.errors import CancelledError, ConfigError, ModelError, SysidError
from sysid_ros.fit.solver import Iteration
from sysid_ros.results.result import CalibrationResult
from sysid_ros.signals import Trajectory
from sysid_ros.simulation.prediction import predict
from sysid_ros.workflows import predictions
from sysid_ros.workflows.calibrate import calibrate, identify
from sysid_ros.workflows.evaluation import find_parameters
from sysid_ros.workflows.problem import bags_of, read_aligned
from sysid_ros.workflows.writing import Calibration, Identified, write

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures('undrawn')]


BAGS = calibration(FOLDER).bags
MISSPELT = {'trian': ((0.0, 1.0),)}


class Notes:
    """An observer that remembers."""

    def __init__(self, on_iteration: Callable[[], None] = lambda: None) -> None:
        self.stages: list[str] = []
        self.iterations: list[Iteration] = []
        self._on_iteration = on_iteration

    def stage(self, text: str) -> None:
        """Remember a stage."""
        self.stages.append(text)

    def iteration(self, iteration: Iteration) -> None:
        """Remember an iteration."""
        self.iterations.append(iteration)
        self._on_iteration()


class Written(NamedTuple):
    """A calibration, its result in memory, and what its observer was told."""

    done: Calibration
    result: CalibrationResult
    notes: Notes


#: What only the compiler reads, and what the model's file has no place for.
OTHERS = (
    ParameterConfig(target='joint/elbow/ref', bounds=(-0.5, 0.5)),
    ParameterConfig(target='sequence/*/initial_qvel', prior=PriorConfig(mean=0.0, std=0.5)),
    ParameterConfig(target='sensor/elbow_velocity/delay', bounds=(-0.05, 0.05)),
    ParameterConfig(target='sensor/shoulder_velocity/gain'),
)


@pytest.fixture(scope='module')
def written(tmp_path_factory: pytest.TempPathFactory) -> Written:
    """Return a calibration of all sorts of parameters and what it wrote; nobody changes it."""
    notes = Notes()
    config = calibration(tmp_path_factory.mktemp('written'), parameters=(*ALL, *OTHERS))
    done = calibrate(config, command='a test', observer=notes)
    return Written(done, done.result, notes)


@pytest.fixture(scope='module')
def identified(tmp_path_factory: pytest.TempPathFactory) -> Identified:
    """Return what is found for few parameters."""
    return identify(calibration(tmp_path_factory.mktemp('few')))


@pytest.fixture(scope='module')
def few(identified: Identified) -> CalibrationResult:
    """Return the result for few parameters."""
    return identified.result


@pytest.fixture
def config(tmp_path: Path) -> CalibrationConfig:
    """Return the calibration of few parameters."""
    return calibration(tmp_path / 'out')


def _with(config: CalibrationConfig, **changes: object) -> CalibrationConfig:
    return config.model_copy(update=changes)


def test_an_observer_is_told_every_stage_and_iteration(written: Written):
    notes = written.notes
    words = 'reading reading fitting intervals predicting predicting writing'
    assert [stage.split()[0] for stage in notes.stages] == words.split()
    assert notes.stages[2] == 'fitting 13 parameters to 1 sequence'
    assert [item.number for item in notes.iterations] == list(range(len(notes.iterations)))
    assert [item.cost for item in notes.iterations] == [
        entry.cost for entry in written.result.solver.trace
    ]


def test_each_recording_is_predicted_once_by_each_model(
    config: CalibrationConfig, monkeypatch: pytest.MonkeyPatch
):
    asked: list[list[str]] = []

    def counted(model: object, trajectories: Sequence[Trajectory], *args: Any, **keys: Any) -> Any:
        asked.append([trajectory.name for trajectory in trajectories])
        return predict(model, trajectories, *args, **keys)  # type: ignore[arg-type]

    monkeypatch.setattr(predictions, 'predict', counted)
    film = config.report.model_copy(update={'film': True})
    ahead = config.validation.model_copy(update={'horizon': ()})
    identify(_with(config, report=film, validation=ahead))
    assert asked == [['train', 'validate']] * 2


def test_a_cancelled_calibration_writes_nothing(config: CalibrationConfig):
    cancel = threading.Event()
    with pytest.raises(CancelledError):
        calibrate(config, observer=Notes(cancel.set), cancel=cancel)
    assert not config.output.exists()


def test_the_written_model_is_the_one_that_was_judged(written: Written, config: CalibrationConfig):
    assert written.done.mjcf_path is not None
    again = identify(_with(config, model=written.done.mjcf_path)).result
    for found, nominal in zip(written.result.errors, again.errors, strict=True):
        assert (found.role, found.sensor) == (nominal.role, nominal.sensor)
        # Where no delay is identified, sequences begin a little earlier.
        assert nominal.before == pytest.approx(found.after, rel=0.06)


def test_what_is_written_can_be_read_again_and_names_every_input(written: Written):
    read = CalibrationResult.load(written.done.result_path)
    assert read.to_json() == written.result.to_json()
    provenance = written.result.provenance
    hashes = {(Path(item.path).name, item.role): item.sha256 for item in provenance.files}
    inputs = [(FOLDER / 'arm.xml', 'model')]
    for role in ('train', 'validate'):
        inputs += [(path, role) for path in sorted((FOLDER / role).iterdir())]
    assert hashes == {
        (path.name, role): hashlib.sha256(path.read_bytes()).hexdigest() for path, role in inputs
    }
    assert provenance.command == 'a test'


def test_without_a_held_out_bag_the_training_error_judges_and_the_result_says_so(
    config: CalibrationConfig,
):
    segments = SegmentsConfig(times={'train': TIMES['train']})
    result = identify(_with(config, bags=config.bags[:1], segments=segments)).result
    assert result.accepted
    assert result.acceptance.startswith('Training error (nothing is held out) fell')
    # The few numbers make up for others that stay wrong, which the residuals tell, too.
    assert [check.name for check in result.reservations] == ['held out', 'model', 'residuals']
    assert {error.role for error in result.errors} == {'train'}


def test_a_pattern_takes_every_bag_that_matches(config: CalibrationConfig, tmp_path: Path):
    names = ('run_1', 'run_2')
    for name in reversed(names):
        (tmp_path / name).mkdir()
    several = _with(config, bags=(BagSelection(path=str(tmp_path / 'run_*')),))
    assert bags_of(several) == [(tmp_path / name, 'train') for name in names]


def test_what_the_writer_of_the_model_has_to_say_is_a_warning(
    identified: Identified, config: CalibrationConfig, tmp_path: Path
):
    text = (FOLDER / 'arm.xml').read_text().replace('kv="1.5"', 'dampratio="1"')
    (tmp_path / 'ratio.xml').write_text(text)
    result = identified.result.model_copy(update={'model': str(tmp_path / 'ratio.xml')})
    done = write(dataclasses.replace(identified, result=result, model=None), config.output)
    assert done.mjcf_path == done.folder / 'mjcf' / 'ratio.xml'
    assert any('written anew by MuJoCo' in warning for warning in done.result.warnings)
    assert done.result.changes == ()


def test_a_model_that_cannot_be_written_back_is_told_before_the_fit(
    config: CalibrationConfig, tmp_path: Path
):
    tendon = '<fixed name="t" springlength=".1 .1"><joint joint="elbow" coef="1"/></fixed>'
    text = (FOLDER / 'arm.xml').read_text()
    text = text.replace('</mujoco>', f'<tendon>{tendon}</tendon></mujoco>')
    (tmp_path / 'spring.xml').write_text(text)
    notes = Notes()
    shortest = (ParameterConfig(target='tendon/t/springlength[0]'),)
    spring = _with(config, model=tmp_path / 'spring.xml', parameters=shortest)
    with pytest.raises(ModelError, match='invalid springlength'):
        calibrate(spring, observer=notes)
    assert not notes.stages
    assert not config.output.exists()


def test_check_writes_nothing_and_agrees_with_itself(
    few: CalibrationResult, config: CalibrationConfig, tmp_path: Path
):
    few.save(tmp_path / 'baseline.json')
    file = tmp_path / 'calibration.yaml'
    file.write_text(json.dumps(config.model_dump(mode='json')))
    result, _, cases, notes = find_parameters(file, tmp_path / 'baseline.json', {})
    assert isinstance(result, CalibrationResult)
    names = [parameter.name for parameter in result.parameters]
    assert [case.name for case in cases if case.passed] == [*names, 'held-out error']
    assert [case.value for case in cases] == [case.baseline for case in cases]
    assert len(notes) == 1
    assert (result.parameters, result.errors) == (few.parameters, few.errors)
    assert not config.output.exists()


def test_several_starts_are_in_the_result(few: CalibrationResult, config: CalibrationConfig):
    solver = SolverConfig(starts=5, seed=3, max_iterations=30)
    notes = Notes()
    several = identify(_with(config, solver=solver), observer=notes).result
    assert few.solver.starts == ()
    assert len(several.solver.starts) == 5
    costs = [start.start_cost for start in several.solver.starts]
    assert costs == sorted(costs)
    assert sum(start.status == 'not solved' for start in several.solver.starts) == 2
    assert len(notes.iterations) > len(several.solver.trace)
    for found, expected in zip(several.parameters, few.parameters, strict=True):
        assert abs(found.value - expected.value) < 0.2 * expected.half_width


def test_every_curve_of_a_joint_has_what_that_joint_was_told(few: CalibrationResult):
    alignment, _ = read_aligned(FOLDER / 'train', FOLDER / 'arm.xml')
    (sequence,) = alignment.sequences
    (series,) = sequence.commands
    for plot in few.plots:
        assert plot.command_unit == 'rad'
        assert len(plot.command) == len(plot.times)
        if plot.sequence == sequence.name:
            column = series.names.index(plot.sensor.partition('_')[0])
            sent = [(t, row[column]) for t, row in zip(series.times, series.data, strict=True)]
            held = [[told for t, told in sent if t <= at][-1] for at in plot.times]
            assert plot.command == pytest.approx(held, rel=1e-5)


def test_what_only_the_compiler_reads_and_starts_of_sequences_are_identified(written: Written):
    found = [written.result.parameter(f'sequence/train/initial_qvel[{i}]') for i in range(2)]
    assert all(parameter.unit == 'rad/s' for parameter in found)
    assert all(parameter.initial != 0.0 for parameter in found)  # of the samples around the start
    ref = written.result.parameter('joint/elbow/ref')
    assert ref.low < 0.0 < ref.high
    assert {parameter.verdict for parameter in (*found, ref)} == {'identified'}


def test_what_was_changed_in_the_text_of_the_model_is_in_the_result(written: Written):
    changes = {(c.element, c.attribute): c for c in written.result.changes}
    ref, value = changes['joint/elbow', 'ref'], written.result.parameter('joint/elbow/ref').value
    assert float(ref.new) == value
    assert '"elbow"' in Path(ref.file).read_text().splitlines()[ref.line - 1]
    assert written.done.mjcf_path is not None
    assert f'ref="{value!r}"' in written.done.mjcf_path.read_text()
    assert all(change.old != change.new for change in written.result.changes)


def test_a_delay_of_a_sensor_leaves_out_the_ends_and_cuts_no_sequence(
    few: CalibrationResult, config: CalibrationConfig
):
    result = identify(_with(config, parameters=(*FEW, *OTHERS[-2:]))).result
    assert {e.sensor: e.samples for e in result.errors} == {e.sensor: e.samples for e in few.errors}
    (finding,) = (f for f in result.health if f.kind == 'missing values')
    assert finding.bag == 'train'
    assert finding.count > 0
    assert result.parameter('sensor/shoulder_velocity/gain').unit == '1'


@pytest.mark.parametrize(
    ('key', 'value', 'sentence'),
    [
        (
            'bags',
            [BAGS[0], BAGS[0].model_copy(update={'role': 'validate'})],
            'both training and valid',
        ),
        ('bags', [*BAGS, BagSelection(path=str(FOLDER / 'valdiate'))], 'nearest: validate'),
        ('segments', SegmentsConfig(times=MISSPELT), "'trian' in segments.times; .*train"),
        ('segments', SegmentsConfig(without=MISSPELT), "'trian' in segments.without; .*train"),
        (
            'parameters',
            [ParameterConfig(target='sequence/trian/initial_qvel')],
            r"No sequence matches 'trian' .*; nearest: train\.$",
        ),
    ],
)
def test_what_is_not_there_is_told_before_the_fit(
    config: CalibrationConfig, key: str, value: object, sentence: str
):
    notes = Notes()
    with pytest.raises(SysidError, match=sentence):
        calibrate(_with(config, **{key: value}), observer=notes)
    assert not notes.iterations
    assert not config.output.exists()


def test_a_sequence_without_a_chosen_sensor_is_left_out(config: CalibrationConfig):
    with pytest.raises(ConfigError, match="matches 'elbow_velocty' in sensors; nearest: elbow_vel"):
        calibrate(_with(config, sensors=('elbow_velocty',)))
    result = identify(_with(config, sensors=('elbow_vel*',))).result
    assert {error.sensor for error in result.errors} == {'elbow_velocity'}
