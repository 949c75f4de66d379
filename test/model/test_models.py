# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Compiled models: the user's file as it is, and with identified values."""

from __future__ import annotations

from pathlib import Path

import mujoco
import numpy as np
import pytest
from numpy.typing import NDArray

from builders.models import write_value
from sysid_ros.errors import ModelError, ParameterError
from sysid_ros.model.candidates import Writer, writable_model, writable_spec
from sysid_ros.model.loading import differing_fields, fitted_model, load_model, native_delay
from sysid_ros.model.targets import resolve

TIMESTEP = 0.01
ARM = """
<mujoco>
  <option timestep="0.01"/>
  <worldbody>
    <body name="upper"><joint name="j" armature="{armature}" springref="{springref}"/>
      <geom name="g" size=".1" mass="1"/>
      <body name="lower" pos="1 0 0"><joint name="k"/>
        <inertial pos="0 0 0" mass="{mass}" diaginertia="1 1 1"/></body></body>
  </worldbody>
  <tendon>
    <fixed name="t" stiffness="2"><joint joint="j" coef="3"/></fixed>
    <fixed name="given" stiffness="2" springlength=".7"><joint joint="j" coef="3"/></fixed>
  </tendon>
  <actuator>
    <motor name="a" joint="j" {actuator}/>
    <position name="p" joint="k" kp="{kp}" dampratio="1"/>
  </actuator>
</mujoco>
"""
EMPTY = '<mujoco/>'
DEFAULTS: dict[str, object] = {'armature': 0.1, 'springref': 0, 'mass': 2, 'actuator': '', 'kp': 5}


def save(folder: Path, name: str = 'arm.xml', **values: object) -> Path:
    path = folder / name
    path.write_text(ARM.format(**{**DEFAULTS, **values}))
    return path


def fit(path: Path, **values: float) -> mujoco.MjModel:
    """Apply values to targets whose slashes are written as double underscores."""
    model = load_model(path)
    pairs = [(key.replace('__', '/'), value) for key, value in values.items()]
    return fitted_model(
        path, [(target, value) for key, value in pairs for target in resolve(key, model)]
    )


@pytest.mark.parametrize(
    ('text', 'complaint'),
    [
        ('', 'Cannot read the model .*empty file'),
        ('<mujoco><worldbdy/></mujoco>', "unrecognized element, Element 'worldbdy', line 1"),
        (
            '<mujoco><worldbody><body><joint/></body></worldbody></mujoco>',
            'Cannot compile the model .* mass and inertia of moving bodies',
        ),
    ],
)
def test_mujocos_complaint_becomes_one_sentence(tmp_path: Path, text: str, complaint: str) -> None:
    path = tmp_path / 'broken.xml'
    path.write_text(text)
    with pytest.raises(ModelError, match=complaint) as caught:
        load_model(path)
    assert '\n' not in str(caught.value)
    assert str(caught.value).endswith('.')


def test_masses_update_what_is_derived_from_them(tmp_path: Path) -> None:
    fitted = fit(save(tmp_path), body__lower__mass=3.5, joint__j__armature=0.5)
    expected = load_model(save(tmp_path, mass=3.5, armature=0.5))
    differing = set(differing_fields(fitted, expected, 1e-12))
    # The recompiled damping ratio has another gain; the fitted one has the user's.
    assert differing - {'stat.meanmass', 'stat.meaninertia'} == {'actuator_biasprm'}


def test_springref_moves_the_rest_lengths_that_the_file_does_not_give(tmp_path: Path) -> None:
    fitted = fit(save(tmp_path), joint__j__springref=float(np.deg2rad(30)))
    expected = load_model(save(tmp_path, springref=30))
    assert differing_fields(fitted, expected, 1e-12) == ()
    np.testing.assert_allclose(fitted.tendon_lengthspring[:, 0], [np.pi / 2, 0.7])


def test_the_later_of_two_values_wins(tmp_path: Path) -> None:
    path = save(tmp_path)
    (target,) = resolve('joint/j/armature', load_model(path))
    assert fitted_model(path, [(target, 1.0), (target, 2.0)]).dof_armature[0] == 2.0


def test_targets_are_found_by_name_not_by_row(tmp_path: Path) -> None:
    other = (
        '<mujoco><worldbody><body><joint name="{}"/><geom size="1"/></body></worldbody></mujoco>'
    )
    same, unlike = (
        [(target, 1.0) for target in resolve('joint/*/armature', model)]
        for model in map(mujoco.MjModel.from_xml_string, (other.format('k'), other.format('kk')))
    )
    assert fitted_model(save(tmp_path), same).dof_armature.tolist() == [0.1, 1.0]
    with pytest.raises(ParameterError, match=r"No joint 'kk' .* nearest: k"):
        fitted_model(save(tmp_path), unlike)


