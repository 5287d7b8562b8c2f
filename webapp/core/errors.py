"""The errors that services raise and interfaces show. Each knows its HTTP status; nothing else does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

Arguments = ParamSpec("Arguments")


class AppError(Exception):
    """A refusal with a message for the person who asked.

    Args:
        message: what is wrong, naming the thing and the way out.
        code: a stable word for programs; the class's own by default.
        errors: problems per field, or a list of them.
        retry_after: seconds after which trying again makes sense, for a 429 or 503.
        extra: further members of the problem document.

    """

    status: int = 400
    title: str = "Bad request"
    default_code: str = "bad_request"
    is_for_want_of_rights: bool = False
    """Whether it says no to who asks, rather than to what is asked; the audit log keeps those."""

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        errors: dict[str, Any] | list[Any] | None = None,
        retry_after: int | None = None,
        **extra: Any,
    ) -> None:
        super().__init__(message)
        self.detail = message
        self.code = code or self.default_code
        self.errors = errors
        self.retry_after = retry_after
        self.extra = extra


def find_refusal(check: Callable[Arguments, object], *args: Arguments.args, **kwargs: Arguments.kwargs) -> str:
    """Return why a check refuses; empty where it passes."""
    try:
        check(*args, **kwargs)
    except AppError as error:
        return error.detail
    return ""


class BadRequest(AppError):
    """The request cannot be read."""


class Unauthenticated(AppError):
    """The request has no valid user."""

    status = 401
    title = "Not signed in"
    is_for_want_of_rights = True
    default_code = "unauthenticated"


class PermissionDenied(AppError):
    """Known, visible, and not allowed."""

    status = 403
    title = "Not allowed"
    is_for_want_of_rights = True
    default_code = "permission_denied"


class NotFound(AppError):
    """Not there, or not to be seen by who asks."""

    status = 404
    title = "Not found"
    default_code = "not_found"


Hidden = TypeVar("Hidden", bound=NotFound)


def hidden(error: Hidden) -> Hidden:
    """Mark what is not found because who asks may not see it, if it is there at all."""
    error.is_for_want_of_rights = True
    return error


class MethodNotAllowed(AppError):
    """The address takes other methods."""

    status = 405
    title = "Nothing to see here"
    default_code = "method_not_allowed"


class Conflict(AppError):
    """It is in another state than the request supposes."""

    status = 409
    title = "Conflict"
    default_code = "conflict"


class Gone(AppError):
    """It was there and will not come back."""

    status = 410
    title = "Gone"
    default_code = "gone"


class PreconditionFailed(AppError):
    """It has changed since the version that If-Match names."""

    status = 412
    title = "Changed since"
    default_code = "precondition_failed"


class TooLarge(AppError):
    """Beyond a stated limit."""

    status = 413
    title = "Too large"
    default_code = "too_large"


class UnsupportedMedia(AppError):
    """The body has a media type or an encoding that the address does not read."""

    status = 415
    title = "Unsupported media type"
    default_code = "unsupported_media_type"


class InvalidInput(AppError):
    """Read, and not acceptable; `errors` names the fields."""

    status = 422
    title = "Invalid input"
    default_code = "invalid_input"


class TooManyRequests(AppError):
    """Asked too often."""

    status = 429
    title = "Too many requests"
    default_code = "too_many_requests"


class Unavailable(AppError):
    """A part that this needs is not up; trying later may help."""

    status = 503
    title = "Not available now"
    default_code = "unavailable"


class StorageFull(AppError):
    """There is no room for what was sent."""

    status = 507
    title = "Storage full"
    default_code = "storage_full"


class Broken(AppError):
    """Our fault; the log says what, the answer does not."""

    status = 500
    title = "Server error"
    default_code = "internal"
