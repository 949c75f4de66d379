# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A model that is wrong in a way that the fit cannot mend never reads plain *accepted*."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from builders.plant_bags import record
from sysid_ros.config.schema import BagSelection, CalibrationConfig, ParameterConfig, ReportConfig
from sysid_ros.plant import Noise, Plant
from sysid_ros.results.result import Standing
from sysid_ros.workflows.calibrate import identify

#: A double pendulum with two servos; what is in braces is right or wrong.
ARM = """
<mujoco>
  <compiler angle="radian"/>
  <option timestep=".005" integrator="implicitfast" gravity="{gravity}"/>
  <worldbody>
    <body name="upper">
      <inertial mass="1.2" pos="0 0 -.15" diaginertia=".01 .01 .001"/>
      <joint name="shoulder" axis="0 1 0" armature="{armature}" damping=".5" frictionloss="{dry}"/>
      <body name="between" pos="0 0 -{length}">{elbow}
        <inertial mass=".6" pos="0 0 -.12" diaginertia=".004 .004 .0005"/>
        <body name="tip" pos="0 0 -.25">
          <inertial mass="{payload}" pos="0 0 0" diaginertia=".0002 .0002 .0002"/>
          <site name="tool"/>
        </body>
      </body>{end}
    </body>
  </worldbody>
  <actuator>
    <position name="shoulder" joint="{first}" kp="{kp}" kv="1.5"/>
    <position name="elbow" joint="{second}" kp="15" kv=".5"/>
  </actuator>
  <sensor>
    <jointpos name="shoulder_position" joint="{first}"/>
    <jointpos name="elbow_position" joint="{second}"/>
    <jointvel name="shoulder_velocity" joint="{first}"/>
    <jointvel name="elbow_velocity" joint="{second}"/>
  </sensor>
</mujoco>
"""
ELBOW = '<joint name="elbow" axis="0 {} 0" armature=".08" damping=".3" frictionloss="{}"/>'
#: Play of .6° each way between the encoder, which the motor turns, and the lower arm.
PLAY = (
    '<inertial mass=".01" pos="0 0 0" diaginertia="1e-4 1e-4 1e-4"/>'
    + ELBOW.format(1, 0.3)
    + '<body><joint name="play" axis="0 1 0" range="-.01 .01" limited="true" damping=".05"/>'
)
TRUE: dict[str, Any] = {
    'gravity': '0 0 -9.81',
    'armature': 0.08,
    'dry': 0.3,
    'length': 0.3,
    'payload': 0.45,
    'kp': 40,
    'first': 'shoulder',
    'second': 'elbow',
    'elbow': ELBOW.format(1, 0.3),
    'end': '',
}
DELAY = 0.01
#: What is fitted where it is not wrong: the nominal values are off.
NOMINAL = {**TRUE, 'dry': 0.0, 'elbow': ELBOW.format(1, 0), 'payload': 0.3}
FITTED = (
    ParameterConfig(target='joint/*/damping', bounds=(0.0, 10.0)),
    ParameterConfig(target='joint/*/frictionloss', bounds=(0.0, 5.0)),
    ParameterConfig(target='body/tip/mass', bounds=(0.05, 2.0)),
    ParameterConfig(target='actuator/*/delay', bounds=(0.0, 0.05), shared=True),
)


class Kind(NamedTuple):
    """What is wrong: values of the model, what is not fitted, values of the robot."""

    model: dict[str, Any] = {}  # noqa: RUF012 (never changed)
    held: str = 'nothing'
    robot: dict[str, Any] = {}  # noqa: RUF012


RIGHT = Kind()
WRONG = {
    'friction missing': Kind(held='frictionloss'),
    'wrong sign': Kind({'elbow': ELBOW.format(-1, 0)}),
    'wrong payload': Kind({'payload': 0.2}, held='mass'),
    'wrong gravity': Kind({'gravity': '2 0 -9.6'}),
    'wrong gain': Kind({'kp': 46}),
    'swapped joints': Kind({'first': 'elbow', 'second': 'shoulder'}),
    'delay missing': Kind(held='delay'),
    'armature missing': Kind({'armature': 0.0}),
    'backlash': Kind(robot={'elbow': PLAY, 'end': '</body>'}),
    'wrong length': Kind({'length': 0.33}),
}


