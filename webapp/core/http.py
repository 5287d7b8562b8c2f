"""Middleware: refusals become problem documents for programs and pages for people."""

from __future__ import annotations

import codecs
import logging
import sys
from collections.abc import Callable

from django.core.exceptions import RequestDataTooBig, SuspiciousOperation
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.template.loader import render_to_string
from django.utils.http import urlencode

from webapp.core.errors import AppError, BadRequest, Broken, MethodNotAllowed, NotFound, TooLarge, UnsupportedMedia
from webapp.core.failures import explain_failure
from webapp.core.problems import problem_response

logger = logging.getLogger(__name__)
API_PREFIX = "/api/"
CHARSETS = ("utf-8", "ascii")
"""In which clients send text."""
NOTHING_HERE = "There is nothing here, or you may not see it."
HEALTH_PATHS = ("/healthz", "/readyz")
"""Asked by machines, also while the database is away: nobody is looked up for them."""


class ErrorMiddleware:
    """Turns an AppError that a view raised into an answer of the kind that the client reads."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        # Django reads bodies and addresses by any codec of Python that a client names. Some take hours for a megabyte.
        if request.encoding is not None and codecs.lookup(request.encoding).name not in CHARSETS:
            message = f"Send text in UTF-8, not in {request.encoding[:40]}."
            request.encoding = "utf-8"
            return self._answer(request, UnsupportedMedia(message, code="unknown_charset"))
        response = self.get_response(request)
        if response.status_code == MethodNotAllowed.status and not response.content:
            return self._answer_method(request, response)
        return response

    def _answer_method(self, request: HttpRequest, response: HttpResponse) -> HttpResponse:
        """Say why an address that only takes forms shows nothing."""
        answer = self._answer(request, MethodNotAllowed(f"This address does not take {request.method}."))
        answer["Allow"] = response["Allow"]
        return answer

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        """Answer for the errors we know; None leaves the rest to Django, which logs it."""
        error = _as_app_error(exception)
        if error is None:
            return None
        is_ours = error.status >= 500 and not isinstance(exception, AppError)
        logger.log(
            logging.ERROR if is_ours else logging.INFO,
            "%s %s refused: %s %s",
            request.method,
            request.path,
            error.status,
            error.code,
            exc_info=exception if is_ours else None,
        )
        return self._answer(request, error)

    @staticmethod
    def _answer(request: HttpRequest, error: AppError) -> HttpResponse:
        return problem_response(error) if request.path.startswith(API_PREFIX) else error_page(request, error)


def _as_app_error(exception: Exception) -> AppError | None:
    if isinstance(exception, AppError):
        return exception
    if isinstance(exception, Http404):
        return NotFound(NOTHING_HERE)
    if isinstance(exception, RequestDataTooBig):
        return TooLarge("The request is larger than this address takes.")
    if isinstance(exception, SuspiciousOperation):
        return BadRequest("The request cannot be read.")
    return explain_failure(exception)


def error_page(request: HttpRequest, error: AppError) -> HttpResponse:
    """Show the error as a page, or for htmx as the flash that replaces nothing but the message line."""
    response = _render_error(request, error)
    response.refusal = error  # type: ignore[attr-defined]
    return response


def _render_error(request: HttpRequest, error: AppError) -> HttpResponse:
    htmx = getattr(request, "htmx", None)
    if error.status == 401 and not htmx:
        return redirect(f"/login?{urlencode({'next': request.get_full_path()})}")
    if htmx:
        response = render(request, "errors/_flash.html", {"error": error}, status=error.status)
        response["HX-Retarget"] = "#flash"
        response["HX-Reswap"] = "innerHTML"
        return response
    response = render(request, "errors/error.html", {"error": error}, status=error.status)
    if error.status in (429, 503):
        response["Retry-After"] = str(error.retry_after or 2)
    return response


def not_found(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:  # noqa: ARG001 - Django's signature
    """Show the 404 of addresses that no view has."""
    error = NotFound(NOTHING_HERE)
    return problem_response(error) if request.path.startswith(API_PREFIX) else error_page(request, error)


def server_error(request: HttpRequest) -> HttpResponse:
    """Show the 500, which leaves what went wrong to the log. A database that is away shows here, too, as a 503."""
    error = explain_failure(sys.exc_info()[1]) or Broken(
        "Something broke on our side. It is in the server's log; trying again may help."
    )
    if request.path.startswith(API_PREFIX):
        response: HttpResponse = problem_response(error)
    else:
        # Without the request: its context processors may need just what is broken.
        response = HttpResponse(render_to_string("errors/broken.html"), status=error.status)
        if error.status == 503:
            response["Retry-After"] = "2"
    return response
