# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Numbers of all kinds are written into a compiled model, for one candidate as for many.

That this is what compiling a text with these numbers gives is tested where texts are written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import mujoco
import numpy as np
import pytest
from mujoco.batch import MODEL_FIELDS, Batch
from numpy.typing import NDArray

from builders.models import write_value
from builders.written_models import EVERYTHING, FIELD_KINDS, another, distinct, targets_of
from sysid_ros.model.candidates import Rebuild, Writer, learn, set_all_apart, writable_model
from sysid_ros.model.loading import differing_fields
from sysid_ros.model.targets import Target, Unknown, resolve


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
    for kind in FIELD_KINDS
    for target in targets_of(MODEL, *kind)
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
            mujoco.mju_quatIntegrate(quat, value * np.eye(3)[target.index or 0], 1.0)
            found = getattr(model, f'{target.element}_quat')[target.row]
            np.testing.assert_allclose(found, quat, rtol=1e-14)
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


SERVOED = mujoco.MjSpec.from_string(
    """<mujoco><worldbody><body name="upper"><joint name="j" axis="0 1 0" armature=".1"/>
    <geom name="g" type="capsule" size=".05 .2"/><body name="lower" pos="0 0 .4">
    <joint name="k" axis="0 1 0" damping=".3"/><inertial mass="1" pos="0 0 .1"
    diaginertia=".01 .01 .01"/></body></body></worldbody>
    <actuator><position name="a" joint="j" kp="50" kv="2"/></actuator></mujoco>"""
)
UNKNOWNS = [Unknown('first', (), 0.2, 0.0, 1.0), Unknown('second', (), 1.5, 0.5, 4.0)]


class Callback:
    """Compiles a spec after a function has written two values to it, and counts how often."""

    copies = False

    def __init__(self, write: Callable[[mujoco.MjSpec, float, float], None]) -> None:
        self._write = write
        self.calls = 0

    def build(self, values: NDArray[np.float64], spec: mujoco.MjSpec) -> mujoco.MjModel:
        """Compile."""
        self.calls += 1
        self._write(spec, float(values[0]), float(values[1]))
        return spec.compile()

    def describe(self, values: NDArray[np.float64]) -> str:
        """Say the values."""
        return str(values)


def rebuilt(write: Callable[[mujoco.MjSpec, float, float], None]) -> tuple[Rebuild, Callback]:
    callback = Callback(write)
    rebuild = Rebuild(SERVOED, UNKNOWNS, callback, [0, 1])
    rebuild.learnt = learn(rebuild, UNKNOWNS)
    return rebuild, callback


def servo(spec: mujoco.MjSpec, first: float, second: float) -> None:
    spec.joint('j').armature = 0.05 + 2 * first
    spec.joint('k').frictionloss = first
    spec.actuator('a').gainprm[0] = 40 * second
    spec.actuator('a').biasprm[1] = -40 * second
    spec.body('lower').mass = second


def test_what_is_learnt_is_what_the_compiler_makes_from_a_handful_of_models() -> None:
    rebuild, callback = rebuilt(servo)
    assert rebuild.learnt is not None
    assert callback.calls <= 6
    start = np.array([0.2, 1.5])
    writer = Writer(rebuild(start), [], learnt=rebuild.learnt)
    for point in np.random.default_rng(1).uniform([0.0, 0.5], [1.0, 4.0], (5, 2)):
        model = rebuild(start)
        writer.write(model, point)
        mujoco.mj_setConst(model, mujoco.MjData(model))
        compiled = rebuild(point)
        set_all_apart(model)
        for field in ('dof_armature', 'dof_frictionloss', 'actuator_gainprm', 'actuator_biasprm'):
            np.testing.assert_allclose(getattr(model, field), getattr(compiled, field), rtol=1e-12)
        for field in ('body_mass', 'body_subtreemass', 'dof_invweight0', 'actuator_acc0'):
            np.testing.assert_allclose(getattr(model, field), getattr(compiled, field), rtol=1e-12)


def shaped(spec: mujoco.MjSpec, first: float, _: float) -> None:
    spec.geom('g').size[1] = 0.1 + first


def stepped(spec: mujoco.MjSpec, first: float, _: float) -> None:
    spec.option.timestep = 1e-3 * (1 + first)


def grown(spec: mujoco.MjSpec, first: float, _: float) -> None:
    spec.joint('j').armature = first
    if first > 0.5:
        spec.worldbody.add_geom(size=[0.1, 0.1, 0.1])


def refused(spec: mujoco.MjSpec, first: float, _: float) -> None:
    spec.body('lower').mass = first - 0.1


def armature(of: Callable[[float, float], float]) -> Callable[[mujoco.MjSpec, float, float], None]:
    def write(spec: mujoco.MjSpec, first: float, second: float) -> None:
        spec.joint('j').armature = of(first, second)

    return write


@pytest.mark.parametrize(
    'write',
    [
        armature(lambda first, _: first**2),
        armature(lambda first, second: first * second),
        armature(lambda first, second: first + second),
        armature(lambda first, _: first if first < 0.8 else 2 * first),
        shaped,
        stepped,
        grown,
        refused,
    ],
    ids=['squared', 'product', 'total', 'branched', 'shaped', 'stepped', 'grown', 'refused'],
)
def test_what_is_more_than_a_line_is_left_to_the_compiler(
    write: Callable[[mujoco.MjSpec, float, float], None],
) -> None:
    rebuild, _ = rebuilt(write)
    assert rebuild.learnt is None
