"""REST endpoints of pull requests, their diffs, reviews and merge."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db import transaction
from django.http import StreamingHttpResponse
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from webapp.accounts.services import note_reading
from webapp.builds.serializers import BuildSerializer
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
from webapp.comparisons.diffs.rows import MAX_LIMIT
from webapp.comparisons.diffs.schema import diff_artifact
from webapp.comparisons.diffs.spread import read_spread
from webapp.comparisons.serializers.described import SchemaDiffSerializer, SpreadSerializer
from webapp.core.api import ApiView
from webapp.core.errors import NotFound
from webapp.core.inputs import read_input
from webapp.core.numbers import read_count
from webapp.core.openapi import describe_filters, refusals
from webapp.core.pagination import paginate
from webapp.core.preconditions import IF_MATCH, check_unchanged, quote_tag
from webapp.pulls import serializers, services
from webapp.pulls.queries import checked, named, queue, threads, timeline
from webapp.pulls.queries import pulls as queries
from webapp.pulls.queries.conflicts import read_conflicts
from webapp.pulls.queries.expected import Expected, check_pull, tag_of_pull, version_of_comment
from webapp.pulls.queries.files import FileList
from webapp.pulls.queries.lineage import read_lineage
from webapp.pulls.queries.lines import follow_lines
from webapp.pulls.queries.lists import PullFilter, list_pulls, list_sorted_by
from webapp.pulls.queries.loads import list_loaded
from webapp.pulls.queries.pending import get_pending, list_pending
from webapp.pulls.queries.places import PlaceReader
from webapp.pulls.queries.reviewers import list_reviewers
from webapp.pulls.queries.three_ways import read_three_ways
from webapp.pulls.queries.verdicts import list_verdicts
from webapp.pulls.rules.checks import judge_query
from webapp.repositories import queries as repositories
from webapp.repositories.serializers import CommitSerializer, FileDiffSerializer

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from jobs.protocol import ExportFormat
    from webapp.pulls.models import Comment, PullDataset, PullRequest
    from webapp.pulls.rules.reviewers import ReviewerStanding

COMPARED = OpenApiParameter(
    "compared",
    str,
    enum=named.NAMES,
    description="base: this branch, with what it started from; inputs: with what the base's code makes of the same "
    "inputs; master: with the target now; since: what the target did since; "
    "before: with what was there before the pull request that this one reverts; "
    "seen: with what the reader's last review saw; default: inputs where it is built, else base",
)


ASKED_USER = OpenApiParameter("user", str, many=True, description="name of a person who is asked")
ASKED_GROUP = OpenApiParameter("group", str, many=True, description="name of a group that is asked")


class PullEndpoint(ApiView):
    """What the endpoints of one pull request share."""

    def find(self, repo: str, number: int) -> Any:
        """Find the pull request that the reader may see."""
        return queries.get_pull(self.principal, repo, number)

    def note_code(self, pull: Any) -> None:
        """Count a read of the code of the pull request's repository."""
        note_reading(by=self.principal, verb="read_code", object=pull.repository.name)

    def find_visible(self, pull: Any) -> dict[str, Any]:
        """Find the datasets whose rows the reader may see: comments quote them."""
        rows = queries.list_dataset_rows(self.principal, pull)
        return {"visible": frozenset(rows.values_list("path", flat=True))}

    def describe(self, pull: PullRequest) -> Any:
        """Write a pull request with everything that decides its merge, as the reader may know it."""
        return serializers.PullDetailSerializer(pull, context={"principal": self.principal}).data

    def find_places(self, pull: PullRequest, comments: Iterable[Comment]) -> dict[str, Any]:
        """Look up what the reader may know of what comments are about, and where their lines are now."""
        comments = list(comments)
        lines = {comment.pk: follow_lines(pull, comment) for comment in comments if (comment.anchor or {}).get("path")}
        return {"places": PlaceReader.of(self.principal, [comment.anchor for comment in comments]), "lines": lines}

    def check_unchanged(self, request: Request, pull: PullRequest) -> None:
        """Refuse an action on another state of the pull request than If-Match names."""
        if "If-Match" in request.headers:
            check_unchanged(request, tag_of_pull(pull))