def goals(seed: int) -> Callable[[float], np.ndarray]:
    """Return a motion of three sines for each joint, from zero."""
    rng = np.random.default_rng(seed)
    rates, phases = 2 * np.pi * rng.uniform(0.3, 1.2, (2, 3)), rng.uniform(0, 6, (2, 3))
    return lambda now: 0.35 * (np.sin(rates * now + phases) - np.sin(phases)).sum(axis=1)


@pytest.fixture(scope='module')
def bags(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return a folder with two recordings of a robot, made once."""

    @functools.cache
    def recorded(kind: str) -> Path:
        folder = tmp_path_factory.mktemp(kind.replace(' ', '_'))
        (folder / 'robot.xml').write_text(ARM.format(**TRUE | WRONG.get(kind, RIGHT).robot))
        for number, name in enumerate(('train', 'validate')):
            noise = Noise(position=3e-4, velocity=5e-3, encoder_bits=14, seed=10 + number)
            truth = {'actuator/*/delay': DELAY}
            plant = Plant(folder / 'robot.xml', truth, rate=100, noise=noise)
            record(folder / name, plant, goals(10 + number), 2.0)
        return folder

    return lambda kind: recorded(kind if WRONG.get(kind, RIGHT).robot else 'right')


def standing(folder: Path, kind: Kind) -> tuple[Standing, set[str]]:
    """Return what a calibration with a model that is wrong in a way says of itself."""
    (folder / 'arm.xml').write_text(ARM.format(**NOMINAL | kind.model))
    config = CalibrationConfig(
        model=folder / 'arm.xml',
        bags=(
            BagSelection(path=str(folder / 'train'), role='train'),
            BagSelection(path=str(folder / 'validate'), role='validate'),
        ),
        parameters=tuple(each for each in FITTED if kind.held not in each.target),
        report=ReportConfig(film=False),
    )
    result = identify(config).result
    return result.standing, {check.name for check in result.reservations}


@pytest.mark.slow
def test_the_right_model_is_plainly_accepted(bags: Callable[[str], Path]) -> None:
    assert standing(bags('right'), RIGHT) == (Standing.ACCEPTED, set())


@pytest.mark.slow
@pytest.mark.parametrize('kind', WRONG)
def test_a_wrong_model_is_not(bags: Callable[[str], Path], kind: str) -> None:
    found, reasons = standing(bags(kind), WRONG[kind])
    assert found is not Standing.ACCEPTED
    assert 'residuals' in reasons


@pytest.mark.slow
def test_a_recording_that_disagrees_with_four_is_named_and_not_fitted(tmp_path: Path) -> None:
    names = ('other', 'train_1', 'train_2', 'train_3', 'train_4')
    for number, name in enumerate(names):
        (tmp_path / 'robot.xml').write_text(
            ARM.format(**TRUE | {'kp': 20 if name == 'other' else 40})
        )
        noise = Noise(position=3e-4, velocity=5e-3, encoder_bits=14, seed=10 + number)
        plant = Plant(tmp_path / 'robot.xml', {'actuator/*/delay': DELAY}, rate=100, noise=noise)
        record(tmp_path / name, plant, goals(10 + number), 4.0)
    (tmp_path / 'arm.xml').write_text(ARM.format(**NOMINAL))
    config = CalibrationConfig(
        model=tmp_path / 'arm.xml',
        bags=tuple(BagSelection(path=str(tmp_path / name), role='train') for name in names),
        parameters=FITTED,
        report=ReportConfig(film=False),
    )
    result = identify(config).result
    assert result.standing is Standing.RESERVED, result.acceptance
    assert [item.bag for item in result.health if item.kind == 'disagrees'] == ['other']
    (payload,) = [row for row in result.parameters if row.name == 'body/tip/mass']
    assert payload.low <= TRUE['payload'] <= payload.high
    assert payload.half_width < 0.02
    # Of three recordings, nobody knows which one is right.
    two = config.model_copy(update={'bags': config.bags[:3]})
    assert not [item for item in identify(two).result.health if item.kind == 'disagrees']
