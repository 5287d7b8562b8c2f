"""Filters of a list: where each is offered, what it looks up, and what counts as none."""

from __future__ import annotations

from dataclasses import dataclass

from webapp.core.filters import ListFilter, offer
from webapp.core.openapi import describe_filters


@dataclass(frozen=True, slots=True, kw_only=True)
class BookFilter(ListFilter):
    """Which books are wanted."""

    author: str = offer("author__name")
    shelf: str = offer("shelf", on_page=False)
    q: str = offer(in_api=False)
    lent: str = offer("lent", default="all", choices=("all", "yes"))


ASKED = {"author": " Ada ", "shelf": "3", "q": "", "colour": "red"}


def test_api_takes_texts_as_they_are_and_a_page_as_they_are_meant() -> None:
    assert BookFilter.read_api(ASKED) == BookFilter(author=" Ada ", shelf="3")
    assert BookFilter.read_page({**ASKED, "q": " x", "lent": "yes"}) == BookFilter(author="Ada", q="x", lent="yes")


def test_rows_are_asked_for_what_is_given() -> None:
    assert BookFilter(author="Ada", q="x").lookups == {"author__name": "Ada", "lent": "all"}
    assert BookFilter(lent="").lookups == {}


def test_none_given_is_any() -> None:
    assert BookFilter().is_any
    assert BookFilter.read_page({"author": "  "}).is_any
    assert not BookFilter(q="x").is_any


def test_api_describes_what_it_takes() -> None:
    described = {parameter.name: (parameter.enum, parameter.default) for parameter in describe_filters(BookFilter)}
    assert described == {"author": (None, None), "shelf": (None, None), "lent": (("all", "yes"), "all")}
