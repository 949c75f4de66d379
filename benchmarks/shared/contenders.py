# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A problem that MuJoCo's toolbox and sysid_ros both get, and the same program with either."""

from __future__ import annotations

import contextlib
import functools
import importlib
import io
import logging
import re
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Self

import mujoco
import numpy as np
from mujoco.rollout import Rollout
from shared.arms import write
from shared.common import CORES, Floats

#: Name in the tables to the module that is imported as ``sysid``.
MODULES = {'mujoco.sysid': 'mujoco.sysid', 'sysid_ros': 'sysid_ros.identification'}
TOOLBOX, OURS = MODULES
#: Relative step of the central differences that the standard errors come from.
_STEP = 1e-5
#: How far starts are moved, as a share of what the bounds allow.
_AWAY = 0.3
_TERMINATED = re.compile(r'Terminated after (\d+) iterations: (.*?)\. y:')


@dataclass(frozen=True)
class Free:
    """One parameter, scalar or vector.

    Attributes:
        target: What it writes; of a sensor it writes nothing, but changes the signals.
        start: (k,) where both contenders begin.
        low: (k,) lower bounds.
        high: (k,) upper bounds.
        truth: (k,) what the recordings were made with.
    """

    target: str
    start: Floats
    low: Floats
    high: Floats
    truth: Floats

    @property
    def of_signals(self) -> bool:
        """Whether it changes the signals, and not the model."""
        return self.target.startswith('sensor/')


def scalars(
    target: str,
    names: Sequence[str],
    truth: Sequence[float] | Floats,
    start: Sequence[float] | Floats,
    bounds: tuple[float, float],
) -> tuple[Free, ...]:
    """Return a target such as ``joint/{}/damping`` of several elements."""
    return tuple(
        Free(target.format(name), *(np.array([number]) for number in (first, *bounds, value)))
        for name, value, first in zip(names, truth, start, strict=True)
    )


class Recording(NamedTuple):
    """One sequence, a row per timestep, stamped with the time of the state that it describes.

    Attributes:
        times: (n,) s.
        controls: (n, nu) commands, each held until the next.
        measured: (n, nsensordata) samples, in the model's order of sensors.
        state: (nstate,) MuJoCo's full physics state at the first stamp.
    """

    times: Floats
    controls: Floats
    measured: Floats
    state: Floats


@dataclass(frozen=True)
class Case:
    """One row of the benchmark.

    Attributes:
        key: The letter that selects it.
        title: What is fitted.
        make_spec: Makes a new spec: the toolbox leaves its values in the one it is given.
        free: What is unknown.
        exact: Recordings without noise.
        noise: (nsensordata,) standard deviation of the noise of each column.
    """

    key: str
    title: str
    make_spec: Callable[[], mujoco.MjSpec]
    free: tuple[Free, ...]
    exact: tuple[Recording, ...]
    noise: Floats

    @property
    def truth(self) -> Floats:
        """(p,) all true values."""
        return np.concatenate([free.truth for free in self.free])

    def started(self, seed: int) -> Case:
        """Return the case with other starts: as published for seed 0, else moved at random."""
        random = np.random.default_rng(seed)
        free = []
        for each in self.free:
            move = _AWAY * (each.high - each.low) * random.uniform(-1.0, 1.0, len(each.start))
            start = each.start + move if seed else each.start
            # A start beyond a bound is mirrored at it: few of them should stand right on one.
            start = np.where(start < each.low, 2 * each.low - start, start)
            start = np.where(start > each.high, 2 * each.high - start, start)
            free.append(replace(each, start=start))
        return replace(self, free=tuple(free))

    def recordings(self, seed: int) -> list[Recording]:
        """Return the recordings with normal noise."""
        random = np.random.default_rng(seed)
        return [
            one._replace(
                measured=one.measured + self.noise * random.normal(size=one.measured.shape)
            )
            for one in self.exact
        ]

    def standard_errors(self) -> Floats:
        """Return the (p,) standard errors that no unbiased estimate can stay below.

        The Cramér-Rao bound for the noise that the recordings were made with, from central
        differences at the truth; all columns of one side are one batch.
        """
        steps = _STEP * np.maximum(np.abs(self.truth), 0.1)
        size = len(steps)
        moved = np.concatenate([self.truth + np.diag(steps), self.truth - np.diag(steps)])
        models = [compiled(self.make_spec(), self.free, values) for values in moved]
        information = np.zeros((size, size))
        for recording in self.exact:
            found = simulate(models, recording.state, recording.controls)
            found = np.array(
                [law(self.free, v, f, models[0]) for v, f in zip(moved, found, strict=True)]
            )
            jacobian = (found[:size] - found[size:]) / (2 * steps[:, None, None] * self.noise)
            flat = jacobian.reshape(size, -1)
            information += flat @ flat.T
        return np.asarray(np.sqrt(np.diag(np.linalg.inv(information))))


