# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What a model predicts along a bag is what it does, and stands beside what was measured."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest
from rosbags.highlevel import AnyReader
from rosbags.rosbag2 import Reader
from rosbags.typesys import Stores, get_typestore

from builders.recorded_pendulum import FOLDER, calibration
from sysid_ros.bags.writer import BagWriter
from sysid_ros.errors import ResultError
from sysid_ros.results.result import CalibrationResult, EstimatorKind
from sysid_ros.vocabulary import Quantity
from sysid_ros.workflows.calibrate import identify
from sysid_ros.workflows.predicting import Forecaster, JointPrediction, forecaster, predict_bag

BAG = FOLDER / 'validate'
STATE = 'sensor_msgs/msg/JointState'

pytestmark = pytest.mark.slow


@pytest.fixture(scope='module')
def result(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the file of a result of a few parameters; nobody changes it."""
    config = calibration(tmp_path_factory.mktemp('result'))
    identify(config).result.save(config.output / 'result.json')
    return config.output / 'result.json'


@pytest.fixture(scope='module')
def prediction(result: Path) -> JointPrediction:
    """Return what is predicted of the bag that the fit has not seen."""
    return predict_bag(BAG, forecaster(result))


def _recorded(topic: str) -> list[tuple[int, Any]]:
    """Return when messages of a topic were received, and the messages, by rosbags alone."""
    with AnyReader([BAG], default_typestore=get_typestore(Stores.ROS2_JAZZY)) as reader:
        wanted = [c for c in reader.connections if c.topic == topic]
        return [
            (stamp, reader.deserialize(data, c.msgtype))
            for c, stamp, data in reader.messages(wanted)
        ]


def _stamp_ns(message: Any) -> int:
    stamp = message.header.stamp
    return int(stamp.sec) * 10**9 + int(stamp.nanosec)


def test_measured_is_every_message_from_the_first_command_on(prediction: JointPrediction):
    first, _ = _recorded('/forward_position_controller/commands')[0]
    states = {_stamp_ns(message): (due, message) for due, message in _recorded('/joint_states')}
    assert prediction.joints == ('shoulder', 'elbow')
    assert prediction.quantities == tuple(Quantity)
    assert len(prediction.stamps_ns) > 300
    assert abs(len([stamp for stamp in states if stamp >= first]) - len(prediction.stamps_ns)) < 5
    for row, stamp in enumerate(prediction.stamps_ns.tolist()):
        due, message = states[stamp]
        assert prediction.due_ns[row] == due
        order = [list(message.name).index(joint) for joint in prediction.joints]
        for place, quantity in enumerate(Quantity):
            values = getattr(message, quantity)[order]
            np.testing.assert_array_equal(prediction.measured[row, place], values)


def test_nominal_is_what_a_loop_over_mujocos_steps_does():
    topic = '/forward_position_controller/commands'
    config = forecaster(FOLDER / 'arm.xml').config.model_copy(update={'stamps': {topic: 'receive'}})
    prediction = predict_bag(BAG, Forecaster(config))
    model = mujoco.MjModel.from_xml_path(str(FOLDER / 'arm.xml'))
    data = mujoco.MjData(model)
    commands = _recorded(topic)
    times = np.array([stamp for stamp, _ in commands])
    start = int(prediction.stamps_ns[0])
    data.qpos, data.qvel = prediction.predicted[0, :2]
    moved = []
    until = int((prediction.stamps_ns[-1] - start) / 1e9 / model.opt.timestep) + 2
    for step in range(until):
        # A command that comes during a step acts for the rest of it.
        inside = start + (step + (np.arange(20) + 0.5) / 20) * model.opt.timestep * 1e9
        places = np.maximum(np.searchsorted(times, inside, side='right') - 1, 0)
        data.ctrl = np.mean([commands[place][1].data for place in places], axis=0)
        moved.append(data.qpos.copy())
        mujoco.mj_step(model, data)
    at = np.arange(until) * model.opt.timestep
    after = (prediction.stamps_ns - start) / 1e9
    for joint in range(2):
        expected = np.interp(after, at, np.array(moved)[:, joint])
        np.testing.assert_allclose(prediction.predicted[:, 0, joint], expected, rtol=0, atol=1e-3)


def test_the_errors_are_those_of_the_result(prediction: JointPrediction):
    kept = calibration(Path('unused'))
    found = identify(kept.model_copy(update={'segments': type(kept.segments)()})).result
    sensors = {
        f'{joint}_{quantity}': (place, column)
        for place, quantity in enumerate(Quantity)
        for column, joint in enumerate(prediction.joints)
    }
    whole = predict_bag(BAG, Forecaster(kept, found))
    assert whole.nominal is not None
    before, after = whole.errors(whole.nominal), whole.errors(whole.predicted)
    held_out = [error for error in found.errors if error.role == 'validate']
    assert {error.sensor for error in held_out} == set(sensors)
    for error in held_out:
        # The result lets commands act when they were found to have acted.
        assert before[sensors[error.sensor]] == pytest.approx(error.before, rel=0.05)
        assert after[sensors[error.sensor]] == pytest.approx(error.after, rel=0.1)


def test_a_model_alone_predicts_what_is_nominal_after_a_fit(prediction: JointPrediction):
    alone = predict_bag(BAG, forecaster(FOLDER / 'arm.xml'))
    assert alone.nominal is None
    assert set(alone.series()) == {'measured', 'predicted', 'residual'}
    np.testing.assert_array_equal(alone.predicted, prediction.nominal)


def _written(prediction: JointPrediction, path: Path) -> dict[str, list[tuple[int, Any]]]:
    """Return receive times, ns, and messages of the topics that a prediction writes."""
    with BagWriter(path) as writer:
        prediction.write(writer)
    types = get_typestore(Stores.ROS2_JAZZY)
    found: dict[str, list[tuple[int, Any]]] = {}
    with Reader(path) as reader:
        for connection, stamp, data in reader.messages():
            message = types.deserialize_cdr(data, connection.msgtype)
            found.setdefault(connection.topic, []).append((stamp, message))
    return found


def test_messages_say_it_all(prediction: JointPrediction, tmp_path: Path):
    found = _written(prediction, tmp_path / 'bag')
    series = prediction.series()
    assert sorted(found) == ['/measured', '/nominal', '/predicted', '/residual']
    np.testing.assert_array_equal(series['residual'], prediction.measured - prediction.predicted)
    for name, values in series.items():
        stamps, messages = zip(*found[f'/{name}'], strict=True)
        assert list(stamps) == prediction.due_ns.tolist()
        message = messages[50]
        assert _stamp_ns(message) == prediction.stamps_ns[50]
        assert tuple(message.name) == prediction.joints
        fields = [message.position, message.velocity, message.effort]
        np.testing.assert_array_equal(fields, values[50])


def test_a_quantity_that_is_not_measured_is_empty_in_the_messages(
    prediction: JointPrediction, tmp_path: Path
):
    measured = prediction.measured.copy()
    measured[:, 1] = np.nan
    measured[:, 2, 1] = np.nan
    found = dataclasses.replace(prediction, measured=measured)
    assert found.quantities == (Quantity.POSITION, Quantity.EFFORT)
    message = _written(found, tmp_path / 'bag')['/measured'][0][1]
    assert len(message.position) == 2
    assert len(message.velocity) == 0
    np.testing.assert_array_equal(np.isfinite(message.effort), [True, False])


def test_a_fit_to_windows_is_predicted_over_windows(result: Path, prediction: JointPrediction):
    record = CalibrationResult.load(result)
    solver = record.solver.model_copy(update={'window': 0.5, 'estimator': EstimatorKind.WINDOWS})
    config = forecaster(result).config
    found = predict_bag(BAG, Forecaster(config, record.model_copy(update={'solver': solver})))
    assert found.nominal is not None
    assert prediction.nominal is not None
    # A wrong model has no time to go astray.
    near = found.errors(found.nominal)[0]
    assert np.all(near < 0.8 * prediction.errors(prediction.nominal)[0])


def test_a_fit_of_forces_is_predicted_as_forces(result: Path):
    record = CalibrationResult.load(result)
    solver = record.solver.model_copy(update={'estimator': EstimatorKind.TORQUE})
    config = forecaster(result).config
    found = predict_bag(BAG, Forecaster(config, record.model_copy(update={'solver': solver})))
    assert found.quantities == (Quantity.EFFORT,)
    assert found.nominal is not None
    assert np.all(found.errors(found.predicted)[2] < found.errors(found.nominal)[2])
    assert np.all(np.diff(found.due_ns) > 0)


def test_a_configuration_predicts_with_the_result_in_its_output(tmp_path: Path, result: Path):
    text = (FOLDER / 'calibration.yaml').read_text()
    (tmp_path / 'calibration.yaml').write_text(text)
    assert forecaster(tmp_path / 'calibration.yaml').result is None
    (tmp_path / 'out').mkdir()
    (tmp_path / 'out' / 'result.json').write_bytes(result.read_bytes())
    found = forecaster(tmp_path / 'calibration.yaml')
    assert found.config.model == tmp_path / 'arm.xml'
    assert found.result is not None
    assert found.result.to_json().encode() == result.read_bytes()


def test_a_result_whose_model_is_elsewhere_asks_for_the_configuration(tmp_path: Path, result: Path):
    record = CalibrationResult.load(result)
    config = {**record.provenance.config, 'model': 'gone/arm.xml'}
    provenance = record.provenance.model_copy(update={'config': config})
    record.model_copy(update={'provenance': provenance}).save(tmp_path / 'result.json')
    with pytest.raises(ResultError, match=r"The model 'gone/arm.xml' .* its calibration.yaml"):
        forecaster(tmp_path)
