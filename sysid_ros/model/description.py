# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What a model's path stands for: MJCF, URDF, xacro, or the description in a recording."""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote
from xml.sax.saxutils import quoteattr

import mujoco
import numpy as np
from numpy.typing import NDArray

from sysid_ros.errors import ModelError, listed, nearest, one_sentence
from sysid_ros.files import read_bytes, sha256
from sysid_ros.model import apart
from sysid_ros.model.elements import SAME
from sysid_ros.model.packages import find_package
from sysid_ros.model.xml_text import (
    GENERATORS,
    Document,
    Element,
    Source,
    absolute,
    decode,
    exact_xml,
)

_URDF, _XACRO, _MJCF = '.urdf', '.xacro', '.xml'
_BAGS = ('.mcap', '.db3', '.bag', '.zstd')
#: Where robots say what they are.
_TOPIC = '*/robot_description'


class Description(NamedTuple):
    """The texts of a model."""

    path: Path  # what was read
    mjcf: str | None = None  # what is simulated; None where the path is an MJCF file itself
    urdf: str | None = None  # what that was made from; None where there is none
    notes: tuple[str, ...] = ()  # what a reader has to know, a sentence each

    @property
    def name(self) -> str:
        """How the MJCF is called."""
        name = self.path.name
        if self.mjcf is None:
            return name
        if _is_bag(self.path):
            return 'robot_description.xml'
        return name.removesuffix(_XACRO).removesuffix(_URDF).removesuffix(_MJCF) + _MJCF

    @property
    def sha256(self) -> str:
        """Of the file, or of the description in a recording."""
        if _is_bag(self.path):
            return hashlib.sha256((self.urdf or self.mjcf or '').encode()).hexdigest()
        return sha256(self.path)


def read_description(path: Path, packages: Sequence[Path] = ()) -> Description:
    """Read what a path says about a robot.

    Args:
        path: An MJCF file, a URDF, a xacro file, or a bag with a ``robot_description``.
        packages: Folders of packages that a URDF or xacro may refer to, or that hold such folders.

    Raises:
        ModelError: There is no such file, or it cannot be converted.
        BagError: It is a bag that cannot be read.
    """
    if _is_bag(path):
        return _converted(_in_bag(path), path, packages)
    if not path.exists():
        ends = (_MJCF, _URDF, _XACRO)
        near = [entry.name for entry in path.parent.glob('*') if entry.suffix in ends]
        raise ModelError(f'No model file {str(path)!r}; {nearest(path.name, sorted(near))}.')
    try:
        text = decode(read_bytes(path))
    except OSError as err:
        raise ModelError(f'Cannot read the model {str(path)!r}: {err.strerror}.') from err
    if path.suffix == _XACRO:
        found = _converted(_expanded(path, packages), path, packages)
        note = 'The URDF is what xacro makes of its file without arguments.'
        return found._replace(notes=(note, *found.notes))
    is_urdf = path.suffix == _URDF or '<robot' in text
    if is_urdf:
        return _converted(text, path, packages)
    if any(f'<{tag}' in text for tag in GENERATORS):
        apart.run('mujoco', path)
    return Description(path)


def _is_bag(path: Path) -> bool:
    return path.is_dir() or path.suffix in _BAGS


def _converted(text: str, path: Path, packages: Sequence[Path]) -> Description:
    elements = Document(text).elements
    if elements and elements[0].tag == 'mujoco':
        # The simulated robot describes itself so, and as a file MuJoCo reads it best itself.
        in_file = path.is_file() and path.suffix in {_MJCF, _URDF}
        return Description(path, None if in_file else text)
    return convert(text, path, packages)


def _in_bag(path: Path) -> str:
    """Return the description in a recording."""
    from sysid_ros.bags.reader import (  # noqa: PLC0415 (who has a model's file waits for no reader)
        read_bag,
    )

    bag = read_bag(path, [_TOPIC])
    noted = bag.facts.get('robot_description')
    # Who records may note what a latched topic says without recording it.
    texts = dict(bag.texts) or ({'noted by the recorder': noted} if noted else {})
    if len(set(texts.values())) > 1:
        raise ModelError(
            f'Expected one robot_description in {str(path)!r}, found {", ".join(texts)}; save the '
            'one you mean as a file and name it as the model.'
        )
    if not texts:
        raise ModelError(
            f'Expected a robot_description in {str(path)!r}, found none; name a model file.'
        )
    return next(iter(texts.values()))


