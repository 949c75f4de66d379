# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The message types that become columns: one module each, and the table of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from sysid_ros.bags.messages import float64_multi_array, joint_state, joint_trajectory, string

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from sysid_ros.bags.columns import TopicColumns


class Decoder(Protocol):
    """Turns all messages of a topic into columns."""

    def __call__(
        self, topic: str, receive_ns: NDArray[np.int64], messages: Sequence[bytes], /
    ) -> TopicColumns:
        """Decode n messages that were received at (n,) ns."""


#: Message type to its decoder. A new type is a new module and a line here.
DECODERS: Mapping[str, Decoder] = {
    module.MSGTYPE: module.decode for module in (float64_multi_array, joint_state, joint_trajectory)
}

#: The type of texts, of which only the first message of a topic is kept.
TEXT = string.MSGTYPE
decode_text = string.decode

__all__ = ['DECODERS', 'TEXT', 'Decoder', 'decode_text']
