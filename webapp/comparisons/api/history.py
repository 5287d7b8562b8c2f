"""REST endpoints of a dataset's history: any two ends compared, changelogs of a range, who changed a row, statistics over time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.response import Response

from webapp.accounts.services import note_reading
from webapp.comparisons import services
from webapp.comparisons.api.rows import (
    FILTERS,
    SCOPE,
    describe_export,
    export,
    find_folder,
    read_row_limit,
    read_rows,
    read_statistics,
)
from webapp.comparisons.diffs import changelog
from webapp.comparisons.queries import blames, ends
from webapp.comparisons.queries.artifacts import artifact_folder
from webapp.comparisons.queries.changelogs import find_range
from webapp.comparisons.queries.trends import find_heads, read_trend
from webapp.comparisons.rules.states import ComparisonState, show_state
from webapp.comparisons.serializers import described
from webapp.comparisons.serializers.history import (
    BlameSerializer,
    ChangelogSerializer,
    ComparedEndsSerializer,
    DatasetComparisonSerializer,
    TrendSerializer,
)
from webapp.core.api import ApiView
from webapp.core.errors import Conflict, InvalidInput
from webapp.core.openapi import refusals
from webapp.datasets import queries as datasets

if TYPE_CHECKING:
    from django.http import StreamingHttpResponse
    from rest_framework.request import Request

    from jobs.protocol import ExportFormat
    from webapp.comparisons.models import Comparison
    from webapp.comparisons.queries.changelogs import SnapshotRange
    from webapp.comparisons.queries.ends import ComparedEnds
    from webapp.datasets.models import Dataset

ENDS = [
    OpenApiParameter("from", str, required=True, description="a branch or a transaction"),
    OpenApiParameter("to", str, required=True, description="a branch or a transaction"),
    OpenApiParameter(
        "keys",
        str,
        many=True,
        description="identifier columns, each by its own or separated by commas; default: by pipeline.toml",
    ),
]


def read_keys(request: Request) -> list[str] | None:
    """Return the identifier columns that an address names; None where it leaves them to others.

    Raises:
        InvalidInput: an empty list.

    """
    texts = request.GET.getlist("keys")
    if not texts:
        return None
    keys = [name.strip() for text in texts for name in text.split(",") if name.strip()]
    if not keys:
        message = "Name at least one identifier column, or leave keys out."
        raise InvalidInput(message, code="no_columns", errors={"keys": [message]})
    return keys


REFUSED = (409, 410, 422, 429)
"""With what a look at a dataset's history may be refused: an end that is no state of it, one that is gone, bad input, a crowd."""
CHANGELOG = [
    OpenApiParameter("branch", str, description="default: master"),
    OpenApiParameter(
        "keys",
        str,
        many=True,
        description="identifier columns, each by its own or separated by commas; without them net changes",
    ),
    OpenApiParameter("start", str, description="exclusive: a transaction, a snapshot id, or earliest (default)"),
    OpenApiParameter("end", str, description="inclusive: a transaction or a snapshot id; default: the branch's head"),
    OpenApiParameter("images", str, enum=["first", "latest"], description="with keys: which change of a key is listed"),
    OpenApiParameter("cursor", str),
    OpenApiParameter("limit", int),
]


TREND = [
    OpenApiParameter("branch", str, description="beside master; default: master alone"),
    OpenApiParameter("transaction", str, description="in place of a branch: the one to end with"),
    OpenApiParameter("column", str, description="of which figures are wanted, too"),
]
BLAME = [
    OpenApiParameter("branch", str, description="default: master"),
    OpenApiParameter(
        "key.<column>",
        str,
        description="the value of one key column, as rows show it; once for each; empty: the empty text",
    ),
    OpenApiParameter("null", str, many=True, description="a key column whose value is NULL"),
    OpenApiParameter("cursor", str, description="`next` of the answer before: where to go on"),
]


class CompareEndpoint(ApiView):
    """What the endpoints of two ends of a dataset share."""

    repeatable_parameters = frozenset({"keys"})

    def compare(self, request: Request, dataset_id: int, *, action: str = "read") -> ComparedEnds:
        """Find the comparison that the address asks for; the first to ask starts it."""
        dataset = datasets.get_dataset(self.principal, dataset_id, action=action)
        before = ends.find_end(dataset, request.GET.get("from", ""), field="from")
        after = ends.find_end(dataset, request.GET.get("to", ""), field="to")
        keys = read_keys(request)
        sight = ends.see_ends(self.principal, dataset, (before, after), keys=keys)
        rules = ends.read_rules(dataset, branch=after.branch, sight=sight, keys=keys)
        return services.compare_ends(
            dataset=dataset, before=before, after=after, rules=rules, sight=sight, by=self.principal
        )

    def note(self, verb: str, pair: ComparedEnds) -> None:
        """Count a read of the dataset's rows."""
        note_reading(by=self.principal, verb=verb, object=pair.dataset.path, branch=pair.after.branch or "")


