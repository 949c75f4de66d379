# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The calibrator as users run it: a process that is asked over services and heard on topics."""

from __future__ import annotations

import itertools
import json
import os
import re
import shutil
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import mujoco
import numpy as np
import pytest
from rosbags.typesys import Stores, get_typestore

from builders.ros_graph import RosClient, StartNode, client_node, node_processes, own_domain
from sysid_ros.bags import BagWriter
from sysid_ros.config import load_calibration
from sysid_ros.pipeline import calibrate
from sysid_ros.results.store import history, roll_back
from sysid_ros.virtual_robot import Noise, Plant

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from builders.ros_graph import NodeProcess, RosClient, StartNode

pytestmark = [pytest.mark.ros, pytest.mark.patient]

CALIBRATOR = 'sysid_ros.nodes.calibrator'
READY = 'ready: call'
#: Seconds that a small fit, or the start of the process, may take on a busy machine.
FIT_TIMEOUT = 120.0
START_NS = 1_700_000_000_000_000_000

PENDULUM = """
<mujoco>
  <option timestep="0.002"><flag contact="disable"/></option>
  <worldbody>
    <body>
      <joint name="hinge" axis="0 1 0" armature=".01" damping=".1"/>
      <geom size=".05" fromto="0 0 0 0 0 -.3" type="capsule" mass="1"/>
      <body pos="0 0 -.3">
        <joint name="knee" axis="0 1 0" armature=".01" damping=".1"/>
        <geom size=".04" fromto="0 0 0 0 0 -.2" type="capsule" mass=".5"/>
      </body>
    </body>
  </worldbody>
  <actuator>
    <position name="hinge" joint="hinge" kp="20" kv="1"/>
    <position name="knee" joint="knee" kp="8" kv=".3"/>
  </actuator>
  <sensor>
    <jointpos name="hinge_position" joint="hinge"/>
    <jointpos name="knee_position" joint="knee"/>
    <jointvel name="hinge_velocity" joint="hinge"/>
    <jointvel name="knee_velocity" joint="knee"/>
  </sensor>
</mujoco>
"""
TRUTH = {'joint/*/armature': 0.05, 'joint/*/damping': 0.6}
#: Somebody let the grease of one joint dry.
WORN_TRUTH = {**TRUTH, 'joint/knee/damping': 0.7}
OTHER_TRUTH = {'joint/*/armature': 0.005, 'joint/*/damping': 0.02}
NAMES = [f'joint/{joint}/{what}' for what in ('armature', 'damping') for joint in ('hinge', 'knee')]

CALIBRATION = """
model: arm.xml
bags:
  - {path: train_*, role: train}
  - {path: validate, role: validate}
parameters:
  - {target: joint/*/armature, bounds: [0, 1]}
  - {target: joint/*/damping, bounds: [0, 5]}
output: out
"""


CANCELLED = re.compile(
    r'The refit was cancelled while it was at "(?P<stage>.*)"; what was current still is\.'
)


def _simulate(model: Path, bag: Path, truth: dict[str, float], seconds: float, seed: int) -> None:
    """Record a simulated robot that follows two sines per actuator at 100 Hz."""
    store = get_typestore(Stores.ROS2_JAZZY)
    types = store.types
    noise = Noise(position=1e-4, velocity=1e-3, seed=seed)
    plant = Plant(model, truth, rate=100.0, noise=noise)
    rng = np.random.default_rng(seed)
    frequency = rng.uniform(0.4, 2.0, (2, 2))
    states, commands = '/joint_states', '/forward_position_controller/commands'
    with BagWriter(bag) as writer:
        writer.add_topic(states, 'sensor_msgs/msg/JointState')
        writer.add_topic(commands, 'std_msgs/msg/Float64MultiArray')
        for step in itertools.count():
            time = step / 100
            if time > seconds:
                return
            now = START_NS + step * 10_000_000
            values = 0.4 * np.sin(2 * np.pi * frequency * time).sum(axis=0)
            layout = types['std_msgs/msg/MultiArrayLayout'](dim=[], data_offset=0)
            array = types['std_msgs/msg/Float64MultiArray'](layout=layout, data=values)
            writer.write(commands, now, bytes(store.serialize_cdr(array, array.__msgtype__)))
            plant.command(time, values)
            for sample in plant.advance(time + 0.01):
                stamp = types['builtin_interfaces/msg/Time'](*divmod(now, 1_000_000_000))
                message = types['sensor_msgs/msg/JointState'](
                    header=types['std_msgs/msg/Header'](stamp=stamp, frame_id=''),
                    name=list(plant.joints),
                    position=sample.position,
                    velocity=sample.velocity,
                    effort=np.zeros(0),
                )
                data = bytes(store.serialize_cdr(message, message.__msgtype__))
                writer.write(states, now, data)


