# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""From bags to a result, as a library call."""

from __future__ import annotations

import hashlib
import shutil
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sysid_ros.config import (
    BagSelection,
    CalibrationConfig,
    ChannelMapping,
    CheckConfig,
    GateConfig,
    MappingConfig,
    ParameterConfig,
    PriorConfig,
    SegmentsConfig,
    SolverConfig,
    load_calibration,
)
from sysid_ros.errors import (
    AlignmentError,
    BagError,
    CancelledError,
    ConfigError,
    FitError,
    ModelError,
    ParameterError,
    ResultError,
)
from sysid_ros.pipeline import calibrate, check, convert
from sysid_ros.results.result import CalibrationResult

if TYPE_CHECKING:
    from collections.abc import Callable

    from sysid_ros.estimation.solver.problem import Iteration

PENDULUM = Path(__file__).parents[1] / 'data' / 'pendulum'
COMMANDS = '/forward_position_controller/commands'
#: Few parameters, so that a fit takes a second.
FEW = (ParameterConfig(target='joint/*/damping'), ParameterConfig(target='body/tip/mass'))


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


@pytest.fixture
def config(tmp_path: Path) -> CalibrationConfig:
    """Return the calibration of the recorded pendulum, few parameters, output elsewhere."""
    loaded = load_calibration(PENDULUM / 'calibration.yaml')
    return loaded.model_copy(
        update={'parameters': FEW, 'check': CheckConfig(), 'output': tmp_path / 'out'}
    )


def _with(config: CalibrationConfig, **changes: Any) -> CalibrationConfig:
    return config.model_copy(update=changes)


def test_convert_returns_the_series_and_writes_only_when_told(tmp_path: Path):
    alignment, written = convert(PENDULUM / 'train', PENDULUM / 'arm.xml', None)
    assert written == ()
    (sequence,) = alignment.sequences
    assert len(sequence.measurements[0].names) == 6
    again, written = convert(PENDULUM / 'train', PENDULUM / 'arm.xml', tmp_path / 'series')
    assert again.topics == alignment.topics
    assert sorted(written) == sorted((tmp_path / 'series').iterdir())


def test_a_calibration_can_be_read_again_as_it_was(config: CalibrationConfig):
    done = calibrate(config)
    assert CalibrationResult.load(done.result_path).to_json() == done.result.to_json()


def test_an_observer_is_told_every_stage_and_iteration(config: CalibrationConfig):
    notes = Notes()
    done = calibrate(config, observer=notes)
    assert [stage.split()[0] for stage in notes.stages] == [
        'reading',
        'reading',
        'fitting',
        'writing',
    ]
    assert notes.stages[2] == 'fitting 3 parameters to 1 sequence'
    assert [item.number for item in notes.iterations] == list(range(len(notes.iterations)))
    assert [item.cost for item in notes.iterations] == [
        entry.cost for entry in done.result.solver.trace
    ]


def test_a_cancelled_calibration_writes_nothing(config: CalibrationConfig):
    cancel = threading.Event()
    with pytest.raises(CancelledError):
        calibrate(config, observer=Notes(cancel.set), cancel=cancel)
    assert not config.output.exists()


def test_the_written_model_is_the_one_that_was_judged(config: CalibrationConfig, tmp_path: Path):
    full = load_calibration(PENDULUM / 'calibration.yaml').parameters
    first = calibrate(_with(config, parameters=full))
    assert first.mjcf_path is not None
    second = calibrate(_with(config, model=first.mjcf_path, output=tmp_path / 'again'))
    for found, nominal in zip(first.result.errors, second.result.errors, strict=True):
        assert (found.role, found.sensor) == (nominal.role, nominal.sensor)
        # Where no delay is identified, sequences begin a little earlier.
        assert nominal.before == pytest.approx(found.after, rel=0.03)


def test_every_input_is_hashed(config: CalibrationConfig):
    result = calibrate(config, command='a test').result
    hashes = {(Path(item.path).name, item.role): item.sha256 for item in result.provenance.files}
    inputs = {
        ('arm.xml', 'model'): PENDULUM / 'arm.xml',
        ('train.mcap', 'train'): PENDULUM / 'train' / 'train.mcap',
        ('metadata.yaml', 'train'): PENDULUM / 'train' / 'metadata.yaml',
        ('validate.mcap', 'validate'): PENDULUM / 'validate' / 'validate.mcap',
        ('metadata.yaml', 'validate'): PENDULUM / 'validate' / 'metadata.yaml',
    }
    assert hashes == {
        key: hashlib.sha256(path.read_bytes()).hexdigest() for key, path in inputs.items()
    }
    assert result.provenance.command == 'a test'


