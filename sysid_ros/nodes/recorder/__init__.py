# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The recorder: subscriptions that follow the graph, a bag, and facts about the session."""
