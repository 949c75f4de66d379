# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Targets, those of default classes, and the unknowns that are made of them."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

from builders.models import write_value
from sysid_ros.errors import ParameterError
from sysid_ros.model.candidates import Writer
from sysid_ros.model.kinds import Role
from sysid_ros.model.loading import differing_fields
from sysid_ros.model.targets import (
    Target,
    Unknown,
    check_distinct,
    make_unknowns,
    resolve,
    write_spec,
)
from sysid_ros.signals import Trajectory

ARM = """
<mujoco>
  <option gravity="0 0 -9.81"/>
  <worldbody>
    <geom size="1"/>
    <body name="base">
      <freejoint name="root"/>
      <geom size=".1" mass="1"/>
      <body name="upper" pos=".1 0 0">
        <inertial pos="0 0 .1" mass="1" diaginertia="1 1 1"/>
        <joint name="elbow" axis="0 1 0" armature="0.1" damping="0.2 2 3"
               frictionloss="0.3" stiffness="0.4 1 2" springref="0"/>
        <geom name="foot" size=".1" friction="1 0.5 .01"/>
        <body name="lower" pos=".1 0 0">
          <joint name="slider[2]" type="slide"/>
          <geom size=".1" mass="1"/>
        </body>
      </body>
    </body>
  </worldbody>
  <actuator>
    <pid name="two_controls" joint="elbow" kp="1" kv="2"/>
    <position name="servo" joint="elbow" kp="5" kv="1" gear="2"/>
    <velocity name="spin" joint="elbow" kv="3"/>
    <general name="free" joint="elbow" dyntype="filter" biastype="affine"
             gainprm="1 0.5" biasprm="0 1" dynprm="0.1"/>
    <motor name="late" joint="elbow" delay="{delay}" nsample="3"/>
  </actuator>
</mujoco>
"""


def compiled(delay: float = 0.0) -> mujoco.MjModel:
    return mujoco.MjModel.from_xml_string(ARM.format(delay=delay))


def test_a_delay_is_read_but_not_written_into_the_model() -> None:
    model, nominal = compiled(delay=0.004), compiled(delay=0.004)
    (target,) = resolve('actuator/late/delay', model)
    assert target.read(model) == 0.004
    assert not target.in_model
    write_value(model, target, 0.006)
    assert differing_fields(model, nominal) == ()


def test_a_ball_joint_gets_the_same_value_in_its_three_degrees_of_freedom() -> None:
    model = mujoco.MjModel.from_xml_string(
        '<mujoco><worldbody><body><joint name="j" type="ball"/><geom size="1"/>'
        '<body><joint name="k"/><geom size="1"/></body></body></worldbody></mujoco>'
    )
    (target,) = resolve('joint/j/damping', model)
    write_value(model, target, 0.5)
    assert model.dof_damping.tolist() == [0.5, 0.5, 0.5, 0.0]


@pytest.mark.parametrize(
    ('pattern', 'names'),
    [
        ('joint/*/armature', ['elbow', 'slider[2]']),
        ('joint/*/springref', ['elbow', 'slider[2]']),
        ('body/*/mass', ['base', 'upper', 'lower']),
        ('actuator/*/kp', ['two_controls', 'servo']),
        ('actuator/*/delay', ['two_controls', 'servo', 'spin', 'free', 'late']),
    ],
)
def test_wildcards_find_what_fits_in_model_order(pattern: str, names: list[str]) -> None:
    assert [target.name for target in resolve(pattern, compiled())] == names


BODY = """
<mujoco>
  <compiler angle="degree"/>
  <worldbody>
    <geom name="floor" type="plane" size="1 1 1"/>
    <body name="box" pos="0 0 1">
      <freejoint name="root"/>
      <geom name="g" type="box" size=".1 {size} .3" density="{density}" pos="0 0 {height}"/>
      <body name="arm">
        <joint name="j" axis="{axis} 1 0" ref="{ref}"/>
        <joint name="k" type="slide"/>
        <geom name="h" type="capsule" size=".02 .1"/>
        <site name="s" size="{radius}"/>
      </body>
    </body>
  </worldbody>
  <actuator>
    <general name="a" joint="j" dyntype="filter" gainprm="2"/>
  </actuator>
  <sensor><accelerometer name="imu" site="s"/><jointpos name="enc" joint="j"/></sensor>
</mujoco>
"""
NUMBERS: dict[str, float] = {
    'size': 0.2,
    'density': 700,
    'height': 0.05,
    'axis': 0.1,
    'ref': 5,
    'radius': 0.01,
}
#: Target, keyword in the text, the text's unit for one SI unit, and a value in SI units.
COMPILED = [
    ('geom/g/size[1]', 'size', 1.0, 0.25),
    ('geom/g/density', 'density', 1.0, 500.0),
    ('geom/g/pos[2]', 'height', 1.0, 0.1),
    ('joint/j/axis[0]', 'axis', 1.0, 0.4),
    ('joint/j/ref', 'ref', 180 / np.pi, 0.3),
    ('site/s/size[0]', 'radius', 1.0, 0.03),
]


