# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Put each identified value where MJCF has it: in elements, options and default classes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sysid_ros.errors import ModelError
from sysid_ros.model.mjcf.actuators import (
    GAINS,
    TAGS,
    own_range,
    spells_gain,
    write_delay,
    write_gain,
)
from sysid_ros.model.mjcf.attributes import (
    AttributePlace,
    attribute_place,
    frames_around,
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

#: Fields that hold places and orientations, which the text may have relative to a <frame>.
_PLACES = {
    ('joint', 'pos'): 'jnt_pos',
    ('body', 'pos'): 'body_pos',
    ('site', 'pos'): 'site_pos',
}
_ORIENTATIONS = {('body', 'quat'): 'body_quat', ('site', 'quat'): 'site_quat'}


_MAIN = 'main'


class _Said(NamedTuple):
    """What an element of the text itself says about a number that a class gives.

    Attributes:
        given: Whether it gives the number.
        same: Whether all that it gives of the attribute is what the class gives.
    """

    given: bool
    same: bool

    @classmethod
    def of(cls, text: Sequence[float], values: Sequence[float], index: int) -> _Said:
        """Compare numbers of the text, which may be fewer, with those of the class."""
        return cls(index < len(text), list(text) == list(values[: len(text)]))


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
        self,
        name: str,
        element: str,
        path: str,
        says: Callable[[Element], _Said],
        can_say: Callable[[Element], bool],
    ) -> list[Element]:
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
            raise ModelError(
                f'Cannot write {path!r} back: expected the class {name!r} in the MJCF text.'
            )
        own = [node for node in self._of_class(name, element) if can_say(node)]
        saying = [node for node in own if says(node).given]
        first = (saying or own)[-1] if own else self._added(name, element)
        names = list(self._followers(name, element, lambda node: says(node).same))
        below = [node for follower in names[1:] for node in self._of_class(follower, element)]
        every = self._source.of_kind(element, generated=True)
        below += [node for node in every if self._class_of(node) in names]
        return [first, *(node for node in below if says(node).given and says(node).same)]

    def _of_class(self, name: str, element: str) -> list[Element]:
        tags = TAGS if element == 'actuator' else (element,)
        holders = self._nodes.get(name, [])
        return [n for n in self._source.nodes if n.parent in holders and n.tag in tags]

    def _followers(
        self, name: str, element: str, follows: Callable[[Element], bool]
    ) -> Iterator[str]:
        """Yield the class and those below that give the same."""
        yield name
        for below in self._below.get(name, []):
            if all(follows(node) for node in self._of_class(below, element)):
                yield from self._followers(below, element, follows)

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


#: Widths and ends of ranges around zero: the attributes that are those ranges, and their upper end.
_AROUND_ZERO = {
    ('tendon', 'play'): ('range', 0.5),
    ('tendon', 'deadband'): ('springlength', 0.5),
    ('actuator', 'forcelimit'): ('forcerange', 1.0),
}


