# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Write an identified model in another format, and say what that does not hold."""

from __future__ import annotations

import csv
import io
import math
import shutil
import tempfile
from collections.abc import Collection, Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple

import mujoco
import numpy as np
import yaml

from sysid_ros.errors import ConfigError, ModelError, ResultError, listed
from sysid_ros.files import check_new, check_writable, replace_file
from sysid_ros.model.description import read_description
from sysid_ros.model.elements import SCALAR_JOINTS, TO_JOINT
from sysid_ros.model.mjcf import left_out, write_model
from sysid_ros.model.targets import Target
from sysid_ros.model.urdf import Urdf, carried_over, not_held, write_urdf
from sysid_ros.model.xml_text import Document, absolute, encode
from sysid_ros.results.result import CalibrationResult
from sysid_ros.vocabulary import Quantity
from sysid_ros.workflows.stored import (
    Drawn,
    Posterior,
    Stored,
    load_stored,
    samples_text,
    write_samples,
)

#: The keys of each program, and what of a `Drive` they are. IsaacLab: ``ImplicitActuatorCfg`` from
#: 2.3 on; mjlab: ``Builtin…ActuatorCfg``; ros2_control: gains of ``joint_trajectory_controller``.
KEYS = {
    'isaaclab': {
        'stiffness': 'stiffness',
        'damping': 'damping',
        'effort_limit_sim': 'effort',
        'armature': 'armature',
        'friction': 'frictionloss',
        'dynamic_friction': 'frictionloss',
        'viscous_friction': 'viscous',
    },
    'mjlab': {
        'stiffness': 'stiffness',
        'damping': 'damping',
        'effort_limit': 'effort',
        'armature': 'armature',
        'frictionloss': 'frictionloss',
        'viscous_damping': 'viscous',
        'delay': 'delay',
    },
    'ros2_control': {'p': 'stiffness', 'd': 'damping', 'u_clamp_max': 'effort'},
}
#: Attributes of targets, by element, and the fields of a `Drive` that they are in.
_FIELDS = {
    ('joint', 'armature'): 'armature',
    ('joint', 'frictionloss'): 'frictionloss',
    ('joint', 'damping'): 'viscous',
    ('actuator', 'armature'): 'armature',
    ('actuator', 'damping'): 'viscous',
    ('actuator', 'kp'): 'stiffness',
    ('actuator', 'kv'): 'damping',
    ('actuator', 'gear'): 'stiffness',
    ('actuator', 'forcerange'): 'effort',
    ('actuator', 'forcelimit'): 'effort',
    ('actuator', 'delay'): 'delay',
}
_HEAD = """\
# Identified drives of {source}, as seen at the joints: a gear is multiplied in.
# SI units, with rad or m by the joint. law says what the drive is told; stiffness is effort per
# error of position, damping effort against the velocity, effort the smaller limit of both
# directions, delay (s) by how much commands act later. What is not said is not limited.
# isaaclab: friction is an effort from Isaac Sim 5 on; damping acts on the error of velocity.
# mjlab: take the actuators out of the identified MJCF, as mjlab adds these; delays are whole steps.
# ros2_control: for controllers that are to do with efforts what the robot's servos do; a velocity
# servo's p is its damping.
"""


class Drive(NamedTuple):
    """A hinge or slide and its one actuator, as seen at the joint, in SI units."""

    joint: str  # its name
    actuator: str  # name of the actuator
    law: Quantity  # what the actuator is told
    stiffness: float  # effort per error of position, N·m/rad or N/m
    damping: float  # effort against velocity that the actuator exerts, N·m·s/rad or N·s/m
    #: Of both directions the smaller limit, N·m or N; None where nothing limits it.
    effort: float | None
    delay: float  # by which commands act later, s
    armature: float  # of joint and actuator, kg·m² or kg
    frictionloss: float  # of the joint, N·m or N
    viscous: float  # passive damping of joint and actuator, N·m·s/rad or N·s/m


def drives_of(model: mujoco.MjModel) -> tuple[list[Drive], list[str]]:
    """Return the plain servos and motors of single joints, and why other actuators are none."""
    drives, notes = [], []
    for row in range(model.nactuator):
        reason = _not_plain(model, row)
        if reason:
            notes.append(f'{model.actuator(row).name!r} is left out: {reason}.')
        else:
            drives.append(_drive(model, row))
    return drives, notes


