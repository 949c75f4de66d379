# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Imports point one way, ROS stays in the nodes, and what is imported is declared."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from graphlib import TopologicalSorter
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / 'sysid_ros').rglob('*.py'))

BASE = frozenset({'errors', 'files', 'complaints', 'config', '__init__'})
ENGINE = BASE | {'signals', 'identification'}
EVERYTHING_BELOW_NODES = ENGINE | {
    'bags',
    'alignment',
    'actuators',
    'excitation',
    'simulation',
    'results',
    'report',
    'pipeline',
}

#: What the modules of an area may import from the package, beside their own area.
ALLOWED = {
    '__init__': frozenset(),
    'errors': frozenset(),
    'files': frozenset({'errors'}),
    'complaints': frozenset({'errors'}),
    'config': frozenset({'errors', 'files', 'complaints'}),
    'signals': BASE,
    'bags': BASE | {'signals'},
    'identification': BASE | {'signals'},
    'actuators': ENGINE,
    'excitation': ENGINE,
    'simulation': ENGINE | {'excitation', 'actuators'},
    'alignment': BASE | {'signals', 'bags'},
    'results': BASE | {'signals'},
    'report': BASE | {'results'},
    'pipeline': EVERYTHING_BELOW_NODES,
    'nodes': EVERYTHING_BELOW_NODES,
    'cli': EVERYTHING_BELOW_NODES,
    # A program that shows the others at work, started as processes.
    'demo': EVERYTHING_BELOW_NODES | {'cli'},
}

#: Single modules of other areas that an area may import beside those.
ALLOWED_MODULES = {
    # Only identification.toolbox.report, inside its functions: the toolbox has its report beside
    # the fit, and this one is made of a result like any other.
    'identification': frozenset({'report', 'results.result'}),
    # For annotations.
    'report': frozenset({'identification.toolbox.comparison'}),
    'alignment': frozenset({'identification.sequence', 'identification.units'}),
    'results': frozenset(
        {'identification.targets', 'identification.models', 'identification.inertia'}
    ),
    # Starts a node's main by name; the import of ROS happens there, when it is asked for.
    'cli': frozenset({'nodes'}),
}

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


def _absolute(node: ast.ImportFrom, package: list[str]) -> str:
    if not node.level:
        return node.module or ''
    base = package[: len(package) - node.level + 1]
    return '.'.join([*base, *([node.module] if node.module else [])])


def _imports_in(
    tree: ast.AST, package: list[str], *, typing_only: bool = False
) -> Iterator[tuple[int, str, bool]]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and 'TYPE_CHECKING' in ast.dump(node.test):
            yield from _imports_in(node, package, typing_only=True)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name, typing_only
        elif isinstance(node, ast.ImportFrom):
            module = _absolute(node, package)
            # `from sysid_ros import bags` imports the module sysid_ros.bags.
            names = [alias.name for alias in node.names] if module == 'sysid_ros' else ['']
            for name in names:
                yield node.lineno, f'{module}.{name}'.rstrip('.'), typing_only
        else:
            yield from _imports_in(node, package, typing_only=typing_only)


def _imports_of(path: Path) -> list[Import]:
    source = path.relative_to(ROOT)
    tree = ast.parse(path.read_text('utf-8'))
    return [
        Import(str(source), line, module, typing_only)
        for line, module, typing_only in _imports_in(tree, list(source.parent.parts))
    ]


def _area(path: Path) -> str:
    parts = path.relative_to(ROOT / 'sysid_ros').with_suffix('').parts
    return parts[0]


def _inside(module: str) -> str | None:
    """Return the part of a module's name after the package's, or None for other packages."""
    package, _, rest = module.partition('.')
    if package != 'sysid_ros':
        return None
    return '__init__' if rest in {'', '__version__'} else rest


IMPORTS = {path: _imports_of(path) for path in SOURCES}


def test_every_area_has_a_place_in_the_order_of_imports():
    areas = {_area(path) for path in SOURCES}

    assert areas <= set(ALLOWED)


@pytest.mark.parametrize('area', sorted(ALLOWED))
def test_an_area_imports_only_what_is_below_it(area: str):
    allowed = ALLOWED[area] | {area}
    modules = ALLOWED_MODULES.get(area, frozenset())

    wrong = [
        found.where
        for path in SOURCES
        if _area(path) == area
        for found in IMPORTS[path]
        if (inside := _inside(found.module)) is not None
        and inside.split('.')[0] not in allowed
        and not any(inside == module or inside.startswith(f'{module}.') for module in modules)
    ]

    assert wrong == []


def test_the_order_of_imports_has_no_circle():
    sorter = TopologicalSorter({area: below - {area} for area, below in ALLOWED.items()})

    assert set(sorter.static_order()) == set(ALLOWED)


def test_identification_does_not_know_bags_alignment_or_ros():
    forbidden = {'sysid_ros.bags', 'sysid_ros.alignment', 'rclpy', 'rosbags'}

    wrong = [
        found.where
        for path in SOURCES
        if _area(path) == 'identification'
        for found in IMPORTS[path]
        if any(found.module == name or found.module.startswith(f'{name}.') for name in forbidden)
    ]

    assert wrong == []


def test_identification_reports_from_one_file_and_only_when_it_is_asked_to():
    files = {
        found.source
        for path in SOURCES
        if _area(path) == 'identification'
        for found in IMPORTS[path]
        if (_inside(found.module) or '').split('.')[0] == 'report'
    }
    code = 'import sys, sysid_ros.identification; print("sysid_ros.report" in sys.modules)'
    shown = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, check=True)

    assert files <= {str(Path('sysid_ros', 'identification', 'toolbox', 'report.py'))}
    assert shown.stdout == 'False\n'


def test_only_the_nodes_import_ros():
    wrong = [
        found.where
        for path in SOURCES
        if _area(path) != 'nodes'
        for found in IMPORTS[path]
        if found.module.split('.')[0] in ROS_MODULES
    ]

    assert wrong == []


def test_third_party_imports_are_declared_in_setup_py():
    declared = {_normal(name) for name in (*_strings_of('REQUIRED'), *_strings_of('PARQUET'))}
    providers = packages_distributions()

    undeclared = [
        found.where
        for path in SOURCES
        for found in IMPORTS[path]
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
    message = f'setup.py assigns nothing to {name}'
    raise LookupError(message)
