# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Inertia of a body as ten numbers of which every choice is physical.

A rigid body's mass, centre of mass and rotational inertia come from some distribution of mass
exactly when its pseudo-inertia matrix ``J`` (4, 4) is positive definite. The log-Cholesky
parameters ``θ = [α, d1, d2, d3, s12, s23, s13, t1, t2, t3]`` of C. Rucker and P. M. Wensing,
"Smooth parameterization of rigid-body inertia", IEEE RA-L 7(2), 2022, eq. 11, reach every such
matrix, and nothing else::

    J = U Uᵀ,   U = e^α [[e^d1, s12,  s13,  t1],
                         [0,    e^d2, s23,  t2],
                         [0,    0,    e^d3, t3],
                         [0,    0,    0,    1 ]]

With ``R`` the upper left block of ``U / e^α``, the mass is ``e^2α``, the centre of mass ``t`` and
the second moment of mass about it ``m R Rᵀ``: no step between θ and a MuJoCo body cancels digits,
however far the centre of mass lies from the body frame's origin.

Frames: the body frame for everything except ``inertia``, which holds the moments about the axes
that ``iquat`` turns the body frame's to. Units: kg, m, kg·m². All functions take leading axes.
"""

from __future__ import annotations

from typing import NamedTuple

import mujoco
import numpy as np
from numpy.typing import ArrayLike, NDArray

from sysid_ros.errors import ParameterError

Array = NDArray[np.float64]

#: The components of θ in their order.
THETA_NAMES = ('alpha', 'd1', 'd2', 'd3', 's12', 's23', 's13', 't1', 't2', 't3')

_THETA_SIZE = len(THETA_NAMES)
#: A body is flat where a principal pseudo-inertia is less than this share of their sum.
_FLAT = 1e-12
#: Row and column of s12, s23, s13 in the upper triangle.
_SHEAR = ((0, 1), (1, 2), (0, 2))
#: Fields of a compiled model that hold inertias, and their widths.
INERTIAL_FIELDS = {'body_mass': 1, 'body_ipos': 3, 'body_iquat': 4, 'body_inertia': 3}


class Inertial(NamedTuple):
    """Inertia of bodies as a compiled model has it."""

    mass: Array  # (…,) kg
    ipos: Array  # (…, 3) centre of mass in the body frame, m
    iquat: Array  # (…, 4) orientation of the principal axes in the body frame, w x y z
    inertia: Array  # (…, 3) principal moments about the centre of mass, kg·m²; of θ, decreasing

    @classmethod
    def of_body(cls, model: mujoco.MjModel, row: int) -> Inertial:
        """Return a copy of the inertia of one body."""
        return cls(*(np.array(getattr(model, field)[row]) for field in INERTIAL_FIELDS))


def body_from_theta(theta: ArrayLike) -> Inertial:
    """Turn θ (…, 10) into what MuJoCo's compiler makes of the same ``fullinertia``.

    Moments and axes come from the compiler's own eigenvalue routine, so that their order and the
    quaternion's sign are the compiler's too.
    """
    theta = _last_axis(theta, _THETA_SIZE, 'θ')
    mass = np.exp(2.0 * theta[..., 0])
    inertia, iquat = principal_axes(_rotational(mass[..., None, None] * _gram(_stretch(theta))))
    return Inertial(mass, theta[..., 7:10].copy(), iquat, inertia)


def theta_from_body(
    mass: ArrayLike, ipos: ArrayLike, iquat: ArrayLike, inertia: ArrayLike
) -> Array:
    """Turn the inertia of compiled bodies into θ (…, 10).

    Moments may be in any order, and quaternions need not be normalised.

    Raises:
        ParameterError: The mass is not positive, or the principal moments are those of no body
            with a volume: two of them do not exceed the third.
    """
    mass, moments = np.asarray(mass, dtype=np.float64), _last_axis(inertia, 3, 'inertia')
    second = 0.5 * moments.sum(axis=-1, keepdims=True) - moments
    # A body that is flat but for rounding has no θ.
    thinnest, total = second.min(axis=-1), second.sum(axis=-1)
    wrong = ~((mass > 0) & (thinnest > _FLAT * total) & (total > 0))
    if np.any(wrong):
        first = tuple(np.argwhere(wrong)[0])
        found = ', '.join(f'{moment:g}' for moment in moments[first])
        raise ParameterError(
            'Expected a positive mass and three principal moments of which any two exceed the '
            f'third, as those of a body with a volume do, found {mass[first]:g} kg and '
            f'({found}) kg·m².'
        )
    axes = rotation_from_quat(iquat)
    upper = _upper_cholesky((axes * (second / mass[..., None])[..., None, :]) @ _transpose(axes))
    return _theta(0.5 * np.log(mass), upper, _last_axis(ipos, 3, 'ipos'))


def pseudoinertia_from_theta(theta: ArrayLike) -> Array:
    """Turn θ (…, 10) into the pseudo-inertia ``J`` (…, 4, 4) about the body frame's origin."""
    theta = _last_axis(theta, _THETA_SIZE, 'θ')
    upper = np.zeros((*theta.shape[:-1], 4, 4))
    upper[..., :3, :3] = _stretch(theta)
    upper[..., :3, 3] = theta[..., 7:10]
    upper[..., 3, 3] = 1.0
    return _gram(np.exp(theta[..., 0])[..., None, None] * upper)


