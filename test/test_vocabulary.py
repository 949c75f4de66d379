# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""One thing has one name wherever people read: nominal, fitted, finding."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from builders.cli_project import REPOSITORY
from builders.commands import SYSID, commands

PACKAGE = REPOSITORY / 'sysid_ros'
#: What is not said, and what is said instead. The keys of YAML and JSON files keep their names.
IN_TEXT = {
    r'\bbefore and after\b(?! (it|a|the) )': 'nominal and fitted',
    r'\b(before|after) the fit, (and )?(before|after)\b': 'nominal, fitted',
    r'\b[Ii]nitial(ly)? (value|model|parameter)': 'nominal value',
    # A solver's own start need not be nominal.
    r'(?<!at the )\bstart values?\b': 'nominal value',
    r'\bHealth\b|\bhealth findings\b': 'findings',
    r'\btrouble\b': 'findings',
}
#: The whole of a header of a table, or of an entry of a legend.
AS_NAME = re.compile(r'>?(before|after|initial|initially|start|left|health)', re.IGNORECASE)
#: Units follow a slash in the header of a column, as in ``rate/Hz``, and stand in no brackets.
BRACKETED = re.compile(r'\((%|[kmµ]?(Hz|s|m|g|rad|N|N·m|V|A|W)(/s|²)?|°C?|ppm)\)')


def _wrong(text: str) -> list[str]:
    """Return what is said in a text, with what to say instead."""
    return [
        f'{found[0]!r}: say {instead!r}'
        for pattern, instead in IN_TEXT.items()
        for found in re.finditer(pattern, text)
    ]


def _said(tree: ast.AST) -> Iterator[str]:
    """Yield the texts of a module that are no docstrings."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            node.value.value = None
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def _names(tree: ast.AST) -> Iterator[str]:
    """Yield headers of columns of numbers, and what a legend says."""
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg == 'label':
            yield from _said(node.value)
    yield from (text for text in _said(tree) if text.startswith('>'))


@pytest.mark.slow
@pytest.mark.parametrize('package', ['cli', 'config', 'nodes', 'report', 'results', 'workflows'])
def test_what_the_code_says_keeps_to_the_words(package: str):
    found = {}
    for path in sorted((PACKAGE / package).rglob('*.py')):
        tree = ast.parse(path.read_text('utf-8'))
        names = list(_names(tree))
        wrong = [name for name in names if AS_NAME.fullmatch(name) or BRACKETED.search(name)]
        wrong += [wrong for text in _said(tree) for wrong in _wrong(text)]
        if wrong:
            found[path.relative_to(REPOSITORY)] = wrong
    assert not found


def test_help_keeps_to_the_words():
    helps = [
        ' '.join(command.get_help(command.make_context(name, [], resilient_parsing=True)).split())
        for name, command in [('sysid', SYSID), *commands()]
    ]
    assert not [wrong for text in helps for wrong in _wrong(text)]


@pytest.mark.parametrize(
    'name', sorted(p.name for p in (PACKAGE / 'report/templates').glob('*.j2'))
)
def test_a_template_keeps_to_the_words(name: str):
    text = (PACKAGE / 'report/templates' / name).read_text('utf-8')
    text = re.sub(r'\{#.*?#\}|\{%.*?%\}|\{\{.*?\}\}', '', text, flags=re.DOTALL)
    cells = [cell.strip() for cell in re.findall(r'>([^<>]+)<', text)]
    names = re.findall(r'(?:<th[^>]*>|</svg>)([^<>]+)<', text)
    names += re.findall(r'data-label="([^"]*)"', text)
    wrong = [n for n in names if AS_NAME.fullmatch(n.strip()) or BRACKETED.search(n)]
    assert not wrong + _wrong(' '.join(cells))


@pytest.mark.parametrize(
    'path',
    [
        *sorted(REPOSITORY.glob('docs/*.md')),
        *sorted(REPOSITORY.glob('launch/*.xml')),
        *sorted(REPOSITORY.glob('config/*.yaml')),
        PACKAGE / 'cli/example.yaml',
    ],
    ids=lambda path: path.name,
)
def test_docs_and_files_to_edit_keep_to_the_words(path: Path):
    text = path.read_text('utf-8')
    headers = re.findall(r'^(?:parameter|sensor|held out) .*$', text, re.MULTILINE)
    wrong = [word for line in headers for word in line.split() if AS_NAME.fullmatch(word)]
    assert not wrong + _wrong(text)
