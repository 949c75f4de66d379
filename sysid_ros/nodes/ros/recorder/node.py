# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What the ``recorder`` node does: subscribe to what is published and put it into a bag."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from diagnostic_msgs.msg import DiagnosticArray
from rclpy.clock import Clock, ClockType
from rclpy.duration import Duration
from std_msgs.msg import String
from std_srvs.srv import Trigger

from sysid_ros.bags.recording import Buffering, Recording, TopicCount, free_name
from sysid_ros.bags.snapshot import Snapshot
from sysid_ros.bags.writer import BagWriter, Splitting
from sysid_ros.config import RecorderConfig
from sysid_ros.errors import ConfigError, SysidError
from sysid_ros.model.loading import load_model
from sysid_ros.nodes.ros.parameters import declare
from sysid_ros.nodes.ros.recorder.diagnostics import (
    Diagnosis,
    Quality,
    RecorderState,
    Situation,
    farewell,
)
from sysid_ros.nodes.ros.recorder.facts import SessionFacts
from sysid_ros.nodes.ros.recorder.graph import make_selection
from sysid_ros.nodes.ros.recorder.subscriptions import Subscriptions, read_overrides
from sysid_ros.nodes.ros.recorder.topic_watch import TopicWatch
from sysid_ros.nodes.ros.runtime import latched

if TYPE_CHECKING:
    from rclpy.node import Node

    from sysid_ros.bags.recording import TopicSpec
    from sysid_ros.nodes.ros.runtime import Stop

#: The graph is looked at this often, seconds.
_LOOK_SECONDS = 0.1
#: Status, diagnostics and facts are renewed this often, seconds.
_SLOW_SECONDS = 1.0
#: What is still missing is logged this often, seconds.
_REMIND_SECONDS = 3.0
#: How long the last status may take to reach its subscribers, seconds.
_FAREWELL_SECONDS = 0.5


