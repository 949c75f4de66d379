# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""``fleet.yaml``: many robots, each with its bags, and the calibration that all share."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from pydantic import BeforeValidator, Field, field_validator

from sysid_ros.config.section import Section

if TYPE_CHECKING:
    from sysid_ros.config.calibration import CalibrationConfig

#: A robot's name is that of its folder.
_NAME = re.compile(r'\w[\w.-]*')


def _listed(value: object) -> object:
    return (value,) if isinstance(value, str) else value


#: One name or pattern, or several.
Patterns = Annotated[tuple[str, ...], BeforeValidator(_listed)]


class RobotConfig(Section):
    """One robot: its bags, and what of the shared calibration is another for it."""

    name: str = Field(description='of its row and its folder')
    train: Patterns = Field(description='bags to fit to, or patterns such as bags/r1/train_*')
    validate_: Patterns = Field(default=(), alias='validate', description='bags to judge it on')
    overrides: dict[str, Any] = Field(
        default_factory=dict,
        description='keys of calibration.yaml to values, as {model: b.xml, solver.loss: huber}',
    )

    @field_validator('name')
    @classmethod
    def _names_a_folder(cls, name: str) -> str:
        if not _NAME.fullmatch(name):
            msg = f'Expected letters, digits, _, - and . in the name of a robot, found {name!r}'
            raise ValueError(msg)
        return name

    @field_validator('train')
    @classmethod
    def _has_bags(cls, bags: tuple[str, ...]) -> tuple[str, ...]:
        if not bags:
            msg = 'Expected at least one bag in train of each robot, found none'
            raise ValueError(msg)
        return bags


class FleetConfig(Section):
    """``fleet.yaml``; the bags of ``base`` are left aside."""

    base: Path | dict[str, Any] = Field(
        description='calibration.yaml whose keys hold for all robots, or those keys themselves'
    )
    robots: tuple[RobotConfig, ...] = Field(description='robots and their bags')
    output: Path = Field(default=Path('fleet'), description='folder for all results')

    @field_validator('robots')
    @classmethod
    def _are_several_of_different_names(
        cls, robots: tuple[RobotConfig, ...]
    ) -> tuple[RobotConfig, ...]:
        if not robots:
            msg = 'Expected at least one entry in robots, found none'
            raise ValueError(msg)
        names = [robot.name for robot in robots]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            msg = f'Expected a name of its own for each robot, found {twice!r} twice'
            raise ValueError(msg)
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
