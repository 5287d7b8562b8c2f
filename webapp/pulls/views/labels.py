"""The labels of a repository, and what a pull request has of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from webapp.accounts.permissions import signed_in
from webapp.core import pages
from webapp.core.pages import act
from webapp.pulls import services
from webapp.pulls.pages import listing
from webapp.pulls.queries import labels as queries
from webapp.pulls.queries import pulls
from webapp.repositories import queries as repositories

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponse


@require_safe
def show_labels(request: HttpRequest, repo: str) -> HttpResponse:
    """List the labels of a repository."""
    return pages.render(request, "pulls/labels.html", listing.read_labels(signed_in(request), repo))


@require_POST
def set_label(request: HttpRequest, repo: str) -> HttpResponse:
    """Make a label, or change its colour."""
    principal = signed_in(request)
    repository = repositories.get_repository(principal, repo)
    name, tone = request.POST.get("name", ""), request.POST.get("tone", "")

    def action() -> str:
        return f"Saved the label {services.set_label(repository=repository, name=name, tone=tone, by=principal).name}."

    return act(request, action, back=reverse("labels", args=[repo]))


@require_POST
def remove_label(request: HttpRequest, repo: str) -> HttpResponse:
    """Take a label away."""
    principal = signed_in(request)
    label = queries.get_label(repositories.get_repository(principal, repo), request.POST.get("name", ""))

    def action() -> str:
        services.remove_label(label=label, by=principal)
        return f"Removed the label {label.name}."

    return act(request, action, back=reverse("labels", args=[repo]))


@require_POST
def label_pull(request: HttpRequest, repo: str, number: int) -> HttpResponse:
    """Give a pull request the labels that are ticked."""
    principal = signed_in(request)
    pull = pulls.get_pull(principal, repo, number)

    def action() -> str:
        labels, shown = request.POST.getlist("label"), _read_shown(request)
        services.label_pull(pull=pull, labels=labels, shown=shown, by=principal)
        return ""

    return act(request, action, back=reverse("pull", args=[repo, number]))


@require_POST
def assign_pull(request: HttpRequest, repo: str, number: int) -> HttpResponse:
    """Say who sees to a pull request: the names that are written, with commas between them."""
    principal = signed_in(request)
    pull = pulls.get_pull(principal, repo, number)
    names = [name.strip() for name in request.POST.get("users", "").split(",") if name.strip()]

    def action() -> str:
        services.assign_pull(pull=pull, users=names, shown=_read_shown(request), by=principal)
        return ""

    return act(request, action, back=reverse("pull", args=[repo, number]))


def _read_shown(request: HttpRequest) -> list[str] | None:
    """Return the names that the form was filled with; None if it does not tell."""
    return [name for name in request.POST.getlist("shown") if name] if "shown" in request.POST else None
