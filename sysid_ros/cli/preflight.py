# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What ``sysid preflight`` prints: what a fit could say, and what that rests on."""

from __future__ import annotations

import math
from collections import Counter

from sysid_ros.errors import MOST_NAMED, how_many, listed
from sysid_ros.pipeline.preflight import PredictedParameter, Preflight
from sysid_ros.report.numbers import rounded, significant
from sysid_ros.report.tables import (
    LiteralConsole,
    determined,
    explained,
    print_findings,
    print_first,
    print_table,
)
from sysid_ros.results.links import link_places

#: A source is named for a parameter when the interval would be wider by this factor without it.
_CARRIES = 1.1


def print_preflight(console: LiteralConsole, found: Preflight) -> None:
    """Print what a fit would say, and what it rests on."""
    for note in found.notes:
        console.print(note)
    if found.diverging:
        console.print(found.diverging)
        console.print()
    else:
        _print_parameters(console, found)
    _print_bags(console, found)
    _print_trouble(console, found)
    console.print(last_line(found))


def last_line(found: Preflight) -> str:
    """Say which parameters a fit would not identify."""
    of_links = {found.parameters[place].name for own in _links(found).values() for place in own}
    names = [name for name in found.doubtful if name not in of_links]
    doubtful = len(found.doubtful) - len(names)
    if doubtful:
        names.append(f'{doubtful} of {len(of_links)} numbers of links')
    if names:
        return f'Not identified by these bags: {listed(names)}.'
    every = how_many(found.parameters, 'parameter')
    told = f'All {every}' if len(found.parameters) > 1 else f'The {every[2:]}'
    return f'{told} would be identified by these bags.'


def _links(found: Preflight) -> dict[str, list[int]]:
    """Return body to the places of the ten numbers of its inertia."""
    return link_places([(item.name,) for item in found.parameters])


def _print_parameters(console: LiteralConsole, found: Preflight) -> None:
    links = _links(found)
    of_links = {place for own in links.values() for place in own}
    told_by = 'told by (times wider without)'
    headers = ('parameter', '>nominal', '>± expected', '>in %', 'unit', 'verdict', told_by)
    rows = []
    for place, item in enumerate(found.parameters):
        if place in of_links:
            continue
        value = item.nominal if math.isnan(item.value) else item.value
        percent = 100 * item.half / abs(value) if value else math.nan
        row = (
            item.name,
            _nominal(item),
            '-' if math.isnan(item.half) else significant(item.half, 2),
            '-' if math.isnan(percent) else f'{significant(percent, 2)} %',
            item.unit,
            item.verdict,
            _told_by(found, place),
        )
        rows.append(row)
    title = 'What a fit could say (95 % intervals)'
    print_table(console, title, headers, rows)
    _print_links(console, found, links)
    singles = [item for place, item in enumerate(found.parameters) if place not in of_links]
    unsure = [item for item in singles if item.explanation]
    print_first(console, explained((item.name, item.explanation) for item in unsure))
    names = {item.name for item in singles}
    print_first(console, (determined(c) for c in found.combinations if names >= {*c.parameters}))
    console.print(f'± expected: {found.method} ({found.samples} samples).')
    console.print()


def _print_links(console: LiteralConsole, found: Preflight, links: dict[str, list[int]]) -> None:
    """Print what is to be expected of links, those that are alike in one line."""
    alike: dict[str, list[str]] = {}
    for body, places in links.items():
        counts = Counter(str(found.parameters[place].verdict_kind) for place in places)
        said = ', '.join(f'{count} {kind}' for kind, count in counts.most_common())
        alike.setdefault(said, []).append(body)
    if alike:
        console.print('Inertias of links, ten numbers each, of which no motion tells all apart:')
        for said, bodies in alike.items():
            console.print(f'  {listed(bodies)}: {said}')
        console.print()


def _nominal(item: PredictedParameter) -> str:
    """Write a nominal value to the digits that a fit would find, all where it finds none."""
    if 0 < item.half <= abs(item.nominal):
        return rounded(item.nominal, item.half)
    return significant(item.nominal)


def _told_by(found: Preflight, place: int) -> str:
    """Name the sensors without which the interval of a parameter would be wider."""
    grown = sorted(((sensor.growth[place], sensor.name) for sensor in found.sensors), reverse=True)
    carrying = [(growth, name) for growth, name in grown if growth > _CARRIES]
    if not carrying:
        return 'several alike' if any(not math.isnan(growth) for growth, _ in grown) else '-'
    return ', '.join(
        f'{name} {"alone" if math.isinf(growth) else format(growth, ".2g")}'
        for growth, name in carrying[:MOST_NAMED]
    )


def _print_bags(console: LiteralConsole, found: Preflight) -> None:
    """Print what each bag adds, and which sources add nothing."""
    for bag in found.bags if len(found.bags) > 1 else ():
        known = [
            (growth, item.name)
            for growth, item in zip(bag.growth, found.parameters, strict=True)
            if not math.isnan(growth)
        ]
        if known:
            most, name = max(known)
            wider = 'lost' if math.isinf(most) else f'known {most:.2g} times worse'
            console.print(f'bag {bag.name}: without it {name} would be {wider}')
    idle = [f'{s.kind} {s.name}' for s in found.sources if s.adds_nothing]
    if idle:
        console.print(f'adds nothing (no interval 5 % wider without): {listed(idle)}')
    if found.dead:
        console.print(f'never moves, left out: {listed(found.dead)}')
    if len(found.bags) > 1 or idle or found.dead:
        console.print()


def _print_trouble(console: LiteralConsole, found: Preflight) -> None:
    for name in found.unstable:
        console.print(f'{name}: the nominal model becomes unstable; left out here')
    if found.unstable:
        console.print()
    print_findings(console, found.health)
