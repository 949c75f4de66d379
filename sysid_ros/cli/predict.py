# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""``sysid predict``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sysid_ros.cli.console import make_console, say
from sysid_ros.pipeline.forecast import forecaster
from sysid_ros.pipeline.predicting import NOMINAL, PREDICTED, RESIDUAL, write_prediction
from sysid_ros.report.numbers import padded
from sysid_ros.report.tables import print_table

if TYPE_CHECKING:
    import argparse

    from sysid_ros.pipeline.predicting import JointPrediction


def run(args: argparse.Namespace) -> int:
    """Predict a bag, write it with the prediction beside it, and say how far that is off."""
    found = write_prediction(args.bag, forecaster(args.source), args.output, args.layout)
    _print_errors(found.prediction)
    for name in found.prediction.unstable:
        say(f'the simulation of {name} becomes unstable')
    topics = ', '.join(f'/{name}' for name in found.prediction.series())
    say(f'wrote {found.mcap}: {found.messages} messages, of them {topics}')
    say(f'wrote {found.layout}: a layout for Foxglove')
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
