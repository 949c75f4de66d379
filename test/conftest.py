# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Fixtures for tests with real ROS processes and for recordings outside the project."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from builders.ros_graph import RosClient, StartNode, client_node, node_processes, own_domain

pytest_plugins = ['builders.bag_columns']

# Small matrices are multiplied more slowly by two threads than by one, as ``sysid`` does it.
os.environ.setdefault('OPENBLAS_NUM_THREADS', '1')

REPOSITORY = Path(__file__).resolve().parent.parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the longest, and skip what needs ROS where there is none, except in CI."""
    # A fit to recordings of a real robot would otherwise keep one worker after all others ended.
    items.sort(key=lambda item: item.get_closest_marker('shared') is None)
    if importlib.util.find_spec('rclpy') is not None or 'CI' in os.environ:
        return
    for item in items:
        if item.get_closest_marker('ros'):
            item.add_marker(pytest.mark.skip(reason='rclpy is not installed'))


@pytest.fixture
def shared_data() -> Path:
    """Return the folder of recordings that are not part of the project."""
    folder = Path(os.environ.get('SYSID_SHARED_DATA', REPOSITORY.parent / 'shared' / 'data'))
    if not folder.is_dir():
        pytest.skip('SYSID_SHARED_DATA is not set to a folder of recordings')
    return folder


@pytest.fixture(scope='module')
def undrawn() -> Iterator[None]:
    """Leave out films of calibrations in this process: drawing takes longer than fitting.

    Those of `sysid_ros.report` and of a real process are tested elsewhere.
    """
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr('sysid_ros.workflows.calibrate.film_of', lambda *_: ((), ''))
        yield


@pytest.fixture
def ros_env() -> Iterator[dict[str, str]]:
    """Return an environment with a ROS domain that no other test on this machine has."""
    with own_domain() as env:
        yield env


@pytest.fixture
def start_node(ros_env: dict[str, str], tmp_path: Path) -> Iterator[StartNode]:
    """Return a function that starts processes, which end with the test."""
    with node_processes(ros_env, tmp_path) as start:
        yield start


@pytest.fixture
def ros_client(ros_env: dict[str, str]) -> Iterator[RosClient]:
    """Return a node in the test's own process and domain."""
    with client_node(ros_env) as client:
        yield client
