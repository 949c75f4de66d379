# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Small problems of which it is known what their data can say and what they cannot."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import mujoco
import numpy as np
from shared.common import Floats, names_of, recorded, trajectory

from sysid_ros.model.targets import Unknown, make_unknowns
from sysid_ros.signals import Trajectory

IDENTIFIED, AT_BOUND, NOT_EXCITED = 'identified', 'at bound', 'not excited'
PRIOR = 'prior-dominated'

Command = Callable[[Floats], Floats]


class Free(NamedTuple):
    """One unknown: what it writes, what is true, where the fit starts, and what is expected.

    ``verdict`` is the word; for ``confounded`` followed by the names of all partners.
    """

    target: str
    name: str
    truth: float
    start: float
    bounds: tuple[float, float]
    verdict: str
    prior: tuple[float, float] | None = None


@dataclass(frozen=True)
class Doubtful:
    """One problem.

    Attributes:
        name: What it shows.
        xml: The model.
        free: The unknowns.
        command: Commands of all actuators at (n,) times, (n, nu); None without actuators.
        noise: Sensor name to standard deviation; 1e-3 unless given.
        determined: Expression of the combinations to be found, the true value of each.
        seconds: Of the recording, after ``settle``.
        settle: Seconds before the first measurement.
        start: Initial configuration and velocity; ``qpos0`` at rest unless given.
    """

    name: str
    xml: str
    free: tuple[Free, ...]
    command: Command | None = None
    noise: dict[str, float] = field(default_factory=dict)
    determined: dict[str, float] = field(default_factory=dict)
    seconds: float = 4.0
    settle: float = 0.0
    start: tuple[tuple[float, ...], tuple[float, ...]] | None = None

    def unknowns(self, model: mujoco.MjModel) -> tuple[Unknown, ...]:
        """Return the unknowns."""
        return tuple(
            unknown
            for free in self.free
            for unknown in make_unknowns(
                free.target,
                model,
                name=free.name,
                initial=free.start,
                bounds=free.bounds,
                shared=True,
                prior=free.prior,
            )
        )

    def sequence(self, model: mujoco.MjModel, seed: int) -> Trajectory:
        """Simulate with the true values and add white noise."""
        grid = np.arange(0.0, self.settle + self.seconds, 0.005)
        own = trajectory(
            model,
            np.arange(self.settle, self.settle + self.seconds, 0.01),
            commands=self.command and (grid, self.command(grid).reshape(len(grid), -1)),
            start=self.start,
        )
        truth = [free.truth for free in self.free]
        noise = [self.noise.get(sensor, 1e-3) for sensor in names_of(model, 'sensor')]
        return recorded(model, own, self.unknowns(model), truth, noise, seed)


def _model(
    bodies: str, actuators: str = '', sensors: str = '', more: str = '', *, gravity: bool = False
) -> str:
    pull = '0 0 -9.81' if gravity else '0 0 0'
    return (
        f'<mujoco><option timestep=".002" gravity="{pull}" integrator="implicitfast"/>'
        f'<worldbody>{bodies}</worldbody>{more}<actuator>{actuators}</actuator>'
        f'<sensor>{sensors}</sensor></mujoco>'
    )


def _cart(name: str, mass: float = 2.0, inside: str = '', joint: str = '') -> str:
    return (
        f'<body name="{name}"><inertial pos="0 0 0" mass="{mass}" diaginertia=".01 .01 .01"/>'
        f'<joint name="{name}" type="slide" axis="1 0 0" {joint}/>{inside}</body>'
    )


def _motor(joint: str, gear: float = 1.0) -> str:
    return f'<motor name="{joint}" joint="{joint}" gear="{gear}"/>'


def _seen(*joints: str) -> str:
    return ''.join(
        f'<jointpos name="{j}_q" joint="{j}"/><jointvel name="{j}_v" joint="{j}"/>' for j in joints
    )


def _rope(joint: str, load: float) -> str:
    return f'<fixed name="{joint}"><joint joint="{joint}" coef="{load}"/></fixed>'


