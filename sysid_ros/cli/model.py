# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""``sysid model``: what a URDF means."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from sysid_ros.cli.console import note, print_document, say
from sysid_ros.cli.documents import ModelDocument
from sysid_ros.files import check_new, replace_file
from sysid_ros.model.implied import implied_sensors
from sysid_ros.model.loading import compile_spec, read_model
from sysid_ros.model.mjcf.text import decode, encode

if TYPE_CHECKING:
    import argparse


def run(args: argparse.Namespace) -> int:
    """Print or write the MJCF; say on standard error what there is to know of it.

    Raises:
        ConfigError: The file to write exists.
        SysidError: In one sentence, what is wrong with the model.
    """
    check_new(args.output)
    found, spec = read_model(args.model, args.package_path)
    model = compile_spec(spec, args.model)
    text = decode(args.model.read_bytes()) if found.mjcf is None else found.mjcf
    if args.output is not None:
        replace_file(args.output, encode(text))
    notes = list(found.notes)
    sensors = len(implied_sensors(spec))
    if sensors:
        notes.append(f'Nothing measures its joints: {sensors} sensors of them are implied.')
    if not spec.actuators:
        notes.append(
            'Nothing drives it: servos or motors are implied for what a bag has commands for.'
        )
    mass = float(model.body_mass.sum())
    counts = model.nbody - 1, model.njnt, model.nactuator
    if args.json:
        print_document(ModelDocument(text, args.output, *counts, mass, notes))
        return 0
    if args.output is None:
        _print(text)
    note(args, '{} bodies, {} joints, {} actuators, {:.4g} kg'.format(*counts, mass))
    for sentence in notes:
        note(args, sentence)
    if args.output is not None:
        say(f'wrote {args.output}')
    return 0


def _print(text: str) -> None:
    """Print a file as it is, and to a terminal such that everything in it is seen."""
    if not sys.stdout.isatty():
        print(text, end='')  # noqa: T201
        return
    for line in text.splitlines():
        say(line.expandtabs())
