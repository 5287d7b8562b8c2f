"""The merge queue: what would land is tested before it lands, each on top of those before it.

Whoever asks for a merge writes a row, and a worker carries the rows on. All it goes by is in rows and in Git, and each step
moves one row from the state in which it was read: a worker that dies leaves nothing half done, and two do nothing twice.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from django.db import IntegrityError, transaction
from django.db.models import Max

from webapp.accounts import queries as accounts
from webapp.accounts.permissions import check_repository
from webapp.builds import queries as builds
from webapp.builds import services as build_services
from webapp.builds.models import Build
from webapp.builds.queries import list_tries
from webapp.builds.rules.states import BUILD_UNFINISHED, BuildState
from webapp.core import clock
from webapp.core.errors import AppError, Conflict, Unavailable
from webapp.datasets import services as dataset_services
from webapp.datasets.models import DatasetBranch
from webapp.dispatch.failures import PartLost, named_failures
from webapp.dispatch.stamps import Stamp
from webapp.pulls.errors import MergeBlocked
from webapp.pulls.models import PullRequest, QueuedMerge, QueuedMergeRows, SpecRecord
from webapp.pulls.queries import pulls as queries
from webapp.pulls.queries import queue
from webapp.pulls.queries.expected import check_head
from webapp.pulls.queries.loads import list_loads
from webapp.pulls.queries.specs import read_code
from webapp.pulls.rules import approvals, states
from webapp.pulls.rules.queue import QUEUE_PREFIX, Act, Step, list_steps, list_tested
from webapp.pulls.rules.states import QUEUE_GOES_ON, PullState, QueueState
from webapp.pulls.services import merging
from webapp.pulls.services.pulls import refresh_pull
from webapp.pulls.services.remarks import record_event, record_pull_act
from webapp.repositories.models import Repository
from webapp.runtime import doorbell

if TYPE_CHECKING:
    from webapp.core.principals import Principal

logger = logging.getLogger(__name__)
ADVANCE_TASK = "webapp.pulls.tasks.advance_queue"
ROUNDS = 20
"""So often a worker looks again after it did something; the sweep rings for what is left."""
STAMP = Stamp(QueuedMerge.objects.claimed, "lease_until", QueuedMergeRows.lease)
"""What a worker waits for that finds a test with another one."""
IMPORTS = 3
"""So often a job runner may die over the code of one test."""


def enqueue_pull(
    *,
    pull: PullRequest,
    by: Principal,
    method: str = states.MERGE_METHOD,
    rebuild: str = states.MODIFIED,
    expected_head: str | None = None,
) -> QueuedMerge:
    """Ask for a merge when it is ready: when nothing blocks it and what would land is built.

    Raises:
        MergeBlocked: something speaks against it that does not mend by waiting.
        Conflict: the head is not the expected one, or the merge is asked for already.
        InvalidInput: an unknown method or rebuild.

    """
    merging.check_manner(method, rebuild)
    check_repository(by, pull.repository.name, "write")
    refresh_pull(pull=pull)
    check_head(pull, expected_head)
    objections = queue.list_objections(pull)
    lasting = [blocker for blocker in objections if blocker.code not in approvals.MAY_COME]
    if lasting:
        raise MergeBlocked([blocker.as_json() for blocker in lasting])
    merging.check_not_begun(pull)
    merging.check_loads(pull, by)
    try:
        with transaction.atomic():
            queued = QueuedMerge.objects.create(
                pull=pull,
                repository=pull.repository,
                target=pull.target,
                method=method,
                rebuild=rebuild,
                enqueued_by_id=by.user_id,
                source_sha=pull.head_sha,
                state=QueueState.WAITING if objections else QueueState.QUEUED,
                place=0 if objections else _find_place(pull.repository, pull.target),
            )
            record_event(pull=pull, kind="queued", actor=by.username, data={"waits": bool(objections)})
            record_pull_act(pull, "queue_merge", by=by, method=method, rebuild=rebuild, head=pull.head_sha)
            ring_queue(pull.repository, pull.target)
    except IntegrityError:
        raise Conflict("Its merge is asked for already.", code="queued_already") from None
    return queued


def leave_queue(*, pull: PullRequest, by: Principal) -> QueuedMerge:
    """Ask no more for a merge; what is landing already lands.

    Raises:
        Conflict: nobody asks for it, or it is landing.

    """
    check_repository(by, pull.repository.name, "write")
    queued = queue.find_queued(pull)
    if queued is None:
        raise Conflict(f"Nobody asks to merge #{pull.number} when it is ready.", code="not_queued")
    with transaction.atomic():
        if not _leave(queued, to=QueueState.WITHDRAWN, reason=f"Taken out by {by.username}.", actor=by.username):
            raise Conflict("It is landing at this moment.", code="landing")
        record_pull_act(pull, "leave_queue", by=by)
    return queued


def _find_place(repository: Repository, target: str) -> int:
    """Return the place behind all that there were in the queue of a branch."""
    rows = QueuedMerge.objects.filter(repository=repository, target=target)
    return (rows.aggregate(Max("place"))["place__max"] or 0) + 1


def ring_queue(repository: Repository, target: str) -> None:
    """Ask a worker to carry on the queue of a branch once the current changes are committed."""
    transaction.on_commit(lambda: doorbell.ring(ADVANCE_TASK, queue="quick", repository=repository.pk, target=target))


def ring_for_pull(pull: PullRequest) -> None:
    """Ask a worker to carry on the queue that a pull request stands in, if it stands in one."""
    queued = QueuedMerge.objects.filter(pull=pull, state__in=QUEUE_GOES_ON).select_related("repository").first()
    if queued is not None:
        ring_queue(queued.repository, queued.target)


def ring_for_target(*, repository: Repository, branch: str) -> None:
    """Ask a worker to carry on the queue of a branch that moved."""
    if QueuedMerge.objects.filter(repository=repository, target=branch, state__in=QUEUE_GOES_ON).exists():
        ring_queue(repository, branch)


# --- what a worker does -----------------------------------------------------------------------------------------------


def advance_queue(*, repository: Repository, target: str) -> None:
    """Carry on the queue of a branch as far as it goes without waiting."""
    for _ in range(ROUNDS):
        head = queries.find_head(repository, target) or ""
        rows, entries = queue.read_entries(repository, target)
        by_id = {row.pk: row for row in rows}
        moved = [_take(by_id[step.entry], step) for step in list_steps(entries, head=head)]
        if not any(moved):
            break
    untested = queue.list_queue(repository, queue.QueueFilter(target=target)).filter(build=None)
    for queued in untested.filter(state=QueueState.TESTING):
        if not queue.is_waiting_for_files(queued):
            _begin_test(queued)


def advance_by_id(*, repository_id: int, target: str) -> None:
    """Carry on the queue of a branch of a repository that may be gone."""
    repository = Repository.objects.filter(pk=repository_id).first()
    if repository is not None:
        advance_queue(repository=repository, target=target)


def _take(queued: QueuedMerge, step: Step) -> bool:
    """Carry out a step; return whether something moved."""
    match step.act:
        case Act.WITHDRAW:
            return _leave(queued, to=QueueState.WITHDRAWN, reason=step.reason)
        case Act.EJECT:
            return _leave(queued, to=QueueState.EJECTED, reason=step.reason)
        case Act.JOIN:
            place = _find_place(queued.repository, queued.target)
            return bool(_row(queued).move(to=QueueState.QUEUED, was=QueueState.WAITING, place=place))
        case Act.TEST:
            return _prepare_test(queued, on=step.on)
        case Act.RETEST:
            return _forget_test(queued)
        case Act.LAND:
            return _land(queued)
        case Act.FINISH:
            landing = _row(queued).filter(state=QueueState.LANDING)
            return bool(landing.move(to=QueueState.LANDED, finished_at=clock.now()))


def _row(queued: QueuedMerge) -> QueuedMergeRows:
    return QueuedMerge.objects.filter(pk=queued.pk)


def _leave(queued: QueuedMerge, *, to: QueueState, reason: str, actor: str = "") -> bool:
    """Let one leave, from the state in which it was read; its test is called off."""
    with transaction.atomic():
        moved = queued.state in to.earlier and _row(queued).move(
            to=to, was=queued.state, reason=reason, finished_at=clock.now(), lease_until=None
        )
        if not moved:
            return False
        kind = "ejected" if to == QueueState.EJECTED else "unqueued"
        data = {"reason": reason, "by": queued.enqueued_by.username}
        record_event(pull=queued.pull, kind=kind, actor=actor, data=data)
        _call_off(queued, f"#{queued.pull.number} left the merge queue.")
        ring_queue(queued.repository, queued.target)
    return True


def _call_off(queued: QueuedMerge, reason: str) -> None:
    if queued.build is not None:
        build_services.call_off_build(build=queued.build, reason=reason)


def _prepare_test(queued: QueuedMerge, *, on: str) -> bool:
    """Make what would land on a commit; there is nothing to build where files conflict, or the branch has all of it.

    Files that it loads are no part of what the branch was built with: these are loaded for those behind it, too.
    """
    waiting = _row(queued).filter(state=QueueState.QUEUED)
    try:
        sha = merging.prepare_commit(
            pull=queued.pull, by=accounts.principal_for_user(queued.enqueued_by), method=queued.method, target_sha=on
        )
    except Unavailable:
        return False
    except AppError as error:
        reason = f"It cannot be merged on top of what lands before it: {error.detail}"
        return bool(waiting.move(to=QueueState.RED, base_sha=on, tested_sha="", reason=reason))
    head = queue.read_specs_of(queued.repository, queued.source_sha)
    is_behind = queries.count_apart(queued.repository, sha=queued.source_sha, base=on).behind > 0
    if is_behind or head is None or queued.pull.datasets.loading().exists():
        return bool(waiting.move(to=QueueState.TESTING, base_sha=on, tested_sha=sha, reason=""))
    # It is the tree of the head, which nothing blocks: the branch was built with it.
    with transaction.atomic():
        SpecRecord.objects.update_or_create(repository=queued.repository, sha=sha, defaults={"specs": head})
        return bool(waiting.move(to=QueueState.GREEN, base_sha=on, tested_sha=sha, reason=""))


def _forget_test(queued: QueuedMerge) -> bool:
    """Let one be tested again: what it was tested on will not be the target's."""
    with transaction.atomic():
        moved = _row(queued).move(
            to=QueueState.QUEUED,
            was=queued.state,
            base_sha="",
            tested_sha="",
            targets=[],
            loads=[],
            build=None,
            reason="",
            lease_until=None,
        )
        if moved:
            _call_off(queued, f"#{queued.pull.number} is tested again: what it was tested on will not land.")
    return bool(moved)