def body_spec(**numbers: float) -> mujoco.MjSpec:
    return mujoco.MjSpec.from_string(BODY.format(**{**NUMBERS, **numbers}))


def body() -> mujoco.MjModel:
    return body_spec().compile()


@pytest.mark.parametrize(('path', 'keyword', 'unit', 'value'), COMPILED)
def test_what_the_compiler_reads_equals_editing_the_file(
    path: str, keyword: str, unit: float, value: float
) -> None:
    spec = body_spec()
    (target,) = resolve(path, body(), spec=spec)
    assert target.role is Role.SPEC
    assert target.read(body()) == pytest.approx(NUMBERS[keyword] / unit, rel=1e-14)
    copy = spec.copy()
    write_spec(copy, target, value)
    expected = body_spec(**{keyword: value * unit}).compile()
    assert differing_fields(copy.compile(), expected, 1e-14) == ()
    assert differing_fields(spec.compile(), body(), 0.0) == ()


def test_what_only_the_spec_tells_needs_an_initial_value_without_it() -> None:
    (target,) = resolve('geom/g/size[1]', body())
    with pytest.raises(ParameterError, match=r'gives no value for .* expected an initial value'):
        target.read(body())


def test_a_geom_without_a_mass_of_its_own_has_no_value() -> None:
    (target,) = resolve('geom/g/mass', body(), spec=body_spec())
    assert target.start is None


@pytest.mark.parametrize(
    ('pattern', 'indices'),
    [
        ('body/box/inertia', list(range(10))),
        ('body/box/mass_ipos', [0, 1, 2, 3]),
        ('body/box/ipos[1]', [1]),
        ('actuator/a/gear', [0]),
        ('actuator/a/gear[*]', [0, 1, 2, 3, 4, 5]),
        ('actuator/a/gear[1:3]', [1, 2]),
        ('actuator/a/gear[4:]', [4, 5]),
        ('joint/j/damping[0]', [None]),
        ('joint/j/damping[*]', [None, 1, 2]),
        ('sensor/imu/gain', [None]),
        ('sensor/imu/gain[2]', [2]),
        ('sensor/imu/bias', [0, 1, 2]),
        ('sensor/enc/bias', [None]),
        ('sensor/imu/delay', [None]),
        ('option/gravity', [0, 1, 2]),
        ('option/o_friction', [0]),
    ],
)
def test_an_index_may_be_left_out_a_range_or_all(pattern: str, indices: list[int | None]) -> None:
    assert [target.index for target in resolve(pattern, body())] == indices


@pytest.mark.parametrize(
    ('signal', 'role'), [('actuator/a', Role.COMMAND), ('sensor/enc', Role.SENSOR)]
)
@pytest.mark.parametrize(('attribute', 'neutral'), [('gain', 1.0), ('bias', 0.0), ('delay', 0.0)])
def test_signals_have_roles_and_neutral_values(
    signal: str, role: Role, attribute: str, neutral: float
) -> None:
    (target,) = resolve(f'{signal}/{attribute}', body())
    assert (target.role, target.read(body())) == (role, neutral)


def run() -> Trajectory:
    qpos = np.arange(9.0)
    return Trajectory('run_1', 0, qpos, np.arange(8.0), (), (), initial_act=np.array([0.5]))


def test_the_start_of_a_sequence_is_found_by_the_name_of_the_sequence() -> None:
    found = resolve('sequence/run_*/initial_qvel', body(), ['run_1', 'other', 'run_2'])
    assert [(target.name, target.index) for target in found] == [
        (name, index) for name in ('run_1', 'run_2') for index in range(8)
    ]
    assert {target.role for target in found} == {Role.SEQUENCE}


