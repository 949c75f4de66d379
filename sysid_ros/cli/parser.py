# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What the ``sysid`` command understands; nothing heavy is imported."""

from __future__ import annotations

import argparse
import functools
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from sysid_ros.cli.examples import examples_of
from sysid_ros.errors import ConfigError, nearest
from sysid_ros.text import sentence
from sysid_ros.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterable

    #: What subparsers are added to.
    Commands = argparse._SubParsersAction[Any]  # noqa: SLF001 (there is no public name)

#: Exit code of bad input.
BAD_INPUT = 2


#: The commands by what people are about to do, as ``sysid --help`` lists them.
GROUPS: dict[str, tuple[str, ...]] = {
    'start': ('init', 'doctor'),
    'look at recordings': ('inspect', 'plot', 'recover', 'convert', 'map', 'model'),
    'fit': ('excite', 'preflight', 'calibrate', 'compare'),
    'judge, also in CI': ('check', 'history', 'rollback'),
    'use what was found': ('export', 'predict', 'fleet'),
    'servos': (
        'servo-logs',
        'fit-actuator',
        'compare-actuators',
        'plot-actuator',
        'export-actuator',
    ),
    'this command itself': ('completion', 'schema'),
}
#: Commands that return no document: what they print is text for other programs.
_WITHOUT_JSON = frozenset({'completion', 'schema'})
#: Commands that say on standard error what they are doing, or what is good to know.
TELLING = frozenset(
    {
        'calibrate',
        'check',
        'compare',
        'compare-actuators',
        'excite',
        'fit-actuator',
        'fleet',
        'init',
        'map',
        'model',
        'preflight',
    }
)


