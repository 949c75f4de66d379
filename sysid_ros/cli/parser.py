# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What the ``sysid`` command understands."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import NoReturn

from sysid_ros.cli.servo_parsers import add_servo_commands
from sysid_ros.errors import nearest
from sysid_ros.version import __version__

#: Exit code of bad input.
BAD_INPUT = 2


class Parser(argparse.ArgumentParser):
    """A parser that complains in one line, as every other error does."""

    def error(self, message: str) -> NoReturn:
        """Print one line and exit."""
        text = message[:1].upper() + message[1:].rstrip('.')
        self.exit(BAD_INPUT, f'sysid: {text}; see `{self.prog} --help`.\n')

    def _check_value(self, action: argparse.Action, value: object) -> None:
        if action.choices is not None and value not in action.choices:
            name = '/'.join(action.option_strings) or str(action.metavar or action.dest)
            hint = nearest(str(value), map(str, action.choices), len(list(action.choices)))
            raise argparse.ArgumentError(None, f'unknown {name} {str(value)!r}; {hint}')


def make_parser() -> Parser:
    """Return the parser of the command line; it imports nothing heavy."""
    parser = Parser(
        prog='sysid',
        description="Calibrate a robot's MuJoCo model from recorded bags.",
        epilog=(
            'Exit codes: 0 all is well, 1 a result was rejected or a check found a difference, '
            '2 bad input.'
        ),
    )
    parser.add_argument('--version', action='version', version=f'sysid_ros {__version__}')
    commands = parser.add_subparsers(dest='command', required=True, metavar='COMMAND')
    _add_calibrate(commands)
    _add_convert(commands)
    _add_inspect(commands)
    _add_plot(commands)
    _add_recover(commands)
    _add_map(commands)
    _add_check(commands)
    _add_compare(commands)
    _add_preflight(commands)
    _add_excite(commands)
    add_servo_commands(commands)
    return parser


def _add_calibrate(commands: argparse._SubParsersAction[Parser]) -> None:
    parser = commands.add_parser(
        'calibrate',
        help='fit parameters to bags; write result, report and identified MJCF',
        description='Fit the parameters of a configuration to its bags.',
    )
    given = parser.add_mutually_exclusive_group(required=True)
    given.add_argument('config', nargs='?', type=Path, help='calibration.yaml')
    given.add_argument(
        '--example', action='store_true', help='print a commented configuration and exit'
    )
    _add_overrides(parser)
    parser.add_argument('-o', '--output', type=Path, help="folder for results; default the file's")


def _add_convert(commands: argparse._SubParsersAction[Parser]) -> None:
    parser = commands.add_parser(
        'convert',
        help='turn a bag into time series aligned with a model',
        description='Pair the columns of a bag with sensors and actuators of an MJCF file.',
    )
    parser.add_argument('bag', type=Path, help='bag folder')
    parser.add_argument('model', type=Path, help='MJCF file')
    parser.add_argument('-o', '--output', type=Path, help='folder for the series; default none')
    parser.add_argument(
        '--format',
        action='append',
        choices=['npz', 'csv', 'parquet'],
        dest='formats',
        help='how they are written, may be repeated; default npz and csv; parquet needs pyarrow',
    )
    _add_pairing(parser)
    parser.add_argument(
        '--segments',
        type=Path,
        metavar='FILE',
        help='cut and choose as the section segments of this file says; default all',
    )


def _add_inspect(commands: argparse._SubParsersAction[Parser]) -> None:
    parser = commands.add_parser(
        'inspect',
        help='say what is in a bag, what is wrong with it, what can be identified from it',
        description='Show topics, channels, joints and clocks of a bag, and how it fits a model.',
    )
    parser.add_argument('bag', type=Path, help='bag folder or file')
    parser.add_argument('model', type=Path, nargs='?', help='MJCF file')
    _add_pairing(parser)
    parser.add_argument('--json', action='store_true', help='the same and more, as JSON')


def _add_plot(commands: argparse._SubParsersAction[Parser]) -> None:
    parser = commands.add_parser(
        'plot',
        help='draw what was measured and commanded, a picture per joint',
        description='Draw position, velocity, effort and commands of each joint over time.',
    )
    parser.add_argument('bag', type=Path, help='bag folder or file')
    parser.add_argument('model', type=Path, nargs='?', help='MJCF file')
    parser.add_argument('-o', '--output', type=Path, help='folder; default BAG_plots')
    parser.add_argument(
        '--joint', action='append', metavar='NAME', help='this joint only; may be repeated'
    )
    _add_pairing(parser)


def _add_recover(commands: argparse._SubParsersAction[Parser]) -> None:
    parser = commands.add_parser(
        'recover',
        help='save what is in an unfinished or damaged bag into a new one',
        description=(
            'Write what is good of an unfinished or damaged bag into a new bag, and say what was '
            'not saved. The bag itself is only read; one that is whole is left alone.'
        ),
    )
    parser.add_argument('bag', type=Path, help='bag folder, or one of its files')
    parser.add_argument(
        '-o', '--output', type=Path, help='folder of the new bag; default <bag>_recovered'
    )