class DatasetCompare(CompareEndpoint):
    """GET `/datasets/{id}/compare`, and POST to run a failed one again."""

    takes_body = False

    @extend_schema(
        operation_id="compareDataset",
        parameters=[*ENDS, *FILTERS],
        responses={200: DatasetComparisonSerializer, **refusals(*REFUSED)},
    )
    def get(self, request: Request, dataset_id: int) -> Response:
        """Compare any two branches or transactions: schema, one page of rows, and what lies between.

        The first request starts it; ask again until `state` is ready or failed. What is found is kept: both ends are
        immutable.
        """
        pair = self.compare(request, dataset_id)
        self.note("read_rows", pair)
        return Response(
            {**ComparedEndsSerializer(pair).data, **read_rows(request, pair.comparison, pair.sight, reason=pair.reason)}
        )

    @extend_schema(
        operation_id="compareDatasetAgain",
        parameters=[*ENDS, *FILTERS],
        request=None,
        responses={202: DatasetComparisonSerializer, **refusals(*REFUSED)},
    )
    def post(self, request: Request, dataset_id: int) -> Response:
        """Run a failed or cancelled comparison again."""
        pair = self.compare(request, dataset_id)
        if pair.comparison is not None:
            services.rerun_comparison(comparison=pair.comparison, by=self.principal)
            pair.comparison.refresh_from_db()
        self.note("read_rows", pair)
        shaped = {
            **ComparedEndsSerializer(pair).data,
            **read_rows(request, pair.comparison, pair.sight, reason=pair.reason),
        }
        return Response(shaped, status=202)


class DatasetCompareExport(CompareEndpoint):
    """What both exports share."""

    kind: ExportFormat = "csv"

    def get(self, request: Request, dataset_id: int) -> StreamingHttpResponse:
        """Return the whole diff as a file."""
        pair = self.compare(request, dataset_id)
        folder = find_folder(pair.comparison, path=pair.dataset.path, reason=pair.reason)
        self.note("export_rows", pair)
        return export(
            folder,
            pair.sight,
            kind=self.kind,
            name=f"{dataset_id}-{pair.before.name}-{pair.after.name}".replace("/", "-"),
        )


@describe_export("exportDatasetCompare", kind="csv", parameters=ENDS, refused=REFUSED)
class DatasetCompareCsv(DatasetCompareExport):
    """GET `/datasets/{id}/compare/rows.csv`."""


@describe_export("exportDatasetCompare", kind="parquet", parameters=ENDS, refused=REFUSED)
class DatasetCompareParquet(DatasetCompareExport):
    """GET `/datasets/{id}/compare/rows.parquet`."""

    kind = "parquet"


class DatasetCompareStatistics(CompareEndpoint):
    """GET `/datasets/{id}/compare/statistics`."""

    @extend_schema(
        operation_id="getDatasetCompareStatistics",
        parameters=[*ENDS, SCOPE],
        responses={200: described.StatisticsSerializer, **refusals(*REFUSED)},
    )
    def get(self, request: Request, dataset_id: int) -> Response:
        """Return both sides' statistics per column."""
        pair = self.compare(request, dataset_id)
        folder = find_folder(pair.comparison, path=pair.dataset.path, reason=pair.reason)
        self.note("read_statistics", pair)
        return Response(read_statistics(request, folder, pair.sight))


class DatasetCompareCancel(CompareEndpoint):
    """POST `/datasets/{id}/compare/cancel`."""

    takes_body = False

    @extend_schema(
        operation_id="cancelDatasetCompare",
        parameters=[*ENDS, *FILTERS],
        request=None,
        responses={202: described.RowsSerializer, **refusals(*REFUSED)},
    )
    def post(self, request: Request, dataset_id: int) -> Response:
        """Stop a comparison that is queued or running; whoever may write the dataset may."""
        pair = self.compare(request, dataset_id, action="write")
        if pair.comparison is not None:
            services.cancel_comparison(comparison=pair.comparison, by=self.principal)
            pair.comparison.refresh_from_db()
        self.note("read_rows", pair)
        return Response(read_rows(request, pair.comparison, pair.sight, reason=pair.reason), status=202)


