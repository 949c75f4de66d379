# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A schema of ``sysid_ros.config`` as the ROS parameters of a node, and topics they name."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection
from functools import partial
from typing import Any, Literal, TypeVar, get_args, get_origin

from pydantic.fields import FieldInfo
from rcl_interfaces.msg import (
    FloatingPointRange,
    IntegerRange,
    ParameterDescriptor,
    SetParametersResult,
)
from rclpy.node import Node
from rclpy.parameter import Parameter

from sysid_ros.config.files import validate
from sysid_ros.config.schema import Section
from sysid_ros.errors import ConfigError, complaint

T = TypeVar('T', bound=Section)

_Type = Parameter.Type
#: ROS type of the types that a field may have.
_TYPES: dict[Any, Any] = {
    bool: _Type.BOOL,
    int: _Type.INTEGER,
    float: _Type.DOUBLE,
    str: _Type.STRING,
    tuple[str, ...]: _Type.STRING_ARRAY,
}
_MAX = sys.float_info.max
#: ROS type of numbers to the field and type of their range, and what has no limit there.
_LARGEST: dict[Any, tuple[str, Any, Any, float, float]] = {
    _Type.INTEGER: ('integer_range', int, IntegerRange, -(2**63), 2**63 - 1),
    _Type.DOUBLE: ('floating_point_range', float, FloatingPointRange, -_MAX, _MAX),
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
    types = {
        name: _TYPES[str if get_origin(info.annotation) is Literal else info.annotation]
        for name, info in schema.model_fields.items()
    }
    given = {name: _given(node, name, type_) for name, type_ in types.items()}
    values = {name: value for name, value in given.items() if value is not None}
    config = validate(schema, values, where)
    check(config)
    for name, info in schema.model_fields.items():
        descriptor = _descriptor(info, types[name], fixed=name not in changeable)
        # A value would be used to guess the type, which is wrong for an empty list.
        node.declare_parameter(name, types[name], descriptor, ignore_override=True)
        node.set_parameters([Parameter(name, types[name], _to_ros(getattr(config, name)))])

    def merged(parameters: list[Parameter]) -> T:
        """Return all values after a change; what is not changeable must be as it was."""
        values = config.model_dump()
        new = dict(values)
        # Others that are not ours (use_sim_time) are somebody else's business.
        for given in (given for given in parameters if given.name in values):
            before, value = values[given.name], _from_ros(given.value, types[given.name])
            if given.name not in changeable and value != before:
                raise ConfigError(
                    f'Parameter {given.name!r} cannot change while the node runs: expected '
                    f'{_to_ros(before)!r} as at its start, found {_to_ros(value)!r}.'
                )
            new[given.name] = value
        return validate(schema, new, where)

    def refuse(parameters: list[Parameter]) -> SetParametersResult:
        """Accept a change, or say why not."""
        try:
            changed = merged(parameters)
            if changed != config:
                check(changed)
        except Exception as err:  # noqa: BLE001 (no value that a peer sends may end the node)
            return SetParametersResult(successful=False, reason=complaint(err))
        return SetParametersResult(successful=True)

    def accept(parameters: list[Parameter]) -> None:
        """Take a change that was accepted."""
        nonlocal config
        changed = merged(parameters)
        if changed != config:
            config = changed
            on_change(config)

    node.add_pre_set_parameters_callback(partial(_with_floats, types))
    node.add_on_set_parameters_callback(refuse)
    node.add_post_set_parameters_callback(accept)
    return config


def _with_floats(types: dict[str, Any], parameters: list[Parameter]) -> list[Parameter]:
    """Turn ``5`` into ``5.0`` where a float is expected."""
    return [
        Parameter(given.name, _Type.DOUBLE, float(given.value))
        if types.get(given.name) == _Type.DOUBLE and given.type_ == _Type.INTEGER
        else given
        for given in parameters
    ]


def resolve_topic(node: Node, parameter: str, topic: str) -> str:
    """Return a topic's name in full; a ConfigError names the parameter that holds no such name."""
    try:
        return str(node.resolve_topic_name(topic))
    except (ValueError, RuntimeError) as err:  # rclpy's RCLError is a RuntimeError
        reason = ' '.join(str(err).split()).rstrip('.')
        raise ConfigError(
            f'Expected the name of a topic in parameter {parameter!r}, found an error: {reason}.'
        ) from err


def _given(node: Node, name: str, type_: Any) -> Any:
    """Return the value given to a parameter, or None, through a declaration without a type.

    With its type, rclpy's own exception would reject an integer for a float.
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
    low, high = _limit(info, 'ge', 'gt'), _limit(info, 'le', 'lt')
    # ROS ranges include their ends; the schema's own check rejects an end that is excluded.
    if type_ in _LARGEST and (low, high) != (None, None):
        field, number, kind, least, most = _LARGEST[type_]
        ends = {
            'from_value': number(least if low is None else low),
            'to_value': number(most if high is None else high),
        }
        setattr(descriptor, field, [kind(**ends)])
    return descriptor


def _limit(info: FieldInfo, *names: str) -> Any:
    """Return a limit of a field by the names that pydantic has for it, None without."""
    found = (getattr(limit, name, None) for limit in info.metadata for name in names)
    return next((limit for limit in found if limit is not None), None)
