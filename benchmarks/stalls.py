# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Recordings through real nodes on a machine that stalls, fitted with and without what was applied.

The demo's robot, exciter and recorder run as processes. In every other set of recordings robot,
recorder or both stand still for .1 to .5 s every two seconds or so, or the exciter for a tenth of
that: it would stop a motion that it does not get on with. The robot says when each command came to
act. Each set is fitted twice: with that, and with the commands as the recorder saw them,
where the fit has to find out.

Per set: χ² of the errors of both fits for so many parameters, the median width of the intervals
without over that with, the estimate of a sensor's noise that is farthest from the truth, what the
gate says, and the held-out error over that of training. Sets are kept in ``--folder`` and not
recorded again.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import scipy.special
import yaml

from sysid_ros import demo
from sysid_ros.config import SimulatedRobotConfig, load_calibration
from sysid_ros.errors import SysidError
from sysid_ros.pipeline import calibrate
from sysid_ros.results.result import CalibrationResult

ASSETS = Path(__file__).resolve().parents[1] / 'config' / 'demo'
SETS, DURATION = 20, 10.0
#: Seconds of a stall, and from the end of one to the next.
_STALL, _BETWEEN = (0.1, 0.5), (1.0, 3.0)
#: What stands still together, and so many times as long.
_HELD = (('simulated', 1.0), ('recorder', 1.0), ('simulated|recorder', 1.0), ('exciter', 0.1))
#: What passes: widths without over with, and how far an estimate of noise may be off.
_WIDTHS, _NOISE_OFF = (0.85, 1.2), 0.2
_BAND = 0.99
#: After a stall of the exciter the motion goes on where it would be without.
_DRIVER = demo.Driver(max_tracking_error=0.0)


@contextlib.contextmanager
def stalls(seed: int) -> Iterator[None]:
    """Let some of the nodes that this process has started stand still now and then."""
    rng, over = np.random.default_rng(seed), threading.Event()

    def hold_up() -> None:
        while not over.wait(rng.uniform(*_BETWEEN)):
            who, times = _HELD[rng.integers(len(_HELD))]
            own = ['-P', str(os.getpid()), '-f', rf'nodes\.({who})']
            subprocess.run(['pkill', '-STOP', *own], check=False)
            time.sleep(times * rng.uniform(*_STALL))
            subprocess.run(['pkill', '-CONT', *own], check=False)

    thread = threading.Thread(target=hold_up)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def record(folder: Path, seed: int, *, stalled: bool) -> int:
    """Record all bags of a set, and count the commands that the exciter skipped."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in ('arm.xml', 'calibration.yaml'):
        shutil.copy(ASSETS / name, folder / name)
    environment = demo.environment()
    skipped = 0
    for number, name in enumerate(demo.RECORDINGS):
        bag = folder / 'bags' / name
        shutil.rmtree(bag, ignore_errors=True)
        with stalls(10 * seed + number) if stalled else contextlib.nullcontext():
            skipped += demo.record_one(
                ASSETS, bag, environment, 10 * seed + number, DURATION, _DRIVER, last=True
            )
    return skipped


def as_seen(folder: Path) -> dict[str, Any]:
    """Return the mapping of the demo's arm to what the recorder saw, in the order of the model."""
    model = mujoco.MjModel.from_xml_path(str(folder / 'arm.xml'))
    sensors = {}
    for index in range(model.nsensor):
        name = model.sensor(index).name
        joint, _, field = name.rpartition('_')
        sensors[name] = f'/joint_states.{field}[{joint}]'
    actuators = {
        model.actuator(index).name: f'{demo.COMMANDS}.data[{index}]' for index in range(model.nu)
    }
    return {'sensors': sensors, 'actuators': actuators}


def fit(folder: Path, *, applied: bool) -> CalibrationResult:
    """Calibrate from the bags of a set."""
    config = yaml.safe_load((folder / 'calibration.yaml').read_text('utf-8'))
    config['output'] = 'applied' if applied else 'seen'
    if not applied:
        config['mapping'] = as_seen(folder)
    path = folder / f'{config["output"]}.yaml'
    path.write_text(yaml.safe_dump(config), 'utf-8')
    return calibrate(load_calibration(path)).result


