"""The life of a build: asked for, planned, resolved into jobs with open transactions, ended, cancelled, tried again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from django.db import transaction
from django.db.models import Case, F, QuerySet, When

from webapp.accounts import permissions
from webapp.accounts import queries as accounts
from webapp.accounts.services import record_audit
from webapp.builds import permissions as rights
from webapp.builds import signals
from webapp.builds.models import RUN, UPLOAD, Build, Job, JobInput, JobOutput
from webapp.builds.queries import chains, planning
from webapp.builds.queries import queue as waiting
from webapp.builds.rules import fallback, states
from webapp.builds.rules.plan import join_words
from webapp.builds.rules.states import BUILD_UNFINISHED, BuildState, JobState
from webapp.builds.rules.values import MAX_TARGETS, BuildPlan, PlannedJob
from webapp.builds.services import publication, queue
from webapp.builds.services.orders import BuildOrder
from webapp.core import clock, names
from webapp.core.errors import AppError, Conflict, InvalidInput, Unavailable
from webapp.core.prepared import Prepared
from webapp.datasets import services as dataset_services
from webapp.datasets.models import Dataset, Transaction
from webapp.datasets.rules import transactions as transaction_rules
from webapp.datasets.rules.transactions import TransactionState
from webapp.dispatch.failures import named_failures

if TYPE_CHECKING:
    from webapp.builds.rules.loads import Load
    from webapp.core.principals import Principal

_LOCKED = Prepared(lambda build: Build.objects.select_for_update().filter(pk=build).values_list("pk"), int)
"""A build, locked where the database locks rows."""
PLANS_OUTSIDE = 3
"""So often a plan is made before the atomic block that carries it out; if what it was read from moved each time, it is made inside."""


def start_build(
    *, order: BuildOrder, by: Principal, trigger: str = "user", is_trusted: bool = False, is_consequence: bool = False
) -> Build:
    """Ask for a build; it resolves in the background once the head of its branch is published.

    Args:
        order: what is built, and how.
        by: who asks; must be able to write the targets on the branch, unless the build is trusted.
        trigger: what started it, of `rules.triggers`.
        is_trusted: the caller checked the rights itself, as a merge does.
        is_consequence: it follows from an act that the audit log has already, so that it is not one of `by`.

    """
    build = _describe_build(order, by=by, is_trusted=is_trusted)
    build.trigger = trigger
    _save_new(build, "start_build", by=None if is_consequence else by)
    return build


def _save_new(build: Build, verb: str, *, by: Principal | None) -> None:
    with transaction.atomic():
        queue.take_turn(build)
        build.save()
        record_build_act(build, verb, by=by)
        queue.ring_resolution(build)


def record_build_act(build: Build, verb: str, *, by: Principal | None) -> None:
    """Write into the audit log what somebody, or else the installation, did to a build."""
    record_audit(
        by=by,
        verb=verb,
        object=f"build {build.pk}",
        branch=build.branch,
        detail={"targets": build.targets[:20], "trigger": build.trigger},
    )


class PlannedBuild(NamedTuple):
    """A build that is not kept: it has no state and no jobs."""

    build: Build
    plan: BuildPlan
    state: None = None
    jobs: tuple[()] = ()


def plan_build(*, order: BuildOrder, by: Principal) -> PlannedBuild:
    """Plan what `start_build` would do, with the same refusals, and keep nothing."""
    build = _describe_build(order, by=by, is_trusted=False)
    plan = planning.make_plan(build=build, by=by)
    rights.check_plan(by, plan)
    build.notes = _list_notes(build)
    return PlannedBuild(build, plan)


def _describe_build(order: BuildOrder, *, by: Principal, is_trusted: bool) -> Build:
    _check_order(order, by=by, is_trusted=is_trusted)
    branch, paths = order.branch, list(dict.fromkeys(order.targets))
    owner = order.repository or chains.find_repository(paths=paths, branch=branch)
    if order.fallbacks is None:
        chain = chains.default_chain(repository=owner, branch=branch)
    else:
        chain = fallback.make_chain(branch, order.fallbacks)
    head = chains.find_head(repository=owner, branch=branch)
    title = order.title or (head.subject[:250] if head else "")
    settled = replace(order, targets=paths, repository=owner, title=title)
    return settled.make_build(chain=chain, sha=head.sha if head else "", by_id=by.user_id, is_trusted=is_trusted)


def _check_order(order: BuildOrder, *, by: Principal, is_trusted: bool) -> None:
    if not is_trusted:
        for name in (order.branch, *(order.fallbacks or ())):
            names.check_branch_name(name)
    if not order.targets:
        raise InvalidInput("Name at least one dataset to build.", code="no_targets", errors={"targets": ["Required."]})
    if len(order.targets) > MAX_TARGETS:
        raise InvalidInput(f"A build has at most {MAX_TARGETS} targets.", errors={"targets": ["Too many."]})
    for path in dict.fromkeys(order.targets):
        names.split_dataset_path(path)
        if not is_trusted:
            permissions.check_dataset(by, path, "write", order.branch)


# --- resolution -----------------------------------------------------------------------------------


def resolve_build(*, build: Build) -> None:
    """Plan a build and open its outputs' transactions, all of them or none; what is in the way is said on the build."""
    if build.state != BuildState.RESOLVING or build.kind != "run":
        return
    if build.cancel_requested:
        end_build(build=build, state=BuildState.ABORTED, code="cancelled", reason="Cancelled before it was planned.")
        return
    try:
        with named_failures("The build could not be planned"):
            _resolve_in_turn(build)
    except (Conflict, Unavailable) as error:
        _wait(build, error.detail)
    except AppError as error:
        end_build(build=build, state=BuildState.FAILED, code=error.code, reason=error.detail)


