# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Show what one recording cannot tell, and how a known payload tells it.

A motor of gear b drives a cart of mass m: the acceleration is b u / m, so one recording determines
b / m only. The same motion with a payload of 1 kg accelerates with b u / (m + 1 kg): both together
determine both. The cost over mass and gear shows a valley that the payload closes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import mujoco
import mujoco.rollout
import numpy as np
from matplotlib.figure import Figure
from table import Row, output_folder, show

from sysid_ros import toolbox as sysid

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

TRUE_MASS, TRUE_GEAR = 2.0, 3.0  # kg, N per unit of control
FIRST_MASS, FIRST_GEAR = 3.5, 5.25  # in the valley: the ratio is right
PAYLOAD = 1.0  # kg
DURATION = 0.6  # s
GRID = 21
SMALLEST_COST = 1e-12
#: A direction in which the residuals change less than this, beside the strongest, is not seen.
SMALLEST_SINGULAR = 1e-6

CART = f"""
<mujoco model="cart">
  <option timestep="0.002"><flag contact="disable"/></option>
  <worldbody>
    <body name="cart" pos="0 0 0.1">
      <inertial pos="0 0 0" mass="{TRUE_MASS}" diaginertia="0.001 0.001 0.001"/>
      <joint name="slide" type="slide" axis="1 0 0"/>
      <geom type="sphere" size="0.05"/>
    </body>
  </worldbody>
  <actuator><motor name="motor" joint="slide" gear="{TRUE_GEAR}"/></actuator>
  <sensor>
    <jointpos name="position" joint="slide"/>
    <jointvel name="velocity" joint="slide"/>
  </sensor>
</mujoco>
"""


def record(name: str, *, payload: float) -> sysid.ModelSequences:
    """Simulate the true cart, with a payload where there is one."""
    spec = mujoco.MjSpec.from_string(CART)
    if payload:
        load = spec.body('cart').add_body(name='payload', mass=payload, inertia=[0.001] * 3)
        load.explicitinertial = True
    model = spec.compile()
    data = mujoco.MjData(model)
    times = np.arange(round(DURATION / model.opt.timestep)) * model.opt.timestep
    drive = 3 * np.sin(2 * np.pi * 2 * times) + 2 * np.sin(2 * np.pi * 5 * times)
    control = sysid.TimeSeries.from_control_names(times, drive[:, None], model)
    start = sysid.create_initial_state(model, data.qpos, data.qvel, data.act)
    _, sensors = mujoco.rollout.rollout(model, data, start, control.data)
    measured = sysid.TimeSeries.from_names(times, sensors[0], model)
    return sysid.ModelSequences(name, spec, 'drive', start, control, measured)


def set_mass(spec: mujoco.MjSpec, parameter: sysid.Parameter) -> None:
    """Write the mass of the cart, without its payload."""
    spec.body('cart').mass = parameter.value[0]


def set_gear(spec: mujoco.MjSpec, parameter: sysid.Parameter) -> None:
    """Write the force per unit of control."""
    spec.actuator('motor').gear[0] = parameter.value[0]


def make_params() -> sysid.ParameterDict:
    """Declare mass and gear, starting in the valley."""
    params = sysid.ParameterDict()
    params.add(sysid.Parameter('mass', TRUE_MASS, 0.5, 5.0, modifier=set_mass, unit='kg'))
    params.add(sysid.Parameter('gear', TRUE_GEAR, 0.5, 8.0, modifier=set_gear, unit='N'))
    params.update_from_vector(np.array([FIRST_MASS, FIRST_GEAR]))
    return params


def unseen(jacobian: np.ndarray) -> np.ndarray | None:
    """Return the direction (mass, gear) in which the residuals stay the same; None without one."""
    _, singular, right = np.linalg.svd(jacobian, full_matrices=False)
    return right[-1] if singular[-1] < SMALLEST_SINGULAR * singular[0] else None


