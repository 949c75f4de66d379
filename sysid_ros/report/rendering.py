# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Pictures of simulated motions, several models in one scene, with or without a display.

MuJoCo chooses its OpenGL platform by MUJOCO_GL when it is imported, a window system unless told
otherwise; here it is chosen when something is drawn. A film is drawn in a process of its own: a
graphics driver that aborts or hangs is a sentence in the report then, not the end of a calibration.
"""

from __future__ import annotations

import base64
import contextlib
import importlib
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import mujoco
import numpy as np
from numpy.typing import NDArray

from sysid_ros.errors import ModelError, nearest

Color = tuple[float, float, float, float]

#: ``mjtState`` bits of the state vectors of the toolbox: everything that advances in time.
FULLPHYSICS = mujoco.mjtState.mjSTATE_FULLPHYSICS.value
#: Red, green, blue, amber, violet: RGBA, transparent so that a copy behind another is seen.
TINTS: tuple[Color, ...] = (
    (0.90, 0.25, 0.20, 0.55),
    (0.20, 0.70, 0.30, 0.55),
    (0.20, 0.40, 0.95, 0.55),
    (0.95, 0.65, 0.10, 0.55),
    (0.60, 0.30, 0.85, 0.55),
)

_ALL = mujoco.mjtCatBit.mjCAT_ALL.value
_MOVING = mujoco.mjtCatBit.mjCAT_DYNAMIC.value
#: Geoms of this group are drawn only where a moving body has none in the groups before it.
_SPARE_GROUP = 3
_SCENE_GEOMS = 10_000
#: A frame's row may be this fraction of a step early: stamps are sums of rounded steps.
_ROUNDING = 1e-6
_GL_OFF = ('disable', 'disabled', 'off', 'false', '0')
_GL_MODULES = ('egl', 'osmesa', 'glfw')

#: Frames per second, and the size of the picture in pixels: about 2 kB a frame.
FRAMERATE = 10.0
WIDTH, HEIGHT = 400, 300
#: A film shows at most so many seconds.
LONGEST = 6.0
#: The copies of the model and their colours, which are those of the report's curves.
NOMINAL, FITTED, MEASURED = 'nominal', 'fitted', 'measured'
COLORS = {NOMINAL: '#c2570c', FITTED: '#0b5cad', MEASURED: '#9aa0a9'}
#: Colours above and below the horizon, and the light from all sides.
_SKY, _GROUND, _AMBIENT = (0.97, 0.98, 0.99), (0.82, 0.84, 0.87), 0.35
_TEXELS = 64
#: How long drawing may take, s: some hundred times what it takes.
_PATIENCE = 120.0
_SCENE, _FILM = 'scene.npz', 'film.webp'
_OTHER = 'choose another OpenGL platform, as MUJOCO_GL=osmesa with apt install libosmesa6.'


def render_rollout(  # noqa: PLR0913 (the call form of mujoco.sysid)
    model: mujoco.MjModel | Sequence[mujoco.MjModel],
    data: mujoco.MjData | None,
    state: NDArray[np.float64],
    framerate: float,
    camera: str | int | mujoco.MjvCamera = -1,
    width: int = 640,
    height: int = 480,
    light_pos: Sequence[float] | None = None,
    *,
    colors: Sequence[Color] | None = None,
) -> list[NDArray[np.uint8]]:
    """Draw a motion, or several in one scene, as frames of a film.

    Frame k shows every motion where it was k / ``framerate`` seconds after the first state, by the
    times in the states. No display is needed.

    Args:
        model: The model, or one per motion; all with the same assets.
        data: Where mocap poses and switched equality constraints are taken from; not changed.
            None takes them from the model.
        state: (motions, steps, states) ``mjSTATEFULLPHYSICS`` vectors, as ``mujoco.rollout``
            returns them; (steps, states) is one motion. Copies whose state is not finite are left
            out.
        framerate: Frames per second.
        camera: Name or id of a camera; -1 is the free one, which looks at where the motion gets;
            or a camera of one's own, which stays where it is.
        width: Pixels; not limited by the model's offscreen buffer.
        height: Pixels.
        light_pos: (3,) where a spotlight that shines down is added, m.
        colors: RGBA of each motion's moving geoms. By default several motions are tinted where
            their models are coloured alike, and keep the colours of their models elsewhere.

    Returns:
        (height, width, 3) RGB pictures.

    Raises:
        ModelError: There is no OpenGL, or models, states and camera do not go together.
    """
    states = np.asarray(state, dtype=np.float64)
    states = states[None] if states.ndim == len(('steps', 'states')) else states
    models = _one_per_motion(model, states)
    tints = _tints(models, colors)
    datas = [_scratch(m, data) for m in models]
    shown = _rows(models, states, framerate)
    option = mujoco.MjvOption()
    option.geomgroup[_SPARE_GROUP] = not all(
        np.any(m.geom_group[m.body_weldid[m.geom_bodyid] != 0] < _SPARE_GROUP) for m in models
    )
    view = camera if isinstance(camera, mujoco.MjvCamera) else _camera(models[0], camera)
    if view is not camera and view.type == mujoco.mjtCamera.mjCAMERA_FREE:
        motions = [own[np.unique(rows)] for own, rows in zip(states, shown.T, strict=True)]
        _look_at(view, models, datas, motions, width / height)
    viewport = mujoco.MjrRect(0, 0, width, height)
    frames = []
    with contextlib.ExitStack() as stack:
        stack.enter_context(gl_context(width, height))
        context = mujoco.MjrContext(models[0], mujoco.mjtFontScale.mjFONTSCALE_150.value)
        stack.callback(context.free)
        mujoco.mjr_resizeOffscreen(width, height, context)
        mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN.value, context)
        scene = mujoco.MjvScene(models[0], _SCENE_GEOMS)
        # Copies that are seen through each other would shade each other; and without a graphics
        # card most of the time goes into shadows.
        scene.flags[mujoco.mjtRndFlag.mjRND_SHADOW] = len(models) == 1
        for rows in shown:
            scene.ngeom = 0
            now = states[np.arange(len(rows)), rows]
            for own, data_, tint, found in zip(models, datas, tints, now, strict=True):
                if not np.isfinite(found).all():
                    continue
                mujoco.mj_setState(own, data_, found, FULLPHYSICS)
                mujoco.mj_forward(own, data_)
                start = scene.ngeom
                if start:
                    mujoco.mjv_addGeoms(own, data_, option, mujoco.MjvPerturb(), _MOVING, scene)
                else:  # The first brings the surroundings.
                    mujoco.mjv_updateScene(own, data_, option, None, view, _ALL, scene)
                for geom in scene.geoms[start : scene.ngeom]:
                    if tint is not None and geom.category == _MOVING:
                        geom.rgba, geom.matid, geom.transparent = tint, -1, int(tint[3] < 1)
            if light_pos is not None:
                _add_spotlight(scene, light_pos)
            image = np.empty((height, width, 3), dtype=np.uint8)
            mujoco.mjr_render(viewport, scene, context)
            mujoco.mjr_readPixels(image, None, viewport, context)
            frames.append(image[::-1].copy())
    return frames


def _one_per_motion(
    model: mujoco.MjModel | Sequence[mujoco.MjModel], states: NDArray[np.float64]
) -> list[mujoco.MjModel]:
    """Check that models and states go together and return a model for every motion."""
    if states.ndim != len(('motions', 'steps', 'states')) or not states.shape[1]:
        raise ModelError(f'Expected states of shape (motions, steps, states), got {states.shape}.')
    models = list(model) if isinstance(model, Sequence) else [model]
    if len(models) == 1:
        models *= len(states)
    if len(models) != len(states):
        raise ModelError(
            f'Expected one model or one per motion ({len(states)}), got {len(models)}.'
        )
    for number, one in enumerate(models):
        size = mujoco.mj_stateSize(one, FULLPHYSICS)
        if size != states.shape[2]:
            raise ModelError(
                f'Model {number} has states of {size} numbers, got states of {states.shape[2]}.'
            )
        found, shared = ((m.nmesh, m.nhfield, m.ntex) for m in (one, models[0]))
        if found != shared:
            raise ModelError(
                'Models in one scene share meshes, height fields and textures: the first has '
                f'{shared} of them, model {number} has {found}.'
            )
    return models


def _tints(models: list[mujoco.MjModel], colors: Sequence[Color] | None) -> list[Color | None]:
    """Return the colour that each motion gets; None keeps that of its model."""
    if colors is not None:
        if len(colors) != len(models):
            raise ModelError(f'Expected one colour per motion ({len(models)}), got {len(colors)}.')
        return list(colors)
    looks = {(m.geom_rgba.tobytes(), m.mat_rgba.tobytes(), m.geom_matid.tobytes()) for m in models}
    if len(looks) == len(models):
        return [None] * len(models)
    return [TINTS[number % len(TINTS)] for number in range(len(models))]


def _scratch(model: mujoco.MjModel, data: mujoco.MjData | None) -> mujoco.MjData:
    own = mujoco.MjData(model)
    user = mujoco.mjtState.mjSTATE_USER.value
    size = mujoco.mj_stateSize(model, user)
    if data is not None and mujoco.mj_stateSize(data.model, user) == size:
        vector = np.empty(size)
        mujoco.mj_getState(data.model, data, vector, user)
        mujoco.mj_setState(model, own, vector, user)
    return own


def _rows(
    models: list[mujoco.MjModel], states: NDArray[np.float64], framerate: float
) -> NDArray[np.int64]:
    """Return (frames, motions): the state that each motion is in, frame by frame."""
    if not (np.isfinite(framerate) and framerate > 0):
        raise ModelError(f'Expected a framerate above 0 Hz, got {framerate}.')
    count = states.shape[1]
    times = states[:, :, 0].copy()
    for clock, model in zip(times, models, strict=True):
        if not np.isfinite(clock).all() or clock[-1] <= clock[0]:  # diverged, or without times
            begin = clock[0] if np.isfinite(clock[0]) else 0.0
            clock[:] = begin + model.opt.timestep * np.arange(count)
    start, end = times[:, 0].min(), times[:, -1].max()
    slack = _ROUNDING * models[0].opt.timestep
    instants = start + np.arange(int((end - start + slack) * framerate) + 1) / framerate
    rows = []
    for clock in times:
        after = np.clip(np.searchsorted(clock, instants - slack), 1, max(count - 1, 1)) % count
        before = np.maximum(after - 1, 0)
        rows.append(np.where(instants - clock[before] < clock[after] - instants, before, after))
    return np.stack(rows, axis=1).astype(np.int64)


def _look_at(
    view: mujoco.MjvCamera,
    models: list[mujoco.MjModel],
    datas: list[mujoco.MjData],
    motions: list[NDArray[np.float64]],
    aspect: float,
) -> None:
    """Point a free camera at where moving geoms get, and not at all of the ground.

    The last motion is always seen whole: those before it may fly off.
    """
    turn, tilt = np.radians([view.azimuth, view.elevation])
    ahead = np.array([np.cos(tilt) * np.cos(turn), np.cos(tilt) * np.sin(turn), np.sin(tilt)])
    right = np.array([np.sin(turn), -np.cos(turn), 0.0])
    axes = np.stack([right, np.cross(right, ahead), ahead])
    lows, highs = [], []
    for model, data, states in zip(models, datas, motions, strict=True):
        moving = model.body_weldid[model.geom_bodyid] != 0
        reach = model.geom_rbound[moving][:, None]
        places = []
        for state in states[np.isfinite(states).all(axis=1)]:
            mujoco.mj_setState(model, data, state, FULLPHYSICS)
            mujoco.mj_kinematics(model, data)
            places.append(data.geom_xpos[moving] @ axes.T)
        if places and moving.any():
            lows.append(np.min(places - reach, axis=(0, 1)))
            highs.append(np.max(places + reach, axis=(0, 1)))
    if not lows:
        return
    # A copy that gets farther than the last one by more than its way leaves the picture.
    slack = (highs[-1] - lows[-1]).max()
    low = np.maximum(np.min(lows, axis=0), lows[-1] - slack)
    high = np.minimum(np.max(highs, axis=0), highs[-1] + slack)
    half = np.tan(np.radians(models[0].vis.global_.fovy) / 2)
    across, up, deep = (high - low) / 2
    view.lookat = axes.T @ ((low + high) / 2)
    view.distance = max(across / (half * aspect), up / half) + deep


def _add_spotlight(scene: mujoco.MjvScene, position: Sequence[float]) -> None:
    light = scene.lights[scene.nlight]
    light.type = mujoco.mjtLightType.mjLIGHT_SPOT
    light.pos, light.dir = position, (0, 0, -1)
    light.ambient, light.diffuse, light.specular = (0, 0, 0), (0.8,) * 3, (0.3,) * 3
    light.attenuation, light.cutoff, light.exponent = (1, 0, 0), 45, 10
    light.castshadow, light.headlight = 1, 0
    light.id = light.texid = -1
    scene.nlight += 1


def _camera(model: mujoco.MjModel, camera: str | int) -> mujoco.MjvCamera:
    """Find a camera of a model."""
    view = mujoco.MjvCamera()
    mujoco.mjv_defaultFreeCamera(model, view)
    number = camera
    if isinstance(camera, str):
        number = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_CAMERA, camera)
        if number < 0:
            names = [model.camera(row).name for row in range(model.ncam)]
            raise ModelError(f'No camera is named {camera!r}; {nearest(camera, names)}.')
    elif not -1 <= camera < model.ncam:
        raise ModelError(f'Expected a camera from -1 (free) to {model.ncam - 1}, got {camera}.')
    if number != -1:
        view.type, view.fixedcamid = mujoco.mjtCamera.mjCAMERA_FIXED, number
    return view


def _backends() -> tuple[str, ...]:
    """Return the OpenGL platforms to try, in order: MUJOCO_GL, or what works without a display."""
    asked = os.environ.get('MUJOCO_GL', '').lower().strip()
    if asked in _GL_OFF:
        raise ModelError(
            f'Rendering is switched off: expected MUJOCO_GL egl, osmesa or unset, got {asked!r}.'
        )
    if asked in _GL_MODULES:
        return (asked,)
    if platform.system() == 'Linux':
        displayed = ('glfw',) if os.environ.get('DISPLAY') else ()
        return ('egl', *displayed, 'osmesa')
    return ('cgl', 'glfw') if platform.system() == 'Darwin' else ('glfw',)


@contextlib.contextmanager
def gl_context(width: int, height: int) -> Iterator[None]:
    """Make an OpenGL context current, on the first platform that gives one."""
    reasons = []
    context: Any = None
    for backend in _backends():
        try:
            context = importlib.import_module(f'mujoco.{backend}').GLContext(width, height)
            context.make_current()
            break
        # A missing library shows as any of many exceptions of PyOpenGL, ctypes and glfw.
        except Exception as err:  # noqa: BLE001
            reasons.append(f'{backend}: {(str(err).splitlines() or [type(err).__name__])[0]}')
            context = None
    if context is None:
        raise ModelError(
            'Rendering needs OpenGL without a display, found none '
            f'({"; ".join(reasons)}); get it with `pip install '
            "'sysid_ros[viewer]'` and, on Debian or Ubuntu, apt install libegl1 libgl1."
        )
    try:
        yield
    finally:
        context.free()


class Copy(NamedTuple):
    """One of the robots in a film."""

    name: str  # a key of `COLORS`
    model: mujoco.MjModel  # what it looks like, from a spec that is `lit`
    #: (n, nstate) ``mjSTATE_FULLPHYSICS`` vectors; not finite where it is not drawn.
    states: NDArray[np.float64]


class Film(NamedTuple):
    """An animated picture of one sequence, its copies as ``(name, '#rrggbb')``, and a caption."""

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
    # Without a graphics card, smoothing edges takes as long as all else.
    copy.visual.quality.offsamples = 0
    return copy


def draw_film(sequence: str, copies: Sequence[Copy], *, note: str = '') -> Film:
    """Draw copies of a robot, which have states at the same times, in one scene.

    Raises:
        ModelError: Nothing can be drawn here; the sentence says what to install.
    """
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        for number, copy in enumerate(copies):
            mujoco.mj_saveModel(copy.model, str(folder / f'{number}.mjb'))
        names = [copy.name for copy in copies]
        np.savez(folder / _SCENE, states=np.stack([copy.states for copy in copies]), names=names)
        try:
            done = subprocess.run(
                [sys.executable, '-m', __name__, place],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors='replace',
                timeout=_PATIENCE,
                check=False,
            )
        except subprocess.TimeoutExpired as err:
            raise ModelError(f'Drawing took longer than {_PATIENCE:g} s; {_OTHER}') from err
        last = done.stderr.strip().rpartition('\n')[2]
        if known := last.partition(f'{ModelError.__name__}: ')[2]:
            raise ModelError(known)
        if done.returncode:
            last = last or f'code {done.returncode}'
            raise ModelError(f'OpenGL ended the process that drew it ({last}); {_OTHER}')
        webp = (folder / _FILM).read_bytes()
    return Film(sequence, webp, tuple((name, COLORS[name]) for name in names), note)


def main(folder: Path) -> None:
    """Draw what a folder holds into a film in that folder."""
    from PIL import Image, ImageColor  # noqa: PLC0415 (only the process that draws needs it)

    with np.load(folder / _SCENE) as scene:
        states, names = scene['states'], scene['names'].tolist()
    models = [
        mujoco.MjModel.from_binary_path(str(folder / f'{number}.mjb'))
        for number in range(len(states))
    ]
    parts = (ImageColor.getrgb(COLORS[name]) for name in names)
    colors: list[Color] = [(r / 255, g / 255, b / 255, TINTS[0][3]) for r, g, b, *_ in parts]
    pictures = render_rollout(
        models, None, states, FRAMERATE, width=WIDTH, height=HEIGHT, colors=colors
    )
    first, *others = map(Image.fromarray, pictures)
    milliseconds = round(1000 / FRAMERATE)
    first.save(folder / _FILM, save_all=True, append_images=others, duration=milliseconds, loop=0)


if __name__ == '__main__':
    main(Path(sys.argv[1]))
