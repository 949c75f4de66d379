# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Values of a configuration that are given on the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import yaml

from sysid_ros.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable


def parse_overrides(pairs: Iterable[str]) -> dict[str, Any]:
    """Turn ``key=value`` pairs into dotted keys and YAML values.

    Raises:
        ConfigError: A pair has no equals sign, or its value is not YAML.
    """
    found: dict[str, Any] = {}
    for pair in pairs:
        key, equals, text = pair.partition('=')
        if not equals or not key:
            msg = f'Expected --set KEY=VALUE, as solver.loss=huber, got {pair!r}.'
            raise ConfigError(msg)
        try:
            found[key] = yaml.safe_load(text)
        except yaml.YAMLError as err:
            msg = f'The value in --set {pair!r} is not YAML.'
            raise ConfigError(msg) from err
    return found


def fixed_of(pairs: list[str]) -> dict[str, float]:
    """Return the coefficients of flags such as ``kt=0.4``.

    Raises:
        ConfigError: One of them is not a name and a number.
    """
    found = {}
    for pair in pairs:
        name, _, text = pair.partition('=')
        try:
            found[name] = float(text)
        except ValueError as err:
            msg = f'Expected NAME=NUMBER for --fix, as kt=0.4, found {pair!r}.'
            raise ConfigError(msg) from err
    return found