def test_a_start_is_read_from_the_sequence_or_else_from_the_model() -> None:
    for sequences, value in (([run()], 7.0), (['run_1'], np.deg2rad(5))):
        (target,) = resolve('sequence/run_1/initial_qpos[7]', body(), sequences)
        assert target.read(body()) == pytest.approx(value)
    (target,) = resolve('sequence/run_1/initial_act', body(), [run()])
    assert target.read(body()) == 0.5


def test_units_of_a_start_are_those_of_its_joints() -> None:
    units = [target.unit for target in resolve('sequence/r/initial_qpos', body(), ['r'])]
    assert units == ['m', 'm', 'm', '1', '1', '1', '1', 'rad', 'm']
    units = [target.unit for target in resolve('sequence/r/initial_qvel', body(), ['r'])]
    assert units == ['m/s', 'm/s', 'm/s', 'rad/s', 'rad/s', 'rad/s', 'rad/s', 'm/s']


def test_a_component_has_its_own_unit_and_bounds() -> None:
    mass, x, *_ = resolve('body/box/mass_ipos', body())
    assert (mass.unit, x.unit) == ('kg', 'm')
    assert mass.bounds[0] > 0 > x.bounds[0]
    linear, square, _ = resolve('joint/k/damping[*]', body())
    assert (linear.unit, square.unit) == ('N·s/m', 'N·s²/m²')
    assert (linear.bounds[0], square.bounds[0]) == (0.0, -np.inf)


def test_kp_and_kv_of_one_actuator_combine() -> None:
    model = compiled()
    (kp,), (kv,) = resolve('actuator/servo/kp', model), resolve('actuator/servo/kv', model)
    Writer(model, [(kv, 0), (kp, 1)]).write(model, np.array([2.5, 40.0]))
    row = kp.row
    assert model.actuator_gainprm[row, 0] == 40
    assert model.actuator_biasprm[row, :3].tolist() == [0, -40, -2.5]


def test_components_of_an_inertia_that_no_value_names_stay() -> None:
    model = compiled()
    targets = resolve('body/upper/inertia', model)
    nominal = [target.read(model) for target in targets]
    write_value(model, targets[1], nominal[1] + 0.2)
    nominal[1] += 0.2
    np.testing.assert_allclose([target.read(model) for target in targets], nominal, atol=1e-12)
    assert model.body_mass[targets[0].row] == pytest.approx(1.0, rel=1e-14)


def test_factors_of_nested_subtrees_multiply() -> None:
    model, nominal = compiled(), compiled()
    (outer,) = resolve('body/base/subtree_mass', model)
    (inner,) = resolve('body/upper/subtree_mass', model)
    Writer(model, [(outer, 0), (inner, 1)]).write(model, np.array([2.0, 3.0]))
    np.testing.assert_allclose(model.body_mass[1:] / nominal.body_mass[1:], [2, 6, 6], rtol=1e-15)
    np.testing.assert_allclose(model.body_inertia[1:], nominal.body_inertia[1:] * [[2], [6], [6]])
    assert (outer.read(model), outer.bounds[0] > 0) == (1.0, True)


def test_an_orientation_is_turned_about_its_own_axes() -> None:
    model, nominal = compiled(), compiled()
    targets = resolve('body/upper/quat', model)
    assert [(target.unit, target.read(model)) for target in targets] == [('rad', 0.0)] * 3
    row, turn = targets[0].row, np.array([0.3, -0.4, 0.2])
    nominal.body_quat[row] = model.body_quat[row] = [0.6, 0.0, 0.8, 0.0]
    writer = Writer(model, [(target, index) for index, target in enumerate(targets)])
    writer.write(model, turn)
    one, found, wanted = np.zeros(4), np.zeros(4), np.zeros(3)
    mujoco.mju_negQuat(one, nominal.body_quat[row])
    mujoco.mju_mulQuat(found, one, model.body_quat[row])
    mujoco.mju_quat2Vel(wanted, found, 1.0)
    np.testing.assert_allclose(wanted, turn, rtol=1e-12)
    writer.write(model, np.zeros(3))
    np.testing.assert_allclose(model.body_quat[row], nominal.body_quat[row], rtol=1e-15)


