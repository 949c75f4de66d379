# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What the commands about servos understand."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import argparse

    #: What subparsers are added to.
    Commands = argparse._SubParsersAction[Any]  # noqa: SLF001 (there is no public name)


def add_servo_commands(commands: Commands) -> None:
    """Add the parsers of all commands about servos."""
    _add_process(commands)
    _add_servo_logs(commands)
    _add_fit_actuator(commands)
    _add_compare_actuators(commands)
    _add_plot_actuator(commands)
    _add_export_actuator(commands)


def _add_process(commands: Commands) -> None:
    parser = commands.add_parser(
        'process',
        help='interpolate raw logs of a servo to evenly sampled ones',
        description=(
            'Interpolate every raw log (*.json) of a folder to even samples, for fits. Folders may '
            'be given as RAW OUTPUT, or as --raw RAW --logdir OUTPUT.'
        ),
    )
    for name, option, text in (
        ('raw', '--raw', 'folder of raw logs'),
        ('output', '--logdir', 'folder for processed logs'),
    ):
        given = parser.add_mutually_exclusive_group(required=True)
        given.add_argument(name, nargs='?', type=Path, metavar=name.upper(), help=text)
        given.add_argument(
            option, dest=f'{name}_option', type=Path, metavar='DIR', help='the same, as in BAM'
        )
    parser.add_argument('--dt', type=float, default=0.005, help='s between samples; default .005')


def _add_fit_actuator(commands: Commands) -> None:
    parser = commands.add_parser(
        'fit-actuator',
        help="find a servo's motor and friction from logs of its pendulum",
        description=(
            'Fit the coefficients of a servo to processed logs of its pendulum; write them as a '
            'parameter file, with result and report beside it.'
        ),
    )
    _add_servo(parser)
    parser.add_argument(
        '--model',
        default='m6',
        help='friction law: m1 to m6, a part of them, or all of the six; default m6',
    )
    parser.add_argument(
        '-o',
        '--output',
        type=Path,
        default=Path('params.json'),
        metavar='FILE',
        help='file for the coefficients; default params.json',
    )
    parser.add_argument(
        '--eval', action='store_true', help='only say how well the file in --output predicts logs'
    )
    parser.add_argument(
        '--method',
        choices=['least-squares', 'cmaes', 'random', 'nsgaii'],
        default='least-squares',
        help='default least-squares; the others try values with Optuna before, as BAM does',
    )
    parser.add_argument(
        '--trials', type=int, metavar='N', help='number of values to try in all; default 5000'
    )
    parser.add_argument(
        '--workers', type=int, default=1, metavar='N', help='processes that try; default 1'
    )
    parser.add_argument(
        '--load-study',
        '--load_study',
        metavar='NAME',
        help='go on with the trials of this study in study.journal beside the output',
    )
    parser.add_argument('--wandb', action='store_true', help='log to Weights & Biases')
    parser.add_argument(
        '--starts', type=int, default=8, help='starts spread over the bounds; default 8'
    )
    parser.add_argument('--seed', type=int, default=0, help='of the starts and trials')
    parser.add_argument('--resume', action='store_true', help='go on where an interrupted fit was')


def _add_compare_actuators(commands: Commands) -> None:
    parser = commands.add_parser(
        'compare-actuators',
        help='fit several friction models to logs of a servo; recommend the simplest that does',
        description=(
            'Fit several friction models to all logs, and to those without each load, gain or '
            'trajectory in turn; recommend the simplest that predicts what was left out as well '
            'as the best.'
        ),
    )
    _add_servo(parser)
    parser.add_argument(
        '--models',
        default='m1,m2,m3,m4,m5,m6',
        metavar='NAME,NAME',
        help='friction laws; default m1 to m6',
    )
    parser.add_argument(
        '--by',
        choices=['load', 'kp', 'trajectory'],
        help='what is left out in turn; default load, where there are several',
    )
    parser.add_argument('--json', action='store_true', help='the same and more, as JSON')
    parser.add_argument(
        '-o',
        '--output',
        type=Path,
        metavar='FILE',
        help='file for the coefficients of the recommended model, with the comparison beside it',
    )


