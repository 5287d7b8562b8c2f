"""What an answer about a table says of its files: where the store is, keys where they were asked for, where to write."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import quote

from django.conf import settings

from webapp.catalog import permissions, queries
from webapp.catalog.api.http import Call, CatalogResponse, answer
from webapp.catalog.queries import TableRow
from webapp.catalog.rules.access import COMMIT_RETRIES, Access, drop_shown, own_paths
from webapp.catalog.rules.branch_properties import MASTER
from webapp.catalog.rules.commits import CommitRequest
from webapp.catalog.rules.errors import Forbidden, NoSuchTable
from webapp.catalog.rules.refs import TableRef, is_internal
from webapp.catalog.rules.updates import find_location
from webapp.catalog.storage import credentials
from webapp.catalog.storage.credentials import StorageKeys
from webapp.core.principals import Principal
from webapp.runtime.object_store import is_object_location, place_properties

HEADER = "x-iceberg-access-delegation"
VENDED = "vended-credentials"


@dataclass(frozen=True, slots=True)
class Delegation:
    """The part of an answer that is for one caller."""

    config: Mapping[str, str] = field(default_factory=dict)
    credentials: Sequence[Mapping[str, Any]] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    """Shown to this caller among the table's own."""
    key: str = ""
    """Tells answers apart whose metadata is the same."""

    @property
    def lasts(self) -> bool:
        """Whether it is the same the next time: keys are not, and end by themselves."""
        return not self.credentials

    def as_json(self) -> dict[str, Any]:
        """Return its members of the answer."""
        members: dict[str, Any] = {"config": dict(self.config)}
        return {**members, "storage-credentials": list(self.credentials)} if self.credentials else members


NONE = Delegation()


def delegate(call: Call, ref: TableRef, location: str) -> Delegation:
    """Return what the caller needs for a table's files at this location: for files of this machine only where to write.

    There the file system decides who may write: jobs, which are confined, write into folders of their own.
    """
    if not is_object_location(location):
        return _delegate_locally(call, ref, location)
    access = _access(call, _find(ref, by=call.by)[0])
    shown = _shown(call, location) if access == Access.WRITE else {}
    keys = _give_keys(call, location, access) if _wants_keys(call) else None
    key = f"{sorted(shown.items())} {'' if keys is None else keys.id}"
    return Delegation(_as_config(ref, keys), _as_credentials(location, ref, keys), shown, key)


def _delegate_locally(call: Call, ref: TableRef, location: str) -> Delegation:
    if call.by.job is None or permissions.storage_access(call.by, ref) != Access.WRITE:
        return NONE
    shown = _shown(call, location)
    return Delegation(properties=shown, key=str(sorted(shown.items())))


def _shown(call: Call, location: str) -> dict[str, str]:
    """Return the properties that a writer is shown: where its files go and, for a job, how long it repeats a commit."""
    paths = own_paths(location, _who(call))
    return paths if call.by.job is None else paths | COMMIT_RETRIES


def without_shown(call: Call, request: CommitRequest) -> CommitRequest:
    """Return a commit without the properties that its sender was only shown; engines send them back to make a table."""
    if call.by.job is None and not is_object_location(settings.TRIBUTARY_WAREHOUSE):
        return request  # asking where the table is would cost every commit a query
    _, row = _find(call.table, by=call.by)
    location = (find_location(request.updates) or "") if row is None else row.location
    if call.by.job is None and not is_object_location(location):
        return request
    shown = _shown(call, location)
    updates = [rest for update in request.updates if (rest := drop_shown(update, shown)) is not None]
    return replace(request, updates=updates)


def list_credentials(call: Call) -> CatalogResponse:
    """List the keys to a table's files; files of this machine need none."""
    ref, row = queries.locate(call.table, by=call.by)
    if not is_object_location(row.location):
        return answer({"storage-credentials": []})
    keys = _give_keys(call, row.location, _access(call, ref))
    return answer({"storage-credentials": _as_credentials(row.location, call.table, keys)})


def _give_keys(call: Call, location: str, access: Access) -> StorageKeys | None:
    keys = credentials.give_keys(location=location, access=access, who=_who(call))
    if keys is None and call.by.job is not None:
        message = (
            "This installation gives jobs no keys to its object store: set TRIBUTARY_S3_ROLE, or where the store has no "
            "roles TRIBUTARY_S3_SHARE_KEYS=1"
        )
        raise Forbidden(message)
    return keys


def _as_credentials(location: str, ref: TableRef, keys: StorageKeys | None) -> list[dict[str, Any]]:
    return [] if keys is None else [{"prefix": f"{location}/", "config": _as_config(ref, keys)}]


def _as_config(ref: TableRef, keys: StorageKeys | None) -> dict[str, str]:
    if keys is None:
        return place_properties()
    namespace = "%1F".join(quote(level, safe="") for level in ref.namespace)
    endpoint = f"v1/namespaces/{namespace}/tables/{quote(ref.name, safe='')}/credentials"
    return {**keys.config, "client.refresh-credentials-endpoint": endpoint}


def _find(ref: TableRef, *, by: Principal) -> tuple[TableRef, TableRow | None]:
    """Find the table that a request means; return the name itself where there is none yet."""
    try:
        return queries.locate(ref, by=by)
    except NoSuchTable:
        return ref, None


def _access(call: Call, ref: TableRef) -> Access:
    staged_for: str | None = None
    if call.by.job is None and is_internal(ref.branch or MASTER):
        staged_for = next(iter(queries.get_chain(ref, by=call.by)), None)
    return permissions.storage_access(call.by, ref, staged_for=staged_for)


def _who(call: Call) -> str:
    return call.by.job.folder if call.by.job is not None else f"user-{call.by.user_id}"


def _wants_keys(call: Call) -> bool:
    header = ",".join(call.request.header_values(HEADER))
    return VENDED in {word.strip().lower() for word in header.split(",")}
