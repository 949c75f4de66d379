# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Default classes in the text: where they hold an attribute, and who repeats it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from sysid_ros.errors import ModelError
from sysid_ros.model.mjcf.actuators import TAGS as ACTUATORS
from sysid_ros.model.mjcf.text import Draft

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from sysid_ros.model.mjcf.attributes import Editable
    from sysid_ros.model.mjcf.source import Node, Source


_MAIN = 'main'


class Said(NamedTuple):
    """What an element of the text itself says about a number that a class gives.

    Attributes:
        given: Whether it gives the number.
        same: Whether all that it gives of the attribute is what the class gives.
    """

    given: bool
    same: bool

    @classmethod
    def of(cls, text: Sequence[float], values: Sequence[float], index: int) -> Said:
        """Compare numbers of the text, which may be fewer, with those of the class."""
        return cls(index < len(text), list(text) == list(values[: len(text)]))


class Classes:
    """The default classes of a text."""

    def __init__(self, source: Source) -> None:
        """Find them.

        Args:
            source: The text; elements may be added to it.
        """
        self._source = source
        self._nodes: dict[str, list[Node]] = {}
        self._below: dict[str, list[str]] = {}
        self._drafts: dict[tuple[str, str], Draft] = {}
        for node in source.nodes:
            if node.tag == 'default':
                name = node.get('class') or _MAIN
                self._nodes.setdefault(name, []).append(node)
                if node.parent is not None and node.parent.tag == 'default':
                    above = node.parent.get('class') or _MAIN
                    self._below.setdefault(above, []).append(name)

    def holders(
        self,
        name: str,
        element: str,
        path: str,
        says: Callable[[Editable], Said],
        can_say: Callable[[Editable], bool],
    ) -> list[Editable]:
        """Return all elements of the text that must change for a class to give another value.

        These are the element of the class, which is added where there is none, and everything
        below that repeats the attribute of the class.

        Args:
            name: The class.
            element: Kind of the elements that take the value.
            path: The target, for the message.
            says: Compares an element with what the class gives so far.
            can_say: Whether an element has such an attribute.

        Raises:
            ModelError: The text has no such class: it comes with an attached model.
        """
        if name not in self._nodes and name != _MAIN:
            msg = f'Cannot write {path!r} back: expected the class {name!r} in the MJCF text.'
            raise ModelError(msg)
        own = [node for node in self._of_class(name, element) if can_say(node)]
        saying = [node for node in own if says(node).given]
        first = (saying or own)[-1] if own else self._added(name, element)
        names = list(self._followers(name, element, lambda node: says(node).same))
        below = [node for follower in names[1:] for node in self._of_class(follower, element)]
        every = self._source.of_kind(element, generated=True)
        below += [node for node in every if self._class_of(node) in names]
        return [first, *(node for node in below if says(node).given and says(node).same)]

    def _of_class(self, name: str, element: str) -> list[Node]:
        tags = ACTUATORS if element == 'actuator' else (element,)
        holders = self._nodes.get(name, [])
        return [n for n in self._source.nodes if n.parent in holders and n.tag in tags]

    def _followers(self, name: str, element: str, follows: Callable[[Node], bool]) -> Iterator[str]:
        """Yield the class and those below that give the same."""
        yield name
        for below in self._below.get(name, []):
            if all(follows(node) for node in self._of_class(below, element)):
                yield from self._followers(below, element, follows)

    def _class_of(self, node: Node) -> str:
        own = node.get('class')
        if own is not None:
            return own
        names = (ancestor.get('childclass') for ancestor in node.ancestors())
        return next((name for name in names if name is not None), _MAIN)

    def _added(self, name: str, element: str) -> Editable:
        if (name, element) not in self._drafts:
            draft = Draft('general' if element == 'actuator' else element)
            if name in self._nodes:
                self._nodes[name][-1].add(draft)
            else:
                section = Draft('default')
                section.add(draft)
                self._source.nodes[0].add(section)
            self._drafts[name, element] = draft
        return self._drafts[name, element]
