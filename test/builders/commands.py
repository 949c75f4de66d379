# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The commands of ``sysid``, and what words on a command line mean, without running any."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import typer

from sysid_ros.cli.app import app

SYSID: Any = typer.main.get_command(app)


def commands(group: Any = SYSID, path: str = '') -> Iterator[tuple[str, Any]]:
    """Yield the words that start each command, as ``servo fit``, and the command."""
    for name, command in group.commands.items():
        if hasattr(command, 'commands'):
            yield from commands(command, f'{path}{name} ')
        else:
            yield f'{path}{name}', command


def parse(words: Sequence[str]) -> tuple[Any, dict[str, Any]]:
    """Return the command that words mean, and its parameters by the names in the code."""
    # Options of the command itself, such as --install-completion, act while they are parsed.
    assert words[0][0] != '-', words
    context = SYSID.make_context('sysid', list(words))
    while hasattr(context.command, 'commands'):
        rest = [*context._protected_args, *context.args]
        name, command, rest = context.command.resolve_command(context, rest)
        context = command.make_context(name, rest, parent=context)
    return context.command, context.params


def options(command: Any) -> set[str]:
    """Return the options of a command, as ``--json``."""
    return {name for parameter in command.params for name in parameter.opts if name[:1] == '-'}
