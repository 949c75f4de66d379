# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Which files a bag consists of, and whether they were finished."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, NamedTuple

import yaml
from rosbags.typesys.msg import normalize_msgtype

from sysid_ros.bags.input import mcap_file, sqlite_file
from sysid_ros.errors import BagError, nearest
from sysid_ros.yaml_text import parse_yaml

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

METADATA = 'metadata.yaml'
MCAP, SQLITE, ROS1 = STORAGE_SUFFIXES = ('.mcap', '.db3', '.bag')
#: Files that are read as bags, see `tables`.
CSV, PARQUET, NPZ = TABLE_SUFFIXES = ('.csv', '.parquet', '.npz')
#: Behind the suffix of a file that rosbag2 has compressed as a whole.
COMPRESSED = '.zstd'
_DIGITS = re.compile(r'(\d+)')


class UnfinishedBagError(BagError):
    """The bag was begun but never closed: its recorder was killed."""

    def __init__(self, path: Path, missing: str) -> None:
        """Say what is missing, and which command saves the rest."""
        super().__init__(
            f'The bag {str(path)!r} was not finished (was the recorder killed?): {missing}; '
            f'{recovery_hint(path)}.'
        )


def recovery_hint(path: Path) -> str:
    """Say which command helps with an unfinished or damaged bag."""
    return f'`sysid recover {shlex.quote(str(path))}` saves what is in it'


class BagFiles(NamedTuple):
    """A bag on the disk.

    Attributes:
        path: Folder or file.
        files: The storage files, in the order of recording.
        announced: Topic and type to the number of messages, as ``metadata.yaml`` has it; None
            without metadata.
        facts: Facts of the session in ``metadata.yaml``.
    """

    path: Path
    files: tuple[Path, ...]
    announced: Mapping[tuple[str, str], int] | None
    facts: Mapping[str, str]


def suffix(file: Path) -> str:
    """Return what kind of storage a file is by its name, or an empty string."""
    name = file.name.removesuffix(COMPRESSED)
    return next((item for item in STORAGE_SUFFIXES if name.endswith(item)), '')


def find_bag(path: Path) -> BagFiles:
    """Look at a path.

    Raises:
        BagError: There is nothing, something else, or a file of the bag is missing.
    """
    if not path.exists():
        folder = path.absolute().parent
        siblings = sorted(entry.name for entry in folder.iterdir()) if folder.is_dir() else []
        bags = [name for name in siblings if (folder / name / METADATA).exists()]
        msg = f'There is no bag {str(path)!r}; {nearest(path.name, bags or siblings)}.'
        raise BagError(msg)
    if not path.is_dir():
        if not suffix(path):
            *first, last = *STORAGE_SUFFIXES, *TABLE_SUFFIXES
            known = f'{", ".join(first)} or {last}'
            msg = f'Expected a bag folder or a file that ends with {known}, found {str(path)!r}.'
            raise BagError(msg)
        return BagFiles(path, (path,), None, {})
    if (path / METADATA).exists():
        return _described(path)
    files = sorted((entry for entry in path.iterdir() if suffix(entry)), key=natural_order)
    if not files:
        inside = sorted(entry.name for entry in path.iterdir() if (entry / METADATA).exists())
        hint = f'; bags inside: {", ".join(inside[:3])}' if inside else ''
        msg = f'The folder {str(path)!r} is no bag: it has neither {METADATA} nor data files{hint}.'
        raise BagError(msg)
    return BagFiles(path, tuple(files), None, {})


def check_finished(place: BagFiles, file: Path) -> None:
    """Check that a storage file was closed by its recorder.

    Args:
        place: The bag.
        file: One of its files, or that file decompressed.

    Raises:
        UnfinishedBagError: It was not.
    """
    kind = suffix(file)
    if kind == MCAP and not mcap_file.is_closed(file):
        raise UnfinishedBagError(place.path, f'{file.name} has no MCAP footer')
    if kind != SQLITE or place.announced is not None:
        return
    closed = sqlite_file.is_closed(file)
    if place.path.is_dir() and not closed:
        raise UnfinishedBagError(place.path, f'there is no {METADATA}, and {file.name} has none')
    if closed is False:
        raise UnfinishedBagError(place.path, f'{file.name} was not closed')


def natural_order(file: Path) -> list[tuple[int, str]]:
    """Return a key that sorts ``bag_10`` behind ``bag_9``."""
    parts = _DIGITS.split(file.name)
    return [(int(part), '') if part.isdigit() else (-1, part) for part in parts]


def _described(path: Path) -> BagFiles:
    """Return what ``metadata.yaml`` says.

    Raises:
        BagError: It is damaged, or a file that it names is missing.
    """
    try:
        document = parse_yaml((path / METADATA).read_text('utf8'))
        information = document['rosbag2_bagfile_information']
        # Old versions name files with the folder before them.
        names = [str(name).rsplit('/', 1)[-1] for name in information['relative_file_paths']]
        announced: dict[tuple[str, str], int] = {}
        for item in information['topics_with_message_count']:
            topic = item['topic_metadata']
            key = str(topic['name']), normalize_msgtype(str(topic['type']))
            announced[key] = announced.get(key, 0) + max(int(item['message_count']), 0)
        custom = information.get('custom_data') or {}
        facts = {str(key): str(value) for key, value in custom.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, yaml.YAMLError) as err:
        msg = f'The bag {str(path)!r} is damaged: its {METADATA} is not what a recorder writes.'
        raise BagError(msg) from err
    files = tuple(path / name for name in names)
    missing = [file.name for file in files if not file.is_file()]
    if missing:
        msg = f'The bag {str(path)!r} has {METADATA}, but its data file {missing[0]} is missing.'
        raise BagError(msg)
    unknown = [file.name for file in files if not suffix(file)]
    if unknown:
        known = ' or '.join(STORAGE_SUFFIXES[:-1])
        msg = f'Expected files that end with {known} in the bag {str(path)!r}, found {unknown[0]}.'
        raise BagError(msg)
    return BagFiles(path, files, announced, facts)
