# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Programs in the toolbox's own words that give wrong answers there, and right ones here.

Each test fails where ``sysid`` is ``mujoco.sysid`` of MuJoCo 4.0. How many random starts end at the
truth is in ``benchmarks/starts.py``.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import mujoco
import mujoco.rollout
import numpy as np
import pytest
from numpy.typing import NDArray

from sysid_ros import toolbox as sysid

SPRING_MASS = """
<mujoco>
  <option timestep="0.002"/>
  <worldbody><body name="cart"><inertial pos="0 0 0" mass="1" diaginertia=".001 .001 .001"/>
    <joint name="slide" type="slide" axis="1 0 0" stiffness="100" damping="5"/></body></worldbody>
  <actuator><motor name="push" joint="slide"/></actuator>
  <sensor><jointpos name="q" joint="slide"/><jointvel name="v" joint="slide"/></sensor>
</mujoco>
"""
CART = """
<mujoco>
  <option timestep="0.002"/>
  <worldbody><body name="cart"><inertial pos="0 0 0" mass="2" diaginertia=".001 .001 .001"/>
    <joint name="slide" type="slide" axis="1 0 0"/></body></worldbody>
  <actuator><motor name="push" joint="slide" gear="3"/></actuator>
  <sensor><jointpos name="q" joint="slide"/><jointvel name="v" joint="slide"/></sensor>
</mujoco>
"""
ARMATURES = (0.5, 0.4, 0.3, 0.2, 0.1)
#: Axis, length, mass, moment across and damping of each link of the tutorial's arm.
LINKS = (
    ('0 0 1', 0.1, 1.0, 0.01, 1.0),
    ('0 1 0', 0.1, 0.8, 0.008, 0.8),
    ('0 1 0', 0.1, 0.6, 0.006, 0.6),
    ('0 0 1', 0.08, 0.4, 0.004, 0.4),
    ('0 1 0', 0.06, 0.2, 0.002, 0.2),
)


def arm() -> mujoco.MjSpec:
    bodies, height = '', 0.1
    for number, (axis, length, mass, moment, damping) in enumerate(LINKS, start=1):
        bodies += f"""<body name="link{number}" pos="0 0 {height}">
          <inertial pos="0 0 {length / 2}" mass="{mass}"
            diaginertia="{moment} {moment} {moment / 2}"/>
          <joint name="j{number}" axis="{axis}" damping="{damping}"
            armature="{ARMATURES[number - 1]}"/>"""
        height = length
    motors = ''.join(f'<motor name="m{n}" joint="j{n}"/>' for n in range(1, 6))
    sensors = ''.join(f'<jointpos name="q{n}" joint="j{n}"/>' for n in range(1, 6))
    return mujoco.MjSpec.from_string(
        f"""<mujoco><option timestep="0.002" integrator="implicitfast"/>
        <worldbody>{bodies}{'</body>' * 5}</worldbody>
        <actuator>{motors}</actuator><sensor>{sensors}</sensor></mujoco>"""
    )


def torques(times: NDArray[np.float64]) -> NDArray[np.float64]:
    waves = np.outer(times, [0.5, 0.7, 0.4, 0.9, 0.6]) * 2 * np.pi + [0, 0.5, 1, 1.5, 2]
    return np.array([5, 4, 3, 2, 1]) * np.sin(waves)


class Recording(NamedTuple):
    """What a plain loop wrote down: row k of the sensors describes ``times[k]``."""

    spec: mujoco.MjSpec
    times: NDArray[np.float64]
    control: NDArray[np.float64]
    sensors: NDArray[np.float64]
    state: NDArray[np.float64]

    def sequences(self, **other: Any) -> list[sysid.ModelSequences]:
        """Return it in the toolbox's form, with series of its own where ``other`` has them."""
        model = self.spec.copy().compile()
        series = {
            'control': sysid.TimeSeries.from_control_names(self.times, self.control, model),
            'sensordata': sysid.TimeSeries.from_names(self.times, self.sensors, model),
            **other,
        }
        return [sysid.ModelSequences('model', self.spec, 'run', self.state, **series)]


