"""Pages and endpoints of comparisons: two ends of a dataset, its changelog, who changed a row, statistics over time."""

from __future__ import annotations

from django.urls import URLPattern, path

from webapp.comparisons import views
from webapp.comparisons.api import history as api

_COMPARE = "datasets/<int:dataset_id>/compare"
page_urls: list[URLPattern] = [
    path(_COMPARE, views.show_compare, name="dataset-compare"),
    path("datasets/<int:dataset_id>/blame", views.show_blame, name="dataset-blame"),
    path("datasets/<int:dataset_id>/trend", views.show_trend, name="dataset-trend"),
    path("datasets/<int:dataset_id>/blame/again", views.blame_again, name="dataset-blame-again"),
    path(f"{_COMPARE}/again", views.compare_again, name="dataset-compare-again"),
    path(f"{_COMPARE}/cancel", views.cancel_compare, name="dataset-compare-cancel"),
]
api_urls: list[URLPattern] = [
    path(_COMPARE, api.DatasetCompare.as_view(), name="api-dataset-compare"),
    path(f"{_COMPARE}/cancel", api.DatasetCompareCancel.as_view(), name="api-dataset-compare-cancel"),
    path(f"{_COMPARE}/rows.csv", api.DatasetCompareCsv.as_view(), name="api-dataset-compare-csv"),
    path(
        f"{_COMPARE}/rows.parquet",
        api.DatasetCompareParquet.as_view(),
        name="api-dataset-compare-parquet",
    ),
    path(f"{_COMPARE}/statistics", api.DatasetCompareStatistics.as_view(), name="api-dataset-compare-statistics"),
    path("datasets/<int:dataset_id>/changelog", api.DatasetChangelog.as_view(), name="api-dataset-changelog"),
    path("datasets/<int:dataset_id>/trend", api.DatasetTrend.as_view(), name="api-dataset-trend"),
    path("datasets/<int:dataset_id>/blame", api.DatasetBlame.as_view(), name="api-dataset-blame"),
]
