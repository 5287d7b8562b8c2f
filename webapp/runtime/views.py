"""Health of the installation, for probes and people."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.http import require_safe

from webapp.runtime import health


@require_safe
def healthz(request: HttpRequest) -> HttpResponse:  # noqa: ARG001 - Django's signature
    """Answer that the web half works."""
    return HttpResponse("ok\n", content_type="text/plain")


@require_safe
def readyz(request: HttpRequest) -> HttpResponse:  # noqa: ARG001 - Django's signature
    """Answer for every part; 200 only when all of them work."""
    parts = health.check_parts()
    body = {
        "ready": all(part.works for part in parts),
        **{part.name: {"state": part.state, **part.figures} if part.figures else part.state for part in parts},
        "details": {part.name: part.detail for part in parts},
    }
    return JsonResponse(body, status=200 if body["ready"] else 503)
