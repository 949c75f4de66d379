# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""From a bag to time series on disk."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sysid_ros.alignment import Alignment, Format, write_series
from sysid_ros.files import check_writable
from sysid_ros.pipeline.problem import ReadOptions, read_aligned


def convert(
    bag: Path,
    model: Path,
    output: Path | None,
    options: ReadOptions | None = None,
    formats: Sequence[Format] = (Format.NPZ, Format.CSV),
) -> tuple[Alignment, tuple[Path, ...]]:
    """Turn a bag into time series aligned with a model.

    Args:
        bag: Bag folder.
        model: MJCF, URDF or xacro file, or a bag with a ``robot_description``.
        output: Folder for the series; None writes nothing.
        options: How the bag is read; by names, all of it, unless told otherwise.
        formats: How the series are written.

    Returns:
        The aligned sequences with everything that is to be said about them, and the new files.

    Raises:
        SysidError: In one sentence, what is wrong with the bag, the model or the mapping.
    """
    alignment, compiled = read_aligned(bag, model, options or ReadOptions())
    if output is None:
        return alignment, ()
    check_writable(output)
    return alignment, write_series(output, alignment, compiled, formats)
