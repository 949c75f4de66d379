# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Writing the identified model back into the user's MJCF."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from builders.written_models import TETRAHEDRON, difference, rewritten, save, with_values
from sysid_ros.errors import ModelError
from sysid_ros.model.loading import differing_fields, fitted_model, load_model
from sysid_ros.model.mjcf import write_model

BODY = '<body name="b"><joint name="j"/><geom name="g" size=".1" mass="1"/></body>'


def worldbody(text: str = BODY) -> str:
    return f'<worldbody>{text}</worldbody>'


def mjcf(*parts: str) -> str:
    return f'<mujoco>{"".join(parts)}</mujoco>'


MESSY = """\ufeff<?xml version='1.0'?>\r
<!-- <joint name="elbow" armature="7"/> -->\r
<mujoco model='m'>\r
  <default><joint armature='0.5' damping=".25"/></default>\r
  <worldbody>\r
\t<body name="l&amp;r" >\r
\t  <inertial\r
\t     mass = '1.50' \r
\t     pos="0 0 0"   diaginertia="1 1 1" />\r
      <!-- range is "wrong" > -->\r
      <joint\r
         armature='1e-1'\r
         name='elbow'   />\r
      <joint damping="0.10" axis="1 0 0" name="é"></joint>\r
    </body>\r
  </worldbody>\r
</mujoco>\r
<!-- the end -->"""


def test_only_the_identified_values_change_in_messy_text(tmp_path: Path) -> None:
    text, _ = rewritten(
        tmp_path,
        MESSY,
        {
            'joint/elbow/armature': 0.125,
            'joint/elbow/damping': 3.0,
            'joint/é/damping': 0.3,
            'body/l&r/mass': 1.75,
        },
    )
    expected = (
        MESSY.replace("armature='1e-1'", "armature='0.125'")
        .replace("name='elbow'   />", "name='elbow' damping='3'   />")
        .replace('damping="0.10" axis', 'damping="0.3" axis')
        .replace("mass = '1.50'", "mass = '1.75'")
    )
    assert text == expected


def test_a_value_that_is_what_the_text_says_already_changes_nothing(tmp_path: Path) -> None:
    text, _ = rewritten(tmp_path, MESSY, {'joint/elbow/armature': 0.1, 'joint/é/armature': 0.5})
    assert text == MESSY


def world(text: str) -> str:
    return mjcf(worldbody(text))


def jointed(attributes: str) -> str:
    return BODY.replace('name="j"', f'name="j"{attributes}')


def actuated(actuator: str, default: str = '') -> str:
    body = jointed(' range="-10 10"').replace('size', 'pos="1 0 0" size')
    return mjcf(default, worldbody(body), f'<actuator>{actuator}</actuator>')


def motor(attributes: str, default: str = '') -> str:
    return actuated(f'<motor name="a" joint="j"{attributes}/>', default)


