# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A real hobby arm of six servos: seventeen minutes of motion, each motion predicted by the others.

The recordings are not part of the project: ``--data DIR`` is a folder with ``so101.xml``, the model
as it is shipped, and ``bags/``, ten motions at 50 Hz. Nothing is said of the robot but which
numbers of its servos are unknown; sensors are implied and ``sysid map`` finds what is what. Printed
are mean absolute errors of an open-loop simulation of the motion that was left out, mrad, and, with
``--halves``, by how many standard errors the parameters of two halves of the motions differ.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sysid_ros.cli.main import main as run
from sysid_ros.config import CalibrationConfig, validate
from sysid_ros.identification.observer import Nobody
from sysid_ros.pipeline.calibration import identify
from sysid_ros.pipeline.loading import Problem, load
from sysid_ros.results.result import CalibrationResult
from sysid_ros.rollout.prediction import predict

DATA = (
    Path(os.environ.get('SYSID_SHARED_DATA', Path(__file__).parents[3] / 'shared' / 'data'))
    / 'so101'
)
PARAMETERS = [
    {'target': 'actuator/*/kp', 'shared': True, 'initial': 15, 'bounds': [1, 2000], 'scale': 'log'},
    {'target': 'actuator/*/kv', 'initial': 0.5},
    {'target': 'joint/*/frictionloss'},
    {
        'target': 'joint/*/solimpfriction',
        'shared': True,
        'initial': 0.999,
        'prior': {'std': 1e-4},
    },
]


def mapping(data: Path) -> str:
    """Return what ``sysid map`` writes for the motion in which joints move one by one most."""
    path = str(Path(tempfile.mkdtemp()) / 'mapping.yaml')
    bag, model = str(data / 'bags' / 'multisine'), str(data / 'so101.xml')
    with contextlib.redirect_stdout(io.StringIO()):
        run(['map', bag, model, '-o', path])
    return path


def calibrated(
    data: Path, train: Iterable[str], test: str | None = None, limit: float | None = None
) -> CalibrationResult:
    """Calibrate with some motions, holding one out, in so many seconds."""
    config = _config(data, train, test, limit)
    began = time.monotonic(), time.process_time()
    result = identify(config).result
    assert result.solver is not None  # noqa: S101
    spent = time.monotonic() - began[0], time.process_time() - began[1]
    print(
        f'{result.standing.value}; {result.solver.message} {result.solver.rollouts} rollouts; '
        f'{spent[0]:.0f} s, {spent[1]:.0f} processor s',
        flush=True,
    )
    for check in result.gate:
        if not check.passed:
            print(f'  {check.name}: {check.detail}')
    return result


def _config(
    data: Path, train: Iterable[str], test: str | None, limit: float | None = None
) -> CalibrationConfig:
    bags: list[dict[str, Any]] = [
        {'path': str(data / 'bags' / name), 'role': 'train'} for name in train
    ]
    if test is not None:
        bags.append({'path': str(data / 'bags' / test), 'role': 'validate'})
    content = {
        'model': str(data / 'so101.xml'),
        'mapping': mapping(data),
        'bags': bags,
        'parameters': PARAMETERS,
        'sensors': ['*_position'],
        'solver': {'loss': 'soft_l1', 'timestep': 'auto', 'time': limit},
        'validation': {'leave_out': 'none', 'horizon': []},
        'output': tempfile.mkdtemp(),
    }
    return validate(CalibrationConfig, content, 'benchmark')


def errors(problem: Problem, values: dict[str, float]) -> dict[str, NDArray[np.float64]]:
    """Return the (joints,) mean absolute errors of each held-out sequence, mrad."""
    sequences = problem.sequences('validate')
    x = np.array([values.get(unknown.name, unknown.nominal) for unknown in problem.parameters])
    found = {}
    for sequence, simulated in zip(
        sequences, predict(problem.spec, sequences, problem.parameters, x), strict=True
    ):
        joints = []
        for series, channels in zip(sequence.measurements, simulated.channels, strict=True):
            place = 0
            for _, columns in series.signal_mapping.values():
                for column in columns:
                    apart = channels[0][:, place] - series.data[:, column]
                    joints.append(1e3 * float(np.nanmean(np.abs(apart))))
                    place += 1
        found[sequence.name] = np.array(joints)
    return found


def leave_each_out(data: Path, names: list[str], only: list[str], limit: float | None) -> None:
    """Predict motions by the others, and print the errors."""
    every = []
    for test in only or names:
        problem = load(_config(data, [n for n in names if n != test], test), Nobody())
        print(f'{test}: ', end='', flush=True)
        result = calibrated(data, [name for name in names if name != test], test, limit)
        values = {parameter.name: parameter.value for parameter in result.parameters}
        for found in errors(problem, values).values():
            print(f'  {"  ".join(f"{e:5.1f}" for e in found)}   mean {found.mean():5.2f}')
            every.append(found.mean())
    print(f'mean {np.mean(every):.2f}, worst {np.max(every):.2f} mrad')


def compare_halves(data: Path, names: list[str], limit: float | None) -> None:
    """Compare the parameters of two halves of the motions."""
    first, second = (calibrated(data, names[k::2], limit=limit) for k in (0, 1))
    for one, other in zip(first.parameters, second.parameters, strict=True):
        error = np.hypot(one.high - one.low, other.high - other.low) / (2 * 1.96)
        print(
            f'{one.name:32} {one.value:9.4g} [{one.low:9.4g}, {one.high:9.4g}]  '
            f'{other.value:9.4g} [{other.low:9.4g}, {other.high:9.4g}]  '
            f'{abs(one.value - other.value) / error:6.1f}'
        )


def main() -> None:
    """Run what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--data', type=Path, default=DATA)
    parser.add_argument('--time', type=float, help='limit of time of a fit, s')
    parser.add_argument('--only', nargs='*', default=[], help='motions to leave out; all unless')
    parser.add_argument('--all', action='store_true', help='one calibration with all motions')
    parser.add_argument('--halves', action='store_true', help='compare two halves instead')
    arguments = parser.parse_args()
    if not (arguments.data / 'bags').is_dir():
        print(f'There are no recordings in {arguments.data}.')
        return
    names = sorted(path.name for path in (arguments.data / 'bags').iterdir())
    print('busy:', os.getloadavg())
    if arguments.halves:
        compare_halves(arguments.data, names, arguments.time)
    elif arguments.all:
        calibrated(arguments.data, names, limit=arguments.time)
    else:
        leave_each_out(arguments.data, names, arguments.only, arguments.time)


if __name__ == '__main__':
    main()
