# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Ten numbers that are always a possible rigid body: log-Cholesky pseudo-inertia.

C. Rucker and P. M. Wensing, "Smooth Parameterization of Rigid-Body Inertia", RA-L 7(2), 2022:
θ = [α, d1, d2, d3, s12, s23, s13, t1, t2, t3] fills an upper triangle U, and the pseudo-inertia
about the body's origin is U Uᵀ. Written apart from sysid_ros, to check it and to serve the
toolbox, whose own version raises in MuJoCo 4.0.
"""

from __future__ import annotations

import mujoco
import numpy as np
from numpy.typing import NDArray


def pseudo_inertia(
    mass: float, centre: NDArray[np.float64], inertia: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the (4, 4) pseudo-inertia of a body about its origin.

    Args:
        mass: kg.
        centre: (3,) centre of mass in the body's frame, m.
        inertia: (3, 3) inertia about the centre of mass in the body's axes, kg·m².
    """
    second = 0.5 * np.trace(inertia) * np.eye(3) - inertia + mass * np.outer(centre, centre)
    return np.block(
        [[second, mass * centre[:, None]], [mass * centre[None, :], np.full((1, 1), mass)]]
    )


def theta(pseudo: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the (10,) θ of a (4, 4) pseudo-inertia."""
    upper = np.linalg.cholesky(pseudo[::-1, ::-1])[::-1, ::-1]
    unit = upper / upper[3, 3]
    return np.array(
        [
            np.log(upper[3, 3]),
            *np.log(np.diag(unit)[:3]),
            unit[0, 1],
            unit[1, 2],
            unit[0, 2],
            *unit[:3, 3],
        ]
    )


def body_theta(model: mujoco.MjModel, body: str) -> NDArray[np.float64]:
    """Return the (10,) θ of a body of a compiled model."""
    row = model.body(body).id
    axes = np.empty(9)
    mujoco.mju_quat2Mat(axes, model.body_iquat[row])
    rotation = axes.reshape(3, 3)
    inertia = rotation @ np.diag(model.body_inertia[row]) @ rotation.T
    return theta(pseudo_inertia(float(model.body_mass[row]), model.body_ipos[row], inertia))


def write_theta(spec: mujoco.MjSpec, body: str, values: NDArray[np.float64]) -> None:
    """Give a body of a spec the explicit inertia of a (10,) θ."""
    alpha, d1, d2, d3, s12, s23, s13, *shift = values
    upper = np.array(
        [
            [np.exp(d1), s12, s13, shift[0]],
            [0.0, np.exp(d2), s23, shift[1]],
            [0.0, 0.0, np.exp(d3), shift[2]],
            [0.0, 0.0, 0.0, 1.0],
        ]
    )
    pseudo = np.exp(2 * alpha) * upper @ upper.T
    mass = pseudo[3, 3]
    centre = pseudo[:3, 3] / mass
    second = pseudo[:3, :3] - mass * np.outer(centre, centre)
    full = np.trace(second) * np.eye(3) - second
    element = spec.body(body)
    element.explicitinertial = True
    element.mass = mass
    element.ipos = centre
    element.iquat = [1.0, 0.0, 0.0, 0.0]
    element.inertia = [0.0, 0.0, 0.0]
    element.fullinertia = [*np.diag(full), full[0, 1], full[0, 2], full[1, 2]]
