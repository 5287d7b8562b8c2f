"""The tabs Data and Schema of a pull request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from webapp.accounts.services import note_reading
from webapp.core import pages
from webapp.pulls.queries import data
from webapp.pulls.views.common import signed_in

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponse


def show_data(request: HttpRequest, repo: str, number: int) -> HttpResponse:
    """Show the row diff of one dataset beside the list of all."""
    principal = signed_in(request)
    page = data.read_data(principal, repo, number, parameters=request.GET)
    if page.view is not None:
        note_reading(by=principal, verb="read_rows", object=page.view.path, branch=page.head.source)
    response = pages.render(request, "pulls/pull-data.html", page, fragment="dataset")
    if getattr(request, "htmx", None) and not (page.view and page.view.is_moving):
        # The page asked again while the diff ran. Now that it is done, the counts around it change too.
        response["HX-Refresh"] = "true"
    return response


def show_schema(request: HttpRequest, repo: str, number: int) -> HttpResponse:
    """Show the schema diffs of all datasets."""
    return pages.render(request, "pulls/pull-schema.html", data.read_schema(signed_in(request), repo, number))
