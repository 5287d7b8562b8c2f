"""Who changed one row of a dataset: which history is walked, and what the walk found."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from webapp.builds.models import Job
from webapp.comparisons.diffs.artifact import read_json
from webapp.comparisons.diffs.reader import read_slice
from webapp.comparisons.queries import ends
from webapp.comparisons.queries.artifacts import artifact_folder
from webapp.comparisons.rules.changelogs import check_keys, check_seen
from webapp.comparisons.rules.states import ComparisonState, show_state
from webapp.core.errors import Conflict, Gone, InvalidInput, NotFound
from webapp.datasets import queries as datasets
from webapp.datasets.models import Transaction
from webapp.datasets.permissions import see_rows
from webapp.datasets.queries.preview import current_schema, read_metadata

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from django.http import QueryDict

    from webapp.accounts.rules.sight import RowSight
    from webapp.comparisons.models import Comparison
    from webapp.core.principals import Principal
    from webapp.datasets.models import Dataset

PREFIX = "key."
MOST_ROWS = 1_000
"""More than are stored for one key at one end."""
MOST_STEPS = 200
"""Transactions that one question looks at; its answer names where the next goes on."""


@dataclass(frozen=True)
class Walk:
    """A row, and the history in which its changes are looked for."""

    dataset: Dataset
    branch: str
    key: dict[str, str | None]
    start: Transaction | None
    """The newest transaction to look at; None on a branch where nothing is committed."""
    ignore: tuple[str, ...]
    """Columns that pipeline.toml ignores: a row that differs in them only did not change."""
    sight: RowSight
    """What the reader may see of the row."""


@dataclass(frozen=True)
class Origin:
    """What made a transaction."""

    job: str
    build: int
    function: str
    repository: str
    branch: str
    commit: str


@dataclass(frozen=True)
class RowChange:
    """One transaction that changed the row."""

    transaction: Transaction
    change: str
    before: list[dict[str, Any]]
    """One row, unless the key is none."""
    after: list[dict[str, Any]]
    changed: list[str]
    origin: Origin | None

    @property
    def row_before(self) -> dict[str, Any] | None:
        """The row before, the first of several that have the key."""
        return self.before[0] if self.before else None

    @property
    def row_after(self) -> dict[str, Any] | None:
        """The row after, the first of several that have the key."""
        return self.after[0] if self.after else None

    @property
    def rows(self) -> dict[str, list[dict[str, Any]]] | None:
        """All rows before and after, where several have the key."""
        is_one = max(len(self.before), len(self.after)) <= 1
        return None if is_one else {"before": self.before, "after": self.after}


@dataclass(frozen=True)
class BlameWalk:
    """What a walk found."""

    changes: list[RowChange]
    looked_at: int
    ended: str
    """Why it ended early: `expired`."""
    next: str | None
    """The transaction to go on from; None at the beginning of the history."""
    masked: list[str]
    """Columns whose values are hidden from the reader: they are None in every row."""


@dataclass(frozen=True)
class RowBlame:
    """Who changed a row, as far as it is known."""

    walk: Walk
    comparison: Comparison

    @property
    def state(self) -> str:
        """How far it is, as callers see it."""
        return show_state(self.comparison.state)

    @cached_property
    def found(self) -> BlameWalk:
        """What the walk found; until it is ready, how far it is."""
        if self.state == ComparisonState.READY:
            return read_walk(self.comparison, self.walk.sight)
        steps = self.comparison.progress.get("steps", 0)
        return BlameWalk(changes=[], looked_at=steps, ended="", next=None, masked=[])


def read_key(query: QueryDict) -> dict[str, str | None]:
    """Return the key that an address names: `key.<column>=<value>`, and `null=<column>` for NULL."""
    key: dict[str, str | None] = {
        name.removeprefix(PREFIX): str(query[name]) for name in query if name.startswith(PREFIX) and name != PREFIX
    }
    return {**key, **dict.fromkeys((name for name in query.getlist("null") if name), None)}


def find_walk(
    principal: Principal, dataset: Dataset, *, branch: str, key: Mapping[str, str | None], cursor: str
) -> Walk:
    """Read what an address asks for.

    Raises:
        InvalidInput: no key, or one of columns that are not there, or hidden from the reader.
        NotFound: the cursor is no transaction of the branch's history.

    """
    if not key:
        message = "Name the row: key.<column>=<value> for each column of its key, null=<column> where it is NULL."
        raise InvalidInput(message, code="no_key", errors={"key": [message]})
    resolved, head = datasets.parse_view(dataset, branch=branch or None)
    metadata = read_metadata(dataset, branch=resolved, transaction=head)
    check_keys(list(key), current_schema(metadata)["fields"])
    sight = see_rows(principal, dataset, branch or resolved, resolved, head)
    check_seen(key, sight, field="key")
    if cursor and head is not None and cursor not in {row.pk for row in list_line(head)}:
        message = f"Transaction {cursor} is not in the history of {dataset.path} on {resolved}."
        raise NotFound(message, code="bad_cursor")
    start = datasets.get_transaction(dataset, cursor) if cursor else head
    ignore = tuple(name for name in ends.read_rules(dataset, branch=resolved, sight=sight).ignore if name not in key)
    return Walk(dataset, resolved, dict(sorted(key.items())), start, ignore, sight)


def list_line(head: Transaction, *, most: int | None = None) -> list[Transaction]:
    """Return a committed transaction and those it stands on, newest first, each with its parent."""
    rows = {row.pk: row for row in Transaction.objects.filter(dataset=head.dataset_id).select_related("parent")}
    line: list[Transaction] = []
    current = rows.get(head.pk)
    while current is not None and (most is None or len(line) < most):
        line.append(current)
        current = rows.get(current.parent_id or "")
    return line


def read_walk(comparison: Comparison, sight: RowSight) -> BlameWalk:
    """Read what a finished walk found.

    Raises:
        Gone: it has been removed meanwhile.
        Conflict: it is not finished.

    """
    if comparison.after is None:
        message = "Nothing is committed on this branch."
        raise Conflict(message, code="nothing_committed")
    folder = artifact_folder(comparison)
    try:
        summary = read_json(folder, "summary.json")
    except (OSError, ValueError) as error:
        message = "What was found about this row has been removed. Ask again."
        raise Gone(message, code="expired") from error
    line = list_line(comparison.after, most=MOST_STEPS + 1)
    by_id = {row.pk: row for row in line}
    changes = [change for change in summary["changes"] if change["transaction"] in by_id]
    jobs = Job.objects.in_bulk([by_id[change["transaction"]].job_id for change in changes])
    following = summary["next"]
    if following is None and not summary["ended"] and summary["looked_at"] < len(line):
        following = line[summary["looked_at"]].pk
    sides = [
        [_read_rows(folder / f"{number}-{side}.parquet") for side in ("before", "after")]
        for number in range(len(changes))
    ]
    names = dict.fromkeys(name for side in sides for rows in side for row in rows for name in row)
    return BlameWalk(
        changes=[
            RowChange(
                transaction=by_id[change["transaction"]],
                change=change["change"],
                before=[sight.mask(row) for row in sides[number][0]],
                after=[sight.mask(row) for row in sides[number][1]],
                changed=change["changed"],
                origin=_describe_job(jobs.get(by_id[change["transaction"]].job_id)),
            )
            for number, change in enumerate(changes)
        ],
        looked_at=summary["looked_at"],
        ended=summary["ended"],
        next=following,
        masked=sight.pick_hidden(names),
    )


def _read_rows(path: Path) -> list[dict[str, Any]]:
    return read_slice(path, 0, MOST_ROWS) if path.exists() else []


def _describe_job(job: Job | None) -> Origin | None:
    if job is None:
        return None
    return Origin(
        job=job.pk,
        build=job.build_id,
        function=job.function,
        repository=job.repository,
        branch=job.spec_branch,
        commit=job.sha,
    )
