"""Queries started by people, run by a worker in a sandboxed process, cancelled and removed."""

from __future__ import annotations

import re
import socket
from contextlib import ExitStack, closing
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

from django.db import transaction
from django.db.models import Q

from jobs.protocol import QueryRequest, QueryTable, ReadTablesRequest, write_message
from webapp.accounts.services import note_reading, record_audit
from webapp.catalog import queries as catalog
from webapp.comparisons.services.answers import ANSWER, read_json, read_result
from webapp.comparisons.services.requests import locate, make_side
from webapp.core import clock
from webapp.core.databases import keep_trying
from webapp.core.errors import (
    AppError,
    Conflict,
    InvalidInput,
    NotFound,
    PermissionDenied,
)
from webapp.datasets import queries as datasets
from webapp.dispatch.failures import PATIENCE_S, named_failures, settled_failures
from webapp.dispatch.fair_slots import FairSlots
from webapp.dispatch.leases import MAX_LOST, list_stamps, ring_forgotten
from webapp.dispatch.processes import Ending, Handle, ProcessEnd, Sandbox, launch, watch
from webapp.dispatch.sweeps import Turns
from webapp.repositories import queries as repositories
from webapp.repositories.services.edits import Edit, Moved, Refused, Saved, save_file
from webapp.runtime import doorbell
from webapp.runtime.folders import make_open_folder, remove_folder
from webapp.runtime.hosts import find_hosts
from webapp.runtime.room import wait_for_room
from webapp.sql import queries
from webapp.sql.models import Query, QueryRows
from webapp.sql.rules.checks import FOLDER, SUFFIX, CheckFileError, read_check, read_expectation, write_check
from webapp.sql.rules.states import QueryState
from webapp.sql.signals import query_finished

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path
    from typing import Any

    from django.db.models import QuerySet

    from webapp.core.principals import Principal
    from webapp.repositories.models import Repository

_CHECK_NAME = re.compile(r"[A-Za-z0-9_-]{1,100}")
RUN_TASK = "webapp.sql.tasks.run_query"
QUEUE = "quick"
turns = Turns()
STAMPS = list_stamps(Query.objects.all)
TIME_LIMIT_S = 60.0
GRACE_S = 10.0
"""How long a process may take beyond its own time limit to say so."""
MOST_OWN, MOST_WAITING = 2, 12
"""Queries that are not over yet, of one person and of all."""
SLOTS = FairSlots(4)
"""Queries that run at a time in one worker."""
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
READER_LIMITS = {**LIMITS, "nproc": 512, "total_memory_bytes": 1 * _GIB}
"""Of the process that reads the tables; each of its scans has threads of its own."""
AUDITED_SIGNS = 2_000
"""Of a text, in the audit log."""


def start_query(*, repository: Repository, branch: str, sql: str, by: Principal, base: str = "") -> Query:
    """Start a query over a branch as its readers see it now; what it reads is fixed here, by the rights of who asks.

    Args:
        repository: in which it is asked.
        branch: whose rows it reads.
        sql: one statement that reads.
        by: who asks.
        base: another branch, over which it runs, too, and with whose result its own is compared.

    Raises:
        InvalidInput: the text does not only read, or names what the person may not read; the two branches are one.
        TooManyRequests: too many are not over yet.

    """
    queries.check_branch(repository, branch)
    if base:
        _check_base(repository, branch, base)
    by_hand = Query.objects.filter(check_name="")
    by_hand.check_own_room(by.user_id, most=MOST_OWN, noun="queries")
    by_hand.check_room(most=MOST_WAITING, noun="queries")
    names = queries.list_names(sql)
    named = queries.find_tables(by, repository, branch=branch, base=base, names=names)
    with transaction.atomic():
        return enter_query(repository=repository, branch=branch, base=base, sql=sql, by=by, named=named)


def save_check(
    *, repository: Repository, branch: str, sql: str, name: str, expects: str, by: Principal, new_branch: str = ""
) -> tuple[str, str]:
    """Commit a query to the repository as a check; return the branch that has it and the path of its file.

    Args:
        repository: which repository.
        branch: which branch of it.
        sql: one statement that reads.
        name: what the check is called: letters, digits, _ and -.
        expects: what its result is to be, as `webapp.sql.rules.checks` reads it.
        by: who commits.
        new_branch: makes this branch for the commit instead of moving the other one.

    Raises:
        InvalidInput: the text does not only read, or one of the others is not as it is to be.
        Conflict: somebody changed the same file meanwhile.

    """
    if not _CHECK_NAME.fullmatch(name):
        message = "A check is called by at most 100 letters, digits, _ and -."
        raise InvalidInput(message, code="bad_name", errors={"name": [message]})
    try:
        text = write_check(sql, read_expectation(expects))
        read_check(text)
    except CheckFileError as error:
        raise InvalidInput(str(error), code=error.code, errors={"expects": [str(error)]}) from error
    queries.list_names(sql)
    path, head = f"{FOLDER}/{name}{SUFFIX}", repositories.get_head(repository, branch)
    is_new = repositories.find_kind(repository, head, path) is None
    edit = Edit(
        mode="new" if is_new else "edit",
        path=FOLDER if is_new else path,
        target=path,
        text=text,
        message=f"{'Add' if is_new else 'Change'} the check {name}",
        head=head,
        new_branch=new_branch,
    )
    match save_file(repository=repository, branch=branch, edit=edit, by=by):
        case Saved() as saved:
            return saved.branch, path
        case Refused() as refused:
            raise refused.error
        case Moved():
            message = f"{path} was changed by somebody else at this moment. Look at it and save again."
            raise Conflict(message, code="head_moved")


