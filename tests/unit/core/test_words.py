"""Counts in words."""

from __future__ import annotations

import pytest

from webapp.core.words import counted


@pytest.mark.parametrize(("number", "said"), [(0, "0 files"), (1, "1 file"), (2, "2 files"), (1200, "1,200 files")])
def test_counts_name_what_they_count(number: int, said: str) -> None:
    assert counted(number, "file") == said
