"""Spark as the second executor of the tests' cases."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.schema import Schema

from jobs.changelog import plan_changelog
from jobs.engine.compare.comparison import RowComparison
from jobs.engine.compare.file_rows import FileRows
from jobs.engine.compare.reduced import Reduction
from jobs.engine.plan.router import Decision
from jobs.engine.read.listing import Listing
from tests.contract.catalog.conftest import Server, start_server
from tests.factories import engine as tables
from tests.factories.spark import QUICK, new_session, rest_catalog
from tests.property import engine_oracle as oracle

Read = Callable[..., pa.Table]
BY_SPARK_IN_EVERY_RUN = {
    "test_diff_cases_on_spark.py": (
        "test_a_field_of_a_struct_is_a_key",
        "test_a_filter_holds_for_shared_files_and_rows_that_cross_it",
        "test_a_new_row_with_the_key_of_an_untouched_file_is_found",
        "test_a_null_key_is_a_value_and_is_reported",
        "test_an_added_column_alone_changes_no_row",
        "test_both_executors_choose_the_same_rows",
        "test_both_executors_say_the_same_of_a_hard_history",
        "test_duplicate_keys_fall_back_to_net_with_counts_and_examples",
        "test_other_values_are_one_changed_cell",
        "test_rules",
        "test_statistics_of_both_ends",
        "test_what_is_near_is_left_out_by_spark_and_what_is_not_is_judged_here",
    ),
    "test_changelog_nested_keys_on_spark.py": (
        "test_a_field_of_a_struct_is_a_key",
        "test_a_field_that_was_renamed_and_widened_is_the_same_key",
        "test_a_merge_by_a_field_of_a_struct",
    ),
}
"""Of cases that every run asks the embedded engine: those that it asks Spark, too, each with its first values."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The other cases go through Spark by `make soak`."""
    for item in items:
        chosen = BY_SPARK_IN_EVERY_RUN.get(item.path.name)
        if chosen is None or not isinstance(item, pytest.Function):
            continue
        # By their place in the case: the tests themselves come in another order in each run.
        is_later = hasattr(item, "callspec") and any(item.callspec.indices.values())
        if is_later or item.originalname not in chosen:
            item.add_marker(pytest.mark.soak)


@pytest.fixture(scope="session")
def quick_session() -> Any:
    """A session for small rows."""
    return new_session(QUICK)


@pytest.fixture
def read_by_spark(quick_session: Any, tmp_path: Path) -> Read:
    """What `read_changelog` does, computed by Spark, in the same Arrow types."""
    from jobs.changelog.spark import find_obstacle, spark_changelog

    def read(table: Any, **question: Any) -> pa.Table:
        plan = plan_changelog(table, **question)
        obstacle = find_obstacle(plan)
        assert not obstacle, obstacle
        listing = Listing(table, schema_id=plan.schema.id, folder=f"file://{tmp_path}/listing", io=table.io)
        try:
            found: pa.Table = spark_changelog(plan, quick_session, listing).toArrow()
        finally:
            listing.remove()
        assert not list((tmp_path / "listing").iterdir())
        return found

    return read