@pytest.fixture(scope='module')
def recordings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a model and bags: train_1, train_2, validate, other, worn, long."""
    folder = tmp_path_factory.mktemp('recordings')
    model = folder / 'arm.xml'
    model.write_text(PENDULUM)
    for seed, (name, truth, seconds) in enumerate(
        [
            ('train_1', TRUTH, 3.0),
            ('train_2', TRUTH, 3.0),
            ('validate', TRUTH, 2.0),
            ('other', OTHER_TRUTH, 2.0),
            ('worn', WORN_TRUTH, 3.0),
            ('long', TRUTH, 60.0),
        ]
    ):
        _simulate(model, folder / name, truth, seconds, seed)
    return folder


def make_problem(recordings: Path, folder: Path) -> Path:
    """Return a new calibration.yaml of four parameters that fits in a second."""
    folder.mkdir()
    for name in ('train_1', 'validate'):
        shutil.copytree(recordings / name, folder / name)
    shutil.copy(recordings / 'arm.xml', folder)
    config = folder / 'calibration.yaml'
    config.write_text(CALIBRATION)
    return config


@pytest.fixture
def problem(recordings: Path, tmp_path: Path) -> Path:
    """Return a calibration.yaml of this test."""
    return make_problem(recordings, tmp_path / 'problem')


@pytest.fixture
def long_problem(recordings: Path, problem: Path) -> Path:
    """Return a calibration.yaml that is busy for longer than any test looks at it."""
    folder = problem.parent
    shutil.copytree(recordings / 'long', folder / 'train_long')
    # Sixteen times the steps: each iteration takes some seconds.
    text = PENDULUM.replace('timestep="0.002"', 'timestep="0.000125"')
    (folder / 'arm.xml').write_text(text)
    problem.write_text(CALIBRATION + 'solver: {threads: 1, timestep: model}\n')
    return problem


class Node:
    """A calibrator's process and what one does with it."""

    def __init__(self, process: NodeProcess, client: RosClient) -> None:
        self.process = process
        self.client = client

    def ask(self, service: str) -> tuple[bool, str]:
        """Call ``~/refit`` or ``~/cancel`` and return success and message."""
        response = self.begin(service).answer()
        return response.success, response.message

    def begin(self, service: str) -> Call:
        """Call a service without waiting for the answer."""
        return Call(self.client, f'/calibrator/{service}')

    def latched(self, topic: str) -> Any:
        """Return what a subscriber gets that comes now."""
        from diagnostic_msgs.msg import DiagnosticArray  # noqa: PLC0415 (absent without ROS)
        from std_msgs.msg import String  # noqa: PLC0415

        kind = DiagnosticArray if topic in ('parameters', 'drift') else String
        return self.client.message(kind, f'/calibrator/{topic}')

    def result(self) -> dict[str, Any]:
        """Return the latched result."""
        found: dict[str, Any] = json.loads(self.latched('result').data)
        return found

    def status(
        self, accept: Callable[[Any], bool] = lambda _: True, what: str = 'calibration'
    ) -> Any:
        """Return the first status of a kind on /diagnostics that is accepted."""
        from diagnostic_msgs.msg import DiagnosticArray  # noqa: PLC0415 (absent without ROS)

        def own(message: Any) -> Any:
            (status,) = [s for s in message.status if s.name == f'/calibrator: {what}']
            return status

        return own(
            self.client.message(
                DiagnosticArray,
                '/diagnostics',
                lambda message: accept(own(message)),
                latched=False,
            )
        )

    def child(self) -> int:
        """Return the process id of the fit that is running."""
        pid = self.process.process._process.pid
        for task in Path(f'/proc/{pid}/task').iterdir():
            for child in (task / 'children').read_text().split():
                if 'calibrate' in Path(f'/proc/{child}/cmdline').read_text().split('\0'):
                    return int(child)
        pytest.fail('no fit is running')

    def change(self, name: str, value: object) -> tuple[bool, str]:
        """Set a parameter and return success and reason."""
        from rcl_interfaces.srv import SetParameters  # noqa: PLC0415 (absent without ROS)
        from rclpy.parameter import Parameter  # noqa: PLC0415

        request = SetParameters.Request(
            parameters=[Parameter(name, value=value).to_parameter_msg()]
        )
        (result,) = self.client.call(SetParameters, '/calibrator/set_parameters', request).results
        return result.successful, result.reason


