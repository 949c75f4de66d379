# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Find the mass of a cart on a spring, and what one late time step does to it.

A force pushes a mass of 1 kg on a spring with a damper; position and velocity are measured. The
recording is made with ``mujoco.rollout``, which computes sensor row k before step k, while state
row k is the one after it. Stamping the sensors with the state's times makes them one step late,
and the mass comes out wrong by a percent, unless that is noticed, as it is by default.
"""

from __future__ import annotations

import mujoco
import mujoco.rollout
import numpy as np
from table import Row, output_folder, show

from sysid_ros import toolbox as sysid

TRUE_MASS = 1.0  # kg
FIRST_GUESS = 2.0  # kg
DURATION = 3.0  # s

SPRING_MASS = f"""
<mujoco model="spring_mass">
  <option timestep="0.002"><flag contact="disable"/></option>
  <worldbody>
    <light pos="0 -1 2"/>
    <body name="cart" pos="0 0 0.1">
      <inertial pos="0 0 0" mass="{TRUE_MASS}" diaginertia="0.001 0.001 0.001"/>
      <joint name="slide" type="slide" axis="1 0 0" stiffness="100" damping="5"/>
      <geom type="box" size="0.05 0.05 0.05"/>
    </body>
  </worldbody>
  <actuator><motor name="push" joint="slide"/></actuator>
  <sensor>
    <jointpos name="position" joint="slide"/>
    <jointvel name="velocity" joint="slide"/>
  </sensor>
</mujoco>
"""


def record(spec: mujoco.MjSpec) -> sysid.ModelSequences:
    """Simulate the true cart and stamp its sensors with the state times of ``mujoco.rollout``."""
    model = spec.compile()
    data = mujoco.MjData(model)
    times = np.arange(round(DURATION / model.opt.timestep)) * model.opt.timestep
    force = 5 * np.sin(2 * np.pi * 1.5 * times) + 3 * np.sin(2 * np.pi * 3.7 * times)
    control = sysid.TimeSeries.from_control_names(times, force[:, None], model)
    start = sysid.create_initial_state(model, data.qpos, data.qvel, data.act)
    states, sensors = mujoco.rollout.rollout(model, data, start, control.data[:-1])
    measured = sysid.TimeSeries.from_names(states[0, :, 0], sensors[0], model)
    return sysid.ModelSequences('spring_mass', spec, 'measured', start, control, measured)


def set_mass(spec: mujoco.MjSpec, parameter: sysid.Parameter) -> None:
    """Write the mass into the model."""
    spec.body('cart').mass = parameter.value[0]


def main() -> None:
    """Fit with the stamps taken as they are, and as what they are found to be."""
    folder = output_folder('Identify the mass of a cart on a spring.')
    recording = record(mujoco.MjSpec.from_string(SPRING_MASS))
    params = sysid.ParameterDict()
    params.add(sysid.Parameter('mass', TRUE_MASS, 0.3, 3.0, modifier=set_mass, unit='kg'))
    params['mass'].value[:] = FIRST_GUESS

    for stamps in ('measured', 'auto'):
        residual = sysid.build_residual_fn(models_sequences=[recording], sensor_stamps=stamps)
        found, result = sysid.optimize(params, residual, verbose=False)
        at_optimum, _, _ = residual(result.x, found)
        _, half_widths = sysid.calculate_intervals(at_optimum, result.jac)
        row = Row('mass', TRUE_MASS, float(found['mass'].value[0]), float(half_widths[0]))
        show(f'sensor_stamps={stamps!r}', [row])
        timestep = recording.spec.option.timestep
        print(result.shift.sentence(timestep) or 'No shift in time explains the data better.')

    sysid.save_results(folder / 'spring_mass', [recording], params, found, result, residual)
    print(f'\nParameters, result and identified model are in {folder / "spring_mass"}.')


if __name__ == '__main__':
    main()
