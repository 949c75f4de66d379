# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Configuration files: what they mean, and one sentence for each way to get them wrong."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pydantic
import pytest
import yaml

from sysid_ros.config.files import (
    load_calibration,
    load_mapping,
    load_thresholds,
    read_yaml,
    validate,
)
from sysid_ros.config.nodes import (
    CalibratorConfig,
    ExciterConfig,
    RecorderConfig,
    SimulatedRobotConfig,
)
from sysid_ros.config.schema import (
    CalibrationConfig,
    CarriedParameter,
    MappingConfig,
    ParameterConfig,
)
from sysid_ros.errors import ConfigError

MINIMAL: dict[str, Any] = {
    'model': 'robot.xml',
    'bags': [{'path': 'bags/a'}],
    'parameters': [{'target': 'joint/*/armature'}],
}
CHANNEL = {'topic': '/joint_states', 'field': 'position', 'label': 'j'}
Load = Callable[..., CalibrationConfig]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """Return a function that reads a minimal file with some keys replaced."""

    def read(
        changes: dict[str, Any] | None = None, overrides: dict[str, Any] | None = None
    ) -> CalibrationConfig:
        path = tmp_path / 'calibration.yaml'
        document = {**copy.deepcopy(MINIMAL), **(changes or {})}
        path.write_text(yaml.safe_dump(document), encoding='utf-8')
        return load_calibration(path, overrides)

    return read


def test_a_minimal_file_has_documented_defaults(load: Load):
    config = load()
    assert config.bags[0].role == 'train'
    assert (config.mapping, config.stamps, config.sensors) == ('auto', 'auto', None)
    solver, check = config.solver, config.check
    assert (solver.loss, solver.threads, solver.starts, solver.seed) == ('linear', 0, 1, 0)
    assert (check.tolerance, check.held_out_factor) == ({}, 1.1)
    (entry,) = config.parameters
    assert (entry.name, entry.initial, entry.bounds, entry.shared) == (None, None, None, False)
    assert (entry.scale, entry.prior) == ('linear', None)


def test_everything_that_can_be_said_is_read(load: Load):
    values = {
        'parameters': (
            {
                'target': 'joint/*/damping',
                'name': 'd',
                'initial': 1.0,
                'bounds': (0.0, 2.0),
                'shared': True,
                'scale': 'log',
                'prior': {'mean': 0.5, 'std': 0.1},
            },
        ),
        'solver': {'loss': 'soft_l1', 'max_iterations': 7, 'starts': 8, 'seed': 3, 'threads': 2},
        'check': {'tolerance': {'d*': 0.5}, 'held_out_factor': 2.0},
        'mapping': {'sensors': {'q': {**CHANNEL, 'scale': -1.0, 'offset': 0.5}}},
    }
    config = load(json.loads(json.dumps({**values, 'stamps': 'receive', 'sensors': ['q']})))
    assert config.model_dump(include=set(values), exclude_unset=True) == values
    assert (config.stamps, config.sensors) == ('receive', ('q',))
    assert isinstance(config.mapping, MappingConfig)
    assert config.mapping.actuators == {}


def test_paths_are_relative_to_the_file(load: Load, tmp_path: Path):
    config = load({'mapping': 'map.yaml', 'output': 'results'})
    assert config.model == tmp_path / 'robot.xml'
    assert config.bags[0].path == str(tmp_path / 'bags/a')
    assert config.output == tmp_path / 'results'
    assert config.mapping == tmp_path / 'map.yaml'


def test_overridden_paths_are_relative_to_the_working_directory(load: Load, tmp_path: Path):
    names = {'model': 'x.xml', 'output': 'o', 'mapping': 'other.yaml'}
    config = load({'mapping': 'map.yaml'}, {**names, 'bags': [{'path': 'b'}]})
    assert {name: str(getattr(config, name)) for name in names} == names
    assert config.bags[0].path == 'b'
    assert load({}, {'output': 'o'}).model == tmp_path / 'robot.xml'


@pytest.mark.parametrize(
    ('overrides', 'complaint'),
    [
        ({'solver.los': 'huber'}, r"Unknown key 'solver\.los' in .*; nearest: loss\.$"),
        ({'solvr.loss': 'huber'}, r"Unknown key 'solvr' in .*; nearest: solver"),
        ({'model.name': 1}, r"Cannot set 'model\.name': 'model' is not a section\.$"),
        ({'bags.0.role': 'train'}, r"Cannot set 'bags\.0\.role': 'bags' is not a section\.$"),
        ({'solver.loss': 'hubber'}, r"for 'solver\.loss' in .*, found 'hubber'; nearest: huber"),
    ],
)
def test_an_override_that_does_not_fit_is_one_sentence(
    load: Load, overrides: dict[str, Any], complaint: str
):
    with pytest.raises(ConfigError, match=complaint):
        load({}, overrides)


