# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What is known of the noise."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from sysid_ros.config.section import Section

Sigma = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class StatisticsConfig(Section):
    """What the weights of measurements, and so the intervals, rest on."""

    noise: dict[str, Sigma] = Field(
        default_factory=dict,
        description='sensor or pattern to the standard deviation of its noise, in SI units, as of '
        'a datasheet; the others are estimated',
    )
