# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""How the numbers of a message type are named: one entry per type.

The definition of a type says where its numbers are; types without an entry are named by it alone. A
type whose messages carry names (of joints, of frames) has an entry that says where they are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from sysid_ros.bags.cdr import NumberRun

#: A text that is published once, as a robot description, or markers: not numbers, but read.
TEXT = 'std_msgs/msg/String'
#: Setpoints by joint name, read point by point: :mod:`~sysid_ros.bags.reader`.
JOINT_TRAJECTORY = 'trajectory_msgs/msg/JointTrajectory'
#: What a joint_trajectory_controller asked for, measured and sent to the motors.
CONTROLLER_STATE = 'control_msgs/msg/JointTrajectoryControllerState'
#: State of joints by name; on topics whose names say so, commands.
JOINT_STATE = 'sensor_msgs/msg/JointState'
#: What is measured beside joints, wherever a robot publishes it.
IMU, WRENCH = 'sensor_msgs/msg/Imu', 'geometry_msgs/msg/WrenchStamped'
#: With this in the name of their topic, commands that drives got, stamped when they did.
_APPLIED = 'applied'
#: Steps or velocities by joint name, as of a joystick.
JOINT_JOG = 'control_msgs/msg/JointJog'
#: Parts of a controller's state that it asks for at each moment: between two messages as well.
_ASKED = ('reference.', 'desired.')
_INTERFACE = re.compile(r'interface_values\[(\d+)\]\.values')
_TRANSFORM = re.compile(r'(transforms\[\d+\])\.transform\.(translation|rotation)')


#: Gives the numbers of a message the fields and labels that they have as columns. It gets them as
#: the definition alone has them (paths as fields, indices as labels), and the message's strings by
#: their paths.
Labeller = Callable[[Iterable[NumberRun], Mapping[str, tuple[str, ...]]], Iterable[NumberRun]]


def labels_for(names: Sequence[str], width: int) -> tuple[str, ...]:
    """Return one distinct label per element of an array.

    Names that are not as many as the values say nothing of whose they are: the index is the label
    then, as where a name is empty. One that is there twice gets the index behind it.
    """
    labels: list[str] = []
    for index in range(width):
        name = (len(names) == width and names[index]) or str(index)
        labels.append(f'{name}[{index}]' if name in labels else name)
    return tuple(labels)


def named_by(path: str, fields: str = '.*') -> Labeller:
    """Label the elements of arrays by the strings of another array.

    Args:
        path: The array of strings.
        fields: Regular expression for the arrays that it names.
    """
    named = re.compile(fields)

    def label(
        parts: Iterable[NumberRun], texts: Mapping[str, tuple[str, ...]]
    ) -> Iterator[NumberRun]:
        for part in parts:
            if named.fullmatch(part.field):
                yield part._replace(labels=labels_for(texts.get(path, ()), len(part.labels)))
            else:
                yield part

    return label


def only_data(parts: Iterable[NumberRun], _: Mapping[str, tuple[str, ...]]) -> Iterator[NumberRun]:
    """Leave out the layout of an array, whose elements have their index as label."""
    return (part for part in parts if part.field == 'data')


def interfaces_of_joints(
    parts: Iterable[NumberRun], texts: Mapping[str, tuple[str, ...]]
) -> Iterator[NumberRun]:
    """Make each interface (position, temperature …) a field of the joints that have it."""
    found = [(part, int(match[1])) for part in parts if (match := _INTERFACE.fullmatch(part.field))]
    joints = labels_for(texts['joint_names'], 1 + max((joint for _, joint in found), default=-1))
    for part, joint in found:
        names = texts.get(f'interface_values[{joint}].interface_names', ())
        for index, interface in enumerate(labels_for(names, len(part.labels))):
            yield part._replace(
                field=interface,
                labels=(joints[joint],),
                start=part.start + index * part.itemsize,
            )


def transforms_by_child_frame(
    parts: Iterable[NumberRun], texts: Mapping[str, tuple[str, ...]]
) -> Iterator[NumberRun]:
    """Make translation and rotation of each frame a field, such as ``tool0.translation``.

    A message holds some of the robot's transforms, others each time: a field is NaN where a message
    has no transform of its frame.
    """
    taken: set[str] = set()
    for part in parts:
        match = _TRANSFORM.fullmatch(part.field)
        if match is None:
            continue
        field = f'{texts[f"{match[1]}.child_frame_id"][0]}.{match[2]}'
        # A frame that is there twice: the first counts.
        if field not in taken:
            taken.add(field)
            yield part._replace(field=field)


_LABELLERS: Mapping[str, Labeller] = {
    JOINT_STATE: named_by('name'),
    # Older versions of the type say desired and actual instead of reference and feedback.
    CONTROLLER_STATE: named_by('joint_names', r'\w+\.(positions|velocities|accelerations|effort)'),
    JOINT_JOG: named_by('joint_names', 'displacements|velocities'),
    'control_msgs/msg/DynamicJointState': interfaces_of_joints,
    'tf2_msgs/msg/TFMessage': transforms_by_child_frame,
}


def canonical(msgtype: str) -> str:
    """Return a type, of copies of JointState in other packages the original."""
    own = JOINT_STATE.rpartition('/')[2]
    return JOINT_STATE if msgtype.rpartition('/')[2] == own else msgtype


def labeller(msgtype: str) -> Labeller | None:
    """Return what names the columns of a type; a type that carries names needs an entry above."""
    is_array = re.fullmatch(r'std_msgs/msg/(U?Int|Float)\d+MultiArray', msgtype)
    return only_data if is_array else _LABELLERS.get(canonical(msgtype))


def is_interpolated(msgtype: str, field: str) -> bool:
    """Tell whether a field changes linearly between messages, rather than holding."""
    return msgtype == CONTROLLER_STATE and field.startswith(_ASKED)


def is_applied(msgtype: str, topic: str, field: str = '') -> bool:
    """Tell whether commands in a field were applied at the stamps in their headers.

    A controller stamps its outputs with its update, and a driver may say what it did.
    """
    if msgtype == CONTROLLER_STATE:
        return field.startswith('output.')
    return canonical(msgtype) == JOINT_STATE and _APPLIED in topic.rpartition('/')[2].lower()


#: Message type to why it is not read: its numbers make no time series.
NOT_NUMBERS: Mapping[str, str] = {
    'diagnostic_msgs/msg/DiagnosticArray': 'diagnostics are texts, each message about other things',
    'rcl_interfaces/msg/Log': 'log messages are texts',
    'rcl_interfaces/msg/ParameterEvent': 'events are about other parameters each time',
    'rosgraph_msgs/msg/Log': 'log messages are texts',
}
