# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Edit attributes in XML text and leave every other character where it was.

An XML library that parses and writes again loses the order and quoting of attributes, line breaks
inside tags, comments between attributes' lines and the spelling of numbers. Here the text is only
searched: the tokenizer finds where elements and attributes are, changes are collected, and
`Document.render` splices them into the text.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from sysid_ros.errors import ModelError

if TYPE_CHECKING:
    from collections.abc import Iterable

_TOKEN = re.compile(
    r"""<!--.*?-->                       # comment
      | <!\[CDATA\[.*?\]\]>              # character data
      | <\?.*?\?>                        # declaration, processing instruction
      | <![^>]*>                         # document type
      | </\s*(?P<close>[^\s>]+)\s*>
      | <(?P<tag>[^\s/>!?]+)(?P<attributes>(?:[^"'>]|"[^"]*"|'[^']*')*?)(?P<slash>/?)>
    """,
    re.DOTALL | re.VERBOSE,
)
_ATTRIBUTE = re.compile(
    r"""(?P<name>[^\s=/>"']+)\s*=\s*(?:"(?P<double>[^"]*)"|'(?P<single>[^']*)')""", re.DOTALL
)
_ENTITY = re.compile(r'&(?:#x(?P<hex>[0-9A-Fa-f]+)|#(?P<decimal>[0-9]+)|(?P<name>\w+));')
_ENTITIES = {'amp': '&', 'lt': '<', 'gt': '>', 'quot': '"', 'apos': "'"}


class Attribute(NamedTuple):
    """Where one attribute is.

    Attributes:
        name: Its name.
        value: The text between the quotes, entities replaced.
        start: Position of the name's first character.
        value_start: Position of the first character between the quotes.
        value_end: Position of the closing quote.
    """

    name: str
    value: str
    start: int
    value_start: int
    value_end: int


class Element(NamedTuple):
    """Where one element's opening tag is.

    Attributes:
        tag: Its name.
        attributes: In the order of the text.
        parent: Position in the list of elements; None for the root.
        tag_end: Position behind the name of the tag.
        open_end: Position behind the opening tag's ``>``.
        empty: Whether the tag closes itself with ``/>``.
    """

    tag: str
    attributes: tuple[Attribute, ...]
    parent: int | None
    tag_end: int
    open_end: int
    empty: bool

    def find(self, name: str) -> Attribute | None:
        """Return the attribute of that name."""
        return next((entry for entry in self.attributes if entry.name == name), None)


class _Splice(NamedTuple):
    start: int
    end: int
    text: str


def decode(content: bytes) -> str:
    """Decode a file so that encoding the text again gives the same bytes, whatever they are."""
    return content.decode('utf-8', 'surrogateescape')


def encode(text: str) -> bytes:
    """Undo `decode`."""
    return text.encode('utf-8', 'surrogateescape')


def unescape(raw: str) -> str:
    """Replace character references and the five entities of XML."""

    def replacement(match: re.Match[str]) -> str:
        if match['hex']:
            return chr(int(match['hex'], 16))
        if match['decimal']:
            return chr(int(match['decimal']))
        return _ENTITIES.get(match['name'], match[0])

    return _ENTITY.sub(replacement, raw)


def find_elements(text: str) -> tuple[Element, ...]:
    """Locate every element, in the order of the opening tags.

    Raises:
        ModelError: A closing tag does not fit the open element.
    """
    elements: list[Element] = []
    open_elements: list[int] = []
    for match in _TOKEN.finditer(text):
        if match['close']:
            if not open_elements or elements[open_elements.pop()].tag != match['close']:
                line = text.count('\n', 0, match.start()) + 1
                msg = f'Expected well-formed XML, found a stray </{match["close"]}> in line {line}.'
                raise ModelError(msg)
        elif match['tag']:
            elements.append(
                Element(
                    match['tag'],
                    tuple(_attributes(match['attributes'], match.start('attributes'))),
                    open_elements[-1] if open_elements else None,
                    match.end('tag'),
                    match.end(),
                    bool(match['slash']),
                )
            )
            if not match['slash']:
                open_elements.append(len(elements) - 1)
    return tuple(elements)


def _attributes(text: str, offset: int) -> Iterable[Attribute]:
    for match in _ATTRIBUTE.finditer(text):
        group = 'single' if match['double'] is None else 'double'
        yield Attribute(
            match['name'],
            unescape(match[group]),
            offset + match.start(),
            offset + match.start(group),
            offset + match.end(group),
        )


