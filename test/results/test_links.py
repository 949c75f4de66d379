# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What log-Cholesky numbers say of links, and what forces can tell of them, with intervals."""

from __future__ import annotations

from collections.abc import Sequence

import mujoco
import numpy as np
import pytest

from builders.bare_results import parameter
from sysid_ros.model.inertia import Inertial, body_from_theta, theta_from_body
from sysid_ros.results.links import base_parameters, links
from sysid_ros.results.result import BaseParameter, InferenceSummary, ParameterResult

THETA = theta_from_body(3.0, [0.01, -0.02, 0.15], [1, 0, 0, 0], [0.05, 0.04, 0.02])
#: So small that the first order is all.
DEVIATIONS = 0.1 * np.array([0.01, 0.02, 0.02, 0.02, 0.01, 0.01, 0.01, 0.02, 0.03, 0.04])
QUANTILE = 1.96


def parameters(
    names: Sequence[str], values: np.ndarray, deviations: np.ndarray
) -> list[ParameterResult]:
    return [
        parameter(name, float(value), float(QUANTILE * deviation))
        for name, value, deviation in zip(names, values, deviations, strict=True)
    ]


LINK = parameters([f'body/link/inertia[{index}]' for index in range(10)], THETA, DEVIATIONS)


def summary(covariance: np.ndarray) -> InferenceSummary:
    rows = tuple(map(tuple, covariance.tolist()))
    return InferenceSummary(
        method='', samples=1, effective_samples=1.0, covariance=rows, correlation=rows
    )


def test_intervals_are_those_of_draws_from_the_covariance() -> None:
    correlation = 0.5 * np.eye(10) + 0.5
    covariance = correlation * np.outer(DEVIATIONS, DEVIATIONS)
    (link,) = links(LINK, summary(covariance))
    draws = np.random.default_rng(0).multivariate_normal(THETA, covariance, 20_000)
    bodies = body_from_theta(draws)
    spread = np.std(np.column_stack([bodies.mass, bodies.ipos, bodies.inertia]), axis=0)
    values = [number.value for number in link.numbers]
    assert values == pytest.approx([3.0, 0.01, -0.02, 0.15, 0.05, 0.04, 0.02])
    halves = [(number.high - number.low) / 2 for number in link.numbers]
    np.testing.assert_allclose(halves, QUANTILE * spread, rtol=0.05)


def test_what_has_no_interval_leaves_the_rest_alone() -> None:
    covariance = np.diag(DEVIATIONS**2)
    covariance[8] = covariance[:, 8] = np.nan
    (link,) = links(LINK, summary(covariance))
    known = {number.name: np.isfinite(number.low) for number in link.numbers}
    assert known['mass']
    assert known['centre x']
    assert not known['centre y']


def test_links_of_which_only_some_numbers_were_fitted_are_left_out() -> None:
    assert links(LINK[:7], None) == ()


#: Two links that turn about parallel axes in a vertical plane, and one across.
ARM = mujoco.MjModel.from_xml_string("""
<mujoco>
  <worldbody>
    <body name="upper">
      <joint name="shoulder" axis="0 1 0" armature=".1"/>
      <inertial pos=".01 .02 .1" mass="2" diaginertia=".03 .025 .01"/>
      <body name="fore" pos="0 0 .5">
        <joint name="elbow" axis="0 1 0" armature=".05"/>
        <inertial pos=".03 -.02 .2" mass="1" diaginertia=".03 .025 .01"/>
        <body name="hand" pos="0 0 .4">
          <joint name="wrist" axis="1 0 0"/>
          <inertial pos="-.01 .02 .05" mass=".4" diaginertia=".003 .0025 .001"/>
        </body>
      </body>
    </body>
  </worldbody>
</mujoco>
""")
BODIES = ('upper', 'fore', 'hand')


def values_of(model: mujoco.MjModel) -> np.ndarray:
    """Return the armatures of shoulder and elbow, then ten numbers of each link."""
    rows = [model.body(name).id for name in BODIES]
    thetas = [theta_from_body(*Inertial.of_body(model, row)) for row in rows]
    return np.concatenate([model.dof_armature[:2], *thetas])


NAMES = (
    'joint/shoulder/armature',
    'joint/elbow/armature',
    *(f'body/{body}/inertia[{index}]' for body in BODIES for index in range(10)),
)


