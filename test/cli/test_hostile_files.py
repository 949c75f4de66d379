# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A path that is no file, or is too large, costs a sentence wherever it is named.

`benchmarks/robustness.py` tries more of both.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from builders.cli_project import Project, Sysid

#: Ending of a file, and a command line with it in the place of ``@``, for each way to name one.
NAMED = (
    ('.mcap', 'inspect @'),
    ('.db3', 'convert @ arm.xml -o new'),
    ('.bag', 'predict arm.xml @ -o new'),
    ('.csv', 'map @ arm.xml'),
    ('.parquet', 'inspect @'),
    ('.db3.zstd', 'predict arm.xml @ -o new'),
    ('.xml', 'model @'),
    ('.urdf', 'init train @ -o new'),
    ('.xacro', 'convert train @ -o new'),
    ('.yaml', 'preflight @'),
    ('.yaml', 'inspect train arm.xml --mapping @'),
    ('.yaml', 'convert train arm.xml -o new --segments @'),
    ('.json', 'predict @ validate -o new'),
    ('.json', 'check calibration.yaml --no-fit --baseline @'),
    ('.json', 'servo export --params @ -o new'),
)


def _sparse(path: Path) -> None:
    path.touch()
    os.truncate(path, 10 << 30)


MADE = {
    'device': lambda path: path.symlink_to('/dev/zero'),
    'pipe': os.mkfifo,
    'folder': Path.mkdir,
    '10 GB': _sparse,
    'loop': lambda path: path.symlink_to(path),
    'nothing': lambda _: None,
    'empty': Path.touch,
    'zeros': lambda path: path.write_bytes(bytes(100_000)),
    'brackets': lambda path: path.write_text('<[{' * 30_000),
}


@pytest.mark.parametrize('kind', MADE)
def test_what_is_no_file_is_a_sentence(kind: str, project: Project, sysid: Sysid):
    for number, (ending, line) in enumerate(NAMED):
        path = project.folder / f'in_{number}{ending}'
        MADE[kind](path)
        done = sysid(*line.replace('@', path.name).split())
        assert done.code == 2, (line, done)
        last = done.err.rstrip('\n').rpartition('\n')[2]
        assert last.startswith('sysid: '), (line, done.err)
        assert last.endswith('.'), (line, done.err)
        assert 'Errno' not in last
        assert not (project.folder / 'new').exists()
