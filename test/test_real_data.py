# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Recordings of real robots through the whole pipeline."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from rosbags.typesys import Stores, get_typestore

from sysid_ros.bags.writer import BagWriter
from sysid_ros.cli import main
from sysid_ros.config.files import load_calibration
from sysid_ros.workflows.calibrate import calibrate

pytestmark = [pytest.mark.shared, pytest.mark.usefixtures('undrawn')]

SECOND_NS = 1_000_000_000
START_NS = 1_700_000_000 * SECOND_NS

# A servo on a rod, as a hobbyist would draw it: two hinges of the three that the bag names.
ARM = """
<mujoco>
  <worldbody>
    <body>
      <joint name="{0}" axis="0 0 1" armature=".01" damping=".1"/><geom size=".05" pos=".1 0 0"/>
      <body pos=".2 0 0">
        <joint name="{1}" axis="0 1 0" armature=".01" damping=".1"/><geom size=".05" pos=".1 0 0"/>
      </body>
    </body>
  </worldbody>
  <actuator>
    <position name="drive_0" joint="{0}" kp="5"/><position name="drive_1" joint="{1}" kp="5"/>
  </actuator>
  <sensor>
    <jointpos name="position_0" joint="{0}"/><jointvel name="velocity_0" joint="{0}"/>
    <jointpos name="position_1" joint="{1}"/><jointactuatorfrc name="torque_1" joint="{1}"/>
  </sensor>
</mujoco>
"""


@pytest.fixture
def convert(
    shared_data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, str]]:
    """Return a function that runs ``sysid convert`` on a shared bag: code, output, errors."""

    def run(bag: str, joints: tuple[str, str], *arguments: str) -> tuple[int, str, str]:
        model = tmp_path / 'arm.xml'
        model.write_text(ARM.format(*joints))
        paths = shared_data / 'bags' / bag, model, '-o', tmp_path / 'series'
        code = main(['convert', *map(str, paths), *arguments])
        return code, *capsys.readouterr()

    return run


def _section(text: str, title: str) -> str:
    (found,) = [block for block in text.split('\n\n') if block.startswith(title)]
    return found


def test_a_flight_log_gives_the_servos_and_names_the_rest(
    convert: Callable[..., tuple[int, str, str]], tmp_path: Path
):
    code, out, err = convert('ros2bag_ats_2025-12-02_12-48-52', ('q0', 'q1'))
    assert (code, err) == (0, '')
    mapped = _section(out, 'Mapped')
    for name, column in (
        ('position_0', 'position[q0]'),
        ('velocity_0', 'velocity[q0]'),
        ('position_1', 'position[q1]'),
    ):
        (row,) = [line for line in mapped.splitlines() if name in line]
        assert f'/servo/out/state.{column}' in row
    missing = _section(out, 'Not mapped')
    assert 'torque_1' in missing  # the driver fills effort with zeros
    assert 'never changes' in missing
    for topic in ('/fmu/out/vehicle_odometry', '/md/state', '/tf', '/servo/in/state'):
        assert topic in missing.split()
    assert '/servo/out/state.position[q2]' in missing
    (path,) = (tmp_path / 'series').glob('*_measurements_0.npz')
    with np.load(path, allow_pickle=False) as series:
        assert series['data'].shape == (102, 3)
        assert np.isfinite(series['data']).all()


def test_a_serial_log_without_names_says_what_a_mapping_must_say(
    convert: Callable[..., tuple[int, str, str]], tmp_path: Path
):
    code, out, err = convert('ros2bag_servo_serial_log', ('pivot', 'shoulder'))
    assert (code, out) == (2, '')
    assert 'its messages carry no names' in err
    assert 'the model has pivot, shoulder' in err
    assert not (tmp_path / 'series').exists()


def test_a_serial_log_is_converted_by_a_mapping(
    convert: Callable[..., tuple[int, str, str]], tmp_path: Path
):
    state, command = '/servo/out/state', '/servo/in/references/joint_references'
    mapping = {
        'sensors': {
            'position_0': {'topic': state, 'field': 'position', 'label': 0},
            'velocity_0': {'topic': state, 'field': 'velocity', 'label': 0},
            'position_1': {'topic': state, 'field': 'position', 'label': 1, 'scale': -1.0},
        },
        'actuators': {
            'drive_0': {'topic': command, 'field': 'position', 'label': 0},
            'drive_1': {'topic': command, 'field': 'position', 'label': 1, 'scale': -1.0},
        },
    }
    file = tmp_path / 'mapping.yaml'
    file.write_text(yaml.safe_dump(mapping))
    code, out, err = convert(
        'ros2bag_servo_serial_log', ('pivot', 'shoulder'), '--mapping', str(file)
    )
    assert (code, err) == (0, '')
    assert 'torque_1' in _section(out, 'Not mapped')
    assert 'no stamp' in _section(out, 'Findings')
    files = list((tmp_path / 'series').glob('*_measurements_0.npz'))
    assert files
    for path in files:
        with np.load(path, allow_pickle=False) as series:
            assert list(json.loads(str(series['signal_mapping']))) == list(mapping['sensors'])
            assert np.isfinite(series['data']).all()