class PullList(PullEndpoint):
    """GET and POST `/repositories/{repo}/pulls`."""

    @extend_schema(
        operation_id="listPulls",
        parameters=describe_filters(PullFilter),
        responses=serializers.PullSerializer(many=True),
    )
    def get(self, request: Request, repo: str) -> Response:
        """List pull requests, newest first; `state` is open, merged, closed or all."""
        repository = repositories.get_repository(self.principal, repo)
        pulls = list_pulls(self.principal, PullFilter.read_api(request.GET), repository=repository)
        pulls = pulls.prefetch_related(*list_sorted_by())
        return Response(paginate(request._request, pulls, serializers.PullSerializer))

    @extend_schema(
        operation_id="openPull",
        request=serializers.NewPullSerializer,
        responses={201: serializers.PullDetailSerializer},
    )
    def post(self, request: Request, repo: str) -> Response:  # noqa: ARG002 - DRF's signature
        """Open a pull request."""
        repository = repositories.get_repository(self.principal, repo)
        fields = read_input(serializers.NewPullSerializer, self.body)
        pull = services.open_pull(
            repository=repository, by=self.principal, **{"target": repository.default_branch, **fields}
        )
        return Response(self.describe(pull), status=201)


class PullDetail(PullEndpoint):
    """GET and PATCH `/repositories/{repo}/pulls/{n}`."""

    @extend_schema(operation_id="getPull", responses=serializers.PullDetailSerializer)
    def get(self, request: Request, repo: str, number: int) -> Response:  # noqa: ARG002 - DRF's signature
        """Return a pull request with every reason that blocks its merge."""
        return self._answer(self.find(repo, number))

    @extend_schema(
        operation_id="updatePull",
        parameters=[IF_MATCH],
        request=serializers.PullChangeSerializer,
        responses={200: serializers.PullDetailSerializer, **refusals(409)},
    )
    def patch(self, request: Request, repo: str, number: int) -> Response:
        """Change title, body, draft, target or state."""
        pull = self.find(repo, number)
        self.check_unchanged(request, pull)
        changes = read_input(serializers.PullChangeSerializer, self.body)
        expected = Expected.pop(changes)
        services.update_pull(pull=pull, by=self.principal, changes=changes, expected=expected)
        return self._answer(pull)

    def _answer(self, pull: PullRequest) -> Response:
        tag = tag_of_pull(pull)
        response = Response(self.describe(pull))
        response["ETag"] = quote_tag(tag)
        return response


class PullCommits(PullEndpoint):
    """GET `…/commits`."""

    @extend_schema(operation_id="listPullCommits", responses=CommitSerializer(many=True))
    def get(self, request: Request, repo: str, number: int) -> Response:
        """List the commits, newest first."""
        pull = self.find(repo, number)
        commits = repositories.LazyCommits(pull.repository, pull.head_sha, not_in=queries.find_base(pull))
        return Response(paginate(request._request, commits, CommitSerializer))


class PullFiles(PullEndpoint):
    """GET `…/files`."""

    @extend_schema(operation_id="listPullFiles", responses=FileDiffSerializer(many=True))
    def get(self, request: Request, repo: str, number: int) -> Response:
        """List the changed files with their hunks."""
        pull = self.find(repo, number)
        shaped = paginate(request._request, FileList(pull), FileDiffSerializer)
        self.note_code(pull)
        return Response(shaped)


class PullDatasets(PullEndpoint):
    """GET `…/datasets`."""

    @extend_schema(
        operation_id="listPullDatasets",
        parameters=[COMPARED],
        responses=serializers.PullDatasetSerializer(many=True),
    )
    def get(self, request: Request, repo: str, number: int) -> Response:
        """List the datasets that it changes or affects, each with its default comparison or the one that is asked for."""
        pull = self.find(repo, number)
        rows = queries.list_dataset_rows(self.principal, pull)
        compared = {"compared": request.GET.get("compared", "")}

        def look_up(page: Sequence[PullDataset]) -> dict[str, Any]:
            return {**compared, "verdicts": list_verdicts(pull, page)}

        return Response(paginate(request._request, rows, serializers.PullDatasetSerializer, look_up=look_up))


class PullLineage(PullEndpoint):
    """GET `…/lineage`."""

    @extend_schema(operation_id="getPullLineage", responses=serializers.PullLineageSerializer)
    def get(self, request: Request, repo: str, number: int) -> Response:  # noqa: ARG002 - DRF's signature
        """Return what it changes and what is downstream, across repositories, and whose code reads columns that go."""
        pull = self.find(repo, number)
        rows = list(queries.list_dataset_rows(self.principal, pull))
        lineage = read_lineage(self.principal, pull, rows=rows, build=queries.find_latest_build(pull))
        return Response(serializers.PullLineageSerializer(lineage).data)


