# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Bad input costs one sentence, exit code 2, and nothing on disk."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from builders.cli_project import Project, Sysid
from builders.commands import commands, options
from builders.rewritten import rewrite

STATES = '/joint_states'
EXCITE = ('excite', 'arm.xml', '-o', 'motion.csv')
#: Words of Python, of the validator and of nobody else.
JARGON = (
    'Traceback',
    'Input should',
    'instance of',
    'NoneType',
    'dictionary',
    'tuple',
    'codec',
    '<class',
    '[type=',
    'Errno',
)


@pytest.fixture
def refused(project: Project, sysid: Sysid) -> Callable[..., str]:
    """Return a function that runs what must be refused, and returns the sentence."""

    def run(*arguments: str) -> str:
        before = project.files()
        words = arguments or ('calibrate', 'calibration.yaml')
        quiet = '--quiet' in options(dict(commands())[words[0]])
        done = sysid(*words, *(['--quiet'] if quiet else []))
        assert done.code == 2, done.out
        assert done.err.startswith('sysid: ')
        assert done.err.endswith('.\n')
        assert done.err.count('\n') == 1
        assert not [word for word in JARGON if word in done.err], done.err
        assert project.files() == before
        assert not (project.folder / 'out').exists()
        return str(done.err.removeprefix('sysid: ').rstrip('\n'))

    return run


def _rewrite(bag: Path, change: Callable[[str, Any], Any]) -> None:
    """Write a bag again; ``change`` gets topic and message and returns it, or None."""
    copy = rewrite(bag, bag.with_name('copy'), change)
    shutil.rmtree(bag)
    copy.rename(bag)


# Bags


@pytest.mark.parametrize(
    ('keys', 'sentence'),
    [
        ({'bags': [{'path': 'trian'}]}, "There is no bag 'trian'; nearest: train."),
        ({'bags': [{'path': 'trian_*'}]}, "No bag matches 'trian_*'; nearest: train."),
        (
            {'bags': [{'path': 'train'}, {'path': 'tr*', 'role': 'validate'}]},
            "Bag 'train' is both training and validation data; choose one role.",
        ),
        ({'bags': [{'path': 'photos'}]}, "There is no bag 'photos'; available: train, validate."),
        ({'model': 'amr.xml'}, "No model file 'amr.xml'; nearest: arm.xml."),
        (
            {'undriven': ['elbwo']},
            "No actuator of the model matches 'elbwo' in undriven; nearest: elbow.",
        ),
    ],
)
def test_files_and_actuators_that_are_not_there(
    project: Project, refused: Callable[..., str], keys: dict[str, Any], sentence: str
):
    project.change(**keys)
    assert refused() == sentence


