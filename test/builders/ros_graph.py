# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""ROS processes in a domain of their own, and a node inside the test to talk to them."""

from __future__ import annotations

import multiprocessing
import os
import random
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

import pytest

from sysid_ros.nodes.__main__ import NODES, main

REPOSITORY = Path(__file__).resolve().parents[2]

#: Domains whose ports are free of the ephemeral range on Linux; 0 is everybody's default, and the
#: demo takes one from 51 on, without asking who else is there.
DOMAINS = range(1, 51)
#: Longest wait for anything that a process does, seconds. Reached only when a test fails.
TIMEOUT = 600.0
#: Longest wait for the answer to a request before it is repeated, seconds.
_ANSWER_SECONDS = 5.0
#: Messages that may wait to be taken.
_LONGEST_QUEUE = 1000


@contextmanager
def own_domain() -> Iterator[dict[str, str]]:
    """Take a ROS domain that no other test on this machine has, and yield an environment with it.

    The test's own process gets the same domain.
    """
    # An abstract socket is a lock that ends with its process.
    lock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    for domain in random.sample(DOMAINS, len(DOMAINS)):
        try:
            lock.bind(f'\0sysid_ros.test.domain.{domain}')
        except OSError:
            continue
        break
    else:
        pytest.fail('all ROS domains are in use by other tests')
    paths = [str(REPOSITORY), os.environ.get('PYTHONPATH', '')]
    own = {'ROS_DOMAIN_ID': str(domain), 'ROS_AUTOMATIC_DISCOVERY_RANGE': 'LOCALHOST'}
    with lock, pytest.MonkeyPatch.context() as monkeypatch:
        for name, value in own.items():
            monkeypatch.setenv(name, value)
        yield {
            **os.environ,
            **own,
            'PYTHONPATH': os.pathsep.join(filter(None, paths)),
            'PYTHONUNBUFFERED': '1',
        }


#: What nodes import. A process that has it is forked for each node: numpy, scipy, MuJoCo and rclpy
#: take two seconds of a processor, longer than most nodes of a test run for.
PRELOADED = [
    'rclpy',
    'sensor_msgs.msg',
    'sysid_ros.report.html',
    *(module for module, _, _ in NODES.values()),
]


def _become(program: str, arguments: list[str], env: dict[str, str], pipe: str) -> None:
    """Be ``python -m sysid_ros.nodes NODE …``, or ``python FILE.py …``, in a forked process."""
    os.environ.clear()
    os.environ.update(env)
    output = os.open(pipe, os.O_WRONLY)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(output)
    sys.stdout = open(1, 'w', buffering=1, closefd=False)  # noqa: SIM115 (for all of its life)
    sys.stderr = open(2, 'w', buffering=1, closefd=False)  # noqa: SIM115
    if program.endswith('.py'):
        sys.argv = [program, *arguments]
        runpy.run_path(program, run_name='__main__')
    else:
        sys.argv = ['sysid_ros.nodes', program, *arguments]
        sys.orig_argv = [sys.executable, '-m', *sys.argv]
        sys.exit(main())


class _Forked:
    """A process that is forked from one that has imported what nodes need, as a `Popen`."""

    def __init__(self, program: str, arguments: list[str], env: Mapping[str, str]) -> None:
        context = multiprocessing.get_context('forkserver')
        context.set_forkserver_preload(PRELOADED)
        with tempfile.TemporaryDirectory() as folder:
            pipe = str(Path(folder) / 'output')
            os.mkfifo(pipe)
            self._process = context.Process(
                target=_become, args=(program, arguments, dict(env), pipe)
            )
            self._process.start()
            self.stdout = open(pipe, encoding='utf-8')  # noqa: PTH123, SIM115 (read in a thread)

    def poll(self) -> int | None:
        """Return the exit code; None while it runs."""
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        """Block until it has ended, and return its exit code."""
        self._process.join(timeout)
        code = self._process.exitcode
        if code is None:
            raise subprocess.TimeoutExpired(self._process.name, timeout or 0.0)
        return code

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self._process.exitcode is None and self._process.pid is not None:
            with suppress(ProcessLookupError):
                os.kill(self._process.pid, number)

    def kill(self) -> None:
        """End it whatever it does."""
        self.send_signal(signal.SIGKILL)


