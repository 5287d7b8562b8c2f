"""What every endpoint of a stored row diff answers, of a pull request or of any two ends of a dataset."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.http import StreamingHttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_view

from webapp.comparisons.diffs import exports, rows, statistics
from webapp.comparisons.diffs.keyed import LIKENESSES
from webapp.comparisons.queries.artifacts import artifact_folder, first_rows_folder
from webapp.comparisons.queries.counts import count_rows
from webapp.comparisons.rules.states import ComparisonState
from webapp.comparisons.serializers.described import RowCountsSerializer, StatisticsSerializer
from webapp.core.errors import AppError, BadRequest, NotFound
from webapp.core.numbers import read_count
from webapp.core.openapi import refusals
from webapp.datasets.rules.row_search import LANGUAGE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from rest_framework.request import Request

    from jobs.protocol import ExportFormat
    from webapp.accounts.rules.sight import RowSight

SEARCH = f"{LANGUAGE}. A value alone is looked for in any part of the key. Either end's value may fit"
KEY = 'the key of a row, its values with commas between them, such as `2013-07-10, UA` or `"Smith, J.", 7`'
FILTERS = [
    OpenApiParameter("change", str, description="inserted, deleted, updated, separated by commas; default: all"),
    OpenApiParameter("column", str, description="rows in which this column differs"),
    OpenApiParameter("q", str, description=SEARCH),
    OpenApiParameter("sort", str, description="a column; -column in descending order; default: by key"),
    OpenApiParameter("cursor", str),
    OpenApiParameter(
        "row",
        str,
        description=f"{KEY}: the page that has this row, in the place of a cursor; 404 where it did not change",
    ),
    OpenApiParameter("like", str, description=f"{KEY}: rows that changed as this one did"),
    OpenApiParameter(
        "alike",
        str,
        enum=list(LIKENESSES),
        description="in what rows are like that one: the columns that changed, or also their values before and after; "
        "default: columns",
    ),
    OpenApiParameter("limit", int),
]
SCOPE = OpenApiParameter("scope", str, enum=["table", "changed"], description="default: the whole table where measured")
MEDIA = {"csv": "text/csv; charset=utf-8", "parquet": "application/vnd.apache.parquet"}


def describe_export(
    operation: str, *, kind: str, parameters: Sequence[OpenApiParameter], refused: Sequence[int] = (410,)
) -> Callable[[Any], Any]:
    """Say of a view that it answers with a file, and with which statuses it may refuse to."""
    content = OpenApiTypes.STR if kind == "csv" else OpenApiTypes.BINARY
    described: Callable[[Any], Any] = extend_schema_view(
        get=extend_schema(
            operation_id=f"{operation}{kind.title()}",
            parameters=list(parameters),
            responses={(200, MEDIA[kind].partition(";")[0]): content, **refusals(*refused)},
        )
    )
    return described


def read_rows(
    request: Request,
    comparison: Any,
    sight: RowSight,
    *,
    reason: str = "",
    find_both: Callable[[Iterable[int]], set[int]] | None = None,
) -> dict[str, Any]:
    """Return one page of a row diff from its stored artifact; before it is ready its state, with the first rows or none.

    Rows whose numbers `find_both` returns are marked as changed by both sides.
    """
    counts = count_rows(comparison, reason=reason)
    if counts.state != ComparisonState.READY:
        first = None if _is_narrowed(request) else _read_first(comparison, sight, limit=read_row_limit(request))
        nothing: dict[str, Any] = {"mode": None, "key": None, "rows": []}
        return {**(first or nothing), "state": counts.state, "summary": RowCountsSerializer(counts).data, "next": None}
    page = rows.read_page(
        artifact_folder(comparison),
        sight,
        change=[kind for kind in request.GET.get("change", "").split(",") if kind],
        column=request.GET.get("column") or None,
        q=request.GET.get("q") or None,
        sort=request.GET.get("sort") or None,
        cursor=request.GET.get("cursor") or None,
        limit=read_row_limit(request),
        row=request.GET.get("row") or None,
        like=request.GET.get("like") or None,
        alike=request.GET.get("alike") or None,
    )
    shaped = {"state": ComparisonState.READY, **page.as_json()}
    if find_both is not None:
        both = find_both(row.n for row in page.rows)
        shaped["rows"] = [{**line, "both": row.n in both} for row, line in zip(page.rows, shaped["rows"], strict=True)]
    return shaped


def _is_narrowed(request: Request) -> bool:
    """Return whether other rows are asked for than the first ones by key, which only the whole can give."""
    return any(request.GET.get(name) for name in ("change", "column", "q", "sort", "cursor", "row", "like"))


def _read_first(comparison: Any, sight: RowSight, *, limit: int) -> dict[str, Any] | None:
    """Return the first rows by key of a diff that still runs; None where there are none to show, yet or any more."""
    folder = first_rows_folder(comparison)
    if folder is None:
        return None
    try:
        page = rows.read_page(folder, sight, limit=limit)
    except AppError:
        # the run began anew in this moment
        return None
    shaped = page.as_json()
    return {name: shaped[name] for name in ("mode", "key", "masked", "rows")}


def read_row_limit(request: Request) -> int:
    """Return the rows a page, within bounds."""
    text = request.GET.get("limit", "")
    if not text:
        return rows.DEFAULT_LIMIT
    number = read_count(text, most=rows.MAX_LIMIT)
    if not number:
        raise BadRequest(f"limit is a number from 1 to {rows.MAX_LIMIT}, not {text!r}.")
    return number


def find_folder(comparison: Any, *, path: str, reason: str = "") -> Path:
    """Return the folder of a finished comparison.

    Raises:
        NotFound: there is none, or not yet.

    """
    if comparison is None or comparison.state != ComparisonState.READY:
        state = count_rows(comparison, reason=reason).state
        raise NotFound(f"{path} has no finished row diff: it is {state}.", code="not_ready")
    return artifact_folder(comparison)


def export(folder: Path, sight: RowSight, *, kind: ExportFormat, name: str) -> StreamingHttpResponse:
    """Answer with the whole diff as a file, without the columns that are hidden from the reader."""
    response = StreamingHttpResponse(exports.export(folder, sight, kind), content_type=MEDIA[kind])
    response["Content-Disposition"] = f'attachment; filename="{name}.{kind}"'
    return response


def read_statistics(request: Request, folder: Path, sight: RowSight) -> dict[str, Any]:
    """Return both sides' statistics per column, over all rows or over the changed ones."""
    text = request.GET.get("scope", "")
    if text not in ("", "table", "changed"):
        raise BadRequest(f"scope is table or changed, not {text!r}.", errors={"scope": ["table or changed."]})
    scope: statistics.Scope | None = "table" if text == "table" else "changed" if text else None
    return dict(StatisticsSerializer(statistics.load_statistics(folder, sight, scope=scope)).data)