def _expanded(path: Path, packages: Sequence[Path]) -> str:
    """Let xacro make a URDF."""
    by_hand = f'`xacro {path.name} > {path.name.removesuffix(_XACRO)}`'
    if importlib.util.find_spec('xacro') is None:
        raise ModelError(
            f'Cannot read {str(path)!r} without the Python package xacro; `pip install xacro`, or '
            f'make the URDF with {by_hand} and name that as the model.'
        )
    found = apart.run('xacro', path, packages)
    if 'absent' in found:
        raise ModelError(
            f'Cannot find the ROS package {found["absent"]!r} for {str(path)!r}; name its folder '
            'with --package-path, or package_path in calibration.yaml.'
        )
    if 'refused' in found:
        raise ModelError(
            f'xacro refuses {str(path)!r}: {found["refused"]}; where it needs arguments, make the '
            f'URDF with {by_hand.replace(" >", " NAME:=VALUE >")}.'
        )
    return found['text']


#: What MuJoCo reads.
_FORMATS = ('.stl', '.obj', '.msh')
#: What moves and has no mass gets this one, kg; a body without an inertia, that of a solid ball of
#: this radius, m.
_MASS, _RADIUS = 1e-3, 0.02
_WORLD = 'world'
#: How MuJoCo is to read a URDF: links that are fixed stay bodies, an inertia that no body can have
#: becomes a ball's, and shapes weigh nothing.
_COMPILER = {
    'fusestatic': 'false',
    'balanceinertia': 'true',
    'discardvisual': 'false',
    'inertiafromgeom': 'false',
    'strippath': 'false',
}


def convert(text: str, path: Path, packages: Sequence[Path] = ()) -> Description:
    """Turn a URDF into MJCF by MuJoCo's own importer.

    Each link is a body of its name, also where it is fixed to another. The root stands still,
    unless it is called ``world`` and a floating joint moves what is below. Shapes are for the eye:
    they touch nothing, so that a model does not depend on which meshes are found.

    Raises:
        ModelError: It is no URDF, or MuJoCo refuses it.
    """
    try:
        robot = ET.fromstring(text)  # noqa: S314 (the expat of today limits entities)
    except ET.ParseError as err:
        raise ModelError(f'Cannot read the URDF {str(path)!r}: {err}.') from err
    if robot.tag != 'robot':
        raise ModelError(f'Expected <robot> at the top of {str(path)!r}, found {robot.tag}.')
    absent = _find_shapes(robot, path.parent, packages)
    _prepare(robot)
    try:
        spec = mujoco.MjSpec.from_string(ET.tostring(robot, encoding='unicode'))
        for geom in spec.geoms:
            geom.contype = geom.conaffinity = 0
        for mesh in spec.meshes:  # of a surface no volume is needed
            mesh.inertia = mujoco.mjtMeshInertia.mjMESH_INERTIA_SHELL
        massless = _give_mass(spec)
        mended = _mended(spec)
    except (ValueError, mujoco.FatalError) as err:
        raise ModelError(f'Cannot read the URDF {str(path)!r}: {one_sentence(err)}.') from err
    notes = _notes(spec, robot, absent)
    if massless:
        notes.append(
            'These links move and have no mass or inertia, so each got that of a ball of '
            f'{1e3 * _MASS:g} g or of its mass: {listed(massless)}.'
        )
    if mended:
        names = listed(mended)
        notes.append(f'No body has the inertia of these links, so each got another: {names}.')
    return Description(path, exact_xml(spec), text, tuple(notes))


def _prepare(robot: ET.Element) -> None:
    """Say how MuJoCo is to read a URDF, and declare the world, which some readers know without."""
    extension = robot.find('mujoco')
    if extension is None:
        extension = ET.SubElement(robot, 'mujoco')
    for compiler in extension.findall('compiler'):
        extension.remove(compiler)
    ET.SubElement(extension, 'compiler', _COMPILER)
    links = {link.get('name') for link in robot.iterfind('link')}
    parents = {parent.get('link') for parent in robot.iterfind('joint/parent')}
    if _WORLD in parents - links:
        ET.SubElement(robot, 'link', name=_WORLD)


