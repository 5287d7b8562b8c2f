"""The life of a pull request: open, edit, close, review, and following what moves under it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from django.db import IntegrityError, transaction
from django.db.models import Exists, Max, OuterRef

from webapp.accounts.permissions import check_repository
from webapp.builds import queries as builds
from webapp.comparisons.rules.dataset_rules import CombinedRules, ComparisonRules
from webapp.core import clock
from webapp.core.errors import Conflict, InvalidInput, PermissionDenied
from webapp.datasets import queries as datasets
from webapp.pulls import signals
from webapp.pulls.models import Merge, NamedComparison, PullDataset, PullRequest, Review
from webapp.pulls.queries import pulls as queries
from webapp.pulls.queries.approvers import MOST_COMMITS
from webapp.pulls.queries.expected import (
    NOTHING,
    check_head,
    check_pull,
    check_reviewed,
    check_shown,
    check_version,
    version_of_pull,
)
from webapp.pulls.queries.loads import list_loaded, may_be_loaded
from webapp.pulls.queries.looked import SeenRows, list_seen
from webapp.pulls.queries.own import list_files_to_land
from webapp.pulls.queries.sides import Course, find_ends
from webapp.pulls.queries.specs import find_work
from webapp.pulls.queries.verdicts import list_verdicts
from webapp.pulls.rules import states
from webapp.pulls.rules.comparisons import explain_base
from webapp.pulls.rules.datasets import find_needed
from webapp.pulls.rules.landing import Branches, explain_landing, explain_refreshed
from webapp.pulls.rules.loads import explain_nothing
from webapp.pulls.rules.sides import REVIEW_PREFIX
from webapp.pulls.rules.states import MergeState, PullState
from webapp.pulls.services.attaching import attach_comparisons
from webapp.pulls.services.checks import follow_checks
from webapp.pulls.services.pending import publish_pending
from webapp.pulls.services.remarks import announce_pull, check_body, record_event, record_pull_act
from webapp.pulls.services.reviewers import ask_owners
from webapp.repositories import queries as repositories
from webapp.repositories.rules import webhooks
from webapp.repositories.rules.states import PublicationState
from webapp.runtime import doorbell

if TYPE_CHECKING:
    from webapp.builds.models import Build
    from webapp.core.principals import Principal
    from webapp.datasets.models import Transaction
    from webapp.pulls.queries.expected import Expected
    from webapp.pulls.queries.specs import PullSpecs
    from webapp.repositories.models import Repository

NUMBER_TRIES = 5
NO_RULES = CombinedRules(ComparisonRules())
REFRESH_TASK = "webapp.pulls.tasks.refresh"


def open_pull(
    *,
    repository: Repository,
    title: str,
    source: str,
    target: str,
    by: Principal,
    body: str = "",
    draft: bool = False,
    reverts: PullRequest | None = None,
) -> PullRequest:
    """Propose to merge `source` into `target`, and start comparing what the branch has built.

    One that reverts a merged pull request is compared with what was there before that, too; it follows from that act,
    which the audit log has already.

    Raises:
        InvalidInput: no title, the same branch twice, a branch that is not there, or nothing to merge.
        Conflict: an open pull request for the same two branches.

    """
    check_repository(by, repository.name, "write")
    title = _check_title(title)
    check_body(body)
    head, base = _find_heads(repository, source, target)
    with transaction.atomic():
        pull = _insert_pull(
            repository=repository,
            title=title,
            body=body,
            source=source,
            target=target,
            draft=draft,
            author_id=by.user_id,
            head_sha=head,
            followed_sha="",
            base_sha=base,
            reverts=reverts,
        )
        record_event(pull=pull, kind="opened", actor=by.username, data={"head": head, "base": base})
        record_pull_act(pull, "open_pull", by=None if reverts else by, head=head, target=target)
        if reverts is not None:
            record_event(pull=reverts, kind="reverted", actor=by.username, data={"revert": pull.number})
    refresh_pull(pull=pull)
    return pull


def _record_commits(pull: PullRequest, *, before: str, after: str, target: str) -> None:
    """Note what came to the source: its own commits, and how many of the target's a merge brought."""
    new = repositories.list_commits(pull.repository, after, not_in=before, limit=MOST_COMMITS)
    ahead = repositories.list_commits(pull.repository, after, not_in=target, limit=MOST_COMMITS)
    own = {commit.sha for commit in ahead}
    commits = [commit for commit in new if commit.sha in own]
    record_event(
        pull=pull,
        kind="pushed",
        actor=repositories.find_mover(pull.repository, branch=pull.source, after=after)
        or (repositories.name_authors(commits[:1])[0].author.name if commits else ""),
        data={
            "before": before,
            "after": after,
            "commits": queries.name_commits(commits),
            "count": len(commits),
            "taken": len(new) - len(commits),
        },
    )


