# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What is exported of a result: URDF, numbers of drives, and models drawn from its intervals."""

from __future__ import annotations

import csv
import importlib.util
import itertools
import re
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from pathlib import Path

import mujoco
import numpy as np
import pytest
import scipy.stats
import yaml
from numpy.typing import NDArray

from builders.stored_results import Found, store
from builders.written_models import difference
from sysid_ros.errors import ModelError, ResultError
from sysid_ros.model.inertia import Inertial, full_inertia, theta_from_body
from sysid_ros.model.loading import load_model
from sysid_ros.vocabulary import Quantity
from sysid_ros.workflows.export import KEYS, Exported, ExportFormat, drives_of, export
from sysid_ros.workflows.stored import Posterior, load_stored

Array = NDArray[np.float64]

DATA = Path(__file__).parents[1] / 'data' / 'urdf'
PENDULUM = Path(__file__).parents[1] / 'data' / 'pendulum' / 'arm.xml'
#: What URDF holds of the robot with fixed links.
HELD = {
    'body/arm/mass': 1.75,
    'body/arm/ipos[1]': 0.05,
    'body/tool/inertia[1]': -2.0,
    'joint/lift/damping': 0.7,
    'joint/lift/frictionloss': 0.05,
    'joint/roll/damping': 0.02,
    'body/tcp/mass': 0.2,
    'body/tcp/ipos[2]': 0.1,
    'body/camera/pos[0]': 0.3,
    # A third of a turn.
    **{f'body/camera/quat[{i}]': v * 2 * np.pi / 27**0.5 for i, v in enumerate((1, -1, 1))},
}


def exported(
    folder: Path,
    model: Path,
    found: Mapping[str, float],
    *,
    urdf: Path | None = None,
    servos: tuple[str, ...] = (),
) -> Exported:
    """Store a result and export it as a URDF."""
    result = store(folder, model, dict(found), servos=servos)
    return export(result, ExportFormat.URDF, folder / 'robot.urdf', urdf=urdf)


def natively(path: Path) -> mujoco.MjModel:
    """Return what MuJoCo itself makes of a URDF."""
    return mujoco.MjModel.from_xml_path(str(path))


def motion(model: mujoco.MjModel) -> Array:
    """Return (n, joints) positions while a robot falls from a bent pose, actuators doing nothing.

    Joints are in the order of their names; the time step and the integrator are always the same.
    """
    model.opt.timestep = 1e-3
    model.opt.integrator = mujoco.mjtIntegrator.mjINT_RK4
    model.actuator_gainprm[:] = model.actuator_biasprm[:] = 0
    names = sorted(model.joint(row).name for row in range(model.njnt))
    places = [model.joint(name).qposadr[0] for name in names]
    data = mujoco.MjData(model)
    data.qpos[places] = np.linspace(0.6, -0.4, len(places))
    rows = []
    for _ in range(500):
        mujoco.mj_step(model, data)
        rows.append(data.qpos[places].copy())
    return np.array(rows)


def test_mujoco_simulates_the_exported_urdf_like_the_identified_model(tmp_path: Path) -> None:
    before = motion(natively(DATA / 'fixed.urdf'))
    exported(tmp_path, DATA / 'fixed.urdf', HELD)
    identified = motion(load_stored(tmp_path).fitted)
    assert np.abs(before - identified).max() > 0.1
    assert motion(natively(tmp_path / 'robot.urdf')) == pytest.approx(identified, abs=1e-7)
    assert motion(load_model(tmp_path / 'robot.urdf')) == pytest.approx(identified, abs=1e-9)


