# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Let pytest collect ``*.sysid.yaml``: an item for each parameter and each recording.

What a file asks for is computed once in a session, when its first item runs, and kept in pytest's
cache under a hash of all that it depends on. ``pytest --sysid-update`` writes the baselines anew.
Nothing but pytest is imported until there is such a file.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sysid_ros.config import ThresholdsConfig
    from sysid_ros.results.case import Case

_END = '.sysid.yaml'
#: The item that says whether the model states what it did.
_MODEL = 'model'
#: The item that says what holds for all of a calibration, and that its parameters are the same.
_CALIBRATION = 'calibration'
#: Of a fit, the row that is no parameter's.
_ERRORS = ('held-out error', 'training error')


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--sysid-update``."""
    parser.getgroup('sysid').addoption(
        '--sysid-update',
        action='store_true',
        help='write the baselines of *.sysid.yaml anew, and pass what they are about',
    )


def pytest_collect_file(parent: pytest.Collector, file_path: Path) -> SysidFile | None:
    """Collect thresholds files."""
    if file_path.name.endswith(_END):
        found: SysidFile = SysidFile.from_parent(parent, path=file_path)
        return found
    return None


class _Part(StrEnum):
    """What is computed together: predictions in seconds, parameters by a fit."""

    PREDICTIONS = 'predictions'
    PARAMETERS = 'parameters'


class _Finding(NamedTuple):
    """A case, as an item tells it: ``numbers`` are JUnit properties."""

    item: str
    passed: bool
    line: str
    numbers: tuple[tuple[str, str], ...]


class _Findings(NamedTuple):
    """All cases of a part, and what is to be known beside them."""

    entries: tuple[_Finding, ...]
    notes: tuple[str, ...]


class SysidFile(pytest.File):
    """A thresholds file."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._found: dict[_Part, _Findings] = {}

    def collect(self) -> Iterator[pytest.Item]:
        """Yield an item for each recording and for each parameter of the baseline."""
        from sysid_ros.errors import SysidError  # noqa: PLC0415 (none but users of such files)

        try:
            config = self._config()
        except SysidError as err:
            raise self.CollectError(str(err)) from err
        for part, name in _items(config):
            yield SysidItem.from_parent(self, name=name, part=part)

    def found(self, part: _Part) -> _Findings:
        """Return all cases of a part, computed when first asked for or kept from before."""
        if part not in self._found:
            self._found[part] = self._recalled(part)
        return self._found[part]

    def _config(self) -> ThresholdsConfig:
        from sysid_ros.config import load_thresholds  # noqa: PLC0415

        return load_thresholds(self.path)

    def _recalled(self, part: _Part) -> _Findings:
        config, cache = self._config(), self.config.cache
        if self.config.getoption('sysid_update') or cache is None:
            return self._compute(part, config)
        key = f'sysid/{part}-{_digest(self.path, config)}'
        stored = cache.get(key, None)
        if stored is not None:
            entries = (
                _Finding(item, passed, line, tuple((name, value) for name, value in numbers))
                for item, passed, line, numbers in stored[0]
            )
            return _Findings(tuple(entries), tuple(stored[1]))
        found = self._compute(part, config)
        cache.set(key, found)
        return found

    def _compute(self, part: _Part, config: ThresholdsConfig) -> _Findings:
        from sysid_ros.pipeline.baseline import find_parameters, find_predictions  # noqa: PLC0415
        from sysid_ros.report.cases import properties, said  # noqa: PLC0415

        if part is _Part.PARAMETERS and config.calibration is not None:
            command = f'pytest {self.path.name}'
            found = find_parameters(config, config.calibration, command=command)
        else:
            found = find_predictions(config)
        update = bool(self.config.getoption('sysid_update'))
        if update:
            found.write()
        entries = [
            _Finding(_item_of(case), case.passed or update, said(case), tuple(properties(case)))
            for case in found.cases
        ]
        if not found.known and (found.path is not None or part is _Part.PARAMETERS):
            line = f'there is no baseline of {part} yet; pytest --sysid-update writes it'
            item = _MODEL if part is _Part.PREDICTIONS else _CALIBRATION
            entries.append(_Finding(item, update, line, ()))
        return _Findings(tuple(entries), found.notes)


