# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Bags of a simulated arm of three joints, maybe with a fault of its sensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from shared.arms import Link, chain, joint_sensors
from shared.common import ORIGIN_NS, Floats, array, joint_state, write_bag

from sysid_ros.plant import Noise, Plant

JOINTS = ('pan', 'lift', 'elbow')
#: From time, position and velocity to what the encoders say.
Fault = Callable[[float, Floats, Floats], tuple[Floats, Floats]]
#: The last pattern that a joint matches counts.
TRUTH = {
    'joint/pan/armature': 0.25,
    'joint/lift/armature': 0.2,
    'joint/elbow/armature': 0.05,
    'joint/*/damping': 1.0,
    'joint/*/frictionloss': 0.3,
}
PARAMETERS = [
    {'target': 'joint/*/armature', 'bounds': [0.0, 1.0]},
    {'target': 'joint/*/damping', 'bounds': [0.0, 5.0]},
    {'target': 'joint/*/frictionloss', 'bounds': [0.0, 2.0]},
    {'target': 'body/fore/mass', 'bounds': [0.1, 4.0]},
]
SECONDS, RATE = 6.0, 100
STATES, COMMANDS = '/joint_states', '/forward_position_controller/commands'


def arm(mass: float = 1.0) -> str:
    """Return the MJCF of the arm, with a forearm of some mass, kg."""

    def shape(size: float, end: str, own: float) -> str:
        return f'<geom type="capsule" size="{size}" fromto="0 0 0 {end}" mass="{own}"/>'

    links = (
        Link(
            'name="column"',
            'name="pan" axis="0 0 1" armature=".1" damping=".5"',
            shape(0.05, '0 0 .3', 2),
        ),
        Link(
            'name="upper" pos="0 0 .3"',
            'name="lift" axis="0 1 0" armature=".1" damping=".5"',
            shape(0.04, '.3 0 0', 1.5),
        ),
        Link(
            'name="fore" pos=".3 0 0"',
            'name="elbow" axis="0 1 0" armature=".02" damping=".1"',
            shape(0.03, '.25 .05 0', mass),
        ),
    )
    servos = ''.join(
        f'<position name="{joint}" joint="{joint}" kp="{kp}" kv="{kv}"/>'
        for joint, kp, kv in zip(JOINTS, (40, 60, 15), (2, 3, 0.6), strict=True)
    )
    text = chain(links, servos, joint_sensors(JOINTS))
    # Sensors are called as the mapping below calls them.
    for joint in JOINTS:
        for field in ('position', 'velocity'):
            text = text.replace(f'"{field}_{joint}"', f'"{joint}_{field}"')
    return text.replace('implicitfast"/>', 'implicitfast"><flag contact="disable"/></option>')


def whole(_: float, position: Floats, velocity: Floats) -> tuple[Floats, Floats]:
    """Say what is."""
    return position, velocity


def record(
    bag: Path, model: Path, truth: Mapping[str, float], seed: int, fault: Fault = whole
) -> None:
    """Record a simulated arm that follows three sines per joint."""
    noise = Noise(position=2e-4, velocity=3e-3, seed=seed, encoder_bits=16)
    plant = Plant(model, dict(truth), rate=float(RATE), noise=noise)
    rng = np.random.default_rng(seed)
    frequency = rng.uniform(0.2, 1.8, (3, 3))
    phase = rng.uniform(0.0, 2 * np.pi, (3, 3))
    messages: list[tuple[int, str, Any]] = []
    for step in range(round(SECONDS * RATE) + 1):
        now, ns = step / RATE, ORIGIN_NS + step * 10**9 // RATE
        goals = 0.35 * np.sin(2 * np.pi * frequency * now + phase).sum(axis=0)
        messages.append((ns, COMMANDS, array(goals)))
        plant.command(now, goals)
        for sample in plant.advance(now + 1 / RATE):
            told = fault(sample.time, sample.position, sample.velocity)
            messages.append((ns, STATES, joint_state(ns, plant.joints, *told)))
    write_bag(bag, messages)


def mapping(**swapped: str) -> dict[str, Any]:
    """Return a mapping by hand that takes some joints for others; nothing checks its signs."""
    return {
        'sensors': {
            f'{joint}_{field}': {
                'topic': STATES,
                'field': field,
                'label': swapped.get(joint, joint),
            }
            for joint in JOINTS
            for field in ('position', 'velocity')
        },
        'actuators': {
            joint: {'topic': COMMANDS, 'field': 'data', 'label': str(number)}
            for number, joint in enumerate(JOINTS)
        },
    }
