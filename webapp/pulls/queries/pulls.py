"""What services and API need to know of a pull request."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from django.contrib.auth.models import Group
from django.db.models import Prefetch, Q, QuerySet

from webapp.accounts import permissions
from webapp.accounts.models import User
from webapp.accounts.queries import get_signed_in_user, principal_for_user
from webapp.builds.models import Build
from webapp.builds.rules.states import BuildState
from webapp.comparisons.models import Comparison
from webapp.comparisons.queries.counts import judge_comparison
from webapp.comparisons.rules.dataset_rules import (
    PIPELINE_FILE,
    CombinedRules,
    ComparisonRules,
    combine_rules,
    find_changed,
    read_dataset_rules,
)
from webapp.core.errors import AppError, Conflict, NotFound
from webapp.core.names import is_dataset_path
from webapp.core.numbers import LARGEST
from webapp.core.once import asked_once
from webapp.core.prepared import Prepared
from webapp.datasets.permissions import see_keys
from webapp.git.values import Landing
from webapp.pulls.models import Merge, NamedComparison, PullDataset, PullRequest, QueuedMerge, Review
from webapp.pulls.queries.approvers import MOST_COMMITS, list_co_authors, list_ineligible
from webapp.pulls.queries.checked import list_query_checks, read_fact
from webapp.pulls.queries.loads import list_load_facts
from webapp.pulls.queries.named import find_shown
from webapp.pulls.queries.owners import find_owners, list_owned_changes
from webapp.pulls.queries.specs import Head, PullSpecs, compare_specs
from webapp.pulls.queries.threads import list_open_threads
from webapp.pulls.queries.verdicts import list_verdicts
from webapp.pulls.rules import approvals, checks, states
from webapp.pulls.rules.checks import CheckResult
from webapp.pulls.rules.comparisons import explain_refused_rules
from webapp.pulls.rules.datasets import find_downstream
from webapp.pulls.rules.states import MergeState, PullState
from webapp.repositories import permissions as repository_permissions
from webapp.repositories import queries as repositories
from webapp.repositories.rules.checks import COLOURS, GREEN, MERGE_RESULT, find_check, is_query
from webapp.repositories.rules.patterns import matches
from webapp.repositories.rules.states import PublicationState

if TYPE_CHECKING:
    from webapp.core.principals import Principal
    from webapp.git.diff import CodeDiff
    from webapp.git.values import CommitInfo
    from webapp.pulls.rules.owners import OwnedChange
    from webapp.repositories.models import CommitStatus, Protection, Publication, Repository

NAMED_COMMITS = 20
"""Of a push, or of those with which it was opened, that are named."""
_PULLS = Prepared(
    lambda repository, number: PullRequest.objects.filter(repository_id=repository, number=number).select_related(
        "author"
    ),
    int,
    int,
)
_REVIEWS = Prepared(lambda pull: Review.objects.filter(pull_id=pull).select_related("reviewer"), int)
_LATEST_BUILD = Prepared(
    lambda repository, branch: (
        Build.objects.filter(repository_id=repository, branch=branch, kind="run")
        .exclude(trigger="review")
        .order_by("-id")[:1]
    ),
    int,
    str,
)


def get_pull(principal: Principal, repository_name: str, number: int) -> PullRequest:
    """Return one pull request of a repository that the reader may see.

    Raises:
        NotFound: no such repository or pull request for this reader.

    """
    repository = repositories.get_repository(principal, repository_name)
    pull = _PULLS.first(repository.pk, number) if number <= LARGEST else None
    if pull is None:
        raise NotFound(f"{repository_name} has no pull request #{number}.")
    pull.repository = repository
    return pull


def find_head(repository: Repository, branch: str) -> str | None:
    """Find the commit of a branch, None when there is no such branch."""
    return repository.git.find_head(branch)


def list_own_commits(pull: PullRequest, *, offset: int = 0, limit: int | None = None) -> list[CommitInfo]:
    """List the commits that the source has and the target has not, newest first; after a merge, the merged ones."""
    return repositories.list_commits(pull.repository, pull.head_sha, not_in=find_base(pull), offset=offset, limit=limit)


def name_commits(commits: Sequence[CommitInfo]) -> list[dict[str, str]]:
    """Return what an event keeps of commits, newest first: the newest ones, in the order in which they were made."""
    return [{"sha": commit.sha, "subject": commit.subject} for commit in reversed(commits[:NAMED_COMMITS])]


def count_own_commits(pull: PullRequest) -> int:
    """Count these commits."""
    return count_apart(pull.repository, sha=pull.head_sha, base=find_base(pull)).ahead


class Apart(NamedTuple):
    """How many commits each of two has that the other has not."""

    ahead: int
    behind: int


@asked_once
def count_apart(repository: Repository, *, sha: str, base: str) -> Apart:
    """Count how far a commit is ahead of another one, and behind it."""
    return Apart(*repositories.count_ahead_behind(repository, [sha], base)[sha])


def get_target_head(pull: PullRequest) -> str:
    """Return the head of the target, for an act that needs one.

    Raises:
        Conflict: the branch does not exist.

    """
    head = find_head(pull.repository, pull.target)
    if head is None:
        raise Conflict(f"The branch {pull.target} does not exist.", code="target_missing")
    return head


def read_specs(*, pull: PullRequest) -> PullSpecs:
    """Read the JobSpecs of the source's head, and those where it left the target."""
    source, target = Head(pull.source, pull.head_sha), Head(pull.target, pull.base_sha)
    return compare_specs(pull.repository, source=source, target=target)


