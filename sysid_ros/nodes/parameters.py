# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A schema of ``sysid_ros.config`` as the ROS parameters of a node, and topics they name."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection
from typing import Any, Literal, TypeVar, get_args, get_origin

import annotated_types
from pydantic.fields import FieldInfo
from rcl_interfaces.msg import (
    FloatingPointRange,
    IntegerRange,
    ParameterDescriptor,
    SetParametersResult,
)
from rclpy.node import Node
from rclpy.parameter import Parameter

from sysid_ros.config import Section, validate
from sysid_ros.errors import ConfigError, SysidError

T = TypeVar('T', bound=Section)

_INT64 = (-(2**63), 2**63 - 1)
_DOUBLE = (-sys.float_info.max, sys.float_info.max)

_Type = Parameter.Type
#: ROS type of the types that a field may have.
_TYPES: dict[Any, Any] = {
    bool: _Type.BOOL,
    int: _Type.INTEGER,
    float: _Type.DOUBLE,
    str: _Type.STRING,
    tuple[str, ...]: _Type.STRING_ARRAY,
}


def declare(
    node: Node,
    schema: type[T],
    *,
    changeable: Collection[str] = (),
    check: Callable[[T], None] = lambda _: None,
    on_change: Callable[[T], None] = lambda _: None,
) -> T:
    """Declare every field of a schema as a parameter and return the values that were given.

    Later changes are checked against the schema; what does not fit, and what cannot change while
    the node runs, is rejected with a sentence.

    Args:
        node: The node; its parameter overrides are the values.
        schema: Fields of type bool, int, float, str, a Literal of strings, or a tuple of strings.
        changeable: Names of the fields that may change while the node runs.
        check: Called with all values, at the start and before each change, to raise a SysidError
            where they do not fit the world.
        on_change: Called with all values after a change was accepted.

    Raises:
        SysidError: A sentence about the first value that does not fit.
    """
    where = f'the parameters of {node.get_fully_qualified_name()}'
    types = {name: _type(info) for name, info in schema.model_fields.items()}
    given = {name: _given(node, name, type_) for name, type_ in types.items()}
    values = {name: value for name, value in given.items() if value is not None}
    config = validate(schema, values, where)
    check(config)
    for name, info in schema.model_fields.items():
        descriptor = _descriptor(info, types[name], fixed=name not in changeable)
        # A value would be used to guess the type, which is wrong for an empty list.
        node.declare_parameter(name, types[name], descriptor, ignore_override=True)
        node.set_parameters([Parameter(name, types[name], _to_ros(getattr(config, name)))])
    guard = _ParameterGuard(config, where, types, changeable, check, on_change)
    node.add_pre_set_parameters_callback(guard.convert)
    node.add_on_set_parameters_callback(guard.check)
    node.add_post_set_parameters_callback(guard.accept)
    return config


def resolve_topic(node: Node, parameter: str, topic: str) -> str:
    """Return a topic's name in full, with the node's namespace and remappings.

    Args:
        node: The node.
        parameter: Name of the parameter that holds the topic, for the error.
        topic: What it holds.

    Raises:
        ConfigError: It is no name of a topic.
    """
    try:
        return str(node.resolve_topic_name(topic))
    except (ValueError, RuntimeError) as err:  # rclpy's RCLError is a RuntimeError
        reason = ' '.join(str(err).split()).rstrip('.')
        raise ConfigError(
            f'Expected the name of a topic in parameter {parameter!r}, found an error: {reason}.'
        ) from err


