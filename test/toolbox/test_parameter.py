# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Parameters: values, bounds, vectors, samples, files and tables."""

import copy
import functools
from pathlib import Path

import mujoco
import numpy as np
import pytest

from sysid_ros.errors import ParameterError
from sysid_ros.toolbox.parameter import InertiaType, Parameter, ParameterDict

_PENDULUM = """
<mujoco>
  <worldbody>
    <body name="arm">
      <joint name="elbow" axis="0 1 0"/>
      <geom name="rod" size=".05"/>
    </body>
  </worldbody>
  <actuator><position name="servo" joint="elbow" kp="10"/></actuator>
</mujoco>
"""


@pytest.fixture
def spec() -> mujoco.MjSpec:
    return mujoco.MjSpec.from_string(_PENDULUM)


@pytest.fixture
def params() -> ParameterDict:
    return ParameterDict(
        {
            'mass': Parameter('mass', 1.0, 0.5, 2.0, unit='kg'),
            'held': Parameter('held', 5.0, 3.0, 7.0, frozen=True),
            'gains': Parameter('gains', [[2.0, 3.0], [4.0, 5.0]], 0.0, 10.0),
        }
    )


def test_value_takes_numbers_and_arrays_and_keeps_its_shape():
    single, grid = Parameter('p', 1, 0, 9), Parameter('g', np.ones((2, 2)), 0.0, 9.0)
    single.value = 3
    grid.value = [1, 2, 3, 4]
    assert (single.value.shape, single.value.dtype, single.value[0]) == ((1,), np.float64, 3.0)
    np.testing.assert_array_equal(grid.value, [[1, 2], [3, 4]])
    single.nominal, single.min_value = 4, 1.5
    single.reset()
    assert (single.value[0], single.get_bounds()[0][0]) == (4.0, 1.5)
    assert repr(single) == 'p: 4 ∈ [1.5, 9]'
    single.value = 3
    with pytest.raises(ParameterError, match=r"'g' has 4 component\(s\).*found shape \(3,\)"):
        grid.value = [1, 2, 3]
    with pytest.raises(ParameterError, match="value of parameter 'p' must be finite"):
        single.value = np.nan
    with pytest.raises(ParameterError, match=r'1 component\(s\).*found shape \(3,\)'):
        single.update_from_vector([1, 2, 3])


@pytest.mark.parametrize(
    ('arguments', 'options', 'message'),
    [
        ((1.0, 2.0, 0.5), {}, r"'p' are reversed: expected lower <= upper, found \[2, 0.5\]"),
        (([1.0, 2.0], [0.0, 3.0], [2.0, 2.5]), {}, r"'p\[1\]' are reversed"),
        (([1.0, 2.0], [0.0, 0.0, 0.0], 9.0), {}, r'2 component\(s\).*lower bound.*shape \(3,\)'),
        ((np.nan, 0.0, 1.0), {}, 'nominal value .* must be finite'),
        ((1.0, np.nan, 2.0), {}, 'lower bound .* must be finite'),
        (('heavy', 0.0, 1.0), {}, 'nominal value .* must be numbers'),
        ((1.0, 0.0, 2.0), {'scale': 'log'}, 'lower bounds .* above 0, found 0'),
        ((0.0, 0.1, 2.0), {'scale': 'log'}, 'nominal value above 0, found 0'),
        ((1.0, 0.0, 2.0), {'scale': 'logs'}, "Unknown scale 'logs'.*nearest: log"),
        ((1.0, 0.0, 2.0), {'prior': (1.0, 0.0)}, 'standard deviation above 0, found 0'),
        ((1.0, 0.0, 2.0), {'prior': ([1.0, 2.0], 1.0)}, r'mean of the prior.*found shape \(2,\)'),
    ],
)
def test_what_is_no_parameter_is_refused(arguments: tuple, options: dict, message: str):
    with pytest.raises(ParameterError, match=message):
        Parameter('p', *arguments, **options)


@pytest.mark.parametrize(
    ('nominal', 'low', 'high', 'fraction', 'expected'),
    [
        (1e-8, 0.0, 20.0, 0.05, 1.0),
        (25.0, 0.0, 20.0, 0.05, 19.0),
        (5.0, 0.0, 20.0, 0.05, 5.0),
        (3.0, 3.0, 3.0, 0.05, 3.0),
        (0.0, 0.0, np.inf, 0.05, 0.0),
    ],
)
def test_only_what_is_on_a_bound_moves_inside(
    nominal: float, low: float, high: float, fraction: float, expected: float
):
    parameter = Parameter('p', nominal, low, high)
    parameter.move_off_bound(fraction=fraction)
    assert parameter.value[0] == pytest.approx(expected)


