# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What is asked of a fit of a servo to logs of its pendulum."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, model_validator

from sysid_ros.config.calibration import GateConfig, VerdictKind
from sysid_ros.config.section import Section

#: Servos are used whatever the logs say of single coefficients; what they do not say is told. A
#: simple law may be far better for some loads than for others: a comparison of laws shows that.
_GATE = GateConfig(
    allowed_verdicts=tuple(VerdictKind),
    outer_bounds=True,
    sequence_growth=30.0,
)


class ServoFitConfig(Section):
    """From logs of a pendulum to the coefficients of its servo."""

    actuator: str = Field(description='kind of servo, as xl330, or a YAML file that defines one')
    model: str = Field(default='m6', description='friction law: m1 to m6, a part of them, or all')
    logdir: Path = Field(description='folder of processed logs')
    output: Path = Field(default=Path('params.json'), description='file for the coefficients')
    validation_kp: float | None = Field(
        default=None, description='logs with this gain are held out'
    )
    fixed: dict[str, float] = Field(
        default_factory=dict, description='coefficients that are known, by name'
    )
    method: Literal['least-squares', 'cmaes', 'random', 'nsgaii'] = Field(
        default='least-squares', description='least squares, or trials of a sampler before them'
    )
    trials: Annotated[int, Field(ge=1)] | None = Field(
        default=None,
        description='number of trials in all, those of a loaded study counted; 5000 unless given',
    )
    workers: Annotated[int, Field(ge=1, le=1000)] = Field(
        default=1, description='number of processes that try together'
    )
    load_study: str | None = Field(
        default=None, description='name of an interrupted study beside the output, to go on with'
    )
    wandb: bool = Field(default=False, description='log to Weights & Biases')
    starts: Annotated[int, Field(ge=1, le=1000)] = Field(
        default=8, description='number of starts, spread over the bounds'
    )
    seed: Annotated[int, Field(ge=0, le=2**31 - 1)] = Field(
        default=0, description='of the starts and trials'
    )
    reset_period: Annotated[float, Field(gt=0)] | None = Field(
        default=None, description='s after which predictions go on from the measured state'
    )
    substeps: Annotated[int, Field(ge=1, le=1000)] = Field(
        default=1, description='steps of the simulation from sample to sample'
    )
    resume: bool = Field(
        default=False, description='begin where an interrupted fit with the same output was'
    )
    intervals: Literal['sandwich', 'bootstrap', 'profile'] = Field(
        default='sandwich', description='how intervals are found'
    )
    gate: GateConfig = _GATE

    @model_validator(mode='after')
    def _is_of_its_method(self) -> ServoFitConfig:
        tried = {'trials': self.trials, 'load_study': self.load_study}
        given = [name for name, value in tried.items() if value is not None]
        given += ['workers'] if self.workers > 1 else []
        if self.method == 'least-squares' and given:
            msg = f'Expected method cmaes, random or nsgaii with {given[0]}, found least-squares'
            raise ValueError(msg)
        if self.method != 'least-squares' and self.resume:
            msg = (
                f'Expected load_study to go on with trials of {self.method}, found resume, which '
                'goes on with least squares'
            )
            raise ValueError(msg)
        return self
