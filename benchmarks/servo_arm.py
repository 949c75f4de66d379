# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""An arm whose joints have load-dependent friction, recorded through ROS and identified.

Six joints, each driven by a servo with friction law M4; the recordings are made by real processes.
Held-out position errors of three models: the truth (what noise and stamps leave), the servos' laws
identified, and the gains, armature, damping and dry friction that plain MJCF holds, identified from
the same bags.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path

import numpy as np

from sysid_ros import demo
from sysid_ros.cli.console import Progress
from sysid_ros.config import CalibrationConfig, load_calibration, load_servos
from sysid_ros.identification.observer import Nobody
from sysid_ros.model.unknown import make_unknowns
from sysid_ros.pipeline.fitting import fit_training
from sysid_ros.pipeline.loading import Problem, load
from sysid_ros.pipeline.servos import joints_of
from sysid_ros.rollout.prediction import predict

_ASSETS = Path(__file__).parent / 'cases' / 'servo_arm'
#: The delay that the simulated robot hides.
_DELAY = 0.006
_TARGET = 1.1


def errors(problem: Problem, parameters: tuple, values: np.ndarray, servos: object) -> np.ndarray:
    """Return the (joints,) root mean square errors of held-out positions, rad."""
    sequences = problem.sequences('validate')
    found = predict(problem.spec, sequences, parameters, values, drives=servos)
    squares: dict[str, list[np.ndarray]] = {}
    for sequence, prediction in zip(sequences, found, strict=True):
        for series, channel in zip(sequence.measurements, prediction.channels, strict=True):
            names = list(series.signal_mapping)
            for column, name in enumerate(names):
                if name.endswith('_position'):
                    error = channel[0, :, column] - series.data[:, column]
                    squares.setdefault(name, []).append(error**2)
    return np.array([math.sqrt(np.nanmean(np.concatenate(v))) for _, v in sorted(squares.items())])


def fitted(config: CalibrationConfig) -> tuple[Problem, np.ndarray, float]:
    """Return what a configuration finds: the problem, held-out errors, and seconds."""
    problem = load(config, Nobody())
    progress = Progress()
    found = fit_training(config, problem, progress)
    progress.finish()
    return (
        problem,
        errors(problem, found.parameters, found.solution.x, problem.servos),
        found.seconds,
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--folder', type=Path, default=Path('servo_arm'))
    parser.add_argument('--seed', type=int, default=1)
    parser.add_argument('--duration', type=float, default=10.0)
    parser.add_argument('--recorded', action='store_true', help='use the bags that are there')
    args = parser.parse_args()
    if not args.recorded:
        demo.record(_ASSETS, args.folder, args.seed, args.duration)
    for name in ('calibration.yaml', 'plain.yaml'):
        (args.folder / name).write_text((_ASSETS / name).read_text('utf-8'), 'utf-8')
    problem, laws, seconds = fitted(load_calibration(args.folder / 'calibration.yaml'))
    _, plain, plain_seconds = fitted(load_calibration(args.folder / 'plain.yaml'))
    truth = joints_of(load_servos(_ASSETS / 'servos.yaml'), problem.model)
    delay = make_unknowns(
        'actuator/*/delay', problem.model, initial=_DELAY, bounds=(0.0, 0.05), shared=True
    )
    floor = errors(problem, delay, np.array([_DELAY]), truth)
    nominal = errors(problem, (), np.zeros(0), problem.servos)
    heads = [*sorted(problem.model.joint(joint).name for joint in range(problem.model.njnt)), 'all']
    print(f'{"held-out error, mrad":26}' + ''.join(f'{head:>9}' for head in heads))
    for name, row in (
        ('truth (floor)', floor),
        (f'servos, M4 ({seconds:.0f} s)', laws),
        (f'plain MJCF ({plain_seconds:.0f} s)', plain),
        ('servos, starting values', nominal),
    ):
        whole = math.sqrt(np.mean(row**2))
        print(f'{name:26}' + ''.join(f'{1e3 * x:9.3f}' for x in row) + f'{1e3 * whole:9.3f}')
    ratio = math.sqrt(np.mean(laws**2) / np.mean(floor**2))
    verdict = 'PASS' if ratio <= _TARGET else 'MISS'
    print(f'servos over floor: {ratio:.3f} (at most {_TARGET}): {verdict}')


if __name__ == '__main__':
    main()
