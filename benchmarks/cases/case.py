# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A problem that both contenders get: model, unknowns with their truth, and recordings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import mujoco
import numpy as np
from mujoco.rollout import Rollout
from numpy.typing import NDArray

Modify = Callable[[mujoco.MjSpec, NDArray[np.float64]], None]

#: Relative step of the central differences that the standard errors come from.
_STEP = 1e-5
#: How far starts are moved, as a share of what the bounds allow.
_AWAY = 0.3


@dataclass(frozen=True)
class Free:
    """One parameter, scalar or vector, in both ways of writing it.

    Attributes:
        name: Its name.
        start: (k,) where both contenders begin.
        low: (k,) lower bounds.
        high: (k,) upper bounds.
        truth: (k,) what the recordings were made with.
        target: What sysid_ros writes; None for a parameter of the signals.
        modify: The same as a callback on a spec; None for a parameter of the signals.
    """

    name: str
    start: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    truth: NDArray[np.float64]
    target: str | None = None
    modify: Modify | None = None


class Signals(NamedTuple):
    """What acts on each sensor between the simulation and the log.

    Attributes:
        gain: (number of sensors,) factors.
        bias: (number of sensors,) offsets, in the sensor's unit, added after the factor.
        delay: (number of sensors,) s; a sample shows the state of so long ago.
    """

    gain: NDArray[np.float64]
    bias: NDArray[np.float64]
    delay: NDArray[np.float64]


class Recording(NamedTuple):
    """One sequence, a row per timestep, stamped with the time of the state that it describes.

    Attributes:
        times: (n,) s.
        controls: (n, nu) commands, each held until the next.
        measured: (n, nsensordata) samples, in the model's order of sensors.
        state: (nstate,) MuJoCo's full physics state at the first stamp.
    """

    times: NDArray[np.float64]
    controls: NDArray[np.float64]
    measured: NDArray[np.float64]
    state: NDArray[np.float64]


@dataclass(frozen=True)
class Case:
    """One row of the benchmark.

    Attributes:
        key: The letter that selects it.
        title: What is fitted.
        required: The ratio of the times to reach.
        make_spec: Makes a new spec: the toolbox leaves its values in the one it is given.
        free: What is unknown.
        exact: Recordings without noise.
        noise: (nsensordata,) standard deviation of the noise of each column.
        signals: Reads what acts on the sensors from the values of all parameters.
        transform: Makes the same from a toolbox's module and parameters.
    """

    key: str
    title: str
    required: float
    make_spec: Callable[[], mujoco.MjSpec]
    free: tuple[Free, ...]
    exact: tuple[Recording, ...]
    noise: NDArray[np.float64]
    signals: Callable[[NDArray[np.float64]], Signals] | None = None
    transform: Callable[[Any, Any], Any] | None = None

    @property
    def truth(self) -> NDArray[np.float64]:
        """(p,) all true values."""
        return np.concatenate([free.truth for free in self.free])

    @property
    def size(self) -> int:
        """Number of unknown scalars."""
        return len(self.truth)

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

    def recordings(self, seed: int) -> tuple[Recording, ...]:
        """Return the recordings with normal noise."""
        random = np.random.default_rng(seed)
        return tuple(
            made._replace(
                measured=made.measured + self.noise * random.normal(size=made.measured.shape)
            )
            for made in self.exact
        )

    def model(self, values: NDArray[np.float64]) -> mujoco.MjModel:
        """Compile a new spec with (p,) values of all parameters."""
        return compiled(self.make_spec(), self.free, values)

    def standard_errors(self) -> NDArray[np.float64]:
        """Return the (p,) standard errors that no unbiased estimate can stay below.

        The Cramér-Rao bound for the noise that the recordings were made with, from central
        differences at the truth; all columns of one side are one batch.
        """
        steps = _STEP * np.maximum(np.abs(self.truth), 0.1)
        size = len(steps)
        moved = np.concatenate([self.truth + np.diag(steps), self.truth - np.diag(steps)])
        models = [self.model(values) for values in moved]
        signals = [self.signals(values) for values in moved] if self.signals else None
        information = np.zeros((size, size))
        for recording in self.exact:
            found = simulate(models, recording.state, recording.controls, signals=signals)
            jacobian = (found[:size] - found[size:]) / (2 * steps[:, None, None] * self.noise)
            flat = jacobian.reshape(size, -1)
            information += flat @ flat.T
        errors: NDArray[np.float64] = np.sqrt(np.diag(np.linalg.inv(information)))
        return errors