def _notes(spec: mujoco.MjSpec, robot: ET.Element, absent: dict[str, str]) -> list[str]:
    """Say what there is to know of any URDF."""
    children = {child.get('link') for child in robot.iterfind('joint/child')}
    notes = [
        f'{body.name!r} stands still; for a robot that moves as a whole, put a link {_WORLD!r} and '
        'a floating joint above it.'
        for body in spec.worldbody.bodies
        if body.name not in children
    ]
    if spec.geoms or absent:
        notes.append(
            'The shapes of the URDF touch nothing here; for contacts, take the converted MJCF as '
            'the model and let its geoms collide.'
        )
    if absent:
        files = [f'{uri} ({reason})' for uri, reason in absent.items()]
        notes.append(f'Meshes that are left out, which changes the view only: {listed(files)}.')
    return notes


def _find_shapes(robot: ET.Element, near: Path, packages: Sequence[Path]) -> dict[str, str]:
    """Keep collision shapes, their meshes by absolute paths; return what is of no use, and why."""
    absent: dict[str, str] = {}
    for link in robot.iterfind('link'):
        for visual in link.findall('visual'):
            link.remove(visual)
        for collision in link.findall('collision'):
            mesh = collision.find('geometry/mesh')
            if mesh is not None:
                uri = mesh.get('filename', '')
                found = find_mesh(uri, near, packages)
                if isinstance(found, str):
                    absent[uri] = found
                    link.remove(collision)
                mesh.set('filename', str(found))
    return absent


def _give_mass(spec: mujoco.MjSpec) -> list[str]:
    """Give what moves and has no inertia that of a small ball; return the names of those."""
    found = []
    for body in spec.bodies:
        if body.joints and not _carries_mass(body) and not _moments(body).any():
            body.mass = body.mass or _MASS
            body.ipos = np.nan_to_num(body.ipos)  # a link without an <inertial> has none
            body.fullinertia = np.full(6, np.nan)
            body.inertia = np.full(3, 0.4 * body.mass * _RADIUS**2)
            body.explicitinertial = True
            found.append(body.name)
    return found


def _carries_mass(body: mujoco.MjsBody) -> bool:
    """Whether a link that is fixed to one has mass."""
    fixed = [below for below in body.bodies if not below.joints]
    return any(below.mass > 0 or _carries_mass(below) for below in fixed)


def _mended(spec: mujoco.MjSpec) -> list[str]:
    """Return the names of the links whose inertia is replaced: here, or by the compiler."""
    indefinite = [b for b in spec.bodies if b.explicitinertial and _moments(b)[0] < 0]
    for body in indefinite:
        # The compiler refuses such a matrix. Its trace stays; a ball has the same about each axis.
        body.inertia = np.full(3, max(_moments(body).mean(), 0.0))
        body.fullinertia = np.full(6, np.nan)
    model = spec.copy().compile()
    bodies = [body for body in spec.bodies if body.explicitinertial]
    return [
        body.name
        for body in bodies
        if body in indefinite
        or not np.allclose(np.sort(model.body(body.name).inertia), _moments(body), rtol=SAME)
    ]


def _moments(body: mujoco.MjsBody) -> NDArray[np.float64]:
    """Return the principal moments that a body of a spec is told, increasing."""
    full = body.fullinertia
    if not np.isfinite(full).all():
        return np.sort(body.inertia)
    six = full[[[0, 3, 4], [3, 1, 5], [4, 5, 2]]]
    return np.asarray(np.linalg.eigvalsh(six))


def find_mesh(uri: str, near: Path, given: Sequence[Path]) -> Path | str:
    """Find the file of a mesh; a sentence's part that says why not where it is of no use.

    The URI is ``package://``, ``file://``, or a path relative to the folder of the URDF.
    """
    scheme, separator, rest = uri.partition('://')
    if not separator:
        path = near / uri
    elif scheme in {'package', 'model'}:
        package, _, inside = unquote(rest).partition('/')
        folder = find_package(package, near, given)
        if folder is None:
            return f'no package {package!r}'
        path = folder / inside
    else:
        path = Path(unquote(rest))
    if not path.is_file():
        return 'no such file'
    if path.suffix.lower() not in _FORMATS:
        return f'MuJoCo reads {", ".join(_FORMATS)}'
    path = path.resolve()
    return 'MuJoCo refuses it' if not _readable(path, path.stat().st_mtime_ns) else path


@functools.cache
def _readable(path: Path, _changed_ns: int) -> bool:
    """Whether MuJoCo compiles a mesh: one bad file must not cost the model."""
    asset = f'<mesh name="mesh" file={quoteattr(str(path))} inertia="shell"/>'
    try:
        mujoco.MjModel.from_xml_string(f'<mujoco><asset>{asset}</asset></mujoco>')
    except ValueError:
        return False
    return True


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
