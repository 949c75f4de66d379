# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""How residuals answer to the errors of many commands: a banded least-squares problem."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import scipy.linalg
import scipy.sparse

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: What is known of errors after the fit is estimated from so many draws (Hutchinson, 1990).
_DRAWS = 32


class System:
    """How the residuals of one sequence answer to k errors, in units of their deviations.

    Attributes:
        responses: (n, k) change of the residuals.
    """

    def __init__(
        self, responses: scipy.sparse.csr_array, gram: NDArray[np.float64] | None = None
    ) -> None:
        self.responses = responses
        self._gram = _banded(responses) if gram is None else gram
        banded = self._gram.copy()
        banded[-1] += 1.0
        self._factor = scipy.linalg.cholesky_banded(banded) if banded.size else banded

    def times(self, ratio: NDArray[np.float64]) -> System:
        """Return the same for deviations that are (k,) times as large."""
        gram = self._gram * ratio
        for band in range(1, len(gram)):
            gram[-1 - band, band:] *= ratio[:-band]
        gram[-1] *= ratio
        scaled = self.responses @ scipy.sparse.diags_array(ratio)
        return System(scipy.sparse.csr_array(scaled), gram)

    def scaled(self, factor: NDArray[np.float64]) -> System:
        """Return the same for residuals that are multiplied by (n,) factors."""
        return System(scipy.sparse.csr_array(scipy.sparse.diags_array(factor) @ self.responses))

    def best(
        self, residual: NDArray[np.float64], known: NDArray[np.float64] | float = 0.0
    ) -> NDArray[np.float64]:
        """Return the (k, m) changes of errors that lower the sum of all squares most.

        Args:
            residual: (n, m) residuals at the errors that are known so far.
            known: (k, 1) those errors.
        """
        right: NDArray[np.float64] = self.responses.T @ residual + known
        if not right.size:
            return right
        found: NDArray[np.float64] = scipy.linalg.cho_solve_banded((self._factor, False), right)
        return np.asarray(-found)

    def draws(self, rng: np.random.Generator) -> NDArray[np.float64]:
        """Return (k, draws) of what the residuals leave open about the errors."""
        reach, count = len(self._factor) - 1, self._factor.shape[1]
        normal = rng.standard_normal((count, _DRAWS))
        if not count:
            return normal
        found: NDArray[np.float64] = scipy.linalg.solve_banded((0, reach), self._factor, normal)
        return found


def _banded(responses: scipy.sparse.csr_array) -> NDArray[np.float64]:
    """Return the products of the columns, the upper bands of (k, k) as rows, the diagonal last."""
    products = (responses.T @ responses).tocoo()
    upper = products.col >= products.row
    row, column = products.row[upper], products.col[upper]
    reach = int(np.max(column - row, initial=0))
    bands = np.zeros((reach + 1, responses.shape[1]))
    bands[reach + row - column, column] = products.data[upper]
    return bands
