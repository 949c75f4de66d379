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


@pytest.mark.parametrize(
    ('folder', 'depend', 'pattern', 'known'),
    [
        # The recorder imports types by name, also the clock's.
        (
            'sysid_ros/nodes',
            'exec_depend',
            r'^\s*(?:from|import) (rclpy|\w+_(?:msgs|srvs|interfaces))\b',
            ('rclpy', 'rosgraph_msgs'),
        ),
        (
            'test/nodes',
            'depend',
            r"(?:from |import |, ')(\w+_(?:msgs|srvs|interfaces))[./]",
            ('lifecycle_msgs',),
        ),
    ],
)
def test_the_manifest_names_every_ros_package_that_is_imported(
    folder: str, depend: str, pattern: str, known: tuple[str, ...]
):
    depends = {element.text for element in MANIFEST if element.tag.endswith(depend)}
    imported = {
        name
        for path in (ROOT / folder).rglob('*.py')
        for name in re.findall(pattern, path.read_text('utf-8'), re.MULTILINE)
    }
    assert known[0] in imported
    assert {name for name in imported.union(known) if not name.startswith(INVENTED)} <= depends


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


HEADER = '# Copyright 2026 The sysid_ros authors\n# SPDX-License-Identifier: Apache-2.0\n'
FOLDERS = ('sysid_ros', 'test', 'benchmarks', 'examples')
HEADED = sorted(
    path.relative_to(ROOT)
    for path in (
        ROOT / 'setup.py',
        *(path for name in FOLDERS for path in (ROOT / name).rglob('*.py')),
    )
)


def test_python_files_start_with_copyright_and_licence():
    texts = {path: (ROOT / path).read_text('utf-8') for path in HEADED}
    without = [
        str(path)
        for path, text in texts.items()
        if not text.removeprefix('#!/usr/bin/env python3\n').startswith(HEADER)
    ]
    assert len(texts) > 300
    assert without == []


def test_the_licence_named_in_the_headers_is_the_one_that_is_shipped():
    text = (ROOT / 'LICENSE').read_text('utf-8')
    assert 'Apache License' in text
    assert 'Version 2.0, January 2004' in text
