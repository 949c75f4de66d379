# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""YAML of others costs a sentence where it is small to write and without end to read."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from sysid_ros.config.files import read_yaml
from sysid_ros.errors import ConfigError
from sysid_ros.text import block_entry, parse_yaml, scalar


def _each_of_the_last(start: str, form: str) -> str:
    """Return ten anchors, each of ten times what the one before it stands for."""
    lines = [f'a0: &a0 {start}']
    for place in range(1, 10):
        aliases = ', '.join([f'*a{place - 1}'] * 10)
        lines.append(f'a{place}: &a{place} {form.format(aliases)}')
    return '\n'.join(lines)


ENDLESS = {
    'deep in brackets': ('[' * 60 + ']' * 60, 'nested more than 50 deep'),
    'deep in lines': ('- ' * 60 + 'x', 'nested more than 50 deep'),
    'deeper than the parser goes': ('[' * 100_000, 'maximum nesting depth'),
    'laughs': (_each_of_the_last('[x]', '[{}]'), 'stand for more than 1000000 values'),
    'merged laughs': (_each_of_the_last('{x: 1}', '{{<<: [{}]}}'), 'for more than 1000000 values'),
    'long laughs': (f'a: &a {"x" * 100_000}\nb: [{"*a, " * 200}]', 'for more than 1000000 values'),
    'itself': ('a: &a [1, *a]', "alias 'a' contains itself"),
    'a 13th month': ('a: 2001-13-13', 'a value is not what it looks like: month must be in 1..12'),
    'digits': (f'a: {"9" * 5000}', 'a value is not what it looks like: Exceeds the limit'),
}


@pytest.mark.parametrize(('text', 'complaint'), ENDLESS.values(), ids=ENDLESS)
def test_what_has_no_end_is_a_sentence(tmp_path: Path, text: str, complaint: str):
    path = tmp_path / 'file.yaml'
    path.write_text(text)
    with pytest.raises(ConfigError, match='is not valid YAML: ') as raised:
        read_yaml(path)
    assert complaint in str(raised.value)


def test_what_is_used_again_a_few_times_is_read():
    assert parse_yaml('a: &a {x: [1, 2]}\nb: *a\nc: {<<: *a, y: 3}') == {
        'a': {'x': [1, 2]},
        'b': {'x': [1, 2]},
        'c': {'x': [1, 2], 'y': 3},
    }


def test_texts_come_back_and_stay_on_a_line():
    for text in ('elbow', '/joint_states', 'yes', '1e3', '', ' a', 'é 上', 'a: b\n#', '\u2028\x85'):
        assert yaml.safe_load(f'{{a: {scalar(text)}, {scalar(text)}: 1}}') == {'a': text, text: 1}
        assert len(scalar(text).splitlines()) == 1
    assert scalar('é 上') == '"é 上"'


def test_a_key_longer_than_yaml_allows_is_announced():
    for key in ('a', 'x' * 2000):
        text = '\n'.join(['b: 1', *block_entry(key, '{c: 1}')])
        assert yaml.safe_load(text) == {'b': 1, key: {'c': 1}}
