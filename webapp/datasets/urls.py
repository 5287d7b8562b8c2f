"""Routes of datasets: pages and API."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.urls import path

from webapp.datasets import api

if TYPE_CHECKING:
    from django.urls import URLPattern, URLResolver

_DATASET = "datasets/<int:dataset_id>"
_TRANSACTION = f"{_DATASET}/transactions/<str:transaction>"
page_urls: list[URLPattern | URLResolver] = []
api_urls: list[URLPattern | URLResolver] = [
    path("datasets", api.DatasetsView.as_view(), name="api-datasets"),
    path(_DATASET, api.DatasetView.as_view(), name="api-dataset"),
    path(f"{_DATASET}/branches", api.DatasetBranchesView.as_view(), name="api-dataset-branches"),
    path(f"{_DATASET}/branches/<path:branch>", api.DatasetBranchView.as_view(), name="api-dataset-branch"),
    path(f"{_DATASET}/transactions", api.TransactionsView.as_view(), name="api-transactions"),
    path(_TRANSACTION, api.TransactionView.as_view(), name="api-transaction"),
    path(f"{_TRANSACTION}/commit", api.TransactionCommitView.as_view(), name="api-transaction-commit"),
    path(f"{_TRANSACTION}/abort", api.TransactionAbortView.as_view(), name="api-transaction-abort"),
    path(f"{_DATASET}/schema", api.DatasetSchemaView.as_view(), name="api-dataset-schema"),
    path(f"{_DATASET}/preview", api.DatasetPreviewView.as_view(), name="api-dataset-preview"),
]
