# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A proposed calibration as a commented ``calibration.yaml``."""

from __future__ import annotations

import dataclasses
import glob
import math
import os
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from sysid_ros.errors import some
from sysid_ros.pipeline.proposal import CalibrationProposal, ProposedBag, ProposedTarget
from sysid_ros.text import one_line
from sysid_ros.yaml_text import scalar

#: Comments are folded here.
_WIDTH = 100
#: What a kind of target is, for people.
_MEANINGS = {
    'armature': 'Inertia of motor and gear at the joint, kg·m² (kg at a slide).',
    'damping': 'Friction that grows with speed, N·m·s/rad (N·s/m at a slide).',
    'frictionloss': 'Dry friction, N·m (N at a slide).',
    'kp': 'Stiffness of the position servos, N·m/rad.',
    'kv': 'Damping of the servos, N·m·s/rad.',
    'delay': 'From the stamp of a command to the servo, s: one for all.',
    'mass_scaled': 'What the last body weighs, kg, with the inertia of that: a tool or payload.',
}

#: Why another estimator than auto.
_ESTIMATORS = {
    'windows': 'Simulations of whole recordings diverge with these values of the model, so windows '
    'that start where the robot was are compared.',
    'torque': 'Simulations of whole recordings diverge or lack commands, so the forces along the '
    'measured motion are compared.',
}


_WITHOUT_VELOCITIES = (
    'What is compared. Velocities are left out: drivers that report no efforts derive them from '
    'positions, and filter them.'
)
_HURRIED = (
    'The recordings are long: simulations take the longest time step that changes little, and after'
    ' so many seconds the values by then count. Give it more where the result asks for that.'
)


def to_yaml(proposal: CalibrationProposal, folder: Path, mapping: str) -> str:
    """Return the file.

    Args:
        proposal: What it says.
        folder: Where it will be: paths are relative to it.
        mapping: Name of the mapping file beside it, if there is one.
    """
    trained, held_out = proposal.of_role('train'), proposal.of_role('validate')
    lines = [
        '# A calibration, proposed by sysid init: look at it, change it. Paths are relative to',
        '# this file; `sysid calibrate --example` shows all keys. Then:',
        '#   sysid preflight THIS_FILE   what the recordings will be able to say',
        '#   sysid calibrate THIS_FILE   fit, result, report, identified MJCF',
        '',
        '# MJCF or URDF as it is. What is identified is written into a copy.',
        *_folded(proposal.model_notes),
        f'model: {scalar(_near(proposal.model, folder))}',
    ]
    if proposal.packages:
        places = ', '.join(scalar(_near(path, folder)) for path in proposal.packages)
        lines.append(f'package_path: [{places}]')
    lines += [
        '',
        '# Parameters are fitted to the recordings with role train. Those with role validate are',
        '# held out: their error says whether the model is right where it was not fitted.',
        'bags:',
    ]
    for bag in proposal.bags:
        lines += _bag_lines(bag, folder)
    if trained and not held_out:
        lacks = (
            'Nothing is held out, so the result can be accepted with reservations at most: record '
            f'another motion and add it as {{path: {second_name(trained[0].path)}, role: validate}}'
        )
        lines += _folded([lacks], '  # ')
    if proposal.namespace:
        lines += ['', '# Of several arms in the recordings this one.']
        lines.append(f'namespace: {scalar(proposal.namespace)}')
    lines += ['', *_mapping_lines(proposal, mapping)]
    if proposal.sensors:
        names = ', '.join(scalar(name) for name in proposal.sensors)
        lines += ['', *_folded([_WITHOUT_VELOCITIES]), f'sensors: [{names}]']
    if proposal.estimator != 'auto':
        lines += ['', *_folded([_ESTIMATORS[proposal.estimator]])]
        lines.append(f'estimator: {proposal.estimator}')
    lines += [
        '',
        '# What is identified; the first steps of a fit say what these recordings can tell.',
        *_folded((*proposal.notes, *([proposal.problem] if proposal.problem else []))),
        'parameters:' if proposal.chosen else 'parameters: []',
    ]
    lines += _target_lines(proposal.targets)
    if proposal.solver:
        written = ', '.join(f'{key}: {value}' for key, value in proposal.solver.items())
        lines += ['', *_folded([_HURRIED]), f'solver: {{{written}}}']
    lines += [
        '',
        '# Where the result, its report and the identified MJCF go.',
        'output: out',
    ]
    return '\n'.join(lines) + '\n'


def _folded(sentences: Iterable[str], start: str = '# ') -> list[str]:
    return [
        f'{start}{line}'
        for text in sentences
        for line in textwrap.wrap(
            one_line(text), _WIDTH - len(start), break_long_words=False, break_on_hyphens=False
        )
    ]


