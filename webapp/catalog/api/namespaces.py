"""Namespaces: parse → one service or query → answer."""

from collections.abc import Mapping

from webapp.catalog import queries, services
from webapp.catalog.api.http import Call, CatalogResponse, answer, empty
from webapp.catalog.api.pages import paged
from webapp.catalog.rules.errors import Malformed
from webapp.catalog.rules.locations import LOCATION, namespace_folder
from webapp.catalog.rules.metadata import texts
from webapp.catalog.rules.refs import SEPARATOR, Levels, check_levels, read_parents
from webapp.catalog.services.folders import warehouse


def list_namespaces(call: Call) -> CatalogResponse:
    """List the namespaces below a parent."""
    parent = _parent(call.query.get("parent", ""))

    def fetch(after: str, limit: int | None) -> list[Levels]:
        return queries.list_namespaces(parent, by=call.by, after=after, limit=limit)

    return answer(paged(call, "namespaces", fetch, token_of=SEPARATOR.join), lasts=True)


def create_namespace(call: Call) -> CatalogResponse:
    """Make a namespace."""
    body = call.json()
    levels = body.get("namespace")
    if not isinstance(levels, list):
        message = "Cannot parse namespace: expected a list of levels"
        raise Malformed(message)
    properties = texts(body, "properties") if body.get("properties") is not None else {}
    namespace = services.create_namespace(levels=check_levels(levels), properties=properties, by=call.by)
    return _answer(namespace.levels, namespace.properties)


def load_namespace(call: Call) -> CatalogResponse:
    """Return a namespace's properties."""
    levels = call.namespace
    return _answer(levels, queries.namespace_properties(levels, by=call.by), lasts=True)


def namespace_exists(call: Call) -> CatalogResponse:
    """Answer 204 where there is one."""
    queries.namespace_properties(call.namespace, by=call.by)
    return empty()


def drop_namespace(call: Call) -> CatalogResponse:
    """Drop an empty namespace."""
    services.drop_namespace(levels=call.namespace, by=call.by)
    return empty()


def update_properties(call: Call) -> CatalogResponse:
    """Set and remove properties."""
    body = call.json()
    removals = body.get("removals") or []
    if not isinstance(removals, list) or not all(isinstance(key, str) for key in removals):
        message = "Cannot parse update: 'removals' must be a list of strings"
        raise Malformed(message)
    updates = texts(body, "updates") if body.get("updates") is not None else {}
    return answer(services.update_properties(levels=call.namespace, removals=removals, updates=updates, by=call.by))


def _answer(levels: Levels, properties: Mapping[str, str], *, lasts: bool = False) -> CatalogResponse:
    """Answer with the properties of a namespace; its folder in the warehouse is its location where it names none."""
    own = namespace_folder(warehouse=warehouse(), levels=levels)
    return answer({"namespace": levels, "properties": {LOCATION: own, **properties}}, lasts=lasts)


def _parent(text: str) -> Levels | None:
    if not text:
        return None
    return queries.find_namespace(read_parents(text))
