# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""MJCF as MuJoCo writes it, with every digit of its numbers."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import mujoco

#: Digits that give the same double again.
_DIGITS = 17
_LIBRARIES = ('libmujoco.so*', 'libmujoco*.dylib', 'mujoco.dll')
_LONG_NUMBER = re.compile(r'(?<![\w.])-?\d+\.\d{7,}(?:e[+-]\d+)?(?!\w)')


def exact_xml(spec: mujoco.MjSpec) -> str:
    """Return the MJCF of a spec."""
    with _all_digits():
        return _shortened(str(spec.to_xml()))


def exact_xml_of_last(model: mujoco.MjModel, path: Path) -> str:
    """Return the MJCF that ``mujoco.MjModel.from_xml_path`` read last, with a model's numbers.

    The file is written over.
    """
    with _all_digits():
        mujoco.mj_saveLastXML(str(path), model)
    return _shortened(path.read_text('utf-8'))


def _shortened(text: str) -> str:
    """Write each number with the fewest digits that read back as the same double."""
    return _LONG_NUMBER.sub(lambda found: repr(float(found[0])).removesuffix('.0'), text)


@contextmanager
def _all_digits() -> Iterator[None]:
    """Let MuJoCo write all digits: six unless told otherwise, by a function only its tests call.

    A MuJoCo without that function writes six; what is written from a model is compared with it.
    """
    folder = Path(mujoco.__file__).parent
    library = ctypes.CDLL(str(next(f for name in _LIBRARIES for f in folder.glob(name))))
    set_digits = getattr(library, '_mjPRIVATE__set_xml_precision', lambda _: None)
    set_digits(_DIGITS)
    try:
        yield
    finally:
        set_digits(6)
