# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What parameter files predict for logs of servos, and pictures of it: PNG files."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from sysid_ros.errors import ParameterError
from sysid_ros.files import replace_file
from sysid_ros.report.figures import AFTER, BEFORE, INK, MEASURED, blank, calm, shown
from sysid_ros.report.numbers import padded, significant
from sysid_ros.servos.bench.pendulum import predict, stack_logs
from sysid_ros.servos.formats.logs import check_motor
from sysid_ros.servos.formats.parameter_file import read_parameters
from sysid_ros.servos.laws.friction import drive_diagram, friction_under_load
from sysid_ros.text import file_stems

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from sysid_ros.servos.formats.logs import ServoLog
    from sysid_ros.servos.laws.servo import Servo

    Array = NDArray[np.float64]

#: One per parameter file; told apart with any colour vision, the later ones also by their dashes.
_COLOURS = (AFTER, BEFORE, '#009e73', '#a3478a', '#56b4e9', '#e69f00')
_DASHES = ('-', '--', ':', '-.')
#: Ground where a motor is off, or where friction holds.
_SHADE = '#eceef1'
_SMALL, _TEXT = 8, 9  # points
_MILLI = 1e3

_WIDTH = 10.0  # inches
_ROW_HEIGHT = 0.32  # inches
#: Points of a curve.
_POINTS = 200
#: Friction near rest is gone at this multiple of its typical speed.
_FAR_FROM_REST = 10.0
_FRICTION, _DRIVE, _ERRORS = 'friction.png', 'drive_backdrive.png', 'mae.png'


class ParameterFile(NamedTuple):
    """A parameter file.

    Attributes:
        name: Its stem, or its path where stems are not unique.
        servo: The laws.
        values: Of ``servo.coefficients``.
    """

    name: str
    servo: Servo
    values: Mapping[str, float]


class Predictions(NamedTuple):
    """What C parameter files say about L logs.

    Attributes:
        names: Of the parameter files.
        logs: Names of the logs.
        positions: C times L arrays (n,), rad.
        errors: (C, L) mean absolute errors, rad.
    """

    names: tuple[str, ...]
    logs: tuple[str, ...]
    positions: tuple[tuple[Array, ...], ...]
    errors: Array


def read_candidates(
    paths: Sequence[Path], actuator: str | None = None
) -> tuple[ParameterFile, ...]:
    """Read parameter files.

    Args:
        paths: Files, or folders of them.
        actuator: A YAML file that defines the servo, where the catalogue has none of its name.

    Raises:
        ParameterError: A folder holds no parameter files, or a file cannot be used.
    """
    files: list[Path] = []
    for path in paths:
        found = sorted(path.glob('*.json')) if path.is_dir() else [path]
        if not found:
            msg = f'Expected parameter files *.json in {str(path)!r}, found none.'
            raise ParameterError(msg)
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
    """Simulate logs with parameter files.

    Args:
        candidates: At least one.
        logs: At least one; their sampling periods may differ, and some may be raw.
        reset_period: Every so many seconds the state is set to the measured one.

    Raises:
        LogError: A log is of another servo.
    """
    positions = []
    for _, servo, values in candidates:
        check_motor(logs, servo.type.name)
        found: dict[int, Array] = {}
        kinds = [(log.stamps is None, log.dt) for log in logs]
        for kind in dict.fromkeys(kinds):
            places = [place for place, own in enumerate(kinds) if own == kind]
            motions = predict(servo, values, [logs[place] for place in places], reset_period)
            found.update(zip(places, motions, strict=True))
        positions.append(tuple(found[place] for place in range(len(logs))))
    errors = [
        [float(np.mean(np.abs(q - log.position))) for q, log in zip(row, logs, strict=True)]
        for row in positions
    ]
    return Predictions(
        tuple(item.name for item in candidates),
        tuple(log.name for log in logs),
        tuple(positions),
        np.array(errors),
    )


