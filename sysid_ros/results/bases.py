# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Base parameters: the combinations of inertias that forces of a chain determine.

No motion tells all ten inertial numbers of each link apart. Forces are linear in the mass, the
first moments and the moments of inertia about the body's origin, so that the columns of that
linear map which depend on others say which sums are all that can ever be known (M. Gautier,
"Numerical calculation of the base inertial parameters of robots", J. Robotic Systems 8(4), 1991).
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import mujoco
import numpy as np
from numpy.typing import NDArray

from sysid_ros.model.inertia import body_from_theta, pseudoinertia_from_theta
from sysid_ros.results.links import half_per_deviation, link_places
from sysid_ros.results.result import BaseParameter, InferenceSummary, ParameterResult

#: Of a link, in this order: what comes first stays, what depends on it is added to it.
_NAMES = ('Ixx', 'Ixy', 'Ixz', 'Iyy', 'Iyz', 'Izz', 'm·cx', 'm·cy', 'm·cz', 'm')
_UNITS = (*['kg·m²'] * 6, *['kg·m'] * 3, 'kg')
_ARMATURE = 'joint/', '/armature'
#: A column depends on those before it when less than this part of it is left without them.
_DEPENDENT = 1e-8
#: Factors below this part of the largest are rounding errors.
_ROUNDING = 1e-8
#: Digits of the factors.
_DIGITS = 3
#: Steps of differences of θ, which are logarithms, ratios and metres.
_STEP = 1e-5


class _Term(NamedTuple):
    """A number that forces are linear in: what it is of which link or joint, and its unit.

    ``places`` are those of parameters, ``number`` which of ten numbers it is, or None.
    """

    kind: str
    owner: str
    unit: str
    places: tuple[int, ...]
    number: int | None


def base_parameters(
    model: mujoco.MjModel,
    parameters: Sequence[ParameterResult],
    inference: InferenceSummary | None,
) -> tuple[BaseParameter, ...]:
    """Return what the forces of a chain say of the links whose ten numbers were all fitted.

    They are those of the model's kinematics, whatever the data. Intervals are those of the
    covariance in first order; those that have none are left out.

    Args:
        model: The compiled model.
        parameters: All of a result.
        inference: With the covariance of these parameters.
    """
    links = link_places([parameter.targets for parameter in parameters])
    if inference is None or not links:
        return ()
    values = np.array([parameter.value for parameter in parameters])
    terms, columns = _terms(model, parameters, links, values)
    kept, factors = _independent(columns)
    numbers, slopes = _numbers(terms, values)
    gradient = factors @ slopes
    covariance = np.array(inference.covariance)
    found = []
    for row, own, slope in zip(kept, factors, gradient, strict=True):
        if terms[row].number is None and np.count_nonzero(own) == 1:
            continue  # an armature that is no sum is a parameter already
        used = np.flatnonzero(slope).tolist()
        variance = float(slope[used] @ covariance[np.ix_(used, used)] @ slope[used])
        ratio = half_per_deviation([parameters[p] for p in used], covariance[used, used])
        half = ratio * np.sqrt(variance)
        if not np.isfinite(half):
            continue
        parts = np.abs(own * numbers)
        value = float(own @ numbers)
        found.append(
            BaseParameter(
                parameters=tuple(parameters[place].name for place in used),
                terms=tuple(_written(terms, own, row)),
                unit=terms[row].unit,
                value=value,
                low=value - half,
                high=value + half,
                largest=float(parts.max()),
            )
        )
    return tuple(found)


def _terms(
    model: mujoco.MjModel,
    parameters: Sequence[ParameterResult],
    links: dict[str, list[int]],
    values: NDArray[np.float64],
) -> tuple[list[_Term], NDArray[np.float64]]:
    """Return the numbers from the base to the tip, and the (rows, columns) forces of each."""
    armatures = {
        parameter.targets[0][len(_ARMATURE[0]) : -len(_ARMATURE[1])]: place
        for place, parameter in enumerate(parameters)
        if len(parameter.targets) == 1
        and parameter.targets[0].startswith(_ARMATURE[0])
        and parameter.targets[0].endswith(_ARMATURE[1])
    }
    states = _states(model)
    accelerations = np.array([qacc for _, _, qacc in states])
    terms: list[_Term] = []
    columns: list[NDArray[np.float64]] = []
    for body in range(1, model.nbody):
        name = model.body(body).name
        for joint in np.flatnonzero(model.jnt_bodyid == body).tolist():
            place = armatures.get(model.joint(joint).name)
            if place is not None:
                terms.append(_Term('armature', model.joint(joint).name, 'kg·m²', (place,), None))
                own = np.where(model.dof_jntid == joint, accelerations, 0.0)
                columns.append(own.ravel()[:, None])
        if name in links:
            places = tuple(links[name])
            terms.extend(
                _Term(number, name, unit, places, index)
                for index, (number, unit) in enumerate(zip(_NAMES, _UNITS, strict=True))
            )
            columns.append(_forces_of(model, body, values[list(places)], states))
    return terms, np.concatenate(columns, axis=1)


_State = tuple['NDArray[np.float64]', 'NDArray[np.float64]', 'NDArray[np.float64]']