def test_only_numbers_of_the_text_change_and_what_is_lost_is_said_in_front(tmp_path: Path) -> None:
    source = (DATA / 'mimic.urdf').read_text().replace('name="elbow"', 'name="el--bow---"')
    source = source.replace('<!-- A gripper', '<!-- <robot name="old"> was a gripper')
    model = tmp_path / 'source.urdf'
    model.write_text(source)
    found = {
        'body/upper/mass': 1.4,
        'joint/el--bow---/damping': 0.2,
        'joint/el--bow---/armature': 0.03,
    }
    exported(tmp_path, model, found, servos=('el--bow---_servo',))
    text = (tmp_path / 'robot.urdf').read_text()
    assert ET.fromstring(text.encode()).tag == 'robot'  # noqa: S314 (written by this test)
    head = re.search(r'<!-- Identified by.*?-->\n', text, re.DOTALL)
    assert head is not None
    assert 'joint/el- -bow- - -/armature 0.03 kg·m²' in head[0]
    changed = difference(source, text.replace(head[0], ''))
    assert [line for line in changed if line[0] == '+'] == changed[1:]
    assert '<mass value="1.4"/>' in changed[1]
    assert '<dynamics damping="0.2"/>' in changed[2]


def test_meshes_that_have_to_be_beside_the_file_are_named(tmp_path: Path) -> None:
    text = (DATA / 'mimic.urdf').read_text()
    visual = '<visual><geometry><mesh filename="{}"/></geometry></visual></link>'
    model = tmp_path / 'source.urdf'
    for name in ('meshes/upper.stl', 'package://robot/lower.stl'):
        text = text.replace('</link>', visual.format(name), 1)
    model.write_text(text)
    done = exported(tmp_path, model, {'body/upper/mass': 1.4})
    assert any("beside 'source.urdf' (meshes/upper.stl)" in note for note in done.notes)


def merged_mjcf(folder: Path) -> Path:
    """Return the MJCF that MuJoCo writes for a URDF: fixed links are one body, six digits."""
    path = folder / 'merged.xml'
    spec = mujoco.MjSpec.from_file(str(DATA / 'fixed.urdf'))
    spec.compile()
    path.write_text(spec.to_xml())
    return path


def test_a_body_of_several_links_is_put_back_into_the_link_that_they_are_fixed_to(tmp_path: Path):
    model = merged_mjcf(tmp_path)
    assert {load_model(model).body(row).name for row in range(1, 3)} == {'arm', 'tool'}
    found = {'body/arm/mass': 2.6, 'body/arm/ipos[0]': 0.12, 'joint/lift/damping': 0.7}
    done = exported(tmp_path, model, found, urdf=DATA / 'fixed.urdf')
    assert done.lost == ()
    fitted, written = load_stored(tmp_path).fitted, natively(tmp_path / 'robot.urdf')
    for field in ('body_mass', 'body_ipos', 'body_inertia'):
        ours, theirs = (getattr(each, field)[each.body('arm').id] for each in (fitted, written))
        assert theirs == pytest.approx(ours, rel=1e-9)
    assert motion(written) == pytest.approx(motion(fitted), abs=1e-4)
    text = (tmp_path / 'robot.urdf').read_text()
    camera = re.search(
        r"<link name='camera'>.*?</link>", (DATA / 'fixed.urdf').read_text(), re.DOTALL
    )
    assert camera is not None
    assert camera[0] in text


def test_numbers_that_only_the_model_has_otherwise_are_written(tmp_path: Path) -> None:
    model = merged_mjcf(tmp_path)
    model.write_text(model.read_text().replace('frictionloss="0.2"', 'frictionloss="0.9"'))
    exported(tmp_path, model, {'joint/roll/damping': 0.1}, urdf=DATA / 'fixed.urdf')
    written = load_model(tmp_path / 'robot.urdf')
    assert written.dof_frictionloss[written.joint('lift').dofadr[0]] == 0.9


def test_a_link_that_would_have_less_than_nothing_is_refused(tmp_path: Path) -> None:
    model = merged_mjcf(tmp_path)
    with pytest.raises(ModelError, match=r"Link 'arm' .* \(flange, camera\) have more of it"):
        exported(tmp_path, model, {'body/arm/mass': 0.6}, urdf=DATA / 'fixed.urdf')
    assert not (tmp_path / 'robot.urdf').exists()


