"""The REST API of datasets, their branches, transactions, schema and rows."""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.response import Response

from webapp.accounts import services as accounts
from webapp.core.api import ApiView
from webapp.core.errors import BadRequest
from webapp.core.inputs import read_input
from webapp.core.numbers import read_count
from webapp.core.openapi import describe_filters, refusals
from webapp.core.pagination import paginate, read_limit
from webapp.datasets import queries, services
from webapp.datasets import serializers as shapes
from webapp.datasets.queries.details import check_undamaged, get_schema, list_branches
from webapp.datasets.queries.history import list_line
from webapp.datasets.queries.preview import PreviewRequest, read_preview
from webapp.datasets.rules.row_search import LANGUAGE

if TYPE_CHECKING:
    from rest_framework.request import Request

    from webapp.datasets.models import Dataset, Transaction

BRANCH = OpenApiParameter("branch", str, description="default: master")
TRANSACTION = OpenApiParameter("transaction", str, description="a committed one, instead of a branch")


class DatasetEndpoint(ApiView):
    """An endpoint below one dataset that the caller may see."""

    def find(self, dataset_id: int, *, action: str = "read", branch: str | None = None) -> Dataset:
        """Return the dataset of the address, if the caller may use it so."""
        return queries.get_dataset(self.principal, dataset_id, action=action, branch=branch)

    def view_of(self, request: Request) -> dict[str, str | None]:
        """Return the branch or the transaction asked for."""
        return {
            "branch": request.query_params.get("branch") or None,
            "transaction": request.query_params.get("transaction") or None,
        }


class DatasetsView(ApiView):
    """All datasets that the caller may see."""

    @extend_schema(parameters=describe_filters(queries.DatasetFilter), responses=shapes.DatasetSerializer(many=True))
    def get(self, request: Request) -> Response:
        """List datasets by path."""
        datasets = queries.list_datasets(self.principal, queries.DatasetFilter.read_api(request.query_params))
        return Response(paginate(request._request, datasets, shapes.DatasetSerializer, look_up=_look_up))

    @extend_schema(request=shapes.NewDatasetSerializer, responses={201: shapes.DatasetSerializer})
    def post(self, request: Request) -> Response:  # noqa: ARG002 - DRF's signature
        """Make an empty dataset with its branch master. A folder that nobody claimed becomes the caller's."""
        fields = read_input(shapes.NewDatasetSerializer, self.body)
        dataset = services.create_dataset(**fields, by=self.principal)
        response = Response(shapes.DatasetSerializer(dataset, context=_look_up([dataset])).data, status=201)
        response["Location"] = f"/api/v1/datasets/{dataset.pk}"
        return response


class DatasetView(DatasetEndpoint):
    """One dataset."""

    @extend_schema(responses=shapes.DatasetDetailSerializer)
    def get(self, request: Request, dataset_id: int) -> Response:  # noqa: ARG002 - DRF's signature
        """Describe it, with its branches."""
        dataset = self.find(dataset_id)
        return Response(shapes.DatasetDetailSerializer(dataset, context=_look_up([dataset])).data)


def _look_up(datasets: list[Dataset]) -> dict[str, Any]:
    return {"with_jobspec": queries.list_with_jobspec(dataset.path for dataset in datasets)}


class DatasetBranchesView(DatasetEndpoint):
    """The branches of a dataset."""

    @extend_schema(responses=shapes.DatasetBranchSerializer(many=True))
    def get(self, request: Request, dataset_id: int) -> Response:
        """List branches by name."""
        branches = list_branches(self.find(dataset_id))
        return Response(paginate(request._request, branches, shapes.DatasetBranchSerializer))

    @extend_schema(request=shapes.NewDatasetBranchSerializer, responses={201: shapes.DatasetBranchSerializer})
    def post(self, request: Request, dataset_id: int) -> Response:  # noqa: ARG002 - DRF's signature
        """Make a branch off a branch, from any transaction, or as a root. Nothing is copied."""
        fields = read_input(shapes.NewDatasetBranchSerializer, self.body)
        dataset = self.find(dataset_id, action="write", branch=fields["name"])
        branch = services.create_branch(dataset=dataset, **fields, by=self.principal)
        return Response(shapes.DatasetBranchSerializer(branch).data, status=201)


