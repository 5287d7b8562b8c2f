"""Fragments of a dataset's page: two ends of its history compared, statistics over time; and who changed a row."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlencode

from django.shortcuts import redirect
from django.views.decorators.http import require_GET, require_POST

from webapp.accounts.permissions import signed_in
from webapp.accounts.services import note_reading
from webapp.comparisons import services
from webapp.comparisons.pages import blame as blame_page
from webapp.comparisons.pages import compare
from webapp.comparisons.pages.trends import read_trend_view
from webapp.comparisons.queries import blames, ends
from webapp.comparisons.queries.trends import find_heads
from webapp.core import pages
from webapp.core.pages import act
from webapp.datasets import queries as datasets

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponse

    from webapp.comparisons.queries.ends import ComparedEnds
    from webapp.core.principals import Principal
    from webapp.datasets.models import Dataset


@require_GET
def show_compare(request: HttpRequest, dataset_id: int) -> HttpResponse:
    """Show two ends side by side. The first to look starts the comparison, and the fragment follows it."""
    principal = signed_in(request)
    dataset = datasets.get_dataset(principal, dataset_id)
    if not request.htmx:  # type: ignore[attr-defined]  # set by a middleware
        return redirect(_page(dataset, request.GET.dict()))
    compare_request = compare.CompareRequest.parse(dataset, request.GET)

    def find() -> ComparedEnds:
        return _compare(principal, dataset, compare_request)

    page = compare.read_compare(principal, dataset, request=compare_request, parameters=request.GET, find=find)
    note_reading(by=principal, verb="read_rows", object=dataset.path)
    answer = pages.render(request, "comparisons/_compare.html", page)
    if pages.wants_part(request, "row-diff"):
        # A link of the rows leads to the page, which sends htmx here: the address shown is the page's.
        answer["HX-Push-Url"] = _page(dataset, request.GET.dict())
    return answer


def _compare(principal: Principal, dataset: Dataset, compare_request: compare.CompareRequest) -> ComparedEnds:
    before = ends.find_end(dataset, compare_request.start, field="from")
    after = ends.find_end(dataset, compare_request.end, field="to")
    keys = compare_request.key_list
    sight = ends.see_ends(principal, dataset, (before, after), keys=keys)
    rules = ends.read_rules(dataset, branch=after.branch, sight=sight, keys=keys)
    return services.compare_ends(dataset=dataset, before=before, after=after, rules=rules, sight=sight, by=principal)


@require_POST
def compare_again(request: HttpRequest, dataset_id: int) -> HttpResponse:
    """Run a failed or cancelled comparison again."""
    principal = signed_in(request)
    dataset = datasets.get_dataset(principal, dataset_id)
    compare_request = compare.CompareRequest.parse(dataset, request.POST)

    def action() -> str:
        pair = _compare(principal, dataset, compare_request)
        if pair.comparison is not None:
            services.rerun_comparison(comparison=pair.comparison, by=principal)
        return ""

    return act(request, action, back=_page(dataset, compare_request.address))


@require_POST
def cancel_compare(request: HttpRequest, dataset_id: int) -> HttpResponse:
    """Stop a comparison that waits or runs."""
    principal = signed_in(request)
    dataset = datasets.get_dataset(principal, dataset_id, action="write")
    compare_request = compare.CompareRequest.parse(dataset, request.POST)

    def action() -> str:
        pair = _compare(principal, dataset, compare_request)
        if pair.comparison is not None:
            services.cancel_comparison(comparison=pair.comparison, by=principal)
        return "The comparison is cancelled."

    return act(request, action, back=_page(dataset, compare_request.address))


@require_GET
def show_trend(request: HttpRequest, dataset_id: int) -> HttpResponse:
    """Show a dataset over its last transactions, as a part of the tab History."""
    principal = signed_in(request)
    dataset = datasets.get_dataset(principal, dataset_id)
    if not request.htmx:  # type: ignore[attr-defined]  # set by a middleware
        return redirect(_page(dataset, {**request.GET.dict(), "tab": "history"}))
    name = "transaction" if request.GET.get("transaction") else "branch"
    view = {name: request.GET[name]} if name in request.GET else {}
    heads = find_heads(dataset, **view)
    keeps = {"tab": "history", **view}
    trend = read_trend_view(principal, dataset, heads, keeps=keeps, parameters=request.GET)
    if trend.column:
        note_reading(by=principal, verb="read_statistics", object=dataset.path, branch=request.GET.get("branch", ""))
    return pages.render(request, "comparisons/_history_trend.html", {"trend": trend})


@require_GET
def show_blame(request: HttpRequest, dataset_id: int) -> HttpResponse:
    """Show who changed one row, newest first. The first to look starts the walk, and the page follows it."""
    principal = signed_in(request)
    dataset = datasets.get_dataset(principal, dataset_id)
    note_reading(by=principal, verb="read_history", object=dataset.path, branch=request.GET.get("branch", ""))
    page = blame_page.read_blame(
        principal,
        dataset,
        branch=request.GET.get("branch", ""),
        key=blames.read_key(request.GET),
        cursor=request.GET.get("cursor", ""),
        ask=lambda walk: services.request_blame(walk=walk, by=principal),
    )
    return pages.render(request, "comparisons/blame.html", page, fragment="changes")


@require_POST
def blame_again(request: HttpRequest, dataset_id: int) -> HttpResponse:
    """Look again after a failure."""
    principal = signed_in(request)
    dataset = datasets.get_dataset(principal, dataset_id)
    branch, key = request.POST.get("branch", ""), blames.read_key(request.POST)
    cursor = request.POST.get("cursor", "")

    def action() -> str:
        walk = blames.find_walk(principal, dataset, branch=branch, key=key, cursor=cursor)
        services.rerun_comparison(comparison=services.request_blame(walk=walk, by=principal), by=principal)
        return ""

    return act(request, action, back=blame_page.blame_url(dataset.pk, branch=branch, key=key))


def _page(dataset: Dataset, query: dict[str, str]) -> str:
    return f"/d{dataset.path}?{urlencode({'tab': 'compare', **query})}"
