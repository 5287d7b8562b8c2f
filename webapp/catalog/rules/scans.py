"""A scan as a client asks for it, and which snapshots and schema that means in what the client sees of the table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from webapp.catalog.rules.errors import IllegalArgument, Malformed
from webapp.catalog.rules.iceberg import Metadata, Snapshot
from webapp.catalog.rules.metadata import ancestry, current_snapshot_id, optional_field, schema_of, snapshot_of


@dataclass(frozen=True, slots=True)
class ScanRequest:
    """What a client sends to have a scan planned."""

    snapshot_id: int | None = None
    start_id: int | None = None
    end_id: int | None = None
    filter: Any = True
    case_sensitive: bool = True
    use_snapshot_schema: bool = False
    stats_fields: tuple[str, ...] = ()
    min_rows: int | None = None

    @classmethod
    def parse(cls, body: dict[str, Any]) -> ScanRequest:
        """Read the request from a JSON body. `select` is checked, but has no part in choosing files."""
        _names(body, "select")
        request = cls(
            snapshot_id=optional_field(body, "snapshot-id", int),
            start_id=optional_field(body, "start-snapshot-id", int),
            end_id=optional_field(body, "end-snapshot-id", int),
            filter=True if body.get("filter") is None else body["filter"],
            case_sensitive=_flag(body, "case-sensitive", default=True),
            use_snapshot_schema=_flag(body, "use-snapshot-schema", default=False),
            stats_fields=_names(body, "stats-fields"),
            min_rows=optional_field(body, "min-rows-requested", int),
        )
        if (request.start_id is None) != (request.end_id is None):
            message = "Invalid scan: start-snapshot-id and end-snapshot-id belong together"
            raise IllegalArgument(message)
        if request.snapshot_id is not None and request.end_id is not None:
            message = (
                "Invalid scan: snapshot-id is for a point in time, start- and end-snapshot-id for an incremental scan"
            )
            raise IllegalArgument(message)
        return request

    @property
    def body(self) -> dict[str, Any]:
        """The parts by which files are chosen, in the form that `parse` takes."""
        return {
            "filter": self.filter,
            "case-sensitive": self.case_sensitive,
            "stats-fields": list(self.stats_fields),
            "min-rows-requested": self.min_rows,
        }


@dataclass(frozen=True, slots=True)
class ScanTarget:
    """What a scan reads: the live files of one snapshot, or the files that several snapshots appended."""

    snapshot_ids: tuple[int, ...]
    schema_id: int
    is_incremental: bool = False


def find_target(view: Metadata, request: ScanRequest) -> ScanTarget:
    """Find the snapshots and the schema that a request means; no snapshot where the table is empty."""
    if request.start_id is not None and request.end_id is not None:
        return _incremental(view, request, start=request.start_id, end=request.end_id)
    number = request.snapshot_id if request.snapshot_id is not None else current_snapshot_id(view)
    if number is None:
        return ScanTarget((), view["current-schema-id"])
    snapshot = _snapshot(view, number)
    return ScanTarget((number,), _schema_id(view, request, snapshot))


def _incremental(view: Metadata, request: ScanRequest, *, start: int, end: int) -> ScanTarget:
    last = _snapshot(view, end)
    line = [snapshot["snapshot-id"] for snapshot in ancestry(view, end)]
    oldest_parent = _snapshot(view, line[0]).get("parent-snapshot-id")
    if start not in line and start != oldest_parent:
        message = f"Invalid scan: snapshot {start} is not an ancestor of snapshot {end}"
        raise IllegalArgument(message)
    since = line[line.index(start) + 1 :] if start in line else line
    appended = tuple(number for number in since if _operation(view, number) == "append")
    return ScanTarget(appended, _schema_id(view, request, last), is_incremental=True)


def _operation(view: Metadata, number: int) -> str:
    return str((_snapshot(view, number).get("summary") or {}).get("operation", ""))


def _schema_id(view: Metadata, request: ScanRequest, snapshot: Snapshot) -> int:
    number = snapshot.get("schema-id")
    if not request.use_snapshot_schema or number is None:
        return view["current-schema-id"]
    return schema_of(view, number)["schema-id"]


def _snapshot(view: Metadata, number: int) -> Snapshot:
    snapshot = snapshot_of(view, number)
    if snapshot is None:
        message = f"Cannot find snapshot with ID {number}"
        raise IllegalArgument(message)
    return snapshot


def _flag(body: dict[str, Any], key: str, *, default: bool) -> bool:
    flag = optional_field(body, key, bool)
    return default if flag is None else flag


def _names(body: dict[str, Any], key: str) -> tuple[str, ...]:
    names = optional_field(body, key, list) or []
    if not all(name is None or isinstance(name, str) for name in names):
        message = f"Cannot parse request: '{key}' must be a list of names"
        raise Malformed(message)
    return tuple(name for name in names if name is not None)