class DatasetBranchView(DatasetEndpoint):
    """One branch of a dataset."""

    @extend_schema(responses=shapes.DatasetBranchSerializer)
    def get(self, request: Request, dataset_id: int, branch: str) -> Response:  # noqa: ARG002 - DRF's signature
        """Describe it."""
        pointer = queries.get_branch(self.find(dataset_id), branch)
        return Response(shapes.DatasetBranchSerializer(pointer).data)

    @extend_schema(
        request=shapes.BranchParentSerializer, responses={200: shapes.DatasetBranchSerializer, **refusals(409)}
    )
    def patch(self, request: Request, dataset_id: int, branch: str) -> Response:  # noqa: ARG002 - DRF's signature
        """Set its parent, null for a root. Only the ancestry record changes; no transaction moves."""
        fields = read_input(shapes.BranchParentSerializer, self.body)
        dataset = self.find(dataset_id, action="write", branch=branch)
        moved = services.set_parent(dataset=dataset, name=branch, **fields, by=self.principal)
        return Response(shapes.DatasetBranchSerializer(moved).data)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, dataset_id: int, branch: str) -> Response:  # noqa: ARG002 - DRF's signature
        """Delete the pointer; its transactions stay, its children hang off its parent, and it can be restored for a time."""
        dataset = self.find(dataset_id, action="write", branch=branch)
        services.delete_branch(dataset=dataset, name=branch, by=self.principal)
        return Response(status=204)


class DeletedBranchesView(DatasetEndpoint):
    """The deleted branches of a dataset that can be restored."""

    @extend_schema(responses=shapes.DeletedBranchSerializer(many=True))
    def get(self, request: Request, dataset_id: int) -> Response:
        """List them, the last deleted first."""
        branches = queries.list_deleted_branches(self.find(dataset_id))
        return Response(paginate(request._request, branches, shapes.DeletedBranchSerializer))


class DeletedBranchRestoreView(DatasetEndpoint):
    """Bringing a deleted branch back."""

    takes_body = False

    @extend_schema(request=None, responses={201: shapes.DatasetBranchSerializer})
    def post(self, request: Request, dataset_id: int, deleted_id: int) -> Response:  # noqa: ARG002 - DRF's signature
        """Restore a deleted branch with its transactions, where it stood."""
        dataset = self.find(dataset_id)
        deletion = queries.get_deleted_branch(dataset, deleted_id)
        self.find(dataset_id, action="write", branch=deletion.name)
        branch = services.restore_branch(deletion=deletion, by=self.principal)
        return Response(shapes.DatasetBranchSerializer(branch).data, status=201)


class TransactionsView(DatasetEndpoint):
    """The transactions of a dataset."""

    @extend_schema(parameters=[BRANCH], responses=shapes.TransactionSerializer(many=True))
    def get(self, request: Request, dataset_id: int) -> Response:
        """List transactions, newest first: those that led to what a branch shows, inherited ones included, or all.

        A table that cannot be read is a 503 that names the damage: nothing that is listed could be read.
        """
        dataset = self.find(dataset_id)
        check_undamaged(dataset)
        branch = request.query_params.get("branch", "")
        transactions = list_line(dataset, branch=branch) if branch else queries.list_transactions(dataset)
        return Response(paginate(request._request, transactions, shapes.TransactionSerializer))

    @extend_schema(request=shapes.NewTransactionSerializer, responses={201: shapes.TransactionSerializer})
    def post(self, request: Request, dataset_id: int) -> Response:  # noqa: ARG002 - DRF's signature
        """Start a transaction: write into it by upload, or with its staging branch as X-PLTR-Branch."""
        fields = read_input(shapes.NewTransactionSerializer, self.body)
        dataset = self.find(dataset_id, action="write", branch=fields["branch"])
        opened = services.start_transaction(dataset=dataset, **fields, by=self.principal)
        response = Response(shapes.TransactionSerializer(opened).data, status=201)
        response["Location"] = f"/api/v1/datasets/{dataset.pk}/transactions/{opened.pk}"
        return response


class TransactionEndpoint(DatasetEndpoint):
    """An endpoint below one transaction."""

    def find_writable(self, dataset_id: int, transaction: str) -> Transaction:
        """Return the transaction, if the caller may write where it is."""
        written = queries.get_transaction(self.find(dataset_id), transaction)
        self.find(dataset_id, action="write", branch=written.branch_name)
        return written


