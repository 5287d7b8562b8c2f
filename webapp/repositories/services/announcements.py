"""Telling the apps above what moved, exactly once per move where nothing dies, and again where something did."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from django.db import transaction
from django.db.models.functions import Lower

from webapp.accounts import services as accounts
from webapp.accounts.models import Folder
from webapp.accounts.permissions import role_on_folder
from webapp.accounts.rules.roles import Role
from webapp.core import clock
from webapp.core.errors import AppError, PermissionDenied
from webapp.git.errors import GitError, TooBig, UnknownPath
from webapp.git.fingerprint import Fingerprint, read_fingerprint
from webapp.repositories import signals
from webapp.repositories.models import Branch, Publication, Repository
from webapp.repositories.queries.history import count_ahead_behind
from webapp.repositories.rules.ancestry import Candidate, choose_parent
from webapp.repositories.rules.pipeline import read_folders, read_sensitive
from webapp.repositories.rules.states import PublicationState
from webapp.repositories.services.copies import count_move, find_copy_problem, note_damages
from webapp.repositories.services.moves import find_pending_mover, record_move, settle_moves
from webapp.repositories.services.recording import record_commits, record_long_history

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from webapp.core.principals import Principal
    from webapp.git.repository import GitRepository

# A pushed branch looks for its parent among so many others; with more, the default branch is the parent.
MAX_PARENT_CANDIDATES = 200
LOOK_AGAIN_S = 300.0
"""After so long a copy is looked at although nothing seems to have changed in it."""


def announce(
    *,
    repository: Repository,
    branch: str,
    before: str,
    after: str,
    by: Principal | None,
    parent: str = "",
    data: Literal["delete", "keep"] = "delete",
) -> None:
    """Record that a branch moved in Git and tell the apps above, in one atomic block with the entries in the audit log.

    Where nobody is named, as by the sweep, it is who said so before the ref moved.
    """
    if after:
        record_long_history(repository=repository, head=after)
    with transaction.atomic():
        if after:
            by = by or find_pending_mover(repository=repository, branch=branch, after=after)
            if by is not None:
                record_move(repository=repository, branch=branch, before=before, after=after, by=by)
            _announce_head(repository, branch, before=before, after=after, by=by, parent=parent)
        else:
            _announce_deletion(repository, branch, before=before, by=by, data=data)


def sweep_settled_heads() -> dict[str, int]:
    """Announce what was found unannounced by the call before as well: a move that is just being announced is left.

    What is wrong with a copy is announced in the same way, once two looks have seen it. A copy in which all was well is looked
    at again once something has changed in it, or was announced of it elsewhere, and after some minutes in any case.
    """
    seen: set[tuple[int, str, str]] = set()
    damaged: list[tuple[Repository, str]] = []
    repeated = 0
    for look in _look_at_changed():
        pk = look.repository.pk
        if look.problem:
            # What is wrong may read otherwise by now: its numbers change.
            seen.add((pk, "", "problem"))
            if (pk, "", "problem") in _memory.unannounced:
                damaged.append((look.repository, look.problem))
        for name, (before, after) in look.moved.items():
            seen.add((pk, name, after))
            if (pk, name, after) not in _memory.unannounced:
                continue
            try:
                announce(repository=look.repository, branch=name, before=before, after=after, by=None)
            except (AppError, GitError) as error:
                # One broken repository must not keep the others from being announced.
                damaged.append((look.repository, f"{name} at {after[:7]} cannot be announced: {error}"))
                break
            repeated += 1
    _memory.unannounced = seen
    note_damages(problems=damaged)
    return {"heads announced again": repeated} if repeated else {}


@dataclass(frozen=True, slots=True)
class _Settled:
    """A copy in which all was well when it was looked at."""

    fingerprint: Fingerprint
    generation: int
    until: float
    """By the clock that nobody sets."""

    def holds(self, generation: int) -> bool:
        return self.generation == generation and time.monotonic() < self.until and self.fingerprint.holds()


@dataclass(slots=True)
class _Memory:
    """What this process saw last time, worthless to any other."""

    unannounced: set[tuple[int, str, str]] = field(default_factory=set)
    settled: dict[Path, _Settled] = field(default_factory=dict)


_memory = _Memory()


@dataclass(slots=True)
class _Unannounced:
    """What a copy has that was not announced."""

    repository: Repository
    problem: str = ""
    """Why nothing of this copy is followed, or what it lacks."""
    moved: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Branch → announced and present head."""


