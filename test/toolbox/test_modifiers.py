# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Specs with parameters: targets, servo gains, inertias, and models without visuals."""

from __future__ import annotations

import itertools
from typing import Any

import mujoco
import numpy as np
import pytest

from sysid_ros.errors import ModelError, ParameterError
from sysid_ros.model.candidates import Writer
from sysid_ros.model.inertia import body_from_theta, full_inertia
from sysid_ros.model.loading import differing_fields
from sysid_ros.model.targets import resolve
from sysid_ros.toolbox.modifiers import (
    apply_body_inertia,
    apply_body_mass_ipos,
    apply_dgain,
    apply_param_modifiers,
    apply_pdgain,
    apply_pgain,
    body_inertia_param,
    get_actuator_pd_gains,
    remove_visuals,
)
from sysid_ros.toolbox.parameter import InertiaType, Parameter, ParameterDict
from sysid_ros.toolbox.residual import build_residual_fn
from sysid_ros.toolbox.timeseries import TimeSeries
from sysid_ros.toolbox.trajectory import ModelSequences, create_initial_state, sysid_rollout

_ROBOT = """
<mujoco>
  <compiler inertiafromgeom="{infer}"/>
  <option integrator="implicitfast"/>
  <default>
    <default class="link"><joint damping=".6"/></default>
  </default>
  <asset>
    <texture name="paint" type="2d" builtin="checker" width="8" height="8"/>
    <material name="shiny" texture="paint"/>
    <mesh name="shell" vertex="0 0 0 .1 0 0 0 .2 0 0 0 .3"/>
    <mesh name="bumper" vertex="0 0 0 .2 0 0 0 .2 0 0 0 .2"/>
  </asset>
  <worldbody>
    <geom name="floor" type="plane" size="2 2 .1" pos="0 0 -1" material="shiny"/>
    <body name="upper">
      <joint name="shoulder" axis="0 1 0" class="link" armature=".1"/>
      <inertial pos=".1 0 0" mass="2" diaginertia=".03 .02 .04"/>
      <geom name="bone" size=".1"/>
      <geom name="skin" type="mesh" mesh="shell" contype="0" conaffinity="0" material="shiny"/>
      <body name="lower" pos="0 0 -.5">
        <joint name="elbow" axis="1 0 0" class="link" damping=".2"/>
        <geom name="shell" type="mesh" mesh="shell" contype="0" conaffinity="0"/>
        <geom name="foot" type="mesh" mesh="bumper" pos="0 0 -.2"/>
        <site name="tip" pos="0 0 -.4" material="shiny"/>
        <body name="tool" pos="0 0 -.3">
          <joint name="wrist" axis="0 0 1" stiffness="1" armature=".05"/>
          <geom name="marker" type="box" size=".05 .02 .03" contype="0" conaffinity="0"/>
        </body>
      </body>
    </body>
  </worldbody>
  <actuator>
    <position name="servo" joint="shoulder" kp="10" kv="2"/>
    <position name="ratio" joint="elbow" kp="10" dampratio="1"/>
    <position name="slow" joint="elbow" kp="10" timeconst=".1"/>
    <velocity name="speed" joint="wrist" kv="3"/>
    <motor name="motor" joint="wrist" gear="2"/>
  </actuator>
  {more}
</mujoco>
"""


def _robot(infer: str = 'auto', more: str = '') -> mujoco.MjSpec:
    return mujoco.MjSpec.from_string(_ROBOT.format(infer=infer, more=more))


def _run(model: mujoco.MjModel) -> np.ndarray:
    """Simulate half a second from a bent pose; return positions, velocities and sensors."""
    data = mujoco.MjData(model)
    data.qpos[:] = 0.5
    data.ctrl[:] = 0.3
    for _ in range(250):
        mujoco.mj_step(model, data)
    assert data.warning[mujoco.mjtWarning.mjWARN_BADQACC].number == 0
    return np.concatenate((data.qpos, data.qvel, data.sensordata))


def _geoms(spec: mujoco.MjSpec) -> set[str]:
    return {geom.name for geom in spec.geoms}


def _set_armature(spec: mujoco.MjSpec, parameter: Parameter) -> None:
    spec.joint('elbow').armature = parameter.value[0]


