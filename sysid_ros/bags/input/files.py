# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What the storage files of a bag have in common when they are read."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np
import zstandard

from sysid_ros.bags.columns import SetBack
from sysid_ros.bags.messages.batch import Batch, batch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

#: A batch has about so many bytes: enough for NumPy, little for the memory.
BATCH_BYTES = 4 << 20
#: A batch has at most so many messages.
BATCH_MESSAGES = 4096
#: Nothing in a bag is larger when it is decompressed; what claims to be is damaged.
_LARGEST = 1 << 30
#: Receive stamps of a topic that fall by more than this, and stay behind, were set back, ns.
_SET_BACK_NS = 100_000_000
_CONFIRMED_BY = 3
#: How long it took to set the clock back, ns: nobody knows.
_PAUSE_NS = 1_000_000_000
#: rosbag2 marks no message that it has compressed by itself, but zstd does; CDR begins otherwise.
_ZSTD_MAGIC = np.frombuffer(b'\x28\xb5\x2f\xfd', np.uint8)


class DamagedFileError(Exception):
    """What is wrong with a file, in words that follow "The bag is damaged:"."""


class Stream(NamedTuple):
    """A topic in a file.

    Attributes:
        topic: Name of the topic.
        msgtype: Its type.
        definition: Definition of the type, or empty.
        language: Language of the definition, ``ros2msg`` or ``ros2idl``, or empty.
        serialization: How messages are encoded; ``cdr`` is what we read.
        qos: Quality of service of its publishers, as YAML; empty where the file does not say.
    """

    topic: str
    msgtype: str
    definition: str = ''
    language: str = ''
    serialization: str = 'cdr'
    qos: str = ''


class InputFile(Protocol):
    """A storage file that is read."""

    @property
    def facts(self) -> Mapping[str, str]:
        """Facts of the session; all of them are known when the batches have been read."""

    def counts(self) -> Mapping[Stream, int]:
        """Return the announced messages of the topics that are known before reading."""

    def batches(self, is_needed: Callable[[Stream], bool]) -> Iterator[tuple[Stream, Batch]]:
        """Yield the messages, per topic in the order of the file.

        Args:
            is_needed: Whether messages of a topic are needed; asked again and again.

        Raises:
            DamagedFileError: The file is not whole.
            Beside that, libraries let through whatever damaged bytes lead to.
        """

    def close(self) -> None:
        """Let go of the file."""


class Onward:
    """Lets the receive stamps of a bag go on where the clock of its recorder was set back.

    That happens where a simulation begins again under ``use_sim_time``, or somebody sets the
    time: what was recorded before and after would be interleaved. Files hold messages in the order
    in which they came, so that it shows where stamps of one topic fall; those of several topics
    need not be in order, as some programs write one topic after the other.

    Attributes:
        set_back: What was found, in the order of the files.
    """

    def __init__(self) -> None:
        """Begin before the first file."""
        self.set_back: list[SetBack] = []
        self._latest: dict[Stream, int] = {}
        self._newest = 0
        self._added = 0

    def stamps(
        self, stamps: NDArray[np.int64], streams: Mapping[int, Stream], numbers: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Return the stamps of the next messages as they go on.

        Args:
            stamps: (n,) receive stamps in the order of the file, ns.
            streams: The topics by their numbers.
            numbers: (n,) number of each message's topic.
        """
        onward = stamps.copy()
        start = 0
        while start < len(stamps):
            stop = len(stamps)
            known = {}
            for number in np.unique(numbers[start:]).tolist():
                rows = start + np.flatnonzero(numbers[start:] == number)
                stream = streams.get(number)
                if stream is None:
                    continue
                known[stream] = rows
                own = stamps[rows]
                newest = np.maximum.accumulate(np.append(self._latest.get(stream, own[0]), own))
                for row in np.flatnonzero(own < newest[:-1] - _SET_BACK_NS).tolist():
                    # One message that was written late is followed by one that was not.
                    if (own[row : row + _CONFIRMED_BY] < newest[row]).all():
                        stop = min(stop, int(rows[row]))
                        break
            for stream, rows in known.items():
                own = stamps[rows[rows < stop]]
                if len(own):
                    self._latest[stream] = max(self._latest.get(stream, 0), int(own.max()))
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


def decompressed(found: Batch) -> Batch:
    """Decompress messages that rosbag2 has compressed one by one."""
    long_enough = found.sizes >= len(_ZSTD_MAGIC)
    starts = found.starts[long_enough]
    heads = found.buffer[starts[:, None] + np.arange(len(_ZSTD_MAGIC))]
    if not (heads == _ZSTD_MAGIC).all(axis=1).any():
        return found
    magic = _ZSTD_MAGIC.tobytes()
    messages = [found.message(row) for row in range(len(found.sizes))]
    whole = [decompress(data) if data.startswith(magic) else data for data in messages]
    return batch(found.receive_ns, whole, found.sent_ns)


def decompress(data: bytes, size: int | None = None) -> bytes:
    """Decompress a zstd frame.

    Args:
        data: The frame.
        size: Bytes that it must have when it is decompressed, where they are known.

    Raises:
        DamagedFileError: It claims another size, or more than anything in a bag has.
        zstandard.ZstdError: It is damaged.
    """
    announced = zstandard.frame_content_size(data)
    limit = _LARGEST if size is None else size
    if limit > _LARGEST or announced > limit:
        msg = f'compressed data claims to be {max(limit, announced)} bytes'
        raise DamagedFileError(msg)
    if announced < 0 and size is None:
        with zstandard.ZstdDecompressor().stream_reader(data) as reader:
            return reader.read(_LARGEST)
    return zstandard.ZstdDecompressor().decompress(data, max_output_size=limit)


def unpacked(file: Path, folder: Path) -> Path:
    """Decompress a whole file into a folder and return it."""
    target = folder / file.stem
    with file.open('rb') as source, target.open('wb') as sink:
        zstandard.ZstdDecompressor().copy_stream(source, sink)
    return target