class _HelpFormatter(argparse.HelpFormatter):
    """Folds texts but those that have lines of their own."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        if '\n' not in text:
            return super()._fill_text(text, width, indent)
        return '\n'.join(f'{indent}{line}' for line in text.splitlines())


class Parser(argparse.ArgumentParser):
    """A parser that complains in one line, as every other error does."""

    def __init__(self, **options: Any) -> None:
        super().__init__(formatter_class=_HelpFormatter, **options)

    def error(self, message: str) -> NoReturn:
        """Print one line and exit."""
        text = message[:1].upper() + message[1:].rstrip('.')
        self.exit(BAD_INPUT, f'sysid: {sentence(text)}; see `{self.prog} --help`.\n')

    def _check_value(self, action: argparse.Action, value: object) -> None:
        if action.choices is not None and value not in action.choices:
            name = '/'.join(action.option_strings) or str(action.metavar or action.dest)
            hint = nearest(str(value), map(str, action.choices), len(list(action.choices)))
            raise argparse.ArgumentError(None, f'unknown {name} {str(value)!r}; {hint}')


class _Main(Parser):
    """The parser of the command itself, whose help lists commands by `GROUPS`."""

    def format_help(self) -> str:
        """Return the help."""
        (commands,) = (a for a in self._actions if isinstance(a, argparse._SubParsersAction))  # noqa: SLF001
        listed = {action.dest: action for action in commands._choices_actions}  # noqa: SLF001
        formatter = self._get_formatter()
        formatter.add_usage(self.usage, self._actions, self._mutually_exclusive_groups)
        formatter.add_text(self.description)
        for title, names in GROUPS.items():
            formatter.start_section(title)
            formatter.add_arguments(listed[name] for name in names)
            formatter.end_section()
        formatter.start_section('options')
        formatter.add_arguments(action for action in self._actions if action is not commands)
        formatter.end_section()
        formatter.add_text(self.epilog)
        return formatter.format_help()


@functools.cache
def make_parser() -> Parser:
    """Return the parser of the command line; it imports nothing heavy."""
    parser = _Main(
        prog='sysid',
        description="Calibrate a robot's MuJoCo model from recorded bags.",
        epilog=(
            '`sysid COMMAND --help` says more, with examples. Exit codes: 0 all is well, 1 a '
            'result was rejected or a check found a difference, 2 bad input.'
        ),
    )
    parser.add_argument('--version', action='version', version=f'sysid_ros {__version__}')
    commands = parser.add_subparsers(
        dest='command', required=True, metavar='COMMAND', parser_class=Parser
    )
    _add_init(commands)
    _add_doctor(commands)
    _add_calibrate(commands)
    _add_convert(commands)
    _add_inspect(commands)
    _add_plot(commands)
    _add_recover(commands)
    _add_predict(commands)
    _add_map(commands)
    _show_model(commands)
    _add_check(commands)
    _add_history(commands)
    _add_rollback(commands)
    _add_compare(commands)
    _add_export(commands)
    _add_fleet(commands)
    _add_preflight(commands)
    _add_excite(commands)
    _add_servo_logs(commands)
    _add_fit_actuator(commands)
    _add_compare_actuators(commands)
    _add_plot_actuator(commands)
    _add_export_actuator(commands)
    _add_completion(commands)
    _add_schema(commands)
    for name, command in commands.choices.items():
        _add_common(command, name)
    return parser


def _add_common(parser: argparse.ArgumentParser, name: str) -> None:
    """Add what commands have in common."""
    if name in TELLING:
        parser.add_argument(
            '-q',
            '--quiet',
            action='store_true',
            help='say nothing on the way, and in the end only what came of it',
        )
    if name not in _WITHOUT_JSON:
        parser.add_argument(
            '--json',
            action='store_true',
            help=f'print one JSON document; its schema: sysid schema {name}',
        )
    parser.epilog = examples_of(name)


def _add_init(commands: Commands) -> None:
    parser = commands.add_parser(
        'init',
        help='write a commented calibration.yaml for recordings and a model',
        description=(
            'Look at recordings and a model, choose roles, mapping and parameters that these '
            'recordings can tell, and write them as a commented calibration.yaml. Exit code 1: '
            'they tell nothing of the model.'
        ),
    )
    parser.add_argument(
        'paths',
        nargs='+',
        metavar='BAG… MODEL',
        help='bags: folders, files, patterns, a folder of them; MJCF, URDF or xacro file, default '
        'the robot_description in the first bag',
    )
    parser.add_argument(
        '-o',
        '--output',
        type=Path,
        default=Path('calibration.yaml'),
        metavar='FILE',
        help='new file; default calibration.yaml',
    )
    parser.add_argument('--force', action='store_true', help='replace files that exist')
    _add_packages(parser)
    _add_namespace(parser)


def _add_doctor(commands: Commands) -> None:
    parser = commands.add_parser(
        'doctor',
        help='say what is installed, what of ROS is seen, and what is missing',
        description=(
            'Look at Python, packages, rendering and ROS: a line each with what to do. Exit code '
            '1: something that is needed is missing.'
        ),
    )
    parser.add_argument(
        '--seconds', type=float, default=2.0, help='so long to listen to topics; default 2'
    )


def _add_calibrate(commands: Commands) -> None:
    parser = commands.add_parser(
        'calibrate',
        help='fit parameters to bags; write result, report and MJCF',
        description='Fit the parameters of a configuration to its bags.',
    )
    given = parser.add_mutually_exclusive_group(required=True)
    given.add_argument('config', nargs='?', type=Path, help='calibration.yaml')
    given.add_argument(
        '--example', action='store_true', help='print a commented configuration and exit'
    )
    _add_overrides(parser)
    parser.add_argument(
        '--time', metavar='SECONDS', help='limit of time of the fit; the best values by then count'
    )
    parser.add_argument(
        '--profile', action='store_true', help='say in the end where the time of the fit went'
    )
    parser.add_argument('-o', '--output', type=Path, help="folder for results; default the file's")


def _add_convert(commands: Commands) -> None:
    parser = commands.add_parser(
        'convert',
        help='turn a bag into time series aligned with a model',
        description='Pair the columns of a bag with sensors and actuators of an MJCF file.',
    )
    parser.add_argument('bag', type=Path, help='bag folder')
    _add_model(parser)
    parser.add_argument('-o', '--output', type=Path, help='folder for the series; default none')
    parser.add_argument(
        '--format',
        action='append',
        choices=['npz', 'csv'],
        dest='formats',
        help='how they are written, may be repeated; default npz and csv',
    )
    _add_pairing(parser)
    parser.add_argument(
        '--segments',
        type=Path,
        metavar='FILE',
        help='cut and choose as the section segments of this file says; default all',
    )


def _add_inspect(commands: Commands) -> None:
    parser = commands.add_parser(
        'inspect',
        help='what is in a bag, what is wrong, what it can identify',
        description='Show topics, channels, joints and clocks of a bag, and how it fits a model.',
    )
    parser.add_argument('bag', type=Path, help='bag folder or file')
    _add_model(parser, nargs='?')
    _add_pairing(parser)


def _add_plot(commands: Commands) -> None:
    parser = commands.add_parser(
        'plot',
        help='draw what was measured and commanded, joint by joint',
        description='Draw position, velocity, effort and commands of each joint over time.',
    )
    parser.add_argument('bag', type=Path, help='bag folder or file')
    _add_model(parser, nargs='?')
    parser.add_argument('-o', '--output', type=Path, help='folder; default BAG_plots')
    parser.add_argument(
        '--joint', action='append', metavar='NAME', help='this joint only; may be repeated'
    )
    _add_pairing(parser)


def _add_recover(commands: Commands) -> None:
    parser = commands.add_parser(
        'recover',
        help='write what an unfinished bag holds into a whole one',
        description=(
            'Write the messages of a bag whose recorder was killed into a bag that `ros2 bag play` '
            'takes. The bag itself is only read; all other commands read it as it is.'
        ),
    )
    parser.add_argument('bag', type=Path, help='bag folder, or one of its files')
    parser.add_argument(
        '-o', '--output', type=Path, help='folder of the new bag; default <bag>_recovered'
    )


def _add_predict(commands: Commands) -> None:
    parser = commands.add_parser(
        'predict',
        help='write a bag with what a model predicts beside it',
        description=(
            'Predict what joints do along a bag, nominal and fitted, and write that beside the '
            'messages of the bag into a new one.'
        ),
    )
    parser.add_argument(
        'source',
        type=Path,
        metavar='result',
        help='result.json or its folder; or a calibration.yaml, with the result in its output if '
        'there is one; or an MJCF, URDF or xacro file as it is',
    )
    parser.add_argument('bag', type=Path, help='bag folder or file')
    parser.add_argument('-o', '--output', type=Path, required=True, help='folder of the new bag')


def _add_pairing(parser: argparse.ArgumentParser) -> None:
    parser.add_argument('--mapping', default='auto', help='auto, or a mapping file')
    _add_namespace(parser)
    parser.add_argument(
        '--stamps',
        choices=['auto', 'header', 'receive'],
        default='auto',
        help='time of a message: its header stamp unless zero (auto), or as told',
    )


#: What ``--namespace`` is, where it stands for itself and where for a value of the configuration.
_ARM = 'of several arms in a bag this one: words of its topics or joints, such as left'


def _add_namespace(parser: argparse.ArgumentParser) -> None:
    parser.add_argument('--namespace', default='', metavar='ARM', help=_ARM)


def _add_model(
    parser: argparse.ArgumentParser, *, nargs: str | None = None, default: str = ''
) -> None:
    parser.add_argument('model', type=Path, nargs=nargs, help=f'MJCF, URDF or xacro file{default}')
    _add_packages(parser)


def _add_packages(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        '--package-path',
        action='append',
        type=Path,
        default=[],
        metavar='DIR',
        help='folder of a ROS package that a URDF refers to, or of several; may be repeated',
    )


def _show_model(commands: Commands) -> None:
    parser = commands.add_parser(
        'model',
        help='show a URDF as the MJCF that is simulated, or write it',
        description=(
            'Print the MJCF that a URDF, a xacro file or the robot_description in a bag means, and '
            'what was left out or assumed.'
        ),
    )
    _add_model(parser)
    parser.add_argument('-o', '--output', type=Path, help='new MJCF file; default prints it')


def _add_map(commands: Commands) -> None:
    parser = commands.add_parser(
        'map',
        help='propose which column is which sensor, unit and sign',
        description='Propose a mapping of a bag to a model, as a commented file to edit.',
    )
    parser.add_argument('bag', type=Path, help='bag folder')
    _add_model(parser, nargs='?', default=', default the robot_description in the bag')
    _add_namespace(parser)
    parser.add_argument('-o', '--output', type=Path, help='new mapping file; default prints it')


def _add_check(commands: Commands) -> None:
    parser = commands.add_parser(
        'check',
        help='predict and fit again; compare with limits and an earlier result; for CI',
        description=(
            'Predict recordings with a model as it is and compare the errors with limits and with '
            'what they were; fit a calibration again and compare its values with what they were. '
            'Exit code 1: something is above its limit or has moved.'
        ),
    )
    parser.add_argument(
        'file',
        type=Path,
        metavar='FILE',
        help='thresholds, as arm.sysid.yaml; or calibration.yaml, which is fitted again; or before '
        'bags a model or a result, which predicts them',
    )
    parser.add_argument(
        'bags', nargs='*', default=[], metavar='BAG', help='bag folders or patterns to predict'
    )
    parser.add_argument(
        '--baseline',
        type=Path,
        metavar='PATH',
        help="folder of what was found before, or its result.json; default the thresholds'",
    )
    parser.add_argument('--no-fit', action='store_true', help='predict only, which takes seconds')
    parser.add_argument(
        '--update', action='store_true', help='write the baseline anew, and fail nothing'
    )
    _add_overrides(parser)
    parser.add_argument(
        '-o', '--output', type=Path, help='folder for result and report of the fit; default none'
    )
    parser.add_argument('--junit', type=Path, metavar='FILE', help='write the cases as JUnit XML')
    parser.add_argument(
        '--github',
        action='store_true',
        help="mark the model's lines that are at fault and fill the summary of the step",
    )


def _add_export(commands: Commands) -> None:
    parser = commands.add_parser(
        'export',
        help='write an identified model for other programs',
        description=(
            'Write what a calibration found as MJCF, URDF, a table of parameters (csv) or the '
            'numbers of actuators under the keys of mjlab, IsaacLab and ros2_control, and say what '
            'a format does not hold. With --samples, write models that vary as much as the data '
            'leave open.'
        ),
    )
    parser.add_argument('result', type=Path, help='result.json, or its folder')
    parser.add_argument(
        '--format',
        choices=['mjcf', 'urdf', 'csv', 'actuators'],
        default='mjcf',
        help='default mjcf',
    )
    parser.add_argument(
        '-o', '--output', type=Path, required=True, help='new file; for mjcf a new folder'
    )
    parser.add_argument(
        '--samples', type=int, metavar='N', help='of mjcf, also N models drawn from the intervals'
    )
    parser.add_argument('--seed', type=int, default=0, help='equal seeds give equal samples')
    parser.add_argument(
        '--model', type=Path, metavar='FILE', help='the model that was calibrated, if it was moved'
    )
    parser.add_argument(
        '--urdf',
        type=Path,
        metavar='FILE',
        help='URDF to write into, where an MJCF was calibrated: with the same names',
    )
    _add_packages(parser)


_RESULTS = 'folder of results, or calibration.yaml; default calibration.yaml, else out'


def _add_history(commands: Commands) -> None:
    parser = commands.add_parser(
        'history',
        help='results over time: which is current, what changed',
        description='Show the results of a folder in order of time.',
    )
    parser.add_argument('output', nargs='?', type=Path, help=_RESULTS)


def _add_rollback(commands: Commands) -> None:
    parser = commands.add_parser(
        'rollback',
        help='make an earlier accepted result current again',
        description='Let the link current lead to an earlier accepted result; nothing is removed.',
    )
    parser.add_argument('output', nargs='?', type=Path, help=_RESULTS)
    parser.add_argument(
        'folder', nargs='?', help='of the result; default the accepted one before the current one'
    )


def _add_preflight(commands: Commands) -> None:
    parser = commands.add_parser(
        'preflight',
        help='predict intervals and verdicts; say what to record',
        description=(
            'Linearise once at the nominal values and say what a fit to these bags could say. '
            'Exit code 1: some parameter would not be identified.'
        ),
    )
    parser.add_argument('config', type=Path, help='calibration.yaml')
    _add_overrides(parser)


def _add_excite(commands: Commands) -> None:
    parser = commands.add_parser(
        'excite',
        help='design a motion to record, inside all limits',
        description=(
            'Design the motion from which parameters can be identified best, inside the limits of '
            'the model also where the parameters are 20 % off; write it for the exciter node.'
        ),
    )
    _add_model(parser)
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
    parser.add_argument('-o', '--output', type=Path, required=True, help='new CSV file')


def _add_compare(commands: Commands) -> None:
    parser = commands.add_parser(
        'compare',
        help='compare results as they are, or fit models and recommend one',
        description=(
            'Put existing results beside each other; nothing is fitted. Or fit several '
            'configurations, or one with and without some of its parameters, to the same bags, '
            'and recommend the simplest that predicts held-out data as well as the best.'
        ),
    )
    parser.add_argument(
        'places',
        nargs='+',
        type=Path,
        metavar='PATH',
        help='results (result.json or a folder that holds one), or calibration.yaml',
    )
    parser.add_argument(
        '--drop',
        action='append',
        default=[],
        metavar='PATTERN[,PATTERN]',
        help="also without these parameters, as 'joint/*/frictionloss'; one more model each time",
    )
    _add_overrides(parser)


def _add_fleet(commands: Commands) -> None:
    parser = commands.add_parser(
        'fleet',
        help='fit many robots; say what they share and which is odd',
        description=(
            'Calibrate each robot of a fleet on the workers of Dask, and compare them. What is '
            'finished is kept: the same command goes on where it was interrupted.'
        ),
    )
    parser.add_argument('config', type=Path, help='fleet.yaml')
    parser.add_argument(
        '--scheduler',
        default='',
        metavar='ADDRESS',
        help='of Dask, as tcp://HOST:8786; default processes on this machine',
    )
    parser.add_argument(
        '--workers', type=int, metavar='N', help='number of those processes; default one per core'
    )
    parser.add_argument('-o', '--output', type=Path, help="folder for results; default the file's")


def _add_overrides(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        '--set',
        action='append',
        default=[],
        metavar='KEY=VALUE',
        dest='overrides',
        help='replace a value of the configuration, as solver.loss=huber; may be repeated',
    )
    parser.add_argument(
        '--namespace',
        action='append',
        dest='overrides',
        type=lambda arm: f'namespace={json.dumps(arm)}',
        metavar='ARM',
        help=_ARM,
    )


def _add_fit_actuator(commands: Commands) -> None:
    parser = commands.add_parser(
        'fit-actuator',
        help="find a servo's motor and friction from its logs",
        description=(
            'Fit the coefficients of a servo to logs of its pendulum, raw or processed; write them '
            'as a parameter file, with result and report beside it.'
        ),
    )
    _add_servo(parser)
    parser.add_argument(
        '--model',
        default='m6',
        help='friction law: m1 to m6; default m6',
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
        '--workers', type=int, default=1, metavar='N', help='trials at a time; default 1'
    )
    parser.add_argument(
        '--load-study',
        '--load_study',
        metavar='STUDY',
        help='go on with a study: its name in study.journal beside the output, or a file of '
        'studies, a journal or SQLite',
    )
    parser.add_argument('--wandb', action='store_true', help='log to Weights & Biases')
    parser.add_argument(
        '--starts', type=int, default=8, help='starts spread over the bounds; default 8'
    )
    parser.add_argument('--seed', type=int, default=0, help='of the starts and trials')


def _add_compare_actuators(commands: Commands) -> None:
    parser = commands.add_parser(
        'compare-actuators',
        help='fit several friction models; show their errors side by side',
        description=(
            'Fit several friction models to the same logs, and show their errors on these and on '
            'the logs that are held out side by side.'
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
        '-o',
        '--output',
        type=Path,
        metavar='DIR',
        help='folder for the coefficients of each model',
    )


def _add_servo(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        '--actuator', required=True, metavar='NAME', help='as xl330, or a YAML file that defines it'
    )
    parser.add_argument(
        '--logdir', type=Path, required=True, metavar='DIR', help='folder of logs, raw or processed'
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
        '--fix',
        action='append',
        default=[],
        metavar='NAME=VALUE',
        help='a coefficient that is known, as kt=0.4; may be repeated',
    )


def _add_servo_logs(commands: Commands) -> None:
    parser = commands.add_parser(
        'servo-logs',
        help='turn the bag of a servo on a pendulum into logs',
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
        help='draw logs and what parameters predict for them',
        description=(
            'Draw a picture per log, with what parameter files predict and how far that is off.'
        ),
    )
    parser.add_argument(
        '--logdir', type=Path, required=True, help='folder of logs, raw or processed'
    )
    parser.add_argument(
        '--params',
        nargs='+',
        type=Path,
        default=[],
        metavar='FILE',
        help='parameter files, or folders of them',
    )
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
        help='write a servo as plain MJCF, and say what is lost',
        description=(
            'Print the joint and the actuator that stand for a servo in plain MJCF, and write them '
            'as a file.'
        ),
    )
    parser.add_argument('--params', type=Path, required=True, metavar='FILE', help='parameter file')
    parser.add_argument('--kp', type=float, help="gain in the firmware's unit; default the servo's")
    parser.add_argument('--vin', type=float, help="supply, V; default the servo's")
    parser.add_argument(
        '--element',
        choices=['dcmotor', 'position'],
        help='the actuator; default dcmotor where the servo has a motor',
    )
    parser.add_argument(
        '--actuator', metavar='FILE', help="YAML file that defines the parameter file's servo"
    )
    parser.add_argument('-o', '--output', type=Path, required=True, help='new MJCF file')


def _add_completion(commands: Commands) -> None:
    parser = commands.add_parser(
        'completion',
        help='print what makes a shell complete `sysid`',
        description='Print the lines that make a shell complete commands, options and files.',
    )
    parser.add_argument(
        'shell', nargs='?', choices=['bash', 'zsh', 'fish'], default='bash', help='default bash'
    )


def _add_schema(commands: Commands) -> None:
    parser = commands.add_parser(
        'schema',
        help='print the JSON schema of what `--json` prints',
        description='Print the JSON schema (draft 2020-12) of what a command prints with --json.',
    )
    names = [name for name in commands.choices if name not in _WITHOUT_JSON]
    parser.add_argument('of', choices=names, metavar='COMMAND', help='as inspect')


def parse_overrides(pairs: Iterable[str]) -> dict[str, Any]:
    """Turn ``key=value`` pairs into dotted keys and YAML values.

    Raises:
        ConfigError: A pair has no equals sign, or its value is not YAML.
    """
    import yaml  # noqa: PLC0415 (--help must not wait for it)

    from sysid_ros.yaml_text import parse_yaml  # noqa: PLC0415

    found: dict[str, Any] = {}
    for pair in pairs:
        key, equals, text = pair.partition('=')
        if not equals or not key:
            msg = f'Expected --set KEY=VALUE, as solver.loss=huber, got {pair!r}.'
            raise ConfigError(msg)
        try:
            found[key] = parse_yaml(text)
        except yaml.YAMLError as err:
            msg = f'The value in --set {pair!r} is not YAML.'
            raise ConfigError(msg) from err
    return found


def fixed_of(pairs: list[str]) -> dict[str, float]:
    """Return the coefficients of flags such as ``kt=0.4``.

    Raises:
        ConfigError: One of them is not a name and a number.
    """
    found = {}
    for pair in pairs:
        name, _, text = pair.partition('=')
        try:
            found[name] = float(text)
        except ValueError as err:
            msg = f'Expected NAME=NUMBER for --fix, as kt=0.4, found {pair!r}.'
            raise ConfigError(msg) from err
    return found
