# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What is read of a simulation between its rows, and how that changes with time."""

from __future__ import annotations

import numpy as np
import pytest

from sysid_ros.rollout.runs import lookup

TIMESTEP = 0.002
#: A force that jumps where a controller updates its command, and a smooth position.
ROWS = np.column_stack([np.repeat([0.0, 3.0, 1.0, 4.0], 5), np.sin(np.arange(20) / 5)])


@pytest.mark.parametrize('apart', [False, True])
def test_the_slope_of_what_jumps_is_that_of_what_is_compared(*, apart: bool) -> None:
    times = np.linspace(0.0007, 0.0367, 31)
    times = times[:, None] + np.array([0.0, 0.0004]) if apart else times
    step = 1e-9
    later, earlier = (lookup(times + move, TIMESTEP)(ROWS) for move in (step, -step))
    slopes = lookup(times, TIMESTEP).slopes(ROWS) / TIMESTEP
    np.testing.assert_allclose(slopes, (later - earlier) / (2 * step), atol=1e-4)


def test_on_a_row_the_slope_is_the_mean_of_both_sides() -> None:
    slopes = lookup(TIMESTEP * np.arange(1, 19), TIMESTEP).slopes(ROWS)
    np.testing.assert_allclose(slopes, np.gradient(ROWS, axis=0)[1:19])
