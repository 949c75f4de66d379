# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A fit on disk: complete or not there, readable without pickle, with the identified model."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest
import scipy.optimize
from numpy.typing import NDArray

from sysid_ros.toolbox.parameter import Parameter, ParameterDict
from sysid_ros.toolbox.report import save_results
from sysid_ros.toolbox.timeseries import TimeSeries
from sysid_ros.toolbox.trajectory import ModelSequences, create_initial_state

CART = """
<mujoco>
  <worldbody>
    <body name="cart">
      <inertial pos="0 0 0" mass="2" diaginertia="1 1 1"/>
      <joint name="slide" type="slide" axis="1 0 0" armature=".5"/>
    </body>
  </worldbody>
  <actuator><motor name="motor" joint="slide"/></actuator>
  <sensor><jointpos name="position" joint="slide"/></sensor>
</mujoco>
"""
INITIAL, FOUND = 3.5, 2.25
JACOBIAN = np.array([[1.0], [2.0], [2.0]])
RESIDUAL = np.array([0.2, -0.1, 0.0])

Fit = tuple[list[ModelSequences], ParameterDict, ParameterDict, Any, Any]


def _residual(x: NDArray[np.float64], _: ParameterDict) -> tuple[list[Any], list[Any], list[Any]]:
    return [RESIDUAL + JACOBIAN[:, 0] * (x[0] - FOUND)], [], []


def _params(mass: float) -> ParameterDict:
    def write(spec: mujoco.MjSpec, parameter: Parameter) -> None:
        spec.body('cart').mass = parameter.value[0]

    params = ParameterDict()
    params.add(Parameter('mass', 2.0, 0.1, 9.0, modifier=write, unit='kg'))
    params['mass'].value = mass
    return params


@pytest.fixture
def fit() -> Fit:
    """Two models of one name, parameters before and after, a solver's result."""
    groups = []
    times = np.arange(3) * 0.002
    for name in ('cart/one', 'cart/one'):
        spec = mujoco.MjSpec.from_string(CART)
        model = spec.compile()
        control = TimeSeries.from_control_names(times, np.zeros((3, 1)), model)
        measured = TimeSeries.from_names(times, np.zeros((3, 1)), model)
        start = create_initial_state(model, np.zeros(1))
        groups.append(ModelSequences(name, spec, 'still', start, control, measured))
    result = scipy.optimize.OptimizeResult(
        x=np.array([FOUND]),
        jac=JACOBIAN,
        grad=JACOBIAN.T @ RESIDUAL,
        fun=RESIDUAL,
        cost=0.025,
        success=True,
        status=2,
        message='The cost hardly changes.',
        nfev=7,
    )
    return groups, _params(INITIAL), _params(FOUND), result, _residual


def test_the_summary_tells_outcome_interval_and_verdict(fit: Fit, tmp_path: Path):
    save_results(tmp_path / 'fit', *fit)
    found = json.loads((tmp_path / 'fit' / 'results.json').read_text('utf-8'))
    solver = {key: fit[3][key] for key in ('status', 'message', 'success', 'cost', 'nfev')}
    assert found['solver'] == solver
    [mass] = found['parameters']
    told = (mass['name'], mass['unit'], mass['initial'], mass['value'], mass['verdict'])
    assert told == ('mass', 'kg', INITIAL, FOUND, 'identified')
    # s² = .05 / 2, JᵀJ = 9, Student's t at 2 degrees of freedom
    assert mass['half_width'] == pytest.approx(4.302653 * np.sqrt(0.025 / 9), rel=1e-6)


def test_the_pickles_need_only_numpy_and_scipy_and_are_those_of_the_toolbox(
    fit: Fit, tmp_path: Path
):
    save_results(tmp_path / 'fit', *fit)
    result, confidence = (
        pickle.loads((tmp_path / 'fit' / name).read_bytes())  # noqa: S301 (our own)
        for name in ('results.pkl', 'confidence.pkl')
    )
    assert np.array_equal(result.jac, JACOBIAN)
    assert confidence['cov'][0, 0] == pytest.approx(0.025 / 9)
    assert b'sysid_ros' not in (tmp_path / 'fit' / 'results.pkl').read_bytes()
    before = ParameterDict.load_from_disk(tmp_path / 'fit' / 'params_x_0.yaml')
    after = ParameterDict.load_from_disk(tmp_path / 'fit' / 'params_x_hat.yaml')
    assert (before['mass'].value[0], after['mass'].value[0]) == (INITIAL, FOUND)


def test_each_model_is_written_with_the_identified_value_and_no_spec_is_changed(
    fit: Fit, tmp_path: Path
):
    groups = fit[0]

    save_results(tmp_path / 'fit', *fit)
    names = sorted(path.name for path in (tmp_path / 'fit').glob('*.xml'))
    assert names == ['cart_one.xml', 'cart_one_2.xml']
    for name in names:
        model = mujoco.MjModel.from_xml_path(str(tmp_path / 'fit' / name))
        assert model.body('cart').mass[0] == FOUND
        assert model.dof_armature[0] == 0.5
    assert groups[0].spec.body('cart').mass == 2.0


def test_nothing_is_written_when_a_model_cannot_be(fit: Fit, tmp_path: Path):
    def refuse(_: mujoco.MjSpec, __: Parameter) -> None:
        raise ValueError('no')

    fit[2]['mass'].modifier = refuse
    with pytest.raises(Exception, match='no'):
        save_results(tmp_path / 'fit', *fit)
    assert list(tmp_path.iterdir()) == []
