"""Pages on which SQL is written, and its result read."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING

from django.shortcuts import redirect
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from webapp.accounts.permissions import signed_in
from webapp.core import pages
from webapp.core.errors import AppError
from webapp.core.numbers import read_count
from webapp.repositories import queries as repositories
from webapp.sql import pages as sql_pages
from webapp.sql import queries, services
from webapp.sql.forms import QueryForm

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponse

TEMPLATE = "sql/repository-sql.html"


@require_http_methods(["GET", "POST"])
def console(request: HttpRequest, repo: str) -> HttpResponse:
    """Show where SQL is written, or run what was."""
    principal = signed_in(request)
    repository = repositories.get_repository(principal, repo)
    if request.GET.get("fragment") == "branches":
        links = sql_pages.list_branches(repository, q=request.GET.get("find", "").strip())
        return pages.render(request, "components/branch_options.html", links)
    form = QueryForm(request.POST if request.method == "POST" else None)
    if request.method == "POST" and form.is_valid():
        try:
            query = services.start_query(repository=repository, by=principal, **form.cleaned_data)
        except AppError as error:
            form.add_error("sql", error.detail)
        else:
            return redirect("query", repo, query.pk)
    fields = request.POST if request.method == "POST" else request.GET
    page = sql_pages.read_console(
        principal,
        repository,
        branch=fields.get("branch") or repository.default_branch,
        form=form,
        sql=fields.get("sql", ""),
    )
    status = HTTPStatus.UNPROCESSABLE_ENTITY if form.errors else HTTPStatus.OK
    return pages.render(request, TEMPLATE, page, status=status)


@require_GET
def show_query(request: HttpRequest, repo: str, query_id: int) -> HttpResponse:
    """Show a query with what came of it; the result follows by itself."""
    principal = signed_in(request)
    repository = repositories.get_repository(principal, repo)
    query = queries.get_query(principal, repository, query_id)
    part = sql_pages.read_query(principal, query, page=read_count(request.GET.get("page", "1"), most=9_999) or 1)
    if part.result is not None:
        services.note_rows(query=query, by=principal)
    if pages.wants_fragment(request):
        return pages.render(request, "sql/_query.html", part)
    page = sql_pages.read_console(
        principal, repository, branch=query.branch, form=QueryForm(), sql=query.sql, shown=part
    )
    return pages.render(request, TEMPLATE, page)


@require_POST
def cancel_query(request: HttpRequest, repo: str, query_id: int) -> HttpResponse:
    """Stop a query that waits or runs."""
    principal = signed_in(request)
    query = queries.get_query(principal, repositories.get_repository(principal, repo), query_id)

    def action() -> str:
        services.cancel_query(query=query, by=principal)
        return ""

    return pages.act(request, action, back=f"/r/{repo}/sql/{query_id}")