def actuators_text(drives: list[Drive], source: str) -> str:
    """Return YAML with the numbers of drives, by program, joint and key."""
    document: dict[str, dict[str, dict[str, str | float]]] = {}
    for program, keys in KEYS.items():
        document[program] = {}
        for drive in drives:
            found = {key: getattr(drive, field) for key, field in keys.items()}
            if program == 'ros2_control' and drive.law is Quantity.EFFORT:
                continue
            if program == 'ros2_control' and drive.law is Quantity.VELOCITY:
                found |= {'p': drive.damping, 'd': 0.0}
            # Nine digits at most: no identified value is known better.
            numbers = {key: float(f'{x:.9g}') for key, x in found.items() if x is not None}
            document[program][drive.joint] = {'law': str(drive.law), **numbers}
    text = yaml.safe_dump(document, sort_keys=False, allow_unicode=True)
    return _HEAD.format(source=' '.join(source.split())) + text


def held_by_actuators(stored: Stored, drives: list[Drive]) -> set[str]:
    """Return the paths of identified targets that are in the numbers of drives."""
    driven = {('joint', drive.joint) for drive in drives}
    driven |= {('actuator', drive.actuator) for drive in drives}
    return {
        target.path
        for target, _ in stored.values
        if target.element_and_attribute in _FIELDS
        and not (target.index and target.element_and_attribute[1] == 'damping')
        and (target.element == 'default' or (target.element, target.name) in driven)
    }


def _not_plain(model: mujoco.MjModel, row: int) -> str:
    """Say why an actuator is no plain drive of one joint; empty where it is."""
    joint = int(model.actuator_trnid[row, 0])
    if model.actuator_trntype[row] not in TO_JOINT or model.jnt_type[joint] not in SCALAR_JOINTS:
        return 'it drives no single hinge or slide'
    for other in range(model.nactuator):
        of_joint = model.actuator_trntype[other] in TO_JOINT
        if other != row and of_joint and model.actuator_trnid[other, 0] == joint:
            return f'{model.actuator(other).name!r} drives the same joint'
    gain, bias = float(model.actuator_gainprm[row, 0]), model.actuator_biasprm[row, :3]
    plain = (
        model.actuator_gaintype[row] == mujoco.mjtGain.mjGAIN_FIXED
        and gain > 0
        and model.actuator_dyntype[row] == mujoco.mjtDyn.mjDYN_NONE
        and (
            model.actuator_biastype[row] == mujoco.mjtBias.mjBIAS_NONE
            or bias[1] == -gain
            or (bias[1] == 0 and bias[2] in {0, -gain})
        )
    )
    return '' if plain else 'it is neither a plain servo nor a motor'


def _drive(model: mujoco.MjModel, row: int) -> Drive:
    joint = int(model.actuator_trnid[row, 0])
    dof, gear = int(model.jnt_dofadr[joint]), float(model.actuator_gear[row, 0])
    gain, law = float(model.actuator_gainprm[row, 0]), Quantity.EFFORT
    damped = 0.0
    if model.actuator_biastype[row] == mujoco.mjtBias.mjBIAS_AFFINE:
        stiff, damped = (float(bias) for bias in model.actuator_biasprm[row, 1:3])
        law = Quantity.POSITION if stiff else Quantity.VELOCITY if damped else Quantity.EFFORT
    ranges = []
    if model.actuator_forcelimited[row]:
        ranges.append(gear * model.actuator_forcerange[row])
    control = int(model.actuator_ctrladr[row])
    if law is Quantity.EFFORT and model.actuator_ctrllimited[control]:
        ranges.append(gear * gain * model.actuator_ctrlrange[control])
    if model.jnt_actfrclimited[joint]:
        ranges.append(model.jnt_actfrcrange[joint])
    limit = min((float(min(-min(ends), max(ends))) for ends in ranges), default=math.inf)
    # A force of the actuator acts times the gear, which is also what velocities are seen by.
    return Drive(
        joint=model.joint(joint).name,
        actuator=model.actuator(row).name,
        law=law,
        stiffness=gear**2 * gain if law is Quantity.POSITION else 0.0,
        damping=0.0
        if law is Quantity.EFFORT
        else -(gear**2) * float(model.actuator_biasprm[row, 2]),
        effort=limit if math.isfinite(limit) else None,
        delay=float(model.actuator_delay[row]),
        armature=float(model.dof_armature[dof] + gear**2 * model.actuator_armature[row]),
        frictionloss=float(model.dof_frictionloss[dof]),
        viscous=float(model.dof_damping[dof] + gear**2 * model.actuator_damping[row]),
    )