def _add_servo(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        '--actuator', required=True, metavar='NAME', help='as xl330, or a YAML file that defines it'
    )
    parser.add_argument(
        '--logdir', type=Path, required=True, metavar='DIR', help='folder of processed logs'
    )
    parser.add_argument(
        '--validation-kp',
        '--validation_kp',
        type=float,
        metavar='KP',
        help='hold out the logs with this gain',
    )
    parser.add_argument(
        '--reset-period',
        '--reset_period',
        type=float,
        metavar='S',
        help='let predictions go on from the measured state every so many seconds',
    )
    parser.add_argument(
        '--substeps', type=int, default=1, help='simulated steps from sample to sample; default 1'
    )
    parser.add_argument(
        '--fix',
        action='append',
        default=[],
        metavar='NAME=VALUE',
        help='a coefficient that is known, as kt=0.4; may be repeated',
    )


def _add_servo_logs(commands: Commands) -> None:
    parser = commands.add_parser(
        'servo-logs',
        help='turn the bag of a servo on a pendulum into logs, for fits',
        description=(
            'Turn a bag of a servo on a pendulum, or of a single joint that is like one, into '
            'evenly sampled logs, one for each run.'
        ),
    )
    parser.add_argument('bag', type=Path, help='bag folder')
    parser.add_argument('config', type=Path, help='servo_bag.yaml: what is where in the bag')
    parser.add_argument('-o', '--output', type=Path, required=True, help='folder for the logs')


def _add_plot_actuator(commands: Commands) -> None:
    parser = commands.add_parser(
        'plot-actuator',
        help='draw logs of a servo, what parameter files predict, and their friction',
        description=(
            'Draw a picture per log; with parameter files also their friction, which loads they '
            'say the motor moves, and with --sim what they predict and how far that is off.'
        ),
    )
    parser.add_argument('--logdir', type=Path, required=True, help='folder of processed logs')
    parser.add_argument(
        '--params',
        nargs='+',
        type=Path,
        default=[],
        metavar='FILE',
        help='parameter files, or folders of them',
    )
    parser.add_argument('--sim', action='store_true', help='predict the logs with --params')
    parser.add_argument(
        '--actuator', metavar='FILE', help="YAML file that defines the parameter files' servo"
    )
    parser.add_argument(
        '--reset-period',
        '--reset_period',
        type=float,
        metavar='S',
        help='let predictions go on from the measured state every so many seconds',
    )
    parser.add_argument('-o', '--output', type=Path, help='folder; default LOGDIR_plots')


def _add_export_actuator(commands: Commands) -> None:
    parser = commands.add_parser(
        'export-actuator',
        help='write a servo as plain MJCF: a joint and an actuator, and what is lost',
        description=(
            'Print the joint and the actuator that stand for a servo in plain MJCF, and write them '
            'as a pendulum to look at.'
        ),
    )
    parser.add_argument('--params', type=Path, required=True, metavar='FILE', help='parameter file')
    parser.add_argument('--kp', type=float, help="gain in the firmware's unit; default the servo's")
    parser.add_argument('--vin', type=float, help="supply, V; default the servo's")
    parser.add_argument(
        '--logs',
        type=Path,
        metavar='DIR',
        help='folder of processed logs: choose friction for their loads and speeds, and compare',
    )
    parser.add_argument(
        '--element',
        choices=['dcmotor', 'position'],
        help='the actuator; default dcmotor where the servo has a motor',
    )
    parser.add_argument(
        '--actuator', metavar='FILE', help="YAML file that defines the parameter file's servo"
    )
    parser.add_argument('-o', '--output', type=Path, required=True, help='new MJCF file')
