# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A proposed mapping as a commented file to edit, as JSON, and as a table."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import yaml

from sysid_ros.alignment.mapping.proposal.propose import CONFIDENCE
from sysid_ros.alignment.pairs import Role

if TYPE_CHECKING:
    from sysid_ros.alignment.mapping.proposal.propose import Proposal, ProposedPair

#: Numbers that a proposal rounds to: an offset is not known better.
_DIGITS = 10
_OFFSET_DIGITS = 5
#: Texts that need no quotes, unless YAML takes them for something else.
_PLAIN = re.compile(r'[\w/][\w./-]*', re.ASCII)


def to_yaml(proposal: Proposal, model: str) -> str:
    """Return a mapping file; pairs that are not certain are commented out."""
    lines = [
        f'# Proposed by sysid map for bag {proposal.bag} and model {model}.',
        f'# It looked at {proposal.seconds:.0f} s of motion. The number above a pair is its score.',
        f'# Pairs below {CONFIDENCE:g} are commented out: look at them, correct them, drop the #.',
        '# The value in the model is scale * bag value + offset.',
        '# Use it with `mapping: THIS_FILE` in calibration.yaml.',
    ]
    for role, title in ((Role.SENSOR, 'sensors'), (Role.ACTUATOR, 'actuators')):
        pairs = [pair for pair in proposal.pairs if pair.role is role]
        nothing = not any(pair.confident for pair in pairs)
        lines += ['', f'{title}: {{}}' if nothing else f'{title}:']
        if nothing and pairs:
            lines.append(f'# Remove the {{}} behind {title} when you use one of these:')
        for pair in pairs:
            start = '  ' if pair.confident else '  # '
            lines += [
                f'  # {pair.score:.2f} {pair.reason}',
                f'{start}{_scalar(pair.name)}: {{{_entry(pair)}}}',
            ]
    if proposal.unmapped:
        lines += ['', '# Without a counterpart:']
        lines += [f'#   {item.kind} {item.name}: {item.reason}' for item in proposal.unmapped]
    return '\n'.join(lines) + '\n'


def _entry(pair: ProposedPair) -> str:
    parts = [f'topic: {_scalar(pair.topic)}', f'field: {_scalar(pair.field)}']
    if len(pair.labels) == 1:
        parts.append(f'label: {_scalar(pair.labels[0])}')
    else:
        parts.append(f'labels: [{", ".join(map(_scalar, pair.labels))}]')
    if pair.scale != 1.0:
        parts.append(f'scale: {_number(pair.scale, _DIGITS)}')
    if pair.offset:
        parts.append(f'offset: {_number(pair.offset, _OFFSET_DIGITS)}')
    return ', '.join(parts)


def _scalar(text: str) -> str:
    """Return a text as YAML reads it back: JSON's strings are YAML's, too."""
    if _PLAIN.fullmatch(text) and yaml.safe_load(text) == text:
        return text
    return json.dumps(text, ensure_ascii=False)


def _number(value: float, digits: int) -> str:
    return f'{value:.{digits}g}'


def to_json(proposal: Proposal) -> str:
    """Return the proposal as JSON."""
    document: dict[str, Any] = {
        'bag': proposal.bag,
        'seconds': proposal.seconds,
        'confidence': CONFIDENCE,
        'pairs': [
            {
                **pair._asdict(),
                'role': pair.role.value,
                'labels': list(pair.labels),
                'used': pair.confident,
            }
            for pair in proposal.pairs
        ],
        'unmapped': [item._asdict() for item in proposal.unmapped],
    }
    return json.dumps(document, indent=2, ensure_ascii=False)
