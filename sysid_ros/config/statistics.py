# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What is known of the noise, and how intervals are found."""

from __future__ import annotations

from typing import Annotated, Literal

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
    intervals: Literal['sandwich', 'bootstrap', 'profile'] = Field(
        default='sandwich',
        description='sandwich: from the noise or from the disagreement of recordings; bootstrap: '
        'from draws of it; profile: the worst two by fits with that value held',
    )
    draws: Annotated[int, Field(ge=200, le=100_000)] = Field(
        default=1000, description='draws of the bootstrap'
    )
    seed: Annotated[int, Field(ge=0, le=2**31 - 1)] = Field(default=0, description='of the draws')
