"""Folders, files, the editor."""

from __future__ import annotations

from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_safe

from webapp.accounts.permissions import signed_in
from webapp.core.errors import Conflict, InvalidInput, NotFound
from webapp.core.numbers import read_count
from webapp.repositories import permissions, queries, services
from webapp.repositories.forms import EditForm
from webapp.repositories.pages.editor import diff_drafts, edit_page, find_editor_url, suggest_message
from webapp.repositories.pages.files import blob_page, find_page, tree_page
from webapp.repositories.pages.frame import ref_url, split_ref
from webapp.repositories.views.common import add_refusal, read_drafts, read_open, show, shows_code

if TYPE_CHECKING:
    from collections.abc import Sequence

    from django.http import HttpRequest

    from webapp.core.errors import AppError
    from webapp.git.diff import FileDiff
    from webapp.repositories.models import Repository
    from webapp.repositories.pages.editor import EditPage


@require_safe
@shows_code
def repository(request: HttpRequest, repo: str) -> HttpResponse:
    """Show the files of the default branch, the README and what goes on beside them."""
    principal = signed_in(request)
    page = tree_page(principal, queries.get_repository(principal, repo))
    return show(request, "repositories/tree.html", page)


@require_safe
@shows_code
def tree(request: HttpRequest, repo: str, rest: str) -> HttpResponse:
    """Show a folder at a ref."""
    principal = signed_in(request)
    repository = queries.get_repository(principal, repo)
    ref, path = split_ref(repository, rest)
    if queries.find_kind(repository, queries.get_commit(repository, ref).sha, path) not in ("folder", None):
        return redirect(ref_url(repository, "blob", ref, path))
    return show(request, "repositories/tree.html", tree_page(principal, repository, ref, path))


@require_safe
@shows_code
def blob(request: HttpRequest, repo: str, rest: str) -> HttpResponse:
    """Show a file at a ref."""
    principal = signed_in(request)
    repository = queries.get_repository(principal, repo)
    ref, path = split_ref(repository, rest)
    whole = request.GET.get("lines") == "all"
    if queries.find_kind(repository, queries.get_commit(repository, ref).sha, path) == "folder":
        return redirect(ref_url(repository, "tree", ref, path))
    context = blob_page(principal, repository, ref, path, whole=whole)
    return show(request, "repositories/blob.html", context)


@require_safe
@shows_code
def raw(request: HttpRequest, repo: str, rest: str) -> HttpResponse:
    """Hand a file out as it is, never to be run or shown as a page of ours."""
    repository = queries.get_repository(signed_in(request), repo)
    ref, path = split_ref(repository, rest)
    file = queries.read_blob(repository, ref, path)
    kind = "text/plain; charset=utf-8" if file.is_utf8 and not file.is_binary else "application/octet-stream"
    response = HttpResponse(file.content, content_type=kind)
    response["Content-Disposition"] = f"attachment; filename*=UTF-8''{quote(path.rpartition('/')[2])}"
    response["X-Content-Type-Options"] = "nosniff"
    response["Content-Security-Policy"] = "default-src 'none'; sandbox"
    return response


@require_safe
@shows_code
def find(request: HttpRequest, repo: str, rest: str) -> HttpResponse:
    """List files of a ref to jump to one."""
    principal = signed_in(request)
    repository = queries.get_repository(principal, repo)
    ref, _ = split_ref(repository, rest)
    number = read_count(request.GET.get("page", "")) or 1
    page = find_page(principal, repository, ref, q=request.GET.get("q", "").strip(), page=number)
    return show(request, "repositories/find.html", page)


@shows_code
def edit(request: HttpRequest, repo: str, rest: str) -> HttpResponse:
    """Edit a file and commit it."""
    return _editor(request, repo, rest, mode="edit")


@shows_code
def new(request: HttpRequest, repo: str, rest: str) -> HttpResponse:
    """Write a new file and commit it."""
    return _editor(request, repo, rest, mode="new")


@shows_code
def delete(request: HttpRequest, repo: str, rest: str) -> HttpResponse:
    """Delete a file with a commit."""
    return _editor(request, repo, rest, mode="delete")


def _editor(request: HttpRequest, repo: str, rest: str, *, mode: services.Mode) -> HttpResponse:
    principal = signed_in(request)
    repository = queries.get_repository(principal, repo)
    ref, path = split_ref(repository, rest)
    if request.method != "POST":
        try:
            page = edit_page(principal, repository, ref, path, mode=mode)
        except NotFound as error:
            if error.code != "not_editable":
                raise
            messages.warning(request, error.detail)
            return redirect(ref_url(repository, "blob", ref, path))
        return _show(request, page, EditForm(initial=_initial(page)))
    permissions.check_write(principal, repository)
    place = _OpenFile(repository, ref, path, mode)
    form = EditForm(request.POST)
    drafts = read_drafts(form)
    if "open" in request.POST:
        return _open(request, place, form, drafts)
    if "drop" in request.POST:
        others = [draft for draft in drafts if draft.key != request.POST["drop"]]
        return _show_again(request, place, _unchecked(form), others, status=HTTPStatus.OK)
    if request.POST.get("act") == "preview":
        return _preview(request, place, form, drafts)
    if not form.is_valid():
        return _show_again(request, place, form, drafts, status=InvalidInput.status)
    return _save(request, place, form, drafts)


@dataclass(frozen=True, slots=True)
class _OpenFile:
    """Which file the editor has open."""

    repository: Repository
    ref: str
    path: str
    mode: services.Mode


