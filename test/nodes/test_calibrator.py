# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The calibrator as users run it: a process that is asked over services and heard on topics."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest
from diagnostic_msgs.msg import DiagnosticArray
from rcl_interfaces.srv import GetParameters
from std_msgs.msg import String
from std_srvs.srv import Trigger

from builders.plant_bags import record
from builders.ros_graph import (
    NodeProcess,
    RosClient,
    StartNode,
    client_node,
    node_processes,
    own_domain,
)
from sysid_ros.config.files import load_calibration
from sysid_ros.plant import Noise, Plant
from sysid_ros.results.store import history, use_again
from sysid_ros.workflows.calibrate import calibrate

pytestmark = pytest.mark.ros

CALIBRATOR = 'calibrator'
READY = 'ready: call'
#: Seconds that a small fit, or the start of the process, may take on a busy machine.
FIT_TIMEOUT = 120.0
#: Levels of diagnostics.
OK, WARN, ERROR = b'\0', b'\1', b'\2'

PENDULUM = """
<mujoco>
  <option timestep="0.002"><flag contact="disable"/></option>
  <worldbody>
    <body>
      <joint name="hinge" axis="0 1 0" armature=".01" damping=".1"/>
      <geom size=".05" fromto="0 0 0 0 0 -.3" type="capsule" mass="1"/>
      <body name="shin" pos="0 0 -.3">
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
#: Somebody hung a weight below it.
LOADED_TRUTH = {**TRUTH, 'body/shin/mass': 0.8, 'body/shin/ipos[2]': -0.13}
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


LOAD = """
memory: {previous: out, carry: true}
bags: [{path: loaded}, {path: loaded_too, role: validate}]
parameters: [{target: body/shin/mass}, {target: 'body/shin/ipos[2]'}]
output: load_out
"""
LOAD_NAMES = ['body/shin/mass', 'body/shin/ipos[2]']

CANCELLED = re.compile(
    r'The refit was cancelled while it was at "(?P<stage>.*)"; what was current still is\.'
)


def _simulate(model: Path, bag: Path, truth: dict[str, float], seconds: float, seed: int) -> None:
    """Record a simulated robot that follows two sines per actuator."""
    plant = Plant(model, truth, rate=100.0, noise=Noise(position=1e-4, velocity=1e-3, seed=seed))
    speed = 2 * np.pi * np.random.default_rng(seed).uniform(0.4, 2.0, (2, 2))
    record(bag, plant, lambda now: 0.4 * np.sin(speed * now).sum(axis=0), seconds)


@pytest.fixture(scope='module')
def recordings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a model and bags, whose names are those of ``lengths``, and long."""
    folder = tmp_path_factory.mktemp('recordings')
    model = folder / 'arm.xml'
    model.write_text(PENDULUM)
    lengths = {'train_1': 3.0, 'train_2': 3.0, 'validate': 2.0, 'other': 2.0, 'worn': 3.0}
    lengths |= {'loaded': 3.0, 'loaded_too': 2.0}
    truths = {'other': OTHER_TRUTH, 'worn': WORN_TRUTH, 'loaded': LOADED_TRUTH}
    truths['loaded_too'] = LOADED_TRUTH
    for seed, (name, seconds) in enumerate({**lengths, 'long': 60.0}.items()):
        _simulate(model, folder / name, truths.get(name, TRUTH), seconds, seed)
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
    return make_problem(recordings, tmp_path / 'problem')


@pytest.fixture
def long_problem(recordings: Path, problem: Path) -> Path:
    """Return a calibration.yaml that is busy for longer than any test looks at it."""
    shutil.copytree(recordings / 'long', problem.parent / 'train_long')
    make_long(problem)
    return problem


def make_long(problem: Path) -> None:
    """Take sixteen times the steps: each iteration takes some seconds."""
    text = PENDULUM.replace('timestep="0.002"', 'timestep="0.000125"')
    (problem.parent / 'arm.xml').write_text(text)
    problem.write_text(CALIBRATION + 'solver: {threads: 1, timestep: model}\n')