class PullChecks(PullEndpoint):
    """GET `…/checks`."""

    @extend_schema(operation_id="listPullChecks", responses=serializers.PullCheckSerializer(many=True))
    def get(self, request: Request, repo: str, number: int) -> Response:
        """List what machines say of the head; a query of its own with its newest run, where you may see what it read."""
        pull = self.find(repo, number)
        results = queries.list_checks(pull)

        def look_up(_page: list[Any]) -> dict[str, Any]:
            by_number = {check.pk: check for check in checked.list_query_checks(pull)}
            shown = {number: checked.find_shown_run(self.principal, check) for number, check in by_number.items()}
            return {"checks": by_number, "shown": shown}

        return Response(
            paginate(
                request._request,
                results,
                serializers.PullCheckSerializer,
                look_up=look_up,
                key=lambda check: (check.name, check.dataset),
            )
        )

    @extend_schema(
        operation_id="rerunPullCheck",
        request=serializers.CheckNameSerializer,
        responses={202: serializers.PullCheckSerializer, **refusals(409)},
    )
    def post(self, request: Request, repo: str, number: int) -> Response:  # noqa: ARG002 - DRF's signature
        """Run a check once more that is a query of the head; it runs by itself after each push."""
        pull = self.find(repo, number)
        name = read_input(serializers.CheckNameSerializer, self.body)["name"]
        services.rerun_check(pull=pull, name=name, by=self.principal)
        check = checked.get_query_check(pull, name)
        context = {"checks": {check.pk: check}, "shown": {}}
        result = judge_query(checked.read_fact(check))
        return Response(serializers.PullCheckSerializer(result, context=context).data, status=202)


class PullTimeline(PullEndpoint):
    """GET `…/timeline`."""

    @extend_schema(operation_id="getPullTimeline", responses=serializers.TimelineEntrySerializer(many=True))
    def get(self, request: Request, repo: str, number: int) -> Response:
        """List what happened, oldest first."""
        pull = self.find(repo, number)

        def look_up(page: list[timeline.TimelineEntry]) -> dict[str, Any]:
            comments = [entry.subject for entry in page if entry.kind == "comment"]
            return {**_find_ineligible(pull), **visible, **self.find_places(pull, comments)}

        visible = self.find_visible(pull)
        happened = timeline.TimelineList(pull, visible=visible["visible"])
        return Response(paginate(request._request, happened, serializers.TimelineEntrySerializer, look_up=look_up))


class PullDatasetEndpoint(PullEndpoint):
    """What the endpoints of one dataset of a pull request share."""

    def find_row(self, repo: str, number: int, dataset_id: int) -> Any:
        """Find the dataset of the pull request.

        Raises:
            NotFound: it has no such dataset, or none that one may see.

        """
        rows_ = queries.list_dataset_rows(self.principal, self.find(repo, number))
        row = rows_.filter(dataset__pk=dataset_id).first()
        if row is None:
            raise NotFound(f"Pull request #{number} of {repo} has no dataset {dataset_id}.")
        return row

    def find_shown(self, row: Any) -> Any:
        """Find the comparison that is asked for, or the default one."""
        return named.find_shown(row, self.request.GET.get("compared", ""))

    def note(self, verb: str, row: Any) -> None:
        """Count a read of the dataset's rows."""
        note_reading(by=self.principal, verb=verb, object=row.path, branch=row.pull.source)


class PullDatasetVerdict(PullDatasetEndpoint):
    """POST `…/datasets/{id}/verdict`."""

    @extend_schema(
        operation_id="judgePullDataset",
        request=serializers.NewDatasetVerdictSerializer,
        responses={200: serializers.PullDatasetSerializer, **refusals(409)},
    )
    def post(self, request: Request, repo: str, number: int, dataset_id: int) -> Response:  # noqa: ARG002
        """Accept or reject one dataset as it is now, or take that back."""
        row = self.find_row(repo, number, dataset_id)
        services.judge_dataset(
            row=row, by=self.principal, **read_input(serializers.NewDatasetVerdictSerializer, self.body)
        )
        verdicts = {"verdicts": list_verdicts(row.pull, [row])}
        return Response(serializers.PullDatasetSerializer(row, context=verdicts).data)


