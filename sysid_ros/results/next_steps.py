# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What to do next with a result: one to three actions, with commands to type where there are."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum, auto
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from sysid_ros.alignment.health import Grade
from sysid_ros.config.calibration import VerdictKind
from sysid_ros.errors import some
from sysid_ros.results.gate import Condition, suspicion
from sysid_ros.results.refutations import MOST_SHARE, predicted_worse, wrong_times
from sysid_ros.results.reservations import Reservation
from sysid_ros.results.result import CalibrationResult, ParameterResult, SolverStatus
from sysid_ros.results.store import CURRENT, RESULT

#: What lines with commands begin with.
COMMAND = '     '
#: So many actions are more than enough.
_MOST = 3
#: Where a result does not know what it was made from.
_BAG = Path('bags/train_1')
#: A fit that was stopped goes on so many times as long, of so many iterations at least.
_LONGER, _FEWEST = 4, 25
_YAML = ('.yaml', '.yml')
#: What entries of parameters have where nothing is said.
_DEFAULTS: tuple[object, ...] = (None, False, 'linear')
#: One delay of all commands, s.
_DELAY = {'target': 'actuator/*/delay', 'shared': True, 'bounds': [0.0, 0.1]}


class Action(Enum):
    """What may be done next, what helps most first."""

    MAP = auto()
    LOOK = auto()
    GO_ON = auto()
    FREE = auto()
    WIDEN = auto()
    RECORD = auto()
    EXCITE = auto()
    SEARCH = auto()
    USE = auto()


#: Conditions that are not met and reservations, by what helps against them.
_REASONS: dict[Action, frozenset[str]] = {
    Action.MAP: frozenset({Reservation.MAPPING}),
    Action.LOOK: frozenset(
        {Condition.LIVE, Condition.MOVING, Condition.CONSISTENT, Reservation.RECORDINGS}
    ),
    Action.GO_ON: frozenset({Condition.CONVERGED, Reservation.OPTIMUM}),
    Action.FREE: frozenset({Condition.TIMES}),
    Action.WIDEN: frozenset({Condition.BOUNDS}),
    Action.RECORD: frozenset({Reservation.HELD_OUT}),
    Action.EXCITE: frozenset({Condition.VERDICTS, Reservation.IDENTIFIED}),
    Action.SEARCH: frozenset(
        {
            Condition.BETTER,
            Condition.STABLE,
            Condition.EXPLAINED,
            Condition.BALANCED,
            Condition.NO_SENSOR_WORSE,
            Condition.LEFT_OUT,
            Condition.MOTION,
            Reservation.GENERALISES,
            Reservation.BANDS,
            Reservation.EACH_SENSOR,
            Reservation.AHEAD,
            Reservation.MODEL,
            Reservation.RESIDUALS,
            Reservation.AGREEMENT,
        }
    ),
}


class NextStep(NamedTuple):
    """One thing to do.

    Attributes:
        sentence: It, for people.
        commands: Lines to type in a shell.
        yaml: Lines that the configuration is to have before that.
    """

    sentence: str
    commands: tuple[str, ...] = ()
    yaml: tuple[str, ...] = ()

    @property
    def lines(self) -> tuple[str, ...]:
        """What is copied: lines of the configuration, and then commands."""
        return (*self.yaml, *self.commands)

    def __str__(self) -> str:
        """Return it in one line."""
        return ' '.join([self.sentence, *(f'`{line.strip()}`' for line in self.lines)])


def next_steps(result: CalibrationResult) -> tuple[NextStep, ...]:
    """Return what to do next, what helps most first; nothing for what was not made from bags."""
    if 'bags' not in result.provenance.config:
        return ()
    reasons = {check.name for check in result.gate if not check.passed}
    reasons |= {check.name for check in result.reservations}
    wanted = [action for action, names in _REASONS.items() if names & reasons]
    if wrong_times(result)[1] > MOST_SHARE:
        wanted = [Action.FREE, *(action for action in wanted if action is not Action.FREE)]
    if not result.accepted and any(suspicion(error) for error in result.errors):
        wanted = [Action.MAP, *(action for action in wanted if action is not Action.MAP)]
    if result.accepted and result.mjcf and any(own.identified for own in result.parameters):
        wanted = [*wanted[: _MOST - 1], Action.USE]
    made = _Made(result)
    steps = {
        Action.MAP: made.map,
        Action.LOOK: made.look,
        Action.GO_ON: made.go_on,
        Action.FREE: made.free,
        Action.WIDEN: made.widen,
        Action.RECORD: made.record,
        Action.EXCITE: made.excite,
        Action.SEARCH: made.search,
        Action.USE: made.use,
    }
    return tuple(steps[action]() for action in wanted[:_MOST])