def _check_base(repository: Repository, branch: str, base: str) -> None:
    if base == branch:
        message = f"Both branches are {branch}: choose another one to compare with."
        raise InvalidInput(message, code="same_branch", errors={"base": [message]})
    queries.check_branch(repository, base)


def enter_query(
    *,
    repository: Repository,
    branch: str,
    base: str,
    sql: str,
    by: Principal,
    named: queries.NamedTables,
    check_name: str = "",
) -> Query:
    """Let a query wait for a worker, with what it reads as that was looked up; call it inside an atomic block.

    Args:
        repository: in which it is asked.
        branch: whose rows it reads.
        base: the branch that it is compared with; empty where it is not.
        sql: one statement that reads.
        by: by whose rights.
        named: what its names mean.
        check_name: the check for which it runs; people's own go before those.

    """
    query = Query.objects.create(
        repository=repository,
        by_id=by.user_id,
        branch=branch,
        base=base,
        sql=sql,
        check_name=check_name,
        **named.as_json(),
    )
    detail = {"query": query.pk, "sql": sql[:AUDITED_SIGNS], "reads": query.paths}
    more = {"base": base, "check": check_name, "rights_of": by.username if check_name else ""}
    detail |= {name: value for name, value in more.items() if value}
    # Nobody has asked for the run of a check: it follows a push.
    actor = None if check_name else by
    record_audit(by=actor, verb="run_query", object=repository.name, branch=branch, detail=detail)
    _ring(query)
    return query


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
        message = f"{by.username} stopped the query."
        _end(Query.objects.filter(pk=query.pk), query, to=QueryState.CANCELLED, error=message)
        record_audit(by=by, verb="cancel_query", object=query.repository.name, branch=query.branch)


def _end(rows: QueryRows, query: Query, *, to: QueryState, **values: Any) -> int:
    """Bring a query to its end, and say so to the apps above; return whether it was not over yet."""
    with transaction.atomic():
        moved = rows.move(to=to, finished_at=clock.now(), **values)
        if moved:
            query_finished.send(sender=Query, query=query)
    return moved


def note_rows(*, query: Query, by: Principal) -> None:
    """Count a look at the rows of a result as a read of each dataset that they come from."""
    for table in (*query.tables, *query.base_tables):
        note_reading(by=by, verb="read_rows", object=table["path"], branch=table["branch"])


def sweep_queries() -> int:
    """Ring again for what waits too long, and take over what a dead worker held."""
    taken_over = _take_over_lost_queries() if turns.begin() else 0
    ring_forgotten(_in_order(Query.objects.all()), _ring, queue=QUEUE)
    return taken_over


def _in_order(rows: QueryRows) -> QueryRows:
    """Return queries in the order of their turns: what somebody waits for before what a push has started."""
    return rows.alias(is_check=~Q(check_name="")).order_by("is_check", "created_at")


def _take_over_lost_queries() -> int:
    lost = Query.objects.lost()
    for query in lost:
        remove_folder(queries.reader_folder(query))  # keys to files are in it
    message = "The worker died twice while it ran this query."
    failed = sum(
        _end(lost.filter(pk=query.pk), query, to=QueryState.FAILED, code="crashed", error=message)
        for query in lost.filter(lost__gte=MAX_LOST)
    )
    return failed + lost.retry()


def run_query(*, query_id: int) -> None:
    """Run one queued query to its end. A second worker that rings for it does nothing."""
    query = Query.objects.free().filter(pk=query_id).first()
    if query is None:
        return
    with SLOTS.taking(query.by_id) as is_taken:
        if not is_taken or not Query.objects.claim(query, started_at=clock.now()):
            return
        held = Query.objects.held(query)
        with settled_failures("The query could not be run", held, give_up=partial(_give_up, query, held)):
            _run(query, held)
    _ring_next()


def _ring_next() -> None:
    """Notify a worker of the next query, by the shares of users: its own message can have come while there was no slot."""
    following = next(SLOTS.in_turn(_in_order(Query.objects.free()), user="by"), None)
    if following is not None:
        _ring(following)


