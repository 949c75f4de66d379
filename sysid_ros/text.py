# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Text of others where it leaves: JSON, YAML, CSV and names of files, and YAML where it comes in.

Names and notes of bags and models may hold anything. They stay as they are inside, so that a name
is found by its name, and are escaped once, by what they are written to: `errors.one_line` for lines
that people read, `report` for terminals and HTML, all else here.
"""

from __future__ import annotations

import csv
import dataclasses
import enum
import io
import json
import math
import re
import unicodedata
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from sysid_ros.errors import LONGEST_NAME, UNSEEN

#: Between JSON's strings, line breaks are the layout; inside, they are escaped already.
_UNSEEN_IN_JSON = re.compile(f'[{UNSEEN[1:]}]')
#: Bytes of a file's name without its ending; file systems have room for 255.
_LONGEST_STEM = 180
#: Letters and digits of any alphabet may be in the name of a file.
_NOT_OF_FILES = re.compile(r'[^\w.-]+')


def in_json(text: str) -> str:
    """Return JSON with what is not seen inside its strings as JSON escapes it."""
    return _UNSEEN_IN_JSON.sub(_json_escape, text)


def _json_escape(found: re.Match[str]) -> str:
    return re.sub('....', r'\\u\g<0>', found[0].encode('utf-16-be', 'surrogatepass').hex())


def csv_header(names: Iterable[str]) -> str:
    """Return the names of columns as a line of CSV, with what spreadsheets would take for formulas.

    They are exact, as whoever reads the columns by their names needs them.
    """
    stream = io.StringIO(newline='')
    # With a shorter end, Python before 3.13 leaves carriage returns without quotes.
    csv.writer(stream, lineterminator='\r\n').writerow(names)
    return stream.getvalue().removesuffix('\r\n') + '\n'


def file_stems(names: Iterable[str]) -> list[str]:
    """Return a file name without ending for each name, each its own.

    They stay in their folder, are neither hidden nor taken for an option, and differ on file
    systems, too, that do not tell upper from lower case.
    """
    stems: list[str] = []
    taken: set[str] = set()
    for name in names:
        stem = _NOT_OF_FILES.sub('_', name).strip('._-') or 'unnamed'
        stem = stem.encode()[:_LONGEST_STEM].decode(errors='ignore')
        own, count = stem, 1
        while _folded(own) in taken:
            count += 1
            own = f'{stem}_{count}'
        taken.add(_folded(own))
        stems.append(own)
    return stems


def _folded(name: str) -> str:
    """Return what file systems take for the same name: some know neither case nor accents' form."""
    return unicodedata.normalize('NFKC', name).casefold()


def plain(value: object) -> Any:
    """Turn a value into what JSON has: objects, lists, texts, finite numbers, booleans and null.

    Dataclasses, named tuples and pydantic's models become objects; enums their value; numbers that
    are not finite null, because JSON has none.
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = {item.name: getattr(value, item.name) for item in dataclasses.fields(value)}
    elif isinstance(value, tuple) and hasattr(value, '_asdict'):
        value = value._asdict()
    elif hasattr(value, 'model_dump'):
        value = value.model_dump()
    elif isinstance(value, (np.ndarray, np.generic)):
        value = value.tolist()
    elif isinstance(value, enum.Enum):
        value = value.value
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return str(value) if isinstance(value, Path) else value


def to_json(value: object, *, indent: int | None = None) -> str:
    """Return a value as JSON text in which letters of any alphabet are themselves."""
    return in_json(json.dumps(plain(value), indent=indent, ensure_ascii=False, allow_nan=False))


#: Texts that need no quotes, unless YAML takes them for something else.
_PLAIN = re.compile(r'[\w/][\w./-]*', re.ASCII)
#: Nothing that anybody configures or records is nested deeper.
DEEPEST = 50
#: Nor are there more values: a fleet of a thousand robots has fewer.
MOST_NODES = 200_000
#: Aliases may stand for so many values and characters in all: those of aliases of aliases grow
#: without end.
MOST_VALUES = 1_000_000
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
    # Keys of more than 1024 characters must be announced by a question mark (YAML 1.1, 7.4).
    return [f'{name}: {value}'] if len(name) <= LONGEST_NAME else [f'? {name}', f': {value}']


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
        if len(size.around) > DEEPEST:
            raise yaml.YAMLError(f'values are nested more than {DEEPEST} deep')
        if size.nodes > MOST_NODES:
            raise yaml.YAMLError(f'it has more than {MOST_NODES} values')
        if size.repeated > MOST_VALUES:
            raise yaml.YAMLError(f'its aliases stand for more than {MOST_VALUES} values')


class _Size:
    """How many values a document has, those of its aliases too, and what is around the latest."""

    def __init__(self) -> None:
        self.nodes = 0
        self.values = 0
        self.repeated = 0
        self.around: list[tuple[str | None, int]] = []
        self._anchors: dict[str, int] = {}

    def add(self, event: yaml.Event) -> None:
        """Count what comes next.

        Raises:
            yaml.YAMLError: An alias stands for something around it, or a text is none.
        """
        self.nodes += isinstance(event, yaml.NodeEvent)
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
            if '\0' in event.value:
                raise yaml.YAMLError(f'the value {event.value!r} holds a NUL character')
            size = 1 + len(event.value)
            self.values += size
            if event.anchor is not None:
                self._anchors[event.anchor] = size