def compiled(
    spec: mujoco.MjSpec, free: Sequence[Free], values: NDArray[np.float64]
) -> mujoco.MjModel:
    """Apply (p,) values to a spec, which is changed, and compile it."""
    start = 0
    for parameter in free:
        size = len(parameter.start)
        if parameter.modify is not None:
            parameter.modify(spec, values[start : start + size])
        start += size
    return spec.compile()


def simulate(
    models: Sequence[mujoco.MjModel],
    state: NDArray[np.float64],
    controls: NDArray[np.float64],
    signals: Sequence[Signals] | None = None,
) -> NDArray[np.float64]:
    """Return the (m, n, nsensordata) samples at the stamps of (n, nu) controls.

    MuJoCo records a sensor before it integrates the step: row k is the state at k timesteps.
    """
    found: NDArray[np.float64]
    with Rollout(nthread=2) as pool:
        _, found = pool.rollout(
            list(models),
            [mujoco.MjData(models[0]) for _ in range(2)],
            np.tile(state, (len(models), 1)),
            np.tile(controls, (len(models), 1, 1)),
        )
    if signals is None:
        return found
    times = np.arange(len(controls)) * models[0].opt.timestep
    for rows, law in zip(found, signals, strict=True):
        for column in range(rows.shape[1]):
            seen = np.interp(times - law.delay[column], times, rows[:, column])
            rows[:, column] = law.gain[column] * seen + law.bias[column]
    return found


def record(
    model: mujoco.MjModel,
    state: NDArray[np.float64],
    controls: NDArray[np.float64],
    signals: Signals | None = None,
) -> Recording:
    """Simulate the true system."""
    exact = simulate([model], state, controls, [signals] if signals else None)[0]
    return Recording(np.arange(len(controls)) * model.opt.timestep, controls, exact, state)


def initial_state(
    model: mujoco.MjModel,
    qpos: NDArray[np.float64] | None = None,
    qvel: NDArray[np.float64] | None = None,
) -> NDArray[np.float64]:
    """Return MuJoCo's full physics state; the model's reference configuration at rest."""
    data = mujoco.MjData(model)
    if qpos is not None:
        data.qpos[:] = qpos
    if qvel is not None:
        data.qvel[:] = qvel
    full = mujoco.mjtState.mjSTATE_FULLPHYSICS.value
    state = np.empty(mujoco.mj_stateSize(model, full))
    mujoco.mj_getState(model, data, state, full)
    return state


def scalars(
    names: Sequence[str],
    truth: Sequence[float] | NDArray[np.float64],
    start: Sequence[float] | NDArray[np.float64],
    bounds: tuple[float, float],
    *,
    attribute: str,
) -> tuple[Free, ...]:
    """Return one joint attribute of several joints as parameters."""
    return tuple(
        Free(
            f'{name}/{attribute}',
            np.array([first]),
            np.array([bounds[0]]),
            np.array([bounds[1]]),
            np.array([value]),
            f'joint/{name}/{attribute}',
            _joint_attribute(name, attribute),
        )
        for name, value, first in zip(names, truth, start, strict=True)
    )


def _joint_attribute(name: str, attribute: str) -> Modify:
    def modify(spec: mujoco.MjSpec, value: NDArray[np.float64]) -> None:
        joint = spec.joint(name)
        if attribute in {'damping', 'stiffness'}:  # polynomials since MuJoCo 3.7
            getattr(joint, attribute)[0] = value[0]
        else:
            setattr(joint, attribute, value[0])

    return modify