def test_values_of_other_roles_write_no_number() -> None:
    model = body()
    paths = ('actuator/a/gain', 'sensor/enc/bias', 'geom/g/size[1]', 'sequence/r/initial_qvel[0]')
    targets = [target for path in paths for target in resolve(path, model, ['r'])]
    writer = Writer(model, [(target, 0) for target in targets])
    assert writer.fields == frozenset()
    assert writer.assignments(np.ones((3, 1))) == []
    assert writer.constant


LEGS = """
<mujoco>
  <compiler angle="degree"/>
  <default>
    <joint springref="{springref}"/>
    <default class="leg">
      <joint damping="{damping} .1"/>
      <geom friction="{friction} .01" density="{density}"/>
      <position kp="{kp}"/>
      <default class="knee"><joint armature=".2" stiffness="{stiffness}"/></default>
    </default>
    <default class="unused"><geom solref=".01 1"/></default>
  </default>
  <worldbody>
    <body name="a" childclass="leg">
      <joint name="hip"/><geom size=".1" pos=".1 0 0"/>
      <body name="b" pos="0 0 .3">
        <joint name="knee" class="knee"/><joint name="own" axis="1 0 0" damping="7"/>
        <geom name="shin" size=".1"/>
        <body pos="0 0 .3">
          <joint type="slide" class="knee" springref="0"/><geom size=".1" class="main"/>
        </body>
      </body>
    </body>
  </worldbody>
  <actuator>
    <position name="p" class="leg" joint="hip"/>
    <position name="q" class="leg" joint="knee" kp="9"/>
  </actuator>
</mujoco>
"""
VALUES: dict[str, float] = {
    'springref': 10,
    'damping': 0.5,
    'friction': 0.7,
    'density': 900,
    'kp': 4,
    'stiffness': 2,
}


def spec_with(**values: float) -> mujoco.MjSpec:
    return mujoco.MjSpec.from_string(LEGS.format(**{**VALUES, **values}))


SPEC = spec_with()
MODEL = SPEC.copy().compile()


def only(path: str) -> Target:
    (target,) = resolve(path, MODEL, spec=SPEC)
    return target


@pytest.mark.parametrize(
    ('path', 'keyword', 'unit'),
    [
        ('default/main/joint/springref', 'springref', 180 / np.pi),
        ('default/leg/joint/damping', 'damping', 1.0),
        ('default/leg/geom/friction[0]', 'friction', 1.0),
        ('default/leg/actuator/kp', 'kp', 1.0),
        ('default/knee/joint/stiffness', 'stiffness', 1.0),
    ],
)
def test_a_class_written_as_numbers_equals_editing_the_class(path: str, keyword: str, unit: float):
    target = only(path)
    assert target.role is Role.FIELD
    model = SPEC.copy().compile()
    Writer(model, [(target, 0)], spec=SPEC).write(model, np.array([0.3]))
    mujoco.mj_setConst(model, mujoco.MjData(model))
    expected = spec_with(**{keyword: 0.3 * unit}).compile()
    assert differing_fields(model, expected, 1e-14) == ()
    assert target.read(model) == pytest.approx(0.3, rel=1e-14)


def test_a_class_that_the_compiler_reads_equals_editing_the_class() -> None:
    target = only('default/leg/geom/density')
    assert target.role is Role.SPEC
    assert target.read(MODEL) == 900
    copy = SPEC.copy()
    write_spec(copy, target, 500.0)
    assert differing_fields(copy.compile(), spec_with(density=500).compile(), 0.0) == ()


def test_classes_below_inherit_and_elements_with_a_value_of_their_own_do_not_follow() -> None:
    assert only('default/leg/joint/damping').rows == (0, 1, 3)
    assert only('default/knee/joint/armature').rows == (1, 3)
    assert only('default/leg/actuator/kp').rows == (0,)


def test_the_spec_is_not_changed() -> None:
    before = SPEC.to_xml()
    resolve('default/leg/joint/damping', MODEL, spec=SPEC)
    assert SPEC.to_xml() == before


def test_wildcards_find_every_class_that_something_follows() -> None:
    targets = resolve('default/*/joint/armature', MODEL, spec=SPEC)
    assert [target.name for target in targets] == ['main', 'leg', 'knee']


