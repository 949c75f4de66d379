# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What a model's text states, with the line of each number."""

from __future__ import annotations

from pathlib import Path

import pytest

from sysid_ros.model.description import changed, changes, read_description, stated

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


def test_each_number_has_a_key_in_the_words_of_targets_and_its_line(tmp_path: Path):
    (tmp_path / 'arm.xml').write_text(MODEL)
    (tmp_path / 'link.xml').write_text(LINK)

    found = {entry.key: entry for entry in stated(read_description(tmp_path / 'arm.xml'))}

    assert {key: (entry.value, entry.file.name, entry.line) for key, entry in found.items()} == {
        'option/timestep': ('.002', 'arm.xml', 2),
        'default/arm/class': ('arm', 'arm.xml', 3),
        'default/arm/joint/damping': ('2', 'arm.xml', 4),
        'default/arm/joint/armature': ('.1', 'arm.xml', 5),
        'joint/hinge/class': ('arm', 'link.xml', 3),
        'joint/hinge/axis': ('0 1 0', 'link.xml', 3),
        'body/link/geom/size': ('.1', 'link.xml', 4),
        'body/link/geom[2]/size': ('.2', 'link.xml', 5),
        'body/link/geom[2]/pos': ('0 0 1', 'link.xml', 5),
        'actuator/drive/joint': ('hinge', 'arm.xml', 12),
        'actuator/drive/kp': ('20', 'arm.xml', 12),
    }


def test_a_urdf_is_taken_as_it_is_written(tmp_path: Path):
    (tmp_path / 'arm.urdf').write_text(URDF)

    found = {entry.key: entry for entry in stated(read_description(tmp_path / 'arm.urdf'))}

    assert found['link/tip/inertial/mass/value'][1:] == ('1.5', tmp_path / 'arm.urdf', 5)
    assert found['joint/j/dynamics/damping'].line == 9
    assert not any('visual' in key for key in found)


def test_files_are_named_from_where_the_user_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / 'robot').mkdir()
    (tmp_path / 'robot/arm.xml').write_text(MODEL)
    (tmp_path / 'robot/link.xml').write_text(LINK)
    monkeypatch.chdir(tmp_path)

    files = {str(e.file) for e in stated(read_description(Path('robot/arm.xml')))}

    assert files == {'robot/arm.xml', 'robot/link.xml'}


def test_what_a_written_model_changes_has_its_place_in_the_nominal_text(tmp_path: Path):
    for folder in ('nominal', 'fitted'):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / 'arm.xml').write_text(MODEL)
        (tmp_path / folder / 'link.xml').write_text(LINK)
    fitted = MODEL.replace('armature=".1"', 'armature="0.25"').replace('kp="20"', 'kp="20.0"')
    inertial = '<inertial mass="1.5" pos="0 0 0" diaginertia="1 1 1"/>'
    (tmp_path / 'fitted/arm.xml').write_text(fitted)
    (tmp_path / 'fitted/link.xml').write_text(
        LINK.replace('<geom size=".1"', f'{inertial}<geom size=".1" pos="0 0 0"')
    )
    found = changed(
        read_description(tmp_path / 'nominal/arm.xml'),
        read_description(tmp_path / 'fitted/arm.xml'),
    )
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