class PullUploads(PullEndpoint):
    """GET and POST `…/uploads`."""

    @extend_schema(operation_id="listPullUploads", responses=serializers.LoadedDatasetSerializer(many=True))
    def get(self, request: Request, repo: str, number: int) -> Response:
        """List the datasets that were loaded on the source, and whether merging loads their files on the target."""
        pull = self.find(repo, number)
        rows = queries.list_dataset_rows(self.principal, pull)
        return Response(
            paginate(
                request._request,
                list_loaded(pull, rows),
                serializers.LoadedDatasetSerializer,
                key=lambda loaded: (loaded.row.path,),
            )
        )

    @extend_schema(
        operation_id="choosePullLoad",
        request=serializers.NewLoadSerializer,
        responses={200: serializers.LoadedDatasetSerializer, **refusals(409)},
    )
    def post(self, request: Request, repo: str, number: int) -> Response:  # noqa: ARG002 - DRF's signature
        """Choose whether merging loads the files of a dataset on the target, on top of what it has now."""
        fields = read_input(serializers.NewLoadSerializer, self.body)
        row = queries.get_dataset_row(self.principal, self.find(repo, number), fields.pop("dataset"))
        loaded = services.choose_load(row=row, by=self.principal, **fields)
        return Response(serializers.LoadedDatasetSerializer(loaded).data)


class PullSchema(PullDatasetEndpoint):
    """GET `…/datasets/{id}/schema`."""

    @extend_schema(operation_id="getPullSchema", parameters=[COMPARED], responses=serializers.PullSchemaDiffSerializer)
    def get(self, request: Request, repo: str, number: int, dataset_id: int) -> Response:  # noqa: ARG002 - DRF's signature
        """Return what changed in the schema."""
        row = self.find_row(repo, number, dataset_id)
        shown = self.find_shown(row)
        if shown.comparison is None:
            raise NotFound(f"{row.path} is not compared: {shown.reason}", code="not_compared")
        diff = SchemaDiffSerializer(diff_artifact(shown.comparison.schema))
        return Response({"compared": shown.name, **diff.data})


class PullDatasetRows(PullDatasetEndpoint):
    """GET `…/datasets/{id}/rows`."""

    @extend_schema(
        operation_id="getPullRows",
        parameters=[*FILTERS, COMPARED],
        responses={200: serializers.PullRowsSerializer, **refusals(409, 410, 422)},
    )
    def get(self, request: Request, repo: str, number: int, dataset_id: int) -> Response:
        """Return one page of the row diff from its stored artifact."""
        row = self.find_row(repo, number, dataset_id)
        self.note("read_rows", row)
        shown = self.find_shown(row)

        def find_both(numbers: Iterable[int]) -> set[int]:
            return named.find_both(row, shown, numbers)

        sight = named.see_shown(self.principal, row, shown)
        shaped = read_rows(request, shown.comparison, sight, reason=shown.reason, find_both=find_both)
        return Response({"compared": shown.name, **shaped})


class PullThreeWays(PullDatasetEndpoint):
    """GET `…/datasets/{id}/three-ways`."""

    @extend_schema(
        operation_id="getPullThreeWays",
        parameters=[
            OpenApiParameter("after", int, description="`next` of the page before"),
            OpenApiParameter("limit", int, description=f"1 to {MAX_LIMIT}"),
        ],
        responses={200: serializers.ThreeWaysSerializer, **refusals(409, 410)},
    )
    def get(self, request: Request, repo: str, number: int, dataset_id: int) -> Response:
        """Return rows that both sides have changed since the branch left the target, by the key."""
        row = self.find_row(repo, number, dataset_id)
        after = read_count(request.GET.get("after", "")) or 0
        sight = named.see_shown(self.principal, row, named.find_shown(row))
        ways = read_three_ways(row, sight, after=after, most=read_row_limit(request))
        if ways is None:
            message = (
                f"Which rows of {row.path} both sides have changed is not known: that takes a key, and both comparisons "
                "with what the branch stands on, with all their rows."
            )
            raise NotFound(message, code="not_compared")
        self.note("read_rows", row)
        return Response(serializers.ThreeWaysSerializer(ways).data)


class PullRowsExport(PullDatasetEndpoint):
    """What both exports share."""

    kind: ExportFormat = "csv"

    def get(self, request: Request, repo: str, number: int, dataset_id: int) -> StreamingHttpResponse:  # noqa: ARG002
        """Return the whole diff as a file."""
        row = self.find_row(repo, number, dataset_id)
        shown = self.find_shown(row)
        folder = find_folder(shown.comparison, path=row.path, reason=shown.reason)
        self.note("export_rows", row)
        sight = named.see_shown(self.principal, row, shown)
        return export(folder, sight, kind=self.kind, name=f"{repo}-{number}-{dataset_id}-{shown.name}")


@describe_export("exportPullRows", kind="csv", parameters=[COMPARED])
class PullRowsCsv(PullRowsExport):
    """GET `…/rows.csv`."""


@describe_export("exportPullRows", kind="parquet", parameters=[COMPARED])
class PullRowsParquet(PullRowsExport):
    """GET `…/rows.parquet`."""

    kind = "parquet"


