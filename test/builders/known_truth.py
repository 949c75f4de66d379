# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Bags of simulated robots whose parameters are known, and what a fit finds in them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import mujoco
import numpy as np
from numpy.typing import ArrayLike, NDArray

from builders.bag_columns import Columns
from sysid_ros.alignment.pairing import map_columns
from sysid_ros.alignment.trajectories import align
from sysid_ros.config.schema import MappingConfig
from sysid_ros.fit.fit import FitOptions
from sysid_ros.model.targets import make_unknowns
from sysid_ros.uncertainty.inference import Identification, identify

Array = NDArray[np.float64]

#: Between messages, s.
PERIOD = 0.01
#: Sensors are read so long after a command, s: accelerations jump where that acts.
_AFTER = 0.006
#: A robot is at rest after this, s.
_SETTLED = 5.0
_FIELDS = {
    mujoco.mjtSensor.mjSENS_JOINTPOS: 'position',
    mujoco.mjtSensor.mjSENS_JOINTVEL: 'velocity',
    mujoco.mjtSensor.mjSENS_JOINTACTFRC: 'effort',
}
_XYZ = ('x', 'y', 'z')


def record(
    model: mujoco.MjModel, seconds: float, commands: Callable[[Array], Sequence[Array]]
) -> dict[str, Array]:
    """Return times (n,), commands (n, nu) and what each sensor reads then, (n, k).

    Commands hold for a message each, from a little before; the robot came to rest under the first.
    """
    times = np.arange(0, seconds, PERIOD)
    controls = np.stack(commands(times), axis=1)
    data, found = mujoco.MjData(model), []
    settle, until, after = (
        round(duration / model.opt.timestep) for duration in (_SETTLED, _AFTER, PERIOD - _AFTER)
    )
    data.ctrl[:] = controls[0]
    mujoco.mj_step(model, data, settle)
    for row in controls:
        data.ctrl[:] = row
        mujoco.mj_step(model, data, until)
        mujoco.mj_forward(model, data)
        found.append(data.sensordata.copy())
        mujoco.mj_step(model, data, after)
    names = [model.sensor(row).name for row in range(model.nsensor)]
    values = np.split(np.array(found), model.sensor_adr[1:], axis=1)
    return {'times': times, 'commands': controls, **dict(zip(names, values, strict=True))}


def noisy(seen: dict[str, Array], seed: int, **noise: float) -> dict[str, Array]:
    """Return a recording with normal noise of a standard deviation for each sensor."""
    rng = np.random.default_rng(seed)
    return seen | {
        name: seen[name] + rng.normal(0, size, seen[name].shape) for name, size in noise.items()
    }


def bag(columns: Columns, model: mujoco.MjModel, seen: dict[str, Array], *more: Any) -> Any:
    """Return a bag with joint states, commands of joints and topics that were made before."""
    times, states, commands = seen['times'], {}, {}
    for row, kind in enumerate(model.sensor_type):
        field = _FIELDS.get(mujoco.mjtSensor(kind))
        if field is not None:
            joint = model.joint(int(model.sensor_objid[row])).name
            states.setdefault(field, {})[joint] = seen[model.sensor(row).name][:, 0]
    for row in range(model.nu):
        joint = model.joint(int(model.actuator_trnid[row, 0])).name
        commands[joint] = seen['commands'][:, row]
    topics = [columns.topic('/joint_states', times, states), *more]
    if model.nu:
        topics.append(columns.topic('/joint_commands', times - _AFTER, {'position': commands}))
    return columns.bag(*topics)


def imu(columns: Columns, seen: dict[str, Array]) -> Any:
    """Return the topic of an IMU of which a gyroscope and an accelerometer are recorded."""
    fields = {'angular_velocity': 'gyro', 'linear_acceleration': 'acc'}
    values = {field: dict(zip(_XYZ, seen[name].T, strict=True)) for field, name in fields.items()}
    return columns.topic('/imu', seen['times'], values, msgtype='sensor_msgs/msg/Imu')


def identified(
    recorded: Any,
    nominal: mujoco.MjModel,
    paths: Sequence[str],
    mapping: Literal['auto'] | MappingConfig = 'auto',
    *,
    shared: bool = False,
) -> Identification:
    """Return what is found from a bag, whose motion has to be one run."""
    (run,) = align(recorded, nominal, map_columns(recorded, nominal, mapping), 'auto').sequences
    unknowns = [each for path in paths for each in make_unknowns(path, nominal, shared=shared)]
    return identify(nominal, unknowns, [run], options=FitOptions(threads=1))


def assert_told(found: Identification, truth: dict[str, float], half: ArrayLike) -> None:
    """Expect each value to be identified and in its interval, whose half-width is below a limit.

    Of many intervals of 95 % some miss: by more than 1.6 half-widths are less than two in a
    thousand.
    """
    assert [unknown.name for unknown in found.parameters] == list(truth)
    limits = np.broadcast_to(half, len(truth))
    for name, interval, limit in zip(truth, found.intervals, limits, strict=True):
        middle, own = (interval.low + interval.high) / 2, (interval.high - interval.low) / 2
        assert interval.verdict == 'identified', (name, interval)
        assert abs(truth[name] - middle) < 1.6 * own, (name, interval)
        assert own < limit, (name, interval)