GRAVITY = {'option/gravity[0]': 1.0, 'option/gravity[2]': -9.5}
TWO_OPTIONS = '<option gravity="3 3 3"/><option gravity="{}"/>'
DELAYED = ' delay="0.005" nsample="4" interp="linear"'
CUBIC = ' interp="cubic" delay=".004" nsample="2"'
NAMESAKES = mjcf(
    worldbody(),
    '<actuator><motor joint="j" name="j"/></actuator>',
    '<equality><joint name="j" joint1="j"/></equality>',
    '<sensor><jointpos name="j" joint="j"/></sensor>',
)
AFFINE = '<general name="a" joint="j" biastype="affine"{}/>'
#: A text with a place that changes, values, and the place before and after.
EDITS: list[tuple[str, dict[str, float], str, str]] = [
    # What is inherited is written on the element.
    (
        mjcf(
            '<default><default class="a"><joint armature=".1"/>',
            '<default class="b"><joint damping=".2"/></default></default></default>',
            worldbody('<body childclass="a">' + jointed(' class="b"') + '</body>'),
        ),
        {'joint/j/armature': 0.3, 'joint/j/damping': 0.4},
        'class="b"/><geom',
        'class="b" armature="0.3" damping="0.4"/><geom',
    ),
    # Of elements with equal names the right one changes.
    (NAMESAKES, {'actuator/j/gear': 2}, 'name="j"/></act', 'name="j" gear="2"/></act'),
    (NAMESAKES, {'joint/j/damping': 2}, 'name="j"/><geom', 'name="j" damping="2"/><geom'),
    # Only the first coefficient of a polynomial changes.
    (mjcf(worldbody(jointed(' damping=".5  2 3e0"'))), {'joint/j/damping': 0.7}, '.5  2', '0.7  2'),
    # Gains are written as the actuator spells them.
    (
        actuated('<position name="a" joint="j"/>'),
        {'actuator/a/kp': 6, 'actuator/a/kv': 0.5},
        'joint="j"/></act',
        'joint="j" kp="6" kv="0.5"/></act',
    ),
    (motor(' gear="2 0"'), {'actuator/a/gear': 3}, 'gear="2 0"', 'gear="3 0"'),
    (motor(' gear="2"'), {'actuator/a/gear[2]': 3}, 'gear="2"', 'gear="2 0 3"'),
    (
        motor('', '<default><motor gear="1 2 0 4"/></default>'),
        {'actuator/a/gear': 3},
        'joint="j"/></act',
        'joint="j" gear="3 2 0 4"/></act',
    ),
    (
        actuated(AFFINE.format(' gainprm="5" biasprm="0  -5.0 -1"')),
        {'actuator/a/kp': 6},
        'gainprm="5" biasprm="0  -5.0 -1"',
        'gainprm="6" biasprm="0  -6 -1"',
    ),
    (
        actuated(AFFINE.format(' gainprm="5" biasprm="0 -5"')),
        {'actuator/a/kv': 2},
        'biasprm="0 -5"',
        'biasprm="0 -5 -2"',
    ),
    (
        actuated(
            '<general name="a" joint="j"/>',
            '<default><general biastype="affine" gainprm="5" biasprm="1 -5 -1"/></default>',
        ),
        {'actuator/a/kp': 6},
        'joint="j"/></act',
        'joint="j" gainprm="6" biasprm="1 -6 -1"/></act',
    ),
    (
        actuated('<general name="a" joint="j" dyntype="filter" dynprm="0.1 7"/>'),
        {'actuator/a/dynprm[0]': 0.2, 'actuator/a/gainprm[0]': 3},
        'dynprm="0.1 7"',
        'dynprm="0.2 7" gainprm="3"',
    ),
    (
        actuated('<intvelocity name="a" joint="j" kp="5" actrange="-1 1"/>'),
        {'actuator/a/kp': 6, 'actuator/a/kv': 1},
        'kp="5" actrange="-1 1"',
        'kp="6" actrange="-1 1" kv="1"',
    ),
    # Gravity goes into the option that counts.
    (mjcf('<option gravity="0 0  -9.81"/>', worldbody()), GRAVITY, '0 0  -9.81', '1 0  -9.5'),
    (
        mjcf('<option timestep=".001"/>', worldbody()),
        GRAVITY,
        '".001"',
        '".001" gravity="1 0 -9.5"',
    ),
    (mjcf(worldbody()), GRAVITY, '<mujoco>', '<mujoco><option gravity="1 0 -9.5"/>'),
    (mjcf(TWO_OPTIONS.format('0 0 -9'), worldbody()), GRAVITY, '0 0 -9', '1 0 -9.5'),
    # A delay is MuJoCo's own, with a history that is long enough, and none where it is 0.
    (motor(''), {'actuator/a/delay': 0.005}, 'joint="j"/></act', f'joint="j"{DELAYED}/></act'),
    (motor(''), {'actuator/a/delay': 0.0}, '<motor', '<motor'),
    (motor(' nsample="9"'), {'actuator/a/delay': 0.0}, 'nsample="9"', 'nsample="9"'),
    (
        motor(' nsample="9"'),
        {'actuator/a/delay': 0.005},
        'nsample="9"',
        'nsample="9" delay="0.005" interp="linear"',
    ),
    (
        motor(CUBIC),
        {'actuator/a/delay': 0.005},
        CUBIC,
        ' interp="linear" delay="0.005" nsample="4"',
    ),
    (motor(CUBIC), {'actuator/a/delay': 0.0}, CUBIC, ''),
    (
        motor('', '<default><motor delay=".01" nsample="5" interp="linear"/></default>'),
        {'actuator/a/delay': 0.0},
        'joint="j"/></act',
        'joint="j" delay="0" nsample="0" interp="zoh"/></act',
    ),
]


