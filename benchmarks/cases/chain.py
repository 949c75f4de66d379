# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A chain of many joints, as many of whose properties are unknown as are asked for."""

from __future__ import annotations

import mujoco
import numpy as np

from cases.case import Case, compiled, initial_state, record, scalars

_JOINTS = 20
_TIMESTEP, _SECONDS = 0.002, 5.0
_ATTRIBUTES = {
    'armature': (0.02, 0.01, (0.001, 0.2)),
    'damping': (0.5, 0.3, (0.01, 5.0)),
    'frictionloss': (0.05, 0.1, (0.0, 1.0)),
    'stiffness': (2.0, 1.0, (0.0, 20.0)),
}
#: rad and rad/s.
_NOISE = np.repeat([0.0005, 0.01], _JOINTS)


def case(size: int) -> Case:
    """Return so many unknowns: the armatures of all joints first, then the next attribute."""
    free = [
        one
        for attribute, (truth, start, bounds) in _ATTRIBUTES.items()
        for one in scalars(
            [f'joint{k}' for k in range(_JOINTS)],
            np.full(_JOINTS, truth),
            np.full(_JOINTS, start),
            bounds,
            attribute=attribute,
        )
    ]
    every = np.concatenate([one.truth for one in free])

    def make() -> mujoco.MjSpec:
        spec = mujoco.MjSpec.from_string(_chain())
        for one in free[size:]:
            assert one.modify is not None  # noqa: S101
            one.modify(spec, one.truth)
        return spec

    model = compiled(make(), free, every)
    times = np.arange(round(_SECONDS / _TIMESTEP) + 1)[:, None] * _TIMESTEP
    frequencies = np.geomspace(0.3, 2.0, _JOINTS)[np.argsort(np.arange(_JOINTS) * 7 % _JOINTS)]
    commands = 0.3 * np.sin(2 * np.pi * frequencies * times)
    return Case(
        'growth',
        '',
        1.0,
        make,
        tuple(free[:size]),
        (record(model, initial_state(model), commands),),
        _NOISE,
    )


def _chain() -> str:
    """Return joints that turn about the vertical and the horizontal in turns, each with a servo."""
    opening = ''.join(
        f'<body pos="0 0 {0.06 if k else 0.0}">'
        f'<inertial mass=".1" pos="0 0 .03" diaginertia="1e-4 1e-4 5e-5"/>'
        f'<joint name="joint{k}" axis="{"0 0 1" if k % 2 else "0 1 0"}"/>'
        for k in range(_JOINTS)
    )
    servos = ''.join(
        f'<position name="servo{k}" joint="joint{k}" kp="{40 - k}"/>' for k in range(_JOINTS)
    )
    sensors = ''.join(
        f'<{kind} name="{kind}{k}" joint="joint{k}"/>'
        for kind in ('jointpos', 'jointvel')
        for k in range(_JOINTS)
    )
    return (
        f'<mujoco><option timestep="{_TIMESTEP}" integrator="implicitfast" gravity="0 0 -9.81"/>'
        f'<worldbody>{opening}{"</body>" * _JOINTS}</worldbody>'
        f'<actuator>{servos}</actuator><sensor>{sensors}</sensor></mujoco>'
    )