def _resolve_in_turn(build: Build) -> None:
    blocker = waiting.find_blocker(build=build, datasets=waiting.list_queued(build=build))
    if blocker is not None:
        _wait(build, blocker.sentence)
        return
    if _waits_for_publication(build):
        return
    publication.publish_aside(build=build)
    for is_last in (*(PLANS_OUTSIDE - 1) * (False,), True):
        if _resolve(build, may_plan_inside=is_last):
            return


def _waits_for_publication(build: Build) -> bool:
    """Return whether a head of the chain is not published yet.

    The build says so before it looks again: a publication that ends in between is seen here, or sees the build.
    """
    head = chains.find_unpublished(build=build)
    if head is None:
        return False
    _wait(build, f"Waits for the JobSpecs of {head} to be published.", branch=head.branch)
    return chains.find_unpublished(build=build) == head or _waits_for_publication(build)


def _wait(build: Build, reason: str, *, branch: str = "") -> None:
    """Say what the build waits for; the branch is the one whose publication rings it."""
    waiting = Build.objects.filter(pk=build.pk, state=BuildState.RESOLVING)
    waiting.exclude(reason=reason, waits_for_branch=branch).update(reason=reason, waits_for_branch=branch)


def _resolve(build: Build, *, may_plan_inside: bool) -> bool:
    """Plan, and begin the build or let it stand in its queues; False where what was planned from has moved.

    Planning reads a lot, so it is done before the atomic block, which looks only whether the plan still holds.
    """
    plan, version = _plan(build)
    datasets = _make_datasets(plan, build)
    notes = _list_notes(build)
    try:
        with transaction.atomic():
            if not version.is_current():
                if not may_plan_inside:
                    return False
                plan, _ = _plan(build)
            _begin(build, plan, notes)
    except Conflict as error:
        queue.enter_queue(build=build, plan=plan, datasets=datasets)
        # What was in the way may have gone just before it stood in the queue, and then nobody rings.
        blocker = waiting.find_blocker(build=build, datasets=datasets)
        if blocker is None and not may_plan_inside:
            return False
        _wait(build, blocker.sentence if blocker else error.detail)
    return True


def _list_notes(build: Build) -> list[str]:
    """Say where old JobSpecs are used because the newest commit could not be published."""
    return [head.note for head in chains.list_failed_heads(build=build)]


def _plan(build: Build) -> tuple[BuildPlan, planning.PlanVersion]:
    by = accounts.principal_for_user(build.by)
    plan, version = planning.make_versioned_plan(build=build, by=by)
    if build.is_trusted:
        # Its caller has checked the right to write. No caller can know what its code reads.
        rights.check_code(plan)
    else:
        rights.check_plan(by, plan)
    return plan, version


def _make_datasets(plan: BuildPlan, build: Build) -> dict[int, str]:
    """Bring new outputs into being before the atomic block, since their tables are files, too; return all of them, id → path."""
    by = accounts.principal_for_user(build.by)
    return {dataset_services.get_or_create_dataset(path=path, by=by).pk: path for path in plan.written_paths}


