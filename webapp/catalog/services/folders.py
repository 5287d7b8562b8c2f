"""The folders of tables and views: given by this server, and chosen or taken over only where no other table has files."""

import secrets
from collections.abc import Iterator
from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import Q

from jobs.locations import is_inside, split_location
from webapp.catalog import permissions
from webapp.catalog.models import StagedLocation, Table, View
from webapp.catalog.rules.errors import Malformed
from webapp.catalog.rules.locations import (
    check_length,
    folders_above,
    is_below,
    is_given_location,
    is_own_folder,
    namespace_folder,
    overlap,
    spell,
    table_folder,
    top_folder,
)
from webapp.catalog.rules.refs import Levels, TableRef
from webapp.catalog.storage import metadata_files
from webapp.catalog.storage.metadata_files import store_of
from webapp.core import clock
from webapp.core.databases import LOCATION_LOCK, take_lock
from webapp.core.principals import Principal

STAGED_FOR = timedelta(hours=24)
"""So long a location that was staged is its client's; longer than keys for it hold."""


def check_location(stated: str | None, own: str) -> None:
    """Refuse a location of the client's choice."""
    if stated is not None and stated.rstrip("/") != own:
        places = "".join(f", or name a folder of its own below {prefix}" for prefix in settings.TRIBUTARY_LOCATIONS)
        message = f"The catalog gives tables and views their location (such as {own}); leave it out{places}"
        raise Malformed(message)


def check_namespace_location(location: str, levels: Levels) -> None:
    """Refuse a location of a namespace in which its tables could not lie.

    Raises:
        Malformed: it is neither the namespace's folder in the warehouse nor inside a prefix beside it.

    """
    chosen = location.rstrip("/")
    own = namespace_folder(warehouse=warehouse(), levels=levels)
    check_length(chosen)
    is_prefix = any(split_location(chosen) == split_location(prefix) for prefix in settings.TRIBUTARY_LOCATIONS)
    if split_location(chosen) != split_location(own) and not is_prefix and find_prefix(chosen) is None:
        places = "".join(f", or name a folder inside {prefix}" for prefix in settings.TRIBUTARY_LOCATIONS)
        message = (
            f"Namespace {'.'.join(levels)} cannot have the location {location}: no table may lie there. "
            f"Leave it out for {own}{places}"
        )
        raise Malformed(message)


def place(stated: str | None, ref: TableRef, *, by: Principal | None) -> str:
    """Return where a new table or view will lie.

    A client may state a folder of the warehouse with the name of the table, or one inside a prefix beside the warehouse.
    It must be free. Without a statement the server chooses a folder in the warehouse.
    """
    own = new_location(ref)
    location = "" if stated is None else stated.rstrip("/")
    if is_given_location(location, warehouse=warehouse(), levels=ref.namespace, name=ref.name):
        _check_free(location, by=by)
        _check_leftovers(location, by=by)
        return location
    # A job writes the tables that it was started for, where they lie.
    chosen = "" if stated is None or by is None or by.job is not None else stated.rstrip("/")
    check_length(chosen)
    if find_prefix(chosen) is None:
        check_location(stated, own)
        return own
    _check_free(chosen, by=by)
    _check_leftovers(chosen, by=by)
    return chosen


def stage_location(location: str, *, by: Principal | None) -> None:
    """Keep a location for a client who is about to write files there, and to make the table then."""
    if by is None:
        return
    with transaction.atomic():
        take_lock(LOCATION_LOCK)
        StagedLocation.objects.filter(staged_at__lt=_staged_since()).delete()
        _check_free(location, by=by)
        _check_leftovers(location, by=by)
        StagedLocation.objects.update_or_create(
            location=spell(location)[0], defaults={"user_id": by.user_id, "staged_at": clock.now()}
        )


def take_location(
    location: str, *, file: str, by: Principal | None, shared_with: type[Table] | type[View] | None = None
) -> None:
    """Refuse a chosen location that is not free at this moment; call it in the atomic block that adds the row.

    Args:
        location: where a new table or view lies.
        file: its first metadata file, which is there already.
        by: the actor.
        shared_with: the kind of which another may have this very location; see `check_register_folder`.

    """
    if find_prefix(location) is None:
        StagedLocation.objects.filter(location=spell(location)[0]).delete()
        return  # two cannot have one folder of the warehouse: its name has a random end, and a table's is unique
    take_lock(LOCATION_LOCK)
    _check_free(location, by=by, shared_with=shared_with)
    if shared_with is None:
        _check_leftovers(location, by=by, but=file)
    StagedLocation.objects.filter(location=spell(location)[0]).delete()