class Draft:
    """An element that the text does not have yet.

    Attributes:
        tag: Its name.
    """

    def __init__(self, tag: str, **attributes: str) -> None:
        self.tag = tag
        self._attributes = dict(attributes)
        self._children: list[Draft] = []

    def get(self, name: str) -> str | None:
        """Return an attribute's value; None where it is absent."""
        return self._attributes.get(name)

    def set(self, name: str, value: str) -> None:
        """Change or add an attribute. The value must need no escaping."""
        self._attributes[name] = value

    def remove(self, name: str) -> None:
        """Remove an attribute."""
        self._attributes.pop(name, None)

    def rename(self, old: str, new: str, value: str) -> None:
        """Put another attribute into the place of one."""
        self.remove(old)
        self.set(new, value)

    def add(self, child: Draft) -> Draft:
        """Put a child behind the others, and return it."""
        self._children.append(child)
        return child

    def __str__(self) -> str:
        """Return the XML."""
        head = self.tag + ''.join(f' {name}="{text}"' for name, text in self._attributes.items())
        body = ''.join(str(child) for child in self._children)
        return f'<{head}>{body}</{self.tag}>' if body else f'<{head}/>'


class Document:
    """One XML text and the changes that are wanted in it."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.elements = find_elements(text)
        self._tree: dict[int | None, list[int]] = {}
        for index, element in enumerate(self.elements):
            self._tree.setdefault(element.parent, []).append(index)
        self._values: dict[tuple[int, str], str | None] = {}
        self._renamed: dict[tuple[int, str], str] = {}
        self._children: dict[int, list[str | Draft]] = {}

    @property
    def changed(self) -> bool:
        """Whether `render` gives another text than the one that was read."""
        return self.render() != self.text

    def children(self, element: int) -> list[int]:
        """Return the children of an element, in the order of the text."""
        return self._tree.get(element, [])

    def get(self, element: int, name: str) -> str | None:
        """Return an attribute's value as changed so far; None where it is absent."""
        if (element, name) in self._values:
            return self._values[element, name]
        if (element, name) in self._renamed:
            return None
        found = self.elements[element].find(name)
        return found.value if found else None

    def set(self, element: int, name: str, value: str) -> None:
        """Change an attribute, or add it behind the last one. The value must need no escaping."""
        self._values[element, name] = value

    def remove(self, element: int, name: str) -> None:
        """Remove an attribute and the white space before it."""
        self._values[element, name] = None

    def rename(self, element: int, old: str, new: str, value: str) -> None:
        """Put another attribute into the place of one; where that is absent, add it."""
        if self.elements[element].find(old) and not self.elements[element].find(new):
            self._renamed[element, old] = new
        self._values[element, new] = value

    def insert_child(self, element: int, child: str | Draft) -> None:
        """Put a child in front of the others, indented as the first of them.

        A draft may still be filled: its text is taken when the document is rendered.
        """
        self._children.setdefault(element, []).append(child)

    def render(self) -> str:
        """Return the text with all changes."""
        splices = [
            splice
            for index in sorted({index for index, _ in self._values})
            for splice in self._element_splices(index)
        ] + [
            self._child_splice(index, [str(child) for child in children])
            for index, children in self._children.items()
        ]
        text = self.text
        for splice in sorted(splices, reverse=True):
            text = text[: splice.start] + splice.text + text[splice.end :]
        return text

    def _element_splices(self, index: int) -> Iterable[_Splice]:
        element = self.elements[index]
        renamed = {new: old for (owner, old), new in self._renamed.items() if owner == index}
        added: list[tuple[str, str]] = []
        for (owner, name), value in self._values.items():
            if owner != index:
                continue
            found = element.find(renamed.get(name, name))
            if found is None:
                if value is not None:
                    added.append((name, value))
            elif value is None:
                start = len(self.text[: found.start].rstrip())
                yield _Splice(start, found.value_end + 1, '')
            else:
                if name in renamed:
                    yield _Splice(found.start, found.start + len(found.name), name)
                if value != found.value:
                    yield _Splice(found.value_start, found.value_end, value)
        if added:
            last = element.attributes[-1] if element.attributes else None
            place = last.value_end + 1 if last else element.tag_end
            quote = self.text[last.value_end] if last else '"'
            text = ''.join(f' {name}={quote}{value}{quote}' for name, value in added)
            yield _Splice(place, place, text)

    def _child_splice(self, index: int, children: list[str]) -> _Splice:
        element = self.elements[index]
        if element.empty:
            body = ''.join(children)
            return _Splice(element.open_end - 2, element.open_end, f'>{body}</{element.tag}>')
        gap = re.compile(r'\s*').match(self.text, element.open_end)
        space = gap[0] if gap else ''
        start = max(space.rfind('\r\n'), space.rfind('\n') if '\r\n' not in space else -1, 0)
        indent = space[start:]
        return _Splice(
            element.open_end, element.open_end, ''.join(indent + child for child in children)
        )
