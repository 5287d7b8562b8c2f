"""The editor with a preview beside it."""

from __future__ import annotations

import dataclasses
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from django.shortcuts import redirect
from django.views.decorators.http import require_GET, require_POST

from webapp.accounts.permissions import signed_in
from webapp.core import pages
from webapp.core.errors import AppError
from webapp.core.numbers import read_count
from webapp.previews import pages as preview_pages
from webapp.previews import queries, services
from webapp.repositories import queries as repositories
from webapp.repositories.forms import EditForm
from webapp.repositories.pages.editor import edit_page, find_editor_url
from webapp.repositories.pages.frame import split_ref
from webapp.repositories.services import is_changed
from webapp.repositories.views.common import read_drafts, read_open, shows_code

if TYPE_CHECKING:
    from collections.abc import Sequence

    from django.http import HttpRequest, HttpResponse

    from webapp.repositories.pages.editor import EditPage
    from webapp.repositories.services import FileDraft

TEMPLATE, FRAGMENT = "previews/preview.html", "previews/_preview.html"
PLACES = ("page", "difference_page")
"""Parameters of an address that say which page of the rows is shown, of each list."""
COMMIT_FIELDS = ("message", "details", "target", "branch")


@require_POST
@shows_code
def start_preview(request: HttpRequest, repo: str, rest: str) -> HttpResponse:
    """Run what is typed in the editor, without committing it."""
    principal = signed_in(request)
    repository = repositories.get_repository(principal, repo)
    ref, path = split_ref(repository, rest)
    form = EditForm(request.POST)
    left, others = read_open(form), read_drafts(form)
    typed = {name: str(form.data.get(name, "")).replace("\0", "") for name in ("head", *COMMIT_FIELDS)}
    head = typed.pop("head")
    try:
        changed = [draft for draft in (left, *others) if is_changed(draft, repository=repository, head=head)]
        preview = services.start_preview(
            repository=repository,
            branch=ref,
            head=head,
            file=left.target,
            drafts=changed,
            by=principal,
            commit_fields=typed,
        )
    except AppError as error:
        if pages.wants_fragment(request) or error.status in {HTTPStatus.NOT_FOUND, HTTPStatus.FORBIDDEN}:
            raise
        mode = "edit" if left.path else "new"
        page = edit_page(principal, repository, ref, path, mode=mode)
        shown = EditForm(initial={name: form.data.get(name, "") for name in form.fields})
        return _show(request, page, shown, others, refusal=error.detail, status=error.status)
    return redirect("preview", repo, preview.pk)


@require_GET
@shows_code
def show_preview(request: HttpRequest, repo: str, preview_id: int) -> HttpResponse:
    """Show the editor as it was when the preview was asked for, with what came of it; that follows by itself."""
    principal = signed_in(request)
    repository = repositories.get_repository(principal, repo)
    preview = queries.get_preview(principal, repository, preview_id)
    places = {name: read_count(request.GET.get(name, "1"), most=9_999) or 1 for name in PLACES}
    part = preview_pages.read_preview(preview, output=request.GET.get("output", ""), places=places)
    if part.output is not None:
        services.note_rows(preview=preview, by=principal)
    if pages.wants_fragment(request):
        return pages.render(request, FRAGMENT, {"part": part})
    page = preview_pages.read_editor(principal, preview)
    opened = preview_pages.find_open(preview)
    fields = {"path": opened.target, "content": opened.text, "head": preview.head, **preview.commit_fields}
    others = [draft for draft in queries.list_drafts(preview) if draft.target != preview.file]
    return _show(request, page, EditForm(initial=fields), others, part=part)


@require_POST
def cancel_preview(request: HttpRequest, repo: str, preview_id: int) -> HttpResponse:
    """Stop a preview that waits or runs."""
    principal = signed_in(request)
    preview = queries.get_preview(principal, repositories.get_repository(principal, repo), preview_id)

    def action() -> str:
        services.cancel_preview(preview=preview, by=principal)
        return ""

    return pages.act(request, action, back=f"/r/{repo}/previews/{preview_id}")


def _show(
    request: HttpRequest,
    page: EditPage,
    form: EditForm,
    others: Sequence[FileDraft],
    *,
    part: preview_pages.PreviewPart | None = None,
    refusal: str = "",
    status: int = HTTPStatus.OK,
) -> HttpResponse:
    context: dict[str, Any] = {field.name: getattr(page, field.name) for field in dataclasses.fields(page)}
    context |= {"page": page, "repo_bar": page.frame.repo_bar, "nav": page.frame.nav}
    beside = [(draft, find_editor_url(page.frame, draft)) for draft in others]
    context |= {"form": form, "moved": (), "drafts": beside, "changes": None, "part": part, "refusal": refusal}
    return pages.render(request, TEMPLATE, context, status=status)
