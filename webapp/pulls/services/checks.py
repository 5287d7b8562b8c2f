"""Queries that a repository keeps as checks: found at the head of each open pull request, and run on both branches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db import transaction
from django.db.models import F

from jobs.protocol import fold_column
from webapp.accounts.permissions import check_repository, list_sensitive_to_code
from webapp.accounts.queries import principal_for_user
from webapp.builds.permissions import check_code_of
from webapp.core.errors import AppError, Conflict, Unavailable
from webapp.core.names import find_disguise
from webapp.dispatch.fair_slots import FairSlots
from webapp.pulls.models import PullCheck, PullRequest
from webapp.pulls.queries.checked import get_query_check
from webapp.pulls.queries.pulls import list_bringers
from webapp.pulls.rules import states
from webapp.pulls.rules.states import PullState
from webapp.pulls.services.remarks import record_pull_act
from webapp.repositories import queries as repositories
from webapp.runtime import doorbell
from webapp.sql import queries as sql
from webapp.sql import services as sql_services
from webapp.sql.models import Query
from webapp.sql.rules import checks as rules
from webapp.sql.rules.checks import CheckFileError

if TYPE_CHECKING:
    from django.db.models import QuerySet

    from webapp.core.principals import Principal
    from webapp.git.values import TreeEntry
    from webapp.sql.queries import NamedTables

TASK = "webapp.pulls.tasks.run_checks"
SLOTS = FairSlots(4)
"""Pull requests whose checks are parsed at a time in one worker."""
MOST_PULLS = 20
"""That a sweep rings for at a time."""


def follow_checks(pull: PullRequest) -> None:
    """Bring the checks of an open pull request up to its head, and have those run whose text or data has moved."""
    entries = {rules.name_check(entry.path): entry for entry in _list_files(pull, pull.head_sha)}
    bases = {rules.name_check(entry.path): entry.sha for entry in _list_files(pull, pull.base_sha)} if entries else {}
    current = {check.name: check for check in pull.query_checks.select_related("query")}
    for place, (name, entry) in enumerate(entries.items()):
        described = _describe(pull, entry, is_extra=place >= rules.MOST_CHECKS)
        standing = states.NEW_FILE if name not in bases else states.OTHER_FILE
        described["standing"] = states.SAME_FILE if bases.get(name) == entry.sha else standing
        _follow_check(pull, name, described, current.get(name))
    pull.query_checks.exclude(name__in=entries).delete()
    runs = [check.query for check in current.values() if check.query is not None]
    moved = sql.find_moved(run for run in runs if run.branch == pull.source and run.base == pull.target)
    moved |= {run.pk for run in runs if (run.branch, run.base) != (pull.source, pull.target)}
    pull.query_checks.filter(query__in=moved).update(query=None)
    if _list_due().filter(pull=pull).exists():
        _ring(pull.pk)


def _ring(pull_id: int) -> None:
    transaction.on_commit(lambda: doorbell.ring(TASK, queue="quick", id=pull_id))


def _list_files(pull: PullRequest, sha: str) -> list[TreeEntry]:
    """List the files of a commit that are checks, by name."""
    if repositories.find_kind(pull.repository, sha, rules.FOLDER) != "folder":
        return []
    entries = repositories.list_entries(pull.repository, sha, rules.FOLDER)
    return sorted((entry for entry in entries if rules.is_check(entry.path)), key=lambda entry: entry.path)


def _describe(pull: PullRequest, entry: TreeEntry, *, is_extra: bool) -> dict[str, Any]:
    """Return what a file says, or what is wrong with it."""
    if is_extra:
        message = f"At most {rules.MOST_CHECKS} checks are run, and this one comes behind them by its name."
        return _refuse(f"{entry.path}: {message}")
    if problem := find_disguise(rules.name_check(entry.path)):
        return _refuse(problem)
    try:
        text = repositories.read_file(pull.repository, pull.head_sha, entry.path).decode()
        return {"sql": text, "expects": str(rules.read_check(text)), "error": "", "is_final": False}
    except CheckFileError as error:
        message = f"{entry.path}:{error.line}: {error}"
    except UnicodeDecodeError:
        message = f"{entry.path}:1: It is not text in UTF-8."
    except AppError as error:
        message = f"{entry.path}:1: {error.detail}"
    return _refuse(message)


def _refuse(error: str) -> dict[str, Any]:
    return {"sql": "", "expects": "", "error": error, "is_final": True}


def _follow_check(pull: PullRequest, name: str, described: dict[str, Any], check: PullCheck | None) -> None:
    if check is None:
        PullCheck.objects.update_or_create(pull=pull, name=name, defaults={"head_sha": pull.head_sha, **described})
        return
    is_same = (check.sql, check.expects) == (described["sql"], described["expects"]) and bool(described["sql"])
    if is_same and check.head_sha == pull.head_sha:
        described = {"standing": described["standing"]}
    else:
        # What the text names is known; by whose rights it is read is another matter after each push.
        described = {**described, "names": check.names if is_same else None, "query": None}
    PullCheck.objects.filter(pk=check.pk).update(head_sha=pull.head_sha, **described)


def run_checks(*, pull_id: int) -> None:
    """Start every check of an open pull request that is to be run, by the rights of those who bring it."""
    pull = PullRequest.objects.filter(pk=pull_id, state=PullState.OPEN).select_related("repository", "author").first()
    if pull is None:
        return
    with SLOTS.taking(pull.author_id) as is_taken:
        has_started = is_taken and _start_all(pull)
    if has_started:
        _ring_next(pull)


def _start_all(pull: PullRequest) -> bool:
    """Start every check that is due; return False if something that they need is not there now."""
    for check in _list_due().filter(pull=pull, head_sha=pull.head_sha):
        try:
            _start(pull, check)
        except Unavailable:
            return False  # the sweep rings again
        except AppError as error:
            is_final = error.code in ("bad_sql", "sql_too_long")
            detail = f"{rules.FOLDER}/{check.name.rpartition('/')[2]}{rules.SUFFIX}: {error.detail}"
            _list_due().filter(pk=check.pk, sql=check.sql).update(error=detail, is_final=is_final)
    return True


def _ring_next(ended: PullRequest) -> None:
    # Only what a run changes: checks of an older head would be looked at for ever.
    waiting = _list_due().filter(error="", head_sha=F("pull__head_sha")).exclude(pull=ended).order_by("pull")
    following = next(SLOTS.in_turn(waiting, user="pull__author"), None)
    if following is not None:
        _ring(following.pull_id)


def _list_due() -> QuerySet[PullCheck]:
    """Return those that are to be run; also what could not be: a right may be given, or a dataset have its first data."""
    return PullCheck.objects.filter(query=None, is_final=False, pull__state=PullState.OPEN)


def _start(pull: PullRequest, check: PullCheck) -> None:
    author = principal_for_user(pull.author)
    check_repository(author, pull.repository.name, "read")
    for branch in (pull.source, pull.target):
        sql.check_branch(pull.repository, branch)
    if check.names is None:
        check.names = sql.list_names(check.sql)
        PullCheck.objects.filter(pk=check.pk, sql=check.sql).update(names=check.names)
    named = sql.find_tables(author, pull.repository, branch=pull.source, base=pull.target, names=check.names)
    _check_bringers(pull, named)
    _check_code(pull, named)
    with transaction.atomic():
        query = sql_services.enter_query(
            repository=pull.repository,
            branch=pull.source,
            base=pull.target,
            sql=check.sql,
            by=author,
            named=named,
            check_name=check.name,
        )
        due = _list_due().filter(pk=check.pk, sql=check.sql, head_sha=check.head_sha)
        if not due.update(query=query, error=""):
            transaction.set_rollback(True)  # somebody else was faster, or its text has changed meanwhile


def _check_bringers(pull: PullRequest, named: NamedTables) -> None:
    """Refuse where somebody has brought commits who may not read all that it reads.

    A check says one word about rows to whoever sees the pull request: nobody has others' rights ask for it.

    Raises:
        Conflict: somebody has.

    """
    if not pull.author.is_active:
        raise Conflict(f"{pull.author.username}, who opened it, is no longer active.", code="unreadable")
    for user, sha in list_bringers(pull):
        if not user.is_active or not _can_read(principal_for_user(user), pull, named):
            message = f"{user.username}, who pushed {sha[:7]}, may not read all that it reads."
            raise Conflict(message, code="unreadable")


def _check_code(pull: PullRequest, named: NamedTables) -> None:
    """Refuse hidden columns that the author sees, if the code of the repository may not read them.

    A check can be on the target already, by somebody who brings nothing to the pull request.

    Raises:
        PermissionDenied: it names the dataset and its columns.

    """
    for table in (*named.tables, *named.base_tables):
        hidden = {fold_column(name) for name in list_sensitive_to_code(pull.repository.name, table.path)}
        if table.transaction and not hidden <= set(table.masked):
            check_code_of(pull.repository.name, [table.path])


def _can_read(principal: Principal, pull: PullRequest, named: NamedTables) -> bool:
    read = named.as_json()
    return sql.can_read_tables(principal, branch=pull.source, tables=read["tables"]) and sql.can_read_tables(
        principal, branch=pull.target, tables=read["base_tables"]
    )


def rerun_check(*, pull: PullRequest, name: str, by: Principal) -> None:
    """Run a check once more; one that has not come to an end goes on as it is.

    Raises:
        PermissionDenied: they may not write the repository.
        Conflict: its file is no check, or the pull request is over.

    """
    check_repository(by, pull.repository.name, "write")
    if pull.state != PullState.OPEN:
        raise Conflict(f"The pull request is {pull.state}: its checks are not run again.", code="not_open")
    check = get_query_check(pull, name)
    if check.is_final:
        raise Conflict(f"{check.error} Mend the file and commit it.", code="bad_check")
    with transaction.atomic():
        if check.query is None or check.query.state.is_over:
            PullCheck.objects.filter(pk=check.pk).update(query=None, error="")
        record_pull_act(pull, "rerun_check", by=by, check=name)
        _ring(pull.pk)


def sweep_checks() -> int:
    """Ring again for pull requests some check of which nobody has started."""
    pulls = list(_list_due().filter(error="").order_by("pull").values_list("pull", flat=True).distinct()[:MOST_PULLS])
    for pull_id in pulls:
        doorbell.ring(TASK, queue="quick", id=pull_id)
    return len(pulls)


def list_shown_queries() -> QuerySet[Any, Any]:
    """Return the ids of the queries that some pull request shows."""
    return PullCheck.objects.exclude(query=None).values("query")


def list_pulls_of(query: Query) -> QuerySet[PullRequest]:
    """Return the open pull requests of which a query is a check."""
    return PullRequest.objects.filter(query_checks__query=query.pk, state=PullState.OPEN)