class DatasetChangelog(ApiView):
    """GET `/datasets/{id}/changelog`, and POST to compute a failed one again."""

    takes_body = False
    repeatable_parameters = frozenset({"keys"})

    @extend_schema(
        operation_id="getDatasetChangelog",
        parameters=CHANGELOG,
        responses={200: ChangelogSerializer, **refusals(*REFUSED)},
    )
    def get(self, request: Request, dataset_id: int) -> Response:
        """Return one page of the changelog of a range, with the rows that transforms get.

        The first request starts it; ask again until `state` is ready or failed.
        """
        dataset, span, comparison = self._find(request, dataset_id)
        if comparison.state == ComparisonState.FAILED and comparison.code == "duplicate_rows":
            raise Conflict(comparison.error, code=comparison.code, errors={"keys": [comparison.error]})
        if comparison.state != ComparisonState.READY:
            reason = {"reason": comparison.error, "code": comparison.code} if comparison.error else {}
            return Response({**_describe_unready(dataset, span, show_state(comparison.state)), **reason})
        note_reading(by=self.principal, verb="read_changelog", object=dataset.path, branch=span.branch)
        page = changelog.read_page(
            artifact_folder(comparison),
            span.sight,
            cursor=request.GET.get("cursor") or None,
            limit=read_row_limit(request),
        )
        return Response({**_describe_span(dataset, span), "state": ComparisonState.READY, **page.as_json()})

    @extend_schema(
        operation_id="getDatasetChangelogAgain",
        parameters=CHANGELOG,
        request=None,
        responses={202: ChangelogSerializer, **refusals(429)},
    )
    def post(self, request: Request, dataset_id: int) -> Response:
        """Compute a failed changelog again."""
        dataset, span, comparison = self._find(request, dataset_id)
        services.rerun_comparison(comparison=comparison, by=self.principal)
        return Response(_describe_unready(dataset, span, ComparisonState.RUNNING), status=202)

    def _find(self, request: Request, dataset_id: int) -> tuple[Dataset, SnapshotRange, Comparison]:
        dataset = datasets.get_dataset(self.principal, dataset_id)
        span = find_range(
            self.principal,
            dataset,
            branch=request.GET.get("branch", ""),
            start=request.GET.get("start", ""),
            end=request.GET.get("end", ""),
            keys=read_keys(request),
            images=request.GET.get("images", "first"),
        )
        return dataset, span, services.request_changelog(dataset=dataset, span=span, by=self.principal)


def _describe_span(dataset: Dataset, span: SnapshotRange) -> dict[str, Any]:
    return {"dataset": dataset.pk, "path": dataset.path, "branch": span.branch, **span.as_json()}


def _describe_unready(dataset: Dataset, span: SnapshotRange, state: str) -> dict[str, Any]:
    return {**_describe_span(dataset, span), "state": state, "columns": [], "rows": [], "next": None}


class DatasetTrend(ApiView):
    """GET `/datasets/{id}/trend`."""

    @extend_schema(
        operation_id="getDatasetTrend",
        parameters=TREND,
        responses={200: TrendSerializer, **refusals(409, 422)},
    )
    def get(self, request: Request, dataset_id: int) -> Response:
        """Return the last transactions that led to a branch and to master, with the rows of each and what is known of a column.

        Nothing is measured for it: the figures of a column come from stored row diffs that measured the whole table.
        """
        dataset = datasets.get_dataset(self.principal, dataset_id)
        heads = find_heads(
            dataset, branch=request.GET.get("branch", ""), transaction=request.GET.get("transaction", "")
        )
        trend = read_trend(self.principal, dataset, heads, column=request.GET.get("column", ""))
        note_reading(
            by=self.principal, verb="read_statistics", object=dataset.path, branch=request.GET.get("branch", "")
        )
        return Response(TrendSerializer(trend).data)


class DatasetBlame(ApiView):
    """GET `/datasets/{id}/blame`, and POST to look again after a failure."""

    takes_body = False
    repeatable_parameters = frozenset({"null"})

    def may_be_empty(self, name: str) -> bool:
        """Allow the empty text as the value of a key column."""
        return name.startswith(blames.PREFIX)

    @extend_schema(
        operation_id="getDatasetBlame",
        parameters=BLAME,
        responses={200: BlameSerializer, **refusals(*REFUSED)},
    )
    def get(self, request: Request, dataset_id: int) -> Response:
        """Return the transactions that changed one row, newest first, each with its job, its commit and both images.

        The first request starts it; ask again until `state` is ready or failed. A long history is walked in steps:
        `next` is the cursor to go on with.
        """
        walk = self._walk(request, dataset_id)
        comparison = services.request_blame(walk=walk, by=self.principal)
        if comparison.state == ComparisonState.FAILED and comparison.code == "bad_rules":
            raise InvalidInput(comparison.error, code="bad_key", errors={"key": [comparison.error]})
        self.note(walk)
        return Response(BlameSerializer(blames.RowBlame(walk, comparison)).data)

    @extend_schema(
        operation_id="getDatasetBlameAgain",
        parameters=BLAME,
        request=None,
        responses={202: BlameSerializer, **refusals(*REFUSED)},
    )
    def post(self, request: Request, dataset_id: int) -> Response:
        """Look again after a failure."""
        walk = self._walk(request, dataset_id)
        comparison = services.request_blame(walk=walk, by=self.principal)
        services.rerun_comparison(comparison=comparison, by=self.principal)
        comparison.refresh_from_db()
        self.note(walk)
        return Response(BlameSerializer(blames.RowBlame(walk, comparison)).data, status=202)

    def note(self, walk: blames.Walk) -> None:
        """Count a read of the row's history."""
        note_reading(by=self.principal, verb="read_history", object=walk.dataset.path, branch=walk.branch)

    def _walk(self, request: Request, dataset_id: int) -> blames.Walk:
        dataset = datasets.get_dataset(self.principal, dataset_id)
        return blames.find_walk(
            self.principal,
            dataset,
            branch=request.GET.get("branch", ""),
            key=blames.read_key(request.GET),
            cursor=request.GET.get("cursor", ""),
        )
