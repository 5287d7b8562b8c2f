"""The tabs Data, Schema and Lineage of a pull request."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING

from django.http import HttpResponse
from django.views.decorators.http import require_safe

from webapp.accounts.permissions import signed_in
from webapp.accounts.services import note_reading
from webapp.core import pages
from webapp.pulls.pages import data, lineage

if TYPE_CHECKING:
    from django.http import HttpRequest


@require_safe
def show_data(request: HttpRequest, repo: str, number: int) -> HttpResponse:
    """Show the row diff of one dataset beside the list of all."""
    principal = signed_in(request)
    if request.GET.get("fragment") == "moved":
        return _show_moved(request, data.read_moved(principal, repo, number, parameters=request.GET))
    if pages.wants_part(request, "row-diff"):
        rows = data.read_data_rows(principal, repo, number, parameters=request.GET)
        if rows is not None:
            note_reading(by=principal, verb="read_rows", object=rows.view.path, branch=rows.head.source)
            return pages.render(request, "pulls/_dataset.html", rows, fragment="rows")
    page = data.read_data(principal, repo, number, parameters=request.GET)
    if page.view is not None:
        note_reading(by=principal, verb="read_rows", object=page.view.path, branch=page.head.source)
    response = pages.render(request, "pulls/pull-data.html", page, fragment="dataset")
    if request.htmx.target == "dataset" and not (page.view and page.view.is_moving):  # type: ignore[attr-defined]
        # The page asked again while the diff ran. Now that it is done, the counts around it change too.
        response["HX-Refresh"] = "true"
    return response


def _show_moved(request: HttpRequest, moved: data.MovedRows | None) -> HttpResponse:
    """Tell an open page that what it shows has moved; 204 while it has not."""
    if moved is None:
        return HttpResponse(status=HTTPStatus.NO_CONTENT)
    return pages.render(request, "pulls/_moved.html", {"moved": moved})


@require_safe
def show_schema(request: HttpRequest, repo: str, number: int) -> HttpResponse:
    """Show the schema diffs of all datasets."""
    page = data.read_schema(signed_in(request), repo, number, compared=request.GET.get("compared", ""))
    return pages.render(request, "pulls/pull-schema.html", page)


@require_safe
def show_lineage(request: HttpRequest, repo: str, number: int) -> HttpResponse:
    """Show what is changed and what is downstream as a graph."""
    page = lineage.read_pull_lineage(signed_in(request), repo, number)
    return pages.render(request, "pulls/pull-lineage.html", page)
