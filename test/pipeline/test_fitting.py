# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What the configuration tells a fit of noise."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from sysid_ros.errors import ConfigError
from sysid_ros.pipeline.fitting import known_noise


def problem(*sensors: str) -> Any:
    series = SimpleNamespace(names=sensors)
    return SimpleNamespace(sequences=lambda _: [SimpleNamespace(measurements=[series])])


def test_known_noise_is_of_all_sensors_of_a_pattern_and_later_entries_override() -> None:
    told = {'*': 1.0, '*_velocity': 2.0}
    found = known_noise(told, problem('elbow_position', 'elbow_velocity'))
    assert found == {'elbow_position': 1.0, 'elbow_velocity': 2.0}


def test_known_noise_of_no_sensor_is_an_error_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match=r"found 'elbow_positon'; nearest: elbow_position\.$"):
        known_noise({'elbow_positon': 1.0}, problem('elbow_position', 'tip_force'))