def read_rules(*, pull: PullRequest) -> dict[str, CombinedRules]:
    """Read the review rules of each dataset that its repository owns, from both heads and from where they parted.

    A rule that is refused does not count.
    """
    stated = _read_stated(pull)
    refused = _find_refused(pull, stated)
    none = ComparisonRules()
    rules = combine_rules(
        head={**stated.head, **{path: stated.begin.get(path, none) for path in refused}},
        target={**stated.target, **{path: stated.default.get(path, none) for path in refused}},
        begin=stated.begin,
    )
    return {
        path: replace(rule, changes=(*rule.changes, refused[path])) if path in refused else rule
        for path, rule in rules.items()
    }


def list_refused_rules(pull: PullRequest) -> list[str]:
    """List why review rules of the source or of its target are refused: they name columns that its authors may not see."""
    if pull.state != PullState.OPEN:
        return []
    if pull.target == pull.repository.default_branch:
        landing = _list_landing_paths(pull, find_head(pull.repository, pull.target))
        if PIPELINE_FILE not in landing:
            return []
    return list(_find_refused(pull, _read_stated(pull)).values())


_Rules = Mapping[str, ComparisonRules]


class _StatedRules(NamedTuple):
    head: _Rules
    target: _Rules
    begin: _Rules
    """Where the source left the target."""
    default: _Rules
    """On the default branch, whose rules its protection guards. Any writer can state others on other branches."""


def _read_stated(pull: PullRequest) -> _StatedRules:
    repository, base = pull.repository, find_base(pull)
    begin = repositories.find_merge_base(repository, base, pull.head_sha) or base
    is_onto_default = pull.target == repository.default_branch
    default = base if is_onto_default else find_head(repository, repository.default_branch) or base
    return _StatedRules(*(read_rules_at(repository, sha) for sha in (pull.head_sha, base, begin, default)))


def _find_refused(pull: PullRequest, stated: _StatedRules) -> dict[str, str]:
    """Return why rules of a dataset are refused, by its path.

    Which rows a rule selects, and how it pairs them, shows what is in the columns that it names.
    """
    none = ComparisonRules()
    refused: dict[str, str] = {}
    for path in sorted({*stated.head, *stated.target}):
        head, target, begin, default = (rules.get(path, none) for rules in stated)
        changed = (find_changed(head, besides=(target, begin, default)), find_changed(target, besides=(default,)))
        if changed == (none, none):
            continue
        for user, act in [
            (pull.author, "opened it"),
            *((user, f"pushed {sha[:7]}") for user, sha in list_bringers(pull)),
        ]:
            hidden = sorted(see_keys(principal_for_user(user), path).hidden)
            named = [name for rules in changed for name in rules.list_named(hidden)]
            if named:
                columns = list(dict.fromkeys(named))
                refused[path] = explain_refused_rules(path=path, named=columns, username=user.username, act=act)
                break
    return refused


