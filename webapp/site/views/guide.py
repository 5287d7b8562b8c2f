"""The guide."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from webapp.accounts.permissions import signed_in
from webapp.core import pages
from webapp.site.queries import guide as queries


@require_safe
def show_chapter(request: HttpRequest, name: str = queries.CONTENTS) -> HttpResponse:
    """Show a chapter of the guide, or its contents."""
    signed_in(request)
    return pages.render(request, "site/guide.html", queries.read_chapter(name))