def test_gains_are_set_on_the_given_spec():
    spec = _robot()
    apply_pdgain(spec, 'servo', [0.0, 0.0])
    assert apply_pgain(spec, 'servo', 74) is spec
    apply_dgain(spec, 'servo', np.array([1.2]))
    apply_pdgain(spec, 'slow', np.array([30.0, 4.0]))
    model = spec.compile()
    assert get_actuator_pd_gains(model, 'servo') == (74.0, 1.2)
    assert get_actuator_pd_gains(model, 'slow') == (30.0, 4.0)
    assert model.actuator('servo').gainprm[0] == 74.0


@pytest.mark.parametrize(
    ('call', 'message'),
    [
        (
            lambda spec: apply_pgain(spec, 'servo', [1.0, 2.0]),
            r'1 number\(s\)',
        ),
        (lambda spec: apply_pdgain(spec, 'servo', [1.0, np.nan]), r'2 number\(s\)'),
        (lambda spec: apply_pdgain(spec, 'servo', [1.0, -1.0]), 'of 0 or more, found -1'),
        (lambda spec: apply_pgain(spec, 'motor', 1.0), "'motor' is not a position actuator"),
        (lambda spec: apply_dgain(spec, 'serva', 1.0), "No actuator 'serva'; nearest: servo"),
        (lambda spec: get_actuator_pd_gains(spec.copy().compile(), 'speed'), "'speed' is not a po"),
    ],
)
def test_gains_that_are_none_are_refused_and_nothing_is_changed(call: Any, message: str):
    spec = _robot()
    text = spec.to_xml()
    with pytest.raises(ParameterError, match=message):
        call(spec)
    assert spec.to_xml() == text


@pytest.mark.slow
@pytest.mark.parametrize(
    ('path', 'value'),
    [
        ('joint/elbow/armature', 0.4),
        ('joint/*/damping', 0.7),
        ('body/upper/mass', 3.0),
        ('body/lower/mass', 3.0),
        ('body/upper/mass_ipos_scaled', [3.0, 0.01, 0.02, 0.03]),
        ('body/lower/ipos[1]', 0.1),
        ('body/tool/inertia', [-0.2, -3, -2.5, -2, 0.01, 0.02, -0.01, 0.03, 0.0, 0.1]),
        ('body/lower/inertia[0]', 0.1),
        ('body/lower/subtree_mass', 1.5),
        ('geom/foot/friction[0]', 0.3),
        ('actuator/servo/kp', 33.0),
        ('actuator/servo/kv', 3.0),
        ('actuator/ratio/kp', 33.0),
        ('actuator/ratio/kv', 3.0),
        ('actuator/speed/kv', 7.0),
        ('actuator/slow/dynprm[0]', 0.2),
        ('option/gravity[2]', -3.0),
        ('default/link/joint/damping', 0.9),
    ],
)
def test_a_target_in_the_spec_compiles_to_the_target_in_the_model(path: str, value: object):
    spec = _robot()
    text = spec.to_xml()
    params = ParameterDict({'p': Parameter('p', value, -1e3, 1e3, target=path)})
    model = apply_param_modifiers(params, spec)
    assert spec.to_xml() == text
    fresh = spec.copy()
    for body in fresh.bodies:
        body.simple = False
    expected = fresh.compile()
    targets = resolve(path, expected, (), fresh)
    size = params.size
    writer = Writer(expected, [(target, k % size) for k, target in enumerate(targets)], spec=fresh)
    writer.write(expected, params.as_vector())
    mujoco.mj_setConst(expected, mujoco.MjData(expected))
    assert _differing(model, expected) == []
    assert differing_fields(model, spec.copy().compile()) != ()


def test_what_a_spec_does_not_have_is_left_out():
    params = ParameterDict(
        {
            'payload': Parameter('payload', 1.0, 0, 2, target='body/payload/mass'),
            'start': Parameter('start', [1.0], 0, 2, target='sequence/run/initial_qvel[0]'),
            'late': Parameter('late', 0.01, 0, 0.1, target='actuator/servo/delay'),
        }
    )
    spec = _robot()
    assert differing_fields(apply_param_modifiers(params, spec), spec.compile(), 0.0) == ()


