# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Mutated bags, and hostile files and values for every command: what is no sentence, and why.

``bags`` mutates small bags of each storage and reads each by ``read_bag`` and ``sysid inspect``. A
row that is read without a word must be one that rosbags reads from the same bytes, or the original.
``inputs`` puts hostile files and values into command lines. Each case is a fork of this process,
with a limit of memory and time.

    python benchmarks/robustness.py bags --count 2000
    python benchmarks/robustness.py inputs
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import io
import json
import os
import pkgutil
import random
import resource
import shutil
import signal
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from shared import hostile, mutated_bags
from shared.common import (
    Table,
    run,
    verdict,
)

import sysid_ros
from sysid_ros.cli.main import BAD_INPUT, app, main, typer
from sysid_ros.errors import SysidError

#: Of the processor, and times these on the wall, for a machine that is shared.
_SECONDS, _PATIENCE = 20, 3
_RESIDENT_MB, _ADDRESSES, _LONGEST = 1024, 4 << 30, 1200


class Done(NamedTuple):
    """How a fork ended."""

    kind: str  # ``fine``, ``refused``, or what went wrong
    detail: str
    seconds: float  # of the processor
    peak_mb: float


def _import_all() -> None:
    """Import once what forks would import each."""
    for module in pkgutil.walk_packages(sysid_ros.__path__, 'sysid_ros.'):
        if '.nodes' not in module.name and '__main__' not in module.name:
            importlib.import_module(module.name)


def fork(job: Callable[[], tuple[str, str]], *, addresses: int = 0) -> Done:
    """Run a job in a fork within the limits; it returns a kind and a detail."""
    read, write = os.pipe()
    start = time.monotonic()
    child = os.fork()
    if not child:
        os.setsid()
        resource.setrlimit(resource.RLIMIT_CPU, (_SECONDS, _SECONDS))
        if addresses:
            resource.setrlimit(resource.RLIMIT_AS, (addresses, addresses))
        try:
            said = job()
        except BaseException:  # noqa: BLE001 (is what is looked for)
            said = 'traceback', traceback.format_exc().strip().replace('\n', ' | ')[-300:]
        os.write(write, json.dumps(said).encode()[:60_000])
        os._exit(0)
    os.close(write)
    while not (ended := os.wait4(child, os.WNOHANG))[0]:
        if time.monotonic() - start > _PATIENCE * _SECONDS:
            os.killpg(child, signal.SIGKILL)
            ended = os.wait4(child, 0)
            break
        time.sleep(0.002)
    seconds = ended[2].ru_utime + ended[2].ru_stime
    with os.fdopen(read, 'rb') as pipe:
        text = pipe.read()
    peak = ended[2].ru_maxrss / 1024
    if not text:
        late = seconds > _SECONDS - 1 or ended[1] == signal.SIGKILL
        return Done('timeout' if late else 'killed', str(ended[1]), seconds, peak)
    kind, detail = json.loads(text)
    return Done('memory' if peak > _RESIDENT_MB else kind, detail, seconds, peak)


