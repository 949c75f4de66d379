# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What all sections of a configuration have in common."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """A section of a configuration: unknown keys are errors, values do not change."""

    model_config = ConfigDict(extra='forbid', frozen=True)
