"""Views: parse → one service or query → answer."""

from webapp.catalog import queries, services
from webapp.catalog.api.http import Call, CatalogResponse, answer, empty
from webapp.catalog.api.pages import paged
from webapp.catalog.queries import ViewView
from webapp.catalog.rules.metadata import field, objects
from webapp.catalog.rules.refs import TableRef, read_identifier
from webapp.catalog.rules.views import CreateViewRequest


def list_views(call: Call) -> CatalogResponse:
    """List the views of a namespace."""
    namespace = call.namespace

    def fetch(after: str, limit: int | None) -> list[dict[str, object]]:
        names = queries.list_views(namespace, by=call.by, after=after, limit=limit)
        return [{"namespace": namespace, "name": name} for name in names]

    return answer(paged(call, "identifiers", fetch, token_of=lambda item: str(item["name"])), lasts=True)


def create_view(call: Call) -> CatalogResponse:
    """Make a view."""
    request = CreateViewRequest.parse(call.json())
    ref = TableRef(call.namespace, request.name)
    return render(services.make_view(ref=ref, request=request, by=call.by))


def load_view(call: Call) -> CatalogResponse:
    """Return a view."""
    return render(queries.load_view_metadata(call.view, by=call.by))


def view_exists(call: Call) -> CatalogResponse:
    """Answer 204 where there is one."""
    queries.load_view_metadata(call.view, by=call.by)
    return empty()


def replace_view(call: Call) -> CatalogResponse:
    """Commit updates to a view."""
    body = call.json()
    requirements = objects(body, "requirements") if body.get("requirements") is not None else []
    view = services.commit_view(ref=call.view, requirements=requirements, updates=objects(body, "updates"), by=call.by)
    return render(view)


def drop_view(call: Call) -> CatalogResponse:
    """Drop a view."""
    services.drop_view(ref=call.view, by=call.by)
    return empty()


def rename_view(call: Call) -> CatalogResponse:
    """Give a view another name."""
    body = call.json()
    source, target = read_identifier(body.get("source")), read_identifier(body.get("destination"))
    services.rename_view(source=source, target=target, by=call.by)
    return empty()


def register_view(call: Call) -> CatalogResponse:
    """Take a view over from its metadata file."""
    body = call.json()
    ref = TableRef(call.namespace, field(body, "name", str))
    location = field(body, "metadata-location", str)
    return render(services.register_view(ref=ref, metadata_location=location, by=call.by))


def show_named(call: Call) -> CatalogResponse:
    """Return the view that a request has made under the name in its body, as it is now."""
    return render(queries.load_view_metadata(TableRef(call.namespace, field(call.json(), "name", str)), by=call.by))


def render(view: ViewView) -> CatalogResponse:
    """Render a view in the specification's form."""
    return answer({"metadata-location": view.metadata_location, "metadata": view.metadata, "config": {}}, lasts=True)
