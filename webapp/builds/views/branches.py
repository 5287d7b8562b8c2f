"""Deleted branches that come back with their data."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.contrib import messages
from django.shortcuts import redirect
from django.views.decorators.http import require_POST

from webapp.accounts.permissions import signed_in
from webapp.builds import services
from webapp.core.errors import AppError
from webapp.core.words import counted
from webapp.repositories import queries as repositories

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponse


@require_POST
def restore_branch(request: HttpRequest, name: str) -> HttpResponse:
    """Undo the deletion of a branch."""
    principal = signed_in(request)
    repository = repositories.get_repository(principal, name)
    branch, head, parent = (request.POST.get(field, "") for field in ("name", "head", "parent"))
    try:
        data = services.restore_branch(repository=repository, name=branch, head=head, parent=parent, by=principal)
    except AppError as error:
        messages.error(request, error.detail)
    else:
        for path, reason in data.lost.items():
            messages.warning(request, f"{path} is not back on {branch}: {reason}")
        with_data = f", with its data of {counted(len(data.paths), 'dataset')}" if data.paths else ""
        messages.success(request, f"Branch {branch} is back{with_data}.")
    return redirect("repository-branches", repository.name)
