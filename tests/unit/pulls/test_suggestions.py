"""Changes that comments suggest: what is read out of a comment, and what a file says with them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webapp.pulls.rules.suggestions import OverlapError, Replacement, list_suggestions, replace_lines

LINES = st.lists(st.text(st.characters(exclude_characters="\n\r", codec="utf-8"), max_size=4), max_size=3).map(tuple)


@pytest.mark.parametrize(
    ("body", "read"),
    [
        ("```suggestion\nx = 1\n```", [("", ("x = 1",), "")]),
        ("Shorter:\n```suggestion\nx\ny\n```\nSo?", [("Shorter:\n", ("x", "y"), "\nSo?")]),
        ("```suggestion\n```", [("", (), "")]),
        ("```suggestion\n\n```", [("", ("",), "")]),
        ("````suggestion\n```sql\nselect 1\n```\n````", [("", ("```sql", "select 1", "```"), "")]),
        ("```suggestion\r\nx\r\n```\r\n", [("", ("x",), "\n")]),
        ("```suggestion\nx", []),
        ("```suggestions\nx\n```", []),
        ("```python\nx\n```", []),
        ("See ```suggestion```", []),
        ("", []),
    ],
)
def test_read_out_of_a_comment(body: str, read: list[tuple[str, tuple[str, ...], str]]) -> None:
    assert [(found.before, found.lines, found.after) for found in list_suggestions(body)] == read


def test_each_block_is_one() -> None:
    blocks = "```suggestion\nx\n```\nor\n```suggestion\ny\n```"
    assert [found.lines for found in list_suggestions(blocks)] == [("x",), ("y",)]


@given(lines=LINES)
def test_any_lines_can_be_suggested(lines: tuple[str, ...]) -> None:
    longest = max((len(line) - len(line.lstrip("`")) for line in lines), default=0)
    fence = "`" * max(3, longest + 1)
    [found] = list_suggestions("\n".join([f"{fence}suggestion", *lines, fence]))
    assert found.lines == lines


@given(data=st.data(), end=st.sampled_from(["\n", "\r\n"]), is_ended=st.booleans())
def test_only_the_lines_that_are_named_change(data: st.DataObject, end: str, is_ended: bool) -> None:
    number = data.draw(st.integers(2, 8))
    lines = [f"line {place}" for place in range(1, number + 1)]
    expected: list[str] = []
    replacements, place = [], 1
    while place <= number:
        last = data.draw(st.integers(place, number))
        if data.draw(st.booleans()):
            made = data.draw(LINES)
            replacements.append(Replacement(place, last, made))
            expected += made
        else:
            expected += lines[place - 1 : last]
        place = last + 1
    text = end.join(lines) + (end if is_ended else "")

    changed = replace_lines(text, data.draw(st.permutations(replacements)))

    whole = "".join(line + end for line in expected)
    assert changed in ({whole} if is_ended else {whole, end.join(expected)})
    if replacements and replacements[-1].last == number and not replacements[-1].lines:
        assert changed == whole, "what is the last line now keeps its end"


def test_a_line_is_replaced_once() -> None:
    with pytest.raises(OverlapError, match="Line 2"):
        replace_lines("a\nb\nc\n", [Replacement(1, 2, ("x",)), Replacement(2, 3, ("y",))])


def test_there_is_no_line_to_replace() -> None:
    with pytest.raises(IndexError):
        replace_lines("a\n", [Replacement(2, 2, ("x",))])
