# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The files of a bag that is to be recovered, and what stands beside them."""

from __future__ import annotations

import re
from collections import Counter
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
import zstandard

from sysid_ros.bags.output.metadata import METADATA
from sysid_ros.bags.recovery.mcap import SalvagedMcap
from sysid_ros.bags.recovery.parts import FoundTopic, SalvagedFile, Skipped
from sysid_ros.bags.recovery.sqlite import SalvagedSqlite
from sysid_ros.errors import BagError, nearest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from sysid_ros.config import Storage

_STORAGES: dict[str, Storage] = {'.mcap': 'mcap', '.db3': 'sqlite3'}
#: What rosbag2 appends to the names of files that it compressed as a whole.
_ZSTD = '.zstd'


class Salvage:
    """The files of a bag, and what stands beside them."""

    def __init__(self, source: Path, files: Sequence[SalvagedFile], missing: Sequence[str]) -> None:
        self.source = source
        self.files = files
        self.missing = [Skipped(name, 0, 0, 'the file is missing') for name in missing]
        self.metadata = _metadata(source)
        self.storage = _STORAGES[files[0].path.suffix]
        compressions = [file.compression for file in files]
        self.compression = 'zstd' if 'zstd' in compressions else 'none'

    @property
    def skipped(self) -> tuple[Skipped, ...]:
        """What is not saved; complete after the messages were read."""
        return (*self.missing, *(part for file in self.files for part in file.skipped))

    def facts(self) -> dict[str, str]:
        """Return what is known about the session."""
        known: dict[str, str] = {}
        for file in self.files:
            known.update(file.facts)
        own = self.metadata.get('custom_data')
        texts = own.items() if isinstance(own, dict) else ()
        known.update({str(key): text for key, text in texts if isinstance(text, str)})
        return known

    def topics(self, file: SalvagedFile) -> dict[int, FoundTopic]:
        """Return the topics of a file, with names that the metadata confirms where there is any.

        A name that neither metadata.yaml nor the file's own copy of it lists was changed. It is
        replaced where only one listed topic is missing, and left out otherwise.
        """
        listings = [_listed(self.metadata), _listed(_parsed(file.information))]
        listed = set().union(*listings)
        topics = dict(file.topics)
        if not listed:
            return topics
        found = {(topic.name, topic.msgtype) for topic in topics.values()}
        agreed = set.intersection(*(names for names in listings if names))
        wrong = [number for number, topic in topics.items() if topic[:2] not in listed]
        absent = agreed - found
        for number in wrong:
            topic = topics.pop(number)
            likely = [pair for pair in absent if pair[0] == topic.name or pair[1] == topic.msgtype]
            if len(wrong) == len(likely) == 1:
                name, msgtype = likely[0]
                topics[number] = topic._replace(name=name, msgtype=msgtype)
        return topics

    def announced(self) -> Counter[str]:
        """Return the messages by topic that the metadata or else the files announce."""
        counts = Counter(dict(_counts(self.metadata)))
        if not counts:
            for file in self.files:
                topics = file.topics
                for number, count in file.announced.items():
                    if number in topics:
                        counts[topics[number].name] += count
        return counts

    def is_whole(self) -> bool:
        """Tell whether nothing is missing, as far as the files themselves show."""
        if self.skipped or not all(file.closed for file in self.files):
            return False
        names = [name.removesuffix(_ZSTD) for name in _names(self.metadata)]
        return not self.source.is_dir() or names == [file.path.name for file in self.files]


@contextmanager
def salvage(source: Path, scratch: Path) -> Iterator[Salvage]:
    """Open the files of a bag.

    Args:
        source: The bag.
        scratch: A folder for copies of what cannot be read in place.
    """
    files = _data_files(source)
    names = _names(_metadata(source)) if source.is_dir() else []
    missing = [name for name in names if name not in {file.name for file in files}]
    with ExitStack() as stack:
        try:
            opened = [_opened(file, scratch) for file in files]
        except OSError as err:
            msg = f'Cannot read the bag {str(source)!r}: {err.strerror}.'
            raise BagError(msg) from err
        for file in opened:
            stack.callback(file.close)
        yield Salvage(source, opened, missing)


def _data_files(source: Path) -> list[Path]:
    """Return the storage files of a bag in order.

    Raises:
        BagError: There are none.
    """
    if not source.exists():
        folder = source.absolute().parent
        siblings = sorted(entry.name for entry in folder.iterdir()) if folder.is_dir() else []
        msg = f'There is no bag {str(source)!r}; {nearest(source.name, siblings)}.'
        raise BagError(msg)
    entries = sorted(source.iterdir(), key=_natural) if source.is_dir() else [source]
    files = [entry for entry in entries if entry.is_file() and _storage_suffix(entry) in _STORAGES]
    suffixes = {_storage_suffix(file) for file in files}
    if len(suffixes) == 1:
        return files
    found = ', '.join(entry.name for entry in (files or entries)[:3]) or 'nothing'
    msg = (
        f'Expected a bag with files that end with {" or ".join(_STORAGES)} in {str(source)!r}, '
        f'found {found}.'
    )
    raise BagError(msg)


def _storage_suffix(file: Path) -> str:
    return Path(file.name.removesuffix(_ZSTD)).suffix


def _natural(path: Path) -> list[tuple[int, str]]:
    """Sort ``bag_10`` behind ``bag_9``."""
    parts = re.split(r'(\d+)', path.name)
    return [(int(part), '') if part.isdecimal() else (-1, part) for part in parts]


def _opened(file: Path, scratch: Path) -> SalvagedFile:
    if file.suffix == _ZSTD:
        file = _decompressed(file, scratch)
    return SalvagedMcap(file) if file.suffix == '.mcap' else SalvagedSqlite(file, scratch)


def _decompressed(file: Path, scratch: Path) -> Path:
    """Decompress a whole file as far as that is possible."""
    plain = scratch / file.stem
    with file.open('rb') as source, plain.open('wb') as target:
        try:
            zstandard.ZstdDecompressor().copy_stream(source, target)
        except zstandard.ZstdError:
            # What came before the damage is there.
            target.flush()
    return plain


def _metadata(source: Path) -> dict[str, Any]:
    """Return what metadata.yaml says, or nothing where it cannot be read."""
    try:
        text = (source / METADATA).read_text('utf8') if source.is_dir() else ''
    except (OSError, ValueError):
        return {}
    inside = _parsed(text).get('rosbag2_bagfile_information')
    return inside if isinstance(inside, dict) else {}


def _parsed(text: str) -> dict[str, Any]:
    try:
        document = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


def _names(metadata: Mapping[str, Any]) -> list[str]:
    names = metadata.get('relative_file_paths')
    return [str(name).rsplit('/', 1)[-1] for name in names] if isinstance(names, list) else []


def _entries(metadata: Mapping[str, Any]) -> Iterator[tuple[dict[str, Any], object]]:
    entries = metadata.get('topics_with_message_count')
    for entry in entries if isinstance(entries, list) else ():
        topic = entry.get('topic_metadata') if isinstance(entry, dict) else None
        if isinstance(topic, dict):
            yield topic, entry.get('message_count')


def _listed(metadata: Mapping[str, Any]) -> set[tuple[str, str]]:
    return {(str(topic.get('name')), str(topic.get('type'))) for topic, _ in _entries(metadata)}


def _counts(metadata: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    for topic, count in _entries(metadata):
        if isinstance(count, int):
            yield str(topic.get('name')), count