def _give_up(query: Query, held: QueryRows, error: AppError) -> None:
    def fail() -> int:
        return _end(held, query, to=QueryState.FAILED, code=error.code, error=error.detail)

    keep_trying(fail, seconds=PATIENCE_S)


def _run(query: Query, held: QueryRows) -> None:
    wait_for_room()
    folder, reader_folder = queries.result_folder(query), queries.reader_folder(query)
    remove_folder(folder)
    make_open_folder(folder)
    message = QueryRequest(
        sql=query.sql,
        folder=str(folder),
        result_path=str(folder / ANSWER),
        time_limit_s=TIME_LIMIT_S,
        has_base=bool(query.base),
    )
    near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with ExitStack() as running:
            with far:
                running.enter_context(closing(_launch_reader(query, reader_folder, far)))
            with near:
                sandbox = Sandbox(writable=[str(folder)])
                job = running.enter_context(closing(_launch("query", message, folder, sandbox, LIMITS, near)))
            end = watch(job, seconds=TIME_LIMIT_S + GRACE_S, look=held.is_running, beat=held.renew)
    finally:
        remove_folder(reader_folder)
    with named_failures("What the query answered could not be stored"):
        _finish(query, end, held, folder)


def _launch_reader(query: Query, folder: Path, channel: socket.socket) -> Handle:
    """Start the process that reads the tables. It sees their files, and the other one only the columns that it sends."""
    tables, folders = _open_tables(query, query.tables)
    base_tables, base_folders = _open_tables(query, _fill_base(query))
    remove_folder(folder)
    make_open_folder(folder)
    base = tuple(base_tables) if query.base else None
    message = ReadTablesRequest(tables=tuple(tables), base=base, folder=str(folder))
    sandbox = Sandbox(readonly=sorted({*folders, *base_folders}), writable=[str(folder)], hosts=find_hosts(()))
    return _launch("tables", message, folder, sandbox, READER_LIMITS, channel)


def _launch(
    entrypoint: str,
    message: QueryRequest | ReadTablesRequest,
    folder: Path,
    sandbox: Sandbox,
    limits: Mapping[str, int],
    channel: socket.socket,
) -> Handle:
    manifest = folder / "request.json"
    write_message(manifest, message)
    manifest.chmod(0o644)
    return launch(
        entrypoint,
        manifest,
        sandbox=sandbox,
        limits=limits,
        log_path=folder / "log",
        cwd=str(folder),
        channel=channel,
    )


def _fill_base(query: Query) -> list[dict[str, Any]]:
    """Return the tables of the base; one that has no data there has the branch's columns, and no row."""
    own = {table["path"]: table for table in query.tables}
    return [table if table["transaction"] else {**own[table["path"]], "is_empty": True} for table in query.base_tables]


def _open_tables(query: Query, pinned_tables: Iterable[Mapping[str, Any]]) -> tuple[list[QueryTable], list[str]]:
    """Return tables of a query for its process, and the folders of this machine in which their files are."""
    tables, folders = [], []
    for table in pinned_tables:
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
        is_empty, masked = bool(table.get("is_empty")), tuple(table.get("masked", ()))
        tables.append(QueryTable(tuple(table["names"]), side, opened, masked=masked, is_empty=is_empty))
        folders += [folder] if folder else []
    return tables, folders


def _finish(query: Query, end: ProcessEnd, held: QueryRows, folder: Path) -> None:
    if end.ending is Ending.WITHDRAWN:
        remove_folder(folder)
        return
    if end.ending is Ending.LOST and held.retry():
        return  # the job runner died, not the query: the sweep rings for it again
    result = read_result(end, folder, noun="The query", limits=LIMITS, time_limit_s=TIME_LIMIT_S)
    if result.status == "ok":
        summary = read_json(folder / "summary.json") or dict(result.summary)
        _end(held, query, to=QueryState.READY, summary=summary)
        return
    if held.is_running():
        remove_folder(folder)  # at once: what it has written takes disk space, and is shown nowhere
    message = result.message or str(result.code)
    _end(held, query, to=QueryState.FAILED, code=result.code or "crashed", error=message)


def prune_queries() -> int:
    """Remove queries with their results once they are old, but for those that an app above shows."""
    old = Query.objects.filter(created_at__lt=clock.cautious_now() - KEPT, state__in=QueryState.ends())
    for keep in _keepers:
        old = old.exclude(pk__in=keep())
    return old.order_by("created_at").prune(queries.result_folder)


def register_keeper(keep: Callable[[], QuerySet[Any, Any]]) -> None:
    """Add a query for ids of queries that an app above shows, however old; call it from `AppConfig.ready`."""
    if keep not in _keepers:
        _keepers.append(keep)


_keepers: list[Callable[[], QuerySet[Any, Any]]] = []