class _ParameterGuard:
    """Checks changes of a node's parameters; kept alive by the node's callbacks."""

    def __init__(
        self,
        config: Any,
        where: str,
        types: dict[str, Any],
        changeable: Collection[str],
        check: Callable[[Any], None],
        on_change: Callable[[Any], None],
    ) -> None:
        self._config = config
        self._where = where
        self._types = types
        self._changeable = changeable
        self._check_values = check
        self._on_change = on_change

    def convert(self, parameters: list[Parameter]) -> list[Parameter]:
        """Turn ``5`` into ``5.0`` where a float is expected."""
        return [
            Parameter(given.name, _Type.DOUBLE, float(given.value))
            if self._types.get(given.name) == _Type.DOUBLE and given.type_ == _Type.INTEGER
            else given
            for given in parameters
        ]

    def check(self, parameters: list[Parameter]) -> SetParametersResult:
        """Accept a change, or say why not."""
        try:
            config = self._merged(parameters)
            if config != self._config:
                self._check_values(config)
        except SysidError as err:
            return SetParametersResult(successful=False, reason=str(err))
        return SetParametersResult(successful=True)

    def accept(self, parameters: list[Parameter]) -> None:
        """Take a change that was accepted."""
        config = self._merged(parameters)
        if config != self._config:
            self._config = config
            self._on_change(config)

    def _merged(self, parameters: list[Parameter]) -> Any:
        values = self._config.model_dump()
        # Others that are not ours (use_sim_time) are somebody else's business.
        for given in (given for given in parameters if given.name in values):
            value = _from_ros(given.value, self._types[given.name])
            if given.name not in self._changeable and value != values[given.name]:
                raise ConfigError(
                    f'Parameter {given.name!r} cannot change while the node runs: expected '
                    f'{_to_ros(values[given.name])!r} as at its start, found {_to_ros(value)!r}.'
                )
            values[given.name] = value
        return validate(type(self._config), values, self._where)


def _type(info: FieldInfo) -> Any:
    return _TYPES[str if get_origin(info.annotation) is Literal else info.annotation]


def _given(node: Node, name: str, type_: Any) -> Any:
    """Return the value given to a parameter whatever its type, or None.

    A parameter that is declared with its type rejects an integer for a float with rclpy's own
    exception, so that the given value is read through a declaration without a type.
    """
    value = node.declare_parameter(name, None, ParameterDescriptor(dynamic_typing=True)).value
    node.undeclare_parameter(name)
    return None if value is None else _from_ros(value, type_)


def _from_ros(value: Any, type_: Any) -> Any:
    if type_ == _Type.STRING_ARRAY:
        # ``-p topics:=/a`` is a string to ROS, and an empty list has whatever type.
        return (value,) if isinstance(value, (str, int, float)) else tuple(value)
    return value


def _to_ros(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _descriptor(info: FieldInfo, type_: Any, *, fixed: bool) -> ParameterDescriptor:
    notes = []
    if get_origin(info.annotation) is Literal:
        notes.append('one of: ' + ', '.join(get_args(info.annotation)))
    if fixed:
        notes.append('cannot change while the node runs')
    descriptor = ParameterDescriptor(
        description=info.description or '', additional_constraints='; '.join(notes)
    )
    limits = _limits(info)
    if type_ == _Type.INTEGER and limits:
        low, high = int(limits.get('low', _INT64[0])), int(limits.get('high', _INT64[1]))
        descriptor.integer_range = [IntegerRange(from_value=low, to_value=high)]
    if type_ == _Type.DOUBLE and limits:
        start, stop = limits.get('low', _DOUBLE[0]), limits.get('high', _DOUBLE[1])
        descriptor.floating_point_range = [
            FloatingPointRange(from_value=float(start), to_value=float(stop))
        ]
    return descriptor


def _limits(info: FieldInfo) -> dict[str, Any]:
    """Return the limits of a field, as far as it has any, by ``low`` and ``high``.

    ROS ranges include their ends; the schema's own check rejects an end that is excluded.
    """
    found: dict[str, Any] = {}
    for limit in info.metadata:
        if isinstance(limit, annotated_types.Ge):
            found['low'] = limit.ge
        elif isinstance(limit, annotated_types.Gt):
            found['low'] = limit.gt
        elif isinstance(limit, annotated_types.Le):
            found['high'] = limit.le
        elif isinstance(limit, annotated_types.Lt):
            found['high'] = limit.lt
    return found
