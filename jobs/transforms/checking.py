"""Runs the checks of an output over what is staged: embedded for light transforms, on the cluster for Spark ones."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

from jobs.protocol import ExpectationResult
from jobs.transforms.declare import Check
from jobs.transforms.expectations import Source, evaluate

if TYPE_CHECKING:
    from pyiceberg.table import Table

MEMORY_LIMIT = "1GB"


class _Says(Protocol):
    def __call__(self, line: str) -> None: ...


class ArrowSource:
    """Answers from the table's files through DuckDB, reading batch by batch the columns a query names."""

    quote = '"'
    same = "IS NOT DISTINCT FROM"

    def __init__(self, table: Table, columns: Iterable[str], *, masked: Collection[str] = ()) -> None:
        self._table = table
        self.masked = masked
        names = [field.name for field in table.schema().fields]
        # three columns more show which row it is
        self._columns = tuple(dict.fromkeys([*names[:3], *(name for name in columns if name in names)]))

    def text(self, value: str) -> str:
        """Write a text literal."""
        escaped = value.replace("'", "''")
        return f"'{escaped}'"

    def matches(self, column: str, pattern: str) -> str:
        """Search a regular expression."""
        return f"regexp_matches({column}, {self.text(pattern)})"

    def types(self) -> Mapping[str, str]:
        """Return the Iceberg types."""
        return {field.name: str(field.field_type) for field in self._table.schema().fields}

    def query(self, sql: str) -> list[dict[str, object]]:
        """Scan once and answer."""
        with self._connect() as connection:
            reader = self._table.scan(selected_fields=self._columns).to_arrow_batch_reader()
            connection.register("checked_rows", reader)
            answer = connection.execute(sql.replace("{data}", "checked_rows"))
            names = [column[0] for column in answer.description or ()]
            return [dict(zip(names, row, strict=True)) for row in answer.fetchall()]

    @staticmethod
    def _connect() -> Any:
        import duckdb

        connection = duckdb.connect(
            config={"memory_limit": MEMORY_LIMIT, "temp_directory": "/tmp/checks", "threads": "2"}  # noqa: S108 - private
        )
        # not in the configuration: the extension that knows time zones is loaded only after connecting
        connection.execute("SET TimeZone = 'UTC'")
        return connection


class StagedSparkSource:
    """Answers from the staged table through the job's Spark session."""

    quote = "`"
    same = "<=>"

    def __init__(self, session: Any, table: Table, name: str, *, masked: Collection[str] = ()) -> None:
        self._session = session
        self.masked = masked
        self._table = table
        self._name = name

    def text(self, value: str) -> str:
        """Write a text literal; Spark reads backslashes in it."""
        escaped = value.replace("\\", "\\\\").replace("'", "\\'")
        return f"'{escaped}'"

    def matches(self, column: str, pattern: str) -> str:
        """Search a regular expression."""
        return f"{column} RLIKE {self.text(pattern)}"

    @cached_property
    def _types(self) -> dict[str, str]:
        return {field.name: str(field.field_type) for field in self._table.schema().fields}

    def types(self) -> Mapping[str, str]:
        """Return the Iceberg types."""
        return self._types

    def query(self, sql: str) -> list[dict[str, object]]:
        """Ask Spark."""
        return [row.asDict() for row in self._session.sql(sql.replace("{data}", self._name)).collect()]


def run_checks(dataset: str, checks: Iterable[Check], source: Source, say: _Says) -> list[ExpectationResult]:
    """Judge each check and say so in the log."""
    results = []
    for check in checks:
        verdict = evaluate(check.expectation, source)
        if verdict.passed:
            say(f'expectation "{check.name}" holds: {verdict.message}')
        else:
            word = "Error" if check.on_error == "FAIL" else "Warning"
            say(f'{word}: expectation "{check.name}" failed: {verdict.message}')
        results.append(ExpectationResult(dataset, check.name, verdict.passed, check.on_error, verdict.message))
    return results
