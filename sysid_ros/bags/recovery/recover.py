# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""From an unfinished or damaged bag to a new good one of the same storage.

The original is only read. What the new bag holds was in the original: messages are neither mended
nor guessed. Publish times of MCAP, which recorders mostly set to the receive times, and attachments
are not kept.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import yaml
import zstandard
from rosbags.rosbag2 import Reader

from sysid_ros.bags.input.files import unpacked
from sysid_ros.bags.input.places import (
    COMPRESSED,
    MCAP,
    METADATA,
    SQLITE,
    natural_order,
    suffix,
)
from sysid_ros.bags.output.files import ENCODINGS, Definition, known_types, sync_folder
from sysid_ros.bags.output.metadata import qos_of
from sysid_ros.bags.recovery.mcap import SalvagedMcap
from sysid_ros.bags.recovery.parts import FoundTopic, SalvagedFile, Skipped
from sysid_ros.bags.recovery.sqlite import SalvagedSqlite
from sysid_ros.bags.writer import BagWriter
from sysid_ros.errors import BagError, nearest
from sysid_ros.version import __version__
from sysid_ros.yaml_text import parse_yaml

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from sysid_ros.config import Storage

_STORAGES: dict[str, Storage] = {MCAP: 'mcap', SQLITE: 'sqlite3'}
#: The fact that says that a bag was recovered, and how.
RECOVERED = 'recovered'
#: What a message begins with that rosbag2 compressed by itself; no CDR begins with it.
_ZSTD_MAGIC = b'\x28\xb5\x2f\xfd'
#: Messages are not decompressed to more than this, bytes.
_LARGEST_MESSAGE = 1 << 28
#: Times from here are none, ns since the epoch.
_END_OF_TIME = 2**63 - 1


class Salvage:
    """The files of a bag, and what stands beside them."""

    def __init__(
        self,
        source: Path,
        files: Sequence[SalvagedFile],
        metadata: Mapping[str, Any],
        missing: Sequence[str],
    ) -> None:
        self.source = source
        self.files = files
        self.missing = [Skipped(name, 0, 0, 'the file is missing') for name in missing]
        self.metadata = metadata
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
        counts = Counter(
            {
                str(topic.get('name')): count
                for topic, count in _entries(self.metadata)
                if isinstance(count, int)
            }
        )
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
        names = [name.removesuffix(COMPRESSED) for name in _names(self.metadata)]
        return not self.source.is_dir() or names == [file.path.name for file in self.files]


@contextmanager
def salvage(source: Path, scratch: Path) -> Iterator[Salvage]:
    """Open the files of a bag.

    Args:
        source: The bag.
        scratch: A folder for copies of what cannot be read in place.
    """
    files = _data_files(source)
    metadata = _metadata(source)
    missing = [name for name in _names(metadata) if name not in {file.name for file in files}]
    with ExitStack() as stack:
        try:
            opened = [_opened(file, scratch) for file in files]
        except OSError as err:
            msg = f'Cannot read the bag {str(source)!r}: {err.strerror}.'
            raise BagError(msg) from err
        for file in opened:
            stack.callback(file.close)
        yield Salvage(source, opened, metadata, missing)


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
    entries = sorted(source.iterdir(), key=natural_order) if source.is_dir() else [source]
    files = [entry for entry in entries if entry.is_file() and suffix(entry) in _STORAGES]
    suffixes = {suffix(file) for file in files}
    if len(suffixes) == 1:
        return files
    found = ', '.join(entry.name for entry in (files or entries)[:3]) or 'nothing'
    msg = (
        f'Expected a bag with files that end with {" or ".join(_STORAGES)} in {str(source)!r}, '
        f'found {found}.'
    )
    raise BagError(msg)


def _opened(file: Path, scratch: Path) -> SalvagedFile:
    """Open a storage file, decompressed as far as that is possible where rosbag2 compressed it."""
    if file.suffix == COMPRESSED:
        # What comes before damage is there.
        with suppress(zstandard.ZstdError):
            unpacked(file, scratch)
        file = scratch / file.stem
    return SalvagedMcap(file) if file.suffix == MCAP else SalvagedSqlite(file, scratch)


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
        document = parse_yaml(text)
    except yaml.YAMLError:
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


