"""Pages and endpoints of previews."""

from __future__ import annotations

from django.urls import URLPattern, path

from webapp.previews import api, views

_PAGE = "r/<str:repo>/previews/<int:preview_id>"
_PREVIEWS = "repositories/<str:repo>/previews"
_PREVIEW = f"{_PREVIEWS}/<int:preview_id>"
page_urls: list[URLPattern] = [
    path("r/<str:repo>/preview/<path:rest>", views.start_preview, name="preview-start"),
    path(_PAGE, views.show_preview, name="preview"),
    path(f"{_PAGE}/cancel", views.cancel_preview, name="preview-cancel"),
]
api_urls: list[URLPattern] = [
    path(_PREVIEWS, api.PreviewsView.as_view(), name="api-previews"),
    path(_PREVIEW, api.PreviewView.as_view(), name="api-preview"),
    path(f"{_PREVIEW}/cancel", api.PreviewCancelView.as_view(), name="api-preview-cancel"),
    path(f"{_PREVIEW}/log", api.PreviewLogView.as_view(), name="api-preview-log"),
    path(f"{_PREVIEW}/rows", api.PreviewRowsView.as_view(), name="api-preview-rows"),
    path(f"{_PREVIEW}/difference", api.PreviewDifferenceView.as_view(), name="api-preview-difference"),
]
