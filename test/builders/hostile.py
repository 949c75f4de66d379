# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Names as only an enemy chooses them, and a bag and a model that have such names."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import mujoco
import numpy as np

from builders import messages
from sysid_ros.bags.writer import BagWriter

#: Unicode's categories of what does something to a terminal, or is not seen.
DANGEROUS = ('Cc', 'Cf', 'Cs', 'Zl', 'Zp')
#: Each kind of evil once: for terminals, rich, Jinja, HTML, XML, YAML, CSV, files and formulas.
NAMES = (
    'a\nevil: {topic: /x}\n#',
    '\x1b[31mred\x1b]0;title\x07',
    '[red]x[/red]',
    '<b>z</b></script><script>evil()</script>',
    '" onclick="evil()',
    "' x='",
    '<img src=x onerror=evil()>',
    ']]>&#10;<!--',
    '{{ 7 * 7 }}{% raw %}',
    '../../up',
    '-rf',
    '\u202eback\u200b\x9b31m\u2028\x85',
    ':smile: $\\foo$',
    '=1+1',
    'null',
    '!!python/object:x &a *a',
    '%s \\n',
    'é 上 😀',
    'A',
    'a',
    'long' * 1250,
)

#: Half of a pair of surrogates, too, which Python lets through and no file can hold.
EVERY = (*NAMES, '\ud800', 'e\u0301', 'x\x00y', '\ufffe', '::error::', '|`<b>')
#: What a name of as many letters as any other is replaced by.
HARMLESS = 'name'


def poisoned(value: Any, name: str, key: str = '') -> Any:
    """Put a name behind every free text of a result."""
    if isinstance(value, dict):
        return {k: poisoned(item, name, k) for k, item in value.items()}
    if isinstance(value, (tuple, list)):
        return type(value)(poisoned(item, name, key) for item in value)
    return f'{value}{name}' if type(value) is str and key != 'role' else value


def unseen(text: str) -> set[str]:
    """Return what of a text does something to a terminal, line breaks aside."""
    return {letter for letter in set(text) - {'\n'} if unicodedata.category(letter) in DANGEROUS}


def model_spec(names: Sequence[str]) -> mujoco.MjSpec:
    """Return a model with a hinge, a servo and two sensors for each name."""
    spec = mujoco.MjSpec()
    spec.option.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONTACT
    for name in names:
        body = spec.worldbody.add_body()
        body.add_joint(name=name, axis=[0, 1, 0], damping=[0.1, 0, 0])
        body.add_geom(size=[0.1, 0, 0], mass=1, pos=[0.2, 0, 0])
        spec.add_actuator(
            name=name, target=name, trntype=mujoco.mjtTrn.mjTRN_JOINT
        ).set_to_position(kp=50)
        for kind, end in (
            (mujoco.mjtSensor.mjSENS_JOINTPOS, 'pos'),
            (mujoco.mjtSensor.mjSENS_JOINTVEL, 'vel'),
        ):
            spec.add_sensor(
                name=f'{name}_{end}', type=kind, objtype=mujoco.mjtObj.mjOBJ_JOINT, objname=name
            )
    return spec


def record(path: Path, names: Sequence[str] = NAMES, topic: str = '/\x1b[31mjoints\n[red]') -> Path:
    """Write a bag of joints with such names, on such a topic, with such notes."""
    kind = 'sensor_msgs/msg/JointState'
    with BagWriter(path) as writer:
        writer.set_facts({'notes': ''.join(names[:-1]), 'host': names[1], 'version': names[2]})
        for name in (topic, f'{topic}_command'):
            writer.add_topic(name, kind)
        for sample in range(300):
            phase = 0.02 * sample + np.arange(len(names))
            stamp = 1_700_000_000_000_000_000 + sample * 10_000_000
            moved, speed = np.sin(phase), 2 * np.cos(phase)
            state = messages.joint_state(stamp, names, moved, speed, frame=names[0])
            writer.write(topic, stamp, state)
            command = messages.joint_state(stamp, names, moved, frame=names[0])
            writer.write(f'{topic}_command', stamp, command)
    return path
