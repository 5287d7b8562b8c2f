"""What changed between two schemas of a table, column by column, and who breaks by it.

Columns match by field id, the rest by name. Each change is labelled: *breaking* where a reader that worked before may
fail or misread, *widening* where a type only got larger, else neither.
"""

from __future__ import annotations

import bisect
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from webapp.catalog.rules.column_types import same_default

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

Kind = Literal[
    "added", "removed", "renamed", "type", "required", "moved", "doc", "default", "initial_default", "identity"
]
Status = Literal["unchanged", "changed", "breaking", "not_compared"]

_WEIGHTS: tuple[Kind, ...] = (
    "added", "removed", "renamed", "type", "initial_default", "required", "identity", "default", "doc", "moved",
)  # fmt: skip
"""What weighs most of several changes of one column comes first."""
_DECIMAL = re.compile(r"^decimal\((\d+),(\d+)\)$")
_WIDENINGS = {
    ("int", "long"),
    ("float", "double"),
    ("date", "timestamp"),
    ("date", "timestamp_ns"),
}


@dataclass(frozen=True)
class ColumnChange:
    """One difference of one column."""

    kind: Kind
    before: str | None
    after: str | None
    sentence: str
    """Who notices, in words. It says nothing of the column's other changes, beside which it stands."""
    destructive: bool = False
    widening: bool = False

    @property
    def what(self) -> str:
        """What differs, as programs call it."""
        return "position" if self.kind == "moved" else self.kind


@dataclass(frozen=True)
class ColumnDiff:
    """One column or nested field at both ends."""

    path: str
    """Its full name, nested names joined by dots; the new name where it was renamed."""
    name: str
    depth: int
    field_id: int
    before_type: str | None
    after_type: str | None
    before_required: bool | None
    after_required: bool | None
    doc: str
    changes: tuple[ColumnChange, ...] = ()

    @property
    def state(self) -> Literal["added", "removed", "modified", "unchanged"]:
        kinds = {change.kind for change in self.changes}
        if "added" in kinds:
            return "added"
        if "removed" in kinds:
            return "removed"
        return "modified" if kinds else "unchanged"

    @property
    def is_breaking(self) -> bool:
        return any(change.destructive for change in self.changes)

    @property
    def is_widening(self) -> bool:
        return any(change.widening for change in self.changes) and not self.is_breaking

    @property
    def renaming(self) -> ColumnChange | None:
        return next((change for change in self.changes if change.kind == "renamed"), None)

    @property
    def old_path(self) -> str:
        """Its full name before it was renamed."""
        outer = self.path.removesuffix(self.name)
        return f"{outer}{self.renaming.before}" if self.renaming is not None else self.path

    @property
    def weightiest(self) -> ColumnChange:
        """What weighs most of its changes."""
        return min(self.changes, key=lambda change: _WEIGHTS.index(change.kind))

    @property
    def what(self) -> list[str]:
        """What differs, as programs call it; a new name goes without saying where the column was renamed."""
        return [change.what for change in self.changes if change.kind != "renamed"]

    @property
    def sentence(self) -> str:
        """Who notices any of its changes."""
        return " ".join(change.sentence for change in self.changes)


@dataclass(frozen=True)
class LayoutDiff:
    """The partition spec or sort order at both ends, as text."""

    before: str | None
    after: str | None

    @property
    def is_changed(self) -> bool:
        return None not in (self.before, self.after) and self.before != self.after


@dataclass(frozen=True)
class SchemaDiff:
    """Everything that differs between two schemas, with the columns in the new order (removed ones after their neighbour)."""

    columns: tuple[ColumnDiff, ...]
    partition_spec: LayoutDiff
    sort_order: LayoutDiff
    is_new: bool = False
    """The dataset exists only on the new side."""

    @property
    def changed(self) -> tuple[ColumnDiff, ...]:
        return tuple(column for column in self.columns if column.changes)

    @property
    def added(self) -> tuple[ColumnDiff, ...]:
        return tuple(column for column in self.columns if column.state == "added")

    @property
    def removed(self) -> tuple[ColumnDiff, ...]:
        return tuple(column for column in self.columns if column.state == "removed")

    @property
    def modified(self) -> tuple[ColumnDiff, ...]:
        return tuple(column for column in self.columns if column.state == "modified")

    @property
    def renamed(self) -> tuple[ColumnDiff, ...]:
        """Of the modified ones those that have another name."""
        return tuple(column for column in self.modified if column.renaming is not None)

    @property
    def not_renamed(self) -> tuple[ColumnDiff, ...]:
        """The other modified ones."""
        return tuple(column for column in self.modified if column.renaming is None)

    @property
    def gone(self) -> tuple[str, ...]:
        """The full names that only the old side has, by removal or by renaming; of a nested column its outermost."""
        after = {column.path for column in self.columns if column.after_type is not None}
        gone: dict[str, None] = {}
        for column in self.columns:
            path = column.old_path
            is_inside = any(path.startswith(f"{outer}.") for outer in gone)
            if column.before_type is not None and path not in after and not is_inside:
                gone[path] = None
        return tuple(gone)

    @property
    def breaking(self) -> int:
        """How many columns change in a way that breaks somebody."""
        return sum(column.is_breaking for column in self.columns)

    @property
    def count(self) -> int:
        """Changed columns, and the layout changes beside them."""
        return len(self.changed) + self.partition_spec.is_changed + self.sort_order.is_changed

    @property
    def status(self) -> Status:
        if self.breaking:
            return "breaking"
        return "changed" if self.count else "unchanged"


