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
    changed: int | None = None
    """In how many updated rows its value differs; None in net mode."""
    match_rate: float | None = None

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
    types: dict[str, str]
    """Columns of rows.parquet with their DuckDB types."""

    @property
    def mode(self) -> Literal["identifier", "net"]:
        return "identifier" if self.summary["mode"] == "identifier" else "net"

    @property
    def key_columns(self) -> tuple[Column, ...]:
        """In the order of the rules, as stored in `k0`, `k1`, …"""
        by_name = {column.name: column for column in self.columns}
        return tuple(by_name[name] for name in self.summary.get("key") or ())

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
        types = reader.describe(path / "rows.parquet")
        columns = tuple(_column(raw, summary) for raw in schema["columns"])
    except (OSError, ValueError, KeyError, TypeError, *reader.ERRORS) as error:
        raise Conflict(
            "The stored rows of this comparison are damaged. Compute it again.", code="damaged", reason=str(error)
        ) from error
    return Artifact(path, summary, schema, columns, types)


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
        changed=match.get("changed"),
        match_rate=match.get("match_rate"),
    )
