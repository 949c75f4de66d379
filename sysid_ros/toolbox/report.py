# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The toolbox's report: the result of `optimize` as a CalibrationResult and one HTML file.

The report's packages are imported when a report is made: identification does not need them.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from sysid_ros.errors import FitError, ModelError
from sysid_ros.files import replace_file
from sysid_ros.toolbox.comparison import compare
from sysid_ros.toolbox.modifiers import apply_param_modifiers
from sysid_ros.toolbox.overlay import COLORS, FRAMERATE, HEIGHT, LONGEST, WIDTH, overlays

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import mujoco
    import scipy.optimize

    from sysid_ros.report.films import Film
    from sysid_ros.results.result import CalibrationResult
    from sysid_ros.toolbox.parameter import ParameterDict
    from sysid_ros.toolbox.trajectory import ModelSequences

    BuildModel = Callable[[ParameterDict, mujoco.MjSpec], mujoco.MjModel]

REPORT = 'report.html'


class ToolboxReport:
    """A report that is ready to be shown or saved.

    Attributes:
        title: What stands above it.
        result: What it shows.
    """

    def __init__(self, title: str, result: CalibrationResult, html: str) -> None:
        """Keep what was rendered."""
        self.title = title
        self.result = result
        self._html = html

    def build(self) -> str:
        """Return the HTML page, which carries all that it needs."""
        return self._html

    def save(self, path: str | Path) -> None:
        """Write the HTML page; an existing file is replaced only when all is written.

        Raises:
            ResultError: The file cannot be written.
        """
        replace_file(Path(path), self._html.encode('utf-8'))


def default_report(  # noqa: PLR0913, PLR0917 (the call form of mujoco.sysid)
    models_sequences: Sequence[ModelSequences],
    initial_params: ParameterDict,
    opt_params: ParameterDict,
    residual_fn: Callable[..., Any],
    opt_result: scipy.optimize.OptimizeResult,
    title: str = 'SysID',
    save_path: str | Path | None = None,
    build_model: BuildModel | None = apply_param_modifiers,
    generate_videos: bool = True,  # noqa: FBT002 (the call form of mujoco.sysid)
    *,
    truth: Mapping[str, float] | None = None,
) -> ToolboxReport:
    """Report what `optimize` found in one HTML file that opens offline.

    It shows values with intervals and verdicts, the error of each signal before and after, every
    signal with the predictions of both, the motion before and after as an animation, and the
    solver's trace. The specs and parameters that are passed are not changed.

    Args:
        models_sequences: Models and their recordings.
        initial_params: Where the fit began.
        opt_params: Where it ended.
        residual_fn: What was minimised, from `build_residual_fn`.
        opt_result: What `optimize` returned beside the parameters.
        title: Stands above the report.
        save_path: Folder for ``report.html``, made if it is not there; None writes nothing.
        build_model: Compiles parameters into a copy of a spec that it is given, for the animation.
        generate_videos: Whether to make the animation. Where there is no OpenGL, the report says
            so instead.
        truth: True values by parameter name, where they are known; they add a column.

    Returns:
        An object with ``build()``, which returns the page, and ``save(path)``.

    Raises:
        FitError: ``build_model`` is None and an animation was asked for, or the residual function
            returns other sequences than there are.
        ResultError: The file cannot be written.
    """
    from sysid_ros.report import render_report  # noqa: PLC0415 (see the module's docstring)
    from sysid_ros.toolbox.as_result import summarize  # noqa: PLC0415

    films: tuple[Film, ...] = ()
    remark = ''
    if generate_videos:
        if build_model is None:
            msg = (
                'Expected build_model for the animation, found None; or pass generate_videos=False.'
            )
            raise FitError(msg)
        try:
            films = _films(models_sequences, initial_params, opt_params, build_model)
        except ModelError as err:
            remark = f'There is no animation: {err}'
    comparison = compare(models_sequences, initial_params, opt_params, residual_fn, opt_result)
    result = summarize(title, comparison, opt_result, (remark,) if remark else ())
    report = ToolboxReport(
        title, result, render_report(result, truth=truth, title=title, films=films)
    )
    if save_path is not None:
        report.save(Path(save_path) / REPORT)
    return report


def _films(
    models_sequences: Sequence[ModelSequences],
    initial_params: ParameterDict,
    opt_params: ParameterDict,
    build_model: BuildModel,
) -> tuple[Film, ...]:
    from sysid_ros.report.films import Film, encode  # noqa: PLC0415 (see the module's docstring)

    return tuple(
        Film(
            sequence=overlay.sequence,
            webp=encode(overlay.frames, FRAMERATE),
            width=WIDTH,
            height=HEIGHT,
            seconds=len(overlay.frames) / FRAMERATE,
            shown=tuple((name, _hex(COLORS[name])) for name in overlay.shown),
            note=f'The first {LONGEST:g} s of the recording.' if overlay.cut else '',
        )
        for overlay in overlays(models_sequences, initial_params, opt_params, build_model)
    )


def _hex(color: tuple[float, ...]) -> str:
    return '#' + ''.join(f'{round(255 * part):02x}' for part in color[:3])