def test_a_place_that_is_between_other_links_in_the_urdf_is_told(tmp_path: Path) -> None:
    model = merged_mjcf(tmp_path)
    # The tool is on the flange, which is a part of the arm in the model.
    done = exported(tmp_path, model, {'body/tool/pos[2]': 0.5}, urdf=DATA / 'fixed.urdf')
    assert done.lost == ('body/tool/pos[2] 0.5 m',)


def test_an_mjcf_needs_a_urdf(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match='is no URDF; expected --urdf FILE'):
        exported(tmp_path, PENDULUM, {'body/tip/mass': 0.4})
    with pytest.raises(ModelError, match='Expected a URDF as --urdf'):
        exported(tmp_path, PENDULUM, {'body/tip/mass': 0.4}, urdf=PENDULUM)


DRIVES = """
<mujoco>
  <option timestep=".002" integrator="implicitfast"/>
  <worldbody>
    <body name="a">
      <joint name="turn" axis="0 1 0" armature=".1" damping=".3" frictionloss=".2"
             actuatorfrcrange="-12 14"/>
      <geom size=".1" pos=".2 0 0"/>
      <body name="b" pos=".4 0 0">
        <joint name="slide.2" type="slide" axis="1 0 0" damping="2"/>
        <geom size=".05"/>
        <body name="c" pos=".2 0 0">
          <joint name="3_spin" axis="1 0 0" armature=".01"/>
          <geom type="box" size=".05 .1 .02"/>
        </body>
      </body>
    </body>
  </worldbody>
  <actuator>
    <position name="servo" joint="turn" kp="20" kv="1.5" gear="2" ctrlrange="-3 3"/>
    <velocity name="cart" joint="slide.2" kv="40" forcerange="-60 60"/>
    <motor name="motor" joint="3_spin" gear="3" ctrlrange="-1 1"/>
  </actuator>
</mujoco>
"""
DRIVEN = {
    'joint/turn/armature': 0.15,
    'joint/turn/frictionloss': 0.25,
    'joint/slide.2/damping': 2.5,
    'actuator/servo/kp': 22.0,
    'actuator/servo/delay': 0.006,
    'body/b/mass': 1.2,
}


@pytest.fixture
def driven(tmp_path: Path) -> Path:
    """Return a stored driven of a robot with a servo, a velocity servo and a motor."""
    (tmp_path / 'robot.xml').write_text(DRIVES)
    return store(tmp_path, tmp_path / 'robot.xml', DRIVEN)


def test_drives_exert_what_mujoco_computes(driven: Path) -> None:
    model = load_stored(driven).fitted
    data, rng = mujoco.MjData(model), np.random.default_rng(0)
    found, notes = drives_of(model)
    drives = {drive.joint: drive for drive in found}
    model.actuator_delay[:] = 0
    for _ in range(50):
        data.qpos[:], data.qvel[:] = rng.normal(0, 0.1, 3), rng.normal(0, 0.3, 3)
        # What joints are told: a position, a velocity, an effort.
        told = rng.normal(0, 0.1, 3)
        data.ctrl[:] = told * (2, 1, 1 / 3)
        mujoco.mj_forward(model, data)
        for row, (drive, target) in enumerate(zip(found, told, strict=True)):
            q, v = data.joint(drive.joint).qpos[0], data.joint(drive.joint).qvel[0]
            expected = {
                Quantity.POSITION: drive.stiffness * (target - q) - drive.damping * v,
                Quantity.VELOCITY: drive.damping * (target - v),
                Quantity.EFFORT: target,
            }[drive.law]
            limited = np.clip(expected, -drive.effort, 14 if row == 0 else drive.effort)
            assert data.qfrc_actuator[row] == pytest.approx(limited)
    assert notes == []
    assert drives['turn'][5:] == (12, 0.006, 0.15, 0.25, 0.3)
    assert (drives['3_spin'].effort, drives['slide.2'].effort) == (3, 60)


