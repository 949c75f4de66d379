# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Parameters of a servo with a friction law in BAM's format: one flat JSON object."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sysid_ros.errors import ParameterError, nearest
from sysid_ros.files import bad_value, is_number, read_object, replace_file
from sysid_ros.servos.laws.joints import ServoJoints, starting_values
from sysid_ros.servos.laws.servo import Scheme, Servo
from sysid_ros.text import file_stems

#: Keys beside the coefficients: names of the friction law and of the servo.
_NAMES = ('model', 'actuator')
#: Written only where it is not BAM's, as in a fit to raw logs.
_SCHEME = 'scheme'


def read_parameters(path: Path, actuator: str | None = None) -> tuple[Servo, dict[str, float]]:
    """Read parameters.

    Coefficients that the file lacks have their initial values: files that BAM published lack those
    that its laws got later, as ``q_offset``.

    Args:
        path: The file.
        actuator: A YAML file that defines the servo, where the catalogue has none of its name.

    Returns:
        The servo, and the values of ``servo.coefficients`` in their order.

    Raises:
        ParameterError: The file cannot be read, is none of parameters, or is about another servo.
        ConfigError: The YAML file is not valid.
    """
    document = read_object(path, ParameterError)
    servo = _servo(path, document, actuator)
    coefficients = servo.coefficients
    for key, value in document.items():
        if key in (*_NAMES, _SCHEME):
            continue
        if key not in coefficients:
            hint = nearest(key, coefficients)
            raise ParameterError(
                f'{servo.name} has no coefficient {key!r}, found in {str(path)!r}; {hint}.'
            )
        if isinstance(value, bool) or not is_number(value):
            raise ParameterError(bad_value(path, key, value, 'a finite number'))
    return servo, {
        name: float(document.get(name, usual.initial)) for name, usual in coefficients.items()
    }


def write_parameters(path: Path, servo: Servo, values: Mapping[str, float]) -> None:
    """Write finite values of all of ``servo.coefficients``.

    Raises:
        ParameterError: A coefficient is missing, unknown or not finite.
        ResultError: The folder cannot be written.
    """
    coefficients = servo.coefficients
    if set(coefficients) != set(values):
        raise ParameterError(
            f'Expected {", ".join(coefficients)} for {servo.name}, found '
            f'{", ".join(values) or "nothing"}.'
        )
    document: dict[str, Any] = {name: float(values[name]) for name in coefficients}
    for name, value in document.items():
        if not is_number(value):
            raise ParameterError(
                f'Expected a finite number for {name!r} of {servo.name}, found {value:g}.'
            )
    document['model'] = servo.friction.name
    document['actuator'] = servo.type.name
    if servo.scheme is not Scheme.BAM:
        document[_SCHEME] = servo.scheme.value
    replace_file(path, f'{json.dumps(document, indent=2)}\n'.encode())


def write_servos(folder: Path, joints: ServoJoints, values: Mapping[str, float]) -> None:
    """Write a file of coefficients for each driven actuator.

    Args:
        folder: Where to.
        joints: The driven joints.
        values: Path of a target to its value; coefficients that are missing are the servo's.
    """
    stems = file_stems(joints.actuators)
    for actuator, joint, stem in zip(joints.actuators, joints.joints, stems, strict=True):
        drive = joints.drive_of(actuator)
        dof = joints.dofs[joints.place(actuator)]
        found = {**starting_values(drive.servo), **drive.values, 'q_offset': 0.0}
        found['armature'] = float(joints.model.dof_armature[dof])
        for name, start in found.items():
            element = f'joint/{joint}' if name == 'armature' else f'actuator/{actuator}'
            found[name] = values.get(f'{element}/{name}', start)
        coefficients = {name: found[name] for name in drive.servo.coefficients}
        write_parameters(folder / f'{stem}.json', drive.servo, coefficients)


def _servo(path: Path, document: dict[str, Any], actuator: str | None) -> Servo:
    missing = [key for key in _NAMES if key not in document]
    if missing:
        hint = nearest(missing[0], document)
        raise ParameterError(
            f'{str(path)!r} holds no parameters of a servo: it has no {", ".join(missing)}; {hint}.'
        )
    for key in _NAMES:
        if not isinstance(document[key], str):
            raise ParameterError(bad_value(path, key, document[key], 'text'))
    scheme = document.get(_SCHEME, Scheme.BAM.value)
    if scheme not in list(Scheme):
        expected = ' or '.join(Scheme)
        raise ParameterError(bad_value(path, _SCHEME, scheme, expected))
    try:
        servo = Servo.named(actuator or document['actuator'], document['model'])
    except ParameterError as err:
        reason = str(err)
        raise ParameterError(f'Cannot use {str(path)!r}: {reason[0].lower()}{reason[1:]}') from err
    if servo.type.name != document['actuator']:
        raise ParameterError(
            f'Expected parameters of {servo.type.name!r} in {str(path)!r}, found those of '
            f'{document["actuator"]!r}.'
        )
    return dataclasses.replace(servo, scheme=Scheme(scheme))
