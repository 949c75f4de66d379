# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A schema of ``sysid_ros.config`` as the ROS parameters of a node, and topics they name."""

from __future__ import annotations

import enum
import sys
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args, get_origin

import annotated_types

from sysid_ros.config import Section, validate
from sysid_ros.errors import ConfigError, SysidError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from pydantic.fields import FieldInfo
    from rcl_interfaces.msg import ParameterDescriptor
    from rclpy.node import Node
    from rclpy.parameter import Parameter

T = TypeVar('T', bound=Section)

_INT64 = (-(2**63), 2**63 - 1)
_DOUBLE = (-sys.float_info.max, sys.float_info.max)


class _Kind(enum.Enum):
    """What a parameter holds; rclpy's Parameter.Type has the same names."""

    BOOL = enum.auto()
    INTEGER = enum.auto()
    DOUBLE = enum.auto()
    STRING = enum.auto()
    STRING_ARRAY = enum.auto()
    DOUBLE_ARRAY = enum.auto()


#: Types that a field may have.
_TYPES: dict[Any, _Kind] = {
    bool: _Kind.BOOL,
    int: _Kind.INTEGER,
    float: _Kind.DOUBLE,
    str: _Kind.STRING,
    tuple[str, ...]: _Kind.STRING_ARRAY,
    tuple[float, ...]: _Kind.DOUBLE_ARRAY,
}


def declare(
    node: Node,
    schema: type[T],
    *,
    changeable: Collection[str] = (),
    fixed: Collection[str] = (),
    check: Callable[[T], None] | None = None,
    on_change: Callable[[T], None] | None = None,
) -> T:
    """Declare every field of a schema as a parameter and return the values that were given.

    Later changes are checked against the schema; what does not fit, and what cannot change while
    the node runs, is rejected with a sentence.

    Args:
        node: The node; its parameter overrides are the values.
        schema: Fields of type bool, int, float, str, a Literal of strings, or a tuple of
            strings or floats.
        changeable: Names of the fields that may change while the node runs.
        fixed: Names of other parameters of the node that must not change either.
        check: Called with all values, at the start and before each change, to raise a SysidError
            where they do not fit the world.
        on_change: Called with all values after a change was accepted.

    Raises:
        SysidError: A sentence about the first value that does not fit.
    """
    from rclpy.parameter import Parameter  # noqa: PLC0415 (needs ROS)

    where = f'the parameters of {node.get_fully_qualified_name()}'
    kinds = {name: _kind(name, info) for name, info in schema.model_fields.items()}
    given = {name: _given(node, name, kind) for name, kind in kinds.items()}
    config = validate(
        schema, {name: value for name, value in given.items() if value is not None}, where
    )
    if check is not None:
        check(config)
    for name, info in schema.model_fields.items():
        descriptor = _descriptor(info, kinds[name], fixed=name not in changeable)
        type_ = Parameter.Type[kinds[name].name]
        # A value would be used to guess the type, which is wrong for an empty list.
        node.declare_parameter(name, type_, descriptor, ignore_override=True)
        node.set_parameters([Parameter(name, type_, _to_ros(getattr(config, name)))])
    constants = {name: node.get_parameter(name).value for name in fixed}
    _ParameterGuard(node, config, where, kinds, frozenset(changeable), constants, check, on_change)
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
        msg = f'Expected the name of a topic in parameter {parameter!r}, found an error: {reason}.'
        raise ConfigError(msg) from err


