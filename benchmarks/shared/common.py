# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What the programs share: options, tables, turns, draws, trajectories and messages."""

from __future__ import annotations

import argparse
import dataclasses
import inspect
import json
import multiprocessing
import os
import platform
import re
import resource
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import mujoco
import numpy as np
from numpy.typing import ArrayLike, NDArray
from rosbags.typesys import Stores, get_typestore

from sysid_ros.bags.writer import BagWriter
from sysid_ros.model.targets import Unknown
from sysid_ros.signals import SignalType, TimeSeries, Trajectory
from sysid_ros.simulation.prediction import predict

Floats = NDArray[np.float64]
Found = TypeVar('Found')

ROOT = Path(__file__).resolve().parents[2]
DEMO = ROOT / 'config' / 'demo'
#: Recordings that are not part of the project.
DATA = Path(os.environ.get('SYSID_SHARED_DATA', ROOT.parent / 'shared' / 'data'))
CORES = os.cpu_count() or 1
QUANTILE = 1.959964
#: When recordings begin, ns since the epoch.
ORIGIN_NS = 1_700_000_000_000_000_000
JOINT_STATE = 'sensor_msgs/msg/JointState'
STORE = get_typestore(Stores.ROS2_JAZZY)


class OneOf(tuple[str, ...]):
    """Choices of an option that takes one; the first is its default."""

    __slots__ = ()


class AnyOf(tuple[str, ...]):
    """Choices of an option that takes several; all of them unless given."""

    __slots__ = ()


def run(doc: str | None, *studies: Callable[..., bool | None]) -> None:
    """Run the study that the command line names, or all; exit with 1 if one returns False.

    The keyword parameters of a study are its options, with their defaults: a flag for a bool,
    several values for a list. A program with one study needs no name for it.
    """
    parser = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    if len(studies) == 1:
        _add_options(parser, studies[0])
    else:
        commands = parser.add_subparsers(dest='study', help='all, one after another, unless given')
        for study in studies:
            text = (inspect.getdoc(study) or '').replace('%', '%%')
            _add_options(commands.add_parser(study.__name__, help=text), study)
    given = vars(parser.parse_args())
    name = given.pop('study', None)
    chosen = [study for study in studies if name in {None, study.__name__}]
    print(f'{CORES} cores, Python {platform.python_version()}, MuJoCo {mujoco.__version__}')
    sys.exit(int(False in [study(**given) for study in chosen]))


def _add_options(parser: argparse.ArgumentParser, study: Callable[..., object]) -> None:
    for name, parameter in inspect.signature(study).parameters.items():
        default: Any = parameter.default
        options: dict[str, Any] = {'default': default, 'help': f'default: {default}'}
        if isinstance(default, bool):
            options = {'action': 'store_true'}
        elif isinstance(default, AnyOf):
            options = {'nargs': '*', 'choices': default, 'default': list(default)}
        elif isinstance(default, OneOf):
            options = {'choices': default, 'default': default[0]}
        elif isinstance(default, list):
            options |= {'nargs': '*', 'type': type(default[0]) if default else str}
        else:
            options |= {'type': type(default)}
        parser.add_argument(f'--{name.replace("_", "-")}', **options)


class Table:
    """Rows of columns ``title:format``, each printed as it is known."""

    def __init__(self, *columns: str) -> None:
        """Print the titles; the width in a format is the least of its column."""
        pairs = [column.rpartition(':')[::2] for column in columns]
        self._formats = [form for _, form in pairs]
        widths = [
            int((re.search(r'[1-9]\d*', form.partition('.')[0]) or '0')[0]) for _, form in pairs
        ]
        self._widths = [max(w, len(title)) for w, (title, _) in zip(widths, pairs, strict=True)]
        self._print(title for title, _ in pairs)

    def row(self, *values: object, mark: str = '') -> None:
        """Print one row; None and texts stand in columns of numbers, too."""
        cells = [
            '-' if value is None else value if isinstance(value, str) else format(value, form)
            for value, form in zip(values, self._formats, strict=True)
        ]
        self._print(cells, mark)

    def _print(self, cells: Iterable[str], mark: str = '') -> None:
        shown = [
            f'{cell:{"<" if form.endswith("s") else ">"}{width}}'
            for cell, form, width in zip(cells, self._formats, self._widths, strict=True)
        ]
        print('  '.join([*shown, mark]).rstrip(), flush=True)