def test_without_a_held_out_bag_the_training_error_judges_and_the_result_says_so(
    config: CalibrationConfig,
):
    result = calibrate(_with(config, bags=config.bags[:1])).result
    assert result.accepted
    assert result.acceptance.startswith('Training error (nothing is held out) fell')
    assert any('Nothing is held out' in warning for warning in result.warnings)
    assert {error.role for error in result.errors} == {'train'}


def test_a_pattern_takes_every_bag_that_matches(config: CalibrationConfig, tmp_path: Path):
    for name in ('run_2', 'run_1'):
        shutil.copytree(PENDULUM / 'train', tmp_path / name)
    notes = Notes()
    bags = (BagSelection(path=str(tmp_path / 'run_*')),)
    calibrate(_with(config, bags=bags), observer=notes)
    assert notes.stages[:2] == [f'reading {tmp_path / name}' for name in ('run_1', 'run_2')]
    assert notes.stages[2] == 'fitting 3 parameters to 2 sequences'


def test_a_bag_has_one_role(config: CalibrationConfig):
    path = str(PENDULUM / 'train')
    bags = (BagSelection(path=path), BagSelection(path=path, role='validate'))
    with pytest.raises(ConfigError, match='both training and validation data'):
        calibrate(_with(config, bags=bags))


@pytest.mark.parametrize('key', ['times', 'without'])
def test_segments_of_a_bag_that_there_is_not_are_an_error(config: CalibrationConfig, key: str):
    segments = SegmentsConfig.model_validate({key: {'trian': [[0.0, 1.0]]}})
    with pytest.raises(ConfigError, match=f"'trian' in segments.{key}; .*train"):
        calibrate(_with(config, segments=segments))


def test_an_actuator_without_commands_is_a_warning(config: CalibrationConfig):
    states = {
        f'{joint}_{field}': ChannelMapping(topic='/joint_states', field=field, label=joint)
        for joint in ('shoulder', 'elbow')
        for field in ('position', 'velocity')
    }
    elbow = ChannelMapping(topic=COMMANDS, field='data', label='1')
    mapping = MappingConfig(sensors=states, actuators={'elbow': elbow})
    result = calibrate(_with(config, mapping=mapping)).result
    assert "Bag 'train' holds no commands for shoulder; they stay 0." in result.warnings


def test_a_fit_that_cannot_start_names_the_commands_that_are_missing(config: CalibrationConfig):
    state = ChannelMapping(topic='/joint_states', field='position', label='elbow')
    mapping = MappingConfig(sensors={'elbow_position': state})
    delay = ParameterConfig(target='actuator/elbow/delay', bounds=(0.0, 0.05))
    with pytest.raises(FitError, match="'train' holds no commands for shoulder, elbow"):
        calibrate(_with(config, mapping=mapping, parameters=(delay,)))
    assert not config.output.exists()


def test_what_the_writer_of_the_model_has_to_say_is_a_warning(
    config: CalibrationConfig, tmp_path: Path
):
    text = (PENDULUM / 'arm.xml').read_text().replace('kv="1.5"', 'dampratio="1"')
    (tmp_path / 'ratio.xml').write_text(text)
    full = load_calibration(PENDULUM / 'calibration.yaml').parameters
    # The gain that the ratio stands for is another than the robot's.
    gate = GateConfig(allowed_verdicts=('identified', 'at bound', 'not excited'))
    done = calibrate(_with(config, model=tmp_path / 'ratio.xml', parameters=full, gate=gate))
    assert done.mjcf_path == config.output / 'mjcf' / 'ratio.xml'
    assert any('dampratio' in warning for warning in done.result.warnings)


def test_a_model_that_cannot_be_written_back_is_told_before_the_fit(
    config: CalibrationConfig, tmp_path: Path
):
    generated = (
        '<replicate count="2"><body name="fan"><joint name="fan" damping="1"/><geom size=".1"/>'
        '</body></replicate></worldbody>'
    )
    text = (PENDULUM / 'arm.xml').read_text().replace('</worldbody>', generated)
    (tmp_path / 'fans.xml').write_text(text)
    notes = Notes()
    damping = (ParameterConfig(target='joint/fan*/damping'),)
    fans = _with(config, model=tmp_path / 'fans.xml', parameters=damping)
    with pytest.raises(ModelError, match='made by <replicate>'):
        calibrate(fans, observer=notes)
    assert not notes.stages
    assert not config.output.exists()


