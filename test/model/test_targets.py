# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What a parameter writes."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

from builders.models import write_value
from sysid_ros.errors import ParameterError
from sysid_ros.model.candidates import Writer
from sysid_ros.model.kinds import Role
from sysid_ros.model.loading import differing_fields
from sysid_ros.model.targets import resolve, write_spec
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


def test_units_follow_the_type_of_the_joint() -> None:
    model = compiled()
    units = [target.unit for target in resolve('joint/*/damping', model)]
    assert units == ['N·m·s/rad', 'N·s/m']


@pytest.mark.parametrize(
    ('path', 'complaint'),
    [
        ('elbow', "Expected a target such as joint/elbow/armature .* got 'elbow'"),
        ('joint/armature', 'Expected a target such as'),
        ('option/x/gravity', 'Expected a target such as'),
        ('joint/elbow/Armature', 'Unknown attribute .Armature.*nearest: armature'),
        ('joints/elbow/armature', "Unknown element 'joints' .* nearest: joint"),
        ('joint/elbow/armatur', "Unknown attribute 'armatur' .* nearest: armature"),
        ('joint/elbw/armature', "No joint matches 'elbw' .* nearest: elbow"),
        ('joint/x*/armature', r"No joint matches 'x\*'"),
        ('geom/foot/friction[3]', 'index 3, expected 0 to 2'),
        ('joint/elbow/armature[1]', 'index 1, expected 0 to 0'),
        ('actuator/late/kp', "actuator 'late' is not a position actuator"),
        ('actuator/late/kv', "actuator 'late' is not an actuator with an affine bias"),
        ('joint/root/damping', "joint 'root' is not a hinge, slide or ball joint"),
        ('joint/root/springref', "joint 'root' is not a hinge or slide joint"),
    ],
)
def test_a_target_that_does_not_fit_is_one_sentence(path: str, complaint: str) -> None:
    with pytest.raises(ParameterError, match=complaint) as caught:
        resolve(path, compiled())
    message = str(caught.value)
    assert message.endswith('.')
    assert '\n' not in message


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
    'path',
    [
        'sensor/enc/noise',
        'sensor/enc/cutoff',
        'geom/g/rgba',
        'option/timestep',
        'option/tolerance',
        'joint/j/springdamper',
        'body/box/iquat',
        'tendon/t/width',
    ],
)
def test_what_moves_nothing_is_no_target(path: str) -> None:
    with pytest.raises(ParameterError, match='Unknown attribute'):
        resolve(path, body())


def test_an_unknown_attribute_names_those_of_the_table_and_of_the_spec() -> None:
    with pytest.raises(ParameterError, match=r'nearest: .*cranklength'):
        resolve('actuator/a/cranklenght', body())
    with pytest.raises(ParameterError, match=r'nearest: .*forcerange'):
        resolve('actuator/a/forcerang', body())


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
        ('option/gravity', [0]),
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


def test_a_quaternion_is_normalised() -> None:
    model = compiled()
    targets = resolve('body/upper/quat', model)
    writer = Writer(model, [(target, index) for index, target in enumerate(targets)])
    writer.write(model, np.array([2.0, 0.0, 0.0, 2.0]))
    np.testing.assert_allclose(model.body_quat[targets[0].row], [0.5**0.5, 0, 0, 0.5**0.5])


def test_the_pose_of_a_body_that_floats_is_its_start_not_a_target() -> None:
    with pytest.raises(ParameterError, match="body 'box' is not a body without a free joint"):
        resolve('body/box/pos', body())


def test_values_of_other_roles_write_no_number() -> None:
    model = body()
    paths = ('actuator/a/gain', 'sensor/enc/bias', 'geom/g/size[1]', 'sequence/r/initial_qvel[0]')
    targets = [target for path in paths for target in resolve(path, model, ['r'])]
    writer = Writer(model, [(target, 0) for target in targets])
    assert writer.fields == frozenset()
    assert writer.assignments(np.ones((3, 1))) == []
    assert writer.constant
