# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The last values of a fit, kept in a file, so that one that was interrupted goes on from there."""

from __future__ import annotations

import contextlib
import hashlib
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sysid_ros.config.schema import CalibrationConfig
from sysid_ros.errors import ConfigError
from sysid_ros.files import is_number, read_object, shown
from sysid_ros.fit.observer import Observer
from sysid_ros.fit.solver import LIMITS, Iteration
from sysid_ros.results.result import CalibrationResult
from sysid_ros.workflows.problem import bags_of

#: What is kept is at most so old when a fit is interrupted between two iterations, s.
_SECONDS = 1.0
#: What may change before a fit goes on: it says nothing of where the optimum is. Bags are compared
#: by their paths, whatever patterns they are from.
_FREE: Any = {
    **dict.fromkeys(('output', 'report', 'bags'), True),
    'solver': {'time', 'max_iterations', 'accuracy', 'threads'},
}


class Iterates:
    """The file of a configuration's last values, in its output."""

    def __init__(self, config: CalibrationConfig, model: str) -> None:
        """Take note of what the values are of; ``model`` is a hash of its text."""
        self._path = config.output / '.iterate.json'
        self._draft = self._path.with_suffix('.new')
        self._new = not config.output.exists()
        bags = [(path.absolute(), role) for path, role in bags_of(config)]
        said = [config.model_dump(exclude=_FREE), bags, model]
        text = json.dumps(said, default=lambda path: str(Path(path).absolute()))
        self._of = hashlib.sha256(text.encode()).hexdigest()

    def read(self) -> dict[str, float]:
        """Return the values by parameter; a ConfigError says that there are none for this fit."""
        if not self._path.is_file():
            raise ConfigError(
                f'Expected a fit to go on with in {str(self._path.parent)!r}, found none: what is '
                'kept of one that was interrupted is gone when another one has come to its end.'
            )
        found = read_object(self._path, ConfigError)
        values = found.get('values')
        if found.get('of') != self._of:
            raise ConfigError(
                f'Expected values of this fit in {str(self._path)!r}, found those of another '
                'configuration, other bags or another model; fit without --resume.'
            )
        if not isinstance(values, dict) or not all(map(is_number, values.values())):
            raise ConfigError(f'Bad values in {str(self._path)!r}: {shown(values)}.')
        return values

    def ended(self, result: CalibrationResult) -> None:
        """Remove the file, unless a limit stopped the fit."""
        if result.solver.status not in LIMITS:
            self.remove()

    def remove(self) -> None:
        """Remove the file: there is nothing to go on with."""
        for path in (self._path, self._draft):
            path.unlink(missing_ok=True)
        if self._new:
            # Where a result has been written, it is not empty.
            with contextlib.suppress(OSError):
                self._path.parent.rmdir()

    def keep(self, values: dict[str, float]) -> None:
        """Replace the file, which is there whole or not at all."""
        # A fit does not end where this cannot be written.
        with contextlib.suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._draft.write_text(json.dumps({'of': self._of, 'values': values}, indent=1))
            self._draft.replace(self._path)


class Keeping:
    """Passes on what an observer is told, and keeps the values of iterations now and then."""

    def __init__(self, iterates: Iterates, observer: Observer, names: Sequence[str]) -> None:
        self._iterates, self._observer, self._names = iterates, observer, names
        self._last = time.monotonic()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._observer, name)

    def iteration(self, iteration: Iteration) -> None:
        """Keep the parameters' values, which come before all else that is unknown."""
        self._observer.iteration(iteration)
        if time.monotonic() - self._last >= _SECONDS:
            self._last = time.monotonic()
            self._iterates.keep(dict(zip(self._names, iteration.x, strict=False)))