#: Which model, and whether its spec is there; what is no target of it, and the complaint.
REFUSED = [
    ('arm', 'elbow', "Expected a target such as joint/elbow/armature .* got 'elbow'"),
    ('arm', 'joint/armature', 'Expected a target such as'),
    ('arm', 'option/x/gravity', 'Expected a target such as'),
    ('arm', 'joint/elbow/Armature', 'Unknown attribute .Armature.*nearest: armature'),
    ('arm', 'joints/elbow/armature', "Unknown element 'joints' .* nearest: joint"),
    ('arm', 'joint/elbow/armatur', "Unknown attribute 'armatur' .* nearest: armature"),
    ('arm', 'joint/elbw/armature', "No joint matches 'elbw' .* nearest: elbow"),
    ('arm', 'joint/x*/armature', r"No joint matches 'x\*'"),
    ('arm', 'geom/foot/friction[3]', 'index 3, expected 0 to 2'),
    ('arm', 'joint/elbow/armature[1]', 'index 1, expected 0 to 0'),
    ('arm', 'actuator/late/kp', "actuator 'late' is not a position actuator"),
    ('arm', 'actuator/late/kv', "actuator 'late' is not an actuator with an affine bias"),
    ('arm', 'joint/root/damping', "joint 'root' is not a hinge, slide or ball joint"),
    ('arm', 'joint/root/springref', "joint 'root' is not a hinge or slide joint"),
    ('body', 'body/box/pos', "body 'box' is not a body without a free joint"),
    ('body', 'actuator/a/cranklenght', r'Unknown attribute.*nearest: .*cranklength'),
    ('body', 'actuator/a/forcerang', r'Unknown attribute.*nearest: .*forcerange'),
    # They move nothing.
    ('body', 'sensor/enc/noise', 'Unknown attribute'),
    ('body', 'sensor/enc/cutoff', 'Unknown attribute'),
    ('body', 'geom/g/rgba', 'Unknown attribute'),
    ('body', 'option/timestep', 'Unknown attribute'),
    ('body', 'option/tolerance', 'Unknown attribute'),
    ('body', 'joint/j/springdamper', 'Unknown attribute'),
    ('body', 'body/box/iquat', 'Unknown attribute'),
    ('body', 'tendon/t/width', 'Unknown attribute'),
    ('classes', 'default/leg/joint/dampin', "Unknown attribute 'dampin' .* nearest: damping"),
    ('classes', 'default/lag/joint/damping', "No default class matches 'lag' .* nearest: leg"),
    ('classes', 'default/joint/damping', 'such as default/CLASS/joint/damping'),
    ('classes', 'default/unused/geom/solref', "No geom takes solref from .* class 'unused'"),
    ('classes', 'default/leg/body/mass', 'Default classes hold no attributes of a body'),
    ('classes', 'default/leg/equality/data', "classes hold no attribute 'data' of equality"),
    ('classes', 'default/leg/actuator/bias', 'is no attribute of a default class'),
    ('no spec', 'default/leg/joint/damping', 'needs the spec that the model was compiled from'),
]


@pytest.mark.parametrize(('known', 'path', 'complaint'), REFUSED)
def test_a_path_that_is_no_target_is_one_sentence(known: str, path: str, complaint: str) -> None:
    model = {'arm': compiled(), 'body': body()}.get(known, MODEL)
    with pytest.raises(ParameterError, match=complaint) as caught:
        resolve(path, model, spec=SPEC if known == 'classes' else None)
    assert str(caught.value).endswith('.')
    assert '\n' not in str(caught.value)


TWO = mujoco.MjModel.from_xml_string("""
<mujoco>
  <worldbody>
    <body name="upper"><joint name="j1" armature=".1" damping="2"/>
      <geom name="g" size=".1" mass="1"/>
      <body name="lower" pos="1 0 0"><joint name="j2" armature=".3" type="slide"/>
        <geom size=".1" mass="3"/></body></body>
  </worldbody>
  <actuator><motor name="a" joint="j1" delay=".004" nsample="4"/>
    <position name="servo" joint="j1" kp="5" kv="1"/></actuator>
</mujoco>
""")


def names(parameters: tuple[Unknown, ...]) -> list[str]:
    return [parameter.name for parameter in parameters]