@pytest.mark.parametrize('value', [float('nan'), float('inf')])
def test_a_value_that_is_not_finite_is_an_error(tmp_path: Path, value: float) -> None:
    with pytest.raises(ParameterError, match="finite value for 'joint/j/armature'"):
        fit(save(tmp_path), joint__j__armature=value)


def simulated(model: mujoco.MjModel, commands: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return what the motor applies in each step."""
    data = mujoco.MjData(model)
    forces = []
    for command in commands:
        data.ctrl[0] = command
        mujoco.mj_step(model, data)
        forces.append(data.actuator_force[0])
    return np.array(forces)


def shifted_means(commands: NDArray[np.float64], delay: float) -> NDArray[np.float64]:
    """Integrate held commands, shifted by a delay, over each step; before the first they are 0."""
    edges = np.arange(len(commands) + 1) * TIMESTEP
    integral = np.concatenate([[0.0], np.cumsum(commands) * TIMESTEP])
    return np.diff(np.interp(edges - delay, edges, integral)) / TIMESTEP


@pytest.mark.parametrize(
    ('delay', 'effective'),
    [
        # Below one time step it acts as none or as one step.
        *((0.0, 0.0), (0.004, 0.0), (0.006, 0.01)),
        *((delay, delay) for delay in (0.01, 0.0100001, 0.013, 0.02, 0.0371, 0.1, 0.1234)),
    ],
)
def test_a_native_delay_applies_the_mean_of_the_shifted_commands(
    tmp_path: Path, delay: float, effective: float
) -> None:
    commands = np.random.default_rng(0).normal(size=300)
    found = simulated(fit(save(tmp_path), actuator__a__delay=delay), commands)
    np.testing.assert_allclose(found, shifted_means(commands, effective), atol=1e-12)
    assert native_delay(delay, TIMESTEP).effective == effective


def test_a_longer_history_in_the_file_is_kept(tmp_path: Path) -> None:
    fitted = fit(save(tmp_path, actuator='nsample="40"'), actuator__a__delay=0.02)
    assert fitted.actuator_history[0].tolist() == [40, 1]


def test_a_field_that_differs_is_named(tmp_path: Path) -> None:
    a, b = load_model(save(tmp_path)), load_model(save(tmp_path))
    assert differing_fields(a, b, 0.0) == ()
    b.dof_damping[0] = 1e-8
    b.opt.timestep = 0.5
    b.body_mass[1] *= 1 + 1e-12
    assert differing_fields(a, b, 1e-9) == ('dof_damping', 'opt.timestep')
    assert differing_fields(a, b, 1e-7) == ('opt.timestep',)
    assert {'ngeom', 'geom_size'} <= set(differing_fields(a, mujoco.MjModel.from_xml_string(EMPTY)))


LIMBS = """
<mujoco>
  <default><joint range="-60 60"/></default>
  <worldbody>
    <body name="slab"><joint name="s" type="slide"/><joint name="free" type="hinge"/>
      <geom name="g" type="box" size=".3 .2 {size}" density="500"/></body>
    <body name="arm" pos="0 0 1"><joint name="a" axis="0 1 0"/>
      <geom type="capsule" size=".05" fromto="0 0 0 .5 0 0" mass="2"/>
      <body name="tip" pos=".5 0 0"><joint name="b" type="slide"/><geom size=".1" mass="1"/></body>
    </body>
    <site name="hook" pos="0 0 2"/>
  </worldbody>
  <tendon>
    <fixed name="t" stiffness="1"><joint joint="b" coef="2"/></fixed>
    <fixed name="zero" stiffness="1" springlength="0"><joint joint="b" coef="2"/></fixed>
  </tendon>
  <actuator>
    <position name="p" joint="a" kp="50" dampratio="1" inheritrange="1"/>
    <motor name="m" tendon="t"/>
  </actuator>
</mujoco>
"""


def limbs(size: float = 0.1) -> mujoco.MjSpec:
    return mujoco.MjSpec.from_string(LIMBS.format(size=size))


def test_a_simple_body_can_be_moved_out_of_its_frame_only_where_that_was_announced() -> None:
    spec = limbs()
    model = spec.copy().compile()
    (target,) = resolve('body/slab/ipos[1]', model)
    write_value(model, target, 0.05)
    with pytest.raises(mujoco.FatalError, match='simple'):
        mujoco.mj_setConst(model, mujoco.MjData(model))
    prepared = writable_model(spec, [target])
    write_value(prepared, target, 0.05)
    mujoco.mj_setConst(prepared, mujoco.MjData(prepared))
    assert prepared.body_ipos[target.row, 1] == 0.05
    assert spec.body('slab').simple


def test_bodies_stay_simple_unless_a_target_moves_or_couples_them() -> None:
    spec = limbs()
    model = spec.copy().compile()
    (mass,), (armature,) = (resolve(t, model) for t in ('body/slab/mass', 'actuator/m/armature'))
    assert differing_fields(writable_model(spec, [mass]), limbs().compile(), 0.0) == ()
    assert not writable_model(spec, [armature]).body_simple.any()


def test_inertia_that_comes_from_geoms_is_held_when_a_mass_is_written() -> None:
    model = limbs().compile()
    (mass,) = resolve('body/slab/mass', model)
    before = model.body_inertia[mass.row].copy()
    write_value(model, mass, 3.0)
    mujoco.mj_setConst(model, mujoco.MjData(model))
    np.testing.assert_array_equal(model.body_inertia[mass.row], before)


def test_a_damping_ratio_is_held_when_the_model_is_compiled_again() -> None:
    spec = limbs()
    nominal = spec.copy().compile()
    (size,) = resolve('geom/g/size[2]', nominal, spec=spec)
    held = writable_spec(spec, [size])
    kv = nominal.actuator_biasprm[0, 2]
    assert kv < 0
    held.body('tip').explicitinertial = True
    held.body('tip').mass, held.body('tip').inertia = 5.0, (0.1, 0.1, 0.1)
    held.body('tip').ipos = (0, 0, 0)
    assert held.compile().actuator_biasprm[0, 2] == kv
    assert spec.actuator('p').biasprm[2] == 1.0


def test_an_inherited_control_range_is_held_when_the_joint_range_is_written() -> None:
    model = limbs().compile()
    (high,) = resolve('joint/a/range[1]', model)
    before = model.actuator_ctrlrange.copy()
    write_value(model, high, 0.5)
    np.testing.assert_array_equal(model.actuator_ctrlrange, before)
    assert model.jnt_range[high.row, 1] == 0.5


def test_a_rest_length_that_the_file_gives_stays_even_where_it_is_the_length_of_the_pose() -> None:
    spec = limbs()
    model = spec.copy().compile()
    (target,) = resolve('joint/b/springref', model)
    for known, expected in ((spec, [[0.4, 0.4], [0, 0]]), (None, [[0.4, 0.4], [0.4, 0.4]])):
        copy = model.__copy__()
        Writer(copy, [(target, 0)], spec=known).write(copy, np.array([0.2]))
        np.testing.assert_allclose(copy.tendon_lengthspring, expected, atol=1e-15)


def test_the_fitted_model_holds_values_of_all_roles_that_a_model_has(tmp_path: Path) -> None:
    path = tmp_path / 'limbs.xml'
    path.write_text(LIMBS.format(size=0.1))
    spec, model = limbs(), load_model(path)
    paths = ('body/slab/ipos[0]', 'geom/g/size[2]', 'default/main/joint/range[1]')
    paths += ('body/arm/subtree_mass', 'body/arm/pos[2]', 'actuator/m/gain')
    paths += ('sequence/r/initial_qvel[0]',)
    targets = [target for one in paths for target in resolve(one, model, ['r'], spec)]
    fitted = fitted_model(path, [(target, 0.4) for target in targets])
    arm = model.body('arm').id
    assert fitted.body_ipos[targets[0].row, 0] == fitted.geom_size[0, 2] == 0.4
    assert fitted.jnt_range[:, 1].tolist() == [0.4] * 4
    np.testing.assert_allclose(fitted.body_mass[arm:], 0.4 * model.body_mass[arm:])
    assert fitted.body_pos[arm, 2] == 0.4


#: What MuJoCo 4.0.0 simulates wrongly.
SPARSE = '<mujoco><option jacobian="sparse"/></mujoco>'


@pytest.mark.parametrize(
    ('version', 'text', 'wrong'),
    [
        ('4.0.0', SPARSE, True),
        ('4.0.1', SPARSE, False),
        ('4.0.0', SPARSE.replace('sparse', 'dense'), False),
        ('4.0.0', SPARSE.replace('<option', '<option solver="CG"'), False),
    ],
)
def test_a_model_that_this_mujoco_simulates_wrongly_is_refused(
    version: str, text: str, wrong: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / 'model.xml'
    path.write_text(text)
    monkeypatch.setattr(mujoco, '__version__', version)
    if wrong:
        with pytest.raises(ModelError, match=r'MuJoCo 4\.0\.0 .* expected 4\.0\.1 or newer'):
            load_model(path)
    else:
        assert load_model(path).nv == 0