def _look_at_changed() -> list[_Unannounced]:
    looks: list[_Unannounced] = []
    settled: dict[Path, _Settled] = {}
    for repository in Repository.objects.order_by("pk"):
        path = repository.path
        state = _memory.settled.get(path)
        if state is not None and state.holds(repository.generation):
            settled[path] = state
            continue
        fingerprint = read_fingerprint(path)
        look = _look_at(repository)
        looks.append(look)
        if not look.problem and not look.moved and fingerprint.is_settled:
            settled[path] = _Settled(fingerprint, repository.generation, time.monotonic() + LOOK_AGAIN_S)
    _memory.settled = settled
    return looks


def _look_at(repository: Repository) -> _Unannounced:
    look = _Unannounced(repository)
    try:
        git = repository.copy
        heads = git.list_heads()
    except GitError as error:
        # One broken repository must not keep the others from being swept.
        look.problem = str(error)
        return look
    look.problem = find_copy_problem(repository, git)
    if look.problem:
        return look
    announced = dict(repository.branches.values_list("name", "announced_head"))
    moved = [name for name in heads if heads[name] != announced.get(name, "")]
    for name in sorted(moved, key=lambda item: (item != repository.default_branch, item)):
        if not _clashes(announced, heads, name):
            look.moved[name] = (announced.get(name, ""), heads[name])
    look.problem = describe_absence(repository, list_absent(repository, heads))
    return look


def list_absent(repository: Repository, heads: Mapping[str, str]) -> list[str]:
    """Return the branches that Git lacks although nobody has deleted them."""
    meant = set(repository.deletions.values_list("branch", flat=True))
    names = set(repository.branches.values_list("name", flat=True))
    return sorted(names - meant - set(heads))


def describe_absence(repository: Repository, absent: Sequence[str]) -> str:
    """Say which branches are missing, and what to do; nothing where none is."""
    if not absent:
        return ""
    shown = ", ".join(absent[:5]) + (f" and {len(absent) - 5} more" if len(absent) > 5 else "")
    return (
        f"Git lacks {shown}, which nobody deleted; their data is untouched. Bring the folder {repository.path} back "
        f"from a newer backup, or run `manage.py accept_repository {repository.name}` to go on without."
    )


def set_publication(
    *,
    repository: Repository,
    branch: str,
    sha: str,
    status: PublicationState,
    jobspecs: int = 0,
    errors: Sequence[Mapping[str, Any]] = (),
) -> Publication:
    """Record what came of publishing a commit on a branch."""
    now, is_over = clock.now(), status != PublicationState.PENDING
    pending = {"created_at": now, "rung_at": now, "finished_at": None, "lease_until": None, "lost": 0}
    times = {"finished_at": now} if is_over else pending
    with transaction.atomic():
        publication, _ = Publication.objects.get_or_create(repository=repository, branch=branch, sha=sha)
        has_moved = Publication.objects.bring(publication, to=status, jobspecs=jobspecs, errors=list(errors), **times)
        if has_moved and is_over:
            signals.publication_finished.send(sender=Publication, publication=publication)
    return publication


def _clashes(announced: Mapping[str, str], heads: Mapping[str, str], name: str) -> bool:
    """Say whether a branch that only Git knows has another one's name in other case: it is left unannounced."""
    return name not in announced and any(
        other != name and other.lower() == name.lower() and other in heads for other in announced
    )


def _announce_head(
    repository: Repository, branch: str, *, before: str, after: str, by: Principal | None, parent: str
) -> None:
    git = repository.git
    row = repository.branches.select_for_update().filter(name_lower=branch.lower()).first()
    if row is not None and row.announced_head == after:
        # Announced already: by the sweep, or twice by a client that asked twice.
        return
    record_commits(repository=repository, head=after)
    is_new = row is None
    if row is None:
        row = Branch(
            repository=repository,
            name=branch,
            name_lower=branch.lower(),
            parent=""
            if branch == repository.default_branch
            else parent or _find_parent(repository, git, branch, after),
            created_by_id=by.user_id if by else None,
        )
    settle_moves(repository=repository, branch=branch, announced=row.announced_head, head=after, by=by)
    if git.find_head(branch) in {after, None} or is_new:
        # A later move that is already in Git announces itself; its head must not be taken back by this one.
        row.announced_head = after
    row.name = branch
    row.save()
    count_move(repository, git)
    set_publication(repository=repository, branch=branch, sha=after, status=PublicationState.PENDING)
    if is_new:
        signals.branch_created.send(
            sender=Repository, repository=repository, branch=branch, parent=row.parent, head=after, by=by
        )
    content = _read_pipeline(git, after)
    if branch == repository.default_branch and content is not None:
        _claim_folders(repository, content, by=by)
    if row.announced_head == after and content is not None:
        _note_sensitive(repository, branch, content)
    signals.commit_created.send(
        sender=Repository, repository=repository, branch=branch, before=before, after=after, by=by
    )


