# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What fits say of parameters, and what the gate lets through, where the answer is known.

``problems``: every problem is simulated with its true values and white noise, and fitted. It passes
with every verdict, with all partners named and no other, and every combination with the truth
within twice the half-width of its interval.

``demo``: all parameters of the demo's arm must be identified in every draw of motion and noise.

``gate``: bags of a simulated three-joint arm are calibrated with the default conditions. After
honest fits, which must be accepted, each bad one is run into the same output; the accepted files
must stay byte by byte as they were.
"""

from __future__ import annotations

import hashlib
import tempfile
import textwrap
from pathlib import Path
from typing import Any, NamedTuple

import mujoco
import numpy as np
from shared.common import DEMO, Floats, ends, names_of, recorded, run, trajectory, verdict
from shared.doubtful import PROBLEMS, Doubtful
from shared.three_joints import PARAMETERS, TRUTH, Fault, arm, mapping, record, whole

from sysid_ros.config.schema import CalibrationConfig
from sysid_ros.fit.fit import FitOptions
from sysid_ros.model.targets import make_unknowns
from sysid_ros.plant import load_truth
from sysid_ros.uncertainty.inference import identify
from sysid_ros.workflows.calibrate import calibrate
from sysid_ros.workflows.excitation import sum_of_sines
from sysid_ros.workflows.writing import Calibration


def problems(*, only: str = '', seeds: int = 1) -> bool:
    """Fit the problems whose names contain a text, to draws of the noise."""
    chosen = [problem for problem in PROBLEMS if only in problem.name]
    passed = 0
    for problem in chosen:
        fine = [_is_right(problem, seed) for seed in range(seeds)]
        if seeds > 1:
            print(f'    {sum(fine)} of {seeds} draws')
        passed += all(fine)
    return verdict(passed == len(chosen), f'{passed} of {len(chosen)} problems named right')


def _same(expected: str, found: str) -> bool:
    """Return whether a verdict is the expected one, partners in any order."""
    return set(expected.replace(',', '').split()) == set(found.replace(',', '').split())


def _is_right(problem: Doubtful, seed: int) -> bool:
    """Fit a problem, print what was found, and judge it."""
    model = mujoco.MjModel.from_xml_string(problem.xml)
    unknowns, own = problem.unknowns(model), problem.sequence(model, seed)
    found = identify(model, unknowns, [own], options=FitOptions(start='nominal', threads=1))
    rows = list(zip(problem.free, found.intervals, strict=True))
    told = {one.expression: one for one in found.inference.combinations}
    missed = [
        expression
        for expression, truth in problem.determined.items()
        if expression not in told
        or abs(told[expression].value - truth) > told[expression].high - told[expression].low
    ]
    passed = not missed and all(_same(free.verdict, row.verdict) for free, row in rows)
    if passed and seed:
        return True
    verdict(passed, f'{problem.name} (seed {seed})')
    indent = {'initial_indent': ' ' * 8, 'subsequent_indent': ' ' * 8}
    for free, row in rows:
        mark = ' ' if _same(free.verdict, row.verdict) else '!'
        print(f'    {mark} {free.name}: {row.verdict} (expected {free.verdict})')
        print(textwrap.fill(row.explanation, 100, **indent))
    for expression in missed:
        print(f'    ! {expression} is not told or is off; told: {", ".join(told)}')
    return passed


def demo(*, draws: int = 20) -> bool:
    """Fit the demo's arm and print what is not identified."""
    model = mujoco.MjModel.from_xml_path(str(DEMO / 'arm.xml'))
    truth = load_truth(DEMO / 'truth.yaml')
    bounds = {
        'joint/*/armature': (0.0, 3.0),
        'joint/*/damping': (0.0, 60.0),
        'joint/*/frictionloss': (0.0, 30.0),
        'body/tool/mass': (0.1, 5.0),
    }
    unknowns = [u for path, own in bounds.items() for u in make_unknowns(path, model, bounds=own)]
    unknowns += make_unknowns('actuator/*/delay', model, shared=True, bounds=(0.0, 0.05))
    values = np.array([truth[unknown.name] for unknown in unknowns])
    sigma = {'position': 1e-4, 'velocity': 2e-3, 'effort': 0.1}
    noise = [sigma[name.rpartition('_')[2]] for name in names_of(model, 'sensor')]
    fine, seconds = 0, 8.0
    for draw in range(draws):
        motion = sum_of_sines(model, duration=seconds, seed=draw)
        own = trajectory(
            model,
            np.arange(0.0, seconds - 0.1, 0.01),
            commands=(motion.times, motion.commands),
            start=(model.key_qpos[0], np.zeros(model.nv)),
        )
        measured = recorded(model, own, unknowns, values, noise, draw)
        found = identify(
            model, unknowns, [measured], options=FitOptions(start='nominal', threads=1)
        )
        bad = [
            f'{unknown.name}: {row.verdict}; {row.explanation}'
            for unknown, row in zip(unknowns, found.intervals, strict=True)
            if row.verdict != 'identified'
        ]
        fine += not bad
        low, high = ends(found.intervals)
        print(
            f'    draw {draw}: {len(unknowns) - len(bad)} of {len(unknowns)} identified, widest '
            f'interval ±{100 * np.max((high - low) / 2 / values):.1f} %, {found.seconds:.0f} s',
            *bad,
            sep='\n      ! ',
            flush=True,
        )
    return verdict(fine == draws, f'demo arm: all identified in {fine} of {draws}')


#: Another arm with the same names: light drives that hardly rub, and a load.
_OTHER = {
    'joint/*/armature': 0.02,
    'joint/*/damping': 0.1,
    'joint/*/frictionloss': 0.05,
    'body/fore/mass': 2.0,
}