class PullSpread(PullDatasetEndpoint):
    """GET `…/datasets/{id}/spread`."""

    @extend_schema(
        operation_id="getPullSpread",
        parameters=[OpenApiParameter("by", str, required=True, description="a column"), COMPARED],
        responses={200: SpreadSerializer, **refusals(410)},
    )
    def get(self, request: Request, repo: str, number: int, dataset_id: int) -> Response:
        """Return how the changed rows spread over the values of a column."""
        row = self.find_row(repo, number, dataset_id)
        shown = self.find_shown(row)
        folder = find_folder(shown.comparison, path=row.path, reason=shown.reason)
        spread = read_spread(folder, named.see_shown(self.principal, row, shown), by=request.GET.get("by", ""))
        self.note("read_statistics", row)
        return Response(SpreadSerializer(spread).data)


class PullStatistics(PullDatasetEndpoint):
    """GET `…/datasets/{id}/statistics`."""

    @extend_schema(
        operation_id="getPullStatistics",
        parameters=[SCOPE, COMPARED],
        responses={200: serializers.PullStatisticsSerializer, **refusals(410)},
    )
    def get(self, request: Request, repo: str, number: int, dataset_id: int) -> Response:
        """Return both sides' statistics per column."""
        row = self.find_row(repo, number, dataset_id)
        shown = self.find_shown(row)
        folder = find_folder(shown.comparison, path=row.path, reason=shown.reason)
        statistics = read_statistics(request, folder, named.see_shown(self.principal, row, shown))
        self.note("read_statistics", row)
        return Response({"compared": shown.name, **statistics})


class PullComments(PullEndpoint):
    """GET and POST `…/comments`."""

    @extend_schema(operation_id="listPullComments", responses=serializers.CommentSerializer(many=True))
    def get(self, request: Request, repo: str, number: int) -> Response:
        """List comments, oldest first."""
        pull = self.find(repo, number)
        comments = pull.comments.select_related("author")

        def look_up(page: list[Comment]) -> dict[str, Any]:
            return {**self.find_visible(pull), **self.find_places(pull, page)}

        return Response(paginate(request._request, comments, serializers.CommentSerializer, look_up=look_up))

    @extend_schema(
        operation_id="addPullComment",
        parameters=[IF_MATCH],
        request=serializers.NewCommentSerializer,
        responses={201: serializers.CommentSerializer, **refusals(409)},
    )
    def post(self, request: Request, repo: str, number: int) -> Response:
        """Comment on the pull request, a line of code or a cell of data."""
        pull = self.find(repo, number)
        self.check_unchanged(request, pull)
        fields = read_input(serializers.NewCommentSerializer, self.body)
        expected = Expected.pop(fields)
        comment = services.add_comment(pull=pull, by=self.principal, expected=expected, **fields)
        context = {**self.find_visible(comment.pull), **self.find_places(comment.pull, [comment])}
        return Response(serializers.CommentSerializer(comment, context=context).data, status=201)


class PullComment(PullEndpoint):
    """GET, PATCH and DELETE `…/comments/{comment_id}`."""

    @extend_schema(operation_id="getPullComment", responses=serializers.CommentDetailSerializer)
    def get(self, request: Request, repo: str, number: int, comment_id: int) -> Response:  # noqa: ARG002
        """Return a comment with what it said before."""
        return self._show(threads.get_comment(self.find(repo, number), comment_id))

    @extend_schema(
        operation_id="editPullComment",
        parameters=[IF_MATCH],
        request=serializers.EditCommentSerializer,
        responses={200: serializers.CommentDetailSerializer, **refusals(409)},
    )
    def patch(self, request: Request, repo: str, number: int, comment_id: int) -> Response:
        """Change what it says, or say whether its thread is dealt with."""
        comment = threads.get_comment(self.find(repo, number), comment_id)
        check_unchanged(request, version_of_comment(comment))
        changes = read_input(serializers.EditCommentSerializer, self.body)
        expected = Expected.pop(changes)
        check_pull(comment.pull, expected)
        with transaction.atomic():
            if "body" in changes:
                comment = services.edit_comment(
                    comment=comment, body=changes["body"], by=self.principal, expected_version=expected.version
                )
            if "resolved" in changes:
                version = "" if "body" in changes else expected.version
                services.resolve_comment(
                    comment=comment, by=self.principal, resolved=changes["resolved"], expected_version=version
                )
        return self._show(comment)

    @extend_schema(operation_id="deletePullComment", parameters=[IF_MATCH], responses={204: None, **refusals(409)})
    def delete(self, request: Request, repo: str, number: int, comment_id: int) -> Response:
        """Take away what it says and said; its replies stay."""
        comment = threads.get_comment(self.find(repo, number), comment_id)
        check_unchanged(request, version_of_comment(comment))
        services.delete_comment(comment=comment, by=self.principal)
        return Response(status=204)

    def _show(self, comment: Comment) -> Response:
        context = {**self.find_visible(comment.pull), **self.find_places(comment.pull, [comment])}
        response = Response(serializers.CommentDetailSerializer(comment, context=context).data)
        response["ETag"] = quote_tag(version_of_comment(comment))
        return response