class NodeProcess:
    """A Python process whose output is read as it comes."""

    def __init__(
        self, program: str, arguments: list[str], env: Mapping[str, str], log: Path
    ) -> None:
        self._lines: list[str] = []
        self._ended = False
        self._changed = threading.Condition()
        self._log = log
        self.process = _Forked(program, arguments, env)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        with self._log.open('w') as log, self.process.stdout as output:
            for line in output:
                log.write(line)
                with self._changed:
                    self._lines.append(line.rstrip('\n'))
                    self._changed.notify_all()
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    @property
    def output(self) -> str:
        """Everything that the process printed so far, standard error included."""
        with self._changed:
            return '\n'.join(self._lines)

    def wait_for_line(self, text: str, timeout: float = TIMEOUT) -> str:
        """Block until a line holds a text, and return the first such line."""
        deadline = time.monotonic() + timeout
        seen = 0
        with self._changed:
            while True:
                for line in self._lines[seen:]:
                    if text in line:
                        return line
                seen = len(self._lines)
                left = deadline - time.monotonic()
                if self._ended or left <= 0:
                    break
                self._changed.wait(left)
            printed = '\n'.join(self._lines)
        why = 'ended' if self._ended else f'ran for {timeout:g} s'
        pytest.fail(f'The process {why} without printing {text!r}; it printed:\n{printed}')

    def wait(self, timeout: float = TIMEOUT) -> int:
        """Block until the process has ended, and return its exit code."""
        try:
            code = self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            pytest.fail(f'The process still runs after {timeout:g} s; it printed:\n{self.output}')
        self._reader.join(timeout)
        return code

    def stop(self, number: int = signal.SIGINT, timeout: float = TIMEOUT) -> int:
        """Send a signal, wait for the end, and return the exit code."""
        self.process.send_signal(number)
        return self.wait(timeout)

    def kill(self) -> None:
        """End the process whatever it does."""
        self.process.kill()
        self.process.wait()
        self._reader.join(TIMEOUT)


def as_arguments(namespace: object = '', **parameters: object) -> list[str]:
    """Return the arguments of a node that set its namespace and its parameters."""
    words = ['-r', f'__ns:={namespace}'] if namespace else []
    for name, value in parameters.items():
        words += ['-p', f'{name}:={value}']
    return ['--ros-args', *words] if words else []


class StartNode(Protocol):
    """Starts ``python -m sysid_ros.nodes NODE …``, or ``python FILE.py …``."""

    def __call__(
        self, program: str | Path, *arguments: str | Path, **parameters: object
    ) -> NodeProcess:
        """Return the process."""


@contextmanager
def node_processes(env: Mapping[str, str], folder: Path) -> Iterator[StartNode]:
    """Yield a function that starts processes; those that still run at the end are killed."""
    started: list[NodeProcess] = []

    def start(program: str | Path, *arguments: str | Path, **parameters: object) -> NodeProcess:
        name = str(program)
        log = folder / f'{len(started)}_{Path(name).name}.log'
        words = [*map(str, arguments), *as_arguments(**parameters)]
        started.append(NodeProcess(name, words, env, log))
        return started[-1]

    try:
        yield start
    finally:
        for process in started:
            process.kill()


