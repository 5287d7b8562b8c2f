"""What the Compare tab of a dataset shows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from django.urls import reverse

from webapp.accounts import permissions
from webapp.comparisons.diffs.schema import ColumnDiff, SchemaDiff, diff_artifact
from webapp.comparisons.pages import charts
from webapp.comparisons.pages.progress import ComparisonProgress, describe_progress, describe_reached
from webapp.comparisons.pages.rows import DiffPlace, RowsView, read_first_rows, read_rows
from webapp.comparisons.queries import ends
from webapp.comparisons.queries.artifacts import artifact_folder, first_rows_folder
from webapp.comparisons.rules import states
from webapp.comparisons.rules.states import ComparisonState
from webapp.core.choices import Choices, choose
from webapp.core.errors import AppError
from webapp.datasets.queries import list_transactions
from webapp.datasets.queries.history import list_names

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from webapp.comparisons.queries.ends import ComparedEnds
    from webapp.core.principals import Principal
    from webapp.datasets.models import Dataset, Transaction

OFFERED = 30
"""Newest transactions in the lists of what to compare."""
SHOWN_BETWEEN = 50


@dataclass(frozen=True)
class CompareRequest:
    """What the address asks to compare."""

    start: str
    end: str
    keys: str
    branch: str

    @classmethod
    def parse(cls, dataset: Dataset, parameters: Mapping[str, Any]) -> CompareRequest:
        """Read an address; what it leaves out is suggested."""
        branch = str(parameters.get("branch", ""))
        start, end = str(parameters.get("from", "")).strip(), str(parameters.get("to", "")).strip()
        if not start and not end:
            start, end = ends.suggest_ends(dataset, branch)
        return cls(start, end, str(parameters.get("keys", "")).strip(), branch)

    @property
    def key_list(self) -> list[str] | None:
        """The identifier columns; None where the repository's rules decide."""
        return [name.strip() for name in self.keys.split(",") if name.strip()] or None

    @property
    def address(self) -> dict[str, str]:
        """The parameters that lead here again."""
        values = {"branch": self.branch, "from": self.start, "to": self.end, "keys": self.keys}
        return {name: value for name, value in values.items() if value}


@dataclass(frozen=True)
class ComparedStep:
    """One transaction between the two ends."""

    transaction: Transaction
    changed: ends.Changed | None
    compare_url: str


@dataclass(frozen=True)
class Steps:
    """The transactions of one end since the last one that both have."""

    title: str
    rows: list[ComparedStep]
    more: int


@dataclass(frozen=True)
class ComparisonView:
    """Two ends compared."""

    path: str
    url: str
    before: ends.ComparedEnd
    after: ends.ComparedEnd
    state: str
    reason: str
    error: str
    progress: ComparisonProgress
    reached: ComparisonProgress
    """Where a failed comparison was stopped."""
    may_cancel: bool
    is_moving: bool
    poll_url: str
    again_url: str
    cancel_url: str
    fields: list[tuple[str, str]]
    show: str
    rows: RowsView | None
    first_rows: RowsView | None
    """While the comparison runs."""
    statistics: charts.StatisticsTable | None
    rules: list[str]
    schema: SchemaDiff | None
    schema_changed: list[ColumnDiff]
    schema_same: list[ColumnDiff]
    base: Transaction | None
    steps: list[Steps]


@dataclass(frozen=True)
class ComparisonPage:
    """Context of the fragment."""

    dataset: Dataset
    page_url: str
    asked: CompareRequest
    branches: Choices
    """The first of them, and how many more there are."""
    transactions: list[tuple[str, str]]
    swap_url: str
    view: ComparisonView | None
    problem: str


