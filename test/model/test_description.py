# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What a model's path stands for: URDF, xacro, and what robots say of themselves in bags."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
from rosbags.typesys import Stores, get_typestore

from sysid_ros.bags.writer import BagWriter
from sysid_ros.errors import ModelError
from sysid_ros.model.description import read_description
from sysid_ros.model.loading import load_model

DATA = Path(__file__).parents[1] / 'data' / 'urdf'
BARE = (DATA / 'bare.urdf').read_text()
BODY = '<body><joint name="j"/><geom size=".1"/></body>'
MJCF = f'<mujoco model="m"><worldbody>{BODY}</worldbody></mujoco>'
TEXT = 'std_msgs/msg/String'


def _bag(folder: Path, texts: Mapping[str, str], facts: Mapping[str, str] | None = None) -> Path:
    types = get_typestore(Stores.ROS2_JAZZY)
    with BagWriter(folder / 'bag') as bag:
        bag.set_facts(facts or {})
        for topic, text in {'/other': 'x', **texts}.items():
            bag.add_topic(topic, TEXT)
            bag.write(topic, 1, bytes(types.serialize_cdr(types.types[TEXT](data=text), TEXT)))
    return folder / 'bag'


@pytest.mark.parametrize('topic', ['/robot_description', '/arm/robot_description'])
def test_what_a_robot_says_in_a_bag_is_its_model(topic: str, tmp_path: Path) -> None:
    bag = _bag(tmp_path, {topic: BARE})
    assert load_model(bag).joint('pivot').id == 0
    assert read_description(bag).name == 'robot_description.xml'
    assert read_description(bag).urdf == BARE
    assert read_description(bag).sha256 == read_description(DATA / 'bare.urdf').sha256
    (file,) = bag.glob('*.mcap')
    assert load_model(file).nbody == 3


def test_what_a_recorder_noted_is_the_model_too(tmp_path: Path) -> None:
    assert load_model(_bag(tmp_path, {}, {'robot_description': BARE})).nbody == 3


def test_an_mjcf_in_a_bag_is_taken_as_it_is(tmp_path: Path) -> None:
    bag = _bag(tmp_path, {'/robot_description': MJCF})
    assert read_description(bag) == (bag, MJCF, None, ())
    assert load_model(bag).joint('j').id == 0


def test_robots_that_differ_are_not_chosen_among(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match='found none; name a model file'):
        load_model(_bag(tmp_path, {}))
    both = {'/a/robot_description': BARE, '/b/robot_description': MJCF}
    with pytest.raises(ModelError, match='found /a/robot_description, /b/robot_description; save'):
        load_model(_bag(tmp_path / 'both', both))


def test_a_missing_file_names_the_nearest_model(tmp_path: Path) -> None:
    (tmp_path / 'arm.urdf').write_text(BARE)
    with pytest.raises(ModelError, match=r'No model file .*; nearest: arm\.urdf'):
        load_model(tmp_path / 'amr.urdf')


def test_a_urdf_may_have_any_ending_and_a_text_that_is_none_is_told(tmp_path: Path) -> None:
    (tmp_path / 'arm.xml').write_text(BARE)
    assert load_model(tmp_path / 'arm.xml').nbody == 3
    (tmp_path / 'arm.urdf').write_text('<launch/>')
    with pytest.raises(ModelError, match=r'Expected <robot> at the top of .*, found launch'):
        load_model(tmp_path / 'arm.urdf')


def test_without_xacro_the_way_without_it_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, 'xacro', None)
    (tmp_path / 'arm.urdf.xacro').write_text(BARE)
    with pytest.raises(ModelError, match=r'`xacro arm\.urdf\.xacro > arm\.urdf`'):
        load_model(tmp_path / 'arm.urdf.xacro')


def test_xacro_expands_with_packages_that_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Xacro itself is optional; what stands in for it calls what it calls, and fails as it does."""
    inside = ModuleType('xacro.substitution_args')
    inside._eval_find, inside._eval_dict = str, {}  # type: ignore[attr-defined]
    package = ModuleType('xacro')
    package.substitution_args = inside  # type: ignore[attr-defined]

    def process_file(path: str) -> SimpleNamespace:
        folder = inside._eval_dict['find']('arm_description')  # type: ignore[attr-defined]
        text = Path(folder, 'base.urdf').read_text()
        if 'name' in Path(path).read_text():
            raise RuntimeError('Undefined substitution argument name')
        return SimpleNamespace(toprettyxml=lambda indent: text + indent)

    package.process_file = process_file  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, 'xacro', package)
    monkeypatch.setitem(sys.modules, 'xacro.substitution_args', inside)
    path = tmp_path / 'arm.urdf.xacro'
    path.write_text('')
    with pytest.raises(ModelError, match=r"package 'arm_description' .* --package-path"):
        load_model(path)
    (tmp_path / 'src' / 'arm_description').mkdir(parents=True)
    (tmp_path / 'src' / 'arm_description' / 'base.urdf').write_text(BARE)
    assert load_model(path, [tmp_path / 'src']).nbody == 3
    assert read_description(path, [tmp_path / 'src']).name == 'arm.xml'
    path.write_text('name')
    with pytest.raises(ModelError, match=r'argument name; .*`xacro .* NAME:=VALUE > arm\.urdf`'):
        load_model(path, [tmp_path / 'src'])
    assert inside._eval_find is str  # type: ignore[attr-defined]
