"""Routes of repositories."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.urls import path

from webapp.repositories.views import git_http

if TYPE_CHECKING:
    from django.urls import URLPattern, URLResolver

page_urls: list[URLPattern | URLResolver] = [
    path("git/<str:name>.git/<path:route>", git_http.serve_git, name="git"),
]
api_urls: list[URLPattern | URLResolver] = []