def _states(model: mujoco.MjModel) -> list[_State]:
    """Return random positions, velocities and accelerations: enough to tell all columns apart."""
    rng = np.random.default_rng(0)
    found = []
    for _ in range(10 * model.nbody):
        qpos = model.qpos0.copy()
        mujoco.mj_integratePos(model, qpos, rng.uniform(-1.5, 1.5, model.nv), 1.0)
        found.append((qpos, *rng.uniform(-2.0, 2.0, (2, model.nv))))
    return found


def _forces_of(
    model: mujoco.MjModel, body: int, theta: NDArray[np.float64], states: list[_State]
) -> NDArray[np.float64]:
    """Return (states * nv, 10) the forces of each joint by each of a body's ten numbers.

    They are linear in these: differences between any bodies that are unlike tell them.
    """
    rng = np.random.default_rng(body)
    thetas = theta + np.vstack([np.zeros(10), 0.5 * rng.standard_normal((10, 10))])
    inertial = body_from_theta(thetas)
    model, forces = copy.copy(model), []
    data = mujoco.MjData(model)
    # Else kinematics take the inertial frame's axes for the body's, as the compiler saw them.
    model.body_sameframe[body] = 0
    for row in range(len(thetas)):
        model.body_mass[body], model.body_ipos[body] = inertial.mass[row], inertial.ipos[row]
        model.body_iquat[body] = inertial.iquat[row]
        model.body_inertia[body] = inertial.inertia[row]
        own = np.empty((len(states), model.nv))
        for number, (qpos, qvel, qacc) in enumerate(states):
            data.qpos[:], data.qvel[:], data.qacc[:] = qpos, qvel, qacc
            mujoco.mj_kinematics(model, data)
            mujoco.mj_comPos(model, data)
            mujoco.mj_comVel(model, data)
            mujoco.mj_rne(model, data, 1, own[number])
        forces.append(own.ravel())
    changes = np.array(forces[1:]) - forces[0]
    numbers = _linear(thetas)
    return np.asarray(np.linalg.solve(numbers[1:] - numbers[0], changes).T)


def _linear(theta: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return (…, 10) what forces are linear in: moments about the body's origin, m·c and m."""
    pseudo = pseudoinertia_from_theta(theta)
    second = pseudo[..., :3, :3]
    moments = np.trace(second, axis1=-2, axis2=-1)[..., None, None] * np.eye(3) - second
    upper = moments[..., (0, 0, 0, 1, 1, 2), (0, 1, 2, 1, 2, 2)]
    return np.concatenate([upper, pseudo[..., :3, 3], pseudo[..., 3:, 3]], axis=-1)


def _independent(columns: NDArray[np.float64]) -> tuple[list[int], NDArray[np.float64]]:
    """Return the columns that do not depend on those before them, and (k, columns) factors.

    A row holds what is added to such a column's number: 1 for its own, and the factor of each
    dependent one.
    """
    size = np.linalg.norm(columns, axis=0)
    kept: list[int] = []
    basis = np.zeros((len(columns), 0))
    for place in np.flatnonzero(size > _DEPENDENT * size.max(initial=0.0)):
        column = columns[:, place] / size[place]
        for _ in range(2):  # once more: the first time rounding errors stay
            column = column - basis @ (basis.T @ column)
        left = np.linalg.norm(column)
        if left > _DEPENDENT:
            kept.append(int(place))
            basis = np.column_stack([basis, column / left])
    own = columns[:, kept] / size[kept]
    factors = np.linalg.lstsq(own, columns, rcond=None)[0] / size[kept, None]
    factors[:, kept] = np.eye(len(kept))
    largest = np.abs(factors).max(axis=1, keepdims=True, initial=0.0)
    factors[np.abs(factors) < _ROUNDING * largest] = 0.0
    return kept, factors


def _numbers(
    terms: list[_Term], values: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the (k,) numbers and their (k, p) derivatives by the parameters."""
    numbers = np.empty(len(terms))
    slopes = np.zeros((len(terms), len(values)))
    for row, term in enumerate(terms):
        places = list(term.places)
        theta = values[places]
        if term.number is None:
            numbers[row], slopes[row, places] = theta[0], 1.0
            continue
        numbers[row] = _linear(theta)[term.number]
        moves = _STEP * np.eye(len(theta))
        changes = (_linear(theta + moves) - _linear(theta - moves)) / (2 * _STEP)
        slopes[row, places] = changes[:, term.number]
    return numbers, slopes


def _written(terms: list[_Term], factors: NDArray[np.float64], first: int) -> Iterator[str]:
    """Yield the terms of a sum with their signs, that which the others are added to first.

    Numbers of one kind that have the same factor are one term, as ``0.1·m(forearm, hand)``.
    """
    alike: dict[tuple[str, str], list[str]] = {}
    for place in (first, *(p for p in np.flatnonzero(factors).tolist() if p != first)):
        size = f'{abs(factors[place]):.{_DIGITS}g}'
        sign = '-' if factors[place] < 0 else '+'
        factor = f'{sign} {"" if size == "1" else f"{size}·"}'
        alike.setdefault((factor, terms[place].kind), []).append(terms[place].owner)
    texts = [f'{factor}{kind}({", ".join(names)})' for (factor, kind), names in alike.items()]
    yield texts[0].removeprefix('+ ')
    yield from texts[1:]
