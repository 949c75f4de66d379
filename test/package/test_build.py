# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What colcon and pip really install: executables, shared files and package data."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

pytestmark = pytest.mark.nightly

ROOT = Path(__file__).parents[2]
NODES = ('calibrator', 'exciter', 'recorder', 'simulated_robot')
#: What a build needs; README.md is the only one that may be absent.
SOURCES = (
    'LICENSE',
    'README.md',
    'config',
    'launch',
    'package.xml',
    'pyproject.toml',
    'resource',
    'setup.cfg',
    'setup.py',
    'sysid_ros',
)
#: Distributions of ROS wheels, as they are named in site-packages.
ROS_NAMES = re.compile(r'^(ros_|rclpy|rpyutils|rosidl|.*_msgs|.*_interfaces|.*_srvs)')


def _run(*command: object, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # type: ignore[call-overload, no-any-return]
        [str(part) for part in command], capture_output=True, text=True, check=False, **options
    )


def _copy_sources(to: Path) -> Path:
    to.mkdir(parents=True)
    for name in SOURCES:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, to / name, ignore=shutil.ignore_patterns('__pycache__'))
        elif source.exists():
            shutil.copy(source, to / name)
    return to


def _files(folder: Path) -> set[str]:
    return {
        str(path.relative_to(folder))
        for path in folder.rglob('*')
        if path.is_file() and '__pycache__' not in path.parts
    }


@pytest.fixture(scope='module')
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a workspace that colcon has built."""
    colcon = Path(sys.executable).with_name('colcon')
    if not colcon.exists():
        pytest.skip('colcon is not installed beside this Python')
    root = tmp_path_factory.mktemp('workspace')
    _copy_sources(root / 'src' / 'sysid_ros')
    environment = {
        **os.environ,
        'COLCON_HOME': str(root / 'home'),
        'PATH': f'{colcon.parent}:{os.environ["PATH"]}',
    }
    done = _run(colcon, 'build', '--event-handlers', 'console_direct+', cwd=root, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return root


@pytest.fixture(scope='module')
def without_ros(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a virtual environment with the package installed by pip, and no ROS."""
    root = tmp_path_factory.mktemp('pip')
    source = _copy_sources(root / 'source')
    offline = ('--no-deps', '--no-index', '--disable-pip-version-check')
    pip = (sys.executable, '-m', 'pip')
    built = _run(*pip, 'wheel', *offline, '--no-build-isolation', '-w', root / 'dist', source)
    assert built.returncode == 0, built.stdout + built.stderr
    (wheel,) = (root / 'dist').glob('sysid_ros-*.whl')

    venv = root / 'venv'
    assert _run(sys.executable, '-m', 'venv', '--without-pip', venv).returncode == 0
    # What PYTHONPATH shows would count as installed already.
    into = ('--python', venv / 'bin' / 'python', 'install')
    installed = _run(*pip, *into, *offline, wheel, env=_bare_environment())
    assert installed.returncode == 0, installed.stdout + installed.stderr
    _lend_packages(root / 'lent', venv)
    return venv


def _lend_packages(lent: Path, venv: Path) -> None:
    """Make the packages of this environment importable in another one, ROS left out."""
    lent.mkdir()
    ours = Path(sysconfig.get_path('purelib'))
    for entry in ours.iterdir():
        of_package = entry.name.startswith(('sysid_ros', '__editable__'))
        if not (ROS_NAMES.match(entry.name) or of_package or entry.suffix == '.pth'):
            (lent / entry.name).symlink_to(entry)
    (site,) = venv.glob('lib/python3*/site-packages')
    (site / 'lent.pth').write_text(f'{lent}\n')


def _bare_environment() -> dict[str, str]:
    """Return this process's environment without what would lead to this checkout or to ROS."""
    hidden = ('PYTHONPATH', 'AMENT_PREFIX_PATH', 'LD_LIBRARY_PATH', 'VIRTUAL_ENV', '_ROS_WHEELS')
    return {key: value for key, value in os.environ.items() if not key.startswith(hidden)}


def test_colcon_puts_every_executable_where_ros2_run_looks(workspace: Path):
    folder = workspace / 'install/sysid_ros/lib/sysid_ros'
    assert _files(folder) == {*NODES, 'sysid'}
    assert all(os.access(folder / name, os.X_OK) for name in NODES)
    first_lines = {path.read_text().split('\n')[0] for path in folder.iterdir()}
    assert first_lines == {'#!/usr/bin/env python3'}


