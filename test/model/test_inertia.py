# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Inertia as ten numbers: equal to MuJoCo's compiler, and back."""

import mujoco
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sysid_ros.errors import ParameterError
from sysid_ros.model.inertia import (
    body_from_theta,
    full_inertia,
    pi_from_inertial,
    pi_from_theta,
    principal_axes,
    pseudoinertia_from_pi,
    pseudoinertia_from_theta,
    theta_from_body,
    theta_from_pseudoinertia,
)

_BODY = """
<mujoco>
  <worldbody>
    <body name="link">
      <joint axis="0 0 1"/>
      <inertial pos="{pos}" mass="{mass}" fullinertia="{full}"/>
    </body>
  </worldbody>
</mujoco>
"""


def _thetas() -> st.SearchStrategy[np.ndarray]:
    log, metres = st.floats(-3.0, 1.5), st.floats(-1.0, 1.0)
    return st.tuples(*[log] * 4, *[metres] * 6).map(np.array)


def _compiled(mass: float, ipos: np.ndarray, full: np.ndarray) -> tuple:
    """Let the compiler split a full inertia, and read what it makes of it."""
    rows = ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2))
    xml = _BODY.format(
        pos=' '.join(repr(float(x)) for x in ipos),
        mass=repr(float(mass)),
        full=' '.join(repr(float(full[row])) for row in rows),
    )
    model = mujoco.MjModel.from_xml_string(xml)
    return model.body_mass[1], model.body_ipos[1], model.body_iquat[1], model.body_inertia[1]


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(_thetas())
def test_theta_comes_back_from_the_body_it_makes(theta: np.ndarray):
    np.testing.assert_allclose(theta_from_body(*body_from_theta(theta)), theta, atol=1e-8)


@settings(max_examples=60, deadline=None)
@given(_thetas())
def test_theta_comes_back_from_the_pseudo_inertia_it_makes(theta: np.ndarray):
    pseudo = pseudoinertia_from_theta(theta)
    np.testing.assert_allclose(theta_from_pseudoinertia(pseudo), theta, atol=1e-7)


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(_thetas())
def test_the_body_of_a_theta_is_the_one_that_the_compiler_makes(theta: np.ndarray):
    body = body_from_theta(theta)
    pi = pi_from_theta(theta)
    mass, com = pi[0], pi[1:4] / pi[0]
    about_com = pi[4:].reshape(3, 3) - mass * (com @ com * np.eye(3) - np.outer(com, com))
    about_com = 0.5 * (about_com + about_com.T)
    compiled_mass, ipos, iquat, inertia = _compiled(mass, com, about_com)
    scale = np.abs(pi[4:]).max()
    np.testing.assert_allclose(body.mass, compiled_mass, rtol=1e-12)
    np.testing.assert_allclose(body.ipos, ipos, atol=1e-12)
    np.testing.assert_allclose(body.inertia, inertia, atol=1e-9 * scale)
    np.testing.assert_allclose(
        full_inertia(body.iquat, body.inertia), full_inertia(iquat, inertia), atol=1e-9 * scale
    )


@pytest.mark.parametrize('seed', range(8))
def test_order_and_sign_of_the_principal_axes_are_the_compilers(seed: int):
    theta = np.random.default_rng(seed).uniform(-1.0, 1.0, 10)
    body = body_from_theta(theta)
    _, _, iquat, inertia = _compiled(body.mass, body.ipos, full_inertia(body.iquat, body.inertia))
    np.testing.assert_allclose(body.inertia, inertia, rtol=1e-12)
    np.testing.assert_allclose(body.iquat, iquat, atol=1e-9)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(_thetas())
def test_every_theta_is_an_inertia_that_some_mass_has(theta: np.ndarray):
    moments = body_from_theta(theta).inertia
    assert np.all(moments > 0)
    assert np.all(moments.sum() - 2 * moments > 0)
    # The compiler's routine leaves moments that are equal but for rounding in any order.
    assert np.all(np.diff(moments) <= 1e-12 * moments[0])


def test_pi_and_theta_are_those_of_the_reference():
    reference = pytest.importorskip('mujoco.sysid._src.model_modifier')
    thetas = np.random.default_rng(0).uniform(-1.0, 1.0, (20, 10))
    for theta in thetas:
        pi = pi_from_theta(theta)
        pseudo = pseudoinertia_from_pi(pi)
        np.testing.assert_allclose(pi, reference.pi_from_theta(theta), rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(pseudo, reference.pseudoinertia_from_pi(pi), rtol=1e-12)
        np.testing.assert_allclose(
            theta_from_pseudoinertia(pseudo), reference.theta_from_pseudoinertia(pseudo), rtol=1e-9
        )


def test_pi_of_a_body_is_pi_of_its_theta():
    theta = np.random.default_rng(3).uniform(-1.0, 1.0, (7, 10))
    np.testing.assert_allclose(pi_from_inertial(*body_from_theta(theta)), pi_from_theta(theta))


def test_many_bodies_at_once_equal_each_alone_to_the_bit():
    thetas = np.random.default_rng(1).uniform(-1.0, 1.0, (3, 5, 10))
    together = body_from_theta(thetas)
    back = theta_from_body(*together)
    pis = pi_from_theta(thetas)
    assert together.inertia.shape == (3, 5, 3)
    for index in np.ndindex(3, 5):
        alone = body_from_theta(thetas[index])
        for one, many in zip(alone, together, strict=True):
            np.testing.assert_array_equal(one, many[index])
        np.testing.assert_array_equal(theta_from_body(*alone), back[index])
        np.testing.assert_array_equal(pi_from_theta(thetas[index]), pis[index])


def test_a_centre_of_mass_far_away_costs_no_digits():
    theta = np.array([0.0, -5.0, -5.2, -4.8, 1e-3, 2e-3, -1e-3, 1e4, -2e4, 3e4])
    np.testing.assert_allclose(theta_from_body(*body_from_theta(theta)), theta, atol=1e-9)


def test_moments_in_another_order_and_a_longer_quaternion_are_the_same_body():
    swapped = np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]).T
    quat = np.empty(4)
    mujoco.mju_mat2Quat(quat, swapped.flatten())
    plain = theta_from_body(2.0, [0.1, 0.2, 0.3], [1, 0, 0, 0], [0.03, 0.02, 0.04])
    moments, _ = principal_axes(np.diag([0.03, 0.02, 0.04]))
    np.testing.assert_array_equal(moments, [0.04, 0.03, 0.02])
    rotated = swapped.T @ np.diag([0.03, 0.02, 0.04]) @ swapped
    turned = theta_from_body(2.0, [0.1, 0.2, 0.3], 7 * quat, np.diag(rotated))
    np.testing.assert_allclose(turned, plain, atol=1e-12)


@pytest.mark.parametrize(
    ('mass', 'inertia'),
    [(1.0, [0.01, 0.01, 0.02]), (1.0, [0.1, 0.01, 0.02]), (0.0, [1, 1, 1]), (1.0, [0, 0, 0])],
)
def test_moments_that_no_volume_has_are_refused(mass: float, inertia: list):
    with pytest.raises(ParameterError, match='any two exceed the third'):
        theta_from_body(mass, [0, 0, 0], [1, 0, 0, 0], inertia)


def test_numbers_that_are_no_pseudo_inertia_are_refused():
    with pytest.raises(ParameterError, match='positive definite'):
        theta_from_pseudoinertia(np.diag([1.0, -1.0, 1.0, 1.0]))
    with pytest.raises(ParameterError, match=r'length 10, found shape \(9,\)'):
        body_from_theta(np.zeros(9))