def _begin_test(queued: QueuedMerge) -> None:
    """Import what would land, and start the build of what it changes; safe to repeat, and while another worker is at it."""
    if not QueuedMerge.objects.filter(build=None).claim(queued):
        return
    held = QueuedMerge.objects.held(queued)
    try:
        with named_failures("What would land could not be published"):
            targets = _publish_test(queued)
        with transaction.atomic():
            _start_build(queued, targets)
    except PartLost as error:
        if queued.attempt < IMPORTS:
            held.update(lease_until=None)
        else:
            _fail(queued, error.detail)
    except Unavailable:
        held.update(lease_until=None)
    except AppError as error:
        _fail(queued, error.detail)


def _fail(queued: QueuedMerge, reason: str) -> None:
    held = QueuedMerge.objects.held(queued)
    if held.move(to=QueueState.RED, was=QueueState.TESTING, reason=reason, lease_until=None):
        ring_queue(queued.repository, queued.target)


def _publish_test(queued: QueuedMerge) -> list[str]:
    """Publish what would land on the branch of its test; return the datasets to build."""
    repository, pull = queued.repository, queued.pull
    sha, branch = queued.tested_sha, queued.test_branch
    build_services.import_aside(
        repository=repository,
        branch=branch,
        sha=sha,
        by=queued.enqueued_by_id,
        held=QueuedMerge.objects.held(queued),
    )
    merged = builds.describe_published(repository=repository, branch=branch)
    SpecRecord.objects.update_or_create(repository=repository, sha=sha, defaults={"specs": merged})
    base = queue.read_specs_of(repository, queued.base_sha)
    if base is None:
        base = builds.describe_published(repository=repository, branch=queued.target)
    specs = queries.read_specs(pull=pull)
    merged_code, base_code = read_code(repository, (sha, merged), (queued.base_sha, base))
    return list_tested(
        rebuilt=queries.list_targets(rows=pull.datasets.all(), specs=specs, rebuild=queued.rebuild),
        merged=merged_code.tokens,
        base=base_code.tokens,
        begin=specs.base_code,
        inputs={path: frozenset(spec["inputs"]) for path, spec in merged.items()},
    )


