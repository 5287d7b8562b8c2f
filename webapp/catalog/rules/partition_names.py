"""The names of partition fields as a branch is shown them.

A table has one list of partition specs for all its branches, and a client binds the whole list to the one schema that it reads.
Java and PyIceberg give up where a partition field is called like a column that it is not made of, while they read as well as
while they add such a column. So a branch is shown the names of its own specs, and the fields of others under names that no
column has. Only names differ: ids, sources and transforms, by which files are read, are those that are stored.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from webapp.catalog.rules.branch_properties import tracked_branches
from webapp.catalog.rules.iceberg import Metadata, PartitionField, PartitionSpec
from webapp.catalog.rules.metadata import EMPTY_SPEC, find, schema_of, walk_fields


def show_partition_names(view: Metadata) -> Metadata:
    """Return the view of a branch with names that its readers can bind; the same object if they are the stored ones."""
    names = _shown_names(view)
    specs = [_renamed(spec, names) for spec in view["partition-specs"]]
    return view if specs == view["partition-specs"] else {**view, "partition-specs": specs}


def store_partition_names(updates: Iterable[dict[str, Any]], view: Metadata) -> list[dict[str, Any]]:
    """Return the updates with the stored names in a spec made of fields that the branch was shown under other names."""
    names = _shown_names(view)
    stored = {item["field-id"]: item["name"] for spec in view["partition-specs"] for item in spec["fields"]}
    columns = _columns(view)
    original = {
        (number, name): stored[number]
        for number, name in names.items()
        if name != stored[number] and stored[number] not in columns
    }
    return [_with_stored_names(update, original) for update in updates]


def settle_partition_names(metadata: Metadata) -> Metadata:
    """Let fields of former specs give way to columns in a table without branches; the same object if none has to.

    Such a table is shown as it is stored, so what gives way does so for good.
    """
    if tracked_branches(metadata["properties"]):
        return metadata
    columns = _columns(metadata)
    default_ids = {item["field-id"] for item in _default_spec(metadata)["fields"]}
    stored = {item["field-id"]: item["name"] for spec in metadata["partition-specs"] for item in spec["fields"]}
    clashing = {
        item["field-id"]
        for spec in metadata["partition-specs"]
        for item in spec["fields"]
        if item["field-id"] not in default_ids and _clashes(item, item["name"], columns)
    }
    if not clashing:
        return metadata
    taken = {*columns, *stored.values()}
    names = {number: _find_free(f"{stored[number]}_{number}", taken) for number in clashing}
    return {**metadata, "partition-specs": [_renamed(spec, names) for spec in metadata["partition-specs"]]}


def find_clash(view: Metadata) -> str | None:
    """Find the name of a partition field that a reader of this view would take for a column that it is not made of."""
    columns = _columns(view)
    fields = (item for spec in show_partition_names(view)["partition-specs"] for item in spec["fields"])
    return next((item["name"] for item in fields if _clashes(item, item["name"], columns)), None)


def _shown_names(view: Metadata) -> dict[int, str]:
    """Return the shown name of every partition field by its id; empty where the stored ones are shown."""
    if not any(spec["fields"] for spec in view["partition-specs"]) or not tracked_branches(view["properties"]):
        return {}
    columns = _columns(view)
    names: dict[int, str] = {}
    taken: set[str] = set()
    for item, is_own in _by_nearness(view):
        number, name = item["field-id"], item["name"]
        if number in names:
            continue
        if not is_own or name in taken or _clashes(item, name, columns):
            name = _find_free(f"{name}_{number}", {*taken, *columns})
        names[number] = name
        taken.add(name)
    # The branch's own clients have made its spec, and know its fields by these names.
    return names | {item["field-id"]: item["name"] for item in _default_spec(view)["fields"]}


def _by_nearness(view: Metadata) -> Iterator[tuple[PartitionField, bool]]:
    """Yield the partition fields of all specs, the branch's own first, and whether they can be its own.

    A spec that is younger than the branch's was made by another branch, unless this one has gone back to an older spec.
    So was one that is older than the spec that master began with, where a branch made the table.
    """
    default, first = view["default-spec-id"], _first_spec_of_master(view)
    older = sorted((spec for spec in view["partition-specs"] if spec["spec-id"] <= default), key=_number, reverse=True)
    younger = sorted((spec for spec in view["partition-specs"] if spec["spec-id"] > default), key=_number)
    for spec in (*older, *younger):
        for item in spec["fields"]:
            yield item, spec["spec-id"] <= default and (default < first or spec["spec-id"] >= first)


def _first_spec_of_master(view: Metadata) -> int:
    """Return master's first spec: where a branch made the table, one without fields, beside an empty schema."""
    is_made_on_branch = any(not schema["fields"] for schema in view["schemas"])
    blank = (spec["spec-id"] for spec in view["partition-specs"] if not spec["fields"])
    return next(blank, 0) if is_made_on_branch else 0


def _number(spec: PartitionSpec) -> int:
    return spec["spec-id"]


def _default_spec(view: Metadata) -> PartitionSpec:
    return find(view["partition-specs"], "spec-id", view["default-spec-id"]) or EMPTY_SPEC


def _columns(view: Metadata) -> dict[str, int]:
    return {name: number for number, name, _kind in walk_fields(schema_of(view, view["current-schema-id"]))}


def _clashes(item: PartitionField, name: str, columns: Mapping[str, int]) -> bool:
    number = columns.get(name)
    return number is not None and number not in (item.get("source-ids") or (item.get("source-id"),))


def _find_free(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    return name


def _renamed(spec: PartitionSpec, names: Mapping[int, str]) -> PartitionSpec:
    return {**spec, "fields": [{**item, "name": names.get(item["field-id"], item["name"])} for item in spec["fields"]]}


def _with_stored_names(update: dict[str, Any], original: Mapping[tuple[int, str], str]) -> dict[str, Any]:
    spec = update.get("spec")
    if update.get("action") != "add-spec" or not isinstance(spec, dict) or not isinstance(spec.get("fields"), list):
        return update
    fields = [_with_stored_name(item, original) for item in spec["fields"]]
    names = [str(item.get("name")) for item in fields if isinstance(item, dict)]
    return {**update, "spec": {**spec, "fields": fields}} if len(set(names)) == len(names) else update


def _with_stored_name(item: Any, original: Mapping[tuple[int, str], str]) -> Any:
    number, name = (item.get("field-id"), item.get("name")) if isinstance(item, dict) else (None, None)
    if not isinstance(number, int) or not isinstance(name, str) or (number, name) not in original:
        return item
    return {**item, "name": original[number, name]}
