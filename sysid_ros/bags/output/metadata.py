# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""rosbag2's metadata, in the version that ROS 2 Jazzy writes.

What is in it: https://github.com/ros2/rosbag2/blob/jazzy/rosbag2_storage/include/rosbag2_storage/
bag_metadata.hpp and yaml.hpp beside it.
"""

from __future__ import annotations

import functools
import os
from typing import TYPE_CHECKING, Any, NamedTuple

import yaml
from rosbags.interfaces import QosDurability, QosReliability
from rosbags.rosbag2.metadata import dump_qos_v9, parse_qos

from sysid_ros.bags.output.files import Extent, TopicQos, sync_folder

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from sysid_ros.bags.output.files import Topic

METADATA = 'metadata.yaml'
VERSION = 9
#: When a bag without messages starts, ns: the latest time there is.
_NEVER = 2**63 - 1


class WrittenFile(NamedTuple):
    """A storage file of a bag and what is in it."""

    name: str
    extent: Extent


@functools.lru_cache(maxsize=256)
def qos_text(qos: TopicQos) -> str:
    """Return the quality of service of a topic as storage files hold it."""
    return _dump(dump_qos_v9([qos.profile()])).strip()


@functools.lru_cache(maxsize=256)
def qos_of(text: str) -> TopicQos:
    """Return the quality of service of a topic's first publisher as files hold it, or the default.

    Args:
        text: YAML of any version of rosbag2, or whatever is there instead.
    """
    try:
        profile = parse_qos(text)[0]
        depth = int(profile.depth)
    # Damaged text causes many kinds of errors.
    except Exception:  # noqa: BLE001
        return TopicQos()
    return TopicQos(
        reliable=profile.reliability == QosReliability.RELIABLE,
        transient_local=profile.durability == QosDurability.TRANSIENT_LOCAL,
        depth=depth,
    )


def information(
    topics: Sequence[Topic],
    files: Sequence[WrittenFile],
    storage: str,
    facts: Mapping[str, str],
) -> dict[str, Any]:
    """Return what rosbag2 calls the information of a bag file.

    Args:
        topics: The topics.
        files: The storage files, in order.
        storage: Name of their format.
        facts: What else is to be known about the recording.
    """
    total = joined(file.extent for file in files)
    return {
        'version': VERSION,
        'storage_identifier': storage,
        **_span(total),
        'message_count': total.messages,
        'topics_with_message_count': [
            {
                'topic_metadata': {
                    'name': topic.name,
                    'type': topic.definition.msgtype,
                    'serialization_format': 'cdr',
                    'offered_qos_profiles': dump_qos_v9([topic.qos.profile()]),
                    'type_description_hash': topic.definition.digest,
                },
                'message_count': total.counts.get(topic.number, 0),
            }
            for topic in topics
        ],
        'compression_format': '',
        'compression_mode': '',
        'relative_file_paths': [file.name for file in files],
        'files': [
            {'path': file.name, **_span(file.extent), 'message_count': file.extent.messages}
            for file in files
        ],
        'custom_data': dict(facts),
        'ros_distro': os.environ.get('ROS_DISTRO', 'unknown'),
    }


def joined(extents: Iterable[Extent]) -> Extent:
    """Return what several files hold together."""
    total = Extent()
    for extent in extents:
        for number, count in extent.counts.items():
            total.counts[number] = total.counts.get(number, 0) + count
        if extent.start_ns is not None and extent.end_ns is not None:
            starts = (extent.start_ns, total.start_ns)
            ends = (extent.end_ns, total.end_ns)
            total.start_ns = min(stamp for stamp in starts if stamp is not None)
            total.end_ns = max(stamp for stamp in ends if stamp is not None)
    return total


def metadata_text(content: Mapping[str, Any]) -> str:
    """Return the information of a bag file as storage files hold it."""
    return _dump(content).strip()


def write_metadata(folder: Path, content: Mapping[str, Any]) -> None:
    """Write metadata.yaml, whole or not at all, and wait for the disk.

    Raises:
        OSError: The disk refuses.
    """
    temporary = folder / f'.{METADATA}.tmp'
    try:
        with temporary.open('w', encoding='utf8') as stream:
            stream.write(_dump({'rosbag2_bagfile_information': content}))
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(folder / METADATA)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(folder)


def _span(extent: Extent) -> dict[str, Any]:
    start = _NEVER if extent.start_ns is None else extent.start_ns
    duration = 0 if extent.end_ns is None else extent.end_ns - start
    return {
        'duration': {'nanoseconds': duration},
        'starting_time': {'nanoseconds_since_epoch': start},
    }


def _dump(content: object) -> str:
    return str(yaml.safe_dump(content, sort_keys=False, allow_unicode=True))