def _begin(build: Build, plan: BuildPlan, notes: list[str]) -> None:
    """Open every output's transaction in one order and write down the jobs.

    All transactions or none are taken, and a build whose turn is earlier goes first where it waits for one of them, so
    builds queue and cannot wait for each other.
    """
    datasets = _find_datasets(plan)
    blocker = waiting.find_blocker(build=build, datasets={row.pk: path for path, row in datasets.items()})
    if blocker is not None:
        raise Conflict(blocker.sentence, code="queued", build=blocker.build)
    taken = Build.objects.filter(pk=build.pk, cancel_requested=False).move(
        to=BuildState.RUNNING, started_at=clock.now(), reason="", plan=plan.to_json(), notes=notes
    )
    if not taken:
        return
    build.refresh_from_db()
    queue.leave_queue(build=build, taken=[row.pk for row in datasets.values()])
    jobs = _create_jobs(build, plan)
    dataset_services.lock_paths({*datasets, *_list_read(plan)})
    opened = _open_transactions(build, plan, jobs, datasets)
    _create_inputs_and_outputs(plan, jobs, opened)
    for job in jobs.values():
        if job.state == JobState.RUN_PENDING:
            queue.ring_job(job)
    if not plan.running_jobs:
        end_build(build=build, state=BuildState.COMPLETED, reason="Everything was fresh.")


def _list_read(plan: BuildPlan) -> list[str]:
    """Return the datasets whose transactions the jobs are pinned to: a client may be removing their snapshots."""
    return [source.path for job in plan.running_jobs for source in job.inputs if source.from_job is None]


def _find_datasets(plan: BuildPlan) -> dict[str, Dataset]:
    rows = {row.path: row for row in Dataset.objects.filter(path__in=plan.written_paths)}
    for path in plan.written_paths:
        if path not in rows:
            # Removed since the plan was made; the next try makes it again.
            raise Conflict(f"{path} is being removed.", code="dataset_removed")
    return rows


def _create_jobs(build: Build, plan: BuildPlan) -> dict[int, Job]:
    now = clock.now()
    loads = {load.path: load for load in planning.read_loads(build)}
    jobs = {planned.number: _describe_job(build, planned, loads) for planned in plan.jobs}
    for job in jobs.values():
        if job.skipped:
            job.finished_at = now
    Job.objects.bulk_create(jobs.values())
    return jobs


def _describe_job(build: Build, planned: PlannedJob, loads: Mapping[str, Load]) -> Job:
    ready = JobState.WAITING if planned.after else JobState.RUN_PENDING
    state = JobState.COMPLETED if planned.is_fresh else ready
    load = loads[planned.outputs[0].path] if planned.is_load else None
    return Job(
        build=build,
        number=planned.number,
        kind=UPLOAD if load else RUN,
        upload=load.as_json() if load else None,
        repository=planned.repository,
        spec_branch=planned.spec_branch,
        sha=planned.sha,
        function=planned.function,
        file=planned.file,
        line=planned.line,
        profile=planned.profile,
        size=planned.size,
        digest=planned.digest,
        is_incremental=planned.is_incremental and not build.force,
        state=state,
        turn=build.turn,
        rung_at=clock.now() if state == JobState.RUN_PENDING else None,
        skipped=planned.is_fresh,
        why=planned.why[:500],
        reason=planned.why if planned.is_fresh else "",
    )


def _open_transactions(
    build: Build, plan: BuildPlan, jobs: Mapping[int, Job], datasets: Mapping[str, Dataset]
) -> dict[str, Transaction]:
    """Open the transactions of all outputs, in the order of their paths."""
    maker = {output.path: jobs[job.number] for job in plan.running_jobs for output in job.outputs}
    types = {load.path: load.type for load in planning.read_loads(build)}
    by = accounts.principal_for_user(build.by)
    return {
        path: dataset_services.open_transaction(
            dataset=datasets[path],
            branch=plan.branch,
            chain=plan.chain,
            type=types.get(path, transaction_rules.SNAPSHOT),
            by=by,
            build_id=build.pk,
            job_id=maker[path].pk,
            staging_branch=maker[path].staging_branch,
        )
        for path in plan.written_paths
    }


