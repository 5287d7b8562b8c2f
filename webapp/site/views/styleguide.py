"""The style guide: every component with made-up data, so that a change of style is seen in one place."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from webapp.accounts.permissions import check_admin, signed_in
from webapp.core import pages
from webapp.site.pages import styleguide as guide


@require_safe
def show_guide(request: HttpRequest) -> HttpResponse:
    """Show every component."""
    check_admin(signed_in(request))
    return pages.render(request, "site/styleguide.html", guide.read_guide())