def _add_pairing(parser: argparse.ArgumentParser) -> None:
    parser.add_argument('--mapping', default='auto', help='auto, or a mapping file')
    parser.add_argument(
        '--stamps',
        choices=['auto', 'header', 'receive'],
        default='auto',
        help='time of a message: its header stamp unless zero (auto), or as told',
    )


def _add_map(commands: argparse._SubParsersAction[Parser]) -> None:
    parser = commands.add_parser(
        'map',
        help='propose which column of a bag is which sensor or actuator, in which unit and sign',
        description='Propose a mapping of a bag to an MJCF file, as a commented file to edit.',
    )
    parser.add_argument('bag', type=Path, help='bag folder')
    parser.add_argument('model', type=Path, help='MJCF file')
    parser.add_argument('-o', '--output', type=Path, help='new mapping file; default prints it')
    parser.add_argument('--json', action='store_true', help='print the proposal as JSON')


def _add_check(commands: argparse._SubParsersAction[Parser]) -> None:
    parser = commands.add_parser(
        'check',
        help='fit again and compare with an earlier result; for CI',
        description='Convert and fit the bags of a configuration again; compare with a baseline.',
    )
    parser.add_argument('config', type=Path, help='calibration.yaml')
    parser.add_argument(
        '--baseline', type=Path, required=True, help='result.json of the reference calibration'
    )
    _add_overrides(parser)


def _add_preflight(commands: argparse._SubParsersAction[Parser]) -> None:
    parser = commands.add_parser(
        'preflight',
        help='predict intervals and verdicts before a fit; say what to record instead',
        description=(
            'Linearise once at the nominal values and say what a fit to these bags could say. '
            'Exit code 1: some parameter would not be identified.'
        ),
    )
    parser.add_argument('config', type=Path, help='calibration.yaml')
    _add_overrides(parser)
    parser.add_argument('--json', action='store_true', help='the same and more, as JSON')


def _add_excite(commands: argparse._SubParsersAction[Parser]) -> None:
    parser = commands.add_parser(
        'excite',
        help='design the motion to record for some parameters, inside all limits',
        description=(
            'Design the motion from which parameters can be identified best, inside the limits of '
            'the model also where the parameters are 20 % off; write it for the exciter node.'
        ),
    )
    parser.add_argument('model', type=Path, help='MJCF file')
    asked = parser.add_mutually_exclusive_group(required=True)
    asked.add_argument(
        '--for',
        nargs='+',
        dest='parameters',
        metavar='TARGET',
        help='what is to be identified, as joint/*/armature',
    )
    asked.add_argument('--config', type=Path, help='calibration.yaml whose parameters those are')
    parser.add_argument('--duration', type=float, default=20.0, help='s; default 20')
    parser.add_argument('--rate', type=float, default=100.0, help='commands per s; default 100')
    parser.add_argument(
        '--sample-rate', type=float, help='samples of each sensor per s; default --rate'
    )
    parser.add_argument(
        '--margin', type=float, default=0.9, help='part of each limit to use; default .9'
    )
    parser.add_argument(
        '--max-velocity', type=float, help='of all joints; default 2 rad/s, and .5 m/s for slides'
    )
    parser.add_argument(
        '--max-frequency', type=float, default=2.5, help='of the commands, Hz; default 2.5'
    )
    parser.add_argument('--seed', type=int, default=0, help='equal seeds give equal motions')
    for what, usual, unit in (
        ('position', 1e-4, 'rad or m'),
        ('velocity', 5e-3, 'rad/s or m/s'),
        ('effort', 5e-2, 'N·m or N'),
    ):
        parser.add_argument(
            f'--{what}-noise',
            type=float,
            default=usual,
            help=f'assumed standard deviation, {unit}; default {usual:g}',
        )
    parser.add_argument(
        '--encoder-bits', type=int, default=14, help='counts per turn are 2^bits; 0 exact'
    )
    parser.add_argument('-o', '--output', type=Path, required=True, help='new CSV file')


def _add_compare(commands: argparse._SubParsersAction[Parser]) -> None:
    parser = commands.add_parser(
        'compare',
        help='fit several models to the same bags; recommend the simplest that predicts as well',
        description=(
            'Fit several configurations, or one with and without some of its parameters, to the '
            'same bags, and recommend the simplest that predicts held-out data as well as the best.'
        ),
    )
    parser.add_argument('configs', nargs='+', type=Path, metavar='config', help='calibration.yaml')
    parser.add_argument(
        '--drop',
        action='append',
        default=[],
        metavar='PATTERN[,PATTERN]',
        help="also without these parameters, as 'joint/*/frictionloss'; one more model each time",
    )
    parser.add_argument('--json', action='store_true', help='the same and more, as JSON')
    _add_overrides(parser)


def _add_overrides(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        '--set',
        action='append',
        default=[],
        metavar='KEY=VALUE',
        dest='overrides',
        help='replace a value of the configuration, as solver.loss=huber; may be repeated',
    )
