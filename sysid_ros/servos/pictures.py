# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What parameter files predict for logs of servos, beside what was measured: PNG files."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from sysid_ros.errors import ParameterError, one_line
from sysid_ros.files import replace_file
from sysid_ros.servos.logs import ServoLog, check_motor
from sysid_ros.servos.pendulum import predict
from sysid_ros.simulation.servo import Servo, read_parameters
from sysid_ros.text import file_stems

Array = NDArray[np.float64]

#: Colours of measured, commanded and, in turn, predicted positions; any colour vision tells them
#: apart.
_MEASURED, _COMMANDED = '#8a8f98', '#22262b'
_COLOURS = ('#0b5cad', '#c2570c', '#009e73', '#a3478a', '#56b4e9', '#e69f00')


class ParameterFile(NamedTuple):
    """A parameter file, by its stem, or by its path where stems are not unique."""

    name: str
    servo: Servo
    values: Mapping[str, float]


class Predictions(NamedTuple):
    """What C parameter files predict for L logs, by their names.

    ``positions`` are C times L arrays (n,), rad, ``errors`` (C, L) mean absolute ones, rad.
    """

    names: tuple[str, ...]
    logs: tuple[str, ...]
    positions: tuple[tuple[Array, ...], ...]
    errors: Array


def read_candidates(
    paths: Sequence[Path], actuator: str | None = None
) -> tuple[ParameterFile, ...]:
    """Read parameter files, or folders of them, or raise a ParameterError."""
    files: list[Path] = []
    for path in paths:
        found = sorted(path.glob('*.json')) if path.is_dir() else [path]
        if not found:
            raise ParameterError(f'Expected parameter files *.json in {str(path)!r}, found none.')
        files += found
    files = list(dict.fromkeys(files))
    unique = len({path.stem for path in files}) == len(files)
    return tuple(
        ParameterFile(path.stem if unique else str(path), *read_parameters(path, actuator))
        for path in files
    )


def predict_logs(
    candidates: Sequence[ParameterFile], logs: Sequence[ServoLog], reset_period: float | None = None
) -> Predictions:
    """Simulate logs with parameter files; sampling periods may differ, and some may be raw."""
    for _, servo, _ in candidates:
        check_motor(logs, servo.type.name)
    positions = tuple(
        tuple(predict(servo, values, [log], reset_period)[0] for log in logs)
        for _, servo, values in candidates
    )
    errors = [
        [float(np.mean(np.abs(q - log.position))) for q, log in zip(row, logs, strict=True)]
        for row in positions
    ]
    return Predictions(
        tuple(item.name for item in candidates),
        tuple(log.name for log in logs),
        positions,
        np.reshape(errors, (len(candidates), len(logs))),
    )


def write_pictures(
    folder: Path, logs: Sequence[ServoLog], predictions: Predictions
) -> tuple[Path, ...]:
    """Write a picture per log, ``LOG.png``, into a folder."""
    written = [folder / f'{stem}.png' for stem in file_stems(log.name for log in logs)]
    for place, (log, path) in enumerate(zip(logs, written, strict=True)):
        replace_file(path, _draw_log(log, place, predictions))
    return tuple(written)


def _draw_log(log: ServoLog, place: int, predictions: Predictions) -> bytes:
    """Return a PNG of positions measured, commanded and predicted, and of prediction errors."""
    figure = Figure(figsize=(10.0, 5.6), layout='constrained')
    top, bottom = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
    times = log.times
    top.plot(times, log.goal, color=_COMMANDED, linestyle='--', linewidth=0.9, label='commanded')
    top.plot(times, log.position, color=_MEASURED, linewidth=3.0, label='measured')
    for row, (name, found) in enumerate(zip(predictions.names, predictions.positions, strict=True)):
        error = 1e3 * float(predictions.errors[row, place])
        colour = _COLOURS[row % len(_COLOURS)]
        label = f'{one_line(name)}: {error:.3g} mrad'
        top.plot(times, found[place], color=colour, linewidth=1.1, label=label)
        missed = 1e3 * (found[place] - log.position)
        bottom.plot(times, missed, color=colour, linewidth=1.1)
    top.set_ylabel('position [rad]')
    bottom.set_ylabel('predicted minus\nmeasured [mrad]')
    bottom.set_xlabel('time [s]')
    facts = [one_line(log.name), f'{log.mass:g} kg at {log.length:g} m']
    facts += [f'{name} {value:g}' for name, value in log.constants.items() if name == 'kp']
    title = top.set_title(', '.join(facts), loc='left')
    # A name may hold dollars, which would start a formula.
    for text in (title, *top.legend(loc='best', fontsize='small').get_texts()):
        text.set_parse_math(False)
    buffer = io.BytesIO()
    figure.savefig(buffer, format='png')
    return buffer.getvalue()
