# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What is said of all parameters at once."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import ndtri

from sysid_ros.inference.inference import all_at_once
from sysid_ros.model.unknown import Unknown


@pytest.mark.parametrize('count', [1, 4, 12])
@pytest.mark.parametrize('correlated', [False, True])
def test_all_at_once_is_as_wide_as_the_largest_of_the_errors(
    count: int, *, correlated: bool
) -> None:
    deviations = np.arange(1.0, count + 1)
    covariance = np.outer(deviations, deviations) * (1.0 if correlated else np.eye(count))
    unknowns = [Unknown(f'p{k}', (), 0.0, -9.0, 9.0) for k in range(count)]
    # Of independent errors (Šidák, 1967); those that are all the same are one.
    each = 0.95 if correlated else 0.95 ** (1 / count)
    expected = ndtri((1 + each) / 2) / ndtri(0.975)
    assert all_at_once(covariance, unknowns) == pytest.approx(expected, rel=0.02)
    # What has no interval does not count.
    wider = np.pad(covariance, (0, 1), constant_values=np.nan)
    more = [*unknowns, Unknown('blind', (), 0.0, -9.0, 9.0)]
    assert all_at_once(wider, more) == pytest.approx(expected, rel=0.02)