def command(arguments: list[str]) -> tuple[str, str, str]:
    """Run ``sysid`` here; return whether it kept its contract, its sentence, and its output."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(arguments)
    last = err.getvalue().rstrip('\n').rpartition('\n')[2]
    sentence = last.startswith('sysid: ') and last[-1] in '.?' and len(last) < _LONGEST
    kind = 'refused' if code == BAD_INPUT else 'fine'
    if code not in {0, 1, 2} or 'Traceback' in err.getvalue():
        kind, last = 'traceback', f'{code}: {last}'
    elif code == BAD_INPUT and not sentence:
        kind = 'no sentence'
    return kind, last[-300:], out.getvalue()


# Mutated bags


def _read(path: Path, original: mutated_bags.Rows, *, guarded: bool) -> tuple[str, str]:
    kind, detail, document = command(['inspect', str(path), '--json'])
    try:
        found, said = mutated_bags.ours(path)
    except SysidError as error:
        return (kind, detail) if kind != 'fine' else ('disagree', str(error))
    if kind != 'fine':
        return ('disagree' if kind == 'refused' else kind), detail
    if said or json.loads(document)['findings']:
        return 'findings', said
    try:
        theirs = mutated_bags.by_rosbags(path)
    except Exception:  # noqa: BLE001 (it lets everything through)
        # Without checksums, what is there now is what there is.
        theirs = original if guarded else found
    wrong = {row for row in found - theirs - original if np.isfinite(row[2]).all()}
    missing = (theirs & original) - found
    if wrong or missing:
        return 'silent', f'{len(wrong)} others {[*wrong][:1]}, {len(missing)} missing'
    return ('as was' if found == original else 'as rosbags'), ''


def bags(count: int = 2000, seed: int = 0, only: str = '') -> bool:
    """Read mutated bags."""
    _import_all()
    kinds = ('as was', 'as rosbags', 'findings', 'refused')
    faults = ('silent', 'disagree', 'traceback', 'no sentence', 'timeout', 'killed', 'memory')
    table = Table('storage:15s', *(f'{kind}:6d' for kind in (*kinds, *faults)), 'peak/MB:7.0f')
    total: Counter[str] = Counter()
    examples = []
    with tempfile.TemporaryDirectory() as place:
        seeds = list(mutated_bags.seeds(Path(place)))
        for name, file in seeds:
            if only not in name:
                continue
            data, peak = file.read_bytes(), 0.0
            original = mutated_bags.by_rosbags(file)
            found: Counter[str] = Counter()
            for number in range(-(-count // len(seeds))):
                draw = random.Random(f'{seed} {name} {number}')  # noqa: S311 (repeatable)
                folder = file.parent if name[:4] != 'ros1' else Path(place)
                target = folder / f'x{file.name}'
                target.write_bytes(mutated_bags.mutated(data, draw))
                job = functools.partial(
                    _read, target, original, guarded=name in mutated_bags.GUARDED
                )
                done = fork(job, addresses=_ADDRESSES)
                target.unlink()
                found[done.kind] += 1
                peak = max(peak, done.peak_mb)
                if done.kind in faults:
                    examples.append(f'{name} {number} {done.kind}: {done.detail}')
            table.row(name, *(found[kind] for kind in (*kinds, *faults)), peak)
            total += found
    print('\n'.join(example[:400] for example in examples[:40]))
    bad = sum(total[kind] for kind in faults)
    return verdict(not bad, f'{bad} of {total.total()} mutated bags were no sentence or wrong')


def _cases(folder: Path) -> Iterator[tuple[str, str, Callable[[], object], list[str]]]:
    """Yield for each case the kind of input, the command, what prepares it, and the words."""
    whole = hostile.project(folder, dict(mutated_bags.seeds(folder / 'seeds')))
    for endings, lines in hostile.FILES:
        for ending in endings:
            path = folder / 'in' / f'x{".db3" * (ending == ".zstd")}{ending}'
            for name, make in hostile.hostile(path, whole[ending]):
                for line in lines:
                    said = line.replace('@', str(path)).replace('FOLDER', str(path.parent))
                    yield f'{name} {ending}', line, make, said.split()
    for line in hostile.LINES.values():
        words = line.split()
        found: Any = typer.main.get_command(app)
        for word in words[: 1 + (words[0] == 'servo')]:
            found = found.commands[word]
        options = [max(item.opts, key=len) for item in found.params if item.opts[0][0] == '-']
        keys = [f'{option}=' for option in options if option != '--set']
        keys += [f'--set={key}=' for key in hostile.SETTINGS if '--set' in options]
        for key in keys:
            for value in hostile.VALUES:
                yield f'{value[:8]!r}', f'{line} {key}', lambda: None, [*words, f'{key}{value}']


def inputs(count: int = 500, seed: int = 0, only: str = '') -> bool:
    """Give hostile files and values to commands."""
    _import_all()
    found: dict[str, Counter[str]] = {}
    examples, peak, slowest = [], 0.0, 0.0
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        cases = [case for case in _cases(folder) if only in f'{case[0]}: {case[1]}']
        random.Random(seed).shuffle(cases)  # noqa: S311 (repeatable)
        for number, (name, line, make, words) in enumerate(cases[:count]):
            (folder / 'in').mkdir()
            make()
            out = folder / f'out{number}'

            def job(out: Path = out, words: list[str] = words) -> tuple[str, str]:
                os.chdir(folder)
                out.mkdir()
                return command([word.replace('OUT', str(out / 'new')) for word in words])[:2]

            done = fork(job)
            shutil.rmtree(folder / 'in')
            shutil.rmtree(out, ignore_errors=True)
            found.setdefault(line.split(maxsplit=1)[0], Counter())[done.kind] += 1
            peak, slowest = max(peak, done.peak_mb), max(slowest, done.seconds)
            if done.kind not in {'fine', 'refused'}:
                examples.append(
                    f'{done.kind}: {name} | {line} | {done.detail} {done.seconds:.0f} s'
                )
    kinds = ('fine', 'refused', 'traceback', 'no sentence', 'timeout', 'killed', 'memory')
    table = Table('command:10s', *(f'{kind}:6d' for kind in kinds))
    for name, counts in sorted(found.items()):
        table.row(name, *(counts[kind] for kind in kinds))
    print('\n'.join(example.replace(place, '')[:500] for example in sorted(examples)))
    total = f'{len(cases[:count])} of {len(cases)}, {slowest:.0f} s and {peak:.0f} MB at most'
    return verdict(not examples, f'{len(examples)} of {total} hostile inputs were no sentence')


if __name__ == '__main__':
    run(__doc__, bags, inputs)
