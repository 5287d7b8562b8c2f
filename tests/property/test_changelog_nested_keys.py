"""A field inside a struct is the same key as a column of the same values, whatever happened and however it was written."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.property.changelog_laws import Row, check_applied, events
from tests.property.test_changelog_schemas import QUICK as ONE_STYLE
from tests.property.test_changelog_schemas import STYLES, History
from tests.property.test_engine_diff import POOLS

pytestmark = pytest.mark.slow
QUICK = settings(ONE_STYLE, max_examples=3)
LONG = settings(QUICK, max_examples=80)
KINDS = {"x": "double", "S": "struct", "y": "string", "V": "boolean"}


def with_columns(struct: Row | None, value: Any) -> Row:
    """The struct, and its fields as columns."""
    return {"x": None, "y": None, **(struct or {}), "S": struct, "V": value}


ROWS = st.lists(
    st.builds(with_columns, st.sampled_from(POOLS["struct"][1]), st.sampled_from(POOLS["boolean"][1])), max_size=3
)


def outcome(history: History, first: int, keys: list[str], images: str) -> Counter[Any] | str:
    try:
        return events(history, history.told(first, len(history.states) - 1, keys=keys, images=images))
    except ValueError as error:
        return str(error).replace("S.", "")


@given(st.sampled_from(STYLES), st.lists(ROWS, min_size=2, max_size=4), st.sampled_from(["x", "xy", "yx"]))
def law(style: str, versions: list[list[Row]], keys: str) -> None:
    inside = [f"S.{key}" for key in keys]
    with tempfile.TemporaryDirectory() as folder:
        history = History(Path(folder), style, KINDS, [("pyarrow", rows) for rows in versions])
        for first in (0, 1):
            for images in ("first", "latest"):
                expected = outcome(history, first, list(keys), images)
                assert outcome(history, first, inside, images) == expected
                if isinstance(expected, Counter):
                    log = history.told(first, len(history.states) - 1, keys=inside, images=images)
                    check_applied(history, inside, first, log)


def test_a_field_of_a_struct_is_the_key_that_a_column_of_its_values_is() -> None:
    QUICK(law)()


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_a_field_of_a_struct_is_the_key_that_a_column_of_its_values_is_at_length() -> None:
    LONG(law)()