def test_check_writes_nothing_and_agrees_with_itself(config: CalibrationConfig, tmp_path: Path):
    done = calibrate(config)
    elsewhere = _with(config, output=tmp_path / 'unused')
    result, rows = check(elsewhere, done.result_path)
    assert [row.name for row in rows] == [
        *(parameter.name for parameter in result.parameters),
        'held-out error',
    ]
    assert all(row.agrees for row in rows)
    assert [row.value for row in rows] == [row.baseline for row in rows]
    assert not elsewhere.output.exists()


def test_check_sees_what_moved(config: CalibrationConfig, tmp_path: Path):
    result = calibrate(config).result
    heavier = [
        parameter.model_copy(
            update={key: getattr(parameter, key) + 0.5 for key in ('value', 'low', 'high')}
        )
        if parameter.name == 'body/tip/mass'
        else parameter
        for parameter in result.parameters
    ]
    baseline = tmp_path / 'baseline.json'
    result.model_copy(update={'parameters': tuple(heavier)}).save(baseline)
    _, rows = check(config, baseline)
    assert [row.name for row in rows if not row.agrees] == ['body/tip/mass']
    tolerant = CheckConfig(tolerance={'body/*/mass': 0.51})
    _, rows = check(_with(config, check=tolerant), baseline)
    assert all(row.agrees for row in rows)


def test_the_solvers_find_the_same_values(config: CalibrationConfig):
    result = calibrate(_with(config, solver=SolverConfig(backend='scipy'))).result
    reference = calibrate(config).result
    assert (result.solver.backend, reference.solver.backend) == ('scipy', 'mujoco')
    for found, expected in zip(result.parameters, reference.parameters, strict=True):
        assert abs(found.value - expected.value) < 0.2 * expected.half_width


def test_several_starts_are_in_the_result(config: CalibrationConfig):
    one = calibrate(config).result
    solver = SolverConfig(starts=5, seed=3, max_iterations=30)
    notes = Notes()
    several = calibrate(_with(config, solver=solver), observer=notes).result
    assert one.solver.starts == ()
    assert len(several.solver.starts) == 5
    costs = [start.initial_cost for start in several.solver.starts]
    assert costs == sorted(costs)
    assert sum(start.status == 'not solved' for start in several.solver.starts) == 2
    assert len(notes.iterations) > len(several.solver.trace)
    for found, expected in zip(several.parameters, one.parameters, strict=True):
        assert abs(found.value - expected.value) < 0.2 * expected.half_width


def test_the_trace_says_how_the_jacobian_was_found(config: CalibrationConfig):
    trace = calibrate(config).result.solver.trace
    assert {'forward', 'central'} & {entry.jacobian for entry in trace}
    assert all(entry.jacobian for entry in trace)


def test_the_start_of_a_sequence_can_be_identified(config: CalibrationConfig):
    full = load_calibration(PENDULUM / 'calibration.yaml').parameters
    entries = (*full, ParameterConfig(target='sequence/*/initial_qvel', prior=_prior(0.0, 0.5)))
    done = calibrate(_with(config, parameters=entries))
    names = [parameter.name for parameter in done.result.parameters]
    assert names[-2:] == ['sequence/train/initial_qvel[0]', 'sequence/train/initial_qvel[1]']
    for parameter in done.result.parameters[-2:]:
        assert parameter.unit == 'rad/s'
        assert parameter.verdict == 'identified'
        assert parameter.initial != 0.0  # the estimate from the samples around the start
    assert done.mjcf_path is not None


def test_a_sequence_that_is_not_training_data_is_an_error_with_the_nearest(
    config: CalibrationConfig,
):
    entry = ParameterConfig(target='sequence/trian/initial_qvel')
    notes = Notes()
    with pytest.raises(ParameterError, match=r"No sequence matches 'trian' .*; nearest: train\.$"):
        calibrate(_with(config, parameters=(entry,)), observer=notes)
    assert not notes.iterations
    assert not config.output.exists()