def bases(values: np.ndarray, covariance: np.ndarray | None = None) -> tuple[BaseParameter, ...]:
    covariance = 1e-8 * np.eye(len(values)) if covariance is None else covariance
    own = parameters(NAMES, values, np.sqrt(np.diag(covariance)))
    return base_parameters(ARM, own, summary(covariance))


def forces(values: np.ndarray) -> np.ndarray:
    """Return the forces of an arm with these numbers along a motion."""
    spec = mujoco.MjSpec()
    parent = spec.worldbody
    for row, name in enumerate(BODIES):
        own = ARM.body(name)
        parent = parent.add_body(name=name, pos=own.pos)
        inertial = body_from_theta(values[2 + 10 * row : 12 + 10 * row])
        parent.explicitinertial = True
        parent.mass, parent.ipos = float(inertial.mass), inertial.ipos
        parent.iquat, parent.inertia = inertial.iquat, inertial.inertia
        joint = ARM.joint(int(own.jntadr[0]))
        armature = values[row] if row < 2 else 0.0
        parent.add_joint(name=joint.name, axis=joint.axis, armature=armature)
    model = spec.compile()
    data, rng = mujoco.MjData(model), np.random.default_rng(3)
    found = []
    for _ in range(20):
        data.qpos[:], data.qvel[:], data.qacc[:] = rng.standard_normal((3, 3))
        mujoco.mj_inverse(model, data)
        found.append(data.qfrc_inverse.copy())
    return np.array(found)


def test_forces_know_no_more_and_no_less_than_the_base_parameters() -> None:
    values = values_of(ARM)
    change = np.eye(len(values)) * 1e-5
    slopes = [(forces(values + d) - forces(values - d)).ravel() / 2e-5 for d in change]
    _, singular, right = np.linalg.svd(np.array(slopes).T)
    rank = int(np.sum(singular > 1e-6 * singular[0]))
    blind = right[rank:]
    assert len(blind) == len(values) - rank > 10
    found = bases(values)
    alone = 'joint/elbow/armature'  # it is no sum, and a parameter already
    assert len(found) == rank - (alone not in {n for base in found for n in base.parameters})
    for direction in blind:
        moved = bases(values + 1e-6 * direction)
        for base, other in zip(found, moved, strict=True):
            assert other.value == pytest.approx(base.value, rel=1e-7, abs=1e-9)


def test_they_are_written_as_textbooks_do() -> None:
    found = {base.expression for base in bases(values_of(ARM))}
    # The hand turns about x: what its mass and its centre along x add is the forearm's.
    assert 'm·cx(fore, hand)' in found
    assert 'Iyy(hand) - Izz(hand)' in found or 'Izz(hand) - Iyy(hand)' in found
    (longest,) = [base for base in bases(values_of(ARM)) if base.terms[0] == 'armature(shoulder)']
    assert '+ 0.25·m(fore, hand)' in longest.terms


def test_intervals_of_sums_are_those_of_draws() -> None:
    values = values_of(ARM)
    rng = np.random.default_rng(0)
    root = 2e-4 * rng.standard_normal((len(values), len(values)))
    covariance = root @ root.T
    draws = rng.multivariate_normal(values, covariance, 400)
    spread = np.std([[base.value for base in bases(draw)] for draw in draws], axis=0)
    halves = [base.half_width for base in bases(values, covariance)]
    np.testing.assert_allclose(halves, QUANTILE * spread, rtol=0.15)


def test_what_has_no_interval_leaves_out_the_sums_that_it_is_part_of() -> None:
    values = values_of(ARM)
    covariance = 1e-8 * np.eye(len(values))
    covariance[0] = covariance[:, 0] = np.nan
    names = {name for base in bases(values, covariance) for name in base.parameters}
    assert 'joint/shoulder/armature' not in names
    assert 'body/hand/inertia[0]' in names


def test_a_sum_is_known_when_it_is_narrow_against_its_largest_term() -> None:
    one = bases(values_of(ARM))[0].model_copy(update={'value': 1.0, 'low': 0.6, 'high': 1.4})
    assert one.model_copy(update={'largest': 4.1}).known
    assert not one.model_copy(update={'largest': 3.9}).known