def _start_build(queued: QueuedMerge, targets: list[str]) -> None:
    """Start the build of a test, once; without anything to build the test is over."""
    held = QueuedMerge.objects.held(queued)
    loads = list_loads(queued.pull, key=queued.tested_sha)
    if not targets and not loads:
        if held.move(to=QueueState.GREEN, was=QueueState.TESTING, targets=[], lease_until=None):
            ring_queue(queued.repository, queued.target)
        return
    if not held.renew(targets=targets, loads=loads):
        return
    order = build_services.BuildOrder(
        branch=queued.test_branch,
        targets=[*(load["path"] for load in loads), *targets],
        loads=loads,
        fallbacks=[
            *(row.test_branch for row in queue.list_before(queued) if row.build_id),
            *builds.default_chain(repository=queued.repository, branch=queued.target),
        ],
        repository=queued.repository,
        code_sha=queued.tested_sha,
        title=f"Test of #{queued.pull.number}: {queued.pull.title}"[:250],
    )
    by = accounts.principal_for_user(queued.enqueued_by)
    build = build_services.start_build(order=order, by=by, trigger="queue", is_trusted=True, is_consequence=True)
    _row(queued).update(build=build, lease_until=None)


def _land(queued: QueuedMerge) -> bool:
    """Merge exactly what was tested, where the target still is what it was tested on."""
    pull = queued.pull
    refresh_pull(pull=pull)
    if (pull.state, pull.head_sha, pull.target) != (PullState.OPEN, queued.source_sha, queued.target):
        return True  # it leaves in the next round
    if queue.list_objections(pull) or queue.find_refusal_of_rights(queued):
        return True
    if queued.build is not None and queued.loads != list_loads(pull, key=queued.tested_sha):
        return _forget_test(queued)  # other files were loaded on the source since
    try:
        with transaction.atomic():
            if not _row(queued).move(to=QueueState.LANDING, was=QueueState.GREEN):
                return False
            merging.check_not_begun(pull)
            merge = merging.insert_merge(
                pull=pull,
                by=accounts.principal_for_user(queued.enqueued_by),
                method=queued.method,
                rebuild=queued.rebuild,
                target_sha=queued.base_sha,
                sha=queued.tested_sha,
            )
        merging.carry_on(merge=merge)
    except AppError as error:
        # Somebody merges it by hand, the target moved first, or Git is busy: whoever looks next sees which.
        logger.info("#%s of %s does not land now: %s", pull.number, queued.repository, error.detail)
        return False
    return True


