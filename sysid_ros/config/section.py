# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What all sections of a configuration share, and what is said of one that is not valid."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, ValidationError, field_validator

from sysid_ros.errors import nearest, short

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

#: Types of pydantic's complaints, or how they begin, and what was expected.
_EXPECTED = {
    'tuple_type': 'a list',
    'list_type': 'a list',
    'dict_type': 'keys and values',
    'string': 'text',
    'float': 'a number',
    'finite_number': 'a finite number',
    'int': 'a whole number',
    'bool': 'true or false',
    'path_type': 'the name of a file',
    'greater_than_equal': 'at least {ge:g}',
    'greater_than': 'more than {gt:g}',
    'less_than_equal': 'at most {le:g}',
    'less_than': 'less than {lt:g}',
    'too_long': 'at most {max_length} values',
    'too_short': 'at least {min_length} values',
}


class Section(BaseModel):
    """A section of a configuration: unknown keys are errors, values do not change."""

    model_config = ConfigDict(extra='forbid', frozen=True)

    @field_validator('*')
    @classmethod
    def _may_be_a_file(cls, value: object) -> object:
        if isinstance(value, Path) and '\0' in str(value):
            raise ValueError(f'Expected the name of a file, found {str(value)!r}')
        return value


def explain(error: ValidationError, schema: type[BaseModel], where: str) -> str:
    """Turn the first complaint of a validation into one sentence."""
    complaints = error.errors()
    # Complaints of union members that were not meant come first.
    first = next((item for item in complaints if not _is_tag(item['loc'][-1:])), complaints[0])
    parts = [part for part in first['loc'] if not _is_tag(part)]
    place = '.'.join(map(str, parts))
    kind, context = first['type'], first.get('ctx', {})
    if kind == 'extra_forbidden':
        hint = nearest(str(parts[-1]), _keys(schema, parts[:-1]))
        return f'Unknown key {place!r} in {where}; {hint}.'
    if kind == 'missing' and isinstance(parts[-1], int):
        place = '.'.join(map(str, parts[:-1]))
        return f'Expected more than {parts[-1]} values for {place!r} in {where}.'
    if kind == 'missing':
        return f'Missing key {place!r} in {where}.'
    if kind == 'value_error':
        return f'{context["error"]}, in {where}.'
    if kind in {'literal_error', 'enum'}:
        expected = context['expected'].replace("'", '')
        choices = [word for part in expected.split(', ') for word in part.split(' or ')]
        value = _shown(first['input'])
        hint = nearest(str(first['input']), choices)
        return f'Expected {expected} for {place!r} in {where}, found {value}; {hint}.'
    expected = _expected(first, _keys(schema, parts))
    return f'Bad value {_shown(first["input"])} for {place!r} in {where}: expected {expected}.'


def _is_tag(part: Any) -> bool:
    """Tell names that pydantic puts into a location for the members of a union."""
    if isinstance(part, tuple):
        return bool(part) and _is_tag(part[0])
    return isinstance(part, str) and ('[' in part or part.endswith('Config'))


def _expected(complaint: ErrorDetails, keys: list[str]) -> str:
    kind = complaint['type']
    if kind in {'model_type', 'model_attributes_type'}:
        return f'keys and values ({", ".join(keys)})'
    text = _EXPECTED.get(kind) or _EXPECTED.get(kind.split('_')[0])
    if text is None:
        return complaint['msg'].removeprefix('Input should be ').rstrip('.')
    return text.format(**complaint.get('ctx', {}))


def _shown(value: object) -> str:
    """Return a value as YAML has it, cut where it is long."""
    if value is None or isinstance(value, bool):
        return {None: 'null', True: 'true', False: 'false'}[value]
    return short(repr(value))


def _keys(schema: type[BaseModel], parts: list[int | str]) -> list[str]:
    """Return the valid keys at a location inside a schema."""
    current: Any = schema
    for part in parts:
        if isinstance(part, int):
            continue
        fields = getattr(current, 'model_fields', {})
        current = _section(fields[part].annotation) if part in fields else current
    fields = getattr(current, 'model_fields', {})
    return [field.alias or name for name, field in fields.items()]


def _section(annotation: Any) -> Any:
    """Return the section inside an annotation such as ``tuple[Section, ...]``."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for inner in getattr(annotation, '__args__', ()):
        found = _section(inner)
        if found is not None:
            return found
    return None
