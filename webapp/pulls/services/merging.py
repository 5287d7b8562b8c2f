"""Merging: a Git merge and a build on the target branch, as one operation that survives a crash between the two.

The merge commit is made first, without moving a branch, and its hash is written down with everything the rest needs.
From then on Git itself says how far it came: the target contains the merge commit or it does not.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django.db import IntegrityError, transaction

from webapp.accounts import queries as accounts
from webapp.accounts.permissions import check_repository
from webapp.accounts.services import record_audit
from webapp.builds import services as builds
from webapp.builds.queries import list_tries
from webapp.comparisons.rules.dataset_rules import ComparisonRules
from webapp.comparisons.services.comparisons import request_comparison
from webapp.core import clock
from webapp.core.errors import AppError, Conflict, InvalidInput, PermissionDenied
from webapp.datasets import queries as datasets
from webapp.dispatch.stamps import Stamp
from webapp.git.errors import GitError
from webapp.git.trailers import Trailer, add_trailers, name_co_author, read_trailers
from webapp.pulls.errors import MergeBlocked
from webapp.pulls.models import Merge, PullRequest
from webapp.pulls.queries import pulls as queries
from webapp.pulls.queries.approvers import MOST_COMMITS
from webapp.pulls.queries.expected import check_head
from webapp.pulls.queries.loads import find_load_refusal, list_loads
from webapp.pulls.rules import approvals, states
from webapp.pulls.rules.states import MERGE_GOES_ON, MergeState, PullState
from webapp.pulls.services.pulls import refresh_pull
from webapp.pulls.services.remarks import record_event
from webapp.repositories import queries as repository_queries
from webapp.repositories import services as repositories

if TYPE_CHECKING:
    from collections.abc import Sequence

    from webapp.builds.models import Build
    from webapp.core.principals import Principal
    from webapp.git.values import CommitInfo

logger = logging.getLogger(__name__)
RESUME_AFTER = timedelta(seconds=5)
STAMP = Stamp(lambda: Merge.objects.filter(state__in=MERGE_GOES_ON), "created_at")
"""What the sweep waits for."""


def merge_pull(
    *,
    pull: PullRequest,
    by: Principal,
    method: str = states.MERGE_METHOD,
    rebuild: str = states.MODIFIED,
    expected_head: str | None = None,
    bypass: bool = False,
) -> Merge:
    """Merge the code now, and start the build that makes the target's data follow.

    Raises:
        MergeBlocked: requirements are not met; carries all of them.
        Conflict: the head is not the expected one, or the target moved at this moment.
        InvalidInput: an unknown method or rebuild.

    """
    check_manner(method, rebuild)
    check_repository(by, pull.repository.name, "write")
    refresh_pull(pull=pull)
    check_head(pull, expected_head)
    facts = queries.collect_facts(pull)
    bypassed = _check_blockers(pull, facts, by, bypass=bypass)
    check_loads(pull, by)
    check_not_begun(pull)
    # Only into the commit that the facts are about: another one has other files, owners and rules.
    sha = prepare_commit(pull=pull, by=by, method=method, target_sha=facts.target_head)
    merge = insert_merge(
        pull=pull, by=by, method=method, rebuild=rebuild, target_sha=facts.target_head, sha=sha, bypassed=bypassed
    )
    _land(merge, by)
    return _start_build(merge)


def check_manner(method: str, rebuild: str) -> None:
    """Refuse a way to merge that there is not."""
    if method not in dict(states.METHOD_CHOICES):
        raise InvalidInput(f"{method!r} is no way to merge.", errors={"method": ["merge or squash."]})
    if rebuild not in dict(states.REBUILD_CHOICES):
        raise InvalidInput(f"{rebuild!r} is no extent of a rebuild.", errors={"rebuild": ["modified or affected."]})


def _check_blockers(
    pull: PullRequest, facts: approvals.MergeFacts, by: Principal, *, bypass: bool
) -> list[approvals.Blocker]:
    """Return what was bypassed; refuse what cannot be."""
    blockers = approvals.list_blockers(facts)
    if not blockers:
        return []
    if not bypass or any(blocker.code not in approvals.BYPASSABLE for blocker in blockers):
        raise MergeBlocked([blocker.as_json() for blocker in blockers])
    check_repository(by, pull.repository.name, "maintain")
    if not facts.protection.allow_bypass:
        forbidden = approvals.Blocker("bypass_forbidden", f"The rules of {pull.target} forbid a bypass.")
        raise MergeBlocked([blocker.as_json() for blocker in (*blockers, forbidden)])
    record_audit(
        by=by,
        verb="bypass_merge_rules",
        object=f"{pull.repository.name}#{pull.number}",
        detail={"bypassed": [blocker.as_json() for blocker in blockers]},
        is_effect=False,
    )
    return blockers


def check_loads(pull: PullRequest, by: Principal) -> None:
    """Refuse users who may not load on the target what merging loads there.

    Raises:
        PermissionDenied: it says which right is missing.

    """
    paths = list(pull.datasets.loading().values_list("path", flat=True))
    refusal = find_load_refusal(by, pull, paths)
    if refusal:
        raise PermissionDenied(f"Merging loads files on {pull.target}. {refusal}", code="role_too_low")


def check_not_begun(pull: PullRequest) -> None:
    """Refuse where it is being merged already; one that was given up is forgotten."""
    Merge.objects.filter(pull=pull, state=MergeState.ABANDONED).delete()
    if existing := Merge.objects.filter(pull=pull).first():
        raise Conflict(f"The merge is under way already ({existing.state}).", code="merge_running")


def prepare_commit(*, pull: PullRequest, by: Principal, method: str, target_sha: str) -> str:
    """Make what would land on a commit, without moving a branch.

    Raises:
        Conflict: files conflict, which it names.

    """
    return repositories.prepare_merge(
        repository=pull.repository,
        source_sha=pull.head_sha,
        target_sha=target_sha,
        method="squash" if method == states.SQUASH else "merge",
        message=_write_message(pull, method),
        by=by,
        author=repositories.sign(pull.author),
    )


def insert_merge(
    *,
    pull: PullRequest,
    by: Principal,
    method: str,
    rebuild: str,
    target_sha: str,
    sha: str,
    bypassed: Sequence[approvals.Blocker] = (),
) -> Merge:
    """Write down what is to land.

    Raises:
        Conflict: another merge has begun, or it was closed or changed at this moment.

    """
    rows = list(pull.datasets.all())
    try:
        with transaction.atomic():
            # Closing and changing the target write the same row: the later one sees what the earlier one has done.
            unchanged = PullRequest.objects.filter(
                pk=pull.pk, state=PullState.OPEN, target=pull.target, draft=pull.draft
            )
            if not unchanged.update(updated_at=clock.now()):
                message = "The pull request was closed or changed at this moment. Reload to see its state."
                raise Conflict(message, code="not_open")
            return Merge.objects.create(
                pull=pull,
                repository=pull.repository,
                method=method,
                rebuild=rebuild,
                bypass=bool(bypassed),
                bypassed=[blocker.as_json() for blocker in bypassed],
                source_sha=pull.head_sha,
                target=pull.target,
                target_sha=target_sha,
                merge_commit=sha,
                targets=queries.list_targets(rows=rows, specs=queries.read_specs(pull=pull), rebuild=rebuild),
                loads=list_loads(pull, key=sha),
                reviewed={row.path: row.after_id for row in rows if row.after_id},
                merged_by_id=by.user_id,
            )
    except IntegrityError:
        raise Conflict("Another merge of it has begun at this moment.", code="merge_running") from None


def _write_message(pull: PullRequest, method: str) -> str:
    if method == states.SQUASH:
        message = f"{pull.title} (#{pull.number})\n\n{pull.body}"
        return add_trailers(message, _list_trailers(pull, read_trailers(message)))
    return f"Merge pull request #{pull.number} from {pull.source}\n\n{pull.title}\n"


def _list_trailers(pull: PullRequest, present: Sequence[Trailer]) -> list[Trailer]:
    """Return the trailers of a squash: the authors of its commits other than its own, and trailers of the commits."""
    commits = queries.list_own_commits(pull, limit=MOST_COMMITS)[::-1]
    named = [name_co_author(commit.author) for commit in commits if _has_own_work(pull, commit)]
    trailers = [*present, *named, *(trailer for commit in commits for trailer in read_trailers(commit.message))]
    usernames = accounts.find_usernames({trailer.co_author for trailer in trailers if trailer.co_author})
    author = repositories.sign(pull.author)
    seen = {author.email.lower(), pull.author.username}
    distinct = []
    for trailer in trailers:
        if (address := trailer.co_author) is not None:
            names = {address, usernames.get(address, address)}
            if names & seen:
                continue
            seen |= names
        distinct.append(trailer)
    return distinct


def _has_own_work(pull: PullRequest, commit: CommitInfo) -> bool:
    """Return whether a commit has work of its author: a merge that Git makes by itself has none."""
    if len(commit.parents) < 2:
        return True
    target, source = commit.parents[:2]
    return repository_queries.merge_state(pull.repository, source, target).tree != commit.tree


def _land(merge: Merge, by: Principal) -> None:
    """Move the target; on a lost race nothing has changed and the merge is given up."""
    pull = merge.pull
    try:
        repositories.land_merge(
            repository=pull.repository,
            branch=merge.landing_branch,
            expected_head=merge.target_sha,
            sha=merge.merge_commit,
            by=by,
        )
    except Conflict:
        if not queries.is_landed(merge):
            Merge.objects.filter(pk=merge.pk).move(to=MergeState.ABANDONED)
            raise
    _record_landed(merge)


def _record_landed(merge: Merge) -> None:
    now = clock.now()
    with transaction.atomic():
        if not Merge.objects.filter(pk=merge.pk).move(to=MergeState.LANDED, landed_at=now):
            merge.refresh_from_db()
            return
        PullRequest.objects.filter(pk=merge.pull_id).move(
            to=PullState.MERGED, target=merge.landing_branch, closed_at=now, updated_at=now
        )
        record_audit(
            by=accounts.principal_for_user(merge.merged_by),
            verb="merge_pull",
            object=f"{merge.pull.repository.name}#{merge.pull.number}",
            branch=merge.landing_branch,
            detail={"commit": merge.merge_commit, "method": merge.method, "bypass": merge.bypass},
        )
        record_event(
            pull=merge.pull,
            kind="merged",
            actor=merge.merged_by.username,
            data={
                "commit": merge.merge_commit,
                "target": merge.landing_branch,
                "method": merge.method,
                "bypassed": merge.bypassed,
            },
        )
    merge.refresh_from_db()
    merge.pull.refresh_from_db()


def _start_build(merge: Merge) -> Merge:
    """Start the build once; the row is claimed in the same atomic block in which the build is made."""
    principal = accounts.principal_for_user(merge.merged_by)
    with transaction.atomic():
        targets = [*(load["path"] for load in merge.loads), *merge.targets]
        to = MergeState.BUILDING if targets else MergeState.DONE
        finished_at = None if targets else clock.now()
        landed = Merge.objects.filter(pk=merge.pk, build=None)
        if not landed.move(to=to, was=MergeState.LANDED, finished_at=finished_at):
            merge.refresh_from_db()
            return merge
        if targets:
            order = builds.BuildOrder(
                branch=merge.landing_branch,
                targets=targets,
                loads=merge.loads,
                repository=merge.pull.repository,
                title=f"Rebuild for #{merge.pull.number}: {merge.pull.title}"[:250],
            )
            merge.build = builds.start_build(
                order=order, by=principal, trigger="merge", is_trusted=True, is_consequence=True
            )
            Merge.objects.filter(pk=merge.pk).update(build=merge.build)
    merge.refresh_from_db()
    return merge


def resume_merge(*, merge_id: int) -> None:
    """Take a merge on from where a crash left it. Safe to repeat, and while another process is at it."""
    merge = Merge.objects.filter(pk=merge_id).select_related("pull__repository", "merged_by").first()
    if merge is None:
        return
    if merge.state == MergeState.PREPARED:
        if queries.is_landed(merge):
            _record_landed(merge)
        elif not _may_still_land(merge):
            Merge.objects.filter(pk=merge.pk).move(to=MergeState.ABANDONED)
            return
        else:
            try:
                _land(merge, accounts.principal_for_user(merge.merged_by))
            except AppError:
                # The target moved first: nothing was merged, and the pull request is open as before.
                return
    if merge.state == MergeState.LANDED:
        _start_build(merge)


def _may_still_land(merge: Merge) -> bool:
    """Return whether the merge may still be done: by now it may be rejected, closed, pushed to, retargeted or lost."""
    pull = merge.pull
    if not queries.is_stored(merge):
        return False
    refresh_pull(pull=pull)
    blockers = {blocker.code for blocker in approvals.list_blockers(queries.collect_facts(pull))}
    is_as_asked = (pull.head_sha, pull.target) == (merge.source_sha, merge.landing_branch)
    return is_as_asked and blockers <= {str(blocker["code"]) for blocker in merge.bypassed}


def carry_on(*, merge: Merge) -> None:
    """Land what was written down, and start the build that makes the target's data follow.

    Raises:
        Conflict: the target moved first; nothing was merged.

    """
    _land(merge, accounts.principal_for_user(merge.merged_by))
    _start_build(merge)


def sweep_merges() -> int:
    """Resume merges that a crash left between two steps; one of a damaged repository holds up no other."""
    due = Merge.objects.filter(state__in=MERGE_GOES_ON, created_at__lt=clock.settled_now() - RESUME_AFTER).values_list(
        "pk", flat=True
    )
    for pk in due:
        try:
            resume_merge(merge_id=pk)
        except (AppError, GitError):
            logger.exception("merge %s cannot be resumed; it is tried again", pk)
    return len(due)


def note_build_finished(*, build: Build) -> None:
    """Close a merge whose rebuild has ended, and compare what it made with what was reviewed."""
    merge = Merge.objects.filter(build=build, state=MergeState.BUILDING).select_related("pull__repository").first()
    if merge is None:
        return
    outcome = _compare_with_reviewed(merge) if build.state == "COMPLETED" else {}
    Merge.objects.filter(pk=merge.pk).move(
        to=MergeState.DONE, was=MergeState.BUILDING, finished_at=clock.now(), outcome=outcome
    )
    record_event(
        pull=merge.pull,
        kind="rebuilt",
        actor=build.by.username,
        data={"build": build.pk, "state": build.state, "reason": build.reason},
    )


def retry_rebuild(*, pull: PullRequest, by: Principal) -> Build:
    """Try the failed rebuild of a merge again; what it has completed is fresh and is not run again.

    It carries the merge on, so that it takes the right to merge, as the rebuild did.

    Raises:
        Conflict: there is no rebuild that failed, or it is being tried again.

    """
    check_repository(by, pull.repository.name, "write")
    merge = queries.find_merge(pull)
    if merge is None or merge.build is None or not queries.is_rebuild_failed(merge):
        raise Conflict("There is no rebuild that failed.", code="not_failed")
    return builds.retry_build(build=merge.build, by=by, is_trusted=True)


def follow_retry(*, build: Build, again: Build) -> None:
    """Let a merge whose rebuild, or an earlier try of it, is tried again wait for the new build: the last one decides."""
    Merge.objects.filter(build__in=list_tries(build=build)).move(
        to=MergeState.BUILDING, build=again, finished_at=None, outcome={}
    )


def _compare_with_reviewed(merge: Merge) -> dict[str, Any]:
    """Start a comparison of each rebuilt dataset with the transaction that was reviewed."""
    rules = queries.read_rules_at(merge.pull.repository, merge.merge_commit)
    outcome: dict[str, Any] = {}
    for path in [*(load["path"] for load in merge.loads), *merge.targets]:
        dataset = datasets.find_dataset(path)
        after = datasets.latest_committed(dataset, merge.landing_branch) if dataset else None
        reviewed = dataset.transactions.filter(pk=merge.reviewed.get(path, "")).first() if dataset else None
        if dataset is None or after is None or reviewed is None:
            outcome[path] = {"comparison": None, "transaction": after.pk if after else None}
            continue
        comparison = request_comparison(
            dataset=dataset,
            before=reviewed,
            after=after,
            rules=replace(rules.get(path, ComparisonRules()), row_filter=""),
            by=merge.merged_by_id,
        )
        outcome[path] = {"comparison": comparison.pk, "transaction": after.pk, "reviewed": reviewed.pk}
    return outcome
