"""The editor: a file, the files beside it, and what a commit of drafts would change."""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import groupby, islice
from typing import TYPE_CHECKING

from webapp.core.errors import InvalidInput, NotFound
from webapp.git.diff import FileDiff, diff_texts
from webapp.repositories import permissions
from webapp.repositories.pages.frame import Crumb, Frame, crumbs, frame, ref_url
from webapp.repositories.pages.text import find_language, problems_of
from webapp.repositories.queries import branches as branch_queries
from webapp.repositories.queries import code
from webapp.repositories.queries.parquet import LINES_SUFFIX, FileLines, is_parquet, make_lines
from webapp.repositories.rules.texts import explain_read_only
from webapp.repositories.services.edits import encode_draft, find_old, show_content

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from webapp.core.principals import Principal
    from webapp.git.values import Blob
    from webapp.repositories.models import Repository
    from webapp.repositories.services.edits import FileDraft

MAX_EDITED_BYTES = 1_000_000
FILES_BESIDE = 150
"""Files that are listed beside the editor."""


@dataclass(frozen=True, slots=True)
class EditorFile:
    """A file beside the editor."""

    path: str
    name: str
    url: str
    """Of the editor that opens it."""


@dataclass(frozen=True, slots=True)
class EditorFolder:
    """A folder of such files."""

    name: str
    files: tuple[EditorFile, ...]


@dataclass(frozen=True, slots=True)
class EditedRows:
    """A file that is edited by cells."""

    format: str
    """csv or jsonl: that of the text."""
    columns_json: str = "[]"
    """Names, each with whether its values are texts, where they do not stand in the text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EditPage:
    """The editor."""

    frame: Frame
    mode: str
    path: str
    crumbs: tuple[Crumb, ...]
    content: str
    read_only: str
    """Why its text cannot be changed here; empty if it can."""
    language: str
    rows: EditedRows | None
    """What it takes to edit the file by cells; None where it holds no rows."""
    problems_json: str
    default_message: str
    suggested_branch: str
    cancel_url: str
    folders: tuple[EditorFolder, ...]
    """Files of the ref: those of the folder first."""
    unlisted: int
    """How many more files the ref has."""
    new_url: str
    post_url: str
    """Of this editor, which may stand at the address of a file that cannot be opened."""
    preview_url: str
    """Runs what is typed, without committing it."""


def edit_page(
    principal: Principal, repository: Repository, ref: str, path: str, *, mode: str, head: str = ""
) -> EditPage:
    """Collect the editor's page: mode is edit, new or delete; the file is as the head has it, or the commit that is named."""
    common = frame(principal, repository, ref)
    permissions.check_write(principal, repository)
    if not common.is_branch:
        message = f"{ref[:40]} is a commit; files are edited on a branch."
        raise NotFound(message, code="not_a_branch")
    content, rows, read_only = "", None, ""
    if mode != "new":
        if code.find_submodule(repository, head or common.head, path):
            message = f"{path} is a submodule. Change it with Git."
            raise NotFound(message, code="not_editable")
        blob = code.read_blob(repository, head or common.head, path)
        if mode == "edit":
            content, rows = _open_file(blob)
            read_only = "" if is_parquet(path) else explain_read_only(blob.content)
    publication = branch_queries.get_publication(repository, common.ref, common.head)
    paths = code.list_files(repository, common.head) if mode != "delete" else []
    folder = path.strip("/") if mode == "new" else path.rpartition("/")[0]
    return EditPage(
        frame=common,
        mode=mode,
        path=path if mode != "new" else (f"{path.strip('/')}/" if path else ""),
        crumbs=crumbs(repository, common.ref, path),
        content=content,
        read_only=read_only,
        language=find_language(path) or ("python" if mode == "new" else ""),
        rows=rows if not read_only else None,
        problems_json=json.dumps(problems_of(publication, path)),
        default_message={"new": "", "delete": f"Delete {path.rpartition('/')[2]}"}.get(mode, suggest_message(path)),
        suggested_branch=_suggest_branch(repository, principal.username),
        cancel_url=ref_url(repository, "tree" if mode == "new" else "blob", common.ref, path),
        folders=_list_editor_folders(repository, common.ref, paths, folder=folder),
        unlisted=max(0, len(paths) - FILES_BESIDE),
        new_url=ref_url(repository, "new", common.ref, folder),
        post_url=ref_url(repository, mode, common.ref, path),
        preview_url=ref_url(repository, "preview", common.ref, path),
    )