class RecoveredTopic(NamedTuple):
    """What became of one topic.

    Attributes:
        topic: Its name.
        msgtype: Its type.
        saved: Messages in the new bag.
        lost: Messages that are known to have been in the old bag and are not in the new one.
        first_ns: Receive time of the first saved message, ns since the epoch; 0 without any.
        last_ns: Receive time of the last one.
    """

    topic: str
    msgtype: str
    saved: int
    lost: int
    first_ns: int
    last_ns: int


class Recovered(NamedTuple):
    """What was saved from a bag, and what was not.

    Attributes:
        source: The old bag.
        target: The new bag; None where the old one was only examined.
        topics: What became of each topic.
        lost: Messages of all topics that are known to be lost, also where their topics are not.
        skipped: Parts of the old bag that are not in the new one.
        unchecked: Saved messages that no checksum vouches for: a byte that was changed inside of
            them would not be noticed.
        whole: Whether the old bag is good as it is.
    """

    source: Path
    target: Path | None
    topics: tuple[RecoveredTopic, ...]
    lost: int
    skipped: tuple[Skipped, ...]
    unchecked: int
    whole: bool

    @property
    def saved(self) -> int:
        """Messages saved."""
        return sum(topic.saved for topic in self.topics)


def recover(source: Path, target: Path) -> Recovered:
    """Save what can be saved of a bag into a new one.

    Args:
        source: A bag's folder, or one of its storage files; unfinished, damaged or good.
        target: Folder of the new bag.

    Raises:
        BagError: There is no bag or nothing in it can be saved, or the target exists or cannot be
            written.
    """
    if target.exists() or target.is_symlink():
        msg = f'The bag {str(target)!r} exists already; choose another name or remove it.'
        raise BagError(msg)
    with _scratch(target) as scratch, salvage(source, scratch) as old:
        writer = BagWriter(scratch / target.name, old.storage, compression=old.compression)
        with writer:
            tally = _copy(old, writer)
            found = tally.report(target)
            if not found.saved:
                reason = found.skipped[0].reason if found.skipped else 'it holds no messages'
                msg = f'Nothing can be saved from the bag {str(source)!r}: {reason}.'
                raise BagError(msg)
            history = (
                f'by sysid_ros {__version__} from {source.name!r}: {found.saved} messages, '
                f'{found.unchecked} of them without checksum; {found.lost} known to be lost, '
                f'{len(found.skipped)} parts skipped'
            )
            writer.set_facts({**old.facts(), RECOVERED: history})
        writer.path.rename(target)
        sync_folder(target.parent)
    return found


def examine(source: Path) -> Recovered:
    """Find out what of a bag is good, and whether all of it is.

    Raises:
        BagError: There is no bag.
    """
    with tempfile.TemporaryDirectory() as scratch, salvage(source, Path(scratch)) as old:
        found = _copy(old, None).report(None)
    if not found.whole:
        return found
    try:
        with Reader(source) as reader:
            whole = sum(1 for _ in reader.messages()) == found.saved
    except Exception:  # noqa: BLE001 (damaged bytes cause any)
        whole = False
    return found._replace(whole=whole)


