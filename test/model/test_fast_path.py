# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Numbers of all kinds are written into a compiled model, for one candidate as for many.

That this is what compiling a text with these numbers gives is tested where texts are written.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

import mujoco
import numpy as np
import pytest
from mujoco.batch import MODEL_FIELDS, Batch

from builders.models import write_value
from sysid_ros.errors import ParameterError
from sysid_ros.model.candidates import Writer, writable_model
from sysid_ros.model.kinds import KINDS, Role
from sysid_ros.model.loading import differing_fields
from sysid_ros.model.targets import Target, resolve

EVERYTHING = """
<mujoco>
  <option density="1.2" viscosity=".1" wind="1 0 0"/>
  <default>
    <default class="leg">
      <joint damping=".4 .1 .2"/>
      <geom friction=".9 .01 .001" density="900"/>
      <default class="shin"><joint armature=".3"/></default>
    </default>
  </default>
  <worldbody>
    <geom name="floor" type="plane" size="5 5 .1"/>
    <site name="anchor" pos="0 .1 1"/>
    <body name="base" pos="0 0 1" gravcomp=".2">
      <freejoint name="root"/>
      <geom name="trunk" type="box" size=".2 .1 .05" density="800"/>
      <body name="upper" pos=".2 0 0" quat="1 .1 .2 .3" childclass="leg">
        <inertial pos=".01 .02 .1" mass="1.5" fullinertia=".03 .02 .015 .001 .002 .003"/>
        <joint name="hip" axis="0 1 0" range="-60 60" armature=".01" frictionloss=".3"
               stiffness=".4 1 2" springref="10" actuatorfrcrange="-20 20" margin=".01"/>
        <geom name="foot" size=".05" pos="0 0 -.2"/>
        <site name="knee" pos="0 .05 .1"/>
        <body name="lower" pos="0 0 .3" childclass="shin">
          <joint name="slider" type="slide" axis="0 0 1" range="-.1 .2" damping="2"/>
          <joint name="ball" type="ball" stiffness="3" range="0 90"/>
          <geom name="shank" type="capsule" size=".02 .1"/>
          <site name="tip" pos="0 0 .1"/>
        </body>
      </body>
      <body name="mimic" pos="-.2 0 0">
        <joint name="m1" axis="1 0 0"/>
        <geom name="gm" size=".03" mass=".1"/>
        <body name="mimic2" pos="-.1 0 0">
          <joint name="m2" axis="0 1 0"/><geom size=".03" mass=".1"/>
        </body>
      </body>
    </body>
    <body name="load" pos="1 0 1">
      <joint name="l" type="slide"/><geom name="gl" size=".1" mass="1"/>
    </body>
    <body name="crate" pos="1 1 1"><freejoint name="loose"/><geom size=".1" mass="1"/></body>
  </worldbody>
  <contact>
    <pair name="pair" geom1="foot" geom2="floor" friction=".7 .6 .01 .001 .002" condim="6"
          margin=".001"/>
  </contact>
  <tendon>
    <fixed name="fixed" stiffness="2 1 1" damping="1 .2 .1" limited="true" range="-1 1"
           actuatorfrcrange="-3 3" armature=".01">
      <joint joint="hip" coef="3"/><joint joint="m1" coef="1"/>
    </fixed>
    <fixed name="band" stiffness="2" springlength="-.1 .1">
      <joint joint="m2" coef="1"/>
    </fixed>
    <spatial name="spatial" stiffness="3" frictionloss=".1">
      <site site="anchor"/><site site="tip"/>
    </spatial>
    <spatial name="given" stiffness="3" springlength=".1 .4">
      <site site="anchor"/><site site="knee"/>
    </spatial>
  </tendon>
  <equality>
    <joint name="mimic" joint1="m1" joint2="m2" polycoef=".1 1 .2 0 0"/>
    <connect name="connect" body1="lower" body2="mimic2" anchor="0 0 .1"/>
    <weld name="weld" body1="crate" body2="world" torquescale="2"/>
    <tendon name="same" tendon1="fixed" tendon2="given" polycoef="0 1 0 0 0"/>
  </equality>
  <actuator>
    <pid name="pid" joint="m2" kp="1" kv="2" ki="3" imax="2" ctrlrange="-1 1" input="pos vel"/>
    <position name="servo" joint="hip" kp="5" kv="1" gear="2" forcerange="-9 9" ctrlrange="-2 2"
              armature=".02" damping=".3 .1 0"/>
    <velocity name="spin" joint="m1" kv="3"/>
    <general name="free" joint="slider" dyntype="filter" biastype="affine" gainprm="1 .5"
             biasprm="0 -.1 -.2" dynprm=".1" actrange="-1 1"/>
    <motor name="pull" tendon="given"/>
  </actuator>
</mujoco>
"""
FIELD_KINDS = [key for key, kind in KINDS.items() if kind.role is Role.FIELD]


def another(target: Target, model: mujoco.MjModel) -> float:
    """Return a possible value that is not the model's."""
    value = target.read(model)
    low, high = target.bounds
    changed = 1.13 * value + 0.03
    return changed if low <= changed <= high else 0.87 * value


def every_target(spec: mujoco.MjSpec) -> Iterator[Target]:
    """Yield every numeric target of the named elements of a model."""
    model = spec.copy().compile()
    for element, attribute in FIELD_KINDS:
        pattern = f'{element}/{attribute}' if element == 'option' else f'{element}/*/{attribute}'
        patterns = [pattern + '[*]'] if KINDS[element, attribute].size > 1 else [pattern]
        if attribute == 'springlength':
            patterns.append(pattern)
        for text in patterns:
            with contextlib.suppress(ParameterError):  # this model has none
                yield from resolve(text, model)


