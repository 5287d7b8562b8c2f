"""Numbered pages: which part of a list each shows, and where they lead."""

from __future__ import annotations

import pytest

from webapp.core.numbered import NumberedPage


@pytest.mark.parametrize(
    ("number", "total", "start", "end", "text", "previous", "following"),
    [
        (1, 0, 0, 0, "", "", ""),
        (1, 30, 0, 30, "1–30 of 30", "", ""),
        (1, 31, 0, 30, "1–30 of 31", "", "?page=2"),
        (2, 31, 30, 31, "31–31 of 31", "?page=1", ""),
        (9, 31, 30, 31, "31–31 of 31", "?page=1", ""),
        (40, 1200, 1170, 1200, "1,171–1,200 of 1,200", "?page=39", ""),
    ],
)
def test_a_page_is_one_that_there_is(
    number: int, total: int, start: int, end: int, text: str, previous: str, following: str
) -> None:
    page = NumberedPage.choose(number, size=30, total=total)
    assert (page.start, page.end, page.text) == (start, end, text)
    assert (page.link_previous("?page={}".format), page.link_next("?page={}".format)) == (previous, following)
