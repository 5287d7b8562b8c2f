"""Make, replace, rename and drop views. They are shared by all branches."""

from collections.abc import Sequence
from typing import Any
from uuid import uuid4

from django.db import IntegrityError, transaction

from webapp.accounts.services import record_audit
from webapp.catalog import permissions
from webapp.catalog.models import Table, View
from webapp.catalog.queries import ViewRow, ViewView, find_view, load_view_metadata
from webapp.catalog.rules.errors import AlreadyExists
from webapp.catalog.rules.refs import TableRef, check_name
from webapp.catalog.rules.updates import find_location
from webapp.catalog.rules.views import (
    CreateViewRequest,
    create_view,
    metadata_folder,
    normalise_view,
    replace_view,
)
from webapp.catalog.services.folders import (
    check_register_folder,
    check_register_source,
    find_root,
    make_folders,
    place,
    take_location,
)
from webapp.catalog.services.idempotency import act
from webapp.catalog.services.swaps import ATTEMPTS, LostRace, now_ms
from webapp.catalog.services.tables import cannot_rename, get_namespace
from webapp.catalog.storage import metadata_files
from webapp.catalog.storage.metadata_files import MetadataFile
from webapp.core import clock
from webapp.core.errors import AppError, Unavailable
from webapp.core.principals import Principal


def make_view(*, ref: TableRef, request: CreateViewRequest, by: Principal | None) -> ViewView:
    """Make a view.

    Raises:
        AlreadyExists: a view or a table of that name is there.

    """
    permissions.check_view(by, ref, "write")
    location = place(request.location, ref, by=by)
    metadata = create_view(request, uuid=str(uuid4()), location=location, now_ms=now_ms())
    return _insert(ref, metadata, by=by)


def register_view(*, ref: TableRef, metadata_location: str, by: Principal | None) -> ViewView:
    """Take a view over from a metadata file, which lies where the actor may take views over.

    Raises:
        AlreadyExists: a view or a table of that name is there.

    """
    permissions.check_view(by, ref, "write")
    check_register_source(metadata_location, ref=ref, own=None, by=by)
    metadata = normalise_view(metadata_files.read_foreign(metadata_location, root=str(find_root(metadata_location))))
    check_register_folder(metadata["location"], metadata_location=metadata_location, of=View)
    return _insert(ref, metadata, by=by, is_registered=True)


def commit_view(
    *,
    ref: TableRef,
    requirements: Sequence[dict[str, Any]],
    updates: Sequence[dict[str, Any]],
    by: Principal | None,
) -> ViewView:
    """Commit updates to a view.

    Raises:
        CommitFailed: a requirement failed.

    """
    permissions.check_view(by, ref, "write")
    for _attempt in range(ATTEMPTS):
        row = _get(ref)
        base = metadata_files.read_view(row).view_metadata
        place = _find_place(ref, base["location"], updates, by=by)
        after = replace_view(base, requirements=requirements, updates=updates, place=place, now_ms=now_ms())
        if after is not base:
            try:
                _swap(ref, row, after, is_moved=after["location"] != base["location"], by=by)
            except LostRace:
                continue
        return load_view_metadata(ref, by=by)
    message = f"View {ref.table} is being changed by too many writers and nothing was changed: try again"
    raise Unavailable(message)


def rename_view(*, source: TableRef, target: TableRef, by: Principal | None) -> None:
    """Give a view another name.

    Raises:
        AlreadyExists: the new name is taken.

    """
    permissions.check_view(by, source, "write")
    row = _get(source)
    namespace = get_namespace(target)
    permissions.check_view(by, target, "write")
    if Table.objects.filter(namespace=namespace, name=target.name).exists():
        raise cannot_rename(source, target, kind="Table")
    try:
        with transaction.atomic():
            View.objects.filter(pk=row.id).update(namespace=namespace, name=check_name(target.name, what="view"))
            record_audit(by=by, verb="rename_view", object=source.path, detail={"to": target.path})
    except IntegrityError:
        raise cannot_rename(source, target, kind="View") from None


def drop_view(*, ref: TableRef, by: Principal | None) -> None:
    """Drop a view; its files stay, so that it can be registered again.

    Raises:
        NoSuchView: there is no such view.

    """
    permissions.check_view(by, ref, "write")
    with transaction.atomic():
        View.objects.filter(pk=_get(ref).id).delete()
        record_audit(by=by, verb="drop_view", object=ref.path)


def _find_place(ref: TableRef, location: str, updates: Sequence[dict[str, Any]], *, by: Principal | None) -> str:
    """Return where a commit moves a view to; it has no files but its metadata, whose history the next one holds."""
    named = find_location(updates)
    return location if named in (None, location) else place(named, ref, by=by)


def _swap(ref: TableRef, row: ViewRow, after: dict[str, Any], *, is_moved: bool, by: Principal | None) -> None:
    location = after["location"]
    file = _write(after, version=row.version + 1)
    # When another error is raised, the outcome may be unknown: the file, a small one, stays for the collector.
    try:
        with act():
            if is_moved:
                take_location(location, file=file.location, by=by)
            _move(row, file, location)
            record_audit(by=by, verb="commit_view", object=ref.path)
    except (LostRace, AppError):
        metadata_files.delete(file)
        raise


def _move(row: ViewRow, file: MetadataFile, location: str) -> None:
    moved = View.objects.filter(pk=row.id, version=row.version).update(
        location=location,
        metadata_location=file.location,
        version=row.version + 1,
        uuid=file.uuid,
        updated_at=clock.now(),
    )
    if not moved:
        raise LostRace


def _insert(ref: TableRef, metadata: dict[str, Any], *, by: Principal | None, is_registered: bool = False) -> ViewView:
    namespace = get_namespace(ref)
    _check_free(ref)
    check_name(ref.name, what="view")
    location = metadata["location"]
    file = _write(metadata, version=0)
    try:
        with act():
            take_location(location, file=file.location, by=by, shared_with=View if is_registered else None)
            View.objects.create(
                namespace=namespace,
                name=ref.name,
                location=location,
                metadata_location=file.location,
                uuid=file.uuid,
            )
            record_audit(by=by, verb="create_view", object=ref.path)
    except IntegrityError:
        metadata_files.delete(file)
        raise _exists(ref) from None
    except AppError:
        metadata_files.delete(file)
        raise
    return ViewView(metadata, file.location)


def _write(metadata: dict[str, Any], *, version: int) -> MetadataFile:
    location, folder = metadata["location"], metadata_folder(metadata)
    make_folders(location, metadata=folder)
    return metadata_files.write(metadata, location=location, folder=folder, version=version)


def _check_free(ref: TableRef) -> None:
    if Table.objects.filter(namespace=get_namespace(ref), name=ref.name).exists():
        message = f"Table with same name already exists: {ref.table}"
        raise AlreadyExists(message)
    if find_view(ref) is not None:
        raise _exists(ref)


def _get(ref: TableRef) -> ViewRow:
    row = find_view(ref)
    if row is None:
        raise permissions.no_such_view(ref)
    return row


def _exists(ref: TableRef) -> AlreadyExists:
    return AlreadyExists(f"View already exists: {ref.table}")