class Call:
    """A service that was called and has not answered yet."""

    def __init__(self, client: RosClient, name: str) -> None:
        from std_srvs.srv import Trigger  # noqa: PLC0415 (absent without ROS)

        self._client = client
        self._name = name
        caller = client.node.create_client(Trigger, name)
        assert caller.wait_for_service(30.0), f'there is no service {name}'
        self._future = caller.call_async(Trigger.Request())

    @property
    def answered(self) -> bool:
        """Whether the answer has come."""
        return bool(self._future.done())

    def answer(self) -> Any:
        """Wait for the answer."""
        return self._client._finish(self._future, FIT_TIMEOUT, self._name)


class StartCalibrator(Protocol):
    """Starts a calibrator with a calibration.yaml and waits until it is ready."""

    def __call__(self, config: Path) -> Node:
        """Return it."""


@pytest.fixture
def calibrator(start_node: StartNode, ros_client: RosClient) -> StartCalibrator:
    """Return a function that starts a calibrator, which ends with the test."""

    def start(config: Path) -> Node:
        return start_calibrator(start_node, ros_client, config)

    return start


class Running(NamedTuple):
    """A calibrator that several tests ask, each for another problem."""

    node: Node
    start_node: StartNode


@pytest.fixture(scope='module')
def running(recordings: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Return the calibrator that tests share: its process takes longer to start than to fit."""
    folder = tmp_path_factory.mktemp('running')
    config = make_problem(recordings, folder / 'problem')
    with (
        own_domain() as env,
        node_processes(env, folder) as start,
        client_node(env) as client,
    ):
        yield Running(start_calibrator(start, client, config), start)


@pytest.fixture
def node(running: Running, problem: Path) -> Node:
    """Return the shared calibrator, with the problem of this test."""
    assert running.node.change('config', str(problem)) == (True, '')
    assert running.node.change('output', '') == (True, '')
    return running.node


def start_calibrator(start: StartNode, client: RosClient, config: Path) -> Node:
    """Start a calibrator and wait until it is ready."""
    process = start(CALIBRATOR, *_arguments(config=config))
    process.wait_for_line(READY, FIT_TIMEOUT)
    return Node(process, client)


def _arguments(**parameters: object) -> Iterator[str]:
    yield '--ros-args'
    for name, value in parameters.items():
        yield from ('-p', f'{name}:={value}')


def _files(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Return content and time of change of each file below a folder."""
    return {
        str(path.relative_to(folder)): (path.read_bytes(), path.stat().st_mtime_ns)
        for path in sorted(folder.rglob('*'))
        if path.is_file()
    }


def test_a_refit_answers_and_latches_parameters_mjcf_and_result(
    calibrator: StartCalibrator, problem: Path
):
    node = calibrator(problem)
    assert node.status().message == 'idle: no refit yet'

    success, message = node.ask('refit')

    out = (problem.parent / 'out' / 'current').resolve()
    assert success, message
    begin = '4 of 4 parameters identified. accepted: Held-out error, nominal → fitted: positions '
    assert message.startswith(begin)
    assert message.endswith(f' report {out / "report.html"}')
    result = node.result()
    assert result == json.loads((out / 'result.json').read_text())
    assert result['accepted'] is True
    assert result['provenance']['command'].startswith('sysid calibrate ')
    assert [parameter['name'] for parameter in result['parameters']] == NAMES
    text = node.latched('mjcf').data
    assert text == (out / 'mjcf' / 'arm.xml').read_text()
    model = mujoco.MjModel.from_xml_string(text)
    for status, parameter in zip(
        node.latched('parameters').status, result['parameters'], strict=True
    ):
        found = {pair.key: pair.value for pair in status.values}
        assert status.level == type(status).OK
        assert (status.name, status.message) == (parameter['name'], 'identified')
        assert [float(found[key]) for key in ('value', 'low', 'high')] == [
            parameter[key] for key in ('value', 'low', 'high')
        ]
        assert found['unit'] == parameter['unit']
        truth = TRUTH['joint/*/' + status.name.rpartition('/')[2]]
        assert float(found['value']) == pytest.approx(truth, rel=0.05)
    np.testing.assert_allclose(
        [*model.dof_armature, *model.dof_damping],
        [parameter['value'] for parameter in result['parameters']],
        rtol=1e-9,
    )
    status = node.status(lambda status: 'accepted' in status.message)
    assert status.level == type(status).OK
    assert status.name == '/calibrator: calibration'
    assert status.message == f'idle: the last refit: {message}'
    assert node.process.stop() == 0


def test_a_second_refit_finds_the_same_and_takes_new_bags(
    node: Node, problem: Path, recordings: Path
):
    found = []
    for _ in range(2):
        assert node.ask('refit')[0]
        found.append(node.result())
    shutil.copytree(recordings / 'train_2', problem.parent / 'train_2')
    assert node.ask('refit')[0]
    third = node.result()

    values = [[p['value'] for p in result['parameters']] for result in found]
    assert values[0] == values[1]
    bags = [{topic['bag'] for topic in result['topics']} for result in (*found, third)]
    assert bags[0] == bags[1]
    assert len(bags[2]) == len(bags[0]) + 1
    assert [p['value'] for p in third['parameters']] != values[0]


def test_while_it_fits_it_answers_refuses_a_second_refit_and_can_be_cancelled(
    calibrator: StartCalibrator, long_problem: Path
):
    from rcl_interfaces.srv import GetParameters  # noqa: PLC0415 (absent without ROS)

    node = calibrator(long_problem)
    assert node.ask('cancel') == (False, 'No refit is running.')
    before = _files(long_problem.parent)
    call = node.begin('refit')
    node.process.wait_for_line('iteration 0: cost')

    status = node.status(lambda status: status.message.startswith('iteration '))
    assert status.level == type(status).OK
    assert {pair.key: pair.value for pair in status.values}['fitting'] == 'true'
    request = GetParameters.Request(names=['config'])
    service = '/calibrator/get_parameters'
    (value,) = node.client.call(GetParameters, service, request).values
    assert value.string_value == str(long_problem)
    success, message = node.ask('refit')
    assert not success
    assert message.startswith('A refit is running already (iteration ')
    assert not call.answered
    cancelled, message = node.ask('cancel')
    answer = call.answer()

    assert cancelled
    assert CANCELLED.fullmatch(message)['stage'].startswith('iteration ')
    assert (answer.success, answer.message) == (False, message)
    assert _files(long_problem.parent) == before
    status = node.status(lambda status: 'cancelled' in status.message)
    assert {pair.key: pair.value for pair in status.values}['fitting'] == 'false'
    # Nothing of it is left behind: the next refit begins anew.
    call = node.begin('refit')
    node.status(lambda status: status.values[0].value == 'true')
    assert node.ask('cancel')[0]
    assert not call.answer().success


def test_a_refit_answers_when_its_budget_is_used_up(
    start_node: StartNode, ros_client: RosClient, long_problem: Path
):
    process = start_node(CALIBRATOR, *_arguments(config=long_problem, budget=5.0))
    process.wait_for_line(READY, FIT_TIMEOUT)
    node = Node(process, ros_client)
    before = _files(long_problem.parent)

    success, message = node.ask('refit')

    assert not success
    assert message.startswith('The refit used up its budget of 5 s while it was at "')
    assert _files(long_problem.parent) == before
    status = node.status(lambda status: 'used up its budget' in status.message)
    assert status.level == type(status).WARN


def test_it_refits_when_a_bag_is_finished_and_says_that_the_robot_changed(
    start_node: StartNode, ros_client: RosClient, problem: Path, recordings: Path
):
    text = CALIBRATION.replace('  - {path: validate, role: validate}\n', '')
    problem.write_text(f'{text}memory: auto\n')
    process = start_node(CALIBRATOR, *_arguments(config=problem, refit_on_bag=True))
    process.wait_for_line(READY, FIT_TIMEOUT)
    node = Node(process, ros_client)
    assert node.ask('refit')[0]
    out = problem.parent / 'out'
    first = out / (out / 'current').readlink()
    status = node.status(what='drift')
    assert (status.level, status.message) == (type(status).OK, 'nothing to compare')

    shutil.copytree(recordings / 'worn', problem.parent / 'train_worn')
    process.wait_for_line('refitting by itself: train_worn is new', FIT_TIMEOUT)
    status = node.status(lambda status: status.level == type(status).WARN, what='drift')

    assert status.message.startswith('The robot changed: joint/knee/damping from 0.6')
    (latched,) = node.latched('drift').status
    assert (latched.name, latched.level) == ('/calibrator: drift', type(status).WARN)
    values = {pair.key: pair.value for pair in latched.values}
    assert values['previous'] == str(first)
    assert values['changed'] == 'joint/knee/damping'
    node.status(lambda status: 'the last refit: ' in status.message)
    worn = node.result()
    assert worn['drift']['changed']

    # A person goes back: what was found then is published again, and there is nothing to warn of.
    roll_back(out)

    status = node.status(lambda status: status.level == type(status).OK, what='drift')
    assert status.message == f'{first.name} was made current.'
    assert node.result() == json.loads((first / 'result.json').read_text())
    assert node.latched('mjcf').data == (first / 'mjcf' / 'arm.xml').read_text()
    (latched,) = node.latched('drift').status
    assert latched.level == type(status).OK


def test_it_refits_on_a_schedule_when_there_is_something_to_learn_and_keeps_what_it_is_told(
    start_node: StartNode, ros_client: RosClient, problem: Path, recordings: Path
):
    old = calibrate(load_calibration(problem)).folder
    process = start_node(CALIBRATOR, *_arguments(config=problem, refit_every=1.0, keep=1))
    process.wait_for_line(READY, FIT_TIMEOUT)
    node = Node(process, ros_client)
    # Longer than the schedule: what was there at the start is no reason.
    for _ in range(3):
        node.status()
    assert 'refitting' not in process.output

    shutil.copytree(recordings / 'train_2', problem.parent / 'train_2')

    process.wait_for_line('refitting by itself: train_2 is new', FIT_TIMEOUT)
    node.status(lambda status: 'identified. accepted' in status.message)
    assert {topic['bag'] for topic in node.result()['topics']} >= {'train_1', 'train_2'}
    process.wait_for_line(f'removed {old}', FIT_TIMEOUT)
    assert len(history(old.parent)) == 1


def test_a_node_that_starts_publishes_what_is_current(
    start_node: StartNode, ros_client: RosClient, problem: Path
):
    config = load_calibration(problem)
    folder = calibrate(config).folder

    process = start_node(CALIBRATOR, *_arguments(config=problem))
    process.wait_for_line(f'current is {folder}', FIT_TIMEOUT)

    node = Node(process, ros_client)
    assert node.result() == json.loads((folder / 'result.json').read_text())
    assert [status.name for status in node.latched('parameters').status] == NAMES
    assert node.status().message == 'idle: no refit yet'


def test_ctrl_c_during_a_fit_answers_the_caller_and_ends_with_0(
    calibrator: StartCalibrator, long_problem: Path
):
    node = calibrator(long_problem)
    before = _files(long_problem.parent)
    call = node.begin('refit')
    node.process.wait_for_line('iteration 0: cost')

    assert node.process.stop() == 0

    answer = call.answer()
    assert not answer.success
    assert CANCELLED.fullmatch(answer.message)['stage'].startswith('iteration ')
    assert 'Traceback' not in node.process.output
    assert 'never retrieved' not in node.process.output
    assert _files(long_problem.parent) == before


def test_a_rejected_result_is_published_as_failed_and_the_earlier_model_stays(
    node: Node, problem: Path, recordings: Path
):
    assert node.ask('refit')[0]
    mjcf = node.latched('mjcf').data
    out = problem.parent / 'out'
    before = _files(out / 'current')
    shutil.rmtree(problem.parent / 'validate')
    shutil.copytree(recordings / 'other', problem.parent / 'validate')

    success, message = node.ask('refit')

    assert not success
    refuted = '0 of 4 parameters identified. REJECTED: the identified model is not written. '
    assert message.startswith(refuted)
    assert 'better than nominal: Held-out error did not fall: ' in message
    assert 'Next: ' in message
    result = node.result()
    assert result['accepted'] is False
    assert result['held_out_after'] > result['held_out_before']
    assert result == json.loads((out / 'rejected' / 'result.json').read_text())
    assert json.loads((out / 'current' / 'result.json').read_text())['accepted'] is True
    for status in node.latched('parameters').status:
        assert status.level == type(status).ERROR
        assert status.message == 'rejected: model-limited'
    assert node.latched('mjcf').data == mjcf
    assert _files(out / 'current') == before
    status = node.status(lambda status: 'REJECTED' in status.message)
    assert status.level == type(status).WARN
    assert {pair.key: pair.value for pair in status.values}['standing'] == 'rejected'


def test_what_becomes_bad_later_fails_with_a_sentence_and_touches_nothing(
    node: Node, problem: Path
):
    assert node.ask('refit')[0]
    before = _files(problem.parent / 'out')
    result = node.result()

    problem.write_text(CALIBRATION.replace('bounds', 'bound'))
    assert node.ask('refit') == (
        False,
        f"Unknown key 'parameters.0.bound' in {problem}; nearest: bounds.",
    )
    status = node.status(lambda status: 'Unknown key' in status.message)
    assert status.level == type(status).WARN
    problem.write_text(CALIBRATION)
    shutil.rmtree(problem.parent / 'validate')
    success, message = node.ask('refit')
    assert not success
    assert 'validate' in message
    assert message.count('\n') == 0

    assert _files(problem.parent / 'out') == before
    assert node.result() == result
    assert 'Traceback' not in node.process.output


def test_a_fit_that_is_killed_is_told_and_the_node_goes_on(
    calibrator: StartCalibrator, long_problem: Path
):
    node = calibrator(long_problem)
    before = _files(long_problem.parent)
    call = node.begin('refit')
    node.process.wait_for_line('iteration 0: cost')

    os.kill(node.child(), signal.SIGKILL)

    answer = call.answer()
    assert not answer.success
    assert answer.message == 'The fit failed unexpectedly (exit code -9).'
    status = node.status(lambda status: 'unexpectedly' in status.message)
    assert status.level == type(status).ERROR
    assert _files(long_problem.parent) == before
    shutil.rmtree(long_problem.parent / 'train_long')
    assert node.ask('refit')[0]
    assert node.process.stop() == 0


def test_config_and_output_can_change_and_are_checked(node: Node, problem: Path, tmp_path: Path):
    missing = str(tmp_path / 'nothing.yaml')
    accepted, reason = node.change('config', missing)
    assert not accepted
    assert missing in reason
    accepted, reason = node.change('config', '')
    assert not accepted
    assert reason.startswith("Expected a calibration.yaml in parameter 'config'")
    accepted, reason = node.change('output', str(problem / 'below'))
    assert not accepted
    assert reason.startswith(
        f"Expected a folder for the output '{problem / 'below'}', found a file"
    )
    assert node.change('output', str(tmp_path / 'elsewhere')) == (True, '')

    success, message = node.ask('refit')

    assert success, message
    assert (tmp_path / 'elsewhere' / 'current' / 'result.json').is_file()
    assert not (problem.parent / 'out').exists()


@pytest.mark.parametrize(
    ('text', 'sentence'),
    [
        ('model: arm.xml\n', "Missing key 'bags' in "),
        (CALIBRATION.replace('output: out', 'output: arm.xml'), 'Expected a folder for the output'),
    ],
)
def test_a_bad_configuration_at_the_start_is_one_line_and_exit_code_2(
    start_node: StartNode, problem: Path, text: str, sentence: str
):
    problem.write_text(text)
    process = start_node(CALIBRATOR, *_arguments(config=problem))
    assert process.wait() == 2
    assert sentence in process.output
    assert process.output.startswith('calibrator: ')
    assert process.output.count('\n') == 0


def test_without_a_configuration_it_says_which_parameter_is_missing(
    start_node: StartNode,
):
    process = start_node(CALIBRATOR)
    assert process.wait() == 2
    assert process.output == (
        "calibrator: Expected a calibration.yaml in parameter 'config' (-p config:=FILE), "
        'found none.'
    )


@pytest.mark.usefixtures('node')
def test_the_refit_client_prints_the_answer_and_what_is_latched(running: Running):
    client = running.start_node('sysid_ros.nodes.refit')
    assert client.wait(FIT_TIMEOUT) == 0
    for line in (
        'success: True',
        'message: 4 of 4 parameters identified. accepted: Held-out error, nominal → fitted: pos',
        '/calibrator/parameters: 4 parameters',
        '  joint/knee/damping ',
        '/calibrator/mjcf: ',
        '/calibrator/result: ',
    ):
        assert line in client.output


def test_the_refit_client_ends_with_2_when_there_is_no_calibrator(start_node: StartNode):
    client = start_node('sysid_ros.nodes.refit', *_arguments(calibrator='/sysid', timeout=0.5))
    assert client.wait() == 2
    assert client.output == 'refit: No service /sysid/refit appeared within 0.5 s.'


#: A calibrator that leaves the graph while it owes an answer.
LEAVING = """
import os, threading
import rclpy
from std_srvs.srv import Trigger

asked = threading.Event()

def never(request, response):
    asked.set()
    threading.Event().wait()

rclpy.init()
node = rclpy.create_node('calibrator')
service = node.create_service(Trigger, '~/refit', never)
threading.Thread(target=rclpy.spin, args=(node,), daemon=True).start()
asked.wait()
service.destroy()
os._exit(0)
"""


def test_the_refit_client_ends_with_2_when_the_calibrator_goes(
    start_node: StartNode, tmp_path: Path
):
    program = tmp_path / 'leaving.py'
    program.write_text(LEAVING)
    start_node(program)
    client = start_node('sysid_ros.nodes.refit')
    assert client.wait() == 2
    assert client.output == 'refit: /calibrator ended before it answered.'


#: A calibrator that never hears of the first request, and says that it is idle.
FORGETFUL = """
import rclpy
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.task import Future
from std_srvs.srv import Trigger

asked = []

async def second(request, response):
    asked.append(request)
    if len(asked) == 1:
        await Future()
    response.message = f'Heard {len(asked)} times.'
    return response

rclpy.init()
node = rclpy.create_node('calibrator')
node.create_service(Trigger, '~/refit', second, callback_group=ReentrantCallbackGroup())
idle = DiagnosticStatus(
    name='/calibrator: calibration', values=[KeyValue(key='fitting', value='false')]
)
diagnostics = node.create_publisher(DiagnosticArray, '/diagnostics', 10)
node.create_timer(.1, lambda: diagnostics.publish(DiagnosticArray(status=[idle])))
rclpy.spin(node)
"""


def test_the_refit_client_asks_again_when_its_request_was_lost(
    start_node: StartNode, tmp_path: Path
):
    program = tmp_path / 'forgetful.py'
    program.write_text(FORGETFUL)
    start_node(program)
    client = start_node('sysid_ros.nodes.refit')
    assert client.wait() == 2
    assert 'message: Heard 2 times.' in client.output