def record_build(*, pull: PullRequest, build: Build) -> None:
    """Note a finished build of the source branch."""
    took = (build.finished_at - build.created_at).total_seconds() if build.finished_at else None
    record_event(
        pull=pull,
        kind="built",
        actor=build.by.username,
        data={
            "build": build.pk,
            "state": build.state,
            "jobs": build.jobs.filter(skipped=False).count(),
            "fresh": build.jobs.filter(skipped=True).count(),
            "seconds": took,
        },
    )


def record_upload(*, pull: PullRequest, build: Build) -> None:
    """Note a file that was loaded on the source branch."""
    files = list(build.jobs.order_by("number").values_list("file", flat=True))
    record_event(pull=pull, kind="loaded", actor=build.by.username, data={"path": build.targets[0], "files": files})


def _check_title(title: str) -> str:
    title = title.strip()
    if not title:
        raise InvalidInput("A pull request needs a title.", errors={"title": ["Say in a few words what it changes."]})
    if len(title) > 250:
        raise InvalidInput("The title is too long.", errors={"title": ["At most 250 characters."]})
    return title


def _find_heads(repository: Repository, source: str, target: str) -> tuple[str, str]:
    if source == target:
        raise InvalidInput(
            f"Source and target are both {source}.", errors={"source": ["Choose a branch other than the target."]}
        )
    heads = {}
    for name, field in ((source, "source"), (target, "target")):
        head = queries.find_head(repository, name)
        if head is None:
            raise InvalidInput(
                f"The branch {name} does not exist in {repository.name}.", errors={field: ["No such branch."]}
            )
        heads[name] = head
    has_commits = queries.count_apart(repository, sha=heads[source], base=heads[target]).ahead
    if not has_commits and not list_files_to_land(repository, source=source, target=target):
        raise InvalidInput(
            explain_nothing(source=source, target=target),
            errors={"source": ["No commits ahead of the target, and no files of its own."]},
        )
    return heads[source], heads[target]


def _insert_pull(*, repository: Repository, **fields: Any) -> PullRequest:
    for _ in range(NUMBER_TRIES):
        last = PullRequest.objects.filter(repository=repository).aggregate(Max("number"))["number__max"] or 0
        try:
            with transaction.atomic():
                return PullRequest.objects.create(repository=repository, number=last + 1, **fields)
        except IntegrityError:
            existing = PullRequest.objects.filter(
                repository=repository, source=fields["source"], target=fields["target"], state=PullState.OPEN
            ).first()
            if existing:
                raise Conflict(
                    f"Pull request #{existing.number} for {existing.source} into {existing.target} is open already.",
                    code="pull_exists",
                ) from None
    raise Conflict("Other pull requests are being opened at this moment. Try again.", code="busy")


def update_pull(
    *, pull: PullRequest, by: Principal, changes: Mapping[str, Any], expected: Expected = NOTHING
) -> PullRequest:
    """Change title, body, draft, target or state: all that is asked, or nothing. A new target makes approvals void.

    Raises:
        InvalidInput: a field that cannot be changed, or a value that it cannot have.
        Conflict: it is merged, a target is asked for while it is not open, or it was edited since it was shown.

    """
    _check_may_edit(pull, by)
    try:
        with transaction.atomic():
            PullRequest.objects.select_for_update().get(pk=pull.pk)
            pull.refresh_from_db()
            check_pull(pull, expected)
            check_version(
                version_of_pull(pull), expected.version, what="The pull request", title=pull.title, body=pull.body
            )
            _check_changes(pull, changes)
            _apply_changes(pull, by, changes)
    except IntegrityError:
        raise _other_is_open(pull) from None
    refresh_pull(pull=pull)
    return pull


