# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""JSON files that hold one object, and sentences about what is wrong in them."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from sysid_ros.errors import nearest

if TYPE_CHECKING:
    from pathlib import Path

    from sysid_ros.errors import SysidError

#: A value is shown with at most so many characters.
_SHOWN = 60


def read_object(path: Path, error: type[SysidError]) -> dict[str, Any]:
    """Read a JSON file that holds one object.

    Args:
        path: The file.
        error: Raised when there is none, or it holds something else.
    """
    try:
        document = json.loads(path.read_text('utf-8-sig'))
    except FileNotFoundError as err:
        beside = path.parent.glob(f'*{path.suffix}') if path.parent.is_dir() else []
        msg = (
            f'There is no file {str(path)!r}; {nearest(path.name, sorted(p.name for p in beside))}.'
        )
        raise error(msg) from err
    except OSError as err:
        msg = f'Cannot read {str(path)!r}: {err.strerror}.'
        raise error(msg) from err
    except json.JSONDecodeError as err:
        place = f'{err.msg} in line {err.lineno}, column {err.colno}'
        msg = f'{str(path)!r} is not valid JSON: {place}.'
        raise error(msg) from err
    except (ValueError, RecursionError) as err:
        msg = f'{str(path)!r} is not valid JSON: it is not UTF-8 text, or nested without end.'
        raise error(msg) from err
    if not isinstance(document, dict):
        msg = f'Expected keys and values in {str(path)!r}, found {shown(document)}.'
        raise error(msg)
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