class _ParameterGuard:
    """Checks changes of a node's parameters; kept alive by the node's callbacks."""

    def __init__(
        self,
        node: Node,
        config: Any,
        where: str,
        kinds: dict[str, _Kind],
        changeable: frozenset[str],
        constants: dict[str, Any],
        check: Callable[[Any], None] | None,
        on_change: Callable[[Any], None] | None,
    ) -> None:
        self._config = config
        self._where = where
        self._kinds = kinds
        self._changeable = changeable
        self._constants = constants
        self._check_values = check
        self._on_change = on_change
        node.add_pre_set_parameters_callback(self._convert)
        node.add_on_set_parameters_callback(self._check)
        node.add_post_set_parameters_callback(self._accept)

    def _convert(self, parameters: list[Parameter]) -> list[Parameter]:
        """Turn ``5`` into ``5.0`` where a float is expected."""
        from rclpy.parameter import Parameter  # noqa: PLC0415 (needs ROS)

        integer, double = Parameter.Type.INTEGER, Parameter.Type.DOUBLE
        return [
            Parameter(given.name, double, float(given.value))
            if self._kinds.get(given.name) is _Kind.DOUBLE and given.type_ == integer
            else given
            for given in parameters
        ]

    def _check(self, parameters: list[Parameter]) -> Any:
        from rcl_interfaces.msg import SetParametersResult  # noqa: PLC0415 (needs ROS)

        try:
            config = self._merged(parameters)
            if self._check_values is not None and config != self._config:
                self._check_values(config)
        except SysidError as err:
            return SetParametersResult(successful=False, reason=str(err))
        return SetParametersResult(successful=True)

    def _accept(self, parameters: list[Parameter]) -> None:
        config = self._merged(parameters)
        changed = config != self._config
        self._config = config
        if changed and self._on_change is not None:
            self._on_change(config)

    def _merged(self, parameters: list[Parameter]) -> Any:
        values = self._config.model_dump()
        for name, value in ((p.name, p.value) for p in parameters if p.name in self._constants):
            if value != self._constants[name]:
                raise _fixed(name, self._constants[name], value)
        # Others that are not ours (QoS overrides) are somebody else's business.
        for name, value in ((p.name, p.value) for p in parameters if p.name in values):
            value_here = _from_ros(value, self._kinds[name])
            if name not in self._changeable and value_here != values[name]:
                raise _fixed(name, values[name], value_here)
            values[name] = value_here
        return validate(type(self._config), values, self._where)


def _fixed(name: str, value: Any, found: Any) -> ConfigError:
    return ConfigError(
        f'Parameter {name!r} cannot change while the node runs: expected {_to_ros(value)!r} as at '
        f'its start, found {_to_ros(found)!r}.'
    )


def _kind(name: str, info: FieldInfo) -> _Kind:
    annotation = str if get_origin(info.annotation) is Literal else info.annotation
    if annotation not in _TYPES:
        msg = f'Field {name!r} has type {annotation}, which cannot be a ROS parameter.'
        raise TypeError(msg)
    return _TYPES[annotation]


def _given(node: Node, name: str, kind: _Kind) -> Any:
    """Return the value given to a parameter whatever its type, or None.

    A parameter that is declared with its type rejects an integer for a float with rclpy's own
    exception, so that the given value is read through a declaration without a type.
    """
    from rcl_interfaces.msg import ParameterDescriptor  # noqa: PLC0415 (needs ROS)

    free = ParameterDescriptor(dynamic_typing=True)
    value = node.declare_parameter(name, None, free).value
    node.undeclare_parameter(name)
    return None if value is None else _from_ros(value, kind)


def _from_ros(value: Any, kind: _Kind) -> Any:
    if kind in {_Kind.STRING_ARRAY, _Kind.DOUBLE_ARRAY}:
        # ``-p topics:=/a`` is a string to ROS, and an empty list has whatever type.
        return (value,) if isinstance(value, (str, int, float)) else tuple(value)
    return value


def _to_ros(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _descriptor(info: FieldInfo, kind: _Kind, *, fixed: bool) -> ParameterDescriptor:
    from rcl_interfaces import msg  # noqa: PLC0415 (needs ROS)

    notes = []
    if get_origin(info.annotation) is Literal:
        notes.append('one of: ' + ', '.join(get_args(info.annotation)))
    if fixed:
        notes.append('cannot change while the node runs')
    descriptor = msg.ParameterDescriptor(
        description=info.description or '', additional_constraints='; '.join(notes)
    )
    limits = _limits(info)
    if kind is _Kind.INTEGER and limits != (None, None):
        low, high = (
            int(limit if limit is not None else end)
            for limit, end in zip(limits, _INT64, strict=True)
        )
        descriptor.integer_range = [msg.IntegerRange(from_value=low, to_value=high)]
    if kind is _Kind.DOUBLE and limits != (None, None):
        start, stop = (
            float(limit if limit is not None else end)
            for limit, end in zip(limits, _DOUBLE, strict=True)
        )
        descriptor.floating_point_range = [msg.FloatingPointRange(from_value=start, to_value=stop)]
    return descriptor


def _limits(info: FieldInfo) -> tuple[float | None, float | None]:
    """Return the lower and upper limit of a field, None where there is none.

    ROS ranges include their ends; the schema's own check rejects an end that is excluded.
    """
    low: Any = None
    high: Any = None
    for limit in info.metadata:
        if isinstance(limit, annotated_types.Ge):
            low = limit.ge
        elif isinstance(limit, annotated_types.Gt):
            low = limit.gt
        elif isinstance(limit, annotated_types.Le):
            high = limit.le
        elif isinstance(limit, annotated_types.Lt):
            high = limit.lt
    return low, high
