# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Hostile files and values, and the command lines that they are put into."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import socket
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from shared.common import ROOT

_BAGS, _TABLES = ('.mcap', '.db3', '.bag', '.zstd'), ('.csv', '.parquet')
#: Endings of files, and command lines with a file in the place of ``@``.
FILES: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = (
    (
        (*_BAGS, *_TABLES),
        (
            'inspect @',
            'inspect @ arm.xml',
            'recover @ -o OUT',
            'convert @ arm.xml -o OUT',
            'map @ arm.xml',
            'init @ arm.xml -o OUT/c.yaml',
            'init train @',
            'predict arm.xml @ -o OUT',
            'check calibration.yaml @ --no-fit',
            'model @',
            'servo logs @ servo.yaml -o OUT',
            'calibrate calibration.yaml --set bags=[{path:@}] -o OUT',
        ),
    ),
    (
        ('.xml', '.urdf', '.xacro'),
        (
            'model @',
            'inspect train @',
            'map train @',
            'convert train @ -o OUT',
            'init train @ -o OUT/c.yaml',
            'excite @ --for joint/*/armature -o OUT/m.csv --duration 5',
            'predict @ validate -o OUT',
            'export baseline.json --format mjcf -o OUT --model @',
            'preflight calibration.yaml --set model=@',
        ),
    ),
    (
        ('.yaml',),
        (
            'calibrate @',
            'preflight @',
            'compare @',
            'check @',
            'fleet @',
            'servo logs train @ -o OUT',
            'inspect train arm.xml --mapping @',
            'convert train arm.xml -o OUT --segments @',
            'excite arm.xml --config @ -o OUT/m.csv',
            'preflight calibration.yaml --set mapping=@',
        ),
    ),
    (
        ('.json', ''),
        (
            'history @',
            'export @ --format mjcf -o OUT',
            'predict @ validate -o OUT',
            'compare @ baseline.json',
            'check calibration.yaml --baseline @ --no-fit',
            'preflight calibration.yaml --set memory.previous=@',
            'servo export --params @ -o OUT',
            'servo plot --logdir FOLDER -o OUT',
            'servo fit --actuator mx64 --logdir FOLDER -o OUT/p.json',
            'servo fit --actuator mx64 --logdir logs --eval @',
        ),
    ),
)
_ARM = '<body><joint name="a" axis="0 1 0"/><geom size=".1" mass="1"/>@</body>'
_MODEL = f'<mujoco>@<worldbody>{_ARM.replace("@", "")}</worldbody></mujoco>'
_REPLICAS = '<replicate count="100000000"><site/></replicate>'
_LINK = '<link name="l{0}"><inertial><mass value="1"/></inertial></link>'
_JOINT = '<joint name="j{0}" type="revolute"><parent link="l{0}"/><child link="l{1}"/></joint>'
_CHAIN = [_LINK.format(0), *(_LINK.format(k + 1) + _JOINT.format(k, k + 1) for k in range(600))]
_XACRO = '<robot xmlns:xacro="http://ros.org/wiki/xacro" name="${@}"/>'
_ROWS = '\n'.join(f'{k / 100},{k}' for k in range(100))
#: Contents by ending, of files that are none or too much of what they are.
_TEXTS: dict[str, tuple[str, ...]] = {
    '.xml': (
        *(_MODEL.replace('@', f'<option timestep="{t}"/>') for t in ('0', 'nan', '1e-12', '1e9')),
        *(_MODEL.replace('@', f'<size memory="{size}"/>') for size in ('1', '900G')),
        _MODEL.replace(
            '</worldbody>', '<replicate count="100000000"><site/></replicate></worldbody>'
        ),
        _MODEL.replace('mass="1"', 'mass="nan"'),
        _MODEL.replace('mass="1"', 'mass="1e300"'),
        _MODEL.replace('@', '<include file="x.xml"/>'),
        '<mujoco/>',
        '<mujoco><worldbody>' + '<body>' * 3000 + '</body>' * 3000 + '</worldbody></mujoco>',
        '<mujoco ' + 'a="' * 50_000,
        '<' * 100_000,
        '<!--' * 50_000,
        '<a ' * 50_000,
        '<a\n' + ' b' * 50_000,
        '<a>' * 30_000,
        "<robot '" + '"' * 60_000,
    ),
    '.urdf': (
        '<robot name="r">' + ''.join(_CHAIN) + '</robot>',
        f'<robot name="r">{_LINK.format(0)}{_JOINT.format(0, 0)}</robot>',
        f'<robot name="r">{_LINK.format(0)}{_LINK.format(0)}</robot>',
        '<!DOCTYPE r [<!ENTITY a "aaaaaaaaaa">'
        + ''.join(
            f'<!ENTITY {b} "{f"&{a};" * 10}">' for a, b in zip('abcdefgh', 'bcdefghi', strict=True)
        )
        + ']><robot name="&i;"/>',
    ),
    '.xacro': (_XACRO.replace('@', '10**10**8'), _XACRO.replace('@', "'a' * 10**10"), '<robot/>'),
    '.csv': (
        't,a\n' + _ROWS.replace('0.5,', '1e9,'),
        't,a\n' + _ROWS.replace(',7\n', ',nan\n').replace(',9\n', ',1e300\n'),
        't,' + ','.join(f'a{k}' for k in range(1_000_000)) + '\n0' + ',1' * 1_000_000,
        't,' + 'a' * 20_000_000 + '\n' + _ROWS,
        't,a\n' + '9' * 5000 + ',1\n1,2',
        't,a\n1,[' + '1,' * 100_000 + ']\n2,[3]',
        't,"a\n' * 1000,
    ),
    '.yaml': (
        'a: &a [x,x,x,x,x,x,x,x,x]\n'
        + ''.join(
            f'{b}: &{b} [{f"*{a}," * 9}]\n' for a, b in zip('abcdefghi', 'bcdefghij', strict=True)
        ),
        'model: arm.xml\nbags: ' + '[' * 5000,
        'model: arm.xml\nbags: [' + '{path: train},' * 100_000 + ']',
        '? ' * 20_000,
        'a: 2026-13-45\n',
        'a: ' + '9' * 100_000,
        '!!python/object/apply:os.system [ls]',
        'sensors: {a: ' + 'x' * 20_000_000 + '}',
    ),
    '.json': (
        '{"a":' * 100_000,
        '[' * 100_000,
        '{"format_version": 1e999}',
        '{"a": ' + '9' * 100_000 + '}',
        '{"a": NaN}',
        '{"entries": [' + '{},' * 100_000 + '{}]}',
    ),
}
#: What stands where an option has its value.
VALUES = (
    *('nan', 'inf', '-inf', '-1', '0', '1e308', '1e-300', '9' * 400, '', ' ', 'x' * 100_000),
    *('\x1b[31m', '../..', '[', '{}', '[[[]]]', '*', '\udcff', '%s', '1e6', '-7:3'),
)
LINES = {
    'calibrate': 'calibrate calibration.yaml -o OUT --set solver.max_iterations=0',
    'init': 'init train arm.xml -o OUT/c.yaml',
    'doctor': 'doctor',
    'excite': 'excite arm.xml --for joint/*/armature -o OUT/m.csv --duration 5',
    'preflight': 'preflight calibration.yaml',
    'inspect': 'inspect train arm.xml',
    'recover': 'recover train -o OUT',
    'convert': 'convert train arm.xml -o OUT',
    'map': 'map train arm.xml',
    'model': 'model arm.xml',
    'compare': 'compare baseline.json baseline.json',
    'check': 'check calibration.yaml --no-fit',
    'history': 'history baseline.json',
    'export': 'export baseline.json -o OUT --format mjcf',
    'predict': 'predict arm.xml validate -o OUT',
    'fleet': 'fleet calibration.yaml',
    'servo export': 'servo export --params params.json -o OUT',
    'servo plot': 'servo plot --logdir logs -o OUT',
    'servo compare': 'servo compare --actuator mx64 --logdir logs -o OUT',
    'servo fit': 'servo fit --actuator mx64 --logdir logs -o OUT/p.json --starts 1 --model m1',
}
SETTINGS = (
    *('solver.loss', 'solver.max_iterations', 'solver.time', 'segments.times', 'bags', 'model'),
    *('parameters', 'mapping', 'check.tolerance', 'report.film', 'undriven', 'package_path'),
    *('servos', 'output', 'memory', 'sensors', 'stamps', 'namespace', 'nuisances', 'windows'),
)


