"""AppError as problem+json (RFC 9457)."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponseBase, JsonResponse

from webapp.core.errors import AppError


def describe_problem(error: AppError) -> dict[str, Any]:
    """Return the members of the problem document."""
    problem: dict[str, Any] = {
        "type": f"urn:tributary:{error.code}",
        "title": error.title,
        "status": error.status,
        "detail": error.detail,
        "code": error.code,
        **error.extra,
    }
    if error.errors is not None:
        problem["errors"] = error.errors
    return problem


def problem_response(error: AppError) -> JsonResponse:
    """Answer the error over HTTP."""
    response = JsonResponse(describe_problem(error), status=error.status, content_type="application/problem+json")
    add_headers(response, error)
    return response


def add_headers(response: HttpResponseBase, error: AppError) -> None:
    """Tell a client how to sign in, or when to come back; and the middleware what was refused."""
    response.refusal = error  # type: ignore[attr-defined]
    for name, value in list_headers(error):
        response[name] = value


def list_headers(error: AppError) -> list[tuple[str, str]]:
    """List the headers that go with an error: how to sign in, or when to come back."""
    if error.status == 401:
        return [("WWW-Authenticate", 'Bearer realm="tributary"')]
    if error.status in (429, 503):
        return [("Retry-After", str(error.retry_after or 2))]
    return []
