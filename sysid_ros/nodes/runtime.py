# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The life of a node's process: find ROS, spin, end cleanly, answer with an exit code.

Importing this module does not import rclpy, so that a machine without ROS gets one line that says
how to install it instead of a traceback.
"""

from __future__ import annotations

import contextlib
import queue
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from sysid_ros.errors import RosError, SysidError, complaint, one_line

if TYPE_CHECKING:
    from rclpy.executors import Executor
    from rclpy.node import Node
    from rclpy.qos import QoSProfile

#: Exit code of a node that was given something it cannot work with.
EXIT_ERROR = 2
#: Messages that the middleware holds per topic while Python is busy.
DEPTH = 10_000
#: The graph is looked at this often, s.
GRAPH_SECONDS = 0.1
#: Status and diagnostics are renewed this often, s. A graph that did not change for so long is
#: whole: the topics of one robot are discovered one after the other.
STATUS_SECONDS = 1.0
#: What is missing or late is logged this often, and what did not change for so long is finished, s.
PATIENCE_SECONDS = 5.0
#: How long last messages, answers and callbacks that wait are given at the end, s.
FAREWELL_SECONDS = 1.0
#: How long a callback, a thread or a process that works may keep others waiting, s.
WORK_SECONDS = 30.0


class Stop:
    """A request to end the process, made from any thread, callback or signal handler.

    Attributes:
        last: What a node does when its end is requested and its callbacks still run.
    """

    def __init__(self) -> None:
        # Unlike an Event, a SimpleQueue may be used in a signal handler that interrupts itself.
        self._requests: queue.SimpleQueue[None] = queue.SimpleQueue()
        self.error: BaseException | None = None
        self.requested = False
        self.last: Callable[[], None] | None = None

    def request(self, error: BaseException | None = None) -> None:
        """Ask for the end; the first error that is given decides the exit code."""
        if self.error is None:
            self.error = error
        self.requested = True
        self._requests.put(None)

    def guard(self, work: Callable[[], None]) -> None:
        """Work in a thread; an error in it is raised again in the main thread."""
        try:
            work()
        except BaseException as err:  # noqa: BLE001 (raised again in the main thread)
            self.request(err)

    def wait(self) -> None:
        """Block until the end is requested."""
        # A signal to a process that is stopped goes to any of its threads when it runs again, but
        # Python calls the handler in this one alone, and only once this one wakes up.
        while not self.requested:
            with contextlib.suppress(queue.Empty):
                self._requests.get(timeout=STATUS_SECONDS)


def run(name: str, load: Callable[[], Any], args: Sequence[str], *, threads: int = 1) -> int:
    """Run one node from start-up to the end of its process, and return its exit code.

    Ctrl-C and SIGTERM end it cleanly at any time, also during start-up, and pressing Ctrl-C again
    does not interrupt the clean-up. The handlers stay installed until the process ends. A
    `SysidError` from any callback ends it, too, by code 2.

    Args:
        name: Name of the node, unless it is remapped.
        load: Imports the class of what the node does, which is made of node and stop. Callbacks run
            in other threads, after that. It is closed when no callback runs any more.
        args: Command line with the program's name.
        threads: Callbacks that may run at the same time, where their groups allow it.
    """
    stop = Stop()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.request())
    try:
        rclpy = import_rclpy()
        if not stop.requested:
            _init(rclpy, list(args))
            with contextlib.ExitStack() as clean_up:
                clean_up.callback(rclpy.try_shutdown)
                node = _make_node(rclpy, name, stop)
                clean_up.callback(node.destroy_node)
                running = load()(node, stop)
                clean_up.callback(running.close)
                _spin(node, stop, threads)
        if stop.error is not None:
            raise stop.error
    except (SysidError, OSError) as err:
        print(f'{name}: {complaint(err)}', file=sys.stderr, flush=True)  # noqa: T201 (after the logger's end)
        return EXIT_ERROR
    finally:
        # Python drops handlers before the process ends, and Ctrl-C would kill what has ended well.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    return 0


class _Log:
    """A logger whose lines hold nothing unseen: names of joints and topics are others'."""

    def __init__(self, logger: Any) -> None:
        self._logger = logger

    def __getattr__(self, name: str) -> Any:
        return getattr(self._logger, name)

    def info(self, text: str) -> None:
        self._logger.info('\n'.join(map(one_line, text.split('\n'))))

    def warning(self, text: str) -> None:
        self._logger.warning(one_line(text))

    def error(self, text: str) -> None:
        self._logger.error('\n'.join(map(one_line, text.split('\n'))))