def case_of(
    key: str,
    title: str,
    make_spec: Callable[[], mujoco.MjSpec],
    free: tuple[Free, ...],
    commands: Sequence[Floats],
    noise: Floats | float,
    poses: Sequence[Floats | None] = (),
) -> Case:
    """Return a case with a recording for each of the (n, nu) commands, from rest in its pose."""
    truth = np.concatenate([each.truth for each in free])
    model = compiled(make_spec(), free, truth)
    exact = []
    for command, pose in zip(commands, poses or [None] * len(commands), strict=True):
        state = initial_state(model, pose)
        measured = law(free, truth, simulate([model], state, command)[0], model)
        times = np.arange(len(command)) * model.opt.timestep
        exact.append(Recording(times, command, measured, state))
    sigma = np.broadcast_to(noise, model.nsensordata)
    return Case(key, title, make_spec, free, tuple(exact), sigma)


def compiled(spec: mujoco.MjSpec, free: Sequence[Free], values: Floats) -> mujoco.MjModel:
    """Apply (p,) values to a spec, which is changed, and compile it."""
    start = 0
    for parameter in free:
        size = len(parameter.start)
        if not parameter.of_signals:
            write(spec, parameter.target, values[start : start + size])
        start += size
    return spec.compile()


def simulate(models: Sequence[mujoco.MjModel], state: Floats, controls: Floats) -> Floats:
    """Return the (m, n, nsensordata) samples at the stamps of (n, nu) controls.

    MuJoCo records a sensor before it integrates the step: row k is the state at k timesteps.
    """
    with Rollout(nthread=2) as pool:
        _, found = pool.rollout(
            list(models),
            [mujoco.MjData(models[0]) for _ in range(2)],
            np.tile(state, (len(models), 1)),
            np.tile(controls, (len(models), 1, 1)),
        )
    return np.asarray(found)


def law(free: Sequence[Free], values: Floats, rows: Floats, model: mujoco.MjModel) -> Floats:
    """Return (n, k) samples after the gain, bias and delay of each sensor, if these are free."""
    if not free[0].of_signals:
        return rows
    times = np.arange(len(rows)) * model.opt.timestep
    for column, (gain, bias, delay) in enumerate(values.reshape(-1, 3)):
        rows[:, column] = gain * np.interp(times - delay, times, rows[:, column]) + bias
    return rows


def initial_state(model: mujoco.MjModel, qpos: Floats | None = None) -> Floats:
    """Return MuJoCo's full physics state at rest, in the reference configuration unless given."""
    data = mujoco.MjData(model)
    if qpos is not None:
        data.qpos[:] = qpos
    full = mujoco.mjtState.mjSTATE_FULLPHYSICS.value
    state = np.empty(mujoco.mj_stateSize(model, full))
    mujoco.mj_getState(model, data, state, full)
    return state


class Call(NamedTuple):
    """One call of MuJoCo's batched simulation: simulations and steps of each."""

    simulations: int
    steps: int


@dataclass
class Meter:
    """Counts, while it is entered, what anyone in this process simulates in batches."""

    calls: list[Call] = field(default_factory=list)

    @property
    def rollouts(self) -> int:
        """Number of simulations."""
        return sum(call.simulations for call in self.calls)

    @property
    def steps(self) -> int:
        """Number of timesteps, over all simulations."""
        return sum(call.simulations * call.steps for call in self.calls)

    def __enter__(self) -> Self:
        self._kept: list[tuple[type, str, Callable[..., Any]]] = []
        self._wrap(Rollout, 'rollout', lambda _, found, __: Call(*found[0].shape[:2]))
        self._wrap(mujoco.batch.Batch, 'rollout', _of_batch)
        self._wrap(mujoco.batch.Batch, 'step', _of_step)
        return self

    def __exit__(self, *_: object) -> None:
        for owner, name, original in self._kept:
            setattr(owner, name, original)

    def _wrap(self, owner: type, name: str, read: Callable[..., Call]) -> None:
        original = getattr(owner, name)
        self._kept.append((owner, name, original))

        @functools.wraps(original)
        def counted(this: Any, *args: Any, **options: Any) -> Any:
            found = original(this, *args, **options)
            self.calls.append(read(this, found, (args, options)))
            return found

        setattr(owner, name, counted)


def _of_batch(batch: Any, found: Any, _: Any) -> Call:
    shapes = [array.shape[:2] for array in found.values()]
    return Call(*shapes[0]) if shapes else Call(batch.nsim, 0)


def _of_step(batch: Any, _: Any, given: Any) -> Call:
    args, options = given
    ids = options.get('ids', args[0] if args else None)
    steps = options.get('nstep', args[1] if len(args) > 1 else 1)
    return Call(batch.nsim if ids is None else len(np.atleast_1d(ids)), int(steps))