def test_values_that_do_not_compile_are_said_in_one_sentence():
    params = ParameterDict({'m': Parameter('m', -1.0, -2, 9, target='body/upper/mass')})
    with pytest.raises(ModelError, match='Cannot compile the model with the values') as caught:
        apply_param_modifiers(params, _robot())
    assert '\n' not in str(caught.value)


@pytest.mark.parametrize('infer', ['auto', 'true'])
def test_without_visuals_the_robot_moves_as_with_them(infer: str):
    spec = _robot(infer)
    text = spec.to_xml()
    plain = remove_visuals(spec)
    assert spec.to_xml() == text
    assert _geoms(plain) == {'floor', 'bone', 'foot'}
    assert [mesh.name for mesh in plain.meshes] == ['bumper']
    assert not plain.textures
    assert not plain.materials
    before, after = spec.compile(), plain.compile()
    differing = differing_fields(before, after, 0.0)
    shape = ('geom', 'body_geom', 'bvh', 'mesh', 'oct', 'n', 'stat.center', 'stat.extent')
    look = ('mat', 'tex', 'site_matid', 'stat.meansize')
    sleep = ('dof_length',)
    assert [name for name in differing if not name.startswith(shape + look + sleep)] == []
    np.testing.assert_array_equal(_run(before), _run(after))


def _in_water(spec: mujoco.MjSpec) -> None:
    spec.option.density = 1000.0
    spec.geom('marker').fluid_ellipsoid = 1.0


def _asleep(spec: mujoco.MjSpec) -> None:
    spec.option.enableflags |= mujoco.mjtEnableBit.mjENBL_SLEEP


@pytest.mark.parametrize(
    ('more', 'change', 'kept'),
    [
        ('<contact><pair geom1="marker" geom2="floor"/></contact>', None, {'marker'}),
        ('<sensor><framepos objtype="geom" objname="shell"/></sensor>', None, {'shell'}),
        ('<sensor><rangefinder site="tip"/></sensor>', None, {'skin', 'shell', 'marker'}),
        ('', _asleep, {'skin', 'shell', 'marker'}),
        ('', _in_water, {'marker'}),
    ],
    ids=['contact', 'sensor', 'rangefinder', 'sleep', 'fluid'],
)
def test_visuals_that_something_depends_on_stay(more: str, change: Any, kept: set[str]):
    spec = _robot(more=more)
    if change:
        change(spec)
    plain = remove_visuals(spec)
    assert kept <= _geoms(plain)
    np.testing.assert_array_equal(_run(spec.compile()), _run(plain.compile()))


@pytest.mark.parametrize(
    ('path', 'start', 'truth'),
    [('body/tool/subtree_mass', 1.5, 2.0), ('body/tool/ipos[1]', 0, 0.1)],
)
def test_beside_a_modifier_a_target_is_written_once(path: str, start: float, truth: float):
    spec = _robot(
        more='<sensor><jointpos name="q" joint="elbow"/><jointvel name="v" joint="wrist"/></sensor>'
    )
    textures = []

    def modifier(spec: mujoco.MjSpec, parameter: Parameter) -> None:
        textures.append(len(spec.textures))
        _set_armature(spec, parameter)

    params = ParameterDict(
        {
            'armature': Parameter('armature', 0.3, 0, 1, modifier=modifier),
            'target': Parameter('target', start, -5, 5, target=path),
        }
    )
    at_truth = params.copy()
    at_truth.update_from_vector([0.5, truth])
    model = apply_param_modifiers(at_truth, spec)
    times, start = np.arange(50) * model.opt.timestep, create_initial_state(model, np.full(3, 0.5))
    control = TimeSeries.from_control_names(times, np.zeros((50, model.nu)), model)
    fall = sysid_rollout(model, mujoco.MjData(model), control, start)[0].sensordata
    run = ModelSequences('robot', spec, 'fall', start, control, fall)
    residuals, _, _ = build_residual_fn(models_sequences=[run])([0.5, truth], params)
    assert np.abs(np.concatenate(residuals)).max() < 1e-6
    assert textures[-1] == 0  # candidates are compiled without visuals, which takes much less time