def write_pictures(
    folder: Path,
    logs: Sequence[ServoLog],
    candidates: Sequence[ParameterFile] = (),
    predictions: Predictions | None = None,
    observe: Callable[[Path], None] = lambda _: None,
) -> tuple[Path, ...]:
    """Write a picture per log, and of the candidates their friction, loads and errors.

    Args:
        folder: Where they go; made if it is not there.
        logs: At least one.
        candidates: What to draw friction of.
        predictions: Of the same candidates for the same logs, where they are wanted.
        observe: Called with each file written.

    Returns:
        The files: ``LOG.png`` each, ``friction.png``, ``drive_backdrive.png`` and ``mae.png``.

    Raises:
        ResultError: The folder cannot be written.
    """
    written: list[Path] = []

    def write(name: str, content: bytes) -> None:
        path = folder / name
        replace_file(path, content)
        written.append(path)
        observe(path)

    stems = file_stems(log.name for log in logs)
    for place, (log, stem) in enumerate(zip(logs, stems, strict=True)):
        name = f'{stem}.png'
        taken = name in {_FRICTION, _DRIVE, _ERRORS}
        write(f'log_{name}' if taken else name, draw_log(log, place, predictions))
    if candidates:
        servo = candidates[0].servo
        # The largest measured speed, or that of the positions, rad/s; 1 where nothing moves.
        speeds = [np.abs(log.speed).max(initial=0.0) for log in logs if log.speed is not None]
        speeds = speeds or [
            np.abs(np.diff(q.position) / np.diff(q.times)).max(initial=0.0) for q in logs
        ]
        speed = float(max(speeds)) or 1.0
        # The largest torque of gravity, N·m; 1 where there is none.
        load = float(max(stack_logs(servo, [log]).weight[0] for log in logs)) or 1.0
        write(_FRICTION, draw_friction(candidates, speed, load))
        write(_DRIVE, draw_drive(candidates, load))
    if predictions is not None:
        write(_ERRORS, draw_errors(predictions.logs, predictions.names, predictions.errors))
    return tuple(written)


def draw_log(log: ServoLog, place: int, predictions: Predictions | None) -> bytes:
    """Draw positions measured, commanded and predicted, and below what predictions miss.

    Args:
        log: What was measured.
        place: Of the log in the predictions.
        predictions: By each parameter file, where they are wanted.

    Returns:
        A PNG file.
    """
    times = log.times
    figure = blank(5.6 if predictions else 3.4, _WIDTH)
    panels = figure.subplots(
        2 if predictions else 1,
        1,
        squeeze=False,
        sharex=True,
        height_ratios=(3, 2) if predictions else (1,),
    )[:, 0]
    top = panels[0]
    top.plot(
        times,
        log.goal,
        color=INK,
        linewidth=0.9,
        linestyle=(0, (4, 2)),
        drawstyle='steps-post',
        label='commanded',
    )
    top.plot(times, log.position, color=MEASURED, linewidth=3.0, label='measured')
    if predictions is not None:
        errors = predictions.errors[:, place]
        for row, (name, found) in enumerate(
            zip(predictions.names, predictions.positions, strict=True)
        ):
            label = f'{name}: {padded(_MILLI * float(errors[row]))} mrad'
            top.plot(times, found[place], label=label, **_style(row))
            panels[1].plot(times, _MILLI * (found[place] - log.position), **_style(row))
    top.set_ylabel('position [rad]', fontsize=_TEXT, color=INK)
    if predictions:
        panels[1].axhline(0, color=INK, linewidth=0.6)
        panels[1].set_ylabel('predicted minus\nmeasured [mrad]', fontsize=_TEXT, color=INK)
    panels[-1].set_xlabel('time [s]', fontsize=_TEXT, color=INK)
    off = _shade_off(list(panels), times, log.enabled)
    for axes in panels:
        calm(axes)
        axes.margins(x=0.01)
    handles, labels = top.get_legend_handles_labels()
    if off:
        handles, labels = [*handles, Patch(color=_SHADE)], [*labels, 'motor off']
    facts = [log.name, *(text for text in (log.motor, log.trajectory) if text)]
    facts += [f'{log.mass:g} kg at {log.length:g} m']
    facts += [f'{name} {value:g}' for name, value in log.constants.items() if name == 'kp']
    _head(figure, ' · '.join(facts))
    _legend(figure, handles, labels)
    return figure._repr_png_()