def hostile(path: Path, whole: bytes) -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield kinds of hostile files, and what makes them at a path."""

    def put(content: bytes) -> Callable[[], object]:
        return lambda: path.write_bytes(content)

    def listen() -> None:
        with contextlib.chdir(path.parent), socket.socket(socket.AF_UNIX) as ear:
            ear.bind(path.name)

    def sparse() -> None:
        path.write_bytes(whole[:1000])
        os.truncate(path, 10 << 30)

    for device in ('zero', 'urandom', 'full', 'stdin'):
        yield f'/dev/{device}', lambda d=device: path.symlink_to(f'/dev/{d}')
    yield 'FIFO', lambda: os.mkfifo(path)
    yield 'folder', lambda: (path / 'x').mkdir(parents=True)
    yield 'socket', listen
    yield 'sparse 10 GB', sparse
    yield 'absent', lambda: None
    yield 'loop', lambda: path.symlink_to(path)
    noise = random.Random(0).randbytes(100_000)  # noqa: S311 (the same each time)
    for name, content in (
        ('empty', b''),
        ('noise', noise),
        ('zeros', bytes(100_000)),
        ('half', whole[: len(whole) // 2]),
        ('one byte', whole[:60] + b'\xff' + whole[61:]),
        ('UTF-16', '<a/>\n{}'.encode('utf-16')),
        ('one line', b'a' * 20_000_000),
        ('brackets', b'[' * 100_000),
    ):
        yield name, put(content)
    for number, text in enumerate(_TEXTS.get(path.suffix, ())):
        yield f'text {number}', put(text.encode())


def project(folder: Path, seeds: Mapping[str, Path]) -> dict[str, bytes]:
    """Fill a folder with what command lines name; return a whole file for each ending."""
    shutil.copytree(ROOT / 'test' / 'data' / 'pendulum', folder, dirs_exist_ok=True)
    (folder / 'logs').mkdir()
    (folder / 'params.json').write_text('{"model": "m1", "kt": 1.0, "R": 2.0, "armature": 0.01}')
    (folder / 'servo.yaml').write_text('{}')
    whole = {
        '.xml': (folder / 'arm.xml').read_bytes(),
        '.urdf': f'<robot name="r">{"".join(_CHAIN[:3])}</robot>'.encode(),
        '.xacro': _XACRO.replace('@', '1').encode(),
        '.yaml': (folder / 'calibration.yaml').read_bytes(),
        '.json': (folder / 'baseline.json').read_bytes(),
        '': (folder / 'baseline.json').read_bytes(),
        '.csv': f't,a\n{_ROWS}\n'.encode(),
        '.parquet': b'PAR1' * 300,
    }
    bags_ = (('.mcap', 'mcap'), ('.db3', 'sqlite'), ('.bag', 'ros1-lz4'), ('.zstd', 'sqlite-file'))
    return {**whole, **{ending: seeds[name].read_bytes() for ending, name in bags_}}