def theta_from_pseudoinertia(pseudo_inertia: ArrayLike) -> Array:
    """Turn a pseudo-inertia (…, 4, 4) into θ (…, 10).

    Raises:
        ParameterError: It is not positive definite.
    """
    upper = _upper_cholesky(np.asarray(pseudo_inertia, dtype=np.float64))
    scale = upper[..., 3, 3]
    upper = upper / scale[..., None, None]
    return _theta(np.log(scale), upper[..., :3, :3], upper[..., :3, 3])


def pi_from_theta(theta: ArrayLike) -> Array:
    """Turn θ (…, 10) into the parameters in which dynamics are linear.

    Returns:
        π, (…, 13): mass, mass times centre of mass (3), and the rotational inertia about the body
        frame's origin row by row (9).
    """
    full = pseudoinertia_from_theta(theta)
    rotational = _rotational(full[..., :3, :3]).reshape(*full.shape[:-2], 9)
    return np.concatenate((full[..., 3:4, 3], full[..., :3, 3], rotational), axis=-1)


def pseudoinertia_from_pi(pi: ArrayLike) -> Array:
    """Turn π (…, 13), as :func:`pi_from_theta` has it, into the pseudo-inertia (…, 4, 4)."""
    pi = _last_axis(pi, 13, 'π')
    rotational = pi[..., 4:].reshape(*pi.shape[:-1], 3, 3)
    trace = np.trace(rotational, axis1=-2, axis2=-1)[..., None, None]
    full = np.empty((*pi.shape[:-1], 4, 4))
    full[..., :3, :3] = 0.5 * trace * np.eye(3) - rotational
    full[..., :3, 3] = full[..., 3, :3] = pi[..., 1:4]
    full[..., 3, 3] = pi[..., 0]
    return full


def pi_from_inertial(
    mass: ArrayLike, ipos: ArrayLike, iquat: ArrayLike, inertia: ArrayLike
) -> Array:
    """Turn the inertia of compiled bodies into π (…, 13), by the parallel axis theorem."""
    mass = np.asarray(mass, dtype=np.float64)[..., None]
    ipos = _last_axis(ipos, 3, 'ipos')
    steiner = np.sum(ipos**2, axis=-1)[..., None, None] * np.eye(3) - (
        ipos[..., :, None] * ipos[..., None, :]
    )
    about_origin = full_inertia(iquat, inertia) + mass[..., None] * steiner
    return np.concatenate((mass, mass * ipos, about_origin.reshape(*mass.shape[:-1], 9)), axis=-1)


