# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""``sysid schema``: the JSON schema of what a command prints with ``--json``.

It follows from the very types that are printed, so that it cannot say something else than they do.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Mapping, Sequence
from enum import Enum
from pathlib import Path
from types import NoneType, UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Literal,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel

from sysid_ros.alignment.health import HealthFinding, TopicRate
from sysid_ros.alignment.mapping.axes import EffortKind
from sysid_ros.alignment.mapping.proposal import ProposalSummary
from sysid_ros.alignment.pairs import Pair, Unmapped
from sysid_ros.alignment.stamps import StampSource
from sysid_ros.bags import UnreadTopic
from sysid_ros.cli import documents
from sysid_ros.cli.console import print_document
from sysid_ros.cli.profile import Spent
from sysid_ros.cli.recover import Recovered
from sysid_ros.config.calibration import Role, Scale, VerdictKind
from sysid_ros.excitation.limits import Usage
from sysid_ros.export.export import ExportFormat
from sysid_ros.inference import Combination
from sysid_ros.inspection.inspection import Inspection
from sysid_ros.inspection.lag import Lag
from sysid_ros.nodes.doctor import Check
from sysid_ros.pipeline.models import ModelComparison
from sysid_ros.pipeline.preflight import Preflight
from sysid_ros.pipeline.proposal import ProposedBag, ProposedTarget
from sysid_ros.results.case import Case
from sysid_ros.results.fleet import FleetResult
from sysid_ros.results.history import EntrySummary
from sysid_ros.results.result import CalibrationResult, Drift, Standing
from sysid_ros.results.side_by_side import ParameterSides, SideBySide
from sysid_ros.servos.bench.calibration import LawComparison
from sysid_ros.servos.formats.mjcf import PlainActuator

if TYPE_CHECKING:
    import argparse

DIALECT = 'https://json-schema.org/draft/2020-12/schema'
#: Command to the type of its document.
DOCUMENTS: dict[str, Any] = {
    'calibrate': documents.CalibrationDocument,
    'check': documents.OutcomeDocument,
    'compare': SideBySide | ModelComparison,
    'compare-actuators': LawComparison,
    'convert': documents.ConversionDocument,
    'doctor': documents.DoctorDocument,
    'excite': documents.ExcitationDocument,
    'export': documents.ExportDocument,
    'export-actuator': documents.PlainServoDocument,
    'fit-actuator': documents.ServoDocument | documents.ServoErrorsDocument,
    'fleet': FleetResult,
    'history': list[EntrySummary],
    'init': documents.InitDocument,
    'inspect': Inspection,
    'map': ProposalSummary,
    'model': documents.ModelDocument,
    'plot': documents.FilesDocument,
    'plot-actuator': documents.PlotsDocument,
    'predict': documents.PredictionDocument,
    'preflight': Preflight,
    'recover': Recovered,
    'rollback': documents.RollbackDocument,
    'servo-logs': documents.LogsDocument,
}


#: What annotations name that modules import for type checkers only.
_NAMES = {
    **vars(documents),
    **{
        each.__name__: each
        for each in (
            CalibrationResult,
            Case,
            Check,
            Combination,
            Drift,
            EffortKind,
            ExportFormat,
            HealthFinding,
            Lag,
            Mapping,
            Pair,
            ParameterSides,
            Path,
            ProposedBag,
            ProposedTarget,
            PlainActuator,
            ProposalSummary,
            Sequence,
            Spent,
            Standing,
            TopicRate,
            Unmapped,
            UnreadTopic,
            Usage,
            VerdictKind,
        )
    },
    'NDArray': NDArray,
    'Role': Role,
    'Scale': Scale,
    'StampSource': StampSource,
    'np': np,
}


#: What a docstring says of a field, which may go on in further lines.
_ATTRIBUTE = re.compile(r'^    (\w+): (.*(?:\n {8}.*)*)', re.MULTILINE)
_PLAIN: dict[Any, dict[str, Any]] = {
    Any: {},
    object: {},
    bool: {'type': 'boolean'},
    float: {'type': ['number', 'null']},
    int: {'type': 'integer'},
    str: {'type': 'string'},
    Path: {'type': 'string'},
    NoneType: {'type': 'null'},
    np.ndarray: {'type': 'array'},
}


class _Schema:
    """The schema of what `sysid_ros.json_text.plain` makes of values of some types.

    Pydantic would make it of pydantic's own JSON, in which named tuples are arrays and NaN is
    a number.
    """

    def __init__(self) -> None:
        self.definitions: dict[str, Any] = {}
        self._kinds: dict[str, type] = {}

    def of(self, kind: Any) -> dict[str, Any]:
        """Return the schema of a type."""
        origin = get_origin(kind) or kind
        arguments = get_args(kind)
        if origin in _PLAIN:
            return _PLAIN[origin]
        if origin is Annotated:
            return self.of(arguments[0])
        if origin in (Union, UnionType):
            return {'anyOf': [self.of(each) for each in arguments]}
        if origin in (dict, list, tuple, Mapping, Sequence):
            return self._container(origin, arguments)
        if origin is Literal or issubclass(kind, Enum):
            return {'enum': list(arguments) or [member.value for member in kind]}
        return self._reference(kind)

    def _container(self, origin: Any, arguments: tuple[Any, ...]) -> dict[str, Any]:
        """Return the schema of a mapping, a list, or a tuple of so many values."""
        if origin in (dict, Mapping):
            return {'type': 'object', 'additionalProperties': self.of(arguments[1])}
        items = [self.of(each) for each in arguments if each is not Ellipsis]
        if origin is tuple and Ellipsis not in arguments:
            count = len(items)
            return {'type': 'array', 'prefixItems': items, 'minItems': count, 'maxItems': count}
        return {'type': 'array', 'items': items[0]}

    def _reference(self, kind: type) -> dict[str, Any]:
        """Return a reference to the definition of a type with fields."""
        name = kind.__name__
        if self._kinds.setdefault(name, kind) is not kind:
            msg = f'Two types of a document have the name {name}.'
            raise TypeError(msg)
        if name not in self.definitions:
            self.definitions[name] = {}
            fields = _fields(kind)
            about, _, attributes = inspect.cleandoc(kind.__doc__ or '').partition('Attributes:\n')
            said = dict(_ATTRIBUTE.findall(attributes))
            self.definitions[name] = {
                'type': 'object',
                'description': about.strip(),
                'properties': {
                    field: {**self.of(own), **_description(said.get(field, ''))}
                    for field, own in fields.items()
                },
                'required': list(fields),
            }
        return {'$ref': f'#/$defs/{name}'}


def _description(text: str) -> dict[str, str]:
    return {'description': ' '.join(text.split())} if text else {}


def _fields(kind: type) -> dict[str, Any]:
    """Return field to type of a model of pydantic, a dataclass or a named tuple."""
    if issubclass(kind, BaseModel):
        fields: dict[str, Any] = {n: f.annotation for n, f in kind.model_fields.items()}
        return fields | {n: f.return_type for n, f in kind.model_computed_fields.items()}
    return get_type_hints(kind, {**_NAMES, **vars(sys.modules[kind.__module__])})


def schema_of(command: str) -> dict[str, Any]:
    """Return the JSON schema of a command's document."""
    schema = _Schema()
    document = schema.of(DOCUMENTS[command])
    return {
        '$schema': DIALECT,
        'title': f'sysid {command} --json',
        **document,
        '$defs': schema.definitions,
    }


def run(args: argparse.Namespace) -> int:
    """Print the schema of a command."""
    print_document(schema_of(args.of))
    return 0
