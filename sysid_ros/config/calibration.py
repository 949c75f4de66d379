# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""``calibration.yaml``: what is identified from which bags, how, and what a result must satisfy."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from sysid_ros.config.recordings import MappingConfig, SegmentsConfig
from sysid_ros.config.section import Section
from sysid_ros.errors import listed

Share = Annotated[float, Field(ge=0, lt=1)]
Sigma = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Seconds = Annotated[float, Field(ge=0.01, le=1e4)]

Stamps = Literal['auto', 'header', 'receive']
#: One for all topics, or by topic; those that are not named are ``auto``.
StampChoice = Stamps | dict[str, Stamps]
#: Loss on residuals in units of their noise, named as in scipy.
Loss = Literal['linear', 'huber', 'soft_l1']
#: Where a fit begins; ``auto`` takes what is of use.
StartChoice = Literal['auto', 'nominal', 'regression', 'windows']
#: Whether a solver moves a value itself or its logarithm.
Scale = Literal['linear', 'log']
#: How near to the optimum a fit ends, in standard errors: farther off, an interval would hold the
#: truth in another thousandth of a percent of cases.
ACCURACY = 0.01


class VerdictKind(StrEnum):
    """What the data say about a parameter."""

    IDENTIFIED = 'identified'
    AT_BOUND = 'at bound'
    NOT_EXCITED = 'not excited'
    CONFOUNDED = 'confounded'
    PRIOR_DOMINATED = 'prior-dominated'
    MODEL_LIMITED = 'model-limited'

    def among(self, others: Sequence[str]) -> str:
        """Return the verdict in words, with the parameters that one is confounded with."""
        return f'{self} with {listed(others)}' if others else str(self)


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
            VerdictKind.MODEL_LIMITED,
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