def list_bringers(pull: PullRequest) -> list[tuple[User, str]]:
    """List the users who pushed commits of a pull request, each with one of these commits."""
    commits = list_own_commits(pull, limit=MOST_COMMITS)
    pushers = repositories.list_pushers(pull.repository, branch=pull.source, commits=[commit.sha for commit in commits])
    return [(user, pushers[user.pk]) for user in User.objects.filter(pk__in=pushers).order_by("pk")]


def read_rules_of_others(pull: PullRequest, paths: Collection[str]) -> dict[str, CombinedRules]:
    """Read the review rules of those of these datasets that other repositories own, as their default branches have them.

    Only who owns a dataset knows its key; where a repository cannot be read, its datasets have no rules.
    """
    owners = {permissions.find_folder_owner(path) for path in paths}
    rules: dict[str, CombinedRules] = {}
    for name in {owner for owner in owners if owner} - {pull.repository.name}:
        owner = repositories.find_repository(name)
        try:
            head = repositories.get_head(owner, owner.default_branch) if owner else ""
            held = read_rules_at(owner, head) if owner else {}
        except AppError:
            continue
        rules |= {path: CombinedRules(rule) for path, rule in held.items()}
    return rules


def read_rules_at(repository: Repository, sha: str) -> dict[str, ComparisonRules]:
    """Read the review rules from pipeline.toml of a commit: only those of datasets that the repository owns."""
    if repositories.find_kind(repository, sha, PIPELINE_FILE) is None:
        return {}
    text = repositories.read_file(repository, sha, PIPELINE_FILE).decode("utf-8", "replace")
    return {
        path: rules
        for path, rules in read_dataset_rules(text).items()
        if is_dataset_path(path) and permissions.find_folder_owner(path) == repository.name
    }


def find_protection(pull: PullRequest) -> Protection | None:
    """Find the rules of the target branch."""
    return repository_permissions.find_protection(pull.repository, pull.target)


def describe_rules(protection: Protection | None) -> dict[str, Any]:
    """Return the rules as plain values, for their digest."""
    if protection is None:
        return {}
    return {
        "approvals": protection.approvals,
        "groups": sorted(_read_groups(protection)),
        "paths": protection.paths,
        "checks": protection.checks,
    }


@asked_once
def _read_groups(protection: Protection) -> Mapping[str, frozenset[str]]:
    """Return the members of the groups whose approval the rules ask for."""
    groups = protection.groups.prefetch_related("user_set")
    return {group.name: frozenset(user.username for user in group.user_set.all()) for group in groups}


def _list_reviewed(pull: PullRequest) -> list[PullDataset]:
    return [row for row in list_all_datasets(pull) if row.change in states.CHANGED]


def list_reviewed(pull: PullRequest) -> dict[str, str]:
    """Return the source's transaction of each dataset that a verdict is about; empty before its first build."""
    return {row.path: row.after_id or "" for row in _list_reviewed(pull)}


def describe_seen(*, pull: PullRequest) -> approvals.Seen:
    """Return what a verdict given now would be bound to."""
    rows = _list_reviewed(pull)
    return approvals.Seen(
        head=pull.head_sha,
        target=pull.target,
        rules=approvals.digest_rules(describe_rules(find_protection(pull))),
        transactions={row.path: row.after_id or "" for row in rows},
        loads={row.path: row.loads_onto for row in rows if row.loads_onto is not None},
        base=repositories.find_merge_base(pull.repository, pull.base_sha, pull.head_sha) or "",
    )


