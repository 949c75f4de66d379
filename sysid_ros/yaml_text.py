# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""YAML of others, which may be nested without end, and their texts inside ours."""

from __future__ import annotations

import re
from typing import Any

import yaml

from sysid_ros.text import in_json

#: Texts that need no quotes, unless YAML takes them for something else.
_PLAIN = re.compile(r'[\w/][\w./-]*', re.ASCII)
#: Longer keys must be announced by a question mark (YAML 1.1, 7.4: 1024 characters).
_LONGEST_KEY = 1000
#: Nothing that anybody configures or records is nested deeper.
_DEEPEST = 50
#: Aliases may stand for so many values in all: those of aliases of aliases grow without end.
_MOST_VALUES = 100_000
#: A text counts as one value more for each so many characters.
_LONG_TEXT = 100
#: That of LibYAML, where PyYAML has it, is many times as fast.
_LOADER = getattr(yaml, 'CSafeLoader', yaml.SafeLoader)


def scalar(text: str) -> str:
    """Return a text as YAML reads it back, on one line, in a mapping in braces as well."""
    if _PLAIN.fullmatch(text) and yaml.safe_load(text) == text:
        return text
    quoted = yaml.safe_dump(text, default_style='"', allow_unicode=True, width=float('inf'))
    # YAML's quoted strings know JSON's escapes.
    return in_json(quoted).rstrip('\n')


def block_entry(key: str, value: str) -> list[str]:
    """Return the lines of a key and its value, which is YAML already, in a mapping of lines."""
    name = scalar(key)
    return [f'{name}: {value}'] if len(name) <= _LONGEST_KEY else [f'? {name}', f': {value}']


def parse_yaml(text: str) -> Any:
    """Read YAML.

    Raises:
        yaml.YAMLError: It is none, nested too deep, or its aliases stand for too much.
    """
    try:
        _check_size(text)
        return yaml.load(text, _LOADER)  # noqa: S506 (is safe)
    except (ValueError, RecursionError) as err:
        # PyYAML lets through what Python says of a 13th month or a number of 5000 digits.
        reason = str(err).partition(';')[0]
        raise yaml.YAMLError(f'a value is not what it looks like: {reason}') from err


def _check_size(text: str) -> None:
    """Refuse what is small as text and large as values, before anything is made of it."""
    size = _Size()
    for event in yaml.parse(text, _LOADER):
        size.add(event)
        if len(size.around) > _DEEPEST:
            raise yaml.YAMLError(f'values are nested more than {_DEEPEST} deep')
        if size.repeated > _MOST_VALUES:
            raise yaml.YAMLError(f'its aliases stand for more than {_MOST_VALUES} values')


class _Size:
    """How many values a document has, those of its aliases too, and what is around the latest."""

    def __init__(self) -> None:
        self.values = 0
        self.repeated = 0
        self.around: list[tuple[str | None, int]] = []
        self._anchors: dict[str, int] = {}

    def add(self, event: yaml.Event) -> None:
        """Count what comes next.

        Raises:
            yaml.YAMLError: An alias stands for something around it.
        """
        if isinstance(event, yaml.CollectionStartEvent):
            self.around.append((event.anchor, self.values))
            self.values += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, before = self.around.pop()
            if anchor is not None:
                self._anchors[anchor] = self.values - before
        elif isinstance(event, yaml.AliasEvent):
            if any(anchor == event.anchor for anchor, _ in self.around):
                raise yaml.YAMLError(f'the value of alias {event.anchor!r} contains itself')
            size = self._anchors.get(str(event.anchor), 1)
            self.values += size
            self.repeated += size
        elif isinstance(event, yaml.ScalarEvent):
            size = 1 + len(event.value) // _LONG_TEXT
            self.values += size
            if event.anchor is not None:
                self._anchors[event.anchor] = size
