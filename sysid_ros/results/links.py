# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What the ten log-Cholesky numbers of links say: masses, centres, moments, and base parameters.

No motion tells all ten numbers of each link apart. Forces are linear in the mass, the first moments
and the moments of inertia about the body's origin, so that the columns of that linear map which
depend on others say which sums are all that can ever be known: the base parameters (M. Gautier,
"Numerical calculation of the base inertial parameters of robots", J. Robotic Systems 8(4), 1991).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import mujoco
import numpy as np
from numpy.typing import NDArray

from sysid_ros.model.elements import SCALAR_JOINTS
from sysid_ros.model.inertia import THETA_NAMES, body_from_theta, pi_from_theta
from sysid_ros.results.result import (
    ROUNDING,
    BaseParameter,
    InferenceSummary,
    LinkNumber,
    LinkResult,
    ParameterResult,
)
from sysid_ros.signals import PrescribedMotion
from sysid_ros.simulation.inverse import IDENTITY, IN_PI, body_columns, regressor

Array = NDArray[np.float64]

#: What a log-Cholesky inertia and an armature are written to.
_INERTIA, _ARMATURE = re.compile(r'body/(.+)/inertia\[(\d)\]'), re.compile(r'joint/(.+)/armature')
_COUNT = len(THETA_NAMES)
#: Step of the differences, in the numbers' own unit: they are logarithms, ratios and metres. The
#: cube root of the rounding error balances it with that of the third derivative.
_STEP = float(np.cbrt(np.finfo(float).eps))
#: Name and unit of each number of a link.
_PHYSICAL = (
    ('mass', 'kg'),
    *((f'centre {axis}', 'm') for axis in 'xyz'),
    *((f'moment {k}', 'kg·m²') for k in (1, 2, 3)),
)
#: The same of what forces are linear in, as `inverse.IN_PI` has it: of numbers that depend on each
#: other, the first stays, and the others are added to it.
_LINEAR = (
    *((name, 'kg·m²') for name in ('Ixx', 'Ixy', 'Ixz', 'Iyy', 'Iyz', 'Izz')),
    *((f'm·c{axis}', 'kg·m') for axis in 'xyz'),
    ('m', 'kg'),
)


def links(
    parameters: Sequence[ParameterResult], inference: InferenceSummary | None
) -> tuple[LinkResult, ...]:
    """Return what a reader wants to know of the links whose ten numbers were all fitted.

    Intervals are those of the parameters' covariance in first order (the delta method). They are
    NaN where a number has none.
    """
    result = []
    for body, places in link_places([parameter.targets for parameter in parameters]).items():
        own = [parameters[place] for place in places]
        covariance = np.full((_COUNT, _COUNT), np.nan)
        if inference is not None:
            covariance = np.array(inference.covariance)[np.ix_(places, places)]
        result.append(
            LinkResult(
                body=body,
                parameters=tuple(parameter.name for parameter in own),
                numbers=tuple(_numbers(own, covariance)),
            )
        )
    return tuple(result)


def link_places(targets: Sequence[Sequence[str]]) -> dict[str, list[int]]:
    """Return body to the places of its ten numbers, where the targets write all of them."""
    bodies: dict[str, dict[int, int]] = {}
    for place, paths in enumerate(targets):
        for path in paths:
            if found := _INERTIA.fullmatch(path):
                bodies.setdefault(found[1], {})[int(found[2])] = place
    return {
        body: [numbers[index] for index in range(_COUNT)]
        for body, numbers in bodies.items()
        if len(numbers) == _COUNT
    }