@pytest.mark.parametrize(('text', 'values', 'old', 'new'), EDITS)
def test_a_value_is_written_where_and_as_the_text_has_it(
    tmp_path: Path, text: str, values: dict[str, float], old: str, new: str
) -> None:
    assert text.count(old) == 1
    after, written = rewritten(tmp_path, text, values)
    assert after == text.replace(old, new)
    assert written.notes == ()


def test_changes_reach_nested_includes_and_other_files_stay_as_they_are(tmp_path: Path) -> None:
    files = {
        'robot/main.xml': mjcf('<include file="parts/arm.xml"/>', worldbody('<geom size="1"/>')),
        'robot/parts/arm.xml': '<mujoco>\n<worldbody><include file="deep/b.xml"/></worldbody>'
        '<include file="parts/act.xml"/></mujoco>\n',
        'robot/parts/deep/b.xml': f'<x>{BODY}</x>',
        'robot/parts/act.xml': '<x><actuator><motor name="m" joint="j"/></actuator></x>\r\n',
    }
    for name, text in files.items():
        save(tmp_path, text, name)
    source = tmp_path / 'robot/main.xml'
    values = {'joint/j/armature': 0.5, 'actuator/m/gear': 3.0}
    main = write_model(source, with_values(source, values), tmp_path / 'out').path
    assert main == tmp_path / 'out' / 'main.xml'
    files['robot/parts/deep/b.xml'] = files['robot/parts/deep/b.xml'].replace(
        'name="j"/', 'name="j" armature="0.5"/'
    )
    files['robot/parts/act.xml'] = files['robot/parts/act.xml'].replace(
        'joint="j"/', 'joint="j" gear="3"/'
    )
    found = {
        f'robot/{path.relative_to(main.parent)}': path.read_bytes().decode()
        for path in main.parent.rglob('*.xml')
    }
    assert found == files


def test_assets_beside_the_model_folder_keep_their_place(tmp_path: Path) -> None:
    save(tmp_path, TETRAHEDRON, 'robot/meshes/t.obj')
    save(tmp_path, 'not needed', 'robot/meshes/other.obj')
    source = save(
        tmp_path,
        mjcf(
            '<compiler meshdir="../meshes"/><asset><mesh name="t" file="t.obj"/></asset>',
            worldbody('<body name="b"><joint name="j"/><geom type="mesh" mesh="t"/></body>'),
        ),
        'robot/xml/model.xml',
    )
    out = tmp_path / 'out'
    main = write_model(source, with_values(source, {'joint/j/armature': 1.0}), out).path
    files = sorted(str(path.relative_to(out)) for path in out.rglob('*') if path.is_file())
    assert files == ['meshes/t.obj', 'xml/model.xml']
    shutil.rmtree(tmp_path / 'robot')
    out.rename(tmp_path / 'moved')
    assert load_model(tmp_path / 'moved' / main.relative_to(out)).dof_armature[0] == 1.0


def test_absolute_references_are_kept_and_noted(tmp_path: Path) -> None:
    meshes = save(tmp_path, TETRAHEDRON, 'meshes/t.obj').parent
    text = mjcf(
        f'<compiler meshdir="{meshes}"/><asset><mesh name="t" file="t.obj"/></asset>',
        worldbody('<body name="b"><joint name="j"/><geom type="mesh" mesh="t"/></body>'),
    )
    _, written = rewritten(tmp_path, text, {'joint/j/armature': 1.0})
    assert [path.name for path in (tmp_path / 'out').rglob('*')] == ['model.xml']
    assert str(meshes) in written.notes[0]