def _apply_changes(pull: PullRequest, by: Principal, changes: Mapping[str, Any]) -> None:
    if changes.get("state") == PullState.CLOSED and pull.state == PullState.OPEN:
        close_pull(pull=pull, by=by)
    elif changes.get("state") == PullState.OPEN and pull.state == PullState.CLOSED:
        reopen_pull(pull=pull, by=by)
    if "title" in changes and changes["title"] != pull.title:
        old, pull.title = pull.title, _check_title(changes["title"])
        record_event(pull=pull, kind="retitled", actor=by.username, data={"before": old, "after": pull.title})
    if "body" in changes and (changes["body"] or "") != pull.body:
        old, pull.body = pull.body, changes["body"] or ""
        record_event(pull=pull, kind="described", actor=by.username, data={"before": old})
    if "draft" in changes and bool(changes["draft"]) != pull.draft:
        pull.draft = bool(changes["draft"])
        record_event(pull=pull, kind="drafted" if pull.draft else "ready", actor=by.username)
    if "target" in changes and changes["target"] != pull.target:
        _change_target(pull, changes["target"], by)
    pull.updated_at = clock.now()
    pull.save(update_fields=["title", "body", "draft", "target", "base_sha", "updated_at"])
    if set(changes) - {"state"}:
        record_pull_act(pull, "update_pull", by=by, fields=sorted(set(changes) - {"state"}))


def _check_changes(pull: PullRequest, changes: Mapping[str, Any]) -> None:
    if "title" in changes:
        _check_title(changes["title"])
    check_body(changes.get("body") or "")
    state = changes.get("state", pull.state)
    if state not in (PullState.OPEN, PullState.CLOSED) and state != pull.state:
        message = f"state is open or closed, not {state!r}; merging has an address of its own."
        raise InvalidInput(message, errors={"state": [message]})
    if pull.state == PullState.MERGED and state != pull.state:
        raise Conflict("The pull request is merged: it can be neither closed nor opened again.", code="not_open")
    if changes.get("target", pull.target) != pull.target and state == PullState.OPEN:
        _find_heads(pull.repository, pull.source, changes["target"])


def _change_target(pull: PullRequest, target: str, by: Principal) -> None:
    if not PullRequest.objects.filter(pk=pull.pk, state=PullState.OPEN).update(updated_at=clock.now()):
        message = f"The pull request is {_fresh_state(pull)}; its target stays {pull.target}."
        raise Conflict(message, code="not_open")
    _check_not_merging(pull)
    _head, base = _find_heads(pull.repository, pull.source, target)
    record_event(pull=pull, kind="retargeted", actor=by.username, data={"before": pull.target, "after": target})
    pull.target, pull.base_sha = target, base


def _check_may_edit(pull: PullRequest, by: Principal) -> None:
    check_repository(by, pull.repository.name, "read")
    if by.user_id != pull.author_id:
        check_repository(by, pull.repository.name, "maintain")


def close_pull(*, pull: PullRequest, by: Principal) -> None:
    """Close without a merge. The branch and its data stay.

    Raises:
        Conflict: it is not open, or its merge has begun.

    """
    _check_may_edit(pull, by)
    now = clock.now()
    with transaction.atomic():
        if not PullRequest.objects.filter(pk=pull.pk).move(to=PullState.CLOSED, closed_at=now, updated_at=now):
            raise Conflict(f"The pull request is {_fresh_state(pull)}, not open.", code="not_open")
        _check_not_merging(pull)
        pull.refresh_from_db()
        record_event(pull=pull, kind="closed", actor=by.username)
        record_pull_act(pull, "close_pull", by=by)


def reopen_pull(*, pull: PullRequest, by: Principal) -> None:
    """Open a closed pull request again, if its branch is still there."""
    _check_may_edit(pull, by)
    if pull.state == PullState.MERGED:
        raise Conflict("The pull request is merged, not closed.", code="not_closed")
    _find_heads(pull.repository, pull.source, pull.target)
    try:
        with transaction.atomic():
            changed = PullRequest.objects.filter(pk=pull.pk).move(
                to=PullState.OPEN, closed_at=None, updated_at=clock.now()
            )
            if not changed:
                raise Conflict(f"The pull request is {_fresh_state(pull)}, not closed.", code="not_closed")
            record_event(pull=pull, kind="reopened", actor=by.username)
            record_pull_act(pull, "reopen_pull", by=by)
    except IntegrityError:
        raise _other_is_open(pull) from None
    pull.refresh_from_db()
    refresh_pull(pull=pull)


