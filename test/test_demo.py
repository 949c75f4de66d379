# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The demo closes the loop, and says so in one line when it cannot."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mujoco
import numpy as np
import pytest

from builders import bare_results
from builders.plant_bags import record
from sysid_ros import demo
from sysid_ros.config.files import load_calibration
from sysid_ros.plant import Noise, Plant, load_truth
from sysid_ros.results.result import CalibrationResult, InferenceSummary
from sysid_ros.workflows.calibrate import identify

REPOSITORY = Path(__file__).resolve().parent.parent
ASSETS = REPOSITORY / 'config' / 'demo'
PENDULUM = REPOSITORY / 'test' / 'data' / 'pendulum'
#: Longest wait for the whole demo, s. Reached only when a test fails.
TIMEOUT = 1800.0


@pytest.fixture
def run_demo(ros_env: dict[str, str]) -> Callable[..., Any]:
    """Return a function that runs the demo with arguments to its end."""

    def run(*arguments: object) -> Any:
        command = [sys.executable, '-m', 'sysid_ros.demo', *map(str, arguments)]
        pipe = subprocess.PIPE
        with subprocess.Popen(
            command,
            env=ros_env,
            cwd=REPOSITORY,
            stdout=pipe,
            stderr=pipe,
            text=True,
            start_new_session=True,
        ) as process:
            try:
                out, err = process.communicate(timeout=TIMEOUT)
            except subprocess.TimeoutExpired:
                # With its nodes, which would go on for ever.
                os.killpg(process.pid, signal.SIGKILL)
                raise
        return subprocess.CompletedProcess(command, process.returncode, out, err)

    return run


@pytest.fixture
def pendulum(tmp_path: Path) -> Path:
    """Return assets of a smaller robot than the demo's own: fits of 8 parameters, not of 20."""
    folder = tmp_path / 'assets'
    folder.mkdir()
    for name in ('arm.xml', 'truth.yaml'):
        shutil.copy(PENDULUM / name, folder)
    config = (PENDULUM / 'calibration.yaml').read_text('utf-8')
    config = config.replace('path: train,', 'path: bags/train_*,')
    config = config.replace('path: validate,', 'path: bags/validate_1,')
    (folder / 'calibration.yaml').write_text(config, 'utf-8')
    return folder


@pytest.mark.ros
def test_the_demo_records_calibrates_and_refits(
    run_demo: Callable[..., Any], tmp_path: Path, pendulum: Path
):
    done = run_demo('--duration', 3, '--folder', tmp_path, '--assets', pendulum)

    assert (done.returncode, done.stderr) == (0, ''), done.stdout
    bags = {path.name for path in (tmp_path / 'bags').iterdir()}
    assert bags == {'train_1', 'train_2', 'validate_1'}
    for name in ('result.json', 'report.html', 'mjcf/arm.xml'):
        assert (tmp_path / 'out' / 'current' / name).stat().st_size > 1000, name
    result = CalibrationResult.load(tmp_path / 'out' / 'current' / 'result.json')
    assert result.accepted
    assert len(result.parameters) == 8
    # The table has a line per parameter, with the truth that only the demo knows.
    for parameter in result.parameters:
        assert re.search(rf'^\W*{re.escape(parameter.name)}\W', done.stdout, re.MULTILINE)
    before, after = re.findall(r'positions ([\d.]+) → ([\d.]+) mrad', done.stdout)[0]
    assert float(before) >= 5 * float(after)
    # The same over the service.
    assert 'idle: the last refit: 8 of 8 parameters identified. accepted' in done.stdout
    for parameter in result.parameters:
        assert f'/calibrator/parameters {parameter.name}: ' in done.stdout
    again = CalibrationResult.load(tmp_path / 'refit' / 'current' / 'result.json')
    assert again.provenance.command.startswith('sysid calibrate ')
    assert [p.value for p in again.parameters] == [p.value for p in result.parameters]


@pytest.mark.ros
def test_a_recorder_that_dies_ends_the_demo_with_2_and_the_reason(
    run_demo: Callable[..., Any], tmp_path: Path
):
    (tmp_path / 'bags').write_text('not a folder')

    done = run_demo('--duration', 600, '--folder', tmp_path)

    said = "demo: The recorder ended without 'recording /clock, '; its lines say why.\n"
    assert (done.returncode, done.stderr) == (2, said), done.stdout
    assert re.search(r'\[recorder\] recorder: .*bags', done.stdout)
    assert 'Traceback' not in done.stdout
    assert not (tmp_path / 'out').exists()