@contextmanager
def _scratch(target: Path) -> Iterator[Path]:
    """Make a folder beside the new bag, where that is on the same disk."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=f'.{target.name}.') as folder:
            yield Path(folder)
    except OSError as err:
        msg = f'Cannot write the bag {str(target)!r}: {err.strerror}.'
        raise BagError(msg) from err


class _SavedTally:
    """What became of the messages so far."""

    def __init__(self, old: Salvage) -> None:
        self._old = old
        self._types: dict[str, str] = {}
        self._saved: Counter[str] = Counter()
        self._span_ns: dict[str, tuple[int, int]] = {}
        self._refused: Counter[tuple[str, str, str]] = Counter()

    def add_topic(self, topic: FoundTopic) -> str:
        """Take a topic; return why it cannot be saved, or nothing."""
        if topic.format != 'cdr':
            return f'its messages are not serialised as cdr but as {topic.format!r}'
        if self._types.setdefault(topic.name, topic.msgtype) != topic.msgtype:
            return f'its messages are {topic.msgtype} where others are {self._types[topic.name]}'
        return ''

    def add(self, topic: str, receive_ns: int) -> None:
        """Count a saved message."""
        self._saved[topic] += 1
        first, last = self._span_ns.get(topic, (receive_ns, receive_ns))
        self._span_ns[topic] = min(first, receive_ns), max(last, receive_ns)

    def refuse(self, file: str, topic: str, reason: str) -> None:
        """Count a message that is not saved."""
        self._refused[file, topic, reason] += 1

    def report(self, target: Path | None) -> Recovered:
        """Return what became of the messages."""
        refused = tuple(
            Skipped(file, 0, 0, f'{count} messages of {topic}: {reason}')
            for (file, topic, reason), count in self._refused.items()
        )
        lost = self._lost()
        announced = self._old.announced()
        topics = tuple(
            RecoveredTopic(
                topic,
                msgtype,
                self._saved[topic],
                max(lost[topic], announced[topic] - self._saved[topic]),
                *self._span_ns.get(topic, (0, 0)),
            )
            for topic, msgtype in sorted(self._types.items())
        )
        return Recovered(
            source=self._old.source,
            target=target,
            topics=topics,
            lost=max(sum(lost.values()), sum(topic.lost for topic in topics)),
            skipped=(*self._old.skipped, *refused),
            unchecked=sum(file.unchecked for file in self._old.files),
            whole=self._old.is_whole() and not refused,
        )

    def _lost(self) -> Counter[str]:
        """Count what the files show to be lost by topic, '' where the topic is not known."""
        lost: Counter[str] = Counter()
        for (_, topic, _), count in self._refused.items():
            lost[topic] += count
        for file in self._old.files:
            topics = file.topics
            for part in file.skipped:
                for number, count in part.lost.items():
                    lost[topics[number].name if number in topics else ''] += count
        return lost


def _copy(old: Salvage, writer: BagWriter | None) -> _SavedTally:
    """Write all messages of a bag that are right into a new one, or only count them."""
    tally = _SavedTally(old)
    added: set[str] = set()
    for file in old.files:
        topics = old.topics(file)
        reasons = {number: tally.add_topic(topic) for number, topic in topics.items()}
        for number, topic in topics.items():
            if writer is not None and not reasons[number] and topic.name not in added:
                writer.add_topic(
                    topic.name, topic.msgtype, qos_of(topic.qos), definition=_definition(topic)
                )
                added.add(topic.name)
        for number, receive_ns, stored, sent_ns in file.messages():
            found = topics.get(number)
            name = found.name if found else f'topic {number}'
            data = _uncompressed(stored)
            reason = reasons.get(number, 'its name is damaged')
            if data is None or not 0 <= receive_ns < _END_OF_TIME:
                reason = reason or 'they are damaged'
            if reason or data is None:
                tally.refuse(file.path.name, name, reason)
                continue
            tally.add(name, receive_ns)
            if writer is not None:
                writer.write(name, receive_ns, data, sent_ns)
    return tally


def _definition(topic: FoundTopic) -> Definition | None:
    """Return the definition of a topic's type; None where it is one of the common interfaces."""
    if topic.text and topic.encoding in ENCODINGS:
        return Definition(topic.msgtype, topic.text, topic.encoding, topic.digest)
    if topic.msgtype in known_types().fielddefs:
        return None
    return Definition(topic.msgtype, '', ENCODINGS[0], topic.digest)


def _uncompressed(data: bytes) -> bytes | None:
    """Return a message as it was before rosbag2 compressed it, or None where it is damaged."""
    if not data.startswith(_ZSTD_MAGIC):
        return data
    reader = zstandard.ZstdDecompressor().stream_reader(data)
    try:
        return reader.read(_LARGEST_MESSAGE)
    except zstandard.ZstdError:
        return None
