# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A film of one recording: nominal, fitted and measured, drawn in one scene.

It is drawn in a process of its own. A graphics driver that aborts or hangs, where there is no
display, is a sentence in the report then, and not the end of a calibration.
"""

from __future__ import annotations

import base64
import io
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import mujoco
import numpy as np

from sysid_ros.errors import ModelError
from sysid_ros.report.rendering import FULLPHYSICS, render_rollout

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sysid_ros.report.rendering import Color

#: Frames per second, and the size of a frame in pixels: about 3 kB each.
FRAMERATE = 10.0
WIDTH, HEIGHT = 400, 300
#: A film shows at most so many seconds.
LONGEST = 6.0
#: The copies of the model and their colours, which are those of the report's curves.
NOMINAL, FITTED, MEASURED = 'nominal', 'fitted', 'measured'
COLORS: dict[str, Color] = {
    NOMINAL: (0.761, 0.341, 0.047, 0.6),
    FITTED: (0.043, 0.361, 0.678, 0.6),
    MEASURED: (0.604, 0.627, 0.663, 0.6),
}
#: Of WebP.
_QUALITY, _METHOD = 60, 4
#: Colours above and below the horizon, and the light from all sides.
_SKY, _GROUND, _AMBIENT = (0.97, 0.98, 0.99), (0.82, 0.84, 0.87), 0.35
_TEXELS = 64
#: Without a graphics card, smoothing edges takes as long as all else.
_SAMPLES = 0
#: A copy that gets farther than the others by more than this part of their way leaves the picture.
_SLACK = 1.0
#: How long drawing may take, s: some hundred times what it takes.
_PATIENCE = 120.0
_BAD_INPUT = 2
_SCENE = 'scene.npz'


class Copy(NamedTuple):
    """One of the robots in a film.

    Attributes:
        name: A key of `COLORS`.
        model: What it looks like, from a spec that is `lit`.
        states: (n, nstate) ``mjSTATE_FULLPHYSICS`` vectors; not finite where it is not drawn.
    """

    name: str
    model: mujoco.MjModel
    states: NDArray[np.float64]


class Film(NamedTuple):
    """Frames of one sequence, which a page plays.

    Attributes:
        sequence: What was filmed.
        frames: WebP pictures.
        framerate: Frames per second.
        start: When the first frame is, in s from the start of the sequence.
        still: Number of the frame that stands for all, where the copies differ most.
        shown: The copies with the colour of each, as ``(name, '#rrggbb')``.
        note: What is to be known of it; empty where nothing is.
    """

    sequence: str
    frames: tuple[bytes, ...]
    framerate: float
    start: float
    still: int
    shown: tuple[tuple[str, str], ...]
    note: str = ''
    width: int = WIDTH
    height: int = HEIGHT

    @property
    def seconds(self) -> float:
        """How long it takes."""
        return len(self.frames) / self.framerate

    @property
    def pictures(self) -> tuple[str, ...]:
        """The frames in base64."""
        return tuple(base64.b64encode(frame).decode('ascii') for frame in self.frames)


def lit(spec: mujoco.MjSpec) -> mujoco.MjSpec:
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
    copy.visual.quality.offsamples = _SAMPLES
    return copy


def draw_film(
    sequence: str,
    copies: Sequence[Copy],
    *,
    note: str = '',
    framerate: float = FRAMERATE,
    size: tuple[int, int] = (WIDTH, HEIGHT),
) -> Film:
    """Draw copies of a robot in one scene, as the times in their states say.

    Args:
        sequence: What is filmed.
        copies: All with the same number of states at the same times.
        note: For the caption.
        framerate: Frames per second.
        size: Width and height, pixels.

    Raises:
        ModelError: Nothing can be drawn here; the sentence says what to install.
    """
    states = np.stack([copy.states for copy in copies])
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        for number, copy in enumerate(copies):
            mujoco.mj_saveModel(copy.model, str(folder / f'{number}.mjb'))
        names = [copy.name for copy in copies]
        np.savez(folder / _SCENE, states=states, names=names, framerate=framerate, size=size)
        _run(folder)
        frames = tuple(path.read_bytes() for path in sorted(folder.glob('*.webp')))
    apart = np.ptp(np.nan_to_num(states[:, :, 1 : 1 + copies[0].model.nq]), axis=0).sum(axis=1)
    return Film(
        sequence=sequence,
        frames=frames,
        framerate=framerate,
        start=float(states[0, 0, 0]),
        still=int(np.argmax(apart)) * len(frames) // len(apart),
        shown=tuple((copy.name, _hex(COLORS[copy.name])) for copy in copies),
        note=note,
        width=size[0],
        height=size[1],
    )


def _hex(color: Color) -> str:
    return '#' + ''.join(f'{round(255 * part):02x}' for part in color[:3])


def _run(folder: Path) -> None:
    """Draw what is in a folder in a process of its own."""
    try:
        done = subprocess.run(
            [sys.executable, '-m', __name__, str(folder)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors='replace',
            timeout=_PATIENCE,
            check=False,
        )
    except subprocess.TimeoutExpired as err:
        msg = (
            f'Drawing took longer than {_PATIENCE:g} s; choose another OpenGL platform, '
            'as MUJOCO_GL=osmesa with apt install libosmesa6.'
        )
        raise ModelError(msg) from err
    if done.returncode:
        last = done.stderr.strip().rpartition('\n')[2]
        if done.returncode != _BAD_INPUT:
            last = (
                f'OpenGL ended the process that drew it ({last or f"code {done.returncode}"}); '
                'choose another platform, as MUJOCO_GL=osmesa with apt install libosmesa6.'
            )
        raise ModelError(last)


def main(folder: Path) -> int:
    """Draw what a folder holds into numbered WebP files of that folder."""
    from PIL import Image  # noqa: PLC0415 (only this process needs it)

    with np.load(folder / _SCENE) as scene:
        states, names, framerate = scene['states'], scene['names'], float(scene['framerate'])
        width, height = scene['size'].tolist()
    models = [
        mujoco.MjModel.from_binary_path(str(folder / f'{number}.mjb'))
        for number in range(len(states))
    ]
    try:
        pictures = render_rollout(
            models,
            None,
            states,
            framerate,
            _near(models, states, width / height),
            width,
            height,
            colors=[COLORS[name] for name in names.tolist()],
        )
    except ModelError as err:
        print(err, file=sys.stderr)  # noqa: T201 (read by the process that asked for it)
        return _BAD_INPUT
    for number, picture in enumerate(pictures):
        stream = io.BytesIO()
        Image.fromarray(picture).save(stream, format='WEBP', quality=_QUALITY, method=_METHOD)
        (folder / f'{number:04d}.webp').write_bytes(stream.getvalue())
    return 0


def _near(
    models: Sequence[mujoco.MjModel], states: NDArray[np.float64], aspect: float
) -> mujoco.MjvCamera:
    """Return a camera that looks at where the copies move, and not at all of the ground."""
    view = mujoco.MjvCamera()
    mujoco.mjv_defaultFreeCamera(models[0], view)
    turn, tilt = np.radians([view.azimuth, view.elevation])
    ahead = np.array([np.cos(tilt) * np.cos(turn), np.cos(tilt) * np.sin(turn), np.sin(tilt)])
    right = np.array([np.sin(turn), -np.cos(turn), 0.0])
    axes = np.stack([right, np.cross(right, ahead), ahead])
    boxes = [
        box
        for model, own in zip(models, states, strict=True)
        if (box := _box(model, own, axes)) is not None
    ]
    if not boxes:
        return view
    # The last is what was measured, or else the fitted one: the nominal one may fly off.
    low, high = boxes[-1]
    slack = _SLACK * (high - low).max()
    low = np.maximum(np.min([box[0] for box in boxes], axis=0), low - slack)
    high = np.minimum(np.max([box[1] for box in boxes], axis=0), high + slack)
    half = np.tan(np.radians(models[0].vis.global_.fovy) / 2)
    across, up, deep = (high - low) / 2
    view.lookat = axes.T @ ((low + high) / 2)
    view.distance = max(across / (half * aspect), up / half) + deep
    return view


def _box(
    model: mujoco.MjModel, states: NDArray[np.float64], axes: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
    """Return the lowest and the highest (3,) places along axes that moving geoms get to."""
    moving = model.body_weldid[model.geom_bodyid] != 0
    data, places = mujoco.MjData(model), []
    for state in states[np.isfinite(states).all(axis=1)]:
        mujoco.mj_setState(model, data, state, FULLPHYSICS)
        mujoco.mj_kinematics(model, data)
        places.append(data.geom_xpos[moving] @ axes.T)
    if not places or not moving.any():
        return None
    reach = model.geom_rbound[moving][:, None]
    return (np.min(places, axis=0) - reach).min(axis=0), (np.max(places, axis=0) + reach).max(
        axis=0
    )


if __name__ == '__main__':
    sys.exit(main(Path(sys.argv[1])))
