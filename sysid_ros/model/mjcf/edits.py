# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Put each identified value where MJCF has it: in elements, options and default classes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sysid_ros.errors import ModelError
from sysid_ros.model.mjcf.actuators import GAINS, TAGS, spells_gain, write_delay, write_gain
from sysid_ros.model.mjcf.attributes import (
    AttributePlace,
    attribute_place,
    numbers_of,
    set_component,
    set_orientation,
    set_scalar,
    turns,
)
from sysid_ros.model.mjcf.inertials import ATTRIBUTES as INERTIAL
from sysid_ros.model.mjcf.inertials import write_inertials
from sysid_ros.model.mjcf.source import Rewrite, Source
from sysid_ros.model.mjcf.text import Element
from sysid_ros.model.targets import Role, Target, read_spec

_MAIN = 'main'
#: Widths and ends of ranges around zero: the attributes that are those ranges, and their upper end.
_AROUND_ZERO = {
    ('tendon', 'play'): ('range', 0.5),
    ('tendon', 'deadband'): ('springlength', 0.5),
    ('actuator', 'forcelimit'): ('forcerange', 1.0),
}


class _Classes:
    """The default classes of a text."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._nodes: dict[str, list[Element]] = {}
        self._below: dict[str, list[str]] = {}
        self._drafts: dict[tuple[str, str], Element] = {}
        for node in source.nodes:
            if node.tag == 'default':
                name = node.get('class') or _MAIN
                self._nodes.setdefault(name, []).append(node)
                if node.parent is not None and node.parent.tag == 'default':
                    above = node.parent.get('class') or _MAIN
                    self._below.setdefault(above, []).append(name)

    def holders(
        self, name: str, element: str, path: str, says: Callable[[Element], bool | None]
    ) -> list[Element]:
        """Return all elements of the text that must change for a class to give another value.

        These are the element of the class, which is added where there is none, and everything
        below that repeats the attribute of the class.

        Args:
            name: The class.
            element: Kind of the elements that take the value.
            path: The target, for the message.
            says: Whether what an element gives of the attribute is what the class gives so far;
                None where it gives nothing.

        Raises:
            ModelError: The text has no such class: it comes with an attached model.
        """
        if name not in self._nodes and name != _MAIN:
            raise ModelError(f'{path!r} is of a class that the MJCF text does not have.')
        own = self._of_class(name, element)
        saying = [node for node in own if says(node) is not None]
        first = (saying or own)[-1] if own else self._added(name, element)
        names = list(self._followers(name, element, says))
        below = [node for follower in names[1:] for node in self._of_class(follower, element)]
        every = self._source.of_kind(element)
        below += [node for node in every if self._class_of(node) in names]
        return [first, *(node for node in below if says(node))]

    def _of_class(self, name: str, element: str) -> list[Element]:
        tags = TAGS if element == 'actuator' else (element,)
        holders = self._nodes.get(name, [])
        return [n for n in self._source.nodes if n.parent in holders and n.tag in tags]

    def _followers(
        self, name: str, element: str, says: Callable[[Element], bool | None]
    ) -> Iterator[str]:
        """Yield the class and those below that give the same."""
        yield name
        for below in self._below.get(name, []):
            if all(says(node) is not False for node in self._of_class(below, element)):
                yield from self._followers(below, element, says)

    @staticmethod
    def _class_of(node: Element) -> str:
        names = [node.get('class'), *(around.get('childclass') for around in node.ancestors())]
        return next((name for name in names if name is not None), _MAIN)

    def _added(self, name: str, element: str) -> Element:
        if (name, element) not in self._drafts:
            draft = Element('general' if element == 'actuator' else element)
            if name in self._nodes:
                self._nodes[name][-1].add(draft)
            else:
                section = Element('default')
                section.add(draft)
                self._source.nodes[0].add(section)
            self._drafts[name, element] = draft
        return self._drafts[name, element]


def write_values(rewrite: Rewrite, values: Iterable[tuple[Target, float]]) -> None:
    """Write values into the text of a model.

    What is rare is not written right here, as places inside of a ``<frame>``: the caller compares
    what the new text compiles to.

    Raises:
        ModelError: The text cannot hold a value.
    """
    changed = [(target, value) for target, value in values if _present(rewrite, target) != value]
    write_inertials(rewrite, (target for target, _ in changed if _is_inertial(target)))
    classes = _Classes(rewrite.source)
    added: Element | None = None
    for target, value in changed:
        if _is_inertial(target):
            continue
        if target.element == 'option':
            added = _write_option(rewrite, target, value, added)
        elif target.element == 'default':
            _write_class(rewrite, classes, target, value)
        else:
            _write_named(rewrite, target, value)


def _present(rewrite: Rewrite, target: Target) -> float | None:
    """Return what the model says of a target, None where that is left open."""
    if target.role is Role.FIELD:
        return target.read(rewrite.nominal)
    return read_spec(rewrite.spec, target) if target.role is Role.SPEC else None


def _is_inertial(target: Target) -> bool:
    return target.element == 'body' and target.attribute in INERTIAL


def _write_named(rewrite: Rewrite, target: Target, value: float) -> None:
    element, attribute = target.element, target.attribute
    node = rewrite.source.find(element, target.name)
    if node.tag == 'freejoint':
        raise ModelError(f'{target.path!r} is of a <freejoint>, which has no attributes.')
    if element == 'actuator' and attribute == 'delay':
        write_delay(rewrite, node, target, value)
    elif element == 'actuator' and attribute in GAINS:
        model, row = rewrite.nominal, target.row
        write_gain(
            rewrite, node, target, value, lambda name: getattr(model, f'actuator_{name}')[row]
        )
    elif attribute == 'quat' and element in ('body', 'site'):
        set_orientation(node, getattr(rewrite.fitted, f'{element}_quat')[target.row])
    elif (element, attribute) == ('tendon', 'springlength'):
        ends = [float(end) for end in rewrite.fitted.tendon_lengthspring[target.row]]
        if len(numbers_of(node, 'springlength')) <= 1 and ends[0] == ends[1]:
            set_scalar(node, 'springlength', ends[0])
            return
        for index, end in enumerate(ends):
            set_component(node, 'springlength', index, end, ends, 2)
    elif (element, attribute) in _AROUND_ZERO:
        name, share = _AROUND_ZERO[element, attribute]
        ends = [-share * value, share * value]
        for index, end in enumerate(ends):
            set_component(node, name, index, end, ends, 2)
    else:
        owner = getattr(rewrite.spec, element)(target.name)
        _place(rewrite, target, owner).write(node, value)


def _place(rewrite: Rewrite, target: Target, owner: Any) -> AttributePlace:
    element, attribute = target.element_and_attribute
    degrees = False
    if element == 'joint' and rewrite.spec.compiler.degree:
        row = target.rows[0] if target.rows else target.row
        if target.rows and target.role is Role.SPEC:  # positions in the spec
            row = int(rewrite.spec.joints[row].id)
        degrees = turns(rewrite.nominal, row)
    return attribute_place(owner, element, attribute, target.index or 0, degrees=degrees)


def _write_option(
    rewrite: Rewrite, target: Target, value: float, added: Element | None
) -> Element | None:
    """Write an option where it counts; return the <option> that had to be added."""
    place = _place(rewrite, target, rewrite.spec.option)
    options = [node for node in rewrite.source.nodes if node.tag == 'option']
    if options:
        # The last one that sets an attribute wins.
        holders = [node for node in options if node.get(place.name) is not None]
        place.write((holders or options)[-1], value)
        return None
    added = added or rewrite.source.nodes[0].add(Element('option'))
    place.write(added, value)
    return added


def _write_class(rewrite: Rewrite, classes: _Classes, target: Target, value: float) -> None:
    element, attribute = target.element_and_attribute
    owner = getattr(rewrite.spec.find_default(target.name), element)
    gain = element == 'actuator' and attribute in GAINS
    so_far = target.read(rewrite.nominal) if gain else 0.0

    def parameters(name: str) -> NDArray[np.float64]:
        return np.array(getattr(owner, name), dtype=np.float64)

    def says(node: Element) -> bool | None:
        """Compare numbers of the text, which may be fewer, with those of the class."""
        if gain:
            spellings = spells_gain(node.tag, rewrite, target)
            if not spellings:
                return None
            name, place, factor = spellings[0]
            values = [factor * so_far] if place is None else parameters(name).tolist()
        else:
            found = _place(rewrite, target, owner)
            name, place, values = found.name, found.index, found.vector.tolist()
        text = numbers_of(node, name)
        return text == values[: len(text)] if (place or 0) < len(text) else None

    for holder in classes.holders(target.name, element, target.path, says):
        if gain:
            write_gain(rewrite, holder, target, value, parameters)
        else:
            _place(rewrite, target, owner).write(holder, value)