def _push(times: Floats) -> Floats:
    wave: Floats = np.sin(3.0 * times) + 0.7 * np.sin(7.1 * times + 1.0)
    return wave


def _both(times: Floats) -> Floats:
    return np.stack([_push(times), _push(times + 2.0)], axis=1)


_GEAR = Free('actuator/cart/gear', 'gear', 3.0, 2.0, (0.3, 9.0), 'confounded with mass')
_MASS = Free('body/cart/mass', 'mass', 2.0, 1.5, (0.3, 9.0), 'confounded with gear')
_CART = _model(_cart('cart'), _motor('cart'), _seen('cart'))
_LOSS = Free('joint/*/frictionloss', 'loss', 3.0, 2.0, (0.0, 20.0), '')
_SHARE = Free('tendon/*/frictionloss', 'k', 0.2, 0.15, (0.0, 1.0), '')


def _is(free: Free, verdict: str, **changes: object) -> Free:
    return free._replace(verdict=verdict, **changes)  # type: ignore[arg-type]


_WRIST = (
    '<body name="arm"><inertial pos="0 0 -.3" mass="1" diaginertia=".01 .01 .01"/>'
    '<joint name="shoulder" axis="0 1 0" damping=".5"/>'
    '<body name="hand" pos="0 0 -.6">'
    '<inertial pos="0 0 -2e-5" mass=".2" diaginertia=".01 .01 .01"/>'
    '<joint name="wrist" axis="1 2e-5 0" damping=".1" stiffness="5"/></body></body>'
)
_SERVO_ARM = (
    '<body name="arm"><inertial pos=".3 0 0" mass="1" diaginertia=".01 .01 .01"/>'
    '<joint name="arm" axis="0 -1 0" damping="2"/></body>'
)
_ROTOR = (
    '<body name="rotor"><inertial pos="0 0 0" mass="1" diaginertia="1e-6 1e-6 1e-6"/>'
    '<joint name="rotor" axis="0 0 1" armature=".02" damping="1e-4"/></body>'
)
_TWO_LINKS = (
    '<body name="near"><inertial pos=".2 0 0" mass="1" diaginertia=".005 .005 .005"/>'
    '<joint name="hinge" axis="0 0 1"/>'
    '<body name="far" pos=".4 0 0"><inertial pos=".1 0 0" mass="1" diaginertia=".005 .005 .005"/>'
    '</body></body>'
)
# Friction that grows with the load, k |load|, as dry friction of a tendon that pulls load times as
# far as the joint moves.
_LOAD = 19.62
_TWIN = _cart('cart', joint='damping=".3"') + _cart(
    'twin',
    joint='damping=".3"',
    inside='<body name="load"><inertial pos="0 0 0" mass="1" diaginertia=".01 .01 .01"/></body>',
)

