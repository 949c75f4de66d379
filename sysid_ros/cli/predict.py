# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""``sysid predict``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sysid_ros.cli.console import make_console, print_document, say
from sysid_ros.cli.documents import PredictionDocument, PredictionError
from sysid_ros.pipeline.forecast import forecaster
from sysid_ros.pipeline.predicting import NOMINAL, PREDICTED, RESIDUAL, write_prediction
from sysid_ros.report.numbers import padded
from sysid_ros.report.tables import print_table

if TYPE_CHECKING:
    import argparse

    from sysid_ros.pipeline.predicting import JointPrediction


def run(args: argparse.Namespace) -> int:
    """Predict a bag, write it with the prediction beside it, and say how far that is off."""
    found = write_prediction(args.bag, forecaster(args.source), args.output)
    errors = _errors(found.prediction)
    topics = [f'/{name}' for name in found.prediction.series()]
    if args.json:
        unstable = found.prediction.unstable
        print_document(PredictionDocument(found.mcap, found.messages, topics, unstable, errors))
        return 0
    _print_errors(found.prediction, errors)
    for name in found.prediction.unstable:
        say(f'the simulation of {name} becomes unstable')
    say(f'wrote {found.mcap}: {found.messages} messages, of them {", ".join(topics)}')
    return 0


def _errors(prediction: JointPrediction) -> list[PredictionError]:
    predicted = prediction.errors(prediction.predicted)
    nominal = np.full_like(predicted, np.nan)
    if prediction.nominal is not None:
        nominal = prediction.errors(prediction.nominal)
    return [
        PredictionError(
            joint,
            quantity.value,
            quantity.unit(slide=slide),
            float(nominal[place, column]),
            float(predicted[place, column]),
        )
        for column, (joint, slide) in enumerate(
            zip(prediction.joints, prediction.slides, strict=True)
        )
        for place, quantity in enumerate(type(prediction.quantities[0]))
        if quantity in prediction.quantities
    ]


def _print_errors(prediction: JointPrediction, errors: list[PredictionError]) -> None:
    names = [name for name in (NOMINAL, PREDICTED) if name in prediction.series()]
    rows = [
        [error.joint, error.quantity, error.unit]
        + [padded(value) for value in (error.nominal, error.predicted)[-len(names) :]]
        for error in errors
    ]
    headers = ['joint', 'quantity', 'unit', *(f'>{name}' for name in names)]
    print_table(make_console(), f'Root mean square {RESIDUAL}', headers, rows)
