# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Raw servo logs as a recorder writes them, fitted as they are, against their floor.

A servo near a published one is simulated in steps of .1 ms while a loop of 8 ms with jitter and
stalls writes goals, reads a shaken encoder of 4096 counts up to 4 ms later, and stamps that: four
motions with three loads and gains to fit, and with two others to predict. The floor is the mean
absolute error that the true motion leaves there. Printed are, per law and draw, over that floor:
what the fit to raw logs and the true coefficients in the same steps leave of the other loads; the
command delay that was found and the true one; processor seconds; and the worst.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
from cases.servo_logs import FITTED, PREDICTED, TRUTH, near, record

from sysid_ros.servos.bench.fit import fit_servo, values_of
from sysid_ros.servos.bench.pendulum import errors_by_log, mean_error, servo_for
from sysid_ros.servos.laws.servo import Servo

#: Shortest turn of the recorder's loop, mean of what comes on top, and its rare stalls, s.
_LOOP, _JITTER, _STALL = 0.0075, 0.0005, 0.015
_STALLS = 0.005
#: Longest time from writing a goal to reading the encoder, s.
_LEAD = 0.004
_LIMIT = 1.2


def _clock(rng: np.random.Generator) -> np.ndarray:
    turn = _LOOP + rng.exponential(_JITTER, 800)
    return np.cumsum(turn + _STALL * (rng.uniform(size=800) < _STALLS))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--models', default=','.join(TRUTH))
    parser.add_argument('--draws', type=int, default=3)
    parser.add_argument('--seed', type=int, default=1)
    args = parser.parse_args()
    worst = 0.0
    print(
        f'{"law":4}{"draw":>5}{"floor":>7}{"raw":>7}{"truth":>7}{"delay":>14}{"seconds":>9}   '
        'floor in mrad, delay in ms'
    )
    for model in args.models.split(','):
        for draw in range(args.draws):
            rng = np.random.default_rng([args.seed, draw])
            even = Servo.named('xl330', model)
            truth, lead = near(even, rng), rng.uniform(0, _LEAD)
            (train, _), (other, floors) = (
                record(even, truth, rng, loads=loads, clock=_clock(rng), lead=lead)
                for loads in (FITTED, PREDICTED)
            )
            servo, floor = servo_for(even, train), floors.mean()
            began = time.process_time()
            values = values_of(servo, fit_servo(servo, train), {})
            took = time.process_time() - began
            error, own = (
                mean_error(errors_by_log(servo, known, other)) / floor
                for known in (values, {**truth, 'command_delay': -lead})
            )
            worst = max(worst, error)
            print(
                f'{model:4}{draw:5}{1e3 * floor:7.3f}{error:7.2f}{own:7.2f}'
                f'{1e3 * values["command_delay"]:7.2f}{-1e3 * lead:7.2f}{took:9.1f}',
                flush=True,
            )
    print(f'worst {worst:.2f}: {"PASS" if worst <= _LIMIT else "MISS"}')


if __name__ == '__main__':
    main()
