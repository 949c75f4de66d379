# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Reading configuration files."""

from __future__ import annotations

import glob
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from sysid_ros.config.calibration import CalibrationConfig, ServoConfig
from sysid_ros.config.recordings import MappingConfig, SegmentsConfig
from sysid_ros.config.section import Section, explain
from sysid_ros.config.servos import ServoBagConfig
from sysid_ros.errors import ConfigError, nearest
from sysid_ros.yaml_text import parse_yaml

T = TypeVar('T', bound=BaseModel)


class _Servos(Section):
    servos: tuple[ServoConfig, ...]


def read_yaml(path: Path) -> dict[str, Any]:
    """Read a YAML file that holds one mapping.

    Raises:
        ConfigError: There is no such file, it is not YAML, or not a mapping.
    """
    try:
        document = parse_yaml(path.read_text(encoding='utf-8'))
    except FileNotFoundError as err:
        near = path.parent.glob(f'*{path.suffix}') if path.parent.is_dir() else []
        hint = nearest(path.name, sorted(entry.name for entry in near))
        msg = f'There is no file {str(path)!r}; {hint}.'
        raise ConfigError(msg) from err
    except OSError as err:
        msg = f'Cannot read {str(path)!r}: {err.strerror}.'
        raise ConfigError(msg) from err
    except UnicodeDecodeError as err:
        msg = f'{str(path)!r} is not valid YAML: byte {err.start} is not UTF-8 text.'
        raise ConfigError(msg) from err
    except yaml.YAMLError as err:
        msg = f'{str(path)!r} is not valid YAML: {_yaml_complaint(err)}.'
        raise ConfigError(msg) from err
    if not isinstance(document, dict):
        found = {type(None): 'nothing', list: 'a list'}.get(type(document), repr(document))
        msg = f'Expected keys and values in {str(path)!r}, found {found}.'
        raise ConfigError(msg)
    return document


def _yaml_complaint(error: yaml.YAMLError) -> str:
    """Return what is wrong and where, without the excerpts that span lines."""
    mark = error.problem_mark if isinstance(error, yaml.MarkedYAMLError) else None
    if mark is None or not isinstance(error, yaml.MarkedYAMLError):
        return ' '.join(str(error).split())
    return f'{error.problem} in line {mark.line + 1}, column {mark.column + 1}'


def validate(schema: type[T], values: dict[str, Any], where: str) -> T:
    """Validate values against a schema.

    Raises:
        ConfigError: A sentence about the first value that does not fit.
    """
    try:
        return schema.model_validate(values)
    except ValidationError as err:
        raise ConfigError(explain(err, schema, where)) from err


def load_calibration(path: Path, overrides: dict[str, Any] | None = None) -> CalibrationConfig:
    """Read ``calibration.yaml``; relative paths inside are relative to the file's folder.

    They stay relative when the file's own path is, so that results do not depend on where the
    folder lies on a machine.

    Args:
        path: The file.
        overrides: Dotted keys to values that replace the file's, as ``{'solver.loss': 'huber'}``;
            relative paths among them are relative to the working directory.

    Raises:
        ConfigError: The file cannot be read or is not valid.
    """
    values = read_yaml(path)
    folder = path.parent
    given = dict(overrides or {})
    for key, value in given.items():
        _put(values, key, value)
    config = validate(CalibrationConfig, values, str(path))
    here = Path()
    mapping = config.mapping
    bags = tuple(
        bag.model_copy(update={'path': str((here if 'bags' in given else folder) / bag.path)})
        for bag in config.bags
    )
    return config.model_copy(
        update={
            'model': (here if 'model' in given else folder) / config.model
            if 'model' in values
            else _first(next(bag.path for bag in bags if bag.role == 'train')),
            'package_path': tuple(
                (here if 'package_path' in given else folder) / path for path in config.package_path
            ),
            'output': (here if 'output' in given else folder) / config.output,
            'bags': bags,
            'mapping': (here if 'mapping' in given else folder) / mapping
            if isinstance(mapping, Path)
            else mapping,
            'servos': tuple(
                _located(servo, here if 'servos' in given else folder) for servo in config.servos
            ),
            'memory': config.memory.model_copy(
                update={
                    'previous': (here if {'memory', 'memory.previous'} & given.keys() else folder)
                    / config.memory.previous
                }
            )
            if isinstance(config.memory.previous, Path)
            else config.memory,
        }
    )


def _first(pattern: str) -> Path:
    """Return the first bag that a pattern, or a path, stands for."""
    return Path(next(iter(sorted(glob.glob(pattern))), pattern))  # noqa: PTH207 (may be absolute)


def _located(servo: ServoConfig, folder: Path) -> ServoConfig:
    """Return an entry whose files are relative to the working directory."""
    found: dict[str, object] = {}
    if servo.params is not None:
        found['params'] = folder / servo.params
    if servo.type is not None and servo.type.endswith(('.yaml', '.yml')):
        found['type'] = str(folder / servo.type)
    return servo.model_copy(update=found)


def _put(values: dict[str, Any], key: str, value: Any) -> None:
    *sections, last = key.split('.')
    for section in sections:
        inner = values.setdefault(section, {})
        if not isinstance(inner, dict):
            msg = f'Cannot set {key!r}: {section!r} is not a section.'
            raise ConfigError(msg)
        values = inner
    values[last] = value


def load_mapping(path: Path) -> MappingConfig:
    """Read a mapping file.

    Raises:
        ConfigError: The file cannot be read or is not valid.
    """
    return validate(MappingConfig, read_yaml(path), str(path))


def load_servo_bag(path: Path) -> ServoBagConfig:
    """Read a file that says what of a bag is a servo on a pendulum.

    Raises:
        ConfigError: The file cannot be read or is not valid.
    """
    return validate(ServoBagConfig, read_yaml(path), str(path))


def load_servos(path: Path) -> tuple[ServoConfig, ...]:
    """Read the section ``servos`` of a file, a calibration.yaml for example.

    Raises:
        ConfigError: The file cannot be read, has no such section, or it is not valid.
    """
    values = read_yaml(path)
    if 'servos' not in values:
        msg = f'Expected the section servos in {str(path)!r}; {nearest("servos", values)}.'
        raise ConfigError(msg)
    section = validate(_Servos, {'servos': values['servos']}, str(path))
    return tuple(_located(servo, path.parent) for servo in section.servos)


def load_segments(path: Path) -> SegmentsConfig:
    """Read the section ``segments`` of a file, a calibration.yaml for example.

    Raises:
        ConfigError: The file cannot be read, has no such section, or it is not valid.
    """
    values = read_yaml(path)
    if 'segments' not in values:
        msg = f'Expected the section segments in {str(path)!r}; {nearest("segments", values)}.'
        raise ConfigError(msg)
    section = values['segments']
    if not isinstance(section, dict):
        msg = f'Expected keys and values for segments in {str(path)!r}, found {section!r}.'
        raise ConfigError(msg)
    return validate(SegmentsConfig, section, f'segments in {path}')
