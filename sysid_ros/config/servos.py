# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Which actuators of a model are driven by servos, and what is to be found of them."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 (pydantic resolves annotations at run time)
from typing import Literal

from pydantic import Field, model_validator

from sysid_ros.config.section import Section


class ServoConfig(Section):
    """One entry of ``servos``: actuators that servos of one kind drive."""

    actuators: tuple[str, ...] = Field(description="names or patterns, as ['shoulder_*', elbow]")
    type: str | None = Field(
        default=None, description='kind of servo, as xl330, or a YAML file that defines one'
    )
    model: str | None = Field(default=None, description='friction law: m1 to m6, or a part of them')
    params: Path | None = Field(
        default=None, description='file of coefficients to start from; it says type and model'
    )
    values: dict[str, float] = Field(
        default_factory=dict, description='coefficients to start from; they win over the file'
    )
    constants: dict[str, float] = Field(
        default_factory=dict, description="what differs from the kind's, as kp and vin"
    )
    identify: Literal['all', 'none'] | tuple[str, ...] = Field(
        default='all', description='coefficients that are to be found'
    )
    shared: bool = Field(default=False, description='one value for all actuators of the entry')

    @model_validator(mode='after')
    def _is_complete(self) -> ServoConfig:
        if self.params is None and (self.type is None or self.model is None):
            msg = 'Expected type and model, or params, in servos, found neither'
            raise ValueError(msg)
        return self
