"""Routes of notifications."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.urls import path

from webapp.notices import api, views

if TYPE_CHECKING:
    from django.urls import URLPattern

page_urls: list[URLPattern] = [
    path("inbox", views.inbox, name="inbox"),
    path("inbox/mark", views.mark, name="inbox-mark"),
    path("inbox/<int:notification>", views.follow, name="inbox-follow"),
    path("settings/notifications", views.settings, name="notification-settings"),
    path("r/<str:repo>/watch", views.watch_repository, name="repository-watch"),
    path("datasets/<int:dataset_id>/watch", views.watch_dataset, name="dataset-watch"),
]
api_urls: list[URLPattern] = [
    path("notifications", api.NotificationsView.as_view(), name="api-notifications"),
    path("notifications/mark", api.MarkView.as_view(), name="api-notifications-mark"),
    path("notifications/settings", api.SettingsView.as_view(), name="api-notification-settings"),
    path("repositories/<str:repo>/watch", api.RepositoryWatchView.as_view(), name="api-repository-watch"),
    path("datasets/<int:dataset_id>/watch", api.DatasetWatchView.as_view(), name="api-dataset-watch"),
]
