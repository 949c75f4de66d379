# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The recorder says how good its data are, in diagnostics and in the terminal."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from builders.ros_graph import RosClient

pytestmark = pytest.mark.ros


def test_diagnostics_tell_the_quality_of_topics_and_joints(
    record: Callable[..., Any],
    publish: Callable[..., Any],
    diagnosis: Callable[..., Any],
    tmp_path: Path,
) -> None:
    recorder = record(output=tmp_path / 'bag', topics='/joint_states')
    publish('/joint_states', rate=100)
    values = {item.key: item.value for item in diagnosis('quality of /joint_states', '').values}
    assert float(values['rate (Hz)']) == pytest.approx(100, rel=0.1)
    assert values['stamps'] == 'header'
    assert diagnosis('quality of joint joint0', '').level in (b'\0', b'\1')
    assert recorder.stop() == 0


@pytest.mark.patient
def test_without_quality_nothing_is_said_of_it(
    record: Callable[..., Any],
    publish: Callable[..., Any],
    ros_client: RosClient,
    wait_for_status: Callable[..., Any],
    tmp_path: Path,
) -> None:
    from diagnostic_msgs.msg import DiagnosticArray  # noqa: PLC0415 (absent without ROS)

    recorder = record(output=tmp_path / 'bag', topics='/joint_states', quality=False)
    publish('/joint_states', rate=100)
    wait_for_status(messages=250)  # the quality would have been said by now
    message = ros_client.message(DiagnosticArray, '/diagnostics', lambda _: True, latched=False)
    assert not [status.name for status in message.status if 'quality' in status.name]
    assert recorder.stop() == 0


@pytest.mark.patient
def test_a_model_that_does_not_exist_is_one_sentence(
    record: Callable[..., Any], tmp_path: Path
) -> None:
    recorder = record(output=tmp_path / 'bag', topics='/joint_states', model='arn.xml')
    assert recorder.wait() == 2
    assert "No model file 'arn.xml'" in recorder.output
    assert not (tmp_path / 'bag').exists()


@pytest.mark.usefixtures('ros_env')
def test_the_panel_shows_every_topic_and_joint() -> None:
    from rclpy.serialization import serialize_message  # noqa: PLC0415 (absent without ROS)
    from sensor_msgs.msg import JointState  # noqa: PLC0415 (absent without ROS)
    from sysid_ros.inspection.live import LiveQuality  # noqa: PLC0415

    from sysid_ros.nodes.ros.recorder.diagnostics import panel  # noqa: PLC0415 (needs ROS)

    live = LiveQuality()
    start = time.time_ns()
    for row in range(400):
        angle = float(np.sin(0.02 * row))
        message = JointState(name=['elbow'], position=[angle])
        live.take(
            '/joint_states',
            'sensor_msgs/msg/JointState',
            start + row * 10_000_000,
            serialize_message(message),
        )
    text = panel(live.report(), 120).plain
    assert '/joint_states' in text
    assert '100.0' in text
    assert 'elbow' in text
    assert 'no velocity (400)' in text
