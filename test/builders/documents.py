# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What commands print with ``--json``, held against their schemas."""

from __future__ import annotations

import functools
from typing import Any

import jsonschema

from sysid_ros.cli.schema import schema_of


@functools.cache
def validator_of(command: str) -> Any:
    """Return what refuses documents of a command that are not as its schema says, or say more."""
    schema = schema_of(command)
    for definition in schema['$defs'].values():
        definition['additionalProperties'] = False
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)
