# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""While it records, what is wrong is said, and nothing is said of what is well."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import mujoco
import numpy as np
import pytest
from rosbags.typesys import Stores, get_typestore

from sysid_ros.inspection.live import WINDOW_S, LiveQuality, LiveReport

if TYPE_CHECKING:
    from collections.abc import Callable

START_NS = 1_700_000_000_000_000_000
STATES = 'sensor_msgs/msg/JointState'
NAMES = ['shoulder', 'elbow']
MODEL = """
<mujoco>
  <compiler angle="radian"/>
  <worldbody>
    <body><joint name="shoulder" axis="0 1 0" range="-2 2"/><geom size=".1" pos=".2 0 0"/>
      <body pos=".4 0 0"><joint name="elbow" axis="0 1 0"/><geom size=".1" pos=".2 0 0"/></body>
    </body>
  </worldbody>
  <sensor><jointpos joint="shoulder"/><jointpos joint="elbow"/></sensor>
</mujoco>
"""


@pytest.fixture
def feed() -> Callable[..., None]:
    """Return a function that hands a recording to a monitor, message by message."""
    store = get_typestore(Stores.ROS2_JAZZY)
    types = store.types

    def run(
        live: LiveQuality,
        times: Any,
        position: Any,
        velocity: Any,
        effort: Any = None,
        receive: Any = None,
    ) -> None:
        effort = np.ones_like(position) * times[:, None] if effort is None else effort
        receive = times + 2e-4 if receive is None else receive
        for row, time in enumerate(times):
            seconds, nanoseconds = divmod(START_NS + round(time * 1e9), 10**9)
            stamp = types['builtin_interfaces/msg/Time'](seconds, nanoseconds)
            header = types['std_msgs/msg/Header'](stamp, '')
            message = types[STATES](header, NAMES, position[row], velocity[row], effort[row])
            cdr = bytes(store.serialize_cdr(message, STATES))
            live.take('/joint_states', STATES, START_NS + round(receive[row] * 1e9), cdr)

    return run


def _said(report: LiveReport) -> list[str]:
    inspection = report.inspection
    names = [
        *(item.topic for item in inspection.topics),
        *(item.name for item in inspection.joints),
    ]
    return [
        f'{item.subject}: {item.kind} ({item.count})'
        for name in names
        for item in report.findings(name)
    ]


def motion(seed: int, seconds: float = 8.0) -> tuple[Any, Any, Any]:
    """Return stamps, positions and velocities of two joints at 200 Hz."""
    generator = np.random.default_rng(seed)
    times = np.arange(0.0, seconds, 0.005)
    phases = generator.uniform(0, 2 * np.pi, 2)
    speeds = 2 * np.pi * generator.uniform(0.3, 0.8, 2)
    angles = np.outer(times, speeds) + phases
    position = np.sin(angles) + generator.normal(0, 1e-4, angles.shape)
    return times, position, speeds * np.cos(angles) + generator.normal(0, 5e-3, angles.shape)


@pytest.mark.slow
def test_a_clean_recording_has_no_findings(feed: Callable[..., None]):
    for seed in range(20):
        live = LiveQuality()
        times, position, velocity = motion(seed, 4.0)
        feed(live, times, position, velocity)
        report = live.report()
        assert _said(report) == []
        (topic,) = report.inspection.topics
        assert topic.rate == pytest.approx(200, rel=1e-6)


def test_defects_are_said_of_their_topic_column_or_joint(feed: Callable[..., None]):
    times, position, velocity = motion(1)
    position[:, 1] = 0.25
    kept = (times < 3) | (times > 3.5)
    receive = times + 2e-4 + 0.3 * (times > 5)
    live = LiveQuality()
    feed(live, times[kept], position[kept], velocity[kept], receive=receive[kept])
    everything = '; '.join(_said(live.report()))
    assert 'gap (1)' in everything
    assert 'clock jump (1)' in everything
    assert '/joint_states.position[elbow]: dead channel' in everything
    assert 'position[shoulder]' not in everything


def test_a_velocity_of_the_wrong_sign_is_said_while_it_records(feed: Callable[..., None]):
    times, position, velocity = motion(2)
    velocity[:, 0] *= -1
    live = LiveQuality()
    feed(live, times, position, velocity)
    assert 'velocity sign' in str(_said(live.report()))


def test_ranges_are_covered_since_the_beginning_and_findings_are_of_the_last_seconds(
    feed: Callable[..., None],
):
    live = LiveQuality(mujoco.MjModel.from_xml_string(MODEL))
    times, position, velocity = motion(3, 4.0)
    gap = (times < 1) | (times > 2)
    feed(live, times[gap], position[gap], velocity[gap])
    assert 'gap' in str(_said(live.report()))
    later = times + 4 + WINDOW_S
    feed(live, later, 0.1 * position, velocity)
    report = live.report()
    assert 'gap' not in str(_said(report))
    shoulder, elbow = report.coverage
    assert shoulder.low == pytest.approx(position[gap, 0].min())
    assert shoulder.of_range == pytest.approx(np.ptp(position[gap, 0]) / 4)
    assert np.isnan(elbow.of_range)
    assert shoulder.speed == pytest.approx(np.abs(velocity[:, 0]).max(), rel=1e-6)


def test_what_has_no_numbers_is_left_alone(feed: Callable[..., None]):
    live = LiveQuality()
    live.take('/words', 'std_msgs/msg/String', START_NS, b'\0\1\0\0\2\0\0\0a\0')
    live.take('/unknown', 'robot_msgs/msg/Unknown', START_NS, b'\0\1\0\0')
    times, position, velocity = motion(4, 2.0)
    feed(live, times, position, velocity)
    assert [topic.topic for topic in live.report().inspection.topics] == ['/joint_states']


def test_before_anything_came_there_is_nothing_to_say():
    report = LiveQuality().report()
    assert report.coverage == ()
    assert _said(report) == []


def test_time_that_runs_backwards_is_said_to_the_end(feed: Callable[..., None]):
    times, position, velocity = motion(5, 4.0)
    live = LiveQuality()
    feed(live, times + 20, position, velocity)
    assert _said(live.report()) == []
    feed(live, times, position, velocity)
    report = live.report()
    assert 'time runs backwards (1)' in str(_said(report))
    # What is old is forgotten, though its stamps are newer.
    assert report.inspection.bag.duration < 4.1
    feed(live, times + 4 + WINDOW_S, position, velocity)
    assert 'time runs backwards (1)' in str(_said(live.report()))


@pytest.mark.slow
def test_header_stamps_that_go_back_are_said_to_the_end(feed: Callable[..., None]):
    times, position, velocity = motion(6)
    live = LiveQuality()
    # The recorder's clock goes on.
    feed(live, times - 60 * (times > 4), position, velocity, receive=times + 2e-4)
    assert 'time runs backwards (1)' in str(_said(live.report()))
    later = times + 8 + WINDOW_S
    feed(live, later - 60, position, velocity, receive=later + 2e-4)
    assert 'time runs backwards (1)' in str(_said(live.report()))
