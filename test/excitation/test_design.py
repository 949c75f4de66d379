# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Designed motions say more than others, keep all limits, and predict what fits will find."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import mujoco
import numpy as np
import pytest

from sysid_ros.errors import ConfigError, ModelError, ParameterError
from sysid_ros.excitation import Motion, follow, format_waypoints, read_waypoints
from sysid_ros.excitation import design as designing
from sysid_ros.excitation.design import design, half_widths, matched, off
from sysid_ros.excitation.drives import drives
from sysid_ros.excitation.experiment import Experiment, SensorAccuracy, sensor_noise
from sysid_ros.excitation.fourier import make_plan
from sysid_ros.excitation.limits import Collisions, Guard, find_limits
from sysid_ros.excitation.picture import draw_motion
from sysid_ros.excitation.surrogate import Surrogate
from sysid_ros.model.unknown import Scope, make_unknowns

if TYPE_CHECKING:
    from sysid_ros.excitation.fourier import Plan

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
    found = find_limits(model, **limits)
    noise = sensor_noise(model, SensorAccuracy())
    return Experiment(spec, Path('slide.xml'), unknowns, found, noise, rate=100.0, threads=1)


def plan(model: mujoco.MjModel, *, duration: float = 8.0, swept: bool = False) -> Plan:
    return make_plan(
        drives(model), duration=duration, rate=100.0, max_frequency=2.0, swept=[swept], speeds=[0.5]
    )


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Search for a short time only."""
    monkeypatch.setattr(designing, '_COMPARED', 1)
    monkeypatch.setattr(designing, '_IMPROVED', 4)
    monkeypatch.setattr(designing, '_SCREENED', 3)
    monkeypatch.setattr(designing, '_LOOKED', 1)
    monkeypatch.setattr(designing, '_CHECKED', 4)


@pytest.mark.slow
@pytest.mark.usefixtures('quick')
def test_a_designed_motion_keeps_its_limits_also_where_parameters_are_off() -> None:
    with experiment(slide(), 'joint/x/damping', 'joint/x/frictionloss', 'body/cart/mass') as tried:
        found = design(tried, plan(tried.limits.model, swept=True), seed=1)
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
def test_equal_seeds_give_equal_motions_and_other_seeds_others() -> None:
    motions = []
    for seed in (3, 3, 4):
        with experiment(slide(), 'joint/x/damping') as tried:
            motions.append(design(tried, plan(tried.limits.model), seed=seed).motion.commands)
    np.testing.assert_array_equal(motions[0], motions[1])
    assert np.max(np.abs(motions[0] - motions[2])) > 0.01


@pytest.mark.slow
@pytest.mark.usefixtures('quick')
def test_the_search_beats_the_best_random_motion(monkeypatch: pytest.MonkeyPatch) -> None:
    costs = []
    monkeypatch.setattr(designing, '_COMPARED', 0)
    for count in (0, 8):
        monkeypatch.setattr(designing, '_IMPROVED', count)
        with experiment(slide(), 'joint/x/damping', 'body/cart/mass') as tried:
            half = design(tried, plan(tried.limits.model), seed=2).half
            costs.append(designing.width_cost(np.diag(half**-2), np.ones(2)))
    assert costs[1] < costs[0] + np.log(0.9)


def test_the_guess_of_the_search_is_right_where_the_robot_is_linear() -> None:
    """Without friction and gravity nothing is left out; rollouts know nothing of the guess."""
    spec = slide()
    spec.joint('x').frictionloss = 0.0
    with experiment(spec, 'joint/x/damping', 'body/cart/mass') as tried:
        made = plan(tried.limits.model, duration=13.0)
        guess = Surrogate(tried, made)
        x = np.zeros(made.shape)
        x[0, [1, 3, 7]] = 0.05, 0.08, -0.05
        seen = guess.information(x) * 100 * made.period
        # The second period: the first one still shows the ramp.
        whole, count = made.motion(x), round((made.ramp + 2 * made.period) * 100) + 1
        motion = Motion(whole.times[:count], whole.commands[:count], whole.actuators)
        true = tried.information(motion, made.ramp + made.period)
    assert made.periods == 2
    np.testing.assert_allclose(half_widths(seen), half_widths(true), rtol=0.03)


def test_the_cost_falls_with_the_widths() -> None:
    information = np.array([[4.0, 1.0], [1.0, 9.0]])
    sizes = np.array([0.5, 3.0])
    # Nine times the samples: all intervals are a third as wide.
    narrower = designing.width_cost(9 * information, sizes)
    assert narrower == pytest.approx(designing.width_cost(information, sizes) - np.log(3.0))
    # The unit of a parameter does not matter.
    factor = np.array([1e3, 1.0])
    other = designing.width_cost(information * np.outer(factor, factor), sizes / factor)
    assert other == pytest.approx(designing.width_cost(information, sizes))
    assert designing.width_cost(np.ones((2, 2)), np.ones(2)) == np.inf


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
    by_damping, by_armature = (
        -loop * (-q * factor) / (loop + 2 * s + 1.1 * s**2) for factor in (s, s**2)
    )
    rows = 601
    expected = np.array(
        [
            [abs(by_damping) ** 2, (by_damping * np.conj(by_armature)).real],
            [(by_damping * np.conj(by_armature)).real, abs(by_armature) ** 2],
        ]
    ) * (rows / 2 / SIGMA['f'] ** 2)
    np.testing.assert_allclose(np.diag(found), np.diag(expected), rtol=0.03)
    np.testing.assert_allclose(
        half_widths(found), 1.959964 * np.sqrt(np.diag(np.linalg.inv(expected))), rtol=0.03
    )


def test_one_motion_is_not_simulated_with_the_commands_of_another() -> None:
    times = np.arange(301) / 100
    motions = [
        Motion(times, size * np.sin(3 * times)[:, None], ('x',)) for size in (0.05, 0.1, 0.2)
    ]
    with experiment(slide(), 'joint/x/damping') as tried:
        together = [float(tried.information(motion)[0, 0]) for motion in motions]
    alone = []
    for motion in motions:
        with experiment(slide(), 'joint/x/damping') as tried:
            alone.append(float(tried.information(motion)[0, 0]))
    np.testing.assert_allclose(together, alone, rtol=1e-9)


@pytest.mark.slow
def test_a_name_that_would_be_a_formula_is_drawn() -> None:
    spec = slide()
    spec.actuators[0].name = '$\\foo$\n\x1b'
    motion = Motion(np.arange(101) / 100, np.zeros((101, 1)), (spec.actuators[0].name,))
    with experiment(spec, 'joint/x/damping') as tried:
        picture = draw_motion(motion, tried.trace(motion), find_limits(spec.compile()))
    assert picture.startswith(b'\x89PNG')


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


@pytest.mark.slow
@pytest.mark.usefixtures('quick')
def test_nothing_is_designed_where_nothing_can_be_told() -> None:
    with (
        experiment(slide(), 'body/cart/ipos[1]') as tried,
        pytest.raises(ParameterError, match='found none: body/cart/ipos'),
    ):
        design(tried, plan(tried.limits.model))


def test_limits_that_rest_uses_up_leave_no_room() -> None:
    spec = slide(gravity=-9.81, force=5.0)
    spec.joint('x').axis = [0.0, 0.0, 1.0]
    with (
        experiment(spec, 'joint/x/damping') as tried,
        pytest.raises(ModelError, match="found the position of 'x' at 100 % of its limit"),
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


def test_distances_are_those_of_the_boxes() -> None:
    model = slide(wall=0.3).compile()
    collisions = Collisions(model, 0.02)
    assert collisions.distance(np.array([[0.12], [0.0]])) == pytest.approx(0.03, abs=1e-6)
    assert collisions.distance(np.array([[0.0]])) == np.inf


@pytest.mark.slow
def test_a_matched_motion_has_the_torque_or_a_limit() -> None:
    with experiment(slide(), 'joint/x/damping') as tried:
        times = np.arange(401) / 100
        motion = Motion(times, 0.3 * np.sin(2 * times)[:, None] ** 3, ('x',))
        weak = tried.excursion(matched(tried, motion, np.array([3.0])), tried.nominal[None])
        strong = tried.excursion(matched(tried, motion, np.array([1e3])), tried.nominal[None])
    assert weak.torques[0] == pytest.approx(3.0, rel=0.02)
    assert np.max(strong.parts / tried.limits.allowed) == pytest.approx(1.0, abs=0.02)


def test_a_free_body_and_a_model_without_actuators_are_refused() -> None:
    free = '<mujoco><worldbody><body name="b"><freejoint/><geom size=".1"/></body></worldbody>'
    with pytest.raises(ModelError, match='with actuators to move it, found none'):
        find_limits(mujoco.MjModel.from_xml_string(free + '</mujoco>'))
    driven = free.replace('<freejoint/>', '<freejoint name="f"/>')
    driven += '<actuator><motor joint="f" ctrlrange="-1 1"/></actuator></mujoco>'
    with pytest.raises(ModelError, match="found the free joint of body 'b'"):
        find_limits(mujoco.MjModel.from_xml_string(driven))


def test_sensors_without_a_name_are_none() -> None:
    spec = slide()
    for name in ('q', 'f'):
        spec.delete(spec.sensor(name))
    with pytest.raises(ModelError, match='Expected named sensors'):
        sensor_noise(spec.compile(), SensorAccuracy())


@pytest.mark.parametrize('duration', [8.0, 20.0, 33.0])
def test_a_plan_has_its_duration_and_whole_periods(duration: float) -> None:
    made = plan(slide().compile(), duration=duration, swept=True)
    assert made.duration == pytest.approx(duration)
    x = np.zeros(made.shape)
    x[0, 1:] = 0.02
    commands = made.motion(x).commands[:, 0]
    first = round(made.ramp * 100)
    count = round(made.period * 100)
    if made.periods > 1 and abs(made.period * 100 - count) < 1e-9:
        repeated = commands[first + count : first + 2 * count]
        np.testing.assert_allclose(commands[first : first + count], repeated, atol=1e-9)
    assert np.max(np.abs(np.diff(commands, 2))) * 1e4 < 50


def test_a_duration_without_a_period_is_refused() -> None:
    with pytest.raises(ConfigError, match='Expected a duration of at least'):
        plan(slide().compile(), duration=1.5)


def test_sweeps_go_slowly_both_ways() -> None:
    made = plan(slide().compile(), duration=20.0, swept=True)
    motion = made.motion(np.zeros(made.shape))
    speed = np.diff(motion.commands[:, 0]) * 100
    assert 0.0 < np.max(speed) <= made.speeds[0] * 1.001
    assert -made.speeds[0] * 1.001 <= np.min(speed) < 0.0
    assert abs(motion.commands[-1, 0]) < 1e-9


def test_a_written_motion_comes_back(tmp_path: Path) -> None:
    model = slide().compile()
    times = np.arange(301) / 100
    motion = Motion(times, 0.4 * np.sin(times)[:, None], ('x',))
    path = tmp_path / 'motion.csv'
    path.write_text(format_waypoints(model, motion, ['a comment']))
    again = follow(model, read_waypoints(path), rate=100.0)
    np.testing.assert_allclose(again.commands, motion.commands, atol=1e-8)


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