def _check_not_merging(pull: PullRequest) -> None:
    """Refuse a change that would come too late; call it where the row of the pull request has been written."""
    if Merge.objects.filter(pull=pull).exclude(state=MergeState.ABANDONED).exists():
        message = "The pull request is being merged at this moment. Reload to see what came of it."
        raise Conflict(message, code="merge_running")


def _other_is_open(pull: PullRequest) -> Conflict:
    return Conflict(f"Another pull request for {pull.source} into {pull.target} is open.", code="pull_exists")


def _fresh_state(pull: PullRequest) -> str:
    return PullRequest.objects.values_list("state", flat=True).get(pk=pull.pk)


def add_review(
    *,
    pull: PullRequest,
    verdict: str,
    by: Principal,
    body: str = "",
    expected_head: str | None = None,
    expected_target: str | None = None,
    expected_transaction: str | None = None,
    expected_data: str | None = None,
) -> Review:
    """Give a verdict on exactly what the pull request shows now, with the comments of one's own pending review.

    Raises:
        PermissionDenied: approving one's own pull request.
        Conflict: the pull request is not open, its head or data are not the expected ones, or the merge would change
            more than the comparison with the expected target showed.
        InvalidInput: an unknown verdict, or a comment without text.

    """
    check_repository(by, pull.repository.name, "read")
    if verdict not in dict(states.VERDICT_CHOICES):
        raise InvalidInput(f"{verdict!r} is no verdict.", errors={"verdict": ["One of approve, reject and comment."]})
    check_body(body)
    if verdict == states.APPROVE:
        if by.user_id == pull.author_id:
            raise PermissionDenied("Nobody approves their own pull request.", code="own_pull")
        check_repository(by, pull.repository.name, "write")
    refresh_pull(pull=pull)
    if pull.state != PullState.OPEN:
        raise Conflict(f"The pull request is {pull.state}; it takes no more reviews.", code="not_open")
    check_head(pull, expected_head)
    check_reviewed(pull, transaction=expected_transaction, data=expected_data)
    if verdict == states.APPROVE:
        _check_accepted(pull, by)
        check_shown(pull, expected_target)
    seen = queries.describe_seen(pull=pull)
    with transaction.atomic():
        review = Review.objects.create(
            pull=pull,
            repository=pull.repository,
            head_sha=seen.head,
            reviewer_id=by.user_id,
            verdict=verdict,
            body=body,
            seen=seen.as_json(),
        )
        comments = publish_pending(review=review, by=by)
        if verdict == states.COMMENT and not body.strip() and not comments:
            raise InvalidInput("A review that only comments needs text.", errors={"body": ["Write something."]})
        NamedComparison.objects.filter(row__pull=pull, reviewer_id=by.user_id).delete()  # of their review before
        announce_pull(pull, webhooks.REVIEW, action=verdict, by=by.username, body=body)
        record_pull_act(pull, "review_pull", by=by, verdict=verdict, head=pull.head_sha, comments=len(comments))
        PullRequest.objects.filter(pk=pull.pk).update(updated_at=clock.now())
        signals.review_given.send(sender=Review, review=review, comments=comments, by=by)
        signals.standing_moved.send(sender=PullRequest, pull=pull)
    return review


def _check_accepted(pull: PullRequest, by: Principal) -> None:
    """Refuse the approval of a reviewer who rejects a part of it."""
    verdicts = list_verdicts(pull, pull.datasets.all())
    own = [
        verdict.path
        for verdict in verdicts
        if verdict.reviewer == by.username and verdict.verdict == states.REJECTED and not verdict.void
    ]
    if own:
        message = (
            f"You rejected the data of {', '.join(sorted(own))}. Accept it, or take that back, before you approve."
        )
        raise Conflict(message, code="dataset_rejected")


def announce_branch_moved(*, repository: Repository, branch: str) -> None:
    """Look again at every open pull request from or into a branch, soon."""
    pulls = PullRequest.objects.filter(repository=repository, state=PullState.OPEN)
    for pk in (pulls.filter(source=branch) | pulls.filter(target=branch)).values_list("pk", flat=True):
        ring_refresh(pull_id=pk)


def ring_refresh(*, pull_id: int) -> None:
    """Ask a worker to look at a pull request again once the current changes are committed."""
    transaction.on_commit(lambda: doorbell.ring(REFRESH_TASK, queue="quick", id=pull_id))


