"""The branches of a repository."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from webapp.repositories.pages.frame import Frame, frame, number_pages
from webapp.repositories.queries import branches as branch_queries
from webapp.repositories.queries import code
from webapp.repositories.queries.branches import BranchInfo

if TYPE_CHECKING:
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


def branches_page(principal: Principal, repository: Repository, *, q: str = "", page: int = 1) -> BranchesPage:
    """Collect a page of branches whose name holds a text."""
    common = frame(principal, repository)
    branches = branch_queries.BranchList(repository, q=q)
    start = (page - 1) * BRANCHES_A_PAGE
    rows = branches[start : start + BRANCHES_A_PAGE]
    newest = code.name_authors(row.commit for row in rows)
    write = number_pages(q)
    return BranchesPage(
        frame=common,
        rows=tuple(replace(row, commit=commit) for row, commit in zip(rows, newest, strict=True)),
        q=q,
        total=len(branches),
        text=f"{start + 1}–{start + len(rows)} of {len(branches):,}" if rows else "",
        previous_url=write(page - 1) if page > 1 else "",
        next_url=write(page + 1) if start + len(rows) < len(branches) else "",
    )