def test_a_truncated_bag_is_read_as_far_as_it_goes_and_named(project: Project, sysid: Sysid):
    file = project.folder / 'train' / 'train.mcap'
    content = file.read_bytes()
    file.write_bytes(content[: len(content) // 2])
    found = json.loads(sysid('inspect', 'train', '--json').out)['findings']
    (unfinished,) = [item for item in found if item['kind'] == 'unfinished']
    assert unfinished['subject'] == 'train.mcap'
    assert 'unfinished' in sysid('preflight', 'calibration.yaml').out


def _without_state(topic: str, message: Any) -> Any:
    return None if topic == STATES else message


def _without_efforts_and_commands(topic: str, message: Any) -> Any:
    if topic != STATES:
        return None
    message.effort = np.zeros(0)
    return message


def _without_elbow(topic: str, message: Any) -> Any:
    if topic != STATES:
        message.data = np.array([message.data[0], np.nan])
    return message


@pytest.mark.slow
@pytest.mark.parametrize(
    ('change', 'parts'),
    [
        (_without_state, ('Expected a topic of type sensor_msgs/msg/JointState',)),
        (
            _without_efforts_and_commands,
            ("in bag 'train', found none for shoulder, elbow", '`sysid map', "undriven: ['*'] in"),
        ),
        (_without_elbow, ('found none for elbow, whose joint moves', 'undriven: [elbow] in')),
    ],
)
def test_a_bag_that_lacks_state_or_commands(
    project: Project, refused: Callable[..., str], change: Any, parts: tuple[str, ...]
):
    _rewrite(project.folder / 'train', change)
    sentence = refused('preflight', 'calibration.yaml')
    assert all(part in sentence for part in parts), sentence


@pytest.mark.slow
def test_simulated_time_is_said_before_the_work(project: Project, sysid: Sysid):
    def simulate(topic: str, message: Any) -> Any:
        if topic == STATES:
            message.header.stamp.sec %= 1000
        return message

    project.make_quick()
    project.change(segments={'times': {'train': [[0.0, 1.0]]}}, bags=[{'path': 'train'}])
    _rewrite(project.folder / 'train', simulate)
    said = sysid('calibrate', 'calibration.yaml', '--set', 'solver.max_iterations=1').err
    assert 'header stamps are simulated time' in said[: said.index('fitting')]


# Mapping


def _channel(**keys: Any) -> dict[str, Any]:
    channel = {'topic': STATES, 'field': 'position', 'label': 'elbow', **keys}
    return {'sensors': {'elbow_position': channel}}


@pytest.mark.parametrize(
    ('mapping', 'complaint'),
    [
        (_channel(topic='/joint_state'), "'/joint_state', which is not in the bag; nearest: /joi"),
        (_channel(field='positions'), 'which it does not have; nearest: position.'),
        (_channel(label='elbwo'), 'which it does not have; nearest: elbow.'),
        ({'sensors': {'elbw': _channel()['sensors']['elbow_position']}}, 'nearest: elbow_'),
        ({'sensors': {}}, 'The mapping names no sensor'),
        ('aut', "There is no file 'aut'"),
    ],
)
def test_a_mapping_that_does_not_fit(
    project: Project, refused: Callable[..., str], mapping: object, complaint: str
):
    project.change(mapping=mapping)
    assert complaint in refused()


def test_a_damaged_mapping_file(project: Project, refused: Callable[..., str]):
    (project.folder / 'map.yaml').write_text('sensor: {}')
    project.change(mapping='map.yaml')
    for arguments in ((), ('convert', 'train', 'arm.xml', '--mapping', 'map.yaml')):
        assert "Unknown key 'sensor' in map.yaml; nearest: sensors." in refused(*arguments)


def test_no_joint_name_in_common(project: Project, refused: Callable[..., str]):
    project.replace_in_model('"shoulder"', '"sholder"')
    project.replace_in_model('"elbow"', '"elbwo"')
    sentence = refused()
    assert sentence.startswith('No joint name in common: the bag has shoulder, elbow, the model ')
    assert 'nearest: shoulder and sholder, elbow and elbwo; `sysid map' in sentence


# Model


@pytest.mark.parametrize(
    ('old', 'new', 'complaint'),
    [
        ('armature=', 'armatur=', "unrecognized attribute: 'armatur'"),
        ('</worldbody>', '', 'XML parse error'),
        ('joint="elbow" kp', 'joint="elbwo" kp', "unknown transmission target 'elbwo'"),
    ],
)
def test_a_model_that_does_not_compile_is_explained_by_mujoco(
    project: Project, refused: Callable[..., str], old: str, new: str, complaint: str
):
    project.replace_in_model(old, new)
    sentence = refused()
    assert "the model 'arm.xml': " in sentence
    assert complaint in sentence


# Parameters


@pytest.mark.parametrize(
    ('keys', 'complaint'),
    [
        ({'target': 'joint/elbwo/armature'}, "No joint matches 'elbwo'"),
        ({'target': 'joint/elbow/armatur'}, 'nearest: armature.'),
        ({'target': 3}, "Bad value 3 for 'parameters.0.target'"),
        ({'bounds': [1, 0]}, 'reversed: expected lower < upper, got [1, 0].'),
        ({'bounds': [-1, 1]}, 'leave what is physical: [0, inf].'),
        ({'initial': 3.0}, 'starts at 3 (initial), outside its bounds [0, 1].'),
        ({'initial': 'big'}, "Bad value 'big' for 'parameters.0.initial'"),
        ({'name': 'tip_mass', 'shared': True}, "Two parameters are named 'tip_mass'"),
    ],
)
def test_a_parameter_that_cannot_be(
    project: Project, refused: Callable[..., str], keys: dict[str, Any], complaint: str
):
    project.change_parameter(**keys)
    assert complaint in refused()


@pytest.mark.slow
def test_a_parameter_that_touches_nothing(project: Project, refused: Callable[..., str]):
    project.change(parameters=[{'target': 'option/gravity[1]', 'bounds': [-1, 1]}])
    assert "changes with any parameter ('option/gravity[1]')" in refused()


# The rest of the configuration


@pytest.mark.slow
@pytest.mark.parametrize(
    ('keys', 'complaint'),
    [
        ({'bags': [{'path': 'train', 'role': 'validate'}]}, 'role train in bags, found none'),
        ({'bags': ['train']}, "for 'bags.0' in calibration.yaml: expected keys and values (path,"),
        ({'bags': None}, "Missing key 'bags' in calibration.yaml."),
        ({'model': None}, "Expected a robot_description in 'train', found none; name a model"),
        ({'parameters': None}, 'Expected at least one entry in parameters'),
        ({'solver': {'los': 'huber'}}, "Unknown key 'solver.los' in calibration.yaml; nearest: l"),
        ({'sensors': []}, "Bad value [] for 'sensors' in calibration.yaml: expected at least 1"),
        ({'sensors': ['elbow_positon']}, 'No sensor that is mapped in bag'),
        ({'output': 'arm.xml/out'}, "Cannot write into 'arm.xml/out': 'arm.xml' is not a folder."),
    ],
)
def test_a_configuration_that_cannot_be(
    project: Project, refused: Callable[..., str], keys: dict[str, Any], complaint: str
):
    project.change(**keys)
    assert complaint in refused()


@pytest.mark.parametrize(
    ('arguments', 'complaint'),
    [
        (['calibrate', 'calibratoin.yaml'], "There is no file 'calibratoin.yaml'; nearest: calib"),
        (['calibrate', 'train'], "Cannot read 'train': Is a directory."),
        (['fleet', 'calibration.yaml'], "Missing key 'base' in"),
        (['calibrate', 'calibration.yaml', '--set', 'loss'], 'Expected --set KEY=VALUE'),
        (['calibrate', 'calibration.yaml', '--set', 'solver.los=1'], "Unknown key 'solver.los'"),
        (['calibrate', 'calibration.yaml', '--set', 'model.x=1'], "'model' is not a section."),
        (['calibrate', 'calibration.yaml', '-o', 'arm.xml/out'], 'is not a folder.'),
        (['convert', 'train', 'arm.xml', '-o', 'arm.xml/out'], "'arm.xml' is not a folder."),
        (['inspect', 'trian'], "There is no bag 'trian'; nearest: train"),
        (['inspect', 'train', '--mapping', 'm.yaml'], 'Expected MODEL beside --mapping m.yaml'),
        (['inspect', 'arm.xml'], 'arm.xml'),
        (['predict', 'arm.xml', 'validate', '-o', 'arm.xml'], 'exists already'),
        (['predict', 'arm.xml', 'valdate', '-o', 'v'], 'nearest: validate'),
        (['predict', 'out', 'validate', '-o', 'v'], "No model file 'out'"),
        (['predict', 'gone.json', 'validate', '-o', 'v'], "There is no result 'gone.json'"),
        ([*EXCITE, '--for', 'joint/elbo/armature'], 'nearest: elbow'),
        ([*EXCITE, '--for', 'joint/*/armature', '--margin', '2'], "'--margin': expected less than"),
        ([*EXCITE, '--for', 'joint/*/armature', '--duration', '2.2'], 'a duration of at least'),
        ([*EXCITE, '--for', 'joint/*/armature', '-o', 'm.txt'], 'an output file ending in'),
    ],
)
def test_arguments_that_cannot_be(
    refused: Callable[..., str], arguments: list[str], complaint: str
):
    assert complaint in refused(*arguments)
