"""What our own checks say of the head of a pull request: its JobSpecs, the build of its branch, and its data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import assert_never

from webapp.builds.rules.states import BuildState
from webapp.core.words import counted
from webapp.pulls.rules.states import QUEUE_IN_LINE, QueueState
from webapp.repositories.rules.checks import BUILD, DATA_CURRENT, GREEN, JOBSPECS, MERGE_RESULT, RED, TONES, WAITING
from webapp.repositories.rules.states import PublicationState
from webapp.sql.rules.checks import CheckVerdict
from webapp.sql.rules.states import QueryState

_UNPUBLISHED = "the JobSpecs are not published"
_PUBLICATIONS: Mapping[str, str] = {PublicationState.PUBLISHED: GREEN, PublicationState.FAILED: RED}
_BUILDS: Mapping[str, str] = {BuildState.COMPLETED: GREEN, BuildState.FAILED: RED, BuildState.ABORTED: RED}


@dataclass(frozen=True)
class CheckResult:
    """One check of the head: one of ours, or what a program of others reported."""

    name: str
    state: str
    """green, red or pending."""
    detail: str
    url: str = ""
    """Where the program that reported it says more."""
    dataset: str = ""
    """Path of the dataset that it speaks of; empty where it speaks of all."""
    build: int | None = None
    """The build that it speaks of."""
    query_check: int | None = None
    """The id of the check of the pull request, where a query of the repository says it."""

    @property
    def tone(self) -> str:
        """The sign and colour that show it."""
        return TONES[self.state]

    @property
    def statement(self) -> str:
        """What it says, and of which dataset."""
        return f"{self.dataset}: {self.detail}" if self.dataset else self.detail


_PROVEN = frozenset({QueueState.GREEN, QueueState.LANDING})


@dataclass(frozen=True)
class QueryFact:
    """A query that the repository keeps as a check, as the head has it."""

    id: int
    name: str
    expects: str
    error: str
    """Why it cannot be run; empty where it can."""
    is_of_head: bool
    run: QueryState | None
    """How far it is; None before it is started."""
    verdict: CheckVerdict | None
    """Of its result."""


NOT_BUILT = CheckResult(BUILD, WAITING, "not built yet")


def judge_jobspecs(state: str, count: int) -> CheckResult:
    """Say whether the head's JobSpecs, so many, are published."""
    detail = f"{count} published" if state == PublicationState.PUBLISHED else state
    return CheckResult(JOBSPECS, _PUBLICATIONS.get(state, WAITING), detail)


def judge_unchanged(*, is_published: bool) -> CheckResult:
    """Say of a head without a changed JobSpec that there is nothing to build, once its JobSpecs are known."""
    if not is_published:
        return CheckResult(BUILD, WAITING, _UNPUBLISHED)
    return CheckResult(BUILD, GREEN, "no JobSpec is changed: nothing to build")


def judge_build(number: int, state: str) -> CheckResult:
    """Say how the newest build of the branch stands."""
    return CheckResult(BUILD, _BUILDS.get(state, WAITING), f"build {number}: {state.lower()}", build=number)


def judge_data(stale: Sequence[str], *, is_published: bool, has_datasets: bool) -> CheckResult:
    """Say whether the head's code made all its datasets: `stale` are those that other code made, or none."""
    if stale:
        return CheckResult(DATA_CURRENT, RED, f"not built with the head's code: {', '.join(stale)}")
    if not is_published:
        return CheckResult(DATA_CURRENT, WAITING, _UNPUBLISHED)
    return CheckResult(DATA_CURRENT, GREEN, "built with the head's code" if has_datasets else "no dataset is changed")


@dataclass(frozen=True)
class ResultOfQueue:
    """What the merge queue knows of a head."""

    state: QueueState
    base: str
    """The commit of the target, or of a merge before it, on which it was tested."""
    reason: str
    build: int | None


def judge_merge_result(behind: int, target: str, *, head: str | None, tested: ResultOfQueue | None) -> CheckResult:
    """Say whether what would be on the target after the merge was built.

    Args:
        behind: how many commits of the target the source has not.
        target: its name.
        head: the target's.
        tested: the newest test of the source's head.

    """
    if not behind:
        return CheckResult(MERGE_RESULT, GREEN, f"{target} has nothing that the branch was not built with")
    if tested is not None and tested.base == head and tested.state in _PROVEN:
        return CheckResult(MERGE_RESULT, GREEN, "what would land is built", build=tested.build)
    if tested is not None and tested.base == head and tested.state == QueueState.RED:
        return CheckResult(MERGE_RESULT, RED, tested.reason, build=tested.build)
    if tested is not None and tested.state in QUEUE_IN_LINE:
        return CheckResult(MERGE_RESULT, WAITING, "what would land is being tested", build=tested.build)
    moved = f"{target} has {counted(behind, 'commit')} that the branch was not built with"
    return CheckResult(MERGE_RESULT, WAITING, moved)


def judge_query(check: QueryFact) -> CheckResult:
    """Say how a query of the repository stands, in words that tell nothing of the rows that it reads."""
    if not check.is_of_head:
        return CheckResult(check.name, WAITING, "the head is new: not run yet", query_check=check.id)
    if check.error:
        return CheckResult(check.name, RED, check.error, query_check=check.id)
    state, detail = _judge_run(check)
    return CheckResult(check.name, state, detail, query_check=check.id)


def _judge_run(check: QueryFact) -> tuple[str, str]:
    match check.run:
        case None:
            return WAITING, "not run yet"
        case QueryState.QUEUED | QueryState.RUNNING:
            return WAITING, check.run.label.lower()
        case QueryState.FAILED:
            return RED, "it could not be run"
        case QueryState.CANCELLED:
            return RED, "somebody stopped it"
        case QueryState.READY:
            is_met = check.verdict is not None and check.verdict.state == GREEN
            words = f"expects {check.expects}"
            return (GREEN, words) if is_met else (RED, f"{words}, which its result is not")
        case _:
            assert_never(check.run)


def explain_failed(results: Iterable[CheckResult]) -> str:
    """Return what the results of one check say that are not green."""
    return "; ".join(result.statement for result in results)


def explain_missing_file(name: str, sha: str) -> str:
    """Return why a query is not green that the head does not have."""
    return f"{sha[:7]} has no file {name}.sql"


def explain_silence(sha: str) -> str:
    """Return why a check is not green that a program reports of other commits, and not yet of this one."""
    return f"nothing was reported of {sha[:7]} yet"
