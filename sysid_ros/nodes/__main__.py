# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Start a node: ``ros2 run sysid_ros NAME``, or ``python -m sysid_ros.nodes NAME``."""

import importlib
import sys
from pathlib import Path
from typing import Any

from sysid_ros.errors import nearest
from sysid_ros.nodes.runtime import EXIT_ERROR, run

#: Module and class of each node, and how many of its callbacks may run at the same time.
NODES = {
    # A refit keeps one thread for as long as it fits; the others answer meanwhile.
    'calibrator': ('sysid_ros.nodes.calibrator', 'Calibrator', 4),
    'exciter': ('sysid_ros.nodes.exciter', 'Exciter', 1),
    'recorder': ('sysid_ros.nodes.recorder', 'Recorder', 1),
    'simulated_robot': ('sysid_ros.nodes.simulated_robot', 'SimulatedRobot', 1),
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
    module, kind, threads = NODES[name]

    def load() -> Any:
        """Import the class, which needs ROS."""
        return getattr(importlib.import_module(module), kind)

    return run(name, load, [name, *arguments], threads=threads)


if __name__ == '__main__':
    sys.exit(main())
