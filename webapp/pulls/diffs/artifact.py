"""A stored row diff, opened: its summary, its columns, and where its rows are."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from webapp.core.errors import Conflict, Gone

if TYPE_CHECKING:
    from collections.abc import Mapping

NUMBERS = ("int", "long", "float", "double", "decimal")


@dataclass(frozen=True)
class Column:
    """One column of the diff, as a table head shows it."""

    index: int
    name: str
    before_name: str | None
    before_type: str | None
    after_name: str | None
    after_type: str | None
    is_key: bool
    is_ignored: bool
    is_compared: bool
    is_unreadable: bool
    """Its type cannot be read; its cells are empty and the page says why."""
    before_path: tuple[str, ...] = ()
    """The names that lead to its values: one, or those of a struct column and of fields inside it; none on a side without."""
    after_path: tuple[str, ...] = ()
    changed: int | None = None
    """In how many updated rows its value differs; None in net mode."""
    match_rate: float | None = None

    def stored(self, side: Literal["a", "b"]) -> str:
        """SQL of its values before (`b`) or after (`a`) in rows.parquet."""
        value = f"{side}{self.index}"
        for name in (self.before_path if side == "b" else self.after_path)[1:]:
            literal = name.replace("'", "''")
            value = f"struct_extract({value}, '{literal}')"
        return value

    @property
    def state(self) -> Literal["added", "removed", "retyped", "renamed", "same"]:
        if self.before_name is None:
            return "added"
        if self.after_name is None:
            return "removed"
        if self.before_type != self.after_type:
            return "retyped"
        return "same" if self.before_name == self.after_name else "renamed"

    @property
    def type(self) -> str:
        return (self.after_type if self.after_type is not None else self.before_type) or ""

    @property
    def is_number(self) -> bool:
        return self.type.startswith(NUMBERS)

    @property
    def is_text(self) -> bool:
        return "string" in (self.before_type, self.after_type)


@dataclass(frozen=True)
class Artifact:
    """A finished diff on disk, opened."""

    folder: Path
    summary: dict[str, Any]
    schema: dict[str, Any]
    columns: tuple[Column, ...]
    inside: tuple[Column, ...]
    """Parts of the key that are fields inside a struct column."""
    types: dict[str, str]
    """Columns of rows.parquet, and the SQL of values inside them, with their DuckDB types."""

    @property
    def mode(self) -> Literal["identifier", "net"]:
        return "identifier" if self.summary["mode"] == "identifier" else "net"

    @property
    def key_columns(self) -> tuple[Column, ...]:
        """In the order of the rules, as stored in `k0`, `k1`, …"""
        by_name = {column.name: column for column in (*self.columns, *self.inside)}
        return tuple(by_name[name] for name in self.summary.get("key") or ())

    @property
    def shown(self) -> tuple[Column, ...]:
        """The columns of a page: parts of the key that stand inside others have one of their own."""
        return (*self.inside, *self.columns)

    @property
    def rows(self) -> Path:
        """The file of changed rows, one line each in key order, numbered by `n`."""
        return self.folder / "rows.parquet"


def open_artifact(folder: str | Path) -> Artifact:
    """Open the artifact of a finished diff; Gone when its files have been removed."""
    path = Path(folder)
    try:
        stamp = (path / "summary.json").stat().st_mtime_ns
    except FileNotFoundError:
        raise Gone("The stored rows of this comparison have been removed. Compute it again.", code="expired") from None
    return _open(str(path), stamp)


@lru_cache(maxsize=64)
def _open(folder: str, _stamp: int) -> Artifact:
    from webapp.pulls.diffs import reader

    path = Path(folder)
    try:
        summary = json.loads((path / "summary.json").read_bytes())
        schema = json.loads((path / "schema.json").read_bytes())
        columns = tuple(_column(raw, summary) for raw in schema["columns"])
        # older artifacts have no such keys
        inside = tuple(_inner(raw) for raw in schema.get("inside", ()) if raw["name"] in (summary["key"] or ()))
        types = reader.describe(path / "rows.parquet", [value for one in inside for value in _values(one)])
    except (OSError, ValueError, KeyError, TypeError, *reader.ERRORS) as error:
        raise Conflict(
            "The stored rows of this comparison are damaged. Compute it again.", code="damaged", reason=str(error)
        ) from error
    return Artifact(path, summary, schema, columns, inside, types)


def _column(raw: Mapping[str, Any], summary: Mapping[str, Any]) -> Column:
    before, after = raw["before"] or {}, raw["after"] or {}
    match: Mapping[str, Any] = next(
        (entry for entry in summary.get("columns", ()) if entry["index"] == raw["index"]), {}
    )
    return Column(
        index=raw["index"],
        name=raw["name"],
        before_name=before.get("name"),
        before_type=before.get("type"),
        after_name=after.get("name"),
        after_type=after.get("type"),
        is_key=raw["name"] in (summary.get("key") or ()),
        is_ignored=raw["ignored"],
        is_compared=raw["compared"],
        is_unreadable=raw["unreadable"],
        before_path=(before["name"],) if before else (),
        after_path=(after["name"],) if after else (),
        changed=match.get("changed"),
        match_rate=match.get("match_rate"),
    )


def _inner(raw: Mapping[str, Any]) -> Column:
    before, after = raw["before"] or {}, raw["after"] or {}
    return Column(
        index=raw["index"],
        name=raw["name"],
        before_name=".".join(before["path"]) if before else None,
        before_type=before.get("type"),
        after_name=".".join(after["path"]) if after else None,
        after_type=after.get("type"),
        is_key=True,
        is_ignored=False,
        is_compared=True,
        is_unreadable=False,
        before_path=tuple(before.get("path", ())),
        after_path=tuple(after.get("path", ())),
    )


def _values(inner: Column) -> list[str]:
    """SQL of the values of a field that are stored."""
    before, after = [inner.stored("b")] * bool(inner.before_path), [inner.stored("a")] * bool(inner.after_path)
    return [*before, *after]