def find_void_reason(review: Review, *, now: approvals.Seen, target: str | None) -> str | None:
    """Return why an approval no longer counts, or None.

    Args:
        review: an approval.
        now: what the pull request shows.
        target: the head of the target.

    """
    seen, pull = approvals.Seen.from_json(review.seen), review.pull
    reason = approvals.find_void_reason(seen=seen, now=now)
    if reason or not seen.base or not target:
        return reason
    # The target can come to have a part of the source's history. The same head then shows and lands other changes.
    landing = repositories.find_landing(
        pull.repository, source_sha=pull.head_sha, target_sha=target, shown_from=seen.base
    )
    return approvals.explain_unshown(landing.unshown & landing.changed, pull.target)


@asked_once
def find_latest_build(pull: PullRequest) -> Build | None:
    """Find the newest build of the source branch that was no upload."""
    return _LATEST_BUILD.first(pull.repository_id, pull.source)


def list_builds(pull: PullRequest) -> QuerySet[Build]:
    """List the builds of its source, of its places in the merge queue and of its merge, newest first."""
    tests = QueuedMerge.objects.filter(pull=pull).exclude(build=None).values("build")
    rebuilds = Merge.objects.filter(pull=pull).exclude(build=None).values("build")
    own = Q(repository=pull.repository, branch=pull.source, kind="run")
    return Build.objects.filter(own | Q(pk__in=tests) | Q(pk__in=rebuilds)).order_by("-pk")


@asked_once
def count_builds(pull: PullRequest) -> int:
    """Count these builds."""
    return list_builds(pull).order_by().count()


def list_blockers(pull: PullRequest) -> list[approvals.Blocker]:
    """List every reason why it may not be merged now."""
    return approvals.list_blockers(collect_facts(pull))


def collect_facts(pull: PullRequest) -> approvals.MergeFacts:
    """Return what the rules look at, as values."""
    repository = pull.repository
    source, target = find_head(repository, pull.source), find_head(repository, pull.target)
    both = bool(source and target)
    apart = count_apart(repository, sha=pull.head_sha, base=target) if both and target else Apart(0, 0)
    landing = _find_landing(pull, target) if both else Landing()
    publication = repositories.get_publication(repository, pull.source, pull.head_sha)
    build = find_latest_build(pull)
    rows = list_all_datasets(pull)
    protection = _describe_protection(pull, rows, target=target)
    reviews = list_reviews(pull)
    void = _list_void(reviews, now=describe_seen(pull=pull), target=target)
    approvers = {review.reviewer for review in reviews if review.verdict == states.APPROVE and review.pk not in void}
    return approvals.MergeFacts(
        state=pull.state,
        draft=pull.draft,
        author=pull.author.username,
        source=pull.source,
        target=pull.target,
        source_exists=source is not None,
        target_exists=target is not None,
        has_commits=bool(apart.ahead),
        open_threads=list_open_threads(pull).count() if protection.resolved_threads else 0,
        behind=apart.behind,
        conflicts=landing.conflicts,
        target_head=target or "",
        unshown=landing.unshown,
        publication=_judge_publication(pull, publication),
        publication_errors=len(publication.errors) if publication else 0,
        build_state=build.state if build and list_rebuilt(rows) else "",
        build_id=build.pk if build else None,
        datasets=[approvals.DatasetFact(row.path, row.change, row.current) for row in rows],
        reviews=[
            approvals.ReviewFact(review.reviewer.username, review.verdict, review.pk in void) for review in reviews
        ],
        dataset_verdicts=list_verdicts(pull, rows),
        ineligible=list_ineligible(pull, reviewers=approvers, base=find_base(pull)),
        co_authors=list_co_authors(pull, find_base(pull)) if approvers else {},
        protection=protection,
        failed_checks=list_failed_checks(pull),
        refused_rules=list_refused_rules(pull),
        loads=list_load_facts(pull, rows) if pull.state == PullState.OPEN else (),
    )


