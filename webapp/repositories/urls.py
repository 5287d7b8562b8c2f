"""Routes of repositories."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.urls import path, re_path

from webapp.repositories import api
from webapp.repositories.views import files, history, manage

if TYPE_CHECKING:
    from django.urls import URLPattern, URLResolver

page_urls: list[URLPattern | URLResolver] = [
    path("repositories", manage.repositories, name="repositories"),
    path("repositories/new", manage.new, name="repository-new"),
    path("r/<str:repo>", files.repository),
    path("r/<str:repo>/", files.repository, name="repository"),
    path("r/<str:repo>/tree/<path:rest>", files.tree, name="repository-tree"),
    path("r/<str:repo>/blob/<path:rest>", files.blob, name="repository-blob"),
    path("r/<str:repo>/raw/<path:rest>", files.raw, name="repository-raw"),
    path("r/<str:repo>/find/<path:rest>", files.find, name="repository-find"),
    path("r/<str:repo>/edit/<path:rest>", files.edit, name="repository-edit"),
    path("r/<str:repo>/new/<path:rest>", files.new, name="repository-new-file"),
    path("r/<str:repo>/delete/<path:rest>", files.delete, name="repository-delete-file"),
    path("r/<str:repo>/commits", history.commits, name="repository-history"),
    path("r/<str:repo>/commits/<path:rest>", history.commits, name="repository-commits"),
    path("r/<str:repo>/commit/<str:sha>", history.commit, name="repository-commit"),
    path("r/<str:repo>/compare", history.compare, name="repository-compare"),
    path("r/<str:repo>/branches", history.branches, name="repository-branches"),
    path("r/<str:repo>/branches/options", history.list_options, name="repository-branch-options"),
    path("r/<str:repo>/branches/check", history.check_branch, name="repository-branch-check"),
    path("r/<str:repo>/branches/delete", history.delete_branch, name="repository-branch-delete"),
    path("r/<str:repo>/settings", manage.settings, name="repository-settings"),
    path("r/<str:repo>/settings/members/remove", manage.remove_member, name="repository-member-remove"),
    path("r/<str:repo>/settings/webhooks/remove", manage.remove_webhook, name="repository-webhook-remove"),
    path("r/<str:repo>/settings/protections/remove", manage.remove_protection, name="repository-protection-remove"),
    path("r/<str:repo>/settings/delete", manage.delete, name="repository-delete"),
]
api_urls: list[URLPattern | URLResolver] = [
    path("repositories", api.RepositoriesView.as_view(), name="api-repositories"),
    path("repositories/<str:repo>", api.RepositoryView.as_view(), name="api-repository"),
    path("repositories/<str:repo>/branches", api.BranchesView.as_view(), name="api-branches"),
    path("repositories/<str:repo>/branches/<path:branch>", api.BranchView.as_view(), name="api-branch"),
    path("repositories/<str:repo>/lint", api.LintView.as_view(), name="api-lint"),
    path("repositories/<str:repo>/commits", api.CommitsView.as_view(), name="api-commits"),
    path("repositories/<str:repo>/commits/<str:sha>", api.CommitView.as_view(), name="api-commit"),
    path("repositories/<str:repo>/commits/<str:sha>/statuses", api.StatusesView.as_view(), name="api-commit-statuses"),
    re_path(r"^repositories/(?P<repo>[^/]+)/contents/?$", api.RootContentsView.as_view(), name="api-contents-root"),
    path("repositories/<str:repo>/contents/<path:path>", api.ContentsView.as_view(), name="api-contents"),
    path("repositories/<str:repo>/compare", api.CompareView.as_view(), name="api-compare"),
    path("repositories/<str:repo>/members", api.MembersView.as_view(), name="api-members"),
    path("repositories/<str:repo>/members/<str:username>", api.MemberView.as_view(), name="api-member"),
    path("repositories/<str:repo>/webhooks", api.WebhooksView.as_view(), name="api-webhooks"),
    path("repositories/<str:repo>/webhooks/<int:number>", api.WebhookView.as_view(), name="api-webhook"),
    path(
        "repositories/<str:repo>/webhooks/<int:number>/deliveries", api.DeliveriesView.as_view(), name="api-deliveries"
    ),
    path("repositories/<str:repo>/protections", api.ProtectionsView.as_view(), name="api-protections"),
    path("repositories/<str:repo>/protections/<path:branch>", api.ProtectionView.as_view(), name="api-protection"),
]