def check_register_source(location: str, *, ref: TableRef, own: str | None, by: Principal | None) -> None:
    """Refuse metadata where the actor may take nothing over.

    Args:
        location: the metadata file.
        ref: the table or view that it is for.
        own: the location of the table, where it is there already.
        by: the actor.

    """
    if find_prefix(location) is not None:
        if own is not None and is_inside(location, own):
            permissions.check_namespace(by, ref.namespace, "maintain")
        else:
            permissions.check_takeover(by, location)
        return
    folder = top_folder(location, warehouse=warehouse())
    if folder is None:
        places = "".join(f" or below {prefix}" for prefix in settings.TRIBUTARY_LOCATIONS)
        message = f"Only metadata inside the warehouse {warehouse()}{places} can be registered"
        raise Malformed(message)
    permissions.check_namespace(by, (folder,), "maintain")


def check_register_folder(location: str, *, metadata_location: str, of: type[Table] | type[View]) -> None:
    """Refuse a location that is not the metadata's own folder: purges and the collector remove files by it."""
    if not is_inside(metadata_location, location):
        message = f"The metadata names {location} as its location, but lies outside it"
        raise Malformed(message)
    if find_prefix(location) is None and not is_own_folder(location, warehouse=warehouse()):
        message = (
            f"The metadata names {location} as its location; "
            f"only a folder that this catalog gave a table or view, such as {warehouse()}/shop/orders-01234567, can be taken over"
        )
        raise Malformed(message)
    # Two of one kind in one folder: tables cannot be, and views may share their history.
    _check_free(location, shared_with=of)


def _check_free(
    location: str, *, by: Principal | None = None, shared_with: type[Table] | type[View] | None = None
) -> None:
    """Refuse a location that another table or view has, or that lies above or below that of one."""
    for row in _list_around(location):
        if not (row.location == location and isinstance(row, shared_with or ())):
            message = f"{location} cannot be taken: another table or view has its files there, above or below it"
            raise Malformed(message)
    for staged in StagedLocation.objects.filter(_around(location), staged_at__gte=_staged_since()):
        if overlap(staged.location, location) and not _is_staged_by(staged, location, by):
            message = f"{location} cannot be taken: a table is being made there, above or below it"
            raise Malformed(message)


def _list_around(location: str) -> Iterator[Table | View]:
    for kind in (Table, View):
        # SQLite finds prefixes whatever their case.
        yield from (row for row in kind.objects.filter(_around(location)) if overlap(row.location, location))


def _around(location: str) -> Q:
    own = spell(location)
    lookup = Q(location__in=[*own, *folders_above(location)])
    for spelling in own:
        lookup |= Q(location__startswith=f"{spelling}/")
    return lookup


def _check_leftovers(location: str, *, by: Principal | None, but: str = "") -> None:
    """Refuse a folder with files to all but administrators: a table may have left them that not everybody could read."""
    staged = StagedLocation.objects.filter(_around(location), staged_at__gte=_staged_since())
    if any(_is_staged_by(row, location, by) for row in staged):
        return  # its client has written them since it was found empty
    if store_of(location).holds_files(location, root=str(find_root(location)), but=but):
        permissions.check_takeover(by, location)


def _is_staged_by(staged: StagedLocation, location: str, by: Principal | None) -> bool:
    return by is not None and staged.user_id == by.user_id and staged.location == spell(location)[0]


def _staged_since() -> datetime:
    return clock.cautious_now() - STAGED_FOR


def make_folders(location: str, *, metadata: str | None = None) -> None:
    """Prepare the place of a new table or view for its writers, with the folder of its metadata if it has another name."""
    metadata_files.make_table_folders(location, root=find_prefix(location), metadata=metadata)


def find_prefix(location: str) -> str | None:
    """Find the prefix beside the warehouse that a location is below."""
    return next((prefix for prefix in settings.TRIBUTARY_LOCATIONS if is_below(location, prefix)), None)


def find_root(location: str) -> str | None:
    """Find the prefix or the warehouse that a location is inside; None where nothing is this catalog's to remove."""
    return find_prefix(location) or (warehouse() if is_inside(location, warehouse()) else None)


def new_location(ref: TableRef) -> str:
    """Return a folder for a new table or view."""
    folder = table_folder(warehouse=warehouse(), levels=ref.namespace, name=ref.name)
    location = f"{folder}-{secrets.token_hex(4)}"
    check_length(location)
    return location


def warehouse() -> str:
    """Return the root of all locations that are given."""
    return str(settings.TRIBUTARY_WAREHOUSE).rstrip("/")