COMPLAINTS: list[tuple[dict[str, Any], str]] = [
    ({'modle': 1}, r"Unknown key 'modle' in .*calibration\.yaml; nearest: model, solver"),
    (
        {'mapping': {'sensors': {'q': {**CHANNEL, 'scal': 2}}}},
        r"Unknown key 'mapping\.sensors\.q\.scal' in .*; nearest: scale",
    ),
    ({'parameters': [{}]}, r"Missing key 'parameters\.0\.target' in .*\.$"),
    (
        {'mapping': {'actuators': {'a': {'topic': '/c', 'label': '0'}}}},
        r"Missing key 'mapping\.actuators\.a\.field' in .*\.$",
    ),
    (
        {'bags': [{'path': 'b', 'role': 'trian'}]},
        r"Expected train or validate for 'bags\.0\.role' in .*, found 'trian'; nearest: train\.$",
    ),
    (
        {'parameters': [{'target': 'a', 'prior': {'mean': 1, 'std': 0}}]},
        r"Bad value 0 for 'parameters\.0\.prior\.std' in .*: expected more than 0\.$",
    ),
    ({'solver': {'max_iterations': 0}}, r"value 0 for 'solver\.max_iterations' .* at least 1\.$"),
    ({'solver': {'max_iterations': 10001}}, r"'solver\.max_iterations' .* at most 10000\.$"),
    ({'check': {'tolerance': {'a': -1}}}, r"value -1 for 'check\.tolerance\.a' .* at least 0"),
    ({'solver': {'max_iterations': 'many'}}, r"value 'many' for 'solver\.max_iterations' in "),
    ({'parameters': [{'target': 'a', 'bounds': [0]}]}, r"'parameters\.0\.bounds' in "),
    ({'parameters': [{'target': 'a', 'bounds': ['x', 1]}]}, r"'parameters\.0\.bounds\.0' in "),
    ({'model': None}, r"for 'model' in "),
    ({'solver': 3}, r"Bad value 3 for 'solver' in "),
    ({'mapping': 3}, r'Expected auto, a mapping or the name of a mapping file, found 3'),
    ({'bags': []}, r'Expected at least one bag with role train in bags, found none, in .*\.$'),
    ({'parameters': []}, r'Expected at least one entry in parameters .*, found none, in .*\.$'),
]


@pytest.mark.parametrize(('changes', 'complaint'), COMPLAINTS)
def test_a_file_that_does_not_fit_is_one_sentence(
    load: Load, changes: dict[str, Any], complaint: str
):
    with pytest.raises(ConfigError, match=complaint) as caught:
        load(changes)
    message = str(caught.value)
    assert message.endswith('.')
    assert '\n' not in message
    assert 'calibration.yaml' in message
    # pydantic's own words stay inside.
    assert 'Input' not in message
    assert 'MappingConfig' not in message


def test_the_model_is_in_the_first_training_bag_unless_it_is_named(tmp_path: Path):
    path = tmp_path / 'calibration.yaml'
    for name in ('bags/b', 'bags/a'):
        (tmp_path / name).mkdir(parents=True)
    document = {**MINIMAL, 'bags': [{'path': 'v', 'role': 'validate'}, {'path': 'bags/*'}]}
    path.write_text(yaml.safe_dump({**document, 'model': 'arm.urdf', 'package_path': ['ws']}))
    named = load_calibration(path)
    assert (named.model, named.package_path) == (tmp_path / 'arm.urdf', (tmp_path / 'ws',))
    path.write_text(yaml.safe_dump({k: v for k, v in document.items() if k != 'model'}))
    assert load_calibration(path).model == tmp_path / 'bags' / 'a'


def test_a_file_that_is_not_there_names_its_nearest_sibling(tmp_path: Path):
    (tmp_path / 'calibration.yaml').write_text('')
    with pytest.raises(ConfigError, match=r"no file '.*calibratoin.yaml'; nearest: calibration"):
        read_yaml(tmp_path / 'calibratoin.yaml')
    with pytest.raises(ConfigError, match=r"; there is no folder '.*nowhere'\.$"):
        read_yaml(tmp_path / 'nowhere' / 'calibration.yaml')