def test_colcon_registers_the_package_and_shares_its_files(workspace: Path):
    share = workspace / 'install/sysid_ros/share'
    assert (share / 'ament_index/resource_index/packages/sysid_ros').is_file()
    expected = {
        f'{folder}/{name}' for folder in ('launch', 'config') for name in _files(ROOT / folder)
    }
    assert expected | {'package.xml'} <= _files(share / 'sysid_ros')


def test_every_executable_finds_its_main_function(workspace: Path):
    # The scripts resolve their entry points; to run them would start nodes.
    code = (
        'from importlib.metadata import distribution; import importlib.util as u\n'
        'for point in distribution("sysid_ros").entry_points:\n'
        '    print(point.name, bool(u.find_spec(point.module)))'
    )
    command = f'source install/setup.bash && exec {sys.executable} -c "$0"'
    done = _run('bash', '-c', command, code, cwd=workspace, env=_bare_environment())
    names = (*NODES, 'sysid')
    assert sorted(done.stdout.splitlines()) == sorted(f'{name} True' for name in names)


def test_sysid_runs_from_the_workspace(workspace: Path):
    done = _run(
        'bash',
        '-c',
        'source install/setup.bash && install/sysid_ros/lib/sysid_ros/sysid --help',
        cwd=workspace,
        env={**_bare_environment(), 'PATH': f'{Path(sys.executable).parent}:{os.environ["PATH"]}'},
    )
    assert done.returncode == 0, done.stderr
    assert 'Usage: sysid' in done.stdout


@pytest.mark.ros
def test_a_node_from_the_workspace_answers_a_bad_parameter_with_one_line(workspace: Path):
    if importlib.util.find_spec('rclpy') is None:
        pytest.skip('rclpy is not installed')
    environment = {
        **os.environ,
        'PATH': f'{Path(sys.executable).parent}:{os.environ["PATH"]}',
        'ROS_AUTOMATIC_DISCOVERY_RANGE': 'LOCALHOST',
        'ROS_DOMAIN_ID': '91',
    }
    done = _run(
        'bash',
        '-c',
        'source install/setup.bash && exec install/sysid_ros/lib/sysid_ros/recorder '
        '--ros-args -p output:=never -p compression:=zip',
        cwd=workspace,
        env=environment,
        timeout=60,
    )
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith('recorder: Expected none or zstd')


def test_pip_installs_every_file_and_the_version_and_only_sysid_on_the_path(without_ros: Path):
    added = {path.name for path in (without_ros / 'bin').iterdir()}
    assert 'sysid' in added
    assert added & set(NODES) == set()
    assert not (without_ros / 'lib/sysid_ros').exists()
    (installed,) = without_ros.glob('lib/python3*/site-packages/sysid_ros')
    assert _files(installed) == _files(ROOT / 'sysid_ros')
    for folder in ('config', 'launch'):
        assert _files(without_ros / 'share/sysid_ros' / folder) == _files(ROOT / folder)
    code = 'from importlib.metadata import version; print(version("sysid_ros"))'
    done = _run(without_ros / 'bin/python', '-c', code, env=_bare_environment())
    assert done.stdout.strip() == ET.parse(ROOT / 'package.xml').findtext('version')  # noqa: S314


def test_sysid_and_the_whole_engine_run_without_ros(without_ros: Path, tmp_path: Path):
    environment = _bare_environment()
    engine = (
        'import sysid_ros.workflows, sysid_ros.identification, sysid_ros.report, sysid_ros.bags'
    )
    python = without_ros / 'bin/python'
    assert _run(python, '-c', 'import rclpy', env=environment).returncode == 1
    for command in ((without_ros / 'bin/sysid', '--help'), (python, '-c', engine)):
        done = _run(*command, cwd=tmp_path, env=environment)
        assert done.returncode == 0, done.stderr


def test_a_node_without_ros_says_in_one_line_how_to_get_it(without_ros: Path, tmp_path: Path):
    command = (without_ros / 'bin/python', '-m', 'sysid_ros.nodes', 'recorder')
    done = _run(*command, cwd=tmp_path, env=_bare_environment())
    assert done.returncode == 2, done.stderr
    (line,) = done.stderr.splitlines()
    assert 'rclpy' in line
    assert 'pip install' in line
