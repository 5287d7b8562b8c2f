"""The inbox, what is marked and watched, and the settings of notifications."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.contrib import messages
from django.shortcuts import redirect
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from webapp.accounts.permissions import signed_in
from webapp.core import pages
from webapp.core.errors import AppError
from webapp.core.numbers import read_count
from webapp.datasets import queries as datasets
from webapp.notices import services
from webapp.notices.forms import WishesForm
from webapp.notices.pages import read_inbox
from webapp.notices.queries.inbox import InboxFilter, get_notification
from webapp.notices.queries.wishes import read_wishes
from webapp.repositories import queries as repositories

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponse


@require_safe
def inbox(request: HttpRequest) -> HttpResponse:
    """Show what the reader is told."""
    filters = InboxFilter.read_page(request.GET)
    page = read_inbox(signed_in(request), filters, before=read_count(request.GET.get("before", "")))
    return pages.render(request, "notices/inbox.html", page)


@require_safe
def follow(request: HttpRequest, notification: int) -> HttpResponse:
    """Go to what a notification is about; it is read then."""
    row = get_notification(signed_in(request), notification)
    services.mark_opened(notification=row)
    return redirect(row.get_absolute_url())


@require_POST
def mark(request: HttpRequest) -> HttpResponse:
    """Mark one notification, or all that are unread."""
    by = signed_in(request)
    chosen = [number for text in request.POST.getlist("notification") if (number := read_count(text)) is not None]
    numbers = None if request.POST.get("all") else chosen

    def act() -> str:
        count = services.mark_notifications(by=by, state=request.POST.get("state", ""), numbers=numbers)
        return f"{count} marked as read." if numbers is None else ""

    return pages.act(request, act, back=f"/inbox{request.POST.get('back', '')}")


@require_http_methods(["GET", "HEAD", "POST"])
def settings(request: HttpRequest) -> HttpResponse:
    """Let people choose where they are told what."""
    by = signed_in(request)
    wishes = read_wishes(by)
    initial = {"address": wishes.address, **wishes.channels}
    form = WishesForm(request.POST if request.method == "POST" else None, initial=initial)
    status = 200
    if request.method == "POST":
        try:
            if form.is_valid():
                services.set_wishes(by=by, channels=form.read_channels(), address=form.cleaned_data["address"])
                messages.success(request, "Saved.")
                return redirect("notification-settings")
        except AppError as error:
            form.add_error("address" if "address" in (error.errors or {}) else None, error.detail)
        status = 422
    return pages.render(request, "notices/settings.html", {"form": form, "wishes": wishes}, status=status)


@require_POST
def watch_repository(request: HttpRequest, repo: str) -> HttpResponse:
    """Watch a repository, or no more."""
    by, is_watched = signed_in(request), bool(request.POST.get("watch"))
    services.watch_repository(repository=repositories.get_repository(by, repo), by=by, is_watched=is_watched)
    messages.success(request, _say_watched(repo, is_watched=is_watched))
    return redirect("repository", repo)


@require_POST
def watch_dataset(request: HttpRequest, dataset_id: int) -> HttpResponse:
    """Watch a dataset, or no more."""
    by, is_watched = signed_in(request), bool(request.POST.get("watch"))
    dataset = datasets.get_dataset(by, dataset_id)
    services.watch_dataset(dataset=dataset, by=by, is_watched=is_watched)
    messages.success(request, _say_watched(dataset.path, is_watched=is_watched))
    return redirect("dataset", dataset.path[1:])


def _say_watched(name: str, *, is_watched: bool) -> str:
    return f"You watch {name}: its news come to your inbox." if is_watched else f"You watch {name} no more."
