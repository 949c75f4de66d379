# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Fleets of recorded pendulums: one robot whose stretches of a recording stand for several."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import yaml

from builders.recorded_pendulum import FEW, FOLDER

#: Seconds from where each robot's 2 s of training begin.
STARTS = {'ann': 0.0, 'bob': 0.4}


def make_fleet(folder: Path, **robots: dict[str, Any]) -> Path:
    """Write a fleet whose robots take a second or two each, and return its ``fleet.yaml``."""
    shutil.copytree(FOLDER, folder)
    base = {
        'model': 'arm.xml',
        'parameters': [{'target': entry.target} for entry in FEW],
        'report': {'film': False},
        'validation': {'horizon': [0.1, 0.2]},
    }
    entries = {
        name: {
            'train': 'train',
            'validate': ['validate'],
            'overrides': {
                'segments.times': {'train': [[start, start + 2.0]], 'validate': [[0.0, 1.5]]}
            },
        }
        for name, start in STARTS.items()
    }
    document = {
        'base': base,
        'robots': [{'name': name, **keys} for name, keys in {**entries, **robots}.items()],
    }
    path = folder / 'fleet.yaml'
    path.write_text(yaml.safe_dump(document, sort_keys=False))
    return path