@pytest.mark.parametrize(
    ('compiler', 'kind', 'written'),
    [
        ('', 'hinge', 20.0),
        ('<compiler angle="degree"/>', 'hinge', 20.0),
        ('<compiler angle="radian"/>', 'hinge', np.deg2rad(20)),
        ('', 'slide', np.deg2rad(20)),
    ],
)
def test_springref_is_written_in_the_unit_of_the_file(
    tmp_path: Path, compiler: str, kind: str, written: float
) -> None:
    spring = f' type="{kind}" stiffness="1" springref="1"'
    text = mjcf(compiler, worldbody(jointed(spring)))
    after, _ = rewritten(tmp_path, text, {'joint/j/springref': float(np.deg2rad(20))})
    found = re.search(r'springref="(.*?)"', after)
    assert found
    assert float(found[1]) == pytest.approx(written, abs=1e-12)


def test_a_mass_from_geoms_becomes_an_inertial_element(tmp_path: Path) -> None:
    text = mjcf(
        '\n',
        worldbody(
            '\n  <body name="b" euler="1 2 3">\n    <joint name="j"/>\n'
            '    <geom type="box" size=".1 .2 .3" pos="1 2 3" euler="10 20 30"/>\n'
            '    <geom size=".1" pos="1 0 0"/>\n  </body>\n'
        ),
    )
    after, written = rewritten(tmp_path, text, {'body/b/mass': 4.0})
    changes = difference(text, after)
    assert len(changes) == 1
    assert re.fullmatch(r'\+ <inertial pos=".*" quat=".*" mass="4" diaginertia=".*"/>', changes[0])
    nominal, model = load_model(tmp_path / 'in/model.xml'), load_model(written.path)
    np.testing.assert_allclose(model.body_inertia, nominal.body_inertia, rtol=1e-12)


def test_an_inertial_inside_an_included_file_is_found(tmp_path: Path) -> None:
    save(
        tmp_path,
        '<x><inertial mass="1" pos="0 0 0" diaginertia="1 1 1"/><joint name="j"/></x>',
        'in/i.xml',
    )
    text = mjcf(worldbody('<body name="b"><include file="i.xml"/></body>'))
    after, written = rewritten(tmp_path, text, {'body/b/mass': 4.0})
    assert after == text
    assert 'mass="4"' in (written.path.parent / 'i.xml').read_text()


@pytest.mark.parametrize(('delay', 'simulated'), [(0.0005, '0 s'), (0.0015, '0.002 s')])
def test_a_delay_below_one_timestep_is_noted(tmp_path: Path, delay: float, simulated: str) -> None:
    _, written = rewritten(tmp_path, motor(''), {'actuator/a/delay': delay})
    assert f'MuJoCo simulates {simulated}' in written.notes[0]


def framed(inside: str = '') -> str:
    body = f'<body name="b" pos="0 0 1"><frame pos=".1 .2 .3" euler="90 20 10">{inside}</frame>'
    body += '<joint name="j"/><geom size=".1"/></body>'
    return mjcf(worldbody(f'<frame pos="1 2 3" euler="0 90 30">{body}</frame>'))


INERTIAL = '<inertial pos="0 0 .1" mass="2" fullinertia="1 2 2.5 .1 .2 .3"/>'
FREE = '<body name="b"><freejoint name="j"{}/><geom size=".1" pos="1 0 0"/></body>'
SITE = '<site name="s" type="capsule" size=".1" fromto="0 0 0 1 0 0"/>'
CHILD = '<asset><model name="c" file="c.xml"/></asset>'
CLASS = '<default><position dampratio="1" kp="5"/></default>'
MOTOR = '<dcmotor name="a" joint="j" motorconst="2" resistance="3" inductance=".5"/>'
#: A target and its value, and a text without a place for it.
RARE: list[tuple[str, float, str]] = [
    ('joint/j0/damping', 2, world(f'<replicate count="2" offset="1 0 0">{BODY}</replicate>')),
    ('joint/p-j/damping', 2, mjcf(CHILD, worldbody('<attach model="c" body="b" prefix="p-"/>'))),
    ('joint/j/damping', 2, world(jointed(' springdamper="1 1"'))),
    ('body/b/mass', 2, world(FREE.format(' align="true"'))),
    ('joint/j/margin', 0.3, world(FREE.format(''))),
    ('site/s/pos[0]', 0.3, world(BODY + SITE)),
    ('body/b/pos[0]', 0.3, framed()),
    ('site/s/quat[0]', 0.3, framed('<site name="s"/>')),
    ('body/b/ipos[1]', 0.3, framed(INERTIAL)),
    ('body/b/mass_scaled', 3, mjcf('<compiler settotalmass="7"/>', worldbody())),
    ('body/b/mass', 3, mjcf('<compiler inertiafromgeom="true"/>', worldbody())),
    ('joint/j/armature', 2, actuated('<position name="a" joint="j" dampratio="1" kp="5"/>')),
    ('body/b/mass', 3, actuated('<pid name="a" joint="j" dampratio="1" kp="5"/>')),
    ('joint/j/armature', 2, actuated('<position joint="j"/>', CLASS)),
    ('joint/j/range[1]', 0.5, actuated('<position name="a" joint="j" kp="3" inheritrange="1"/>')),
    ('actuator/a/gainprm', 2, actuated('<motor name="a" joint="j"/>')),
    ('actuator/a/gainprm[2]', -3, actuated('<damper name="a" joint="j" kv="1" ctrlrange="0 1"/>')),
    ('actuator/a/gainprm[0]', 5, actuated(MOTOR)),
]