def diff_schemas(
    before: Mapping[str, Any] | None,
    after: Mapping[str, Any] | None,
    *,
    before_spec: Mapping[str, Any] | None = None,
    after_spec: Mapping[str, Any] | None = None,
    before_order: Mapping[str, Any] | None = None,
    after_order: Mapping[str, Any] | None = None,
) -> SchemaDiff:
    """Compare two schemas in Iceberg's JSON. A side that is None does not exist."""
    old = list(before["fields"]) if before is not None else []
    new = list(after["fields"]) if after is not None else []
    return SchemaDiff(
        columns=tuple(_diff_fields(old, new, prefix="", depth=0)),
        partition_spec=LayoutDiff(_spec_text(before_spec, before), _spec_text(after_spec, after)),
        sort_order=LayoutDiff(_order_text(before_order, before), _order_text(after_order, after)),
        is_new=before is None and after is not None,
    )


def diff_artifact(schema: Mapping[str, Any]) -> SchemaDiff:
    """Compare the two ends that an artifact's schema.json describes."""
    sides = [schema.get(name) or {} for name in ("before", "after")]
    return diff_schemas(
        sides[0].get("schema"),
        sides[1].get("schema"),
        before_spec=sides[0].get("partition_spec"),
        after_spec=sides[1].get("partition_spec"),
        before_order=sides[0].get("sort_order"),
        after_order=sides[1].get("sort_order"),
    )


# --- matching -------------------------------------------------------------------------------------


def _diff_fields(
    old: Sequence[Mapping[str, Any]], new: Sequence[Mapping[str, Any]], *, prefix: str, depth: int
) -> Iterator[ColumnDiff]:
    partners = _match(old, new)
    moved = _moved([partners.get(index) for index in range(len(new))])
    matched = set(partners.values())
    after_place: dict[int, list[int]] = {}
    for index in range(len(old)):
        if index not in matched:
            # a removed column is shown behind the column that stood before it
            anchor = next((i for i in range(index - 1, -1, -1) if i in matched), -1)
            after_place.setdefault(anchor, []).append(index)
    yield from _gone(old, after_place.get(-1, ()), prefix, depth)
    for index, column in enumerate(new):
        partner = partners.get(index)
        if partner is None:
            yield from _one_sided(column, prefix, depth, kind="added")
            continue
        yield from _diff_field(old[partner], column, prefix=prefix, depth=depth, is_moved=index in moved)
        yield from _gone(old, after_place.get(partner, ()), prefix, depth)


def _match(old: Sequence[Mapping[str, Any]], new: Sequence[Mapping[str, Any]]) -> dict[int, int]:
    """Match new positions to old ones: by field id, then by name among the rest."""
    by_id = {column["id"]: index for index, column in enumerate(old)}
    partners = {index: by_id[column["id"]] for index, column in enumerate(new) if column["id"] in by_id}
    taken = set(partners.values())
    by_name = {column["name"]: index for index, column in enumerate(old) if index not in taken}
    for index, column in enumerate(new):
        if index not in partners and column["name"] in by_name:
            partners[index] = by_name.pop(column["name"])
    return partners


def _moved(order: Sequence[int | None]) -> set[int]:
    """Return the fewest positions that have to move: all but a longest run that kept its order."""
    tails: list[int] = []
    tail_at: list[int] = []
    previous: dict[int, int | None] = {}
    for index, place in enumerate(order):
        if place is None:
            continue
        at = bisect.bisect_left(tails, place)
        previous[index] = tail_at[at - 1] if at else None
        tails[at : at + 1] = [place]
        tail_at[at : at + 1] = [index]
    run: set[int] = set()
    walk: int | None = tail_at[-1] if tail_at else None
    while walk is not None:
        run.add(walk)
        walk = previous[walk]
    return {index for index, place in enumerate(order) if place is not None} - run


