# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A film of one recording: nominal, fitted and measured, drawn in one scene.

It is drawn in a process of its own. A graphics driver that aborts or hangs, where there is no
display, is a sentence in the report then, and not the end of a calibration.
"""

from __future__ import annotations

import base64
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

#: Frames per second, and the size of the picture in pixels: about 1.5 kB a frame.
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
_QUALITY, _METHOD = 50, 4
#: What differs by more of 255 has moved; with so many pixels around it for what is less.
_MOVED, _AROUND = 8, 2
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
_GROUND_FILE = 'ground.webp'


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


class Frame(NamedTuple):
    """What has moved in a frame of a film.

    Attributes:
        left, top: Where it is before the ground, in pixels.
        width: Of it, pixels.
        picture: WebP.
    """

    left: int
    top: int
    width: int
    picture: bytes

    @property
    def text(self) -> str:
        """The picture in base64."""
        return base64.b64encode(self.picture).decode('ascii')


class Film(NamedTuple):
    """Frames of one sequence, which a page plays.

    Attributes:
        sequence: What was filmed.
        ground: What is seen where nothing moves, as WebP.
        frames: What has moved before it. Whole pictures would take twice the room.
        framerate: Frames per second.
        start: When the first frame is, in s from the start of the sequence.
        still: Number of the frame that stands for all, where the copies differ most.
        shown: The copies with the colour of each, as ``(name, '#rrggbb')``.
        note: What is to be known of it; empty where nothing is.
    """

    sequence: str
    ground: bytes
    frames: tuple[Frame, ...]
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
    def moves(self) -> tuple[tuple[int, int, str], ...]:
        """Left, top and picture in base64 of each frame."""
        return tuple((frame.left, frame.top, frame.text) for frame in self.frames)

    @property
    def ground_text(self) -> str:
        """The ground in base64."""
        return base64.b64encode(self.ground).decode('ascii')


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
        frames = tuple(_frame(path) for path in sorted(folder.glob('*_*.webp')))
        ground = (folder / _GROUND_FILE).read_bytes()
    apart = np.ptp(np.nan_to_num(states[:, :, 1 : 1 + copies[0].model.nq]), axis=0).sum(axis=1)
    return Film(
        sequence=sequence,
        ground=ground,
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
    """Draw what a folder holds into WebP files of that folder: the ground, and what has moved."""
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
    ground = np.median(pictures, axis=0).astype(np.uint8)
    _save(ground, folder / _GROUND_FILE)
    for number, picture in enumerate(pictures):
        rows, columns = _moved(picture, ground)
        name = f'{number:04d}_{columns.start}_{rows.start}_{columns.stop - columns.start}.webp'
        _save(picture[rows, columns], folder / name)
    return 0


def _frame(path: Path) -> Frame:
    """Read a frame that `main` wrote; the name of its file says where it is."""
    _, left, top, width = map(int, path.stem.split('_'))
    return Frame(left, top, width, path.read_bytes())


def _save(picture: NDArray[np.uint8], path: Path) -> None:
    """Write an (height, width, 3) RGB picture as WebP."""
    from PIL import Image  # noqa: PLC0415 (only the process that draws needs it)

    Image.fromarray(picture).save(path, quality=_QUALITY, method=_METHOD)


def _moved(picture: NDArray[np.uint8], ground: NDArray[np.uint8]) -> tuple[slice, slice]:
    """Return the rows and columns of what is not as the ground; a corner where all is."""
    moved = (np.abs(picture.astype(np.int16) - ground) > _MOVED).any(axis=2)
    slices = []
    for axis, size in ((1, len(moved)), (0, moved.shape[1])):
        places = np.flatnonzero(moved.any(axis=axis))
        first, last = (int(places[0]), int(places[-1])) if len(places) else (0, 0)
        slices.append(slice(max(first - _AROUND, 0), min(last + _AROUND + 1, size)))
    return slices[0], slices[1]


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
