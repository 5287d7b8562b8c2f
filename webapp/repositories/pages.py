"""What each page of a repository shows, with permissions already decided."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from datetime import date
from functools import partial
from itertools import groupby, islice
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from django.db.models import Q
from django.utils.html import format_html_join

from webapp.accounts import permissions as accounts
from webapp.accounts.queries import list_folders
from webapp.core.choices import Choices, choose
from webapp.core.errors import NotFound
from webapp.core.numbered import NumberedPage
from webapp.core.templatetags.markdown import MarkdownFile, render_file
from webapp.git.diff import FileDiff, colour_lines, diff_texts, limit_lines
from webapp.repositories import permissions
from webapp.repositories.errors import git_refusals
from webapp.repositories.queries import branches as branch_queries
from webapp.repositories.queries import code
from webapp.repositories.queries.branches import BranchInfo, publications_of_commits
from webapp.repositories.queries.repositories import get_role, list_members, list_repositories
from webapp.repositories.queries.statuses import list_statuses
from webapp.repositories.queries.webhooks import WebhookRow, list_rows
from webapp.repositories.services.edits import encode_draft, find_old, is_changed

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from webapp.core.principals import Principal
    from webapp.git.diff import CodeDiff, Span
    from webapp.git.repository import GitRepository
    from webapp.git.values import Blob, CommitInfo, TreeEntry
    from webapp.repositories.models import CommitStatus, Protection, Publication, Repository
    from webapp.repositories.queries.searches import CommitFilter
    from webapp.repositories.services.edits import FileDraft

MAX_SHOWN_BYTES = 2_000_000
MAX_COLOURED_BYTES = 400_000
MAX_EDITED_BYTES = 1_000_000
LINES_AT_ONCE = 1_500
DIFF_LINES_AT_ONCE = 400
DIFF_LINES_A_PAGE = 3_000
DIFF_FILES_A_PAGE = 30
MARKDOWN = (".md", ".markdown")
SUFFIXES = {"python": "py", "bash": "sh", "shell": "sh", "console": "sh", "yaml": "yml", "javascript": "js"}
"""Languages of code in Markdown → how files of them end."""
FILES_A_PAGE = 200
FILES_BESIDE = 150
"""Files that are listed beside the editor."""
COMMITS_A_PAGE = 30
BRANCHES_A_PAGE = 50
REPOSITORIES_A_PAGE = 30
LANGUAGES = {"csv": "csv", "py": "python", "sql": "sql", "yml": "yaml", "yaml": "yaml", "json": "json"}
READMES = ("readme.md", "readme.markdown", "readme.txt", "readme")


@dataclass(frozen=True, slots=True, kw_only=True)
class Crumb:
    """One part of a path, with the address of its folder."""

    name: str
    url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchOption:
    """A line of the branch picker."""

    name: str
    url: str
    note: str
    default: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """What the pages on one ref of a repository have in common."""

    repository: Repository
    repo_bar: dict[str, str]
    nav: str
    ref: str
    is_branch: bool
    head: str
    role: str
    can_write: bool
    can_commit: bool
    can_maintain: bool
    protected: bool
    tree_url: str
    find_url: str
    branches: tuple[BranchOption, ...]
    """Of the picker: the first."""
    branch_count: int
    others: int
    """How many more there are than the picker lists."""
    options_url: str
    """Where a text finds them."""
    start_options: tuple[tuple[str, str], ...]


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
    commit_count: int
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
    size: int
    lines: tuple[tuple[int, tuple[Span, ...]], ...]
    line_count: int
    cut: bool
    is_text: bool
    preview: str
    """HTML of a Markdown file, nothing of others."""
    commit: CommitInfo | None
    publication: Publication | None
    problems: dict[int, str]
    raw_url: str
    edit_url: str
    delete_url: str
    history_url: str


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


@dataclass(frozen=True, slots=True, kw_only=True)
class EditPage:
    """The editor."""

    frame: Frame
    mode: str
    path: str
    crumbs: tuple[Crumb, ...]
    content: str
    language: str
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


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRow:
    """A commit in a list."""

    commit: CommitInfo
    publication: Publication | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitsPage:
    """The history of a ref."""

    frame: Frame
    filters: CommitFilter
    days: tuple[tuple[date, tuple[CommitRow, ...]], ...]
    text: str
    previous_url: str
    next_url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffChoice:
    """How a reader wants to see a comparison."""

    split: bool = False
    ignore_whitespace: bool = False
    context: int = 3
    unfolded: str = ""
    page: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffView:
    """A page of the files of a comparison, and what is said of all of them."""

    files: tuple[FileDiff, ...]
    total: int
    additions: int
    deletions: int
    choice: DiffChoice
    text: str
    previous: int | None
    """The page before this one."""
    next: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitPage:
    """One commit with its changes and publications."""

    frame: Frame
    commit: CommitInfo
    publications: tuple[Publication, ...]
    pending: bool
    statuses: tuple[CommitStatus, ...]
    diff: DiffView


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchesPage:
    """All branches."""

    frame: Frame
    rows: tuple[BranchInfo, ...]
    q: str
    total: int
    text: str
    previous_url: str
    next_url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparePage:
    """Two refs."""

    frame: Frame
    base: str
    compare_head: str
    names: tuple[str, ...]
    options_url: str
    """Where a text finds other branches."""
    overview: code.CompareOverview
    rows: tuple[CommitRow, ...]
    diff: DiffView
    clean: bool
    conflicts: tuple[str, ...]


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


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsPage:
    """Members, protections and webhooks."""

    frame: Frame
    members: tuple[Any, ...]
    protections: tuple[Protection, ...]
    webhooks: tuple[WebhookRow, ...]
    """For maintainers only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RepositoryRow:
    """A repository in the list."""

    repository: Repository
    role: str
    commit: CommitInfo | None
    publication: Publication | None
    branch_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RepositoriesPage:
    """A page of the repositories that the reader may see."""

    nav: str
    rows: tuple[RepositoryRow, ...]
    q: str
    total: int
    text: str
    previous_url: str
    next_url: str


