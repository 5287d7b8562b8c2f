"""Routes of repositories."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.urls import path

from webapp.repositories import api
from webapp.repositories.views import git_http

if TYPE_CHECKING:
    from django.urls import URLPattern, URLResolver

page_urls: list[URLPattern | URLResolver] = [
    path("git/<str:name>.git/<path:route>", git_http.serve_git, name="git"),
]
api_urls: list[URLPattern | URLResolver] = [
    path("repositories", api.RepositoriesView.as_view(), name="api-repositories"),
    path("repositories/<str:repo>", api.RepositoryView.as_view(), name="api-repository"),
    path("repositories/<str:repo>/branches", api.BranchesView.as_view(), name="api-branches"),
    path("repositories/<str:repo>/branches/<path:branch>", api.BranchView.as_view(), name="api-branch"),
    path("repositories/<str:repo>/commits", api.CommitsView.as_view(), name="api-commits"),
    path("repositories/<str:repo>/commits/<str:sha>", api.CommitView.as_view(), name="api-commit"),
    path("repositories/<str:repo>/contents", api.ContentsView.as_view(), name="api-contents-root"),
    path("repositories/<str:repo>/contents/", api.ContentsView.as_view()),
    path("repositories/<str:repo>/contents/<path:path>", api.ContentsView.as_view(), name="api-contents"),
    path("repositories/<str:repo>/compare", api.CompareView.as_view(), name="api-compare"),
    path("repositories/<str:repo>/members", api.MembersView.as_view(), name="api-members"),
    path("repositories/<str:repo>/members/<str:username>", api.MemberView.as_view(), name="api-member"),
    path("repositories/<str:repo>/protections", api.ProtectionsView.as_view(), name="api-protections"),
    path("repositories/<str:repo>/protections/<path:branch>", api.ProtectionView.as_view(), name="api-protection"),
]
