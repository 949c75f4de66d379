# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Where the time of a calibration goes."""

from __future__ import annotations

import sys
import threading
import time
from collections import defaultdict
from types import FunctionType
from typing import TYPE_CHECKING, NamedTuple

from mujoco.batch import Batch

from sysid_ros.alignment.mapping.proposal import propose
from sysid_ros.estimation.arrivals import Arrivals
from sysid_ros.estimation.start.initialization import initialize, initialize_from
from sysid_ros.estimation.weighting import solve_weighted
from sysid_ros.identification.fit import fit
from sysid_ros.identification.held_out import with_arrivals_in
from sysid_ros.inference.inference import infer
from sysid_ros.pipeline.assembly import assemble
from sysid_ros.pipeline.calibration import identify, write
from sysid_ros.pipeline.loading import load
from sysid_ros.pipeline.validation import validate
from sysid_ros.report.tables import print_table
from sysid_ros.servos.laws.stepping import ServoStepper

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType, FrameType
    from typing import Self

    from sysid_ros.report.tables import LiteralConsole

#: What each of these does; time counts for the innermost one that runs.
_PHASES: dict[str, tuple[Callable[..., object], ...]] = {
    'reading recordings and model': (load,),
    'mapping signals to the model': (propose,),
    'preparing the fit, states at starts': (fit,),
    'a first solution': (initialize, initialize_from),
    'parameters and noise': (solve_weighted,),
    'when commands acted': (Arrivals.locate, with_arrivals_in),
    'intervals and verdicts': (infer,),
    'held-out recordings': (validate,),
    'predictions, nominal and fitted': (assemble,),
    'time step, other checks': (identify,),
    'result, report and model': (write,),
}
_REST = 'imports, configuration, console'
#: Seconds between two looks.
_PERIOD = 0.005


class Spent(NamedTuple):
    """Time of one phase, s.

    Attributes:
        seconds: Of the wall clock.
        simulating: While MuJoCo simulated.
        processor: Of all threads of the process.
    """

    seconds: float
    simulating: float
    processor: float


class Profile:
    """Looks, while it is entered, at what the thread that entered it is doing."""

    def __init__(self) -> None:
        """Know the phases by their code."""
        self._phases = {_code(each): name for name, own in _PHASES.items() for each in own}
        self._simulates = {_code(Batch.rollout), _code(ServoStepper.roll)}
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._simulating: defaultdict[str, float] = defaultdict(float)
        self._processor: defaultdict[str, float] = defaultdict(float)
        self._ended = threading.Event()

    def __enter__(self) -> Self:
        self._watched = threading.get_ident()
        self._watcher = threading.Thread(target=self._watch, daemon=True)
        self._watcher.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._watcher.join()

    def _watch(self) -> None:
        wall, processor = time.perf_counter(), time.process_time()
        while not self._ended.wait(_PERIOD):
            frames = sys._current_frames()  # noqa: SLF001 (its documented name)
            phase, simulates = self._look(frames.get(self._watched))
            now, used = time.perf_counter(), time.process_time()
            self._seconds[phase] += now - wall
            self._processor[phase] += used - processor
            if simulates:
                self._simulating[phase] += now - wall
            wall, processor = now, used

    def _look(self, frame: FrameType | None) -> tuple[str, bool]:
        simulates = False
        while frame is not None:
            simulates |= frame.f_code in self._simulates
            if frame.f_code in self._phases:
                return self._phases[frame.f_code], simulates
            frame = frame.f_back
        return _REST, simulates

    def spent(self) -> dict[str, Spent]:
        """Return what was seen, in the order in which a calibration goes."""
        return {
            name: Spent(self._seconds[name], self._simulating[name], self._processor[name])
            for name in (*_PHASES, _REST)
            if self._seconds[name]
        }

    def show(self, console: LiteralConsole) -> None:
        """Print the time of each phase, how much of it MuJoCo simulated, and the cores in use."""
        spent = self.spent()
        total = Spent(*map(sum, zip(*spent.values(), strict=True)))
        rows = [
            (
                name,
                f'{own.seconds:.1f}',
                f'{own.seconds / total.seconds:.0%}',
                f'{own.simulating / own.seconds:.0%}',
                f'{own.processor / own.seconds:.1f}',
            )
            for name, own in [*spent.items(), ('all', total)]
        ]
        columns = ('phase', '>s', '>share', '>in simulations', '>cores')
        print_table(console, 'Where the time went', columns, rows)


def _code(function: Callable[..., object]) -> CodeType:
    assert isinstance(function, FunctionType)  # noqa: S101
    return function.__code__
