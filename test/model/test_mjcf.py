# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Writing the identified model back into the user's MJCF."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from builders.written_models import difference, rewritten, save, with_values
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


def test_inherited_values_are_written_on_the_element(tmp_path: Path) -> None:
    text = mjcf(
        '<default><default class="a"><joint armature=".1"/>',
        '<default class="b"><joint damping=".2"/></default></default></default>',
        worldbody(
            '<body childclass="a"><body><joint name="j" class="b"/><geom size=".1"/></body></body>'
        ),
    )
    after, _ = rewritten(tmp_path, text, {'joint/j/armature': 0.3, 'joint/j/damping': 0.4})
    assert after == text.replace(
        'class="b"/><geom', 'class="b" armature="0.3" damping="0.4"/><geom'
    )


def test_the_right_one_of_elements_with_equal_names_changes(tmp_path: Path) -> None:
    text = mjcf(
        worldbody(BODY),
        '<actuator><motor name="j" joint="j"/></actuator>',
        '<equality><joint name="j" joint1="j"/></equality>',
        '<sensor><jointpos name="j" joint="j"/></sensor>',
    )
    after, _ = rewritten(tmp_path, text, {'joint/j/damping': 0.4, 'actuator/j/gear': 2})
    assert after == text.replace('<joint name="j"/>', '<joint name="j" damping="0.4"/>').replace(
        '<motor name="j" joint="j"/>', '<motor name="j" joint="j" gear="2"/>'
    )


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
    obj = 'v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nf 1 3 2\nf 1 2 4\nf 1 4 3\nf 2 3 4\n'
    save(tmp_path, obj, 'robot/meshes/t.obj')
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
    obj = 'v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nf 1 3 2\nf 1 2 4\nf 1 4 3\nf 2 3 4\n'
    meshes = save(tmp_path, obj, 'meshes/t.obj').parent
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
    joint = f'<joint name="j" type="{kind}" stiffness="1" springref="1"/>'
    text = mjcf(compiler, worldbody(BODY.replace('<joint name="j"/>', joint)))
    after, _ = rewritten(tmp_path, text, {'joint/j/springref': float(np.deg2rad(20))})
    found = re.search(r'springref="(.*?)"', after)
    assert found
    assert float(found[1]) == pytest.approx(written, abs=1e-12)


@pytest.mark.parametrize('attribute', ['damping', 'stiffness'])
def test_only_the_first_coefficient_of_a_polynomial_changes(tmp_path: Path, attribute: str) -> None:
    text = mjcf(worldbody(BODY.replace('name="j"', f'name="j" {attribute}=".5  2 3e0"')))
    after, _ = rewritten(tmp_path, text, {f'joint/j/{attribute}': 0.7})
    assert after == text.replace('.5  2 3e0', '0.7  2 3e0')


def test_an_inherited_polynomial_is_written_whole(tmp_path: Path) -> None:
    text = mjcf('<default><joint damping="1 2 3"/></default>', worldbody())
    after, _ = rewritten(tmp_path, text, {'joint/j/damping': 0.7})
    assert after == text.replace('<joint name="j"/>', '<joint name="j" damping="0.7 2 3"/>')


SERVOS: list[tuple[str, str, dict[str, float], str]] = [
    ('', '<position name="a" joint="j" kp="5" kv="1"/>', {'kp': 6}, 'kp="6" kv="1"'),
    ('', '<position name="a" joint="j"/>', {'kp': 6, 'kv': 0.5}, 'joint="j" kp="6" kv="0.5"'),
    ('', '<velocity name="a" joint="j" kv="1"/>', {'kv': 2}, 'kv="2"'),
    ('', '<motor name="a" joint="j" gear="2 0"/>', {'gear': 3}, 'gear="3 0"'),
    ('', '<motor name="a" joint="j" gear="2"/>', {'gear[2]': 3}, 'gear="2 0 3"'),
    (
        '<default><motor gear="1 2 0 4"/></default>',
        '<motor name="a" joint="j"/>',
        {'gear': 3},
        'gear="3 2 0 4"',
    ),
    (
        '',
        '<general name="a" joint="j" biastype="affine" gainprm="5" biasprm="0  -5.0 -1"/>',
        {'kp': 6},
        'gainprm="6" biasprm="0  -6 -1"',
    ),
    (
        '',
        '<general name="a" joint="j" biastype="affine" gainprm="5" biasprm="0 -5"/>',
        {'kv': 2},
        'biasprm="0 -5 -2"',
    ),
    (
        '<default><general biastype="affine" gainprm="5" biasprm="1 -5 -1"/></default>',
        '<general name="a" joint="j"/>',
        {'kp': 6},
        'joint="j" gainprm="6" biasprm="1 -6 -1"',
    ),
    (
        '',
        '<general name="a" joint="j" dyntype="filter" dynprm="0.1 7"/>',
        {'dynprm[0]': 0.2, 'gainprm[0]': 3},
        'dynprm="0.2 7" gainprm="3"',
    ),
    ('', '<pid name="a" joint="j" kp="5" kv="1"/>', {'kv': 2}, 'kv="2"'),
    (
        '',
        '<intvelocity name="a" joint="j" kp="5" actrange="-1 1"/>',
        {'kp': 6, 'kv': 1},
        'kp="6" actrange="-1 1" kv="1"',
    ),
]


