# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""``sysid plot``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from sysid_ros.bags import read_bag
from sysid_ros.cli.inspect import load
from sysid_ros.errors import AlignmentError, nearest
from sysid_ros.files import replace_file
from sysid_ros.inspection.figures import draw_joint
from sysid_ros.inspection.inspection import bag_joints

if TYPE_CHECKING:
    import argparse


def run(args: argparse.Namespace) -> int:
    """Draw one picture per joint.

    Raises:
        AlignmentError: The bag tells about no joint, or not about one that was asked for.
    """
    model, mapping = load(args)
    bag = read_bag(args.bag)
    joints = {joint.name: joint for joint in bag_joints(bag, model, mapping, args.stamps).joints}
    if not joints:
        msg = (
            'Expected a topic that names joints, such as sensor_msgs/msg/JointState, in '
            f'{str(args.bag)!r}, {nearest("", [topic.topic for topic in bag.topics])}.'
        )
        raise AlignmentError(msg)
    for name in args.joint or ():
        if name not in joints:
            msg = f'Joint {name!r} is not in the bag; {nearest(name, joints)}.'
            raise AlignmentError(msg)
    folder = args.output or Path(f'{args.bag.resolve().name}_plots')
    for name in dict.fromkeys(args.joint or joints):
        # Names may hold slashes.
        path = folder / f'{quote(name, safe="")}.png'
        replace_file(path, draw_joint(joints[name], f'{name} in {args.bag.name}'))
        print(f'wrote {path}')
    return 0
