# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""``sysid completion``: what makes a shell complete commands and options."""

from __future__ import annotations

from typing import TYPE_CHECKING

from argcomplete.shell_integration import shellcode

if TYPE_CHECKING:
    import argparse


def run(args: argparse.Namespace) -> int:
    """Print lines for a shell to evaluate."""
    print(shellcode(['sysid'], shell=args.shell))  # noqa: T201 (of argcomplete)
    return 0
