# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The pictures of the tutorials: simulated robots, and what a fit leaves of held-out motion.

Without a display, ``MUJOCO_GL=egl`` has to be set for the portraits. Each picture has the joint
that is predicted worst. Those of the gallery are drawn by ``benchmarks/gallery.py``.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import yaml
from PIL import Image

from sysid_ros.cli.main import main as sysid
from sysid_ros.config.files import read_yaml
from sysid_ros.model.loading import compile_spec
from sysid_ros.results.result import CalibrationResult
from sysid_ros.results.store import find
from sysid_ros.workflows.excitation.drives import load_driven

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / 'benchmarks'))

from shared.drawing import draw, worst  # noqa: E402 (which is where that is)

PICTURES = ROOT / 'docs' / 'images'


def tutorial(folder: Path, robot: str, model: str, name: str) -> dict[str, Any]:
    """Go the way of a tutorial up to its configuration, with a portrait of the robot."""
    shutil.copytree(ROOT / 'examples/tutorials', folder, dirs_exist_ok=True)
    program = [sys.executable, 'make_bags.py', robot]
    subprocess.run(program, check=True, cwd=folder)
    bags = [str(folder / 'bags' / bag) for bag in ('train_1', 'train_2', 'validate_1')]
    config = folder / 'proposed.yaml'
    sysid(['init', *bags, str(folder / model), '-o', str(config)])
    portrait(folder / model, PICTURES / f'{name}-robot.webp')
    return dict(read_yaml(config))


def portrait(model: Path, path: Path) -> None:
    """Draw a robot as it stands in a pose in which its joints show."""
    compiled = compile_spec(load_driven(model), model)
    data = mujoco.MjData(compiled)
    data.qpos[:] = np.linspace(0.5, 0.9, compiled.nq)
    mujoco.mj_forward(compiled, data)
    camera = mujoco.MjvCamera()
    camera.lookat[:] = compiled.stat.center
    camera.distance, camera.azimuth, camera.elevation = 1.4 * compiled.stat.extent, 130, -15
    with mujoco.Renderer(compiled, 360, 480) as renderer:
        renderer.update_scene(data, camera)
        image = renderer.render().copy()
        renderer.enable_segmentation_rendering()
        renderer.update_scene(data, camera)
        robot = renderer.render()[:, :, 0] >= 0
    image[~robot] = 255
    rows, columns = (np.flatnonzero(robot.any(axis=axis)) for axis in (1, 0))
    Image.fromarray(image[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]).save(path)


def pendulum() -> dict[str, Any]:
    """Return the calibration of the notebook."""
    folder = ROOT / 'test/data/pendulum'
    config = dict(read_yaml(folder / 'calibration.yaml'))
    config['model'] = str(folder / config['model'])
    config['bags'] = [{**bag, 'path': str(folder / bag['path'])} for bag in config['bags']]
    return {**config, 'output': 'out'}


CASES: dict[str, Callable[[Path], dict[str, Any]]] = {
    'notebook': lambda _: pendulum(),
    'arm': lambda folder: tutorial(folder, 'arm', 'arm.urdf', 'tutorial-arm'),
    'so-arm': lambda folder: tutorial(folder, 'so_arm', 'so_arm.xml', 'tutorial-so-arm'),
}


def show(name: str) -> None:
    """Calibrate, and draw."""
    folder = Path(tempfile.mkdtemp(prefix=f'{name}-'))
    config = folder / 'calibration.yaml'
    config.write_text(yaml.safe_dump(CASES[name](folder), sort_keys=False))
    sysid(['calibrate', str(config)])
    result = CalibrationResult.load(find(folder / 'out' / 'current'))
    draw(worst(result, ('rad',)), PICTURES / f'tutorial-{name}.webp')


if __name__ == '__main__':
    for case in sys.argv[1:] or CASES:
        show(case)
