# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Compiled models: the user's file as it is, and with identified values."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any, NamedTuple

import mujoco
import numpy as np

from sysid_ros.errors import ModelError, ParameterError, nearest
from sysid_ros.identification.targets import element_names, object_id

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from sysid_ros.identification.targets import Target

#: ``mjSpec`` writes the interpolation of a control history as an integer; this is ``linear``.
LINEAR = 1
#: Numbers that say nothing about the physics: a hash of the tree, and the room for asset paths,
#: which a compiled model holds in full.
_IGNORED_FIELDS = frozenset(
    {
        'signature',
        'nbuffer',
        'npaths',
        *(f'{kind}_pathadr' for kind in ('hfield', 'mesh', 'skin', 'tex')),
    }
)


class NativeDelay(NamedTuple):
    """How MuJoCo's own actuator delay represents a delay.

    Attributes:
        delay: The attribute ``delay``, s; 0 where no delay is nearer than the shortest.
        nsample: The attribute ``nsample``: slots of the control history.
        effective: The delay that the simulation shows, s.
    """

    delay: float
    nsample: int
    effective: float


def load_spec(path: Path) -> mujoco.MjSpec:
    """Parse an MJCF file.

    Raises:
        ModelError: There is no such file, or it is not MJCF.
    """
    if not path.is_file():
        siblings = [entry.name for entry in path.parent.glob('*.xml')]
        msg = f'No model file {str(path)!r}; {nearest(path.name, sorted(siblings))}.'
        raise ModelError(msg)
    try:
        return mujoco.MjSpec.from_file(str(path))
    except (ValueError, mujoco.FatalError) as err:
        msg = f'Cannot read the model {str(path)!r}: {one_sentence(err)}.'
        raise ModelError(msg) from err


def compile_spec(spec: mujoco.MjSpec, path: Path) -> mujoco.MjModel:
    """Compile a spec that was read from a file.

    Raises:
        ModelError: It does not compile.
    """
    try:
        return spec.compile()
    except (ValueError, mujoco.FatalError) as err:
        msg = f'Cannot compile the model {str(path)!r}: {one_sentence(err)}.'
        raise ModelError(msg) from err


def load_model(path: Path) -> mujoco.MjModel:
    """Compile an MJCF file.

    Raises:
        ModelError: There is no such file, it is not MJCF, or it does not compile.
    """
    return compile_spec(load_spec(path), path)


def one_sentence(error: Exception) -> str:
    """Put MuJoCo's message, which spans lines, on one line without a full stop."""
    lines = [line.strip() for line in str(error).splitlines()]
    return ', '.join(dict.fromkeys(line for line in lines if line)).rstrip('.')


def native_delay(delay: float, timestep: float) -> NativeDelay:
    """Express an actuator delay in MuJoCo's terms.

    With commands held over each step, the mean over a step of the command shifted by ``(n + f) *
    timestep`` is ``(1 - f) * u[k - n] + f * u[k - n - 1]``. That is what linear interpolation of
    the history gives at ``t - delay``, exactly, from one timestep on. (MuJoCo clamps to
    ``ctrlrange`` after it has interpolated.) The history ends at the previous step, so every
    shorter delay acts as one whole timestep; below half a timestep, none is nearer.

    Args:
        delay: Seconds.
        timestep: Of the model, seconds.
    """
    steps = delay / timestep
    if steps < 0.5:  # noqa: PLR2004 (half of a step: what rounds to none)
        return NativeDelay(0.0, 0, 0.0)
    # One slot more than interpolation needs: the stamps in the history carry rounding errors.
    return NativeDelay(delay, math.ceil(steps) + 1, max(delay, timestep))


def fitted_model(path: Path, values: Sequence[tuple[Target, float]]) -> mujoco.MjModel:
    """Compile the user's file and apply identified values to the compiled model.

    Where an actuator has a ``dampratio``, the velocity gain stays what the file as it is compiles
    to: a servo's gain does not follow our estimate of the inertia that it moves.

    Args:
        path: MJCF file.
        values: Targets, found by name, and their values in SI units; of two for the same target
            the later wins.

    Raises:
        ModelError: The file does not compile, or not with these values.
        ParameterError: A target is not in the model, or a value is not finite.
    """
    spec = load_spec(path)
    model = compile_spec(spec, path)
    latest = {target.path: (target, value) for target, value in values}
    found = [(_found(target, model), float(value)) for target, value in latest.values()]
    for target, value in found:
        if not math.isfinite(value):
            msg = f'Expected a finite value for {target.path!r}, found {value}.'
            raise ParameterError(msg)
    if _apply_delays(spec, model, [entry for entry in found if not entry[0].in_model]):
        model = compile_spec(spec, path)
    for target, value in found:
        target.write(model, value)
    _set_constants(spec, model)
    return model