PROBLEMS: tuple[Doubtful, ...] = (
    Doubtful(
        'a joint that hardly moves',
        _model(_WRIST, _motor('shoulder'), _seen('shoulder', 'wrist'), gravity=True),
        (
            Free('joint/shoulder/damping', 'shoulder', 0.5, 0.3, (0.0, 5.0), IDENTIFIED),
            Free('joint/wrist/damping', 'wrist', 1.0, 0.8, (0.3, 5.0), NOT_EXCITED),
        ),
        _push,
    ),
    Doubtful(
        'damping while a servo holds still',
        _model(
            _SERVO_ARM,
            '<position name="arm" joint="arm" kp="30" kv="1"/>',
            _seen('arm') + '<jointactuatorfrc name="torque" joint="arm"/>',
            gravity=True,
        ),
        (
            Free('body/arm/mass', 'mass', 1.0, 0.8, (0.1, 5.0), IDENTIFIED),
            Free('joint/arm/damping', 'damping', 2.0, 1.0, (0.0, 10.0), NOT_EXCITED),
        ),
        lambda t: np.full(len(t), 0.2),
        settle=4.0,
    ),
    Doubtful(
        'pair: gear and mass of a cart',
        _CART,
        (_GEAR, _MASS),
        _push,
        determined={'gear/mass': 1.5},
    ),
    Doubtful(
        'triple: gear, gain of the command, mass',
        _CART,
        (
            _is(_GEAR, 'confounded with gain mass'),
            Free('actuator/cart/gain', 'gain', 0.8, 1.0, (0.1, 5.0), 'confounded with gear mass'),
            _is(_MASS, 'confounded with gear gain'),
        ),
        _push,
        determined={'gear·gain/mass': 1.2},
    ),
    Doubtful(
        'at the upper bound, too narrow',
        _model(_cart('cart'), _motor('cart', 3.0), _seen('cart')),
        (
            Free('joint/cart/damping', 'damping', 1.05, 0.5, (0.0, 1.0), AT_BOUND),
            _is(_MASS, IDENTIFIED),
        ),
        _push,
    ),
    Doubtful(
        'a known payload breaks gear and mass',
        _model(_TWIN, _motor('cart') + _motor('twin'), _seen('cart', 'twin')),
        (
            _is(_GEAR, IDENTIFIED, target='actuator/*/gear'),
            _is(_MASS, IDENTIFIED, target='body/[ct][aw]*/mass'),
        ),
        lambda t: np.stack([_push(t), _push(t)], axis=1),
    ),
    Doubtful(
        'delay and lag at low frequency',
        _model(
            _cart('cart', joint='damping="4" stiffness="20"'),
            '<general name="cart" joint="cart" dyntype="filterexact" dynprm=".03" gainprm="20"/>',
            _seen('cart'),
        ),
        (
            Free(
                'actuator/cart/dynprm[0]', 'lag', 0.03, 0.02, (0.002, 0.1), 'confounded with delay'
            ),
            Free('actuator/cart/delay', 'delay', 0.02, 0.01, (0.0, 0.1), 'confounded with lag'),
        ),
        lambda t: 0.3 * (1 - np.cos(1.2 * t)),
        determined={'delay + lag': 0.05},
        noise={'cart_q': 1e-3, 'cart_v': 5e-3},
    ),
    Doubtful(
        'stiffness and armature of a stiff position loop',
        _model(_ROTOR, '<position name="rotor" joint="rotor" kp="200"/>', _seen('rotor')),
        (
            Free('actuator/rotor/kp', 'kp', 200.0, 190.0, (50, 800), 'confounded with armature'),
            Free(
                'joint/rotor/armature',
                'armature',
                0.02,
                0.0195,
                (0.005, 0.08),
                'confounded with kp',
            ),
        ),
        lambda t: 0.02 * (np.sin(60.0 * t) + np.sin(31.0 * t)),
        noise={'rotor_q': 1e-3, 'rotor_v': 1e-1},
        determined={'kp/armature': 1e4},
        seconds=2.0,
    ),
    Doubtful(
        'friction with and without load, at one load',
        _model(
            _cart('cart', joint='damping=".5"'),
            _motor('cart', 14),
            _seen('cart'),
            f'<tendon>{_rope("cart", _LOAD)}</tendon>',
        ),
        (
            _is(_LOSS, 'confounded with k', target='joint/cart/frictionloss'),
            _is(_SHARE, 'confounded with loss', target='tendon/cart/frictionloss'),
        ),
        _push,
        determined={'loss + 19.6·k': 3.0 + 0.2 * _LOAD},
        noise={'cart_q': 6e-2, 'cart_v': 6e-1},
    ),
    Doubtful(
        'friction with and without load, at two loads',
        _model(
            _cart('cart', joint='damping=".5"') + _cart('twin', joint='damping=".5"'),
            _motor('cart', 14) + _motor('twin', 14),
            _seen('cart', 'twin'),
            f'<tendon>{_rope("cart", _LOAD)}{_rope("twin", 1.5 * _LOAD)}</tendon>',
        ),
        (_is(_LOSS, IDENTIFIED), _is(_SHARE, IDENTIFIED)),
        _both,
    ),
    Doubtful(
        'friction and damping at one speed',
        _model(_cart('cart', joint='damping="1" frictionloss="1"'), _motor('cart'), _seen('cart')),
        (
            Free(
                'joint/cart/frictionloss', 'loss', 1.0, 0.8, (0.0, 10.0), 'confounded with damping'
            ),
            Free('joint/cart/damping', 'damping', 2.0, 1.8, (0.0, 10.0), 'confounded with loss'),
        ),
        lambda t: np.full(len(t), 4.0),
        start=((0.0,), (1.5,)),
        determined={'loss + 1.5·damping': 4.0},
    ),
    Doubtful(
        'two links on one joint',
        _model(_TWO_LINKS, _motor('hinge'), _seen('hinge')),
        (
            Free('body/near/mass', 'near', 1.0, 1.3, (0.1, 9.0), 'confounded with far'),
            Free('body/far/mass', 'far', 2.0, 1.5, (0.1, 9.0), 'confounded with near'),
        ),
        _push,
        determined={'near + 6.25·far': 13.5},
    ),
    Doubtful(
        'gain of the only sensor, and the mass',
        _model(_cart('cart'), _motor('cart'), '<jointvel name="speed" joint="cart"/>'),
        (
            Free('sensor/speed/gain', 'gain', 1.1, 1.0, (0.2, 5.0), 'confounded with mass'),
            _is(_MASS, 'confounded with gain'),
        ),
        _push,
        determined={'gain/mass': 0.55},
    ),
    Doubtful(
        'a prior says more than the data',
        _model(_WRIST, _motor('shoulder'), _seen('shoulder', 'wrist'), gravity=True),
        (
            Free('joint/shoulder/damping', 'shoulder', 0.5, 0.3, (0.0, 5.0), IDENTIFIED),
            Free('joint/wrist/damping', 'wrist', 1.0, 0.8, (0.3, 5.0), PRIOR, (1.1, 0.2)),
        ),
        _push,
    ),
    Doubtful(
        'a prior on the mass decides gear and mass',
        _CART,
        (_is(_GEAR, PRIOR), _is(_MASS, PRIOR, prior=(2.0, 0.05))),
        _push,
    ),
    Doubtful(
        'a pair and an unrelated triple',
        _model(
            _cart('cart') + _cart('other', 1.0),
            _motor('cart') + _motor('other'),
            _seen('cart', 'other'),
        ),
        (
            _is(_GEAR, 'confounded with gain mass'),
            Free('body/other/mass', 'mass2', 1.2, 1.0, (0.1, 9.0), 'confounded with gear2'),
            Free('actuator/cart/gain', 'gain', 0.8, 1.0, (0.1, 5.0), 'confounded with gear mass'),
            Free('actuator/other/gear', 'gear2', 2.0, 1.5, (0.1, 9.0), 'confounded with mass2'),
            _is(_MASS, 'confounded with gear gain'),
        ),
        _both,
        determined={'gear·gain/mass': 1.2, 'gear2/mass2': 2.0 / 1.2},
    ),
    Doubtful(
        'offset of a torque sensor and the weight it holds',
        _model(
            _SERVO_ARM,
            '<position name="arm" joint="arm" kp="3000" kv="60"/>',
            '<jointactuatorfrc name="torque" joint="arm"/>',
            gravity=True,
        ),
        (
            Free('sensor/torque/bias', 'bias', 0.3, 0.0, (-5.0, 5.0), 'confounded with mass'),
            Free('body/arm/mass', 'mass', 1.0, 0.8, (0.1, 5.0), 'confounded with bias'),
        ),
        lambda t: np.full(len(t), 0.2),
        noise={'torque': 0.02},
        settle=3.0,
    ),
    Doubtful(
        'a pair of which one is at its bound',
        _CART,
        (
            _is(_GEAR, 'confounded with mass', bounds=(0.3, 2.0), start=2.0, truth=2.0),
            _is(_MASS, 'confounded with gear', truth=1.5, start=1.5),
        ),
        _push,
        determined={'gear/mass': 4 / 3},
    ),
)