def _stuck(first: float, last: float) -> Fault:
    """Return the fault of an elbow whose encoder freezes for a while; its speed is still told."""
    held: list[float] = []

    def fault(time: float, position: Floats, velocity: Floats) -> tuple[Floats, Floats]:
        if first <= time <= last:
            held.append(float(position[2]))
            position = np.array([*position[:2], held[0]])
        return position, velocity

    return fault


def _frozen(_: float, position: Floats, velocity: Floats) -> tuple[Floats, Floats]:
    """Say all the time that the elbow stands at 0."""
    return np.array([*position[:2], 0.0]), np.array([*velocity[:2], 0.0])


def _reversed_sign(_: float, position: Floats, velocity: Floats) -> tuple[Floats, Floats]:
    """Turn the lift's sign."""
    sign = np.array([1.0, -1.0, 1.0])
    return position * sign, velocity * sign


class Case(NamedTuple):
    """Bags, what is wrong with each, and what is wrong with the configuration.

    ``mass`` is what the model says the forearm weighs, kg; the robot's is 1.
    """

    train: tuple[dict[str, float], Fault] = (TRUTH, whole)
    validate: tuple[dict[str, float], Fault] = (TRUTH, whole)
    changes: dict[str, Any] = {}  # noqa: RUF012 (is only read)
    mass: float = 1.0


def _cases() -> dict[str, Case]:
    """Return what must be rejected; a fault that holds a value is made anew for each bag."""
    fixed = [{'target': 'joint/*/armature', 'initial': 0.9, 'bounds': [0.85, 1.0]}]
    by_hand, swapped = {'mapping': mapping()}, {'mapping': mapping(lift='elbow', elbow='lift')}
    wrong_sign = (TRUTH, _reversed_sign)

    def stuck(first: float = -1.0, last: float = 99.0) -> tuple[dict[str, float], Fault]:
        return TRUTH, _stuck(first, last)

    return {
        'one iteration': Case(changes={'solver': {'max_iterations': 1, 'start': 'nominal'}}),
        'far too large armatures': Case(changes={'parameters': fixed}),
        'no friction, heavy forearm': Case(changes={'parameters': PARAMETERS[:1]}, mass=3.5),
        'train: another robot': Case(train=(_OTHER, whole)),
        'validate: another robot': Case(validate=(_OTHER, whole)),
        'swapped joints': Case(changes=swapped),
        'encoder stuck, 1.5 s': Case(train=stuck(2.0, 3.5)),
        'encoder stuck, 1.5 s, validate': Case(validate=stuck(2.0, 3.5)),
        'encoder stuck, always': Case(train=stuck()),
        'encoder stuck, both': Case(stuck(), stuck()),
        'encoder dead, speed too': Case((TRUTH, _frozen), (TRUTH, _frozen)),
        'sign reversed': Case(wrong_sign, wrong_sign, by_hand),
        'sign reversed, train only': Case(wrong_sign, changes=by_hand),
    }


def _calibrated(case: Case, folder: Path, output: Path, seed: int) -> Calibration:
    """Record and calibrate a case; bags are made anew in the folder."""
    folder.mkdir()
    robot, model = folder / 'robot.xml', folder / 'arm.xml'
    robot.write_text(arm())
    model.write_text(arm(case.mass))
    bags = []
    for number, (role, (truth, fault)) in enumerate(
        {'train': case.train, 'validate': case.validate}.items()
    ):
        record(folder / role, robot, truth, 2 * seed + number, fault)
        bags.append({'path': str(folder / role), 'role': role})
    document = {
        'model': model,
        'bags': bags,
        'mapping': mapping(),
        'parameters': PARAMETERS,
        'solver': {'threads': 1},
        'output': output,
        **case.changes,
    }
    return calibrate(CalibrationConfig.model_validate(document))


def _hashes(folder: Path) -> dict[str, str]:
    """Return the hash of every file in use."""
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted((folder / 'current').resolve().rglob('*'))
        if path.is_file()
    }


def gate(*, honest: int = 10, seeds: int = 1, only: str = '') -> bool:
    """Calibrate honest recordings, and each bad case from some recordings."""
    wrong = touched = 0
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        out = root / 'out'
        for seed in range(honest):
            done = _calibrated(Case(), root / f'honest_{seed}', out, seed)
            wrong += not _shown(f'honest, seed {seed}', done, expected=True)
        before = _hashes(out)
        for seed in range(100, 100 + seeds):
            for number, (title, case) in enumerate(_cases().items()):
                if only in title:
                    done = _calibrated(case, root / f'bad_{seed}_{number}', out, seed)
                    wrong += not _shown(f'{title}, seed {seed}', done, expected=False)
                    after = _hashes(out)
                    touched += bool(honest) and after != before
                    before = after
    text = f'{wrong} wrong, {touched} times files in use were changed'
    return verdict(not (wrong or touched), text)


def _shown(name: str, done: Calibration, *, expected: bool) -> bool:
    """Print what was expected, what was found, and why; return whether it is right."""
    found = done.result.accepted
    words = {True: 'accepted', False: 'rejected'}
    mark = 'ok   ' if found == expected else 'WRONG'
    print(f'{mark} {name:40s} {words[expected]} / {words[found]}: {done.result.acceptance}')
    failed = [check.name for check in done.result.gate if not check.passed]
    print(f'      failed: {", ".join(failed) or "nothing"}', flush=True)
    return found == expected


if __name__ == '__main__':
    run(__doc__, problems, demo, gate)