_TREE = """
<mujoco>
  <compiler inertiafromgeom="{infer}" {more}/>
  <asset><mesh name="wedge" vertex="0 0 0 .1 0 0 0 .2 0 0 0 .3"/></asset>
  <worldbody>
    <body name="given">
      <joint axis="0 0 1"/>
      <inertial pos=".1 0 0" mass="2" diaginertia=".03 .02 .04"/>
      <geom name="skin" size=".1"/>
      <body name="full" pos="0 0 .5">
        <joint axis="0 1 0"/>
        <inertial pos="0 .1 0" mass="1.5" fullinertia=".03 .02 .04 .001 .002 -.001"/>
        <geom name="rind" size=".1"/>
        <body name="turned" pos="0 0 .5">
          <joint axis="0 1 0"/>
          <inertial pos="0 0 .1" euler="10 20 30" mass="1" diaginertia=".03 .02 .04"/>
          <geom name="peel" size=".1"/>
          <body name="box" pos="0 0 .5">
            <joint axis="1 0 0"/>
            <geom type="box" size=".1 .2 .3" pos=".1 .2 .3" euler="10 20 30"/>
            <body name="meshed" pos="0 0 .5"><freejoint align="false"/>
              <geom type="mesh" mesh="wedge"/>
            </body>
          </body>
        </body>
      </body>
    </body>
  </worldbody>
</mujoco>
""".replace('<freejoint align="false"/>', '<joint axis="1 1 0"/>')
_BODIES = ('given', 'full', 'turned', 'box', 'meshed')


def _tree(infer: str = 'auto', more: str = '') -> mujoco.MjSpec:
    return mujoco.MjSpec.from_string(_TREE.format(infer=infer, more=more))


def _model_with(spec: mujoco.MjSpec, name: str, **fields: object) -> mujoco.MjModel:
    """Write fields of one body into the compiled model instead."""
    made = spec.copy()
    made.body(name).simple = False
    model = made.compile()
    for field, value in fields.items():
        getattr(model, f'body_{field}')[model.body(name).id] = value
    mujoco.mj_setConst(model, mujoco.MjData(model))
    return model


def _differing(model: mujoco.MjModel, other: mujoco.MjModel) -> list[str]:
    """Name the numbers that differ, but for statistics and shortcuts that the compiler derives."""
    derived = ('stat.', 'body_simple', 'body_sameframe', 'dof_simplenum')
    return [name for name in differing_fields(model, other) if not name.startswith(derived)]


def _dynamics(model: mujoco.MjModel) -> np.ndarray:
    """Return accelerations in a state where every inertia counts."""
    data = mujoco.MjData(model)
    data.qpos[:] = np.linspace(-1.0, 1.0, model.nq)
    data.qvel[:] = np.linspace(2.0, -1.0, model.nv)
    mujoco.mj_forward(model, data)
    return data.qacc.copy()


@pytest.mark.slow
@pytest.mark.parametrize('kind', list(InertiaType))
def test_a_parameter_at_its_start_changes_nothing(kind: InertiaType):
    for infer, name, scaled in itertools.product(['auto', 'true'], _BODIES, [False, True]):
        spec = _tree(infer)
        model = spec.copy().compile()
        parameter = body_inertia_param(spec, model, name, kind, scale_rot_inertia=scaled)
        written = spec.copy()
        parameter.apply_modifier(written)
        again = written.compile()
        np.testing.assert_allclose(again.body_mass, model.body_mass, rtol=1e-12)
        np.testing.assert_allclose(again.body_ipos, model.body_ipos, atol=1e-12)
        np.testing.assert_allclose(
            full_inertia(again.body_iquat, again.body_inertia),
            full_inertia(model.body_iquat, model.body_inertia),
            atol=1e-12,
        )
        np.testing.assert_allclose(_dynamics(again), _dynamics(model), rtol=1e-9)


@pytest.mark.parametrize('infer', ['auto', 'true'])
@pytest.mark.parametrize('name', _BODIES)
def test_what_is_written_to_the_spec_is_what_is_written_to_the_model(infer: str, name: str):
    spec = _tree(infer)
    for kind in (InertiaType.Mass, InertiaType.Pseudo):
        parameter = body_inertia_param(spec, spec.copy().compile(), name, kind)
        parameter.value = parameter.sample(np.random.default_rng(2))
        fields = {'mass': parameter.value[0]}
        if kind is InertiaType.Pseudo:
            fields = body_from_theta(parameter.as_vector())._asdict()
        written = spec.copy()
        apply_body_inertia(written, name, parameter)
        assert _differing(written.compile(), _model_with(spec, name, **fields)) == []