def _create_inputs_and_outputs(plan: BuildPlan, jobs: Mapping[int, Job], opened: Mapping[str, Transaction]) -> None:
    JobInput.objects.bulk_create(
        JobInput(
            job=jobs[planned.number],
            name=source.name,
            path=source.path,
            branch=source.branch,
            transaction_id=source.transaction if source.from_job is None else opened[source.path].pk,
            from_job=None if source.from_job is None else jobs[source.from_job],
            fallback=source.fallback,
        )
        for planned in plan.jobs
        for source in planned.inputs
    )
    JobOutput.objects.bulk_create(
        JobOutput(
            job=jobs[planned.number],
            name=output.name,
            path=output.path,
            dataset_id=opened[output.path].dataset_id if output.path in opened else None,
            transaction=opened.get(output.path),
        )
        for planned in plan.jobs
        for output in planned.outputs
    )


# --- its end --------------------------------------------------------------------------------------


def end_build(*, build: Build, state: BuildState, reason: str, code: str = "") -> bool:
    """Bring a build to its end, once; close what it still holds open, which wakes the builds that are next for it."""
    with transaction.atomic():
        ended = Build.objects.filter(pk=build.pk).move(
            to=state,
            reason=reason,
            code=code,
            finished_at=clock.now(),
            # A build that took no worker leaves its user's next turn as it was.
            turn=Case(When(has_begun=True, then=F("turn")), default=0),
        )
        if not ended:
            return False
        build.refresh_from_db()
        abort_transactions(build_id=build.pk, reason=reason or f"Build {build.pk} ended.")
        queue.leave_queue(build=build)
        signals.build_finished.send(sender=Build, build=build)
    return True


def abort_transactions(*, reason: str, build_id: int | None = None, job: Job | None = None) -> int:
    """Abort what a build, or one of its jobs, still holds open; return how many transactions that were."""
    held = Transaction.objects.filter(state=TransactionState.OPEN)
    held = held.filter(build_id=build_id) if job is None else held.filter(job_id=job.pk)
    _lock_datasets(held)
    count = 0
    for opened in held.select_related("dataset").order_by("dataset__path"):
        dataset_services.abort_transaction(transaction=opened, reason=reason[:400], by=None)
        count += 1
    return count


def _lock_datasets(held: QuerySet[Transaction]) -> None:
    dataset_services.lock([opened.dataset for opened in held.select_related("dataset")])


def cancel_build(*, build: Build, by: Principal) -> Build:
    """Cancel a build: what has not started never does, what runs is ended by its worker within seconds."""
    rights.check_steer(by, build)
    if build.is_over:
        raise Conflict(f"Build {build.pk} is over: it is {build.state}.", code="build_over")
    _cancel(build, by=by, reason=f"Cancelled by {by.username}.")
    return build


def call_off_build(*, build: Build, reason: str) -> None:
    """Cancel a build, if it goes on, that the installation started and needs no more."""
    if not build.is_over:
        _cancel(build, by=None, reason=reason)


def _cancel(build: Build, *, by: Principal | None, reason: str) -> None:
    with transaction.atomic():
        lock_outputs(build=build)
        Build.objects.filter(pk=build.pk, state__in=BUILD_UNFINISHED).update(cancel_requested=True)
        for job in build.jobs.filter(state__in=[JobState.WAITING, JobState.RUN_PENDING]):
            end_job(job=job, state=JobState.ABORTED, reason=reason)
        build.jobs.all().move(to=JobState.ABORT_PENDING, reason=reason)
        record_build_act(build, "cancel_build", by=by)
        build.refresh_from_db()
        if build.state == BuildState.RESOLVING:
            end_build(build=build, state=BuildState.ABORTED, code="cancelled", reason=reason)
        else:
            advance_build(build=build)
    build.refresh_from_db()


def retry_build(*, build: Build, by: Principal, is_trusted: bool = False) -> Build:
    """Build the same targets again; what the first build completed is fresh and is not run again."""
    if not is_trusted:
        rights.check_steer(by, build)
    if not build.is_over:
        raise Conflict(f"Build {build.pk} is still {build.state}: cancel it or wait for its end.", code="build_running")
    if build.kind != "run":
        raise Conflict("An upload cannot be repeated: its file is gone. Upload it again.", code="upload")
    order = BuildOrder.of(build)
    if build.force:
        done = {output.path for output in JobOutput.objects.filter(job__build=build, job__state=JobState.COMPLETED)}
        forced = [output.path for output in JobOutput.objects.filter(job__build=build) if output.path not in done]
        order = replace(order, force=not build.jobs.exists(), forced=forced)
    head = chains.find_head_sha(repository=build.repository, branch=build.branch) if build.repository else ""
    again = order.make_build(
        chain=build.chain,
        sha=head or build.sha,
        by_id=by.user_id,
        is_trusted=is_trusted,
        trigger="retry",
        retry_of=build,
    )
    with transaction.atomic():
        _save_new(again, "retry_build", by=by)
        signals.build_retried.send(sender=Build, build=build, again=again)
    return again


