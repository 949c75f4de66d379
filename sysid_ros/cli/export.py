# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""``sysid export``."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse

    from sysid_ros.cli.documents import ExportDocument
    from sysid_ros.export.export import Exported


def run(args: argparse.Namespace) -> int:
    """Write an identified model in another format; say what was written and what is lost.

    Raises:
        SysidError: In one sentence, what is wrong; nothing was written.
    """
    from sysid_ros.cli.console import print_document, say  # noqa: PLC0415 (heavy)
    from sysid_ros.export.export import (  # noqa: PLC0415 (heavy)
        ExportFormat,
        ExportRequest,
        Samples,
        export,
    )

    request = ExportRequest(
        format=ExportFormat(args.format),
        output=args.output,
        model=args.model,
        urdf=args.urdf,
        packages=tuple(args.package_path),
        samples=None if args.samples is None else Samples(args.samples, args.seed),
    )
    found = export(args.result, request)
    if args.json:
        print_document(_document(found))
        return 0
    if found.lost:
        say(f'identified, and not in a file of format {found.format}:')
    for entry in found.lost:
        say(f'  {entry}')
    for note in found.notes:
        say(note)
    for path in found.files:
        say(f'wrote {path}')
    if found.drawn is not None:
        first, last = found.drawn.files[0], found.drawn.files[-1]
        say(f'wrote {len(found.drawn.files)} samples: {first} to {last}')
    return 0


def _document(found: Exported) -> ExportDocument:
    from sysid_ros.cli.documents import ExportDocument, SamplesDocument  # noqa: PLC0415

    drawn = found.drawn
    samples = drawn and SamplesDocument(
        drawn.files, drawn.beyond_bounds, drawn.refused, drawn.by_parameter
    )
    return ExportDocument(found.format, found.files, found.lost, found.notes, samples)
