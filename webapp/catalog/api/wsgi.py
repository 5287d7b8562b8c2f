"""The catalog as a Django view: the same handlers, for servers and tests that speak WSGI only."""

from urllib.parse import quote

from django.http import HttpRequest, HttpResponse
from django.views.decorators.csrf import csrf_exempt

from webapp.catalog.api.asgi import BASE, raw_path
from webapp.catalog.api.handlers import handle
from webapp.catalog.api.http import CatalogRequest


@csrf_exempt  # tokens only: a browser's session is no credential here
def catalog(request: HttpRequest) -> HttpResponse:
    """Answer one request to `/iceberg/...`."""
    answer = handle(
        CatalogRequest(
            method=str(request.method),
            raw_path=_raw_path(request),
            raw_query=request.META.get("QUERY_STRING", ""),
            headers=[(key.lower(), value) for key, value in request.headers.items()],
            body=request.body,
            address=request.META.get("REMOTE_ADDR", ""),
        )
    )
    response = HttpResponse(answer.body, status=answer.status)
    for key, value in answer.headers:
        response[key] = value
    return response


def _raw_path(request: HttpRequest) -> str:
    scope = request.META.get("asgi.scope")
    if scope is not None:
        return raw_path(scope)
    raw = request.META.get("RAW_URI") or request.META.get("REQUEST_URI") or quote(request.path)
    return str(raw).partition("?")[0].removeprefix(BASE)