def ideal_seconds(case: Case, calls: Sequence[Call]) -> float:
    """Return the wall time of the same simulations by ``mujoco.rollout`` alone.

    The true model, the first recording's commands (repeated where a call is longer), one thread
    pool, buffers made before: nothing is computed but steps.
    """
    model = compiled(case.make_spec(), case.free, case.truth)
    data = [mujoco.MjData(model) for _ in range(CORES)]
    first, seconds = case.exact[0], 0.0
    with Rollout(nthread=CORES) as pool:
        for size, steps in calls:
            controls = np.tile(np.resize(first.controls, (steps, model.nu)), (size, 1, 1))
            options = {
                'nstep': steps,
                'state': np.zeros((size, steps, len(first.state))),
                'sensordata': np.zeros((size, steps, model.nsensordata)),
            }
            states = np.tile(first.state, (size, 1))
            began = time.perf_counter()
            pool.rollout([model] * size, data, states, controls, **options)
            seconds += time.perf_counter() - began
    return seconds


class Outcome(NamedTuple):
    """One fit.

    Attributes:
        seconds: Wall time of building the residual function and fitting.
        values: (p,) what was found; NaN where the fit raised.
        iterations: Of the solver; -1 where it does not say.
        message: How the fit ended.
        meter: What was simulated.
    """

    seconds: float
    values: Floats
    iterations: int
    message: str
    meter: Meter


class Problem(NamedTuple):
    """A case in the words of one module, ready to be fitted once."""

    sysid: Any
    parameters: Any
    options: dict[str, Any]


def installed(name: str) -> bool:
    """Return whether a contender is there with what the benchmark needs."""
    try:
        module = importlib.import_module(MODULES[name])
    except ImportError:
        return False
    return hasattr(module, 'build_residual_fn')


def prepare(
    name: str, case: Case, seed: int, *, targets: bool = False, late: float = 0.0
) -> Problem:
    """State a case in the words of a module; outside of the measured time, as reading files is.

    Args:
        name: The contender.
        case: The case.
        seed: Of the noise.
        targets: Give parameters targets instead of callbacks on the spec.
        late: Stamp samples so much later than the state that they describe, s. The toolbox stamps
            its predictions one timestep late, and is right where the measurements are, too.
    """
    sysid = importlib.import_module(MODULES[name])
    spec = case.make_spec()
    model = spec.compile()
    recordings = case.recordings(seed)
    parameters = sysid.ParameterDict()
    for free in case.free:
        options: dict[str, Any] = {}
        if not free.of_signals:
            options = {'target': free.target} if targets else {'modifier': _modifier(free.target)}
        scalar = len(free.start) == 1
        numbers = [v[0] if scalar else v for v in (free.start, free.low, free.high)]
        parameters.add(sysid.Parameter(free.target, *numbers, **options))
    series = sysid.TimeSeries
    sequences = sysid.ModelSequences(
        case.key,
        spec,
        [f'recording{k}' for k in range(len(recordings))],
        [one.state for one in recordings],
        [series.from_control_names(one.times, one.controls, model) for one in recordings],
        [series.from_names(one.times + late, one.measured, model) for one in recordings],
    )
    options = {'models_sequences': [sequences]}
    if case.free[0].of_signals:
        transform = sysid.SignalTransform()
        for row in range(model.nsensor):
            sensor = model.sensor(row).name
            gain, bias, delay = (
                parameters[f'sensor/{sensor}/{word}'] for word in ('gain', 'bias', 'delay')
            )
            transform.gain(sensor, gain, target='predicted')
            transform.bias(sensor, bias, target='predicted')
            transform.delay(sensor, delay)
        options['modify_residual'] = transform.apply
    return Problem(sysid, parameters, options)


def _modifier(target: str) -> Callable[[Any, Any], None]:
    return lambda spec, parameter: write(spec, target, parameter.value)


def solve(problem: Problem, **options: Any) -> Outcome:
    """Fit; the toolbox prints every iteration, whatever it is told, and is kept quiet.

    Args:
        problem: What :func:`prepare` returned; the toolbox leaves it changed.
        options: For ``build_residual_fn``.
    """
    printed = io.StringIO()
    logging.disable(logging.WARNING)
    with Meter() as meter, contextlib.redirect_stdout(printed), warnings.catch_warnings():
        warnings.simplefilter('ignore')
        began = time.perf_counter()
        try:
            residual = problem.sysid.build_residual_fn(**problem.options, **options)
            found, result = problem.sysid.optimize(
                problem.parameters, residual, optimizer='mujoco', verbose=False
            )
            values = found.as_vector()
        except (ValueError, RuntimeError, ArithmeticError) as err:  # how the toolbox diverges
            values = np.full(problem.parameters.size, np.nan)
            result = {'message': f'{type(err).__name__}: {err}'}
        seconds = time.perf_counter() - began
    logging.disable(logging.NOTSET)
    said = _TERMINATED.search(printed.getvalue())
    iterations = int(said[1]) if said else int(result.get('nit', -1))
    message = said[2] if said else str(result.get('message', ''))
    return Outcome(seconds, values, iterations, message, meter)


def fit(
    name: str, case: Case, seed: int = 0, *, late: float = 0.0, targets: bool = False
) -> Outcome:
    """State and fit a case with a contender, sysid_ros with targets if told so."""
    targets = targets and name == OURS
    return solve(prepare(name, case, seed, targets=targets, late=late))
