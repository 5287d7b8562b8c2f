"""The page that says who changed one row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from django.urls import reverse

from webapp.accounts.permissions import find_folder_owner
from webapp.comparisons.queries import blames, ends
from webapp.comparisons.rules.dataset_rules import ComparisonRules
from webapp.comparisons.rules.states import ComparisonState
from webapp.core.errors import AppError
from webapp.core.names import MASTER
from webapp.core.once import asked_once
from webapp.datasets.permissions import see_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from webapp.comparisons.models import Comparison
    from webapp.core.principals import Principal
    from webapp.datasets.models import Dataset

WORDS = {"inserted": ("add", "+", "added"), "deleted": ("del", "−", "removed"), "updated": ("mod", "~", "changed")}
SHORT_SHA = 7


@dataclass(frozen=True)
class Value:
    """One column of the row, before and after."""

    name: str
    before: Any
    after: Any
    is_changed: bool
    is_hidden: bool


@dataclass(frozen=True)
class BlameEntry:
    """One transaction that changed the row."""

    id: str
    change: blames.RowChange
    css: str
    sign: str
    word: str
    values: list[Value]
    same: list[Value]
    """Columns of an update that did not change."""
    several: int
    """Rows beyond the one that is shown: the key is none."""
    compare_url: str
    commit_url: str
    commit: str


@dataclass(frozen=True)
class BlamePage:
    """Context of the page."""

    nav: str
    repo_bar: Mapping[str, str] | None
    dataset: Dataset
    dataset_url: str
    branch: str
    key: list[tuple[str, str | None]]
    columns: list[str]
    """What the form asks for: the columns of the key."""
    state: str
    problem: str
    steps: int
    poll_url: str
    again_url: str
    fields: list[tuple[str, str]]
    entries: list[BlameEntry]
    looked_at: int
    ended: str
    ignored: str
    next_url: str
    is_continued: bool


def read_blame(
    principal: Principal,
    dataset: Dataset,
    *,
    branch: str,
    key: Mapping[str, str | None],
    cursor: str,
    ask: Callable[[blames.Walk], Comparison],
) -> BlamePage:
    """Return the page; a refusal is said above the form that names the row."""
    branch = branch or MASTER
    rules = ends.read_rules(dataset, branch=branch, sight=see_rows(principal, dataset, branch))
    state, problem, comparison, walk = "", "", None, None
    if key:
        try:
            history = blames.find_walk(principal, dataset, branch=branch, key=key, cursor=cursor)
            comparison = ask(history)
            state, problem = comparison.state, comparison.error
            walk = blames.read_walk(comparison, history.sight) if state == ComparisonState.READY else None
        except AppError as error:
            state, problem = "refused", error.detail
    fields = [("branch", branch), *write_key(key), *([("cursor", cursor)] if cursor else [])]
    address = reverse("dataset-blame", args=[dataset.pk])
    owner = find_folder_owner(dataset.path)
    following = [("branch", branch), *write_key(key), ("cursor", walk.next if walk and walk.next else "")]
    return BlamePage(
        nav="datasets",
        repo_bar={"name": owner, "tab": "datasets"} if owner else None,
        dataset=dataset,
        dataset_url=f"/d{dataset.path}?{urlencode({'branch': branch})}",
        branch=branch,
        key=list(key.items()),
        columns=list(key) or list(rules.key),
        state=state,
        problem=problem,
        steps=(comparison.progress or {}).get("steps", 0) if comparison is not None else 0,
        poll_url=f"{address}?{urlencode(fields)}" if state in (ComparisonState.QUEUED, ComparisonState.RUNNING) else "",
        again_url=reverse("dataset-blame-again", args=[dataset.pk]),
        fields=fields,
        entries=[_entry(dataset, number, change, walk.masked) for number, change in enumerate(walk.changes)]
        if walk
        else [],
        looked_at=walk.looked_at if walk else 0,
        ended=walk.ended if walk else "",
        ignored=", ".join(name for name in rules.ignore if name not in key),
        next_url=f"{address}?{urlencode(following)}" if walk and walk.next else "",
        is_continued=bool(cursor),
    )


def _entry(dataset: Dataset, number: int, change: blames.RowChange, masked: Sequence[str]) -> BlameEntry:
    css, sign, word = WORDS[change.change]
    before, after = change.row_before or {}, change.row_after or {}
    names = dict.fromkeys([*after, *before])
    values = [Value(name, before.get(name), after.get(name), name in change.changed, name in masked) for name in names]
    is_update = change.change == "updated" and bool(change.changed)
    shown = [value for value in values if value.is_changed or value.before != value.after] if is_update else values
    job, transaction = change.origin, change.transaction
    query = {
        "tab": "compare",
        "branch": transaction.branch_name,
        "from": transaction.parent_id or "",
        "to": transaction.pk,
    }
    return BlameEntry(
        id=f"change-{number}",
        change=change,
        css=css,
        sign=sign,
        word=word,
        values=shown,
        same=[value for value in values if value not in shown],
        several=max(len(change.before), len(change.after), 1) - 1,
        compare_url=f"/d{dataset.path}?{urlencode(query)}" if transaction.parent_id else "",
        commit_url=reverse("repository-commit", args=[job.repository, job.commit]) if job and job.commit else "",
        commit=job.commit[:SHORT_SHA] if job else "",
    )


def write_key(key: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the parameters of an address that name a key, whose values are as rows show them."""
    fields = []
    for name, value in key.items():
        text = str(value).lower() if isinstance(value, bool) else str(value)
        fields.append(("null", name) if value is None else (f"{blames.PREFIX}{name}", text))
    return fields


def list_row_urls(
    *, dataset: Dataset, branch: str, keys: Sequence[str], rows: Sequence[Mapping[str, Any]]
) -> list[str]:
    """Return where the history of each row is shown; nothing unless all have the dataset's key with their columns shown."""
    rules = ComparisonRules(key=tuple(keys))
    values = [rules.key_of(row) for row in rows]
    if not all(values):
        return []
    return [blame_url(dataset.pk, branch=branch, key=key) for key in values if key is not None]


def blame_url(dataset_id: int, *, branch: str, key: Mapping[str, Any]) -> str:
    """Return the address of the page that says who changed a row."""
    return f"{_begin_url(dataset_id, branch)}&{urlencode(write_key(key), safe='/')}"


@asked_once
def _begin_url(dataset_id: int, branch: str) -> str:
    """Return what the addresses of all rows begin with."""
    return f"{reverse('dataset-blame', args=[dataset_id])}?{urlencode({'branch': branch}, safe='/')}"