@pytest.mark.parametrize(('default', 'servo', 'values', 'expected'), SERVOS)
def test_gains_are_written_as_the_actuator_spells_them(
    tmp_path: Path, default: str, servo: str, values: dict[str, float], expected: str
) -> None:
    text = mjcf(default, worldbody(), f'<actuator>{servo}</actuator>')
    after, _ = rewritten(tmp_path, text, {f'actuator/a/{key}': v for key, v in values.items()})
    assert expected in after


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


@pytest.mark.parametrize(
    ('options', 'expected'),
    [
        ('<option gravity="0 0  -9.81"/>', '<option gravity="1 0  -9.5"/>'),
        ('<option timestep=".001"/>', '<option timestep=".001" gravity="1 0 -9.5"/>'),
        ('', '<option gravity="1 0 -9.5"/>'),
        (
            '<option gravity="3 3 3"/><option gravity="0 0 -9"/>',
            '<option gravity="3 3 3"/><option gravity="1 0 -9.5"/>',
        ),
    ],
)
def test_gravity_is_written_into_the_option_that_counts(
    tmp_path: Path, options: str, expected: str
) -> None:
    text = mjcf(options, worldbody())
    after, _ = rewritten(tmp_path, text, {'option/gravity[0]': 1, 'option/gravity[2]': -9.5})
    assert after == text.replace(f'<mujoco>{options}', f'<mujoco>{expected}')


MOTOR = '<actuator><motor name="a" joint="j"{}/></actuator>'


@pytest.mark.parametrize(
    ('before', 'delay', 'after'),
    [
        ('', 0.005, ' delay="0.005" nsample="4" interp="linear"'),
        ('', 0.0, ''),
        (' nsample="9"', 0.0, ' nsample="9"'),
        (' nsample="9"', 0.005, ' nsample="9" delay="0.005" interp="linear"'),
        (
            ' interp="cubic" delay=".004" nsample="2"',
            0.005,
            ' interp="linear" delay="0.005" nsample="4"',
        ),
        (' interp="cubic" delay=".004" nsample="2"', 0.0, ''),
    ],
)
def test_a_delay_is_written_as_mujocos_own(
    tmp_path: Path, before: str, delay: float, after: str
) -> None:
    text = mjcf(worldbody(), MOTOR.format(before))
    found, written = rewritten(tmp_path, text, {'actuator/a/delay': delay})
    assert found == mjcf(worldbody(), MOTOR.format(after))
    assert written.notes == ()


def test_an_inherited_delay_is_switched_off_on_the_element(tmp_path: Path) -> None:
    default = '<default><motor delay=".01" nsample="5" interp="linear"/></default>'
    text = mjcf(default, worldbody(), MOTOR.format(''))
    found, _ = rewritten(tmp_path, text, {'actuator/a/delay': 0.0})
    off = MOTOR.format(' delay="0" nsample="0" interp="zoh"')
    assert found == mjcf(default, worldbody(), off)


@pytest.mark.parametrize(('delay', 'simulated'), [(0.0005, '0 s'), (0.0015, '0.002 s')])
def test_a_delay_below_one_timestep_is_noted(tmp_path: Path, delay: float, simulated: str) -> None:
    _, written = rewritten(
        tmp_path, mjcf(worldbody(), MOTOR.format('')), {'actuator/a/delay': delay}
    )
    assert f'MuJoCo simulates {simulated}' in written.notes[0]


def actuated(actuator: str, default: str = '') -> str:
    body = BODY.replace('size', 'pos="1 0 0" size').replace('"j"', '"j" range="-10 10"')
    return mjcf(default, worldbody(body), f'<actuator>{actuator}</actuator>')


