# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A starting point without simulation: least squares on the equations of motion.

Inverse dynamics are linear in masses, first moments, inertias, armature, damping, dry friction and
in the gains of servos (C. G. Atkeson, C. H. An and J. M. Hollerbach, "Estimation of inertial
parameters of manipulator loads and links", IJRR 5(3), 1986). For these, the columns by
superposition are exact, and one step is the answer from any start. For others, as log-Cholesky
inertias or delays, the step is repeated.
"""

from __future__ import annotations

import threading
from typing import NamedTuple

import mujoco
import numpy as np
from numpy.typing import NDArray

from sysid_ros.estimation.solver.differences import scales
from sysid_ros.estimation.solver.solver import interrupt
from sysid_ros.estimation.start.motion import (
    FEWEST_SAMPLES,
    dry_joints,
    dry_tendons,
    is_discrete,
    low_pass,
    measured_joints,
    resampled,
    smoothed,
    touching,
    unmeasured,
    unsound,
)
from sysid_ros.model.joints import TO_JOINT
from sysid_ros.model.unknown import Unknown
from sysid_ros.rollout.runs import Run
from sysid_ros.rollout.simulation import Simulator
from sysid_ros.signals.trajectory import PrescribedMotion

#: The instants that are looked at are so many evaluations of the dynamics for all columns together,
#: but never fewer or more instants than these.
_EVALUATIONS = 12_000
_FEWEST_INSTANTS, _MOST_INSTANTS = 150, 600
#: More of them than this for each period of the cut-off say nothing new.
_INSTANTS_PER_PERIOD = 8.0
#: Share of a period of the cut-off around a reversal in which dry friction is smeared out.
_REVERSAL = 0.25


class _Part(NamedTuple):
    """One sequence at n of its instants.

    Attributes:
        run: The sequence.
        motion: All of its motion, smoothed.
        torque: (n, nv) what was measured, after the same low-pass, N·m or N; NaN where nothing was.
        rows: (n,) which rows of the motion these are.
    """

    run: Run
    motion: PrescribedMotion
    torque: NDArray[np.float64]
    rows: NDArray[np.int64]

    def at(self, chosen: NDArray[np.bool_]) -> _Part:
        """Return some of the instants."""
        return self._replace(torque=self.torque[chosen], rows=self.rows[chosen])


class Torques:
    """Measured minus needed torque of every joint, as a function of the candidate.

    What a motion needs comes from ``mj_inverse``. It is compared with the measured torque or,
    where none was measured, with what the model's actuators exert at the measured state under the
    recorded commands: for a position servo ``kp (command - position) - kv velocity``. Where torque
    was measured, what the actuators should exert is compared with it, too: that is a regression
    for their gains. A joint without any actuator has no torque, which also is known.

    Attributes:
        groups: (n,) which joint and which of the two comparisons a residual belongs to.
        measured: Number of joints whose torque was measured.
        joints: Number of degrees of freedom.
        cutoff: Of the low-pass, Hz: the lowest of all sequences.
    """

    def __init__(self, simulator: Simulator) -> None:
        """Smooth the motion of all sequences and choose the instants to look at."""
        self._simulator = simulator
        self._model = model = simulator.compiled(np.zeros(0))
        self._stateful = _driven_by_state(model)
        self._data = mujoco.MjData(model)
        found = [_measured(model, run) for run in simulator.runs]
        parts = [part for part in found if part is not None]
        columns = len(simulator.parameters) + 1
        share = np.clip(_EVALUATIONS // columns, _FEWEST_INSTANTS, _MOST_INSTANTS)
        most = int(np.ceil(share / max(len(parts), 1)))
        chosen = [part.at(_free(model, part, most)) for part in parts]
        self._parts = [part for part in chosen if len(part.rows)]
        self.joints = model.nv
        torques = [part.torque for part in self._parts]
        known = np.all([np.isfinite(t).all(axis=0) for t in torques], axis=0) if torques else []
        self.measured = int(np.sum(known))
        self.cutoff = min((part.motion.cutoff for part in self._parts), default=np.nan)
        self._masks = [self._mask(part) for part in self._parts]
        kept = [np.nonzero(mask)[1] for mask in self._masks]
        self.groups = np.concatenate(kept) if kept else np.zeros(0, dtype=np.int64)

    def __call__(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the (n,) residuals of one candidate's (p,) values, N·m or N."""
        model = self._simulator.compiled(x)
        if is_discrete(model):  # as in the simulation, damping acts at the end of a step
            model.opt.enableflags |= mujoco.mjtEnableBit.mjENBL_INVDISCRETE.value
        # MuJoCo's dry friction is soft, the softer the less inertia, so that it is not linear.
        friction = model.dof_frictionloss.copy()
        model.dof_frictionloss[:] = 0.0
        found = []
        for part, mask in zip(self._parts, self._masks, strict=True):
            needed, exerted = self._evaluate(model, part, self._controls(part, x))
            needed += friction * np.sign(part.motion.qvel[part.rows])
            known = np.where(np.isfinite(part.torque), part.torque, exerted)
            found.append(np.concatenate([known - needed, part.torque - exerted], axis=1)[mask])
        return np.concatenate(found)

    def _evaluate(
        self, model: mujoco.MjModel, part: _Part, controls: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the (n, nv) torques that the motion needs and that the actuators exert.

        Dry friction is not in them.
        """
        data, place = self._data, model.jnt_qposadr[model.dof_jntid]
        needed, exerted = np.empty((2, len(part.rows), model.nv))
        # MuJoCo's steps, but for RK4's, change a position by the velocity at their end: the
        # derivative of the positions is the velocity half a step later.
        early = 0.5 * float(model.opt.timestep) if is_discrete(model) else 0.0
        for index, row in enumerate(part.rows):
            data.qpos[place] = part.motion.qpos[row]
            data.qacc[:] = part.motion.qacc[row]
            data.qvel[:] = part.motion.qvel[row] - early * data.qacc
            data.ctrl[:] = controls[index]
            mujoco.mj_inverse(model, data)
            needed[index] = data.qfrc_inverse
            mujoco.mj_fwdActuation(model, data)
            exerted[index] = data.qfrc_actuator
        return needed, exerted

    def _controls(self, part: _Part, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the (n, nu) commands after the low-pass that the motion has passed."""
        timestep, times = float(self._model.opt.timestep), part.motion.times
        if not self._model.nu:
            return np.zeros((len(part.rows), 0))
        steps = int(np.ceil(times[-1] / timestep)) + 1
        held = self._simulator.controls(part.run, steps, x)
        # Each is the mean over a step; a discrete step meets it with the state at its beginning.
        acting = timestep * (np.arange(steps) + (0.0 if is_discrete(self._model) else 0.5))
        even = np.stack([np.interp(times, acting, column) for column in held.T], axis=1)
        return low_pass(part.motion.low_pass, even)[part.rows]

    def _mask(self, part: _Part) -> NDArray[np.bool_]:
        """Return (n, 2 nv) which comparisons say something."""
        measured = np.isfinite(part.torque)
        model, unknowns = self._model, self._simulator.parameters
        dry = dry_joints(model, unknowns) | dry_tendons(model, unknowns).any()
        moving = ~_reversing(part.motion)[part.rows] | ~dry
        usable = (measured | ~self._stateful) & moving
        driven = any(
            target.element_and_attribute[0] == 'actuator'
            for parameter in self._simulator.parameters
            for target in parameter.targets
        )
        both = measured & ~self._stateful & driven
        return np.concatenate([usable, both], axis=1)


def _driven_by_state(model: mujoco.MjModel) -> NDArray[np.bool_]:
    """Return (nv,) whether a joint's actuators have a state, which no recording shows."""
    stateful = np.zeros(model.nv, dtype=bool)
    for actuator in np.flatnonzero(model.actuator_actnum):
        if model.actuator_trntype[actuator] in TO_JOINT:
            stateful[model.jnt_dofadr[model.actuator_trnid[actuator, 0]]] = True
        else:
            stateful[:] = True
    return stateful


def _measured(model: mujoco.MjModel, run: Run) -> _Part | None:
    """Return the motion of one sequence at its sound instants; None where it is too short."""
    measured = measured_joints(model, run)
    motion = smoothed(model, measured, run.qpos)
    if motion is None:
        return None
    torque = np.full(motion.qpos.shape, np.nan)
    for dof, channel in measured.torque.items():
        if len(channel.times) >= FEWEST_SAMPLES:
            torque[:, dof] = low_pass(motion.low_pass, resampled(channel, motion.times))
    rows = np.flatnonzero(~unsound(motion, measured))
    return _Part(run, motion, torque[rows], rows)


def _free(model: mujoco.MjModel, part: _Part, most: int) -> NDArray[np.bool_]:
    """Return which of the instants to look at, most at most: nothing is touched at them.

    They are even over the sequence, and none is closer to the next than is worth it.
    """
    apart = 1.0 / (_INSTANTS_PER_PERIOD * part.motion.cutoff * part.motion.interval)
    stride = max(int(apart), int(np.ceil(len(part.rows) / most)), 1)
    chosen = np.zeros(len(part.rows), dtype=bool)
    chosen[::stride] = ~touching(model, part.motion, part.rows[::stride])
    return chosen


def _reversing(motion: PrescribedMotion) -> NDArray[np.bool_]:
    """Return (n, nv) whether a joint reverses so near that the low-pass has smeared it."""
    from scipy.ndimage import binary_dilation  # noqa: PLC0415 (slow to import)

    changes = np.zeros(motion.qvel.shape, dtype=bool)
    changes[1:] = np.signbit(motion.qvel[1:]) != np.signbit(motion.qvel[:-1])
    reach = int(np.ceil(_REVERSAL / (motion.cutoff * motion.interval)))
    near: NDArray[np.bool_] = binary_dilation(changes, np.ones((2 * reach + 1, 1), dtype=bool))
    return near


#: Steps at most. Another one is not worth it where this one gained less than the first part of the
#: cost, or missed what it had predicted by less than the second part of what remains.
_MOST_STEPS = 8
_SMALL_GAIN, _LINEAR = 1e-3, 0.01
#: A step that raises the cost is halved so many times.
_HALVINGS = 4
#: Differences of linear columns are exact at any step; this is one for the others, in scales.
_STEP = 1e-4
#: Residuals below this share of the torque's own size, or below this in N·m or N, are not weighted
#: higher than there.
_SMALLEST_RESIDUAL, _TINY = 1e-3, 1e-9
#: Least squares with bounds wants its start inside of them, in scales.
_OPEN = 1e-12
#: With fewer equations there is no solution worth the name.
_EQUATIONS_PER_UNKNOWN = 2


class Regression(NamedTuple):
    """What the equations of motion say.

    Attributes:
        x: (p,) values; what the equations do not determine stays where it was.
        sentence: What they were made of.
    """

    x: NDArray[np.float64]
    sentence: str


def not_applicable(simulator: Simulator) -> str | None:
    """Return why there are no equations of motion without unknown forces, in a clause, or None."""
    model = simulator.model
    if model.neq and model.eq_active0.any():
        return 'the model has equality constraints, whose forces no motion shows'
    return unmeasured(model, simulator.runs)


def regress(simulator: Simulator, cancel: threading.Event | None = None) -> Regression | str:
    """Solve the equations of motion for the unknowns.

    Joints are weighted by what their equations leave unexplained, and a Gaussian around the start
    as wide as the bounds, or the prior where one is given, decides what they do not determine. The
    bounds hold; inertias by their log-Cholesky parameters are physical at every value.

    Args:
        simulator: Model, sequences and unknowns.
        cancel: Ends it when it is set.

    Returns:
        What was found, or the reason why nothing was, in a clause.

    Raises:
        CancelledError: ``cancel`` was set.
    """
    reason = not_applicable(simulator)
    if reason is not None:
        return reason
    if simulator.drives is not None:
        return 'servos drive the joints, whose laws are not in the equations of motion'
    torques = Torques(simulator)
    unknowns = simulator.parameters
    if len(torques.groups) < _EQUATIONS_PER_UNKNOWN * len(unknowns):
        return (
            f'the motion gives {len(torques.groups)} equations without contacts, limits or '
            f'reversals, too few for {len(unknowns)} parameters'
        )
    x = _solve(torques, unknowns, cancel)
    if x is None:
        return 'the equations of motion have no finite solution'
    if torques.measured == torques.joints:
        source = 'measured torques'
    elif torques.measured:
        source = f'torques, measured at {torques.measured} of {torques.joints} joints'
    else:
        source = "the torques that the model's actuators exert at the measured state"
    sentence = f'inverse dynamics from {source}, low-passed at {torques.cutoff:.3g} Hz'
    box = _box(unknowns)
    if np.array_equal(x, np.clip([unknown.nominal for unknown in unknowns], box.low, box.high)):
        sentence = f'the nominal values, as nothing is gained by {sentence}'
    return Regression(x, sentence)


class _Box(NamedTuple):
    """What is known of the unknowns without data, (p,) each.

    Attributes:
        low: Lower bounds.
        high: Upper bounds.
        scale: Magnitudes, in which the problem is solved.
        means: Most likely values.
        deviations: How far from these they may be.
    """

    low: NDArray[np.float64]
    high: NDArray[np.float64]
    scale: NDArray[np.float64]
    means: NDArray[np.float64]
    deviations: NDArray[np.float64]


def _box(unknowns: tuple[Unknown, ...]) -> _Box:
    low = np.array([unknown.min_value for unknown in unknowns])
    high = np.array([unknown.max_value for unknown in unknowns])
    scale = scales(unknowns)
    spans = np.where(np.isfinite(high - low), high - low, scale)
    priors = [
        unknown.prior or (unknown.nominal, span)
        for unknown, span in zip(unknowns, spans, strict=True)
    ]
    means, deviations = np.array(priors).T
    return _Box(low, high, scale, means, deviations)


def _solve(
    torques: Torques, unknowns: tuple[Unknown, ...], cancel: threading.Event | None
) -> NDArray[np.float64] | None:
    """Return the (p,) values of the least cost, or None where it is not finite."""
    box = _box(unknowns)
    x = np.clip([unknown.nominal for unknown in unknowns], box.low, box.high)
    residual = torques(x)
    if not np.all(np.isfinite(residual)):
        return None
    floors = _SMALLEST_RESIDUAL * _spread(residual, torques.groups)
    for _ in range(_MOST_STEPS):
        jacobian = _jacobian(torques, x, residual, box, cancel)
        sigma = np.maximum(_spread(residual, torques.groups), floors)
        step = _step(jacobian, residual, x, sigma, box)
        # The weights that count are those of what no parameter explains.
        left = residual + jacobian @ step
        sigma = np.maximum(_spread(left, torques.groups), floors)
        step = _step(jacobian, residual, x, sigma, box)
        before = float(np.sum((residual / sigma) ** 2))
        for _ in range(_HALVINGS):
            moved = np.clip(x + step, box.low, box.high)
            found = torques(moved)
            after = float(np.sum((found / sigma) ** 2))
            if after <= before:
                break
            step *= 0.5
        if not after <= before:
            break
        predicted = residual + jacobian @ (moved - x)
        x, residual = moved, found
        wrong = float(np.sum(((found - predicted) / sigma) ** 2))
        if wrong <= _LINEAR * after or before - after <= _SMALL_GAIN * before:
            break
    return x


def _step(
    jacobian: NDArray[np.float64],
    residual: NDArray[np.float64],
    x: NDArray[np.float64],
    sigma: NDArray[np.float64],
    box: _Box,
) -> NDArray[np.float64]:
    """Return the (p,) step to the least cost of the linearised equations inside the bounds."""
    from scipy.optimize import lsq_linear  # noqa: PLC0415 (slow to import, not every fit needs it)

    rows = np.concatenate([jacobian / sigma[:, None], np.diag(1 / box.deviations)]) * box.scale
    target = np.concatenate([-residual / sigma, (box.means - x) / box.deviations])
    # Only the triangle of the tall matrix matters, and bounds are sought on it at once.
    triangle = np.asarray(np.linalg.qr(np.column_stack([rows, target]), mode='r'))
    limits = ((box.low - x) / box.scale - _OPEN, (box.high - x) / box.scale + _OPEN)
    step: NDArray[np.float64] = lsq_linear(triangle[:, :-1], triangle[:, -1], limits).x * box.scale
    return step


def _jacobian(
    torques: Torques,
    x: NDArray[np.float64],
    residual: NDArray[np.float64],
    box: _Box,
    cancel: threading.Event | None,
) -> NDArray[np.float64]:
    """Return the (n, p) derivative of the residuals, by superposition.

    Raises:
        CancelledError: ``cancel`` was set.
    """
    steps = np.where(x + _STEP * box.scale > box.high, -_STEP, _STEP) * box.scale
    found = np.empty((len(residual), len(x)))
    for column, step in enumerate(steps):
        interrupt(cancel)
        moved = x.copy()
        moved[column] += step
        found[:, column] = (torques(moved) - residual) / step
    return found


def _spread(residual: NDArray[np.float64], groups: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return (n,) the root mean square of the residuals of each one's group, above zero."""
    count = np.bincount(groups)
    squares = np.bincount(groups, residual**2) / np.maximum(count, 1)
    return np.maximum(np.sqrt(squares), _TINY)[groups]