def _gone(old: Sequence[Mapping[str, Any]], places: Sequence[int], prefix: str, depth: int) -> Iterator[ColumnDiff]:
    for place in places:
        yield from _one_sided(old[place], prefix, depth, kind="removed")


def _one_sided(
    column: Mapping[str, Any], prefix: str, depth: int, *, kind: Literal["added", "removed"]
) -> Iterator[ColumnDiff]:
    path, type_ = prefix + column["name"], type_text(column["type"])
    required = bool(column.get("required"))
    if kind == "added":
        change = ColumnChange(
            "added", None, type_, _added_sentence(path, required=required, default=column.get("initial-default"))
        )
    else:
        sentence = f"Readers that name {path} fail; its values stay in older snapshots only."
        change = ColumnChange("removed", type_, None, sentence, destructive=True)
    yield ColumnDiff(
        path=path,
        name=column["name"],
        depth=depth,
        field_id=int(column["id"]),
        before_type=type_ if kind == "removed" else None,
        after_type=type_ if kind == "added" else None,
        before_required=required if kind == "removed" else None,
        after_required=required if kind == "added" else None,
        doc=column.get("doc") or "",
        changes=(change,),
    )


def _added_sentence(path: str, *, required: bool, default: object) -> str:
    if default is not None:
        # The column can be hidden from the reader, and the default is the value of older rows.
        return f"Nobody breaks: older rows read its default in {path}."
    if required:
        return f"Readers are safe; whoever writes to the table must now fill {path}."
    return f"Nobody breaks by name: older rows read NULL in {path}. Only readers that count columns notice."


# --- one column -----------------------------------------------------------------------------------


def _diff_field(
    old: Mapping[str, Any], new: Mapping[str, Any], *, prefix: str, depth: int, is_moved: bool
) -> Iterator[ColumnDiff]:
    path = prefix + new["name"]
    nested = _nested(old["type"], new["type"])
    changes = [*_name_changes(old, new, prefix), *_type_changes(old, new, path, nested=nested is not None)]
    changes += [*_default_changes(old, new, path), *_required_changes(old, new, path)]
    if is_moved:
        changes.append(
            ColumnChange(
                "moved", None, None, f"{path} stands in another place, which only readers that count columns notice."
            )
        )
    changes += _text_changes(old, new, path)
    yield ColumnDiff(
        path=path,
        name=new["name"],
        depth=depth,
        field_id=int(new["id"]),
        before_type=type_text(old["type"]),
        after_type=type_text(new["type"]),
        before_required=bool(old.get("required")),
        after_required=bool(new.get("required")),
        doc=new.get("doc") or "",
        changes=tuple(changes),
    )
    if nested is not None:
        yield from _diff_fields(nested[0], nested[1], prefix=f"{path}.", depth=depth + 1)


def _name_changes(old: Mapping[str, Any], new: Mapping[str, Any], prefix: str) -> Iterator[ColumnChange]:
    if old["name"] != new["name"]:
        sentence = f"Readers that name {prefix}{old['name']} fail; the values are the same column's."
        yield ColumnChange("renamed", old["name"], new["name"], sentence, destructive=True)
    if old["id"] != new["id"]:
        sentence = (
            f"{prefix}{new['name']} is a new column of the same name: values of the older one are not seen through it."
        )
        if type_text(old["type"]) == type_text(new["type"]):
            sentence += " Readers by name still find it."
        yield ColumnChange("identity", f"field {old['id']}", f"field {new['id']}", sentence)


def _type_changes(old: Mapping[str, Any], new: Mapping[str, Any], path: str, *, nested: bool) -> Iterator[ColumnChange]:
    before, after = type_text(old["type"]), type_text(new["type"])
    if before == after or nested:
        return
    if _is_widening(before, after):
        sentence = f"Programs that hold {path} as {before} may overflow."
        if old["id"] == new["id"]:
            sentence = f"Nobody loses values: every {before} is a {after}. {sentence}"
        yield ColumnChange("type", before, after, sentence, widening=True)
        return
    sentence = f"Readers that expect {before} in {path} get {after} and may fail or misread."
    yield ColumnChange("type", before, after, sentence, destructive=True)


