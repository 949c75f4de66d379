# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""How well models as they are predict recordings."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import yaml

from builders.plant_bags import record
from builders.recorded_pendulum import FOLDER, TIMES, calibration
from sysid_ros.config.schema import ChannelMapping, DataConfig, MappingConfig, SegmentsConfig
from sysid_ros.model.loading import read_model
from sysid_ros.model.mjcf import write_model
from sysid_ros.model.targets import resolve
from sysid_ros.plant import Plant
from sysid_ros.workflows.calibrate import identify
from sysid_ros.workflows.evaluation import Evaluation, evaluate
from sysid_ros.workflows.problem import read_aligned
from sysid_ros.workflows.writing import Identified

pytestmark = pytest.mark.slow

BAG = str(FOLDER / 'validate')
#: Of the velocities of the robot that was recorded, rad/s.
NOISE = 5e-3


def errors(found: Evaluation, seconds: float | None = None) -> dict[str, float]:
    return {e.sensor: e.error for e in found.errors if e.seconds == seconds}


@pytest.fixture(scope='module')
def true_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the MJCF of the robot that was recorded."""
    source = read_model(FOLDER / 'arm.xml')
    model = source.spec.copy().compile()
    truth = yaml.safe_load((FOLDER / 'truth.yaml').read_text())
    values = [(t, v) for path, v in truth.items() for t in resolve(path, model, spec=source.spec)]
    return write_model(source, values, tmp_path_factory.mktemp('true') / 'mjcf').path


@pytest.fixture(scope='module')
def identified(tmp_path_factory: pytest.TempPathFactory) -> Identified:
    """Return what a calibration of few parameters finds."""
    return identify(calibration(tmp_path_factory.mktemp('identified')))


def test_the_true_model_is_off_by_the_noise_of_the_sensors(true_model: Path):
    found = errors(evaluate(true_model, [BAG]))
    for joint in ('shoulder', 'elbow'):
        assert found[f'{joint}_velocity'] == pytest.approx(NOISE, rel=0.1)


def test_a_wrong_model_is_off_by_more_and_less_so_shortly_after_measured_states(true_model: Path):
    right, wrong = evaluate(true_model, [BAG]), evaluate(FOLDER / 'arm.xml', [BAG])
    assert errors(wrong)['elbow_position'] > 20 * errors(right)['elbow_position']
    assert errors(wrong, 0.2)['elbow_position'] < errors(wrong, 1.0)['elbow_position']
    assert [e.subject for e in wrong.errors if e.sensor == 'elbow_effort'] == ['joint/elbow']


def test_a_result_is_evaluated_as_its_calibration_judged_itself(
    identified: Identified, tmp_path: Path
):
    identified.result.save(tmp_path / 'current/result.json')
    stored = {e.sensor: e.after for e in identified.result.errors if e.role == 'validate'}
    for path in (tmp_path, tmp_path / 'current', tmp_path / 'current/result.json'):
        assert errors(evaluate(path, [BAG])) == pytest.approx(stored, rel=1e-9)


def test_a_calibration_without_a_result_says_how_recordings_are_read(tmp_path: Path):
    config = tmp_path / 'calibration.yaml'
    document = {
        'model': str(FOLDER / 'arm.xml'),
        'bags': [{'path': BAG, 'role': 'train'}],
        'parameters': [{'target': 'joint/elbow/damping'}],
        'sensors': ['elbow_position', 'elbow_velocity'],
    }
    config.write_text(yaml.safe_dump(document))
    said = DataConfig(sensors=('elbow_velocity',))
    assert set(errors(evaluate(config, [BAG]))) == {'elbow_position', 'elbow_velocity'}
    assert set(errors(evaluate(config, [BAG], said))) == {'elbow_velocity'}


def test_the_mjcf_of_a_result_is_as_good_as_the_result(identified: Identified, tmp_path: Path):
    identified.result.save(tmp_path / 'result.json')
    assert identified.model is not None
    written = write_model(identified.model, identified.values, tmp_path / 'mjcf').path
    same = DataConfig(segments=SegmentsConfig(times=TIMES))
    assert errors(evaluate(written, [BAG], same)) == pytest.approx(
        errors(evaluate(tmp_path, [BAG])), rel=0.05
    )


def test_a_delay_of_the_model_waits_for_commands_that_are_known(true_model: Path):
    # The model is late by 6 ms: what it was told before the recording is not in the bag.
    late, prompt = (
        read_aligned(FOLDER / 'validate', path)[0].sequences[0].origin_ns
        for path in (true_model, FOLDER / 'arm.xml')
    )
    period = 10_000_000  # of the states, ns
    assert 6_000_000 <= late - prompt < 6_000_000 + period


def test_forces_are_compared_where_motors_drive_the_joints(tmp_path: Path):
    text = """<mujoco><option timestep=".002"/><worldbody><body>
      <joint name="j" axis="0 1 0" damping=".1"/><geom size=".05" pos="0 0 -.3" mass="1"/></body>
      </worldbody><actuator><motor name="j" joint="j" ctrlrange="-2 2"/></actuator><sensor>
      <jointpos name="q" joint="j"/><jointvel name="v" joint="j"/>
      <jointactuatorfrc name="f" joint="j"/></sensor></mujoco>"""
    (tmp_path / 'arm.xml').write_text(text)
    plant = Plant(tmp_path / 'arm.xml', rate=500.0)
    record(tmp_path / 'bag', plant, lambda t: np.array([np.sin(3 * t) + np.sin(5.3 * t)]), 20.0)
    found = evaluate(tmp_path / 'arm.xml', [str(tmp_path / 'bag')])
    assert 0 < errors(found)['f'] < 0.05
    assert errors(found, 0.2)['q'] < 0.01


def test_a_simulation_that_runs_away_is_told(tmp_path: Path):
    shutil.copytree(FOLDER, tmp_path / 'robot')
    model = tmp_path / 'robot/arm.xml'
    text = model.read_text().replace('kp="15" kv=".5"', 'kp="-90000" kv=".5"')
    model.write_text(text.replace('integrator="implicitfast"', 'integrator="Euler"'))
    found = evaluate(model, [str(tmp_path / 'robot/validate')])
    assert np.isnan(errors(found)['elbow_position'])


def test_an_actuator_without_commands_is_a_warning():
    states = {
        'elbow_position': ChannelMapping(topic='/joint_states', field='position', label='elbow')
    }
    commands = '/forward_position_controller/commands'
    elbow = ChannelMapping(topic=commands, field='data', label='1')
    mapping = MappingConfig(sensors=states, actuators={'elbow': elbow})
    found = evaluate(FOLDER / 'arm.xml', [BAG], DataConfig(mapping=mapping))
    (warning,) = found.warnings
    assert warning.startswith("Bag 'validate' holds no commands for shoulder; they stay 0; ")
