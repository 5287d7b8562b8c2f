"""Rows of a stored diff that somebody names by their key, and those that are like one of them."""

from __future__ import annotations

from array import array
from io import BytesIO
from typing import TYPE_CHECKING, Any

from webapp.comparisons.diffs import reader
from webapp.comparisons.diffs.search import match_key
from webapp.comparisons.rules.row_keys import read_key
from webapp.core.errors import BadRequest, NotFound
from webapp.core.words import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from webapp.comparisons.diffs.artifact import Artifact, DiffColumn
    from webapp.comparisons.rules.row_keys import KeyTexts
    from webapp.datasets.rules.row_values import Condition

COLUMNS, VALUES = "columns", "values"
LIKENESSES = (COLUMNS, VALUES)
"""In what rows are like another one: the columns that changed, or also what they were and are."""
_PLAIN_TYPES = ("BIGINT", "INTEGER", "DOUBLE", "FLOAT", "VARCHAR", "BOOLEAN", "DATE", "TIME", "TIMESTAMP", "DECIMAL")
"""DuckDB types, by their beginnings, whose values are known again by what JSON holds of them."""


def read_row_key(artifact: Artifact, text: str, *, parameter: str) -> list[str | None]:
    """Read the key of a row as it stands in an address.

    Raises:
        BadRequest: it is no key of this diff.

    """
    columns = [column.name for column in artifact.key_columns]
    if not columns:
        message = f"{parameter}: these rows have no key."
        raise BadRequest(message, errors={parameter: [message]})
    values = read_key(text)
    if values is None or len(values) != len(columns):
        parts = counted(len(columns), "part")
        message = f"{parameter}: the key has {parts} with commas between them: {', '.join(columns)}."
        raise BadRequest(message, errors={parameter: [message]})
    return values


def find_number(artifact: Artifact, key: KeyTexts) -> int | None:
    """Return the number of the changed row with this key; None where no such row changed."""
    return next(iter(find_numbers(artifact, [key])), None)


def find_numbers(artifact: Artifact, keys: Sequence[KeyTexts]) -> list[int]:
    """Return the numbers of the changed rows that have one of these keys, in the order of the rows."""
    matches = [match_key(artifact, key) for key in keys]
    target = BytesIO()
    reader.write_numbers(
        artifact.rows,
        where=" OR ".join(f"({' AND '.join(sql for sql, _ in match)})" for match in matches),
        parameters=[value for match in matches for _, values in match for value in values],
        order="n",
        first=len(keys),
        most=artifact.stored_rows,
        target=target,
    )
    return list(array("I", target.getvalue()))


def list_alike(artifact: Artifact, key: KeyTexts, likeness: str) -> list[Condition]:
    """Return the conditions of rows that are like the one with this key.

    Raises:
        BadRequest: there is no such likeness.
        NotFound: no row with this key changed.

    """
    if likeness not in LIKENESSES:
        message = f"alike: {likeness!r} is none of {', '.join(LIKENESSES)}."
        raise BadRequest(message, errors={"alike": [message]})
    number = find_number(artifact, key)
    if number is None:
        raise NotFound("No row with this key changed.", code="no_such_row")
    line = reader.select(artifact.rows, columns=artifact.stored_names, numbers=[number])[0]
    changed = sorted(line["changed"] or ())
    conditions: list[Condition] = [("change = ?", (line["change"],))]
    if changed:
        conditions.append((f"list_sort(changed) = [{', '.join('?' * len(changed))}]", tuple(changed)))
    if likeness == VALUES:
        columns = [column for column in artifact.columns if column.index in changed and not column.is_hidden]
        conditions += _list_same_values(artifact, line, columns)
    return conditions


def _list_same_values(artifact: Artifact, line: reader.Line, columns: Sequence[DiffColumn]) -> list[Condition]:
    """Return the conditions of the values of these columns, at both ends; of lists and structs there are none."""
    values = [
        (value, artifact.types.get(value, ""))
        for column in columns
        for value in (column.stored("b"), column.stored("a"))
    ]
    return [_is_same(value, kind, line[value]) for value, kind in values if _is_plain(kind)]


def _is_same(value: str, kind: str, stored: Any) -> Condition:
    return f"{value} IS NOT DISTINCT FROM CAST(? AS {kind})", (stored,)


def _is_plain(kind: str) -> bool:
    return kind.startswith(_PLAIN_TYPES) and not kind.endswith("]")
