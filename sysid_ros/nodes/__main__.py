# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Start a node: ``ros2 run sysid_ros NAME``, or ``python -m sysid_ros.nodes NAME``."""

import importlib
import sys
from pathlib import Path
from typing import Any, NamedTuple

from sysid_ros.errors import nearest
from sysid_ros.nodes.runtime import EXIT_ERROR, run


class Entry(NamedTuple):
    """Where a node's class is, and how many of its callbacks may run at the same time."""

    module: str
    kind: str
    threads: int = 1

    def load(self) -> Any:
        """Import the class, which needs ROS."""
        return getattr(importlib.import_module(self.module), self.kind)


NODES = {
    # A refit keeps one thread for as long as it fits; the others answer meanwhile.
    'calibrator': Entry('sysid_ros.nodes.calibrator', 'Calibrator', threads=4),
    'exciter': Entry('sysid_ros.nodes.exciter', 'Exciter'),
    'recorder': Entry('sysid_ros.nodes.recorder.node', 'Recorder'),
    'simulated_robot': Entry('sysid_ros.nodes.simulated_robot', 'SimulatedRobot'),
}


def main() -> int:
    """Run the node that the program is called after, else the one that the first argument names.

    Returns:
        Exit code: 0 after a requested end, 2 after an error that a sentence describes.
    """
    program, *arguments = sys.argv
    name = Path(program).name
    if name not in NODES:
        name, *arguments = arguments or ['']
    if name not in NODES:
        sentence = f'Expected the name of a node, found {name!r}; {nearest(name, NODES)}.'
        print(f'sysid_ros.nodes: {sentence}', file=sys.stderr)  # noqa: T201 (there is no logger yet)
        return EXIT_ERROR
    node = NODES[name]
    return run(name, node.load, [name, *arguments], threads=node.threads)


if __name__ == '__main__':
    sys.exit(main())
