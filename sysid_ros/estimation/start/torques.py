# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The equations of motion as equations for the parameters, with every motion as measured."""

from __future__ import annotations

from typing import TYPE_CHECKING

import mujoco
import numpy as np

from sysid_ros.estimation.start.motion import DIRECT, is_discrete, low_pass, motion_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sysid_ros.estimation.start.motion import Motion
    from sysid_ros.rollout.runs import Run
    from sysid_ros.rollout.simulation import Simulator

#: Instants that are looked at: so many evaluations of the dynamics for all columns together, …
_EVALUATIONS = 12_000
#: … within these limits.
_FEWEST_INSTANTS, _MOST_INSTANTS = 150, 600
#: More of them than this for each period of the cut-off say nothing new.
_INSTANTS_PER_PERIOD = 8.0
#: Share of a period of the cut-off around a reversal in which dry friction is smeared out.
_REVERSAL = 0.25
#: Constraints that motion alone does not determine.
_CONTACTS = np.array(
    [
        kind.value
        for kind in (
            mujoco.mjtConstraint.mjCNSTR_LIMIT_JOINT,
            mujoco.mjtConstraint.mjCNSTR_LIMIT_TENDON,
            mujoco.mjtConstraint.mjCNSTR_CONTACT_FRICTIONLESS,
            mujoco.mjtConstraint.mjCNSTR_CONTACT_PYRAMIDAL,
            mujoco.mjtConstraint.mjCNSTR_CONTACT_ELLIPTIC,
        )
    ]
)


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
        found = [(run, motion_of(model, run)) for run in simulator.runs]
        motions = [(run, motion) for run, motion in found if motion is not None]
        columns = len(simulator.parameters) + 1
        share = np.clip(_EVALUATIONS // columns, _FEWEST_INSTANTS, _MOST_INSTANTS)
        most = int(np.ceil(share / max(len(motions), 1)))
        self._parts: list[tuple[Run, Motion, NDArray[np.int64]]] = []
        for run, motion in motions:
            rows = self._free(motion, _instants(motion, most))
            if len(rows):
                self._parts.append((run, motion, rows))
        self.joints = model.nv
        torques = [motion.torque for _, motion, _ in self._parts]
        known = np.all([np.isfinite(t).all(axis=0) for t in torques], axis=0) if torques else []
        self.measured = int(np.sum(known))
        self.cutoff = min((motion.cutoff for _, motion, _ in self._parts), default=np.nan)
        self._masks = [self._mask(motion, rows) for _, motion, rows in self._parts]
        kept = [np.nonzero(mask)[1] for mask in self._masks]
        self.groups = np.concatenate(kept) if kept else np.zeros(0, dtype=np.int64)

    def __call__(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the (n,) residuals of one candidate's (p,) values, N·m or N."""
        model = self._simulator.compiled(x)
        if is_discrete(model):  # as in the simulation, damping acts at the end of a step
            model.opt.enableflags |= mujoco.mjtEnableBit.mjENBL_INVDISCRETE.value
        found = []
        for (run, motion, rows), mask in zip(self._parts, self._masks, strict=True):
            controls = self._controls(run, motion, x)[rows]
            needed, exerted = self._evaluate(model, motion, rows, controls)
            measured = motion.torque[rows]
            known = np.where(np.isfinite(measured), measured, exerted)
            found.append(np.concatenate([known - needed, measured - exerted], axis=1)[mask])
        return np.concatenate(found)

    def _evaluate(
        self,
        model: mujoco.MjModel,
        motion: Motion,
        rows: NDArray[np.int64],
        controls: NDArray[np.float64],
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the (n, nv) torques that the motion needs and that the actuators exert."""
        data, place = self._data, model.jnt_qposadr[model.dof_jntid]
        # MuJoCo's dry friction is soft, the softer the less inertia, so that it is not linear.
        friction = model.dof_frictionloss * np.sign(motion.qvel[rows])
        model.dof_frictionloss[:] = 0.0
        needed, exerted = np.empty((2, len(rows), model.nv))
        for index, row in enumerate(rows):
            data.qpos[place] = motion.qpos[row]
            data.qvel[:], data.qacc[:] = motion.qvel[row], motion.qacc[row]
            data.ctrl[:] = controls[index]
            mujoco.mj_inverse(model, data)
            needed[index] = data.qfrc_inverse
            mujoco.mj_fwdActuation(model, data)
            exerted[index] = data.qfrc_actuator
        return needed + friction, exerted

    def _controls(self, run: Run, motion: Motion, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the (n, nu) commands after the low-pass that the motion has passed."""
        timestep = float(self._model.opt.timestep)
        if not self._model.nu:
            return np.zeros((len(motion.times), 0))
        steps = int(np.ceil(motion.times[-1] / timestep)) + 1
        held = self._simulator.controls(run, steps, x)
        # Each is the mean over a step; a discrete step meets it with the state at its beginning.
        acting = timestep * (np.arange(steps) + (0.0 if is_discrete(self._model) else 0.5))
        even = np.stack([np.interp(motion.times, acting, column) for column in held.T], axis=1)
        return low_pass(motion.kernel, even)

    def _free(self, motion: Motion, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return those of the instants at which nothing touches a limit or another body."""
        model, data = self._model, self._data
        place = model.jnt_qposadr[model.dof_jntid]
        kept = []
        for row in rows:
            data.qpos[place], data.qvel[:] = motion.qpos[row], motion.qvel[row]
            mujoco.mj_fwdPosition(model, data)
            if not np.isin(data.efc_type[: data.nefc], _CONTACTS).any():
                kept.append(int(row))
        return np.array(kept, dtype=np.int64)

    def _mask(self, motion: Motion, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return (n, 2 nv) which comparisons say something."""
        measured = np.isfinite(motion.torque[rows])
        moving = ~_reversing(motion)[rows] | ~self._dry[None, :]
        usable = (measured | ~self._stateful) & moving
        both = measured & ~self._stateful & self._drives
        return np.concatenate([usable, both], axis=1)

    @property
    def _dry(self) -> NDArray[np.bool_]:
        """Return (nv,) whether a joint has dry friction, or may be given it."""
        dry: NDArray[np.bool_] = np.asarray(self._model.dof_frictionloss > 0)
        for parameter in self._simulator.parameters:
            for target in parameter.targets:
                for slot in target.slots(self._model) if target.in_model else ():
                    if slot.field == 'dof_frictionloss':
                        dry[slot.place] = True
                    elif slot.field == 'tendon_frictionloss':
                        dry[:] = True
        return dry | bool(np.any(self._model.tendon_frictionloss > 0))

    @property
    def _drives(self) -> bool:
        """Return whether an unknown changes what actuators exert."""
        return any(
            target.element == 'actuator' or target.element_and_attribute[0] == 'actuator'
            for parameter in self._simulator.parameters
            for target in parameter.targets
        )


def _driven_by_state(model: mujoco.MjModel) -> NDArray[np.bool_]:
    """Return (nv,) whether a joint's actuators have a state, which no recording shows."""
    stateful = np.zeros(model.nv, dtype=bool)
    for actuator in np.flatnonzero(model.actuator_actnum):
        if model.actuator_trntype[actuator] in DIRECT:
            stateful[model.jnt_dofadr[model.actuator_trnid[actuator, 0]]] = True
        else:
            stateful[:] = True
    return stateful


def _instants(motion: Motion, most: int) -> NDArray[np.int64]:
    """Return at most so many rows, evenly over what is sound, none closer than is worth it."""
    sound = np.flatnonzero(motion.sound)
    apart = 1.0 / (_INSTANTS_PER_PERIOD * motion.cutoff * motion.interval)
    stride = max(int(apart), int(np.ceil(len(sound) / most)), 1)
    return np.asarray(sound[::stride], dtype=np.int64)


def _reversing(motion: Motion) -> NDArray[np.bool_]:
    """Return (n, nv) whether a joint reverses so near that the low-pass has smeared it."""
    from scipy.ndimage import binary_dilation  # noqa: PLC0415 (slow to import)

    changes = np.zeros(motion.qvel.shape, dtype=bool)
    changes[1:] = np.signbit(motion.qvel[1:]) != np.signbit(motion.qvel[:-1])
    reach = int(np.ceil(_REVERSAL / (motion.cutoff * motion.interval)))
    near: NDArray[np.bool_] = binary_dilation(changes, np.ones((2 * reach + 1, 1), dtype=bool))
    return near
