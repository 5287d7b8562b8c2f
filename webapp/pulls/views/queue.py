"""The merge queue of a repository."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.views.decorators.http import require_safe

from webapp.accounts.permissions import signed_in
from webapp.core import pages
from webapp.pulls.pages.queue import read_queue

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponse


@require_safe
def show_queue(request: HttpRequest, repo: str) -> HttpResponse:
    """Show the merges that are asked for, in the order in which they land, and those that landed or left."""
    return pages.render(request, "pulls/merge-queue.html", read_queue(signed_in(request), repo, request.GET))
