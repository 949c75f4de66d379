# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A file to write, and what it does not hold."""

from __future__ import annotations

import json
import re
from typing import NamedTuple

from sysid_ros.export.lost import Lost


class Rendered(NamedTuple):
    """The text of a file.

    Attributes:
        text: All of it.
        lost: What it does not hold.
        notes: What to know of it, a sentence each.
        empty: Whether there was nothing to say.
    """

    text: str
    lost: tuple[Lost, ...]
    notes: tuple[str, ...] = ()
    empty: bool = False


def rounded(value: float) -> str:
    """Write a number with nine digits at most: no identified value is known better."""
    return repr(float(f'{value:.9g}'))


def pattern(name: str) -> str:
    """Return the source of a regular expression that matches a name only."""
    escaped = re.escape(name) if re.search(r'[^\w\-/ ]', name) else name
    return json.dumps(escaped, ensure_ascii=False)
