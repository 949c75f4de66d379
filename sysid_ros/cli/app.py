# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The ``sysid`` command itself, which the files of this folder add their commands to.

Their functions import what is heavy when they run: ``sysid --help`` waits for none of it, and a
configuration that is not valid is told before MuJoCo is loaded.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from typer.core import TyperGroup

from sysid_ros.version import __version__

Function = TypeVar('Function', bound=Callable[..., int])
#: Headings of ``sysid --help``, in its order.
START, LOOK, FIT, JUDGE, USE, SERVOS, COMMANDS = PANELS = (
    'start',
    'look at recordings',
    'fit',
    'judge, also in CI',
    'use what was found',
    'servos',
    'commands',
)


class _Panels(TyperGroup):
    """Lists commands by panel in plain text; typer itself does so only in boxes."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write a section for each panel."""
        panels: dict[str, list[tuple[str, str]]] = {}
        for name in self.list_commands(ctx):
            command: Any = self.get_command(ctx, name)
            about = command.get_short_help_str(limit=200).rstrip('.')
            panels.setdefault(command.rich_help_panel, []).append((name, about))
        for title in sorted(panels, key=PANELS.index):
            with formatter.section(title):
                formatter.write_dl(panels[title])


app = typer.Typer(
    cls=_Panels,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={'help_option_names': ['--help', '-h'], 'max_content_width': 100},
    epilog='`sysid COMMAND --help` says more, with examples. Exit codes: 0 all is well, 1 a result '
    'was rejected or a check found a difference, 2 bad input.',
)
servo = typer.Typer(cls=_Panels, rich_markup_mode=None)
app.add_typer(servo, name='servo', rich_help_panel=SERVOS)


def command(
    name: str, panel: str, *examples: str, of: typer.Typer = app
) -> Callable[[Function], Function]:
    """Return what makes a function a command under a heading of ``sysid --help``.

    Examples are what follows ``sysid`` in lines to copy, which end its help.
    """
    # The mark keeps the lines below it apart.
    lines = ['\b', 'examples:', *(f'  sysid {line}' for line in examples)]
    return of.command(name, rich_help_panel=panel, epilog='\n'.join(lines))


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f'sysid_ros {__version__}')
        raise typer.Exit


@app.callback()
def _sysid(
    *,
    version: Annotated[
        bool,
        typer.Option('--version', callback=_print_version, is_eager=True, help='say it and exit'),
    ] = False,
) -> None:
    """Calibrate a robot's MuJoCo model from recorded bags."""


@servo.callback()
def _servo() -> None:
    """Logs, fits, comparisons, pictures and MJCF of a servo on a pendulum."""


def written(metavar: str, about: str) -> Any:
    """Return the option for what a command writes, which has one name in all of them."""
    return typer.Option('--output', '-o', metavar=metavar, help=about)


def several(name: str, metavar: str, about: str) -> Any:
    """Return an option that may be repeated."""
    return typer.Option(name, metavar=metavar, default_factory=list, show_default=False, help=about)


# Options and arguments that several commands have.

Json = Annotated[bool, typer.Option('--json', help='print one JSON document')]
Quiet = Annotated[
    bool,
    typer.Option(
        '--quiet', '-q', help='say nothing on the way, and in the end only what came of it'
    ),
]
Bag = Annotated[Path, typer.Argument(metavar='BAG', help='bag folder or file')]
Model = Annotated[Path, typer.Argument(metavar='MODEL', help='MJCF, URDF or xacro file')]
MaybeModel = Annotated[
    Path | None, typer.Argument(metavar='MODEL', help='MJCF, URDF or xacro file')
]
Calibration = Annotated[Path, typer.Argument(metavar='CONFIG', help='calibration.yaml')]
Packages = Annotated[
    list[Path],
    several(
        '--package-path',
        'DIR',
        'folder of a ROS package that a URDF refers to, or of several; may be repeated',
    ),
]
Namespace = Annotated[
    str,
    typer.Option(
        metavar='ARM',
        show_default=False,
        help='of several arms in a bag this one: words of its topics or joints, such as left',
    ),
]
Settings = Annotated[
    list[str],
    several(
        '--set',
        'KEY=VALUE',
        'replace a value of the configuration, as solver.loss=huber; may be repeated',
    ),
]


def overrides_of(settings: list[str], namespace: str = '') -> dict[str, Any]:
    """Turn ``--set KEY=VALUE`` and ``--namespace ARM`` into dotted keys and YAML values."""
    import yaml

    from sysid_ros.errors import ConfigError
    from sysid_ros.text import parse_yaml

    found: dict[str, Any] = {'namespace': namespace} if namespace else {}
    for pair in settings:
        key, equals, text = pair.partition('=')
        if not equals or not key:
            raise ConfigError(f'Expected --set KEY=VALUE, as solver.loss=huber, got {pair!r}.')
        try:
            found.setdefault(key, parse_yaml(text))
        except yaml.YAMLError as err:
            raise ConfigError(f'The value in --set {pair!r} is not YAML.') from err
    return found