def record(
    spec: mujoco.MjSpec,
    *,
    duration: float = 2.0,
    command: Callable[[NDArray[np.float64]], NDArray[np.float64]] = torques,
) -> Recording:
    model = spec.copy().compile()
    data = mujoco.MjData(model)
    times = model.opt.timestep * np.arange(round(duration / model.opt.timestep))
    control, rows = command(times), []
    state = sysid.create_initial_state(model, data.qpos, data.qvel, data.act)
    for row in control:
        data.ctrl[:] = row
        mujoco.mj_step(model, data)  # evaluates the sensors before it integrates
        rows.append(data.sensordata.copy())
    return Recording(spec, times, control, np.array(rows), state)


def push(times: NDArray[np.float64]) -> NDArray[np.float64]:
    force = 5 * np.sin(2 * np.pi * 1.5 * times) + 3 * np.sin(2 * np.pi * 3.7 * times)
    return force[:, None]


def set_mass(spec: mujoco.MjSpec, parameter: sysid.Parameter) -> None:
    spec.body('cart').mass = parameter.value[0]


def set_gear(spec: mujoco.MjSpec, parameter: sysid.Parameter) -> None:
    spec.actuator('push').gear[0] = parameter.value[0]


def mass(start: float = 2.0) -> sysid.ParameterDict:
    params = sysid.ParameterDict()
    params.add(sysid.Parameter('mass', start, 0.3, 3.0, modifier=set_mass))
    return params


def armatures(start: float | NDArray[np.float64] = 0.25) -> sysid.ParameterDict:
    def setter(joint: str) -> Any:
        return lambda spec, p: setattr(spec.joint(joint), 'armature', p.value[0])

    params = sysid.ParameterDict()
    for number, value in enumerate(np.broadcast_to(start, 5), start=1):
        name = f'j{number}'
        params.add(sysid.Parameter(name, float(value), 0.01, 0.6, modifier=setter(name)))
    return params


def fitted(
    params: sysid.ParameterDict, groups: list[sysid.ModelSequences], **options: Any
) -> NDArray[np.float64]:
    fn = sysid.build_residual_fn(models_sequences=groups, **options)
    found, _ = sysid.optimize(params, fn, verbose=False)
    return found.as_vector()


@pytest.fixture(scope='module')
def arm_recording() -> Recording:
    return record(arm())


@pytest.fixture(scope='module')
def cart_recording() -> Recording:
    return record(mujoco.MjSpec.from_string(SPRING_MASS), command=push)


def tutorial() -> list[sysid.ModelSequences]:
    """Return the tutorial's spring and mass, with ``mujoco.rollout``'s state times as stamps."""
    spec = mujoco.MjSpec.from_string(SPRING_MASS)
    model = spec.copy().compile()
    data = mujoco.MjData(model)
    times = 0.002 * np.arange(1500)
    control = sysid.TimeSeries.from_control_names(times, push(times), model)
    start = sysid.create_initial_state(model, data.qpos, data.qvel, data.act)
    states, sensors = mujoco.rollout.rollout(model, data, start, control.data[:-1])
    measured = sysid.TimeSeries.from_names(states[0, :, 0], sensors[0], model)
    return [sysid.ModelSequences('spring_mass', spec, 'run', start, control, measured)]


@pytest.mark.slow
def test_the_tutorials_stamps_are_understood_unsaid_and_told_once() -> None:
    fn = sysid.build_residual_fn(models_sequences=tutorial())
    with pytest.warns(sysid.StampWarning, match='times of the states of mujoco.rollout') as told:
        found, result = sysid.optimize(mass(), fn, verbose=False)
    assert found['mass'].value[0] == pytest.approx(1.0, rel=1e-6)
    assert (len(told), result.sensor_stamps) == (1, 'rollout')
    assert not result.shift.significant
    assert [step.number for step in result.trace] == list(range(result.nit))
    assert len(fn(result.x, found)[2][0][0]) == 1499  # also what its time is beyond the controls
    with warnings.catch_warnings():
        warnings.simplefilter('error')
        sysid.optimize(mass(), fn, verbose=False)


