# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The pictures of the gallery and the tutorials: what a calibration leaves on held-out motion.

``--only arm so_arm pendulum`` makes those of the tutorials, from simulated robots (with a portrait,
for which ``MUJOCO_GL=egl`` has to be set without a display). The others are of real robots, whose
recordings are not part of the project: ``--data DIR`` is the folder that holds them, with github
mauicv/servo-sysid as ``servo_sysid`` and iit-DLSLab/sim2real-robot-identification as ``go2_iit``
(both BSD-3-Clause), and isaac-sim2real/sage (Apache-2.0) with the model of TheRobotStudio/SO-ARM100
(Apache-2.0) as ``so101``. Each picture has the joint that is predicted worst.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib as mpl
import mujoco
import numpy as np
import yaml
from numpy.typing import NDArray
from PIL import Image

from sysid_ros.cli.main import main as sysid
from sysid_ros.config.files import read_yaml
from sysid_ros.model.loading import compile_spec
from sysid_ros.results.result import CalibrationResult, SignalPlot
from sysid_ros.results.store import find
from sysid_ros.workflows.excitation.drives import load_driven

ROOT = Path(__file__).parents[1]
DATA = Path(os.environ.get('SYSID_SHARED_DATA', ROOT.parent / 'shared' / 'data'))
PICTURES = ROOT / 'docs' / 'images'
#: What is unknown of the hobby arm's servos.
_HOBBY_ARM = [
    {'target': 'actuator/*/kp', 'shared': True, 'initial': 15, 'bounds': [1, 2000], 'scale': 'log'},
    {'target': 'actuator/*/kv', 'initial': 0.5},
    {'target': 'joint/*/frictionloss'},
    {
        'target': 'joint/*/solimpfriction',
        'shared': True,
        'initial': 0.999,
        'prior': {'std': 1e-4},
    },
]
#: What a figure shows of a recording at most, s.
_SHOWN = 12.0
#: Every so many of the servo's runs are used, and every so many of those are held out.
_USED, _HELD_OUT = 4, 4
#: The quadruped's log is for training until here, s.
_TRAINED = 15.0
#: How long hobby arm and quadruped may be fitted, s.
_LIMIT = 60


def csv(path: Path, times: NDArray[np.float64], columns: dict[str, NDArray[np.float64]]) -> None:
    """Write a table that stands for a bag."""
    header = ','.join(('time', *columns))
    np.savetxt(path, np.column_stack((times, *columns.values())), '%.6f', ',', header=header,
               comments='')  # fmt: skip


def servo(data: Path, folder: Path) -> dict[str, Any]:
    """Write the calibration of a hobby servo that swings a weight: six kinds of motion, 50 Hz."""
    log = json.loads((data / 'servo_sysid/dataset/response.json').read_text())
    rate = log['config']['action_hz']
    for number, run in enumerate(log['data'][::_USED]):
        role = 'validate' if number % _HELD_OUT == _HELD_OUT - 1 else 'train'
        # Readings and commands are in half turns.
        goals, angles = (math.pi * np.array(run[key]) for key in ('actions', 'sensor_data'))
        columns = {'servo_pos': angles, 'cmd_servo_pos': goals}
        csv(folder / f'{role}_{number:02}_{run["type"]}.csv', np.arange(len(goals)) / rate, columns)
    joint = [f'joint/servo/{name}' for name in ('armature', 'damping', 'frictionloss')]
    drive = [f'actuator/servo/{name}' for name in ('kp', 'kv', 'dynprm[0]', 'delay')]
    bounds = ([0, 0.2], [0, 5], [0, 2], [1, 300], [0, 20], [0.001, 0.5], [0, 0.1])
    return {
        'model': str(data / 'servo_sysid/desc/robot.xml'),
        'bags': [{'path': 'train_*.csv'}, {'path': 'validate_*.csv', 'role': 'validate'}],
        'parameters': [
            {'target': target, 'bounds': limits}
            for target, limits in zip(joint + drive, bounds, strict=True)
        ],
        'solver': {'loss': 'huber', 'max_iterations': 150},
        'gate': {
            'sequence_growth': 10.0,
        },
    }


