# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""An arm of two links with a recording, in the toolbox's terms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import mujoco
import numpy as np
from numpy.typing import NDArray

from sysid_ros import toolbox as sysid

DT = 0.002
ARM = """
<mujoco>
  <option timestep="0.002" integrator="implicitfast"/>
  <worldbody>
    <body name="upper"><joint name="j" axis="0 1 0" damping=".3" armature=".05"/>
      <geom type="capsule" fromto="0 0 0 .3 0 0" size=".02" mass="1" contype="0"/>
      <body name="lower" pos=".3 0 0"><joint name="k" axis="0 1 0" damping=".2" armature=".02"/>
        <geom type="capsule" fromto="0 0 0 .2 0 0" size=".02" mass=".5" contype="0"/>
        <site name="tip"/></body></body>
  </worldbody>
  <actuator><motor name="a" joint="j" gear="3"/><position name="b" joint="k" kp="8" kv=".4"/>
  </actuator>
  <sensor><jointpos name="q" joint="j"/><jointvel name="v" joint="j"/>
    <jointpos name="p" joint="k"/><gyro name="w" site="tip"/></sensor>
</mujoco>
"""
#: Commands, measurements and the initial state.
Recorded = tuple[sysid.TimeSeries, sysid.TimeSeries, NDArray[np.float64]]


def spec_of(xml: str = ARM) -> mujoco.MjSpec:
    """Return the arm as a spec."""
    return mujoco.MjSpec.from_string(xml)


def record(
    *,
    steps: int = 400,
    start: float = 0.0,
    change: Callable[[mujoco.MjSpec], None] | None = None,
    xml: str = ARM,
    qvel: Sequence[float] = (0.3, -0.2),
    noise: float = 0.0,
) -> Recorded:
    """Simulate a model so many steps; a sample's stamp is the time that it describes."""
    spec = spec_of(xml)
    if change is not None:
        change(spec)
    model = spec.compile()
    times = DT * np.arange(steps + 1)
    command = np.stack([2 * np.sin(7 * times), np.sin(5 * times + 1)], axis=1)
    control = sysid.TimeSeries.from_control_names(start + times, command, model)
    state = sysid.create_initial_state(model, [0, 0], qvel)
    sensors = sysid.sysid_rollout(model, mujoco.MjData(model), control, state)[0].sensordata
    data = sensors.data + noise * np.random.default_rng(1).standard_normal(sensors.data.shape)
    return control, sysid.TimeSeries(sensors.times, data, sensors.signal_mapping), state


def sequences(
    control: sysid.TimeSeries, sensors: sysid.TimeSeries, state: NDArray[np.float64], **more: Any
) -> list[sysid.ModelSequences]:
    """Return one recording of the arm."""
    return [sysid.ModelSequences('arm', spec_of(), 'run', state, control, sensors, **more)]
