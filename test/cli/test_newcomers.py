# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Mistakes of those who begin: what is printed names a command, and that command works."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from builders.cli_project import Outcome, Sysid
from builders.recorded_pendulum import FOLDER
from builders.rewritten import rewrite

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures('undrawn')]

Begin = Callable[..., None]
_MODEL = (FOLDER / 'arm.xml').read_text()
#: The pendulum as most models are: without sensors.
_BARE = re.sub('<sensor>.*</sensor>', '', _MODEL, flags=re.DOTALL)
#: Another robot, which has neither names nor ranges nor forces in common with the pendulum.
_OTHER = """
<mujoco>
  <worldbody>
    <body name="carriage">
      <joint name="rail" type="slide" axis="1 0 0" range="3 4"/>
      <geom size=".1" mass="40"/>
    </body>
  </worldbody>
  <actuator>
    <position name="rail" joint="rail" kp="9000" kv="900"/>
  </actuator>
</mujoco>
"""


@pytest.fixture
def begin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Begin:
    """Return a function that makes a folder with ``arm.xml`` and ``bags``, and goes there."""

    def make(
        change: Callable[[str, Any], Any] = lambda _, message: message,
        *,
        model: str = _MODEL,
        names: tuple[str, ...] = ('train_1', 'validate_1'),
        seconds: float = 2.0,
    ) -> None:
        (tmp_path / 'arm.xml').write_text(model)
        (tmp_path / 'bags').mkdir()
        for name in names:
            source = FOLDER / name.partition('_')[0]
            rewrite(source, tmp_path / 'bags' / name, change, seconds=seconds)
        monkeypatch.chdir(tmp_path)

    return make


def measured(change: Callable[[Any], None]) -> Callable[[str, Any], Any]:
    """Return what changes the messages of joint states, in place."""

    def apply(topic: str, message: Any) -> Any:
        if topic == '/joint_states':
            change(message)
        return message

    return apply


def last_commands(done: Outcome) -> list[list[str]]:
    """Return the ``sysid`` commands that are printed to be typed, split."""
    found = re.findall('^  sysid (.*)$', done.out, re.MULTILINE)
    return [shlex.split(line) for line in found]


def follow(sysid: Sysid, done: Outcome) -> Outcome:
    """Type the first command that is printed, and return what it does."""
    (first, *_) = last_commands(done)
    return sysid(*first)


def test_a_model_without_sensors_needs_none(begin: Begin, sysid: Sysid):
    begin(model=_BARE)
    done = sysid('init', 'bags', 'arm.xml')
    assert (done.code, 'no sensors of position, velocity, effort' in done.out) == (0, True)
    assert 'would be identified by these bags' in follow(sysid, done).out


def test_names_that_differ_get_a_mapping(begin: Begin, sysid: Sysid):
    def rename(message: Any) -> None:
        message.name = ['a_motor' if name == 'shoulder' else 'b_motor' for name in message.name]

    begin(measured(rename))
    config = 'model: arm.xml\nbags: [{path: bags/train_1}]\nparameters: [{target: joint/*/damping}]'
    with open('calibration.yaml', 'w') as file:  # noqa: PTH123 (in the folder that was gone to)
        file.write(config)
    named = sysid('preflight', 'calibration.yaml')
    assert (named.code, '`sysid map BAG MODEL`' in named.err) == (2, True)
    assert sysid('map', 'bags/train_1', 'arm.xml').code == 0
    assert '--force' in sysid('init', 'bags', 'arm.xml').err
    done = sysid('init', 'bags', 'arm.xml', '--force')
    assert (done.code, 'wrote mapping.yaml' in done.out) == (0, True)
    assert re.search(
        r'Guessed from motion and order.*from 0.\d+: shoulder_position is a_mo', done.out
    )
    assert follow(sysid, done).code in (0, 1)


def test_the_unit_of_efforts_that_are_no_torques_is_asked_for(begin: Begin, sysid: Sysid):
    def amperes(message: Any) -> None:
        message.effort = 1e3 * message.effort

    begin(measured(amperes))
    done = sysid('init', 'bags', 'arm.xml')
    assert done.code == 0
    assert 'How many N·m (N) is a unit of /joint_states.effort[' in done.out
    assert 'times the torque that the model needs' in done.out
    assert 'sysid map BAG MODEL' in done.out
    with open('calibration.yaml') as file:  # noqa: PTH123 (as above)
        text = file.read()
    assert 'How many N·m' in text
    assert 'mass' not in {item['target'] for item in yaml.safe_load(text)['parameters']}


def test_one_bag_is_enough_to_begin_and_the_next_is_named(begin: Begin, sysid: Sysid):
    begin(names=('train_1',))
    done = sysid('init', 'bags/train_1', 'arm.xml')
    assert 'record.launch.xml output:=bags/validate_1' in done.out
    preflight, calibrate = last_commands(done)
    assert preflight == ['preflight', 'calibration.yaml']
    result = sysid(*calibrate, '--set', 'solver.max_iterations=4')
    assert result.code in (0, 1)
    assert 'result:' in result.out
    found = json.loads(sysid('init', 'bags/train_1', 'arm.xml', '--force', '--json').out)
    assert [bag['role'] for bag in found['bags']] == ['train']
    assert (found['written'], found['mapping']) == (['calibration.yaml'], None)


def test_the_model_of_another_robot_is_told(begin: Begin, sysid: Sysid):
    begin(model=_OTHER)
    done = sysid('init', 'bags', 'arm.xml')
    said = done.out + done.err
    assert done.code in (1, 2)
    assert 'rail' in said
    assert 'measured joints of the bag: shoulder, elbow' in said


def test_a_bag_without_commands_is_fitted_by_its_forces(begin: Begin, sysid: Sysid):
    begin(lambda topic, message: message if topic == '/joint_states' else None)
    done = sysid('init', 'bags', 'arm.xml')
    assert (done.code, 'no commands' in done.out) == (0, True)
    assert 'forces along the measured motion' in follow(sysid, done).out


def test_a_bag_without_commands_and_forces_says_what_to_record_or_set(begin: Begin, sysid: Sysid):
    def change(topic: str, message: Any) -> Any:
        if topic != '/joint_states':
            return None
        message.effort = message.effort[:0]
        return message

    begin(change)
    done = sysid('init', 'bags', 'arm.xml')
    assert "undriven: ['*']" in done.out
    settings = ('--set', "undriven=['*']", '--set', 'parameters=[{target: joint/*/damping}]')
    assert sysid('preflight', 'calibration.yaml', *settings).code in (0, 1)


def test_a_bag_that_is_too_short_says_how_to_record_a_longer_one(begin: Begin, sysid: Sysid):
    begin(seconds=0.4)
    done = sysid('init', 'bags', 'arm.xml')
    assert (done.code, done.out) == (2, '')
    assert "tell something of 'arm.xml', found no joint that moves in 0.39 s" in done.err
    assert not list(Path().glob('*.yaml'))
    (excite,) = re.findall('`sysid (.*)`', done.err)
    assert sysid(*shlex.split(excite), '--duration', '2.5').code == 0
