# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Small bags of each storage, mutated, and what we and rosbags read of them."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import rosbags.rosbag1
import rosbags.rosbag2
import zstandard
from mcap.writer import CompressionType
from mcap.writer import Writer as McapWriter
from rosbags.highlevel import AnyReader
from rosbags.rosbag2 import CompressionFormat, CompressionMode, StoragePlugin
from rosbags.typesys import Stores, get_typestore
from shared.common import JOINT_STATE, ORIGIN_NS, STORE

from sysid_ros.bags.reader import read_bag
from sysid_ros.bags.writer import BagWriter

STATES, DATA = '/joint_states', '/data'
_DATA = 'std_msgs/msg/Float64MultiArray'
#: Storages with a checksum over every message.
GUARDED = ('mcap', 'mcap-zstd', 'mcap-lz4', 'own-none', 'own-zstd', 'ros1-bz2')
Rows = set[tuple[str, int, tuple[float, ...]]]


def _messages(store: Any = STORE) -> Iterator[tuple[str, int, bytes]]:
    """Yield topic, stamp and message; those of ROS 1 have a number in the header."""
    number = {'seq': 0} if store is _ROS1 else {}
    kinds, write = store.types, store.serialize_ros1 if number else store.serialize_cdr
    layout = kinds['std_msgs/msg/MultiArrayLayout'](dim=[], data_offset=0)
    for k in range(300):
        stamp, values = ORIGIN_NS + k * 10_000_000, np.sin(0.1 * k + np.arange(3))
        speed = 10 * np.cos(0.1 * k + np.arange(3))
        time_ = kinds['builtin_interfaces/msg/Time'](*divmod(stamp, 10**9))
        header = kinds['std_msgs/msg/Header'](stamp=time_, frame_id='', **number)
        state = kinds[JOINT_STATE](header, ['a', 'b', 'c'], values, speed, values)
        data = kinds[_DATA](layout=layout, data=values)
        for topic, message, late in ((STATES, state, 0), (DATA, data, 1000)):
            yield topic, stamp + late, bytes(write(message, _TYPES[topic]))


_TYPES = {STATES: JOINT_STATE, DATA: _DATA}
_ROS1 = get_typestore(Stores.ROS1_NOETIC)


def seeds(folder: Path) -> Iterator[tuple[str, Path]]:
    """Write a bag of each kind; yield its name and its file of messages."""
    yield from _by_rosbags2(folder)
    for write in (_by_mcap, _by_sysid, _by_rosbags1):
        yield from write(folder)


def _by_rosbags2(folder: Path) -> Iterator[tuple[str, Path]]:
    plain, each, whole = CompressionMode.NONE, CompressionMode.MESSAGE, CompressionMode.FILE
    stored = CompressionMode.STORAGE
    for name, plugin, mode in (
        ('mcap', StoragePlugin.MCAP, plain),
        ('mcap-zstd', StoragePlugin.MCAP, stored),
        ('mcap-message', StoragePlugin.MCAP, each),
        ('sqlite', StoragePlugin.SQLITE3, plain),
        ('sqlite-message', StoragePlugin.SQLITE3, each),
        ('sqlite-file', StoragePlugin.SQLITE3, whole),
    ):
        writer = rosbags.rosbag2.Writer(folder / name, version=9, storage_plugin=plugin)
        if mode != plain:
            writer.set_compression(mode, CompressionFormat.ZSTD)
        with writer:
            known = {t: writer.add_connection(t, k, typestore=STORE) for t, k in _TYPES.items()}
            for topic, stamp, data in _messages():
                writer.write(known[topic], stamp, data)
        (file,) = (f for f in (folder / name).iterdir() if f.name != 'metadata.yaml')
        yield name, file


