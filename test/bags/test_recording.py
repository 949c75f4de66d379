# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Bags are written for other readers, and by a thread that loses nothing unnoticed."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import yaml
from mcap.reader import make_reader
from rosbags.interfaces import QosDurability, QosReliability
from rosbags.rosbag2 import Reader
from rosbags.typesys import Stores, get_types_from_msg, get_typestore

from builders import messages
from sysid_ros.bags.reader import read_bag
from sysid_ros.bags.recording import Buffering, Recording, TopicStats, free_name, summary
from sysid_ros.bags.storage import Topic, TopicQos
from sysid_ros.bags.writer import BagWriter
from sysid_ros.errors import BagError

STATE = 'sensor_msgs/msg/JointState'
TEXT = 'std_msgs/msg/String'
#: A message that says nothing.
EMPTY = b'\0\1\0\0\1\0\0\0\0\0\0\0'
SECOND = 1_000_000_000
REPOSITORY = Path(__file__).parents[2]


def _raw(path: Path) -> list[tuple[str, int, bytes]]:
    with Reader(path) as reader:
        return [(item.topic, stamp, bytes(data)) for item, stamp, data in reader.messages()]


def test_other_readers_get_every_byte_stamp_and_qos(tmp_path: Path):
    data = [messages.joint_state(k, ['a'], [k]) for k in range(50)]
    with BagWriter(tmp_path / 'deep' / 'bag') as bag:
        bag.add_topic('/js', STATE, TopicQos(reliable=False, transient_local=True, depth=3))
        for stamp, item in enumerate(data):
            if stamp == 25:
                bag.flush()
                bag.flush()
                bag.add_topic('/late', 'std_msgs/msg/String')
            bag.write('/js', stamp + 1, item)
    assert _raw(tmp_path / 'deep' / 'bag') == [('/js', k + 1, item) for k, item in enumerate(data)]
    with Reader(tmp_path / 'deep' / 'bag') as reader:
        assert reader.connections[1].topic == '/late'
        (qos,) = reader.connections[0].ext.offered_qos_profiles
    assert qos.reliability is QosReliability.BEST_EFFORT
    assert qos.durability is QosDurability.TRANSIENT_LOCAL
    assert qos.depth == 3


def test_bad_arguments_create_nothing(tmp_path: Path):
    with pytest.raises(BagError, match=r"^Expected compression none or zstd, found 'lzma'"):
        BagWriter(tmp_path / 'bag', compression='lzma')
    with (
        BagWriter(tmp_path / 'bag') as bag,
        pytest.raises(BagError, match='nearest: sensor_msgs/msg/JointState'),
    ):
        bag.add_topic('/js', 'sensor_msgs/msg/JointStates')
    assert list(tmp_path.iterdir()) == []
    (tmp_path / 'file').write_text('')
    with pytest.raises(BagError, match='exists already'):
        BagWriter(tmp_path / 'file')
    with pytest.raises(BagError, match='Cannot write the bag'):
        BagWriter(tmp_path / 'file' / 'bag').add_topic('/js', STATE)


def test_a_topic_is_added_once_and_before_its_messages(tmp_path: Path):
    with BagWriter(tmp_path / 'bag') as bag:
        bag.add_topic('/js', STATE)
        with pytest.raises(BagError, match='already'):
            bag.add_topic('/js', STATE)
        with pytest.raises(BagError, match='nearest: /js'):
            bag.write('/jss', 1, messages.joint_state(0, ['a'], [1]))


def test_an_exception_leaves_a_finished_bag(tmp_path: Path):
    def interrupted() -> None:
        with BagWriter(tmp_path / 'bag') as bag:
            bag.add_topic('/js', STATE)
            bag.write('/js', 1, messages.joint_state(1, ['a'], [1]))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert len(read_bag(tmp_path / 'bag').topics[0].receive_ns) == 1


def test_chunks_carry_checksums_and_may_be_compressed(tmp_path: Path):
    for compression in ('none', 'zstd'):
        path = tmp_path / compression
        with BagWriter(path, compression=compression) as bag:
            bag.add_topic('/s', TEXT)
            for stamp in range(30):
                bag.write('/s', stamp, EMPTY + bytes(100_000))
        assert [stamp for _, stamp, _ in _raw(path)] == list(range(30))
        with (path / f'{compression}_0.mcap').open('rb') as stream:
            reader = make_reader(stream, validate_crcs=True)
            summary = reader.get_summary()
            assert summary is not None
            assert len(list(reader.iter_messages())) == 30
        assert len(summary.chunk_indexes) > 1
        assert {index.compression for index in summary.chunk_indexes} == {
            compression.replace('none', '')
        }
    sizes = [(tmp_path / name / f'{name}_0.mcap').stat().st_size for name in ('none', 'zstd')]
    assert sizes[1] < sizes[0] / 10


