# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Inertia of bodies as parameters: equal to writing the compiled model, however it is given."""

import itertools
from typing import Any

import mujoco
import numpy as np
import pytest

from sysid_ros.errors import ParameterError
from sysid_ros.model.inertia import body_from_theta, full_inertia
from sysid_ros.model.loading import differing_fields
from sysid_ros.toolbox.modifiers import (
    apply_body_inertia,
    apply_body_mass_ipos,
    apply_body_theta_inertia,
    body_inertia_param,
    theta_inertia_from_body,
)
from sysid_ros.toolbox.parameter import InertiaType, Parameter

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
def test_a_mass_written_to_the_spec_is_the_mass_written_to_the_model(infer: str, name: str):
    spec = _tree(infer)
    parameter = body_inertia_param(spec, spec.copy().compile(), name, InertiaType.Mass)
    parameter.value *= 1.7
    expected = _model_with(spec, name, mass=parameter.value[0])
    written = spec.copy()
    apply_body_inertia(written, name, parameter)
    assert _differing(written.compile(), expected) == []


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


@pytest.mark.parametrize('name', _BODIES)
def test_ten_numbers_written_to_the_spec_are_those_written_to_the_model(name: str):
    spec = _tree()
    parameter = body_inertia_param(spec, spec.copy().compile(), name, InertiaType.Pseudo)
    theta = parameter.sample(np.random.default_rng(2))
    mass, ipos, iquat, inertia = body_from_theta(theta)
    expected = _model_with(spec, name, mass=mass, ipos=ipos, iquat=iquat, inertia=inertia)
    written = spec.copy()
    parameter.update_from_vector(theta)
    parameter.apply_modifier(written)
    model = written.compile()
    assert _differing(model, expected) == []
    np.testing.assert_allclose(theta_inertia_from_body(written, name), theta, atol=1e-9)


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
        (lambda s, _: apply_body_mass_ipos(s, 'box', mass=[1.0, 2.0]), '1 finite value'),
        (lambda s, _: apply_body_mass_ipos(s, 'box', ipos=[1.0, np.nan, 2.0]), '3 finite value'),
        (lambda s, _: apply_body_theta_inertia(s, 'box', np.zeros(9)), '10 finite value'),
        (lambda s, m: body_inertia_param(s, m, 'box', mass_bound_mult=[1, 2, 3]), 'a lower and'),
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