class TransactionView(TransactionEndpoint):
    """One transaction."""

    @extend_schema(responses=shapes.TransactionSerializer)
    def get(self, request: Request, dataset_id: int, transaction: str) -> Response:  # noqa: ARG002 - DRF's signature
        """Describe it."""
        row = queries.get_transaction(self.find(dataset_id), transaction)
        return Response(shapes.TransactionSerializer(row).data)


class TransactionCommitView(TransactionEndpoint):
    """The end of a transaction, with effect."""

    takes_body = False

    @extend_schema(request=None, responses=shapes.TransactionSerializer)
    def post(self, request: Request, dataset_id: int, transaction: str) -> Response:  # noqa: ARG002 - DRF's signature
        """Make what was written visible on the branch, all at once; its opener and maintainers may."""
        opened = self.find_writable(dataset_id, transaction)
        committed = services.commit_by_hand(transaction=opened, by=self.principal)
        return Response(shapes.TransactionSerializer(committed).data)


class TransactionAbortView(TransactionEndpoint):
    """The end of a transaction, without effect."""

    takes_body = False

    @extend_schema(request=None, responses=shapes.TransactionSerializer)
    def post(self, request: Request, dataset_id: int, transaction: str) -> Response:  # noqa: ARG002 - DRF's signature
        """Drop what was written; the branch points to the last committed transaction again.

        Its opener and maintainers may; once it is idle (`abortable_at`), whoever may write there.
        """
        opened = self.find_writable(dataset_id, transaction)
        aborted = services.abort_by_hand(transaction=opened, by=self.principal)
        return Response(shapes.TransactionSerializer(aborted).data)


class DatasetSchemaView(DatasetEndpoint):
    """The schema."""

    @extend_schema(parameters=[BRANCH, TRANSACTION], responses={200: shapes.SchemaSerializer, **refusals(409)})
    def get(self, request: Request, dataset_id: int) -> Response:
        """Return the schema, partition spec and sort order of a branch or a transaction."""
        return Response(
            shapes.SchemaSerializer(get_schema(self.principal, self.find(dataset_id), **self.view_of(request))).data
        )


class DatasetPreviewView(DatasetEndpoint):
    """The rows."""

    @extend_schema(
        parameters=[
            BRANCH,
            TRANSACTION,
            OpenApiParameter("q", str, description=f"{LANGUAGE}. A value alone is looked for in every column"),
            OpenApiParameter("sort", str, description="a column; -column in descending order"),
            OpenApiParameter("columns", str, description="names, separated by commas"),
            OpenApiParameter("limit", int),
            OpenApiParameter("cursor", str),
        ],
        responses={200: shapes.PreviewSerializer, **refusals(409)},
    )
    def get(self, request: Request, dataset_id: int) -> Response:
        """Return a page of rows; the first 10,000 can be paged through."""
        dataset = self.find(dataset_id)
        start, limit = _read_cursor(request), read_limit(request._request)
        preview_request = PreviewRequest(
            start=start,
            limit=limit,
            sort=request.query_params.get("sort", ""),
            q=request.query_params.get("q", ""),
            columns=[name for name in request.query_params.get("columns", "").split(",") if name],
        )
        page = read_preview(self.principal, dataset, **self.view_of(request), request=preview_request)
        branch = request.query_params.get("branch", "")
        accounts.note_reading(by=self.principal, verb="read_preview", object=dataset.path, branch=branch)
        following = start + limit if page.has_more else None
        pages = {
            "next": _page_url(request, following),
            "previous": _page_url(request, max(0, start - limit) if start else None),
        }
        return Response(shapes.PreviewSerializer(page, context=pages).data)


def _page_url(request: Request, start: int | None) -> str | None:
    if start is None:
        return None
    query = request.query_params.copy()
    query["cursor"] = base64.urlsafe_b64encode(f"r{start}".encode()).decode().rstrip("=")
    return request.build_absolute_uri(f"{request.path}?{urlencode(list(query.items()))}")


def _read_cursor(request: Request) -> int:
    text = request.query_params.get("cursor", "")
    if not text:
        return 0
    try:
        decoded = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode()
    except (binascii.Error, ValueError):
        decoded = ""
    start = read_count(decoded[1:]) if decoded.startswith("r") else None
    if start is None:
        message = "The cursor is not one of ours. Start from the first page."
        raise BadRequest(message, code="bad_cursor")
    return start
