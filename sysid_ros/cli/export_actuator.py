# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""``sysid export-actuator``."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from sysid_ros.servos.formats.mjcf import Nearness


def run(args: argparse.Namespace) -> int:
    """Write a servo as plain MJCF, and say what is lost.

    Raises:
        LogError: A log cannot be read, or is of another servo.
        ParameterError: The parameter file, or a number, cannot be used.
    """
    from sysid_ros.cli.console import print_document, say  # noqa: PLC0415 (heavy)
    from sysid_ros.cli.documents import PlainServoDocument  # noqa: PLC0415
    from sysid_ros.servos.formats.logs import check_motor, read_logs  # noqa: PLC0415 (heavy)
    from sysid_ros.servos.formats.mjcf import (  # noqa: PLC0415
        PendulumLoad,
        constants,
        nearness,
        plain_actuator,
        plain_friction,
        snippet,
        write_plain_mjcf,
    )
    from sysid_ros.servos.formats.parameter_file import read_parameters  # noqa: PLC0415

    servo, values = read_parameters(args.params, args.actuator)
    chosen = constants(servo, kp=args.kp, vin=args.vin)
    logs = read_logs(args.logs) if args.logs else ()
    check_motor(logs, servo.type.name)
    friction = plain_friction(servo, values, logs)
    actuator = plain_actuator(
        servo, values, kp=args.kp, vin=args.vin, friction=friction, element=args.element
    )
    offset = float({**chosen, **values}['q_offset'])
    load = PendulumLoad.of(logs[0], offset) if logs else PendulumLoad(offset=offset)
    settings = ', '.join(f'{name} {chosen[name]:g}' for name in ('kp', 'vin') if name in chosen)
    source = f'{servo.name} with {settings}, from {args.params}'
    write_plain_mjcf(args.output, actuator, load, (source,))
    near = nearness(servo, values, logs, friction, args.element) if logs else ()
    lines = snippet(actuator)
    if args.json:
        print_document(PlainServoDocument(args.output, '\n'.join(lines), actuator, near))
        return 0
    for line in lines:
        say(line)
    for note in actuator.notes:
        say(f'note: {note}')
    if logs:
        _print_nearness(near)
    say(f'wrote {args.output}')
    return 0


def _print_nearness(found: Sequence[Nearness]) -> None:
    """Print how far MuJoCo's motions are from the law's and from the measured ones."""
    import numpy as np  # noqa: PLC0415

    from sysid_ros.cli.console import make_console, print_table  # noqa: PLC0415
    from sysid_ros.report.numbers import padded  # noqa: PLC0415

    headers = ('>from the law', '>motor off', '>from the log', '>the law from the log')
    numbers = 1e3 * np.array([row[1:] for row in found])
    rows = [
        (row.log, *(padded(float(value)) for value in entries))
        for row, entries in zip(found, numbers, strict=True)
    ]
    squares = numbers[:, :2] ** 2
    known = [column[np.isfinite(column)] for column in squares.T]
    together = [float(np.sqrt(column.mean())) if len(column) else np.nan for column in known]
    means = numbers[:, 2:].mean(axis=0).tolist()
    rows.append(('all', *map(padded, (*together, *means))))
    console = make_console()
    console.print()
    print_table(console, 'Motions in MuJoCo (mrad)', ('log', *headers), rows)
    console.print(
        'From the law: root mean square while the motor is powered, and while it is off; from the '
        'log: mean absolute error.',
    )