def draw_errors(logs: Sequence[str], names: Sequence[str], errors: Array) -> bytes:
    """Draw the mean absolute error of each log by each parameter file.

    Args:
        logs: Names of the L logs.
        names: Of the C parameter files.
        errors: (C, L) rad.

    Returns:
        A PNG file.
    """
    rows = np.arange(len(logs) + 1)
    figure = blank(_ROW_HEIGHT * len(rows) + 1.3, width=9.0)
    axes = figure.subplots()
    means = _MILLI * np.column_stack([errors, errors.mean(axis=1)])
    for place, values in enumerate(means):
        # Side by side, so that equal values do not hide each other.
        shift = 0.5 * ((place + 0.5) / len(names) - 0.5)
        colour = _COLOURS[place % len(_COLOURS)]
        face = colour if place < len(_COLOURS) else 'white'
        axes.plot(values, rows + shift, 'o', color=colour, markerfacecolor=face, markersize=5)
    axes.axhline(len(logs) - 0.5, color=INK, linewidth=0.6)
    axes.set_yticks(rows, [*map(shown, logs), 'mean of all logs'])
    axes.set_ylim(len(rows) - 0.5, -0.5)
    positive = means[means > 0]
    if len(positive) and positive.max() > 10 * positive.min():
        axes.set_xscale('log')
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: significant(value, 2)))
        axes.xaxis.set_minor_formatter(NullFormatter())
    else:
        axes.set_xlim(left=0)
        axes.xaxis.set_major_locator(MaxNLocator(6))
    axes.set_xlabel('mean absolute error [mrad]', fontsize=_TEXT, color=INK)
    calm(axes)
    for label in axes.get_yticklabels():
        label.set_parse_math(False)
    handles = [
        Line2D(
            [],
            [],
            linestyle='none',
            marker='o',
            color=_COLOURS[place % len(_COLOURS)],
            markerfacecolor=_COLOURS[place] if place < len(_COLOURS) else 'white',
        )
        for place in range(len(names))
    ]
    labels = [
        f'{name}: {padded(float(row[-1]))} mrad' for name, row in zip(names, means, strict=True)
    ]
    _head(figure, 'Mean absolute error')
    _legend(figure, handles, labels)
    return figure._repr_png_()


