# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""package.xml follows format 3 and names what the nodes import."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

ROOT = Path(__file__).parents[2]
MANIFEST = ET.parse(ROOT / 'package.xml').getroot()  # noqa: S314 (our own file)

SETUP = (ROOT / 'setup.py').read_text('utf-8')
#: Names in rosdep of packages that PyPI names differently.
DEBIAN = {'pillow': 'pil', 'pyyaml': 'yaml'}

#: Packages that exist in tests only.
INVENTED = ('lab_', 'no_such_', 'my_')

#: Order in which format 3 (REP 149) wants the elements, as far as they are used here.
ORDER = (
    'name',
    'version',
    'description',
    'maintainer',
    'license',
    'url',
    'author',
    'depend',
    'exec_depend',
    'test_depend',
    'export',
)


def test_the_manifest_has_the_elements_of_format_3_in_their_order():
    tags = [element.tag for element in MANIFEST]
    licence = next(MANIFEST.iter('license'))
    depends = [element.text for element in MANIFEST if element.tag.endswith('depend')]

    assert MANIFEST.get('format') == '3'
    assert tags == sorted(tags, key=ORDER.index)
    assert {'name', 'version', 'description', 'maintainer', 'license'} <= set(tags)
    assert re.fullmatch(r'\d+\.\d+\.\d+', MANIFEST.findtext('version', ''))
    assert MANIFEST.findtext('export/build_type') == 'ament_python'
    assert licence.text == 'Apache-2.0'
    assert (ROOT / licence.attrib['file']).is_file()
    assert sorted(depends) == sorted(set(depends))


def test_catkin_pkg_accepts_the_manifest():
    package = pytest.importorskip('catkin_pkg.package')
    path = ROOT / 'package.xml'
    warnings: list[str] = []

    parsed = package.parse_package_string(path.read_text('utf-8'), filename=str(path))
    parsed.validate(warnings=warnings)

    assert warnings == []


def test_the_manifest_names_every_ros_package_that_the_nodes_import():
    depends = {element.text for element in MANIFEST.iter('exec_depend')}
    pattern = re.compile(
        r'^\s*(?:from|import) (rclpy|\w+_(?:msgs|srvs|interfaces))\b', re.MULTILINE
    )
    imported = {
        name
        for path in (ROOT / 'sysid_ros' / 'nodes').rglob('*.py')
        for name in pattern.findall(path.read_text('utf-8'))
    }

    assert 'rclpy' in imported
    # The recorder imports types by name, also the clock's.
    assert imported | {'rosgraph_msgs'} <= depends


def test_the_manifest_names_every_ros_package_that_the_tests_import():
    depends = {element.text for element in MANIFEST if element.tag.endswith('depend')}
    pattern = re.compile(r"(?:from |import |, ')(\w+_(?:msgs|srvs|interfaces))[./]", re.MULTILINE)
    imported = {
        name
        for path in (ROOT / 'test' / 'nodes').rglob('*.py')
        for name in pattern.findall(path.read_text('utf-8'))
    }

    assert 'lifecycle_msgs' in imported
    assert {name for name in imported if not name.startswith(INVENTED)} <= depends


def test_the_addresses_are_those_of_the_maintainer():
    owner, _, host = next(MANIFEST.iter('maintainer')).attrib['email'].partition('@')
    urls = {url.attrib['type']: url.text or '' for url in MANIFEST.iter('url')}

    assert urls.keys() == {'website', 'repository', 'bugtracker'}
    place = f'https://{host.removeprefix("users.noreply.")}/{owner}/sysid_ros'
    assert [url for url in urls.values() if not url.startswith(place)] == []


def test_the_manifest_says_of_every_requirement_of_setup_py_where_it_comes_from():
    (required,) = re.findall(r'^REQUIRED = \((.*?)^\)', SETUP, re.MULTILINE | re.DOTALL)
    text = (ROOT / 'package.xml').read_text('utf-8')
    by_pip = re.search(r'rosdep installs these with pip only(.*?)`pip', text, re.DOTALL)
    depends = {element.text for element in MANIFEST.iter('exec_depend')}

    assert by_pip
    names = re.findall(r"^ +'([\w-]+)", required, re.MULTILINE)
    assert 'mujoco-core' in names
    for name in names:
        key = f'python3-{DEBIAN.get(name, name)}'
        assert (key in depends) != bool(re.search(rf'\b{name}\b', by_pip[1])), name


def test_the_versions_of_python_are_the_same_everywhere():
    (lowest,) = re.findall(r"python_requires='>=([\d.]+)'", SETUP)
    classified = re.findall(r"'Programming Language :: Python :: (\d+\.\d+)'", SETUP)
    said = {
        page: re.findall(r'\b(3\.\d+) to (3\.\d+)\b', (ROOT / page).read_text('utf-8'))
        for page in ('README.md', 'CONTRIBUTING.md', 'docs/decisions/ros-from-wheels.md')
    }
    project = tomllib.loads((ROOT / 'pyproject.toml').read_text('utf-8'))['tool']
    asked = re.findall(r'version_info < \((\d+), (\d+)\)', (ROOT / 'Makefile').read_text('utf-8'))

    assert classified[0] == lowest
    assert all(found == [(lowest, classified[-1])] for found in said.values()), said
    assert project['mypy']['python_version'] == lowest
    assert project['ruff']['target-version'] == 'py' + lowest.replace('.', '')
    assert asked == [tuple(lowest.split('.'))]
