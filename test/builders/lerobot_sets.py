# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""LeRobot datasets as its recorder writes them, of both versions."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

#: What an episode holds: (n, joints) states, and as many actions.
Episode = tuple[NDArray[np.float64], NDArray[np.float64]]


def write_dataset(
    folder: Path,
    names: Any,
    episodes: Sequence[Episode],
    *,
    version: str = 'v3.0',
    robot_type: str = 'so101_follower',
    fps: float = 30,
) -> Path:
    """Write a dataset: v2.1 has a file for each episode, v3.0 one for all."""
    parquet = pytest.importorskip('pyarrow.parquet')
    pa = pytest.importorskip('pyarrow')
    features = {
        name: {'dtype': 'float32', 'shape': [episodes[0][0].shape[1]], 'names': names}
        for name in ('observation.state', 'action')
    }
    info = {
        'codebase_version': version,
        'robot_type': robot_type,
        'total_episodes': len(episodes),
        'fps': fps,
        'features': features,
    }
    (folder / 'meta').mkdir(parents=True)
    (folder / 'meta' / 'info.json').write_text(json.dumps(info))
    tables = [
        pa.table(
            {
                'observation.state': pa.array(state.tolist(), pa.list_(pa.float32())),
                'action': pa.array(action.tolist(), pa.list_(pa.float32())),
                'timestamp': pa.array(np.arange(len(state)) / fps, pa.float32()),
                'episode_index': [number] * len(state),
                'next.done': [row == len(state) - 1 for row in range(len(state))],
            }
        )
        for number, (state, action) in enumerate(episodes)
    ]
    chunk = folder / 'data' / 'chunk-000'
    chunk.mkdir(parents=True)
    if version == 'v3.0':
        parquet.write_table(pa.concat_tables(tables), chunk / 'file-000.parquet')
    for number, table in enumerate(tables if version != 'v3.0' else []):
        parquet.write_table(table, chunk / f'episode_{number:06d}.parquet')
    return folder
