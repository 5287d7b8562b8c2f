"""The page of one build: its jobs, what they read and wrote, their time line and logs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from webapp.accounts import permissions as accounts
from webapp.builds import permissions
from webapp.builds.models import UPLOAD, Build, Job
from webapp.builds.pages.uploads import find_draft_url
from webapp.builds.queries import builds as queries
from webapp.builds.queries import chains, queue
from webapp.builds.queries.totals import JobTotals, read_totals
from webapp.builds.rules import timeline
from webapp.builds.rules.plan import join_words
from webapp.builds.rules.states import BuildState, JobState
from webapp.builds.rules.timeline import JobSpan, JobTimeline
from webapp.builds.rules.triggers import TRIGGERS
from webapp.core import clock
from webapp.core.numbered import NumberedPage
from webapp.core.numbers import read_count
from webapp.core.templatetags.ui import duration
from webapp.dispatch.log_lines import LogLine

if TYPE_CHECKING:
    from webapp.core.principals import Principal
from webapp.builds.pages.builds import LABELS, explain_waits
from webapp.builds.pages.failures import BuildFailures, read_failures
from webapp.builds.pages.links import DatasetLink, link_dataset
from webapp.builds.pages.ways_out import WayOut, find_way_out_of_build

LOG_LINES = 2000
JOBS_A_PAGE = 50
MAX_SOURCES = 12


@dataclass(frozen=True, slots=True)
class InputRow:
    """One input of a job."""

    dataset: DatasetLink
    branch: str
    is_fallback: bool
    from_job: int | None
    transaction: str


@dataclass(frozen=True, slots=True)
class OutputRow:
    """One output of a job."""

    dataset: DatasetLink
    transaction: str
    state: str
    note: str


@dataclass(frozen=True, slots=True)
class JobRow:
    """One job in the table, the graph and the time line."""

    id: str
    number: int
    kind: str
    word: str
    sentence: str
    title: str
    function: str
    place: str
    why: str
    reason: str
    inputs: tuple[InputRow, ...]
    outputs: tuple[OutputRow, ...]
    percent: int | None
    progress: str
    warnings: tuple[str, ...]
    """What could not be kept of the file that it loaded."""
    started_at: datetime | None
    finished_at: datetime | None
    needs: tuple[str, ...]
    """Graph nodes that it reads from."""
    sub: str


@dataclass(frozen=True, slots=True)
class SourceNode:
    """An input that no job of the build makes, in the graph."""

    id: str
    dataset: DatasetLink
    sub: str


@dataclass(frozen=True, slots=True)
class LogPanel:
    """The log of one job, its first lines drawn by the server."""

    job: JobRow
    owner: str
    """What the audit log names when it is read."""
    lines: tuple[LogLine, ...]
    src: str
    after: int
    download_url: str
    status: str
    jobs: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True, slots=True)
class BuildPage:
    """The page of one build."""

    nav: str
    repo_bar: Mapping[str, str] | None
    build: Build
    repository: str
    folder: str
    is_over: bool
    chain: tuple[str, ...]
    counts: tuple[tuple[str, int, str], ...]
    rows_written: int
    datasets_written: int
    fallback_inputs: int
    all_inputs: int
    waits: str
    reason: str
    """What it waits for now, or why it ended."""
    problem: str
    """Why the build ended, if no job failed."""
    failures: BuildFailures | None
    way_out: WayOut | None
    jobs: tuple[JobRow, ...]
    """Of one page; graph and time line are of these."""
    job_count: int
    number: int
    """Of the page."""
    jobs_text: str
    previous_url: str
    next_url: str
    sources: tuple[SourceNode, ...]
    hidden_sources: int
    timeline: JobTimeline | None
    log: LogPanel | None
    can_steer: bool
    steer_problem: str
    can_cancel: bool
    is_retryable: bool
    """Whether there is something of it to try again, for whoever may steer it."""
    started: str
    results: tuple[DatasetLink, ...]
    """What it was asked for, where it succeeded: whose rows to look at."""
    reread_url: str
    """Where the sender of a file that could not be loaded goes on with it."""
    may_open_pull: bool
    """Whether it succeeded on a branch that the reader may open a pull request from."""


def read_build_page(principal: Principal, build_id: int, *, job: str, page: int | None) -> BuildPage:
    """Return what the page of a build shows.

    Args:
        principal: who asks.
        build_id: the build.
        job: the number of the job whose log is open.
        page: of its jobs; without one that of the job asked for, else of the first that failed.

    """
    build = queries.get_build(principal, build_id)
    total = read_totals(build)
    part = _choose_page(total, job=job, page=page)
    jobs = queries.list_jobs(build, after=part.start, limit=JOBS_A_PAGE)
    folder = _common_folder(jobs, build)
    rows = tuple(_describe_job(row, build, folder) for row in jobs)
    sources = _list_sources(jobs, folder)
    repository = build.repository.name if build.repository else ""
    problem = permissions.find_steer_problem(principal, build)
    is_failed_upload = build.kind == UPLOAD and build.state == BuildState.FAILED
    results = build.targets if build.state == BuildState.COMPLETED else []
    return BuildPage(
        nav="builds",
        repo_bar={"name": repository, "tab": "builds"} if repository else None,
        build=build,
        repository=repository,
        folder=folder,
        is_over=build.is_over,
        chain=tuple(build.chain),
        counts=_count(total),
        rows_written=total.rows_written,
        datasets_written=total.datasets_written,
        fallback_inputs=total.fallback_inputs,
        all_inputs=total.all_inputs,
        waits=explain_waits([build]).get(build.pk, ""),
        reason=queue.read_reasons(builds=[build])[build.pk],
        problem=build.reason if build.state in {BuildState.FAILED, BuildState.ABORTED} else "",
        failures=read_failures(build, total),
        way_out=find_way_out_of_build(principal, build),
        jobs=rows,
        job_count=part.total,
        number=part.number,
        jobs_text=part.text,
        previous_url=part.link_previous(_jobs_url),
        next_url=part.link_next(_jobs_url),
        sources=tuple(sources[:MAX_SOURCES]),
        hidden_sources=max(0, len(sources) - MAX_SOURCES),
        timeline=_draw_timeline(build, rows),
        log=_open_log(build, jobs, rows, number=job),
        can_steer=not problem,
        steer_problem=problem,
        can_cancel=not problem and not build.is_over and not build.cancel_requested,
        is_retryable=build.state in {BuildState.FAILED, BuildState.ABORTED} and build.kind != UPLOAD,
        started=TRIGGERS.get(build.trigger, "started"),
        results=tuple(link_dataset(path, build.branch, folder) for path in results),
        reread_url=find_draft_url(principal, jobs[0]) if is_failed_upload else "",
        may_open_pull=build.state == BuildState.COMPLETED and _may_open_pull(principal, build),
    )


def _may_open_pull(principal: Principal, build: Build) -> bool:
    repository = build.repository
    return (
        repository is not None
        and build.branch != repository.default_branch
        and accounts.can_repository(principal, repository.name, "write")
        and bool(chains.find_head_sha(repository=repository, branch=build.branch))
    )


def _choose_page(total: JobTotals, *, job: str, page: int | None) -> NumberedPage:
    """Return a page of jobs that there is; numbers count from 1 without a gap, in the order of the plan."""
    number = read_count(job) or total.first_failed or 1
    page = -(-number // JOBS_A_PAGE) if page is None else page
    return NumberedPage.choose(page, size=JOBS_A_PAGE, total=len(total.states))


def _jobs_url(page: int) -> str:
    return f"?page={page}#jt"


def _common_folder(jobs: Sequence[Job], build: Build) -> str:
    """Return "/nyc/" when every dataset of the build lies in that folder: names are shorter without it."""
    read = {job_input.path for job in jobs for job_input in job.inputs.all()}
    written = {output.path for job in jobs for output in job.outputs.all()}
    paths = read | written | set(build.targets)
    tops = {path.split("/")[1] for path in paths}
    return f"/{tops.pop()}/" if len(tops) == 1 else "/"


def _describe_job(job: Job, build: Build, folder: str) -> JobRow:
    kind = "fresh" if job.skipped else job.state.tone
    inputs = tuple(
        InputRow(
            dataset=link_dataset(job_input.path, job_input.branch, folder),
            branch=job_input.branch,
            is_fallback=job_input.fallback,
            from_job=job_input.from_job.number if job_input.from_job else None,
            transaction=job_input.transaction_id or "",
        )
        for job_input in job.inputs.all()
    )
    outputs = tuple(
        OutputRow(
            dataset=link_dataset(output.path, build.branch, folder),
            transaction=output.transaction_id or "",
            state=output.transaction.state.lower() if output.transaction else "",
            note="no new branch" if job.skipped else "",
        )
        for output in job.outputs.all()
    )
    percent, progress = _describe_progress(job, kind, inputs)
    return JobRow(
        id=job.pk,
        number=job.number,
        kind=kind,
        word="Fresh" if job.skipped else job.state.label,
        sentence=job.why if job.skipped else job.state.sentence,
        title=outputs[0].dataset.short if outputs else job.function,
        function=job.function,
        place=f"{job.file}:{job.line}" if job.function else job.file,
        why=job.why,
        reason=job.reason,
        inputs=inputs,
        outputs=outputs,
        percent=percent,
        progress=progress,
        warnings=tuple(warning for output in job.outputs.all() for warning in output.warnings),
        started_at=None if job.skipped else job.started_at,
        finished_at=job.finished_at,
        needs=tuple(f"job-{row.from_job}" if row.from_job else _source_id(row) for row in inputs),
        sub=_describe_sub(job, kind, percent),
    )


def _describe_progress(job: Job, kind: str, inputs: Sequence[InputRow]) -> tuple[int | None, str]:
    if kind == "fresh":
        return None, "Skipped, readers fall back" if any(row.is_fallback for row in inputs) else "Skipped"
    if kind == "ok":
        rows = sum(int(output.summary.get("rows") or 0) for output in job.outputs.all())
        return 100, f"{rows:,} rows written"
    if kind == "bad":
        return 100, "Failed, nothing is visible"
    if kind == "abort":
        return None, job.reason or "Aborted"
    if kind == "wait":
        before = sorted({row.from_job for row in inputs if row.from_job})
        if job.state == JobState.RUN_PENDING:
            return None, job.reason or "Ready, waits for a worker"
        return None, f"Not before job{'s' if len(before) > 1 else ''} {join_words(before)}" if before else "Waits"
    done, total = int(job.progress.get("done") or 0), int(job.progress.get("total") or 0)
    if not total:
        return None, job.reason or "Running"
    share = min(99, 100 * done // total)
    return share, f"{done:,} of {total:,} {job.progress.get('unit', '')} · {share} %"


def _describe_sub(job: Job, kind: str, percent: int | None) -> str:
    parts = [str(job.number), "Fresh, skipped" if kind == "fresh" else LABELS[kind]]
    if kind == "run" and percent is not None:
        parts[-1] = f"Running {percent} %"
    if kind in {"ok", "bad"} and job.started_at and job.finished_at:
        parts.append(duration(job.finished_at - job.started_at))
    return " · ".join(parts)


def _source_id(row: InputRow) -> str:
    return f"src-{row.dataset.path.strip('/').replace('/', '-')}"


def _list_sources(jobs: Sequence[Job], folder: str) -> list[SourceNode]:
    nodes: dict[str, SourceNode] = {}
    for job in jobs:
        for job_input in job.inputs.all():
            if job_input.from_job is None:
                row = InputRow(
                    dataset=link_dataset(job_input.path, job_input.branch, folder),
                    branch=job_input.branch,
                    is_fallback=job_input.fallback,
                    from_job=None,
                    transaction=job_input.transaction_id or "",
                )
                sub = f"t {row.transaction[:7]} · {job_input.branch}"
                nodes.setdefault(_source_id(row), SourceNode(id=_source_id(row), dataset=row.dataset, sub=sub))
    return list(nodes.values())


def _count(total: JobTotals) -> tuple[tuple[str, int, str], ...]:
    counted = Counter("fresh" if skipped else state.tone for _number, state, skipped in total.states)
    return tuple(
        (kind, counted[kind], f"{counted[kind]:,} {label.lower()}") for kind, label in LABELS.items() if counted[kind]
    )


def _draw_timeline(build: Build, rows: Sequence[JobRow]) -> JobTimeline | None:
    now = clock.now()
    begin = build.created_at
    resolved = build.started_at or build.finished_at
    spans = [JobSpan("Resolve and plan", "res", _say_took(begin, resolved or now), begin, resolved)]
    shown = [row for row in rows if row.kind != "fresh"]
    for row in sorted(shown, key=lambda row: (row.started_at or now, row.number)):
        if row.started_at is None and row.kind == "abort":
            continue
        spans.append(_describe_span(row, now))
    return timeline.draw(spans, start=begin, now=now, is_over=build.is_over)


def _describe_span(row: JobRow, now: datetime) -> JobSpan:
    if row.started_at is None or row.kind == "wait":
        return JobSpan(f"{row.number} · {row.title}", "wait", row.progress.lower(), None, None)
    took = _say_took(row.started_at, row.finished_at or now)
    text = {"ok": took, "bad": f"{took}, failed", "run": f"{took}, running"}.get(row.kind, f"{took}, aborted")
    kind = "wait" if row.kind == "abort" else row.kind
    return JobSpan(f"{row.number} · {row.title}", kind, text, row.started_at, row.finished_at)


def _say_took(start: datetime, end: datetime) -> str:
    return duration(max(0.0, (end - start).total_seconds()))


def _open_log(build: Build, jobs: Sequence[Job], rows: Sequence[JobRow], *, number: str) -> LogPanel | None:
    with_log = [
        (job, row) for job, row in zip(jobs, rows, strict=True) if job.attempt or queries.log_file(job).exists()
    ]
    if not with_log:
        return None
    by_kind = {kind: place for place, kind in enumerate(("bad", "run", "abort", "ok", "wait", "fresh"))}
    chosen = next((pair for pair in with_log if str(pair[1].number) == number), None)
    job, row = chosen or min(with_log, key=lambda pair: (by_kind[pair[1].kind], pair[1].number))
    log = queries.read_log(job, limit=LOG_LINES)
    is_whole = log.is_done or (job.is_over and not log.lines)
    return LogPanel(
        job=row,
        owner=queries.find_log_owner(job),
        lines=log.lines,
        src="" if is_whole else f"/events/jobs/{job.pk}/log",
        after=log.next,
        download_url=f"/jobs/{job.pk}/log",
        status=f"{log.next} {'line' if log.next == 1 else 'lines'}, {f'end of job {row.number}' if is_whole else 'live'}",
        jobs=tuple(
            {
                "name": f"Job {other.number}",
                "url": f"/builds/{build.pk}?job={other.number}#log-title",
                "current": other.number == row.number,
            }
            for _, other in with_log
        ),
    )


# --- lists ----------------------------------------------------------------------------------------
