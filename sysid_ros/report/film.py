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
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import mujoco
import numpy as np
from numpy.typing import NDArray

from sysid_ros.errors import ModelError
from sysid_ros.report.rendering import Color, render_rollout

#: Frames per second, and the size of the picture in pixels: about 2 kB a frame.
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
#: Of WebP: of pictures, 0 to 100, and of the search for a small file, 0 to 6.
_QUALITY, _METHOD = 50, 4
#: Colours above and below the horizon, and the light from all sides.
_SKY, _GROUND, _AMBIENT = (0.97, 0.98, 0.99), (0.82, 0.84, 0.87), 0.35
_TEXELS = 64
#: Without a graphics card, smoothing edges takes as long as all else.
_SAMPLES = 0
#: How long drawing may take, s: some hundred times what it takes.
_PATIENCE = 120.0
_BAD_INPUT = 2
_SCENE, _FILM = 'scene.npz', 'film.webp'


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
    """A film of one sequence, which repeats.

    Attributes:
        sequence: What was filmed.
        webp: An animated picture.
        shown: The copies with the colour of each, as ``(name, '#rrggbb')``.
        note: What is to be known of it; empty where nothing is.
    """

    sequence: str
    webp: bytes
    shown: tuple[tuple[str, str], ...]
    note: str = ''
    width: int = WIDTH
    height: int = HEIGHT

    @property
    def text(self) -> str:
        """The picture in base64."""
        return base64.b64encode(self.webp).decode('ascii')


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


def draw_film(sequence: str, copies: Sequence[Copy], *, note: str = '') -> Film:
    """Draw copies of a robot in one scene, as the times in their states say.

    Args:
        sequence: What is filmed.
        copies: All with the same number of states at the same times.
        note: For the caption.

    Raises:
        ModelError: Nothing can be drawn here; the sentence says what to install.
    """
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        for number, copy in enumerate(copies):
            mujoco.mj_saveModel(copy.model, str(folder / f'{number}.mjb'))
        names = [copy.name for copy in copies]
        np.savez(folder / _SCENE, states=np.stack([copy.states for copy in copies]), names=names)
        _run(folder)
        webp = (folder / _FILM).read_bytes()
    return Film(sequence, webp, tuple((name, _hex(COLORS[name])) for name in names), note)


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
        raise ModelError(
            f'Drawing took longer than {_PATIENCE:g} s; choose another OpenGL platform, '
            'as MUJOCO_GL=osmesa with apt install libosmesa6.'
        ) from err
    if done.returncode:
        last = done.stderr.strip().rpartition('\n')[2]
        if done.returncode != _BAD_INPUT:
            last = (
                f'OpenGL ended the process that drew it ({last or f"code {done.returncode}"}); '
                'choose another platform, as MUJOCO_GL=osmesa with apt install libosmesa6.'
            )
        raise ModelError(last)


def main(folder: Path) -> int:
    """Draw what a folder holds into a film in that folder."""
    from PIL import Image  # noqa: PLC0415 (only the process that draws needs it)

    with np.load(folder / _SCENE) as scene:
        states, names = scene['states'], scene['names'].tolist()
    models = [
        mujoco.MjModel.from_binary_path(str(folder / f'{number}.mjb'))
        for number in range(len(states))
    ]
    colors = [COLORS[name] for name in names]
    try:
        pictures = render_rollout(
            models, None, states, FRAMERATE, width=WIDTH, height=HEIGHT, colors=colors
        )
    except ModelError as err:
        print(err, file=sys.stderr)  # noqa: T201 (read by the process that asked for it)
        return _BAD_INPUT
    first, *others = map(Image.fromarray, pictures)
    first.save(
        folder / _FILM,
        save_all=True,
        append_images=others,
        duration=round(1000 / FRAMERATE),  # ms
        loop=0,
        quality=_QUALITY,
        method=_METHOD,
    )
    return 0


if __name__ == '__main__':
    sys.exit(main(Path(sys.argv[1])))
