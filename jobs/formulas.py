"""Texts in CSV files that spreadsheets would run."""

from __future__ import annotations

import re

_FORMULA = re.compile(r"'*[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20]")
"""How a formula begins, in the wide forms of East Asian keyboards too, with any apostrophes before it."""


def escape_formula(text: str) -> str:
    """Return a text with an apostrophe before it where a spreadsheet would take it for a formula.

    A text that has apostrophes there already gets one more: whoever takes one away has every text back as it was.
    """
    return f"'{text}" if _FORMULA.match(text) else text