# --- jobs of a build ------------------------------------------------------------------------------


def end_job(
    *, job: Job, state: JobState, reason: str, error: Mapping[str, object] | None = None, attempt: int | None = None
) -> bool:
    """Bring a job that has no result to its end, once; nothing of it stays visible. The build is advanced by the caller."""
    with transaction.atomic():
        rows = Job.objects.filter(pk=job.pk)
        if attempt is not None:
            rows = rows.filter(attempt=attempt)
        if not rows.move(to=state, reason=reason, error=error, finished_at=clock.now(), lease_until=None):
            return False
        job.refresh_from_db()
        abort_transactions(job=job, reason=reason)
        signals.job_finished.send(sender=Job, job=job)
    return True


def lock_build(*, build: Build) -> None:
    """Let one atomic block at a time decide what follows for a build.

    Two jobs that end at once would each see the other one still running, and nobody would end the build. It is taken
    before any row of the build's jobs, so that a cancellation and a job's end never wait for each other in a circle.
    """
    _LOCKED.all(build.pk)


def lock_outputs(*, build: Build) -> None:
    """Lock a build, and then at once the datasets that it writes, where more than one job of it may end.

    Jobs end in the order of their numbers, and two builds may make the same datasets in different ones.
    """
    lock_build(build=build)
    _lock_datasets(Transaction.objects.filter(state=TransactionState.OPEN, build_id=build.pk))


def advance_build(*, build: Build) -> None:
    """Ready the jobs whose inputs are there, abort those whose inputs will not come, end the build after the last."""
    with transaction.atomic():
        lock_build(build=build)
        _abort_unreachable(build)
        waiting = build.jobs.filter(state=JobState.WAITING)
        for job in waiting.prefetch_related("inputs__from_job"):
            if all(need.from_job is None or need.from_job.state == JobState.COMPLETED for need in job.inputs.all()):
                row = Job.objects.filter(pk=job.pk)
                if row.move(to=JobState.RUN_PENDING, was=JobState.WAITING, rung_at=clock.now()):
                    queue.ring_job(job)
        build.refresh_from_db()
        ended = states.summarise_build(_list_states(build), cancelled=build.cancel_requested)
        if ended is not None and build.state == BuildState.RUNNING:
            end_build(build=build, state=ended, code=_name_end(ended), reason=_explain_end(build, ended))


def _list_states(build: Build) -> list[JobState]:
    return list(build.jobs.values_list("state", flat=True))


def _abort_unreachable(build: Build) -> None:
    """Follow failures downstream; jobs that do not need them go on."""
    while True:
        stuck = (
            build.jobs.filter(state=JobState.WAITING, inputs__from_job__state__in=[JobState.FAILED, JobState.ABORTED])
            .distinct()
            .prefetch_related("inputs__from_job")
        )
        if not stuck:
            return
        lock_outputs(build=build)
        for job in stuck:
            end_job(job=job, state=JobState.ABORTED, reason=_explain_missing_input(job.inputs.all()))


def _explain_missing_input(inputs: Iterable[JobInput]) -> str:
    dead = [
        job_input
        for job_input in inputs
        if job_input.from_job is not None and job_input.from_job.state in {JobState.FAILED, JobState.ABORTED}
    ]
    makers = {job_input.from_job.number: job_input.from_job for job_input in dead if job_input.from_job is not None}
    ends = [
        f"job {number} {'failed' if makers[number].state == JobState.FAILED else 'was aborted'}"
        for number in sorted(makers)
    ]
    paths = sorted({job_input.path for job_input in dead})
    return f"Not run: {join_words(ends)}, so {join_words(paths)} {'were' if len(paths) > 1 else 'was'} not built"


def _name_end(ended: BuildState) -> str:
    if ended == BuildState.COMPLETED:
        return ""
    return "cancelled" if ended == BuildState.ABORTED else "job_failed"


def _explain_end(build: Build, ended: BuildState) -> str:
    if ended == BuildState.COMPLETED:
        return ""
    if ended == BuildState.ABORTED:
        return "Cancelled."
    failed = build.jobs.filter(state=JobState.FAILED).order_by("number").prefetch_related("outputs")
    return " ".join(
        f"Job {job.number} ({join_words([output.path for output in job.outputs.all()])}) failed: {job.reason}"
        for job in failed
    )