class MemoryConfig(Section):
    """The earlier result that a fit continues; the short form is ``previous`` alone."""

    previous: Literal['none', 'auto'] | Path = Field(
        default='none',
        description='none, an earlier result.json or its folder, or auto: the current one',
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


class StatisticsConfig(Section):
    """What the weights of measurements, and so the intervals, rest on."""

    noise: dict[str, Sigma] = Field(
        default_factory=dict,
        description='sensor or pattern to the standard deviation of its noise, in SI units, as of '
        'a datasheet; the others are estimated',
    )


#: Families of bags, name to patterns, as ``{slow: [slow_*], fast: [fast_*]}``.
Families = Annotated[
    dict[str, Annotated[tuple[str, ...], Field(min_length=1)]], Field(min_length=1)
]


class ValidationConfig(Section):
    """What is refitted, and predicted, to see how far a fit can be trusted."""

    leave_out: Literal['auto', 'none', 'bag'] | Families = Field(
        default='auto',
        description='what is held out in turn: each bag, nothing, or families of bags, '
        'name to patterns; auto is bag from three training bags on',
    )
    horizon: tuple[Seconds, ...] = Field(
        default=(0.1, 0.2, 0.5, 1.0, 2.0, 5.0),
        description='seconds after starts from the measured state at which errors are given',
    )


#: What a bag is for: to fit to, or to judge the fit on.
Role = Literal['train', 'validate']


class BagSelection(Section):
    """Bags and what they are for."""

    path: str = Field(description='bag folder, or a pattern such as bags/train_*')
    role: Role = Field(default='train', description='train or validate')


class PriorConfig(Section):
    """What is known of a parameter before the fit, in its unit."""

    mean: float | None = Field(
        default=None, description='most likely value; default where the parameter starts'
    )
    std: Annotated[float, Field(gt=0)] = Field(description='standard deviation')


class ParameterConfig(Section):
    """One entry of ``parameters``: a target or a pattern of targets.

    What it says holds for each component of a vector, and for each match of a pattern.
    """

    target: str = Field(description='what is written, as joint/*/armature')
    name: str | None = Field(default=None, description='name in the result; default the target')
    initial: float | None = Field(default=None, description="nominal value; default the model's")
    bounds: tuple[float, float] | None = Field(default=None, description='lower and upper bound')
    shared: bool = Field(default=False, description='one value for all matches')
    scale: Scale = Field(
        default='linear', description='log for positive values that may be wrong by a factor'
    )
    prior: PriorConfig | None = Field(default=None, description='what is known before the fit')


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
            raise ValueError('Expected type and model, or params, in servos, found neither')
        return self


class SolverConfig(Section):
    """How the least-squares problem is solved."""

    loss: Loss = Field(default='linear', description='loss on residuals in units of their noise')
    max_iterations: Annotated[int, Field(ge=1, le=10000)] = 200
    time: Seconds | None = Field(
        default=None, description='limit of time, s; the best values by then count'
    )
    accuracy: Annotated[float, Field(gt=0, le=1)] = Field(
        default=ACCURACY, description='largest step left at the end, in standard errors'
    )
    start: StartChoice = Field(
        default='auto', description='where the fit begins; auto takes what is of use'
    )
    starts: Annotated[int, Field(ge=1, le=10000)] = Field(
        default=1, description='number of starts, spread over the bounds'
    )
    seed: Annotated[int, Field(ge=0, le=2**31 - 1)] = Field(
        default=0, description='of all starts but the first, which is the nominal values'
    )
    threads: Annotated[int, Field(ge=0, le=1024, description='0 means one per core')] = 0
    timestep: Literal['model', 'auto'] | Annotated[float, Field(gt=0, le=0.1)] = Field(
        default='auto', description='of the simulations, s; auto takes what the recordings bear'
    )


class CheckConfig(Section):
    """What ``sysid check`` tolerates beside the intervals."""

    tolerance: dict[str, Annotated[float, Field(ge=0)]] = Field(
        default_factory=dict,
        description='parameter name or pattern to the absolute difference that is allowed',
    )
    held_out_factor: Annotated[float, Field(ge=1)] = Field(
        default=1.1, description='held-out error may grow by this factor'
    )


class ReportConfig(Section):
    """What the report holds beside the numbers."""

    film: bool = Field(
        default=True,
        description='whether it has a film of measured, nominal and fitted, which takes some '
        'seconds to draw',
    )


class DataConfig(Section):
    """How recordings are read and compared with a model."""

    package_path: tuple[Path, ...] = Field(
        default=(),
        description='folders of ROS packages that a URDF refers to, beside the ament index',
    )
    estimator: Literal['auto', 'simulation', 'torque', 'windows'] = Field(
        default='auto',
        description='what the model is compared with: simulations of whole recordings or of '
        'windows that start where the robot was, or the forces that the measured motion needs; '
        'auto is torque where only forces drive the joints and they are measured, and windows '
        'where simulations of whole recordings say nothing',
    )
    mapping: Literal['auto'] | MappingConfig | Path = Field(
        default='auto', description='auto, a mapping, or a YAML file that holds one'
    )
    namespace: str = Field(
        default='', description='of several arms in a bag this one: words of its topics or joints'
    )
    stamps: StampChoice = Field(
        default='auto',
        description='time of a message: header stamp, else when it was sent or received, or as '
        'told, for all or by topic',
    )
    segments: SegmentsConfig = SegmentsConfig()
    servos: tuple[ServoConfig, ...] = Field(
        default=(), description='actuators that servos drive, whose laws MuJoCo does not have'
    )
    undriven: tuple[str, ...] = Field(
        default=(),
        description='actuators that were off, names or patterns: they exert nothing and need no '
        'commands',
    )
    sensors: Annotated[tuple[str, ...], Field(min_length=1)] | None = Field(
        default=None, description='sensors that are compared, names or patterns; default all mapped'
    )

    @field_validator('mapping', mode='before')
    @classmethod
    def _is_a_mapping(cls, mapping: object) -> object:
        if isinstance(mapping, (str, dict, Path, MappingConfig)):
            return mapping
        raise ValueError(
            f'Expected auto, a mapping or the name of a mapping file, found {mapping!r}'
        )


class CalibrationConfig(DataConfig):
    """``calibration.yaml``: from bags to an identified model."""

    model: Path = Field(
        default=Path(),
        description='MJCF, URDF or xacro file; default the robot_description in the first bag',
    )
    bags: tuple[BagSelection, ...] = Field(description='recordings and their roles')
    parameters: tuple[ParameterConfig, ...] = Field(default=(), description='what to identify')
    solver: SolverConfig = SolverConfig()
    statistics: StatisticsConfig = StatisticsConfig()
    validation: ValidationConfig = ValidationConfig()
    memory: MemoryConfig = MemoryConfig()
    gate: GateConfig = GateConfig()
    check: CheckConfig = CheckConfig()
    report: ReportConfig = ReportConfig()
    output: Path = Field(default=Path('out'), description='folder for model, result and report')

    @model_validator(mode='after')
    def _is_complete(self) -> CalibrationConfig:
        if not any(bag.role == 'train' for bag in self.bags):
            raise ValueError('Expected at least one bag with role train in bags, found none')
        found = any(servo.identify not in ('none', ()) for servo in self.servos)
        if not self.parameters and not found:
            raise ValueError(
                'Expected at least one entry in parameters (evaluate needs none), found none'
            )
        return self


#: Largest error of a sensor, by its name or a pattern, in its SI unit.
Limits = dict[str, Annotated[float, Field(gt=0)]]


class ThresholdsConfig(DataConfig):
    """A ``*.sysid.yaml``: how well a model has to predict recordings, without any fit.

    What of the recordings it does not say is as in ``calibration``, where that is given.
    """

    model: Path | None = Field(
        default=None, description='MJCF, URDF or xacro file, or a result: what is evaluated'
    )
    bags: tuple[str, ...] = Field(
        default=(), description='recordings to predict, folders or patterns'
    )
    calibration: Path | None = Field(
        default=None, description='calibration.yaml that is fitted again, and read like'
    )
    baseline: Path | None = Field(
        default=None, description='folder of what was found before; written by sysid check --update'
    )
    limits: Limits = Field(
        default_factory=dict,
        description='largest root mean square error over a whole recording, by sensor or pattern',
    )
    horizon: dict[Seconds, Limits] = Field(
        default_factory=dict,
        description='the same of positions so many seconds after measured states',
    )
    growth: Annotated[float, Field(ge=1)] = Field(
        default=1.1, description='errors may be so many times those of the baseline'
    )
