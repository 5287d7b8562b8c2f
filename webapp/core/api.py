"""Base of the REST API's endpoints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rest_framework import exceptions
from rest_framework.authentication import SessionAuthentication
from rest_framework.negotiation import DefaultContentNegotiation
from rest_framework.permissions import SAFE_METHODS
from rest_framework.renderers import JSONRenderer
from rest_framework.response import Response
from rest_framework.views import APIView

from webapp.core.errors import (
    AppError,
    BadRequest,
    NotFound,
    PermissionDenied,
    TooLarge,
    TooManyRequests,
    Unauthenticated,
    UnsupportedMedia,
)
from webapp.core.failures import explain_failure
from webapp.core.idempotency import run_once
from webapp.core.inputs import check_parameters, show_name
from webapp.core.numbers import read_count
from webapp.core.openapi import list_query_parameters
from webapp.core.pagination import Pages
from webapp.core.problems import add_headers, describe_problem

if TYPE_CHECKING:
    from django.http import HttpRequest

    from webapp.core.principals import Principal

BLANK_BYTES = 128
"""More is no empty object and no empty form, whatever boundary a client chooses."""


MOST_VALUES = 20_000
"""In a JSON body, at all depths: 3,000 changes of a commit, the longest that is sent, have half of that."""
DEEPEST = 64
"""Maximum nesting of a JSON body: as deep as the schema of a table."""


class JsonAlone(DefaultContentNegotiation):
    """Answers JSON whatever a client says that it accepts: there is nothing else to choose."""

    def select_renderer(self, request: Any, renderers: Any, format_suffix: Any = None) -> Any:  # noqa: ARG002 - DRF's signature
        """Return the first renderer."""
        return renderers[0], renderers[0].media_type


class ApiView(APIView):
    """An endpoint: signed in by token or session, problem documents, Idempotency-Key on POST."""

    content_negotiation_class = JsonAlone
    pagination_class: type[Pages] | None = Pages
    """How its lists are described; they answer by `paginate`."""
    answers_secret = False
    """Whether POST answers with a secret that must not be replayed."""
    max_body_bytes = 10_000_000
    """JSON is read into memory: more than this is refused before it is."""
    takes_body = True
    """Whether what it does by POST or PUT is told anything by a body; where it is not, one with a content is refused."""

    repeatable_parameters: frozenset[str] = frozenset()
    """Query parameters that can be given more than once."""

    @property
    def principal(self) -> Principal:
        """The user who asks.

        Raises:
            Unauthenticated: no valid user.

        """
        principal: Principal | None = getattr(self.request._request, "principal", None)
        if principal is None:
            raise Unauthenticated("Sign in, or send a token as 'Authorization: Bearer …'.")
        return principal

    @property
    def body(self) -> dict[str, Any]:
        """The JSON object that was sent.

        Raises:
            BadRequest: it is no object, nested beyond all use, or has more values than MOST_VALUES.
            TooLarge: it is larger than this address takes.

        """
        if read_count(self.request.META.get("CONTENT_LENGTH") or "0", most=self.max_body_bytes) is None:
            raise TooLarge(f"The body has at most {self.max_body_bytes:,} bytes.")
        data = self.request.data
        if not isinstance(data, dict):
            raise BadRequest("The body is a JSON object.")
        _check_values(data)
        return data

    def initial(self, request: Any, *args: Any, **kwargs: Any) -> None:
        """Authenticate before anything else is read; a browser's session also needs its CSRF token."""
        super().initial(request, *args, **kwargs)
        _ = self.principal
        if getattr(request._request, "principal_by_session", False):
            SessionAuthentication().enforce_csrf(request)
        if request.GET:
            check_parameters(
                request.GET,
                names=list_query_parameters(type(self), request.method),
                repeatable=self.repeatable_parameters,
                may_be_empty=self.may_be_empty,
            )
        # What a GET brings along is refused before it comes here.
        if request.method in SAFE_METHODS:
            return
        if self.takes_body and request.method != "DELETE":
            _refuse_compressed(request._request)
        elif not _is_blank(request._request):
            raise BadRequest("This address takes no body: it says by itself what is to be done.", code="body_not_taken")

    def may_be_empty(self, name: str) -> bool:
        """Return whether a query parameter has a meaning when it is empty; an empty search matches everything."""
        return name == "q"

    def identify(self, request: HttpRequest) -> None:
        """Find out who asks where the middleware did not; before the Idempotency-Key, which belongs to a person."""

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        """Handle the request once per Idempotency-Key."""
        self.identify(request)
        key = request.headers.get("Idempotency-Key")
        if request.method != "POST" or key is None:
            return super().dispatch(request, *args, **kwargs)
        principal: Principal | None = getattr(request, "principal", None)
        # A request that is refused here leaves no key, and gets no kept answer.
        if principal is None or _is_forged(request):
            return super().dispatch(request, *args, **kwargs)

        def run() -> Any:
            response = super(ApiView, self).dispatch(request, *args, **kwargs)
            return response.render() if hasattr(response, "render") else response

        return run_once(request, by=principal, key=key, run=run, secret=self.answers_secret)


