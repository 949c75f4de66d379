# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The programs in examples/ run as a user runs them, and find what is true."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import matplotlib.image as mpimg
import mujoco
import pytest
from PIL import Image

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).parents[2] / 'examples'
TIMEOUT = 120  # seconds
#: What a test of the true values allows on top of an interval of exact data, which is almost zero.
EXACT = 1e-4


class Row(NamedTuple):
    """A line of a table that an example printed; the half width is None where there is none."""

    truth: float
    estimate: float
    half_width: float | None

    @property
    def holds_truth(self) -> bool:
        """Whether the true value lies in the interval."""
        return self.half_width is not None and abs(self.estimate - self.truth) <= self.half_width


def _run(name: str, folder: Path) -> str:
    program = [sys.executable, '-W', 'default', str(EXAMPLES / f'{name}.py'), '--out', str(folder)]
    done = subprocess.run(
        program, capture_output=True, text=True, timeout=TIMEOUT, check=False, cwd=folder
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def _tables(text: str) -> list[dict[str, Row]]:
    """Return the rows of each table by parameter; a new one begins where a title is repeated."""
    tables: list[dict[str, Row]] = []
    for line in text.splitlines():
        if line.startswith('parameter'):
            tables.append({})
        found = re.fullmatch(r'(.+?) +(-?[\d.]+) +(-?[\d.]+)(?:  (?:± (\S+)|none: .*))?', line)
        if found:
            half = None if found[4] is None else float(found[4])
            tables[-1][found[1]] = Row(float(found[2]), float(found[3]), half)
    return tables


@pytest.fixture(scope='module')
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for all that the examples write."""
    return tmp_path_factory.mktemp('examples')


@pytest.fixture(scope='module')
def spring_mass(folder: Path) -> str:
    """What the spring and mass printed."""
    return _run('spring_mass', folder)


@pytest.fixture(scope='module')
def arm(folder: Path) -> str:
    """What the arm printed."""
    return _run('arm', folder)


@pytest.fixture(scope='module')
def cart(folder: Path) -> str:
    """What the cart printed."""
    return _run('cart', folder)


def test_the_mass_is_exact_once_the_stamps_are_understood(spring_mass: str):
    measured, rollout = _tables(spring_mass)

    assert rollout['mass'].estimate == 1.0000
    assert abs(measured['mass'].estimate - 1) > 0.001


def test_the_late_stamps_are_named_with_their_two_milliseconds(spring_mass: str):
    as_measured, _, understood = spring_mass.partition("\nsensor_stamps='auto'\n")

    assert re.search(r"moved by -2(\.0\d*)? ms .*pass sensor_stamps='rollout'", as_measured)
    assert 'No shift in time explains the data better.' in understood


def test_the_saved_model_has_the_identified_mass(spring_mass: str, folder: Path):
    model = mujoco.MjModel.from_xml_path(str(folder / 'spring_mass' / 'spring_mass.xml'))

    assert str(folder / 'spring_mass') in spring_mass
    assert model.body('cart').mass[0] == pytest.approx(1.0, abs=EXACT)


def test_the_armatures_lie_in_their_intervals(arm: str):
    [rows] = _tables(arm)

    assert len(rows) == 5
    assert [name for name, row in rows.items() if not row.holds_truth] == []
    assert all(row.half_width < 0.15 for row in rows.values())


def test_the_report_of_the_arm_shows_its_parameters_and_its_motion(arm: str, folder: Path):
    page = (folder / 'arm' / 'report.html').read_text('utf-8')

    assert str(folder / 'arm') in arm
    assert '<h1>Armatures of an arm</h1>' in page
    assert page.count('<wbr>armature</th>') == 5
    assert 'src="data:image/webp' in page


@pytest.mark.parametrize('name', ['before', 'after'])
def test_the_films_of_the_arm_last_as_long_as_its_motion(arm: str, folder: Path, name: str):
    assert arm
    film = Image.open(folder / 'arm' / f'{name}.webp')

    assert film.n_frames == pytest.approx(20, abs=1)
    assert film.size == (480, 360)


def test_one_recording_of_the_cart_determines_only_gear_over_mass(cart: str):
    alone, _ = _tables(cart)

    assert alone['gear / mass'].estimate == pytest.approx(1.5, abs=EXACT)
    assert alone['mass'].half_width is alone['gear'].half_width is None
    assert 'does not determine mass and gear' in cart


def test_the_payload_determines_both(cart: str):
    _, loaded = _tables(cart)

    assert loaded['mass'].estimate == pytest.approx(2.0, abs=EXACT)
    assert loaded['gear'].estimate == pytest.approx(3.0, abs=EXACT)
    assert loaded['mass'].half_width is not None


def test_the_cost_of_the_cart_is_drawn(cart: str, folder: Path):
    picture = mpimg.imread(folder / 'cart_cost.png')

    assert str(folder / 'cart_cost.png') in cart
    assert picture.shape[0] > 400
    assert picture.std() > 0.1


def test_every_example_has_a_test_and_a_line_in_the_readme():
    programs = {path.stem for path in EXAMPLES.glob('*.py')} - {'table'}
    readme = (EXAMPLES / 'README.md').read_text('utf-8')

    assert programs == {'arm', 'cart', 'spring_mass'}
    assert all(f'`{program}.py`' in readme for program in programs)
