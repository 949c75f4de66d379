# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""How a fit is put to the test on data that it did not see."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, field_validator

from sysid_ros.config.section import Section

Seconds = Annotated[float, Field(ge=0.01, le=1e4)]


class ValidationConfig(Section):
    """What is refitted, and predicted, to see how far a fit can be trusted."""

    leave_out: Literal['auto', 'none', 'bag'] | dict[str, tuple[str, ...]] = Field(
        default='auto',
        description='what is held out in turn: each bag, nothing, or families of bags, '
        'name to patterns; auto is bag from three training bags on',
    )
    horizon: tuple[Seconds, ...] = Field(
        default=(0.1, 0.2, 0.5, 1.0, 2.0, 5.0),
        description='seconds after starts from the measured state at which errors are given',
    )
    windows: tuple[Seconds, ...] = Field(
        default=(), description='lengths of windows, s, that the parameters are also fitted to'
    )

    @field_validator('leave_out')
    @classmethod
    def _holds_out_something(cls, chosen: object) -> object:
        if isinstance(chosen, dict) and (not chosen or not all(chosen.values())):
            msg = (
                'Expected families of bags as {slow: [slow_*], fast: [fast_*]}, found an empty one'
            )
            raise ValueError(msg)
        return chosen