class PullPendingComments(PullEndpoint):
    """GET, POST and DELETE `…/pending-comments`."""

    @extend_schema(operation_id="listPullPendingComments", responses=serializers.PendingCommentSerializer(many=True))
    def get(self, request: Request, repo: str, number: int) -> Response:
        """List the comments of your review that is not submitted, oldest first. Nobody else sees them."""
        comments = list_pending(self.principal, self.find(repo, number))
        return Response(paginate(request._request, comments, serializers.PendingCommentSerializer))

    @extend_schema(
        operation_id="addPullPendingComment",
        parameters=[IF_MATCH],
        request=serializers.NewCommentSerializer,
        responses={201: serializers.PendingCommentSerializer, **refusals(409)},
    )
    def post(self, request: Request, repo: str, number: int) -> Response:
        """Add a comment to your review; the next verdict that you give submits it."""
        pull = self.find(repo, number)
        self.check_unchanged(request, pull)
        fields = read_input(serializers.NewCommentSerializer, self.body)
        expected = Expected.pop(fields)
        comment = services.add_pending(pull=pull, by=self.principal, expected=expected, **fields)
        return Response(serializers.PendingCommentSerializer(comment).data, status=201)

    @extend_schema(operation_id="discardPullPendingComments", responses={204: None})
    def delete(self, request: Request, repo: str, number: int) -> Response:  # noqa: ARG002
        """Throw your review away that is not submitted."""
        services.discard_review(pull=self.find(repo, number), by=self.principal)
        return Response(status=204)


class PullPendingComment(PullEndpoint):
    """PATCH and DELETE `…/pending-comments/{pending_id}`."""

    @extend_schema(
        operation_id="editPullPendingComment",
        parameters=[IF_MATCH],
        request=serializers.EditPendingSerializer,
        responses={200: serializers.PendingCommentSerializer, **refusals(409)},
    )
    def patch(self, request: Request, repo: str, number: int, pending_id: int) -> Response:
        """Change what it says."""
        comment = get_pending(self.principal, self.find(repo, number), pending_id)
        check_unchanged(request, version_of_comment(comment))
        services.edit_pending(
            comment=comment, by=self.principal, **read_input(serializers.EditPendingSerializer, self.body)
        )
        return Response(serializers.PendingCommentSerializer(comment).data)

    @extend_schema(operation_id="deletePullPendingComment", responses={204: None})
    def delete(self, request: Request, repo: str, number: int, pending_id: int) -> Response:  # noqa: ARG002
        """Take it out of your review."""
        services.delete_pending(
            comment=get_pending(self.principal, self.find(repo, number), pending_id), by=self.principal
        )
        return Response(status=204)


class PullReviews(PullEndpoint):
    """GET and POST `…/reviews`."""

    @extend_schema(operation_id="listPullReviews", responses=serializers.ReviewSerializer(many=True))
    def get(self, request: Request, repo: str, number: int) -> Response:
        """List reviews, oldest first."""
        pull = self.find(repo, number)
        reviews = pull.reviews.select_related("reviewer")
        serializer = serializers.ReviewSerializer
        return Response(paginate(request._request, reviews, serializer, look_up=lambda _page: _find_ineligible(pull)))

    @extend_schema(
        operation_id="addPullReview",
        parameters=[IF_MATCH],
        request=serializers.NewReviewSerializer,
        responses={201: serializers.ReviewSerializer, **refusals(409)},
    )
    def post(self, request: Request, repo: str, number: int) -> Response:
        """Approve, reject or comment; what you have pending is submitted with it."""
        pull = self.find(repo, number)
        self.check_unchanged(request, pull)
        review = services.add_review(
            pull=pull, by=self.principal, **read_input(serializers.NewReviewSerializer, self.body)
        )
        return Response(serializers.ReviewSerializer(review, context=_find_ineligible(pull)).data, status=201)


def _find_ineligible(pull: PullRequest) -> dict[str, Any]:
    return {"ineligible": queries.list_objections(pull)}


