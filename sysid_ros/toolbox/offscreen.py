# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""OpenGL with or without a display, whichever of MuJoCo's platforms works here.

MuJoCo chooses its platform by MUJOCO_GL when it is imported, a window system unless told
otherwise; here it is chosen when something is drawn.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import platform
from typing import TYPE_CHECKING, Any

from sysid_ros.errors import ModelError

if TYPE_CHECKING:
    from collections.abc import Iterator

_GL_OFF = ('disable', 'disabled', 'off', 'false', '0')
_GL_MODULES = ('egl', 'osmesa', 'glfw')


def _backends() -> tuple[str, ...]:
    """Return the OpenGL platforms to try, in order: MUJOCO_GL, or what works without a display.

    Raises:
        ModelError: MUJOCO_GL switches OpenGL off.
    """
    asked = os.environ.get('MUJOCO_GL', '').lower().strip()
    if asked in _GL_OFF:
        msg = f'Rendering is switched off: expected MUJOCO_GL egl, osmesa or unset, got {asked!r}.'
        raise ModelError(msg)
    if asked in _GL_MODULES:
        return (asked,)
    if platform.system() == 'Linux':
        displayed = ('glfw',) if os.environ.get('DISPLAY') else ()
        return ('egl', *displayed, 'osmesa')
    return ('cgl', 'glfw') if platform.system() == 'Darwin' else ('glfw',)


@contextlib.contextmanager
def gl_context(width: int, height: int) -> Iterator[None]:
    """Make an OpenGL context current, on the first platform that gives one.

    Raises:
        ModelError: None does.
    """
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
        msg = (
            'Rendering needs OpenGL without a display, found none '
            f'({"; ".join(reasons)}); get it with `pip install '
            "'sysid_ros[viewer]'` and, on Debian or Ubuntu, apt install libegl1 libgl1."
        )
        raise ModelError(msg)
    try:
        yield
    finally:
        context.free()
