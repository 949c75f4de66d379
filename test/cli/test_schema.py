# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""``sysid schema``; the tests of each command hold what it prints against its schema."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import jsonschema
import pytest

from builders.documents import validator_of
from sysid_ros.cli.schema import DOCUMENTS

if TYPE_CHECKING:
    from builders.cli_project import Sysid


@pytest.mark.parametrize('command', DOCUMENTS)
def test_the_schema_of_a_command_is_one(command: str):
    schema = validator_of(command).schema
    assert schema['title'] == f'sysid {command} --json'
    # Every type is defined down to texts, numbers and truths.
    assert all(found['properties'] for found in schema['$defs'].values())


def test_it_is_printed_and_says_what_fields_mean(sysid: Sysid):
    done = sysid('schema', 'rollback')
    schema = json.loads(done.out)
    assert (done.code, done.err) == (0, '')
    assert schema['$schema'] == 'https://json-schema.org/draft/2020-12/schema'
    assert schema['$ref'] == '#/$defs/RollbackDocument'
    changed = schema['$defs']['ParameterSides']
    assert changed['description'] == 'A parameter in each result.'
    assert changed['required'] == ['name', 'unit', 'sides', 'deviations', 'changed']
    # NaN is null.
    value = schema['$defs']['ValueSummary']['properties']['value']
    assert value == {'type': ['number', 'null']}
    (model,) = json.loads(sysid('schema', 'model').out)['$defs'].values()
    assert model['properties']['mass'] == {
        'type': ['number', 'null'],
        'description': 'Of all bodies, kg.',
    }


def test_what_is_not_as_the_schema_says_is_refused():
    right = {'output': 'out', 'current': 'b', 'before': 'a', 'parameters': []}
    validator_of('rollback').validate(right)
    for wrong in ({**right, 'now': 1}, {**right, 'parameters': [{}]}, {'output': 'out'}):
        with pytest.raises(jsonschema.ValidationError):
            validator_of('rollback').validate(wrong)


def test_a_command_that_is_not_known_names_the_nearest(sysid: Sysid):
    done = sysid('schema', 'inspekt')
    assert (done.code, done.out) == (2, '')
    assert "'inspekt'; nearest: inspect" in done.err
