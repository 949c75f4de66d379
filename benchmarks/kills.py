# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Kill -9 at random moments: recorders, ``sysid calibrate``, and calibrators with their refits.

What was published a second before the kill must be in a recorder's bag. ``current`` must lead to
the old or the new result, each whole; most fits are killed while files are written. Every tenth
is let to its end, and must leave nothing hidden. With a node its refit must end.
"""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import mujoco
import yaml
from recording import Processes, read_line, run_kills
from shared.common import ROOT, Table, run, verdict

from sysid_ros.results.store import history, linked
from sysid_ros.workflows.writing import Calibration

WRITING = 'writing result'
#: A process whose parent is gone is waited for so long, s.
ORPHAN_SECONDS = 10.0
CALL = """
import rclpy
from std_srvs.srv import Trigger

rclpy.init()
node = rclpy.create_node('caller')
client = node.create_client(Trigger, '/calibrator/refit')
client.wait_for_service()
rclpy.spin_until_future_complete(node, client.call_async(Trigger.Request()))
"""


def sysid(*arguments: object) -> subprocess.Popen[str]:
    """Start a command whose messages are read."""
    return subprocess.Popen(
        [sys.executable, '-m', 'sysid_ros.cli', *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


class Project:
    """A small problem in a folder of its own, with a result that is current."""

    def __init__(self, folder: str) -> None:
        self.config = Path(folder) / 'project' / 'calibration.yaml'
        self.output = self.config.parent / 'out'
        shutil.copytree(ROOT / 'test' / 'data' / 'pendulum', self.config.parent)
        values = yaml.safe_load(self.config.read_text())
        values['parameters'] = [{'target': 'joint/*/damping'}, {'target': 'body/tip/mass'}]
        self.config.write_text(yaml.safe_dump({**values, 'report': {'film': False}}))
        self.known: set[Path] = set()
        assert not self.finish()  # noqa: S101 (else nothing can be told)
        self.look()

    def finish(self) -> str:
        """Let a run come to its end, and return what is wrong then, or nothing."""
        process = sysid('calibrate', self.config)
        read_line(process, WRITING)
        began = time.monotonic()
        said, _ = process.communicate()
        self.writing = time.monotonic() - began
        hidden = {path.name for path in self.output.iterdir() if path.name[0] == '.'}
        well = process.returncode == 0 and hidden == {'.lock'}
        return '' if well else f'ended with {process.returncode} and left {hidden}: {said[-300:]}'

    def look(self) -> tuple[str, str]:
        """Return whether the current result is old or new, and what is wrong, or nothing."""
        known, current = self.known, linked(self.output)
        self.known = {entry.folder for entry in history(self.output)}
        which, new = 'old' if current in known else 'new', self.known - known
        if current not in self.known or not known <= self.known or len(new) > 1:
            return which, f'current is {current}, new are {new}'
        for done in map(Calibration.load, {current, *new}):
            mujoco.MjModel.from_xml_path(str(done.mjcf_path))
            if not done.report_path.read_text().rstrip().endswith('</html>'):
                return which, f'the report in {done.folder} is not whole'
        return which, ''

    def fits(self) -> list[str]:
        """Return the ids of the processes that fit it."""
        lines = subprocess.check_output(['ps', '-eo', 'pid,args'], text=True).splitlines()
        own = [line.split() for line in lines if str(self.config) in line]
        return [words[0] for words in own if 'calibrate' in words]


def recorders(*, kills: int = 50) -> bool:
    """Kill recorders."""
    with tempfile.TemporaryDirectory() as name:
        well = run_kills(kills, Path(name))
    return verdict(well, '(at most 1 s lost, nothing wrong, inspect reads each)')


def refits(*, kills: int = 50) -> bool:
    """Kill fits, three of four while they write."""
    table = Table('kill:4d', 'after:40', 'current:7', 'hidden')
    well = True
    with tempfile.TemporaryDirectory() as name:
        project = Project(name)
        for number in range(kills):
            process, late = sysid('calibrate', project.config), number % 4 > 0
            for _ in range(1 if late else random.randrange(1, 20)):  # noqa: S311
                line = read_line(process, WRITING if late else '')
            time.sleep(random.uniform(0, 1.5 * project.writing if late else 0.1))  # noqa: S311
            process.kill()
            process.communicate()
            hidden = ' '.join(sorted(p.name for p in project.output.iterdir() if p.name[0] == '.'))
            which, bad = project.look()
            if number % 10 == 9:  # noqa: PLR2004
                bad = bad or project.finish() or project.look()[1]
            well &= not bad
            table.row(number, line.strip()[:40], which, hidden, mark=bad)
    return verdict(well, '(the old or the new, each whole)')


def nodes(*, kills: int = 20) -> bool:
    """Kill calibrators while their refits run."""
    table = Table('kill:4d', 'after:40', 'refit lived on/s:.2f', 'current:7')
    well = True
    with tempfile.TemporaryDirectory() as name, Processes() as processes:
        project = Project(name)
        for number in range(kills):
            words = ('--ros-args', '-p', f'config:={project.config}')
            node = processes.start('-m', 'sysid_ros.nodes', 'calibrator', *words)
            read_line(node, 'ready')
            caller = processes.start('-c', CALL)
            read_line(node, 'refitting')
            for _ in range(random.randrange(1, 24)):  # noqa: S311
                line = read_line(node)
                if WRITING in line:
                    time.sleep(random.uniform(0, project.writing))  # noqa: S311
                    break
            node.kill()
            caller.kill()
            killed = time.monotonic()
            while (fits := project.fits()) and time.monotonic() < killed + ORPHAN_SECONDS:
                time.sleep(0.02)
            row = line.partition(']: ')[2].strip()[:40], time.monotonic() - killed
            which, bad = project.look()
            well &= not bad and not fits
            table.row(number, *row, which, mark=f'{bad} {fits or ""}')
        well &= not project.finish()
    return verdict(well, '(the old or the new, each whole, and no process lives on)')


if __name__ == '__main__':
    run(__doc__, recorders, refits, nodes)