def _preview(request: HttpRequest, place: _OpenFile, form: EditForm, drafts: list[services.FileDraft]) -> HttpResponse:
    """Show what a commit would change, or what keeps it from being made."""
    try:
        changes = diff_drafts(place.repository, form.data.get("head", ""), (read_open(form), *drafts))
    except InvalidInput as error:
        form.is_valid()
        form.add_error(None, error.detail)
        return _show_again(request, place, form, drafts, status=error.status)
    return _show_again(request, place, _unchecked(form), drafts, status=HTTPStatus.OK, changes=changes)


def _save(request: HttpRequest, place: _OpenFile, form: EditForm, drafts: list[services.FileDraft]) -> HttpResponse:
    repository, path = place.repository, place.path
    edit = _edit(form, path, mode=place.mode, others=tuple(drafts))
    match services.save_file(repository=repository, branch=place.ref, edit=edit, by=signed_in(request)):
        case services.Saved(commit, branch):
            messages.success(request, f"Committed {commit.short} to {branch}.")
            if edit.new_branch:
                return redirect(f"{reverse('pull-new', args=[repository.name])}?{urlencode({'source': branch})}")
            if drafts:
                return redirect("repository-commit", repository.name, commit.sha)
            if place.mode == "delete":
                return redirect(ref_url(repository, "tree", branch, path.rpartition("/")[0]))
            return redirect(ref_url(repository, "blob", branch, edit.saved_path))
        case services.Moved(head, files):
            newest = _start_from(request, head)
            return _show_again(request, place, newest, drafts, moved=files, status=Conflict.status)
        case services.Refused(error):
            _add(form, error)
            return _show_again(request, place, form, drafts, status=error.status)


def _initial(page: EditPage) -> dict[str, Any]:
    return {
        "path": page.path,
        "content": page.content,
        "target": "direct" if page.frame.can_commit else "new",
        "branch": page.suggested_branch,
        "head": page.frame.head,
    }


def _edit(form: EditForm, path: str, *, mode: services.Mode, others: tuple[services.FileDraft, ...]) -> services.Edit:
    fields = form.cleaned_data
    return services.Edit(
        mode=mode,
        path=path,
        target=fields["path"],
        text=fields["content"],
        message=form.full_message,
        head=fields["head"],
        new_branch=fields["branch"] if fields["target"] == "new" else "",
        others=others,
    )


def _open(request: HttpRequest, place: _OpenFile, form: EditForm, drafts: list[services.FileDraft]) -> HttpResponse:
    """Open another file, and carry what was typed so far in the form."""
    left, head = read_open(form), form.data.get("head", "")
    carried = [draft for draft in drafts if draft.key != left.key]
    if left.target and services.is_changed(left, repository=place.repository, head=head):
        carried.append(left)
    key = request.POST["open"]
    draft = next((draft for draft in carried if draft.key == key), None)
    carried = [draft for draft in carried if draft.key != key]
    try:
        page = edit_page(signed_in(request), place.repository, place.ref, place.path, mode=place.mode, head=head)
    except NotFound as error:
        form.is_valid()
        form.add_error(None, error.detail)
        stays = replace(place, path=left.path, mode="edit" if left.path else "new")
        return _show_again(request, stays, form, drafts, status=error.status)
    commit = {name: form.data.get(name, "") for name in ("details", "target", "branch", "head")}
    opened = {"path": draft.target, "content": draft.text} if draft else {}
    message = form.data.get("message", "")
    if message in ("", suggest_message(left.path), _suggest_message(drafts)):
        message = _suggest_message(carried) if carried else ""
    initial = {**_initial(page), **commit, **opened, "message": message}
    return _show(request, page, EditForm(initial=initial), drafts=carried)


def _unchecked(form: EditForm) -> EditForm:
    """Return the form as it was typed, without errors: its author does not commit yet."""
    return EditForm(initial={name: form.data.get(name, "") for name in form.fields})


def _suggest_message(others: Sequence[services.FileDraft]) -> str:
    """Return the message of a commit of the open file and others."""
    return f"Change {len(others) + 1} files"


def _add(form: EditForm, error: AppError) -> None:
    errors: Any = error.errors
    if isinstance(errors, dict) and "name" in errors:
        form.add_error("branch", error.detail)
    elif isinstance(errors, dict) and "changes" in errors:
        form.add_error("path", error.detail)
    else:
        add_refusal(form, error)


def _start_from(request: HttpRequest, newest: str) -> EditForm:
    """Return the form with all that was typed; its author sees the newest version now, so the next attempt starts there."""
    data = request.POST.copy()
    data["head"] = newest
    return EditForm(data)


def _show_again(
    request: HttpRequest,
    place: _OpenFile,
    form: EditForm,
    drafts: list[services.FileDraft],
    *,
    moved: tuple[FileDiff, ...] = (),
    changes: list[FileDiff] | None = None,
    status: int,
) -> HttpResponse:
    """Show the editor again with the text, whatever keeps an edit from being saved; the file may be gone meanwhile."""
    repository, mode = place.repository, place.mode
    if mode == "edit" and queries.find_kind(repository, queries.get_head(repository, place.ref), place.path) != "file":
        mode = "new"
    page = edit_page(signed_in(request), repository, place.ref, place.path, mode=mode)
    return _show(request, page, form, drafts=drafts, moved=moved, changes=changes, status=status)


def _show(
    request: HttpRequest,
    page: EditPage,
    form: EditForm,
    *,
    drafts: Sequence[services.FileDraft] = (),
    moved: tuple[FileDiff, ...] = (),
    changes: list[FileDiff] | None = None,
    status: int = HTTPStatus.OK,
) -> HttpResponse:
    beside = [(draft, find_editor_url(page.frame, draft)) for draft in drafts]
    return show(
        request,
        "repositories/edit.html",
        page,
        status=status,
        form=form,
        moved=moved,
        drafts=beside,
        changes=changes,
    )