@pytest.mark.parametrize('name', _BODIES)
def test_with_scale_rot_inertia_the_moments_follow_the_mass(name: str):
    spec = _tree()
    model = spec.copy().compile()
    row = model.body(name).id
    parameter = body_inertia_param(spec, model, name, InertiaType.MassIpos, scale_rot_inertia=True)
    parameter.value = [2 * model.body_mass[row], 0.01, 0.02, 0.03]
    for _ in range(2):  # applying it again gives the same
        parameter.apply_modifier(spec)
    again = spec.compile()
    assert again.body_mass[row] == pytest.approx(2 * model.body_mass[row])
    np.testing.assert_allclose(again.body_ipos[row], [0.01, 0.02, 0.03])
    np.testing.assert_allclose(again.body_inertia[row], 2 * model.body_inertia[row], rtol=1e-12)
    np.testing.assert_allclose(again.body_iquat[row], model.body_iquat[row], atol=1e-12)


def test_start_and_bounds_are_the_references():
    reference = pytest.importorskip('mujoco.sysid._src.model_modifier')
    kinds = pytest.importorskip('mujoco.sysid._src.parameter').InertiaType
    for name in ('given', 'box'):
        for kind in InertiaType:
            spec = _tree()
            model = spec.copy().compile()
            ours = body_inertia_param(spec, model, name, kind)
            theirs = reference.body_inertia_param(spec.copy(), model, name, kinds[kind.name])
            np.testing.assert_allclose(ours.value, theirs.value, atol=1e-12)
            np.testing.assert_allclose(ours.get_bounds(), theirs.get_bounds(), atol=1e-12)


@pytest.mark.parametrize(
    ('more', 'message'),
    [
        ('settotalmass="10"', 'settotalmass rescales all masses'),
        ('fusestatic="true"', 'fusestatic adds that of its static children'),
    ],
)
@pytest.mark.filterwarnings('ignore:compiler attribute')
def test_a_compiler_that_would_change_what_is_written_is_refused(more: str, message: str):
    spec = _tree(more=more)
    spec.body('box').add_body(name='lid').add_geom(size=[0.1, 0, 0])
    with pytest.raises(ParameterError, match=message):
        apply_body_mass_ipos(spec, 'box', mass=1.0)


@pytest.mark.parametrize(
    ('call', 'message'),
    [
        (lambda s, _: apply_body_mass_ipos(s, 'box', mass=[1.0, 2.0]), r'1 number\(s\)'),
        (lambda s, _: apply_body_mass_ipos(s, 'box', ipos=[1.0, np.nan, 2.0]), r'3 number\(s\)'),
        (lambda s, m: body_inertia_param(s, m, 'box', mass_bound_mult=[1, 2, 3]), r'2 number\(s\)'),
        (lambda s, _: apply_body_inertia(s, 'box', Parameter('p', 1, 0, 2)), "'p' has no inertia"),
        (lambda s, m: body_inertia_param(s, m, 'box', 'Mass'), 'Unknown inertia type'),
        (lambda s, m: body_inertia_param(s, m, 'bax'), "No body 'bax'"),
        (lambda s, _: apply_body_mass_ipos(s, 'world', mass=1.0), "No body 'world'"),
    ],
)
def test_bad_values_are_refused(call: Any, message: str):
    spec = _tree()
    with pytest.raises(ParameterError, match=message):
        call(spec, spec.copy().compile())


def test_a_flat_body_has_no_ten_numbers_but_a_mass():
    spec = _tree()
    spec.body('given').inertia = [0.01, 0.01, 0.02]
    model = spec.compile()
    with pytest.raises(ParameterError, match=r"body 'given' has no θ: .* a volume"):
        body_inertia_param(spec, model, 'given', InertiaType.Pseudo)
    assert body_inertia_param(spec, model, 'given', InertiaType.Mass).value[0] == 2.0