def _announce_deletion(
    repository: Repository, branch: str, *, before: str, by: Principal | None, data: Literal["delete", "keep"]
) -> None:
    row = repository.branches.select_for_update().filter(name=branch).first()
    if row is not None:
        repository.branches.filter(parent=branch).update(parent=row.parent)
        row.delete()
        if data == "delete":
            accounts.forget_sensitive(repository=repository.name, branch=branch)
        count_move(repository, repository.git)
    repository.deletions.filter(branch=branch).delete()
    Publication.objects.filter(repository=repository, branch=branch).delete()
    signals.branch_deleted.send(sender=Repository, repository=repository, branch=branch, head=before, data=data, by=by)


def _find_parent(repository: Repository, git: GitRepository, branch: str, head: str) -> str:
    rows = repository.branches.exclude(name=branch).order_by("-created_at")[:MAX_PARENT_CANDIDATES]
    heads = {row.name: other for row in rows if (other := git.find_head(row.name)) is not None}
    apart = count_ahead_behind(repository, heads.values(), head)
    candidates = [Candidate(name=name, ahead=apart[other][1], behind=apart[other][0]) for name, other in heads.items()]
    return choose_parent(candidates, default=repository.default_branch)


def _read_pipeline(git: GitRepository, sha: str) -> bytes | None:
    """Return the pipeline file of a commit, empty where there is none; None where it is too big to be read."""
    try:
        return git.read_blob(sha, "pipeline.toml").content
    except UnknownPath:
        return b""
    except TooBig:
        return None


def _note_sensitive(repository: Repository, branch: str, content: bytes) -> None:
    """Record which columns a pipeline file calls sensitive; by one that cannot be read, those of the file before stay so.

    Names of repositories that do not exist are left out: anybody could make one later.
    """
    rules = read_sensitive(content)
    if rules is not None:
        named = {name.lower() for rule in rules.values() for name in rule.repositories}
        lowered = Repository.objects.annotate(lower=Lower("name")).filter(lower__in=named)
        existing = set(lowered.values_list("lower", flat=True)) if named else set()
        rules = {
            path: replace(rule, repositories=tuple(name for name in rule.repositories if name.lower() in existing))
            for path, rule in rules.items()
        }
        accounts.set_sensitive(
            repository=repository.name, branch=branch, is_default=branch == repository.default_branch, rules=rules
        )


def _claim_folders(repository: Repository, content: bytes, *, by: Principal | None) -> None:
    """Give the repository the dataset folders that its pipeline file lists, where they belong to nobody else."""
    for folder in read_folders(content):
        try:
            _check_claim(repository, folder, by=by)
            accounts.claim_folder(folder=folder, repository=repository.name)
        except AppError as error:
            accounts.record_audit(
                by=by, verb="claim_folder", object=f"/{folder}", outcome="refused", detail={"reason": error.detail}
            )


def _check_claim(repository: Repository, folder: str, *, by: Principal | None) -> None:
    """Refuse a claim by which a folder's name in a file would give rights that its owner did not have."""
    row = Folder.objects.filter(name__iexact=folder).first()
    if row is None or row.repository == repository.name:
        return
    if Repository.objects.filter(name__iexact=folder).exclude(pk=repository.pk).exists():
        message = f"The folder /{folder} belongs to the repository {folder}."
        raise PermissionDenied(message, code="folder_taken")
    if by is None or role_on_folder(by, folder) != Role.MAINTAINER:
        message = f"The folder /{folder} belongs to somebody else."
        raise PermissionDenied(message, code="folder_taken")