def _list_void(reviews: Iterable[Review], *, now: approvals.Seen, target: str | None) -> set[int]:
    """Return the verdicts that do not count for what the pull request shows here.

    Somebody who approves at this moment may have seen a newer head or another target, which nobody has noted on the
    others yet: such an approval is not one of what is about to be merged.
    """
    return {
        review.pk
        for review in reviews
        if review.voided_at is not None
        or (review.verdict == states.APPROVE and find_void_reason(review, now=now, target=target))
    }


@asked_once
def list_reviews(pull: PullRequest) -> Sequence[Review]:
    """List the verdicts on a pull request, with who gave them."""
    reviews = _REVIEWS.all(pull.pk)
    for review in reviews:
        review.pull = pull
    return reviews


def list_objections(pull: PullRequest) -> dict[str, approvals.Objection]:
    """Return why an approval does not count, by reviewer, for those whose does not."""
    reviewers = {review.reviewer for review in list_reviews(pull)}
    return list_ineligible(pull, reviewers=reviewers, base=find_base(pull))


def find_objection(principal: Principal, pull: PullRequest) -> approvals.Objection | None:
    """Return why an approval by the reader does not count; None where it does."""
    reader = get_signed_in_user(principal)
    return list_ineligible(pull, reviewers=[reader], base=find_base(pull)).get(reader.username)


def _find_landing(pull: PullRequest, target: str | None) -> Landing:
    """Return what merging would change on a target; nothing of one that does not exist."""
    if target is None:
        return Landing()
    return repositories.find_landing(pull.repository, source_sha=pull.head_sha, target_sha=target)


def _describe_protection(
    pull: PullRequest, rows: Sequence[PullDataset], *, target: str | None
) -> approvals.ProtectionFact:
    protection = find_protection(pull)
    if protection is None:
        return approvals.ProtectionFact()
    touched = [*(row.path for row in rows), *_list_landing_paths(pull, target)] if protection.paths else []
    paths = [
        approvals.PathRuleFact(rule["pattern"], rule["group"], _members_of(rule["group"]), rule.get("approvals", 1))
        for rule in protection.paths
        if any(matches(path, rule["pattern"]) for path in touched)
    ]
    owned = _list_owned_at(pull, rows, target) if protection.owners else []
    people = find_owners(owned)
    return approvals.ProtectionFact(
        owners={
            change.pattern: approvals.OwnerFact(change.owners.words, people[change.pattern], change.paths)
            for change in owned
        },
        approvals=protection.approvals,
        groups=_read_groups(protection),
        paths=paths,
        checks=protection.checks,
        resolved_threads=protection.resolved_threads,
        allow_bypass=protection.allow_bypass,
    )


def list_owned(pull: PullRequest, rows: Iterable[PullDataset]) -> list[OwnedChange]:
    """Return what it changes of what somebody owns."""
    return _list_owned_at(pull, rows, find_head(pull.repository, pull.target))


def _list_owned_at(pull: PullRequest, rows: Iterable[PullDataset], target: str | None) -> list[OwnedChange]:
    files = _list_landing_paths(pull, target)
    base = target if target and pull.state == PullState.OPEN else find_base(pull)
    return list_owned_changes(pull.repository, base=base, rows=rows, files=files)


def _members_of(group: str) -> frozenset[str]:
    return frozenset(Group.objects.filter(name=group).values_list("user__username", flat=True))


def list_changes(pull: PullRequest, *, ignore_whitespace: bool = False) -> CodeDiff:
    """List which files the pull request changes, without their lines; after a merge, which it changed."""
    return repositories.list_changes(
        pull.repository, find_base(pull), pull.head_sha, ignore_whitespace=ignore_whitespace
    )


def _list_landing_paths(pull: PullRequest, target: str | None) -> list[str]:
    """List the paths of all files that merging changes on a target: both paths of a moved file.

    Until conflicts are resolved, and once it is closed or merged, these are the files that the pull request shows.
    """
    landing = _find_landing(pull, target) if pull.state == PullState.OPEN else None
    if landing is None or target is None or landing.conflicts:
        return sorted(repositories.list_changed_paths(pull.repository, find_base(pull), pull.head_sha))
    return sorted(landing.changed)


