# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Capture on the robot, calibration of its MuJoCo model.

``import sysid_ros as so``, then ``so.calibrate(model, bags, parameters)`` and ``so.read(bag,
model)``; ``so.Result.load(path)`` reads what was stored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sysid_ros.version import __version__

if TYPE_CHECKING:
    from sysid_ros.api import AlignedBag, Parameters, Result, calibrate, read

__all__ = ['AlignedBag', 'Parameters', 'Result', '__version__', 'calibrate', 'read']


def __getattr__(name: str) -> object:
    """Load the front door when it is asked for: nodes and ``sysid --help`` need none of it."""
    if name not in __all__:
        raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
    from sysid_ros import api  # noqa: PLC0415 (see above)

    return getattr(api, name)


def __dir__() -> list[str]:
    return sorted(__all__)
