"""The tabs Data and Schema: the datasets of a pull request, one of them in full."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from django.urls import reverse

from webapp.accounts import permissions
from webapp.core.errors import NotFound
from webapp.pulls.diffs.schema import ColumnDiff, SchemaDiff, diff_artifact
from webapp.pulls.queries import charts
from webapp.pulls.queries.artifacts import artifact_folder, first_rows_folder
from webapp.pulls.queries.conversation import frame
from webapp.pulls.queries.head import Loaded, PullHead, load, read_head
from webapp.pulls.queries.progress import Progress, describe_progress, describe_reached
from webapp.pulls.queries.remarks import RowTalk, Viewing, content_of_dataset, place_row_talk, read_viewed
from webapp.pulls.queries.rows import Place, RowsView, read_first_rows, read_rows
from webapp.pulls.queries.sides import Drift, describe_drift
from webapp.pulls.rules import states
from webapp.pulls.rules.dataset_rules import rules_from_json

if TYPE_CHECKING:
    from webapp.accounts.rules.principals import Principal
    from webapp.pulls.models import PullDataset


@dataclass(frozen=True)
class DatasetItem:
    """A dataset in the list beside the diff."""

    path: str
    url: str
    change: str
    icon: str
    tone: str
    counts: tuple[int, int, int] | None
    note: str
    is_current: bool
    schema_note: str
    is_viewed: bool


@dataclass(frozen=True)
class ItemGroup:
    """Datasets changed in the same way."""

    name: str
    items: list[DatasetItem]


@dataclass(frozen=True)
class DatasetView:
    """The chosen dataset in full."""

    path: str
    dataset_id: int | None
    url: str
    change: str
    change_word: str
    state: str
    reason: str
    error: str
    progress: Progress
    reached: Progress
    """Where a failed comparison was stopped."""
    may_cancel: bool
    is_moving: bool
    before_id: str
    after_id: str
    before_branch: str
    after_branch: str
    current: bool
    schema: SchemaDiff | None
    schema_url: str
    rules: list[str]
    rows: RowsView | None
    first_rows: RowsView | None
    """While the comparison runs."""
    statistics: charts.Statistics | None
    retry_url: str
    cancel_url: str
    show: str
    viewing: Viewing
    talk: RowTalk
    drift: Drift | None

    @property
    def stale_text(self) -> str:
        """What a moved target means for these rows."""
        return (
            f"{self.before_branch} has moved since this branch began, so some of these differences may come from there."
            f" Merge {self.before_branch} into {self.after_branch} and build it to see the effect of this branch alone."
        )


@dataclass(frozen=True)
class DataPage:
    """Context of the Data tab."""

    nav: str
    repo_bar: dict[str, str]
    head: PullHead
    tab: str
    groups: list[ItemGroup]
    total: int
    viewed: int
    """How many datasets the reader has ticked."""
    view: DatasetView | None
    pull_url: str
    build_url: str


@dataclass(frozen=True)
class SchemaView:
    """The schema diff of one dataset."""

    path: str
    data_url: str
    change: str
    diff: SchemaDiff | None
    shown: list[ColumnDiff]
    same: list[ColumnDiff]
    reason: str

    @property
    def changes_caption(self) -> str:
        """What a screen reader calls the table of changes."""
        return f"Schema changes of {self.path}"

    @property
    def same_caption(self) -> str:
        """What it calls the table of the rest."""
        return f"Unchanged columns of {self.path}"


@dataclass(frozen=True)
class SchemaPage:
    """Context of the Schema tab."""

    nav: str
    repo_bar: dict[str, str]
    head: PullHead
    tab: str
    views: list[SchemaView]
    unchanged: list[SchemaView]
    missing: list[SchemaView] = field(default_factory=list)


CHANGE_WORDS = {
    states.MODIFIED: "changed",
    states.ADDED: "new",
    states.REMOVED: "removed",
    states.AFFECTED: "downstream only",
}


def read_data(principal: Principal, repository: str, number: int, *, parameters: Mapping[str, Any]) -> DataPage:
    """Return what the Data tab shows."""
    loaded = load(principal, repository, number)
    row = _choose(loaded, str(parameters.get("dataset", "")))
    marks = read_viewed(loaded.pull, {one.path: content_of_dataset(one) for one in loaded.rows}, principal)
    return DataPage(
        **frame(repository),
        head=read_head(principal, loaded),
        tab="Data",
        groups=_group_items(loaded, row, marks),
        total=len(marks),
        viewed=sum(mark.is_viewed for mark in marks.values()),
        view=_view_dataset(loaded, row, parameters, principal, marks[row.path]) if row else None,
        pull_url=loaded.url,
        build_url=reverse("pull-build", args=[repository, number]),
    )


def read_schema(principal: Principal, repository: str, number: int) -> SchemaPage:
    """Return what the Schema tab shows."""
    loaded = load(principal, repository, number)
    views = [_view_schema(loaded, row) for row in loaded.rows]
    return SchemaPage(
        **frame(repository),
        head=read_head(principal, loaded),
        tab="Schema",
        views=[one for one in views if one.diff is not None and one.diff.count],
        unchanged=[one for one in views if one.diff is not None and not one.diff.count],
        missing=[one for one in views if one.diff is None],
    )


def _view_schema(loaded: Loaded, row: PullDataset) -> SchemaView:
    diff = diff_artifact(row.comparison.schema) if row.comparison and row.comparison.schema else None
    columns = diff.columns if diff else ()
    return SchemaView(
        path=row.path,
        data_url=f"{loaded.url}/data?dataset={row.path}",
        change=CHANGE_WORDS.get(row.change, row.change),
        diff=diff,
        shown=[one for one in columns if one.changes],
        same=[one for one in columns if not one.changes],
        reason=row.reason or "Not compared yet.",
    )


# ---- the list of datasets ------------------------------------------------------------------------------------------


def _choose(loaded: Loaded, path: str) -> PullDataset | None:
    """Return the dataset that the address names; else the first with rows to show."""
    if path:
        for row in loaded.rows:
            if row.path == path:
                return row
        message = f"Pull request #{loaded.pull.number} does not touch {path}."
        raise NotFound(message)
    with_rows = [row for row in loaded.rows if row.comparison is not None]
    return next(iter(with_rows or loaded.rows), None)


def _group_items(loaded: Loaded, chosen: PullDataset | None, marks: Mapping[str, Viewing]) -> list[ItemGroup]:
    kinds = [
        ("Code or data changed", (states.MODIFIED, states.ADDED, states.REMOVED)),
        ("Downstream only", (states.AFFECTED,)),
    ]
    groups = []
    for name, changes in kinds:
        items = [
            _item(loaded, row, is_current=row is chosen, is_viewed=marks[row.path].is_viewed)
            for row in loaded.rows
            if row.change in changes
        ]
        if items:
            groups.append(ItemGroup(name, items))
    return groups


_ICONS = {
    states.ADDED: ("diff-added", "okc"),
    states.REMOVED: ("diff-removed", "badc"),
    states.MODIFIED: ("diff-modified", "warnc"),
    states.AFFECTED: ("git-compare", ""),
}


def _item(loaded: Loaded, row: PullDataset, *, is_current: bool, is_viewed: bool) -> DatasetItem:
    icon, tone = _ICONS.get(row.change, ("table", ""))
    comparison = row.comparison
    counts = None
    note = "not compared"
    if comparison is not None:
        note = {states.QUEUED: "queued", states.RUNNING: "comparing", states.FAILED: "comparison failed"}.get(
            comparison.state, ""
        )
        if comparison.state == states.READY:
            summary = comparison.summary
            counts = (int(summary.get("inserted", 0)), int(summary.get("deleted", 0)), int(summary.get("updated", 0)))
    schema = {states.BREAKING: "schema breaks", states.CHANGED: "schema changed"}.get(row.schema_status, "")
    url = f"{loaded.url}/data?{urlencode({'dataset': row.path}, safe='/')}"
    return DatasetItem(row.path, url, row.change, icon, tone, counts, note, is_current, schema, is_viewed)


# ---- one dataset ---------------------------------------------------------------------------------------------------


def _view_dataset(
    loaded: Loaded, row: PullDataset, parameters: Mapping[str, Any], principal: Principal, viewing: Viewing
) -> DatasetView:
    comparison = row.comparison
    show = "statistics" if parameters.get("show") == "statistics" else "rows"
    state = comparison.state if comparison else states.NOT_COMPARED
    ready = comparison is not None and comparison.state == states.READY
    pull = loaded.pull
    export = [pull.repository.name, pull.number, row.dataset_id or 0]
    place = Place(
        url=f"{loaded.url}/data",
        keeps={"dataset": row.path},
        csv_url=reverse("api-pull-rows-csv", args=export),
        parquet_url=reverse("api-pull-rows-parquet", args=export),
        dataset_id=row.dataset_id,
        branch=pull.source,
    )
    rows = None
    if ready and comparison and show == "rows":
        rows = read_rows(artifact_folder(comparison), parameters=parameters, place=place)
    return DatasetView(
        path=row.path,
        dataset_id=row.dataset_id,
        url=f"{loaded.url}/data?{urlencode({'dataset': row.path}, safe='/')}",
        change=row.change,
        change_word=CHANGE_WORDS.get(row.change, row.change),
        state=state,
        reason=row.reason,
        error=comparison.error if comparison else "",
        progress=describe_progress(comparison),
        reached=describe_reached(comparison),
        may_cancel=permissions.can_repository(principal, pull.repository.name, "write"),
        is_moving=state in (states.QUEUED, states.RUNNING),
        before_id=row.before_id or "",
        after_id=row.after_id or "",
        before_branch=pull.target,
        after_branch=pull.source,
        current=row.current,
        schema=diff_artifact(comparison.schema) if comparison and comparison.schema else None,
        schema_url=f"{loaded.url}/schema#{row.path}",
        rules=rules_from_json(comparison.rules).describe() if comparison else [],
        rows=rows,
        first_rows=read_first_rows(first_rows_folder(comparison), place=place),
        statistics=charts.read_statistics(
            artifact_folder(comparison), before=pull.target, after=pull.source, scope=str(parameters.get("scope", ""))
        )
        if ready and comparison and show == "statistics"
        else None,
        retry_url=reverse("pull-compare-again", args=[pull.repository.name, pull.number]),
        cancel_url=reverse("pull-compare-cancel", args=[pull.repository.name, pull.number]),
        show=show,
        viewing=viewing,
        drift=describe_drift(row, ours={one.path for one in loaded.rows}),
        talk=place_row_talk(row, {line.n: line.key for line in rows.table.rows} if rows else {}, principal),
    )
