# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The plant does what MuJoCo does with the true values, and delays commands exactly."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import mujoco
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.interpolate import BPoly

from sysid_ros.errors import ConfigError, ModelError, ParameterError
from sysid_ros.plant import Noise, Plant, Sample, TrajectoryCommand, load_truth
from sysid_ros.workflows.excitation import sum_of_sines
from sysid_ros.workflows.excitation.drives import home_position

DEMO = Path(__file__).resolve().parents[2] / 'config' / 'demo'
ARM = DEMO / 'arm.xml'
TRUTH = DEMO / 'truth.yaml'
DELAY = 0.008

MIXED = """<mujoco><option gravity="0 0 0"/><worldbody>
<body><joint name="driven" type="slide" damping="1"/><geom size=".1"/>
<body><joint name="loose" damping=".1"/><geom size=".1" pos=".2 0 0"/></body></body>
</worldbody><actuator><motor name="push" joint="driven"/></actuator></mujoco>"""


def _table(samples: Iterable[Sample]) -> NDArray[np.float64]:
    return np.array([np.concatenate((s.position, s.velocity, s.effort)) for s in samples])


def _commands(seconds: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return commands at about 100 Hz that arrive at irregular times."""
    motion = sum_of_sines(mujoco.MjModel.from_xml_path(str(ARM)), duration=seconds, ramp=0.1)
    jitter = np.random.default_rng(1).uniform(0.0, 0.009, len(motion.times))
    return motion.times + jitter, motion.commands


def _write(folder: Path, text: str) -> Path:
    path = folder / 'model.xml'
    path.write_text(text)
    return path


def _true_model(path: Path) -> mujoco.MjModel:
    """Write the truth into the MJCF's text elements, and not into a compiled model."""
    spec = mujoco.MjSpec.from_file(str(path))
    for target, value in load_truth(TRUTH).items():
        element, name, attribute = target.split('/')
        if element == 'body':
            spec.body(name).mass = value
        elif element == 'joint':
            joint = spec.joint(name)
            setattr(joint, attribute, [value, 0, 0] if attribute == 'damping' else value)
    return spec.compile()


def _in_force(
    moment: float, arrivals: NDArray[np.float64], commands: NDArray[np.float64]
) -> NDArray[np.float64]:
    row = int(np.searchsorted(arrivals + DELAY, moment, side='right')) - 1
    return np.array([0, -1.1, 1.4, -0.4, 0, 0]) if row < 0 else commands[row]


@pytest.mark.slow
def test_the_plant_is_a_plain_loop_over_mj_step_with_the_mean_command_of_each_step():
    arrivals, commands = _commands(1.5)
    plant = Plant(ARM, load_truth(TRUTH))
    for arrival, command in zip(arrivals, commands, strict=True):
        plant.command(arrival, command)
    samples = list(plant.advance(1.5))
    model = _true_model(ARM)
    data = mujoco.MjData(model)
    data.qpos[:], data.qvel[:] = samples[0].position, samples[0].velocity
    expected = []
    for step in range(len(samples)):
        changes = arrivals + DELAY
        start, end = step * 0.002, (step + 1) * 0.002
        cuts = np.array([start, *changes[(changes > start) & (changes < end)], end])
        held = [_in_force(moment, arrivals, commands) for moment in (cuts[1:] + cuts[:-1]) / 2]
        # Forces are read under the command that is in force at that instant.
        data.ctrl[:] = _in_force(start + 1e-9, arrivals, commands)
        mujoco.mj_forward(model, data)
        expected.append(data.sensordata.copy())
        data.ctrl[:] = np.average(held, axis=0, weights=np.diff(cuts))
        mujoco.mj_step(model, data)
    assert len(samples) == 750
    np.testing.assert_allclose(_table(samples), np.array(expected), atol=1e-6)


def test_a_delay_in_the_mjcf_is_kept_unless_the_truth_says_otherwise(tmp_path: Path):
    text = ARM.read_text().replace('<position ', '<position delay="0.02" nsample="20" ')
    path = _write(tmp_path, text)
    step = np.array([0.2, -1.1, 1.4, -0.4, 0, 0])
    moved = []
    for truth in ({}, {'actuator/*/delay': 0.05}):
        plant = Plant(path, truth)
        plant.command(0.1, step)
        effort = _table(plant.advance(0.3))[:, 12]
        moved.append(np.flatnonzero(effort > 100)[0] * 0.002)
    assert moved == pytest.approx([0.12, 0.15])


def test_it_rests_in_its_home_pose_until_the_first_command():
    plant = Plant(ARM, load_truth(TRUTH))
    samples = _table(plant.advance(0.5))
    assert plant.settled
    assert np.max(np.abs(samples[:, 6:12])) < 1e-4
    assert np.max(np.abs(samples[-1, :6] - [0, -1.1, 1.4, -0.4, 0, 0])) < 0.03
    assert samples[0, 13] < -30


def test_samples_do_not_depend_on_how_the_time_is_cut():
    plants = [Plant(ARM, rate=250, noise=Noise(1e-4, 1e-3, 0.1, 14, seed=5)) for _ in range(2)]
    whole = list(plants[0].advance(0.3))
    parts = [s for end in np.arange(1, 31) * 0.01 for s in plants[1].advance(end)]
    np.testing.assert_array_equal(_table(whole), _table(parts))
    assert [s.time for s in whole] == pytest.approx(np.arange(75) * 0.004)


@pytest.mark.slow
def test_encoder_and_noise_are_as_large_as_told():
    count = 2 * np.pi / 2**14
    exact = Plant(ARM)
    noisy = Plant(ARM, noise=Noise(1e-4, 5e-3, 5e-2, 14, seed=1))
    truth, found = _table(exact.advance(4.0)), _table(noisy.advance(4.0))
    counts = found[:, :6] / count
    np.testing.assert_allclose(counts, np.round(counts), atol=1e-6)
    error = found - truth
    assert np.max(np.abs(error[:, :6])) < count / 2 + 6e-4
    np.testing.assert_allclose(np.std(error[:, 6:12]), 5e-3, rtol=0.05)
    np.testing.assert_allclose(np.std(error[:, 12:]), 5e-2, rtol=0.05)


def test_a_late_command_takes_effect_at_once():
    plant = Plant(ARM)
    list(plant.advance(0.1))
    home = np.array([0, -1.1, 1.4, -0.4, 0, 0])
    plant.command(0.1, home)
    plant.command(0.05, home + 0.1)
    samples = _table(plant.advance(0.11))
    assert samples[0, 12] > 150


def test_slides_motors_and_joints_without_actuators_work(tmp_path: Path):
    plant = Plant(_write(tmp_path, MIXED), {'joint/loose/damping': 0.2}, noise=Noise(0, 0, 0, 8))
    assert plant.joints == ('driven', 'loose')
    assert plant.model.dof_damping[1] == 0.2
    plant.command(0.0, np.array([2.0]))
    samples = _table(plant.advance(0.5))
    assert samples[-1, 0] > 0.01
    np.testing.assert_allclose(samples[:, 4:], np.tile([2.0, 0.0], (250, 1)))


def test_nan_leaves_an_actuator_as_it_is():
    plant = Plant(ARM)
    command = np.full(6, np.nan)
    command[0] = 0.3
    plant.command(0.0, command)
    samples = _table(plant.advance(1.0))
    assert samples[-1, 0] > 0.25
    assert samples[-1, 2] == pytest.approx(samples[0, 2], abs=0.02)


def test_the_demo_hides_twenty_values_that_its_model_has_wrong():
    model = mujoco.MjModel.from_xml_path(str(ARM))
    true = _true_model(ARM)
    for field in ('dof_armature', 'dof_damping', 'dof_frictionloss'):
        ratio = getattr(model, field) / getattr(true, field)
        assert np.all((ratio < 0.55) | (ratio > 1.9)), field
    assert model.body('tool').mass[0] == pytest.approx(true.body('tool').mass[0] / 2)
    assert len(load_truth(TRUTH)) == 20


def test_models_that_cannot_be_simulated_are_refused_with_a_sentence(tmp_path: Path):
    with pytest.raises(ModelError, match=r"No model file '.*none\.xml'"):
        Plant(tmp_path / 'none.xml')
    with pytest.raises(ModelError, match='Cannot read the model'):
        Plant(_write(tmp_path, '<mujoco><worldbody>'))
    broken = MIXED.replace('joint="driven"', 'joint="drive"')
    with pytest.raises(ModelError, match=r'Cannot compile the model .*drive') as caught:
        Plant(_write(tmp_path, broken))
    assert '\n' not in str(caught.value)
    with pytest.raises(ModelError, match='Expected a hinge or slide joint with a name'):
        Plant(_write(tmp_path, '<mujoco><worldbody><geom size="1"/></worldbody></mujoco>'))
    with pytest.raises(ConfigError, match=r'rate of at most 500 Hz, .* found 501 Hz'):
        Plant(ARM, rate=501)


@pytest.mark.parametrize(
    ('truth', 'sentence'),
    [
        ({'joint/elbo/damping': 1.0}, "No joint matches 'elbo' .*; nearest: elbow"),
        ({'body/tool/mass': -1.0}, "Expected 'body/tool/mass' between .* found -1"),
    ],
)
def test_a_truth_that_does_not_fit_the_model_is_refused(truth: dict[str, float], sentence: str):
    with pytest.raises(ParameterError, match=sentence):
        Plant(ARM, truth)


def test_a_truth_file_with_something_else_than_numbers_is_refused(tmp_path: Path):
    path = tmp_path / 'truth.yaml'
    path.write_text('joint/elbow/damping: much\n')
    with pytest.raises(ConfigError, match=r"number for 'joint/elbow/damping' .* found 'much'"):
        load_truth(path)


def test_a_simulation_that_diverges_says_so(tmp_path: Path):
    # The servo overcorrects in every step: its stiffness is far beyond what the step resolves.
    text = MIXED.replace(
        '<motor name="push" joint="driven"/>',
        '<general joint="driven" gainprm="1e9" biastype="affine" biasprm="0 0 1e9"/>',
    ).replace('<option ', '<option integrator="Euler" ')
    plant = Plant(_write(tmp_path, text))
    plant.command(0.0, np.array([1.0]))
    with pytest.raises(ModelError, match='became unstable at'):
        list(plant.advance(1.0))


@pytest.mark.slow
def test_a_trajectory_is_followed_until_a_command_replaces_it():
    times, step = np.arange(0, 2.0, 0.002), 0.002
    given = np.full((2, 3, 6), np.nan)
    plants = [Plant(ARM, {'actuator/*/delay': DELAY}) for _ in range(2)]
    home = home_position(plants[0].model)
    given[:, 0, 0], given[:, 0, 1], given[0, 1, 1], given[1, 1, 1] = [0.5, -0.3], [-1.0, -1.2], 1, 0
    later = np.full((1, 3, 6), np.nan)
    later[0, 0, 0] = 0.2
    plants[0].command(0.1, TrajectoryCommand(np.array([0.4, 1.1]), given))
    plants[0].command(0.9, TrajectoryCommand(np.array([0.5]), later))
    plants[0].command(1.2, np.array([np.nan, -1.1, *home[2:]]))
    # The same, held between fine steps of another implementation's splines.
    pan = np.interp(times, [0.1, 0.5], [home[0], 0.5])
    late = times > 0.5
    pan[late] = np.interp(times[late], [0.5, 1.2], [0.5, -0.3])
    at_09 = 0.5 - 0.8 * 0.4 / 0.7
    late = times > 0.9
    pan[late] = np.interp(times[late], [0.9, 1.4], [at_09, 0.2])
    pan[times >= 1.2] = at_09 + 0.6 * (0.2 - at_09)
    lift = BPoly.from_derivatives(
        [0.1, 0.5, 1.2], [[home[1], 0], [-1.0, 1.0], [-1.2, 0.0]], orders=None
    )(np.clip(times, 0.1, 0.9))
    lift[times >= 1.2] = -1.1
    for row, time in enumerate(times):
        middle = [
            (column[row] + column[min(row + 1, len(times) - 1)]) / 2 for column in (pan, lift)
        ]
        plants[1].command(float(time), np.array([*middle, *home[2:]]))
    found, expected = (_table(plant.advance(2.0 - step)) for plant in plants)
    np.testing.assert_allclose(found[:, :2], expected[:, :2], atol=2e-3)
    assert np.abs(found[:, :2] - expected[:, :2]).mean() < 1e-4
