# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What a line of a model can make endless, in a process of its own: expressions of xacro, replicas.

Neither Python's ``10**10**8`` nor MuJoCo's ``<replicate count="100000000">`` can be stopped in the
process that began them.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import mujoco

from sysid_ros.errors import ModelError
from sysid_ros.model.packages import find_package

#: No model needs more to be made: seconds of a processor, which other work does not take away, and
#: bytes of memory.
MOST_SECONDS, MOST_BYTES = 10, 4 << 30


def run(kind: str, path: Path, packages: Sequence[Path] = ()) -> dict[str, str]:
    """Expand (``xacro``) or parse (``mujoco``) a model apart.

    Returns:
        ``text`` for what xacro made, ``absent`` for a package that is not there, or ``refused`` for
        what either said; nothing where MuJoCo read it.

    Raises:
        ModelError: It takes too long or too much.
    """
    command = [sys.executable, '-m', __name__, kind, str(path), *map(str, packages)]
    paths = os.pathsep.join(filter(None, sys.path))
    too_much = (
        f'Making the model {str(path)!r} takes more than {MOST_SECONDS} s or '
        f'{MOST_BYTES >> 30} GB: look for large counts or powers in it.'
    )
    done = subprocess.run(
        command,
        env={**os.environ, 'PYTHONPATH': paths},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    try:
        found: dict[str, str] = json.loads(done.stdout.rpartition(b'\n')[2])
    except ValueError as err:
        raise ModelError(too_much) from err
    return found


def _expanded(path: str, packages: Sequence[Path]) -> dict[str, str]:
    """Let xacro make a URDF."""
    import xacro  # noqa: PLC0415 (optional)
    from xacro import substitution_args  # noqa: PLC0415

    absent = []

    def find(package: str) -> str:
        folder = find_package(package, Path(path).parent, packages)
        if folder is None:
            absent.append(package)
            raise LookupError(package)
        return str(folder.resolve())

    substitution_args._eval_find = find  # noqa: SLF001 (it has no hook for other places)
    substitution_args._eval_dict['find'] = find  # noqa: SLF001
    try:
        return {'text': xacro.process_file(path).toprettyxml(indent='  ')}
    except MemoryError:
        raise
    except Exception as err:  # noqa: BLE001 (whatever the expressions of the file raise)
        if absent:
            return {'absent': absent[0]}
        return {'refused': ' '.join(str(err).split()).rstrip('.') or type(err).__name__}


def _parsed(path: str) -> dict[str, str]:
    """Let MuJoCo read a model; what it refuses, it refuses again where that is said."""
    try:
        mujoco.MjSpec.from_file(path).compile()
    except (ValueError, mujoco.FatalError) as err:
        return {'refused': str(err)}
    return {}


def main(kind: str, path: str, *packages: str) -> None:
    """Print what became of a model as the last line."""
    resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (MOST_SECONDS, MOST_SECONDS))
    folders = [Path(package) for package in packages]
    found = _expanded(path, folders) if kind == 'xacro' else _parsed(path)
    print(f'\n{json.dumps(found)}', end='')  # noqa: T201 (is read)


if __name__ == '__main__':
    main(*sys.argv[1:])