def fit(
    title: str, recordings: list[sysid.ModelSequences]
) -> tuple[Callable[..., Any], np.ndarray]:
    """Fit mass and gear, print the table, and return the residual function and the estimate."""
    residual = sysid.build_residual_fn(models_sequences=recordings)
    found, result = sysid.optimize(make_params(), residual, verbose=False)
    at_optimum, _, _ = residual(result.x, found)
    _, half_widths = sysid.calculate_intervals(at_optimum, result.jac)
    mass, gear = found.as_vector()
    blind = unseen(result.jac)
    if blind is not None:
        half_widths = np.full(2, np.inf)
    truths = (TRUE_MASS, TRUE_GEAR)
    names = found.get_non_frozen_parameter_names()
    show(title, map(Row, names, truths, (mass, gear), half_widths))
    print(f'{"gear / mass":<18}{TRUE_GEAR / TRUE_MASS:>9.4f}{gear / mass:>10.4f}')
    if blind is not None:
        more = blind[1] / blind[0]
        print('This does not determine mass and gear: ', end='')
        print(f'with 1 kg more mass and {more:.2f} more gear the motion is the same.')
    return residual, found.as_vector()


def cost_surface(residual: Callable[..., Any], masses: np.ndarray, gears: np.ndarray) -> np.ndarray:
    """Return the (masses, gears) cost; the residual function takes all gears of a mass at once."""
    params = make_params()
    cost = np.empty((len(masses), len(gears)))
    for row, mass in enumerate(masses):
        candidates = np.stack([np.full(len(gears), mass), gears])
        found, _, _ = residual(candidates, params=params)
        cost[row] = sum(np.sum(np.square(part), axis=0) for part in found)
    return cost


def plot(
    costs: list[np.ndarray],
    axes_values: tuple[np.ndarray, np.ndarray],
    estimates: list[np.ndarray],
    path: Path,
) -> None:
    """Draw both surfaces with the same colours."""
    masses, gears = axes_values
    logs = [np.log10(cost + SMALLEST_COST) for cost in costs]
    levels = np.linspace(min(log.min() for log in logs), max(log.max() for log in logs), 30)
    figure = Figure(figsize=(12, 5), layout='constrained')
    panels = figure.subplots(1, 2, sharey=True)
    titles = ('one recording', 'with a recording of a 1 kg payload')
    for axes, log, title, (mass, gear) in zip(panels, logs, titles, estimates, strict=True):
        filled = axes.contourf(gears, masses, log, levels=levels, cmap='viridis')
        axes.plot(
            TRUE_GEAR / TRUE_MASS * masses, masses, 'r--', alpha=0.5, label='gear / mass = 1.5'
        )
        axes.plot(TRUE_GEAR, TRUE_MASS, 'r*', markersize=15, label='truth')
        axes.plot(
            gear, mass, 'X', color='gold', markeredgecolor='k', markersize=11, label='estimate'
        )
        axes.set(title=title, xlabel='gear (N)', xlim=(gears[0], gears[-1]))
    panels[0].set_ylabel('mass (kg)')
    figure.colorbar(filled, ax=panels, label='log₁₀ of the cost')
    figure.legend(*panels[0].get_legend_handles_labels(), loc='outside lower center', ncol=3)
    figure.savefig(path, dpi=110)


def main() -> None:
    """Fit with one recording and with two, and draw the cost of both."""
    folder = output_folder('Identify mass and gear of a cart, without and with a payload.')
    alone = record('cart', payload=0.0)
    loaded = record('cart with payload', payload=PAYLOAD)
    one, first = fit('one recording', [alone])
    both, second = fit(f'with a recording of a {PAYLOAD:g} kg payload', [alone, loaded])
    masses, gears = np.linspace(0.6, 4.5, GRID), np.linspace(0.6, 7.5, GRID)
    costs = [cost_surface(residual, masses, gears) for residual in (one, both)]
    plot(costs, (masses, gears), [first, second], folder / 'cart_cost.png')
    print(f'\nThe cost over mass and gear is drawn in {folder / "cart_cost.png"}.')


if __name__ == '__main__':
    main()
