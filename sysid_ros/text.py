# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Text of others where it leaves: names and notes of bags and models may hold anything.

They stay as they are inside, so that a name is found by its name, and are escaped once, by what
they are written to: here for lines that people read, for JSON, CSV and the names of files; in
``yaml_text``, ``report.tables`` and ``report.html`` for YAML, terminals and HTML.
"""

from __future__ import annotations

import csv
import io
import re
import unicodedata
from collections.abc import Iterable

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
#: Between JSON's strings, line breaks are the layout; inside, they are escaped already.
_UNSEEN_IN_JSON = re.compile(f'[{UNSEEN[1:]}]')
#: No name of a topic or a file is longer; longer ones are cut where people read them.
_LONGEST_NAME = 256
#: Nor does anybody read a sentence of more characters.
_LONGEST_SENTENCE = 1000
#: Bytes of a file's name without its ending; file systems have room for 255.
_LONGEST_STEM = 180
#: Letters and digits of any alphabet may be in the name of a file.
_NOT_OF_FILES = re.compile(r'[^\w.-]+')


def one_line(text: str) -> str:
    r"""Return a text as one line in which everything is seen: a line break is ``\n``.

    For terminals, logs, comments, pages and pictures.
    """
    return _UNSEEN.sub(lambda found: found[0].encode('unicode_escape').decode(), text)


def short(text: str, most: int = _LONGEST_NAME) -> str:
    """Return a text without its middle where it is long."""
    end = most // 3
    return text if len(text) <= most else f'{text[: most - end - 1]}…{text[-end:]}'


def sentence(text: str) -> str:
    """Return what is said to people about names of others: one line, not too long."""
    return short(one_line(text), _LONGEST_SENTENCE)


def one_sentence(error: Exception) -> str:
    """Put MuJoCo's message, which spans lines, on one line without a full stop."""
    lines = [line.strip() for line in str(error).splitlines()]
    return ', '.join(dict.fromkeys(line for line in lines if line)).rstrip('.')


def in_json(text: str) -> str:
    """Return JSON with what is not seen inside its strings as JSON escapes it."""
    return _UNSEEN_IN_JSON.sub(_json_escape, text)


def _json_escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code < 0x10000:  # noqa: PLR2004 (the end of the plane that JSON's escapes reach)
        return f'\\u{code:04x}'
    high, low = divmod(code - 0x10000, 0x400)
    return f'\\u{0xD800 + high:04x}\\u{0xDC00 + low:04x}'


def csv_header(names: Iterable[str]) -> str:
    """Return the names of columns as a line of CSV, with what spreadsheets would take for formulas.

    They are exact, as whoever reads the columns by their names needs them.
    """
    stream = io.StringIO(newline='')
    # With a shorter end, Python before 3.13 leaves carriage returns without quotes.
    csv.writer(stream, lineterminator='\r\n').writerow(names)
    return stream.getvalue().removesuffix('\r\n') + '\n'


def file_stems(names: Iterable[str]) -> list[str]:
    """Return a file name without ending for each name, each its own.

    They stay in their folder, are neither hidden nor taken for an option, and differ on file
    systems, too, that do not tell upper from lower case.
    """
    stems: list[str] = []
    taken: set[str] = set()
    for name in names:
        stem = _NOT_OF_FILES.sub('_', name).strip('._-') or 'unnamed'
        stem = stem.encode()[:_LONGEST_STEM].decode(errors='ignore')
        own, count = stem, 1
        while _folded(own) in taken:
            count += 1
            own = f'{stem}_{count}'
        taken.add(_folded(own))
        stems.append(own)
    return stems


def _folded(name: str) -> str:
    """Return what file systems take for the same name: some know neither case nor accents' form."""
    return unicodedata.normalize('NFKC', name).casefold()
