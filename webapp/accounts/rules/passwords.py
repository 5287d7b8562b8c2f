"""Common passwords in disguise: `P@ssw0rd!` is as easy to guess as `password`."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from itertools import takewhile

MOST_ADDED = 7
"""Characters around a common word that do not make it a password: eight are one by themselves."""
_LOOKALIKES = tuple(str.maketrans("0@4$5378+1!|", f"oaassetbt{letter * 3}") for letter in "il")
"""Letters by the characters that are written in their place; 1, ! and | stand for two of them."""


def list_plainer(password: str) -> Iterator[str]:
    """Yield a password without capitals, repetition, lookalikes or what is added around it, in all combinations."""
    text = unicodedata.normalize("NFKC", password).casefold().strip()
    before, after = (min(_count_marks(part), MOST_ADDED) for part in (text, text[::-1]))
    for start in range(before + 1):
        for end in range(min(after, MOST_ADDED - start) + 1):
            word = text[start : len(text) - end]
            for part in (word, word[: (word + word).find(word, 1)]):
                yield from (part, *(part.translate(table) for table in _LOOKALIKES))


def _count_marks(text: str) -> int:
    """Return how many characters are in front of the first letter."""
    return sum(1 for _ in takewhile(lambda character: not character.isalpha(), text))
