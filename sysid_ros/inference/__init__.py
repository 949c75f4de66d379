# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""How sure the fit is of each parameter, and what the data cannot say."""

from sysid_ros.inference.combinations import Combination
from sysid_ros.inference.covariance import LEVEL
from sysid_ros.inference.inference import Inference, infer, sharpened
from sysid_ros.inference.verdicts import Interval

__all__ = ['LEVEL', 'Combination', 'Inference', 'Interval', 'infer', 'sharpened']