def full_inertia(iquat: ArrayLike, inertia: ArrayLike) -> Array:
    """Return the rotational inertia (…, 3, 3) about the centre of mass in the body frame's axes."""
    axes = rotation_from_quat(iquat)
    return (axes * _last_axis(inertia, 3, 'inertia')[..., None, :]) @ _transpose(axes)


def principal_axes(rotational: ArrayLike) -> tuple[Array, Array]:
    """Split rotational inertias (…, 3, 3) as MuJoCo's compiler does.

    Returns:
        Principal moments (…, 3), decreasing, and the orientation (…, 4) of their axes.
    """
    rotational = np.asarray(rotational, dtype=np.float64)
    flat = rotational.reshape(-1, 9)
    moments, quats = np.empty((len(flat), 3)), np.empty((len(flat), 4))
    vectors = np.empty(9)
    for matrix, moment, quat in zip(flat, moments, quats, strict=True):
        mujoco.mju_eig3(moment, vectors, quat, matrix)
    leading = rotational.shape[:-2]
    return moments.reshape(*leading, 3), quats.reshape(*leading, 4)


def rotation_from_quat(quat: ArrayLike) -> Array:
    """Turn quaternions (…, 4), w x y z, of any length above zero, into matrices (…, 3, 3)."""
    quat = _last_axis(quat, 4, 'quaternion')
    w, x, y, z = np.moveaxis(quat / np.linalg.norm(quat, axis=-1, keepdims=True), -1, 0)
    rows = (
        (w * w + x * x - y * y - z * z, 2 * (x * y - w * z), 2 * (x * z + w * y)),
        (2 * (x * y + w * z), w * w - x * x + y * y - z * z, 2 * (y * z - w * x)),
        (2 * (x * z - w * y), 2 * (y * z + w * x), w * w - x * x - y * y + z * z),
    )
    return np.stack([np.stack(row, axis=-1) for row in rows], axis=-2)


def _last_axis(values: ArrayLike, size: int, what: str) -> Array:
    array = np.asarray(values, dtype=np.float64)
    if array.shape[-1:] != (size,):
        raise ParameterError(
            f'Expected {what} with a last axis of length {size}, found shape {array.shape}.'
        )
    return array


def _stretch(theta: Array) -> Array:
    """Return R, the upper left block of U / e^α."""
    upper = np.zeros((*theta.shape[:-1], 3, 3))
    upper[..., (0, 1, 2), (0, 1, 2)] = np.exp(theta[..., 1:4])
    for column, (row, axis) in enumerate(_SHEAR, start=4):
        upper[..., row, axis] = theta[..., column]
    return upper


def _theta(alpha: Array, stretch: Array, ipos: Array) -> Array:
    diagonal = np.log(stretch[..., (0, 1, 2), (0, 1, 2)])
    shear = np.stack([stretch[..., row, axis] for row, axis in _SHEAR], axis=-1)
    return np.concatenate((alpha[..., None], diagonal, shear, ipos), axis=-1)


def _rotational(second_moment: Array) -> Array:
    """Turn second moments of mass Σ (…, 3, 3) into rotational inertias tr(Σ)1 − Σ."""
    trace: Array = np.trace(second_moment, axis1=-2, axis2=-1)[..., None, None]
    return trace * np.eye(3) - second_moment


def _transpose(matrix: Array) -> Array:
    return np.swapaxes(matrix, -1, -2)


def _gram(matrix: Array) -> Array:
    return matrix @ _transpose(matrix)


def _upper_cholesky(matrix: Array) -> Array:
    """Return the upper triangular U with U Uᵀ = matrix."""
    try:
        lower = np.linalg.cholesky(matrix[..., ::-1, ::-1])
    except np.linalg.LinAlgError as err:
        raise ParameterError(
            'Expected a positive definite pseudo-inertia, found one that no mass can have.'
        ) from err
    return np.asarray(lower[..., ::-1, ::-1], dtype=np.float64)
