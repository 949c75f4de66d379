# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The files of a bag, and their messages in batches.

MCAP (https://mcap.dev/spec) is read chunk by chunk: the ``mcap`` package and rosbags make an object
of every message, which takes longer than everything else. A file whose recorder was killed is read
up to its last whole chunk. SQLite files and ROS 1 bags are read with rosbags.
"""

from __future__ import annotations

import functools
import math
import re
import shlex
import sqlite3
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, nullcontext
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, Self

import numpy as np
import yaml
from mcap.data_stream import ReadDataStream
from mcap.opcode import Opcode
from mcap.records import Channel, Chunk, Metadata, Schema
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from rosbags.highlevel import AnyReader
from rosbags.interfaces import MessageDefinitionFormat, QosDurability, QosReliability
from rosbags.rosbag1 import ReaderError as Ros1Error
from rosbags.rosbag1.reader import decompressors
from rosbags.rosbag2 import Reader
from rosbags.rosbag2 import ReaderError as Ros2Error
from rosbags.rosbag2.metadata import parse_qos
from rosbags.serde import SerdeError
from rosbags.typesys.msg import normalize_msgtype

from sysid_ros.bags import SetBack
from sysid_ros.bags.budget import LARGEST_PIECE, Budget, DamagedFileError, check_piece, unpack
from sysid_ros.bags.cdr import Batch
from sysid_ros.errors import BagError, nearest
from sysid_ros.files import check_file, read_text
from sysid_ros.text import parse_yaml
from sysid_ros.vocabulary import SECOND_NS

METADATA = 'metadata.yaml'
MCAP, SQLITE, ROS1 = STORAGE_SUFFIXES = ('.mcap', '.db3', '.bag')
#: Files that are read as bags, see `tables`.
CSV, PARQUET = TABLE_SUFFIXES = ('.csv', '.parquet')
#: Behind the suffix of a file that rosbag2 has compressed as a whole.
_COMPRESSED = '.zstd'
#: Name of the MCAP metadata record that holds the session's facts.
FACTS = 'sysid_ros'
_DIGITS = re.compile(r'(\d+)')
#: A batch has about so many bytes: enough for NumPy, little for the memory.
_BATCH_BYTES = 4 << 20
_MAGIC = b'\x89MCAP0\r\n'
#: Bytes of ``#ROSBAG V2.0`` and what may follow in its line.
_LONGEST_FIRST_LINE = 64
#: Opcode and length before every record.
_HEAD = struct.Struct('<BQ')
#: What is before the message in its record.
_MESSAGE = np.dtype(
    [
        ('opcode', 'u1'),
        ('length', '<u8'),
        ('channel', '<u2'),
        ('sequence', '<u4'),
        ('received_ns', '<i8'),
        ('sent_ns', '<i8'),
    ]
)
#: How schemas name the languages of definitions.
_LANGUAGES = {'ros2msg': 'ros2msg', 'ros2idl': 'ros2idl', 'omgidl': 'ros2idl'}
_DEFINITIONS = {MessageDefinitionFormat.MSG: 'ros2msg', MessageDefinitionFormat.IDL: 'ros2idl'}
_READ = {Opcode.SCHEMA, Opcode.CHANNEL, Opcode.MESSAGE, Opcode.CHUNK, Opcode.METADATA}
#: rosbag2 marks no message that it has compressed by itself, but zstd does; CDR begins otherwise.
_ZSTD_MAGIC = b'\x28\xb5\x2f\xfd'
#: Receive stamps of a topic that fall by more than this, and stay behind, were set back, ns.
_SET_BACK_NS = 100_000_000
#: Messages after the fall that have to stay behind, too: one that was written late does not.
_CONFIRMED_BY = 3
#: How long it took to set the clock back, ns: nobody knows.
_PAUSE_NS = SECOND_NS


class TopicQos(NamedTuple):
    """What players need to know about how a topic was offered."""

    reliable: bool = True
    transient_local: bool = False
    depth: int = 10

    @classmethod
    @functools.lru_cache(maxsize=64)
    def of(cls, text: str) -> Self:
        """Return the QoS of a topic's first publisher as files hold it, or the default.

        Args:
            text: YAML of any version of rosbag2, or whatever is there instead.
        """
        try:
            profile = parse_qos(text)[0]
            return cls(
                reliable=profile.reliability == QosReliability.RELIABLE,
                transient_local=profile.durability == QosDurability.TRANSIENT_LOCAL,
                depth=int(profile.depth),
            )
        # Damaged text causes many kinds of errors.
        except Exception:  # noqa: BLE001
            return cls()


class Topic(NamedTuple):
    """A topic in a bag."""

    name: str  # its name
    msgtype: str  # its type, as ``sensor_msgs/msg/JointState``
    qos: TopicQos = TopicQos()  # how it is offered
    #: Definition of the type with those of all types inside it, as rosbag2 joins them; empty for
    #: ROS 2 Jazzy's common interfaces, or where a file does not say.
    definition: str = ''
    language: str = 'ros2msg'  # language of the definition, ``ros2msg`` or ``ros2idl``
    serialization: str = 'cdr'  # how messages are encoded; ``cdr`` is what we read

    @property
    def is_cdr(self) -> bool:
        """Whether its messages are in CDR."""
        return self.serialization in {'cdr', ''}


#: Whether messages of a topic are needed; asked for every batch.
IsNeeded = Callable[[Topic], bool]
_Batches = Iterator[tuple[Topic, Batch]]


def suffix(file: Path) -> str:
    """Return what kind of storage a file is by its name, or an empty string."""
    name = file.name.removesuffix(_COMPRESSED)
    return next((item for item in STORAGE_SUFFIXES if name.endswith(item)), '')


def natural_order(file: Path) -> list[tuple[int, str]]:
    """Return a key that sorts ``bag_10`` behind ``bag_9``."""
    parts = _DIGITS.split(file.name)
    return [(int(part), '') if part.isdigit() else (-1, part) for part in parts]


def _find_bag(path: Path) -> tuple[list[Path], dict[str, str]]:
    """Return the storage files in the order of recording, and the facts in ``metadata.yaml``.

    Raises:
        BagError: There is nothing, something else, or a file of the bag is missing.
    """
    if not path.exists():
        folder = path.absolute().parent
        siblings = sorted(entry.name for entry in folder.iterdir()) if folder.is_dir() else []
        bags = [name for name in siblings if (folder / name / METADATA).exists()]
        raise BagError(f'There is no bag {str(path)!r}; {nearest(path.name, bags or siblings)}.')
    if not path.is_dir():
        if not suffix(path):
            *first, last = *STORAGE_SUFFIXES, *TABLE_SUFFIXES
            raise BagError(
                f'Expected a bag folder or a file that ends with {", ".join(first)} or {last}, '
                f'found {str(path)!r}.'
            )
        return [path], {}
    if (path / METADATA).exists():
        return _described(path)
    files = sorted((entry for entry in path.iterdir() if suffix(entry)), key=natural_order)
    if not files:
        inside = sorted(entry.name for entry in path.iterdir() if (entry / METADATA).exists())
        hint = f'; bags inside: {", ".join(inside[:3])}' if inside else ''
        raise BagError(
            f'The folder {str(path)!r} is no bag: it has neither {METADATA} nor data files{hint}.'
        )
    return files, {}


def _described(path: Path) -> tuple[list[Path], dict[str, str]]:
    try:
        document = parse_yaml(read_text(path / METADATA))
        information = document['rosbag2_bagfile_information']
        # Old versions name files with the folder before them.
        files = [path / str(name).rsplit('/', 1)[-1] for name in information['relative_file_paths']]
        facts = {str(k): str(v) for k, v in (information.get('custom_data') or {}).items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, yaml.YAMLError) as err:
        raise BagError(
            f'The bag {str(path)!r} is damaged: its {METADATA} is not what a recorder writes.'
        ) from err
    for file in files:
        if not file.is_file():
            raise BagError(
                f'The bag {str(path)!r} has {METADATA}, but its data file {file.name} is missing.'
            )
        if not suffix(file):
            raise BagError(
                f'Expected files that end with {MCAP} or {SQLITE} in the bag {str(path)!r}, '
                f'found {file.name}.'
            )
    return files, facts


class Onward:
    """Lets the receive stamps of a bag go on where the clock of its recorder was set back.

    That happens where a simulation begins again under ``use_sim_time``, or somebody sets the
    time: what was recorded before and after would be interleaved. MCAP files hold messages in the
    order in which they came, so that it shows where stamps of one topic fall; those of several
    topics need not be in order, as some programs write one topic after the other.

    Attributes:
        set_back: What was found, in the order of the files.
    """

    def __init__(self) -> None:
        """Begin before the first file."""
        self.set_back: list[SetBack] = []
        self._latest: dict[Topic, int] = {}
        self._newest = 0
        self._added = 0

    def stamps(
        self, stamps: NDArray[np.int64], topics: Mapping[int, Topic], numbers: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Return the (n,) receive stamps, ns, of the next messages in the file as they go on."""
        onward = stamps.copy()
        start = 0
        while start < len(stamps):
            stop = len(stamps)
            known = {}
            for number in np.unique(numbers[start:]).tolist():
                rows = start + np.flatnonzero(numbers[start:] == number)
                topic = topics[number]
                known[topic] = rows
                own = stamps[rows]
                newest = np.maximum.accumulate(np.append(self._latest.get(topic, own[0]), own))
                for row in np.flatnonzero(own < newest[:-1] - _SET_BACK_NS).tolist():
                    if (own[row : row + _CONFIRMED_BY] < newest[row]).all():
                        stop = min(stop, int(rows[row]))
                        break
            for topic, rows in known.items():
                own = stamps[rows[rows < stop]]
                if len(own):
                    self._latest[topic] = max(self._latest.get(topic, 0), int(own.max()))
                    self._newest = max(self._newest, int(own.max()))
            onward[start:stop] += self._added
            if stop < len(stamps):
                goes_on = self._newest + self._added + _PAUSE_NS
                self._added = goes_on - int(stamps[stop])
                seconds = (self._newest - int(stamps[stop])) / 1e9
                self.set_back.append(SetBack(goes_on - _PAUSE_NS // 2, self._added, seconds))
                self._latest.clear()
                self._newest = 0
            start = stop
        return onward


class BagMessages:
    """The messages of a bag, read file by file.

    Attributes:
        path: Folder or file.
        topics: The topics in the files, with and without messages.
        facts: Facts of the session.
        onward: Where the recorder's clock was set back.
        unfinished: Names of files that their recorder has not closed.
        unlisted: Names of files that are of the bag's kind and not in its metadata.
        budget: What the bag may still become.

    All but the path, the last two and the budget are known when the batches have been read.
    """

    def __init__(self, path: Path) -> None:
        """Look for the files.

        Raises:
            BagError: There is no bag, or a file of it is missing.
        """
        self.path = path
        self.topics: list[Topic] = []
        self.facts: dict[str, str] = {}
        self.onward = Onward()
        self.unfinished: list[str] = []
        self._files, self._described = _find_bag(path)
        inside = path.iterdir() if path.is_dir() else ()
        self.unlisted = sorted(file.name for file in {*filter(suffix, inside)} - {*self._files})
        self.budget = Budget(sum(file.stat().st_size for file in self._files))
        # Of the file that is being read, by their numbers in it.
        self._numbered: dict[int, Topic] = {}
        self._schemas: dict[int, Schema] = {}
        self._raw: dict[tuple[int, bytes], bytes] = {}
        self._finished = True

    def batches(self, is_needed: IsNeeded) -> _Batches:
        """Yield the messages of each topic, files in the order of the recording.

        Raises:
            BagError: A file is damaged, in one sentence.
        """
        for number, file in enumerate(self._files):
            self._numbered, self._schemas, self._raw, self._finished = {}, {}, {}, True
            with _readable(self.path, file), TemporaryDirectory() as folder:
                check_file(file, math.inf)
                plain = file
                if file.name.endswith(_COMPRESSED):
                    plain = Path(folder) / file.stem
                    with file.open('rb') as source, plain.open('wb') as sink:
                        for part in unpack('zstd', iter(lambda: source.read(_BATCH_BYTES), b'')):
                            self.budget.take(len(part))
                            sink.write(part)
                read = self._mcap if suffix(file) == MCAP else self._by_rosbags
                for topic, messages in read(plain, is_needed):
                    yield topic, self._decompressed(messages)._replace(file=number)
            self.topics += [item for item in self._numbered.values() if item not in self.topics]
            if not self._finished:
                self.unfinished.append(file.name)
        self.facts.update(self._described)

    def _by_rosbags(self, file: Path, is_needed: IsNeeded) -> _Batches:
        """Yield the messages of an SQLite file or a ROS 1 bag, in the encoding of ROS 2."""
        for end in ('-wal', '-journal'):
            journal = file.with_name(file.name + end)
            if journal.exists() and journal.stat().st_size:
                raise DamagedFileError(
                    f'its recorder has left messages in {journal.name}, which '
                    f'`sqlite3 {file.name} .tables` puts into the database'
                )
        is_ros1 = suffix(file) == ROS1
        if is_ros1:
            with file.open('rb') as stream:
                # rosbags would read on to the end of a line, wherever that is.
                if b'\n' not in stream.read(_LONGEST_FIRST_LINE):
                    raise DamagedFileError('it does not begin as bags of ROS 1 do')
        reader: Any = AnyReader([file]) if is_ros1 else Reader(file)
        with _sqlite_within_limits(file) if not is_ros1 else nullcontext(), reader:
            if is_ros1:
                self._limit_chunks(reader.readers[0])
            for item in reader.connections:
                self._numbered[item.id] = Topic(
                    item.topic,
                    normalize_msgtype(item.msgtype),
                    definition=item.msgdef.data,
                    # ROS 1 writes definitions nearly as ROS 2 does; rosbags reads both.
                    language='ros2msg' if is_ros1 else _DEFINITIONS.get(item.msgdef.format, ''),
                    serialization='cdr' if is_ros1 else item.ext.serialization_format,
                )
            needed = [item for item in reader.connections if is_needed(self._numbered[item.id])]

            def encoded(item: Any, data: bytes) -> bytes:
                if not is_ros1:
                    return data
                try:
                    # ros1_to_cdr() would drop the header's number, which is in the definition.
                    content = reader.typestore.deserialize_ros1(data, item.msgtype)
                    return bytes(reader.typestore.serialize_cdr(content, item.msgtype))
                except SerdeError:
                    return b''  # no CDR: its topic is not read, the others are

            yield from _batches(
                (self._numbered[item.id], stamp, encoded(item, self._counted(data)))
                for item, stamp, data in (reader.messages(needed) if needed else ())
            )

    def _counted(self, data: bytes) -> bytes:
        self.budget.take(len(data))
        return data

    def _limit_chunks(self, reader: Any) -> None:
        """Let rosbags' reader of ROS 1 bags decompress within the budget."""
        names = {function: name for name, function in decompressors.items()}
        for place, chunk in reader.chunks.items():
            check_piece(chunk.datasize)
            unpacked = functools.partial(self.budget.unpacked, names[chunk.decompressor])
            reader.chunks[place] = chunk._replace(decompressor=unpacked)

    def _decompressed(self, found: Batch) -> Batch:
        """Decompress messages that rosbag2 has compressed one by one."""
        if not (len(found.sizes) and found.message(0).startswith(_ZSTD_MAGIC)):
            return found
        rows = range(len(found.sizes))
        messages = [self.budget.unpacked('zstd', found.message(row)) for row in rows]
        return Batch.of(found.receive_ns, messages, found.sent_ns)

    def _mcap(self, file: Path, is_needed: IsNeeded) -> _Batches:
        """Yield the messages of several chunks at a time."""
        waiting: list[bytes] = []
        size = 0
        for opcode, head, content in self._records(file):
            if opcode == Opcode.CHUNK:
                chunk = Chunk.read(ReadDataStream(BytesIO(content)))
                data = self.budget.unpacked(chunk.compression, chunk.data)
                if chunk.uncompressed_crc not in {0, zlib.crc32(data)}:
                    raise DamagedFileError('the checksum of a chunk is wrong')
            elif opcode == Opcode.MESSAGE:
                data = head + content
            else:
                self._take(opcode, content)
                continue
            waiting.append(data)
            size += len(data)
            if size >= _BATCH_BYTES:
                yield from self._cut(b''.join(waiting), is_needed)
                waiting, size = [], 0
        yield from self._cut(b''.join(waiting), is_needed)

    def _records(self, path: Path) -> Iterator[tuple[int, bytes, bytes]]:
        """Yield opcode, head and content of the records that matter, up to the footer."""
        with path.open('rb') as file:
            if file.read(len(_MAGIC)) != _MAGIC:
                raise BagError(f'Expected an MCAP file, found that {str(path)!r} is none.')
            end = path.stat().st_size
            while True:
                head = file.read(_HEAD.size)
                opcode, length = _HEAD.unpack(head) if len(head) == _HEAD.size else (0, end)
                if opcode == Opcode.FOOTER:
                    return
                if file.tell() + length > end:
                    file.seek(-len(_MAGIC), 2)
                    if file.read() == _MAGIC:
                        raise DamagedFileError('a record is longer than the file')
                    self._finished = False
                    return
                if not opcode:
                    raise DamagedFileError('there is no record of kind 0')
                if opcode in _READ:
                    check_piece(length)
                    yield opcode, head, file.read(length)
                else:
                    file.seek(length, 1)

    def _take(self, opcode: int, content: bytes) -> None:
        """Take what a record other than a message says; schemas and channels may be repeated."""
        if opcode == Opcode.METADATA:
            metadata = Metadata.read(ReadDataStream(BytesIO(content)))
            if metadata.name == FACTS:
                self.facts.update(metadata.metadata)
            return
        number = opcode, content[:2]
        if self._raw.get(number) == content:
            return
        kind: type[Schema | Channel] = Schema if opcode == Opcode.SCHEMA else Channel
        found = kind.read(ReadDataStream(BytesIO(content)))
        if number in self._raw and found != kind.read(ReadDataStream(BytesIO(self._raw[number]))):
            raise DamagedFileError(f'{kind.__name__.lower()} {found.id} is described in two ways')
        self._raw[number] = content
        if isinstance(found, Schema):
            self._schemas[found.id] = found
        else:
            described = self._schemas.get(found.schema_id)
            language = _LANGUAGES.get(described.encoding, '') if described else ''
            self._numbered[found.id] = Topic(
                found.topic,
                normalize_msgtype(described.name) if described and described.name else '',
                TopicQos.of(found.metadata.get('offered_qos_profiles', '')),
                described.data.decode('utf-8', 'replace') if described and language else '',
                language,
                found.message_encoding,
            )

    def _cut(self, data: bytes, is_needed: IsNeeded) -> _Batches:
        """Cut records into the messages of each topic."""
        starts, sizes = self._messages(data)
        if not len(starts):
            return
        buffer = np.frombuffer(data, np.uint8)
        heads = sliding_window_view(buffer, _MESSAGE.itemsize)[starts].view(_MESSAGE)[:, 0]
        channels = heads['channel'].astype(np.int64)
        numbers = np.unique(channels).tolist()
        unknown = [number for number in numbers if number not in self._numbered]
        if unknown:
            raise DamagedFileError(f'messages of a channel {unknown[0]} are not described')
        stamps, sent = heads['received_ns'].copy(), heads['sent_ns'].copy()
        received = self.onward.stamps(stamps, self._numbered, channels)
        # Recorders that do not know when a message was sent repeat when they received it.
        sent[sent == stamps] = 0
        starts = starts + _MESSAGE.itemsize
        for number in numbers:
            if is_needed(self._numbered[number]):
                own = channels == number
                batch = Batch(received[own], buffer, starts[own], sizes[own], sent[own])
                yield self._numbered[number], batch

    def _messages(self, data: bytes) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return where the records of messages begin, and the sizes of the messages."""
        starts: list[int] = []
        lengths: list[int] = []
        unpack, head = _HEAD.unpack_from, _HEAD.size
        position, end = 0, len(data)
        while position + head <= end:
            opcode, length = unpack(data, position)
            if opcode == Opcode.MESSAGE:
                starts.append(position)
                lengths.append(length)
            elif opcode not in {Opcode.SCHEMA, Opcode.CHANNEL}:
                raise DamagedFileError(f'there is no record of kind {opcode} in chunks')
            elif position + head + length <= end:
                self._take(opcode, data[position + head : position + head + length])
            position += head + length
        sizes = np.array(lengths, dtype=np.int64) + head - _MESSAGE.itemsize
        if position != end or (sizes < 0).any():
            raise DamagedFileError('a record does not fit into its chunk')
        return np.array(starts, dtype=np.int64), sizes


def _batches(messages: Iterable[tuple[Topic, int, bytes]]) -> _Batches:
    """Gather single messages into batches of a topic each."""
    rows: dict[Topic, tuple[list[int], list[bytes]]] = {}
    size = 0
    for topic, stamp, data in messages:
        stamps, own = rows.setdefault(topic, ([], []))
        stamps.append(stamp)
        own.append(data)
        size += len(data)
        if size >= _BATCH_BYTES:
            yield from ((item, Batch.of(*found)) for item, found in rows.items())
            rows, size = {}, 0
    yield from ((item, Batch.of(*found)) for item, found in rows.items())


@contextmanager
def _sqlite_within_limits(file: Path) -> Iterator[None]:
    """Let SQLite compute nothing, and read no value that is larger than any message.

    A file of a few kilobytes may have columns that are computed, or values whose pages lie in a
    ring.
    """
    import apsw  # noqa: PLC0415 (what rosbags reads SQLite by)

    hidden = 'SELECT 1 FROM sqlite_master m, pragma_table_xinfo(m.name) c WHERE c.hidden > 0'
    with closing(sqlite3.connect(f'{file.absolute().as_uri()}?immutable=1', uri=True)) as database:
        if database.execute(hidden).fetchone():
            raise DamagedFileError('its tables have columns that are computed')

    def limit(connection: Any) -> None:
        connection.limit(apsw.SQLITE_LIMIT_LENGTH, LARGEST_PIECE)

    apsw.connection_hooks.append(limit)
    try:
        yield
    finally:
        apsw.connection_hooks.remove(limit)


@contextmanager
def _readable(path: Path, file: Path) -> Iterator[None]:
    """Turn whatever damaged bytes raise into one sentence."""
    try:
        yield
    except BagError:
        raise
    except MemoryError as err:
        raise BagError(
            f'The bag {str(path)!r} is damaged or too large: it announces more than memory holds.'
        ) from err
    except OSError as err:
        raise BagError(
            f'The bag {str(path)!r} cannot be read: {err.strerror or err} ({file.name}).'
        ) from err
    # The libraries let everything through that damaged bytes can cause: struct.error, KeyError,
    # AssertionError, TypeError, sqlite and zstd errors beside their own.
    except Exception as err:
        explained = isinstance(err, (DamagedFileError, Ros1Error, Ros2Error))
        reason = ' '.join(str(err).split()).rstrip('.') if explained else ''
        where = '' if file == path else f' ({file.name})'
        hint = ''
        if suffix(file) == MCAP:
            hint = f'; `mcap recover {shlex.quote(str(file))}` saves the chunks that are whole'
        raise BagError(
            f'The bag {str(path)!r} is damaged: {reason or "it cannot be decoded"}{where}{hint}.'
        ) from err