@pytest.mark.parametrize(
    ('content', 'complaint'),
    [
        (b'a: [', r"bad.yaml' is not valid YAML: .* line 2, column "),
        (b'a: b: c', r'is not valid YAML: .* line 1, column 5\.$'),
        (b'a: \xff', r'is not valid YAML: byte 3 is not UTF-8 text\.$'),
        (b'!!python/object:os.system {}', r'is not valid YAML: could not determine a constructor'),
        (b'', r"Expected keys and values in '.*bad.yaml', found nothing\.$"),
        (b'- a', r"Expected keys and values in '.*bad.yaml', found a list\.$"),
        (b'text', r"Expected keys and values in '.*bad.yaml', found 'text'\.$"),
    ],
)
def test_what_is_not_a_mapping_in_yaml_is_one_sentence(
    tmp_path: Path, content: bytes, complaint: str
):
    path = tmp_path / 'bad.yaml'
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=complaint) as caught:
        read_yaml(path)
    assert '\n' not in str(caught.value)


def test_a_mapping_file_is_read_by_the_same_rules(tmp_path: Path):
    path = tmp_path / 'map.yaml'
    path.write_text(yaml.safe_dump({'sensors': {'q': CHANNEL}}))
    assert load_mapping(path).sensors['q'].offset == 0.0
    path.write_text(yaml.safe_dump({'sensors': {'q': {**CHANNEL, 'lable': 'j'}}}))
    with pytest.raises(ConfigError, match=r"Unknown key 'sensors\.q\.lable' in .*; nearest: label"):
        load_mapping(path)


def test_a_configuration_cannot_be_changed(load: Load):
    config = load()
    with pytest.raises(pydantic.ValidationError, match='frozen'):
        config.output = Path()


def test_empty_topics_of_a_launch_file_are_no_topics():
    assert RecorderConfig(topics=('',)).topics == ()
    assert RecorderConfig(topics=('/a', '')).topics == ('/a',)


@pytest.mark.parametrize(
    ('schema', 'values', 'complaint'),
    [
        (RecorderConfig, {'compression': 'zst'}, r"'compression' in node, .* nearest: zstd"),
        (RecorderConfig, {'max_duration': -1}, r"-1 for 'max_duration' in node: .* at least 0\.$"),
        (
            RecorderConfig,
            {'regex': '(a'},
            r"regular expression for 'regex', found '\(a' .* in node",
        ),
        (SimulatedRobotConfig, {'encoder_bits': 33}, r"'encoder_bits' in node: .* at most 32\.$"),
        (
            ExciterConfig,
            {'amplitude': 0},
            r"value 0 for 'amplitude' in node: expected more than 0\.$",
        ),
        (ExciterConfig, {'mesage': 'x'}, r"Unknown key 'mesage' in node; nearest: message"),
    ],
)
def test_parameters_of_nodes_follow_the_same_rules(
    schema: type[pydantic.BaseModel], values: dict[str, Any], complaint: str
):
    with pytest.raises(ConfigError, match=complaint):
        validate(schema, values, 'node')


@pytest.mark.parametrize(
    'schema', [RecorderConfig, SimulatedRobotConfig, ExciterConfig, CalibratorConfig]
)
def test_every_parameter_of_a_node_has_a_default_and_a_description(
    schema: type[pydantic.BaseModel],
):
    schema()
    for name, field in schema.model_fields.items():
        assert field.description, name


def test_a_path_that_no_file_can_have_is_one_sentence(tmp_path: Path):
    path = tmp_path / 'calibration.yaml'
    path.write_text('model: "a\\0b"\nbags: [{path: x, role: train}]\nparameters: []\n')
    with pytest.raises(ConfigError, match=r"the value 'a\\x00b' holds a NUL character"):
        load_calibration(path)


def test_what_a_thresholds_file_does_not_say_stays_unsaid(tmp_path: Path):
    # A result that it names is read as for its own calibration, laws of servos included.
    path = tmp_path / 'arm.sysid.yaml'
    path.write_text('model: out\nmapping: map.yaml\nbags: [b]\n')
    found = load_thresholds(path)

    assert found.mapping == tmp_path / 'map.yaml'
    assert found.model_fields_set == {'model', 'mapping', 'bags'}


