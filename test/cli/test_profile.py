# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""``sysid calibrate --profile``."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

import pytest

from sysid_ros.cli.profile import Profile

if TYPE_CHECKING:
    from builders.cli_project import Project, Sysid


def test_time_outside_of_all_phases_is_the_rest():
    with Profile() as profile:
        time.sleep(0.2)
    (spent,) = profile.spent().values()
    assert spent.seconds == pytest.approx(0.2, abs=0.15)
    assert spent.simulating == 0.0
    assert spent.processor < spent.seconds


@pytest.mark.slow
@pytest.mark.usefixtures('undrawn')
def test_a_profile_shows_phases_that_add_up(quick: Project, sysid: Sysid):
    begun = time.perf_counter()
    done = sysid('calibrate', quick.config, '--profile')
    took = time.perf_counter() - begun
    assert done.code == 0
    table = done.out.partition('Where the time went\n')[2].partition('\n\n')[0]
    rows = [re.split(r'\s{2,}', line.strip()) for line in table.splitlines()[1:]]
    seconds = {row[0]: float(row[1]) for row in rows}
    total = seconds.pop('all')
    assert total <= took + 0.05  # it is rounded to tenths
    assert sum(seconds.values()) == pytest.approx(total, abs=0.06 * len(seconds))
    assert {'parameters and noise', 'result, report and model'} <= set(seconds)
    (parameters,) = [row for row in rows if row[0] == 'parameters and noise']
    assert parameters[3] != '0%'