def split_ref(repository: Repository, rest: str) -> tuple[str, str]:
    """Split "feature/x/pipelines/a.py" into the branch (or commit) and the path.

    Git allows no branch below another one, so at most one branch is a prefix.
    """
    parts = rest.strip("/").split("/")
    with git_refusals():
        git = repository.git
        for end in range(1, len(parts) + 1):
            name = "/".join(parts[:end])
            if git.find_head(name) is not None:
                return name, "/".join(parts[end:])
        git.resolve(parts[0])
    return parts[0], "/".join(parts[1:])


def ref_url(repository: Repository, view: str, ref: str, path: str = "") -> str:
    """Return the address of a ref, or of a path at it."""
    tail = f"/{quote(path)}" if path else ""
    return f"/r/{repository.name}/{view}/{quote(ref, safe='/')}{tail}"


def frame(
    principal: Principal, repository: Repository, ref: str = "", *, tab: str = "files", view: str = "tree"
) -> Frame:
    """Collect what every page of a repository needs."""
    with git_refusals():
        git = repository.git
        ref = ref or repository.default_branch
        heads = git.list_heads()
        head = heads.get(ref) or git.resolve(ref)
    can_write = permissions.can_write(principal, repository)
    protected = permissions.list_protected(repository)
    choices = choose(branch_queries.order_names(repository, heads), current=ref)
    options = _describe_options(repository, choices, view=view, protected=protected)
    starts = [ref, *(option.name for option in options if option.name != ref)]
    return Frame(
        repository=repository,
        repo_bar={"name": repository.name, "tab": tab},
        nav="repositories",
        ref=ref,
        is_branch=ref in heads,
        head=head,
        role=get_role(principal, repository),
        can_write=can_write,
        can_commit=ref in heads and permissions.can_move_branch(principal, repository, ref),
        can_maintain=permissions.can_maintain(principal, repository),
        protected=ref.lower() in protected,
        tree_url=ref_url(repository, "tree", ref),
        find_url=ref_url(repository, "find", ref),
        branches=options,
        branch_count=len(heads),
        others=choices.others,
        options_url=f"/r/{repository.name}/branches/options?view={view}",
        start_options=tuple((item, f"{item} · {heads.get(item, head)[:7]}") for item in starts),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionsPart:
    """What a branch picker lists for a text."""

    branches: tuple[BranchOption, ...]
    others: int
    q: str


def options_part(repository: Repository, *, view: str, q: str) -> OptionsPart:
    """Collect the branches of a repository that have a text in their name, for the picker of a view."""
    choices = choose(branch_queries.list_branch_names(repository), q=q)
    protected = permissions.list_protected(repository)
    options = _describe_options(repository, choices, view=view, protected=protected)
    return OptionsPart(branches=options, others=choices.others, q=q)


def _describe_options(
    repository: Repository, choices: Choices, *, view: str, protected: Collection[str]
) -> tuple[BranchOption, ...]:
    return tuple(
        BranchOption(
            name=item,
            url=ref_url(repository, view, item),
            note="protected" if item.lower() in protected else "",
            default=item == repository.default_branch,
        )
        for item in choices.names
    )


def tree_page(principal: Principal, repository: Repository, ref: str = "", path: str = "") -> TreePage:
    """Collect a folder's page."""
    common = frame(principal, repository, ref)
    with git_refusals():
        git = repository.git
        entries = git.list_entries(common.head, path)
        last = git.last_commits(common.head, path)
        commit = next(git.iterate_commits(common.head, path=path), None) or git.get_commit(common.head)
        count = git.count_commits(common.head, limit=10_000)
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
        commit_count=count,
        commits_url=ref_url(repository, "commits", common.ref) + (f"?path={quote(path)}" if path else ""),
        tag_count=tags,
        readme=readme,
        new_file_url=ref_url(repository, "new", common.ref, path),
        folders=list_folders(repository=repository.name),
        sidebar=not path,
        parent_url=ref_url(repository, "tree", common.ref, path.rpartition("/")[0]) if path else "",
    )


