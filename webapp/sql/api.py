"""REST endpoints of queries."""

from __future__ import annotations

from typing import TYPE_CHECKING

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.response import Response

from webapp.core.api import ApiView
from webapp.core.errors import BadRequest
from webapp.core.inputs import read_input
from webapp.core.numbers import read_count
from webapp.core.openapi import refusals
from webapp.core.pagination import paginate, read_limit
from webapp.repositories import queries as repositories
from webapp.sql import queries, services
from webapp.sql.serializers import (
    DifferentRowSerializer,
    DifferentRowsSerializer,
    NewQuerySerializer,
    QueryRowsSerializer,
    QuerySerializer,
)

if TYPE_CHECKING:
    from rest_framework.request import Request

    from webapp.repositories.models import Repository
    from webapp.sql.models import Query

DEFAULT_ROWS, MAX_ROWS = 100, 1000
SIDES = ("branch", "base")
PAGING = [OpenApiParameter("cursor", str), OpenApiParameter("limit", int, description="100; at most 1,000")]


class QueryEndpoint(ApiView):
    """What the endpoints of queries share."""

    def find(self, repo: str) -> Repository:
        """Return the repository of the address."""
        return repositories.get_repository(self.principal, repo)

    def find_query(self, repo: str, number: int) -> Query:
        """Return the query of the address."""
        return queries.get_query(self.principal, self.find(repo), number)


class QueriesView(QueryEndpoint):
    """GET and POST `/repositories/{repo}/queries`."""

    @extend_schema(operation_id="listQueries", responses=QuerySerializer(many=True))
    def get(self, request: Request, repo: str) -> Response:
        """List the queries that you ran, newest first; they are kept for a week."""
        return Response(
            paginate(request._request, queries.list_queries(self.principal, self.find(repo)), QuerySerializer)
        )

    @extend_schema(
        operation_id="runQuery",
        request=NewQuerySerializer,
        responses={202: QuerySerializer, **refusals(429)},
    )
    def post(self, _request: Request, repo: str) -> Response:
        """Run SQL over a branch of data, or over two; poll `Location` until `state` is neither queued nor running.

        Tables are datasets, by their path in double quotes, or by its last part where that is one dataset of the
        repository. One statement that reads is taken, of DuckDB's SQL.
        """
        fields = read_input(NewQuerySerializer, self.body)
        query = services.start_query(repository=self.find(repo), by=self.principal, **fields)
        place = f"/api/v1/repositories/{repo}/queries/{query.pk}"
        return Response(QuerySerializer(query).data, status=202, headers={"Location": place})


class QueryView(QueryEndpoint):
    """GET `/repositories/{repo}/queries/{query_id}`."""

    @extend_schema(operation_id="getQuery", responses=QuerySerializer)
    def get(self, _request: Request, repo: str, query_id: int) -> Response:
        """Return a query. Whoever may read the repository and all that it reads sees it."""
        return Response(QuerySerializer(self.find_query(repo, query_id)).data)


class QueryCancelView(QueryEndpoint):
    """POST `/repositories/{repo}/queries/{query_id}/cancel`."""

    takes_body = False

    @extend_schema(operation_id="cancelQuery", request=None, responses={202: QuerySerializer})
    def post(self, _request: Request, repo: str, query_id: int) -> Response:
        """Stop a query that waits or runs; who runs it may, and maintainers."""
        query = self.find_query(repo, query_id)
        services.cancel_query(query=query, by=self.principal)
        query.refresh_from_db()
        return Response(QuerySerializer(query).data, status=202)


class QueryRowsView(QueryEndpoint):
    """GET `/repositories/{repo}/queries/{query_id}/rows`."""

    @extend_schema(
        operation_id="getQueryRows",
        parameters=[*PAGING, OpenApiParameter("side", str, enum=SIDES, description="whose result; the branch's")],
        responses={200: QueryRowsSerializer, **refusals(409, 410)},
    )
    def get(self, request: Request, repo: str, query_id: int) -> Response:
        """Return a page of the rows of a result, of the branch or of its base."""
        query = self.find_query(repo, query_id)
        side = request.GET.get("side", SIDES[0])
        if side not in SIDES:
            message = f"side is {' or '.join(SIDES)}."
            raise BadRequest(message, code="bad_side")
        start, limit = read_place(request)
        is_base = side == "base"
        rows = queries.read_rows(query, start=start, limit=limit, on_base=is_base)
        services.note_rows(query=query, by=self.principal)
        summary = queries.get_summary(query, on_base=is_base)
        page = {
            "columns": summary["columns"],
            "rows": rows,
            "total": summary["rows"],
            "next": turn(start + limit, summary["rows"]),
        }
        return Response(QueryRowsSerializer(page).data)


class QueryDifferenceView(QueryEndpoint):
    """GET `/repositories/{repo}/queries/{query_id}/difference`."""

    @extend_schema(
        operation_id="getQueryDifference",
        parameters=PAGING,
        responses={200: DifferentRowsSerializer, **refusals(409, 410)},
    )
    def get(self, request: Request, repo: str, query_id: int) -> Response:
        """Return how the result differs from that on the base, with a page of the rows that do."""
        query = self.find_query(repo, query_id)
        start, limit = read_place(request)
        difference = queries.get_difference(query)
        rows = queries.read_difference(query, start=start, limit=limit)
        services.note_rows(query=query, by=self.principal)
        page = {
            **difference,
            "rows": DifferentRowSerializer(rows, many=True).data,
            "next": turn(start + limit, difference["lines"]),
        }
        return Response(DifferentRowsSerializer(page).data)


def read_place(request: Request) -> tuple[int, int]:
    """Return at which row a page starts, and how many it has."""
    text = request.GET.get("cursor", "")
    start = read_count(text) if text else 0
    if start is None:
        message = "The cursor is not one of ours. Start from the first page."
        raise BadRequest(message, code="bad_cursor")
    return start, read_limit(request._request, default=DEFAULT_ROWS, most=MAX_ROWS)


def turn(following: int, total: int) -> str | None:
    """Return the cursor of the next page; None behind the last."""
    return str(following) if following < total else None
