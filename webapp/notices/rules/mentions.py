"""Whom a text names."""

from __future__ import annotations

import re

MOST = 50
"""So many names of one text are looked at."""
_CODE = re.compile(r"^(```|~~~).*?^\1[^\n]*$|`[^`\n]*`", re.DOTALL | re.MULTILINE)
_NAME = re.compile(r"(?<![\w@/.+-])@([\w.+-]{1,150})")


def find_mentions(text: str) -> frozenset[str]:
    """Return the names behind an @ outside of code, in lower case; a point that ends a sentence is no part of one."""
    names = (name.lower().rstrip(".+-") for name in _NAME.findall(_CODE.sub(" ", text)))
    return frozenset(list(dict.fromkeys(name for name in names if name))[:MOST])
