# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What is said first of a result, in each of the three states."""

from __future__ import annotations

import io
import math
from typing import Any

import pytest

from builders.told_results import arm
from sysid_ros.alignment.health import FindingKind, HealthFinding
from sysid_ros.report.tables import LiteralConsole, print_result
from sysid_ros.results.headline import headline
from sysid_ros.results.reservations import reservations
from sysid_ros.results.result import CalibrationResult, GateCheck, NoiseScale


def with_reservations(**changes: Any) -> CalibrationResult:
    bare = arm(**changes)
    return bare.model_copy(update={'reservations': reservations(bare)})


def accepted() -> CalibrationResult:
    return arm()


def reserved() -> CalibrationResult:
    jump = HealthFinding('train_1', '/joint_states', FindingKind.SPIKES, 1, '.244 s')
    return with_reservations(held_out_after=5.36, health=(jump,))


def only_trained() -> CalibrationResult:
    return with_reservations(held_out_before=math.nan, held_out_after=math.nan)


def rejected() -> CalibrationResult:
    check = GateCheck(
        name='explained',
        passed=False,
        detail='Only 12 % of the variance of elbow_position is predicted.',
        measured=12.0,
        limit=50.0,
        unit='%',
        at_least=True,
    )
    return arm(accepted=False, acceptance=check.detail, gate=(check,), mjcf='')


FIRST = """\
Held-out error, nominal → fitted: positions 88 → 2.2 mrad, velocities 0.55 → 0.033 rad/s, \
torques 4.4 → 0.11 N·m, at tcp 31 → 0.8 mm."""
NOISE = '(estimated from these residuals, so training is 1 by construction).'

ACCEPTED = f"""\
1 of 1 parameter identified.
ACCEPTED
{FIRST}
Held-out over training error: 1.20.
Beside the noise: 40 → 1.2 times the noise {NOISE}
Next:
  1. Take the fitted model into use, and let CI fit again and compare.
     cp -r arm/out/current/mjcf arm/arm_fitted
     sysid check arm/calibration.yaml --baseline arm/out/current/result.json"""

RESERVED = f"""\
1 of 1 parameter identified.
ACCEPTED WITH RESERVATIONS
{FIRST}
Held-out over training error: 5.36.
Beside the noise: 40 → 5.36 times the noise {NOISE}
  The held-out error is 5.36 times that of training: training motion does not cover it, or the \
model lacks something.
  Recordings have faults that are not left out: spikes in train_1.
Next:
  1. Look at spikes in train_1. Check the cable of the bus; until then fit with \
--set solver.loss=huber.
     sysid inspect arm/bags/train_1 arm/arm.xml
  2. Find what the robot does and the model does not: friction that depends on direction, play, \
an elastic joint; or a mass, length, gain or unit of efforts that is wrong.
     sysid inspect arm/bags/train_1 arm/arm.xml
  3. Take the fitted model into use where that is good enough, and let CI fit again and compare.
     cp -r arm/out/current/mjcf arm/arm_fitted
     sysid check arm/calibration.yaml --baseline arm/out/current/result.json"""

ONLY_TRAINED = f"""\
1 of 1 parameter identified.
ACCEPTED WITH RESERVATIONS
Training error (nothing is held out), nominal → fitted: positions 80 → 2 mrad, \
velocities 0.5 → 0.03 rad/s, torques 4 → 0.1 N·m.
Beside the noise: 9 → 1 times the noise {NOISE}
  Nothing was held out: that the model predicts other motion is not shown; record some for \
validation.
Next:
  1. Record another motion, list it under bags with role: validate, and calibrate again.
     # in arm/calibration.yaml
     bags:
       - {{path: arm/bags/validate_2, role: validate}}
     ros2 launch sysid_ros record.launch.xml output:=arm/bags/validate_2
     sysid calibrate arm/calibration.yaml
  2. Take the fitted model into use where that is good enough, and let CI fit again and compare.
     cp -r arm/out/current/mjcf arm/arm_fitted
     sysid check arm/calibration.yaml --baseline arm/out/current/result.json"""

REJECTED = f"""\
1 of 1 parameter identified.
REJECTED: the identified model is not written.
{FIRST}
Held-out over training error: 1.20.
Beside the noise: 40 → 1.2 times the noise {NOISE}
  explained: Only 12 % of the variance of elbow_position is predicted. (12 %, at least 50 %)
Next:
  1. Find what the robot does and the model does not: friction that depends on direction, play, \
an elastic joint; or a mass, length, gain or unit of efforts that is wrong.
     sysid inspect arm/bags/train_1 arm/arm.xml"""

STATES = [
    (accepted, ACCEPTED),
    (reserved, RESERVED),
    (only_trained, ONLY_TRAINED),
    (rejected, REJECTED),
]


@pytest.mark.parametrize(('made', 'expected'), STATES)
def test_the_console_ends_with_standing_errors_and_what_to_do(made: Any, expected: str) -> None:
    stream = io.StringIO()
    print_result(LiteralConsole(stream, 1000), made())
    lines = [line.rstrip() for line in stream.getvalue().splitlines()]
    assert '\n'.join(lines[-len(expected.splitlines()) :]) == expected


def test_noise_comes_after_what_it_is_estimated_from_is_said() -> None:
    for made, _ in STATES:
        first = headline(made()).lines[0]
        assert 'noise' not in first
    known = NoiseScale(sensor='q', unit='rad', sigma=1e-3, source='configuration')
    assert 'noise (from configuration)' in headline(arm(noise=(known,))).lines[-1]
