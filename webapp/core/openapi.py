"""The API's description of itself: what all endpoints share is said here once, the rest beside each view.

A view names its request, its answers, its parameters and the refusals that are its own. From what every endpoint does
(see `ApiView` and `paginate`) follow the Idempotency-Key, the pages of lists and the refusals that any request may meet.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from drf_spectacular.openapi import AutoSchema
from drf_spectacular.plumbing import ComponentRegistry, build_basic_type, build_parameter_type, force_instance
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter
from rest_framework import serializers
from rest_framework.fields import empty

if TYPE_CHECKING:
    from rest_framework.views import APIView

    from webapp.core.filters import ListFilter

PROBLEM_JSON = "application/problem+json"
_OPERATIONS = frozenset({"get", "post", "put", "patch", "delete"})
SENTENCES = {
    400: "The request cannot be read: the message names the member or parameter.",
    401: "The request has no valid user.",
    403: "Known, visible, and not allowed.",
    404: "Not there, or not to be seen by who asks.",
    409: "It is in another state than the request supposes, or the Idempotency-Key is in use.",
    410: "It was there and will not come back.",
    412: "It has changed since the version that If-Match names.",
    413: "Beyond a stated limit.",
    415: "Another media type than this address takes.",
    422: "Read, and not acceptable; `errors` names the fields.",
    429: "Asked too often: Retry-After says when to come back.",
    503: "A part that this needs is not up: Retry-After says when to come back.",
    504: "It has begun and did not end in time: what it does may still happen.",
    507: "There is no room: for what was sent, or on the disk where a read notes that it was asked.",
}


class ProblemSerializer(serializers.Serializer[Any]):
    """Why a request was refused (RFC 9457). Some refusals carry further members, such as `blocked_by` of a merge."""

    type = serializers.CharField(help_text="urn:tributary: and the code")
    title = serializers.CharField()
    status = serializers.IntegerField()
    detail = serializers.CharField(help_text="what is wrong and the way out, for people")
    code = serializers.CharField(help_text="a stable word for programs")
    errors = serializers.JSONField(required=False, help_text="problems by field, or a list of them")  # type: ignore[assignment]  # collected by DRF


def refusals(*statuses: int) -> dict[Any, Any]:
    """Return the refusals that are an endpoint's own, to be put among its responses."""
    return dict.fromkeys(statuses, ProblemSerializer)


def describe_filters(filters: type[ListFilter]) -> list[OpenApiParameter]:
    """Return the parameters by which a list is filtered."""
    return [
        OpenApiParameter(
            name, str, description=offered.words, enum=offered.choices or None, default=offered.default or None
        )
        for name, offered in filters.list_offers().items()
        if offered.in_api
    ]


def list_query_parameters(view: type[APIView], method: str) -> frozenset[str] | None:
    """Return the names of the query parameters that an operation describes; None if the view has no such operation."""
    name = "get" if method == "HEAD" else method.lower()
    if name not in _OPERATIONS or not hasattr(view, name):
        return None
    return _read_query_parameters(view, name)  # type: ignore[arg-type]  # a class can be hashed


@cache
def _read_query_parameters(view: type[APIView], name: str) -> frozenset[str]:
    # An instance of its own: the one of the class may be describing the whole document at this moment.
    schema: ApiSchema = getattr(getattr(view, name), "kwargs", {}).get("schema", ApiSchema)()
    return schema.list_query_parameters(view, name)


class ApiSchema(AutoSchema):  # type: ignore[misc]  # drf-spectacular says nothing of its types
    """One operation as it really answers."""

    def list_query_parameters(self, view: type[APIView], name: str) -> frozenset[str]:
        """Return the names of the query parameters of a view's operation, without describing the rest of it."""
        self.view = view()
        # What drf-spectacular sets before it describes an operation.
        self.view.request, self.view.kwargs = None, {}  # type: ignore[assignment]
        self.method, self.path, self.registry = name.upper(), "", ComponentRegistry()
        return frozenset(
            parameter["name"] for parameter in self._get_parameters() if parameter["in"] == OpenApiParameter.QUERY
        )

    def get_operation(self, *args: Any, **kwargs: Any) -> dict[str, Any] | None:
        """Add what every endpoint has."""
        operation: dict[str, Any] | None = super().get_operation(*args, **kwargs)
        if operation is None:
            return None
        if self.method == "POST":
            operation.setdefault("parameters", []).append(_IDEMPOTENCY_KEY)
        own = {int(status) for status in operation["responses"] if int(status) >= 400}
        problem = self.resolve_serializer(ProblemSerializer, "response").ref
        for status in own | self._shared_refusals(operation):
            content = {PROBLEM_JSON: {"schema": problem}}
            operation["responses"][str(status)] = {"description": SENTENCES[status], "content": content}
        operation["responses"] = dict(sorted(operation["responses"].items()))
        return operation

    def _shared_refusals(self, operation: dict[str, Any]) -> set[int]:
        statuses = {400, 401, 403, 503, 504, 507}
        places = {(parameter["in"], parameter["name"]) for parameter in operation.get("parameters", [])}
        if any(place == "path" for place, _name in places):
            statuses |= {404}
        if any(place == "query" for place, _name in places):
            statuses |= {404, 422}
        if ("header", "If-Match") in places:
            statuses |= {412}
        if "requestBody" in operation:
            statuses |= {413, 415}
        if self.method != "GET":
            statuses |= {404, 409, 422}
        return statuses

    def _map_basic_serializer(self, serializer: Any, direction: Any) -> dict[str, Any]:
        """Say of an answer that every field is there, unless its serializer says `required=False`."""
        schema: dict[str, Any] = super()._map_basic_serializer(serializer, direction)
        if direction == "response":
            for described in schema.get("properties", {}).values():
                described.pop("readOnly", None)
            fields = force_instance(serializer).fields
            names = [
                name
                for name in schema.get("properties", {})
                if fields[name].required or fields[name].read_only or fields[name].default is not empty
            ]
            schema["required"] = sorted(names)
        return schema


_IDEMPOTENCY_KEY = build_parameter_type(
    name="Idempotency-Key",
    schema={**build_basic_type(OpenApiTypes.STR), "minLength": 1, "maxLength": 200},
    location=OpenApiParameter.HEADER,
    description="the same key and request get the same answer for a day, and the work is done once",
)


def finish_document(result: Any, **_context: Any) -> Any:
    """Take out what clients must not be told: marks of drf-spectacular, and parameters' default of an empty text.

    The marks would gather choices under common names. Generated clients send defaults, and an empty parameter is refused.
    """
    if isinstance(result, list):
        return [finish_document(value) for value in result]
    if not isinstance(result, dict):
        return result
    finished = {key: finish_document(value) for key, value in result.items() if key != "x-spec-enum-id"}
    if finished.get("in") == "query" and finished["schema"].get("default") == "":
        del finished["schema"]["default"]
    return finished
