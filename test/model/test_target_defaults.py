# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Targets of default classes act on the elements that follow the class."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

from sysid_ros.errors import ParameterError
from sysid_ros.model.candidates import Writer
from sysid_ros.model.kinds import Role
from sysid_ros.model.loading import differing_fields
from sysid_ros.model.targets import Target, resolve, write_spec

LEGS = """
<mujoco>
  <compiler angle="degree"/>
  <default>
    <joint springref="{springref}"/>
    <default class="leg">
      <joint damping="{damping} .1"/>
      <geom friction="{friction} .01" density="{density}"/>
      <position kp="{kp}"/>
      <default class="knee"><joint armature=".2" stiffness="{stiffness}"/></default>
    </default>
    <default class="unused"><geom solref=".01 1"/></default>
  </default>
  <worldbody>
    <body name="a" childclass="leg">
      <joint name="hip"/><geom size=".1" pos=".1 0 0"/>
      <body name="b" pos="0 0 .3">
        <joint name="knee" class="knee"/><joint name="own" axis="1 0 0" damping="7"/>
        <geom name="shin" size=".1"/>
        <body pos="0 0 .3">
          <joint type="slide" class="knee" springref="0"/><geom size=".1" class="main"/>
        </body>
      </body>
    </body>
  </worldbody>
  <actuator>
    <position name="p" class="leg" joint="hip"/>
    <position name="q" class="leg" joint="knee" kp="9"/>
  </actuator>
</mujoco>
"""
VALUES: dict[str, float] = {
    'springref': 10,
    'damping': 0.5,
    'friction': 0.7,
    'density': 900,
    'kp': 4,
    'stiffness': 2,
}


def spec_with(**values: float) -> mujoco.MjSpec:
    return mujoco.MjSpec.from_string(LEGS.format(**{**VALUES, **values}))


SPEC = spec_with()
MODEL = SPEC.copy().compile()


def only(path: str) -> Target:
    (target,) = resolve(path, MODEL, spec=SPEC)
    return target


@pytest.mark.parametrize(
    ('path', 'keyword', 'unit'),
    [
        ('default/main/joint/springref', 'springref', 180 / np.pi),
        ('default/leg/joint/damping', 'damping', 1.0),
        ('default/leg/geom/friction[0]', 'friction', 1.0),
        ('default/leg/actuator/kp', 'kp', 1.0),
        ('default/knee/joint/stiffness', 'stiffness', 1.0),
    ],
)
def test_a_class_written_as_numbers_equals_editing_the_class(
    path: str, keyword: str, unit: float
) -> None:
    target = only(path)
    assert target.role is Role.FIELD
    model = SPEC.copy().compile()
    Writer(model, [(target, 0)], spec=SPEC).write(model, np.array([0.3]))
    mujoco.mj_setConst(model, mujoco.MjData(model))
    expected = spec_with(**{keyword: 0.3 * unit}).compile()
    assert differing_fields(model, expected, 1e-14) == ()
    assert target.read(model) == pytest.approx(0.3, rel=1e-14)


def test_a_class_that_the_compiler_reads_equals_editing_the_class() -> None:
    target = only('default/leg/geom/density')
    assert target.role is Role.SPEC
    assert target.read(MODEL) == 900
    copy = SPEC.copy()
    write_spec(copy, target, 500.0)
    assert differing_fields(copy.compile(), spec_with(density=500).compile(), 0.0) == ()


def test_classes_below_inherit_and_elements_with_a_value_of_their_own_do_not_follow() -> None:
    assert only('default/leg/joint/damping').rows == (0, 1, 3)
    assert only('default/knee/joint/armature').rows == (1, 3)
    assert only('default/leg/actuator/kp').rows == (0,)


def test_the_spec_is_not_changed() -> None:
    before = SPEC.to_xml()
    resolve('default/leg/joint/damping', MODEL, spec=SPEC)
    assert SPEC.to_xml() == before


def test_wildcards_find_every_class_that_something_follows() -> None:
    targets = resolve('default/*/joint/armature', MODEL, spec=SPEC)
    assert [target.name for target in targets] == ['main', 'leg', 'knee']


@pytest.mark.parametrize(
    ('path', 'complaint'),
    [
        ('default/leg/joint/dampin', "Unknown attribute 'dampin' .* nearest: damping"),
        ('default/lag/joint/damping', "No default class matches 'lag' .* nearest: leg"),
        ('default/joint/damping', 'Expected a target such as default/CLASS/joint/damping'),
        ('default/unused/geom/solref', "No geom takes solref from the default class 'unused'"),
        ('default/leg/body/mass', 'Default classes hold no attributes of a body'),
        ('default/leg/equality/data', "Default classes hold no attribute 'data' of equality"),
        ('default/leg/actuator/bias', 'is no attribute of a default class'),
    ],
)
def test_a_class_that_does_not_fit_is_one_sentence(path: str, complaint: str) -> None:
    with pytest.raises(ParameterError, match=complaint) as caught:
        resolve(path, MODEL, spec=SPEC)
    assert str(caught.value).endswith('.')
    assert '\n' not in str(caught.value)


def test_without_a_spec_there_are_no_classes() -> None:
    with pytest.raises(ParameterError, match='needs the spec that the model was compiled from'):
        resolve('default/leg/joint/damping', MODEL)
