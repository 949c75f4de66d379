# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Which columns of a Jacobian depend on each other, in sets as small as possible."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

#: Relative error that a column of differences may have (see ``solver.differences``).
COLUMN_ERROR = 3e-5
#: A parameter takes part in a direction that no residual sees when its share is more than this
#: part of the largest: what is smaller may come from the error of the columns.
_TAKES_PART = 0.01
#: Partners are complete when they leave at most so many times as much of a column unexplained, in
#: squares, as all columns together do.
_COMPLETE = 4.0
#: Priors are exact: they know a direction from this part of the error of columns on.
_EXACT = 1e-4


class DependentSet(NamedTuple):
    """Columns that depend on each other.

    Attributes:
        columns: Which, ascending; m of them.
        blind: (m, k) unit vectors in the columns scaled to length 1: moving along them changes no
            residual, or hardly any.
    """

    columns: tuple[int, ...]
    blind: NDArray[np.float64]


def threshold(columns: int) -> float:
    """Return the singular value below which columns of length 1 cannot be told from dependent ones.

    Errors of the columns change no singular value by more than their norm (Weyl), which is at most
    the error of one times the root of their number.
    """
    return COLUMN_ERROR * float(np.sqrt(columns))


def split(
    unseen: NDArray[np.float64], priors: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Split directions that measurements do not see into those that priors know, and the others.

    What is seen of a direction by measurements may be errors of the columns. Priors have none: the
    more was measured, the longer the columns are, the less a prior is beside them, and it is as
    good as before.

    Args:
        unseen: (k, p) unit vectors.
        priors: (r, p) rows of priors in the columns scaled to length 1.

    Returns:
        Unit vectors that span the same space: (m, p) known by priors, and (k - m, p).
    """
    _, found, turned = np.linalg.svd(priors @ unseen.T)
    found = np.append(found, np.zeros(len(unseen) - len(found)))
    known = found > _EXACT * threshold(unseen.shape[1])
    directions = turned @ unseen
    return directions[known], directions[~known]


def exact_sets(
    jacobian: NDArray[np.float64], priors: NDArray[np.float64] | None = None
) -> list[DependentSet]:
    """Return the sets of columns that are exactly dependent, as far as differences can tell.

    The null space is brought to reduced row echelon form with complete pivoting: its rows are the
    fundamental circuits of the columns' matroid, and what circuits connect belongs together. So a
    pair and an unrelated triple come apart, whatever basis the decomposition returns.

    The (n, p) columns are of length 1; (r, p) rows of them are priors.
    """
    count = jacobian.shape[1]
    if not count:
        return []
    _, singular, right = np.linalg.svd(triangle(jacobian))
    singular = np.append(singular, np.zeros(count - len(singular)))
    null = right[singular <= threshold(count)]
    if len(null) and priors is not None and len(priors):
        null = split(null, priors)[1]
    if not len(null):
        return []
    circuits = np.abs(echelon(null)) > _TAKES_PART
    found = []
    label = connected_components(circuits.T.astype(int) @ circuits)[1]
    for one in dict.fromkeys(label[circuits.any(axis=0)]):
        columns = np.flatnonzero(label == one)
        own = circuits[:, columns].any(axis=1)
        basis = echelon(null)[np.ix_(own, columns)]
        orthonormal = np.asarray(scipy.linalg.orth(basis.T), dtype=np.float64)
        found.append(DependentSet(tuple(int(c) for c in columns), orthonormal))
    return found


def partners(jacobian: NDArray[np.float64], column: int) -> DependentSet:
    """Return the few columns that together nearly explain one, and with them that one.

    Orthogonal matching pursuit with a backward pass: columns are taken while the next explains
    most of what is left, and given back if the others do without them.
    """
    factor = triangle(jacobian)
    target = factor[:, column]
    others = [c for c in range(factor.shape[1]) if c != column]
    enough = max(_COMPLETE * _left(factor[:, others], target) ** 2, threshold(1) ** 2)
    chosen: list[int] = []
    while _left(factor[:, chosen], target) ** 2 > enough and len(chosen) < len(others):
        left = {c: _left(factor[:, [*chosen, c]], target) for c in others if c not in chosen}
        chosen.append(min(left, key=lambda c: left[c]))
    for c in list(chosen):
        rest = [other for other in chosen if other != c]
        if rest and _left(factor[:, rest], target) ** 2 <= enough:
            chosen = rest
    columns = sorted([column, *chosen])
    weakest = np.linalg.svd(factor[:, columns])[2][-1:]
    return DependentSet(tuple(columns), weakest.T)


def triangle(jacobian: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the factor R of a QR decomposition, which has the same dependences and lengths."""
    return np.asarray(np.linalg.qr(jacobian, mode='r'), dtype=np.float64)


def _left(columns: NDArray[np.float64], target: NDArray[np.float64]) -> float:
    """Return the norm of what columns leave of a target."""
    if not columns.shape[1]:
        return float(np.linalg.norm(target))
    orthonormal = np.linalg.qr(columns)[0]
    # Twice is enough: what is left of nearly dependent columns is lost in rounding otherwise.
    rest = target - orthonormal @ (orthonormal.T @ target)
    return float(np.linalg.norm(rest - orthonormal @ (orthonormal.T @ rest)))


def echelon(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the reduced row echelon form, the largest entries as pivots."""
    reduced: NDArray[np.float64] = rows.copy()
    for place in range(len(reduced)):
        below = np.abs(reduced[place:])
        row, column = divmod(int(np.argmax(below)), below.shape[1])
        reduced[[place, place + row]] = reduced[[place + row, place]]
        reduced[place] /= reduced[place, column]
        for other in range(len(reduced)):
            if other != place:
                reduced[other] -= reduced[other, column] * reduced[place]
    return reduced
