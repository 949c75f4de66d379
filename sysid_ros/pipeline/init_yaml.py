# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A proposed calibration as a commented ``calibration.yaml``."""

from __future__ import annotations

import glob
import os
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from sysid_ros.errors import listed, one_line
from sysid_ros.pipeline.init import CalibrationProposal, ProposedTarget
from sysid_ros.text import scalar

#: Comments are folded here.
_WIDTH = 100
_MEANINGS = {
    'armature': 'Inertia of motor and gear at the joint, kg·m² (kg at a slide).',
    'damping': 'Friction that grows with speed, N·m·s/rad (N·s/m at a slide).',
    'frictionloss': 'Dry friction, N·m (N at a slide).',
    'kp': 'Stiffness of the position servos, N·m/rad.',
    'kv': 'Damping of the servos, N·m·s/rad.',
    'delay': 'From the stamp of a command to the servo, s: one for all.',
    'mass_scaled': 'What the last body weighs, kg, with the inertia of that: a tool or payload.',
}


def to_yaml(proposal: CalibrationProposal, folder: Path, mapping: str) -> str:
    """Return a proposal as a commented ``calibration.yaml``.

    Args:
        proposal: What it says.
        folder: Where it will be: paths are relative to it.
        mapping: Name of the mapping file beside it, if there is one.
    """
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
    lines += _bag_lines(proposal, folder)
    if proposal.namespace:
        lines += ['', '# Of several arms in the recordings this one.']
        lines.append(f'namespace: {scalar(proposal.namespace)}')
    how = 'their names agree, so they are paired by name.'
    if proposal.mapping is not None:
        how = 'proposed from names and motion, in the unit of the model.'
        doubtful = [pair.name for pair in proposal.mapping.pairs if not pair.confident]
        if doubtful:
            how += f' Not certain, and commented out there: {listed(doubtful)}: look at them.'
    chosen = 'auto' if proposal.mapping is None else scalar(mapping)
    lines += ['', *_folded([f'Which column is which joint: {how}', *proposal.questions])]
    lines.append(f'mapping: {chosen}')
    if proposal.sensors:
        names = ', '.join(scalar(name) for name in proposal.sensors)
        what = (
            'What is compared. Velocities are left out: drivers that report no efforts derive them '
            'from positions, and filter them.'
        )
        lines += ['', *_folded([what]), f'sensors: [{names}]']
    if proposal.estimator != 'auto':
        lines += ['', '# Simulations of whole recordings diverge with these values of the model.']
        lines.append(f'estimator: {proposal.estimator}')
    lines += [
        '',
        '# What is identified; the first steps of a fit say what these recordings can tell.',
        *_folded((*proposal.notes, *([proposal.problem] if proposal.problem else []))),
        'parameters:' if proposal.chosen else 'parameters: []',
    ]
    lines += _target_lines(proposal.targets)
    lines += ['', '# Where the result, its report and the identified MJCF go.', 'output: out']
    return '\n'.join(lines) + '\n'


def _bag_lines(proposal: CalibrationProposal, folder: Path) -> Iterator[str]:
    for bag in proposal.bags:
        path = scalar(glob.escape(_near(bag.path, folder)))
        if bag.role is None:
            yield from _folded([f'Cannot be used: {bag.why}'], '  # ')
            yield f'  # - {{path: {path}, role: train}}'
        else:
            yield f'  - {{path: {path}, role: {bag.role}}}  # {one_line(bag.summary)}'
    if not proposal.of_role('validate'):
        lacks = (
            'Nothing is held out, so the result can be accepted with reservations at most: record '
            'another motion and add it as {path: validate_1, role: validate}'
        )
        yield from _folded([lacks], '  # ')


def _target_lines(targets: Sequence[ProposedTarget]) -> Iterator[str]:
    for attribute in dict.fromkeys(item.attribute for item in targets):
        yield from _folded([_MEANINGS[attribute]], '  # ')
        said = ''
        for item in (item for item in targets if item.attribute == attribute):
            if said != (said := item.note or item.left_out):
                yield from _folded([said], '  #   ')
            yield f'  {"# " if item.left_out else ""}- {_flow(item.entry)}'


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


def _flow(value: Any) -> str:
    """Return a value as YAML on one line."""
    if isinstance(value, dict):
        return f'{{{", ".join(f"{key}: {_flow(each)}" for key, each in value.items())}}}'
    if isinstance(value, list):
        return f'[{", ".join(map(_flow, value))}]'
    if isinstance(value, bool):
        return str(value).lower()
    return scalar(value) if isinstance(value, str) else repr(value)
