# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Animations inside the report: pictures that move, as one image each."""

from __future__ import annotations

import base64
import io
from typing import TYPE_CHECKING, NamedTuple

from PIL import Image

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

#: Of WebP; a frame of 480 by 360 pixels takes about 4 kB.
_QUALITY = 75
_METHOD = 2


class Film(NamedTuple):
    """An animation of one sequence.

    Attributes:
        sequence: What it shows.
        webp: The animated image.
        width: Pixels.
        height: Pixels.
        seconds: How long it runs until it begins again.
        shown: Names of the copies with the colour of each, as ``(name, '#rrggbb')``.
        note: A sentence about what is not shown; empty where all is.
    """

    sequence: str
    webp: bytes
    width: int
    height: int
    seconds: float
    shown: tuple[tuple[str, str], ...]
    note: str = ''

    @property
    def source(self) -> str:
        """The image as a data URI."""
        return 'data:image/webp;base64,' + base64.b64encode(self.webp).decode('ascii')


def encode(frames: Sequence[NDArray[np.uint8]], framerate: float) -> bytes:
    """Encode (height, width, 3) RGB frames as an animated WebP that repeats.

    Args:
        frames: At least one.
        framerate: Hz; the format stores whole milliseconds per frame, so their ends are rounded.
    """
    pictures = [Image.fromarray(frame) for frame in frames]
    ends = [round(1000 * (number + 1) / framerate) for number in range(len(pictures))]
    durations = [end - start for start, end in zip([0, *ends], ends, strict=False)]
    stream = io.BytesIO()
    pictures[0].save(
        stream,
        format='WEBP',
        save_all=True,
        append_images=pictures[1:],
        duration=durations,
        loop=0,
        quality=_QUALITY,
        method=_METHOD,
    )
    return stream.getvalue()
