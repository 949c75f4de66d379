# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Recording: every message is in the bag or counted as lost."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import yaml
from rosbags.rosbag2 import Reader

from sysid_ros.bags.recording import Buffering, Recording, TopicStats, free_name, summary
from sysid_ros.bags.storage import Topic
from sysid_ros.bags.writer import BagWriter
from sysid_ros.errors import BagError

STATES = Topic('/joint_states', 'sensor_msgs/msg/JointState')
COMMANDS = Topic('/arm/commands', 'std_msgs/msg/Float64MultiArray')
SECOND = 1_000_000_000
TIMEOUT = 20.0
IN_IT = 'what was flushed before is in it, and is read as it is'


def _content(path: Path) -> list[tuple[str, int, bytes]]:
    with Reader(path) as reader:
        return [(connection.topic, stamp, data) for connection, stamp, data in reader.messages()]


def _numbered(topic: str, count: int) -> list[tuple[str, int, bytes]]:
    return [
        (topic, number * SECOND // 100, number.to_bytes(8, 'little')) for number in range(count)
    ]


@pytest.fixture
def held_writer(monkeypatch: pytest.MonkeyPatch) -> tuple[threading.Event, threading.Event]:
    """Make the writer wait in its first message; return (it waits, let it go on)."""
    reached, release = threading.Event(), threading.Event()
    write = BagWriter.write

    def wait(self: BagWriter, topic: str, receive_ns: int, cdr: bytes, sent_ns: int) -> None:
        reached.set()
        assert release.wait(TIMEOUT)
        write(self, topic, receive_ns, cdr, sent_ns)

    monkeypatch.setattr(BagWriter, 'write', wait)
    return reached, release


def test_every_message_is_in_the_bag_once_and_in_order(tmp_path: Path):
    sent = sorted(
        _numbered(STATES.name, 5000) + _numbered(COMMANDS.name, 500), key=lambda row: row[1]
    )
    recording = Recording(tmp_path / 'bag', [STATES, COMMANDS])
    for row in sent:
        recording.put(*row)
    counts = recording.close().counts
    assert sorted(_content(tmp_path / 'bag')) == sorted(sent)
    assert [(c.topic, c.messages, c.rate, c.lost, c.dropped) for c in counts] == [
        (COMMANDS.name, 500, pytest.approx(100), 0, 0),
        (STATES.name, 5000, pytest.approx(100), 0, 0),
    ]
    assert recording.failure is None


def test_what_does_not_fit_into_the_queue_is_counted_per_topic(
    tmp_path: Path, held_writer: tuple[threading.Event, threading.Event]
):
    reached, release = held_writer
    recording = Recording(
        tmp_path / 'bag',
        [STATES, COMMANDS],
        buffering=Buffering(queue_bytes=len(b'first') + 10 * len(b'more')),
    )
    recording.put(STATES.name, 0, b'first')
    assert reached.wait(TIMEOUT)
    for number in range(13):
        recording.put(STATES.name, number, b'more')
    for number in range(4):
        recording.put(COMMANDS.name, number, b'none')
    release.set()
    assert [(c.topic, c.messages, c.dropped) for c in recording.close().counts] == [
        (COMMANDS.name, 0, 4),
        (STATES.name, 11, 3),
    ]
    assert len(_content(tmp_path / 'bag')) == 11


def test_a_message_waits_no_longer_than_the_queue_is_set_to(
    tmp_path: Path, held_writer: tuple[threading.Event, threading.Event]
):
    reached, release = held_writer
    recording = Recording(tmp_path / 'bag', [STATES], buffering=Buffering(queue_seconds=0.05))
    recording.put(STATES.name, 0, b'first')
    assert reached.wait(TIMEOUT)
    put = 1
    while not recording.counts()[0].dropped:
        recording.put(STATES.name, put, b'more')
        put += 1
    release.set()
    (found,) = recording.close().counts
    assert (found.messages + found.dropped, found.lost) == (put, 0)
    assert len(_content(tmp_path / 'bag')) == found.messages
    assert json.loads(_facts(tmp_path / 'bag')['dropped']) == {STATES.name: found.dropped}


def _facts(path: Path) -> dict[str, str]:
    document = yaml.safe_load((path / 'metadata.yaml').read_text())
    return dict(document['rosbag2_bagfile_information']['custom_data'])


def test_facts_and_losses_are_in_the_bag(tmp_path: Path):
    recording = Recording(tmp_path / 'bag', [STATES], facts={'version': '1', 'notes': 'old'})
    recording.set_facts({'notes': 'new'})
    recording.count_lost(STATES.name, 7)
    recording.close()
    assert _facts(tmp_path / 'bag') == {
        'version': '1',
        'notes': 'new',
        'dropped': f'{{"{STATES.name}": 0}}',
        'lost': f'{{"{STATES.name}": 7}}',
    }


def test_a_topic_without_definition_is_refused_and_the_rest_goes_on(tmp_path: Path):
    recording = Recording(tmp_path / 'bag', [STATES])
    with pytest.raises(BagError, match=r"^Topic '/own' cannot be recorded: no definition of"):
        recording.add(Topic('/own', 'own_msgs/msg/Own'))
    recording.add(Topic('/own', 'own_msgs/msg/Own', definition='float64 value\n'))
    recording.put('/own', 5, b'data')
    assert recording.close().failure is None
    assert _content(tmp_path / 'bag') == [('/own', 5, b'data')]


def test_any_exception_in_a_thread_ends_the_recording_with_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def fail(*_: object) -> None:
        raise ValueError('not\nexpected.')

    def refuse(_: BagWriter) -> None:
        raise BagError('Input/output error.')

    for name, method, found in (
        (
            'write',
            fail,
            f'Cannot write the bag {str(tmp_path / "write")!r}: ValueError: not expected',
        ),
        ('sync', refuse, 'Input/output error'),
    ):
        failures: list[BagError] = []
        failed = threading.Event()
        with monkeypatch.context() as patch:
            patch.setattr(BagWriter, name, method)
            recording = Recording(
                tmp_path / name,
                [STATES],
                buffering=Buffering(sync_seconds=0.01, flush_seconds=0.01),
                on_failure=lambda err: (failures.append(err), failed.set()),  # noqa: B023
            )
            if name == 'write':
                recording.put(STATES.name, 1, b'one')
            assert failed.wait(TIMEOUT)
        summary = recording.close()
        assert [str(err) for err in failures] == [f'{found}; {IN_IT}.']
        assert summary.failure is failures[0]
        assert summary.counts[0].dropped == (name == 'write')
        assert _content(tmp_path / name) == []


def test_messages_after_the_end_are_lost_and_counted(tmp_path: Path):
    recording = Recording(tmp_path / 'bag', [STATES])
    recording.close()
    recording.put(STATES.name, 0, b'late')
    assert recording.counts() == (TopicStats(STATES.name, dropped=1),)


def test_an_unknown_type_leaves_no_bag_behind(tmp_path: Path):
    unknown = Topic('/zzz', 'sensor_msgs/msg/JointStat')
    with pytest.raises(BagError, match='nearest: sensor_msgs/msg/JointState'):
        Recording(tmp_path / 'bag', [STATES, unknown])
    assert not (tmp_path / 'bag').exists()


@pytest.mark.slow
def test_a_removed_folder_is_reported_once(tmp_path: Path):
    failures: list[BagError] = []
    failed = threading.Event()

    def on_failure(error: BagError) -> None:
        failures.append(error)
        failed.set()

    recording = Recording(tmp_path / 'bag', [STATES], on_failure=on_failure)
    shutil.rmtree(tmp_path / 'bag')
    recording.put(STATES.name, 0, b'one')
    assert failed.wait(TIMEOUT)
    recording.put(STATES.name, 1, b'two')
    counts = recording.close().counts
    assert [str(error) for error in failures] == [
        f'The bag {str(tmp_path / "bag")!r} was removed while it was recorded.'
    ]
    assert recording.failure is failures[0]
    assert (counts[0].messages, counts[0].dropped) == (0, 2)


_FULL_DISK = """
import resource, sys, threading
from pathlib import Path
from sysid_ros.bags.reader import read_bag
from sysid_ros.bags.recording import Buffering, Recording
from sysid_ros.bags.storage import Topic
resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, 400_000))
failed = threading.Event()
recording = Recording(
    Path(sys.argv[1]), [Topic('/a', 'std_msgs/msg/String')],
    buffering=Buffering(flush_seconds=0.01),
    on_failure=lambda error: failed.set(),
)
number = 0
message = b'\\0\\1\\0\\0' + (996).to_bytes(4, 'little') + b'a' * 995 + bytes(1)
while not failed.wait(0.001):
    recording.put('/a', number, message)
    number += 1
found = recording.close()
count, = found.counts
assert count.messages + count.dropped == number, (count, number)
print(found.failure, count.messages, sep='\\n')
bag = read_bag(Path(sys.argv[1]))
assert bag.unfinished == ('bag_0.mcap',)
stamps = bag.text_columns[0].receive_ns.tolist()
assert stamps == list(range(count.messages)), (count, stamps)
assert stamps
"""


@pytest.mark.slow
def test_a_full_disk_is_one_sentence_and_no_crash(tmp_path: Path):
    done = subprocess.run(
        [sys.executable, '-c', _FULL_DISK, tmp_path / 'bag'],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.stderr == ''
    assert done.returncode == 0
    assert done.stdout.startswith('Cannot write the bag ')
    assert 'what was flushed before is in it' in done.stdout


def test_free_names_count_up_from_the_base(tmp_path: Path):
    base = tmp_path / 'run'
    assert free_name(base) == base
    base.mkdir()
    assert free_name(base) == tmp_path / 'run_1'
    (tmp_path / 'run_1').mkdir()
    assert free_name(base) == tmp_path / 'run_2'


def test_the_summary_has_a_line_per_topic_and_totals():
    states = TopicStats('/joint_states', 5001, first_ns=0, last_ns=10 * SECOND)
    assert summary([states, TopicStats('/a', 20, 3, 12)]).splitlines() == [
        'topic          messages  rate/Hz  lost  dropped',
        '/joint_states      5001    500.0     0        0',
        '/a                   20      0.0     3       12',
        'total              5021              3       12',
    ]