def refresh_pull(*, pull: PullRequest) -> None:
    """Bring heads, datasets, diffs and approvals of an open pull request up to date. Safe to repeat."""
    pull.refresh_from_db()
    if pull.state != PullState.OPEN:
        return
    head, base = (queries.find_head(pull.repository, branch) for branch in (pull.source, pull.target))
    # Asked after the heads were read: a target that its own merge has moved is no new base, and what was reviewed stays.
    merge = queries.find_merge(pull)
    if merge is not None and queries.is_landed(merge):
        return
    _follow_heads(pull, head=head, base=base)
    # Asked before the JobSpecs are read: those that are published meanwhile are followed by the next look.
    publication = repositories.get_publication(pull.repository, pull.source, pull.head_sha)
    _follow_datasets(pull)
    if (
        publication is not None
        and publication.status == PublicationState.PUBLISHED
        and pull.followed_sha != pull.head_sha
    ):
        pull.followed_sha = pull.head_sha
        PullRequest.objects.filter(pk=pull.pk, head_sha=pull.head_sha).update(followed_sha=pull.head_sha)
    follow_checks(pull)
    _void_approvals(pull)
    ask_owners(pull=pull)
    signals.standing_moved.send(sender=PullRequest, pull=pull)


def _follow_heads(pull: PullRequest, *, head: str | None, base: str | None) -> None:
    if head and head != pull.head_sha:
        before = pull.head_sha
        moved = {"head_sha": head, "followed_sha": "", "updated_at": clock.now()}
        if PullRequest.objects.filter(pk=pull.pk, head_sha=before).update(**moved):
            _record_commits(pull, before=before, after=head, target=base or pull.base_sha)
    if base and base != pull.base_sha:
        before = pull.base_sha
        if PullRequest.objects.filter(pk=pull.pk, base_sha=before).update(base_sha=base):
            record_event(pull=pull, kind="target_moved", data={"before": before, "after": base, "branch": pull.target})
    pull.refresh_from_db()


def _follow_datasets(pull: PullRequest) -> None:
    specs = queries.read_specs(pull=pull)
    course = _find_course(pull)
    work = find_work(pull.repository, specs=specs, branches=course.own, target=pull.base_sha)
    own, loaded, changes = work.own, work.loaded, work.changes
    with_files = {row.path for row in pull.datasets.all() if may_be_loaded(row)}
    chosen = set(pull.datasets.loading().values_list("path", flat=True))
    left = {path: place for path, place in loaded.items() if path not in chosen}
    branches = Branches(pull.target, specs.changed_paths, specs.head_inputs, left)
    rules = queries.read_rules(pull=pull) | queries.read_rules_of_others(pull, changes)
    seen = list_seen(pull)
    needed = find_needed(changes, specs.head_inputs)
    for path, change in changes.items():
        is_left = change == states.REFRESHED and path not in needed
        code = specs.head_code.get(path, "")
        after = own.get(path) or _find_inherited(path, code, course.own[1:])
        described = {
            "change": change,
            "is_rebuilt": bool(code) and (path in specs.changed_paths or path not in loaded),
            "lands_reason": explain_refreshed(pull.target) if is_left else explain_landing(path, branches),
            "rule_changes": list(rules.get(path, NO_RULES).changes),
            "changed_files": specs.changed_files.get(path, []),
            "current": after is not None and _is_current(after, code, is_changed=path in specs.changed_paths),
        }
        held = rules.get(path, NO_RULES).rules
        _follow_dataset(pull, path, after, held, described, course=course, specs=specs, ours=changes, seen=seen)
    pull.datasets.exclude(path__in=changes).delete()
    if _include_files(pull, loaded.keys() - with_files):
        _follow_datasets(pull)  # merging now lands more


def _include_files(pull: PullRequest, paths: Collection[str]) -> int:
    """Have merging load the files that were loaded on the source, until somebody leaves them out; return how many.

    Onto the rows that the source began with: if the target has others by now, somebody has to decide.
    """
    rows = pull.datasets.filter(path__in=paths, loads_onto=None)
    datasets_to_load = [dataset for dataset in list_loaded(pull, rows) if not dataset.problem]
    for dataset in datasets_to_load:
        rows.filter(pk=dataset.row.pk).update(loads_onto=dataset.uploads.start, loads_rows=dataset.row.after_id or "")
    return len(datasets_to_load)


