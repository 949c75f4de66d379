# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""``sysid preflight``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


def test_what_a_fit_would_say_is_told_before_it(project: Any, sysid: Callable[..., Any]):
    project.change(parameters=[{'target': 'joint/*/damping'}, {'target': 'body/tip/mass'}])
    done = sysid('preflight', project.config, '--json')
    assert (done.code, done.err) == (0, '')
    found = json.loads(done.out)
    assert [p['verdict'] for p in found['parameters']] == ['identified'] * 3
    assert all(p['half'] > 0 for p in found['parameters'])
    assert {s['kind'] for s in found['sources']} == {'sensor', 'bag'}


def test_a_configuration_that_is_wrong_is_told_in_one_line(project: Any, sysid: Callable[..., Any]):
    project.change(parameters=[{'target': 'joint/*/dampin'}])
    done = sysid('preflight', project.config)
    assert (done.code, done.err.count('\n')) == (2, 1)