def quadruped(data: Path, folder: Path) -> dict[str, Any]:
    """Write the calibration of a Go2 that hangs in the air: a chirp on twelve joints, 200 Hz."""
    text = (data / 'go2_iit/go2.xml').read_text()
    # It hangs: the trunk does not move. Meshes and what was sensed are not included.
    text = re.sub(r'<freejoint/>|<(keyframe|sensor)>.*?</\1>', '', text, flags=re.DOTALL)
    flag = '<flag contact="disable"/>'
    option = f'<option timestep="0.0025" integrator="implicitfast">{flag}</option>'
    text = re.sub(r'<option.*?(/>|</option>)', '', text, flags=re.DOTALL)
    text = text.replace('<worldbody>', f'{option}<worldbody>', 1)
    (folder / 'go2.xml').write_text(text)
    names = re.findall(r'<motor [^>]*name="(\w+)"[^>]*joint="(\w+)"', text)
    log = np.load(data / 'go2_iit/traj_0.npz')
    columns = {
        f'{prefix}{joint}_pos': np.asarray(log[key], dtype=np.float64)[:, place]
        for prefix, key in (('', 'dof_pos'), ('cmd_', 'des_dof_pos'))
        for place, (_, joint) in enumerate(names)
    }
    times = np.asarray(log['time'], dtype=np.float64)
    for name, rows in (('train', times < _TRAINED), ('validate', times >= _TRAINED)):
        csv(folder / f'{name}.csv', times[rows], {key: c[rows] for key, c in columns.items()})
    return {
        'model': 'go2.xml',
        'bags': [{'path': 'train.csv'}, {'path': 'validate.csv', 'role': 'validate'}],
        'parameters': [
            {'target': 'joint/*/armature', 'bounds': [0, 0.2]},
            {'target': 'joint/*/damping', 'bounds': [0, 10]},
            {'target': 'joint/*/frictionloss', 'bounds': [0, 5]},
            {'target': 'actuator/*/kp', 'bounds': [5, 100], 'initial': 25, 'scale': 'log'},
            {'target': 'actuator/*/delay', 'shared': True, 'bounds': [0, 0.05]},
        ],
        'solver': {'loss': 'huber', 'time': _LIMIT},
    }


def hobby_arm(data: Path, folder: Path, held_out: str) -> dict[str, Any]:
    """Write the calibration of an SO-101 as it is shipped: nine motions, the tenth held out."""
    bags, model = data / 'so101/bags', data / 'so101/so101.xml'
    mapping = folder / 'mapping.yaml'
    sysid(['map', str(bags / 'multisine'), str(model), '-o', str(mapping)])
    trained = sorted(path for path in bags.iterdir() if path.name != held_out)
    return {
        'model': str(model),
        'mapping': str(mapping),
        'bags': [
            *({'path': str(path)} for path in trained),
            {'path': str(bags / held_out), 'role': 'validate'},
        ],
        'sensors': ['*_position'],
        'parameters': _HOBBY_ARM,
        'solver': {'loss': 'soft_l1', 'timestep': 'auto', 'time': _LIMIT},
        'validation': {'leave_out': 'none'},
    }


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


CASES: dict[str, Callable[[Path, Path], dict[str, Any]]] = {
    'pendulum': lambda _, __: pendulum(),
    'arm': lambda _, folder: tutorial(folder, 'arm', 'arm.urdf', 'tutorial-arm'),
    'so_arm': lambda _, folder: tutorial(folder, 'so_arm', 'so_arm.xml', 'tutorial-so-arm'),
    'servo': servo,
    'go2': quadruped,
    'so101': lambda data, folder: hobby_arm(data, folder, 'random_waypoints'),
    'so101-worst': lambda data, folder: hobby_arm(data, folder, 'chirp_sweep'),
}