# --- what others tell -------------------------------------------------------------------------------------------------


def note_build_finished(*, build: Build) -> None:
    """Write down what the build of a test came to."""
    queued = (
        QueuedMerge.objects.filter(build=build, state=QueueState.TESTING).select_related("repository", "pull").first()
    )
    if queued is None:
        return
    is_green = build.state == BuildState.COMPLETED
    reason = "" if is_green else f"Build {build.pk} of what would land ended {build.state.lower()}: {build.reason}"
    to = QueueState.GREEN if is_green else QueueState.RED
    if _row(queued).filter(build=build).move(to=to, was=QueueState.TESTING, reason=reason):
        ring_queue(queued.repository, queued.target)


def follow_retry(*, build: Build, again: Build) -> None:
    """Let a test whose build is tried again wait for the new one."""
    rows = QueuedMerge.objects.filter(build__in=list_tries(build=build))
    rows.move(to=QueueState.TESTING, was=QueueState.RED, build=again, reason="")


# --- what is repeated -------------------------------------------------------------------------------------------------


def sweep_queues() -> None:
    """Ring once more for every queue in which something waits."""
    queues = queue.list_waiting_queues()
    repositories = Repository.objects.in_bulk({repository for repository, _ in queues})
    for repository, target in queues:
        if repository in repositories:
            ring_queue(repositories[repository], target)


def sweep_branches() -> int:
    """Remove what tests built that are over, with its JobSpecs; return how many branches of datasets that were."""
    branches = DatasetBranch.objects.filter(name__startswith=QUEUE_PREFIX).select_related("dataset")
    branches_in_use = {queued.test_branch for queued in QueuedMerge.objects.going_on().select_related("repository")}
    unfinished = Build.objects.filter(branch__startswith=QUEUE_PREFIX, state__in=BUILD_UNFINISHED)
    branches_in_use.update(*unfinished.values_list("chain", flat=True))
    gone = [branch for branch in branches if branch.name not in branches_in_use]
    removed = dataset_services.remove_branches(branches=gone)
    for repository in Repository.objects.filter(jobspecs__branch__startswith=QUEUE_PREFIX).distinct():
        specs = repository.jobspecs.filter(branch__startswith=QUEUE_PREFIX)
        for name in set(specs.values_list("branch", flat=True)) - branches_in_use:
            build_services.unpublish(repository=repository, branch=name)
    return removed
