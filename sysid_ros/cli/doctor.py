# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""``sysid doctor``: what is installed, what of ROS is seen, what is missing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sysid_ros.cli.console import print_document, say
from sysid_ros.cli.documents import DoctorDocument
from sysid_ros.errors import how_many
from sysid_ros.nodes.doctor import Check, State, check_installation, check_ros

if TYPE_CHECKING:
    import argparse

#: Exit code where something that is needed is missing.
LACKING = 1


def run(args: argparse.Namespace) -> int:
    """Say what is there, a line each as it is found."""
    found: list[Check] = []
    for check in (*check_installation(), *check_ros(args.seconds)):
        found.append(check)
        if not args.json:
            remedy = f' → {check.remedy}' if check.remedy else ''
            say(f'{check.state:9}{check.subject}: {check.found}{remedy}')
    missing = [check for check in found if check.state is State.MISSING]
    if args.json:
        print_document(DoctorDocument(found))
    elif missing:
        say(f'{how_many(missing, "thing")} missing: {", ".join(item.subject for item in missing)}.')
    else:
        say('All that is needed is there; what is optional is needed for what its line says.')
    return LACKING if missing else 0
