# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The page, tables and figures of a result; nothing is computed here."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sysid_ros.report.html import render_report, write_report

__all__ = ['render_report', 'write_report']


def __getattr__(name: str) -> object:
    """Load what draws when it is asked for: tables in a terminal need none of it."""
    if name not in __all__:
        raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
    return getattr(import_module(f'{__name__}.html'), name)
