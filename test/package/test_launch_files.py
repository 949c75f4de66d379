# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Launch and parameter files name executables, parameters and files that exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
import yaml

from sysid_ros.config.files import validate
from sysid_ros.config.nodes import (
    CalibratorConfig,
    ExciterConfig,
    RecorderConfig,
    SimulatedRobotConfig,
)
from sysid_ros.config.schema import Section

ROOT = Path(__file__).parents[2]
LAUNCH_FILES = sorted((ROOT / 'launch').iterdir())
PARAMETER_FILES = sorted((ROOT / 'config').glob('*.yaml'))
SHARE = '$(find-pkg-share sysid_ros)/'

#: Executable to the schema of its parameters and the name of its node.
NODES: dict[str, tuple[type[Section], str]] = {
    'recorder': (RecorderConfig, 'recorder'),
    'exciter': (ExciterConfig, 'exciter'),
    'simulated_robot': (SimulatedRobotConfig, 'simulated_robot'),
    'calibrator': (CalibratorConfig, 'sysid'),
}
#: Parameters that rclpy gives every node.
BUILT_IN = {'use_sim_time'}

#: `type` in a launch file of a field's type; what has none is left to YAML's rules.
TYPES = {
    int: 'int',
    float: 'float',
    bool: 'bool',
    str: 'str',
    tuple[str, ...]: None,
    tuple[float, ...]: None,
}

by_name = pytest.mark.parametrize('path', LAUNCH_FILES, ids=lambda path: path.name)


def _root(path: Path) -> ET.Element:
    return ET.parse(path).getroot()  # noqa: S314 (our own files)


def _nodes(path: Path) -> list[ET.Element]:
    return list(_root(path).iter('node'))


def _arguments(path: Path) -> dict[str, str | None]:
    """Return the declared arguments with their defaults."""
    return {arg.attrib['name']: arg.get('default') for arg in _root(path).findall('arg')}


def _texts(path: Path) -> list[str]:
    return [text for element in _root(path).iter() for text in element.attrib.values()]


@by_name
def test_executables_are_nodes_of_setup_py(path: Path):
    tree = ast.parse((ROOT / 'setup.py').read_text('utf-8'))
    assigned = {
        ast.unparse(node.targets[0]): node.value
        for node in tree.body
        if isinstance(node, ast.Assign)
    }
    entry_points = set(ast.literal_eval(assigned['NODES']))
    found = {(node.attrib['pkg'], node.attrib['exec']) for node in _nodes(path)}
    assert found
    assert found <= {('sysid_ros', name) for name in entry_points}
    assert set(NODES) <= entry_points


@by_name
def test_arguments_are_declared_used_and_described_and_files_exist(path: Path):
    texts = _texts(path)
    used = {name for text in texts for name in re.findall(r'\$\(var (\w+)\)', text)}
    assert used == set(_arguments(path))
    assert all(arg.get('description') for arg in _root(path).findall('arg'))
    named = [name for text in texts for name in re.findall(re.escape(SHARE) + r'([\w./]+)', text)]
    assert [name for name in named if not (ROOT / name).is_file()] == []


@by_name
def test_launch_asks_for_what_the_node_requires_and_for_nothing_else(path: Path):
    arguments = _arguments(path)
    required = {
        name
        for node in _nodes(path)
        for name, field in NODES[node.attrib['exec']][0].model_fields.items()
        if (field.description or '').endswith('required') and name in arguments
    }
    # Without a default, `ros2 launch` itself says what is missing.
    bare = {name for name, default in arguments.items() if default is None}
    assert bare <= required
    assert {name for name in required if arguments[name] == ''} == set()
    told = {arg.attrib['name']: arg.attrib['description'] for arg in _root(path).findall('arg')}
    assert [name for name in bare if 'required' not in told[name]] == []


