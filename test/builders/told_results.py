# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Results with errors in physical units, made by a command, as what is said first needs them."""

from __future__ import annotations

from typing import Any

from builders.bare_results import bare_result, parameter, sensor_error, verdict
from sysid_ros.results.result import (
    CalibrationResult,
    FileHash,
    NoiseScale,
    Provenance,
)


def arm(**changes: Any) -> CalibrationResult:
    """Return an accepted result of an arm of one joint, with one recording held out."""
    errors = [
        sensor_error(sensor, unit, role, factor * before, factor * after)
        for role, factor in (('train', 1.0), ('validate', 1.1))
        for sensor, unit, before, after in (
            ('elbow_position', 'rad', 0.08, 0.002),
            ('elbow_velocity', 'rad/s', 0.5, 0.03),
            ('elbow_effort', 'N·m', 4.0, 0.1),
        )
    ]
    files = (
        FileHash(path='arm/arm.xml', role='model', sha256=''),
        *(
            FileHash(path=f'arm/bags/{bag}/{name}', role=bag.split('_')[0], sha256='')
            for bag in ('train_1', 'validate_1')
            for name in ('metadata.yaml', f'{bag}_0.mcap')
        ),
    )
    damping = parameter('joint/elbow/damping', 2.0, 0.1, unit='N·m·s/rad', bounds=(0.0, 5.0))
    fields: dict[str, Any] = {
        'model': 'arm/arm.xml',
        'parameters': (damping,),
        'mjcf': 'mjcf/arm.xml',
        'checks': verdict('Held-out error fell.'),
        'held_out_before': 40.0,
        'held_out_after': 1.2,
        'errors': tuple(errors),
        'noise': (
            NoiseScale(sensor='q', unit='rad', sigma=1e-3, source='estimated from residuals'),
        ),
        'provenance': Provenance(
            created='',
            versions={},
            files=files,
            command='sysid calibrate arm/calibration.yaml',
            config={'bags': [], 'output': 'arm/out'},
            input_mode='recorded commands',
        ),
        **changes,
    }
    return bare_result(**fields)