def test_other_message_types_are_written_with_their_definition(tmp_path: Path):
    text = f'float64 value\nown_msgs/Inner inner\n{"=" * 80}\nMSG: own_msgs/Inner\nint32 count\n'
    with BagWriter(tmp_path / 'bag') as bag:
        bag.add_topic('/o', 'own_msgs/msg/Outer', definition=text)
        bag.write('/o', 1, EMPTY)
    types = get_typestore(Stores.EMPTY)
    with Reader(tmp_path / 'bag') as reader:
        (found,) = reader.connections
    types.register(get_types_from_msg(found.msgdef.data, found.msgtype))
    assert found.msgdef.data == text
    assert found.digest == types.hash_rihs01('own_msgs/msg/Outer')


def test_definitions_that_are_not_complete_are_kept_as_they_are(tmp_path: Path):
    texts = {'ros2msg': 'own_msgs/Lost lost\n', 'ros2idl': 'module own {};'}
    with BagWriter(tmp_path / 'bag') as bag:
        for language, text in texts.items():
            bag.add(Topic(f'/{language}', f'own_msgs/msg/{language}', TopicQos(), text, language))
    with Reader(tmp_path / 'bag') as reader:
        found = {item.topic: (item.msgdef.data, item.digest) for item in reader.connections}
    assert found == {f'/{language}': (text, '') for language, text in texts.items()}


STATES = Topic('/joint_states', 'sensor_msgs/msg/JointState')
COMMANDS = Topic('/arm/commands', 'std_msgs/msg/Float64MultiArray')
TIMEOUT = 20.0
IN_IT = 'what was flushed before is in it, and is read as it is'


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
    assert sorted(_raw(tmp_path / 'bag')) == sorted(sent)
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
    assert len(_raw(tmp_path / 'bag')) == 11


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
    assert len(_raw(tmp_path / 'bag')) == found.messages
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
    assert _raw(tmp_path / 'bag') == [('/own', 5, b'data')]


class Failures(list[BagError]):
    """What a recording told when it failed."""

    def __init__(self) -> None:
        super().__init__()
        self.told = threading.Event()

    def __call__(self, error: BagError) -> None:
        """Be told."""
        self.append(error)
        self.told.set()


@pytest.mark.parametrize(
    ('method', 'raised', 'dropped', 'words'),
    [
        ('write', ValueError('not\nexpected.'), 1, 'Cannot write .*: ValueError: not expected'),
        ('sync', BagError('Input/output error.'), 0, '^Input/output error'),
    ],
)
def test_any_exception_in_a_thread_ends_the_recording_with_a_sentence(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    method: str,
    raised: Exception,
    dropped: int,
    words: str,
):
    def fail(*_: object) -> None:
        raise raised

    failures = Failures()
    buffering = Buffering(sync_seconds=0.01, flush_seconds=0.01)
    with monkeypatch.context() as patch:
        patch.setattr(BagWriter, method, fail)
        recording = Recording(tmp_path / 'bag', [STATES], buffering=buffering, on_failure=failures)
        if dropped:
            recording.put(STATES.name, 1, b'one')
        assert failures.told.wait(TIMEOUT)
    summary = recording.close()
    (failure,) = failures
    assert re.search(rf'{words}; {IN_IT}\.$', str(failure))
    assert summary.failure is failure
    assert summary.counts[0].dropped == dropped
    assert _raw(tmp_path / 'bag') == []


@pytest.mark.slow
def test_a_removed_folder_is_reported_once(tmp_path: Path):
    failures = Failures()
    recording = Recording(tmp_path / 'bag', [STATES], on_failure=failures)
    shutil.rmtree(tmp_path / 'bag')
    recording.put(STATES.name, 0, b'one')
    assert failures.told.wait(TIMEOUT)
    recording.put(STATES.name, 1, b'two')
    counts = recording.close().counts
    (failure,) = failures
    assert 'was removed while it was recorded' in str(failure)
    assert recording.failure is failure
    assert (counts[0].messages, counts[0].dropped) == (0, 2)


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
# The write that fails may leave a part of what it was to write.
assert stamps == list(range(len(stamps))), stamps
assert 0 < count.messages <= len(stamps) <= number, (count, stamps)
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
