# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""JSON without NaN: what was found is written, and files that hold one object are read."""

from __future__ import annotations

import dataclasses
import enum
import json
import math
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from sysid_ros.errors import SysidError
from sysid_ros.files import beside
from sysid_ros.text import in_json

#: A value is shown with at most so many characters.
_SHOWN = 60


def plain(value: object) -> Any:
    """Turn a value into what JSON has: objects, lists, texts, finite numbers, booleans and null.

    Dataclasses, named tuples and pydantic's models become objects; enums their value; numbers that
    are not finite null, because JSON has none.
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = {item.name: getattr(value, item.name) for item in dataclasses.fields(value)}
    elif isinstance(value, tuple) and hasattr(value, '_asdict'):
        value = value._asdict()
    elif hasattr(value, 'model_dump'):
        value = value.model_dump()
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
    return in_json(json.dumps(plain(value), indent=indent, ensure_ascii=False, allow_nan=False))


def read_object(path: Path, error: type[SysidError], what: str = 'file') -> dict[str, Any]:
    """Read a JSON file that holds one object.

    Args:
        path: The file.
        error: Raised when there is none, or it holds something else.
        what: What it is, for people.
    """
    try:
        text = path.read_text('utf-8-sig')
        document = json.loads(text)
        if '\\ud' in text.lower():
            # Half of a pair of surrogates could not be written again.
            json.dumps(document, ensure_ascii=False).encode()
    except FileNotFoundError as err:
        raise error(f'There is no {what} {str(path)!r}; {beside(path)}.') from err
    except OSError as err:
        raise error(f'Cannot read the {what} {str(path)!r}: {err.strerror}.') from err
    except json.JSONDecodeError as err:
        place = f'{err.msg} in line {err.lineno}, column {err.colno}'
        raise error(f'{str(path)!r} is not valid JSON: {place}.') from err
    except (ValueError, RecursionError) as err:
        # It is not UTF-8, has a number without end, or is nested without end.
        reason = str(err).partition(';')[0]
        raise error(f'{str(path)!r} is not valid JSON: {reason}.') from err
    if not isinstance(document, dict):
        raise error(f'Expected keys and values in {str(path)!r}, found {shown(document)}.')
    return document


def is_number(value: object) -> bool:
    """Tell whether a value of a file is a finite number; true and false are 1 and 0."""
    # Whole numbers may be larger than any float.
    return isinstance(value, int | float) and abs(value) <= sys.float_info.max


def bad_value(path: Path, place: str, value: object, expected: str) -> str:
    """Return a sentence about a value that is not what it must be."""
    return f'Bad value {shown(value)} for {place!r} in {str(path)!r}: expected {expected}.'


def shown(value: object) -> str:
    """Return a value as JSON has it, cut where it is long."""
    text = json.dumps(value)
    return text if len(text) <= _SHOWN else f'{text[:_SHOWN]}…'
