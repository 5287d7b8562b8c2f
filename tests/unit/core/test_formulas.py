"""Texts in CSV that a spreadsheet would run: none of them begins a cell, and every text can be had back."""

from __future__ import annotations

import csv
import io

from hypothesis import given
from hypothesis import strategies as st

from jobs.formulas import escape_formula
from tests.factories.api_document import read_document
from tests.factories.everything import list_operations

FORMULAS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
TEXTS = st.text() | st.builds(str.__add__, st.sampled_from(["", "'", "''", *FORMULAS]), st.text())


def take_back(text: str) -> str:
    """What our own escape has put there."""
    return text[1:] if text.startswith("'") and text.lstrip("'").startswith(FORMULAS) else text


@given(TEXTS)
def test_no_text_is_a_formula_and_each_comes_back(text: str) -> None:
    file = io.StringIO(newline="")
    csv.writer(file).writerow([escape_formula(text), "end"])
    [[cell, _]] = csv.reader(io.StringIO(file.getvalue(), newline=""))
    assert not cell.startswith(FORMULAS)
    assert take_back(cell) == text


@given(TEXTS, TEXTS)
def test_two_texts_stay_two(one: str, other: str) -> None:
    assert (escape_formula(one) == escape_formula(other)) == (one == other)


def test_every_answer_in_csv_is_one_that_is_escaped() -> None:
    """Each is attacked where it is written: test_audit.py, and test_diffs_rows.py for both row diffs."""
    document = read_document()
    written = {
        path.rpartition("/api/v1")[2]
        for method, path in list_operations()
        for answer in document.operations[method, path]["responses"].values()
        if "text/csv" in answer.get("content", {})
    }
    assert written == {
        "/audit.csv",
        "/datasets/{dataset_id}/compare/rows.csv",
        "/repositories/{repo}/pulls/{number}/datasets/{dataset_id}/rows.csv",
    }


def test_what_is_no_formula_is_left_alone() -> None:
    assert [escape_formula(text) for text in ("", "a=1", "'quoted'", "1-2", "é")] == ["", "a=1", "'quoted'", "1-2", "é"]