class Recorder:
    """Records topics of the graph into bags."""

    def __init__(self, node: Node, stop: Stop) -> None:
        """Declare parameters, services and the status, and begin to look for topics.

        Raises:
            SysidError: A parameter or the model is not valid, or the output exists.
        """
        self._node = node
        self._stop = stop
        self._log = node.get_logger()
        self._config = declare(
            node,
            RecorderConfig,
            changeable=('max_duration', 'notes'),
            # Which clock times are of is decided here.
            fixed=('use_sim_time',),
            on_change=self._set_config,
        )
        if not self._config.output:
            msg = "Expected the bag's folder in parameter 'output', as -p output:=DIR, found none."
            raise ConfigError(msg)
        self._base = self._output = Path(self._config.output)
        # Complains now if the folder exists.
        BagWriter(self._base, self._config.storage, compression=self._config.compression)
        sim_time = bool(node.get_parameter('use_sim_time').value)
        selection = make_selection(node, self._config, sim_time=sim_time)
        overrides = read_overrides(node, self._config.qos_overrides)
        self._paused = self._config.start_paused
        self._state = RecorderState.WAITING
        self._recording: Recording | None = None
        seconds = self._config.snapshot_seconds
        self._snapshot = Snapshot(seconds) if seconds else None
        self._counts: tuple[TopicCount, ...] = ()
        # With its namespace: diagnostics of all robots come together on one topic.
        name = node.get_fully_qualified_name().lstrip('/')
        self._quality: Quality | None = None
        if self._config.quality:
            model = load_model(Path(self._config.model)) if self._config.model else None
            self._quality = Quality(name, model, panel=self._config.panel)
        self._slow = self._reminded = self._ticked = time.monotonic()
        self._recorded = 0.0
        self._subscriptions = Subscriptions(
            node, stop.request, overrides=overrides, now=self._ros_time if sim_time else None
        )
        if self._quality is not None:
            self._subscriptions.tap = self._quality.take
        self._topics = TopicWatch(node, selection, self._subscriptions)
        self._facts = SessionFacts(node, selection, self._tell_facts, sim_time=sim_time)
        self._diagnosis = Diagnosis(name)
        self._status = node.create_publisher(String, '~/status', latched())
        self._diagnostics = node.create_publisher(DiagnosticArray, '/diagnostics', 10)
        self._offer_services()
        # Not the node's clock: with use_sim_time a paused simulation would stop the recorder.
        steady = Clock(clock_type=ClockType.STEADY_TIME)
        node.create_timer(_LOOK_SECONDS, self._tick, clock=steady)
        self._publish()

    def close(self) -> None:
        """Finish the bag and say good-bye on the status topic."""
        self._subscriptions.close()
        self._end_recording()
        self._facts.close()
        if self._quality is not None:
            self._quality.close()
        self._state = RecorderState.STOPPED
        self._publish()
        for publisher in (self._status, self._diagnostics):
            publisher.wait_for_all_acked(Duration(seconds=_FAREWELL_SECONDS))

    def _set_config(self, config: RecorderConfig) -> None:
        self._config = config
        self._tell_facts()

    def _ros_time(self) -> int:
        return int(self._node.get_clock().now().nanoseconds)

    # The course of a recording

    def _tick(self) -> None:
        now = time.monotonic()
        elapsed, self._ticked = now - self._ticked, now
        due = now - self._slow >= _SLOW_SECONDS
        self._topics.look(self._recording, slowly=due)
        if self._state is RecorderState.WAITING:
            self._wait(now)
        elif self._state in {RecorderState.RECORDING, RecorderState.KEEPING}:
            self._recorded += elapsed
            if 0 < self._config.max_duration <= self._recorded:
                self._log.info(f'max_duration of {self._config.max_duration:g} s is over')
                self._stop.request()
        self._facts.look(self._topics.graph, slowly=due)
        if due:
            self._slow = now
            self._tell_facts()
            self._publish()

    def _wait(self, now: float) -> None:
        """Subscribe when everything is published; be ready when all of it is connected."""
        if not self._topics.begun and self._topics.is_complete(now):
            specs = self._topics.specs()
            # The bag comes first, so that nothing that arrives is without a place.
            if self._snapshot is not None:
                self._subscriptions.sink = self._snapshot
            elif not self._paused:
                self._begin_recording(specs)
            self._topics.begin(specs)
            self._tell_facts()
        waiting_for = self._topics.waiting_for
        if self._topics.begun and waiting_for is None:
            self._ready()
        elif now - self._reminded >= _REMIND_SECONDS:
            self._reminded = now
            if waiting_for is not None:
                self._log.info(f'waiting for {waiting_for}; `sysid doctor` says what is seen here')

    def _ready(self) -> None:
        self._recorded = 0.0
        topics = ', '.join(spec.topic for spec in self._subscriptions.specs)
        if self._snapshot is not None:
            self._state = RecorderState.KEEPING
            seconds = self._snapshot.seconds
            self._log.info(f'keeping {seconds:g} s of {topics}; call ~/snapshot to write them')
        elif self._paused:
            self._state = RecorderState.PAUSED
            self._log.info('paused; call ~/start to record')
        else:
            self._state = RecorderState.RECORDING
            self._log.info(f'recording {topics} to {str(self._output)!r}')
        self._publish()

    def _begin_recording(self, specs: tuple[TopicSpec, ...]) -> None:
        self._output = free_name(self._base) if self._counts else self._base
        self._counts = ()
        config = self._config
        self._recording = Recording(
            self._output,
            specs,
            storage=config.storage,
            compression=config.compression,
            splitting=Splitting(config.max_bag_size, config.max_bag_duration),
            buffering=Buffering(
                queue_seconds=config.queue_seconds, sync_seconds=config.sync_seconds
            ),
            facts=self._facts.begin(config, self._topics),
            on_failure=self._stop.request,
        )
        self._hear(self._recording)

    def _hear(self, recording: Recording) -> None:
        self._subscriptions.sink = recording
        self._subscriptions.repeat_latched()

    def _end_recording(self) -> SysidError | None:
        """Finish the bag, if there is one; return why it could not be written."""
        self._tell_facts(final=True)
        recording, self._recording = self._recording, None
        self._subscriptions.sink = None
        if recording is None:
            return None
        done = recording.close()
        self._counts = done.counts
        self._log.info(farewell(done, (*self._topics.refused.values(), *self._topics.unpublished)))
        return done.failure

    def _tell_facts(self, *, final: bool = False) -> None:
        if self._recording is not None:
            facts = self._facts.current(self._config, self._topics, final=final)
            self._recording.set_facts(facts)

    # Services

    def _offer_services(self) -> None:
        node = self._node
        if self._snapshot is not None:
            # As in rosbag2, it is there in this mode only; no bag is open for the others.
            node.create_service(Trigger, '~/snapshot', self._on_snapshot)
            return
        node.create_service(Trigger, '~/start', self._on_start)
        node.create_service(Trigger, '~/stop', self._on_stop)
        node.create_service(Trigger, '~/pause', self._on_pause)
        node.create_service(Trigger, '~/resume', self._on_resume)
        node.create_service(Trigger, '~/split', self._on_split)

    def _on_snapshot(self, _: Any, response: Any) -> Any:
        if self._snapshot is None or self._state is not RecorderState.KEEPING:
            response.message = f'Nothing is kept yet: the recorder is {self._state.value}.'
            return response
        path = free_name(self._base)
        try:
            done = self._snapshot.write(
                path,
                self._subscriptions.specs,
                self._subscriptions.latched(),
                storage=self._config.storage,
                compression=self._config.compression,
                facts=self._facts.begin(self._config, self._topics),
            )
        except SysidError as err:
            response.message = str(err)
            return response
        self._output, self._counts = path, done.counts
        self._log.info(farewell(done, ()))
        self._publish()
        response.success = done.failure is None
        messages = sum(count.messages for count in done.counts)
        wrote = f'Wrote {str(path)!r}: {messages} messages of {done.seconds:.1f} s.'
        response.message = str(done.failure) if done.failure else wrote
        return response

    def _on_start(self, _: Any, response: Any) -> Any:
        if self._recording is not None and not self._paused:
            response.message = f'Already recording to {str(self._output)!r}.'
            return response
        try:
            if self._recording is not None:
                self._hear(self._recording)
            elif self._topics.begun:
                self._begin_recording(self._subscriptions.specs)
        except SysidError as err:
            response.message = str(err)
            return response
        self._paused = False
        response.success = True
        if self._recording is None:
            self._state = RecorderState.WAITING
            missing = self._topics.waiting_for or 'all topics'
            response.message = f'Recording begins when there is {missing}.'
        elif self._state is RecorderState.WAITING:
            response.message = 'Recording begins when all topics are connected.'
        else:
            if self._state is RecorderState.STOPPED or not self._recorded:
                self._ready()
            else:
                self._state = RecorderState.RECORDING
                self._log.info('recording goes on')
            response.message = f'Recording to {str(self._output)!r}.'
        self._publish()
        return response

    def _on_resume(self, request: Any, response: Any) -> Any:
        if self._state is RecorderState.STOPPED:
            response.message = 'The recorder is stopped: call ~/start for another bag.'
            return response
        return self._on_start(request, response)

    def _on_pause(self, _: Any, response: Any) -> Any:
        if self._paused or self._state is RecorderState.STOPPED:
            response.message = f'Not recording: the recorder is {self._state.value}.'
            return response
        self._paused = True
        self._subscriptions.sink = None
        if self._state is RecorderState.RECORDING:
            self._state = RecorderState.PAUSED
            self._log.info('paused; call ~/resume to go on')
        self._publish()
        response.success = True
        response.message = f'Paused; {str(self._output)!r} goes on with ~/resume.'
        return response

    def _on_split(self, _: Any, response: Any) -> Any:
        if self._recording is None:
            response.message = f'Not recording: the recorder is {self._state.value}.'
            return response
        self._recording.split()
        response.success = True
        response.message = f'{str(self._output)!r} goes on in another file.'
        return response

    def _on_stop(self, _: Any, response: Any) -> Any:
        if self._recording is None and (self._state is not RecorderState.WAITING or self._paused):
            response.message = f'Not recording: the recorder is {self._state.value}.'
            return response
        began = self._recording is not None
        failure = self._end_recording()
        self._state = RecorderState.STOPPED
        self._paused = True
        self._publish()
        response.success = failure is None
        closed = f'Closed {str(self._output)!r}.' if began else 'Stopped; nothing was recorded.'
        response.message = str(failure) if failure else closed
        return response

    # What it says

    def _publish(self) -> None:
        situation = Situation(
            state=self._state,
            output=self._output,
            counts=self._counts if self._recording is None else self._recording.counts(),
            heard=self._subscriptions.heard(),
            waiting_for=self._topics.waiting_for if self._state is RecorderState.WAITING else None,
            missing=self._topics.missing,
            refused=self._topics.refused,
            error=str(self._stop.error) if self._stop.error else '',
        )
        self._status.publish(String(data=situation.to_json()))
        status = self._diagnosis.statuses(situation)
        if self._quality is not None:
            status.extend(self._quality.statuses())
        message = DiagnosticArray(status=status)
        message.header.stamp = self._node.get_clock().now().to_msg()
        self._diagnostics.publish(message)