def framed(inside: str = '') -> str:
    body = f'<body name="b" pos="0 0 1"><frame pos=".1 .2 .3" euler="90 20 10">{inside}</frame>'
    body += '<joint name="j"/><geom size=".1"/></body>'
    return mjcf(worldbody(f'<frame pos="1 2 3" euler="0 90 30">{body}</frame>'))


INERTIAL = '<inertial pos="0 0 .1" mass="2" fullinertia="1 2 2.5 .1 .2 .3"/>'
RARE = {
    'replicate': (
        mjcf(worldbody(f'<replicate count="2" offset="1 0 0">{BODY}</replicate>')),
        {'joint/j0/damping': 2.0},
    ),
    'attach': (
        mjcf(
            '<asset><model name="c" file="c.xml"/></asset>',
            worldbody('<attach model="c" body="b" prefix="p-"/>'),
        ),
        {'joint/p-j/damping': 2.0},
    ),
    'springdamper': (
        mjcf(worldbody(BODY.replace('name="j"', 'name="j" springdamper="1 1"'))),
        {'joint/j/damping': 2.0},
    ),
    'align': (
        mjcf(
            worldbody(
                '<body name="b"><freejoint align="true"/><geom size=".1" pos="1 0 0"/></body>'
            )
        ),
        {'body/b/mass': 2.0},
    ),
    'freejoint': (
        mjcf(worldbody('<body><freejoint name="j"/><geom size=".1"/></body>')),
        {'joint/j/margin': 0.3},
    ),
    'fromto': (
        mjcf(worldbody(BODY + '<site name="s" type="capsule" size=".1" fromto="0 0 0 1 0 0"/>')),
        {'site/s/pos[0]': 0.3},
    ),
    'frame of a body': (framed(), {'body/b/pos[0]': 0.3}),
    'frame of a site': (framed('<site name="s"/>'), {'site/s/quat[1]': 0.3}),
    'frame of an inertial': (framed(INERTIAL), {'body/b/ipos[1]': 0.3}),
    'settotalmass': (
        mjcf('<compiler settotalmass="7"/>', worldbody()),
        {'body/b/mass_scaled': 3.0},
    ),
    'inertiafromgeom': (
        mjcf('<compiler inertiafromgeom="true"/>', worldbody()),
        {'body/b/mass': 3.0},
    ),
    'dampratio': (
        actuated('<position name="a" joint="j" dampratio="1" kp="5"/>'),
        {'joint/j/armature': 2.0},
    ),
    'dampratio of a pid': (
        actuated('<pid name="a" joint="j" dampratio="1" kp="5"/>'),
        {'body/b/mass': 3.0},
    ),
    'dampratio of a class': (
        actuated('<position joint="j"/>', '<default><position dampratio="1" kp="5"/></default>'),
        {'joint/j/armature': 2.0},
    ),
    'inheritrange': (
        actuated('<position name="a" joint="j" kp="3" inheritrange="1"/>'),
        {'joint/j/range[1]': 0.5},
    ),
    'gain of a motor': (actuated('<motor name="a" joint="j"/>'), {'actuator/a/gainprm': 2.0}),
    'damper': (
        actuated('<damper name="a" joint="j" kv="1" ctrlrange="0 1"/>'),
        {'actuator/a/gainprm[2]': -3.0},
    ),
    'dcmotor': (
        actuated('<dcmotor name="a" joint="j" motorconst="2" resistance="3" inductance=".5"/>'),
        {'actuator/a/gainprm[0]': 5.0},
    ),
}


@pytest.mark.filterwarnings('ignore:compiler attribute:UserWarning')
@pytest.mark.parametrize('spelling', RARE)
def test_rare_spellings_are_written_anew_and_mean_the_fit(tmp_path: Path, spelling: str) -> None:
    text, values = RARE[spelling]
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
    joint = '<joint name="j" springdamper="1 1"/>'
    save(tmp_path, f'<x>{BODY.replace("""<joint name="j"/>""", joint)}</x>', 'in/b.xml')
    text = mjcf(worldbody('<include file="b.xml"/>'))
    _, written = rewritten(tmp_path, text, {'joint/j/damping': 2.0})
    assert [path.name for path in written.path.parent.iterdir()] == ['model.xml']


def test_what_cannot_be_written_back_is_one_sentence_and_leaves_nothing_behind(
    tmp_path: Path,
) -> None:
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
