"""REST endpoints of previews."""

from __future__ import annotations

from typing import TYPE_CHECKING

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.response import Response

from webapp.core.api import ApiView
from webapp.core.inputs import read_input
from webapp.core.openapi import refusals
from webapp.core.pagination import paginate
from webapp.previews import queries, services
from webapp.previews.serializers import (
    CodePreviewSerializer,
    NewPreviewSerializer,
    PreviewDifferentRowsSerializer,
    PreviewLogSerializer,
    PreviewRowsSerializer,
)
from webapp.repositories import queries as repositories
from webapp.repositories.services import FileDraft
from webapp.sql.api import PAGING, read_place, turn
from webapp.sql.serializers import DifferentRowSerializer

if TYPE_CHECKING:
    from rest_framework.request import Request

    from webapp.previews.models import CodePreview
    from webapp.repositories.models import Repository

OUTPUT = OpenApiParameter("output", str, description="which dataset; the first one")


class PreviewEndpoint(ApiView):
    """What the endpoints of previews share."""

    def find(self, repo: str) -> Repository:
        """Return the repository of the address."""
        return repositories.get_repository(self.principal, repo)

    def find_preview(self, repo: str, number: int) -> CodePreview:
        """Return the preview of the address."""
        return queries.get_preview(self.principal, self.find(repo), number)


class PreviewsView(PreviewEndpoint):
    """GET and POST `/repositories/{repo}/previews`."""

    @extend_schema(operation_id="listPreviews", responses=CodePreviewSerializer(many=True))
    def get(self, request: Request, repo: str) -> Response:
        """List your previews, newest first; they are kept for a day."""
        previews = queries.list_previews(self.principal, self.find(repo))
        return Response(paginate(request._request, previews, CodePreviewSerializer))

    @extend_schema(
        operation_id="previewCode",
        request=NewPreviewSerializer,
        responses={202: CodePreviewSerializer, **refusals(429)},
    )
    def post(self, _request: Request, repo: str) -> Response:
        """Run the light transforms of a file over the first rows of their inputs, without committing it.

        No table is written. Poll `Location` until `state` is neither queued nor running.
        """
        fields = read_input(NewPreviewSerializer, self.body)
        repository = self.find(repo)
        head = fields["head"] or repositories.get_head(repository, fields["branch"])
        drafts = [
            FileDraft(_find_path(repository, head, file["old_path"] or file["path"]), file["path"], file["text"])
            for file in fields["files"]
        ]
        preview = services.start_preview(
            repository=repository,
            branch=fields["branch"],
            head=head,
            file=fields["file"],
            drafts=drafts,
            by=self.principal,
        )
        place = f"/api/v1/repositories/{repo}/previews/{preview.pk}"
        return Response(CodePreviewSerializer(preview).data, status=202, headers={"Location": place})


class PreviewView(PreviewEndpoint):
    """GET `/repositories/{repo}/previews/{preview_id}`."""

    @extend_schema(operation_id="getPreview", responses=CodePreviewSerializer)
    def get(self, _request: Request, repo: str, preview_id: int) -> Response:
        """Return a preview of yours."""
        return Response(CodePreviewSerializer(self.find_preview(repo, preview_id)).data)


class PreviewCancelView(PreviewEndpoint):
    """POST `/repositories/{repo}/previews/{preview_id}/cancel`."""

    takes_body = False

    @extend_schema(operation_id="cancelPreview", request=None, responses={202: CodePreviewSerializer})
    def post(self, _request: Request, repo: str, preview_id: int) -> Response:
        """Stop a preview of yours that waits or runs."""
        preview = self.find_preview(repo, preview_id)
        services.cancel_preview(preview=preview, by=self.principal)
        preview.refresh_from_db()
        return Response(CodePreviewSerializer(preview).data, status=202)


class PreviewLogView(PreviewEndpoint):
    """GET `/repositories/{repo}/previews/{preview_id}/log`."""

    @extend_schema(operation_id="getPreviewLog", responses=PreviewLogSerializer)
    def get(self, _request: Request, repo: str, preview_id: int) -> Response:
        """Return the first lines that the transforms have written so far."""
        lines = queries.read_log(self.find_preview(repo, preview_id))
        return Response(PreviewLogSerializer({"lines": [line.text for line in lines]}).data)


class PreviewRowsView(PreviewEndpoint):
    """GET `/repositories/{repo}/previews/{preview_id}/rows`."""

    @extend_schema(
        operation_id="getPreviewRows",
        parameters=[*PAGING, OUTPUT],
        responses={200: PreviewRowsSerializer, **refusals(409, 410)},
    )
    def get(self, request: Request, repo: str, preview_id: int) -> Response:
        """Return a page of the rows that were written to a dataset."""
        preview = self.find_preview(repo, preview_id)
        start, limit = read_place(request)
        number, output = queries.find_output(preview, request.GET.get("output", ""))
        rows = queries.read_rows(preview, number, output, start=start, limit=limit)
        services.note_rows(preview=preview, by=self.principal)
        following = turn(start + limit, output["rows"])
        page = {"columns": output["columns"], "rows": rows, "total": output["rows"], "next": following}
        return Response(PreviewRowsSerializer(page).data)


class PreviewDifferenceView(PreviewEndpoint):
    """GET `/repositories/{repo}/previews/{preview_id}/difference`."""

    @extend_schema(
        operation_id="getPreviewDifference",
        parameters=[*PAGING, OUTPUT],
        responses={200: PreviewDifferentRowsSerializer, **refusals(409, 410)},
    )
    def get(self, request: Request, repo: str, preview_id: int) -> Response:
        """Return how rows differ from those that the committed code writes from the same inputs, with a page of them."""
        preview = self.find_preview(repo, preview_id)
        start, limit = read_place(request)
        number, output = queries.find_output(preview, request.GET.get("output", ""))
        difference = queries.get_difference(output)
        rows = queries.read_difference(preview, number, difference, start=start, limit=limit)
        services.note_rows(preview=preview, by=self.principal)
        page = {
            **difference,
            "rows": DifferentRowSerializer(rows, many=True).data,
            "next": turn(start + limit, difference["lines"]),
        }
        return Response(PreviewDifferentRowsSerializer(page).data)


def _find_path(repository: Repository, head: str, path: str) -> str:
    """Return a path where a commit has a file of it, else nothing: the file is new."""
    return path if repositories.find_kind(repository, head, path) == "file" else ""