def test_on_a_log_scale_the_way_inside_is_a_factor():
    parameter = Parameter('p', [1e-4, 0.03, 1e4], 1e-4, 1e4, scale='log')
    parameter.move_off_bound(fraction=0.25)
    np.testing.assert_allclose(parameter.value, [1e-2, 0.03, 1e2], rtol=1e-12)
    assert parameter.value[1] == 0.03


def test_a_modifier_may_use_the_value_of_one_component_as_a_number(spec: mujoco.MjSpec):
    def modifier(spec: mujoco.MjSpec, parameter: Parameter) -> None:
        spec.joint('elbow').armature = parameter.value
        spec.joint('elbow').frictionloss = 2 * parameter.value
        spec.body('arm').gravcomp = parameter.value[0]
        spec.joint('elbow').damping[0] = parameter.value[0]

    parameter = Parameter('armature', 0.25, 0.0, 1.0, modifier=modifier)
    parameter.update_from_vector([0.5])
    parameter.apply_modifier(spec)
    model = spec.compile()
    assert model.dof_armature[0] == 0.5
    assert model.dof_frictionloss[0] == 1.0
    assert model.body_gravcomp[1] == 0.5
    assert model.dof_damping[0] == 0.5


def _write_damping(spec: mujoco.MjSpec, parameter: Parameter) -> None:
    spec.joint('elbow').damping = parameter.value[0]


def _write_unknown(spec: mujoco.MjSpec, parameter: Parameter) -> None:
    spec.joint('knee').armature = parameter.value[0]


def _divide(_: mujoco.MjSpec, parameter: Parameter) -> float:
    return 1 / (int(parameter.value[0]) - 1)


@pytest.mark.parametrize(
    ('modifier', 'message'),
    [
        (_write_damping, r'write .*damping\[0\] = parameter.value\[0\]'),
        (_write_unknown, 'the spec has no element of that name'),
        (_divide, 'ZeroDivisionError: division by zero'),
    ],
)
def test_a_modifier_that_fails_is_named_with_what_to_write(
    spec: mujoco.MjSpec, modifier: object, message: str
):
    with pytest.raises(ParameterError, match=message) as caught:
        Parameter('soft', 1.0, 0.0, 2.0, modifier=modifier).apply_modifier(spec)
    assert "The modifier of parameter 'soft' failed" in str(caught.value)
    assert '\n' not in str(caught.value)


def test_a_copy_shares_the_modifier_and_nothing_else(params: ParameterDict):
    modifier = params['mass'].modifier = functools.partial(print)
    params['mass'].note = ['mine']
    for other in (params.copy(), copy.deepcopy(params)):
        assert other['mass'].modifier is modifier
        assert other['mass'].note == ['mine']
        assert other['mass'].note is not params['mass'].note
        other['mass'].value[:] = 1.7
        other['mass'].min_value[:] = 0.1
    assert (params['mass'].value[0], params['mass'].min_value[0]) == (1.0, 0.5)


def test_frozen_parameters_are_left_out_of_vectors(params: ParameterDict):
    assert params.size == 5
    assert len(params) == 3
    np.testing.assert_array_equal(params.as_vector(), [1, 2, 3, 4, 5])
    np.testing.assert_array_equal(params.as_vector(include_frozen=True), [1, 5, 2, 3, 4, 5])
    params.update_from_vector([1.1, 6, 7, 8, 9])
    np.testing.assert_array_equal(params['gains'].value, [[6, 7], [8, 9]])
    np.testing.assert_array_equal(params['held'].value, [5.0])
    np.testing.assert_array_equal(params.as_nominal_vector(), [1, 2, 3, 4, 5])
    np.testing.assert_array_equal(params.as_nominal_vector(include_frozen=True)[:2], [1, 5])
    low, high = params.get_bounds()
    np.testing.assert_array_equal(low, [0.5, 0, 0, 0, 0])
    np.testing.assert_array_equal(high, [2.0, 10, 10, 10, 10])
    names = 'mass gains[0,0] gains[0,1] gains[1,0] gains[1,1]'
    assert params.get_non_frozen_parameter_names() == names.split()
    params['mass'].frozen = True
    assert params.size == 4


def test_a_vector_that_does_not_fit_changes_nothing(params: ParameterDict):
    with pytest.raises(ParameterError, match=r'Expected 5 values.*found shape \(6,\)'):
        params.update_from_vector(np.zeros(6))
    with pytest.raises(ParameterError, match=r"value of parameter 'gains\[0,1\]' must be finite"):
        params.update_from_vector([9, 9, np.nan, 9, 9])
    np.testing.assert_array_equal(params.as_vector(), [1, 2, 3, 4, 5])


