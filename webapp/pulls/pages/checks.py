"""The Checks tab: what machines say of the head, and the queries that it keeps as checks, with what came of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from webapp.pulls.pages.head import PullHead, frame, load, read_head
from webapp.pulls.queries import checked
from webapp.pulls.queries import pulls as queries
from webapp.pulls.rules import states
from webapp.pulls.rules.checks import CheckResult, judge_query
from webapp.repositories.pages.frame import ref_url
from webapp.repositories.rules.checks import WAITING
from webapp.sql.pages import DifferencePart, read_difference
from webapp.sql.rules.states import QueryState

if TYPE_CHECKING:
    from webapp.core.principals import Principal
    from webapp.pulls.models import PullCheck
    from webapp.sql.models import Query

SHOWN_ROWS = 20
"""Of a difference; the page of the query has them all."""


@dataclass(frozen=True)
class QueryBox:
    """One query that the head keeps as a check, and what came of it for this reader."""

    check: PullCheck
    result: CheckResult
    file_url: str
    query: Query | None
    """Its newest run; None before it is started, or where the reader may not see what it read."""
    is_hidden: bool
    """Whether there is a run whose result the reader may not see."""
    detail: str
    """What its result is, beside what it is to be."""
    difference: DifferencePart | None
    may_rerun: bool

    @property
    def origin(self) -> str:
        """How its file stands to the target's; empty where both are the same."""
        return {states.NEW_FILE: "new here", states.OTHER_FILE: "changed here"}.get(self.check.standing, "")


@dataclass(frozen=True)
class PullChecksPage:
    """Context of the Checks tab."""

    nav: str
    repo_bar: dict[str, str]
    head: PullHead
    tab: str
    checks: list[CheckResult]
    boxes: list[QueryBox]
    is_moving: bool

    def list_read(self) -> list[Query]:
        """List the queries of whose rows it shows some."""
        shown = (box.query for box in self.boxes if box.difference is not None and box.difference.table.rows)
        return [query for query in shown if query is not None]


def read_checks(principal: Principal, repository: str, number: int) -> PullChecksPage:
    """Return what the Checks tab shows."""
    loaded = load(principal, repository, number)
    pull = loaded.pull
    head = read_head(principal, loaded)
    boxes = [_read_box(principal, check, head) for check in checked.list_query_checks(pull)]
    return PullChecksPage(
        **frame(repository),
        head=head,
        tab="Checks",
        checks=queries.list_checks(pull),
        boxes=boxes,
        is_moving=head.is_open and any(box.result.state == WAITING for box in boxes),
    )


def _read_box(principal: Principal, check: PullCheck, head: PullHead) -> QueryBox:
    result = judge_query(checked.read_fact(check))
    query = checked.find_shown_run(principal, check)
    verdict = checked.find_verdict(check) if query is not None else None
    is_ready = query is not None and query.state == QueryState.READY and bool(query.summary.get("difference"))
    is_over = check.query is None or check.query.state.is_over
    return QueryBox(
        check=check,
        result=result,
        file_url=ref_url(check.pull.repository, "blob", check.head_sha, f"{check.name}.sql"),
        query=query,
        is_hidden=check.query is not None and query is None,
        detail=verdict.detail if verdict else query.error if query else "",
        difference=read_difference(query, None, size=SHOWN_ROWS) if query is not None and is_ready else None,
        may_rerun=head.is_open and head.may_write and is_over and not check.is_final,
    )