def sample(targets: Sequence[Target]) -> list[Target]:
    """Keep one element for each component of each kind, and every equality and actuator.

    The last components of an actuator's parameters mean the same to all of its kinds: nothing.
    """
    kept: dict[object, Target] = {}
    for target in targets:
        special = target.element == 'actuator' and (target.index or 0) < 3
        each = target.name if special or target.element == 'equality' else ''
        kept.setdefault((target.element, target.attribute, target.index, each), target)
    return list(kept.values())


SPEC = mujoco.MjSpec.from_string(EVERYTHING)
MODEL = SPEC.copy().compile()
#: One end of a rest length alone moves only where the file gives both.
TARGETS = tuple(
    target
    for target in every_target(SPEC)
    if target.attribute != 'springlength' or target.index is None or target.name == 'given'
)
SAMPLE: dict[str, list[Target]] = {}
for one in sample(TARGETS):
    SAMPLE.setdefault(f'{one.element}/{one.attribute}', []).append(one)
by_kind = pytest.mark.parametrize('targets', SAMPLE.values(), ids=SAMPLE)


def test_the_model_above_has_a_target_of_every_kind_that_is_written_by_numbers() -> None:
    assert set(SAMPLE) == {'/'.join(kind) for kind in FIELD_KINDS}


@by_kind
def test_a_written_value_is_read_back(targets: list[Target]) -> None:
    for target in targets:
        model = writable_model(SPEC, [target])
        value = another(target, model)
        write_value(model, target, value)
        if target.attribute == 'subtree_mass':
            assert model.body_mass[target.row] == value * MODEL.body_mass[target.row]
        elif target.attribute == 'quat':
            quat = np.array(getattr(MODEL, f'{target.element}_quat')[target.row])
            quat[target.index or 0] = value
            assert target.read(model) == pytest.approx(value / np.linalg.norm(quat), rel=1e-14)
        else:
            assert target.read(model) == pytest.approx(value, rel=1e-12), target.path


@pytest.mark.slow
@by_kind
def test_what_is_called_constant_leaves_derived_numbers_alone(targets: list[Target]) -> None:
    for target in targets:
        model = writable_model(SPEC, [target])
        writer = Writer(model, [(target, 0)], spec=SPEC)
        writer.write(model, np.array([another(target, model)]))
        assert writer.fields <= MODEL_FIELDS, target.path
        if writer.constant:
            derived = model.__copy__()
            mujoco.mj_setConst(derived, mujoco.MjData(derived))
            assert differing_fields(model, derived, 0.0) == (), target.path


def test_inertia_is_not_constant_and_damping_is() -> None:
    for path, constant in (('joint/hip/armature', False), ('joint/hip/damping', True)):
        assert Writer(MODEL, [(resolve(path, MODEL)[0], 0)]).constant is constant


@by_kind
def test_a_path_names_its_target(targets: list[Target]) -> None:
    for target in targets:
        assert resolve(target.path, MODEL) == (target,)
        low, high = target.bounds
        assert low <= target.read(MODEL) <= high, target.path


def distinct(targets: Sequence[Target], model: mujoco.MjModel) -> list[Target]:
    """Choose one target of each kind and component, no two of which write the same number."""
    kept: dict[object, Target] = {}
    taken: dict[tuple[str, int], str] = {}
    for target in targets:
        key = (target.element, target.attribute, target.index)
        claims = target.claims(model)
        if key not in kept and all(
            taken.get(place, name) == name for place, name in claims.items()
        ):
            kept[key] = target
            taken.update(claims)
    return list(kept.values())


def test_candidates_are_written_alike_together_and_alone() -> None:
    targets = distinct(TARGETS, MODEL)
    model = writable_model(SPEC, targets)
    writer = Writer(model, [(target, i) for i, target in enumerate(targets)], spec=SPEC)
    nominal = np.array([target.read(model) for target in targets])
    other = np.array([another(target, model) for target in targets])
    candidates = np.stack([nominal + share * (other - nominal) for share in (0.2, 1.0, 0.7)])
    together = writer.assignments(candidates)
    for number, values in enumerate(candidates):
        for one, every in zip(writer.assignments(values[None]), together, strict=True):
            assert one.field == every.field
            np.testing.assert_array_equal(one.index, every.index)
            np.testing.assert_array_equal(one.data[0], every.data[number])


def test_a_batch_of_candidates_moves_as_models_written_one_by_one() -> None:
    paths = ('joint/hip/armature', 'body/upper/inertia', 'body/crate/gravcomp', 'option/wind[0]')
    paths += ('joint/m1/springref', 'geom/foot/friction', 'actuator/servo/kp')
    targets = [target for path in paths for target in resolve(path, MODEL)]
    model = writable_model(SPEC, targets)
    writer = Writer(model, [(target, i) for i, target in enumerate(targets)], spec=SPEC)
    nominal = np.array([target.read(model) for target in targets])
    candidates = nominal + 0.05 * np.arange(3)[:, None]
    batch = Batch(model, 3, 1)
    for field, index, data in writer.assignments(candidates):
        batch.expand(field).reshape(3, -1)[:, index] = data
    batch.set_const()
    for _ in range(20):
        batch.step()
    for number, values in enumerate(candidates):
        alone = model.__copy__()
        writer.write(alone, values)
        data = mujoco.MjData(alone)
        mujoco.mj_setConst(alone, data)
        mujoco.mj_resetData(alone, data)
        mujoco.mj_step(alone, data, 20)
        np.testing.assert_array_equal(np.asarray(batch.qpos)[number], data.qpos)
