# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What the configuration tells a fit of noise and intervals."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from sysid_ros.config import StatisticsConfig
from sysid_ros.errors import ConfigError
from sysid_ros.identification.fit import fit
from sysid_ros.identification.observer import Nobody
from sysid_ros.pipeline.fitting import fit_training, known_noise


def problem(*sensors: str) -> Any:
    series = SimpleNamespace(signal_mapping=dict.fromkeys(sensors))
    return SimpleNamespace(sequences=lambda _: [SimpleNamespace(measurements=[series])])


def testknown_noise_is_of_all_sensors_of_a_pattern_and_later_entries_override() -> None:
    told = {'*': 1.0, '*_velocity': 2.0}
    found = known_noise(told, problem('elbow_position', 'elbow_velocity'))
    assert found == {'elbow_position': 1.0, 'elbow_velocity': 2.0}


def testknown_noise_of_no_sensor_is_an_error_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match=r"found 'elbow_positon'; nearest: elbow_position\.$"):
        known_noise({'elbow_positon': 1.0}, problem('elbow_position', 'tip_force'))


@pytest.mark.slow
def test_ends_of_a_profile_are_where_fits_of_models_with_that_value_are_equally_bad(
    workshop: Any,
) -> None:
    """Friction that is written into the model, and not fitted, is held by other means."""
    true = workshop.spec(damping=0.1, friction=0.03)
    problem = workshop.problem(
        workshop.spec(damping=0.2, friction=0.1),
        ('joint/j/frictionloss', 'joint/j/damping'),
        *(workshop.sequence(true, name, seed, noise=8.0) for seed, name in enumerate('ab')),
    )
    config = workshop.config.model_copy(
        update={'statistics': StatisticsConfig(intervals='profile')}
    )
    found = fit_training(config, problem, Nobody())
    ends = found.intervals[0]
    assert 'joint/j/frictionloss' in found.inference.method
    assert 0 < ends.low < found.solution.x[0] < ends.high
    rises = [
        fit(
            workshop.spec(damping=0.1, friction=friction),
            problem.parameters[1:],
            problem.sequences('train'),
            start='nominal',
            threads=1,
            noise=found.noise,
        ).solution.cost
        - found.solution.cost
        for friction in (ends.low, ends.high)
    ]
    assert rises == pytest.approx([1.96**2 / 2] * 2, rel=0.6)
    assert rises[0] == pytest.approx(rises[1], rel=0.12)


@pytest.mark.slow
def test_the_configuration_asks_for_draws(workshop: Any) -> None:
    true = workshop.spec(damping=0.1)
    problem = workshop.problem(true, ('joint/j/damping',), workshop.sequence(true, 'a', 0))
    statistics = StatisticsConfig(intervals='bootstrap', draws=200)
    config = workshop.config.model_copy(update={'statistics': statistics})
    found = fit_training(config, problem, Nobody())
    assert 'percentiles of 200 draws' in found.inference.method
    assert found.intervals[0].low < 0.1 < found.intervals[0].high
