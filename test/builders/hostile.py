# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Names as only an enemy chooses them, and a bag and a model that have such names."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Sequence
from pathlib import Path

import mujoco
import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from rosbags.typesys import Stores, get_typestore

from sysid_ros.bags import BagWriter

#: So many lists of names each test takes, each of up to `MOST` names.
EXAMPLES = int(os.environ.get('SYSID_HOSTILE_EXAMPLES', '16'))
MOST = 8
#: Unicode's categories of what does something to a terminal, or is not seen.
DANGEROUS = ('Cc', 'Cf', 'Cs', 'Zl', 'Zp')
_PIECES = (
    # Terminals: colours, a title, C1's CSI, line breaks of all kinds, directions, no width.
    *('\x1b[31m', '\x1b]0;title\x07', '\x1b[2J', '\x9b31m', '\x00', '\x08', '\x7f'),
    *('\n', '\r', '\r\n', '\t', '\x0b', '\x0c', '\x85', '\u2028', '\u2029'),
    *('\u202e', '\u2066', '\u200b', '\u200d', '\ufeff', '\xad', '\U000e0041'),
    # rich and Jinja
    *('[red]', '[/]', '[link=http://e]', '[bold', ':smile:', '{{ 7 * 7 }}', '{% raw %}'),
    # HTML and XML
    *('<b>', '</script><script>evil()</script>', '<a href="javascript:evil()">', '<img src=x '),
    *('" onclick="evil()', "' x='", '&amp;', '&#10;', ']]>', '<!--', '-->', '--', '<?x', '</pre>'),
    # YAML, JSON and CSV
    *('# ', ' #', ': ', '\nevil: 1', '- ', '? ', '&a ', '*a', '!!python/object:x', '%', '|', '>'),
    *('@', '`', '~', '{', '}', '[', ']', ',', '"', "'", '\\', '\\n', '""', 'null', 'yes', '1e3'),
    *('---', '...', '=1+1', '+1', '-1', '@SUM(1)', ';', '1_000', '2001-13-13', '<<'),
    # Files, formulas, letters that some take for the same
    *('/', '../', '..', '.', '-rf', 'con', '*', '$\\foo$', '$', '%s', '_', ' ', '\xa0'),
    *('a', 'A', 'e\u0301', 'é', 'ß', 'ss', 'ﬁ', '﷽', '😀', '上'),
)
_PIECE = st.one_of(
    st.sampled_from(_PIECES),
    st.text(max_size=4),
    st.characters(categories=['Cc', 'Cf', 'Zl', 'Zp']),
)
_LONG = st.tuples(st.sampled_from(_PIECES), st.integers(300, 5000)).map(
    lambda found: (found[0] * found[1])[: found[1]]
)
#: Of the characters that a file can hold; ROS has no others.
hostile_name = st.one_of(st.lists(_PIECE, max_size=6).map(''.join), _LONG).filter(
    lambda name: not any('\ud800' <= letter <= '\udfff' for letter in name)
)
hostile_names = st.lists(hostile_name, min_size=1, max_size=MOST)
#: Halves of surrogate pairs among them, which Python lets through.
any_names = st.lists(
    st.tuples(hostile_name, st.sampled_from(['', '\ud800', '\udfff'])).map(''.join),
    min_size=1,
    max_size=MOST,
)
#: The same names each time, however long a machine takes for them.
often = settings(
    max_examples=EXAMPLES, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)
rarely = settings(often, max_examples=EXAMPLES // 3)


def unseen(text: str) -> set[str]:
    """Return what of a text does something to a terminal, line breaks aside."""
    return {letter for letter in set(text) - {'\n'} if unicodedata.category(letter) in DANGEROUS}


#: Names for one bag, each kind of evil once.
NAMES = (
    'a\nevil: {topic: /x}\n#',
    '\x1b[31mred\x1b]0;title\x07',
    '[red]x[/red]',
    '<b>z</b></script>',
    '../../up',
    '-rf',
    '\u202eback\u200b\x9b31m',
    ':smile: $\\foo$',
    'A',
    'a',
    'long' * 1250,
)


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
    store = get_typestore(Stores.ROS2_JAZZY)
    state = store.types['sensor_msgs/msg/JointState']
    header, time = (
        store.types[f'{name}'] for name in ('std_msgs/msg/Header', 'builtin_interfaces/msg/Time')
    )
    kind = 'sensor_msgs/msg/JointState'
    with BagWriter(path) as writer:
        writer.set_facts({'notes': ''.join(names[:-1]), 'host': names[1], 'version': names[2]})
        for name in (topic, f'{topic}_command'):
            writer.add_topic(name, kind)
        for sample in range(300):
            phase = 0.02 * sample + np.arange(len(names))
            stamp = 1_700_000_000_000_000_000 + sample * 10_000_000
            at = header(time(stamp // 10**9, stamp % 10**9), frame_id=names[0])
            moved = np.sin(phase)
            speed = 2 * np.cos(phase)
            nothing = np.array([])
            for name, message in (
                (topic, state(at, list(names), moved, speed, nothing)),
                (f'{topic}_command', state(at, list(names), moved, nothing, nothing)),
            ):
                writer.write(name, stamp, bytes(store.serialize_cdr(message, kind)))
    return path
