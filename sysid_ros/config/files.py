# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Reading configuration files."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from sysid_ros.config.schema import (
    CalibrationConfig,
    CarriedParameter,
    DataConfig,
    Fleet,
    FleetConfig,
    MappingConfig,
    Section,
    SegmentsConfig,
    ServoConfig,
    ThresholdsConfig,
    explain,
)
from sysid_ros.errors import ConfigError, nearest
from sysid_ros.files import beside, matching, read_object, read_text
from sysid_ros.text import parse_yaml

T = TypeVar('T', bound=BaseModel)


class _Servos(Section):
    servos: tuple[ServoConfig, ...]


class _Segments(Section):
    segments: SegmentsConfig


def read_yaml(path: Path, otherwise: str = '') -> dict[str, Any]:
    """Read a YAML file that holds one mapping; ``otherwise`` is what to do where there is none.

    Raises:
        ConfigError: There is no such file, it is not YAML, or not a mapping.
    """
    try:
        document = parse_yaml(read_text(path))
    except FileNotFoundError as err:
        raise ConfigError(f'There is no file {str(path)!r}; {beside(path, otherwise)}.') from err
    except OSError as err:
        raise ConfigError(f'Cannot read {str(path)!r}: {err.strerror}.') from err
    except UnicodeDecodeError as err:
        raise ConfigError(
            f'{str(path)!r} is not valid YAML: byte {err.start} is not UTF-8 text.'
        ) from err
    except yaml.YAMLError as err:
        raise ConfigError(f'{str(path)!r} is not valid YAML: {_yaml_complaint(err)}.') from err
    if not isinstance(document, dict):
        found = {type(None): 'nothing', list: 'a list'}.get(type(document), repr(document))
        raise ConfigError(f'Expected keys and values in {str(path)!r}, found {found}.')
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
    values = read_yaml(path, '`sysid init BAG… MODEL` writes one')
    return _resolve(values, path.parent, overrides or {}, Path(), str(path))


def _resolve(
    values: dict[str, Any], folder: Path, given: Mapping[str, Any], here: Path, where: str
) -> CalibrationConfig:
    """Return the calibration that keys and values mean, with those that replace some of them.

    Relative paths are relative to ``folder``, and ``here`` among those that are given.
    """
    for key, value in given.items():
        _put(values, key, value)
    config = validate(CalibrationConfig, values, where)

    def at(*keys: str) -> Path:
        return here if given.keys() & set(keys) else folder

    bags = tuple(bag.model_copy(update={'path': str(at('bags') / bag.path)}) for bag in config.bags)
    found = {
        **_data_paths(config, at),
        'model': at('model') / config.model
        if 'model' in values
        else _first(next(bag.path for bag in bags if bag.role == 'train')),
        'output': at('output') / config.output,
        'bags': bags,
    }
    previous = config.memory.previous
    if isinstance(previous, Path):
        previous = at('memory', 'memory.previous') / previous
        found['memory'] = config.memory.model_copy(update={'previous': previous})
    config = config.model_copy(update=found)
    if config.memory.carry and isinstance(previous, Path):
        return _carried(config, previous, values.keys())
    return config


#: Keys of a calibration that no other carries on; a result that it continued is in its own.
_NOT_CARRIED = frozenset({'bags', 'output', 'memory', 'parameters'})


def _carried(config: CalibrationConfig, previous: Path, said: Collection[str]) -> CalibrationConfig:
    """Return a calibration in which what it did not say is as in that of an earlier result.

    Of sections that both say, each key that this one says is its own.
    """
    places = previous / 'current' / 'result.json', previous / 'result.json'
    path = next((place for place in places if place.is_file()), previous)
    found = read_object(path, ConfigError, 'result').get('provenance')
    then = found.get('config') if isinstance(found, dict) else None
    if not isinstance(then, dict):
        raise ConfigError(f'Expected a result with its configuration, found none in {str(path)!r}.')
    output = path.resolve().parent.parent
    if config.output.resolve() == output:
        raise ConfigError(
            f'Expected another output than that of the earlier result, found {str(config.output)!r}'
            ' for both: what is carried on would no longer be current there.'
        )
    # Its relative paths are relative to where its command ran, which its output tells.
    root = Path(os.path.relpath(output / os.path.relpath('.', str(then.get('output', 'out')))))
    where = f'the configuration in {path}'
    earlier = _resolve({**then, 'memory': {}}, root, {}, root, where)
    update: dict[str, object] = {}
    for key in CalibrationConfig.model_fields.keys() - _NOT_CARRIED:
        own, other = getattr(config, key), getattr(earlier, key)
        if key not in said:
            update[key] = other
        elif isinstance(other, Section) and key != 'mapping':
            chosen = {name: getattr(own, name) for name in own.model_fields_set}
            update[key] = other.model_copy(update=chosen)
    if 'segments' not in said:
        # Of the bags of then.
        of_bags = {'times': None, 'without': ()}
        update['segments'] = earlier.segments.model_copy(update=of_bags)
    update['parameters'] = (
        *config.parameters,
        *(
            CarriedParameter(**dict(entry))
            for entry in earlier.parameters
            if not entry.target.startswith('sequence/')
        ),
    )
    return config.model_copy(update=update)