def _by_mcap(folder: Path) -> Iterator[tuple[str, Path]]:
    for name, kind in (('lz4', CompressionType.LZ4), ('unchecked', CompressionType.NONE)):
        file = folder / f'{name}.mcap'
        with file.open('wb') as stream:
            checked = name == 'lz4'
            chunked = McapWriter(stream, chunk_size=4096, compression=kind, enable_crcs=checked)
            chunked.start(profile='ros2', library='')
            numbers = {}
            for topic, msgtype in _TYPES.items():
                text = STORE.generate_msgdef(msgtype, ros_version=2)[0].encode()
                schema = chunked.register_schema(msgtype, 'ros2msg', text)
                numbers[topic] = chunked.register_channel(topic, 'cdr', schema)
            for topic, stamp, data in _messages():
                chunked.add_message(numbers[topic], stamp, data, stamp)
            chunked.finish()
        yield f'mcap-{name}', file


def _by_sysid(folder: Path) -> Iterator[tuple[str, Path]]:
    for compression in ('none', 'zstd'):
        with BagWriter(folder / f'own-{compression}', compression=compression) as own:
            for topic, msgtype in _TYPES.items():
                own.add_topic(topic, msgtype)
            for topic, stamp, data in _messages():
                own.write(topic, stamp, data)
        yield f'own-{compression}', own.file


def _by_rosbags1(folder: Path) -> Iterator[tuple[str, Path]]:
    for kind1 in rosbags.rosbag1.Writer.CompressionFormat:
        first = rosbags.rosbag1.Writer(folder / f'{kind1.name}.bag')
        first.set_compression(kind1)
        with first:
            links = {t: first.add_connection(t, k, typestore=_ROS1) for t, k in _TYPES.items()}
            for topic, stamp, data in _messages(_ROS1):
                first.write(links[topic], stamp, data)
        yield f'ros1-{kind1.name.lower()}', folder / f'{kind1.name}.bag'


def mutated(data: bytes, draw: random.Random) -> bytes:
    """Return bytes with one or two changes."""
    found = bytearray(data)
    for _ in range(draw.choice((1, 1, 2))):
        at, other = draw.randrange(len(found)), draw.randrange(len(found))
        size = min(draw.choice((1, 4, 30, 300, 3000)), len(found) - max(at, other))
        match draw.choice((0, 0, 0, 1, 2, 3, 4, 5, 6)):
            case 0:
                found[at] ^= 1 << draw.randrange(8)
            case 1:
                del found[max(at, 16) :]
            case 2:
                found[at : at + size], found[other : other + size] = (
                    found[other : other + size],
                    found[at : at + size],
                )
            case 3:
                found[at:at] = found[other : other + size]
            case 4:
                found[at : at + size] = bytes(size)
            case 5:
                del found[at : at + size]
            case 6:  # a length, anywhere
                width = draw.choice((4, 8))
                huge = draw.choice((0, 1, 2**31 - 1, 2**32 - 1, 10**11, 2**63 - 1, 300))
                found[at : at + width] = (huge % 256**width).to_bytes(width, 'little')
        found = found or bytearray(b'\0')
    return bytes(found)


def by_rosbags(path: Path) -> Rows:
    """Return what rosbags reads."""
    rows: Rows = set()
    unpack = zstandard.ZstdDecompressor().decompressobj
    if path.suffix == '.zstd':
        plain = path.with_name(f'plain{path.stem}')
        plain.write_bytes(unpack().decompress(path.read_bytes()))
        path = plain
    with AnyReader([path]) as reader:
        for link, stamp, data in reader.messages():
            with contextlib.suppress(Exception):  # a message of which it says that it is damaged
                whole = unpack().decompress(data) if data[:2] == b'\x28\xb5' else data
                message: Any = reader.deserialize(whole, link.msgtype)
                values = message.position if link.topic == STATES else message.data
                rows.add((link.topic, stamp, tuple(values.tolist())))
    return rows


def ours(path: Path) -> tuple[Rows, str]:
    """Return what we read and, where anything was said about it, what."""
    bag = read_bag(path)
    rows: Rows = set()
    for topic in bag.topics:
        for field in topic.fields:
            if (topic.topic, field.name) in {(STATES, 'position'), (DATA, 'data')}:
                numbers = zip(topic.receive_ns.tolist(), field.values.tolist(), strict=True)
                rows |= {(topic.topic, stamp, tuple(values)) for stamp, values in numbers}
    said = [*bag.set_back, *bag.unfinished, *bag.unread]
    return rows, str(said) if said else ''
