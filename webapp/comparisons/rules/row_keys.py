"""The key of a row as people write it: its values in the order of the key, with commas between them.

    2013-07-10, UA        "Smith, J.", 7        "null", null

A value with a comma, a quote, a bracket or blanks around it stands in quotes, a quote inside it twice. NULL is null; the
text null stands in quotes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

NULL = "null"
_PLAIN = re.compile(r'[^\s,"\[\]]+(?: +[^\s,"\[\]]+)*')
_VALUE = re.compile(rf'\s*(?:"(?P<quoted>(?:[^"]|"")*)"|(?P<plain>{_PLAIN.pattern}))\s*')

KeyTexts = Sequence[str | None]
"""The values of a key as texts; NULL is None."""


def write_key(values: Iterable[object]) -> str:
    """Write the values of a key."""
    return ", ".join(map(_write, values))


def read_key(text: str) -> list[str | None] | None:
    """Read the values of a key; None where the text is of another form."""
    values: list[str | None] = []
    end = 0
    while match := _VALUE.match(text, end):
        quoted, plain = match["quoted"], match["plain"]
        values.append(quoted.replace('""', '"') if quoted is not None else None if plain.lower() == NULL else plain)
        end = match.end()
        if end == len(text):
            return values
        if text[end] != ",":
            return None
        end += 1
    return None


def text_of(value: object) -> str | None:
    """Return a value of a key as a text that a search understands."""
    if value is None:
        return None
    return str(value).lower() if isinstance(value, bool) else str(value)


def _write(value: object) -> str:
    text = text_of(value)
    if text is None:
        return NULL
    if _PLAIN.fullmatch(text) and text.lower() != NULL:
        return text
    escaped = text.replace('"', '""')
    return f'"{escaped}"'
