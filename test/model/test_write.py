# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Identified values in the user's URDF: there, exact, and nothing else changed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import mujoco
import numpy as np

from sysid_ros.model.inertia import (
    full_inertia,
    rotation_from_quat,
)
from sysid_ros.model.loading import (
    add_actuators,
    compile_spec,
    fitted_model,
    load_model,
    read_model,
)
from sysid_ros.model.mjcf import WrittenModel, write_model
from sysid_ros.model.targets import Target, resolve

DATA = Path(__file__).parents[1] / 'data' / 'urdf'


def rewrite(
    path: Path, folder: Path, values: Mapping[str, float], servos: tuple[str, ...] = ()
) -> tuple[WrittenModel, mujoco.MjModel, str]:
    """Write values into a URDF; return also the model that they mean, and the new URDF."""
    source = read_model(path)
    spec = source.spec
    add_actuators(spec, servos)
    model = compile_spec(spec, path)
    targets: list[tuple[Target, float]] = [
        (target, value)
        for name, value in values.items()
        for target in resolve(name, model, spec=spec)
    ]
    written = write_model(source, targets, folder / 'out')
    urdf = written.path.with_suffix('.urdf').read_text()
    return written, fitted_model(path, targets, spec), urdf


def test_only_identified_numbers_change(tmp_path: Path) -> None:
    path = DATA / 'fixed.urdf'
    values = {
        'body/arm/mass': 1.75,
        'body/camera/ipos[1]': 0.05,
        'body/flange/mass_scaled': 1.0,
        'joint/lift/damping': 0.7,
        'joint/roll/frictionloss': 0.02,
        'body/arm/pos[2]': 0.15,
    }
    _, _, urdf = rewrite(path, tmp_path, values)
    expected = path.read_text()
    for old, new in (
        ("<mass value='1.5'/>", "<mass value='1.75'/>"),
        ("<mass value='.5'/>", "<mass value='1'/>"),
        ("'.02 .01 .03'", "'.02 0.05 .03'"),
        ("damping='.3'", "damping='0.7'"),
        ("'0 0 .1' rpy='1.57", "'0 0 0.15' rpy='1.57"),
        ("type='continuous'>\n", 'type=\'continuous\'>\n    <dynamics friction="0.02"/>\n'),
    ):
        assert expected.count(old) == 1
        expected = expected.replace(old, new)
    # The moments of the link that got heavier by a factor grow with it.
    for old, new in (
        ("ixx='.004' ixy='.0005' ixz='.0007'", "ixx='0.008' ixy='0.001' ixz='0.0014'"),
        ("iyy='.003' iyz='-.0004' izz='.005'", "iyy='0.006' iyz='-0.0008' izz='0.01'"),
    ):
        expected = expected.replace(old, new)
    pattern = re.compile(r'-?\d*\.?\d+(?:e-?\d+)?')
    assert pattern.sub('#', urdf) == pattern.sub('#', expected)
    numbers = [[float(n) for n in pattern.findall(text)] for text in (urdf, expected)]
    np.testing.assert_allclose(*numbers, rtol=1e-12)


def test_a_text_without_changes_is_the_same_byte_for_byte(tmp_path: Path) -> None:
    path = tmp_path / 'robot.urdf'
    path.write_bytes((DATA / 'mimic.urdf').read_bytes().replace(b'\n', b'\r\n'))
    written, _, _ = rewrite(path, tmp_path, {'joint/elbow/armature': 0.02})
    assert written.path.with_suffix('.urdf').read_bytes() == path.read_bytes()
    (note,) = written.notes
    assert note == (
        'A URDF has no place for what only the MJCF beside robot.urdf holds: joint/elbow/armature.'
    )


def test_inertias_and_places_are_those_of_the_fit(tmp_path: Path) -> None:
    path = DATA / 'fixed.urdf'
    values = {f'body/camera/quat[{i}]': v for i, v in enumerate((0.5, 0.5, -0.5, 0.5))}
    values |= {'body/camera/pos[0]': 0.3, 'body/tcp/mass': 0.2, 'body/tcp/ipos[2]': 0.1}
    _, fitted, urdf = rewrite(path, tmp_path, values)
    (tmp_path / 'again.urdf').write_text(urdf)
    again = load_model(tmp_path / 'again.urdf')
    for row in range(1, fitted.nbody):
        tensors = (full_inertia(m.body_iquat[row], m.body_inertia[row]) for m in (again, fitted))
        np.testing.assert_allclose(*tensors, atol=1e-12)
        turns = (rotation_from_quat(m.body_quat[row]) for m in (again, fitted))
        np.testing.assert_allclose(*turns, atol=1e-9)
    for field in ('body_mass', 'body_ipos', 'body_pos'):
        np.testing.assert_allclose(getattr(again, field), getattr(fitted, field), atol=1e-12)


def test_what_was_implied_and_fitted_is_in_the_mjcf_beside(tmp_path: Path) -> None:
    values = {'actuator/pivot_servo/kp': 12.5, 'joint/pivot/armature': 0.01}
    written, fitted, urdf = rewrite(DATA / 'bare.urdf', tmp_path, values, ('pivot_servo',))
    assert urdf == (DATA / 'bare.urdf').read_text()
    model = mujoco.MjModel.from_xml_path(str(written.path))
    assert model.actuator('pivot_servo').gainprm[0] == 12.5
    assert model.actuator('pivot_servo').biasprm[2] == fitted.actuator_biasprm[0, 2]
    assert 'joint/pivot/armature, 1 implied actuators' in ' '.join(written.notes)
