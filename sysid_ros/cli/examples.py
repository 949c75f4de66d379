# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Lines to try, at the end of the help of each command."""

from __future__ import annotations

#: Command to what follows ``sysid`` in its examples.
EXAMPLES: dict[str, tuple[str, ...]] = {
    'init': (
        'init bags arm.xml',
        'init bags/train_1 bags/validate_1 arm.urdf -o calibration.yaml',
    ),
    'doctor': ('doctor', 'doctor --seconds 10 --json'),
    'inspect': (
        'inspect bags/train_1 arm.xml',
        'inspect bags/train_1 --json | jq .findings',
    ),
    'plot': ('plot bags/train_1 arm.xml --joint elbow -o pictures',),
    'recover': ('recover bags/cut_off -o bags/train_3',),
    'convert': (
        'convert bags/train_1 arm.xml -o series --format csv',
        'convert bags/train_1 arm.xml --mapping arm.mapping.yaml',
    ),
    'map': (
        'map bags/train_1 arm.xml',
        'map bags/train_1 arm.xml -o arm.mapping.yaml',
    ),
    'model': (
        'model arm.urdf.xacro',
        'model arm.urdf --package-path ~/ros/src -o arm.xml',
    ),
    'excite': (
        "excite arm.xml --for 'joint/*/armature' 'joint/*/damping' -o motion.csv",
        'excite arm.xml --config calibration.yaml --duration 30 -o motion.csv',
    ),
    'preflight': (
        'preflight calibration.yaml',
        'preflight calibration.yaml --json | jq .parameters',
    ),
    'calibrate': (
        'calibrate --example > calibration.yaml',
        'calibrate calibration.yaml',
        'calibrate calibration.yaml --set solver.loss=huber -o out/huber',
    ),
    'compare': (
        'compare out/2026-11-25T23-47-29Z out/current',
        "compare calibration.yaml --drop 'joint/*/frictionloss'",
    ),
    'check': (
        'check out/current bags/validate_1',
        'check arm.sysid.yaml --no-fit --junit check.xml --github',
        'check calibration.yaml --baseline baseline/result.json',
    ),
    'history': (
        'history',
        'history out',
    ),
    'rollback': (
        'rollback',
        'rollback out 2026-05-04T10-11-12Z',
    ),
    'export': (
        'export out/current -o identified',
        'export out/current --format urdf --urdf arm.urdf -o identified.urdf',
        'export out/current --samples 50 -o drawn',
    ),
    'predict': (
        'predict out/current bags/validate_1 -o beside',
        'predict arm.xml bags/validate_1 -o beside',
    ),
    'fleet': (
        'fleet fleet.yaml --workers 4',
        'fleet fleet.yaml --scheduler tcp://cell-pc:8786 -o out',
    ),
    'servo-logs': ('servo-logs bags/servo servo_bag.yaml -o logs',),
    'fit-actuator': (
        'fit-actuator --actuator xl330 --logdir logs -o params.json',
        'fit-actuator --actuator xl330 --logdir logs --validation-kp 200',
        'fit-actuator --actuator xl330 --logdir logs --eval -o params.json',
    ),
    'compare-actuators': ('compare-actuators --actuator xl330 --logdir logs --models m1,m4,m6',),
    'plot-actuator': ('plot-actuator --logdir logs --params params.json -o pictures',),
    'export-actuator': ('export-actuator --params params.json -o servo.xml',),
    'completion': ('completion bash >> ~/.bashrc',),
    'schema': ('schema inspect > inspect.schema.json',),
}


def examples_of(command: str) -> str:
    """Return the end of the help of a command: lines to copy; empty where it has none."""
    lines = [f'  sysid {line}' for line in EXAMPLES.get(command, ())]
    return '\n'.join(['examples:', *lines]) if lines else ''
