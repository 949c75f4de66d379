# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What a fit takes over from an earlier one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, model_validator

from sysid_ros.config.section import Section


class MemoryConfig(Section):
    """The earlier result that a fit continues; the short form is ``previous`` alone."""

    previous: Literal['none', 'auto'] | Path = Field(
        default='none',
        description='none, an earlier result.json, or auto: the last accepted one in output',
    )
    forgetting: Annotated[float, Field(gt=0, le=1)] = Field(
        default=0.9, description='weight of what the earlier result knew; 1 forgets nothing'
    )
    wander: Annotated[float, Field(ge=0, le=1)] = Field(
        default=0.0,
        description='part of its value by which a parameter of an unchanged robot may differ from '
        'one recording to the next, one standard deviation',
    )
    level: Annotated[float, Field(gt=0, lt=0.5)] = Field(
        default=0.01, description='probability of seeing a change of the robot where there is none'
    )

    @model_validator(mode='before')
    @classmethod
    def _from_path(cls, value: object) -> object:
        return {'previous': value} if isinstance(value, (str, Path)) else value
