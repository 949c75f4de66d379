# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The unknowns of an identification."""

from __future__ import annotations

import mujoco
import pytest

from sysid_ros.errors import ParameterError
from sysid_ros.model.targets import Scope, Unknown, check_distinct, make_unknowns

ARM = """
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
"""


@pytest.fixture(scope='module')
def model() -> mujoco.MjModel:
    return mujoco.MjModel.from_xml_string(ARM)


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
    model: mujoco.MjModel, pattern: str, name: str | None, expected: list[str]
) -> None:
    assert names(make_unknowns(pattern, model, name=name)) == expected


def test_a_pattern_gives_one_parameter_per_match(model: mujoco.MjModel) -> None:
    parameters = make_unknowns('joint/*/armature', model)
    assert names(parameters) == ['joint/j1/armature', 'joint/j2/armature']
    assert [parameter.nominal for parameter in parameters] == [0.1, 0.3]
    assert [parameter.unit for parameter in parameters] == ['kg·m²', 'kg']


def test_a_shared_pattern_is_one_parameter_that_starts_at_the_mean(model: mujoco.MjModel) -> None:
    (parameter,) = make_unknowns('body/*/mass', model, shared=True)
    assert parameter.name == 'body/*/mass'
    assert [target.path for target in parameter.targets] == ['body/upper/mass', 'body/lower/mass']
    assert parameter.nominal == 2.0
    assert names(make_unknowns('body/*/mass', model, shared=True, name='m')) == ['m']


def test_values_of_different_units_cannot_be_shared(model: mujoco.MjModel) -> None:
    with pytest.raises(ParameterError, match=r'cannot share a value of different units: kg·m², kg'):
        make_unknowns('joint/*/armature', model, shared=True)


def test_the_start_is_the_models_value_unless_given(model: mujoco.MjModel) -> None:
    assert make_unknowns('joint/j1/damping', model)[0].nominal == 2.0
    assert make_unknowns('actuator/a/delay', model)[0].nominal == 0.004
    assert make_unknowns('joint/j1/damping', model, initial=3)[0].nominal == 3.0


def test_without_bounds_physics_sets_them(model: mujoco.MjModel) -> None:
    (damping,) = make_unknowns('joint/j1/damping', model)
    assert (damping.min_value, damping.max_value) == (0.0, 200.0)
    (gravity,) = make_unknowns('option/gravity[2]', model)
    assert (gravity.min_value, gravity.max_value) == pytest.approx((-981.0, 981.0))
    (mass,) = make_unknowns('body/upper/mass', model)
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
    model: mujoco.MjModel, bounds: tuple[float, float], initial: float, complaint: str
) -> None:
    with pytest.raises(ParameterError, match=complaint):
        make_unknowns('joint/j1/damping', model, bounds=bounds, initial=initial)


def test_two_parameters_cannot_share_a_name(model: mujoco.MjModel) -> None:
    parameters = [
        *make_unknowns('joint/j1/damping', model, name='x'),
        *make_unknowns('joint/j2/damping', model, name='x'),
    ]
    with pytest.raises(ParameterError, match=r"Two parameters are named 'x'"):
        check_distinct(parameters)


def test_two_parameters_cannot_write_the_same_target(model: mujoco.MjModel) -> None:
    parameters = [
        *make_unknowns('joint/j1/damping', model, name='x'),
        *make_unknowns('joint/*/damping', model, name='y'),
    ]
    with pytest.raises(
        ParameterError, match=r"'joint/j1/damping' is written by two parameters, 'x' and 'y/j1'"
    ):
        check_distinct(parameters)


def test_a_shared_vector_stays_a_vector(model: mujoco.MjModel) -> None:
    found = make_unknowns('body/*/mass_ipos', model, shared=True)
    assert names(found) == [f'body/*/mass_ipos[{index}]' for index in range(4)]
    assert [len(parameter.targets) for parameter in found] == [2, 2, 2, 2]
    assert found[0].nominal == 2.0
    ranged = make_unknowns('body/*/ipos[0:2]', model, shared=True)
    assert names(ranged) == ['body/*/ipos[0]', 'body/*/ipos[1]']


def test_log_scales_have_bounds_above_zero(model: mujoco.MjModel) -> None:
    (parameter,) = make_unknowns('joint/j1/armature', model, scale='log')
    assert (parameter.scale, parameter.nominal) == ('log', 0.1)
    assert parameter.min_value == pytest.approx(0.001)
    assert parameter.max_value == pytest.approx(10.0)
    with pytest.raises(ParameterError, match=r'log scale: expected bounds above 0, got \[0, 1\]'):
        make_unknowns('joint/j1/armature', model, scale='log', bounds=(0.0, 1.0))


def test_a_prior_needs_a_spread(model: mujoco.MjModel) -> None:
    (parameter,) = make_unknowns('body/upper/mass', model, prior=(1.1, 0.2))
    assert parameter.prior == (1.1, 0.2)
    for around in make_unknowns('body/*/mass', model, prior=(None, 0.2)):
        assert around.prior == (around.nominal, 0.2)
    (moved,) = make_unknowns('body/upper/mass', model, initial=0.7, prior=(None, 0.2))
    assert moved.prior == (0.7, 0.2)
    with pytest.raises(ParameterError, match='standard deviation above 0, got 1 and 0'):
        make_unknowns('body/upper/mass', model, prior=(1.0, 0.0))


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
def test_open_kinds_have_bounds_of_their_own(
    path: str, bounds: tuple[float, float], model: mujoco.MjModel
) -> None:
    (parameter,) = make_unknowns(path, model)
    assert (parameter.min_value, parameter.max_value) == pytest.approx(bounds)


def test_the_start_of_a_sequence_is_an_unknown(model: mujoco.MjModel) -> None:
    found = make_unknowns('sequence/*/initial_qvel[0]', Scope(model, sequences=['a', 'b']))
    assert names(found) == ['sequence/a/initial_qvel[0]', 'sequence/b/initial_qvel[0]']


@pytest.mark.parametrize(
    ('one', 'other'),
    [
        ('actuator/servo/kp', 'actuator/servo/gainprm[0]'),
        ('body/upper/mass', 'body/upper/inertia[0]'),
        ('body/lower/mass', 'body/upper/subtree_mass'),
        ('body/upper/ipos[2]', 'body/upper/mass_ipos[3]'),
    ],
)
def test_two_kinds_cannot_write_the_same_number(
    one: str, other: str, model: mujoco.MjModel
) -> None:
    found = [parameter for path in (one, other) for parameter in make_unknowns(path, model)]
    check_distinct(found)
    with pytest.raises(ParameterError, match='write the same number of the model, as '):
        check_distinct(found, model)


def test_parts_of_one_inertia_and_nested_factors_may_write_the_same_numbers(
    model: mujoco.MjModel,
) -> None:
    paths = ('body/lower/inertia', 'body/*/subtree_mass', 'actuator/servo/kp', 'actuator/servo/kv')
    check_distinct(make_unknowns(paths[0], model), model)
    check_distinct([p for path in paths[1:] for p in make_unknowns(path, model)], model)