def verdict(passed: bool, text: str) -> bool:
    """Print whether a limit is kept, and return it."""
    print('PASS' if passed else 'MISS', text, flush=True)
    return passed


def in_turns(contenders: Mapping[str, Callable[[int], Found]], runs: int) -> dict[str, list[Found]]:
    """Return what each contender returns in each run; every other run in the reverse order."""
    found: dict[str, list[Found]] = {name: [] for name in contenders}
    for number in range(runs):
        for name in contenders if number % 2 else reversed(contenders):
            found[name].append(contenders[name](number))
    return found


def in_processes(
    function: Callable[..., Found], jobs: Sequence[tuple[Any, ...]], processes: int
) -> list[Found]:
    """Return what a function returns for each job."""
    os.environ['OPENBLAS_NUM_THREADS'] = '1'
    with multiprocessing.get_context('spawn').Pool(processes) as pool:
        return pool.starmap(function, jobs, chunksize=1)


def in_own_process(program: str, *arguments: str) -> dict[str, Any]:
    """Run a program with ``measure`` and arguments; return the JSON of its last line."""
    command = [sys.executable, program, 'measure', *arguments]
    out = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    return dict(json.loads(out.splitlines()[-1]))


def resident() -> int:
    """Return the bytes of this process in memory (Linux)."""
    return int(Path('/proc/self/statm').read_text('ascii').split()[1]) * resource.getpagesize()


def peak() -> int:
    """Return the most bytes that this process had in memory."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def kept(path: Path, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Return what a JSON file holds, which is made first where it is not there."""
    if not path.exists():
        new = path.with_suffix('.new')
        new.write_text(json.dumps(make()), 'utf-8')
        new.rename(path)
    return dict(json.loads(path.read_text('utf-8')))


class Coverage(NamedTuple):
    """What (n, p) estimates and their intervals are worth.

    Attributes:
        deviation: (p,) standard deviation of the estimates.
        bias: (p,) mean error in standard deviations.
        held: (p,) share of the intervals that hold the truth.
        width: (p,) mean half-width over 1.96 standard deviations of the estimates.
    """

    deviation: Floats
    bias: Floats
    held: Floats
    width: Floats


def coverage(truth: Floats, values: Floats, low: Floats, high: Floats) -> Coverage:
    """Compare (n, p) estimates and ends of intervals with the (p,) or (n, p) truth."""
    deviation = (values - truth).std(axis=0, ddof=1)
    width = np.nanmean(high - low, axis=0) / 2 / (QUANTILE * deviation)
    held = np.mean((low <= truth) & (truth <= high), axis=0)
    return Coverage(deviation, (values - truth).mean(axis=0) / deviation, held, width)


def ends(intervals: Sequence[Any]) -> tuple[Floats, Floats]:
    """Return the (p,) lower and upper ends of intervals."""
    return np.array([i.low for i in intervals]), np.array([i.high for i in intervals])


def names_of(model: mujoco.MjModel, kind: str) -> list[str]:
    """Return the names of a model's sensors, actuators or joints."""
    count = {'sensor': model.nsensor, 'actuator': model.nu, 'joint': model.njnt}[kind]
    return [getattr(model, kind)(index).name for index in range(count)]