def summary(result: CalibrationResult) -> dict[str, Any]:
    """Return what is judged of a result."""
    truth = demo.true_values(ASSETS / demo.TRUTH, result)
    robot = SimulatedRobotConfig()
    count = 2 * np.pi / 2**robot.encoder_bits
    noise = {
        'position': np.hypot(robot.position_noise, count / np.sqrt(12)),
        'velocity': robot.velocity_noise,
        'effort': robot.effort_noise,
    }
    off = {each.sensor: each.sigma / noise[each.sensor.rpartition('_')[2]] for each in result.noise}
    worst = max(off, key=lambda sensor: abs(np.log(off[sensor])))
    return {
        'squares': demo.chi_squared(result, truth),
        'half': [parameter.half_width for parameter in result.parameters],
        'identified': sum(parameter.identified for parameter in result.parameters),
        'worst': [worst, off[worst]],
        'standing': str(result.standing),
        'held_out': result.held_out_after / result.training_after,
        'reservations': [check.name for check in result.reservations],
        'seconds': result.solver.seconds,
    }


def one(folder: Path, number: int) -> dict[str, Any]:
    """Record and fit a set, unless that is done; the second of two is stalled."""
    path = folder / f'{number}.json'
    if path.exists():
        return dict(json.loads(path.read_text('utf-8')))
    stalled = bool(number % 2)
    own = folder / str(number)
    found: dict[str, Any] = {'stalled': stalled}
    with contextlib.redirect_stdout(io.StringIO()):
        found['skipped'] = record(own, 1000 + number, stalled=stalled)
        for name, applied in (('applied', True), ('seen', False)):
            try:
                found[name] = summary(fit(own, applied=applied))
            except SysidError as err:
                found[name] = {'refused': str(err)}
    path.with_suffix('.new').write_text(json.dumps(found), 'utf-8')
    path.with_suffix('.new').rename(path)
    return found


def report(sets: list[dict[str, Any]]) -> None:
    """Print a line for each set, and what all of them say together."""
    squares: dict[str, list[float]] = {'applied': [], 'seen': []}
    count = 0
    for number, each in enumerate(sets):
        parts = []
        for name in ('applied', 'seen'):
            found = each[name]
            if 'refused' in found:
                parts.append(f'{name}: refused, {found["refused"]}')
                continue
            sensor, off = found['worst']
            count = len(found['half'])
            parts.append(
                f'{name}: χ² {found["squares"]:5.1f}, noise {off:4.2f} ({sensor}), held out '
                f'{found["held_out"]:4.2f}, {found["identified"]}/{count} identified, '
                f'{found["seconds"]:.0f} s, {found["standing"]}'
            )
            if found['standing'] != 'rejected':
                squares[name].append(found['squares'])
        width = np.nan
        if 'half' in each['applied'] and 'half' in each['seen']:
            width = float(np.nanmedian(np.divide(each['seen']['half'], each['applied']['half'])))
        kind = 'stalled' if each['stalled'] else 'idle'
        print(f'{number:3} {kind:8} skipped {each["skipped"]:4}, widths {width:5.2f}')
        for part in parts:
            print(f'      {part}')
    for name, found in squares.items():
        low, high = scipy.special.chdtri(count * len(found), [(1 + _BAND) / 2, (1 - _BAND) / 2])
        print(
            f'{name}: {len(found)} of {len(sets)} accepted, χ² {np.sum(found):.0f} for '
            f'{count * len(found)} in all ({_BAND:.0%} band {low:.0f} to {high:.0f})'
        )


def main() -> int:
    """Record, fit and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or '').partition('\n')[0])
    parser.add_argument('--sets', type=int, default=SETS)
    parser.add_argument('--folder', type=Path, default=Path('stalls'))
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    report([one(arguments.folder, number) for number in range(arguments.sets)])
    return 0


if __name__ == '__main__':
    sys.exit(main())
