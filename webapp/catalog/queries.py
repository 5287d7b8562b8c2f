"""Read tables through the lens: what a branch sees, where it points, what is there."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from typing import Any

from django.db.models import Q, QuerySet

from webapp.accounts.permissions import list_sensitive_to_code
from webapp.catalog import permissions, ports
from webapp.catalog.models import Namespace, Table, View
from webapp.catalog.rules import lens
from webapp.catalog.rules.access import Access
from webapp.catalog.rules.branch_properties import MASTER, PREFIX, TrackedIds
from webapp.catalog.rules.errors import Forbidden, NoSuchTable, SnapshotGone
from webapp.catalog.rules.iceberg import Metadata
from webapp.catalog.rules.metadata import not_after, schema_of, snapshot_of, with_legacy_fields
from webapp.catalog.rules.partition_names import show_partition_names
from webapp.catalog.rules.pointers import BranchState, Pointer
from webapp.catalog.rules.readable import MINUTE_MS
from webapp.catalog.rules.refs import SEPARATOR, Levels, TableRef, is_internal, table_ref
from webapp.catalog.storage import credentials, metadata_files, rendered
from webapp.catalog.storage.local_files import local_path
from webapp.catalog.storage.metadata_files import MetadataFile
from webapp.core import json_bytes
from webapp.core.errors import Unavailable
from webapp.core.json_members import Pieces
from webapp.core.names import table_name
from webapp.core.prepared import Prepared
from webapp.core.principals import JobScope, Principal
from webapp.runtime.object_store import is_object_location, measure_objects
from webapp.runtime.room import measure_folder

__all__ = ["Pointer", "TableRow", "TableView"]
PLAIN = "plain"
"""The view that is the stored metadata itself."""
_TABLES = Prepared(
    lambda path, name: Table.objects.filter(namespace__path=path, name=name).values_list(
        "id", "metadata_location", "version", "location", "uuid"
    ),
    str,
    str,
)


@dataclass(frozen=True, slots=True)
class TableRow:
    """A table's row: the pointer, and the version by which it is swapped."""

    id: int
    metadata_location: str
    version: int
    location: str
    uuid: str
    """Empty in a row of an earlier release, until the next commit."""


@dataclass(frozen=True)
class TableView:
    """A table as one branch sees it, worked out on first need."""

    show: Callable[[], Metadata]
    file: MetadataFile | None = None
    """What it is a view of; a table that is only staged has none."""
    key: str = PLAIN
    """Names this view among those of its file."""

    @cached_property
    def metadata(self) -> Metadata:
        """What is seen. Shared: never change it in place."""
        return self.show()

    @property
    def metadata_location(self) -> str | None:
        """Where the stored metadata is."""
        return None if self.file is None else self.file.location

    @property
    def location(self) -> str:
        """The folder of the table's files, which is the same in every view."""
        location: str = (self.metadata if self.file is None else self.file.metadata)["location"]
        return location


@dataclass(frozen=True, slots=True)
class ViewRow:
    """A view's row."""

    id: int
    metadata_location: str
    version: int
    location: str
    uuid: str


@dataclass(frozen=True, slots=True)
class ViewView:
    """A view in Iceberg's sense."""

    metadata: dict[str, Any]
    metadata_location: str


def load_view(*, table: str, branch: str, chain: Iterable[str] = ()) -> TableView:
    """Return the table as a branch sees it, for the application itself, by `chain` while the branch has nothing here.

    Raises:
        NoSuchTable: there is no such table.

    """
    file = get_file(table=table)
    return _plain_view(file) if branch == MASTER else _branch_view(file, branch, tuple(chain))


def branch_pointer(*, table: str, branch: str) -> Pointer | None:
    """Return where a branch itself points; None when it has neither a ref nor tracked ids on this table."""
    return lens.pointer(get_metadata(table=table), branch)


def get_metadata(*, table: str) -> Metadata:
    """Return the stored metadata, all branches in it. Shared: never change it in place."""
    return get_file(table=table).metadata


def list_dropped_columns(*, path: str) -> frozenset[str]:
    """Return every name of the columns that a dataset had once, or has on another branch, and that master lacks."""
    try:
        metadata = get_metadata(table=table_name(path))
    except NoSuchTable:
        return frozenset()
    live = {field["id"] for field in schema_of(metadata, metadata["current-schema-id"])["fields"]}
    return frozenset(
        field["name"] for schema in metadata["schemas"] for field in schema["fields"] if field["id"] not in live
    )


def get_file(*, table: str) -> MetadataFile:
    """Return the table's current metadata file."""
    return metadata_files.read(_get(table_ref(table)))


