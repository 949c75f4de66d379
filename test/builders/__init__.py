# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Models, recordings and plants that tests of several packages are made of."""