def test_what_only_the_compiler_reads_is_identified_and_written(config: CalibrationConfig):
    full = load_calibration(PENDULUM / 'calibration.yaml').parameters
    entries = (*full, ParameterConfig(target='joint/elbow/ref', bounds=(-0.5, 0.5)))
    done = calibrate(_with(config, parameters=entries))
    ref = done.result.parameter('joint/elbow/ref')
    assert ref.low < 0.0 < ref.high
    assert ref.half_width < 0.01
    assert ref.verdict == 'identified'
    assert done.mjcf_path is not None
    assert f'ref="{ref.value!r}"' in done.mjcf_path.read_text()


def test_default_classes_are_targets(config: CalibrationConfig, tmp_path: Path):
    text = (PENDULUM / 'arm.xml').read_text()
    text = text.replace('<worldbody>', '<default><joint damping=".5"/></default><worldbody>', 1)
    text = text.replace(' damping=".5"/>\n', '/>\n')
    (tmp_path / 'classes.xml').write_text(text)
    damping = (ParameterConfig(target='default/main/joint/damping', bounds=(0.0, 5.0)),)
    done = calibrate(_with(config, model=tmp_path / 'classes.xml', parameters=damping))
    assert [p.name for p in done.result.parameters] == ['default/main/joint/damping']
    assert done.result.parameters[0].initial == 0.5


def _prior(mean: float, std: float) -> PriorConfig:
    return PriorConfig(mean=mean, std=std)


def test_a_sharp_prior_decides_and_the_verdict_says_so(config: CalibrationConfig):
    entries = (
        FEW[0],
        ParameterConfig(target='body/tip/mass', scale='log', prior=_prior(0.6, 1e-7)),
    )
    mass = calibrate(_with(config, parameters=entries)).result.parameter('body/tip/mass')
    assert mass.value == pytest.approx(0.6, abs=1e-4)
    assert mass.verdict == 'prior-dominated'


def test_a_delay_of_a_sensor_leaves_out_the_ends_and_cuts_no_sequence(config: CalibrationConfig):
    delay = ParameterConfig(target='sensor/elbow_velocity/delay', bounds=(-0.05, 0.05))
    gain = ParameterConfig(target='sensor/shoulder_velocity/gain')
    plain = calibrate(config).result
    done = calibrate(_with(config, parameters=(*FEW, delay, gain)))
    result = done.result
    assert {e.sensor: e.samples for e in result.errors} == {
        e.sensor: e.samples for e in plain.errors
    }
    (finding,) = (f for f in result.health if f.kind == 'masked')
    assert finding.bag == 'train'
    assert finding.count > 0
    assert result.parameter('sensor/shoulder_velocity/gain').unit == '1'
    assert done.mjcf_path is not None


def test_a_tolerance_for_nothing_is_told_before_the_fit(config: CalibrationConfig):
    tolerant = CheckConfig(tolerance={'tip_mas': 0.1})
    notes = Notes()
    with pytest.raises(ResultError, match="'tip_mas' matches no parameter; nearest: tip_mass"):
        check(_with(config, check=tolerant), PENDULUM / 'baseline.json', observer=notes)
    assert not notes.stages


def test_a_bag_that_is_missing_is_told_before_the_fit(config: CalibrationConfig):
    notes = Notes()
    bags = (*config.bags, BagSelection(path=str(PENDULUM / 'valdiate'), role='validate'))
    with pytest.raises(BagError, match='nearest: validate'):
        calibrate(_with(config, bags=bags), observer=notes)
    assert not notes.iterations
    assert not config.output.exists()


def test_a_sequence_without_a_chosen_sensor_is_left_out(config: CalibrationConfig):
    with pytest.raises(ConfigError, match="'elbow_velocty' in sensors is not mapped"):
        calibrate(_with(config, sensors=('elbow_velocty',)))
    result = calibrate(_with(config, sensors=('elbow_velocity',))).result
    assert {error.sensor for error in result.errors} == {'elbow_velocity'}


def test_a_model_of_another_robot_is_refused(tmp_path: Path):
    text = (PENDULUM / 'arm.xml').read_text()
    other = text.replace('"shoulder"', '"hip"').replace('"elbow"', '"knee"')
    (tmp_path / 'other.xml').write_text(other)
    with pytest.raises(AlignmentError, match='the bag has shoulder, elbow, the model has hip'):
        convert(PENDULUM / 'train', tmp_path / 'other.xml', tmp_path / 'series')
    assert not (tmp_path / 'series').exists()
