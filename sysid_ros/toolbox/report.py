# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The toolbox's report: one HTML file of what `optimize` found, with the motion as a film.

The report's packages are imported when a report is made: identification does not need them.
"""

from __future__ import annotations

import dataclasses
import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

import mujoco
import numpy as np

from sysid_ros.errors import FitError, ModelError
from sysid_ros.files import replace_file
from sysid_ros.model.joints import SCALAR_JOINTS
from sysid_ros.signals import TimeSeries
from sysid_ros.toolbox.modifiers import apply_param_modifiers
from sysid_ros.toolbox.rendering import render_rollout
from sysid_ros.toolbox.result import fitted_result
from sysid_ros.toolbox.rollout import sysid_rollout
from sysid_ros.toolbox.trajectory import sequence_labels

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import scipy.optimize
    from numpy.typing import NDArray

    from sysid_ros.report.html import Film
    from sysid_ros.results.result import CalibrationResult
    from sysid_ros.toolbox.callbacks import BuildModelFn
    from sysid_ros.toolbox.parameter import ParameterDict
    from sysid_ros.toolbox.rendering import Color
    from sysid_ros.toolbox.trajectory import ModelSequences, SystemTrajectory


REPORT = 'report.html'
FRAMERATE = 20.0  # Hz
WIDTH, HEIGHT = 480, 360  # pixels
#: A film shows at most so many seconds, and no more recordings than these are filmed.
LONGEST = 10.0
MOST_FILMS = 4
#: The colours of the report's curves.
COLORS: dict[str, Color] = {
    'before': (0.761, 0.341, 0.047, 0.6),
    'after': (0.043, 0.361, 0.678, 0.6),
    'measured': (0.604, 0.627, 0.663, 0.6),
}
#: Of WebP; a frame of 480 by 360 pixels takes about 4 kB.
_QUALITY = 75
_METHOD = 2
#: Colours above and below the horizon, and the light from all sides.
_SKY, _GROUND, _AMBIENT = (0.97, 0.98, 0.99), (0.82, 0.84, 0.87), 0.35
_TEXELS = 64
_POSITION = mujoco.mjtSensor.mjSENS_JOINTPOS.value


@dataclasses.dataclass(frozen=True)
class ToolboxReport:
    """A report that is ready to be shown or saved, what stands above it, and what it shows."""

    title: str
    result: CalibrationResult
    html: str

    def build(self) -> str:
        """Return the HTML page, which carries all that it needs."""
        return self.html

    def save(self, path: str | Path) -> None:
        """Write the HTML page; an existing file is replaced only when all is written."""
        replace_file(Path(path), self.html.encode('utf-8'))


def default_report(  # noqa: PLR0913, PLR0917 (the call form of mujoco.sysid)
    models_sequences: Sequence[ModelSequences],
    initial_params: ParameterDict,
    opt_params: ParameterDict,
    residual_fn: Callable[..., Any],
    opt_result: scipy.optimize.OptimizeResult,
    title: str = 'SysID',
    save_path: str | Path | None = None,
    build_model: BuildModelFn | None = apply_param_modifiers,
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
    result = fitted_result(
        title,
        models_sequences,
        initial_params,
        opt_params,
        residual_fn,
        opt_result,
        (remark,) if remark else (),
    )
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
    build_model: BuildModelFn,
) -> tuple[Film, ...]:
    """Draw the first recordings with the initial values, the fitted ones and as measured."""
    found: list[Film] = []
    for group, labels in zip(models_sequences, sequence_labels(models_sequences), strict=True):
        models = [build_model(params, _lit(group.spec)) for params in (initial_params, opt_params)]
        runs = list(zip(labels, group.measured_rollout, strict=True))[: MOST_FILMS - len(found)]
        found += [_film(label, models, run) for label, run in runs]
    return tuple(found)


def encode(frames: Sequence[NDArray[np.uint8]], framerate: float) -> bytes:
    """Encode (height, width, 3) RGB frames as an animated WebP that repeats."""
    from PIL import Image  # noqa: PLC0415 (see the module's docstring)

    pictures = [Image.fromarray(frame) for frame in frames]
    stream = io.BytesIO()
    pictures[0].save(
        stream,
        format='WEBP',
        save_all=True,
        append_images=pictures[1:],
        duration=round(1000 / framerate),  # ms
        loop=0,
        quality=_QUALITY,
        method=_METHOD,
    )
    return stream.getvalue()


def _lit(spec: mujoco.MjSpec) -> mujoco.MjSpec:
    """Return a copy before a light sky, and bright enough without lights of its own."""
    copy = spec.copy()
    if all(texture.type != mujoco.mjtTexture.mjTEXTURE_SKYBOX for texture in copy.textures):
        copy.add_texture(
            name='sysid_ros_sky',
            type=mujoco.mjtTexture.mjTEXTURE_SKYBOX,
            builtin=mujoco.mjtBuiltin.mjBUILTIN_GRADIENT,
            rgb1=_SKY,
            rgb2=_GROUND,
            width=_TEXELS,
            height=6 * _TEXELS,
        )
    copy.visual.headlight.ambient = np.maximum(copy.visual.headlight.ambient, _AMBIENT)
    return copy


def _film(name: str, models: list[mujoco.MjModel], recorded: SystemTrajectory) -> Film:
    from sysid_ros.report.html import Film  # noqa: PLC0415 (see the module's docstring)

    control = recorded.control
    shown = control.times <= control.times[0] + LONGEST
    control = TimeSeries(control.times[shown], control.data[shown], control.signal_mapping)
    predicted = sysid_rollout(
        models, mujoco.MjData(models[0]), [control] * 2, [recorded.initial_state] * 2
    )
    states = [trajectory.state.matrix for trajectory in predicted if trajectory.state is not None]
    copies = ['before', 'after']
    clock = control.times[0] + models[0].opt.timestep * np.arange(1, len(states[0]) + 1)
    measured = _measured_states(models[0], recorded.sensordata, clock, states[0])
    if measured is not None:
        copies.append('measured')
        states.append(measured)
        models = [*models, models[0]]
    frames = render_rollout(
        models,
        None,
        np.stack(states),
        FRAMERATE,
        width=WIDTH,
        height=HEIGHT,
        colors=[COLORS[copy] for copy in copies],
    )
    colors = {
        copy: '#' + ''.join(f'{round(255 * part):02x}' for part in COLORS[copy][:3])
        for copy in copies
    }
    return Film(
        sequence=name,
        webp=encode(frames, FRAMERATE),
        width=WIDTH,
        height=HEIGHT,
        seconds=len(frames) / FRAMERATE,
        shown=tuple(colors.items()),
        note='' if shown.all() else f'The first {LONGEST:g} s of the recording.',
    )


def _measured_states(
    model: mujoco.MjModel,
    sensordata: TimeSeries,
    clock: NDArray[np.float64],
    like: NDArray[np.float64],
) -> NDArray[np.float64] | None:
    """Return the states that the measured joint positions say; None unless all are measured."""
    if not model.njnt or not np.isin(model.jnt_type, SCALAR_JOINTS).all():
        return None
    states = np.zeros_like(like)
    states[:, 0] = like[:, 0]
    for joint in range(model.njnt):
        own = (model.sensor_type == _POSITION) & (model.sensor_objid == joint)
        names = [model.sensor(int(sensor)).name for sensor in np.flatnonzero(own)]
        names.append(f'{model.joint(joint).name}_qpos')
        name = next((name for name in names if name in sensordata.signal_mapping), None)
        if name is None:
            return None
        values = sensordata.get(name)[:, 0]
        known = np.isfinite(values)
        if not known.any():
            return None
        states[:, 1 + model.jnt_qposadr[joint]] = np.interp(
            clock, sensordata.times[known], values[known]
        )
    return states
