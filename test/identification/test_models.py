# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Compiled models: the user's file as it is, and with identified values."""

from __future__ import annotations

from typing import TYPE_CHECKING

import mujoco
import numpy as np
import pytest

from sysid_ros.errors import ModelError, ParameterError
from sysid_ros.identification.models import (
    differing_fields,
    fitted_model,
    load_model,
    native_delay,
)
from sysid_ros.identification.targets import resolve

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

TIMESTEP = 0.01
ARM = """
<mujoco>
  <option timestep="0.01"/>
  <statistic {statistic}/>
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
DEFAULTS: dict[str, object] = {
    'statistic': '',
    'armature': 0.1,
    'springref': 0,
    'mass': 2,
    'actuator': '',
    'kp': 5,
}


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


def test_a_missing_file_names_its_nearest_sibling(tmp_path: Path) -> None:
    save(tmp_path)
    with pytest.raises(ModelError, match=r"No model file '.*amr.xml'; nearest: arm.xml\.$"):
        load_model(tmp_path / 'amr.xml')


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


def test_without_values_the_fitted_model_is_the_users(tmp_path: Path) -> None:
    path = save(tmp_path)
    assert differing_fields(fitted_model(path, []), load_model(path), 0.0) == ()


@pytest.mark.filterwarnings('ignore:statistic attribute:UserWarning')
@pytest.mark.parametrize('statistic', ['', 'meanmass="7"', 'meaninertia="7" extent="3"'])
def test_masses_update_the_statistics_that_the_file_does_not_set(
    tmp_path: Path, statistic: str
) -> None:
    fitted = fit(save(tmp_path, statistic=statistic), body__lower__mass=3.5, joint__j__armature=0.5)
    expected = load_model(save(tmp_path, statistic=statistic, mass=3.5, armature=0.5))
    # The recompiled damping ratio has another gain; the fitted one has the user's.
    assert set(differing_fields(fitted, expected, 1e-12)) == {'actuator_biasprm'}


def test_springref_moves_the_rest_lengths_that_the_file_does_not_give(tmp_path: Path) -> None:
    fitted = fit(save(tmp_path), joint__j__springref=float(np.deg2rad(30)))
    expected = load_model(save(tmp_path, springref=30))
    assert differing_fields(fitted, expected, 1e-12) == ()
    np.testing.assert_allclose(fitted.tendon_lengthspring[:, 0], [np.pi / 2, 0.7])


def test_a_damping_ratio_keeps_the_gain_that_it_compiled_to(tmp_path: Path) -> None:
    path = save(tmp_path)
    fitted = fit(path, body__lower__mass=3.5, actuator__p__kp=7)
    assert fitted.actuator_biasprm[1, 2] == load_model(path).actuator_biasprm[1, 2]
    assert fitted.actuator_biasprm[1, 1] == -7


def test_the_later_of_two_values_wins(tmp_path: Path) -> None:
    path = save(tmp_path)
    (target,) = resolve('joint/j/armature', load_model(path))
    assert fitted_model(path, [(target, 1.0), (target, 2.0)]).dof_armature[0] == 2.0


def test_targets_are_found_by_name_not_by_row(tmp_path: Path) -> None:
    path = save(tmp_path)
    other = mujoco.MjModel.from_xml_string(
        '<mujoco><worldbody><body><joint name="k"/><geom size="1"/></body></worldbody></mujoco>'
    )
    fitted = fitted_model(path, [(target, 1.0) for target in resolve('joint/*/armature', other)])
    assert fitted.dof_armature.tolist() == [0.1, 1.0]


def test_a_target_of_another_model_is_an_error(tmp_path: Path) -> None:
    other = mujoco.MjModel.from_xml_string(
        '<mujoco><worldbody><body><joint name="kk"/><geom size="1"/></body></worldbody></mujoco>'
    )
    with pytest.raises(ParameterError, match=r"No joint 'kk' .* nearest: k"):
        fitted_model(save(tmp_path), [(resolve('joint/*/armature', other)[0], 1.0)])


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


@pytest.mark.parametrize('delay', [0.01, 0.0100001, 0.013, 0.02, 0.0371, 0.1, 0.1234])
def test_a_native_delay_applies_the_mean_of_the_shifted_commands(
    tmp_path: Path, delay: float
) -> None:
    commands = np.random.default_rng(0).normal(size=300)
    found = simulated(fit(save(tmp_path), actuator__a__delay=delay), commands)
    np.testing.assert_allclose(found, shifted_means(commands, delay), atol=1e-10)


@pytest.mark.parametrize(('delay', 'effective'), [(0.0, 0.0), (0.004, 0.0), (0.006, 0.01)])
def test_a_delay_below_one_timestep_acts_as_none_or_as_one_step(
    tmp_path: Path, delay: float, effective: float
) -> None:
    commands = np.random.default_rng(0).normal(size=50)
    found = simulated(fit(save(tmp_path), actuator__a__delay=delay), commands)
    np.testing.assert_allclose(found, shifted_means(commands, effective), atol=1e-12)
    assert native_delay(delay, TIMESTEP).effective == effective


def test_a_delay_of_zero_switches_off_the_files_own(tmp_path: Path) -> None:
    own = save(tmp_path, 'own.xml', actuator='delay=".05" nsample="6" interp="cubic"')
    fitted = fit(own, actuator__a__delay=0.0)
    assert differing_fields(fitted, load_model(save(tmp_path))) == ()


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


def test_a_model_of_another_size_differs_in_its_sizes() -> None:
    a = mujoco.MjModel.from_xml_string('<mujoco/>')
    b = mujoco.MjModel.from_xml_string('<mujoco><worldbody><geom size="1"/></worldbody></mujoco>')
    assert {'ngeom', 'geom_size'} <= set(differing_fields(a, b))