@pytest.mark.filterwarnings('ignore:compiler attribute:UserWarning')
@pytest.mark.parametrize(('path', 'value', 'text'), RARE)
def test_rare_spellings_are_written_anew_and_mean_the_fit(
    tmp_path: Path, path: str, value: float, text: str
) -> None:
    values = {path: value}
    save(tmp_path, mjcf(worldbody()), 'in/c.xml')
    after, written = rewritten(tmp_path, text, values)
    (note,) = written.notes
    assert "'model.xml' is written anew by MuJoCo" in note
    source = tmp_path / 'in' / 'model.xml'
    fitted = fitted_model(source, with_values(source, values))
    differing = differing_fields(load_model(written.path), fitted)
    assert {name for name in differing if not name.startswith(('stat.', 'bvh_'))} == set()
    assert after != text


def test_includes_are_not_left_beside_a_text_that_is_written_anew(tmp_path: Path) -> None:
    save(tmp_path, '<x>' + jointed(' springdamper="1 1"') + '</x>', 'in/b.xml')
    text = mjcf(worldbody('<include file="b.xml"/>'))
    _, written = rewritten(tmp_path, text, {'joint/j/damping': 2.0})
    assert [path.name for path in written.path.parent.iterdir()] == ['model.xml']


def test_what_cannot_be_written_back_is_one_sentence_and_leaves_nothing_behind(tmp_path: Path):
    tendon = '<fixed name="t" springlength=".1 .4"><joint joint="j" coef="1"/></fixed>'
    text = mjcf(worldbody(), f'<tendon>{tendon}</tendon>')
    existing = save(tmp_path, 'precious', 'out/file.txt')
    with pytest.raises(ModelError, match='springlength') as caught:
        rewritten(tmp_path, text, {'tendon/t/springlength[0]': 0.5})
    assert str(caught.value).count('\n') == 0
    assert existing.read_text() == 'precious'
    assert sorted(path.name for path in tmp_path.iterdir()) == ['in', 'out']


def test_an_existing_folder_is_replaced(tmp_path: Path) -> None:
    save(tmp_path, 'old', 'out/file.txt')
    rewritten(tmp_path, mjcf(worldbody()), {'joint/j/damping': 2.0})
    assert [path.name for path in (tmp_path / 'out').iterdir()] == ['model.xml']
    assert sorted(path.name for path in tmp_path.iterdir()) == ['in', 'out']


@pytest.mark.parametrize('folder', ['in', '.'])
def test_the_folder_of_the_users_model_is_never_replaced(tmp_path: Path, folder: str) -> None:
    source = save(tmp_path / 'x' / 'in', mjcf(worldbody()))
    values = with_values(source, {'joint/j/damping': 2.0})
    with pytest.raises(ModelError, match='Expected another folder'):
        write_model(source, values, tmp_path / 'x' / folder)
    assert source.read_text() == mjcf(worldbody())


def test_a_relative_path_is_found_from_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(tmp_path / 'in', mjcf(worldbody()))
    monkeypatch.chdir(tmp_path)
    source = Path('in/model.xml')
    main = write_model(source, with_values(source, {'joint/j/damping': 2.0}), Path('out')).path
    assert load_model(main).dof_damping[0] == 2.0
