# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What to tell a user whose modifier, a function that edits a spec, raised an error."""

from __future__ import annotations

import traceback

#: Attributes that are polynomials since MuJoCo 3.7: an array of three instead of a number.
_POLYNOMIALS = ('damping', 'stiffness')


def explained(error: Exception) -> str:
    """Say in one clause what happened, and how to mend it where that is known.

    Args:
        error: What the modifier raised.

    Returns:
        The clause, without a full stop.
    """
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = f'{type(error).__name__}: {lines[0].rstrip(".") if lines else "no message"}'
    frames = traceback.extract_tb(error.__traceback__)
    code = (frames[-1].line or '') if frames else ''
    if isinstance(error, TypeError) and 'incompatible function arguments' in str(error):
        given = str(error).rpartition(', ')[2].splitlines()[0]
        text = f'TypeError: MuJoCo does not take {given} in {code!r}'
        for attribute in _POLYNOMIALS:
            if attribute in code:
                return (
                    f'{text}; {attribute} is a polynomial of three coefficients since MuJoCo 3.7, '
                    f'write {attribute}[0] = parameter.value[0]'
                )
        return f'{text}; where a number is expected, write parameter.value[0]'
    if isinstance(error, ValueError) and 'setting an array element' in str(error):
        return f'{text} in {code!r}; where a number is expected, write parameter.value[0]'
    if isinstance(error, AttributeError) and "'NoneType'" in str(error):
        return f'{text} in {code!r}; the spec has no element of that name'
    return text