#: What is beside drawn models: what was found of each parameter, and its values in each model.
PARAMETERS, SAMPLES = 'parameters.csv', 'samples.csv'


class ExportFormat(StrEnum):
    """What can be written."""

    MJCF = 'mjcf'
    URDF = 'urdf'
    CSV = 'csv'
    ACTUATORS = 'actuators'


class Exported(NamedTuple):
    """What was written."""

    files: tuple[Path, ...]  # the new files that matter, the main one first
    lost: tuple[str, ...]  # identified values that they do not hold, each with its unit
    notes: tuple[str, ...]  # what to know of them, a sentence each
    drawn: Drawn | None = None  # how samples were drawn; None without any


def export(
    result: Path,
    form: ExportFormat,
    output: Path,
    *,
    model: Path | None = None,
    urdf: Path | None = None,
    packages: Sequence[Path] = (),
    samples: int | None = None,
    seed: int = 0,
) -> Exported:
    """Write what a calibration found in a format of others.

    Args:
        result: ``result.json``, or a folder that holds it.
        form: The format.
        output: The new file, or the new folder for MJCF.
        model: Where the model that was calibrated is now, if it was moved.
        urdf: The URDF to write into, where the model is none.
        packages: Folders of packages that it refers to.
        samples: How many models to draw from what the data leave open, for MJCF.
        seed: Of these draws.

    Raises:
        ConfigError: The options do not fit together, or the output exists.
        SysidError: In one sentence, what is wrong with the result, its model or the URDF; nothing
            was written.
    """
    if samples is not None and form is not ExportFormat.MJCF:
        raise ConfigError(f'Samples are MJCF: expected --format mjcf with them, found {form}.')
    if samples is not None and samples < 1:
        raise ConfigError(f'Expected one sample or more, found {samples}.')
    if urdf is not None and form is not ExportFormat.URDF:
        raise ConfigError(f'--urdf is what --format urdf writes into; found it with {form}.')
    if not (form is ExportFormat.MJCF and output.is_dir() and not any(output.iterdir())):
        check_new(output)
    check_writable(output.parent)
    stored = load_stored(result, model)
    source = f'{stored.path} of {Path(stored.record.model).name}'
    notes = list(_remarks(stored))
    if form is ExportFormat.MJCF:
        return _export_mjcf(stored, output, notes, samples, seed)
    lost: Collection[str] = set()
    if form is ExportFormat.CSV:
        text = parameters_text(stored.record)
    elif form is ExportFormat.URDF:
        text, lost, more = _urdf_text(stored, urdf, packages)
        notes += more
        head = '\n'.join((f'Identified by sysid_ros: {source}.', *_values(stored, lost)))
        text = Document(text).headed(head)
    else:
        drives, more = drives_of(stored.fitted)
        if not drives:
            raise ResultError(
                'Expected a joint with a servo or motor of its own, found '
                f'{listed(more) or "none"}.'
            )
        text = actuators_text(drives, source)
        lost = {target.path for target, _ in stored.values} - held_by_actuators(stored, drives)
        notes += more
    replace_file(output, encode(text))
    return Exported((output,), _values(stored, lost), tuple(notes))


def _urdf_text(
    stored: Stored, file: Path | None, packages: Sequence[Path]
) -> tuple[str, set[str], list[str]]:
    """Return a URDF, the paths of the targets that it does not hold, and what to know of it."""
    described, nominal, fitted = stored.robot.description, stored.nominal, stored.fitted
    if file is not None:
        described = read_description(file, packages)
    if described.urdf is None:
        path = str(described.path)
        raise ModelError(
            f'The model {path!r} is no URDF; expected --urdf FILE, with one whose links and joints '
            'have the names of its bodies and joints.'
            if file is None
            else f'Expected a URDF as --urdf, found {path!r}, which is none.'
        )
    if file is not None:
        nominal, fitted = carried_over(nominal, fitted, described)
    text = write_urdf(described.urdf, described.path, nominal, fitted)
    urdf = Urdf(text)
    targets = [target for target, _ in stored.values]
    notes = ['A URDF has no place for actuators, armatures, springs and tendons of a model.']
    if described.path.suffix != '.urdf':
        notes.append(f'The URDF is that of {str(described.path)!r}, as it was read.')
    meshes = (node.get('filename') for node in urdf.document.elements if node.tag == 'mesh')
    beside = [name for name in meshes if name and '://' not in name and not name.startswith('/')]
    if beside:
        notes.append(
            f'Meshes are named by their place beside {described.path.name!r} ({listed(beside)}): '
            'put the file there.'
        )
    return text, {*not_held(targets, urdf), *_not_moved(targets, stored.fitted, fitted)}, notes


