"""Queries started by people, run by a worker in a sandboxed process, cancelled and removed."""

from __future__ import annotations

from contextlib import closing
from datetime import timedelta
from typing import TYPE_CHECKING

from django.db import transaction

from jobs.protocol import QueryRequest, QueryTable, write_message
from webapp.accounts.services import note_reading, record_audit
from webapp.catalog import queries as catalog
from webapp.comparisons.services.answers import ANSWER, read_json, read_result
from webapp.comparisons.services.requests import locate, make_side
from webapp.core import clock
from webapp.core.databases import keep_trying
from webapp.core.errors import AppError, Conflict, NotFound, PermissionDenied, TooManyRequests, Unavailable
from webapp.datasets import queries as datasets
from webapp.dispatch.failures import PATIENCE_S, PartLost, named_failures
from webapp.dispatch.leases import MAX_LOST, list_stamps, ring_forgotten
from webapp.dispatch.processes import Ending, ProcessEnd, Sandbox, launch, watch
from webapp.dispatch.sweeps import Turns
from webapp.runtime import doorbell
from webapp.runtime.folders import make_open_folder, remove_folder
from webapp.runtime.hosts import find_hosts
from webapp.runtime.room import wait_for_room
from webapp.sql import queries
from webapp.sql.models import Query, QueryRows
from webapp.sql.rules.states import QueryState

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

    from webapp.core.principals import Principal
    from webapp.repositories.models import Repository

RUN_TASK = "webapp.sql.tasks.run_query"
QUEUE = "quick"
turns = Turns()
STAMPS = list_stamps(Query.objects.all)
TIME_LIMIT_S = 60.0
GRACE_S = 10.0
"""How long a process may take beyond its own time limit to say so."""
MOST_OWN, MOST_WAITING = 2, 12
"""Queries that are not over yet, of one person and of all."""
MOST_RUNNING = 2
"""At a time: others wait, so that publications and comparisons always find a worker."""
KEPT = timedelta(days=7)
_GIB = 1024**3
LIMITS = {
    "memory_bytes": 6 * _GIB,
    "cpu_s": 180,
    "nproc": 64,
    "fsize": 2 * _GIB,
    "disk_bytes": 3 * _GIB,
    "total_memory_bytes": 2 * _GIB,
}
AUDITED_SIGNS = 2_000
"""Of a text, in the audit log."""


def start_query(*, repository: Repository, branch: str, sql: str, by: Principal) -> Query:
    """Start a query over a branch as its readers see it now; what it reads is fixed here, by the rights of who asks.

    Raises:
        InvalidInput: the text does not only read, or names what the person may not read.
        TooManyRequests: too many are not over yet.

    """
    queries.check_branch(repository, branch)
    _check_queue(by)
    names = queries.list_names(sql)
    tables = queries.find_tables(by, repository, branch=branch, names=names)
    with transaction.atomic():
        query = Query.objects.create(
            repository=repository,
            by_id=by.user_id,
            branch=branch,
            sql=sql,
            tables=[table.as_json() for table in tables],
        )
        detail = {"query": query.pk, "sql": sql[:AUDITED_SIGNS], "reads": query.paths}
        record_audit(by=by, verb="run_query", object=repository.name, branch=branch, detail=detail)
        _ring(query)
    return query


def _check_queue(by: Principal) -> None:
    waiting = Query.objects.filter(state__in=(QueryState.QUEUED, QueryState.RUNNING))
    if waiting.filter(by=by.user_id).count() >= MOST_OWN:
        message = f"{MOST_OWN} of your queries are not over yet. Wait for one, or stop it."
        raise TooManyRequests(message, code="too_many_queries")
    if waiting.count() >= MOST_WAITING:
        message = f"{MOST_WAITING} queries wait already. Ask again when some of them are done."
        raise TooManyRequests(message, code="too_many_queries")


def _ring(query: Query) -> None:
    transaction.on_commit(lambda: doorbell.ring(RUN_TASK, queue=QUEUE, id=query.pk))


def cancel_query(*, query: Query, by: Principal) -> None:
    """Stop a query that waits or runs; its worker notices within a moment. One that is over stays as it is.

    Raises:
        PermissionDenied: it is somebody else's.

    """
    if not queries.can_cancel(by, query):
        message = f"Query {query.pk} is somebody else's; only they and maintainers stop it."
        raise PermissionDenied(message, code="not_the_runner")
    with transaction.atomic():
        Query.objects.filter(pk=query.pk).move(
            to=QueryState.CANCELLED, error=f"{by.username} stopped the query.", finished_at=clock.now()
        )
        record_audit(by=by, verb="cancel_query", object=query.repository.name, branch=query.branch)


def note_rows(*, query: Query, by: Principal) -> None:
    """Count a look at the rows of a result as a read of each dataset that they come from."""
    for table in query.tables:
        note_reading(by=by, verb="read_rows", object=table["path"], branch=table["branch"])


