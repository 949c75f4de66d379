# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from setuptools import find_packages, setup

if TYPE_CHECKING:
    from collections.abc import Sequence

NAME = 'sysid_ros'

#: Nodes, started with `ros2 run sysid_ros <name>`.
NODES = (
    'calibrator',
    'exciter',
    'recorder',
    'simulated_robot',
)

REQUIRED = (
    'annotated-types>=0.6',
    'apsw>=3.46',  # what rosbags reads SQLite by
    'jinja2>=3.1',
    'lxml>=4.9',
    'lz4>=4.0',
    'markupsafe>=2.1',
    'matplotlib>=3.6',
    'mcap>=1.6',
    'mujoco-core>=4.0.1',  # 4.0.0 has a wrong sparse Cholesky factorization
    'numpy>=1.24',
    'packaging>=22.0',
    'pillow>=9.0',
    'pydantic>=2.5',
    'pyyaml>=6.0',
    'rapidfuzz>=3.0',
    'rich>=13.0',
    'rosbags>=0.11',
    'scipy>=1.10',
    'typer>=0.19',
    'zstandard>=0.19',
)

#: ROS 2 Jazzy as wheels. Two version lines of the interfaces share their names; Jazzy's are 5.3.x
#: and, for those that rclpy needs itself, 2.0.x.
ROS = (
    'ros-jazzy-rclpy[fastrtps]>=7.1',
    'ros-builtin-interfaces==2.0.3',
    'ros-rcl-interfaces==2.0.3',
    'ros-rosgraph-msgs==2.0.3',
    'ros-diagnostic-msgs==5.3.6',
    'ros-sensor-msgs==5.3.6',
    'ros-std-msgs==5.3.6',
    'ros-std-srvs==5.3.6',
    'ros-trajectory-msgs==5.3.6',
)

#: To render films of a fit, and for MuJoCo's own viewer.
VIEWER = ('mujoco-core[rendering]>=4.0.1',)

#: To read LeRobot datasets.
PARQUET = ('pyarrow>=14.0',)

#: To fit servos by trials.
SERVO = ('cmaes>=0.10', 'optuna>=4.0')

#: To watch such a fit from elsewhere.
WANDB = ('wandb>=0.15',)

#: To calibrate many robots side by side.
FLEET = ('dask>=2024.8', 'distributed>=2024.8')

#: To take xacro files as models.
XACRO = ('xacro>=2.0',)

#: To make the documentation a site.
DOCS = ('mkdocs-material>=9.6', 'mkdocstrings-python>=1.16')

TEST = (
    *DOCS,
    *FLEET,
    *PARQUET,
    *SERVO,
    *VIEWER,
    'axe-playwright-python>=0.1.8',
    'colcon-common-extensions',
    'hypothesis',
    'ipykernel',
    'lxml-stubs',
    'mcap-ros2-support>=0.5',  # another writer of bags
    'mujoco-core[sysid]',  # its files and ours interchange
    'mypy',
    'nbclient',
    'nbformat',
    'playwright>=1.49',  # it drives the system's Chromium, and downloads no other
    'pytest',
    'pytest-xdist',
    'ruff',
    'setuptools>=70.1,<80',  # the newest that colcon builds with
    'types-PyYAML',
)


def _executables(commands: Sequence[str]) -> list[str]:
    """Return the console scripts of this build.

    `setup.py install` and `develop` are what colcon and the ROS build farm run; there, scripts go
    to lib/sysid_ros, where `ros2 run` looks. A wheel puts them on the PATH, where names such as
    `recorder` would be in the way of other programs, so it has `sysid` only; the nodes are then
    started as `python -m sysid_ros.nodes recorder`.
    """
    scripts = ['sysid = sysid_ros.cli:main']
    if {'install', 'develop'} & set(commands):
        scripts += [f'{node} = {NAME}.nodes.__main__:main' for node in NODES]
    return scripts


def _share(folder: str, *patterns: str) -> tuple[str, list[str]]:
    """Return the data_files entry of one folder of the source tree."""
    files = (path for pattern in patterns for path in Path(folder).glob(pattern))
    return f'share/{NAME}/{folder}', sorted(str(path) for path in files if path.is_file())


_package = ET.parse('package.xml').getroot()  # noqa: S314 (our own file)
_maintainer = next(_package.iter('maintainer'))
_urls = {url.get('type'): url.text for url in _package.iter('url')}

setup(
    name=NAME,
    version=_package.findtext('version'),
    description=_package.findtext('description'),
    long_description=Path('README.md').read_text('utf-8') if Path('README.md').exists() else '',
    long_description_content_type='text/markdown',
    license=_package.findtext('license'),
    url=_urls['website'],
    project_urls={'Source': _urls['repository'], 'Issues': _urls['bugtracker']},
    maintainer=_maintainer.text,
    maintainer_email=_maintainer.get('email'),
    packages=find_packages(include=[NAME, f'{NAME}.*']),
    package_data={
        NAME: ['py.typed'],
        f'{NAME}.cli': ['*.yaml'],
        f'{NAME}.report': ['templates/*', 'vendor/*'],
    },
    data_files=[
        ('share/ament_index/resource_index/packages', [f'resource/{NAME}']),
        (f'share/{NAME}', ['package.xml']),
        _share('launch', '*.launch.xml'),
        _share('config', '*.yaml'),
        _share('config/demo', '*'),
    ],
    python_requires='>=3.11',
    classifiers=[
        'License :: OSI Approved :: Apache Software License',
        'Operating System :: POSIX :: Linux',
        'Programming Language :: Python :: 3',
        'Programming Language :: Python :: 3.11',
        'Programming Language :: Python :: 3.12',
        'Programming Language :: Python :: 3.13',
        'Topic :: Scientific/Engineering',
    ],
    install_requires=REQUIRED,
    extras_require={
        'ros': ROS,
        'test': TEST,
        'viewer': VIEWER,
        'parquet': PARQUET,
        'servo': SERVO,
        'wandb': WANDB,
        'xacro': XACRO,
        'fleet': FLEET,
        'docs': DOCS,
        'bench': ['mujoco-core[sysid]', *SERVO],
    },
    entry_points={'console_scripts': _executables(sys.argv)},
    zip_safe=False,
)