@pytest.mark.parametrize(
    ('pattern', 'name', 'expected'),
    [
        ('joint/j1/armature', None, ['joint/j1/armature']),
        ('joint/j1/armature', 'rotor', ['rotor']),
        ('joint/*/armature', 'rotor', ['rotor/j1', 'rotor/j2']),
        ('body/u*/mass', 'm', ['m']),
        ('body/u*/mass', None, ['body/upper/mass']),
        ('body/upper/ipos', None, [f'body/upper/ipos[{index}]' for index in range(3)]),
        ('body/upper/mass_ipos', 'link', [f'link[{index}]' for index in range(4)]),
        (
            'body/*/ipos[0:2]',
            'com',
            ['com/upper[0]', 'com/upper[1]', 'com/lower[0]', 'com/lower[1]'],
        ),
    ],
)
def test_names_are_paths_or_begin_with_the_name_that_is_given(
    pattern: str, name: str | None, expected: list[str]
) -> None:
    assert names(make_unknowns(pattern, TWO, name=name)) == expected


def test_a_pattern_gives_one_parameter_per_match() -> None:
    parameters = make_unknowns('joint/*/armature', TWO)
    assert names(parameters) == ['joint/j1/armature', 'joint/j2/armature']
    assert [parameter.nominal for parameter in parameters] == [0.1, 0.3]
    assert [parameter.unit for parameter in parameters] == ['kg·m²', 'kg']


def test_a_shared_pattern_is_one_parameter_that_starts_at_the_mean() -> None:
    (parameter,) = make_unknowns('body/*/mass', TWO, shared=True)
    assert parameter.name == 'body/*/mass'
    assert [target.path for target in parameter.targets] == ['body/upper/mass', 'body/lower/mass']
    assert parameter.nominal == 2.0
    assert names(make_unknowns('body/*/mass', TWO, shared=True, name='m')) == ['m']


def test_values_of_different_units_cannot_be_shared() -> None:
    with pytest.raises(ParameterError, match=r'cannot share a value of different units: kg·m², kg'):
        make_unknowns('joint/*/armature', TWO, shared=True)


def test_the_start_is_the_models_value_unless_given() -> None:
    assert make_unknowns('joint/j1/damping', TWO)[0].nominal == 2.0
    assert make_unknowns('actuator/a/delay', TWO)[0].nominal == 0.004
    assert make_unknowns('joint/j1/damping', TWO, initial=3)[0].nominal == 3.0


def test_without_bounds_physics_sets_them() -> None:
    (damping,) = make_unknowns('joint/j1/damping', TWO)
    assert (damping.min_value, damping.max_value) == (0.0, 200.0)
    (gravity,) = make_unknowns('option/gravity[2]', TWO)
    assert (gravity.min_value, gravity.max_value) == pytest.approx((-981.0, 981.0))
    (mass,) = make_unknowns('body/upper/mass', TWO)
    assert mass.min_value == 1e-6


@pytest.mark.parametrize(
    ('bounds', 'initial', 'complaint'),
    [
        ((3, 1), None, r"The bounds of parameter 'joint/j1/damping' are reversed: .* \[3, 1\]\.$"),
        ((2, 2), None, r'are reversed: expected lower < upper, got \[2, 2\]\.$'),
        ((-1, 4), None, r'The bounds \[-1, 4\] .* leave what is physical: \[0, inf\]\.$'),
        ((3, 4), None, r"starts at 2 \(the model's value\), outside its bounds \[3, 4\]\.$"),
        ((3, 4), 5, r'starts at 5 \(initial\), outside its bounds \[3, 4\]\.$'),
        (None, -1, r'starts at -1 \(initial\), outside its bounds \[0, 100\]\.$'),
        ((0, float('inf')), None, r'needs finite bounds and start, got \[0, inf\] and 2\.0\.$'),
        ((float('nan'), 4), None, r'needs finite bounds and start'),
        (None, float('nan'), r'needs finite bounds and start'),
    ],
)
def test_bounds_that_cannot_be_kept_are_one_sentence(
    bounds: tuple[float, float], initial: float, complaint: str
) -> None:
    with pytest.raises(ParameterError, match=complaint):
        make_unknowns('joint/j1/damping', TWO, bounds=bounds, initial=initial)


@pytest.mark.parametrize(
    ('paths', 'given', 'complaint'),
    [
        (('j1', 'j2'), ('x', 'x'), "Two parameters are named 'x'"),
        (('j1', '*'), ('x', 'y'), "'joint/j1/damping' is written by two .* 'x' and 'y/j1'"),
    ],
)
def test_two_parameters_share_neither_name_nor_target(
    paths: tuple[str, str], given: tuple[str, str], complaint: str
) -> None:
    parameters = [
        parameter
        for path, name in zip(paths, given, strict=True)
        for parameter in make_unknowns(f'joint/{path}/damping', TWO, name=name)
    ]
    with pytest.raises(ParameterError, match=complaint):
        check_distinct(parameters)