def passed_on(**given: Any) -> list[sysid.SystemTrajectory]:
    """Simulate as a user's own ``custom_rollout``."""
    given.pop('param_dicts')
    return sysid.sysid_rollout(**given)


@pytest.mark.slow
@pytest.mark.parametrize('late', [0.0, 0.003])
@pytest.mark.parametrize('options', [{}, {'custom_rollout': passed_on}])
def test_noisy_stamps_are_those_that_cost_less_at_their_own_optimum(
    options: dict[str, Any], late: float
) -> None:
    (group,), params, random = tutorial(), mass(), np.random.default_rng(3)
    series = group.sensordata[0]
    data = series.interpolate(series.times - late) if late else series.data.copy()
    data[:, 0] = series.data[:, 0]
    noisy = sysid.TimeSeries(
        series.times, data + [1e-3, 1e-2] * random.normal(size=data.shape), series.signal_mapping
    )
    if late:
        params.add(sysid.Parameter('late', 0.001, 0.0, 0.01))
        transform = sysid.SignalTransform()
        transform.delay('v', params['late'])
        options = {**options, 'signal_transform': transform}
    noisy_group = sysid.ModelSequences(
        'm', group.spec, 'run', group.initial_state[0], group.control, noisy
    )
    fn = sysid.build_residual_fn(models_sequences=[noisy_group], **options)
    with pytest.warns(sysid.StampWarning, match='one time step after'):
        found, result = sysid.optimize(params, fn, verbose=False)
    assert result.sensor_stamps == fn.options.sensor_stamps == 'rollout'
    assert found['mass'].value[0] == pytest.approx(1.0, abs=2e-3)
    if late:
        assert found['late'].value[0] == pytest.approx(late, abs=5e-4)


@pytest.mark.parametrize(('stamps', 'every'), [('auto', 1), ('auto', 5), ('rollout', 1)])
def test_residuals_take_a_rollouts_stamps_for_such_before_any_fit(stamps: str, every: int) -> None:
    """So a function around them, or a solver of the user's own, has them right, too."""
    (group,) = tutorial()
    measured = group.sensordata[0].rows(slice(None, None, every))
    group = sysid.ModelSequences('m', group.spec, 'r', group.initial_state, group.control, measured)
    fn = sysid.build_residual_fn(models_sequences=[group], sensor_stamps=stamps)
    assert np.max(np.abs(fn(np.array([1.0]), mass())[0][0])) < 1e-6
    with warnings.catch_warnings():
        warnings.simplefilter('ignore' if stamps == 'auto' else 'error')
        assert sysid.optimize(mass(), fn, verbose=False)[1].x == pytest.approx([1.0], rel=1e-6)


@pytest.mark.parametrize('noise', [0.0, 1e-3])
def test_a_delay_that_makes_up_for_a_step_leaves_a_rollouts_stamps_such(noise: float) -> None:
    (group,), params, late = tutorial(), mass(), 3
    series = group.sensordata[0]
    data = np.concatenate([np.repeat(series.data[:1], late, axis=0), series.data[:-late]])
    data += noise * np.random.default_rng(3).normal(size=data.shape)
    delayed = sysid.TimeSeries(series.times, data, series.signal_mapping)
    group = sysid.ModelSequences(
        'm', group.spec, 'run', group.initial_state[0], group.control, delayed
    )
    params.add(sysid.Parameter('late', 0.001, 0.0, 0.02))
    transform = sysid.SignalTransform()
    transform.delay('*', params['late'])
    fn = sysid.build_residual_fn(models_sequences=[group], modify_residual=transform.apply)
    with pytest.warns(sysid.StampWarning, match='no worse'):
        found, _ = sysid.optimize(params, fn, verbose=False)
    np.testing.assert_allclose(found.as_vector(), [1.0, late * 0.002], rtol=1e-2)


