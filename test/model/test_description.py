# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What a model's path stands for: URDF, xacro, and what robots say of themselves in bags."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from builders import messages
from sysid_ros.bags.writer import BagWriter
from sysid_ros.errors import ModelError
from sysid_ros.model.description import changed, changes, read_description, stated
from sysid_ros.model.loading import load_model

DATA = Path(__file__).parents[1] / 'data' / 'urdf'
BARE = (DATA / 'bare.urdf').read_text()
BODY = '<body><joint name="j"/><geom size=".1"/></body>'
MJCF = f'<mujoco model="m"><worldbody>{BODY}</worldbody></mujoco>'
TEXT = 'std_msgs/msg/String'


def _bag(folder: Path, texts: Mapping[str, str], facts: Mapping[str, str] | None = None) -> Path:
    with BagWriter(folder / 'bag') as bag:
        bag.set_facts(facts or {})
        for topic, text in {'/other': 'x', **texts}.items():
            bag.add_topic(topic, TEXT)
            bag.write(topic, 1, messages.text(text))
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


#: What stands in for xacro: it evaluates what its file holds.
XACRO = """
from pathlib import Path
from types import SimpleNamespace
from xacro import substitution_args
def process_file(path):
    text = Path(substitution_args._eval_dict['find']('arm_description'), 'base.urdf').read_text()
    found = Path(path).read_text()
    if found == 'name':
        raise RuntimeError('Undefined substitution argument name')
    eval(found or '0')
    return SimpleNamespace(toprettyxml=lambda indent: text + indent)
"""


def test_without_xacro_the_way_without_it_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, 'xacro', None)
    (tmp_path / 'arm.urdf.xacro').write_text(BARE)
    with pytest.raises(ModelError, match=r'`xacro arm\.urdf\.xacro > arm\.urdf`'):
        load_model(tmp_path / 'arm.urdf.xacro')


def test_xacro_expands_with_packages_that_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Xacro itself is optional; what stands in for it calls what it calls, and fails as it does."""
    package = tmp_path / 'modules' / 'xacro'
    package.mkdir(parents=True)
    (package / '__init__.py').write_text(XACRO)
    (package / 'substitution_args.py').write_text('_eval_find, _eval_dict = str, {}')
    monkeypatch.syspath_prepend(package.parent)
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
    path.write_text('1 << 10**12')
    with pytest.raises(ModelError, match='look for large counts or powers'):
        load_model(path, [tmp_path / 'src'])


MODEL = """<mujoco model="two">
  <option timestep=".002"/>
  <default><default class="arm">
    <joint damping="2"
           armature=".1"/>
  </default></default>
  <asset><material name="red" rgba="1 0 0 1"/></asset>
  <worldbody>
    <light pos="0 0 3"/>
    <include file="link.xml"/>
  </worldbody>
  <actuator><position name="drive" joint="hinge" kp="20"/></actuator>
</mujoco>
"""
LINK = """<mujocoinclude>
<body name="link">
  <joint name="hinge" class="arm" axis="0 1 0"/>
  <geom size=".1" rgba="0 0 0 1"/>
  <geom size=".2" pos="0 0 1"/>
</body>
</mujocoinclude>
"""
URDF = """<robot name="r">
  <link name="base"/>
  <link name="tip">
    <visual><geometry><sphere radius="1"/></geometry></visual>
    <inertial><mass value="1.5"/>
      <inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/></inertial>
  </link>
  <joint name="j" type="continuous"><parent link="base"/><child link="tip"/>
    <dynamics damping="0.5"/>
  </joint>
</robot>
"""


def _two_files(folder: Path, text: str = MODEL, link: str = LINK) -> Path:
    folder.mkdir()
    (folder / 'link.xml').write_text(link)
    (folder / 'arm.xml').write_text(text)
    return folder / 'arm.xml'


def test_each_number_has_a_key_in_the_words_of_targets_and_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    _two_files(tmp_path / 'robot')
    monkeypatch.chdir(tmp_path)
    found = stated(read_description(Path('robot/arm.xml')))
    arm, link = 'robot/arm.xml', 'robot/link.xml'
    assert {entry.key: (entry.value, str(entry.file), entry.line) for entry in found} == {
        'option/timestep': ('.002', arm, 2),
        'default/arm/class': ('arm', arm, 3),
        'default/arm/joint/damping': ('2', arm, 4),
        'default/arm/joint/armature': ('.1', arm, 5),
        'joint/hinge/class': ('arm', link, 3),
        'joint/hinge/axis': ('0 1 0', link, 3),
        'body/link/geom/size': ('.1', link, 4),
        'body/link/geom[2]/size': ('.2', link, 5),
        'body/link/geom[2]/pos': ('0 0 1', link, 5),
        'actuator/drive/joint': ('hinge', arm, 12),
        'actuator/drive/kp': ('20', arm, 12),
    }


def test_a_urdf_is_taken_as_it_is_written(tmp_path: Path):
    (tmp_path / 'arm.urdf').write_text(URDF)
    found = {entry.key: entry for entry in stated(read_description(tmp_path / 'arm.urdf'))}
    assert found['link/tip/inertial/mass/value'][1:] == ('1.5', tmp_path / 'arm.urdf', 5)
    assert found['joint/j/dynamics/damping'].line == 9
    assert not any('visual' in key for key in found)


def test_what_a_written_model_changes_has_its_place_in_the_nominal_text(tmp_path: Path):
    fitted = MODEL.replace('armature=".1"', 'armature="0.25"').replace('kp="20"', 'kp="20.0"')
    inertial = '<inertial mass="1.5" pos="0 0 0" diaginertia="1 1 1"/>'
    link = LINK.replace('<geom size=".1"', f'{inertial}<geom size=".1" pos="0 0 0"')
    files = _two_files(tmp_path / 'nominal'), _two_files(tmp_path / 'fitted', fitted, link)
    found = changed(*map(read_description, files))
    told = [(c.file.name, c.line, c.element, c.attribute, c.old, c.new) for c in found]
    assert told == [
        ('arm.xml', 5, 'default/arm/joint', 'armature', '.1', '0.25'),
        ('arm.xml', 0, 'body/link/inertial', 'mass', '', '1.5'),
        ('arm.xml', 0, 'body/link/inertial', 'pos', '', '0 0 0'),
        ('arm.xml', 0, 'body/link/inertial', 'diaginertia', '', '1 1 1'),
        ('link.xml', 4, 'body/link/geom', 'pos', '', '0 0 0'),
    ]


def test_numbers_are_compared_as_numbers():
    before = {'a': '0.50 1', 'b': 'hinge', 'c': '1', 'd': '2'}
    now = {'a': '.5 1.0', 'b': 'slide', 'c': '1.2', 'e': '3'}
    assert list(changes(before, now)) == [
        ('b', 'hinge', 'slide'),
        ('c', '1', '1.2'),
        ('d', '2', ''),
        ('e', '', '3'),
    ]