class Node:
    """A calibrator's process and what one does with it."""

    def __init__(self, process: NodeProcess, client: RosClient) -> None:
        self.process = process
        self.client = client

    def ask(self, service: str) -> tuple[bool, str]:
        """Call ``~/refit`` or ``~/cancel`` and return success and message."""
        return self.answer(self.begin(service))

    def begin(self, service: str) -> Any:
        """Call a service without waiting for the answer, and return its future."""
        caller = self.client.node.create_client(Trigger, f'/calibrator/{service}')
        assert caller.wait_for_service(30.0), f'there is no service {service}'
        return caller.call_async(Trigger.Request())

    def answer(self, call: Any) -> tuple[bool, str]:
        """Wait for the answer to a service and return success and message."""
        response = self.client.finish(call, 'the calibrator', FIT_TIMEOUT)
        return response.success, response.message

    def latched(self, topic: str) -> Any:
        """Return what a subscriber gets that comes now."""
        kind = DiagnosticArray if topic == 'parameters' else String
        return self.client.message(kind, f'/calibrator/{topic}')

    def result(self) -> dict[str, Any]:
        """Return the latched result."""
        found: dict[str, Any] = json.loads(self.latched('result').data)
        return found

    def status(self, said: str) -> tuple[bytes, dict[str, str]]:
        """Return level and values of the first status whose message has a text."""
        return self.client.diagnosis('/calibrator: calibration', said)

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
        return self.client.set_parameter('/calibrator', name, value)