def _numbers(parameters: Sequence[ParameterResult], covariance: Array) -> Iterator[LinkNumber]:
    value = np.array([parameter.value for parameter in parameters])
    initial = np.array([parameter.initial for parameter in parameters])
    per_deviation = _half_per_deviation(parameters, np.diag(covariance))
    slopes = _slopes(_physical, value)
    rows = zip(_PHYSICAL, _physical(value), _physical(initial), slopes, strict=True)
    for (name, unit), now, before, slope in rows:
        half = per_deviation * _deviation(slope, covariance)
        low, high = now - half, now + half
        if unit != 'm':  # what is positive has its interval on a logarithmic scale
            low, high = now * np.exp(-half / now), now * np.exp(half / now)
        yield LinkNumber(name=name, unit=unit, value=now, initial=before, low=low, high=high)


def _half_per_deviation(parameters: Sequence[ParameterResult], variances: Array) -> float:
    """Return the half-width of intervals in standard deviations; NaN where none has any."""
    ratios = [parameter.half_width for parameter in parameters] / np.sqrt(variances)
    known = ratios[np.isfinite(ratios)]
    # The median: an interval that a bound cuts is narrower than its deviation says.
    return float(np.median(known)) if len(known) else np.nan


def _deviation(slope: Array, covariance: Array) -> float:
    """Return a sum's standard error: what it does not depend on may have none."""
    used = np.flatnonzero(slope)
    return float(np.sqrt(slope[used] @ covariance[np.ix_(used, used)] @ slope[used]))


def _slopes(function: Callable[[Array], Array], theta: Array) -> Array:
    """Return the (k, 10) derivatives of what is a function of a link's ten numbers."""
    moves = _STEP * np.eye(_COUNT)
    return np.asarray((function(theta + moves) - function(theta - moves)).T / (2 * _STEP))


def _physical(theta: Array) -> Array:
    """Return (…, 7) mass, centre of mass and principal moments of (…, 10) numbers."""
    inertial = body_from_theta(theta)
    mass = np.asarray(inertial.mass)[..., None]
    return np.concatenate([mass, inertial.ipos, inertial.inertia], axis=-1)


def _linear(theta: Array) -> Array:
    return pi_from_theta(theta)[..., IN_PI]


class _Term(NamedTuple):
    """A number that forces are linear in."""

    kind: str  # what it is …
    owner: str  # … of which link or joint
    unit: str
    value: float
    slope: Array  # (p,) derivatives by the parameters
    forces: Array  # (rows,) what a unit of it adds to the forces


def base_parameters(
    model: mujoco.MjModel, parameters: Sequence[ParameterResult], inference: InferenceSummary | None
) -> tuple[BaseParameter, ...]:
    """Return what the forces of a chain say of the links whose ten numbers were all fitted.

    They are those of the model's kinematics, whatever the data; there are none where joints move
    about more than one axis. Intervals are those of the covariance in first order; those that have
    none are left out.
    """
    places = link_places([parameter.targets for parameter in parameters])
    if inference is None or not places or not np.isin(model.jnt_type, SCALAR_JOINTS).all():
        return ()
    terms = list(_terms(model, parameters, places))
    kept, factors = _independent(np.stack([term.forces for term in terms], axis=1))
    numbers = np.array([term.value for term in terms])
    slopes = np.array([term.slope for term in terms])
    covariance = np.array(inference.covariance)
    found = []
    for row, own in zip(kept, factors, strict=True):
        if terms[row].kind == 'armature' and np.count_nonzero(own) == 1:
            continue  # an armature that is no sum is a parameter already
        slope, value = own @ slopes, float(own @ numbers)
        used = np.flatnonzero(slope).tolist()
        variances = covariance[used, used]
        half = _half_per_deviation([parameters[place] for place in used], variances)
        half *= _deviation(slope, covariance)
        if not np.isfinite(half):
            continue
        found.append(
            BaseParameter(
                parameters=tuple(parameters[place].name for place in used),
                terms=tuple(_written(terms, own, row)),
                unit=terms[row].unit,
                value=value,
                low=value - half,
                high=value + half,
                largest=float(np.abs(own * numbers).max()),
            )
        )
    return tuple(found)


