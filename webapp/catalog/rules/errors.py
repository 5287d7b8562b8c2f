"""Errors in the words of the Iceberg REST specification: exception → status, type, message.

Which status is sent is a matter of safety. On a 4xx an engine deletes the files it wrote; on a 5xx of a commit it keeps them.
So a 4xx here always means "certainly did not happen".
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from webapp.core.errors import (
    AppError,
    BadRequest,
    Conflict,
    Gone,
    NotFound,
    PermissionDenied,
    Unauthenticated,
    Unavailable,
)


class NoSuchNamespace(NotFound):
    """The namespace of a request is not there, or not for this reader."""

    iceberg_type = "NoSuchNamespaceException"


class NoSuchTable(NotFound):
    """The table of a request is not there, or not for this reader."""

    iceberg_type = "NoSuchTableException"


class SnapshotGone(Gone):
    """The snapshot that a job is pinned to is no longer in the table."""

    iceberg_type = "NotFoundException"


class NoSuchView(NotFound):
    """The view of a request is not there, or not for this reader."""

    iceberg_type = "NoSuchViewException"


class NoSuchPlan(NotFound):
    """The plan of a request is unknown, over, or not this caller's."""

    iceberg_type = "NoSuchPlanIdException"


class NoSuchPlanTask(NotFound):
    """The plan task of a request is unknown, or its plan is over."""

    iceberg_type = "NoSuchPlanTaskException"


class AlreadyExists(Conflict):
    """The name is taken."""

    iceberg_type = "AlreadyExistsException"


class NamespaceNotEmpty(Conflict):
    """Only an empty namespace can be dropped."""

    iceberg_type = "NamespaceNotEmptyException"


class CommitFailed(Conflict):
    """The commit lost a race and certainly did not happen: refresh and try again."""

    iceberg_type = "CommitFailedException"


class Malformed(BadRequest):
    """The request cannot be understood, or asks for something that no state of the table allows."""

    iceberg_type = "BadRequestException"


class IllegalArgument(BadRequest):
    """Java's clients turn this type, and only this, into an IllegalArgumentException."""

    iceberg_type = "IllegalArgumentException"


class Invalid(BadRequest):
    """The request is well formed but breaks a rule of the table format."""

    iceberg_type = "ValidationException"


class Forbidden(PermissionDenied):
    """Not from here: the message says what to do instead."""

    iceberg_type = "ForbiddenException"


class NotAuthorized(Unauthenticated):
    """No token, or one that is unknown or over."""

    iceberg_type = "NotAuthorizedException"


class Unsupported(AppError):
    """An operation of the specification that this catalog does not have and does not list."""

    status = 501
    title = "Not supported"
    default_code = "unsupported"
    iceberg_type = "UnsupportedOperationException"


class DamagedTable(Unavailable):
    """The metadata of this one table cannot be read; no other table is touched by it."""

    iceberg_type = "ServiceUnavailableException"


TYPE_BY_STATUS: Mapping[int, str] = MappingProxyType(
    {
        400: "BadRequestException",
        401: "NotAuthorizedException",
        403: "ForbiddenException",
        404: "NotFoundException",
        406: "UnsupportedOperationException",
        409: "CommitFailedException",
        410: "NotFoundException",
        413: "BadRequestException",
        422: "UnprocessableEntityException",
        429: "TooManyRequestsException",
        503: "ServiceUnavailableException",
        504: "CommitStateUnknownException",
    }
)


def error_body(error: AppError) -> dict[str, Any]:
    """Return the specification's error model for one of our errors."""
    kind = getattr(error, "iceberg_type", None) or TYPE_BY_STATUS.get(error.status, "InternalServerError")
    return error_model(status=error.status, kind=kind, message=str(error.detail))


def error_model(*, status: int, kind: str, message: str) -> dict[str, Any]:
    """Return the specification's error model from its parts. What a message repeats of a request may be no Unicode."""
    readable = message.encode("utf-8", "backslashreplace").decode()
    return {"error": {"message": readable, "type": kind, "code": status}}
