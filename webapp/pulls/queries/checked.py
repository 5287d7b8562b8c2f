"""Queries that the head of a pull request keeps as checks, and how each stands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from webapp.accounts import permissions
from webapp.core.errors import NotFound
from webapp.pulls.models import PullCheck
from webapp.pulls.rules.checks import QueryFact
from webapp.sql import queries as sql
from webapp.sql.rules.checks import judge, read_expectation
from webapp.sql.rules.states import QueryState

if TYPE_CHECKING:
    from django.db.models import QuerySet

    from webapp.core.principals import Principal
    from webapp.pulls.models import PullRequest
    from webapp.sql.models import Query
    from webapp.sql.rules.checks import CheckVerdict


def list_query_checks(pull: PullRequest) -> QuerySet[PullCheck]:
    """List the queries of a pull request with their newest runs, by name."""
    return pull.query_checks.select_related("pull__repository", "query__by", "query__repository")


def get_query_check(pull: PullRequest, name: str) -> PullCheck:
    """Return one of them.

    Raises:
        NotFound: the head has none of this name.

    """
    check = list_query_checks(pull).filter(name=name).first()
    if check is None:
        raise NotFound(f"Pull request #{pull.number} has no check {name} that is a query.")
    return check


def read_fact(check: PullCheck) -> QueryFact:
    """Return what the rules look at."""
    return QueryFact(
        id=check.pk,
        name=check.name,
        expects=check.expects,
        error=check.error,
        is_of_head=check.head_sha == check.pull.head_sha,
        run=check.query.state if check.query else None,
        verdict=find_verdict(check),
    )


def find_verdict(check: PullCheck) -> CheckVerdict | None:
    """Return whether its result is as expected; None before there is one."""
    if check.query is None or check.query.state != QueryState.READY:
        return None
    return judge(read_expectation(check.expects), check.query.summary)


def find_shown_run(principal: Principal, check: PullCheck) -> Query | None:
    """Return its newest run where somebody may see what it read, and so what came of it."""
    query = check.query
    can_see = query is not None and permissions.can_repository(principal, query.repository.name, "read")
    return query if query is not None and can_see and sql.can_read(principal, query) else None