def test_each_program_gets_the_numbers_under_its_own_keys(driven: Path) -> None:
    output = driven.parent / 'actuators.yaml'
    done = export(driven, ExportFormat.ACTUATORS, output)
    document = yaml.safe_load(output.read_text('utf-8'))
    assert document['ros2_control'] == {
        'turn': {'law': 'position', 'p': 88.0, 'd': 6.0, 'u_clamp_max': 12.0},
        'slide.2': {'law': 'velocity', 'p': 40.0, 'd': 0.0, 'u_clamp_max': 60.0},
    }
    assert document['isaaclab']['turn'] == {
        'law': 'position',
        'stiffness': 88.0,
        'damping': 6.0,
        'effort_limit_sim': 12.0,
        'armature': 0.15,
        'friction': 0.25,
        'dynamic_friction': 0.25,
        'viscous_friction': 0.3,
    }
    assert document['mjlab']['slide.2']['viscous_damping'] == 2.5
    assert document['mjlab']['turn']['delay'] == 0.006
    assert document['mjlab']['3_spin']['law'] == 'effort'
    assert done.lost == ('body/b/mass 1.2 kg',)


def test_the_keys_of_mjlab_are_those_of_its_actuators() -> None:
    found = importlib.util.find_spec('mjlab')
    if found is None:
        pytest.skip('mjlab is not installed')
    module = Path(str(found.origin)).parent / 'actuator'
    source = ''.join(path.read_text('utf-8') for path in module.glob('*.py'))
    keys = set(KEYS['mjlab']) - {'delay'}
    assert {key for key in keys if not re.search(rf'^  {key}\b.*:', source, re.MULTILINE)} == set()


def test_an_actuator_that_is_no_servo_of_one_joint_is_named(tmp_path: Path) -> None:
    text = DRIVES.replace('joint="turn" kp="20"', 'joint="turn" timeconst=".1" kp="20"')
    (tmp_path / 'robot.xml').write_text(text)
    driven = store(tmp_path, tmp_path / 'robot.xml', {'body/b/mass': 1.2})
    done = export(driven, ExportFormat.ACTUATORS, tmp_path / 'actuators.yaml')
    assert any("'servo' is left out: it is neither" in note for note in done.notes)


def test_a_robot_without_drives_is_refused(tmp_path: Path) -> None:
    text = DRIVES[: DRIVES.index('  <actuator>')] + '</mujoco>'
    (tmp_path / 'robot.xml').write_text(text)
    driven = store(tmp_path, tmp_path / 'robot.xml', {'body/b/mass': 1.2})
    with pytest.raises(ResultError, match='found none'):
        export(driven, ExportFormat.ACTUATORS, tmp_path / 'actuators.yaml')


def test_the_table_has_values_intervals_and_units(tmp_path: Path) -> None:
    (tmp_path / 'robot.xml').write_text(DRIVES)
    found = {'joint/turn/armature': Found(0.15, 0.01), 'actuator/servo/kp': 22.0}
    driven = store(tmp_path, tmp_path / 'robot.xml', found)
    done = export(driven, ExportFormat.CSV, tmp_path / 'parameters.csv')
    first, second = csv.DictReader((tmp_path / 'parameters.csv').open(encoding='utf-8'))
    assert (first['name'], first['unit'], float(first['value'])) == (
        'joint/turn/armature',
        'kg·m²',
        0.15,
    )
    assert float(first['high_95']) == pytest.approx(0.15 + 1.96 * 0.01)
    assert (second['low_95'], second['high_95']) == ('', '')
    assert done.lost == ()


#: An error of the first kind of this size: a right sampler fails so often, of all seeds.
LEVEL = 1e-3
FOUND = {
    'joint/shoulder/armature': Found(0.12, 0.004, (0.0, 1.0)),
    'joint/elbow/damping': Found(0.25, 0.01, (0.0, 10.0)),
    'body/tip/mass': Found(0.45, 0.03, (0.05, 2.0)),
    'joint/shoulder/frictionloss': Found(0.6),
}
CORRELATION = np.array(
    [[1.0, 0.8, -0.5, 0.0], [0.8, 1.0, -0.3, 0.0], [-0.5, -0.3, 1.0, 0.0], [0.0, 0.0, 0.0, 1.0]]
)


