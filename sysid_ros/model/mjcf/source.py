# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Where the elements of a model are written: its main file and all that it includes."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import mujoco

from sysid_ros.errors import ModelError
from sysid_ros.model.mjcf.text import Document, Element, decode

#: The section that holds the elements of a kind, and their tags; any tag where that is None.
_PLACES: dict[str, tuple[str, tuple[str, ...] | None]] = {
    'joint': ('worldbody', ('joint', 'freejoint')),
    'body': ('worldbody', ('body',)),
    'geom': ('worldbody', ('geom',)),
    'site': ('worldbody', ('site',)),
    'pair': ('contact', ('pair',)),
    'tendon': ('tendon', None),
    'equality': ('equality', None),
    'actuator': ('actuator', None),
}
#: Elements whose content is named by MuJoCo, not by the text.
_GENERATORS = ('replicate', 'attach', 'composite', 'flexcomp')
_FOLDERS = ('meshdir', 'texturedir', 'assetdir')


@dataclass(frozen=True)
class Rewrite:
    """The text of a model, and what it means before and after it is identified.

    The notes are filled with what a reader of the new files must know.
    """

    source: Source
    spec: mujoco.MjSpec
    nominal: mujoco.MjModel
    fitted: mujoco.MjModel
    notes: list[str]


class Source:
    """The text of a model.

    Attributes:
        path: The main file, absolute.
        documents: The main file and what it includes, by absolute path.
        nodes: All elements, in the order that MuJoCo reads them.
    """

    def __init__(self, path: Path, text: str | None = None) -> None:
        """Read a model; a text stands in the place of its main file, where it is not on disk."""
        self.path = path
        self.documents: dict[Path, Document] = {}
        if text is not None:
            self.documents[path] = Document(text)
        self.nodes: list[Element] = []
        self._expand(self._read(path).elements[0], None, path)

    def _read(self, path: Path) -> Document:
        if path not in self.documents:
            try:
                self.documents[path] = Document(decode(path.read_bytes()))
            except OSError as err:
                raise ModelError(
                    f'Cannot read the model file {str(path)!r}: {err.strerror}.'
                ) from err
        return self.documents[path]

    def _expand(self, element: Element, parent: Element | None, file: Path) -> None:
        if element.tag == 'include':
            path = self._included(element.get('file') or '', file.parent)
            for child in self._read(path).elements[0].children:
                self._expand(child, parent, path)
            return
        element.parent = parent
        self.nodes.append(element)
        for child in element.children:
            self._expand(child, element, file)

    def _included(self, file: str, folder: Path) -> Path:
        """Find an included file as MuJoCo does: from the main file, else from the including one."""
        for base in (self.path.parent, folder):
            if (base / file).is_file():
                return absolute(base / file)
        raise ModelError(f'Cannot find the file {file!r} that {str(self.path)!r} includes.')

    def find(self, element: str, name: str) -> Element:
        """Find the element of that kind and name, which <replicate>, say, may have made."""
        for node in self.of_kind(element):
            if name and node.get('name') == name:
                return node
        raise ModelError(f'{element} {name!r} is no element of the MJCF text.')

    def of_kind(self, element: str) -> list[Element]:
        """Return the elements of a kind that the text spells out, in order."""
        section, tags = _PLACES[element]
        found = []
        for node in self.nodes:
            around = [ancestor.tag for ancestor in node.ancestors()]
            fits = around[:1] == [section] if tags is None else node.tag in tags
            if fits and section in around and not any(tag in _GENERATORS for tag in around):
                found.append(node)
        return found

    def absolute_references(self) -> list[str]:
        """Return the absolute paths that the text refers to, in order."""
        return [
            value
            for node in self.nodes
            for name, value in node.attributes.items()
            if (name.startswith('file') or name in _FOLDERS) and Path(value).is_absolute()
        ]


def absolute(path: Path) -> Path:
    """Return the path without ``..``, symbolic links left as they are."""
    return Path(os.path.abspath(path))  # noqa: PTH100 (resolve would follow links)
