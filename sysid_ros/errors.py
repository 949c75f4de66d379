# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The exceptions of the package: one root, one subclass per area.

Every message is one sentence that says what was expected, what was found and, where there is a
closed set of choices, which of them are nearest. The command line prints it and exits with 2; a
ROS service answers ``success: false`` with it. What MuJoCo's sysid toolbox tells by a
``ValueError`` is one here, too.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sized

#: What does something to a terminal or a page, or is not seen: Unicode's categories Cc and Cf (ESC,
#: line breaks, marks that reverse the direction, spaces without width), Zl and Zp, and halves of
#: surrogate pairs, which no file can hold.
UNSEEN = (
    '\n'
    '\x00-\x09\x0b-\x1f\x7f-\x9f\xad\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u180e'
    '\u200b-\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff\ufff9-\ufffb'
    '\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a'
    '\U000e0001\U000e0020-\U000e007f'
)
_UNSEEN = re.compile(f'[{UNSEEN}]')
#: No name of a topic or a file is longer; longer ones are cut where people read them.
LONGEST_NAME = 256
#: Nor does anybody read a sentence of more characters.
_LONGEST_SENTENCE = 1000
#: A sentence names at most so many things and counts the others: a six-joint arm has its names.
MOST_NAMED = 6


class SysidError(Exception):
    """Root of every error that a user can cause and mend."""

    def __str__(self) -> str:
        # Sentences name what files and bags hold.
        return sentence(super().__str__())


class ConfigError(SysidError):
    """A configuration file, flag or node parameter is not valid."""


class BagError(SysidError):
    """A bag cannot be read or written."""


class SignalError(SysidError, ValueError):
    """A time series is malformed."""


class AlignmentError(SysidError):
    """Columns of a bag cannot be paired with the model."""


class ModelError(SysidError, ValueError):
    """An MJCF file cannot be read, compiled or written."""


class ParameterError(SysidError, ValueError):
    """A parameter, its target or its bounds are not valid."""


class FitError(SysidError, ValueError):
    """The identification cannot start or cannot go on."""


class CancelledError(FitError):
    """The identification was cancelled by the user."""


class LogError(SysidError):
    """The log of a servo cannot be read or used."""


class ResultError(SysidError):
    """A stored result or baseline cannot be used."""


class RosError(SysidError):
    """ROS is missing or the live graph does not offer what is needed."""


def nearest(name: str, choices: Iterable[str], limit: int = 3) -> str:
    """Describe the choices most similar to a name, for the end of an error message.

    Args:
        name: What the user wrote.
        choices: What would have been valid.
        limit: At most so many are named.

    Returns:
        ``"nearest: a, b"``, or ``"available: a, b, …"`` when nothing is similar, or
        ``"there are none"``.
    """
    known = list(dict.fromkeys(choices))
    if not known:
        return 'there are none'
    # Comparing takes the product of the lengths.
    lowered = {short(choice).lower(): choice for choice in reversed(known)}
    close = difflib.get_close_matches(short(name).lower(), lowered, n=limit, cutoff=0.5)
    if close:
        return 'nearest: ' + ', '.join(short(lowered[key]) for key in close)
    return f'available: {listed(known, limit)}'


def listed(names: Iterable[str], limit: int = MOST_NAMED) -> str:
    """Return the first names of a list, and how many more there are."""
    every = list(names)
    # Nobody saves space by "and 1 more".
    shown = every if len(every) == limit + 1 else every[:limit]
    more = f' and {len(every) - limit} more' if len(every) > len(shown) else ''
    return ', '.join(map(short, shown)) + more


def how_many(things: Sized, what: str) -> str:
    """Return the number of things with their name, as ``1 bag`` or ``2 bags``."""
    return f'{len(things)} {what}{"" if len(things) == 1 else "s"}'


def one_line(text: str) -> str:
    r"""Return a text as one line in which everything is seen: a line break is ``\n``.

    For terminals, logs, comments, pages and pictures.
    """
    return _UNSEEN.sub(lambda found: found[0].encode('unicode_escape').decode(), text)


def short(text: str, most: int = LONGEST_NAME) -> str:
    """Return a text without its middle where it is long."""
    end = most // 3
    return text if len(text) <= most else f'{text[: most - end - 1]}…{text[-end:]}'


def sentence(text: str) -> str:
    """Return what is said to people about names of others: one line, not too long."""
    return short(one_line(text), _LONGEST_SENTENCE)


def complaint(error: Exception) -> str:
    """Say what is wrong in one line: what the system has against a file, else the error's text."""
    if not isinstance(error, OSError):
        return sentence(str(error))
    about = '' if error.filename is None else f'Cannot use {str(error.filename)!r}: '
    return sentence(f'{about}{error.strerror}.')


def one_sentence(error: Exception) -> str:
    """Put MuJoCo's message, which spans lines, on one line without a full stop."""
    lines = [line.strip() for line in str(error).splitlines()]
    return ', '.join(dict.fromkeys(line for line in lines if line)).rstrip('.')