def measure_namespace(*, namespace: str) -> int:
    """Return the bytes of all files in the tables of a top namespace, and of those below it, wherever they lie.

    Raises:
        Unavailable: the object store does not answer.

    """
    here = Q(namespace__path=namespace) | Q(namespace__path__startswith=f"{namespace}{SEPARATOR}")
    return sum(map(_measure, Table.objects.filter(here).values_list("location", flat=True)))


def _measure(location: str) -> int:
    return measure_objects(location) if is_object_location(location) else measure_folder(local_path(location))


def file_properties(*, table: str, who: str) -> dict[str, str]:
    """Return what a process of others needs to read a table's files; nothing for files of this machine.

    Raises:
        Unavailable: there are no keys to give.

    """
    location = get_location(table=table)
    if not is_object_location(location):
        return {}
    keys = credentials.give_keys(location=location, access=Access.READ, who=who)
    if keys is None:
        message = "This installation gives out no keys to its object store: set TRIBUTARY_S3_ROLE"
        raise Unavailable(message)
    return dict(keys.config)


def get_location(*, table: str) -> str:
    """Return the folder of a table's files, whether its metadata can be read or not."""
    return _get(table_ref(table)).location


def table_exists(*, table: str) -> bool:
    """Return whether there is a table of this name."""
    return find_table(table_ref(table)) is not None


def find_table(ref: TableRef) -> TableRow | None:
    """Return the row of a table of exactly this name."""
    row = _TABLES.first(SEPARATOR.join(ref.namespace), ref.name)
    return None if row is None else TableRow(*row)


def locate(ref: TableRef, *, by: Principal | None) -> tuple[TableRef, TableRow]:
    """Find the table that a request means: one of that name, else with a header `branch_x` of the table before it.

    Raises:
        NoSuchTable: neither is there for this reader.

    """
    row = find_table(ref)
    if row is not None:
        permissions.check_read(by, ref)
        _check_internal(ref, by)
        return ref, row
    other = ref.qualified()
    if other is not None:
        row = find_table(other)
    if other is None or row is None:
        raise permissions.no_such_table(ref)
    permissions.check_read(by, other)
    _check_internal(other, by)
    if other.branch in (ref.branch, MASTER):
        return other, row
    metadata = metadata_files.read(row).metadata
    # A branch that nobody knows gets a 404, and the client says in its own words that there is no such branch.
    if lens.own_state(metadata, str(other.branch)) is None and _ask_chain(other, by) is None:
        raise permissions.no_such_table(ref)
    return other, row


def _check_internal(ref: TableRef, by: Principal | None) -> None:
    """Hide what a job or a transaction has staged from all but who stages it, until it is published."""
    if by is not None and by.job is None and is_internal(ref.branch or MASTER):
        get_chain(ref, by=by)


def load_table(ref: TableRef, *, by: Principal | None) -> TableView:
    """Return the table as a request is to see it.

    Raises:
        NoSuchTable: not there for this reader.

    """
    return view_table(*locate(ref, by=by), by=by)


def view_table(ref: TableRef, row: TableRow, *, by: Principal | None) -> TableView:
    """Return what a request sees of a table that was located for it."""
    file = metadata_files.read(row)
    pinned = _pinned(ref, by)
    if pinned is None:
        return view_of(file, ref, by=by)
    _check_pinned(ref, file.metadata, pinned, by=by)
    return _view_pinned(file, pinned)


def render_table(
    view: TableView,
    file: MetadataFile,
    *,
    now: int,
    members: Mapping[str, Any],
    only_referenced: bool = False,
    properties: Mapping[str, str] = rendered.NO_PROPERTIES,
) -> tuple[bytes, int]:
    """Return the specification's form of what is seen of a metadata file, and the milliseconds it is dated with.

    Args:
        view: what is seen.
        file: of this file.
        now: the current moment in milliseconds; a clock that was ahead may have dated the file later.
        members: what the answer says besides.
        only_referenced: leave out the snapshots that no branch and no tag is at.
        properties: shown besides the table's own.

    """
    dated: int = file.metadata["last-updated-ms"]
    if dated > now + MINUTE_MS:
        dated = now
        shown = rendered.select(view.metadata, only_referenced=only_referenced, properties=properties)
        pieces: Pieces = [json_bytes.dump(with_legacy_fields(not_after(shown, now)))]
    elif view.key == PLAIN and not only_referenced and not properties:
        pieces = [file.raw]
    else:
        pieces = rendered.render(
            file, view=view.key, show=view.show, only_referenced=only_referenced, properties=properties
        )
    start = b'{"metadata-location":' + json_bytes.dump(file.location) + b',"metadata":'
    end = b"," + json_bytes.dump(members)[1:] if members else b"}"
    return b"".join([start, *pieces, end]), dated