def _near(path: Path, folder: Path) -> str:
    """Return a path relative to a folder, where it is near; else as it was given, absolute."""
    relative = os.path.relpath(path.absolute(), folder.absolute())
    return relative if not relative.startswith('../../..') else str(path.absolute())


def _bag_lines(bag: ProposedBag, folder: Path) -> Iterator[str]:
    path = scalar(glob.escape(_near(bag.path, folder)))
    if bag.role is None:
        yield from _folded([f'Cannot be used: {bag.why}'], '  # ')
        yield f'  # - {{path: {path}, role: train}}'
        return
    yield f'  - {{path: {path}, role: {bag.role}}}  # {said_of(bag)}'
    for finding in bag.findings:
        yield from _folded([finding], '    # ')


def said_of(bag: ProposedBag) -> str:
    """Say on one line what is in a recording."""
    parts = [f'{bag.seconds:.0f} s' if bag.seconds >= 1 else f'{bag.seconds:.2g} s']
    count = len(bag.moving)
    parts.append(
        f'{count or "no"} joint{"" if count == 1 else "s"} move{"s" if count == 1 else ""}'
    )
    parts.append(f'{bag.commanded} with commands' if bag.commanded else 'no commands')
    if not math.isnan(bag.lag):
        parts.append(f'they follow after {1e3 * bag.lag:.0f} ms')
    return ', '.join(parts) + (f'; {bag.why}' if bag.why else '')


def second_name(path: Path) -> str:
    """Return a name for a recording that is held out, beside another one."""
    return str(path.with_name('validate_1'))


def _mapping_lines(proposal: CalibrationProposal, mapping: str) -> list[str]:
    asked = [proposal.question] if proposal.question else []
    if proposal.mapping is None:
        text = 'Which column is which joint: their names agree, so they are paired by name.'
        return [*_folded([text, *asked]), 'mapping: auto']
    doubtful = [pair.name for pair in proposal.mapping.pairs if not pair.confident]
    text = 'Which column is which joint, in which unit: proposed from names and motion.'
    if doubtful:
        text += f' Not certain, and commented out there: {some(doubtful)}: look at them.'
    if proposal.guessed:
        asked = [f'Is that right? {guesses(proposal)}.', *asked]
    return [*_folded([text, *asked]), f'mapping: {scalar(mapping)}']


def guesses(proposal: CalibrationProposal) -> str:
    """Name what is paired by motion or order alone, with the score of what is least certain."""
    pairs = some(f'{pair.name} is {",".join(pair.labels)}' for pair in proposal.guessed)
    least = min(pair.score for pair in proposal.guessed)
    return f'Guessed from motion and order, not from names, scores from {least:.2f}: {pairs}'


def _target_lines(targets: Sequence[ProposedTarget]) -> Iterator[str]:
    """Yield the targets, all joints in one line where they are alike."""
    for attribute in dict.fromkeys(item.attribute for item in targets):
        own = [item for item in targets if item.attribute == attribute]
        yield from _folded([_MEANINGS[attribute]], '  # ')
        for reason in dict.fromkeys((item.left_out, item.note) for item in own):
            why, note = reason
            yield from _folded(filter(None, [note or why]), '  #   ')
            for item in together(i for i in own if (i.left_out, i.note) == reason):
                yield f'  {"# " if item.left_out else ""}- {_entry(item)}'


def by_attribute(items: Sequence[ProposedTarget]) -> list[ProposedTarget]:
    """Return targets with those of each attribute `together`."""
    attributes = dict.fromkeys(item.attribute for item in items)
    return [one for name in attributes for one in together(i for i in items if i.attribute == name)]


def together(items: Iterable[ProposedTarget]) -> list[ProposedTarget]:
    """Return targets as one pattern where that stands for them, and no other."""
    own = list(items)
    values = {(i.bounds, i.left_out, i.note, i.initial, i.deviation) for i in own}
    every = len(values) == 1 and 1 < len(own) == own[0].elements
    return [dataclasses.replace(own[0], target=own[0].pattern)] if every else own


def _entry(item: ProposedTarget) -> str:
    parts = [f'name: {scalar(item.name)}'] if item.name else []
    low, high = item.bounds
    parts += [f'target: {scalar(item.target)}', f'bounds: [{low!r}, {high!r}]']
    parts += [] if item.initial is None else [f'initial: {item.initial!r}']
    parts += ['shared: true'] if item.shared else []
    parts += [] if item.deviation is None else [f'prior: {{std: {item.deviation!r}}}']
    return f'{{{", ".join(parts)}}}'