def find_base(pull: PullRequest) -> str:
    """Find the commit to compare with: the target's, or what the target was before the merge."""
    merge = getattr(pull, "merge", None) if pull.state == PullState.MERGED else None
    return merge.target_sha if merge else pull.base_sha


def list_checks(pull: PullRequest) -> list[CheckResult]:
    """List what machines say of the head: JobSpecs published, branch built, its data current, its queries, reports.

    Ours are always there while it is open: what there is nothing to do for is green, or a rule that requires it would
    block for good. Of one that is over they go with its branch.
    """
    publication = repositories.get_publication(pull.repository, pull.source, pull.head_sha)
    reported = [_read_status(status) for status in repositories.list_statuses(pull.repository, pull.head_sha)]
    if pull.state != PullState.OPEN and publication is None and is_source_gone(pull):
        return reported
    publication_state = _judge_publication(pull, publication)
    rows = list_all_datasets(pull)
    own = [checks.judge_query(read_fact(check)) for check in list_query_checks(pull)]
    is_published = publication_state == PublicationState.PUBLISHED
    return [
        checks.judge_jobspecs(publication_state, publication.jobspecs if publication else 0),
        _check_build(pull, rows, is_published=is_published),
        _check_data(rows, is_published=is_published),
        *_check_merge_result(pull),
        *own,
        *reported,
    ]


def _check_merge_result(pull: PullRequest) -> list[CheckResult]:
    """Say whether what would land was built, where the rules of the target ask for that."""
    protection = find_protection(pull) if pull.state == PullState.OPEN else None
    if protection is None or not any(find_check(name) == MERGE_RESULT for name in protection.checks):
        return []
    head = find_head(pull.repository, pull.target)
    behind = count_apart(pull.repository, sha=pull.head_sha, base=head).behind if head else 0
    newest = QueuedMerge.objects.filter(pull=pull, source_sha=pull.head_sha).first() if behind else None
    tested = checks.ResultOfQueue(newest.state, newest.base_sha, newest.reason, newest.build_id) if newest else None
    return [checks.judge_merge_result(behind, pull.target, head=head, tested=tested)]


def is_source_gone(pull: PullRequest) -> bool:
    """Return whether its branch was deleted, and with it what was published of its commits."""
    return find_head(pull.repository, pull.source) is None


def _read_status(status: CommitStatus) -> CheckResult:
    detail = status.description or status.get_result_display()
    return CheckResult(status.name, COLOURS[status.result], detail, status.url, status.dataset)


def _judge_publication(pull: PullRequest, publication: Publication | None) -> str:
    """Return the state of the head's JobSpecs; pending, too, until the datasets are those that they name."""
    is_behind = pull.state == PullState.OPEN and pull.followed_sha not in (None, pull.head_sha)
    if publication is None or (publication.status == PublicationState.PUBLISHED and is_behind):
        return PublicationState.PENDING
    return publication.status


def _check_build(pull: PullRequest, rows: Iterable[PullDataset], *, is_published: bool) -> CheckResult:
    if not list_rebuilt(rows):
        # What the head changes is known only once its JobSpecs are.
        return checks.judge_unchanged(is_published=is_published)
    build = find_latest_build(pull)
    return checks.judge_build(build.pk, build.state) if build else checks.NOT_BUILT


def _check_data(rows: Sequence[PullDataset], *, is_published: bool) -> CheckResult:
    stale = [row.path for row in rows if row.change in (states.MODIFIED, states.ADDED) and not row.current]
    return checks.judge_data(stale, is_published=is_published, has_datasets=bool(rows))


def list_rebuilt(rows: Iterable[PullDataset]) -> list[str]:
    """List the datasets that the source changes and its JobSpecs make: what a build of the pull request rebuilds.

    Not of those that somebody loaded over unchanged code: the build would replace what they loaded.
    """
    return [row.path for row in rows if row.change in (states.MODIFIED, states.ADDED) and row.is_rebuilt]


