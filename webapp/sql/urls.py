"""Pages and endpoints of queries."""

from __future__ import annotations

from django.urls import URLPattern, path

from webapp.sql import api, views

_PAGE = "r/<str:repo>/sql"
_QUERIES = "repositories/<str:repo>/queries"
page_urls: list[URLPattern] = [
    path(_PAGE, views.console, name="repository-sql"),
    path(f"{_PAGE}/save", views.save_check, name="query-save"),
    path(f"{_PAGE}/<int:query_id>", views.show_query, name="query"),
    path(f"{_PAGE}/<int:query_id>/cancel", views.cancel_query, name="query-cancel"),
]
api_urls: list[URLPattern] = [
    path(_QUERIES, api.QueriesView.as_view(), name="api-queries"),
    path(f"{_QUERIES}/<int:query_id>", api.QueryView.as_view(), name="api-query"),
    path(f"{_QUERIES}/<int:query_id>/cancel", api.QueryCancelView.as_view(), name="api-query-cancel"),
    path(f"{_QUERIES}/<int:query_id>/rows", api.QueryRowsView.as_view(), name="api-query-rows"),
    path(f"{_QUERIES}/<int:query_id>/difference", api.QueryDifferenceView.as_view(), name="api-query-difference"),
]
