"""Files of checks: what they say, what is wrong with them and in which line, and what a result means."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webapp.repositories.rules.checks import GREEN, RED
from webapp.sql.rules.checks import CheckFileError, is_check, judge, read_check, read_expectation

DIFFERENT = {"state": "different", "reason": "", "columns": [], "inserted": 1, "deleted": 0, "updated": 1200}


@pytest.mark.parametrize(
    ("text", "expects"),
    [
        ("-- expect: empty\nSELECT 1", "empty"),
        ("\n-- What it is for.\n  --Expect :  ROWS>=  7\r\nSELECT 1 -- expect: equal", "rows >= 7"),
        ("-- expect: shows\n\nWITH x AS (SELECT 1) FROM x", "shows"),
    ],
)
def test_a_check_says_above_its_query_what_it_expects(text: str, expects: str) -> None:
    assert str(read_check(text)) == expects


@pytest.mark.parametrize(
    ("text", "code", "line"),
    [
        ("", "no_expectation", 1),
        ("SELECT 1 -- expect: empty", "no_expectation", 1),
        ("-- first\n-- expect: nothing\nSELECT 1", "unknown_expectation", 2),
        ("-- expect: rows\nSELECT 1", "unknown_expectation", 1),
        ("-- expect: rows > 9999999999\nSELECT 1", "unknown_expectation", 1),
        ("-- expect: empty\n-- expect: equal\nSELECT 1", "two_expectations", 2),
        ("-- expect: empty\n\n-- and no query", "no_query", 3),
        ("-- expect: empty\nSELECT '" + "x" * 100_000 + "'", "sql_too_long", 1),
    ],
)
def test_what_is_wrong_with_a_file_has_a_name_and_a_line(text: str, code: str, line: int) -> None:
    with pytest.raises(CheckFileError) as refused:
        read_check(text)
    assert (refused.value.code, refused.value.line) == (code, line)


@given(st.text())
def test_any_text_is_a_check_or_refused_by_name(text: str) -> None:
    try:
        expectation = read_check(text)
    except CheckFileError as error:
        assert error.code
        assert 1 <= error.line <= max(1, len(text.splitlines()))
    else:
        assert read_expectation(str(expectation)) == expectation


@pytest.mark.parametrize(
    ("expects", "summary", "state", "detail"),
    [
        ("empty", {"rows": 0}, GREEN, "no rows"),
        ("empty", {"rows": 3}, RED, "3 rows"),
        ("rows > 0", {"rows": 1}, GREEN, "1 row"),
        ("rows = 2", {"rows": 3}, RED, "3 rows"),
        ("rows > 5", {"rows": 100_000, "is_cut": True}, GREEN, "more than 100,000 rows"),
        ("rows = 100000", {"rows": 100_000, "is_cut": True}, RED, "more than 100,000 rows"),
        ("rows <= 100000", {"rows": 100_000, "is_cut": True}, RED, "more than 100,000 rows"),
        ("equal", {"rows": 1, "difference": {"state": "equal"}}, GREEN, "equal to the target"),
        ("equal", {"rows": 1, "difference": DIFFERENT}, RED, "+1 ~1,200 rows from the target"),
        ("equal", {"rows": 1, "difference": {"state": "not_compared", "reason": "Too long."}}, RED, "Too long."),
        ("equal", {"rows": 1}, RED, "not compared with the target"),
        ("shows", {"rows": 1, "difference": {**DIFFERENT, "columns": [{}]}}, GREEN,
         "1 row; +1 ~1,200 rows from the target, 1 column other than the target's"),
    ],
)  # fmt: skip
def test_a_result_is_judged_by_what_was_expected(
    expects: str, summary: dict[str, Any], state: str, detail: str
) -> None:
    verdict = judge(read_expectation(expects), summary)
    assert (verdict.state, verdict.detail) == (state, detail)


def test_checks_lie_in_one_folder() -> None:
    assert [
        path for path in ("checks/a.sql", "checks/.sql", "checks/a/b.sql", "checks/a.py", "a.sql") if is_check(path)
    ] == ["checks/a.sql"]