#: What an earlier calibration was asked for, in a folder below the one in which it ran.
EARLIER: dict[str, Any] = {
    'model': 'cell/robot.xml',
    'bags': [{'path': 'cell/bags/train_1'}],
    'stamps': 'receive',
    'segments': {'gap': 2.0, 'without': {'train_1': [[1.0, 2.0]]}},
    'solver': {'loss': 'huber', 'seed': 7},
    'parameters': [
        {'target': 'joint/*/damping'},
        {'target': 'sequence/train_1/initial_qvel'},
        {'name': 'late', 'target': 'actuator/*/delay', 'shared': True},
    ],
    'output': 'cell/out',
}
LOADED: dict[str, Any] = {
    'memory': {'previous': 'out', 'carry': True},
    'bags': [{'path': 'load'}],
    'parameters': [{'target': 'body/tool/inertia'}],
    'output': 'load_out',
}


@pytest.fixture
def carry(tmp_path: Path) -> Load:
    """Return a function that reads a file beside the results of an earlier calibration."""
    folder = tmp_path / 'cell' / 'out' / '2026-11-25T23-47-29Z'
    folder.mkdir(parents=True)
    then = CalibrationConfig.model_validate(EARLIER).model_dump(mode='json')
    (folder / 'result.json').write_text(json.dumps({'provenance': {'config': then}}))
    (folder.parent / 'current').symlink_to(folder.name)

    def read(
        changes: dict[str, Any] | None = None, overrides: dict[str, Any] | None = None
    ) -> CalibrationConfig:
        path = tmp_path / 'cell' / 'load.yaml'
        path.write_text(yaml.safe_dump({**LOADED, **(changes or {})}), encoding='utf-8')
        return load_calibration(path, overrides)

    return read


def test_what_a_file_does_not_say_is_as_in_the_result_that_it_carries_on(
    carry: Load, tmp_path: Path
):
    config = carry()

    # The earlier command ran elsewhere, and its paths are relative to that.
    assert config.model.resolve() == tmp_path / 'cell' / 'robot.xml'
    assert (config.stamps, config.solver.loss) == ('receive', 'huber')
    assert [bag.path for bag in config.bags] == [str(tmp_path / 'cell' / 'load')]
    assert config.output == tmp_path / 'cell' / 'load_out'
    assert config.memory.previous == tmp_path / 'cell' / 'out'
    # Parts of the bags of then are none of those of now, and neither are their starts.
    assert (config.segments.gap, config.segments.without) == (2.0, ())
    asked = [(entry.target, type(entry)) for entry in config.parameters]
    assert asked == [
        ('body/tool/inertia', ParameterConfig),
        ('joint/*/damping', CarriedParameter),
        ('actuator/*/delay', CarriedParameter),
    ]
    assert (config.parameters[2].name, config.parameters[2].shared) == ('late', True)


def test_what_a_file_says_wins_over_what_it_carries_on(carry: Load, tmp_path: Path):
    config = carry({'stamps': 'header', 'model': 'other.xml'}, {'solver.time': 60})

    assert (config.stamps, config.model) == ('header', tmp_path / 'cell' / 'other.xml')
    assert (config.solver.time, config.solver.loss, config.solver.seed) == (60.0, 'huber', 7)


def test_what_is_carried_on_can_be_carried_on_again(carry: Load, tmp_path: Path):
    then = carry().model_dump(mode='json')
    folder = tmp_path / 'cell' / 'load_out' / '2026-11-26T00-00-00Z'
    folder.mkdir(parents=True)
    (folder / 'result.json').write_text(json.dumps({'provenance': {'config': then}}))

    config = carry({'memory': {'previous': str(folder), 'carry': True}, 'output': 'third'})

    targets = [entry.target for entry in config.parameters]
    assert targets == [
        'body/tool/inertia',
        'body/tool/inertia',
        'joint/*/damping',
        'actuator/*/delay',
    ]


def test_a_file_that_carries_on_a_result_does_not_replace_it(carry: Load):
    with pytest.raises(ConfigError, match='Expected another output than that of the earlier resul'):
        carry({'output': 'out'})


def test_only_a_result_that_is_named_and_there_is_carried_on(carry: Load, tmp_path: Path):
    for previous in ('none', 'auto'):
        with pytest.raises(ConfigError, match=f"carry takes over, found '{previous}'"):
            carry({'memory': {'previous': previous, 'carry': True}})
    with pytest.raises(ConfigError, match='There is no result'):
        carry({'memory': {'previous': 'gone.json', 'carry': True}})
    (tmp_path / 'cell' / 'bare.json').write_text('{}')
    with pytest.raises(ConfigError, match='Expected a result with its configuration'):
        carry({'memory': {'previous': 'bare.json', 'carry': True}})
