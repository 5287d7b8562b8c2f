"""Changes by key: the net changes of a key told as one update, insert or delete."""

from __future__ import annotations

from collections.abc import Sequence

import duckdb

from jobs.changelog import errors
from jobs.changelog.keys import Key, names_of
from jobs.changelog.rows import ChangelogSource, as_key_columns, key_columns, key_values, listed, same_key


def check_unique(
    connection: duckdb.DuckDBPyConnection, source: ChangelogSource, keys: Sequence[Key], ends: Sequence[int | None]
) -> None:
    """Refuse a changed key that has more than one row at an end of the range."""
    connection.execute(f"CREATE OR REPLACE TABLE touched AS SELECT DISTINCT {as_key_columns(keys)} FROM events")
    for end in ends:
        duplicates = connection.execute(
            f"SELECT 1 FROM ({source.all_keys(end, keys)}) present WHERE {_is_touched(keys)} "
            f"GROUP BY {', '.join(key_columns(keys, 'present.'))} HAVING count(*) > 1 LIMIT 1"
        ).fetchall()
        if duplicates:
            raise errors.duplicate_rows(names_of(keys))


def first_and_last(connection: duckdb.DuckDBPyConnection, keys: Sequence[Key], names: Sequence[str]) -> None:
    """Make `by_key` of the net changes: the image before the range and the one after it."""
    _tell(
        connection,
        "SELECT changelog__change, changelog__ordinal, * EXCLUDE (changelog__change, changelog__ordinal) FROM net",
        keys,
        names,
    )


def check_before_last(
    connection: duckdb.DuckDBPyConnection, source: ChangelogSource, keys: Sequence[Key], end: int | None
) -> None:
    """Refuse a key that had several rows just before its last change: that change alone does not tell what is left.

    No later change touches the key, so that these are its rows at the end without what the last change brought.
    """
    duplicates = connection.execute(
        f"SELECT 1 FROM (SELECT {as_key_columns(keys)}, -changelog__copies AS changelog__rows FROM events "
        f"QUALIFY {_is_last(keys)} "
        f"UNION ALL SELECT {', '.join(key_columns(keys, 'present.'))}, 1 FROM ({source.all_keys(end, keys)}) present "
        f"WHERE {_is_touched(keys)}) "
        f"GROUP BY {', '.join(key_columns(keys))} HAVING sum(changelog__rows) > 1 LIMIT 1"
    ).fetchall()
    if duplicates:
        raise errors.duplicate_rows(names_of(keys))


def latest(connection: duckdb.DuckDBPyConnection, keys: Sequence[Key], names: Sequence[str]) -> None:
    """Make `by_key` of the last change of each key alone."""
    source = (
        f"SELECT CASE WHEN changelog__copies > 0 THEN 'INSERT' ELSE 'DELETE' END AS changelog__change, changelog__ordinal, {listed(names)} FROM events "
        f"QUALIFY {_is_last(keys)}"
    )
    _tell(connection, source, keys, names)


def _tell(connection: duckdb.DuckDBPyConnection, source: str, keys: Sequence[Key], names: Sequence[str]) -> None:
    """Pair the delete and the insert of a key; the row after stands before the row before.

    Whoever keeps one row for each key of the highest ordinal, as the documentation of changelogs shows, then keeps the
    new row where both have the same.
    """
    by_key = f"PARTITION BY {', '.join(key_values(keys))}"
    connection.execute(
        f"CREATE TABLE by_key AS SELECT CASE WHEN changelog__pairs = 2 AND changelog__change = 'INSERT' THEN 'UPDATE_AFTER' "
        f"WHEN changelog__pairs = 2 THEN 'UPDATE_BEFORE' ELSE changelog__change END AS changelog__change, changelog__ordinal, {listed(names)} FROM "
        f"(SELECT *, count(*) OVER ({by_key}) AS changelog__pairs FROM ({source}))"
        f"ORDER BY {', '.join(f'{value} NULLS FIRST' for value in key_values(keys))}, changelog__change"
    )


def _is_touched(keys: Sequence[Key]) -> str:
    """Return SQL that is true where the key of `present` changed in the range."""
    match = same_key(key_columns(keys, "present."), key_columns(keys, "touched."))
    return f"EXISTS (SELECT 1 FROM touched WHERE {match})"


def _is_last(keys: Sequence[Key]) -> str:
    """Return SQL that is true where an event is of the last snapshot in which its key changed."""
    return f"changelog__ordinal = max(changelog__ordinal) OVER (PARTITION BY {', '.join(key_values(keys))})"
