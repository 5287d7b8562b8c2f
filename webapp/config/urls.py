"""The composition root of URLs: pages at /, the REST API under /api/v1/."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec

from django.urls import URLPattern, URLResolver, include, path

APPS = (
    "core",
    "runtime",
    "accounts",
    "catalog",
    "repositories",
    "datasets",
    "builds",
    "comparisons",
    "sql",
    "previews",
    "pulls",
    "notices",
    "site",
)


def _collect(kind: str) -> list[URLPattern | URLResolver]:
    routes: list[URLPattern | URLResolver] = []
    for app in APPS:
        if find_spec(f"webapp.{app}.urls"):
            routes.extend(getattr(import_module(f"webapp.{app}.urls"), kind, []))
    return routes


urlpatterns: list[URLPattern | URLResolver] = [
    path("api/v1/", include(_collect("api_urls"))),
    *_collect("page_urls"),
]
handler404 = "webapp.core.http.not_found"
handler500 = "webapp.core.http.server_error"
