# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Which column of a bag is which sensor or actuator."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import Field, model_validator

from sysid_ros.config.section import Section

#: A channel in one string, as ``bags.parse_channel`` reads it: a topic's name has no dots, a label
#: is in the last pair of brackets and may hold brackets itself.
_CHANNEL = re.compile(
    r'(?P<topic>/[^.\[\]]*)\.(?P<field>.+?)(?:\[(?P<label>(?:[^\[\]]|\[[^\[\]]*\])*)\])?'
)


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

    @model_validator(mode='before')
    @classmethod
    def _from_path(cls, value: object) -> object:
        if not isinstance(value, str):
            return value
        found = _CHANNEL.fullmatch(value)
        if found is None:
            msg = f'Expected a channel as /topic.field[label], found {value!r}'
            raise ValueError(msg)
        return {key: part for key, part in found.groupdict().items() if part is not None}

    @model_validator(mode='after')
    def _has_one_choice(self) -> ChannelMapping:
        if self.label is not None and self.labels is not None:
            msg = f'Expected label or labels for {self.topic} {self.field}, found both'
            raise ValueError(msg)
        return self


class MappingConfig(Section):
    """An explicit pairing of bag columns with the model, instead of ``mapping: auto``."""

    sensors: dict[str, ChannelMapping] = Field(default_factory=dict)
    actuators: dict[str, ChannelMapping] = Field(default_factory=dict)