@by_name
def test_parameters_are_in_the_schema_with_their_types(path: Path):
    for node in _nodes(path):
        schema, name = NODES[node.attrib['exec']]
        assert node.attrib['name'] == name
        for param in node.findall('param[@name]'):
            if param.attrib['name'] in BUILT_IN:
                continue
            field = schema.model_fields.get(param.attrib['name'])
            assert field is not None, f'{path.name}: {param.attrib["name"]}'
            # Choices are strings to ROS.
            assert param.get('type') == TYPES.get(field.annotation, 'str'), param.attrib


@by_name
def test_the_default_of_an_argument_is_the_default_of_its_parameter(path: Path):
    arguments = _arguments(path)
    for node in _nodes(path):
        schema, _ = NODES[node.attrib['exec']]
        for param in node.findall('param[@name]'):
            name = param.attrib['name']
            assert param.attrib['value'] == f'$(var {name})'
            default = arguments[name]
            if default is None or default.startswith(SHARE) or name in BUILT_IN:
                continue  # required by the node itself; a file of ours, perhaps
            value = default if param.get('type') in {'str', None} else yaml.safe_load(default)
            given = {name: [value] if param.get('type') is None else value}
            config = validate(schema, given, path.name)
            assert getattr(config, name) == getattr(schema(), name)


@by_name
def test_a_parameter_file_has_the_last_word(path: Path):
    for node in _nodes(path):
        *_, last = node.findall('param')
        assert last.get('from') == '$(var params)'
        exec_name = node.attrib['exec']
        assert _arguments(path)['params'] == f'{SHARE}config/{exec_name}.yaml'


@by_name
def test_an_included_file_gets_every_argument_that_has_the_same_name(path: Path):
    outer = _arguments(path)
    for include in _root(path).iter('include'):
        inner = ROOT / include.attrib['file'].removeprefix(SHARE)
        given = {arg.attrib['name'] for arg in include.findall('arg')}
        assert outer.keys() & _arguments(inner).keys() <= given
        assert given <= _arguments(inner).keys()


@pytest.mark.parametrize('path', PARAMETER_FILES, ids=lambda path: path.name)
def test_a_parameter_file_is_for_its_node_shows_all_and_holds_the_defaults(path: Path):
    schema, name = NODES[path.stem]
    text = path.read_text('utf-8')
    document = yaml.safe_load(text)
    assert set(document) == {f'/**/{name}'}
    assert set(document[f'/**/{name}']) == {'ros__parameters'}
    given = document[f'/**/{name}']['ros__parameters']
    values = {key: value for key, value in given.items() if key not in BUILT_IN}
    assert validate(schema, values, path.name) == schema()
    shown = re.findall(r'^    (?:# )?(\w+): ', text, flags=re.MULTILINE)
    assert sorted(set(shown) - BUILT_IN) == sorted(schema.model_fields)
    # What has an argument of a launch file is set there.
    arguments = {
        param.attrib['name']
        for launch_file in LAUNCH_FILES
        for node in _nodes(launch_file)
        if NODES[node.attrib['exec']] == (schema, name)
        for param in node.findall('param[@name]')
    }
    assert arguments
    assert arguments & given.keys() == set()


@pytest.mark.ros
def test_rclpy_reads_the_parameter_files(monkeypatch: pytest.MonkeyPatch):
    rclpy = pytest.importorskip('rclpy')
    monkeypatch.setenv('ROS_AUTOMATIC_DISCOVERY_RANGE', 'LOCALHOST')
    monkeypatch.setenv('ROS_DOMAIN_ID', '92')
    for path in PARAMETER_FILES:
        schema, name = NODES[path.stem]
        context = rclpy.Context()
        rclpy.init(args=['--ros-args', '--params-file', str(path)], context=context)
        try:
            node = rclpy.create_node(
                name,
                namespace='/left/arm',
                context=context,
                automatically_declare_parameters_from_overrides=True,
            )
            read = {key for key in schema.model_fields if node.has_parameter(key)}
            node.destroy_node()
        finally:
            rclpy.try_shutdown(context=context)
        text = yaml.safe_load(path.read_text('utf-8'))
        assert read == text[f'/**/{name}']['ros__parameters'].keys() - BUILT_IN
