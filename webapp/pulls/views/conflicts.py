"""The page on which files that conflict are settled, and what its form does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.contrib import messages
from django.shortcuts import redirect
from django.urls import reverse

from webapp.accounts.permissions import signed_in
from webapp.core import pages
from webapp.core.errors import AppError, Conflict, InvalidInput
from webapp.core.words import counted
from webapp.pulls import services
from webapp.pulls.forms import SettleForm
from webapp.pulls.pages.conflicts import read_page
from webapp.pulls.queries import pulls as queries
from webapp.repositories.views.common import shows_code

if TYPE_CHECKING:
    from collections.abc import Mapping

    from django.http import HttpRequest, HttpResponse

    from webapp.core.principals import Principal
    from webapp.pulls.forms import Settlement
    from webapp.pulls.models import PullRequest

SHOWN_HERE = {"head_moved", "target_moved", "merge_conflict"}
"""Conflicts after which the page shows the files again."""


@shows_code
def settle(request: HttpRequest, repo: str, number: int) -> HttpResponse:
    """Show the files that conflict, or merge the target into the source with what was chosen for each."""
    principal = signed_in(request)
    if request.method != "POST":
        return _show(request, repo, number, chosen={})
    pull = queries.get_pull(principal, repo, number)
    form = SettleForm(request.POST)
    form.is_valid()
    chosen = form.settlements()
    back = f"{reverse('pull', args=[repo, number])}#merge-title"
    try:
        _update(pull, form, chosen, by=principal)
    except InvalidInput as error:
        return _show(request, repo, number, chosen=chosen, error=error)
    except Conflict as error:
        if error.code not in SHOWN_HERE:
            return pages.refuse(request, error, back=back)
        return _show(request, repo, number, chosen=chosen, error=error)
    except AppError as error:
        return pages.refuse(request, error, back=back)
    messages.success(
        request, f"{pull.source} has every commit of {pull.target} now. {counted(len(chosen), 'file')} resolved."
    )
    return redirect(back)


def _update(pull: PullRequest, form: SettleForm, chosen: Mapping[str, Settlement], *, by: Principal) -> None:
    services.update_branch(
        pull=pull,
        by=by,
        expected_head=form.cleaned_data.get("expected_head", ""),
        expected_target=form.cleaned_data.get("expected_target", ""),
        resolutions=[settlement.as_resolution(path) for path, settlement in chosen.items()],
    )


def _show(
    request: HttpRequest,
    repo: str,
    number: int,
    *,
    chosen: Mapping[str, Settlement],
    error: AppError | None = None,
) -> HttpResponse:
    page = read_page(signed_in(request), repo, number, chosen=chosen)
    context = {name: getattr(page, name) for name in page.__dataclass_fields__}
    return pages.render(
        request,
        "pulls/pull-conflicts.html",
        {**context, "error": error, "has_moved": error is not None and error.code in {"head_moved", "target_moved"}},
        status=error.status if error is not None else 200,
    )
