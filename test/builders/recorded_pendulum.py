# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Calibrations of the recorded pendulum that take about a second."""

from __future__ import annotations

from pathlib import Path

from sysid_ros.config.files import load_calibration
from sysid_ros.config.schema import CalibrationConfig, CheckConfig, ParameterConfig, SegmentsConfig

#: A model, two bags, what the robot hid, and a configuration with a result that was accepted.
FOLDER = Path(__file__).parents[1] / 'data' / 'pendulum'
#: Three of its numbers, which make up for the five that stay wrong: the fit is accepted.
FEW = (ParameterConfig(target='joint/*/damping'), ParameterConfig(target='body/tip/mass'))
#: All numbers that the robot hid.
ALL = load_calibration(FOLDER / 'calibration.yaml').parameters
#: Seconds of each bag that are enough to tell the numbers apart.
TIMES = {'train': ((0.0, 2.0),), 'validate': ((0.0, 1.5),)}


def calibration(output: Path, **changes: object) -> CalibrationConfig:
    """Return a calibration of few parameters from the first seconds of both bags."""
    update = {
        'parameters': FEW,
        'segments': SegmentsConfig(times=TIMES),
        'check': CheckConfig(),
        'output': output,
        **changes,
    }
    return load_calibration(FOLDER / 'calibration.yaml').model_copy(update=update)