class Editor:
    """Writes values into the text of a model."""

    def __init__(self, rewrite: Rewrite) -> None:
        self._rewrite = rewrite
        self._classes = _Classes(rewrite.source)

    def write(self, values: Iterable[tuple[Target, float]]) -> None:
        """Write values.

        Raises:
            ModelError: The text cannot hold a value.
        """
        changed = [(target, value) for target, value in values if self._present(target) != value]
        write_inertials(self._rewrite, (t for t, _ in changed if _is_inertial(t)))
        options: Element | None = None
        for target, value in changed:
            if _is_inertial(target):
                continue
            if target.element == 'option':
                options = self._option(target, value, options)
            elif target.element == 'default':
                self._class(target, value)
            else:
                self._named(target, value)

    def _present(self, target: Target) -> float | None:
        """Return what the model says of a target, None where that is left open."""
        if target.role is Role.FIELD:
            return target.read(self._rewrite.nominal)
        return read_spec(self._rewrite.spec, target) if target.role is Role.SPEC else None

    def _named(self, target: Target, value: float) -> None:
        rewrite, key = self._rewrite, (target.element, target.attribute)
        node = rewrite.source.find(target.element, target.name, target.path)
        if node.tag == 'freejoint':
            raise ModelError(
                f'Cannot write {target.path!r} back: <freejoint> has no attributes; write it as '
                '<joint type="free">.'
            )
        if target.element == 'actuator' and target.attribute == 'delay':
            write_delay(rewrite, node, target, value)
        elif target.element == 'actuator' and target.attribute in GAINS:
            row, nominal = target.row, rewrite.nominal
            write_gain(
                rewrite, node, target, value, lambda name: getattr(nominal, f'actuator_{name}')[row]
            )
        elif key in _PLACES and target.role is Role.FIELD:
            self._place(node, target, value)
        elif key in _ORIENTATIONS and target.role is Role.FIELD:
            self._orientation(node, target)
        elif key == ('tendon', 'springlength'):
            self._springlength(node, target)
        elif key in _AROUND_ZERO:
            attribute, share = _AROUND_ZERO[key]
            ends = (-share * value, share * value)
            for index, end in enumerate(ends):
                set_component(node, attribute, index, end, ends, 2)
        elif target.attribute in ('ctrlrange', 'actrange') and own_range(rewrite, node, target.row):
            return
        else:
            owner = getattr(rewrite.spec, target.element)(target.name)
            self._attribute_place(target, owner).write(node, value)

    def _attribute_place(self, target: Target, owner: Any) -> AttributePlace:
        element, attribute = target.element_and_attribute
        degrees = False
        if element == 'joint' and self._rewrite.spec.compiler.degree:
            row = target.rows[0] if target.rows else target.row
            if target.rows and target.role is Role.SPEC:  # positions in the spec
                row = int(self._rewrite.spec.joints[row].id)
            degrees = turns(self._rewrite.nominal, row)
        return attribute_place(owner, element, attribute, target.index or 0, degrees=degrees)

    def _place(self, node: Element, target: Target, value: float) -> None:
        _refuse_ends(node, target)
        rewrite = self._rewrite
        frame = frames_around(node, rewrite.spec)
        made = np.array(getattr(rewrite.fitted, _PLACES[target.element, 'pos'])[target.row])
        if frame is None:
            set_component(node, 'pos', target.index or 0, value, made, 3)
            return
        for axis, number in enumerate(frame.place_inside(made)):
            set_component(node, 'pos', axis, float(number), np.zeros(3), 3)

    def _orientation(self, node: Element, target: Target) -> None:
        _refuse_ends(node, target)
        rewrite = self._rewrite
        frame = frames_around(node, rewrite.spec)
        made = np.array(getattr(rewrite.fitted, _ORIENTATIONS[target.element, 'quat'])[target.row])
        set_orientation(node, made if frame is None else frame.orientation_inside(made))

    def _springlength(self, node: Element, target: Target) -> None:
        shortest, longest = (float(v) for v in self._rewrite.fitted.tendon_lengthspring[target.row])
        one = len((node.get('springlength') or '').split()) <= 1
        if one and shortest == longest:
            set_scalar(node, 'springlength', shortest)
            return
        for index, length in enumerate((shortest, longest)):
            set_component(node, 'springlength', index, length, (shortest, longest), 2)

    def _option(self, target: Target, value: float, added: Element | None) -> Element | None:
        """Write an option where it counts; return the <option> that had to be added."""
        place = self._attribute_place(target, self._rewrite.spec.option)
        options = [node for node in self._rewrite.source.nodes if node.tag == 'option']
        if options:
            # The last one that sets an attribute wins.
            holders = [node for node in options if node.get(place.name) is not None]
            place.write((holders or options)[-1], value)
            return None
        if added is None:
            added = Element('option')
            self._rewrite.source.nodes[0].add(added)
        place.write(added, value)
        return added

    def _class(self, target: Target, value: float) -> None:
        element, attribute = target.element_and_attribute
        owner = getattr(self._rewrite.spec.find_default(target.name), element)
        if element == 'actuator' and attribute in GAINS:
            self._class_gain(target, value, owner)
            return
        place = self._attribute_place(target, owner)
        index = place.index or 0

        def says(node: Element) -> _Said:
            return _Said.of(numbers_of(node, place.name), place.vector.tolist(), index)

        for holder in self._classes.holders(
            target.name, element, target.path, says, lambda _: True
        ):
            place.write(holder, value)

    def _class_gain(self, target: Target, value: float, owner: Any) -> None:
        rewrite, row = self._rewrite, target.rows[0]
        so_far = target.read(rewrite.nominal)

        def parameters(name: str) -> NDArray[np.float64]:
            return np.array(getattr(owner, name), dtype=np.float64)

        def can_say(node: Element) -> bool:
            return bool(spells_gain(node.tag, rewrite, target, row))

        def says(node: Element) -> _Said:
            if not can_say(node):
                return _Said(given=False, same=True)
            first = spells_gain(node.tag, rewrite, target, row)[0]
            text = numbers_of(node, first.attribute)
            if first.place is None:
                return _Said.of(text, [first.factor * so_far], 0)
            values = [float(parameters(name)[place]) for name, place in first.vector]
            return _Said.of(text, values, first.place)

        for holder in self._classes.holders(target.name, 'actuator', target.path, says, can_say):
            write_gain(rewrite, holder, target, value, parameters)


def _is_inertial(target: Target) -> bool:
    return target.element == 'body' and target.attribute in INERTIAL


def _refuse_ends(node: Element, target: Target) -> None:
    if node.get('fromto') is not None:
        raise ModelError(
            f'Cannot write {target.path!r} back: <{node.tag}> is placed by fromto; give it '
            'pos, quat and size.'
        )
