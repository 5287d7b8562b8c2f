"""Folders and files, and how files are found by name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote

from webapp.accounts.queries import list_folders
from webapp.core.numbered import NumberedPage
from webapp.core.words import counted
from webapp.git.diff import list_hidden_characters
from webapp.repositories.errors import git_refusals
from webapp.repositories.pages.editor import is_editable
from webapp.repositories.pages.frame import Crumb, Frame, crumbs, frame, number_pages, ref_url
from webapp.repositories.pages.text import MAX_COLOURED_BYTES, list_lines, problems_of, render_markdown
from webapp.repositories.queries import branches as branch_queries
from webapp.repositories.queries import code
from webapp.repositories.queries.branches import publications_of_commits

if TYPE_CHECKING:
    from collections.abc import Sequence

    from webapp.core.principals import Principal
    from webapp.git.diff import Hidden, Span
    from webapp.git.repository import GitRepository
    from webapp.git.values import Blob, CommitInfo, TreeEntry
    from webapp.repositories.models import Publication, Repository

MAX_SHOWN_BYTES = 2_000_000
LINES_AT_ONCE = 1_500
FILES_A_PAGE = 200
MOST_COUNTED = 10_000
"""Of the commits that lead to a page: the history has them all."""
READMES = ("readme.md", "readme.markdown", "readme.txt", "readme")


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryRow:
    """A line of a folder with the commit that last changed it."""

    entry: TreeEntry
    url: str
    commit: CommitInfo | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Readme:
    """The text that introduces a folder."""

    name: str
    text: str
    html: str
    """Empty where it is no Markdown."""
    edit_url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TreePage:
    """A folder."""

    frame: Frame
    path: str
    crumbs: tuple[Crumb, ...]
    rows: tuple[EntryRow, ...]
    commit: CommitInfo
    publication: Publication | None
    head_publication: Publication | None
    commits: str
    """How many lead to it."""
    commits_url: str
    tag_count: int
    readme: Readme | None
    new_file_url: str
    folders: tuple[str, ...]
    sidebar: bool
    parent_url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BlobPage:
    """A file."""

    frame: Frame
    path: str
    crumbs: tuple[Crumb, ...]
    blob: Blob | None
    submodule: str
    """The commit of another repository that the path stands for; empty of a file."""
    size: int
    lines: tuple[tuple[int, tuple[Span, ...]], ...]
    line_count: int
    cut: bool
    is_text: bool
    form: str
    """How its text is stored, in words; empty where that is usual."""
    hidden: list[Hidden]
    """Characters that nobody sees, or that reorder the text."""
    preview: str
    """HTML of a Markdown file, nothing of others."""
    commit: CommitInfo | None
    publication: Publication | None
    problems: dict[int, str]
    raw_url: str
    is_editable: bool
    edit_url: str
    delete_url: str
    history_url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FindPage:
    """Files of a ref by a part of their paths, to jump to."""

    frame: Frame
    files: tuple[tuple[str, str], ...]
    q: str
    total: int
    """Of the files with that in their paths."""
    is_paged: bool
    """Whether the ref has more files than a page lists, so that the server searches."""
    text: str
    previous_url: str
    next_url: str


def tree_page(principal: Principal, repository: Repository, ref: str = "", path: str = "") -> TreePage:
    """Collect a folder's page."""
    common = frame(principal, repository, ref)
    with git_refusals():
        git = repository.git
        entries = git.list_entries(common.head, path)
        last = git.last_commits(common.head, path)
        commit = next(git.iterate_commits(common.head, path=path), None) or git.get_commit(common.head)
        count = git.count_commits(common.head, limit=MOST_COUNTED)
        tags = len(git.list_tags())
        readme = _readme(repository, git, common, entries)
    rows = tuple(
        EntryRow(
            entry=entry,
            url=ref_url(repository, "tree" if entry.kind == "folder" else "blob", common.ref, entry.path),
            commit=last.get(entry.name),
        )
        for entry in entries
    )
    return TreePage(
        frame=common,
        path=path,
        crumbs=crumbs(repository, common.ref, path),
        rows=rows,
        commit=code.name_authors([commit])[0],
        publication=publications_of_commits(repository, [commit.sha], branch=common.ref).get(commit.sha),
        head_publication=branch_queries.get_publication(repository, common.ref, common.head),
        commits=counted(count, "commit", most=MOST_COUNTED),
        commits_url=ref_url(repository, "commits", common.ref) + (f"?path={quote(path)}" if path else ""),
        tag_count=tags,
        readme=readme,
        new_file_url=ref_url(repository, "new", common.ref, path),
        folders=list_folders(repository=repository.name),
        sidebar=not path,
        parent_url=ref_url(repository, "tree", common.ref, path.rpartition("/")[0]) if path else "",
    )


