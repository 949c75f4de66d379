# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A starting point without simulation: least squares on the equations of motion.

Inverse dynamics are linear in masses, first moments, inertias, armature, damping, dry friction and
in the gains of servos (C. G. Atkeson, C. H. An and J. M. Hollerbach, "Estimation of inertial
parameters of manipulator loads and links", IJRR 5(3), 1986). For these, the columns by
superposition are exact, and one step is the answer from any start. For others, as log-Cholesky
inertias or delays, the step is repeated.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sysid_ros.errors import CancelledError
from sysid_ros.estimation.solver.differences import scales
from sysid_ros.estimation.start.motion import unmeasured
from sysid_ros.estimation.start.torques import Torques

if TYPE_CHECKING:
    import threading

    from numpy.typing import NDArray

    from sysid_ros.model.unknown import Unknown
    from sysid_ros.rollout.simulation import Simulator

#: Steps at most; another one is not worth it where this one gained less than a part of the cost, …
_MOST_STEPS = 8
_SMALL_GAIN = 1e-3
#: … or missed what it had predicted by less than this part of what remains.
_LINEAR = 0.01
#: A step that raises the cost is halved so many times.
_HALVINGS = 4
#: Differences of linear columns are exact at any step; this is one for the others, in scales.
_STEP = 1e-4
#: Residuals below this share of the torque's own size are not weighted higher.
_SMALLEST_RESIDUAL = 1e-3
#: … and no residual is weighted as if it were below this, N·m or N.
_TINY = 1e-9
#: Least squares with bounds wants its start inside of them, in scales.
_OPEN = 1e-12
#: With fewer equations there is no solution worth the name.
_EQUATIONS_PER_UNKNOWN = 2


class Regression(NamedTuple):
    """What the equations of motion say.

    Attributes:
        x: (p,) values; what the equations do not determine stays where it was.
        sentence: What they were made of.
    """

    x: NDArray[np.float64]
    sentence: str


def not_applicable(simulator: Simulator) -> str | None:
    """Return why there are no equations of motion without unknown forces, in a clause, or None."""
    model = simulator.model
    if model.neq and model.eq_active0.any():
        return 'the model has equality constraints, whose forces no motion shows'
    return unmeasured(model, simulator.runs)


def regress(simulator: Simulator, cancel: threading.Event | None = None) -> Regression | str:
    """Solve the equations of motion for the unknowns.

    Joints are weighted by what their equations leave unexplained, and a Gaussian around the start
    as wide as the bounds, or the prior where one is given, decides what they do not determine. The
    bounds hold; inertias by their log-Cholesky parameters are physical at every value.

    Args:
        simulator: Model, sequences and unknowns.
        cancel: Ends it when it is set.

    Returns:
        What was found, or the reason why nothing was, in a clause.

    Raises:
        CancelledError: ``cancel`` was set.
    """
    reason = not_applicable(simulator)
    if reason is not None:
        return reason
    if simulator.drives is not None:
        return 'servos drive the joints, whose laws are not in the equations of motion'
    torques = Torques(simulator)
    unknowns = simulator.parameters
    if len(torques.groups) < _EQUATIONS_PER_UNKNOWN * len(unknowns):
        return (
            f'the motion gives {len(torques.groups)} equations without contacts, limits or '
            f'reversals, too few for {len(unknowns)} parameters'
        )
    x = _solve(torques, unknowns, cancel)
    if x is None:
        return 'the equations of motion have no finite solution'
    if torques.measured == torques.joints:
        source = 'measured torques'
    elif torques.measured:
        source = f'torques, measured at {torques.measured} of {torques.joints} joints'
    else:
        source = "the torques that the model's actuators exert at the measured state"
    return Regression(x, f'inverse dynamics from {source}, low-passed at {torques.cutoff:.3g} Hz')


class _Box(NamedTuple):
    """What is known of the unknowns without data, (p,) each.

    Attributes:
        low: Lower bounds.
        high: Upper bounds.
        scale: Magnitudes, in which the problem is solved.
        means: Most likely values.
        deviations: How far from these they may be.
    """

    low: NDArray[np.float64]
    high: NDArray[np.float64]
    scale: NDArray[np.float64]
    means: NDArray[np.float64]
    deviations: NDArray[np.float64]


def _box(unknowns: tuple[Unknown, ...]) -> _Box:
    low = np.array([unknown.min_value for unknown in unknowns])
    high = np.array([unknown.max_value for unknown in unknowns])
    scale = scales(unknowns)
    spans = np.where(np.isfinite(high - low), high - low, scale)
    priors = [
        unknown.prior or (unknown.nominal, span)
        for unknown, span in zip(unknowns, spans, strict=True)
    ]
    means, deviations = np.array(priors).T
    return _Box(low, high, scale, means, deviations)


def _solve(
    torques: Torques, unknowns: tuple[Unknown, ...], cancel: threading.Event | None
) -> NDArray[np.float64] | None:
    """Return the (p,) values of the least cost, or None where it is not finite."""
    box = _box(unknowns)
    x = np.clip([unknown.nominal for unknown in unknowns], box.low, box.high)
    residual = torques(x)
    if not np.all(np.isfinite(residual)):
        return None
    floors = _SMALLEST_RESIDUAL * _spread(residual, torques.groups)
    for _ in range(_MOST_STEPS):
        jacobian = _jacobian(torques, x, residual, box, cancel)
        sigma = np.maximum(_spread(residual, torques.groups), floors)
        step = _step(jacobian, residual, x, sigma, box)
        # The weights that count are those of what no parameter explains.
        left = residual + jacobian @ step
        sigma = np.maximum(_spread(left, torques.groups), floors)
        step = _step(jacobian, residual, x, sigma, box)
        before = float(np.sum((residual / sigma) ** 2))
        for _ in range(_HALVINGS):
            moved = np.clip(x + step, box.low, box.high)
            found = torques(moved)
            after = float(np.sum((found / sigma) ** 2))
            if after <= before:
                break
            step *= 0.5
        if not after <= before:
            break
        predicted = residual + jacobian @ (moved - x)
        x, residual = moved, found
        wrong = float(np.sum(((found - predicted) / sigma) ** 2))
        if wrong <= _LINEAR * after or before - after <= _SMALL_GAIN * before:
            break
    return x


def _step(
    jacobian: NDArray[np.float64],
    residual: NDArray[np.float64],
    x: NDArray[np.float64],
    sigma: NDArray[np.float64],
    box: _Box,
) -> NDArray[np.float64]:
    """Return the (p,) step to the least cost of the linearised equations inside the bounds."""
    from scipy.optimize import lsq_linear  # noqa: PLC0415 (slow to import, not every fit needs it)

    rows = np.concatenate([jacobian / sigma[:, None], np.diag(1 / box.deviations)]) * box.scale
    target = np.concatenate([-residual / sigma, (box.means - x) / box.deviations])
    # Only the triangle of the tall matrix matters, and bounds are sought on it at once.
    triangle = np.asarray(np.linalg.qr(np.column_stack([rows, target]), mode='r'))
    limits = ((box.low - x) / box.scale - _OPEN, (box.high - x) / box.scale + _OPEN)
    step: NDArray[np.float64] = lsq_linear(triangle[:, :-1], triangle[:, -1], limits).x * box.scale
    return step


def _jacobian(
    torques: Torques,
    x: NDArray[np.float64],
    residual: NDArray[np.float64],
    box: _Box,
    cancel: threading.Event | None,
) -> NDArray[np.float64]:
    """Return the (n, p) derivative of the residuals, by superposition.

    Raises:
        CancelledError: ``cancel`` was set.
    """
    steps = np.where(x + _STEP * box.scale > box.high, -_STEP, _STEP) * box.scale
    found = np.empty((len(residual), len(x)))
    for column, step in enumerate(steps):
        if cancel is not None and cancel.is_set():
            msg = 'The calibration was cancelled.'
            raise CancelledError(msg)
        moved = x.copy()
        moved[column] += step
        found[:, column] = (torques(moved) - residual) / step
    return found


def _spread(residual: NDArray[np.float64], groups: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return (n,) the root mean square of the residuals of each one's group, above zero."""
    count = np.bincount(groups)
    squares = np.bincount(groups, residual**2) / np.maximum(count, 1)
    return np.maximum(np.sqrt(squares), _TINY)[groups]