class PullReviewers(PullEndpoint):
    """GET, POST and DELETE `…/reviewers`."""

    repeatable_parameters = frozenset({"user", "group"})

    @extend_schema(operation_id="listPullReviewers", responses=serializers.ReviewerSerializer(many=True))
    def get(self, request: Request, repo: str, number: int) -> Response:
        """List who reviewed and who is asked to, with where they stand."""
        return self._list(request, self.find(repo, number))

    @extend_schema(
        operation_id="askPullReviewers",
        request=serializers.ReviewersSerializer,
        responses={200: serializers.ReviewerSerializer(many=True), **refusals(409)},
    )
    def post(self, request: Request, repo: str, number: int) -> Response:
        """Ask people and groups for a review, or again who answered since they were asked."""
        pull = self.find(repo, number)
        services.ask_reviewers(pull=pull, by=self.principal, **read_input(serializers.ReviewersSerializer, self.body))
        return self._list(request, pull)

    @extend_schema(operation_id="unaskPullReviewers", parameters=[ASKED_USER, ASKED_GROUP], responses={204: None})
    def delete(self, request: Request, repo: str, number: int) -> Response:
        """Ask somebody for a review no more."""
        names = {"users": request.GET.getlist("user"), "groups": request.GET.getlist("group")}
        services.unask_reviewers(pull=self.find(repo, number), by=self.principal, **names)
        return Response(status=204)

    @staticmethod
    def _list(request: Request, pull: PullRequest) -> Response:
        reviewers = list_reviewers(pull, uncounted=queries.list_objections(pull))
        reviewers.sort(key=_order_reviewer)
        return Response(paginate(request._request, reviewers, serializers.ReviewerSerializer, key=_order_reviewer))


def _order_reviewer(reviewer: ReviewerStanding) -> tuple[bool, str]:
    return reviewer.is_group, reviewer.name


class PullBuilds(PullEndpoint):
    """POST `…/builds`."""

    @extend_schema(
        operation_id="buildPull",
        request=serializers.NewPullBuildSerializer,
        responses={202: serializers.StartedBuildsSerializer},
    )
    def post(self, request: Request, repo: str, number: int) -> Response:  # noqa: ARG002
        """Build the branch, the base side (the target's code on the same inputs, kept aside), or both."""
        started = services.build_pull(
            pull=self.find(repo, number), by=self.principal, **read_input(serializers.NewPullBuildSerializer, self.body)
        )
        builds = BuildSerializer(started, many=True).data
        response = Response({"builds": builds, **builds[0]}, status=202)
        response["Location"] = f"/api/v1/builds/{started[0].pk}"
        return response


class PullClose(PullEndpoint):
    """POST `…/close`."""

    takes_body = False

    @extend_schema(operation_id="closePull", request=None, responses={200: serializers.PullDetailSerializer})
    def post(self, request: Request, repo: str, number: int) -> Response:  # noqa: ARG002
        """Close without a merge."""
        pull = self.find(repo, number)
        services.close_pull(pull=pull, by=self.principal)
        return Response(self.describe(pull))


class PullReopen(PullEndpoint):
    """POST `…/reopen`."""

    takes_body = False

    @extend_schema(operation_id="reopenPull", request=None, responses={200: serializers.PullDetailSerializer})
    def post(self, request: Request, repo: str, number: int) -> Response:  # noqa: ARG002
        """Open it again."""
        pull = self.find(repo, number)
        services.reopen_pull(pull=pull, by=self.principal)
        return Response(self.describe(pull))


class PullSuggestions(PullEndpoint):
    """POST `…/suggestions`."""

    @extend_schema(
        operation_id="commitSuggestions",
        parameters=[IF_MATCH],
        request=serializers.CommitSuggestionsSerializer,
        responses={201: CommitSerializer, **refusals(409)},
    )
    def post(self, request: Request, repo: str, number: int) -> Response:
        """Commit what comments on lines suggest to the source branch, and resolve their threads."""
        pull = self.find(repo, number)
        self.check_unchanged(request, pull)
        fields = read_input(serializers.CommitSuggestionsSerializer, self.body)
        commit = services.commit_suggestions(pull=pull, by=self.principal, **fields)
        return Response(CommitSerializer(commit).data, status=201)


class PullUpdate(PullEndpoint):
    """POST `…/update`."""

    @extend_schema(
        operation_id="updatePullBranch",
        request=serializers.BranchUpdateSerializer,
        responses={200: serializers.PullDetailSerializer, **refusals(409)},
    )
    def post(self, request: Request, repo: str, number: int) -> Response:  # noqa: ARG002
        """Bring the newest commits of the target into the source branch; `resolutions` settle files that conflict."""
        pull = self.find(repo, number)
        fields = read_input(serializers.BranchUpdateSerializer, self.body)
        services.update_branch(pull=pull, by=self.principal, **fields)
        return Response(self.describe(pull))


