# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Every source file says whose it is and under which licence."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]
HEADER = '# Copyright 2026 The sysid_ros authors\n# SPDX-License-Identifier: Apache-2.0\n'
FOLDERS = ('sysid_ros', 'test', 'benchmarks', 'examples')
SOURCES = sorted(
    path.relative_to(ROOT)
    for path in (
        ROOT / 'setup.py',
        *(path for name in FOLDERS for path in (ROOT / name).rglob('*.py')),
    )
)


def test_python_files_start_with_copyright_and_licence():
    texts = {path: (ROOT / path).read_text('utf-8') for path in SOURCES}
    without = [
        str(path)
        for path, text in texts.items()
        if not text.removeprefix('#!/usr/bin/env python3\n').startswith(HEADER)
    ]

    assert len(texts) > 300
    assert without == []


def test_the_licence_named_in_the_headers_is_the_one_that_is_shipped():
    text = (ROOT / 'LICENSE').read_text('utf-8')

    assert 'Apache License' in text
    assert 'Version 2.0, January 2004' in text
