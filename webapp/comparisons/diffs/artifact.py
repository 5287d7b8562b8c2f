"""A stored row diff, opened: its summary, its columns, and where its rows are."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from jobs.parsing import load_json
from jobs.protocol import MAX_MESSAGE_BYTES
from jobs.regular_files import read_beneath
from webapp.comparisons.diffs import reader
from webapp.core.errors import Gone

if TYPE_CHECKING:
    from webapp.accounts.rules.sight import RowSight

SIDES: tuple[Literal["b", "a"], ...] = ("b", "a")
NUMBERS = ("int", "long", "float", "double", "decimal")


@dataclass(frozen=True)
class DiffColumn:
    """One column of the diff, as a table head shows it."""

    index: int
    name: str
    before_name: str | None
    before_type: str | None
    after_name: str | None
    after_type: str | None
    is_key: bool
    is_ignored: bool
    is_unreadable: bool
    """Its type cannot be read; its cells are empty and the page says why."""
    before_path: tuple[str, ...] = ()
    """The names that lead to its values: one, or those of a struct column and of fields inside it; none on a side without."""
    after_path: tuple[str, ...] = ()
    changed: int | None = None
    """In how many updated rows its value differs; None in net mode."""
    match_rate: float | None = None
    is_hidden: bool = False
    """Its values are hidden from the reader."""

    def stored(self, side: Literal["a", "b"]) -> str:
        """Return SQL of its values before (`b`) or after (`a`) in rows.parquet."""
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
    columns: tuple[DiffColumn, ...]
    inside: tuple[DiffColumn, ...]
    """Parts of the key that are fields inside a struct column."""
    stored_rows: int
    sight: RowSight
    """What its reader may see."""

    @cached_property
    def types(self) -> dict[str, str]:
        """Columns of rows.parquet, and the SQL of values inside them, with their DuckDB types."""
        return reader.describe(self.rows, [value for part in self.inside for value in _values(part)])

    @property
    def mode(self) -> Literal["identifier", "net"]:
        return "identifier" if self.summary["mode"] == "identifier" else "net"

    @property
    def key_columns(self) -> tuple[DiffColumn, ...]:
        """In the order of the rules, as stored in `k0`, `k1`, …"""
        by_name = {column.name: column for column in (*self.columns, *self.inside)}
        return tuple(by_name[name] for name in self.summary.get("key") or ())

    @property
    def shown(self) -> tuple[DiffColumn, ...]:
        """The columns of a page: parts of the key that stand inside others have one of their own."""
        return (*self.inside, *self.columns)

    @property
    def stored_names(self) -> list[str]:
        """The columns of rows.parquet of which rows are shown; values that are hidden stay there."""
        values = (column.stored(side) for column in self.columns if not column.is_hidden for side in SIDES)
        return ["n", "change", "copies", "changed", *(name for name in values if name in self.types)]

    @property
    def masked(self) -> list[str]:
        """The columns whose values are hidden."""
        return [column.name for column in self.columns if column.is_hidden]

    @property
    def rows(self) -> Path:
        """The file of changed rows, one line each in key order, numbered by `n`."""
        return self.folder / "rows.parquet"

    @property
    def rows_stamp(self) -> int:
        """When the rows were written, in nanoseconds since 1970."""
        with reader.naming_damage():
            return os.stat(self.rows, follow_symlinks=False).st_mtime_ns


def read_json(folder: Path, name: str) -> Any:
    """Read a small file of an artifact.

    Raises:
        OSError: it is not there, or no regular file in its folder.
        ValueError: it is no JSON, or too long.

    """
    # the folder itself may be one that the job made, a link for example; the one above is not
    text = read_beneath(folder.parent, f"{folder.name}/{name}", at_most=MAX_MESSAGE_BYTES + 1)
    if len(text) > MAX_MESSAGE_BYTES:
        message = f"{name} is longer than {MAX_MESSAGE_BYTES:,} bytes"
        raise ValueError(message)
    return load_json(text)


def open_artifact(folder: str | Path, sight: RowSight) -> Artifact:
    """Open the artifact of a finished diff for a reader; Gone when its files have been removed."""
    path = Path(folder)
    try:
        stamp = os.stat(path / "summary.json", follow_symlinks=False).st_mtime_ns
    except FileNotFoundError:
        raise Gone("The stored rows of this comparison have been removed. Compute it again.", code="expired") from None
    return _open(path, stamp, sight)


@lru_cache(maxsize=64)
def _open(folder: Path, _stamp: int, sight: RowSight) -> Artifact:
    return read_artifact(folder, sight)


def read_artifact(folder: Path, sight: RowSight) -> Artifact:
    """Open the artifact of a finished diff from its files, not from memory.

    Raises:
        Conflict: a file is damaged.

    """
    with reader.naming_damage():
        summary, schema = read_json(folder, "summary.json"), read_json(folder, "schema.json")
        columns = tuple(_column(raw, summary, sight) for raw in schema["columns"])
        # older artifacts have no such keys
        parts = (raw for raw in schema.get("inside", ()) if raw["name"] in (summary["key"] or ()))
        inside = tuple(_inner(raw, sight) for raw in parts)
        summary = {**summary, "key_trouble": _mask_trouble(summary.get("key_trouble"), sight)}
        return Artifact(folder, summary, schema, columns, inside, int(summary["stored_rows"]), sight)


def _mask_trouble(trouble: Mapping[str, Any] | None, sight: RowSight) -> Mapping[str, Any] | None:
    """Return what is wrong with the key, without hidden values of the keys that are examples of it."""
    if trouble is None or not sight.hidden:
        return trouble
    return {name: _mask_examples(value, sight) for name, value in trouble.items()}


def _mask_examples(side: Any, sight: RowSight) -> Any:
    if not isinstance(side, Mapping) or "examples" not in side:
        return side
    return {**side, "examples": [{**example, "key": sight.mask(example["key"])} for example in side["examples"]]}


def _column(raw: Mapping[str, Any], summary: Mapping[str, Any], sight: RowSight) -> DiffColumn:
    before, after = raw["before"] or {}, raw["after"] or {}
    match: Mapping[str, Any] = next(
        (entry for entry in summary.get("columns", ()) if entry["index"] == raw["index"]), {}
    )
    return DiffColumn(
        index=raw["index"],
        name=raw["name"],
        before_name=before.get("name"),
        before_type=before.get("type"),
        after_name=after.get("name"),
        after_type=after.get("type"),
        is_key=raw["name"] in (summary.get("key") or ()),
        is_ignored=raw["ignored"],
        is_unreadable=raw["unreadable"],
        before_path=(before["name"],) if before else (),
        after_path=(after["name"],) if after else (),
        changed=match.get("changed"),
        match_rate=match.get("match_rate"),
        is_hidden=sight.hides(raw["name"], before.get("name"), after.get("name")),
    )


def _inner(raw: Mapping[str, Any], sight: RowSight) -> DiffColumn:
    before, after = raw["before"] or {}, raw["after"] or {}
    return DiffColumn(
        index=raw["index"],
        name=raw["name"],
        before_name=".".join(before["path"]) if before else None,
        before_type=before.get("type"),
        after_name=".".join(after["path"]) if after else None,
        after_type=after.get("type"),
        is_key=True,
        is_ignored=False,
        is_unreadable=False,
        before_path=tuple(before.get("path", ())),
        after_path=tuple(after.get("path", ())),
        is_hidden=sight.hides(raw["name"], *before.get("path", ())[:1], *after.get("path", ())[:1]),
    )


def _values(inner: DiffColumn) -> list[str]:
    """Return SQL of the values of a field that are stored."""
    before, after = [inner.stored("b")] * bool(inner.before_path), [inner.stored("a")] * bool(inner.after_path)
    return [*before, *after]
