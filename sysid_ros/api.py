# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Calibration from Python: a model and bags in, a `Result` out; nothing is written unless asked."""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, SupportsIndex, overload

import mujoco

from sysid_ros.alignment import Alignment
from sysid_ros.config.files import validate as validated
from sysid_ros.config.schema import CalibrationConfig, SegmentsConfig, ServoConfig, StampChoice
from sysid_ros.errors import ParameterError, ResultError, nearest
from sysid_ros.fit.observer import Observer
from sysid_ros.model.kinds import Role
from sysid_ros.model.loading import drop_implied, write_delays
from sysid_ros.report.figures import draw_parameters, draw_sensors
from sysid_ros.report.tables import alignment_text, parameters_text, result_text
from sysid_ros.results.result import CalibrationResult, ParameterResult
from sysid_ros.results.store import find
from sysid_ros.signals import Trajectory
from sysid_ros.toolbox import Parameter, ParameterDict, apply_param_modifiers_spec
from sysid_ros.workflows.calibrate import identify
from sysid_ros.workflows.problem import joints_of, read_aligned
from sysid_ros.workflows.stored import read_again
from sysid_ros.workflows.writing import Calibration, Identified, write

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: A path, as a string or as a Path.
PathLike = str | Path
#: A target such as ``joint/*/armature``, or an entry of ``parameters`` in calibration.yaml.
ParameterLike = str | Mapping[str, Any]


