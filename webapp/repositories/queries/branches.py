"""Branches, their ancestry, publications and protections."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from django.db.models import prefetch_related_objects

from webapp.core.errors import NotFound
from webapp.core.lazy_lists import LazyList
from webapp.core.names import check_spelling
from webapp.core.prepared import Prepared
from webapp.repositories import permissions
from webapp.repositories.errors import git_refusals
from webapp.repositories.models import Protection, Publication, Repository
from webapp.repositories.queries.history import count_ahead_behind, find_commits, read_times
from webapp.repositories.rules.ancestry import fallback_chain
from webapp.repositories.rules.states import PublicationState

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from webapp.git.values import CommitInfo

_PUBLICATIONS = Prepared(
    lambda repository, branch, sha: Publication.objects.filter(repository_id=repository, branch=branch, sha=sha),
    int,
    str,
    str,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchInfo:
    """A branch as pages and the API show it; ahead and behind count commits against the default branch."""

    name: str
    head: str
    parent: str
    protected: bool
    is_default: bool
    ahead: int
    behind: int
    commit: CommitInfo
    publication: Publication | None


def get_head(repository: Repository, branch: str) -> str:
    """Return the commit that a branch points to now."""
    with git_refusals():
        return repository.git.get_head(branch)


def get_head_commit(repository: Repository, branch: str) -> CommitInfo:
    """Return what a branch points to now, as a commit."""
    head = get_head(repository, branch)
    return find_commits(repository, [head])[head]


def get_fallback_chain(repository: Repository, branch: str) -> tuple[str, ...]:
    """Return a branch, the branches it was made from, and the default branch as the last.

    A branch that the repository does not know falls back to the default branch.

    Raises:
        BadRequest: the repository has it in another spelling.

    """
    parents = dict(repository.branches.values_list("name", "parent"))
    check_spelling(branch, parents)
    return fallback_chain(branch, parents, default=repository.default_branch)


def list_branch_names(repository: Repository) -> list[str]:
    """Return the names of all branches, the default one first."""
    with git_refusals():
        return order_names(repository, repository.git.list_heads())


def order_names(repository: Repository, names: Iterable[str]) -> list[str]:
    """Return names of branches in the order of lists: the default one first."""
    return sorted(names, key=lambda name: (name != repository.default_branch, name.lower()))


class BranchList(LazyList[tuple[str, str], BranchInfo]):
    """The branches of a repository, default first, then the newest commit first; only what is read is described.

    Args:
        repository: whose.
        q: a part of their names.
        is_by_name: whether they are ordered by name instead, which no push changes.

    """

    def __init__(self, repository: Repository, *, q: str = "", is_by_name: bool = False) -> None:
        self._repository = repository
        with git_refusals():
            heads = {name: head for name, head in repository.git.list_heads().items() if q.lower() in name.lower()}
        times = {} if is_by_name else read_times(repository, heads.values())
        self._default = repository.default_branch
        names = sorted(heads, key=lambda name: (name != self._default, -times.get(heads[name], 0), name))
        super().__init__([(name, heads[name]) for name in names])

    def list_keys(self) -> list[tuple[bool, str]]:
        """Return what orders them by name."""
        return [(name != self._default, name) for name, _head in self._places]

    def _load(self, places: Sequence[tuple[str, str]]) -> list[BranchInfo]:
        return _describe(self._repository, dict(places))


def list_branches(repository: Repository) -> list[BranchInfo]:
    """Return all branches: the default one first, then the newest commit first."""
    return BranchList(repository)[:]


def get_branch(repository: Repository, name: str) -> BranchInfo:
    """Return one branch."""
    return _describe(repository, {name: get_head(repository, name)})[0]


def get_publication(repository: Repository, branch: str, sha: str) -> Publication | None:
    """Return what came of publishing a commit on a branch, or None where nobody tried."""
    publication = _PUBLICATIONS.first(repository.pk, branch, sha)
    if publication is not None:
        publication.repository = repository
    return publication


def publications_of_commits(repository: Repository, shas: Iterable[str], *, branch: str = "") -> dict[str, Publication]:
    """Return the publication of each commit, that on the wanted branch where there are several."""
    rows = repository.publications.filter(sha__in=list(shas)).order_by("created_at", "id")
    publications: dict[str, Publication] = {}
    for row in rows:
        publication = publications.get(row.sha)
        if publication is None or publication.branch != branch:
            publications[row.sha] = row
    return publications


def publications_of_masters(heads: Mapping[Repository, str]) -> dict[int, Publication]:
    """Return by repository what came of publishing these heads of the default branches, with their commits."""
    keys = {(repository.pk, repository.default_branch, head) for repository, head in heads.items()}
    published = Publication.objects.filter(repository__in=heads, sha__in=set(heads.values()))
    rows = published.select_related("repository", "commit")
    return {row.repository_id: row for row in rows if (row.repository_id, row.branch, row.sha) in keys}


def has_published(repository: Repository, branch: str) -> bool:
    """Return whether any commit of a branch was published there: of a new branch none is, for a moment."""
    return repository.publications.filter(branch=branch, status=PublicationState.PUBLISHED).exists()


def list_publications(repository: Repository, sha: str) -> list[Publication]:
    """Return the publications of a commit on all branches."""
    return list(repository.publications.filter(sha=sha).order_by("branch"))


def list_protections(repository: Repository) -> list[Protection]:
    """Return the protections of a repository, by branch, with the groups that they name."""
    protections = list(permissions.list_protections(repository))
    prefetch_related_objects(protections, "groups")
    return protections


def get_protection(repository: Repository, branch: str) -> Protection:
    """Return the protection of one branch."""
    protection = permissions.find_protection(repository, branch)
    if protection is None:
        message = f"Branch {branch} is not protected."
        raise NotFound(message, code="unknown_protection")
    return protection


def _describe(repository: Repository, heads: dict[str, str]) -> list[BranchInfo]:
    default = get_head(repository, repository.default_branch)
    rows = list(repository.branches.filter(name__in=heads).select_related("head"))
    parents = {row.name: row.parent for row in rows}
    announced = {row.head.sha: row.head.info for row in rows if row.head is not None}
    commits = announced | find_commits(repository, set(heads.values()) - announced.keys())
    apart = count_ahead_behind(repository, heads.values(), default)
    protected = permissions.list_protected(repository)
    published = {(row.branch, row.sha): row for row in repository.publications.filter(sha__in=set(heads.values()))}
    infos = []
    for name, head in heads.items():
        ahead, behind = apart[head]
        infos.append(
            BranchInfo(
                name=name,
                head=head,
                parent=parents.get(name, "" if name == repository.default_branch else repository.default_branch),
                protected=name.lower() in protected,
                is_default=name == repository.default_branch,
                ahead=ahead,
                behind=behind,
                commit=commits[head],
                publication=published.get((name, head)),
            )
        )
    return infos