def sampled(result: Path, output: Path, count: int = 64, seed: int = 0) -> Exported:
    """Export samples."""
    return export(result, ExportFormat.MJCF, output, samples=count, seed=seed)


def p_values(samples: Array, mean: Array, covariance: Array) -> tuple[float, float]:
    """Return how likely so different a mean, and so different a covariance, are by chance.

    Of Hotelling's statistic, and the likelihood ratio of a Wishart matrix with Bartlett's factor
    (Anderson, An Introduction to Multivariate Statistical Analysis, 10.8).
    """
    count, size = samples.shape
    inverse = np.linalg.inv(covariance)
    off = samples.mean(axis=0) - mean
    of_mean = scipy.stats.chi2.sf(count * off @ inverse @ off, size)
    scaled = np.cov(samples.T) @ inverse
    free = count - 1
    ratio = free * (np.trace(scaled) - np.linalg.slogdet(scaled)[1] - size)
    ratio *= 1 - (2 * size + 1 - 2 / (size + 1)) / (6 * free)
    return float(of_mean), float(scipy.stats.chi2.sf(ratio, size * (size + 1) / 2))


@pytest.mark.slow
def test_sixty_four_models_compile_and_vary_as_the_covariance_says(tmp_path: Path) -> None:
    result = store(tmp_path, PENDULUM, FOUND, correlation=CORRELATION)
    done = sampled(result, tmp_path / 'out')
    assert done.drawn is not None
    models = [load_model(tmp_path / 'out' / name) for name in done.drawn.files]
    assert len(models) == 64
    fields = [(m.dof_armature[0], m.dof_damping[1], m.body('tip').mass[0]) for m in models]
    values = np.array(fields)
    with (tmp_path / 'out' / 'samples.csv').open(encoding='utf-8') as file:
        told = {row['file']: float(row['body/tip/mass']) for row in csv.DictReader(file)}
    assert told == dict(zip(done.drawn.files, values[:, 2], strict=True))
    assert any('joint/shoulder/frictionloss' in note for note in done.notes)
    assert {model.dof_frictionloss[0] for model in models} == {0.6}
    entries = list(FOUND.values())[:3]
    deviation = np.array([entry.deviation for entry in entries])
    mean = np.array([entry.value for entry in entries])
    covariance = CORRELATION[:3, :3] * np.outer(deviation, deviation)
    assert min(p_values(values, mean, covariance)) > LEVEL
    # The test can fail: of other covariances and means it is not.
    assert p_values(values, mean, np.diag(np.diag(covariance)))[1] < LEVEL
    assert p_values(values, mean, 2 * covariance)[1] < LEVEL
    assert p_values(values, mean + 0.5 * deviation, covariance)[0] < LEVEL


@pytest.mark.slow
def test_equal_seeds_give_equal_files_and_others_do_not(tmp_path: Path) -> None:
    result = store(tmp_path, PENDULUM, FOUND, correlation=CORRELATION)
    for name, seed in (('a', 1), ('b', 1), ('c', 2)):
        sampled(result, tmp_path / name, 2, seed)

    def file(name: str) -> bytes:
        return (tmp_path / name / 'sample_001.xml').read_bytes()

    assert file('a') == file('b') != file('c')


def test_values_beyond_bounds_are_refused_and_counted(tmp_path: Path) -> None:
    found = {'joint/elbow/damping': Found(0.0, 0.1, (0.0, 10.0))}
    of = Posterior.of(load_stored(store(tmp_path, PENDULUM, found)))
    draws = list(itertools.islice(of.draws(0), 40_000))
    values = np.array([own for own, out in draws if not out.any()])
    assert np.all(values >= 0)
    assert len(values) / len(draws) == pytest.approx(0.5, abs=0.02)
    # A half-normal has this mean.
    assert values.mean() == pytest.approx(0.1 * np.sqrt(2 / np.pi), rel=0.02)