def crumbs(repository: Repository, ref: str, path: str) -> tuple[Crumb, ...]:
    """Return the folders above a path."""
    parts = path.split("/") if path else []
    return tuple(
        Crumb(name=part, url=ref_url(repository, "tree", ref, "/".join(parts[: position + 1])))
        for position, part in enumerate(parts)
    )


def blob_page(principal: Principal, repository: Repository, ref: str, path: str, *, whole: bool = False) -> BlobPage:
    """Collect a file's page."""
    common = frame(principal, repository, ref, view="tree")
    with git_refusals():
        git = repository.git
        size = git.blob_size(common.head, path)
        blob = git.read_blob(common.head, path) if size <= MAX_SHOWN_BYTES else None
        commit = next(git.iterate_commits(common.head, path=path), None)
    publication = branch_queries.get_publication(repository, common.ref, common.head)
    is_text = blob is not None and not blob.is_binary and blob.kind == "file"
    lines = _lines(path, blob.text) if blob is not None and is_text else []
    shown = lines if whole else lines[:LINES_AT_ONCE]
    return BlobPage(
        frame=common,
        path=path,
        crumbs=crumbs(repository, common.ref, path),
        blob=blob,
        size=size,
        lines=tuple(enumerate(shown, start=1)),
        line_count=len(lines),
        cut=len(shown) < len(lines),
        is_text=is_text,
        preview=_render_markdown(repository, common.ref, path, blob.text) if blob is not None and is_text else "",
        commit=code.name_authors([commit])[0] if commit else None,
        publication=publication,
        problems={int(item.get("line") or 0): str(item.get("message", "")) for item in problems_of(publication, path)},
        raw_url=ref_url(repository, "raw", common.ref, path),
        edit_url=ref_url(repository, "edit", common.ref, path),
        delete_url=ref_url(repository, "delete", common.ref, path),
        history_url=ref_url(repository, "commits", common.ref) + f"?path={quote(path)}",
    )


def problems_of(publication: Publication | None, path: str) -> list[dict[str, Any]]:
    """Return the errors of a publication that lie in one file."""
    if publication is None:
        return []
    return [item for item in publication.errors if item.get("file") == path]


