# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Designed motions say more than others, keep all limits, and predict what fits will find."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest

from sysid_ros.errors import ConfigError, ModelError
from sysid_ros.model.targets import Scope, make_unknowns
from sysid_ros.workflows.excitation import Motion
from sysid_ros.workflows.excitation import design as designing
from sysid_ros.workflows.excitation.design import (
    Experiment,
    Plan,
    design,
    half_widths,
    lead_in,
    make_plan,
    off,
    rehearse,
    sensor_noise,
)
from sysid_ros.workflows.excitation.drives import Guard, Limits, drives
from sysid_ros.workflows.excitation.motion import Waypoints, follow

#: A slide that a servo moves, and a wall on its way.
SLIDE = """
<mujoco>
  <compiler autolimits="true"/>
  <option timestep="0.005" integrator="implicitfast" gravity="0 0 {gravity}"/>
  <worldbody>
    <geom name="wall" type="box" size=".05 .5 .5" pos="{wall} 0 0"
      contype="{solid}" conaffinity="{solid}"/>
    <body name="cart"><joint name="x" type="slide" axis="1 0 0" range="-1 1" damping="2"
        frictionloss="1" armature=".1"/>
      <geom name="box" type="box" size=".1 .1 .1" mass="1"
        contype="{solid}" conaffinity="{solid}"/></body>
  </worldbody>
  <actuator><position name="x" joint="x" kp="200" kv="20" ctrlrange="-1 1"
    forcerange="-{force} {force}"/></actuator>
  <sensor><jointpos name="q" joint="x"/><jointactuatorfrc name="f" joint="x"/></sensor>
</mujoco>
"""
#: A wall here is none, m.
FAR = 5.0
SIGMA = {'q': 1e-4, 'f': 0.05}


def slide(*, gravity: float = 0.0, wall: float = FAR, force: float = 20.0) -> mujoco.MjSpec:
    return mujoco.MjSpec.from_string(
        SLIDE.format(gravity=gravity, wall=wall, force=force, solid=int(wall < FAR))
    )


def experiment(spec: mujoco.MjSpec, *paths: str, **limits: float) -> Experiment:
    model = spec.compile()
    unknowns = [unknown for path in paths for unknown in make_unknowns(path, Scope(model, spec))]
    found = Limits(model, **limits)
    noise = sensor_noise(model)
    return Experiment(spec, Path('slide.xml'), unknowns, found, noise, rate=100.0, threads=1)


