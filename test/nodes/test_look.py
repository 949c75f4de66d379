# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""``sysid doctor`` in a real graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from sysid_ros.nodes.surroundings import check_ros

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.mark.slow
@pytest.mark.ros
@pytest.mark.patient
def test_a_topic_that_is_unreachable_from_one_domain_is_seen_from_its_own(
    publish: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    publish('/joint_states', rate=100)
    found: dict[str, Any] = {}
    # On a busy machine discovery takes longer than anyone wants to wait on another.
    while '/joint_states' not in found:
        found = {check.subject: check for check in check_ros(3.0)}
    assert 'sensor_msgs/msg/JointState' in found['/joint_states'].found
    assert 'joint states' not in found
    monkeypatch.setenv('ROS_DOMAIN_ID', '49')
    found = {check.subject: check for check in check_ros(0.5)}
    assert found['joint states'].found == 'nobody publishes them here'
    assert 'here 49' in found['joint states'].remedy
