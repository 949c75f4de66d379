# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Imports point one way, ROS stays in the nodes, and what is imported is declared."""

from __future__ import annotations

import ast
import functools
import re
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / 'sysid_ros').rglob('*.py'))


def _module(path: Path) -> str:
    """Return the dotted name of a source file."""
    return '.'.join(path.relative_to(ROOT).with_suffix('').parts).removesuffix('.__init__')


MODULES = frozenset(_module(path) for path in SOURCES)

#: What is in the package, low to high: each imports those before it.
PACKAGES = (
    'errors',
    'files',
    'text',
    'version',
    'vocabulary',
    'config',
    'signals',
    'bags',
    'model',
    'alignment',
    'simulation',
    'fit',
    'uncertainty',
    'results',
    'report',
    'workflows',
    'plant',
    'servos',
    'toolbox',
    'identification',
    'api',
    '__init__',
    'nodes',
    'cli',
    'demo',
)

#: Distributions that come with ROS; everything else that is imported must be in setup.py.
ROS_MODULES = frozenset(
    {
        'ament_index_python',
        'builtin_interfaces',
        'diagnostic_msgs',
        'rcl_interfaces',
        'rclpy',
        'rosgraph_msgs',
        'sensor_msgs',
        'std_msgs',
        'std_srvs',
        'trajectory_msgs',
    }
)


class Import(NamedTuple):
    """One import statement: file, line, dotted module, and whether it is for annotations only."""

    source: str
    line: int
    module: str
    typing_only: bool

    @property
    def where(self) -> str:
        """The import as an error message names it."""
        return f'{self.source}:{self.line} imports {self.module}'


def _imports_in(tree: ast.AST, *, typing_only: bool = False) -> Iterator[tuple[int, str, bool]]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and 'TYPE_CHECKING' in ast.dump(node.test):
            yield from _imports_in(node, typing_only=True)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name, typing_only
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, 'modules are imported by their whole names'
            module = node.module or ''
            # `from sysid_ros import bags` imports the module sysid_ros.bags.
            names = {f'{module}.{alias.name}' for alias in node.names}
            for name in sorted(names & MODULES or {module}):
                yield node.lineno, name, typing_only
        elif not isinstance(node, ast.expr):  # which holds no statement
            yield from _imports_in(node, typing_only=typing_only)


@functools.cache
def _imports_of(path: Path) -> list[Import]:
    source = path.relative_to(ROOT)
    tree = ast.parse(path.read_text('utf-8'))
    return [
        Import(str(source), line, module, typing_only)
        for line, module, typing_only in _imports_in(tree)
    ]


def _part(path: Path) -> str:
    return path.relative_to(ROOT / 'sysid_ros').with_suffix('').parts[0]


def _part_of(module: str) -> str | None:
    """Return the part of the package that a module is in; None for those of other packages."""
    package, _, rest = module.partition('.')
    return (rest.split('.')[0] or '__init__') if package == 'sysid_ros' else None


def test_every_part_has_a_place_in_the_order_of_imports():
    assert {_part(path) for path in SOURCES} == set(PACKAGES)


def test_imports_point_to_parts_below():
    wrong = [
        found.where
        for path in SOURCES
        for found in _imports_of(path)
        if (part := _part_of(found.module)) not in {None, _part(path)}
        and PACKAGES.index(part) >= PACKAGES.index(_part(path))
    ]
    assert wrong == []


def test_no_file_imports_itself_through_others():
    imported = {
        _module(path): {found.module for found in _imports_of(path)} & MODULES for path in SOURCES
    }
    assert set(TopologicalSorter(imported).static_order()) == MODULES


def test_only_the_nodes_and_the_demo_import_ros():
    wrong = [
        found.where
        for path in SOURCES
        if _part(path) not in {'nodes', 'demo'}
        for found in _imports_of(path)
        if found.module.split('.')[0] in ROS_MODULES
    ]
    assert wrong == []


@pytest.mark.slow
def test_third_party_imports_are_declared_in_setup_py():
    lists = ('REQUIRED', 'PARQUET', 'XACRO', 'FLEET')
    declared = {_normal(name) for listed in lists for name in _strings_of(listed)}
    providers = packages_distributions()
    undeclared = [
        found.where
        for path in SOURCES
        for found in _imports_of(path)
        if not found.typing_only
        and (top := found.module.split('.')[0]) not in sys.stdlib_module_names
        and top not in ROS_MODULES | {'sysid_ros', '__future__'}
        and not declared & {_normal(name) for name in providers.get(top, [top])}
    ]
    assert undeclared == []


def _normal(requirement: str) -> str:
    name = re.match(r'[\w.-]+', requirement)
    return name[0].lower().replace('_', '-') if name else ''


def _strings_of(name: str) -> list[str]:
    """Return the strings of a tuple that setup.py assigns to a name."""
    tree = ast.parse((ROOT / 'setup.py').read_text('utf-8'))
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name:
            return list(ast.literal_eval(node.value))
    raise LookupError(f'setup.py assigns nothing to {name}')