def _style(place: int) -> dict[str, Any]:
    return {
        'color': _COLOURS[place % len(_COLOURS)],
        'linestyle': _DASHES[(place // len(_COLOURS)) % len(_DASHES)],
        'linewidth': 1.1,
    }


def _shade_off(panels: Sequence[Axes], times: Array, enabled: Array) -> bool:
    """Shade where the motor is off; return whether it ever is."""
    off = np.concatenate([[False], enabled <= 0, [False]])
    edges = np.flatnonzero(off[1:] != off[:-1])
    last = len(times) - 1
    for begin, end in edges.reshape(-1, 2):
        for axes in panels:
            axes.axvspan(
                times[begin],
                times[min(end, last)],
                color=_SHADE,
                linewidth=0,
                zorder=0,
            )
    return len(edges) > 0


def draw_friction(files: Sequence[ParameterFile], fastest: float, heaviest: float) -> bytes:
    """Draw friction over speed and over load, a colour per parameter file.

    Args:
        files: At least one.
        fastest: Speed at the end of the axis, rad/s.
        heaviest: Load at the end of the axis, which the motor carries, N·m.

    Returns:
        A PNG file.
    """
    figure = blank(4.2, _WIDTH)
    left, right = figure.subplots(1, 2, sharey=True)
    speeds, loads = np.linspace(0.0, fastest, _POINTS), np.linspace(0.0, heaviest, _POINTS)
    for place, (_, servo, values) in enumerate(files):
        colour = _COLOURS[place % len(_COLOURS)]
        # Equal curves lie on each other: those below are wider.
        width = 1.2 + 2.4 * (len(files) - 1 - place) / len(files)
        for axes, x, carried, velocity in (
            (left, speeds, np.array([[0.0], [heaviest]]), speeds),
            (right, loads, loads, np.array([[0.0], [fastest]])),
        ):
            curves = friction_under_load(servo.friction, values, carried, velocity)
            for y, dashes in zip(curves, ('-', '--'), strict=True):
                axes.plot(x, _MILLI * y, color=colour, linestyle=dashes, linewidth=width)
    left.set_xlabel('speed [rad/s]', fontsize=_TEXT, color=INK)
    left.set_ylabel('friction [mN·m]', fontsize=_TEXT, color=INK)
    right.set_xlabel('load carried by the motor [N·m]', fontsize=_TEXT, color=INK)
    for axes, plain, dashed in (
        (left, 'without load', f'with {significant(heaviest, 2)} N·m'),
        (right, 'at rest', f'at {significant(fastest, 2)} rad/s'),
    ):
        calm(axes)
        axes.set_ylim(bottom=0)
        axes.margins(x=0)
        axes.set_title(f'solid: {plain}, dashed: {dashed}', fontsize=_SMALL, color=INK, loc='left')
    _head(figure, 'Friction: what is dry and what is viscous together')
    lines = [Line2D([], [], color=_COLOURS[place % len(_COLOURS)]) for place in range(len(files))]
    _legend(figure, lines, [item.name for item in files])
    return figure._repr_png_()


def draw_drive(files: Sequence[ParameterFile], heaviest: float) -> bytes:
    """Draw which loads a motor moves, and which move it, a panel per parameter file.

    Args:
        files: At least one.
        heaviest: Load at the end of the axis, N·m.

    Returns:
        A PNG file.
    """
    columns = min(len(files), 3)
    count = math.ceil(len(files) / columns)
    figure = blank(3.4 * count + 0.9, width=max(3.5 * columns, 5.0))
    # Titles of panels keep off the panels above.
    figure.set_layout_engine('constrained', h_pad=0.1)
    grid = figure.subplots(count, columns, squeeze=False, sharex=True, sharey=True)
    loads = np.linspace(0.0, heaviest, _POINTS)
    far = [
        [_FAR_FROM_REST * item.values['dtheta_stribeck']] if item.servo.friction.stribeck else []
        for item in files
    ]
    diagrams = [
        drive_diagram(item.servo.friction, item.values, loads, [0.0, *speeds])
        for item, speeds in zip(files, far, strict=True)
    ]
    for axes, file, item in zip(grid.flat, files, diagrams, strict=False):
        from_, until = (
            np.nan_to_num(item.backdrive[0]),
            np.nan_to_num(item.drive[0], nan=2 * heaviest),
        )
        axes.fill_betweenx(item.loads, from_, until, color=_SHADE, linewidth=0)
        for curves, colour in ((item.drive, AFTER), (item.backdrive, BEFORE)):
            for torques, dashes in zip(curves, _DASHES, strict=False):
                axes.plot(torques, item.loads, color=colour, linestyle=dashes, linewidth=1.5)
        axes.plot([0, heaviest], [0, heaviest], color=INK, linewidth=0.6)
        calm(axes)
        axes.set_title(shown(file.name), loc='left', fontsize=_TEXT, color=INK).set_parse_math(
            False
        )
        axes.set_xlim(0, heaviest)
        axes.set_ylim(0, heaviest)
        axes.set_aspect('equal')
    for axes in grid.flat[len(files) :]:
        axes.set_visible(False)
    for axes in grid.flat[max(len(files) - columns, 0) : len(files)]:
        axes.tick_params(labelbottom=True)
        axes.set_xlabel('torque of the motor [N·m]', fontsize=_TEXT, color=INK)
    for axes in grid[:, 0]:
        axes.set_ylabel('load [N·m]', fontsize=_TEXT, color=INK)
    lines: list[tuple[Artist, str]] = [
        (Line2D([], [], color=AFTER), 'the motor moves the load'),
        (Line2D([], [], color=BEFORE), 'the load moves the motor'),
        (Patch(color=_SHADE), 'friction holds'),
    ]
    if any(far):
        lines += [
            (Line2D([], [], color=INK), 'at rest'),
            (Line2D([], [], color=INK, linestyle='--'), 'far from rest'),
        ]
    _head(figure, 'Driven and backdriven')
    handles, labels = [line for line, _ in lines], [text for _, text in lines]
    _legend(figure, handles, labels, columns=5 if columns > 1 else 2)
    return figure._repr_png_()


def _head(figure: Figure, text: str) -> None:
    """Set a title literally: a name may hold dollars, which would start a formula."""
    figure.suptitle(shown(text), x=0.01, ha='left', fontsize=11, color=INK).set_parse_math(False)


def _legend(
    figure: Figure, handles: Sequence[Artist], labels: Sequence[str], columns: int = 4
) -> None:
    """Put a legend below everything."""
    found = figure.legend(
        list(handles),
        list(map(shown, labels)),
        loc='outside lower left',
        ncols=min(columns, len(labels)),
        fontsize=_SMALL,
        frameon=False,
    )
    for text in found.get_texts():
        text.set_parse_math(False)
