"""What surrounds each page of a repository: the ref, its branches, what the reader may do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote

from webapp.core.choices import Choices, choose
from webapp.repositories import permissions
from webapp.repositories.errors import git_refusals
from webapp.repositories.queries import branches as branch_queries
from webapp.repositories.queries.repositories import get_role

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from webapp.core.principals import Principal
    from webapp.repositories.models import Repository


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


def crumbs(repository: Repository, ref: str, path: str) -> tuple[Crumb, ...]:
    """Return the folders above a path."""
    parts = path.split("/") if path else []
    return tuple(
        Crumb(name=part, url=ref_url(repository, "tree", ref, "/".join(parts[: position + 1])))
        for position, part in enumerate(parts)
    )


def number_pages(q: str) -> Callable[[int], str]:
    """Return what writes the address of a numbered page of what was searched for."""
    tail = f"&q={quote(q)}" if q else ""
    return lambda number: f"?page={number}{tail}"