def test_windows_from_noisy_states_raise_no_alarm() -> None:
    _, times, control, exact, _ = record(mujoco.MjSpec.from_string(CART), command=push)
    sensors = exact + 1e-3 * np.random.default_rng(12).normal(size=exact.shape)
    spec = mujoco.MjSpec.from_string(CART)
    model = spec.copy().compile()
    rows = [slice(begin, begin + 200) for begin in range(0, 1000, 200)]
    group = sysid.ModelSequences(
        'cart',
        spec,
        [f'from {own.start}' for own in rows],
        [sysid.create_initial_state(model, *sensors[own.start, :, None]) for own in rows],
        [sysid.TimeSeries(times[own], control[own]) for own in rows],
        [sysid.TimeSeries.from_names(times[own], sensors[own], model) for own in rows],
    )
    with warnings.catch_warnings():
        warnings.simplefilter('error')
        assert fitted(mass(), [group]) == pytest.approx([2.0], rel=1e-2)


@pytest.mark.parametrize('target', ['both', 'measured', 'predicted'])
def test_a_gain_on_right_data_stays_where_it_is_right(
    cart_recording: Recording, target: Any
) -> None:
    params = sysid.ParameterDict()
    params.add(sysid.Parameter('gain', 1.1, 0.2, 3.0))
    transform = sysid.SignalTransform()
    transform.gain('*', params['gain'], target=target)
    groups = cart_recording.sequences()
    fn = sysid.build_residual_fn(models_sequences=groups, modify_residual=transform.apply)
    if target == 'both':  # it changes nothing
        residuals = fn(np.array([[0.5, 2.0]]), params)[0][0]
        np.testing.assert_array_equal(residuals[:, 0], residuals[:, 1])
        return
    found, _ = sysid.optimize(params, fn, verbose=False)
    assert found['gain'].value[0] == pytest.approx(1.0, rel=1e-4)


def test_stamps_that_a_rollout_might_have_are_taken_as_they_are_where_they_fit() -> None:
    """A loop that evaluates the sensors after each step has the same times, and they are right."""
    plain = record(mujoco.MjSpec.from_string(SPRING_MASS), command=push)
    model = plain.spec.copy().compile()
    after = sysid.TimeSeries.from_names(plain.times[1:], plain.sensors[1:], model)
    groups = plain.sequences(sensordata=after)
    with warnings.catch_warnings():
        warnings.simplefilter('error')
        assert fitted(mass(), groups) == pytest.approx([1.0], rel=1e-6)


@pytest.mark.slow
def test_the_tutorials_stamps_are_warned_of_with_their_shift() -> None:
    fn = sysid.build_residual_fn(models_sequences=tutorial(), sensor_stamps='measured')
    with pytest.warns(sysid.StampWarning, match=r'-2\.0\d ms \(-1 time steps'):
        found, result = sysid.optimize(mass(), fn, verbose=False)
    assert found['mass'].value[0] == pytest.approx(1.01, abs=0.005)
    assert result.shift.significant


@pytest.mark.slow
@pytest.mark.parametrize('rate', [50.0, 20.0])
def test_commands_hold_until_the_next(rate: float) -> None:
    """A plant keeps a command; it does not know the next one."""

    def stairs(times: NDArray[np.float64]) -> NDArray[np.float64]:
        return torques(np.floor(times * rate + 1e-9) / rate)

    plain = record(arm(), command=stairs)
    model = plain.spec.copy().compile()
    every = round(1 / (rate * 0.002))
    coarse = sysid.TimeSeries.from_control_names(
        plain.times[::every], plain.control[::every], model
    )
    inside = plain.times <= coarse.times[-1]
    measured = sysid.TimeSeries.from_names(plain.times[inside], plain.sensors[inside], model)
    groups = plain.sequences(control=coarse, sensordata=measured)
    assert fitted(armatures(), groups) == pytest.approx(ARMATURES, rel=1e-6)