@pytest.fixture(scope="package")
def catalog_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The catalog, which Spark can write to and PyIceberg read."""
    running = start_server(tmp_path_factory.mktemp("catalog"))
    yield running
    running.process.terminate()
    running.process.wait(20)


class Shared:
    """Tables of the catalog under names of their own, empty when they are first loaded."""

    def __init__(self, server: Server, session: Any) -> None:
        self.session = session
        self._catalog = server.pyiceberg()
        self._names: dict[str, str] = {}

    def load(self, folder: Path, name: str, **options: Any) -> Any:
        """What stands for one table of one folder."""
        own = self._names.setdefault(f"{folder}/{name}", f"n{uuid4().hex[:8]}.t")
        try:
            return self._catalog.load_table(own)
        except NoSuchTableError:
            self._catalog.create_namespace(own.split(".")[0])
            return self._catalog.create_table(own, **{"schema": Schema(), **options})

    def apply(self, table: Any, log: pa.Table, keys: list[str], *, from_empty: bool) -> int | None:
        """What `apply_changelog` does, by Spark."""
        from jobs.changelog.merge import merge_changelog

        # Spark's client takes no column without a chunk
        chunked = log if log.num_rows else pa.Table.from_batches([pa.RecordBatch.from_pylist([], schema=log.schema)])
        frame = self.session.createDataFrame(chunked) if log.num_columns else log
        name = ".".join(table.name())
        try:
            return merge_changelog(self.session, table, frame, keys, name=name, from_empty=from_empty)
        finally:
            table.refresh()


@pytest.fixture
def shared(catalog_server: Server) -> Shared:
    """Tables that both sides use; Spark knows the catalog by the name that it has in jobs."""
    options = {
        **QUICK,
        **rest_catalog("tributary", catalog_server.uri, catalog_server.token),
        "spark.sql.catalog.tributary.cache-enabled": "false",
        # or Spark would take the times of Arrow that have no zone for such as have one
        "spark.sql.timestampType": "TIMESTAMP_NTZ",
    }
    return Shared(catalog_server, new_session(options))


@pytest.fixture(autouse=True)
def _no_server_mode() -> None:
    assert "SPARK_CONNECT_MODE_ENABLED" not in os.environ, "some test left Spark's functions in the mode of Connect"


def check_read_no_rows(rows: FileRows) -> None:
    """Spark compared: this process has opened files that name deleted rows, to weigh them, and no data file."""
    files = [*rows.plan.before_files, *rows.plan.after_files]
    if not any(file.deletes for file in files):
        assert not rows.scanners, "this process read files, though Spark compared them"
    for scanner in rows.scanners.values():
        opened = scanner._schemas.keys() & {scanner.shown_path(file.data.path) for file in files}
        assert not opened, f"this process read {opened}, though Spark compared them"


class BothExecutors:
    """Diffs computed twice, by this process and by Spark, which must not differ; counts those that Spark really did."""

    def __init__(self, session: Any, diff: Callable[..., dict[str, Any]]) -> None:
        self._session = session
        self._diff = diff
        self.by_spark = 0
        self._compared: Any = None
        self._last: Any = None

    def diff(self, folder: Path, *sides: Any, **options: Any) -> dict[str, Any]:
        """What `tests.factories.engine.diff` gives."""
        embedded = self._diff(folder, *sides, **dict(options))
        spark = self.spark(folder, *sides, **options)
        if spark["executor"] == "spark":
            check_read_no_rows(self._last.files)
        assert told(spark) == told(embedded)
        self.by_spark += spark["executor"] == "spark"
        return spark

    def spark(self, folder: Path, *sides: Any, **options: Any) -> dict[str, Any]:
        """The diff by Spark alone, where it can."""
        try:
            return self._diff(folder, *sides, **options, reduce=self._reduce)
        finally:
            compared, self._compared = self._compared, None
            if compared is not None:
                compared.close()
                assert not list(Path(f"{self._last.progress.folder}-listings").iterdir())

    def _reduce(self, comparison: RowComparison) -> Reduction:
        from jobs.engine.executors import compare_by
        from jobs.engine.spark.diff import find_obstacle

        if obstacle := find_obstacle(comparison.plan):
            return Reduction(Decision("embedded", obstacle))
        self._last, listings = comparison, f"{comparison.progress.folder}-listings"
        self._compared = compare_by(
            self._session, comparison, folder=f"file://{listings}", fetch=lambda frame: [frame.toArrow()]
        )
        return self._compared.reduction(Decision("spark", "a test asks it"))


def told(result: dict[str, Any]) -> dict[str, Any]:
    """All that a diff says, but who computed it and when."""
    statistics = json.loads((result["folder"] / "statistics.json").read_text())
    first = pq.read_table(result["folder"] / "first" / "rows.parquet").to_pylist()
    own = ("folder", "executor", "executor_reason", "timings_s")
    said = {name: value for name, value in result.items() if name not in own}
    return {**said, "rows": lines(result["rows"]), "statistics": statistics, "first": lines(first)}


def lines(rows: list[dict[str, Any]]) -> list[Any]:
    """Rows in their order, values by what they are."""
    names = list(rows[0]) if rows else []
    return [oracle.row_of(row, names) for row in rows]


@pytest.fixture
def both(quick_session: Any, monkeypatch: pytest.MonkeyPatch) -> BothExecutors:
    """Let every diff of the tests' tables run by both executors."""
    found = BothExecutors(quick_session, tables.diff)
    monkeypatch.setattr(tables, "diff", found.diff)
    return found
