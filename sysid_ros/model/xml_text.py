# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The text of a model: attributes edited in place, files that it includes, and MuJoCo's own.

An XML library that parses and writes again loses the order and quoting of attributes, line breaks
inside tags and the spelling of numbers. Here the text is only searched: the tokenizer finds where
elements and attributes are, changes are collected, and `Document.render` splices them into it.
"""

from __future__ import annotations

import ctypes
import functools
import html
import os
import re
import sys
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import mujoco

from sysid_ros.errors import ModelError
from sysid_ros.files import read_bytes

#: Each `<` begins a token or is the end of the search, and no part of a token is tried in two
#: ways (`++` gives nothing back): the time is that of one pass, whatever the text.
_TOKEN = re.compile(
    r"""<!--.*?-->                       # comment
      | <!\[CDATA\[.*?\]\]>              # character data
      | <\?.*?\?>                        # declaration, processing instruction
      | <!(?!--|\[CDATA\[)[^>]*+>        # document type
      | </\s*+(?P<close>[^\s>]++)\s*+>
      | <(?P<tag>[^\s/>!?]++)(?P<attributes>(?>[^"'>]|"[^"]*+"|'[^']*+')*?)(?P<slash>/?)>
      | (?P<open><)                      # what nothing closes
    """,
    re.DOTALL | re.VERBOSE,
)
_ATTRIBUTE = re.compile(
    r"""(?<![^\s=/>"'])(?P<name>[^\s=/>"']++)\s*+=\s*+"""
    r"""(?:"(?P<double>[^"]*+)"|'(?P<single>[^']*+)')""",
    re.DOTALL,
)
#: MuJoCo's parser (tinyxml2) goes no deeper.
DEEPEST = 500

_NUMBER = re.compile(r'\S+')


def decode(content: bytes) -> str:
    """Decode a file so that encoding the text again gives the same bytes, whatever they are."""
    return content.decode('utf-8', 'surrogateescape')


def encode(text: str) -> bytes:
    """Undo `decode`."""
    return text.encode('utf-8', 'surrogateescape')


class _Written(NamedTuple):
    """Where the text has an attribute: its name, and its value between the quotes."""

    value: str
    start: int
    value_start: int
    value_end: int


class _OpeningTag(NamedTuple):
    """Where the text has an element: behind its name, behind its ``>``, and if that is ``/>``."""

    name_end: int
    end: int
    empty: bool


class _Splice(NamedTuple):
    start: int
    end: int
    text: str


class Element:
    """An element of a text, with the changes that are wanted in it, or a new one.

    Attributes:
        tag: Its name.
        parent: The element around it, which may be in another file; None for the root.
        children: Those that the text has, in its order.
    """

    def __init__(self, tag: str, **attributes: str) -> None:
        self.tag = tag
        self._read_as = tag
        self.parent: Element | None = None
        self.children: list[Element] = []
        self._added: list[Element] = []
        self._values: dict[str, str | None] = dict(attributes)
        self._renamed: dict[str, str] = {}
        self._written: dict[str, _Written] = {}
        self._opening: _OpeningTag | None = None

    def place(self, match: re.Match[str], parent: Element | None) -> Element:
        """Put it where a token of the text opens it, inside of another element; return it."""
        self._opening = _OpeningTag(match.end('tag'), match.end(), bool(match['slash']))
        offset = match.start('attributes')
        for entry in _ATTRIBUTE.finditer(match['attributes']):
            group = 'single' if entry['double'] is None else 'double'
            start, end = offset + entry.start(group), offset + entry.end(group)
            written = _Written(html.unescape(entry[group]), offset + entry.start(), start, end)
            self._written.setdefault(entry['name'], written)
        self.parent = parent
        if parent is not None:
            parent.children.append(self)
        return self

    @property
    def start(self) -> int:
        """Where the text opens it; 0 for a new one."""
        return self._opening.name_end - len(self._read_as) - 1 if self._opening else 0

    @property
    def attributes(self) -> dict[str, str]:
        """Names and values as the text has them, in its order."""
        return {name: written.value for name, written in self._written.items()}

    def start_of(self, name: str) -> int:
        """Return where in the text an attribute begins that the text has."""
        return self._written[name].start

    def get(self, name: str) -> str | None:
        """Return an attribute's value as changed so far; None where it is absent."""
        if name in self._values:
            return self._values[name]
        if name in self._renamed.values() or name not in self._written:
            return None
        return self._written[name].value

    def set(self, name: str, value: str) -> None:
        """Change an attribute, or add it behind the last one. The value must need no escaping."""
        self._values[name] = value

    def remove(self, name: str) -> None:
        """Remove an attribute and the white space before it."""
        self._values.pop(name, None)
        if name in self._written:
            self._values[name] = None

    def rename(self, old: str, new: str, value: str) -> None:
        """Put another attribute into the place of one; where that is absent, add it."""
        self._values.pop(old, None)
        if old in self._written and new not in self._written:
            self._renamed[new] = old
        self._values[new] = value

    def retag(self, tag: str) -> None:
        """Give an element without children another name."""
        self.tag = tag

    def add(self, child: Element) -> Element:
        """Put a new child in front of those of the text, indented as these, and return it.

        It may still be filled: its text is taken when the document is rendered.
        """
        self._added.append(child)
        return child

    def inside(self, tag: str) -> Iterator[Element]:
        """Yield the children of a tag, those of the text first."""
        return (child for child in (*self.children, *self._added) if child.tag == tag)

    def ancestors(self) -> Iterator[Element]:
        """Yield the elements around it, from the nearest to the root."""
        node = self.parent
        while node is not None:
            yield node
            node = node.parent

    def __str__(self) -> str:
        """Return the XML of a new element."""
        head = self.tag + ''.join(f' {name}="{text}"' for name, text in self._values.items())
        body = ''.join(map(str, self._added))
        return f'<{head}>{body}</{self.tag}>' if body else f'<{head}/>'

    def splices(self, text: str) -> Iterator[_Splice]:
        """Yield what is to be replaced in the text that has it."""
        if self._opening is None:
            return
        yield from self._tag_splices(text, self._opening)
        added = ''
        last = max(self._written.values(), key=lambda entry: entry.start, default=None)
        quote = text[last.value_end] if last else '"'
        for name, value in self._values.items():
            old = self._renamed.get(name, name)
            found = self._written.get(old)
            if found is None:
                added += f' {name}={quote}{value}{quote}'
            elif value is None:
                yield _Splice(len(text[: found.start].rstrip()), found.value_end + 1, '')
            else:
                yield _Splice(found.start, found.start + len(old), name)
                if value != found.value:
                    yield _Splice(found.value_start, found.value_end, value)
        if added:
            place = last.value_end + 1 if last else self._opening.name_end
            yield _Splice(place, place, added)
        if self._added:
            yield self._child_splice(text, self._opening)

    def _tag_splices(self, text: str, opening: _OpeningTag) -> Iterator[_Splice]:
        old = self._read_as
        if self.tag == old:
            return
        yield _Splice(opening.name_end - len(old), opening.name_end, self.tag)
        if not opening.empty:
            start = text.index(old, text.index('</', opening.end))
            yield _Splice(start, start + len(old), self.tag)

    def _child_splice(self, text: str, opening: _OpeningTag) -> _Splice:
        if opening.empty:
            body = ''.join(map(str, self._added))
            return _Splice(opening.end - 2, opening.end, f'>{body}</{self.tag}>')
        rest = text[opening.end :]
        space = rest[: len(rest) - len(rest.lstrip())]
        start = max(space.rfind('\r\n'), space.rfind('\n') if '\r\n' not in space else -1, 0)
        children = ''.join(f'{space[start:]}{child}' for child in self._added)
        return _Splice(opening.end, opening.end, children)


class Document:
    """One XML text and the changes that are wanted in it.

    Attributes:
        elements: All of them, in the order of the opening tags.
    """

    def __init__(self, text: str) -> None:
        """Locate every element."""
        self._text = text
        self.elements: list[Element] = []
        around: list[Element] = []
        for match in _TOKEN.finditer(text):
            if match['open']:
                line = text.count('\n', 0, match.start()) + 1
                raise ModelError(
                    f'Expected well-formed XML, found no end of the tag in line {line}.'
                )
            if match['close']:
                if not around or around.pop().tag != match['close']:
                    line = text.count('\n', 0, match.start()) + 1
                    found = f'</{match["close"]}> in line {line}'
                    raise ModelError(f'Expected well-formed XML, found a stray {found}.')
            elif match['tag']:
                element = Element(match['tag']).place(match, around[-1] if around else None)
                self.elements.append(element)
                if not match['slash']:
                    around.append(element)
                if len(around) > DEEPEST:
                    raise ModelError(
                        f'Expected elements inside of at most {DEEPEST} others, as MuJoCo reads '
                        f'them, found more at <{element.tag}>.'
                    )

    def line(self, element: Element, attribute: str) -> int:
        """Return the line, from 1, in which an element of the text has an attribute."""
        return bisect_left(self._line_ends, element.start_of(attribute)) + 1

    @functools.cached_property
    def _line_ends(self) -> list[int]:
        return [found.start() for found in re.finditer('\n', self._text)]

    def headed(self, comment: str) -> str:
        """Return the text with all changes, and a comment in front of the root element."""
        text, place = self.render(), self.elements[0].start
        inside = re.sub('-(?=-)', '- ', comment)  # XML has no -- in a comment
        return f'{text[:place]}<!-- {inside} -->\n{text[place:]}'

    @property
    def changed(self) -> bool:
        """Whether the text with all changes is another one."""
        return self.render() != self._text

    def render(self) -> str:
        """Return the text with all changes."""
        text = self._text
        splices = [splice for element in self.elements for splice in element.splices(text)]
        for start, end, replacement in sorted(splices, reverse=True):
            text = text[:start] + replacement + text[end:]
        return text


def number(value: float) -> str:
    """Write a number with the fewest digits that read back as the same double."""
    return repr(float(value)).removesuffix('.0')


def join(values: Iterable[float]) -> str:
    """Write several numbers."""
    return ' '.join(number(value) for value in values)


def numbers_of(element: Element, name: str) -> list[float]:
    """Read the numbers of an attribute; none where it is absent or says something else."""
    try:
        return [float(entry) for entry in (element.get(name) or '').split()]
    except ValueError:
        return []


def set_scalar(element: Element, name: str, value: float) -> None:
    """Write a number, unless the text says the same number already."""
    text = element.get(name)
    if text is None or not _same(text, value):
        element.set(name, number(value))


def set_vector(element: Element, name: str, values: Iterable[float]) -> None:
    """Write all components of an attribute, unless the text says the same numbers already."""
    wanted = [float(value) for value in values]
    for index in range(len(wanted)):
        set_component(element, name, index, wanted[index], wanted, len(wanted))


def set_component(
    element: Element,
    name: str,
    index: int,
    value: float,
    nominal: Iterable[float],
    least: int = 1,
) -> None:
    """Write one component of a vector attribute and leave the others' text.

    The nominal vector has the components that the text leaves to defaults; ``least`` is how many
    the attribute needs.
    """
    vector = [float(entry) for entry in nominal]
    text = element.get(name)
    if text is None:
        used = [place for place, entry in enumerate(vector) if entry != 0]
        vector[index] = value
        count = max(index + 1, least, *(place + 1 for place in used))
        element.set(name, join(vector[:count]))
        return
    numbers = list(_NUMBER.finditer(text))
    if index < len(numbers):
        match = numbers[index]
        if not _same(match[0], value):
            element.set(name, text[: match.start()] + number(value) + text[match.end() :])
        return
    added = [*vector[len(numbers) : index], value]
    element.set(name, f'{text.rstrip()} {join(added)}'.lstrip())


def _same(text: str, value: float) -> bool:
    try:
        return float(text) == value
    except ValueError:
        return False


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
GENERATORS = ('replicate', 'attach', 'composite', 'flexcomp')
_FOLDERS = ('meshdir', 'texturedir', 'assetdir')


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
                self.documents[path] = Document(decode(read_bytes(path)))
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
            if fits and section in around and not any(tag in GENERATORS for tag in around):
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


_LIBRARIES = ('libmujoco.so*', 'libmujoco*.dylib', 'mujoco.dll')
_LONG_NUMBER = re.compile(r'(?<![\w.])-?\d+\.\d{7,}(?:e[+-]\d+)?(?!\w)')


def exact_xml(spec: mujoco.MjSpec) -> str:
    """Return the MJCF of a spec."""
    with _all_digits():
        return _shortened(str(spec.to_xml()))


def exact_xml_of_last(model: mujoco.MjModel, path: Path) -> str:
    """Return the MJCF that ``mujoco.MjModel.from_xml_path`` read last, with a model's numbers.

    The file is written over.
    """
    with _all_digits():
        mujoco.mj_saveLastXML(str(path), model)
    return _shortened(path.read_text('utf-8'))


def _shortened(text: str) -> str:
    """Write each number with the fewest digits that read back as the same double."""
    return _LONG_NUMBER.sub(lambda found: repr(float(found[0])).removesuffix('.0'), text)


@contextmanager
def _all_digits() -> Iterator[None]:
    """Let MuJoCo write all digits: six unless told otherwise, by a function only its tests call.

    A MuJoCo without that function writes six; what is written from a model is compared with it.
    """
    folder = Path(mujoco.__file__).parent
    library = ctypes.CDLL(str(next(f for name in _LIBRARIES for f in folder.glob(name))))
    set_digits = getattr(library, '_mjPRIVATE__set_xml_precision', lambda _: None)
    set_digits(sys.float_info.dig + 2)  # these give the same double again
    try:
        yield
    finally:
        set_digits(6)
