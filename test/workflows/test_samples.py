# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Models that are drawn from a posterior: as wide as it, and physical."""

from __future__ import annotations

import csv
import itertools
from pathlib import Path

import mujoco
import numpy as np
import pytest
import scipy.stats
from numpy.typing import NDArray

from builders.stored_results import Found, store
from sysid_ros.errors import ResultError
from sysid_ros.model.inertia import Inertial, full_inertia, theta_from_body
from sysid_ros.model.loading import load_model
from sysid_ros.workflows.export import Exported, ExportFormat, export
from sysid_ros.workflows.stored import Posterior, load_stored

Array = NDArray[np.float64]

PENDULUM = Path(__file__).parents[1] / 'data' / 'pendulum' / 'arm.xml'
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
def test_the_table_has_what_was_drawn_and_notes_say_what_stays(tmp_path: Path) -> None:
    result = store(tmp_path, PENDULUM, FOUND, correlation=CORRELATION)

    done = sampled(result, tmp_path / 'out', 3)

    assert any('joint/shoulder/frictionloss' in note for note in done.notes)
    with (tmp_path / 'out' / 'samples.csv').open(encoding='utf-8') as file:
        for row in csv.DictReader(file):
            model = load_model(tmp_path / 'out' / row['file'])
            assert model.body('tip').mass[0] == float(row['body/tip/mass'])


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