def list_targets(*, rows: Iterable[PullDataset], specs: PullSpecs, rebuild: str) -> list[str]:
    """List what the build on the target makes: all that the code change touches, with what is downstream if asked.

    What the source has made of files that merging loads was reviewed with them, and is made of them again. So is what
    the source has only refreshed, where something changed is made from it.
    """
    rows = list(rows)
    loaded = {row.path for row in rows if row.loads_onto is not None}
    built = {row.path for row in rows if row.after_id} & find_downstream(loaded, specs.head_inputs)
    needed = {row.path for row in rows if row.change == states.REFRESHED and row.lands}
    changed = (set(list_rebuilt(rows)) | built | needed) & specs.head_code.keys()
    if rebuild == states.AFFECTED:
        changed |= find_downstream(changed | loaded, specs.head_inputs)
    return sorted(changed)


def list_failed_checks(pull: PullRequest) -> dict[str, str]:
    """List the target's required checks that are not green, each with what it says; empty where nothing gives it.

    A check that speaks of datasets is green where it is for each of them. Rules of before names were looked at may
    require one that there is not.
    """
    protection = find_protection(pull)
    if protection is None or not protection.checks:
        return {}
    results = list_checks(pull)
    failed = {}
    for name in protection.checks:
        reports = [check for check in results if check.name == (find_check(name) or name)]
        bad = [check for check in reports if check.state != GREEN]
        if bad:
            failed[name] = checks.explain_failed(bad)
        elif not reports:
            failed[name] = _explain_missing(pull, name)
    return failed


def _explain_missing(pull: PullRequest, name: str) -> str:
    if is_query(name):
        return checks.explain_missing_file(name, pull.head_sha)
    return checks.explain_silence(pull.head_sha) if repositories.is_ever_reported(pull.repository, name) else ""


def is_stale(pull: PullRequest, facts: approvals.MergeFacts) -> bool:
    """Return whether the target has moved: its commits, or data of these datasets, are newer than the branch's start."""
    return pull.state == PullState.OPEN and (facts.behind > 0 or has_newer_data(pull))


def has_newer_data(pull: PullRequest) -> bool:
    """Return whether the target has data of these datasets that the branch did not start from; the Data tab shows it."""
    return NamedComparison.objects.filter(row__pull=pull, name=states.TARGET_SINCE).exists()


def is_moved_by_own_merge(pull: PullRequest, facts: approvals.MergeFacts) -> bool:
    """Return whether a merge by the author of a stale pull request, and its rebuild, alone moved the target last."""
    merges = Merge.objects.filter(repository=pull.repository, merged_by=pull.author)
    if facts.behind and not merges.filter(merge_commit=facts.target_head).exists():
        return False
    newer = NamedComparison.objects.filter(row__pull=pull, name=states.TARGET_SINCE)
    return not newer.exclude(after__build_id__in=merges.exclude(build=None).values("build")).exists()


def find_merge(pull: PullRequest) -> Merge | None:
    """Return its merge, unless that was given up."""
    merges = Merge.objects.filter(pull=pull).exclude(state=MergeState.ABANDONED)
    return merges.select_related("build", "merged_by", "pull__repository").first()


def is_rebuild_failed(merge: Merge) -> bool:
    """Return whether its rebuild, or the last try of it, has ended without making all that it was to make."""
    return merge.state == MergeState.DONE and merge.build is not None and merge.build.state != BuildState.COMPLETED


def is_landed(merge: Merge) -> bool:
    """Return whether the branch that it was asked for has its commit."""
    head = find_head(merge.pull.repository, merge.landing_branch)
    return head is not None and is_stored(merge) and merge.pull.repository.git.is_ancestor(merge.merge_commit, head)


def is_stored(merge: Merge) -> bool:
    """Return whether its commit is there: one that was never stored, or is lost, is on no branch and can come to none."""
    return merge.pull.repository.git.has_commit(merge.merge_commit)


