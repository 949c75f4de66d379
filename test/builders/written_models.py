# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A model with a target of every kind, and models that are written to folders."""

from __future__ import annotations

import contextlib
import difflib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import mujoco

from sysid_ros.errors import ParameterError
from sysid_ros.model.kinds import KINDS, Role
from sysid_ros.model.loading import load_spec
from sysid_ros.model.mjcf import WrittenModel, write_model
from sysid_ros.model.targets import Target, resolve

#: A mesh, as an OBJ file has it.
TETRAHEDRON = 'v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nf 1 3 2\nf 1 2 4\nf 1 4 3\nf 2 3 4\n'
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
      <body name="upper" pos=".2 0 0" euler="10 20 30" childclass="leg">
        <inertial pos=".01 .02 .1" mass="1.5" fullinertia=".03 .02 .015 .001 .002 .003"/>
        <joint name="hip" axis="0 1 0" range="-60 60" armature=".01" frictionloss=".3"
               stiffness=".4 1 2" springref="10" actuatorfrcrange="-20 20" margin=".01"/>
        <geom name="foot" size=".05" pos="0 0 -.2"/>
        <site name="knee" pos="0 .05 .1" zaxis="0 1 0"/>
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
#: Element and attribute of every kind that is written by numbers of a compiled model.
FIELD_KINDS = [key for key, kind in KINDS.items() if kind.role is Role.FIELD]


def targets_of(model: mujoco.MjModel, element: str, attribute: str) -> Iterator[Target]:
    """Yield all targets of a kind that a model has."""
    path = f'{element}/{attribute}' if element == 'option' else f'{element}/*/{attribute}'
    with contextlib.suppress(ParameterError):  # this model has none
        yield from resolve(path + '[*]' if KINDS[element, attribute].size > 1 else path, model)


def another(target: Target, model: mujoco.MjModel) -> float:
    """Return a possible value that is not the model's."""
    value = target.read(model)
    if target.attribute == 'quat':
        return value - 0.3
    low, high = target.bounds
    changed = 1.13 * value + 0.03
    return changed if low <= changed <= high else 0.87 * value


def distinct(targets: Iterable[Target], model: mujoco.MjModel) -> list[Target]:
    """Choose one target of each kind and component, no two of which write the same number."""
    kept: dict[object, Target] = {}
    taken: dict[tuple[str, int], str] = {}
    for target in targets:
        key, claims = (target.element, target.attribute, target.index), target.claims(model)
        if key not in kept and all(taken.get(at, name) == name for at, name in claims.items()):
            kept[key] = target
            taken.update(claims)
    return list(kept.values())


def save(folder: Path, text: str, name: str = 'model.xml') -> Path:
    """Write a text as it is."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode())
    return path


def with_values(source: Path, values: Mapping[str, float]) -> list[tuple[Target, float]]:
    """Return the targets of paths, each with its value."""
    spec = load_spec(source)
    model, runs = spec.copy().compile(), ('first', 'second')
    return [(t, value) for path, value in values.items() for t in resolve(path, model, runs, spec)]


def rewritten(tmp_path: Path, text: str, values: Mapping[str, float]) -> tuple[str, WrittenModel]:
    """Write values into a model of one file; return the new text and what was returned."""
    source = save(tmp_path / 'in', text)
    written = write_model(source, with_values(source, values), tmp_path / 'out')
    return written.path.read_bytes().decode(), written


def difference(before: str, after: str) -> list[str]:
    """Return the removed (-) and added (+) lines."""
    lines = difflib.ndiff(before.splitlines(), after.splitlines())
    return [line[:2] + line[2:].strip() for line in lines if line[0] in '+-']