def _refuse_compressed(request: HttpRequest) -> None:
    coding = request.headers.get("Content-Encoding", "").strip()
    if coding.lower() not in ("", "identity"):
        message = f"The body is compressed (Content-Encoding: {show_name(coding)}). Send it uncompressed."
        raise UnsupportedMedia(message, code="compressed_body")


def _is_blank(request: HttpRequest) -> bool:
    """Return whether a body says nothing: many clients send an empty object or form where they have nothing to say."""
    if read_count(request.META.get("CONTENT_LENGTH") or "0", most=BLANK_BYTES) is None:
        return False
    content = request.body.strip()
    return content in (b"", b"{}") or (content.startswith(b"--") and content.endswith(b"--") and b"\n" not in content)


def _is_forged(request: HttpRequest) -> bool:
    """Return whether a browser's session comes without our own pages' CSRF token."""
    if not getattr(request, "principal_by_session", False):
        return False
    try:
        SessionAuthentication().enforce_csrf(request)  # type: ignore[arg-type]  # it takes either kind of request
    except exceptions.PermissionDenied:
        return True
    return False


def handle_exception(error: Exception, context: dict[str, Any]) -> Response | None:  # noqa: ARG001 - DRF's signature
    """Answer every refusal as problem+json; DRF's hook."""
    refusal = _as_app_error(error)
    if refusal is None:
        return None
    response = Response(describe_problem(refusal), status=refusal.status)
    response.content_type = "application/problem+json"
    response.accepted_renderer = ProblemRenderer()
    response.accepted_media_type = ProblemRenderer.media_type
    response.renderer_context = {}  # type: ignore[attr-defined]  # what DRF itself sets
    add_headers(response, refusal)
    return response


class ProblemRenderer(JSONRenderer):
    """JSON under the problem document's media type."""

    media_type = "application/problem+json"


def _as_app_error(error: Exception) -> AppError | None:
    if isinstance(error, AppError):
        return error
    if isinstance(error, exceptions.NotAuthenticated | exceptions.AuthenticationFailed):
        return Unauthenticated(str(error.detail))
    if isinstance(error, exceptions.PermissionDenied):
        return PermissionDenied(str(error.detail))
    if isinstance(error, exceptions.NotFound):
        return NotFound(str(error.detail))
    if isinstance(error, exceptions.Throttled):
        return TooManyRequests(str(error.detail))
    if isinstance(error, exceptions.APIException):
        return _Passed(error)
    return explain_failure(error)


class _Passed(AppError):
    """A refusal of DRF's own, such as 405 or 415, with its status."""

    def __init__(self, error: exceptions.APIException) -> None:
        super().__init__(str(error.detail), code=str(error.default_code))
        self.status = error.status_code
        self.title = str(error.default_code).replace("_", " ").capitalize()


def _check_values(body: object) -> None:
    """Reject bodies with too many values, which keep a thread busy, or nested too deeply for code that walks them."""
    waiting, count = [(body, 0)], 0
    while waiting:
        value, depth = waiting.pop()
        inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        count += len(inner)
        if count > MOST_VALUES:
            raise BadRequest(f"The body has more than {MOST_VALUES:,} values.", code="too_many_values")
        if depth > DEEPEST:
            raise BadRequest("The body is nested too deeply.", code="nested_too_deeply")
        waiting.extend((part, depth + 1) for part in inner)
