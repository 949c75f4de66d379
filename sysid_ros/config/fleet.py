# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""``fleet.yaml``: many robots, each with its bags, and the calibration that all share."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import BeforeValidator, Field, field_validator

from sysid_ros.config.calibration import CalibrationConfig
from sysid_ros.config.section import Section

#: One name or pattern, or several.
Patterns = Annotated[
    tuple[str, ...], BeforeValidator(lambda said: (said,) if isinstance(said, str) else said)
]


class RobotConfig(Section):
    """One robot: its bags, and what of the shared calibration is another for it."""

    name: str = Field(description='of its row and its folder')
    train: Annotated[Patterns, Field(min_length=1)] = Field(
        description='bags to fit to, or patterns such as bags/r1/train_*'
    )
    validate_: Patterns = Field(default=(), alias='validate', description='bags to judge it on')
    overrides: dict[str, Any] = Field(
        default_factory=dict,
        description='keys of calibration.yaml to values, as {model: b.xml, solver.loss: huber}',
    )


class FleetConfig(Section):
    """``fleet.yaml``; the bags of ``base`` are left aside."""

    base: Path | dict[str, Any] = Field(
        description='calibration.yaml whose keys hold for all robots, or those keys themselves'
    )
    robots: Annotated[tuple[RobotConfig, ...], Field(min_length=1)] = Field(
        description='robots and their bags'
    )
    output: Path = Field(default=Path('fleet'), description='folder for all results')

    @field_validator('robots')
    @classmethod
    def _have_names_of_their_own(cls, robots: tuple[RobotConfig, ...]) -> tuple[RobotConfig, ...]:
        names = [robot.name for robot in robots]
        for name in names:
            # It is the name of a folder, too.
            if names.count(name) > 1 or not re.fullmatch(r'\w[\w.-]*', name):
                twice = ' twice' * (names.count(name) > 1)
                raise ValueError(
                    'Expected a name of letters, digits, _, - and . for each robot, found '
                    f'{name!r}{twice}'
                )
        return robots


class Fleet(NamedTuple):
    """What a ``fleet.yaml`` means.

    Attributes:
        folder: Of the file, absolute.
        output: Folder for all results, absolute.
        robots: The calibration of each by name, all paths absolute.
    """

    folder: Path
    output: Path
    robots: dict[str, CalibrationConfig]