def _required_changes(old: Mapping[str, Any], new: Mapping[str, Any], path: str) -> Iterator[ColumnChange]:
    before, after = bool(old.get("required")), bool(new.get("required"))
    if before and not after:
        yield ColumnChange(
            "required", "required", "optional", f"Readers of {path} may now meet NULL.", destructive=True
        )
    elif after and not before:
        yield ColumnChange(
            "required", "optional", "required", f"Whoever writes NULL into {path} now fails; no reader meets it."
        )


def _text_changes(old: Mapping[str, Any], new: Mapping[str, Any], path: str) -> Iterator[ColumnChange]:
    if (old.get("doc") or "") != (new.get("doc") or ""):
        yield ColumnChange("doc", old.get("doc") or "", new.get("doc") or "", f"The description of {path} changed.")
    if not _same_default(old, new, "write-default"):
        sentence = "Writers that leave the column out now write another value; stored rows keep theirs."
        yield ColumnChange("default", None, None, sentence)


def _default_changes(old: Mapping[str, Any], new: Mapping[str, Any], path: str) -> Iterator[ColumnChange]:
    if old["id"] == new["id"] and not _same_default(old, new, "initial-default"):
        # The values stay out of it: the column can be hidden from the reader.
        sentence = f"Rows that are older than {path} read another default in it."
        yield ColumnChange("initial_default", None, None, sentence, destructive=True)


def _same_default(old: Mapping[str, Any], new: Mapping[str, Any], key: str) -> bool:
    return same_default(new["type"], new.get(key), old["type"], old.get(key))


def _nested(old: Any, new: Any) -> tuple[list[dict[str, Any]], list[dict[str, Any]]] | None:
    """Return the parts of two nested types of one kind, which are then compared one by one."""
    if not isinstance(old, dict) or not isinstance(new, dict) or old.get("type") != new.get("type"):
        return None
    return _parts(old), _parts(new)


def _parts(type_: Mapping[str, Any]) -> list[dict[str, Any]]:
    if type_["type"] == "struct":
        return list(type_["fields"])
    if type_["type"] == "list":
        return [_part(type_, "element", required=bool(type_.get("element-required")))]
    return [_part(type_, "key", required=True), _part(type_, "value", required=bool(type_.get("value-required")))]


def _part(type_: Mapping[str, Any], name: str, *, required: bool) -> dict[str, Any]:
    return {"id": type_[f"{name}-id"], "name": name, "type": type_[name], "required": required}


def _is_widening(before: str, after: str) -> bool:
    if (before, after) in _WIDENINGS:
        return True
    old, new = _DECIMAL.match(before), _DECIMAL.match(after)
    return old is not None and new is not None and old[2] == new[2] and int(old[1]) < int(new[1])


def type_text(type_: Any) -> str:
    """Write a type in Iceberg's JSON as people do."""
    if isinstance(type_, str):
        return type_.replace(" ", "")
    if type_["type"] == "list":
        return f"list<{type_text(type_['element'])}>"
    if type_["type"] == "map":
        return f"map<{type_text(type_['key'])}, {type_text(type_['value'])}>"
    return "struct<" + ", ".join(f"{part['name']}: {type_text(part['type'])}" for part in type_["fields"]) + ">"


# --- layout ---------------------------------------------------------------------------------------


def _names(schema: Mapping[str, Any] | None) -> dict[int, str]:
    return dict(_walk(schema["fields"], "")) if schema is not None else {}


def _walk(fields: Sequence[Mapping[str, Any]], prefix: str) -> Iterator[tuple[int, str]]:
    for column in fields:
        yield int(column["id"]), prefix + column["name"]
        if isinstance(column["type"], dict):
            yield from _walk(_parts(column["type"]), f"{prefix}{column['name']}.")


def _source(part: Mapping[str, Any], names: Mapping[int, str]) -> str:
    sources = part.get("source-ids") or [part["source-id"]]
    return ", ".join(names.get(int(source), f"field {source}") for source in sources)


def _spec_text(spec: Mapping[str, Any] | None, schema: Mapping[str, Any] | None) -> str | None:
    if schema is None or spec is None:
        return None
    names = _names(schema)
    parts = [f"{part['transform']}({_source(part, names)})" for part in spec["fields"] if part["transform"] != "void"]
    return ", ".join(parts) or "unpartitioned"


def _order_text(order: Mapping[str, Any] | None, schema: Mapping[str, Any] | None) -> str | None:
    if schema is None or order is None:
        return None
    names = _names(schema)
    parts = []
    for part in order["fields"]:
        source = _source(part, names)
        what = source if part["transform"] == "identity" else f"{part['transform']}({source})"
        parts.append(f"{what} {part['direction']} {part['null-order']}")
    return ", ".join(parts) or "unsorted"