@pytest.mark.slow
def test_sensors_and_controls_are_paired_by_name(arm_recording: Recording) -> None:
    model = arm_recording.spec.copy().compile()
    order = [3, 0, 4, 2, 1]
    _, times, control, sensors, _ = arm_recording
    joints, motors = ([f'{letter}{k + 1}' for k in order] for letter in 'qm')
    groups = arm_recording.sequences(
        sensordata=sysid.TimeSeries.from_names(times, sensors[:, order], model, joints),
        control=sysid.TimeSeries.from_control_names(times, control[:, order], model, motors),
    )
    assert fitted(armatures(), groups) == pytest.approx(ARMATURES, rel=1e-6)


@pytest.mark.parametrize('damage', ['one NaN', 'dead', 'constant'])
def test_a_damaged_channel_costs_only_itself(cart_recording: Recording, damage: str) -> None:
    sensors = cart_recording.sensors.copy()
    if damage == 'one NaN':
        sensors[400, 0] = np.nan
    else:
        sensors[:, 0] = 0.0 if damage == 'dead' else 0.123
    groups = cart_recording._replace(sensors=sensors).sequences()
    fn = sysid.build_residual_fn(models_sequences=groups)
    found, result = sysid.optimize(mass(), fn, verbose=False)
    assert found.as_vector() == pytest.approx([1.0], rel=1e-6)
    assert result.success
    assert result.dead == (() if damage == 'one NaN' else ('q',))


def wrong(recording: Recording) -> NDArray[np.float64]:
    """Return residuals of a mass that is wrong, one column per sensor."""
    fn = sysid.build_residual_fn(models_sequences=recording.sequences())
    found: NDArray[np.float64] = fn(np.array([1.3]), mass())[0][0].reshape(-1, 2)
    return found


def test_an_offset_does_not_change_the_weight_of_a_channel(cart_recording: Recording) -> None:
    """The model knows the offset: what is left to explain is the same, and counts the same."""
    params = mass()
    params.add(sysid.Parameter('offset', 50.0, 0.0, 100.0, frozen=True))
    transform = sysid.SignalTransform()
    transform.bias('q', params['offset'], target='predicted')
    shifted = cart_recording._replace(sensors=cart_recording.sensors + np.array([50.0, 0.0]))
    fn = sysid.build_residual_fn(
        models_sequences=shifted.sequences(), modify_residual=transform.apply
    )
    found = fn(np.array([1.3]), params)[0][0].reshape(-1, 2)
    plain = wrong(cart_recording)
    np.testing.assert_allclose(found, plain[-len(found) :], rtol=1e-6, atol=1e-6)