def test_missing_assets_are_one_sentence_and_ctrl_c_is_no_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    assert demo.main(['--assets', str(tmp_path), '--folder', str(tmp_path / 'new')]) == 2
    said = f"demo: Expected arm.xml in the folder '{tmp_path}' of --assets, found none.\n"
    assert capsys.readouterr().err == said
    assert not (tmp_path / 'new').exists()

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(demo, 'run', interrupt)
    assert demo.main([]) == 130
    assert capsys.readouterr().err == ''


def test_the_truth_of_a_parameter_is_found_by_its_target(tmp_path: Path):
    truth = tmp_path / 'truth.yaml'
    truth.write_text('joint/elbow/damping: 7.0\nactuator/*/delay: 0.008\n')
    parameters = [
        SimpleNamespace(name='elbow', targets=('joint/elbow/damping',)),
        SimpleNamespace(name='delay', targets=('actuator/a/delay', 'actuator/b/delay')),
        SimpleNamespace(name='other', targets=('joint/wrist/damping',)),
    ]

    found = demo.true_values(truth, SimpleNamespace(parameters=parameters))

    assert found == {'elbow': 7.0, 'delay': 0.008}


def test_errors_are_judged_together_by_their_covariance():
    """Off by two of each's standard errors the way that they are correlated: χ² is far below 8."""
    parameters = tuple(bare_results.parameter(n, v, 1.96) for n, v in (('a', 1.0), ('b', 5.0)))
    matrix = ((1.0, -0.9), (-0.9, 1.0))
    summary = InferenceSummary(
        method='', samples=9, effective_samples=9.0, covariance=matrix, correlation=matrix
    )
    both = bare_results.bare_result(parameters=parameters, inference=summary)
    said = demo._judged(both, {'a': 3.0, 'b': 3.0})
    assert said.startswith('0 of 2 true values lie inside')
    assert 'χ² = 4.21 for 2, which right intervals exceed in 12 % of' in said


def test_every_parameter_of_the_demo_has_a_truth():
    from sysid_ros.config.files import read_yaml  # noqa: PLC0415 (one test)
    from sysid_ros.model.loading import load_model  # noqa: PLC0415
    from sysid_ros.model.targets import resolve  # noqa: PLC0415

    model = load_model(ASSETS / 'arm.xml')
    config = load_calibration(ASSETS / 'calibration.yaml')
    hidden = read_yaml(ASSETS / 'truth.yaml')

    identified = {t.path for entry in config.parameters for t in resolve(entry.target, model)}
    true = {target.path for pattern in hidden for target in resolve(pattern, model)}

    assert identified == true


@pytest.mark.slow
def test_the_demos_twenty_parameters_are_found_from_two_exact_seconds(tmp_path: Path):
    model = mujoco.MjModel.from_xml_path(str(ASSETS / 'arm.xml'))
    hidden = load_truth(ASSETS / 'truth.yaml')
    for name, seed in (('train_1', 1), ('validate_1', 3)):
        rng = np.random.default_rng(seed)
        speeds, phases, sizes = (
            rng.uniform(low, high, (4, model.nactuator))
            for low, high in ((2.0, 12.0), (0.0, 6.3), (0.1, 0.25))
        )

        def goals(
            now: float, speeds: Any = speeds, phases: Any = phases, sizes: Any = sizes
        ) -> Any:
            waves = sizes * np.sin(speeds * now + phases)
            return model.key_ctrl[0] + min(2 * now, 1.0) * waves.sum(axis=0)

        noise = Noise(position=1.5e-4, velocity=5e-3, effort=0.05, seed=seed)
        plant = Plant(ASSETS / 'arm.xml', rate=100.0, truth=hidden, noise=noise)
        record(tmp_path / 'bags' / name, plant, goals, 2.0)
    for name in ('arm.xml', 'calibration.yaml'):
        shutil.copy(ASSETS / name, tmp_path)

    result = identify(load_calibration(tmp_path / 'calibration.yaml')).result

    assert result.accepted, result.acceptance
    assert {parameter.verdict for parameter in result.parameters} == {'identified'}
    truth = demo.true_values(ASSETS / 'truth.yaml', result)
    inside = [p.low <= truth[p.name] <= p.high for p in result.parameters]
    assert len(inside) == 20
    assert sum(inside) >= 17  # of intervals of 95 %
    assert result.held_out_after < 1.5
    # Commands that act when their stamps say need about 300 simulations.
    assert result.solver.rollouts < 600