def _make_node(rclpy: Any, name: str, stop: Stop) -> Node:
    class LiteralNode(rclpy.node.Node):  # type: ignore[misc]
        def get_logger(self) -> Any:
            return _Log(super().get_logger())

        def create_timer(
            self, period: float, callback: Callable[[], None], *others: Any, **options: Any
        ) -> Any:
            def tick() -> None:
                try:
                    callback()
                except Exception as err:  # noqa: BLE001 (raised again in the main thread)
                    # The executor would print a stack above the sentence.
                    timer.cancel()
                    stop.request(err)

            timer = super().create_timer(period, tick, *others, **options)
            return timer

    return LiteralNode(name)


def import_rclpy() -> Any:
    """Import rclpy, or raise a RosError that says how to get it."""
    try:
        import rclpy  # noqa: PLC0415 (absent on machines that only calibrate)
        import rclpy.node  # noqa: PLC0415
    except ImportError as err:
        reason = ' '.join(str(err).split())
        raise RosError(
            f'Expected the Python package rclpy, found none ({reason}); get it with `sudo apt '
            'install ros-jazzy-rclpy` and `source /opt/ros/jazzy/setup.bash`, or with '
            "`pip install 'sysid_ros[ros]'`."
        ) from err
    return rclpy


def _init(rclpy: Any, args: list[str]) -> None:
    try:
        rclpy.init(args=args, signal_handler_options=rclpy.signals.SignalHandlerOptions.NO)
    except RuntimeError as err:
        # rclpy appends the place in its C sources.
        reason = ' '.join(str(err).partition(', at ')[0].split())
        raise RosError(
            f'Expected ROS arguments such as --ros-args -p name:=value, found an error: {reason}.'
        ) from err
    others = rclpy.utilities.remove_ros_args(args)[1:]
    if others:
        rclpy.try_shutdown()
        raise RosError(
            f'Expected arguments after --ros-args, as -p name:=value, found {others[0]!r}.'
        )


def quiet_node(node: Node, purpose: str) -> Node:
    """Return a node for subscriptions that no executor serves, in the namespace of another one."""
    # Tools do not show such a name: the node has no parameters that they could ask for.
    return import_rclpy().create_node(
        f'_{node.get_name()}_{purpose}',
        namespace=node.get_namespace(),
        use_global_arguments=False,
        start_parameter_services=False,
        enable_rosout=False,
    )


def latched() -> QoSProfile:
    """Return the quality of service of a topic whose last message late subscribers get, too."""
    from rclpy.qos import DurabilityPolicy, QoSProfile  # noqa: PLC0415 (needs ROS)

    return QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)


def _make_executor(threads: int) -> Executor:
    """Return rclpy's EventsExecutor; for more threads, whose callbacks may block, another one.

    The EventsExecutor takes a third of the processor time. It cannot call a subscription's
    callback of two arguments (message and info): such callbacks must not be used in our nodes.
    """
    if threads > 1:
        from rclpy.executors import MultiThreadedExecutor  # noqa: PLC0415 (needs ROS)

        return MultiThreadedExecutor(threads)
    from rclpy.experimental import EventsExecutor  # noqa: PLC0415 (needs ROS)

    return EventsExecutor()


def _spin(node: Node, stop: Stop, threads: int) -> None:
    """Spin a node in a thread of its own until the end is requested.

    The main thread stays free for signals: Python runs their handlers only there, and not while
    it waits inside an executor.
    """
    executor = _make_executor(threads)
    executor.add_node(node)
    work = partial(_spin_thread, executor, stop)
    thread = threading.Thread(target=stop.guard, args=(work,), name='executor', daemon=True)
    thread.start()
    stop.wait()
    if stop.last is not None:
        stop.last()
    if thread.is_alive():
        # Callbacks run that wait already: a recorder's last messages are among them.
        drained = threading.Event()
        executor.create_task(drained.set)
        drained.wait(FAREWELL_SECONDS)
    executor.shutdown(WORK_SECONDS)
    thread.join(WORK_SECONDS)


def _spin_thread(executor: Executor, stop: Stop) -> None:
    from rclpy.executors import Executor as PythonExecutor  # noqa: PLC0415 (needs ROS)
    from rclpy.task import Future  # noqa: PLC0415

    if isinstance(executor, PythonExecutor):
        # With a future it would remember one more function after every callback.
        executor.spin()
        return
    never = Future()
    # Without a limit the EventsExecutor of rclpy 7.1 computes its deadline beyond the end of the
    # clock and spins on one core without any callback.
    while not stop.requested:
        executor.spin_until_future_complete(never, timeout_sec=WORK_SECONDS)
