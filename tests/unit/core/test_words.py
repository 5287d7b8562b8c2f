"""Counts in words."""

from __future__ import annotations

import pytest

from webapp.core.words import counted


@pytest.mark.parametrize(("number", "said"), [(0, "0 files"), (1, "1 file"), (2, "2 files"), (1200, "1,200 files")])
def test_counts_name_what_they_count(number: int, said: str) -> None:
    assert counted(number, "file") == said


def test_what_is_counted_no_further_says_so() -> None:
    assert counted(199, "error", most=200) == "199 errors"
    assert counted(200, "error", most=200) == "200+ errors"