# A hobby servo with a weighted arm: commands and encoder at 50 Hz, both in units of pi rad.
SERVO_RATE = 50
SERVO_SCALE = math.pi
#: Every so many of the 96 recorded motions, and every so many of those for validation.
SERVO_USED = 8
SERVO_HELD_OUT = 4
#: Between two motions, s: more than what cuts a bag into sequences.
SERVO_PAUSE = 5.0


def _write_servo_bag(path: Path, motions: Iterable[dict[str, list[float]]]) -> None:
    """Write motions as a robot's driver would have: joint states and commands."""
    store = get_typestore(Stores.ROS2_JAZZY)
    types = store.types
    none = np.zeros(0)
    start = START_NS
    with BagWriter(path) as bag:
        states, commands = '/joint_states', '/position_controller/commands'
        bag.add_topic(states, 'sensor_msgs/msg/JointState')
        bag.add_topic(commands, 'std_msgs/msg/Float64MultiArray')
        for motion in motions:
            for action, angle in zip(motion['actions'], motion['sensor_data'], strict=True):
                stamp = types['builtin_interfaces/msg/Time'](
                    sec=start // SECOND_NS, nanosec=start % SECOND_NS
                )
                state = types['sensor_msgs/msg/JointState'](
                    header=types['std_msgs/msg/Header'](stamp=stamp, frame_id=''),
                    name=['servo'],
                    position=np.array([angle * SERVO_SCALE]),
                    velocity=none,
                    effort=none,
                )
                layout = types['std_msgs/msg/MultiArrayLayout'](dim=[], data_offset=0)
                command = types['std_msgs/msg/Float64MultiArray'](
                    layout=layout, data=np.array([action * SERVO_SCALE])
                )
                for topic, message in ((commands, command), (states, state)):
                    data = store.serialize_cdr(message, message.__msgtype__)
                    bag.write(topic, start, bytes(data))
                start += SECOND_NS // SERVO_RATE
            start += round(SERVO_PAUSE * SECOND_NS)


@pytest.mark.slow
def test_a_real_servo_is_predicted_better_on_motions_that_were_held_out(
    shared_data: Path, tmp_path: Path
):
    source = shared_data / 'servo_sysid'
    recorded = json.loads((source / 'dataset' / 'response.json').read_text())['data']
    used = recorded[::SERVO_USED]
    held_out = used[SERVO_HELD_OUT - 1 :: SERVO_HELD_OUT]
    _write_servo_bag(tmp_path / 'train', [motion for motion in used if motion not in held_out])
    _write_servo_bag(tmp_path / 'validate', held_out)
    config: dict[str, Any] = {
        'model': str(source / 'desc' / 'robot.xml'),
        'bags': [{'path': 'train'}, {'path': 'validate', 'role': 'validate'}],
        'parameters': [
            {'target': 'joint/servo/armature', 'bounds': [0.0, 0.2]},
            {'target': 'joint/servo/damping', 'bounds': [0.0, 5.0]},
            {'target': 'joint/servo/frictionloss', 'bounds': [0.0, 2.0]},
            {'target': 'actuator/servo/kp', 'bounds': [1.0, 300.0]},
            {'target': 'actuator/servo/kv', 'bounds': [0.0, 20.0]},
            {'target': 'actuator/servo/dynprm[0]', 'bounds': [0.001, 0.5]},
            {'target': 'actuator/servo/delay', 'bounds': [0.0, 0.1]},
        ],
        # Its limits of voltage and speed are in no parameter, so that its gains differ by little.
        'solver': {'loss': 'huber', 'max_iterations': 150},
        # Kinds of motion are predicted unequally well, and say little about dry friction.
        'gate': {'sequence_growth': 10.0},
    }
    (tmp_path / 'calibration.yaml').write_text(yaml.safe_dump(config))
    done = calibrate(load_calibration(tmp_path / 'calibration.yaml'))
    result = done.result
    assert result.accepted
    (error,) = [error for error in result.errors if error.role == 'validate']
    assert (error.sensor, error.unit) == ('servo-pos', 'rad')
    assert error.before > 2 * error.after
    assert {plot.role for plot in result.plots} == {'train', 'validate'}
    assert len({plot.sequence for plot in result.plots}) == len(used)
    assert done.mjcf_path is not None
    assert (done.mjcf_path.parent / 'meshes' / 'arm.stl').is_file()