def _is_current(after: Transaction, code: str, *, is_changed: bool) -> bool:
    """Return whether the rows are what the source's code makes; what a user loaded comes from no code that changes."""
    code_of_rows = builds.find_token(transaction=after) if code else ""
    return code_of_rows == code or (not code_of_rows and not is_changed)


def _find_course(pull: PullRequest) -> Course:
    """Find the branches of both sides: the source's readers fall back to those below it, up to the target's."""
    target = builds.default_chain(repository=pull.repository, branch=pull.target)
    below = builds.default_chain(repository=pull.repository, branch=pull.source)[1:]
    return Course((pull.source, *takewhile(lambda branch: branch not in target, below)), target)


def _find_inherited(path: str, code: str, branches: Sequence[str]) -> Transaction | None:
    """Find what a branch below the source has made with the source's code: a build there would skip it as fresh."""
    inherited = datasets.resolve_input(path=path, chain=branches) if code and branches else None
    return inherited[1] if inherited and builds.find_token(transaction=inherited[1]) == code else None


def _follow_dataset(
    pull: PullRequest,
    path: str,
    after: Transaction | None,
    rules: ComparisonRules,
    described: Mapping[str, Any],
    *,
    course: Course,
    specs: PullSpecs,
    ours: Collection[str],
    seen: Collection[SeenRows],
) -> None:
    dataset = datasets.find_dataset(path)
    ends = find_ends(
        pull=pull,
        dataset=dataset,
        after=after,
        course=course,
        base_code=specs.base_code,
        ours=specs.made_paths.intersection(ours),
    )
    fields = {
        **described,
        "dataset": dataset,
        "compared": ends.compared,
        "before": ends.before,
        "after": after,
        "base_note": explain_base(source=pull.source, target=pull.target, has_code_effect=ends.code is not None)
        if ends.is_of_other_code
        else "",
    }
    # Together, or readers would see the counts of one comparison beside the ends of another.
    with transaction.atomic():
        row, is_new = PullDataset.objects.update_or_create(pull=pull, path=path, defaults=fields)
        others = {reviewer: rows for reviewer, rows in seen if rows.dataset_id == row.dataset_id and rows != after}
        attach_comparisons(row=row, pairs=ends.pairs, seen=others, rules=rules, by=pull.author_id)
        if is_new:
            signals.dataset_joined.send(sender=PullDataset, row=row)


def _void_approvals(pull: PullRequest) -> None:
    now = queries.describe_seen(pull=pull)
    target = queries.find_head(pull.repository, pull.target)
    for review in pull.reviews.filter(verdict=states.APPROVE, voided_at=None).select_related("reviewer"):
        review.pull = pull
        reason = queries.find_void_reason(review, now=now, target=target)
        if reason and Review.objects.filter(pk=review.pk, voided_at=None).update(
            voided_at=clock.now(), void_reason=reason[:400]
        ):
            record_event(
                pull=pull,
                kind="approval_void",
                data={"reviewer": review.reviewer.username, "reason": reason, "review": review.pk},
            )


def sweep_names() -> int:
    """Name what a process of the release before this one compared: it leaves the name that stood there.

    It knew two comparisons, and none of their names. Those of open pull requests are made anew.
    """
    named = NamedComparison.objects.filter(
        row=OuterRef("pk"), name=OuterRef("compared"), comparison=OuterRef("comparison")
    )
    rows = PullDataset.objects.filter(~Exists(named), comparison__isnull=False)
    of_code = rows.filter(before__branch_name__startswith=REVIEW_PREFIX).exclude(compared=states.CODE_EFFECT)
    of_target = rows.exclude(before__branch_name__startswith=REVIEW_PREFIX).exclude(compared=states.TARGET_NOW)
    wrong = {states.CODE_EFFECT: list(of_code), states.TARGET_NOW: list(of_target)}
    for name, misnamed in wrong.items():
        for row in misnamed:
            _rename(row, name)
    return sum(map(len, wrong.values()))


def _rename(row: PullDataset, name: str) -> None:
    seen = PullDataset.objects.filter(pk=row.pk, comparison=row.comparison_id, compared=row.compared)
    if seen.update(compared=name, base_note=""):
        ring_refresh(pull_id=row.pull_id)


def refresh_by_id(*, pull_id: int) -> None:
    """Refresh a pull request that may be gone."""
    pull = PullRequest.objects.filter(pk=pull_id).select_related("repository", "author").first()
    if pull is not None:
        refresh_pull(pull=pull)
