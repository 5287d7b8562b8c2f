"""Pages on which SQL is written, and its result read."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING

from django.contrib import messages
from django.shortcuts import redirect
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from webapp.accounts.permissions import signed_in
from webapp.core import pages
from webapp.core.errors import AppError
from webapp.core.numbers import read_count
from webapp.repositories import queries as repositories
from webapp.repositories.pages.frame import ref_url
from webapp.sql import pages as sql_pages
from webapp.sql import queries, services
from webapp.sql.forms import CheckForm, QueryForm

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponse

TEMPLATE = "sql/repository-sql.html"
PLACES = ("page", "base_page", "difference_page")
"""Parameters of an address that say which page of the rows is shown, of each list."""


@require_http_methods(["GET", "POST"])
def console(request: HttpRequest, repo: str) -> HttpResponse:
    """Show where SQL is written, or run what was."""
    principal = signed_in(request)
    repository = repositories.get_repository(principal, repo)
    if request.GET.get("fragment") == "branches":
        links = sql_pages.list_branches(repository, q=request.GET.get("find", "").strip())
        return pages.render(request, "components/branch_options.html", links)
    if request.GET.get("fragment") == "bases":
        bases = sql_pages.list_bases(repository, q=request.GET.get("find", "").strip())
        return pages.render(request, "components/select_options.html", bases)
    form = QueryForm(request.POST if request.method == "POST" else None)
    if request.method == "POST" and form.is_valid():
        try:
            query = services.start_query(repository=repository, by=principal, **form.cleaned_data)
        except AppError as error:
            form.add_error(None, error.detail)
        else:
            return redirect("query", repo, query.pk)
    fields = request.POST if request.method == "POST" else request.GET
    page = sql_pages.read_console(
        principal,
        repository,
        branch=fields.get("branch") or repository.default_branch,
        base=fields.get("base", ""),
        form=form,
        sql=fields.get("sql", ""),
    )
    status = HTTPStatus.UNPROCESSABLE_ENTITY if form.errors else HTTPStatus.OK
    return pages.render(request, TEMPLATE, page, status=status)


@require_POST
def save_check(request: HttpRequest, repo: str) -> HttpResponse:
    """Commit a query to its branch, or to a new one, as a check of the repository."""
    principal = signed_in(request)
    repository = repositories.get_repository(principal, repo)
    form = CheckForm(request.POST)
    if form.is_valid():
        fields = {name: value for name, value in form.cleaned_data.items() if name != "base"}
        try:
            branch, path = services.save_check(repository=repository, by=principal, **fields)
        except AppError as error:
            form.add_error(None, error.detail)
        else:
            messages.success(request, f"Saved on {branch}. It runs where a pull request of the branch is open.")
            return redirect(ref_url(repository, "blob", branch, path))
    page = sql_pages.read_console(
        principal,
        repository,
        branch=request.POST.get("branch") or repository.default_branch,
        base=request.POST.get("base", ""),
        form=form,
        sql=request.POST.get("sql", ""),
    )
    return pages.render(request, TEMPLATE, page, status=HTTPStatus.UNPROCESSABLE_ENTITY)


@require_GET
def show_query(request: HttpRequest, repo: str, query_id: int) -> HttpResponse:
    """Show a query with what came of it; the result follows by itself."""
    principal = signed_in(request)
    repository = repositories.get_repository(principal, repo)
    query = queries.get_query(principal, repository, query_id)
    places = {name: read_count(request.GET.get(name, "1"), most=9_999) or 1 for name in PLACES}
    part = sql_pages.read_query(principal, query, places=places)
    if part.result is not None:
        services.note_rows(query=query, by=principal)
    if pages.wants_fragment(request):
        return pages.render(request, "sql/_query.html", part)
    page = sql_pages.read_console(
        principal, repository, branch=query.branch, base=query.base, form=QueryForm(), sql=query.sql, shown=part
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
