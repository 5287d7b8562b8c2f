"""Two lists and the runs in which they are equal or differ."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webapp.core.sequences import list_runs
from webapp.git.diff import LineMark, Span, _split_by_marks

ITEMS = st.lists(st.sampled_from(["a", "b", "\n", "", "0"]), max_size=12)


@given(ITEMS, ITEMS)
def test_runs_cover_both_lists_in_turn(old: list[str], new: list[str]) -> None:
    runs = list_runs(old, new)
    assert [item for run in runs for item in old[run.old_start : run.old_end]] == old
    assert [item for run in runs for item in new[run.new_start : run.new_end]] == new
    assert all(one.is_equal != other.is_equal for one, other in zip(runs, runs[1:]))
    for run in runs:
        assert (old[run.old_start : run.old_end] == new[run.new_start : run.new_end]) == run.is_equal


@pytest.mark.parametrize(
    ("one", "other"), [(["a", "b"], ["a", "c"]), (["a", "b", "c"], ["c", "a", "b"]), (["a"], ["a"])]
)
def test_hostile_lists_are_compared_in_a_moment(one: list[str], other: list[str]) -> None:
    began = time.monotonic()
    list_runs(one * 1_000, other * 1_000)
    assert time.monotonic() - began < 1


@given(st.lists(st.text("ab", min_size=1, max_size=4), max_size=5), st.sets(st.integers(0, 12), max_size=8))
def test_marks_split_spans_and_keep_the_text(texts: list[str], cuts: set[int]) -> None:
    text = "".join(texts)
    ordered = sorted(cut for cut in cuts if cut <= len(text))
    marks = [LineMark(start, end) for start, end in zip(ordered[::2], ordered[1::2])]
    spans = list(_split_by_marks([Span(piece, str(number)) for number, piece in enumerate(texts)], marks))
    assert "".join(span.text for span in spans) == text
    shown = "".join(("x" if span.marked else ".") * len(span.text) for span in spans)
    assert shown == "".join("x" if any(a <= n < b for a, b, _ in marks) else "." for n in range(len(text)))
    assert all(span.text for span in spans)