def test_a_shared_vector_stays_a_vector() -> None:
    found = make_unknowns('body/*/mass_ipos', TWO, shared=True)
    assert names(found) == [f'body/*/mass_ipos[{index}]' for index in range(4)]
    assert [len(parameter.targets) for parameter in found] == [2, 2, 2, 2]
    assert found[0].nominal == 2.0
    ranged = make_unknowns('body/*/ipos[0:2]', TWO, shared=True)
    assert names(ranged) == ['body/*/ipos[0]', 'body/*/ipos[1]']


def test_values_with_a_log_scale_are_positive() -> None:
    (parameter,) = make_unknowns('joint/j1/armature', TWO, scale='log')
    assert (parameter.scale, parameter.nominal) == ('log', 0.1)
    assert parameter.min_value == pytest.approx(0.001)
    assert parameter.max_value == pytest.approx(10.0)
    (parameter,) = make_unknowns('joint/j1/armature', TWO, scale='log', bounds=(0.0, 1.0))
    assert parameter.min_value == 0
    expected = r'log scale: expected bounds of 0 or more and a start above 0, got '
    with pytest.raises(ParameterError, match=expected + r'\[0, 1\] and 0\.$'):
        make_unknowns('joint/j1/armature', TWO, scale='log', bounds=(0.0, 1.0), initial=0.0)
    with pytest.raises(ParameterError, match=expected + r'\[-1, 1\] and 0.1\.$'):
        make_unknowns('body/upper/pos[0]', TWO, scale='log', bounds=(-1.0, 1.0), initial=0.1)


def test_a_prior_needs_a_spread() -> None:
    (parameter,) = make_unknowns('body/upper/mass', TWO, prior=(1.1, 0.2))
    assert parameter.prior == (1.1, 0.2)
    for around in make_unknowns('body/*/mass', TWO, prior=(None, 0.2)):
        assert around.prior == (around.nominal, 0.2)
    (moved,) = make_unknowns('body/upper/mass', TWO, initial=0.7, prior=(None, 0.2))
    assert moved.prior == (0.7, 0.2)
    with pytest.raises(ParameterError, match='standard deviation above 0, got 1 and 0'):
        make_unknowns('body/upper/mass', TWO, prior=(1.0, 0.0))


@pytest.mark.parametrize(
    ('path', 'bounds'),
    [
        ('body/upper/subtree_mass', (0.1, 10.0)),
        ('actuator/a/gain', (0.1, 10.0)),
        ('body/upper/ipos[0]', (-1.0, 1.0)),
        ('geom/g/solref', (0.0002, 2.0)),
        ('geom/g/solimp', (0.0, 1.0)),
        ('joint/j1/damping[1]', (-100.0, 100.0)),
    ],
)
def test_open_kinds_have_bounds_of_their_own(path: str, bounds: tuple[float, float]) -> None:
    (parameter,) = make_unknowns(path, TWO)
    assert (parameter.min_value, parameter.max_value) == pytest.approx(bounds)


@pytest.mark.parametrize(
    ('one', 'other'),
    [
        ('actuator/servo/kp', 'actuator/servo/gainprm[0]'),
        ('body/upper/mass', 'body/upper/inertia[0]'),
        ('body/lower/mass', 'body/upper/subtree_mass'),
        ('body/upper/ipos[2]', 'body/upper/mass_ipos[3]'),
    ],
)
def test_two_kinds_cannot_write_the_same_number(one: str, other: str) -> None:
    found = [parameter for path in (one, other) for parameter in make_unknowns(path, TWO)]
    check_distinct(found)
    with pytest.raises(ParameterError, match='write the same number of the model, as '):
        check_distinct(found, TWO)


def test_parts_of_one_inertia_and_nested_factors_may_write_the_same_numbers() -> None:
    paths = ('body/lower/inertia', 'body/*/subtree_mass', 'actuator/servo/kp', 'actuator/servo/kv')
    check_distinct(make_unknowns(paths[0], TWO), TWO)
    check_distinct([p for path in paths[1:] for p in make_unknowns(path, TWO)], TWO)