def read_compare(
    principal: Principal,
    dataset: Dataset,
    *,
    request: CompareRequest,
    parameters: Mapping[str, Any],
    find: Callable[[], ComparedEnds],
) -> ComparisonPage:
    """Return what the fragment shows; a refusal is said above the form that chooses the ends."""
    view, problem = None, ""
    if request.start and request.end:
        try:
            may_cancel = permissions.can_dataset(principal, dataset.path, "write")
            view = _view(find(), request, parameters, may_cancel=may_cancel)
        except AppError as error:
            problem = error.detail
    offered = [
        (row.pk, f"{row.pk[: ends.SHORT_ID]} on {row.branch_name}, {row.started_at:%Y-%m-%d %H:%M}")
        for row in list_transactions(dataset, aborted=False).filter(closed_at__isnull=False)[:OFFERED]
    ]
    branches = choose(list_names(dataset))
    names = {*branches.names, *(pk for pk, _ in offered)}
    offered += [(name, name) for name in dict.fromkeys((request.start, request.end)) if name and name not in names]
    return ComparisonPage(
        dataset=dataset,
        page_url=f"/d{dataset.path}",
        asked=request,
        branches=branches,
        transactions=offered,
        swap_url=_address(dataset, {**request.address, "from": request.end, "to": request.start}),
        view=view,
        problem=problem,
    )


def _address(dataset: Dataset, query: Mapping[str, str]) -> str:
    return f"/d{dataset.path}?{urlencode({'tab': 'compare', **query}, safe='/')}"


def _view(
    pair: ComparedEnds, request: CompareRequest, parameters: Mapping[str, Any], *, may_cancel: bool
) -> ComparisonView:
    dataset, comparison = pair.dataset, pair.comparison
    state = comparison.state if comparison is not None else states.NOT_COMPARED
    show = "statistics" if parameters.get("show") == "statistics" else "rows"
    folder = artifact_folder(comparison) if comparison is not None and state == ComparisonState.READY else None
    schema = diff_artifact(comparison.schema) if comparison is not None else None
    columns = schema.columns if schema is not None else ()
    url = _address(dataset, request.address)
    between = pair.between
    export = urlencode({name: value for name, value in request.address.items() if name != "branch"})
    place = DiffPlace(
        url=f"/d{dataset.path}",
        keeps={"tab": "compare", **request.address},
        csv_url=f"{reverse('api-dataset-compare-csv', args=[dataset.pk])}?{export}",
        parquet_url=f"{reverse('api-dataset-compare-parquet', args=[dataset.pk])}?{export}",
        dataset_id=dataset.pk,
        branch=pair.after.branch,
    )
    return ComparisonView(
        path=dataset.path,
        url=url,
        before=pair.before,
        after=pair.after,
        state=state,
        reason=pair.reason,
        error=comparison.error if comparison is not None else "",
        progress=describe_progress(comparison),
        reached=describe_reached(comparison),
        may_cancel=may_cancel,
        is_moving=state in (ComparisonState.QUEUED, ComparisonState.RUNNING),
        poll_url=f"{reverse('dataset-compare', args=[dataset.pk])}?{urlencode(list(parameters.items()))}",
        again_url=reverse("dataset-compare-again", args=[dataset.pk]),
        cancel_url=reverse("dataset-compare-cancel", args=[dataset.pk]),
        fields=list(request.address.items()),
        show=show,
        rows=read_rows(folder, pair.sight, parameters=parameters, place=place) if folder and show == "rows" else None,
        first_rows=read_first_rows(first_rows_folder(comparison), pair.sight, place=place),
        statistics=charts.read_statistics(
            folder,
            pair.sight,
            url=f"{url}&show=statistics",
            parameters=parameters,
            before=pair.before.name,
            after=pair.after.name,
        )
        if folder and show == "statistics"
        else None,
        rules=pair.rules.describe(),
        schema=schema,
        schema_changed=[column for column in columns if column.changes],
        schema_same=[column for column in columns if not column.changes],
        base=between.base,
        steps=_list_steps(pair, between),
    )


def _list_steps(pair: ComparedEnds, between: ends.Between) -> list[Steps]:
    changes = ends.list_changes([*between.came[:SHOWN_BETWEEN], *between.left[:SHOWN_BETWEEN]])
    groups = ((f"Only in {pair.after.name}", between.came), (f"Only in {pair.before.name}", between.left))
    return [
        Steps(
            title=title,
            rows=[_step(pair.dataset, row, changes.get(row.pk)) for row in rows[:SHOWN_BETWEEN]],
            more=max(0, len(rows) - SHOWN_BETWEEN),
        )
        for title, rows in groups
        if rows
    ]


def _step(dataset: Dataset, row: Transaction, changed: ends.Changed | None) -> ComparedStep:
    query = {"branch": row.branch_name, "from": row.parent_id or "", "to": row.pk}
    return ComparedStep(row, changed, _address(dataset, query) if row.parent_id else "")