def plan(model: mujoco.MjModel, *, duration: float = 8.0) -> Plan:
    return make_plan(drives(model), duration=duration, rate=100.0, max_frequency=2.0)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Search for a short time only."""
    for name, value in (('_RANDOM', 4), ('_CHANGED', 4), ('_CHECKED', 4)):
        monkeypatch.setattr(designing, name, value)


@pytest.mark.slow
@pytest.mark.usefixtures('quick')
def test_a_designed_motion_keeps_its_limits_also_where_parameters_are_off() -> None:
    with experiment(slide(), 'joint/x/damping', 'joint/x/frictionloss', 'body/cart/mass') as tried:
        found = design(tried, plan(tried.limits.model), seed=1)
        rng = np.random.default_rng(5)
        worst = tried.excursion(found.motion, off(tried, 10, rng))
        # Seen without the machinery: stepped by hand.
        model = tried.limits.model
        data = mujoco.MjData(model)
        held = np.repeat(found.motion.commands, 2, axis=0)
        speeds = []
        for command in held:
            data.ctrl[:] = command
            mujoco.mj_step(model, data)
            speeds.append(abs(data.qvel[0]))
    assert np.all(worst.parts <= 1.0)
    assert all(use.part <= use.allowed for use in found.usage)
    assert 0.6 * 0.5 < max(speeds) < 0.92 * 0.5
    np.testing.assert_allclose(found.motion.commands[[0, -1]], 0.0, atol=1e-9)


@pytest.mark.slow
@pytest.mark.usefixtures('quick')
def test_the_search_beats_the_best_random_motion(monkeypatch: pytest.MonkeyPatch) -> None:
    costs = []
    for count in (0, 20):
        monkeypatch.setattr(designing, '_CHANGED', count)
        with experiment(slide(), 'joint/x/damping', 'body/cart/mass') as tried:
            half = design(tried, plan(tried.limits.model), seed=2).half
            costs.append(np.sum((half / tried.nominal) ** 2))
    assert costs[1] < 0.9 * costs[0]


def test_predicted_information_is_that_of_the_law_of_motion() -> None:
    """Known from the force alone: f = m a + c v, both known, has the information of [a v]."""
    spec = slide()
    spec.delete(spec.sensor('q'))
    spec.joint('x').frictionloss = 0.0
    with experiment(spec, 'joint/x/damping', 'joint/x/armature') as tried:
        times = np.arange(801) / 100
        commands = 0.1 * np.sin(2 * np.pi * 0.5 * times)[:, None]
        motion = Motion(times, commands, ('x',))
        found = tried.information(motion, since=2.0)
    # The servo's force answers the two forces through the closed loop of kp, kv and the cart.
    s = 2j * np.pi * 0.5
    loop = 200 + 20 * s
    q = 0.1 * 200 / (loop + 2 * s + 1.1 * s**2)
    answers = np.array([loop * q * factor / (loop + 2 * s + 1.1 * s**2) for factor in (s, s**2)])
    rows = 601
    expected = np.outer(answers, answers.conj()).real * (rows / 2 / SIGMA['f'] ** 2)
    np.testing.assert_allclose(np.diag(found), np.diag(expected), rtol=0.03)
    np.testing.assert_allclose(
        half_widths(found), 1.959964 * np.sqrt(np.diag(np.linalg.inv(expected))), rtol=0.03
    )


@pytest.mark.slow
@pytest.mark.usefixtures('quick')
def test_what_no_motion_can_tell_is_named_and_the_rest_is_designed_for() -> None:
    paths = ('joint/x/damping', 'body/cart/mass', 'joint/x/armature', 'body/cart/ipos[1]')
    with experiment(slide(), *paths) as tried:
        found = design(tried, plan(tried.limits.model), seed=0)
    lost = {item.parameter.name: item.reason for item in found.unexcited}
    assert lost['body/cart/ipos[1]'] == 'no motion of the actuators shows in a sensor'
    # Along a line without gravity mass and armature are one inertia.
    together = lost.keys() & {'body/cart/mass', 'joint/x/armature'}
    assert len(together) == 1
    assert 'only together with' in lost[together.pop()]
    assert np.all(np.isfinite(found.half))


def test_limits_that_rest_uses_up_leave_no_room() -> None:
    spec = slide(gravity=-9.81, force=5.0)
    spec.joint('x').axis = [0.0, 0.0, 1.0]
    with (
        experiment(spec, 'joint/x/damping') as tried,
        pytest.raises(ModelError, match="rest breaks a limit: position of 'x'"),
    ):
        design(tried, plan(tried.limits.model))


@pytest.mark.slow
@pytest.mark.usefixtures('quick')
def test_a_wall_is_not_touched() -> None:
    with experiment(slide(wall=0.3), 'joint/x/damping', clearance=0.02) as tried:
        found = design(tried, plan(tried.limits.model), seed=0)
        trace = tried.trace(found.motion)
    # Half of the wall and half of the box lie between the centres.
    assert np.max(trace.qpos) <= 0.3 - 0.05 - 0.1 - 0.02
    assert found.distance >= 0.02


def test_a_free_body_and_a_model_without_actuators_are_refused() -> None:
    free = '<mujoco><worldbody><body name="b"><freejoint/><geom size=".1"/></body></worldbody>'
    with pytest.raises(ModelError, match='with actuators to move it, found none'):
        Limits(mujoco.MjModel.from_xml_string(free + '</mujoco>'))
    driven = free.replace('<freejoint/>', '<freejoint name="f"/>')
    driven += '<actuator><motor joint="f" ctrlrange="-1 1"/></actuator></mujoco>'
    with pytest.raises(ModelError, match="found the free joint of body 'b'"):
        Limits(mujoco.MjModel.from_xml_string(driven))


@pytest.mark.parametrize('duration', [8.0, 20.0, 33.0])
def test_a_plan_has_its_duration_and_whole_periods(duration: float) -> None:
    made = plan(slide().compile(), duration=duration)
    motion = made.motion(np.full(made.shape, 0.02))
    assert motion.duration == pytest.approx(duration)
    commands = motion.commands[:, 0]
    np.testing.assert_allclose(commands[[0, -1]], 0.0, atol=1e-9)
    first = round(designing.RAMP * 100)
    count = round(made.period * 100)
    if made.periods > 1 and abs(made.period * 100 - count) < 1e-9:
        repeated = commands[first + count : first + 2 * count]
        np.testing.assert_allclose(commands[first : first + count], repeated, atol=1e-9)
    assert np.max(np.abs(np.diff(commands, 2))) * 1e4 < 50


def test_a_duration_without_a_period_is_refused() -> None:
    with pytest.raises(ConfigError, match='Expected a duration of at least'):
        plan(slide().compile(), duration=1.5)


@pytest.mark.parametrize(
    ('state', 'reason'),
    [
        ({'position': 1.2}, "'x' is at 1.2, outside its range -1 to 1"),
        ({'velocity': -3.0}, "'x' moves at -3, faster than 2"),
        ({'effort': 25.0}, "the effort of 'x' is 25"),
        ({'position': 0.4}, "'x' is 0.4 from its command"),
        ({'position': 0.2, 'velocity': 1.0, 'effort': 20.5}, None),
    ],
)
def test_the_guard_names_the_broken_limit(state: dict[str, float], reason: str | None) -> None:
    guard = Guard(slide().compile(), position_tolerance=0.05, max_velocity=2.0, max_error=0.3)
    position, velocity, effort = (
        {'x': state.get(kind, 0.0)} for kind in ('position', 'velocity', 'effort')
    )
    found = guard.check(position, velocity, effort, np.zeros(1))
    assert (found is None) == (reason is None)
    assert found is None or str(reason) in found.reason


#: Two balls of 5 cm radius on one rail, .5 m apart, each on a stiff servo.
RAIL = """
<mujoco>
  <option gravity="0 0 0"/>
  <worldbody>
    <body name="left">
      <joint name="left" type="slide" axis="1 0 0" range="-1 1" damping="{damping}"/>
      <geom size=".05" mass="1" {left}/>
    </body>
    <body name="right" pos=".5 0 0">
      <joint name="right" type="slide" axis="1 0 0" range="-1 1" damping="20"/>
      <geom size=".05" mass="1"/>
    </body>
  </worldbody>
  <actuator>
    <position name="left" joint="left" kp="100" ctrlrange="-1 1"/>
    <position name="right" joint="right" kp="100" ctrlrange="-1 1"/>
  </actuator>