def _not_moved(
    targets: list[Target], fitted: mujoco.MjModel, written: mujoco.MjModel
) -> Iterator[str]:
    """Yield identified places of bodies that the URDF did not take."""
    for target in targets:
        if target.element == 'body' and target.attribute in {'pos', 'quat'}:
            row = mujoco.mj_name2id(written, mujoco.mjtObj.mjOBJ_BODY, target.name)
            if row < 0 or not all(
                np.allclose(getattr(written, field)[row], getattr(fitted, field)[target.row])
                for field in ('body_pos', 'body_quat')
            ):
                yield target.path


def _values(stored: Stored, paths: Collection[str]) -> tuple[str, ...]:
    """Return targets with their identified values."""
    return tuple(
        f'{target.path} {value:.6g} {"" if target.unit == "1" else target.unit}'.rstrip()
        for target, value in dict(stored.values).items()
        if target.path in paths
    )


def _remarks(stored: Stored) -> Iterator[str]:
    """Say what there is to know of a result, whatever it is written as."""
    for check in stored.record.reservations:
        yield f'The result is {stored.record.standing}: {check.text}'
    servos: Any = stored.record.provenance.config.get('servos', ())
    driven = ', '.join(name for entry in servos for name in entry['actuators'])
    if driven:
        yield (
            f'Laws of servos drive {driven} in the fit; what is written has none of them, and '
            'their coefficients are beside the result, in servos/.'
        )


def parameters_text(record: CalibrationResult) -> str:
    """Return CSV with what was found of each parameter, in SI units."""
    text = io.StringIO()
    table = csv.writer(text, lineterminator='\n')
    table.writerow(('name', 'targets', 'unit', 'value', 'low_95', 'high_95', 'initial', 'verdict'))
    for found in record.parameters:
        numbers = (found.value, found.low, found.high, found.initial)
        known = ('' if math.isnan(x) else repr(x) for x in numbers)
        table.writerow((found.name, ' '.join(found.targets), found.unit, *known, found.verdict))
    return text.getvalue()


def _export_mjcf(
    stored: Stored, output: Path, notes: list[str], samples: int | None, seed: int
) -> Exported:
    """Write the identified MJCF and what it needs, and models drawn around it."""
    lost = _values(stored, {target.path for target, _ in stored.values if not target.in_mjcf})
    told = left_out(stored.values)  # These are in ``lost``.
    if samples is None:
        written = write_model(stored.robot, stored.values, output, stored.biases)
        notes += [note for note in written.notes if note not in told]
        return Exported(_beside(written.path, output, output), lost, tuple(notes))
    posterior = Posterior.of(stored)
    temporary = Path(tempfile.mkdtemp(dir=output.parent, prefix=f'.{output.name}.'))
    try:
        made = temporary / 'made'
        written = write_model(stored.robot, stored.values, made, stored.biases)
        drawn = write_samples(stored, posterior, written.path, samples, seed)
        (made / PARAMETERS).write_text(parameters_text(stored.record), 'utf-8')
        (made / SAMPLES).write_text(samples_text(posterior, drawn), 'utf-8')
        if output.exists():
            output.rmdir()
        made.rename(output)
    except OSError as err:
        raise ResultError(f'Cannot write {str(output)!r}: {err.strerror}.') from err
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    files = (output / PARAMETERS, output / SAMPLES, *_beside(written.path, made, output))
    notes += [*(note for note in written.notes if note not in told), *drawn.notes]
    return Exported(files, lost, tuple(notes), drawn)


def _beside(written: Path, made: Path, output: Path) -> tuple[Path, ...]:
    """Return where a file of one folder is in another, and the URDF beside it if there is one."""
    main = output / written.relative_to(absolute(made))
    also = main.with_suffix('.urdf')
    return (main, also) if also.exists() else (main,)