class SysidItem(pytest.Item):
    """One parameter, one recording, the text of the model, or a calibration as a whole."""

    parent: SysidFile

    def __init__(self, *, part: _Part, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._part = part

    def runtest(self) -> None:
        """Fail where a case of this item does."""
        entries, notes = self.parent.found(self._part)
        own = [entry for entry in entries if entry.item == self.name]
        if self.name == _CALIBRATION:
            # A parameter that is new has no item yet.
            known = {name for _, name in _items(self.parent._config())}  # noqa: SLF001 (its file)
            own += [entry for entry in entries if entry.item not in known]
        for entry in own:
            prefix = '' if len(own) == 1 else f'{entry.line.partition(":")[0]}: '
            self.user_properties.extend((prefix + name, value) for name, value in entry.numbers)
        failed = [entry.line for entry in own if not entry.passed]
        if failed:
            raise SysidFailure([*failed, *notes])

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], *_: Any) -> Any:
        """Return the sentences without a traceback."""
        from sysid_ros.errors import SysidError  # noqa: PLC0415

        if isinstance(excinfo.value, (SysidFailure, SysidError)):
            return str(excinfo.value)
        return super().repr_failure(excinfo)

    def reportinfo(self) -> tuple[Path, None, str]:
        """Return file and name."""
        return self.path, None, self.name


class SysidFailure(AssertionError):  # noqa: N818 (a failure of a test is none of the software)
    """What is not as it has to be, a sentence each."""

    def __init__(self, lines: list[str]) -> None:
        super().__init__('\n'.join(lines))


def _items(config: ThresholdsConfig) -> Iterator[tuple[_Part, str]]:
    """Yield the items of a file, from what is there without any computation."""
    from sysid_ros.files import matching  # noqa: PLC0415

    if config.model is not None:
        yield _Part.PREDICTIONS, _MODEL
        for path in (Path(path) for pattern in config.bags for path in matching(pattern)):
            yield _Part.PREDICTIONS, path.name
    if config.calibration is not None:
        yield _Part.PARAMETERS, _CALIBRATION
        for entry in _baseline_parameters(config):
            yield _Part.PARAMETERS, str(entry['name'])


def _baseline_parameters(config: ThresholdsConfig) -> list[dict[str, Any]]:
    """Return the parameters of the baseline; none where there is no baseline."""
    path = None if config.baseline is None else config.baseline / 'result.json'
    if path is None or not path.is_file():
        return []
    return list(json.loads(path.read_text('utf-8')).get('parameters', []))


def _item_of(case: Case) -> str:
    """Return the name of the item that a case belongs to."""
    if case.bag or case.kind == _MODEL:
        return case.bag or _MODEL
    return _CALIBRATION if case.name in _ERRORS else case.name


def _digest(path: Path, config: ThresholdsConfig) -> str:
    """Return a hash of all that the findings of a file depend on, by content."""
    digest = hashlib.sha256()
    for file in (path, *_inputs(config), *_software()):
        digest.update(str(file.name).encode())
        digest.update(file.read_bytes())
    return digest.hexdigest()


def _inputs(config: ThresholdsConfig) -> Iterator[Path]:
    """Yield every file that a thresholds file or its calibration names, and those inside these."""
    from sysid_ros.config import load_calibration  # noqa: PLC0415

    yield from _named(config.model_dump())
    if config.calibration is not None:
        yield config.calibration
        yield from _named(load_calibration(config.calibration).model_dump(exclude={'output'}))


def _named(value: object) -> Iterator[Path]:
    from sysid_ros.files import files_in, matching  # noqa: PLC0415

    if isinstance(value, dict):
        value = tuple(value.values())
    if isinstance(value, (list, tuple)):
        for entry in value:
            yield from _named(entry)
    elif isinstance(value, (str, Path)) and str(value) not in ('', '.'):
        for path in map(Path, matching(str(value))):
            yield from files_in(path)
            if path.is_file():
                yield from _beside(path)


def _beside(path: Path) -> Iterator[Path]:
    """Yield what a file needs: of an MJCF file all that it includes, of a result its model."""
    if path.suffix == '.xml':
        import mujoco  # noqa: PLC0415

        # What cannot be listed cannot be compiled either, which is told by the item itself.
        with contextlib.suppress(ValueError, mujoco.FatalError):
            yield from filter(Path.is_file, map(Path, mujoco.mju_getXMLDependencies(str(path))))
    elif path.suffix == '.json':
        with contextlib.suppress(ValueError, AttributeError, TypeError):
            yield from _named(json.loads(path.read_text('utf-8')).get('model'))


def _software() -> list[Path]:
    """Return the sources of this package and what says the versions of what it computes with."""
    from importlib.metadata import distribution  # noqa: PLC0415

    own = sorted(Path(__file__).parent.rglob('*.py'))
    for name in ('numpy', 'scipy', 'rosbags', 'mujoco-core'):
        files = distribution(name).files or []
        own += [Path(str(file.locate())) for file in files if file.name == 'METADATA']
    return own