def _terms(
    model: mujoco.MjModel, parameters: Sequence[ParameterResult], links: dict[str, list[int]]
) -> Iterator[_Term]:
    """Yield the numbers from the base to the tip."""
    values = np.array([parameter.value for parameter in parameters])
    armatures = {
        found[1]: place
        for place, parameter in enumerate(parameters)
        if len(parameter.targets) == 1
        and (found := _ARMATURE.fullmatch(parameter.targets[0])) is not None
    }
    # Random motion is enough to tell all columns apart.
    count, rng = 10 * model.nbody, np.random.default_rng(0)
    qpos = rng.uniform(-1.5, 1.5, (count, model.nv))
    qvel, qacc = rng.uniform(-2.0, 2.0, (2, count, model.nv))
    still = np.zeros(model.nv)
    motion = PrescribedMotion(1.0, 0, qpos, qvel, qacc, still, IDENTITY, 1.0, 1)
    regression, every = regressor(model, motion), np.arange(count)
    forces = np.stack([regression.lines(own)[every, :-1] for own in np.eye(model.nv)], axis=1)
    for body in range(1, model.nbody):
        for joint in np.flatnonzero(model.jnt_bodyid == body).tolist():
            name = model.joint(joint).name
            if name in armatures:
                place = armatures[name]
                own = np.where(model.dof_jntid == joint, qacc, 0.0).ravel()
                slope = np.eye(len(values))[place]
                yield _Term('armature', name, 'kg·m²', float(values[place]), slope, own)
        name = model.body(body).name
        if name in links:
            theta = values[links[name]]
            slopes = np.zeros((_COUNT, len(values)))
            slopes[:, links[name]] = _slopes(_linear, theta)
            columns = forces[:, :, body_columns(body)].reshape(-1, _COUNT).T
            rows = zip(_LINEAR, _linear(theta).tolist(), slopes, columns, strict=True)
            yield from (_Term(kind, name, unit, *row) for (kind, unit), *row in rows)


def _independent(columns: Array) -> tuple[list[int], Array]:
    """Return the columns that do not depend on those before them, and (k, columns) factors.

    A row holds what is added to such a column's number: 1 for its own, and the factor of each
    dependent one.
    """
    size = np.linalg.norm(columns, axis=0)
    kept: list[int] = []
    basis = np.zeros((len(columns), 0))
    for place in np.flatnonzero(size > ROUNDING * size.max(initial=0.0)).tolist():
        column = columns[:, place] / size[place]
        for _ in range(2):  # once more: the first time rounding errors stay
            column = column - basis @ (basis.T @ column)
        left = np.linalg.norm(column)
        if left > ROUNDING:
            kept.append(place)
            basis = np.column_stack([basis, column / left])
    own = columns[:, kept] / size[kept]
    factors = np.linalg.lstsq(own, columns, rcond=None)[0] / size[kept, None]
    factors[:, kept] = np.eye(len(kept))
    largest = np.abs(factors).max(axis=1, keepdims=True, initial=0.0)
    factors[np.abs(factors) < ROUNDING * largest] = 0.0
    return kept, factors


def _written(terms: list[_Term], factors: Array, first: int) -> Iterator[str]:
    """Yield the terms of a sum with their signs, that which the others are added to first.

    Numbers of one kind that have the same factor are one term, as ``0.1·m(forearm, hand)``.
    """
    alike: dict[tuple[str, str], list[str]] = {}
    for place in (first, *(p for p in np.flatnonzero(factors).tolist() if p != first)):
        size = f'{abs(factors[place]):.3g}'
        sign = '-' if factors[place] < 0 else '+'
        factor = f'{sign} {"" if size == "1" else f"{size}·"}'
        alike.setdefault((factor, terms[place].kind), []).append(terms[place].owner)
    texts = [f'{factor}{kind}({", ".join(names)})' for (factor, kind), names in alike.items()]
    yield texts[0].removeprefix('+ ')
    yield from texts[1:]
