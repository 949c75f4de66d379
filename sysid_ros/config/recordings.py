# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Which columns of a bag are used, and which parts of it."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import Field, ValidationInfo, field_validator, model_validator

from sysid_ros.config.section import Section

#: A channel in one string: a topic's name has no dots, a label is in the last pair of brackets and
#: may hold brackets itself.
_CHANNEL = re.compile(
    r'(?P<topic>/[^.\[\]]*)\.(?P<field>.+?)(?:\[(?P<label>(?:[^\[\]]|\[[^\[\]]*\])*)\])?'
)
#: Pairs of a start and an end, s.
Ranges = tuple[tuple[float, float], ...]


class ChannelMapping(Section):
    """Columns of a bag and the sensor or actuator that they are.

    The short form of a channel is one string, ``/gripper/state.position[0]``.
    """

    topic: str = Field(description='topic in the bag')
    field: str = Field(description='field of the message: position, velocity, effort, data, …')
    label: str | None = Field(
        default=None,
        description='joint name in the message, or the index of the element; default all in order',
        coerce_numbers_to_str=True,
    )
    labels: tuple[Annotated[str, Field(coerce_numbers_to_str=True)], ...] | None = Field(
        default=None, description='columns of a sensor with several values, in its own order'
    )
    scale: float = Field(default=1.0, description='model value = scale * bag value + offset')
    offset: float = 0.0
    kind: Literal['torque', 'current', 'pwm'] = Field(
        default='torque', description='of an effort; the scale of a current or PWM is identified'
    )

    @model_validator(mode='before')
    @classmethod
    def _from_path(cls, value: object) -> object:
        if not isinstance(value, str):
            return value
        found = _CHANNEL.fullmatch(value)
        if found is None:
            raise ValueError(f'Expected a channel as /topic.field[label], found {value!r}')
        return {key: part for key, part in found.groupdict().items() if part is not None}

    @model_validator(mode='after')
    def _has_one_choice(self) -> ChannelMapping:
        if self.label is not None and self.labels is not None:
            raise ValueError(f'Expected label or labels for {self.topic} {self.field}, found both')
        return self


class MappingConfig(Section):
    """An explicit pairing of bag columns with the model, instead of ``mapping: auto``."""

    sensors: dict[str, ChannelMapping] = Field(default_factory=dict)
    actuators: dict[str, ChannelMapping] = Field(default_factory=dict)


class MarkerConfig(Section):
    """A topic that says when; the short form is its name.

    A ``std_msgs/Bool``, or any message of one number, is on while it is not zero. A
    ``std_msgs/String`` is on from a message with a matching text to the next without.
    """

    topic: str = Field(description='std_msgs/Bool, std_msgs/String, or one number')
    text: str = Field(
        default='?*', description='texts that switch on, as a pattern; default all but empty ones'
    )

    @model_validator(mode='before')
    @classmethod
    def _from_name(cls, value: object) -> object:
        return {'topic': value} if isinstance(value, str) else value


class SegmentsConfig(Section):
    """What of a bag becomes sequences, and where it is cut; times are s from the first sample.

    Times are for all bags, or by the name of a bag or a pattern of names.
    """

    gap: Annotated[float, Field(gt=0, le=1e6)] = Field(
        default=1.0, description='cut where nothing is measured for longer, s'
    )
    stops: bool = Field(default=False, description='leave out emergency stops')
    moving: bool = Field(default=False, description='keep only where joints move')
    times: Ranges | dict[str, Ranges] | None = Field(
        default=None, description='keep only from … to …, s; default all'
    )
    without: Ranges | dict[str, Ranges] = Field(
        default=(), description='leave out from … to …, s: contacts, for example'
    )
    marker: MarkerConfig | None = Field(default=None, description='keep only while it is on')
    contacts: MarkerConfig | None = Field(default=None, description='leave out while it is on')
    window: Annotated[float, Field(ge=0.01, le=1e6)] | None = Field(
        default=None, description='length of each sequence, s; default as long as it goes'
    )

    @field_validator('times', 'without', mode='before')
    @classmethod
    def _are_ranges(cls, value: object, info: ValidationInfo) -> object:
        several = value.values() if isinstance(value, dict) else [value or ()]
        for ranges in several:
            for item in ranges if isinstance(ranges, (list, tuple)) else [ranges]:
                if not _is_range(item):
                    raise ValueError(
                        f'Expected ranges as [[2.0, 30.5]] for {info.field_name!r}, each from an '
                        f'earlier to a later time, or a bag and its ranges, found {item!r}'
                    )
        return value


def _is_range(value: object) -> bool:
    return (
        isinstance(value, (list, tuple))
        and len(value) == 2  # noqa: PLR2004 - from and to
        and all(isinstance(time, (int, float)) for time in value)
        and value[0] < value[1]
    )
