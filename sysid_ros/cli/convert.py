# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""``sysid convert``, and ``sysid map``, which proposes the mapping that it needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sysid_ros.alignment import Format
from sysid_ros.alignment.mapping.arms import in_namespace
from sysid_ros.alignment.mapping.implied import propose_with_actuators
from sysid_ros.alignment.mapping.proposal import CONFIDENCE, summary, to_yaml
from sysid_ros.bags import read_bag
from sysid_ros.cli.console import make_console, note, print_document, say
from sysid_ros.cli.documents import ConversionDocument
from sysid_ros.config import load_segments
from sysid_ros.errors import ConfigError
from sysid_ros.files import check_new, replace_file
from sysid_ros.model.implied import implied_sentence
from sysid_ros.model.loading import read_model
from sysid_ros.report.alignment import print_alignment

if TYPE_CHECKING:
    import argparse

#: What is written when no format is given.
DEFAULT_FORMATS = ('npz', 'csv')


def run(args: argparse.Namespace) -> int:
    """Align a bag with a model, print what was found, write the series.

    Raises:
        ConfigError: A format is given and no folder to write into.
    """
    from sysid_ros.pipeline.calibration import convert  # noqa: PLC0415 (a mapping is made without it)
    from sysid_ros.pipeline.loading import ReadOptions  # noqa: PLC0415

    if args.formats and args.output is None:
        msg = f'Expected --output DIR for the {args.formats[0]} files, found none.'
        raise ConfigError(msg)
    alignment, written = convert(
        args.bag,
        args.model,
        args.output,
        ReadOptions(
            mapping=args.mapping,
            stamps=args.stamps,
            segments=None if args.segments is None else load_segments(args.segments),
            namespace=args.namespace,
            packages=args.package_path,
        ),
        formats=[Format(name) for name in args.formats or DEFAULT_FORMATS],
    )
    if args.json:
        print_document(
            ConversionDocument(
                alignment.bag,
                alignment.pairs,
                alignment.unmapped,
                alignment.topics,
                alignment.health,
                written,
            )
        )
        return 0
    print_alignment(make_console(), alignment)
    for path in written:
        say(f'wrote {path}')
    return 0


def propose_mapping(args: argparse.Namespace) -> int:
    """Propose a mapping; print it, or write it and say what to look at."""
    check_new(args.output)
    path = args.model or args.bag
    described, spec = read_model(path, args.package_path)
    bag = in_namespace(read_bag(args.bag), args.namespace)
    proposal = propose_with_actuators(spec, path, bag)
    notes = [*described.notes, implied_sentence(spec)]
    notes = [sentence for sentence in notes if sentence]
    text = to_yaml(proposal, path.name, notes)
    if args.output is not None:
        replace_file(args.output, text.encode())
    if args.json or args.output is not None:
        for sentence in notes:
            note(args, sentence)
    if args.json:
        print_document(summary(proposal))
    elif args.output is None:
        print(text, end='')  # noqa: T201 (escaped as YAML)
    else:
        doubtful = [pair for pair in proposal.pairs if not pair.confident]
        say(f'{len(proposal.pairs) - len(doubtful)} of {len(proposal.pairs)} pairs are certain')
        for pair in doubtful:
            say(f'  look at {pair.role.value} {pair.name}: {pair.score:.2f} {pair.reason}')
        if doubtful:
            say(f'Pairs below {CONFIDENCE:g} are commented out.')
        say(f'wrote {args.output}')
    return 0