def render_input(*, table: str, scope: JobScope, now: int) -> bytes | None:
    """Return the catalog's answer to a job that loads an input.

    Returns None if the job must ask: for keys, for what it writes itself, or to hear that the snapshot is gone or that
    its code may not read the table.
    """
    if table in scope.outputs or list_sensitive_to_code(scope.repository, table_ref(table).path):
        return None
    file = get_file(table=table)
    if is_object_location(file.metadata["location"]):
        return None
    pinned = _read_pin(scope.inputs[table])
    if pinned.head is not None and snapshot_of(file.metadata, pinned.head) is None:
        return None
    view = _view_pinned(file, pinned)
    return render_table(view, file, now=now, members={"config": {}})[0]


def view_of(file: MetadataFile, ref: TableRef, *, by: Principal | None) -> TableView:
    """Return what a request for a branch sees of a metadata file, such as one that it has just written."""
    branch = ref.branch or MASTER
    if branch == MASTER:
        return _plain_view(file)
    # A commit for a third branch leaves the header's branch without a state of its own.
    chain = () if lens.own_state(file.metadata, branch) is not None else get_chain(ref, by=by)
    return _branch_view(file, branch, chain)


def own_key(ref: TableRef, *, by: Principal | None) -> str:
    """Return the key of what a request sees unless its branch falls back to another; no metadata need be read for it.

    Whether a branch has anything of its own is written in the metadata file, so nobody is given this key of a file where
    the branch has not.
    """
    pinned = _pinned(ref, by)
    if pinned is not None:
        return _pinned_key(pinned)
    branch = ref.branch or MASTER
    return PLAIN if branch == MASTER else _branch_key(branch)


def get_chain(ref: TableRef, *, by: Principal | None) -> tuple[str, ...]:
    """Return the fallbacks of a branch on a table: a job's own, else what the layers above say, then master."""
    if ref.branch is None or ref.branch == MASTER:
        return ()
    if by is not None and by.job is not None:
        return by.job.chain
    chain = _ask_chain(ref, by)
    if chain is None and is_internal(ref.branch):
        message = f"Branch {ref.branch} belongs to no open transaction"
        raise Forbidden(message)
    return tuple(dict.fromkeys((*(chain or ()), MASTER)))


def namespace_exists(levels: Levels) -> bool:
    """Return whether there is a namespace."""
    return Namespace.objects.filter(path=SEPARATOR.join(levels)).exists()


def find_namespace(readings: Sequence[Levels]) -> Levels:
    """Return the first of some readings of a name that is a namespace, else the first; one reading is not looked up."""
    if len(readings) == 1:
        return readings[0]
    return next((levels for levels in readings if namespace_exists(levels)), readings[0])


def namespace_properties(levels: Levels, *, by: Principal | None) -> dict[str, str]:
    """Return the properties of a namespace.

    Raises:
        NoSuchNamespace: not there for this reader.

    """
    permissions.check_namespace(by, levels, "read")
    properties = Namespace.objects.filter(path=SEPARATOR.join(levels)).values_list("properties", flat=True).first()
    if properties is None:
        raise permissions.no_such_namespace(levels)
    return dict(properties)


def list_namespaces(
    parent: Levels | None, *, by: Principal | None, after: str = "", limit: int | None = None
) -> list[Levels]:
    """List the namespaces directly below a parent, or the top ones, that somebody may see, in order of their names."""
    if parent is not None:
        namespace_properties(parent, by=by)
    rows = Namespace.objects.filter(parent__path=SEPARATOR.join(parent) if parent else None, path__gt=after)
    paths = rows.order_by("path").values_list("path", flat=True)
    namespaces: list[Levels] = []
    for path in paths.iterator():
        levels = tuple(path.split(SEPARATOR))
        if (parent is not None and (by is None or by.job is None)) or permissions.can_read_namespace(by, levels):
            namespaces.append(levels)
        if limit is not None and len(namespaces) == limit:
            break
    return namespaces


def list_tables(levels: Levels, *, by: Principal | None, after: str = "", limit: int | None = None) -> list[str]:
    """List the names of the tables of a namespace that somebody may see, in order.

    Raises:
        NoSuchNamespace: not there for this reader.

    """
    return _list_names(Table, levels, by=by, after=after, limit=limit)


def find_view(ref: TableRef) -> ViewRow | None:
    """Return the row of a view."""
    row = (
        View.objects.filter(namespace__path=SEPARATOR.join(ref.namespace), name=ref.name)
        .values_list("id", "metadata_location", "version", "location", "uuid")
        .first()
    )
    return None if row is None else ViewRow(*row)


def load_view_metadata(ref: TableRef, *, by: Principal | None) -> ViewView:
    """Return a view in Iceberg's sense.

    Raises:
        NoSuchView: not there for this reader.

    """
    permissions.check_view(by, ref, "read")
    row = find_view(ref)
    if row is None:
        raise permissions.no_such_view(ref)
    file = metadata_files.read_view(row)
    return ViewView(file.view_metadata, file.location)


