"""A branch is never set to a snapshot with files that the branch's schema cannot read.

Refs are the table's, schemas are the branch's: a client may point a branch whose column is an int at files in which another
branch has made it a long, and nobody could read the branch any more. Metadata does not say what a file holds, but each
snapshot says by which schema it was written and how many files it added.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from webapp.catalog.rules import lens
from webapp.catalog.rules.branch_properties import branch_of_ref, tracked_ids
from webapp.catalog.rules.column_types import can_read
from webapp.catalog.rules.errors import Invalid
from webapp.catalog.rules.iceberg import Metadata, Schema, SchemaField
from webapp.catalog.rules.metadata import current_ids, find, schema_of, walk_back, walk_fields
from webapp.catalog.rules.pointers import BranchState
from webapp.core.numbers import read_count


def check_moved(before: Metadata, after: Metadata, *, chain: Iterable[str]) -> None:
    """Refuse metadata in which a commit has set a branch to files that it cannot read.

    `chain` is whose state a branch begins with that is not there yet. Only what the commit brings to a branch is judged:
    what it held before stays, whatever its history. A change of schema alone is left to the rules of the clients, as
    standard Iceberg leaves it.
    """
    for name, ref in after["refs"].items():
        head = ref["snapshot-id"]
        if ref["type"] != "branch" or head == _head(before, name):
            continue
        branch = branch_of_ref(name)
        source = lens.resolve(before, branch, chain)
        stood = None if source is None else source[1]
        if stood is None or stood.head != head:
            _check_readable(after, branch, head, stood)


def _head(metadata: Metadata, name: str) -> int | None:
    ref = metadata["refs"].get(name)
    return None if ref is None else ref["snapshot-id"]


def _check_readable(metadata: Metadata, branch: str, head: int, stood: BranchState | None) -> None:
    main = current_ids(metadata)
    ids = tracked_ids(metadata["properties"], branch, default=main) or main
    schema = schema_of(metadata, ids.schema_id)
    checked = stood.head if stood is not None and stood.ids.schema_id == ids.schema_id else None
    for written in _schemas_of_files(metadata, head, checked, but=ids.schema_id):
        problem = next(_problems(schema, written), None)
        if problem is not None:
            message = (
                f"Branch {branch} cannot be set to snapshot {head}: column {problem} in the snapshot's files. "
                "Change the column on the branch first, or in the same commit."
            )
            raise Invalid(message)


def _schemas_of_files(metadata: Metadata, head: int, checked: int | None, *, but: int) -> Iterator[Schema]:
    """Yield the schemas that may have written files of a snapshot; neither `but` nor those of a known snapshot."""
    judged = {but}
    for snapshot in walk_back(metadata["snapshots"], head):
        if snapshot["snapshot-id"] == checked:
            return
        summary = snapshot.get("summary", {})
        added = read_count(summary.get("added-data-files", "0"))
        total = read_count(summary.get("total-data-files", ""))
        number = snapshot.get("schema-id")
        if number is not None and number not in judged and (added != 0 or total is None):
            judged.add(number)
            schema = find(metadata["schemas"], "schema-id", number)
            if schema is not None:
                yield schema
        if total is not None and added == total:
            return  # it has replaced all that was there


def _problems(schema: Schema, written: Schema) -> Iterator[str]:
    """Yield why a schema cannot read what another one wrote."""
    kinds = {number: kind for number, _, kind in walk_fields(written)}
    for number, name, kind in walk_fields(schema):
        if number in kinds and not can_read(kind, kinds[number]):
            yield f"{name} is {_short(kind)} on the branch and {_short(kinds[number])}"
    for name in _missing(schema["fields"], kinds.keys()):
        yield f"{name} is required on the branch and missing"


def _missing(fields: Iterable[SchemaField], ids: Iterable[int], path: str = "") -> Iterator[str]:
    """Yield the required columns that nothing stands for: neither a column of the files nor a default."""
    for item in fields:
        name = f"{path}{item['name']}"
        if item["id"] not in ids:
            if item["required"] and item.get("initial-default") is None:
                yield name
        elif isinstance(item["type"], dict) and item["type"]["type"] == "struct":
            yield from _missing(item["type"]["fields"], ids, f"{name}.")


def _short(kind: Any) -> str:
    return kind if isinstance(kind, str) else str(kind["type"])
