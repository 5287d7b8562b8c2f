"""What an approval is bound to, when it becomes void, and every reason that blocks a merge.

Pure: the services collect the facts, pages and API show the result. All reasons are given at once, since a reader who
mends one and then meets the next has lost a round.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import Any

from webapp.builds.rules.states import BUILD_UNFINISHED
from webapp.core.words import counted
from webapp.pulls.rules import states
from webapp.pulls.rules.states import PullState
from webapp.repositories.rules.checks import MERGE_RESULT, find_check
from webapp.repositories.rules.states import MOST_ERRORS


@dataclass(frozen=True)
class Seen:
    """What a reviewer's verdict is bound to."""

    head: str
    target: str
    rules: str
    """Digest of the target's protection rules."""
    transactions: Mapping[str, str]
    """Path of each modified dataset → its transaction on the source branch ("" before the first build)."""
    loads: Mapping[str, str] = field(default_factory=dict)
    """Path of each dataset whose files merging loads → the target's transaction on which it does."""
    base: str = ""
    """The commit that the code was compared with; empty for reviews of earlier releases."""

    def as_json(self) -> dict[str, Any]:
        return {
            "head": self.head,
            "target": self.target,
            "rules": self.rules,
            "transactions": dict(self.transactions),
            "loads": dict(self.loads),
            "base": self.base,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Seen:
        return cls(
            head=data.get("head", ""),
            target=data.get("target", ""),
            rules=data.get("rules", ""),
            transactions=data.get("transactions", {}),
            loads=data.get("loads", {}),
            base=data.get("base", ""),
        )


@dataclass(frozen=True)
class ReviewFact:
    """One review as the rules see it."""

    reviewer: str
    verdict: str
    void: bool = False


class Grounds(Enum):
    """On what grounds an approval does not count, in words that go on from who gave it."""

    INACTIVE = "is no longer active"
    MAY_NOT_WRITE = "may no longer write here"
    OPENED = "opened it"
    PUSHED = "pushed {what}"
    WROTE = "wrote {what}"
    LOADED = "loaded a file into {what}"


@dataclass(frozen=True)
class Objection:
    """Why the approval of somebody does not count."""

    grounds: Grounds
    what: str = ""
    """The commit that they pushed or wrote, the dataset that they loaded."""

    @property
    def words(self) -> str:
        """The end of a sentence about them."""
        return self.grounds.value.format(what=self.what)


@dataclass(frozen=True)
class DatasetFact:
    """One dataset of the pull request as the rules see it."""

    path: str
    change: str
    current: bool


@dataclass(frozen=True)
class DatasetVerdictFact:
    """What a reviewer said of one dataset, as the rules see it."""

    path: str
    reviewer: str
    verdict: str
    reason: str
    void: bool
    """Whether the source has other rows of it now."""
    given_at: datetime


@dataclass(frozen=True)
class LoadFact:
    """A dataset whose files merging loads on the target, as the rules see it."""

    path: str
    onto: str
    """The target's transaction when that was chosen; empty where it had none."""
    now: str
    """The target's transaction now."""
    moved: str
    """What became of it since, in words."""
    problem: str
    """Why its files cannot be loaded; empty where they can."""
    has_other_rows: bool = False
    """Whether the source has other rows of it than when that was chosen."""


@dataclass(frozen=True)
class OwnerFact:
    """Who owns something that a pull request changes."""

    names: str
    """As pipeline.toml names them."""
    people: frozenset[str]
    """All of them, those of groups among them."""
    paths: Sequence[str]
    """What of theirs is changed."""


@dataclass(frozen=True)
class PathRuleFact:
    """A path rule that applies to a pull request."""

    pattern: str
    group: str
    members: frozenset[str]
    approvals: int = 1
    """Required approvals by members of the group."""


@dataclass(frozen=True)
class ProtectionFact:
    """The target branch's rules."""

    approvals: int = 0
    groups: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Group name → its members; each group must have an approval of its own."""
    paths: Sequence[PathRuleFact] = ()
    """The path rules that apply to the pull request."""
    checks: Sequence[str] = ()
    """Those that must be green."""
    resolved_threads: bool = False
    """Whether every thread on code or data must be resolved."""
    owners: Mapping[str, OwnerFact] = field(default_factory=dict)
    """Pattern of `[owners]` that the pull request touches → who of them must approve; empty where none has to."""
    allow_bypass: bool = True


@dataclass(frozen=True)
class MergeFacts:
    """Everything that decides whether a pull request may be merged."""

    state: str
    draft: bool
    author: str
    source: str
    target: str
    source_exists: bool
    target_exists: bool
    has_commits: bool
    conflicts: Sequence[str]
    publication: str
    publication_errors: int
    build_state: str
    build_id: int | None
    datasets: Sequence[DatasetFact]
    reviews: Sequence[ReviewFact]
    protection: ProtectionFact
    failed_checks: Mapping[str, str] = field(default_factory=dict)
    """Required check that is not green → what it says; empty where there is no check of that name."""
    refused_rules: Sequence[str] = ()
    """Why review rules of the source are refused."""
    open_threads: int = 0
    """How many threads on code or data nobody has resolved."""
    behind: int = 0
    """How many commits of the target the source has not."""
    target_head: str = ""
    """The commit of the target that these facts are about; only a merge into it is covered by them."""
    unshown: Collection[str] = ()
    """Paths that would land in another way than the pull request shows."""
    loads: Sequence[LoadFact] = ()
    dataset_verdicts: Sequence[DatasetVerdictFact] = ()
    """The oldest first."""
    ineligible: Mapping[str, Objection] = field(default_factory=dict)
    """Reviewer → why their approval does not count: they opened it, brought some of it, or lost the right."""
    co_authors: Mapping[str, str] = field(default_factory=dict)
    """User → a commit that names them in `Co-authored-by`, which pages show and which changes no right."""


@dataclass(frozen=True)
class Blocker:
    """One reason against the merge."""

    code: str
    message: str

    def as_json(self) -> dict[str, str]:
        return {"code": self.code, "message": self.message}


BYPASSABLE = frozenset(
    {"approval_missing", "group_approval_missing", "path_approval_missing", "owner_approval_missing", "rejected"}
    | {"dataset_rejected", "check_failed", "threads_unresolved", "build_missing", "build_failed", "build_running"}
    | {"merge_result_untested"}
)
"""What a maintainer may pass over. Conflicts, drafts and missing branches are facts, not requirements."""
TESTED_IN_QUEUE = "merge_result_untested"
"""What the merge queue itself mends."""
LANDS_UNSHOWN = "lands_unshown"
"""The merge would change files in a way that the pull request does not show."""
MAY_COME = frozenset(
    {"approval_missing", "group_approval_missing", "path_approval_missing", "owner_approval_missing"}
    | {"check_failed", "threads_unresolved", "build_missing", "build_running", "publication_pending"}
)
"""What a merge that is asked for when it is ready waits for: others or machines may mend it with nothing of it moving."""


def digest_rules(rules: Mapping[str, Any]) -> str:
    """Return a short digest of protection rules, so that a change of them makes approvals void."""
    return hashlib.sha256(json.dumps(rules, sort_keys=True, default=sorted).encode()).hexdigest()[:16]


def find_void_reason(*, seen: Seen, now: Seen) -> str | None:
    """Say why a verdict no longer counts, as a sentence; None while it does."""
    if seen.target != now.target:
        return f"the target moved from {seen.target} to {now.target}"
    if seen.head != now.head:
        return f"the head moved from {seen.head[:7]} to {now.head[:7]}"
    for path in sorted({*seen.transactions, *now.transactions}):
        before, after = seen.transactions.get(path, ""), now.transactions.get(path, "")
        if before != after:
            return f"{path} moved from {before or 'no transaction'} to {after or 'no transaction'}"
    for path in sorted({*seen.loads, *now.loads}):
        if seen.loads.get(path) != now.loads.get(path):
            return f"whether merging loads the files of {path} was chosen anew"
    if seen.rules != now.rules:
        return f"the rules of {now.target} changed"
    return None


def explain_unshown(paths: Collection[str], target: str) -> str | None:
    """Return why an approval no longer counts after the target moved: the merge would change more than it covered."""
    return f"merging into {target} now changes {_name_some(paths)} in a way that was not shown" if paths else None


def _name_some(paths: Collection[str]) -> str:
    return ", ".join(sorted(paths)[:5]) + (" and more" if len(paths) > 5 else "")


def list_standing(reviews: Sequence[ReviewFact]) -> dict[str, str]:
    """Return each reviewer's verdict that stands: the newest that is no mere comment and not void."""
    standing: dict[str, str] = {}
    for review in reviews:
        if review.verdict == states.COMMENT:
            continue
        if review.void:
            standing.pop(review.reviewer, None)
        else:
            standing[review.reviewer] = review.verdict
    return standing


def list_rejected(facts: MergeFacts) -> list[DatasetVerdictFact]:
    """List the rejections of datasets that stand: until their author gives another verdict, or the data moves."""
    verdicts = [
        verdict for verdict in facts.dataset_verdicts if verdict.verdict == states.REJECTED and not verdict.void
    ]
    return sorted(verdicts, key=lambda verdict: (verdict.path, verdict.reviewer))


def list_approving(facts: MergeFacts) -> set[str]:
    """Return whose approval stands and counts."""
    standing = list_standing(facts.reviews)
    return {
        reviewer
        for reviewer, verdict in standing.items()
        if verdict == states.APPROVE and reviewer != facts.author and reviewer not in facts.ineligible
    }


def list_blockers(facts: MergeFacts) -> list[Blocker]:
    """List every reason why the pull request may not be merged now, in the order a reader would mend them."""
    if facts.state != PullState.OPEN:
        return [Blocker("not_open", f"The pull request is {facts.state}.")]
    return [
        *_list_git_blockers(facts),
        *_list_build_blockers(facts),
        *_list_load_blockers(facts),
        *_list_review_blockers(facts),
    ]


def _list_git_blockers(facts: MergeFacts) -> list[Blocker]:
    blockers = []
    if facts.draft:
        blockers.append(Blocker("draft", "It is a draft. Mark it as ready for review."))
    if not facts.source_exists:
        blockers.append(
            Blocker("source_missing", f"The branch {facts.source} was deleted. Restore it or close the pull request.")
        )
    if not facts.target_exists:
        blockers.append(Blocker("target_missing", f"The branch {facts.target} does not exist."))
    if facts.source_exists and facts.target_exists and not facts.has_commits and not facts.loads:
        message = (
            f"{facts.target} already has every commit of {facts.source}, and no file is chosen to be loaded there."
        )
        blockers.append(Blocker("nothing_to_merge", message))
    blockers += [Blocker("rule_refused", message) for message in facts.refused_rules]
    if facts.conflicts:
        files = ", ".join(facts.conflicts[:5]) + (" and more" if len(facts.conflicts) > 5 else "")
        blockers.append(
            Blocker("conflict", f"Conflicts with {facts.target} in {files}. Merge {facts.target} into {facts.source}.")
        )
    if facts.unshown:
        message = (
            f"Merging would change {_name_some(facts.unshown)} on {facts.target} in a way that this pull request does"
            f" not show. Update the branch with {facts.target}: then it shows every change."
        )
        blockers.append(Blocker(LANDS_UNSHOWN, message))
    return blockers


def _list_build_blockers(facts: MergeFacts) -> list[Blocker]:
    if not facts.source_exists:
        return []
    blockers = []
    if facts.publication == "failed":
        blockers.append(
            Blocker(
                "publication_failed",
                f"The code of the head does not publish: {counted(facts.publication_errors, 'error', most=MOST_ERRORS)}.",
            )
        )
    elif facts.publication != "published":
        blockers.append(Blocker("publication_pending", "The JobSpecs of the head are not published yet."))
    stale = [row.path for row in facts.datasets if row.change in (states.MODIFIED, states.ADDED) and not row.current]
    if facts.build_state in BUILD_UNFINISHED:
        blockers.append(Blocker("build_running", f"Build {facts.build_id} of {facts.source} is still running."))
    elif facts.build_state in ("FAILED", "ABORTED"):
        blockers.append(
            Blocker("build_failed", f"Build {facts.build_id} of {facts.source} ended {facts.build_state.lower()}.")
        )
    if stale:
        names = ", ".join(stale[:5]) + (" and more" if len(stale) > 5 else "")
        blockers.append(Blocker("build_missing", f"Not built with the code of the head: {names}. Build the branch."))
    blockers.extend(_explain_check(facts, name, detail) for name, detail in facts.failed_checks.items())
    return blockers


def _list_load_blockers(facts: MergeFacts) -> list[Blocker]:
    """List what somebody has to decide before files are loaded on the target: nobody else knows whether they still fit."""
    blockers = []
    for load in facts.loads:
        if load.problem:
            message = f"{load.path} cannot be loaded on {facts.target} when merging: it {load.problem}"
            blockers.append(Blocker("load_impossible", f"{message} Or leave it on {facts.source}."))
        elif load.now != load.onto:
            message = f"{load.path} on {facts.target} {load.moved} after it was chosen to load the branch's file there."
            blockers.append(Blocker("load_conflict", f"{message} Load it on top of that, or leave it."))
        elif load.has_other_rows:
            message = (
                f"{load.path} has other rows on {facts.source} than when it was chosen to load its files on "
                f"{facts.target}. Look at what it is now and choose again, or leave it."
            )
            blockers.append(Blocker("load_outdated", message))
    return blockers


def _explain_check(facts: MergeFacts, name: str, detail: str) -> Blocker:
    if find_check(name) == MERGE_RESULT:
        message = (
            f"What would be on {facts.target} after the merge was not tested: {detail}. Merge it when it is ready."
        )
        return Blocker(TESTED_IN_QUEUE, message)
    if detail:
        return Blocker("check_failed", f"The check {name} is not green: {detail}.")
    message = (
        f"The rules of {facts.target} require a check {name}, which does not exist. A maintainer removes it there."
    )
    return Blocker("check_failed", message)


def _list_review_blockers(facts: MergeFacts) -> list[Blocker]:
    standing = list_standing(facts.reviews)
    approving = list_approving(facts)
    note = _explain_uncounted(facts, standing)
    blockers = []
    missing = facts.protection.approvals - len(approving)
    if missing > 0:
        void = sum(1 for review in facts.reviews if review.void and review.verdict == states.APPROVE)
        voided = f" {void} became void." if void else ""
        blockers.append(
            Blocker(
                "approval_missing",
                f"The rules of {facts.target} ask for {counted(facts.protection.approvals, 'approval')} by somebody"
                f" other than {facts.author}; {len(approving) or 'none'} so far.{voided}{note}",
            )
        )
    blockers.extend(
        Blocker("group_approval_missing", f"Nobody of the group {group} has approved.{note}")
        for group, members in sorted(facts.protection.groups.items())
        if not approving & members
    )
    blockers.extend(
        Blocker("path_approval_missing", f"{_explain_path_rule(rule, len(approving & rule.members))}{note}")
        for rule in facts.protection.paths
        if len(approving & rule.members) < rule.approvals
    )
    blockers.extend(
        Blocker("owner_approval_missing", f"{_explain_owners(pattern, fact)}{note}")
        for pattern, fact in sorted(facts.protection.owners.items())
        if not approving & fact.people
    )
    blockers.extend(
        Blocker("rejected", f"{reviewer} asked for changes.")
        for reviewer, verdict in sorted(standing.items())
        if verdict == states.REJECT
    )
    blockers.extend(
        Blocker("dataset_rejected", f"{verdict.reviewer} rejected the data of {verdict.path}.")
        for verdict in list_rejected(facts)
    )
    if facts.protection.resolved_threads and facts.open_threads:
        threads = counted(facts.open_threads, "thread")
        is_or_are = "is" if facts.open_threads == 1 else "are"
        blockers.append(
            Blocker(
                "threads_unresolved",
                f"{threads} on code or data {is_or_are} not resolved, which the rules of {facts.target} ask for.",
            )
        )
    return blockers


def _explain_path_rule(rule: PathRuleFact, count: int) -> str:
    needed = counted(rule.approvals, "approval")
    return f"A change of {rule.pattern} needs {needed} by the group {rule.group}; {count or 'none'} so far."


def _explain_owners(pattern: str, fact: OwnerFact) -> str:
    shown = ", ".join(fact.paths[:3]) + (" and more" if len(fact.paths) > 3 else "")
    what = pattern if tuple(fact.paths) == (pattern,) else f"{pattern} ({shown})"
    return f"None of the owners of {what} has approved: {fact.names}."


def _explain_uncounted(facts: MergeFacts, standing: Mapping[str, str]) -> str:
    return "".join(
        f" The approval by {reviewer} does not count: {reviewer} {objection.words}."
        for reviewer, objection in sorted(facts.ineligible.items())
        if standing.get(reviewer) == states.APPROVE
    )
