# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Call a calibrator's ``~/refit`` once and print the answer and what arrives on its topics.

What ``ros2 service call`` and ``ros2 topic echo`` do, for machines without the ros2 command.
"""

from __future__ import annotations

import queue
import sys
import threading
from typing import TYPE_CHECKING, Any

from sysid_ros.config import RefitConfig
from sysid_ros.errors import RosError
from sysid_ros.nodes.ros.parameters import declare
from sysid_ros.nodes.ros.runtime import latched, run
from sysid_ros.text import one_line

if TYPE_CHECKING:
    from rclpy.node import Node

    from sysid_ros.nodes.ros.runtime import Stop

#: How long the latched topics may take after the answer, s.
_TOPIC_SECONDS = 10.0
#: How often it looks whether the calibrator is still there, s.
_LOOK_SECONDS = 1.0
#: How often in a row the calibrator may say that it is not fitting, without having answered.
_IDLE_MESSAGES = 5


class RefitCall:
    """One call and three subscriptions; ends the process when all has arrived."""

    def __init__(self, node: Node, stop: Stop) -> None:
        """Subscribe, and call as soon as the service is there."""
        self._node = node
        self._stop = stop
        self._config = declare(node, RefitConfig)
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Do nothing: the thread ends with the process."""

    def _work(self) -> None:
        try:
            self._call()
        except BaseException as err:  # noqa: BLE001 (raised again in the main thread)
            # After Ctrl-C the node goes away under this thread, which is no error.
            self._stop.request(None if self._stop.requested else err)
        else:
            self._stop.request()

    def _call(self) -> None:
        from diagnostic_msgs.msg import DiagnosticArray  # noqa: PLC0415 (needs ROS)
        from std_msgs.msg import String  # noqa: PLC0415
        from std_srvs.srv import Trigger  # noqa: PLC0415

        name = self._config.calibrator
        client = self._node.create_client(Trigger, f'{name}/refit')
        if not client.wait_for_service(self._config.timeout):
            msg = f'No service {name}/refit appeared within {self._config.timeout:g} s.'
            raise RosError(msg)
        answer = self._answer(client)
        print(f'success: {answer.success}', flush=True)  # noqa: T201
        print(f'message: {one_line(answer.message)}', flush=True)  # noqa: T201
        if not answer.success:
            raise RosError(answer.message)
        arrived: list[tuple[threading.Event, str]] = []
        for topic, kind, show in (
            (f'{name}/parameters', DiagnosticArray, _show_parameters),
            (f'{name}/mjcf', String, _show_text),
            (f'{name}/result', String, _show_text),
        ):
            event = threading.Event()
            arrived.append((event, topic))

            def receive(
                message: Any, topic: str = topic, show: Any = show, event: Any = event
            ) -> None:
                print(f'{topic}: {show(message)}', flush=True)  # noqa: T201
                event.set()

            self._node.create_subscription(kind, topic, receive, latched())
        for event, topic in arrived:
            if not event.wait(_TOPIC_SECONDS):
                msg = f'Nothing arrived on {topic} within {_TOPIC_SECONDS:g} s.'
                raise RosError(msg)

    def _answer(self, client: Any) -> Any:
        """Call, and call again while the calibrator is idle and has not answered.

        A service that has just been discovered may not have discovered its client: Fast DDS then
        loses the request, or the answer (github.com/ros2/rmw_fastrtps/issues/842).
        """
        from diagnostic_msgs.msg import DiagnosticArray  # noqa: PLC0415 (needs ROS)
        from std_srvs.srv import Trigger  # noqa: PLC0415

        name = self._node.resolve_service_name(client.srv_name).removesuffix('/refit')
        answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
        idle = 0

        def hear(message: Any) -> None:
            nonlocal idle
            for status in message.status:
                if status.name == f'{name}: calibration':
                    values = {pair.key: pair.value for pair in status.values}
                    idle = idle + 1 if values['fitting'] == 'false' else 0

        def call() -> None:
            client.call_async(Trigger.Request()).add_done_callback(
                lambda done: answers.put(done.result())
            )

        self._node.create_subscription(DiagnosticArray, '/diagnostics', hear, 10)
        call()
        while True:
            try:
                return answers.get(timeout=_LOOK_SECONDS)
            except queue.Empty:
                pass
            if not client.service_is_ready():
                msg = f'{self._config.calibrator} ended before it answered.'
                raise RosError(msg)
            if idle >= _IDLE_MESSAGES:
                idle = 0
                call()


def _show_parameters(message: Any) -> str:
    lines = [f'{len(message.status)} parameters']
    for status in message.status:
        found = {pair.key: pair.value for pair in status.values}
        value, low, high = (float(found[key]) for key in ('value', 'low', 'high'))
        lines.append(
            f'  {status.name:32s} {value:10.5g} [{low:.5g}, {high:.5g}] '
            f'{found["unit"]}, {status.message}'
        )
    return '\n'.join(map(one_line, lines))


def _show_text(message: Any) -> str:
    first = next((line.strip() for line in message.data.splitlines() if line.strip()), '')
    return f'{len(message.data)} characters, beginning with {first[:60]!r}'


def main() -> int:
    """Run the node ``refit``."""
    return run('refit', RefitCall)


if __name__ == '__main__':
    sys.exit(main())
