# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Where the elements of a model are written: its main file and all that it includes."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import mujoco

from sysid_ros.errors import ModelError
from sysid_ros.model.mjcf.text import Document, decode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sysid_ros.model.mjcf.text import Draft

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


@dataclass(frozen=True, eq=False)
class Node:
    """One element of the model, includes expanded.

    Attributes:
        document: The file that holds it.
        index: Its position in the document.
        parent: The element around it, which may be in another file; None for the root.
    """

    document: Document
    index: int
    parent: Node | None

    @property
    def tag(self) -> str:
        """The element's tag."""
        return self.document.elements[self.index].tag

    def get(self, name: str) -> str | None:
        """Return an attribute's value as changed so far; None where it is absent."""
        return self.document.get(self.index, name)

    def set(self, name: str, value: str) -> None:
        """Change or add an attribute."""
        self.document.set(self.index, name, value)

    def remove(self, name: str) -> None:
        """Remove an attribute."""
        self.document.remove(self.index, name)

    def rename(self, old: str, new: str, value: str) -> None:
        """Put another attribute into the place of one."""
        self.document.rename(self.index, old, new, value)

    def add(self, child: Draft) -> Draft:
        """Put a child in front of the others, and return it."""
        self.document.insert_child(self.index, child)
        return child

    def ancestors(self) -> Iterator[Node]:
        """Yield the elements around it, from the nearest to the root."""
        node = self.parent
        while node is not None:
            yield node
            node = node.parent


@dataclass(frozen=True)
class Rewrite:
    """The text of a model, and what it means before and after.

    Attributes:
        source: The text.
        spec: The model as parsed, and compiled.
        nominal: The model as compiled before any change.
        fitted: The identified model, which the new text must compile to.
        notes: Filled with what a reader of the new files must know.
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
        """Read a model.

        Args:
            path: The main file.
            text: What stands in its place, where that is not what is on disk.
        """
        self.path = path
        self.documents: dict[Path, Document] = {}
        if text is not None:
            self.documents[path] = Document(text)
        self.nodes: list[Node] = []
        root = self._read(path)
        self._expand(root, 0, None, path.parent)

    def _read(self, path: Path) -> Document:
        if path not in self.documents:
            try:
                self.documents[path] = Document(decode(path.read_bytes()))
            except OSError as err:
                msg = f'Cannot read the model file {str(path)!r}: {err.strerror}.'
                raise ModelError(msg) from err
        return self.documents[path]

    def _expand(self, document: Document, index: int, parent: Node | None, folder: Path) -> None:
        element = document.elements[index]
        if element.tag == 'include':
            file = element.find('file')
            path = self._included(file.value if file else '', folder)
            included = self._read(path)
            for child in included.children(0):
                self._expand(included, child, parent, path.parent)
            return
        node = Node(document, index, parent)
        self.nodes.append(node)
        for child in document.children(index):
            self._expand(document, child, node, folder)

    def _included(self, file: str, folder: Path) -> Path:
        """Find an included file as MuJoCo does: from the main file, else from the including one."""
        for base in (self.path.parent, folder):
            if (base / file).is_file():
                return absolute(base / file)
        msg = f'Cannot find the file {file!r} that {str(self.path)!r} includes.'
        raise ModelError(msg)

    def find(self, element: str, name: str, path: str) -> Node:
        """Find the element of that kind and name; ``path`` is the target, for the message.

        Raises:
            ModelError: The text has no such element: it is generated.
        """
        for node in self.of_kind(element):
            if node.get('name') == name:
                return node
        tags = {node.tag for node in self.nodes}
        makers = ' or '.join(f'<{tag}>' for tag in _GENERATORS if tag in tags) or 'MuJoCo'
        msg = (
            f'Cannot write {path!r} back: expected {element} {name!r} as an element of the MJCF '
            f'text, but it is made by {makers}; write it out as an element of its own.'
        )
        raise ModelError(msg)

    def of_kind(self, element: str, *, generated: bool = False) -> list[Node]:
        """Return the elements of a kind that the text spells out, in order.

        Args:
            element: The kind.
            generated: Whether also those that elements are generated from.
        """
        section, tags = _PLACES[element]
        found = []
        for node in self.nodes:
            around = [ancestor.tag for ancestor in node.ancestors()]
            if tags is None:
                fits = around[:1] == [section]
            else:
                fits = section in around and node.tag in tags
            if fits and (generated or not any(tag in _GENERATORS for tag in around)):
                found.append(node)
        return found

    def body(self, model: mujoco.MjModel, row: int, path: str) -> Node:
        """Find a body by its row in the compiled model; ``path`` is the target, for the message.

        Raises:
            ModelError: It has no name, and others are generated, so that rows do not tell it.
        """
        name = mujoco.mj_id2name(model, mujoco.mjtObj.mjOBJ_BODY, row)
        if name:
            return self.find('body', name, path)
        nodes = self.of_kind('body')
        if len(nodes) == model.nbody - 1:
            return nodes[row - 1]  # rows are in the order of the text, behind the world
        msg = f'Cannot write {path!r} back: give body {row}, which has no name, a name.'
        raise ModelError(msg)

    def inertial(self, body: Node) -> Node | None:
        """Return the ``<inertial>`` of a body; a ``<frame>`` may be around it."""
        for node in self.nodes:
            if node.tag == 'inertial':
                owner = next(entry for entry in node.ancestors() if entry.tag != 'frame')
                if owner is body:
                    return node
        return None

    def absolute_references(self) -> list[str]:
        """Return the absolute paths that the text refers to, in order."""
        return [
            attribute.value
            for node in self.nodes
            for attribute in node.document.elements[node.index].attributes
            if (attribute.name.startswith('file') or attribute.name in _FOLDERS)
            and Path(attribute.value).is_absolute()
        ]


def absolute(path: Path) -> Path:
    """Return the path without ``..``, symbolic links left as they are."""
    return Path(os.path.abspath(path))  # noqa: PTH100 (resolve would follow links)