def _found(target: Target, model: mujoco.MjModel) -> Target:
    """Return the target with its row in this model."""
    if target.element == 'option':
        return target
    row = object_id(model, target.element, target.name)
    if row < 0:
        names = element_names(model, target.element)
        msg = (
            f'No {target.element} {target.name!r} for target {target.path!r}; '
            f'{nearest(target.name, names)}.'
        )
        raise ParameterError(msg)
    return dataclasses.replace(target, row=row)


def _apply_delays(
    spec: mujoco.MjSpec, model: mujoco.MjModel, delays: list[tuple[Target, float]]
) -> bool:
    """Write delays into a spec; return whether it has to be compiled again."""
    for target, value in delays:
        actuator = spec.actuator(target.name)
        wanted = native_delay(value, model.opt.timestep)
        if wanted.delay:
            actuator.delay = wanted.delay
            actuator.nsample = max(wanted.nsample, actuator.nsample)
            actuator.interp = LINEAR
        elif actuator.delay:
            actuator.delay = actuator.nsample = actuator.interp = 0
    return bool(delays)


def _set_constants(spec: mujoco.MjSpec, model: mujoco.MjModel) -> None:
    """Update what the compiler derives from the fields that targets write.

    ``mj_setConst`` leaves out the rest lengths of tendons, which follow ``qpos_spring`` where the
    file gives none, and the two statistics that depend on masses (MuJoCo 4.0).
    """
    data = mujoco.MjData(model)
    mujoco.mj_setConst(model, data)
    following = [
        tendon.id for tendon in spec.tendons if np.all(np.asarray(tendon.springlength) == -1)
    ]
    if following:
        data.qpos[:] = model.qpos_spring
        mujoco.mj_fwdPosition(model, data)
        model.tendon_lengthspring[following] = data.ten_length[following, np.newaxis]
    if np.isnan(spec.stat.meanmass) and model.nbody > 1:
        model.stat.meanmass = max(float(np.mean(model.body_mass[1:])), mujoco.mjMINVAL)
    if np.isnan(spec.stat.meaninertia) and model.nv:
        mujoco.mj_resetData(model, data)
        mujoco.mj_fwdPosition(model, data)
        inertia = np.zeros((model.nv, model.nv))
        mujoco.mj_fullM(model, data, inertia)
        model.stat.meaninertia = max(float(np.mean(np.diag(inertia))), mujoco.mjMINVAL)


def differing_fields(
    a: mujoco.MjModel, b: mujoco.MjModel, tolerance: float = 1e-9
) -> tuple[str, ...]:
    """Compare every number of two compiled models.

    Args:
        a: A model.
        b: Another one.
        tolerance: Largest difference, relative to the larger number where that is above 1.

    Returns:
        Names of the arrays, sizes, options (``opt.…``) and statistics (``stat.…``) that differ.
    """
    others = dict(_numbers(b))
    return tuple(name for name, value in _numbers(a) if not _close(value, others[name], tolerance))


def _numbers(model: mujoco.MjModel) -> Iterator[tuple[str, Any]]:
    for prefix, owner in (('', model), ('opt.', model.opt), ('stat.', model.stat)):
        for name in dir(owner):
            value = None if name.startswith('_') else getattr(owner, name)
            if name not in _IGNORED_FIELDS and isinstance(value, (int, float, np.ndarray)):
                yield prefix + name, np.asarray(value)


def _close(a: Any, b: Any, tolerance: float) -> bool:
    if a.shape != b.shape:
        return False
    if not (np.issubdtype(a.dtype, np.floating) and np.issubdtype(b.dtype, np.floating)):
        return bool(np.array_equal(a, b))
    scale = np.maximum(1.0, np.maximum(np.abs(a), np.abs(b)))
    with np.errstate(invalid='ignore'):
        same = np.abs(a - b) <= tolerance * scale
    return bool(np.all(same | (a == b) | (np.isnan(a) & np.isnan(b))))
