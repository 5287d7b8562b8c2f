"""The branches of a repository."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from webapp.core.numbered import KeptPage
from webapp.repositories.pages.frame import Frame, frame
from webapp.repositories.queries import branches as branch_queries
from webapp.repositories.queries import code
from webapp.repositories.queries.branches import BranchInfo

if TYPE_CHECKING:
    from collections.abc import Mapping

    from webapp.core.principals import Principal
    from webapp.repositories.models import Repository

BRANCHES_A_PAGE = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchesPage:
    """All branches."""

    frame: Frame
    rows: tuple[BranchInfo, ...]
    q: str
    total: int
    text: str
    previous_url: str
    next_url: str


def branches_page(
    principal: Principal, repository: Repository, *, parameters: Mapping[str, str], q: str = ""
) -> BranchesPage:
    """Collect a page of branches whose name holds a text."""
    common = frame(principal, repository)
    branches = branch_queries.BranchList(repository, q=q)
    scope = f"branches of {repository.name}"
    part = KeptPage.turn(branches, parameters, size=BRANCHES_A_PAGE, scope=scope, total=len(branches))
    rows = part.rows
    newest = code.name_authors(row.commit for row in rows)
    return BranchesPage(
        frame=common,
        rows=tuple(replace(row, commit=commit) for row, commit in zip(rows, newest, strict=True)),
        q=q,
        total=len(branches),
        text=part.text,
        previous_url=part.link(part.previous, q=q),
        next_url=part.link(part.next, q=q),
    )