@pytest.fixture(scope='module')
def running(recordings: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """Return the calibrator that tests share: its process takes longer to start than to fit."""
    folder = tmp_path_factory.mktemp('running')
    config = make_problem(recordings, folder / 'problem')
    with own_domain() as env, node_processes(env, folder) as start, client_node(env) as client:
        process = start(CALIBRATOR, config=config)
        process.wait_for_line(READY, FIT_TIMEOUT)
        yield Node(process, client)


@pytest.fixture
def node(running: Node, problem: Path) -> Node:
    """Return the shared calibrator, with the problem of this test."""
    given = {'config': str(problem), 'output': '', 'refit_on_bag': False, 'keep': 100}
    for name, value in given.items():
        assert running.change(name, value) == (True, '')
    return running


def _files(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Return content and time of change of each file below a folder, but of a fit's last values."""
    return {
        str(path.relative_to(folder)): (path.read_bytes(), path.stat().st_mtime_ns)
        for path in sorted(folder.rglob('*'))
        if path.is_file() and not path.name.startswith('.iterate')
    }


def test_refits_answer_latch_parameters_mjcf_and_result_and_take_new_bags(
    node: Node, problem: Path, recordings: Path
):
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
        assert status.level == OK
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
    assert node.status(f'idle: the last refit: {message}')[0] == OK

    shutil.copytree(recordings / 'train_2', problem.parent / 'train_2')
    assert node.change('keep', 1) == (True, '')
    assert node.ask('refit')[0]
    again = node.result()

    bags = [{topic['bag'] for topic in found['topics']} for found in (result, again)]
    assert bags[1] - bags[0] == {'train_2'}
    assert [p['value'] for p in again['parameters']] != [p['value'] for p in result['parameters']]
    node.process.wait_for_line(f'removed {out}', FIT_TIMEOUT)
    assert len(history(out.parent)) == 1


def test_a_load_is_found_by_a_refit_with_a_file_that_carries_on_what_is_current(
    node: Node, problem: Path, recordings: Path
):
    assert node.ask('refit')[0]
    for bag in ('loaded', 'loaded_too'):
        shutil.copytree(recordings / bag, problem.parent / bag)
    file = problem.parent / 'load.yaml'
    file.write_text(LOAD)
    assert node.change('config', str(file)) == (True, '')

    success, message = node.ask('refit')

    assert success, message
    result = node.result()
    assert result['accepted'] is True
    assert [parameter['name'] for parameter in result['parameters']] == [*LOAD_NAMES, *NAMES]
    for parameter in result['parameters'][:2]:
        middle = (parameter['low'] + parameter['high']) / 2
        half = (parameter['high'] - parameter['low']) / 2
        assert abs(LOADED_TRUTH[parameter['name']] - middle) < 1.6 * half
        assert half < 0.02 * abs(middle)
    assert [status.name for status in node.latched('parameters').status] == [*LOAD_NAMES, *NAMES]
    model = mujoco.MjModel.from_xml_string(node.latched('mjcf').data)
    assert model.body('shin').mass[0] == result['parameters'][0]['value']
    assert result['drift']['changed'] is False
    assert node.status(f'idle: the last refit: {message}')[0] == OK


def test_while_it_fits_it_answers_refuses_a_second_refit_and_can_be_cancelled(
    node: Node, long_problem: Path
):
    assert node.ask('cancel') == (False, 'No refit is running.')
    before = _files(long_problem.parent)
    call = node.begin('refit')

    level, values = node.status('iteration ')
    assert (level, values['fitting']) == (OK, 'true')
    request = GetParameters.Request(names=['config'])
    service = '/calibrator/get_parameters'
    (value,) = node.client.call(GetParameters, service, request).values
    assert value.string_value == str(long_problem)
    success, message = node.ask('refit')
    assert not success
    assert message.startswith('A refit is running already (iteration ')
    assert not call.done()
    cancelled, message = node.ask('cancel')
    assert cancelled
    assert CANCELLED.fullmatch(message)['stage'].startswith('iteration ')
    assert node.answer(call) == (False, message)
    assert _files(long_problem.parent) == before
    assert node.status('cancelled')[1]['fitting'] == 'false'


def test_a_fit_that_is_killed_is_told_and_the_node_goes_on(node: Node, long_problem: Path):
    before = _files(long_problem.parent)
    call = node.begin('refit')
    node.status('iteration ')

    os.kill(node.child(), signal.SIGKILL)

    assert node.answer(call) == (False, 'The fit failed unexpectedly (exit code -9).')
    assert node.status('unexpectedly')[0] == ERROR
    assert _files(long_problem.parent) == before
    shutil.rmtree(long_problem.parent / 'train_long')
    assert node.ask('refit')[0]


def test_a_fit_ends_with_a_node_that_is_killed(
    start_node: StartNode, ros_client: RosClient, long_problem: Path
):
    process = start_node(CALIBRATOR, config=long_problem)
    process.wait_for_line(READY, FIT_TIMEOUT)
    node = Node(process, ros_client)
    node.begin('refit')
    process.wait_for_line('reading ', FIT_TIMEOUT)
    fit = Path(f'/proc/{node.child()}')

    process.kill()

    # Nobody waits for a process whose parent is gone, but its parent by adoption.
    ros_client.spin_until(lambda: not fit.exists() or ') Z ' in (fit / 'stat').read_text())


def test_it_refits_when_a_bag_is_finished_and_says_that_the_robot_changed(
    node: Node, problem: Path, recordings: Path
):
    text = CALIBRATION.replace('  - {path: validate, role: validate}\n', '')
    problem.write_text(f'{text}memory: auto\n')
    assert node.ask('refit')[0]
    out = problem.parent / 'out'
    first = out / (out / 'current').readlink()
    assert node.change('refit_on_bag', value=True) == (True, '')

    shutil.copytree(recordings / 'worn', problem.parent / 'train_worn')
    node.process.wait_for_line('train_worn is new', FIT_TIMEOUT)

    assert node.status('The robot changed: joint/knee/damping from 0.6')[0] == WARN
    assert node.result()['drift']['changed']

    # A person goes back: what was found then is published again.
    use_again(out, first.name)

    node.process.wait_for_line(f'current is {first}', FIT_TIMEOUT)
    assert node.result() == json.loads((first / 'result.json').read_text())
    assert node.latched('mjcf').data == (first / 'mjcf' / 'arm.xml').read_text()


def test_it_publishes_what_is_current_at_its_start_and_answers_a_caller_at_its_end(
    start_node: StartNode, ros_client: RosClient, long_problem: Path
):
    long_problem.write_text(CALIBRATION.replace('train_*', 'train_1'))
    (long_problem.parent / 'arm.xml').write_text(PENDULUM)
    folder = calibrate(load_calibration(long_problem)).folder
    process = start_node(CALIBRATOR, config=long_problem)
    process.wait_for_line(f'current is {folder}', FIT_TIMEOUT)
    node = Node(process, ros_client)
    assert node.result() == json.loads((folder / 'result.json').read_text())
    assert [status.name for status in node.latched('parameters').status] == NAMES
    assert node.status('idle: no refit yet')[0] == OK
    make_long(long_problem)
    before = _files(long_problem.parent)
    call = node.begin('refit')
    process.wait_for_line('iteration 0: cost')

    assert process.stop() == 0

    success, message = node.answer(call)
    assert not success
    assert CANCELLED.fullmatch(message)['stage'].startswith('iteration ')
    assert 'Traceback' not in process.output
    assert 'never retrieved' not in process.output
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
    for status in node.latched('parameters').status:
        assert status.level == ERROR
        assert status.message == 'rejected: model-limited'
    assert node.latched('mjcf').data == mjcf
    assert _files(out / 'current') == before
    level, values = node.status('REJECTED')
    assert (level, values['standing']) == (WARN, 'rejected')


def test_what_becomes_bad_later_fails_with_a_sentence_and_touches_nothing(
    node: Node, problem: Path
):
    assert node.ask('refit')[0]
    before = _files(problem.parent / 'out')
    result = node.result()

    problem.write_text(CALIBRATION.replace('bounds', 'bound'))
    sentence = f"Unknown key 'parameters.0.bound' in {problem}; nearest: bounds."
    assert node.ask('refit') == (False, sentence)
    assert node.status('Unknown key')[0] == WARN
    problem.write_text(CALIBRATION)
    shutil.rmtree(problem.parent / 'validate')
    success, message = node.ask('refit')
    assert not success
    assert 'validate' in message
    assert message.count('\n') == 0

    assert _files(problem.parent / 'out') == before
    assert node.result() == result


def test_config_and_output_can_change_and_are_checked(node: Node, problem: Path, tmp_path: Path):
    missing = str(tmp_path / 'nothing.yaml')
    accepted, reason = node.change('config', missing)
    assert not accepted
    assert missing in reason
    accepted, reason = node.change('output', str(problem / 'below'))
    assert not accepted
    assert reason == f"Cannot write into '{problem / 'below'}': '{problem}' is not a folder."
    assert node.change('output', str(tmp_path / 'elsewhere')) == (True, '')

    success, message = node.ask('refit')

    assert success, message
    assert (tmp_path / 'elsewhere' / 'current' / 'result.json').is_file()
    assert not (problem.parent / 'out').exists()


@pytest.mark.parametrize(
    ('text', 'sentence'),
    [
        ('', "Expected a calibration.yaml in parameter 'config' (-p config:=FILE), found none."),
        ('model: arm.xml\n', "Missing key 'bags' in "),
        (CALIBRATION.replace('output: out', 'output: arm.xml'), 'is not a folder.'),
    ],
)
def test_a_bad_configuration_at_the_start_is_one_line_and_exit_code_2(
    start_node: StartNode, problem: Path, text: str, sentence: str
):
    problem.write_text(text)
    process = start_node(CALIBRATOR, **({'config': problem} if text else {}))
    assert process.wait() == 2
    assert sentence in process.output
    assert process.output.startswith('calibrator: ')
    assert process.output.count('\n') == 0