@pytest.mark.slow
def test_models_that_mujoco_refuses_are_redrawn_and_counted(tmp_path: Path) -> None:
    # The upper end of the range is 2: every third lower end is above it.
    found = {
        'joint/elbow/range[0]': Found(1.95, 0.1),
        'joint/elbow/damping': Found(0.0, 0.1, (0.0, 10.0)),
    }
    result = store(tmp_path, PENDULUM, found)
    done = sampled(result, tmp_path / 'out', 20)
    drawn = done.drawn
    assert drawn is not None
    assert np.all(drawn.values < (2.0, np.inf))
    assert drawn.refused > 0
    assert drawn.by_parameter == {'joint/elbow/damping': drawn.beyond_bounds}
    count = 20 + drawn.refused + drawn.beyond_bounds
    assert done.notes[0].startswith(f'{count} draws: {drawn.beyond_bounds} refused and redrawn')
    assert f'{drawn.refused} that MuJoCo accepts as no model' in done.notes[0]
    assert 'Bounds cut the ranges of joint/elbow/damping' in done.notes[1]


@pytest.mark.slow
def test_inertias_of_samples_are_those_of_bodies(tmp_path: Path) -> None:
    model = mujoco.MjModel.from_xml_path(str(PENDULUM))
    theta = theta_from_body(*Inertial.of_body(model, model.body('lower').id))
    found = {
        f'body/lower/inertia[{i}]': Found(float(value), 0.4 if i < 4 else 0.05, (-50.0, 50.0))
        for i, value in enumerate(theta)
    }
    result = store(tmp_path, PENDULUM, found)
    done = sampled(result, tmp_path / 'out', 8)
    assert done.drawn is not None
    for name in done.drawn.files:
        body = Inertial.of_body(load_model(tmp_path / 'out' / name), 2)
        rotational = full_inertia(body.iquat, body.inertia)
        second = 0.5 * np.trace(rotational) * np.eye(3) - rotational
        assert body.mass > 0
        assert np.linalg.eigvalsh(second)[0] > 0
    masses = {load_model(tmp_path / 'out' / n).body('lower').mass[0] for n in done.drawn.files}
    assert len(masses) == 8


@pytest.mark.slow
def test_a_sample_is_one_file_whatever_the_model_includes(tmp_path: Path) -> None:
    robot = tmp_path / 'robot'
    (robot / 'parts').mkdir(parents=True)
    text = PENDULUM.read_text()
    start, end = text.index('  <worldbody>'), text.index('  <actuator>')
    (robot / 'parts' / 'links.xml').write_text(f'<mujoco>\n{text[start:end]}</mujoco>\n')
    main = robot / 'arm.xml'
    main.write_text(text[:start] + '  <include file="parts/links.xml"/>\n' + text[end:])
    result = store(tmp_path, main, FOUND, correlation=CORRELATION)
    done = sampled(result, tmp_path / 'out', 2)
    names = sorted(
        str(path.relative_to(tmp_path / 'out')) for path in (tmp_path / 'out').rglob('*.xml')
    )
    assert names == ['arm.xml', 'parts/links.xml', 'sample_000.xml', 'sample_001.xml']
    assert done.drawn is not None
    for name, values in zip(done.drawn.files, done.drawn.values, strict=True):
        assert load_model(tmp_path / 'out' / name).body('tip').mass[0] == values[2]


def test_a_result_without_intervals_is_refused(tmp_path: Path) -> None:
    result = store(tmp_path, PENDULUM, {'body/tip/mass': Found(0.45)})
    with pytest.raises(ResultError, match='has an interval to draw from'):
        sampled(result, tmp_path / 'out')
    assert not (tmp_path / 'out').exists()


def test_bounds_that_leave_nothing_end_with_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr('sysid_ros.workflows.stored._MOST_DRAWS', 10)
    result = store(tmp_path, PENDULUM, {'body/tip/mass': Found(0.45, 0.01, (5.0, 6.0))})
    with pytest.raises(ResultError, match='Expected 64 samples, found 0 in 641 draws'):
        sampled(result, tmp_path / 'out')
    assert sorted(path.name for path in tmp_path.iterdir()) == ['result.json']
