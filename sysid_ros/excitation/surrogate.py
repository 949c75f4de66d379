# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A quick guess of what a periodic motion says about parameters, for searches."""

from __future__ import annotations

from typing import TYPE_CHECKING

import mujoco
import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sysid_ros.excitation.experiment import Experiment
    from sysid_ros.excitation.fourier import Plan

    #: Commands, states less rest, and readings of one period.
    _LinearMotion = tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]

#: Instants for each period of the fastest sine, and at least for a whole period.
_PER_SINE, _FEWEST = 6, 64
#: Dry friction changes its sign within this part of the largest speed.
_REVERSAL = 0.02
#: Step of finite differences, relative.
_STEP = 1e-5
#: Step by which the model is linearised, in units of its states and commands.
_NUDGE = 1e-6
_FRICTION = 'dof_frictionloss'
#: Fields of joints whose torque is known without the equations of motion.
_DIRECT = ('dof_armature', 'dof_damping', _FRICTION)


class Surrogate:
    """The model as a linear one around the home pose, disturbed by what parameters change.

    A parameter that is off by dθ disturbs the joints with the torque dτ = Y(q, q̇, q̈) dθ, Y being
    its column of the regressor of the equations of motion along the motion that the linear model
    makes. The closed loop of robot and servos, in the frequency domain, turns both commands into
    that motion and torques into what the sensors see of them. Delays, and what constraints other
    than dry friction do, are left out.
    """

    def __init__(self, experiment: Experiment, plan: Plan) -> None:
        """Linearise the model, and find which torques need no equations of motion."""
        self._limits, self._plan = experiment.limits, plan
        self._probes = experiment.probes
        nominal = experiment.nominal
        self._count = max(_PER_SINE * plan.harmonics[-1], _FEWEST)
        self._phases = np.arange(self._count) * plan.period / self._count
        self._model = experiment.compiled(nominal)
        self._data = mujoco.MjData(self._model)
        self._rest = experiment.start
        self._direct: list[tuple[int, str, int, float]] = []
        self._others: list[tuple[int, mujoco.MjModel, float]] = []
        for column, unknown in enumerate(experiment.unknowns):
            slots = [
                slot
                for target in unknown.targets
                for slot in (target.slots(self._model) if target.in_model else ())
            ]
            if slots and all(slot.field in _DIRECT for slot in slots):
                self._direct += [(column, s.field, int(s.place), float(s.factor)) for s in slots]
                continue
            step = _STEP * max(abs(unknown.nominal), 1e-3)
            if unknown.nominal + step > unknown.max_value:
                step = -step
            moved = nominal.copy()
            moved[column] += step
            self._others.append((column, _smooth(experiment.compiled(moved)), step))
        _smooth(self._model)
        self._linearise(experiment.noise)
        self.size = len(nominal)
        # A cost asks for the parts of limits and for the information of one motion.
        self._last: tuple[bytes, _LinearMotion] = b'', self._motion(np.zeros(plan.shape))

    def _linearise(self, noise: dict[str, float]) -> None:
        """Find the frequency responses of states and sensors to commands and torques."""
        model, data = self._model, self._data
        states, nv, nu = 2 * model.nv + model.na, model.nv, model.nu
        home = np.array([drive.home for drive in self._plan.drives])
        data.qpos[:], data.ctrl[:] = self._rest, home
        mujoco.mj_forward(model, data)
        self._sensed = np.array(data.sensordata)
        a, b = np.zeros((states, states)), np.zeros((states, nu))
        c, d = np.zeros((model.nsensordata, states)), np.zeros((model.nsensordata, nu))
        mujoco.mjd_transitionFD(model, data, _NUDGE, 1, a, b, c, d)
        pushed = np.zeros((states, nv))
        after = np.zeros((2, model.nv))
        for joint in range(nv):
            for side, sign in enumerate((1.0, -1.0)):
                mujoco.mj_resetData(model, data)
                data.qpos[:], data.ctrl[:] = self._rest, home
                data.qfrc_applied[joint] = sign
                mujoco.mj_step(model, data)
                after[side] = data.qvel
            pushed[nv : 2 * nv, joint] = (after[0] - after[1]) / 2
        pushed[:nv] = model.opt.timestep * pushed[nv : 2 * nv]
        self._omega = 2 * np.pi * np.fft.rfftfreq(self._count, self._plan.period / self._count)
        z = np.exp(1j * self._omega * model.opt.timestep)
        inverse = np.linalg.inv(z[:, None, None] * np.eye(states) - a)
        self._moves = inverse @ b
        self._reads = c @ self._moves + d
        rows = [model.sensor(name).id for name in noise]
        seen = [
            (address, sigma)
            for row, sigma in zip(rows, noise.values(), strict=True)
            for address in range(
                model.sensor_adr[row], model.sensor_adr[row] + model.sensor_dim[row]
            )
        ]
        chosen = np.array([address for address, _ in seen])
        sigma = np.array([value for _, value in seen])
        self._sees = (c[chosen] @ inverse @ pushed) / sigma[:, None]

    def motion(self, x: NDArray[np.float64]) -> _LinearMotion:
        """Return (n, nu) commands, (n, 2 nv + na) states less rest, (n, sensors) readings."""
        key = x.tobytes()
        if self._last[0] != key:
            self._last = key, self._motion(x)
        return self._last[1]

    def _motion(self, x: NDArray[np.float64]) -> _LinearMotion:
        change = self._plan.series(self._phases, x) + self._plan.spans * x[:, 0]
        spectrum = np.fft.rfft(change, axis=0)[..., None]
        home = np.array([drive.home for drive in self._plan.drives])
        states = np.fft.irfft((self._moves @ spectrum)[..., 0], self._count, axis=0)
        read = np.fft.irfft((self._reads @ spectrum)[..., 0], self._count, axis=0)
        return home + change, states, self._sensed + read

    def parts(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the (k,) parts of all limits that the linear model uses."""
        commands, _, read = self.motion(x)
        position, velocity, forces, torques = (read[:, columns] for columns in self._probes)
        return self._limits.parts(position, velocity, forces, torques, commands)

    def information(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the (p, p) information of one sample per second of the series, per unit."""
        commands, states, _ = self.motion(x)
        nv = self._model.nv
        q, v = self._rest + states[:, :nv], states[:, nv : 2 * nv]
        acceleration = np.fft.irfft(
            1j * self._omega[:, None] * np.fft.rfft(v, axis=0), self._count, axis=0
        )
        columns = np.zeros((self._count, nv, self.size))
        dof = self._model.dof_jntid
        slow = _REVERSAL * self._limits.speeds[dof]
        per_unit = dict(zip(_DIRECT, (acceleration, v, np.tanh(v / slow)), strict=True))
        for column, field, place, factor in self._direct:
            columns[:, place, column] += factor * per_unit[field][:, place]
        if self._others:
            before = self._torques(self._model, q, v, acceleration, commands)
            for column, model, step in self._others:
                after = self._torques(model, q, v, acceleration, commands)
                columns[:, :, column] = (after - before) / step
        seen = self._sees @ np.fft.rfft(columns, axis=0)
        # Parseval: frequencies other than the first, and the last of an even number, count twice.
        weight = np.full(len(seen), 2.0)
        weight[0] = 1.0
        if self._count % 2 == 0:
            weight[-1] = 1.0
        seen = (seen * np.sqrt(weight)[:, None, None]).reshape(-1, self.size) / self._count
        real = np.concatenate([seen.real, seen.imag])
        found: NDArray[np.float64] = real.T @ real
        return found

    def _torques(
        self,
        model: mujoco.MjModel,
        q: NDArray[np.float64],
        v: NDArray[np.float64],
        acceleration: NDArray[np.float64],
        commands: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        """Return the (n, nv) torques that a motion needs and its actuators do not exert."""
        found, data = np.empty(v.shape), self._data
        for row in range(len(v)):
            data.qpos[:], data.qvel[:], data.qacc[:] = q[row], v[row], acceleration[row]
            data.ctrl[:] = commands[row]
            mujoco.mj_inverse(model, data)
            mujoco.mj_fwdActuation(model, data)
            found[row] = data.qfrc_inverse - data.qfrc_actuator
        return found


def _smooth(model: mujoco.MjModel) -> mujoco.MjModel:
    """Return the model without constraints, which no linear model has."""
    model.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_CONSTRAINT)
    return model