class RosClient:
    """A node inside the test, to talk to nodes under test."""

    def __init__(self, node: Any, executor: Any) -> None:
        self.node = node
        self._executor = executor

    def call(self, kind: Any, name: str, request: Any = None, timeout: float = TIMEOUT) -> Any:
        """Call a service that answers at once and return the response.

        Fast DDS loses about one in a hundred requests or answers between two nodes where one has
        discovered the other and not yet been discovered by it (ros2/rmw_fastrtps, issue 842), so
        that a request without an answer is repeated.
        """
        client = self.node.create_client(kind, name)
        deadline = time.monotonic() + timeout
        assert client.wait_for_service(timeout), f'there is no service {name}'
        while time.monotonic() < deadline:
            future = client.call_async(request or kind.Request())
            self._executor.spin_until_future_complete(future, _ANSWER_SECONDS)
            if future.done():
                return future.result()
        pytest.fail(f'nothing from {name} within {timeout:g} s')

    def message(
        self,
        kind: Any,
        topic: str,
        accept: Callable[[Any], bool] = lambda _: True,
        timeout: float = TIMEOUT,
        *,
        latched: bool = True,
    ) -> Any:
        """Return the first message of a topic that is accepted."""
        from rclpy.qos import DurabilityPolicy, QoSProfile  # noqa: PLC0415 (absent without ROS)
        from rclpy.task import Future  # noqa: PLC0415

        durability = DurabilityPolicy.TRANSIENT_LOCAL if latched else DurabilityPolicy.VOLATILE
        found = Future(executor=self._executor)
        subscription = self.node.create_subscription(
            kind,
            topic,
            lambda message: accept(message) and not found.done() and found.set_result(message),
            QoSProfile(depth=_LONGEST_QUEUE, durability=durability),
        )
        try:
            return self.finish(found, topic, timeout)
        finally:
            self.node.destroy_subscription(subscription)

    def set_parameter(self, node: str, name: str, value: object) -> tuple[bool, str]:
        """Set a parameter of a node and return success and reason."""
        from rcl_interfaces.srv import SetParameters  # noqa: PLC0415 (absent without ROS)
        from rclpy.parameter import Parameter  # noqa: PLC0415

        changes = [Parameter(name, value=value).to_parameter_msg()]
        request = SetParameters.Request(parameters=changes)
        (result,) = self.call(SetParameters, f'{node}/set_parameters', request).results
        return result.successful, result.reason

    def diagnosis(self, name: str, said: str) -> tuple[bytes, dict[str, str]]:
        """Return level and values of the first status of a name whose message has a text."""
        from diagnostic_msgs.msg import DiagnosticArray  # noqa: PLC0415 (absent without ROS)

        found: list[Any] = []

        def accept(message: Any) -> bool:
            found[:] = [s for s in message.status if s.name == name and said in s.message]
            return bool(found)

        self.message(DiagnosticArray, '/diagnostics', accept, latched=False)
        return found[0].level, {pair.key: pair.value for pair in found[0].values}

    def spin_until(self, done: Callable[[], bool], timeout: float = TIMEOUT) -> None:
        """Take what comes until something is done, and what has come by then."""
        deadline = time.monotonic() + timeout
        while not done():
            self._executor.spin_once(timeout_sec=0.02)
            assert time.monotonic() < deadline, f'not done within {timeout:g} s'
        for _ in range(_LONGEST_QUEUE):
            self._executor.spin_once(timeout_sec=0)

    def wait(self, process: NodeProcess) -> int:
        """Take what comes until a process has ended, and return its exit code."""
        # What is not taken when its sender leaves is lost.
        self.spin_until(lambda: process.process.poll() is not None)
        return process.wait()

    def finish(self, future: Any, name: str, timeout: float = TIMEOUT) -> Any:
        """Return what a future becomes."""
        self._executor.spin_until_future_complete(future, timeout)
        assert future.done(), f'nothing from {name} within {timeout:g} s'
        return future.result()


@contextmanager
def client_node(env: Mapping[str, str]) -> Iterator[RosClient]:
    """Yield a node in the test's own process and the domain of an environment."""
    import rclpy  # noqa: PLC0415 (absent without ROS)
    from rclpy.executors import SingleThreadedExecutor  # noqa: PLC0415
    from rclpy.signals import SignalHandlerOptions  # noqa: PLC0415

    context = rclpy.Context()
    rclpy.init(
        context=context,
        domain_id=int(env['ROS_DOMAIN_ID']),
        signal_handler_options=SignalHandlerOptions.NO,
    )
    node = rclpy.create_node('test_client', context=context)
    executor = SingleThreadedExecutor(context=context)
    executor.add_node(node)
    yield RosClient(node, executor)
    executor.shutdown()
    node.destroy_node()
    rclpy.try_shutdown(context=context)