def describe_outcome(merge: Merge) -> dict[str, dict[str, Any]]:
    """Say of each dataset whether the target's result is what was reviewed: equal, different, comparing, not_compared.

    Or not_landed, with the reason, of what was loaded on the source.
    """
    ids = [result["comparison"] for result in merge.outcome.values() if result.get("comparison")]
    comparisons = Comparison.objects.in_bulk(ids)
    judged = {
        path: {**result, **judge_comparison(comparisons.get(result.get("comparison")))}
        for path, result in merge.outcome.items()
    }
    left = merge.pull.datasets.exclude(lands_reason="").values_list("path", "lands_reason")
    # Also where the target's code was built: that is no other result of what was reviewed.
    return {**judged, **{path: {"state": "not_landed", "reason": reason} for path, reason in left}}


def find_pull_comparison(principal: Principal, pull: PullRequest, *, path: str, name: str) -> Comparison | None:
    """Return the comparison of this name of a dataset that somebody may see."""
    row = find_dataset_row(principal, pull, path)
    return find_shown(row, name).comparison if row else None


def find_dataset_row(principal: Principal, pull: PullRequest, path: str) -> PullDataset | None:
    """Return a dataset of a pull request that somebody may see, with all its comparisons."""
    if permissions.list_hidden(principal, [path]):
        return None
    return _with_comparisons(principal, pull.datasets.filter(path=path)).first()


def get_dataset_row(principal: Principal, pull: PullRequest, path: str) -> PullDataset:
    """Return a dataset of a pull request that somebody may see.

    Raises:
        NotFound: it has no such dataset, or none that one may see.

    """
    row = find_dataset_row(principal, pull, path)
    if row is None:
        raise NotFound(f"Pull request #{pull.number} of {pull.repository.name} has no dataset {path}.")
    return row


@asked_once
def list_all_datasets(pull: PullRequest) -> Sequence[PullDataset]:
    """List the datasets of a pull request, whoever may see them: for rules and counts."""
    return list(pull.datasets.all())  # which lists of pull requests have loaded for all of them


def list_dataset_rows(principal: Principal, pull: PullRequest) -> QuerySet[PullDataset]:
    """List the datasets of a pull request that somebody may see, with all their comparisons.

    Its code may read what lies in folders of others, and what was loaded there on a branch of the same name is compared.
    """
    hidden = permissions.list_hidden(principal, [row.path for row in list_all_datasets(pull)])
    return _with_comparisons(principal, pull.datasets.exclude(path__in=hidden))


def read_dataset_rows(principal: Principal, pull: PullRequest) -> list[PullDataset]:
    """Return what `list_dataset_rows` selects, for a page that shows them: the fastest way to all of them."""
    named = defaultdict(list)
    for comparison in _NAMED.all(pull.pk, principal.user_id):
        named[comparison.row_id].append(comparison)
    rows = _DATASETS.all(pull.pk)
    for row in rows:
        row.pull, row.named = pull, named[row.pk]
    hidden = permissions.list_hidden(principal, [row.path for row in rows])
    return [row for row in rows if row.path not in hidden]


def _with_comparisons(principal: Principal, rows: QuerySet[PullDataset]) -> QuerySet[PullDataset]:
    return _compared(rows).prefetch_related(Prefetch("comparisons", _select_named(principal.user_id)))


def _compared(rows: QuerySet[PullDataset]) -> QuerySet[PullDataset]:
    return rows.select_related("comparison", "dataset", "before", "after")


def _select_named(reader: int) -> QuerySet[NamedComparison]:
    named = NamedComparison.objects.select_related("comparison", "before", "after")
    return named.filter(Q(reviewer=None) | Q(reviewer=reader))


_DATASETS = Prepared(lambda pull: _compared(PullDataset.objects.filter(pull_id=pull)).order_by("change", "path"), int)
_NAMED = Prepared(lambda pull, reader: _select_named(reader).filter(row__pull_id=pull), int, int)