def list_views(levels: Levels, *, by: Principal | None, after: str = "", limit: int | None = None) -> list[str]:
    """List the names of the views of a namespace, in order.

    Raises:
        NoSuchNamespace: not there for this reader.

    """
    return _list_names(View, levels, by=by, after=after, limit=limit)


def _list_names(
    model: type[Table] | type[View], levels: Levels, *, by: Principal | None, after: str, limit: int | None
) -> list[str]:
    permissions.check_namespace(by, levels, "read")
    tables = None if by is None or by.job is None else permissions.job_tables(by)
    names = [name for (name,) in _names_of(model, limit if tables is None else None).all(SEPARATOR.join(levels), after)]
    if tables is not None:
        names = [name for name in names if ".".join((*levels, name)) in tables][:limit]
    if not names and not namespace_exists(levels):
        raise permissions.no_such_namespace(levels)
    return names


@lru_cache(maxsize=64)
def _names_of(model: type[Table] | type[View], limit: int | None) -> Prepared[tuple[str]]:
    """Prepare a page of names, of one size: the index on namespace and name leads to it wherever it is."""

    def build(path: str, after: str) -> QuerySet[Any, tuple[str]]:
        rows: Any = model
        matches = rows.objects.filter(namespace__path=path, name__gt=after).order_by("name")
        names: QuerySet[Any, tuple[str]] = matches.values_list("name")[:limit]
        return names

    return Prepared(build, str, str)


def _get(ref: TableRef) -> TableRow:
    row = find_table(ref)
    if row is None:
        message = f"Table does not exist: {ref.table}"
        raise NoSuchTable(message)
    return row


def _plain_view(file: MetadataFile) -> TableView:
    # Without branches nothing is to be worked out, and the file need not even be parsed.
    shown = show_partition_names(file.metadata) if PREFIX.encode() in file.raw else None
    if shown is None or shown is file.metadata:
        return TableView(lambda: file.metadata, file)
    return TableView(lambda: shown, file, MASTER)


def _branch_view(file: MetadataFile, branch: str, chain: Sequence[str]) -> TableView:
    source = lens.resolve(file.metadata, branch, chain)
    fell_back = source is None or source[0] != branch
    key = f"{_branch_key(branch)} by {tuple(chain)}" if fell_back else _branch_key(branch)
    return TableView(partial(_show_branch, file, branch, chain), file, key)


def _branch_key(branch: str) -> str:
    return f"branch {branch}"


def _show_branch(file: MetadataFile, branch: str, chain: Sequence[str]) -> Metadata:
    return show_partition_names(lens.get(file.metadata, branch, chain))


def _check_pinned(ref: TableRef, metadata: Metadata, pinned: BranchState, *, by: Principal | None) -> None:
    """Reject a pin to a snapshot that the table no longer has: clients would read an empty table."""
    if pinned.head is None or snapshot_of(metadata, pinned.head) is not None:
        return
    pin = {} if by is None or by.job is None else by.job.inputs[ref.table]
    # Tokens of an older version do not name the transaction.
    transaction = pin.get("transaction", "unknown")
    message = (
        f"{ref.path}: transaction {transaction} on branch {pin.get('branch')} is gone: "
        f"the table has no snapshot {pinned.head}"
    )
    raise SnapshotGone(message)


def _view_pinned(file: MetadataFile, pinned: BranchState) -> TableView:
    return TableView(partial(_show_pinned, file, pinned), file, _pinned_key(pinned))


def _pinned_key(pinned: BranchState) -> str:
    return f"pinned {pinned}"


def _show_pinned(file: MetadataFile, pinned: BranchState) -> Metadata:
    if pinned.ids.schema_id >= 0:
        return show_partition_names(lens.show(file.metadata, pinned))
    rooted, state = lens.with_empty_state(file.metadata)
    return show_partition_names(lens.show(rooted, state))


def _pinned(ref: TableRef, by: Principal | None) -> BranchState | None:
    """Return the state a job's input is pinned to. An output is never pinned: the job sees what it has written."""
    if by is None or by.job is None or ref.table in by.job.outputs:
        return None
    return _read_pin(by.job.inputs[ref.table])


def _read_pin(pin: Mapping[str, Any]) -> BranchState:
    ids = TrackedIds(*(_id(pin, key) for key in ("schema_id", "spec_id", "order_id")))
    return BranchState(head=pin.get("snapshot_id"), ids=ids)


def _id(pin: Any, key: str) -> int:
    number = pin.get(key)
    return -1 if number is None else int(number)


def _ask_chain(ref: TableRef, by: Principal | None) -> tuple[str, ...] | None:
    if ref.branch is None or not ref.is_dataset:
        return None
    return ports.find_chain(table=ref.table, branch=ref.branch, by=by)
