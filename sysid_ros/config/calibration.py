# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""``calibration.yaml``: what is identified from which bags, and how."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from sysid_ros.config.gate import GateConfig
from sysid_ros.config.mapping import MappingConfig
from sysid_ros.config.memory import MemoryConfig
from sysid_ros.config.section import Section
from sysid_ros.config.segments import SegmentsConfig
from sysid_ros.config.servos import ServoConfig  # noqa: TC001 (pydantic resolves annotations)
from sysid_ros.config.statistics import StatisticsConfig
from sysid_ros.config.validation import ValidationConfig

Stamps = Literal['auto', 'header', 'receive']
#: One for all topics, or by topic; those that are not named are ``auto``.
StampChoice = Stamps | dict[str, Stamps]


class BagSelection(Section):
    """Bags and what they are for."""

    path: str = Field(description='bag folder, or a pattern such as bags/train_*')
    role: Literal['train', 'validate'] = Field(default='train', description='train or validate')


class PriorConfig(Section):
    """What is known of a parameter before the fit, in its unit."""

    mean: float = Field(description='most likely value')
    std: Annotated[float, Field(gt=0)] = Field(description='standard deviation')


class ParameterConfig(Section):
    """One entry of ``parameters``: a target or a pattern of targets.

    What it says holds for each component of a vector, and for each match of a pattern.
    """

    target: str = Field(description='what is written, as joint/*/armature')
    name: str | None = Field(default=None, description='name in the result; default the target')
    initial: float | None = Field(default=None, description="start value; default the model's")
    bounds: tuple[float, float] | None = Field(default=None, description='lower and upper bound')
    shared: bool = Field(default=False, description='one value for all matches')
    scale: Literal['linear', 'log'] = Field(
        default='linear', description='log for positive values that may be wrong by a factor'
    )
    prior: PriorConfig | None = Field(default=None, description='what is known before the fit')


class SolverConfig(Section):
    """How the least-squares problem is solved."""

    backend: Literal['mujoco', 'scipy', 'scipy-trf', 'scipy-dogbox', 'scipy-lm'] = Field(
        default='mujoco', description='which solver; scipy is scipy-dogbox'
    )
    loss: Literal['linear', 'huber', 'soft_l1', 'cauchy', 'arctan'] = Field(
        default='linear', description='loss on residuals in units of their noise'
    )
    max_iterations: Annotated[int, Field(ge=1, le=10000)] = 50
    start: Literal['auto', 'nominal', 'regression', 'windows'] = Field(
        default='auto', description='where the fit begins; auto takes what is of use'
    )
    starts: Annotated[int, Field(ge=1, le=10000)] = Field(
        default=1, description='number of starts, spread over the bounds'
    )
    seed: Annotated[int, Field(ge=0, le=2**31 - 1)] = Field(
        default=0, description='of all starts but the first, which is the initial values'
    )
    threads: Annotated[int, Field(ge=0, le=1024, description='0 means one per core')] = 0


class CheckConfig(Section):
    """What ``sysid check`` tolerates beside the intervals."""

    tolerance: dict[str, Annotated[float, Field(ge=0)]] = Field(
        default_factory=dict,
        description='parameter name or pattern to the absolute difference that is allowed',
    )
    held_out_factor: Annotated[float, Field(ge=1)] = Field(
        default=1.1, description='held-out error may grow by this factor'
    )


class CalibrationConfig(Section):
    """``calibration.yaml``: from bags to an identified model."""

    model: Path = Field(description='MJCF file')
    bags: tuple[BagSelection, ...] = Field(description='recordings and their roles')
    mapping: Literal['auto'] | MappingConfig | Path = Field(
        default='auto', description='auto, a mapping, or a YAML file that holds one'
    )
    stamps: StampChoice = Field(
        default='auto',
        description='time of a message: header stamp unless zero, or as told, for all or by topic',
    )
    segments: SegmentsConfig = SegmentsConfig()
    parameters: tuple[ParameterConfig, ...] = Field(default=(), description='what to identify')
    servos: tuple[ServoConfig, ...] = Field(
        default=(), description='actuators that servos drive, whose laws MuJoCo does not have'
    )
    sensors: tuple[str, ...] | None = Field(
        default=None, description='sensors that are compared; default all that are mapped'
    )
    solver: SolverConfig = SolverConfig()
    statistics: StatisticsConfig = StatisticsConfig()
    validation: ValidationConfig = ValidationConfig()
    memory: MemoryConfig = MemoryConfig()
    gate: GateConfig = GateConfig()
    check: CheckConfig = CheckConfig()
    output: Path = Field(default=Path('out'), description='folder for model, result and report')

    @field_validator('mapping', mode='before')
    @classmethod
    def _is_a_mapping(cls, mapping: object) -> object:
        if isinstance(mapping, (str, dict, Path, MappingConfig)):
            return mapping
        msg = f'Expected auto, a mapping or the name of a mapping file, found {mapping!r}'
        raise ValueError(msg)

    @model_validator(mode='after')
    def _is_complete(self) -> CalibrationConfig:
        if self.sensors is not None and not self.sensors:
            msg = 'Expected at least one name in sensors, or no such key, found none'
            raise ValueError(msg)
        if not any(bag.role == 'train' for bag in self.bags):
            msg = 'Expected at least one bag with role train in bags, found none'
            raise ValueError(msg)
        found = any(servo.identify not in ('none', ()) for servo in self.servos)
        if not self.parameters and not found:
            msg = 'Expected at least one entry in parameters, found none'
            raise ValueError(msg)
        return self