class PullConflicts(PullEndpoint):
    """GET `…/conflicts`."""

    @extend_schema(
        operation_id="getPullConflicts",
        responses={200: serializers.ConflictsSerializer, **refusals(409)},
    )
    def get(self, request: Request, repo: str, number: int) -> Response:  # noqa: ARG002 - DRF's signature
        """Return the files that conflict when the target is merged into the source, as `…/update` settles them."""
        pull = self.find(repo, number)
        shaped = serializers.ConflictsSerializer(read_conflicts(pull)).data
        self.note_code(pull)
        return Response(shaped)


class PullRevert(PullEndpoint):
    """POST `…/revert`."""

    takes_body = False

    @extend_schema(
        operation_id="revertPull",
        request=None,
        responses={201: serializers.PullDetailSerializer, **refusals(409)},
    )
    def post(self, request: Request, repo: str, number: int) -> Response:  # noqa: ARG002
        """Open a pull request that takes back what a merged one brought, from a branch that is made for it."""
        revert = services.revert_pull(pull=self.find(repo, number), by=self.principal)
        response = Response(self.describe(revert), status=201)
        response["Location"] = f"/api/v1/repositories/{repo}/pulls/{revert.number}"
        return response


class PullRestoreBranch(PullEndpoint):
    """POST `…/restore-branch`."""

    takes_body = False

    @extend_schema(
        operation_id="restorePullBranch",
        request=None,
        responses={201: serializers.RestoredBranchSerializer, **refusals(409)},
    )
    def post(self, request: Request, repo: str, number: int) -> Response:  # noqa: ARG002
        """Make the deleted source again at the pull request's head, with the data that went with it."""
        pull = self.find(repo, number)
        data = services.restore_source(pull=pull, by=self.principal)
        return Response(serializers.RestoredBranchSerializer(data, context={"pull": pull}).data, status=201)


class PullMerge(PullEndpoint):
    """POST `…/merge`."""

    @extend_schema(
        operation_id="mergePull", request=serializers.NewMergeSerializer, responses={202: serializers.MergeSerializer}
    )
    def post(self, request: Request, repo: str, number: int) -> Response:  # noqa: ARG002
        """Merge the code and start the rebuild of the target's data."""
        merge = services.merge_pull(
            pull=self.find(repo, number), by=self.principal, **read_input(serializers.NewMergeSerializer, self.body)
        )
        response = Response(serializers.MergeSerializer(merge).data, status=202)
        response["Location"] = (
            f"/api/v1/builds/{merge.build.pk}" if merge.build else f"/api/v1/repositories/{repo}/pulls/{number}"
        )
        return response


class PullQueue(PullEndpoint):
    """POST and DELETE `…/queue`."""

    @extend_schema(
        operation_id="queuePull",
        request=serializers.NewQueuedMergeSerializer,
        responses={202: serializers.QueuedMergeSerializer, **refusals(409)},
    )
    def post(self, request: Request, repo: str, number: int) -> Response:  # noqa: ARG002
        """Ask for the merge when it is ready: when nothing blocks it and what would land is built."""
        fields = read_input(serializers.NewQueuedMergeSerializer, self.body)
        queued = services.enqueue_pull(pull=self.find(repo, number), by=self.principal, **fields)
        return Response(serializers.show_queued(queued), status=202)

    @extend_schema(operation_id="unqueuePull", responses={204: None, **refusals(409)})
    def delete(self, request: Request, repo: str, number: int) -> Response:  # noqa: ARG002
        """Ask for it no more."""
        services.leave_queue(pull=self.find(repo, number), by=self.principal)
        return Response(status=204)


class MergeQueue(ApiView):
    """GET `/repositories/{repo}/queue`."""

    @extend_schema(
        operation_id="listQueue",
        parameters=describe_filters(queue.QueueFilter),
        responses=serializers.QueuedMergeSerializer(many=True),
    )
    def get(self, request: Request, repo: str) -> Response:
        """List the merges that are asked for, in the order in which they land."""
        repository = repositories.get_repository(self.principal, repo)
        rows = queue.list_queue(repository, queue.QueueFilter.read_api(request.GET))
        serializer = serializers.QueuedMergeSerializer
        return Response(
            paginate(request._request, rows, serializer, look_up=lambda page: {"places": queue.find_places(page)})
        )