def edit_page(
    principal: Principal, repository: Repository, ref: str, path: str, *, mode: str, head: str = ""
) -> EditPage:
    """Collect the editor's page: mode is edit, new or delete; the file is as the head has it, or the commit that is named."""
    common = frame(principal, repository, ref)
    permissions.check_write(principal, repository)
    if not common.is_branch:
        message = f"{ref[:40]} is a commit; files are edited on a branch."
        raise NotFound(message, code="not_a_branch")
    content = ""
    if mode != "new":
        blob = code.read_blob(repository, head or common.head, path)
        if mode == "edit" and (blob.is_binary or blob.kind != "file" or blob.size > MAX_EDITED_BYTES):
            message = f"{path} cannot be edited here: it is binary, a link or larger than 1 MB. Change it with Git."
            raise NotFound(message, code="not_editable")
        content = blob.text if mode == "edit" else ""
    publication = branch_queries.get_publication(repository, common.ref, common.head)
    paths = code.list_files(repository, common.head) if mode != "delete" else []
    folder = path.strip("/") if mode == "new" else path.rpartition("/")[0]
    return EditPage(
        frame=common,
        mode=mode,
        path=path if mode != "new" else (f"{path.strip('/')}/" if path else ""),
        crumbs=crumbs(repository, common.ref, path),
        content=content,
        language=find_language(path) or ("python" if mode == "new" else ""),
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


def find_editor_url(frame: Frame, draft: FileDraft) -> str:
    """Return the address of the editor that goes on with a draft."""
    view, path = ("edit", draft.path) if draft.path else ("new", draft.target.rpartition("/")[0])
    return ref_url(frame.repository, view, frame.ref, path)


def diff_drafts(repository: Repository, head: str, drafts: Iterable[FileDraft]) -> list[FileDiff]:
    """Return what a commit of drafts on top of a head would change."""
    changes = []
    for draft in drafts:
        if draft.target and is_changed(draft, repository=repository, head=head):
            old = find_old(draft, repository=repository, head=head)
            new = encode_draft(draft, old=old)
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


def commits_page(
    principal: Principal, repository: Repository, ref: str, *, filters: CommitFilter, page: int = 1
) -> CommitsPage:
    """Collect a page of the history."""
    common = frame(principal, repository, ref, view="commits")
    start = (page - 1) * COMMITS_A_PAGE
    commits = code.list_commits(repository, common.head, filters=filters, offset=start, limit=COMMITS_A_PAGE + 1)
    rows = commit_rows(repository, commits[:COMMITS_A_PAGE], branch=common.ref)
    base = ref_url(repository, "commits", common.ref)
    parameters = {name: value for name, value in asdict(filters).items() if value}

    def find_page(number: int) -> str:
        return f"{base}?{urlencode({'page': number, **parameters})}"

    return CommitsPage(
        frame=common,
        filters=filters,
        days=tuple((day, tuple(group)) for day, group in groupby(rows, lambda row: row.commit.committed_at.date())),
        text=f"{start + 1}–{start + len(rows)}" if rows else "",
        previous_url=find_page(page - 1) if page > 1 else "",
        next_url=find_page(page + 1) if len(commits) > COMMITS_A_PAGE else "",
    )


def commit_rows(repository: Repository, commits: Sequence[CommitInfo], *, branch: str = "") -> tuple[CommitRow, ...]:
    """Join commits with their publications."""
    published = publications_of_commits(repository, [commit.sha for commit in commits], branch=branch)
    return tuple(
        CommitRow(commit=commit, publication=published.get(commit.sha)) for commit in code.name_authors(commits)
    )


def diff_view(changes: CodeDiff, choice: DiffChoice, read: Callable[..., list[FileDiff]]) -> DiffView:
    """Collect a page of the files of a comparison; it holds only so many lines, the rest is loaded by file.

    Args:
        changes: what all files are.
        choice: how they are shown, and the page or the file that is asked for.
        read: returns the files of some `paths` with their lines.

    """
    paths = [file.path for file in changes.files]
    is_named = choice.unfolded in paths
    number = paths.index(choice.unfolded) // DIFF_FILES_A_PAGE + 1 if is_named else choice.page
    part = NumberedPage.choose(number, size=DIFF_FILES_A_PAGE, total=len(paths))
    named = paths[part.start : part.end]
    left = DIFF_LINES_A_PAGE
    shown = []
    for file in read(paths=named, context=choice.context, ignore_whitespace=choice.ignore_whitespace) if named else ():
        limit = file.line_count if file.path == choice.unfolded else min(DIFF_LINES_AT_ONCE, max(left, 0))
        cut = limit_lines(file, limit=limit)
        left -= cut.line_count
        shown.append(cut)
    return DiffView(
        files=tuple(shown),
        total=len(paths),
        additions=changes.additions,
        deletions=changes.deletions,
        choice=choice,
        text=f"{part.text} files",
        previous=part.previous,
        next=part.next,
    )


def commit_page(principal: Principal, repository: Repository, sha: str, choice: DiffChoice) -> CommitPage:
    """Collect a commit's page."""
    commit = code.get_commit(repository, sha)
    publications = branch_queries.list_publications(repository, commit.sha)
    changes = code.list_commit_changes(repository, commit.sha, ignore_whitespace=choice.ignore_whitespace)
    return CommitPage(
        frame=frame(principal, repository, publications[0].branch if publications else ""),
        commit=code.name_authors([commit])[0],
        publications=tuple(publications),
        pending=any(item.status == "pending" for item in publications),
        statuses=tuple(list_statuses(repository, commit.sha)),
        diff=diff_view(changes, choice, partial(code.diff_commit, repository, commit.sha)),
    )


def branches_page(principal: Principal, repository: Repository, *, q: str = "", page: int = 1) -> BranchesPage:
    """Collect a page of branches whose name holds a text."""
    common = frame(principal, repository)
    branches = branch_queries.BranchList(repository, q=q)
    start = (page - 1) * BRANCHES_A_PAGE
    rows = branches[start : start + BRANCHES_A_PAGE]
    newest = code.name_authors(row.commit for row in rows)
    write = _page_writer(q)
    return BranchesPage(
        frame=common,
        rows=tuple(replace(row, commit=commit) for row, commit in zip(rows, newest, strict=True)),
        q=q,
        total=len(branches),
        text=f"{start + 1}–{start + len(rows)} of {len(branches):,}" if rows else "",
        previous_url=write(page - 1) if page > 1 else "",
        next_url=write(page + 1) if start + len(rows) < len(branches) else "",
    )


def compare_page(
    principal: Principal, repository: Repository, choice: DiffChoice, *, base: str, head: str
) -> ComparePage:
    """Collect the page of two refs."""
    common = frame(principal, repository)
    base = base or repository.default_branch
    head = head or repository.default_branch
    overview = code.compare_overview(repository, base, head, limit=COMMITS_A_PAGE)
    ends = (overview.base_sha, overview.head_sha)
    changes = code.list_changes(repository, *ends, ignore_whitespace=choice.ignore_whitespace)
    state = code.merge_state(repository, overview.head_sha, overview.base_sha)
    return ComparePage(
        frame=common,
        base=base,
        compare_head=head,
        names=tuple(dict.fromkeys([option.name for option in common.branches] + [base, head])),
        options_url=f"/r/{repository.name}/branches/options?view=select",
        overview=overview,
        rows=commit_rows(repository, overview.commits, branch=head),
        diff=diff_view(changes, choice, partial(code.compare, repository, *ends)),
        clean=state.clean,
        conflicts=state.conflicts,
    )


def find_page(principal: Principal, repository: Repository, ref: str, *, q: str, page: int) -> FindPage:
    """Collect a page of the files of a ref that have a text in their path."""
    common = frame(principal, repository, ref, view="find")
    paths = code.list_files(repository, common.head)
    named = [path for path in paths if q.lower() in path.lower()]
    part = NumberedPage.choose(page, size=FILES_A_PAGE, total=len(named))
    write = _page_writer(q)
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


def settings_page(principal: Principal, repository: Repository) -> SettingsPage:
    """Collect members, protections and webhooks."""
    common = frame(principal, repository, tab="settings")
    return SettingsPage(
        frame=common,
        members=tuple(list_members(principal, repository)),
        protections=tuple(branch_queries.list_protections(repository)),
        webhooks=tuple(list_rows(principal, repository)) if common.can_maintain else (),
    )


def repositories_page(principal: Principal, *, q: str, page: int) -> RepositoriesPage:
    """Collect a page of the repositories that have a text in their name or description."""
    named = list_repositories(principal)
    for word in q.split():
        named = named.filter(Q(name__icontains=word) | Q(description__icontains=word))
    part = NumberedPage.choose(page, size=REPOSITORIES_A_PAGE, total=named.count())
    write = _page_writer(q)
    return RepositoriesPage(
        nav="repositories",
        rows=_repository_rows(principal, list(named[part.start : part.end])),
        q=q,
        total=part.total,
        text=part.text,
        previous_url=part.link_previous(write),
        next_url=part.link_next(write),
    )


def _page_writer(q: str) -> Callable[[int], str]:
    """Return what writes the address of a numbered page of what was searched for."""
    tail = f"&q={quote(q)}" if q else ""
    return lambda number: f"?page={number}{tail}"


def _repository_rows(principal: Principal, repositories: Sequence[Repository]) -> tuple[RepositoryRow, ...]:
    roles = accounts.roles_on_repositories(principal, [repository.name for repository in repositories])
    heads: dict[Repository, dict[str, str]] = {}
    for repository in repositories:
        with git_refusals():
            heads[repository] = repository.git.list_heads()
    masters = {
        repository: branches[repository.default_branch]
        for repository, branches in heads.items()
        if repository.default_branch in branches
    }
    published = branch_queries.publications_of_masters(masters)
    return tuple(
        RepositoryRow(
            repository=repository,
            role=str(roles.get(repository.name, "")),
            commit=_find_newest(repository, masters.get(repository), published.get(repository.pk)),
            publication=published.get(repository.pk),
            branch_count=len(heads[repository]),
        )
        for repository in repositories
    )


def _find_newest(repository: Repository, head: str | None, publication: Publication | None) -> CommitInfo | None:
    """Return the head of a repository's default branch, from Git where its publication does not tell it."""
    if publication is not None and publication.commit is not None:
        return publication.commit.info
    return code.get_commit(repository, head) if head else None


def _render_markdown(repository: Repository, ref: str, path: str, text: str) -> str:
    """Return the HTML of a Markdown file, nothing of other files."""
    if not path.lower().endswith(MARKDOWN) or len(text) > MAX_COLOURED_BYTES:
        return ""

    def find_url(target: str) -> str:
        return ref_url(repository, "blob" if target else "tree", ref, target)

    return render_file(text, MarkdownFile(path.rpartition("/")[0], find_url, colour_code))


def colour_code(content: str, language: str) -> str:
    """Return code as HTML with the classes of syntax colours."""
    lines = colour_lines(f"code.{SUFFIXES.get(language, language)}", content)
    coloured = (
        (format_html_join("", '<span class="{}">{}</span>', ((span.token, span.text) for span in line)),)
        for line in lines
    )
    return format_html_join("\n", "{}", coloured)


def _lines(path: str, text: str) -> list[tuple[Span, ...]]:
    name = path if len(text) <= MAX_COLOURED_BYTES else "plain.txt"
    return colour_lines(name, text.replace("\r\n", "\n"))


def _readme(repository: Repository, git: GitRepository, common: Frame, entries: Sequence[TreeEntry]) -> Readme | None:
    files = {entry.name.lower(): entry for entry in entries if entry.kind == "file"}
    entry = next((files[name] for name in READMES if name in files), None)
    if entry is None or (entry.size or 0) > MAX_COLOURED_BYTES:
        return None
    blob = git.read_blob(common.head, entry.path)
    return Readme(
        name=entry.name,
        text=blob.text,
        html=_render_markdown(repository, common.ref, entry.path, blob.text),
        edit_url=ref_url(repository, "edit", common.ref, entry.path) if common.is_branch and common.can_write else "",
    )


def find_language(path: str) -> str:
    """Return the language in which a file is edited; empty where the editor knows none."""
    return LANGUAGES.get(path.rpartition(".")[2].lower(), "")


def suggest_message(path: str) -> str:
    """Return the message of a commit that changes a file."""
    return f"Change {path.rpartition('/')[2]}"


def _suggest_branch(repository: Repository, username: str) -> str:
    taken = set(repository.branches.values_list("name_lower", flat=True))
    stem = "".join(char if char.isalnum() and char.isascii() else "-" for char in username).strip("-") or "patch"
    names = (f"{stem}/patch-{number}" for number in range(1, 10_000))
    return next((name for name in islice(names, 9_999) if name.lower() not in taken), "")
