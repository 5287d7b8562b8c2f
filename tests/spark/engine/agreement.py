"""Both executors asked the same, and Spark's MERGE of what they tell."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from jobs.changelog import read_changelog
from tests.factories import engine as tables
from tests.property import changelog_laws as laws

if TYPE_CHECKING:
    from tests.spark.engine.conftest import Read, Shared


def agree(read_by_spark: Read) -> Read:
    """A changelog by both executors, which tell the same."""

    def read(table: Any, **question: Any) -> Any:
        try:
            found = read_changelog(table, **question)
        except ValueError as error:
            with pytest.raises(ValueError, match=r"Duplicate rows found") as caught:
                read_by_spark(table, **question)
            assert str(caught.value) == str(error)
            raise
        by_spark = read_by_spark(table, **question)
        columns = found.column_names
        assert by_spark.column_names == columns
        assert rows_of(by_spark, columns) == rows_of(found, columns)
        return found

    return read


def rows_of(found: Any, columns: list[str]) -> Counter[Any]:
    return Counter(laws.oracle.row_of(row, columns) for row in found.to_pylist())


def check_merged(seen: laws.History, keys: list[str], shared: Shared, first: int = 0) -> None:
    """A table that Spark wrote follows to the end by Spark's MERGE of the changes, once or twice."""
    last = len(seen.states) - 1
    bags = [laws.bag(seen, rows) for _, rows in seen.states]
    if laws.is_doubled(bags, first, last, len(keys)):
        return
    log = read_changelog(seen.table, keys=keys, start=seen.states[first][0], end=seen.states[last][0])
    version = str(seen.table.metadata.format_version)
    copy = shared.load(seen.folder, uuid4().hex, schema=seen.table.schema(), properties={"format-version": version})
    name = f"tributary.{'.'.join(copy.name())}"
    shared.session.createDataFrame(tables.arrow_rows(seen.table, seen.states[first][1])).writeTo(name).append()
    copy.refresh()
    for _ in range(2):
        shared.apply(copy, log, keys, from_empty=False)
        assert rows_of(shared.session.table(name).toArrow(), seen.columns) == bags[-1]
