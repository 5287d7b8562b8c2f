"""Names of columns that engines take for one: they differ only in case, or in how Unicode writes the same characters."""

from __future__ import annotations

import unicodedata
from collections import defaultdict
from collections.abc import Collection, Iterable


class AmbiguousName(ValueError):
    """A written column could be several columns of the table."""


def fold(name: str) -> str:
    """Return the text that is equal for all spellings of a name.

    Letters are compared one by one, as Spark's resolver does, so `ß` and `ss` stay two names.
    """
    if name.isascii():
        return name.lower()
    return unicodedata.normalize("NFC", "".join(map(_fold_letter, unicodedata.normalize("NFC", name))))


def _fold_letter(letter: str) -> str:
    upper = letter.upper()
    return (upper if len(upper) == 1 else letter).lower()[0]


def find_twin(names: Iterable[str]) -> tuple[str, str] | None:
    """Return the first two names that are spellings of one."""
    seen: dict[str, str] = {}
    for name in names:
        folded = fold(name)
        if folded in seen:
            return seen[folded], name
        seen[folded] = name
    return None


def match_names(written: Collection[str], there: Iterable[str]) -> dict[str, str]:
    """Return the table's spelling of each written name; a name that the table lacks stays as it is.

    Raises:
        AmbiguousName: the table has several columns of that name, and none in the written spelling.

    """
    spellings: dict[str, list[str]] = defaultdict(list)
    for name in there:
        spellings[fold(name)].append(name)
    matched: dict[str, str] = {}
    for name in written:
        candidates = spellings.get(fold(name), [])
        if name not in candidates and len(candidates) > 1:
            both = " and ".join(map(repr, candidates))
            message = f"column {name!r} could be {both} of the table: write the one that is meant, or replace the table"
            raise AmbiguousName(message)
        matched[name] = name if name in candidates or not candidates else candidates[0]
    return matched
