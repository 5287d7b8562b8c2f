"""Routes of datasets: pages and API."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.urls import path

from webapp.datasets import api, views

if TYPE_CHECKING:
    from django.urls import URLPattern, URLResolver

_DATASET = "datasets/<int:dataset_id>"
_TRANSACTION = f"{_DATASET}/transactions/<str:transaction>"
page_urls: list[URLPattern | URLResolver] = [
    path("datasets", views.list_datasets, name="datasets"),
    path("datasets/new", views.new_dataset, name="dataset-new"),
    path(f"{_DATASET}/branches", views.create_branch, name="dataset-branch-new"),
    path(f"{_DATASET}/branches/delete", views.delete_branch, name="dataset-branch-delete"),
    path(f"{_DATASET}/branches/parent", views.set_branch_parent, name="dataset-branch-parent"),
    path(f"{_DATASET}/branches/restore", views.restore_branch, name="dataset-branch-restore"),
    path(f"{_DATASET}/transactions", views.start_transaction, name="dataset-transaction-new"),
    path(f"{_DATASET}/transactions/commit", views.commit_transaction, name="dataset-transaction-commit"),
    path(f"{_DATASET}/transactions/abort", views.abort_transaction, name="dataset-transaction-abort"),
    path("d/<path:path>", views.show_dataset, name="dataset"),
    path("r/<str:name>/datasets", views.list_repository_datasets, name="repository-datasets"),
]
api_urls: list[URLPattern | URLResolver] = [
    path("datasets", api.DatasetsView.as_view(), name="api-datasets"),
    path(_DATASET, api.DatasetView.as_view(), name="api-dataset"),
    path(f"{_DATASET}/branches", api.DatasetBranchesView.as_view(), name="api-dataset-branches"),
    path(f"{_DATASET}/branches/<path:branch>", api.DatasetBranchView.as_view(), name="api-dataset-branch"),
    path(f"{_DATASET}/deleted-branches", api.DeletedBranchesView.as_view(), name="api-dataset-deleted-branches"),
    path(
        f"{_DATASET}/deleted-branches/<int:deleted_id>/restore",
        api.DeletedBranchRestoreView.as_view(),
        name="api-dataset-deleted-branch-restore",
    ),
    path(f"{_DATASET}/transactions", api.TransactionsView.as_view(), name="api-transactions"),
    path(_TRANSACTION, api.TransactionView.as_view(), name="api-transaction"),
    path(f"{_TRANSACTION}/commit", api.TransactionCommitView.as_view(), name="api-transaction-commit"),
    path(f"{_TRANSACTION}/abort", api.TransactionAbortView.as_view(), name="api-transaction-abort"),
    path(f"{_DATASET}/schema", api.DatasetSchemaView.as_view(), name="api-dataset-schema"),
    path(f"{_DATASET}/preview", api.DatasetPreviewView.as_view(), name="api-dataset-preview"),
]
