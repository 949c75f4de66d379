# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Editing attributes in XML text."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sysid_ros.errors import ModelError
from sysid_ros.model.xml_text import Document, Element, decode, encode

pytestmark = pytest.mark.slow


SPACE = st.sampled_from([' ', '  ', '\n', '\r\n    ', '\t', '\n\n  '])
LOOSE = st.sampled_from(['', ' ', '\n'])
VALUE = st.text(st.sampled_from('0123456789.- <>=/é[]!'), max_size=8).map(
    lambda text: text.replace('<', '&lt;')
)
COMMENT = st.sampled_from(
    [
        '',
        '\n',
        '<!-- <joint name="a" armature="9"/> -->',
        '<!-- unbalanced " and \' and > -->',
        "<?note a='1' > ?>",
        '<![CDATA[<joint armature="7">]]>',
    ]
)


class Piece(NamedTuple):
    """One attribute as it is written."""

    space: str
    name: str
    equals: str
    quote: str
    value: str

    def text(self) -> str:
        """Return the attribute with the space before it."""
        return f'{self.space}{self.name}{self.equals}{self.quote}{self.value}{self.quote}'


@st.composite
def pieces(draw: st.DrawFn) -> list[Piece]:
    names = draw(
        st.lists(
            st.sampled_from(['name', 'kp', 'xkp', 'kpx', 'gear', 'damping', 'a:b']),
            min_size=1,
            unique=True,
        )
    )
    return [
        Piece(
            draw(SPACE),
            name,
            f'{draw(LOOSE)}={draw(LOOSE)}',
            draw(st.sampled_from('"\'')),
            draw(VALUE),
        )
        for name in names
    ]


@st.composite
def layouts(draw: st.DrawFn) -> tuple[str, list[Piece], str]:
    head = f'{draw(COMMENT)}<root>{draw(COMMENT)}<joint' + draw(
        st.sampled_from(['/>', ' armature="1 > 0"/>', " armature='<\"'></joint>"])
    ).replace('<"', '"')
    tail = draw(LOOSE) + draw(st.sampled_from(['/>', '></motor>']))
    return f'{head}{draw(COMMENT)}<motor', draw(pieces()), f'{tail}{draw(COMMENT)}</root>\r\n'


def assemble(head: str, attributes: list[Piece], tail: str) -> str:
    return head + ''.join(piece.text() for piece in attributes) + tail


def motor(document: Document) -> Element:
    return next(element for element in document.elements if element.tag == 'motor')


@pytest.mark.parametrize('change', ['set', 'remove', 'rename'])
@given(layout=layouts(), data=st.data())
def test_changing_an_attribute_changes_nothing_else(
    change: str, layout: tuple[str, list[Piece], str], data: st.DataObject
) -> None:
    head, attributes, tail = layout
    place = data.draw(st.integers(0, len(attributes) - 1))
    document, old = Document(assemble(head, attributes, tail)), attributes[place]
    if change == 'set':
        motor(document).set(old.name, '-3.5')
        attributes[place] = old._replace(value='-3.5')
    elif change == 'rename':
        motor(document).rename(old.name, 'kv', '2')
        attributes[place] = old._replace(name='kv', value='2')
    else:  # with the white space before it
        motor(document).remove(old.name)
        del attributes[place]
    assert document.render() == assemble(head, attributes, tail)


@given(layouts())
def test_adding_an_attribute_keeps_all_others(layout: tuple[str, list[Piece], str]) -> None:
    head, attributes, tail = layout
    document = Document(assemble(head, attributes, tail))
    motor(document).set('kv', '2')
    added = attributes[-1]._replace(space=' ', name='kv', equals='=', value='2')
    assert document.render() == assemble(head, [*attributes, added], tail)


@given(layouts())
def test_elements_and_values_are_those_that_an_xml_parser_finds(
    layout: tuple[str, list[Piece], str],
) -> None:
    head, attributes, tail = layout
    text = assemble(head, [piece for piece in attributes if ':' not in piece.name], tail)
    start = text.index('<root>')  # character data and text are not allowed before the root
    document, tree = Document(text[start:]), ET.fromstring(text[start:])  # noqa: S314
    assert [element.tag for element in document.elements] == [node.tag for node in tree.iter()]
    for element, node in zip(document.elements, tree.iter(), strict=True):
        found = {n: ' '.join(value.split()) for n, value in element.attributes.items()}
        assert found == {name: ' '.join(value.split()) for name, value in node.attrib.items()}


@given(st.binary())
def test_any_bytes_survive_decoding_and_encoding(content: bytes) -> None:
    assert encode(decode(content)) == content


def test_a_child_takes_the_indentation_of_the_first_one() -> None:
    document = Document('<a>\r\n\r\n    <b/>\r\n</a>')
    document.elements[0].add(Element('c'))
    assert document.render() == '<a>\r\n    <c/>\r\n\r\n    <b/>\r\n</a>'


def test_a_child_opens_an_empty_element() -> None:
    document = Document('<r><a b="1" /></r>')
    document.elements[1].add(Element('c'))
    document.elements[1].set('b', '2')
    assert document.render() == '<r><a b="2" ><c/></a></r>'


@pytest.mark.parametrize(
    'text', ['<r><motor /><a/></r>', '<r><motor> <!-- motor --> </motor ></r>']
)
def test_an_element_without_children_may_be_called_otherwise(text: str) -> None:
    document = Document(text)
    document.elements[1].retag('general')
    document.elements[1].set('b', '1')
    wanted = text.replace('<motor', '<general b="1"').replace('</motor', '</general')
    assert document.render() == wanted


def test_a_stray_closing_tag_is_an_error_with_its_line() -> None:
    with pytest.raises(ModelError, match='stray </b> in line 2'):
        Document('<a>\n</b></a>')