def step_lines(result: CalibrationResult) -> Iterator[str]:
    """Yield what to do next as lines of text, none where there is nothing to do."""
    steps = next_steps(result)
    if steps:
        yield 'Next:'
    for number, step in enumerate(steps, 1):
        yield f'  {number}. {step.sentence}'
        for line in step.lines:
            yield f'{COMMAND}{line}'


def _flow(value: object) -> str:
    """Return a value as YAML on one line."""
    text = yaml.safe_dump(value, default_flow_style=True, sort_keys=False, width=math.inf)
    return text.strip()


def _matches(pattern: str, path: str) -> bool:
    """Return whether an entry of the configuration is of a target; it may be of a vector."""
    of, bracket, component = pattern.partition('[')
    return fnmatchcase(path.partition('[')[0], of) and path.endswith(bracket + component)


def _wider(own: ParameterResult) -> list[float]:
    """Return bounds as far again on the side on which the value lies on one."""
    low, high = own.bounds
    if own.value - low > high - own.value:
        return [low, 2 * high - low]
    return [low / 2 if low > 0 else 2 * low - high, high]


class _Made:
    """The steps after one result, with the files that it was made from.

    Where it was not made by a command with a configuration, as in a notebook, there are no commands
    to type.
    """

    def __init__(self, result: CalibrationResult) -> None:
        made = result.provenance
        words = made.command.split()
        files = [Path(file.path) for file in made.files if file.role != 'model']
        folders = {file.parent for file in files if file.name == 'metadata.yaml'}
        self.result = result
        self.config = next((word for word in words if word.endswith(_YAML)), '')
        self.model = Path(result.model)
        self.output = Path(str(made.config.get('output', 'out')))
        self.bags = [file.parent if file.parent in folders else file for file in files] or [_BAG]

    def shell(self, *lines: Sequence[object]) -> tuple[str, ...]:
        """Return lines of words as commands of a shell."""
        return tuple(shlex.join(map(str, line)) for line in lines if self.config)

    def calibrate(self, *more: str) -> tuple[object, ...]:
        """Return the words of the command that calibrates again."""
        return ('sysid', 'calibrate', self.config, *more)

    def map(self) -> NextStep:
        """Look at the mapping where a sensor runs against the model, or others are as like."""
        suspect = dict.fromkeys(error.sensor for error in self.result.errors if suspicion(error))
        of = f' of {some(suspect)}' if suspect else ''
        return NextStep(
            f'Check the mapping{of}: have sign, order and unit of each joint proposed from the '
            'motion, look at the proposal, and calibrate with it.',
            self.shell(
                ('sysid', 'map', self.bags[0], self.model, '-o', 'mapping.yaml'),
                self.calibrate('--set', 'mapping=mapping.yaml'),
            ),
        )

    def look(self) -> NextStep:
        """Look into the recording that is at fault."""
        faults = [item for item in self.result.health if item.kind.grade is Grade.FAULT]
        sequences = sorted(self.result.diagnostics.sequences, key=lambda item: -item.error)
        names = [item.bag for item in faults] + [item.sequence for item in sequences]
        known = (bag for name in names for bag in self.bags if bag.name == Path(name).name)
        bag = next(known, self.bags[0])
        found, remedy = 'what is wrong', 'Leave that time out by segments.times, or record again.'
        if faults:
            found, remedy = str(faults[0].kind), faults[0].kind.remedy
        return NextStep(
            f'Look at {found} in {bag.name}. {remedy}'.strip(),
            self.shell(('sysid', 'inspect', bag, self.model)),
        )

    def go_on(self) -> NextStep:
        """Let the fit go on to its end."""
        most = _LONGER * max(self.result.solver.iterations, _FEWEST)
        key = f'solver.max_iterations={most}'
        if self.result.solver.status is SolverStatus.TIME:
            key = f'solver.time={math.ceil(_LONGER * self.result.solver.seconds)}'
        return NextStep(
            'Let the solver go on until the cost falls no more.',
            self.shell(self.calibrate('--set', key)),
        )

    def yaml(self, *lines: str) -> tuple[str, ...]:
        """Return lines of YAML, with the name of the file that they belong into."""
        return (f'# in {self.config}', *lines) if self.config and lines else ()

    def parameters(self, others: Mapping[str, Mapping[str, object] | None]) -> tuple[str, ...]:
        """Return entries of the configuration that are to be others.

        Args:
            others: Name of a parameter to what its entry is to have; None takes it out.
        """
        lines: list[str] = []
        entries: Any = self.result.provenance.config.get('parameters', ())
        for entry in entries:
            said = {key: value for key, value in entry.items() if value not in _DEFAULTS}
            own = [p for p in self.result.parameters if _matches(entry['target'], p.targets[0])]
            if not any(p.name in others for p in own):
                continue
            lines.append(f'  # instead of {_flow(said)}')
            kept = [p for p in own if others.get(p.name, said) is not None]
            for p in kept:
                # One entry is of many parameters where they are not shared.
                alone = {} if len(own) == 1 else {'target': p.targets[0]}
                lines.append(f'  - {_flow({**said, **alone, **(others.get(p.name) or {})})}')
        return self.yaml('parameters:', *lines) if lines else ()

    def free(self) -> NextStep:
        """Make a parameter of the delay that the model lacks."""
        title, _ = wrong_times(self.result)
        of = f' of {title}' if title else ''
        return NextStep(
            f'Make delays parameters{of}, or stamp commands and states by one clock, and calibrate '
            'again.',
            self.shell(self.calibrate()),
            self.yaml('parameters:', f'  - {_flow(_DELAY)}'),
        )

    def widen(self) -> NextStep:
        """Widen bounds that values lie on."""
        outer = [
            own
            for own in self.result.parameters
            if own.verdict_kind is VerdictKind.AT_BOUND and own.value
        ]
        names = [
            f'{own.name} ({own.bounds[0]:g} to {own.bounds[1]:g} {own.unit}'.rstrip() + ')'
            for own in outer
        ]
        return NextStep(
            f'Widen the bounds of {some(names)} in the configuration if physics allows it, and '
            'calibrate again.',
            self.shell(self.calibrate()),
            self.parameters({own.name: {'bounds': _wider(own)} for own in outer}),
        )

    def record(self) -> NextStep:
        """Record something that can be held out."""
        taken = {bag.name for bag in self.bags}
        names = (f'validate_{number}' for number in range(1, len(taken) + 2))
        bag = self.bags[0].parent / next(name for name in names if name not in taken)
        return NextStep(
            'Record another motion, list it under bags with role: validate, and calibrate again.',
            self.shell(
                ('ros2', 'launch', 'sysid_ros', 'record.launch.xml', f'output:={bag}'),
                self.calibrate(),
            ),
            self.yaml('bags:', f'  - {_flow({"path": str(bag), "role": "validate"})}'),
        )

    def excite(self) -> NextStep:
        """Record a motion that moves what no motion has told of."""
        told = (VerdictKind.NOT_EXCITED, VerdictKind.CONFOUNDED)
        names = [own.name for own in self.result.parameters if own.verdict_kind in told]
        of = f' that tells of {some(names)}' if names else ''
        idle = [
            own.name
            for own in self.result.parameters
            if own.verdict_kind is VerdictKind.NOT_EXCITED
        ]
        launch = ('ros2', 'launch', 'sysid_ros', 'excite.launch.xml')
        return NextStep(
            f'Record a motion{of}, or leave that out of parameters: design it, run it, record it.',
            self.shell(
                ('sysid', 'excite', self.model, '--config', self.config, '-o', 'motion.csv'),
                (*launch, f'model:={self.model}', 'motion:=motion.csv'),
            ),
            self.parameters(dict.fromkeys(idle)),
        )

    def search(self) -> NextStep:
        """Look for what the model lacks."""
        worse = {error.sensor for error in predicted_worse(self.result)}
        rest = [s for s in dict.fromkeys(e.sensor for e in self.result.errors) if s not in worse]
        return NextStep(
            'Find what the robot does and the model does not: friction that depends on direction, '
            'play, an elastic joint; or a mass, length, gain or unit of efforts that is wrong.',
            self.shell(('sysid', 'inspect', self.bags[0], self.model)),
            self.yaml(
                f'# without {some(sorted(worse))}, which the nominal model predicts better:',
                f'sensors: {_flow(rest)}',
            )
            if worse and rest
            else (),
        )

    def use(self) -> NextStep:
        """Take the fitted model into use."""
        # The folder, as what was fitted may be in a file that the main one includes.
        current = self.output / CURRENT
        fitted = current / Path(self.result.mjcf).parts[0]
        new = self.model.with_name(f'{self.model.stem}_fitted')
        doubt = ' where that is good enough' if self.result.reservations else ''
        return NextStep(
            f'Take the fitted model into use{doubt}, and let CI fit again and compare.',
            self.shell(
                ('cp', '-r', fitted, new),
                ('sysid', 'check', self.config, '--baseline', current / RESULT),
            ),
        )
