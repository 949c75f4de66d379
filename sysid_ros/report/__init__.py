# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The page, tables and figures of a result; nothing is computed here."""