def is_editable(blob: Blob) -> bool:
    """Return whether the editor may open a file; what a Parquet file holds may still forbid it."""
    return blob.kind == "file" and blob.size <= MAX_EDITED_BYTES and (not blob.is_binary or is_parquet(blob.path))


def _open_file(blob: Blob) -> tuple[str, EditedRows | None]:
    """Return the text of a file, and how its rows are edited."""
    if not is_editable(blob):
        message = f"{blob.path} cannot be edited here: it is binary, a link or larger than 1 MB. Change it with Git."
        raise NotFound(message, code="not_editable")
    if is_parquet(blob.path):
        lines = _read_rows(blob)
        return lines.text, EditedRows("jsonl", json.dumps(lines.columns))
    suffix = next((suffix for suffix in (".csv", LINES_SUFFIX) if blob.path.endswith(suffix)), "")
    return blob.text, EditedRows(suffix.removeprefix(".")) if suffix else None


def _read_rows(blob: Blob) -> FileLines:
    try:
        return make_lines(blob.path, blob.content)
    except InvalidInput as error:
        message = f"{error.detail} Change it with Git."
        raise NotFound(message, code="not_editable") from error


def find_editor_url(frame: Frame, draft: FileDraft) -> str:
    """Return the address of the editor that goes on with a draft."""
    view, path = ("edit", draft.path) if draft.path else ("new", draft.target.rpartition("/")[0])
    return ref_url(frame.repository, view, frame.ref, path)


def diff_drafts(repository: Repository, head: str, drafts: Iterable[FileDraft]) -> list[FileDiff]:
    """Return what a commit of drafts on top of a head would change."""
    changes = []
    for draft in drafts:
        old = find_old(draft, repository=repository, head=head)
        new = encode_draft(draft, old=old) if draft.target else None
        if new is None or (new == old and draft.target == draft.path):
            continue
        if old is not None and is_parquet(draft.path):
            old, new = show_content(draft.path, old).encode(), show_content(draft.target, new).encode()
        changes.append(diff_texts(draft.target, old=old, new=new, old_path=draft.path))
    return changes


def _list_editor_folders(
    repository: Repository, ref: str, paths: Sequence[str], *, folder: str
) -> tuple[EditorFolder, ...]:
    """Group files by folder, the one of the open file first, up to what a page can hold."""

    def order(path: str) -> tuple[bool, str, str]:
        parent, _, name = path.rpartition("/")
        return parent != folder, parent, name

    listed = sorted(paths, key=order)[:FILES_BESIDE]
    return tuple(
        EditorFolder(
            parent,
            tuple(EditorFile(path, path.rpartition("/")[2], ref_url(repository, "edit", ref, path)) for path in files),
        )
        for parent, files in groupby(listed, key=lambda path: path.rpartition("/")[0])
    )


def suggest_message(path: str) -> str:
    """Return the message of a commit that changes a file."""
    return f"Change {path.rpartition('/')[2]}"


def _suggest_branch(repository: Repository, username: str) -> str:
    taken = set(repository.branches.values_list("name_lower", flat=True))
    stem = "".join(char if char.isalnum() and char.isascii() else "-" for char in username).strip("-") or "patch"
    names = (f"{stem}/patch-{number}" for number in range(1, 10_000))
    return next((name for name in islice(names, 9_999) if name.lower() not in taken), "")