def test_a_name_is_taken_once(params: ParameterDict):
    with pytest.raises(ParameterError, match="There is a parameter 'mass' already"):
        params.add(Parameter('mass', 3.0, 1.0, 4.0))
    more = ParameterDict({'new': Parameter('new', 1, 0, 2), 'mass': Parameter('mass', 1, 0, 2)})
    with pytest.raises(ParameterError, match="There is a parameter 'mass' already"):
        params.update(more)
    assert 'new' not in params
    params['mass'] = Parameter('mass', 3.0, 1.0, 4.0)
    assert params['mass'].value[0] == 3.0
    assert next(iter(params)) == 'mass'


def test_a_random_vector_is_the_same_for_the_same_seed(params: ParameterDict):
    low, high = params.get_bounds()
    expected = np.random.default_rng(7).uniform(low, high)
    np.testing.assert_array_equal(params.sample(np.random.default_rng(7)), expected)
    params.randomize(np.random.default_rng(7))
    np.testing.assert_array_equal(params.as_vector(), expected)
    assert params['gains'].value.shape == (2, 2)
    assert params['held'].value[0] == 5.0
    params.reset()
    np.testing.assert_array_equal(params.as_vector(), params.as_nominal_vector())


def test_a_file_gives_back_everything_but_the_modifiers(tmp_path: Path, params: ParameterDict):
    params.add(
        Parameter(
            'inertia',
            [1.0, 2.0],
            0.1,
            [3.0, np.inf],
            modifier=lambda *_: None,
            target='body/*/mass',
            prior=([1.0, 2.0], 0.5),
            scale='log',
        )
    )
    params['inertia'].inertia_type = InertiaType.Mass
    params['gains'].value = [6, 7, 8, 9]
    params.save_to_disk(tmp_path / 'params.yaml')
    loaded = ParameterDict.load_from_disk(tmp_path / 'params.yaml')
    assert list(loaded) == list(params)
    for before, after in zip(params.values(), loaded.values(), strict=True):
        for field in ('nominal', 'min_value', 'max_value', 'value'):
            np.testing.assert_array_equal(getattr(before, field), getattr(after, field))
        for field in ('name', 'frozen', 'target', 'unit', 'scale', 'inertia_type'):
            assert getattr(before, field) == getattr(after, field)
        assert after.modifier is None
    np.testing.assert_array_equal(loaded['inertia'].prior, params['inertia'].prior)
    assert [path.name for path in tmp_path.iterdir()] == ['params.yaml']


def test_files_interchange_with_the_reference(tmp_path: Path, params: ParameterDict):
    reference = pytest.importorskip('mujoco.sysid._src.parameter')
    params['gains'].unit = 'N·m'
    params.save_to_disk(tmp_path / 'ours.yaml')
    theirs = reference.ParameterDict.load_from_disk(tmp_path / 'ours.yaml')
    np.testing.assert_array_equal(
        theirs.as_vector(include_frozen=True), params.as_vector(include_frozen=True)
    )
    theirs.save_to_disk(tmp_path / 'theirs.yaml')
    back = ParameterDict.load_from_disk(tmp_path / 'theirs.yaml')
    assert sorted(back) == sorted(params)
    np.testing.assert_array_equal(back['gains'].value, params['gains'].value)
    assert back['held'].frozen


@pytest.mark.parametrize(
    ('text', 'message'),
    [
        (None, "No parameter file .*params.yaml'; nearest: param.yaml"),
        ('a: [1', 'is not YAML'),
        ('- 1', 'mapping of names to parameters .* found list'),
        ('m: {name: m, nominal: [1]}', "'m' .* lacks 'min_value'"),
        (
            'm: {name: m, nominal: 1, min_value: 2, max_value: 0, value: 1, frozen: false}',
            'reversed',
        ),
    ],
)
def test_a_file_without_parameters_is_refused(tmp_path: Path, text: str | None, message: str):
    (tmp_path / 'param.yaml').touch()
    if text is not None:
        (tmp_path / 'params.yaml').write_text(text, 'utf-8')
    with pytest.raises(ParameterError, match=message):
        ParameterDict.load_from_disk(tmp_path / 'params.yaml')


def test_the_comparison_names_each_component_and_its_relative_error(params: ParameterDict):
    table = params.compare_parameters(
        [1.0, 2, 3, 4, 5], [2.0, 2.2, 3, 4, 0], [2.0, 2, 3, 4, 0], sig_digits=3
    )
    lines = table.splitlines()
    assert lines[0].split()[:4] == ['Parameter', 'Initial', 'Nominal', 'Identified']
    assert [line.split()[0] for line in lines[2:7]] == params.get_non_frozen_parameter_names()
    assert lines[2].split()[:4] == ['mass', '1', '2', '2']
    assert lines[2].endswith('kg    at upper bound')
    assert '10%' in lines[3]
    assert lines[6].endswith('at lower bound')
    assert lines[7] == 'RMS Rel Err: 5%'  # of mass, the exact gains and the 10 %; 0 has none
    assert '\x1b' not in table
