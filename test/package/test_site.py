# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The documentation as a site: built strictly, whole, and without anything from elsewhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.nightly]

ROOT = Path(__file__).resolve().parents[2]
#: What a page makes a browser load at once.
LOADED = (
    r'<(?:script|img|iframe|source)[^>]* src="([^"]+)"'
    r'|<link[^>]* rel="(?!canonical)[^>]*href="([^"]+)"'
)


@pytest.fixture(scope='module')
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as ``make docs`` builds it."""
    folder = tmp_path_factory.mktemp('site')
    done = subprocess.run(
        [sys.executable, '-m', 'mkdocs', 'build', '--strict', '--quiet', '--site-dir', str(folder)],
        cwd=ROOT,
        env={**os.environ, 'NO_MKDOCS_2_WARNING': '1'},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_every_page_of_the_documentation_is_in_the_site(site: Path):
    docs = ROOT / 'docs'
    pages = {path.relative_to(docs).with_suffix('.html') for path in docs.rglob('*.md')}
    assert {page for page in pages if not (site / page).is_file()} == set()
    assert (site / 'index.html').is_file()


def test_no_page_loads_anything_from_elsewhere(site: Path):
    for page in site.rglob('*.html'):
        loaded = [one or other for one, other in re.findall(LOADED, page.read_text('utf-8'))]
        assert loaded
        assert [place for place in loaded if '://' in place or place.startswith('//')] == []


def test_links_of_the_home_page_stay_in_the_site_where_they_can(site: Path):
    home = (site / 'index.html').read_text('utf-8')
    assert 'href="tutorials/urdf-arm.html"' in home
    assert 'src="images/loop.svg"' in home
    assert '/blob/main/docs/' not in home
    assert '/blob/main/CONTRIBUTING.md"' in home


@pytest.mark.parametrize(
    ('page', 'name'),
    [
        ('python', 'sysid_ros.api.calibrate'),
        ('python', 'sysid_ros.api.Result.save'),
        ('result', 'sysid_ros.results.result.CalibrationResult.standing'),
        ('toolbox', 'sysid_ros.toolbox.build_residual_fn'),
        ('toolbox', 'sysid_ros.toolbox.default_report'),
    ],
)
def test_the_reference_has_the_public_names(site: Path, page: str, name: str):
    assert f'id="{name}"' in (site / 'reference' / f'{page}.html').read_text('utf-8')
