"""Make, change and drop namespaces. They are shared by all branches."""

from collections.abc import Mapping

from django.db import IntegrityError, transaction
from django.db.models import ProtectedError

from webapp.accounts.services import claim_folder, record_audit
from webapp.catalog import permissions
from webapp.catalog.models import Namespace
from webapp.catalog.queries import namespace_properties
from webapp.catalog.rules.errors import AlreadyExists, NamespaceNotEmpty
from webapp.catalog.rules.locations import LOCATION
from webapp.catalog.rules.refs import SEPARATOR, Levels, check_levels
from webapp.catalog.services.folders import check_namespace_location
from webapp.core.errors import InvalidInput
from webapp.core.principals import Principal


def create_namespace(*, levels: Levels, properties: Mapping[str, str], by: Principal | None) -> Namespace:
    """Make a namespace, and the ones above it that are missing.

    Raises:
        AlreadyExists: it is there.

    """
    if (
        by is not None
        and by.job is not None
        and not any(tuple(table.split(".")[: len(levels)]) == levels for table in by.job.outputs)
    ):
        raise permissions.no_such_namespace(levels)
    _check_properties(levels, properties)
    with transaction.atomic():
        # Who makes the first namespace of a folder owns it: a refusal takes that back.
        if by is not None and by.job is None:
            claim_folder(folder=levels[0], creator=by)
            permissions.check_namespace(by, levels, "write")
        namespace = _create(levels, properties)
        record_audit(by=by, verb="create_namespace", object=".".join(levels))
    return namespace


def _create(levels: Levels, properties: Mapping[str, str]) -> Namespace:
    if Namespace.objects.filter(path=SEPARATOR.join(levels)).exists():
        raise _exists(levels)
    try:
        with transaction.atomic():
            parent = ensure_namespace(levels=levels[:-1]) if len(levels) > 1 else None
            return Namespace.objects.create(
                path=SEPARATOR.join(check_levels(levels)), parent=parent, properties=dict(properties)
            )
    except IntegrityError:
        raise _exists(levels) from None


def ensure_namespace(*, levels: Levels) -> Namespace:
    """Return the namespace, made with all above it if missing; for the application itself."""
    parent = ensure_namespace(levels=levels[:-1]) if len(levels) > 1 else None
    namespace, _created = Namespace.objects.get_or_create(path=SEPARATOR.join(levels), defaults={"parent": parent})
    return namespace


def update_properties(
    *, levels: Levels, removals: list[str], updates: Mapping[str, str], by: Principal | None
) -> dict[str, list[str]]:
    """Set and remove properties of a namespace; answers which were updated, removed and missing.

    Raises:
        InvalidInput: a key is to be both set and removed.

    """
    permissions.check_namespace(by, levels, "maintain")
    _check_properties(levels, updates)
    both = sorted(set(removals) & set(updates))
    if both:
        message = f"Invalid namespace update: cannot simultaneously set and remove keys: {both}"
        raise InvalidInput(message)
    with transaction.atomic():
        properties = namespace_properties(levels, by=by)
        rest = {key: value for key, value in properties.items() if key not in removals}
        Namespace.objects.filter(path=SEPARATOR.join(levels)).update(properties={**rest, **updates})
        changed = {"set": sorted(updates), "removed": sorted(removals)}
        record_audit(by=by, verb="update_namespace", object=".".join(levels), detail=changed)
    return {
        "updated": sorted(updates),
        "removed": sorted(set(removals) & set(properties)),
        "missing": sorted(set(removals) - set(properties)),
    }


def drop_namespace(*, levels: Levels, by: Principal | None) -> None:
    """Drop an empty namespace.

    Raises:
        NamespaceNotEmpty: it holds namespaces, tables or views.

    """
    namespace_properties(levels, by=by)
    permissions.check_namespace(by, levels, "maintain")
    try:
        with transaction.atomic():
            Namespace.objects.filter(path=SEPARATOR.join(levels)).delete()
            record_audit(by=by, verb="drop_namespace", object=".".join(levels))
    except (ProtectedError, IntegrityError):
        message = f"Namespace is not empty: {'.'.join(levels)}"
        raise NamespaceNotEmpty(message) from None


def _check_properties(levels: Levels, properties: Mapping[str, str]) -> None:
    if LOCATION in properties:
        check_namespace_location(properties[LOCATION], levels)


def _exists(levels: Levels) -> AlreadyExists:
    return AlreadyExists(f"Namespace already exists: {'.'.join(levels)}")