def trajectory(
    model: mujoco.MjModel,
    times: ArrayLike,
    *,
    commands: tuple[ArrayLike, ArrayLike] | None = None,
    start: tuple[ArrayLike, ArrayLike] | None = None,
    name: str = 'run',
) -> Trajectory:
    """Return a trajectory of a model whose sensors all read 0.

    Args:
        model: Its actuators and sensors are in the order of the columns.
        times: (n,) stamps of the measurements, s.
        commands: (m,) stamps and (m, nu) values.
        start: Configuration and velocity; the reference configuration at rest unless given.
        name: Of the trajectory.
    """
    qpos, qvel = start or (model.qpos0, np.zeros(model.nv))
    told = () if commands is None else (_commands(model, *commands),)
    blank = Trajectory(name, 0, np.array(qpos), np.array(qvel), told, ())
    return measuring(model, blank, times, np.zeros((len(np.asarray(times)), model.nsensor)))


def _commands(model: mujoco.MjModel, times: ArrayLike, values: ArrayLike) -> TimeSeries:
    return TimeSeries.from_columns(times, values, names_of(model, 'actuator'), SignalType.MjCtrl)


def measuring(
    model: mujoco.MjModel,
    own: Trajectory,
    times: ArrayLike,
    values: ArrayLike,
    names: Sequence[str] = (),
) -> Trajectory:
    """Return a trajectory with other (n, k) measurements, of all sensors unless named."""
    series = TimeSeries.from_columns(times, values, names or names_of(model, 'sensor'))
    return dataclasses.replace(own, measurements=(series,))


def simulated(model: Any, own: Trajectory, unknowns: Sequence[Unknown], truth: ArrayLike) -> Floats:
    """Return the (n, nsensor) values that a model measures with the true values."""
    found = predict(model, [own], unknowns, np.asarray(truth), threads=1)
    return np.asarray(found[0].channels[0][0])


def recorded(
    model: mujoco.MjModel,
    own: Trajectory,
    unknowns: Sequence[Unknown],
    truth: ArrayLike,
    noise: ArrayLike,
    seed: int | np.random.Generator,
) -> Trajectory:
    """Return a trajectory that measures what the true values give, with white noise.

    Args:
        model: The nominal model.
        own: A trajectory that measures nothing yet.
        unknowns: What is not as the model says.
        truth: (p,) what it is.
        noise: Standard deviation, of each sensor or all.
        seed: Of the noise.
    """
    clean = simulated(model, own, unknowns, truth)
    values = clean + np.asarray(noise) * np.random.default_rng(seed).standard_normal(clean.shape)
    return measuring(model, own, own.measurements[0].times, values)


def message(kind: str, **fields: Any) -> Any:
    """Return a message of a type with all its fields."""
    return STORE.types[kind](**fields)


def header(ns: int) -> Any:
    """Return a header with a stamp."""
    stamp = message('builtin_interfaces/msg/Time', sec=ns // 10**9, nanosec=ns % 10**9)
    return message('std_msgs/msg/Header', stamp=stamp, frame_id='')


def joint_state(ns: int, names: Sequence[str], *values: ArrayLike) -> Any:
    """Return joint states: positions, and velocities and efforts as far as they are given."""
    parts = [np.asarray(value, np.float64) for value in values]
    parts += [np.zeros(0)] * (3 - len(parts))
    fields = dict(zip(('position', 'velocity', 'effort'), parts, strict=True))
    return message(JOINT_STATE, header=header(ns), name=list(names), **fields)


def array(values: Floats) -> Any:
    """Return numbers as a message."""
    layout = message('std_msgs/msg/MultiArrayLayout', dim=[], data_offset=0)
    return message('std_msgs/msg/Float64MultiArray', layout=layout, data=values)


def write_bag(
    path: Path, messages: Iterable[tuple[int, str, Any]], definitions: Mapping[str, str] = {}
) -> None:
    """Write messages with their time of receipt, ns, and topic as a recorder does."""
    rows = sorted(messages, key=lambda row: row[0])
    with BagWriter(path) as bag:
        for topic, kind in {topic: item.__msgtype__ for _, topic, item in rows}.items():
            bag.add_topic(topic, kind, definition=definitions.get(kind, ''))
        for ns, topic, item in rows:
            bag.write(topic, ns, bytes(STORE.serialize_cdr(item, item.__msgtype__)))
