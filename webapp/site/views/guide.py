"""The guide."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from webapp.accounts.permissions import signed_in
from webapp.core import pages
from webapp.site.pages import guide as guide_page


@require_safe
def show_chapter(request: HttpRequest, name: str = guide_page.CONTENTS) -> HttpResponse:
    """Show a chapter of the guide, or its contents."""
    signed_in(request)
    return pages.render(request, "site/guide.html", guide_page.read_chapter(name))
