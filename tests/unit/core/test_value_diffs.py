"""What differs inside one value."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webapp.core.value_diffs import MOST_WORDS, Piece, diff_documents, diff_words, read_document

DOCUMENTS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=2), inner, max_size=4),
    max_leaves=12,
).filter(lambda value: isinstance(value, dict | list))


def test_words_that_differ_are_told_from_those_that_do_not() -> None:
    before, after = diff_words("late by 12 minutes", "late by 15 minutes, at least")
    assert before == [Piece("late by ", False), Piece("12", True), Piece(" minutes", False)]
    assert after[1] == Piece("15", True)
    assert after[-1] == Piece(", at least", True)
    assert diff_words("a " * MOST_WORDS, "a")[1] == [Piece("a", True)]


@given(st.text(), st.text())
def test_pieces_are_the_texts(before: str, after: str) -> None:
    old, new = diff_words(before, after)
    assert ("".join(piece.text for piece in old), "".join(piece.text for piece in new)) == (before, after)
    same = ["".join(piece.text for piece in pieces if not piece.is_changed) for pieces in (old, new)]
    assert same[0] == same[1]


@pytest.mark.parametrize(
    ("value", "document"), [('{"a": 1}', {"a": 1}), (" [1]", [1]), ("{a", None), ("a", None), (7, None)]
)
def test_documents_are_known(value: Any, document: Any) -> None:
    assert read_document(value) == document


@given(DOCUMENTS, DOCUMENTS)
def test_lines_of_documents_are_none_where_they_are_equal(before: Any, after: Any) -> None:
    lines = diff_documents(before, after)
    texts = [json.dumps(document, sort_keys=True) for document in (before, after)]
    assert (lines == []) == (texts[0] == texts[1])


def test_lines_far_from_those_that_differ_are_left_out() -> None:
    before = {f"member {number:02}": number for number in range(40)}
    lines = diff_documents(before, {**before, "member 20": -1})
    assert [line.kind for line in lines] == ["gap", *["same"] * 3, "removed", "added", *["same"] * 3, "gap"]
    assert [line.pieces[0].text.strip() for line in lines[4:6]] == ['"member 20": 20,', '"member 20": -1,']
    assert {line.kind for line in diff_documents(None, {"a": 1})} == {"added"}