def blob_page(principal: Principal, repository: Repository, ref: str, path: str, *, whole: bool = False) -> BlobPage:
    """Collect a file's page."""
    common = frame(principal, repository, ref, view="tree")
    with git_refusals():
        git = repository.git
        submodule = git.find_submodule(common.head, path)
        size = 0 if submodule else git.blob_size(common.head, path)
        blob = git.read_blob(common.head, path) if not submodule and size <= MAX_SHOWN_BYTES else None
        commit = next(git.iterate_commits(common.head, path=path), None)
    publication = branch_queries.get_publication(repository, common.ref, common.head)
    is_text = blob is not None and not blob.is_binary and blob.kind == "file"
    limit = None if whole else LINES_AT_ONCE
    text = blob.text if blob is not None and is_text else ""
    form = blob.form if blob is not None and is_text else None
    shown, count = list_lines(path, text, limit=limit) if is_text else ([], 0)
    return BlobPage(
        frame=common,
        path=path,
        crumbs=crumbs(repository, common.ref, path),
        blob=blob,
        submodule=submodule,
        size=size,
        lines=tuple(enumerate(shown, start=1)),
        line_count=count,
        cut=len(shown) < count,
        is_text=is_text,
        form="" if form is None or (form.is_usual and form.line_ends != "crlf") else form.words,
        hidden=list_hidden_characters(text),
        preview=render_markdown(repository, common.ref, path, text) if is_text else "",
        commit=code.name_authors([commit])[0] if commit else None,
        publication=publication,
        problems={int(item.get("line") or 0): str(item.get("message", "")) for item in problems_of(publication, path)},
        raw_url=ref_url(repository, "raw", common.ref, path),
        is_editable=blob is not None and is_editable(blob),
        edit_url=ref_url(repository, "edit", common.ref, path),
        delete_url=ref_url(repository, "delete", common.ref, path),
        history_url=ref_url(repository, "commits", common.ref) + f"?path={quote(path)}",
    )


def find_page(principal: Principal, repository: Repository, ref: str, *, q: str, page: int) -> FindPage:
    """Collect a page of the files of a ref that have a text in their path."""
    common = frame(principal, repository, ref, view="find")
    paths = code.list_files(repository, common.head)
    named = [path for path in paths if q.lower() in path.lower()]
    part = NumberedPage.choose(page, size=FILES_A_PAGE, total=len(named))
    write = number_pages(q)
    return FindPage(
        frame=common,
        files=tuple((path, ref_url(repository, "blob", common.ref, path)) for path in named[part.start : part.end]),
        q=q,
        total=part.total,
        is_paged=len(paths) > FILES_A_PAGE,
        text=part.text,
        previous_url=part.link_previous(write),
        next_url=part.link_next(write),
    )


def _readme(repository: Repository, git: GitRepository, common: Frame, entries: Sequence[TreeEntry]) -> Readme | None:
    files = {entry.name.lower(): entry for entry in entries if entry.kind == "file"}
    entry = next((files[name] for name in READMES if name in files), None)
    if entry is None or (entry.size or 0) > MAX_COLOURED_BYTES:
        return None
    blob = git.read_blob(common.head, entry.path)
    return Readme(
        name=entry.name,
        text=blob.text,
        html=render_markdown(repository, common.ref, entry.path, blob.text),
        edit_url=ref_url(repository, "edit", common.ref, entry.path) if common.is_branch and common.can_write else "",
    )