def test_a_long_silence_does_not_change_the_weights_of_the_rest() -> None:
    """Errors of the motion count for the same, however long the robot rests afterwards."""

    def first_second(times: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.where(times[:, None] < 1.0, push(times), 0.0)

    spec = mujoco.MjSpec.from_string(SPRING_MASS)
    columns = []
    for duration in (2.0, 6.0):
        plain = record(spec, duration=duration, command=first_second)
        noise = np.random.default_rng(0).standard_normal((3000, 2))[: len(plain.sensors)]
        noisy = plain._replace(sensors=plain.sensors + np.array([1e-4, 1e-3]) * noise)
        columns.append(np.sqrt(np.mean(wrong(noisy)[:500] ** 2, axis=0)))
    np.testing.assert_allclose(columns[1], columns[0], rtol=0.1)


#: With an explicit integrator, more damping than 2 m / dt throws the simulation out.
STIFF = SPRING_MASS.replace(
    '<option timestep="0.002"/>', '<option timestep="0.02"><flag eulerdamp="disable"/></option>'
)


def set_damping(spec: mujoco.MjSpec, parameter: sysid.Parameter) -> None:
    spec.joint('slide').damping[0] = parameter.value[0]


@pytest.mark.parametrize('optimizer', ['mujoco', 'scipy'])
def test_a_fit_survives_candidates_that_diverge(optimizer: str) -> None:
    spec = mujoco.MjSpec.from_string(STIFF)
    recording = record(spec, command=push)
    params = sysid.ParameterDict()
    params.add(sysid.Parameter('damping', 95.0, 0.1, 1000.0, modifier=set_damping))
    fn = sysid.build_residual_fn(models_sequences=recording.sequences())
    both = fn(np.array([[5.0, 900.0]]), params)[0][0]
    assert np.all(np.isfinite(both))
    assert np.sum(both[:, 1] ** 2) > np.sum(both[:, 0] ** 2) + 1e4
    found, result = sysid.optimize(params, fn, optimizer=optimizer, verbose=False)
    assert found['damping'].value[0] == pytest.approx(5.0, rel=1e-6)
    assert result.diverged >= 1


@pytest.mark.slow
@pytest.mark.parametrize('kind', ['Mass', 'MassIpos', 'Pseudo'])
@pytest.mark.parametrize('given', [True, False])
def test_every_kind_of_inertia_is_fitted_with_its_own_modifier(kind: str, *, given: bool) -> None:
    shape = (
        '<inertial pos=".02 .01 .1" mass="1" diaginertia=".02 .025 .01"/>'
        if given
        else '<geom type="box" size=".05 .04 .1" pos=".02 .01 .1" mass="1" contype="0"/>'
    )
    xml = f"""<mujoco><option timestep="0.002"/><worldbody><body name="b">
      <joint name="x" axis="1 0 0" damping=".1"/><joint name="y" axis="0 1 0" damping=".1"/>
      <joint name="z" axis="0 0 1" damping=".1"/>{shape}</body></worldbody>
      <actuator><motor name="mx" joint="x"/><motor name="my" joint="y"/>
      <motor name="mz" joint="z"/></actuator><sensor><jointpos name="qx" joint="x"/>
      <jointpos name="qy" joint="y"/><jointpos name="qz" joint="z"/></sensor></mujoco>"""

    def command(times: NDArray[np.float64]) -> NDArray[np.float64]:
        return 0.2 * np.sin(np.outer(times, [5, 7, 11]))

    spec = mujoco.MjSpec.from_string(xml)
    plant = record(spec, duration=1.0, command=command)
    model = spec.copy().compile()
    params = sysid.ParameterDict()
    params.add(sysid.body_inertia_param(spec, model, 'b', getattr(sysid.InertiaType, kind)))
    truth = params.as_vector()
    low, high = params.get_bounds()
    away = np.random.default_rng(0).uniform(-0.05, 0.05, len(truth))
    params.update_from_vector(np.clip(truth + away * np.maximum(np.abs(truth), 0.2), low, high))
    fn = sysid.build_residual_fn(models_sequences=plant.sequences())
    found, result = sysid.optimize(params, fn, verbose=False)
    before, after = (np.linalg.norm(fn(p.as_vector(), p)[0][0]) for p in (params, found))
    assert after < 1e-5 * before
    if kind != 'Pseudo':  # of which three joints do not see every component
        np.testing.assert_allclose(found.as_vector(), truth, rtol=1e-4, atol=1e-5)
    assert result.success


@pytest.mark.slow
def test_nothing_changes_the_users_spec(tmp_path: Path) -> None:
    recording = record(mujoco.MjSpec.from_string(SPRING_MASS), duration=0.5, command=push)
    before = recording.spec.to_xml()
    groups, params = recording.sequences(), mass()
    fn = sysid.build_residual_fn(models_sequences=groups)
    found, result = sysid.optimize(params, fn, verbose=False)
    sysid.save_results(tmp_path, groups, params, found, result, fn)
    sysid.default_report(groups, params, found, fn, result, generate_videos=False)
    assert recording.spec.to_xml() == before


@pytest.mark.parametrize('optimizer', ['mujoco', 'scipy', 'scipy_parallel_fd'])
def test_silence_is_silence(
    cart_recording: Recording, capfd: pytest.CaptureFixture[str], optimizer: str
) -> None:
    fn = sysid.build_residual_fn(models_sequences=cart_recording.sequences())
    _, result = sysid.optimize(mass(), fn, optimizer=optimizer, verbose=False)
    assert capfd.readouterr() == ('', '')
    assert {'status', 'message', 'cost', 'nfev', 'success', 'jac', 'grad'} <= set(result)


def test_a_parameter_without_effect_keeps_its_value_and_others_are_found(
    cart_recording: Recording,
) -> None:
    params = mass()
    params.add(sysid.Parameter('idle', 1.0, 0.5, 2.0, modifier=lambda _, __: None))
    assert fitted(params, cart_recording.sequences()) == pytest.approx([1.0, 1.0], rel=1e-6)


def mass_and_gear() -> sysid.ParameterDict:
    """Return what only has a ratio, from a start that has the right one."""
    params = sysid.ParameterDict()
    params.add(sysid.Parameter('mass', 3.5, 0.5, 5.0, modifier=set_mass))
    params.add(sysid.Parameter('gear', 5.25, 0.5, 8.0, modifier=set_gear))
    return params


def verdicts(groups: list[sysid.ModelSequences]) -> dict[str, tuple[float, str]]:
    """Return value and verdict of mass and gear, as the report shows them."""
    params = mass_and_gear()
    fn = sysid.build_residual_fn(models_sequences=groups)
    found, result = sysid.optimize(params, fn, verbose=False)
    report = sysid.default_report(groups, params, found, fn, result, generate_videos=False)
    return {p.name: (p.value, p.verdict) for p in report.result.parameters}


@pytest.mark.slow
def test_a_combination_that_cannot_be_told_apart_is_named_until_a_payload_tells_it() -> None:
    alone = record(mujoco.MjSpec.from_string(CART), duration=0.6, command=push)
    found = verdicts(alone.sequences())
    assert found['gear'][0] / found['mass'][0] == pytest.approx(1.5, rel=1e-6)
    assert found['mass'][1] == 'confounded with gear'
    assert found['gear'][1] == 'confounded with mass'
    spec = mujoco.MjSpec.from_string(CART)
    load = spec.body('cart').add_body(name='load', mass=1.0, inertia=[1e-3] * 3)
    load.explicitinertial = True
    loaded = record(spec, duration=0.6, command=push)
    (second,) = loaded.sequences()
    second.name = 'loaded'
    both = verdicts([*alone.sequences(), second])
    assert both['mass'] == (pytest.approx(2.0, rel=1e-6), 'identified')
    assert both['gear'] == (pytest.approx(3.0, rel=1e-6), 'identified')


@pytest.mark.slow
@pytest.mark.parametrize('seed', range(3))
def test_random_starts_all_end_at_the_truth(arm_recording: Recording, seed: int) -> None:
    start = np.random.default_rng(seed).uniform(0.01, 0.6, 5)
    found = fitted(armatures(start), arm_recording.sequences())
    assert found == pytest.approx(ARMATURES, rel=1e-6)


@pytest.mark.slow
@pytest.mark.filterwarnings('ignore::sysid_ros.toolbox.StampWarning')
@pytest.mark.parametrize('starts', [1, 16])
def test_a_far_start_does_not_end_in_a_false_valley(starts: int) -> None:
    """A long oscillation of another frequency fits best where it is out of phase the least."""

    def write(spec: mujoco.MjSpec, parameter: sysid.Parameter) -> None:
        spec.joint('slide').stiffness[0] = parameter.value[0]

    def kick(times: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.where(times[:, None] < 0.1, 5.0, 0.0)

    spec = mujoco.MjSpec.from_string(SPRING_MASS.replace('damping="5"', 'damping=".2"'))
    params = sysid.ParameterDict()
    params.add(sysid.Parameter('stiffness', 400.0, 5.0, 500.0, modifier=write))
    recording = record(spec, duration=2.0, command=kick)
    fn = sysid.build_residual_fn(models_sequences=recording.sequences())
    found, _ = sysid.optimize(params, fn, verbose=False, starts=starts)
    assert found['stiffness'].value[0] == pytest.approx(100.0, rel=1e-6)