class Parameters(tuple[ParameterResult, ...]):
    """The parameters of a result, by place, by name or in turn."""

    __slots__ = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The names, in order."""
        return tuple(entry.name for entry in self)

    @overload
    def __getitem__(self, key: SupportsIndex | str) -> ParameterResult: ...
    @overload
    def __getitem__(self, key: slice) -> Parameters: ...
    def __getitem__(self, key: SupportsIndex | str | slice) -> ParameterResult | Parameters:
        """Return a parameter, or for a slice several.

        Raises:
            ParameterError: There is none of that name; the nearest is named.
        """
        if isinstance(key, slice):
            return Parameters(super().__getitem__(key))
        if not isinstance(key, str):
            return super().__getitem__(key)
        if key not in self.names:
            raise ParameterError(
                f'The result has no parameter {key!r}; {nearest(key, self.names)}.'
            )
        return super().__getitem__(self.names.index(key))

    def __contains__(self, key: object) -> bool:
        """Whether there is such a name, or such an entry."""
        return key in self.names or super().__contains__(key)

    def __repr__(self) -> str:
        """Return the table that people read."""
        return parameters_text(self)

    def _repr_html_(self) -> str:
        return f'<pre>{escape(repr(self))}</pre>'


class Result:
    """What a calibration found.

    ``print(result)`` and a notebook show the table of the command line.

    Attributes:
        record: Everything that was found, as it is stored: noise, errors, health, gate, provenance.
    """

    def __init__(self, record: CalibrationResult, identified: Identified | None = None) -> None:
        """Wrap what is stored, with what its files are made of where that is at hand."""
        self.record = record
        self._identified = identified

    @classmethod
    def load(cls, path: PathLike) -> Result:
        """Read a stored result.

        Args:
            path: ``result.json``, the folder that it is in, or a folder of results, of which the
                current one counts.

        Raises:
            ResultError: There is none, or it cannot be read.
        """
        return cls(CalibrationResult.load(find(Path(path))))

    @property
    def accepted(self) -> bool:
        """Whether all conditions of the gate are met."""
        return self.record.accepted

    @property
    def parameters(self) -> Parameters:
        """The parameters: values, 95 % intervals and verdicts in SI units."""
        return Parameters(self.record.parameters)

    def save(self, folder: PathLike) -> Calibration:
        """Write result, report and figures; where it is accepted the MJCF and servos' files, too.

        Args:
            folder: Gets a new, dated folder, whole or not at all, and a link ``current`` to it, or
                ``rejected``.

        Returns:
            The paths.

        Raises:
            ResultError: The folder cannot be written.
            ModelError: The user's MJCF is not there any more, or cannot take the values.
            ParameterError: A file of coefficients that servos started from is not there any more.
        """
        identified = self._identified
        if identified is None and not self.accepted:
            identified = Identified(self.record)
        elif identified is None:
            model, nominal, _, values = read_again(self.record)
            entries: Any = self.record.provenance.config.get('servos', ())
            servos = [validated(ServoConfig, entry, 'servos of the result') for entry in entries]
            identified = Identified(self.record, values, model, joints_of(servos, nominal))
        return write(identified, Path(folder))

    def model(self) -> mujoco.MjSpec:
        """Return the user's model with the identified values, and with implied actuators.

        What MJCF cannot say (gain and bias of signals, starts of sequences, laws of servos) is left
        out.

        Raises:
            ModelError: The MJCF file that was calibrated is not there, or not as it was.
        """
        (_, spec), nominal, _, values = read_again(self.record)
        values = [(target, value) for target, value in values if target.in_mjcf]
        params = ParameterDict(
            {
                target.path: Parameter(target.path, value, -math.inf, math.inf, target=target.path)
                for target, value in values
            }
        )
        apply_param_modifiers_spec(params, spec)
        write_delays(spec, nominal, [(t, v) for t, v in values if t.role is Role.COMMAND])
        drop_implied(spec)
        return spec

    def plot(self, what: str = 'sensors') -> Figure:
        """Draw the result; a notebook shows what is returned.

        Args:
            what: ``sensors``: measured, nominal and fitted on held-out data where there are any;
                ``parameters``: values with their intervals; or the name of one sensor.

        Raises:
            ResultError: There is no such sensor.
        """
        if what == 'parameters':
            return draw_parameters(self.record)
        names = tuple(dict.fromkeys(plot.sensor for plot in self.record.plots))
        if what != 'sensors' and what not in names:
            raise ResultError(
                f'Cannot plot {what!r}: {nearest(what, ("sensors", "parameters", *names))}.'
            )
        return draw_sensors(self.record, None if what == 'sensors' else what)

    def __repr__(self) -> str:
        """Return one line."""
        count = len(self.parameters)
        sure = sum(1 for entry in self.parameters if math.isfinite(entry.half_width))
        record = self.record
        return (
            f'<Result of {Path(record.model).name}: {record.standing}, {count} parameters, '
            f'{sure} with an interval>'
        )

    def __str__(self) -> str:
        """Return what the command line prints."""
        return result_text(self.record)

    def _repr_html_(self) -> str:
        return f'<pre>{escape(str(self))}</pre>'


class AlignedBag:
    """A bag under the names of a model.

    ``print`` shows what was paired with what, what was not and why, rates, and what is wrong.

    Attributes:
        alignment: All of it: pairs, what was not mapped, topics and health.
    """

    def __init__(self, alignment: Alignment) -> None:
        self.alignment = alignment

    @property
    def sequences(self) -> tuple[Trajectory, ...]:
        """The continuous runs: initial state, commands and measurements as `TimeSeries`."""
        return self.alignment.sequences

    def __repr__(self) -> str:
        """Return one line."""
        seconds = sum(sequence.duration for sequence in self.sequences)
        return (
            f'<Bag {self.alignment.bag}: {len(self.sequences)} sequences, {seconds:.1f} s, '
            f'{len(self.alignment.pairs)} columns mapped, {len(self.alignment.health)} findings>'
        )

    def __str__(self) -> str:
        """Return what ``sysid convert`` prints."""
        return alignment_text(self.alignment)

    def _repr_html_(self) -> str:
        return f'<pre>{escape(str(self))}</pre>'


def calibrate(
    model: PathLike,
    bags: PathLike | Sequence[PathLike] = (),
    parameters: ParameterLike | Sequence[ParameterLike] = (),
    *,
    validate: PathLike | Sequence[PathLike] = (),
    observer: Observer | None = None,
    cancel: threading.Event | None = None,
    **settings: Any,
) -> Result:
    """Identify parameters of a model from recordings; nothing is written.

    ``sysid calibrate`` and the calibrator node do the same with a calibration.yaml.

    Args:
        model: MJCF, URDF or xacro file, or a bag with a ``robot_description``.
        bags: Recordings to fit to: bag folders or patterns such as ``bags/train_*``.
        parameters: Targets such as ``joint/*/armature``, or mappings as in calibration.yaml, such
            as ``{'target': 'body/tool/mass', 'bounds': (0.1, 3.0)}``.
        validate: Recordings that are held out, to judge the fit on.
        observer: Is told of stages and iterations; see `sysid_ros.fit.observer`.
        cancel: Ends the fit when it is set.
        settings: Any other section of calibration.yaml, such as ``solver={'loss': 'huber'}``,
            ``stamps='header'`` or ``sensors=('elbow_position',)``.

    Raises:
        SysidError: In one sentence, what is wrong with model, bags, parameters or settings.
    """
    values = {
        'model': Path(model),
        'bags': [
            *({'path': str(path), 'role': 'train'} for path in _listed(bags)),
            *({'path': str(path), 'role': 'validate'} for path in _listed(validate)),
        ],
        'parameters': [
            {'target': entry} if isinstance(entry, str) else dict(entry)
            for entry in _listed(parameters)
        ],
        **settings,
    }
    config = validated(CalibrationConfig, values, 'sysid_ros.calibrate')
    identified = identify(config, command='sysid_ros.calibrate', observer=observer, cancel=cancel)
    return Result(identified.result, identified)


def read(
    bag: PathLike,
    model: PathLike | mujoco.MjModel,
    *,
    mapping: PathLike = 'auto',
    stamps: StampChoice = 'auto',
    segments: Mapping[str, Any] | None = None,
    package_path: Sequence[PathLike] = (),
    namespace: str = '',
) -> AlignedBag:
    """Read a bag as time series under the names of a model's sensors and actuators.

    Args:
        bag: Bag folder.
        model: MJCF, URDF or xacro file, a bag with a ``robot_description``, or a compiled model.
        mapping: ``auto``, or the path of a mapping file.
        stamps: Which time of a message counts: ``auto``, ``header`` or ``receive``; or by topic.
        segments: What becomes sequences, as in calibration.yaml; by default all, cut at gaps.
        package_path: Folders of ROS packages that a URDF refers to.
        namespace: Of several arms in the bag this one, such as ``left``.

    Raises:
        SysidError: In one sentence, what is wrong with bag, model or mapping.
    """
    cuts = None if segments is None else validated(SegmentsConfig, dict(segments), 'segments')
    alignment, _ = read_aligned(
        Path(bag),
        Path(model) if isinstance(model, (str, Path)) else model,
        mapping=mapping,
        stamps=stamps,
        segments=cuts,
        namespace=namespace,
        packages=[Path(entry) for entry in package_path],
    )
    return AlignedBag(alignment)


def _listed(given: Any) -> list[Any]:
    """Return one thing or several as a list."""
    return [given] if isinstance(given, (str, Path, Mapping)) else list(given)