</mujoco>
"""
PATH = Path('rail.xml')


def _try(*positions: float, span: float = 4.0, speed: float = 10.0, **text: object) -> None:
    """Move the left ball through positions."""
    spec = mujoco.MjSpec.from_string(RAIL.format(**{'damping': 20, 'left': ''} | text))
    model = spec.compile()
    times = np.linspace(0.0, span, len(positions))
    motion = follow(model, Waypoints(times, ('left',), np.array(positions)[:, None]), rate=100.0)
    rehearse(spec, PATH, motion, Limits(model, margin=1.02, max_speed=speed))


APART = 'contype="0" conaffinity="0"'


def test_a_motion_that_keeps_all_limits_is_accepted():
    _try(0.0, -1.0, 0.35, 0.0)
    _try(-0.8, -0.6)  # approached from the home pose
    _try(0.0, 0.8, 0.0, left=APART)


@pytest.mark.parametrize(
    ('positions', 'options', 'broken'),
    [
        ((0.0, 0.45, 0.0), {}, r'bodies come as near as -?\d+\.\d mm'),
        ((0.0, -1.0, 0.0), {'speed': 0.3}, r"velocity of 'left' at \d+ %"),
        ((0.0, -1.0, -1.0), {'span': 0.4, 'damping': 1}, r"position of 'left' at \d+ %"),
    ],
)
def test_a_motion_that_breaks_a_limit_is_refused(
    positions: tuple[float, ...], options: dict[str, Any], broken: str
):
    with pytest.raises(ModelError, match=rf"limits of 'rail.xml', .* breaks a limit: {broken}\.$"):
        _try(*positions, **options)


def _lead_in(pose: float, left: str = '') -> float:
    """Return how many seconds the way from a pose of the left ball to its home pose takes."""
    model = mujoco.MjModel.from_xml_string(RAIL.format(damping=20, left=left))
    motion = follow(model, Waypoints(np.array([0.0, 1.0]), ('left',), np.zeros((2, 1))), rate=100.0)
    whole = lead_in(model, motion, np.array([pose, 0.0]), rate=100.0)
    assert whole.commands[0, 0] == pytest.approx(pose)
    return whole.duration - motion.duration


def test_a_way_that_leads_through_another_body_is_refused():
    # .3 m at .5 m/s at most, by a quintic.
    assert _lead_in(0.3) == pytest.approx(1.875 * 0.3 / 0.5, abs=0.01)
    with pytest.raises(
        ModelError, match=r'^Expected a free way .* as near as -\d+\.\d mm on it\.$'
    ):
        _lead_in(0.8)
    assert _lead_in(0.8, left=APART) > 0


def test_a_robot_that_rests_against_something_may_leave_it():
    assert _lead_in(0.395) > 0


def test_the_way_of_what_stands_or_flies_is_not_looked_at():
    spec = mujoco.MjSpec.from_string(RAIL.format(damping=20, left=''))
    spec.body('left').add_freejoint()
    spec.delete(spec.joint('left'))
    spec.delete(spec.actuator('left'))
    model = spec.compile()
    motion = follow(
        model, Waypoints(np.array([0.0, 1.0]), ('right',), np.zeros((2, 1))), rate=100.0
    )
    pose = np.zeros(model.nq)
    pose[3], pose[-1] = 1.0, -0.8
    assert lead_in(model, motion, pose, rate=100.0).duration > motion.duration