def _data_paths(config: DataConfig, at: Callable[..., Path]) -> dict[str, object]:
    """Return the values that are or hold paths, each relative to the folder that ``at`` tells."""
    found: dict[str, object] = {
        'package_path': tuple(at('package_path') / path for path in config.package_path),
        'servos': tuple(_located(servo, at('servos')) for servo in config.servos),
    }
    if isinstance(config.mapping, Path):
        found['mapping'] = at('mapping') / config.mapping
    return found


def load_thresholds(path: Path, overrides: dict[str, Any] | None = None) -> ThresholdsConfig:
    """Read a ``*.sysid.yaml``; relative paths inside are relative to the file's folder.

    What it does not say of the recordings is taken from its ``calibration``, where it has one.

    Args:
        path: The file.
        overrides: Dotted keys to values that replace the file's; relative paths among them are
            relative to the working directory.

    Raises:
        ConfigError: The file, or its calibration, cannot be read or is not valid.
    """
    return make_thresholds(read_yaml(path), path.parent, overrides or {}, str(path))


def make_thresholds(
    values: dict[str, Any], folder: Path, given: Mapping[str, Any], where: str
) -> ThresholdsConfig:
    """Return the thresholds that keys and values mean; see `load_thresholds`.

    Raises:
        ConfigError: They, or the calibration that they name, are not valid.
    """
    for key, value in given.items():
        _put(values, key, value)
    config = validate(ThresholdsConfig, values, where)

    def at(*keys: str) -> Path:
        return Path() if given.keys() & set(keys) else folder

    # What is not said must stay unsaid: a result that is evaluated has its own servos.
    said = config.model_fields_set
    found = {key: value for key, value in _data_paths(config, at).items() if key in said}
    for key in ('model', 'calibration', 'baseline'):
        value = getattr(config, key)
        if value is not None:
            found[key] = at(key) / value
    found['bags'] = tuple(str(at('bags') / bag) for bag in config.bags)
    if config.calibration is not None:
        calibration = load_calibration(at('calibration') / config.calibration)
        unsaid = DataConfig.model_fields.keys() - said
        found |= {key: getattr(calibration, key) for key in unsaid}
    return config.model_copy(update=found)


#: Keys of a calibration that are a fleet's own.
_OF_FLEET = frozenset({'bags', 'output', 'memory'})


def load_fleet(path: Path, output: Path | None = None) -> Fleet:
    """Read ``fleet.yaml``; relative paths inside are relative to the file's folder.

    Raises:
        ConfigError: The file, or the calibration of a robot, cannot be read or is not valid.
    """
    # Workers have working directories of their own.
    path = path.absolute()
    config = validate(FleetConfig, read_yaml(path), str(path))
    output = path.parent / config.output if output is None else output.absolute()
    if isinstance(config.base, Path):
        base = path.parent / config.base
        values, folder, where = read_yaml(base), base.parent, str(base)
    else:
        values, folder, where = config.base, path.parent, f'base of {path}'
    robots = {}
    for robot in config.robots:
        for key in robot.overrides:
            if key.partition('.')[0] in _OF_FLEET:
                raise ConfigError(
                    f'Expected no {key!r} in overrides of robot {robot.name!r}: bags are in train '
                    'and validate, all robots share one output, and a fleet has no memory.'
                )
        bags = [{'path': bag, 'role': 'train'} for bag in robot.train]
        bags += [{'path': bag, 'role': 'validate'} for bag in robot.validate_]
        given = {
            **robot.overrides,
            'bags': bags,
            'memory': {},
            'output': str(output / robot.name),
            # Robots side by side fill the machine.
            'solver.threads': 1,
        }
        own = f'{where} with the overrides of {robot.name!r}' if robot.overrides else where
        robots[robot.name] = _resolve(copy.deepcopy(values), folder, given, path.parent, own)
    return Fleet(path.parent, output, robots)


def _first(pattern: str) -> Path:
    """Return the first bag that a pattern, or a path, stands for."""
    return Path(next(iter(matching(pattern)), pattern))


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
            raise ConfigError(f'Cannot set {key!r}: {section!r} is not a section.')
        values = inner
    values[last] = value


def load_mapping(path: Path) -> MappingConfig:
    """Read a mapping file.

    Raises:
        ConfigError: The file cannot be read or is not valid.
    """
    return validate(MappingConfig, read_yaml(path), str(path))


def load_servos(path: Path) -> tuple[ServoConfig, ...]:
    """Read the section ``servos`` of a file, a calibration.yaml for example.

    Raises:
        ConfigError: The file cannot be read, has no such section, or it is not valid.
    """
    section = _section_of(_Servos, path, 'servos')
    return tuple(_located(servo, path.parent) for servo in section.servos)


def load_segments(path: Path) -> SegmentsConfig:
    """Read the section ``segments`` of a file, a calibration.yaml for example.

    Raises:
        ConfigError: The file cannot be read, has no such section, or it is not valid.
    """
    return _section_of(_Segments, path, 'segments').segments


def _section_of(schema: type[T], path: Path, key: str) -> T:
    """Read one section of a file."""
    values = read_yaml(path)
    if key not in values:
        raise ConfigError(f'Expected the section {key} in {str(path)!r}; {nearest(key, values)}.')
    return validate(schema, {key: values[key]}, str(path))
