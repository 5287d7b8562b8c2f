"""The home page, what happened lately, the state of this server, and search."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_safe

from webapp.accounts.permissions import signed_in
from webapp.core import pages
from webapp.runtime import health
from webapp.site.pages import activity
from webapp.site.pages import home as home_page
from webapp.site.pages import search as search_page
from webapp.site.pages.tour import ENDED


@require_safe
def show_home(request: HttpRequest) -> HttpResponse:
    """Show what waits for the reader."""
    if not request.user.is_authenticated:
        return redirect("login")
    page = home_page.read_home(signed_in(request), wants_tour=ENDED not in request.COOKIES)
    return pages.render(request, "site/home.html", page)


@require_safe
def show_activity(request: HttpRequest) -> HttpResponse:
    """Show what happened in all that the reader may see."""
    page = activity.read_activity(signed_in(request), before=request.GET.get("before", ""))
    return pages.render(request, "site/activity.html", page)


@require_safe
def show_server(request: HttpRequest) -> HttpResponse:
    """Show the state of the parts of this server, which takes a moment to ask for."""
    signed_in(request)
    return pages.render(request, "site/_server.html", {"parts": health.check_parts()})


@require_safe
def search(request: HttpRequest) -> HttpResponse:
    """Find datasets, repositories, pull requests and builds; an exact name goes there at once."""
    page = search_page.search(signed_in(request), request.GET.get("q", ""))
    if page.jump:
        return redirect(page.jump)
    return pages.render(request, "site/search.html", page)
