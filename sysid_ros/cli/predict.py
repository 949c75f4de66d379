# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""``sysid predict``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sysid_ros.bags.raw import read_raw, write_mcap
from sysid_ros.cli.console import make_console
from sysid_ros.errors import BagError, ConfigError
from sysid_ros.files import replace_file
from sysid_ros.pipeline.predicting import (
    MEASURED,
    NOMINAL,
    PREDICTED,
    RESIDUAL,
    forecaster,
    predict_bag,
)
from sysid_ros.report.foxglove import foxglove_layout
from sysid_ros.report.numbers import padded
from sysid_ros.report.tables import print_table

if TYPE_CHECKING:
    import argparse

    from sysid_ros.pipeline.predicting import JointPrediction

_MCAP = '.mcap'


def run(args: argparse.Namespace) -> int:
    """Predict a bag, write it with the prediction beside it, and say how far that is off.

    Raises:
        ConfigError: A file is there already, or its name does not say what it is.
        BagError: A topic of the bag has the name of one of the prediction.
    """
    layout = args.layout or args.output.with_suffix('.json')
    if args.output.suffix != _MCAP:
        msg = f'Expected a file that ends with {_MCAP} for --output, found {str(args.output)!r}.'
        raise ConfigError(msg)
    for path in (args.output, layout):
        if path.exists():
            msg = f'{str(path)!r} exists already; choose another name or remove it.'
            raise ConfigError(msg)
    prediction = predict_bag(args.bag, forecaster(args.source))
    predicted = prediction.messages('/')
    recorded = read_raw(args.bag)
    own = {topic.name for topic in recorded.topics}
    for topic in predicted.topics:
        if topic.name in own:
            msg = f'The bag {str(args.bag)!r} has a topic {topic.name} of its own already.'
            raise BagError(msg)
    written = recorded.beside(predicted)
    write_mcap(args.output, written)
    names = [name for name in (MEASURED, PREDICTED, NOMINAL) if name in prediction.series()]
    shown = foxglove_layout([f'/{n}' for n in names], prediction.joints, prediction.quantities)
    replace_file(layout, shown.encode())
    _print_errors(prediction)
    for name in prediction.unstable:
        print(f'the simulation of {name} becomes unstable')
    topics = ', '.join(topic.name for topic in predicted.topics)
    print(f'wrote {args.output}: {len(written.messages)} messages, of them {topics}')
    print(f'wrote {layout}: a layout for Foxglove')
    return 0


def _print_errors(prediction: JointPrediction) -> None:
    series = prediction.series()
    names = [name for name in (NOMINAL, PREDICTED) if name in series]
    errors = [prediction.errors(series[name]) for name in names]
    rows = [
        [joint, quantity.value, quantity.unit(slide=slide)]
        + [padded(float(each[place, column])) for each in errors]
        for column, (joint, slide) in enumerate(
            zip(prediction.joints, prediction.slides, strict=True)
        )
        for place, quantity in enumerate(type(prediction.quantities[0]))
        if quantity in prediction.quantities
    ]
    headers = ['joint', 'quantity', 'unit', *(f'>{name}' for name in names)]
    print_table(make_console(), f'Root mean square {RESIDUAL}', headers, rows)