def sweep_queries() -> int:
    """Ring again for what waits too long, and take over what a dead worker held."""
    taken_over = _take_over_lost_queries() if turns.begin() else 0
    ring_forgotten(Query.objects.order_by("created_at"), _ring, queue=QUEUE)
    return taken_over


def _take_over_lost_queries() -> int:
    lost = Query.objects.lost()
    failed = lost.filter(lost__gte=MAX_LOST).move(
        to=QueryState.FAILED,
        code="crashed",
        error="The worker died twice while it ran this query.",
        finished_at=clock.now(),
    )
    return failed + lost.retry()


def run_query(*, query_id: int) -> None:
    """Run one queued query to its end. A second worker that rings for it does nothing."""
    query = Query.objects.filter(pk=query_id).first()
    if query is None or Query.objects.filter(state=QueryState.RUNNING).count() >= MOST_RUNNING:
        return
    if not Query.objects.claim(query, started_at=clock.now()):
        return
    held = Query.objects.held(query)
    try:
        with named_failures("The query could not be run"):
            _run(query, held)
    except PartLost as error:
        if not keep_trying(held.retry, seconds=PATIENCE_S):
            _give_up(held, error)
    except Unavailable:
        # The job runner is starting, there is no room, or the database is busy.
        keep_trying(held.give_back, seconds=PATIENCE_S)
    except AppError as error:
        _give_up(held, error)
    _ring_next()


def _ring_next() -> None:
    """Ring for the query that has waited longest: the place that one has left is its own."""
    following = Query.objects.free().order_by("created_at").first()
    if following is not None:
        _ring(following)


def _give_up(held: QueryRows, error: AppError) -> None:
    def fail() -> int:
        return held.move(to=QueryState.FAILED, code=error.code, error=error.detail, finished_at=clock.now())

    keep_trying(fail, seconds=PATIENCE_S)


def _run(query: Query, held: QueryRows) -> None:
    wait_for_room()
    folder = queries.result_folder(query)
    remove_folder(folder)
    make_open_folder(folder)
    tables, folders = _open_tables(query)
    message = QueryRequest(
        sql=query.sql,
        tables=tuple(tables),
        folder=str(folder),
        result_path=str(folder / ANSWER),
        time_limit_s=TIME_LIMIT_S,
    )
    manifest = folder / "request.json"
    write_message(manifest, message)
    manifest.chmod(0o644)
    sandbox = Sandbox(readonly=folders, writable=[str(folder)], hosts=find_hosts(()))
    log = folder / "log"
    try:
        with closing(launch("query", manifest, sandbox=sandbox, limits=LIMITS, log_path=log, cwd=str(folder))) as job:
            end = watch(job, seconds=TIME_LIMIT_S + GRACE_S, look=held.is_running, beat=held.renew)
    finally:
        manifest.unlink(missing_ok=True)  # the result is kept; keys to files are not
    with named_failures("What the query answered could not be stored"):
        _finish(end, held, folder)


def _open_tables(query: Query) -> tuple[list[QueryTable], list[str]]:
    """Return the tables of a query for its process, and the folders of this machine in which their files are."""
    tables, folders = [], []
    for table in query.tables:
        dataset = datasets.find_dataset(str(table["path"]))
        pinned = datasets.find_transaction(table["transaction"])
        if dataset is None or pinned is None or pinned.dataset_id != dataset.pk:
            message = f"{table['path']} is not there any more."
            raise NotFound(message, code="expired")
        datasets.check_not_expired(dataset, pinned, catalog.get_metadata(table=dataset.table))
        location, folder = locate(dataset)
        side = make_side(pinned, location)
        if side is None:
            message = f"{table['path']} has no data on {table['branch']}."
            raise Conflict(message, code="nothing_committed")
        opened = catalog.file_properties(table=dataset.table, who=f"query-{query.pk}")
        tables.append(QueryTable(tuple(table["names"]), side, opened, tuple(table.get("masked", ()))))
        folders += [folder] if folder else []
    return tables, folders


def _finish(end: ProcessEnd, held: QueryRows, folder: Path) -> None:
    if end.ending is Ending.WITHDRAWN:
        remove_folder(folder)
        return
    if end.ending is Ending.LOST and held.retry():
        return  # the job runner died, not the query: the sweep rings for it again
    result = read_result(end, folder, noun="The query", limits=LIMITS, time_limit_s=TIME_LIMIT_S)
    values: dict[str, Any] = {"finished_at": clock.now()}
    if result.status == "ok":
        held.move(to=QueryState.READY, summary=read_json(folder / "summary.json") or dict(result.summary), **values)
        return
    message = result.message or str(result.code)
    held.move(to=QueryState.FAILED, code=result.code or "crashed", error=message, **values)


def prune_queries() -> int:
    """Remove queries with their results once they are old."""
    old = Query.objects.filter(created_at__lt=clock.cautious_now() - KEPT, state__in=QueryState.ends())
    count = 0
    for query in old.order_by("created_at")[:100]:
        folder = queries.result_folder(query)
        query.delete()
        remove_folder(folder)
        count += 1
    return count
