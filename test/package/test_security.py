# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""SECURITY.md says what the code does."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

TEXT = (Path(__file__).resolve().parents[2] / 'SECURITY.md').read_text()


def test_limits_are_those_of_the_code():
    rows = re.findall(r'^\| .* \| (\d+)( MiB)? \| `([\w.]+)\.(\w+)` \|$', TEXT, re.MULTILINE)
    assert len(rows) == TEXT.count('| `sysid_ros.')
    for number, unit, module, name in rows:
        limit = getattr(importlib.import_module(module), name)
        assert limit == int(number) << (20 if unit else 0), name
