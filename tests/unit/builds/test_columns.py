"""What the text of code says of a column."""

from __future__ import annotations

import pytest

from webapp.builds.rules.columns import ColumnUse, InputColumns, SpecColumns, judge_column

LISTED = SpecColumns({"/x/a": InputColumns(("day", "place"), is_listed=True)}, frozenset({"late", "code", "share"}))
OPEN = SpecColumns({"/x/a": InputColumns(("day",))}, frozenset({"late", "code", "share"}))
UNREAD = SpecColumns({"/x/a": InputColumns()}, None)


@pytest.mark.parametrize(
    ("code", "column", "use"),
    [
        (LISTED, "day", ColumnUse.READ),
        (LISTED, "late", ColumnUse.NOT_NAMED),
        (LISTED, "place.code", ColumnUse.NAMED),
        (LISTED, "place.other", ColumnUse.NOT_NAMED),
        (OPEN, "day", ColumnUse.READ),
        (OPEN, "Late", ColumnUse.NAMED),
        (OPEN, "Late share", ColumnUse.NAMED),
        (OPEN, "late minutes", ColumnUse.NOT_NAMED),
        (OPEN, "%", ColumnUse.NOT_KNOWN),
        (UNREAD, "day", ColumnUse.NOT_KNOWN),
        (None, "day", ColumnUse.NOT_KNOWN),
    ],
)
def test_a_column_is_read_or_named_or_not_known(code: SpecColumns | None, column: str, use: ColumnUse) -> None:
    assert judge_column(column, path="/x/a", code=code) == use


def test_what_is_asked_of_another_input_says_nothing() -> None:
    assert judge_column("day", path="/x/b", code=LISTED) == ColumnUse.NOT_NAMED
