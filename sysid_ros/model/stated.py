# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What the text of a model states: each attribute with its place, to say what changed in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from sysid_ros.model.description import Description
from sysid_ros.model.mjcf.source import Source, absolute
from sysid_ros.model.mjcf.text import Document, Element

#: Elements that say how a model looks, or hold nothing that moves it.
_LOOKS = frozenset(
    {'visual', 'statistic', 'texture', 'material', 'light', 'camera', 'keyframe', 'gazebo'}
)
#: Attributes that do, and those that are in the keys.
_ASIDE = frozenset({'rgba', 'material', 'group', 'name', 'model'})
#: Sections of an MJCF file whose elements go by the section's name: a <position> is an actuator.
_KINDS = frozenset({'actuator', 'tendon', 'equality', 'sensor'})


class Stated(NamedTuple):
    """An attribute of a model's text."""

    key: str  # ``joint/elbow/damping``, ``default/arm/joint/damping``, ``option/timestep``
    value: str  # as written
    file: Path  # that holds it, as the user named its folder
    line: int  # in that file, from 1; 0 where the file is not the text, as for xacro


def stated(description: Description) -> tuple[Stated, ...]:
    """Return what the text of a model states about its motion, in the order of the text.

    What only shows is left out. A URDF is taken as it is, not as the MJCF that it becomes.
    """
    path, mjcf, urdf, _ = description
    if urdf is not None:
        in_file = path.suffix == '.urdf'
        documents = {path: Document(urdf)}
        nodes = documents[path].elements
    else:
        in_file = mjcf is None or path.suffix == '.urdf'
        source = Source(absolute(path), mjcf)
        documents, nodes = source.documents, source.nodes
    homes = {
        id(node): (_shown(file, path), document)
        for file, document in documents.items()
        for node in document.elements
    }
    return tuple(
        Stated(f'{key}/{name}', value, file, document.line(node, name) if in_file else 0)
        for node, key in _keys(nodes)
        for file, document in (homes[id(node)],)
        for name, value in node.attributes.items()
        if name not in _ASIDE
    )


class Change(NamedTuple):
    """An attribute of another value in a text that was written for a model."""

    file: Path  # of the nominal text, as the user named its folder
    line: int  # of the attribute or, where it is new, of its element; 0 where that is not known
    element: str  # ``joint/elbow``, ``option``
    attribute: str
    old: str  # empty where there was none
    new: str  # empty where there is none


def changed(nominal: Description, written: Description) -> Iterator[Change]:
    """Yield what a model that was written for another one states otherwise, in its order."""
    before = {entry.key: entry for entry in stated(nominal)}
    now = {entry.key: entry.value for entry in stated(written)}
    elements: dict[str, Stated] = {}
    for entry in before.values():
        elements.setdefault(entry.key.rpartition('/')[0], entry)
    found = changes({key: entry.value for key, entry in before.items()}, now)
    for key, old, new in found:
        element, _, attribute = key.rpartition('/')
        # A new element is in one that there was.
        around = element
        while around and around not in elements:
            around = around.rpartition('/')[0]
        place = before.get(key) or elements.get(around)
        file, line = (place.file, place.line) if place else (nominal.path, 0)
        yield Change(file, line, element, attribute, old, new)


def changes(before: Mapping[str, str], now: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """Yield key, value before and value now of what differs; an empty value is an absent one.

    Numbers are compared as numbers: .50 is 0.5.
    """
    for key in dict.fromkeys((*before, *now)):
        old, new = before.get(key, ''), now.get(key, '')
        if old != new and _numbers(old) != _numbers(new):
            yield key, old, new


def _numbers(text: str) -> tuple[float | str, ...]:
    found: list[float | str] = []
    for word in text.split():
        try:
            found.append(float(word))
        except ValueError:
            found.append(word)
    return tuple(found)


def _shown(file: Path, main: Path) -> Path:
    """Return a file as seen from where the user named the main one."""
    root = absolute(main).parent
    return main.parent / file.relative_to(root) if file.is_relative_to(root) else file


def _keys(nodes: list[Element]) -> Iterator[tuple[Element, str]]:
    """Yield every element that says something about motion, with its key."""
    known: dict[int, str] = {}
    used: dict[str, int] = {}
    for node in nodes:
        parent = node.parent
        above = None if parent is None else known.get(id(parent))
        if node.tag in _LOOKS or (parent is not None and above is None):
            continue
        name = node.get('name')
        section = parent.tag if parent is not None and parent.tag in _KINDS else node.tag
        if parent is None:
            key = ''
        elif node.tag == 'default':
            key = f'default/{node.get("class") or "main"}'
        elif name is not None:
            key = f'{section}/{name}'
        else:
            key = f'{above}/{node.tag}'.lstrip('/')
        used[key] = used.get(key, 0) + 1
        known[id(node)] = key if used[key] == 1 else f'{key}[{used[key]}]'
        yield node, known[id(node)]
