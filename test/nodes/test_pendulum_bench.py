# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The bench plays all runs on a simulated servo, and what is recorded obeys the servo's laws."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from sysid_ros.servos.bench.motions import trajectory
from sysid_ros.servos.bench.pendulum import simulate, stack_logs
from sysid_ros.servos.formats.logs import read_logs
from sysid_ros.servos.formats.parameter_file import read_parameters

if TYPE_CHECKING:
    from collections.abc import Callable

    from builders.ros_graph import RosClient, StartNode

TRUTH = Path(__file__).resolve().parents[2] / 'config' / 'pendulum' / 'xl330.json'
BENCH = 'sysid_ros.nodes.pendulum_bench'
SERVO = 'sysid_ros.nodes.simulated_servo'
TORQUE = '/torque_enable'
COMMANDS = '/forward_position_controller/commands'
TOPICS = f'[/joint_states, {COMMANDS}, /pendulum_bench/run, {TORQUE}]'
#: One count of the simulated servo's encoder, rad.
COUNT = 2 * np.pi / 4096

pytestmark = pytest.mark.ros


def _parameters(**values: object) -> list[str]:
    arguments = ['--ros-args']
    for name, value in values.items():
        arguments += ['-p', f'{name}:={value}']
    return arguments


@pytest.fixture
def servo(start_node: StartNode) -> Any:
    """Return the process of a simulated servo with another load than the tests ask for."""
    process = start_node(SERVO, *_parameters(truth=TRUTH, mass=1.0, length=0.05))
    process.wait_for_line('simulated servo ready: xl330 m4')
    return process


def test_two_runs_become_logs_that_the_law_explains(
    servo: Any, start_node: StartNode, record: Callable[..., Any], tmp_path: Path
):
    bag = tmp_path / 'bag'
    record(output=bag, topics=TOPICS, regex='^/pendulum_bench/', quality=False)
    given = {
        'output': bag,
        'masses': 0.3,
        'lengths': 0.13,
        'arm_masses': 0.013,
        'kps': 200.0,
        'trajectories': '[lift_and_drop, sin_time_square]',
    }
    session = start_node(BENCH, *_parameters(**given, dt=0.001, settle=0.2, model="''"))
    assert session.wait(60) == 0, session.output
    assert 'then call' not in session.output
    servo.stop()

    logs = read_logs(tmp_path / 'bag_logs')
    assert [log.trajectory for log in logs] == ['lift_and_drop', 'sin_time_square']
    law, values = read_parameters(TRUTH)
    candidate = np.array([[values[name] for name in law.coefficients]])
    for log in logs:
        assert (log.mass, log.arm_mass, log.length) == (0.3, 0.013, 0.13)
        assert dict(log.constants) == {'kp': 200.0, 'vin': 7.5}
        assert len(log) * log.dt == pytest.approx(6.0, abs=0.1)
        wanted = trajectory(log.trajectory)
        times = log.dt * np.arange(len(log))
        assert np.mean(np.abs(log.goal - wanted.goal(times))) < 0.05
        assert np.mean(log.enabled != wanted.enabled(times)) < 0.02
        assert np.ptp(log.position) > 1.0
        predicted = simulate(law, stack_logs(law, (log,)), candidate).position[:, 0, 0]
        # On a busy machine some commands reach servo and recorder at different times, and where a
        # pendulum comes to rest that was let go depends on the very moment. A gain that is wrong
        # by a quarter, or a load by a third, is off by 25 counts and more.
        errors = np.abs(predicted - log.position)[log.enabled > 0]
        assert np.median(errors) < 3 * COUNT
        assert np.mean(errors) < 15 * COUNT


def test_a_person_is_asked_for_changes_and_the_pendulum_is_let_down_on_ctrl_c(
    servo: Any, start_node: StartNode, ros_client: RosClient
):
    from sensor_msgs.msg import JointState  # noqa: PLC0415 (absent without ROS)
    from std_msgs.msg import Bool, Float64MultiArray  # noqa: PLC0415
    from std_srvs.srv import SetBool, Trigger  # noqa: PLC0415

    switched: list[bool] = []

    def switch(request: Any, response: Any) -> Any:
        switched.append(request.data)
        response.success = True
        return response

    ros_client.node.create_service(SetBool, '/driver/torque', switch)
    heard: dict[str, list[Any]] = {COMMANDS: [], TORQUE: []}
    for topic, kind in ((COMMANDS, Float64MultiArray), (TORQUE, Bool)):
        ros_client.node.create_subscription(kind, topic, heard[topic].append, 1000)
    given = {'masses': 0.3, 'lengths': 0.13, 'kps': 400.0, 'trajectories': 'up_and_down'}
    driver = {'servo': '/driver', 'torque_service': '/driver/torque', 'recorder': "''"}
    session = start_node(BENCH, *_parameters(**given, **driver, settle=0.1))
    session.wait_for_line(
        'mount 0.3 kg at the end, 0.13 m from the axis, an arm of 0 kg; set kp to 400; '
        'supply 7.5 V; then call /pendulum_bench/continue'
    )
    assert not heard[COMMANDS]
    assert ros_client.call(Trigger, '/pendulum_bench/continue').success
    session.wait_for_line('run 1 of 1: up_and_down')
    assert not ros_client.call(Trigger, '/pendulum_bench/continue').success
    ros_client.message(JointState, '/joint_states', lambda m: m.position[0] > 0.5, latched=False)
    session.process.send_signal(signal.SIGINT)
    # Spin meanwhile: what is not taken when its sender leaves is lost.
    ros_client.message(
        JointState, '/joint_states', lambda _: session.process.poll() is not None, latched=False
    )
    assert session.wait() == 0, session.output
    goals = np.array([message.data[0] for message in heard[COMMANDS]])
    assert switched == [True, False]
    # Told when the driver has done it.
    assert heard[TORQUE][0].data is True
    assert goals.max() > 0.5
    assert abs(goals[-1]) < 1e-6
    assert servo.stop() == 0


def test_it_stops_when_the_servo_falls_silent(servo: Any, start_node: StartNode):
    given = {'masses': 0.3, 'lengths': 0.13, 'recorder': "''", 'settle': 0.1}
    session = start_node(BENCH, *_parameters(**given))
    session.wait_for_line('run 1 of 20: sin_sin')
    servo.kill()

    assert session.wait() == 2
    assert 'pendulum_bench: Stopped: 0.5 s without a new state on /joint_states.' in session.output


@pytest.mark.patient
@pytest.mark.parametrize(
    ('module', 'values', 'sentence'),
    [
        (SERVO, {}, "Expected a file of coefficients in parameter 'truth' (-p truth:=FILE), found"),
        (SERVO, {'truth': 'none.json'}, "There is no file 'none.json'"),
        (BENCH, {}, "Expected at least one value in 'masses', found none."),
        (BENCH, {'masses': 0.3, 'lengths': 0.1}, "Expected the recorder's bag in parameter 'outp"),
        (
            BENCH,
            {'masses': 0.3, 'lengths': 0.1, 'recorder': "''", 'torque_topic': "''"},
            "Expected a topic in parameter 'torque_topic' for 'lift_and_drop', which switches",
        ),
    ],
)
def test_bad_input_ends_it_with_one_line_and_code_2(
    start_node: StartNode, module: str, values: dict[str, object], sentence: str
):
    process = start_node(module, *(_parameters(**values) if values else []))
    assert process.wait() == 2
    assert sentence in process.output
    assert len(process.output.splitlines()) == 1
