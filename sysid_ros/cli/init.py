# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""``sysid init``: a calibration.yaml for what is there."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from sysid_ros.cli.console import print_document, progress_for, say
from sysid_ros.cli.documents import InitDocument
from sysid_ros.errors import ConfigError, how_many, some

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence
    from pathlib import Path

    from sysid_ros.pipeline.proposal import CalibrationProposal

#: Exit code where the recordings tell nothing of the model.
NOTHING_TOLD = 1
#: Name of the mapping file beside the configuration.
_MAPPING = 'mapping.yaml'


def run(args: argparse.Namespace) -> int:
    """Propose a calibration, write it, and say what to type next.

    Raises:
        ConfigError: A file to write exists already.
        SysidError: In one sentence, what is wrong with recordings or model.
    """
    _check_absent(args.output, force=args.force)
    # Imported late, so that a file in the way is told at once.
    from sysid_ros.alignment.mapping import proposal as mapping  # noqa: PLC0415
    from sysid_ros.files import replace_file  # noqa: PLC0415
    from sysid_ros.pipeline.proposal import (  # noqa: PLC0415
        InitOptions,
        propose_calibration,
        sort_arguments,
    )
    from sysid_ros.pipeline.proposal_text import to_yaml  # noqa: PLC0415

    bags, model = sort_arguments(args.paths)
    options = InitOptions(tuple(args.package_path), args.namespace)
    with progress_for(args) as progress:
        found = propose_calibration(bags, model, options, progress)
    folder = args.output.parent
    written = [args.output]
    if found.mapping is not None:
        place = folder / _MAPPING
        _check_absent(place, force=args.force)
        text = mapping.to_yaml(found.mapping, found.model.name)
        replace_file(place, text.encode())
        written.append(place)
    replace_file(args.output, to_yaml(found, folder, _MAPPING).encode())
    if args.json:
        print_document(_document(found, written))
    else:
        if not args.quiet:
            _print(found)
        for path in written:
            say(f'wrote {path}')
        if not args.quiet:
            _print_next(found, args.output)
    return 0 if found.chosen else NOTHING_TOLD


def _check_absent(path: Path, *, force: bool) -> None:
    if path.exists() and not force:
        msg = (
            f'{str(path)!r} exists already and may be edited; choose another name with -o, or '
            'replace it with --force.'
        )
        raise ConfigError(msg)


def _document(found: CalibrationProposal, written: Sequence[Path]) -> InitDocument:
    """Return what was chosen, for programs."""
    from sysid_ros.alignment.mapping.proposal import summary  # noqa: PLC0415 (heavy)

    return InitDocument(
        written,
        found.model,
        found.model_notes,
        found.bags,
        None if found.mapping is None else summary(found.mapping),
        found.estimator,
        found.targets,
        found.notes,
        found.problem,
        found.question,
    )


def _print(found: CalibrationProposal) -> None:
    from sysid_ros.pipeline.proposal_text import said_of  # noqa: PLC0415

    say(f'model     {found.model}')
    for note in found.model_notes:
        say(f'          {note}')
    for bag in found.bags:
        if bag.role is None:
            say(f'unusable  {bag.path}: {bag.why}')
        else:
            say(f'{bag.role:9} {bag.path}: {said_of(bag)}')
            for finding in bag.findings:
                say(f'            {finding}')
    _print_mapping(found)
    _print_targets(found)


def _print_mapping(found: CalibrationProposal) -> None:
    from sysid_ros.pipeline.proposal_text import guesses  # noqa: PLC0415

    if found.mapping is None:
        say('mapping   auto: the names of recordings and model agree')
    else:
        pairs = found.mapping.pairs
        doubtful = [pair for pair in pairs if not pair.confident]
        certain = len(pairs) - len(doubtful)
        say(f'mapping   {_MAPPING}: {certain} of {len(pairs)} pairs are certain')
        for pair in doubtful:
            say(f'            look at {pair.role.value} {pair.name}: {pair.reason}')
    if found.guessed:
        say(f'            look at that: {guesses(found)}')
    if found.question:
        say(f'            {found.question}')


def _print_targets(found: CalibrationProposal) -> None:
    from sysid_ros.pipeline.proposal_text import by_attribute  # noqa: PLC0415

    say(f'identify  {how_many(found.chosen, "parameter")} of {len(found.targets)}')
    for reason in dict.fromkeys(item.left_out for item in found.targets if item.left_out):
        own = [item for item in found.targets if item.left_out == reason]
        say(f'            left out {some(item.target for item in by_attribute(own))}: {reason}')
    for note in found.notes:
        say(note)
    if found.problem:
        say(f'The first steps of a fit could not be taken: {found.problem}')


def _print_next(found: CalibrationProposal, output: Path) -> None:
    from sysid_ros.pipeline.proposal_text import second_name  # noqa: PLC0415

    trained = found.of_role('train')
    if not found.chosen:
        _print_record(found, trained[0].path)
        return
    if not found.of_role('validate'):
        say('Nothing is held out: record another motion, and repeat sysid init with both:')
        say(f'  {_record(second_name(trained[0].path))}')
    file = shlex.quote(str(output))
    say('Correct that in the file, then:' if found.problem else 'Next:')
    say(f'  sysid preflight {file}')
    say(f'  sysid calibrate {file}')


def _print_record(found: CalibrationProposal, bag: Path) -> None:
    """Say how to record what tells more."""
    targets = dict.fromkeys(item.pattern for item in found.targets if item.target[:6] == 'joint/')
    asked = ' '.join(f"'{target}'" for target in targets or ['joint/*/armature'])
    model = shlex.quote(str(found.model))
    say('These recordings tell nothing of this model. Name the right model, or record a motion')
    say('that tells more, of 10 s or longer, and repeat sysid init with it:')
    say(f'  sysid excite {model} --for {asked} -o motion.csv')
    say(f'  {_record(str(bag.with_name("train_2")))}')
    say(f'  ros2 launch sysid_ros excite.launch.xml model:={model} motion:=motion.csv')


def _record(bag: str) -> str:
    return f'ros2 launch sysid_ros record.launch.xml output:={shlex.quote(bag)}'