#: Names of pictures that are not the gallery's.
_FILES = {'pendulum': 'tutorial-notebook', 'arm': 'tutorial-arm', 'so_arm': 'tutorial-so-arm'}


def rms(plot: SignalPlot, prediction: tuple[float, ...]) -> float:
    """Return the root mean square of measured less predicted over what is drawn, mrad."""
    return 1e3 * float(np.sqrt(np.nanmean((np.array(plot.measured) - np.array(prediction)) ** 2)))


def draw(plot: SignalPlot, path: Path) -> None:
    """Draw measured, nominal and fitted, and below what each prediction leaves."""
    mpl.use('Agg')
    import matplotlib.pyplot as plt  # noqa: PLC0415 (after the choice of what draws)

    times = np.array(plot.times)
    shown = times <= times[0] + _SHOWN
    figure, (top, bottom) = plt.subplots(
        2, 1, figsize=(8, 4.2), sharex=True, height_ratios=(2, 1), layout='constrained'
    )
    measured = np.array(plot.measured)
    top.plot(times[shown], measured[shown], color='black', linewidth=1.6, label='measured')
    for name, values, color in (
        ('nominal', plot.before, '#d55e00'),
        ('fitted', plot.after, '#0072b2'),
    ):
        predicted = np.array(values)
        label = f'{name}, {rms(plot, values):.1f} mrad'
        top.plot(times[shown], predicted[shown], color=color, linewidth=1.1, label=label)
        bottom.plot(
            times[shown], 1e3 * (measured - predicted)[shown], color=color, linewidth=1, label=name
        )
    top.set_ylabel(f'{plot.sensor} [{plot.unit}]')
    top.set_title(f'held out: {plot.sequence}', fontsize=10, loc='left')
    top.legend(loc='lower right', bbox_to_anchor=(1, 1), fontsize=8, ncols=3, frameon=False)
    bottom.axhline(0, color='black', linewidth=0.6)
    bottom.set_ylabel('measured \N{MINUS SIGN} predicted\n[mrad]')
    bottom.set_xlabel('time [s]')
    figure.savefig(path, dpi=110, pil_kwargs={'quality': 80})
    plt.close(figure)


def show(name: str, data: Path, pictures: Path) -> None:
    """Calibrate, draw, and print what a reader has to know."""
    folder = Path(tempfile.mkdtemp(prefix=f'{name}-'))
    config = CASES[name](data, folder)
    (folder / 'calibration.yaml').write_text(yaml.safe_dump(config, sort_keys=False))
    began = time.monotonic()
    sysid(['calibrate', str(folder / 'calibration.yaml')])
    out = folder / 'out'
    result = CalibrationResult.load(find(out if (out / 'current').exists() else out / 'rejected'))
    print(f'\n== {name}: {result.standing.value}, {time.monotonic() - began:.0f} s, {folder}')
    for check in (*result.gate, *result.reservations):
        if not check.passed:
            print(f'   {check.name}: {check.text}')
    for error in (e for e in result.errors if e.role == 'validate' and e.unit == 'rad'):
        print(f'   {error.sensor}: {1e3 * error.before:.1f} to {1e3 * error.after:.1f} mrad')
    held_out = [p for p in result.plots if p.role == 'validate' and p.unit == 'rad']
    worst = max(held_out, key=lambda plot: rms(plot, plot.after))
    draw(worst, pictures / f'{_FILES.get(name, f"gallery-{name}")}.webp')


def main() -> None:
    """Draw what the command line names."""
    parser = argparse.ArgumentParser(description=(__doc__ or '').partition('\n')[0])
    parser.add_argument('--data', type=Path, default=DATA)
    parser.add_argument('--pictures', type=Path, default=PICTURES)
    parser.add_argument('--only', choices=CASES, nargs='*', default=list(CASES))
    arguments = parser.parse_args()
    if not arguments.data.is_dir():
        print(f'There are no recordings in {arguments.data}.')
        return
    for name in arguments.only:
        show(name, arguments.data, arguments.pictures)


if __name__ == '__main__':
    main()
