"""Folders, files, the editor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_safe

from webapp.accounts.permissions import signed_in
from webapp.core.errors import AppError, Conflict, InvalidInput
from webapp.core.numbers import read_count
from webapp.repositories import queries, services
from webapp.repositories.forms import EditForm
from webapp.repositories.queries import pages as page_queries
from webapp.repositories.views.common import add_refusal, show

if TYPE_CHECKING:
    from django.http import HttpRequest

    from webapp.accounts.rules.principals import Principal
    from webapp.git.diff import FileDiff
    from webapp.git.values import CommitInfo
    from webapp.repositories.queries.pages import EditPage


@require_safe
def repository(request: HttpRequest, repo: str) -> HttpResponse:
    """Show the files of the default branch, the README and what goes on beside them."""
    return show(request, "repositories/tree.html", page_queries.tree_page(signed_in(request), repo))


@require_safe
def tree(request: HttpRequest, repo: str, rest: str) -> HttpResponse:
    """Show a folder at a ref."""
    principal = signed_in(request)
    ref, path = _split(principal, repo, rest)
    found = queries.get_repository(principal, repo)
    if queries.find_kind(found, queries.get_commit(found, ref).sha, path) == "file":
        return redirect(page_queries.ref_url(found, "blob", ref, path))
    return show(request, "repositories/tree.html", page_queries.tree_page(principal, repo, ref, path))


@require_safe
def blob(request: HttpRequest, repo: str, rest: str) -> HttpResponse:
    """Show a file at a ref."""
    principal = signed_in(request)
    ref, path = _split(principal, repo, rest)
    whole = request.GET.get("lines") == "all"
    found = queries.get_repository(principal, repo)
    if queries.find_kind(found, queries.get_commit(found, ref).sha, path) == "folder":
        return redirect(page_queries.ref_url(found, "tree", ref, path))
    context = page_queries.blob_page(principal, repo, ref, path, whole=whole)
    return show(request, "repositories/blob.html", context)


@require_safe
def raw(request: HttpRequest, repo: str, rest: str) -> HttpResponse:
    """Hand a file out as it is, never to be run or shown as a page of ours."""
    principal = signed_in(request)
    ref, path = _split(principal, repo, rest)
    found = queries.read_blob(queries.get_repository(principal, repo), ref, path)
    kind = "application/octet-stream" if found.is_binary else "text/plain; charset=utf-8"
    response = HttpResponse(found.content, content_type=kind)
    response["Content-Disposition"] = f"attachment; filename*=UTF-8''{quote(path.rpartition('/')[2])}"
    response["X-Content-Type-Options"] = "nosniff"
    response["Content-Security-Policy"] = "default-src 'none'; sandbox"
    return response


@require_safe
def find(request: HttpRequest, repo: str, rest: str) -> HttpResponse:
    """List files of a ref to jump to one."""
    principal = signed_in(request)
    ref, _ = _split(principal, repo, rest)
    number = read_count(request.GET.get("page", "")) or 1
    page = page_queries.find_page(principal, repo, ref, q=request.GET.get("q", "").strip(), page=number)
    return show(request, "repositories/find.html", page)


def edit(request: HttpRequest, repo: str, rest: str) -> HttpResponse:
    """Edit a file and commit it."""
    return _editor(request, repo, rest, mode="edit")


def new(request: HttpRequest, repo: str, rest: str) -> HttpResponse:
    """Write a new file and commit it."""
    return _editor(request, repo, rest, mode="new")


def delete(request: HttpRequest, repo: str, rest: str) -> HttpResponse:
    """Delete a file with a commit."""
    return _editor(request, repo, rest, mode="delete")


def _split(principal: Principal, repo: str, rest: str) -> tuple[str, str]:
    return page_queries.split_ref(queries.get_repository(principal, repo), rest)


def _editor(request: HttpRequest, repo: str, rest: str, *, mode: str) -> HttpResponse:
    principal = signed_in(request)
    ref, path = _split(principal, repo, rest)
    if request.method != "POST":
        page = page_queries.edit_page(principal, repo, ref, path, mode=mode)
        return _show(request, page, EditForm(initial=_initial(page)))
    return _save(request, principal, repo, ref, path, mode=mode)


def _initial(page: EditPage) -> dict[str, Any]:
    return {
        "path": page.path,
        "content": page.content,
        "target": "direct" if page.frame.can_commit else "new",
        "branch": page.suggested_branch,
        "head": page.frame.head,
    }


def _save(request: HttpRequest, principal: Principal, repo: str, ref: str, path: str, *, mode: str) -> HttpResponse:
    """Commit what was typed; whatever refuses it, the text stays in the editor."""
    form = EditForm(request.POST)
    moved: tuple[FileDiff, ...] = ()
    status = InvalidInput.status
    if form.is_valid():
        try:
            commit, branch = _commit(principal, repo, ref, path, form, mode=mode)
        except Conflict as error:
            status = error.status
            if error.code == "head_moved":
                newest = str(error.extra["head"])
                moved = _what_moved(principal, repo, path, form, newest)
                form = _start_from(request, newest)
            else:
                _add(form, error)
        except AppError as error:
            status = error.status
            _add(form, error)
        else:
            messages.success(request, f"Committed {commit.short} to {branch}.")
            found = queries.get_repository(principal, repo)
            target = form.cleaned_data["path"] or path
            if mode == "delete":
                return redirect(page_queries.ref_url(found, "tree", branch, path.rpartition("/")[0]))
            return redirect(page_queries.ref_url(found, "blob", branch, target))
    found = queries.get_repository(principal, repo)
    still_there = queries.find_kind(found, queries.get_head(found, ref), path) == "file"
    page = page_queries.edit_page(
        principal, repo, ref, path, mode="new" if mode == "edit" and not still_there else mode
    )
    return _show(request, page, form, moved=moved, status=status)


def _add(form: EditForm, error: AppError) -> None:
    errors: Any = error.errors
    if isinstance(errors, dict) and "name" in errors:
        form.add_error("branch", error.detail)
    elif isinstance(errors, dict) and "changes" in errors:
        form.add_error("path", error.detail)
    else:
        add_refusal(form, error)


def _commit(
    principal: Principal, repo: str, ref: str, path: str, form: EditForm, *, mode: str
) -> tuple[CommitInfo, str]:
    repository = queries.get_repository(principal, repo)
    fields = form.cleaned_data
    change = _change(form, path, mode=mode, crlf=_has_crlf(principal, repo, fields["head"], path, mode))
    if fields["target"] == "new":
        commit = services.commit_to_new_branch(
            repository=repository,
            parent=ref,
            branch=fields["branch"],
            message=form.full_message,
            changes=[change],
            expected_head=fields["head"],
            by=principal,
        )
        return commit, str(fields["branch"])
    head = fields["head"]
    newest = queries.get_head(repository, ref)
    if head != newest and _same_file(principal, repo, head, newest, path):
        # Others changed only other files meanwhile.
        head = newest
    commit = services.commit_files(
        repository=repository,
        branch=ref,
        message=form.full_message,
        changes=[change],
        expected_head=head,
        by=principal,
    )
    return commit, ref


def _change(form: EditForm, path: str, *, mode: str, crlf: bool) -> services.Change:
    if mode == "delete":
        return services.Change(path=path, delete=True)
    text = form.cleaned_data["content"].replace("\r\n", "\n")
    content = (text.replace("\n", "\r\n") if crlf else text).encode()
    target = form.cleaned_data["path"].strip("/") or path
    if mode == "new":
        return services.Change(path=target, content=content)
    return services.Change(path=path, content=content, move_to=target if target != path else None)


def _has_crlf(principal: Principal, repo: str, head: str, path: str, mode: str) -> bool:
    """Browsers send CRLF always; the file keeps the line ends that it had."""
    if mode != "edit":
        return False
    try:
        return b"\r\n" in queries.read_file(queries.get_repository(principal, repo), head, path)
    except AppError:
        return False


def _same_file(principal: Principal, repo: str, head: str, newest: str, path: str) -> bool:
    files = _changed_between(principal, repo, head, newest)
    return all(path not in (file.path, file.old_path) for file in files)


def _changed_between(principal: Principal, repo: str, head: str, newest: str) -> list[FileDiff]:
    return queries.compare(queries.get_repository(principal, repo), head, newest)


def _what_moved(principal: Principal, repo: str, path: str, form: EditForm, newest: str) -> tuple[FileDiff, ...]:
    """Return what others changed in this file."""
    files = _changed_between(principal, repo, form.cleaned_data["head"], newest)
    return tuple(file for file in files if path in (file.path, file.old_path))


def _start_from(request: HttpRequest, newest: str) -> EditForm:
    """Return the form with all that was typed; its author sees the newest version now, so the next attempt starts there."""
    data = request.POST.copy()
    data["head"] = newest
    return EditForm(data)


def _show(
    request: HttpRequest,
    page: EditPage,
    form: EditForm,
    *,
    moved: tuple[FileDiff, ...] = (),
    status: int = 200,
) -> HttpResponse:
    return show(request, "repositories/edit.html", page, status=status, form=form, moved=moved)
