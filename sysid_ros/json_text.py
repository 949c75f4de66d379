# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What was found, as JSON."""

from __future__ import annotations

import dataclasses
import enum
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np


def plain(value: object) -> Any:
    """Turn a value into what JSON has: objects, lists, texts, finite numbers, booleans and null.

    Dataclasses and named tuples become objects; enums their value; numbers that are not finite
    null, because JSON has none.
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = {item.name: getattr(value, item.name) for item in dataclasses.fields(value)}
    elif isinstance(value, tuple) and hasattr(value, '_asdict'):
        value = value._asdict()
    elif isinstance(value, (np.ndarray, np.generic)):
        value = value.tolist()
    elif isinstance(value, enum.Enum):
        value = value.value
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return str(value) if isinstance(value, Path) else value


def to_json(value: object, *, indent: int | None = None) -> str:
    """Return a value as JSON text in which letters of any alphabet are themselves."""
    return json.dumps(plain(value), indent=indent, ensure_ascii=False, allow_nan=False)
