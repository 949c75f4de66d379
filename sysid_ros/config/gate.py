# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What a result must satisfy before its model is written."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from sysid_ros.config.section import Section

if TYPE_CHECKING:
    from collections.abc import Sequence

Share = Annotated[float, Field(ge=0, lt=1)]


class VerdictKind(StrEnum):
    """What the data say about a parameter."""

    IDENTIFIED = 'identified'
    AT_BOUND = 'at bound'
    NOT_EXCITED = 'not excited'
    CONFOUNDED = 'confounded'
    PRIOR_DOMINATED = 'prior-dominated'

    def among(self, others: Sequence[str]) -> str:
        """Return the verdict in words, with the parameters that one is confounded with."""
        return f'{self} with {", ".join(others)}' if others else str(self)


class GateConfig(Section):
    """Conditions for accepting a result; a rejected one changes no file in use."""

    margin: Share = Field(
        default=0.02,
        description='part by which the held-out error must fall below that of the nominal model',
    )
    significance: Annotated[float, Field(gt=0, le=1)] = Field(
        default=0.05, description='largest probability that the error fell by chance'
    )
    allowed_verdicts: tuple[VerdictKind, ...] = Field(
        default=(
            VerdictKind.IDENTIFIED,
            VerdictKind.AT_BOUND,
            VerdictKind.CONFOUNDED,
            VerdictKind.PRIOR_DOMINATED,
        ),
        description='what may be said of a parameter',
    )
    converged: bool = Field(default=True, description='whether the solver must have converged')
    outer_bounds: bool = Field(
        default=False,
        description='whether a value may lie on a bound other than a natural zero, as of damping',
    )
    sensor_growth: Annotated[float, Field(ge=0)] = Field(
        default=0.1, description="part by which one sensor's held-out error may grow"
    )
    sequence_growth: Annotated[float, Field(ge=1)] = Field(
        default=4.0,
        description="times the training sequences' median error that a sequence's may be",
    )
    least_explained: Annotated[float, Field(le=1)] = Field(
        default=0.5,
        description='part of the variance of each moving position and velocity to be predicted',
    )
    imbalance: Annotated[float, Field(ge=1)] = Field(
        default=10.0,
        description="times the unexplained part of its kind's median that a sensor's may be",
    )
    stuck_share: Annotated[float, Field(gt=0, le=1)] = Field(
        default=0.2,
        description='part of its range that a position may be predicted to move while measured '
        'values stand still',
    )
