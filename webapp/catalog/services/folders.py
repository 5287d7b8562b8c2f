"""The folders of tables and views: given by this server, and taken over only where nobody else's files can be hit."""

import secrets

from django.conf import settings
from django.db.models import Q

from webapp.accounts.rules.principals import Principal
from webapp.catalog import permissions
from webapp.catalog.models import Table, View
from webapp.catalog.rules.errors import Malformed
from webapp.catalog.rules.locations import folders_above, is_inside, is_own_folder, table_folder, top_folder
from webapp.catalog.rules.refs import TableRef


def check_location(stated: str | None, own: str) -> None:
    """Refuse a location of the client's choice."""
    if stated is not None and stated.rstrip("/") != own:
        message = f"The catalog gives tables their location (such as {own}); leave it out"
        raise Malformed(message)


def check_register_source(location: str, *, by: Principal | None) -> None:
    """Refuse metadata outside the warehouse, or in a folder that is not the actor's."""
    folder = top_folder(location, warehouse=warehouse())
    if folder is None:
        message = f"Only metadata inside the warehouse {warehouse()} can be registered"
        raise Malformed(message)
    permissions.check_namespace(by, (folder,), "maintain")


def check_register_folder(location: str, *, metadata_location: str, of: type[Table] | type[View]) -> None:
    """Refuse a location that is not the metadata's own folder: purges and the collector remove files by it."""
    if not is_inside(metadata_location, location):
        message = f"The metadata names {location} as its location, but lies outside it"
        raise Malformed(message)
    if not is_own_folder(location, warehouse=warehouse()):
        message = (
            f"The metadata names {location} as its location; "
            f"only a folder that this catalog gave a table or view, such as {warehouse()}/shop/orders-01234567, can be taken over"
        )
        raise Malformed(message)
    above = folders_above(location, warehouse=warehouse())
    for kind in (Table, View):
        # Two of one kind in one folder: tables cannot be, and views may share their history.
        taken = above if kind is of else [*above, location]
        if kind.objects.filter(Q(location__in=taken) | Q(location__startswith=f"{location}/")).exists():
            message = f"{location} cannot be taken over: another table or view has its files above or below it"
            raise Malformed(message)


def new_location(ref: TableRef) -> str:
    """A folder for a new table or view."""
    folder = table_folder(warehouse=warehouse(), levels=ref.namespace, name=ref.name)
    return f"{folder}-{secrets.token_hex(4)}"


def warehouse() -> str:
    """The root of all locations."""
    return str(settings.TRIBUTARY_WAREHOUSE).rstrip("/")
